"""Bad input is refused with a sentence that names what is wrong, and never crashes.

One table, grouped by what is called: the call, the exception, and what its message must say.
"""

import bz2
import contextlib
import datetime
import gzip
import importlib
import io
import json
import pickle
import subprocess
import sys
import zipfile
from fractions import Fraction

import numpy as np
import pandas as pd
import paper
import pytest
from rows import LAYOUTS, convert, make_rows
from scipy import sparse
from seal import seal
from sklearn import base

import pegasos
from pegasos import cli
from pegasos._extras import needed_by
from pegasos.io import _archive, _readers
from pegasos.problems import _multiclass

GOOD = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [1.0, 1.0]])
LABELS = [0, 1, 0, 1]
HUGE = np.finfo(np.float64).max / 4

LINEAR = paper.linear(lam=0.1, random_state=0).fit(GOOD, LABELS)
KERNEL = paper.kernel(lam=0.1, gamma=0.5, random_state=0).fit(GOOD, LABELS)
MODEL, KERNEL_MODEL = LINEAR.to_model(), KERNEL.to_model()


def csr(make=sparse.csr_array, **changes):
    """GOOD as CSR, or another format, with broken parts."""
    X = make(GOOD)
    for name, change in changes.items():
        setattr(X, name, change(getattr(X, name).copy()))
    return X


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


def with_value(value, at=(2, 1)):
    X = GOOD.copy()
    X[at] = value
    return X


CASES = []


def refused(group, what, call, error, message):
    """Add a case; `call` is given a folder."""
    CASES.append(pytest.param(call, error, message, id=f"{group}: {what}"))


# ---- Rows: whatever takes X --------------------------------------------------------------------

TAKE_ROWS = {
    "fit": lambda X: paper.fit(X, LABELS, 0.1),
    "PegasosClassifier.fit": lambda X: paper.linear().fit(X, LABELS),
    "PegasosClassifier.partial_fit": lambda X: paper.linear().partial_fit(
        X, LABELS, classes=[0, 1]
    ),
    "KernelPegasosClassifier.fit": lambda X: paper.kernel(gamma=1.0).fit(X, LABELS),
    "PegasosClassifierCV.fit": lambda X: pegasos.PegasosClassifierCV(lams=2, cv=2).fit(X, LABELS),
    "KernelPegasosClassifierCV.fit": lambda X: pegasos.KernelPegasosClassifierCV(lams=2, cv=2).fit(
        X, LABELS
    ),
    "decision_function": lambda X: pegasos.decision_function(MODEL, X),
    "LinearModel.predict": lambda X: MODEL.predict(X),
    "KernelModel.predict": lambda X: KERNEL_MODEL.predict(X),
    "PegasosClassifier.predict": lambda X: LINEAR.predict(X),
    "KernelPegasosClassifier.decision_function": lambda X: KERNEL.decision_function(X),
}

ROWS = {
    "NaN": (with_value(np.nan), ValueError, r"X must be finite.*X\[2, 1\] is nan: .*SimpleImputer"),
    "infinity": (with_value(np.inf), ValueError, r"X must be finite.*X\[2, 1\] is inf$"),
    "minus infinity": (with_value(-np.inf), ValueError, r"X\[2, 1\] is -inf"),
    "float32 NaN": (
        with_value(np.nan).astype(np.float32), ValueError, r"X must be finite.*X\[2, 1\] is nan",
    ),
    "long double beyond float64": (
        np.array(GOOD, np.longdouble) * np.longdouble("1e4000"), ValueError, r"X must be finite",
    ),
    "one dimension": (GOOD[0], ValueError, r"X must be two-dimensional.*\(2,\)"),
    "three dimensions": (GOOD[None], ValueError, r"X must be two-dimensional.*\(1, 4, 2\)"),
    "a number": (3.0, ValueError, r"X must be two-dimensional.*\(\)"),
    "None": (None, ValueError, r"X must be two-dimensional"),
    "rows of different lengths": (
        [[0, 1], [1]], ValueError, r"X must hold numbers, in rows of one length",
    ),
    "no rows": (np.empty((0, 2)), ValueError, r"X must have at least one row"),
    "no columns": (np.empty((4, 0)), ValueError, r"X must have at least one row and one column"),
    "complex": (GOOD + 1j, ValueError, r"X must be real.*complex"),
    "objects": (np.array([[object()] * 2] * 4), TypeError, r"X must.*float64|float\(\) argument"),
    "huge whole numbers": (np.array([[10**400, 1]] * 4), ValueError, r"X must hold numbers"),
    "strings": (np.array([["a", "b"]] * 4), TypeError, r"X must be numeric.*<U1"),
    "dates": (np.full((4, 2), "2020-01-01", "M8[D]"), TypeError, r"X must be numeric.*datetime64"),
    "records": (np.zeros((4, 2), "f8,f8"), TypeError, r"X must be numeric"),
    "masked": (np.ma.masked_less(GOOD, 0.5), ValueError, r"X must not have masked values"),
    "sparse NaN": (csr(data=put(0, np.nan)), ValueError, r"X must be finite.*X\[0, 1\] is nan"),
    "sparse infinity": (csr(data=put(1, np.inf)), ValueError, r"X must be.*X\[1, 0\] is inf"),
    "sparse complex": (sparse.csr_array(GOOD + 1j), ValueError, r"must be real.*complex"),
    "index too large": (csr(indices=put(1, 2)), ValueError, r"X\.indices .*\[0, 2\).*contains 2"),
    "index far too large": (csr(indices=put(1, 10**9)), ValueError, r"contains 1000000000"),
    "index negative": (csr(indices=put(2, -1)), ValueError, r"X\.indices.*contains -1"),
    "indptr decreasing": (csr(indptr=put(2, 0)), ValueError, r"indptr must never decrease.*1 to 0"),
    "indptr not from zero": (csr(indptr=put(0, 1)), ValueError, r"indptr must begin with 0, got 1"),
    "indptr negative": (csr(indptr=put(1, -5)), ValueError, r"indptr must never decrease"),
    "indptr past the end": (csr(indptr=put(-1, 99)), ValueError, r"at least X\.indptr\[-1\] = 99"),
    "indptr too short": (
        csr(indptr=lambda p: p[:-1]), ValueError, r"indptr must have 5 entries.*got 4",
    ),
    "indptr too long": (
        csr(indptr=lambda p: np.append(p, p[-1])), ValueError, r"must have 5 entries.*got 6",
    ),
    "indptr empty": (csr(indptr=lambda p: p[:0]), ValueError, r"indptr must have 5 entries.*got 0"),
    "data too short": (csr(data=lambda v: v[:-1]), ValueError, r"X\.data must have at least"),
    "indices too short": (
        csr(indices=lambda v: v[:-1]), ValueError, r"X\.indices must have at least",
    ),
    "data of two dimensions": (
        csr(data=lambda v: v[:, None]), ValueError, r"X\.data must be a one-dimensional",
    ),
    "indices not whole": (
        csr(indices=lambda v: v.astype(float)), ValueError, r"X\.indices must be.*of integers",
    ),
    "indptr not whole": (
        csr(indptr=lambda v: v.astype(float)), ValueError, r"X\.indptr must be.*of integers",
    ),
}  # fmt: skip

for _what, (_X, _error, _message) in ROWS.items():
    for _name, _take in TAKE_ROWS.items():
        refused(_name, f"X, {_what}", lambda _, t=_take, X=_X: t(X), _error, _message)


def broken(make, name, change):
    """GOOD in another sparse format, with a broken part."""
    X = make(GOOD)
    change(X) if name is None else setattr(X, name, change(getattr(X, name).copy()))
    return X


def coo_of(row, column):
    """A COO matrix whose first entry claims to be elsewhere."""
    X = sparse.coo_array(GOOD)
    X.coords[0][0], X.coords[1][0] = row, column
    return X


def lil_of(columns):
    """A LIL matrix whose first row claims to have these columns."""
    X = sparse.lil_array(GOOD)
    X.rows[0] = columns
    return X


OTHER_FORMATS = {
    "CSC, index": (csr(sparse.csc_array, indices=put(0, 77)), r"X\.indices.*contains 77"),
    "CSC, indptr": (csr(sparse.csc_array, indptr=put(1, 9)), r"X\.indptr must never decrease"),
    "CSC, NaN": (csr(sparse.csc_array, data=put(0, np.nan)), r"X\[1, 0\] is nan"),
    "BSR, index": (csr(sparse.bsr_array, indices=put(0, 77)), r"X\.indices.*contains 77"),
    "BSR, blocks": (csr(sparse.bsr_array, data=lambda v: v[:-1]), r"X\.data must have at least"),
    "COO, row": (coo_of(77, 0), r"X\.coords\[0\] must be in \[0, 4\), but contains 77"),
    "COO, negative row": (coo_of(-1, 0), r"X\.coords\[0\].*contains -1"),
    "COO, column": (coo_of(0, 2), r"X\.coords\[1\] must be in \[0, 2\), but contains 2"),
    "COO, NaN": (csr(sparse.coo_array, data=put(0, np.nan)), r"X\[0, 1\] is nan"),
    "COO, lengths": (csr(sparse.coo_array, data=lambda v: v[:-1]), r"as many entries as X\.data"),
    "DIA, number of offsets": (
        csr(sparse.dia_array, offsets=lambda v: v[:1]), r"X\.offsets must have one entry per row",
    ),
    "DIA, offsets not whole": (
        csr(sparse.dia_array, offsets=lambda v: v + 0.5), r"X\.offsets must be.*integers",
    ),
    "DIA, offset twice": (
        csr(sparse.dia_array, offsets=lambda v: v * 0), r"X\.offsets must be distinct",
    ),
    "DIA, offset out of range": (
        csr(sparse.dia_array, offsets=put(0, 10**9)), r"X\.offsets must be in.*1000000000",
    ),
    "LIL, lengths": (lil_of([0, 1, 1]), r"lists of the same lengths"),
    "LIL, column": (lil_of([77]), r"X\.rows must be in \[0, 2\), but contains 77"),
    "LIL, negative column": (lil_of([-1]), r"X\.rows.*contains -1"),
    "LIL, column not whole": (lil_of([0.5]), r"X\.rows must be.*integers"),
}  # fmt: skip

