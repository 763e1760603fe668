"""What the estimators share: scikit-learn's conventions around the schedule of a fit."""

import contextlib
import copy
import functools
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from pegasos import _threads
from pegasos.estimators import _parameters
from pegasos.estimators._callbacks import (
    CallbackSupportMixin,
    StopRequestedError,
    Watch,
    with_callbacks,
)
from pegasos.io._checkpoint import CheckpointDue
from pegasos.io._progress import Progress
from pegasos.problems import _certificate, _validate
from pegasos.problems import _columns as _problems
from pegasos.problems._losses import LOSSES, with_probabilities
from pegasos.problems._settings import Settings
from pegasos.solvers import _schedule, _state, _warnings
from pegasos.solvers._schedule import Schedule


class _Fit:
    """Stands for a fit that is under way, as long as it is."""


# Fits under way, by `id` of their estimators. An entry goes with the fit, wherever an exception
# strikes.
_FITTING: weakref.WeakValueDictionary[int, _Fit] = weakref.WeakValueDictionary()

# What a fitted estimator need not have: if a new model does not bring it, it goes with the last
# one.
_OPTIONAL = (
    "feature_names_in_", "alpha_counts_", "objective_", "dual_objective_", "duality_gap_", "_state",
    "_ended", "_fingerprint", "_gamma",
)  # fmt: skip


@dataclass(eq=False, kw_only=True)
class Data:
    """What a fit is of. The estimator is left alone until there is a model.

    Attributes
    ----------
    X, y
        Checked: an array or a CSR matrix, and an array.
    seen : dict
        `n_features_in_` and, if X has them, `feature_names_in_`.
    classes, codes : ndarray
        The distinct labels, and each row's number among them.
    weights : ndarray or None
        Sample weight times class weight.
    columns : ndarray of int8 of shape (n_problems, n_samples)
        Labels of all problems.
    kernel : pegasos.kernels.Kernel
        Of kernel machines.
    """

    X: Any
    y: np.ndarray
    seen: dict[str, Any]
    classes: np.ndarray
    codes: np.ndarray
    weights: np.ndarray | None
    columns: np.ndarray
    kernel: Any = None


def lam_of(C: float, mass: float) -> float:
    """λ of C and the sum of weights."""
    return _validate.reciprocal("C times the sum of the weights of rows", float(C) * mass)


@contextlib.contextmanager
def one_at_a_time(estimator: Any, method: str) -> Generator[None]:
    """Refuse a call of this method of an estimator that is being fitted, by any thread."""
    this = _Fit()
    try:
        if _FITTING.setdefault(id(estimator), this) is not this:
            raise RuntimeError(
                f"{method} was called while this {type(estimator).__name__} is being fitted, "
                "by its kernel function, a callback or another thread; fit a clone of it"
            )
        yield
    finally:
        del this  # or a traceback would keep it


def whole(fit: Any) -> Any:
    """Decorate `fit`: its plan is over once the caller has the model, and not before.

    If it were over when the model is kept, a warm start would train a second time after a Ctrl-C
    that came too late to stop the fit. So what is kept is a state that the next fit completes,
    with nothing left to do, and beside it `_ended`, the state of the same model if the fit returns.
    """
    fit = _threads.handled(with_callbacks(fit))

    @functools.wraps(fit)
    def call(estimator: Any, *arguments: Any, **options: Any) -> Any:
        kept, to_complete = estimator.__dict__, None
        try:
            kept.pop("_ended", None)
            fit(estimator, *arguments, **options)
            ended = kept.pop("_ended", None)
            if ended is not None:
                # The interpreter runs signal handlers after calls, and below there are none;
                # debuggers, which look at every line, make some.
                to_complete, estimator._state = estimator._state, ended
            return estimator
        except KeyboardInterrupt:
            if to_complete is not None:
                estimator._state = to_complete
            raise

    return call


