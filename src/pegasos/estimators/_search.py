"""Searches over λ (and γ, ε, T) by cross-validation: problems × λ × folds as sets of problems.

The problems are those of classes or of outputs. In a fold, test rows have the label 0. So all folds
share X, one kernel matrix serves all problems with one γ, and X is checked and encoded once. A
search by epochs trains machines in bundles or sets over one order of rows. A search to a gap begins
the problems of each λ where those of the next larger λ ended.
"""

import collections
import copy
import dataclasses
import functools
import inspect
import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from pegasos import _core, _threads, kernels
from pegasos.estimators import _folds, _parameters
from pegasos.estimators._base import Data, HintsMixin, PegasosEstimator, lam_of
from pegasos.estimators._kernel import KernelPegasosClassifier
from pegasos.estimators._linear import PegasosClassifier
from pegasos.estimators._regression import KernelPegasosRegressor, PegasosRegressor
from pegasos.io._model import KernelModel, LinearModel
from pegasos.io._progress import Progress
from pegasos.problems import _columns as _problems
from pegasos.problems import _rows, _validate
from pegasos.problems._losses import with_probabilities
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers import _ascent, _pegasos
from pegasos.solvers._joint import Joint
from pegasos.solvers._schedule import KERNEL, LINEAR, Schedule

# Room for the state of a set of problems; larger sets are split.
_SET_BYTES = 2**30
# cv_effort="auto" certifies machines to this gap where all of them are likely to take so many
# seconds, by the costs that solvers state. A path of λ begins each machine where one is nearly
# solved: it takes a tenth of a cold start.
_GAP, _SECONDS, _WARM = 0.05, 1.0, 0.1
# ... else it makes epochs: two at first, or as many as are likely to take so many seconds; then
# twice as many, up to `_MOST_EPOCHS`, of what may be best, until the best score stops rising. An
# epoch costs so many passes over its rows.
_LEAST_EPOCHS, _MOST_EPOCHS, _AFFORDED, _PASSES = 2, 16, 0.1, 3
# The automatic grid of C: how many, and from where to where.
_N_CS, _LEAST_AND_MOST_C = 10, (1e-4, 10.0)
# ... and that of γ, as multiples of "scale".
_OF_SCALE = (0.1, 1.0, 10.0)
# Kernel machines of several classes are dropped after the first fold if they score so many standard
# errors less than the best one there. Where a fold has one problem, or problems have so few kernel
# values together, going over the γ twice takes longer than what is dropped.
_SURELY, _FEW = 4, 2**20
# Folds share the weights of all rows if balanced weights differ from them by no more than this.
_ALIKE = 0.01
# The epsilon of a search that names none.
_EPSILON = 0.1


@dataclasses.dataclass
class _Machines:
    """What trains machines over one set of rows, or one kernel matrix, and what scores them.

    `outer` is the place in the axes that rows and kernels depend on.
    """

    outer: tuple[int, ...]
    rows: Any  # pegasos._core.Rows or kernels.ColumnCache
    is_linear: bool
    schedule: Callable  # of settings, the number of problems and a seed
    scores: Callable  # of the number of a fold and a model: scores of the fold's test rows
    tests: Any = None  # rows that folds are tested on, of kernel machines
    narrow: Any = None  # makes the same over rows in single precision, if they are linear
    where: tuple[int, ...] = ()  # the place in all outer axes, of what is trained now


