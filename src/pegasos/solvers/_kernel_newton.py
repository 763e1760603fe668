"""Newton's method for kernel machines with the whole kernel matrix; see csrc/newton.c.

Points are coefficients, w = sum_j beta_j phi(x_j), and products between them go by way of scores:
<w, w'> = sum_j beta_j f'(x_j). Newton's equations (lam + Z^T W Z) p = -g, where the rows of Z are
those of the band and W = c/(m delta), are solved among the rows of the band (Woodbury):

    p = -1/lam (g - Z^T x),    (lam W^-1 + Z Z^T) x = Z g.
"""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _certificate
from pegasos.problems._certificate import inner
from pegasos.problems._problem import Problem
from pegasos.solvers._newton import Newton
from pegasos.solvers._pegasos import Settings
from pegasos.solvers._solver import Solver

# As in csrc/newton.c.
_MOST = _core.NEWTON_MOST
_NARROWER, _NARROWEST = 0.6, 1e-4
_ACCURACY, _PRODUCTS = 0.01, 250
_RIDGE = 1e-10


class KernelNewton(Newton):
    """Newton's method on a smooth or smoothed loss; `rows` is a `ColumnCache` of all columns."""

    checks_are_whole = True

    @staticmethod
    def suits(rows: Any) -> bool:
        """Not where the objective may not be convex."""
        return rows.is_positive

    @staticmethod
    def pays(rows: Any) -> bool:
        """Every iteration goes over all columns with a coefficient."""
        return rows.holds_all

    @staticmethod
    def cost(rows: Any) -> float:
        """More than dual ascent."""
        return np.inf

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, n_rows, seed)

    @_threads.blas.one_thread()
    def begin(self, problem: Problem, start: Any = None) -> Any:
        return super().begin(problem, start)

    @_threads.blas.one_thread()
    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """As a `Solver`; problems run one after the other, and the cache they share has threads."""
        Solver.run(self, tol, max_iter, on_progress=on_progress)

    @property
    def has_dual(self) -> bool:
        return self.rows.is_positive

    def _forget(self, k: int) -> None:
        self._forget_all_but_zero(slice(k, k + 1))

    def _check_kept(self) -> None:
        """Nothing to do: kernel machines go on with the same rows only."""

    def _push(self, coef: np.ndarray) -> np.ndarray:
        """Scores without the intercept."""
        support = np.flatnonzero(coef.any(axis=0))
        self.rows.keep(support)  # to be asked for again soon
        return self.rows.push(coef[:, support], support)

    def _scores(self) -> Any:
        return self._push(self.point[:, :-1]) + self.feature * self.point[:, -1:]

    @property
    def _penalises_intercept(self) -> Any:
        return bool(self.feature) and not self.settings.free_intercept

    def _inner(
        self, coef: np.ndarray, scores: np.ndarray, constant: Any, other_constant: Any
    ) -> Any:
        """<w, w'>, given the coefficients of one and the scores without intercept of the other."""
        return inner(coef, scores) + self._penalises_intercept * constant * other_constant

    def _penalty(self, point: np.ndarray, scores: np.ndarray) -> float:
        beta, constant = point[:-1], point[-1]
        scores = scores - self.feature * constant
        return self.settings.lam / 2 * self._inner(beta, scores, constant, constant)

    def _squared(self, factors: np.ndarray, scores: np.ndarray) -> float:
        constant = self.feature * factors.sum()
        return self._inner(factors, scores, constant, constant)

    def _improve(self, k: int, tol: float | None, last: int) -> Generator[None]:
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            # A function of its own, so that its arrays are let go.
            yield from self._iteration(k)
            yield
        if not self.settings.free_intercept:
            return
        # The point that is kept gets its best intercept, of several the middle one.
        y, point = self.labels[k], np.append(self.coef[k], 0)
        scores = self._push(point[None, :-1])
        yield
        loss = self.settings.loss
        best = _certificate.best_intercepts_of(self.problem.only(k), scores)[0]
        losses = self._row_weights(k) @ loss.value(1 - y * (scores[0] + best))
        primal = self._penalty(point, scores[0]) + losses / self.mass[k]
        with _threads.uninterrupted():
            self.intercept[k], self.primal[k] = best, primal
            self._keep(k, point[:-1], best, primal, self.dual_objective[k])

    def _iteration(self, k: int) -> Generator[None]:
        y, mass, centre, width = self.labels[k], self.mass[k], self.centre[k], self.width[k]
        c, loss = self._row_weights(k), self.settings.loss
        own = np.where(c > 0, c, 1)
        per_weight = 1 / own
        u = 1 - y * self.scores[k]
        penalty = self._penalty(self.point[k], self.scores[k])
        primal = penalty + c @ loss.value(u) / mass
        a = np.clip(centre + c * u / width, 0, loss.most(c))
        sums = a * y, self._push((a * y)[None])[0]
        yield
        balanced, dual_sums = a, sums
        if self.settings.free_intercept:
            balanced = _certificate.feasible(self.problem.only(k), a[None])[0]
            dual_sums = balanced * y, self._push((balanced * y)[None])[0]
            yield
        squared = self._squared(*dual_sums) / (2 * self.settings.lam * mass**2)
        less = (loss.diagonal(own) * balanced**2).sum() / 2
        dual = (balanced.sum() - less) / mass - squared
        smoothing = width / 2 * (per_weight @ (a - centre) ** 2) / mass
        smooth = penalty + a @ u / mass - smoothing
        solved = not loss.curvature and smooth - (dual - smoothing) <= primal - smooth
        if solved:
            centre, width = a, max(_NARROWER * width, _NARROWEST)
            factors = np.clip(centre + c * u / width, 0, loss.most(c)) * y
            sums = factors, self._push(factors[None])[0]
            yield
        following, moves = yield from self._step(k, u, c / mass, centre * per_weight, width, *sums)
        # All at once, so that an interruption leaves the end of one iteration or of the next.
        with _threads.uninterrupted():
            if dual > self.dual_objective[k] or not self.has_dual:
                self.a[k], self.dual_objective[k] = balanced, dual
            point = self.point[k]
            self._keep(k, point[:-1], self.feature * point[-1], primal, self.dual_objective[k])
            self.point[k] = following
            self.scores[k] += moves
            self.centre[k], self.width[k] = centre, width
            passes = 3 + solved + self.settings.free_intercept
            self.n_epochs[k] += passes
            self.n_visits[k] += passes * len(a)

    def _step(
        self,
        k: int,
        u: np.ndarray,
        weights: np.ndarray,
        centre: np.ndarray,
        width: float,
        factors: np.ndarray,
        sum_scores: np.ndarray,
    ) -> Generator[Any, Any, Any]:
        """The point after a step of Newton's with exact line search, and how scores move.

        `weights` are the c_i/m, `centre` the A_i/c_i.
        """
        lam, mass, feature = self.settings.lam, self.mass[k], self.feature
        beta, constant = self.point[k, :-1], self.point[k, -1]
        scores = self.scores[k] - feature * constant
        gradient = lam * beta - factors / mass
        gradient_scores = lam * scores - sum_scores / mass
        gradient_constant = lam * self._penalises_intercept * constant
        gradient_constant -= feature * factors.sum() / mass
        a = centre + u / width
        band = np.flatnonzero((a > 0) & (a < self.settings.loss.most(1.0)) & (weights > 0))
        x = np.zeros((1, len(beta)))
        if len(band):
            self.rows.keep(band)
            matrix = np.empty((len(band), len(band)), self.rows.points.dtype)
            self.rows.among(band, self.rows.select(band), matrix)
            yield
            matrix = matrix.astype(np.float64) + feature**2
            matrix[np.diag_indices(len(band))] += lam * width / weights[band]
            right = gradient_scores[band] + feature * gradient_constant
            x[0, band] = yield from solve(matrix, right)
        step = np.append((x[0] - gradient) / lam, (feature * x.sum() - gradient_constant) / lam)
        moves = (self._push(x)[0] - gradient_scores) / lam
        yield
        t = _core.line_search(
            u, self.labels[k] * (moves + feature * step[-1]), weights, centre, width,
            lam * self._inner(beta, moves, constant, step[-1]),
            lam * self._inner(step[:-1], moves, step[-1], step[-1]), self.settings.loss.number,
        )  # fmt: skip
        # beta + step, but for a step of t = 1 exactly 0 where x and a are: no rounding errors are
        # left.
        end = (x[0] + factors / mass) / lam
        point, at, last = (1 - t) * beta + t * end, scores + t * moves, constant + t * step[-1]
        squared, size = self._inner(point, at, last, last), inner(np.abs(point), np.abs(at))
        if _certificate.is_negative(self.rows, point, np.asarray(squared), size):
            # |w|^2 < 0: the kernel matrix is not positive semi-definite, and there is no minimum
            self.rows.disprove()
            return self.point[k].copy(), np.zeros_like(moves)
        return np.append(point, last), t * (moves + feature * step[-1])


def solve(matrix: Any, right: np.ndarray) -> Any:
    """Solve equations with a positive definite matrix: beyond some size by conjugate gradients.

    Where rounding has made the matrix singular, with a little more on its diagonal. A generator, of
    pieces.
    """
    if len(right) <= _MOST:
        try:
            return np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            matrix[np.diag_indices_from(matrix)] += _RIDGE * matrix.trace()
            return np.linalg.solve(matrix, right)
    x, residual = np.zeros_like(right), right.copy()
    direction, squared = residual.copy(), residual @ residual
    enough = _ACCURACY**2 * squared
    for _ in range(_PRODUCTS):
        if squared <= enough:
            break
        moved = matrix @ direction
        yield
        t = squared / (direction @ moved)
        x += t * direction
        residual -= t * moved
        before, squared = squared, residual @ residual
        direction = residual + squared / before * direction
    return x