class PegasosEstimator(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of `PegasosClassifier` and `KernelPegasosClassifier`.

    A subclass names its kind of machines, and says in `_model_of` and `_state_of` what is kept of
    it.
    """

    #: What its parameters may be, by `_parameters`; and which kind of machines it trains.
    _checks: Any = _parameters.LINEAR
    _kind = _schedule.LINEAR

    n_features_in_: int
    classes_: np.ndarray
    lam_: float
    intercept_: np.ndarray
    n_iter_: int
    solver_epochs_: dict[str, int]
    n_steps_: np.ndarray
    objective_: np.ndarray
    dual_objective_: np.ndarray
    duality_gap_: np.ndarray
    alpha_counts_: np.ndarray
    _fitted: dict[str, Any]
    _state: dict[str, np.ndarray]
    _ended: dict[str, np.ndarray]

    #: Of fits of the command line: where they are kept, and how their file counts features.
    _checkpoints: Any = None
    _zero_based: bool | None = None

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels of the rows of `X`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        winners = _problems.winners(self.decision_function(X))
        return self.classes_[winners]

    @with_probabilities
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes of the rows of `X`; only with some losses.

        For two classes, the one with positive scores has 1/(1 + exp(-f(x))) with
        ``loss="log_loss"``, and (clip(f(x), -1, 1) + 1)/2 with ``loss="modified_huber"``. The other
        losses have no probabilities: take one of these two, or put
        `sklearn.calibration.CalibratedClassifierCV` around the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns are in the order of `classes_`, and rows sum to one.

        Raises
        ------
        AttributeError
            If the loss has no probabilities. So `hasattr` tells whether there is this method.

        Notes
        -----
        One-vs-rest: the probabilities of the problems, divided by their sum, as in
        `sklearn.linear_model.SGDClassifier`; if all are 0, those of all classes are equal.
        One-vs-one: of K classes, class k has 1/(sum_j 1/r_kj - (K - 2)), where r_kj is its
        probability against class j, divided by the sum over all classes (Price, Knerr, Personnaz
        and Dreyfus, Pairwise neural network classifiers with probabilistic outputs, NIPS 7, 1995).
        `predict` counts votes of pairs. Where these contradict one another, the most probable class
        of a row may be another one, as with `sklearn.svm.SVC`.
        """
        scores = self._problem_scores(X)
        return _problems.class_probabilities(
            scores,
            len(self.classes_),
            self._fitted["multi_class"],
            LOSSES[self._fitted["loss"]].probability,
        )

    @with_probabilities
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`; -inf where that is 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def margins(self, X: Any, y: ArrayLike, *, geometric: bool = False) -> np.ndarray:
        """Margins of labelled rows: functional ones y f(x), or geometric ones y f(x)/‖w‖.

        A row is on its side where its margin is positive; the functional margin of a support vector
        is at most 1, to the accuracy of the fit (with ``loss="log_loss"``, every row is a support
        vector, whatever its margin). The geometric margin is the distance from where f is 0, in the
        space of features (of the kernel).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `decision_function`.
        y : array-like of shape (n_samples,)
            Labels, of the classes of the fit.
        geometric : bool, default=False
            True: divide by ‖w‖, the `weight_norm_` of each problem.

        Returns
        -------
        ndarray of shape (n_samples, n_problems)
            NaN where a row is in neither class of a pair ("ovo").

        Examples
        --------
        The rows (1, 1) and (3, 3) are nearest to the line between the classes. It passes (2, 2), at
        a distance of √2:

        >>> from pegasos import PegasosClassifier
        >>> X, y = [[0, 0], [1, 1], [3, 3], [4, 4]], ["left", "left", "right", "right"]
        >>> clf = PegasosClassifier(lam=1e-3, tol=1e-6, penalize_intercept=False, random_state=0)
        >>> clf = clf.fit(X, y)
        >>> print(clf.margins(X, y).round(2).ravel())
        [2. 1. 1. 2.]
        >>> print(clf.margins(X, y, geometric=True).round(2).ravel())
        [2.83 1.41 1.41 2.83]
        >>> print(clf.weight_norm_.round(2))
        [0.71]
        """
        _validate.boolean("geometric", geometric)
        model = self.to_model()
        scores = self._problem_scores(X)
        _validate.labels(y, len(scores))
        _, codes = _validate.labels_among(y, None, model.classes)
        labels = _problems.label_columns(codes, len(model.classes), model.multi_class).T
        margins = np.where(labels == 0, np.nan, labels * scores)
        with np.errstate(divide="ignore", invalid="ignore"):  # w may be 0
            return margins / self.weight_norm_ if geometric else margins

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- Inside ----------------------------------------------------------------------------------

    def _problem_scores(self, X: Any) -> np.ndarray:
        """Scores of the rows of `X` by each problem; every kind of machine has its own."""
        raise NotImplementedError

    def _class_scores(self, X: Any) -> np.ndarray:
        scores, multi_class = self._problem_scores(X), self._fitted["multi_class"]
        return _problems.class_scores(scores, len(self.classes_), multi_class)

    @property
    def _loss_name(self) -> Any:
        """Of the fitted model, or of the one to be fitted."""
        return self._fitted["loss"] if hasattr(self, "_fitted") else self.loss

    def _validate_rows(self, X: Any, **options: Any) -> Any:
        if options.get("reset", True) and _validate.is_ready(X, options.get("y")):
            # scikit-learn, whose checks take a fifth of a small fit, would change nothing.
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            _validate.finite_rows(X)
            return X, options["y"]
        _validate.before_conversion(X)
        checks = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}
        # What is not finite is told below, with its place; so is what a conversion makes infinite.
        try:
            with np.errstate(over="ignore"):
                valid = validate_data(self, X, ensure_all_finite=False, **checks, **options)
        except ValueError:
            # Of two things that are wrong, scikit-learn wants NaN told first.
            if isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2:
                _validate.finite_rows(X)
            raise
        X, *others = valid if isinstance(valid, tuple) else (valid,)
        _validate.finite_rows(X)
        X = _validate.aligned(X)
        return (X, *others) if others else X

    def _read(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        continuing: bool,
        labels: Callable[..., Any] = _validate.labels,
    ) -> Data:
        """The `Data` of a call, which goes on (`continuing`) or begins anew."""
        twin = self if continuing else copy.copy(self)  # which notes what columns there are
        X, y = twin._validate_rows(X, y=y, reset=not continuing)
        # Integers are classes, and only many of them are worth a warning: of a small fit, asking
        # takes a tenth of the time.
        are_integers = y.dtype.kind in "biu"
        if not are_integers:
            check_classification_targets(y)
        classes, codes = labels(y, X.shape[0])
        if are_integers and 2 * len(classes) > len(y):
            check_classification_targets(y)
        weights = self._row_weights(sample_weight, codes, classes)
        names = ("n_features_in_", "feature_names_in_")
        return Data(
            X=X,
            y=y,
            seen={name: getattr(twin, name) for name in names if hasattr(twin, name)},
            classes=classes,
            codes=codes,
            weights=weights,
            columns=_problems.label_columns(codes, len(classes), self.multi_class, weights),
        )

    def _row_weights(
        self, sample_weight: Any, codes: np.ndarray, classes: np.ndarray
    ) -> np.ndarray | None:
        """Sample weight times class weight, or None if both are one."""
        weights = _validate.sample_weight(sample_weight, len(codes))
        if self.class_weight is None:
            return weights
        if self.class_weight == "balanced":
            mass = np.bincount(codes, weights, minlength=len(classes))
            factor = mass.sum() / (len(classes) * np.where(mass > 0, mass, 1))
        else:
            for label, weight in self.class_weight.items():
                _validate.real(f"class_weight[{label!r}]", weight, at_least=0)
            factor = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
        with np.errstate(over="ignore"):  # the check follows
            weights = factor[codes] * (1.0 if weights is None else weights)
        return _validate.sample_weight(weights, len(codes), "sample_weight times class_weight")

    def _plan(self) -> tuple[int, int | None]:
        """`max_iter` and `n_steps`, which must suit the solver."""
        if self.solver not in ("auto", "pegasos") and self.n_steps is not None:
            raise ValueError(f"n_steps needs solver='pegasos', got solver={self.solver!r}")
        return int(self.max_iter), None if self.n_steps is None else int(self.n_steps)

    def _lam_of(self, data: Data) -> float:
        """λ of a fit that begins now and has all rows."""
        if self.lam is not None:
            return float(self.lam)
        mass = _problems.mass(data.codes, len(data.classes), self.multi_class, data.weights)
        return lam_of(1.0 if self.C is None else self.C, mass)

    def _lam_to_go_on(self) -> float:
        """λ of training that goes on: that of the model, even if rows have other weights now."""
        return self._fitted["lam"] if self.lam is None else self.lam

    def _settings(self, lam: float) -> Settings:
        return Settings(
            lam,
            loss=self.loss,
            batch_size=self.batch_size,
            sampling=self.sampling,
            project=bool(self.project),
            average=self.average,
            fit_intercept=bool(self.fit_intercept),
            penalize_intercept=bool(self.penalize_intercept),
            intercept_scaling=self.intercept_scaling,
        )

    def _seed(self) -> int:
        # None is NumPy's global generator here, as everywhere in scikit-learn.
        state = check_random_state(None) if self.random_state is None else self.random_state
        return _validate.seed(state)

    def _check_unchanged(self, settings: Settings, classes: np.ndarray) -> None:
        """Raise unless training can go on from the state that is kept."""
        choices = self._choices(settings)
        if self.lam is not None:
            del choices["C"]
        for name, value in choices.items():
            if value != self._fitted[name]:
                raise ValueError(
                    f"{name} must stay {self._fitted[name]!r} while training goes on "
                    f"(warm_start or partial_fit), got {value!r}; clone the estimator to begin anew"
                )
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"y must have the classes of the fit that warm_start continues, "
                f"{self.classes_.tolist()}, got {classes.tolist()}"
            )

    def _begin(
        self, lam: float, n_problems: int, n_rows: int, n_features: int, dtype: Any
    ) -> Schedule:
        """The schedule of a fit that begins now."""
        kind, settings = self._kind, self._settings(lam)
        return Schedule(kind, settings, n_problems, n_features, dtype, self._seed())

    def _restored(
        self, settings: Settings, classes: np.ndarray, n_features: int, dtype: Any
    ) -> Schedule:
        """The schedule that the last call left."""
        n_problems, kind = _problems.count(len(classes), self.multi_class), self._kind
        try:
            if "problems" not in self._state:
                coef: Any = self.__dict__.get("coef_")
                shape = n_problems, n_features
                _state.check_remains(self._state, coef, self.intercept_, shape)
                return Schedule.of_remains(kind, settings, self._state, coef, self.intercept_)
            _state.check(self._state, Schedule(kind, settings, n_problems, n_features, dtype, 0))
        except ValueError as error:
            raise ValueError(
                f"this {type(self).__name__} was damaged, and cannot go on: {error}"
            ) from None
        return Schedule.restore(kind, settings, self._state)

    def _n_threads(self) -> int:
        return joblib.effective_n_jobs(self.n_jobs)

    def _write_checkpoint(self, schedule: Schedule, data: Data) -> None:
        if self._checkpoints is not None:
            twin = copy.copy(self)  # this one is left alone until the fit is over
            twin._take(self._attributes(schedule, data) | self._state_of(schedule, data))
            self._checkpoints.write(twin, (schedule.n_iter, schedule.progress()[0]))

    def _train(
        self,
        schedule: Schedule,
        rows: Any,
        data: Data,
        watch: Watch | None = None,
        *,
        keep: bool = True,
        **plan: Any,
    ) -> tuple[_certificate.Certificate, bool]:
        """Carry out a plan with threads and progress, and tell callbacks of it.

        Parameters
        ----------
        keep : bool
            Whether to keep what was learned if this is interrupted.
        plan
            What `Schedule.train` takes.

        Returns
        -------
        certificate : pegasos.problems._certificate.Certificate or None
        is_over : bool
            Whether the plan was carried out, and not stopped by a callback.
        """

        def on_progress() -> None:
            progress.update(schedule.progress)
            if self._checkpoints is not None:
                self._checkpoints.watch()

        if watch is not None and watch.is_needed:
            plan["on_epoch"] = lambda: watch.epoch(
                lambda: self._attributes(schedule, data), lambda: schedule.standing(rows)
            )
        plan |= {"n_threads": self._n_threads(), "on_progress": on_progress}
        with Progress(type(self).__name__, self.verbose) as progress:
            while True:
                try:
                    return schedule.train(rows, **plan), True
                except StopRequestedError:
                    return schedule.certify(rows), False
                except KeyboardInterrupt:
                    if keep:
                        with _threads.uninterrupted():
                            self._take(
                                self._attributes(schedule, data) | self._state_of(schedule, data)
                            )
                        self._write_checkpoint(schedule, data)
                    raise
                except CheckpointDue:
                    self._write_checkpoint(schedule, data)

    def _conclude(
        self,
        schedule: Schedule,
        rows: Any,
        data: Data,
        watch: Watch,
        outcome: tuple[_certificate.Certificate, bool],
    ) -> Self:
        """End a fit after `_train`: warn if it stopped early, and keep the model; see `whole`."""
        (certificate, is_over), (max_iter, n_steps) = outcome, self._plan()
        about: dict[str, Any] = {
            "classes": data.classes, "multi_class": self.multi_class, "stacklevel": 7,
        }  # fmt: skip
        with _threads.uninterrupted():
            if n_steps is None:
                plan = {"solver": self.solver, "tol": self.tol, "max_iter": max_iter}
                _warnings.of_gap(schedule, certificate, rows, is_over=is_over, **plan, **about)
            balancing = 'class_weight="balanced"' if self.class_weight is None else None
            _warnings.of_one_class(
                schedule, certificate, rows, codes=data.codes, weights=data.weights,
                balancing=balancing, **about,
            )  # fmt: skip
            to_complete = schedule.state() if is_over and self.warm_start else None
            if is_over:
                schedule.end_plan()
            self._finish(schedule, data, certificate, watch, to_complete)
        return self

    def _watch(self, max_iter: int, n_steps: Any, X: Any, y: Any) -> Watch:
        """Callbacks' view of a fit that begins now."""
        known = n_steps is None and self.tol is None and self.solver == "pegasos"
        return Watch(self, max_iter if known else None, X=X, y=y)

    def _attributes(self, schedule: Schedule, data: Data) -> dict[str, Any]:
        """What a fitted estimator has at any time of a fit, as a dictionary."""
        return {
            **self._model_of(schedule, data),
            **data.seen,
            "classes_": data.classes,
            "lam_": schedule.settings.lam,
            "n_steps_": schedule.n_steps,
            "n_iter_": schedule.n_iter,
            "solver_epochs_": schedule.solver_epochs,
            "_fitted": self._choices(schedule.settings),
        }

    def _take(self, attributes: dict[str, Any]) -> None:
        """Become what `attributes` say: all was made before, so that what fails changes nothing."""
        self.__dict__.update(attributes)
        for name in set(_OPTIONAL) - attributes.keys():
            self.__dict__.pop(name, None)

    def _finish(
        self,
        schedule: Schedule,
        data: Data,
        certificate: _certificate.Certificate | None,
        watch: Watch,
        to_complete: dict[str, np.ndarray] | None = None,
    ) -> None:
        """Set fitted attributes at the end of a fit, and tell callbacks of it; see `whole`."""
        with _threads.uninterrupted():
            attributes = self._attributes(schedule, data)
            if schedule.solver is schedule.pegasos:
                attributes["alpha_counts_"] = schedule.pegasos.alpha_counts()
            if certificate is not None:
                attributes["objective_"] = certificate.objective
                attributes["dual_objective_"] = certificate.dual_objective
                attributes["duality_gap_"] = certificate.gap
            attributes |= self._state_of(schedule, data, is_over=True)
            if to_complete is not None:
                attributes |= {"_state": to_complete, "_ended": attributes["_state"]}
            before = self.__dict__.copy()
            self._take(attributes)
        try:
            with _threads.answered():
                watch.end()
        except Exception:
            with _threads.uninterrupted():
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    def _certificate(self) -> _certificate.Certificate:
        """What is known of the fitted model."""
        if hasattr(self, "objective_"):
            return _certificate.Certificate(self.objective_, self.dual_objective_)
        return _certificate.Certificate.unknown(len(self.n_steps_))

    def _choices(self, settings: Settings) -> dict[str, Any]:
        """What must not change while training goes on, and decides how scores are read."""
        choices = vars(settings) | {"loss": settings.loss.name}  # as files have it
        C = 1.0 if self.lam is None and self.C is None else self.C
        return {**choices, "multi_class": self.multi_class, "C": C}
