"""Hypothesis looks for problems whose certificate is wrong, or whose solver misses its claim."""

import warnings

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import DTYPES, LAYOUTS, convert
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

import pegasos
from pegasos import KernelPegasosClassifier


@st.composite
def problems(draw):
    """Small problems with whatever makes trouble: equal rows, rows of zeros, weights of zero."""
    n, d = draw(st.integers(2, 25)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.integers(-2, 3, (n, d)) * 10.0 ** draw(st.integers(-2, 1))
    X = X if draw(st.booleans()) else X + rng.normal(size=(n, d)).astype(np.float32)
    y = rng.choice([-1, 1], n)
    y[:2] = -1, 1
    weights = rng.choice([0, 0.5, 1, 3], n) if draw(st.booleans()) else None
    if weights is not None:
        weights[:2] = 1
    return X, y, weights, 10.0 ** draw(st.integers(-4, 0))


def best(X, y, weights, lam, feature):
    """An upper and a lower bound of the optimum, by L-BFGS-B on the dual."""
    c = np.ones(len(y)) if weights is None else weights
    m = c.sum()
    Z = y[:, None] * np.column_stack([X, np.full(len(y), feature)])

    def negative(a):
        w = a @ Z / (lam * m)
        return lam / 2 * w @ w - a.sum() / m, (Z @ w - 1) / m

    found = minimize(negative, c / 2, jac=True, bounds=[(0, ci) for ci in c], method="L-BFGS-B")
    w = found.x @ Z / (lam * m)
    return lam / 2 * w @ w + c @ np.maximum(0, 1 - Z @ w) / m, -found.fun


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    problem=problems(),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(DTYPES),
    solver=st.sampled_from(["pegasos", "sdca", "newton", "auto"]),
    fit_intercept=st.booleans(),
    tol=st.sampled_from([1e-1, 1e-3, 1e-6]),
)
def test_certificates_are_true(problem, layout, dtype, solver, fit_intercept, tol):
    X, y, weights, lam = problem
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ConvergenceWarning)
        model = pegasos.fit(
            convert(X, layout, dtype), y, lam, solver=solver, tol=tol, max_iter=300,
            sample_weight=weights, fit_intercept=fit_intercept, random_state=0,
        )  # fmt: skip
    X = X.astype(dtype).astype(np.float64)
    objective, dual = model.objective[0], model.dual_objective[0]
    c = np.ones(len(y)) if weights is None else weights
    w, b = model.coef[0], model.intercept[0]
    hinge = c @ np.maximum(0, 1 - y * (X @ w + b)) / c.sum()
    # 1 - y f(x) is rounded where both are about 1: that may be all of the objective.
    written = lam / 2 * (w @ w + b * b) + hinge
    np.testing.assert_allclose(objective, written, rtol=1e-9, atol=4 * np.finfo(float).eps)
    upper, lower = best(X, y, weights, lam, float(fit_intercept))
    rounding = 1e-9 * max(upper, 1e-3)
    assert dual <= upper + rounding
    assert objective >= lower - rounding
    assert bool(told) == (model.duality_gap[0] > tol * objective)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    problem=problems(),
    kernel=st.sampled_from(["linear", "rbf", "poly"]),
    solver=st.sampled_from(["pegasos", "auto"]),
    cache_size=st.sampled_from([0, 100]),
)
def test_certificates_of_kernel_machines_are_true(problem, kernel, solver, cache_size):
    X, y, weights, lam = problem
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ConvergenceWarning)
        clf = KernelPegasosClassifier(
            lam=lam, kernel=kernel, gamma=0.3, degree=2, solver=solver, tol=1e-3, max_iter=300,
            cache_size=cache_size, random_state=0,
        ).fit(X, y, sample_weight=weights)  # fmt: skip
    K = {
        "linear": X @ X.T,
        "rbf": np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2)),
        "poly": (0.3 * X @ X.T) ** 2,
    }[kernel]
    values, vectors = np.linalg.eigh(K)
    upper, lower = best(vectors * np.sqrt(np.maximum(values, 0)), y, weights, lam, 1.0)
    rounding = 1e-6 * max(upper, 1e-3)
    assert clf.dual_objective_[0] <= upper + rounding
    assert clf.objective_[0] >= lower - rounding
    assert bool(told) == (clf.duality_gap_[0] > 1e-3 * clf.objective_[0])
