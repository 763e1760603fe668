"""Runs of kernel problems: what holds of their ends, and of those that are cut anywhere."""

import itertools

import numpy as np
import pytest
from interruption import interrupted
from losses import ALL, BOUNDS, CONJUGATES, LEAST, TARGET_LOSSES, core_targets
from sklearn.datasets import make_moons

from pegasos import KernelPegasosClassifier, _core, kernels

LAM, TOL = 0.01, 1e-7
INTERCEPTS = {"none": (0.0, False), "penalized": (1.5, False), "free": (0.0, True)}
#: Words of `kernel_state` (``csrc/fit.h``): what a run is at, the rows of its round, visits of all
#: rows, and further ones.
PART, N_ACTIVE, N_EPOCHS, N_SEEN = 24, 25, 37, 36
ROUND = 5


class Source:
    """Has columns of a matrix on demand, and room for some; can break once."""

    def __init__(self, K, room):
        self.K, n = K, len(K)
        self.column_of = np.full(n, -1)
        rows = _core.Rows(np.zeros((n, 1), K.dtype))
        points = _core.Points(rows, kind=_core.OTHER, write=self.write)
        columns = np.empty((int(room * n), n), K.dtype)
        self.core = _core.Columns(points, columns, self.column_of)
        self.breaks_at, self.n_calls = -1, 0

    def write(self, x, rows, z, others, out):
        self.n_calls += 1
        if self.n_calls == self.breaks_at:
            raise ZeroDivisionError
        out[...] = self.K[rows][:, others]

    @classmethod
    def whole(cls, K):
        source = cls(K, 1)
        source.core.keep(np.arange(len(K)), _core.Watch())
        return source


class Case:
    """A Gaussian kernel problem with twin rows, weights, and rows that are not in it."""

    def __init__(self, rng, dtype, loss, intercept, n=70, tol=TOL, last_epoch=10**4):
        X = rng.normal(size=(n, 2))
        X[5] = X[4]
        self.K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)).astype(dtype)
        self.y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1).astype(np.int8)
        self.y[rng.random(n) < 0.1] *= -1
        self.y[7::20] = 0
        self.c, self.z = rng.uniform(0.2, 2, n), np.ones(n)
        if loss in TARGET_LOSSES:
            self.z = np.sin(2 * X[:, 0]) + 0.3 * self.y
            self.y = np.abs(self.y)
        self.scaling, self.is_free = INTERCEPTS[intercept]
        self.targets = core_targets(
            loss, self.y, self.z, self.c, lams=np.array([LAM]), intercept_scaling=self.scaling,
            free_intercept=self.is_free,
        )  # fmt: skip
        self.tol, self.last_epoch, self.is_positive = tol, last_epoch, True
        self.fits = _core.Fits(1, n, 0)

    def run(self, source=None, watch=None):
        source = Source.whole(self.K) if source is None else source
        matrix = _core.Matrix(
            source.core, lambda _: np.empty((len(self.y), 0)), is_positive=self.is_positive
        )
        return _core.solve(
            matrix, self.targets, np.diag(self.K).astype(np.float64), self.fits,
            np.array([self.last_epoch]), tol=self.tol, seed=3, solver=_core.ASCENT,
            watch=watch or _core.Watch(),
        )  # fmt: skip

    @property
    def found(self):
        return self.fits.solutions()[0]

    @property
    def arrays(self):
        """Dual variables, their scores, and the coefficients of the best model."""
        return self.fits.a[0], self.fits.scores[0], self.fits.coef[0]

    def stored(self):
        """Its state, as if it had been saved and loaded."""
        self.fits = _core.Fits(1, len(self.y), 0, self.fits.memory.copy())

    def same_end(self, other):
        np.testing.assert_array_equal(self.fits.memory, other.fits.memory)


CASES = [
    pytest.mark.parametrize("loss", ALL),
    pytest.mark.parametrize("intercept", INTERCEPTS),
]