for _what, (_X, _message) in OTHER_FORMATS.items():
    for _name in ("PegasosClassifier.fit", "KernelPegasosClassifier.fit", "KernelModel.predict"):
        refused(_name, _what, lambda _, t=TAKE_ROWS[_name], X=_X: t(X), ValueError, _message)
    refused(
        "fit", _what, lambda _, X=_X: paper.fit(X, LABELS, 0.1),
        TypeError, r"must be dense or CSR, got format",
    )  # fmt: skip

for _name in ("decision_function", "KernelModel.predict", "PegasosClassifier.predict"):
    for _n in (1, 3):
        for _X in (np.ones((2, _n)), sparse.csr_array(np.ones((2, _n)))):
            refused(
                _name, f"{_n} features", lambda _, t=TAKE_ROWS[_name], X=_X: t(X),
                ValueError, rf"{_n} features.*2",
            )  # fmt: skip

# ---- Labels and weights: whatever takes y ------------------------------------------------------

TAKE_LABELS = {
    "fit": lambda y: paper.fit(GOOD, y, 0.1),
    "PegasosClassifier.fit": lambda y: paper.linear().fit(GOOD, y),
    "KernelPegasosClassifier.fit": lambda y: paper.kernel(gamma=1.0).fit(GOOD, y),
    "PegasosClassifierCV.fit": lambda y: pegasos.PegasosClassifierCV(lams=2, cv=2).fit(GOOD, y),
}

BOTH = (TypeError, ValueError)  # scikit-learn's ValueError where this package has a TypeError

LABELS_REFUSED = {
    "one class": ([1, 1, 1, 1], ValueError, r"y must contain at least two classes.*one class"),
    "too few": ([0, 1, 0], ValueError, r"y must have one (label|entry) per row of X \(4\), got 3"),
    "too many": ([0, 1] * 4, ValueError, r"y must have one (label|entry) per row of X.*, got 8"),
    "none": ([], ValueError, r"y must have one (label|entry) per row of X"),
    "two columns": (np.full((4, 2), 2), ValueError, r"1d array.*\(4, 2\)|y must be one-dim"),
    "a number": (1, BOTH, r"1d array|y must be one-dimensional|Singleton|expected at least one"),
    "an array of no dimension": (np.array(1), ValueError, r"1d array|y must be one-dimensional"),
    "NaN": ([0.0, 1.0, np.nan, 1.0], ValueError, r"y\[2\] is nan"),
    "infinity": ([0.0, 1.0, np.inf, 1.0], ValueError, r"y\[2\] is inf"),
    "NaN among objects": (
        np.array([0.0, 1.0, np.nan, 1.0], dtype=object), ValueError, r"y\[2\] is (one|nan)",
    ),
    "NumPy's NaN among objects": (
        np.array([0, 1, np.float32("nan"), 1], dtype=object), ValueError, r"y\[2\] is (one|nan)",
    ),
    "NaN among words": (["a", "b", np.nan, "b"], ValueError, r"y\[2\] is nan"),
    "None": ([0, 1, None, 1], BOTH, r"y must .*None|Unknown label type"),
    "None among words": (["a", "b", None, "b"], ValueError, r"y\[2\] is None: leave out rows"),
    "NaT among objects": (
        np.array(["a", "b", np.datetime64("NaT"), "b"], object), ValueError, r"y\[2\] is NaT: l",
    ),
    "numbers and words": (
        np.array([0, "a", 1, "b"], object), BOTH, r"y must hold .* of one kind.*, got int, str$",
    ),
    "lists": (np.array([[0], [1, 2], [0], [1]], dtype=object), BOTH, r"y must |multi-label"),
    "dictionaries": (np.array([{}, {}, {}, {}], dtype=object), BOTH, r"y must|Unknown label"),
    "complex": (np.array([0, 1, 0, 1j]), BOTH, r"y must (be real|hold labels .*), got.*complex"),
    "complex in a list": ([0, 1, 0, 1j], BOTH, r"y must (be real|hold labels .*), got.*complex"),
    "fractions": ([0.5, 1.25, 0.5, 1.25], None, ""),
    "dates": (np.array(["2020-01-01", "2021-01-01"] * 2, "M8[D]"), BOTH, r"y must hold|label"),
    "masked": (np.ma.masked_array(LABELS, [0, 1, 0, 0]), ValueError, r"y must not have masked"),
    "records": (np.zeros(4, "f8,f8"), BOTH, r"y must hold labels|Unknown label|cast"),
}  # fmt: skip

for _what, (_y, _error, _message) in LABELS_REFUSED.items():
    for _name, _take in TAKE_LABELS.items():
        if _error is not None:
            refused(_name, f"y, {_what}", lambda _, t=_take, y=_y: t(y), _error, _message)

TAKE_WEIGHTS = {
    "fit": lambda c: paper.fit(GOOD, LABELS, 0.1, sample_weight=c),
    "PegasosClassifier.fit": lambda c: paper.linear().fit(GOOD, LABELS, c),
    "PegasosClassifier.partial_fit": lambda c: paper.linear().partial_fit(GOOD, LABELS, [0, 1], c),
    "KernelPegasosClassifier.fit": lambda c: paper.kernel().fit(GOOD, LABELS, c),
    "PegasosClassifierCV.fit": lambda c: pegasos.PegasosClassifierCV(lams=2, cv=2).fit(
        GOOD, LABELS, c
    ),
}

WEIGHTS = {
    "all zero": (np.zeros(4), ValueError, r"sample_weight must not be all zero"),
    "a zero": (0, ValueError, r"sample_weight must not be all zero"),
    "negative": ([1, -1, 1, 1], ValueError, r"sample_weight must be >= 0.*\[1\] is -1"),
    "NaN": ([1, np.nan, 1, 1], ValueError, r"sample_weight must be finite.*\[1\] is nan"),
    "infinity": ([1, 1, np.inf, 1], ValueError, r"sample_weight must be finite.*\[2\] is inf"),
    "a NaN": (float("nan"), ValueError, r"sample_weight must be a finite number.*nan"),
    "too few": ([1, 1], ValueError, r"sample_weight.*\(2,\).*\(4,\)"),
    "two columns": (np.ones((4, 1)), ValueError, r"sample_weight must be 1D.*\(4, 1\)"),
    "complex": ([1j] * 4, ValueError, r"sample_weight must be real.*complex"),
    "strings": (["a"] * 4, TypeError, r"sample_weight must be numeric"),
    "a word": ("heavy", TypeError, r"sample_weight must be numeric"),
    "objects": (np.array([{}] * 4), TypeError, r"sample_weight must be numeric"),
    "masked": (
        np.ma.masked_array([1.0] * 4, [1, 0, 0, 0]), ValueError,
        r"sample_weight must not have masked values; fill them.*sample_weight\.filled\(0\)",
    ),
    "sums that overflow": ([1e308] * 4, ValueError, r"sample_weight must have a sum.*1e\+308"),
    "beyond float64": (
        np.array([1, 2, 3, 4], np.longdouble) * np.longdouble("1e4000"), ValueError,
        r"sample_weight must be finite",
    ),
}  # fmt: skip

for _what, (_c, _error, _message) in WEIGHTS.items():
    for _name, _take in TAKE_WEIGHTS.items():
        refused(_name, f"sample_weight, {_what}", lambda _, t=_take, c=_c: t(c), _error, _message)

refused(
    "fit", "weights leave one class",
    lambda _: paper.fit(GOOD, LABELS, 1, sample_weight=[1, 0, 1, 0]),
    ValueError, r"at least two classes.*one class: \[0\]",
)  # fmt: skip

CLASS_WEIGHTS = {
    "negative": ({0: -1, 1: 1}, ValueError, r"class_weight\[0\] must be .*>= 0, got -1"),
    "NaN": ({0: float("nan"), 1: 1}, ValueError, r"class_weight\[0\] must be .*got nan"),
    "a word": ({0: "a", 1: 1}, TypeError, r"class_weight\[0\] must be .*got 'a'"),
    "unknown classes": (
        {1: 1, 5: 2},
        ValueError,
        r"class_weight must have classes of y as keys, \[0, 1\], got \[5\]",
    ),
    "a mode": ("equal", ValueError, r"class_weight.*equal"),
    "a list": ([1, 2], ValueError, r"class_weight.*\[1, 2\]"),
    "all zero": (
        {0: 0, 1: 0},
        ValueError,
        r"sample_weight times class_weight must not be all zero",
    ),
}

for _what, (_weights, _error, _message) in CLASS_WEIGHTS.items():
    for _name, _make in (
        ("PegasosClassifier", paper.linear), ("KernelPegasosClassifier", paper.kernel),
        ("PegasosClassifierCV", lambda **p: pegasos.PegasosClassifierCV(lams=2, cv=2, **p)),
    ):  # fmt: skip
        refused(
            f"{_name}.fit", f"class_weight, {_what}",
            lambda _, m=_make, w=_weights: m(class_weight=w).fit(GOOD, LABELS), _error, _message,
        )  # fmt: skip

refused(
    "PegasosClassifier.fit", "weights whose products overflow",
    lambda _: paper.linear(class_weight={0: 1e200, 1: 1e200}).fit(GOOD, LABELS, [1e200] * 4),
    ValueError, r"sample_weight times class_weight must be finite",
)  # fmt: skip

# ---- Parameters --------------------------------------------------------------------------------

