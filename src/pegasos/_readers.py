"""Reads labelled rows from files: LIBSVM text, CSV and .npz.

Parsing is left to scikit-learn and NumPy. What is added here are messages that say which line of
which file is wrong. Every failure is a ValueError or an OSError.
"""

import bz2
import csv
import gzip
import io
import os
import re
import zlib

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from pegasos import _archive, _validate

FORMATS = ("libsvm", "csv", "npz")

_NUMBER = r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"

_MAX_LINE = 2**27  # more than any row; a file without line ends is not read as one

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open}


def guess_format(path):
    """The format that the name of a file speaks of; "libsvm" if it speaks of none."""
    stem, ending = os.path.splitext(os.fspath(path).lower())
    if ending in _OPENERS:
        ending = os.path.splitext(stem)[1]
    return {".csv": "csv", ".npz": "npz"}.get(ending, "libsvm")


def read(
    path, *, format=None, n_features=None, label_column=-1, labels_optional=False, header="auto"
):  # fmt: skip
    """Read rows and labels.

    Parameters
    ----------
    path : str or path
        Text may be compressed (.gz, .bz2).
    format : {"libsvm", "csv", "npz"}, optional
        Told from the name if not given.
    n_features : int, optional
        Number of columns of X; LIBSVM text does not say, and a test file may lack the last ones.
    label_column : int, default=-1
        Column of a CSV file that holds the label.
    labels_optional : bool, default=False
        A CSV file of `n_features` columns, or an .npz file without y, holds rows only.

    header : {"auto", "yes", "no"}, default="auto"
        Whether the first line of a CSV file is one; "auto": if it has no number but the label.

    Returns
    -------
    X : ndarray or csr_array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), or None

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is malformed; the message has the number of the line.
    """
    name = os.fspath(path)
    if n_features is not None:
        n_features = _validate.integer("n_features", n_features)
    try:
        with open(path, "rb"):
            pass
        format = format or guess_format(path)
        if format == "libsvm":
            X, y = _read_libsvm(path, n_features)
        elif format == "csv":
            X, y = _read_csv(path, n_features, label_column, labels_optional, header)
        else:
            X, y = _read_npz(path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name} is truncated or corrupt: {error}") from None
    except OSError as error:
        if error.filename is None:  # of bz2: Invalid data stream
            raise ValueError(f"{name} is truncated or corrupt: {error}") from None
        raise
    except OverflowError as error:
        raise ValueError(f"{name} holds a number out of range: {error}") from None
    if y is None and not labels_optional:
        raise ValueError(f"{name} has no labels: an array named y is missing")
    try:
        _validate.rows(X)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {_where_not_finite(X) or error}") from None
    return X, y


def _where_not_finite(X):
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
        f"row {row + 1}, feature {column + 1} is {values.ravel()[at]}, "
        "but all numbers must be finite"
    )


def _plain_labels(y):
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


def _open(path):
    return _OPENERS.get(os.path.splitext(os.fspath(path))[1], open)(path, "rb")


def _blame_line(path, parse, error, skip=0):
    """Raise a ValueError that names the first line which `parse` refuses, if there is one."""
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if number <= skip or not line.strip():
                continue
            try:
                parse(line)
            except (ValueError, OverflowError) as problem:
                text = line.decode("utf-8", "replace").strip()
                shown = text if len(text) <= 60 else text[:57] + "..."
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: {problem} in {shown!r}"
                ) from None
    raise ValueError(f"{os.fspath(path)}: {error}") from None


def _read_libsvm(path, n_features):
    try:
        X, y = load_svmlight_file(os.fspath(path), n_features=n_features)
    except ValueError as error:
        _blame_line(path, lambda line: load_svmlight_file(io.BytesIO(line)), error)
    if X.shape[0] == 0:
        raise ValueError(f"{os.fspath(path)} holds no rows")
    return sparse.csr_array(X), _plain_labels(y)


def _read_csv(path, n_features, label_column, labels_optional, header):
    name = os.fspath(path)
    with _open(path) as file:
        first = _fields(file.readline(_MAX_LINE))
        only_one_line = not file.readline().strip()
    n_columns = len(first)
    if n_columns == 0:
        raise ValueError(f"{name} is empty, or its first line is")
    has_labels = not (labels_optional and n_columns == n_features)
    if has_labels and not -n_columns <= label_column < n_columns:
        raise ValueError(f"{name} has {n_columns} columns, there is no column {label_column}")
    columns = list(range(n_columns))
    if has_labels:
        label_column = columns.pop(label_column)
    if not columns:
        raise ValueError(f"{name}, line 1: a label and at least one feature are needed")
    # A line with some numbers is a row, perhaps a bad one; a header has none.
    if header == "auto":
        if n_columns > 2 and first in [[str(k + j) for j in range(n_columns)] for k in (0, 1)]:
            raise ValueError(
                f"{name}, line 1: {','.join(first[:3])},... may be a row or names of columns: "
                "say --header yes or --header no"
            )
        skip = int(not only_one_line and not any(_is_number(first[j]) for j in columns))
    else:
        skip = int(header == "yes")
    labels = {}  # each label's text and its number, in order of appearance

    def parse(line):
        fields = _fields(line)
        if len(fields) != n_columns:
            raise ValueError(f"{len(fields)} columns where the first line has {n_columns}")
        for j in columns:
            if not _is_number(fields[j]):
                raise ValueError(f"column {j + 1} is not a number")
        if has_labels:
            number_of(fields[label_column])

    def number_of(label):
        if not label.strip():
            raise ValueError("the label is empty")
        return labels.setdefault(label.strip(), len(labels))

    try:
        table = np.loadtxt(
            path,
            delimiter=",",
            quotechar='"',
            comments=None,
            encoding="utf-8-sig",
            skiprows=skip,
            converters={label_column: number_of} if has_labels else None,
            ndmin=2,
        )
    except ValueError as error:
        _blame_line(path, parse, error, skip=skip)
    if not has_labels:
        return table, None
    y = _plain_labels(np.array(list(labels)))[table[:, label_column].astype(np.intp)]
    return np.ascontiguousarray(table[:, columns]), y


def _fields(line):
    """The fields of a line of CSV, as text."""
    try:
        return next(csv.reader([line.decode("utf-8-sig", "replace").strip()]), [])
    except csv.Error as error:
        raise ValueError(f"not a line of CSV: {error}") from None


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_npz(path):
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
