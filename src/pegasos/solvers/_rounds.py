"""Newton's method on rows that lie in blocks, by one pass over all blocks a round.

It serves rows that are spread over the workers of a cluster, where rounds are expensive:

    w <- the blocks' own solutions, averaged by weight
    repeat:  one pass at w + s; if the gap of the best P and the best D is small, stop
             if the slope along s at w + s is not small:  s <- s times the zero of the slopes; next
             w <- w + s
             if the smoothed gap is small:  centres <- slopes at w in every block; s <- 0; next
             s <- Newton's step, or that of L-BFGS

`Rounds.train` and `Iterate.update` are this loop. With u = z - y f(x), slopes p = l'(u) and dual
variables a = c p, a pass (`evaluate_block`) returns for every problem the slopes of the objective
at ten points along s. At w + s, it returns the losses, sums of the dual variables,
sum_i a_i y_i x_i, and the second derivatives or their `_moments`. So one pass tells whether the
step was good, the gap where it ends, and the next step from there.

A loss with corners, or a narrow bend, is smoothed over a width around centres p0, by the proximal
point method on the dual (see ``csrc/newton.c``). Centres stay with the blocks. They follow from the
list of points and widths at which they were moved, so a lost block is computed again with the same
bits. A fit can go on from this list and the state of each `Iterate`.

This module knows nothing of clusters or files: a `BlockRunner` has blocks of this process. Those of
`pegasos.dask` are on a cluster, and those of `pegasos.solvers._block_schedule` are read from disk.
"""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from pegasos import _core, _threads
from pegasos.problems import _losses, _rows, _validate
from pegasos.problems._certificate import Certificate
from pegasos.problems._partitions import Arrays
from pegasos.problems._settings import Settings
from pegasos.solvers import _schedule, _state
from pegasos.solvers._linear import LinearSolver
from pegasos.solvers._out_of_core import OutOfCoreSchedule

# Where slopes along a new step are computed. Slopes at 0 and 1 are known from gradients.
_ALONG = np.array([0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1.5, 2.5, 5.0])
# At its start, a fit solves each block alone to the gap _ROUGH, within _ROUGH_EPOCHS epochs. Above
# MOST_FEATURES, an epoch takes as long as some rounds, so the limit is _ROUGH_EPOCHS_IF_MANY.
_ROUGH, _ROUGH_EPOCHS, _ROUGH_EPOCHS_IF_MANY = 1e-2, 30, 10
# The most rows that are worked on at once, and the most numbers in them as dense rows.
_PIECE, _DENSE = 8192, 2**18
# Results that one task of the tree adds up.
_FAN = 8
# The most features for Newton's matrix, and the most numbers in the matrices of all problems.
MOST_FEATURES, _MOST_NUMBERS = 500, 2**22
# The most pairs of L-BFGS that a problem keeps, and the most numbers in the pairs of all problems.
MOST_PAIRS, _NUMBERS_OF_PAIRS = 30, 2**25
# The first width (targets spread by about 1), the factor by which it falls, and its least value. A
# Huber loss with an epsilon below _NARROW is smoothed too: few rows lie where it bends, and they
# would lead steps astray.
_NARROW = 0.1
_FIRST_WIDTH, _NARROWER, _NARROWEST = 0.25, 0.6, 2.5e-7
# `wide_curvature` widens the band of a smoothed hinge by this factor.
_WIDER = 3.0
# A step is taken if the slope at its end is at most this part of the slope at its start.
_FLAT = 0.9
# If the slope at the end of a step is this part of that at its start, or more, the step was far too
# long (the other sign) or far too short (the same sign).
_LONG, _SHORT = 2.0, 0.3
# Variances of features are at least this part of their mean squares: less would be rounding.
_LEAST_VARIANCE = 1e-8
# The most rounds in which a problem searches for the length of one step.
_SEARCHES = 20
# Parts of the mean diagonal that are added to Newton's matrix until it has a factor.
_RIDGES = 0.0, 1e-12, 1e-9, 1e-6


# ---- What is done with a block ------------------------------------------------------------------