def of_all_cases(test):
    for mark in CASES:
        test = mark(test)
    return test


@of_all_cases
def test_its_end_is_what_it_says(rng, dtype, loss, intercept):
    """Feasible dual variables, scores that are theirs, and the gap, computed from both."""
    case = Case(rng, dtype, loss, intercept)
    assert case.run() is not None
    a, scores, coef = case.arrays
    y, c, m = case.y, case.c, case.c[case.y != 0].sum()
    s = 1 / (LAM * m)
    K, inside = case.K.astype(np.float64), y != 0
    assert (a >= LEAST[loss] * c).all()
    assert (a[~inside] == 0).all()
    assert (a <= BOUNDS[loss] * c).all()
    np.testing.assert_allclose(scores, s * K @ (a * y), atol=1e-9)
    b = case.found["intercept"]
    losses = ALL[loss](case.z - y * (K @ coef + b))[inside]
    primal = LAM / 2 * coef @ K @ coef + c[inside] @ losses / m
    if case.scaling:
        primal += LAM / 2 * (b / case.scaling) ** 2
    assert primal == pytest.approx(case.found["objective"], rel=1e-9)
    beta = s * a * y
    dual = (CONJUGATES[loss](a, c) + (case.z - 1) * a)[inside].sum() / m
    squared = beta @ K @ beta
    if case.is_free:  # nearly balanced
        assert abs(a @ y) <= 1e-2 * np.abs(a).sum()
    else:
        dual -= LAM / 2 * (squared + (case.scaling * beta.sum()) ** 2)
        assert -1e-12 <= primal - dual <= 2 * TOL * primal
    assert case.found["relative_gap"] <= TOL


@of_all_cases
@pytest.mark.parametrize("room", [None, 1, 0.3, 0], ids=["whole", "columns", "some", "parts"])
def test_wherever_it_is_cut_it_ends_with_the_same_bits(rng, dtype, loss, intercept, room):
    state = rng.bit_generator.state

    def make():
        rng.bit_generator.state = state
        case = Case(rng, dtype, loss, intercept)
        return case, None if room is None else Source(case.K, room)

    whole, source = make()
    whole.run(source)
    cut, source = make()
    asks, n_stops, patience = 0, 0, 0

    def on_poll():  # further and further apart: what was stopped is begun again
        nonlocal asks, patience
        asks += 1
        if asks > patience:
            asks, patience = 0, patience + 1
            raise KeyboardInterrupt

    while True:
        try:
            cut.run(source, _core.Watch(on_poll, every=100))
            break
        except KeyboardInterrupt:
            n_stops += 1
            cut.stored()
    assert n_stops > (0 if loss == "log_loss" else 3)  # which a few visits of each row solve
    cut.same_end(whole)


@pytest.mark.parametrize("room", [1, 0.3, 0])
def test_what_a_source_raises_stops_it(rng, dtype, room):
    """... and it goes on from there."""
    state = rng.bit_generator.state
    whole = Case(rng, dtype, "hinge", "free")
    source = Source(whole.K, room)
    whole.run(source)
    for number in range(1, source.n_calls + 1):
        rng.bit_generator.state = state
        cut = Case(rng, dtype, "hinge", "free")
        source = Source(cut.K, room)
        source.breaks_at = number
        with pytest.raises(ZeroDivisionError):
            cut.run(source)
        cut.stored()
        assert cut.run(source) is not None
        cut.same_end(whole)


@of_all_cases
def test_columns_are_asked_for_once_and_change_nothing(rng, dtype, loss, intercept):
    state = rng.bit_generator.state
    whole = Case(rng, dtype, loss, intercept, n=700, tol=1e-4)
    whole.run()
    rng.bit_generator.state = state
    case = Case(rng, dtype, loss, intercept, n=700, tol=1e-4)
    source = Source(case.K, room=1)
    case.run(source)
    case.same_end(whole)
    assert loss != "hinge" or np.count_nonzero(source.column_of >= 0) < len(case.y)


