"""Warn at the end of a fit about a gap that is too large and a model that is of no use."""

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pegasos import _core, _user_warnings
from pegasos.problems import _multiclass
from pegasos.problems._certificate import Certificate
from pegasos.problems._validate import counted, parameter, wording
from pegasos.solvers._schedule import GAP, Schedule

_warn_of_model = functools.partial(
    _user_warnings.warn, category=_user_warnings.ConstantPredictionWarning
)

# Check this number of rows of each of two classes first: if the model tells them apart, the other
# rows need no check. With more classes, the total number of these rows is about equal.
_ASKED = 16
# Rows with smaller norms need large weights. λ keeps weights small, and large ones slow solvers.
_SMALL = 0.1
# Fits with a larger relative gap did not come near the optimum.
_FAR = 0.1
# Weights are too small if the mean loss is above _HARDLY times that of a constant, and weights
# _LONGER times as long, or longer, would reduce it below _HALF of the constant's.
_HARDLY, _HALF, _LONGER = 0.9, 0.5, 2
# Rows are alike if kernel values among them spread over at most this part of their size.
_ALIKE = 1e-3
_NEARER = "a fit that ends nearer to the optimum"
# For one class, rounding leaves gaps of up to this part of nu where w = 0 is best.
_OF_ROUNDING = 1e-6
# Classes have unequal weight if one has over this many times the weight of another.
_UNEQUAL = 2


def warn_of_gap(
    schedule: Schedule,
    certificate: Certificate,
    rows: Any,
    *,
    solver: str,
    tol: Any,
    max_iter: int,
    n_steps: Any,
    name: Callable[[int], str],
    is_complete: bool = True,
) -> None:
    """Warn if a relative gap is above `tol`: why the fit stopped, where, and what may help.

    `solver`, `tol`, `max_iter` and `n_steps` are the arguments of the fit. `name` describes a
    problem, given its number. `is_complete` is False if a callback stopped the fit.
    """
    tol = GAP if tol == "auto" else tol
    if tol is None or n_steps is not None or (certificate.relative_gap <= tol).all():
        return
    stopping = certificate.stopping_gap
    proved = certificate.proved_gap
    gaps = np.where(np.isnan(proved), stopping, proved)
    k = int(np.argmax(gaps))  # NaN is the largest
    if gaps[k] <= tol or _has_zero_weights(schedule, certificate):
        return
    from sklearn.exceptions import ConvergenceWarning

    in_user_units = schedule.settings.objectives_in_user_units
    objective = in_user_units(certificate.objective)[k]
    if not is_complete:
        why = f"a callback stopped the fit after {counted(schedule.n_iter, 'epoch')}"
        advice = ""
    elif (
        stopping[k] > tol
        and schedule.epochs_of_plan()[k] >= max_iter
        and not certificate.gap[k] <= _rounding(schedule, rows, k)
    ):
        why = f"stopped at {parameter('max_iter', max_iter)}"
        helps = [] if solver == "auto" else [parameter("solver", "auto")]
        helps.append(f"more epochs ({parameter('max_iter')})")
        advice = _advice(helps, schedule, rows)
    else:
        epochs = counted(schedule.n_iter, "epoch")
        why = f"stopped after {epochs}: rounding allows no smaller gap"
        is_linear = isinstance(rows, _core.Rows)
        is_single = rows.value_bytes == 4 if is_linear else rows.points.dtype == np.float32
        advice = _advice(["X as float64"] if is_single else [], schedule, rows)
    about = name(k)
    percent, gap = 100 * float(gaps[k]), objective - in_user_units(certificate.dual_objective)[k]
    if np.isnan(gap):
        reached = (
            f"{percent:.3g} % from the dual value (the kernel matrix is not known to be positive "
            "semi-definite, so this is no bound)"
        )
    else:
        whole = "bound" if schedule.settings.loss.nu else "objective"  # |D| of one class, else P
        reached = f"gap {gap:.3g}, {percent:.3g} % of the {whole}"
    _user_warnings.warn(
        f"{why}{f' for {about}' if about else ''}. Objective "
        f"{objective:.6g}, {reached}; "
        f"{parameter('tol', tol)} asks for {100 * tol:.3g} %.{advice}",
        ConvergenceWarning,
    )


