"""Read labelled rows from files: LIBSVM text, CSV, .npy, .npz and Parquet.

scikit-learn, NumPy and pyarrow parse. This module chooses columns, and its messages name the wrong
line of a file. Every failure is a ValueError, an OSError or, without pyarrow, an ImportError.
"""

import bz2
import codecs
import contextlib
import csv
import dataclasses
import gzip
import io
import itertools
import lzma
import os
import re
import reprlib
import shutil
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from pegasos import _interrupts, _user_warnings
from pegasos._extras import needed_by
from pegasos.io import _archive
from pegasos.problems import _validate
from pegasos.problems._validate import parameter

#: Formats by the endings of file names. All other names mean LIBSVM text.
_ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".npy": "npy", ".npz": "npz",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
FORMATS = ("libsvm", *dict.fromkeys(_ENDINGS.values()))

# A label that is a number; integers have at most 18 digits.
_NUMBER = r"(?![+-]?\d{19,}$)[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"

_LAST_FEATURE = 2**31 - 1  # the limit of scikit-learn's reader of LIBSVM text

_MAX_LINE = 2**27  # longer than any row; a file without line ends is not read as one row

# Bytes of a piece of a file that is read whole, and memory for each byte of text that is parsed.
_PIECE, _TEXT = 2**28, 6

#: X, y and sample weights; y and weights may be None.
Piece = tuple[Any, Any, Any]

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BEGINNINGS = {".gz": b"\x1f\x8b", ".bz2": b"BZh91AY&SY", ".xz": b"\xfd7zXZ\x00"}

