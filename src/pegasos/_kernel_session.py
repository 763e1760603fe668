"""Kernel Pegasos: training sessions over a kernel matrix that is never held whole.

The algorithm is that of ``csrc/pegasos.c`` with v = sum_j beta_j phi(x_j). Draws are taken in blocks.
Decisions within a block need scores of the block's rows only, so the core works on the small kernel
matrix among them; once the block is decided, its violators are known exactly, their columns are
computed together (one matrix product), and the scores of all rows move by one more product.
"""

import contextlib
import signal
import threading

import numpy as np

from pegasos import _core
from pegasos._session import LinearSession


class KernelSession(LinearSession):
    """Kernel problems over the same rows, and where their training stands.

    `weights` holds beta, `scores` the <v, phi(x_i)> of all rows, both of shape
    (n_problems, n_rows). See `LinearSession` for the rest.
    """

    _ARRAYS = (*LinearSession._ARRAYS, "scores")

    def __init__(self, settings, n_problems, n_rows, dtype, seed):
        super().__init__(settings, n_problems, n_rows, np.float64, seed)
        self.scores = np.zeros((n_problems, n_rows))

    def _run(self, cache, order, n_threads, on_progress):
        """Run over the points of a `ColumnCache`; threads are those of BLAS."""
        problems, n = self.problems, self.n_rows
        unfinished = problems["n_steps"] < problems["last_step"]
        if not unfinished.any():
            return
        first = int(problems["next_draw"][unfinished].min())
        # More rows: longer blocks, since each ends with a pass over all scores. The first ones are
        # short: at first everything violates its margin, and scores say little about the next draw.
        longest = int(np.clip(n // 4, 64, 2048))
        size = 32
        if order is None:
            stream = self._order_from(first)
        while (problems["n_steps"] < problems["last_step"]).any():
            size = min(2 * size, longest)
            if order is None:
                draws = np.empty(size, np.int64)
                stream.draw(draws)
            else:
                draws = order[first : first + size]
                if not len(draws):
                    return
            self._block(cache, first, draws)
            first += len(draws)
            if on_progress:
                on_progress()

    def planned_draws(self, most):
        """The draws that the plan will make, or None if there are more than `most`."""
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

    def run_among(self, draws, make_cache, on_progress=None):
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
        few = KernelSession(self.settings, len(self.problems), len(rows), np.float64, self.seed)
        few.set_rows(
            np.ascontiguousarray(self.labels[:, rows]),
            None if self.row_weights is None else self.row_weights[rows],
            normalize=False,
        )
        few.problems[...] = self.problems
        few.run(make_cache(rows), order=order.astype(np.int64), on_progress=on_progress)
        self.problems[...] = few.problems
        self.weights[:, rows] = few.weights
        self.counts[:, rows] = few.counts
        if self.sums is not None:
            self.sums[:, rows] = few.sums

    def _block(self, cache, first, draws):
        """Decide one block of draws, then push what it added to the scores of all rows."""
        block = _Block(self, draws)
        block.decide(cache, first)
        rows = np.flatnonzero(block.gained.any(axis=0))
        change = np.zeros_like(self.scores) if len(rows) else 0
        for part, columns in cache.pieces(block.rows[rows]):
            gained = block.gained[:, np.searchsorted(block.rows, part)].astype(columns.dtype)
            change += gained @ columns
        with _uninterrupted():
            block.keep(self, change)


class _Block:
    """The rows that some draws touch, with copies of all that belongs to them."""

    def __init__(self, session, draws):
        problems, settings = session.problems, session.settings
        waiting = np.arange(settings.batch_size) < problems["n_pending"][:, None]
        self.rows, where = np.unique(
            np.concatenate([draws, session.pending[waiting]]), return_inverse=True
        )
        self.draws = where[: len(draws)].astype(np.int64)
        m = len(self.rows)
        self.problems = problems.copy()
        self.labels = np.ascontiguousarray(session.labels[:, self.rows])
        weights = session.row_weights
        self.row_weights = None if weights is None else weights[self.rows]
        self.counts = np.zeros(self.labels.shape, np.int64)
        self.pending = np.zeros_like(session.pending)
        self.pending[waiting] = where[len(draws) :]
        self.v = np.zeros((len(problems), 2 * m + 1))
        self.v[:, :m] = session.scores[:, self.rows]
        self.v[:, 2 * m] = 1
        self.a = None if session.sums is None else np.zeros_like(self.v)
        self.place = np.full(m, -1, np.int64)
        likely = self._violating().any(axis=0)
        likely[where[len(draws) :]] = True
        self.likely = np.flatnonzero(likely)

    @property
    def gained(self):
        """What each row's coefficient gained, (n_problems, n_block_rows)."""
        m = len(self.rows)
        return self.v[:, m : 2 * m]

    def _violating(self):
        """Which rows would violate their margin now; as the core decides, but for rounding."""
        p = {name: self.problems[name][:, None] for name in self.problems.dtype.names}
        y = self.labels
        scores = p["q"] * (
            self.v[:, : len(self.rows)] + p["intercept_scaling"] * p["constant_weight"]
        )
        bound = p["lam"] * p["n_steps"] * (1 - y * p["intercept"])
        active = p["n_steps"] < p["last_step"]
        return active & (y != 0) & ((y * scores < bound) | (p["n_steps"] == 0))

    def decide(self, cache, first):
        """Run the core over the draws, bringing columns that it asks for."""
        columns = np.empty((0, len(self.rows)))
        missing = self.likely
        while True:
            if len(missing):
                self.place[missing] = len(columns) + np.arange(len(missing))
                more = cache.among(self.rows[missing], self.rows)
                columns = np.concatenate([columns, more])
            wanted = np.zeros(len(self.rows), np.int8)
            block = _core.kernel_block(columns, self.place, wanted)
            _core.fit(
                block, self.problems, self.labels, self.row_weights, self.v, self.a,
                self.counts, self.pending, first, self.draws,
            )  # fmt: skip
            missing = np.flatnonzero(wanted)
            if not len(missing):
                return

    def keep(self, session, change):
        """Make what was decided the state of `session`."""
        m = len(self.rows)
        factor = self.v[:, 2 * m :]
        if session.sums is not None:
            session.sums += self.a[:, 2 * m :] * session.weights
            session.sums[:, self.rows] += self.a[:, m : 2 * m]
        if (factor != 1).any():
            session.weights *= factor
            session.scores *= factor
        session.weights[:, self.rows] += self.gained
        session.scores += change
        if session.counts is not None:
            session.counts[:, self.rows] += self.counts
        session.pending[...] = self.rows[self.pending]
        session.problems[...] = self.problems


@contextlib.contextmanager
def _uninterrupted():
    """Let Ctrl-C wait until the block ends, so that what it changes is changed as a whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = []
    before = signal.signal(signal.SIGINT, lambda *arguments: heard.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard and callable(before):
        before(*heard[0])
