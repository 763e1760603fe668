"""Check that a state is one that training can reach, before a checkpoint or estimator goes on.

A state is a dictionary of arrays (`Schedule.state`). Its numbers become sizes, indices, divisors
and numbers of steps. A wrong one could crash the process or make a fit that never ends.
"""

import functools
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.problems import _rows
from pegasos.problems._problem import Problem
from pegasos.solvers._joint import JointSchedule
from pegasos.solvers._linear import groups_of
from pegasos.solvers._pegasos import Pegasos
from pegasos.solvers._schedule import SOLVERS, Schedule

# Counters must be below _LARGEST, numbers of rows below _MOST_ROWS.
_LARGEST, _MOST_ROWS = 2**62, 2**40
# Settings of a problem that are also among the estimator's parameters.
_SETTINGS = ("lam", "intercept_scaling", "free_intercept")


@functools.cache
def layout() -> int:
    """A checksum of the layout of a fit's memory, which other versions may change.

    It covers names, types and places of fields for structs that NumPy knows, and sizes for others.
    """
    known = [dtype.descr for dtype in (_core.PROBLEM, _core.DUAL_STATE, _core.JOINT_STATE)]
    n_bytes = _core.Fits.n_bytes
    sizes = n_bytes(1, 1), n_bytes(1, 0), _core.Joint.n_bytes(1, 1, 2, True)
    return zlib.crc32(repr((known, sizes)).encode())


def rows_of(state: dict[str, np.ndarray]) -> tuple[int, np.dtype]:
    """The number of rows of a state, and the type of its weights, float32 or float64."""
    same_kind("numbers", state.get("numbers"), np.zeros(4, np.uint64))
    n_rows = int(state["numbers"][1])
    if n_rows >= _MOST_ROWS:
        raise ValueError(f"state.numbers must have fewer than {_MOST_ROWS} rows, got {n_rows}")
    dtype = getattr(state.get("weights"), "dtype", None)
    return n_rows, np.dtype(np.float32 if dtype == np.float32 else np.float64)


def columns_of(state: dict[str, np.ndarray], n_features: int) -> Any:
    """The numbers of the columns that a state has; None: all."""
    columns: Any = state.get("columns")
    if columns is not None:
        same_kind("columns", columns, np.broadcast_to(0, max(np.size(columns), 1)))
        if columns[0] < 0 or columns[-1] >= n_features or (np.diff(columns) <= 0).any():
            raise ValueError(f"state.columns must grow, in [0, {n_features})")
    return columns


def with_empty_columns(
    state: dict[str, np.ndarray], columns: Any, n_features: int
) -> dict[str, np.ndarray]:
    """A state of Pegasos for all columns, given a full or compact one for `columns` (or None)."""
    new = dict(state)
    for name in {"weights", "sums", "earlier"} & state.keys():
        if columns is not None and new[name].ndim == 2:  # those of joint problems are empty
            weights, others = np.split(new[name], [len(columns)], axis=1)
            weights = _rows.with_empty_columns(weights, columns, n_features)
            new[name] = np.concatenate([weights, others], axis=1)
    return new


def check(state: dict[str, np.ndarray], blank: Schedule | JointSchedule) -> None:
    """Raise a ValueError unless `state` is one that `blank`, a new schedule, could get into.

    `blank` must have the columns of `state`. The core checks the memory of joint problems itself.
    """
    n_rows = rows_of(state)[0]
    state = {name: array for name, array in state.items() if name != "columns"}
    if isinstance(blank, JointSchedule):
        expected = blank.compact_state()
        if "memory" in state:
            expected["memory"] = np.broadcast_to(np.uint8(0), (blank.n_bytes(n_rows),))
            expected["base"] = blank.base
        for name in set(expected) | set(state):
            if name not in expected:
                raise ValueError(f"state.{name} is of another fit")
            same_kind(name, state.get(name), expected[name])
        if "memory" not in state:
            return
        if blank.core_state(state["memory"].copy())["n_rows"] != n_rows:  # a copy is aligned
            raise ValueError(f"state.memory must be that of a fit to {n_rows} rows")
        if (state["base"] < 0).any() or (state["base"] >= _LARGEST).any():
            raise ValueError(f"state.base must be in [0, 2**62), got {state['base']}")
        return
    # Expect one number broadcast to all rows: a false n_rows must not allocate memory.
    expected, pegasos = blank.state(), blank.pegasos
    per_row = np.broadcast_to(0.0, (len(pegasos.problems), n_rows))
    n_problems, n_features = pegasos.weights.shape
    expected |= {
        "counts": per_row,
        "sums": pegasos.weights,
        "earlier": np.broadcast_to(0.0, (n_problems, n_features + 2)),
    }
    shape = n_rows, n_features
    if "solver.base" in state:
        if n_rows < 1:
            raise ValueError(f"state.numbers must have 1 row at least, got {n_rows}")
        new = blank.solver_class(blank.settings, n_problems, n_rows, n_features, blank.seed)
        shape = new.shape
        expected |= _memory_of(state, (n_problems, *shape))
        expected |= {f"solver.{name}": array for name, array in new.state().items()}
        if "solver.is_proved" in state:
            expected["solver.is_proved"] = np.ones(1, np.int64)
    for name in set(expected) - {"counts", "sums", "earlier"} | set(state):
        if name not in expected:
            raise ValueError(f"state.{name} is not known")
        same_kind(name, state.get(name), expected[name])
        array = state[name]
        for field in array.dtype.names or [None]:
            _in_range(name, array if field is None else array[field], field)
    if state["numbers"][3] >= _LARGEST:
        raise ValueError(f"state.numbers must have fewer than {_LARGEST} epochs")
    for name, holds in _relations(state, pegasos, n_rows, shape):
        if not np.all(holds):
            raise ValueError(f"state: {name} does not fit the rest")


