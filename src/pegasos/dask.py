"""Linear machines on the rows of a Dask cluster, with a certificate over all rows.

Needs ``pip install "pegasos[dask]"``. See :doc:`/clusters` of the documentation.
"""

import asyncio
import concurrent.futures
import contextlib
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import dask.array as da
import distributed
import numpy as np
from dask.delayed import delayed
from distributed.scheduler import KilledWorker
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pegasos.estimators import _parameters
from pegasos.estimators._base import lam_of
from pegasos.estimators._linear import PegasosClassifier
from pegasos.estimators._regression import PegasosRegressor
from pegasos.io._progress import Progress
from pegasos.problems import _columns as _problems
from pegasos.problems import _losses, _validate
from pegasos.problems._losses import with_probabilities
from pegasos.problems._settings import Settings
from pegasos.solvers import _rounds, _schedule

__all__ = ["DaskPegasosClassifier", "DaskPegasosRegressor"]

# The gap to which blocks are solved on their own, where a fit begins; and epochs at most.
_ROUGH, _ROUGH_EPOCHS = 1e-2, 30
# Seconds after which the client asks whether there are workers.
_POLL = 1.0


# ---- What workers do ----------------------------------------------------------------------------


class _QuietClassifier(PegasosClassifier):
    def _warn(self, *_: Any, **__: Any) -> None:
        """A block's own solution need not be good."""


class _QuietRegressor(PegasosRegressor):
    def _warn(self, *_: Any, **__: Any) -> None:
        """A block's own solution need not be good."""


def _same(value: Any) -> Any:
    return value


class _Part(_rounds.Arrays, SimpleNamespace):
    """What is known of a partition."""


def _checked(number: int, X: Any, y: Any, weights: Any, local: Any) -> _Part:
    """The rows of a partition, which are all right, and what `_summary` tells of them."""
    n_rows = len(y)
    for name, part in (("X", X), ("sample_weight", weights)):
        if part is not None and part.shape[0] != n_rows:
            raise ValueError(
                f"X, y and sample_weight must have equally many rows in each partition, but in "
                f"partition {number} {name} has {part.shape[0]} and y has {n_rows}"
            )
    if n_rows == 0:
        return _Part(n_rows=0)
    try:
        return _read(X, y, weights, local)
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from None


def _read(X: Any, y: Any, weights: Any, local: Any) -> _Part:
    noting = type(local)()
    if is_classifier(local):
        X, y = noting._validate_rows(X, y=y)
        check_classification_targets(y)
        classes, codes = _validate.labels(y, len(y))
        part = _Part(classes=classes, y=codes)
    else:
        _validate.before_targets(y)
        X, y = noting._validate_rows(X, y=y, multi_output=True)
        part = _Part(y=_validate.targets(y, X.shape[0]))
    if weights is not None:  # which may all be 0 in a partition
        weights = np.append(np.asarray(weights), 1)
        weights = _validate.sample_weight(weights, len(weights))[:-1]  # type: ignore[index]
    part.X, part.weights, part.n_rows = X, weights, len(y)
    return part


def _summary(part: _Part) -> _Part:
    """What the client is told of a partition."""
    about = _Part(n_rows=part.n_rows)
    if part.n_rows == 0:
        return about
    about.n_features, about.dtype = part.X.shape[1], part.X.dtype.name
    weights = np.ones(part.n_rows) if part.weights is None else part.weights
    about.norms = float(_validate.rows(part.X, checked=True)[0].squared_norms().sum())
    if hasattr(part, "classes"):
        about.classes, count = part.classes, len(part.classes)
        about.masses = np.bincount(part.y, weights, minlength=count)
        about.counts = np.bincount(part.y, weights > 0, minlength=count).astype(np.int64)
    else:
        about.shape = part.y.shape[1:]
        about.counts = np.array([np.count_nonzero(weights)])
        about.moments = _moments(part.y.reshape(part.n_rows, -1), weights)
    return about


