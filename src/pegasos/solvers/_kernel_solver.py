"""Kernel problems on their way to a certified gap, without the whole kernel matrix in memory.

``csrc/kernel_fit.c`` has the schedule: dual ascent, and Newton's method on a factor of the kernel
matrix where dual ascent gets slow. Here is the memory that it works on, a piece for each problem.
"""

from typing import Any

import numpy as np

from pegasos import _core
from pegasos.problems import _certificate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers._kernel_pegasos import KernelPegasos, check_convex
from pegasos.solvers._linear import LinearSolver, ProblemGroup, _insides

# Problems over a whole matrix with fewer numbers than this in total do not need another thread.
_FEW = 2**20


class KernelSolver(LinearSolver):
    """Kernel problems over the same rows, given as a `ColumnCache`.

    `coef` is beta, w = sum_j beta_j phi(x_j). If each problem has few of the rows, problems are
    solved one by one, on the kernel matrix among their own rows.
    """

    pegasos = KernelPegasos
    small_size = 2**17

    #: The last run's result and the coefficients of all rows, kept since they are often read.
    _coef: tuple[Any, Any] = None, None

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, 0, seed)

    # ---- What the memory says --------------------------------------------------------------------

    @property
    def coef(self) -> Any:
        found, coef = self._coef
        if found is None or found is not self._found:
            coef = np.ascontiguousarray(self._of_all("coef", self.shape[0], "inside"))
            self._coef = self._found, coef
        return coef

    @property
    def value_bytes(self) -> int:
        """The size in bytes of the kernel values of the last solutions; 0 before there are any."""
        return int(self.solutions()["value_bytes"].max())

    def last_check(self) -> np.ndarray | None:
        """Relative gaps of the last check, by which a fit stops.

        If the kernel matrix is not known to be positive semi-definite, the gaps belong to the last
        point, not to the best one.
        """
        return np.array(self.solutions()["relative_gap"])

    def progress(self) -> tuple[int, int, str]:
        """Rows visited, 0, and the largest gap: the certificate's `estimate`, not its bound."""
        visited, planned, note = super().progress()
        return visited, planned, note and f"estimated {note}"

    def scores_of_model(self) -> np.ndarray | None:
        """Scores of all rows, (n_problems, n_rows), if w(a) is the best point so far; else None."""
        if self._whole is None:
            return None
        if not np.array_equal(self.problem.coefficients(self.a), self.coef):
            return None
        return self._whole.scores + np.array(self.intercept)[:, None]

    # ---- Of any model ----------------------------------------------------------------------------

    @staticmethod
    def certify(rows: Any, problem: Problem, solver: Any) -> _certificate.Certificate:
        certificate: _certificate.Certificate = rows.certify(
            problem, *solver.model(), solver.dual(), solver.last_check()
        )
        return certificate

    @staticmethod
    def norms_of(rows: Any) -> Any:
        return rows.diagonal

    @staticmethod
    def scores(
        rows: Any, coef: np.ndarray, intercept: np.ndarray, which: np.ndarray | None = None
    ) -> np.ndarray:
        scores: np.ndarray = rows.scores_of(coef, which).T + intercept
        return scores

    # ---- Fits ------------------------------------------------------------------------------------

    @staticmethod
    def has_dual(rows: Any) -> bool:
        """Whether the kernel matrix is positive semi-definite, so that there is a dual.

        With a dual, the first epoch is Pegasos with steps of exact length. An epoch of plain
        Pegasos would need the kernel column of every row that was a violation once.
        """
        return rows.is_positive

    @staticmethod
    def exact(rows: Any, settings: Settings, name: str, n_problems: int) -> str | None:
        """The `method`, as steps on pairs end exactly; None without a dual, or for "newton"."""
        return name if rows.is_positive and name != "newton" else None

    def begin(self, rows: Any, problem: Problem, start: Any = None) -> None:
        check_convex(self.settings, rows)
        super().begin(rows, problem, start)

    @staticmethod
    def insides(rows: Any, problem: Problem) -> list[Any]:
        return _insides(problem) if rows.is_divided_by(problem.n_inside) else [None]

    def _of(self, group: ProblemGroup, n_threads: int) -> Any:
        rows: Any = self.rows
        points = rows.points
        core = rows.core, rows.factor
        if group.inside is not None and not rows.is_small:
            core = rows.inside(group.inside, n_threads)
        return _core.Matrix(
            *core, is_positive=rows.is_positive, is_narrow=points.is_narrow,
            rank=points.kernel.rank(points.X.shape[1]),
        )  # fmt: skip

    def _are_parts(self) -> bool:
        return bool(self.rows.is_small)

    def widen(self) -> bool:
        if not self.rows.points.is_narrow:
            return False
        self.rows.widen()
        return True

    def _shares(self, method: str, n_threads: int) -> tuple[int, int, bool]:
        n, rows = len(self.base), self.rows
        if rows.is_small:
            n_jobs = min(n_threads, n) if rows.size * n > _FEW else 1
            n_each = n_threads // n_jobs if rows.size > _FEW else 1
            return n_jobs, n_each * n_jobs, False
        return (1, n_threads, False) if self._whole is not None else (*rows.side_by_side(n), False)
