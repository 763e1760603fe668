"""A factor of a kernel matrix with few columns: if K = L L^T, a kernel machine is a linear one."""

from collections.abc import Callable
from typing import Any

import numpy as np

# The most columns of the factor; it also takes at most the memory that columns of K may take.
_MOST = 1024
# Columns of K that are computed together; there is always room for them. A pivot below this part of
# the largest remaining one waits for another block.
_TOGETHER, _LEAST_PIVOT = 32, 1e-3


def factor(cache: Any, on_poll: Callable[[], None] | None = None) -> np.ndarray:
    """L of shape (n, rank) with K = L L^T up to rounding; (n, 0) if the rank is large.

    `on_poll` is called for each column and may raise; this is how a thread reacts to Ctrl-C.

    The method is Cholesky's factorisation with pivots. The next column is that of the row with the
    largest diagonal of K - L L^T, which bounds the whole remainder (Harbrecht, Peters and
    Schneider: On the low-rank approximation by the pivoted Cholesky decomposition, Applied
    Numerical Mathematics 62, 2012).
    """
    points, n = cache.points, len(cache.points)
    is_precomputed = points.kernel.is_precomputed
    eps = n * np.finfo(points.dtype if is_precomputed else np.float64).eps
    most = int(min(n, _MOST, max(cache.room / (8 * n), _TOGETHER)))
    if points.dtype != np.float64 and not is_precomputed:
        points = points.kernel.points(points.X.astype(np.float64))
    left = np.abs(points.diagonal())
    rank, least = 0, eps * left.max()
    rows = np.empty((most + _TOGETHER, n))  # of the transpose; pages are allocated when written
    while left.max() > least:
        if rank >= most:
            return np.empty((n, 0))
        which = np.argsort(left)[-_TOGETHER:]
        which = which[left[which] > least]
        some = points[which]
        columns = (some.X if is_precomputed else some.against(points)).astype(np.float64)
        columns -= rows[:rank, which].T @ rows[:rank]
        first = rank
        while len(which):
            if on_poll is not None:
                on_poll()
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
