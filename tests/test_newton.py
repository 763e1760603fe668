"""Newton's method, linear and kernel; what it does step by step is in tests/c/test_newton.c."""

import itertools
import pickle
import signal
import warnings

import numpy as np
import pytest
from interruption import assert_stops_change_nothing, interrupted
from losses import LOSSES
from rows import convert, make_rows
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning

from pegasos import (
    KernelPegasosClassifier,
    PegasosClassifier,
    PegasosRegressor,
    _core,
    _threads,
    kernels,
)
from pegasos.problems import _problem, _validate
from pegasos.problems._settings import Settings
from pegasos.solvers._kernel_solver import KernelSolver

INTERCEPTS = ("none", "penalized", "free")


@pytest.fixture(autouse=True)
def one_thread():
    with _threads.blas.one_thread():
        yield


@pytest.mark.parametrize("lam", [1e-3, 1.0])
@pytest.mark.parametrize(
    "shape", [(200, 12), (30, 60), (150, 300), (80, _core.NEWTON_MAX_UNKNOWNS + 1)]
)
def test_linear_machines_reach_their_gap(rng, layout, dtype, shape, lam):
    """By plain loops, SciPy's BLAS in either precision, and products, as features become more.

    Of the most features, all but a few have no values.
    """
    X, y = make_rows(rng, n=shape[0], d=shape[1])
    X[:, 12:2000] *= shape[1] < 2000
    X[:, -2], X[:, -1] = X[:, 0], 1  # features depend on each other
    weights = rng.uniform(0.1, 2, len(y))
    given, X = convert(X, layout, dtype), X.astype(dtype).astype(np.float64)
    for intercept, loss in itertools.product(INTERCEPTS, LOSSES):
        clf = PegasosClassifier(
            lam=lam, solver="newton", loss=loss, tol=1e-6, max_iter=10**4, random_state=0,
            fit_intercept=intercept != "none", penalize_intercept=intercept != "free",
        ).fit(given, y, sample_weight=weights)  # fmt: skip
        (w,), (b,) = clf.coef_, clf.intercept_
        losses = LOSSES[loss](1 - y * (X @ w + b))
        penalty = w @ w + (b * b if intercept == "penalized" else 0)
        primal = lam / 2 * penalty + weights @ losses / weights.sum()
        assert clf.objective_[0] == pytest.approx(primal, rel=1e-9)
        assert clf.duality_gap_[0] <= 1e-6 * primal


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("solver", ["newton", "auto"])
def test_conjugate_gradients_cope_with_bad_scales(rng, dtype, solver, loss):
    """And "auto" does not begin with dual ascent, where rows are many and hold most of w."""
    n, d = 2 * _core.NEWTON_MAX_UNKNOWNS + 100, _core.NEWTON_MAX_UNKNOWNS
    X = sparse.random_array((n, d), density=0.01, rng=rng, dtype=np.float64).tocsr()
    y = X @ rng.normal(size=d) + rng.normal(size=n) > 0
    X = (X * 10.0 ** rng.uniform(-1, 2, size=d)).astype(dtype).tocsr()
    clf = PegasosClassifier(solver=solver, loss=loss, lam=1e-3, tol=1e-6, random_state=0).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-6 * clf.objective_[0]
    assert clf.n_iter_ < 300


@pytest.mark.parametrize("size", [1e-25, 1e-18, 1e18, 1e25])
@pytest.mark.parametrize("n_features", [10, 60])
def test_the_unit_of_the_rows_does_not_matter(rng, size, n_features):
    """With many features, the matrix may be one of single precision, whose range ends sooner."""
    X, y = make_rows(rng, n=200, d=n_features)
    fits = [
        PegasosClassifier(
            lam=0.1 * s**2, solver="newton", tol=1e-6, fit_intercept=False, random_state=0
        ).fit(s * X, y)
        for s in (1, size)
    ]
    np.testing.assert_allclose(fits[0].objective_, fits[1].objective_, rtol=1e-5)


