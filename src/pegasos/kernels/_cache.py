"""A cache of columns of a kernel matrix."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._cached import cached_property
from pegasos.kernels._factor import factor
from pegasos.kernels._positive import asymmetry, ridge
from pegasos.problems import _validate
from pegasos.problems._certificate import Certificate

# A problem with at most this part of all rows gets a kernel matrix of its own.
_MOST = 1 / 2
# All columns of at most this many points are computed at once, if they fit. One problem of 600 to
# 1000 rows takes 0.7 to 1.0 of the time, and up to 1.4 if hardly a row is within its margin. Three
# problems or more need most columns, and can then go side by side. Pairs of classes need few values
# of each: with 3000 to 7500 rows, they take 0.6 to 0.9 of the time by matrices of their own.
_SMALL, _SMALL_IF_SHARED, _SHARED, _SMALL_OF_PAIRS = 1024, 8192, 3, 2048
# The least bytes for columns. glibc's malloc returns free memory to the system if it is twice the
# largest piece so far: fits of 300 to 650 rows would have their pages cleared again.
_LEAST = 4_000_000
# The most problems with matrices of their own that are trained at a time.
_SIDE_BY_SIDE = 8
# Matrices of at most this many rows are factorised to see whether they are positive semi-definite.
# That takes about as long as a product of two such matrices, some hundredths of a second.
_MOST_FACTORED = 1000


class ColumnCache:
    """Columns of the kernel matrix of `points`, each computed once as long as there is room.

    A column that found room stays. Rows are visited in random order, so room for half of the
    columns serves half of the requests; no replacement could do much better. Columns that are
    faster to compute than to fetch are kept only on demand. A precomputed matrix is not copied.

    At most `n_threads` work at a time, and BLAS has one thread; results do not depend on it.
    `divides`: problems with few of the points get caches of their own. That does not pay if several
    solvers or folds use the columns. `n_problems` problems use the columns; `are_pairs`: each is of
    two classes. `assume_psd`: the user promises that the matrix is positive semi-definite.

    `column_of` has the number of each point's column among `columns`, of shape (room, n), or -1 for
    none. `core` has these columns, and fills them.
    """

    def __init__(
        self,
        points: Any,
        megabytes: float,
        n_threads: int = 1,
        divides: bool = False,
        n_problems: int = 1,
        are_pairs: bool = False,
        assume_psd: bool = False,
    ) -> None:
        small = _SMALL_OF_PAIRS if are_pairs else _SMALL_IF_SHARED
        self._small = small if n_problems >= _SHARED else _SMALL
        self._megabytes, self._n_threads, self._divides = megabytes, n_threads, divides
        self._lock = threading.Lock()
        if assume_psd and not points.kernel.is_positive:
            self.ridge = 0.0
        self._hold(points)

    def _hold(self, points: Any) -> None:
        """Allocate room for columns of these points."""
        n, is_precomputed = len(points), points.kernel.is_precomputed
        if is_precomputed:
            columns, column_of = points.X, np.arange(n)
        else:
            n_bytes = max(n, 1) * points.dtype.itemsize
            capacity = int(min(n, self.room / n_bytes))
            try:  # pages are allocated when written
                columns = np.empty((max(capacity, _LEAST // n_bytes), n), points.dtype)[:capacity]
            except MemoryError:
                raise MemoryError(
                    f"{_validate.parameter('cache_size', self._megabytes)} MB is more than memory "
                    f"has room for, with {capacity} columns of {n} numbers"
                ) from None
            column_of = np.full(n, -1, dtype=np.int64)
        self.points, self.columns, self.column_of = points, columns, column_of
        self._factor: np.ndarray | None = None
        self.core = _core.Columns(
            None if is_precomputed else points.core, columns, column_of,
            is_cheap=points.is_cheap, is_all_at_once=self.is_small,
        )  # fmt: skip

    def widen(self) -> None:
        """Return from `narrowed` points to the original ones, without columns."""
        vars(self).pop("diagonal", None)
        self._hold(self.points.wide)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.points), len(self.points)

    @property
    def size(self) -> int:
        return len(self.points) ** 2

    @property
    def room(self) -> float:
        """Bytes that columns may take."""
        return self._megabytes * 2**20

    @property
    def is_positive(self) -> bool:
        """Whether the kernel matrix is known to be positive semi-definite, so that there is a dual.

        That follows from the kernel's form, the user's promise, or a factorisation.
        """
        return bool(self.ridge >= 0)

    @cached_property
    def ridge(self) -> float:
        """The number that makes the matrix certainly positive semi-definite, added to its diagonal.

        0 if it is so by the kernel's form or the user's promise; NaN if nothing is known.
        """
        if self.points.kernel.is_positive:
            return 0.0
        return np.nan if len(self.points) > _MOST_FACTORED else ridge(self._whole())

    @cached_property
    def skew(self) -> float:
        """The largest asymmetry of a matrix that was given or factorised; else 0."""
        if not (self.points.kernel.is_precomputed or self.ridge > 0):
            return 0.0
        return asymmetry(self._whole())[1]

    @cached_property
    def diagonal(self) -> np.ndarray:
        """K(x, x) of every point, in float64."""
        return self.points.diagonal()

    def _whole(self) -> np.ndarray:
        rows = np.arange(len(self.points))
        if self.points.kernel.is_precomputed:
            return self.columns
        if self.holds_all:
            self.keep(rows)
            return self.columns[self.column_of]
        return self.points.against(self.points)

    @property
    def holds_all(self) -> bool:
        return len(self.columns) == len(self.points)

    @property
    def is_small(self) -> bool:
        """Whether `keep` computes all columns at once, column i as number i."""
        return self.holds_all and len(self.points) <= self._small

    def inside(self, rows: np.ndarray, n_threads: int) -> tuple[Any, Any]:
        """Columns for the rows of one of several problems, and a function that factorises these.

        `rows` ascend. At most `n_threads` work at a time.
        """
        own = ColumnCache(self.points[rows], self._megabytes / _SIDE_BY_SIDE, n_threads)
        return own.core, own.factor

    def factor(self, on_poll: Callable[[], None] | None = None) -> np.ndarray:
        """L of shape (n, rank), K = L L^T up to rounding; see `pegasos.kernels._factor`."""
        # If several threads need it, one computes it.
        with self._lock:
            if self._factor is None:
                self._factor = factor(self, on_poll)
        return self._factor

    def is_divided_by(self, n_inside: np.ndarray) -> bool:
        """Whether problems with `n_inside` rows each have caches of their own."""
        return self._divides and bool(n_inside.max() <= _MOST * len(self.points))

    def side_by_side(self, n_problems: int) -> tuple[int, int]:
        """How many problems with their own caches go side by side, and the threads of each."""
        n = min(self._n_threads, n_problems, _SIDE_BY_SIDE)
        return n, self._n_threads // n

    def rounding(self, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """The sizes of each point's kernel values, and their errors in `dtype`.

        If nothing is known about the kernel's form, the errors are what asymmetry can change.
        """
        if not self.points.kernel.is_positive:
            lengths = np.sqrt(np.abs(self.diagonal))
            return lengths * lengths.max(initial=0), np.full(len(lengths), self.skew / 2)
        errors, sizes = self.points.kernel.rounding(self.points, dtype)
        return sizes, errors

    def certify(
        self,
        problem: Any,
        coef: np.ndarray,
        intercept: np.ndarray,
        a: np.ndarray,
        gap: np.ndarray | None = None,
    ) -> Certificate:
        """The certificate of w_k = sum_j coef_kj phi(x_j) over these rows, and of dual variables.

        The dual objective leaves room for the effect of the kernel values' rounding on both
        objectives. `gap` is the gap by which a fit stopped; None: compute it from these objectives,
        without rounding. Scores from running sums are not exact enough for the objective.
        """
        points, kernel, settings = self.points, self.points.kernel, problem.settings
        if points.is_part_of_narrow:
            raise ValueError("a part of rows in single precision has no certificate")
        is_narrow = points.dtype == np.float32 and kernel.is_positive and not kernel.is_linear
        proof = self.core.certify(
            problem.targets, coef, intercept, np.ascontiguousarray(a, np.float64), self.diagonal,
            *self.rounding(np.float64), self.rounding(np.float32)[1] if is_narrow else None,
            ridge=self.ridge, is_positive=self.is_positive, by_weights=kernel.is_linear,
            exact=points.core if is_narrow else None, **points.work(len(points), self._n_threads),
        )  # fmt: skip
        objective = proof["objective"]
        if not np.isfinite(objective).all():
            raise _validate.overflow(points.dtype, settings.lam)
        # A negative |w|^2 or K(x, x), or a dual value above a primal one, refutes only the user's
        # promise. For other matrices rounding is the cause, and certificates leave room for it.
        may_be_refuted = self.ridge == 0 and not kernel.is_positive
        if may_be_refuted and (proof["is_refuted"].any() or self.diagonal.min(initial=0) < 0):
            self.ridge = np.nan
        bound = proof["dual_objective"] if self.is_positive else np.full_like(objective, np.nan)
        if gap is None:
            gap = np.abs(objective - proof["dual_value"]) / np.where(objective > 0, objective, 1)
        return Certificate(objective, bound, gap, settings)

    def scores_of(self, coef: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Scores of some rows, or of all (None), given coefficients of shape (n_problems, n)."""
        support = np.flatnonzero(coef.any(axis=0))
        if rows is None:
            return self.push(coef[:, support], support)
        values = np.empty((len(support), len(rows)), self.points.dtype)
        self.among(support, rows, values)
        return coef[:, support] @ values

    def push(self, coef: np.ndarray, rows: np.ndarray) -> Any:
        """Scores of all points, given coefficients of some: ``coef @ K[rows]``, summed in double.

        `coef` has shape (n_problems, len(rows)), the result (n_problems, n_points).
        """
        scores = np.zeros((len(coef), len(self.points)))
        if len(rows):
            coef = np.ascontiguousarray(coef, np.float64)
            self.core.add(rows, coef, scores, **self.points.work(len(rows), self._n_threads))
        return scores

    def keep(self, rows: np.ndarray) -> None:
        """Compute columns of `rows` that are not kept yet, as many as there is room for."""
        self.core.keep(rows, **self.points.work(len(rows), self._n_threads))

    def among(self, rows: np.ndarray, which: np.ndarray, out: np.ndarray) -> None:
        """Write kernel values between two selections of the points into `out`.

        Values from columns in the cache are read if that is faster; others are computed.
        """
        self.core.among(rows, which, out, **self.points.work(len(rows), self._n_threads))
