"""Parts of matrices, as the core takes them, and scores of their rows."""

import zlib
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _validate

# Rounding to float32 may move a number by this part of its column's range.
_BLUR = 1e-4
# Dense rows of at least _MANY_NUMBERS become CSR if at most _MOST_STORED of the numbers are not
# zero. _ROWS_ASKED rows are counted first, which takes no time.
_MANY_NUMBERS, _MOST_STORED, _ROWS_ASKED = 2**18, 1 / 8, 64
# Sparse rows with _MANY_COLUMNS or more are trained without empty columns, if most are empty. With
# more than _FEW numbers a column, to count empty columns would take 3 % of a fit.
_MANY_COLUMNS, _FEW = 2**14, 2
# Rows span a space of few dimensions if there are at least _WIDE features a row, and at most
# _MOST_SPANNED rows: with more, a call of LAPACK would make Ctrl-C wait.
_WIDE, _MOST_SPANNED = 2, 1500
# Products of rows are summed over blocks of features with this many numbers.
_NUMBERS_AT_ONCE = 2**19
# A number is above rounding errors if it is at least this many times as large.
_SURE = 10
# Products and additions that BLAS makes in a second, and the other seconds of a change to a span.
_PRODUCTS_PER_SECOND, _SECONDS_BESIDE = 4e10, 5e-4


