"""Kernels: blocks of kernel matrices, and a cache of columns.

Products of dense rows go through BLAS (NumPy), those of sparse ones through the core; what remains of a
kernel is one pass in C over the products. A new kernel needs its name in `KERNELS` and, if it
is a function of products, in `Kernel.is_of_products`, a line in `Points._evaluator`, and a function in
``csrc/kernels_body.h``.
"""

import functools
import itertools

import numpy as np

from pegasos import _core, _rows, _threads, _validate

# Rows of the longer side of a product that are done at a time, so that products with a piece of columns stay
# in cache until something is made of them.
_CHUNK = 1024
# Rows of the other side.
_PIECE = 512
# Multiply-adds, or differences, in one piece of work: Ctrl-C waits for it. BLAS takes less time for as many.
_WORK, _WORK_BLAS = 4e8, 2e9
# Rows whose kernel values with themselves are computed at a time.
_DIAGONAL = 64
# Sparse rows that are multiplied with all others at a time, and rows that are with a selection of them.
_CHUNK_SPARSE, _CHUNK_AMONG = 64, 128
# Sparse rows are called thick if more than this part of their entries is stored: then sums in registers
# are faster than sums in memory, of which only those are touched that change.
_THICK = 1 / 25
# Dense rows with no more than this part of their entries other than zero are worth being made sparse.
_HOLLOW = 1 / 3
# Where rows are wider, panels do not stay in cache, and float sums in one go get long.
_WIDEST = 4096
# Products of thick rows with so many entries take no longer than to write them down and read them again.
_CHEAP = 32
# Numbers so far apart each take a line of cache: that takes longer than to compute products of thick rows.
_FAR = 16
# Fewer kernel values than this are not worth another thread.
_FEW = 2**20
# Exponents of Gaussian kernels may be off by this much: where rows are so far from 0 beside the kernel's width
# that rounding in norms and products makes it more, kernel values come from differences, which takes 2 to
# 4 times as long. In float64, where gamma |x|^2 is above this: what certificates leave room for grows with it.
_BLURRED, _FARTHEST = 1e-5, 1e4
# A problem that has no more than this part of all rows gets a kernel matrix of its own.
_MOST = 1 / 2
# At most so many of these at a time.
_SIDE_BY_SIDE = 8
# Dense columns without entries are left out of products if they are more than this part of all.
_EMPTY = 1 / 20
# Matrices of no more rows than this are factorised, where it is not known that they are positive
# semi-definite: that takes about as long as a product of two such matrices, some hundredths of a second.
_MOST_FACTORED = 1000
# Differences between a matrix and its transpose, beside its largest number, that rounding explains.
_SYMMETRIC = 1e-4
# Numbers in a part of a sparse matrix that is made dense for a while.
_DENSE_NUMBERS = 2**22

