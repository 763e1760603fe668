"""What all problems of a fit share: λ, the loss, the intercept, and how Pegasos steps."""

from dataclasses import dataclass
from typing import Any

from pegasos import _core
from pegasos.problems import _losses, _validate


@dataclass(frozen=True)
class Settings:
    """What all problems of a fit share, λ first. See `pegasos.fit` for the meaning."""

    lam: float
    loss: Any = "hinge"  # a `Loss`, given by its name
    batch_size: int = 1
    sampling: str = "permutation"
    project: bool = False
    average: bool | str = False
    fit_intercept: bool = True
    penalize_intercept: bool = True
    intercept_scaling: float = 1.0
    lam_unit: float = 1.0  # by what λ was multiplied, where targets have units

    def __post_init__(self) -> None:
        check = {
            "lam": _validate.lam(self.lam),
            "loss": _losses.named(self.loss),
            "batch_size": _validate.integer("batch_size", self.batch_size),
            "sampling": _validate.choice("sampling", self.sampling, list(_core.SAMPLINGS)),
            "project": _validate.boolean("project", self.project),
            "average": _validate.choice("average", self.average, [False, True, "suffix"]),
            "fit_intercept": _validate.boolean("fit_intercept", self.fit_intercept),
            "penalize_intercept": _validate.boolean("penalize_intercept", self.penalize_intercept),
            "intercept_scaling": _validate.real(
                "intercept_scaling", self.intercept_scaling, above=0, at_most=1e100
            ),
        }
        for name, value in check.items():
            object.__setattr__(self, name, value)

    @property
    def lam_told(self) -> float:
        """λ as users have it."""
        return self.lam / self.lam_unit

    @property
    def constant_feature(self) -> float:
        """Value of the constant feature that carries a penalised intercept; 0 if there is none."""
        return self.intercept_scaling if self.fit_intercept and self.penalize_intercept else 0.0

    @property
    def free_intercept(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return self.fit_intercept and not self.penalize_intercept
