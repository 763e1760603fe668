"""The γ that "scale" is."""

from typing import Any

import numpy as np

from pegasos.problems import _validate
from pegasos.problems._certificate import inner

# Entries of X that are worked on at a time.
_NUMBERS = 2**18


def _entries(X: Any, weights: Any) -> Any:
    """Yield parts of X in float64, rows or stored entries, and their weights."""
    if not _validate.is_sparse(X):
        size = max(1, _NUMBERS // X.shape[1])
        for k in range(0, X.shape[0], size):
            yield X[k : k + size].astype(np.float64), weights[k : k + size]
        return
    for begin in range(0, int(X.indptr[-1]), _NUMBERS):
        end = min(begin + _NUMBERS, int(X.indptr[-1]))
        first, last = np.searchsorted(X.indptr, begin, "right") - 1, np.searchsorted(X.indptr, end)
        counts = np.diff(np.clip(X.indptr[first : last + 1], begin, end))
        yield X.data[begin:end].astype(np.float64), np.repeat(weights[first:last], counts)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def scale(X: Any, weights: Any) -> float:
    """1 / (n_features * X.var()), rows weighted, with temporaries of bounded size."""
    weights = np.ones(X.shape[0]) if weights is None else weights / weights.max()
    if _validate.is_sparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    axis = () if _validate.is_sparse(X) else 1
    total, mean, squares, spread = weights.sum() * X.shape[1], 0.0, 0.0, 0.0
    for part, c in _entries(X, weights):
        mean += inner(c, part.sum(axis=axis)) / total
    for part, c in _entries(X, weights):
        part -= mean
        part[c == 0] = 0
        spread = max(spread, part.max(), -part.min())
        part *= part
        squares += inner(c, part.sum(axis=axis))
    if _validate.is_sparse(X):
        missing = inner(weights, X.shape[1] - np.diff(X.indptr))
        squares += missing * mean**2
        spread = max(spread, abs(mean) * (missing > 0))
    if spread == 0:
        return 1.0
    variance = squares / total
    gamma = 1 / (X.shape[1] * variance) if variance > 0 else np.inf
    if not 0 < gamma < np.inf:
        raise ValueError(
            "gamma='scale' is 1 / (n_features * X.var()), which float64 cannot hold: entries of X "
            f"are up to {spread:.3g} from their mean. Scale X, or give gamma a number"
        )
    return gamma
