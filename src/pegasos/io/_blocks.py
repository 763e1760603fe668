"""Rows on disk: micro-blocks in random order, each with a checksum.

A cache is a folder with two files. ``rows`` has the blocks. ``index.json`` has their places and
checksums, and facts about all rows. It is written last and at once, so a folder without an index is
never a cache, whenever a conversion stopped.
"""

import contextlib
import decimal
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pegasos import _core, _user_warnings
from pegasos.io import _archive, _readers, _sources
from pegasos.problems import _validate

_VERSION = 3
# Rows are dealt at random to _BUCKETS files, each of which is then shuffled in memory. A file of
# more than 1/_BUCKET_SHARE of the memory is dealt again.
_BUCKETS, _BUCKET_SHARE = 64, 4
# A piece of the source takes at most 1/_PIECE_SHARE of the memory. A block takes at most
# 1/_BLOCK_SHARE of it, and at most _LARGEST_BLOCK bytes: loads then have 8 blocks or more.
_PIECE_SHARE, _BLOCK_SHARE, _LARGEST_BLOCK = 16, 48, 2**24
# More distinct values than this are not classes.
_MOST_CLASSES = 2**16
# Types of labels that are objects; the last one stands for numbers.
_KINDS: Any = (bool, np.bool_), str, bytes, object
# A smaller number probably lacks its unit; blocks would have a row each.
_LEAST_MEMORY = 1000
#: The most vectors of weights of a problem in dual ascent. And bytes of a row in memory besides its
#: numbers: for each problem (dual variable twice, label, target twice), and for all together.
VECTORS, BYTES_OF_PROBLEM, BYTES_OF_ROW = 10, 40, 96
#: Bytes of a row in a fit in memory, besides its numbers: state, norms, room.
BYTES_IN_MEMORY = 160
#: Numbers of all rows may take 1/SHARE of the memory; larger arrays are on disk.
SHARE = 4
# The conversion's folder in the cache's folder. It is deleted, so this name is not for other uses.
_WORK = "pegasos-converting"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def n_bytes(name: str, value: Any) -> int:
    """The bytes in a number, or in text such as "500 MB" or "2G": at least 1 kB."""
    number: Any = None
    if isinstance(value, str):
        parts = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)B?\s*", value.upper())
        if parts:
            number = round(float(parts[1]) * _UNITS[parts[2]])
    elif not isinstance(value, bool) and isinstance(value, (int, np.integer)):
        number = int(value)
    if number is None or number < _LEAST_MEMORY:
        raise ValueError(
            f"{_validate.parameter(name)} must be a number of bytes, {_LEAST_MEMORY} or more, or "
            f"text like '2GB', got {value!r}"
        )
    return _validate.integer(name, number)


def too_little(memory: int, needed: int, n_problems: int, rows: str) -> str:
    """The message for too little memory for a fit."""
    give = f"{-(-needed // 10**6)}MB" if needed > 10**7 else f"{-(-needed // 1000)}kB"
    options = " or ".join(map(_validate.parameter, ("Cs", "cv")))
    fewer = f"; a search with fewer {options} needs less"
    return (
        f"{_validate.parameter('memory', memory)} bytes is too little for {n_problems} problem(s) "
        f"over {rows}: give {give} at least{fewer * (n_problems > 1)}"
    )


