"""Rows far from 0, rows of extreme size: what kernels make of them, and what is refused."""

import tracemalloc
import warnings

import numpy as np
import pytest
from interruption import assert_stops_change_nothing
from losses import LOSSES
from rows import convert
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosRegressor,
    _core,
    kernels,
)
from pegasos.kernels._scale import scale


@pytest.fixture
def moons():
    return make_moons(300, noise=0.1, random_state=0)


@pytest.mark.parametrize("offset", [1e3, 1e4, 1e6, (0, 1e5)])
@pytest.mark.parametrize(("kernel", "gamma"), [("rbf", 2.0), ("rbf", "scale"), ("laplacian", 1.0)])
def test_where_zero_is_changes_nothing(moons, layout, dtype, kernel, gamma, offset):
    X, y = moons
    far = (X + offset).astype(dtype)
    near = (far.astype(np.float64) - offset).astype(dtype)  # without rounding
    gamma = scale(near, None) if gamma == "scale" else gamma
    options = {"kernel": kernel, "gamma": gamma, "tol": 1e-4, "random_state": 0}
    clf, other = (
        KernelPegasosClassifier(lam=1e-2, **options).fit(convert(rows, layout, dtype), y)
        for rows in (far, near)
    )
    np.testing.assert_allclose(clf.objective_, other.objective_, rtol=2e-4)
    given, far, near = far, far[::-2], near[::-2]
    scores = [clf.decision_function(convert(far, layout, dtype))]
    scores += [
        clf.to_model().decision_function(convert(rows, layout, dtype)) for rows in (far, far[:1])
    ]
    expected = other.decision_function(convert(near, layout, dtype))
    vectors = clf.support_vectors_ if layout == "dense" else clf.support_vectors_.toarray()
    np.testing.assert_array_equal(vectors, given[clf.support_])
    for found in scores:
        np.testing.assert_allclose(found, expected[: len(found)], atol=0.03)


def test_three_classes_far_from_zero(layout, dtype):
    X, y = make_blobs(200, centers=3, cluster_std=0.7, random_state=1)
    for offset in (0, 3e3, 1e6):
        rows = convert((X + offset).astype(dtype), layout, dtype)
        for multi_class in ("ovr", "ovo"):
            clf = KernelPegasosClassifier(lam=1e-2, multi_class=multi_class, random_state=0)
            assert clf.fit(rows, y).score(rows, y) == 1


def test_a_row_that_is_far_off_does_not_disturb_the_others(moons, layout, dtype):
    X, y = moons
    clf = KernelPegasosClassifier(lam=1e-2, gamma=2, random_state=0).fit(
        convert(X, layout, dtype), y
    )
    with_outliers = np.concatenate([X, [[1e7, 0], [-1e30, 1e30]]])
    rows = convert(with_outliers, layout, dtype)
    other = KernelPegasosClassifier(lam=1e-2, gamma=2, random_state=0).fit(rows, np.r_[y, 0, 1])
    assert other.score(rows, np.r_[y, 0, 1]) > 0.98
    scores = clf.decision_function(rows)
    np.testing.assert_allclose(scores[:-2], clf.decision_function(rows[:-2]), atol=1e-4)
    np.testing.assert_allclose(scores[-2:], clf.intercept_[0])


@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (3, 17, 2), (5, 16, 256), (9, 40, 600)])
@pytest.mark.parametrize("offset", [0, 1e5])
def test_values_by_differences_are_those_of_extended_precision(rng, dtype, n, m, d, offset):
    X, Z = ((offset + rng.normal(size=(k, d))).astype(dtype) for k in (n, m))
    room = np.full((n, m + 5), 7, dtype)
    x, z = (
        _core.Points(
            _core.Rows(rows), kind=_core.KERNELS["rbf"], gamma=0.7 / d, by_differences=True
        )
        for rows in (X, Z)
    )
    _core.kernel_values(x, z, room[:, :m], _core.Watch())
    difference = X.astype(np.longdouble)[:, None] - Z.astype(np.longdouble)
    expected = np.exp(-(difference**2).sum(axis=2) * np.longdouble(0.7) / d)
    np.testing.assert_allclose(
        room[:, :m], expected.astype(np.float64), rtol=50 * np.finfo(dtype).eps
    )
    assert (room[:, m:] == 7).all()


