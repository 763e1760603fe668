"""What a fit minimises: binary problems over the same rows."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pegasos.problems import _rows
from pegasos.problems._settings import Settings


@dataclass(frozen=True, eq=False)
class Problem:
    """Binary problems over the same rows, each min_w P(w) with

        P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(1 - y_i f(x_i)),    m = sum_i c_i.

    Attributes
    ----------
    rows : pegasos._core.Rows
        Of kernel machines, a `pegasos.kernels.ColumnCache`.
    labels : ndarray of int8 of shape (n_problems, n_rows)
        y_i of each problem; 0 for rows that are not in it.
    row_weights : ndarray of float64 of shape (n_rows,) or None
        c_i; None: all 1.
    settings : pegasos.problems._settings.Settings
        λ, the loss and the intercept.
    """

    rows: Any
    labels: np.ndarray
    row_weights: np.ndarray | None
    settings: Settings

    def __len__(self) -> int:
        return len(self.labels)

    @functools.cached_property
    def weights(self) -> np.ndarray:
        """c_i of each problem, 0 for rows that are not in it; of shape (n_problems, n_rows)."""
        return (1.0 if self.row_weights is None else self.row_weights) * (self.labels != 0)

    @functools.cached_property
    def masses(self) -> np.ndarray:
        """m of each problem; 1 where it has no rows."""
        if self.row_weights is None:
            mass = self.n_inside.astype(np.float64)
        else:
            mass = np.array([(self.row_weights * (y != 0)).sum() for y in self.labels])
        return np.where(mass > 0, mass, 1)

    @functools.cached_property
    def n_inside(self) -> np.ndarray:
        """How many rows each problem has."""
        return np.count_nonzero(self.labels, axis=1)

    @functools.cached_property
    def constants(self) -> tuple[np.ndarray, np.ndarray]:
        """The intercepts of the best models with w = 0, and their objectives."""
        settings, weights = self.settings, self.row_weights
        feature, is_free = settings.constant_feature, settings.free_intercept
        if not feature and not is_free:
            intercept = np.zeros(len(self))
            return intercept, settings.loss.value(np.where(self.n_inside > 0, 1.0, 0.0))
        if weights is None:
            balance = self.labels.sum(axis=1, dtype=np.int64) / self.masses
        else:
            balance = np.array([(weights * y).sum() for y in self.labels]) / self.masses
        intercept, objective = settings.loss.constant(
            balance, 0.0 if is_free else settings.lam / feature**2
        )
        return intercept, np.where(self.n_inside > 0, objective, 0)

    @functools.cached_property
    def fingerprints(self) -> list[int]:
        """Of the labels and weights of each problem."""
        crc = 0 if self.row_weights is None else _rows.fingerprint(self.row_weights)
        return [_rows.fingerprint(y, crc=crc) for y in self.labels]

    def coefficients(self, a: np.ndarray) -> np.ndarray:
        """The beta of w(a) = sum_i beta_i phi(x_i), with the bits that the core gives them."""
        return a * self.labels * (1 / (self.settings.lam * self.masses))[:, None]

    def only(self, k: int) -> "Problem":
        """Problem number `k`."""
        return Problem(self.rows, self.labels[k : k + 1], self.row_weights, self.settings)

    def part(self, k: int, inside: Any, rows: Any) -> "Problem":
        """Problem number `k` on some of the rows, of which `rows` are."""
        weights = None if self.row_weights is None else self.row_weights[inside]
        return Problem(rows, self.labels[k : k + 1, inside], weights, self.settings)
