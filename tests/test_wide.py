"""Rows that are few beside their features: problems in coordinates of the space they span."""

import itertools
import pickle
import tracemalloc

import numpy as np
import pytest
from covering import covering
from interruption import WATCH
from losses import ALL, EPSILON, LOSSES
from rows import convert
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosRegressor,
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosOneClass,
    PegasosRegressor,
    _core,
)
from pegasos.problems import _rows, _validate


@pytest.fixture(autouse=True)
def small_rows(monkeypatch):
    """Small rows are moved to their span as large ones are, for which BLAS takes all the time."""
    monkeypatch.setattr(_rows, "_SECONDS_BESIDE", 0)


@pytest.fixture
def spans(monkeypatch):
    """The spans that are found, in their order."""
    found, init = [], _rows.Span.__init__

    def noted(span, rows):
        init(span, rows)
        found.append(span)

    monkeypatch.setattr(_rows.Span, "__init__", noted)
    return found


def make_wide(rng, n=40, d=300, dtype=np.float64):
    """Counts whose columns have scales from 1e-2 to 1e3, and labels that need all of them."""
    X = rng.poisson(np.exp(rng.normal(0, 2, d)), (n, d)) * 10 ** rng.uniform(-2, 1, d)
    score = (X - X.mean(0)) / (X.std(0) + 1) @ rng.normal(size=d)
    y = (score + score.std() * rng.normal(size=n) > np.median(score)).astype(int)
    return X.astype(dtype), y, score / score.std()


# ---- The coordinates -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "zero rows", "repeated rows", "far from 0", "of 1e100"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["dense", "csr32", "csr64"])
def test_coordinates_have_the_products_and_the_scores_of_rows(kind, dtype, layout, rng):
    X = rng.normal(size=(30, 200)) * 10 ** rng.uniform(-3, 3, (30, 1))
    if kind == "zero rows":
        X[::4] = 0
    if kind == "repeated rows":
        X[1::2] = X[::2]
    if kind == "far from 0":
        X += 1e4
    if kind == "of 1e100":
        X *= 1e100 if dtype == np.float64 else 1e15
    X = X.astype(dtype)
    rows, _ = _validate.rows(convert(X, layout, dtype))
    span, exact = _rows.Span(rows), X.astype(np.float64)
    L = np.asarray(span.rows.arrays[0])
    length = np.linalg.norm(exact, axis=1)
    bound = 1e-12 * length[:, None] * length
    assert (np.abs(L @ L.T - exact @ exact.T) <= bound).all()
    inside = rng.normal(size=(2, 30)) @ (exact / np.where(length > 0, length, 1)[:, None])
    outside = rng.normal(size=(2, 200))
    for w in (inside, outside):
        v = span.coordinates(w)
        scale = 1e-7 * np.linalg.norm(w, axis=1) * length[:, None]
        assert (np.abs(L @ v.T - exact @ w.T) <= scale).all()
        assert (np.linalg.norm(v, axis=1) <= np.linalg.norm(w, axis=1) * (1 + 1e-6)).all()
        # Rounding errors of products are those of the matrix of all of them, so a root is left.
        assert (np.abs(exact @ span.coef(v).T - exact @ w.T) <= scale).all()


