"""Random calls of the public interface, whose answers are checked against NumPy, row by row.

    python tests/random_calls.py --seed 12345                 # one case, told call by call
    python tests/random_calls.py --calls 3600 --seed 1000     # cases 1000, 1001, ... for an hour
    python tests/sanitized.py --calls 3600                    # with ASan and UBSan

A seed names a case: some calls on rows, labels, weights and parameters that are drawn from it. A
case ends well if every call answers what NumPy computes in float64 from the public attributes, or
refuses in words that name what the case did wrong on purpose. Many cases are run in processes of
their own, so that a crash or a hang costs one case, is told with its seed, and the run goes on.
"""

import argparse
import bz2
import contextlib
import copy
import dataclasses
import functools
import gzip
import io
import json
import os
import pickle
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError, UndefinedMetricWarning
from sklearn.model_selection import check_cv

import pegasos
from pegasos import cli
from pegasos.io import _archive
from pegasos.solvers import _block_schedule

# Words of NumPy, Cython and Python that tell a user nothing.
_RIDDLES = re.compile(
    r"argmax of an empty|broadcast|No matching signature|Buffer dtype|ambiguous|zero-size array|"
    r"has no attribute|unexpected keyword|not iterable|not subscriptable|out of bounds|unhashable|"
    r"cannot reshape|matmul|to unpack|NoneType|dimension mismatch|inconsistent shapes|ufunc|"
    r"cannot convert float|negative dimensions|math domain|too large to convert|read-only|"
    r"memoryview|got shape \(\)|float division|array\.size|safely|structured|strides|at axis|"
    r"same shape"
)
# A case is given up after so many seconds; even under sanitizers, none should take a tenth of it.
_PATIENCE = 120
# Cases that one process runs.
_BATCH = 400


class Wrong(Exception):  # noqa: N818
    """A wrong answer, a wrong exception, or a message that is a riddle."""


class Refused(Exception):  # noqa: N818
    """The end of a case that was refused in good words."""


# ---- A case --------------------------------------------------------------------------------------


class Case:
    """Draws of one seed, the calls made so far, and the words in which a call may be refused."""

    def __init__(self, seed, folder):
        self.rng, self.folder = np.random.default_rng(seed), Path(folder)
        self.log, self._excuses = [], []

    def chance(self, part):
        return self.rng.random() < part

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def integer(self, least, most):
        return int(self.rng.integers(least, most + 1))

    def may_be_refused(self, pattern):
        """The calls from here on may raise an exception whose message has this pattern."""
        self._excuses.append(re.compile(pattern, re.IGNORECASE | re.DOTALL))

    def note(self, what):
        self.log.append(what)

    def call(self, what, function, *extra, optional=False):
        """What `function` returns; raises `Wrong`, or `Refused` (returns None if `optional`).

        `extra` are patterns that excuse a refusal of this call only.
        """
        self.note(what)
        what = what.split("(")[0]
        excuses = [*self._excuses, *(re.compile(p, re.IGNORECASE | re.DOTALL) for p in extra)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = function()
            except Wrong:
                raise
            except (ValueError, TypeError, MemoryError, RuntimeError, OSError) as error:
                message = f"{type(error).__name__}: {error}"
                if isinstance(error, (AttributeError, RecursionError, NotImplementedError)) and (
                    not isinstance(error, NotFittedError)
                ):
                    raise Wrong(f"{what}: {message}") from error
                if riddle := _RIDDLES.search(message):
                    raise Wrong(f"{what}: a riddle, {riddle[0]!r}: {message}") from error
                if not any(excuse.search(message) for excuse in excuses):
                    raise Wrong(f"{what}: refused without a reason: {message}") from error
                self.note(f"  refused: {message[:200]}")
                if optional:
                    return None
                raise Refused(message) from error
            except Exception as error:
                raise Wrong(f"{what}: {type(error).__name__}: {error}") from error
        for warning in caught:
            if not _is_known(warning):
                raise Wrong(f"{what}: {warning.category.__name__}: {warning.message}")
        short = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
        self.stopped_short, self.converged = short, not short
        return result


def _is_known(warning):
    text = str(warning.message)
    return (
        issubclass(
            warning.category,
            (ConvergenceWarning, UndefinedMetricWarning, pegasos.ConstantPredictionWarning),
        )
        or "bytes is too little for 1 problem" in text
        or "more than float32 can resolve" in text
        or "least populated class in y" in text
        or "non-finite" in text  # scikit-learn's, of scores that are NaN
        or "scoring gave scores that are not finite" in text  # ours
        or "y_pred contains classes not in y_true" in text
        or "valid feature names" in text
        or "has feature names" in text
        or "A single label was found" in text
        or "no row of weight > 0" in text
    )


# ---- Rows ----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Rows:
    """Rows as a call is given them, and what they are in float64."""

    X: object
    values: np.ndarray
    dtype: np.dtype  # the type in which they are worked on
    name: str

    def __len__(self):
        return len(self.values)


def draw_values(case, n, d, density, like=None):
    """Random numbers, exact in float32 unless they are too large or small for it."""
    rng = case.rng
    A = rng.normal(size=(n, d)).astype(np.float32).astype(np.float64)
    A *= rng.random((n, d)) < density
    if like is None:
        case.scale, case.shift = 1.0, 0.0
        if case.chance(0.1):
            case.scale = 10.0 ** case.pick(-160, -40, -20, -3, 3, 18, 20, 30, 150, 200, 307)
            case.may_be_refused(
                r"overflow|too large|too small|float32|float64|gamma|scale|X must be finite"
            )
        elif case.chance(0.05) and density == 1:
            case.shift = case.pick(100.0, 1000.0, 1e5)
            # As large as those of a scale above 100: polynomials have up to their 10th power.
            case.may_be_refused("too small for loss=|has values beyond float32")
        if case.scale != 1 or case.shift:
            case.note(f"numbers of size {case.scale:g}, shifted by {case.shift:g}")
    A = A * case.scale + case.shift
    if case.chance(0.1) and n > 2:
        A[case.integer(0, n - 1)] = A[0]
    if case.chance(0.1):
        A[:, case.integer(0, d - 1)] = case.shift
    if case.chance(0.1):
        A[case.integer(0, n - 1)] = 0
    return A


def dress(case, A, *, csr_only=False, kind=None):
    """The numbers `A` in some layout and type."""
    if kind is None:
        hollow = np.count_nonzero(A) < 0.5 * A.size
        kind = "sparse" if case.chance(0.7 if hollow else 0.25) else "dense"
    dtype = case.pick(np.float32, np.float64, np.float64)
    if case.scale not in (1.0, 1000.0) and np.abs(A).max(initial=0) > 1e38:
        dtype = np.float64
    with np.errstate(over="ignore"):
        values = A.astype(dtype)
    if kind == "dense":
        return _dress_dense(case, values)
    return _dress_sparse(case, values, csr_only)


def _dress_dense(case, values):
    how = case.pick(
        "plain", "plain", "plain", "fortran", "strided", "reversed", "misaligned", "swapped",
        "read-only", "list", "frame", "object", "longdouble", "float16", "int", "bool", "subclass",
    )  # fmt: skip
    if how in ("float16", "int", "bool") and (case.scale != 1 or case.shift):
        how = "plain"
    if how in ("float16", "longdouble"):
        values = values.astype(how)
    elif how == "int":
        values = np.round(values * 4).astype(case.pick(np.int8, np.int32, np.int64))
    elif how == "bool":
        values = values > 0
    X, n, d = values, *values.shape
    if how == "fortran":
        X = np.asfortranarray(values)
    elif how == "strided":
        X = np.zeros((2 * n, 3 * d), values.dtype)[::2, 1::3]
        X[...] = values
    elif how == "reversed":
        X = values[::-1, ::-1].copy()[::-1, ::-1]
    elif how == "misaligned":
        X = misaligned(values)
    elif how == "swapped":
        X = values.astype(values.dtype.newbyteorder())
    elif how == "read-only":
        X = values.copy()
        X.flags.writeable = False
    elif how == "list":
        X = values.tolist()
    elif how == "frame":
        X = pd.DataFrame(values, columns=[str(j) for j in range(d)] if case.chance(0.3) else None)
    elif how == "object":
        X = values.astype(object)
    elif how == "subclass":
        X = np.ma.MaskedArray(values)
    narrow = values.dtype == np.float32 and how not in ("list", "object")
    name = f"{how} {values.dtype} {values.shape}"
    return Rows(X, values.astype(np.float64), np.dtype("f4" if narrow else "f8"), name)


def misaligned(values):
    """A copy that begins at an odd address."""
    raw = np.zeros(values.nbytes + 1, np.uint8)
    X = raw[1:].view(values.dtype).reshape(values.shape)
    X[...] = values
    return X


def _dress_sparse(case, values, csr_only):
    X = sparse.csr_array(values)
    how = [str(values.dtype)]
    smallest = np.abs(X.data).min(initial=1.0)
    if case.chance(0.15) and smallest > 1e3 * np.finfo(values.dtype).tiny:
        how.append("duplicates")  # halves are exact
        X = sparse.csr_array(
            (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
        )
    if case.chance(0.15) and X.nnz:
        how.append("unsorted")
        for i in range(X.shape[0]):
            part = slice(X.indptr[i], X.indptr[i + 1])
            order = case.rng.permutation(X.indptr[i + 1] - X.indptr[i])
            X.indices[part], X.data[part] = X.indices[part][order], X.data[part][order]
        X.has_sorted_indices = False
    if case.chance(0.1) and X.nnz:
        how.append("explicit zeros")
        at = case.integer(0, X.nnz - 1)
        values = values.copy()
        values[np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at]] -= X.data[at]
        X.data[at] = 0
    format = "csr" if case.chance(0.8) else case.pick("csc", "coo", "bsr", "lil", "dok", "dia")
    if format != "csr":
        if csr_only:
            case.may_be_refused("must be dense or CSR")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)
            X = X.asformat(format)
    else:
        if case.chance(0.2):
            X = sparse.csr_matrix(X)
        _index_types(case, X, how)
    how.append(format)
    name = f"{type(X).__name__} {' '.join(how)} {X.shape} with {X.nnz} entries"
    return Rows(X, values.astype(np.float64), values.dtype, name)


def _index_types(case, X, how):
    index, pointer = case.pick(
        ("int32", "int32"), ("int32", "int32"), ("int64", "int64"), ("int32", "int64"),
        ("int64", "int32"), ("uint32", "int32"), ("int16", "int32"), ("uint8", "uint64"),
    )  # fmt: skip
    if X.shape[1] > np.iinfo(index).max:
        index = "int64"
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(pointer)
    how.append(f"{index}/{pointer}")
    if case.chance(0.1):
        how.append("room behind")
        X.data = np.append(X.data, X.data.dtype.type(7))
        X.indices = np.append(X.indices, X.indices.dtype.type(0))
    if case.chance(0.1):
        how.append("misaligned")
        X.data = misaligned(X.data)


def draw_shape(case, most=70):
    """Numbers of rows and columns, and how many entries are not 0."""
    n = case.integer(200, 400) if case.chance(0.05) else case.integer(4, most)
    kind = case.pick("dense", "dense", "wide", "thin", "thick", "hollow")
    if kind == "wide":  # whose rows span few dimensions
        return n, 2 * n + case.integer(0, 20), 1.0
    if kind == "dense":
        return n, case.integer(1, 12), 1.0
    d = case.pick(3, 17, 40, 120, 200)
    if case.chance(0.02):
        d = 5000
    return n, d, {"thin": 0.02, "thick": case.rng.uniform(0.05, 0.3), "hollow": 0.25}[kind]


def draw_rows(case, *, csr_only=False, most=70):
    n, d, density = draw_shape(case, most)
    case.density = density
    if density < 1 and case.chance(0.03):
        density = 0.0
    return dress(case, draw_values(case, n, d, density), csr_only=csr_only)


def more_rows(case, d, *, csr_only=False):
    """Rows to predict: mostly few, sometimes many; as dense as those of training, or not."""
    n = case.pick(1, 2, 5, 30, 63, 64, 65, 200, 1000)
    if case.chance(0.12):
        n = case.pick(1025, 4096, 4097, 6000, 9999)
    if n * d > 2e6:
        n = max(1, int(2e6 / d))
    density = case.density if case.chance(0.4) else case.pick(1.0, 0.3, 0.1, 0.015)
    return dress(case, draw_values(case, n, d, density, like=True), csr_only=csr_only)


def draw_labels(case, values):
    """Labels as they are given, and what `np.unique` makes of them."""
    n = len(values)
    k = case.pick(2, 2, 2, 3, 3, 4, 6, 8)
    scores = values @ case.rng.normal(size=(values.shape[1], k)) / max(case.scale, 1e-300)
    with np.errstate(all="ignore"):
        scores = np.nan_to_num(scores / max(np.abs(scores).max(initial=0), 1e-300))
    codes = (scores + 0.3 * case.rng.normal(size=(n, k))).argmax(axis=1)
    if case.chance(0.2):
        codes = np.sort(codes)
    if case.chance(0.8):  # all classes are there, if there are rows enough
        codes[case.rng.permutation(n)[:k]] = np.arange(k)[:n]
    if len(np.unique(codes)) < 2:
        case.may_be_refused("class")
    y = case.pick(
        lambda c: c, lambda c: c * 3 - 1, lambda c: c.astype(np.float64), lambda c: c.astype("u1"),
        lambda c: np.array(list("hgfedcba"))[c], lambda c: np.array(list("hgfedcba"), object)[c],
        lambda c: c.tolist(), lambda c: misaligned(c.astype(np.int64)),
    )(codes)  # fmt: skip
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    return y, classes, codes


