"""Newton's method on the smoothed hinge: for few features, and for the last digits.

``csrc/newton.c`` has the derivation, and does the iterations where they are short. Here are those
of more numbers or features: they are done in pieces, so that Ctrl-C is heard, and with BLAS.
"""

import numpy as np

from pegasos import _certificate, _core, _pegasos, _rows, _threads
from pegasos._solver import _SAFELY, Solver

# Width at first, and by how much it falls, to what, whenever the smooth problem is solved well
# enough: once its own gap is this part of what the smoothing accounts for.
_WIDTH, _NARROWER, _NARROWEST, _SOLVED = 0.25, 0.6, 1e-4, 1
# A line search ends where the slope is this part of that at its start, or after so many
# evaluations.
_FLAT, _SEARCHES = 0.01, 30
# Newton's equations are solved as they stand up to this size (which takes less than 0.1 s, for
# which Ctrl-C can wait); beyond it by conjugate gradients, to this accuracy, in so many products at
# most.
MOST_FEATURES = 2000
_ACCURACY, _PRODUCTS = 0.01, 250
# Beside lam: what rounding errors of Newton's matrix may be, and what it has for a free intercept.
_ROUNDING, _FREE = 0.1, 1e-4
# Numbers of single precision should lie well within its range.
_TINY = 1e-30
# Newton's matrix is summed up over pieces of the band: this part of all numbers in X, and within
# limits.
_PIECES, _PIECE = 200, (5e4, 1e6)
# From so many equations on, they are worth a factorisation without copies.
_MANY = 256
# The core does iterations of its own, where one takes about as long as reading so many numbers at
# most: 10 ms. They need no BLAS up to so many features. Calls end after about so many numbers.
_SHORT, _FEW, _AT_ONCE = 10**7, 100, 10**7
_NEWTON = np.asarray(_core.BLANK_NEWTON).dtype
# Beside the trace: what makes a matrix regular again.
_RIDGE = 1e-10


