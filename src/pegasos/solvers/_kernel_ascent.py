"""Kernel problems on their way to a certified gap, over a matrix that need never be held whole.

``csrc/kernel_fit.c`` has the schedule: dual ascent, and Newton's method on a factor of the kernel
matrix where that gets slow. Here are the pieces of memory that it works on, one for each problem.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.problems import _certificate, _validate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers._kernel_pegasos import KernelPegasos, check_convex
from pegasos.solvers._linear import METHODS, Linear, Part

# Problems over a whole matrix with fewer numbers than this in all are not worth another thread.
_FEW = 2**20


class KernelAscent(Linear):
    """Kernel problems over the same rows, a `ColumnCache`: linear ones that are never written down.

    `coef` is beta, w = sum_j beta_j phi(x_j). Those of which each has few of the rows are solved
    one by one, on the kernel matrix among their own rows.
    """

    pegasos = KernelPegasos
    few = 2**17

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, 0, seed)

    # ---- What the memory says --------------------------------------------------------------------

    @property
    def coef(self) -> Any:
        return self._of_all("coef", self.shape[0], "inside")

    @property
    def value_bytes(self) -> int:
        """The size of the kernel values that problems were solved with; 0: none were yet."""
        return int(self.standings()["value_bytes"].max())

    def seen(self) -> np.ndarray | None:
        """A fit stops by these; without a dual, they are of its last point, not of its best."""
        return np.array(self.relative_gap)

    @property
    def has_dual(self) -> bool:
        return self.rows.is_positive

    def scores_of_model(self) -> np.ndarray | None:
        """Those of w(a), where that is the best point so far."""
        if self._whole is None:
            return None
        if not np.array_equal(self.problem.coefficients(self.a), self.coef):
            return None
        return self._whole.scores + np.array(self.intercept)[:, None]

    # ---- Of any model ----------------------------------------------------------------------------

    @staticmethod
    def certify(
        rows: Any, problem: Problem, dual: Any, model: Any, seen: Any
    ) -> _certificate.Certificate:
        certificate: _certificate.Certificate = rows.certify(problem, *model(), dual(), seen)
        return certificate

    @staticmethod
    def squared_norm(rows: Any) -> float:
        return float(np.abs(rows.diagonal).mean())

    @staticmethod
    def scores(
        rows: Any, coef: np.ndarray, intercept: np.ndarray, which: np.ndarray | None = None
    ) -> np.ndarray:
        scores: np.ndarray = rows.scores_of(coef, which).T + intercept
        return scores

    # ---- Fits ------------------------------------------------------------------------------------

    @staticmethod
    def begins_with_pegasos(rows: Any) -> bool:
        """Whether there is a dual: its own first epoch is Pegasos, with steps of exact length.

        An epoch of plain Pegasos asks for the column of every row that was a violator once.
        """
        return rows.is_positive

    @staticmethod
    def exact(rows: Any, name: str, n_problems: int) -> str | None:
        """Steps on pairs end exactly."""
        return name if rows.is_positive and name != "newton" else None

    def begin(self, rows: Any, problem: Problem, start: Any = None) -> None:
        check_convex(self.settings, rows)
        labels, insides, is_other = problem.labels, list[Any]([None]), False
        if rows.is_divided_by(labels):
            # A problem without rows has one that is in none.
            insides = [np.flatnonzero(y) if y.any() else np.zeros(1, np.int64) for y in labels]
        known = [part.inside for part in self.parts]
        is_same = len(known) == len(insides) and all(map(np.array_equal, known, insides))
        if is_same and self.problem is not problem:
            is_other = bool((self.fingerprints != problem.fingerprints).any())
        a = start[0] if start is not None else self.a if self.parts and not is_same else None
        parts = self.parts if is_same else [
            Part(slice(0, len(problem)) if inside is None else slice(k, k + 1), inside)
            for k, inside in enumerate(insides)
        ]  # fmt: skip
        for part in parts:
            fits = part.begin(self.shape) if part.fits is None else part.fits
            if a is not None:
                own = a[part.problems] if part.inside is None else a[part.problems, part.inside]
                fits.begin_at(np.ascontiguousarray(own, np.float64))
            elif is_other:
                fits.expect_data(True)
        # Last: what was interrupted before is begun again.
        self.base[:] *= is_same  # memory that is new counts epochs anew
        self.rows, self.norms, self.n_inside = rows, rows.diagonal, problem.n_inside
        self.parts, self._found, self.problem = parts, None, problem

    def widen(self) -> bool:
        if not self.rows.points.is_narrow:
            return False
        self.rows.widen()
        return True

    def change_lam(self, problem: Problem) -> None:
        """Go on with another λ, over the same rows; the core counts epochs from here."""
        self.settings, self.problem = problem.settings, problem
        self.base[:] = 0

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        n, rows, is_divided = len(self.base), self.rows, self.parts[0].inside is not None
        last = self.base + max(max_iter, 0)
        n_jobs, n_each = 1, n_threads
        if rows.is_small:
            n_jobs = min(n_threads, n) if rows.size * n > _FEW else 1
            n_each = n_threads // n_jobs if rows.size > _FEW else 1
        elif is_divided:
            n_jobs, n_each = rows.side_by_side(n)
        options: dict[str, Any] = {
            "intercept_scaling": self.settings.constant_feature,
            "free_intercept": self.settings.free_intercept,
            "tol": -1.0 if tol is None else tol,
            "seed": self.seed,
            "solver": METHODS[self.method],
            "is_positive": rows.is_positive,
            "is_narrow": rows.points.is_narrow,
            "rank": rows.points.rank,
            "n_threads": n_each,
        }

        def solve(part: Part, tell: Callable[[], None] | None, n_jobs: int = 1) -> np.ndarray:
            columns, factorise, some = rows.core, rows.factor, part.problems
            targets, norms = self.problem.targets, self.norms
            if part.inside is not None:
                columns, factorise = rows.inside(self.problem.labels, part.inside, n_each)
                targets = self.problem.some(some, part.inside).targets
                norms = norms[part.inside]
            found = _core.kernel_solve(
                columns, factorise, targets, norms, part.fits, last[some],
                lams=self.problem.lams[some], n_jobs=n_jobs,
                watch=_core.Watch(tell, by_epochs=self.by_epochs), **options,
            )  # fmt: skip
            if found is None:
                raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
            return found

        self._found = None
        if not is_divided:
            self._found = solve(self.parts[0], on_progress, n_jobs)
            return
        if rows.is_small:
            rows.by_class(self.problem.labels)
        jobs = [functools.partial(solve, part) for part in self.parts]
        _core.share(jobs, n_jobs, on_progress)
        self._found = self.standings()