def draw_weights(case, codes):
    """Weights as they are given, and as numbers."""
    n = len(codes)
    kind = case.pick(None, None, None, "random", "zeros", "classes", "scalar", "int", "strange")
    if kind is None:
        return None, np.ones(n)
    weights = case.rng.uniform(0.2, 3, n)
    if kind == "zeros":
        weights[case.rng.random(n) < 0.5] = 0
    elif kind == "classes":
        kept = case.rng.permutation(codes.max() + 1)[: case.integer(1, codes.max() + 1)]
        weights = np.isin(codes, kept) * 1.0
    elif kind == "int":
        weights = case.rng.integers(0, 3, n)
    elif kind == "strange":
        weights = case.pick(misaligned, lambda w: w.astype("f4"), lambda w: w.astype(">f8"), list)(
            weights
        )
    elif kind == "scalar":
        return 2.5, np.full(n, 2.5)
    numbers = np.asarray(weights, dtype=np.float64)
    if len(np.unique(codes[numbers > 0])) < 2:
        case.may_be_refused("class|weight")
    return weights, numbers


# ---- Parameters ----------------------------------------------------------------------------------


# Of u = 1 - y f.
LOSSES = {
    "hinge": lambda u: np.maximum(0, u),
    "squared_hinge": lambda u: np.maximum(0, u) ** 2,
    "modified_huber": lambda u: np.where(u > 2, 4 * u - 4, np.maximum(0, u) ** 2),
    "log_loss": lambda u: np.logaddexp(0, u - 1),
}
# Of the label +1, of a score.
PROBABILITIES = {
    "modified_huber": lambda f: np.interp(f, [-1, 1], [0, 1]),
    "log_loss": lambda f: np.exp(-np.logaddexp(0, -f)),
}


def draw_options(case):
    """Parameters that linear and kernel machines share."""
    solver = case.pick("auto", "auto", "pegasos", "sdca", "newton")
    options = {
        "loss": case.pick("hinge", "hinge", *LOSSES),
        "solver": solver,
        "tol": case.pick("auto", 1e-3, 1e-2, 1e-6, None),
        "max_iter": case.pick(1, 2, 5, 30, 100),
        "batch_size": case.pick(1, 1, 1, 2, 7, 100),
        "sampling": case.pick("permutation", "cyclic", "uniform"),
        "project": case.chance(0.2),
        "average": case.pick(False, False, True, "suffix"),
        "fit_intercept": case.chance(0.8),
        "penalize_intercept": case.chance(0.6),
        "intercept_scaling": case.pick(1.0, 1.0, 0.1, 10.0),
        "multi_class": case.pick("ovr", "ovo"),
        "random_state": case.integer(0, 2**31),
    }
    if solver in ("auto", "pegasos") and case.chance(0.3):
        # Rows of a pair of classes may be few: then most draws make no step.
        options["n_steps"] = case.pick(1, 3, 50, 300 if options["batch_size"] < 100 else 10)
        if case.chance(0.05):
            options["n_steps"] = np.int64(20)
    return options


def draw_lam(case):
    return float(10 ** case.rng.uniform(-4, 0.5))


def draw_regularisation(case):
    """λ, C, or neither, which is C = 1."""
    kind = case.pick("lam", "lam", "C", "C", "default")
    if kind == "lam":
        return {"lam": draw_lam(case)}
    return {"C": float(10 ** case.rng.uniform(-2, 2))} if kind == "C" else {}


def lam_of(clf, codes, weights):
    """λ of an estimator that is fitted to rows with these weights, class weights among them."""
    if clf.lam is not None:
        return clf.lam
    mass, C = weights.sum(), 1.0 if clf.C is None else clf.C
    if clf.multi_class == "ovo":
        mass *= 2 / len(np.unique(codes[weights > 0]))
    return 1 / (C * mass)


def draw_class_weight(case, classes, codes, weights):
    """A class weight, and the weights that rows have with it."""
    kind = case.pick(None, None, None, "balanced", "dict", "zero")
    if kind is None:
        return None, weights
    if kind == "balanced":
        mass = np.bincount(codes, weights, minlength=len(classes))
        factor = mass.sum() / (len(classes) * np.where(mass > 0, mass, 1))
        return kind, weights * factor[codes]
    factor = case.rng.uniform(0.5, 2, len(classes))
    if kind == "zero":
        factor[0] = 0.0
    weights = weights * factor[codes]
    if len(np.unique(codes[weights > 0])) < 2:
        case.may_be_refused("class|weight")
    return dict(zip(classes.tolist(), factor.tolist(), strict=True)), weights


def _gaussian(X, Z, width=1.0):
    """A kernel function as users write them."""
    X, Z = (A.toarray() if sparse.issparse(A) else np.asarray(A) for A in (X, Z))
    values, apart = np.empty((len(X), len(Z))), np.empty(Z.shape)
    with np.errstate(over="ignore"):
        # Row by row: all differences at once would be gigabytes, and take minutes to write.
        for x, row in zip(X.astype(np.float64), values, strict=True):
            np.subtract(x, Z, out=apart)
            np.square(apart, out=apart).sum(axis=1, out=row)
        return np.exp(-values / width)


def draw_kernel(case, d):
    """Parameters of a kernel."""
    kernel = case.pick(
        "rbf", "rbf", "rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed", "callable"
    )
    options = {"kernel": kernel}
    if kernel == "callable":
        options |= {"kernel": _gaussian, "kernel_params": {"width": 2.0 * d}}
    gamma = case.pick("scale", "scale", "auto", 0.1, 1.0, 10.0)
    if gamma == 10.0 and kernel == "poly":
        gamma = 0.1
    options["gamma"] = gamma
    options["degree"] = case.pick(0, 1, 2, 3, 5)
    options["coef0"] = case.pick(0.0, 1.0, 0.5, -0.5)
    options["cache_size"] = case.pick(1000, 1000, 0, 0.001, 0.01, 1)
    return options


# ---- What NumPy says -----------------------------------------------------------------------------


def eps_of(dtype):
    return float(np.finfo(dtype).eps)


@dataclasses.dataclass
class Linear:
    """A linear machine by its public attributes."""

    coef: np.ndarray
    intercept: np.ndarray
    eps: float

    def scores(self, values, eps=0.0):
        """Scores (n_rows, n_problems), and how far rounding can carry others from them."""
        eps, w = max(self.eps, eps), np.asarray(self.coef, np.float64)
        size = np.abs(values) @ np.abs(w.T) + np.abs(self.intercept)
        return values @ w.T + self.intercept, 2 * eps * (w.shape[1] + 8) * size

    def squared_norms(self):
        norms = (np.asarray(self.coef, np.float64) ** 2).sum(axis=1)
        return norms, 1e-12 * norms


@dataclasses.dataclass
class Kernel:
    """A kernel machine by its public attributes."""

    name: object
    gamma: float
    degree: int
    coef0: float
    params: dict
    vectors: np.ndarray
    dual_coef: np.ndarray
    intercept: np.ndarray
    eps: float
    shifts: bool  # whether a common shift of all rows can be seen in bits, as in sparse ones
    matrix: np.ndarray = None  # of a precomputed kernel, that of the support vectors
    support: np.ndarray = None

    def values(self, X, Z, eps):
        """Kernel values of each pair of rows, and bounds of their rounding errors."""
        if self.name == "precomputed":
            return X, np.zeros_like(X)
        d = X.shape[1]
        if self.name in ("linear", "poly", "sigmoid"):
            products, sizes = X @ Z.T, 4 * eps * (d + 8) * (np.abs(X) @ np.abs(Z).T)
            return self._of_products(products, sizes, eps)
        K, bound = np.empty((2, len(X), len(Z)))
        # Exponents by norms and products are as good as gamma |x|^2 is small.
        largest = max((M**2).sum(axis=1).max(initial=0) for M in (X, Z))
        by_products = self.gamma * largest * eps <= 1e-5 and self.gamma * largest <= 1e4
        centre = 0 if self.shifts or by_products or not len(Z) else Z.mean(axis=0)
        z2, z1 = ((Z - centre) ** 2).sum(axis=1), np.abs(Z).sum(axis=1)
        for i, x in enumerate(X):
            if self.name == "laplacian":
                distance = np.abs(Z - x).sum(axis=1)
                error = eps * ((d + 8) * distance + 4 * (z1 + np.abs(x).sum()))
                gamma = self.gamma
            else:
                distance = ((Z - x) ** 2).sum(axis=1)
                size = z2 + ((x - centre) ** 2).sum()
                error = 8 * eps * (4 + np.sqrt(d)) * size + 2 * eps * np.abs(x).max() * np.sqrt(
                    distance
                )
                gamma = 1 / self.params["width"] if callable(self.name) else self.gamma
            K[i] = np.exp(-gamma * distance)
            bound[i] = K[i] * np.expm1(np.minimum(gamma * error, 700)) + 8 * eps * K[i] + 1e-37
        return K, np.minimum(bound, 1)

    def _of_products(self, products, errors, eps):
        if self.name == "linear":
            return products, errors
        inner = self.gamma * products + self.coef0
        error = self.gamma * errors + 4 * eps * (np.abs(inner) + np.abs(self.coef0))
        if self.name == "sigmoid":
            return np.tanh(inner), np.minimum(error, 2) + 8 * eps
        size, p = np.abs(inner) + error, self.degree
        return inner**p, size**p - np.abs(inner) ** p + 4 * eps * (p + 2) * size**p

    def scores(self, values, eps=0.0):
        eps = max(self.eps, eps)
        if self.name == "precomputed":
            values = values[:, self.support]
        K, bound = self.values(values, self.vectors, eps)
        a = np.abs(self.dual_coef.T)
        sums = eps * (a.shape[0] + 8) * (np.abs(K) @ a + np.abs(self.intercept))
        return K @ self.dual_coef.T + self.intercept, bound @ a + 2 * sums

    def squared_norms(self):
        K, bound = (
            (self.matrix, 0 * self.matrix)
            if self.name == "precomputed"
            else self.values(self.vectors, self.vectors, self.eps)
        )
        a = np.abs(self.dual_coef)
        error = bound + self.eps * (len(K) + 8) * np.abs(K)
        form = np.einsum("ki,ij,kj->k", self.dual_coef, K, self.dual_coef)
        return form, 2 * np.einsum("ki,ij,kj->k", a, error, a)


