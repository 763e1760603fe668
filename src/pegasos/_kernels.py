"""Kernels: blocks of kernel matrices, and a cache of columns.

Matrix products go through BLAS (NumPy) or SciPy's sparse products; what remains of a kernel is one
pass in C over the products. A new kernel needs its name in `KERNELS`, a line in `Points.against`, and a
function in ``csrc/kernels_body.h``.
"""

import numpy as np

from pegasos import _core, _validate

# Rows of the longer side of a product that are done at a time.
_CHUNK = 4096
# Rows whose kernel values with themselves are computed at a time.
_DIAGONAL = 64
# Sparse rows that are multiplied with all others at a time.
_CHUNK_SPARSE = 64
# Sparse rows with more than this part of their entries stored are multiplied as dense ones: BLAS does
# about fifty multiplications while one is done at an index.
_THICK = 1 / 50
# Dense columns without entries are left out of products if they are more than this part of all.
_EMPTY = 1 / 20
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

    @property
    def is_positive(self):
        """Whether matrices of this kernel are known to be positive semi-definite."""
        if self.name == "poly":
            return self.coef0 >= 0
        return self.name in ("linear", "rbf", "laplacian")

    def points(self, X):
        """The rows of `X` (dense or CSR, float32 or float64) with what the kernel needs of them."""
        return Points(self, X)

    def points_among_themselves(self, X):
        """The same, to be used against each other only: columns that are zero in all rows may go.

        They change neither products nor distances; images have many.
        """
        if self.name in KERNELS and self.name != "precomputed" and not _validate.is_sparse(X):
            used = X.any(axis=0)
            if np.count_nonzero(used) < (1 - _EMPTY) * len(used):
                used[0] |= not used.any()
                X = np.ascontiguousarray(X[:, used])
        return Points(self, X)

    def subset(self, X, rows):
        """Some rows of `X`, as `points`; of a precomputed kernel, the matrix among them."""
        return Points(self, X[np.ix_(rows, rows)] if self.name == "precomputed" else X[rows])


