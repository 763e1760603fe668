"""Training in a search: sets of problems × λ × folds, and the grid of their scores.

The problems are those of classes or outputs. In a fold, test rows have the label 0. So all folds
share X, one kernel matrix serves all problems with one γ, and X is checked and encoded once. A
search by epochs trains machines in bundles or sets over one order of rows. A search to a gap goes
from the largest λ to the smallest, and begins each λ where the last one ended.
"""

import collections
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.estimators import _folds
from pegasos.problems import _rows, _validate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers import _pegasos, _schedule, _state
from pegasos.solvers._joint import JointSchedule
from pegasos.solvers._linear import LinearSolver
from pegasos.solvers._schedule import Schedule

# The most bytes for the state of a set of problems; larger sets are split.
_SET_BYTES = 2**30
# cv_effort="auto" certifies machines to the gap ROUGH if Newton's method is likely to take at most
# _SECONDS for all of them, and less than dual ascent, by the costs that solvers state. On a path of
# λ, machines begin near their optimum, and take _WARM of the time of a cold start.
ROUGH, _SECONDS, _WARM = 0.05, 1.0, 0.1
# Otherwise it makes epochs, see `_make_epochs`: first LEAST_EPOCHS, or as many as are likely to
# take _AFFORDED seconds, and at most MOST_EPOCHS. An epoch costs _PASSES passes over its rows.
LEAST_EPOCHS, MOST_EPOCHS, _AFFORDED, _PASSES = 2, 16, 0.1, 3
# Regressors make MOST_EPOCHS, unless all are likely to be certified within this many seconds.
_SECONDS_OF_REGRESSORS = 0.03
# Kernel machines of several classes are dropped after the first fold if their score there is this
# many standard errors below the best one.
_SURELY = 4


