"""Linear machines on the rows of a Dask cluster, with a certificate over all rows.

Needs the extra ``dask``. See :doc:`/clusters` of the documentation. The algorithm is
in `pegasos.solvers._rounds`. Here are its tasks, and estimators that use local estimators.
"""

import asyncio
import concurrent.futures
import contextlib
import copy
import functools
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from pegasos import _core
from pegasos._extras import needed_by
from pegasos.estimators import _parameters
from pegasos.estimators._base import CommonMixin, one_at_a_time
from pegasos.estimators._linear import PegasosClassifier
from pegasos.estimators._parameters import (
    ClassifierParameters,
    InterceptParameters,
    RegressorParameters,
    parameters,
)
from pegasos.estimators._regression import PegasosRegressor
from pegasos.io import _checkpoint
from pegasos.problems import _partitions as _parts
from pegasos.problems import _validate
from pegasos.problems._losses import with_probabilities
from pegasos.problems._settings import Settings
from pegasos.solvers._rounds import Block, BlockRunner, Rounds, identity

with needed_by("pegasos.dask", "dask", "dask", "distributed"):
    import dask.array as da
    import distributed
    from dask.base import annotate, get_annotations
    from dask.delayed import delayed
    from distributed.scheduler import KilledWorker

__all__ = ["DaskPegasosClassifier", "DaskPegasosRegressor"]

# Seconds between the client's checks that there are workers.
_POLL = 1.0


# ---- Run by workers ------------------------------------------------------------------------------


def _block(part: _parts.Arrays, sent: tuple[Callable[..., Any], Settings]) -> Block:
    """The rows of a partition as a block of the problems of a fit."""
    targets, settings = sent
    labels, weights, values = targets(part.y.reshape(len(part.y), -1), part.weights, None)
    return Block(X=part.X, labels=labels, weights=weights, values=values, settings=settings)


def _apply(X: Any, local: Any, method: str, like: np.ndarray) -> np.ndarray:
    """The result of a local estimator's method for some rows; X may have no rows."""
    return getattr(local, method)(X) if X.shape[0] else like[:0]


def _agreement(X: Any, y: Any, weights: Any, local: Any) -> Any:
    """Moments of the correctness of rows' labels, or of their targets and errors, as columns."""
    if not len(y):
        return None
    y, predicted = np.asarray(y).reshape(len(y), -1), local.predict(X).reshape(len(y), -1)
    values = (y == predicted).all(axis=1) if is_classifier(local) else np.hstack([y, y - predicted])
    weights = np.ones(len(y)) if weights is None else np.asarray(weights)
    return _parts.moments(values.astype(np.float64), weights)


# ---- Run by the client ---------------------------------------------------------------------------


