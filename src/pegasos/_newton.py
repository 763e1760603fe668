"""Newton's method on the smoothed hinge: a finisher for few features, and for the last digits.

The proximal point method on the dual: given a dual point A, the next one is the best of

    D(a) - delta/(2 m) sum_i (a_i - A_i)^2 / c_i,    0 <= a_i <= c_i.

Its own dual is a smooth problem in w. With u_i = 1 - y_i f(x_i),

    minimise  lam/2 |w|^2 + 1/m sum_i h_i(u_i),    h_i'(u) = a_i(u) = clip(A_i + c_i u/delta, 0, c_i),

which for A = 0 is the hinge rounded off over a width delta (Huber). For any w the a_i(u_i) are
dual-feasible and the gradient is lam (w - w(a)): every gradient brings a dual value with it, for nothing.
Second derivatives come from the rows in the band 0 < a_i < c_i alone. Once the smooth problem is solved
well enough, A becomes a: unlike Huber's width, delta need not go to 0 for the gap to do so, and the
problems stay easy. (Rockafellar: Augmented Lagrangians and applications of the proximal point algorithm,
Math. Oper. Res. 1 (1976) 97-116; Chapelle: Training a support vector machine in the primal, Neural
Computation 19 (2007) 1155-1178.)
"""

import numpy as np

from pegasos import _certificate, _core, _rows, _session
from pegasos._finisher import Finisher

# Width at first, and by how much it falls, to what, whenever the smooth problem is solved well enough:
# once its own gap is this part of what the smoothing accounts for.
_WIDTH, _NARROWER, _NARROWEST, _SOLVED = 0.25, 0.5, 1e-4, 0.2
# Evaluations of the derivative in one line search.
_SEARCHES = 30
# Newton's matrix is made for so many features at most; for more, its equations are solved by conjugate
# gradients, to this accuracy, in so many products at most.
MOST_FEATURES = 4000
_ACCURACY, _PRODUCTS = 0.01, 250


