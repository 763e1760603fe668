"""The common part of estimators: scikit-learn's conventions around the schedule of a fit."""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from pegasos import _core, _threads, _user_warnings, kernels
from pegasos.estimators import _parameters
from pegasos.estimators._callbacks import CallbackSupportMixin, FitCallbacks, StopRequestedError
from pegasos.io._blocks import Blocks
from pegasos.io._checkpoint import CheckpointDue
from pegasos.io._model import this_version
from pegasos.io._progress import Progress
from pegasos.problems import _certificate, _multiclass, _rows, _validate
from pegasos.problems._settings import Settings, settings_of
from pegasos.solvers import _state, _warnings
from pegasos.solvers._linear import LinearSolver, shallow_copy
from pegasos.solvers._schedule import Schedule

# Fits that are running, by `id` of their estimators. An entry always disappears with its fit.
_FITTING: weakref.WeakValueDictionary[int, one_at_a_time] = weakref.WeakValueDictionary()

# Optional fitted attributes. A new fit deletes those that it does not set.
_OPTIONAL = (
    "feature_names_in_", "alpha_counts_", "objective_", "dual_objective_", "duality_gap_", "_state",
    "_ended", "_is_foreign", "_fingerprint", "_gamma", "_checksum",
)  # fmt: skip


@dataclass(eq=False, kw_only=True)
class Data:
    """The data of a fit. The estimator itself is not changed before there is a model.

    `problem_labels` has a row for each problem: int8 labels of all rows, 0 for rows outside the
    problem, and 1 for others in regression. `mass` is the sum m of their weights, for λ = 1/(C m).
    """

    X: Any  # checked: an array or a CSR matrix
    y: np.ndarray
    feature_attributes: dict[str, Any]  # `n_features_in_` and, if X has them, `feature_names_in_`
    sample_weight: np.ndarray | None = None
    weights: np.ndarray | None = None  # sample weight times class weight
    problem_labels: np.ndarray
    mass: float
    # For classifiers, the distinct labels, and each row's number among them. If y has several
    # columns, the numbers of the columns, and y as zeros and ones.
    classes: Any = None
    codes: Any = None
    scheme: str = ""  # how problems are made of classes: `pegasos.problems._multiclass.SCHEMES`
    is_sparse: bool = False  # whether y is sparse
    is_matrix: bool = False  # whether a sparse y is a matrix of SciPy, not an array
    values: np.ndarray | None = None  # targets (n_outputs, n_samples), divided by `units`
    units: Any = None  # of targets and of one class; see `pegasos.problems._settings.Settings`
    rows: Any = None  # in the form of the schedule; None if a few draws were all it needed
    columns: Any = None  # the columns of X in `rows` of linear machines; None: all
    kernel: Any = None

    @property
    def is_out_of_core(self) -> bool:
        """Whether the rows of X are not in memory; y and weights then have only some, or none."""
        return hasattr(self.X, "fingerprint")

    @property
    def n_features(self) -> int:
        """The number of features of a linear machine in training."""
        return self.X.shape[1] if self.columns is None else len(self.columns)

    def name_of(self, k: int) -> str:
        return _multiclass.name(k, len(self.problem_labels), self.classes, self.scheme)


def lam_of(C: float, mass: float) -> float:
    return _validate.reciprocal("C times the sum of the weights of rows", float(C) * mass)


class one_at_a_time:  # noqa: N801 - a block, named as those of contextlib
    """Refuse this method while any thread fits the estimator."""

    def __init__(self, estimator: Any, method: str) -> None:
        self._estimator, self._method = estimator, method

    def __enter__(self) -> None:
        if _FITTING.setdefault(id(self._estimator), self) is not self:
            raise RuntimeError(
                f"{self._method} was called while this {type(self._estimator).__name__} is being "
                "fitted, by its kernel function, a callback or another thread; fit a clone of it"
            )

    def __exit__(self, *raised: object) -> None:
        pass  # the block was all that referred to this


