"""Where bad input is refused: parameters, matrices, labels and weights.

The C core trusts its arguments. So this module catches whatever a user can get wrong, with a
sentence that names the parameter, the value given and what is allowed. Nothing here needs SciPy: a
CSR matrix is any object with ``data``, ``indices``, ``indptr`` and ``shape``.
"""

import contextlib
import contextvars
import math
import numbers
import os
import types
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from typing import Any

import numpy as np

from pegasos import _core

# From this number of labels on, sorting takes longer than comparing them with two values.
_MANY = 1000
# Python's own types come first: checks against abstract classes take ten times as long.
_REAL, _INTEGER, _BOOLEAN = (float, int, numbers.Real), (int, numbers.Integral), (bool, np.bool_)


class Wording:
    """How messages write parameters and values: here as Python does. Other interfaces differ."""

    #: The advice for regression to targets of any size.
    for_units = "standardised targets (sklearn.compose.TransformedTargetRegressor)"
    #: The advice for scaling features.
    for_scale = "sklearn.preprocessing.StandardScaler (MaxAbsScaler if X is sparse)"

    def parameter(self, name: str, *value: Any) -> str:
        """A parameter, with a value or without: "tol=0.1"."""
        return "=".join([name, *(f"{v:.4g}" if isinstance(v, float) else repr(v) for v in value)])

    def value(self, name: str, value: Any) -> str | None:
        """A value of a parameter; None if this interface cannot be given it."""
        return repr(value)


_PYTHON = Wording()
_wording: contextvars.ContextVar[Wording] = contextvars.ContextVar("wording")


@contextlib.contextmanager
def written_by(wording: Wording) -> Generator[None]:
    """Use this wording for messages of this thread within the block."""
    token = _wording.set(wording)
    try:
        yield
    finally:
        _wording.reset(token)


def wording() -> Wording:
    """The wording of messages in this thread."""
    return _wording.get(_PYTHON)


def parameter(name: str, *value: Any) -> str:
    """A parameter in a message, with a value or without."""
    return wording().parameter(name, *value)


def value_of(name: str, value: Any) -> str:
    """A value of a parameter in a message."""
    return wording().value(name, value) or "left out"


def _allowed(name: str, values: Iterable[Any]) -> list[str]:
    """The values of a parameter that users can give, in words."""
    words = (wording().value(name, value) for value in values)
    return [word for word in words if word is not None]


def _or(name: str, besides: Sequence[Any]) -> str:
    """What is allowed besides a number, in words: None or strings."""
    words = _allowed(name, besides)
    return ", " * bool(words) + " ".join(f"or {word}" for word in words)


def is_one(value: Any, of: Container[Any]) -> bool:
    """Whether `value` is None or a string, and in `of`."""
    return (value is None or isinstance(value, str)) and value in of


def real(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    besides: Sequence[Any] = (),
) -> Any:
    """Return `value` as a finite float, or unchanged if it is one of `besides`; or raise."""
    if is_one(value, besides):
        return value
    is_number = isinstance(value, _REAL) and not isinstance(value, _BOOLEAN)
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.inf
    if math.isfinite(number) and above < number and at_least <= number <= at_most:
        return number
    wanted = "a finite number" + f" > {above}" * (above > -math.inf)
    wanted += f" >= {at_least}" * (at_least > -math.inf)
    wanted += f" and <= {at_most:g}" * (at_most < math.inf)
    kind = ValueError if is_number else TypeError
    raise kind(f"{parameter(name)} must be {wanted}{_or(name, besides)}, got {value!r}")


def integer(
    name: str,
    value: Any,
    *,
    at_least: int = 1,
    at_most: int = 2**62 - 1,
    besides: Sequence[Any] = (),
) -> Any:
    """Return `value` as an int in a range, or unchanged if it is one of `besides`; or raise."""
    if is_one(value, besides):
        return value
    is_integer = isinstance(value, _INTEGER) and not isinstance(value, _BOOLEAN)
    if is_integer and at_least <= int(value) <= at_most:
        return int(value)
    wanted = f"an integer >= {at_least}"
    if is_integer and int(value) > at_most:
        wanted += " and < 2**62" if at_most == 2**62 - 1 else f" and <= {at_most}"
    kind = ValueError if is_integer else TypeError
    raise kind(f"{parameter(name)} must be {wanted}{_or(name, besides)}, got {value!r}")


def lam(name: str, value: Any) -> float:
    """Return λ as a float in a range that leaves room for 1/λ times numbers of the rows."""
    value = real(name, value, above=0)
    if not 1e-300 <= value <= 1e300:
        raise ValueError(f"{parameter(name)} must be in [1e-300, 1e300], got {value!r}")
    return value


