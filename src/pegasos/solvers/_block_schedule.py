"""Linear problems over rows that are larger than memory.

`schedule` decides between two ways. One is rounds of Newton's method or L-BFGS
(`pegasos.solvers._rounds`), each a pass over the rows. The other is dual ascent on loads.
A load is several micro-blocks, visited in random order. Each load gets some epochs of dual
coordinate ascent, in which w belongs to all rows (Yu, Hsieh, Chang and Lin: Large linear
classification when data cannot fit in memory, KDD 2010). Meanwhile a thread reads the next load. If
the loss has corners, rows near the margin stay in memory with the next load (Chang and Roth:
Selective block minimization for faster convergence of limited memory large-scale linear models,
KDD 2011).
"""

import functools
import mmap
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.io import _blocks
from pegasos.io._blocks import Blocks, RowBuffer
from pegasos.problems import _rows, _validate
from pegasos.problems._certificate import Certificate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers import _rounds, _schedule, _state
from pegasos.solvers._out_of_core import OutOfCoreSchedule

# Numbers of a problem. `part` is the sum of z_i a_i - c_i l*(a_i/c_i); `intercept` is for `coef`.
_PROBLEM = np.dtype(
    [(name, np.float64) for name in ("lam", "objective", "bound", "intercept", "part")]
)
# Epochs over a load; fewer if rows are kept, because these see more loads.
_EPOCHS, _EPOCHS_WITH_KEPT = 5, 3
# Vectors of a problem in rounds, and bytes of its label and target.
_VECTORS_OF_ROUNDS, _BYTES_OF_TARGET = 32, 10
# Vectors of a pair of L-BFGS while a checkpoint is written, and the least number of pairs.
_VECTORS_OF_PAIR, _LEAST_PAIRS = 4, 5
# Matrices of each problem in a pass of rounds, including those of sums.
_MATRICES = 8
# Rounds with matrices are faster than dual ascent if the mean of |x|^2 is above _FAR_WITH_CORNERS
# λ m for losses with corners, or above _FAR_IF_SPARSE λ m for others on sparse rows. For losses
# without corners on dense rows, they always are.
_FAR_WITH_CORNERS, _FAR_IF_SPARSE = 5, 1
# Rounds of L-BFGS need _MANY_ROWS rows a feature, and a mean of |x|^2 above _FAR λ m. If the loss
# has no corners, _FAR λ m is divided by its largest second derivative.
_MANY_ROWS, _FAR = 3, 20
# A gap check is a pass of its own. It is made if some rows say that the gap is at most _HOPEFUL
# times `tol`. It is also made after _PASSES_BEFORE_CHECK passes, after twice as many, and so on.
_HOPEFUL, _PASSES_BEFORE_CHECK = 1.1, 32

# Bytes of zeros that are written at once, and rows that are visited at once.
_ZEROS, _ROWS_AT_ONCE = 2**22, 2**14

#: Makes the arguments of `_core.Targets` from labels or targets, weights and row numbers: labels
#: (n_problems, n), weights or None, values or None.
TargetMaker = Callable[[np.ndarray, np.ndarray | None, np.ndarray], tuple[np.ndarray, Any, Any]]