class CommonMixin:
    """The common part of estimators and searches, and the first base of both.

    For parameters of other libraries, errors name their replacements. Tags say what X and y may be.
    """

    _get_param_names: Any

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        _parameters.refuse_foreign(cls.__name__, options.keys(), cls._get_param_names)
        return super().__new__(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        kernel = getattr(self, "kernel", None)
        tags.input_tags.pairwise = kernels.kind(kernel) is kernels.Precomputed
        tags.input_tags.sparse = not tags.input_tags.pairwise
        has_columns = getattr(self, "multi_class", None) != "crammer_singer"
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = has_columns
        if tags.target_tags.required:
            tags.target_tags.multi_output = has_columns
        return tags


class ScoreMixin(CommonMixin):
    """First base of estimators whose `score` takes y."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose label is predicted correctly; for regressors, R² of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Blocks
            As for `predict`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets. None for Blocks, which have them.
        sample_weight : array-like of shape (n_samples,), default=None
            None for Blocks, which have them.

        Returns
        -------
        float
        """
        if isinstance(X, Blocks):
            X.without(y, sample_weight)
            y, sample_weight = X.targets()
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


def is_same(given: Any, kept: Any) -> bool:
    """Whether a parameter, or rows, are equal: dictionaries or arrays, dense or sparse."""
    if given is kept:
        return True
    if isinstance(given, dict) and isinstance(kept, dict):
        return given.keys() == kept.keys() and all(
            is_same(value, kept[name]) for name, value in given.items()
        )
    if _validate.is_sparse(given) or _validate.is_sparse(kept):
        are_alike = _validate.is_sparse(given) and _validate.is_sparse(kept)
        return are_alike and given.shape == kept.shape and (given != kept).nnz == 0
    return np.array_equal(given, kept)


class _CertificateAttribute:
    """Raises an error that says why an attribute of the certificate is missing."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        raise AttributeError(
            f"{owner.__name__} has no {self._name}: only a fit that ends with a certificate sets "
            "it. partial_fit, interrupted fits and kernel fits of few steps have none",
            name=self._name,
            obj=estimator,
        )


class PegasosEstimator(CallbackSupportMixin, BaseEstimator):
    """Base of all estimators that fit machines.

    A second base, `LinearMachine` or `KernelMachine`, defines the kind of machine by

        _schedule_of(data, *, continuing)      the schedule of a fit that begins or goes on
        _problem_scores(X)                     scores of the rows of X by each problem
        _model_of(coef, intercept, data)       attributes of the model
        _state_of(schedule, data, is_final)    attributes that it needs to go on

    and a third base, `Classifier`, `Regressor` or `OneClass`, defines the meaning of y by

        _read(X, y, sample_weight, *, continuing)    the `Data` of a call
        _read_blocks(blocks, *, continuing)          the `Data` of blocks, for linear machines, and
                                                     the other arguments of `BlockSchedule`
        _warn(schedule, data, certificate)           warns at the end, except about the gap
    """

    #: The attribute with the coefficients.
    _COEFFICIENTS: str
    #: The kind of machines it trains.
    _solver_class: type[LinearSolver] = LinearSolver

    loss: str
    n_features_in_: int
    feature_names_in_: np.ndarray
    lam_: float
    intercept_: np.ndarray
    n_iter_: int
    solver_epochs_: dict[str, int]
    n_steps_: np.ndarray
    objective_: Any = _CertificateAttribute()
    dual_objective_: Any = _CertificateAttribute()
    duality_gap_: Any = _CertificateAttribute()
    _fitted: dict[str, Any]
    _state: dict[str, np.ndarray]
    _ended: dict[str, np.ndarray]

    #: The estimator of `pegasos.dask` for the same task, if there is one.
    _on_dask: str | None = None
    #: Whether `_state` comes from a version of pegasos with another layout of the memory of fits.
    _is_foreign = False
    #: A checksum of the certified coefficients and intercepts; None: not known.
    _checksum: int | None = None
    #: What models say of their origin; for pickles without it, nothing is known.
    _origin: Any = types.MappingProxyType({"version": None})
    #: For fits of the command line: their checkpoints, and what models say of their file.
    _checkpoints: Any = None
    _of_file: Any = types.MappingProxyType({})

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on the rows of `X`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Blocks
            Not copied if it is float32 or float64 and C-contiguous, or CSR with such values; dense
            rows that are mostly zeros become CSR for linear machines, which also copy the indices
            of CSR rows if most columns are empty. For a precomputed kernel, the kernel matrix
            (n_samples, n_samples). Linear machines also take `Blocks`; rows larger than memory need
            another solver than "pegasos".
        y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_outputs)
            Labels of a classifier; if a row may have several, zeros and ones in a column for each
            label. Targets of a regressor, between -1e150 and 1e150. One-class machines ignore it.
            None for Blocks, which have it.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row; None for Blocks. A row of weight zero is in no problem: drawing it
            changes nothing.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y or the weights are not as described, or fewer than two classes have weight.

        Warns
        -----
        ConvergenceWarning
            If the fit ends above the gap `tol`.
        ConstantPredictionWarning
            If a classifier predicts one class for all rows of X. If a constant has a smaller mean
            loss than a regressor, or hardly a larger one. If a one-class machine has w = 0, or its
            kernel about one value for all rows.
        UserWarning
            If a column of labels is constant. If X is a Dask array or data frame, which is read
            into memory; see `pegasos.dask`.
        """
        kept, to_complete = self.__dict__, None
        try:
            kept.pop("_ended", None)
            with one_at_a_time(self, "fit"):
                _parameters.check(self)
                schedule, data = self._prepare(X, y, sample_weight)
                so_far = functools.partial(self._so_far, schedule, data)
                y_for_callbacks = None if data.is_out_of_core else data.y
                with self._fit_callbacks(data.X, y_for_callbacks) as callbacks:
                    before = kept.copy()  # including what scikit-learn needs to end callbacks
                    try:
                        with _core.KeepOnInterrupt(kept, _OPTIONAL, so_far) as commit:
                            plan = _parameters.plan(self)
                            trained = self._train(schedule, data, callbacks, **plan)
                            commit(self._final_attributes(schedule, data, *trained))
                    except KeyboardInterrupt:
                        _core.defer_interrupt(
                            functools.partial(self._write_checkpoint, schedule, data)
                        )
                        raise
                    try:
                        callbacks.end()
                    except Exception:
                        _core.update_atomically(kept, before, list(kept))
                        raise
            # If Ctrl-C comes after training but before `fit` returns, a warm start must not train
            # twice. So far, `_state` has the plan as still open, with no work left. `_ended` has
            # the same model with the plan closed, and now replaces `_state`.
            ended = kept.pop("_ended", None)
            if ended is not None:
                # The interpreter runs signal handlers after calls. There are none below, except
                # those of debuggers, which stop at every line.
                to_complete, self._state = self._state, ended
            return self
        except KeyboardInterrupt:
            if to_complete is not None:
                self._state = to_complete
            raise

    def __getstate__(self) -> Any:
        return super().__getstate__() | {"_layout": _state.layout(), "_version": this_version()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        own = dict(kept)
        is_foreign = own.pop("_layout", None) != _state.layout()
        version, this = own.pop("_version", this_version()), this_version()
        if version != this:
            warning = InconsistentVersionWarning(
                estimator_name=f"pegasos.{type(self).__name__}",
                current_sklearn_version=this,
                original_sklearn_version=version,
            )
            _user_warnings.warn(warning)
        super().__setstate__(own | ({"_is_foreign": True} if is_foreign else {}))

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Data]:
        """The schedule and the data of a call of `fit`."""
        continuing = self.warm_start and hasattr(self, "_state")
        data = self._read(X, y, sample_weight, continuing=continuing)
        self._check_data(data)
        schedule = self._schedule_of(data, continuing=continuing)
        schedule.set_rows(data.problem_labels, data.weights, data.values)
        return schedule, data

    def _check_data(self, data: Data) -> None:
        """Raise unless there is something to learn from `data`, which must be all data."""

    def _check_same(self, data: Data) -> None:
        """Raise unless `data` has the problems of the model, from which training goes on."""

    def _target_attributes(self, data: Data) -> dict[str, Any]:
        """Attributes that describe y, besides the attributes of all estimators."""
        return {}

    def _end_only_attributes(self, schedule: Schedule) -> dict[str, Any]:
        """Attributes that only a finished fit sets."""
        return {}

    def _settings_for(self, lam: float, data: Data) -> Settings:
        """The settings of all problems, given λ in the user's units."""
        return settings_of(self, lam)

    def _of_dask(self, X: Any) -> Any:
        """All rows of a Dask collection, with a warning; scikit-learn's estimators do the same."""
        here, kind = type(self).__name__, type(X).__name__
        twin = f"pegasos.dask.{self._on_dask} trains linear machines where the rows are. "
        _user_warnings.warn(
            f"X is a Dask {kind}: {here} reads all of it into the memory of this process. "
            f"{twin if self._on_dask else ''}{here} takes X.compute() without this warning"
        )
        return X.compute()

    def _validate_rows(self, X: Any, **options: Any) -> Any:
        if isinstance(X, Blocks):
            raise TypeError(
                f"{type(self).__name__} takes no Blocks here: fit, predict, decision_function and "
                "score of linear estimators do, and fit and predict of searches over them. For a "
                "kernel, make Blocks of the features of sklearn.kernel_approximation.Nystroem"
            )
        y, multi_output = options.get("y"), options.get("multi_output", False)
        if options.get("reset", True) and _validate.is_ready(X, y, multi_output=multi_output):
            # Skip scikit-learn's checks: they take a fifth of a small fit and would change nothing.
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            _validate.finite("X", X)
            return X, y
        if hasattr(X, "__dask_graph__") and X.__dask_graph__() is not None:  # xarray may have none
            X = self._of_dask(X)  # NumPy would make objects of sparse chunks
        try:
            valid = _validate.converted(functools.partial(validate_data, self), X, **options)
        except TypeError:  # from pandas's NA in y
            _validate.no_missing(options.get("y"))
            raise
        except ValueError:
            # If two things are wrong, scikit-learn expects the error about NaN first.
            if isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2:
                _validate.finite("X", X)
            _validate.no_text(X)
            _validate.no_missing(options.get("y"))
            _validate.no_lists(options.get("y"))
            _validate.no_complex(options.get("y"))
            raise
        columns = _validate.column_names(X)
        X, *others = valid if isinstance(valid, tuple) else (valid,)
        _validate.finite("X", X, columns=columns)
        if isinstance(options.get("y"), list):  # NaN in a list of strings would become a string
            _validate.no_missing(options["y"])
        X = _validate.aligned(X)
        return (X, *others) if others else X

    def _rows_to_fit(self, X: Any, *, continuing: bool, **options: Any) -> tuple[Any, Any]:
        """X (and y, if given) in the form of training, and the attributes about its columns."""
        twin = self if continuing else shallow_copy(self)
        return twin._validate_rows(X, reset=not continuing, **options), twin._feature_attributes()

    def _feature_attributes(self) -> dict[str, Any]:
        """Attributes about the columns of the last rows that were checked."""
        names = ("n_features_in_", "feature_names_in_")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _lam_of(self, data: Data) -> float:
        """λ of a fit that begins now and has all rows."""
        if self.lam is not None:
            return float(self.lam)
        return lam_of(1.0 if self.C is None else self.C, data.mass)

    def _settings_of(self, data: Data, *, continuing: bool) -> Settings:
        """The settings of a fit that begins, or of one that goes on and must not have changed them.

        A fit that goes on has the λ of the model, even if rows have other weights now.
        """
        if not continuing:
            return self._settings_for(self._lam_of(data), data)
        settings = self._settings_for(self._fitted["lam"] if self.lam is None else self.lam, data)
        self._check_unchanged(settings, data)
        return settings

    def _seed(self) -> int:
        # Here None means NumPy's global generator, as everywhere in scikit-learn.
        state = check_random_state(None) if self.random_state is None else self.random_state
        return _validate.seed(state)

    def _check_unchanged(self, settings: Settings, data: Data) -> None:
        """Raise unless training can go on from the stored state."""
        if self._is_foreign and "squared_norm" not in self._state:  # see `Schedule.compact_state`
            raise ValueError(
                f"the state of this {type(self).__name__} was saved by another version of pegasos, "
                "from which no fit can go on; clone the estimator to begin anew"
            )
        fixed = self._fixed_parameters(settings)
        if self.lam is not None:
            del fixed["C"]
        for name, value in fixed.items():
            if not is_same(value, self._fitted[name]):
                raise ValueError(
                    f"{name} must stay {self._fitted[name]!r} while training goes on "
                    f"(warm_start or partial_fit), got {value!r}; clone the estimator to begin anew"
                )
        self._check_same(data)

    def _begin(self, settings: Settings, data: Data, dtype: Any, seed: int) -> Schedule:
        """The schedule of a fit that begins now, over rows of this type."""
        return Schedule(
            self._solver_class, settings, len(data.problem_labels), data.n_features, dtype, seed
        )

    def _restored(self, settings: Settings, data: Data, dtype: Any) -> Schedule:
        """The schedule of the last call."""
        # Joint problems whose fit was not to go on begin anew: see `JointSchedule.compact_state`.
        begins = self._state.keys().isdisjoint(("problems", "squared_norm", "memory"))
        try:
            data.columns = _state.columns_of(self._state, data.X.shape[1])
            new = self._begin(settings, data, dtype, self._seed() if begins else 0)
            if "squared_norm" in self._state:  # see `Schedule.compact_state`
                coef: Any = self.__dict__.get("coef_")
                model = np.atleast_2d(coef), self.intercept_
                _state.check_compact_state(self._state, *model, new.shape)
                return new.restore_compact_state(self._state, *settings.in_training_units(*model))
            _state.check(self._state, new)
        except ValueError as error:
            raise ValueError(
                f"this {type(self).__name__} was damaged, and cannot go on: {error}"
            ) from None
        return new.restore(self._state)

    def _n_threads(self) -> int:
        return _threads.count(self.n_jobs)

    def _so_far(self, schedule: Schedule, data: Data) -> dict[str, Any]:
        """Attributes for the model so far, and for going on from it."""
        if data.rows is None:  # a fit makes all of a few draws or none
            return {}
        return self._attributes(schedule, data) | self._state_of(schedule, data)

    def _write_checkpoint(self, schedule: Schedule, data: Data) -> None:
        if self._checkpoints is not None and data.rows is not None:
            twin = copy.copy(self)  # this estimator must not change until the fit is over
            twin._set_attributes(self._so_far(schedule, data))
            state = {f"state.{name}": array for name, array in twin._state.items()}
            stands = schedule.n_iter, schedule.progress()[0]
            self._checkpoints.write(twin, twin.to_model()._arrays() | state, stands)

    def _open(self, schedule: Schedule, data: Data, n_threads: int) -> bool:
        """Prepare rows for the schedule; False if a few draws were all that it needed."""
        return True

    def _train(
        self, schedule: Schedule, data: Data, callbacks: FitCallbacks | None = None, **plan: Any
    ) -> tuple[_certificate.Certificate | None, bool]:
        """Carry out a plan, arguments of `Schedule.train`, with progress and callbacks.

        Returns a certificate, or None, and whether no callback stopped the plan.
        """

        def on_progress() -> None:
            progress.update(schedule.progress)
            if self._checkpoints is not None:
                self._checkpoints.watch()

        if callbacks is not None and callbacks.is_needed:
            plan["on_epoch"] = lambda: callbacks.epoch(
                lambda: self._attributes(schedule, data),
                lambda: self._epoch_metadata(schedule, data),
            )
        plan |= {"n_threads": self._n_threads(), "on_progress": on_progress}
        # If nobody listens to a fit in memory, the core only needs to check for Ctrl-C.
        is_told = self.verbose or self._checkpoints is not None
        if isinstance(schedule, Schedule) and not is_told:
            plan["on_progress"] = None
        if not self._open(schedule, data, plan["n_threads"]):
            return None, True
        with Progress(type(self).__name__, self.verbose) as progress:
            while True:
                try:
                    certificate = schedule.train(data.rows, **plan)
                    self._write_checkpoint(schedule, data)
                    return certificate, True
                except StopRequestedError:
                    return schedule.certify(data.rows), False
                except CheckpointDue:
                    self._write_checkpoint(schedule, data)

    def _final_attributes(
        self, schedule: Any, data: Data, certificate: Any, is_complete: bool
    ) -> dict[str, Any]:
        """Attributes of a fit by `_train`; warns if it stopped early. See `fit`.

        There is no warning without a certificate, which some fits of few rows do not compute.
        """
        if certificate is not None:
            # Of blocks, the first one is enough for advice about the rows.
            rows = next(data.rows.parts()).rows() if isinstance(data.rows, Blocks) else data.rows
            _warnings.warn_of_gap(
                schedule, certificate, rows, **_parameters.plan(self), is_complete=is_complete,
                name=data.name_of,
            )  # fmt: skip
            self._warn(schedule, data, certificate)
        # Do not change the schedule: Ctrl-C must leave a fit that was not concluded.
        after = schedule.ended() if is_complete else schedule
        attributes = self._attributes(after, data) | self._end_only_attributes(after)
        if certificate is not None:
            in_user_units = schedule.settings.objectives_in_user_units
            primal = in_user_units(certificate.objective)
            dual = in_user_units(certificate.dual_objective)
            attributes |= {
                "objective_": primal,
                "dual_objective_": dual,
                "duality_gap_": np.maximum(primal - dual, 0),  # below 0 by rounding only
                "_checksum": self._checksum_of(attributes, data.columns),
            }
        attributes |= self._state_of(after, data, is_final=True)
        if is_complete and self.warm_start:
            ended = attributes["_state"]
            attributes |= {"_state": ended | schedule.state(), "_ended": ended}
        return attributes

    def _fit_callbacks(self, X: Any, y: Any) -> FitCallbacks:
        """The callbacks of a fit that begins now."""
        is_known = self.n_steps is None and self.tol is None and self.solver == "pegasos"
        return FitCallbacks(self, int(self.max_iter) if is_known else None, X=X, y=y)

    def _attributes(self, schedule: Schedule, data: Data) -> dict[str, Any]:
        """Attributes of a fitted estimator, at any time of a fit, as a dictionary."""
        return {
            **self._model_of(*schedule.settings.in_user_units(*schedule.model()), data),
            **data.feature_attributes,
            **self._target_attributes(data),
            "lam_": schedule.settings.lam,
            "n_steps_": schedule.n_steps,
            "n_iter_": schedule.n_iter,
            "solver_epochs_": schedule.solver_epochs,
            "_fitted": self._fixed_parameters(schedule.settings),
            "_origin": {"version": this_version()},
        }

    def _epoch_metadata(self, schedule: Schedule, data: Data) -> dict[str, np.ndarray]:
        """What callbacks get after an epoch: objectives and gaps."""
        certificate = schedule.latest_certificate(data.rows)
        in_user_units = schedule.settings.objectives_in_user_units
        return {
            "objective": in_user_units(certificate.objective),
            "dual_objective": in_user_units(certificate.dual_objective),
            "relative_gap": certificate.relative_gap,
        }

    def _set_attributes(self, attributes: dict[str, Any]) -> None:
        """Set `attributes`, which are all computed before, so that a failure changes nothing."""
        _core.update_atomically(vars(self), attributes, _OPTIONAL)

    @classmethod
    def _checksum_of(cls, attributes: Mapping[str, Any], columns: Any = None) -> int:
        """A checksum of the model, or of its coefficients != 0 if only `columns` may have some."""
        coef, intercept = np.atleast_2d(attributes[cls._COEFFICIENTS]), attributes["intercept_"]
        if columns is None:
            return _rows.fingerprint(coef, intercept)
        few = coef.take(columns, axis=1)
        inside = few.any(axis=0)
        return _rows.fingerprint(columns[inside], few[:, inside], intercept)

    def _if_unchanged(self, model: Any) -> Any:
        """The model, without its certificate if users have set coefficients or intercepts."""
        own, known = vars(self), self._checksum
        every = np.arange(np.shape(own[self._COEFFICIENTS])[-1])
        if known is None or any(known == self._checksum_of(own, of) for of in (None, every)):
            return model
        unknown = np.full_like(model.objective, np.nan)
        return dataclasses.replace(model, objective=unknown, dual_objective=unknown)

    def _model_fields(self) -> dict[str, Any]:
        """The contents of a model file besides coefficients and the meaning of y."""
        unknown = np.full(len(self.n_steps_), np.nan)
        return {
            "intercept": self.intercept_,
            "lam": float(self._fitted["lam"]),
            "loss": self._fitted["loss"],
            "objective": getattr(self, "objective_", unknown),
            "dual_objective": getattr(self, "dual_objective_", unknown),
            "n_steps": self.n_steps_,
            "feature_names": getattr(self, "feature_names_in_", None),
            **self._origin,
            **self._of_file,
        }

    @classmethod
    def _from_model(cls, model: Any) -> Self:
        """The fitted estimator with this model, made by `to_model` of this class or a like one."""
        parameters, attributes = cls._unpack_model(model)
        fitted = cls(**parameters)
        n = model._n_problems if model._has_targets else 1
        data: Any = types.SimpleNamespace(units=(1.0,) * n)  # no fit goes on with this data
        settings = fitted._settings_for(model.lam, data)
        attributes |= {
            "_fitted": fitted._fixed_parameters(settings),
            "_checksum": cls._checksum_of(attributes),
        }
        fitted._set_attributes(attributes)
        return fitted

    @classmethod
    def _unpack_model(cls, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters and attributes of an estimator with this model; inverts `_model_fields`."""
        attributes = {
            "intercept_": model.intercept, "lam_": model.lam, "n_steps_": model.n_steps,
            "n_features_in_": model.n_features,
            "_origin": {k: getattr(model, k) for k in ("label_name", "zero_based", "version")},
        }  # fmt: skip
        if model.feature_names is not None:
            attributes["feature_names_in_"] = model.feature_names.astype(object)
        if not np.isnan(model.objective).all():
            for name in ("objective", "dual_objective", "duality_gap"):
                attributes[f"{name}_"] = getattr(model, name)
        return {}, attributes

    def _fixed_parameters(self, settings: Settings) -> dict[str, Any]:
        """Parameters that must not change while training goes on, or that scores depend on."""
        C = 1.0 if self.lam is None and self.C is None else self.C
        return {**vars(settings), "loss": self.loss, "C": C}
