from collections.abc import Callable, Iterable
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_T = TypeVar("_T")

BUNDLE_BYTES: Final[int]
LOSSES: Final[dict[str, int]]
SAMPLINGS: Final[dict[str, int]]
PROBLEM: Final[np.dtype[np.void]]

def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]: ...

@disjoint_base
class Watch:
    def __init__(
        self,
        tell: Callable[[], object] | None = None,
        *,
        every: float = ...,
        by_epochs: bool = ...,
    ) -> None: ...

@disjoint_base
class Rows:
    size: int
    arrays: tuple[memoryview, ...]
    def __new__(
        cls,
        values: NDArray[np.floating],
        indices: NDArray[np.signedinteger] | None = ...,
        indptr: NDArray[np.signedinteger] | None = ...,
        n_features: int = ...,
    ) -> Self: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def is_sparse(self) -> bool: ...
    def seconds(self, solver: int) -> float: ...
    def squared_norms(self, count: int | None = ...) -> NDArray[np.float64]: ...
    def combine(self, factors: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def part(
        self, which: NDArray[np.int64], places: NDArray[np.int64]
    ) -> tuple[Rows, NDArray[np.int64] | None]: ...

@disjoint_base
class Room:
    def __new__(cls, n_bytes: int) -> Self: ...

@disjoint_base
class Order:
    def __init__(
        self, seed: int, permutation: NDArray[np.int64], sampling: int, next: int
    ) -> None: ...
    def draw(self, draws: NDArray[np.int64]) -> None: ...

@disjoint_base
class Targets:
    arrays: tuple[Any, ...]
    def __init__(
        self,
        labels: NDArray[np.int8],
        row_weights: NDArray[np.float64] | None = ...,
        loss: int | tuple[int, float] | tuple[int, float, float] = ...,
        values: NDArray[np.float64] | None = ...,
        epsilons: NDArray[np.float64] | None = ...,
    ) -> None: ...
    def constants(
        self, masses: NDArray[np.float64], penalties: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def intercepts(self, scores: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def feasible(self, a: NDArray[np.float64], balance: bool) -> NDArray[np.float64]: ...
    def dual_values(
        self,
        a: NDArray[np.float64],
        squared_norms: NDArray[np.float64],
        masses: NDArray[np.float64],
        lams: NDArray[np.float64],
        scaled: bool = ...,
    ) -> NDArray[np.float64]: ...

@disjoint_base
class Pegasos:
    def __init__(
        self,
        problems: NDArray[np.void],
        weights: NDArray[np.floating],
        sums: NDArray[np.floating] | None,
        counts: NDArray[np.float64] | None,
        pending: NDArray[np.int64],
        slopes: NDArray[np.float64] | None = ...,
    ) -> None: ...
    def run(
        self,
        rows: Rows,
        targets: Targets,
        first: int,
        draws: NDArray[np.int64] | Order,
        watch: Watch,
        bundled: bool = ...,
    ) -> None: ...
    def run_kernel(
        self,
        columns: Columns,
        targets: Targets,
        scores: NDArray[np.float64],
        unpushed: NDArray[np.float64],
        first: int,
        draws: NDArray[np.int64] | Order,
        watch: Watch,
    ) -> None: ...
    def model(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

def decision_function(
    rows: Rows,
    coef: NDArray[np.floating],
    intercept: NDArray[np.float64],
    interleaved: bool = ...,
    which: NDArray[np.int64] | None = ...,
    ends: NDArray[np.int64] | None = ...,
) -> NDArray[np.float64]: ...

@disjoint_base
class Losses:
    def __init__(
        self,
        targets: Targets,
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        interleaved: bool,
    ) -> None: ...

def certify(
    rows: Rows,
    targets: Targets,
    coef: NDArray[np.float64] | None,
    intercept: NDArray[np.float64] | None,
    a: NDArray[np.float64] | None = ...,
    masses: NDArray[np.float64] | None = ...,
    *,
    lams: NDArray[np.float64] | None = ...,
    intercept_scaling: float = ...,
    free_intercept: bool = ...,
    interleaved: bool = ...,
) -> tuple[Any, Any, Any]: ...

DUAL_STATE: Final[np.dtype[np.void]]
DONE: Final[int]
OVERFLOW: Final[int]

def free_feature(mean_norm: float, nu: float = ...) -> float: ...
def load_run(
    rows: Rows,
    targets: Targets,
    k: int,
    norms: NDArray[np.float64],
    active: NDArray[np.int64],
    a: NDArray[np.float64],
    w: NDArray[np.float64],
    problem: NDArray[np.void],
    n_epochs: int,
    watch: Watch,
) -> int: ...

@disjoint_base
class LamPath:
    problems: NDArray[np.void]
    a: NDArray[np.float64]
    v: NDArray[np.floating]
    means: NDArray[np.floating]
    def __init__(
        self,
        rows: Rows,
        targets: Targets,
        masses: NDArray[np.float64],
        *,
        diagonal: float,
        intercept_scaling: float,
        free_intercept: bool,
        seed: int,
    ) -> None: ...
    def run(self, lam: float, last_epoch: int, watch: Watch) -> None: ...
    def model(
        self,
    ) -> tuple[NDArray[np.floating], NDArray[np.float64], NDArray[np.float64]]: ...

LINEAR: Final[int]
POLYNOMIAL: Final[int]
SIGMOID: Final[int]
GAUSSIAN: Final[int]
LAPLACIAN: Final[int]
OTHER: Final[int]

@disjoint_base
class Points:
    rows: Rows
    def __init__(
        self,
        rows: Rows,
        *,
        kind: int,
        gamma: float = ...,
        coef0: float = ...,
        degree: int = ...,
        norms: NDArray[np.floating] | None = ...,
        by_differences: bool = ...,
        is_thick: bool = ...,
        is_thin: bool = ...,
        write: Callable[..., None] | None = ...,
        data: Any = ...,
        wide: Rows | None = ...,
        which: NDArray[np.int64] | None = ...,
        far_in_double: bool = ...,
    ) -> None: ...
    def transpose(self) -> None: ...

def kernel_values(
    x: Points,
    z: Points,
    out: NDArray[np.floating],
    watch: Watch,
    n_threads: int = ...,
) -> None: ...

@disjoint_base
class Columns:
    def __init__(
        self,
        points: Points | None,
        columns: NDArray[np.floating],
        place: NDArray[np.int64] | None,
        *,
        is_all_at_once: bool = ...,
        is_cheap: bool = ...,
    ) -> None: ...
    def keep(self, rows: NDArray[np.int64], watch: Watch, n_threads: int = ...) -> None: ...
    def among(
        self,
        rows: NDArray[np.int64],
        which: NDArray[np.int64],
        out: NDArray[np.floating],
        watch: Watch,
        n_threads: int = ...,
    ) -> None: ...
    def add(
        self,
        rows: NDArray[np.int64],
        coef: NDArray[np.float64],
        scores: NDArray[np.float64],
        watch: Watch,
        n_threads: int = ...,
    ) -> None: ...
    def certify(
        self,
        targets: Targets,
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        a: NDArray[np.float64],
        masses: NDArray[np.float64],
        norms: NDArray[np.float64],
        sizes: NDArray[np.float64],
        errors: NDArray[np.float64],
        float_errors: NDArray[np.float64] | None = ...,
        numbers: NDArray[np.int64] | None = ...,
        *,
        lams: NDArray[np.float64],
        intercept_scaling: float,
        free_intercept: bool,
        ridge: float,
        is_positive: bool,
        by_weights: bool = ...,
        exact: Points | None = ...,
        watch: Watch,
        n_threads: int = ...,
    ) -> NDArray[np.void]: ...

AUTO: Final[int]
ASCENT: Final[int]
NEWTON: Final[int]

def finish(function: Callable[[], _T]) -> _T: ...
def change(
    attributes: Any,
    new: Any,
    optional: Iterable[str] = ...,
    *,
    written: tuple[tuple[Any, Any, Any], ...] = ...,
) -> None: ...

@disjoint_base
class Keeping:
    def __init__(
        self, attributes: Any, optional: Iterable[str], so_far: Callable[[], dict[str, Any]]
    ) -> None: ...
    def take(self, new: dict[str, Any]) -> None: ...
    def __enter__(self) -> Callable[[dict[str, Any]], None]: ...
    def __exit__(self, kind: object, *_: object) -> None: ...

@disjoint_base
class Closing:
    def __init__(self, thing: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

@disjoint_base
class OneThread:
    def __init__(self, begin: Callable[[], object], end: Callable[[], object]) -> None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...

@disjoint_base
class Alive: ...

@disjoint_base
class Pool: ...

class OverError(Exception): ...

@disjoint_base
class Sharing(Pool): ...

def share(
    jobs: Iterable[Callable[[Callable[[], None]], object]],
    n_threads: int,
    tell: Callable[[], None] | None = ...,
) -> None: ...

STANDING: Final[np.dtype[np.void]]

@disjoint_base
class Fits:
    memory: NDArray[np.uint8]
    n_rows: int
    n_features: int
    a: NDArray[np.float64]
    coef: NDArray[np.float64]
    scores: NDArray[np.float64]
    def __new__(
        cls,
        n_problems: int,
        n_rows: int,
        n_features: int,
        memory: NDArray[np.uint8] | None = ...,
    ) -> Self: ...
    @staticmethod
    def n_bytes(n_rows: int, n_features: int) -> int: ...
    def __getitem__(self, some: slice, /) -> Fits: ...
    def standings(self) -> NDArray[np.void]: ...
    def begin_at(
        self,
        a: NDArray[np.float64],
        coef: NDArray[np.float64] | None = ...,
        intercept: NDArray[np.float64] | None = ...,
    ) -> None: ...
    def expect_data(self, are_other: bool) -> None: ...
    def are_valid(
        self,
        value_bytes: int,
        *,
        loss: int | tuple[int, float] | tuple[int, float, float],
        epsilons: NDArray[np.float64] | None = ...,
        intercept_scaling: float,
        free_intercept: bool,
    ) -> bool: ...

def solve(
    rows: Rows,
    targets: Targets,
    first: int,
    norms: NDArray[np.float64],
    fits: Fits,
    max_epochs: NDArray[np.int64],
    *,
    lams: NDArray[np.float64],
    intercept_scaling: float,
    free_intercept: bool,
    tol: float,
    seed: int,
    solver: int,
    together: bool = ...,
    to_the_end: bool = ...,
    watch: Watch,
    n_threads: int = ...,
) -> NDArray[np.void] | None: ...

NEWTON_MOST: Final[int]
ROUNDING: Final[float]

@disjoint_base
class Factor: ...

@disjoint_base
class Work: ...

def kernel_solve(
    columns: Columns,
    factor: Callable[[Callable[[], None] | None], NDArray[np.float64]],
    targets: Targets,
    norms: NDArray[np.float64],
    fits: Fits,
    max_epochs: NDArray[np.int64],
    *,
    lams: NDArray[np.float64],
    intercept_scaling: float,
    free_intercept: bool,
    tol: float,
    seed: int,
    solver: int,
    is_positive: bool,
    is_narrow: bool,
    rank: float,
    watch: Watch,
    n_threads: int,
    n_jobs: int = ...,
) -> NDArray[np.void] | None: ...

JOINT_STATE: Final[np.dtype[np.void]]

@disjoint_base
class Joint:
    def __init__(
        self,
        rows: Rows,
        codes: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        cost: NDArray[np.float64],
        norms: NDArray[np.float64],
        *,
        lam: float,
        feature: float,
        is_free: bool = ...,
    ) -> None: ...
    @staticmethod
    def n_bytes(n_rows: int, n_features: int, n_classes: int, averages: bool = ...) -> int: ...
    @property
    def newton_after(self) -> int: ...
    def run(
        self,
        memory: NDArray[np.uint8],
        *,
        tol: float = ...,
        last_epoch: int = ...,
        last_step: int = ...,
        newton_after: int = ...,
        batch_size: int = ...,
        sampling: int = ...,
        project: bool = ...,
        averages: bool = ...,
        average_from: int = ...,
        seed: int,
        watch: Watch,
    ) -> int: ...