# name, value, the exception of pegasos.fit, what the message says there and of the estimators
PARAMETERS = [
    ("lam", 0, ValueError, r"lam.*0"),
    ("lam", -1e-3, ValueError, r"lam.*-0\.001"),
    ("lam", float("nan"), ValueError, r"lam.*nan"),
    ("lam", float("inf"), ValueError, r"lam.*inf"),
    ("lam", "small", TypeError, r"lam.*small"),
    ("lam", None, TypeError, r"lam.*None"),
    ("lam", True, TypeError, r"lam.*True"),
    ("lam", [0.1], TypeError, r"lam.*\[0\.1\]"),
    ("lam", 1j, TypeError, r"lam.*1j"),
    ("lam", 10**400, ValueError, r"lam"),
    ("lam", 1e-310, ValueError, r"lam.*1e-310"),
    ("intercept_scaling", 1e155, ValueError, r"intercept_scaling.*1e\+100.*1e\+155"),
    ("intercept_scaling", 0, ValueError, r"intercept_scaling.*0"),
    ("intercept_scaling", -1, ValueError, r"intercept_scaling.*-1"),
    ("intercept_scaling", float("nan"), ValueError, r"intercept_scaling.*nan"),
    ("n_steps", 2**70, ValueError, r"n_steps.*1180591620717411303424"),
    ("n_steps", 0, ValueError, r"n_steps.*0"),
    ("n_steps", -5, ValueError, r"n_steps.*-5"),
    ("n_steps", 1.5, TypeError, r"n_steps.*1\.5"),
    ("n_steps", True, TypeError, r"n_steps.*True"),
    ("max_iter", 0, ValueError, r"max_iter.*0"),
    ("max_iter", 2**61, ValueError, r"max_iter.*2305843009213693952"),
    ("max_iter", "many", TypeError, r"max_iter.*many"),
    ("max_iter", None, TypeError, r"max_iter.*None"),
    ("batch_size", 0, ValueError, r"batch_size.*0"),
    ("batch_size", 2.5, TypeError, r"batch_size.*2\.5"),
    ("batch_size", 2**55, MemoryError, r"batch_size=36028797018963968"),
    ("batch_size", 2**62, ValueError, r"batch_size.*4611686018427387904"),
    ("tol", 0, ValueError, r"tol.*0"),
    ("tol", -1e-3, ValueError, r"tol.*-0\.001"),
    ("tol", float("nan"), ValueError, r"tol.*nan"),
    ("tol", "tight", TypeError, r"tol.*tight"),
    ("solver", "lbfgs", ValueError, r"solver.*lbfgs"),
    ("solver", None, ValueError, r"solver.*None"),
    ("solver", 1, ValueError, r"solver.*1"),
    ("sampling", "random", ValueError, r"sampling.*random"),
    ("sampling", None, ValueError, r"sampling.*None"),
    ("project", "yes", TypeError, r"project.*yes"),
    ("project", 1, TypeError, r"project.*1"),
    ("average", "mean", ValueError, r"average.*suffix.*mean"),
    ("average", 2, ValueError, r"average.*2"),
    ("average", None, ValueError, r"average.*None"),
    ("fit_intercept", "no", TypeError, r"fit_intercept.*no"),
    ("penalize_intercept", None, TypeError, r"penalize_intercept.*None"),
    ("multi_class", "joint", ValueError, r"multi_class.*joint"),
    ("multi_class", None, ValueError, r"multi_class.*None"),
    ("random_state", -1, ValueError, r"random_state.*-1"),
    ("random_state", 2**64, ValueError, r"random_state.*18446744073709551616"),
    ("random_state", "seed", BOTH, r"random_state.*seed|seed.*random_state"),
    ("random_state", 0.5, BOTH, r"random_state.*0\.5"),
    ("n_jobs", 0, ValueError, r"n_jobs.*0"),
    ("n_jobs", 1.5, TypeError, r"n_jobs.*1\.5"),
    ("n_jobs", "all", TypeError, r"n_jobs.*all"),
    ("verbose", "loud", BOTH, r"verbose.*loud"),
]

MAKERS = {
    "PegasosClassifier.fit": lambda **p: paper.linear(**p),
    "KernelPegasosClassifier.fit": lambda **p: paper.kernel(**p),
    "PegasosClassifierCV.fit": lambda **p: pegasos.PegasosClassifierCV(
        lams=2, cv=2, **{"solver": "pegasos", "max_iter": 2, **p}
    ),
}

for _k, (_name, _value, _error, _message) in enumerate(PARAMETERS):
    _what = f"{_name}={_value!r}"
    refused(
        "fit", _what, lambda _, p={_name: _value}: paper.fit(GOOD, LABELS, **{"lam": 0.1, **p}),
        _error, _message,
    )  # fmt: skip
    for _who, _make in MAKERS.items():
        if _who == "PegasosClassifierCV.fit" and (_name == "lam" or _value == 2**61):
            continue  # it has many λ; its plan is one of epochs until a gap
        if (_name, _value) == ("lam", None):
            continue  # λ then follows from C
        refused(
            _who, _what, lambda _, m=_make, p={_name: _value}: m(**p).fit(GOOD, LABELS),
            MemoryError if _error is MemoryError else BOTH, _message,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("who", "name", "value", "error"),
    [
        (who, *case[:3])
        for case in PARAMETERS
        for who in MAKERS
        # Estimators take more for n_jobs and lam; the search has many λ and T, and another plan.
        if case[0] != "n_jobs"
        and case[:2] != ("lam", None)
        and not (who == "PegasosClassifierCV.fit" and case[0] in ("lam", "n_steps", "max_iter"))
    ],
)
def test_estimators_refuse_in_the_words_of_fit(who, name, value, error):
    with pytest.raises(error) as of_fit:
        paper.fit(GOOD, LABELS, **{"lam": 0.1, name: value})
    with pytest.raises(error) as of_estimator:
        MAKERS[who](**{name: value}).fit(GOOD, LABELS)
    # Estimators have one scheme more.
    assert str(of_estimator.value).replace(", 'crammer_singer'", "") == str(of_fit.value)


def test_wrong_types_of_n_jobs_are_type_errors():
    for make in MAKERS.values():
        for error, value in ((TypeError, 1.5), (TypeError, "a"), (ValueError, 0)):
            wanted = f"n_jobs must be an integer other than 0, got {value!r}"
            with pytest.raises(error, match=wanted):
                make(n_jobs=value).fit(GOOD, LABELS)


def test_parameters_are_refused_before_the_rows_are_read():
    for make in MAKERS.values():
        with pytest.raises(ValueError, match="class_weight must be a dict, 'balanced' or None"):
            make(class_weight="none").fit(None, None)
    with pytest.raises(
        ValueError, match=r"tol must be a finite number > 0 and <= 1, or 'auto' or None, got 0"
    ):
        pegasos.PegasosClassifier(tol=0).partial_fit(None, None)


KERNEL_PARAMETERS = [
    ("gamma", 0, r"gamma.*0"),
    ("gamma", float("inf"), r"gamma.*inf"),
    ("gamma", float("nan"), r"gamma.*nan"),
    ("gamma", "wide", r"gamma.*wide"),
    ("degree", -1, r"degree.*-1"),
    ("degree", 2.5, r"degree.*2\.5"),
    ("coef0", float("nan"), r"coef0.*nan"),
    ("coef0", float("inf"), r"coef0.*inf"),
    ("coef0", "a", r"coef0.*'a'"),
    ("kernel", "cosine", r"kernel.*cosine"),
    ("kernel", None, r"kernel.*None"),
    ("kernel", "precomputed", r"X must be a square matrix with .*\(4, 2\)"),
    ("kernel", lambda X, Z: X, r"kernel must return an array of shape \(4, 4\)"),
    ("kernel", lambda X, Z: X @ Z.T * np.nan, r"kernel must return finite real numbers"),
    ("kernel", lambda X, Z: X @ Z.T * 1j, r"kernel must return finite real numbers"),
    ("kernel", lambda X, Z: "abc", r"kernel must return an array of shape \(4, 4\)"),
    ("kernel", lambda X, Z: X[:, :1], r"kernel must return an array of shape \(4, 4\)"),
    ("kernel", lambda X, Z: [["a"] * len(Z)] * len(X), r"kernel must return finite real numbers"),
    ("kernel_params", [1], r"kernel_params.*\[1\]"),
    ("kernel_params", {"gamma": 50}, r"kernel_params .* must be None with kernel='rbf'.*50"),
    ("cache_size", -1, r"cache_size.*-1"),
    ("cache_size", float("nan"), r"cache_size.*nan"),
    ("cache_size", "big", r"cache_size.*big"),
    ("scores", "pop", r"scores.*pop"),
]

for _k, (_name, _value, _message) in enumerate(KERNEL_PARAMETERS):
    refused(
        "KernelPegasosClassifier.fit", f"{_name}={_value if not callable(_value) else _k!r}",
        lambda _, p={_name: _value}: paper.kernel(**p).fit(GOOD, LABELS), BOTH, _message,
    )  # fmt: skip

SEARCHES = [
    ({"lams": 0}, r"lams.*0"),
    ({"lams": []}, r"lams.*\[\]"),
    ({"lams": [0.1, -1]}, r"lams.*-1"),
    ({"lams": [0.1, float("nan")]}, r"lams.*nan"),
    ({"lams": [1e-310]}, r"lam.*1e-310"),
    ({"lams": "all"}, r"lams.*all"),
    ({"cv": 1}, r"cv must be an integer >= 2, got 1"),
    ({"cv": 2.5}, r"cv must be an integer >= 2, got 2.5"),
    ({"cv": 5}, r"cv=5 needs 5 rows of one class at least, but the largest has 2"),
    ({"cv": "many"}, r"cv.*many"),
    ({"cv": [([0, 2], [1])]}, r"cv: fold 0 has 1 row .*leaves 1 class to"),
    ({"cv": [([0, 1, 2], [])]}, r"cv: fold 0 has 0 rows"),
    ({"cv": [([0, 1, 9], [2])]}, r"cv: .*fold 0 must be in \[-4, 4\), but contains 9"),
    ({"scoring": "beauty"}, r"scoring.*beauty"),
    ({"refit": "yes"}, r"refit.*yes"),
    ({"cv_effort": 0}, r"cv_effort.*'auto'.*integer.*float.*0"),
    ({"cv_effort": 1.0}, r"cv_effort.*\(0, 1\).*1.0"),
    ({"cv_effort": True}, r"cv_effort.*True"),
    ({"cv_effort": "fast"}, r"cv_effort.*'auto'.*'fast'"),
    ({"one_standard_error": 1}, r"one_standard_error.*1"),
    ({"n_steps": [5, 3]}, r"n_steps must grow.*\[5, 3\]"),
    ({"n_steps": [0]}, r"n_steps.*0"),
    ({"n_steps": 9, "solver": "sdca"}, r"n_steps needs solver='pegasos', got.*sdca"),
]

