"""One class: optima by CLARABEL, certificates by NumPy, Pegasos as a textbook has it, errors."""

import pickle
import re
from types import SimpleNamespace

import clarabel
import numpy as np
import pytest
from covering import covering
from interruption import asked_often, interrupted
from rows import DTYPES, LAYOUTS, convert
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDOneClassSVM
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

import pegasos
from pegasos import KernelPegasosOneClass, PegasosOneClass, _core
from pegasos.problems import _certificate, _losses
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings

GAMMA = 0.3
KINDS = (PegasosOneClass, KernelPegasosOneClass)
SOLVERS = ("auto", "sdca", "newton")
BOTH = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def data(rng):
    """Rows away from the origin, a few outliers, and weights, one of them 0."""
    X = np.abs(rng.normal(loc=[1, 2, 3, 1], size=(120, 4)))
    X[::15] = rng.uniform(0.1, 6, size=(8, 4))
    c = rng.uniform(0.2, 3, 120)
    c[5] = 0
    return X, c


def options(kind):
    return {"gamma": GAMMA} if kind is KernelPegasosOneClass else {}


def primal(f, norm, b, c, nu):
    """P(w, b) by its definition, with |w|^2 = norm."""
    return nu / 2 * norm + c @ np.maximum(0, -f) / c.sum() + nu * b


def dual_point(K, c, nu):
    """The best dual variables, by CLARABEL, which add up to 1."""
    n, most = len(c), c / (nu * c.sum())
    A = sparse.vstack([np.ones((1, n)), -sparse.identity(n), sparse.identity(n)], format="csc")
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    Q = sparse.triu(sparse.csc_matrix(K / np.abs(K).max()), format="csc")
    right = np.concatenate([[1.0], np.zeros(n), most])
    found = clarabel.DefaultSolver(Q, np.zeros(n), A, right, cones, settings).solve()
    a = np.clip(found.x, 0, most)
    return a / a.sum()


def best_dual(K, c, nu):
    a = dual_point(K, c, nu)
    assert (a <= c / (nu * c.sum()) * (1 + 1e-6)).all()
    return -nu / 2 * a @ K @ a


def best_primal(K, c, nu):
    """The objective of the w of these dual variables, at the best b."""
    a = dual_point(K, c, nu)
    f, norm = K @ a, a @ K @ a
    return min(primal(f + b, norm, b, c, nu) for b in -f)


def kernel_options(kernel):
    options = {"gamma": 1.0, "coef0": 1.0, "degree": 3}
    return {"linear": {}, "rbf": {"gamma": 1.0}, "poly": options}[kernel]


# ---- scikit-learn's checks -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:kernel values of all training rows are about equal")
@pytest.mark.filterwarnings(
    "ignore:.*rounding allows no smaller gap:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks([PegasosOneClass(), KernelPegasosOneClass()])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


# ---- Optima --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@covering(
    3, kind=(PegasosOneClass, KernelPegasosOneClass), nu=(0.03, 0.3, 1.0), weighted=(False, True),
    layout=LAYOUTS, dtype=DTYPES,
)  # fmt: skip
def test_fits_are_optimal_and_their_certificates_true(data, kind, nu, weighted, layout, dtype):
    X = data[0].astype(dtype).astype(np.float64)
    c = data[1] if weighted else np.ones(len(X))
    K = X @ X.T if kind is PegasosOneClass else rbf_kernel(X, gamma=GAMMA)
    dual = best_dual(K, c, nu)
    for solver in SOLVERS:
        one = kind(nu=nu, solver=solver, tol=1e-6, random_state=0, **options(kind))
        one.fit(convert(data[0], layout, dtype), sample_weight=c if weighted else None)
        if kind is PegasosOneClass:
            norm, f = (one.coef_**2).sum(), X @ one.coef_[0] + one.intercept_[0]
        else:
            beta = np.zeros(len(X))
            beta[one.support_] = one.dual_coef_[0]
            norm, f = beta @ K @ beta, K @ beta + one.intercept_[0]
            assert beta.sum() == pytest.approx(1, abs=1e-12)
            assert beta.min() >= 0
            assert (beta <= c / (nu * c.sum()) * (1 + 1e-9)).all()
        P = primal(f, norm, one.intercept_[0], c, nu)
        size = abs(dual)
        assert one.objective_[0] == pytest.approx(P, abs=1e-9 * size)
        # With nu = 0.03, steps along single rows move b slowly. The certificate of kernel values in
        # float32 leaves room for their rounding, which is 1e-6 of so small a |w|^2.
        is_single = dtype == np.float32 and kind is KernelPegasosOneClass
        reached = 1e-4 if solver == "sdca" and kind is PegasosOneClass else 1e-6 * (1 + is_single)
        doubt = 1e-5 * is_single
        assert -1e-9 * size <= P - dual <= 1.1 * reached * size
        assert one.dual_objective_[0] <= dual + 1e-9 * size
        assert P - one.dual_objective_[0] <= 1.1 * (reached + doubt) * size
        np.testing.assert_allclose(
            one.decision_function(X), f, atol=(1e-5 + 10 * doubt) * np.abs(f).max()
        )