class Newton(Finisher):
    """Newton's method on the smoothed hinge.

    `point` holds w, and last the weight of the constant feature or the unpenalised intercept;
    `scores` are those of `point`, `centre` is A, `width` delta; `dual_objective` is the best so far,
    that of `a`.
    """

    _ARRAYS = (*Finisher._ARRAYS, "point", "scores", "centre", "width", "dual_objective")

    def __init__(self, settings, n_problems, n_rows, n_features, seed):
        super().__init__(settings, n_problems, n_rows, n_features, seed)
        self.point = np.zeros((n_problems, n_features + 1))
        self.scores = np.zeros((n_problems, n_rows))
        self.centre = np.zeros((n_problems, n_rows))
        self.width = np.full(n_problems, _WIDTH)
        self.dual_objective = np.full(n_problems, -np.inf)

    @property
    def feature(self):
        """Value of the feature that carries the intercept; 0 if there is none."""
        return 1.0 if self.settings.free_intercept else self.settings.constant_feature

    def begin(self, rows, labels, row_weights, start=None):
        super().begin(rows, labels, row_weights, start)
        if start is not None:
            self.centre[...] = self.a
            self.width[:] = _WIDTH
            self.point[:, :-1] = self.coef
            self.point[:, -1] = self.intercept / (self.feature or 1)
        for k, point in enumerate(self.point):
            scores = np.empty_like(self.scores[k])
            for _ in self._write_scores(point, scores):
                pass
            # The session knows these scores, but for rounding, unless the rows are others than before.
            distance = np.abs(scores - self.scores[k]).max()
            if start is None and distance <= 1e-9 * max(np.abs(scores).max(), 1):
                continue
            if start is not None:
                scores *= self._shrink(k, scores)
            self.scores[k] = scores
            self.relative_gap[k] = self.primal[k] = np.inf
            self.dual_objective[k] = -np.inf

    def _shrink(self, k, scores):
        """Replace a point by the best multiple of it: after an epoch, w can be worse than 0."""
        y, point = self.labels[k], self.point[k]
        slopes = _Slopes(
            np.ones(len(y)), y * scores, self._row_weights(k) / self.mass[k],
            np.zeros(len(y)), self.width[k],
        )  # fmt: skip
        t = _line_search(slopes, 0.0, self._penalised() @ point**2)
        point *= t
        return t

    def take_over(self, other):
        super().take_over(other)
        self.dual_objective[:] = other.primal * (1 - other.relative_gap)

    def _row_weights(self, k):
        weights = 1.0 if self.row_weights is None else self.row_weights
        return (self.labels[k] != 0) * weights

    def _penalised(self):
        """lam for every component of a point that is penalised."""
        penalised = np.full(self.point.shape[1], self.settings.lam)
        if self.settings.free_intercept or not self.feature:
            penalised[-1] = 0
        return penalised

    def _improve(self, k, tol, last):
        y, c = self.labels[k].astype(np.float64), self._row_weights(k)
        per_weight = 1 / np.where(c > 0, c, 1)
        mass, penalised = self.mass[k], self._penalised()
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            point, centre, width = self.point[k].copy(), self.centre[k], self.width[k]
            u = 1 - y * self.scores[k]
            penalty = penalised @ point**2 / 2
            primal = penalty + c @ np.maximum(u, 0) / mass
            a = np.clip(centre + c * u / width, 0, c)
            sums = yield from self._combine(a * y)
            gradient = penalised * point - sums / mass
            balanced, dual_sums = a, sums
            if self.settings.free_intercept:
                balanced = _certificate.feasible(
                    a[None], self.labels[k : k + 1], self.row_weights, self.settings
                )[0]
                dual_sums = yield from self._combine(balanced * y)
                dual_sums[-1] = 0
            squared = dual_sums @ dual_sums / (2 * self.settings.lam * mass**2)
            dual = balanced.sum() / mass - squared
            smoothing = width / 2 * (per_weight @ (a - centre) ** 2) / mass
            smooth = penalty + a @ u / mass - smoothing
            solved = smooth - (dual - smoothing) <= _SOLVED * (primal - smooth)
            if solved:
                centre, width = a, max(_NARROWER * width, _NARROWEST)
                sums = yield from self._combine(np.clip(centre + c * u / width, 0, c) * y)
                gradient = penalised * point - sums / mass
            step, moves, cost = yield from self._step(
                point,
                _Slopes(u, None, c / mass, centre * per_weight, width),
                gradient,
                penalised,
                y,
            )
            # All at once, so that an interruption leaves the end of one iteration or of the next.
            passes = 2 + solved + self.settings.free_intercept + cost
            self._keep(k, point, primal, balanced, dual, step, moves, centre, width, passes)
            yield

    def _keep(self, k, point, primal, a, dual, step, moves, centre, width, passes):
        if primal < self.primal[k]:
            self.coef[k], self.intercept[k] = point[:-1], self.feature * point[-1]
            self.primal[k] = primal
        if dual > self.dual_objective[k]:
            self.a[k], self.dual_objective[k] = a, dual
        gap = max(self.primal[k] - self.dual_objective[k], 0)
        self.relative_gap[k] = gap / max(self.primal[k], 1e-300)
        self.point[k] += step
        self.scores[k] += moves
        self.centre[k], self.width[k] = centre, width
        self.n_epochs[k] += passes
        self.n_visits[k] += passes * len(a)

    def _step(self, point, slopes, gradient, penalised, y):
        """Newton's step with an exact line search, how it moves the scores, and its cost in passes."""
        inside = slopes.inside(slopes.u)
        band = np.flatnonzero(inside & (slopes.weights > 0))
        weights = slopes.weights[band] / slopes.width
        solve = self._solve if len(point) <= MOST_FEATURES else self._solve_by_products
        direction, cost = yield from solve(band, weights, -gradient)
        moves = np.empty_like(slopes.u)
        yield from self._write_scores(direction, moves)
        slopes.moves = y * moves
        t = _line_search(slopes, penalised * point @ direction, penalised @ direction**2)
        return t * direction, t * moves, cost

    # An unpenalised intercept gets lam in Newton's matrix too: a band without rows must not make it leap.

    def _solve(self, band, weights, right):
        """Solve Newton's equations with the matrix at hand."""
        hessian = np.diag(np.full(len(right), self.settings.lam))
        yield from self._add_gram(hessian, band, weights)
        return np.linalg.solve(hessian, right), 0

    def _solve_by_products(self, band, weights, right):
        """Solve Newton's equations by conjugate gradients: two passes over the band a product."""
        rows = _rows.take(self.rows, band)
        x, residual = np.zeros_like(right), right.copy()
        direction, squared = residual.copy(), residual @ residual
        enough, n_products = _ACCURACY**2 * squared, 0
        while squared > enough and n_products < _PRODUCTS and len(band):
            scores = np.empty(len(band))
            yield from self._write_scores(direction, scores, rows)
            product = yield from self._combine(weights * scores, rows)
            product += self.settings.lam * direction
            t = squared / (direction @ product)
            x += t * direction
            residual -= t * product
            before, squared = squared, residual @ residual
            direction = residual + squared / before * direction
            n_products += 1
        if not len(band):
            x = right / self.settings.lam
        return x, round(2 * n_products * len(band) / self.rows.shape[0])

    def _write_scores(self, point, out, rows=None):
        """Write <w, x_i> + the intercept's part."""
        rows = rows or self.rows
        intercept = np.array([self.feature * point[-1]])
        size = _session.rows_per_call(rows, 1)
        for first in range(0, len(out), size):
            part = out[first : first + size]
            _core.decision_function(rows, first, point[None, :-1].copy(), intercept, part[:, None])
            yield

    def _combine(self, factors, rows=None):
        """Return sum_i factors_i (x_i, feature)."""
        rows = rows or self.rows
        out = np.zeros(self.point.shape[1])
        size = _session.rows_per_call(rows, 1)
        for first in range(0, len(factors), size):
            _core.combine(rows, first, factors[first : first + size], out[:-1])
            yield
        out[-1] = self.feature * factors.sum()
        return out

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


