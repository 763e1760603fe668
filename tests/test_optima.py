"""Least objectives of every target, form of rows, type, weights, intercept; and CLARABEL's."""

import itertools

import clarabel
import numpy as np
import pytest
from losses import EPSILON, LOSSES, TARGET_LOSSES
from rows import DTYPES, convert, make_rows
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

import pegasos

LAM, NU, GAMMA = 0.02, 0.3, 0.1
# With v = 1 - y s of labels, or the size of z - s less a dead zone, the loss is min q xi^2/2 + p xi
# + r eta over xi + eta >= v, 0 <= xi <= cap, 0 <= eta. Its q, p, cap and r; and the dead zone.
FORMS = {
    "hinge": (0, 1, np.inf, 0, 0),
    "squared_hinge": (2, 0, np.inf, 0, 0),
    "modified_huber": (2, 0, 2, 4, 0),
    "epsilon_insensitive": (0, 1, np.inf, 0, EPSILON),
    "squared_epsilon_insensitive": (2, 0, np.inf, 0, EPSILON),
    "huber": (1, 0, EPSILON, EPSILON, 0),
    "squared_error": (1, 0, np.inf, 0, 0),
}
ONE_CLASS, JOINT = "one class", "crammer_singer"
INTERCEPTS = ("none", "penalized", "free")


def solve(P, q, parts):
    """The least x'Px/2 + q'x, where right - A x is in a cone for each of the parts."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones, A, right = zip(*parts, strict=True)
    A, right = sparse.csc_matrix(np.vstack(A)), np.concatenate(right)
    found = clarabel.DefaultSolver(sparse.csc_matrix(np.diag(P)), q, A, right, cones, settings)
    return found.solve().obj_val


def least(target, F, y, z, c, intercept):
    """min P by an interior-point method, where scores are F w + b."""
    n, d = F.shape
    share, zero = c / c.sum(), np.zeros((n, n))
    has_b, penalty = float(intercept != "none"), LAM * (intercept == "penalized")
    scores = np.column_stack([F, np.full(n, has_b), zero, zero])  # of w, b, and two numbers a row
    lam, slope = (NU, NU) if target == ONE_CLASS else (LAM, 0.0)
    first, second = (np.eye(n, 2 * n + d + 1, d + 1 + k) for k in (0, n))
    P, q = np.zeros(2 * n + d + 1), np.zeros(2 * n + d + 1)
    P[:d], P[d], q[d] = lam, penalty, slope
    if target == "log_loss":  # t >= log(1 + exp(-y s)): exp(-t) + exp(-y s - t) <= 1
        q[d + 1 : d + 1 + n] = share
        sides = ((first, -second, 0), (first + y[:, None] * scores, second, 1))
        parts = [
            (clarabel.ExponentialConeT(), np.array([t[i], 0 * u[i], u[i]]), [0, 1, right])
            for i, (t, u, right) in itertools.product(range(n), sides)
        ]
        return solve(P, q, parts)
    bend, rise, cap, beyond, dead = FORMS["hinge" if target == ONE_CLASS else target]
    P[d + 1 : d + 1 + n], q[d + 1 : d + 1 + n] = bend * share, rise * share
    q[d + 1 + n :] = beyond * share
    both = first + second * (beyond > 0)
    signs, at = ([1, -1], z) if target in TARGET_LOSSES else ([1], np.full(n, target in LOSSES))
    scores = y[:, None] * scores if target in LOSSES else scores
    rows = [-both - sign * scores for sign in signs] + [-first, -second]
    right = [dead - sign * at for sign in signs] + [np.zeros(n), np.zeros(n)]
    if cap < np.inf:
        rows, right = [*rows, first], [*right, np.full(n, cap)]
    return solve(
        P, q, [(clarabel.NonnegativeConeT(n), A, b) for A, b in zip(rows, right, strict=True)]
    )


def least_joint(F, codes, cost, c, intercept):
    """min P of the joint problem by an interior-point method."""
    n, d = F.shape
    K, share = len(cost), c / c.sum()
    scores = np.column_stack([F, np.full(n, float(intercept != "none"))])
    P, q = np.zeros(K * (d + 1) + n), np.zeros(K * (d + 1) + n)
    P[: K * (d + 1)] = np.tile(np.append(np.full(d, LAM), LAM * (intercept == "penalized")), K)
    q[K * (d + 1) :] = share
    parts = []
    for k in range(K):  # xi >= cost + s_k - s_y
        A = np.zeros((n, len(q)))
        A[:, k * (d + 1) : (k + 1) * (d + 1)] = scores
        for i, y in enumerate(codes):
            A[i, y * (d + 1) : (y + 1) * (d + 1)] -= scores[i]
        A[np.arange(n), K * (d + 1) + np.arange(n)] = -1
        parts.append((clarabel.NonnegativeConeT(n), A, -cost[codes, k]))
    return solve(P, q, parts)


@pytest.mark.parametrize("target", [*LOSSES, *TARGET_LOSSES, ONE_CLASS, JOINT])
def test_the_least_objective_is_that_of_an_independent_solver(rng, target):
    X, y = make_rows(rng, n=40, d=5, density=0.7)
    z, weights = y + rng.normal(size=40), rng.uniform(0.1, 2, 40)
    codes, cost = rng.integers(0, 3, 40), rng.uniform(0.5, 2, (3, 3))
    codes[:3], cost = [0, 1, 2], cost - np.diag(np.diag(cost))
    K = rbf_kernel(X, gamma=GAMMA)
    values, vectors = np.linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0))
    intercepts = ["free"] if target == ONE_CLASS else INTERCEPTS
    for weighted, intercept, kernel in itertools.product((False, True), intercepts, (False, True)):
        c, F = weights if weighted else np.ones(40), features if kernel else X
        options = {"tol": 1e-7, "max_iter": 10**5, "random_state": 0} | (
            {"gamma": GAMMA} if kernel else {}
        )
        if target != ONE_CLASS:
            options |= {"lam": LAM, "fit_intercept": intercept != "none"}
            options["penalize_intercept"] = intercept != "free"
        if target == JOINT and kernel:
            continue
        if target == JOINT:
            best, answers = least_joint(F, codes, cost, c, intercept), codes
            options |= {"multi_class": JOINT, "cost": cost}
            make = pegasos.PegasosClassifier
        else:
            best, answers = (
                least(target, F, y, z, c, intercept),
                z if target in TARGET_LOSSES else y,
            )
            task = {ONE_CLASS: "OneClass", **dict.fromkeys(LOSSES, "Classifier")}
            make = getattr(pegasos, "Kernel" * kernel + "Pegasos" + task.get(target, "Regressor"))
            options |= {"nu": NU} if target == ONE_CLASS else {"loss": target}
            options |= {"epsilon": EPSILON} if target in TARGET_LOSSES else {}
        for layout, dtype in itertools.product(("dense", "csr32"), DTYPES):
            machine = make(**options).fit(convert(X, layout, dtype), answers, sample_weight=c)
            cell = f"{make.__name__}, {weighted=}, {intercept=}, {layout=}, {dtype=}"
            assert machine.objective_[0] == pytest.approx(best, rel=1e-6, abs=1e-9), cell
            assert machine.dual_objective_[0] == pytest.approx(best, rel=1e-6, abs=1e-9), cell