@pytest.mark.parametrize("lam", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("free", [False, True])
def test_newton_copes_with_small_lambda_and_bad_scales(rng, layout, free, lam):
    X, y = make_rows(rng, n=150, d=6)
    y[:30] *= -1
    for scale in (np.ones(6), 10.0 ** np.arange(-3, 3)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # slow is allowed, false is not
            model = PegasosClassifier(
                lam=lam, solver="newton", tol=1e-4, max_iter=2000, random_state=0,
                penalize_intercept=not free,
            ).fit(convert(X * scale, layout, np.float64), y)  # fmt: skip
        assert np.isfinite(model.coef_).all()
        assert 0 <= model.dual_objective_[0] <= model.objective_[0] <= 1 + 1e-9
        hinge = np.maximum(0, 1 - y * model.decision_function(X * scale)).mean()
        assert model.objective_[0] >= hinge * (1 - 1e-9)


def test_a_free_intercept_is_not_held_back_where_features_are_large():
    """Newton's matrix once had all of lam at the intercept: hundreds of steps, 0.001 each."""
    X, y = load_wine(return_X_y=True)
    clf = PegasosClassifier(penalize_intercept=False, multi_class="ovo", random_state=0).fit(X, y)
    assert (clf.duality_gap_ <= 1e-3 * clf.objective_).all()
    assert clf.n_iter_ < 250


def factor_of(X, kernel, **parameters):
    """The kernel matrix, and what there is of a factor."""
    points = kernels.make(kernel, **parameters).points(X)
    cache = kernels.ColumnCache(points, 10)
    matrix = points.X if kernel == "precomputed" else points.against(points)
    return matrix.astype(np.float64), cache.factor()


def test_a_kernel_matrix_has_a_factor(rng, dtype):
    """Of as many columns as it has rank, and as exact as the values are."""
    X = rng.normal(size=(90, 3)).astype(dtype)
    X[:20] = X[20:40]
    eps = np.finfo(dtype).eps
    for kernel, parameters, rank in (
        ("linear", {}, 3), ("poly", {"degree": 2, "coef0": 0.0}, 6), ("poly", {"coef0": 1.0}, 20),
        ("rbf", {"gamma": 30.0}, 70), ("laplacian", {}, 70),
    ):  # fmt: skip
        matrix, rows = factor_of(X, kernel, **parameters)
        assert rows.shape == (90, rank)
        largest = matrix.diagonal().max()
        np.testing.assert_allclose(rows @ rows.T, matrix, rtol=0, atol=200 * eps * largest)
    matrix, rows = factor_of((X @ X.T).astype(dtype), "precomputed")
    assert 3 <= rows.shape[1] <= 20
    np.testing.assert_allclose(rows @ rows.T, matrix, rtol=0, atol=1e3 * eps * matrix.max())


def test_a_factor_asks_whether_to_go_on_and_is_begun_again(rng):
    """A thread hears of Ctrl-C in no other way."""

    def stop():
        raise LookupError

    asked, X = [], rng.normal(size=(60, 4))
    cache = kernels.ColumnCache(kernels.make("rbf", gamma=3.0).points(X), 10)
    with pytest.raises(LookupError):
        cache.factor(stop)
    found = cache.factor(lambda: asked.append(None))
    assert len(asked) >= found.shape[1]
    np.testing.assert_array_equal(found, factor_of(X, "rbf", gamma=3.0)[1])


def test_a_factor_of_many_columns_is_not_made(rng, monkeypatch):
    monkeypatch.setattr("pegasos.kernels._factor._MOST", 40)
    X, y = make_rows(rng, n=80, d=4)
    assert factor_of(X, "rbf", gamma=3.0)[1].shape == (80, 0)
    assert factor_of(np.zeros((80, 80)), "precomputed")[1].shape == (80, 0)
    clf = KernelPegasosClassifier(lam=1e-3, gamma=3.0, solver="newton", tol=1e-6, random_state=0)
    clf.fit(X, y)
    assert "newton" not in clf.solver_epochs_
    assert clf.duality_gap_[0] <= 1e-6 * clf.objective_[0]


def test_ctrl_c_is_heard_while_a_factor_is_made(rng, monkeypatch):
    """At once, though the core is at work around it."""
    reached = []

    def factor(cache, on_poll):
        signal.raise_signal(signal.SIGINT)
        reached.append(cache)

    monkeypatch.setattr("pegasos.kernels._cache.factor", factor)
    X, y = make_rows(rng, n=80, d=4)
    clf = KernelPegasosClassifier(lam=1e-3, solver="newton", tol=1e-6, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert not reached


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_kernel_machines_reach_their_gap(rng, dtype, loss, intercept):
    """Dual variables of the linear machine on a factor's rows are those of the kernel machine."""
    X, y = make_rows(rng, n=80, d=4)
    settings = Settings(
        0.001, loss, fit_intercept=intercept != "none", penalize_intercept=intercept != "free"
    )
    points = kernels.make("rbf", gamma=0.3).points(X.astype(dtype))
    c, n = rng.uniform(0.5, 2, len(y)), len(y)
    cache, labels = kernels.ColumnCache(points, 1), y.astype(np.int8)[None]
    problem = _problem.Problem(labels, c, settings)
    solver = KernelSolver(settings, 1, n, n, 0)
    solver.begin(cache, problem)
    solver.run(1e-6, 500, method="newton")
    assert 0 < solver.epochs()["newton"] <= 500
    a, b = problem.targets.feasible(solver.a, settings.free_intercept), solver.intercept
    beta = a * labels / (settings.lam * problem.masses)[:, None]
    seen = cache.certify(problem, beta, b, a)
    assert seen.estimate[0] <= 1e-5


def test_newton_follows_where_dual_ascent_creeps(rng):
    """Over a kernel of few features and a small lambda, where it would take thousands of epochs."""
    X = rng.normal(size=(600, 6))
    y = X[:, 0] + rng.normal(size=600) > 0
    options = {"kernel": "linear", "loss": "squared_hinge", "tol": 1e-9, "random_state": 0}
    clf = KernelPegasosClassifier(lam=1e-6, **options).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-9 * clf.objective_[0]
    assert list(clf.solver_epochs_)[:3] == ["pegasos", "sdca", "newton"]
    assert sum(clf.solver_epochs_.values()) == clf.n_iter_ < 300
    again = clone(clf).set_params(tol=0.1, warm_start=True).fit(X, y)
    again.set_params(tol=1e-9).fit(X, y)
    assert again.duality_gap_[0] <= 1e-9 * again.objective_[0]
    plain = clone(clf).set_params(solver="newton").fit(X, y)
    assert list(plain.solver_epochs_)[:2] == ["pegasos", "newton"]
    assert plain.objective_[0] == pytest.approx(clf.objective_[0], rel=2e-9)


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("seed", [6, 11, 24])
def test_kernel_machines_are_certified_whatever_rows_weigh(seed, loss):
    """Rounding of scores that were large once must not pass for a matrix that has no dual."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 40))
    y, weights = rng.choice([-1, 1], n), 10 ** rng.uniform(-12, 12, n)
    y[:2] = -1, 1
    for lam in (1e-3, 0.1):
        options = {"kernel": "precomputed", "penalize_intercept": False, "random_state": 0}
        newton, ascent = (
            KernelPegasosClassifier(lam=lam, loss=loss, solver=solver, **options).fit(
                np.eye(n), y, sample_weight=weights
            )
            for solver in ("newton", "sdca")
        )
        assert newton.duality_gap_[0] <= 1e-3 * newton.objective_[0]
        assert newton.dual_objective_[0] <= ascent.objective_[0]


@pytest.mark.parametrize("kernel", ["linear", "precomputed", "rbf"])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("seed", [29, 33, 108])
def test_a_free_intercept_and_a_large_lam_do_not_slow_newton_down(seed, kernel, loss):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 40)), int(rng.integers(1, 6))
    X, y = rng.normal(size=(n, d)), rng.choice([-1, 1], n)
    y[:2] = -1, 1
    X = X @ X.T if kernel == "precomputed" else X
    options = {"solver": "newton", "penalize_intercept": False, "random_state": 0, "tol": 1e-9}
    for lam in (0.1, 1, 30, 10 ** rng.uniform(-1, 1.5)):
        # No warning, which would be an error.
        clf = KernelPegasosClassifier(lam=lam, kernel=kernel, loss=loss, max_iter=300, **options)
        assert clf.fit(X, y).duality_gap_[0] <= 1e-9 * clf.objective_[0]


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_many_rows_begin_with_a_sample(rng, layout, dtype, intercept, loss):
    """Pegasos's epoch and the first iterations are over a sixteenth of the rows."""
    n = 5000
    X = rng.normal(size=(n, 2)).astype(dtype)
    y = X[:, 0] + 0.3 + rng.normal(size=n) > 0
    options = {
        "lam": 1e-2, "loss": loss, "tol": 1e-6, "fit_intercept": intercept != "none",
        "penalize_intercept": intercept != "free", "random_state": 0, "max_iter": 10**4,
    }  # fmt: skip
    weights = rng.uniform(0.1, 2, n) * (rng.random(n) < 0.9)
    X, other = convert(X, layout, dtype), PegasosClassifier(solver="sdca", **options)
    clf = PegasosClassifier(solver="newton", **options).fit(X, y, sample_weight=weights)
    assert clf.n_steps_[0] == n // 16
    assert list(clf.solver_epochs_) == ["pegasos", "newton"]
    other.fit(X, y, sample_weight=weights)
    assert other.n_steps_[0] == np.count_nonzero(weights)
    np.testing.assert_allclose(clf.objective_, other.objective_, rtol=2e-6)


def test_a_fit_that_is_stopped_in_its_sample_draws_it_again(rng, layout, dtype):
    n, d = 6000, 2
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1).astype(np.int8)[None]
    given = convert(X, layout, dtype)
    rows, _ = _validate.rows(given)
    norms = (given.toarray() if layout != "dense" else given).astype(np.float64) ** 2 @ np.ones(d)
    targets = _core.Targets(y, lams=np.array([1e-3]), intercept_scaling=1.0)
    assert_stops_change_nothing(rows, targets, norms, 13)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("loss", [*LOSSES, "squared_error", "huber", "epsilon_insensitive"])
def test_rows_that_store_few_numbers_are_as_dense_ones(rng, dtype, index, loss):
    """Only stored numbers are multiplied then, whose columns may repeat and be in any order."""
    n, d, stored = 400, 60, 6
    places, ends = rng.integers(d, size=n * stored), np.arange(0, n * stored + 1, stored)
    X = sparse.csr_array(
        (rng.normal(size=n * stored).astype(dtype), places.astype(index), ends.astype(index)),
        shape=(n, d),
    )
    assert not X.has_canonical_format
    scores = X @ rng.normal(size=(d, 2)) + 0.5 * rng.normal(size=(n, 2))
    is_classifier = loss in LOSSES
    estimator = PegasosClassifier if is_classifier else PegasosRegressor
    y = scores[:, 0] > 0.3 if is_classifier else scores
    weights = rng.uniform(0.1, 2, n) * (rng.random(n) < 0.9)
    for penalize in (True, False):
        make = estimator(
            loss=loss, lam=1e-3, solver="newton", tol=1e-9, penalize_intercept=penalize,
            max_iter=10**4, random_state=0,
        )  # fmt: skip
        thin = clone(make).fit(X.copy(), y, weights)
        whole = clone(make).fit(X.toarray(), y, weights)
        np.testing.assert_allclose(thin.objective_, whole.objective_, rtol=1e-8)
        np.testing.assert_allclose(thin.coef_, whole.coef_, rtol=1e-3, atol=1e-3)
        shared = clone(make).set_params(n_jobs=2).fit(X.copy(), y, weights)
        np.testing.assert_array_equal(thin.coef_, shared.coef_)


def test_rows_that_store_nothing_do_not_keep_newtons_method_busy(dtype):
    X, y = sparse.csr_array((40, 3), dtype=dtype), np.arange(40.0)
    machine = PegasosRegressor(loss="squared_error", lam=0.1, solver="newton").fit(X, y)
    whole = clone(machine).fit(X.toarray(), y)
    np.testing.assert_allclose(machine.objective_, whole.objective_, rtol=1e-3)
    assert not machine.coef_.any()


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "squared_error", "huber"])
def test_long_rows_among_short_ones_are_as_dense_ones(rng, dtype, loss):
    """Pieces of long rows are multiplied whole, beside those of short and of empty rows."""
    n, d = 2600, 60
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.03)
    X[300:440] = rng.normal(size=(140, d))
    X[-5] = rng.normal(size=d)
    X = X.astype(dtype)
    scores = X @ rng.normal(size=(d, 20)) + 0.5 * rng.normal(size=(n, 20))
    is_classifier = loss in LOSSES
    y = scores[:, 0] > 0 if is_classifier else scores
    make = (PegasosClassifier if is_classifier else PegasosRegressor)(
        loss=loss, lam=1e-3, solver="newton", tol=1e-9, max_iter=10**4, random_state=0
    )
    long = clone(make).fit(sparse.csr_array(X), y)
    whole = clone(make).fit(X, y)
    np.testing.assert_allclose(long.objective_, whole.objective_, rtol=1e-8)
    np.testing.assert_allclose(long.coef_, whole.coef_, rtol=1e-3, atol=1e-3)
    shared = clone(make).set_params(n_jobs=2).fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(long.coef_, shared.coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kernel_machines_go_on_by_newton_plan_after_plan(rng):
    """States were refused as damaged once a second plan had run Newton's method."""
    X, y = make_rows(rng, n=30, d=20)
    clf = KernelPegasosClassifier(
        lam=0.01, solver="newton", tol=None, max_iter=3, warm_start=True, random_state=0
    )
    for n_epochs in (3, 6, 9, 12):
        assert clf.fit(X, y).n_iter_ >= n_epochs
        assert list(clf.solver_epochs_)[:2] == ["pegasos", "newton"]


def test_auto_gives_dual_ascent_up_early_where_newtons_method_is_quick():
    """It is on smooth losses. On the hinge it makes many steps, and has the last epochs."""
    X, y = make_classification(900, 450, n_informative=45, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    clf = PegasosClassifier(C=0.3, loss="squared_hinge", random_state=0).fit(X, y)
    assert clf.solver_epochs_["sdca"] < 10 < clf.solver_epochs_["newton"]
    clf.set_params(loss="hinge").fit(X, y)
    assert "newton" not in clf.solver_epochs_
    few = clone(clf).set_params(max_iter=250).fit(X, y)
    assert few.solver_epochs_["sdca"] > 100
    assert few.solver_epochs_["newton"] > 0
    assert few.duality_gap_[0] <= 1e-3 * few.objective_[0]
    with pytest.warns(ConvergenceWarning, match="max_iter=250"):
        clone(few).set_params(solver="sdca").fit(X, y)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_fit_that_goes_on_proves_its_gap_on_rows_with_equal_scores(rng, intercept):
    X, y = make_rows(rng, n=300, d=8)
    options = {"lam": 0.01, "tol": 1e-4, "solver": "newton", "penalize_intercept": intercept}
    clf = PegasosClassifier(warm_start=True, **options).fit(X, y)
    w = clf.coef_[0]
    across = rng.normal(size=8)
    across -= (across @ w) / (w @ w) * w
    others = X + np.outer(y, across)  # which tell the classes apart, but not by this model
    clf.fit(others, y)
    least = PegasosClassifier(**options).fit(others, y).objective_
    assert clf.dual_objective_ <= least * (1 + 1e-12)
    assert clf.duality_gap_ <= 1e-4 * clf.objective_


def test_a_fit_stopped_before_its_first_iteration_knows_no_dual_value(rng):
    """Dual variables begin in the middle of their boxes, where no free intercept allows them."""
    y = np.where(np.arange(2000) < 100, 1, -1)
    X = rng.normal(0, 0.5, (2000, 1)) + np.where(y > 0, 1.9, 0.1)[:, None]  # mean of y x: 0
    options = {"lam": 0.01, "solver": "newton", "penalize_intercept": False, "random_state": 0}
    whole = PegasosClassifier(**options, tol=1e-3).fit(X, y)
    for after in range(5, 60, 5):
        clf = PegasosClassifier(**options, tol=1e-3, warm_start=True)
        with interrupted(after):
            clf.fit(X, y)
        clf.fit(X, y)
        assert clf.objective_ <= whole.objective_ * (1 + 1e-3)
        assert clf.dual_objective_ <= whole.objective_


@pytest.mark.parametrize("after", [3, 5, 8])
def test_rounding_alone_does_not_end_a_fit_that_goes_on(after):
    """Its dual value, found once more, differs in the last bits: by as much as the gap here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] + 0.1 * rng.normal(size=400) + 1e6
    options = {"lam": 0.01, "loss": "squared_error", "penalize_intercept": False}
    whole = PegasosRegressor(**options, random_state=0).fit(X, y)
    reg = PegasosRegressor(**options, warm_start=True, random_state=0)
    with interrupted(after):
        reg.fit(X, y)
    reg.fit(X, y)
    assert reg.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(reg.coef_, whole.coef_)


@pytest.mark.parametrize(
    ("loss", "seed", "mean", "C"),
    [
        ("squared_error", 3, 1e3, 0.01),
        ("squared_error", 6, 1e5, 1),
        ("squared_error", 0, 1e7, 0.01),
        ("squared_epsilon_insensitive", 3, 1e5, 1),
        ("huber", 7, 1e3, 1),
    ],
)
def test_a_fit_ends_where_its_steps_gain_nothing_but_rounding(loss, seed, mean, C):
    """Its targets are known to some digits only: 200 epochs would leave as large a gap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] + 0.3 * rng.normal(size=400) + mean
    options = {"C": C, "loss": loss, "penalize_intercept": False, "random_state": 0}
    reg = PegasosRegressor(**options).fit(X, y)
    assert reg.n_iter_ < 60
    assert reg.duality_gap_ <= 1e-8 * reg.objective_
    near = PegasosRegressor(**options).fit(X, y - mean)
    assert reg.dual_objective_ <= near.objective_ * (1 + 1e-8)
    assert reg.objective_ >= near.dual_objective_ * (1 - 1e-8)
    for after in range(3, 24, 4):
        again = PegasosRegressor(**options, warm_start=True)
        with interrupted(after):
            again.fit(X, y)
        again.fit(X, y)
        assert again.n_iter_ == reg.n_iter_
        np.testing.assert_array_equal(again.coef_, reg.coef_)


@pytest.mark.parametrize("solver", ["auto", "newton"])
@pytest.mark.parametrize("penalized", [False, True])
@pytest.mark.parametrize(
    ("seed", "n", "d", "C"), [(0, 200, 20, 1.0), (1, 60, 10, 100.0), (2, 200, 20, 1.0)]
)
def test_a_tol_below_rounding_ends_a_fit_that_can_gain_nothing(solver, penalized, seed, n, d, C):
    """Solvers took turns up to max_iter, and dual ascent where Newton's method was asked for."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 0] *= 100
    y = X @ rng.normal(size=d) + rng.normal(size=n) > 0
    options = {"C": C, "penalize_intercept": penalized, "solver": solver, "max_iter": 10**5}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clf = PegasosClassifier(**options, tol=1e-16, random_state=0).fit(X, y)
    gap = clf.duality_gap_[0] / clf.objective_[0]
    assert gap <= 1e-11
    assert gap <= 1e-16 or "rounding allows no smaller gap" in str(told[0].message)
    assert clf.n_iter_ < 2000
    assert solver == "auto" or "sdca" not in clf.solver_epochs_
    for after in range(10, 80, 7):
        again = PegasosClassifier(**options, tol=1e-16, warm_start=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            with interrupted(after, every=300):
                again.fit(X, y)
            again.fit(X, y)
        assert again.n_iter_ == clf.n_iter_
        np.testing.assert_array_equal(again.coef_, clf.coef_)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss", "epsilon_insensitive"])
@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_a_fit_at_rounding_goes_on_where_its_vectors_are_those_of_other_rows(loss, solver):
    """It ended at once, with a gap of most of the objective."""
    kind = PegasosRegressor if loss == "epsilon_insensitive" else PegasosClassifier
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 10))
        y = X @ rng.normal(size=10) + 0.3 * rng.normal(size=300)
        y = y if kind is PegasosRegressor else y > 0
        first = kind(loss=loss, solver=solver, tol=1e-16, warm_start=True, random_state=0)
        if kind is PegasosRegressor:
            first.set_params(epsilon=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            first.fit(X, y)
        w = first.coef_.ravel()
        if kind is PegasosRegressor:
            missed = np.abs(y - first.predict(X)) - 1
        else:
            missed = 1 - np.where(y, 1, -1) * first.decision_function(X)
        across = rng.normal(size=X.shape)
        across -= np.outer(across @ w, w) / (w @ w)
        # Rows that have no part in w, which dual ascent has; and all scores as they were.
        for other in (np.where((missed < -1e-6)[:, None], -X, X), X + across):
            again = pickle.loads(pickle.dumps(first)).set_params(tol=1e-6).fit(other, y)
            assert again.duality_gap_[0] <= 1.01e-6 * again.objective_[0]


def test_epochs_that_are_asked_for_are_made_though_they_gain_nothing():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] + 0.3 * rng.normal(size=400) + 1e3
    options = {"C": 0.01, "loss": "squared_error", "penalize_intercept": False}
    reg = PegasosRegressor(**options, solver="newton", tol=None, max_iter=100).fit(X, y)
    assert reg.n_iter_ >= 100


@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber"])
def test_a_fit_that_max_iter_ends_has_the_best_multiple_of_its_dual_variables(rng, loss):
    """Of hardly bounded dual variables, some multiple always proves more than 0."""
    X, y = make_rows(rng, n=300, d=10)
    options = {"loss": loss, "lam": 1e-3, "tol": 1e-12, "solver": "newton", "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        clf = PegasosClassifier(**options, fit_intercept=False, max_iter=2).fit(X, y)
    assert clf.dual_objective_ > 0


def test_epochs_over_few_rows_do_not_use_up_max_iter():
    """Dual ascent leaves epochs to Newton's method, which is not much costlier here."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((6000, 150)) < 0.05).astype(float))
    scores = X @ rng.normal(size=150)
    y = scores > np.quantile(scores, 0.97)
    clf = PegasosClassifier(lam=1e-6, random_state=0).fit(X, y)  # and no warning
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    assert clf.n_iter_ < 1000


@pytest.mark.parametrize("loss", ["hinge", "modified_huber"])
def test_last_epochs_are_for_a_costlier_method(loss):
    """Newton's method is six times as costly as dual ascent here, but cheaper than its epochs."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((4000, 400)) < 0.02) * rng.random((4000, 400)))
    scores = X @ rng.normal(size=400)
    y = scores > np.quantile(scores, 0.9)
    clf = PegasosClassifier(C=5e5, loss=loss, random_state=0).fit(X, y)  # and no warning
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    assert clf.n_iter_ < 1000


def test_short_steps_widen_the_band():
    """With a large C, steps in a narrow band find a few rows each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 100))
    scores = X @ rng.normal(size=100)
    y = scores > np.quantile(scores, 0.9)
    clf = PegasosClassifier(C=1000, random_state=0).fit(X, y)  # and no warning
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    assert clf.n_iter_ < 500


