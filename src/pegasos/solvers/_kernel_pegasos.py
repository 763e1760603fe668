"""Kernel Pegasos, over a kernel matrix that need never be held whole.

The algorithm is that of ``csrc/pegasos.c`` with v = sum_j beta_j phi(x_j); the core keeps the
scores <v, phi(x_i)> and asks for columns of the kernel matrix that it misses.

Where all columns fit into the cache, the core works on the whole matrix, and columns are computed
as they are needed. Where not, draws are taken in blocks: decisions within a block need scores of
the block's rows only, so the core works on the small matrix among them. The violators are then
known exactly; their columns are computed once enough of them are together to make one large matrix
product, and the scores of all rows move by one more.
"""

import functools
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._threads import blas, by_pieces, in_threads, uninterrupted
from pegasos.solvers._pegasos import Pegasos, Settings, next_draw

# Draws of a block at most, and at first: at first everything violates its margin, and scores say
# little about the next draw.
_LONGEST, _SHORTEST = 2048, 64
# Columns, and rows of a block, that are computed together: products of a few take about as long.
_TOGETHER, _TOGETHER_IN_BLOCK = 128, 64
# A row of a margin below this may well violate it when it is drawn.
_NEARLY = 1.2
# A call into the core moves about so many scores at most: Ctrl-C and progress wait for it.
_SCORES_PER_CALL = 4e7


def check_convex(settings: Settings, cache: Any) -> None:
    """Raise a ValueError where there may be no minimum.

    If |w|^2 can be below 0, only bounds on dual variables, which smooth losses do not have, keep w
    finite.
    """
    if settings.loss.curvature and not cache.is_positive:
        raise ValueError(
            f"loss={settings.loss.name!r} needs a kernel matrix that is known to be positive "
            "semi-definite, since there may be no minimum otherwise: take loss='hinge', the kernel "
            "'rbf', 'laplacian', 'linear', or 'poly' with coef0 >= 0, or say assume_psd=True if "
            "you know that it is"
        )