def reciprocal(what: str, product: float) -> float:
    """λ given C times a sum of weights, or C given λ times it; `what` names the product."""
    if not 1e-300 < product < 1e300:
        raise ValueError(f"{what} must be in (1e-300, 1e300), got {product:g}")
    return float(1 / product)


def verbose(name: str, value: Any) -> None:
    """Raise unless `value` is a degree of verbosity."""
    if not isinstance(value, _BOOLEAN):
        integer(name, value, at_least=0)


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, _BOOLEAN):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def path(name: str, value: Any) -> str:
    """Return `value` as the name of a file or folder, or raise."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{parameter(name)} must be a str or a path, got {value!r}")
    return os.fspath(value)


def choice(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return the one of `allowed` that equals `value`, or raise."""
    for option in allowed:
        # NumPy's strings and booleans are allowed. 1 is not, although 1 == True.
        kinds = (bool, np.bool_) if isinstance(option, bool) else type(option)
        if isinstance(value, kinds) and value == option:
            return option
    options = ", ".join(_allowed(name, allowed))
    raise ValueError(f"{parameter(name)} must be one of {options}, got {value!r}")


def random_state(name: str, value: Any) -> None:
    """Raise unless `value` can give a seed; no number is drawn from a generator."""
    if value is None or isinstance(value, (np.random.Generator, np.random.RandomState)):
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(
            f"{name} must be None, an int, a numpy Generator or RandomState, got {value!r}"
        )
    if not 0 <= int(value) < 2**64:
        raise ValueError(f"{parameter(name)} must be in [0, 2**64), got {value!r}")


def seed(source: Any) -> int:
    """Return the 64-bit seed that a `random_state` stands for.

    An int is the seed itself; a generator draws one; None takes one from the system.
    """
    if source is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(source, np.random.Generator):
        return int(source.integers(2**63))
    if isinstance(source, np.random.RandomState):
        return int(source.randint(2**31 - 1))
    return int(source)


# ---- Matrices ------------------------------------------------------------------------------------


def is_sparse(X: Any) -> bool:
    """Whether `X` is a sparse matrix or array of any format, without importing SciPy."""
    parts = ("data", "indices", "indptr")
    # A data frame with columns of these names converts to an array; a sparse matrix does not.
    return not isinstance(X, np.ndarray) and (
        hasattr(X, "tocsr")
        or (not hasattr(X, "__array__") and all(hasattr(X, part) for part in parts))
    )


def summed_up(X: Any) -> Any:
    """Checked rows in which each CSR row has each column once, in order: X, or a sorted copy.

    Entries of the same place add up, but the square of their sum is not the sum of their squares.
    """
    if is_sparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def sparse_structure(X: Any) -> Any:
    """Raise a ValueError if the index arrays of a sparse `X` do not describe a matrix.

    Libraries that trust them crash: an index out of range reads or writes foreign memory.
    """
    if len(X.shape) != 2:
        raise ValueError(f"X must be two-dimensional, got a sparse array of shape {X.shape}")
    format = getattr(X, "format", "csr")
    if format in ("csr", "csc", "bsr"):
        major, minor = X.shape if format != "csc" else X.shape[::-1]
        if format == "bsr":
            if X.data.ndim != 3 or min(X.blocksize) < 1:
                raise ValueError(f"X.data must hold blocks, got shape {X.data.shape}")
            major, minor = major // X.blocksize[0], minor // X.blocksize[1]
        _compressed_structure(X, major, minor)
    elif format == "coo":
        coords = getattr(X, "coords", None) or (X.row, X.col)
        for axis, index in enumerate(coords):
            _indices_in_range(f"X.coords[{axis}]", index, X.shape[axis])
            if index.shape != X.data.shape:
                raise ValueError(
                    f"X.coords[{axis}] must have as many entries as X.data ({X.data.shape[0]}), "
                    f"got {index.shape[0]}"
                )
    elif format == "dia":
        if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1]:
            raise ValueError(
                f"X.offsets must have one entry per row of X.data (shape {X.data.shape}), "
                f"got shape {X.offsets.shape}"
            )
        # One diagonal outside the matrix is allowed by SciPy; far outside, its sums overflow.
        _indices_in_range("X.offsets", X.offsets, X.shape[1], -X.shape[0])
        if len(np.unique(X.offsets)) != len(X.offsets):
            raise ValueError(f"X.offsets must be distinct, got {X.offsets}")
    elif format == "lil":
        if X.rows.shape != X.shape[:1] or X.data.shape != X.shape[:1]:
            raise ValueError(
                f"X.rows and X.data must have one list per row of X ({X.shape[0]}), "
                f"got shapes {X.rows.shape} and {X.data.shape}"
            )
        if [len(r) for r in X.rows] != [len(values) for values in X.data]:
            raise ValueError("X.rows and X.data must have lists of the same lengths")
        for columns in X.rows:
            _indices_in_range("X.rows", np.asarray(columns or [0]), X.shape[1])