@pytest.mark.parametrize(
    ("size", "type_"),
    [
        (2.0**83, np.float32),
        (2.0**123, np.float32),
        (2.0**-83, np.float32),
        (2.0**500, np.float64),
        (2.0**-500, np.float64),
    ],
)
def test_squares_that_overflow_spoil_nothing(moons, layout, size, type_):
    X, y = moons
    rows = convert(size * X, layout, type_)
    clf = KernelPegasosClassifier(lam=1e-2, tol=1e-5, random_state=0).fit(rows, y)
    X = convert(X, layout, type_)
    expected = KernelPegasosClassifier(lam=1e-2, tol=1e-5, random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.objective_, expected.objective_, rtol=1e-4)
    scores = clf.decision_function(rows)
    np.testing.assert_allclose(scores, expected.decision_function(X), atol=0.02)


@pytest.mark.parametrize("size", [1e-160, 1e-200, 1e160, 1e307])
def test_a_scale_that_cannot_be_had_is_refused(moons, layout, size):
    X, y = moons
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ValueError, match=r"gamma='scale' .* cannot hold: entries of X are up to"
        ):
            KernelPegasosClassifier(random_state=0).fit(convert(size * X, layout, np.float64), y)


@pytest.mark.parametrize(
    ("kernel", "size"), [("rbf", 2.0**-130), ("laplacian", 2.0**-140), ("poly", 2.0**-70)]
)
def test_a_gamma_that_float32_has_no_room_for_is_refused(moons, layout, kernel, size):
    """Scores were wrong by 100 %: the core multiplies differences by its root, which was infinite.

    Or products by gamma itself, so that those of 0 were NaN: a fit of few steps told no one.
    """
    X, y = moons
    gamma = 1 / size if kernel == "laplacian" else size**-2
    clf = KernelPegasosClassifier(kernel=kernel, gamma=gamma, random_state=0)
    with pytest.raises(ValueError, match=r"gamma is too large for features in float32, got \d"):
        clf.fit(convert(size * X, layout, np.float32), y)
    rows, expected = convert(size * X, layout, np.float64), convert(X, layout, np.float64)
    expected = clone(clf).set_params(gamma=1.0).fit(expected, y)
    np.testing.assert_allclose(clf.fit(rows, y).objective_, expected.objective_, rtol=1e-9)


