"""Dual coordinate ascent for kernel machines, over a kernel matrix that need never be held whole.

The algorithm is that of ``csrc/ascent.c`` on scores, as in `_kernel_pegasos`, on blocks of rows,
whose changes then move all scores.
"""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._threads import blas, uninterrupted
from pegasos.kernels._cache import SMALL
from pegasos.problems import _certificate
from pegasos.problems._certificate import inner
from pegasos.problems._problem import Problem
from pegasos.solvers._ascent import ASCENT, blank_ascents
from pegasos.solvers._kernel_pegasos import check_convex
from pegasos.solvers._pegasos import Settings
from pegasos.solvers._solver import Solver

# Rows of the first block, and of the longest: each is twice as long as the one before. Epochs over
# a block before its changes are pushed to the scores of all rows: at most so many, or until this
# part of the gap that it had is left.
_FIRST_BLOCK, _BLOCK, _INNER, _SETTLED = 256, 2048, 30, 0.1
# An epoch over a block that leaves more than this part of the gap is the last one.
_SLOW = 0.5
# Steps on pairs end at this part of the gap that is asked for; they work on a matrix of the rows
# that may move where these are at most this part of all; columns are computed so many at a time.
_WELL_BELOW, _COMPACT, _TOGETHER = 0.3, 0.5, 64
# A gap that is proved once more, and is above this part of what it was, hardly gets smaller.
_HARDLY = 0.9
# Ctrl-C and progress wait for steps that touch so many numbers.
_NUMBERS_PER_PIECE = 1e7


def _may_move(slopes: np.ndarray, a: np.ndarray, y: np.ndarray, most: Any) -> np.ndarray:
    """Rows that steps may move before all others are where they belong."""
    low, high = a <= 0, a >= most
    outside = np.where(low, -slopes, np.where(high, slopes, -np.inf))
    violation = np.where(low, slopes, np.where(high, -slopes, np.abs(slopes)))
    return np.flatnonzero((outside < violation.max(initial=0, where=y != 0)) & (y != 0))