def _moments(values: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The sum of weights, means, and sums of squares about them."""
    total = float(weights.sum())
    mean = weights @ values / total if total > 0 else 0 * values[0]
    return total, mean, weights @ (values - mean) ** 2


def _merged(one: Any, other: Any) -> Any:
    """The moments of the rows of both."""
    total = one[0] + other[0]
    if total == 0:
        return one
    apart = other[1] - one[1]
    mean = one[1] + apart * (other[0] / total)
    return total, mean, one[2] + other[2] + apart**2 * (one[0] * other[0] / total)


def _block(part: _Part, plan: SimpleNamespace) -> _rounds.Block:
    """The rows of a partition as a block of the problems of a fit."""
    if plan.classes is None:
        values = np.ascontiguousarray(part.y.reshape(part.n_rows, -1).T)
        labels = np.ones(values.shape, np.int8)
        if part.weights is not None:
            labels[:, part.weights == 0] = 0
        return _rounds.Block(part.X, labels, part.weights, values, plan.settings, part.y)
    codes, weights = np.searchsorted(plan.classes, part.classes)[part.y], part.weights
    if plan.factors is not None:
        weights = plan.factors[codes] * (1.0 if weights is None else weights)
    labels = _problems.label_columns(codes, len(plan.classes), plan.multi_class, weights)
    return _rounds.Block(part.X, labels, weights, None, plan.settings, codes)


def _apply(X: Any, local: Any, method: str, n_columns: int, dtype: Any) -> np.ndarray:
    """What a local estimator says of some rows, of which there may be none."""
    if X.shape[0] == 0:
        return np.empty((0, n_columns) if n_columns else 0, dtype)
    return getattr(local, method)(X)


def _agreement(X: Any, y: Any, weights: Any, local: Any) -> Any:
    """What `score` needs of a partition."""
    y, weights = np.asarray(y), np.ones(len(y)) if weights is None else np.asarray(weights)
    if not len(y):
        return None
    predicted = local.predict(X)
    if is_classifier(local):
        return float(weights @ (predicted == y.ravel())), float(weights.sum())
    y, predicted = (array.reshape(len(y), -1).astype(np.float64) for array in (y, predicted))
    return _moments(y, weights), weights @ (y - predicted) ** 2


# ---- What the client does -----------------------------------------------------------------------


class _Run:
    """Calls of a cluster that belong together: when they end, the cluster forgets all of them."""

    def __init__(self, client: distributed.Client, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self._futures: list[distributed.Future] = []

    def __enter__(self) -> Self:
        if self.client.status != "running":
            raise RuntimeError(
                f"the Dask client is {self.client.status}: give another one as client="
            )
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # of a client that is closed
            self.forget(self._futures)

    def begin(self, tasks: list[Any]) -> list[distributed.Future]:
        """Have tasks done, as one graph."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            futures = self.client.compute(tasks, optimize_graph=False)
        self._futures += futures
        return futures

    def forget(self, futures: list[distributed.Future]) -> None:
        """Let go of what is needed no more."""
        gone = set(map(id, futures))
        self._futures = [future for future in self._futures if id(future) not in gone]
        for future in futures:
            future.release()

    def result(self, future: distributed.Future) -> Any:
        """Wait for a result, as long as there are workers."""
        alone_since = None
        while True:
            try:
                return future.result(timeout=_POLL)
            except (TimeoutError, distributed.TimeoutError):
                if future.status == "error":  # of the task
                    raise
            except KilledWorker as error:
                raise RuntimeError(
                    "a task of the fit was on several workers when they died, most likely for want "
                    f"of memory: make partitions smaller, or workers larger ({error})"
                ) from None
            except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
                raise self._lost(error) from None
            if self.client.status in ("closed", "closing"):
                raise self._lost("the client was closed")
            alone_since = None if self._has_workers() else alone_since or time.monotonic()
            if alone_since and time.monotonic() - alone_since > self.timeout:
                raise RuntimeError(
                    f"the Dask cluster has had no worker for worker_timeout={self.timeout:g} s: "
                    "start workers, and fit again"
                )

    def _has_workers(self) -> bool:
        try:
            return bool(self.client.nthreads())
        except Exception as error:  # noqa: BLE001 of whatever has lost the scheduler
            raise self._lost(error) from None

    @staticmethod
    def _lost(why: Any) -> RuntimeError:
        return RuntimeError(
            f"the Dask scheduler was lost, or the work was cancelled, before it was done ({why})"
        )


class _DaskBlocks:
    """Blocks on a cluster; see `pegasos.solvers._rounds.Blocks`."""

    def __init__(self, run: _Run, blocks: list[distributed.Future]) -> None:
        self.run, self.blocks = run, blocks
        self.centres: list[Any] = [None] * len(blocks)

    def sum_up(self, function: Callable[..., Any], message: Any) -> Any:
        """See `Blocks`."""
        sent = _task(_same)(message)
        parts = [_task(function)(block, k, sent) for k, block in enumerate(self.blocks)]
        return self._result(parts)

    def look(self, message: _rounds.Message) -> list[np.ndarray]:
        """See `Blocks`."""
        sent, new = _task(_same)(message), self.centres
        pairs = list(zip(self.blocks, self.centres, strict=True))
        if message.moves:
            new = [_task(_rounds.move)(block, centres, sent) for block, centres in pairs]
        pairs = list(zip(self.blocks, new, strict=True))
        parts = [_task(_rounds.see)(block, centres, sent) for block, centres in pairs]
        return self._result(parts, new if message.moves else [])

    def _result(self, parts: list[Any], centres: list[Any] = []) -> Any:  # noqa: B006
        total = _rounds.tree(parts, _task(_rounds.add))
        future, *new = self.run.begin([total, *centres])
        result = [np.require(array, None, ["A"]) for array in self.run.result(future)]
        self.run.forget([future])
        if new:  # the cluster keeps what they are made of: it may have to make them again
            self.run.forget([old for old in self.centres if old is not None])
            self.centres = new
        return result


def _task(function: Callable[..., Any]) -> Any:
    """A function that makes tasks; every call is another one, whatever its arguments."""
    return delayed(function, pure=False, traverse=True)


def _as_array(name: str, data: Any) -> Any:
    """A Dask array of a Dask array or data frame."""
    if hasattr(data, "to_dask_array"):
        data = data.to_dask_array()
    if not isinstance(data, da.Array):
        raise TypeError(
            f"{name} must be a Dask array or data frame, got {type(data).__name__}; for data in "
            "memory, take PegasosClassifier or PegasosRegressor"
        )
    return data


def _matrix(X: Any) -> Any:
    """X as an array whose partitions have all columns."""
    array = _as_array("X", X)
    if array.ndim != 2:
        raise ValueError(f"X must be two-dimensional, got shape {array.shape}")
    return array.rechunk({1: -1}) if array.numblocks[1] > 1 else array


def _names(X: Any) -> np.ndarray | None:
    """The names of the columns of a data frame, if they are strings."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


def _partitions(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, Any, Any]]:
    """Partitions of X, y and the weights (None where there are none) that go together."""
    X = _matrix(X)
    columns = [X.to_delayed().ravel()]
    for name, data in (("y", y), ("sample_weight", sample_weight)):
        if data is None:
            columns.append([None] * X.numblocks[0])
            continue
        array = _as_array(name, data)
        if array.ndim not in (1, 2):
            raise ValueError(f"{name} must have one or two dimensions, got shape {array.shape}")
        if array.ndim == 2 and array.numblocks[1] > 1:
            array = array.rechunk({1: -1})
        known = not np.isnan([*X.chunks[0], *array.chunks[0]]).any()
        if known and array.shape[0] != X.shape[0]:
            raise ValueError(
                f"{name} must have a row for each row of X ({X.shape[0]}), got {array.shape[0]}"
            )
        if known and array.chunks[0] != X.chunks[0]:
            array = array.rechunk({0: X.chunks[0]})
        if array.numblocks[0] != X.numblocks[0]:
            raise ValueError(
                f"{name} must have the partitions of X, {X.numblocks[0]}, got "
                f"{array.numblocks[0]}, and sizes of partitions are not known, so that they cannot "
                "be cut anew: call compute_chunk_sizes() on both"
            )
        columns.append(array.to_delayed().ravel())
    return list(zip(*columns, strict=True))


class _DaskMachine(BaseEstimator):
    """Base of the estimators."""

    _checks: dict[str, Any]
    _local: Any
    _quiet: Any

    C: float | None
    lam: float | None
    loss: str
    tol: float
    max_iter: int
    fit_intercept: bool
    penalize_intercept: bool
    intercept_scaling: float
    random_state: Any
    verbose: int
    client: distributed.Client | None
    worker_timeout: float
    coef_: np.ndarray
    intercept_: np.ndarray
    n_features_in_: int
    _fitted_local: dict[str, Any]

    @property
    def client_(self) -> distributed.Client:
        """The client that is used: `client`, or the default one of the process."""
        if self.client is not None:
            return self.client
        try:
            return distributed.default_client()
        except ValueError:
            raise ValueError(
                "there is no Dask client: make one, distributed.Client(...), or give it as client="
            ) from None

    def to_local(self) -> Any:
        """The fitted model as an estimator that knows nothing of Dask.

        Returns
        -------
        PegasosClassifier or PegasosRegressor
            It has the parameters that both estimators have, and all fitted attributes.
            `partial_fit` goes on from it.
        """
        check_is_fitted(self, "coef_")
        local = self._local(**self._shared())
        local.__dict__.update(self._fitted_local)
        return local

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "client": None}

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params(deep=False))

    # ---- Inside ----------------------------------------------------------------------------------

    def _shared(self) -> dict[str, Any]:
        """Parameters that a local estimator has as well; rounds are no epochs."""
        others = {"client", "worker_timeout", "max_iter"}
        params = self.get_params(deep=False)
        return {name: value for name, value in params.items() if name not in others}

    def _rough(self, seed: int, settings: Settings) -> Any:
        """The estimator that solves a block on its own."""
        params = self._shared() | {
            "C": None, "lam": settings.lam, "tol": _ROUGH, "max_iter": _ROUGH_EPOCHS,
            "random_state": seed % 2**63, "verbose": 0,
        }  # fmt: skip
        if "class_weight" in params:
            params["class_weight"] = None  # weights of rows have it
        return self._quiet(**params)

    def _plan(self, parts: list[_Part]) -> SimpleNamespace:
        """What all blocks have to know, and `masses`, `scales`, `counts` of the problems."""
        raise NotImplementedError

    def _settings(self, lam: float, loss: Any) -> Settings:
        return Settings(
            lam,
            loss=loss,
            fit_intercept=bool(self.fit_intercept),
            penalize_intercept=bool(self.penalize_intercept),
            intercept_scaling=self.intercept_scaling,
        )

    def _lam_of(self, mass: float) -> float:
        if self.lam is not None:
            return float(self.lam)
        return lam_of(1.0 if self.C is None else self.C, mass)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        _parameters.check(self)
        seed = self._local._seed(self)
        names, tasks = _names(X), _partitions(X, y, sample_weight)
        with _Run(self.client_, self.worker_timeout) as run:
            local = _task(_same)(self._quiet())
            checked = run.begin([
                _task(_checked)(k, *parts, local) for k, parts in enumerate(tasks)
            ])  # fmt: skip
            (summaries,) = run.begin([_task(list)([_task(_summary)(part) for part in checked])])
            abouts = run.result(summaries)
            inside = [k for k, about in enumerate(abouts) if about.n_rows > 0]
            if not inside:
                raise ValueError("X must have at least one row, but all partitions are empty")
            abouts = [_alike(k, abouts[k], abouts[inside[0]], inside[0]) for k in inside]
            plan = self._plan(abouts)
            sent = _task(_same)(plan)
            futures = run.begin([_task(_block)(checked[k], sent) for k in inside])
            run.forget([*checked, summaries])
            blocks, settings = _DaskBlocks(run, futures), plan.settings
            size, point = blocks.sum_up(_rounds.begin, self._rough(seed, settings))
            rounds = _rounds.Rounds(
                blocks, settings, plan.masses, point / max(size[0], 1e-300), plan.scales
            )
            with Progress(type(self).__name__, bool(self.verbose)) as progress:

                def position() -> tuple[float, float, str]:
                    gap = rounds.relative_gaps.max()
                    return rounds.n_rounds, 0, f"round {rounds.n_rounds}, gap {gap:.1e}"

                rounds.run(self.tol, self.max_iter, lambda: progress.update(position))
        self._finish(rounds, plan, abouts, names, seed)
        return self

    def _finish(
        self, rounds: _rounds.Rounds, plan: Any, abouts: list[Any], names: Any, seed: int
    ) -> None:
        gaps, settings = rounds.relative_gaps, plan.settings
        if not (gaps <= self.tol).all():
            why = "max_iter rounds" if rounds.n_rounds >= self.max_iter else "rounding"
            warnings.warn(
                f"the fit ended by {why} at a relative duality gap of {gaps.max():.2g}, above "
                f"tol={self.tol:g}: raise max_iter or tol, or scale X",
                ConvergenceWarning,
                stacklevel=4,
            )
        points, n_rows = rounds.points, sum(about.n_rows for about in abouts)
        first, n_rounds = abouts[0], rounds.n_rounds + 1
        schedule = _schedule.Schedule(
            _schedule.LINEAR, settings, len(points), first.n_features, np.dtype(first.dtype), seed
        )
        ran = {"newton": n_rounds}
        common = {
            "coef_": points[:, :-1].copy(),
            "intercept_": points[:, -1] * _rounds.feature_of(settings),
            "lam_": settings.lam,
            "objective_": rounds.objective,
            "dual_objective_": rounds.dual_objective,
            "duality_gap_": np.maximum(rounds.objective - rounds.dual_objective, 0),
            "n_iter_": n_rounds,
            "n_features_in_": first.n_features,
        } | ({} if names is None else {"feature_names_in_": names})
        common |= self._about(plan, common)
        local = self._local(**self._shared())
        fitted = common | {
            "n_steps_": np.zeros(len(points), np.int64),
            "solver_epochs_": ran,
            "_fitted": local._choices(settings),
            # As `Schedule.remains`: what `partial_fit` needs to go on.
            "_state": {
                "numbers": np.array([seed, 0, 0, n_rounds], np.uint64),
                "weights": schedule.pegasos.weights[:0],
                "solver_epochs": _schedule._table(ran),
                "n_inside": plan.counts,
                "least_steps": schedule._least_steps(sum(about.norms for about in abouts) / n_rows),
            },
        }  # fmt: skip
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(common | {"_fitted_local": fitted})

    def _about(self, plan: Any, common: dict[str, Any]) -> dict[str, Any]:
        """Attributes of a fitted estimator beside those that both have."""
        raise NotImplementedError

    def _lazily(self, X: Any, method: str, n_columns: int, dtype: Any) -> da.Array:
        """What the local estimator's method says, as a Dask array; `n_columns` 0: of one axis."""
        local, names, array = self.to_local(), _names(X), _matrix(X)
        known: Any = getattr(self, "feature_names_in_", names)
        if names is not None and not np.array_equal(names, known):
            raise ValueError(
                f"X must have the columns of the fit, {known.tolist()}, got {names.tolist()}"
            )
        if array.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        local.__dict__.pop("feature_names_in_", None)  # arrays have none
        shape = {"chunks": (array.chunks[0], (n_columns,))} if n_columns else {"drop_axis": 1}
        apply: Any = _apply
        return array.map_blocks(
            apply, local, method, n_columns, dtype, dtype=dtype,
            meta=np.empty((0,) * (1 + bool(n_columns)), dtype), **shape,
        )  # fmt: skip

    def _agreements(self, X: Any, y: Any, sample_weight: Any) -> list[Any]:
        """What `_agreement` says of all partitions that have rows."""
        local, tasks = self.to_local(), _partitions(X, y, sample_weight)
        local.__dict__.pop("feature_names_in_", None)
        with _Run(self.client_, self.worker_timeout) as run:
            sent = _task(_same)(local)
            (future,) = run.begin([_task(list)([_task(_agreement)(*part, sent) for part in tasks])])
            parts = [part for part in run.result(future) if part is not None]
        if not parts:
            raise ValueError("X must have at least one row, but all partitions are empty")
        return parts


def _alike(k: int, about: Any, first: Any, number: int) -> Any:
    """`about`, if partition k has the columns and the type of the first one that has rows."""
    for name, what in (
        ("n_features", "features"),
        ("dtype", "as the type of X"),
        ("shape", "as the shape of a target"),
    ):
        one, other = getattr(first, name, None), getattr(about, name, None)
        if one != other:
            raise ValueError(
                f"all partitions must be alike, but partition {number} has {one} {what}, and "
                f"partition {k} has {other}"
            )
    return about


_TAKEN = (
    "C", "lam", "loss", "max_iter", "fit_intercept", "penalize_intercept", "intercept_scaling",
    "random_state", "verbose",
)  # fmt: skip


def _checks_of(checks: dict[str, Any], *others: str) -> dict[str, Any]:
    """Checks of the parameters that there are here."""
    return {name: checks[name] for name in (*_TAKEN, *others)} | {
        "tol": lambda name, value: _validate.real(name, value, above=0),
        "worker_timeout": lambda name, value: _validate.real(name, value, above=0),
    }


class DaskPegasosClassifier(ClassifierMixin, _DaskMachine):
    """Linear support vector machine on a Dask cluster, with a certificate over all rows.

    It minimises what `pegasos.PegasosClassifier` minimises, by Newton's method with one pass over
    all partitions a round. The client sees sums over the rows only.

    Parameters
    ----------
    C, lam : float, default=None
        As in `PegasosClassifier`: λ, or C in its place; ``λ = 1/(C m)``, where m is the sum of the
        weights of all rows. If both are None, C is 1.
    loss : {"hinge", "squared_hinge", "modified_huber", "log_loss"}, default="hinge"
        As in `PegasosClassifier`. The hinge is smoothed, and takes two to five times the rounds of
        the other losses.
    tol : float, default=1e-3
        Relative duality gap (P - D)/P at which a fit stops. A `ConvergenceWarning` is issued if
        `max_iter` or rounding ends the fit before.
    max_iter : int, default=300
        Most rounds, which are passes over all partitions.
    fit_intercept, penalize_intercept, intercept_scaling
        As in `PegasosClassifier`. A free intercept is that of the last Newton step.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one. All problems share the rounds.
    class_weight : dict or "balanced", default=None
        Weight of each class; "balanced" gives all classes the same weight.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the partitions' own solutions, with which a fit begins. The same int and the same
        partitions give the same bits, whatever the number of workers, on CPUs of one kind.
    verbose : int, default=0
        1: show progress on standard error of the client.
    client : distributed.Client, default=None
        The cluster. None: the default client of the process when `fit` or `score` is called.
    worker_timeout : float, default=30.0
        Seconds without any worker after which a call gives up.

    Attributes
    ----------
    client_ : distributed.Client
        The client that is used.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    lam_ : float
        The λ of the fit.
    coef_ : ndarray of shape (n_problems, n_features)
        Weights, as in `PegasosClassifier`.
    intercept_ : ndarray of shape (n_problems,)
    objective_ : ndarray of shape (n_problems,)
        P(w) of this model on all rows.
    dual_objective_ : ndarray of shape (n_problems,)
        A lower bound on P: no model has an objective below it.
    duality_gap_ : ndarray of shape (n_problems,)
        ``objective_ - dual_objective_``.
    n_iter_ : int
        Rounds, that of the partitions' own solutions included.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Set when X is a data frame whose columns have names that are strings.

    See Also
    --------
    pegasos.PegasosClassifier : For rows in memory.

    Notes
    -----
    Ctrl-C ends a fit, and the cluster forgets its tasks. A pickle of the estimator has no client.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_digits
    >>> from pegasos.dask import DaskPegasosClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> dX, dy = da.from_array(X / 16, chunks=(600, 64)), da.from_array(y, chunks=600)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     clf = DaskPegasosClassifier(lam=1e-3, random_state=0).fit(dX, dy)
    ...     print(f"accuracy {clf.score(dX, dy):.2f}, gap of class 8: {clf.duality_gap_[8]:.4f}")
    accuracy 0.98, gap of class 8: 0.0001
    """

    _checks = _checks_of(_parameters.LINEAR, "multi_class", "class_weight")
    _local, _quiet = PegasosClassifier, _QuietClassifier
    multi_class: str
    class_weight: Any
    classes_: np.ndarray

    def __init__(
        self,
        *,
        C: float | None = None,
        lam: float | None = None,
        loss: str = "hinge",
        tol: float = 1e-3,
        max_iter: int = 300,
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: str = "ovr",
        class_weight: dict[Any, float] | str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        client: distributed.Client | None = None,
        worker_timeout: float = 30.0,
    ) -> None:
        self.C = C
        self.lam = lam
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.client = client
        self.worker_timeout = worker_timeout

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the rows of `X`.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
            Partitions are of NumPy or of CSR, ``csr_array`` or ``csr_matrix``, all of one type.
            Their sizes may be unknown. If they are split by columns, these are put together.
        y : dask array or data frame of shape (n_samples,)
            Labels, in the partitions of X. Others are cut anew, if their sizes are known.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Weight of each row, likewise.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If parameters, X, y or the weights are not as described; the message names the
            partition.
        RuntimeError
            If the client is closed, the scheduler is lost, there is no worker for `worker_timeout`
            seconds, or workers die over a task again and again.
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: Any) -> da.Array:
        """Predicted labels of the rows of `X`, as a lazy Dask array.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples,)
        """
        check_is_fitted(self, "coef_")
        return self._lazily(X, "predict", 0, self.classes_.dtype)

    def decision_function(self, X: Any) -> da.Array:
        """Scores of the rows of `X`, as a lazy Dask array.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_classes)
            As `pegasos.PegasosClassifier.decision_function` has them.
        """
        check_is_fitted(self, "coef_")
        count = len(self.classes_)
        return self._lazily(X, "decision_function", count if count > 2 else 0, np.float64)

    @with_probabilities
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes; only with some losses, as a lazy Dask array.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples, n_classes)
            As `pegasos.PegasosClassifier.predict_proba` has them.
        """
        check_is_fitted(self, "coef_")
        return self._lazily(X, "predict_proba", len(self.classes_), np.float64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, the share of rows with the right label, computed on the cluster.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
        y, sample_weight
            As for `fit`.

        Returns
        -------
        float
        """
        parts = self._agreements(X, y, sample_weight)
        return sum(right for right, _ in parts) / sum(total for _, total in parts)

    # ---- Inside ----------------------------------------------------------------------------------

    @property
    def _loss_name(self) -> str:
        return self._fitted_local["_fitted"]["loss"] if hasattr(self, "coef_") else self.loss

    def _plan(self, parts: list[_Part]) -> SimpleNamespace:
        kinds = {"n" if part.classes.dtype.kind in "fiub" else "s" for part in parts}
        if len(kinds) > 1:
            raise TypeError(
                "y must hold labels of one kind, but partitions have numbers and strings"
            )
        classes = np.unique(np.concatenate([part.classes for part in parts]))
        masses, counts = np.zeros(len(classes)), np.zeros(len(classes), np.int64)
        for part in parts:
            at = np.searchsorted(classes, part.classes)
            masses[at] += part.masses
            counts[at] += part.counts
        _validate.at_least_two(classes, np.arange(len(classes)), masses)
        factors = None
        if self.class_weight == "balanced":
            factors = masses.sum() / (len(classes) * np.where(masses > 0, masses, 1))
        elif self.class_weight is not None:
            for label, weight in self.class_weight.items():
                _validate.real(f"class_weight[{label!r}]", weight, at_least=0)
            factors = compute_class_weight(self.class_weight, classes=classes, y=classes)
        if factors is not None:
            masses, counts = masses * factors, counts * (factors > 0)
            _validate.at_least_two(classes, np.arange(len(classes)), masses)
        pairs = len(classes) > 2 and self.multi_class == "ovo"
        groups = _problems.pairs(len(classes)) if pairs else []
        n_problems = _problems.count(len(classes), self.multi_class)
        total = np.array([masses[[i, j]].sum() for i, j in groups] or [masses.sum()] * n_problems)
        inside = np.array([counts[[i, j]].sum() for i, j in groups] or [counts.sum()] * n_problems)
        mass = _problems.mass(np.arange(len(classes)), len(classes), self.multi_class, masses)
        return SimpleNamespace(
            classes=classes,
            factors=factors,
            multi_class=self.multi_class,
            settings=self._settings(self._lam_of(mass), self.loss),
            masses=np.where(total > 0, total, 1),
            counts=inside,
            scales=np.ones(n_problems),
        )

    def _about(self, plan: Any, common: dict[str, Any]) -> dict[str, Any]:
        return {"classes_": plan.classes, "_scheme": self.multi_class, "_is_sparse": False}