@np.errstate(all="ignore")
def check_scores(what, found, machine, rows, n_classes, multi_class):
    """Raise unless the scores of rows are those of NumPy; some rows stand for many."""
    shape = (len(rows),) if n_classes == 2 else (len(rows), n_classes)
    if found.shape != shape or found.dtype != np.float64:
        raise Wrong(f"{what}: scores of {found.dtype} {found.shape}, not float64 {shape}")
    some = np.arange(len(rows))
    if isinstance(machine, Kernel) and len(rows) > 80:
        some = np.unique(np.r_[some[::1024], some[4095:4100], some[:: len(some) // 40], some[-3:]])
    S, bound = machine.scores(rows.values[some], eps_of(rows.dtype) if rows.dtype == "f4" else 0.0)
    sure = np.isfinite(S).all(axis=1) & np.isfinite(bound).all(axis=1)
    if n_classes == 2:
        S, bound = S[:, 0], bound[:, 0]
    elif multi_class == "ovo":
        sure &= ((np.abs(S) > bound) | (bound == 0)).all(axis=1)
        bound = bound.sum(axis=1, keepdims=True) / 3 + 1e-14
        S = votes(S, n_classes)
    off = np.abs(found[some] - S) > bound + 1e-300
    off = (off | np.isnan(found[some])).reshape(len(some), -1).any(axis=1) & sure
    if off.any():
        i = int(np.flatnonzero(off)[0])
        raise Wrong(
            f"{what}: row {some[i]} of {len(rows)} ({rows.name}) has scores {found[some[i]]}, "
            f"should have {S[i]} (+- {bound[i]}); {off.sum()} of {len(some)} rows looked at"
        )


def votes(S, n_classes):
    """One-vs-one, as the documentation has it."""
    out, sums, k = np.zeros((len(S), n_classes)), np.zeros((len(S), n_classes)), 0
    small = S / 64  # a power of two, which rounds nothing: sums of large scores do not overflow
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            out[np.arange(len(S)), np.where(S[:, k] > 0, j, i)] += 1
            sums[:, i] -= small[:, k]
            sums[:, j] += small[:, k]
            k += 1
    return out + sums / (3 * (np.abs(sums) + 1 / 64))


def check_predictions(what, found, scores, classes):
    winners = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    if not np.array_equal(found, classes[winners]):
        raise Wrong(f"{what}: labels are not those of the scores")


@np.errstate(all="ignore")
def check_probabilities(what, found, scores, n_classes, multi_class, loss, eps=1e-12):
    """Raise unless they are probabilities and, but for votes of pairs, those of the scores."""
    if found.shape != (len(scores), n_classes):
        raise Wrong(f"{what}: {found.shape} for {len(scores)} rows and {n_classes} classes")
    if not ((found >= 0) & (found <= 1)).all() or not np.allclose(found.sum(axis=1), 1):
        raise Wrong(f"{what}: not probabilities: {found}")
    if n_classes == 2:
        expected = PROBABILITIES[loss](np.stack([-scores, scores], axis=1))
    elif multi_class == "ovr":
        expected = PROBABILITIES[loss](scores)
        # Below what exp can tell from 0, they may be anything.
        known = expected.sum(axis=1) > 1e-250
        found, expected = found[known], expected[known] / expected[known].sum(axis=1)[:, None]
    else:
        return
    if not np.allclose(found, expected, rtol=0, atol=eps):
        raise Wrong(f"{what}: {found}, should be {expected}")


def label_columns(codes, n_classes, multi_class):
    """-1, 0, 1 for every problem."""
    if n_classes == 2:
        return np.where(codes == 1, 1, -1)[None]
    if multi_class == "ovr":
        return np.array([np.where(codes == k, 1, -1) for k in range(n_classes)])
    return np.array(
        [
            (codes == j).astype(int) - (codes == i)
            for i in range(n_classes)
            for j in range(i + 1, n_classes)
        ]
    )


@np.errstate(all="ignore")
def check_certificate(what, machine, rows, codes, weights, n_classes, options, said):
    """Raise unless the objectives are those of the models, and no point is below the dual ones.

    `said` holds lam, objective, dual_objective.
    """
    objective, dual = np.asarray(said["objective"]), np.asarray(said["dual_objective"])
    scores, bound = machine.scores(rows.values)
    norms, norm_errors = machine.squared_norms()
    if options["multi_class"] == "crammer_singer":
        check_joint(what, machine, rows, codes, weights, n_classes, options, said)
        return
    penal = options["fit_intercept"] and options["penalize_intercept"]
    free = options["fit_intercept"] and not penal
    columns = label_columns(codes, n_classes, options["multi_class"])
    loss = options["loss"]
    if objective.shape != (len(columns),) or dual.shape != objective.shape:
        raise Wrong(f"{what}: objectives of shapes {objective.shape}, {dual.shape}")
    for k, y in enumerate(columns):
        inside = (y != 0) & (weights > 0)
        c, y, f = weights[inside], y[inside], scores[inside, k]
        if not len(y) or not np.isfinite(f).all():
            continue
        b, total = machine.intercept[k], c.sum()

        def primal(r, shift=0.0, c=c, y=y, f=f, b=b, k=k, total=total):
            """P of r times the model, its intercept moved."""
            new = r * b + shift
            norm = r * r * norms[k] + (penal and (new / options["intercept_scaling"]) ** 2)
            losses = LOSSES[loss](1 - y * (r * f + shift))
            return said["lam"] / 2 * norm + c @ losses / total

        P, off = primal(1.0), bound[inside, k]
        if loss in ("squared_hinge", "modified_huber"):
            off = off * (2 * np.maximum(0, 1 - y * f) + off)
        error = said["lam"] / 2 * norm_errors[k] + c @ off / total + 1e-9 * abs(P)
        if not np.isfinite(error):
            continue
        if np.isfinite(objective[k]) and abs(objective[k] - P) > 2 * error + 1e-12:
            raise Wrong(
                f"{what}: objective {objective[k]} of problem {k}, should be {P} +- {error}"
            )
        points = [primal(r) for r in (0, 0.1, 0.5, 0.8, 0.95, 1.0, 1.05, 1.5)]
        if free:
            points += [primal(r, s) for r in (0, 0.5, 1) for s in (-1, -0.1, 0.1, 1)]
        if np.isfinite(dual[k]) and dual[k] > np.nanmin(points) + 2 * error + 1e-9:
            raise Wrong(
                f"{what}: problem {k} has a point of objective {np.nanmin(points)}, below the dual "
                f"objective {dual[k]} (objective {objective[k]})"
            )


def check_joint(what, machine, rows, codes, weights, n_classes, options, said):
    """`check_certificate` of Crammer and Singer's problem."""
    objective, dual = np.asarray(said["objective"]), np.asarray(said["dual_objective"])
    if objective.shape != (1,) or dual.shape != (1,):
        raise Wrong(f"{what}: objectives of shapes {objective.shape}, {dual.shape}")
    S, bound = machine.scores(rows.values)
    norm, b = machine.squared_norms()[0].sum(), np.asarray(machine.intercept)
    if options["fit_intercept"] and options["penalize_intercept"]:
        norm += ((b / options["intercept_scaling"]) ** 2).sum()
    if n_classes == 2:  # the difference of two opposite vectors is told
        S, bound, norm = np.hstack([-S, S]) / 2, np.hstack([bound, bound]) / 2, norm / 2
    cost = options["cost"]
    cost = 1 - np.eye(n_classes) if cost is None else np.asarray(cost)
    inside = weights > 0
    c, y, S = weights[inside] / weights[inside].sum(), codes[inside], S[inside]

    def primal(r, shift=0.0):
        new = r * S + shift * (np.arange(S.shape[1]) == 0)
        losses = (cost[y] + new - new[np.arange(len(y)), y][:, None]).max(axis=1)
        return said["lam"] / 2 * r * r * norm + c @ losses

    P, error = primal(1.0), 2 * c @ bound[inside].max(axis=1)
    error += 1e-9 * (P + primal(0.0))
    if not np.isfinite(error):
        return
    if abs(objective[0] - P) > 2 * error:
        raise Wrong(f"{what}: objective {objective[0]}, should be {P} +- {error}")
    points = [primal(r) for r in (0, 0.1, 0.5, 0.8, 0.95, 1.05, 1.5)]
    if options["fit_intercept"] and not options["penalize_intercept"]:
        points += [primal(r, shift) for r in (0, 0.5, 1) for shift in (-1, -0.1, 0.1, 1)]
    least = min(points)
    if dual[0] > least + 2 * error:
        raise Wrong(f"{what}: a point of objective {least}, below the dual one {dual[0]}")


def linear_machine(fitted, dtype):
    return Linear(np.asarray(fitted.coef_), np.asarray(fitted.intercept_), eps_of(dtype))


def kernel_machine(clf, rows, kernel=None):
    """The fitted estimator's machine; `rows` are those of the fit."""
    name = clf.kernel
    about = clf.to_model().kernel
    is_dense = not sparse.issparse(clf.support_vectors_)
    matrix = None
    if name == "precomputed":
        vectors = np.empty((len(clf.support_), 0))
        matrix = rows.values[np.ix_(clf.support_, clf.support_)]
    else:
        vectors = clf.support_vectors_
        vectors = (vectors if is_dense else vectors.toarray()).astype(np.float64)
        if not np.array_equal(vectors, rows.values[clf.support_]):
            raise Wrong("support_vectors_ are not the rows support_ of X")
    hollow = np.count_nonzero(rows.values) <= 0.5 * rows.values.size
    return Kernel(
        name, about["gamma"], about["degree"], about["coef0"], clf.kernel_params or {}, vectors,
        np.asarray(clf.dual_coef_), np.asarray(clf.intercept_), eps_of(rows.dtype),
        not is_dense or hollow, matrix, clf.support_,
    )  # fmt: skip


def machine_of(model):
    """The machine of a `LinearModel` or `KernelModel`."""
    if isinstance(model, pegasos.LinearModel):
        return Linear(np.asarray(model.coef), np.asarray(model.intercept), eps_of(np.float64))
    k, X = model.kernel, model.support.X
    vectors = X.toarray() if sparse.issparse(X) else X
    return Kernel(
        k["name"], k["gamma"], k["degree"], k["coef0"], {}, np.asarray(vectors, np.float64),
        model.dual_coef, model.intercept, eps_of(X.dtype), True,
    )  # fmt: skip


# ---- Kinds of cases: fits ------------------------------------------------------------------------


@dataclasses.dataclass
class Problem:
    """Rows, labels and weights as they are given, and as numbers."""

    rows: Rows
    y: object
    classes: np.ndarray
    codes: np.ndarray
    sample_weight: object
    weights: np.ndarray
    class_weight: object = None
    total: np.ndarray = None  # with class weights

    def told(self):
        w = (
            None
            if self.sample_weight is None
            else f"{type(self.sample_weight).__name__} of weights"
        )
        return (
            f"{self.rows.name}, {len(self.classes)} classes, {w}, class_weight={self.class_weight}"
        )


def draw_problem(case, **options):
    rows = draw_rows(case, **options)
    y, classes, codes = draw_labels(case, rows.values)
    sample_weight, weights = draw_weights(case, codes)
    class_weight, total = draw_class_weight(case, classes, codes, weights)
    return Problem(rows, y, classes, codes, sample_weight, weights, class_weight, total)


def make_precomputed(case, p):
    """Replace the rows by a kernel matrix of them, which may be indefinite."""
    V = p.rows.values / case.scale
    V = V - V.mean(axis=0)
    K = V @ V.T / max(1e-300, (V**2).sum(axis=1).max(initial=0)) + 0.1 * np.eye(len(V))
    if case.chance(0.2):
        K = case.rng.normal(size=K.shape)
        K = K + K.T
    case.scale, case.shift = 1.0, 0.0
    p.rows = dress(case, K, kind="dense")
    if not np.array_equal(p.rows.values, p.rows.values.T):
        case.may_be_refused("symmetric")


def allow_no_minimum(case, options):
    """Losses other than the hinge want kernels that are positive."""
    is_positive = options["kernel"] in ("rbf", "linear", "laplacian")
    if options["loss"] != "hinge" and not is_positive:
        case.may_be_refused("positive semi-definite")


def make_estimator(case, p, *, is_kernel, **more):
    """An unfitted estimator for a problem."""
    options = draw_options(case) | {"class_weight": p.class_weight} | more
    options["n_jobs"] = case.pick(None, 1, 1, 2)
    if not is_kernel:
        return pegasos.PegasosClassifier(**draw_regularisation(case), **options)
    options |= draw_kernel(case, p.rows.values.shape[1]) | {
        "scores": case.pick("auto", "push", "pull")
    }
    if options["kernel"] == "precomputed":
        make_precomputed(case, p)
    if options["kernel"] == "poly" and case.scale > 100:
        case.may_be_refused("overflow|too large|finite")
    allow_no_minimum(case, options)
    return pegasos.KernelPegasosClassifier(**draw_regularisation(case), **options)


def told(estimator):
    """The estimator in words, with the parameters that are not the default ones."""
    default = type(estimator)().get_params()
    given = [f"{k}={v!r}" for k, v in estimator.get_params().items() if v is not default[k]]
    return f"{type(estimator).__name__}({', '.join(given)})"


def fit(case, clf, p, *excuses, optional=False):
    """Fit and check the answer; returns the machine, or None if it was refused."""
    done = case.call(
        f"{told(clf)}.fit({p.told()})",
        lambda: clf.fit(p.rows.X, p.y, sample_weight=p.sample_weight),
        *excuses,
        optional=optional,
    )
    return None if done is None else check_fit(case, clf, p)


def check_fit(case, clf, p):
    is_kernel = isinstance(clf, pegasos.KernelPegasosClassifier)
    machine = kernel_machine(clf, p.rows) if is_kernel else linear_machine(clf, p.rows.dtype)
    if not np.array_equal(clf.classes_, p.classes):
        raise Wrong(f"classes_ {clf.classes_}, should be {p.classes}")
    if clf.lam is not None or not clf.warm_start:  # which keeps the λ of other weights
        lam = lam_of(clf, p.codes, p.total)
        if not np.isclose(clf.lam_, lam, rtol=1e-12):
            raise Wrong(f"lam_ {clf.lam_}, should be {lam}")
    if hasattr(clf, "objective_"):
        said = {
            "lam": clf.lam_,
            "objective": clf.objective_,
            "dual_objective": clf.dual_objective_,
        }
        check_certificate(
            "fit", machine, p.rows, p.codes, p.total, len(p.classes), clf.get_params(), said
        )
        if clf.tol is not None and clf.n_steps is None and case.converged:
            gap, P = clf.duality_gap_, clf.objective_
            tol = 1e-3 if clf.tol == "auto" else clf.tol
            # An objective below the rounding of 1 - y f has converged.
            is_small = (gap <= tol * P * (1 + 1e-9)) | (4 * np.finfo(np.float64).eps >= P)
            if not (np.isnan(gap) | is_small).all():
                raise Wrong(f"no warning, but gaps {gap} with objectives {P}, tol={clf.tol}")
    elif clf.n_steps is None and not (is_kernel and clf.solver == "pegasos"):
        raise Wrong("fit has set no objective_")
    return machine


def predict(case, clf, machine, p, *, many=True):
    """Scores and labels of new rows, in some layout."""
    if isinstance(machine, Kernel) and machine.name == "precomputed":
        n = case.pick(1, 7, 64, 5000 if many else 100)
        new = dress(
            case, case.rng.normal(size=(n, len(p.rows))).astype("f4").astype("f8"), kind="dense"
        )
    else:
        new = more_rows(case, p.rows.values.shape[1]) if many else p.rows
    about = (r"overflow|too large|X must be finite",) if case.scale > 1e15 else ()
    scores = case.call(
        f"decision_function({new.name})", lambda: clf.decision_function(new.X), *about
    )
    check_scores("decision_function", scores, machine, new, len(p.classes), clf.multi_class)
    labels = case.call("predict", lambda: clf.predict(new.X), *about)
    check_predictions("predict", labels, scores, p.classes)
    if not isinstance(clf, (pegasos.PegasosClassifierCV, pegasos.KernelPegasosClassifierCV)):
        loss = clf._fitted["loss"]
    else:
        loss = clf.loss
    if hasattr(clf, "predict_proba") != (loss in PROBABILITIES):
        raise Wrong(f"predict_proba with loss={loss!r}: {hasattr(clf, 'predict_proba')}")
    if loss in PROBABILITIES:
        found = case.call("predict_proba", lambda: clf.predict_proba(new.X), *about)
        check_probabilities("predict_proba", found, scores, len(p.classes), clf.multi_class, loss)
    return new, scores


def same_bits(case, what, call, scores):
    found = case.call(what, call)
    if not np.array_equal(found, scores, equal_nan=True):
        raise Wrong(f"{what}: other bits than before")


def single_fit(case, is_kernel):
    """A fit, predictions, and the same from copies, files, and with other threads."""
    p = draw_problem(case)
    fit_and_predict(case, make_estimator(case, p, is_kernel=is_kernel), p)


def fit_and_predict(case, clf, p):
    is_kernel = isinstance(clf, pegasos.KernelPegasosClassifier)
    machine = fit(case, clf, p)
    new, scores = predict(case, clf, machine, p)
    if case.chance(0.3):
        again = pickle.loads(pickle.dumps(clf))
        same_bits(case, "unpickled", lambda: again.decision_function(new.X), scores)
    if case.chance(0.3):
        other = clone(clf).set_params(n_jobs=1 if clf.n_jobs == 2 else 2)
        case.call("other n_jobs", lambda: other.fit(p.rows.X, p.y, p.sample_weight))
        name = "dual_coef_" if is_kernel else "coef_"
        if not np.array_equal(getattr(clf, name), getattr(other, name)):
            raise Wrong(f"n_jobs={clf.n_jobs} and {other.n_jobs} give other bits")
    if case.chance(0.4):
        saved_and_loaded(case, clf, p, new, scores)


def saved_and_loaded(case, clf, p, new, scores):
    path, model = case.folder / "model.npz", clf.to_model()
    case.call("save", lambda: model.save(path), "cannot be saved without its kernel")
    loaded = case.call("load", lambda: pegasos.load(path))
    if sparse.issparse(new.X) and new.X.format != "csr":
        case.may_be_refused("must be dense or CSR")
    names = getattr(new.X, "columns", model.feature_names)
    if model.feature_names is not None and list(names) != model.feature_names.tolist():
        case.may_be_refused("must have the columns of training")
    found = case.call("loaded model", lambda: loaded.decision_function(new.X))
    # A list or frame may be read in another type by the estimator.
    close = np.allclose(found, scores, rtol=1e-3, atol=1e-3 * np.abs(scores).max())
    if not (np.array_equal(found, scores) or (isinstance(new.X, (list, pd.DataFrame)) and close)):
        raise Wrong("the loaded model scores otherwise")
    if not np.array_equal(loaded.classes, p.classes):
        raise Wrong(f"the loaded model has classes {loaded.classes}")
    check_predictions("loaded model", loaded.predict(new.X), found, loaded.classes)


def linear_fit(case):
    single_fit(case, is_kernel=False)


def kernel_fit(case):
    single_fit(case, is_kernel=True)


def functional(case):
    """`pegasos.fit`, with an order of draws sometimes."""
    p = draw_problem(case, csr_only=True)
    options = draw_options(case) | {"sample_weight": p.sample_weight, "n_jobs": case.pick(1, 1, 2)}
    if case.chance(0.3):
        n = len(p.rows)
        order = case.rng.integers(0, n, case.pick(1, 5, 100))
        order = case.pick(
            order, order.tolist(), order.astype("u1"), order.astype(">i4"), misaligned(order)
        )
        options["order"] = order
        case.may_be_refused("order")
        if case.chance(0.1):
            options["order"] = case.pick([n], [-1], [0.5], [], [[0]], [True])
    lam = draw_lam(case)
    model = case.call(
        f"pegasos.fit({p.told()}, {lam}, {options})",
        lambda: pegasos.fit(p.rows.X, p.y, lam, **options),
    )
    machine = Linear(model.coef, model.intercept, eps_of(p.rows.dtype))
    said = {"lam": lam, "objective": model.objective, "dual_objective": model.dual_objective}
    check_certificate("fit", machine, p.rows, p.codes, p.weights, len(p.classes), options, said)
    new = more_rows(case, p.rows.values.shape[1], csr_only=True)
    scores = case.call(
        f"decision_function({new.name})", lambda: pegasos.decision_function(model, new.X)
    )
    check_scores("decision_function", scores, machine, new, len(p.classes), options["multi_class"])
    check_predictions("predict", model.predict(new.X), scores, p.classes)
    if hasattr(model, "predict_proba") != (options["loss"] in PROBABILITIES):
        raise Wrong(f"predict_proba of a model with loss={options['loss']!r}")
    if options["loss"] in PROBABILITIES:
        found = case.call("predict_proba", lambda: model.predict_proba(new.X))
        check_probabilities(
            "predict_proba", found, scores, len(p.classes), options["multi_class"], options["loss"]
        )


# ---- Kinds of cases: sequences -------------------------------------------------------------------


def sequence(case):
    """Several calls on one estimator: refits that fail, warm starts, edited attributes."""
    is_kernel = case.chance(0.5)
    p = draw_problem(case)
    clf = make_estimator(case, p, is_kernel=is_kernel, warm_start=case.chance(0.4))
    if not is_kernel and case.chance(0.2):
        first_part(case, clf, p)
        return
    fit(case, clf, p)
    steps = [failing_refit, other_settings, edited_attributes, copied]
    if not is_kernel:
        steps.append(part_after_fit)
    for _ in range(case.integer(1, 3)):
        if not case.pick(*steps)(case, clf, p):
            return


def first_part(case, clf, p):
    """`partial_fit` from the beginning on."""
    clf.set_params(class_weight=None, C=None, solver=case.pick("auto", "pegasos"))
    p.class_weight, p.total = None, p.weights
    p.rows.X = _rows_of_any(p.rows.X)
    for k in range(case.integer(1, 3)):
        some = np.sort(case.rng.permutation(len(p.rows))[: case.integer(1, len(p.rows))])
        case.call(
            f"{told(clf)}.partial_fit(rows {some.tolist()} of {p.rows.name})",
            lambda some=some, k=k: clf.partial_fit(
                p.rows.X[some],
                np.asarray(p.y)[some],
                classes=None if k else p.classes,
                sample_weight=None if p.sample_weight is None else p.weights[some],
            ),
            "weight|class|overflow",
        )
    predict(case, clf, linear_machine(clf, p.rows.dtype), p)


def _rows_of_any(X):
    """The same rows in a layout from which rows can be chosen."""
    if not sparse.issparse(X):
        return np.asarray(X)
    X = X.tocsr(copy=True)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def part_after_fit(case, clf, p):
    """What was fitted is not forgotten when one more row comes."""
    if clf.class_weight == "balanced":
        return True
    before, X, y = clf.coef_.copy(), _rows_of_any(p.rows.X)[:1], np.asarray(p.y)[:1]
    fresh = clone(clf).set_params(C=None, lam=clf.lam_)
    done = case.call(
        "partial_fit of one row", lambda: clf.partial_fit(X, y),
        "partial_fit|warm_start|weight|overflow|damaged", optional=True,
    )  # fmt: skip
    if done is None:
        return False
    of_one = lambda: fresh.partial_fit(X, y, classes=p.classes)
    if (
        case.call("partial_fit of it alone", of_one, "overflow", optional=True) is not None
        and before.any()
        and not np.array_equal(before, clf.coef_)
        and np.allclose(clf.coef_, fresh.coef_, rtol=1e-6, atol=0)
    ):
        raise Wrong("partial_fit forgot the fit")
    predict(case, clf, linear_machine(clf, p.rows.dtype), p)
    return False


def failing_refit(case, clf, p):
    """A fit that fails leaves the last model whole, or none."""
    before = case.call("decision_function", lambda: clf.decision_function(p.rows.X))
    d = p.rows.values.shape[1]
    n = len(p.rows)
    width = n if clf.get_params().get("kernel") == "precomputed" else d
    other = width + case.pick(0, 1, 200) if case.chance(0.7) else max(1, width - 2)
    X, y = case.rng.normal(size=(n, other)), p.y
    failure = case.pick("one class", "weights", "NaN", "parameter", "kernel", "few labels")
    state = clf.get_params()
    weights = None
    if failure == "one class":
        y = np.full(n, p.classes[0])
    elif failure == "weights":
        weights = np.full(n, -1.0)
    elif failure == "NaN":
        X[0, 0] = np.nan
    elif failure == "parameter":
        name = case.pick("lam", "C")
        clf.set_params(lam=None, C=None).set_params(**{name: case.pick(-1.0, 1e-310, "1", np.nan)})
    elif failure == "few labels":
        y = np.asarray(p.y)[:-1]
    elif "kernel" in state:
        # Of few steps, none need ask for a value.
        clf.set_params(
            scores="push",
            n_steps=None,
            kernel=case.pick(lambda X, Z, **_: X[:1, :1], lambda X, Z, **_: 1 / 0, None),
        )
    else:
        clf.set_params(class_weight={p.classes.tolist()[0]: -1.0})
    with contextlib.suppress(Refused, ZeroDivisionError):
        try:
            case.call(
                f"refit of {X.shape} that fails ({failure})",
                lambda: clf.fit(X, y, sample_weight=weights), ".",
            )  # fmt: skip
        except Wrong as wrong:
            if not isinstance(wrong.__cause__, ZeroDivisionError):  # of the kernel itself
                raise
        else:
            raise Wrong(f"a refit with a wrong thing ({failure}) was accepted")
    clf.set_params(**state)
    return _still_whole(case, clf, p, before, X if failure != "NaN" else np.nan_to_num(X))


def _still_whole(case, clf, p, before, other):
    """Whether there is a model; it must be the one before."""
    if other.shape[1] != p.rows.values.shape[1]:
        found = case.call(
            f"decision_function of {other.shape} after it", lambda: clf.decision_function(other),
            "features|not fitted", optional=True,
        )  # fmt: skip
        if found is not None:
            columns = p.rows.values.shape[1]
            raise Wrong(f"{other.shape[1]} columns were scored by a model of {columns}")
    after = case.call(
        "decision_function after it", lambda: clf.decision_function(p.rows.X), "not fitted",
        optional=True,
    )  # fmt: skip
    if after is not None and not np.array_equal(after, before):
        raise Wrong("a refit that failed has changed the model")
    return after is not None


def other_settings(case, clf, p):
    """A refit with other parameters or weights; a warm start may refuse that."""
    change = case.pick(
        {"solver": case.pick("auto", "pegasos", "sdca", "newton"), "n_steps": None},
        {"max_iter": 3}, {"tol": 1e-4}, {"average": True}, {"n_jobs": 2},
        {"lam": 0.3, "C": None}, {"lam": None, "C": 3.0}, {"lam": None, "C": None},
        {"multi_class": "ovo"}, {"batch_size": 4, "n_steps": None}, {"random_state": 3},
        {"project": True}, {"warm_start": True},
    )  # fmt: skip
    if "scores" in clf.get_params() and case.chance(0.3):
        change = case.pick({"cache_size": 0}, {"scores": "pull"}, {"gamma": 0.7}, {"degree": 2})
    clf.set_params(**change)
    if case.chance(0.2):
        p.sample_weight, p.weights = draw_weights(case, p.codes)
        factor = 1.0
        if p.class_weight == "balanced":
            clf.set_params(class_weight=None)
            p.class_weight = None
        elif p.class_weight is not None:
            factor = np.array([p.class_weight[c] for c in p.classes.tolist()])[p.codes]
        p.total = p.weights * factor
        if len(np.unique(p.codes[p.total > 0])) < 2:
            case.may_be_refused("class|weight")
    case.note(f"change: {change}")
    refused = fit(case, clf, p, "warm_start|n_steps|must (be|stay)|float32|damaged", optional=True)
    if refused is None:
        return False
    predict(case, clf, refused, p)
    return True


def edited_attributes(case, clf, p):
    """Coefficients that a user has replaced: they are used as they are, or refused by name."""
    is_kernel = hasattr(clf, "dual_coef_")
    name = case.pick("dual_coef_" if is_kernel else "coef_", "intercept_")
    old = np.asarray(getattr(clf, name))
    new = case.pick(
        lambda a: a.astype(np.float32), lambda a: a.astype(np.float16), lambda a: a.astype(int),
        np.asfortranarray, lambda a: a.astype(">f8"), misaligned, lambda a: a.astype(complex),
        lambda a: a.astype(object), lambda a: a.tolist(), lambda a: a[..., :-1], np.ravel,
        lambda a: a * np.nan, lambda a: a[:0], lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
        lambda a: 0.5 * a, lambda a: None,
        lambda a: np.concatenate([a, a], axis=-1), lambda a: a.astype(str), lambda a: a[..., None],
    )(old)  # fmt: skip
    setattr(clf, name, new)
    case.note(f"{name} = {getattr(new, 'dtype', type(new).__name__)} of shape {np.shape(new)}")
    # Views of many rows, and few.
    found = case.call(
        "decision_function with it", lambda: clf.decision_function(p.rows.X),
        "coef|intercept|the model expects|the support vectors have", optional=True,
    )  # fmt: skip
    if found is None:
        return False
    if np.shape(new) != old.shape:
        raise Wrong(f"{name} of shape {np.shape(new)} was taken for {old.shape}")
    if is_kernel:
        machine = kernel_machine(clf, p.rows)
        machine.dual_coef = np.asarray(machine.dual_coef, np.float64)
        machine.intercept = np.asarray(machine.intercept, np.float64)
    else:
        coef, intercept = (np.asarray(a, np.float64) for a in (clf.coef_, clf.intercept_))
        machine = Linear(coef, intercept, eps_of(p.rows.dtype))
    if np.isnan(np.asarray(new, np.float64)).any():
        return False  # NaN in, NaN out
    check_scores("with it", found, machine, p.rows, len(p.classes), clf._fitted["multi_class"])
    return False


def copied(case, clf, p):
    """Copies answer as the original does, and what is done to them does not touch it."""
    before = case.call("decision_function", lambda: clf.decision_function(p.rows.X))
    twin = case.pick(copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), copy.copy)(clf)
    same_bits(case, "a copy", lambda: twin.decision_function(p.rows.X), before)
    twin.set_params(warm_start=True, n_steps=None, max_iter=2)
    case.call(
        "refit of a copy", lambda: twin.fit(p.rows.X, p.y), "must be|class|overflow", optional=True
    )
    same_bits(case, "the original", lambda: clf.decision_function(p.rows.X), before)
    return True


# ---- Kinds of cases: searches --------------------------------------------------------------------


def draw_folds(case, codes):
    """A value of `cv`, and a word for it."""
    n = len(codes)
    if case.chance(0.4):
        case.may_be_refused("n_splits|cv=|fold|leaves")
        return case.pick(2, 3, 4), "int"
    folds, kind = [], case.pick(
        "plain", "plain", "lacking", "repeated", "negative", "masks", "lists", "outside", "floats",
        "none", "empty",
    )  # fmt: skip
    for _ in range(case.integer(1, 3)):
        shuffled = case.rng.permutation(n)
        test, train = shuffled[: max(1, n // 3)], shuffled[max(1, n // 3) :]
        if kind == "lacking":
            train = train[codes[train] != codes[test[0]]]
        elif kind == "repeated":
            train = case.rng.choice(train, 2 * len(train))
        elif kind == "negative":
            train, test = (train - n, test) if case.chance(0.5) else (train, test - n)
        elif kind == "masks":
            train, test = np.isin(np.arange(n), train), np.isin(np.arange(n), test)
        elif kind == "lists":
            train, test = train.tolist(), test.tolist()
        elif kind == "outside":
            test = np.append(test, case.pick(n, -n - 1, 2**40))
        elif kind == "floats":
            train = train.astype(np.float64)
        elif kind == "empty":
            test = test[:0]
        folds.append((train, test))
    if kind == "none":
        folds = []
    case.may_be_refused("cv|fold|split")
    return folds, kind


class Asserting:
    """A scorer that looks at what it is given."""

    def __init__(self):
        self.wrong = ""

    def __call__(self, estimator, X, y, sample_weight=None):
        shape = getattr(X, "shape", None) or np.shape(X)
        if len(shape) != 2 or shape[0] != len(y):
            self.wrong = f"a scorer was given X of shape {shape} for {len(y)} labels"
        return float(np.mean(np.asarray(estimator.predict(X)) == np.asarray(y)))


def search(case):
    """A search, its best estimator, and the scores of its folds."""
    is_kernel = case.chance(0.5)
    p = draw_problem(case, most=50)
    if case.chance(0.6):
        even_classes(case, p)
    if len(p.rows) < 2 * len(p.classes):
        case.may_be_refused("n_splits|class")
    options = draw_options(case) | draw_search(case, p, is_kernel)
    lams = case.pick([0.1], [1.0, 0.1, 0.03], 2, (0.01, 0.3), np.array([0.5, 0.2]), [0.1, 0.1])
    name = case.pick("lams", "Cs")
    options["cv"], kind = draw_folds(case, p.codes)
    # A fold may leave one class of those that have weight, or no weight to test on.
    case.may_be_refused("leaves|test on|at least one non-zero number")
    if case.chance(0.4):  # so that the scores are known
        options |= {"max_iter": 500, "penalize_intercept": True, "refit": True, "scoring": None}
        options |= {
            "n_steps": None,
            "solver": case.pick("sdca", "newton", "auto"),
        }
        lams, options["cv_effort"] = [case.pick(0.03, 0.2, 1.0)], case.pick(1e-5, 1e-7)
        name = "lams"
    if options["loss"] in PROBABILITIES and case.chance(0.2):
        options["scoring"] = "neg_log_loss"
        case.may_be_refused("y_true|labels|y_pred|y_prob")
    scorer = options["scoring"]
    make = pegasos.KernelPegasosClassifierCV if is_kernel else pegasos.PegasosClassifierCV
    if is_kernel:
        allow_no_minimum(case, options)
    clf = make(**{name: lams}, **options)
    case.call(
        f"{told(clf)}.fit({p.told()}), folds {kind}",
        lambda: clf.fit(p.rows.X, p.y, sample_weight=p.sample_weight),
    )
    if isinstance(scorer, Asserting) and scorer.wrong:
        raise Wrong(scorer.wrong)
    check_search(case, clf, p)


def even_classes(case, p):
    """Classes of one size, so that folds can be made; weights for all of them, or for two."""
    k = max(2, case.pick(len(p.classes), len(p.classes), min(8, len(p.rows) // 4)))
    p.codes = np.arange(len(p.rows)) % k
    p.classes, p.class_weight = np.arange(k), None
    p.y = p.classes[p.codes]
    p.sample_weight, p.weights = None, np.ones(len(p.codes))
    kind = case.pick("none", "none", "drawn", "two")
    if kind == "drawn":
        p.sample_weight, p.weights = draw_weights(case, p.codes)
    elif kind == "two":
        p.sample_weight = p.weights = (p.codes < 2).astype(np.float64)
    p.total = p.weights


def draw_search(case, p, is_kernel):
    """Parameters of searches only, and of kernels."""
    options = {
        "class_weight": p.class_weight,
        "n_jobs": case.pick(None, 1, 2),
        "scoring": case.pick(
            None, None, None, "accuracy", "f1_macro", "balanced_accuracy", "roc_auc", Asserting()
        ),
        "refit": case.chance(0.8),
        "cv_effort": case.pick("auto", 0.05, 1e-3, 1e-6),
        "one_standard_error": case.chance(0.3),
        "n_steps": None,
    }
    if options["scoring"] == "roc_auc":
        case.may_be_refused("roc_auc|multi_class|probability|predict_proba|score")
    how = case.pick("tol", "epochs", "steps", "auto")
    if how == "epochs":
        options["cv_effort"] = case.pick(1, 2, 5)
    elif how == "steps":
        options["n_steps"] = case.pick(30, [20, 50])
        case.may_be_refused("n_steps needs")
    if not is_kernel:
        return options
    chosen = draw_kernel(case, p.rows.values.shape[1])
    gamma = chosen.pop("gamma")
    options |= chosen | {"gammas": case.pick([gamma], ["scale", 0.5], [0.1], None)}
    if chosen["kernel"] == "precomputed":
        make_precomputed(case, p)
        if case.chance(0.4):
            n = len(p.rows)
            A = case.rng.normal(size=(n, case.pick(1, 3, n - 1, 2 * n)))
            p.rows = dress(case, A, kind="dense")
            case.may_be_refused("square")
    return options


def check_search(case, clf, p):
    for C, lam in zip(clf.cv_results_["param_C"], clf.cv_results_["param_lam"], strict=True):
        expected = lam_of(clf._best(C=C, multi_class=clf.multi_class), p.codes, p.total)
        if not np.isclose(lam, expected, rtol=1e-12):
            raise Wrong(f"λ {lam} for C {C}, should be {expected}")
    if clf.scoring is None or clf.scoring == "accuracy":
        if not ((clf.scores_ >= 0) & (clf.scores_ <= 1)).all():
            raise Wrong(f"accuracies {clf.scores_}")
        if clf.n_steps is None and isinstance(clf.cv_effort, float) and clf.refit:
            check_fold_scores(case, clf, p)
    if not clf.refit:
        check_no_refit(clf, p)
        return
    machine = check_fit(case, clf.best_estimator_, p)
    predict(case, clf, machine, p)
    if case.chance(0.3):
        clf.set_params(refit=False)
        case.call("a search with refit=False", lambda: clf.fit(p.rows.X, p.y, p.sample_weight))
        check_no_refit(clf, p)


def check_no_refit(clf, p):
    try:
        clf.predict(p.rows.X)
    except AttributeError:
        return
    raise Wrong("predict with refit=False")


@np.errstate(all="ignore")
def check_fold_scores(case, clf, p):
    """Machines that are certified are so near the optimum that most labels are known."""
    where, y = clf.best_index_, np.asarray(p.y)
    gap, lam = clf.cv_results_["relative_gap"][where], clf.lam_
    free = clf.fit_intercept and not clf.penalize_intercept
    if free or not gap < 0.01 or case.scale != 1 or case.shift:
        return
    folds = check_cv(clf.cv, y, classifier=True).split(p.rows.values, y)
    for k, (train, test) in enumerate(folds):
        # By default, accuracy weighs rows as training does.
        w = (p.total if clf.scoring is None else p.weights)[test]
        counts = np.zeros(len(y))
        train = np.asarray(train)
        np.add.at(counts, train if train.dtype == bool else train.astype(int), 1)
        weights = counts * p.total
        if isinstance(clf.class_weight, str):  # balanced among the rows that the fold learns from
            mass = np.bincount(p.codes, counts * p.weights, minlength=len(p.classes))
            weights = counts * p.weights / np.where(mass > 0, mass, 1)[p.codes]
        machine, precise = fitted_to(clf.best_estimator_, p, weights)
        if not precise < 1e-4 or not w.sum() > 0:
            continue
        S, bound = machine.scores(p.rows.values[test])
        size = own_values(machine, p, test)
        if clf.fit_intercept:
            size = np.hypot(size, clf.intercept_scaling)
        # |w - w*|^2 <= 2 gap/lam, and the objective is at most 1. Rounding of kernel values, which
        # searches have in single precision, may move it by as much as a gap.
        is_kernel = isinstance(clf, pegasos.KernelPegasosClassifierCV)
        rounding = 1e-6 if is_kernel else 1e-14
        off = sum(np.sqrt(2.1 * (one + rounding) / lam) for one in (gap, precise)) * size
        off += bound.max() + 1e-9
        found, unsure = winners(S, off, len(p.classes), clf.multi_class)
        right = np.average(p.classes[found] == y[test], weights=w)
        said = clf.cv_results_[f"split{k}_test_score"][where]
        if abs(said - right) > w[unsure].sum() / w.sum() + 1e-9:
            raise Wrong(
                f"fold {k}: score {said}, a fit to its rows has {right}, and "
                f"{unsure.sum()} rows of {len(unsure)} are close"
            )


def fitted_to(best, p, weights):
    """The machine of these weights, and its relative gap."""
    one = clone(best).set_params(
        C=None, lam=best.lam_, class_weight=None, tol=1e-8, max_iter=500, n_jobs=1, average=False,
        solver="sdca",
    )  # fmt: skip
    is_kernel = hasattr(one, "gamma")
    if is_kernel:
        one.set_params(gamma=best.to_model().kernel["gamma"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one.fit(p.rows.X, p.y, sample_weight=weights)
    machine = kernel_machine(one, p.rows) if is_kernel else linear_machine(one, p.rows.dtype)
    return machine, (one.duality_gap_ / one.objective_).max()


def own_values(machine, p, test):
    """The square roots of K(x, x)."""
    if isinstance(machine, Linear):
        return np.sqrt((p.rows.values[test] ** 2).sum(axis=1))
    if machine.name == "precomputed":
        return np.sqrt(np.abs(np.diag(p.rows.values)[test]))
    X = p.rows.values[test]
    return np.sqrt([machine.values(x[None], x[None], 0.0)[0][0, 0] for x in X])


def winners(S, off, n_classes, multi_class):
    """The classes that win, and which rows may get another one where all scores change by `off`."""
    if n_classes == 2:
        return (S[:, 0] > 0).astype(int), np.abs(S[:, 0]) <= off
    if multi_class == "ovo":
        scores = votes(S, n_classes)
        top = np.sort(scores, axis=1)
        unsure = (np.abs(S) <= off[:, None]).any(axis=1) | (top[:, -1] - top[:, -2] < 0.67)
        return scores.argmax(axis=1), unsure
    top = np.sort(S, axis=1)
    return S.argmax(axis=1), top[:, -1] - top[:, -2] <= 2 * off


# ---- Kinds of cases: files -----------------------------------------------------------------------


def model_file(case):
    """A model's file with other bytes, or other arrays."""
    p = draw_problem(case, most=20)
    clf = make_estimator(case, p, is_kernel=case.chance(0.6))
    fit(case, clf, p)
    path = case.folder / "model.npz"
    case.call("save", lambda: clf.to_model().save(path), "cannot be saved without its kernel")
    case.may_be_refused("not a pegasos model|archive|corrupt|truncated")
    if case.chance(0.3):
        content = bytearray(path.read_bytes())
        for _ in range(case.integer(1, 3)):
            content[case.integer(0, len(content) - 1)] = case.integer(0, 255)
        path.write_bytes(content)
        case.note("bytes changed")
    else:
        with np.load(path) as archive:
            arrays = dict(archive)
        for _ in range(case.integer(1, 2)):
            edit_model(case, arrays)
        # With its seal, if files have one: the arrays themselves must be looked at.
        (np.savez if case.chance(0.2) else lambda f, **a: _archive.save(f, a))(path, **arrays)
    model = case.call("load", lambda: pegasos.load(path))
    machine = machine_of(model)
    d = model.n_features
    if d > 10**5:
        return
    case.scale, case.shift = 1.0, 0.0
    new = more_rows(case, d, csr_only=True)
    scores = case.call(
        f"decision_function({new.name})", lambda: model.decision_function(new.X),
        "overflow|too large|must be dense or CSR",
    )  # fmt: skip
    check_scores("loaded", scores, machine, new, len(model.classes), model.multi_class)


def edit_model(case, arrays):
    """Change an array of a model's file, mostly to one of the same shape and type."""
    name = case.pick(*sorted(arrays))
    array = arrays[name]
    if name == "about":
        about = json.loads(str(array))
        key = case.pick(*sorted(about), *(["kernel"] * 4 if "kernel" in about else []))
        if key == "kernel":
            field = case.pick(*sorted(about["kernel"]))
            value = case.pick(
                0,
                1,
                2,
                -1,
                10**5,
                2**61,
                1e300,
                float("nan"),
                None,
                "rbf",
                "poly",
                "laplacian",
                0.5,
            )
            about["kernel"][field] = value
            case.note(f"about['kernel'][{field!r}] = {value!r}")
        else:
            about[key] = case.pick(
                0, -1, 1e-310, "ovo", "ovr", [3, 2], [1, -1], [2**61, 2**61], None
            )
            case.note(f"about[{key!r}] = {about[key]!r}")
        arrays[name] = np.array(json.dumps(about))
        return
    how = case.pick("value", "value", "value", "type", "shape", "gone", "rows")
    case.note(f"{name} ({array.dtype} {array.shape}): {how}")
    if how == "value" and array.size:
        array = array.copy()
        choices = {"f": (0, -1, np.nan, np.inf, 1e308, 1e39), "i": (-1, 0, 1, 2**31 - 1, 2**62)}
        value = case.pick(*choices.get(array.dtype.kind, ("x", "")))
        with np.errstate(over="ignore"), contextlib.suppress(OverflowError, ValueError):
            array.flat[case.integer(0, array.size - 1)] = value
        case.note(f"  {value!r}")
    elif how == "type":
        kind = case.pick("f2", "f4", "f8", "i4", "i8", "u1", "c16", "U3", ">f8", "?")
        with np.errstate(all="ignore"), contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = array.astype(kind)
    elif how == "shape":
        array = array.reshape(
            case.pick((-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1])
        )
    elif how == "rows":
        array = array[: len(array) // 2] if array.ndim else array
    elif how == "gone":
        del arrays[name]
        return
    arrays[name] = array


def run_command(case, *arguments):
    """Exit code of `pegasos`, and what it wrote on standard error."""
    arguments = [str(a) for a in arguments]

    def run():
        try:
            return cli.main(arguments)
        except SystemExit as stop:
            return stop.code
        except Exception as error:
            raise Wrong(f"a traceback: {type(error).__name__}: {error}") from error

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = case.call(f"pegasos {' '.join(arguments)}", run)
    said = err.getvalue()
    if code not in (0, 2) or "Traceback" in said:
        raise Wrong(f"exit code {code}: {said}")
    if code == 2:
        line = said.strip().splitlines()[-1]
        if riddle := _RIDDLES.search(line):
            raise Wrong(f"a riddle, {riddle[0]!r}: {line}")
        if not any(excuse.search(line) for excuse in case._excuses):
            raise Wrong(f"refused without a reason: {line}")
        case.note(f"  refused: {line[:200]}")
        raise Refused(line)
    return out.getvalue()


def write_data(case, name, values, labels, format, base):
    """A file of rows; returns its path."""
    path = case.folder / name
    if format == "npz":
        if case.chance(0.5):
            np.savez(path, X=values, y=labels)
        else:
            S = sparse.csr_array(values)
            np.savez(path, data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=labels)
        return path
    lines = []
    for row, label in zip(values.tolist(), np.asarray(labels).tolist(), strict=True):
        if format == "csv":
            lines.append(",".join([*(repr(v) for v in row), str(label)]))
        else:
            entries = " ".join(f"{j + base}:{v!r}" for j, v in enumerate(row) if v != 0)
            lines.append(f"{label} {entries}".strip() + case.pick("", "", " # note"))
    content = ("\n".join(lines) + case.pick("\n", "")).encode()
    ending = case.pick("", "", ".gz", ".bz2")
    path = path.with_name(path.name + ending)
    path.write_bytes({".gz": gzip.compress, ".bz2": bz2.compress}.get(ending, bytes)(content))
    return path


def command(case):
    """`pegasos train` and `predict` on files, one of them from a pipe sometimes."""
    n, d, density = draw_shape(case, 40)
    d = min(d, 40)
    case.density = density
    values = draw_values(case, n, d, density)
    if case.scale != 1:
        case.scale, values = 1.0, np.round(values / case.scale, 3)
    values[0, 0] = values[0, -1] = 1.0
    codes = np.where(case.rng.random(n) < 0.1, 0, (values[:, 0] > 0) + (values[:, -1] > 1))
    codes[:2] = 0, 1
    format, base = case.pick("libsvm", "libsvm", "csv", "npz"), case.pick(0, 1)
    labels = (
        codes * 2 - 1
        if format == "libsvm" or case.chance(0.5)
        else np.array(["a", "b", "c"])[codes]
    )
    ending = {"libsvm": "svm", "csv": "csv", "npz": "npz"}[format]
    train = write_data(case, f"train.{ending}", values, labels, format, base)
    model_path, out = case.folder / "m.npz", case.folder / "out"
    options = ["--header", "no"] if format == "csv" else []
    if format == "libsvm" and case.chance(0.5):
        options += ["--n-features", d]
    if case.chance(0.4):
        options += ["--kernel", case.pick("linear", "poly", "rbf", "sigmoid", "laplacian")]
    options += case.pick([], ["--loss", case.pick(*LOSSES)])
    is_smooth = "--loss" in options and "hinge" not in options
    if is_smooth and ("poly" in options or "sigmoid" in options):
        case.may_be_refused("positive semi-definite")
    options += case.pick(
        [], ["--float32"], ["--solver", "newton"], ["--jobs", 2], ["--multi-class", "ovo"]
    )
    options += case.pick([], ["--n-steps", 20], ["--max-iter", 3], ["--average", "suffix"])
    if "newton" in options or "sdca" in options:
        case.may_be_refused("--n-steps needs")
    case.may_be_refused("--average goes with --solver pegasos or --n-steps")
    case.note(f"{format}, indices from {base}")
    for name, value in draw_regularisation(case).items():
        options += [f"--{name}", value]
    run_command(case, "train", train, "-o", model_path, "-q", *options)
    model = case.call("load", lambda: pegasos.load(model_path))
    if model.n_features != d:
        raise Wrong(f"the model has {model.n_features} features, the file has {d}")
    new = draw_values(case, case.pick(1, 3, 200), d, density, like=True)
    if case.chance(0.5):
        new[:, 0] = 0  # no index 0, or no first index
    given = (
        case.rng.integers(0, 2, len(new)) * 2 - 1
        if labels.dtype.kind == "i"
        else np.full(len(new), "a")
    )
    path = write_data(case, f"new.{ending}", new, given, format, base)
    predicted(case, model, new, path, out, format, "--float32" in options)


def predicted(case, model, new, path, out, format, narrow):
    """What `pegasos predict` writes, beside what NumPy says."""
    source, options = path, ["--format", format] if format != "npz" else []
    options += ["--header", "no"] if format == "csv" else []
    read = None
    plain = path.suffix not in (".gz", ".bz2") and path.stat().st_size < 30000
    if plain and os.path.exists("/dev/fd") and format != "npz" and case.chance(0.3):
        read, write = os.pipe()
        os.write(write, path.read_bytes())
        os.close(write)
        source = f"/dev/fd/{read}"
    try:
        run_command(case, "predict", model_path_of(case), source, "-o", out, "--scores", *options)
    finally:
        if read is not None:
            os.close(read)
    scores = np.loadtxt(out, ndmin=1, delimiter=",", skiprows=1)
    if model.loss in PROBABILITIES:
        predict = ["predict", model_path_of(case), path, "-o", out, "--proba"]
        run_command(case, *predict, *options)
        found = np.loadtxt(out, ndmin=2, delimiter=",", skiprows=1)
        expected = scores if len(model.classes) == 2 else scores.reshape(len(new), -1)
        check_probabilities(
            "--proba", found, expected, len(model.classes), model.multi_class, model.loss,
            eps=1e-7 * (1 + np.abs(scores).max()),
        )  # fmt: skip
    rows = Rows(None, new, np.dtype("f8"), path.name)
    shape = (len(new),) if len(model.classes) == 2 else (len(new), len(model.classes))
    if scores.size != np.prod(shape):
        raise Wrong(f"{scores.size} scores for {len(new)} rows")
    machine = machine_of(model)
    machine.eps = max(machine.eps, 1e-8)  # nine digits are written
    check_scores(
        "predict", scores.reshape(shape), machine, rows, len(model.classes), model.multi_class
    )


def model_path_of(case):
    return case.folder / "m.npz"


def checkpoint(case):
    """A checkpoint with other numbers in its state, from which a fit is to go on."""
    n, d = case.pick(60, 150), case.pick(2, 5, 40)
    case.density = case.pick(1.0, 0.1)
    case.scale, case.shift = 1.0, 0.0
    X = draw_values(case, n, d, case.density, like=True)
    codes = case.rng.integers(0, case.pick(2, 3), n)
    codes[:3] = [0, 1, codes.max()]
    path, file = case.folder / "data.npz", case.folder / "c.npz"
    S = sparse.csr_array(X)
    dense = (
        {"X": X}
        if case.chance(0.5)
        else {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": S.shape}
    )
    np.savez(path, y=codes, **dense)
    loss = case.pick(*LOSSES)
    lam, regularisation = case.pick((1e-3, ["--lam", "1e-3"]), (2 / n, ["--C", "0.5"]))
    options = ["-q", *regularisation, "--loss", loss, "--max-iter", case.pick(20, 100),
               "--tol", case.pick("none", "1e-9"),
               "--solver", case.pick("auto", "pegasos", "sdca", "newton"),
               "--intercept", case.pick("none", "penalized", "free"), "--jobs", case.pick(1, 2),
               "--multi-class", case.pick("ovr", "ovo")]  # fmt: skip
    if "pegasos" in options:
        options += ["--average", case.pick("none", "all", "suffix")]
        options += ["--batch-size", case.pick(1, 3)]
    if case.chance(0.4):
        options += ["--kernel", case.pick("rbf", "linear")]
    train = ["train", path, "-o", model_path_of(case), *options]
    run_command(case, *train, "--checkpoint", file, "--checkpoint-every", "1e-4")
    if not file.exists():
        case.note("no checkpoint was due")
        return
    with np.load(file) as archive:
        arrays = dict(archive)
    for _ in range(case.pick(1, 1, 2, 5)):
        edit_state(case, arrays)
    _archive.save(file, arrays)
    case.may_be_refused("checkpoint|model|archive|overflow|state")
    run_command(case, *train, "--resume", file)
    model = case.call("load", lambda: pegasos.load(model_path_of(case)))
    rows = Rows(None, X, np.dtype("f8"), "data")
    intercept = options[options.index("--intercept") + 1]
    settings = {
        "fit_intercept": intercept != "none", "penalize_intercept": intercept != "free",
        "intercept_scaling": 1.0, "multi_class": model.multi_class, "loss": loss,
    }  # fmt: skip
    if "ovo" in options:
        lam = model.lam
    said = {"lam": lam, "objective": model.objective, "dual_objective": model.dual_objective}
    check_certificate(
        "resumed", machine_of(model), rows, codes, np.ones(n), len(model.classes), settings, said
    )


def edit_state(case, arrays):
    """Change a number of the state, or take an array away, or bring one."""
    names = [name for name in sorted(arrays) if name.startswith("state.")]
    if "state.problems" in names:
        names += ["state.problems"] * 4
    name = case.pick(*names)
    if case.chance(0.1):
        case.note(f"{name} taken away")
        del arrays[name]
        return
    array = arrays[name] = arrays[name].copy()
    part = array
    field = ""
    if array.dtype.names:
        field = case.pick(*array.dtype.names)
        part = array[field]
    if not part.size:
        return
    numbers = (0, 1, 2, -1, 3, 1000, 2**31 - 1, 2**32, 2**61, 2**62 - 1, 2**63 - 1)
    if part.dtype.kind == "f":
        numbers = (*numbers, 0.5, 1e-300, 1e300, 1.7e308, -1e300, np.inf, -np.inf, np.nan)
    value = case.pick(*numbers)
    places = slice(None) if case.chance(0.2) else case.integer(0, part.size - 1)
    case.note(f"{name} {field} {part.dtype} {part.shape} [{places}] = {value!r}")
    with np.errstate(all="ignore"), contextlib.suppress(OverflowError, ValueError):
        part.flat[places] = value


# ---- Running -------------------------------------------------------------------------------------


def regression(case):
    """A regressor, a search over them or `pegasos.fit`: predictions of new rows, also of a file."""
    is_kernel, is_search, is_plain = case.chance(0.5), case.chance(0.3), case.chance(0.3)
    is_plain &= not (is_kernel or is_search)
    rows = draw_rows(case, csr_only=is_plain)
    options, d = draw_options(case), rows.values.shape[1]
    del options["multi_class"]
    loss = case.pick("epsilon_insensitive", "squared_epsilon_insensitive", "huber", "squared_error")
    options |= {"loss": loss, "n_jobs": case.pick(None, 1, 2)}
    epsilons = case.pick([0.1], [0.0], [1e-7], [0.5, 1e-3])
    if loss == "huber" and 0.0 in epsilons:
        case.may_be_refused("epsilons? of loss='huber'")
    if is_kernel:
        options |= draw_kernel(case, d)
        if options["kernel"] == "precomputed":
            options["kernel"] = "rbf"
        if loss != "epsilon_insensitive" and options["kernel"] not in (
            "rbf",
            "linear",
            "laplacian",
        ):
            case.may_be_refused("positive semi-definite")
    if case.scale > 100 or (is_kernel and options["kernel"] == "poly"):
        case.may_be_refused("overflow|too large|finite|too small for loss")
    if is_search:
        options |= {"Cs": case.pick(2, [0.1, 1.0]), "epsilons": epsilons, "cv": case.pick(2, 3)}
        options["cv_effort"] = case.pick("auto", 3, 0.05)
        options["scoring"] = case.pick(None, "r2", "neg_mean_absolute_error")
        case.may_be_refused("R² needs 2 rows")
        if is_kernel:
            options["gammas"] = [options.pop("gamma")]
    else:
        options |= draw_regularisation(case) | {"epsilon": epsilons[0]}
    name = f"{'Kernel' * is_kernel}PegasosRegressor{'CV' * is_search}"
    Y = case.rng.normal(size=(len(rows), case.pick(1, 1, 2, 4))) * case.pick(1.0, 1e-8, 1e5)
    Y *= 10 ** case.rng.uniform(-3, 3, Y.shape[1]) if case.chance(0.5) else 1
    y = Y[:, 0] if case.chance(0.5) else Y
    weights = case.rng.uniform(0.2, 3, len(Y)) if case.chance(0.3) else None
    reg = getattr(pegasos, name)(**options)
    what = f"{told(reg)}.fit({rows.name}, y of {y.shape})"
    given = rows.X, y, weights
    if is_search and not is_kernel and case.chance(0.5):
        case.may_be_refused(r"bytes is too little for|need solver='auto'|cv[=:]|n_splits")
        memory, cache = case.pick(6000, 20_000, 10**7), f"{case.folder}/blocks"
        y = y[:, 0] if Y.shape[1:] == (1,) and y.ndim == 2 else y  # a column is one output there
        make = functools.partial(pegasos.Blocks, (for_blocks(rows), y, weights), memory=memory)
        given = (case.call(f"Blocks({memory=})", lambda: make(cache=cache)),)
    case.call(what, lambda: reg.fit(*given))
    new = more_rows(case, d)
    found = case.call(f"predict({new.name})", lambda: reg.predict(new.X))
    if is_plain:
        others = {name: v for name, v in options.items() if name not in ("C", "lam", "n_jobs")}
        fit = functools.partial(pegasos.fit, rows.X, y, reg.lam_, sample_weight=weights, **others)
        model = case.call(f"pegasos.fit({rows.name}, y of {y.shape}, {others})", fit)
        if not np.array_equal(model.coef, np.atleast_2d(reg.coef_)):
            raise Wrong("pegasos.fit has another model")
    if found.shape != (len(new), *y.shape[1:]) or not np.isfinite(found).all():
        raise Wrong(f"predict: shape {found.shape}, or not finite")
    if not is_kernel:
        w, b = np.atleast_2d(reg.coef_), reg.intercept_
        size = np.abs(new.values) @ np.abs(w.T) + np.abs(b)
        if (np.abs(found.reshape(len(new), -1) - new.values @ w.T - b) > 1e-12 * size).any():
            raise Wrong("predict: other numbers than those of coef_ and intercept_")
    if hasattr(reg, "objective_") and not (np.nan_to_num(reg.duality_gap_) >= 0).all():
        raise Wrong(f"gaps below 0: {reg.duality_gap_}")
    path = case.folder / "model.npz" if hasattr(case.folder, "joinpath") else f"{case.folder}/m.npz"
    case.call("save", lambda: reg.to_model().save(path), "cannot be saved without its kernel")
    again = case.call("load and predict", lambda: pegasos.load(path).predict(dense_of(new)))
    size = np.abs(found).max(initial=0) + np.abs(reg.intercept_).max()
    close = 1e-4 if is_kernel else 1e-12
    if not np.allclose(again, found, rtol=close, atol=close * size):
        raise Wrong("a model file predicts other numbers")


def joint(case):
    """Crammer and Singer's problem, with costs or without them, and calls after the fit."""
    p, options = draw_problem(case), {}
    if case.chance(0.5):
        cost = case.rng.uniform(0, 3, (len(p.classes),) * 2)
        np.fill_diagonal(cost, 0)
        options["cost"] = case.pick(cost, cost.tolist(), cost.astype("f4"))
        if len(p.classes) < 2:
            case.may_be_refused("cost")
    if (1 + p.rows.values.shape[1]) * len(p.classes) > 2000:
        case.may_be_refused("solver='newton' takes up to 2000 coefficients and intercepts")
    clf = make_estimator(
        case, p, is_kernel=False, multi_class="crammer_singer", loss="hinge",
        warm_start=case.chance(0.4), **options,
    )  # fmt: skip
    fit_and_predict(case, clf, p)
    # Of other settings.
    case.may_be_refused("cost needs multi_class|solver must not change between Pegasos and")
    for _ in range(case.integer(0, 2)):
        step = case.pick(failing_refit, other_settings, edited_attributes, copied)
        if not step(case, clf, p):
            return


@np.errstate(all="ignore")
def check_columns(what, found, machine, rows, near=0.0):
    """Raise unless scores, a column for each problem, are those of NumPy."""
    S, bound = machine.scores(rows.values, eps_of(rows.dtype) if rows.dtype == "f4" else 0.0)
    if found.shape != S.shape or found.dtype != np.float64:
        raise Wrong(f"{what}: scores of {found.dtype} {found.shape}, not float64 {S.shape}")
    sure = np.isfinite(S) & np.isfinite(bound)
    off = ~(np.abs(found - S) <= bound + near + 1e-300) & sure
    if off.any():
        i = int(np.argmax(off.any(axis=1)))
        raise Wrong(f"{what}: row {i} of {len(S)} has scores {found[i]}, should have {S[i]}")


def several_labels(case):
    """A y of zeros and ones in columns, also of a search: scores, labels, probabilities, files."""
    rows, is_kernel, is_search = draw_rows(case), case.chance(0.5), case.chance(0.3)
    options, n_labels = draw_options(case), case.pick(2, 3, 6)
    Y = case.rng.integers(0, 2, (len(rows), n_labels))
    if case.chance(0.2):
        Y[:, 0] = case.pick(0, 1)
    y = case.pick(
        lambda Y: Y, lambda Y: Y.astype(bool), lambda Y: Y.astype("f8"), sparse.csr_array,
        np.asfortranarray, lambda Y: Y.tolist(),
    )(Y)  # fmt: skip
    weights = case.rng.integers(0, 3, len(Y)) * 0.5 if case.chance(0.3) else None
    if weights is not None and not weights.any():
        weights[0] = 1
    options |= draw_regularisation(case) | {"n_jobs": case.pick(None, 1, 2)}
    if is_kernel:
        options |= draw_kernel(case, rows.values.shape[1])
        if options["kernel"] == "precomputed":
            options["kernel"] = "rbf"
        allow_no_minimum(case, options)
    if case.scale > 100:
        case.may_be_refused("overflow|too large|finite")
    if is_search:
        for name in ("lam", "C", "n_steps"):
            options.pop(name, None)
        options |= {"cv": case.pick(2, 3), case.pick("lams", "Cs"): case.pick([0.1], [0.03, 1.0])}
        options |= {"cv_effort": case.pick("auto", 3, 0.05), "scoring": case.pick(None, "f1_macro")}
        if is_kernel:
            options["gammas"] = [options.pop("gamma")]
        case.may_be_refused("cv|fold|split|test on|at least one non-zero number")
    name = f"{'Kernel' * is_kernel}PegasosClassifier{'CV' * is_search}"
    clf = getattr(pegasos, name)(**options)
    what = f"{told(clf)}.fit({rows.name}, y of {n_labels} columns, {type(y).__name__})"
    case.call(what, lambda: clf.fit(rows.X, y, sample_weight=weights))
    clf = clf.best_estimator_ if is_search else clf
    machine = kernel_machine(clf, rows) if is_kernel else linear_machine(clf, rows.dtype)
    if hasattr(clf, "objective_"):
        for k in range(n_labels):
            told_k = {"lam": clf.lam_, "objective": clf.objective_[[k]],
                      "dual_objective": clf.dual_objective_[[k]]}  # fmt: skip
            one = dataclasses.replace(
                machine, intercept=machine.intercept[[k]],
                **({"dual_coef": machine.dual_coef[[k]]} if is_kernel
                   else {"coef": machine.coef[[k]]}),
            )  # fmt: skip
            total = np.ones(len(Y)) if weights is None else weights
            check_certificate(f"label {k}", one, rows, Y[:, k], total, 2, clf.get_params(), told_k)
    new = more_rows(case, rows.values.shape[1])
    scores = case.call(f"decision_function({new.name})", lambda: clf.decision_function(new.X))
    few = dataclasses.replace(new, values=new.values[:80])
    check_columns("decision_function", scores[:80], machine, few)
    found = case.call("predict", lambda: clf.predict(new.X))
    if sparse.issparse(found) != sparse.issparse(y):
        raise Wrong(f"predict returns {type(found).__name__}, y was {type(y).__name__}")
    found = found.toarray() if sparse.issparse(found) else found
    if not np.array_equal(found, scores > 0):
        raise Wrong("predict: labels are not those of the scores")
    if clf.loss in PROBABILITIES:
        found = case.call("predict_proba", lambda: clf.predict_proba(new.X))
        if not np.allclose(found, PROBABILITIES[clf.loss](scores), rtol=0, atol=1e-12):
            raise Wrong("predict_proba: not those of the scores")
    _same_after_files(case, clf, new, scores)


def _same_after_files(case, clf, new, scores):
    """A model that was saved, or pickled, gives these scores."""
    again = pickle.loads(pickle.dumps(clf))
    same_bits(case, "unpickled", lambda: again.decision_function(new.X), scores)
    path, X = case.folder / "model.npz", dense_of(new)
    case.call("save", lambda: clf.to_model().save(path), "cannot be saved without its kernel")
    found = case.call("load and score", lambda: pegasos.load(path).decision_function(X))
    close = 1e-12 if isinstance(clf, pegasos.PegasosClassifier | pegasos.PegasosOneClass) else 1e-4
    size = np.abs(scores).max(initial=0) + np.abs(clf.intercept_).max()
    if hasattr(clf, "coef_"):  # terms of sums, which sparse and dense rows add up in other orders
        size += (np.abs(X) @ np.abs(np.atleast_2d(clf.coef_)).T).max(initial=0)
    if not np.allclose(found, scores, rtol=close, atol=close * size, equal_nan=True):
        raise Wrong("the loaded model scores otherwise")


def one_class(case):
    """Machines of one class: certificate, scores, sides, files, and a fit that goes on."""
    rows, is_kernel = draw_rows(case), case.chance(0.5)
    options, d = draw_options(case), rows.values.shape[1]
    for name in ("loss", "fit_intercept", "penalize_intercept", "intercept_scaling", "multi_class"):
        del options[name]
    options |= {"nu": float(case.pick(0.5, 1.0, 1e-3, case.rng.uniform(0.01, 1)))}
    options |= {"n_jobs": case.pick(None, 1, 2), "warm_start": case.chance(0.4)}
    if is_kernel:
        options |= draw_kernel(case, d)
        if options["kernel"] == "precomputed":
            options["kernel"] = "rbf"
    if case.scale > 100 or (is_kernel and options["kernel"] == "poly"):
        case.may_be_refused("overflow|too large|finite")
    weights = np.ones(len(rows))
    if case.chance(0.3):
        weights = case.rng.integers(0, 3, len(rows)) * 0.5
        if not weights.any():
            case.may_be_refused("sample_weight must not be all zero")
    one = getattr(pegasos, f"{'Kernel' * is_kernel}PegasosOneClass")(**options)

    @np.errstate(all="ignore")
    def fitted():
        what = f"{told(one)}.fit({rows.name})"
        case.call(what, lambda: one.fit(rows.X, sample_weight=weights))
        machine = kernel_machine(one, rows) if is_kernel else linear_machine(one, rows.dtype)
        if hasattr(one, "objective_"):
            check_one_class(one, machine, rows, weights / weights.sum())
        return machine

    machine, new = fitted(), more_rows(case, d)
    if one.warm_start and case.chance(0.5):
        one.set_params(max_iter=one.max_iter + 3)
        machine = fitted()
    scores = case.call(f"decision_function({new.name})", lambda: one.decision_function(new.X))
    few = dataclasses.replace(new, values=new.values[:80])
    b = abs(one.offset_[0])
    check_columns("decision_function", scores[:80, None], machine, few, near=1e-6 * b)
    found = case.call("predict", lambda: one.predict(new.X))
    if not np.array_equal(found, np.where(scores >= 0, 1, -1)):
        raise Wrong("predict: sides are not those of the scores")
    above = case.call("score_samples", lambda: one.score_samples(new.X)) - one.offset_
    if not np.allclose(above, scores, rtol=1e-12, atol=1e-15 * b):
        raise Wrong("score_samples are not decision_function above offset_")
    _same_after_files(case, one, new, scores)


def check_one_class(one, machine, rows, c):
    """Raise unless the certificate is true: P summed again, and no scaled model below the bound."""
    f, bound = (a[:, 0] for a in machine.scores(rows.values))
    norm, norm_error = (a[0] for a in machine.squared_norms())
    nu, b = one.nu, one.intercept_[0]

    def primal(r):
        return nu / 2 * r * r * norm + c @ np.maximum(0, -r * f) + nu * r * b

    P, dual = one.objective_[0], one.dual_objective_[0]
    error = nu / 2 * norm_error + c @ bound + 1e-9 * nu * (abs(norm) + abs(b))
    error += 1e-12 * nu * one._fitted["units"][0]  # of P', in which training counts
    if not np.isfinite(error):
        return
    if np.isfinite(P) and abs(P - primal(1.0)) > 2 * error:
        raise Wrong(f"objective {P}, should be {primal(1.0)} +- {error}")
    least = min(primal(r) for r in (0, 0.1, 0.5, 0.9, 1.1, 2.0))
    if np.isfinite(dual) and dual > least + 2 * error:
        raise Wrong(f"a point of objective {least}, below the dual objective {dual} +- {error}")


def for_blocks(rows):
    """Rows as `Blocks` take them."""
    X = rows.X
    return X if isinstance(X, np.ndarray) or sparse.issparse(X) else rows.values


def on_blocks(case):
    """A fit of rows on disk, in memory for all of them or for few."""
    p = draw_problem(case)
    dtype, memory = case.pick("float32", "float64"), case.pick(6000, 20_000, 60_000, 10**7)
    solver = case.pick("auto", "sdca", "sdca", "newton")
    clf = make_estimator(case, p, is_kernel=False, solver=solver, n_steps=None)
    case.may_be_refused(r"bytes is too little for|need solver='auto' or 'sdca'")
    X, weights = for_blocks(p.rows), None if p.sample_weight is None else p.weights
    source = X, np.asarray(p.y), weights
    if case.chance(0.3):
        n = case.integer(1, len(p.codes))
        parts = [slice(k, k + n) for k in range(0, len(p.codes), n)]
        X = sparse.csr_array(p.rows.values) if sparse.issparse(X) else X
        pieces = [(X[s], source[1][s], None if weights is None else weights[s]) for s in parts]
        source = lambda: iter(pieces)
    if case.scale > 1e15 or dtype == "float32":
        case.may_be_refused("overflow|too large|finite|infinity")
    make = functools.partial(pegasos.Blocks, source, cache=case.folder / "blocks", dtype=dtype)
    blocks = case.call(f"Blocks({p.told()}, {memory=}, {dtype=})", lambda: make(memory=memory))
    Z, z, c = blocks.in_memory()
    codes = np.searchsorted(p.classes, z)
    c = np.ones(len(z)) if c is None else c
    factors = np.ones(len(p.classes))
    for k, own, total in zip(p.codes, p.weights, p.total, strict=True):
        factors[k] = total / own if own > 0 else factors[k]
    values = Z.toarray() if sparse.issparse(Z) else Z
    rows = Rows(Z, values.astype(np.float64), np.dtype(dtype), "blocks")
    q = Problem(rows, z, p.classes, codes, c, c, p.class_weight, c * factors[codes])
    case.call(f"{told(clf)}.fit(blocks)", lambda: clf.fit(blocks))
    machine = check_fit(case, clf, q)
    scores = case.call("decision_function(blocks)", lambda: clf.decision_function(blocks))
    check_scores("decision_function", scores, machine, rows, len(p.classes), clf.multi_class)
    again = case.call("Blocks", lambda: make(memory=memory))
    same_bits(case, "again", lambda: clone(clf).fit(again).coef_, clf.coef_)
    if case.chance(0.5):
        search_of_blocks(case, blocks, q, solver)


def search_of_blocks(case, blocks, p, solver):
    """A search; of rows larger than memory, row i is tested in fold i modulo `cv`."""
    options = draw_options(case) | draw_search(case, p, is_kernel=False)
    options |= {"solver": solver, "cv": case.pick(2, 3), "n_steps": None}
    case.may_be_refused("cv[=:]|leaves|test on|test rows|at least one non-zero number|n_splits")
    case.may_be_refused("must be None or a name with Blocks")
    if options["loss"] in PROBABILITIES and case.chance(0.2):
        options["scoring"] = "neg_log_loss"
        case.may_be_refused("y_true|labels|y_pred|y_prob")
    if case.chance(0.4):  # so that the scores are known
        options |= {"scoring": None, "refit": True, "penalize_intercept": True, "max_iter": 500}
        options["cv_effort"] = case.pick(1e-5, 1e-7)
    clf = pegasos.PegasosClassifierCV(**{case.pick("lams", "Cs"): [0.2, 0.03]}, **options)
    case.call(f"{told(clf)}.fit(blocks)", lambda: clf.fit(blocks))
    if not _block_schedule.fit_into_memory(blocks):
        k = np.arange(len(p.codes)) % clf.cv
        clf.set_params(cv=[np.nonzero(k != j) + np.nonzero(k == j) for j in range(clf.cv)])
    check_search(case, clf, p)


def dense_of(rows):
    """Rows as a plain array in the type in which they are worked on."""
    return rows.values.astype(rows.dtype)


KINDS = {
    "linear fit": (linear_fit, 5),
    "kernel fit": (kernel_fit, 6),
    "functional": (functional, 3),
    "sequence": (sequence, 5),
    "search": (search, 5),
    "model file": (model_file, 3),
    "command": (command, 2),
    "checkpoint": (checkpoint, 3),
    "regression": (regression, 4),
    "joint": (joint, 3),
    "several labels": (several_labels, 2),
    "one class": (one_class, 3),
    "on blocks": (on_blocks, 2),
}


def kind_of(seed, kinds=KINDS):
    """The kind of case that a seed names."""
    names = [name for name, (_, share) in kinds.items() for _ in range(share)]
    return names[np.random.default_rng([seed, 1]).integers(len(names))]


def run(seed, told=lambda line: None, kinds=KINDS):
    """Run one case; returns its kind, "answered", "refused" or "WRONG", and a message."""
    kind = kind_of(seed, kinds)
    with tempfile.TemporaryDirectory() as folder:
        case = Case(seed, folder)
        case.note = lambda line, log=case.log: (log.append(line), told(line))
        try:
            kinds[kind][0](case)
        except Refused as refusal:
            return kind, "refused", str(refusal)
        except Wrong as wrong:
            return kind, "WRONG", str(wrong)
        except Exception:  # noqa: BLE001 of this program, or of what it thought cannot fail
            return kind, "WRONG", traceback.format_exc(limit=-4)
    return kind, "answered", ""


def work(first, stop, kinds=KINDS):
    """Run cases one after the other, and tell each as a line of JSON."""
    for seed in range(first, stop):
        print(json.dumps([seed, None, None, None]), flush=True)
        print(json.dumps([seed, *run(seed, kinds=kinds)]), flush=True)


class Hunt:
    """Runs cases in processes of their own, and counts what came of them.

    `file` is the program that runs cases of these `kinds`.
    """

    def __init__(self, first, *, seconds=np.inf, stop=2**62, file=__file__, kinds=KINDS):
        self.next, self.stop, self.until = first, stop, time.monotonic() + seconds
        self.counts, self.failures = Counter(), []
        self.program, self.kinds = [sys.executable, file], kinds

    def run(self):
        while self.next < self.stop and time.monotonic() < self.until:
            self._batch()
        return self

    def _batch(self):
        first, last = self.next, min(self.next + _BATCH, self.stop)
        command = [*self.program, "--from", str(self.next), "--to", str(last)]
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            lines = queue.Queue()
            reader = threading.Thread(target=self._read, args=(process.stdout, lines), daemon=True)
            reader.start()
            begun, has_ended = self._follow(lines)
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()
            errors.seek(0)
            if begun is not None:
                told = f"exit code {process.returncode}", f"no answer in {_PATIENCE} s"
                what = told[0] if has_ended else told[1]
                self._count(begun, "crash", "CRASH", f"{what}\n{_last(errors.read())}")
            elif self.next == first and time.monotonic() < self.until:
                raise RuntimeError(f"no case was run: {errors.read()}")

    def _follow(self, lines):
        """Hear what a process tells.

        Returns the case that it has not come back from, or None, and whether it tells no more.
        """
        begun = None
        while begun is not None or time.monotonic() < self.until:
            try:
                line = lines.get(timeout=None if begun is None else _PATIENCE)
            except queue.Empty:
                return begun, False
            if line is None:
                return begun, True
            seed, kind, outcome, message = json.loads(line)
            begun = seed if outcome is None else None
            if outcome is not None:
                self._count(seed, kind, outcome, message)
        return None, False

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put(None)

    def _count(self, seed, kind, outcome, message):
        self.next = seed + 1
        self.counts[kind, outcome] += 1
        if outcome not in ("answered", "refused"):
            self.failures.append(seed)
            print(f"seed {seed}, {kind}: {outcome}\n  {message.strip()}", flush=True)

    def report(self):
        for kind in (*self.kinds, "crash"):
            told = {o: self.counts[k, o] for k, o in sorted(self.counts) if k == kind}
            print(f"{kind:12}", ", ".join(f"{count} {outcome}" for outcome, count in told.items()))
        print(f"{sum(self.counts.values())} cases, {len(self.failures)} failures")
        if self.failures:
            print("seeds:", *self.failures)


def _last(errors):
    """What a sanitizer or Python said last."""
    at = max(errors.rfind("ERROR: AddressSanitizer"), errors.rfind("runtime error"))
    if at < 0:
        return errors[-1500:]
    return "\n".join(errors[errors.rfind("\n", 0, at) + 1 :].splitlines()[:14])


def main(arguments, about=__doc__, file=__file__, kinds=KINDS):
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--calls", type=float, metavar="SECONDS", help="run cases for so long")
    parser.add_argument("--seed", type=int, default=0, help="the case, or the first of many")
    parser.add_argument("--from", type=int, dest="first", help=argparse.SUPPRESS)
    parser.add_argument("--to", type=int, dest="stop", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.first is not None:
        work(options.first, options.stop, kinds)
        return 0
    if options.calls is None:
        kind, outcome, message = run(options.seed, lambda line: print(line, flush=True), kinds)
        print(f"{kind}: {outcome}\n{message}")
        return int(outcome == "WRONG")
    hunt = Hunt(options.seed, seconds=options.calls, file=file, kinds=kinds).run()
    hunt.report()
    return int(bool(hunt.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
