"""Newton's method on rows that lie in blocks, by one pass over all blocks a round.

For rows that are spread over the workers of a cluster, where rounds are dear. This module knows
nothing of clusters: a `Blocks` object runs a function on every block and adds the results up in a
fixed tree. `BlocksInProcess` is one for blocks in this process.

With u = z - y f(x), slopes p = l'(u) and dual variables a = c p, a pass at the point w and the step
s returns, for every problem: slopes of the objective at ten points along s; at w + s the losses,
sums of the dual variables, sum_i a_i y_i x_i, and the second derivatives or their diagonal. So one
pass tells whether the step was a good one, the gap where it ends, and the next step from there.

A loss with corners is smoothed over a width around centres p0, by the proximal point method on the
dual (see ``csrc/newton.c``). Centres stay with the blocks. They are defined by the pairs of a point
and a width at which they were moved: a block that is lost is computed again with the same bits.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from scipy import linalg

from pegasos import _core, _threads
from pegasos.problems import _losses, _rows, _validate
from pegasos.problems._settings import Settings

#: Where slopes along a step are computed; that at 0 and that at 1 are known from gradients.
ALONG = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1.5, 2.5, 5.0)
#: What a block adds up for each problem, beside vectors; see `_see_piece`. Of the dual variables,
#: those with y a >= 0 first, then those with y a < 0.
LOSS, SMOOTH, MOVED, LINEAR, SQUARE, SIZE, NUMBERS = (
    0,
    1,
    2,
    slice(3, 5),
    slice(5, 7),
    slice(7, 9),
    9,
)

# Rows that are worked on at once.
_PIECE = 8192
# Results that one task of the tree adds up.
_FAN = 8
# Newton's matrix has at most so many features, and those of all problems so many numbers.
_MOST_FEATURES, _MOST_NUMBERS = 500, 2**22
# Pairs of L-BFGS, of which all problems keep so many numbers.
_PAIRS, _NUMBERS_OF_PAIRS = 30, 2**25
# Dual points that are kept; pairs of shares that change at most, and the gain that is too little.
_CUTS, _MIXES, _MIXED = 20, 1000, 1e-6
# The first width beside the spread of targets, by how much it falls, and its least value beside the
# first one.
_FIRST_WIDTH, _NARROWER, _NARROWEST = 0.25, 0.6, 1e-6
# A step is taken if the slope at its end is at most this part of that at its start.
_FLAT = 0.9
# Rounds in which a problem may look for the length of one step.
_SEARCHES = 20
# Beside lam: what Newton's matrix has for a free intercept. Beside the trace: what makes the matrix
# regular.
_FREE, _RIDGES = 1e-4, (0.0, 1e-12, 1e-9, 1e-6)


# ---- Losses -------------------------------------------------------------------------------------


class Slopes:
    """A loss, or a smoothed one, as a function of u for rows of weight 1; as ``csrc/loss.h``."""

    def __init__(self, loss: _losses.Loss, width: float) -> None:
        self.is_log = loss.name == "log_loss"
        self.least, self.most = loss.least, loss.bound
        self.dead = loss.epsilon if loss.name.endswith("insensitive") else 0.0
        self.own_width = loss.diagonal  # 0 where the loss has corners
        self.width = self.own_width or width

    @staticmethod
    def is_smooth(loss: _losses.Loss) -> bool:
        """Whether a loss has one derivative everywhere."""
        return loss.curvature > 0

    def _shrunk(self, u: np.ndarray, dead: float) -> np.ndarray:
        return np.sign(u) * np.maximum(np.abs(u) - dead, 0) if dead else u

    def slope(self, u: np.ndarray, centre: Any) -> np.ndarray:
        """p, which times the weight of the row is a feasible dual variable."""
        if self.is_log:
            with np.errstate(over="ignore"):
                return 1 / (1 + np.exp(1 - u))
        p = u / self.width
        if centre is not None:
            p += centre
        return np.clip(self._shrunk(p, self.dead / self.width), self.least, self.most)

    def bend(self, p: np.ndarray) -> np.ndarray:
        """The second derivative where the slope is p."""
        if self.is_log:
            return p * (1 - p)
        inside = (self.least < p) & (p < self.most)
        if self.dead:
            inside &= p != 0
        return inside / self.width

    def value(self, u: np.ndarray) -> np.ndarray:
        """l(u), without smoothing."""
        if self.is_log:
            return np.maximum(u - 1, 0) + np.log1p(np.exp(-np.abs(u - 1)))
        v = self._shrunk(u, self.dead)
        if self.own_width == 0:
            return np.maximum(self.most * v, self.least * v)
        p = np.clip(v / self.own_width, self.least, self.most)
        return p * (v - self.own_width * p / 2)

    def dual(self, p: np.ndarray, z: Any) -> tuple[np.ndarray, Any]:
        """Two parts of z p - l*(p): t times the first less t^2 times the second bounds that of t p.

        Below, for the log loss, whose part is concave in t; else exactly.
        """
        if self.is_log:
            with np.errstate(divide="ignore", invalid="ignore"):
                entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
            return np.where((p > 0) & (p < 1), entropy, 0), 0 * p
        linear = z * p - self.dead * np.abs(p) if self.dead else z * p
        return linear, self.own_width / 2 * p * p


# ---- What is done with a block ------------------------------------------------------------------


class Arrays:
    """Arrays under names, which are aligned again where they come from another process.

    What a cluster sends may lie anywhere: the core refuses it, and NumPy sums it up in other
    pieces.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            is_array = isinstance(value, np.ndarray) or _validate.is_sparse(value)
            self.__dict__[name] = _validate.aligned(value) if is_array else value


