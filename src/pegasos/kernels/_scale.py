"""The γ of gamma="scale"."""

from typing import Any

import numpy as np

from pegasos.problems import _validate

# Entries of X that are worked on at a time.
_NUMBERS = 2**18


def _entries(X: Any, weights: Any) -> Any:
    """Yield parts of X in float64, rows or stored entries, and their weights."""
    if not _validate.is_sparse(X):
        size = max(1, _NUMBERS // X.shape[1])
        for k in range(0, X.shape[0], size):
            c = None if weights is None else weights[k : k + size]
            yield X[k : k + size].astype(np.float64, copy=False), c
        return
    for begin in range(0, int(X.indptr[-1]), _NUMBERS):
        end = min(begin + _NUMBERS, int(X.indptr[-1]))
        part, c = X.data[begin:end].astype(np.float64, copy=False), None
        if weights is not None:
            first = np.searchsorted(X.indptr, begin, "right") - 1
            last = np.searchsorted(X.indptr, end)
            counts = np.diff(np.clip(X.indptr[first : last + 1], begin, end))
            c = np.repeat(weights[first:last], counts)
        yield part, c


def _sum(numbers: Any, weights: Any) -> float:
    # BLAS and `numpy.einsum` may use fused multiply-add, depending on the CPU; bits would differ.
    return numbers.sum() if weights is None else (weights * numbers).sum()


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def scale(X: Any, weights: Any) -> float:
    """1 / (n_features * X.var()) with weighted rows, in temporaries of bounded size."""
    (n, d), is_sparse, missing = X.shape, _validate.is_sparse(X), 0.0
    X = _validate.summed_up(X)
    if weights is not None:
        weights = weights / weights.max()
    if is_sparse:
        missing = _sum(d - np.diff(X.indptr), weights)
    axis = () if is_sparse else 1
    total, mean, squares = d * (n if weights is None else weights.sum()), 0.0, 0.0
    for part, c in _entries(X, weights):
        mean += _sum(part.sum(axis=axis), c) / total
    for part, c in _entries(X, weights):
        part = part - mean  # which may be a view of X
        if c is not None:
            part[c == 0] = 0
        part *= part
        squares += _sum(part.sum(axis=axis), c)
    variance = (squares + missing * mean**2) / total
    gamma = 1 / (d * variance) if variance > 0 else np.inf
    if 0 < gamma < np.inf:
        return gamma
    spread = abs(mean) * (missing > 0)
    for part, c in _entries(X, weights):
        inside = part if c is None else part[c > 0]
        spread = max(spread, np.abs(inside - mean).max(initial=0))
    if spread == 0:
        return 1.0
    raise ValueError(
        "gamma='scale' is 1 / (n_features * X.var()), which float64 cannot hold: entries of X "
        f"are up to {spread:.3g} from their mean. Scale X, or give gamma a number"
    )