# Labels that usually mean a missing one; "none" may be a category.
_MISSING = {"NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "?", "-"}
_UNNAMED = "Unnamed: "  # pandas's name of a column without one, followed by its number
_ENCODE = (
    "write numbers such as 1234.5, and 1 for true and 0 for false; fill missing values in; encode "
    "categories first, for instance with pandas.get_dummies(..., dtype=float) or "
    "sklearn.preprocessing.OneHotEncoder"
)


@dataclass(frozen=True)
class Layout:
    """How the rows of a file are read: parameters of `pegasos.Blocks`, checked.

    `label_column` may also be None: labels are then not read, in any format.
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
            raise ValueError(f"{parameter('separator')} must be one character, got {separator!r}")
        if self.has_names and self.header == "no":
            raise ValueError("columns without a header have no names: say their numbers, from 0")

    @property
    def has_names(self) -> bool:
        """Whether columns are chosen by name."""
        return any(isinstance(column, str) for column in (self.label_column, *self.drop))

    def format_of(self, path: _archive.Path) -> str:
        """The format of a file; options for other formats are refused."""
        format = self.format or guess_format(path)
        is_table = format not in ("libsvm", "npz")
        for name, is_given, is_for_it in (
            ("label_column", self.label_column not in (None, -1), is_table),
            ("drop", bool(self.drop), is_table),
            ("header", self.header != "auto", format == "csv"),
            ("separator", self.separator is not None, format == "csv"),
        ):
            if is_given and not is_for_it:
                hint = "" if self.format else f"; {parameter('format')} names another one"
                which = "tables" if name in ("label_column", "drop") else "CSV"
                raise ValueError(
                    f"{parameter(name)} is for {which}, and these are rows of format "
                    f"{format!r}{hint}"
                )
        return format


class Rows(NamedTuple):
    """The result of `read`."""

    X: Any
    y: np.ndarray | None
    zero_based: bool | None  # whether LIBSVM text counts features from 0
    names: list[str] | None  # of the features, if a table has names
    label_name: str | None = None


def guess_format(path: _archive.Path) -> str:
    """The format that a file name tells, else "libsvm"."""
    stem, ending = os.path.splitext(os.fspath(path).lower())
    if ending in _OPENERS:
        ending = os.path.splitext(stem)[1]
    return _ENDINGS.get(ending, "libsvm")


def read(
    path: _archive.Path,
    *,
    n_features: int | None = None,
    names: Sequence[str] | None = None,
    label_name: str | None = None,
    labels_optional: bool = False,
    zero_based: bool | None = None,
    targets: bool = False,
    **layout: Any,
) -> Rows:
    """Read rows and labels, or targets: X, an array or a CSR matrix, and y, or None.

    An OSError if the file cannot be read, and a ValueError, with the number of the line, if it is
    malformed. "-" is standard input. For `n_features` and `zero_based`, see `pegasos.Blocks`;
    `layout` has attributes of `Layout`.

    `names`: the features among the columns of a table with names. The last column is then the label
    only if it is the only other column. `label_name`: the column of the labels, if `layout` names
    none; it may be missing. `labels_optional`: rows have no labels in a table with only features,
    in LIBSVM text that begins with an index, or in an .npz file without y. `targets`: labels are
    targets of regression, which are numbers; an .npz file may have several outputs.
    """
    name = "standard input" if path == "-" else os.fspath(path)
    if n_features is not None:
        n_features = _validate.integer("n_features", n_features)
    how = Layout(**layout)
    format = how.format_of(path)
    expected: dict[str, Any] = {
        "n_features": n_features, "wanted": names, "label_name": label_name,
        "labels_optional": labels_optional, "targets": targets,
    }  # fmt: skip
    with _that_opens_again(path) as file, naming(name, file):
        if format == "npz":
            X, y, _ = arrays_of_npz(file)
            found = label_name = None
        else:
            table = table_of(file, how, **expected)
            pieces, found = list(table.pieces(_PIECE)), table.feature_names
            label_name = table.label_name
            if not pieces:
                raise ValueError(f"{file} holds no rows")
            X, y, _ = joined(pieces)
            y = None if y is None else _plain_labels(y)
            if format == "libsvm":
                X, zero_based = _from_zero(file, X, n_features, zero_based)
            elif format == "csv" and not (targets or labels_optional or y is None):
                warn_of_missing_label(name, y.tolist())
    y = None if how.label_column is None else y
    if y is None and not labels_optional:
        is_array = format == "npz" and how.label_column is not None
        raise ValueError(
            f"{name} has no labels"
            + (": an array named y is missing" if is_array else ", which are needed")
        )
    try:
        if found is not None:
            _validate.finite("X", X, columns=found)
        _validate.rows(X)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    if n_features not in (None, X.shape[1]):
        raise ValueError(f"{name} has {X.shape[1]} features, but {n_features} are expected")
    if targets and y is not None:
        try:
            text = next((label for label in y.ravel() if not _is_number(str(label))), None)
            if text is not None:
                raise ValueError(f"targets must be numbers, got {str(text)!r}")
            y = _validate.targets(y.astype(np.float64), X.shape[0])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return Rows(X, y, zero_based if format == "libsvm" else None, found, label_name)


@contextlib.contextmanager
def naming(name: str, file: _archive.Path) -> Generator[None]:
    """Make errors in the block name the user's file, which may be read from a copy."""
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "filename", None) is not None:  # not an error in unpacking
            raise
        raise ValueError(f"{name} is truncated or corrupt: {error}") from None
    except OverflowError as error:
        raise ValueError(f"{name} holds a number out of range: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not text in UTF-8, to which it must be converted: {error}"
        ) from None
    except ValueError as error:
        what = str(error).replace(os.fspath(file), name)
        raise ValueError(what if name in what else f"{name}: {what}") from None


def joined(pieces: Sequence[Piece]) -> Piece:
    """The rows of pieces, one after the other; those of LIBSVM text may become wider."""
    if len(pieces) == 1:
        return pieces[0]
    parts, *others = zip(*pieces, strict=True)
    if sparse.issparse(parts[0]):
        width = max(X.shape[1] for X in parts)
        wide = [sparse.csr_array((X.data, X.indices, X.indptr), (X.shape[0], width)) for X in parts]
        X = sparse.vstack(wide, "csr")
    else:
        X = np.concatenate(parts)
    y, weights = (None if of[0] is None else np.concatenate(of) for of in others)
    return X, y, weights