def test_spans_are_found_of_rows_whose_arrays_are_longer(rng):
    X = sparse.csr_array(rng.normal(size=(10, 40)))
    longer = X.copy()
    longer.data, longer.indices = (np.concatenate([a, a[:7]]) for a in (X.data, X.indices))
    L, other = (
        np.asarray(_rows.Span(_validate.rows(own, checked=True)[0]).rows.arrays[0])
        for own in (X, longer)
    )
    np.testing.assert_array_equal(L, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_span_of_sparse_rows_takes_no_more_than_a_copy_of_them(dtype, monkeypatch):
    monkeypatch.setattr(_rows, "_NUMBERS_AT_ONCE", 2**12)
    X = sparse.random_array((50, 20_000), density=0.2, format="csr", random_state=0, dtype=dtype)
    rows, n_bytes = _validate.rows(X, checked=True)[0], X.data.nbytes + X.indices.nbytes
    tracemalloc.start()
    try:
        _rows.Span(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * n_bytes  # with ends of columns, and blocks


def test_rows_that_span_few_dimensions_are_finite():
    X = np.ones((20, 40))
    assert _rows.are_wide(_core.Rows(X))
    assert _rows.are_wide(_core.Rows(X.astype(np.float32)))
    assert not _rows.are_wide(_core.Rows(np.ascontiguousarray(X[:, :39])))
    assert not _rows.are_wide(_core.Rows(X * 1e200))  # whose squares overflow


# ---- Fits ----------------------------------------------------------------------------------------


@covering(
    strength=2,
    loss=ALL,
    intercept=["penalised", "free", "none"],
    dtype=[np.float32, np.float64],
    weighted=[False, True],
    C=[1e-4, 1.0],
    solver=["auto", "newton"],
    layout=["dense", "csr32", "csr64"],
)
def test_fits_have_the_optimum_of_a_linear_kernel(
    loss, intercept, dtype, weighted, C, solver, layout, rng, spans
):
    X, y, z = make_wide(rng, dtype=dtype)
    X -= X.mean(axis=0)
    X /= np.abs(X).max()
    weights = rng.integers(0, 3, len(X)).astype(float) if weighted else None
    options = {"loss": loss, "C": 1e3 * C, "tol": 1e-6, "max_iter": 10**5}
    options |= {"fit_intercept": intercept != "none"}
    options |= {"penalize_intercept": intercept == "penalised"}
    is_classifier = loss in LOSSES
    if not is_classifier and loss != "squared_error":
        options["epsilon"] = EPSILON
    linear, kernel = (
        (PegasosClassifier, KernelPegasosClassifier)
        if is_classifier
        else (PegasosRegressor, KernelPegasosRegressor)
    )
    target = y if is_classifier else z
    clf = linear(solver=solver, **options).fit(convert(X, layout, dtype), target, weights)
    assert spans or C == 1e-4
    other = kernel(kernel="linear", **options).fit(X, target, weights)
    np.testing.assert_allclose(clf.objective_, other.objective_, rtol=3e-6)
    assert (clf.duality_gap_ <= 1e-6 * clf.objective_ + 1e-12).all()
    # The certificate is that of the rows themselves.
    sign = np.where(y == 1, 1, -1) if is_classifier else 1
    scores = X.astype(np.float64) @ clf.coef_.ravel() + clf.intercept_
    u = 1 - sign * scores if is_classifier else z - scores
    squared_norm = (clf.coef_**2).sum() + (intercept == "penalised") * (clf.intercept_**2).sum()
    mean = np.average(ALL[loss](u), weights=weights)
    assert clf.objective_ == pytest.approx(clf.lam_ / 2 * squared_norm + mean, rel=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_wide_rows_of_many_scales_reach_the_gap(loss, rng):
    """Dual ascent alone does not, in as many epochs."""
    X, y, _ = make_wide(rng, 60, 3000)
    options = {"loss": loss, "C": 10.0, "tol": 1e-4, "max_iter": 700}
    clf = PegasosClassifier(**options).fit(X, y)
    assert clf.duality_gap_ <= 1e-4 * clf.objective_
    with pytest.warns(ConvergenceWarning):
        PegasosClassifier(solver="sdca", **options).fit(X, y)


def test_several_problems_share_the_span(rng, spans):
    X, _, z = make_wide(rng)
    y = np.digitize(z, [-0.5, 0.5])
    clf = PegasosClassifier(tol=1e-5).fit(X, y)
    PegasosRegressor(tol=1e-5).fit(X, np.c_[z, z**2])
    PegasosOneClass(nu=0.2, tol=1e-5).fit(X)
    assert len(spans) == 3
    for k in range(3):
        alone = PegasosClassifier(tol=1e-5).fit(X, y == k)
        np.testing.assert_allclose(clf.objective_[k], alone.objective_, rtol=2e-5)


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5, 8, 30])
def test_epochs_are_those_that_were_asked_for(max_iter, rng):
    X, y, _ = make_wide(rng)
    with pytest.warns(ConvergenceWarning):
        clf = PegasosClassifier(random_state=0, C=1.0, tol=1e-8, max_iter=max_iter).fit(X, y)
    assert clf.n_iter_ == max_iter == sum(clf.solver_epochs_.values())


def test_easy_fits_need_no_span(rng, spans):
    X, y, _ = make_wide(rng, 200, 2000)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    PegasosClassifier(loss="log_loss", C=1e-3).fit(X, y)
    assert not spans


def test_a_search_is_over_coordinates(rng, spans):
    X, y, _ = make_wide(rng, 60, 500)
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1)
    wide = PegasosClassifierCV(Cs=[1e-4, 1e-2, 1], cv_effort=1e-5).fit(X, y)
    assert spans
    other = PegasosClassifierCV(Cs=[1e-4, 1e-2, 1], cv_effort=1e-5, solver="sdca", max_iter=10**5)
    other.fit(X, y)
    found, wanted = (c.cv_results_["mean_test_score"] for c in (wide, other))
    np.testing.assert_allclose(found, wanted, atol=0.04)


