"""Problems over sparse rows that go as bundles: the bits of separate ones, and replays in NumPy."""

import numpy as np
import pytest
from covering import covering
from interruption import interrupted
from rows import DTYPES, convert, make_rows

from pegasos import PegasosClassifier, _core
from pegasos.problems import _rows, _validate
from pegasos.problems._losses import LOSSES, named
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers import _pegasos
from pegasos.solvers._linear import LinearSolver
from pegasos.solvers._schedule import Schedule

SPARSE = ("csr32", "csr64", "csr32-64")


@pytest.fixture(params=SPARSE)
def layout(request):
    return request.param


def rows_of(X, layout, dtype):
    rows, _ = _validate.rows(convert(X, layout, dtype), checked=True)
    return rows


def session_of(labels, lams, dtype, rows, **settings):
    session = _pegasos.Pegasos(
        Settings(min(lams), **settings), len(labels), rows.shape[1], dtype, 7
    )
    session.problems["lam"] = lams
    return session


@covering(
    3, layout=SPARSE, dtype=DTYPES, n_problems=(3, 8, 16, 21), average=(False, True, "suffix"),
    penalize=(True, False), weighted=(False, True),
)  # fmt: skip
def test_a_bundle_has_the_bits_of_separate_problems(
    rng, layout, dtype, n_problems, average, penalize, weighted
):
    X, _ = make_rows(rng)
    rows = rows_of(X, layout, dtype)
    labels = rng.integers(-1, 2, size=(n_problems, len(X))).astype(np.int8)
    lams = rng.uniform(1e-3, 0.1, n_problems)
    weights = rng.uniform(0.2, 3, len(X)) if weighted else None
    options = {"average": average, "penalize_intercept": penalize}
    together = session_of(labels, lams, dtype, rows, **options)
    together.set_rows(labels, weights)
    together.plan(n_epochs=4)
    together.run(rows)
    coef, intercept = together.model()
    for k in range(n_problems):
        alone = session_of(labels[k : k + 1], lams[k : k + 1], dtype, rows, **options)
        alone.set_rows(labels[k : k + 1], weights)
        alone.plan(n_epochs=4)
        alone.run(rows)
        w, b = alone.model()
        np.testing.assert_array_equal(coef[k], w[0])
        assert intercept[k] == b[0]
        np.testing.assert_array_equal(together.counts[k], alone.counts[0])


def test_a_bundle_can_be_cut_anywhere(rng, layout, dtype):
    X, _ = make_rows(rng)
    rows = rows_of(X, layout, dtype)
    labels = rng.integers(-1, 2, size=(5, len(X))).astype(np.int8)
    states = []
    for cuts in ([200], [1, 63, 120, 200]):
        session = session_of(labels, np.full(5, 0.01), dtype, rows, average=True)
        done = 0
        for cut in cuts:
            session.set_rows(labels, None)
            session.plan(n_steps=cut - done)
            session.run(rows)
            done = cut
        states.append(session)
    for name in ("problems", "weights", "sums", "counts"):
        np.testing.assert_array_equal(getattr(states[0], name), getattr(states[1], name))


@pytest.mark.parametrize("n_problems", [2, 4, 7, 8, 9, 15, 23])
def test_interleaved_scores_have_the_bits_of_plain_ones(rng, layout, dtype, n_problems):
    X, _ = make_rows(rng, n=80)
    rows = rows_of(X, layout, dtype)
    coef, intercept = rng.normal(size=(n_problems, X.shape[1])), rng.normal(size=n_problems)
    plain = _core.decision_function(rows, coef, intercept)
    fast = _rows.decision_function(rows, coef, intercept)
    np.testing.assert_array_equal(fast, plain)


# Losses of bundles: the bounds of dual variables of weight 1, and epsilon and width of the
# conjugate epsilon |p| + width p^2/2.
FORMS = {
    "hinge": (0, 1, 0, 0),
    "epsilon_insensitive": (-1, 1, 0.3, 0),
    "squared_epsilon_insensitive": (-np.inf, np.inf, 0.3, 0.5),
    "huber": (-0.3, 0.3, 0, 1),
}