def together(pieces: Iterable[Piece], n_bytes: int) -> Iterator[Piece]:
    """Join pieces to larger ones, whose stored values take `n_bytes` or a little more."""
    some, size = list[Piece](), 0
    for piece in pieces:
        some.append(piece)
        size += piece[0].size * piece[0].dtype.itemsize
        if size >= n_bytes:
            yield joined(some)
            some, size = [], 0
    if some:
        yield joined(some)


@contextlib.contextmanager
def _that_opens_again(path: _archive.Path) -> Generator[_archive.Path]:
    """The name of a file that can be opened several times: a pipe is copied to a file."""
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
        for packed, first in _BEGINNINGS.items():  # names of pipes may not tell
            if beginning.startswith(first):
                ending = packed
        yield shutil.move(copy, copy + ending)


def first_word(labels: Iterable[str]) -> str | None:
    """The first label that is no number, or that has too many digits; else None."""
    return next((label for label in labels if not re.fullmatch(_NUMBER, label)), None)


def _plain_labels(y: np.ndarray) -> np.ndarray:
    """Labels as integers if all are whole numbers, else as floats or strings.

    "007" is a string: as a number it would equal the label "7". Whole numbers of more than 18
    digits are strings too, since several of them share one float64.
    """
    if y.dtype.kind in "biu":
        return y
    distinct = set(y.tolist()) if y.dtype.kind == "U" else set()
    if first_word(distinct) is not None:
        return y
    numbers = y.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"labels must be finite, got {y[np.argmin(np.isfinite(numbers))]}")
    if distinct and all(re.fullmatch(r"[+-]?\d{1,18}", label) for label in distinct):
        return y.astype(np.int64)
    if (np.abs(numbers) < 2**53).all() and (numbers == np.round(numbers)).all():
        return numbers.astype(np.int64)
    return numbers


@contextlib.contextmanager
def _opened(path: _archive.Path) -> Generator[IO[bytes]]:
    """The unpacked bytes of a file, after its byte order mark."""
    with _OPENERS.get(os.path.splitext(path)[1], open)(path, "rb") as file:
        beginning = file.read(1024)
        if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(f"{path} is text in UTF-16: save it as UTF-8")
        if b"\0" in beginning:
            raise ValueError(
                f"{path} is binary, not text: if it has another format than its name says, name it "
                f"by {parameter('format')}"
            )
        file.seek(len(codecs.BOM_UTF8) if beginning.startswith(codecs.BOM_UTF8) else 0)
        yield file