@pytest.mark.parametrize("kind", ["far from 0", "a large column", "centred", "repeated rows"])
def test_a_search_is_over_features_where_coordinates_are_not_exact_enough(kind, rng, monkeypatch):
    X = rng.normal(size=(60, 200))
    X[:, :3] *= 10
    y = (X[:, :3].sum(axis=1) > 0).astype(int)
    X -= X.mean(axis=0)
    if kind == "repeated rows":
        X[40:], y[40:] = X[20:40], y[20:40]
    if kind == "far from 0":
        X += 1e8
    if kind == "a large column":
        X[:, -1] += 1e10
    assert _rows.Span(_core.Rows(X)).is_sure == (kind in ("centred", "repeated rows"))
    options = {"Cs": [1e-2, 1], "cv_effort": 1e-3, "penalize_intercept": False}
    found = PegasosClassifierCV(**options).fit(X, y).cv_results_["mean_test_score"]
    monkeypatch.setattr(_rows, "span_few", lambda n, d: False)
    wanted = PegasosClassifierCV(**options).fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, wanted, atol=0.05)


# ---- Stops, other data, saved states -------------------------------------------------------------


def stopped_now_and_then(clf, X, y, stops, between):
    """Fit with Ctrl-C at the `stops`; `between` makes the estimator that goes on."""
    asks, n_stops = itertools.count(1), 0

    def watch(on_poll=None, **options):
        def told():
            if next(asks) in stops:
                raise KeyboardInterrupt
            if on_poll is not None:
                on_poll()

        return WATCH(told, **options | {"every": 1e3})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "Watch", watch)
        while True:
            try:
                return clf.fit(X, y), n_stops
            except KeyboardInterrupt:
                n_stops += 1
                clf = between(clf)


@covering(
    strength=2,
    between=["nothing", "a pickle"],
    loss=["hinge", "squared_hinge", "log_loss"],
    dtype=[np.float32, np.float64],
)
def test_fits_that_are_stopped_anywhere_have_the_same_bits(loss, between, dtype, rng):
    X, _, z = make_wide(rng, 30, 200, dtype)
    y = np.digitize(z, [-0.5, 0.5])
    machine = PegasosClassifier(loss=loss, C=1.0, tol=1e-5, warm_start=True, random_state=0)
    go_on = (lambda c: c) if between == "nothing" else (lambda c: pickle.loads(pickle.dumps(c)))
    whole, _ = stopped_now_and_then(machine, X, y, (), go_on)
    for stops in (range(1, 400, 17), (3, 40, 41), range(1, 20)):
        cut, n_stops = stopped_now_and_then(
            PegasosClassifier(**machine.get_params()), X, y, set(stops), go_on
        )
        assert n_stops > 2
        np.testing.assert_array_equal(cut.coef_, whole.coef_)
        np.testing.assert_array_equal(cut.intercept_, whole.intercept_)
        assert cut.n_iter_ == whole.n_iter_


def test_a_gap_that_was_near_and_grew_is_not_asked_again(monkeypatch):
    """After 4 epochs it is near, so that features stay for 4 more; after 6, it is five times it."""
    monkeypatch.setattr(_rows.Span, "passes", lambda rows: 8)
    rng = np.random.default_rng(292)
    n = rng.integers(15, 60)
    X = rng.normal(size=(n, 2 * n + rng.integers(0, 2 * n)))
    X *= 10 ** rng.uniform(-1, [0, 0.5, 1][rng.integers(3)], X.shape[1])
    z = X @ rng.normal(size=X.shape[1])
    y = (z + z.std() * rng.normal(size=n) > 0).astype(int)
    machine = PegasosClassifier(
        C=0.004765, penalize_intercept=False, tol=1e-4, warm_start=True, random_state=0
    )
    whole, _ = stopped_now_and_then(machine, X, y, (), None)
    for stop in range(100, 130):
        cut, n_stops = stopped_now_and_then(
            PegasosClassifier(**machine.get_params()), X, y, {stop}, lambda c: c
        )
        assert n_stops == 1
        np.testing.assert_array_equal(cut.coef_, whole.coef_)


