"""Newton's method on a smooth loss: for few features, and for the last digits.

``csrc/newton.c`` has the derivation, and does the iterations; here are the arrays.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _certificate, _rows, _validate
from pegasos.problems._problem import Problem
from pegasos.solvers import _pegasos
from pegasos.solvers._pegasos import Settings
from pegasos.solvers._solver import SAFELY, Solver

# Over what width the hinge is smoothed at first.
_WIDTH = 0.25
# With more features BLAS is worth its while.
_FEW = 50
#: Layout of one problem's state, that of ``struct pegasos_newton``.
_NEWTON = np.asarray(_core.BLANK_NEWTON).dtype


class Newton(Solver):
    """Newton's method on a smooth loss, or the smoothed hinge.

    `point` holds w, and last the weight of the constant feature or the unpenalised intercept;
    `scores` are those of `point`, `centre` is A, `width` delta; `dual_objective` is the best so
    far, that of `a`.
    """

    name = "newton"
    _ARRAYS = (*Solver._ARRAYS, "point", "scores", "centre", "width", "dual_objective")

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, n_features, seed)
        # Value of the feature that carries the intercept; 0 if there is none.
        self.feature = 1.0 if settings.free_intercept else settings.constant_feature
        self.runs = np.zeros(n_problems, _NEWTON)
        self.point = np.zeros((n_problems, n_features + 1))
        self.scores = np.zeros((n_problems, n_rows))
        self.centre = np.zeros((n_problems, n_rows))
        self.width = np.full(n_problems, self._first_width)
        self.dual_objective = np.full(n_problems, -np.inf)
        for name in set(_NEWTON.names or ()) & set(self._ARRAYS):  # the core writes them, too
            self.runs[name] = getattr(self, name)
            setattr(self, name, self.runs[name])

    @property
    def _first_width(self) -> float:
        """A smooth loss has one of its own, which stays."""
        curvature = self.settings.loss.curvature
        return 1 / curvature if curvature else _WIDTH

    @staticmethod
    def cost(rows: Any) -> float:
        """Ten iterations of four passes and a product over the rows in the band, a tenth of all."""
        n, d = rows.shape
        if d >= _core.NEWTON_MOST:
            return np.inf
        return 10 * (4 * _rows.seconds_a_pass(rows) + 0.2 * n * d**2 / 1e11 + d**3 / 3e10)

    @staticmethod
    def ends_exactly(rows: Any) -> bool:
        """Once the rows within the smoothed corner are those at the corner."""
        return True

    def begin(self, problem: Problem, start: Any = None) -> Any:
        start = super().begin(problem, start)
        if start is None:
            self._check_kept()
        else:
            self.centre[...] = 0 if self.settings.loss.curvature else self.a
            self.width[:] = self._first_width
            self.point[:, :-1] = self.coef
            self.point[:, -1] = self.intercept / (self.feature or 1)
        for k, scores in enumerate(self._scores()):
            # The solver knows these scores, but for rounding, unless the rows are others than
            # before.
            distance = np.abs(scores - self.scores[k]).max()
            if start is None and distance <= 1e-9 * max(np.abs(scores).max(), 1):
                continue
            self.scores[k] = scores
            if start is not None:
                self._shrink(k)
            self._forget(k)
            self.dual_objective[k] = -np.inf
            self._keep_first(k)

    def _keep_first(self, k: int) -> None:
        """Take the point that it begins with for the best so far: it may be what it ends with."""
        point = self.point[k]
        primal = self._objective(k, point, self.scores[k])
        self._keep(k, point[:-1], self.feature * point[-1], primal, -np.inf)

    def _shrink(self, k: int) -> None:
        """Replace a point by the best multiple of it: after an epoch, w can be worse than 0."""
        y, weights = self.labels[k], self._row_weights(k) / self.mass[k]
        penalty = self._penalty(self.point[k], self.scores[k])
        t = _core.line_search(
            np.ones(len(y)), y * self.scores[k], weights, np.zeros(len(y)), self.width[k],
            0.0, 2 * penalty, self.settings.loss.number,
        )  # fmt: skip
        self.point[k] *= t
        self.scores[k] *= t

    def continue_from(self, other: Solver) -> None:
        super().continue_from(other)
        self.dual_objective[:] = other.primal * (1 - other.relative_gap)

    def _row_weights(self, k: int) -> np.ndarray:
        weights = 1.0 if self.row_weights is None else self.row_weights
        return (self.labels[k] != 0) * weights

    def _objective(self, k: int, point: np.ndarray, scores: np.ndarray) -> float:
        losses = self.settings.loss.value(1 - self.labels[k] * scores)
        sum_of_losses = _certificate.inner(self._row_weights(k), losses)
        return self._penalty(point, scores) + sum_of_losses / self.mass[k]

    def _scores(self) -> Any:
        """Scores of all points, one after the other."""
        n, size = self.scores.shape[1], _pegasos.rows_per_call(self.rows, 1)
        for point in self.point:
            write = _rows.scorer(self.rows, point[None, :-1], self.feature * point[-1:])
            scores = np.empty((n, 1))
            for first in range(0, n, size):
                write(first, scores[first : first + size])
            yield scores[:, 0]

    def _penalty(self, point: np.ndarray, scores: np.ndarray) -> float:
        """lam/2 |w|^2 of a point, whose scores kernel machines need."""
        w = point[:-1] if self.settings.free_intercept or not self.feature else point
        return self.settings.lam / 2 * _certificate.inner(w, w)

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """Run all problems. Each has one thread, and so has BLAS: results do not depend on them."""
        self.runs["lam"], self.runs["mass"] = self.settings.lam, self.mass
        self.runs["loss"], self.runs["feature"] = self.settings.loss.number, self.feature
        self.runs["free_intercept"] = self.settings.free_intercept
        self.runs["tol"] = -1 if tol is None else SAFELY * tol
        with _threads.blas.one_thread() if self._has_blas else contextlib.nullcontext():
            super().run(tol, max_iter, n_threads=n_threads, on_progress=on_progress)

    @property
    def _has_blas(self) -> bool:
        return _FEW < self.rows.shape[1] < _core.NEWTON_MOST

    def _jobs(self, tol: float | None, last: np.ndarray, n_threads: int) -> list[Any]:
        self.runs["last_epoch"] = last
        return [functools.partial(self._end, k) for k in range(len(self.a))]

    def _end(self, k: int, tell: Callable[[], None]) -> None:
        """Bring problem k to the end of its run."""
        self.is_seen[k] = False
        status = _core.newton_run(
            self.rows, self.runs[k : k + 1], self.labels[k], self.row_weights, self.point[k],
            self.scores[k], self.centre[k], self.a[k], self.coef[k], self._has_blas,
            _core.Watch(tell, every=_pegasos.numbers_per_call(), by_epochs=self.by_epochs),
        )  # fmt: skip
        if status == _core.OVERFLOW:
            raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