class _Grid:
    """Scores of the points of a grid, in every fold, and certified gaps.

    Parameters
    ----------
    shape : tuple of int
    n_folds, n_problems : int
    score : callable
        Of a place in the grid, the number of a fold and scores (n_test, n_problems) of its test
        rows; returns a number.
    tell : callable
        Called with the number of folds that are scored, and that of all that will be.
    """

    def __init__(
        self,
        shape: Any,
        n_folds: int,
        n_problems: int,
        score: Callable[..., float],
        tell: Callable[[int, int], None],
    ) -> None:
        self.scores = np.full((*shape, n_folds), np.nan)
        self.gaps = np.full(shape, np.nan)
        self.epochs = np.zeros(shape, np.int64)
        self.seconds = np.zeros(shape)
        self.dropped = np.zeros(shape, bool)
        self._n_problems, self._score, self._tell = n_problems, score, tell
        self._waiting: dict[Any, dict[int, np.ndarray]] = {}
        self._n_scored, self._n_expected = 0, self.scores.size

    def add(self, where: tuple[int, ...], fold: int, problems: Any, scores: np.ndarray) -> None:
        """Take scores of a fold's test rows by some of its problems; score them when all are there.

        They are let go then: those of all folds, at all places, would soon take as much room as X.
        """
        waiting = self._waiting.setdefault((where, fold), {})
        waiting.update(zip(problems, scores.T, strict=True))
        if len(waiting) < self._n_problems:
            return
        del self._waiting[where, fold]
        scores = np.stack([waiting[k] for k in range(self._n_problems)], axis=1)
        self.scores[(*where, fold)] = self._score(where, fold, scores)
        self._n_scored += 1
        self._tell(self._n_scored, self._n_expected)

    def expect(self, n_more: int) -> None:
        """So many folds of points will be scored once more."""
        self._n_expected += n_more

    def drop(self, folds: Sequence[int], sizes: np.ndarray) -> None:
        """Drop points whose accuracy on some folds is surely below that of the best point.

        The variance of a share p of n rows is p (1 - p)/n, with two rows of either kind more, since
        p is an estimate (Agresti and Coull, The American Statistician 52, 1998); that points are
        tested on the same rows makes their difference vary less than the sum of both.
        """
        few = sizes[folds]
        n = few.sum() + 4
        share = (self.scores[..., folds] @ few + 2) / n
        variance = share * (1 - share) / n
        best = np.unravel_index(np.argmax(share), share.shape)
        self.dropped = share < share[best] - _SURELY * np.sqrt(variance + variance[best])
        self.expect(-int(np.isnan(self.scores[self.dropped]).sum()))

    def add_gap(self, where: tuple[int, ...], gap: float) -> None:
        """Take the largest gap among some machines of a place."""
        self.gaps[where] = np.fmax(self.gaps[where], gap)

    def adopt_if_better(self, other: "_Grid") -> bool:
        """Adopt what `other` found if it scores better by more than a standard error.

        Return whether it does.
        """
        if np.isnan(other.scores).any():  # it has not run, or a scorer has no number for it
            return False
        mean, theirs = self.scores.mean(axis=-1), other.scores.mean(axis=-1).max()
        best = np.unravel_index(np.argmax(mean), mean.shape)
        if not theirs > mean[best] + standard_errors(self.scores)[best]:
            return False
        self.scores, self.gaps, self.epochs = other.scores, other.gaps, other.epochs
        self.seconds = other.seconds
        return True

    def standing(self, where: tuple[int, ...], folds: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Mean scores over some folds at a place of the outer axes, and their standard errors."""
        scores = self.scores[where][..., folds]
        return scores.mean(axis=-1), standard_errors(scores)


def standard_errors(scores: np.ndarray) -> np.ndarray:
    """Of means over the last axis, folds, as if these were independent; of one fold 0."""
    n_folds = scores.shape[-1]
    return scores.std(axis=-1, ddof=n_folds > 1) / np.sqrt(n_folds)


def _public(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a fitted estimator that are told."""
    return {k: v for k, v in attributes.items() if k.endswith("_") and not k.startswith("_")}


class _Search(HintsMixin, BaseEstimator):
    """What all searches share.

    What y is, labels or targets, says another base: `_OfClassifiers` or `_OfRegressors`; and which
    machines are searched over, `_Linear` or `_Kernel`.
    """

    #: The class of estimators that are searched over.
    _best: Any

    @_threads.handled
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Search, and train on all rows with what was best.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels, or targets of one output or several.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in training and in scores; a number stands for all rows.
        groups : array-like of shape (n_samples,), default=None
            For splitters that need them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described, or a fold leaves too little to learn from (fewer
            than two classes, or no row of weight), or no row of weight to test on.
        """
        _parameters.check(self)
        estimator = self._estimator()
        data = estimator._read(X, y, sample_weight, continuing=False)
        estimator._check_data(data)
        estimator.__dict__.update(data.seen)
        sample_weight = _validate.sample_weight(sample_weight, data.X.shape[0])
        name, values, lams = self._lams(data)
        axes = {**self._other_axes(data.X, sample_weight), name: values}
        steps = self._steps()
        if steps is not None:
            axes["n_steps"] = steps
        balance = functools.partial(self._balance, data, sample_weight)
        folds = _folds.read(self.cv, X, data, groups, balance)
        # By default, scores weigh rows as training does: else they would choose the λ that heed
        # weights least. Scorers of scikit-learn are given what they are given everywhere.
        scoring = _folds.Scoring(
            self.scoring, X, data, data.weights if self.scoring is None else sample_weight, folds,
            functools.partial(self._plain_score, data),
        )  # fmt: skip
        about = estimator._about(data)
        about["_fitted"] = estimator._choices(estimator._settings_for(lams[0], data))

        def score(more: Any, where: tuple[int, ...], fold: int, scores: np.ndarray) -> Any:
            point = {name: axis[k] for (name, axis), k in zip(axes.items(), where, strict=True)}
            if data.units is not None:
                scores = scores * np.array(data.units)
            return scoring(fold, scores, lambda: _folds.fitted(estimator, about, **point, **more))

        few = {"max_iter": min(_LEAST_EPOCHS, self.max_iter), "tol": None}

        with Progress(type(self).__name__, self.verbose) as progress:
            shape = [len(axis) for axis in axes.values()], len(folds), len(data.columns)
            grid, early = (
                _Grid(*shape, functools.partial(score, more), tell)
                for more, tell in (
                    ({}, lambda *done: progress.update(lambda: (*done, ""))),
                    (few, lambda *_: None),
                )
            )  # fmt: skip
            first, *rest = self._rounds(len(folds), *data.columns.shape)
            for numbers in (first, *rest):
                if numbers is not first:
                    grid.drop(first, scoring.sizes())
                for machines in self._machines(data.X, folds, sample_weight, axes):
                    for where, machine in self._variants(estimator, axes):
                        machines.where = machines.outer + where
                        points = [machine._settings_for(lam, data) for lam in lams]
                        for together in _folds.together(folds, numbers, data):
                            self._train(machines, together, points, steps, grid, early)
        more = few if grid.adopt_if_better(early) else {}
        fitted = data.seen | _public(about) | self._results(axes, lams, data, more, grid)
        if self.refit:
            estimator.set_params(**fitted["best_params_"]).fit(
                data.X, data.y, sample_weight=sample_weight
            )
            estimator.__dict__.update(data.seen)
            fitted |= {"best_estimator_": estimator} | _public(vars(estimator))
        # All at once: of the last search, nothing is left, or everything if this one fails.
        with _threads.uninterrupted():
            for stale in _public(vars(self)):
                delattr(self, stale)
            self.__dict__.update(fitted)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels or targets of the rows of `X` by the best estimator; see its method."""
        return self._refitted().predict(X)

    def to_model(self) -> LinearModel | KernelModel:
        """The best estimator as a model, which can be saved without pickle."""
        return self._refitted().to_model()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- Inside ----------------------------------------------------------------------------------

    def _refitted(self) -> Any:
        check_is_fitted(self, "cv_results_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"refit={self.refit!r}: there is no estimator to predict with")
        return self.best_estimator_

    def _estimator(self) -> Any:
        """One of the estimators that are searched over, with no value of what is searched."""
        names = set(inspect.signature(self._best).parameters) & set(self.get_params()) - {"n_steps"}
        return self._best(**{name: getattr(self, name) for name in names})

    def _other_axes(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        """What is searched beside λ and T, outermost first."""
        return {}

    def _variants(self, estimator: Any, axes: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Estimators for each place in the axes that change no rows and no kernel."""
        yield (), estimator

    def _machines(
        self, X: Any, folds: Any, sample_weight: Any, axes: dict[str, Any]
    ) -> Iterator[_Machines]:
        """Machines for each place in the other axes."""
        raise NotImplementedError

    def _plain_score(
        self, data: Data, scores: np.ndarray, test: np.ndarray, weights: np.ndarray | None
    ) -> float:
        """The score of rows number `test` where `scoring` is None."""
        raise NotImplementedError

    def _balance(self, data: Data, sample_weight: np.ndarray | None, times: np.ndarray) -> Any:
        """See `_folds.read`."""

    def _lams(self, data: Data) -> tuple[str, np.ndarray, np.ndarray]:
        """ "C" or "lam", its values to try, and the λ of these."""
        mass = data.mass
        name = "C" if self.lams is None else "lam"
        values = self.Cs if self.lams is None else self.lams
        if values is None or isinstance(values, Integral):
            values = np.geomspace(*_LEAST_AND_MOST_C, _N_CS if values is None else values)
            if data.units is not None and self.loss == "epsilon_insensitive":
                values = values * max(data.units)  # C has the units of targets
            if name == "lam":
                values = [lam_of(C, mass) for C in values]
            values = [_short(value) for value in values]
        values = np.asarray(values, dtype=np.float64)
        lams = values if name == "lam" else np.array([lam_of(C, mass) for C in values])
        return name, values, lams

    def _steps(self) -> np.ndarray | None:
        if self.n_steps is None:
            return None
        if self.solver not in ("auto", "pegasos"):
            raise ValueError(f"n_steps needs solver='pegasos', got solver={self.solver!r}")
        return np.atleast_1d(self.n_steps)

    def _rounds(self, n_folds: int, n_problems: int, n_rows: int) -> list[range]:
        """The folds, or those after which points may be dropped, and the others."""
        return [range(n_folds)]

    @np.errstate(under="ignore")
    def _train(
        self,
        machines: _Machines,
        folds: _folds.Together,
        points: list[Settings],
        steps: Any,
        grid: _Grid,
        early: _Grid,
    ) -> None:
        """Train the problems of `folds` for every λ of `points` and every T; `grid` scores them.

        Of several classes in few features, `early` scores machines that make few epochs, too.
        """
        seed, threads = PegasosEstimator._seed(self), joblib.effective_n_jobs(self.n_jobs)
        of_set = (machines, folds, points, seed, threads, grid)
        effort, epochs = self.cv_effort, int(self.max_iter)
        if isinstance(effort, Integral):
            epochs = min(int(effort), epochs)
        sweeps = machines.is_linear and folds.values is None  # bundles of dual ascent have labels
        if steps is not None:
            self._descend(*of_set, steps, None)
        elif isinstance(effort, str):
            # One fold alone cannot tell which λ deserve more epochs.
            is_rough = sweeps and self.solver == "auto" and folds.are_all
            if is_rough and not _is_cheap(machines, folds, len(points)):
                self._double_epochs(*of_set)
            else:
                self._follow(*of_set, _GAP)
                # Not with class weights: rough machines may score better for not heeding them.
                is_usual = sweeps and self.solver == "auto" and self.class_weight is None
                if is_usual and folds.labels.shape[1] > 2:
                    self._follow(*of_set[:-1], early, None)
        elif not isinstance(effort, Integral):
            self._follow(*of_set, effort)
        elif sweeps and self.solver in ("auto", "sdca"):
            self._sweep(*of_set, np.arange(len(points)), epochs)
        else:
            self._descend(*of_set, None, epochs)

    def _double_epochs(
        self,
        machines: _Machines,
        folds: _folds.Together,
        points: list[Settings],
        seed: int,
        threads: int,
        grid: _Grid,
    ) -> None:
        """Make epochs for all λ, then twice as many for those that may be best, while this helps.

        A λ may be best if its mean score is within a standard error of the best one. It no longer
        helps if twice as many epochs raise the best score by half a standard error at most.
        """
        where = machines.where
        machines = dataclasses.replace(machines.narrow(), where=where)
        of_set = (machines, folds, points, seed, threads, grid)
        n_bundles = -(-len(folds.numbers) * folds.labels.shape[1] // _pegasos.lanes(machines.rows))
        each = _PASSES * n_bundles * len(points) * _rows.seconds_a_pass(machines.rows)
        most = min(_MOST_EPOCHS, self.max_iter)
        epochs = int(np.clip(_AFFORDED / max(each, 1e-9), min(_LEAST_EPOCHS, most), most))
        places, before = np.arange(len(points)), -np.inf
        while True:
            self._sweep(*of_set, places, epochs)
            means, errors = grid.standing(where, folds.numbers)
            if not np.isfinite(means).all() or 2 * epochs > most:
                return
            best = int(np.argmax(means))
            if means[best] - before <= errors[best] / 2:
                return
            before, epochs = means[best], 2 * epochs
            places = np.flatnonzero(means >= means[best] - errors[best])
            grid.expect(len(places) * len(folds.numbers))

    def _descend(
        self,
        machines: _Machines,
        folds: _folds.Together,
        points: list[Settings],
        seed: int,
        threads: int,
        grid: _Grid,
        steps: Any,
        epochs: int | None,
    ) -> None:
        """Pegasos, as many machines in a set as there is room for."""
        if steps is None and not self.average:
            points = [dataclasses.replace(point, average="suffix") for point in points]
        lams = np.array([point.lam for point in points])
        n_folds, n_problems, _ = folds.labels.shape
        of_training = np.stack([point.lams_of(n_problems) for point in points])
        together = max(1, _SET_BYTES // (24 * sum(machines.rows.shape)))
        n_lams = max(1, together // (n_folds * n_problems))
        if machines.is_linear and _pegasos.in_bundles(machines.rows, points[0]):
            # Machines of one class that differ in λ add much the same rows.
            together = min(together, threads * _pegasos.lanes(machines.rows))
        for part in np.split(np.arange(len(lams)), range(n_lams, len(lams), n_lams)):
            members = itertools.product(range(n_problems), range(n_folds), part)
            while some := list(itertools.islice(members, together)):
                column, fold, place = np.array(some).T
                least = points[place[np.argmin(lams[place])]]
                pegasos = machines.schedule(least.some(column), len(some), seed).pegasos
                pegasos.problems["lam"] = of_training[place, column]
                pegasos.set_rows(*folds.problems(fold, column), count=False)
                for t, more in enumerate([None] if steps is None else np.diff(steps, prepend=0)):
                    began = time.perf_counter()
                    pegasos.plan(n_steps=more, n_epochs=epochs)
                    pegasos.run(machines.rows, n_threads=threads)
                    coef, intercept = pegasos.model()
                    for k in np.unique(fold):
                        inside = np.flatnonzero(fold == k)
                        number = folds.numbers[k]
                        scores = machines.scores(number, coef[inside], intercept[inside])
                        _refuse_overflow(scores, pegasos.weights.dtype, least.lam)
                        for p in np.unique(place[inside]):
                            where = (*machines.where, p) + (() if steps is None else (t,))
                            here = place[inside] == p
                            grid.epochs[where] = epochs or 0
                            grid.add(where, number, column[inside][here], scores[:, here])
                    each = (time.perf_counter() - began) / len(some)
                    for p in place:
                        grid.seconds[(*machines.where, p, *([] if steps is None else [t]))] += each

    def _sweep(
        self,
        machines: _Machines,
        folds: _folds.Together,
        points: list[Settings],
        seed: int,
        threads: int,
        grid: _Grid,
        places: np.ndarray,
        epochs: int,
    ) -> None:
        """Make epochs of dual ascent in bundles, from the largest λ of `places` to the smallest.

        A machine begins a λ where its last one ended, and is scored by the mean of w over half an
        epoch.
        """
        rows, lams = machines.rows, np.array([point.lam for point in points])
        settings = points[int(np.argmin(lams))]
        (n_folds, n_problems, _), size = folds.labels.shape, _pegasos.lanes(rows)
        norms = rows.squared_norms()
        overflow = _validate.overflow(np.dtype(f"f{rows.value_bytes}"), settings.lam)
        if not np.isfinite(norms).all():
            raise overflow
        found: collections.deque[tuple[Any, ...]] = collections.deque()
        spent: collections.deque[tuple[Any, float]] = collections.deque()

        def follow(
            members: list[tuple[int, int]], order: np.ndarray, tell: Callable[[], None]
        ) -> None:
            fold, column = np.array(members).T
            labels, weights, _ = folds.problems(fold, column)
            problem = Problem(rows, labels, weights, settings)
            path = _ascent.LamPath(problem, norms, seed)
            for place in order:
                where, began = (*machines.where, place), time.perf_counter()
                path.run(lams[place], epochs, tell)
                coef, factor, intercept = path.model()
                for k in np.unique(fold):
                    number, here = folds.numbers[k], np.flatnonzero(fold == k)
                    scores = machines.scores(number, coef, np.zeros(size))[:, here]
                    scores = factor[here] * scores + intercept[here]
                    if not np.isfinite(scores).all():
                        raise overflow
                    found.append((where, number, column[here], scores))
                spent.append((where, time.perf_counter() - began))

        def take() -> None:  # in the thread that called: scorers of users' may not want others
            while spent:
                where, seconds = spent.popleft()
                grid.epochs[where], grid.seconds[where] = epochs, grid.seconds[where] + seconds
            while found:
                grid.add(*found.popleft())

        # Machines of one fold are scored on the same rows, so they go together. A single bundle
        # would leave a second thread without work: it goes over half of the λ at a time.
        members = list(itertools.product(range(n_folds), range(n_problems)))
        parts = [members[k : k + size] for k in range(0, len(members), size)]
        order = places[np.argsort(-lams[places], kind="stable")]
        paths = np.array_split(order, 2 if len(parts) == 1 < len(order) else 1)
        jobs = [functools.partial(follow, *job) for job in itertools.product(parts, paths)]
        _threads.in_threads(jobs, threads, take)
        take()

    def _follow(
        self,
        machines: _Machines,
        folds: _folds.Together,
        points: list[Settings],
        seed: int,
        threads: int,
        grid: _Grid,
        tol: float | None,
    ) -> None:
        """From the largest λ to the smallest, to a gap, each beginning where the last ended.

        Those that were dropped are left out. Without a gap, a few epochs, each beginning at 0.
        """
        schedule, (n_folds, n_problems, _) = None, folds.labels.shape
        members = np.arange(n_folds * n_problems)
        places = np.argsort([-point.lam for point in points])
        for place in places[~grid.dropped[machines.where][places]]:
            point, began = points[place], time.perf_counter()
            if schedule is None or tol is None:
                fold, column = np.divmod(members, n_problems)
                schedule = machines.schedule(point.some(column), len(members), seed)
                schedule.set_rows(*folds.problems(fold, column))
            else:
                schedule = schedule.at_lam(point.lam, machines.rows)
            certificate = schedule.train(
                machines.rows, solver=self.solver, tol=tol, check="last", n_threads=threads,
                max_iter=min(_LEAST_EPOCHS, self.max_iter) if tol is None else self.max_iter,
            )  # fmt: skip
            coef, intercept = schedule.model()
            where, known = (*machines.where, place), schedule.solver.scores_of_model()
            for number, of in zip(folds.numbers, np.split(members, n_folds), strict=True):
                if known is None:
                    scores = machines.scores(number, coef[of], intercept[of])
                else:
                    scores = known[of][:, machines.tests[number]].T
                _refuse_overflow(scores, np.dtype(np.float64), point.lam)
                grid.add(where, number, range(n_problems), scores)
            grid.add_gap(where, certificate.relative_gap.max())
            grid.epochs[where] = max(grid.epochs[where], schedule.n_iter)
            grid.seconds[where] += time.perf_counter() - began

    @np.errstate(over="ignore", invalid="ignore")  # squares of scores may be infinite
    def _results(
        self,
        axes: dict[str, Any],
        lams: np.ndarray,
        data: Data,
        more: dict[str, Any],
        grid: _Grid,
    ) -> dict[str, Any]:
        """Attributes of a search, as scikit-learn names them; all points have `more` parameters."""
        axes = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in axes.items()}
        points = list(itertools.product(*axes.values()))
        params = [dict(zip(axes, point, strict=True)) | more for point in points]
        flat = grid.scores.reshape(len(points), -1)
        results: dict[str, Any] = {}
        for k, name in enumerate(axes):
            values = [point[k] for point in points]
            mixed = len({isinstance(value, str) for value in values}) > 1
            results[f"param_{name}"] = np.ma.array(values, dtype=object if mixed else None)
        # C and λ are both told, whichever was searched.
        at = list(axes).index("C" if "C" in axes else "lam")
        lam = lams[np.indices(grid.gaps.shape)[at].ravel()]
        if "C" in axes:
            results["param_lam"] = np.ma.array(lam)
        else:
            with np.errstate(all="ignore"):  # of tiny weights, C may be infinite
                results["param_C"] = np.ma.array(1 / (lam * data.mass))
        results["params"] = params
        for k in range(flat.shape[1]):
            results[f"split{k}_test_score"] = flat[:, k]
        mean, error, dropped = flat.mean(axis=1), standard_errors(flat), grid.dropped.ravel()
        results["std_test_score"], results["standard_error"] = flat.std(axis=1), error
        mean[dropped] = np.nanmean(flat[dropped], axis=1)
        n_scored = np.where(dropped, np.isfinite(flat).sum(axis=1), flat.shape[1])
        results["mean_test_score"] = mean
        # What was not scored everywhere ranks last, as in scikit-learn's searches.
        results["rank_test_score"] = rank = rankdata(
            np.where(np.isnan(mean) | dropped, np.inf, -mean), method="min"
        ).astype(np.int32)
        results["relative_gap"], results["n_epochs"] = grid.gaps.ravel(), grid.epochs.ravel()
        results["mean_fit_time"] = grid.seconds.ravel() / n_scored
        results["dropped"] = dropped
        if not np.isfinite(mean).all():
            warnings.warn(
                f"scoring gave scores that are not finite, with the means {mean}: where a mean is "
                "NaN the point ranks last",
                UserWarning,
                stacklevel=5,
            )
        # Of equally good points, the one that is regularised most.
        best = np.flatnonzero(rank == rank.min())
        if self.one_standard_error and np.isfinite(mean[best[0]]):
            best = np.flatnonzero(~dropped & (mean >= mean[best[0]] - error[best[0]]))
        index = int(best[np.argmax(lam[best])])
        return {
            "cv_results_": results,
            "scores_": grid.scores,
            "n_splits_": grid.scores.shape[-1],
            "best_index_": index,
            "best_score_": float(mean[index]),
            "best_params_": params[index],
            # But for T, which fitted estimators have per problem.
            **{f"{name}_": results[f"param_{name}"][index].item() for name in ("C", "lam")},
            **{f"{name}_": params[index][name] for name in axes if name in ("gamma", "epsilon")},
        }


def _short(number: float) -> float:
    """The number in six digits, whatever its last bits are on this machine."""
    return float(f"{number:.6g}")


def _refuse_overflow(scores: np.ndarray, dtype: Any, lam: float) -> None:
    """Raise a ValueError if scores of test rows, which scorers may not like, are not finite."""
    if not np.isfinite(scores).all():
        raise _validate.overflow(dtype, lam)


def _is_cheap(machines: _Machines, folds: _folds.Together, n_lams: int) -> bool:
    """Whether all machines of a search can be certified in little time."""
    n_folds, n_problems, _ = folds.labels.shape
    newton, ascent = (machines.rows.seconds(of) for of in (_core.NEWTON, _core.ASCENT))
    return newton < ascent and n_folds * n_problems * n_lams * _WARM * newton <= _SECONDS


def _narrowed(X: Any, kernel: kernels.Kernel) -> Any:
    """Return the rows in single precision if their kernel values can be computed there."""
    if kernel.is_given or not kernel.keeps_type or X.dtype == np.float32:
        return X
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if not _rows.survives_rounding(X) or kernel.may_vanish(X, np.finfo(np.float32)):
            return X
        narrow = X.astype(np.float32)
    try:
        kernel.refuse_overflow(narrow)
    except ValueError:
        return X
    return narrow


class _OfClassifiers(ClassifierMixin, _Search):
    """Searches whose y holds labels."""

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the rows of `X` by the best estimator; see its method."""
        return self._refitted().decision_function(X)

    @with_probabilities
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes by the best estimator; see its method.

        They are there with ``loss="log_loss"`` and ``loss="modified_huber"`` only.
        """
        return self._refitted().predict_proba(X)

    @with_probabilities
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`; see its method."""
        return self._refitted().predict_log_proba(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        is_joint = self.multi_class == "crammer_singer"
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = not is_joint
        return tags

    # ---- Inside ----------------------------------------------------------------------------------

    @property
    def _loss_name(self) -> Any:
        return self.best_estimator_._loss_name if hasattr(self, "best_estimator_") else self.loss

    def _plain_score(
        self, data: Data, scores: np.ndarray, test: np.ndarray, weights: np.ndarray | None
    ) -> float:
        if data.scheme == "multilabel":
            is_right = ((scores > 0) == data.codes[test]).all(axis=1)
        else:
            of_classes = _problems.class_scores(scores, len(data.classes), data.scheme)
            is_right = _problems.winners(of_classes) == data.codes[test]
        return float(np.average(is_right, weights=weights))

    def _balance(self, data: Data, sample_weight: np.ndarray | None, times: np.ndarray) -> Any:
        if self.class_weight != "balanced":
            return None
        weights = np.ones(len(times)) if sample_weight is None else sample_weight
        of_all, of_fold = (np.bincount(data.codes, w) for w in (weights, times * weights))
        ratios = of_all / np.where(of_fold > 0, of_fold, np.inf)
        ratios /= ratios.max()
        ratios[of_fold == 0] = 1
        return None if ratios.min() >= 1 - _ALIKE else ratios


class _OfRegressors(RegressorMixin, _Search):
    """Searches whose y holds targets."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # ---- Inside ----------------------------------------------------------------------------------

    def _other_axes(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        epsilons = [_EPSILON] if self.epsilons is None else np.asarray(self.epsilons, float)
        n_tried = 1 if self.loss == "squared_error" else len(epsilons)
        return super()._other_axes(X, sample_weight) | {"epsilon": epsilons[:n_tried]}

    def _variants(self, estimator: Any, axes: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        for e, epsilon in enumerate(axes["epsilon"]):
            yield (e,), copy.copy(estimator).set_params(epsilon=epsilon)

    def _plain_score(
        self, data: Data, scores: np.ndarray, test: np.ndarray, weights: np.ndarray | None
    ) -> float:
        return r2_score(data.y[test].reshape(scores.shape), scores, sample_weight=weights)


class _Linear(_Search):
    """Searches over linear machines."""

    def _machines(
        self, X: Any, folds: Any, sample_weight: Any, axes: dict[str, Any]
    ) -> Iterator[_Machines]:
        rows, dtype = _validate.rows(X, checked=True)
        yield self._machines_over(X, rows, dtype, folds)

    def _machines_over(self, X: Any, rows: Any, dtype: Any, folds: Any) -> _Machines:
        def narrow() -> _Machines:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                is_wide = rows.is_sparse and rows.value_bytes == 8
                if not is_wide or not _rows.survives_rounding(X):
                    return self._machines_over(X, rows, dtype, folds)
            return self._machines_over(X, _rows.narrowed(rows), np.float32, folds)

        return _Machines(
            outer=(),
            rows=rows,
            is_linear=True,
            schedule=lambda settings, n, seed: Schedule(
                LINEAR, settings, n, rows.shape[1], dtype, seed
            ),
            scores=lambda k, coef, intercept: _rows.decision_function(
                rows, coef, intercept, folds[k].test
            ),
            narrow=narrow,
        )


class _Kernel(_Search):
    """Searches over kernel machines."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = kernels.kind(self.kernel).is_given
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    # ---- Inside ----------------------------------------------------------------------------------

    @property
    def _is_automatic(self) -> bool:
        """Whether the search decides how well machines are trained."""
        return isinstance(self.cv_effort, str) and self.n_steps is None

    def _other_axes(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        if self.gammas is not None:
            return {"gamma": list(self.gammas)}
        kind = kernels.kind(self.kernel)
        if "gamma" not in kind.uses:
            return {"gamma": ["scale"]}
        scale = kind.gamma_of("scale", X, sample_weight)
        gammas = [_short(factor * scale) for factor in _OF_SCALE]
        return {"gamma": [gamma for gamma in gammas if 0 < gamma < np.inf]}

    def _machines(
        self, X: Any, folds: Any, sample_weight: Any, axes: dict[str, Any]
    ) -> Iterator[_Machines]:
        for g, gamma in enumerate(axes["gamma"]):
            estimator = self._estimator().set_params(gamma=gamma)
            kernel = estimator._make_kernel(X, sample_weight, continuing=False)
            rows = _narrowed(X, kernel) if self._is_automatic else X
            points = kernel.points_among_themselves(rows)
            # Folds of a class share most columns: two of them are hardly more than one problem.
            cache = kernels.ColumnCache(
                points, float(self.cache_size), estimator._n_threads(), n_problems=len(folds)
            )

            def scores(k: int, coef: np.ndarray, intercept: np.ndarray, cache: Any = cache) -> Any:
                support = np.flatnonzero(coef.any(axis=0))
                pushed = cache.push(coef[:, support], support)[:, folds[k].test]
                return (pushed + intercept[:, None]).T

            yield _Machines(
                outer=(g,),
                rows=cache,
                is_linear=False,
                schedule=lambda settings, n, seed: Schedule(
                    KERNEL, settings, n, X.shape[0], np.float64, seed
                ),
                scores=scores,
                tests=[fold.test for fold in folds],
            )


_CV = {
    "what": """    Cs : int or list of float, default=None
        The C to try, as in `{estimator}`. A number means: so many from 1e-4 to 10{unit}, evenly on
        a log scale. None stands for ``Cs=10``, unless `lams` is given. Each C stands for one λ,
        that of all rows: machines of a fold have the same λ, though a fold has fewer rows.
    lams : int or list of float, default=None
        The λ to try, in place of `Cs`. A number means: the λ of so many automatic C, in six
        digits.""",
    "rest": """    cv : int, cross-validation generator or iterable, default=5
        As in scikit-learn: an int means {folds}. If a fold names a training row several
        times (oversampling, bootstrap), the row has as many times its weight.
    scoring : str or callable, default=None
        As in scikit-learn; None is {score}. Other scorers are given `sample_weight` if they take
        it. A callable is given a fold's test rows and an estimator that knows the scores of these
        rows, and of no others: a search keeps no other part of its machines. Folds come in any
        order.
    refit : bool, default=True
        Whether to train on all rows with the best parameters, to the gap `tol`.{exception}
    one_standard_error : bool, default=False
        True: of all points whose mean score is within one standard error of the best one, choose
        the one with the largest λ.
    cv_effort : "auto", int or float, default="auto"
        How well the machines of the search are trained. The final model is trained to `tol`.

        - A float in (0, 1): to this relative duality gap, from the largest λ to the smallest. Each
          machine begins where the one with the larger λ ended, unless ``solver="pegasos"``. One
          that reaches `max_iter` first is scored as it is, without a warning. Scores change little
          below 0.05.
        - An int: this number of epochs, but at most `max_iter`. Nothing is certified. {epochs}
        - "auto": {auto}

        {more}
    n_steps : int or list of int, default=None
        With solver "pegasos" (or "auto"): T, or several T in growing order. Each of them is scored
        on the way to the last one. `cv_effort` is then ignored.""",
    "attributes": """    cv_results_ : dict
        As in `sklearn.model_selection.GridSearchCV`, with these keys for each point besides:

        - "param_C" and "param_lam": C and λ of the point, whichever of them was searched;
        - "standard_error": of the mean score;
        - "n_epochs": how many epochs its machines were trained;
        - "relative_gap": the largest certified gap of its machines, NaN if nothing is certified;
        - "dropped": {dropped};
        - "mean_fit_time": seconds spent on its machines and their scores, divided by the number of
          its folds. Work that several points share is left out.
    scores_ : ndarray
        Scores, one axis for each searched parameter, in the order of `cv_results_`, and one for the
        folds.
    best_params_, best_score_, best_index_
        As in `GridSearchCV`. Of equally good points, the one with the largest λ is best. Points
        with a score of NaN rank last.
    C_, lam_ : float
        The best C and its λ.""",
}

_OF_CLASSIFIERS = {
    "estimator": "PegasosClassifier",
    "unit": "",
    "folds": "stratified folds",
    "score": """accuracy, of rows weighted by `sample_weight` and
        `class_weight`""",
    "exception": " (`cv_effort` has an\n        exception.)",
    "epochs": """Linear
          machines with `solver` "auto" or "sdca" use dual coordinate ascent in bundles, from the
          largest λ to the smallest, and are scored by the mean over the last half epoch;
          `batch_size`, `sampling`, `project` and `average` are ignored. Kernel machines, and linear
          ones with another `solver`, use Pegasos with an average (of the last half, unless
          `average` says otherwise).""",
    "auto": """0.05 for kernel machines, for another `solver` than "auto", and for linear
          machines if certifying all of them is likely to take a second or less, as with few
          features. Otherwise epochs: two, or more, up to 16, if these take less than a tenth of a
          second. The number then doubles for the λ within a standard error of the best score,
          until the best score rises by at most half a standard error. A machine makes at most
          `max_iter` epochs, but for the last iteration of Newton's method.""",
    "more": """With "auto", three more rules save time or improve scores. Sparse rows of linear
        machines that make epochs, and rows of kernel machines, are in single precision during the
        search, unless this would blur what tells them apart, or let all kernel values of a row
        vanish, or the kernel is a function or precomputed. If `scoring` is accuracy, kernel
        machines of several classes are dropped after the first fold if they surely lose: if their
        share of correct rows is below the best one by more than four standard errors of the
        difference of independent shares. (A search over few rows drops nothing.) For more than two
        classes in few features, without `class_weight`, linear machines that stop after two epochs
        are scored, too. If their best score is higher by more than a standard error, the search is
        over these machines, and `best_params_` also has ``max_iter`` and ``tol=None``.""",
    "dropped": """whether it was left after the first fold (see `cv_effort`). Then its mean is
          the score of that fold, scores of other folds are NaN, and it ranks last""",
}
_OF_REGRESSORS = {
    "estimator": "PegasosRegressor",
    "unit": """ (with the loss
        "epsilon_insensitive", whose best C grows with y: times a power of two near the standard
        deviation of y)""",
    "folds": "folds in the order of the rows",
    "score": """R², its mean over outputs, of rows weighted by
        `sample_weight`""",
    "exception": "",
    "epochs": """Machines
          use Pegasos with an average (of the last half, unless `average` says otherwise).""",
    "auto": "0.05.",
    "more": """With "auto", rows of kernel machines are in single precision during the search,
        unless this would blur what tells them apart, or let all kernel values of a row vanish, or
        the kernel is a function or precomputed.""",
    "dropped": "False",
}
_DOC, _TARGETS_DOC = (
    {name: text.format(**words) for name, text in _CV.items()}
    for words in (_OF_CLASSIFIERS, _OF_REGRESSORS)
)
_TARGETS_DOC["what"] += f"""
    epsilons : list of float, default=None
        The epsilon of the loss to try, in the units of y; None stands for {_EPSILON} alone.
        ``loss="squared_error"`` has none: then one of them is tried, and changes nothing."""
_TARGETS_DOC["attributes"] += """
    epsilon_ : float
        The best epsilon."""
_GAMMAS_DOC = """    gammas : list of float or "scale", "auto", default=None
        The γ to try; see `KernelPegasosClassifier`. "scale" is that of all rows, in every fold.
        None: a tenth of "scale", "scale" and ten times "scale", as numbers of six digits. (A
        kernel without γ is tried once.)"""


class PegasosClassifierCV(_OfClassifiers, _Linear):
    __doc__ = f"""Linear machine with the C that cross-validation finds best.

    Classes × λ × folds are trained as sets of problems over shared rows.

    Parameters
    ----------
{_DOC["what"]}
{_DOC["rest"]}
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `PegasosClassifier`.
    penalize_intercept, intercept_scaling, n_jobs, random_state
        As in `PegasosClassifier`.
    multi_class, cost
        As in `PegasosClassifier`. With "crammer_singer", every fold and C is a fit of its own, and
        they share no passes.
    class_weight : dict or "balanced", default=None
        As in `PegasosClassifier`. "balanced" counts the classes of the training rows of each fold,
        as in `sklearn.model_selection.GridSearchCV`. Where the weights differ by 1 % at most from
        those of all rows, as they do in stratified folds of many rows, these are taken.
    verbose : int, default=0
        1: show progress on standard error.

    Attributes
    ----------
{_DOC["attributes"]}
    best_estimator_ : PegasosClassifier
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pegasos import PegasosClassifierCV
    >>> X, y = load_digits(return_X_y=True)
    >>> search = PegasosClassifierCV(Cs=[0.01, 0.1, 1, 10], random_state=0).fit(X / 16, y)
    >>> print(f"C {{search.C_:g}}, λ {{search.lam_:.2g}}, accuracy {{search.best_score_:.3f}}")
    C 0.1, λ 0.0056, accuracy 0.930
    """

    _best, _checks = PegasosClassifier, _parameters.LINEAR_CLASSES_SEARCH

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] | None = None,
        lams: int | Sequence[float] | None = None,
        loss: str = "hinge",
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        refit: bool = True,
        one_standard_error: bool = False,
        cv_effort: float | str = "auto",
        solver: str = "auto",
        tol: float | str | None = "auto",
        max_iter: int = 1000,
        n_steps: int | Sequence[int] | None = None,
        batch_size: int = 1,
        sampling: str = "permutation",
        project: bool = False,
        average: bool | str = False,
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: str = "ovr",
        cost: ArrayLike | None = None,
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lams = lams
        self.loss = loss
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.one_standard_error = one_standard_error
        self.cv_effort = cv_effort
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.sampling = sampling
        self.project = project
        self.average = average
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.cost = cost
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _train(
        self,
        machines: _Machines,
        folds: _folds.Together,
        points: list[Settings],
        steps: Any,
        grid: _Grid,
        early: _Grid,
    ) -> None:
        if self.multi_class != "crammer_singer":
            super()._train(machines, folds, points, steps, grid, early)
            return
        effort = self.cv_effort
        plan: dict[str, Any] = {"max_iter": int(self.max_iter), "tol": None}
        if isinstance(effort, Integral):
            plan["max_iter"] = min(int(effort), int(self.max_iter))
        else:
            plan["tol"] = _GAP if isinstance(effort, str) else float(effort)
        rows, seed = machines.rows, PegasosEstimator._seed(self)
        cost = _validate.cost(self.cost, np.arange(max(folds.labels.shape[1], 2)))
        of_folds = list(zip(folds.numbers, folds.labels, strict=True))
        for (place, point), (number, labels) in itertools.product(enumerate(points), of_folds):
            joint = Joint(point, cost, rows.shape[1], f"f{rows.value_bytes}", seed)
            joint.set_rows(labels, folds.weights, None)
            for t, more in enumerate([None] if steps is None else np.diff(steps, prepend=0)):
                where, began = (*machines.where, place), time.perf_counter()
                where += () if steps is None else (t,)
                n_steps = None if more is None else int(more)
                certificate = joint.train(rows, solver=self.solver, n_steps=n_steps, **plan)
                joint.end_plan()
                scores = machines.scores(number, *joint.model())
                _refuse_overflow(scores, joint.dtype, point.lam)
                grid.add(where, number, range(len(labels)), scores)
                grid.add_gap(where, certificate.relative_gap[0])
                grid.epochs[where] = max(grid.epochs[where], joint.n_iter)
                grid.seconds[where] += time.perf_counter() - began


class KernelPegasosClassifierCV(_OfClassifiers, _Kernel):
    __doc__ = f"""Kernel machine with the C and γ that cross-validation finds best.

    Classes × λ × folds are trained as sets of problems over one kernel matrix for each γ.

    Parameters
    ----------
{_DOC["what"]}
{_GAMMAS_DOC}
{_DOC["rest"]}
    kernel, degree, coef0, kernel_params, assume_psd, cache_size, n_jobs
        As in `KernelPegasosClassifier`.
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `PegasosClassifier`.
    penalize_intercept, intercept_scaling, multi_class, class_weight, random_state, verbose
        As in `PegasosClassifierCV`.

    Attributes
    ----------
{_DOC["attributes"]}
    gamma_ : float or str
        The best γ.
    best_estimator_ : KernelPegasosClassifier
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pegasos import KernelPegasosClassifierCV
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> search = KernelPegasosClassifierCV(Cs=[0.1, 1, 10], random_state=0).fit(X, y)
    >>> print(f"C {{search.C_:g}}, γ {{search.gamma_:.2f}}, accuracy {{search.best_score_:.3f}}")
    C 10, γ 0.90, accuracy 0.960
    """

    _best, _checks = KernelPegasosClassifier, _parameters.KERNEL_SEARCH

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] | None = None,
        lams: int | Sequence[float] | None = None,
        gammas: Sequence[float | str] | None = None,
        loss: str = "hinge",
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        refit: bool = True,
        one_standard_error: bool = False,
        cv_effort: float | str = "auto",
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        assume_psd: bool = False,
        cache_size: float = 1000,
        solver: str = "auto",
        tol: float | str | None = "auto",
        max_iter: int = 1000,
        n_steps: int | Sequence[int] | None = None,
        batch_size: int = 1,
        sampling: str = "permutation",
        project: bool = False,
        average: bool | str = False,
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: str = "ovr",
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lams = lams
        self.loss = loss
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.one_standard_error = one_standard_error
        self.cv_effort = cv_effort
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.assume_psd = assume_psd
        self.cache_size = cache_size
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.sampling = sampling
        self.project = project
        self.average = average
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _rounds(self, n_folds: int, n_problems: int, n_rows: int) -> list[range]:
        is_long = n_problems > 1 and n_problems * n_rows**2 > _FEW
        if self._is_automatic and self.scoring in (None, "accuracy") and is_long and n_folds > 2:
            return [range(1), range(1, n_folds)]
        return super()._rounds(n_folds, n_problems, n_rows)


class PegasosRegressorCV(_OfRegressors, _Linear):
    __doc__ = f"""Linear regression with the C that cross-validation finds best.

    Outputs × λ × folds are trained as sets of problems over shared rows.

    Parameters
    ----------
{_TARGETS_DOC["what"]}
{_TARGETS_DOC["rest"]}
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `PegasosRegressor`.
    penalize_intercept, intercept_scaling, n_jobs, random_state
        As in `PegasosRegressor`.
    verbose : int, default=0
        1: show progress on standard error.

    Attributes
    ----------
{_TARGETS_DOC["attributes"]}
    best_estimator_ : PegasosRegressor
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pegasos import PegasosRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = PegasosRegressorCV(penalize_intercept=False, random_state=0).fit(X, y)
    >>> print(f"C {{search.C_:g}}, R2 {{search.best_score_:.2f}}")
    C 1280, R2 0.48
    """

    _best, _checks = PegasosRegressor, _parameters.LINEAR_REGRESSION_SEARCH

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] | None = None,
        lams: int | Sequence[float] | None = None,
        epsilons: Sequence[float] | None = None,
        loss: str = "epsilon_insensitive",
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        refit: bool = True,
        one_standard_error: bool = False,
        cv_effort: float | str = "auto",
        solver: str = "auto",
        tol: float | str | None = "auto",
        max_iter: int = 1000,
        n_steps: int | Sequence[int] | None = None,
        batch_size: int = 1,
        sampling: str = "permutation",
        project: bool = False,
        average: bool | str = False,
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        intercept_scaling: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lams = lams
        self.epsilons = epsilons
        self.loss = loss
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.one_standard_error = one_standard_error
        self.cv_effort = cv_effort
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.sampling = sampling
        self.project = project
        self.average = average
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class KernelPegasosRegressorCV(_OfRegressors, _Kernel):
    __doc__ = f"""Kernel regression with the C, γ and ε that cross-validation finds best.

    Outputs × λ × folds are trained as sets of problems over one kernel matrix for each γ.

    Parameters
    ----------
{_TARGETS_DOC["what"]}
{_GAMMAS_DOC}
{_TARGETS_DOC["rest"]}
    kernel, degree, coef0, kernel_params, assume_psd, cache_size, n_jobs
        As in `KernelPegasosRegressor`.
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `KernelPegasosRegressor`.
    penalize_intercept, intercept_scaling, random_state, verbose
        As in `PegasosRegressorCV`.

    Attributes
    ----------
{_TARGETS_DOC["attributes"]}
    gamma_ : float or str
        The best γ.
    best_estimator_ : KernelPegasosRegressor
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold
    >>> from pegasos import KernelPegasosRegressorCV
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    >>> folds = KFold(5, shuffle=True, random_state=0)
    >>> search = KernelPegasosRegressorCV(epsilons=[0.1, 0.3], cv=folds, random_state=0).fit(X, y)
    >>> print(f"C {{search.C_:g}}, γ {{search.gamma_:.2f}}, R2 {{search.best_score_:.3f}}")
    C 10, γ 0.33, R2 0.988
    """

    _best, _checks = KernelPegasosRegressor, _parameters.KERNEL_REGRESSION_SEARCH

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] | None = None,
        lams: int | Sequence[float] | None = None,
        gammas: Sequence[float | str] | None = None,
        epsilons: Sequence[float] | None = None,
        loss: str = "epsilon_insensitive",
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        refit: bool = True,
        one_standard_error: bool = False,
        cv_effort: float | str = "auto",
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        assume_psd: bool = False,
        cache_size: float = 1000,
        solver: str = "auto",
        tol: float | str | None = "auto",
        max_iter: int = 1000,
        n_steps: int | Sequence[int] | None = None,
        batch_size: int = 1,
        sampling: str = "permutation",
        project: bool = False,
        average: bool | str = False,
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        intercept_scaling: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lams = lams
        self.epsilons = epsilons
        self.loss = loss
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.one_standard_error = one_standard_error
        self.cv_effort = cv_effort
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.assume_psd = assume_psd
        self.cache_size = cache_size
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.sampling = sampling
        self.project = project
        self.average = average
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