for _options, _message in SEARCHES:
    refused(
        "PegasosClassifierCV.fit", str(_options),
        lambda _, p=_options: pegasos.PegasosClassifierCV(**{"lams": 2, "cv": 2, **p}).fit(
            GOOD, LABELS
        ),
        BOTH, _message,
    )  # fmt: skip
for _gammas in ([], [0], [float("nan")], ["wide"], 1.5):
    refused(
        "KernelPegasosClassifierCV.fit", f"gammas={_gammas}",
        lambda _, g=_gammas: (
            pegasos.KernelPegasosClassifierCV(lams=2, gammas=g, cv=2).fit(GOOD, LABELS)
        ),
        BOTH, r"gammas?.*",
    )  # fmt: skip
refused(
    "KernelPegasosClassifierCV.fit", "cache_size=10**400",
    lambda _: pegasos.KernelPegasosClassifierCV(lams=2, cv=2, cache_size=10**400).fit(GOOD, LABELS),
    ValueError, r"cache_size must be a finite number",
)  # fmt: skip

# ---- Calls that do not fit together ------------------------------------------------------------

for _order, _message in (
    ([], r"order must be a non-empty.*\[\]"),
    ([0, 4], r"order must be in \[0, 4\), but contains 4"),
    ([0, -1], r"order.*contains -1"),
    ([0.5], r"order.*0\.5"),
    ([[0]], r"order.*\[\[0\]\]"),
    (["a"], r"order.*'a'"),
    ([2**63], r"order.*contains 9223372036854775808"),
):
    refused(
        "fit", f"order={_order}", lambda _, o=_order: paper.fit(GOOD, LABELS, 0.1, order=o),
        ValueError, _message,
    )  # fmt: skip


def warm(**change):
    """A fit that goes on with other parameters or data than it began with."""
    X, y = change.pop("X", GOOD), change.pop("y", LABELS)
    return paper.linear(lam=0.1, warm_start=True).fit(GOOD, LABELS).set_params(**change).fit(X, y)


def partial(*arguments, **options):
    clf = paper.linear(lam=0.1, **options)
    for X, y, classes in arguments:
        clf.partial_fit(X, y, classes)


def cleared(estimator):
    estimator.coef_ = None


UNFITTING = {
    "fit: order too short for a step": (
        lambda: paper.fit(GOOD, LABELS, 0.1, order=[0], batch_size=2),
        ValueError, r"batch_size=2 draws.*got 1",
    ),
    "fit: order of rows without weight": (
        lambda: paper.fit(GOOD, LABELS, 0.1, order=[0], sample_weight=[0, 1, 1, 1]),
        ValueError, r"rows that have weight",
    ),
    "fit: order and another solver": (
        lambda: pegasos.fit(GOOD, LABELS, 0.1, order=[0], solver="sdca"),
        ValueError, r"order needs solver='pegasos', got solver='sdca'",
    ),
    "PegasosClassifier.fit: n_steps and another solver": (
        lambda: pegasos.PegasosClassifier(n_steps=3, solver="newton").fit(GOOD, LABELS),
        ValueError, r"n_steps needs solver='pegasos', got solver='newton'",
    ),
    "PegasosClassifier.fit: warm start, λ": (
        lambda: warm(lam=0.2), ValueError, r"lam must stay 0\.1.*got 0\.2",
    ),
    "PegasosClassifier.fit: warm start, batch_size": (
        lambda: warm(batch_size=2), ValueError, r"batch_size must stay 1.*got 2",
    ),
    "PegasosClassifier.fit: warm start, multi_class": (
        lambda: warm(multi_class="ovo"), ValueError, r"multi_class must stay 'ovr'",
    ),
    "PegasosClassifier.fit: warm start, features": (
        lambda: warm(X=np.ones((4, 3))), ValueError, r"3 features.*2 features",
    ),
    "PegasosClassifier.fit: warm start, classes": (
        lambda: warm(y=[0, 2, 0, 2]), ValueError, r"classes of the fit.*\[0, 1\].*\[0, 2\]",
    ),
    "PegasosClassifier.fit: warm start, type": (
        lambda: warm(X=GOOD.astype(np.float32)), ValueError, r"X must be float64.*got float32",
    ),
    "KernelPegasosClassifier.fit: warm start, rows": (
        lambda: paper.kernel(lam=0.1, warm_start=True).fit(GOOD, LABELS).fit(GOOD[:3], LABELS[:3]),
        ValueError, r"X must be that of the fit.*4 rows, got 3",
    ),
    "PegasosClassifier.partial_fit: no classes": (
        lambda: partial((GOOD, LABELS, None)), ValueError, r"classes must be given in the first",
    ),
    "PegasosClassifier.partial_fit: one class": (
        lambda: partial((GOOD, LABELS, [0])), ValueError, r"at least two classes.*\[0\]",
    ),
    "PegasosClassifier.partial_fit: NaN among classes": (
        lambda: partial((GOOD, LABELS, [0, np.nan])), ValueError, r"classes.*is nan",
    ),
    "PegasosClassifier.partial_fit: other labels": (
        lambda: partial((GOOD, [0, 5, 0, 5], [0, 1])), ValueError, r"only labels in.*also \[5\]",
    ),
    "PegasosClassifier.partial_fit: other classes": (
        lambda: partial((GOOD, LABELS, [0, 1]), (GOOD, LABELS, [0, 2])),
        ValueError, r"classes must be those of the first call, \[0, 1\], got \[0, 2\]",
    ),
    "PegasosClassifier.partial_fit: words among numbers": (
        lambda: partial((GOOD, ["a", "b"] * 2, [0, 1])), BOTH, r"y must contain only labels",
    ),
    "PegasosClassifier.partial_fit: another solver": (
        lambda: partial((GOOD, LABELS, [0, 1]), solver="sdca"),
        ValueError, r"partial_fit needs solver='pegasos', got solver='sdca'",
    ),
    "PegasosClassifier.partial_fit: balanced": (
        lambda: partial((GOOD, LABELS, [0, 1]), class_weight="balanced"),
        ValueError, r"class_weight='balanced' needs all data",
    ),
    "PegasosClassifier.partial_fit: features": (
        lambda: partial((GOOD, LABELS, [0, 1]), (np.ones((4, 3)), LABELS, None)),
        ValueError, r"3 features.*2 features",
    ),
    "PegasosClassifier.predict: not fitted": (
        lambda: paper.linear().predict(GOOD), ValueError, r"not fitted",
    ),
    "PegasosClassifier.to_model: not fitted": (
        lambda: paper.linear().to_model(), ValueError, r"not fitted",
    ),
    "KernelPegasosClassifier.decision_function: not fitted": (
        lambda: paper.kernel().decision_function(GOOD), ValueError, r"not fitted",
    ),
    "PegasosClassifierCV.predict: not fitted": (
        lambda: pegasos.PegasosClassifierCV().predict(GOOD), ValueError, r"not fitted",
    ),
    "PegasosClassifierCV.predict: not refitted": (
        lambda: (
            pegasos.PegasosClassifierCV(lams=2, cv=2, refit=False).fit(GOOD, LABELS).predict(GOOD)
        ),
        AttributeError, r"refit=False",
    ),
    "KernelPegasosClassifier.fit: sparse precomputed": (
        lambda: paper.kernel(kernel="precomputed").fit(sparse.csr_array(GOOD @ GOOD.T), LABELS),
        TypeError, r"Sparse precomputed kernels",
    ),
    "decision_function: a dictionary": (
        lambda: pegasos.decision_function({"coef": 1}, GOOD), TypeError, r"model must be what",
    ),
    "decision_function: an estimator": (
        lambda: pegasos.decision_function(LINEAR, GOOD), TypeError, r"model must be what",
    ),
    "decision_function: None": (
        lambda: pegasos.decision_function(None, GOOD), TypeError, r"model must be.*got None",
    ),
    "lam_from_C: C = 0": (lambda: pegasos.lam_from_C(0, 5), ValueError, r"C must be.*got 0"),
    "lam_from_C: a word": (lambda: pegasos.lam_from_C("a", 5), TypeError, r"C must be.*'a'"),
    "lam_from_C: huge": (lambda: pegasos.lam_from_C(10**400, 1), ValueError, r"C must be"),
    "lam_from_C: tiny": (lambda: pegasos.lam_from_C(1e-300, 1e-300), ValueError, r"C times.*got 0"),
    "lam_from_C: NaN rows": (
        lambda: pegasos.lam_from_C(1, float("nan")), ValueError, r"n_samples must be.*got nan",
    ),
    "lam_from_C: no rows": (lambda: pegasos.lam_from_C(1, 0), ValueError, r"n_samples.*got 0"),
    "C_from_lam: λ < 0": (lambda: pegasos.C_from_lam(-1, 5), ValueError, r"lam must be.*got -1"),
    "C_from_lam: huge": (
        lambda: pegasos.C_from_lam(1e300, 1e300), ValueError, r"lam times n_samples.*got inf",
    ),
    "C_from_lam: NaN": (
        lambda: pegasos.C_from_lam(float("nan"), 5), ValueError, r"lam must be.*got nan",
    ),
}  # fmt: skip

for _what, (_call, _error, _message) in UNFITTING.items():
    refused(*_what.split(": ", 1), lambda _, c=_call: c(), _error, _message)

for _kind in ("dense", "csr32"):
    for _name, _make in (
        ("fit", lambda X: paper.fit(X, LABELS, 1e-12, random_state=0)),
        ("PegasosClassifier.fit", lambda X: paper.linear(lam=1e-12, random_state=1).fit(X, LABELS)),
    ):
        refused(
            _name, f"features that overflow, {_kind}",
            lambda _, m=_make, k=_kind: m(convert(with_value(HUGE, (0, 1)), k, np.float64)),
            ValueError, r"overflowed.*Scale X",
        )  # fmt: skip


# ---- Model files -------------------------------------------------------------------------------