class Newton(Solver):
    """Newton's method on the smoothed hinge.

    `point` holds w, and last the weight of the constant feature or the unpenalised intercept;
    `scores` are those of `point`, `centre` is A, `width` delta; `dual_objective` is the best so
    far, that of `a`.
    """

    name = "newton"
    _ARRAYS = (*Solver._ARRAYS, "point", "scores", "centre", "width", "dual_objective")

    def __init__(self, settings, n_problems, n_rows, n_features, seed):
        super().__init__(settings, n_problems, n_rows, n_features, seed)
        self.point = np.zeros((n_problems, n_features + 1))
        self.scores = np.zeros((n_problems, n_rows))
        self.centre = np.zeros((n_problems, n_rows))
        self.width = np.full(n_problems, _WIDTH)
        self.dual_objective = np.full(n_problems, -np.inf)

    @staticmethod
    def cost(rows):
        """Some ten iterations of four passes, each with a product over the tenth of rows in the band."""
        n, d = rows.shape
        if d > MOST_FEATURES:
            return np.inf
        return 10 * (4 * _rows.seconds_a_pass(rows) + 0.2 * n * d**2 / 1e11 + d**3 / 3e10)

    @property
    def feature(self):
        """Value of the feature that carries the intercept; 0 if there is none."""
        return 1.0 if self.settings.free_intercept else self.settings.constant_feature

    @_threads.blas.one_thread()
    def begin(self, rows, labels, row_weights, start=None):
        start = super().begin(rows, labels, row_weights, start)
        self.norms = self._row_norms()
        if start is None:
            self._check_kept()
        else:
            self.centre[...] = self.a
            self.width[:] = _WIDTH
            self.point[:, :-1] = self.coef
            self.point[:, -1] = self.intercept / (self.feature or 1)
        for k, scores in enumerate(self._scores()):
            # The session knows these scores, but for rounding, unless the rows are others than
            # before.
            distance = np.abs(scores - self.scores[k]).max()
            if start is None and distance <= 1e-9 * max(np.abs(scores).max(), 1):
                continue
            self.scores[k] = scores
            if start is not None:
                self._shrink(k)
            self._forget(k)
            self.dual_objective[k] = -np.inf
            # The point that it begins with may be what it ends with.
            hinge = self._row_weights(k) @ np.maximum(0, 1 - self.labels[k] * self.scores[k])
            primal = self._penalty(self.point[k], self.scores[k]) + hinge / self.mass[k]
            point = self.point[k]
            self._keep(k, point[:-1], self.feature * point[-1], primal, -np.inf)

    def run(self, tol, max_iter, *, n_threads=1, on_progress=None):
        """As a `Solver`. Each problem has one thread, and so has BLAS, so that results do not depend on
        how many there are.
        """
        with _threads.blas.one_thread():
            super().run(tol, max_iter, n_threads=n_threads, on_progress=on_progress)

    def _shrink(self, k):
        """Replace a point by the best multiple of it: after an epoch, w can be worse than 0."""
        y = self.labels[k]
        slopes = _Slopes(
            np.ones(len(y)), self._row_weights(k) / self.mass[k], np.zeros(len(y)), self.width[k]
        )
        penalty = self._penalty(self.point[k], self.scores[k])
        t = slopes.search(y * self.scores[k], 0.0, 2 * penalty)
        self.point[k] *= t
        self.scores[k] *= t

    def take_over(self, other):
        super().take_over(other)
        self.dual_objective[:] = other.primal * (1 - other.relative_gap)

    def _row_weights(self, k):
        weights = 1.0 if self.row_weights is None else self.row_weights
        return (self.labels[k] != 0) * weights

    def _improve(self, k, tol, last):
        yield from (self._run_short if self._is_short else self._iterate)(k, tol, last)
        if self.settings.free_intercept:
            yield from self._settle_intercept(k)

    def _settle_intercept(self, k):
        """Give the point that is kept its best intercept, of several the middle one."""
        y, point = self.labels[k], np.append(self.coef[k], 0)
        scores = yield from self._scores_at(point)
        best = _certificate.best_intercepts_of(
            scores[None], y[None], self.row_weights, self.settings.loss
        )[0]
        hinge = self._row_weights(k) @ np.maximum(0, 1 - y * (scores + best))
        primal = self._penalty(point, scores) + hinge / self.mass[k]
        with _threads.uninterrupted():
            self.intercept[k], self.primal[k] = best, primal
            self._keep(k, point[:-1], best, primal, self.dual_objective[k])

    @property
    def _is_short(self):
        """Whether iterations are short enough to be done by the core, which does not cut them."""
        n, d = self.rows.shape
        return d <= _FEW and 5 * self.rows.size + 20 * n + (n + d) * d**2 // 8 <= _SHORT

    def _run_short(self, k, tol, last):
        """Iterations in the core, as many at once as take about 10 ms."""
        c = np.ascontiguousarray(self._row_weights(k), np.float64)
        work, problem = np.empty(_core.newton_work(*self.rows.shape)), np.zeros(1, _NEWTON)
        names = (
            "width",
            "primal",
            "dual_objective",
            "relative_gap",
            "intercept",
            "n_epochs",
            "n_visits",
        )
        p, target = problem[0], np.nan if tol is None else _SAFELY * tol
        p["lam"], p["mass"], p["feature"] = self.settings.lam, self.mass[k], self.feature
        p["free_intercept"] = self.settings.free_intercept
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            # All at once, so that an interruption leaves the end of an iteration.
            with _threads.uninterrupted():
                for name in names:
                    p[name] = getattr(self, name)[k]
                _core.newton_run(
                    self.rows, problem, self.labels[k], c, self.point[k], self.scores[k],
                    self.centre[k], self.a[k], self.coef[k], work, target, last,
                    1 if self.by_epochs else _AT_ONCE,
                )  # fmt: skip
                for name in names:
                    getattr(self, name)[k] = p[name]
                self.is_seen[k] = False
            yield

    def _iterate(self, k, tol, last):
        c, room = self._row_weights(k), _Room()
        per_weight = 1 / np.where(c > 0, c, 1)
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            # A function of its own, so that its arrays are let go.
            yield from self._iteration(k, c, per_weight, room)
            yield

    def _iteration(self, k, c, per_weight, room):
        y, mass, centre, width = self.labels[k], self.mass[k], self.centre[k], self.width[k]
        u = 1 - y * self.scores[k]
        penalty = self._penalty(self.point[k], self.scores[k])
        primal = penalty + c @ np.maximum(u, 0) / mass
        a = _dual_point(centre, c, u, width)
        sums = yield from self._sum(a * y)
        balanced, dual_sums = a, sums
        if self.settings.free_intercept:
            balanced = _certificate.feasible(
                a[None], self.labels[k : k + 1], self.row_weights, self.settings
            )[0]
            dual_sums = yield from self._sum(balanced * y)
        squared = self._squared(dual_sums) / (2 * self.settings.lam * mass**2)
        dual = balanced.sum() / mass - squared
        moved = a - centre
        smoothing = width / 2 * (per_weight @ np.square(moved, out=moved)) / mass
        del moved
        smooth = penalty + a @ u / mass - smoothing
        solved = smooth - (dual - smoothing) <= _SOLVED * (primal - smooth)
        if solved:
            centre, width = a, max(_NARROWER * width, _NARROWEST)
            sums = yield from self._sum(_dual_point(centre, c, u, width) * y)
        slopes = _Slopes(u, c / mass, centre * per_weight, width)
        following, moves, cost = yield from self._step(k, slopes, sums, room)
        # All at once, so that an interruption leaves the end of one iteration or of the next.
        with _threads.uninterrupted():
            if dual > self.dual_objective[k] or not self.has_dual:
                self.a[k], self.dual_objective[k] = balanced, dual
            point = self.point[k]
            self._keep(k, point[:-1], self.feature * point[-1], primal, self.dual_objective[k])
            self.point[k] = following
            self.scores[k] += moves
            self.centre[k], self.width[k] = centre, width
            passes = 2 + solved + self.settings.free_intercept + cost
            self.n_epochs[k] += passes
            self.n_visits[k] += passes * len(a)

    # What follows knows where the points live; of kernel machines, `_kernel_newton` has its own.

    def _scores(self):
        """Scores of all points, one after the other."""
        for point in self.point:
            scores = np.empty(self.scores.shape[1])
            for _ in self._write_scores(point, scores):
                pass
            yield scores

    def _scores_at(self, point):
        """Scores of one point."""
        scores = np.empty(self.scores.shape[1])
        yield from self._write_scores(point, scores)
        return scores

    def _row_norms(self):
        """|x_i|^2 of all rows."""
        return _rows.squared_norms(self.rows)

    @property
    def _penalised(self):
        """lam for every component of a point that is penalised."""
        penalised = np.full(self.point.shape[1], self.settings.lam)
        if self.settings.free_intercept or not self.feature:
            penalised[-1] = 0
        return penalised

    def _penalty(self, point, scores):
        """lam/2 |w|^2 of a point, whose scores kernel machines need."""
        return self._penalised @ point**2 / 2

    def _sum(self, factors):
        """sum_i factors_i (x_i, feature)."""
        return self._combine(factors)

    def _squared(self, sums):
        """|sums|^2 without the part of an unpenalised intercept."""
        sums = sums[:-1] if self.settings.free_intercept else sums
        return sums @ sums

    def _step(self, k, slopes, sums, room):
        """The point after a step of Newton's with exact line search, how scores move, and the cost in passes."""
        point, penalised = self.point[k], self._penalised
        band = slopes.band()
        weights = slopes.weights[band] / slopes.width
        right = sums / self.mass[k] - penalised * point
        if len(point) <= MOST_FEATURES:
            direction, cost = yield from self._solve(band, weights, right, room)
        else:
            direction, cost = yield from self._solve_by_products(band, weights, right)
        moves = np.empty_like(slopes.u)
        yield from self._write_scores(direction, moves)
        t = slopes.search(
            self.labels[k] * moves, penalised * point @ direction, penalised @ direction**2
        )
        moves *= t
        return point + t * direction, moves, cost

    def _diagonal(self, band):
        """What Newton's matrix has beside the sum over the band.

        An unpenalised intercept gets a little too, so that the matrix is definite, and lam where a
        band without rows would let it leap. More would hold it back where it and w make up for each
        other.
        """
        diagonal = np.full(self.point.shape[1], self.settings.lam)
        if self.settings.free_intercept and len(band):
            diagonal[-1] *= _FREE
        return diagonal

    def _solve(self, band, weights, right, room):
        """Solve Newton's equations with a matrix at hand.

        With the rows sqrt(weight_i) (x_i, feature) of the band as A, they are (D + A^T A) p = r.
        Where the band has fewer rows than there are features, and D = lam, there are fewer unknowns
        in (Woodbury)

            p = (r - A^T x)/lam,    (lam + A A^T) x = A r.
        """
        lam, d, diagonal = self.settings.lam, len(right), self._diagonal(band)
        is_narrow = len(band) < d and not self.settings.free_intercept
        if not len(band):
            return right / diagonal, 0
        # Along directions in which nothing but lam holds the matrix up (features that add up to a
        # constant), errors must stay small beside it: single precision will do for a large lam
        # alone.
        largest = weights @ (self.norms[band] + self.feature**2)
        is_coarse = np.finfo(np.float32).eps * largest <= _ROUNDING * lam
        is_coarse &= lam > _TINY and largest < 1 / _TINY
        dtype, roots = np.float32 if is_coarse else np.float64, np.sqrt(weights)
        matrix = room.empty("matrix", (len(band) if is_narrow else d,) * 2, dtype)
        numbers = np.clip(self.rows.size / _PIECES, *_PIECE)
        size = max(16, int(min(1e9 / d**2, numbers / d)), is_narrow * len(band))
        for first in range(0, len(band), size):
            part = slice(first, min(first + size, len(band)))
            a = self._scaled_rows(band[part], roots[part], dtype, room)
            yield
            factors = (a, a.T) if is_narrow else (a.T, a)
            # NumPy knows that this is symmetric.
            square = matrix if first == 0 else room.empty("square", matrix.shape, dtype)
            np.matmul(*factors, out=square)
            if first > 0:
                matrix += square
            yield
        if not is_narrow:
            matrix[np.diag_indices(d)] += diagonal
            return self._solve_matrix(matrix, right), 0
        matrix[np.diag_indices(len(band))] += lam
        factors = np.zeros(self.rows.shape[0])
        factors[band] = roots * self._solve_matrix(matrix, a @ right.astype(dtype))
        sums = yield from self._combine(factors)
        return (right - sums) / lam, 0

    def _solve_matrix(self, matrix, right):
        solve = solve_symmetric if len(right) < _MANY else solve_positive
        return solve(matrix, right.astype(matrix.dtype)).astype(np.float64)

    def _scaled_rows(self, which, roots, dtype, room):
        """Rows (x, feature), each times its root."""
        shape = len(which), self.rows.shape[1]
        z = room.empty("rows", shape, np.float32 if self.rows.value_bytes == 4 else np.float64)
        _core.copy_rows(self.rows, which, z)
        a = room.empty("scaled", (shape[0], shape[1] + 1), dtype)
        np.multiply(z, roots[:, None], out=a[:, :-1], casting="same_kind")
        a[:, -1] = self.feature * roots
        return a

    def _solve_by_products(self, band, weights, right):
        """Solve Newton's equations by conjugate gradients: two passes over the band a product."""
        rows, diagonal, products = _rows.take(self.rows, band), self._diagonal(band), 0

        def product(direction):
            nonlocal products
            products += 1
            if rows is None:
                return diagonal * direction
            scores = np.empty(len(band))
            yield from self._write_scores(direction, scores, rows)
            sums = yield from self._combine(weights * scores, rows)
            return sums + diagonal * direction

        x = yield from conjugate_gradients(product, right)
        return x, round(2 * products * len(band) / self.rows.shape[0])

    def _write_scores(self, point, out, rows=None):
        """Write <w, x_i> + the intercept's part."""
        rows = rows or self.rows
        intercept = np.array([self.feature * point[-1]])
        size = _pegasos.rows_per_call(rows, 1)
        for first in range(0, len(out), size):
            part = out[first : first + size]
            _core.decision_function(rows, first, point[None, :-1].copy(), intercept, part[:, None])
            yield

    def _combine(self, factors, rows=None):
        """Return sum_i factors_i (x_i, feature)."""
        rows = rows or self.rows
        out = np.zeros(self.point.shape[1])
        size = _pegasos.rows_per_call(rows, 1)
        for first in range(0, len(factors), size):
            _core.combine(rows, first, factors[first : first + size], out[:-1])
            yield
        out[-1] = self.feature * factors.sum()
        return out