@pytest.mark.parametrize("make", ["one", "search"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
def test_kernel_values_that_overflow_are_refused(moons, layout, dtype, kernel, make):
    X, y = moons
    options = {"kernel": kernel, "random_state": 0}
    clf = KernelPegasosClassifier(gamma=1.0, **options)
    if make == "search":
        clf = KernelPegasosClassifierCV(lams=[0.1], gammas=[1.0], cv=2, **options)
    if kernel == "sigmoid" and dtype is np.float32:
        pytest.skip("it is computed in float64, which holds the products of float32 rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=rf"kernel='{kernel}' has values beyond float"):
            clf.fit(convert(np.finfo(dtype).max ** 0.6 * X, layout, dtype), y)


def test_the_scale_is_that_of_extended_precision(rng, layout, dtype):
    for X in (
        rng.normal(size=(60, 7)), 1e6 + rng.normal(size=(60, 7)),
        rng.normal(size=(30, 900)) * (rng.random((30, 900)) < 0.3),
    ):  # fmt: skip
        rows, X = convert(X, layout, dtype), X.astype(dtype).astype(np.longdouble)
        some = rng.uniform(size=len(X)) * (rng.random(len(X)) < 0.8)
        for weights in (None, some):
            c = np.ones(len(X)) if weights is None else weights
            mean = np.average(X.mean(axis=1), weights=c)
            expected = 1 / (np.average(((X - mean) ** 2).mean(axis=1), weights=c) * X.shape[1])
            assert scale(rows, weights) == pytest.approx(float(expected), rel=1e-12)
    for constant in (0, 0.5):
        assert scale(convert(np.full((3, 4), constant), layout, dtype), None) == 1


def test_entries_stored_twice_count_as_their_sum():
    X = sparse.csr_array(
        (np.array([1.0, 2.0, 5.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    assert scale(X, None) == pytest.approx(1 / (2 * X.toarray().var()))
    assert X.nnz == 3


def test_parts_of_a_matrix_make_its_scale(rng, monkeypatch, layout):
    X = convert(rng.normal(size=(50, 30)) * (rng.random((50, 30)) < 0.5), layout, np.float64)
    weights = rng.uniform(size=50)
    whole = scale(X, weights)
    for size in (1, 7, 64):
        monkeypatch.setattr(kernels._scale, "_NUMBERS", size)
        assert scale(X, weights) == pytest.approx(whole, rel=1e-12)


def test_the_scale_of_sparse_rows_takes_no_copy():
    X = sparse.random_array(
        (4000, 2000), density=0.5, random_state=np.random.default_rng(0), format="csr"
    )
    tracemalloc.start()
    scale(X, None)
    kernels.make("rbf", gamma=0.1).points(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * X.data.nbytes


@pytest.mark.parametrize("penalize", [True, False])
@pytest.mark.parametrize(
    "loss",
    ["squared_hinge", "modified_huber", "log_loss", "squared_epsilon_insensitive", "squared_error"],
)
def test_a_column_of_seconds_is_no_overflow(rng, loss, penalize, dtype):
    """Pegasos's steps on smooth losses grew until numbers overflowed, and the fit was refused."""
    X = np.c_[1.7e9 + rng.uniform(0, 3e7, 600), rng.normal(size=(600, 2))].astype(dtype)
    is_classifier = loss in LOSSES
    estimator = PegasosClassifier if is_classifier else PegasosRegressor
    y = X[:, 1] > 0 if is_classifier else X[:, 1] - X[:, 2]
    clf = estimator(loss=loss, penalize_intercept=penalize, random_state=0).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    assert clf.score(X, y) > 0.9


@pytest.mark.parametrize("size", [1e8, 1e9, 1e10, 1e11])
@pytest.mark.parametrize("lam", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("intercept", [{}, {"penalize_intercept": False}, {"fit_intercept": False}])
def test_newtons_method_begins_at_0_where_steps_would_overflow(size, lam, intercept):
    """Pegasos's delay does not reach |x|^2/lam above 1e15, where its steps grow."""
    rng = np.random.default_rng(0)
    X = size * rng.normal(size=(60, 4))
    y = X[:, 0] + 0.3 * size * rng.normal(size=60) > 0
    clf = PegasosClassifier(
        lam=lam, loss="squared_hinge", solver="newton", random_state=0, **intercept
    ).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    assert clf.score(X, y) > 0.8


def test_newtons_method_that_is_idle_is_run_once_more():
    """ "auto" left it for dual ascent, and said that rounding allowed no smaller gap."""
    rng = np.random.default_rng(0)
    X = np.c_[1.7e12 + rng.uniform(0, 3e10, 400), rng.normal(size=(400, 2))]
    clf = PegasosClassifier(loss="modified_huber", random_state=0).fit(X, X[:, 1] > 0)
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    assert clf.score(X, X[:, 1] > 0) > 0.98


def linear_far(rng, n, d, offset, loss):
    """Rows far from 0, the same rows near 0 (without rounding), targets, and an estimator."""
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) / np.sqrt(d) + 0.5 * rng.normal(size=n)
    y = y > 0.3 if loss in LOSSES else y + 1
    far = X + offset
    estimator = PegasosClassifier if loss in LOSSES else PegasosRegressor
    return far, far - offset, y, estimator(loss=loss, random_state=0)


REGRESSION = ["epsilon_insensitive", "squared_epsilon_insensitive", "huber", "squared_error"]


@pytest.mark.parametrize("loss", [*LOSSES, *REGRESSION])
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6, (0, 1e6, 0), (-1e4, 1e2, 1e3)])
@pytest.mark.parametrize("lam", [0.1, 1e-3, 1e-5])
def test_a_free_intercept_takes_an_offset_away(rng, loss, offset, lam):
    """Fits of most losses made 1000 epochs, and ended with gaps of up to all of the objective."""
    far, near, y, model = linear_far(rng, 400, 3, np.asarray(offset), loss)
    model.set_params(lam=lam, penalize_intercept=False, tol=1e-4)
    expected = clone(model).fit(near, y)
    model.fit(far, y)
    assert model.n_iter_ <= 2 * expected.n_iter_ + 10
    gaps = [np.ravel(m.duality_gap_)[0] for m in (model, expected)]
    objectives = [np.ravel(m.objective_)[0] for m in (model, expected)]
    # Both objectives lie above the optimum by no more than their gaps.
    slack = 1e-7 * objectives[0]
    assert -gaps[1] - slack <= objectives[0] - objectives[1] <= gaps[0] + slack
    # lam/2 |w - best w|^2 is at most the gap.
    radius = sum(np.sqrt(2 * (gap + slack) / lam) for gap in gaps)
    assert np.linalg.norm(model.coef_ - expected.coef_) <= radius
    # The model of the far rows is as good for the near ones, its intercept moved.
    intercept = model.intercept_ + model.coef_ @ np.broadcast_to(offset, 3)
    scores = near @ np.ravel(model.coef_) + np.ravel(intercept)
    of_far = model.decision_function(far) if loss in LOSSES else model.predict(far)
    np.testing.assert_allclose(of_far, scores, atol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss", "huber"])
@pytest.mark.parametrize("n_features", [3, 60])
def test_far_rows_of_every_kind_are_fitted(rng, layout, dtype, loss, n_features):
    far, _, y, model = linear_far(rng, 300, n_features, 3e3, loss)
    far = far.astype(dtype)
    near = (far.astype(np.float64) - 3e3).astype(dtype)
    model.set_params(lam=1e-2, penalize_intercept=False)
    expected = clone(model).fit(convert(near, layout, dtype), y)
    model.fit(convert(far, layout, dtype), y)
    assert model.n_iter_ <= 2 * expected.n_iter_ + 10
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_conjugate_gradients_take_an_offset_away_too(rng, loss):
    """ "auto" began with dual ascent, which got nowhere."""
    far, near, y, model = linear_far(rng, 50, _core.NEWTON_MAX_UNKNOWNS + 100, 1e4, loss)
    model.set_params(lam=1, penalize_intercept=False)
    expected = clone(model).set_params(solver="newton").fit(near, y)
    assert model.fit(far, y).n_iter_ <= 2 * expected.n_iter_ + 10
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-3)


@pytest.mark.parametrize("loss", [*LOSSES, *REGRESSION])
@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_far_rows_and_a_penalised_intercept_take_few_epochs(rng, loss, offset):
    """Hinge losses took up to 240, and the squared ones refused features as too large."""
    far, _, y, model = linear_far(rng, 1000, 20, offset, loss)
    model.set_params(lam=1e-4, tol=1e-3)
    assert model.fit(far, y).n_iter_ <= 80


def test_rows_far_from_zero_go_to_newtons_method_at_once(rng):
    """Dual ascent made 64 epochs in vain, as it does where features are many."""
    far, near, y, model = linear_far(rng, 100, 300, 1e3, "squared_hinge")
    assert model.set_params(lam=0.1).fit(far, y).n_iter_ < 30
    model.set_params(solver="sdca", tol=None, max_iter=20)
    assert model.fit(near, y).duality_gap_ < 0.1 * model.objective_
    assert model.fit(far, y).duality_gap_ > 0.9 * model.objective_


def test_rows_without_weight_do_not_say_where_the_others_are(rng):
    far, near, y, model = linear_far(rng, 400, 4, 1e5, "hinge")
    weights = np.ones(400)
    weights[::2] = 0
    far[::2] = rng.normal(size=(200, 4))
    model.set_params(lam=1e-3, penalize_intercept=False)
    expected = clone(model).fit(near, y, sample_weight=weights)
    assert model.fit(far, y, sample_weight=weights).n_iter_ <= 2 * expected.n_iter_ + 10
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-3)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("offset", [1e4, 5e6])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_a_fit_of_far_rows_that_is_stopped_goes_on_to_the_same_bits(rng, loss, offset, free):
    """From offsets of 2e6 on, rounding of scores was taken for a sign of other rows."""
    n, d = 2000, 10
    X = rng.normal(size=(n, d)) + offset
    y = np.where(X[:, 0] + rng.normal(size=n) > offset, 1, -1).astype(np.int8)[None]
    rows, norms = _core.Rows(X), (X**2).sum(axis=1)
    targets = _core.Targets(
        y, loss=_core.LOSSES[loss], lams=np.array([1e-3]),
        intercept_scaling=0.0 if free else 1.0, free_intercept=free,
    )  # fmt: skip
    assert_stops_change_nothing(rows, targets, norms, 33)


def test_equations_of_rows_far_from_0_are_in_double_precision(rng):
    """BLAS may have single precision where lam is large, but not for differences from a middle."""
    X = 100 + rng.normal(size=(500, 60))
    y = np.where(X[:, 0] + rng.normal(size=500) > 100, 1, -1)
    clf = PegasosClassifier(
        lam=10, solver="newton", tol=1e-6, penalize_intercept=False, max_iter=300
    ).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-6 * clf.objective_[0]
