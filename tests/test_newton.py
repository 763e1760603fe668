"""Newton's method in the core: its equations, its line search, and that it may be stopped anywhere."""

import itertools
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
from rows import convert, make_rows
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from pegasos import KernelPegasosClassifier, PegasosClassifier, _core, _threads, kernels
from pegasos.problems import _certificate, _problem, _validate
from pegasos.solvers import _low_rank, _pegasos

NEWTON = np.asarray(_core.BLANK_NEWTON).dtype
# Value of the feature that carries the intercept, and whether that is not penalised.
INTERCEPTS = {"none": (0.0, 0), "penalized": (0.5, 0), "free": (1.0, 1)}


@pytest.fixture(autouse=True)
def one_thread():
    with _threads.blas.one_thread():
        yield


class Problem:
    """A problem at w = 0, and its iterations."""

    def __init__(
        self, X, y, lam, intercept="none", weights=None, loss="hinge", width=0.25, **options
    ):
        n, d = X.shape
        self.rows, self.labels = _validate.rows(X)[0], y.astype(np.int8)
        self.weights = weights
        self.c = np.where(y == 0, 0.0, 1.0 if weights is None else weights)
        self.state = np.zeros(1, NEWTON)
        self.state["lam"], self.state["mass"] = lam, self.c.sum()
        self.state["loss"], self.is_squared = _core.LOSSES[loss], loss == "squared_hinge"
        self.state["narrowest"] = 1e-4
        self.state["width"] = 0.5 if self.is_squared else width
        self.most = np.where(self.is_squared & (self.c > 0), np.inf, self.c)
        self.state["feature"], self.state["free_intercept"] = INTERCEPTS[intercept]
        self.state["primal"] = self.state["relative_gap"] = np.inf
        self.state["dual_objective"], self.state["last_epoch"] = -np.inf, 10**4
        for name, value in options.items():
            self.state[name] = value
        self.point, self.coef = np.zeros(d + 1), np.zeros(d)
        self.scores, self.centre, self.a = np.zeros(n), np.zeros(n), np.zeros(n)

    def run(self, has_blas, tell=None, **options):
        return _core.newton_run(
            self.rows, self.state, self.labels, self.weights, self.point, self.scores, self.centre,
            self.a, self.coef, has_blas, _core.Watch(tell, **options),
        )  # fmt: skip

    def run_until(self, call, has_blas, **options):
        """Run until `tell` is called for the time number `call`, which stops it; whether it is."""
        calls = itertools.count(1)

        def tell():
            if next(calls) == call:
                raise InterruptedError

        try:
            self.run(has_blas, tell, **options)
        except InterruptedError:
            return True
        return False

    def bits(self):
        arrays = self.state, self.point, self.scores, self.centre, self.a, self.coef
        return b"".join(array.tobytes() for array in arrays)

    def move_to(self, point, X):
        self.point[:] = point
        self.scores[:] = X.astype(np.float64) @ point[:-1] + self.state["feature"] * point[-1]

    def gap(self, X):
        """P - D of what was found, in parts of P, written down."""
        p, c = self.state[0], self.c
        a, b, X = self.a * self.labels, p["intercept"], X.astype(np.float64)
        assert (self.a >= 0).all()
        assert (self.a <= self.most).all()
        assert not (self.is_squared and self.centre.any())
        constant = 0 if p["free_intercept"] or not p["feature"] else b / p["feature"]
        excess = np.maximum(0, 1 - self.labels * (X @ self.coef + b))
        penalty = p["lam"] / 2 * (self.coef @ self.coef + constant**2)
        primal = penalty + c @ excess ** (2 if self.is_squared else 1) / p["mass"]
        w = np.append(a @ X, 0 if p["free_intercept"] else p["feature"] * a.sum())
        if p["free_intercept"]:
            assert abs(a.sum()) <= 1e-9 * self.a.sum()
        less = self.a[c > 0] ** 2 / (4 * c[c > 0]) if self.is_squared else np.zeros(1)
        dual = (self.a.sum() - less.sum()) / p["mass"]
        dual -= w @ w / (2 * p["lam"] * p["mass"] ** 2)
        assert primal == pytest.approx(p["primal"], rel=1e-9)
        assert dual == pytest.approx(p["dual_objective"], rel=1e-9)
        return (primal - dual) / primal

    def check_step(self, X, has_blas, tolerance):
        """Make one iteration, and compare its step with Newton's equations written down."""
        p, w, u = self.state[0], self.point.copy(), 1 - self.labels * self.scores
        p["last_epoch"] = p["n_epochs"] + 1
        self.run(has_blas)
        # With the A and delta of the step, which it leaves.
        width, m, lam = p["width"], p["mass"], p["lam"]
        a = np.clip(self.centre + self.c * u / width, 0, self.most)
        band = np.flatnonzero((a > 0) & (a < self.most))
        z = np.column_stack([X.astype(np.float64), np.full(len(X), p["feature"])])
        penalised = np.full(len(w), lam)
        if p["free_intercept"] or not p["feature"]:
            penalised[-1] = 0
        diagonal = np.full(len(w), lam)
        if p["free_intercept"] and len(band):
            diagonal[-1] *= 1e-4
        right = (a * self.labels) @ z / m - penalised * w
        step = self.point - w
        found = diagonal * step + z[band].T @ (self.c[band] / (m * width) * (z[band] @ step))
        np.testing.assert_allclose(
            found / np.linalg.norm(found), right / np.linalg.norm(right), rtol=0, atol=tolerance
        )
        if lam < 1e-12:
            return len(band)  # a line search may not come to its end where the least is so far
        # It ends where the slope is a hundredth of what it was.
        np.testing.assert_allclose(self.scores, z @ self.point, rtol=1e-9, atol=1e-9)
        u = 1 - self.labels * self.scores
        after = np.clip(self.centre + self.c * u / width, 0, self.most)
        slope = penalised * self.point - (after * self.labels) @ z / m
        assert abs(slope @ step) <= 0.0101 * abs(right @ step)
        return len(band)


