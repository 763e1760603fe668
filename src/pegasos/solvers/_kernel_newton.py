"""Newton's method for kernel machines with the whole kernel matrix; see csrc/newton.c.

Points are coefficients, w = sum_j beta_j phi(x_j), and products between them go by way of scores:
<w, w'> = sum_j beta_j f'(x_j). Newton's equations (lam + Z^T W Z) p = -g, where the rows of Z are
those of the band and W = c/(m delta), are solved among the rows of the band (Woodbury):

    p = -1/lam (g - Z^T x),    (lam W^-1 + Z Z^T) x = Z g.

A penalised intercept belongs to w, and to Z. A free one, b, has no lam: with 1 for its column in Z,
and h for the derivative by b, its step q comes from a second right-hand side,

    (lam W^-1 + Z Z^T) x = Z g - lam q 1,    1^T x = h.
"""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _certificate
from pegasos.problems._certificate import inner
from pegasos.problems._problem import Problem
from pegasos.solvers._pegasos import Settings
from pegasos.solvers._solver import Solver

# As in csrc/newton.c.
_MOST = _core.NEWTON_MOST
_NARROWER, _NARROWEST = 0.6, 1e-4
_ACCURACY, _PRODUCTS = 0.01, 250
_RIDGE = 1e-10
# Over what width the hinge is smoothed at first.
_WIDTH = 0.25