def archive(path, arrays, *, raw=None):
    """Write arrays, and `raw` members byte by byte, as an .npz."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, array in arrays.items():
            if array is not None:
                buffer = io.BytesIO()
                np.save(buffer, array)
                file.writestr(f"{name}.npy", buffer.getvalue())
        for name, content in (raw or {}).items():
            file.writestr(name, content)
    return path


def npy(header, content=b""):
    """A member with this header, true or not."""
    header = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def changed(model, **change):
    """A file of `model` with other arrays, or None for none; `about` as a dictionary of changes."""

    def call(folder):
        arrays = model._arrays()
        about = change.pop("about", {})
        if isinstance(about, dict):
            about = json.dumps(json.loads(str(arrays["about"])) | about)
        arrays["about"] = np.array(about)
        raw = {f"{k}.npy": v for k, v in change.items() if isinstance(v, bytes)}
        kept = {k: v for k, v in (arrays | change).items() if f"{k}.npy" not in raw}
        seal(archive(folder / "m.npz", kept, raw=raw))
        pegasos.load(folder / "m.npz")

    return call


def whole_file(content):
    def call(folder):
        (folder / "m.npz").write_bytes(content)
        pegasos.load(folder / "m.npz")

    return call


def saved(model):
    buffer = io.BytesIO()
    np.savez(buffer, **_archive.sealed(model._arrays()))
    return buffer.getvalue()


SAVED = saved(MODEL)
LINEAR_FILES = {
    "coef of another shape": {"coef": np.zeros((2, 3))},
    "coef of one dimension": {"coef": np.zeros(3)},
    "coef with NaN": {"coef": np.full((1, 3), np.nan)},
    "coef of whole numbers": {"coef": np.zeros((1, 3), dtype=int)},
    "coef of float16": {"coef": np.zeros((1, 3), np.float16)},
    "coef without columns": {"coef": np.zeros((1, 0))},
    "coef missing": {"coef": None},
    "coef of objects": {"coef": np.array([[{}]], dtype=object)},
    "coef of another byte order": {"coef": np.zeros((1, 2), ">f8")},
    "coef that declares 8 TB": {
        "coef": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1000000000000)}")
    },
    "coef that declares more than it has": {
        "coef": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 9)}", bytes(64))
    },
    "coef of a negative shape": {
        "coef": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -2)}", bytes(16))
    },
    "coef of a shape that overflows": {
        "coef": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}")
    },
    "coef with code for a header": {"coef": npy("__import__('os').system('touch hacked')")},
    "coef with a header of brackets": {"coef": npy("(" * 100)},
    "coef with no header": {"coef": b""},
    "coef as text": {"coef": b"0.5 0.5"},
    "coef of another version": {"coef": b"\x93NUMPY\x09\x00" + bytes(200)},
    "intercept of another length": {"intercept": np.zeros(2)},
    "intercept infinite": {"intercept": np.array([np.inf])},
    "intercept complex": {"intercept": np.array([1j])},
    "one class": {"classes": np.array([1])},
    "classes of two dimensions": {"classes": np.zeros((2, 2))},
    "classes of objects": {"classes": np.array([{}, []], dtype=object)},
    "classes twice": {"classes": np.array([1, 1])},
    "classes not sorted": {"classes": np.array([1, 0])},
    "classes with NaN": {"classes": np.array([0.0, np.nan])},
    "classes complex": {"classes": np.array([1j, 2j])},
    "objective of another length": {"objective": np.zeros(5)},
    "objective infinite": {"objective": np.array([np.inf])},
    "dual_objective infinite": {"dual_objective": np.array([-np.inf])},
    "n_steps not whole": {"n_steps": np.zeros(1)},
    "n_steps missing": {"n_steps": None},
    "n_steps below 0": {"n_steps": np.array([-1])},
    "about: another format": {"about": {"format": "something else"}},
    "about: a format of lists": {"about": {"format": [[]]}},
    "about: not JSON": {"about": "not json"},
    "about: a list": {"about": '["a list"]'},
    "about: a number": {"about": "5"},
    "about: little": {"about": '{"format": "pegasos linear model 1"}'},
    "about: many brackets": {"about": "[" * 100_000},
    "about: λ = 0": {"about": {"lam": 0}},
    "about: λ = NaN": {"about": {"lam": float("nan")}},
    "about: λ of many digits": {"about": {"lam": 10**400}},
    "about: λ a word": {"about": {"lam": "a"}},
    "about: version a number": {"about": {"version": 1}},
    "about: multi_class": {"about": {"multi_class": "all"}},
    "about: one class of classes 0 and 1": {"about": {"multi_class": "one_class"}},
    "about: one class of another loss": {
        "about": {"multi_class": "one_class", "loss": "log_loss"},
        "classes": np.array([-1, 1]),
    },
}

for _what, _change in LINEAR_FILES.items():
    refused(
        "load", _what, lambda folder, c=_change: changed(MODEL, **c)(folder),
        ValueError, r"m\.npz is not a pegasos model: \S+",
    )  # fmt: skip

KERNEL_FILES = {
    "kernel unknown": {"about": {"kernel": {"name": "cosine"}}},
    "kernel precomputed": {"about": {"kernel": {"name": "precomputed"}}},
    "kernel a list": {"about": {"kernel": []}},
    "gamma negative": {
        "about": {"kernel": {"name": "rbf", "gamma": -1.0, "degree": 3, "coef0": 0.0}}
    },
    "degree beyond 2**31": {
        "about": {"kernel": {"name": "poly", "gamma": 1.0, "degree": 2**31, "coef0": 0.0}}
    },
    "degree NaN": {
        "about": {"kernel": {"name": "poly", "gamma": 1.0, "degree": float("nan"), "coef0": 0.0}}
    },
    "shape a number": {"about": {"shape": 5}},
    "shape negative": {"about": {"shape": [-4, 2]}},
    "shape of another matrix": {"about": {"shape": [4, 3]}},
    "vectors with NaN": {"vectors": np.full((4, 2), np.nan)},
    "vectors of whole numbers": {"vectors": np.zeros((4, 2), int)},
    "vectors missing": {"vectors": None},
    "vectors too few": {"vectors": np.zeros((1, 2)), "about": {"shape": [1, 2]}},
    "dual_coef with infinity": {"dual_coef": np.full((1, 4), np.inf)},
    "dual_coef of another shape": {"dual_coef": np.zeros((2, 4))},
    "dual_coef of one dimension": {"dual_coef": np.zeros(4)},
    "dual_coef missing": {"dual_coef": None},
    "vectors of strings": {"vectors": np.array([["a"]])},
    "indptr of dense vectors": {"indptr": np.array([0, 7])},
    "degree a word": {
        "about": {"kernel": {"name": "poly", "gamma": 1.0, "degree": "three", "coef0": 0.0}}
    },
}
SINGLE_KERNEL_MODEL = paper.kernel(lam=0.1).fit(GOOD.astype(np.float32), LABELS).to_model()
SINGLE_KERNEL_FILES = {
    "dual_coef beyond single precision": {"dual_coef": np.full((1, 4), 1e300)},
}
SPARSE_KERNEL_MODEL = (
    paper.kernel(lam=0.1, gamma=0.5).fit(sparse.csr_array(GOOD), LABELS).to_model()
)
SPARSE_KERNEL_FILES = {
    "an index out of range": {
        "indices": put(0, 10**6)(SPARSE_KERNEL_MODEL.support.X.indices.copy())
    },
    "a negative index": {"indices": put(0, -7)(SPARSE_KERNEL_MODEL.support.X.indices.copy())},
    "indptr decreasing": {"indptr": put(1, 10**6)(SPARSE_KERNEL_MODEL.support.X.indptr.copy())},
    "indptr too short": {"indptr": SPARSE_KERNEL_MODEL.support.X.indptr[:-1]},
    "indptr of floats": {"indptr": SPARSE_KERNEL_MODEL.support.X.indptr.astype(float)},
    "indices missing": {"indices": None},
    "values too few": {"vectors": SPARSE_KERNEL_MODEL.support.X.data[:-1]},
}

for _model, _files in (
    (KERNEL_MODEL, KERNEL_FILES), (SPARSE_KERNEL_MODEL, SPARSE_KERNEL_FILES),
    (SINGLE_KERNEL_MODEL, SINGLE_KERNEL_FILES),
):  # fmt: skip
    for _what, _change in _files.items():
        refused(
            "load", f"kernel model, {_what}",
            lambda folder, m=_model, c=_change: changed(m, **c)(folder),
            ValueError, r"m\.npz is not a pegasos model: \S+",
        )  # fmt: skip
for _shape in (None, 3):
    refused(
        "load", f"shape {_shape}",
        lambda folder, shape=_shape: changed(KERNEL_MODEL, about={"shape": shape})(folder),
        ValueError, r"is not a pegasos model: shape must be two sizes, got (None|3)",
    )  # fmt: skip

for _length in (0, 1, 10, 30, len(SAVED) // 2, len(SAVED) - 22, len(SAVED) - 1):
    refused(
        "load", f"the first {_length} bytes", whole_file(SAVED[:_length]),
        ValueError, r"m\.npz is not a pegasos model: .*(truncated|corrupt)",
    )  # fmt: skip
refused("load", "text", whole_file(b"hello"), ValueError, r"not an \.npz archive")
refused("load", "a pickle", whole_file(pickle.dumps(LINEAR)), ValueError, r"not an \.npz archive")
refused("load", "no file", lambda f: pegasos.load(f / "m.npz"), FileNotFoundError, r"m\.npz")
refused("load", "a folder", lambda f: pegasos.load(f), IsADirectoryError, "directory")
_no_path = "path must be a str or a path, got 1.5"
refused("load", "a number", lambda _: pegasos.load(1.5), TypeError, _no_path)
refused("LinearModel.save", "a number", lambda _: MODEL.save(1.5), TypeError, _no_path)


def bomb(folder):
    """A quarter of a gigabyte of zeros in a megabyte."""
    with zipfile.ZipFile(folder / "m.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 33685504)}"
        with file.open("coef.npy", "w") as member:
            member.write(npy(header))
            for _ in range(257):
                member.write(bytes(2**20))
    pegasos.load(folder / "m.npz")


refused("load", "a bomb", bomb, ValueError, r"not a pegasos model:.*unpack to 26948\d+ are refused")


def twice(folder):
    KERNEL_MODEL.save(folder / "m.npz")
    pegasos.LinearModel.load(folder / "m.npz")


refused("LinearModel.load", "a kernel model", twice, ValueError, r"holds a KernelModel")
refused(
    "LinearModel.save", "labels of bytes",
    lambda f: paper.fit(GOOD, np.array([b"a", b"b"])[LABELS], 0.1).save(f / "m.npz"),
    ValueError, r"labels must be numbers or strings to be saved.*b'a'",
)  # fmt: skip
refused(
    "LinearModel.save", "no such folder",
    lambda f: MODEL.save(f / "nowhere" / "m.npz"), FileNotFoundError, "nowhere",
)  # fmt: skip
for _kernel in ("precomputed", lambda X, Z: X @ Z.T):
    refused(
        "KernelModel.save", f"kernel {'a function' if callable(_kernel) else _kernel}",
        lambda f, k=_kernel: paper.kernel(lam=0.1, kernel=k)
        .fit(GOOD @ GOOD.T if k == "precomputed" else GOOD, LABELS).to_model().save(f / "m.npz"),
        ValueError, r"cannot be saved without its kernel",
    )  # fmt: skip

# ---- Data files and commands: one line on standard error, and exit code 2 -----------------------


def command(*arguments, file=None, content=None):
    """Run a command in a folder, in which it may find a file; its error becomes an exception."""

    def call(folder):
        if content == "folder":
            (folder / file).mkdir()
        elif callable(content):
            content(folder / file)
        elif content is not None:
            (folder / file).write_bytes(content)
        MODEL.save(folder / "model.npz")
        places = {"DATA": folder / (file or "data"), "MODEL": folder / "model.npz"}
        words = [str(places.get(word, word)) for word in arguments]
        if words[0] == "train" and "-o" not in words:
            words += ["-o", str(folder / "out.npz")]
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                code = cli.main(words)
            except SystemExit as usage:
                code = usage.code
        assert not (folder / "out.npz").exists()
        assert code == 2, said.getvalue()
        last = said.getvalue().splitlines()
        is_short = len(last) == 1 or (len(last) == 2 and last[0].startswith("usage:"))
        assert is_short or words[0] == "demo", last
        raise RefusedError(last[-1])

    return call


class RefusedError(Exception):
    """What a command printed."""


def npz(**arrays):
    return lambda path: archive(path, arrays)


PARTS = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4), "y": np.arange(3) % 2}

FILES = {
    "missing.svm": (None, r"missing\.svm: No such file"),
    "folder": ("folder", r"Is a directory"),
    "empty.svm": (b"", r"empty\.svm holds no rows"),
    "far.svm": (b"1 99999999999999999999:2\n-1 1:1\n", r"line 1|out of range"),
    "order.svm": (b"1 3:2 2:1\n-1 1:1\n", r"line 1: no row of LIBSVM text in '1 3:2 2:1'"),
    "twice.svm": (b"1 3:2 3:1\n-1 1:1\n", r"line 1: .*: a row .* whose indices grow"),
    "nan.svm": (b"1 1:2\n-1 2:nan\n", r"line 2: a value is not finite in '-1 2:nan': fill"),
    "one.svm": (b"1 1:2\n1 1:3\n", r"all rows have the label 1, but two are needed$"),
    "parts.svm": (b"0.5 1:2\n1 1:3\n", r"0.5 are no classes: say --task regression if"),
    "huge.svm": (b"1e400 1:2\n-1 1:3\n", r"labels must be finite|line 1"),
    "table.svm": (b"first name,b\n1,2\n", r"line 1: .* in 'first name,b': .* say --format csv$"),
    "noise.svm": (bytes(range(256)) * 20, r"noise\.svm"),
    "zeros.svm": (bytes(1000), r"zeros\.svm"),
    "noise.svm.bz2": (b"nonsense", r"noise\.svm\.bz2 is truncated or corrupt"),
    "cut.svm.gz": (gzip.compress(b"1 1:2\n-1 1:3\n" * 99)[:-12], r"truncated or corrupt"),
    "cut.svm.bz2": (bz2.compress(b"1 1:2\n" * 9)[:-8], r"truncated or corrupt"),
    "inf.csv": (b"1,2,0\n3,inf,1\n", r"line 2: column 2 is not finite in '3,inf,1': .* missing"),
    "word.csv": (b"1,2,0\n3,4,1\n5,oops,1\n", r"line 3: column 2 is not a number in '5,oops,1'"),
    "short.csv": (b"1,2,0\n3,1\n", r"line 2: 2 columns where the first line has 3"),
    "long.csv": (b"1,2,0\n3,1,4,1\n", r"line 2: 4 columns where the first line has 3"),
    "single.csv": (b"1\n2\n", r"a label and at least one feature"),
    "numbers.csv": (b"0,1,2\n5,4,1\n3,2,0\n", r"line 1: 0,1,2,\.\.\. may be a row.*--header yes"),
    "pandas.csv": (b"0,1,2,label\n5,4,1,a\n3,2,0,b\n", r"line 1: 0,1,2,\.\.\. may be a row"),
    "empty.csv": (b"", r"empty\.csv is empty$"),
    "gap.csv": (b"1,,0\n3,1,1\n", r"line 1: column 2 is empty in"),
    "nolabel.csv": (b"1,2,0\n3,1,\n", r"line 2: column 3 is empty in '3,1,': .*--label"),
    "quote.csv": (b'1,2,a\n3,1,"b\n5,1,a\n', r"quote\.csv: .* line break: a quote is not closed"),
    "open.csv": (b'1,2,a\n3,"1,b\n5,1,a\n', r"line 2: 2 columns where the first line has 3"),
    "noise.csv": (bytes(range(256)) * 20, r"noise\.csv|not a line of CSV"),
    "bad.csv.gz": (b"not gzip at all", r"bad\.csv\.gz is truncated or corrupt"),
    "beyond.csv": (b"1e400,2,0\n3,1,1\n", r"line 1: column 1 is not finite in '1e400,2,0'"),
    "text.npz": (b"hello", r"text\.npz is not an \.npz archive"),
    "cut.npz": (b"PK\x03\x04 and then nothing", r"cut\.npz is not an \.npz archive"),
    "nothing.npz": (npz(), r"nothing\.npz must hold X and y"),
    "noy.npz": (npz(X=GOOD), r"noy\.npz has no labels"),
    "objects.npz": (npz(X=np.array([{}]), y=np.zeros(1)), r"objects\.npz.*pickle"),
    "yobjects.npz": (npz(X=GOOD, y=np.array([0, "a", 0, "a"], object)), r"yobjects\.npz.*pickle"),
    "strings.npz": (
        npz(X=GOOD.astype(str), y=np.array(LABELS)), r"strings\.npz: X must be numeric",
    ),
    "short.npz": (npz(X=GOOD, y=np.array([0, 1])), r"y must have|inconsistent"),
    "nan.npz": (npz(X=with_value(np.nan), y=np.array(LABELS)), r"nan\.npz: X .* is nan: fill"),
    "flat.npz": (npz(X=GOOD[0], y=np.array([0, 1])), r"flat\.npz: X must be two-dimensional"),
    "number.npz": (npz(X=np.array(1.5), y=np.array(1)), r"number\.npz: X must be two-dimensional"),
    "index.npz": (
        npz(**PARTS | {"indices": np.array([0, 1, 9]), "shape": [3, 3]}),
        r"index\.npz.*(index|indices)",
    ),
    "negative.npz": (
        npz(**PARTS | {"indices": np.array([0, -1, 2]), "shape": [3, 3]}), r"negative\.npz.*ind",
    ),
    "indptr.npz": (
        npz(**PARTS | {"indptr": np.array([0, 9, 2, 3]), "shape": [3, 3]}),
        r"indptr\.npz.*(indptr|index)",
    ),
    "floats.npz": (npz(**PARTS | {"indptr": np.arange(4.0), "shape": [3, 3]}), r"floats\.npz|ind"),
    "shape.npz": (npz(**PARTS, shape=np.array([3, -3])), r"shape\.npz|shape"),
    "three.npz": (npz(**PARTS, shape=np.array([3, 3, 3])), r"three\.npz|shape|dim"),
    "words.npz": (npz(**PARTS, shape=np.array(["a", "b"])), r"words\.npz"),
    "csc.npz": (npz(**PARTS, shape=np.array([3, 3]), format=np.array("csc")), r"must be CSR"),
    "formats.npz": (npz(**PARTS, shape=np.array([3, 3]), format=np.array(["csr"] * 2)), r"CSR"),
}  # fmt: skip

for _file, (_content, _message) in FILES.items():
    refused(
        "pegasos train", _file, command("train", "DATA", "-q", file=_file, content=_content),
        RefusedError, f"^pegasos: error: .*({_message})",
    )  # fmt: skip

ROWS_OF_CSV = b"1,2,0\n3,1,1\n2,2,0\n5,1,1\n"
OPTIONS = [
    (["--lam", "0"], r"lam must be a finite number > 0, got 0$"),
    (["--C", "-1"], r"--C must be a finite number > 0, got -1$"),
    (["--lam", "nan"], r"lam must be .* got nan"),
    (["--lam", "1e-310"], r"lam must be in \[1e-300, 1e300\], got 1e-310"),
    (["--lam", "small"], r"argument --lam: must be a number, got 'small'"),
    (["--n-steps", "0"], r"--n-steps must be an integer >= 1"),
    (["--n-steps", "1.5"], r"argument --n-steps: must be an integer, got '1\.5'"),
    (["--n-steps", "5", "--solver", "sdca"],
     r"--n-steps needs --solver pegasos, got --solver sdca"),
    (["--max-iter", "0"], r"--max-iter.*0"),
    (["--tol", "-1"], r"tol.*-1"),
    (["--solver", "pegasos", "--batch-size", "0"], r"--batch-size must be an integer >= 1.*0"),
    (["--batch-size", "5"], r"--batch-size goes with --solver pegasos or --n-steps$"),
    (["--solver", "pegasos", "--batch-size", str(2**55)],
     r"out of memory: --batch-size 36028797018963968"),
    (["--seed", "-1"], r"--seed must be in"),
    (["--jobs", "0"], r"--jobs must be.*0"),
    (["--solver", "lbfgs"], r"argument --solver: invalid choice: 'lbfgs'"),
    (["--cv", "1"], r"--cv must be an integer >= 2, got 1$"),
    (["--n-features", "1"], r"rows\.csv has 2 features, but 1 are expected$"),
    (["--n-features", "1", "--memory", "1M"], r"has 2 features, but --n-features is 1$"),
    (["--label", "7"], r"has 3 columns, there is no column 7"),
    (["--label", "-4"], r"has 3 columns, there is no column -4"),
    (["--format", "xls"], r"argument --format: invalid choice: 'xls'"),
    (["--format", "npz"], r"not an \.npz archive"),
    (["--format", "libsvm", "--drop", "0"], r"--drop is for tables.*'libsvm'"),
    (["--format", "npz", "--label", "0"], r"--label is for tables.*'npz'"),
    (["--format", "npy", "--header", "no"], r"--header is for CSV.*'npy'"),
    (["--zero-based", "yes"], r"--zero-based is for LIBSVM text, and the format of DATA is 'csv'"),
    (["--format", "libsvm", "--separator", ";"], r"--separator is for CSV.*'libsvm'"),
    (["-o", "/nowhere/model.npz"], r"No such file or directory"),
    (["--kernel", "rbf", "--gamma", "0"], r"gamma.*0"),
    (["--kernel", "rbf", "--gamma", "wide"],
     r"argument --gamma: must be a number, scale or auto, got 'wide'"),
    (["--kernel", "sigmoid", "--loss", "log_loss"],
     r"--loss hinge, .*--coef0 >= 0, or, in Python, say"),
    (["--kernel", "poly", "--degree", "-1"], r"degree.*-1"),
    (["--kernel", "poly", "--degree", "9" * 20], r"degree.*2147483647.* 9{20}"),
    (["--kernel", "rbf", "--cache-size", "-1"], r"--cache-size.*-1"),
    (["--gamma", "0.1"], r"--gamma goes with --kernel$"),
    (["--cache-size", "10"], r"--cache-size goes with --kernel$"),
    (["--checkpoint", "/nowhere/c.npz", "--checkpoint-every", "1e-9"], r"/nowhere/c\.npz.*No such"),
    (["--checkpoint", "c.npz", "--checkpoint-every", "0"], r"--checkpoint-every.*> 0, got 0$"),
    (["--checkpoint", "c.npz", "--checkpoint-every", "nan"], r"--checkpoint-every.*got nan"),
    (["--resume", "/nowhere/c.npz"], r"/nowhere/c\.npz: No such file"),
    (["--resume", "DATA"], r"rows\.csv is not a checkpoint: it is not an"),
    (["--resume", "MODEL"], r"model\.npz is a model, but no checkpoint"),
]  # fmt: skip

for _options, _message in OPTIONS:
    refused(
        "pegasos train", " ".join(_options),
        command("train", "DATA", "-q", *_options, file="rows.csv", content=ROWS_OF_CSV),
        RefusedError, _message,
    )  # fmt: skip
refused(
    "pegasos train", "--n-features",
    command("train", "DATA", "-q", "--n-features", "1", file="a.svm", content=b"1 2:1\n-1 1:1\n"),
    RefusedError, r"a\.svm has a feature number 2, counted from 1, but 1 features are expected",
)  # fmt: skip
for _words, _content, _message in (
    (["predict", "DATA", "DATA"], b"1,2\n", r"a\.csv is not a pegasos model"),
    (["predict", "MODEL", "nowhere.csv"], None, r"nowhere\.csv: No such file"),
    (["predict", "MODEL", "DATA"], b"5,2,3,4\n", r"a\.csv has 3 features, but 2 are expected"),
    (["predict", "MODEL", "DATA"], b"1,nan\n2,3\n", r"line 1: column 2 is not finite in '1,nan'"),
    (["predict", "MODEL", "DATA", "-o", "/nowhere/a"], b"1,2\n2,3\n", r"/nowhere/a"),
    (["predict", "MODEL"], None, r"arguments are required: DATA"),
    (["learn"], None, r"invalid choice: 'learn'"),
    (["demo", "-o", "/nowhere/a.svg"], None, r"/nowhere/a\.svg: No such file"),
):
    refused(
        f"pegasos {_words[0]}", " ".join(_words[1:]) + f" {_content}",
        command(*_words, file="a.csv", content=_content), RefusedError, _message,
    )  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CASES)
def test_bad_input_is_refused(call, error, message, tmp_path):
    with pytest.raises(error, match=message):
        call(tmp_path)


def test_flipped_bytes_are_refused_or_mean_nothing(tmp_path):
    """In arrays checksums tell, elsewhere parsers; what neither reads, such as times, is free."""
    for at in range(0, len(SAVED), 7):
        flipped = bytearray(SAVED)
        flipped[at : at + 4] = bytes(255 - byte for byte in flipped[at : at + 4])
        (tmp_path / "m.npz").write_bytes(flipped)
        try:
            model = pegasos.load(tmp_path / "m.npz")
        except ValueError as error:
            message = str(error)
        else:
            message = "m.npz is not a pegasos model: but it is"
            np.testing.assert_array_equal(model.coef, MODEL.coef)
            assert model.lam == MODEL.lam
        assert "m.npz is not a pegasos model: " in message


def test_good_labels_of_odd_types_are_accepted():
    for labels in (
        [0.5, 1.25] * 2, [True, False] * 2, ["b", "a"] * 2, np.array(["b", "a"] * 2, object),
        np.array([b"b", b"a"] * 2), np.array([1, 0.5] * 2, object), np.uint8([255, 0] * 2),
    ):  # fmt: skip
        model = paper.fit(GOOD, labels, 0.1, random_state=0)
        assert set(model.predict(GOOD)) <= set(np.asarray(labels).tolist())


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_masked_targets_are_refused(rng, n_outputs):
    y = np.ma.masked_greater(rng.normal(size=(20, n_outputs)), 1).squeeze()
    takers = [
        pegasos.PegasosRegressor().fit, pegasos.PegasosRegressorCV().fit,
        lambda X, y: paper.fit(X, y, 0.1, loss="huber"),
    ]  # fmt: skip
    for take in takers:
        with pytest.raises(ValueError, match="y must not have masked values; leave out their rows"):
            take(np.eye(20), y)


@pytest.mark.parametrize("type", ["bool", "int64", "float64"])
@pytest.mark.parametrize("kind", [pegasos.PegasosClassifier, pegasos.KernelPegasosClassifierCV])
def test_labels_stored_as_objects_are_told_their_type(kind, type):
    y = pd.Series([0, 1] * 10).astype(type)
    with pytest.raises(ValueError, match=rf"object, .* of type {type}\. Use y.astype\('{type}'\)"):
        kind().fit(np.eye(20), y.astype(object))
    assert kind().fit(np.eye(20), y).classes_.dtype == type


@pytest.mark.parametrize("label", [Fraction(1, 3), 2**70])
def test_labels_that_are_objects_for_good_are_not_told_to_become_objects(label):
    with pytest.raises(ValueError, match="Unknown label type: unknown"):
        pegasos.PegasosClassifier().fit(np.eye(20), np.array([1, label] * 10, dtype=object))


@pytest.mark.parametrize("type", [object, "string", "Int64", "boolean", "category", list])
@pytest.mark.parametrize(
    "kind", [pegasos.PegasosClassifier, pegasos.PegasosClassifierCV, pegasos.PegasosRegressor]
)
def test_labels_that_pandas_calls_missing_are_told_by_row(kind, type):
    y = pd.Series(["1", "0"] * 10, dtype="string")
    y = y.astype(int) if type in ("Int64", "boolean") else y
    y = y.astype(object if type is list else type)
    y[7] = pd.NA
    with pytest.raises(
        ValueError, match=r"y\[7\] is <?[nN][aA].*: leave out rows whose y is missing"
    ):
        kind().fit(np.eye(20), list(y) if type is list else y)


def test_labels_among_objects_are_saved_as_what_they_are(tmp_path):
    model = paper.fit(GOOD, np.array(LABELS, dtype=object), 0.1)
    model.save(tmp_path / "m.npz")
    assert pegasos.load(tmp_path / "m.npz").classes.tolist() == [0, 1]


def test_headers_of_numbers_are_read_as_told(tmp_path):
    (tmp_path / "a.csv").write_text("0,1,2\n5,4,1\n3,2,0\n")
    for header, n_rows in (("yes", 2), ("no", 3)):
        assert _readers.read(tmp_path / "a.csv", header=header)[0].shape == (n_rows, 2)


def test_data_frames_may_have_columns_named_like_parts_of_a_matrix():
    X = np.tile(GOOD, 2)[:, :3]
    frame = pd.DataFrame(X, columns=["data", "indices", "indptr"])
    expected = paper.fit(X, LABELS, 0.1, random_state=0).coef
    np.testing.assert_array_equal(paper.fit(frame, LABELS, 0.1, random_state=0).coef, expected)
    clf = paper.linear(lam=0.1, random_state=0).fit(frame, LABELS)
    np.testing.assert_array_equal(clf.coef_, expected)


def test_large_single_precision_features_have_room_in_double_precision(layout):
    X = convert(with_value(np.finfo(np.float32).max / 4, (0, 1)), layout, np.float32)
    model = paper.fit(X, LABELS, 1e-12, random_state=0)
    assert np.isfinite(model.objective).all()
    assert np.isfinite(model.decision_function(X)).all()


def test_odd_but_good_rows_are_accepted():
    X, y = make_rows(np.random.default_rng(0))
    expected = paper.fit(X, y, 0.1, random_state=0).coef
    for same in (
        X.tolist(),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X.astype(">f8"),
        X.astype(object),
        np.frombuffer(b"\0" * 3 + X.tobytes(), np.uint8)[3:].view(np.float64).reshape(X.shape),
    ):
        np.testing.assert_array_equal(paper.fit(same, y, 0.1, random_state=0).coef, expected)
    whole = (8 * X).astype(np.int16)
    a = paper.fit(whole, y, 0.1, random_state=0)
    b = paper.fit(whole.astype(float), y, 0.1, random_state=0)
    np.testing.assert_array_equal(a.coef, b.coef)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_another_byte_order_keep_their_precision(layout, dtype):
    X, y = make_rows(np.random.default_rng(0))
    X = convert(X, layout, dtype)
    swapped = X.copy()
    if layout == "dense":
        swapped = X.astype(X.dtype.newbyteorder())
    else:
        swapped.data = X.data.astype(X.dtype.newbyteorder())
    for estimator in (
        pegasos.PegasosClassifier(lam=0.1, random_state=0),
        pegasos.PegasosRegressor(lam=0.1, random_state=0),
    ):
        expected = base.clone(estimator).fit(X, y).coef_
        np.testing.assert_array_equal(estimator.fit(swapped, y).coef_, expected)
        model = pegasos.fit(X, y, 0.1, random_state=0, loss=estimator.loss, tol="auto")
        np.testing.assert_array_equal(model.coef, np.atleast_2d(expected))
        scores = estimator.to_model().decision_function(swapped)
        np.testing.assert_array_equal(scores, estimator.to_model().decision_function(X))


def test_import_loads_neither_scipy_nor_scikit_learn_and_estimators_no_matplotlib():
    code = (
        "import sys, numpy as np, pegasos;"
        "m = pegasos.fit(np.eye(4), [0, 1, 0, 1], 0.1); m.predict(np.eye(4));"
        "print([name for name in sys.modules if name.split('.')[0] in ('scipy', 'sklearn')]);"
        "pegasos.PegasosClassifier; print('matplotlib' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.split() == ["[]", "False"]


@pytest.mark.parametrize(
    ("module", "extra", "missing"),
    [("dask", "dask", "dask"), ("onnx", "onnx", "onnx"), ("plotting", "plot", "matplotlib")],
)
def test_what_needs_an_extra_names_it(module, extra, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, f"pegasos.{module}", raising=False)
    needs = rf'pegasos.{module} needs {missing}: pip install "pegasos\[{extra}\]"'
    with pytest.raises(ImportError, match=needs) as raised:
        importlib.import_module(f"pegasos.{module}")
    assert raised.value.__cause__ is None  # one traceback says all


@pytest.mark.parametrize("failed", [ImportError("broken", name="onnx"), ImportError("no name")])
def test_other_faults_of_an_extra_are_shown_as_the_cause(failed):
    with pytest.raises(ImportError, match="a needs onnx: pip install") as raised, needed_by(
        "a", "onnx", "onnx"
    ):  # fmt: skip
        raise failed
    assert raised.value.__cause__ is failed


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'PegasusClassifier'"):
        _ = pegasos.PegasusClassifier
    assert "PegasosClassifier" in dir(pegasos)


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        (pegasos.PegasosClassifier, "kernel", "names begin with Kernel"),
        (pegasos.PegasosClassifierCV, "kernel", "names begin with Kernel"),
        (pegasos.PegasosClassifier, "probability", "log_loss"),
        (pegasos.KernelPegasosClassifier, "probability", "predict_proba"),
        (pegasos.PegasosRegressor, "alpha", "SGDRegressor, and C is 1/alpha of Ridge"),
        (pegasos.KernelPegasosRegressorCV, "shrinking", "without changing the model"),
        (pegasos.PegasosClassifier, "dual", "the method is chosen"),
        (pegasos.PegasosClassifier, "early_stopping", "tol="),
        (pegasos.PegasosRegressor, "gamma", "begin with Kernel"),
        (pegasos.KernelPegasosClassifierCV, "gamma", "gammas="),
        (pegasos.PegasosRegressorCV, "epsilon", "epsilons="),
        (pegasos.PegasosClassifierCV, "param_grid", "Cs="),
        (pegasos.KernelPegasosClassifier, "break_ties", "largest wins"),
        (pegasos.PegasosClassifierCV, "nu", "PegasosOneClass"),
        (pegasos.KernelPegasosRegressorCV, "C", "searches take Cs="),
        (pegasos.KernelPegasosOneClass, "C", "nu="),
        (pegasos.PegasosOneClass, "alpha", "nu="),
        (pegasos.PegasosRegressorCV, "alpha", "lams="),
        (pegasos.PegasosClassifierCV, "penalty", "Cs="),
    ],
)
def test_parameters_of_other_libraries_are_answered_with_what_takes_their_place(kind, name, told):
    with pytest.raises(TypeError, match=rf"{kind.__name__} has no parameter '{name}': .*{told}"):
        kind(**{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        kind(nonsense=1)


def test_the_function_fit_says_what_takes_the_place_of_a_parameter():
    for name, told in (
        ("C", r"give lam=pegasos\.lam_from_C"), ("kernel", "begin with Kernel"), ("penalty", "lam"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"pegasos.fit has no parameter '{name}': .*{told}"):
            pegasos.fit(GOOD, LABELS, **{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        pegasos.fit(GOOD, LABELS, nonsense=1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_rows_that_are_none_are_no_matter_of_shape(make):
    """They were called an array of shape (), to be reshaped."""
    fitted = make().fit(GOOD, LABELS)
    for call in lambda: make().fit(None, LABELS), lambda: fitted.predict(None):
        with pytest.raises(ValueError, match=r"^X must be two-dimensional .*, got None$"):
            call()


def test_a_certificate_that_is_missing_says_what_sets_it():
    kind = pegasos.PegasosClassifier
    for clf in (kind(), kind().partial_fit(GOOD, LABELS, classes=[0, 1])):
        for name in ("objective_", "dual_objective_", "duality_gap_"):
            assert not hasattr(clf, name)
            with pytest.raises(AttributeError, match=f"has no {name}: only a fit.* partial_fit"):
                getattr(clf, name)


def test_texts_are_answered_with_what_makes_features_of_them():
    texts = ["a good film", "a bad one"]
    clf = pegasos.PegasosClassifier(C=100, random_state=0)
    for given in (texts, np.array(texts), np.array(texts, dtype=object)):
        with pytest.raises(ValueError, match=r"got 2 texts: .*\.TfidfVectorizer"):
            clf.fit(given, [0, 1])
        with pytest.raises(ValueError, match="got 2 texts"):
            pegasos.fit(given, [0, 1], 0.1)


@pytest.mark.filterwarnings("ignore")  # of what is learned
@pytest.mark.parametrize(
    "kind", ["PegasosClassifier", "KernelPegasosClassifier", "PegasosClassifierCV"]
)
def test_nan_in_a_data_frame_is_told_by_its_column(kind):
    make, y = getattr(pegasos, kind), np.arange(20) % 2
    frame = pd.DataFrame(np.arange(60.0).reshape(20, 3), columns=["a", "b", "c"])
    fitted = make().fit(frame, y)
    frame.loc[7, "c"] = np.nan
    message = r"but X\[7, 2\] \(column 'c'\) is nan: fill missing values in"
    with pytest.raises(ValueError, match=message):
        make().fit(frame, y)
    with pytest.raises(ValueError, match=message):
        fitted.predict(frame)


def test_text_in_a_data_frame_is_refused_by_the_name_of_its_column():
    pd = pytest.importorskip("pandas", reason="pandas is not installed (extra test)")
    frame = pd.DataFrame({"height": [1.0, 2.0], "town": ["Oslo", "Bergen"]})
    with pytest.raises(ValueError, match="text or the like in column 'town': encode it"):
        pegasos.PegasosClassifier().fit(frame, [0, 1])
    with pytest.raises(TypeError, match="column 'town' of X must be numeric, got dtype complex128"):
        pegasos.PegasosClassifier().fit(frame.assign(town=1j), [0, 1])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime.date(2020, 1, 1), "in column 'when': encode it"),
        ([1, 2], "in column 'when': encode it"),
        (pd.NA, "in column 'when': .* fill missing values in"),
    ],
    ids=str,
)
def test_columns_of_other_objects_are_refused_by_their_names(value, said):
    """The error was NumPy's, and named no column; or it told of text."""
    frame = pd.DataFrame({"height": [1.0, 2.0], "when": pd.Series([value, value], dtype=object)})
    with pytest.raises(ValueError, match=said):
        pegasos.PegasosClassifier().fit(frame, [0, 1])