class Smoothed:
    """A loss as a function of u for rows of weight 1, smoothed over a width delta.

    Piecewise quadratic losses (``csrc/loss.h``) are l(u) = max_p u p - l*(p), with

        l*(p) = dead |p| + h/2 p^2,    least <= p <= most.

    Smoothed around a centre p0, such a loss is max_p u p - l*(p) - delta/2 (p - p0)^2, at

        p = clip(shrink(u + delta p0, dead)/(h + delta), least, most),

    which is its slope; shrink(u, dead) = sign(u) max(|u| - dead, 0). The second derivative is
    1/(h + delta) where p is between the bounds and, if there is a dead zone, not 0; else it is 0.
    A `smoothing` delta of 0 leaves a loss with h > 0 as it is. The log loss is never smoothed.
    """

    def __init__(self, loss: _losses.Loss, smoothing: float) -> None:
        self.is_log = loss.name == "log_loss"
        self.least, self.most = loss.dual_lower, loss.dual_upper
        self.dead, self.own_width = loss.dead, loss.width  # 0: corners
        self.smoothing, self.width = smoothing, self.own_width + smoothing

    def _shrunk(self, u: np.ndarray, dead: float) -> np.ndarray:
        return np.sign(u) * np.maximum(np.abs(u) - dead, 0) if dead else u

    def slope(self, u: np.ndarray, centre: Any) -> np.ndarray:
        """The slope p; p times the weight of the row is a feasible dual variable."""
        if self.is_log:
            with np.errstate(over="ignore"):
                return 1 / (1 + np.exp(1 - u))
        p = u / self.width + centre * (self.smoothing / self.width)
        return np.clip(self._shrunk(p, self.dead / self.width), self.least, self.most)

    def curvature(self, p: np.ndarray) -> np.ndarray:
        """The second derivative where the slope is p."""
        if self.is_log:
            return p * (1 - p)
        inside = (self.least < p) & (p < self.most)
        return (inside & (p != 0) if self.dead else inside) / self.width

    def wide_curvature(self, p: np.ndarray, u: np.ndarray, centre: Any) -> np.ndarray:
        """The second derivative; that of a smoothed hinge has a wider band around the same middle.

        Along a step, rows enter and leave a narrow band.
        """
        if self.dead or self.own_width or not self.smoothing:
            return self.curvature(p)
        wide, middle = copy.copy(self), (self.least + self.most) / 2
        wide.smoothing = wide.width = _WIDER * self.smoothing
        return wide.curvature(wide.slope(u, middle + (centre - middle) / _WIDER))

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
        """Two parts of z p - l*(p): for t p, it is t times the first less t^2 times the second.

        That is exact, except for the log loss: there it is a lower bound, by concavity in t.
        """
        if self.is_log:
            with np.errstate(divide="ignore", invalid="ignore"):
                entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
            return np.where((p > 0) & (p < 1), entropy, 0), 0 * p
        return z * p - self.dead * np.abs(p), self.own_width / 2 * p * p


