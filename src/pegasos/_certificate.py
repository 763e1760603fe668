"""How good a model is: the objective it reaches, computed afresh from the model itself.

P(w) = lam/2 |w|^2 + 1/m sum_i c_i max(0, 1 - y_i f(x_i)), with m = sum_i c_i over the problem's rows.
The weight of a constant feature (a penalised intercept) is part of w, an unpenalised one is not.
"""

import numpy as np

from pegasos import _core, _validate

_CHUNK = 2048


def objectives(rows, labels, row_weights, coef, intercept, settings):
    """Primal objective of every problem, in float64; one pass over the rows.

    Parameters
    ----------
    rows : pegasos._core.Rows
    labels : ndarray of int8 of shape (n_problems, n_samples)
    row_weights : ndarray of shape (n_samples,) or None
    coef : ndarray of shape (n_problems, n_features)
    intercept : ndarray of shape (n_problems,)
    settings : pegasos._session.LinearSettings

    Raises
    ------
    ValueError
        If a score overflows: then nothing can be said of the model.
    """
    with np.errstate(over="ignore"):
        squared_norm = np.einsum("kj,kj->k", coef, coef, dtype=np.float64)

    def scores(first, count):
        out = np.empty((count, len(coef)))
        _core.decision_function(rows, first, coef, intercept, out)
        return out.T

    return _primal(squared_norm, scores, labels, row_weights, intercept, settings, coef.dtype)


def kernel_objectives(cache, labels, row_weights, coef, intercept, settings):
    """The same for w_k = sum_j coef_kj phi(x_j) over the points of a `ColumnCache`."""
    support = np.flatnonzero(coef.any(axis=0))
    all_scores = cache.push(coef[:, support], support)
    squared_norm = np.array([(w * f).sum() for w, f in zip(coef, all_scores, strict=True)])
    all_scores += intercept[:, None]

    def scores(first, count):
        return all_scores[:, first : first + count]

    return _primal(
        squared_norm, scores, labels, row_weights, intercept, settings, cache.points.dtype
    )


def _primal(squared_norm, scores, labels, row_weights, intercept, settings, dtype):
    """P(w) from |w|^2 without the intercept, and a function that gives scores piece by piece."""
    if settings.constant_feature:
        squared_norm = squared_norm + (intercept / settings.constant_feature) ** 2
    hinge = np.zeros(len(labels))
    mass = np.zeros(len(labels))
    for first in range(0, labels.shape[1], _CHUNK):
        part = slice(first, first + _CHUNK)
        y = labels[:, part]
        f = scores(first, y.shape[1])
        if not (np.isfinite(f).all() and np.isfinite(squared_norm).all()):
            raise _validate.overflow(dtype, settings.lam)
        weights = (1.0 if row_weights is None else row_weights[part]) * (y != 0)
        # Plain sums, each problem by itself: BLAS would give every machine its own last bits.
        hinge += [row.sum() for row in weights * np.maximum(0, 1 - y * f)]
        mass += [row.sum() for row in weights]
    return settings.lam / 2 * squared_norm + hinge / np.where(mass > 0, mass, 1)