def in_band(X, y, n_band, rng, loss, layout, *arguments):
    """A problem of whose rows so many are in the band at first, and stay there if A moves."""
    problem = Problem(convert(X, layout, X.dtype), y, *arguments, loss=loss, width=10.0)
    inside = rng.permutation(len(y)) < n_band
    if loss == "hinge":
        problem.centre[:] = np.where(inside, rng.uniform(0.1, 0.6, len(y)), 1) * problem.c
    else:  # those that are within the margin
        problem.move_to(rng.normal(size=X.shape[1] + 1), X)
        problem.labels[:] = np.where(problem.scores > 0, 1, -1)
        sizes = np.sort(np.abs(problem.scores))
        sizes = np.concatenate([[0], sizes, 2 * sizes[-1:]])
        problem.move_to(problem.point / sizes[n_band : n_band + 2].mean(), X)
    return problem


@pytest.mark.parametrize("loss", _core.LOSSES)
@pytest.mark.parametrize("has_blas", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1.0])
def test_equations_are_solved_however_many_rows_there_are(
    rng, layout, dtype, intercept, lam, has_blas, loss
):
    X, y = make_rows(rng, n=120, d=40)
    X[3] = X[4] / 2  # scores differ
    X = X.astype(dtype)
    weights = rng.uniform(0.5, 2, len(y))
    # BLAS has single precision, as far as its errors stay below a tenth of what lam adds.
    # Those grow with the matrix, which is twenty times as large for the squared hinge.
    single = 1e-6 if loss == "hinge" else 2e-5
    tolerance = (0.1 if lam < 1e-2 else single) if has_blas else 1e-9
    for n_band in (0, 1, 17, 40, 41, 42, 100):
        problem = in_band(X, y, n_band, rng, loss, layout, lam, intercept, weights)
        assert problem.check_step(X, has_blas, tolerance) == n_band