class KernelPegasos(Pegasos):
    """Kernel problems over the same rows, and where Pegasos stands on them.

    `weights` holds beta, `scores` the <v, phi(x_i)> of all rows, both of shape
    (n_problems, n_rows); `unpushed` is the part of beta that `scores` does not have yet. See
    `Pegasos` for the rest.
    """

    _ARRAYS = (*Pegasos._ARRAYS, "scores", "unpushed")

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, dtype: Any, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, np.float64, seed)
        self.scores = np.zeros((n_problems, n_rows))
        self.unpushed = np.zeros((n_problems, n_rows))

    def go_on_from(
        self,
        coef: np.ndarray,
        intercept: np.ndarray,
        n_epochs: int,
        n_inside: np.ndarray,
        least_steps: int,
    ) -> None:
        super().go_on_from(coef, intercept, n_epochs, n_inside, least_steps)
        self.scores[...], self.unpushed[...] = 0, self.weights

    def _squared_norms(self, cache: Any) -> np.ndarray:
        check_convex(self.settings, cache)
        return np.abs(cache.points.diagonal())

    def _scale(self, factor: np.ndarray) -> None:
        super()._scale(factor)
        self.scores *= factor[:, None]
        self.unpushed *= factor[:, None]

    def _run(
        self,
        cache: Any,
        order: np.ndarray | None,
        n_threads: int,
        on_progress: Callable[[], None] | None,
    ) -> None:
        """Run over the points of a `ColumnCache`; threads are those of the cache."""
        first = next_draw(self.problems)
        if first < 0:
            return
        run = self._run_whole if cache.holds_all else self._run_blocks
        with blas.one_thread():
            in_threads([by_pieces(functools.partial(run, cache, first, order))], 1, on_progress)

    def _run_whole(self, cache: Any, first: int, order: np.ndarray | None) -> Generator[None]:
        """Run over the whole matrix, yielding now and then."""
        self._push(cache)
        # A step that was interrupted half-way ends with these, and the core asks for drawn ones.
        cache.keep(np.unique(self.pending[self._waiting()]))
        block = _Block(self, np.arange(self.n_rows), cache.columns, cache.place)
        longest = max(_SHORTEST, int(_SCORES_PER_CALL / self.scores.size))

        def bring(missing: np.ndarray, _: Any) -> None:
            cache.keep(block.and_likely(missing, _TOGETHER))

        try:
            for begin, draws in self._draws(first, order, longest):
                block.decide(begin, draws, bring)
                with uninterrupted():
                    block.report(self)
                yield
        finally:
            with uninterrupted():
                block.keep(self, pushed=True)

    def _run_blocks(self, cache: Any, first: int, order: np.ndarray | None) -> Generator[None]:
        """Run block by block, yielding after each."""
        # More rows: longer blocks, since each touches arrays that are as long as all rows.
        longest = int(np.clip(self.n_rows // 4, _SHORTEST, _LONGEST))
        for begin, draws in self._draws(first, order, longest):
            waiting = self.pending[self._waiting()]
            rows, where = np.unique(np.concatenate([draws, waiting]), return_inverse=True)
            m = len(rows)
            columns = np.empty((m, m), cache.points.dtype)  # pages are taken when written
            block = _Block(self, rows, columns, np.full(m, -1, np.int64))
            selection = cache.select(rows)
            for some, coef in self._unpushed(cache.PIECE):
                values = np.empty((len(some), m), cache.points.dtype)
                cache.among(some, selection, values)
                block.add_scores(coef.astype(values.dtype) @ values)

            def fetch(needed: np.ndarray, block: Any = block, selection: Any = selection) -> None:
                cache.among(block.rows[needed], selection, block.place_for(needed))

            def bring(
                missing: np.ndarray, to_come: np.ndarray, block: Any = block, fetch: Any = fetch
            ) -> None:
                fetch(block.and_likely(missing, _TOGETHER_IN_BLOCK, to_come))

            fetch(np.union1d(np.flatnonzero(block.margins() < 1), where[len(draws) :]))
            block.decide(begin, where[: len(draws)].astype(np.int64), bring)
            with uninterrupted():
                block.keep(self, pushed=False)
            yield
            rows = np.flatnonzero(self.unpushed.any(axis=0))
            if len(rows) >= _LONGEST or cache.count_missing(rows) >= cache.PIECE:
                self._push(cache)
        self._push(cache)

    def _draws(
        self, first: int, order: np.ndarray | None, longest: int
    ) -> Generator[tuple[int, np.ndarray]]:
        """Yield the draws from number `first` on, block by block, until all problems are done."""
        if order is None:
            stream = self._order_from(first)
        size = _SHORTEST
        while (self.problems["n_steps"] < self.problems["last_step"]).any():
            if order is None:
                draws = np.empty(size, np.int64)
                stream.draw(draws)
            else:
                draws = order[first : first + size]
                if not len(draws):
                    return
            yield first, draws
            first += len(draws)
            size = min(2 * size, longest)
            if order is None and (following := next_draw(self.problems)) > first:
                first, stream = following, self._order_from(following)

    def _waiting(self) -> np.ndarray:
        """Which entries of `pending` are in use."""
        return np.arange(self.settings.batch_size) < self.problems["n_pending"][:, None]

    def _unpushed(self, size: int) -> Generator[tuple[np.ndarray, np.ndarray]]:
        """Rows that `unpushed` names, and their coefficients, at most `size` at a time."""
        rows = np.flatnonzero(self.unpushed.any(axis=0))
        for k in range(0, len(rows), size):
            yield rows[k : k + size], self.unpushed[:, rows[k : k + size]]

    def _push(self, cache: Any) -> None:
        """Let the scores of all rows know all coefficients."""
        rows = np.flatnonzero(self.unpushed.any(axis=0))
        if len(rows):
            change = cache.push(self.unpushed[:, rows], rows)
            with uninterrupted():
                self.scores += change
                self.unpushed[:, rows] = 0

    def planned_draws(self, most: Any) -> np.ndarray | None:
        """The draws that the plan will make, or None if there are more than `most`.

        None as well where steps depend on rows that are not drawn: see `_shorten_steps`.
        """
        if self.settings.loss.curvature:
            return None
        left = (self.problems["last_step"] - self.problems["n_steps"]) * self.settings.batch_size
        if left.max() > most:
            return None
        stream = self._order_from(0)
        draws = np.empty(0, np.int64)
        own = np.zeros(len(left), np.int64)
        while (own < left).any():
            more = np.empty(int((left - own).max()), np.int64)
            stream.draw(more)
            draws = np.concatenate([draws, more])
            own += np.count_nonzero(self.labels[:, more], axis=1)
            if len(draws) > most:
                return None
        return draws

    def run_among(
        self,
        draws: np.ndarray,
        make_cache: Callable[[np.ndarray], Any],
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """Carry out a first plan over the rows that `draws` names, as if there were no others.

        A decision needs the score of the row that was drawn, and only rows that will be drawn need
        scores: this is the whole algorithm on a smaller matrix, so that few steps on many rows cost
        what the steps cost. The scores of other rows are left unknown, so the session cannot go on.

        Parameters
        ----------
        draws : ndarray
            From `planned_draws`.
        make_cache : callable
            Makes the `ColumnCache` of an array of row numbers.
        """
        rows, order = np.unique(draws, return_inverse=True)
        few = KernelPegasos(self.settings, len(self.problems), len(rows), np.float64, self.seed)
        few.set_rows(
            np.ascontiguousarray(self.labels[:, rows]),
            None if self.row_weights is None else self.row_weights[rows],
            normalize=False,
        )
        few.problems[...] = self.problems
        few.run(make_cache(rows), order=order.astype(np.int64), on_progress=on_progress)
        self.problems[...] = few.problems
        self.weights[:, rows] = few.weights
        if self.counts is not None:
            self.counts[:, rows] = few.counts
        if self.sums is not None:
            self.sums[:, rows] = few.sums


class _Block:
    """Some rows, with copies of all that belongs to them, and columns of the matrix among them.

    Parameters
    ----------
    session : KernelPegasos
    rows : ndarray of int of shape (m,), sorted
    columns : ndarray of shape (at most m, m)
        Room for columns of the kernel matrix among `rows`.
    place : ndarray of int64 of shape (m,)
        Which of `columns` belongs to each row; -1: none.
    """

    def __init__(
        self, session: KernelPegasos, rows: Any, columns: np.ndarray, place: np.ndarray
    ) -> None:
        self.rows, self.columns, self.place = rows, columns, place
        m = len(rows)
        self.problems = session.problems.copy()
        self.labels = np.ascontiguousarray(session.labels[:, rows])
        weights = session.row_weights
        self.row_weights = None if weights is None else weights[rows]
        self.counts = np.zeros(self.labels.shape)
        self.pending = np.zeros_like(session.pending)
        self.slopes = None if session.slopes is None else session.slopes.copy()
        waiting = session._waiting()
        self.pending[waiting] = np.searchsorted(rows, session.pending[waiting])
        self.v = np.zeros((len(self.problems), 2 * m + 1))
        self.v[:, :m] = session.scores[:, rows]
        self.v[:, 2 * m] = 1
        self.a = None if session.sums is None else np.zeros_like(self.v)

    def add_scores(self, change: np.ndarray) -> None:
        """Add to the scores of the block's rows."""
        self.v[:, : len(self.rows)] += change

    def place_for(self, needed: np.ndarray) -> np.ndarray:
        """Make the next columns those of rows number `needed`; returns them, to be filled."""
        used = np.count_nonzero(self.place >= 0)
        self.place[needed] = np.arange(used, used + len(needed))
        return self.columns[used : used + len(needed)]

    def margins(self) -> np.ndarray:
        """The least y f(x) of each row over the problems that go on; -inf before their first step.

        As the core decides, but for rounding: for choosing what to compute, not for deciding.
        """
        p = {name: self.problems[name][:, None] for name in self.problems.dtype.names}
        scale = p["q"] / np.maximum(p["lam"] * (p["n_steps"] + p["delay"]), 1e-300)
        v = self.v[:, : len(self.rows)] + p["intercept_scaling"] * p["constant_weight"]
        margins = np.where(p["n_steps"] == 0, -np.inf, self.labels * (scale * v + p["intercept"]))
        margins[(self.labels == 0) | (p["n_steps"] >= p["last_step"])] = np.inf
        return margins.min(axis=0)

    def and_likely(self, missing: np.ndarray, n: int, among: Any = True) -> np.ndarray:
        """Rows `missing`, filled up to `n` with others that may well violate their margins.

        They may have become violators too, and to stop at each of them would take long.
        """
        margins = self.margins()
        others = (margins < _NEARLY) & (self.place < 0) & among
        others[missing] = False
        others = np.flatnonzero(others)
        n = max(n - len(missing), 0)
        if n < len(others):
            others = others[np.argpartition(margins[others], n)[:n]]
        return np.concatenate([missing, others])

    def decide(
        self, first: int, draws: np.ndarray, bring: Callable[[np.ndarray, np.ndarray], None]
    ) -> None:
        """Run the core over draws number `first`, ..., given as numbers within the block.

        Where columns are missing, `bring` is called with the numbers of their rows and a mask of
        the rows that are still to be drawn.
        """
        last_draw = np.full(len(self.rows), -1)
        last_draw[draws] = np.arange(len(draws))
        while True:
            wanted = np.zeros(len(self.rows), np.int8)
            block = _core.kernel_block(self.columns, self.place, wanted)
            _core.fit(
                block, self.problems, self.labels, self.row_weights, self.v, self.a,
                self.counts, self.pending, first, draws, False, self.slopes,
            )  # fmt: skip
            missing = np.flatnonzero(wanted)
            if not len(missing):
                return
            bring(missing, last_draw >= self.problems["next_draw"].min() - first)

    def report(self, session: KernelPegasos) -> None:
        """Let `session` know how far its problems are."""
        session.problems[...] = self.problems

    def keep(self, session: KernelPegasos, pushed: bool) -> None:
        """Make what was decided the state of `session`; `pushed`: the block is of all rows."""
        m = len(self.rows)
        gained, factor = self.v[:, m : 2 * m], self.v[:, 2 * m :]
        if self.a is not None:
            session.sums += self.a[:, 2 * m :] * session.weights
            session.sums[:, self.rows] += self.a[:, m : 2 * m]
        if (factor != 1).any():
            session.weights *= factor
            session.scores *= factor
            session.unpushed *= factor
        session.weights[:, self.rows] += gained
        if pushed:
            session.scores[...] = self.v[:, :m]
        else:
            session.unpushed[:, self.rows] += gained
        if session.counts is not None:
            session.counts[:, self.rows] += self.counts
        session.pending[...] = self.rows[self.pending]
        if session.slopes is not None:
            session.slopes[...] = self.slopes
        self.report(session)