class Block(Arrays):
    """Some of the rows of a fit.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Checked.
    labels : ndarray of int8 of shape (n_problems, n_rows)
        As in `pegasos.problems._problem.Problem`.
    weights : ndarray of shape (n_rows,) or None
    values : ndarray of shape (n_problems, n_rows) or None
        Targets.
    settings : Settings
    y : ndarray
        Labels or targets, as an estimator takes them.
    """

    def __init__(
        self, X: Any, labels: Any, weights: Any, values: Any, settings: Settings, y: Any = None
    ) -> None:
        self.X, self.labels, self.weights, self.values = X, labels, weights, values
        self.settings, self.y = settings, y

    @property
    def feature(self) -> float:
        """The value of the constant feature that has the intercept as its weight."""
        return feature_of(self.settings)

    def rows(self) -> _core.Rows:
        """The rows, as the core takes them."""
        return _validate.rows(self.X, checked=True)[0]

    def squares(self, first: int, last: int) -> _core.Rows | None:
        """The squares of all numbers of some rows; None if all are 0."""
        if not _validate.is_sparse(self.X):
            return _core.dense_rows(np.square(self.X[first:last], dtype=np.float64))
        X, (begin, end) = self.X, self.X.indptr[[first, last]]
        if begin == end:
            return None
        values = np.square(X.data[begin:end], dtype=np.float64)
        ends = X.indptr[first : last + 1] - begin
        return _core.csr_rows(values, X.indices[begin:end], ends, X.shape[1])

    def dense(self, which: np.ndarray) -> np.ndarray:
        """Some rows and their constant feature, as a new array of float64."""
        X = self.X[which]
        X = X.toarray() if _validate.is_sparse(X) else X
        return np.column_stack([X, np.full(len(which), self.feature)]).astype(np.float64)