class Blocks:
    """Training rows on disk, for data larger than memory.

    The source is read once and written to a cache: micro-blocks of rows in random order. Then
    `PegasosClassifier`, `PegasosRegressor` and `PegasosOneClass` take the blocks in place of X and
    y: ``fit(blocks)``, ``predict(blocks)``, ``score(blocks)``. If all rows fit into `memory`, a fit
    has the bits of a fit in memory, with the rows in the order of the cache.

    Parameters
    ----------
    source : str, path, list, tuple or callable
        A file, several, or a pattern such as ``"part-*.svm.gz"``. Endings tell the format: LIBSVM
        text, CSV (.csv, .tsv), both of them compressed (.gz, .bz2, .xz) or not, Parquet (.parquet;
        needs the extra ``parquet``), .npy with the labels in a column, .npz with y and either X or
        the arrays of `scipy.sparse.save_npz`. Or a tuple (X, y) or (X, y, sample_weight) of arrays,
        `numpy.memmap` or .npy files. Or a function without parameters that returns a fresh
        iterator of such tuples of some rows, where X is an array or a CSR matrix.
    cache : str or path
        Folder for the blocks and nothing else; it is made if it is not there. If it has the blocks
        of this source with these parameters, they are used. The size and time of a file tell
        whether it has changed, a checksum whether arrays have, and for a function its name and its
        first piece. One process at a time may write to a folder.
    memory : int or str, default="2GB"
        Most bytes that conversion and fits hold: a number, or text like "500MB". Python and the
        libraries take 100 to 200 MB more. It may differ from one use of a cache to the next. The
        order in which a fit loads blocks, and so its last bits, depend on it.
    dtype : {"float64", "float32"}, default="float64"
        Type of the values on disk and in training. Weights, scores and certificates are float64.
    format : {"libsvm", "csv", "npy", "npz", "parquet"}, default=None
        Format of files whose names do not tell.
    label_column : int or str, default=-1
        Name or number of the column of CSV, .npy and Parquet files that has the labels or targets.
        Negative numbers count from the end, without the columns of `drop`.
    drop : int, str or sequence of these, default=()
        Columns of CSV, .npy and Parquet files to leave out.
    header : {"auto", "yes", "no"}, default="auto"
        Whether the first line of a CSV file is a header. "auto": if it has no number except the
        label, or if columns are chosen by name.
    separator : str, default=None
        The character between fields of CSV files. None: a comma, a semicolon or a tab, whichever is
        in the first line.
    zero_based : bool, default=None
        Whether LIBSVM text counts features from 0. None: if it has a feature 0.
    n_features : int, default=None
        Number of features, where LIBSVM text may lack the last ones.
    random_state : int, default=0
        Seed for the order of rows in the cache.

    Attributes
    ----------
    shape : tuple of int
        Number of rows, number of features.
    n_blocks : int
    nbytes : int
        Size of the blocks on disk.
    classes : ndarray or None
        The distinct labels, sorted; None if y has more than 65,536 values or several columns.
    class_weight_sums : ndarray or None
        The sum of sample weights of each class.
    feature_names : list of str or None
        Names of the columns of tables and data frames; a fit has them as `feature_names_in_`.
    feature_scale : ndarray of shape (n_features,)
        Root of the mean square of each feature.
    mean_squared_norm : float
        The mean of ``|x_i|^2``, by sample weights.

    Warns
    -----
    UserWarning
        If `memory` is too little for any fit of these rows, as soon as the conversion can tell. If
        a label of a CSV file, such as "nan", seems to be missing.

    Raises
    ------
    ValueError
        If the source is malformed, an integer of y is one that float64 cannot hold, `cache` has
        blocks of another source or of other parameters, or a block is damaged: every reading
        compares its checksum.
    OSError
        If a file cannot be read or written; the message names it.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pegasos import Blocks, PegasosClassifier
    >>> def parts():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(20):
    ...         X = rng.normal(size=(1000, 5))
    ...         yield X, X[:, 0] + X[:, 1] > rng.normal(size=1000)
    >>> folder = tempfile.TemporaryDirectory()
    >>> blocks = Blocks(parts, cache=folder.name, memory="400kB")
    >>> blocks
    Blocks of 20000 rows and 5 features, 136 blocks, 1.1 MB
    >>> clf = PegasosClassifier(lam=1e-3, random_state=0).fit(blocks)
    >>> print(f"accuracy {clf.score(blocks):.2f}, passes: {clf.n_iter_}")
    accuracy 0.80, passes: 2
    >>> folder.cleanup()
    """

    #: The least number of problems that the fit after it has at a time, given the number of
    #: classes. And the purpose of that fit as on the command line. None if they are not known.
    _n_problems: Callable[[int], int] | None = None
    _task: str | None = None

    def __init__(
        self,
        source: Any,
        *,
        cache: Any,
        memory: int | str = "2GB",
        dtype: Any = "float64",
        format: str | None = None,
        label_column: int | str = -1,
        drop: int | str | Sequence[int | str] = (),
        header: str = "auto",
        separator: str | None = None,
        zero_based: bool | None = None,
        n_features: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.memory = n_bytes("memory", memory)
        self.cache = _validate.path("cache", cache)
        if os.path.isfile(self.cache):
            raise ValueError(
                f"{_validate.parameter('cache')} must be a folder, got the file {self.cache}"
            )
        if str(np.dtype(dtype)) not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        self.dtype = np.dtype(dtype)
        is_one_class = self._task == "one-class"
        if label_column is None and not is_one_class:
            raise ValueError("label_column must be a column, got None: blocks need y")
        dropped = [drop] if isinstance(drop, int | str) else drop
        layout = _readers.Layout(format, label_column, tuple(dropped), header, separator)
        _validate.choice("zero_based", zero_based, [True, False]) if zero_based is not None else 0
        options = {
            "dtype": str(self.dtype),
            **vars(layout),
            "zero_based": zero_based,
            "n_features": _validate.integer("n_features", n_features, besides=(None,)),
            "random_state": _validate.integer("random_state", random_state, at_least=0),
        }
        if is_one_class:  # its blocks have no labels for other tasks
            options["task"] = self._task
        kind = _sources.Source(source, layout, self._task)
        self.feature_names, self._label_name = kind.feature_names, kind.label_name
        self._path = os.path.join(self.cache, "rows")
        made_from = {"source": kind.found, "options": options}
        made_from = json.loads(json.dumps(made_from))  # tuples become lists
        index = _read_index(self.cache)
        if index is None:
            # Squares of large numbers become infinite, and a fit refuses these.
            with np.errstate(over="ignore", invalid="ignore"):
                _Conversion(self, kind, options).run(made_from)
            index = _read_index(self.cache)
            assert index is not None
        elif index["made_from"] != made_from:
            raise ValueError(
                f"cache {self.cache} was made from another source or with other parameters "
                f"{_difference(index['made_from'], made_from)}: delete it, or name another folder "
                f"by {_validate.parameter('cache')}"
            )
        self._set_index(index)

    def _set_index(self, index: dict[str, Any]) -> None:
        self._index = index
        self.shape = index["n_rows"], index["n_features"]
        self.n_outputs = index["n_outputs"]  # 0: y is one-dimensional
        self.is_sparse, self.is_weighted = index["is_sparse"], index["is_weighted"]
        self.zero_based = index["zero_based"]
        self.names: list[str] | None = index["names"]  # of labels that are strings
        self._table = np.array(index["blocks"], np.int64).reshape(-1, 4)
        self.n_blocks = len(self._table)
        self.starts = np.concatenate([[0], np.cumsum(self._table[:, 0])])
        self.nbytes = index["scale"][0]  # the scale is written after the blocks
        self.mass, self.mean_squared_norm = index["mass"], index["mean_squared_norm"]
        self.n_inside = index["n_inside"]
        self.classes = self.class_weight_sums = self.class_counts = None
        if index["classes"] is not None:
            self.classes = np.array(index["classes"])
            self.class_weight_sums = np.array(index["class_weight_sums"])
            self.class_counts = np.array(index["class_counts"])

    def __repr__(self) -> str:
        n, d = self.shape
        return (
            f"Blocks of {n} rows and {d} features, {self.n_blocks} "
            f"block{'s' * (self.n_blocks != 1)}, {self.nbytes / 1e6:.1f} MB"
        )

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            "Blocks are rows on disk, and no array: the linear estimators of pegasos and searches "
            "over them take Blocks, scalers and scikit-learn's searches do not. To standardise, "
            "make Blocks of a function that returns scaled pieces, or say pegasos train --scale"
        )

    @property
    def feature_scale(self) -> np.ndarray:
        """Root of the mean square of each feature."""
        offset, crc = self._index["scale"]
        scale = np.empty(self.shape[1])
        with self._opened() as file:
            file.seek(offset)
            self._fill(file, [scale], crc, "the scale of features")
        return scale

    @property
    def seen(self) -> dict[str, Any]:
        """Attributes of a fit about the columns."""
        names = self.feature_names
        named = {} if names is None else {"feature_names_in_": np.array(names, object)}
        return {"n_features_in_": self.shape[1], **named}

    @property
    def fingerprint(self) -> list[int]:
        """A checksum of the rows, to tell one set of blocks from another."""
        return [*self.shape, zlib.crc32(np.ascontiguousarray(self._table))]

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray, np.ndarray | None]]:
        """Rows, labels or targets, and sample weights or None, one block after the other."""
        for part in self.parts():
            yield part.matrix(), self.labels(part.y), part.weights

    def parts(self) -> Iterator["RowBuffer"]:
        for k in range(self.n_blocks):
            yield self._part([k])

    def _part(self, blocks: Sequence[int]) -> "RowBuffer":
        part = self.room(blocks)
        self.read(blocks, part)
        return part

    def in_memory(self) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """All rows, labels and sample weights, in the order of the cache."""
        part = self._part(range(self.n_blocks))
        return part.matrix(), self.labels(part.y), part.weights

    @staticmethod
    def without(y: Any, sample_weight: Any) -> None:
        """Raise if labels or weights were given with blocks."""
        if y is not None or sample_weight is not None:
            raise ValueError("Blocks have y and sample_weight: leave both out")

    def some_targets(self, count: int) -> np.ndarray:
        """At least `count` rows of y as numbers, if there are: (n, n_outputs), in random order."""
        found, n = [], 0
        for part in self.parts():
            found.append(part.y)
            n += part.n_rows
            if n >= count:
                break
        return np.concatenate(found)

    def targets(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Labels or targets, and sample weights or None, of all rows, in the order of `predict`."""
        # Nothing else of a block is kept.
        of_rows = [(self.labels(part.y), part.weights) for part in self.parts()]
        y, weights = zip(*of_rows, strict=True)
        return np.concatenate(y), np.concatenate(weights) if self.is_weighted else None

    # ---- Reading ---------------------------------------------------------------------------------

    def labels(self, y: np.ndarray) -> np.ndarray:
        """Labels as in the source, from the stored numbers."""
        y = y if self.n_outputs else y[:, 0]
        if self.names is not None:
            return np.array(self.names)[y.astype(np.int64)]
        return y.astype(self._index["label_type"], copy=False)

    def codes(self, y: np.ndarray) -> np.ndarray:
        """The number of each row's label among `classes`."""
        assert self.classes is not None
        return np.searchsorted(self.classes, self.labels(y))

    def room(self, blocks: Any, n_rows: int = 0, n_stored: int = 0) -> "RowBuffer":
        """Memory for some blocks, and for `n_rows` more rows with `n_stored` stored numbers."""
        rows, stored = self._table[list(blocks), :2].sum(axis=0).tolist()
        return RowBuffer(self, rows + n_rows, stored + n_stored)

    def largest(self, count: int) -> tuple[int, int]:
        """The most rows and the most stored numbers that `count` blocks have."""
        rows, stored = np.sort(self._table[:, :2], axis=0)[-count:].sum(axis=0).tolist()
        return rows, stored

    def read(self, blocks: Any, part: "RowBuffer") -> None:
        """Append blocks to a part; a ValueError if one is damaged."""
        with self._opened() as file:
            for k in blocks:
                n_rows, n_stored, offset, crc = self._table[k].tolist()
                file.seek(offset)
                *arrays, numbers = part.next(n_rows, n_stored)
                self._fill(file, arrays, crc, f"block {k}")
                numbers[:] = self.starts[k] + np.arange(n_rows)
                part.took(n_rows, n_stored)

    def _opened(self) -> Any:
        return open(self._path, "rb", buffering=0)

    def _fill(self, file: Any, arrays: list[np.ndarray], crc: int, what: str) -> None:
        found = 0
        for array in arrays:
            view = memoryview(array).cast("B") if array.size else memoryview(b"")
            done = 0
            while done < len(view):
                n = file.readinto(view[done:])
                if not n:
                    raise ValueError(f"{self._path} ends within {what}: it was cut short")
                done += n
            found = zlib.crc32(view, found)
        if found != crc:
            raise ValueError(
                f"{self._path} is damaged: the checksum of {what} is wrong. Delete the folder "
                f"{self.cache}, and make the cache again"
            )


class BlocksToTrain(Blocks):
    """Blocks for a fit, which refuse too little memory as soon as they can tell.

    `n_problems` returns the least number of problems that the fit has at a time, given the number
    of classes; `task` is that of the command line.
    """

    def __init__(
        self, source: Any, *, n_problems: Callable[[int], int], task: str, **options: Any
    ) -> None:
        self._n_problems, self._task = n_problems, task
        super().__init__(source, **options)


class RowBuffer:
    """Rows in memory, with labels or targets, weights, norms, and their numbers in the cache."""

    def __init__(self, blocks: Blocks, n_rows: int, n_stored: int) -> None:
        self.n_features = blocks.shape[1]
        self._values = np.empty(n_stored, blocks.dtype)
        index_type: Any = np.int32 if blocks._index["index_bytes"] == 4 else np.int64
        self._indices: np.ndarray[Any, np.dtype[np.signedinteger]] = np.empty(
            n_stored if blocks.is_sparse else 0, index_type
        )
        self._indptr = np.zeros(n_rows + 1 if blocks.is_sparse else 0, np.int64)
        self._numbers = np.empty(n_rows, np.int64)
        self._y = np.empty((n_rows, max(1, blocks.n_outputs)))
        self._norms = np.empty(n_rows)
        self._weights = np.empty(n_rows) if blocks.is_weighted else None
        self.n_rows = self.n_stored = 0

    @property
    def numbers(self) -> np.ndarray:
        return self._numbers[: self.n_rows]

    @property
    def y(self) -> np.ndarray:
        return self._y[: self.n_rows]

    @property
    def norms(self) -> np.ndarray:
        return self._norms[: self.n_rows]

    @property
    def weights(self) -> np.ndarray | None:
        return None if self._weights is None else self._weights[: self.n_rows]

    def lengths(self) -> np.ndarray:
        """Stored numbers of each row."""
        if not len(self._indptr):
            return np.full(self.n_rows, self.n_features)
        return np.diff(self._indptr[: self.n_rows + 1])

    def rows(self, first: int = 0) -> _core.Rows:
        """The rows from `first` on, in the form of the core."""
        values, indptr = self._values[: self.n_stored], self._indptr
        if not len(indptr):
            return _core.Rows(values.reshape(-1, self.n_features)[first:])
        indices, ends = self._indices[: self.n_stored], indptr[first : self.n_rows + 1]
        return _core.Rows(values, indices, ends, self.n_features)

    def matrix(self) -> Any:
        """An array or a CSR matrix that shares its numbers with this."""
        values = self._values[: self.n_stored]
        if not len(self._indptr):
            return values.reshape(-1, self.n_features)
        indptr = self._indptr[: self.n_rows + 1]
        if self.n_stored < 2**31:  # SciPy wants both index arrays of one type
            indptr = indptr.astype(self._indices.dtype)
        matrix = sparse.csr_array((self.n_rows, self.n_features), dtype=values.dtype)
        # Set attributes: the constructor copies numbers that take less than half of their memory.
        matrix.data, matrix.indices, matrix.indptr = values, self._indices[: self.n_stored], indptr
        return matrix

    # ---- Changing it -----------------------------------------------------------------------------

    def truncate(self, n_rows: int = 0) -> None:
        self.n_rows = n_rows
        is_sparse = len(self._indptr) > 0
        self.n_stored = int(self._indptr[n_rows]) if is_sparse else n_rows * self.n_features

    def next(self, n_rows: int, n_stored: int) -> list[np.ndarray]:
        """The memory for the next rows: arrays as in a block on disk, and row numbers."""
        return self._arrays(self.n_rows, self.n_stored, n_rows, n_stored)

    def _arrays(self, row: int, place: int, n_rows: int, n_stored: int) -> list[np.ndarray]:
        """The arrays of `n_rows` rows from `row` on, and from `place` on among stored numbers."""
        rows, stored = slice(row, row + n_rows), slice(place, place + n_stored)
        arrays = [self._values[stored]]
        if len(self._indptr):  # as in rows that stand alone: the first 0 overwrites an end
            arrays += [self._indices[stored], self._indptr[row : row + n_rows + 1]]
        of_rows = [of[rows] for of in (self._norms, self._y, self._weights) if of is not None]
        return [*arrays, *of_rows, self._numbers[rows]]

    def took(self, n_rows: int, n_stored: int) -> None:
        """Add the rows that were written into the memory of `next`."""
        if len(self._indptr):
            self._indptr[self.n_rows : self.n_rows + n_rows + 1] += self.n_stored
        self.n_rows += n_rows
        self.n_stored += n_stored

    def append(self, other: "RowBuffer") -> None:
        size = other.n_rows, other.n_stored
        for own, its in zip(self.next(*size), other._arrays(0, 0, *size), strict=True):
            own[:] = its
        self.took(*size)

    def keep(self, rows: _core.Rows, which: np.ndarray) -> None:
        """Keep the rows at these positions, which grow, and move them to the front."""
        self.truncate()
        self.append_some(self, rows, which)

    def append_some(self, other: "RowBuffer", rows: _core.Rows, which: np.ndarray) -> None:
        """Append the `rows` of another buffer that are at these positions, in any order."""
        begin, here = self.n_stored, slice(self.n_rows, self.n_rows + len(which))
        ends = rows.take(which, self._values[begin:], self._indices[begin:])
        if len(self._indptr):
            self._indptr[here.start + 1 : here.stop + 1] = begin + ends[1:]
        for name in ("_numbers", "_norms", "_y", "_weights"):
            if (own := getattr(self, name)) is not None:
                own[here] = getattr(other, name)[which]
        self.truncate(here.stop)


# ---- The index -----------------------------------------------------------------------------------


def _read_index(folder: str) -> dict[str, Any] | None:
    """The index of a cache, or None if there is none."""
    path = os.path.join(folder, "index.json")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        text = ""
    seal, _, body = text.partition("\n")
    if seal != _seal(body):
        raise ValueError(
            f"{path} is damaged: its checksum is wrong. If {folder} is a cache, delete it, and "
            "make it again; if not, name another folder"
        )
    index: dict[str, Any] = json.loads(body)
    if index["version"] != _VERSION:
        raise ValueError(f"{path} is of another version of pegasos: delete the folder {folder}")
    return index


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The differences between what a cache was made from and what is given now."""
    old, new = before["options"], now["options"]
    what = [
        f"{_validate.parameter(name)} was {_validate.value_of(name, old.get(name))} and is "
        f"{_validate.value_of(name, value)}"
        for name in old | new
        if (value := new.get(name)) != old.get(name)
    ]
    return f"({'; '.join(what) or 'the source has changed since'})"


def _seal(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


class _Writer:
    """A file whose errors name it: NumPy writes to it only by `write`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "wb")  # noqa: SIM115 closed by `close`

    def write(self, data: Any) -> None:
        with _archive.naming(self.path):
            self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def close(self, *, is_last: bool = False) -> None:
        with _archive.naming(self.path), self._file as file:
            file.flush()
            if is_last:  # else a crash of the machine could leave a name without content
                os.fsync(file.fileno())