# Sizes that overflow give NaN: their rounding error is not known.
@np.errstate(over="ignore", under="ignore", invalid="ignore")
def _rounding(schedule: Schedule, rows: Any, k: int) -> float:
    """About how exactly an objective is known, given that scores are sums of products.

    There is a product for each number of a row, or for each support vector of a kernel machine.
    """
    coef = schedule.model()[0][k]
    if isinstance(rows, _core.Rows):
        numbers, size = rows.size / rows.shape[0], np.linalg.norm(coef) * _size(rows)
    else:
        norms = np.sqrt(np.abs(rows.diagonal))
        numbers, size = float(np.count_nonzero(coef)), np.abs(coef) @ norms * norms.mean()
    return float(schedule.settings.loss_of(k).rounding * (1 + (numbers / 4 + 1) * size))


def _size(rows: Any) -> float:
    """About the norm of a row; 1 for kernel machines, which get no advice about norms."""
    is_linear = isinstance(rows, _core.Rows)
    return float(np.sqrt(rows.squared_norms(1000).mean())) if is_linear else 1.0


def _advice(helps: list[str], schedule: Schedule, rows: Any) -> str:
    """The advice on what may bring a fit nearer to `tol`."""
    helps = [*helps, *_scaled(rows)]
    if not schedule.settings.loss.nu:
        helps.append(f"a larger {parameter('lam')} (a smaller {parameter('C')})")
    return f" What may help: {_joined([*helps, 'a larger ' + parameter('tol')])}"


def _scaled(rows: Any) -> list[str]:
    """The advice to scale features, if norms of linear rows are far from 1.

    Standardised dense rows have norms of about the root of the number of features.
    """
    if not isinstance(rows, _core.Rows):
        return []
    size, usual = _size(rows), 1.0 if rows.is_sparse else np.sqrt(rows.shape[1])
    if _SMALL <= size <= usual / _SMALL:
        return []
    scaled = "features that are centred and scaled"
    # Rare features would be longer than others after a division by their deviations.
    if rows.is_sparse and rows.size < rows.shape[0] * rows.shape[1] / 2:
        scaled = "features divided by their largest values (sklearn.preprocessing.MaxAbsScaler)"
    return [f"{scaled} (rows of X have norms of about {size:.2g})"]


def _have_gamma(rows: Any) -> bool:
    """Whether rows belong to a kernel with a γ. Rows of linear machines may be on disk."""
    return hasattr(rows, "points") and "gamma" in rows.points.kernel.uses


def _varied(rows: Any) -> list[str]:
    """The advice of `_scaled` or, for a kernel with a γ, on rows that it hardly tells apart."""
    if not _have_gamma(rows):
        return _scaled(rows)
    return ["features that are centred and scaled", f"another {parameter('gamma')}"]


def _are_alike(rows: Any) -> bool:
    """Whether a kernel with a γ has about one value for all pairs of some rows."""
    if not _have_gamma(rows):
        return False
    n = rows.shape[0]
    some = rows.points[np.linspace(0, n - 1, min(n, 2 * _ASKED)).astype(np.int64)]
    values = some.against(some)
    return bool(np.ptp(values) <= _ALIKE * np.abs(values).max())


