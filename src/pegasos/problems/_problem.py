"""What a fit minimises: binary problems over the same rows."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.problems import _rows
from pegasos.problems._settings import Settings


@dataclass(frozen=True, eq=False)
class Problem:
    """Binary problems over the same rows, each min_w P(w) with

        P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(z_i - y_i f(x_i)),    m = sum_i c_i.

    Attributes
    ----------
    rows : pegasos._core.Rows
        Of kernel machines, a `pegasos.kernels.ColumnCache`.
    labels : ndarray of int8 of shape (n_problems, n_rows)
        y_i of each problem; 0 for rows that are not in it, and 1 for others of losses that take
        targets.
    row_weights : ndarray of float64 of shape (n_rows,) or None
        c_i; None: all 1.
    settings : pegasos.problems._settings.Settings
        λ, the loss and the intercept.
    values : ndarray of float64 of shape (n_problems, n_rows) or None
        z_i of losses that take targets; None: all 1.
    """

    rows: Any
    labels: np.ndarray
    row_weights: np.ndarray | None
    settings: Settings
    values: np.ndarray | None = None

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
            # In the order of rows, as the core adds them.
            mass = np.array([np.cumsum(self.row_weights * (y != 0))[-1] for y in self.labels])
        return np.where(mass > 0, mass, 1)

    @functools.cached_property
    def n_inside(self) -> np.ndarray:
        """How many rows each problem has."""
        return np.count_nonzero(self.labels, axis=1)

    @functools.cached_property
    def targets(self) -> _core.Targets:
        """All but the rows, as the core has it."""
        labels, epsilons = np.ascontiguousarray(self.labels), self.settings.epsilons_of(len(self))
        loss = self.settings.loss_of(0).form
        return _core.Targets(labels, self.row_weights, loss, self.values, epsilons)

    @functools.cached_property
    def lams(self) -> np.ndarray:
        """λ of each problem."""
        return self.settings.lams_of(len(self))

    @functools.cached_property
    def constants(self) -> tuple[np.ndarray, np.ndarray]:
        """The intercepts of the best models with w = 0, and their objectives."""
        feature, is_free = self.settings.constant_feature, self.settings.free_intercept
        penalty = 0.0 if is_free else self.lams / feature**2 if feature else np.inf
        penalties = np.full(len(self), penalty)
        intercept, objective = self.targets.constants(self.masses, penalties)
        return intercept, np.where(self.n_inside > 0, objective, 0)

    @functools.cached_property
    def at_zero(self) -> np.ndarray:
        """The objectives of f = 0."""
        _, objective = self.targets.constants(self.masses, np.full(len(self), np.inf))
        return np.where(self.n_inside > 0, objective, 0)

    @functools.cached_property
    def fingerprints(self) -> list[int]:
        """Of the labels, weights and targets of each problem."""
        crc = 0 if self.row_weights is None else _rows.fingerprint(self.row_weights)
        crcs = [crc] * len(self)
        if self.values is not None:
            crcs = [_rows.fingerprint(z, crc=crc) for z in self.values]
        return [_rows.fingerprint(y, crc=crc) for y, crc in zip(self.labels, crcs, strict=True)]

    def coefficients(self, a: np.ndarray) -> np.ndarray:
        """The beta of w(a) = sum_i beta_i phi(x_i), with the bits that the core gives them."""
        return a * self.labels * (1 / (self.lams * self.masses))[:, None]

    def some(self, which: Any) -> "Problem":
        """Problems number `which`, over the same rows."""
        values = None if self.values is None else np.ascontiguousarray(self.values[which])
        labels = np.ascontiguousarray(self.labels[which])
        settings = self.settings.some(which)
        return Problem(self.rows, labels, self.row_weights, settings, values)

    def part(self, k: int, inside: Any, rows: Any) -> "Problem":
        """Problem number `k` on some of the rows, of which `rows` are."""
        weights = None if self.row_weights is None else self.row_weights[inside]
        values = None if self.values is None else self.values[k : k + 1, inside]
        settings = self.settings.some(k)
        return Problem(rows, self.labels[k : k + 1, inside], weights, settings, values)
