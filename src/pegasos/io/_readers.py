"""Reads labelled rows from files: LIBSVM text, CSV and .npz.

Parsing is left to scikit-learn and NumPy. What is added here are messages that say which line of
which file is wrong. Every failure is a ValueError or an OSError.
"""

import bz2
import codecs
import contextlib
import csv
import functools
import gzip
import io
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import IO, Any, NoReturn

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from pegasos.io import _archive
from pegasos.problems import _validate

FORMATS = ("libsvm", "csv", "npz")

_NUMBER = r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"

_MAX_LINE = 2**27  # more than any row; a file without line ends is not read as one

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_BEGINNINGS = {".gz": b"\x1f\x8b", ".bz2": b"BZh91AY&SY"}


def guess_format(path: _archive.Path) -> str:
    """The format that the name of a file speaks of; "libsvm" if it speaks of none."""
    stem, ending = os.path.splitext(os.fspath(path).lower())
    if ending in _OPENERS:
        ending = os.path.splitext(stem)[1]
    return {".csv": "csv", ".tsv": "csv", ".npz": "npz"}.get(ending, "libsvm")


def read(
    path: _archive.Path,
    *,
    format: str | None = None,
    n_features: int | None = None,
    label_column: int | None = -1,
    labels_optional: bool = False,
    header: str = "auto",
    zero_based: bool | None = None,
    targets: bool = False,
) -> tuple[Any, np.ndarray | None, bool | None]:
    """Read rows and labels, or targets.

    Parameters
    ----------
    path : str or path
        Text may be compressed (.gz, .bz2). "-" is standard input.
    format : {"libsvm", "csv", "npz"}, optional
        Told from the name if not given.
    n_features : int, optional
        Number of columns of X; LIBSVM text does not say, and a test file may lack the last ones.
    label_column : int or None, default=-1
        Column of a CSV file that holds the label. None: there is no label.
    labels_optional : bool, default=False
        A CSV file of `n_features` columns, LIBSVM text that begins with an index, or an .npz file
        without y, holds rows only.
    header : {"auto", "yes", "no"}, default="auto"
        Whether the first line of a CSV file is one; "auto": if it has no number but the label.
    zero_based : bool, optional
        Whether LIBSVM text counts features from 0. Not given: if it has a feature 0.
    targets : bool, default=False
        Whether labels are targets of regression: numbers, in an .npz file of several outputs too.

    Returns
    -------
    X : ndarray or csr_array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs), or None
    zero_based : bool or None
        Whether LIBSVM text counts features from 0; None of other formats.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is malformed; the message has the number of the line.
    """
    name = "standard input" if path == "-" else os.fspath(path)
    if n_features is not None:
        n_features = _validate.integer("n_features", n_features)
    format = format or guess_format(path)
    with _that_opens_again(path) as file, _naming(name, file):
        if format == "libsvm":
            X, y, zero_based = _read_libsvm(file, n_features, labels_optional, zero_based)
        elif format == "csv":
            X, y = _read_csv(file, n_features, label_column, labels_optional, header, targets)
        else:
            X, y = _read_npz(file)
    if y is None and not labels_optional:
        raise ValueError(
            f"{name} has no labels"
            + (": an array named y is missing" if format == "npz" else ", which are needed")
        )
    try:
        _validate.rows(X)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {_where_not_finite(X) or error}") from None
    if targets and y is not None:
        try:
            text = next((label for label in y.ravel() if not _is_number(str(label))), None)
            if text is not None:
                raise ValueError(f"targets must be numbers, got {str(text)!r}")
            y = _validate.targets(y.astype(np.float64), X.shape[0])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return X, y, zero_based if format == "libsvm" else None