def warn_of_single_class(
    schedule: Schedule,
    certificate: Certificate | None,
    rows: Any,
    *,
    codes: np.ndarray,
    weights: np.ndarray | None,
    classes: np.ndarray,
    multi_class: str,
    balancing: tuple[str, ...] | None,
    mass: float | None,
    is_for_scores: bool = False,
) -> None:
    """Warn if all training rows are predicted to be of one class, and whether their scores differ.

    `codes` are the class numbers of rows. `balancing` are the arguments of `parameter` that name
    the way to give rare classes more weight; None if users have done so. For `mass`, see
    `_less_regularised`. `is_for_scores`: accept one class for all rows if scores differ.
    """
    of_classes = np.bincount(codes, weights, minlength=len(classes))
    least = schedule.settings.loss.at_zero
    if certificate is not None and _tells_apart(certificate, of_classes, multi_class, least):
        return
    inside = np.ones(len(codes), bool) if weights is None else weights > 0
    found = _one_for_all(schedule, rows, codes, inside, len(classes), multi_class)
    if found is None:
        return
    winner, scores = found
    differs = bool((scores != scores[0]).any())
    if differs and is_for_scores:
        return
    lam, size, loss = schedule.settings.lam, _size(rows), schedule.settings.loss
    helps = []
    if not (isinstance(rows, _core.Rows) or rows.is_positive):
        helps.append(f"a positive semi-definite kernel such as {parameter('kernel', 'rbf')}")
    elif certificate is not None and not (certificate.relative_gap <= _FAR).all():
        helps.append(_NEARER)
    else:
        helps += _varied(rows)
        if balancing and of_classes.max() > _UNEQUAL * of_classes.min():
            helps.append(parameter(*balancing))
        if len(classes) > 2 and multi_class == "ovr":
            helps.append(parameter("multi_class", "ovo"))
        if not (loss.curvature or multi_class == "crammer_singer"):
            helps.append(parameter("loss", "squared_hinge"))
        if schedule.settings.constant_feature > 0:
            helps.append(parameter("penalize_intercept", False))
        # Where w = 0 is best for the hinge, it mostly stays best with a larger C. But |w| is at
        # most about the norm of rows over λ: λ above its square keeps scores below 1.
        if differs or loss.curvature or lam > size * size or not helps:
            helps.append(_less_regularised(min(lam, size * size) or lam, mass))
        elif isinstance(rows, _core.Rows):
            helps.append(f"a kernel machine with {parameter('kernel', 'rbf')}")
    so = "though their scores differ and may rank rows" if differs else "so this model is of no use"
    _warn_of_model(
        f"all training rows are predicted to be of class {classes[winner]}, {so}. What may help: "
        f"{_joined(helps)}"
    )


