"""Rows among which a kernel is evaluated: blocks of kernel values, in pieces that threads share.

BLAS (NumPy) multiplies dense rows, the core sparse ones. What remains of a kernel is one pass over
the products, `Kernel.transform`.
"""

import functools
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.kernels import _work
from pegasos.problems import _rows, _validate

# Multiply-adds, or differences, in one piece of work: Ctrl-C waits for it. BLAS, which is faster,
# has larger pieces.
_WORK, _WORK_BLAS = 4e8, 2e9
# Rows whose kernel values with themselves are computed at a time.
_DIAGONAL = 64
# Sparse rows are called thick if more than this part of their entries is stored: then sums of all
# entries in registers are faster than sums of stored entries in memory.
_THICK = 1 / 25
# Dense rows with at most this part of their entries other than zero are worth being made sparse.
_HOLLOW = 1 / 3
# Where rows are wider, panels do not stay in cache, and float sums in one go get long.
_WIDEST = 4096
# Thick rows with at most this many entries are multiplied as fast as products are written and read.
_CHEAP = 32


def is_hollow(X: Any) -> bool:
    """Whether these rows are dense, and inner products are computed faster when they are not."""
    if _validate.is_sparse(X):
        return False
    return X.shape[1] <= _WIDEST and np.count_nonzero(X) <= _HOLLOW * X.size