def csr(data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    """The CSR matrix of these arrays, or a ValueError; SciPy would truncate indices to integers."""
    from scipy import sparse

    sparse_structure(types.SimpleNamespace(data=data, indices=indices, indptr=indptr, shape=shape))
    return sparse.csr_array((data, indices, indptr), shape=shape)


def plain_csr(X: Any) -> Any:
    """A sparse matrix as CSR with floats and native indices of one type, so SciPy can slice it."""
    from scipy import sparse

    sparse_structure(X)
    X = X.tocsr()
    parts = _native(X.data), _index_array(X.indices), _index_array(X.indptr)
    return sparse.csr_array(parts, shape=X.shape)


def _compressed_structure(X: Any, n_major: int, n_minor: int) -> Any:
    if not isinstance(X.data, np.ndarray) or (
        X.data.ndim != 1 and getattr(X, "format", "csr") != "bsr"
    ):
        raise ValueError(f"X.data must be a one-dimensional array, got {X.data!r}")
    for name in ("indices", "indptr"):
        array = getattr(X, name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"X.{name} must be a one-dimensional array of integers, got {array!r}")
    indptr = X.indptr
    if indptr.shape[0] != n_major + 1:
        raise ValueError(
            f"X.indptr must have {n_major + 1} entries for X.shape {X.shape}, got {indptr.shape[0]}"
        )
    if indptr[0] != 0:
        raise ValueError(f"X.indptr must begin with 0, got {indptr[0]}")
    if (indptr[1:] < indptr[:-1]).any():
        at = int(np.argmax(indptr[1:] < indptr[:-1]))
        raise ValueError(
            f"X.indptr must never decrease, but goes from {indptr[at]} to {indptr[at + 1]} "
            f"at position {at}"
        )
    nnz = int(indptr[-1])
    for name in ("indices", "data"):
        length = getattr(X, name).shape[0]
        if length < nnz:
            raise ValueError(
                f"X.{name} must have at least X.indptr[-1] = {nnz} entries, got {length}"
            )
    _indices_in_range("X.indices", X.indices[:nnz], n_minor)


def _indices_in_range(name: str, index: Any, stop: int, start: int = 0) -> None:
    if index.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, got {index.dtype}")
    if index.size and (index.min() < start or index.max() >= stop):
        bad = index[(index < start) | (index >= stop)][0]
        raise ValueError(f"{name} must be in [{start}, {stop}), but contains {bad}")


def not_masked(name: str, values: Any) -> None:
    """Raise if values are masked: they would be used as if they were not."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        leave_out = "leave out their rows, or " if name == "y" else ""
        raise ValueError(
            f"{name} must not have masked values; {leave_out}fill them, for instance with "
            f"{name}.filled(0)"
        )


def _dense(X: Any) -> Any:
    """Return dense `X` as a two-dimensional array; its objects may still be no numbers."""
    if X is None:
        raise ValueError("X must be two-dimensional (n_samples, n_features), got None")
    not_masked("X", X)
    if is_sparse(getattr(X, "_meta", None)):  # a Dask array
        raise TypeError("X must be rows in memory, got chunks that are sparse: use X.compute()")
    schema: Any = getattr(X, "schema", None)
    if hasattr(schema, "types"):  # an Arrow table, whose dates and times would become numbers
        for name, dtype in zip(schema.names, schema.types, strict=True):
            if str(dtype).startswith(("date32", "date64", "time", "duration")):
                raise TypeError(f"column {name!r} of X must be numeric, got dtype {dtype}")
    try:
        values = np.asarray(X)
        is_text = values.ndim == 1 and len(values) > 0 and isinstance(values[0], str)
        if values.dtype == object and not is_text:
            values = values.astype(np.float64)
    except OverflowError:
        raise ValueError("X must hold numbers that float64 can hold") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"X must hold numbers, in rows of one length: {error}") from None
    if is_text:
        raise ValueError(
            f"X must be two-dimensional (n_samples, n_features), got {len(values)} texts: make "
            "features of them, for instance with sklearn.feature_extraction.text.TfidfVectorizer"
        )
    if values.ndim != 2:
        how = "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row"
        if hasattr(X, "to_frame"):  # a series
            how = "X.to_frame() for one feature, a data frame such as df.iloc[[0]] for one row"
        raise ValueError(
            f"X must be two-dimensional (n_samples, n_features), got shape {values.shape}. "
            f"Reshape your data: {how}"
        )
    return values


def before_conversion(X: Any) -> None:
    """Raise for an `X`, sparse or dense, that scikit-learn would accept or describe wrongly."""
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise TypeError(f"X must be rows in memory, got a {type(X).__name__}: use X.collect()")
    if is_sparse(X):
        sparse_structure(X)
        _numbers("X", X.dtype)
    elif hasattr(X, "columns") and hasattr(X, "dtypes"):
        no_dates(X)
    else:
        _numbers("X", _dense(X).dtype)


def converted(convert: Callable[..., Any], X: Any, **options: Any) -> Any:
    """Let a function of scikit-learn convert rows to floats, dense in C order or CSR.

    It may leave or make numbers that are not finite; `finite` reports their place.
    """
    before_conversion(X)
    y: Any = options.get("y")
    not_masked("y", y)
    # scikit-learn would convert float32 in the other byte order to float64.
    types = [np.float64, np.float32, np.dtype(np.float32).newbyteorder()]
    try:
        with np.errstate(over="ignore"):
            return convert(
                X, accept_sparse="csr", dtype=types, order="C", ensure_all_finite=False, **options
            )
    except TypeError:  # from objects that are no numbers
        no_text(X)
        raise
    except ValueError as error:
        shape = X.shape if hasattr(X, "shape") else np.shape(X)
        if 0 in shape:
            raise ValueError(f"X must have at least one row and one column. {error}") from None
        if hasattr(y, "__len__") and np.ndim(y) > 0 and len(y) != shape[0]:
            raise ValueError(
                f"y must have one entry per row of X ({shape[0]}), got {len(y)}"
            ) from None
        raise


def column_names(X: Any) -> list[Any] | None:
    """The names of the columns of a data frame or an Arrow table; None for other rows."""
    # `columns` of an Arrow table are its contents. A data frame has its columns as attributes.
    names = X.column_names if hasattr(type(X), "column_names") else getattr(X, "columns", None)
    return None if names is None else list(names)


def text_names(X: Any) -> list[str] | None:
    """The `column_names` of X if it has some and all are strings; else None."""
    names = column_names(X)
    return names if names and all(isinstance(name, str) for name in names) else None


def no_dates(X: Any) -> None:
    """Raise for a column of dates, which polars would make numbers, or of complex numbers."""
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        is_temporal = getattr(dtype, "is_temporal", bool)()  # in polars
        if is_temporal or getattr(dtype, "kind", "") in ("m", "M", "c"):
            raise TypeError(f"column {name!r} of X must be numeric, got dtype {dtype}")


def no_text(X: Any) -> None:
    """Raise for a data frame with a column that is not numeric, and name the column."""
    for name in column_names(X) or ():
        try:
            np.asarray(X[name], np.float64)
        except (TypeError, ValueError):
            raise text_in(name) from None


def no_lists(y: Any) -> None:
    """Raise for lists of labels, several for each row."""
    has_rows = isinstance(y, Sequence) or (isinstance(y, np.ndarray) and y.ndim)
    if has_rows and any(isinstance(of, list | tuple | set) for of in y):
        raise ValueError(
            "y must have a label for each row, got lists of labels: for several labels a row, "
            "sklearn.preprocessing.MultiLabelBinarizer makes the zeros and ones that y may be"
        )


def no_complex(y: Any) -> None:
    """Raise for complex numbers, also in a list."""
    if np.iscomplexobj(y):
        _numbers("y", np.asarray(y).dtype)


def no_missing(y: Any, name: str = "y") -> None:
    """Raise for a missing value or an infinity in `y`, of any type, and name its row."""
    if y is None:
        return
    try:
        values = np.asarray(y, dtype=object)
    except ValueError:  # lists of several lengths
        return
    # Checking each value takes ten times as long.
    if set(map(type, values.flat)) <= {str, bytes, bool, int}:
        return
    for where, value in np.ndenumerate(values):
        has_nan = isinstance(value, float | np.floating | np.datetime64 | np.timedelta64)
        # pandas may not be installed, so compare the names of its types for missing values.
        is_missing = type(value).__name__ in ("NAType", "NaTType", "NoneType")
        if is_missing or (has_nan and not np.isfinite(value)):
            at = ", ".join(map(str, where))
            which = "infinite" if str(value) in ("inf", "-inf") else "missing"
            raise ValueError(
                f"{name} must be finite (no NaN or infinity), but {name}[{at}] is {value}: leave "
                f"{'it out' if name == 'classes' else f'out rows whose {name} is {which}'}"
            )


def only_labels(name: str, y: np.ndarray, *others: type) -> None:
    """Raise for an object that is neither a number, text nor of `others`, and name its row."""
    allowed = (numbers.Real, str, bytes, np.bool_, *others)
    if not all(issubclass(kind, allowed) for kind in set(map(type, y.flat))):
        where = next(i for i, label in enumerate(y.flat) if not isinstance(label, allowed))
        raise TypeError(
            f"{name} must hold labels (numbers or strings), but {name}[{where}] is "
            f"{y.flat[where]!r}"
        )


def only_classes(y: np.ndarray) -> None:
    """Raise unless scikit-learn takes `y` for classes; its checks look for the first three words.

    scikit-learn and its metrics do not accept booleans or numbers that are stored as objects.
    """
    from sklearn.utils.multiclass import check_classification_targets

    if y.dtype == object and all(isinstance(label, (numbers.Real, np.bool_)) for label in y):
        own = np.array(y.tolist()).dtype
        if own != object:  # True for fractions, and for integers that no type of NumPy holds
            raise ValueError(
                f"Unknown label type: y has dtype object, and its labels are of type {own}. "
                f"Use y.astype({own.name!r})"
            )
    if y.dtype.kind == "f" and (y != y.round()).any():
        raise ValueError(
            "Unknown label type: continuous. y must hold classes, which are whole numbers or "
            f"strings, got {y[y != y.round()][0]:g}; regressors take numbers of any kind"
        )
    check_classification_targets(y)


def text_in(name: Any) -> ValueError:
    """The error for a column that has text, or other values that are not numeric."""
    return ValueError(
        f"X must be numeric, got text or the like in column {name!r}: encode it, for instance with "
        "sklearn.preprocessing.OneHotEncoder, fill missing values in, or leave it out"
    )


def is_ready(X: Any, y: Any, *, multi_output: bool = False) -> bool:
    """Whether rows and labels are arrays that training can use: labels are integers or booleans.

    With `multi_output`, y may also have columns and floats. Values may still not be finite.
    """
    return (
        _are_rows(X)
        and type(y) is np.ndarray
        and y.dtype.kind in ("biuf" if multi_output else "biu")
        and y.shape[: 1 if multi_output else y.ndim] == X.shape[:1]
    )


def _are_rows(X: Any) -> bool:
    """Whether `X` is an array that the core can use without a copy."""
    return (
        type(X) is np.ndarray
        and X.dtype.char in "fd"
        and X.dtype.isnative
        and X.flags.c_contiguous
        and X.flags.aligned
        and X.ndim == 2
        and X.size > 0
    )


def _numbers(name: str, dtype: Any) -> None:
    """Raise unless `dtype` is a type of real numbers."""
    if dtype.kind == "c":
        raise ValueError(f"{name} must be real, got {dtype}. Complex data not supported")
    if dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numeric, got dtype {dtype}")


def not_finite(X: Any, values: Any = None) -> tuple[tuple[int, ...], Any] | None:
    """The place and value of the first NaN or infinity of an array or CSR matrix; None if none.

    A matrix must have a valid structure; `values` may replace its own.
    """
    if values is None:
        values = X.data[: int(X.indptr[-1])] if is_sparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(values.sum()):  # NumPy takes 2 us longer for a number
            return None
    good = np.isfinite(values)  # sums of finite values may be infinite
    if good.all():
        return None
    where = np.unravel_index(np.argmin(good), good.shape)
    place = tuple(int(i) for i in where)
    if is_sparse(X):
        place = int(np.searchsorted(X.indptr, place[0], side="right")) - 1, int(X.indices[where])
    return place, values[where]


def finite(name: str, X: Any, values: Any = None, columns: Any = None) -> None:
    """Raise if an array or a CSR matrix has NaN or infinity; see `not_finite`.

    `columns` are the column names of the data frame that it was, or None.
    """
    found = not_finite(X, values)
    if found is not None:
        place, value = found
        at = ", ".join(map(str, place))
        column = "" if columns is None else f" (column {columns[place[1]]!r})"
        advice = ""
        if name == "X" and np.isnan(value):
            advice = ": fill missing values in, for instance with sklearn.impute.SimpleImputer"
        raise ValueError(
            f"{name} must be finite (no NaN or infinity), but {name}[{at}]{column} is "
            f"{value}{advice}"
        )


def aligned(X: Any) -> Any:
    """A dense or CSR matrix with aligned numbers in native byte order; a copy if need be.

    Index arrays of CSR become int32 or int64: SciPy converts others with a warning, or not at all.
    """
    if not is_sparse(X):
        return _native(X, X.dtype)
    parts = X.data, X.indices, X.indptr
    good = _native(X.data, X.dtype), *map(_index_array, parts[1:])
    if all(part is before for part, before in zip(good, parts, strict=True)):
        return X
    return type(X)(good, shape=X.shape)


def _native(array: Any, dtype: Any = None) -> np.ndarray:
    """Return `array` contiguous, aligned, in native byte order, as `dtype`.

    Without `dtype`, float32 and float64 stay, and other types become float64. An array that has all
    this already is not copied.
    """
    if dtype is None:
        dtype = array.dtype
        if dtype.kind != "f" or dtype.itemsize not in (4, 8):
            dtype = np.dtype(np.float64)
    with np.errstate(over="ignore"):  # the check for finite values follows
        good = np.asanyarray(array, np.dtype(dtype).newbyteorder("="), order="C")
    return good if good.flags.aligned else good.copy()


def floats(name: str, values: Any) -> np.ndarray:
    """Return real numbers as float64; arrays that the core takes are not copied."""
    values = np.asarray(values)
    _numbers(name, values.dtype)
    return _native(values, np.float64)


def _index_array(index: Any) -> np.ndarray:
    dtype = np.int32 if index.dtype.itemsize <= 4 and index.dtype != np.uint32 else np.int64
    return np.require(index, dtype, ["C", "A"])


def rows(
    X: Any, *, n_features: int | None = None, checked: bool = False, dtype: Any = None
) -> tuple[_core.Rows, np.dtype]:
    """Return `X` as rows for the core, and their type, without a copy if layout and type allow.

    No copy is needed of C-contiguous float32 or float64 arrays, or of CSR with such values and 32-
    or 64-bit indices. Other real types become float64. `checked`: structure and values are known to
    be good. `n_features` is the number that X must have; `dtype` is a type to convert values to.
    """
    if checked and _are_rows(X) and n_features is None and dtype in (None, X.dtype):
        return _core.Rows(X), X.dtype
    if is_sparse(X):
        if getattr(X, "format", "csr") != "csr":
            raise TypeError(f"X must be dense or CSR, got format {X.format!r}: use X.tocsr()")
        shape = tuple(X.shape)
        if len(shape) != 2:
            raise ValueError(f"X must be two-dimensional, got shape {shape}")
        if not all(isinstance(n, numbers.Integral) and 0 <= int(n) < 2**62 for n in shape):
            raise ValueError(f"X.shape must be two sizes, got {shape}")
        if not checked:
            _compressed_structure(X, *shape)
        values = X.data[: int(X.indptr[-1])]
    else:
        values = _dense(X)
        shape = values.shape
    _numbers("X", values.dtype)
    if min(shape) < 1:
        raise ValueError(f"X must have at least one row and one column, got shape {shape}")
    if n_features is not None:
        same_features(shape[1], n_features)
    converted = _native(values, dtype)
    if not checked or converted.dtype.itemsize < values.dtype.itemsize:
        finite("X", X, converted)
    if not is_sparse(X):
        return _core.Rows(converted), converted.dtype
    indices, indptr = _index_array(X.indices), _index_array(X.indptr)
    return _core.Rows(converted, indices, indptr, int(shape[1])), converted.dtype


def same_features(n: int, n_features: int) -> None:
    """Raise unless rows have as many features as the training rows."""
    if n != n_features:
        raise ValueError(f"X has {n} features, but the model expects {n_features} features")


def counted(n: int, one: str, many: str = "") -> str:
    """A number of things, in words."""
    return f"{n} {one if n == 1 else many or f'{one}s'}"


def _scale_x() -> str:
    return f"Scale X, for instance with {wording().for_scale}"


def overflow(dtype: Any, lam: Any) -> ValueError:
    """The error for finite rows that led to numbers that are not, at `lam`, or at any λ (None).

    It writes λ, not `lam`, since users may have given C, or nothing.
    """
    which = "" if lam is None else f" for λ={lam:.4g}"
    return ValueError(
        f"training overflowed {dtype}: the features of X are too large{which}. {_scale_x()}"
    )


def no_overflow(lam: Any, *arrays: Any, dtype: Any = "float64") -> None:
    """Raise unless the numbers that finite rows led to are finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise overflow(dtype, lam)


def too_small(lam: float, least: float, loss: str) -> ValueError:
    """The error for a λ below `least`, at which steps would be too short to count."""
    least *= 1.001  # so that the number is enough after it is rounded to four digits
    return ValueError(
        f"λ={lam:.4g} is too small for {parameter('loss', loss)} with features of X as large as "
        f"these: {parameter('lam')} must be at least {least:.4g}. {_scale_x()}"
    )


# ---- Labels and weights --------------------------------------------------------------------------


def labels(y: Any, n_samples: int, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, sorted, and the index of each row's label among them."""
    if isinstance(y, list):  # NaN in a list of strings would become a string
        no_missing(y, name)
    not_masked(name, y)
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {y.shape}")
    if y.shape[0] != n_samples:
        raise ValueError(f"y must have one label per row of X ({n_samples}), got {y.shape[0]}")
    if y.dtype.kind == "f":
        finite(name, y)
    if y.dtype.kind == "O":
        no_missing(y, name)
        only_labels(name, y)
    if y.dtype.kind not in "fiubUSO":
        raise TypeError(f"{name} must hold labels (numbers or strings), got dtype {y.dtype}")
    if y.dtype.kind in "fiub" and len(y) >= _MANY:
        # Two numbers, the usual case, need no sorting, which takes ten times as long.
        ends = np.array([y.min(), y.max()], y.dtype)
        is_last = y == ends[1]
        if ends[0] != ends[1] and (is_last | (y == ends[0])).all():
            return ends, is_last.astype(np.intp)
    try:
        classes = np.unique(y)
        return classes, classes.searchsorted(y)
    except TypeError:
        raise of_several_kinds(name, y) from None


def of_several_kinds(name: str, y: np.ndarray) -> TypeError:
    """The error for objects that cannot be ordered."""
    kinds = ", ".join(sorted({type(label).__name__ for label in y.flat}))
    return TypeError(f"{name} must hold labels of one kind, numbers or strings, got {kinds}")


def has_columns(y: Any) -> bool:
    """Whether `y` is a matrix of several columns, dense or sparse, or lists that make one."""
    try:
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    except ValueError:  # lists of several lengths
        return False
    return len(shape) == 2 and shape[1] != 1


def indicator(y: Any, n_samples: int | None = None) -> np.ndarray:
    """Return several labels a row, as zeros and ones in columns, as a dense array of int8."""
    try:
        not_masked("y", y)
        if is_sparse(y):
            sparse_structure(y)
            y = y.toarray()
    except ValueError as error:
        raise ValueError(str(error).replace("X", "y")) from None
    y = np.asarray(y)
    if y.ndim != 2 or y.shape[1] < 2:
        raise ValueError(f"y must have a column for each label, at least two, got shape {y.shape}")
    if n_samples not in (None, y.shape[0]):
        raise ValueError(f"y must have one row per row of X ({n_samples}), got {y.shape[0]}")
    is_one = np.asarray(y == 1, dtype=bool)
    good = is_one | np.asarray(y == 0, dtype=bool)
    if not good.all():
        i, j = np.argwhere(~good)[0]
        raise ValueError(
            "y must be one-dimensional, or zeros and ones with a column for each label, but "
            f"y[{i}, {j}] is {np.atleast_1d(y[i, j]).tolist()[0]!r}"
        )
    return is_one.astype(np.int8)


def same_columns(y: np.ndarray, classes: np.ndarray) -> None:
    """Raise unless `y` has a column for each label."""
    if y.shape[1] != len(classes):
        raise ValueError(
            f"y must have {len(classes)} columns, as in the fit before, got {y.shape[1]}"
        )


#: Float64 can hold the squares of targets up to this size, and sums of these squares.
LARGEST_TARGET = 1e150


def before_targets(y: Any) -> None:
    """Raise for targets that scikit-learn would accept or describe wrongly."""
    if is_sparse(y):
        raise TypeError("y must be dense, got a sparse matrix: use y.toarray()")
    if getattr(y, "shape", ())[1:] == (0,):
        raise ValueError(f"y must have at least one column, got shape {y.shape}")


def targets(y: Any, n_samples: int) -> np.ndarray:
    """Return targets as float64, of shape (n_samples,) or (n_samples, n_outputs)."""
    not_masked("y", y)
    y = np.asarray(y)
    if y.dtype.kind == "O":
        # NumPy would convert its dates to numbers.
        for kind in set(map(type, y.flat)) & {np.datetime64, np.timedelta64}:
            _numbers("y", np.dtype(kind))
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise type(error)(f"y must hold numbers: {error}") from None
        except OverflowError:
            raise ValueError("y must hold numbers that float64 can hold") from None
    _numbers("y", y.dtype)
    if y.ndim not in (1, 2):
        raise ValueError(
            f"y must have shape (n_samples,) or (n_samples, n_outputs), got shape {y.shape}"
        )
    if y.shape[0] != n_samples:
        raise ValueError(f"y must have a target for each row of X ({n_samples}), got {y.shape[0]}")
    y = _native(y, np.float64)
    if not_finite(y) is not None:
        no_missing(y)  # its message says more
    if max(y.max(), -y.min()) > LARGEST_TARGET:
        raise ValueError(
            f"y must have targets between {-LARGEST_TARGET:g} and {LARGEST_TARGET:g}, got "
            f"{y.flat[np.argmax(np.abs(y))]:g}"
        )
    return y


def at_least_two(classes: np.ndarray, codes: Any = None, weights: Any = None) -> None:
    """Raise unless there are two classes; if weights are given, both need positive weight."""
    wanted = "at least two classes"
    if weights is not None:
        classes = classes[np.unique(codes[weights > 0])]
        wanted += " with rows of weight > 0"
    if len(classes) < 2:
        raise ValueError(f"y must contain {wanted}, got one class: {classes.tolist()}")


def cost(values: Any, classes: np.ndarray) -> np.ndarray:
    """Return the costs of answers as float64 of shape (n_classes, n_classes); None: all 1."""
    K = len(classes)
    if values is None:
        return 1 - np.eye(K)
    try:
        values = np.asarray(values)
    except ValueError:
        raise ValueError(f"cost must have {K} rows that are equally long, got {values!r}") from None
    _numbers("cost", values.dtype)
    if values.shape != (K, K):
        raise ValueError(
            f"cost must have shape ({K}, {K}), a row and a column for each of the classes "
            f"{classes.tolist()}, got {values.shape}"
        )
    values = _native(values, np.float64)
    finite("cost", values)
    if values.diagonal().any():
        k = int(np.argmax(values.diagonal() != 0))
        raise ValueError(f"cost must be 0 on its diagonal, but cost[{k}, {k}] is {values[k, k]}")
    if values.min() < 0 or values.max() > 1e100:
        i, j = np.argwhere((values < 0) | (values > 1e100))[0]
        raise ValueError(f"cost must be in [0, 1e+100], but cost[{i}, {j}] is {values[i, j]}")
    if not values.any():
        raise ValueError("cost must be above 0 somewhere, got zeros only")
    return values


def labels_among(y: Any, classes: Any = None, known: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes that labels may have, and the index of each label of `y` among them.

    `classes` is given by this call, `known` by earlier calls; either may be None. If `y` has a
    column for each label, classes are the numbers of columns, and no call needs to give them.
    """
    if np.ndim(y) == 2:
        columns = np.arange(np.shape(y)[1])
        if classes is not None and not np.array_equal(classes, columns):
            raise ValueError(
                f"classes must be None or the numbers of the columns of y, {columns.tolist()}, "
                f"got {classes!r}"
            )
        return columns, y
    if classes is not None:
        classes, _ = labels(classes, np.size(classes), "classes")
        at_least_two(classes)
        if known is not None and not np.array_equal(classes, known):
            raise ValueError(
                f"classes must be those of the first call, {known.tolist()}, got {classes.tolist()}"
            )
    else:
        classes = known
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y must contain only labels in classes {classes.tolist()}, got also {unknown.tolist()}"
        )
    return classes, np.searchsorted(classes, y)


def sample_weight(
    weights: Any, n_samples: int, name: str = "sample_weight", *, may_be_zero: bool = False
) -> np.ndarray | None:
    """Return `weights` as float64 of shape (n_samples,), or None for None.

    `may_be_zero`: all weights may be 0, since there are other rows.
    """
    if weights is None:
        return None
    if isinstance(weights, numbers.Real):
        weights = real(name, weights)
        weights = np.full(n_samples, weights, dtype=np.float64)
    not_masked(name, weights)
    weights = np.asarray(weights)
    _numbers(name, weights.dtype)
    if weights.ndim != 1:
        raise ValueError(f"{name} must be 1D array or scalar, got shape {weights.shape}")
    if weights.shape[0] != n_samples:
        raise ValueError(
            f"{name}.shape == {weights.shape}, expected ({n_samples},): one weight per row of X"
        )
    weights = _native(weights, np.float64)
    finite(name, weights)
    if (weights < 0).any():
        at = int(np.argmax(weights < 0))
        raise ValueError(f"{name} must be >= 0, but {name}[{at}] is {weights[at]}")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        raise ValueError(
            f"{name} must have a sum that float64 can hold; the largest is {weights.max()}"
        )
    if not (may_be_zero or (weights > 0).any()):
        raise ValueError(f"{name} must not be all zero: no weight is left to learn from")
    return weights


def row_numbers(name: str, rows: Any, n_rows: int) -> np.ndarray:
    """Return a mask, or row numbers (negative ones count from the end), as int64 from 0 on."""
    wanted = f"{name} must be row numbers, or True or False for each of {n_rows} rows"
    try:
        rows = np.asarray(rows)
    except ValueError:
        raise ValueError(f"{wanted}; got lists of several lengths") from None
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(f"{wanted}; got {rows.dtype} of shape {rows.shape}")
    rows = rows if rows.size else rows.astype(np.int64)  # NumPy makes floats of an empty list
    _indices_in_range(name, rows, n_rows, -n_rows)
    return np.where(rows < 0, rows.astype(np.int64) + n_rows, rows).astype(np.int64)


def order(draws: Any, n_samples: int) -> np.ndarray:
    """Return `draws`, the rows that a fit is told to visit, as int64."""
    draws = np.asarray(draws)
    if draws.ndim != 1 or draws.dtype.kind not in "iu" or draws.size == 0:
        raise ValueError(
            f"order must be a non-empty one-dimensional array of row numbers, got {draws!r}"
        )
    _indices_in_range("order", draws, n_samples)
    return np.require(draws, np.int64, ["C", "A"])