def warn_of_constant(
    schedule: Schedule,
    certificate: Certificate,
    rows: Any,
    *,
    name: Callable[[int], str],
    mass: float | None,
) -> None:
    """Warn if a constant predicts the training targets better, by the loss of the fit.

    Also warn if targets differ, but the model is a constant or all targets are within epsilon of
    one; or if a constant is hardly worse because λ keeps weights small or rows are alike.
    """
    settings, problem = schedule.settings, schedule.problem
    values: Any = problem.values
    constants, least = problem.targets.constants(np.zeros(len(problem)))
    objective = certificate.objective
    # No mean loss is above the objective, unless |w|^2 can be below 0: then nothing is bounded.
    # Only losses with bounded slopes depend on the units of targets.
    is_bounded = np.isfinite(settings.loss.dual_upper)
    is_near = objective >= least * (_HARDLY if is_bounded else 1 - GAP)
    if not (is_near | np.isnan(certificate.gap)).any():
        return
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scores = schedule.solver_class.scores(rows, *schedule.model()).T
        mean_loss = replace(problem, values=np.ascontiguousarray(values - scores)).at_zero
        spreads, of_scores = (
            np.array([np.ptp(of[k][problem.weights[k] > 0]) for k in range(len(problem))])
            for of in (values, scores)
        )
    # A fit to a gap may leave this much, and so may rounding.
    excess = mean_loss - least - GAP * np.maximum(objective, least)
    excess -= settings.roundings
    is_useless = (excess > 0) | (spreads > 0) & ((least <= 0) | (of_scores == 0))
    if not is_useless.any():
        if is_bounded and _warn_of_small_weights(schedule, scores, mean_loss, least, name, mass):
            return
        is_useless = is_near & (spreads > 0) & _are_alike(rows)
    if not is_useless.any():
        return
    k = int(np.argmax(np.where(is_useless, excess, -np.inf)))
    is_far = certificate.relative_gap[k] > _FAR
    helps = [_NEARER if is_far else _less_regularised(settings.lam, mass)]
    if np.isnan(certificate.gap[k]):
        helps = [f"a positive semi-definite kernel such as {parameter('kernel', 'rbf')}"]
    elif least[k] <= 0 < spreads[k]:
        deviation = values[k][problem.weights[k] > 0].std() * settings.units[k]
        helps = [f"{parameter('epsilon')} below their standard deviation, {deviation:.2g}"]
    else:
        if not settings.fit_intercept:
            helps.insert(0, parameter("fit_intercept", True))
        elif settings.penalize_intercept:
            free = parameter("penalize_intercept", False)
            # A bounded slope needs a larger C for wide targets, whatever the intercept is.
            helps = [f"{free} with {helps[0]}"] if is_bounded and not is_far else [free, *helps]
        if is_bounded:
            helps.append(wording().for_units)
        helps = _varied(rows) + helps
    about, settings = name(k), settings.subset([k])
    own, other = settings.objectives_in_user_units(np.array([mean_loss[k], least[k]]))
    constant = constants[k] * settings.units[0]
    _warn_of_model(
        f"a constant predicts the training targets{f' of {about}' if about else ''} "
        f"{'better than' if excess[k] > 0 else 'as well as'} this model: {constant:.4g} has "
        f"a mean loss of {other:.4g}, the model has {own:.4g}. What may help: {_joined(helps)}"
    )


def _warn_of_small_weights(
    schedule: Schedule,
    scores: np.ndarray,
    mean_loss: np.ndarray,
    least: np.ndarray,
    name: Callable[[int], str],
    mass: float | None,
) -> bool:
    """Warn if a model is hardly better than a constant, and a longer w would be far better.

    Returns whether it has warned.
    """
    problem, settings = schedule.problem, schedule.settings
    c, m, values = problem.weights, problem.masses[:, None], problem.values
    with np.errstate(all="ignore"):
        z, f = (of - (c * of).sum(axis=1, keepdims=True) / m for of in (values, scores))
        factor = (c * z * f).sum(axis=1) / (c * f * f).sum(axis=1)  # by least squares
        factor[~np.isfinite(factor)] = 1
        errors = np.ascontiguousarray(values - factor[:, None] * f)
    is_short = (mean_loss > _HARDLY * least) & (factor > _LONGER)
    if not is_short.any():
        return False
    better = replace(problem, values=errors).targets.constants(np.zeros(len(problem)))[1]
    is_short &= better < _HALF * least
    for k in np.flatnonzero(is_short)[:1].tolist():
        losses = np.array([mean_loss[k], least[k], better[k]])
        own, constant, longer = settings.subset([k]).objectives_in_user_units(losses)
        helps = _joined([_less_regularised(settings.lam, mass), wording().for_units])
        _warn_of_model(
            f"this model predicts the training targets{f' of {name(k)}' if name(k) else ''} hardly "
            f"better than a constant, because its weights are small: it has a mean loss of "
            f"{own:.4g}, the best constant {constant:.4g}, and {_rounded(factor[k])} times these "
            f"weights {longer:.4g}. What may help: {helps}"
        )
    return bool(is_short.any())


