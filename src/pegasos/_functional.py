"""`fit` and `decision_function` on NumPy buffers, without scikit-learn.

SciPy is loaded when Newton's method needs BLAS, scikit-learn when a `ConvergenceWarning` is issued.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from pegasos.estimators import _parameters
from pegasos.io._model import LinearModel
from pegasos.io._progress import Progress
from pegasos.problems import _losses, _multiclass, _rows, _units, _validate
from pegasos.problems._certificate import Certificate
from pegasos.problems._settings import settings_of
from pegasos.solvers import _warnings
from pegasos.solvers._linear import LinearSolver
from pegasos.solvers._schedule import Schedule

_P = ParamSpec("_P")


_INSTEAD = _parameters.FOREIGN | {"C": "give lam=pegasos.lam_from_C(C, n_samples)"}


def _refusing_foreign(fit: Callable[_P, LinearModel]) -> Callable[_P, LinearModel]:
    """Decorate `fit` to refuse parameters of other libraries, and to name their replacements."""
    own = inspect.signature(fit).parameters

    @functools.wraps(fit)
    def call(*arguments: _P.args, **options: _P.kwargs) -> LinearModel:
        _parameters.refuse_foreign("pegasos.fit", options.keys(), lambda: own, _INSTEAD)
        return fit(*arguments, **options)

    return call


@_refusing_foreign
def fit(
    X: Any,
    y: ArrayLike,
    lam: float,
    *,
    loss: str = "hinge",
    epsilon: float = 0.1,
    solver: str = "auto",
    tol: float | str | None = "auto",
    max_iter: int = 1000,
    n_steps: int | None = None,
    batch_size: int = 1,
    sampling: str = "permutation",
    project: bool = False,
    average: bool | str = False,
    fit_intercept: bool = True,
    penalize_intercept: bool = True,
    intercept_scaling: float = 1.0,
    multi_class: str = "ovr",
    sample_weight: ArrayLike | None = None,
    order: Sequence[int] | np.ndarray | None = None,
    random_state: Any = None,
    n_jobs: int = 1,
    verbose: int = 0,
) -> LinearModel:
    """Train a linear support vector machine, or linear regression, to a certified gap.

    Minimises, for each binary problem,

    ``P(w) = lam/2 |w|^2 + 1/m sum_i c_i max(0, 1 - y_i (<w, x_i> + b))``, ``m = sum_i c_i``,

    or another `loss` in place of max(0, ...). Losses of regression are functions of
    y_i - <w, x_i> - b, for each column of y.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Not copied if it is float32 or float64 and C-contiguous, or CSR with such values and 32- or
        64-bit indices (which are copied if most columns are empty). CSR means any object with
        ``data``, ``indices``, ``indptr``, ``shape``.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels, numbers or strings, of at least two classes, in one dimension. With a loss of
        regression, targets between -1e150 and 1e150, of one output or several.
    lam : float
        Regularisation λ > 0. ``lam_from_C`` converts from C.
    loss : str, default="hinge"
        For labels: "hinge", "squared_hinge", "modified_huber" or "log_loss", see
        `PegasosClassifier`; the last two have `LinearModel.predict_proba`. For targets:
        "epsilon_insensitive", "squared_epsilon_insensitive", "huber" or "squared_error", see
        `PegasosRegressor`.
    epsilon : float, default=0.1
        As in `PegasosRegressor`. Ignored with labels.
    solver, tol, max_iter, n_steps, batch_size, sampling, project, average
        As in `PegasosClassifier`; with targets, `project` is as in `PegasosRegressor`.
    fit_intercept, penalize_intercept, intercept_scaling
        As in `PegasosClassifier`.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one, for three classes or more. Ignored with targets.
    sample_weight : array-like of shape (n_samples,), optional
        c_i >= 0. A row of weight zero is in no problem: drawing it changes nothing.
    order : array-like of int, optional
        The rows to draw, in this order, instead of random ones. Every problem takes a step for each
        `batch_size` of its draws, at most `n_steps`. `max_iter` is then ignored.
    random_state : int, numpy Generator or RandomState, optional
        Seed for the order of rows: the same int gives the same bits, whatever `n_jobs`. None: a
        seed from the operating system.
    n_jobs : int, default=1
        Threads that share the problems and, if these are fewer, the passes of Newton's method.
    verbose : int, default=0
        1: show progress on standard error.

    Returns
    -------
    LinearModel
        Its `predict` returns labels or targets. Its `objective` is P(w), and its `duality_gap` a
        proved bound on how far P(w) is above the optimum. After Ctrl-C, nothing is returned.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it and its value.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated sub-gradient solver for SVM.
    Mathematical Programming B 127 (2011) 3-30.

    Examples
    --------
    >>> import numpy as np, pegasos
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]])
    >>> model = pegasos.fit(X, [0, 0, 1, 1], lam=0.1, random_state=0)
    >>> model.predict(X)
    array([0, 0, 1, 1])
    >>> print(f"objective {model.objective[0]:.3f}, gap {model.duality_gap[0]:.3f}")
    objective 0.050, gap 0.000

    Targets in place of labels:

    >>> options = {"loss": "squared_error", "penalize_intercept": False, "random_state": 0}
    >>> model = pegasos.fit(X, [0.0, 0.0, 5.0, 6.0], lam=1e-6, **options)  # 1 + 2 x_1 - x_2
    >>> print(model.coef.round(3), model.intercept.round(3))
    [[ 2. -1.]] [1.]
    """
    given = SimpleNamespace(**locals())
    known = functools.partial(_validate.choice, allowed=(*_losses.LOSSES, *_losses.TARGET_LOSSES))
    _parameters.check(given, lam=_validate.lam, loss=known, n_jobs=_validate.integer)
    plan = _parameters.plan(given)
    settings = settings_of(given, lam, loss=_losses.named(loss, float(epsilon)))
    seed = _validate.seed(random_state)
    rows, dtype = _validate.rows(X)
    n_samples, n_features = rows.shape
    rows, columns = _rows.without_empty_columns(rows)
    weights = _validate.sample_weight(sample_weight, n_samples)
    classes: Any = None
    codes: Any = None
    values = None
    if settings.loss.has_targets:
        _validate.before_targets(y)
        y, multi_class = _validate.targets(y, n_samples), "ovr"
        labels, values, units = _units.problems(y, weights)
        settings = dataclasses.replace(settings, units=units)
    else:
        classes, codes = _validate.labels(y, n_samples)
        _validate.at_least_two(classes, codes, weights)
        labels = _multiclass.problem_labels(codes, len(classes), multi_class, weights)

    if columns is not None:  # check the model's memory before training
        _rows.zero_weights(len(labels), n_features)
    schedule = Schedule(LinearSolver, settings, len(labels), rows.shape[1], dtype, seed)
    schedule.set_rows(labels, weights, values)
    draws: Any = {}
    if order is not None:
        draws["order"] = _validate.order(order, n_samples)
        made = _whole_steps(labels[:, draws["order"]], settings.batch_size)
        plan["n_steps"] = made if n_steps is None else np.minimum(made, plan["n_steps"])
    with Progress("training", bool(verbose)) as progress:
        certificate = schedule.train(
            rows, n_threads=int(n_jobs),
            on_progress=(lambda: progress.update(schedule.progress)) if verbose else None,
            **plan, **draws,
        )  # fmt: skip
    is_flat = values is not None and np.ndim(y) == 1
    model = _model(schedule, certificate, classes, multi_class, is_flat=is_flat)
    coef = _rows.with_empty_columns(model.coef, columns, n_features)
    model = dataclasses.replace(model, coef=coef)
    about = schedule, certificate, rows
    _warnings.warn_of_gap(*about, **plan, name=model._problem_name)
    if values is not None:
        _warnings.warn_of_constant(*about, name=model._problem_name, mass=None)
    else:
        balancing = None if weights is not None else ("sample_weight that gives rare classes more",)
        _warnings.warn_of_single_class(
            *about, codes=codes, weights=weights, balancing=balancing, classes=classes,
            multi_class=multi_class, mass=None,
        )  # fmt: skip
    return model


def _model(
    schedule: Schedule, certificate: Certificate, classes: Any, multi_class: str, *, is_flat: bool
) -> LinearModel:
    """The model that a fit returns, in the user's units."""
    settings, counts = schedule.settings, schedule.alpha_counts()
    coef, intercept = settings.in_user_units(*schedule.model())
    loss = settings.loss
    if counts is not None and loss.has_targets:
        # Slopes have the unit of losses divided by the unit of targets.
        counts = counts * (settings.objective_units / np.array(settings.units))[:, None]
    return LinearModel(
        coef=coef,
        intercept=intercept,
        classes=classes,
        multi_class=multi_class,
        lam=settings.lam,
        loss=loss.name,
        epsilon=loss.epsilon if loss.name in _losses.EPSILON_LOSSES else None,
        is_flat=is_flat,
        objective=settings.objectives_in_user_units(certificate.objective),
        dual_objective=settings.objectives_in_user_units(certificate.dual_objective),
        n_steps=schedule.n_steps,
        alpha_counts=counts,
    )


