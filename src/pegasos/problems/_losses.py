"""Losses of a row, as functions of u = 1 - y f(x); ``csrc/loss.h`` has what the core asks of them.

A row of weight c adds c l(u) to m P. Its dual variable a is c l'(u) at the optimum.
"""

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.problems import _validate


class Loss:
    """What Python asks of a loss; one class each, like `Hinge`."""

    #: Its name, as `loss=` has it and the core knows it.
    name: str
    #: The largest second derivative; 0 where the derivative jumps.
    curvature: float
    #: Whether the derivative is 0 or 1, so that Pegasos counts.
    has_counts: bool
    #: Whether a row beyond the margin, u < 0, has no loss and no dual variable.
    has_margin = True
    #: Whether scores tell probabilities; see `probability`.
    has_probabilities = False

    def __repr__(self) -> str:
        return repr(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)

    @property
    def number(self) -> int:
        """How the core numbers it."""
        return _core.LOSSES[self.name]

    def value(self, u: np.ndarray) -> np.ndarray:
        """l(u)."""
        raise NotImplementedError

    def slope(self, u: np.ndarray) -> np.ndarray:
        """A sub-gradient of l at u."""
        raise NotImplementedError

    def probability(self, scores: np.ndarray) -> np.ndarray:
        """The probability of the label +1 where f(x) has these values; that of -1 is of -f(x).

        The mean loss of rows with this share of labels +1 is least at this f.
        """
        raise NotImplementedError

    def constant(self, balance: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """The best score b that is the same for all rows, and its objective.

        That is the mean loss plus penalty/2 b^2; `balance` is the mean label.
        """
        raise NotImplementedError

    def most(self, c: Any) -> Any:
        """The upper bound of the dual variable of a row of weight c."""
        raise NotImplementedError

    def diagonal(self, c: Any) -> Any:
        """What a dual step adds to |x|^2/(lam m) where the loss is piecewise quadratic; else 0."""
        return np.zeros_like(c, dtype=np.float64)


class Hinge(Loss):
    """max(0, u), the loss of the paper: 0 <= a <= c."""

    name, curvature, has_counts = "hinge", 0.0, True

    def value(self, u: np.ndarray) -> np.ndarray:
        return np.maximum(u, 0)

    def slope(self, u: np.ndarray) -> np.ndarray:
        return (u > 0).astype(np.float64)

    def constant(self, balance: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        b = np.clip(balance / penalty, -1, 1) if penalty else np.sign(balance)
        return b, 1 - balance * b + penalty / 2 * b**2

    def most(self, c: Any) -> Any:
        return c


class SquaredHinge(Loss):
    """max(0, u)^2: a >= 0."""

    name, curvature, has_counts = "squared_hinge", 2.0, False

    def value(self, u: np.ndarray) -> np.ndarray:
        return np.square(np.maximum(u, 0))

    def slope(self, u: np.ndarray) -> np.ndarray:
        return 2 * np.maximum(u, 0)

    def constant(self, balance: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        b = balance / (1 + penalty / 2)
        return b, 1 - balance * b

    def most(self, c: Any) -> Any:
        return np.full_like(c, np.inf, dtype=np.float64)

    def diagonal(self, c: Any) -> Any:
        return 0.5 / np.asarray(c, np.float64)


class ModifiedHuber(SquaredHinge):
    """max(0, u)^2 up to u = 2, and 4u - 4 from there: 0 <= a <= 4c."""

    name, has_probabilities = "modified_huber", True

    def value(self, u: np.ndarray) -> np.ndarray:
        return np.where(u > 2, 4 * u - 4, super().value(u))

    def slope(self, u: np.ndarray) -> np.ndarray:
        return np.minimum(super().slope(u), 4)

    def probability(self, scores: np.ndarray) -> np.ndarray:
        return (np.clip(scores, -1, 1) + 1) / 2

    def most(self, c: Any) -> Any:
        return 4 * np.asarray(c, np.float64)


def _logistic(z: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(z, -700, None)))


# Scores beyond this are as good as infinite: the log loss is below rounding there.
_FAR = 40.0


class LogLoss(Loss):
    """log(1 + e^(u - 1)), that of logistic regression: 0 <= a <= c."""

    name, curvature, has_counts = "log_loss", 0.25, False
    has_margin, has_probabilities = False, True

    def value(self, u: np.ndarray) -> np.ndarray:
        return np.logaddexp(0, u - 1)

    def slope(self, u: np.ndarray) -> np.ndarray:
        return _logistic(u - 1)

    def probability(self, scores: np.ndarray) -> np.ndarray:
        return _logistic(scores)

    def constant(self, balance: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """By Newton's method from 0, which does not pass the root: see ``log_loss_best`` in C."""
        b = np.zeros_like(balance, np.float64)
        for _ in range(100):
            p = _logistic(b)
            step = (p + penalty * b - (1 + balance) / 2) / (p * (1 - p) + penalty)
            b = np.clip(b - step, -_FAR, _FAR)
            if (np.abs(step) <= np.finfo(np.float64).eps * np.abs(b)).all():
                break
        losses = (1 + balance) * self.value(1 - b) + (1 - balance) * self.value(1 + b)
        return b, losses / 2 + penalty / 2 * b**2

    def most(self, c: Any) -> Any:
        return c


LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (Hinge(), SquaredHinge(), ModifiedHuber(), LogLoss())
}


def named(name: Any) -> Loss:
    """The loss of this name, or `name` itself if it is a loss."""
    if isinstance(name, Loss):
        return name
    return LOSSES[_validate.choice("loss", name, list(LOSSES))]


class with_probabilities:  # noqa: N801 a decorator
    """Decorate a method that is there only where the loss has probabilities.

    Elsewhere, to ask for it raises an AttributeError that says what gives probabilities; so
    `hasattr` is right. `_loss_name` of the instance names its loss.
    """

    def __init__(self, method: Callable[[Any, Any], np.ndarray]) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., np.ndarray]:
        if instance is None:
            return self._method
        name = instance._loss_name
        able = [loss.name for loss in LOSSES.values() if loss.has_probabilities]
        if name not in able:
            names = " or ".join(f"loss={name!r}" for name in able)
            raise AttributeError(
                f"{self._method.__name__} is not there with loss={name!r}, which has no "
                f"probabilities: take {names}, or sklearn.calibration.CalibratedClassifierCV "
                "around this classifier"
            )
        return MethodType(self._method, instance)