@contextlib.contextmanager
def _naming(name: str, file: _archive.Path) -> Generator[None]:
    """Let errors of the block name the file that the user gave; it may be read from a copy."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name} is truncated or corrupt: {error}") from None
    except OSError as error:
        if error.filename is None:  # of bz2: Invalid data stream
            raise ValueError(f"{name} is truncated or corrupt: {error}") from None
        raise
    except OverflowError as error:
        raise ValueError(f"{name} holds a number out of range: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not text in UTF-8: {error}") from None
    except ValueError as error:
        what = str(error).replace(os.fspath(file), name)
        raise ValueError(what if name in what else f"{name}: {what}") from None


def text_pieces(
    path: _archive.Path, size: int, *, format: str, label_column: int = -1, header: str = "auto"
) -> Iterator[tuple[Any, np.ndarray]]:
    """Rows and labels of a file of LIBSVM or CSV text, about `size` bytes of text at a time.

    Features of LIBSVM text are numbered as they are there. Labels of CSV are strings.
    """
    name = os.fspath(path)
    table = None
    with _naming(name, path), _opened(path) as file:
        if format == "csv":
            table = _Csv(path, None, label_column, False, header)
            file.readlines(1) if table.skip else None
        first = 0
        while lines := file.readlines(size):
            try:
                if table is not None:
                    X, codes = table.read([line.decode("utf-8") for line in lines])
                    assert codes is not None
                    y = np.array(list(table.labels))[codes]
                    table.labels.clear()
                else:
                    X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
                    X = sparse.csr_array(X)
            except UnicodeDecodeError:
                raise
            except (ValueError, OverflowError) as error:
                check = _check_libsvm_line if table is None else table.check
                _blame_line(path, check, error, skip=table.skip if table else 0)
            where = _where_not_finite(X, first)
            if where is not None:
                raise ValueError(where)
            first += X.shape[0]
            if X.shape[0]:
                yield X, y


@contextlib.contextmanager
def _that_opens_again(path: _archive.Path) -> Generator[_archive.Path]:
    """The name of a file that can be opened several times: a pipe is copied to one."""
    if path != "-" and os.path.isfile(path):
        yield path
        return
    if path == "-" and sys.stdin is None:
        raise ValueError("standard input is closed")
    with (
        contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file,
        tempfile.TemporaryDirectory() as folder,
    ):
        copy = os.path.join(folder, "copy")
        with open(copy, "w+b") as out:
            shutil.copyfileobj(file, out)
            out.seek(0)
            beginning = out.read(10)
        ending = os.path.splitext(path)[1]
        for packed, first in _BEGINNINGS.items():  # the name may not tell
            if beginning.startswith(first):
                ending = packed
        yield shutil.move(copy, copy + ending)


def _where_not_finite(X: Any, first: int = 0) -> str | None:
    """A sentence on the first row with a NaN or infinity, or None."""
    values = X.data if sparse.issparse(X) else X
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return None
    at = int(np.argmin(np.isfinite(values).ravel()))
    if sparse.issparse(X):
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    else:
        row, column = divmod(at, X.shape[1])
    return (
        f"row {first + row + 1}, feature {column + 1} is {values.ravel()[at]}, "
        "but all numbers must be finite"
    )


def _plain_labels(y: np.ndarray) -> np.ndarray:
    """Labels as integers where all are whole numbers, as numbers, or as strings.

    "007" is a string: as a number it would be the same label as "7".
    """
    if y.dtype.kind == "U" and not all(re.fullmatch(_NUMBER, label) for label in y):
        return y
    numbers = y.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"labels must be finite, got {y[np.argmin(np.isfinite(numbers))]}")
    if y.dtype.kind == "U" and all(re.fullmatch(r"[+-]?\d{1,18}", label) for label in y):
        return y.astype(np.int64)
    if (np.abs(numbers) < 2**53).all() and (numbers == np.round(numbers)).all():
        return numbers.astype(np.int64)
    return numbers


@contextlib.contextmanager
def _opened(path: _archive.Path) -> Generator[IO[bytes]]:
    """The bytes of a file, unpacked, after its byte order mark."""
    with _OPENERS.get(os.path.splitext(path)[1], open)(path, "rb") as file:
        mark = file.read(3)
        if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(f"{path} is text in UTF-16: save it as UTF-8")
        if mark != codecs.BOM_UTF8:
            file.seek(0)
        yield file


def _blame_line(
    path: _archive.Path, parse: Callable[[bytes], None], error: Exception, skip: int = 0
) -> NoReturn:
    """Raise a ValueError that names the first line which `parse` refuses, if there is one."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if number <= skip or not line.strip(b"\r\n"):
                continue
            try:
                parse(line)
            except (ValueError, OverflowError) as problem:
                text = line.decode("utf-8", "replace").strip()
                shown = text if len(text) <= 60 else text[:57] + "..."
                raise ValueError(f"{path}, line {number}: {problem} in {shown!r}") from None
    raise ValueError(f"{path}: {error}") from None


class _Labelled:
    """LIBSVM text without labels, as scikit-learn reads files, with a label of 0 for every row."""

    def __init__(self, lines: IO[bytes]) -> None:
        self.lines = lines

    def __iter__(self) -> Iterator[bytes]:
        for number, line in enumerate(self.lines, start=1):
            if line.partition(b"#")[0].strip():
                yield b"0 " + line
            elif not line.strip():
                raise ValueError(f"line {number} is empty: give a row without features a label")

    def read(self) -> NoReturn:
        """Needed for scikit-learn to see a file."""
        raise NotImplementedError