def test_lazy_frames_are_refused_with_what_to_call():
    polars = pytest.importorskip("polars", reason="polars is not installed (extra interop)")
    with pytest.raises(TypeError, match=r"got a LazyFrame: use X\.collect\(\)"):
        pegasos.PegasosClassifier().fit(polars.LazyFrame({"a": [1.0, 2.0]}), [0, 1])


def test_coefficients_that_lost_an_axis_are_refused(rng):
    X = rng.normal(size=(20, 3))
    clf = pegasos.PegasosClassifier(random_state=0).fit(X, X[:, 0] > 0)
    clf.coef_ = clf.coef_.ravel()
    with pytest.raises(ValueError, match="coef and intercept must have 1 rows"):
        clf.decision_function(X)
    reg = pegasos.PegasosRegressor(random_state=0).fit(X, X[:, 0])
    reg.coef_ = reg.coef_[None]
    with pytest.raises(ValueError, match="coef and intercept must have 1 rows"):
        reg.predict(X)


@pytest.mark.parametrize("kind", ["category", "str", "object"])
@pytest.mark.parametrize("label", [True, "a"])
def test_missing_labels_of_pandas_are_named(rng, kind, label):
    """A hundred of them were a hundred classes."""
    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(200, 3))
    if kind == "str" and label is True:
        pytest.skip("text has no booleans")
    y = pd.Series([label, None] * 100, dtype=kind)
    for labels in (y, y.array):
        with pytest.raises(ValueError, match=r"y\[1\] is (nan|None): leave out rows whose y"):
            pegasos.fit(X, labels, 0.1)
    with pytest.raises(ValueError, match=r"classes\[1\] is (nan|None): leave it out"):
        pegasos.PegasosClassifier().partial_fit(X, [label] * 200, classes=y[:3])


def test_more_pairs_of_classes_than_memory_has_room_for_are_told():
    """NumPy told the size of an array."""
    told = r"multi_class='ovo' has \d+ problems for 2147483648 classes.*: multi_class='ovr' has"
    with pytest.raises(MemoryError, match=told):
        _multiclass.problem_labels(np.zeros(9, np.int64), 2**31, "ovo")
    told = (
        r"2\d* problems over 4294967296 rows are .* room for: sklearn.*OneVsRestClassifier trains"
    )
    codes = np.broadcast_to(np.int64(0), 2**32)
    with pytest.raises(MemoryError, match=told):
        _multiclass.problem_labels(codes, 2**31, "ovr")