class Message(Arrays):
    """What a round tells all blocks: where to look, and what centres to move before.

    Attributes
    ----------
    which : ndarray of int
        The problems that go on.
    points, steps : ndarray of shape (len(which), n_features + 1)
        w, with the weight of the constant feature, and s.
    widths : ndarray of shape (len(which),)
    with_matrix : bool
        Whether second derivatives are wanted as a matrix, or their diagonal.
    moves : list of tuple
        (problem, point, width): the slopes there become its centres.
    """

    which: np.ndarray
    points: np.ndarray
    steps: np.ndarray
    widths: np.ndarray
    with_matrix: bool
    moves: list[Any]

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def feature_of(settings: Settings) -> float:
    """The value of the constant feature that has the intercept as its weight."""
    return 1.0 if settings.free_intercept else settings.constant_feature


def move(block: Block, centres: np.ndarray | None, message: Message) -> np.ndarray:
    """The centres of a block after the moves of a message, of shape (n_problems, n_rows)."""
    new = np.zeros(block.labels.shape) if centres is None else centres.copy()
    rows, n = block.rows(), block.X.shape[0]
    for k, point, width in message.moves:
        loss = Slopes(block.settings.loss, width)
        scores = _rows.decision_function(rows, point[None, :-1], block.feature * point[None, -1])
        for first in range(0, n, _PIECE):
            part = slice(first, min(first + _PIECE, n))
            z = 1.0 if block.values is None else block.values[k, part]
            new[k, part] = loss.slope(z - block.labels[k, part] * scores[part, 0], new[k, part])
    return new


def see(block: Block, centres: np.ndarray | None, message: Message) -> list[np.ndarray]:
    """What a block adds to the sums of a round: arrays, which are added up over the blocks.

    Returns
    -------
    numbers : ndarray of shape (len(which), NUMBERS)
    slopes : ndarray of shape (len(which), len(ALONG))
        sum_i a_i y_i f_s(x_i), where a_i are the dual variables at points along the step s.
    vectors : ndarray of shape (n_signs, len(which), n_features + 1)
        sum_i a_i y_i (x_i, feature), of each sign of y_i a_i apart if the intercept is free.
    second : ndarray
        Upper triangles of matrices, of shape (len(which), -1), or diagonals.
    """
    n, d = block.X.shape
    count, n_signs = len(message.which), 1 + block.settings.free_intercept
    sums = [
        np.zeros((count, NUMBERS)),
        np.zeros((count, len(ALONG))),
        np.zeros((n_signs, count, d + 1)),
        np.zeros((count, d + 1, d + 1) if message.with_matrix else (count, d + 1)),
    ]
    both = np.concatenate([message.points, message.steps])
    with _threads.blas.one_thread():
        rows = block.rows()
        coef = np.ascontiguousarray(both[:, :-1])
        scores = _rows.decision_function(rows, coef, block.feature * both[:, -1])
        factors = np.zeros((n_signs, count, n))
        for first in range(0, n, _PIECE):
            part = slice(first, min(first + _PIECE, n))
            squares = None if message.with_matrix else block.squares(first, part.stop)
            for j in range(count):
                centre = None if centres is None else centres[message.which[j], part]
                _see_piece(
                    block, squares, part, j, message, centre, scores[part], factors[:, j], sums
                )
        for vectors, of_sign in zip(sums[2], factors, strict=True):
            vectors[:, :-1] = rows.combine(of_sign)
            vectors[:, -1] = block.feature * of_sign.sum(axis=1)
    if message.with_matrix:
        upper = np.triu_indices(d + 1)
        sums[3] = sums[3][:, *upper]
    return sums


