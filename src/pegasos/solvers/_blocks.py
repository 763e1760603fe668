"""Linear problems over rows that are larger than memory: dual ascent on what is loaded.

Micro-blocks are visited in random order, several at a time: a load. Beside a load, rows near the
margin stay in memory from one load to the next (Chang and Roth: Selective block minimization for
faster convergence of limited memory large-scale linear models, KDD 2011; fixed blocks without them:
Yu, Hsieh, Chang and Lin, KDD 2010). A load sees a few epochs of dual coordinate ascent, in which w
is that of all rows. Meanwhile a thread reads the next one.
"""

import contextlib
import functools
import mmap
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.io._blocks import Blocks, Part
from pegasos.problems import _rows, _validate
from pegasos.problems._certificate import Certificate, significant
from pegasos.problems._settings import Settings
from pegasos.solvers._schedule import GAP

_DUAL = np.asarray(_core.BLANK_DUAL).dtype
# Epochs over a load, and the rows kept beside it.
_EPOCHS = 3
# Vectors of weights that a problem has at most at a time, and bytes of a row in memory beside its
# numbers: of each problem (dual variable twice, label, target twice), and of all.
_VECTORS, _BYTES_OF_PROBLEM, _BYTES_OF_ROW = 8, 40, 96
# What a fit in memory takes for a row beside its numbers: state, norms, room.
_BYTES_IN_MEMORY = 160
# Dual variables are on disk where they would take more than such a part of the memory.
_DUAL_SHARE = 4
# A gap is checked if it is foretold to be at most so many times what is asked for, and else after
# so many passes, twice as many, and so on: a check is a pass of its own.
_HOPEFUL, _PASSES_BEFORE_CHECK = 1.5, 8

# Bytes of zeros that are written at once.
_ZEROS = 2**22

#: Of a block's labels or targets and weights, what `_core.Targets` wants: labels (n_problems, n),
#: weights or None, values or None.
Targets = Callable[[np.ndarray, np.ndarray | None], tuple[np.ndarray, Any, Any]]


class _Reader:
    """Reads blocks in a thread, one list of them ahead."""

    def __init__(self, blocks: Blocks, part: Part) -> None:
        self.blocks, self.part = blocks, part
        self._thread = ThreadPoolExecutor(1, "blocks")
        self._wanted: list[int] | None = None
        self._done: Future[None] | None = None

    def start(self, wanted: list[int]) -> None:
        """Begin to read; what was read before is lost."""
        self._wait()
        self._wanted = wanted
        self.part.truncate()
        self._done = self._thread.submit(self.blocks.read, wanted, self.part)

    def get(self, wanted: list[int]) -> Part:
        """The rows of these blocks."""
        if self._wanted != wanted:
            self.start(wanted)
        assert self._done is not None
        try:
            self._done.result()
        except (OSError, ValueError):
            self._wanted = None
            raise
        return self.part

    def _wait(self) -> None:
        if self._done is not None:
            with contextlib.suppress(OSError, ValueError):
                self._done.result()

    def close(self) -> None:
        self._thread.shutdown()


