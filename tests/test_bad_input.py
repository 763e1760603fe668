"""Bad input is refused with a sentence that names what is wrong, and never crashes."""

import subprocess
import sys

import numpy as np
import pandas as pd
import paper
import pytest
from rows import convert, make_rows
from scipy import sparse

import pegasos

GOOD = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [1.0, 1.0]])
LABELS = [0, 1, 0, 1]


def csr(**changes):
    """GOOD as CSR, with broken parts."""
    X = sparse.csr_array(GOOD)
    for name, change in changes.items():
        array = getattr(X, name).copy()
        setattr(X, name, change(array))
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


BAD_ROWS = {
    "NaN": (with_value(np.nan), r"NaN|finite"),
    "infinity": (with_value(np.inf), r"[Ii]nfinity|finite"),
    "minus infinity": (with_value(-np.inf), r"[Ii]nfinity|finite"),
    "one dimension": (GOOD[0], r"1D|two-dimensional"),
    "three dimensions": (GOOD[None], r"dim 3|two-dimensional"),
    "no rows": (np.empty((0, 2)), r"0 sample|at least one row"),
    "no columns": (np.empty((4, 0)), r"0 feature|one column"),
    "complex": (GOOD + 1j, r"[Cc]omplex"),
    "objects": (np.array([[object()] * 2] * 4), r"float\(\) argument|numeric"),
    "strings": (np.array([["a", "b"]] * 4), r"could not convert|numeric"),
    "sparse NaN": (csr(data=put(0, np.nan)), r"NaN|finite"),
    "sparse infinity": (csr(data=put(1, np.inf)), r"[Ii]nfinity|finite"),
    "sparse complex": (sparse.csr_array(GOOD + 1j), r"[Cc]omplex"),
    "index too large": (csr(indices=put(1, 2)), r"X\.indices must be in \[0, 2\).*contains 2"),
    "index far too large": (csr(indices=put(1, 10**9)), r"contains 1000000000"),
    "index negative": (csr(indices=put(2, -1)), r"X\.indices.*contains -1"),
    "indptr decreasing": (csr(indptr=put(2, 0)), r"indptr must never decrease.*1 to 0"),
    "indptr not from zero": (csr(indptr=put(0, 1)), r"indptr must begin with 0, got 1"),
    "indptr negative": (csr(indptr=put(1, -5)), r"indptr must never decrease"),
    "indptr past the end": (csr(indptr=put(-1, 99)), r"at least X\.indptr\[-1\] = 99"),
    "indptr too short": (csr(indptr=lambda p: p[:-1]), r"indptr must have 5 entries.*got 4"),
    "indptr too long": (csr(indptr=lambda p: np.append(p, p[-1])), r"must have 5 entries.*got 6"),
    "data too short": (csr(data=lambda v: v[:-1]), r"X\.data must have at least"),
    "indices too short": (csr(indices=lambda v: v[:-1]), r"X\.indices must have at least"),
    "data of two dimensions": (
        csr(data=lambda v: v[:, None]),
        r"X\.data must be a one-dim|1-D|one",
    ),
    "masked": (np.ma.masked_less(GOOD, 0.5), r"masked"),
    "indices not integers": (csr(indices=lambda v: v.astype(float)), r"indices must be.*integers"),
}

BAD_LABELS = {
    "one class": ([1, 1, 1, 1], r"one class|class"),
    "too few": ([0, 1, 0], r"inconsistent|one label per row"),
    "two columns": (np.zeros((4, 2), int), r"1d|one-dimensional|multi"),
    "NaN": ([0.0, 1.0, np.nan, 1.0], r"NaN|finite"),
    "NaN among objects": (np.array([0.0, 1.0, np.nan, 1.0], dtype=object), r"NaN"),
    "complex": (np.array([0, 1, 0, 1j]), r"[Cc]omplex|dtype"),
}

BAD_WEIGHTS = {
    "all zero": (np.zeros(4), r"weight.*zero"),
    "negative": ([1, -1, 1, 1], r"sample_weight must be >= 0.*\[1\] is -1"),
    "NaN": ([1, np.nan, 1, 1], r"sample_weight must be finite"),
    "infinity": ([1, np.inf, 1, 1], r"sample_weight must be finite"),
    "too few": ([1, 1], r"sample_weight.*4"),
    "two columns": (np.ones((4, 1)), r"sample_weight must be 1D"),
    "strings": (["a"] * 4, r"sample_weight must be numeric"),
    "one class left": ([1, 0, 1, 0], r"two classes.*one class"),
}