def _check_libsvm_line(line: bytes, is_labelled: bool = True) -> None:
    """Raise a ValueError that says what is wrong with a line."""
    fields = line.partition(b"#")[0].split()
    if not fields:
        return
    if is_labelled and b":" in fields[0]:
        raise ValueError("the label is missing")
    if b"," in fields[0] or b";" in fields[0]:
        raise ValueError("a label must come first (of CSV, say --format csv)")
    for field in fields[is_labelled:]:
        if b":" not in field:
            raise ValueError(f"{field.decode('utf-8', 'replace')!r} is not index:value")
    load_svmlight_file(io.BytesIO(line if is_labelled else b"0 " + line), zero_based=True)


def _read_libsvm(
    path: _archive.Path, n_features: int | None, labels_optional: bool, zero_based: bool | None
) -> tuple[Any, np.ndarray | None, bool]:
    with _opened(path) as file:
        first = next((line for line in file if line.partition(b"#")[0].strip()), b"0").split()[0]
    is_labelled = not (labels_optional and b":" in first)
    parse = functools.partial(_check_libsvm_line, is_labelled=is_labelled)

    try:
        with _opened(path) as file:
            text = file if is_labelled else _Labelled(file)
            X, y = load_svmlight_file(text, zero_based=True)
    except (ValueError, OverflowError) as error:
        _blame_line(path, parse, error)
    if X.shape[0] == 0:
        raise ValueError(f"{path} holds no rows")
    X, zero_based = _from_zero(path, sparse.csr_array(X), n_features, zero_based)
    return X, _plain_labels(y) if is_labelled else None, zero_based


def _from_zero(
    path: _archive.Path, X: Any, n_features: int | None, zero_based: bool | None
) -> tuple[Any, bool]:
    """The rows with features counted from 0, and whether the file, as X is, counts from 0."""
    lowest, highest = X.indices.min(initial=X.shape[1]), X.indices.max(initial=0)
    if zero_based is False and lowest == 0:
        raise ValueError(
            f"{path} has a feature number 0 where features are counted from 1: "
            "say --zero-based yes if it is another file that counts from 0"
        )
    is_zero_based = lowest == 0 if zero_based is None else zero_based
    n_there = int(highest) + bool(is_zero_based)
    if n_features is not None and n_there > n_features:
        raise ValueError(
            f"{path} has a feature number {highest}, counted from {int(not is_zero_based)}, which "
            f"is too large for n_features={n_features}"
        )
    if not is_zero_based:
        X.indices -= 1
    shape = X.shape[0], n_features or max(n_there, 1)
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=shape), bool(is_zero_based)