def _blame_line(
    path: _archive.Path, parse: Callable[[bytes], None], error: Exception, skip: int = 0
) -> NoReturn:
    """Raise a ValueError that names the first line which `parse` refuses, if there is one."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if number <= skip:
                continue
            try:
                parse(line)
            except (ValueError, OverflowError) as problem:
                text = line.decode("utf-8", "replace").strip()
                shown = text if len(text) <= 60 else text[:57] + "..."
                what, *hint = problem.args
                where = f"{path}, line {number}: {what} in {shown!r}"
                raise ValueError(": ".join([where, *hint])) from None
    raise ValueError(f"{path}: {error.__cause__ or error}") from None  # converters have a cause


class _Text:
    """Rows of text; `parse` turns lines into rows, and labels or None.

    `check` raises a ValueError that says what is wrong with a line, and perhaps what to do.
    """

    parse: Callable[[list[Any]], tuple[Any, np.ndarray | None]]
    check: Callable[[bytes], None]

    #: Lines before the first row.
    skip = 0
    feature_names: list[str] | None = None
    label_name: str | None = None

    def __init__(self, path: _archive.Path, layout: Layout, **expected: Any) -> None:
        self.path = path

    def opened(self, file: IO[bytes]) -> IO[Any]:
        """The file in the form whose lines `parse` takes."""
        return file

    def pieces(self, n_bytes: int) -> Iterator[Piece]:
        """Pieces of the rows, with about `n_bytes` of memory each."""
        with _opened(self.path) as packed, self.opened(packed) as file:
            for _ in range(self.skip):
                file.readline()
            while lines := file.readlines(max(1, n_bytes // _TEXT)):
                try:
                    with _interrupts.told_as_such():
                        X, y = self.parse(lines)
                    numbers = [of for of in (X, y) if of is not None and of.dtype.kind == "f"]
                    if any(map(_validate.not_finite, numbers)):
                        raise ValueError("numbers must be finite")
                except UnicodeDecodeError:
                    raise
                except (ValueError, OverflowError) as error:
                    _blame_line(self.path, self.check, error, skip=self.skip)
                if X.shape[0]:
                    yield X, y, None


class _Libsvm(_Text):
    """LIBSVM text; features keep the numbers in the text."""

    def __init__(
        self, path: _archive.Path, layout: Layout, labels_optional: bool = False, **_: Any
    ) -> None:
        super().__init__(path, layout)
        with _opened(path) as file:
            row = next((line for line in file if line.partition(b"#")[0].strip()), b"0").split()
        self.is_labelled = not (labels_optional and b":" in row[0])

    def _with_label(self, line: bytes) -> bytes:
        """The line with a label, which scikit-learn requires."""
        if self.is_labelled or line.lstrip().startswith(b"#"):
            return line
        if not line.strip():
            raise ValueError("a row without features needs a label")
        return b"0 " + line

    def parse(self, lines: list[bytes]) -> tuple[Any, np.ndarray | None]:
        text = b"".join(lines if self.is_labelled else map(self._with_label, lines))
        X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
        return sparse.csr_array(X), y if self.is_labelled else None

    def check(self, line: bytes) -> None:
        line = self._with_label(line)
        try:
            X, y = load_svmlight_file(io.BytesIO(line), zero_based=True)
        except (ValueError, OverflowError):
            raise ValueError(
                "no row of LIBSVM text",
                "a row has a number, its label, and pairs index:value, whose indices grow and are "
                f"from 0 to {_LAST_FEATURE}; of CSV, say {parameter('format', 'csv')}",
            ) from None
        if _validate.not_finite(X) or _validate.not_finite(y):
            raise ValueError("a value is not finite", "fill missing values in")


def counts_from_zero(lowest: int, told: bool | None) -> bool:
    """Whether LIBSVM text counts features from 0: as `told`, else if its lowest number is 0."""
    if told is False and lowest == 0:
        raise ValueError(
            "there is a feature number 0 where features are counted from 1: say "
            f"{parameter('zero_based', True)} if it is another file that counts from 0"
        )
    return lowest == 0 if told is None else told


def _from_zero(
    path: _archive.Path, X: Any, n_features: int | None, zero_based: bool | None
) -> tuple[Any, bool]:
    """The rows with features counted from 0, and whether the file counts from 0."""
    lowest, highest = X.indices.min(initial=X.shape[1]), X.indices.max(initial=0)
    is_zero_based = counts_from_zero(int(lowest), zero_based)
    n_there = int(highest) + is_zero_based
    if n_features is not None and n_there > n_features:
        raise ValueError(
            f"{path} has a feature number {highest}, counted from {int(not is_zero_based)}, but "
            f"{n_features} features are expected"
        )
    if not is_zero_based:
        X.indices -= 1
    shape = X.shape[0], n_features or max(n_there, 1)
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=shape), is_zero_based


class _Columns:
    """The columns of a table that hold the features and the label, out of `n`.

    `wanted` are the `names` of `read`; the parameters after it are also those of `read`.
    """

    def __init__(
        self,
        file: str,
        names: list[str] | None,
        n: int,
        layout: Layout,
        n_features: int | None = None,
        wanted: Sequence[str] | None = None,
        label_name: str | None = None,
        labels_optional: bool = False,
        targets: bool = False,
    ) -> None:
        self.file, self.names, self.n, self.has_targets = file, names, n, targets
        #: The place of each name; -1 if several columns have it.
        self._places: dict[str, int] = {}
        for j, name in enumerate(names or []):
            self._places[name] = -1 if name in self._places else j
        dropped = {self._number_of(column) for column in layout.drop}
        kept = [j for j in range(n) if j not in dropped]
        label = layout.label_column
        if label == -1 and names is not None and label_name is not None:
            is_there = self._places.get(label_name, n) not in {n, *dropped}
            label = label_name if is_there else None
        if isinstance(label, int) and -len(kept) <= label < 0:
            self.label: int | None = kept[label]
        else:
            self.label = None if label is None else self._number_of(label)
        if self.label in dropped:
            raise ValueError(f"{file}: column {label!r} has the labels, and is left out")
        if names is not None and wanted is not None:
            kept = [self._number_of(name) for name in wanted]
            others = set(range(n)).difference(kept, dropped)
            has_no_label = self.label in kept or (label == -1 and len(others) > 1)
        else:
            has_no_label = len(kept) == n_features
        if labels_optional and has_no_label:
            self.label = None
        #: Whether the label is the last column because nobody has named its column.
        self.is_last_label = label == -1 and self.label is not None
        self.features = [j for j in kept if j != self.label]
        if not self.features:
            raise ValueError(
                f"{file} has {_validate.counted(n, 'column')}, but a label and at least one "
                f"feature are needed: {parameter('separator')} says what is between fields of CSV"
            )
        if names and self.feature_names is None:
            twice = Counter(names[j] for j in self.features).most_common(1)[0][0]
            warnings.warn(
                f"{file} has two columns named {twice!r}: the model takes columns by their "
                "places, not by their names",
                stacklevel=2,
            )

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
                hint = f"; {parameter('drop')} takes columns one by one" if "," in column else ""
                raise ValueError(f"{self.file} has {what} {column!r}; {names}{hint}")
            return place
        if not -self.n <= column < self.n:
            raise ValueError(f"{self.file} has {self.n} columns, there is no column {column}")
        return column % self.n

    @property
    def label_name(self) -> str | None:
        """Name of the label's column, if there are names and a label."""
        return self.names[self.label] if self.names and self.label is not None else None

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, if all differ."""
        names = [self.names[j] for j in self.features] if self.names else []
        return names if names and len(set(names)) == len(names) else None

    def told(self, j: int) -> str:
        """A column in messages."""
        return f"column {j + 1}" + (f" ({self.names[j]!r})" if self.names else "")

    def advice(self, j: int) -> str:
        """Advice on a column that has values which are not numbers."""
        column = self.names[j] if self.names else j
        out = f"or leave the column out: {parameter('drop', [column])}"
        if j == self.label:
            return f"if another column has the labels, say {parameter('label_column')}; {out}"
        own = f"if it is the label, say {parameter('label_column', column)}; else "
        return f"{own * self.is_last_label}{_ENCODE}, {out}"


def _names(header: list[str]) -> list[str]:
    """Names of columns. A column without a name gets pandas's name for it, or a new one."""
    names = [field.strip() for field in header]
    taken = set(names)
    for j, name in enumerate(names):
        if not name:
            own = f"{_UNNAMED}{j}"
            more = (f"{own}.{k}" for k in itertools.count(1))
            names[j] = next(name for name in itertools.chain([own], more) if name not in taken)
            taken.add(names[j])
    return names


