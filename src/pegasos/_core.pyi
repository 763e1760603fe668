from collections.abc import Callable, Iterable
from typing import Any, Final, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_T = TypeVar("_T")
_Job = TypeVar("_Job", bound=Callable[[Callable[[], None]], object])
_Bytes: TypeAlias = NDArray[np.uint8]
_Doubles: TypeAlias = NDArray[np.float64]
_Floats: TypeAlias = NDArray[np.floating]
_Ints: TypeAlias = NDArray[np.int64]
_Table: TypeAlias = NDArray[np.void]
_Loss: TypeAlias = int | tuple[int, float] | tuple[int, float, float]
_OnPoll: TypeAlias = Callable[[], None] | None

BUNDLE_BYTES: Final[int]
LOSSES: Final[dict[str, int]]
TARGET_LOSSES: Final[tuple[str, ...]]
EPSILON_LOSSES: Final[tuple[str, ...]]
SAMPLINGS: Final[dict[str, int]]
PROBLEM: Final[np.dtype[np.void]]

def about_loss(name: str, epsilon: float = ...) -> dict[str, Any]: ...
def aligned_zeros(shape: tuple[int, ...], dtype: Any, what: str | None = ...) -> NDArray[Any]: ...

class TooLargeError(ArithmeticError): ...

@disjoint_base
class Watch:
    def __init__(
        self,
        on_poll: Callable[[], object] | None = None,
        *,
        every: float = ...,
        by_epochs: bool = ...,
    ) -> None: ...

@disjoint_base
class Rows:
    size: int
    arrays: tuple[memoryview, ...]
    def __new__(
        cls, values: _Floats, indices: NDArray[np.signedinteger] | None = ...,
        indptr: NDArray[np.signedinteger] | None = ..., n_features: int = ...,
    ) -> Self: ...  # fmt: skip
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def is_sparse(self) -> bool: ...
    def seconds(self, loss: _Loss, solver: int) -> float: ...
    def squared_norms(self, count: int | None = ...) -> _Doubles: ...
    def combine(self, factors: _Doubles, squared: bool = False) -> _Doubles: ...
    def add_products(self, factors: _Doubles, sums: _Doubles) -> bool: ...
    def take(self, which: _Ints, values: _Floats, indices: NDArray[np.signedinteger]) -> _Ints: ...
    def part(self, which: _Ints) -> tuple[Rows, _Ints | None]: ...
    def without_empty_columns(self, most: int) -> tuple[Rows, _Ints] | None: ...

@disjoint_base
class Order:
    def __init__(self, seed: int, permutation: _Ints, sampling: int, next: int) -> None: ...
    def draw(self, draws: _Ints) -> None: ...

@disjoint_base
class Targets:
    arrays: tuple[Any, ...]
    masses: _Doubles
    def __new__(
        cls, labels: NDArray[np.int8], row_weights: _Doubles | None = ..., loss: _Loss = ...,
        values: _Doubles | None = ..., epsilons: _Doubles | None = ..., *,
        lams: _Doubles | None = ..., intercept_scaling: float = ..., free_intercept: bool = ...,
    ) -> Self: ...  # fmt: skip
    def constants(self, penalties: _Doubles) -> tuple[_Doubles, _Doubles]: ...
    def intercepts(self, scores: _Doubles) -> _Doubles: ...
    def feasible(self, a: _Doubles, balance: bool) -> _Doubles: ...
    def parts(self, a: _Doubles) -> _Doubles: ...

@disjoint_base
class Pegasos:
    def __init__(
        self, problems: _Table, weights: _Floats, sums: _Floats | None, counts: _Doubles | None,
        pending: _Ints, slopes: _Doubles | None = ...,
    ) -> None: ...  # fmt: skip
    def run(
        self, rows: Rows, targets: Targets, first: int, draws: _Ints | Order, watch: Watch,
        bundled: bool = ...,
    ) -> None: ...  # fmt: skip
    def run_kernel(
        self, columns: Columns, targets: Targets, scores: _Doubles, unpushed: _Doubles, first: int,
        draws: _Ints | Order, watch: Watch,
    ) -> None: ...  # fmt: skip
    def model(self) -> tuple[_Doubles, _Doubles]: ...

def decision_function(
    rows: Rows, coef: _Floats, intercept: _Doubles, interleaved: bool = ...,
    which: _Ints | None = ..., ends: _Ints | None = ...,
) -> _Doubles: ...  # fmt: skip
def certify(
    rows: Rows, targets: Targets, coef: _Doubles | None, intercept: _Doubles | None,
    a: _Doubles | None = ..., *, interleaved: bool = ...,
) -> tuple[Any, Any, Any]: ...  # fmt: skip

DUAL_STATE: Final[np.dtype[np.void]]

def free_feature(mean_norm: float, nu: float = ...) -> float: ...
def run_dual_epochs(
    rows: Rows, targets: Targets, k: int, norms: _Doubles, active: _Ints, a: _Doubles, w: _Doubles,
    last_u: _Doubles, problem: _Table, n_epochs: int, watch: Watch,
) -> None: ...  # fmt: skip

@disjoint_base
class LamPath:
    problems: _Table
    a: _Doubles
    v: _Floats
    means: _Floats
    def __init__(self, rows: Rows, targets: Targets, *, seed: int) -> None: ...
    def run(self, lams: _Doubles, last_epoch: int, watch: Watch) -> None: ...
    def model(self) -> tuple[_Floats, _Doubles, _Doubles]: ...

