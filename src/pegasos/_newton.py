"""Newton's method on the smoothed hinge: a finisher for few features.

The hinge max(0, u), u_i = 1 - y_i f(x_i), is rounded off over a width delta (Huber):

    h(u) = 0 for u <= 0,   u^2/(2 delta) up to delta,   u - delta/2 beyond.

Then a_i = c_i clip(u_i/delta, 0, 1) is dual-feasible for any w, and the gradient of the smoothed
objective is lam (w - w(a)): every gradient brings a dual value with it, for nothing. At the minimum
for delta the gap of the problem itself is at most delta/2. Second derivatives come from the rows in the
band 0 < u_i < delta alone, and the band thins as delta falls. (Chapelle: Training a support vector
machine in the primal, Neural Computation 19 (2007) 1155-1178.)
"""

import numpy as np

from pegasos import _certificate, _core, _session
from pegasos._finisher import Finisher

# Width at first, and by how much it falls: once the smoothed problem is solved well enough that the
# width is what keeps the gap open.
_WIDTH, _NARROWER, _SOLVED = 1.0, 0.25, 0.2
# Evaluations of the derivative in one line search.
_SEARCHES = 30


class Newton(Finisher):
    """Newton's method on the smoothed hinge.

    `point` holds w, and last the weight of the constant feature or the unpenalised intercept;
    `scores` are those of `point`, `width` is delta; `dual_objective` the best so far, that of `a`.
    """

    _ARRAYS = (*Finisher._ARRAYS, "point", "scores", "width", "dual_objective")

    def __init__(self, settings, n_problems, n_rows, n_features, seed):
        super().__init__(settings, n_problems, n_rows, n_features, seed)
        self.point = np.zeros((n_problems, n_features + 1))
        self.scores = np.zeros((n_problems, n_rows))
        self.width = np.full(n_problems, _WIDTH)
        self.dual_objective = np.full(n_problems, -np.inf)

    @property
    def feature(self):
        """Value of the feature that carries the intercept; 0 if there is none."""
        return 1.0 if self.settings.free_intercept else self.settings.constant_feature

    def begin(self, rows, labels, row_weights, start=None):
        super().begin(rows, labels, row_weights, start)
        if start is not None:
            if self.settings.free_intercept:
                self.intercept[...] = _certificate.best_intercepts(
                    rows, labels, row_weights, self.coef
                )
            objectives = _certificate.objectives(
                rows, labels, row_weights, self.coef, self.intercept, self.settings
            )
            self.point[:, :-1] = self.coef
            self.point[:, -1] = self.intercept / (self.feature or 1)
            self.point[objectives > 1] = 0  # P(0) = 1: after one epoch, w can still be worse
            self.width[:] = _WIDTH
        for k, point in enumerate(self.point):
            scores = np.empty_like(self.scores[k])
            for _ in self._write_scores(point, scores):
                pass
            # The session knows these scores, but for rounding, unless the rows are others than before.
            distance = np.abs(scores - self.scores[k]).max()
            if start is None and distance <= 1e-9 * max(np.abs(scores).max(), 1):
                continue
            self.scores[k] = scores
            self.relative_gap[k] = self.primal[k] = np.inf
            self.dual_objective[k] = -np.inf

    def take_over(self, other):
        super().take_over(other)
        gap = np.where(np.isfinite(other.relative_gap), other.relative_gap * other.primal, _WIDTH)
        self.width[:] = np.minimum(_WIDTH, 4 * gap)
        self.dual_objective[:] = other.primal * (1 - other.relative_gap)

    def _improve(self, k, tol, last):
        y = self.labels[k].astype(np.float64)
        c = (y != 0) * (1.0 if self.row_weights is None else self.row_weights)
        mass, lam = self.mass[k], self.settings.lam
        penalised = np.full(self.point.shape[1], lam)
        if self.settings.free_intercept or not self.feature:
            penalised[-1] = 0
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            point = self.point[k].copy()
            u = 1 - y * self.scores[k]
            penalty = penalised @ point**2 / 2
            primal = penalty + c @ np.maximum(u, 0) / mass
            a = c * np.clip(u / self.width[k], 0, 1)
            sums = np.zeros_like(point)
            yield from self._combine(a * y, sums)
            gradient = penalised * point - sums / mass
            dual_sums = sums
            if self.settings.free_intercept:
                a = _certificate.feasible(
                    a[None], self.labels[k : k + 1], self.row_weights, self.settings
                )[0]
                dual_sums = np.zeros_like(point)
                yield from self._combine(a * y, dual_sums)
                dual_sums[-1] = 0
            squared = lam / 2 * (dual_sums @ dual_sums) / (lam * mass) ** 2
            dual = a.sum() / mass - squared
            smooth = penalty + c @ _huber(u, self.width[k]) / mass
            rounding = self.width[k] / 2 * (a * a / np.where(c > 0, c, 1)).sum() / mass
            if smooth - (dual - rounding) <= _SOLVED * (primal - smooth):
                width = self.width[k] * _NARROWER
            else:
                width = self.width[k]
            if width != self.width[k]:
                sums = np.zeros_like(point)
                yield from self._combine(c * y * np.clip(u / width, 0, 1), sums)
                gradient = penalised * point - sums / mass
            step, moves = yield from self._step(point, u, c / mass, width, gradient, penalised, y)
            # All at once, so that an interruption leaves the end of one iteration or of the next.
            passes = 2 + (width != self.width[k]) + self.settings.free_intercept
            self._keep(k, point, primal, a, dual, step, moves, width, passes)
            yield

    def _keep(self, k, point, primal, a, dual, step, moves, width, passes):
        if primal < self.primal[k]:
            self.coef[k], self.intercept[k] = point[:-1], self.feature * point[-1]
            self.primal[k] = primal
        if dual > self.dual_objective[k]:
            self.a[k], self.dual_objective[k] = a, dual
        gap = max(self.primal[k] - self.dual_objective[k], 0)
        self.relative_gap[k] = gap / max(self.primal[k], 1e-300)
        self.point[k] += step
        self.scores[k] += moves
        self.width[k] = width
        self.n_epochs[k] += passes
        self.n_visits[k] += passes * len(a)

    def _step(self, point, u, weights, width, gradient, penalised, y):
        """Newton's step with an exact line search, and by how much it moves the scores."""
        # An unpenalised intercept gets lam here too: a band without rows must not make it leap.
        hessian = np.diag(np.full(len(point), self.settings.lam))
        band = np.flatnonzero((u > 0) & (u <= width) & (weights > 0))
        yield from self._add_gram(hessian, band, weights[band] / width)
        direction = -np.linalg.solve(hessian, gradient)
        moves = np.empty_like(u)
        yield from self._write_scores(direction, moves)
        t = _line_search(u, y * moves, weights, width, penalised, point, direction)
        return t * direction, t * moves

    def _write_scores(self, point, out):
        """Write <w, x_i> + the intercept's part."""
        intercept = np.array([self.feature * point[-1]])
        size = _session.rows_per_call(self.rows, 1)
        for first in range(0, len(out), size):
            part = out[first : first + size]
            _core.decision_function(
                self.rows, first, point[None, :-1].copy(), intercept, part[:, None]
            )
            yield

    def _combine(self, factors, out):
        """Add sum_i factors_i (x_i, feature) to `out`."""
        size = _session.rows_per_call(self.rows, 1)
        for first in range(0, len(factors), size):
            _core.combine(self.rows, first, factors[first : first + size], out[:-1])
            yield
        out[-1] += self.feature * factors.sum()

    def _add_gram(self, out, which, weights):
        """Add sum_i weights_i z_i z_i^T, z = (x, feature), over the rows `which`."""
        d = self.rows.shape[1]
        dtype = np.float32 if self.rows.value_bytes == 4 else np.float64
        size = max(16, int(2e8 / (d + 1) ** 2))
        for first in range(0, len(which), size):
            part = which[first : first + size]
            z = np.empty((len(part), d), dtype)
            _core.copy_rows(self.rows, part, z)
            # In double: errors of single precision are as large as a small lam, along directions in
            # which nothing but lam holds the matrix up (features that add up to a constant).
            z = z.astype(np.float64, copy=False)
            weighted = z * weights[first : first + size, None]
            out[:-1, :-1] += z.T @ weighted
            edge = self.feature * weighted.sum(axis=0)
            out[-1, :-1] += edge
            out[:-1, -1] += edge
            out[-1, -1] += self.feature**2 * weights[first : first + size].sum()
            yield


def _huber(u, width):
    """The smoothed hinge."""
    inside = np.clip(u, 0, width)
    return inside * inside / (2 * width) + np.maximum(u - width, 0)


def _line_search(u, moves, weights, width, penalised, point, direction):
    """The t >= 0 at which the smoothed objective is least along `direction`.

    Its derivative is piecewise linear and grows; Newton's method on it, kept between what is known to
    lie left and right of the root.
    """
    first, second = penalised * point @ direction, penalised * direction @ direction
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(_SEARCHES):
        at = u - t * moves
        slope = first + t * second - (weights * moves) @ np.clip(at / width, 0, 1)
        inside = (at > 0) & (at < width)
        curvature = second + (weights * inside * moves) @ moves / width
        if slope < 0:
            low = t
        else:
            high = t
        if abs(slope) <= 1e-3 * abs(first) or high - low <= 1e-12 * t:
            break
        better = t - slope / curvature if curvature > 0 else np.inf
        if not low < better < high:
            better = 2 * t if high == np.inf else (low + high) / 2
        t = better
    return t
