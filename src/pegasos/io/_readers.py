"""Reads labelled rows from files: LIBSVM text, CSV, .npy, .npz and Parquet.

Parsing is left to scikit-learn, NumPy and pyarrow. What is added here is which columns are read,
and messages that say which line of which file is wrong. Every failure is a ValueError, an OSError
or, without pyarrow, an ImportError.
"""

import bz2
import codecs
import contextlib
import csv
import dataclasses
import functools
import gzip
import io
import lzma
import os
import re
import reprlib
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from pegasos.io import _archive
from pegasos.problems import _validate

#: Formats by the endings of names. Other names are those of LIBSVM text.
_ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".npy": "npy", ".npz": "npz",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
FORMATS = ("libsvm", *dict.fromkeys(_ENDINGS.values()))

_NUMBER = r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"

_MAX_LINE = 2**27  # more than any row; a file without line ends is not read as one

# Of a file that is read whole, so many bytes are read at once.
_PIECE = 2**26

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BEGINNINGS = {".gz": b"\x1f\x8b", ".bz2": b"BZh91AY&SY", ".xz": b"\xfd7zXZ\x00"}

_ENCODE = (
    "encode categories first, for instance with pandas.get_dummies or "
    "sklearn.preprocessing.OneHotEncoder"
)


@dataclass(frozen=True)
class Layout:
    """How the rows of a file are read.

    Attributes
    ----------
    format : str, optional
        One of `FORMATS`; told from the name if not given.
    label_column : int, str or None, default=-1
        Which column of a table (CSV, .npy, Parquet) holds the label: its name, or its number;
        negative ones count from the end, without those of `drop`. None: there is no label.
    drop : sequence of int or str, default=()
        Columns of a table that are left out.
    header : {"auto", "yes", "no"}, default="auto"
        Whether the first line of a CSV file has names of columns; "auto": if it has no number but
        the label, or if columns are chosen by name.
    separator : str, optional
        The character between fields of CSV. Not given: a comma, a semicolon or a tab, whichever is
        in the first line.
    """

    format: str | None = None
    label_column: int | str | None = -1
    drop: Sequence[int | str] = ()
    header: str = "auto"
    separator: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            _validate.choice("format", self.format, FORMATS)
        _validate.choice("header", self.header, ("auto", "yes", "no"))
        for name, column in (
            ("label_column", self.label_column),
            *(("drop", j) for j in self.drop),
        ):
            if not isinstance(column, str):
                _validate.integer(name, column, at_least=-(2**31), besides=(None,))
        separator = self.separator
        if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
            raise ValueError(f"separator must be one character, got {separator!r}")
        if self.has_names and self.header == "no":
            raise ValueError("columns without a header have no names: say their numbers, from 0")

    @property
    def has_names(self) -> bool:
        """Whether columns are chosen by name."""
        return any(isinstance(column, str) for column in (self.label_column, *self.drop))

    def format_of(self, path: _archive.Path) -> str:
        """The format of a file."""
        return self.format or guess_format(path)


class Rows(NamedTuple):
    """What `read` returns."""

    X: Any
    y: np.ndarray | None
    zero_based: bool | None
    names: list[str] | None


def guess_format(path: _archive.Path) -> str:
    """The format that the name of a file speaks of; "libsvm" if it speaks of none."""
    stem, ending = os.path.splitext(os.fspath(path).lower())
    if ending in _OPENERS:
        ending = os.path.splitext(stem)[1]
    return _ENDINGS.get(ending, "libsvm")