class _Loads:
    """The loads of passes over blocks. A thread reads each one during work on the last one.

    A load has `n_each` blocks; the rows of `n_in_room` loads are worked on at once.
    """

    def __init__(self, blocks: Blocks, n_each: int, n_in_room: int = 1) -> None:
        self.blocks, self.n_each, self.n_in_room = blocks, n_each, n_in_room
        self._part: Any = None  # with `_thread`, between `open` and `close`
        self._thread: Any = None
        self._wanted: list[int] | None = None

    @property
    def n_loads(self) -> int:
        """The number of loads of a pass."""
        return -(-self.blocks.n_blocks // self.n_each)

    def of_pass(self, number: int, seed: int) -> list[list[int]]:
        """The blocks of each load of a pass, in random order."""
        n = self.blocks.n_blocks
        order, room = np.empty(n, np.int64), np.empty(n, np.int64)
        permutation = _core.SAMPLINGS["permutation"]
        _core.Order(seed % 2**64, room, permutation, number * n).draw(order)
        return [order[k : k + self.n_each].tolist() for k in range(0, n, self.n_each)]

    def room(self, n_loads: int) -> RowBuffer:
        """Memory for the rows of `n_loads` loads."""
        n_rows, n_stored = self.blocks.largest(self.n_each)
        return self.blocks.room([], n_rows * n_loads, n_stored * n_loads)

    def blocks_of(self, rows: np.ndarray) -> np.ndarray:
        """The blocks that rows of these numbers are in."""
        return np.searchsorted(self.blocks.starts, rows, "right") - 1

    def open(self) -> None:
        """Acquire memory for a load, and a thread that reads."""
        self._part, self._thread = self.room(1), _core.Background()

    def close(self) -> None:
        """Wait for the thread, and release memory; may be called again."""
        if self._thread is not None:
            self._thread.wait()
        self._part = self._thread = self._wanted = None

    def start(self, wanted: list[int]) -> None:
        """Begin to read blocks; blocks read before are lost."""
        self._thread.wait()
        self._wanted = None
        self._part.truncate()
        self._thread.start(functools.partial(self.blocks.read, wanted, self._part))
        self._wanted = wanted

    def get(self, wanted: list[int]) -> RowBuffer:
        """The rows of these blocks."""
        if self._wanted != wanted:
            self.start(wanted)
        error = self._thread.wait()
        if error is not None:
            self._wanted = None
            raise error
        return self._part

    def in_order(self, room: RowBuffer) -> Iterator[int]:
        """Read all rows in order, after those in `room`; yields where in `room` a load begins."""
        n, first = self.blocks.n_blocks, room.n_rows
        loads = [list(range(k, min(k + self.n_each, n))) for k in range(0, n, self.n_each)]
        for j, load in enumerate(loads):
            room.truncate(first)
            room.append(self.get(load))
            if j + 1 < len(loads):
                self.start(loads[j + 1])
            yield first
        room.truncate(first)


class _OnDisk(_rounds.BlockRunner):
    """Loads in order, as blocks for rounds, whose centres are made anew in each pass."""

    keeps_centres = False

    def __init__(
        self, loads: _Loads, targets: TargetMaker, settings: Settings, n_at_once: int
    ) -> None:
        self.loads, self.targets, self.settings = loads, targets, settings
        self.n_at_once = n_at_once
        super().__init__(self)

    def open(self) -> None:
        self.loads.open()

    def close(self) -> None:
        self.loads.close()

    def __len__(self) -> int:
        return self.loads.n_loads

    def __iter__(self) -> Iterator[_rounds.Block]:
        room = self.loads.room(1)
        for _ in self.loads.in_order(room):
            labels, weights, values = self.targets(room.y, room.weights, room.numbers)
            yield _rounds.Block(
                X=room.matrix(), labels=labels, weights=weights, values=values,
                settings=self.settings,
            )  # fmt: skip


class PerRowArray:
    """Some numbers of each row, in memory or in a file without a name; `array` begins as zeros."""

    def __init__(self, blocks: Blocks, n_numbers: int) -> None:
        self._map: mmap.mmap | None = None
        shape = n_numbers, len(blocks)
        size, folder = 8 * shape[0] * shape[1], blocks.cache
        if not self.are_on_disk(blocks, n_numbers):
            self.array = np.zeros(shape)
            return
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                # Allocate disk space now: a full disk at a later write would end the process.
                for first in range(0, size, _ZEROS):
                    file.write(bytes(min(_ZEROS, size - first)))
                file.flush()
                self._map = mmap.mmap(file.fileno(), size)
        except OSError as error:
            error.filename = folder
            raise
        self.array = np.frombuffer(self._map, np.float64).reshape(shape)

    @staticmethod
    def are_on_disk(blocks: Blocks, n_numbers: int) -> bool:
        """Whether `n_numbers` numbers of each row go into a file."""
        return 8 * n_numbers * len(blocks) > blocks.memory // _blocks.SHARE

    def each(self, which: slice = slice(None)) -> Iterator[np.ndarray]:
        """One of these numbers for all rows at a time; releases its memory before the next one."""
        for own in self.array[which]:
            yield own
            self.release_pages()

    def pieces(self) -> Iterator[slice]:
        """Slices of rows; releases the memory of each before the next one."""
        for first in range(0, self.array.shape[1], _ROWS_AT_ONCE):
            yield slice(first, first + _ROWS_AT_ONCE)
            self.release_pages()

    def release_pages(self) -> None:
        """Release the memory of pages that were read or written."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


class _Kept:
    """Rows that stay in memory from one load to the next, with room for loads after them.

    `numbers` are the row numbers, in their order in memory. `part` has the rows, and perhaps a
    load; None if they must be read again.
    """

    def __init__(self, loads: _Loads, numbers: np.ndarray) -> None:
        self.loads, self.numbers = loads, numbers
        self.part: RowBuffer | None = None

    def with_load(self, blocks: list[int]) -> tuple[RowBuffer, np.ndarray]:
        """The kept rows followed by a load, and a mask of the kept rows that the load has too."""
        part, n_kept = self.alone(), len(self.numbers)
        part.append(self.loads.get(blocks))
        is_loaded = np.zeros(self.loads.blocks.n_blocks, bool)
        is_loaded[blocks] = True
        is_twice = np.zeros(part.n_rows, bool)
        is_twice[:n_kept] = is_loaded[self.loads.blocks_of(self.numbers)]
        return part, is_twice

    def alone(self) -> RowBuffer:
        """The kept rows, which are read again after a stop."""
        if self.part is None:
            part = self.loads.room(self.loads.n_in_room)
            if len(self.numbers):
                found, order = self.loads.room(1), np.argsort(self.numbers)
                rows = self.numbers[order]
                of_blocks = self.loads.blocks_of(rows)
                for block in np.unique(of_blocks):
                    read = self.loads.get([int(block)])
                    own = rows[of_blocks == block] - self.loads.blocks.starts[block]
                    found.append_some(read, read.rows(), own)
                part.append_some(found, found.rows(), np.argsort(order))
            self.part = part
        self.part.truncate(len(self.numbers))  # a pass that was stopped may have left a load
        return self.part


class BlockSchedule(OutOfCoreSchedule):
    """Dual ascent over blocks, load by load.

    Each problem has numbers in `problems`, dual variables in `a`, in memory or on disk, w(a) in
    `w`, and the weight of the constant feature in `dual`. A free intercept also has a constant
    feature, which pulls it towards a reference: the `intercept` of `dual`. During a pass, the
    reference moves to the intercept, load by load. See ``pegasos_ascent``. `sums` has the mean of w
    and of the intercept over the present pass, or the last one; `coef` is the best checked model.

    Loads and checks work on the problems that are `active`, those whose gap is not known to be
    small enough. `n_loads` of the present pass are over. The last gap check was after pass number
    `checked_at`. `kept` has the rows that stay in memory from one load to the next.
    """

    name, _COUNTS = "sdca", ("n_loads", "checked_at")

    def __init__(
        self,
        settings: Settings,
        blocks: Blocks,
        targets: TargetMaker,
        masses: np.ndarray,
        n_inside: np.ndarray,
        seed: int,
    ) -> None:
        super().__init__(settings, blocks, masses, n_inside, seed)
        self.targets, self.n_loads, self.checked_at = targets, 0, 0
        (n, d), k = blocks.shape, len(masses)
        n_fixed = _blocks.VECTORS * k * d + (0 if PerRowArray.are_on_disk(blocks, k) else k * n)
        n_in_room = 1 + (settings.loss.curvature == 0)  # a load, and the kept rows
        self.loads = _planned(blocks, k, n_fixed, _blocks.BYTES_OF_PROBLEM * k, n_in_room)
        self._dual_variables = PerRowArray(blocks, k)
        self.w, self.coef, self.sums = np.zeros((k, d)), np.zeros((k, d)), np.zeros((k, d + 1))
        self.problems: Any = np.zeros(k, _PROBLEM)
        self.problems["lam"] = settings.lams
        self.problems["objective"], self.problems["bound"] = np.inf, -np.inf
        self.dual: Any = np.zeros(k, _core.DUAL_STATE)
        self.dual["scale"] = 1 / (self.problems["lam"] * self.masses)
        feature = settings.constant_feature
        if settings.free_intercept:
            feature = _core.free_feature(blocks.mean_squared_norm, settings.loss.nu)
        self.dual["intercept_scaling"] = feature
        self.dual["factor"] = 1
        self.dual["generator"] = np.arange(k).astype(np.uint64) * 0x9E3779B97F4A7C15 + seed % 2**64
        if settings.loss.nu:  # b = 1 is best where w = 0
            self.dual["intercept"] = 1
            self.dual["constant_weight"] = -feature * settings.loss.nu / self.problems["lam"]
            self.dual["squared_norm"] = self.dual["constant_weight"] ** 2
        self.kept = _Kept(self.loads, np.zeros(0, np.int64))
        self._choose(None)

    @property
    def a(self) -> np.ndarray:
        return self._dual_variables.array

    # ---- Training --------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def train(
        self,
        rows: Any,
        *,
        tol: Any,
        max_iter: int,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
        on_epoch: Callable[[], None] | None = None,
        **_: Any,
    ) -> Certificate:
        """Make passes until every relative duality gap is at most `tol`, or `max_iter` passes.

        An exception can stop it; the next call goes on with the present load or check.
        """
        tol = _schedule.GAP if tol == "auto" else tol
        last = self.base + max_iter
        self._choose(tol)
        with _core.Closing(self.loads):
            while True:
                if self.n_loads == 0 and self.n_passes > self.base:
                    is_last = self.n_passes >= last
                    is_new = self.checked_at < self.n_passes
                    if is_new and (is_last or (tol is not None and self._is_due(tol))):
                        self._check(on_progress)
                        self._choose(tol)
                    is_small = tol is not None and self.checked_at == self.n_passes
                    if is_last or (is_small and (self.certify().proved_gap <= tol).all()):
                        return self.certify(rows)
                self._load(n_threads, on_progress)
                if self.n_loads == 0 and on_epoch is not None:
                    on_epoch()
                if on_progress is not None:  # a load may be too short to call it
                    on_progress()

    def _choose(self, tol: float | None) -> None:
        """Choose the active problems; all of them, if none would be."""
        is_done = self.certify().proved_gap <= (-1 if tol is None else tol)
        is_any = is_done.any() and not is_done.all()
        self.active: Any = np.flatnonzero(~is_done) if is_any else slice(None)

    @property
    def _settings(self) -> Settings:
        """The settings of the active problems."""
        return self.settings.subset(self.active)

    def _load(self, n_threads: int, on_progress: Callable[[], None] | None) -> None:
        """Load, train, choose rows to keep, store: a transaction; only its end changes `self`."""
        which, loads = self.active, self.loads.of_pass(self.n_passes, self.seed)
        is_last = self.n_loads + 1 == len(loads)
        room, is_twice = self.kept.with_load(loads[self.n_loads])
        following = [*loads, *self.loads.of_pass(self.n_passes + 1, self.seed)]
        self.loads.start(following[self.n_loads + 1])
        rows, (problem, a) = room.rows(), self._of_rows(room, twice=is_twice)
        targets = problem.targets

        arrays: tuple[Any, ...] = self.w, self.dual, self.problems, self.sums
        w, dual, problems = (of[which].copy() for of in arrays[:3])
        longer = self._growth
        self._lengthen(w, dual, longer)
        before = targets.parts(a)
        last_u = self._ascend(room, rows, targets, a, w, dual, n_threads, on_progress)
        problems["part"] += targets.parts(a) - before
        near = self._near(room, targets, a, last_u)

        intercept = self._intercept_of(dual)
        self._lengthen(w, dual, 1 / longer)
        sums = np.column_stack([longer * w, intercept]) / len(loads)
        if self.n_loads > 0:
            sums += self.sums[which]
        dual["scale"] = self.dual["scale"][which]
        if self.settings.free_intercept:
            # Part of the way only: one load would otherwise decide for all rows.
            share = 1 if is_last else 1 / len(loads)
            dual["intercept"] += share * (intercept - dual["intercept"])
        numbers, inside = room.numbers, ~is_twice
        new = zip(arrays, (w, dual, problems, sums), strict=True)
        duals = zip(self._duals(), a[:, inside], strict=True)
        _core.update_atomically(
            vars(self),
            {
                "n_loads": 0 if is_last else self.n_loads + 1,
                "n_passes": self.n_passes + is_last, "kept": _Kept(self.loads, numbers[near]),
            },
            written=(
                *((array, which, values) for array, values in new),
                *((of, numbers[inside], values) for of, values in duals),
            ),
        )  # fmt: skip
        self._dual_variables.release_pages()
        room.keep(rows, near)
        self.kept.part = room

    def _ascend(
        self, room: RowBuffer, rows: _core.Rows, targets: _core.Targets, a: np.ndarray,
        w: np.ndarray, dual: Any, n_threads: int, on_progress: Callable[[], None] | None,
    ) -> np.ndarray:  # fmt: skip
        """Train the active problems on some rows; returns u of each row at its last visit."""
        n_epochs = _EPOCHS if self.loads.n_in_room == 1 else _EPOCHS_WITH_KEPT
        norms, last_u = np.ascontiguousarray(room.norms), np.empty_like(a)

        def ascend(k: int, on_poll: Callable[[], None]) -> None:
            _core.run_dual_epochs(
                rows, targets, k, norms, np.empty(len(norms), np.int64), a[k], w[k], last_u[k],
                dual[k : k + 1], n_epochs, _core.Watch(on_poll),
            )  # fmt: skip

        jobs = [functools.partial(ascend, k) for k in range(len(a))]
        _core.run_jobs(jobs, n_threads, on_progress)
        if not (np.isfinite(dual["squared_norm"]).all() and np.isfinite(w).all()):
            raise _validate.overflow(self.about.dtype, self.settings.lam)
        return last_u

    @property
    def _growth(self) -> float:
        """The factor from w(a) to the longer w of a load: see `growth` in csrc/step.h.

        Until the first pass has seen all rows, w(a) is too short if many rows decide it.
        """
        of_one_row = self.about.mean_squared_norm / (self.problems["lam"] * self.masses).min()
        is_longer = self.n_passes == 0 and of_one_row <= 1
        return min(2.0, self.loads.n_loads / (self.n_loads + 1)) if is_longer else 1.0

    def _lengthen(self, w: np.ndarray, dual: Any, factor: float) -> None:
        """Multiply w(a) of the active problems, but not the part of its constant weight from nu."""
        if factor == 1:
            return
        own = dual["intercept_scaling"] * self.settings.loss.nu / self._settings.lams_of(len(w))
        w *= factor
        dual["scale"] *= factor
        dual["constant_weight"] = factor * (dual["constant_weight"] + own) - own
        dual["squared_norm"] = (w * w).sum(axis=1) + dual["constant_weight"] ** 2

    def _of_rows(
        self, part: RowBuffer, first: int = 0, twice: np.ndarray | None = None
    ) -> tuple[Problem, np.ndarray]:
        """The active problems on the rows from `first` on, and their dual variables.

        Rows marked in `twice` are in no problem.
        """
        numbers, weights = part.numbers[first:], part.weights
        labels, weights, values = self.targets(
            part.y[first:], None if weights is None else weights[first:], numbers
        )
        labels = labels[self.active]
        if twice is not None:
            labels[:, twice] = 0
        values = None if values is None else values[self.active]
        a = np.stack([of[numbers] for of in self._duals()])
        self._dual_variables.release_pages()
        return Problem(labels, weights, self._settings, values), a

    def _duals(self) -> Iterator[np.ndarray]:
        """The dual variables of all rows, for each active problem."""
        return (self.a[k] for k in np.arange(len(self.a))[self.active])

    @staticmethod
    def _intercept_of(dual: Any) -> np.ndarray:
        return dual["intercept"] + dual["intercept_scaling"] * dual["constant_weight"]

    def _near(
        self, room: RowBuffer, targets: _core.Targets, a: np.ndarray, last_u: np.ndarray
    ) -> np.ndarray:
        """Positions of the rows to keep: those that are likely to change next.

        Rows with dual variables between their bounds come first, in the order of |u| at the last
        visit: a large |u| means a long step. Rows that were kept for long have a small |u| and make
        room. Rows with u next to a corner of the loss follow. At most a load of rows is kept; none
        if the loss has no corners, since no row is nearer to one then.
        """
        if self.loads.n_in_room == 1:
            return np.zeros(0, np.int64)
        labels, weights, *_ = targets.arrays
        distance, settings = np.full(room.n_rows, np.inf), self._settings
        c = 1.0 if weights is None else np.asarray(weights)
        for k in range(len(a)):
            loss, size = settings.loss_of(k), np.abs(last_u[k])
            is_free = (loss.dual_lower * c < a[k]) & (a[k] < loss.dual_upper * c) & (a[k] != 0)
            own = np.where(is_free, -1 - size, np.abs(size - loss.epsilon))
            np.minimum(distance, own, out=distance, where=np.asarray(labels[k]) != 0)
        n_rows, n_stored = self.about.largest(self.loads.n_each)
        if room.n_rows > n_rows:
            distance[distance > np.partition(distance, n_rows)[n_rows]] = np.inf
        near, lengths = np.flatnonzero(np.isfinite(distance)), room.lengths()
        if len(near) <= n_rows and lengths[near].sum() <= n_stored:
            return near
        order = near[np.argsort(distance[near], kind="stable")][:n_rows]
        return np.sort(order[np.cumsum(lengths[order]) <= n_stored])

    # ---- Certificates ----------------------------------------------------------------------------

    def _is_due(self, tol: float) -> bool:
        """Whether a check likely finds half of the gaps small enough, or is due by the passes."""
        n = self.n_passes
        is_time = n >= _PASSES_BEFORE_CHECK and n & (n - 1) == 0
        return is_time or bool((self._estimated_gaps() <= _HOPEFUL * tol).mean() >= 0.5)

    def _estimated_gaps(self) -> np.ndarray:
        """Relative gaps, estimated by the rows of the next load, a random sample of all.

        P(w) - D(a) is lam/2 |w - w(a)|^2 plus the mean of l(u) + l*(a) - a u over the rows. None of
        these terms is below 0 (Fenchel and Young), so they are small where the gap is. A sample
        therefore estimates their mean much better than that of l(u).
        """
        p, state = self.problems[self.active], self.dual[self.active]
        nu, feature = self.settings.loss.nu, self.settings.constant_feature
        part = self.loads.get(self.loads.of_pass(self.n_passes, self.seed)[0])
        rows, (problem, a) = part.rows(), self._of_rows(part)
        targets, mass = problem.targets, problem.weights.sum(axis=1)
        factors, gap = a * problem.labels, np.full(len(p), np.inf)
        vectors = rows.combine(factors)
        for coef, intercept in self._points():
            apart = np.square(coef - self.w[self.active]).sum(axis=1)
            if feature:
                apart += np.square((intercept - self._intercept_of(state)) / feature)
            own = self._losses(rows, targets, coef, intercept) - targets.parts(a)
            own += (coef * vectors).sum(axis=1) + intercept * factors.sum(axis=1)
            # A problem without rows in this load adds nothing.
            mean = np.divide(own, mass, out=np.zeros(len(p)), where=mass > 0)
            gap = np.fmin(gap, mean + p["lam"] / 2 * apart)
        dual = p["part"] / self.masses[self.active] - p["lam"] / 2 * state["squared_norm"]
        size = nu - dual if nu else np.fmax(dual, 0) + gap
        return np.divide(gap, size, out=np.zeros(len(p)), where=size > 0)

    def _points(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Coefficients and intercepts of w, and of its mean over the last pass."""
        sums = self.sums[self.active]
        return [
            (self.w[self.active], self._intercept_of(self.dual[self.active])),
            (np.ascontiguousarray(sums[:, :-1]), np.ascontiguousarray(sums[:, -1])),
        ]

    @staticmethod
    def _losses(
        rows: _core.Rows, targets: _core.Targets, coef: np.ndarray, intercept: np.ndarray
    ) -> np.ndarray:
        """The sums of the losses of some rows."""
        laid, interleaved = _rows.laid_out(rows, coef)
        told = _core.certify(rows, targets, laid, intercept, interleaved=interleaved)
        return told[1]

    def _objectives(
        self, coef: np.ndarray, intercept: np.ndarray, losses: np.ndarray
    ) -> np.ndarray:
        """P of models, given the means of their losses."""
        feature = self.settings.constant_feature
        squared = (coef * coef).sum(axis=1) + ((intercept / feature) ** 2 if feature else 0)
        lam, nu = self.problems["lam"][self.active], self.settings.loss.nu
        return lam / 2 * squared + losses + nu * intercept

    def _check(self, on_progress: Callable[[], None] | None) -> None:
        """Find the gap over all rows, and sum w anew; a transaction."""
        models, bound, part, w, constant = self._pass(on_progress)
        arrays: tuple[Any, ...] = self.problems, self.coef, self.dual, self.w
        p, best, dual = (array[self.active].copy() for array in arrays[:3])
        for coef, intercept, objective in models:
            better = objective < p["objective"]
            best[better] = coef[better]
            p["intercept"][better] = intercept[better]
            p["objective"][better] = objective[better]
        p["bound"], p["part"] = np.fmax(p["bound"], bound), part
        dual["constant_weight"] = constant
        dual["squared_norm"] = (w * w).sum(axis=1) + constant**2
        new = zip(arrays, (p, best, dual, w), strict=True)
        written = tuple((array, self.active, values) for array, values in new)
        _core.update_atomically(vars(self), {"checked_at": self.n_passes}, written=written)

    def _pass(self, on_progress: Callable[[], None] | None) -> tuple[Any, ...]:
        """One pass over all rows, in double.

        Returns w and its mean over the last pass, each with intercepts and objectives; D of the
        dual variables, made feasible; and `part`, w and the constant weight, summed anew.
        """
        settings, p, state = self.settings, self.problems[self.active], self.dual[self.active]
        nu, is_free, room = settings.loss.nu, settings.free_intercept, self.kept.alone()
        k, scale, masses = len(p), state["scale"][:, None], self.masses[self.active]
        points = self._points()
        losses, sizes, part, of_other = np.zeros((2, k)), np.zeros((2, k)), np.zeros(k), np.zeros(k)
        # w(a), and the vector that makes a feasible if the intercept is free: see `_balanced`.
        w = np.zeros((k, self.w.shape[1]))
        other = np.zeros_like(w) if is_free else None
        for first in self.loads.in_order(room):
            rows, (problem, a) = room.rows(first), self._of_rows(room, first)
            targets, labels = problem.targets, problem.labels
            a = targets.feasible(a, False)
            for of_point, point in zip(losses, points, strict=True):
                of_point += self._losses(rows, targets, *point)
            part += targets.parts(a)
            factors = a * labels
            sizes += np.stack([np.maximum(factors, 0), np.maximum(-factors, 0)]).sum(axis=2)
            w += rows.combine(scale * factors)
            if other is not None:
                some = np.where(factors < 0, a, 0)
                if nu:
                    some = problem.weights
                of_other += targets.parts(some)
                other += rows.combine(scale * some * labels)
            if on_progress is not None:
                on_progress()
        models = []
        for (coef, intercept), loss in zip(points, losses, strict=True):
            objective = self._objectives(coef, intercept, loss / masses)
            objective[self.n_inside[self.active] == 0] = 0
            models.append((coef, intercept, objective))
        if not np.isfinite([objective for *_, objective in models]).all():
            raise _validate.overflow(self.about.dtype, settings.lam)
        constant = state["intercept_scaling"] * (
            scale[:, 0] * (sizes[0] - sizes[1]) - nu / p["lam"]
        )
        feasible, value = w, part
        if other is not None:
            feasible, value = _balanced(w, other, part, of_other, sizes, masses, nu)
        squared = (feasible * feasible).sum(axis=1) + (0 if is_free else constant**2)
        bound = np.fmax(value / masses - p["lam"] / 2 * squared, 0)
        return models, bound, part, w, constant

    def certify(self, rows: Any = None) -> Certificate:
        """The certificate of the last check."""
        known, p = np.isfinite(self.problems["objective"]), self.problems
        objective, bound = (np.where(known, p[name], np.nan) for name in ("objective", "bound"))
        return Certificate(objective, bound, settings=self.settings)

    def latest_certificate(self, rows: Any) -> Certificate:
        """The certificate of the present point, by a pass over the rows."""
        models, own, *_ = self._pass(None)
        p, which = self.problems.copy(), self.active
        for *_, objective in models:
            p["objective"][which] = np.fmin(p["objective"][which], objective)
        p["bound"][which] = np.fmax(p["bound"][which], own)
        return Certificate(p["objective"], p["bound"], settings=self.settings)

    # ---- What there is so far --------------------------------------------------------------------

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """The best model that was checked; before a check, the present model."""
        if np.isfinite(self.problems["objective"]).all():
            return self.coef.copy(), self.problems["intercept"].copy()
        return self.w.copy(), self._intercept_of(self.dual)

    def progress(self) -> tuple[float, int, str]:
        """Passes so far, 0, and the pass, with the largest gap once it is known."""
        n = self.n_passes + self.n_loads / self.loads.n_loads
        return n, 0, self._with_gap(f"pass {self.n_passes + 1}")

    # ---- Saving ----------------------------------------------------------------------------------

    _ARRAYS = ("a", "w", "coef", "sums", "kept", "problems", "dual")

    @property
    def n_parts(self) -> int:
        return self.loads.n_each

    def state(self) -> dict[str, np.ndarray]:
        arrays = {name: getattr(self, name) for name in self._ARRAYS}
        arrays["kept"] = self.kept.numbers
        for name in ("problems", "dual"):
            arrays[name] = arrays[name].copy().view(np.uint8)
        return super().state() | arrays

    def _are_counts(self, n_passes: int, *counts: int) -> bool:
        n_loads, checked_at = counts
        return n_loads < self.loads.n_loads and checked_at <= n_passes

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        kept = np.atleast_1d(arrays.get("kept", ()))
        most = self.about.largest(self.loads.n_each)[0] * (self.loads.n_in_room - 1)
        own = self.state() | {"kept": np.zeros(min(len(kept), most), np.int64)}
        for name in self._ARRAYS:
            _state.same_kind(name, arrays.get(name), own[name])
        problems = np.array(arrays["problems"]).view(_PROBLEM)
        dual = np.array(arrays["dual"]).view(_core.DUAL_STATE)
        is_good = not len(kept) or (kept.min() >= 0 and kept.max() < self.n_rows)
        is_good &= len(np.unique(kept)) == len(kept)
        is_good &= bool((problems["lam"] == self.problems["lam"]).all())
        for name in ("scale", "intercept_scaling", "factor"):
            is_good &= bool((dual[name] == self.dual[name]).all())
        if not is_good:
            raise ValueError("state: numbers or kept rows do not fit the rest")
        for rows in self._dual_variables.pieces():
            self.a[:, rows] = arrays["a"][:, rows]
        for name in ("w", "coef", "sums"):
            setattr(self, name, np.array(arrays[name]))
        self.problems, self.dual, self.kept = problems, dual, _Kept(self.loads, np.array(kept))


def _balanced(
    w: np.ndarray, other: np.ndarray, part: np.ndarray, of_other: np.ndarray, sizes: np.ndarray,
    mass: np.ndarray, nu: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """w and a lower bound on `part`, for dual variables that meet the condition of an intercept.

    That is sum_i y_i a_i = 0: the heavier sign is scaled down. `other` and `of_other` are sums over
    rows with y_i a_i < 0. A row's term of m D is concave in a_i and 0 for a_i = 0, so for r a_i it
    is at least r times as large. For one class, sum_i a_i = nu m: dual variables are scaled down
    or mixed with c_i, and `other` and `of_other` belong to c_i.
    """
    if nu:
        lack = nu * mass - sizes[0]
        share = np.where(lack > 0, lack / np.where(lack > 0, mass - sizes[0], 1), 0)
        factor = np.where(lack > 0, 1 - share, nu * mass / np.where(lack > 0, 1, sizes[0]))
        return factor[:, None] * w + share[:, None] * other, factor * part + share * of_other
    least = sizes.min(axis=0)
    up, down = np.divide(least, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    value = up * (part - of_other) + down * of_other
    return up[:, None] * (w - other) + down[:, None] * other, value


def fit_into_memory(blocks: Blocks) -> bool:
    """Whether a fit of all rows in memory stays within the memory that the blocks may take."""
    return blocks.nbytes + _blocks.BYTES_IN_MEMORY * blocks.shape[0] <= blocks.memory


def schedule(
    solver: str, settings: Settings, blocks: Blocks, targets: TargetMaker, masses: np.ndarray,
    n_inside: np.ndarray, seed: int,
) -> OutOfCoreSchedule:  # fmt: skip
    """The schedule of a fit: `Rounds` or `BlockSchedule`.

    Rounds with matrices of second derivatives are faster for up to some hundred features. But if λ
    is so large that a row moves its own score by little, dual ascent needs only a few passes, and
    is faster if the loss has corners or rows are sparse. Rounds of L-BFGS are faster if λ is small
    and there are many rows for each feature, unless the loss has corners and rows are sparse. One
    class needs dual ascent: its objective has a term that rounds lack.
    """
    n_problems, (n_rows, d) = len(masses), blocks.shape
    squared_norm, least = blocks.mean_squared_norm, (settings.lams_of(n_problems) * masses).min()
    n_at_once, n_pairs = _at_once(blocks, n_problems)
    has_corners = settings.loss.curvature == 0
    if has_corners:
        is_fast = squared_norm > _FAR_WITH_CORNERS * least
    else:
        is_fast = not blocks.is_sparse or squared_norm > _FAR_IF_SPARSE * least
    if n_pairs:
        is_far = squared_norm * (settings.loss.curvature or 1) > _FAR * least
        is_fast = is_far and n_rows >= _MANY_ROWS * d and not (has_corners and blocks.is_sparse)
    if settings.loss.nu or solver == "sdca" or not (n_at_once and (is_fast or solver == "newton")):
        if solver == "newton":
            sdca = _validate.value_of("solver", "sdca")
            raise ValueError(
                f"Blocks that are larger than memory need {_validate.parameter('solver', 'auto')} "
                f"or {sdca} for one class, and if Newton's method has no room for what it keeps of "
                "each problem: "
                f"{_validate.parameter('solver', solver)} has {n_problems} problem(s) of {d} "
                f"features here, and memory={blocks.memory} bytes"
            )
        return BlockSchedule(settings, blocks, targets, masses, n_inside, seed)
    n_fixed = n_problems * (_VECTORS_OF_ROUNDS + _VECTORS_OF_PAIR * n_pairs) * (d + 1)
    n_fixed += 0 if n_pairs else n_at_once * _MATRICES * (d + 1) ** 2
    of_row = _blocks.BYTES_OF_PROBLEM * n_at_once + _BYTES_OF_TARGET * n_problems
    loads = _planned(blocks, n_problems, n_fixed, of_row, 1)
    in_order = _OnDisk(loads, targets, settings, n_at_once)
    return _rounds.Rounds(settings, in_order, blocks, masses, n_inside, seed, n_pairs)


def _at_once(blocks: Blocks, n_problems: int) -> tuple[int, int]:
    """The problems in a pass of rounds, and the pairs of L-BFGS of each; 0 pairs: matrices.

    0 problems mean that there is no room for the vectors of all.
    """
    share, size = blocks.memory // _blocks.SHARE, blocks.shape[1] + 1
    most = max(1, share // (2 * _blocks.BYTES_OF_PROBLEM * blocks.largest(1)[0]))
    with_matrix = min(share // (8 * _MATRICES * size**2), _rounds.most_with_matrix(size - 1))
    if with_matrix:
        return min(n_problems, most, with_matrix), 0
    room = blocks.memory // 2 // (8 * n_problems * size) - _VECTORS_OF_ROUNDS
    n_pairs = min(_rounds.MOST_PAIRS, room // _VECTORS_OF_PAIR)
    return min(n_problems, most) * (n_pairs >= _LEAST_PAIRS), n_pairs


def _planned(
    blocks: Blocks, n_problems: int, n_numbers: int, bytes_of_row: int, n_in_room: int
) -> _Loads:
    """Loads for which there is memory.

    `n_numbers` of float64 are always in memory. Each row has `bytes_of_row` bytes besides its
    numbers and what all rows have. The rows of `n_in_room` loads are worked on at once.
    """
    d = blocks.shape[1]
    rows, stored = blocks.largest(1)
    numbers = stored * (blocks.dtype.itemsize + blocks._index["index_bytes"] * blocks.is_sparse)
    numbers += rows * 8 * (4 + max(1, blocks.n_outputs))
    # The load that is read, and the rows that are worked on.
    each = (1 + n_in_room) * numbers + 2 * rows * (bytes_of_row + _blocks.BYTES_OF_ROW)
    count = (blocks.memory - 8 * n_numbers) // each
    if count < 1:
        needed = 8 * n_numbers + each
        rows_of = f"these blocks of {rows} rows and {d} features"
        raise ValueError(_blocks.too_little(blocks.memory, needed, n_problems, rows_of))
    return _Loads(blocks, int(min(count, blocks.n_blocks)), n_in_room)
