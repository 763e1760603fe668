"""The losses of a row, functions of u = z - y f(x), as Python needs them; see ``csrc/loss.h``."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import numpy as np

from pegasos import _core

#: Losses that take targets, and losses that have an epsilon.
TARGET_LOSSES, EPSILON_LOSSES = _core.TARGET_LOSSES, _core.EPSILON_LOSSES


@dataclass(frozen=True)
class Loss:
    """A loss, as Python needs it."""

    name: str  # as `loss=` has it and the core knows it
    #: lam |w|^2 is at most this at the optimum; 0: it depends on the targets. With labels, P = D
    #: and a is c l'(u) at the optimum, so lam |w|^2 is the mean of l'(u) (1 - u). That is at most 1
    #: for the hinge, 2 u (1 - u) <= 1/2 for its square, s/(1 + e^s) for the log loss, s = 1 - u.
    ball: float = 0.0
    #: The probability of the label +1, given f(x); that of -1 is its value at -f(x). The mean loss
    #: of rows with this share of labels +1 is least at f(x). None: scores tell no probabilities.
    probability: Callable[[np.ndarray], np.ndarray] | None = None
    epsilon: float = 0.0  # of losses that have one
    #: For one class: P has a term nu b, b the intercept, and the dual variables sum up to nu m.
    nu: float = 0.0
    # What follows comes from the core, for a row of weight 1.
    dual_lower: float = field(init=False)  # bounds of its dual variable
    dual_upper: float = field(init=False)
    dead: float = field(init=False)  # of the conjugate in csrc/loss.h, like `width`
    width: float = field(init=False)
    curvature: float = field(init=False)  # the largest second derivative; 0: the derivative jumps
    rounding: float = field(init=False)  # the error of an objective: a smaller one is optimal
    has_margin: bool = field(init=False)  # whether u < 0 means no loss and no dual variable

    def __post_init__(self) -> None:
        vars(self).update(_core.about_loss(self.name, self.epsilon))

    @property
    def core(self) -> tuple[int, float, float]:
        return _core.LOSSES[self.name], self.epsilon, self.nu

    @property
    def at_zero(self) -> float:
        """The loss of a row with a label where f(x) = 0."""
        return float(np.log(2)) if self.name == "log_loss" else 1.0

    @property
    def degree(self) -> int:
        """The power of the unit with which it grows; see `Settings`."""
        return 2 if self.curvature else 1

    def in_unit(self, unit: float) -> "Loss":
        """The loss of errors that are divided by `unit`."""
        if self.name not in EPSILON_LOSSES:
            return self
        return named(self.name, float(np.clip(self.epsilon / unit, *_EPSILONS)))

    @property
    def has_targets(self) -> bool:
        """Whether it takes targets in place of labels."""
        return self.name in TARGET_LOSSES

    @property
    def has_counts(self) -> bool:
        """Whether the derivative is 0 or 1, so that Pegasos counts violations."""
        return self.name == "hinge"

    def __repr__(self) -> str:
        return repr(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (of_one_class, (self.nu,)) if self.nu else (named, (self.name, self.epsilon))


def _linear(scores: np.ndarray) -> np.ndarray:
    return (np.clip(scores, -1, 1) + 1) / 2


def _logistic(scores: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(scores, -700, 700)))


#: Losses that take labels.
LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("hinge", ball=1),
        Loss("squared_hinge", ball=0.5),
        Loss("modified_huber", ball=0.5, probability=_linear),
        Loss("log_loss", ball=0.2784645427610738, probability=_logistic),
    )
}
# The range of epsilon in training: no error is larger, and the Huber loss needs one above 0.
_EPSILONS = 1e-299, 1e150


def of_one_class(nu: float) -> Loss:
    """The loss of one class: the hinge of rows that all have the label +1.

    At the optimum, lam |w|^2 is 1/m sum_i a_i <w, x_i> <= nu, given lam >= nu times the mean of
    c_i |x_i|^2.
    """
    return Loss("hinge", ball=nu, nu=nu)


def named(name: Any, epsilon: float = 0.0) -> Loss:
    """The loss `name`, with its epsilon if it has one; a `Loss` is returned as it is."""
    if isinstance(name, Loss):
        return name
    if name in LOSSES:
        return LOSSES[name]
    return Loss(str(name), epsilon=epsilon if name in EPSILON_LOSSES else 0.0)


class with_probabilities:  # noqa: N801 a decorator
    """Decorate a method that exists only if the loss has probabilities.

    Otherwise, access raises an AttributeError that says what gives probabilities, so that `hasattr`
    is right. The loss is that of the last fit of an estimator, of a search's best estimator, of the
    local estimator of `pegasos.dask`, or of a model.
    """

    def __init__(self, method: Callable[[Any, Any], np.ndarray]) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., np.ndarray]:
        if instance is None:
            return self._method
        known = vars(getattr(instance, "best_estimator_", getattr(instance, "_model", instance)))
        name = known.get("_fitted", known)["loss"]
        # The log loss comes first, as its probabilities are better.
        able = [loss.name for loss in reversed(LOSSES.values()) if loss.probability]
        if name not in able:
            names = " or ".join(f"loss={name!r}" for name in able)
            raise AttributeError(
                f"{self._method.__name__} is not available with loss={name!r}, which has no "
                f"probabilities: take {names}, or sklearn.calibration.CalibratedClassifierCV "
                "around this classifier"
            )
        return MethodType(self._method, instance)
