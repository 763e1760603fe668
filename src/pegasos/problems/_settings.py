"""What all problems share: λ, the loss, the intercept, and how Pegasos steps."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from pegasos.problems import _losses, _validate

# The range of λ in training.
_LEAST_LAM, _LARGEST_LAM = 1e-300, 1e300


@dataclass(frozen=True)
class Settings:
    """What all problems of a fit share, λ first. See `pegasos.fit` for the meaning.

    Values must be allowed ones: `pegasos.estimators._parameters.check` makes sure of it.

    λ and epsilon are in the user's units. Training divides targets and scores by `units`: powers
    of two, which round nothing. So the solvers' absolute rounding errors are small compared with
    the spread of the targets. With z = s z' and f = s f', a loss of degree g has l(u) = s^g l'(u'),
    where epsilon is s times that of l'. So P = s^g P', and λ of P' is s^(2 - g) times that of P.
    """

    lam: float
    loss: Any = "hinge"  # a `Loss`, given by its name
    batch_size: int = 1
    sampling: str = "permutation"
    project: bool = False
    average: bool | str = False
    fit_intercept: bool = True
    penalize_intercept: bool = True
    intercept_scaling: float = 1.0
    units: tuple[float, ...] = (1.0,)  # s of each problem, or one for all
    lam_of_each: tuple[float, ...] = ()  # λ of each problem; empty: all have `lam`

    def __post_init__(self) -> None:
        average = "suffix" if self.average == "suffix" else bool(self.average)
        vars(self).update(
            lam=float(self.lam), loss=_losses.named(self.loss), batch_size=int(self.batch_size),
            average=average, intercept_scaling=float(self.intercept_scaling),
        )  # fmt: skip
        for unit, lam in np.broadcast(self.units, self.lams):
            if not _LEAST_LAM <= lam <= _LARGEST_LAM:
                raise ValueError(
                    f"{_validate.parameter('lam')} must be in [{_LEAST_LAM:g}, {_LARGEST_LAM:g}] "
                    f"times one over the spread of y, which is about {unit:.2g}, got {self.lam!r}"
                )

    @property
    def lams(self) -> np.ndarray:
        """λ in training, for each problem or one for all."""
        lams = np.array(self.lam_of_each or [self.lam])
        if self.units == (1.0,):
            return lams
        return lams * np.array([unit ** (2 - self.loss.degree) for unit in self.units])

    @property
    def objective_units(self) -> np.ndarray:
        """The factors from objectives in training to those in the user's units."""
        return np.array(self.units) ** self.loss.degree

    def lams_of(self, n_problems: int) -> np.ndarray:
        """λ in training, for each of `n_problems` problems."""
        lams = self.lams
        return lams.repeat(n_problems // len(lams))

    def loss_of(self, k: int) -> _losses.Loss:
        """The loss of problem `k` in training."""
        return self.loss.in_unit(self.units[k if len(self.units) > 1 else 0])

    def epsilons_of(self, n_problems: int) -> Any:
        """Epsilon in training, for each of `n_problems` problems; None if the loss has none."""
        if self.loss.name not in _losses.EPSILON_LOSSES:
            return None
        own = np.array([self.loss_of(k).epsilon for k in range(len(self.units))])
        return own.repeat(n_problems // len(own))

    @property
    def roundings(self) -> np.ndarray:
        """Rounding errors of objectives in training, for each problem or one for all."""
        return np.array([self.loss_of(k).rounding for k in range(len(self.units))])

    def subset(self, which: Any) -> Self:
        own: dict[str, Any] = {
            name: tuple(np.atleast_1d(np.array(each)[which]).tolist())
            for name in ("units", "lam_of_each")
            if len(each := getattr(self, name)) > 1
        }
        return replace(self, **own) if own else self

    # For one class, the user's b is s (b - 1) and the user's P is s (P - nu): see `OneClass`.

    def in_user_units(
        self, coef: np.ndarray, intercept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts of training, in the user's units."""
        if self.units == (1.0,) and not self.loss.nu:
            return coef, intercept  # classifiers may have large coefficients: do not copy them
        units = np.array(self.units)
        with np.errstate(over="ignore", under="ignore"):
            coef = coef * units[:, None]
            intercept = (intercept - (self.loss.nu > 0)) * units
        _validate.no_overflow(self.lam, coef, intercept)
        return coef, intercept

    def objectives_in_user_units(self, objectives: np.ndarray) -> np.ndarray:
        """Objectives of training, in the user's units."""
        objectives = objectives - self.loss.nu
        return objectives if self.units == (1.0,) else objectives * self.objective_units

    def in_training_units(
        self, coef: np.ndarray, intercept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts of users, in the units of training."""
        units = np.array(self.units)
        with np.errstate(over="ignore", under="ignore"):
            return coef / units[:, None], intercept / units + (self.loss.nu > 0)

    @property
    def constant_feature(self) -> float:
        """Value of the constant feature that carries a penalised intercept; 0 if there is none."""
        return self.intercept_scaling if self.fit_intercept and self.penalize_intercept else 0.0

    @property
    def free_intercept(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return self.fit_intercept and not self.penalize_intercept


# The settings other than λ that are parameters of estimators, too.
_CHOSEN = [field.name for field in fields(Settings)][1:-2]


def settings_of(chosen: Any, lam: float, **others: Any) -> Settings:
    """The settings in an object's attributes, with this λ and `others`."""
    return Settings(lam, **{name: getattr(chosen, name) for name in _CHOSEN} | others)