def warn_of_no_outliers(schedule: Schedule, certificate: Certificate, rows: Any) -> None:
    """Warn if a one-class model has w = 0 and so finds no outlier, or if rows are alike."""
    if not _has_zero_weights(schedule, certificate):
        if _are_alike(rows):
            _warn_of_model(
                "kernel values of all training rows are about equal, so this model hardly tells "
                f"outliers apart. What may help: {_joined(_varied(rows))}"
            )
        return
    if np.isnan(certificate.gap).any():
        why = "the fit found none with a lower objective"
        helps = f"a positive semi-definite kernel such as {parameter('kernel', 'rbf')}"
    else:
        why = (
            "the training rows lie around the origin, and no hyperplane separates most of them "
            "from it"
        )
        helps = f"a kernel machine with {parameter('kernel', 'rbf')}, or rows that are not centred"
    _warn_of_model(f"w = 0, so this model finds no outlier: {why}. What may help: {helps}")


def _has_zero_weights(schedule: Schedule, certificate: Certificate) -> bool:
    """Whether w = 0 is the best one-class model, or the best that was found without a dual.

    Then P = 0 in the user's units, and what rounding leaves is all of nu - D: no `tol` is reached.
    """
    if not schedule.settings.loss.nu or schedule.model()[0].any():
        return False
    gap = certificate.gap
    least = _OF_ROUNDING * certificate.objective + schedule.settings.loss.rounding
    return bool((np.isnan(gap) | (gap <= least)).all())


def _less_regularised(lam: float, mass: float | None) -> str:
    """The advice to take a smaller λ, or a larger C = 1/(λ m), where m is `mass`.

    None: the estimator has no C.
    """
    advice = f"a {parameter('lam')} below {_rounded(lam)}"
    if mass is None:
        return advice
    C = 1 / max(lam * mass, sys.float_info.min)
    return f"{advice} ({parameter('C')} above {_rounded(C)})"


def _rounded(number: float) -> str:
    """A number with two digits, and no exponent if it is of usual size."""
    return f"{float(f'{number:.2g}'):g}"


def _tells_apart(
    certificate: Certificate, of_classes: np.ndarray, multi_class: str, least: float
) -> bool:
    """Whether objectives are too small for a model that predicts one class for all rows.

    With such a model, each row of another class has a loss of at least `least`, the loss at f = 0.
    One-vs-rest: the predicted class has at least the score of the row's own class. So 1 + f of the
    first and 1 - f of the second add up to 2 or more, and the two losses to 2 `least` or more.
    One-vs-one: the row loses one of its pairs, or its class would have most votes.
    """
    # Most fits have few problems, for which NumPy takes five times as long as plain numbers.
    own, objectives = of_classes.tolist(), certificate.objective.tolist()
    masses = [sum(own)] * len(objectives)
    others = least * (sum(own) - max(own))
    if len(own) > 2 and multi_class == "ovr":
        others *= 2
    elif len(own) > 2:
        masses = [own[i] + own[j] for i, j in _multiclass.pairs(len(own))]
    losses = sum(m * P for m, P in zip(masses, objectives, strict=True))
    # Without a dual (gaps are NaN), |w|^2 can be below 0, and objectives below the mean losses.
    return bool(certificate.gap.max() >= 0) and losses < others


def _one_for_all(
    schedule: Schedule,
    rows: Any,
    codes: np.ndarray,
    inside: np.ndarray,
    n_classes: int,
    scheme: str,
) -> tuple[int, np.ndarray] | None:
    """The one class that all rows `inside` are predicted to be of, and their scores, or None."""
    of_each = [np.flatnonzero((codes == k) & inside) for k in range(n_classes)]
    most = -(-2 * _ASKED // n_classes)  # rows of each class
    few = np.concatenate([of[:: max(1, len(of) // most)][:most] for of in of_each])
    for which in (few, None):  # None: all rows
        with np.errstate(over="ignore", under="ignore"):
            scores = schedule.solver_class.scores(rows, *schedule.model(), which)
            winners = _multiclass.winners(_multiclass.class_scores(scores, n_classes, scheme))
        if which is None:
            scores, winners = scores[inside], winners[inside]
        if (winners != winners[0]).any():
            return None
    return int(winners[0]), scores


def _joined(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