def textbook(X, y, z, c, lam, order, feature, epochs, form, pegasos=False):
    """Dual coordinate ascent over rows in the given order; and the mean of an epoch's last half.

    If `pegasos`, the first epoch takes steps of exact length for the sample that was seen so far.
    """
    least, most, epsilon, width = form
    m = (c * (y != 0)).sum()
    Z = np.hstack([X, np.full((len(X), 1), feature)])
    a, w, mean = np.zeros(len(X)), np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    for epoch in range(epochs):
        seen = 0 if pegasos and epoch == 0 else m
        for visit, i in enumerate(order[epoch]):
            if y[i] != 0:
                seen = min(seen + c[i], m)
                longer = m / max(seen, m / 2)
                u = z[i] - y[i] * longer * Z[i] @ w
                curvature = longer * (Z[i] @ Z[i]) / (lam * m)
                total = curvature + width / c[i]
                if total > 0:
                    free = (u + curvature * a[i]) / total
                    best = np.sign(free) * max(abs(free) - epsilon / total, 0)
                else:
                    best = np.sign(u) * c[i] * (abs(u) > epsilon)
                best = np.clip(best, least * c[i], most * c[i])
                w += (best - a[i]) * y[i] * Z[i] / (lam * m)
                a[i] = best
            if epoch == epochs - 1 and visit >= len(order[0]) // 2:
                mean += w / (len(order[0]) - len(order[0]) // 2)
    return a, w, mean


@covering(
    3, layout=(*SPARSE, "dense"), dtype=DTYPES, feature=(0.0, 0.7), n_problems=(1, 5, 8),
    weighted=(False, True), pegasos=(False, True), loss=list(FORMS),
)  # fmt: skip
def test_a_sweep_is_the_textbook_s(
    rng, layout, dtype, feature, n_problems, weighted, pegasos, loss
):
    X, _ = make_rows(rng, n=40)
    rows = rows_of(X, layout, dtype)
    n, d, epochs, seed, lam = len(X), X.shape[1], 3, 11, 0.03
    labels = rng.integers(-1, 2, size=(n_problems, n)).astype(np.int8)
    c = rng.uniform(0.2, 3, n) if weighted else np.ones(n)
    z, values, settings = np.ones(n), None, penalised(feature)
    if loss != "hinge":
        labels, z = np.abs(labels), rng.normal(size=n)
        values, settings["loss"] = np.tile(z, (n_problems, 1)), named(loss, 0.3)
    path = path_of(rows, labels, c if weighted else None, seed, values=values, **settings)
    if not pegasos:
        path.problems["pegasos_mass"] = 0
    path.problems["factor"] = rng.uniform(0.5, 2, n_problems)
    inside = np.flatnonzero(labels.any(axis=0))
    draws = np.empty(len(inside) * epochs, np.int64)
    permutation = _core.SAMPLINGS["permutation"]
    _core.Order(seed, np.empty(len(inside), np.int64), permutation, 0).draw(draws)
    path.run(np.full(n_problems, lam), epochs, _core.Watch())
    a, w, sums, ascents = path.a, path.v, path.means, path.problems
    w[:, :n_problems] *= ascents["factor"].astype(dtype)
    sums[:d, :n_problems] *= ascents["factor"].astype(dtype)
    near = {"rtol": 1e-9, "atol": 1e-10} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-4}
    for k in range(n_problems):
        expected, last, mean = textbook(
            X, labels[k], z, c, lam, inside[draws].reshape(epochs, -1), feature, epochs,
            FORMS[loss], pegasos=pegasos,
        )  # fmt: skip
        np.testing.assert_allclose(a[:, k], expected, **near)
        np.testing.assert_allclose(w[:, k], last[:-1], **near)
        np.testing.assert_allclose(sums[:, k], mean, **near)
        np.testing.assert_allclose(ascents["constant_weight"][k], last[-1], **near)
        np.testing.assert_allclose(ascents["squared_norm"][k], last @ last, **near)
    assert not a[:, n_problems:].any()
    assert not w[:, n_problems:].any()
    assert not sums[:, n_problems:].any()


def penalised(feature):
    return {"intercept_scaling": feature} if feature else {"fit_intercept": False}


def path_of(rows, labels, weights, seed, loss="hinge", values=None, **settings):
    """A path of λ of problems over these rows."""
    settings = Settings(1.0, loss=loss, **settings)
    problem = Problem(labels, weights, settings, values)
    return _core.LamPath(rows, problem.targets, seed=seed)