class Points:
    """Rows among which a kernel is evaluated. Made by `Kernel.points`."""

    def __init__(self, kernel, X, norms=None):
        self.kernel, self.X = kernel, X
        self.norms, self._inverted = norms, None
        if norms is None and kernel.name == "rbf":
            if _validate.is_sparse(X):
                self.norms = np.asarray(X.multiply(X).sum(axis=1), dtype=X.dtype).ravel()
            else:
                self.norms = np.einsum("ij,ij->i", X, X)

    @property
    def is_thick(self):
        """Whether sparse rows are multiplied faster as dense ones."""
        return self.X.nnz >= _THICK * self.X.shape[0] * self.X.shape[1]

    @property
    def inverted(self):
        """The transpose of sparse rows, for products with them."""
        if self._inverted is None:
            self._inverted = _validate.trusted_csr(self.X.T.tocsr())
        return self._inverted

    def __len__(self):
        return self.X.shape[0]

    def diagonal(self):
        """K(x, x) of every row."""
        if self.kernel.name == "precomputed":
            return self.X.diagonal().astype(np.float64)
        if self.kernel.name in ("rbf", "laplacian"):
            return np.ones(len(self))
        n, values = len(self), np.empty(len(self))
        for first in range(0, n, _DIAGONAL):
            part = self[slice(first, min(first + _DIAGONAL, n))]
            values[first : first + _DIAGONAL] = part.against(part).diagonal()
        return values

    def __getstate__(self):
        return {**self.__dict__, "_inverted": None}  # can be had again

    @property
    def dtype(self):
        return self.X.dtype

    def __getitem__(self, rows):
        """Some of the rows; of a precomputed matrix, its rows."""
        return Points(self.kernel, self.X[rows], None if self.norms is None else self.norms[rows])

    def against(self, other, out=None):
        """Kernel values between these rows and those of `other`: an (n, m) array, `out` if given.

        The rows of `out` must be contiguous; they may lie apart.
        """
        kernel, X, Z = self.kernel, self.X, other.X
        if out is None:
            out = np.empty((len(self), len(other)), dtype=self.dtype)
        if callable(kernel.name):
            out[...] = self._called(X, Z)
        elif kernel.name == "laplacian":
            self._laplacian(X, Z, out)
        elif not _validate.is_sparse(X):
            np.matmul(X, Z.T, out=out)
        elif other.is_thick:
            np.matmul(X.toarray(), Z.toarray().T, out=out)
        else:
            _core.sparse_products(_validate.trusted_csr(X), other.inverted, out)
        if kernel.name == "rbf":
            _core.gauss(out, self.norms, other.norms, kernel.gamma)
        elif kernel.name == "poly":
            _core.polynomial(out, kernel.gamma, kernel.coef0, kernel.degree)
        elif kernel.name == "sigmoid":
            _core.sigmoid(out, kernel.gamma, kernel.coef0)
        return out

    def among(self, rows, selection):
        """Kernel values between some of these rows and a `Selection` of them."""
        return self[rows].against(selection.points)

    def fill(self, rows, out):
        """Write kernel values between some of these rows and all of them into `out`.

        In chunks that stay in cache between product and kernel function, and after each of which
        Ctrl-C can be heard.
        """
        if _validate.is_sparse(self.X) and not self.is_thick:
            for part in _split(np.arange(len(rows)), _CHUNK_SPARSE):
                self[rows[part]].against(self, out[part[0] : part[-1] + 1])
            return
        some, n = self[rows], len(self)
        for first in range(0, n, _CHUNK):
            part = slice(first, min(first + _CHUNK, n))
            some.against(self[part], out[:, part])

    def _laplacian(self, X, Z, out):
        if not _validate.is_sparse(X):
            X, Z = np.ascontiguousarray(X), np.ascontiguousarray(Z)
            _core.laplace(X, Z, self.kernel.gamma, out)
            return
        # There is no product to lean on: a few rows at a time are made dense.
        size = max(1, _DENSE_NUMBERS // X.shape[1])
        for k in range(0, Z.shape[0], size):
            dense = Z[k : k + size].toarray()
            for i in range(0, X.shape[0], size):
                part = out[i : i + size, k : k + size]
                _core.laplace(X[i : i + size].toarray(), dense, self.kernel.gamma, part)

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
        Room. 64-bit sizes throughout. A precomputed matrix is used where it lies.

    Attributes
    ----------
    columns : ndarray of shape (room, n)
    place : ndarray of int64 of shape (n,)
        Which of `columns` belongs to each point; -1: none.
    """

    #: Columns that are computed together at most.
    PIECE = 512

    def __init__(self, points, megabytes):
        n = len(points)
        self.points = points
        if points.kernel.name == "precomputed":
            self.columns, self.place = points.X, np.arange(n)
            self._used = n
            return
        capacity = min(n, int(megabytes * 2**20 // (n * points.dtype.itemsize)))
        # Pages are taken when written.
        self.columns = np.empty((capacity, n), dtype=points.dtype)
        self.place = np.full(n, -1, dtype=np.int64)
        self._used = 0

    @property
    def shape(self):
        """Of the kernel matrix."""
        return len(self.points), len(self.points)

    @property
    def holds_all(self):
        """Whether there is room for all columns."""
        return len(self.columns) == len(self.points)

    def count_missing(self, rows):
        """How many columns of `rows` are not here."""
        return np.count_nonzero(self.place[rows] < 0)

    def push(self, coef, rows):
        """Scores of all points under coefficients of some: ``coef @ K[rows]``, summed in double.

        Parameters
        ----------
        coef : ndarray of shape (n_problems, len(rows))
        rows : ndarray of int of shape (m,)

        Returns
        -------
        ndarray of float64 of shape (n_problems, n_points)
        """
        self.keep(rows)
        n, place = len(self.points), self.place[rows]
        scores = np.zeros((len(coef), n))
        for some in _split(np.flatnonzero(place >= 0), self.PIECE):
            _core.push(self.columns, place[some], coef[:, some].copy(), scores)
        for some in _split(np.flatnonzero(place < 0), self.PIECE):
            columns = np.empty((len(some), n), dtype=self.points.dtype)
            self.points.fill(rows[some], columns)
            _core.push(columns, np.arange(len(some)), coef[:, some].copy(), scores)
        return scores

    def keep(self, rows):
        """Compute columns of `rows` that are not here, as many as there is room for."""
        rows = rows[self.place[rows] < 0]
        for part in _split(rows[: len(self.columns) - self._used], self.PIECE):
            begin, end = self._used, self._used + len(part)
            self.points.fill(part, self.columns[begin:end])
            self.place[part] = np.arange(begin, end)
            self._used = end

    def among(self, rows, columns, out):
        """Write kernel values between two selections of the points into `out`.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            Columns of these that are here are read, the others' values are computed.
        columns : Selection
            From `select`.
        out : ndarray of shape (m, len(columns))
        """
        place = self.place[rows]
        # One row at a time: a gather in both directions at once goes all over memory.
        for k in np.flatnonzero(place >= 0):
            out[k] = self.columns[place[k]][columns.rows]
        for missing in _split(np.flatnonzero(place < 0), self.PIECE):
            out[missing] = self.points.among(rows[missing], columns)

    def select(self, rows):
        """Some of the points, for `among`."""
        return Selection(self.points, rows)


class Selection:
    """Some rows of `points`, copied together when they are first needed."""

    def __init__(self, points, rows):
        self.rows = rows
        self._all, self._points = points, None

    @property
    def points(self):
        if self._points is None:
            self._points = self._all[self.rows]
        return self._points


def _split(rows, size):
    return [rows[k : k + size] for k in range(0, len(rows), size)]