class _Csv(_Text):
    """Lines of CSV. Labels are strings, targets are numbers."""

    def __init__(self, path: _archive.Path, layout: Layout, **expected: Any) -> None:
        super().__init__(path, layout)
        name = os.fspath(path)
        first, self.delimiter, n_before, is_alone = _first_line(path, layout.separator)
        n, where = len(first), f"{name}, line {n_before + 1}"
        if n == 0:
            raise ValueError(f"{name} is empty")
        if layout.header != "auto" or layout.has_names:
            is_header = layout.header != "no"
        else:
            columns = _Columns(name, None, n, layout, **expected).features
            is_header = _is_header(where, first, columns)
            if is_header and is_alone:
                raise ValueError(f"{name} has names of columns and no rows, or a row of text")
        self.skip = n_before + is_header
        names = _names(first) if is_header else None
        self.columns = _Columns(name, names, n, layout, **expected)
        self.feature_names = self.columns.feature_names
        self.label_name = self.columns.label_name
        is_named = not is_header or bool(first[0].strip())
        if not is_named and 0 in self.columns.features and expected.get("wanted") is None:
            warnings.warn(
                "column 1 has no name and is a feature: if it numbers the rows, leave it out: "
                + parameter("drop", [0]),
                stacklevel=2,
            )

    def opened(self, file: IO[bytes]) -> IO[str]:
        return io.TextIOWrapper(file, "utf-8")

    def check(self, line: bytes) -> None:
        columns = self.columns
        if not line.strip(b"\r\n"):
            return
        fields = _fields(line.decode("utf-8", "replace"), self.delimiter)
        if len(fields) != columns.n:
            raise ValueError(f"{len(fields)} columns where the first line has {columns.n}")
        label = [] if columns.label is None else [columns.label]
        for j in [*label, *columns.features]:
            field = fields[j].strip()
            is_word = j == columns.label and not columns.has_targets
            if not field or not (is_word or (_is_number(field) and np.isfinite(float(field)))):
                what = "not finite" if _is_number(field) else "not a number" if field else "empty"
                raise ValueError(f"{columns.told(j)} is {what}", columns.advice(j))

    def parse(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray | None]:
        columns, labels = self.columns, dict[str, int]()
        if not any(line.strip("\n") for line in lines):
            return np.zeros((0, len(columns.features))), None

        def number_of(label: str) -> int:
            if not label.strip():
                raise ValueError("the label is empty")
            if "\n" in label:  # usually some rows, which would be lost
                raise ValueError("a label has a line break: a quote is not closed")
            return labels.setdefault(label.strip(), len(labels))

        unread = set(range(columns.n)).difference([*columns.features, columns.label])
        converters: Any = dict.fromkeys(unread, lambda _: 0.0)
        if columns.label is not None and not columns.has_targets:
            converters[columns.label] = number_of
        table = np.loadtxt(
            lines, quotechar='"', comments=None, encoding="utf-8", ndmin=2,
            delimiter=self.delimiter,
            **({"converters": converters} if converters else {}),
        )  # fmt: skip
        if table.size and table.shape[1] != columns.n:
            raise ValueError(f"{table.shape[1]} columns where the first line has {columns.n}")
        X = table
        if columns.features != list(range(columns.n)):
            X = np.ascontiguousarray(table[:, columns.features])
        if columns.label is None:
            return X, None
        if columns.has_targets:
            return X, table[:, columns.label]
        return X, np.array(list(labels))[table[:, columns.label].astype(np.intp)]