KERNELS: Final[dict[str, int]]
OTHER: Final[int]

@disjoint_base
class Points:
    rows: Rows
    def __init__(
        self, rows: Rows, *, kind: int, gamma: float = ..., coef0: float = ..., degree: int = ...,
        norms: _Floats | None = ..., by_differences: bool = ..., by_panels: bool = ...,
        by_transpose: bool = ..., write: Callable[..., None] | None = ..., data: Any = ...,
        wide: Rows | None = ..., far_in_double: bool = ...,
    ) -> None: ...  # fmt: skip
    def transpose(self) -> None: ...

def kernel_values(
    x: Points, z: Points, out: _Floats, watch: Watch, n_threads: int = ...
) -> None: ...

@disjoint_base
class Columns:
    def __init__(
        self, points: Points | None, columns: _Floats, column_of: _Ints | None, *,
        is_all_at_once: bool = ..., is_cheap: bool = ...,
    ) -> None: ...  # fmt: skip
    def keep(self, rows: _Ints, watch: Watch, n_threads: int = ...) -> None: ...
    def among(
        self, rows: _Ints, which: _Ints, out: _Floats, watch: Watch, n_threads: int = ...
    ) -> None: ...
    def add(
        self, rows: _Ints, coef: _Doubles, scores: _Doubles, watch: Watch, n_threads: int = ...
    ) -> None: ...
    def certify(
        self, targets: Targets, coef: _Doubles, intercept: _Doubles, a: _Doubles, norms: _Doubles,
        sizes: _Doubles, errors: _Doubles, float_errors: _Doubles | None = ..., *, ridge: float,
        is_positive: bool, by_weights: bool = ..., exact: Points | None = ..., watch: Watch,
        n_threads: int = ...,
    ) -> _Table: ...  # fmt: skip

@disjoint_base
class Matrix:
    def __init__(
        self, columns: Columns, factor: Callable[[_OnPoll], _Doubles], *, is_positive: bool,
        is_narrow: bool = ..., rank: float = ...,
    ) -> None: ...  # fmt: skip

AUTO: Final[int]
ASCENT: Final[int]
NEWTON: Final[int]

def defer_interrupt(function: Callable[[], _T]) -> _T: ...
def update_atomically(
    attributes: Any, new: Any, optional: Iterable[str] = ..., *,
    written: tuple[tuple[Any, Any, Any], ...] = ...,
) -> None: ...  # fmt: skip

@disjoint_base
class KeepOnInterrupt:
    def __init__(
        self, attributes: Any, optional: Iterable[str], so_far: Callable[[], dict[str, Any]]
    ) -> None: ...
    def commit(self, new: dict[str, Any]) -> None: ...
    def __enter__(self) -> Callable[[dict[str, Any]], None]: ...
    def __exit__(self, kind: object, *_: object) -> None: ...

@disjoint_base
class Closing:
    def __init__(self, thing: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

@disjoint_base
class Background:
    def start(self, function: Callable[[], object]) -> None: ...
    def wait(self) -> BaseException | None: ...

@disjoint_base
class OneThread:
    def __init__(self, begin: Callable[[], object], end: Callable[[], object]) -> None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...

class JobCancelledError(Exception): ...

def run_jobs(jobs: list[_Job], n_threads: int, on_poll: _OnPoll = ...) -> None: ...

SOLUTION: Final[np.dtype[np.void]]

@disjoint_base
class Fits:
    memory: _Bytes
    n_rows: int
    n_features: int
    a: _Doubles
    coef: _Doubles
    scores: _Doubles
    def __new__(
        cls, n_problems: int, n_rows: int, n_features: int, memory: _Bytes | None = ...
    ) -> Self: ...
    @staticmethod
    def n_bytes(n_rows: int, n_features: int) -> int: ...
    def solutions(self) -> _Table: ...
    def begin_at(
        self, a: _Doubles, coef: _Doubles | None = ..., intercept: _Doubles | None = ...,
        before: Fits | None = ...,
    ) -> None: ...  # fmt: skip
    def recheck_data(self, are_other: bool) -> None: ...
    def are_valid(self, targets: Targets, value_bytes: int, with_numbers: bool = ...) -> bool: ...

def solve(
    over: Rows | Matrix, targets: Targets, norms: _Doubles, fits: Fits | list[Fits],
    max_epochs: _Ints, *, tol: float, seed: int, solver: int, begin_together: bool = ...,
    insides: list[_Ints] | None = ..., watch: Watch, n_threads: int = ..., n_jobs: int = ...,
) -> _Table: ...  # fmt: skip

NEWTON_MAX_UNKNOWNS: Final[int]
JOINT_STATE: Final[np.dtype[np.void]]

@disjoint_base
class Joint:
    def __init__(
        self, rows: Rows, codes: _Ints, weights: _Doubles | None, cost: _Doubles, norms: _Doubles,
        *, lam: float, feature: float, is_free: bool = ...,
    ) -> None: ...  # fmt: skip
    @staticmethod
    def n_bytes(n_rows: int, n_features: int, n_classes: int, averages: bool = ...) -> int: ...
    @property
    def newton_after(self) -> int: ...
    def run(
        self, memory: _Bytes, *, tol: float = ..., last_epoch: int = ..., last_step: int = ...,
        newton_after: int = ..., batch_size: int = ..., sampling: int = ..., project: bool = ...,
        averages: bool = ..., average_from: int = ..., seed: int, watch: Watch,
    ) -> None: ...  # fmt: skip
