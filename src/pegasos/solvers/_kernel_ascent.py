"""Dual ascent for kernel machines, over a kernel matrix that need never be held whole.

``csrc/kernel.c`` has the algorithm, the gap checks and when to stop; here are the arrays.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._threads import blas
from pegasos.problems import _certificate
from pegasos.problems._problem import Problem
from pegasos.solvers import _pegasos
from pegasos.solvers._ascent import features_of
from pegasos.solvers._kernel_pegasos import check_convex
from pegasos.solvers._pegasos import Settings
from pegasos.solvers._solver import SAFELY, Solver

#: Layout of where a problem's run stands, that of ``struct pegasos_kernel``.
RUN = np.asarray(_core.BLANK_KERNEL).dtype

# A gap that is proved once more, and is above this part of what it was, hardly gets smaller.
_HARDLY = 0.9
# Problems over a whole matrix with fewer numbers than this in all are not worth another thread.
_FEW = 2**20


class KernelAscent(Solver):
    """Dual ascent on kernel problems.

    `coef` is beta, w = sum_j beta_j phi(x_j); `scores` holds, for every problem, the scores of all
    rows without the intercept, of the dual variables `scored`; `active` the rows of the round under
    way, and `slopes` theirs.
    """

    name, checks_are_whole = "sdca", True
    _STATE = ("a", "scored", "scores", "slopes", "coef", "active")
    _ARRAYS = (*Solver._ARRAYS, "runs", "scored", "scores", "slopes", "active")

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

        An epoch of plain Pegasos asks for the column of every row that was a violator once.
        """
        return rows.is_positive

    @property
    def has_dual(self) -> bool:
        return self.rows.is_positive

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, n_rows, seed)
        self.runs = np.zeros(n_problems, RUN)
        self.runs["primal"] = self.runs["relative_gap"] = np.inf
        seeds = np.random.SeedSequence([seed, 1])
        self.runs["generator"] = seeds.generate_state(n_problems, np.uint64)
        for name in set(RUN.names or ()) & set(self._ARRAYS):  # the core writes them, too
            setattr(self, name, self.runs[name])
        self.scored, self.scores, self.slopes = np.zeros((3, n_problems, n_rows))
        self.active = np.zeros((n_problems, n_rows), np.int64)

    def begin(self, problem: Problem, start: Any = None) -> Any:
        start = super().begin(problem, start)
        rows, labels, is_free = problem.rows, problem.labels, self.settings.free_intercept
        check_convex(self.settings, rows)
        #: Whether each problem has a kernel matrix of its own.
        self.is_divided = rows.is_divided_by(labels)
        self.norms, runs = rows.points.diagonal(), self.runs
        for name, value in (
            ("lam", self.settings.lam), ("mass", self.mass), ("n_inside", self.n_inside),
            ("free_intercept", is_free), ("feature", features_of(problem, self.norms)),
            ("loss", self.settings.loss.number),
        ):  # fmt: skip
            runs[name] = value
        if start is None:
            # Where there is room for fewer columns than before, the round under way is left.
            most = _core.kernel_rows(rows.shape[0], len(rows.columns))
            runs["part"][(runs["part"] == _core.KERNEL_ROUND) & (runs["n_active"] > most)] = (
                _core.KERNEL_CHECK
            )
            return
        # From a = 0, the first epoch is one of Pegasos, with steps of exact length.
        is_zero = np.asarray(self.a.any(axis=1) == 0)
        runs["part"] = np.where(is_zero & rows.is_positive, _core.KERNEL_BEGIN, _core.KERNEL_CHECK)
        for name in ("n_active", "n_seen", "is_slow", "in_double", "moved"):
            runs[name] = 0
        self.scored[...] = self.a
        beta = self.a * labels / (self.settings.lam * self.mass)[:, None]
        if len(start) > 3:
            self.scores[...] = start[3]
        else:
            self.scores[...] = 0 if is_zero.all() else rows.scores(beta[None], labels)[0]
        runs["constant_weight"], runs["reference"] = runs["feature"] * beta.sum(axis=1), 0
        if is_free:
            runs["reference"] = _certificate.best_intercepts_of(problem, self.scores)
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
        self._n_threads, rows, most = None, self.rows, 1
        self.is_at_rounding[:] = self.runs["is_stuck"] = False
        self.runs["is_positive"] = rows.is_positive
        self.runs["tol"] = -1 if tol is None else SAFELY * tol
        with blas.one_thread():
            if rows.is_small:
                if not self.is_divided:
                    rows.keep(np.arange(len(rows.points)))
                most = n_threads if rows.size * len(self.a) > _FEW else 1
            elif self.is_divided:
                most, self._n_threads = rows.side_by_side(len(self.a))
            super().run(tol, max_iter, n_threads=min(n_threads, most), on_progress=on_progress)

    def _jobs(self, tol: float | None, last: np.ndarray, n_threads: int) -> list[Any]:
        self.runs["last_epoch"] = last
        return [functools.partial(self._ascend, int(k), tol) for k in np.flatnonzero(self.n_inside)]

    def _ascend(self, k: int, tol: float | None, tell: Callable[[], None]) -> None:
        """Bring problem k to the end of its run."""
        if self.rows.is_small and self.is_divided:
            inside, columns = self.rows.parts(self.labels).part(k)
            self._run_inside(k, inside, columns, np.arange(len(inside)), None, tell)
            return
        inside, cache = self.rows.inside(self.labels[k], self._n_threads)
        proved = np.inf
        while True:
            self._run_inside(k, inside, cache.columns, cache.place, cache, tell)
            if cache is self.rows:
                return
            # Once more, without running sums, while columns are at hand.
            self._certify(k, inside, cache)
            if self._is_done(k, tol) or self.n_epochs[k] >= self.runs["last_epoch"][k]:
                return
            if self.runs["is_stuck"][k] or self.relative_gap[k] > _HARDLY * proved:
                self.is_at_rounding[k] = True
                return
            proved = self.relative_gap[k]

    def _run_inside(
        self, k: int, inside: Any, columns: np.ndarray, place: np.ndarray, cache: Any,
        tell: Callable[[], None],
    ) -> None:  # fmt: skip
        """Run problem k on the rows `inside`, whose kernel matrix has these columns."""
        arrays = [getattr(self, name)[k] for name in self._STATE]
        # Copies, where some rows are not inside. Others may look at the problem whenever they are
        # told: then all of it has to be that of one moment.
        own, run = [array[inside] for array in arrays], self.runs[k : k + 1].copy()
        a, scored, scores, slopes, coef, active = own

        def put_back() -> None:
            self.runs[k] = run[0]
            for array, part in zip(arrays, own, strict=True):
                array[inside] = part

        def tell_of_all() -> None:
            put_back()
            tell()

        try:
            _core.kernel_run(
                columns, place, cache, run, self.labels[k, inside],
                None if self.row_weights is None else self.row_weights[inside], self.norms[inside],
                a, scored, scores, slopes, coef, active,
                _core.Watch(
                    tell_of_all, every=_pegasos.numbers_per_call(), by_epochs=self.by_epochs
                ),
            )  # fmt: skip
        finally:
            put_back()
        self.is_at_rounding[k] = run["is_stuck"][0]

    def scores_of_dual(self) -> np.ndarray | None:
        return None if self.is_divided else self.scores

    def scores_of_model(self) -> np.ndarray | None:
        """Those of w(a), where that is the best point so far."""
        beta = self.a * self.labels * (1 / (self.settings.lam * self.mass))[:, None]
        is_other = self.is_divided or not np.array_equal(beta, self.coef)
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