def _see_piece(
    block: Block, squares: Any, part: slice, j: int, message: Message, centre: Any,
    scores: np.ndarray, of_signs: np.ndarray, sums: list[np.ndarray],
) -> None:  # fmt: skip
    k, count = message.which[j], len(message.which)
    loss = Slopes(block.settings.loss, message.widths[j])
    y = block.labels[k, part].astype(np.float64)
    c = np.abs(y) if block.weights is None else np.abs(y) * block.weights[part]
    z = 1.0 if block.values is None else block.values[k, part]
    now, towards = z - y * scores[:, j], y * scores[:, count + j]
    numbers, slopes, second = sums[0][j], sums[1][j], sums[3][j]
    if message.steps[j].any():
        factors = c * towards
        for i, t in enumerate(ALONG):
            slopes[i] += (loss.slope(now - t * towards, centre) * factors).sum()
        now -= towards
    p = loss.slope(now, centre)
    value, (linear, square) = loss.value(now), loss.dual(p, z)
    numbers[LOSS] += (c * value).sum()
    if loss.own_width == 0 and not loss.is_log:
        moved = (p if centre is None else p - centre) ** 2
        numbers[MOVED] += (c * moved).sum()
        lost = loss.dead * np.abs(p) + loss.width / 2 * moved
        numbers[SMOOTH] += (c * (p * now - lost)).sum()
    else:
        numbers[SMOOTH] += (c * value).sum()
    a = c * y * p
    for i, inside in enumerate((a >= 0, a < 0)):
        numbers[LINEAR][i] += (c * linear * inside).sum()
        numbers[SQUARE][i] += (c * square * inside).sum()
        numbers[SIZE][i] += (np.abs(a) * inside).sum()
        if i < len(of_signs):
            of_signs[i, part] = a * inside if len(of_signs) > 1 else a
    bend = c * loss.bend(p)
    if message.with_matrix:
        band = np.flatnonzero(bend)
        scaled = block.dense(part.start + band) * np.sqrt(bend[band])[:, None]
        second += scaled.T @ scaled
    else:
        if squares is not None:
            second[:-1] += squares.combine(bend[None])[0]
        second[-1] += block.feature**2 * bend.sum()


def begin(block: Block, number: int, local: Any) -> list[np.ndarray]:
    """The weight of a block, and that times the model that it has on its own.

    A block without rows of all classes has none.

    Parameters
    ----------
    number : int
        Of the block: it makes the seed another one.
    local : pegasos.estimators._base.PegasosEstimator
        What to fit; it has a seed.
    """
    settings, d = block.settings, block.X.shape[1]
    size = float(block.X.shape[0] if block.weights is None else block.weights.sum())
    point = np.zeros((len(block.labels), d + 1))
    inside = block.labels if block.weights is None else block.labels[:, block.weights > 0]
    has_all = block.values is not None or all({-1, 1} <= set(np.unique(y).tolist()) for y in inside)
    if not has_all or size == 0:
        return [np.zeros(1), point]
    model = copy.copy(local)
    model.random_state = (local.random_state + number) % 2**63
    model.fit(block.X, block.y, block.weights)
    point[:, :-1] = np.atleast_2d(model.coef_)
    feature = feature_of(settings)
    point[:, -1] = model.intercept_ / feature if feature else 0.0
    return [np.array([size]), size * point]


