"""Newton's method for kernel machines whose kernel matrix is at hand; csrc/newton.c has the mathematics.

Points are coefficients, w = sum_j beta_j phi(x_j), and products between them go by way of scores:
<w, w'> = sum_j beta_j f'(x_j). Newton's equations (lam + Z^T W Z) p = -g, where the rows of Z are
those of the band and W = c/(m delta), are solved among the rows of the band (Woodbury):

    p = -1/lam (g - Z^T x),    (lam W^-1 + Z Z^T) x = Z g.
"""

import numpy as np

from pegasos._certificate import BY_ROUNDING, inner
from pegasos._newton import MOST_FEATURES, Newton, conjugate_gradients, solve_symmetric


class KernelNewton(Newton):
    """Newton's method on the smoothed hinge; `rows` is a `ColumnCache` with room for all columns."""

    checks_are_whole = True

    @staticmethod
    def suits(rows):
        """Not where the objective may not be convex."""
        return rows.is_positive

    @staticmethod
    def pays(rows):
        """Every iteration goes over all columns with a coefficient."""
        return rows.holds_all

    @staticmethod
    def cost(rows):
        """More than dual ascent."""
        return np.inf

    def __init__(self, settings, n_problems, n_rows, n_features, seed):
        super().__init__(settings, n_problems, n_rows, n_rows, seed)

    def run(self, tol, max_iter, *, n_threads=1, on_progress=None):
        """As a `Solver`; problems take turns, since they share the cache, which has threads."""
        super().run(tol, max_iter, on_progress=on_progress)

    @property
    def has_dual(self):
        return self.rows.is_positive

    @property
    def _is_short(self):
        """The core knows linear machines only."""
        return False

    def _forget(self, k):
        self._forget_all_but_zero(k)

    def _check_kept(self):
        """Nothing to do: kernel machines go on with the same rows only."""

    def _row_norms(self):
        """Not asked for."""

    def _push(self, coef):
        """Scores without the intercept."""
        support = np.flatnonzero(coef.any(axis=0))
        self.rows.keep(support)  # to be asked for again soon
        return self.rows.push(coef[:, support], support)

    def _scores(self):
        return self._push(self.point[:, :-1]) + self.feature * self.point[:, -1:]

    @property
    def _penalises_intercept(self):
        return bool(self.feature) and not self.settings.free_intercept

    def _inner(self, coef, scores, constant, other_constant):
        """<w, w'>, given the coefficients of one and the scores without intercept of the other."""
        return inner(coef, scores) + self._penalises_intercept * constant * other_constant

    def _scores_at(self, point):
        scores = self._push(point[None, :-1])[0]
        yield
        return scores + self.feature * point[-1]

    def _penalty(self, point, scores):
        beta, constant = point[:-1], point[-1]
        scores = scores - self.feature * constant
        return self.settings.lam / 2 * self._inner(beta, scores, constant, constant)

    def _sum(self, factors):
        scores = self._push(factors[None])[0]
        yield
        return factors, scores

    def _squared(self, sums):
        factors, scores = sums
        constant = self.feature * factors.sum()
        return self._inner(factors, scores, constant, constant)

    def _step(self, k, slopes, sums, room):
        lam, mass, feature = self.settings.lam, self.mass[k], self.feature
        beta, constant = self.point[k, :-1], self.point[k, -1]
        scores = self.scores[k] - feature * constant
        factors, sum_scores = sums
        gradient = lam * beta - factors / mass
        gradient_scores = lam * scores - sum_scores / mass
        gradient_constant = lam * self._penalises_intercept * constant
        gradient_constant -= feature * factors.sum() / mass
        band = slopes.band()
        x = np.zeros((1, len(beta)))
        if len(band):
            self.rows.keep(band)
            matrix = np.empty((len(band), len(band)), self.rows.points.dtype)
            self.rows.among(band, self.rows.select(band), matrix)
            yield
            matrix = matrix.astype(np.float64) + feature**2
            matrix[np.diag_indices(len(band))] += lam * slopes.width / slopes.weights[band]
            right = gradient_scores[band] + feature * gradient_constant
            x[0, band] = yield from _solve(matrix, right)
        step = np.append((x[0] - gradient) / lam, (feature * x.sum() - gradient_constant) / lam)
        moves = (self._push(x)[0] - gradient_scores) / lam
        yield
        t = slopes.search(
            self.labels[k] * (moves + feature * step[-1]),
            lam * self._inner(beta, moves, constant, step[-1]),
            lam * self._inner(step[:-1], moves, step[-1], step[-1]),
        )
        # beta + step, but for a step of t = 1 exactly 0 where x and a are: no rounding errors are
        # left.
        end = (x[0] + factors / mass) / lam
        point, at, last = (1 - t) * beta + t * end, scores + t * moves, constant + t * step[-1]
        if self._inner(point, at, last, last) < -BY_ROUNDING * inner(np.abs(point), np.abs(at)):
            # |w|^2 < 0: the kernel matrix is not positive semi-definite, and there is no minimum
            self.rows.disprove()
            return self.point[k].copy(), np.zeros_like(moves), 1
        return np.append(point, last), t * (moves + feature * step[-1]), 1


def _solve(matrix, right):
    if len(right) <= MOST_FEATURES:
        return solve_symmetric(matrix, right)

    def product(direction):
        yield
        return matrix @ direction

    return (yield from conjugate_gradients(product, right))
