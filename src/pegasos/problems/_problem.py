"""What a fit minimises: binary problems over the same rows, without the rows themselves."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._cached import cached_property
from pegasos.problems import _rows
from pegasos.problems._settings import Settings


@dataclass(frozen=True, eq=False)
class Problem:
    """Binary problems over the same rows, each min_w P(w) with

    P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(z_i - y_i f(x_i)),    m = sum_i c_i.
    """

    #: y_i of each problem, int8 of shape (n_problems, n_rows); 0 for rows outside the problem. For
    #: losses that take targets, 1 for all others.
    labels: np.ndarray
    row_weights: np.ndarray | None  # c_i; None: all 1
    settings: Settings  # λ, the loss and the intercept
    values: np.ndarray | None = None  # z_i of losses that take targets; None: all 1

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_rows(self) -> int:
        return self.labels.shape[1]

    @cached_property
    def weights(self) -> np.ndarray:
        """c_i of each problem, 0 for rows outside it; of shape (n_problems, n_rows)."""
        return (1.0 if self.row_weights is None else self.row_weights) * (self.labels != 0)

    @property
    def masses(self) -> np.ndarray:
        """m of each problem; 1 where it has no rows."""
        return self.targets.masses

    @cached_property
    def n_inside(self) -> np.ndarray:
        return np.array([np.count_nonzero(y) for y in self.labels], np.int64)

    @cached_property
    def targets(self) -> _core.Targets:
        """The problems in the form of the core, without the rows."""
        settings = self.settings
        return _core.Targets(
            np.ascontiguousarray(self.labels), self.row_weights, settings.loss_of(0).core,
            self.values, settings.epsilons_of(len(self)), lams=self.lams,
            intercept_scaling=settings.constant_feature, free_intercept=settings.free_intercept,
        )  # fmt: skip

    @cached_property
    def lams(self) -> np.ndarray:
        return self.settings.lams_of(len(self))

    @cached_property
    def constants(self) -> tuple[np.ndarray, np.ndarray]:
        """The intercepts of the best models with w = 0, and their objectives."""
        feature, is_free = self.settings.constant_feature, self.settings.free_intercept
        penalty = 0.0 if is_free else self.lams / feature**2 if feature else np.inf
        penalties = np.full(len(self), penalty)
        intercept, objective = self.targets.constants(penalties)
        return intercept, np.where(self.n_inside > 0, objective, 0)

    @cached_property
    def at_zero(self) -> np.ndarray:
        """The objectives of models with f = 0."""
        _, objective = self.targets.constants(np.full(len(self), np.inf))
        return np.where(self.n_inside > 0, objective, 0)

    @cached_property
    def fingerprints(self) -> list[int]:
        """Checksums of the labels, weights and targets of each problem."""
        crc = 0 if self.row_weights is None else _rows.fingerprint(self.row_weights)
        crcs = [crc] * len(self)
        if self.values is not None:
            crcs = [_rows.fingerprint(z, crc=crc) for z in self.values]
        return [_rows.fingerprint(y, crc=crc) for y, crc in zip(self.labels, crcs, strict=True)]

    def coefficients(self, a: np.ndarray) -> np.ndarray:
        """The beta of w(a) = sum_i beta_i phi(x_i), with the bits of the core."""
        return a * self.labels * (1 / (self.lams * self.masses))[:, None]

    def subset(self, which: Any, rows: Any = slice(None)) -> "Problem":
        """The problems number `which`, on some of the rows."""
        labels = np.ascontiguousarray(self.labels[which][:, rows])
        weights = None if self.row_weights is None else self.row_weights[rows]
        values = self.values
        if values is not None:
            values = np.ascontiguousarray(values[which][:, rows])
        return Problem(labels, weights, self.settings.subset(which), values)


def blank(settings: Settings, n_rows: int = 0) -> Problem:
    """The problem before the problems of a fit are known."""
    return Problem(np.zeros((0, n_rows), np.int8), None, settings)


def scaled(row_weights: np.ndarray | None) -> np.ndarray | None:
    """Row weights times a power of two, so that their sum is neither 0 nor infinite.

    A power of two rounds nothing: rows of other problems, or rows left out, must not change a bit.
    """
    if row_weights is None:
        return None
    return np.ldexp(row_weights, -np.frexp(row_weights.max())[1])