def _first_line(path: _archive.Path, separator: str | None) -> tuple[list[str], str, int, bool]:
    """The fields of the first line that is not blank, and the separator.

    Also the number of blank lines before it, and whether all lines after it are blank.
    """
    with _opened(path) as file, io.TextIOWrapper(file, "utf-8", "replace") as text:
        lines = iter(lambda: text.readline(_MAX_LINE), "")
        n_before, line = next(((k, line) for k, line in enumerate(lines) if line.strip()), (0, ""))
        is_alone = not any(map(str.strip, lines))
    if separator is None:
        separator = max(",;\t", key=re.sub('"[^"]*"', "", line).count)  # the first, if equal
    return _fields(line, separator), separator, n_before, is_alone


def _is_header(where: str, first: list[str], columns: list[int]) -> bool:
    """Whether the first line has names of columns. A line with some numbers is a row."""
    for fields in (first, [first[j] for j in columns]):  # pandas may number all but the label
        if len(fields) > 2 and fields in [[str(k + j) for j in range(len(fields))] for k in (0, 1)]:
            raise ValueError(
                f"{where}: {','.join(first[:3])},... may be a row or names of columns: "
                f"say {parameter('header', 'yes')} or {parameter('header', 'no')}"
            )
    return not any(_is_number(first[j]) for j in columns)