def read(
    path: _archive.Path,
    *,
    n_features: int | None = None,
    names: Sequence[str] | None = None,
    labels_optional: bool = False,
    zero_based: bool | None = None,
    targets: bool = False,
    **layout: Any,
) -> Rows:
    """Read rows and labels, or targets.

    Parameters
    ----------
    path : str or path
        Text may be compressed (.gz, .bz2, .xz). "-" is standard input.
    n_features : int, optional
        Number of columns of X; LIBSVM text does not say, and a test file may lack the last ones.
    names : sequence of str, optional
        Which columns of a table with names are features. The last column is then the label only if
        there is no other beside these.
    labels_optional : bool, default=False
        A table without a column beside the features, LIBSVM text that begins with an index, or an
        .npz file without y, holds rows only.
    zero_based : bool, optional
        Whether LIBSVM text counts features from 0. Not given: if it has a feature 0.
    targets : bool, default=False
        Whether labels are targets of regression: numbers, in an .npz file of several outputs too.
    layout
        Attributes of `Layout`.

    Returns
    -------
    X : ndarray or csr_array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs), or None
    zero_based : bool or None
        Whether LIBSVM text counts features from 0; None of other formats.
    names : list of str or None
        Names of the features, of a table that has some.

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
    how = Layout(**layout)
    format, found = how.format_of(path), None
    expected: dict[str, Any] = {
        "n_features": n_features, "wanted": names, "labels_optional": labels_optional,
    }  # fmt: skip
    with _that_opens_again(path) as file, _naming(name, file):
        if format == "libsvm":
            X, y, zero_based = _read_libsvm(file, n_features, labels_optional, zero_based)
        elif format == "csv":
            X, y, found = _read_csv(file, how, targets, expected)
        elif format == "npz":
            X, y, _ = arrays_of_npz(file)
        else:
            columns, pieces = _table(file, format, how, _PIECE, **expected)
            found, read_pieces = columns.feature_names, list(pieces)
            if not read_pieces:
                raise ValueError(f"{file} holds no rows")
            X = np.concatenate([X for X, _ in read_pieces])
            y = None
            if columns.label is not None:
                y = _plain_labels(np.concatenate([y for _, y in read_pieces]))
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
    return Rows(X, y, zero_based if format == "libsvm" else None, found)


@contextlib.contextmanager
def _naming(name: str, file: _archive.Path) -> Generator[None]:
    """Let errors of the block name the file that the user gave; it may be read from a copy."""
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
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


def table_pieces(path: _archive.Path, n_bytes: int, layout: Layout) -> Iterator[tuple[Any, Any]]:
    """Rows and labels of a file in .npy or Parquet, about so many bytes of memory at a time."""
    with _naming(os.fspath(path), path):
        yield from _table(path, layout.format_of(path), layout, n_bytes)[1]


def feature_names(path: _archive.Path, layout: Layout) -> list[str] | None:
    """Names of the features of a file that has some."""
    format = layout.format_of(path)
    with _naming(os.fspath(path), path):
        if format == "csv":
            return _Csv(path, layout).columns.feature_names
        return _table(path, format, layout, 1)[0].feature_names if format == "parquet" else None


def text_pieces(path: _archive.Path, size: int, layout: Layout) -> Iterator[tuple[Any, np.ndarray]]:
    """Rows and labels of a file of LIBSVM or CSV text, about `size` bytes of text at a time.

    Features of LIBSVM text are numbered as they are there. Labels of CSV are strings.
    """
    name = os.fspath(path)
    table = None
    with _naming(name, path), _opened(path) as file:
        if layout.format_of(path) == "csv":
            table = _Csv(path, layout)
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
    if y.dtype.kind in "biu":
        return y
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
                what, *hint = problem.args
                where = f"{path}, line {number}: {what} in {shown!r}"
                raise ValueError(": ".join([where, *hint])) from None
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


class _Columns:
    """Which columns of a table hold features, and which one holds the label.

    Parameters
    ----------
    file : str
    names : list of str or None
    n : int
        Number of columns.
    layout : Layout
    n_features, wanted, labels_optional
        As `n_features`, `names` and `labels_optional` of `read`.
    """

    def __init__(
        self,
        file: str,
        names: list[str] | None,
        n: int,
        layout: Layout,
        n_features: int | None = None,
        wanted: Sequence[str] | None = None,
        labels_optional: bool = False,
    ) -> None:
        self.file, self.names, self.n = file, names, n
        #: Where each name stands; -1 if several columns have it.
        self._places: dict[str, int] = {}
        for j, name in enumerate(names or []):
            self._places[name] = -1 if name in self._places else j
        dropped = {self._number_of(column) for column in layout.drop}
        kept = [j for j in range(n) if j not in dropped]
        label = layout.label_column
        if isinstance(label, int) and -len(kept) <= label < 0:
            self.label: int | None = kept[label]
        else:
            self.label = None if label is None else self._number_of(label)
        if self.label in dropped:
            raise ValueError(f"{file}: column {label!r} has the labels, and is left out")
        if names is not None and wanted is not None:
            kept = [self._number_of(name) for name in wanted]
            has_no_label = self.label in kept or (label == -1 and n > len(kept) + 1)
        else:
            has_no_label = len(kept) == n_features
        if labels_optional and has_no_label:
            self.label = None
        #: Whether a column has the labels because it is the last one, and nobody has named it.
        self.is_last_label = label == -1 and self.label is not None
        self.features = [j for j in kept if j != self.label]
        if not self.features:
            raise ValueError(f"{file}, line 1: a label and at least one feature are needed")

    def _number_of(self, column: int | str) -> int:
        if isinstance(column, str):
            place = self._places.get(column, -1)
            if place < 0:
                what = "two columns named" if column in self._places else "no column"
                names = (
                    f"its columns are {reprlib.repr(self.names)}"
                    if self.names
                    else "columns have no names"
                )
                raise ValueError(f"{self.file} has {what} {column!r}; {names}")
            return place
        if not -self.n <= column < self.n:
            raise ValueError(f"{self.file} has {self.n} columns, there is no column {column}")
        return column % self.n

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, if they tell one from another."""
        names = [self.names[j] for j in self.features] if self.names else []
        return names if names and len(set(names)) == len(names) else None

    def told(self, j: int) -> str:
        """A column, for messages."""
        return f"column {j + 1}" + (f" ({self.names[j]!r})" if self.names else "")

    def advice(self, j: int) -> str:
        """What to do about a column that has no numbers."""
        column = self.names[j] if self.names else j
        on_line = shlex.quote(str(column))
        own = (
            f"if it is the label, say --label {on_line} (in Python, label_column={column!r}); else"
        )
        return (
            f"{f'{own} ' if self.is_last_label else ''}{_ENCODE}, or leave the column out: "
            f"--drop {on_line} (in Python, drop=[{column!r}])"
        )