def check_compact_state(
    state: dict[str, np.ndarray], coef: Any, intercept: Any, shape: tuple[int, int]
) -> None:
    """Raise a ValueError unless `state` is a `Schedule.compact_state` of a model of `shape`."""
    n_problems = shape[0]
    same_kind("coef_", coef, np.broadcast_to(0.0, shape))
    same_kind("intercept_", intercept, np.zeros(n_problems))
    expected = {
        "numbers": np.zeros(4, np.uint64),
        "weights": np.zeros((0, shape[1]), rows_of(state)[1]),
        "solver_epochs": np.zeros((2, len(SOLVERS)), np.int64),
        "n_inside": np.zeros(n_problems, np.int64),
        "squared_norm": np.zeros(1),
    }
    for name in expected | state:
        if name not in expected:
            raise ValueError(f"state.{name} is not known")
        same_kind(name, state.get(name), expected[name])
    for name, array in (state | {"coef_": coef, "intercept_": intercept}).items():
        _in_range(name, array, None)
    if not (state["n_inside"] < _MOST_ROWS).all() or not state["squared_norm"][0] >= 0:
        raise ValueError("state: n_inside or squared_norm does not fit the rest")
    if state["numbers"][3] >= _LARGEST // _MOST_ROWS:
        raise ValueError(f"state.numbers must have fewer than {_LARGEST // _MOST_ROWS} epochs")


def _relations(
    state: dict[str, np.ndarray], pegasos: Pegasos, n_rows: int, shape: tuple[int, int]
) -> Iterator[tuple[str, Any]]:
    """Conditions between numbers: pairs of a name and a bool or an array of bools."""
    p, has_sums = state["problems"], "sums" in state
    for name in _SETTINGS:
        yield name, p[name] == pegasos.problems[name]
    loss, is_projected = pegasos.settings.loss, pegasos.settings.project
    if loss.has_targets:  # the ball depends on the targets
        yield "ball", (p["ball"] >= 0) & (is_projected | (p["ball"] == 0))
    else:
        yield "ball", p["ball"] == pegasos.problems["ball"]
        if "counts" in state:
            yield "counts", state["counts"] >= 0
    batch_size = pegasos.settings.batch_size
    yield "n_drawn", p["n_drawn"] < batch_size
    yield "n_pending", p["n_pending"] <= p["n_drawn"]
    # Entries that are not in use may belong to other rows.
    waiting = np.arange(batch_size) < p["n_pending"][:, None]
    yield "pending", state["pending"][waiting] < n_rows
    yield "q", (p["q"] > 0) & (p["q"] <= 1)
    yield "weight_factor", p["weight_factor"] > 0
    # Numbers that the settings do not use are 0.
    has_constant, is_free = pegasos.settings.constant_feature != 0, p["free_intercept"] != 0
    yield "constant_weight", has_constant | (p["constant_weight"] == 0)
    yield "intercept", is_free | (p["intercept"] == 0)
    if "earlier" in state:
        n_earlier = state["earlier"][:, -1]
        yield "earlier", (n_earlier >= 0) & (has_sums | (n_earlier == 0))
        yield "n_averaged", p["n_averaged"] <= p["n_steps"] - n_earlier
    yield "n_averaged", p["n_averaged"] <= p["n_steps"]
    for name in ("average_from", "n_averaged", "rate_sum"):
        yield name, has_sums | (p[name] == 0)
    yield "rate_sum", p["rate_sum"] >= 0
    yield "delay", (p["delay"] == 0) | (pegasos.settings.loss.curvature > 0)
    # Plans begin at `base`.
    yield "finished", (state["base"] <= state["finished"]) & (state["finished"] <= p["n_steps"])
    if "solver.memory" in state:
        yield from _relations_of_memory(state, pegasos, shape)


