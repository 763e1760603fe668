"""The base of the kernels' classes: all that can be known of a kernel."""

from typing import Any, ClassVar

import numpy as np

from pegasos import _core
from pegasos.kernels._points import Points, is_hollow
from pegasos.kernels._scale import scale
from pegasos.problems import _rows, _validate

# Columns of zeros are left out of products if they are more than this part of all columns.
_EMPTY = 1 / 20
# Numbers in a part of a sparse matrix that is made dense at a time.
_DENSE_NUMBERS = 2**22


class Kernel:
    """A kernel function with its parameters; base of all kernels.

    A subclass sets `name` and those attributes below that differ. Unless the core knows it, it has
    `transform` if its values are functions of inner products, else `between`.
    `pegasos.kernels.register` makes it known. The parameters are those of
    `KernelPegasosClassifier`; `params` is its `kernel_params`.
    """

    #: The name in ``kernel=``; for a `Function`, the function itself.
    name: Any = None
    #: Its formula, for the documentation.
    formula: ClassVar[str] = ""
    #: The parameters it depends on, among "gamma", "degree", "coef0" and "params".
    uses: ClassVar[tuple[str, ...]] = ()
    #: Whether values are `transform` of inner products.
    is_of_products: ClassVar[bool] = False
    #: Whether columns that are zero in all rows change nothing; always so for kernels of products.
    ignores_zeros: ClassVar[bool] = False
    #: Whether `transform` needs the squared norms of the rows, too.
    needs_norms: ClassVar[bool] = False
    #: Whether all matrices of this kernel are positive semi-definite, by its form (for gamma > 0).
    #: Single matrices of other kernels may be so, too; see `ColumnCache.is_positive`.
    is_positive: bool = False
    #: Whether K(x, x) = 1 for all x.
    has_unit_diagonal: ClassVar[bool] = False

    def __init__(
        self,
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.gamma, self.degree, self.coef0, self.params = gamma, degree, coef0, params or {}

    @property
    def number(self) -> int:
        """The core's number for it, or OTHER if the core does not have it."""
        return _core.OTHER if callable(self.name) else _core.KERNELS.get(self.name, _core.OTHER)

    @property
    def is_linear(self) -> bool:
        """Whether w is a vector of features, so that scores may be computed from it."""
        return bool(self.name == "linear")

    @property
    def is_precomputed(self) -> bool:
        """Whether X is the kernel matrix."""
        return bool(self.name == "precomputed")

    @property
    def is_stored(self) -> bool:
        """Whether a model file can hold the kernel, which its name and numbers then define."""
        return not self.is_precomputed and "params" not in self.uses

    # ---- Values ----------------------------------------------------------------------------------

    def transform(self, products: np.ndarray, x_norms: Any, z_norms: Any) -> Any:
        """Turn inner products <x, z> of shape (n, m), rows contiguous, into values, in place.

        The norms are |x|^2 of shape (n,) and |z|^2 of shape (m,), if `needs_norms`, else None.
        """

    def between(self, X: Any, Z: Any, out: np.ndarray) -> Any:
        """Write values between rows of dense matrices into `out`, whose rows are contiguous."""
        raise NotImplementedError(f"kernel {self.name!r} has no values between rows")

    def on_diagonal(self, squared: np.ndarray) -> Any:
        """K(x, x) of rows with these |x|^2, if it depends on nothing else; else None."""

    def write(self, X: Any, Z: Any, out: np.ndarray) -> None:
        """Write values between rows of dense or sparse matrices into `out`."""
        if not _validate.is_sparse(X):
            self.between(np.ascontiguousarray(X), np.ascontiguousarray(Z), out)
            return
        # Make a few rows dense at a time.
        size = max(1, _DENSE_NUMBERS // X.shape[1])
        for k in range(0, Z.shape[0], size):
            dense = _dense(Z[k : k + size])
            for i in range(0, X.shape[0], size):
                self.between(_dense(X[i : i + size]), dense, out[i : i + size, k : k + size])

    def is_far(self, largest: float, type_: Any) -> bool:
        """Whether values come from `between`, because products would lose too many digits.

        `largest` is the largest |x|^2, `type_` the `numpy.finfo` of the products.
        """
        return False

    def may_vanish(self, X: Any, type_: Any) -> bool:
        """Whether all values of a row with other rows may be below the smallest of a type.

        `X` is in float64, `type_` is the `numpy.finfo` of the values.
        """
        return False

    def rounding(self, points: Any, dtype: Any) -> Any:
        """Bound the errors of kernel values that are computed in `dtype`.

        Certificates need this for kernels that are positive by their form. A sum of d products has
        an error of at most d u times the sum of their sizes, in any order; u = eps/2 is the unit
        roundoff. Returns, for every row, its largest error and its largest value with any rows.
        """
        raise NotImplementedError(f"kernel {self.name!r} has no bound on rounding")

    def rank(self, n_features: int) -> float:
        """The largest rank that a kernel matrix of rows with `n_features` can have."""
        return np.inf

    # ---- What rows it takes ----------------------------------------------------------------------

    @classmethod
    def gamma_of(cls, gamma: Any, X: Any, weights: Any) -> float:
        """The number for ``gamma=``, given X: "scale" and "auto" depend on it."""
        if gamma == "auto":
            return 1 / X.shape[1]
        if gamma == "scale":
            return float(scale(X, weights)) if "gamma" in cls.uses else 1.0
        return float(gamma)

    @classmethod
    def refuse(cls, X: Any) -> None:
        """Raise unless a machine can be fitted to `X` with such a kernel."""

    def largest(self, squared: Any) -> Any:
        """The largest number in the computation of values, for rows with |x|^2 up to `squared`."""
        return squared

    def refuse_overflow(self, X: Any) -> None:
        """Raise unless the type of `X` holds all numbers in the computation of kernel values."""
        if not self.is_of_products:
            return
        self._refuse_gamma(X)
        squared = _validate.rows(X, checked=True)[0].squared_norms().max(initial=0)
        with np.errstate(over="ignore"):
            value = self.largest(squared)
        dtype = X.dtype if self.keeps_type else np.dtype(np.float64)
        if not value < float(np.finfo(dtype).max):
            raise ValueError(
                f"{_validate.parameter('kernel', self.name)} has values beyond {dtype} for rows "
                f"with |x|^2 up to {squared:.3g}: scale X"
            )

    @property
    def _factor(self) -> float:
        """The factor of products or differences in the core, in the type of values."""
        return self.gamma if "gamma" in self.uses else 1.0

    def _refuse_gamma(self, X: Any) -> None:
        dtype = X.dtype if self.keeps_type else np.dtype(np.float64)
        if not abs(self._factor) < float(np.finfo(dtype).max):
            raise ValueError(
                f"{_validate.parameter('gamma')} is too large for features in {dtype}, got "
                f"{self.gamma:.3g}: scale X, or give it as float64"
            )

    @property
    def keeps_type(self) -> bool:
        """Whether values are computed in the type of X, and not always in float64.

        `rounding` bounds the errors of float32 values for kernels that are positive by their form.
        For other kernels, a gap would be claimed for numbers that are not the model's. Certificates
        also need values in double, which the core computes for the kernels it has.
        """
        return self.is_precomputed or (self.is_positive and self.number != _core.OTHER)

    def _typed(self, X: Any) -> Any:
        """`X` in the type in which values are computed."""
        return X if self.keeps_type else X.astype(np.float64, copy=False)

    def in_single(self, X: Any) -> Any:
        """`X` in single precision; None if that does not tell its rows apart, or overflows."""
        if not self.keeps_type:
            return None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if not _rows.survives_rounding(X):
                return None
            narrow = X.astype(np.float32)
        try:
            self.refuse_overflow(narrow)
        except ValueError:
            return None
        return narrow

    def is_hollow(self, X: Any) -> bool:
        """Whether these rows are dense, but kernel values are faster for sparse ones."""
        if not self.is_of_products or _validate.is_sparse(X):
            return False
        return is_hollow(X, np.count_nonzero(X))

    def points(self, X: Any) -> Any:
        """The rows of `X` (dense or CSR, float32 or float64) and what the kernel needs of them."""
        return Points(self, self._typed(X))

    def points_among_themselves(self, X: Any) -> Any:
        """The rows of `X` in the best layout for values between two of them.

        Columns that are zero in all rows, as in images, are left out if that changes nothing.
        """
        X = self._typed(X)
        if _validate.is_sparse(X) or not (self.is_of_products or self.ignores_zeros):
            return Points(self, X)
        n_stored = np.count_nonzero(X)
        if self.is_of_products and is_hollow(X, n_stored):
            return Points(self, _rows.without_zeros(X))
        if n_stored < (1 - _EMPTY) * X.size:
            used = X.any(axis=0)
            if np.count_nonzero(used) < (1 - _EMPTY) * len(used):
                used[0] |= not used.any()
                X = np.ascontiguousarray(X[:, used])
        return Points(self, X)

    def subset(self, X: Any, rows: np.ndarray) -> Any:
        """Some rows of `X` in the best layout for values between two of them."""
        return self.points_among_themselves(X[rows])

    # ---- What leaves the library -----------------------------------------------------------------

    @property
    def stored(self) -> Any:
        """The name and the parameters, for model files."""
        return {name: getattr(self, name) for name in ("name", "gamma", "degree", "coef0")}

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        """Values between `X` and the support vectors, as an ONNX expression in double precision.

        `ops` has every ONNX operator: ``ops.Exp(x)``. `X` is an expression, and `Z` the support
        vectors in float64, which are the training rows number `rows`.
        """
        raise ValueError(f"kernel={self.name!r} has no ONNX form")


def _dense(X: Any) -> Any:
    try:
        return X.toarray()
    except (MemoryError, ValueError):
        raise MemoryError(
            f"X has {X.shape[1]} features, more than memory has room for when a row is made dense"
        ) from None