# name, value, what the message says; both for pegasos.fit and for the estimator
BAD_PARAMETERS = [
    ("lam", 0, r"lam.*0"),
    ("lam", -1e-3, r"lam.*-0\.001"),
    ("lam", float("nan"), r"lam.*nan"),
    ("lam", float("inf"), r"lam.*inf"),
    ("lam", "small", r"lam.*small"),
    ("lam", None, r"lam.*None"),
    ("lam", 1j, r"lam.*1j"),
    ("lam", 10**400, r"lam"),
    ("intercept_scaling", 1e155, r"intercept_scaling.*1e\+100.*1e\+155"),
    ("n_steps", 2**70, r"n_steps"),
    ("n_steps", 0, r"n_steps.*0"),
    ("n_steps", -5, r"n_steps.*-5"),
    ("n_steps", 1.5, r"n_steps.*1\.5"),
    ("max_iter", 0, r"max_iter.*0"),
    ("max_iter", "many", r"max_iter.*many"),
    ("batch_size", 0, r"batch_size.*0"),
    ("batch_size", 2.5, r"batch_size.*2\.5"),
    ("sampling", "random", r"sampling.*permutation.*random"),
    ("sampling", None, r"sampling.*None"),
    ("project", "yes", r"project.*yes"),
    ("average", "mean", r"average.*suffix.*mean"),
    ("average", 2, r"average.*2"),
    ("fit_intercept", "no", r"fit_intercept.*no"),
    ("intercept_scaling", 0, r"intercept_scaling.*0"),
    ("intercept_scaling", float("nan"), r"intercept_scaling.*nan"),
    ("multi_class", "crammer_singer", r"multi_class.*ovo.*crammer_singer"),
    ("random_state", -1, r"random_state.*-1"),
    ("random_state", "seed", r"random_state.*seed|seed.*random_state"),
]


