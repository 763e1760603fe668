"""Sources of the rows of `Blocks`: they yield pieces of some rows, and keep none.

A piece is (X, y, sample_weight): an array or a CSR matrix, an array, and an array or None.
"""

import contextlib
import glob
import os
import reprlib
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from pegasos.io import _readers
from pegasos.io._readers import Piece
from pegasos.problems import _rows, _validate


class Source:
    """The source of `Blocks`: files of this layout, arrays, or a function.

    `task` is the purpose of the rows, as on the command line; None if it is not known yet.
    "one-class" needs no labels.

    `name` is the source's name in messages: that of its file, or of its first file. `feature_names`
    come from tables and data frames that have some, else None; `label_name` comes from the first
    table with names. `counts_features`: pieces tell the number of features, not only a lower bound.
    `found` is the `fingerprint` before the rows are read.
    """

    def __init__(self, given: Any, layout: _readers.Layout, task: str | None = None) -> None:
        self.given, self.layout, self.name = given, layout, "source"
        self._needs_labels = task != "one-class"
        self._expected = {
            "targets": task == "regression", "labels_optional": not self._needs_labels,
        }  # fmt: skip
        self.counts_features, self.feature_names, self.label_name = True, None, None
        self._first: list[int] = []
        if callable(given):
            self.kind = "callable"
        elif isinstance(given, tuple) and not all(map(_is_text_path, given)):
            if len(given) not in (2, 3):
                raise ValueError(
                    f"source must have X, y and perhaps sample weights, got {len(given)} arrays"
                )
            self.kind = "arrays"
            self.feature_names = _validate.text_names(given[0])
        else:
            self.paths = _paths(given)
            first, *others = self.paths
            self.name = f"source ({first}, ...)" if others else first
            formats = set(map(layout.format_of, self.paths))
            if len(formats) > 1:
                raise ValueError(
                    f"source must be files of one format, got {', '.join(sorted(formats))}"
                )
            (self.kind,) = formats
            self.counts_features = self.kind != "libsvm"
            if self.kind != "npz":
                with _readers.naming(self.paths[0], self.paths[0]):
                    table = _readers.table_of(self.paths[0], layout, **self._expected)
                self.feature_names, self.label_name = table.feature_names, table.label_name
        self.found = self.fingerprint()

    def fingerprint(self) -> list[Any]:
        """Numbers that change when the source does: sizes and times of files, or checksums."""
        if self.kind == "callable":
            with contextlib.closing(_checked(_started(self.given))) as pieces:
                first = next(pieces, ())
                self._first = list(map(_crc, first))
                self.feature_names = _validate.text_names(first[0] if first else None)
            names = [getattr(self.given, name, "") for name in ("__module__", "__qualname__")]
            return ["callable", *names, *self._first]
        if self.kind == "arrays":
            return ["arrays", *map(_status_of_array, self.given)]
        return [self.kind, *map(_status, self.paths)]

    def pieces(self, n_bytes: int, folder: str) -> Iterator[Piece]:
        """Pieces of the rows, with about `n_bytes` of memory each; a callable decides itself.

        Archives are unpacked in `folder`, one after the other.
        """
        if self.kind == "callable":
            for number, piece in enumerate(_checked(_started(self.given))):
                if number == 0 and self._first and list(map(_crc, piece)) != self._first:
                    raise ValueError(
                        "source() must return a fresh iterator at each call, but the second one "
                        "begins with other rows than the first"
                    )
                names = _validate.text_names(piece[0])
                self._check_names(f"piece {number} of source()", "piece 0", names)
                yield piece
        elif self.kind == "arrays":
            yield from _of_arrays(self.given, n_bytes)
        elif self.kind == "npz":
            for path in self.paths:
                with (
                    # Windows cannot delete mapped files; all of `folder` is deleted later.
                    tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own,
                    _readers.naming(path, path),
                ):
                    arrays = _readers.arrays_of_npz(path, own)
                    yield from _of_arrays(arrays, n_bytes, self._needs_labels)
        else:
            for path in self.paths:
                with _readers.naming(path, path):
                    table = _readers.table_of(path, self.layout, **self._expected)
                    self._check_names(path, self.paths[0], table.feature_names)
                    yield from table.pieces(n_bytes)

    def _check_names(self, what: str, first: str, names: list[str] | None) -> None:
        if names != self.feature_names:
            raise ValueError(
                f"{what} has the features {reprlib.repr(names)}, but {first} has "
                f"{reprlib.repr(self.feature_names)}"
            )


def _is_text_path(given: Any) -> bool:
    """Whether this is a path, but not of an array."""
    is_path = isinstance(given, (str, os.PathLike))
    return is_path and not os.fspath(given).lower().endswith(".npy")


def _described(given: Any) -> str:
    """A value for messages, without an array's numbers."""
    kind = type(given).__name__
    return f"{kind} of shape {given.shape}" if hasattr(given, "shape") else reprlib.repr(given)