KERNELS = ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed")
# Of a polynomial.
MOST_DEGREE = 2**31 - 1


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
    assume_psd : bool
        Whether the user vouches for it that matrices are positive semi-definite.
    """

    def __init__(self, name, gamma=1.0, degree=3, coef0=0.0, params=None, assume_psd=False):
        self.name, self.gamma, self.degree, self.coef0 = name, gamma, degree, coef0
        self.params, self.assume_psd = params or {}, assume_psd

    @property
    def is_positive(self):
        """Whether all matrices of this kernel are positive semi-definite, by its form (for gamma > 0).

        Of other kernels, a matrix may be: `ColumnCache.is_positive` is what solvers and certificates ask.
        """
        if self.name == "poly":
            return self.coef0 >= 0
        return self.name in ("linear", "rbf", "laplacian")

    @property
    def is_of_products(self):
        """Whether values are functions of inner products."""
        return self.name in ("linear", "poly", "rbf", "sigmoid")

    def is_hollow(self, X):
        """Whether these rows are dense, and their kernel values are computed faster when they are not."""
        if _validate.is_sparse(X) or not self.is_of_products:
            return False
        return X.shape[1] <= _WIDEST and np.count_nonzero(X) <= _HOLLOW * X.size

    def refuse_overflow(self, X):
        """Raise unless the type of `X` holds the kernel values of these rows, and what they are made of."""
        most = float(np.finfo(X.dtype).max)
        if self.name in ("rbf", "laplacian"):
            # The core multiplies differences by it, in the type of X.
            factor = np.sqrt(self.gamma) if self.name == "rbf" else self.gamma
            if not factor < most:
                raise ValueError(
                    f"gamma is too large for features in {X.dtype}, got {self.gamma:.3g}: scale X, or "
                    "give it as float64"
                )
        elif self.name in KERNELS and self.name != "precomputed":
            squared = _rows.squared_norms(_validate.rows(X, checked=True)[0]).max(initial=0)
            with np.errstate(over="ignore"):
                value = squared
                if self.name != "linear":
                    value = max(squared, abs(self.gamma) * squared + abs(self.coef0))
                if self.name == "poly":
                    value = max(value, np.float64(value) ** self.degree)
            if not value < most:
                raise ValueError(
                    f"kernel={self.name!r} has values beyond {X.dtype} for rows with |x|^2 up to "
                    f"{squared:.3g}: scale X"
                )

    def points(self, X):
        """The rows of `X` (dense or CSR, float32 or float64) with what the kernel needs of them."""
        return Points(self, X)

    def points_among_themselves(self, X):
        """The same, to be used against each other only, in the layout that is best for it.

        Columns that are zero in all rows change neither products nor distances, and may go: images have
        many.
        """
        if self.is_hollow(X):
            return Points(self, _rows.without_zeros(X))
        if self.name in KERNELS and self.name != "precomputed" and not _validate.is_sparse(X):
            used = X.any(axis=0)
            if np.count_nonzero(used) < (1 - _EMPTY) * len(used):
                used[0] |= not used.any()
                X = np.ascontiguousarray(X[:, used])
        return Points(self, X)

    def subset(self, X, rows):
        """Some rows of `X`, as `points`; of a precomputed kernel, the matrix among them."""
        if self.name == "precomputed":
            return Points(self, X[np.ix_(rows, rows)])
        return self.points_among_themselves(X[rows])


def _is_far(largest, gamma, type_):
    """Whether distances are to be summed from differences; `largest` is the largest |x|^2."""
    largest, least, most = float(largest), float(type_.tiny), float(type_.max)
    is_within = 4 * largest < most and least < gamma < most
    return not (is_within and gamma * largest <= min(_BLURRED / float(type_.eps), _FARTHEST))


class Points:
    """Rows among which a kernel is evaluated. Made by `Kernel.points`."""

    def __init__(self, kernel, X, norms=None, is_far=False):
        self.kernel, self.X = kernel, X
        self.norms, self.is_far, self._inverted = norms, is_far, None
        if norms is None and kernel.name == "rbf":
            norms = self.squared_norms()
            #: Whether |x|^2 + |z|^2 - 2 <x, z> would lose too many digits of a distance, or overflow.
            self.is_far = _is_far(norms.max(initial=0), kernel.gamma, np.finfo(X.dtype))
            with np.errstate(over="ignore"):
                self.norms = norms.astype(X.dtype)

    @property
    def _density(self):
        """The part that is stored of sparse rows of which products are asked for; else NaN."""
        if not _validate.is_sparse(self.X) or not self.kernel.is_of_products:
            return np.nan
        return self.X.nnz / max(1, self.X.shape[0] * self.X.shape[1])

    @property
    def is_thin(self):
        """Whether these are sparse rows, for products, of which little is stored."""
        return self._density < _THICK

    @property
    def is_thick(self):
        """The same of a good part. What holds more still, or is wider, is made dense for BLAS."""
        return _THICK <= self._density <= _HOLLOW and self.X.shape[1] <= _WIDEST

    @property
    def is_cheap(self):
        """Whether it is faster to compute kernel values again than to keep them in memory."""
        return self.is_thick and not self.is_far and self.X.nnz <= _CHEAP * len(self)

    @property
    def inverted(self):
        """The transpose of sparse rows, for products with them."""
        if self._inverted is None:
            try:
                transpose = self.X.T.tocsr()
            except (MemoryError, ValueError):
                raise MemoryError(
                    f"kernel {self.kernel.name!r}: X has {self.X.shape[1]} features, more than memory has "
                    "room for when X is transposed"
                ) from None
            self._inverted = _validate.trusted_csr(transpose)
        return self._inverted

    def __len__(self):
        return self.X.shape[0]

    def rows(self):
        """As rows for the core."""
        if _validate.is_sparse(self.X):
            return _validate.trusted_csr(self.X)
        return _core.dense_rows(np.ascontiguousarray(self.X))

    def squared_norms(self):
        """|x|^2 of all rows, in float64."""
        return _rows.squared_norms(self.rows()) if len(self) else np.empty(0)

    def longest(self):
        """How many entries are stored of a row, at most."""
        is_sparse = _validate.is_sparse(self.X)
        return int(np.diff(self.X.indptr).max(initial=0)) if is_sparse else self.X.shape[1]

    def _is_far_in(self, dtype):
        return _is_far(self.norms.max(initial=0), self.kernel.gamma, np.finfo(dtype))

    def in_double(self, rows):
        """Some of the rows as float64."""
        points = Points(self.kernel, self.X[rows].astype(np.float64))
        points.is_far = self.norms is not None and self._is_far_in(np.float64)
        return points

    def rounding(self, dtype):
        """For every row, what its kernel values with any of the rows may be off by, computed in `dtype`.

        Of kernels that are positive by their form, other than the linear one. Sums of d products are off by d u of the sum of their
        sizes at most, whatever their order (u = eps/2, the unit roundoff). The exponent of a Gaussian by products
        is off by (d + 4) u gamma (|x| + |z|)^2, which counts times the kernel value: where |x| > 2 |z|, the
        distance is |x|/2 at least, and this is 9/e (d + 4) u at most; else |x| + |z| <= 3 |z|. By differences
        distances, and so exponents, have relative errors, and t exp(-t) <= 1/e.

        Returns
        -------
        errors, sizes : ndarray of shape (n,)
            And how large the values are, at most.
        """
        kernel, eps, d = self.kernel, np.finfo(dtype).eps, self.longest()
        sizes = np.ones(len(self))
        if kernel.name == "rbf" and not self._is_far_in(dtype):
            exponents = kernel.gamma * self.norms.astype(np.float64)
            return eps * (9 * (d + 4) * np.maximum(exponents, 1 / np.e) + 8), sizes
        if kernel.name in ("rbf", "laplacian"):
            return eps * (d + 16) * sizes, sizes
        norms = np.sqrt(self.squared_norms())
        sizes = (kernel.gamma * norms * norms.max(initial=0) + kernel.coef0) ** kernel.degree
        return eps * (kernel.degree * (d + 6) + 4) * sizes, sizes

    def diagonal(self):
        """K(x, x) of every row."""
        if self.kernel.name == "precomputed":
            return self.X.diagonal().astype(np.float64)
        if self.kernel.name in ("rbf", "laplacian"):
            return np.ones(len(self))
        n, values = len(self), np.empty(len(self))
        with _threads.blas.one_thread():
            for some in _parts(n, _DIAGONAL):
                values[some] = self[some].against(self[some]).diagonal()
        return values

    def __getstate__(self):
        return {**self.__dict__, "_inverted": None}  # can be had again

    @property
    def dtype(self):
        return self.X.dtype

    def __getitem__(self, rows):
        """Some of the rows; of a precomputed matrix, its rows."""
        norms = None if self.norms is None else self.norms[rows]
        return Points(self.kernel, self.X[rows], norms, self.is_far)

    def against(self, other, out=None):
        """Kernel values between these rows and those of `other`: an (n, m) array, `out` if given.

        The rows of `out` must be contiguous; they may lie apart.
        """
        if out is None:
            out = np.empty((len(self), len(other)), dtype=self.dtype)
        for _ in self.pieces_against(other, out):
            pass
        return out

    def pieces_against(self, other, out):
        """As `against`, yielding after each piece of work."""
        # Thin rows are transposed whole, once.
        most = len(other) if other.is_thin else _CHUNK
        size = other.piece(max(1, len(self)), most)
        for part in _parts(len(self), size):
            some = self if size >= len(self) else self[part]
            if other.is_thin:
                some._evaluator(other)(0, len(other), out[part])
                yield
            else:
                for _ in other.tiles(some, 0, len(other), out[part]):
                    yield

    @property
    def _values_in_a_piece(self):
        """How many kernel values with these rows one piece of work may have."""
        if self.kernel.name not in KERNELS:
            return np.inf
        n, d = self.X.shape
        is_own = self.is_thin or self.is_thick or self.is_far or self.kernel.name == "laplacian"
        cost, work = d, _WORK if is_own else _WORK_BLAS
        if self.is_thick or self.is_thin:
            cost = max(1, self.X.nnz / max(1, n) * (self._density if self.is_thin else 1))
        return work / cost

    def piece(self, n, most):
        """How many of `n` rows go together to be multiplied with `most` of these, or with fewer."""
        values = self._values_in_a_piece
        if n * min(most, len(self)) <= values:
            return n
        least = values / len(self) if self.is_thin else np.sqrt(values)
        return int(np.clip(max(least, values / most), 1, n))

    def _rows_of_a_tile(self, some):
        """How many of these rows are multiplied with `some` at a time.

        A power of 2, so that tiles begin at the same rows, however many threads share them.
        """
        size, most = _CHUNK, self._values_in_a_piece / max(1, len(some))
        while size > max(1, most):
            size //= 2
        return size

    def tiles(self, some, first, last, out=None):
        """Kernel values between `some` points and rows `first` to `last` of these, tile by tile.

        Yields
        ------
        part : slice
            Of these rows.
        values : ndarray of shape (len(some), m)
            ``out[:, part]`` if `out` is given; else good until the next tile is asked for.
        """
        size = self._rows_of_a_tile(some)
        room = np.empty((len(some), min(size, last - first)), self.dtype) if out is None else None
        evaluate = some._evaluator(self)
        for begin in range(first, last, size):
            end = min(begin + size, last)
            values = room[:, : end - begin] if out is None else out[:, begin:end]
            evaluate(begin, end, values)
            yield slice(begin, end), values

    def add_scores(self, some, coef, scores, n_threads):
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
            for part in _parts(len(some), self.piece(_PIECE, _CHUNK))
        ]

        def add(first, last):
            for piece, which, factors in pieces:
                for part, values in self.tiles(piece, first, last):
                    _core.push(values, which, factors, scores[:, part])
                    yield

        self.share_values(len(self), len(some), add, n_threads, _CHUNK)

    def fill(self, some, first, out, n_threads):
        """Write kernel values between `some` points and these from number `first` on into `out`."""
        size = self._rows_of_a_tile(some)

        def write(begin, end):
            evaluate = some._evaluator(self)
            for part in _parts(end - begin, size, begin):
                evaluate(first + part.start, first + part.stop, out[:, part])
                yield

        self.share_values(out.shape[1], len(some), write, n_threads, _CHUNK)

    def share_values(self, n, width, work, n_threads, size):
        """As `_share`, where kernel values are computed.

        BLAS has one thread meanwhile, and ours get the same pieces however many they are: so results are
        the same. Functions from elsewhere may not want threads.
        """
        with _threads.blas.one_thread():
            _share(n, 4 * width, work, 1 if callable(self.kernel.name) else n_threads, size)

    def _evaluator(self, other):
        """A function of (first, last, out) that writes kernel values with these rows of `other`."""
        kernel = self.kernel
        if self.is_far or other.is_far:
            X, Z = self.X, other.X
            return lambda first, last, out: self._by_differences(
                _core.gauss_rows, X, Z[first:last], out
            )
        multiply = self._multiplier(other)

        def evaluate(first, last, out):
            multiply(first, last, out)
            if kernel.name == "rbf":
                _core.gauss(out, self.norms, other.norms[first:last], kernel.gamma)
            elif kernel.name == "poly":
                _core.polynomial(out, kernel.gamma, kernel.coef0, kernel.degree)
            elif kernel.name == "sigmoid":
                _core.sigmoid(out, kernel.gamma, kernel.coef0)

        return evaluate

    def _multiplier(self, other):
        """The same for inner products, or for values of kernels that are no functions of them."""
        X, Z = self.X, other.X
        if not self.kernel.is_of_products:
            write = self._laplacian if self.kernel.name == "laplacian" else self._call
            return lambda first, last, out: write(X, Z[first:last], out)
        if not _validate.is_sparse(X):
            return lambda first, last, out: np.matmul(X, Z[first:last].T, out=out)
        x = _validate.trusted_csr(X)
        if other.is_thin:

            def multiply(first, last, out):
                part = other if last - first == len(other) else other[first:last]
                _core.sparse_products(x, part.inverted, out)

            return multiply
        if not other.is_thick:
            dense = X.toarray()
            return lambda first, last, out: np.matmul(dense, Z[first:last].toarray().T, out=out)
        panel = np.empty((X.shape[1], _core.PANEL_BYTES // self.dtype.itemsize), self.dtype)
        part_of = _validate.trusted_parts(Z)
        return lambda first, last, out: _core.thick_products(x, part_of(first, last), panel, out)

    def _laplacian(self, X, Z, out):
        self._by_differences(_core.laplace, X, Z, out)

    def _by_differences(self, write, X, Z, out):
        if not _validate.is_sparse(X):
            X, Z = np.ascontiguousarray(X), np.ascontiguousarray(Z)
            write(X, Z, self.kernel.gamma, out)
            return
        # There is no product to lean on: a few rows at a time are made dense.
        size = max(1, _DENSE_NUMBERS // X.shape[1])
        for k in range(0, Z.shape[0], size):
            dense = _dense(Z[k : k + size])
            for i in range(0, X.shape[0], size):
                part = out[i : i + size, k : k + size]
                write(_dense(X[i : i + size]), dense, self.kernel.gamma, part)

    def _call(self, X, Z, out):
        values = self.kernel.name(X, Z, **self.kernel.params)
        values = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
        shape = (X.shape[0], Z.shape[0])
        if values.shape != shape:
            raise ValueError(
                f"kernel must return an array of shape {shape} for matrices of shapes {X.shape} "
                f"and {Z.shape}, got shape {values.shape}"
            )
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise ValueError("kernel must return finite real numbers, got NaN, infinity or others")
        out[...] = values


class ColumnCache:
    """Columns of the kernel matrix of `points`, each computed once as long as there is room.

    A column that found room stays: rows are visited in random order, so that with room for half of
    the columns half of the requests are met, which no replacement could better by much. Columns that take
    less time to compute than to fetch are kept only on demand.

    Parameters
    ----------
    points : Points
    megabytes : float
        Room. 64-bit sizes throughout. A precomputed matrix is used where it lies.
    n_threads : int
        At most so many work at a time, and BLAS has one. Results do not depend on it.
    divides : bool
        Whether problems that have few of the points get caches of their own: not worth it where columns
        serve several solvers, or several folds.

    Attributes
    ----------
    columns : ndarray of shape (room, n)
    place : ndarray of int64 of shape (n,)
        Which of `columns` belongs to each point; -1: none.
    """

    #: Columns that are computed together at most.
    PIECE = _PIECE

    def __init__(self, points, megabytes, n_threads=1, divides=False):
        n = len(points)
        self.points, self._megabytes, self._n_threads = points, megabytes, n_threads
        self._divides = divides
        if points.kernel.name == "precomputed":
            self.columns, self.place = points.X, np.arange(n)
            self._used = n
            return
        capacity = int(min(n, megabytes * 2**20 / (max(n, 1) * points.dtype.itemsize)))
        try:  # pages are taken when written
            self.columns = np.empty((capacity, n), dtype=points.dtype)
        except MemoryError:
            raise MemoryError(
                f"cache_size={megabytes:g} MB is more than memory has room for, with {capacity} columns of "
                f"{n} numbers"
            ) from None
        self.place = np.full(n, -1, dtype=np.int64)
        self._used = 0

    @property
    def shape(self):
        """Of the kernel matrix."""
        return len(self.points), len(self.points)

    @property
    def is_positive(self):
        """Whether the kernel matrix is known to be positive semi-definite, so that there is a dual.

        Known of the kernel's form, vouched for by the user, or shown by a factorisation. What asks for a dual
        asks here.
        """
        return not np.isnan(self.ridge)

    @functools.cached_property
    def ridge(self):
        """What is to be added to the diagonal to make the matrix positive semi-definite for certain.

        0 where the kernel is known to be, NaN where nothing is known.
        """
        kernel, n = self.points.kernel, len(self.points)
        if kernel.is_positive or kernel.assume_psd:
            return 0.0
        return np.nan if n > _MOST_FACTORED else _ridge(self._whole())

    @functools.cached_property
    def skew(self):
        """By how much a matrix that is given, or a function's, where that was factorised, is not symmetric."""
        if self.points.kernel.name != "precomputed" and not self.ridge > 0:
            return 0.0
        return asymmetry(self._whole())[1]

    def disprove(self):
        """Take note that some |w|^2 is negative, or a dual value above a primal one: there is no dual.

        Where there is one by the kernel's form, that is rounding.
        """
        if not self.points.kernel.is_positive:
            self.ridge = np.nan

    def _whole(self):
        """The kernel matrix."""
        rows = np.arange(len(self.points))
        if self.points.kernel.name == "precomputed":
            return self.columns
        if self.holds_all:
            self.keep(rows)
            return self.columns[self.place]
        matrix = np.empty(self.shape, self.points.dtype)
        self._fill(rows, matrix)
        return matrix

    @property
    def holds_all(self):
        """Whether there is room for all columns."""
        return len(self.columns) == len(self.points)

    def inside(self, labels, n_threads=None):
        """The rows of one problem, and a cache of the kernel matrix among them.

        That is this one, of all rows, unless most of them are not in the problem (label 0), as in one-vs-one.
        Others have a part of its room, the same however many threads there are: so results are the same.

        Returns
        -------
        rows : ndarray of int or slice
        cache : ColumnCache
        """
        if not self.is_divided_by(labels):
            return slice(None), self
        rows, room = np.flatnonzero(labels), self._megabytes / _SIDE_BY_SIDE
        return rows, ColumnCache(self.points[rows], room, n_threads or self._n_threads)

    def is_divided_by(self, labels):
        """Whether each of these problems has a cache of its own."""
        few = np.count_nonzero(labels, axis=-1) <= _MOST * labels.shape[-1]
        return self._divides and few.all()

    def side_by_side(self, n_problems):
        """How many problems that have caches of their own are to go side by side, and the threads of each."""
        n = min(self._n_threads, n_problems, _SIDE_BY_SIDE)
        return n, self._n_threads // n

    def scores(self, points, labels):
        """Scores of every problem's own rows under its coefficients; those of others are left 0.

        Parameters
        ----------
        points : ndarray of shape (n_sets, n_problems, n)
            Several sets of coefficients.
        labels : ndarray of int8 of shape (n_problems, n)

        Returns
        -------
        ndarray of float64 of shape (n_sets, n_problems, n)
        """
        scores, together = np.zeros(points.shape), []
        for k, y in enumerate(labels):
            rows, cache = self.inside(y)
            if cache is self or points[:, k, y == 0].any():
                together.append(k)
                continue
            coef = points[:, k, rows]
            support = np.flatnonzero(coef.any(axis=0))
            scores[:, k, rows] = cache.push(coef[:, support], support)
        if together:
            # At once: what takes time is the kernel matrix.
            shape = len(points), len(together), len(self.points)
            coef = points[:, together].reshape(shape[0] * shape[1], shape[2])
            support = np.flatnonzero(coef.any(axis=0))
            pushed = self.push(coef[:, support], support)
            scores[:, together] = pushed.reshape(shape)
        return scores

    @_threads.blas.one_thread()
    def scores_in_double(self, coef, rows):
        """Scores of some rows, which those with coefficients are part of; values in float64, not kept.

        Parameters
        ----------
        coef : ndarray of shape (n_problems, n)
        rows : ndarray of int

        Returns
        -------
        ndarray of shape (n_problems, len(rows))
        """
        # Those with coefficients first: values between two of them serve both.
        is_support = coef[:, rows].any(axis=0)
        order = np.argsort(~is_support, kind="stable")
        rows, n_support = rows[order], np.count_nonzero(is_support)
        coef, sums = coef[:, rows[:n_support]], np.zeros((len(coef), len(rows)))
        for block in _parts(len(rows), 8 * self.PIECE):  # of whole pieces
            some = self.points.in_double(rows[block])
            for piece in _parts(min(block.stop, n_support), self.PIECE):
                others = self.points.in_double(rows[piece])
                first = max(piece.start, block.start)
                values = np.empty((len(others), block.stop - first))
                some.fill(others, first - block.start, values, self._n_threads)
                factors = np.ascontiguousarray(coef[:, piece])
                _core.push(values, np.arange(len(others)), factors, sums[:, first : block.stop])
                again = slice(max(piece.stop, first), min(block.stop, n_support))
                if again.start < again.stop:
                    mirrored = values[:, again.start - first : again.stop - first]
                    sums[:, piece] += coef[:, again] @ mirrored.T
        scores = np.empty_like(sums)
        scores[:, order] = sums
        return scores

    def doubt(self, points, dtype):
        """What rounding of kernel values to `dtype` can make of scores: (n_sets, n_problems).

        Sums of scores, in float64, are part of it. Of matrices that are given, or functions, only what is
        not symmetric in them.
        """
        if not self.points.kernel.is_positive:
            return self.skew / 2 * np.abs(points).sum(axis=-1)
        errors, sizes = self.points.rounding(dtype)
        n_added = np.count_nonzero(points, axis=-1)[..., None]
        added = (n_added + 2) * np.finfo(np.float64).eps * sizes
        return (np.abs(points) * (errors + added)).sum(axis=-1)

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
        if not self.points.is_cheap:
            self.keep(rows)
        place, scores = self.place[rows], np.zeros((len(coef), len(self.points)))
        here = place >= 0
        self._push(self.columns, place[here], coef[:, here], scores)
        self._push_computed(rows[~here], coef[:, ~here], scores)
        return scores

    def _push(self, columns, which, coef, scores):
        """Push `columns` number `which`."""
        pieces = [(which[some], coef[:, some].copy()) for some in _parts(len(which), self.PIECE)]

        def push(first, last):
            for places, factors in pieces:
                _core.push(columns[:, first:last], places, factors, scores[:, first:last])
                yield

        # A kernel value takes about eight times as long.
        _share(len(self.points), coef.size // 8, push, self._n_threads)

    def _push_computed(self, rows, coef, scores):
        """Push columns that are not kept."""
        points = self.points
        if not points.is_thin:
            points.add_scores(points[rows], coef, scores, self._n_threads)
            return
        for some in _parts(len(rows), self.PIECE):
            columns = np.empty((len(rows[some]), len(points)), points.dtype)
            self._fill(rows[some], columns)
            self._push(columns, np.arange(len(columns)), coef[:, some], scores)

    def keep(self, rows):
        """Compute columns of `rows` that are not here, as many as there is room for."""
        rows = rows[self.place[rows] < 0]
        rows = rows[: len(self.columns) - self._used]
        for some in _parts(len(rows), 4 * self.PIECE):
            part = rows[some]
            begin, end = self._used, self._used + len(part)
            self._fill(part, self.columns[begin:end])
            self.place[part] = np.arange(begin, end)
            self._used = end

    def _fill(self, rows, out):
        """Write kernel values between some of the points and all of them into `out`."""
        points = self.points
        if points.is_thin:
            _ = points.inverted  # before threads ask for it

            def fill(first, last):
                for part in _parts(last - first, _CHUNK_SPARSE, first):
                    yield from points[rows[part]].pieces_against(points, out[part])

            points.share_values(len(rows), len(points), fill, self._n_threads, _CHUNK_SPARSE)
            return
        size = points.piece(self.PIECE, _CHUNK)
        pieces = [(points[rows[some]], out[some]) for some in _parts(len(rows), size)]

        def fill_tiles(first, last):
            for some, columns in pieces:
                for _ in points.tiles(some, first, last, columns):
                    yield

        points.share_values(len(points), len(rows), fill_tiles, self._n_threads, _CHUNK)

    def among(self, rows, columns, out):
        """Write kernel values between two selections of the points into `out`.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            Columns of these that are here are read, if that is the faster way; other values are computed.
        columns : Selection
            From `select`.
        out : ndarray of shape (m, len(columns))
        """
        points, place = self.points, self.place[rows]
        if points.is_thick and len(points) > _FAR * len(columns.rows):
            missing = np.arange(len(rows))
        else:
            missing = np.flatnonzero(place < 0)
            if len(missing) < len(rows):

                def gather(first, last):
                    for some in _parts(last - first, self.PIECE, first):
                        _core.gather(self.columns, place[some], columns.rows, out[some])
                        yield

                _share(len(rows), len(columns.rows), gather, self._n_threads)
        if not len(missing):
            return
        others = columns.points
        if others.is_thin:
            _ = others.inverted  # before threads ask for it

        def compute(first, last):
            for part in _parts(last - first, _CHUNK_AMONG, first):
                some = missing[part]
                values = np.empty((len(some), len(others)), points.dtype)
                yield from points[rows[some]].pieces_against(others, values)
                out[some] = values

        points.share_values(len(missing), len(others), compute, self._n_threads, _CHUNK_AMONG)

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


def _dense(X):
    try:
        return X.toarray()
    except (MemoryError, ValueError):
        raise MemoryError(
            f"X has {X.shape[1]} features, more than memory has room for when a row is made dense"
        ) from None


def is_symmetric(matrix):
    """Whether a square matrix is symmetric up to rounding."""
    return asymmetry(matrix)[1] <= _SYMMETRIC * np.abs(matrix).max(initial=0)


def asymmetry(matrix):
    """Where a square matrix is least symmetric, and by how much, block by block."""
    place, most = (0, 0), 0.0
    for rows in _parts(len(matrix), _DIAGONAL):
        for columns in _parts(rows.stop, _PIECE):
            difference = np.abs(matrix[rows, columns] - matrix[columns, rows].T)
            at = np.unravel_index(np.argmax(difference), difference.shape)
            if difference[at] > most:
                place, most = (int(rows.start + at[0]), int(columns.start + at[1])), difference[at]
    return place, float(most)


def _ridge(matrix):
    """As `ColumnCache.ridge`, of a matrix at hand.

    If a factorisation A = L L^T succeeds in floating point, A is positive semi-definite but for
    (n + 1) u trace(A), u being the unit roundoff (Rump: Verification of positive definiteness, BIT 46
    (2006) 433-452). A is the matrix and a little on its diagonal: at most what rounding to the type of the
    matrix accounts for.
    """
    n, (_, skew) = len(matrix), asymmetry(matrix)
    trace, largest = float(matrix.trace(dtype=np.float64)), np.abs(matrix).max()
    if not (skew <= _SYMMETRIC * largest and 0 < trace < np.inf):
        return np.nan
    symmetric = matrix.astype(np.float64)
    symmetric += symmetric.T
    symmetric /= 2
    diagonal = symmetric.diagonal().copy()
    least, most = (n + 1) * np.finfo(np.float64).eps * trace, np.finfo(matrix.dtype).eps * trace
    for added in (least, max(least, most)):
        symmetric[np.diag_indices(n)] = diagonal + added
        try:
            np.linalg.cholesky(symmetric)
        except np.linalg.LinAlgError:
            continue
        return added + least
    return np.nan


def _share(n, width, work, n_threads, size=1):
    """Exhaust ``work(first, last)``, a generator, for shares of range(n), of `width` values each.

    Each begins at a multiple of `size`.
    """
    n_pieces = -(-n // size)
    n_threads = max(1, min(n_threads, 1 + n * width // _FEW, n_pieces))
    ends = [min(n, size * (n_pieces * k // n_threads)) for k in range(n_threads + 1)]
    jobs = [functools.partial(work, *pair) for pair in itertools.pairwise(ends)]
    _threads.in_threads(jobs, n_threads)


def _parts(n, size, first=0):
    """Slices of at most `size` that cover first, ..., first + n - 1."""
    return [slice(k, min(k + size, first + n)) for k in range(first, first + n, size)]