class _Room:
    """Arrays that are written again and again: to get new memory takes as long as to fill it."""

    def __init__(self):
        self._kept = {}

    def empty(self, name, shape, dtype=np.float64):
        """An array with anything in it; the last one of this name is lost."""
        size, key = shape[0] * shape[1], (name, np.dtype(dtype))
        if key not in self._kept or self._kept[key].size < size:
            self._kept[key] = np.empty(size, dtype)
        return self._kept[key][:size].reshape(shape)


def solve_positive(matrix, right):
    """Solve equations with a positive definite matrix, which is not kept."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    diagonal = matrix.diagonal().copy()
    try:  # transposed, it is as LAPACK wants it
        factor = cho_factor(matrix.T, overwrite_a=True, check_finite=False)
        return cho_solve(factor, right, check_finite=False)
    except LinAlgError:  # by rounding; above the diagonal it is what it was
        upper = np.triu(matrix, 1)
    return solve_symmetric(upper + upper.T + np.diag(diagonal), right)


def solve_symmetric(matrix, right):
    """Solve equations; where rounding has made the matrix singular, with a little more on its diagonal."""
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        matrix = matrix.astype(np.float64)
        matrix[np.diag_indices_from(matrix)] += _RIDGE * matrix.trace()
        return np.linalg.solve(matrix, right)


def conjugate_gradients(product, right):
    """Solve equations with a positive definite matrix; a generator, as `product` is, of pieces.

    Parameters
    ----------
    product : callable
        Makes a generator that returns the matrix times a vector.
    right : ndarray

    Returns
    -------
    ndarray
    """
    x, residual = np.zeros_like(right), right.copy()
    direction, squared = residual.copy(), residual @ residual
    enough = _ACCURACY**2 * squared
    for _ in range(_PRODUCTS):
        if squared <= enough:
            break
        moved = yield from product(direction)
        t = squared / (direction @ moved)
        x += t * direction
        residual -= t * moved
        before, squared = squared, residual @ residual
        direction = residual + squared / before * direction
    return x


def _dual_point(centre, c, u, width):
    """a_i(u_i)."""
    a = c * u
    a /= width
    a += centre
    return np.clip(a, 0, c, out=a)


class _Slopes:
    """The smoothed hinge's derivatives at u. `weights` are the c_i/m, `centre` the A_i/c_i."""

    def __init__(self, u, weights, centre, width):
        self.u, self.weights, self.centre, self.width = u, weights, centre, width

    def band(self):
        """Rows with 0 < a_i < c_i, which have second derivatives."""
        a = self.u / self.width
        a += self.centre
        return np.flatnonzero((a > 0) & (a < 1) & (self.weights > 0))

    def search(self, moves, first, second):
        """The t >= 0 at which the smooth objective is least along a step.

        Its derivative is piecewise linear and grows; Newton's method on it, kept between what is
        known to lie left and right of the root.

        Parameters
        ----------
        moves : ndarray
            By how much the step moves y_i f(x_i).
        first, second : float
            The penalty's derivative is ``first + t * second``.
        """

        def derivatives(t):
            fall, bend = _core.hinge_slopes(self.u, moves, self.weights, self.centre, self.width, t)
            return first + t * second - fall, second + bend / self.width

        low, high, t = 0.0, np.inf, 1.0
        start, _ = derivatives(0.0)
        for _ in range(_SEARCHES):
            slope, curvature = derivatives(t)
            if slope < 0:
                low = t
            else:
                high = t
            if abs(slope) <= _FLAT * abs(start) or high - low <= 1e-12 * t:
                break
            better = t - slope / curvature if curvature > 0 else np.inf
            if not low < better < high:
                better = 2 * t if high == np.inf else (low + high) / 2
            t = better
        return t