@pytest.mark.parametrize("layout", [*SPARSE, "dense"])
@pytest.mark.parametrize("free", [False, True])
def test_a_bundle_has_the_same_bits_wherever_it_is_stopped(rng, layout, dtype, free):
    def stop():
        raise InterruptedError

    X, _ = make_rows(rng, n=700)
    labels = rng.choice([-1, 0, 1], p=[0.5, 0.1, 0.4], size=(5, 700)).astype(np.int8)
    rows, ends = rows_of(X, layout, dtype), []
    for every in (1e12, 1, 3e5):
        path, n_stops = path_of(rows, labels, None, 5, penalize_intercept=not free), 0
        for lam, last_epoch in ((0.05, 2), (0.01, 4)):
            is_over = False
            while not is_over:
                try:
                    path.run(np.full(5, lam), last_epoch, _core.Watch(stop, every=every))
                    is_over = True
                except InterruptedError:
                    n_stops += 1
        assert n_stops > 6 if every == 1 else n_stops == 0 or every < 1e12
        ends.append((path.problems, path.a, path.v, path.means, *path.model()))
    assert ends[0][0]["intercept"].any() == free  # its reference moves
    for end in ends[1:]:
        for array, same in zip(end, ends[0], strict=True):
            assert array.tobytes() == same.tobytes()


def fit_of(estimator):
    """The solver at work in an estimator that a warm start would go on with."""
    of_weights = estimator._state["weights"]
    new = Schedule(
        LinearSolver,
        estimator._settings_for(estimator.lam_, None),
        *of_weights.shape,
        of_weights.dtype,
        0,
    )
    return new.restore(estimator._state).solver


def test_problems_of_a_bundle_have_each_their_lam(rng, layout, dtype):
    X, _ = make_rows(rng, n=90)
    rows, labels = rows_of(X, layout, dtype), rng.choice([-1, 1], size=(3, 90)).astype(np.int8)
    paths = np.array([[1.0, 0.3, 0.1], [0.2, 0.2, 0.05]])
    together = path_of(rows, labels, None, 0)
    alone = [path_of(rows, labels, None, 0) for _ in range(3)]
    for epochs, lams in enumerate(paths, 1):
        together.run(lams, epochs, _core.Watch())
        for k in range(3):
            alone[k].run(np.full(3, lams[k]), epochs, _core.Watch())
            assert together.a[:, k].tobytes() == alone[k].a[:, k].tobytes()
            assert together.means[:, k].tobytes() == alone[k].means[:, k].tobytes()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive", "squared_error"])
@pytest.mark.parametrize("folded", [False, True])
def test_another_lam_keeps_the_best_multiple_of_the_dual_point(rng, loss, folded):
    """Of the multiples between a and the one that keeps w; D by its definition."""
    n, d, k, before, lam = 30, 7, 5, 1.0, 0.2
    X, labels = rng.normal(size=(n, d)), rng.choice([-1, 1], size=(k, n)).astype(np.int8)
    z, values, epsilon = np.ones(n), None, 0
    if loss not in LOSSES:
        labels, z = np.ones_like(labels), rng.normal(size=n)
        values, epsilon = np.tile(z, (k, 1)), 0.3 * (loss == "epsilon_insensitive")
    of = loss if values is None else named(loss, 0.3)
    path = path_of(_core.Rows(X), labels, None, 0, of, values, fit_intercept=False)
    diagonal = {"squared_hinge": 0.5, "squared_error": 1}.get(loss, 0)

    def dual(a, lam):
        w = (a * labels) @ X / (lam * n)
        linear = (z * a - epsilon * np.abs(a) - diagonal * a**2 / 2).sum(axis=1)
        return linear / n - lam / 2 * (w**2).sum(axis=1)

    if folded:  # as after many λ
        path.problems["factor"] = 1e6
    path.run(np.full(k, before), 2, _core.Watch())
    a = path.a[:, :k].T.copy()
    path.run(np.full(k, lam), 2, _core.Watch())  # no epoch more
    after, w = path.a[:, :k].T, (path.v[:, :k] * path.problems["factor"]).T
    best = np.max([dual(r * a, lam) for r in np.linspace(lam / before, 1, 1001)], axis=0)
    np.testing.assert_allclose(path.problems["squared_norm"], (w**2).sum(axis=1))
    np.testing.assert_allclose(dual(after, lam), best, rtol=1e-5)
    np.testing.assert_allclose(w, (after * labels) @ X / (lam * n), rtol=1e-9)
    np.testing.assert_allclose(path.problems["scale"], 1 / (lam * n))
    assert (path.problems["factor"] == 1).all() == folded


@pytest.mark.parametrize("free", [False, True])
def test_many_classes_reach_a_true_certificate(rng, layout, dtype, free):
    X, _ = make_rows(rng, n=150)
    y = (X[:, :6] + 0.3 * rng.normal(size=(150, 6))).argmax(axis=1)
    fitted = PegasosClassifier(
        lam=1e-2, solver="sdca", tol=1e-3, penalize_intercept=not free, random_state=0
    ).fit(convert(X, layout, dtype), y)
    assert (fitted.duality_gap_ <= 1e-3 * fitted.objective_).all()
    scores = X @ fitted.coef_.T + fitted.intercept_
    for k in range(6):
        signs = np.where(y == k, 1, -1)
        w, b = fitted.coef_[k], fitted.intercept_[k]
        penalty = w @ w + (0 if free else b * b)
        primal = 1e-2 / 2 * penalty + np.maximum(0, 1 - signs * scores[:, k]).mean()
        assert fitted.objective_[k] == pytest.approx(primal, rel=1e-9)


