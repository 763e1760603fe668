"""Kernel problems as linear ones, where the kernel matrix has a factor of few columns.

With K = L L^T, the kernel machine is the linear machine whose rows are those of L: objectives, dual
variables and scores are the same. Kernels of few features have such a factor, polynomials above
all, and so have smooth kernels of large scale, but for rounding. There Newton's method on the rows
of L (``csrc/newton.c``) is far faster than dual ascent, whose steps along columns of K then undo
each other.
"""

from typing import Any

import numpy as np

from pegasos import _core
from pegasos._threads import blas
from pegasos.problems import _certificate
from pegasos.problems._problem import Problem
from pegasos.solvers._linear import Linear

# The factor has at most so many columns, and takes at most as much memory as columns of K may.
_MOST = 1024
# Columns of K that are computed together, which there is room for in any case. A pivot below this
# part of the largest one that is left waits for another block.
_TOGETHER, _LEAST_PIVOT = 32, 1e-3


@blas.one_thread()
def factor(cache: Any) -> np.ndarray:
    """L of shape (n, rank), so that K = L L^T but for rounding; (n, 0) if the rank is large.

    Cholesky's factorisation with pivots: the next column is that of the row with the largest
    diagonal of K - L L^T, which bounds all that is left (Harbrecht, Peters and Schneider: On the
    low-rank approximation by the pivoted Cholesky decomposition, Applied Numerical Mathematics 62,
    2012).
    """
    points, n = cache.points, len(cache.points)
    is_given = points.kernel.is_given
    eps = n * np.finfo(points.dtype if is_given else np.float64).eps
    most = int(min(n, _MOST, max(cache.room / (8 * n), _TOGETHER)))
    if points.dtype != np.float64 and not is_given:
        points = points.in_double(np.arange(n))
    left = np.abs(points.diagonal())
    rank, least = 0, eps * left.max()
    rows = np.empty((most + _TOGETHER, n))  # of the transpose; pages are taken when written
    while left.max() > least:
        if rank >= most:
            return np.empty((n, 0))
        which = np.argsort(left)[-_TOGETHER:]
        which = which[left[which] > least]
        some = points[which]
        columns = (some.X if is_given else some.against(points)).astype(np.float64)
        columns -= rows[:rank, which].T @ rows[:rank]
        first = rank
        while len(which):
            best = int(np.argmax(left[which]))
            pivot = which[best]
            if not left[pivot] > max(least, _LEAST_PIVOT * left.max()):
                break
            new = columns[best] - rows[first:rank, pivot] @ rows[first:rank]
            new /= np.sqrt(left[pivot])
            rows[rank] = new
            rank += 1
            left = np.maximum(left - new * new, 0)
            left[pivot] = 0
            which, columns = np.delete(which, best), np.delete(columns, best, axis=0)
    return np.ascontiguousarray(rows[:rank].T)


def newton(
    problem: Problem,
    rows: np.ndarray,
    start: tuple[np.ndarray, np.ndarray],
    tol: float | None,
    max_iter: int,
    seed: int,
    **threads: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bring kernel problems to a relative gap by Newton's method.

    Parameters
    ----------
    problem : Problem
        The rows of which are a `ColumnCache`.
    rows : ndarray
        From `factor`.
    start : tuple of arrays
        Dual variables of shape (n_problems, n), and intercepts.
    tol, max_iter, threads
        As in `Solver.run`.

    Returns
    -------
    dual variables, intercepts, epochs
    """
    settings = problem.settings
    n, rank = rows.shape
    linear = Linear(settings, len(problem), n, rank, seed)
    linear.method = "newton"
    a, intercept = start
    coef = problem.coefficients(a) @ rows
    own = Problem(
        _core.dense_rows(rows), problem.labels, problem.row_weights, settings, problem.values
    )
    linear.begin(own, (a, coef, intercept))
    linear.run(tol, max_iter, **threads)
    return _certificate.feasible(own, linear.a), linear.intercept, linear.n_epochs
