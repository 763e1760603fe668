"""Losses of a row, as functions of u = z - y f(x); ``csrc/loss.h`` has all that is known of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.problems import _validate


@dataclass(frozen=True)
class Loss:
    """What Python asks of a loss.

    Attributes
    ----------
    name : str
        As `loss=` has it and the core knows it.
    curvature : float
        The largest second derivative; 0 where the derivative jumps.
    bound : float
        The upper bound of the dual variable of a row of weight 1.
    ball : float
        lam |w|^2 of the optimum is at most this; 0: that depends on the targets.
    diagonal : float
        What a dual step adds to |x|^2/(lam m), for a row of weight 1.
    epsilon : float
        Of losses that have one.
    """

    name: str
    curvature: float
    bound: float
    ball: float
    diagonal: float
    epsilon: float = 0.0

    @property
    def form(self) -> tuple[int, float]:
        """How the core has it."""
        return _core.LOSSES[self.name], self.epsilon

    @property
    def has_counts(self) -> bool:
        """Whether the derivative is 0 or 1, so that Pegasos counts."""
        return self.name == "hinge"

    @property
    def ends(self) -> bool:
        """Whether it is 0 beyond the margin."""
        return self.ball > 0 and self.name != "log_loss"

    def __repr__(self) -> str:
        return repr(self.name)


#: Those that take labels.
LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("hinge", curvature=0, bound=1, ball=1, diagonal=0),
        Loss("squared_hinge", curvature=2, bound=np.inf, ball=0.5, diagonal=0.5),
        Loss("modified_huber", curvature=2, bound=4, ball=0.5, diagonal=0.5),
        Loss("log_loss", curvature=0.25, bound=1, ball=0.2784645427610738, diagonal=0),
    )
}


def of_targets(name: str, epsilon: float = 0.0) -> Loss:
    """A loss that takes targets, with its epsilon."""
    curvature = {"squared_epsilon_insensitive": 2.0, "huber": 1.0, "squared_error": 1.0}
    bound = {"epsilon_insensitive": 1.0, "huber": epsilon}.get(name, np.inf)
    slope = curvature.get(name, 0.0)
    return Loss(name, slope, bound, 0.0, 1 / slope if slope else 0.0, epsilon)


def named(name: Any) -> Loss:
    """The loss of this name, or `name` itself if it is a loss."""
    if isinstance(name, Loss):
        return name
    return LOSSES[_validate.choice("loss", name, list(LOSSES))]
