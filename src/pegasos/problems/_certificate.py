"""How good a model is: its objective, and a proof of how far that is from the optimum.

Primal and dual objective of a problem, with m = sum_i c_i over its rows:

    P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(u_i),    u_i = z_i - y_i f(x_i)
    D(a) = 1/m sum_i (z_i a_i - c_i l*(a_i/c_i)) - lam/2 |w(a)|^2,
    w(a) = s sum_i a_i y_i x_i,    s = 1/(lam m)

l* is the conjugate of l. The hinge has l(u) = max(0, u), l*(p) = 0 and 0 <= a_i <= c_i, the squared
hinge l(u) = max(0, u)^2, l*(p) = p^2/4 and 0 <= a_i; csrc/loss.h has all losses. For any w and any
such a, P(w) - D(a) >= P(w) - min P >= 0: the duality gap bounds how far w is from the optimum. The
weight of a constant feature (a penalised intercept) is part of w; an unpenalised intercept is not,
and adds the condition sum_i a_i y_i = 0.

Everything is computed afresh, in double precision, from the model and from a: no running sums.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._cached import cached_property
from pegasos.problems import _rows, _validate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings


@dataclass(frozen=True)
class Certificate:
    """Objectives of every problem, arrays of shape (n_problems,); NaN where nothing is known."""

    objective: np.ndarray
    dual_objective: np.ndarray
    #: The relative gap by which a fit stops, if it is not the proved one. For kernel machines, it
    #: leaves rounding out, and is |P - D| / P where there may be no dual.
    estimate: np.ndarray | None = None
    #: None if nothing is known.
    settings: Settings | None = None

    @property
    def nu(self) -> float:
        """For one class, what training adds to the user's P and D; gaps are parts of the user's."""
        return self.settings.loss.nu if self.settings else 0.0

    @cached_property
    def gap(self) -> np.ndarray:
        """The objective is above the optimum by at most this."""
        return np.maximum(self.objective - self.dual_objective, 0)  # below 0 by rounding only

    @classmethod
    def unknown(cls, n_problems: int) -> "Certificate":
        """The certificate of models whose rows were not read."""
        return cls(np.full(n_problems, np.nan), np.full(n_problems, np.nan))

    @cached_property
    def relative_gap(self) -> np.ndarray:
        """The gap as a part of P; for one class, of nu - D, which is |D| in the user's units."""
        size = self.objective if self.nu == 0 else self.nu - self.dual_objective
        return part_of(self.gap, size)

    @cached_property
    def proved_gap(self) -> np.ndarray:
        """The relative gap, but 0 if there is only rounding."""
        gap = self.relative_gap if self.nu == 0 else part_of(self.gap, self.objective)
        return self._zero_if_rounding(gap)

    @cached_property
    def stopping_gap(self) -> np.ndarray:
        """The gap to compare with `tol`: the relative gap, or an estimate if nothing is proved."""
        if self.estimate is None:
            return self.proved_gap
        return self._zero_if_rounding(self.estimate)

    def _zero_if_rounding(self, gap: np.ndarray) -> np.ndarray:
        """The gap to compare with `tol`, given (P - D)/P; see ``is_small_gap`` in C."""
        objective = self.objective
        rounding = self.settings.roundings if self.settings else 0
        if self.nu == 0:
            return np.where(objective <= rounding, 0, gap)
        absolute = gap * objective
        return np.where(absolute <= rounding, 0, part_of(absolute, self.nu - objective + absolute))

    def rounding_excess(self, tol: float) -> float:
        """How much of the largest proved gap is rounding that keeps it above `tol`.

        0 if the stopping gap is above `tol`, or if rounding is a quarter of `tol` or more.
        """
        if self.estimate is None:
            return 0.0
        excess = (self.proved_gap - self.stopping_gap).max()
        is_of_rounding = self.proved_gap.max() > tol >= self.stopping_gap.max() and excess < tol / 4
        return float(excess) if is_of_rounding else 0.0


def part_of(gap: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The gap as a part of P, or of |D|."""
    # Before the first epoch, gap and size are infinite.
    return gap / np.where((size > 0) & (size < np.inf), size, 1)


def certify(rows: _core.Rows, problem: Problem, solver: Any) -> Certificate:
    """The certificate of a linear solver's present state, by one or two passes over rows.

    ``solver.last_check()`` returns the objectives of its models if it knows them from a pass over
    the rows. Otherwise they come from ``model()``, coefficients (n_problems, n_features) and
    intercepts. ``dual()`` variables, of shape (n_problems, n_samples), are made feasible first. A
    ValueError if a score overflows: then nothing can be said about the model.
    """
    interleaved = False
    coef: Any = None
    intercept: Any = None
    primal = solver.last_check()
    if primal is None:
        coef, intercept = solver.model()
        coef, interleaved = _rows.laid_out(rows, coef)
    squared_norm, losses, best = _core.certify(
        rows, problem.targets, coef, intercept, solver.dual(), interleaved=interleaved
    )
    if primal is None:
        primal = _primal(problem, squared_norm, intercept, losses)
    # a = 0 is a dual point too, with the value 0: a bound if others overflow. (For one class it is
    # not, but 0 is a bound too: see `pegasos_loss`.)
    return Certificate(primal, np.fmax(best, 0), settings=problem.settings)


def _primal(
    problem: Problem, squared_norm: np.ndarray, intercept: np.ndarray, losses: np.ndarray
) -> np.ndarray:
    """P(w), given |w|^2 without the intercept, and the sums of losses."""
    settings = problem.settings
    if settings.constant_feature:
        squared_norm = squared_norm + (intercept / settings.constant_feature) ** 2
    _validate.no_overflow(settings.lam, squared_norm + losses)
    of_losses = losses / problem.masses
    if settings.loss.nu:
        of_losses = of_losses + settings.loss.nu * intercept
    return problem.lams / 2 * squared_norm + of_losses