def of_training(X: Any) -> tuple[_core.Rows, np.dtype]:
    """The rows of a checked `X` for the training of linear machines, and their type.

    Dense rows that are mostly zeros, such as indicators of categories, become CSR.
    """
    if not _validate.is_sparse(X) and X.size >= _MANY_NUMBERS:
        some = X[:: max(len(X) // _ROWS_ASKED, 1)]
        if all(np.count_nonzero(part) <= _MOST_STORED * part.size for part in (some, X)):
            X = without_zeros(X)
    return _validate.rows(X, checked=True)


def without_empty_columns(rows: _core.Rows) -> tuple[_core.Rows, Any]:
    """Rows without their empty columns, if most are empty, and the columns left; None: all.

    Weights of empty columns are always 0. But vectors of all columns would take most of the time
    and memory of fits of hashed text.
    """
    d = rows.shape[1]
    if rows.is_sparse and 0 < rows.size <= _FEW * d and _MANY_COLUMNS <= d < 2**31:
        return rows.without_empty_columns(d // 2) or (rows, None)
    return rows, None


def with_empty_columns(weights: np.ndarray, columns: Any, n_features: int) -> np.ndarray:
    """Weights of all columns, given those of `columns`; see `without_empty_columns`."""
    if columns is None:
        return weights
    of_all = zero_weights(len(weights), n_features, weights.dtype)
    of_all[:, columns] = weights
    return of_all


def zero_weights(n_problems: int, n_features: int, dtype: Any = np.float64) -> np.ndarray:
    """Zeros for the weights of all columns, or a MemoryError with their number."""
    try:
        return np.zeros((n_problems, n_features), dtype)
    except (MemoryError, ValueError):  # a ValueError if no memory could have the room
        raise MemoryError(
            f"{n_features} weights for each of {n_problems} problems are more than memory has room "
            "for"
        ) from None


def span_few(n_rows: int, n_features: int) -> bool:
    """Whether rows are few compared with their features."""
    return _WIDE * n_rows <= n_features and n_rows <= _MOST_SPANNED


def are_wide(rows: _core.Rows) -> bool:
    """Whether rows are few enough for a `Span`, and their norms finite."""
    return span_few(*rows.shape) and bool(np.isfinite(rows.squared_norms()).all())


class Span:
    """Coordinates of rows in the space that they span, which has few dimensions.

    X = L Q, where Q has orthonormal rows and L L^T = X X^T. A model w = Q^T v for the rows X has
    the norm of v, and its scores are those of v for the rows L. So both have the same objective,
    dual variables and intercept, and a part of w outside the span would be useless. L is a Cholesky
    factor; Q is never computed.

    Rounding errors of X X^T, and what is added to its diagonal to make it definite, are relative to
    |x_i| |x_j|. The problems over L and X are equal up to these errors.
    """

    def __init__(self, rows: _core.Rows) -> None:
        (n, d), X = rows.shape, _matrix_of(rows)
        gram = np.zeros((n, n))
        width = max(_NUMBERS_AT_ONCE // n, 1)
        with _threads.blas.one_thread():  # so that sums do not depend on the number of threads
            for first in range(0, d, width):
                block = X[:, first : first + width].astype(np.float64)
                block = block.toarray() if rows.is_sparse else block
                gram += block @ block.T
            lengths = np.sqrt(gram.diagonal())
            sizes = np.where(lengths > 0, lengths, 1)
            gram /= sizes
            gram /= sizes[:, None]
            self._factor, self._error = _factor_of(gram)
        L = self._factor * lengths[:, None]
        self.rows, self.fingerprint = _core.Rows(L), fingerprint(L)
        self._given, self._sizes = rows, sizes[:, None]

    @property
    def is_sure(self) -> bool:
        """Whether most rows have a part of their own that is above rounding errors.

        False if all rows are far from 0, for instance, or one column is a million times the others.
        """
        return bool(np.median(self._factor.diagonal()) ** 2 >= _SURE * self._error)

    @staticmethod
    def passes(rows: _core.Rows) -> float:
        """About how many passes over the rows take as long as finding the span."""
        n, d = rows.shape
        seconds = n * n * d / _PRODUCTS_PER_SECOND + _SECONDS_BESIDE
        return seconds / max(seconds_a_pass(rows), 1e-12)

    def coef(self, coordinates: np.ndarray) -> np.ndarray:
        """Coefficients w = Q^T v of all features, given v; one row for each problem."""
        factors = self._solve(coordinates.T, trans=1) / self._sizes
        return self._given.combine(np.ascontiguousarray(factors.T))

    def coordinates(self, coef: np.ndarray) -> np.ndarray:
        """The part v = Q w of coefficients that affects scores; see `coef`."""
        scores = decision_function(self._given, coef, np.zeros(len(coef)))
        return np.ascontiguousarray(self._solve(scores / self._sizes).T)

    def _solve(self, vectors: np.ndarray, trans: int = 0) -> Any:
        from scipy.linalg import solve_triangular

        return solve_triangular(self._factor, vectors, trans, lower=True, check_finite=False)


def _matrix_of(rows: _core.Rows) -> Any:
    """Rows as a matrix whose columns can be sliced."""
    arrays = [np.asarray(array) for array in rows.arrays]
    if not rows.is_sparse:
        return arrays[0]
    from scipy import sparse

    values, indices, ends = arrays
    indices = indices[: len(values)]  # `values` are cut to their length already
    return sparse.csr_array((values, indices, ends), shape=rows.shape).tocsc()


def span_of(rows: _core.Rows) -> Span | None:
    """The span of wide rows, if its coordinates can replace them; else None."""
    span = Span(rows) if are_wide(rows) else None
    return span if span and span.is_sure else None


def _factor_of(gram: np.ndarray) -> tuple[np.ndarray, float]:
    """The Cholesky factor of a matrix of products of unit vectors, up to rounding errors.

    Also returns what was added to the diagonal because of these errors.
    """
    error = len(gram) * np.finfo(np.float64).eps
    while True:
        np.fill_diagonal(gram, 1 + error)
        try:
            return np.linalg.cholesky(gram), error
        except np.linalg.LinAlgError:
            error *= 10


def survives_rounding(X: Any) -> bool:
    """Whether float32 tells rows apart as `X` does.

    True if no number overflows, and rounding moves none by more than a small part of its column's
    range: timestamps, for example, lose all differences. For sparse rows, only columns that most
    rows have are checked; in others, zeros are far from the rest.
    """
    largest = np.finfo(np.float32).max
    if not _validate.is_sparse(X):
        least, most = X.min(axis=0), X.max(axis=0)
    else:
        if X.nnz and not max(X.data.max(), -X.data.min()) < largest:
            return False
        is_common = np.bincount(X.indices, minlength=X.shape[1]) > X.shape[0] / 2
        if not is_common.any():
            return True
        inside = is_common[X.indices]
        columns, values = X.indices[inside], X.data[inside]
        least, most = np.full((2, X.shape[1]), [[np.inf], [-np.inf]])
        np.minimum.at(least, columns, values)
        np.maximum.at(most, columns, values)
        least, most = least[is_common], most[is_common]
    sizes, ranges = np.maximum(np.abs(least), np.abs(most)), most - least
    rounding = sizes * np.finfo(np.float32).eps / 2
    return bool((((rounding <= _BLUR * ranges) | (ranges == 0)) & (sizes < largest)).all())


def narrowed(rows: _core.Rows) -> _core.Rows:
    """Sparse rows in single precision; see `survives_rounding`."""
    values, indices, indptr = (np.asarray(array) for array in rows.arrays)
    return _core.Rows(values.astype(np.float32), indices, indptr, rows.shape[1])


def seconds_a_pass(rows: _core.Rows) -> float:
    """About how long it takes to multiply all rows by a vector."""
    n, d = rows.shape
    return rows.size * (0.4e-9 if rows.size == n * d else 1.5e-9)


def fingerprint(*arrays: Any, crc: int = 0) -> int:
    """Return a checksum of arrays, dense or sparse, that finds mistakes but proves nothing."""
    for array in arrays:
        is_sparse = _validate.is_sparse(array)
        for part in (array.data, array.indices, array.indptr) if is_sparse else (array,):
            crc = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).ravel(), crc)
    return crc


def without_zeros(X: Any) -> Any:
    """A dense array as CSR, in a quarter of the time that SciPy takes."""
    from scipy import sparse

    inside = X != 0
    counts = np.count_nonzero(inside, axis=1)
    ends = np.concatenate([[0], np.cumsum(counts)])
    dtype = np.int32 if max(ends[-1], X.shape[1]) < 2**31 else np.int64
    places = np.flatnonzero(inside)
    values = X.ravel()[places]
    places -= np.repeat(np.arange(len(X)) * X.shape[1], counts)
    return sparse.csr_array((values, places.astype(dtype), ends.astype(dtype)), shape=X.shape)


def laid_out(
    rows: _core.Rows, coef: np.ndarray, n_scored: int | None = None, n_groups: int = 1
) -> tuple[np.ndarray, bool]:
    """Coefficients (n_problems, n_features) in the fastest layout, and whether it is interleaved.

    `n_scored` is how many of the rows a group of problems will score; None: all. There are
    `n_groups` groups of equally many problems, each laid out by itself.
    """
    # Several problems are faster with interleaved coefficients. For dense rows, that changes the
    # bits of sums. So only the number of problems decides there: a row's scores must not depend on
    # the rows that are scored with it. For sparse rows, bits are the same either way; if they are
    # few, interleaving would take longer than scoring.
    least = 2 if rows.is_sparse else 4
    part, n_problems = (n_scored or rows.shape[0]) / rows.shape[0], len(coef) // n_groups
    is_worth_it = not rows.is_sparse or part * rows.size > 2 * rows.shape[1]
    is_worth_it = is_worth_it or (n_groups == 1 and coef.T.flags.c_contiguous)
    interleaved = n_problems >= least and is_worth_it
    if not interleaved:
        return np.ascontiguousarray(coef), False
    of_groups = coef.reshape(n_groups, n_problems, -1) if n_groups > 1 else coef[None]
    return np.ascontiguousarray(of_groups.transpose(0, 2, 1)).reshape(-1, n_problems), True


def decision_function(
    rows: _core.Rows, coef: np.ndarray, intercept: np.ndarray, which: np.ndarray | None = None
) -> np.ndarray:
    """Scores of the rows number `which`, or of all, of shape (n_rows, n_problems).

    `coef` has shape (n_problems, n_features) and is float64 or of the type of the rows.
    """
    coef, interleaved = laid_out(rows, coef, None if which is None else len(which))
    return _core.decision_function(rows, coef, np.ascontiguousarray(intercept), interleaved, which)


def scores_of_groups(
    rows: _core.Rows, coef: np.ndarray, intercept: np.ndarray, groups: list[np.ndarray]
) -> list[np.ndarray]:
    """Scores of groups of rows, each by its own problems; all groups have equally many problems.

    `coef` and `intercept` have one group's problems after the other; see `decision_function`.
    """
    ends = np.cumsum([len(which) for which in groups])
    coef, interleaved = laid_out(rows, coef, int(ends[-1]) // len(groups), len(groups))
    scores = _core.decision_function(
        rows, coef, np.ascontiguousarray(intercept), interleaved, np.concatenate(groups), ends
    )
    return np.split(scores, ends[:-1])