class KernelNewton(Solver):
    """Newton's method on a smooth or smoothed loss; `rows` is a `ColumnCache` of all columns.

    `point` holds coefficients, and last the weight of the constant feature or the unpenalised
    intercept; `scores` are those of `point`, `centre` is A, `width` delta; `dual_objective` is the
    best so far, that of `a`.
    """

    name = "newton"
    checks_are_whole = True
    _ARRAYS = (*Solver._ARRAYS, "point", "scores", "centre", "width", "dual_objective")

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
        # Value of the feature that carries the intercept; 0 if there is none.
        self.feature = 1.0 if settings.free_intercept else settings.constant_feature
        self.point = np.zeros((n_problems, n_rows + 1))
        self.scores = np.zeros((n_problems, n_rows))
        self.centre = np.zeros((n_problems, n_rows))
        self.width = np.full(n_problems, self._first_width)
        self.dual_objective = np.full(n_problems, -np.inf)
        self._is_stuck = np.zeros(n_problems, bool)

    @property
    def _first_width(self) -> float:
        """A smooth loss has one of its own, which stays."""
        curvature = self.settings.loss.curvature
        return 1 / curvature if curvature else _WIDTH

    @staticmethod
    def ends_exactly(rows: Any) -> bool:
        """Once the rows within the smoothed corner are those at the corner."""
        return True

    @property
    def has_given_up(self) -> bool:
        return bool(self._is_stuck.any())

    @_threads.blas.one_thread()
    def begin(self, problem: Problem, start: Any = None) -> Any:
        # A change of all a_i by c_i moves scores by about K/(lam m): smoothing the hinge over a
        # width far above that would let dual variables creep.
        moves = np.abs(problem.rows.diagonal).mean() / (self.settings.lam * problem.masses)
        self._narrowest = _NARROWEST * np.minimum(1, moves)
        start = super().begin(problem, start)
        if start is not None:
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
            self._forget_all_but_zero(slice(k, k + 1))
            self.dual_objective[k] = -np.inf
            self._keep_first(k)

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
        self._is_stuck[k] = False
        while self.n_epochs[k] < last and not (self._is_done(k, tol) or self._is_stuck[k]):
            # A function of its own, so that its arrays are let go.
            yield from self._iteration(k)
            yield

    def _keep_first(self, k: int) -> None:
        """Take the point that it begins with for the best so far: it may be what it ends with."""
        if not self.settings.free_intercept:
            point, scores = self.point[k], self.scores[k]
            losses = self.settings.loss.value(1 - self.labels[k] * scores)
            primal = self._penalty(point, scores)
            primal += inner(self._row_weights(k), losses) / self.mass[k]
            self._keep(k, point[:-1], self.feature * point[-1], primal, -np.inf)
            return
        factors = self.a[k] * self.labels[k]
        self._keep_balanced(k, factors, self._push(factors[None])[0], -np.inf)

    def _keep_balanced(
        self, k: int, factors: np.ndarray, sum_scores: np.ndarray, dual: float
    ) -> None:
        """Take the result of a gap check with a free intercept.

        What is kept is w(a) of a balanced dual point: its coefficients add up to 0. `factors` are
        the a_i y_i, `sum_scores` those of w = sum_i a_i y_i phi(x_i).
        """
        scale = 1 / (self.settings.lam * self.mass[k])
        coef, scores = scale * factors, scale * sum_scores
        best = _certificate.best_intercepts_of(self.problem.only(k), scores[None])[0]
        losses = self.settings.loss.value(1 - self.labels[k] * (scores + best))
        primal = self.settings.lam / 2 * inner(coef, scores)
        primal += inner(self._row_weights(k), losses) / self.mass[k]
        self._keep(k, coef, best, primal, dual)

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
            centre, width = a, max(_NARROWER * width, self._narrowest[k])
            factors = np.clip(centre + c * u / width, 0, loss.most(c)) * y
            sums = factors, self._push(factors[None])[0]
            yield
        point, scores = yield from self._step(k, u, c / mass, centre * per_weight, width, *sums)
        # All at once, so that an interruption leaves the end of one iteration or of the next.
        with _threads.uninterrupted():
            if dual > self.dual_objective[k] or not self.has_dual:
                self.a[k], self.dual_objective[k] = balanced, dual
            if self.settings.free_intercept:
                self._keep_balanced(k, *dual_sums, self.dual_objective[k])
            else:
                last = self.point[k]
                self._keep(k, last[:-1], self.feature * last[-1], primal, self.dual_objective[k])
            self.point[k], self.scores[k] = point, scores
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
        """The point after a step of Newton's with exact line search, and its scores.

        `weights` are the c_i/m, `centre` the A_i/c_i.
        """
        lam, mass, feature = self.settings.lam, self.mass[k], self.feature
        beta, constant = self.point[k, :-1], self.point[k, -1]
        scores = self.scores[k] - feature * constant
        # -h, the derivative of the sum of losses by the intercept
        fall = feature * factors.sum() / mass
        a = centre + u / width
        band = np.flatnonzero((a > 0) & (a < self.settings.loss.most(1.0)) & (weights > 0))
        x, last = np.zeros((1, len(beta))), fall / lam
        if self.settings.free_intercept and not len(band):  # it has no curvature
            last = _certificate.best_intercepts_of(self.problem.only(k), scores[None])[0]
        if len(band):
            self.rows.keep(band)
            matrix = np.empty((len(band), len(band)), self.rows.points.dtype)
            self.rows.among(band, self.rows.select(band), matrix)
            yield
            matrix = matrix.astype(np.float64)
            matrix[np.diag_indices(len(band))] += lam * width / weights[band]
            right = lam * scores[band] - sum_scores[band] / mass
            if self.settings.free_intercept:
                x[0, band] = yield from solve(matrix, right)
                ones = yield from solve(matrix, np.ones(len(band)))
                moved = (x.sum() + fall) / ones.sum()  # lam q
                x[0, band] -= moved * ones
                last = constant + moved / lam
            else:
                matrix += feature**2
                x[0, band] = yield from solve(matrix, right + feature * (lam * constant - fall))
                last = (feature * x.sum() + fall) / lam
        # Coefficients and scores where the step ends, computed afresh: adding a difference to the
        # last point would leave the rounding errors of what cancels.
        end = (x[0] + factors / mass) / lam
        end_scores = (self._push(x)[0] + sum_scores / mass) / lam
        yield
        step, moves, further = end - beta, end_scores - scores, last - constant
        t = _core.line_search(
            u, self.labels[k] * (moves + feature * further), weights, centre, width,
            lam * self._inner(beta, moves, constant, further),
            lam * self._inner(step, moves, further, further), self.settings.loss.number,
        )  # fmt: skip
        point, at = (1 - t) * beta + t * end, (1 - t) * scores + t * end_scores
        constant = (1 - t) * constant + t * last
        if self._is_negative(point, at, constant):
            at = self._push(point[None])[0]  # the sum may have lost what cancels
            yield
            if self._is_negative(point, at, constant):
                # |w|^2 < 0: there is no minimum, or rounding is more than what could be gained
                self.rows.disprove()
                self._is_stuck[k] = True
                return self.point[k].copy(), self.scores[k].copy()
        return np.append(point, constant), at + feature * constant

    def _is_negative(self, beta: np.ndarray, scores: np.ndarray, constant: Any) -> bool:
        """Whether |w|^2 is below 0 by more than rounding explains."""
        squared = np.asarray(self._inner(beta, scores, constant, constant))
        size = inner(np.abs(beta), np.abs(scores))
        return _certificate.is_negative(self.rows, beta, squared, size)


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