@pytest.mark.parametrize("between", ["nothing", "a pickle"])
def test_features_that_came_back_stay_where_a_fit_is_stopped(between, rng):
    X, y, _ = make_wide(rng)
    X = rng.normal(size=X.shape) + 1e6
    machine = PegasosClassifier(
        loss="squared_hinge", C=1.0, max_iter=200, warm_start=True, random_state=0
    )
    go_on = (lambda c: c) if between == "nothing" else (lambda c: pickle.loads(pickle.dumps(c)))
    whole, _ = stopped_now_and_then(machine, X, y, (), go_on)
    assert "solver.span" not in whole._state
    cut, _ = stopped_now_and_then(
        PegasosClassifier(**machine.get_params()), X, y, range(1, 4000, 17), go_on
    )
    np.testing.assert_array_equal(cut.coef_, whole.coef_)
    assert cut.n_iter_ == whole.n_iter_
    n_epochs = whole.n_iter_
    assert whole.fit(X, y).n_iter_ == n_epochs
    whole._state["solver.is_wide"] += 2
    with pytest.raises(ValueError, match=r"damaged.*solver\.is_wide does not fit"):
        whole.fit(X, y)


@pytest.mark.parametrize("change", ["other rows", "sparse rows", "pegasos", "weights"])
@pytest.mark.parametrize("is_pickled", [False, True])
def test_a_warm_start_may_have_other_data(change, is_pickled, rng):
    X, y, _ = make_wide(rng)
    clf = PegasosClassifier(
        random_state=0, lam=0.02, tol=1e-6, max_iter=10**5, warm_start=True
    ).fit(X, y)
    clf = pickle.loads(pickle.dumps(clf)) if is_pickled else clf
    weights = None
    if change == "pegasos":
        clf.set_params(solver="pegasos", tol=None, max_iter=1)
        clf.fit(X, y)
        assert clf.solver_epochs_["pegasos"] >= 1
        clf.set_params(solver="auto", tol=1e-6, max_iter=10**5)
    elif change == "other rows":
        X, y, _ = make_wide(rng)
    elif change == "sparse rows":
        X = sparse.csr_array(X)
        clf.set_params(solver="newton")
    elif change == "weights":
        weights = rng.integers(1, 4, len(y))
    clf.fit(X, y, weights)
    again = PegasosClassifier(random_state=0, lam=0.02, tol=1e-6, max_iter=10**5, solver=clf.solver)
    again.fit(X, y, weights)
    np.testing.assert_allclose(clf.objective_, again.objective_, rtol=2e-6)


def test_a_fit_that_has_ended_makes_no_epoch_again(rng):
    X, y, _ = make_wide(rng)
    clf = PegasosClassifier(random_state=0, C=1.0, warm_start=True).fit(X, y)
    assert clf.fit(X, y).n_iter_ == PegasosClassifier(random_state=0, C=1.0).fit(X, y).n_iter_


def test_states_have_no_span_of_rows_that_are_not_wide(rng):
    X, y, _ = make_wide(rng)
    wide, other = (
        PegasosClassifier(random_state=0, C=1.0, warm_start=True).fit(X[:, :d], y)
        for d in (300, 79)
    )
    for name in ("span", "coef"):
        state = wide._state[f"solver.{name}"]
        wide._state[f"solver.{name}"] = state[..., :-1].copy()
        with pytest.raises(ValueError, match=f"damaged.*solver.{name} must have"):
            wide.fit(X, y)
        wide._state[f"solver.{name}"] = state
    memory = np.zeros((1, _core.Fits.n_bytes(40, 40)), np.uint8)
    of_span = {"span": np.zeros(1, np.int64), "coef": np.zeros((1, 79)), "memory": memory}
    other._state |= {f"solver.{name}": array for name, array in of_span.items()}
    with pytest.raises(ValueError, match=r"damaged.*solver\.span does not fit"):
        other.fit(X[:, :79], y)


def test_features_come_back_where_coordinates_are_not_exact_enough(rng, monkeypatch):
    X, y, _ = make_wide(rng)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    exact = _rows.Span.coef
    monkeypatch.setattr(_rows.Span, "coef", lambda span, v: 1.02 * exact(span, v))
    clf = PegasosClassifier(C=100.0, random_state=0, warm_start=True).fit(X, y)
    assert clf.duality_gap_ <= 1e-3 * clf.objective_
    assert "solver.span" not in clf._state