@BOTH
@pytest.mark.parametrize("nu", [0.07, 0.52])  # of 120 rows: else offsets may be an interval
def test_machines_are_those_of_scikit_learn(data, kind, nu):
    X, _ = data
    ours = kind(nu=nu, tol=1e-8, random_state=0, **options(kind)).fit(X)
    theirs = OneClassSVM(
        kernel="linear" if kind is PegasosOneClass else "rbf", gamma=GAMMA, nu=nu, tol=1e-6,
    ).fit(X)  # fmt: skip
    f, g = ours.decision_function(X), theirs.decision_function(X) / (nu * len(X))
    np.testing.assert_allclose(f, g, atol=1e-4 * np.abs(g).max())
    is_clear = np.abs(g) > 1e-3 * np.abs(g).max()
    np.testing.assert_array_equal(ours.predict(X)[is_clear], theirs.predict(X)[is_clear])
    if kind is PegasosOneClass:
        sgd = SGDOneClassSVM(nu=nu, max_iter=2000, tol=None, random_state=0).fit(X)
        P = primal(sgd.decision_function(X), (sgd.coef_**2).sum(), -sgd.offset_[0],
                   np.ones(len(X)), nu)  # fmt: skip
        assert ours.dual_objective_[0] <= P
        assert ours.objective_[0] <= P


@BOTH
def test_nu_bounds_outliers_and_support_vectors(data, kind):
    X, c = data
    for nu in (0.01, 0.1, 0.4, 0.8):
        one = kind(nu=nu, random_state=0, **options(kind)).fit(X, sample_weight=c)
        assert c[one.predict(X) == -1].sum() <= nu * c.sum()
        if kind is KernelPegasosOneClass:
            assert c[one.support_].sum() >= nu * c.sum() * (1 - 1e-9)


@pytest.mark.parametrize(("nu", "gamma"), [(0.05, 0.01), (0.2, 0.01), (0.3, "scale"), (0.5, 0.1)])
def test_few_rows_are_support_vectors_where_the_sum_of_dual_variables_is_mended(nu, gamma):
    X = load_digits().data / 16
    one = KernelPegasosOneClass(nu=nu, gamma=gamma, random_state=0).fit(X)
    assert nu * len(X) <= len(one.support_) <= 1.2 * nu * len(X) + 5
    assert one.dual_coef_.sum() == pytest.approx(1)