def _relations_of_memory(
    state: dict[str, np.ndarray], pegasos: Pegasos, of_all: tuple[int, int]
) -> Iterator[tuple[str, Any]]:
    """Conditions on fits over `of_all` = (n_rows, n_features)."""
    settings, (n_rows, n_features) = pegasos.settings, of_all
    yield "solver.shape", np.array_equal(state["solver.shape"], np.array(of_all))
    yield "solver.n_inside", state["solver.n_inside"] <= n_rows
    for name in ("solver.span", "solver.is_wide"):
        yield name, name not in state or _rows.span_few(n_rows, n_features)
    yield "solver.is_wide", state.get("solver.is_wide", 0) <= 1
    if "solver.sizes" in state:
        for name, size in (("inside", n_rows), ("columns", n_features)):
            yield f"solver.{name}", state[f"solver.{name}"] < size
    own = {k.removeprefix("solver."): v for k, v in state.items() if k.startswith("solver.")}
    y = np.zeros((len(pegasos.problems), 1))  # a row that is in no problem
    problem = Problem(y.astype(np.int8), None, settings, y if settings.loss.has_targets else None)
    most = 0
    for group in groups_of(own):
        if group.inside is not None:
            yield "solver.inside", np.diff(group.inside) > 0
        if group.columns is not None:
            yield "solver.columns", len(np.unique(group.columns)) == len(group.columns)
        if group.fits is None:
            continue
        targets = problem.subset(group.problems).targets
        value_bytes = 8 if group.restored else pegasos.weights.itemsize
        yield "solver.memory", group.fits.are_valid(targets, value_bytes)
        most = max(most, group.fits.solutions()["n_epochs"].max())
    yield "solver.base", state["solver.base"] <= most


def _memory_of(state: dict[str, np.ndarray], shape: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """The kinds of arrays in a fit's memory, for a shape of problems, rows and features."""
    n_problems, n_rows, n_features = shape
    if "solver.sizes" not in state:
        of_span, n_known = {}, n_features
        if "solver.span" in state:
            coef = np.broadcast_to(0.0, (n_problems, n_features))
            of_span, n_known = {"solver.span": np.zeros(1, np.int64), "solver.coef": coef}, n_rows
        if "solver.is_wide" in state:
            of_span["solver.is_wide"] = np.zeros(1, np.int64)
        size = n_problems, _core.Fits.n_bytes(n_rows, n_known)
        return of_span | {"solver.memory": np.broadcast_to(np.uint8(0), size)}
    sizes = state["solver.sizes"]
    same_kind("solver.sizes", sizes, np.zeros((n_problems, 2), np.int64))
    if not ((sizes >= [1, 0]) & (sizes <= [n_rows, n_features])).all():
        raise ValueError("state: solver.sizes does not fit the rest")
    n_bytes = sum(_core.Fits.n_bytes(n, d) for n, d in sizes.tolist() if d or not n_features)
    n_columns = int(sizes[:, 1].sum())
    is_dense = len(state.get("solver.columns", ())) == 0
    is_dense &= n_features == 0 or bool((sizes[:, 1] % n_features == 0).all())
    return {
        "solver.sizes": sizes,
        "solver.inside": np.broadcast_to(0, int(sizes[:, 0].sum())),
        "solver.columns": np.broadcast_to(0, 0 if is_dense else n_columns),
        "solver.memory": np.broadcast_to(np.uint8(0), n_bytes),
    }


def same_kind(name: str, found: Any, expected: np.ndarray) -> None:
    """Raise a ValueError unless an array of a state has the type and shape of `expected`."""
    if found is None:
        raise ValueError(f"state.{name} is missing")
    if not isinstance(found, np.ndarray):
        raise ValueError(f"state.{name} must be an array, got {found!r}")  # noqa: TRY004 damaged
    if found.dtype != expected.dtype or found.shape != expected.shape:
        raise ValueError(
            f"state.{name} must have dtype {expected.dtype}, shape {expected.shape}, "
            f"got {found.dtype}, {found.shape}"
        )


def _in_range(name: str, array: np.ndarray, field: str | None) -> None:
    """Check that counts are in [0, `_LARGEST`) and numbers finite."""
    what = name if field is None else f"{name}[{field!r}]"
    if array.dtype.kind == "i" and array.size and not 0 <= array.min() <= array.max() < _LARGEST:
        raise ValueError(f"state.{what} must be in [0, {_LARGEST})")
    if name == "counts" and not (np.abs(array) < _LARGEST).all():
        raise ValueError(f"state.{what} must be in (-{_LARGEST}, {_LARGEST})")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"state.{what} must be finite numbers")