def add(parts: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """The sums of the arrays of several blocks, in their order."""
    total = [array.copy() for array in parts[0]]
    for part in parts[1:]:
        for array, other in zip(total, part, strict=True):
            array += other
    return total


def tree(parts: list[Any], add: Callable[[list[Any]], Any]) -> Any:
    """Add up parts in a tree whose shape depends on their number alone."""
    while len(parts) > 1:
        parts = [add(parts[i : i + _FAN]) for i in range(0, len(parts), _FAN)]
    return parts[0]


class Blocks(Protocol):
    """Blocks of rows, and the centres of each."""

    def sum_up(self, function: Callable[..., Any], message: Any) -> Any:
        """The sum over blocks of what ``function(block, number of the block, message)`` returns."""
        ...

    def look(self, message: Message) -> list[np.ndarray]:
        """Move centres, and the sum over blocks of what `see` returns."""
        ...


class BlocksInProcess:
    """Blocks in the memory of this process."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks: Sequence[Block] = blocks
        self.centres: list[np.ndarray | None] = [None] * len(blocks)

    def sum_up(self, function: Callable[..., Any], message: Any) -> Any:
        """See `Blocks`."""
        return tree([function(block, k, message) for k, block in enumerate(self.blocks)], add)

    def look(self, message: Message) -> list[np.ndarray]:
        """See `Blocks`."""
        pairs = list(zip(self.blocks, self.centres, strict=True))
        if message.moves:
            self.centres = [move(block, centres, message) for block, centres in pairs]
            pairs = list(zip(self.blocks, self.centres, strict=True))
        return tree([see(block, centres, message) for block, centres in pairs], add)


# ---- What is done with the sums -----------------------------------------------------------------


class _Problem:
    """Where one problem stands."""

    def __init__(self, settings: Settings, mass: float, point: np.ndarray, scale: float) -> None:
        self.settings, self.mass = settings, mass
        self.point, self.step = point, np.zeros_like(point)
        self.is_smooth = Slopes.is_smooth(settings.loss)
        self.width = self.first_width = _FIRST_WIDTH * scale
        self.penalty = np.full(len(point), settings.lam)
        self.penalty[-1] *= not settings.free_intercept
        self.best, self.primal = point, np.inf
        self.dual: float = 0.0  # a = 0 is a dual point of value 0
        self.smooth, self.gradient, self.second = np.inf, np.zeros_like(point), np.zeros(0)
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []
        # (G, w(a)) of dual points, the products of the latter, and the shares of a = 0 and of them.
        self.cuts: list[tuple[float, np.ndarray]] = []
        self.gram, self.shares = np.zeros((0, 0)), np.ones(1)
        self.n_searches, self.is_over = 0, False
        self.move: Any = None

    @property
    def relative_gap(self) -> float:
        return float(max(self.primal - self.dual, 0) / self.primal) if self.primal > 0 else 0.0

    def take(self, numbers: Any, slopes: Any, vectors: Any, second: Any, n_pairs: int) -> None:
        """Hear of a round, and say in `point`, `step`, `width` and `move` what the next one is."""
        m, penalty, self.move = self.mass, self.penalty, None
        point = self.point + self.step
        ridge = (penalty * point) @ point / 2
        primal, smooth = ridge + numbers[LOSS] / m, ridge + numbers[SMOOTH] / m
        gradient = penalty * point - vectors.sum(axis=0) / m
        if not (np.isfinite(numbers).all() and np.isfinite(gradient).all()):
            raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
        dual = self._cut(numbers, vectors)
        if primal < self.primal:
            self.primal, self.best = primal, point
        if self.step.any():
            t = self._length(slopes, gradient)
            at_end, at_start = gradient @ self.step, self.gradient @ self.step
            slack = 1e-12 * abs(self.smooth)
            if abs(at_end) > _FLAT * abs(at_start) or smooth > self.smooth + slack:
                self.n_searches += 1
                self.is_over = self.n_searches > _SEARCHES or not t > 0
                self.step = t * self.step
                return
            change = gradient - self.gradient
            if n_pairs and self.step @ change > 0:
                self.pairs = [*self.pairs[1 - n_pairs :], (self.step, change)]
        self.point, self.smooth, self.gradient, self.second = point, smooth, gradient, second
        self.n_searches = 0
        smoothing = self.width / 2 * numbers[MOVED] / m
        if not self.is_smooth and smooth - (dual - smoothing) <= primal - smooth:
            self.move = point, self.width
            self.width = max(_NARROWER * self.width, _NARROWEST * self.first_width)
            self.step = np.zeros_like(point)
            return
        self.step = self._by_matrix() if n_pairs == 0 else self._by_pairs()
        self.is_over = not self.gradient @ self.step < 0

    def _cut(self, numbers: np.ndarray, vectors: np.ndarray) -> float:
        """D of the dual variables of a round, made feasible, after which `dual` is the best known.

        D is concave: for weights beta >= 0 whose sum is at most 1, dual variables sum_t beta_t a_t
        of several rounds have at least sum_t beta_t G_t - lam/2 |sum_t beta_t w(a_t)|^2, where G_t
        is D(a_t) without its last part. (Teo, Vishwanathan, Smola and Le: Bundle methods for
        regularized risk minimization, JMLR 11 (2010) 311-365, get their lower bound so.)
        """
        lam, m = self.settings.lam, self.mass
        factors = np.ones(2)
        if self.settings.free_intercept:  # the heavier sign is scaled down
            sizes = numbers[SIZE]
            factors = np.divide(sizes.min(), sizes, out=np.zeros(2), where=sizes > 0)
            point = (factors @ vectors.reshape(2, -1))[:-1] / (lam * m)
        else:
            point = vectors[0] / (lam * m)
        own = (factors * numbers[LINEAR] - factors**2 * numbers[SQUARE]).sum() / m
        if len(self.cuts) == _CUTS:
            self._drop(int(np.argmin(self.shares[1:])))
        products = np.array([other @ point for _, other in self.cuts] + [point @ point])
        self.cuts.append((own, point))
        size = len(self.cuts)
        self.shares = np.append(self.shares, 0.0)
        gram = np.zeros((size, size))
        gram[:-1, :-1], gram[-1], gram[:, -1] = self.gram, products, products
        self.gram = gram
        self._mix()
        values = np.array([value for value, _ in self.cuts])
        shares = self.shares[1:]
        self.dual = max(self.dual, float(values @ shares - lam / 2 * shares @ gram @ shares))
        return own - lam / 2 * products[-1]

    def _drop(self, j: int) -> None:
        """Forget a cut, and leave its share to a = 0."""
        del self.cuts[j]
        self.gram = np.delete(np.delete(self.gram, j, 0), j, 1)
        self.shares[0] += self.shares[j + 1]
        self.shares = np.delete(self.shares, j + 1)

    def _mix(self) -> None:
        """Find shares of cuts, and of a = 0, that give about the best bound, by steps on pairs."""
        size = len(self.shares)
        values = np.append(0.0, [value for value, _ in self.cuts])
        matrix = np.zeros((size, size))
        matrix[1:, 1:] = self.settings.lam * self.gram
        slopes = values - matrix @ self.shares
        for _ in range(_MIXES):
            inside = np.flatnonzero(self.shares > 0)
            i, j = int(np.argmax(slopes)), int(inside[np.argmin(slopes[inside])])
            gain = slopes[i] - slopes[j]
            if not gain > _MIXED * max(self.dual, abs(values[i])):
                break
            curvature = matrix[i, i] + matrix[j, j] - 2 * matrix[i, j]
            share = self.shares[j]
            step = min(gain / curvature, share) if curvature > 0 else share
            self.shares[i] += step
            self.shares[j] = 0.0 if step == share else share - step
            slopes -= step * (matrix[:, i] - matrix[:, j])

    def _length(self, slopes: np.ndarray, gradient: np.ndarray) -> float:
        """Where along the step the slope of the objective is 0; it grows from point to point."""
        t = np.array(ALONG)
        towards = self.penalty * self.step
        at = towards @ self.point + t * (towards @ self.step) - slopes / self.mass
        t, at = (
            np.append(t, [0, 1]),
            np.append(at, [self.gradient @ self.step, gradient @ self.step]),
        )
        order = np.argsort(t)
        t, at = t[order], at[order]
        beyond = np.flatnonzero(at > 0)
        if not len(beyond):
            return float(t[-1])
        j = beyond[0]
        return float(t[j - 1] + (t[j] - t[j - 1]) * at[j - 1] / (at[j - 1] - at[j])) if j else 0.0

    def _by_matrix(self) -> np.ndarray:
        """Newton's step."""
        size = len(self.point)
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size)] = self.second / self.mass
        free = _FREE * self.settings.lam * self.settings.free_intercept
        diagonal = self.penalty + np.append(np.zeros(size - 1), free)
        trace = matrix.trace() + diagonal.sum()
        for ridge in _RIDGES:
            regular = matrix + np.diag(diagonal + ridge * trace / size)
            try:
                return -linalg.cho_solve(linalg.cho_factor(regular), self.gradient)
            except linalg.LinAlgError:
                continue
        return -self.gradient / (diagonal + np.diag(matrix))

    def _by_pairs(self) -> np.ndarray:
        """The step of L-BFGS; its first matrix is a multiple of the diagonal."""
        q, factors = self.gradient.copy(), []
        for s, v in reversed(self.pairs):
            factors.append((s @ q) / (s @ v))
            q -= factors[-1] * v
        diagonal = self.penalty + self.second / self.mass
        diagonal[-1] += _FREE * self.settings.lam * self.settings.free_intercept
        inverse = np.divide(1, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        if self.pairs:
            s, v = self.pairs[-1]
            inverse *= (s @ v) / (v * inverse @ v)
        q *= inverse
        for (s, v), factor in zip(self.pairs, reversed(factors), strict=True):
            q += (factor - (v @ q) / (s @ v)) * s
        return -q


class Rounds:
    """The rounds of a fit.

    Parameters
    ----------
    blocks : Blocks
    settings : Settings
    masses : ndarray of shape (n_problems,)
        The sums of the weights of the rows of each problem.
    start : ndarray of shape (n_problems, n_features + 1)
        Where to begin.
    scales : ndarray of shape (n_problems,)
        The spread of the targets; 1 for labels.

    Attributes
    ----------
    n_rounds : int
    points : ndarray of shape (n_problems, n_features + 1)
        The best ones so far; the last weight is that of the constant feature.
    """

    def __init__(
        self,
        blocks: Blocks,
        settings: Settings,
        masses: np.ndarray,
        start: np.ndarray,
        scales: np.ndarray,
    ) -> None:
        n_problems, size = start.shape
        self.blocks, self.n_rounds = blocks, 0
        self._problems = [
            _Problem(settings, mass, point, scale)
            for mass, point, scale in zip(masses, start, scales, strict=True)
        ]
        self.with_matrix = size <= _MOST_FEATURES + 1 and n_problems * size**2 <= _MOST_NUMBERS
        n_pairs = min(_PAIRS, max(3, _NUMBERS_OF_PAIRS // (2 * n_problems * size)))
        self._n_pairs = 0 if self.with_matrix else n_pairs

    @property
    def points(self) -> np.ndarray:
        return np.array([p.best for p in self._problems])

    @property
    def objective(self) -> np.ndarray:
        """P of the best points so far."""
        return np.array([p.primal for p in self._problems])

    @property
    def dual_objective(self) -> np.ndarray:
        """The best D so far."""
        return np.array([p.dual for p in self._problems])

    @property
    def relative_gaps(self) -> np.ndarray:
        """(P - D)/P."""
        return np.array([p.relative_gap for p in self._problems])

    def run(self, tol: float, max_rounds: int, tell: Callable[[], None] = lambda: None) -> None:
        """Make rounds until all gaps are at most `tol`, but at most `max_rounds`.

        A problem also ends where its steps are lost in rounding.
        """
        moves: list[Any] = []
        with _threads.blas.one_thread():
            for _ in range(max_rounds):
                which = [
                    k for k, p in enumerate(self._problems)
                    if not p.is_over and not p.relative_gap <= tol
                ]  # fmt: skip
                if not which:
                    return
                active = [self._problems[k] for k in which]
                message = Message(
                    which=np.array(which),
                    points=np.array([p.point for p in active]),
                    steps=np.array([p.step for p in active]),
                    widths=np.array([p.width for p in active]),
                    with_matrix=self.with_matrix,
                    moves=[move for move in moves if move[0] in which],
                )
                numbers, slopes, vectors, second = self.blocks.look(message)
                self.n_rounds += 1
                for j, p in enumerate(active):
                    p.take(numbers[j], slopes[j], vectors[:, j], second[j], self._n_pairs)
                moves = [(k, *self._problems[k].move) for k in which if self._problems[k].move]
                tell()
