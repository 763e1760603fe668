"""A cache of columns of a kernel matrix."""

import functools
import threading
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.kernels._factor import factor
from pegasos.kernels._positive import asymmetry, ridge

# Numbers of rows that are made double at a time.
_IN_DOUBLE = 2**24
# A problem that has no more than this part of all rows gets a kernel matrix of its own.
_MOST = 1 / 2
# All columns of so few points are computed at once, where there is room for them. Several problems
# ask for most of them, and can then go side by side: digits and 700 to 4000 rows of ten classes
# take 0.65 of the time on two cores, 0.85 to 1.0 on one. One problem of 600 to 1000 rows takes 0.7
# to 1.0 of the time, and up to 1.4 where hardly a row is within its margin.
_SMALL, _SMALL_IF_SHARED, _SHARED = 1024, 8192, 3
# At most this many of these problems are trained at a time.
_SIDE_BY_SIDE = 8
# Matrices of at most this many rows are factorised, to see whether they are positive semi-definite.
# It takes about as long as a product of two such matrices, some hundredths of a second.
_MOST_FACTORED = 1000


# Layout of what certificates know of a point, that of ``struct pegasos_point_sums``.
_SUMS = np.asarray(_core.BLANK_SUMS).dtype


class ColumnCache:
    """Columns of the kernel matrix of `points`, each computed once as long as there is room.

    A column that found room stays. Rows are visited in random order, so room for half of the
    columns meets half of the requests; no replacement could do much better. Columns that take less
    time to compute than to fetch are kept only on demand.

    Parameters
    ----------
    points : Points
    megabytes : float
        Room. 64-bit sizes throughout. A precomputed matrix is used where it lies.
    n_threads : int
        At most so many work at a time, and BLAS has one. Results do not depend on it.
    divides : bool
        Whether problems that have few of the points get caches of their own. That does not pay
        where columns serve several solvers, or several folds.
    n_problems : int
        How many problems columns serve.

    Attributes
    ----------
    columns : ndarray of shape (room, n)
    place : ndarray of int64 of shape (n,)
        Which of `columns` belongs to each point; -1: none.
    """

    def __init__(
        self,
        points: Any,
        megabytes: float,
        n_threads: int = 1,
        divides: bool = False,
        n_problems: int = 1,
    ) -> None:
        n = len(points)
        self._small = _SMALL_IF_SHARED if n_problems >= _SHARED else _SMALL
        self.points, self._megabytes, self._n_threads = points, megabytes, n_threads
        self._divides = divides
        self._parts: Parts | None = None
        self._factor: np.ndarray | None = None
        self._lock = threading.Lock()
        if points.kernel.is_given:
            self.columns, self.place = points.X, np.arange(n)
            return
        capacity = int(min(n, megabytes * 2**20 / (max(n, 1) * points.dtype.itemsize)))
        try:  # pages are taken when written
            self.columns = np.empty((capacity, n), dtype=points.dtype)
        except MemoryError:
            raise MemoryError(
                f"cache_size={megabytes:g} MB is more than memory has room for, with {capacity} "
                f"columns of {n} numbers"
            ) from None
        self.place = np.full(n, -1, dtype=np.int64)

    @functools.cached_property
    def core(self) -> _core.Columns:
        """These columns, for the core, which fills them."""
        points = None if self.points.kernel.is_given else self.points.core
        return _core.Columns(
            points, self.columns, self.place, is_cheap=self.points.is_cheap,
            is_all_at_once=self.is_small,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, int]:
        """Of the kernel matrix."""
        return len(self.points), len(self.points)

    @property
    def size(self) -> int:
        """How many numbers the kernel matrix has."""
        return len(self.points) ** 2

    @property
    def room(self) -> float:
        """Bytes that columns may take."""
        return self._megabytes * 2**20

    @property
    def is_positive(self) -> bool:
        """Whether the kernel matrix is known to be positive semi-definite, so that there is a dual.

        The kernel's form says so, the user vouches for it, or a factorisation shows it.
        """
        return not np.isnan(self.ridge)

    @functools.cached_property
    def ridge(self) -> float:
        """What makes the matrix positive semi-definite for certain, when added to its diagonal.

        0 where the kernel's form or the user says that it is, NaN where nothing is known.
        """
        kernel, n = self.points.kernel, len(self.points)
        if kernel.is_positive or kernel.assume_psd:
            return 0.0
        return np.nan if n > _MOST_FACTORED else ridge(self._whole())

    @functools.cached_property
    def skew(self) -> float:
        """The largest asymmetry of a matrix that is given or was factorised; else 0."""
        if not (self.points.kernel.is_given or self.ridge > 0):
            return 0.0
        return asymmetry(self._whole())[1]

    @functools.cached_property
    def diagonal(self) -> np.ndarray:
        """K(x, x) of every point, in float64."""
        here = np.flatnonzero(self.place >= 0)
        if len(here) < len(self.points):
            return self.points.diagonal()
        return self.columns[self.place, here].astype(np.float64)

    def disprove(self) -> None:
        """Take note of a negative |w|^2, or of a dual value above a primal one: there is no dual.

        That refutes the user's word only. Of a matrix that is positive by its form, or was
        factorised, rounding is the cause, for which certificates leave room.
        """
        kernel = self.points.kernel
        if kernel.assume_psd and not kernel.is_positive:
            self.ridge = np.nan

    def _whole(self) -> np.ndarray:
        """The kernel matrix."""
        rows = np.arange(len(self.points))
        if self.points.kernel.is_given:
            return self.columns
        if self.holds_all:
            self.keep(rows)
            return self.columns[self.place]
        return self.points.against(self.points)

    @property
    def holds_all(self) -> bool:
        """Whether there is room for all columns."""
        return len(self.columns) == len(self.points)

    @property
    def is_small(self) -> bool:
        """Whether `keep` computes all columns at once, column i in place i."""
        return len(self.points) <= self._small and self.holds_all

    def inside(self, labels: np.ndarray, n_threads: int | None = None) -> tuple[Any, Any]:
        """The rows of one problem, and a cache of the kernel matrix among them.

        This cache serves all rows. A problem that most rows are not in (label 0), as in one-vs-one,
        has a new one with a fixed part of the room: results do not depend on the number of threads.

        Returns
        -------
        rows : ndarray of int or slice
        cache : ColumnCache
        """
        if not self.is_divided_by(labels):
            return slice(None), self
        rows = np.flatnonzero(labels)
        return rows, self._of_rows(rows, n_threads or self._n_threads)

    def _of_rows(self, rows: np.ndarray, n_threads: int) -> "ColumnCache":
        return ColumnCache(self.points[rows], self._megabytes / _SIDE_BY_SIDE, n_threads)

    def matrix_inside(self, labels: np.ndarray, k: int, rows: np.ndarray, n_threads: int) -> Any:
        """The kernel matrix among the rows of problem `k`, with `columns`, `place` and `factor`.

        Parameters
        ----------
        labels : ndarray of int8 of shape (n_problems, n)
        k : int
        rows : ndarray of int64
            The problem's rows, in ascending order.
        n_threads : int
            At most so many work at a time on a matrix that is not there.
        """
        if self.is_small and labels[k].any():
            return Inside(self, rows, self.parts(labels).columns_of(k))
        return self._of_rows(rows, n_threads)

    def factor(self) -> np.ndarray:
        """L of shape (n, rank), K = L L^T but for rounding; see `pegasos.kernels._factor`."""
        # Of threads that solve problems of this matrix, one computes it.
        with self._lock, _threads.blas.one_thread():
            if self._factor is None:
                self._factor = factor(self)
        return self._factor

    def is_divided_by(self, labels: np.ndarray) -> bool:
        """Whether each of these problems has a cache of its own."""
        if not self._divides or labels.all():
            return False
        few = np.count_nonzero(labels, axis=-1) <= _MOST * labels.shape[-1]
        return bool(few.all())

    def parts(self, labels: np.ndarray) -> "Parts":
        """Which rows each problem has, and all columns, in an order in which those lie together."""
        known = self._parts
        if known is None or not (known.labels is labels or np.array_equal(known.labels, labels)):
            known = self._parts = Parts(self, labels)
        return known

    def side_by_side(self, n_problems: int) -> tuple[int, int]:
        """How many problems with caches of their own go side by side, and the threads of each."""
        n = min(self._n_threads, n_problems, _SIDE_BY_SIDE)
        return n, self._n_threads // n

    def scores(self, points: Any, labels: np.ndarray) -> np.ndarray:
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
        if labels.all():  # every row is every problem's own
            coef = points.reshape(-1, len(self.points))
            support = np.flatnonzero(coef.any(axis=0))
            return self.push(coef[:, support], support).reshape(points.shape)
        scores, together = np.zeros(points.shape), []
        # A model may have rows that have left its problem: their weights are 0 by now.
        are_own = not points[:, labels == 0].any()
        if are_own and self.is_small and self.is_divided_by(labels):
            parts = self.parts(labels)
            for k in range(len(points)):
                _core.push_inside(
                    parts.cache.columns, parts.first, parts.inside, parts.rows, points[k], scores[k]
                )
            return scores
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

    def scores_in_double(self, coef: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Scores of some rows, by kernel values in float64 that are not kept.

        Parameters
        ----------
        coef : ndarray of shape (n_problems, n)
        rows : ndarray of int
            All rows with coefficients, and others.

        Returns
        -------
        ndarray of shape (n_problems, len(rows))
        """
        # Those with coefficients first: values between two of them serve both.
        is_support = coef[:, rows].any(axis=0)
        order = np.argsort(~is_support, kind="stable")
        rows, support = rows[order], rows[is_support]
        coef, sums = coef[:, support], np.zeros((len(coef), len(rows)))
        size = max(1, _IN_DOUBLE // self.points.X.shape[1])
        for first in range(0, len(rows), size):
            block = slice(first, first + size)
            points = self.points.in_double(rows[block])
            for begin in range(0, len(support), size):
                part = slice(begin, begin + size)
                is_first = len(points) == len(rows)
                some = None if is_first else self.points.in_double(support[part])
                points.add_scores(some, coef[:, part], sums[:, block], self._n_threads)
        scores = np.empty_like(sums)
        scores[:, order] = sums
        return scores

    def rounding(self, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """By how much kernel values of each point may be off, computed in `dtype`, and their sizes.

        Where nothing is known of the kernel's form, the error is what asymmetry can change.
        """
        n = len(self.points)
        if self.points.kernel.has_weights:  # certificates go by way of them
            return np.zeros(n), np.zeros(n)
        if not self.points.kernel.is_positive:
            lengths = np.sqrt(np.abs(self.diagonal))
            return np.full(n, self.skew / 2), lengths * lengths.max(initial=0)
        errors, sizes = self.points.kernel.rounding(self.points, dtype)
        return np.broadcast_to(errors, sizes.shape).astype(np.float64), sizes

    def sums(self, points: np.ndarray, scores: np.ndarray, dtype: Any = np.float64) -> Any:
        """Sums over each of several points, with their scores, computed in `dtype`.

        Returns
        -------
        structured ndarray of shape (n_sets, n_problems)
            See ``pegasos_point_sums`` in the core.
        """
        flat = (-1, points.shape[-1])
        sums = np.zeros(points.shape[:-1], _SUMS)
        _core.point_sums(
            points.reshape(flat), scores.reshape(flat), *self.rounding(dtype), sums.reshape(-1)
        )
        return sums

    def scores_of(self, coef: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Scores of some rows under coefficients (n_problems, n), of as many rows; None: of all."""
        support = np.flatnonzero(coef.any(axis=0))
        if rows is None:
            return self.push(coef[:, support], support)
        values = np.empty((len(support), len(rows)), self.points.dtype)
        self.among(support, rows, values)
        return coef[:, support] @ values

    def push(self, coef: np.ndarray, rows: np.ndarray) -> Any:
        """Scores of all points under coefficients of some: ``coef @ K[rows]``, summed in double.

        Parameters
        ----------
        coef : ndarray of shape (n_problems, len(rows))
        rows : ndarray of int of shape (m,)

        Returns
        -------
        ndarray of float64 of shape (n_problems, n_points)
        """
        scores = np.zeros((len(coef), len(self.points)))
        if len(rows):
            with self.points.work(len(rows), self._n_threads) as work:
                self.core.add(rows, np.ascontiguousarray(coef, np.float64), scores, *work)
        return scores

    def keep(self, rows: np.ndarray) -> None:
        """Compute columns of `rows` that are not here, as many as there is room for."""
        with self.points.work(len(rows), self._n_threads) as work:
            self.core.keep(rows, *work)

    def among(self, rows: np.ndarray, which: np.ndarray, out: np.ndarray) -> None:
        """Write kernel values between two selections of the points into `out`.

        Values from columns in the cache are read if that is faster; others are computed.
        """
        with self.points.work(len(rows), self._n_threads) as work:
            self.core.among(rows, which, out, *work)


class Parts:
    """The rows of problems that have few each, as in one-vs-one, and kernel values among them.

    Rows of one class lie together here: what a problem needs of a column are two pieces.

    Attributes
    ----------
    cache : ColumnCache
        All columns of the points in this order.
    first : ndarray of int64 of shape (n_problems + 1,)
        Where the rows of each problem begin, and the last ones end,
    inside, rows : ndarray of int64
        in these lists of all of them: numbers in `cache`, and in the cache that this is made of,
        which ascend.
    """

    def __init__(self, cache: ColumnCache, labels: np.ndarray) -> None:
        self.labels, n = labels, len(cache.points)
        order = np.arange(n)
        if not cache.points.kernel.is_given:
            # The first problem that a row is in, and its label there, tell its class.
            problem = (labels != 0).argmax(axis=0)
            order = np.lexsort((labels[problem, order], problem))
            cache = ColumnCache(cache.points[order], cache._megabytes, cache._n_threads,
                                n_problems=len(labels))  # fmt: skip
        cache.keep(np.arange(n))
        self.cache = cache
        self.first = np.zeros(len(labels) + 1, np.int64)
        np.cumsum(np.count_nonzero(labels, axis=1), out=self.first[1:])
        places = np.empty(n, np.int64)
        places[order] = np.arange(n)
        self.rows = np.flatnonzero(labels) % n
        self.inside = places[self.rows]

    def columns_of(self, k: int) -> np.ndarray:
        """The kernel matrix among the rows of problem `k`."""
        inside = self.inside[self.first[k] : self.first[k + 1]]
        columns = np.empty((len(inside), len(inside)), self.cache.columns.dtype)
        self.cache.core.among(inside, inside, columns, _core.Watch())
        return columns


class Inside:
    """The whole kernel matrix among some rows of a cache."""

    def __init__(self, cache: ColumnCache, rows: np.ndarray, columns: np.ndarray) -> None:
        self.cache, self.rows = cache, rows
        self.core = _core.Columns(None, columns, np.arange(len(rows)))

    def factor(self) -> np.ndarray:
        """As that of the cache."""
        return np.ascontiguousarray(self.cache.factor()[self.rows])