def warn_of_missing_label(file: str, labels: Iterable[Any]) -> None:
    """Warn of a label in CSV that usually means a missing label."""
    words = set(labels)
    words -= {"-"} if "+" in words else set()  # two signs name two classes
    for missing in sorted(words & _MISSING)[:1]:
        _user_warnings.warn(
            f"{file}: the label {missing!r} is taken for the name of a class: leave out rows whose "
            "label is missing"
        )


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line of CSV, as strings."""
    try:
        return next(csv.reader([line.strip(" \r\n")], delimiter=delimiter), [])
    except csv.Error as error:
        raise ValueError(f"not a line of CSV: {error}") from None


def _is_number(text: str) -> bool:
    """Whether NumPy reads it as a number; Python also accepts 1_000 and other digits."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def arrays_of_npz(path: _archive.Path, folder: str | None = None) -> tuple[Any, Any, Any]:
    """X, y and sample weights (None: missing); X may be stored by scipy.sparse.save_npz.

    For `folder`, see `pegasos.io._archive.load`.
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


def array_of_npy(path: _archive.Path) -> np.ndarray:
    """The array of a .npy file, whose numbers are read when they are used."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not a .npy file of numbers: {error}") from None


class _Npy:
    """A table of numbers in a .npy file; `expected` has the parameters of `_Columns`."""

    feature_names = label_name = None

    def __init__(self, path: _archive.Path, layout: Layout, **expected: Any) -> None:
        self.table = table = array_of_npy(path)
        if table.ndim != 2 or table.dtype.kind not in "fiub":
            raise ValueError(
                f"{os.fspath(path)} must hold numbers in two dimensions, got {table.dtype} of "
                f"shape {table.shape}"
            )
        self.columns = _Columns(os.fspath(path), None, table.shape[1], layout, **expected)

    def pieces(self, n_bytes: int) -> Iterator[Piece]:
        columns, step = self.columns, max(1, n_bytes // (32 * self.columns.n))
        for first in range(0, len(self.table), step):
            part = self.table[first : first + step]
            y = None if columns.label is None else part[:, columns.label]
            yield part[:, columns.features], y, None


class _Parquet:
    """A Parquet file; `expected` has the parameters of `_Columns`."""

    def __init__(self, path: _archive.Path, layout: Layout, **expected: Any) -> None:
        with needed_by("reading Parquet", "parquet", "pyarrow"):
            from pyarrow import parquet, types
        self.path = os.fspath(path)
        with self._naming():
            schema = parquet.read_schema(path)
        # The index of a data frame is neither a feature nor a label.
        index = [name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name)]
        layout = dataclasses.replace(layout, drop=[*layout.drop, *index])
        n = len(schema.names)
        for name, count in Counter(schema.names).most_common(1):
            if count > 1:
                raise ValueError(
                    f"{self.path} has two columns named {name!r}, and columns of Parquet are read "
                    "by their names: rename one"
                )
        self.columns = columns = _Columns(self.path, schema.names, n, layout, **expected)
        self.feature_names, self.label_name = columns.feature_names, columns.label_name
        are_numbers = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
        for j in columns.features:
            kind = schema.types[j]
            if not any(is_kind(kind) for is_kind in are_numbers):
                raise ValueError(
                    f"{path}, {columns.told(j)} holds {kind}, not numbers: {columns.advice(j)}"
                )
        label = [] if columns.label is None else [columns.label]
        self.chosen = [schema.names[j] for j in [*columns.features, *label]]

    @contextlib.contextmanager
    def _naming(self) -> Generator[None]:
        from pyarrow import ArrowInvalid

        try:
            yield
        except ArrowInvalid as error:
            raise ValueError(f"{self.path} is not a Parquet file, or is damaged: {error}") from None

    def pieces(self, n_bytes: int) -> Iterator[Piece]:
        from pyarrow import parquet

        step = max(1, n_bytes // (32 * len(self.chosen)))
        with self._naming(), parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(step, columns=self.chosen):
                arrays = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.chosen]
                y = None if self.columns.label is None else arrays.pop()
                if y is not None and y.dtype == object:
                    if any(label is None for label in y):
                        raise ValueError(f"{self.path} has rows without a label")
                    y = y.astype(str)
                X = np.column_stack(arrays)
                yield X.astype(np.float64) if X.dtype == object else X, y, None


_TABLES = {"libsvm": _Libsvm, "csv": _Csv, "npy": _Npy, "parquet": _Parquet}


def table_of(path: _archive.Path, layout: Layout, **expected: Any) -> Any:
    """A file of rows, but no archive, with `feature_names` (or None) and `pieces`."""
    return _TABLES[layout.format_of(path)](path, layout, **expected)