class _Slopes:
    """Derivatives of the smoothed hinge at u, and along a step that moves y_i f(x_i) by `moves`.

    `weights` are the c_i/m, `centre` the A_i/c_i.
    """

    def __init__(self, u, moves, weights, centre, width):
        self.u, self.moves, self.weights, self.centre, self.width = u, moves, weights, centre, width

    def inside(self, u):
        """The band."""
        a = self.centre + u / self.width
        return (a > 0) & (a < 1)

    def along(self, t):
        """First and second derivative at t."""
        u = self.u - t * self.moves
        a = self.centre + u / self.width
        weighted = self.weights * self.moves
        inside = (a > 0) & (a < 1)
        return -weighted @ np.clip(a, 0, 1), (weighted * inside) @ self.moves / self.width


def _line_search(slopes, first, second):
    """The t >= 0 at which the smooth objective is least along a step.

    Its derivative, `first` + t `second` for the penalty and the rest from `slopes`, is piecewise linear
    and grows; Newton's method on it, kept between what is known to lie left and right of the root.
    """
    low, high, t = 0.0, np.inf, 1.0
    start = first + slopes.along(0.0)[0]
    for _ in range(_SEARCHES):
        slope, curvature = slopes.along(t)
        slope, curvature = slope + first + t * second, curvature + second
        if slope < 0:
            low = t
        else:
            high = t
        if abs(slope) <= 1e-2 * abs(start) or high - low <= 1e-12 * t:
            break
        better = t - slope / curvature if curvature > 0 else np.inf
        if not low < better < high:
            better = 2 * t if high == np.inf else (low + high) / 2
        t = better
    return t