class Block(Arrays):
    """Some of the rows of a fit, with its settings.

    `X`, an array or a CSR matrix, is checked. `labels` and `values` (the targets, or None) have
    shape (n_problems, n_rows), as in `Problem`. `weights` have shape (n_rows,) or are None.
    """

    def rows(self) -> _core.Rows:
        return _validate.rows(self.X, checked=True)[0]

    def pieces(self, size: int = 1) -> list[slice]:
        """Slices of rows that are worked on at once, where each row takes `size` numbers."""
        n, each = self.X.shape[0], max(1, min(_PIECE, _DENSE // size))
        return [slice(first, min(first + each, n)) for first in range(0, n, each)]

    def of_problem(self, k: int, part: slice) -> tuple[np.ndarray, np.ndarray, Any]:
        """Weights (0: not in the problem), labels and targets of some rows in problem k."""
        y = self.labels[k, part].astype(np.float64)
        c = np.abs(y) if self.weights is None else np.abs(y) * self.weights[part]
        return c, y, 1.0 if self.values is None else self.values[k, part]

    def dense(self, which: np.ndarray) -> np.ndarray:
        """Some rows and their constant feature, as a new array of float64."""
        X = self.X[which]
        X = X.toarray() if _validate.is_sparse(X) else X
        return np.column_stack([X, np.full(len(which), feature_of(self.settings))]).astype(float)


class Message(Arrays):
    """What a pass tells all blocks: where to evaluate, and which centres to move before.

    `which` are the problems of the pass. For each there are rows of `points`, w with the weight of
    the constant feature, of `steps`, s, and of `along`, the multiples of s at which slopes are
    wanted. `widths` has a width for each, and `wide` says whether second derivatives are those of a
    wider band. `with_matrix`: send them as matrices, else as `_moments`. `moves` are (problem,
    point, width): the problem's centres become the slopes at the point. The first message of a fit
    has only `which` and a seed.
    """


def feature_of(settings: Settings) -> float:
    """The value of the constant feature whose weight gives the intercept."""
    return 1.0 if settings.free_intercept else settings.constant_feature


def move(block: Block, centres: np.ndarray | None, message: Message) -> np.ndarray:
    """The centres of a block after the moves of a message, of shape (n_problems, n_rows)."""
    new = np.zeros(block.labels.shape) if centres is None else centres.copy()
    rows, feature = block.rows(), feature_of(block.settings)
    for k, point, width in message.moves:
        loss = Smoothed(block.settings.loss_of(k), width)
        scores = _rows.decision_function(rows, point[None, :-1], feature * point[None, -1])
        for part in block.pieces():
            _, y, z = block.of_problem(k, part)
            new[k, part] = loss.slope(z - y * scores[part, 0], new[k, part])
    return new


def evaluate_block(
    block: Block, centres: np.ndarray | None, number: int, message: Message
) -> dict[str, np.ndarray]:
    """What a block adds to the sums of a round; `add` adds these up over the blocks.

    Arrays have shape (len(message.which), ...). At w + s: ``loss``, ``smooth`` (the smoothed loss)
    and ``moved``, the sum of c (p - centre)^2. For dual variables with y a >= 0, and for the
    others: ``linear`` and ``square`` (see `Smoothed.dual`) and ``size``, the sum of abs(a).
    ``vectors``, sum_i a_i y_i (x_i, feature), has these two kinds apart if the intercept is free.
    ``second`` has second derivatives, as upper triangles or `_moments`. ``along`` has
    sum_i a_i y_i f_s(x_i) at the points ``message.along`` s.
    """
    n, d = block.X.shape
    count, n_signs = len(message.which), 1 + block.settings.free_intercept
    feature, curvatures = feature_of(block.settings), np.zeros((count, n))
    factors, sums = np.zeros((n_signs, count, n)), []
    with _threads.blas.one_thread():
        rows, both = block.rows(), np.concatenate([message.points, message.steps])
        coef, intercept = np.ascontiguousarray(both[:, :-1]), feature * both[:, -1]
        scores = _rows.decision_function(rows, coef, intercept)
        for j, k in enumerate(message.which):
            loss, of_pieces = Smoothed(block.settings.loss_of(k), message.widths[j]), []
            for part in block.pieces():
                c, y, z = block.of_problem(k, part)
                u, towards = z - y * scores[part, j], y * scores[part, count + j]
                centre = 0.0 if centres is None else centres[k, part]
                terms, p = _terms(loss, c, y, z, u, towards, centre, message.along[j])
                of_pieces.append(terms)
                bend = loss.curvature(p)
                if message.wide[j]:
                    bend = loss.wide_curvature(p, u - towards, centre)
                a, curvatures[j, part] = c * y * p, c * bend
                factors[0, j, part] = a if n_signs == 1 else np.maximum(a, 0)
                factors[1:, j, part] = np.minimum(a, 0)
            sums.append(add(of_pieces))
        total = {name: np.array([of[name] for of in sums]) for name in sums[0]}
        vectors = np.zeros((count, n_signs, d + 1))
        for sign, of_sign in enumerate(factors):
            vectors[:, sign, :-1] = rows.combine(of_sign)
            vectors[:, sign, -1] = feature * of_sign.sum(axis=1)
        given = block, rows, curvatures
        second = {"second": _matrices(*given)} if message.with_matrix else _moments(*given)
        return total | {"vectors": vectors} | second


def _terms(
    loss: Smoothed, c: np.ndarray, y: np.ndarray, z: Any, u: np.ndarray, towards: np.ndarray,
    centre: Any, points: np.ndarray,
) -> tuple[dict[str, Any], np.ndarray]:  # fmt: skip
    """The part of some rows in the sums of a problem, and their slopes at w + s."""
    along = np.zeros(len(points))
    if towards.any():
        factors = c * towards
        for i, t in enumerate(points):
            along[i] = (loss.slope(u - t * towards, centre) * factors).sum()
        u = u - towards
    p, value, moved = loss.slope(u, centre), loss.value(u), 0.0
    linear, square = loss.dual(p, z)
    smooth = value
    if loss.smoothing:
        moved = (p - centre) ** 2
        smooth = p * u - loss.dead * np.abs(p) - loss.own_width / 2 * p * p
        smooth -= loss.smoothing / 2 * moved
    is_up = y * p >= 0
    of_signs = [c * is_up, c * ~is_up]
    return {
        "loss": (c * value).sum(),
        "smooth": (c * smooth).sum(),
        "moved": (c * moved).sum(),
        "linear": np.array([(each * linear).sum() for each in of_signs]),
        "square": np.array([(each * square).sum() for each in of_signs]),
        "size": np.array([(each * np.abs(p)).sum() for each in of_signs]),
        "along": along,
    }, p


def _matrices(block: Block, rows: _core.Rows, curvatures: np.ndarray) -> np.ndarray:
    """Upper triangles of the second derivatives, given those of the losses of all rows."""
    size, feature = block.X.shape[1] + 1, feature_of(block.settings)
    matrices, upper = np.zeros((len(curvatures), size, size)), np.triu_indices(size)
    if rows.add_products(curvatures, matrices):
        matrices[:, :-1, -1] = feature * rows.combine(curvatures)
        matrices[:, -1, -1] = feature**2 * curvatures.sum(axis=1)
        return matrices[:, *upper]
    for matrix, curvature in zip(matrices, curvatures, strict=True):
        for part in block.pieces(size):
            band = np.flatnonzero(curvature[part])
            scaled = block.dense(part.start + band) * np.sqrt(curvature[part][band])[:, None]
            matrix += scaled.T @ scaled
    return matrices[:, *upper]


def _moments(block: Block, rows: _core.Rows, curvatures: np.ndarray) -> dict[str, np.ndarray]:
    """Diagonals of `_matrices`; sums of second derivatives, and of rows times them."""
    total, feature = curvatures.sum(axis=1), feature_of(block.settings)
    return {
        "second": np.column_stack([rows.combine(curvatures, squared=True), feature**2 * total]),
        "first": np.column_stack([rows.combine(curvatures), feature * total]),
        "total": total,
    }


def begin(block: Block, centres: Any, number: int, message: Message) -> dict[str, np.ndarray]:
    """``weight`` of each problem, and ``points``: the block's own solution times this weight.

    If labels are classes, a block with rows of one class only has no part in the solution.
    """
    settings, d, labels = block.settings, block.X.shape[1], block.labels[message.which]
    inside = labels != 0
    has_all = inside.any(axis=1)
    if block.values is None:
        has_all = (labels > 0).any(axis=1) & (labels < 0).any(axis=1)
    which = np.flatnonzero(has_all)
    weight, points = np.zeros(len(has_all)), np.zeros((len(has_all), d + 1))
    if len(which):
        seed, some = (message.seed + number) % 2**63, message.which[which]
        own = _schedule.Schedule(
            LinearSolver, settings.subset(some), len(some), d, block.X.dtype, seed
        )
        values = None if block.values is None else np.ascontiguousarray(block.values[some])
        own.set_rows(np.ascontiguousarray(labels[which]), block.weights, values)
        most = _ROUGH_EPOCHS if d <= MOST_FEATURES else _ROUGH_EPOCHS_IF_MANY
        own.train(block.rows(), solver="auto", tol=_ROUGH, max_iter=most, check="none")
        coef, intercept = own.model()
        c = 1.0 if block.weights is None else block.weights
        weight[which] = (inside[which] * c).sum(axis=1)
        feature = feature_of(settings)
        points[which, :-1] = coef
        points[which, -1] = intercept / feature if feature else 0.0
    return {"weight": weight, "points": weight[:, None] * points}


def add(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums of the arrays of several blocks, in their order."""
    total = {name: np.array(value) for name, value in parts[0].items()}
    for part in parts[1:]:
        for name in total:
            total[name] += part[name]
    return total


class BlockRunner:
    """Run functions over blocks. The blocks and their centres are in this process.

    Subclasses override where functions run and how results arrive. A fit enters a runner while it
    makes rounds. `blocks` is an iterable with a length; a pass goes over it once, and releases each
    block before it asks for the next one.
    """

    #: Whether centres stay from one pass to the next. If not, each message has all moves so far,
    #: and a pass makes centres anew.
    keeps_centres = True
    #: The most problems of a pass, where centres do not stay; None: all.
    n_at_once: int | None = None

    def __init__(self, blocks: Any) -> None:
        self.blocks = blocks
        self.centres: list[Any] = [None] * len(blocks)

    def open(self) -> None:
        """Acquire what only rounds need."""

    def close(self) -> None:
        """Release what `open` acquired."""

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs `function`, or arranges that it will run."""
        return function

    def result(self, total: Any, centres: list[Any]) -> dict[str, np.ndarray]:
        """The sums, once all is done; from then on, blocks have these centres."""
        self.centres = centres
        return total

    def sum_up(
        self,
        function: Callable[..., Any],
        message: Any,
        on_block: Callable[[], None] = lambda: None,
    ) -> dict[str, np.ndarray]:
        """The sums over blocks of ``function(block, centres, number of the block, message)``.

        They are added up in a tree whose shape depends only on the number of blocks. If a message
        has moves, centres move first.
        """
        sent, moved, n = self.task(identity)(message), list[Any](), len(self.centres)
        are_moved = bool(getattr(message, "moves", None))

        def of_blocks() -> Iterator[Any]:
            for k, (block, centre) in enumerate(zip(self.blocks, self.centres, strict=True)):
                if are_moved:
                    centre = self.task(move)(block, centre, sent)
                    if self.keeps_centres:
                        moved.append(centre)
                yield self.task(function)(block, centre, k, sent)
                on_block()

        sums = of_blocks()
        while n > 1:
            sums, n = self._in_tree(sums), -(-n // _FAN)
        (total,) = sums
        return self.result(total, moved or self.centres)

    def _in_tree(self, parts: Iterator[Any]) -> Iterator[Any]:
        """The next level of the tree; only a few of its parts exist at a time."""
        while some := list(itertools.islice(parts, _FAN)):
            yield self.task(add)(some)


def identity(value: Any) -> Any:
    return value


# ---- What is done with the sums -----------------------------------------------------------------


class Line(NamedTuple):
    """A step, and where along it slopes are wanted: around the zero of the slope, if it is known.

    `along` has multiples of the step. The step's length was changed `n_searches` times. A step that
    has stalled is lost in rounding.
    """

    step: np.ndarray
    along: np.ndarray = _ALONG
    n_searches: int = 0
    has_stalled: bool = False

    def searched(self, at: np.ndarray, at_start: float, at_end: float) -> "Line":
        """The step to where the slope is about 0, given slopes `along` it, at 0 and at 1.

        The slope grows from point to point. A row far from all others makes a slope that is flat up
        to a wall. A line between two points misses such a wall, so the next pass evaluates slopes
        between these two points. If there is no step of slope 0, this step has stalled.
        """
        t, at = np.append(self.along, [0, 1]), np.append(at, [at_start, at_end])
        order = np.argsort(t, kind="stable")
        t, at = t[order], at[order]
        beyond = np.flatnonzero(at > 0)
        j = beyond[0] if len(beyond) else len(t)
        low, high, factor = t[j - 1], np.inf, t[-1]
        if j < len(t):
            high = t[j]
            factor = low + (high - low) * at[j - 1] / (at[j - 1] - at[j]) if j else 0.0
        if self.n_searches >= _SEARCHES or not factor > 0:
            return self._replace(has_stalled=True)
        along = _ALONG
        if high < np.inf:
            along = np.linspace(low / factor, high / factor, len(_ALONG))
        return Line(factor * self.step, along, self.n_searches + 1)


class Bound(NamedTuple):
    """The best D so far, and a mixture of the dual points of the rounds so far.

    D is concave. So dual variables (1 - t) a + t a' of two rounds have a D of at least
    (1 - t) G + t G' - lam/2 |(1 - t) w(a) + t w(a')|^2, where G is D(a) without its last term. The
    first mixture is a = 0. Each new point gets the best share t. (Teo, Vishwanathan, Smola and Le:
    Bundle methods for regularized risk minimization, JMLR 11 (2010) 311-365, mix all points, not
    two.) `value` and `point` are G and w(a) of the mixture.
    """

    best: float
    value: float
    point: np.ndarray

    def mixed(self, lam: float, value: float, point: np.ndarray) -> "Bound":
        """The bound after a new dual point with this G and w(a)."""
        growth, change = value - self.value, point - self.point
        slope = growth - lam * float(self.point @ change)
        curvature = lam * float(change @ change)
        share = min(max(slope / curvature, 0.0), 1.0) if curvature > 0 else float(slope > 0)
        mixture = self.value + share * growth, self.point + share * change
        best = max(self.best, _dual(lam, value, point), _dual(lam, *mixture))
        return Bound(best, *mixture)


def _dual(lam: float, value: float, point: np.ndarray) -> float:
    """D, given G and w(a)."""
    return value - lam / 2 * float(point @ point)


class Iterate:
    """The state of one problem: w is at `point`, and the next pass is at the end of its `line`.

    `penalty` has second derivatives of the regulariser: lam, or 0 for a free intercept. `smooth`
    and `gradient` are those of the smoothed objective at w. `width` is that of the smoothing; it is
    0 for losses that need none, which have neither corners nor a narrow epsilon. `best` is the best
    point so far, and `primal` is P there. `pairs` are those of L-BFGS: steps, and changes of the
    gradient. `has_overshot`: a step was far too long, and no later one too short, so that second
    derivatives are those of a wider band.
    """

    def __init__(
        self, penalty: np.ndarray, mass: float, point: np.ndarray, loss: _losses.Loss
    ) -> None:
        nothing = np.zeros_like(point)
        self.penalty, self.mass = penalty, mass
        self.point, self.gradient, self.best = point, nothing, point
        self.smooth = self.primal = np.inf
        is_as_it_is = loss.curvature > 0 and loss.dual_upper >= _NARROW
        self.width = 0.0 if is_as_it_is else _FIRST_WIDTH / loss.dual_upper
        self.bound, self.line = Bound(0.0, 0.0, nothing), Line(nothing)
        self.pairs = list[tuple[np.ndarray, np.ndarray]]()
        self.has_overshot = False

    @property
    def lam(self) -> float:
        return float(self.penalty[0])

    def update(self, sums: dict[str, Any], n_pairs: int) -> tuple[np.ndarray, float] | None:
        """Take the sums of a round at w + s, and choose w and s of the next one.

        Returns a point and a width if centres are to move there, else None.
        """
        m, penalty, step = self.mass, self.penalty, self.line.step
        point = self.point + step
        ridge = (penalty * point) @ point / 2
        primal, smooth = ridge + sums["loss"] / m, ridge + sums["smooth"] / m
        gradient = penalty * point - sums["vectors"].sum(axis=0) / m
        if not (np.isfinite([primal, smooth]).all() and np.isfinite(gradient).all()):
            raise _validate.overflow(np.dtype(np.float64), self.lam)
        dual_point = self._dual_point(sums)
        self.bound = self.bound.mixed(self.lam, *dual_point)
        if primal < self.primal:
            self.primal, self.best = primal, point
        if step.any():
            at_end, at_start = (float(g @ step) for g in (gradient, self.gradient))
            is_up = smooth > self.smooth + 1e-12 * abs(self.smooth)
            is_long = self.has_overshot or at_end > _LONG * abs(at_start)
            is_short = at_end < -_SHORT * abs(at_start) and not self.line.n_searches
            self.has_overshot = is_long and not is_short
            if is_up or abs(at_end) > _FLAT * abs(at_start):
                towards = penalty * step
                at = towards @ self.point + self.line.along * (towards @ step) - sums["along"] / m
                self.line = self.line.searched(at, at_start, at_end)
                return None
            change = gradient - self.gradient
            if n_pairs and step @ change > 0:
                self.pairs = [*self.pairs[1 - n_pairs :], (step, change)]
        self.point, self.smooth, self.gradient = point, smooth, gradient
        smoothing, dual = self.width / 2 * sums["moved"] / m, _dual(self.lam, *dual_point)
        if self.width and smooth - (dual - smoothing) <= primal - smooth:
            width, self.width = self.width, max(_NARROWER * self.width, _NARROWEST)
            self.line = Line(np.zeros_like(point))
            return point, width
        if n_pairs:
            mean, squares = sums["first"] / np.sqrt(m * (sums["total"] or 1)), sums["second"] / m
            variances = np.maximum(squares - mean**2, _LEAST_VARIANCE * squares)
            step = _by_pairs(gradient, self.lam + variances, mean, self.pairs)
        else:
            # Along a free intercept, only curvature makes the matrix definite; it may be 0.
            is_flat = sums["second"][-1] == 0
            diagonal = np.where(penalty > 0, penalty, self.lam * is_flat)
            step = _by_matrix(gradient, diagonal, sums["second"] / m)
        self.line = Line(step, has_stalled=not gradient @ step < 0)
        return None

    def _dual_point(self, sums: dict[str, Any]) -> tuple[float, np.ndarray]:
        """G and w(a) of the dual variables of a round, made feasible."""
        factors, vectors, scale = np.ones(2), sums["vectors"], self.lam * self.mass
        if self.penalty[-1] == 0:
            # The intercept is free: scale the heavier sign down, so that both sums are equal.
            sizes = sums["size"]
            factors = np.divide(sizes.min(), sizes, out=np.zeros(2), where=sizes > 0)
            vectors = factors[:, None] * vectors
            vectors[:, -1] = 0
        value = (factors * sums["linear"] - factors**2 * sums["square"]).sum() / self.mass
        return float(value), vectors.sum(axis=0) / scale

    # ---- Saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """The state without the description of the problem."""
        bound, line = self.bound, self.line
        numbers = [self.width, self.smooth, self.primal, bound.best, bound.value]
        flags = line.has_stalled + 2 * self.has_overshot
        return {
            "point": self.point, "step": line.step, "best": self.best, "gradient": self.gradient,
            "dual_point": bound.point, "along": line.along,
            "pairs": np.array(self.pairs, float).reshape(-1, 2, len(self.point)),
            "numbers": np.array([*numbers, line.n_searches, flags], float),
        }  # fmt: skip

    def restore(self, state: dict[str, np.ndarray]) -> None:
        state = {name: array.copy() for name, array in state.items()}
        self.point, self.best, self.gradient = state["point"], state["best"], state["gradient"]
        self.pairs = [(step, change) for step, change in state["pairs"]]
        self.width, self.smooth, self.primal, *others = state["numbers"].tolist()
        best, value, n_searches, flags = others
        self.bound = Bound(best, value, state["dual_point"])
        self.line = Line(state["step"], state["along"], n_searches, flags % 2 == 1)
        self.has_overshot = flags >= 2


def _by_matrix(gradient: np.ndarray, diagonal: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Newton's step for the matrix with this upper triangle, plus this diagonal.

    The intercept is eliminated first, which centres the features. In the other order, where rows
    are far from 0, only rounding would be left of the curvature along the intercept.
    """
    size = len(gradient)
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = upper
    trace = matrix.trace() + diagonal.sum()
    for ridge in _RIDGES:
        regular = (matrix + np.diag(diagonal + ridge * trace / size))[::-1, ::-1]
        try:
            factor = linalg.cho_factor(regular, lower=True)
            return -linalg.cho_solve(factor, gradient[::-1])[::-1]
        except linalg.LinAlgError:
            continue
    return -gradient / (diagonal + np.diag(matrix))


def _by_pairs(
    gradient: np.ndarray, diagonal: np.ndarray, mean: np.ndarray, pairs: Sequence[Any]
) -> np.ndarray:
    """The step of L-BFGS, whose first matrix is a multiple of this diagonal plus mean times mean^T.

    That is the matrix of second derivatives for features without correlations. The means tie the
    intercept, and features that are mostly above 0, to all others.
    """
    towards = mean / diagonal

    def solved(q: np.ndarray) -> np.ndarray:
        """By the formula of Sherman and Morrison."""
        return q / diagonal - (towards @ q) / (1 + mean @ towards) * towards

    q, factors, scale = gradient.copy(), [], 1.0
    for s, v in reversed(pairs):
        factors.append((s @ q) / (s @ v))
        q -= factors[-1] * v
    if pairs:
        s, v = pairs[-1]
        scale = (s @ v) / (v @ solved(v))
    q = scale * solved(q)
    for (s, v), factor in zip(pairs, reversed(factors), strict=True):
        q += (factor - (v @ q) / (s @ v)) * s
    return -q


def most_with_matrix(n_features: int) -> int:
    """The most problems of a pass for which Newton's method keeps matrices."""
    return _MOST_NUMBERS // (n_features + 1) ** 2 if n_features <= MOST_FEATURES else 0


class Rounds(OutOfCoreSchedule):
    """The rounds of a fit: each is one pass, or one for every `BlockRunner.n_at_once` problems.

    Each problem has `n_pairs` pairs of L-BFGS; with 0, Newton's method has matrices of second
    derivatives. `n_pairs` None: take matrices if they are small enough. `moves` are all moves of
    centres so far, (problem, point, width); blocks have made `n_moved` of them.
    """

    name = "newton"

    def __init__(
        self,
        settings: Settings,
        blocks: BlockRunner,
        about: Any,
        masses: np.ndarray,
        n_inside: np.ndarray,
        seed: int,
        n_pairs: int | None = None,
    ) -> None:
        super().__init__(settings, about, masses, n_inside, seed)
        self.blocks, n_problems, d = blocks, len(masses), about.shape[1]
        self.problems = self._begun(np.zeros((n_problems, d + 1)))
        self.moves, self.n_moved = list[tuple[int, np.ndarray, float]](), 0
        if n_pairs is None:
            n_pairs = min(MOST_PAIRS, max(3, _NUMBERS_OF_PAIRS // (2 * n_problems * (d + 1))))
            n_pairs *= n_problems > most_with_matrix(d)
        self.n_pairs = n_pairs

    def _begun(self, points: np.ndarray) -> list[Iterate]:
        """Problems that begin at these points, of shape (n_problems, n_features + 1)."""
        settings, penalties = self.settings, np.ones(points.shape)
        penalties[:, -1] = not settings.free_intercept
        penalties *= settings.lams_of(len(points))[:, None]
        of_each = zip(penalties, self.masses, points, strict=True)
        return [Iterate(*own, settings.loss_of(k)) for k, own in enumerate(of_each)]

    def train(
        self,
        rows: Any = None,
        *,
        tol: Any,
        max_iter: int,
        on_progress: Callable[[], None] = lambda: None,
        on_epoch: Callable[[], None] | None = None,
        **_: Any,
    ) -> Certificate:
        """Make up to `max_iter` rounds after the start, until all relative gaps are at most `tol`.

        A problem also ends when its steps are lost in rounding. A stopped round is made again.
        """
        tol = _schedule.GAP if tol == "auto" else -1 if tol is None else tol
        with _threads.blas.one_thread(), _core.Closing(self.blocks):
            if self.n_passes == 0:
                points = np.zeros((len(self.problems), self.about.shape[1] + 1))
                for some in self._portions(range(len(points))):
                    message = Message(which=some, seed=self.seed)
                    start = self.blocks.sum_up(begin, message, on_progress)
                    weight = np.where(start["weight"] > 0, start["weight"], 1)
                    points[some] = start["points"] / weight[:, None]
                vars(self).update(problems=self._begun(points), n_passes=1)
            last = max(self.base, 1) + max_iter
            while self.n_passes < last:
                is_done = self.certify().proved_gap <= tol
                problems = enumerate(self.problems)
                which = [k for k, p in problems if not (p.line.has_stalled or is_done[k])]
                if not which:
                    break
                self._make_round(which, on_progress)
                on_progress()
                if on_epoch is not None:
                    on_epoch()
        return self.certify()

    def _portions(self, which: Sequence[int]) -> Iterator[np.ndarray]:
        """These problems, in groups for which there is room."""
        size = self.blocks.n_at_once or len(which)
        return (np.array(which[k : k + size]) for k in range(0, len(which), size))

    def _make_round(self, which: list[int], on_block: Callable[[], None]) -> None:
        """Make passes over all blocks, at the points and steps of these problems."""
        problems, moves = [copy.copy(p) for p in self.problems], list(self.moves)
        keeps = self.blocks.keeps_centres
        for some in self._portions(which):
            active = [problems[k] for k in some]
            message = Message(
                which=some,
                points=np.array([p.point for p in active]),
                steps=np.array([p.line.step for p in active]),
                along=np.array([p.line.along for p in active]),
                widths=np.array([p.width for p in active]),
                wide=np.array([p.has_overshot or self.n_pairs > 0 for p in active]),
                with_matrix=self.n_pairs == 0,
                moves=[of for of in self.moves[self.n_moved :] if keeps or of[0] in some],
            )
            sums = self.blocks.sum_up(evaluate_block, message, on_block)
            for j, (k, p) in enumerate(zip(some.tolist(), active, strict=True)):
                move = p.update({name: array[j] for name, array in sums.items()}, self.n_pairs)
                moves += [] if move is None else [(k, *move)]
        vars(self).update(
            problems=problems, moves=moves, n_passes=self.n_passes + 1,
            n_moved=len(self.moves) * keeps,
        )  # fmt: skip

    # ---- What there is so far --------------------------------------------------------------------

    def certify(self, rows: Any = None) -> Certificate:
        """The certificate of the best points so far; NaN before the first pass."""
        primal = np.array([p.primal for p in self.problems])
        known, bound = np.isfinite(primal), np.array([p.bound.best for p in self.problems])
        primal, bound = np.where(known, primal, np.nan), np.where(known, bound, np.nan)
        return Certificate(primal, bound, settings=self.settings)

    latest_certificate = certify

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts of the best points so far."""
        points = np.array([p.best for p in self.problems])
        return points[:, :-1].copy(), feature_of(self.settings) * points[:, -1]

    def progress(self) -> tuple[int, int, str]:
        """Rounds that are over, 0, and a note with their number and the largest gap."""
        return self.n_passes, 0, self._with_gap(f"round {self.n_passes}")

    # ---- Saving ----------------------------------------------------------------------------------

    @property
    def n_parts(self) -> int:
        return len(self.blocks.centres)

    def state(self) -> dict[str, np.ndarray]:
        moves = [np.append([k, width], point) for k, point, width in self.moves]
        state = super().state()
        state["moves"] = np.array(moves, float).reshape(-1, self.about.shape[1] + 3)
        for k, p in enumerate(self.problems):
            state |= {f"{k}.{name}": array for name, array in p.state().items()}
        return state

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        others = super().state()
        for name, own in self.state().items():
            if name in others:
                continue
            if name.endswith(("moves", "pairs")):  # any number of them
                found = np.atleast_1d(arrays.get(name, ()))
                own = np.broadcast_to(0.0, (len(found), *own.shape[1:]))
            _state.same_kind(name, arrays.get(name), own)
        moves = np.array(arrays["moves"])
        if not (np.isin(moves[:, 0], range(len(self.problems))) & (moves[:, 1] > 0)).all():
            raise ValueError("state: moves do not fit the rest")
        self.moves = [(int(row[0]), row[2:], float(row[1])) for row in moves]
        for k, p in enumerate(self.problems):
            p.restore({name: arrays[f"{k}.{name}"] for name in p.state()})
