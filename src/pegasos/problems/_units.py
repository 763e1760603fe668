"""Units of targets, by which training divides them."""

import numpy as np

from pegasos.problems import _multiclass

# Targets whose spread is a smaller part of their size differ in their last digits only. Their unit
# is as if they had this spread.
_LEAST_SPREAD = 2.0**-26
# Units are 2 to powers in [-500, 500], so that the squares of units are finite and not 0.
_MOST_EXPONENT = 500


def problems(
    y: np.ndarray, weights: np.ndarray | None, units: tuple[float, ...] | None = None
) -> tuple[np.ndarray, np.ndarray, tuple[float, ...]]:
    """Labels and targets of problems, and `units`, which are computed if None.

    A row of weight 0 is in no problem.
    """
    values = np.ascontiguousarray(y.reshape(len(y), -1).T)
    labels = _multiclass.labels_of_targets(len(values), len(y), weights)
    if units is None:
        units = of(values, weights)
    return labels, values / np.array(units)[:, None], units


def of(values: np.ndarray, weights: np.ndarray | None) -> tuple[float, ...]:
    """Powers of two near the standard deviations of targets of shape (n_outputs, n_samples).

    If an output has only one value, its unit is near that value, or 1 if the value is 0.
    """
    if weights is not None:
        inside = weights > 0
        values, weights = values[:, inside], weights[inside] / weights.max()
    low, high = values.min(axis=1), values.max(axis=1)
    largest = np.maximum(high, -low)
    size = np.frexp(largest)[1]
    scaled = np.ldexp(values, -size[:, None])
    mean = np.average(scaled, axis=1, weights=weights)
    variance = np.average((scaled - mean[:, None]) ** 2, axis=1, weights=weights)
    spread = np.maximum(np.sqrt(variance), _LEAST_SPREAD)
    spread[low == high] = 0.5
    exponent = np.where(largest == 0, 0, size + np.frexp(spread)[1])
    exponent = np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT)
    return tuple(np.ldexp(1.0, exponent).tolist())