class BlockSchedule:
    """Problems over blocks on their way to a certified gap; as `Schedule` to estimators.

    Parameters
    ----------
    settings : pegasos.problems._settings.Settings
    blocks : pegasos.Blocks
    targets : callable
        See `Targets`.
    masses, n_inside : ndarray of shape (n_problems,)
        Of each problem, the sum of weights and the number of rows.
    seed : int

    Attributes
    ----------
    a : ndarray of shape (n_problems, n_rows)
        Dual variables, in memory or on disk.
    w : ndarray of shape (n_problems, n_features)
        w(a), with the weight of the constant feature in `dual`.
    n_passes, n_loads : int
        Passes that are over, and loads of the one under way.
    """

    #: It goes on with no session of Pegasos.
    pegasos = None

    def __init__(
        self,
        settings: Settings,
        blocks: Blocks,
        targets: Targets,
        masses: np.ndarray,
        n_inside: np.ndarray,
        seed: int,
    ) -> None:
        self.settings, self.blocks, self.targets, self.seed = settings, blocks, targets, seed
        self.solver = self
        self.masses, self.n_inside = np.where(masses > 0, masses, 1), n_inside
        (n, d), k = blocks.shape, len(masses)
        self.n_each, on_disk = _planned(blocks, k)
        try:
            self._map: mmap.mmap | None = None
            if on_disk:
                self.a, self._map = _on_disk(blocks.cache, (k, n))
            else:
                self.a = np.zeros((k, n))
            self.w, self.coef = np.zeros((k, d)), np.zeros((k, d))
            self.sums = np.zeros((k, d + 1))
        except MemoryError:
            raise MemoryError(
                f"{k} problems of {d} features are more than there is room for"
            ) from None
        self.dual = np.zeros(k, _DUAL)
        self.dual["scale"] = 1 / (settings.lams * self.masses)
        self.dual["intercept_scaling"] = settings.constant_feature
        self.dual["factor"] = 1
        self.dual["generator"] = np.arange(k).astype(np.uint64) * 0x9E3779B97F4A7C15 + seed % 2**64
        self.intercept = np.zeros(k)
        self.objective, self.bound = np.full(k, np.inf), np.full(k, -np.inf)
        self.n_passes = self.n_loads = self.base = self.checked_at = 0
        self.n_checks_on_time = 0
        # Of the pass under way and the last two: m (P - D) as rows were met.
        self.gaps = np.zeros((3, k))
        self.parts = np.zeros(k)  # the sum of z_i a_i - c_i l*(a_i/c_i), of D
        self.kept = np.zeros(0, np.int64)
        self._room: Part | None = None
        self._reader: _Reader | None = None

    # ---- Training --------------------------------------------------------------------------------

    @np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
    @_threads.handled
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
        """Make passes until every relative duality gap is at most `tol`, or `max_iter` of them.

        It can be stopped by an exception, and goes on with the load or the check under way.
        """
        tol = GAP if tol == "auto" else tol
        last = self.base + max_iter
        self._reader = _Reader(self.blocks, self._part())
        try:
            while True:
                if self.n_loads == 0 and self.n_passes > self.base:
                    is_last = self.n_passes >= last
                    if self.checked_at < self.n_passes and (is_last or self._is_due(tol)):
                        self._check(on_progress)
                    is_small = tol is not None and self.checked_at == self.n_passes
                    if is_last or (is_small and (self.relative_gap <= tol).all()):
                        return self.certify(rows)
                self._load(n_threads, on_progress)
                if self.n_loads == 0 and on_epoch is not None:
                    on_epoch()
        finally:
            self._reader.close()
            self._reader = None

    def _part(self, n_kept: int = 0) -> Part:
        """Memory for a load, and for as much beside it if `n_kept` is 1."""
        n_rows, n_stored = self.blocks.largest(self.n_each)
        return self.blocks.room([], n_rows * (1 + n_kept), n_stored * (1 + n_kept))

    @property
    def _working(self) -> Part:
        """The rows that were kept, with room for a load; filled again after a stop."""
        if self._room is None:
            room = self._part(1)
            if len(self.kept):
                assert self._reader is not None
                found, order = self._part(), np.argsort(self.kept)
                of_blocks = np.searchsorted(self.blocks.starts, self.kept[order], "right") - 1
                for block in np.unique(of_blocks):
                    part = self._reader.get([int(block)])
                    inside = self.kept[order][of_blocks == block] - self.blocks.starts[block]
                    found.take(part, inside)
                room.take(found, np.argsort(order))
            self._room = room
        return self._room

    def _loads(self, n_passes: int) -> list[list[int]]:
        """The blocks of each load of a pass."""
        n = self.blocks.n_blocks
        order, room = np.empty(n, np.int64), np.empty(n, np.int64)
        permutation = _core.SAMPLINGS["permutation"]
        _core.Order(self.seed % 2**64, room, permutation, n_passes * n).draw(order)
        return [order[k : k + self.n_each].tolist() for k in range(0, n, self.n_each)]

    def _load(self, n_threads: int, on_progress: Callable[[], None] | None) -> None:
        """Work on the next load; a transaction."""
        reader, room, loads = self._reader, self._working, self._loads(self.n_passes)
        assert reader is not None
        blocks, n_kept = loads[self.n_loads], len(self.kept)
        is_last = self.n_loads + 1 == len(loads)
        room.truncate(n_kept)
        room.extend(reader.get(blocks))
        reader.start(self._loads(self.n_passes + 1)[0] if is_last else loads[self.n_loads + 1])
        rows, numbers = room.rows(), room.numbers
        labels, weights, values = self.targets(room.y, room.weights)
        # A row that was kept may be loaded as well.
        is_twice = np.zeros(len(numbers), bool)
        of_blocks = np.searchsorted(self.blocks.starts, self.kept, "right") - 1
        is_twice[:n_kept] = np.isin(of_blocks, blocks)
        labels[:, is_twice] = 0
        targets = self._targets(labels, weights, values)
        a, w, dual = np.take(self.a, numbers, axis=1), self.w.copy(), self.dual.copy()
        before = self._parts_of(targets, a)
        norms = np.ascontiguousarray(room.norms)

        def ascend(k: int, tell: Callable[[], None]) -> None:
            _core.load_run(
                rows, targets, k, norms, np.empty(len(numbers), np.int64), a[k], w[k],
                dual[k : k + 1], _EPOCHS, _core.Watch(tell),
            )  # fmt: skip

        jobs = [functools.partial(ascend, k) for k in range(len(a))]
        _threads.in_threads(jobs, n_threads, on_progress)
        if not (np.isfinite(dual["squared_norm"]).all() and np.isfinite(w).all()):
            raise _validate.overflow(self.blocks.dtype, self.settings.lam)
        inside, parts = ~is_twice, self.parts + self._parts_of(targets, a) - before
        which = self._near(room, targets, a, w, dual)
        with _threads.uninterrupted():
            self.a[:, numbers[inside]] = a[:, inside]
            if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
                self._map.madvise(mmap.MADV_DONTNEED)  # the pages need not stay in memory
            self.w, self.dual, self.parts = w, dual, parts
            if self.n_loads == 0:
                self.sums[...] = 0
                self.gaps = np.concatenate([self.gaps[1:], np.zeros((1, len(a)))])
            share = 1 / len(loads)
            self.sums[:, :-1] += share * w
            self.sums[:, -1] += share * dual["constant_weight"]
            self.gaps[-1] += dual["gap"]
            room.keep(which)
            self.kept = room.numbers.copy()
            self.n_loads = 0 if is_last else self.n_loads + 1
            self.n_passes += is_last

    def _near(
        self, room: Part, targets: _core.Targets, a: np.ndarray, w: np.ndarray, dual: np.ndarray
    ) -> np.ndarray:
        """Positions of the rows to keep: those that are likely to change next.

        First those between their bounds, then those whose u is next to where that begins; as many
        as a load has.
        """
        labels, weights, values, _ = targets.arrays
        b = self.settings.constant_feature * dual["constant_weight"]
        scores = _rows.decision_function(room.rows(), w, b)
        distance = np.full(room.n_rows, np.inf)
        c = 1.0 if weights is None else np.asarray(weights)
        for k in range(len(a)):
            y, loss = np.asarray(labels[k]), self.settings.loss_of(k)
            u = (1.0 if values is None else np.asarray(values[k])) - y * scores[:, k]
            least = loss.least * c if np.isfinite(loss.least) else -np.inf
            most = loss.bound * c if np.isfinite(loss.bound) else np.inf
            is_free = (least < a[k]) & (a[k] < most) & (a[k] != 0)
            size = np.abs(u)
            corner = loss.epsilon if loss.name.endswith("epsilon_insensitive") else 0.0
            own = np.where(is_free, size / (1 + size) - 1, np.abs(size - corner))
            np.minimum(distance, own, out=distance, where=y != 0)
        order = np.argsort(distance, kind="stable")
        order = order[np.isfinite(distance[order])]
        n_rows, n_stored = self.blocks.largest(self.n_each)
        fits = np.cumsum(room.lengths()[order]) <= n_stored
        fits[n_rows:] = False
        return np.sort(order[fits])

    # ---- Certificates ----------------------------------------------------------------------------

    @property
    def relative_gap(self) -> np.ndarray:
        """As the last check found it."""
        return significant(Certificate(self.objective, self.bound).relative_gap, self.objective)

    def _is_due(self, tol: float | None) -> bool:
        """Whether a check is likely to find the gap small enough, or time for it."""
        if tol is None:
            return False
        if self.n_passes >= _PASSES_BEFORE_CHECK * 2**self.n_checks_on_time:
            return True
        if not self.gaps[1].any():
            return False  # the first pass
        # Rows were met half a pass before its end on average, and those that were kept count
        # twice: the end is further down.
        before, now = self.gaps[1:] / self.masses
        foretold = now * np.minimum(now / np.where(before > 0, before, 1), 1) ** 1.5
        norms = self.settings.lams / 2 * self.dual["squared_norm"]
        objective = np.fmax(self.parts / self.masses - norms, 0) + foretold
        return bool((foretold <= _HOPEFUL * tol * objective).all())

    def _targets(self, labels: np.ndarray, weights: Any, values: Any) -> _core.Targets:
        loss, epsilons = self.settings.loss_of(0).form, self.settings.epsilons_of(len(labels))
        return _core.Targets(labels, weights, loss, values, epsilons)

    def _parts_of(self, targets: _core.Targets, a: np.ndarray) -> np.ndarray:
        """What rows add to m D, beside their part of |w(a)|^2."""
        k = len(a)
        return targets.dual_values(a, np.zeros(k), np.ones(k), self.settings.lams_of(k), False)

    def _check(self, on_progress: Callable[[], None] | None) -> None:
        """Find the gap over all rows; a transaction. w is summed anew."""
        n_on_time = self.n_checks_on_time
        n_on_time += self.n_passes >= _PASSES_BEFORE_CHECK * 2**n_on_time
        models, objectives, bound, parts, w, constant = self._pass(on_progress)
        with _threads.uninterrupted():
            for coef, intercept, objective in zip(*models, objectives, strict=True):
                better = objective < self.objective
                self.coef[better] = coef[better]
                self.intercept[better] = intercept[better]
                self.objective[better] = objective[better]
            self.bound = np.fmax(self.bound, bound)
            self.w, self.dual["constant_weight"], self.parts = w, constant, parts
            self.dual["squared_norm"] = (w * w).sum(axis=1) + constant**2
            self.checked_at, self.n_checks_on_time = self.n_passes, n_on_time

    def _pass(self, on_progress: Callable[[], None] | None) -> tuple[Any, ...]:
        """One pass over all rows, in double: objectives of w and of its mean, and D(a)."""
        settings, feature = self.settings, self.settings.constant_feature
        lam, k = settings.lams_of(len(self.w)), len(self.w)
        coef = np.stack([self.w, self.sums[:, :-1]])
        constants = np.stack([self.dual["constant_weight"], self.sums[:, -1]])
        intercept = feature * constants
        losses, parts, constant = np.zeros((2, k)), np.zeros(k), np.zeros(k)
        w = np.zeros_like(self.w)
        for part, first in self._in_order():
            rows = part.rows(first)
            weights = None if part.weights is None else part.weights[first:]
            labels, weights, values = self.targets(part.y[first:], weights)
            targets = self._targets(labels, weights, values)
            numbers = part.numbers[first:]
            a = np.ascontiguousarray(self.a[:, numbers[0] : numbers[-1] + 1])
            a = targets.feasible(a, False)
            for j in range(2):
                laid, interleaved = _rows.laid_out(rows, coef[j])
                losses[j] += _core.objectives(rows, targets, laid, intercept[j], interleaved)[1]
            parts += self._parts_of(targets, a)
            factors = a * labels / (lam * self.masses)[:, None]
            constant += feature * factors.sum(axis=1)
            w += rows.combine(factors)
            if on_progress is not None:
                on_progress()
        squared = (coef * coef).sum(axis=2) + constants**2
        objectives = lam / 2 * squared + losses / self.masses
        objectives[:, self.n_inside == 0] = 0
        if not np.isfinite(objectives).all():
            raise _validate.overflow(self.blocks.dtype, settings.lam)
        bound = parts / self.masses - lam / 2 * ((w * w).sum(axis=1) + constant**2)
        return (coef, intercept), objectives, np.fmax(bound, 0), parts, w, constant

    def _in_order(self) -> Iterator[tuple[Part, int]]:
        """All rows in order: parts, and where in them the rows are."""
        reader, room = self._reader, self._working
        assert reader is not None
        n, n_kept = self.blocks.n_blocks, len(self.kept)
        loads = [list(range(k, min(k + self.n_each, n))) for k in range(0, n, self.n_each)]
        for j, load in enumerate(loads):
            room.truncate(n_kept)
            room.extend(reader.get(load))
            if j + 1 < len(loads):
                reader.start(loads[j + 1])
            yield room, n_kept
        room.truncate(n_kept)

    def sample(self) -> _core.Rows:
        """Rows of one block, for what is said of rows at large."""
        part = self.blocks.room([0])
        self.blocks.read([0], part)
        return part.rows()

    def certify(self, rows: Any = None) -> Certificate:
        """What the last check found."""
        known = np.isfinite(self.objective)
        objective, bound = (np.where(known, x, np.nan) for x in (self.objective, self.bound))
        return Certificate(objective, bound)

    def standing(self, rows: Any) -> Certificate:
        """The certificate after a pass, which takes a pass over the rows."""
        _, objectives, bound, *_ = self._pass(None)
        objective = np.fmin(self.objective, objectives.min(axis=0))
        return Certificate(objective, np.fmax(self.bound, bound))

    # ---- What there is so far --------------------------------------------------------------------

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """The best model that was checked; before a check, the last one."""
        if np.isfinite(self.objective).all():
            return self.coef, self.intercept
        return self.w.copy(), self.settings.constant_feature * self.dual["constant_weight"]

    @property
    def n_rows(self) -> int:
        return int(self.blocks.shape[0])

    @property
    def n_iter(self) -> int:
        return self.n_passes

    @property
    def n_steps(self) -> np.ndarray:
        return np.zeros(len(self.w), np.int64)

    @property
    def solver_epochs(self) -> dict[str, int]:
        return {"sdca": self.n_passes} if self.n_passes else {}

    def epochs_of_plan(self) -> np.ndarray:
        return np.full(len(self.w), self.n_passes - self.base)

    def end_plan(self) -> None:
        self.base = self.n_passes

    def progress(self) -> tuple[int, int, str]:
        """Rows visited, 0, and the pass, with the largest gap once it is known."""
        n = self.blocks.shape[0]
        n_loads = -(-self.blocks.n_blocks // self.n_each)
        gap = self.relative_gap.max() if np.isfinite(self.objective).all() else np.inf
        note = f"pass {self.n_passes + 1}" + (f", gap {gap:.2g}" if np.isfinite(gap) else "")
        return self.n_passes * n + self.n_loads * n // n_loads, 0, note

    # ---- Saving ----------------------------------------------------------------------------------

    _ARRAYS = (
        "a", "w", "coef", "sums", "dual", "intercept", "objective", "bound", "gaps", "parts",
        "kept",
    )  # fmt: skip
    _NUMBERS = ("n_passes", "n_loads", "base", "checked_at", "n_checks_on_time")

    def state(self) -> dict[str, np.ndarray]:
        """All that it takes to go on with the same bits."""
        numbers = [getattr(self, name) for name in self._NUMBERS]
        seed = [self.seed >> 32, self.seed & (2**32 - 1)]
        blocks = np.array([self.n_each, *self.blocks.fingerprint], np.int64)
        arrays = {name: getattr(self, name) for name in self._ARRAYS}
        arrays["dual"] = arrays["dual"].view(np.uint8)
        return {"blocks": blocks, "block_numbers": np.array(numbers + seed, np.int64), **arrays}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Stand where a `state` was saved, which others could have changed."""
        if state["blocks"].tolist() != [self.n_each, *self.blocks.fingerprint]:
            raise ValueError("the fit to go on with was of other blocks, or with other memory")
        own = self.state()
        for name, array in own.items():
            if name not in state:
                raise ValueError(f"state: {name} is missing")
            other = state[name]
            if name != "kept" and (other.dtype != array.dtype or other.shape != array.shape):
                raise ValueError(f"state: {name} has shape {other.shape}, not {array.shape}")
        *numbers, high, low = state["block_numbers"].tolist()
        n, n_loads = self.blocks.shape[0], -(-self.blocks.n_blocks // self.n_each)
        passes, loads, base, checked, on_time = numbers
        kept = np.asarray(state["kept"])
        n_rows, _ = self.blocks.largest(self.n_each)
        is_good = (
            0 <= base <= passes < 2**40 and 0 <= loads < n_loads and 0 <= checked <= passes
            and 0 <= on_time < 40 and 0 <= high < 2**32 and 0 <= low < 2**32
            and kept.dtype == np.int64 and kept.ndim == 1 and len(kept) <= n_rows
            and (len(kept) == 0 or (kept.min() >= 0 and kept.max() < n))
            and len(np.unique(kept)) == len(kept)
        )  # fmt: skip
        dual = np.array(state["dual"]).view(_DUAL)
        for name in ("scale", "intercept_scaling", "intercept", "factor"):
            is_good &= bool((dual[name] == self.dual[name]).all())
        if not is_good:
            raise ValueError("state: numbers or kept rows do not fit the rest")
        for name in self._ARRAYS:
            value = dual if name == "dual" else np.array(state[name])
            if name == "a":
                self.a[...] = value
            else:
                setattr(self, name, value)
        for name, value in zip(self._NUMBERS, numbers, strict=True):
            setattr(self, name, value)
        self.seed = high << 32 | low
        self._room = None

    def remains(self) -> dict[str, np.ndarray]:
        """What Pegasos needs beside the model to go on with other rows; see `Schedule`."""
        settings = self.settings
        growth = self.blocks.mean_squared_norm + settings.constant_feature**2
        least = np.clip(min(growth, 2**20) / settings.lams_of(len(self.w)), 1, 2**50)
        numbers = [self.seed, 0, 0, self.n_iter]
        return {
            "numbers": np.array(numbers, np.uint64),
            "weights": np.zeros((0, self.w.shape[1]), self.blocks.dtype),
            "solver_epochs": np.array([[0, self.n_iter, 0], [0, 1, 0]]),
            "n_inside": np.asarray(self.n_inside, np.int64),
            "least_steps": least.astype(np.int64),
        }


def fit_into_memory(blocks: Blocks) -> bool:
    """Whether a fit of all rows in memory stays within what the blocks may take."""
    return blocks.nbytes + _BYTES_IN_MEMORY * blocks.shape[0] <= blocks.memory


def _planned(blocks: Blocks, n_problems: int) -> tuple[int, bool]:
    """Blocks of a load, and whether dual variables are on disk."""
    n, d = blocks.shape
    of_dual = 8 * n * n_problems
    on_disk = of_dual > blocks.memory // _DUAL_SHARE
    fixed = 8 * _VECTORS * n_problems * d + of_dual * (not on_disk)
    rows, stored = blocks.largest(1)
    numbers = stored * (blocks.dtype.itemsize + blocks._index["index_bytes"] * blocks.is_sparse)
    numbers += rows * 8 * (4 + max(1, blocks.n_outputs))
    # A load that is read, one that is worked on, and as many rows that were kept.
    each = 3 * numbers + 2 * rows * (_BYTES_OF_PROBLEM * n_problems + _BYTES_OF_ROW)
    count = (blocks.memory - fixed) // each
    if count < 1:
        raise ValueError(
            f"memory={blocks.memory} bytes is too little for {n_problems} problem(s) over these "
            f"blocks of {rows} rows and {d} features: give {fixed + each} at least"
        )
    return int(min(count, blocks.n_blocks)), on_disk


def _on_disk(folder: str, shape: tuple[int, int]) -> tuple[np.ndarray, mmap.mmap]:
    """Zeros in a file without a name, which goes with the last that uses it."""
    size = 8 * shape[0] * shape[1]
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # Room is taken now: a disk that is full when a page is written would end the process.
            for first in range(0, size, _ZEROS):
                file.write(bytes(min(_ZEROS, size - first)))
            file.flush()
            memory = mmap.mmap(file.fileno(), size)
    except OSError as error:
        error.filename = folder
        raise
    return np.frombuffer(memory, np.float64).reshape(shape), memory
