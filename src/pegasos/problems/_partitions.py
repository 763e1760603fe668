"""Rows in partitions, which are checked in place; the client knows only what describes them all."""

import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from pegasos.problems import _rows, _validate


class Arrays(SimpleNamespace):
    """Arrays under names, which are aligned again after they come from another process.

    A cluster may put them at any address. The core refuses unaligned arrays, and NumPy sums them in
    other pieces.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            is_array = isinstance(value, np.ndarray) or _validate.is_sparse(value)
            self.__dict__[name] = _validate.aligned(value) if is_array else value


def checked(
    number: int, X: Any, y: Any, weights: Any, local: Any, with_checksum: bool = False
) -> Arrays:
    """The checked rows of a partition, and `about`, a description for the client.

    `local` is the estimator that checks X, y and weights as a fit in memory would, except that all
    weights of a partition may be 0. If asked for, `about` has a checksum of the whole partition. If
    the rows are refused, `about` is the error: a task that raises would be logged by its worker.
    """
    try:
        return _checked(X, y, weights, local, with_checksum)
    except (TypeError, ValueError) as error:
        return Arrays(about=type(error)(f"partition {number}: {error}"))


def _checked(X: Any, y: Any, weights: Any, local: Any, with_checksum: bool) -> Arrays:
    n_rows = len(y)
    for name, part in (("X", X), ("sample_weight", weights)):
        if part is not None and part.shape[0] != n_rows:
            raise ValueError(
                f"X, y and sample_weight must have equally many rows, but {name} has "
                f"{part.shape[0]} and y has {n_rows}"
            )
    about = SimpleNamespace(n_rows=n_rows)
    if n_rows == 0:
        return Arrays(about=about)
    noting = type(local)()
    if is_classifier(local):
        X, y = noting._validate_rows(X, y=y)
        _validate.only_classes(y)
        about.classes, values = _validate.labels(y, n_rows)
    else:
        _validate.before_targets(y)
        X, y = noting._validate_rows(X, y=y, multi_output=True)
        values = y = _validate.targets(y, n_rows)
    X = _validate.summed_up(X)
    weights = _validate.sample_weight(weights, n_rows, may_be_zero=True)
    each = np.ones(n_rows) if weights is None else weights
    rows = _validate.rows(X, checked=True)[0]
    about.n_features, about.dtype, about.n_stored = X.shape[1], X.dtype.name, rows.size
    about.squares, about.y_shape = float(rows.squared_norms().sum()), y.shape[1:]
    about.n_inside = int(np.count_nonzero(each))
    if is_classifier(local):
        about.sums = np.bincount(values, each)
        about.counts = np.bincount(values, each > 0).astype(np.int64)
    about.moments = moments(values, each)
    about.checksum = _rows.fingerprint(X, values, each) if with_checksum else 0
    return Arrays(about=about, X=X, y=y, weights=weights)


def moments(values: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The sum of weights, and for each column its mean and the sum of squares about the mean."""
    values, total = values.reshape(len(values), -1), float(weights.sum())
    mean = weights @ values / total if total > 0 else 0 * values[0]
    return total, mean, weights @ (values - mean) ** 2


def merged(parts: list[Any]) -> tuple[float, np.ndarray, np.ndarray]:
    """The moments of all rows, given those of several parts."""
    total, mean, squares = parts[0]
    for other_total, other_mean, other_squares in parts[1:]:
        if other_total > 0:
            apart, share = other_mean - mean, other_total / (total + other_total)
            mean, squares = mean + share * apart, squares + other_squares + total * share * apart**2
            total += other_total
    return total, mean, squares


def not_empty(parts: list[Any]) -> list[Any]:
    """The parts, of partitions with rows; a ValueError if there are none."""
    if not parts:
        raise ValueError("X must have at least one row, but all partitions are empty")
    return parts


class Partitions:
    """A description of rows that lie elsewhere; estimators use it like `pegasos.Blocks`.

    `abouts` describe all partitions. A TypeError or ValueError if rows are refused, if partitions
    do not go together, or if all are empty. `which` are the partitions with rows. `n_stored` is how
    many numbers X has, `mass` the sum of weights, `n_inside` how many rows have weight, `n_outputs`
    how many columns y has, or 0 if it is one-dimensional. `classes`, `class_weight_sums` and
    `class_counts` describe labels, or are None. `names` is None: labels are not stored as numbers.
    """

    names = None

    def __init__(self, abouts: list[Any]) -> None:
        for about in abouts:
            if isinstance(about, Exception):
                raise about
        self.which = not_empty([k for k, about in enumerate(abouts) if about.n_rows > 0])
        first, parts = abouts[self.which[0]], [abouts[k] for k in self.which]
        for name, what in (
            ("n_features", "features"),
            ("dtype", "as the type of X"),
            ("y_shape", "as the shape of a target"),
        ):
            for k, part in zip(self.which, parts, strict=True):
                one, other = getattr(first, name), getattr(part, name)
                if one != other:
                    raise ValueError(
                        f"all partitions must be alike, but partition {self.which[0]} has {one} "
                        f"{what}, and partition {k} has {other}"
                    )
        n_rows = sum(part.n_rows for part in parts)
        self.shape, self.dtype = (n_rows, first.n_features), np.dtype(first.dtype)
        self.n_stored, self.n_inside = (
            sum(getattr(part, name) for part in parts) for name in ("n_stored", "n_inside")
        )
        self.mean_squared_norm = sum(part.squares for part in parts) / n_rows
        self._moments = merged([part.moments for part in parts])
        _validate.sample_weight(np.array([self.mass]), 1)
        self.n_outputs = first.y_shape[0] if first.y_shape else 0
        checksums = np.array([(part.n_rows, part.checksum) for part in parts])
        self.fingerprint = [*self.shape, zlib.crc32(checksums)]
        self.classes: Any = None
        self.class_weight_sums: Any = None
        self.class_counts: Any = None
        if hasattr(first, "classes"):
            self._merge_classes(parts)

    def _merge_classes(self, parts: list[Any]) -> None:
        if len({part.classes.dtype.kind in "fiub" for part in parts}) > 1:
            raise TypeError(
                "y must hold labels of one kind, but partitions have numbers and strings"
            )
        self.classes = np.unique(np.concatenate([part.classes for part in parts]))
        self.class_weight_sums = np.zeros(len(self.classes))
        self.class_counts = np.zeros(len(self.classes), np.int64)
        for part in parts:
            at = np.searchsorted(self.classes, part.classes)
            self.class_weight_sums[at] += part.sums
            self.class_counts[at] += part.counts

    @property
    def mass(self) -> float:
        return self._moments[0]

    def codes(self, y: np.ndarray) -> np.ndarray:
        """The number of each row's label among `classes`."""
        return np.searchsorted(self.classes, y.ravel())

    def some_targets(self, count: int) -> np.ndarray:
        """Two rows of y with the mean and the spread of all rows."""
        mass, mean, squares = self._moments
        spread = np.sqrt(squares / mass)
        return np.stack([mean - spread, mean + spread])

    def row(self) -> np.ndarray:
        """A row with the mean norm of the rows of X, for messages about rows in general."""
        size = max(1, round(self.n_stored / self.shape[0]))
        return np.full((1, size), np.sqrt(self.mean_squared_norm / size), self.dtype)