def _whole_steps(labels: np.ndarray, batch_size: int) -> np.ndarray:
    """Count the whole steps of each problem in draws with these labels."""
    made = np.count_nonzero(labels, axis=1) // batch_size
    if not made.any():
        raise ValueError(
            f"order must hold at least batch_size={batch_size} draws of rows that have weight, got "
            f"{labels.shape[1]} draws"
        )
    return made


def decision_function(model: LinearModel, X: Any) -> np.ndarray:
    """Scores of the rows of `X` under a model that `fit` returned.

    Parameters
    ----------
    model : LinearModel
    X : array-like or CSR matrix of shape (n_samples, n_features)

    Returns
    -------
    ndarray of float64
        Shape (n_samples,) for two classes: positive means ``model.classes[1]``. Otherwise
        (n_samples, n_classes), and the class of the largest score wins; for one-vs-one these are
        votes, with ties broken by summed scores. For regression, predicted targets, in the shape of
        the y of the fit.

    Raises
    ------
    ValueError
        If `X` is not a finite matrix with the features that the model was trained on.

    Examples
    --------
    >>> import numpy as np, pegasos
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]])
    >>> model = pegasos.fit(X, [0, 0, 1, 1], lam=0.1, random_state=0)
    >>> pegasos.decision_function(model, X) > 0
    array([False, False,  True,  True])
    """
    if not isinstance(model, LinearModel):
        raise TypeError(f"model must be what pegasos.fit returns, got {model!r}")
    return model.decision_function(X)


def lam_from_C(C: float, n_samples: float) -> float:  # noqa: N802
    """λ of an SVM with this C: ``1 / (C n_samples)``.

    If rows have weights, `n_samples` is their sum.

    Examples
    --------
    >>> from pegasos import lam_from_C
    >>> lam_from_C(1.0, 1000)
    0.001
    """
    return _reciprocal("C", C, n_samples)


def C_from_lam(lam: float, n_samples: float) -> float:  # noqa: N802
    """C of an SVM with this λ: ``1 / (lam n_samples)``.

    Examples
    --------
    >>> from pegasos import C_from_lam
    >>> C_from_lam(0.001, 1000)
    1.0
    """
    return _reciprocal("lam", lam, n_samples)


def _reciprocal(name: str, value: float, n_samples: float) -> float:
    value = _validate.real(name, value, above=0)
    product = value * _validate.real("n_samples", n_samples, above=0)
    return _validate.reciprocal(f"{name} times n_samples", product)