class _Run:
    """Calls of a cluster that belong together; at their end, the cluster forgets all of them."""

    def __init__(self, client: distributed.Client, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self._futures: list[distributed.Future] = []
        self._aims: dict[Any, str] = {}  # by keys of moved results: the worker they should go to
        self._homes: dict[Any, str] = {}  # by keys of `shared` results: the worker that has them

    def __enter__(self) -> Self:
        if self.client.status != "running":
            raise RuntimeError(
                f"the Dask client is {self.client.status}: give another one as client="
            )
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # the client may be closed
            self.forget(self._futures)

    def begin(self, tasks: list[Any], **where: Any) -> list[distributed.Future]:
        """Run tasks as one graph; `where` may name the workers that should do them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            futures = self.client.compute(
                tasks, optimize_graph=False, allow_other_workers=bool(where), **where
            )
        self._futures += futures
        return futures

    def forget(self, futures: list[distributed.Future]) -> None:
        """Release futures that are no longer needed."""
        gone = set(map(id, futures))
        self._futures = [future for future in self._futures if id(future) not in gone]
        for future in futures:
            self._aims.pop(future.key, None)
            future.release()

    def result(self, future: distributed.Future) -> Any:
        """Wait for a result, as long as there are workers.

        It is fetched in the client's thread: `Future.result` with a timeout would begin anew at
        each timeout, and cancel the fetch. A fetch without a listener ends when the future is
        released. Cancelling the future could lose results of the client's other fits.
        """
        loop: Any = self.client.loop
        fetched = self.client.gather(future, asynchronous=True)
        return self._wait(asyncio.run_coroutine_threadsafe(fetched, loop.asyncio_loop))

    def _wait(self, fetched: concurrent.futures.Future[Any]) -> Any:
        seen, pause = time.monotonic(), min(_POLL, self.timeout / 10)
        while True:
            try:
                return fetched.result(timeout=pause)
            except TimeoutError:
                if fetched.done():  # the task raised it
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
            looked = time.monotonic()
            if self._asked("nthreads"):
                seen = looked
            elif looked + pause > seen + self.timeout:  # the next check would come too late
                raise RuntimeError(
                    "the Dask cluster has had no worker for almost "
                    f"worker_timeout={self.timeout:g} s: start workers, and fit again"
                )

    def shared(self, futures: list[distributed.Future]) -> list[distributed.Future]:
        """Move results so that workers have equally many for each thread; returns the new futures.

        Dask runs a task where its rows are. A worker without rows would have nothing to do, and
        would wait for workers with most of them.
        """
        futures, threads = list(futures), self._asked("nthreads")
        of_keys = self._asked("who_has", futures)
        # A worker that is paused, or may not run tasks of this fit, did not get what it should.
        refused = {
            self._aims[future.key]
            for future in futures
            if future.key in self._aims and of_keys[future.key]
            and self._aims[future.key] not in of_keys[future.key]
        }  # fmt: skip
        held: dict[str, list[int]] = {w: [] for w in threads if w not in refused}

        def load(worker: str, more: int = 0) -> float:
            return (len(held[worker]) + more) / threads[worker]

        for k, future in enumerate(futures):
            there = [worker for worker in of_keys[future.key] if worker in held]
            if there:  # else it is being computed again
                held[min(there, key=load)].append(k)
        while held:
            most, least = max(held, key=load), min(held, key=partial(load, more=1))
            if load(least, more=1) >= load(most):
                break
            k = held[most].pop()
            held[least].append(k)
            old = futures[k]
            (futures[k],) = self.begin([_task(identity)(old)], workers=[least])
            self._aims[futures[k].key] = least
            self.forget([old])
        self._homes = {futures[k].key: worker for worker, own in held.items() for k in own}
        return futures

    def begin_at_home(
        self, function: Callable[..., Any], shared: list[distributed.Future], sent: Any
    ) -> list[distributed.Future]:
        """Run ``function(result, sent)`` for each `shared` future on the worker that has it.

        The new futures replace the old ones as `shared`.
        """
        tasks = []
        for future in shared:
            with self.at_home(future):
                tasks.append(_task(function)(future, sent))
        futures, homes = self.begin(tasks), self._homes
        pairs = zip(futures, shared, strict=True)
        self._homes = {new.key: homes[old.key] for new, old in pairs if old.key in homes}
        return futures

    def at_home(self, future: distributed.Future) -> Any:
        """A context whose tasks run on the worker of a `shared` future, if it still exists.

        Without it, Dask could run a task on a worker with another argument, and move the rows
        there. It may still do so if that worker is idle. Annotations by the caller take precedence.
        """
        if future.key not in self._homes or "workers" in get_annotations():
            return contextlib.nullcontext()
        return annotate(workers=[self._homes[future.key]], allow_other_workers=True)

    def _asked(self, what: str, *about: Any) -> Any:
        """Call a method of the client, or raise the error of a lost scheduler if it fails."""
        try:
            return getattr(self.client, what)(*about)
        except Exception as error:  # noqa: BLE001 any may mean a lost scheduler
            raise self._lost(error) from None

    @staticmethod
    def _lost(why: Any) -> RuntimeError:
        return RuntimeError(
            f"the Dask scheduler was lost, or the work was cancelled, before it was done ({why})"
        )


class _DaskBlockRunner(BlockRunner):
    """Blocks on a cluster, where a round is one graph of plain tasks."""

    def __init__(self, run: _Run, blocks: list[distributed.Future]) -> None:
        super().__init__(blocks)
        self.run = run
        self._looked = time.monotonic()

    def task(self, function: Callable[..., Any]) -> Any:
        """See `_task`; tasks of a block run on the worker that has it."""

        def make(first: Any, *others: Any) -> Any:
            is_block = isinstance(first, distributed.Future)
            with self.run.at_home(first) if is_block else contextlib.nullcontext():
                return _task(function)(first, *others)

        return make

    def sum_up(self, *arguments: Any, **options: Any) -> dict[str, np.ndarray]:
        """See `BlockRunner`; workers that have joined first get blocks."""
        if time.monotonic() >= self._looked + _POLL:
            self.blocks = self.run.shared(self.blocks)
            self._looked = time.monotonic()
        return super().sum_up(*arguments, **options)

    def result(self, total: Any, centres: list[Any]) -> dict[str, np.ndarray]:
        is_new = centres is not self.centres
        future, *new = self.run.begin([total, *(centres if is_new else [])])
        sums = self.run.result(future)
        self.run.forget([future])
        if is_new:  # the cluster keeps their inputs, from which it may have to make them again
            self.run.forget([old for old in self.centres if old is not None])
            self.centres = new
        return {name: np.require(array, None, ["A"]) for name, array in sums.items()}


def _task(function: Callable[..., Any]) -> Any:
    """A function that makes tasks; each call makes a new one, even for equal arguments."""
    return delayed(function, pure=False, traverse=True)


# Dask's name for categories that it has not seen yet.
_UNKNOWN = "__UNKNOWN_CATEGORIES__"


def _is_text(dtype: Any) -> bool:
    """Whether a column has text, or categories that are text."""
    categories = getattr(dtype, "categories", None)
    if categories is not None and _UNKNOWN not in categories:
        return bool(categories.dtype.kind == "O")
    return getattr(dtype, "name", "") in ("str", "string")  # in pandas 3 and in earlier versions


def _as_array(name: str, data: Any) -> Any:
    """A Dask array of a Dask array or data frame."""
    if hasattr(data, "to_dask_array"):
        if _is_text(getattr(data, "dtype", None)):
            data = data.astype(object)  # else Dask warns of pandas' strings
        data = data.to_dask_array()
    if not isinstance(data, da.Array):
        raise TypeError(
            f"{name} must be a Dask array or data frame, got {type(data).__name__}. For data in "
            "memory, fit PegasosClassifier or PegasosRegressor, or predict with to_local()"
        )
    return data


def _matrix(X: Any) -> Any:
    """X as an array whose partitions have all columns."""
    if hasattr(X, "columns"):
        _validate.no_dates(X)
        for name, dtype in X.dtypes.items():
            if _is_text(dtype):
                raise _validate.text_in(name)
    array = _as_array("X", X)
    if array.ndim != 2:
        raise ValueError(f"X must be two-dimensional, got shape {array.shape}")
    return array.rechunk({1: -1}) if array.numblocks[1] > 1 else array


def _partitions(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, Any, Any]]:
    """Corresponding partitions of X, y and the weights (None if there are none)."""
    X = _matrix(X)
    columns = [X.to_delayed().ravel()]
    for name, data in (("y", y), ("sample_weight", sample_weight)):
        if data is None and name == "sample_weight":
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


@parameters
class _OnCluster(InterceptParameters):
    C: float | None = None
    lam: float | None = None
    tol: float = 1e-3
    max_iter: int = 300
    random_state: Any = None
    verbose: int = 0
    client: distributed.Client | None = None
    worker_timeout: float = 30.0
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: float = 60.0


class _DaskMachine(CommonMixin, _OnCluster, BaseEstimator):
    _local: Any
    _model: Any

    loss: str
    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    n_features_in_: int

    @property
    def client_(self) -> distributed.Client:
        """The client in use: `client`, or the default client of the process."""
        if self.client is not None:
            return self.client
        try:
            return distributed.default_client()
        except ValueError:
            raise ValueError(
                "there is no Dask client: make one, distributed.Client(...), or give it as client="
            ) from None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on the rows of `X`.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
            Partitions are of NumPy or of CSR, ``csr_array`` or ``csr_matrix``, all of one type.
            Their sizes may be unknown. If they are split by columns, these are put together.
        y : dask array or data frame of shape (n_samples,)
            Labels or targets, in the partitions of X. Other partitions are cut anew, if their sizes
            are known. Targets may have several columns.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Weight of each row, in the partitions that y may have.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If parameters, X, y or the weights are not as described; the message names the
            partition. If `checkpoint` belongs to another fit.
        RuntimeError
            If the client is closed, the scheduler is lost, no worker is left and none joins for
            nearly `worker_timeout` seconds, or workers die over a task again and again.
        """
        _parameters.check(self, tol=partial(_validate.real, above=0))
        local = self._local(**_parameters.shared(self, self._local))
        tasks, path = _partitions(X, y, sample_weight), self.checkpoint
        with one_at_a_time(self, "fit"), _Run(self.client_, self.worker_timeout) as run:
            blank = _task(identity)(self._local())
            checked = run.begin([
                _task(_parts.checked)(k, *part, blank, path is not None)
                for k, part in enumerate(tasks)
            ])  # fmt: skip
            (told,) = run.begin([_task(list)([_task(getattr)(part, "about") for part in checked])])
            about: Any = _parts.Partitions(run.result(told))
            data, targets, masses, n_inside = local._read_blocks(about, continuing=False)
            if names := _validate.text_names(X):
                data.feature_attributes["feature_names_in_"] = np.array(names, object)
            settings = local._settings_for(local._lam_of(data), data)
            sent = _task(identity)((targets, settings))
            parts = run.shared([checked[k] for k in about.which])
            blocks = run.begin_at_home(_block, parts, sent)
            run.forget([*checked, *parts, told])
            rounds: Any = Rounds(
                settings, _DaskBlockRunner(run, blocks), about, masses, n_inside, local._seed()
            )
            if path is not None:
                if os.path.exists(path):
                    _checkpoint.resume(local, path, about, None)
                    rounds.restore(local._state)
                    local.warm_start = False
                local._checkpoints = _checkpoint.Checkpoints(
                    path, self.checkpoint_every, about, None
                )
            callbacks = local._fit_callbacks(X, y)
            data.rows = _core.Rows(about.row())
            try:
                trained = local._train(rounds, data, callbacks, **_parameters.plan(local))
                attributes = local._final_attributes(rounds, data, *trained)
            except BaseException:
                _core.defer_interrupt(functools.partial(local._write_checkpoint, rounds, data))
                raise
            local._set_attributes(attributes)
            callbacks.end()
        local._checkpoints = None
        fitted = {name: value for name, value in vars(local).items() if name.endswith("_")}
        kept = {k: v for k, v in vars(self).items() if not k.endswith("_")}
        self.__dict__ = kept | fitted | {"_model": local}
        return self

    def predict(self, X: Any) -> da.Array:
        """Predicted labels or targets of the rows of `X`, as a lazy Dask array.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_outputs)
            In the partitions of X.
        """
        return self._lazily(X, "predict")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or R² as the mean over the outputs, computed on the cluster.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
        y, sample_weight
            As for `fit`.

        Returns
        -------
        float
        """
        local, tasks = self._of_arrays(), _partitions(X, y, sample_weight)
        with _Run(self.client_, self.worker_timeout) as run:
            sent = _task(identity)(local)
            (future,) = run.begin([_task(list)([_task(_agreement)(*part, sent) for part in tasks])])
            parts = [part for part in run.result(future) if part is not None]
        total, mean, squares = _parts.merged(_parts.not_empty(parts))
        if is_classifier(self):
            return float(mean[0])
        spread, error = np.split(squares, 2)
        error = error + total * np.split(mean, 2)[1] ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(spread > 0, 1 - error / spread, np.where(error > 0, 0.0, 1.0))
        return float(scores.mean())

    def to_local(self) -> Any:
        """The fitted model as an estimator that knows nothing of Dask.

        Returns
        -------
        PegasosClassifier or PegasosRegressor
            It has all fitted attributes, and the parameters that both estimators have.
            `partial_fit` goes on from it.
        """
        check_is_fitted(self, "coef_")
        return copy.copy(self._model)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "client": None}

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params(deep=False))

    def _of_arrays(self) -> Any:
        """The local estimator without column names, as partitions are arrays without names."""
        local = self.to_local()
        local.__dict__.pop("feature_names_in_", None)
        return local

    def _lazily(self, X: Any, method: str) -> da.Array:
        """The results of the local estimator's method, as a Dask array."""
        local, names, array = self._of_arrays(), _validate.text_names(X), _matrix(X)
        known = list(getattr(self, "feature_names_in_", names or ()))
        if names is not None and names != known:
            raise ValueError(f"X must have the columns of the fit, {known}, got {names}")
        if array.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        like = getattr(local, method)(np.zeros((1, self.n_features_in_)))
        of_rows: Any = {"drop_axis": 1}
        if like.ndim == 2:
            of_rows = {"chunks": (array.chunks[0], (like.shape[1],))}
        apply: Any = _apply
        return array.map_blocks(
            apply, local, method, like, dtype=like.dtype, meta=like[:0], **of_rows
        )


@parameters
class DaskPegasosClassifier(ClassifierMixin, _DaskMachine, ClassifierParameters):
    """Linear support vector machine on a Dask cluster, with a certificate over all rows.

    It minimises what `pegasos.PegasosClassifier` minimises, by Newton's method with one pass over
    all partitions a round. The client sees sums over the rows only.

    Parameters
    ----------
    C, lam : float, default=None
        As in `pegasos.PegasosClassifier`.
    loss : {"hinge", "squared_hinge", "modified_huber", "log_loss"}, default="hinge"
        As in `pegasos.PegasosClassifier`. The hinge is smoothed, and takes two to five times the
        rounds of the other losses.
    tol : float, default=1e-3
        Relative duality gap (P - D)/P, at most 1, at which a fit stops. A `ConvergenceWarning` is
        issued if `max_iter` or rounding ends the fit before.
    max_iter : int, default=300
        Most rounds, which are passes over all partitions.
    fit_intercept, penalize_intercept, intercept_scaling
        As in `pegasos.PegasosClassifier`. A free intercept is that of the last Newton step.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one. All problems share the rounds.
    class_weight : dict or "balanced", default=None
        Weight of each class; "balanced" gives all classes the same weight.
    random_state : int, RandomState, Generator or None, default=None
        Seed for the first round, which solves each partition by itself. The same int and the same
        partitions give the same bits, whatever the number of workers, on CPUs of one kind.
    verbose : int, default=0
        1: show progress on standard error of the client.
    client : distributed.Client, default=None
        The cluster. None: the default client of the process when `fit` or `score` is called.
    worker_timeout : float, default=30.0
        Seconds within which a call gives up if there is no worker. It looks every second, or ten
        times within shorter times, and gives up where the next look would come too late.
    checkpoint : str or path, default=None
        File of the client to which a fit is saved: now and then, and when it ends, is stopped by
        Ctrl-C or has lost its workers. If the file is there, the fit goes on from it, to the bits
        of a fit that was never stopped. It must be of the same rows, partitions and parameters,
        except `tol` and `max_iter`. `pegasos.load` reads it as the model so far. The rows are read
        once more for a checksum.
    checkpoint_every : float, default=60.0
        Seconds between checkpoints.

    Attributes
    ----------
    client_ : distributed.Client
        The client that is used.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    lam_ : float
        The λ of the fit.
    coef_ : ndarray of shape (n_problems, n_features)
        Weights, as in `pegasos.PegasosClassifier`.
    intercept_ : ndarray of shape (n_problems,)
    objective_ : ndarray of shape (n_problems,)
        P(w) of this model on all rows.
    dual_objective_ : ndarray of shape (n_problems,)
        A lower bound on P: no model has an objective below it.
    duality_gap_ : ndarray of shape (n_problems,)
        ``objective_ - dual_objective_``.
    n_iter_ : int
        Rounds, the first one included.
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
    ...     print(f"accuracy {clf.score(dX, dy):.2f}, {clf.n_iter_} rounds")
    accuracy 0.98, 32 rounds
    """

    _local = PegasosClassifier
    score: ClassVar[Any] = _DaskMachine.score  # not the one of the mixin

    def decision_function(self, X: Any) -> da.Array:
        """Scores of the rows of `X`, as a lazy Dask array.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_classes)
            As in `pegasos.PegasosClassifier.decision_function`.
        """
        return self._lazily(X, "decision_function")

    @with_probabilities
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes; only with some losses, as a lazy Dask array.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples, n_classes)
            As in `pegasos.PegasosClassifier.predict_proba`.
        """
        return self._lazily(X, "predict_proba")


@parameters
class DaskPegasosRegressor(RegressorMixin, _DaskMachine, RegressorParameters):
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
    random_state, verbose, client, worker_timeout, checkpoint, checkpoint_every
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

    epsilon: float = 0.1

    _local = PegasosRegressor
    score: ClassVar[Any] = _DaskMachine.score  # not the one of the mixin