def _of_frame(X: Any) -> Any:
    """The numbers of a data frame, converted as for estimators."""
    from sklearn.utils import check_array

    try:
        return _validate.converted(check_array, X, ensure_min_samples=0)
    except (TypeError, ValueError):
        _validate.no_text(X)
        raise


def _check_integers(y: np.ndarray) -> None:
    """Raise if y, stored as float64, would change an integer."""
    if y.dtype.kind not in "iu" or not y.size or max(int(y.max()), -int(y.min())) <= 2**53:
        return
    for label in np.unique(y).tolist():
        if int(float(label)) != label:
            raise ValueError(
                f"y has the integer {label}, which float64, the type of y in blocks, cannot hold: "
                f"write labels as text such as 'id{label}', and targets as floats"
            )


# ---- Making a cache ------------------------------------------------------------------------------


class _Conversion:
    """The conversion of a source to a cache."""

    def __init__(self, blocks: Blocks, source: _sources.Source, options: dict[str, Any]) -> None:
        self.blocks, self.source, self.options = blocks, source, options
        self.folder, self.memory, self.dtype = blocks.cache, blocks.memory, blocks.dtype
        self.seed = options["random_state"]
        self.n_rows = self.n_features = self.n_stored = 0
        self.n_outputs = self.n_inside = 0
        self.mass = 0.0
        self.is_sparse: bool | None = None
        self.is_weighted = False
        self.lowest, self.highest = 2**62, -1
        # Names of string labels and their numbers. And by label, the sum of weights and the number
        # of rows with weight.
        self.names: dict[str, int] | None = None
        self.classes: dict[float, list[float]] | None = {}
        # The first of bool, int64 and float64 that can hold all labels, if they are numbers.
        self.label_type = np.dtype(bool)
        self.table: list[list[int]] = []
        self.is_little = False

    def run(self, made_from: dict[str, Any]) -> None:
        is_new = not os.path.isdir(self.folder)
        os.makedirs(self.folder, exist_ok=True)
        there, work = os.listdir(self.folder), os.path.join(self.folder, _WORK)
        left = {_WORK, "rows"}  # a conversion that was killed may leave these
        others = [name for name in there if name not in left and not name.startswith("index.json")]
        if there and (others or _WORK not in there):
            raise ValueError(
                f"{_validate.parameter('cache')} must be a new folder, an empty one or a cache, "
                f"but {self.folder} has other files, such as {min(others or there)}"
            )
        self._clean_up(work)  # after a killed conversion
        try:
            os.mkdir(work)
            dealt = self._deal(self._pieces(work), work, self.seed)
            if self.n_rows == 0:
                hint = ": a function must return a fresh iterator at each call"
                is_function = self.source.kind == "callable"
                raise ValueError(f"{self.source.name} has no rows{hint * is_function}")
            # The next result of a function is not known.
            if self.source.kind != "callable" and self.source.fingerprint() != self.source.found:
                raise ValueError("source has changed while it was read: make the cache again")
            if self.source.kind == "csv" and self.names is not None:
                _readers.warn_of_missing_label(self.source.name, self.names)
            self._settle_features()
            path = os.path.join(work, "rows")
            out = _Writer(path)
            try:
                squares = np.zeros(self.n_features)
                norms = self._write_blocks(out, dealt, work, squares)
                scale = np.sqrt(np.divide(squares, self.n_rows, out=squares), out=squares)
                of_scale = [out.tell(), zlib.crc32(scale)]
                out.write(scale)
            finally:
                out.close(is_last=True)
            os.replace(path, os.path.join(self.folder, "rows"))
            self._write_index(made_from, norms / max(self.mass, 1e-300), of_scale)
        finally:
            self._clean_up(work)
            if is_new:
                with contextlib.suppress(OSError):  # the folder has a cache now
                    os.rmdir(self.folder)

    def _clean_up(self, work: str) -> None:
        """Remove all but a cache. `work` goes last: its presence tells whose `rows` are there."""
        if not os.path.exists(os.path.join(self.folder, "index.json")):
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(self.folder, "rows"))
        shutil.rmtree(work, ignore_errors=True)

    def _write_index(self, made_from: Any, mean: float, of_scale: list[int]) -> None:
        classes: list[Any] | None = None
        weights = counts = None
        if self.classes is not None and self.n_outputs == 0:
            names = None if self.names is None else list(self.names)
            keys = sorted(self.classes, key=lambda k: k if names is None else names[int(k)])
            weights, counts = ([self.classes[k][j] for k in keys] for j in (0, 1))
            if names is None:
                classes = np.array(keys).astype(self.label_type).tolist()
            else:
                classes = [names[int(k)] for k in keys]
        body = json.dumps(
            {
                "version": _VERSION, "made_from": made_from, "n_rows": self.n_rows,
                "n_features": self.n_features, "n_outputs": self.n_outputs,
                "is_sparse": self.is_sparse, "is_weighted": self.is_weighted,
                "zero_based": self.zero_based, "index_bytes": self.index_bytes, "mass": self.mass,
                "n_inside": self.n_inside,
                "mean_squared_norm": mean, "scale": of_scale, "label_type": str(self.label_type),
                "names": None if self.names is None else list(self.names),
                "classes": classes, "class_weight_sums": weights, "class_counts": counts,
                "blocks": self.table,
            }
        )  # fmt: skip
        with _archive.replacing(os.path.join(self.folder, "index.json"), "w") as file:
            file.write(f"{_seal(body)}\n{body}")

    # ---- Pieces of the source --------------------------------------------------------------------

    def _pieces(self, work: str) -> Iterator[_readers.Piece]:
        """The pieces of the source, checked and counted."""
        source: Any = self.source.pieces(self.memory // _PIECE_SHARE, work)
        with contextlib.closing(source) as pieces:
            for number, (X, y, weights) in enumerate(pieces):
                try:
                    piece = self._piece(X, y, weights)
                except (TypeError, ValueError) as error:
                    where = f"rows {self.n_rows} and on of {self.source.name} (piece {number})"
                    raise type(error)(f"{where}: {error}") from None
                if piece[0].shape[0]:
                    self._check_memory()
                    yield piece

    def _check_memory(self) -> None:
        """Raise or warn if the rows so far show that a fit will have too little memory.

        All rows have at least as many features and classes. The weights of one problem are in
        memory for every use of the rows, and so are the squares of features here.
        """
        n_problems = self.blocks._n_problems
        k = 1 if n_problems is None else n_problems(len(self.classes or ()))
        may_count_from_1 = not self.source.counts_features and self.lowest > 0
        d = max(1, self.n_features - may_count_from_1, self.options["n_features"] or 0)
        rows = f"rows of {d} features"
        if 8 * d > self.memory:
            raise ValueError(too_little(self.memory, 8 * d, 1, f"{rows} in {self.source.name}"))
        vectors = 8 * VECTORS * k * d
        of_stored = self.dtype.itemsize + 4 * bool(self.is_sparse)
        of_rows = self.n_stored * of_stored + 16 * self.n_rows
        are_small = of_rows + BYTES_IN_MEMORY * self.n_rows <= self.memory
        if self.is_little or are_small or vectors <= self.memory:
            return
        # With more memory, blocks are larger.
        of_row = of_rows / self.n_rows
        each = 3 * (of_row + 8 * (4 + self.n_outputs)) + 2 * (BYTES_OF_PROBLEM * k + BYTES_OF_ROW)
        needed = size = 0
        while needed >= size:
            size = int(1.1 * needed) + 1
            in_block = max(1, min(size // _BLOCK_SHARE, _LARGEST_BLOCK) // of_row)
            needed = int((vectors + in_block * each) * SHARE / (SHARE - 1))
        text = too_little(self.memory, size, k, rows)
        if n_problems is not None:
            raise ValueError(text)
        self.is_little = True
        _user_warnings.warn(f"{text}. It may be enough for scores")

    def _piece(self, X: Any, y: Any, weights: Any) -> _readers.Piece:
        columns = _validate.column_names(X)
        if columns is None:
            _validate.before_conversion(X)
        else:
            X = _of_frame(X)
        is_sparse = _validate.is_sparse(X)
        X = _validate.plain_csr(X) if is_sparse else np.asarray(X)
        with np.errstate(over="ignore"):
            X = X.astype(self.dtype)
        _validate.finite("X", X, columns=columns)
        n, d = X.shape
        if self.is_sparse is None:
            self.is_sparse = is_sparse
            self.n_features = d
        if is_sparse != self.is_sparse:
            kinds = ("dense", "sparse")
            raise ValueError(f"X is {kinds[is_sparse]}, but was {kinds[not is_sparse]} before")
        if self.source.counts_features and d == 0:
            raise ValueError(f"X must have at least one column, got shape {X.shape}")
        if self.source.counts_features and d != self.n_features:
            raise ValueError(f"X has {d} features, but had {self.n_features} before")
        self.n_features = max(self.n_features, d)
        if is_sparse and X.nnz:
            self.lowest = min(self.lowest, int(X.indices.min()))
            self.highest = max(self.highest, int(X.indices.max()))
        y = np.zeros(n) if self.blocks._task == "one-class" else np.asarray(y)
        n_outputs = y.shape[1] if y.ndim == 2 and y.shape[1:] != (1,) else 0
        if len(y) != n or y.ndim > 2:
            raise ValueError(f"y must have an entry for each of {n} rows, got shape {y.shape}")
        if n and self.n_rows and n_outputs != self.n_outputs:
            raise ValueError(f"y has shape {y.shape}, but had {self.n_outputs or 'one'} column(s)")
        self.n_outputs = n_outputs
        y = self._numbers(y.reshape(n, max(1, n_outputs)))
        has_weights = weights is not None
        if n and self.n_rows and has_weights != self.is_weighted:
            raise ValueError("all pieces must have sample weights, or none")
        self.is_weighted = has_weights
        weights = _validate.sample_weight(weights, n, may_be_zero=True)
        if n:
            self._count(y, np.ones(n) if weights is None else weights)
        self.n_rows += n
        self.n_stored += X.nnz if is_sparse else n * d
        return X, y, weights

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        """Labels or targets as numbers; strings are numbered in order of appearance."""
        kinds = {str}
        if y.dtype == object and y.size:
            _validate.no_missing(y.ravel())
            _validate.only_labels("y", y, decimal.Decimal)
            kinds = {next(k for k in _KINDS if issubclass(t, k)) for t in set(map(type, y.flat))}
            if len(kinds) > 1:
                raise _validate.of_several_kinds("y", y)
            if kinds == {_KINDS[0]}:
                y = y.astype(bool)
        if y.dtype.kind in "OUS" and y.size:
            found, places = np.unique(y.astype(str), return_inverse=True)
            # Numbers in files are text; text in arrays stays text.
            is_array = self.source.kind in ("arrays", "callable")
            plain = found if is_array and kinds != {object} else _readers._plain_labels(found)
            is_number = plain.dtype.kind in "if"
            if self.n_rows == 0 and not is_number:
                self.names = {}
            if self.names is None and not is_number:
                other = _readers.first_word(found.tolist()) or found.item(0)
                raise ValueError(f"y has the label {other!r}, but had only numbers before")
            if self.names is not None:
                for name in found.tolist():
                    self.names.setdefault(name, len(self.names))
                plain = np.array([self.names[name] for name in found.tolist()])
            y = plain[places.reshape(y.shape)]
        elif self.names is not None and y.size:
            raise ValueError("y has numbers, but had strings before")
        if self.blocks._task != "regression":
            _check_integers(y)
        are_boolean = y.dtype == bool or not y.size
        y = _validate.floats("y", y)
        _validate.finite("y", y)
        if not are_boolean:
            are_whole = bool(((y == np.round(y)) & (np.abs(y) < 2**53)).all())
            own = np.int64 if are_whole else np.float64
            self.label_type = np.promote_types(self.label_type, own)
        return y

    def _count(self, y: np.ndarray, weights: np.ndarray) -> None:
        self.mass += float(weights.sum())
        self.n_inside += int(np.count_nonzero(weights))
        if self.classes is None or self.n_outputs:
            return
        values, places = np.unique(y[:, 0], return_inverse=True)
        sums = np.bincount(places, weights)
        counts = np.bincount(places, weights > 0)
        for value, mass, count in zip(values.tolist(), sums.tolist(), counts.tolist(), strict=True):
            entry = self.classes.setdefault(value, [0.0, 0])
            entry[0] += mass
            entry[1] += int(count)
        if len(self.classes) > _MOST_CLASSES:
            self.classes = None

    def _settle_features(self) -> None:
        """Decide how features are counted, after all rows are read."""
        self.zero_based: bool | None = None
        self.shift = 0
        if not self.source.counts_features:
            told = self.options["zero_based"]
            self.zero_based = _readers.counts_from_zero(self.lowest, told)
            self.shift = int(not self.zero_based)
            self.n_features = max(1, self.highest + 1 - self.shift)
        wanted = self.options["n_features"]
        if wanted is not None:
            if self.n_features > wanted or (
                self.source.counts_features and wanted != self.n_features
            ):
                raise ValueError(
                    f"the source has {self.n_features} features, but "
                    f"{_validate.parameter('n_features')} is {wanted}"
                )
            self.n_features = wanted
        self.index_bytes = 4 if self.n_features < 2**31 else 8

    # ---- In random order -------------------------------------------------------------------------

    def _deal(self, pieces: Iterator[_readers.Piece], work: str, seed: int) -> list[str]:
        """Deal rows to files at random; returns the files that have rows, in order."""
        paths = [os.path.join(work, f"{seed:x}-{k}") for k in range(_BUCKETS)]
        files = dict[int, _Writer]()
        room, first = np.empty(_BUCKETS, np.int64), 0
        with contextlib.ExitStack() as opened:
            for X, y, weights in pieces:
                n = X.shape[0]
                draws = np.empty(n, np.int64)
                order = _core.Order(seed % 2**64, room, _core.SAMPLINGS["uniform"], first)
                order.draw(draws)
                first += n
                by_file = np.argsort(draws, kind="stable")
                ends = np.searchsorted(draws[by_file], np.arange(_BUCKETS + 1))
                X, y = X[by_file], y[by_file]
                weights = None if weights is None else weights[by_file]
                for k in np.flatnonzero(np.diff(ends)).tolist():
                    if k not in files:
                        files[k] = opened.enter_context(contextlib.closing(_Writer(paths[k])))
                    own = slice(ends[k], ends[k + 1])
                    c = None if weights is None else weights[own]
                    _sources.dump(files[k], (X[own], y[own], c))
        return [paths[k] for k in sorted(files)]

    def _shuffled(self, paths: list[str], work: str, seed: int) -> Iterator[tuple[Any, ...]]:
        """X, y and weights of each file's rows, and a random order of these."""
        for k, path in enumerate(paths):
            own = (seed * 0x9E3779B97F4A7C15 + k + 1) % 2**64
            with open(path, "rb") as file:
                pieces = _sources.load(file, self.dtype, self.n_features + self.shift)
                if os.path.getsize(path) > max(self.memory // _BUCKET_SHARE, 2**16):
                    together = _readers.together(pieces, self.memory // _PIECE_SHARE)
                    dealt = self._deal(together, work, own)
                    yield from self._shuffled(dealt, work, own)
                else:
                    X, y, weights = _readers.joined(list(pieces))
                    permutation, order = np.empty((2, len(y)), np.int64)
                    _core.Order(own, permutation, _core.SAMPLINGS["permutation"], 0).draw(order)
                    yield X, y, weights, order
            os.remove(path)

    def _write_blocks(
        self, out: _Writer, dealt: list[str], work: str, squares: np.ndarray
    ) -> float:
        """Write blocks with equal numbers of rows; returns sum_i c_i |x_i|^2, adds up squares."""
        bytes_of_row = 16 + self.n_stored / self.n_rows * (
            self.dtype.itemsize + self.index_bytes * bool(self.is_sparse)
        )
        size = min(self.memory // _BLOCK_SHARE, _LARGEST_BLOCK)
        n_each = max(1, int(size / bytes_of_row))
        block: _readers.Piece | None = None
        total = 0.0
        for X, y, weights, order in self._shuffled(dealt, work, self.seed):
            first = 0
            while first < len(order):
                some = order[first : first + n_each - (0 if block is None else len(block[1]))]
                first += len(some)
                piece = X[some], y[some], None if weights is None else weights[some]
                block = piece if block is None else _readers.joined([block, piece])
                if len(block[1]) == n_each:
                    total += self._write_block(out, *block, squares)
                    block = None
        if block is not None:
            total += self._write_block(out, *block, squares)
        return total

    def _write_block(
        self, out: _Writer, X: Any, y: np.ndarray, weights: Any, squares: np.ndarray
    ) -> float:
        arrays: list[Any]
        if self.is_sparse:
            X.sum_duplicates()
            indices = X.indices.astype(np.int32 if self.index_bytes == 4 else np.int64)
            indices -= self.shift
            arrays = [X.data, indices, X.indptr.astype(np.int64)]
            rows = _core.Rows(X.data, indices, arrays[2], self.n_features)
            stored = len(X.data)
            np.add.at(squares, indices, np.square(X.data, dtype=np.float64))
        else:
            X = np.ascontiguousarray(X)
            arrays, rows, stored = [X], _core.Rows(X), X.size
            squares += np.square(X, dtype=np.float64).sum(axis=0)
        norms = rows.squared_norms()
        arrays += [norms, y] if weights is None else [norms, y, weights]
        crc, offset = 0, out.tell()
        for array in arrays:
            data = np.ascontiguousarray(array)
            crc = zlib.crc32(data, crc)
            out.write(memoryview(data).cast("B") if data.size else b"")
        self.table.append([X.shape[0], stored, offset, crc])
        return float((norms if weights is None else (norms * weights)[weights > 0]).sum())
