"""Searches over rows that are larger than memory: all λ and all folds share the same passes."""

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.estimators import _grid
from pegasos.estimators._base import Data
from pegasos.estimators._folds import Fold
from pegasos.io._blocks import Blocks
from pegasos.io._checkpoint import CheckpointDue
from pegasos.problems import _rows, _validate
from pegasos.solvers import _block_schedule


class BlockFolds:
    """Problems for every λ, every fold and every class or output, in this order.

    Row number i of the blocks, whose rows are in random order, is tested in fold i modulo the
    number of folds. `read` is the result of `LinearMachine._read_blocks`; `data` then has y, codes
    and weights of all rows, and `folds` the test rows of each fold.
    """

    def __init__(self, blocks: Blocks, read: tuple[Data, Any, Any, Any], n_folds: int) -> None:
        data, self._targets, masses, n_inside = read
        self.blocks, self.n_folds, self.n_problems, n = blocks, n_folds, len(masses), len(blocks)
        if n < n_folds:
            raise ValueError(
                f"{_validate.parameter('cv', n_folds)} needs {n_folds} rows at least, but there "
                f"are {n}"
            )
        self.masses, self.n_inside = np.tile(masses, (n_folds, 1)), np.tile(n_inside, (n_folds, 1))
        y, sample_weights, weights = [], [], []
        for part in blocks.parts():
            y.append(blocks.labels(part.y))
            labels, own, _ = self._targets(part.y, part.weights, part.numbers)
            sample_weights.append(None if part.weights is None else part.weights.copy())
            weights.append(own)
            for k in range(n_folds):
                is_test = part.numbers % n_folds == k
                inside = labels[:, is_test] != 0
                of_rows = 1.0 if own is None else own[is_test]
                self.masses[k] -= (inside * of_rows).sum(axis=1)
                self.n_inside[k] -= inside.sum(axis=1)
        if (self.n_inside <= 0).any():
            raise ValueError("cv: a fold leaves no row of weight to learn from")
        whole = np.concatenate(y)
        codes = None if data.classes is None else np.searchsorted(data.classes, whole)
        self.data = dataclasses.replace(
            data, y=whole, codes=codes, sample_weight=_concatenated(sample_weights),
            weights=_concatenated(weights),
        )  # fmt: skip
        nothing = np.zeros(0, bool)
        self.folds = [Fold(nothing, None, np.arange(k, n, n_folds)) for k in range(n_folds)]

    def search(
        self, search: Any, machine: Any, lams: np.ndarray, where: tuple[int, ...],
        grid: _grid.Grid, state: dict[str, np.ndarray], show: Callable[[Any], None],
    ) -> None:  # fmt: skip
        """Train the problems of all λ, and give `grid` their scores.

        `machine` has the parameters of all problems, and `where` is its place in the axes before
        the axis of λ. If `state` is not empty, the search goes on from it. `show` gets a function
        that returns the progress. Checkpoints of `search` are written now and then, and at the end.
        """
        began, effort = time.perf_counter(), search.cv_effort
        by_epochs, most, total = isinstance(effort, Integral), machine.max_iter, 0
        if by_epochs or effort == "auto":
            most = int(min(_grid.MOST_EPOCHS if effort == "auto" else effort, most))
            total = most * grid.epochs[..., 0].size
        schedule = self._schedule(machine, lams)
        if state:
            schedule.restore(state)

        def write(state: dict[str, np.ndarray]) -> None:
            nonlocal began
            now = time.perf_counter()
            grid.seconds[where] += (now - began) / len(lams)
            began = now
            if search._checkpoints is not None:
                stands = where, schedule.n_iter, schedule.progress()[0]
                search._checkpoints.write(search, grid.state() | state, stands)

        def progress() -> tuple[float, int, str]:
            now, _, note = schedule.progress()
            before = np.minimum(grid.epochs[..., 0], most).sum()
            return before + min(now, most), total, note

        def on_progress() -> None:
            show(progress)
            if search._checkpoints is not None:
                search._checkpoints.watch()

        certificate = None
        while certificate is None:
            try:
                certificate = schedule.train(
                    self.blocks, n_threads=machine._n_threads(), on_progress=on_progress,
                    max_iter=most,
                    tol=None if by_epochs else _grid.ROUGH if effort == "auto" else float(effort),
                )  # fmt: skip
            except CheckpointDue:
                write(schedule.state())
            except KeyboardInterrupt:
                _core.defer_interrupt(functools.partial(write, schedule.state()))
                raise
        shape = len(lams), self.n_folds, self.n_problems
        coef, intercept = schedule.model()
        coef, intercept = coef.reshape(*shape, -1), intercept.reshape(shape)
        kept = self._scores(coef, intercept)
        for place, k in itertools.product(range(len(lams)), range(self.n_folds)):
            which = slice(place * self.n_problems, (place + 1) * self.n_problems)
            own = np.empty((len(self.folds[k].test), self.n_problems))
            for j, scores in enumerate(kept.each(which)):
                own[:, j] = scores[k :: self.n_folds]
            _validate.no_overflow(lams[place], own)
            grid.add((*where, place), k, range(self.n_problems), own)
        grid.gaps[where] = certificate.proved_gap.reshape(len(lams), -1).max(axis=1)
        grid.epochs[where] = schedule.n_iter
        write({})

    def _schedule(self, machine: Any, lams: np.ndarray) -> Any:
        settings, n_each = machine._settings_for(lams[0], self.data), self.masses.size
        of_each = {"lam_of_each": tuple(np.repeat(lams, n_each).tolist())}
        if len(settings.units) > 1:
            of_each["units"] = settings.units * (len(lams) * self.n_folds)
        return _block_schedule.schedule(
            machine.solver, dataclasses.replace(settings, **of_each), self.blocks,
            self._all(len(lams)), np.tile(self.masses.ravel(), len(lams)),
            np.tile(self.n_inside.ravel(), len(lams)), machine._seed(),
        )  # fmt: skip

    def _scores(self, coef: np.ndarray, intercept: np.ndarray) -> _block_schedule.PerRowArray:
        """Scores of all rows by problems that leave them out, for each λ and class or output."""
        n_lams, n_folds, n_problems, _ = coef.shape
        kept = _block_schedule.PerRowArray(self.blocks, n_lams * n_problems)
        for part in self.blocks.parts():
            rows, numbers = part.rows(), part.numbers
            scores = np.empty((n_lams * n_problems, len(numbers)))
            for k in range(n_folds):
                which = np.flatnonzero(numbers % n_folds == k)
                own = coef[:, k].reshape(n_lams * n_problems, -1), intercept[:, k].ravel()
                scores[:, which] = _rows.decision_function(rows, *own, which).T
            for whole, of_part in zip(kept.each(), scores, strict=True):
                whole[numbers] = of_part
        return kept

    def _all(self, n_lams: int) -> Any:
        """The `TargetMaker` for the problems of `n_lams` values of λ."""

        def targets(
            y: np.ndarray, weights: Any, numbers: np.ndarray
        ) -> tuple[np.ndarray, Any, Any]:
            labels, weights, values = self._targets(y, weights, numbers)
            folds = [labels * (numbers % self.n_folds != k) for k in range(self.n_folds)]
            if values is not None:
                values = np.tile(values, (n_lams * self.n_folds, 1))
            return np.tile(np.concatenate(folds), (n_lams, 1)), weights, values

        return targets


def _concatenated(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)