def _paths(given: Any) -> list[str]:
    """The files, in order; those of a pattern are sorted by name."""
    if isinstance(given, (str, os.PathLike)):
        given = [given]
    are_paths = isinstance(given, (list, tuple)) and all(
        isinstance(path, (str, os.PathLike)) for path in given
    )
    if not are_paths or not given:
        raise TypeError(
            "source must be a file, files, a pattern of files, a tuple (X, y) of arrays or .npy "
            f"files, or a function that returns an iterator, got {_described(given)}"
        )
    paths: list[str] = []
    for path in map(os.fspath, given):
        found = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not found:
            what = _validate.parameter("source")
            raise FileNotFoundError(f"{what} must be files that exist, got {path!r}")
        paths += found
    return paths


def _status(path: str) -> list[Any]:
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]


def _status_of_array(array: Any) -> list[Any]:
    """Size and time of a file; a checksum of numbers in memory."""
    path = array if isinstance(array, (str, os.PathLike)) else getattr(array, "filename", None)
    if path is not None:
        return _status(os.fspath(path))
    return [None if array is None else _crc(array)]


def _crc(array: Any) -> int:
    """A checksum of a matrix or an array, or of a value that will be refused."""
    if array is None or _validate.is_sparse(array):
        return 0 if array is None else _rows.fingerprint(array.tocsr())
    array = np.asarray(array)
    text = repr(array.tolist()).encode() if array.dtype.kind in "OU" else b""
    return zlib.crc32(text, 1) if text else _rows.fingerprint(array)


def _started(function: Callable[[], Iterable[Any]]) -> Generator[Any]:
    """A fresh iterator, which is closed at its end if possible."""
    iterator = function()
    if not isinstance(iterator, Iterable) or isinstance(iterator, (str, bytes, np.ndarray)):
        raise TypeError(f"source() must return an iterator of (X, y), got {iterator!r}")
    yield from iterator


def _checked(pieces: Iterable[Any]) -> Generator[Piece]:
    for number, piece in enumerate(pieces):
        if not isinstance(piece, (tuple, list)) or len(piece) not in (2, 3):
            raise TypeError(
                f"source() must return an iterator of (X, y) or (X, y, sample_weight), but piece "
                f"{number} is {type(piece).__name__}"
            )
        yield piece[0], piece[1], piece[2] if len(piece) == 3 else None


def _of_arrays(given: tuple[Any, ...], n_bytes: int, needs_labels: bool = True) -> Iterator[Piece]:
    are_files = [isinstance(a, (str, os.PathLike)) for a in given]
    arrays = [_readers.array_of_npy(a) if f else a for a, f in zip(given, are_files, strict=True)]
    X: Any
    y: Any
    X, y, weights = (*arrays, None)[:3]
    if _validate.is_sparse(X):
        X = _validate.plain_csr(X)
        size = 16 * X.nnz // max(1, X.shape[0]) + 16
    else:
        X = X if hasattr(X, "shape") else np.asarray(X)
        size = 8 * int(np.prod(X.shape[1:]))
    if len(X.shape) != 2:
        raise ValueError(f"X must be two-dimensional, got shape {X.shape}")
    if y is None and needs_labels:
        raise ValueError("y, an array of labels or targets, is missing")
    for name, other in (("y", y), ("sample_weight", weights)):
        if other is not None and len(other) != X.shape[0]:
            raise ValueError(
                f"{name} must have an entry for each of the {X.shape[0]} rows of X, got "
                f"{len(other)}"
            )
    n = max(1, n_bytes // max(2 * size, 1))
    for first in range(0, X.shape[0], n):
        part = slice(first, first + n)
        yield (
            X[part],
            None if y is None else np.asarray(y[part]),
            None if weights is None else np.asarray(weights[part]),
        )


def dump(file: Any, piece: Piece) -> None:
    """Append a piece to a file: its sizes and the bytes of its arrays."""
    X, y, weights = piece
    arrays = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    arrays += [y] if weights is None else [y, weights]
    index_bytes = arrays[1].itemsize if sparse.issparse(X) else 0
    file.write(np.array([*y.shape, X.size, index_bytes, weights is not None], np.int64).tobytes())
    for array in arrays:
        file.write(array.tobytes())


def load(file: Any, dtype: Any, n_features: int) -> Iterator[Piece]:
    """The pieces of a file by `dump`, whose values have this type."""
    while header := file.read(5 * 8):
        n, n_outputs, size, index_bytes, has_weights = np.frombuffer(header, np.int64).tolist()

        def take(dtype: Any, count: int) -> np.ndarray:
            dtype = np.dtype(dtype)
            return np.frombuffer(file.read(dtype.itemsize * count), dtype)

        X: Any = take(dtype, size)
        if index_bytes:
            index = f"i{index_bytes}"
            X = sparse.csr_array((X, take(index, size), take(index, n + 1)), (n, n_features))
        else:
            X = X.reshape(n, -1)
        y = take(np.float64, n * n_outputs).reshape(n, n_outputs)
        yield X, y, take(np.float64, n) if has_weights else None
