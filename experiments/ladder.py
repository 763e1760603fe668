"""How objective and test error fall with time: fits of growing length, each from the beginning.

The clock runs during `fit` only, which for our solvers includes the certificate of the objective
(two passes over the rows). No machine here has an intercept, as in the paper.
"""

import time
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from pegasos import C_from_lam, PegasosClassifier


class Rung(NamedTuple):
    """What one fit reached."""

    epochs: float
    seconds: float
    suboptimality: float
    error: float


class Optimum(NamedTuple):
    """The best model: a bound below every objective, its distance from that, its test error."""

    bound: float
    gap: float
    error: float


def signs(data):
    """`data` with labels -1 and 1, the larger label positive."""
    data.y, data.y_test = (np.where(y == data.y.max(), 1, -1) for y in (data.y, data.y_test))
    return data


def squared_norm(X):
    """Mean squared norm of the rows."""
    return float((X.multiply(X).sum() if hasattr(X, "multiply") else (X * X).sum()) / X.shape[0])


def optimum(data, lam, tol):
    """Fit until the relative duality gap is at most `tol`, or 20000 epochs are over."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = PegasosClassifier(
            lam=lam, tol=tol, max_iter=20000, fit_intercept=False, random_state=0
        ).fit(data.X, data.y)
    return Optimum(best.dual_objective_[0], best.duality_gap_[0], error(best, data))


def error(machine, data):
    """Part of the test rows that are misclassified."""
    return float((machine.predict(data.X_test) != data.y_test).mean())


def objective(machine, data, lam):
    """P(w), computed here in double precision, the same way for everyone's machines."""
    w = machine.coef_.ravel().astype(np.float64)
    return lam / 2 * (w @ w) + np.maximum(0, 1 - data.y * (data.X @ w)).mean()


def ours(solver, average=False):
    """A function (lam, n, epochs, seed) that makes one of our machines.

    "pegasos" can run for part of an epoch.
    """

    def make(lam, n, epochs, seed):
        part = {"n_steps": int(epochs * n)} if epochs < 1 else {"max_iter": int(epochs)}
        return PegasosClassifier(
            lam=lam, solver=solver, average=average, tol=None, fit_intercept=False, random_state=seed,
            **part,
        )  # fmt: skip

    return make


def sgd(average):
    """The same for scikit-learn's SGDClassifier."""

    def make(lam, n, epochs, seed):
        return SGDClassifier(
            loss="hinge", alpha=lam, tol=None, max_iter=epochs, average=average,
            fit_intercept=False, random_state=seed,
        )  # fmt: skip

    return make


def linear_svc(lam, n, epochs, seed):
    """The same for scikit-learn's LinearSVC."""
    return LinearSVC(
        loss="hinge", C=C_from_lam(lam, n), tol=1e-12, max_iter=epochs, fit_intercept=False,
        random_state=seed,
    )  # fmt: skip


def climb(make, data, lam, bound, budgets, seed, enough):
    """Rungs of growing `budgets`, in epochs, until one is within `enough` of `bound`."""
    rungs = []
    for epochs in budgets:
        machine = make(lam, data.X.shape[0], epochs, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            began = time.perf_counter()
            machine.fit(data.X, data.y)
            seconds = time.perf_counter() - began
        above = objective(machine, data, lam) - bound
        rungs.append(Rung(epochs, seconds, above, error(machine, data)))
        if above <= enough:
            break
    return rungs


def first_below(rungs, level):
    """The first rung with a suboptimality of at most `level`, or None."""
    return next((rung for rung in rungs if rung.suboptimality <= level), None)