def solve_inside(case, fits, insides):
    matrix = _core.Matrix(
        Source.whole(case.K).core, lambda _: np.empty((len(case.y), 0)), is_positive=True
    )
    return _core.solve(
        matrix, case.targets, np.diag(case.K).astype(np.float64), fits, np.array([case.last_epoch]),
        tol=case.tol, seed=3, solver=_core.ASCENT, insides=insides, watch=_core.Watch(),
    )  # fmt: skip


@of_all_cases
def test_a_problem_on_some_rows_has_the_bits_of_one_over_these_rows(rng, dtype, loss, intercept):
    case = Case(rng, dtype, loss, intercept)
    inside = np.flatnonzero(case.y)
    fits = _core.Fits(1, len(inside), 0)
    (found,) = solve_inside(case, [fits], [inside])
    assert found == fits.solutions()[0]
    assert found["relative_gap"] <= TOL
    case.K, case.y, case.z, case.c = (
        case.K[np.ix_(inside, inside)], case.y[inside], case.z[inside], case.c[inside],
    )  # fmt: skip
    case.targets = core_targets(
        loss, case.y, case.z, case.c, lams=np.array([LAM]), intercept_scaling=case.scaling,
        free_intercept=case.is_free,
    )  # fmt: skip
    case.fits = _core.Fits(1, len(inside), 0)
    case.run()
    np.testing.assert_array_equal(fits.memory, case.fits.memory)


@pytest.mark.parametrize(
    ("n_rows", "insides"),
    [(2, [[0, 70]]), (2, [[-1, 0]]), (3, [[0, 1]]), (2, [[0, 1], [0, 1]]), (2, [])],
)
def test_rows_that_are_not_there_are_refused(rng, n_rows, insides):
    case = Case(rng, np.float64, "hinge", "none")
    rows = [np.array(inside) for inside in insides]
    with pytest.raises(ValueError, match="insides"):
        solve_inside(case, [_core.Fits(1, n_rows, 0)], rows)


@pytest.mark.parametrize("loss", ALL)
def test_the_solution_of_a_sample_is_spread_over_rows_of_the_problem_alone(rng, dtype, loss):
    case = Case(rng, dtype, loss, "none", n=600, tol=0.5)  # more rows than a sample has
    case.run()
    a, scores, _ = case.arrays
    beta = a * case.y / (LAM * case.c[case.y != 0].sum())
    assert (a[case.y == 0] == 0).all()
    np.testing.assert_allclose(scores, case.K.astype(np.float64) @ beta, atol=1e-5)


@pytest.mark.parametrize("n", [100, 1500])
def test_epochs_are_counted(rng, dtype, n):
    for last in range(1, 6):
        case = Case(rng, dtype, "hinge", "penalized", n=n, tol=-1, last_epoch=last)
        case.run()
        assert case.found["n_epochs"] == last
        case.last_epoch += 2
        case.run()
        assert case.found["n_epochs"] == last + 2


@pytest.mark.parametrize("cache_size", [0.05, 100])
@pytest.mark.parametrize("intercept", [{}, {"fit_intercept": False}, {"penalize_intercept": False}])
def test_small_lam_is_certified_in_few_epochs(dtype, cache_size, intercept):
    """Where steps on single rows undo each other: these took hundreds of epochs, or gave up."""
    X, y = make_moons(400, noise=0.3, random_state=0)
    clf = KernelPegasosClassifier(
        lam=1e-6,
        gamma=0.5,
        tol=1e-3,
        max_iter=400,
        cache_size=cache_size,
        random_state=0,
        **intercept,
    ).fit(X.astype(dtype), y)
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]


