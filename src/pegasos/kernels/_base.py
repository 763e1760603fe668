"""What every kernel says of itself: the base of the kernels' classes."""

from typing import Any, ClassVar

import numpy as np

from pegasos import _rows, _validate
from pegasos.kernels._points import Points, is_hollow
from pegasos.kernels._scale import scale

# Dense columns without entries are left out of products if they are more than this part of all.
_EMPTY = 1 / 20
# Numbers in a part of a sparse matrix that is made dense for a while.
_DENSE_NUMBERS = 2**22


class Kernel:
    """A kernel function with its parameters; base of all kernels.

    A subclass sets `name` and what differs from the attributes below. It has `transform` if its values are
    functions of inner products, else `between`. `pegasos.kernels.register` makes it known.

    Parameters
    ----------
    gamma, coef0 : float
    degree : int
    params : dict
        Keyword arguments of a function.
    assume_psd : bool
        Whether the user vouches for it that matrices are positive semi-definite.
    """

    #: What ``kernel=`` calls it; the function itself of a `Function`.
    name: Any = None
    #: What it computes, for the documentation.
    formula: ClassVar[str] = ""
    #: Which of "gamma", "degree", "coef0" and "params" it depends on.
    uses: ClassVar[tuple[str, ...]] = ()
    #: Whether values are `transform` of inner products.
    is_of_products: ClassVar[bool] = False
    #: Whether columns that are zero in all rows change nothing; so it is with kernels of products.
    ignores_zeros: ClassVar[bool] = False
    #: Whether `transform` needs the squared norms of the rows, too.
    needs_norms: ClassVar[bool] = False
    #: Whether all matrices of this kernel are positive semi-definite, by its form (for gamma > 0).
    #: Of other kernels, a matrix may be: `ColumnCache.is_positive` is what solvers and certificates ask.
    is_positive: bool = False
    #: Whether K(x, x) = 1 for all x.
    has_unit_diagonal: ClassVar[bool] = False
    #: Whether w is a vector of features, so that scores may be computed by way of it.
    has_weights: ClassVar[bool] = False
    #: Whether X is the kernel matrix.
    is_given: ClassVar[bool] = False
    #: Whether values come from a function of the user, which may not want threads.
    is_function: ClassVar[bool] = False
    #: Whether a model file can hold the kernel: its name and its numbers say all of it.
    is_stored: ClassVar[bool] = True

    def __init__(
        self,
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        params: dict[str, Any] | None = None,
        assume_psd: bool = False,
    ) -> None:
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.params, self.assume_psd = params or {}, assume_psd

    # ---- Values ----------------------------------------------------------------------------------

    def transform(self, products, x_norms, z_norms):
        """Turn inner products <x, z>, an (n, m) array whose rows are contiguous, into values, in place.

        Parameters
        ----------
        x_norms, z_norms : ndarray of shape (n,) and (m,), or None
            |x|^2 and |z|^2, if `needs_norms`.
        """

    def between(self, X, Z, out):
        """Write values between rows of dense matrices into `out`, whose rows are contiguous."""
        raise NotImplementedError(f"kernel {self.name!r} has no values between rows")

    def write(self, X, Z, out):
        """As `between`, for dense or sparse rows."""
        if not _validate.is_sparse(X):
            self.between(np.ascontiguousarray(X), np.ascontiguousarray(Z), out)
            return
        # There is no product to lean on: a few rows at a time are made dense.
        size = max(1, _DENSE_NUMBERS // X.shape[1])
        for k in range(0, Z.shape[0], size):
            dense = _dense(Z[k : k + size])
            for i in range(0, X.shape[0], size):
                self.between(_dense(X[i : i + size]), dense, out[i : i + size, k : k + size])

    def is_far(self, largest, type_):
        """Whether values come from `between`, since products in this type would lose too many digits.

        Parameters
        ----------
        largest : float
            The largest |x|^2.
        type_ : numpy.finfo
        """
        return False

    def rounding(self, points, dtype):
        """For every row, what its kernel values with any of the rows may be off by, computed in `dtype`.

        Asked of kernels that are positive by their form. u = eps/2 is the unit roundoff: sums of d products are
        off by d u of the sum of their sizes at most, whatever their order.

        Returns
        -------
        errors, sizes : ndarray of shape (n,)
            And how large the values are, at most.
        """
        raise NotImplementedError(f"kernel {self.name!r} has no bound on rounding")

    # ---- What rows it takes ----------------------------------------------------------------------

    @classmethod
    def gamma_of(cls, gamma, X, weights):
        """The number that ``gamma=`` stands for: "scale" and "auto" depend on X."""
        if gamma == "auto":
            return 1 / X.shape[1]
        if gamma == "scale":
            return float(scale(X, weights)) if "gamma" in cls.uses else 1.0
        return float(gamma)

    @classmethod
    def refuse(cls, X):
        """Raise unless a machine can be fitted to `X` with such a kernel."""

    def largest(self, squared):
        """The largest number that is met on the way to values of rows with |x|^2 up to `squared`."""
        return squared

    def refuse_overflow(self, X):
        """Raise unless the type of `X` holds the kernel values of these rows, and what they are made of."""
        if not self.is_of_products:
            return
        squared = _rows.squared_norms(_validate.rows(X, checked=True)[0]).max(initial=0)
        with np.errstate(over="ignore"):
            value = self.largest(squared)
        if not value < float(np.finfo(X.dtype).max):
            raise ValueError(
                f"kernel={self.name!r} has values beyond {X.dtype} for rows with |x|^2 up to "
                f"{squared:.3g}: scale X"
            )

    def is_hollow(self, X):
        """Whether these rows are dense, and their kernel values are computed faster when they are not."""
        return self.is_of_products and is_hollow(X)

    def points(self, X):
        """The rows of `X` (dense or CSR, float32 or float64) with what the kernel needs of them."""
        return Points(self, X)

    def points_among_themselves(self, X):
        """The rows of `X`, to be used against each other only, in the layout that is best for it.

        Columns that are zero in all rows may go: images have many.
        """
        if self.is_hollow(X):
            return Points(self, _rows.without_zeros(X))
        if (self.is_of_products or self.ignores_zeros) and not _validate.is_sparse(X):
            used = X.any(axis=0)
            if np.count_nonzero(used) < (1 - _EMPTY) * len(used):
                used[0] |= not used.any()
                X = np.ascontiguousarray(X[:, used])
        return Points(self, X)

    def subset(self, X, rows):
        """Some rows of `X`, as `points_among_themselves`."""
        return self.points_among_themselves(X[rows])

    # ---- What leaves the library -----------------------------------------------------------------

    @property
    def stored(self):
        """Its name and parameters, as model files have them."""
        return {name: getattr(self, name) for name in ("name", "gamma", "degree", "coef0")}

    def onnx(self, ops, X, Z, rows):
        """Values between `X` and the support vectors, as an ONNX expression in double precision.

        Parameters
        ----------
        ops : object
            Has an attribute for every ONNX operator: ``ops.Exp(x)``.
        X : expression
        Z : ndarray of float64
            The support vectors.
        rows : ndarray of int
            Which of the training rows they are.
        """
        raise ValueError(f"kernel={self.name!r} has no ONNX form")


def _dense(X):
    try:
        return X.toarray()
    except (MemoryError, ValueError):
        raise MemoryError(
            f"X has {X.shape[1]} features, more than memory has room for when a row is made dense"
        ) from None