def _likely(
    slopes: np.ndarray, a: np.ndarray, y: np.ndarray, place: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """Rows whose columns are wanted, and others that may well be next, to be computed together."""
    gains = np.where((place < 0) & (y != 0), np.maximum(slopes, -slopes * (a > 0)), -np.inf)
    gains[wanted != 0] = np.inf
    n = min(_TOGETHER, int(np.count_nonzero(gains > 0)))
    return np.sort(np.argpartition(-gains, n - 1)[:n])


class KernelAscent(Solver):
    """Dual coordinate ascent on kernel problems.

    `coef` is beta, w = sum_j beta_j phi(x_j); `scores` holds, for every problem, the scores of all
    rows without the intercept. Of an epoch that was interrupted, the first "n_active" of `active`
    are the rows that are still to come, and the next block has up to `block` of them; else `block`
    is 0.
    """

    name, checks_are_whole = "sdca", True
    _ARRAYS = (*Solver._ARRAYS, "ascents", "scores", "active", "block")

    @staticmethod
    def cost(rows: Any) -> float:
        """Less than any other: it asks for few columns, for a first solution at least."""
        return 0

    @staticmethod
    def ends_exactly(rows: Any) -> bool:
        """By steps on pairs."""
        return rows.is_positive

    @staticmethod
    def begins_with_pegasos(rows: Any) -> bool:
        """Whether there is a dual: its own first epoch is Pegasos, with steps of exact length.

        An epoch of plain Pegasos asks for the column of every row that was a violator once; blocks
        ask for the columns of those that still are when they end.
        """
        return rows.is_positive

    @property
    def has_dual(self) -> bool:
        return self.rows.is_positive

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, n_rows, seed)
        self.ascents = blank_ascents(n_problems, seed)
        self.scores = np.zeros((n_problems, n_rows))
        self.active = np.zeros((n_problems, n_rows), np.int64)
        self.block = np.zeros(n_problems, np.int64)

    def begin(self, problem: Problem, start: Any = None) -> Any:
        start = super().begin(problem, start)
        rows, labels = problem.rows, problem.labels
        check_convex(self.settings, rows)
        diagonal = rows.points.diagonal()
        self.feature = self.settings.constant_feature
        if self.settings.free_intercept:
            self.feature = max(np.sqrt(np.abs(diagonal).mean()), 1e-3)
        self.norms = diagonal + self.feature**2
        self.ascents["scale"] = 1 / (self.settings.lam * self.mass)
        self.ascents["intercept_scaling"] = self.feature
        self.ascents["loss"] = self.settings.loss.number
        if start is None:
            return
        # From a = 0, the first epoch is one of Pegasos, with steps of exact length.
        self.ascents["pegasos_mass"] = np.where(self.a.any(axis=1), 0, self.mass)
        beta = np.stack([self._beta(k, slice(None)) for k in range(len(labels))])
        self.scores[...] = rows.scores(beta[None], labels)[0] if beta.any() else 0
        self.ascents["constant_weight"] = self.feature * beta.sum(axis=1)
        if self.settings.free_intercept:
            self.ascents["intercept"] = _certificate.best_intercepts_of(problem, self.scores)
        self.block[:] = 0
        for k in range(len(labels)):
            self._forget_all_but_zero(k)
            if self.a[k].any():
                self._keep(k, *self._check_gap(k, slice(None), rows))
            else:
                self._keep(k, self.coef[k], self.intercept[k], self.primal[k], 0.0)

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """Run as a `Solver` does; problems that share the cache take turns, since it has threads."""
        self._n_threads = None
        with blas.one_thread():
            if not self.rows.is_divided_by(self.labels):
                super().run(tol, max_iter, on_progress=on_progress)
                return
            most, self._n_threads = self.rows.side_by_side(len(self.a))
            super().run(tol, max_iter, n_threads=min(n_threads, most), on_progress=on_progress)

    def _beta(self, k: int, which: Any) -> np.ndarray:
        """Coefficients of some rows; not summed up, so that a_i = 0 leaves no rounding errors."""
        return self._beta_of(k, which, self.a[k, which])

    def _beta_of(self, k: int, which: Any, a: np.ndarray) -> np.ndarray:
        return self.ascents["scale"][k] * a * self.labels[k, which]

    def _improve(self, k: int, tol: float | None, last: int) -> Generator[None]:
        if self.n_epochs[k] >= last or self._is_done(k, tol):
            return
        p = self.ascents[k]
        inside, cache = self.rows.inside(self.labels[k], self._n_threads)
        proved = np.inf
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            if self._goes_by_pairs(k, cache):
                yield from self._epoch_of_pairs(k, p, inside, cache, tol)
            else:
                yield from self._epoch(k, p, inside, cache)
            seen = self._check_gap(k, inside, cache)
            with uninterrupted():
                self._keep(k, *seen)
                self.n_epochs[k] += 1
                self.block[k] = 0
                if p["pegasos_mass"] > 0:
                    p["pegasos_mass"] = 0
                    self.n_steps[k] += self.n_inside[k]
                if self.settings.free_intercept:
                    p["intercept"] += self.feature * p["constant_weight"]  # see `_ascent.shift`
            yield
            if (
                cache is not self.rows
                and len(cache.points)
                and (self.n_epochs[k] >= last or self._is_done(k, tol))
            ):
                self._certify(k, inside, cache)
                if self.relative_gap[k] > _HARDLY * proved:
                    return  # what keeps the gap open is rounding, which epochs do not change
                proved = self.relative_gap[k]

    def _certify(self, k: int, inside: Any, cache: Any) -> None:
        """Look once more, without running sums, while columns are at hand."""
        seen = _certificate.certify_kernel(
            self.problem.part(k, inside, cache),
            lambda: self.a[k : k + 1, inside],
            lambda: (self.coef[k : k + 1, inside], self.intercept[k : k + 1]),
        )
        if seen.relative_gap[0] >= 0:  # else no bound is known
            self.primal[k], self.relative_gap[k] = seen.objective[0], seen.relative_gap[0]
            self.is_seen[k] = True

    def _epoch(self, k: int, p: Any, inside: Any, cache: Any) -> Generator[None]:
        """Go over the rows that have left their place at a bound, or would, block by block.

        A step costs as much as the block is long. Rows that earlier blocks have put in their place
        are passed over when it is their turn, so that the first epoch from 0 begins with short
        blocks. It is one of Pegasos: see `growth` in ``csrc/ascent.c``. Every block is then solved
        for the sample of the rows seen so far.
        """
        inside = np.arange(self.labels.shape[1])[inside]
        if self.block[k] == 0:
            n, size = len(inside), _FIRST_BLOCK if self.n_visits[k] == 0 else _BLOCK
            order = np.arange(n)
            if len(cache.points) <= SMALL:
                size = max(size, n)  # one block: no order of rows
            else:
                seed = [int(p["generator"] % 2**63), int(self.n_epochs[k])]
                order = np.random.default_rng(seed).permutation(n)
            with uninterrupted():
                self.active[k, :n], p["n_active"], self.block[k] = order, n, size
        while True:
            size, rest = self.block[k], self.active[k, : p["n_active"]]
            growth = self._growth(k, self._weight_seen(k, inside[rest]))
            rest = rest[self._projected(k, inside, growth)[rest] != 0]
            part, rest = np.sort(rest[:size]), rest[size:]
            if len(part) == 0:
                return
            matrix, which = self._matrix(part, cache), inside[part]
            yield
            before = self._beta(k, which)
            a, generator, visits = yield from self._ascend(k, which, matrix, inside[rest])
            gained = self._beta_of(k, which, a) - before
            changed = np.flatnonzero(gained)
            scores = cache.push(gained[None, changed], part[changed])[0]
            with uninterrupted():
                self.scores[k, inside] += scores
                self.a[k, which] = a
                p["constant_weight"] += self.feature * gained.sum()
                p["generator"] = generator
                self.n_visits[k] += visits
                self.active[k, : len(rest)], p["n_active"] = rest, len(rest)
                self.block[k] = min(2 * size, _BLOCK)
            yield

    def _weight_seen(self, k: int, to_come: np.ndarray) -> float:
        """The weight of the rows that an epoch has seen, given those that are still to come."""
        weights = self.row_weights
        return self.mass[k] - (len(to_come) if weights is None else weights[to_come].sum())

    def _growth(self, k: int, weight_seen: float) -> float:
        """m/N: how many times as long as w(a) the w of the sample seen so far is, in an epoch of Pegasos."""
        mass = self.ascents["pegasos_mass"][k]
        return mass / max(weight_seen, mass / 2) if mass > 0 else 1.0

    @staticmethod
    def _matrix(rows: Any, cache: Any) -> tuple[np.ndarray, np.ndarray]:
        """The kernel matrix among some rows: columns, and which of them is that of each row."""
        if cache.is_small and len(rows) == len(cache.points):
            cache.keep(rows)
            return cache.columns, cache.place
        columns = np.empty((len(rows), len(rows)), cache.points.dtype)
        cache.among(rows, cache.select(rows), columns)
        return columns, np.arange(len(rows))

    def _ascend(
        self, k: int, which: Any, matrix: Any, to_come: np.ndarray
    ) -> Generator[Any, Any, Any]:
        """Epochs over a block of rows, given the kernel matrix among them.

        Returns their dual variables, the state of the generator, and how many rows were visited.
        """
        p, m = self.ascents[k], len(which)
        local = np.zeros(1, ASCENT)
        for name in (
            "scale", "intercept_scaling", "intercept", "constant_weight", "generator", "loss",
        ):  # fmt: skip
            local[name] = p[name]
        v = np.zeros(2 * m + 1)
        v[:m] = self.scores[k, which]
        a, labels, norms = self.a[k, which], self.labels[k, which], self.norms[which]
        bounds = None if self.row_weights is None else self.row_weights[which]
        columns, place = matrix
        block = _core.kernel_block(columns, place, np.zeros(m, np.int8))
        active, first, gap, numbers, visits = np.arange(m), np.inf, np.inf, 0, 0
        _core.dual_start(local, np.array([m]))
        seen = self._weight_seen(k, to_come)
        local["pegasos_mass"] = p["pegasos_mass"]
        local["weight_seen"] = seen - (m if bounds is None else bounds.sum())
        for again in range(_INNER):
            visited = _core.dual_run(block, local, labels, bounds, norms, active, a, v, m)
            visits += visited
            numbers += visited * m
            if numbers > _NUMBERS_PER_PIECE:
                numbers = 0
                yield
            if again == 0:  # further epochs: on the sample that was seen with this block
                growth = self._growth(k, seen)
                local["scale"] *= growth
                local["constant_weight"] *= growth
                v[:m] *= growth
            before, gap = gap, local["gap"][0]
            first = gap if again == 0 else first
            if again > 0 and gap <= _SETTLED * first:
                break
            if gap > _SLOW * before and self.rows.is_positive:
                constant = self.feature * local["constant_weight"][0]
                u = 1 - labels * (v[:m] + constant + local["intercept"][0])
                visits += 2 * (yield from self._steps_on_pairs(
                    k, which, matrix, local["scale"][0], a, u - self._diagonal(which) * a,
                    _SETTLED * first, _INNER * m // 2,
                ))  # fmt: skip
                break
            _core.dual_begin_epoch(local)
        return a, local["generator"][0], visits

    def _goes_by_pairs(self, k: int, cache: Any) -> bool:
        """Whether the next epoch makes steps on pairs: all but the first do, where columns fit."""
        can = cache.holds_all and cache.is_positive and not cache.points.is_cheap
        return can and self.n_epochs[k] > 0

    def _epoch_of_pairs(
        self, k: int, p: Any, inside: Any, cache: Any, tol: float | None
    ) -> Generator[None]:
        """As many steps on pairs as move each row once, or until the gap is well below `tol`.

        Rows are left out that are at a bound and would stay there, were slopes to change by as much
        as any of them has to: the matrix of the others may be small.
        """
        inside = np.arange(self.labels.shape[1])[inside]
        y, a, n = self.labels[k, inside], self.a[k, inside], len(inside)
        scores = self.scores[k, inside] + self.feature * p["constant_weight"] + p["intercept"]
        slopes, enough = 1 - y * scores - self._diagonal(inside) * a, 0.0
        if tol is not None:
            enough = _WELL_BELOW * tol * self.primal[k] * self.mass[k]
        rows = _may_move(slopes, a, y, self._most(inside))
        if len(rows) < _COMPACT * n:
            cache.keep(rows)
            matrix, columns_of = self._matrix(rows, cache), None
        else:
            rows, matrix, columns_of = np.arange(n), (cache.columns, cache.place), cache
        yield
        own, most = a[rows], -(-n // 2)
        done = yield from self._steps_on_pairs(
            k, inside[rows], matrix, p["scale"], own, slopes[rows], enough, most, columns_of
        )
        gained = np.zeros(n)
        gained[rows] = self._beta_of(k, inside[rows], own) - self._beta(k, inside[rows])
        changed = np.flatnonzero(gained)
        pushed = cache.push(gained[None, changed], changed)[0]
        with uninterrupted():
            self.scores[k, inside] += pushed
            self.a[k, inside[rows]] = own
            p["constant_weight"] += self.feature * gained.sum()
            self.n_visits[k] += 2 * done

    def _steps_on_pairs(
        self,
        k: int,
        which: Any,
        matrix: Any,
        scale: float,
        a: np.ndarray,
        slopes: np.ndarray,
        enough: float,
        left: int,
        cache: Any = None,
    ) -> Generator[Any, Any, int]:
        """Change `a` by steps on pairs of rows `which`, until their part of m (P - D) is `enough`.

        Returns how many steps, `left` at most. Columns that `matrix` lacks are computed by `cache`.
        """
        m, (columns, place) = len(which), matrix
        if m == 0:
            return 0
        bounds = None if self.row_weights is None else self.row_weights[which]
        labels, norms, room = (
            self.labels[k, which],
            self.norms[which],
            np.empty(_core.PAIRS_ARRAYS * (m + 8)),
        )
        all_steps = 0
        most = max(1, int(_NUMBERS_PER_PIECE / (16 * m)))
        while all_steps < left:
            wanted = np.zeros(m, np.int8)
            asked = min(most, left - all_steps)
            done, _ = _core.pairs_run(
                _core.kernel_block(columns, place, wanted), scale, self.feature, labels, bounds,
                norms, a, slopes, enough, all_steps, asked, room, self.settings.loss.number,
            )  # fmt: skip
            all_steps += done
            if wanted.any():
                cache.keep(_likely(slopes, a, labels, place, wanted))
            elif done < asked:
                break
            yield
        return all_steps

    def _projected(self, k: int, inside: Any, growth: float = 1.0) -> np.ndarray:
        """Derivatives of m D along each a_i, 0 where a bound stops them; w is `growth` times w(a)."""
        p, y, a = self.ascents[k], self.labels[k, inside], self.a[k, inside]
        scores = self.scores[k, inside] + self.feature * p["constant_weight"]
        slopes = 1 - y * (growth * scores + p["intercept"]) - self._diagonal(inside) * a
        is_high = a >= self._most(inside)
        stopped = (y == 0) | ((a <= 0) & (slopes < 0)) | (is_high & (slopes > 0))
        return np.where(stopped, 0, slopes)

    def _most(self, which: Any) -> Any:
        """Upper bounds of the dual variables of some rows."""
        return self.settings.loss.most(self._weights(which))

    def _diagonal(self, which: Any) -> Any:
        """What the loss adds to the second derivatives of the dual."""
        return self.settings.loss.diagonal(self._weights(which))

    def _weights(self, which: Any) -> Any:
        return 1.0 if self.row_weights is None else np.maximum(self.row_weights[which], 1e-300)

    def _check_gap(self, k: int, inside: Any, cache: Any) -> tuple[np.ndarray, Any, Any, Any]:
        """What `_keep` is to be told; scores are at hand, so this takes no pass over the rows."""
        p, all_beta, part = (
            self.ascents[k],
            self._beta(k, slice(None)),
            self.problem.part(k, inside, cache),
        )
        scores, beta, y = self.scores[k, inside], all_beta[inside], part.labels[0]
        a, constant = self.a[k : k + 1, inside], p["constant_weight"]
        if self.settings.free_intercept:
            b = _certificate.best_intercepts_of(part, scores[None])[0]
            squared = inner(beta, scores)
        else:
            b = self.feature * constant
            squared = inner(beta, scores) + constant**2
        losses = (part.weights[0] * self.settings.loss.value(1 - y * (scores + b))).sum()
        primal = self.settings.lam / 2 * squared + losses / self.mass[k]
        if self.settings.free_intercept:
            balanced = _certificate.feasible(part, a)
            change = (balanced - a)[0] * y * p["scale"]
            a, which = balanced, np.flatnonzero(change)
            if len(which):
                moved = scores + cache.push(change[None, which], which)[0]
                squared = inner(beta + change, moved)
        squared_norm = np.array([squared])
        dual = _certificate.best_dual(part, np.ascontiguousarray(a), squared_norm, self.has_dual)[0]
        return all_beta, b, primal, dual
