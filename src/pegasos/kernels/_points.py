"""Rows between which a kernel is evaluated, and their layout. The core computes the values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pegasos import _core
from pegasos._cached import cached_property
from pegasos.problems import _validate

# Rows whose kernel values with themselves are computed at a time.
_DIAGONAL = 16
# Products of sparse rows are by panels if more than this part of their entries is stored: then sums
# of all entries in registers are faster than sums of stored entries in memory.
_THICK = 1 / 25
# Dense rows become sparse if at most this part of their entries is not zero.
_HOLLOW = 1 / 3
# Wider rows have panels that do not stay in cache, and long sums in single precision.
_WIDEST = 4096
# Fewer kernel values than this do not pay for another thread.
_FEW = 2**20
# By panels, rows of up to this many entries are multiplied as fast as products move in memory.
_CHEAP = 32


def is_hollow(X: Any, n_stored: Any) -> bool:
    """Whether inner products of dense rows are faster if only `n_stored` entries are stored."""
    return X.shape[1] <= _WIDEST and n_stored <= _HOLLOW * X.size


class Points:
    """Rows between which a kernel is evaluated. Made by `Kernel.points`."""

    #: Whether these are a part of `narrowed` points: a certificate would take them for exact.
    is_part_of_narrow = False

    def __init__(
        self, kernel: Any, X: Any, norms: np.ndarray | None = None, is_far: bool = False
    ) -> None:
        self.kernel, self.X = kernel, X
        #: The rows in double precision, if these are `narrowed`.
        self.wide: Points | None = None
        if norms is not None:
            self.norms, self.is_far = norms, is_far

    @cached_property
    def norms(self) -> Any:
        """|x|^2, if the kernel needs them; else None."""
        if not self.kernel.needs_norms:
            return None
        with np.errstate(over="ignore", under="ignore"):
            return self.squared_norms().astype(self.dtype)

    @cached_property
    def is_far(self) -> bool:
        """Whether values come from differences of rows; see `Kernel.is_far`."""
        if not self.kernel.needs_norms:
            return False
        return bool(self.kernel.is_far(self.squared_norms().max(initial=0), np.finfo(self.dtype)))

    @cached_property
    def _density(self) -> float:
        """The stored part of sparse rows whose products are needed; else NaN."""
        if not _validate.is_sparse(self.X) or not self.kernel.is_of_products:
            return np.nan
        return self.X.nnz / max(1, self.X.shape[0] * self.X.shape[1])

    @property
    def by_transpose(self) -> bool:
        """Whether products use the transpose: for sparse rows with few stored entries."""
        return self._density < _THICK

    @property
    def by_panels(self) -> bool:
        """Whether products use panels: for sparse rows with many stored entries.

        If there are still more, or more features, rows are made dense for BLAS.
        """
        return _THICK <= self._density <= _HOLLOW and self.X.shape[1] <= _WIDEST

    @property
    def is_cheap(self) -> bool:
        """Whether it is faster to compute kernel values again than to keep them in memory."""
        return self.by_panels and not self.is_far and self.X.nnz <= _CHEAP * len(self)

    @cached_property
    def core(self) -> _core.Points:
        kernel, rows = self.kernel, self.rows
        if kernel.number == _core.OTHER:
            about = kernel, self.X, self.norms, self.is_far
            return _core.Points(rows, kind=_core.OTHER, write=_write, data=about)
        in_double: dict[str, Any] = {"far_in_double": self.is_far_in(np.float64)}
        if self.wide is not None:
            in_double = {"wide": self.wide.rows}
        return _core.Points(
            rows, kind=kernel.number, gamma=kernel.gamma, coef0=kernel.coef0, degree=kernel.degree,
            norms=self.norms, by_differences=self.is_far, by_panels=self.by_panels,
            by_transpose=self.by_transpose, **in_double,
        )  # fmt: skip

    def __len__(self) -> int:
        return self.X.shape[0]

    @cached_property
    def rows(self) -> _core.Rows:
        return _validate.rows(self.X, checked=True)[0]

    def squared_norms(self) -> np.ndarray:
        """|x|^2 of all rows, in float64."""
        return self.rows.squared_norms() if len(self) else np.empty(0)

    def longest(self) -> int:
        """The largest number of entries that are stored of a row."""
        is_sparse = _validate.is_sparse(self.X)
        return int(np.diff(self.X.indptr).max(initial=0)) if is_sparse else self.X.shape[1]

    def is_far_in(self, dtype: Any) -> bool:
        """Whether values would come from differences if the rows were of this type."""
        if self.dtype == dtype:
            return self.is_far
        largest = 0.0 if self.norms is None else self.norms.max(initial=0)
        return self.kernel.is_far(largest, np.finfo(dtype))

    def narrowed(self) -> "Points":
        """The rows in single precision if it tells them apart; else these.

        Kernel values take less than half the time, and half the memory. `wide` has the given rows.
        """
        # Rounding of rows changes products by 2 u |x| |z|; `rounding` has room for it.
        is_of_products = self.kernel.is_of_products and not self.kernel.is_linear
        if not is_of_products or self.dtype == np.float32 or self.is_far:
            return self
        X = self.kernel.in_single(self.X)
        if X is None:
            return self
        narrow = Points(self.kernel, X)
        narrow.wide = self
        return self if narrow.is_far else narrow

    @property
    def is_narrow(self) -> bool:
        """Whether these are `narrowed`."""
        return self.wide is not None

    def diagonal(self) -> np.ndarray:
        """K(x, x) of every row."""
        if self.kernel.is_precomputed:
            return self.X.diagonal().astype(np.float64)
        if self.kernel.has_unit_diagonal:
            return np.ones(len(self))
        n, values = len(self), self.kernel.on_diagonal(self.squared_norms())
        if values is not None:
            return values
        values = np.empty(n)
        for first in range(0, n, _DIAGONAL):
            some = self[first : first + _DIAGONAL]
            values[first : first + _DIAGONAL] = some.against(some).diagonal()
        return values

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """Sums of the rows, in float64, of shape (n_sums, n_features), for `coef` (n_sums, n)."""
        return self.rows.combine(np.ascontiguousarray(coef, np.float64))

    def __getstate__(self) -> dict[str, Any]:
        return {k: value for k, value in self.__dict__.items() if k not in ("core", "rows")}

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    def __getitem__(self, rows: Any) -> "Points":
        """Some of the rows; of a precomputed matrix, its rows."""
        norms = None if self.norms is None else self.norms[rows]
        some = Points(self.kernel, self.X[rows], norms, self.is_far)
        if self.is_narrow or self.is_part_of_narrow:
            some.is_part_of_narrow = True
        return some

    def against(self, other: "Points", on_poll: Callable[[], None] | None = None) -> np.ndarray:
        """Kernel values with the rows of `other`, an (n, m) array; calls `on_poll` now and then."""
        out = np.empty((len(self), len(other)), dtype=self.dtype)
        if out.size:
            _core.kernel_values(self.core, other.core, out, _core.Watch(on_poll))
        return out

    def work(self, n_rows: int, n_threads: int) -> dict[str, Any]:
        """Options for functions of the core that compute values between these and `n_rows` rows.

        There is one thread if a user's function computes them, or if there is little work.
        """
        is_worth = self.kernel.number != _core.OTHER and n_rows * len(self) >= _FEW
        return {"watch": _core.Watch(), "n_threads": n_threads if is_worth else 1}


def _write(x: Any, rows: Any, z: Any, others: Any, out: np.ndarray) -> None:
    """Write the values of a kernel that the core does not have."""
    (kernel, X, x_norms, _), (_, Z, z_norms, _) = x, z
    X, Z, has_norms = X[rows], Z[others], x_norms is not None
    if x[3] or z[3] or not kernel.is_of_products:
        kernel.write(X, Z, out)
        return
    products = X @ Z.T
    out[...] = products.toarray() if _validate.is_sparse(products) else products
    kernel.transform(out, *((x_norms[rows], z_norms[others]) if has_norms else (None, None)))