@pytest.mark.parametrize("stop_after", [1, 3, 6])
def test_an_interrupted_fit_of_several_classes_goes_on_to_the_same_bits(
    rng, stop_after, monkeypatch
):
    X, _ = make_rows(rng, n=150)
    y = (X[:, :5] + 0.3 * rng.normal(size=(150, 5))).argmax(axis=1)
    X = convert(X, "csr32", np.float32)
    options = {"solver": "sdca", "tol": 1e-4, "random_state": 1, "warm_start": True}
    whole = PegasosClassifier(lam=1e-2, **options).fit(X, y)
    parts = PegasosClassifier(lam=1e-2, **options)
    with interrupted(after=stop_after):
        parts.fit(X, y)
    parts.fit(X, y)
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(parts.intercept_, whole.intercept_)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_fit_by_dual_ascent_begins_with_an_epoch_of_pegasos(rng, layout, dtype, n_classes):
    X, _ = make_rows(rng, n=100)
    y = np.arange(100) % n_classes
    X = convert(X, layout, dtype)
    clf = PegasosClassifier(lam=1e-2, solver="sdca", random_state=0, warm_start=True).fit(X, y)
    assert (clf.n_steps_ == 100).all()
    assert clf.solver_epochs_ == {"pegasos": 1, "sdca": clf.n_iter_ - 1}
    assert list(clf.solver_epochs_) == ["pegasos", "sdca"]
    assert (clf.duality_gap_ <= 1e-3 * clf.objective_).all()
    clf.set_params(tol=1e-5).fit(X, y)  # which goes on by dual ascent
    assert (clf.n_steps_ == 100).all()
    assert (clf.duality_gap_ <= 1e-5 * clf.objective_).all()
    ascent = clf.n_iter_ - 1
    assert clf.solver_epochs_ == {"pegasos": 1, "sdca": ascent}
    clf.set_params(solver="newton", tol=1e-7).fit(X, y)
    assert list(clf.solver_epochs_) == ["pegasos", "sdca", "newton"]
    assert clf.solver_epochs_ == {"pegasos": 1, "sdca": ascent, "newton": clf.n_iter_ - ascent - 1}
    clf.set_params(solver="pegasos", tol=None, max_iter=3).fit(X, y)
    assert clf.solver_epochs_["pegasos"] == 4
    assert sum(clf.solver_epochs_.values()) == clf.n_iter_
    clf.fit(X[:50], y[:50])
    assert clf.solver_epochs_ == {"pegasos": 3}


def test_other_labels_are_noticed_by_a_warm_start(rng):
    """A row that is in no dual variable can change its label without a trace in w."""
    X, y = make_rows(rng, n=150)
    fitted = PegasosClassifier(lam=0.1, tol=1e-6, solver="sdca", random_state=0, warm_start=True)
    fitted.fit(X, y)
    a = fit_of(fitted).a[0]
    away = np.flatnonzero(a == 0)
    assert len(away)
    y[away[:5]] *= -1
    fitted.fit(X, y)
    assert (fitted.duality_gap_ <= 1e-6 * fitted.objective_).all()


@covering(
    3, layout=(*SPARSE, "dense"), dtype=DTYPES, interleaved=(False, True),
    k=(1, 2, 3, 5, 8, 16, 31),
)  # fmt: skip
def test_scores_of_weights_of_the_rows_type(rng, layout, dtype, interleaved, k):
    X, _ = make_rows(rng, n=40)
    rows = rows_of(X, layout, dtype)
    coef, intercept = rng.normal(size=(k, X.shape[1])).astype(dtype), rng.normal(size=k)
    given = np.ascontiguousarray(coef.T if interleaved else coef)
    scores = _core.decision_function(rows, given, intercept, interleaved)
    near = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(scores, X @ coef.T + intercept, rtol=near, atol=near)
    for j in range(k):
        part = np.ascontiguousarray(given[:, j : j + 1] if interleaved else given[j : j + 1])
        alone = _core.decision_function(rows, part, intercept[j : j + 1], interleaved)
        np.testing.assert_array_equal(alone[:, 0], scores[:, j])
