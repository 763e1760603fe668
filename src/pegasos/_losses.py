"""Losses of a row, as functions of u = 1 - y f(x); ``csrc/loss.h`` has what the core's loops ask of them.

With the weight c of a row, its dual variable is a = c l'(u) at the optimum, and D has the term
a - c l*(a/c), where l* is the conjugate of l.
"""

from typing import Any

import numpy as np


class Loss:
    """What Python asks of a loss; one class each, like `Hinge`."""

    #: As `loss=` has it, and how ``csrc/loss.h`` numbers it.
    name: str
    number: int
    #: The largest second derivative; 0 where the derivative jumps.
    curvature: float
    #: Whether the derivative is 0 or 1, so that Pegasos counts.
    counts: bool

    def value(self, u: np.ndarray) -> np.ndarray:
        """l(u)."""
        raise NotImplementedError

    def slope(self, u: np.ndarray) -> np.ndarray:
        """A sub-gradient of l at u."""
        raise NotImplementedError

    def most(self, c: Any) -> Any:
        """The upper bound of the dual variable of a row of weight c."""
        raise NotImplementedError

    def own_curvature(self, c: Any) -> Any:
        """The second derivative of c l*(a/c), which a dual step adds to |x|^2/(lam m)."""
        raise NotImplementedError

    def conjugate(self, a: np.ndarray, c: Any) -> np.ndarray:
        """c l*(a/c)."""
        raise NotImplementedError


class Hinge(Loss):
    """max(0, u), the loss of the paper: 0 <= a <= c."""

    name, number, curvature, counts = "hinge", 0, 0.0, True

    def value(self, u: np.ndarray) -> np.ndarray:
        return np.maximum(u, 0)

    def slope(self, u: np.ndarray) -> np.ndarray:
        return (u > 0).astype(np.float64)

    def most(self, c: Any) -> Any:
        return c

    def own_curvature(self, c: Any) -> Any:
        return np.zeros_like(c, dtype=np.float64)

    def conjugate(self, a: np.ndarray, c: Any) -> np.ndarray:
        return np.zeros_like(a)


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Hinge(),)}