@covering(
    2, nu=(0.05, 0.3, 0.8), gamma=(0.01, 0.1, "scale"), solver=SOLVERS, weighted=(False, True),
    layout=LAYOUTS, dtype=DTYPES,
)  # fmt: skip
def test_dual_variables_add_up_without_a_little_of_every_row(
    rng, nu, gamma, solver, weighted, layout, dtype
):
    X = rng.normal(size=(1500, 10))
    c = rng.uniform(0.5, 1.5, len(X)) if weighted else np.ones(len(X))
    given = convert(X, layout, dtype)
    one = KernelPegasosOneClass(nu=nu, gamma=gamma, solver=solver, random_state=0)
    one.fit(given, sample_weight=c if weighted else None)
    fine = clone(one).set_params(tol=1e-8, solver="auto").fit(given, sample_weight=c)
    share = one.dual_coef_[0] * nu * c.sum() / c[one.support_]
    assert one.dual_coef_[0].sum() == pytest.approx(1, abs=1e-12)
    assert (share <= 1 + 1e-12).all()
    between = np.sort(share[share < 0.999])
    assert np.diff(between).min(initial=1) > 1e-9  # no rows were raised together
    assert len(one.support_) <= 1.1 * len(fine.support_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nu_bounds_outliers_whatever_the_rounding_of_kernel_values(dtype):
    X = StandardScaler().fit_transform(load_breast_cancer().data).astype(dtype)
    for nu in (0.03, 0.1, 0.3, 0.5):
        for gamma in (0.005, 0.02, 0.1):
            one = KernelPegasosOneClass(nu=nu, gamma=gamma, random_state=0).fit(X)
            assert (one.predict(X) == -1).sum() <= nu * len(X)


@BOTH
@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_of_another_scale_have_the_same_machine(data, kind, solver):
    X, c = data
    kernel = {"kernel": "linear"} if kind is KernelPegasosOneClass else {}
    one = kind(nu=0.2, solver=solver, random_state=0, tol=1e-8, **kernel).fit(X, sample_weight=c)
    f, size = one.decision_function(X), np.abs(one.offset_[0])
    for r in (2.0**-7, 2.0**10):
        other = clone(one).fit(r * X, sample_weight=c)
        g = other.decision_function(r * X) / r**2
        np.testing.assert_allclose(g, f, atol=1e-3 * size)
        np.testing.assert_allclose(other.objective_ / r**2, one.objective_, rtol=2e-8)


def test_the_origin_among_the_rows_leaves_nothing(rng):
    """Where the origin is a mean of rows that nu allows, w = 0 is the optimum: a fit says so."""
    X = rng.normal(size=(50, 3))
    X = np.vstack([X, -X])
    linear = [KINDS[0](solver=solver) for solver in SOLVERS]
    for one in [*linear, KINDS[1](kernel="linear")]:
        one.set_params(nu=0.5, random_state=0)
        with pytest.warns(UserWarning, match="finds no outlier") as warned:
            one.fit(X)
        assert [warning.filename for warning in warned] == [__file__]
        assert one.objective_[0] == 0
        assert one.duality_gap_[0] <= 1e-12
        assert (one.predict(X) == 1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("parameters", "advice"),
    [
        ({"kernel": "poly", "nu": 0.01}, "kernel='rbf', or rows that are not centred"),
        ({"kernel": "poly", "nu": 0.5}, "kernel='rbf', or rows that are not centred"),
        ({"kernel": "poly", "tol": 1.0}, "kernel='rbf', or rows that are not centred"),
        ({"kernel": "poly", "solver": "newton"}, "kernel='rbf', or rows that are not centred"),
        ({"kernel": "sigmoid"}, "a positive semi-definite kernel such as kernel='rbf'"),
        (
            {"kernel": "sigmoid", "coef0": -1.0, "max_iter": 30},
            "a positive semi-definite kernel such as kernel='rbf'",
        ),
    ],
)
def test_a_kernel_machine_that_finds_no_outlier_says_so(rng, dtype, parameters, advice):
    """An indefinite kernel had no warning; where rounding was left, a larger tol was advised."""
    X = np.r_[rng.normal(size=(380, 2)), rng.uniform(-6, 6, (20, 2))].astype(dtype)
    parameters = {"nu": 0.1, "random_state": 0} | parameters
    with pytest.warns(UserWarning, match="finds no outlier") as warned:
        one = KernelPegasosOneClass(**parameters).fit(X)
    assert [str(warning.message).partition("may help: ")[2] for warning in warned] in (
        [advice], [f"a kernel machine with {advice}"],
    )  # fmt: skip
    assert one.objective_[0] == 0
    assert (one.predict(X) == 1).all()
    one = KernelPegasosOneClass(**parameters | {"kernel": "rbf", "tol": 1e-3, "max_iter": 1000})
    assert (one.fit(X).predict(X) == -1).any()


def test_a_fit_that_ends_early_is_not_told_to_be_around_the_origin(rng):
    """w = 0 is only the best it has found so far."""
    X = rng.normal(loc=(1, 0), size=(100, 2))
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1") as warned:
        one = PegasosOneClass(nu=0.1, solver="sdca", max_iter=1, random_state=0).fit(X)
    assert not one.coef_.any()
    assert len(warned) == 1


# ---- Certificates --------------------------------------------------------------------------------


def test_random_certificates_hold(rng):
    """P(w, b) >= D(a), of any point and of any dual point once it is made feasible."""
    n_trials = 3000
    for trial in range(n_trials):
        n, d, nu = rng.integers(1, 9), rng.integers(1, 4), rng.uniform(0.01, 1)
        X = rng.normal(size=(n, d)) * rng.choice([0.1, 1, 10])
        c = rng.choice([0.01, 1.0, 1.0, 30.0], n) if trial % 2 else np.ones(n)
        lam = nu * 1.001 * (c @ (X**2).sum(axis=1)) / c.sum()
        settings = Settings(lam, loss=_losses.of_one_class(nu), penalize_intercept=False)
        rows = _core.Rows(X)
        problem = Problem(np.ones((1, n), np.int8), c if trial % 2 else None, settings)
        a = (rng.uniform(-0.3, 1.3, n) * c)[None]
        w, b = rng.normal(size=(1, d)), rng.normal(size=1)
        ends = 1 - w @ X.T  # one of them is the best b
        losses = [c @ np.maximum(0, ends[0] - end) + nu * c.sum() * end for end in ends[0]]
        b = rng.choice([b, ends[:, np.argmin(losses)]])
        point = SimpleNamespace(
            model=lambda w=w, b=b: (w, b), dual=lambda a=a: a, last_check=lambda: None
        )
        found = _certificate.certify(rows, problem, point)
        mended = problem.targets.feasible(a, True)[0]
        assert (mended >= 0).all()
        assert (mended <= c).all()
        assert mended.sum() == pytest.approx(nu * c.sum())
        of_a = mended @ X / (lam * c.sum())
        D = mended.sum() / c.sum() - lam / 2 * of_a @ of_a
        hinge = c @ np.maximum(0, 1 - X @ w[0] - b[0]) / c.sum()
        P = lam / 2 * w[0] @ w[0] + hinge + nu * b[0]
        assert found.objective[0] == pytest.approx(P, rel=1e-12)
        assert found.dual_objective[0] == pytest.approx(max(D, 0), rel=1e-12)
        assert P >= D - 1e-12 * P
        assert nu / 2 - 1e-12 <= P


@pytest.mark.filterwarnings("ignore:kernel values of all training rows are about equal")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_random_fits_have_true_certificates(rng):
    """Of rows that are equal, zero or of any size, with weights of many orders of magnitude."""
    for _ in range(80):
        n, d = rng.integers(1, 40), rng.integers(1, 6)
        X = (rng.normal(size=(n, d)) + rng.choice([0, 2])) * rng.choice([1e-3, 1, 1, 100])
        X[rng.random(n) < 0.2] = X[0]
        X[rng.random(n) < 0.1] *= rng.choice([0, 1])
        c = 10 ** rng.uniform(-3, 3, n) if rng.random() < 0.5 else np.ones(n)
        nu, kernel = rng.choice([0.01, 0.1, 0.5, 0.9]), rng.choice(["linear", "rbf", "poly"])
        make = {
            "nu": nu, "solver": rng.choice([*SOLVERS, "pegasos"]), "random_state": 0,
            "tol": [1e-3, 1e-6, "auto"][rng.integers(3)], "max_iter": int(rng.choice([3, 300])),
        }  # fmt: skip
        if kernel == "linear" and rng.random() < 0.5:
            one = PegasosOneClass(**make).fit(X, sample_weight=c)
            K, beta = X @ X.T, None
        else:
            one = KernelPegasosOneClass(kernel=kernel, gamma=1.0, coef0=1.0, **make)
            one.fit(X, sample_weight=c)
            K, beta = pairwise_kernels(X, metric=kernel, **kernel_options(kernel)), np.zeros(n)
            beta[one.support_] = one.dual_coef_[0]
        f = X @ one.coef_[0] if beta is None else K @ beta
        norm = (one.coef_**2).sum() if beta is None else beta @ K @ beta
        P = primal(f + one.intercept_[0], norm, one.intercept_[0], c, nu)
        rounding = 1e-9 * nu * np.abs(K.diagonal()).max()
        assert one.objective_[0] == pytest.approx(P, abs=rounding)
        assert one.dual_objective_[0] <= P + rounding
        assert best_dual(K, c, nu) <= one.objective_[0] + 10 * rounding
        assert one.dual_objective_[0] <= best_primal(K, c, nu) + rounding


# ---- Pegasos -------------------------------------------------------------------------------------


def textbook(X, c, nu, draws, batch_size, average, ball):
    """Pegasos on one class: w = 0 and b = -s at first, with s the mean of |x|^2, rounded up."""
    share = c / c.mean()
    s = 2.0 ** np.ceil(np.log2(1.001 * (share @ (X**2).sum(axis=1)) / len(X)))
    w, b, iterates = np.zeros(X.shape[1]), -s, []
    for t in range(1, len(draws) // batch_size + 1):
        batch = draws[(t - 1) * batch_size : t * batch_size]
        rate = 1 / (nu * t)
        below = [i for i in batch if X[i] @ w + b < 0]
        w = (1 - nu * rate) * w
        for i in below:
            w = w + rate / batch_size * share[i] * X[i]
            b = b + rate / batch_size * share[i]
        b = b - rate * nu
        if ball:
            w = min(1, np.sqrt(s) / max(np.linalg.norm(w), 1e-300)) * w
        iterates.append((w, b))
    kept = {False: iterates[-1:], True: iterates, "suffix": iterates[len(iterates) // 2 :]}[average]
    return np.mean([w for w, _ in kept], axis=0), np.mean([b for _, b in kept])


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("average", [False, True, "suffix"])
@pytest.mark.parametrize(("batch_size", "project"), [(1, False), (1, True), (5, False)])
def test_steps_are_those_of_the_textbook(data, kind, layout, average, batch_size, project):
    X, c, n_steps = data[0], data[1] + 0.1, 200
    one = kind(
        nu=0.3, solver="pegasos", n_steps=n_steps, batch_size=batch_size, average=average,
        project=project, random_state=7, **({"kernel": "linear"} if kind is not KINDS[0] else {}),
    ).fit(convert(X, layout, np.float64), sample_weight=c)  # fmt: skip
    order = _core.Order(7, np.empty(len(X), np.int64), _core.SAMPLINGS["permutation"], 0)
    draws = np.empty(n_steps * batch_size, np.int64)
    order.draw(draws)
    w, b = textbook(X, c, 0.3, draws, batch_size, average, project)
    np.testing.assert_allclose(one.coef_[0], w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.intercept_, b, rtol=1e-9)
    assert one.duality_gap_[0] >= 0


def test_pegasos_comes_near_the_optimum(data):
    X, c = data[0] / np.linalg.norm(data[0], axis=1)[:, None], data[1]
    fine = PegasosOneClass(nu=0.3, tol=1e-9).fit(X, sample_weight=c)
    rough = PegasosOneClass(
        nu=0.3, solver="pegasos", tol=None, max_iter=2000, average="suffix", random_state=0
    ).fit(X, sample_weight=c)
    assert rough.objective_[0] - fine.objective_[0] < 0.01 * abs(fine.objective_[0])


# ---- Life cycle ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@BOTH
@pytest.mark.parametrize("solver", [*SOLVERS, "pegasos"])
def test_an_interrupted_fit_is_completed_to_the_same_bits(data, kind, solver):
    X, c = data
    one = kind(nu=0.2, solver=solver, tol=1e-7, max_iter=60, warm_start=True, random_state=0,
               **options(kind))  # fmt: skip
    with asked_often():
        whole = clone(one).fit(X, sample_weight=c)
    for after in (1, 4):
        again = clone(one)
        with interrupted(after):
            again.fit(X, sample_weight=c)
        again = pickle.loads(pickle.dumps(again))
        with asked_often():
            again.fit(X, sample_weight=c)
        np.testing.assert_array_equal(again.decision_function(X), whole.decision_function(X))
        assert again.objective_ == whole.objective_


@BOTH
def test_the_gap_of_a_fit_that_stops_short_is_told_as_a_part_of_the_bound(data, kind):
    X, _ = data
    one = kind(nu=0.2, solver="pegasos", tol=1e-7, max_iter=2, random_state=0, **options(kind))
    with pytest.warns(ConvergenceWarning) as told:
        one.fit(X)
    gap, percent = re.search(r"gap (\S+), (\S+) % of the bound;", str(told[0].message)).groups()
    assert float(gap) == pytest.approx(one.duality_gap_[0], rel=0.01)
    part = 100 * one.duality_gap_[0] / abs(one.dual_objective_[0])
    assert float(percent) == pytest.approx(part, rel=0.01)
    assert part != pytest.approx(100 * one.duality_gap_[0] / abs(one.objective_[0]), rel=0.02)


@BOTH
def test_a_fit_that_ended_is_continued(data, kind):
    X, _ = data
    one = kind(nu=0.2, tol=1e-7, max_iter=2, warm_start=True, random_state=0, **options(kind))
    with pytest.warns(ConvergenceWarning, match=r"Objective -?[0-9.e-]+, gap"):
        one.fit(X)
    before = one.duality_gap_[0]
    one.set_params(max_iter=1000).fit(X)
    assert one.duality_gap_[0] < before
    with pytest.raises(ValueError, match=r"nu must stay 0\.2 while training goes on"):
        one.set_params(nu=0.3).fit(X)


@BOTH
def test_a_fit_does_not_go_on_with_larger_rows(data, kind):
    """Their P, in the units of the fit, may be below 0, which its bounds and its end rest on."""
    X = data[0] * np.where(np.arange(120) < 60, 1, 9)[:, None]
    small, large = np.where(np.arange(120) < 60, [[1], [1e-3]], [[1e-3], [1]])
    one = kind(nu=0.2, warm_start=True, random_state=0)
    if kind is KernelPegasosOneClass:
        one.set_params(kernel="linear")
    smaller = one.fit(X, sample_weight=large).fit(X, sample_weight=small).dual_objective_
    np.testing.assert_allclose(
        smaller, clone(one).fit(X, sample_weight=small).objective_, rtol=2e-3
    )
    with pytest.raises(ValueError, match=r"X must not have larger rows .* of their squared norms"):
        clone(one).fit(X, sample_weight=small).fit(X, sample_weight=large)


@pytest.mark.parametrize("project", [False, True])
def test_rows_of_a_fit_that_goes_on_may_be_a_little_larger(rng, project):
    """The squared norms of the first fit are just below a power of two."""
    X = np.abs(rng.normal(size=(200, 3)))
    X *= np.sqrt(1020 / (X**2).sum(axis=1).mean())
    one = PegasosOneClass(nu=0.3, warm_start=True, random_state=0, project=project).fit(X)
    if project:
        with pytest.raises(ValueError, match=r"norms is 2042, but may be 1024"):
            one.fit(np.sqrt(2) * X)
    else:
        fresh = clone(one).fit(np.sqrt(2) * X)
        one.fit(np.sqrt(2) * X)
        rounding = 1e-12 * abs(fresh.objective_)
        assert one.dual_objective_ <= fresh.objective_ + rounding
        np.testing.assert_allclose(one.objective_, fresh.objective_, rtol=1e-3)


@pytest.mark.parametrize("size", [1e-150, 1e-100, 1e-30, 1e100])
def test_rows_of_any_size_have_fits_that_go_on(data, size):
    """The weight of a constant feature that is larger than the rows, squared, is not a number."""
    X = size * data[0]
    one = PegasosOneClass(nu=0.5, tol=1e-3, max_iter=30, warm_start=True, random_state=0).fit(X)
    first = one.duality_gap_[0]
    assert one.set_params(tol=1e-6, max_iter=1000).fit(X).duality_gap_[0] <= first


def test_pieces_lead_near_the_optimum(data):
    X = data[0] / np.linalg.norm(data[0], axis=1)[:, None]
    whole = PegasosOneClass(nu=0.3, tol=1e-6).fit(X)
    one = PegasosOneClass(nu=0.3, average="suffix", random_state=0)
    for _ in range(60):
        for part in np.array_split(X, 3):
            one.partial_fit(part)
    P = primal(one.decision_function(X), (one.coef_**2).sum(), one.intercept_[0],
               np.ones(len(X)), 0.3)  # fmt: skip
    assert P - whole.objective_[0] < 0.05 * abs(whole.objective_[0])


def test_a_fit_goes_on_where_an_indefinite_kernel_has_an_objective_below_0():
    """In training, P counts from -nu s; where |w|^2 is below 0, it may be less."""
    options = {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": -0.5, "nu": 0.66, "tol": None}
    for seed in (12, 34, 35):
        X = np.random.default_rng(seed).normal(size=(39, 5)).astype(np.float32)
        one = KernelPegasosOneClass(**options, max_iter=1, warm_start=True, random_state=0)
        one.fit(X).set_params(max_iter=3).fit(X)
        assert one.n_iter_ == 4
        assert np.isfinite(one.objective_)


def test_pieces_are_not_projected():
    """The ball was that of the first piece, however large the rows of others were."""
    with pytest.raises(ValueError, match="project must be False in partial_fit, got True"):
        PegasosOneClass(project=True).partial_fit(np.ones((3, 2)))


@BOTH
def test_y_is_ignored_and_scores_are_decisions(data, kind):
    X, _ = data
    one = kind(nu=0.2, random_state=0, **options(kind))
    plain = clone(one).fit(X)
    given = one.fit(X, y=["of", "no", "use"])
    np.testing.assert_array_equal(given.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(one.fit_predict(X), plain.predict(X))
    scores = plain.score_samples(X)
    atol = 2 * np.spacing(np.abs(scores).max())
    decisions = plain.decision_function(X)
    np.testing.assert_allclose(scores - plain.offset_, decisions, rtol=0, atol=atol)
    # Support vectors on the hyperplane are not told to be outliers by rounding.
    assert (decisions == 0).any()
    np.testing.assert_array_equal(plain.predict(X), np.where(scores >= plain.offset_, 1, -1))
    assert (plain.offset_ == -plain.intercept_).all()
    assert plain.lam_ == 0.2


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_model_files_tell_outliers(data, kind, layout, dtype, tmp_path):
    rows = convert(data[0], layout, dtype)
    one = kind(nu=0.2, random_state=0, **options(kind)).fit(rows)
    one.to_model().save(tmp_path / "m.npz")
    model = pegasos.load(tmp_path / "m.npz")
    assert (model.multi_class, model.classes.tolist(), model.lam) == ("one_class", [-1, 1], 0.2)
    assert (model.objective, model.duality_gap) == (one.objective_, one.duality_gap_)
    np.testing.assert_array_equal(model.decision_function(rows), one.decision_function(rows))
    np.testing.assert_array_equal(model.predict(rows), one.predict(rows))
    assert set(model.predict(rows)) == {-1, 1}
    with pytest.raises(AttributeError, match="predict_proba is not available"):
        model.predict_proba(rows)


def test_other_kernels(data):
    X, c = data
    one = KernelPegasosOneClass(nu=0.2, gamma=GAMMA, random_state=0).fit(X, sample_weight=c)
    K = rbf_kernel(X, gamma=GAMMA)
    given = KernelPegasosOneClass(nu=0.2, kernel="precomputed", assume_psd=True, random_state=0)
    given.fit(K, sample_weight=c)
    np.testing.assert_allclose(given.decision_function(K), one.decision_function(X), atol=1e-6)
    sigmoid = KernelPegasosOneClass(nu=0.2, kernel="sigmoid", gamma=0.1, max_iter=5, tol=None)
    assert np.isnan(sigmoid.fit(X).duality_gap_).all()
    pushed, pulled = (
        KernelPegasosOneClass(nu=0.2, solver="pegasos", n_steps=30, scores=scores, random_state=0)
        for scores in ("push", "pull")
    )
    np.testing.assert_allclose(
        pulled.fit(X).decision_function(X), pushed.fit(X).decision_function(X), atol=1e-12
    )


# ---- Errors --------------------------------------------------------------------------------------


def test_nu_below_one_row_changes_nothing():
    """As the refusal of a tiny nu promises: no training row is an outlier, and w is the same."""
    X = np.random.RandomState(0).normal(loc=3, size=(60, 4))
    for kind in KINDS:
        least, small = (
            kind(nu=nu, tol=1e-6, random_state=0, **options(kind)).fit(X) for nu in (1e-6, 1e-3)
        )
        scores = small.decision_function(X)
        error = 5e-3 * np.abs(scores).max()
        np.testing.assert_allclose(least.decision_function(X), scores, atol=error)
        assert (least.predict(X) == 1).all()
        with pytest.raises(ValueError, match="nu must be a finite number >= 1e-06 and <= 1, got"):
            kind(nu=1e-7).fit(X)


@BOTH
@pytest.mark.parametrize("nu", [0, -0.1, 1.01, np.nan, np.inf, 1e-7, "auto", None, True])
def test_nu_must_be_a_fraction(data, kind, nu):
    with pytest.raises((ValueError, TypeError), match=r"nu must be .*, got"):
        kind(nu=nu).fit(data[0])


@BOTH
def test_bad_rows_and_weights_are_refused(data, kind):
    X, c = data
    one = kind(random_state=0).fit(X)
    before = one.decision_function(X)
    for rows, weights, words in (
        (np.where(X > 2, np.nan, X), None, "NaN"),
        (X, -c, "sample_weight"),
        (X, 0 * c, "sample_weight"),
        (X, c[1:], "sample_weight"),
        (X[0], None, "two-dimensional"),
        (1e200 * X, None, "overflow|too large|scale"),
    ):
        with pytest.raises(ValueError, match=words):
            one.fit(rows, sample_weight=weights)
        np.testing.assert_array_equal(one.decision_function(X), before)
    with pytest.raises(ValueError, match="features"):
        one.predict(X[:, 1:])


@BOTH
def test_certificates_of_huge_rows_are_true_or_the_rows_refused(data, kind):
    X, _ = data
    linear = {} if kind is PegasosOneClass else {"kernel": "linear"}
    one = kind(nu=0.5, random_state=0, **linear)
    least = one.fit(X).objective_[0]
    for size in (1e100, 1e130):
        assert one.fit(size * X).dual_objective_[0] <= least * size**2 * (1 - 1e-9)
    with pytest.raises(ValueError, match="the features of X are too large"):
        one.fit(1e145 * X)