def test_short_steps_leave_a_band_of_many_rows():
    """A step of a band with more rows than features is not short for want of rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 50))
    scores = X @ rng.normal(size=50)
    y = scores / scores.std() + 0.05 * rng.normal(size=500)
    reg = PegasosRegressor(C=50, loss="huber", random_state=0).fit(X, y)
    assert reg.n_iter_ < 20


@pytest.mark.parametrize("lam", [1e-6, 1e-7])
def test_a_matrix_of_some_rows_misses_no_rare_feature_by_much(rng, lam):
    """Steps along a feature that the matrix does not see are as long as lam lets them be."""
    n, d = 30_000, 30
    frequencies = 0.7 ** np.arange(d)
    X = np.zeros((n, d + 4))
    X[np.arange(n), rng.choice(d, n, p=frequencies / frequencies.sum())] = 1
    X[:, d:] = rng.normal(size=(n, 4))
    y = X @ rng.normal(size=d + 4) + rng.normal(size=n) > 0
    model = PegasosClassifier(
        loss="log_loss", lam=lam, solver="newton", tol=1e-3, random_state=0
    ).fit(X, y)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.n_iter_ <= 16


def test_ascent_gives_up_on_the_hinge_where_rows_are_many_and_features_more_than_a_matrix_has(rng):
    """It made all of its epochs over nearly all rows, and ended far above the gap."""
    n, n_columns, n_values = 6000, 10, 210
    values = np.minimum(2 * rng.pareto(0.7, (n, n_columns)), n_values - 1).astype(np.int32)
    columns = (values + n_values * np.arange(n_columns)).ravel()
    X = sparse.csr_matrix((np.ones(columns.size), columns, np.arange(0, columns.size + 1, 10)))
    scores = X @ rng.normal(size=X.shape[1])
    y = scores + scores.std() * rng.normal(size=n) > np.median(scores)
    clf = PegasosClassifier(C=30, tol=1e-2, max_iter=600, random_state=0).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-2 * clf.objective_[0]
    assert {"sdca", "newton"} <= clf.solver_epochs_.keys()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_ascent_goes_on_where_a_matrix_costs_far_more_than_its_epochs(rng, loss):
    """It gave up after ten epochs: a fit of 16 to 34 ms took a second or two by Newton's method."""
    n, d = 4000, 1990
    places = np.repeat(np.arange(n), 10), rng.integers(0, d, 10 * n)
    X = sparse.csr_array((rng.normal(size=10 * n), places), shape=(n, d))
    scores = X @ rng.normal(size=d)
    y = scores + 0.3 * scores.std() * rng.normal(size=n) > 0
    clf = PegasosClassifier(C=5, loss=loss, random_state=0).fit(X, y)
    assert "newton" not in clf.solver_epochs_
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]


def test_small_sparse_sets_of_many_features_end_at_the_usual_gap(rng):
    """They went on to rounding without a matrix, for 200 epochs in place of 22."""
    n, d = 4200, 2050
    places = np.repeat(np.arange(n), 2), rng.integers(0, d, 2 * n)
    X = sparse.csr_array((rng.normal(size=2 * n), places), shape=(n, d))
    y = X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0
    clf = PegasosClassifier(random_state=0).fit(X, y)
    assert clf.n_iter_ < 100
    assert clf.duality_gap_[0] > 1e-5 * clf.objective_[0]