@pytest.mark.parametrize(("X", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_are_refused_by_fit(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        paper.fit(X, LABELS, 0.1)
    with pytest.raises((ValueError, TypeError), match=message):
        paper.linear().fit(X, LABELS)
    with pytest.raises((ValueError, TypeError), match=message):
        paper.linear().partial_fit(X, LABELS, classes=[0, 1])


@pytest.mark.parametrize(("X", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_are_refused_at_prediction(X, message):
    model = paper.fit(GOOD, LABELS, 0.1)
    with pytest.raises((ValueError, TypeError), match=message):
        pegasos.decision_function(model, X)
    with pytest.raises((ValueError, TypeError), match=message):
        paper.linear().fit(GOOD, LABELS).predict(X)


@pytest.mark.parametrize(("y", "message"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_labels_are_refused(y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        paper.fit(GOOD, y, 0.1)
    with pytest.raises((ValueError, TypeError), match=message):
        paper.linear().fit(GOOD, y)


@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_weights_are_refused(weights, message):
    with pytest.raises((ValueError, TypeError), match=message):
        paper.fit(GOOD, LABELS, 0.1, sample_weight=weights)
    with pytest.raises((ValueError, TypeError), match=message):
        paper.linear().fit(GOOD, LABELS, sample_weight=weights)


@pytest.mark.parametrize(("name", "value", "message"), BAD_PARAMETERS)
def test_parameters_are_refused_by_name_and_value(name, value, message):
    with pytest.raises((ValueError, TypeError), match=message):
        paper.fit(GOOD, LABELS, **{"lam": 0.1, name: value})
    with pytest.raises((ValueError, TypeError), match=message):
        paper.linear(**{name: value}).fit(GOOD, LABELS)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([], "order"),
        ([0, 4], r"order must be in \[0, 4\), but contains 4"),
        ([0, -1], r"contains -1"),
        ([0.5], "order"),
        ([[0]], "order"),
    ],
)
def test_orders_are_refused(order, message):
    with pytest.raises(ValueError, match=message):
        paper.fit(GOOD, LABELS, 0.1, order=order)


@pytest.mark.parametrize("X", [np.ones((2, 3)), sparse.csr_array(np.ones((2, 3))), np.ones((2, 1))])
def test_another_number_of_features_is_refused_at_prediction(X):
    model = paper.fit(GOOD, LABELS, 0.1)
    with pytest.raises(ValueError, match=rf"{X.shape[1]} features.*2"):
        pegasos.decision_function(model, X)
    with pytest.raises(ValueError, match=rf"{X.shape[1]} features.*2"):
        paper.linear().fit(GOOD, LABELS).predict(X)


def test_other_sparse_formats_are_refused_by_fit_with_advice():
    with pytest.raises(TypeError, match=r"format 'csc'.*tocsr"):
        paper.fit(sparse.csc_array(GOOD), LABELS, 0.1)


def test_malformed_diagonals_and_lists_are_refused_by_the_estimator():
    X = sparse.dia_array(GOOD)
    X.offsets = X.offsets[:1]
    with pytest.raises(ValueError, match=r"X\.offsets must have one entry per row"):
        paper.linear().fit(X, LABELS)
    X = sparse.lil_array(GOOD)
    X.rows[0] = [0, 1, 1]
    with pytest.raises(ValueError, match=r"same lengths"):
        paper.linear().fit(X, LABELS)


def test_an_order_too_short_for_a_step_is_refused():
    with pytest.raises(ValueError, match=r"batch_size=2 draws.*got 1"):
        paper.fit(GOOD, LABELS, 0.1, order=[0], batch_size=2)
    with pytest.raises(ValueError, match="rows that have weight"):
        paper.fit(GOOD, LABELS, 0.1, order=[0], sample_weight=[0, 1, 1, 1])


def test_data_frames_may_have_columns_named_like_parts_of_a_matrix():
    frame = pd.DataFrame(np.tile(GOOD, 2)[:, :3], columns=["data", "indices", "indptr"])
    paper.fit(frame, LABELS, 0.1)
    paper.linear().fit(frame, LABELS)


def test_bad_class_weights_are_named():
    with pytest.raises(ValueError, match=r"class_weight\[0\] must be .*>= 0, got -1"):
        paper.linear(class_weight={0: -1, 1: 1}).fit(GOOD, LABELS)


def test_conversions_refuse_what_overflows():
    for C, n in ((10**400, 1), (1e-300, 1e-300), (1e300, 1e300)):
        with pytest.raises(ValueError, match="C "):
            pegasos.lam_from_C(C, n)


def test_labels_that_cannot_be_saved_are_refused(tmp_path):
    model = paper.fit(GOOD, np.array(LABELS, dtype=object), 0.1)
    model.save(tmp_path / "m.npz")
    assert pegasos.LinearModel.load(tmp_path / "m.npz").classes.tolist() == [0, 1]
    model = paper.fit(GOOD, np.array([b"a", b"b"])[LABELS], 0.1)
    with pytest.raises(ValueError, match="labels must be numbers or strings to be saved"):
        model.save(tmp_path / "m.npz")


@pytest.mark.parametrize("make", [sparse.csc_array, sparse.coo_array, sparse.bsr_array])
def test_malformed_matrices_of_other_formats_are_refused_by_the_estimator(make):
    X = make(GOOD)
    if X.format == "coo":
        X.coords[0][0] = 77
    else:
        X.indices[0] = 77
    with pytest.raises(ValueError, match="77"):
        paper.linear().fit(X, LABELS)


def test_a_model_of_the_wrong_kind_is_refused():
    with pytest.raises(TypeError, match=r"model must be what pegasos\.fit returns"):
        pegasos.decision_function({"coef": 1}, GOOD)


def test_features_that_overflow_are_an_error_with_advice(layout):
    X = convert(with_value(np.finfo(np.float64).max / 4, (0, 1)), layout, np.float64)
    with pytest.raises(ValueError, match=r"overflowed.*Scale X"):
        paper.fit(X, LABELS, 1e-12, random_state=0)
    with pytest.raises(ValueError, match=r"overflowed.*Scale X"):
        paper.linear(1e-12, random_state=1).fit(X, LABELS)


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


def test_import_loads_neither_scipy_nor_scikit_learn():
    code = (
        "import sys, numpy as np, pegasos;"
        "m = pegasos.fit(np.eye(4), [0, 1, 0, 1], 0.1); m.predict(np.eye(4));"
        "print([name for name in sys.modules if name.split('.')[0] in ('scipy', 'sklearn')])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'PegasusClassifier'"):
        _ = pegasos.PegasusClassifier
    assert "PegasosClassifier" in dir(pegasos)