class DaskPegasosRegressor(RegressorMixin, _DaskMachine):
    """Linear regression on a Dask cluster, with a certificate over all rows.

    It minimises what `pegasos.PegasosRegressor` minimises; see `DaskPegasosClassifier`.

    Parameters
    ----------
    C, lam : float, default=None
        As in `DaskPegasosClassifier`.
    loss : str, default="epsilon_insensitive"
        "epsilon_insensitive", "squared_epsilon_insensitive", "huber" or "squared_error", as in
        `pegasos.PegasosRegressor`. The first one is smoothed, and takes two to five times the
        rounds of the others.
    epsilon : float, default=0.1
        As in `pegasos.PegasosRegressor`.
    tol, max_iter, fit_intercept, penalize_intercept, intercept_scaling
        As in `DaskPegasosClassifier`.
    random_state, verbose, client, worker_timeout
        As in `DaskPegasosClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        Weights. One-dimensional if y is.
    intercept_ : ndarray of shape (n_outputs,)
    n_outputs_ : int
        Columns of y.
    objective_, dual_objective_, duality_gap_ : ndarray of shape (n_outputs,)
        P(w) of this model on all rows, a lower bound on P of all models, and the difference.
    client_, lam_, n_iter_, n_features_in_, feature_names_in_
        As in `DaskPegasosClassifier`.

    See Also
    --------
    pegasos.PegasosRegressor : For rows in memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_diabetes
    >>> from pegasos.dask import DaskPegasosRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> dX, dy = da.from_array(X, chunks=(150, 10)), da.from_array(y, chunks=150)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     reg = DaskPegasosRegressor(C=100, penalize_intercept=False, random_state=0).fit(dX, dy)
    ...     print(f"R2 {reg.score(dX, dy):.2f}, objective {reg.objective_[0]:.1f}")
    R2 0.48, objective 49.5
    """

    _checks = _checks_of(_parameters.LINEAR_REGRESSION, "epsilon")
    _local, _quiet = PegasosRegressor, _QuietRegressor
    epsilon: float
    n_outputs_: int
    _is_flat: bool

    def __init__(
        self,
        *,
        C: float | None = None,
        lam: float | None = None,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 300,
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
        verbose: int = 0,
        client: distributed.Client | None = None,
        worker_timeout: float = 30.0,
    ) -> None:
        self.C = C
        self.lam = lam
        self.loss = loss
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.random_state = random_state
        self.verbose = verbose
        self.client = client
        self.worker_timeout = worker_timeout

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the rows of `X`.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
            Partitions are of NumPy or of CSR, ``csr_array`` or ``csr_matrix``, all of one type.
            Their sizes may be unknown. If they are split by columns, these are put together.
        y : dask array or data frame of shape (n_samples,) or (n_samples, n_outputs)
            Targets, in the partitions of X. Others are cut anew, if their sizes are known.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Weight of each row, likewise.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If parameters, X, y or the weights are not as described; the message names the
            partition.
        RuntimeError
            If the client is closed, the scheduler is lost, there is no worker for `worker_timeout`
            seconds, or workers die over a task again and again.
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: Any) -> da.Array:
        """Predicted targets of the rows of `X`, as a lazy Dask array.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self, "coef_")
        return self._lazily(X, "predict", 0 if self._is_flat else self.n_outputs_, np.float64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the mean over the outputs, computed on the cluster.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
        y, sample_weight
            As for `fit`.

        Returns
        -------
        float
        """
        parts = self._agreements(X, y, sample_weight)
        moments, error = parts[0]
        for other, more in parts[1:]:
            moments, error = _merged(moments, other), error + more
        spread = moments[2]
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(spread > 0, 1 - error / spread, np.where(error > 0, 0.0, 1.0))
        return float(scores.mean())

    # ---- Inside ----------------------------------------------------------------------------------

    def _plan(self, parts: list[_Part]) -> SimpleNamespace:
        moments = parts[0].moments
        for part in parts[1:]:
            moments = _merged(moments, part.moments)
        mass, means, squares = moments
        if not mass > 0:
            raise ValueError("sample_weight must not be all zero: no weight is left to learn from")
        spread = np.sqrt(squares / mass)
        scales = np.where(spread > 0, spread, np.where(means != 0, np.abs(means), 1))
        loss = _losses.of_targets(self.loss, float(self.epsilon))
        count = sum(part.counts for part in parts)
        return SimpleNamespace(
            classes=None,
            settings=self._settings(self._lam_of(mass), loss),
            masses=np.full(len(means), mass),
            counts=np.repeat(count, len(means)),
            scales=scales,
            is_flat=parts[0].shape == (),
        )

    def _about(self, plan: Any, common: dict[str, Any]) -> dict[str, Any]:
        count = len(plan.masses)
        if plan.is_flat:
            common["coef_"] = common["coef_"][0]
        return {"n_outputs_": count, "_is_flat": plan.is_flat}