class _Csv:
    """How the lines of a CSV file are read."""

    def __init__(
        self,
        path: _archive.Path,
        n_features: int | None,
        label_column: int | None,
        labels_optional: bool,
        header: str,
    ) -> None:
        self.name = os.fspath(path)
        first, self.delimiter, is_alone = _first_line(path)
        self.n_columns = len(first)
        if self.n_columns == 0:
            raise ValueError(f"{self.name} is empty, or its first line is")
        if labels_optional and self.n_columns == n_features:
            label_column = None
        self.has_labels = label_column is not None
        if label_column is not None and not -self.n_columns <= label_column < self.n_columns:
            raise ValueError(
                f"{self.name} has {self.n_columns} columns, there is no column {label_column}"
            )
        self.columns = list(range(self.n_columns))
        self.label_column = -1 if label_column is None else self.columns.pop(label_column)
        if not self.columns:
            raise ValueError(f"{self.name}, line 1: a label and at least one feature are needed")
        if header == "auto":
            self.skip = int(_is_header(self.name, first, self.columns) and not is_alone)
        else:
            self.skip = int(header == "yes")
        #: Each label's text and its number, in order of appearance.
        self.labels: dict[str, int] = {}

    def check(self, line: bytes) -> None:
        """Raise a ValueError that says what is wrong with a line."""
        fields = _fields(line.decode("utf-8", "replace"), self.delimiter)
        if len(fields) != self.n_columns:
            raise ValueError(f"{len(fields)} columns where the first line has {self.n_columns}")
        for j in self.columns:
            if not _is_number(fields[j]):
                is_label = j == 0 and self.has_labels
                hint = " (if it is the label, say --label-column 0)" if is_label else ""
                raise ValueError(f"column {j + 1} is not a number{hint}")
        if self.has_labels:
            self._number_of(fields[self.label_column])

    def _number_of(self, label: str) -> int:
        if not label.strip():
            raise ValueError("the label is empty")
        return self.labels.setdefault(label.strip(), len(self.labels))

    def read(self, source: Any, skip: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows, and the numbers of their labels, of a file or of lines."""
        layout: dict[str, Any] = {"delimiter": self.delimiter, "skiprows": skip}
        if self.has_labels:
            layout["converters"] = {self.label_column: self._number_of}
        table = np.loadtxt(
            source, quotechar='"', comments=None, encoding="utf-8-sig", ndmin=2, **layout
        )
        if table.size and table.shape[1] != self.n_columns:
            raise ValueError(f"{table.shape[1]} columns where the first line has {self.n_columns}")
        if not self.has_labels:
            return table, None
        codes = table[:, self.label_column].astype(np.intp)
        return np.ascontiguousarray(table[:, self.columns]), codes


def _read_csv(
    path: _archive.Path,
    n_features: int | None,
    label_column: int | None,
    labels_optional: bool,
    header: str,
    targets: bool,
) -> tuple[np.ndarray, np.ndarray | None]:
    table = _Csv(path, n_features, label_column, labels_optional, header)
    try:
        X, codes = table.read(path, table.skip)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        _blame_line(path, table.check, error, skip=table.skip)
    if codes is None:
        return X, None
    classes = _plain_labels(np.array(list(table.labels)))
    if not targets and not labels_optional and table.label_column != 0:
        what = f"labels, in column {table.label_column % table.n_columns + 1},"
        _check_labels(what, classes, X[:, 0])
    return X, classes[codes]


def _first_line(path: _archive.Path) -> tuple[list[str], str, bool]:
    """The fields of the first line, what is between them, and whether it is the only line."""
    with _opened(path) as file, io.TextIOWrapper(file, "utf-8", "replace") as text:
        line = text.readline(_MAX_LINE)
        is_alone = not text.readline(_MAX_LINE).strip()
    delimiter = max(",;\t", key=re.sub('"[^"]*"', "", line).count)  # of equals the first
    return _fields(line, delimiter), delimiter, is_alone


def _is_header(name: str, first: list[str], columns: list[int]) -> bool:
    """Whether the first line has names of columns. One with some numbers is a row, perhaps bad."""
    if len(first) > 2 and first in [[str(k + j) for j in range(len(first))] for k in (0, 1)]:
        raise ValueError(
            f"{name}, line 1: {','.join(first[:3])},... may be a row or names of columns: "
            "say --header yes or --header no"
        )
    return not any(_is_number(first[j]) for j in columns)


def _check_labels(what: str, classes: np.ndarray, others: np.ndarray) -> None:
    """Raise a ValueError if nothing could be learned of these classes, but of `others` perhaps."""
    is_number = classes.dtype.kind == "f" and (classes != classes.round()).any()
    if not is_number and len(classes) > 1:
        return
    if (others == others.round()).all() and (others != others[0]).any():
        raise ValueError(
            f"{what} are {', '.join(map(str, classes[:3].tolist()))}"
            f"{', ...' if len(classes) > 3 else ''}; "
            "if the first column has the labels, say --label-column 0"
        )


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line of CSV, as text."""
    try:
        return next(csv.reader([line.strip(" \r\n")], delimiter=delimiter), [])
    except csv.Error as error:
        raise ValueError(f"not a line of CSV: {error}") from None


def _is_number(text: str) -> bool:
    """Whether NumPy would read it as a number; Python knows 1_000 and other digits, too."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _read_npz(path: _archive.Path) -> tuple[Any, np.ndarray | None]:
    """X and y, or the arrays of scipy.sparse.save_npz and y."""
    arrays = _archive.load(path)
    y = arrays.get("y")
    if "X" in arrays:
        return arrays["X"], y
    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        raise ValueError(
            f"{os.fspath(path)} must hold X and y, or data, indices, indptr, shape and y; "
            f"it holds {', '.join(arrays)}"
        )
    try:
        if "format" in arrays and arrays["format"].tolist() not in (b"csr", "csr"):
            raise ValueError(f"the sparse matrix must be CSR, got format {arrays['format']}")
        shape = tuple(_validate.integer("shape", n) for n in arrays["shape"].tolist())
        return _validate.csr(arrays["data"], arrays["indices"], arrays["indptr"], shape), y
    except (TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