class _Csv:
    """How the lines of a CSV file are read; `expected` as by `_Columns`."""

    def __init__(self, path: _archive.Path, layout: Layout, **expected: Any) -> None:
        name = os.fspath(path)
        first, self.delimiter, is_alone = _first_line(path, layout.separator)
        n = len(first)
        if n == 0:
            raise ValueError(f"{name} is empty, or its first line is")
        if layout.header != "auto" or layout.has_names:
            is_header = layout.header != "no"
        else:
            columns = _Columns(name, None, n, layout, **expected).features
            is_header = _is_header(name, first, columns) and not is_alone
        self.skip = int(is_header)
        names = [field.strip() for field in first] if is_header else None
        self.columns = _Columns(name, names, n, layout, **expected)
        #: Each label's text and its number, in order of appearance.
        self.labels: dict[str, int] = {}

    def check(self, line: bytes) -> None:
        """Raise a ValueError that says what is wrong with a line, and perhaps what to do."""
        columns = self.columns
        fields = _fields(line.decode("utf-8", "replace"), self.delimiter)
        if len(fields) != columns.n:
            raise ValueError(f"{len(fields)} columns where the first line has {columns.n}")
        for j in columns.features:
            if not fields[j].strip():
                hint = "fill missing values in, or leave the row out"
                raise ValueError(f"{columns.told(j)} is empty", hint)
            if not _is_number(fields[j]):
                has_comma = re.fullmatch(r"\s*[-+]?\d+,\d+\s*", fields[j])
                hint = "decimals have a point, not a comma" if has_comma else columns.advice(j)
                raise ValueError(f"{columns.told(j)} is not a number", hint)
        if columns.label is not None:
            self._number_of(fields[columns.label])

    def _number_of(self, label: str) -> int:
        if not label.strip():
            raise ValueError("the label is empty")
        return self.labels.setdefault(label.strip(), len(self.labels))

    def read(self, source: Any, skip: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows, and the numbers of their labels, of a file or of lines."""
        columns = self.columns
        unread = set(range(columns.n)).difference(columns.features)
        converters: Any = dict.fromkeys(unread, _nothing)
        if columns.label is not None:
            converters[columns.label] = self._number_of
        table = np.loadtxt(
            source, quotechar='"', comments=None, encoding="utf-8-sig", ndmin=2, skiprows=skip,
            delimiter=self.delimiter, **({"converters": converters} if converters else {}),
        )  # fmt: skip
        if table.size and table.shape[1] != columns.n:
            raise ValueError(f"{table.shape[1]} columns where the first line has {columns.n}")
        X = table
        if columns.features != list(range(columns.n)):
            X = np.ascontiguousarray(table[:, columns.features])
        return X, None if columns.label is None else table[:, columns.label].astype(np.intp)


def _nothing(text: str) -> float:
    """The number for a field that is not read."""
    return 0.0


def _read_csv(
    path: _archive.Path, layout: Layout, targets: bool, expected: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray | None, list[str] | None]:
    table = _Csv(path, layout, **expected)
    columns = table.columns
    try:
        X, codes = table.read(path, table.skip)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        _blame_line(path, table.check, error, skip=table.skip)
    if codes is None:
        return X, None, columns.feature_names
    classes = _plain_labels(np.array(list(table.labels)))
    if not targets and not expected["labels_optional"] and columns.label:
        _check_labels(f"labels, in column {columns.label + 1},", classes, X[:, 0])
    return X, classes[codes], columns.feature_names


def _first_line(path: _archive.Path, separator: str | None) -> tuple[list[str], str, bool]:
    """The fields of the first line, what is between them, and whether it is the only line."""
    with _opened(path) as file, io.TextIOWrapper(file, "utf-8", "replace") as text:
        line = text.readline(_MAX_LINE)
        is_alone = not text.readline(_MAX_LINE).strip()
    if separator is None:
        separator = max(",;\t", key=re.sub('"[^"]*"', "", line).count)  # of equals the first
    return _fields(line, separator), separator, is_alone


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
            "if the first column has the labels, say --label 0"
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


def arrays_of_npz(path: _archive.Path, folder: str | None = None) -> tuple[Any, Any, Any]:
    """X, y and sample weights (None: it has none); X may be in the arrays of scipy.sparse.save_npz.

    `folder` as for `pegasos.io._archive.load`.
    """
    arrays = _archive.load(path, folder)
    y, weights = arrays.get("y"), arrays.get("sample_weight")
    if "X" in arrays:
        return arrays["X"], y, weights
    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        raise ValueError(
            f"{os.fspath(path)} must hold X and y, or data, indices, indptr, shape and y; "
            f"it holds {', '.join(arrays)}"
        )
    try:
        if "format" in arrays and arrays["format"].tolist() not in (b"csr", "csr"):
            raise ValueError(f"the sparse matrix must be CSR, got format {arrays['format']}")
        shape = tuple(_validate.integer("shape", n) for n in arrays["shape"].tolist())
        X = _validate.csr(arrays["data"], arrays["indices"], arrays["indptr"], shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    return X, y, weights


def _table(
    path: _archive.Path, format: str, layout: Layout, n_bytes: int, **expected: Any
) -> tuple[_Columns, Iterator[tuple[np.ndarray, Any]]]:
    """Columns of a file in .npy or Parquet, and its rows and labels, some at a time."""
    make = _npy if format == "npy" else _parquet
    return make(os.fspath(path), layout, n_bytes, **expected)


def _npy(path: str, layout: Layout, n_bytes: int, **expected: Any) -> Any:
    table = np.load(path, mmap_mode="r", allow_pickle=False)
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} must hold numbers in two dimensions, got {table.dtype} of shape {table.shape}"
        )
    columns = _Columns(path, None, table.shape[1], layout, **expected)
    step = max(1, n_bytes // (32 * columns.n))

    def pieces() -> Iterator[tuple[np.ndarray, Any]]:
        for first in range(0, len(table), step):
            part = table[first : first + step]
            yield (
                part[:, columns.features],
                None if columns.label is None else part[:, columns.label],
            )

    return columns, pieces()


def _parquet(path: str, layout: Layout, n_bytes: int, **expected: Any) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet, types
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'pegasos[parquet]'") from None
    damaged = f"{path} is not a Parquet file, or is damaged"
    try:
        schema = parquet.read_schema(path)
    except ArrowInvalid as error:
        raise ValueError(f"{damaged}: {error}") from None
    # The index of a data frame is no feature, and no label.
    index = [name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name)]
    layout = dataclasses.replace(layout, drop=[*layout.drop, *index])
    columns = _Columns(path, schema.names, len(schema.names), layout, **expected)
    are_numbers = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
    for j in columns.features:
        kind = schema.types[j]
        if not any(is_kind(kind) for is_kind in are_numbers):
            raise ValueError(
                f"{path}, {columns.told(j)} holds {kind}, not numbers: {columns.advice(j)}"
            )
    chosen = columns.features if columns.label is None else [*columns.features, columns.label]
    step = max(1, n_bytes // (32 * len(chosen)))

    def pieces() -> Iterator[tuple[np.ndarray, Any]]:
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(step, columns=[schema.names[j] for j in chosen]):
                    arrays = [
                        batch.column(schema.names[j]).to_numpy(zero_copy_only=False) for j in chosen
                    ]
                    y = None if columns.label is None else arrays.pop()
                    if y is not None and y.dtype == object:
                        if any(label is None for label in y):
                            raise ValueError(f"{path} has rows without a label")
                        y = y.astype(str)
                    X = np.column_stack(arrays)
                    yield X.astype(np.float64) if X.dtype == object else X, y
        except ArrowInvalid as error:
            raise ValueError(f"{damaged}: {error}") from None

    return columns, pieces()