@pytest.mark.parametrize("has_blas", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_features_that_add_up_to_a_constant_are_no_trouble(rng, dtype, intercept, has_blas):
    """Nothing but a small lam holds the matrix up: rounding errors of single precision would show."""
    X = np.repeat(np.eye(40), 5, axis=0)[rng.permutation(200)].astype(dtype)
    y = np.where(rng.uniform(size=200) < 0.5, 1, -1)
    problem = in_band(X, y, 200, rng, "hinge", "dense", 1e-9, intercept)
    assert problem.check_step(X, has_blas, 1e-7) == 200


@pytest.mark.parametrize("has_blas", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("n_band", [10, 200])
def test_singular_equations_have_an_answer(rng, dtype, intercept, has_blas, n_band):
    """lam is lost beside the sum: of equal features, none leaps."""
    X, y = np.ones((200, 30), dtype), np.where(rng.uniform(size=200) < 0.3, 1, -1)
    problem = in_band(X, y, n_band, rng, "hinge", "dense", 1e-22, intercept)
    problem.check_step(X, has_blas, 1e-4)
    np.testing.assert_allclose(problem.point[:-1], problem.point[0], rtol=1e-3)


@pytest.mark.parametrize("loss", _core.LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_conjugate_gradients_solve_the_equations_of_many_features(
    rng, layout, dtype, intercept, loss
):
    n, d = 60, _core.NEWTON_MOST + 50
    X, y = make_rows(rng, n=n, d=d)
    X[3] = X[4] / 2  # scores differ
    X = X.astype(dtype)
    for n_band in (0, 20, 60):
        problem = in_band(X, y, n_band, rng, loss, layout, 0.1, intercept)
        assert problem.check_step(X, True, 0.02) == n_band


@pytest.mark.parametrize("loss", _core.LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_features_without_values_change_nothing(rng, layout, intercept, loss):
    """So many that equations are solved by products."""
    X, y = make_rows(rng, n=80, d=10)
    wide = np.zeros((80, _core.NEWTON_MOST + 1))
    wide[:, :10] = X
    options = {"loss": loss, "tol": 1e-6}
    few = Problem(convert(X, layout, np.float64), y, 1e-2, intercept, **options)
    many = Problem(convert(wide, layout, np.float64), y, 1e-2, intercept, **options)
    few.run(False), many.run(False)
    assert max(few.gap(X), many.gap(wide)) <= 1.01e-6
    np.testing.assert_allclose(few.state["primal"], many.state["primal"], rtol=2e-6)


@pytest.mark.parametrize("loss", _core.LOSSES)
@pytest.mark.parametrize("has_blas", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("shape", [(600, 12), (30, 60)])
def test_a_run_may_be_stopped_anywhere(rng, layout, dtype, intercept, has_blas, shape, loss):
    X, y = make_rows(rng, n=shape[0], d=shape[1])
    y[::7] = 0
    weights = rng.uniform(0.5, 2, len(y))

    def problem():
        X_k = convert(X, layout, dtype)
        return Problem(X_k, y, 1e-2, intercept, weights, loss, tol=1e-6)

    whole = problem()
    assert whole.run(has_blas) == _core.DONE
    assert whole.gap(X.astype(dtype)) <= 1.01e-6
    # After each iteration; then at the first poll, the second, the third, ...
    for grows, options in ((0, {"every": 1e18, "by_epochs": True}), (1, {"every": 1})):
        stopped, n_stops = problem(), 0
        while stopped.run_until(1 + grows * n_stops, has_blas, **options):
            n_stops += 1
        assert n_stops >= 3 + 7 * grows
        assert stopped.bits() == whole.bits()


def test_a_run_asks_after_about_so_many_numbers(rng):
    """Of many rows or features, whatever is under way: a piece is worth a million numbers or so."""
    for shape in ((30_000, 20), (400, 300), (50, 2500)):
        X, y = make_rows(rng, n=shape[0], d=shape[1])
        tell = Mock()
        Problem(X, y, 1e-3, last_epoch=30).run(False, tell, every=1e6)
        assert 30 * X.size / 4e6 <= tell.call_count <= 30 * X.size / 1e4


@pytest.mark.parametrize("loss", _core.LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("shape", [(200, 12), (30, 60), (150, 300)])
def test_plain_loops_go_where_blas_goes(rng, layout, dtype, intercept, shape, loss):
    X, y = make_rows(rng, n=shape[0], d=shape[1])
    X[:, -2], X[:, -1] = X[:, 0], 1  # features depend on each other
    weights = rng.uniform(0.1, 2, len(y))
    loops, blas = (
        Problem(convert(X, layout, dtype), y, 1e-3, intercept, weights, loss, tol=1e-6)
        for _ in range(2)
    )
    loops.run(False), blas.run(True)
    assert max(loops.gap(X.astype(dtype)), blas.gap(X.astype(dtype))) <= 1.01e-6
    np.testing.assert_allclose(loops.state["primal"], blas.state["primal"], rtol=2e-6)
    assert loops.state["n_epochs"] <= 1.2 * blas.state["n_epochs"] + 5


def test_a_point_whose_objective_is_no_number_is_told(rng):
    X, y = make_rows(rng, n=20, d=3)
    problem = Problem(X, y, 0.1)
    problem.scores[3] = np.inf
    problem.labels[3] = -1
    assert problem.run(False) == _core.OVERFLOW


@pytest.mark.parametrize("size", [1e-25, 1e-18, 1e18, 1e25])
@pytest.mark.parametrize("n_features", [10, 60])
def test_the_unit_of_the_rows_does_not_matter(rng, size, n_features):
    """With many features, the matrix may be one of single precision, whose range ends sooner."""
    X, y = make_rows(rng, n=200, d=n_features)
    fits = [
        PegasosClassifier(
            0.1 * s**2, solver="newton", tol=1e-6, fit_intercept=False, random_state=0
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
                lam, solver="newton", tol=1e-4, max_iter=2000, random_state=0,
                penalize_intercept=not free,
            ).fit(convert(X * scale, layout, np.float64), y)  # fmt: skip
        assert np.isfinite(model.coef_).all()
        assert 0 <= model.dual_objective_[0] <= model.objective_[0] <= 1 + 1e-9
        hinge = np.maximum(0, 1 - y * model.decision_function(X * scale)).mean()
        assert model.objective_[0] >= hinge * (1 - 1e-9)


def test_a_free_intercept_is_not_held_back_where_features_are_large():
    """Newton's matrix once had all of lam at the intercept: hundreds of steps of a thousandth each."""
    X, y = load_wine(return_X_y=True)
    clf = PegasosClassifier(penalize_intercept=False, multi_class="ovo", random_state=0).fit(X, y)
    assert (clf.duality_gap_ <= 1e-3 * clf.objective_).all()
    assert clf.n_iter_ < 250


def factor_of(X, kernel, **parameters):
    """The kernel matrix, and what there is of a factor."""
    points = kernels.make(kernel, **parameters).points(X)
    cache = kernels.ColumnCache(points, 10)
    matrix = points.X if kernel == "precomputed" else points.against(points)
    return matrix.astype(np.float64), _low_rank.factor(cache)


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


def test_a_factor_of_many_columns_is_not_made(rng, monkeypatch):
    monkeypatch.setattr(_low_rank, "_MOST", 40)
    X, y = make_rows(rng, n=80, d=4)
    assert factor_of(X, "rbf", gamma=3.0)[1].shape == (80, 0)
    assert factor_of(np.zeros((80, 80)), "precomputed")[1].shape == (80, 0)
    clf = KernelPegasosClassifier(1e-3, gamma=3.0, solver="newton", tol=1e-6, random_state=0)
    clf.fit(X, y)
    assert "newton" not in clf.solver_epochs_
    assert clf.duality_gap_[0] <= 1e-6 * clf.objective_[0]


@pytest.mark.parametrize("loss", _core.LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_kernel_machines_reach_their_gap(rng, dtype, loss, intercept):
    """The dual variables of the linear machine on a factor's rows are those of the kernel machine."""
    X, y = make_rows(rng, n=80, d=4)
    settings = _pegasos.Settings(
        0.01, loss, fit_intercept=intercept != "none", penalize_intercept=intercept != "free"
    )
    points = kernels.make("rbf", gamma=0.3).points(X.astype(dtype))
    c, n = rng.uniform(0.5, 2, len(y)), len(y)
    cache, labels = kernels.ColumnCache(points, 1), y.astype(np.int8)[None]
    problem = _problem.Problem(cache, labels, c, settings)
    start = np.zeros((1, n)), np.zeros(1)
    a, b, n_epochs = _low_rank.newton(problem, _low_rank.factor(cache), start, 1e-6, 500, 0)
    assert 0 < n_epochs[0] <= 500
    beta = a * labels / (settings.lam * problem.masses)[:, None]
    seen = _certificate.certify_kernel(problem, lambda: a, lambda: (beta, b))
    assert seen.estimate[0] <= 1e-5


def test_newton_follows_where_dual_ascent_creeps(rng):
    """Over a kernel of few features and a small lambda, where it would take thousands of epochs."""
    X = rng.normal(size=(600, 6))
    y = X[:, 0] + rng.normal(size=600) > 0
    options = {"kernel": "linear", "loss": "squared_hinge", "tol": 1e-9, "random_state": 0}
    clf = KernelPegasosClassifier(1e-6, **options).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-9 * clf.objective_[0]
    assert list(clf.solver_epochs_)[:3] == ["pegasos", "sdca", "newton"]
    assert sum(clf.solver_epochs_.values()) == clf.n_iter_ < 300
    plain = clone(clf).set_params(solver="newton").fit(X, y)
    assert list(plain.solver_epochs_)[:2] == ["pegasos", "newton"]
    assert plain.objective_[0] == pytest.approx(clf.objective_[0], rel=2e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
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
            KernelPegasosClassifier(lam, loss=loss, solver=solver, **options).fit(
                np.eye(n), y, sample_weight=weights
            )
            for solver in ("newton", "sdca")
        )
        assert newton.duality_gap_[0] <= 1e-3 * newton.objective_[0]
        assert newton.dual_objective_[0] <= ascent.objective_[0]


@pytest.mark.parametrize("kernel", ["linear", "precomputed", "rbf"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
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
        clf = KernelPegasosClassifier(lam, kernel=kernel, loss=loss, max_iter=300, **options)
        assert clf.fit(X, y).duality_gap_[0] <= 1e-9 * clf.objective_[0]
