"""Dual coordinate ascent for kernel machines, over a kernel matrix that need never be held whole.

``csrc/kernel_ascent.c`` has the algorithm, the gap checks and when to stop; here are the arrays,
and the kernel values that it asks for.
"""

import functools
import itertools
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._threads import blas, by_pieces, uninterrupted
from pegasos.problems import _certificate
from pegasos.problems._problem import Problem
from pegasos.solvers import _pegasos
from pegasos.solvers._ascent import blank_ascents, features_of
from pegasos.solvers._kernel_pegasos import check_convex
from pegasos.solvers._pegasos import Settings
from pegasos.solvers._solver import SAFELY, Solver

#: Layout of where a problem's run stands, that of ``struct pegasos_kernel_run``.
RUN = np.asarray(_core.BLANK_KERNEL_RUN).dtype

# Rows that go in one block; of more, rows of the first block, and of the last one at most.
_ONE_BLOCK, _FIRST_BLOCK, _LAST_BLOCK = 512, 256, 2048
# A gap that is proved once more, and is above this part of what it was, hardly gets smaller.
_HARDLY = 0.9
# Problems over a whole matrix with fewer numbers than this in all are not worth another thread;
# each thread has so many groups of them in turn.
_FEW, _GROUPS = 2**20, 8


class KernelAscent(Solver):
    """Dual coordinate ascent on kernel problems.

    `coef` is beta, w = sum_j beta_j phi(x_j); `scores` holds, for every problem, the scores of all
    rows without the intercept, and `active` the rows that are still to come in the epoch under way.
    """

    name, checks_are_whole = "sdca", True
    _ARRAYS = (*Solver._ARRAYS, "ascents", "runs", "scores", "active")

    @staticmethod
    def cost(rows: Any) -> float:
        """Less than any other: it asks for few columns, for a first solution at least."""
        return 0

    @staticmethod
    def ends_exactly(rows: Any) -> bool:
        """By steps on pairs."""
        return rows.is_positive

    @staticmethod
    def begins_with_pegasos(rows: Any) -> bool:
        """Whether there is a dual: its own first epoch is Pegasos, with steps of exact length.

        An epoch of plain Pegasos asks for the column of every row that was a violator once; blocks
        ask for the columns of those that still are when they end.
        """
        return rows.is_positive

    @property
    def has_dual(self) -> bool:
        return self.rows.is_positive

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, n_rows, seed)
        self.ascents = blank_ascents(n_problems, seed)
        self.runs = np.zeros(n_problems, RUN)
        self.runs["primal"] = self.runs["relative_gap"] = np.inf
        for name in set(RUN.names or ()) & set(self._ARRAYS):  # the core writes them, too
            setattr(self, name, self.runs[name])
        self.scores = np.zeros((n_problems, n_rows))
        self.active = np.zeros((n_problems, n_rows), np.int64)

    def begin(self, problem: Problem, start: Any = None) -> Any:
        start = super().begin(problem, start)
        rows, labels, is_free = problem.rows, problem.labels, self.settings.free_intercept
        check_convex(self.settings, rows)
        self.norms = rows.points.diagonal()
        self.ascents["scale"] = 1 / (self.settings.lam * self.mass)
        self.ascents["intercept_scaling"] = features_of(problem, self.norms)
        self.ascents["loss"] = self.settings.loss.number
        for name, value in (
            ("lam", self.settings.lam), ("mass", self.mass), ("n_inside", self.n_inside),
            ("free_intercept", is_free),
        ):  # fmt: skip
            self.runs[name] = value
        if start is None:
            return
        # From a = 0, the first epoch is one of Pegasos, with steps of exact length.
        is_zero = np.asarray(self.a.any(axis=1) == 0)
        self.ascents["pegasos_mass"] = np.where(is_zero, self.mass, 0)
        self.runs["part"] = np.where(is_zero, 0, _core.KERNEL_CHECK)
        # What is left of an epoch, and of its last block, is of the rows of before.
        for name in ("longest", "n_active", "n_rest", "m"):
            self.runs[name] = 0
        beta = self.ascents["scale"][:, None] * self.a * labels
        if len(start) > 3:
            self.scores[...] = start[3]
        else:
            self.scores[...] = 0 if is_zero.all() else rows.scores(beta[None], labels)[0]
        self.ascents["constant_weight"] = self.ascents["intercept_scaling"] * beta.sum(axis=1)
        if is_free:
            self.ascents["intercept"] = _certificate.best_intercepts_of(problem, self.scores)
        self._forget_all_but_zero(slice(None))
        self.relative_gap[is_zero] = self.primal[is_zero] > 0  # the dual value of a = 0 is 0

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """Run all problems, in threads unless they add columns to one cache."""
        self._n_threads, rows = None, self.rows
        self._rooms: list[np.ndarray] = []  # to be used again: new memory takes time when written
        self.is_at_rounding[:] = False
        self.runs["is_positive"] = rows.is_positive
        self.runs["by_epochs"] = self.by_epochs
        try:
            with blas.one_thread():
                if rows.is_small:
                    if not rows.is_divided_by(self.labels):
                        rows.keep(np.arange(len(rows.points)))
                    most = n_threads if rows.size * len(self.a) > _FEW else 1
                elif rows.is_divided_by(self.labels):
                    most, self._n_threads = rows.side_by_side(len(self.a))
                else:
                    most = 1
                super().run(tol, max_iter, n_threads=min(n_threads, most), on_progress=on_progress)
        finally:
            self._rooms.clear()

    def _jobs(self, tol: float | None, last: np.ndarray, n_threads: int) -> list[Any]:
        if not self.rows.is_small:
            return super()._jobs(tol, last, n_threads)
        n = len(self.a)
        n_groups = 1 if n_threads == 1 else min(n, _GROUPS * n_threads)
        if self.by_epochs:  # what is told of each is not to take all of them with it
            n_groups = n
        ends = [n * k // n_groups for k in range(n_groups + 1)]
        return [
            by_pieces(functools.partial(self._improve_group, slice(*pair), tol, last))
            for pair in itertools.pairwise(ends)
        ]

    def _improve_group(self, group: slice, tol: float | None, last: np.ndarray) -> Generator[None]:
        """Run problems over a whole matrix, one after the other."""
        self._set_goal(group, tol, last[group])
        if not self.rows.is_divided_by(self.labels):
            yield from self._ascend(group, self.rows)
            return
        parts = self.rows.parts(self.labels)
        first = parts.first[group.start : group.stop + 1]
        some = slice(first[0], first[-1])
        yield from self._ascend(
            group, parts.cache, parts.rows[some], parts.inside[some], first - first[0]
        )

    def _set_goal(self, group: slice, tol: float | None, last: Any) -> None:
        self.runs["tol"][group] = -1 if tol is None else SAFELY * tol
        self.runs["last_epoch"][group] = last

    def _improve(self, k: int, tol: float | None, last: int) -> Generator[None]:
        self._set_goal(slice(k, k + 1), tol, last)
        if self.runs["part"][k] != _core.KERNEL_CHECK and (
            last <= self.n_epochs[k] or self._is_done(k, tol)
        ):
            return
        inside, cache = self.rows.inside(self.labels[k], self._n_threads)
        rows, proved = None if cache is self.rows else inside, np.inf
        while True:
            yield from self._ascend(slice(k, k + 1), cache, rows)
            if cache is self.rows or not len(cache.points):
                return
            # Once more, without running sums, while columns are at hand.
            self._certify(k, inside, cache)
            if self._is_done(k, tol):
                return
            self.is_at_rounding[k] = self.relative_gap[k] > _HARDLY * proved
            if self.n_epochs[k] >= last or self.is_at_rounding[k]:
                return
            proved = self.relative_gap[k]

    def _ascend(
        self, group: slice, cache: Any, rows: Any = None, inside: Any = None, first: Any = None
    ) -> Generator[None]:
        """Bring problems to the end of their runs.

        Parameters
        ----------
        group : slice
            Of problems; of a cache that is not whole, one problem.
        cache : pegasos.kernels.ColumnCache
        rows : ndarray of int64, optional
            The rows of each, one problem after the other. None: all.
        inside : ndarray of int64, optional
            What numbers these have in `cache`. None: each problem has all that are in it.
        first : ndarray of int64, optional
            Where the rows of each problem begin in these lists, and the last ones end.
        """
        points, runs, n = cache.points, self.runs[group], self.a.shape[1]
        numbers = np.arange(group.start, group.stop)
        if first is None:
            first = len(points) * np.arange(len(numbers) + 1)
        counts = np.diff(first)
        if (m := int(counts.max())) == 0:
            return
        mine, shared = slice(n * group.start, n * group.stop), slice(None)
        if rows is not None:
            mine, shared = rows + n * np.repeat(numbers, counts), rows
        if is_whole := cache.is_small:
            cache.keep(np.arange(len(points)))
        runs["is_whole"], runs["last_block"] = is_whole, np.minimum(counts, _LAST_BLOCK)
        runs["first_block"] = np.where(counts <= _ONE_BLOCK, counts, _FIRST_BLOCK)
        runs["by_pairs"] = cache.holds_all and self.rows.is_positive and not points.is_cheap
        wanted, which = np.zeros(len(points), np.int8), np.empty(m, np.int64)
        change, pushed = np.empty((2, m))
        room = self._room(m, inside is not None, points.dtype) if is_whole else None
        state: list[Any] = [self.a, self.scores, self.coef, self.active]
        state = [array.reshape(-1) for array in state]
        own = [array[mine] for array in state]  # copies, where some rows are not inside
        ascent = _core.KernelAscent(
            _core.kernel_block(cache.columns, cache.place, wanted), self.ascents[group], runs,
            first, inside, self.labels.reshape(-1)[mine],
            None if self.row_weights is None else self.row_weights[shared], self.norms[shared],
            own[0], own[1], own[2], own[3], which, change, pushed, room,
        )  # fmt: skip

        def put_back() -> None:
            if rows is not None:
                for array, part in zip(state, own, strict=True):
                    array[mine] = part

        given, status = None, _core.RUNNING
        try:
            while status != _core.DONE:
                with uninterrupted():
                    status = ascent.advance(given, _pegasos.numbers_per_call())
                    if self.by_epochs or status == _core.DONE:
                        put_back()
                if status == _core.WANTS_BLOCK:
                    keeps = bool(runs["by_pairs"][0] and runs["n_epochs"][0])
                    given = self._block(which[: runs["m"][0]], cache, keeps)
                elif status == _core.WANTS_COLUMNS:
                    cache.keep(np.flatnonzero(wanted))
                    wanted[:] = 0
                elif status == _core.WANTS_SCORES:
                    changed = np.flatnonzero(change)
                    pushed[:] = cache.push(change[None, changed], changed)[0]
                yield
        finally:
            # Ctrl-C may come here before it has to wait: only what goes on is put back by this
            # alone.
            if status != _core.DONE:
                with uninterrupted():
                    put_back()
        if room is not None:
            self._rooms.append(room)

    def _room(self, m: int, is_part: bool, dtype: Any) -> np.ndarray:
        """Scratch for parts of a matrix: what another problem has used, if it is large enough."""
        size = -(-((m // 2) ** 2 + is_part * m * m) * dtype.itemsize // 8)
        room = self._rooms.pop() if self._rooms else np.empty(size)
        return room if len(room) >= size else np.empty(size)

    @staticmethod
    def _block(rows: np.ndarray, cache: Any, keeps: bool) -> _core.Rows:
        """The kernel matrix among some rows."""
        if keeps:
            cache.keep(rows)
        columns = np.empty((len(rows), len(rows)), cache.points.dtype)
        cache.among(rows, cache.select(rows), columns)
        return _core.kernel_block(columns, np.arange(len(rows)), np.zeros(len(rows), np.int8))

    def scores_of_dual(self) -> np.ndarray | None:
        return None if self.rows.is_divided_by(self.labels) else self.scores

    def scores_of_model(self) -> np.ndarray | None:
        """Those of w(a), where that is the best point so far."""
        beta = self.ascents["scale"][:, None] * self.a * self.labels
        is_other = self.rows.is_divided_by(self.labels) or not np.array_equal(beta, self.coef)
        return None if is_other else self.scores + self.intercept[:, None]

    def _certify(self, k: int, inside: Any, cache: Any) -> None:
        seen = _certificate.certify_kernel(
            self.problem.part(k, inside, cache),
            lambda: self.a[k : k + 1, inside],
            lambda: (self.coef[k : k + 1, inside], self.intercept[k : k + 1]),
        )
        if seen.relative_gap[0] >= 0:  # else no bound is known
            self.primal[k], self.relative_gap[k] = seen.objective[0], seen.relative_gap[0]
            self.is_seen[k] = True