@dataclasses.dataclass(frozen=True)
class Machines:
    """Trains and scores machines over one set of rows, or one kernel matrix."""

    solver_class: type[LinearSolver]
    X: Any
    rows: Any  # X in the form of the schedule; a `ColumnCache` for kernel machines
    dtype: Any

    @property
    def is_linear(self) -> bool:
        return self.solver_class is LinearSolver

    def schedule(self, settings: Settings, n_problems: int, seed: int) -> Schedule:
        return Schedule(
            self.solver_class, settings, n_problems, self.rows.shape[1], self.dtype, seed
        )

    def scores(
        self, tests: list[np.ndarray], coef: np.ndarray, intercept: np.ndarray
    ) -> list[np.ndarray]:
        """Scores of the test rows of folds; `coef` has equally many problems for each, in turn."""
        if self.is_linear:
            return _rows.scores_of_groups(self.rows, coef, intercept, tests)
        n = len(tests)
        of_folds = zip(tests, np.split(coef, n), np.split(intercept, n), strict=True)
        return [self.rows.scores_of(own, None)[:, test].T + b for test, own, b in of_folds]

    def narrowed(self) -> "Machines":
        """Linear machines over sparse rows in single precision, if it tells rows apart."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            is_wide = self.rows.value_bytes == 8 and self.rows.is_sparse
            if not (is_wide and _rows.survives_rounding(self.X)):
                return self
            return dataclasses.replace(self, rows=_rows.narrowed(self.rows), dtype=np.float32)


class Grid:
    """Scores of the points of a grid in every fold, and certified gaps.

    `score` makes a number from a place, a fold and the scores (n_test, n_problems) of its test
    rows. `on_scored` gets the number of scored folds and of all folds to score.
    """

    def __init__(
        self,
        shape: Any,
        n_folds: int,
        n_problems: int,
        score: Callable[..., float],
        on_scored: Callable[[int, int], None],
    ) -> None:
        self.scores = np.full((*shape, n_folds), np.nan)
        self.gaps = np.full(shape, np.nan)
        self.epochs = np.zeros(shape, np.int64)
        self.seconds = np.zeros(shape)
        self.dropped = np.zeros(shape, bool)
        self._n_problems, self._score, self._on_scored = n_problems, score, on_scored
        self._waiting: dict[Any, dict[int, np.ndarray]] = {}
        self._n_scored, self.n_expected = 0, self.scores.size  # folds of points

    def state(self) -> dict[str, np.ndarray]:
        """The arrays of the results so far."""
        return {name: getattr(self, name) for name in ("scores", "gaps", "epochs", "seconds")}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Take over the arrays of a `state`, if there are any; returns other arrays."""
        if arrays:
            for name, array in self.state().items():
                _state.same_kind(name, arrays.get(name), array)
                setattr(self, name, np.array(arrays[name]))
        return {name: array for name, array in arrays.items() if name not in self.state()}

    def add(self, where: tuple[int, ...], fold: int, problems: Any, scores: np.ndarray) -> None:
        """Take scores of a fold's test rows by some of its problems; score them when complete.

        They are then released: scores of all folds at all places could take as much room as X.
        """
        waiting = self._waiting.setdefault((where, fold), {})
        waiting.update(zip(problems, scores.T, strict=True))
        if len(waiting) < self._n_problems:
            return
        del self._waiting[where, fold]
        scores = np.stack([waiting[k] for k in range(self._n_problems)], axis=1)
        self.scores[(*where, fold)] = self._score(where, fold, scores)
        self._n_scored += 1
        self._on_scored(self._n_scored, self.n_expected)

    def drop(self, folds: Sequence[int], sizes: np.ndarray) -> None:
        """Drop points whose accuracy on some folds is surely below that of the best point.

        The variance of a share p of n rows is p (1 - p)/n. Because p is an estimate, two rows of
        either kind are added (Agresti and Coull, The American Statistician 52, 1998). As points are
        tested on the same rows, their difference varies less than the sum of both.
        """
        few = sizes[folds]
        n = few.sum() + 4
        share = (self.scores[..., folds] @ few + 2) / n
        variance = share * (1 - share) / n
        best = np.unravel_index(np.argmax(share), share.shape)
        self.dropped = share < share[best] - _SURELY * np.sqrt(variance + variance[best])
        self.n_expected -= int(np.isnan(self.scores[self.dropped]).sum())

    @np.errstate(invalid="ignore")  # scores may be infinite
    def adopt_if_better(self, other: "Grid") -> bool:
        """If `other` is better by over a standard error, take over its results and return True."""
        if np.isnan(other.scores).any():  # it has not run, or a scorer has no number for it
            return False
        mean, theirs = self.scores.mean(axis=-1), other.scores.mean(axis=-1).max()
        best = np.unravel_index(np.argmax(mean), mean.shape)
        if not theirs > mean[best] + standard_errors(self.scores)[best]:
            return False
        vars(self).update(other.state())
        return True

    @np.errstate(invalid="ignore")
    def mean_scores(
        self, where: tuple[int, ...], folds: list[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean scores over some folds at a place on the outer axes, and their standard errors."""
        scores = self.scores[where][..., folds]
        return scores.mean(axis=-1), standard_errors(scores)

    def may_be_best(self, where: tuple[int, ...], folds: list[int]) -> bool:
        """Whether a mean score is at most half a standard error below the best one so far."""
        means, errors = self.mean_scores((), folds)
        best = np.unravel_index(np.argmax(np.nan_to_num(means, nan=-np.inf)), means.shape)
        return bool(means[where] >= means[best] - errors[best] / 2)


def standard_errors(scores: np.ndarray) -> np.ndarray:
    """Standard errors of means over the last axis, independent folds; 0 for one fold."""
    n_folds = scores.shape[-1]
    return scores.std(axis=-1, ddof=n_folds > 1) / np.sqrt(n_folds)


@dataclasses.dataclass
class Training:
    """Problems of folds that are trained together, at every λ; `grid` scores them.

    `run` depends on `cv_effort`:

    - a gap: `_train_lam_path` goes from the largest λ to the smallest;
    - epochs or steps: `_run_ascent` makes epochs of dual ascent in bundles, `_run_pegasos` those of
      Pegasos, or steps;
    - "auto": `_train_as_needed` goes along the path of λ to a gap of 0.05 or less, or makes a few
      epochs.

    Joint problems of all classes are fits of their own (`_train_joint`). For several classes in few
    features, `early` also scores machines after few epochs.
    """

    search: Any  # has the parameters
    machines: Machines
    where: tuple[int, ...]  # the place on the axes before the axis of λ
    folds: _folds.FoldSet
    points: list[Settings]  # one for each λ
    steps: Any  # every T, or None
    seed: int
    n_threads: int
    grid: Grid
    early: Grid

    def __post_init__(self) -> None:
        self.lams = np.array([point.lam for point in self.points])
        self.n_folds, self.n_problems, _ = self.folds.labels.shape
        self.max_iter = int(self.search.max_iter)
        #: Steps from one T to the next, with its place in the grid; without T, a plan of epochs.
        more = [None] if self.steps is None else np.diff(self.steps, prepend=0).tolist()
        self.plans = [(n, () if n is None else (t,)) for t, n in enumerate(more)]

    @np.errstate(under="ignore")
    def run(self) -> None:
        """Train as far as `cv_effort` asks for."""
        effort = self.search.cv_effort
        is_automatic, is_counted = isinstance(effort, str), isinstance(effort, Integral)
        epochs = min(int(effort), self.max_iter) if is_counted else self.max_iter
        if getattr(self.search, "multi_class", None) == "crammer_singer":
            tol = None if is_counted else ROUGH if is_automatic else float(effort)
            self._train_joint(epochs, tol)
        elif self.steps is not None:
            self._run_pegasos(None)
        elif is_automatic:
            self._train_as_needed()
        elif not is_counted:
            self._train_lam_path(self.grid, effort, epochs)
        elif self.machines.is_linear and self.search.solver in ("auto", "sdca"):
            self._run_ascent(np.arange(len(self.points)), epochs)
        else:
            self._run_pegasos(epochs)

    def _train_as_needed(self) -> None:
        """Train as far as needed to find the best λ, since the search was given no effort.

        R² is less exact than accuracy at the same gap. The smallest λ take most epochs and mostly
        score worse. So regressors go to a rough gap in a limited number of epochs; those that may
        be best go on to the gap of fits. With Newton's method, all do, as last digits cost little.
        """
        rows, solver = self.machines.rows, self.search.solver
        is_linear, has_targets = self.machines.is_linear, self.folds.values is not None
        n_machines = self.n_folds * self.n_problems * len(self.points)
        newton, ascent = (
            n_machines * _WARM * rows.seconds(self.points[0].loss.core, method)
            if is_linear
            else np.inf
            for method in (_core.NEWTON, _core.ASCENT)
        )
        is_newton = newton < ascent
        makes_epochs = not is_newton or newton > _SECONDS
        if has_targets:  # smooth losses are soon certified; dense rows allow many epochs
            is_slow = is_linear and rows.is_sparse and self.search.loss == "epsilon_insensitive"
            makes_epochs = is_slow and not is_newton and ascent > _SECONDS_OF_REGRESSORS
        # A single fold cannot tell which λ deserve more epochs.
        if is_linear and makes_epochs and solver == "auto" and self.folds.are_all:
            self._make_epochs()
        elif has_targets and is_newton and solver not in ("pegasos", "sdca"):
            self._train_lam_path(self.grid, _schedule.GAP, self.max_iter)
        elif has_targets and solver != "pegasos":
            self._train_lam_path(self.grid, ROUGH, MOST_EPOCHS, best_go_on=True)
        else:
            self._train_lam_path(self.grid, ROUGH, self.max_iter)
            # Not with class weights: rough machines may score better by ignoring them.
            is_usual = is_linear and not has_targets and solver == "auto"
            if is_usual and self.search.class_weight is None and self.n_problems > 2:
                self._train_lam_path(self.early, None, LEAST_EPOCHS)

    def _make_epochs(self) -> None:
        """Make epochs for all λ, then train those that may be best with more effort."""
        wide, most = self.machines, min(MOST_EPOCHS, self.max_iter)
        self.machines = wide.narrowed()
        if self.folds.values is None:
            self._double_epochs(most)
            self.machines = wide
        else:
            self._run_ascent(np.arange(len(self.points)), most)
            self.machines = wide
            self._finish_best()

    def _double_epochs(self, most: int) -> None:
        """Make few epochs of classifiers, then twice as many for λ that may be best, and so on.

        These λ are within a standard error of the best score. It ends when the best score rises by
        at most half a standard error.
        """
        where, grid, numbers, rows = self.where, self.grid, self.folds.numbers, self.machines.rows
        n_bundles = -(-len(numbers) * self.n_problems // _pegasos.bundle_size(rows))
        each = _PASSES * n_bundles * len(self.points) * _rows.seconds_a_pass(rows)
        epochs = int(np.clip(_AFFORDED / max(each, 1e-9), LEAST_EPOCHS, most))
        places, before = np.arange(len(self.points)), -np.inf
        while True:
            self._run_ascent(places, epochs)
            means, errors = grid.mean_scores(where, numbers)
            best = int(np.argmax(means))
            is_over = not np.isfinite(means).all() or 2 * epochs > most
            if is_over or means[best] - before <= errors[best] / 2:
                return
            before, epochs = means[best], 2 * epochs
            places = np.flatnonzero(means >= means[best] - errors[best])
            grid.n_expected += len(places) * len(numbers)

    @np.errstate(invalid="ignore")  # scores may be infinite
    def _finish_best(self) -> None:
        """Let the best λ of regressors go on to the gap of fits, until the best λ has that gap.

        After few epochs, a λ can seem better than it is. If the best score has risen by more than
        half a standard error, smaller λ may also seem worse than they are. The next smaller one
        then goes on too, as long as this raises the best score by more than that.
        """
        where, grid, numbers = self.where, self.grid, self.folds.numbers
        order, gains, before = np.argsort(-self.lams).tolist(), np.zeros(len(self.points)), -np.inf
        for _ in self.points:
            means, errors = grid.mean_scores(where, numbers)
            best = place = int(np.argmax(np.nan_to_num(means, nan=-np.inf)))
            if not np.isnan(grid.gaps[where][best]):
                smaller = order[order.index(best) + 1 :]
                has_risen = min(gains[best], means[best] - before) > errors[best] / 2
                if not (has_risen and smaller and np.isnan(grid.gaps[where][smaller[0]])):
                    return
                place, before = smaller[0], means[best]
            grid.n_expected += len(numbers)
            self._train_lam_path(grid, _schedule.GAP, self.max_iter, np.array([place]))
            gains[place] = grid.mean_scores(where, numbers)[0][place] - means[place]

    def _run_pegasos(self, epochs: int | None) -> None:
        """Run Pegasos for `epochs` or `steps`, with as many machines in a set as fit in memory."""
        machines, folds, grid, lams = self.machines, self.folds, self.grid, self.lams
        points = self.points
        if self.steps is None and not self.search.average:
            points = [dataclasses.replace(point, average="suffix") for point in points]
        of_training = np.stack([point.lams_of(self.n_problems) for point in points])
        n_at_once = max(1, _SET_BYTES // (24 * sum(machines.rows.shape)))
        n_lams = max(1, n_at_once // (self.n_folds * self.n_problems))
        if machines.is_linear and _pegasos.in_bundles(machines.rows, points[0]):
            # Machines of one class with different λ add mostly the same rows.
            n_at_once = min(n_at_once, self.n_threads * _pegasos.bundle_size(machines.rows))
        for part in np.split(np.arange(len(lams)), range(n_lams, len(lams), n_lams)):
            members = itertools.product(range(self.n_problems), range(self.n_folds), part)
            while some := list(itertools.islice(members, n_at_once)):
                column, fold, place = np.array(some).T
                least = points[place[np.argmin(lams[place])]]
                pegasos = machines.schedule(least.subset(column), len(some), self.seed).pegasos
                pegasos.problems["lam"] = of_training[place, column]
                pegasos.set_rows(*folds.problems(fold, column), count=False)
                for n_steps, of_steps in self.plans:
                    began = time.perf_counter()
                    pegasos.plan(n_steps=n_steps, n_epochs=epochs)
                    pegasos.run(machines.rows, n_threads=self.n_threads)
                    coef, intercept = pegasos.model()
                    for k in np.unique(fold):
                        inside, number = np.flatnonzero(fold == k), folds.numbers[k]
                        (scores,) = machines.scores(
                            [folds.tests[k]], coef[inside], intercept[inside]
                        )
                        # Scorers may fail for scores that are not finite.
                        _validate.no_overflow(least.lam, scores, dtype=pegasos.weights.dtype)
                        for p in np.unique(place[inside]):
                            where, here = (*self.where, p, *of_steps), place[inside] == p
                            grid.epochs[where] = epochs or 0
                            grid.add(where, number, column[inside][here], scores[:, here])
                    each = (time.perf_counter() - began) / len(some)
                    for p in place:
                        grid.seconds[(*self.where, p, *of_steps)] += each

    def _run_ascent(self, places: np.ndarray, epochs: int) -> None:
        """Make epochs of dual ascent in bundles, from the largest λ of `places` to the smallest.

        A machine begins a λ where its last one ended, and is scored by the mean of w over half an
        epoch. If a bundle has room for several machines of each fold, they take turns at the λ.
        """
        machines, folds, grid, lams = self.machines, self.folds, self.grid, self.lams
        rows, settings = machines.rows, self.points[int(np.argmin(lams))]
        size = _pegasos.bundle_size(rows)
        finite = functools.partial(
            _validate.no_overflow, settings.lam, dtype=np.dtype(f"f{rows.value_bytes}")
        )
        finite(rows.squared_norms())
        of_training = np.stack([point.lams_of(self.n_problems) for point in self.points])
        found: collections.deque[tuple[float, list[Any]]] = collections.deque()

        def follow(
            members: list[tuple[int, int, int]], order: np.ndarray, on_poll: Callable[[], None]
        ) -> None:
            fold, column, turn = np.array(members).T
            labels, weights, values = folds.problems(fold, column)
            problem = Problem(labels, weights, settings.subset(column), values)
            path = _core.LamPath(rows, problem.targets, seed=self.seed)
            if values is not None and settings.free_intercept:
                path.problems["intercept"] = problem.constants[0]  # too far away for small steps
            n_turns = int(turn.max()) + 1
            for number, first in enumerate(range(0, len(order), n_turns), 1):
                began, of_machines = time.perf_counter(), []
                is_left = first + turn < len(order)
                place = order[np.where(is_left, first + turn, first)]
                path.run(of_training[place, column], number * epochs, _core.Watch(on_poll))
                coef, factor, intercept = path.model()
                for k in np.unique(fold):
                    (scores,) = machines.scores([folds.tests[k]], coef, np.zeros(size))
                    for p in order[first : first + n_turns]:
                        here = np.flatnonzero((fold == k) & (place == p) & is_left)
                        of_place = factor[here] * scores[:, here] + intercept[here]
                        finite(of_place)
                        of_machines.append((p, folds.numbers[k], column[here], of_place))
                found.append((time.perf_counter() - began, of_machines))

        def add_found() -> None:  # in the calling thread: the user's scorers may need that
            while found:
                seconds, of_machines = found.popleft()
                for place, *of_fold in of_machines:
                    where = (*self.where, place)
                    grid.epochs[where] = epochs
                    grid.seconds[where] += seconds / len(of_machines)
                    grid.add(where, *of_fold)

        order = places[np.argsort(-lams[places], kind="stable")]
        jobs = [functools.partial(follow, *job) for job in self._ascent_jobs(order, size)]
        _core.run_jobs(jobs, self.n_threads, add_found)
        add_found()

    def _ascent_jobs(
        self, order: np.ndarray, size: int
    ) -> list[tuple[list[tuple[int, int, int]], np.ndarray]]:
        """The machines of each bundle of at most `size`, and the places on the path of λ.

        A machine is a fold, a column and its turn. Machines of one fold are in one bundle if
        possible, since they are scored on the same rows. Machines of a bundle share targets, so
        each output has its own bundles, and its scores do not depend on others. A single bundle
        would leave a second thread without work: it is split into two halves of the path.
        """
        columns, parts = np.arange(self.n_problems)[None], []
        if self.folds.values is not None:
            columns = columns.T
        n_turns = min(max(1, size // (self.n_folds * columns.shape[1])), len(order))
        for some in columns:
            members = list(itertools.product(range(self.n_folds), some, range(n_turns)))
            parts += [members[k : k + size] for k in range(0, len(members), size)]
        is_one = len(parts) == len(columns)
        paths = np.array_split(order, 2 if is_one and n_turns < len(order) else 1)
        return list(itertools.product(parts, paths))

    def _train_lam_path(
        self, grid: Grid, tol: float | None, most: int, places: Any = slice(None),
        *, best_go_on: bool = False,
    ) -> None:  # fmt: skip
        """Train from the largest λ to the smallest, to a gap or for `most` epochs.

        Each λ goes on from the last (`Schedule.at_lam`); without a gap, it begins at 0. Dropped
        points are left out. `best_go_on`: machines whose mean score is at most half a standard
        error below the best one so far go on to the gap of fits.
        """
        machines, folds, schedule = self.machines, self.folds, None
        members = np.arange(self.n_folds * self.n_problems)
        fold, column = np.divmod(members, self.n_problems)
        places = np.arange(len(self.lams))[places]
        places = places[np.argsort(-self.lams[places])]
        for place in places[~grid.dropped[self.where][places]]:
            point, began, where = self.points[place], time.perf_counter(), (*self.where, place)
            if schedule is None or tol is None:
                schedule = machines.schedule(point.subset(column), len(members), self.seed)
                schedule.set_rows(*folds.problems(fold, column))
            else:
                schedule = schedule.at_lam(point.lam)
            certificate = self._train(schedule, where, tol, most, grid)
            if best_go_on and grid.may_be_best(where, folds.numbers):
                grid.n_expected += self.n_folds
                certificate = self._train(schedule, where, _schedule.GAP, self.max_iter, grid)
            self._note(grid, where, began, certificate, schedule.n_iter)

    def _train(
        self, schedule: Schedule, where: tuple[int, ...], tol: float | None, most: int, grid: Grid
    ) -> Any:
        """Train the machines of a place to a gap, in at most `most` epochs, and score them."""
        machines, folds = self.machines, self.folds
        certificate = schedule.train(
            machines.rows, solver=self.search.solver, tol=tol, check="last",
            max_iter=min(most, self.max_iter), n_threads=self.n_threads,
        )  # fmt: skip
        (coef, intercept), solver = schedule.model(), schedule.finisher
        known = None if solver is None or machines.is_linear else solver.scores_of_model()
        if known is None:
            scores = machines.scores(folds.tests, coef, intercept)
        else:
            of_folds = zip(folds.tests, np.split(known, self.n_folds), strict=True)
            scores = [of_fold[:, test].T for test, of_fold in of_folds]
        for number, of_fold in zip(folds.numbers, scores, strict=True):
            _validate.no_overflow(self.points[where[-1]].lam, of_fold)
            grid.add(where, number, range(self.n_problems), of_fold)
        return certificate

    def _train_joint(self, epochs: int, tol: float | None) -> None:
        """Train the joint problem of each fold and λ, each a fit of its own, for `epochs`."""
        machines, rows, search = self.machines, self.machines.rows, self.search
        cost = _validate.cost(search.cost, np.arange(max(self.n_problems, 2)))
        folds = self.folds
        of_folds = list(zip(folds.numbers, folds.labels, folds.tests, strict=True))
        of_points = itertools.product(enumerate(self.points), of_folds)
        for (place, point), (number, labels, test) in of_points:
            joint = JointSchedule(point, cost, rows.shape[1], f"f{rows.value_bytes}", self.seed)
            joint.set_rows(labels, folds.weights, None)
            for n_steps, of_steps in self.plans:
                where, began = (*self.where, place, *of_steps), time.perf_counter()
                certificate = joint.train(
                    rows, solver=search.solver, n_steps=n_steps, max_iter=epochs, tol=tol
                )
                joint = joint.ended()
                (scores,) = machines.scores([test], *joint.model())
                _validate.no_overflow(point.lam, scores, dtype=joint.dtype)
                self.grid.add(where, number, range(len(labels)), scores)
                self._note(self.grid, where, began, certificate, joint.n_iter)

    @staticmethod
    def _note(grid: Grid, where: Any, began: float, certificate: Any, n_epochs: int) -> None:
        """Note the gap, the epochs and the seconds of the machines of a place."""
        grid.gaps[where] = np.fmax(grid.gaps[where], certificate.relative_gap.max())
        grid.epochs[where] = max(grid.epochs[where], n_epochs)
        grid.seconds[where] += time.perf_counter() - began
