"""Kernels: blocks of kernel matrices, and a cache of columns.

Matrix products go through BLAS (NumPy) or SciPy's sparse products; what remains of a kernel is one
pass in C over the products. A new kernel needs its name in `KERNELS`, a line in `Points.against`, and a
function in ``csrc/kernels_body.h``.
"""

import numpy as np

from pegasos import _core, _validate

# Rows of the longer side of a product that are done at a time.
_CHUNK = 4096
# Numbers in a part of a sparse matrix that is made dense for a while.
_DENSE_NUMBERS = 2**22

KERNELS = ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed")


class Kernel:
    """A kernel function with its parameters.

    Parameters
    ----------
    name : str or callable
        One of `KERNELS`, or a function of two matrices (n, d), (m, d) that returns (n, m).
    gamma, coef0 : float
    degree : int
    params : dict
        Keyword arguments for a callable.
    """

    def __init__(self, name, gamma=1.0, degree=3, coef0=0.0, params=None):
        self.name, self.gamma, self.degree, self.coef0 = name, gamma, degree, coef0
        self.params = params or {}

    def points(self, X):
        """The rows of `X` (dense or CSR, float32 or float64) with what the kernel needs of them."""
        return Points(self, X)

    def subset(self, X, rows):
        """Some rows of `X`, as `points`; of a precomputed kernel, the matrix among them."""
        return Points(self, X[rows][:, rows] if self.name == "precomputed" else X[rows])


class Points:
    """Rows among which a kernel is evaluated. Made by `Kernel.points`."""

    def __init__(self, kernel, X, norms=None):
        self.kernel, self.X = kernel, X
        self.norms = norms
        if norms is None and kernel.name == "rbf":
            if _validate.is_sparse(X):
                self.norms = np.asarray(X.multiply(X).sum(axis=1), dtype=X.dtype).ravel()
            else:
                self.norms = np.einsum("ij,ij->i", X, X)

    def __len__(self):
        return self.X.shape[0]

    @property
    def dtype(self):
        return self.X.dtype

    def __getitem__(self, rows):
        """Some of the rows; of a precomputed matrix, its rows."""
        return Points(self.kernel, self.X[rows], None if self.norms is None else self.norms[rows])

    def against(self, other):
        """Kernel values between these rows and those of `other`: an (n, m) array."""
        kernel, X, Z = self.kernel, self.X, other.X
        if callable(kernel.name):
            return self._called(X, Z)
        if kernel.name == "laplacian":
            return self._laplacian(X, Z)
        if _validate.is_sparse(X):
            # SciPy multiplies sparse by dense; the smaller side is made dense.
            if len(self) <= len(other):
                products = np.ascontiguousarray((Z @ X.toarray().T).T)
            else:
                products = X @ np.ascontiguousarray(Z.toarray().T)
        else:
            products = X @ Z.T
        products = np.ascontiguousarray(products)
        if kernel.name == "rbf":
            _core.gauss(products, self.norms, other.norms, kernel.gamma)
        elif kernel.name == "poly":
            _core.polynomial(products, kernel.gamma, kernel.coef0, kernel.degree)
        elif kernel.name == "sigmoid":
            _core.sigmoid(products, kernel.gamma, kernel.coef0)
        return products

    def among(self, rows, columns):
        """Kernel values between two selections of these rows."""
        if self.kernel.name == "precomputed":
            return np.ascontiguousarray(self.X[rows][:, columns])
        return self[rows].against(self[columns])

    def fill(self, rows, out):
        """Write kernel values between some of these rows and all of them into `out`.

        In chunks that stay in cache between product and kernel function, and after each of which
        Ctrl-C can be heard.
        """
        if self.kernel.name == "precomputed":
            out[...] = self.X[rows]
            return
        some, n = self[rows], len(self)
        for first in range(0, n, _CHUNK):
            part = slice(first, min(first + _CHUNK, n))
            out[:, part] = some.against(self[part])

    def _laplacian(self, X, Z):
        out = np.empty((X.shape[0], Z.shape[0]), dtype=X.dtype)
        if not _validate.is_sparse(X):
            X, Z = np.ascontiguousarray(X), np.ascontiguousarray(Z)
            _core.laplace(X, Z, self.kernel.gamma, out)
            return out
        # There is no product to lean on: a few rows at a time are made dense.
        size = max(1, _DENSE_NUMBERS // X.shape[1])
        for k in range(0, Z.shape[0], size):
            dense = Z[k : k + size].toarray()
            for i in range(0, X.shape[0], size):
                part = np.empty((min(size, X.shape[0] - i), len(dense)), dtype=X.dtype)
                _core.laplace(X[i : i + size].toarray(), dense, self.kernel.gamma, part)
                out[i : i + size, k : k + size] = part
        return out

    def _called(self, X, Z):
        values = np.asarray(self.kernel.name(X, Z, **self.kernel.params))
        shape = (X.shape[0], Z.shape[0])
        if values.shape != shape:
            raise ValueError(
                f"kernel must return an array of shape {shape} for matrices of shapes {X.shape} "
                f"and {Z.shape}, got shape {values.shape}"
            )
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise ValueError("kernel must return finite real numbers, got NaN, infinity or others")
        return np.ascontiguousarray(values, dtype=X.dtype)


class ColumnCache:
    """Columns of the kernel matrix of `points`, each computed once as long as there is room.

    A column that found room stays: rows are visited in random order, so that with room for half of
    the columns half of the requests are met, which no replacement could better by much.

    Parameters
    ----------
    points : Points
    megabytes : float
        Room. 64-bit sizes throughout.
    """

    #: Columns that are computed together.
    PIECE = 256

    def __init__(self, points, megabytes):
        n = len(points)
        self.points = points
        capacity = min(n, int(megabytes * 2**20 // (n * points.dtype.itemsize)))
        self._store = np.empty((capacity, n), dtype=points.dtype)  # pages are taken when written
        self._place = np.full(n, -1, dtype=np.int64)
        self._used = 0

    def _add(self, rows):
        """Compute as many columns of `rows` as there is room for."""
        rows = rows[: len(self._store) - self._used]
        for part in _split(rows, self.PIECE):
            begin, end = self._used, self._used + len(part)
            self.points.fill(part, self._store[begin:end])
            self._place[part] = np.arange(begin, end)
            self._used = end

    def pieces(self, rows):
        """Yield parts of `rows` with their columns, (len(part), n) arrays not to be changed."""
        present = self._place[rows] >= 0
        for part in _split(rows[present], self.PIECE):
            yield part, self._store[self._place[part]]
        begin, rows = self._used, rows[~present]
        self._add(rows)
        present = self._place[rows] >= 0
        if present.any():
            yield rows[present], self._store[begin : self._used]
        for part in _split(rows[~present], self.PIECE):
            columns = np.empty((len(part), len(self.points)), dtype=self.points.dtype)
            self.points.fill(part, columns)
            yield part, columns

    def among(self, rows, columns):
        """Kernel values between two selections of the points, columns sorted."""
        if 8 * len(columns) >= len(self.points):
            self._add(rows[self._place[rows] < 0])  # most will be wanted whole
        out = np.empty((len(rows), len(columns)), dtype=self.points.dtype)
        present = self._place[rows] >= 0
        # One column at a time: a gather in both directions at once goes all over memory.
        for k in np.flatnonzero(present):
            np.take(self._store[self._place[rows[k]]], columns, out=out[k], mode="clip")
        if not present.all():
            out[~present] = self.points.among(rows[~present], columns)
        return out


def _split(rows, size):
    return [rows[k : k + size] for k in range(0, len(rows), size)]
