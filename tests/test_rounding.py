"""Certificates of kernel machines hold whatever rounding does to kernel values."""

import numpy as np
import pytest
from losses import LOSSES
from rows import convert, make_rows
from sklearn.exceptions import ConvergenceWarning

from pegasos import KernelPegasosClassifier, kernels
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings


def gauss(X, Z):
    """A kernel of a user's, which returns float64."""
    return np.asarray(exact("rbf", X, Z, gamma=0.5), np.float64)


KERNELS = {
    "rbf": {"gamma": 0.05},
    "laplacian": {"gamma": 0.05},
    "poly": {"gamma": 0.05, "degree": 3, "coef0": 1.0},
    "linear": {},
}


def exact(kernel, X, Z, gamma=1.0, degree=3, coef0=0.0):
    """Kernel values in extended precision."""
    X, Z = X.astype(np.longdouble), Z.astype(np.longdouble)
    if kernel in ("linear", "poly"):
        products = np.einsum("ij,kj->ik", X, Z)
        return products if kernel == "linear" else (gamma * products + coef0) ** degree
    difference = X[:, None] - Z
    power = difference**2 if kernel == "rbf" else np.abs(difference)
    return np.exp(-np.longdouble(gamma) * power.sum(axis=2))


def near_duplicates(rng, offset, n=80):
    """Rows in float32, half of them beside another one, and labels at random."""
    X = rng.normal(size=(n // 2, 5))
    X = np.concatenate([X, X + 1e-4 * rng.normal(size=X.shape)]) + offset
    return X.astype(np.float32), rng.choice([-1, 1], n)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # told so, or slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("offset", [0, 20, 1000])
@pytest.mark.parametrize("intercept", [True, False])
def test_near_duplicates_have_a_true_certificate(rng, layout, kernel, offset, intercept):
    """Where n λ is small, coefficients are large: rounding makes the float32 matrix indefinite."""
    X, y = near_duplicates(rng, offset)
    lam, options = 1e-3 / len(y), {"kernel": kernel, **KERNELS[kernel], "random_state": 0}
    options |= {"fit_intercept": intercept, "max_iter": 300, "tol": 1e-7}
    K = exact(kernel, X, X, **KERNELS[kernel])
    best, claims = np.inf, []
    for dtype, solver in ((np.float64, "auto"), (np.float32, "auto"), (np.float32, "pegasos")):
        rows = convert(X, layout, dtype)
        clf = KernelPegasosClassifier(lam=lam, solver=solver, **options).fit(rows, y)
        beta = np.zeros(len(y), np.longdouble)
        beta[clf.support_] = clf.dual_coef_[0]
        f, b = K @ beta, np.longdouble(clf.intercept_[0])
        P = lam / 2 * (beta @ f + b**2) + np.maximum(0, 1 - y * (f + b)).mean()
        best = min(best, P)
        assert not np.isnan(clf.duality_gap_[0])
        claims.append((P, clf.objective_[0], clf.dual_objective_[0]))
    for P, objective, dual_objective in claims:
        assert dual_objective <= best
        assert P - best <= objective - dual_objective
        assert abs(objective - P) <= objective - dual_objective


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["callable", "sigmoid", "poly"])
def test_values_of_other_kernels_are_not_rounded_to_the_type_of_the_rows(dtype, kernel):
    """Nothing is known of what rounding does to them, so that no gap could leave room for it."""
    n_certified = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(30, 3)).astype(dtype), rng.choice([-1, 1], 30)
        wide, lam, options = X.astype(np.float64), 1e-5, {"gamma": 0.3, "coef0": -0.1, "degree": 3}
        if kernel == "callable":
            K, which = gauss(wide, wide), gauss
        else:
            K, which = 0.3 * wide @ wide.T - 0.1, kernel
            K = np.tanh(K) if kernel == "sigmoid" else K**3
        clf = KernelPegasosClassifier(
            lam=lam, kernel=which, fit_intercept=False, tol=1e-6, random_state=seed, **options
        )
        clf.fit(X, y)
        beta = np.zeros(len(y))
        beta[clf.support_] = clf.dual_coef_[0]
        P = lam / 2 * beta @ K @ beta + np.maximum(0, 1 - y * (K @ beta)).mean()
        assert clf.objective_[0] == pytest.approx(P, rel=1e-9)
        if np.isfinite(clf.duality_gap_[0]):
            n_certified += 1
            assert 0 <= P - clf.dual_objective_[0] <= clf.duality_gap_[0] + 1e-9 * P
        np.testing.assert_allclose(clf.decision_function(X), K @ beta, rtol=1e-9, atol=1e-9)
    assert n_certified == (6 if kernel == "callable" else 0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("offset", [0, 30, 1e4])
def test_scores_are_within_their_doubt(rng, layout, dtype, kernel, offset):
    if kernel == "linear":
        pytest.skip("its certificate goes by way of the weights")
    X, _ = make_rows(rng, n=90)
    X = (X + offset).astype(dtype)
    K = exact(kernel, X, X, **KERNELS[kernel])
    points = kernels.make(kernel, **KERNELS[kernel]).points(convert(X, layout, dtype))
    cache = kernels.ColumnCache(points, 1)
    coef = rng.normal(size=(2, 90)) * (rng.random((2, 90)) < 0.5)
    scores, lengths = coef @ K, np.abs(coef)

    def doubt(dtype):
        sizes, errors = cache.rounding(dtype)
        n_added = np.count_nonzero(coef, axis=1) + 2
        return lengths @ errors + n_added * np.finfo(np.float64).eps * (lengths @ sizes)

    error = np.abs(cache.push(coef, np.arange(90)) - scores).max(axis=1)
    assert (error <= doubt(dtype)).all()
    if offset == 0:  # and it is not much larger than it need be
        assert (doubt(dtype) <= 1e4 * np.finfo(dtype).eps * (lengths @ np.abs(K)).max()).all()
    # The certificate is in double, whatever the rows are.
    y, settings = rng.choice(np.array([-1, 1], np.int8), (2, 90)), Settings(0.1)
    problem = Problem(y, None, settings)
    found = cache.certify(problem, coef, np.zeros(2), np.zeros((2, 90)))
    primal = 0.05 * (coef * scores).sum(axis=1) + np.maximum(0, 1 - y * scores).mean(axis=1)
    more = doubt(np.float64) * (1 + 0.05 * lengths.sum(axis=1))
    assert (np.abs(found.objective - primal) <= more).all()
    assert (found.dual_objective <= -0.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_symmetric_is_part_of_the_gap(rng, dtype):
    X, y = make_rows(rng)
    K = np.exp(-0.05 * ((X[:, None] - X) ** 2).sum(axis=2))
    skew = np.triu(1e-5 * rng.normal(size=K.shape), 1).clip(-5e-5, 5e-5)
    gaps = []
    for matrix in (K, K + skew - skew.T):
        clf = KernelPegasosClassifier(
            lam=1e-2, kernel="precomputed", tol=None, max_iter=30, random_state=0
        )
        clf.fit(matrix.astype(dtype), y)
        gaps.append(clf.duality_gap_[0])
    size = np.abs(clf.dual_coef_).sum()
    assert gaps[1] >= gaps[0] + 1e-2 / 2 * np.abs(skew).max() * size**2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
def test_multiples_of_a_dual_point_have_multiples_of_its_errors(solver, loss):
    """Of a matrix that rounding to float32 made slightly indefinite, |w|^2 may be below 0."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        v, y = 10 ** rng.uniform(0, 2) * rng.normal(size=13), rng.choice([-1, 1], 13)
        y[:2] = -1, 1
        clf = KernelPegasosClassifier(
            lam=10 ** rng.uniform(-8, -4), kernel="precomputed", solver=solver, loss=loss,
            penalize_intercept=False, random_state=0, tol=1e-9, max_iter=30,
        )  # fmt: skip
        clf.fit(np.outer(v, v).astype(np.float32), y)
        assert clf.dual_objective_[0] <= 1  # w = 0 has this objective at most
        assert clf.duality_gap_[0] >= clf.objective_[0] - clf.dual_objective_[0]


def test_what_rounding_forbids_to_prove_is_told(rng):
    X, y = make_rows(rng, n=100)
    K = (X @ X.T).astype(np.float32)
    clf = KernelPegasosClassifier(lam=1e-4, kernel="precomputed", random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"^stopped after \d+ epochs: rounding allows"):
        clf.fit(K, y)
    assert clf.duality_gap_[0] > 1e-3 * clf.objective_[0]
    clf.fit(K.astype(np.float64) + 1e-3 * np.eye(100), y)  # without a warning


@pytest.mark.parametrize("kernel", KERNELS)
def test_ordinary_rows_leave_no_room_for_rounding(rng, layout, kernel):
    """tol=1e-3 is within reach in float32, 1e-9 in float64."""
    X, y = make_rows(rng, n=200)
    for dtype, tol in ((np.float32, 1e-3), (np.float64, 1e-9)):
        clf = KernelPegasosClassifier(
            lam=1e-3, kernel=kernel, **KERNELS[kernel], tol=tol, max_iter=5000, random_state=0
        ).fit(convert(X, layout, dtype), y)
        assert clf.duality_gap_[0] <= tol * clf.objective_[0]
