"""The parameters of estimators: their names, defaults and checks.

A class has the parameters that its bases below declare, and its own; `parameters` makes its
`__init__`. A new parameter needs a line in `PARAMETERS`, and one where it is declared.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from numbers import Integral, Real
from typing import Any, TypeVar, cast, dataclass_transform

import numpy as np

from pegasos import _core, kernels
from pegasos.kernels import KERNELS, MOST_DEGREE
from pegasos.problems import _validate
from pegasos.problems._losses import LOSSES, TARGET_LOSSES
from pegasos.problems._validate import boolean, choice, integer, is_one, parameter, real, value_of
from pegasos.solvers._schedule import SOLVERS

# P of one class in training is between nu/2 and nu, and exact to 16 digits of 1. With up to
# 1/_LEAST_NU rows, all smaller nu would give the same model, without outliers.
_LEAST_NU = 1e-6

# Solvers that allow `n_steps`, and the `order` of `pegasos.fit`.
_COUNTED = ("auto", "pegasos")

# A check gets the name and value of a parameter, and raises if the value is not allowed.
Check = Callable[[str, Any], Any]
_Class = TypeVar("_Class", bound=type[Any])


@dataclass_transform(kw_only_default=True, eq_default=False)
def parameters(cls: _Class) -> _Class:
    """Make `__init__`, which stores each declared parameter of a class and its bases, as given.

    Classes are not dataclasses: other libraries take the parameters of one for all its contents.
    """
    declared = {k: v for base in cls.__mro__[:0:-1] for k, v in vars(base).get("_declared", ())}
    for name, kind in inspect.get_annotations(cls).items():
        if "ClassVar" in str(kind):  # a string if annotations are not evaluated
            continue
        declared[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=vars(cls)[name], annotation=kind
        )
        delattr(cls, name)
    places = {name: place for place, name in enumerate(PARAMETERS)}
    ordered = sorted(declared.items(), key=lambda item: places.get(item[0], len(places)))
    defaults = {name: parameter.default for name, parameter in ordered}

    def __init__(self: Any, **given: Any) -> None:  # noqa: N807
        for name in given.keys() - defaults.keys():
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}"
            )
        vars(self).update(defaults | given)

    of_self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature: Any = inspect.Signature([of_self, *(parameter for _, parameter in ordered)])
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    made: Any = cls
    made._declared, made.__init__ = ordered, __init__
    return cls


def check(estimator: Any, **own: Check) -> None:
    """Raise unless all parameters of `estimator` are allowed; `own` has checks of its class."""
    given, cls = vars(estimator), cast(Any, type(estimator))
    for name, check_value, default in _checks(cls, tuple(given)):
        # Skip defaults, which are allowed: with them, checks would take 10 % of a small fit.
        if given[name] is not default or name in own:
            own.get(name, check_value)(name, given[name])
    epsilons = given.keys() & {"epsilon", "epsilons"}
    for name in epsilons if estimator.loss == "huber" else ():
        for value in [] if given[name] is None else np.atleast_1d(given[name]).tolist():
            real(f"{parameter(name)} of {parameter('loss', 'huber')}", value, above=0)
    if "cost" in given:
        _joint(estimator)
    if given.get("kernel_params") and "params" not in kernels.kind(estimator.kernel).uses:
        raise ValueError(
            "kernel_params are for kernels that are functions, and must be None with "
            f"{parameter('kernel', estimator.kernel)}, got {estimator.kernel_params!r}"
        )
    for name in ("n_steps", "order"):
        if given.get(name) is not None and estimator.solver not in _COUNTED:
            raise ValueError(
                f"{parameter(name)} needs {parameter('solver', 'pegasos')}, got "
                f"{parameter('solver', estimator.solver)}"
            )
    for one, other in (("C", "lam"), ("Cs", "lams")):
        if given.get(one) is not None and given.get(other) is not None:
            raise ValueError(
                f"{one} or {other} must be None, since each determines the other, "
                f"got {one}={given[one]!r} and {other}={given[other]!r}"
            )


@lru_cache
def _checks(cls: Any, names: tuple[str, ...]) -> list[tuple[str, Check, Any]]:
    """The parameters among `names`, in the order of `PARAMETERS`, with checks and defaults."""
    usual = dict(PARAMETERS)
    if "epsilon" in names or "epsilons" in names:
        usual["loss"] = partial(choice, allowed=TARGET_LOSSES)
    if "cost" not in names:
        usual["multi_class"] = partial(choice, allowed=_SCHEMES[:2])
    if "cv" not in names:
        usual["n_steps"] = partial(integer, besides=(None,))
    defaults = {name: declared.default for name, declared in getattr(cls, "_declared", ())}
    none = inspect.Parameter.empty
    return [(name, of, defaults.get(name, none)) for name, of in usual.items() if name in names]


def shared(estimator: Any, kind: Any) -> dict[str, Any]:
    """Parameters that `kind` has too. A subclass may set more than `get_params` returns."""
    return {name: vars(estimator)[name] for name, _ in kind._declared if name in vars(estimator)}


def plan(estimator: Any) -> dict[str, Any]:
    """Arguments of `pegasos.solvers._schedule.Schedule.train`, from checked parameters."""
    return {
        "solver": estimator.solver,
        "tol": estimator.tol,
        "max_iter": int(estimator.max_iter),
        "n_steps": None if estimator.n_steps is None else int(estimator.n_steps),
    }


def check_blocks(estimator: Any) -> None:
    """Raise unless parameters suit rows that are larger than memory."""
    cv, scoring = getattr(estimator, "cv", 2), getattr(estimator, "scoring", None)
    is_good = estimator.solver != "pegasos" and estimator.n_steps is None
    is_good &= isinstance(cv, Integral) and not callable(scoring)
    if not is_good:
        given = {name: vars(estimator).get(name) for name in ("solver", "n_steps", "cv", "scoring")}
        got = ", ".join(parameter(*of) for of in given.items() if of[1] is not None)
        raise ValueError(
            f"Blocks that are larger than memory need {parameter('solver', 'auto')}, "
            f"{value_of('solver', 'sdca')} or {value_of('solver', 'newton')}, and no "
            f"{parameter('n_steps')}; searches also an integer as cv and no function as scoring; "
            f"got {got}"
        )


def _joint(estimator: Any) -> None:
    """Raise if there is a joint problem and parameters do not suit it, or `cost` without one."""
    if estimator.multi_class != "crammer_singer" and estimator.cost is not None:
        raise ValueError(
            f"cost needs multi_class='crammer_singer', got multi_class={estimator.multi_class!r}"
        )
    if estimator.multi_class == "crammer_singer" and estimator.loss != "hinge":
        raise ValueError(
            f"{parameter('loss')} must be {value_of('loss', 'hinge')} with "
            f"{parameter('multi_class', 'crammer_singer')}, got {value_of('loss', estimator.loss)}"
        )


def _that(wanted: str, is_good: Callable[[Any], bool]) -> Check:
    """A check by `is_good`; `wanted` describes the allowed values."""

    def check_value(name: str, value: Any) -> None:
        if not is_good(value):
            raise ValueError(f"{parameter(name)} must be {wanted}, got {value!r}")

    return check_value


def _number_of_jobs(name: str, value: Any) -> None:
    is_integer = isinstance(value, Integral)
    if not is_integer or value == 0:
        kind = ValueError if is_integer else TypeError
        raise kind(f"{parameter(name)} must be an integer other than 0, got {value!r}")


def _unless_none(check_value: Check) -> Check:
    """A check that also allows None."""
    return lambda name, value: None if value is None else check_value(name, value)


def _each(wanted: str, check_value: Check) -> Check:
    """A check of each value of a list; `wanted` describes the allowed lists."""

    def check_values(name: str, values: Any) -> None:
        array = np.asarray(values, dtype=object)
        if array.ndim != 1 or not len(array):
            raise ValueError(f"{parameter(name)} must be {wanted}, got {values!r}")
        for value in array:
            check_value(name, value)

    return check_values


def _one_or_more(check_value: Check) -> Check:
    """A check for None, an integer (the number of values), or a list of values."""
    each = _each("a number or a list of numbers > 0", check_value)
    return _unless_none(
        lambda name, values: (integer if isinstance(values, Integral) else each)(name, values)
    )


def _kernel(name: str, value: Any) -> None:
    """Check for a function, or the name of a registered kernel."""
    if not callable(value) and not is_one(value, KERNELS):
        names = ", ".join(map(repr, KERNELS))
        raise ValueError(f"{name} must be one of {names} or a function, got {value!r}")


def _numbers_of_steps(name: str, value: Any) -> None:
    """Check for None, an integer, or a list of growing integers."""
    if value is None:
        return
    steps = [integer(name, n) for n in np.atleast_1d(np.asarray(value, dtype=object)).tolist()]
    if not steps or sorted(set(steps)) != steps:
        raise ValueError(f"{name} must grow from one to the next, got {value!r}")


def _cv(name: str, value: Any) -> None:
    if isinstance(value, Real):
        integer(name, value, at_least=2)
    elif isinstance(value, str | bytes) or not (hasattr(value, "split") or np.iterable(value)):
        raise ValueError(
            f"{name} must be a number of folds, a splitter, splits of the rows or None, "
            f"got {value!r}"
        )


def _is_effort(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, Integral):
        return 1 <= int(value) < 2**31
    return is_one(value, ["auto"]) or (isinstance(value, Real) and 0 < float(value) < 1)


def _is_scoring(value: Any) -> bool:
    if isinstance(value, str):
        from sklearn.metrics import get_scorer_names  # here, because this import takes 80 ms

        return value in get_scorer_names()
    return value is None or callable(value)


_SCHEMES = ("ovr", "ovo", "crammer_singer")
_gamma, _epsilon = partial(real, above=0, besides=("scale", "auto")), partial(real, at_least=0)

#: Checks of parameters, in the order of signatures; `check` says where classes differ.
PARAMETERS: dict[str, Check] = {
    "C": _unless_none(partial(real, above=0)),
    "lam": _unless_none(_validate.lam),
    "nu": partial(real, at_least=_LEAST_NU, at_most=1),
    "Cs": _one_or_more(partial(real, above=0)),
    "lams": _one_or_more(_validate.lam),
    "gammas": _unless_none(_each("a list of at least one γ", _gamma)),
    "epsilons": _unless_none(_each("a list of at least one epsilon", _epsilon)),
    "loss": partial(choice, allowed=LOSSES),  # of classifiers; see `check`
    "epsilon": _epsilon,
    "cv": _unless_none(_cv),
    "scoring": _that("a function, None or one of sklearn.metrics.get_scorer_names()", _is_scoring),
    "refit": boolean,
    "one_standard_error": boolean,
    "cv_effort": _that(
        "'auto', an integer >= 1 (epochs) or a float in (0, 1) (a relative duality gap)", _is_effort
    ),
    "kernel": _kernel,
    "gamma": _gamma,
    "degree": partial(integer, at_least=0, at_most=MOST_DEGREE),
    "coef0": real,
    "kernel_params": _that("a dict or None", lambda value: isinstance(value, dict | None)),
    "assume_psd": boolean,
    "cache_size": partial(real, at_least=0),
    "scores": partial(choice, allowed=("auto", "push", "pull")),
    "solver": partial(choice, allowed=("auto", *SOLVERS)),
    # If D is 0, as at the beginning, the relative gap is 1. A larger tol would mean nothing.
    "tol": partial(real, above=0, at_most=1, besides=("auto", None)),
    "max_iter": integer,
    "n_steps": _numbers_of_steps,
    "batch_size": integer,
    "sampling": partial(choice, allowed=tuple(_core.SAMPLINGS)),
    "project": boolean,
    "average": partial(choice, allowed=(False, True, "suffix")),
    "fit_intercept": boolean,
    "penalize_intercept": boolean,
    "intercept_scaling": partial(real, above=0, at_most=1e100),
    "multi_class": partial(choice, allowed=_SCHEMES),
    "cost": lambda name, value: None,  # `_validate.cost` checks it, as its shape needs classes
    "class_weight": _that(
        "a dict, 'balanced' or None",
        lambda value: isinstance(value, dict) or is_one(value, ["balanced", None]),
    ),
    "warm_start": boolean,
    "n_jobs": _unless_none(_number_of_jobs),
    "random_state": _validate.random_state,
    "verbose": _validate.verbose,
    "worker_timeout": partial(real, above=0),
    "checkpoint": _unless_none(_validate.path),
    "checkpoint_every": partial(real, above=0),
}


@parameters
class CommonParameters:
    """Parameters of all estimators and searches."""

    solver: str = "auto"
    tol: float | str | None = "auto"
    max_iter: int = 1000
    batch_size: int = 1
    sampling: str = "permutation"
    project: bool = False
    average: bool | str = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0


@parameters
class InterceptParameters:
    """Parameters of all except one-class estimators."""

    fit_intercept: bool = True
    penalize_intercept: bool = True
    intercept_scaling: float = 1.0


@parameters
class EstimatorParameters(CommonParameters):
    n_steps: int | None = None
    warm_start: bool = False


@parameters
class PenalizedParameters(InterceptParameters, EstimatorParameters):
    """Parameters of classifiers and regressors."""

    C: float | None = None
    lam: float | None = None


@parameters
class SearchParameters(InterceptParameters, CommonParameters):
    Cs: int | Sequence[float] | None = None
    lams: int | Sequence[float] | None = None
    cv: Any = 5
    scoring: str | Callable[..., float] | None = None
    refit: bool = True
    one_standard_error: bool = False
    cv_effort: float | str = "auto"
    n_steps: int | Sequence[int] | None = None


@parameters
class ClassifierParameters:
    """Parameters of classifiers and their searches."""

    loss: str = "hinge"
    multi_class: str = "ovr"
    class_weight: dict[Any, float] | str | None = None


@parameters
class RegressorParameters:
    """Parameters of regressors and their searches."""

    loss: str = "epsilon_insensitive"


@parameters
class KernelParameters:
    """Parameters of kernel machines and their searches."""

    kernel: str | Callable[..., Any] = "rbf"
    degree: int = 3
    coef0: float = 0.0
    kernel_params: dict[str, Any] | None = None
    assume_psd: bool = False
    cache_size: float = 1000


@parameters
class KernelEstimatorParameters(KernelParameters):
    gamma: float | str = "scale"
    scores: str = "auto"


_KERNELS = "the estimators whose names begin with Kernel have kernels"
_STRENGTH = "C= or lam= (Cs= or lams= of searches, nu= of one class) says how strong"
_PENALTY = f"the penalty is always lam/2 |w|^2, and {_STRENGTH} it is"
_STEPS = "steps have the lengths of the paper, or exact ones, and need no schedule"
#: Parameters of other libraries, and what replaces them here.
FOREIGN = {
    "kernel": _KERNELS,
    "degree": _KERNELS,
    "gamma": f"{_KERNELS}, and searches over them take gammas=",
    "probability": "loss='log_loss' and 'modified_huber' have predict_proba, and "
    "sklearn.calibration.CalibratedClassifierCV gives probabilities to all losses",
    "penalty": _PENALTY,
    "l1_ratio": _PENALTY,
    "alpha": f"{_STRENGTH} the penalty is; lam is the alpha of SGDClassifier and SGDRegressor, and "
    "C is 1/alpha of Ridge",
    "dual": "the method is chosen for the data, and all methods reach the same model",
    "learning_rate": _STEPS,
    "eta0": _STEPS,
    "early_stopping": "tol= says at which gap a fit ends, and max_iter= bounds its epochs",
    "shrinking": "solvers leave rows out where that saves time, without changing the model",
    "decision_function_shape": "multi_class='ovo' trains pairs of classes",
    "break_ties": "each class has a score, and the largest wins",
    "param_grid": "searches take Cs= or lams=, and gammas= and epsilons= where they have them",
    "epsilon": "the regressors have losses with an epsilon, and searches over them take epsilons=",
    "nu": "PegasosOneClass and KernelPegasosOneClass have nu; C= or lam= of the others says how "
    "strong the penalty is",
    "C": "searches take Cs=, and one-class machines take nu=",
}


def refuse_foreign(
    owner: str,
    given: Collection[str],
    own: Callable[[], Collection[str]],
    instead: Mapping[str, str] = FOREIGN,
) -> None:
    """Raise a TypeError for a parameter of other libraries, which says what replaces it."""
    foreign = instead.keys() & given
    for name in sorted(foreign.difference(own() if foreign else ())):
        raise TypeError(f"{owner} has no parameter {name!r}: {instead[name]}")