@pytest.mark.parametrize("room", [None, 0])
@pytest.mark.parametrize("is_positive", [True, False])
def test_a_round_that_no_row_can_join_ends(rng, dtype, room, is_positive):
    """All rows are where they belong; only the gap is too large for `tol`."""
    case = Case(rng, dtype, "hinge", "none", tol=1e-300, last_epoch=30)
    case.K[...] = np.eye(len(case.y))
    case.is_positive = is_positive
    case.run(None if room is None else Source(case.K, room))
    assert case.found["n_epochs"] <= 30


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_a_small_cache_and_wrong_labels_take_few_epochs(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0) ^ (rng.random(6000) < 0.2)
    clf = KernelPegasosClassifier(
        C=10,
        gamma=0.5,
        loss=loss,
        penalize_intercept=False,
        cache_size=1,
        max_iter=100,
        random_state=0,
    )
    clf.fit(X, y)
    assert clf.duality_gap_ <= 1e-3 * clf.objective_


@pytest.mark.parametrize("cache_size", [0.5, 1000])
def test_a_fit_that_is_cut_in_a_round_of_all_rows_goes_on_with_it(cache_size):
    """With as many visits as one that is not cut; where there is less room now, to its gap."""
    rng, n = np.random.default_rng(0), 2100  # more than a round has without room
    X = rng.normal(size=(n, 6))
    y = X[:, 0] + 1.5 * rng.normal(size=n) > 0
    options = {"lam": 1e-3, "gamma": 0.1, "solver": "sdca", "tol": 1e-6, "random_state": 0}
    whole = KernelPegasosClassifier(**options, warm_start=True).fit(X, y)
    for after in itertools.count():
        clf = KernelPegasosClassifier(**options, warm_start=True)
        with interrupted(after, every=2e5):
            clf.fit(X, y)
        words = clf._state["solver.memory"][0].view(np.int64)
        if words[PART] == ROUND and words[N_ACTIVE] == len(X):
            break
    clf.set_params(cache_size=cache_size).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-6 * clf.objective_[0]
    if cache_size == 1000:
        memory = (fit._state["solver.memory"][0] for fit in (clf, whole))
        visits = (of_fit.view(np.int64)[[N_EPOCHS, N_SEEN]].tolist() for of_fit in memory)
        assert next(visits) == next(visits)
        # Columns are computed in other groups, which BLAS may round in another way.
        np.testing.assert_allclose(clf.dual_coef_, whole.dual_coef_, atol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "n_features", "cost"), [("rbf", 3, 4), ("sigmoid", 3, 9), ("laplacian", 256, 24)]
)
def test_ctrl_c_is_heard_after_few_kernel_values(rng, kernel, n_features, cost):
    """Of so many numbers, which a value costs: exp, tanh, differences, memory that is cleared."""
    X = rng.normal(size=(4000, n_features))[: 4000 if n_features == 3 else 2000]
    points = kernels.make(kernel, gamma=0.1, coef0=0).points(X)
    values, written = np.full((1000, len(X)), np.nan), [0]
    watch = _core.Watch(lambda: written.append(np.isfinite(values).sum()))
    _core.kernel_values(points[np.arange(1000)].core, points.core, values, watch)
    assert np.diff([*written, values.size]).max() * cost <= 2 * 5e6


def test_ctrl_c_is_heard_after_few_rows_of_a_matrix_that_is_mirrored(rng):
    """What is first written to a row may have the system clear the memory of all of it."""
    points = kernels.make("linear").points(rng.normal(size=(3000, 2)).astype(np.float32))
    matrix, begun = np.full((3000, 3000), np.nan, np.float32), [0]
    columns = _core.Columns(points.core, matrix, np.full(3000, -1), is_all_at_once=True)
    watch = _core.Watch(lambda: begun.append(np.isfinite(matrix[:, 0]).sum()))
    columns.keep(np.arange(1), watch)
    assert np.diff([*begun, 3000]).max() * 3000 * 4 <= 2 * 5e6