class Points:
    """Rows among which a kernel is evaluated. Made by `Kernel.points`."""

    def __init__(
        self, kernel: Any, X: Any, norms: np.ndarray | None = None, is_far: bool = False
    ) -> None:
        self.kernel, self.X = kernel, X
        # The rows in double precision, if these are not, and which of them these are.
        self._wide: Points | None = None
        self._which: Any = slice(None)
        self._inverted: _core.Rows | None = None
        if norms is not None or not kernel.needs_norms:
            self.norms, self.is_far = norms, is_far

    def _measure(self) -> None:
        norms = self.squared_norms()
        self.is_far = self.kernel.is_far(norms.max(initial=0), np.finfo(self.dtype))
        with np.errstate(over="ignore", under="ignore"):
            self.norms = norms.astype(self.dtype)

    @functools.cached_property
    def norms(self) -> Any:
        """|x|^2, if the kernel needs them; else None."""
        self._measure()
        return self.__dict__["norms"]

    @functools.cached_property
    def is_far(self) -> bool:
        """Whether values come from differences of rows; see `Kernel.is_far`."""
        self._measure()
        return bool(self.__dict__["is_far"])

    @functools.cached_property
    def _density(self) -> float:
        """The part that is stored of sparse rows of which products are asked for; else NaN."""
        if not _validate.is_sparse(self.X) or not self.kernel.is_of_products:
            return np.nan
        return self.X.nnz / max(1, self.X.shape[0] * self.X.shape[1])

    @property
    def rank(self) -> float:
        """The largest rank that the kernel matrix can have."""
        return np.inf if self.kernel.is_given else self.kernel.rank(self.X.shape[1])

    @property
    def is_thin(self) -> bool:
        """Whether these are sparse rows, for products, of which little is stored."""
        return self._density < _THICK

    @property
    def is_thick(self) -> bool:
        """Whether these are sparse rows, for products, of which a good part is stored.

        What holds more still, or is wider, is made dense for BLAS.
        """
        return _THICK <= self._density <= _HOLLOW and self.X.shape[1] <= _WIDEST

    @property
    def is_cheap(self) -> bool:
        """Whether it is faster to compute kernel values again than to keep them in memory."""
        return self.is_thick and not self.is_far and self.X.nnz <= _CHEAP * len(self)

    @property
    def inverted(self) -> Any:
        """The transpose of sparse rows, for products with them."""
        if self._inverted is None:
            try:
                transpose = self.X.T.tocsr()
            except (MemoryError, ValueError):
                raise MemoryError(
                    f"kernel {self.kernel.name!r}: X has {self.X.shape[1]} features, more than "
                    "memory has room for when X is transposed"
                ) from None
            self._inverted = _validate.trusted_csr(transpose)
        return self._inverted

    def __len__(self) -> int:
        return self.X.shape[0]

    def rows(self) -> Any:
        """The rows, for the core."""
        if _validate.is_sparse(self.X):
            return _validate.trusted_csr(self.X)
        return _core.dense_rows(np.ascontiguousarray(self.X))

    def squared_norms(self) -> np.ndarray:
        """|x|^2 of all rows, in float64."""
        return self.rows().squared_norms() if len(self) else np.empty(0)

    def longest(self) -> int:
        """How many entries are stored of a row, at most."""
        is_sparse = _validate.is_sparse(self.X)
        return int(np.diff(self.X.indptr).max(initial=0)) if is_sparse else self.X.shape[1]

    def is_far_in(self, dtype: Any) -> bool:
        """Whether values would come from differences if the rows were of this type."""
        largest = 0.0 if self.norms is None else self.norms.max(initial=0)
        return self.kernel.is_far(largest, np.finfo(dtype))

    def narrowed(self) -> "Points":
        """The rows in single precision, if they are told apart there; else these.

        Kernel values take less than half the time, and memory. `in_double` has what these are.
        """
        kernel = self.kernel
        if not (kernel.may_be_narrow and kernel.is_positive) or self.dtype == np.float32:
            return self  # certificates have bounds on rounding for these alone
        if self.is_far:
            return self
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if not _rows.survives_rounding(self.X):
                return self
            narrow = Points(kernel, self.X.astype(np.float32))
        try:
            kernel.refuse_overflow(narrow.X)
        except ValueError:
            return self
        narrow._wide = self
        return self if narrow.is_far else narrow

    @property
    def is_narrow(self) -> bool:
        """Whether these are `narrowed`."""
        return self._wide is not None

    def in_double(self, rows: np.ndarray) -> Any:
        """Some of the rows as float64."""
        if self._wide is not None:
            return self._wide[np.arange(len(self._wide))[self._which][rows]]
        points = Points(self.kernel, self.X[rows].astype(np.float64))
        points.is_far = self.norms is not None and self.is_far_in(np.float64)
        return points

    def diagonal(self) -> np.ndarray:
        """K(x, x) of every row."""
        if self.kernel.is_given:
            return self.X.diagonal().astype(np.float64)
        if self.kernel.has_unit_diagonal:
            return np.ones(len(self))
        n, values = len(self), np.empty(len(self))
        with _threads.blas.one_thread():
            for some in _work.parts(n, _DIAGONAL):
                values[some] = self[some].against(self[some]).diagonal()
        return values

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """Sums of the rows, in float64, of shape (n_sums, n_features), for `coef` (n_sums, n)."""
        return self.rows().combine(np.ascontiguousarray(coef, np.float64))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inverted": None}  # can be had again

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    def __getitem__(self, rows: Any) -> "Points":
        """Some of the rows; of a precomputed matrix, its rows."""
        norms = None if self.norms is None else self.norms[rows]
        some = Points(self.kernel, self.X[rows], norms, self.is_far)
        if self._wide is not None:
            some._wide, some._which = self._wide, np.arange(len(self._wide))[self._which][rows]
        return some

    def against(
        self,
        other: "Points",
        out: np.ndarray | None = None,
        tell: Callable[[], None] = lambda: None,
    ) -> np.ndarray:
        """Kernel values between these rows and those of `other`: an (n, m) array, `out` if given.

        The rows of `out` must be contiguous; they may lie apart. `tell` is called after each piece
        of work.
        """
        if out is None:
            out = np.empty((len(self), len(other)), dtype=self.dtype)
        # Thin rows are transposed whole, once.
        most = len(other) if other.is_thin else _work.CHUNK
        size = other.piece(max(1, len(self)), most)
        for part in _work.parts(len(self), size):
            some = self if size >= len(self) else self[part]
            if other.is_thin:
                some._evaluator(other)(0, len(other), out[part])
                tell()
            else:
                for _ in other.tiles(some, 0, len(other), out[part]):
                    tell()
        return out

    @property
    def _values_in_a_piece(self) -> float:
        """How many kernel values with these rows one piece of work may have."""
        if self.kernel.is_function:
            return np.inf
        n, d = self.X.shape
        is_own = self.is_thin or self.is_thick or self.is_far or not self.kernel.is_of_products
        cost, work = d, _WORK if is_own else _WORK_BLAS
        if self.is_thick or self.is_thin:
            cost = max(1, self.X.nnz / max(1, n) * (self._density if self.is_thin else 1))
        return work / cost

    def piece(self, n: int, most: float) -> int:
        """How many of `n` rows go together to be multiplied with `most` of these, or with fewer."""
        values = self._values_in_a_piece
        if n * min(most, len(self)) <= values:
            return n
        least = values / len(self) if self.is_thin else np.sqrt(values)
        return int(np.clip(max(least, values / most), 1, n))

    def _rows_of_a_tile(self, some: Any) -> int:
        """How many of these rows are multiplied with `some` at a time.

        A power of 2, so that tiles begin at the same rows, however many threads share them.
        """
        size, most = _work.CHUNK, self._values_in_a_piece / max(1, len(some))
        while size > max(1, most):
            size //= 2
        return size

    def tiles(
        self, some: Any, first: int, last: int, out: np.ndarray | None = None
    ) -> Generator[Any]:
        """Kernel values between `some` points and rows `first` to `last` of these, tile by tile.

        Yields
        ------
        part : slice
            Of these rows.
        values : ndarray of shape (len(some), m)
            ``out[:, part]`` if `out` is given; else good until the next tile is asked for.
        """
        size = self._rows_of_a_tile(some)
        room: Any = None
        if out is None:
            room = np.empty((len(some), min(size, last - first)), self.dtype)
        write = some._evaluator(self)
        for begin in range(first, last, size):
            end = min(begin + size, last)
            values = room[:, : end - begin] if out is None else out[:, begin:end]
            write(begin, end, values)
            yield slice(begin, end), values

    def add_scores(self, some: Any, coef: np.ndarray, scores: np.ndarray, n_threads: int) -> None:
        """Add to the scores of these rows what `some` points contribute, tile by tile.

        Parameters
        ----------
        coef : ndarray of float64 of shape (n_problems, len(some))
        scores : ndarray of float64 of shape (n_problems, len(self))
        """
        pieces = [
            (
                some[part],
                np.arange(part.stop - part.start),
                np.ascontiguousarray(coef[:, part], np.float64),
            )
            for part in _work.parts(len(some), self.piece(_work.PIECE, _work.CHUNK))
        ]

        def add(first: int, last: int, tell: Callable[[], None]) -> None:
            for piece, which, factors in pieces:
                for part, values in self.tiles(piece, first, last):
                    _core.push(values, which, factors, scores[:, part])
                    tell()

        self.share_values(len(self), len(some), add, n_threads, _work.CHUNK)

    def fill(self, some: Any, first: int, out: np.ndarray, n_threads: int) -> None:
        """Write kernel values between `some` points and these from number `first` on into `out`."""
        size = self._rows_of_a_tile(some)

        def fill(begin: int, end: int, tell: Callable[[], None]) -> None:
            write = some._evaluator(self)
            for part in _work.parts(end - begin, size, begin):
                write(first + part.start, first + part.stop, out[:, part])
                tell()

        self.share_values(out.shape[1], len(some), fill, n_threads, _work.CHUNK)

    def share_values(
        self,
        n: int,
        width: float,
        work: _work.Work,
        n_threads: int,
        size: int,
    ) -> None:
        """Share work that computes kernel values among threads; see `_work.shares`.

        BLAS has one thread meanwhile, and the pieces do not depend on the number of threads:
        neither do results. Users' functions may not want threads.
        """
        n_threads = 1 if self.kernel.is_function else n_threads
        with _threads.blas.one_thread():
            _threads.in_threads(_work.shares(n, 4 * width, work, n_threads, size), n_threads)

    def _evaluator(self, other: "Points") -> Callable[..., Any]:
        """A function of (first, last, out) that writes kernel values with these rows of `other`."""
        kernel, X, Z = self.kernel, self.X, other.X
        if self.is_far or other.is_far or not kernel.is_of_products:
            return lambda first, last, out: kernel.write(X, Z[first:last], out)
        multiply, norms = self._multiplier(other), other.norms

        def write(first: int, last: int, out: np.ndarray) -> Any:
            multiply(first, last, out)
            kernel.transform(out, self.norms, None if norms is None else norms[first:last])

        return write

    def _multiplier(self, other: "Points") -> Callable[..., Any]:
        """A function of (first, last, out) that writes inner products with rows of `other`."""
        X, Z = self.X, other.X
        if not _validate.is_sparse(X):
            return lambda first, last, out: np.matmul(X, Z[first:last].T, out=out)
        x = _validate.trusted_csr(X)
        if other.is_thin:

            def multiply(first: int, last: int, out: np.ndarray) -> Any:
                part = other if last - first == len(other) else other[first:last]
                _core.sparse_products(x, part.inverted, out)

            return multiply
        if not other.is_thick:
            dense = X.toarray()
            return lambda first, last, out: np.matmul(dense, Z[first:last].toarray().T, out=out)
        panel = np.empty((X.shape[1], _core.PANEL_BYTES // self.dtype.itemsize), self.dtype)
        part_of = _validate.trusted_parts(Z)
        return lambda first, last, out: _core.thick_products(x, part_of(first, last), panel, out)
