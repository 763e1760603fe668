"""What scikit-learn's own tests ask of `SVC`, `LinearSVC` and `SGDClassifier`, asked of ours.

After ``sklearn/svm/tests`` (test_svm.py, test_sparse.py) and
``sklearn/linear_model/tests/test_sgd.py`` of scikit-learn 1.9: classification only, without losses,
penalties and learning rates that are not here. C becomes λ = 1/(C m), m the sum of the weights,
and alpha becomes λ. `SVC` and `SGDClassifier` have free intercepts. What differs on purpose is
listed in ``docs/coming_from.rst`` and is tested here, too. Bad input is in test_bad_input.py; what
all estimators share is in the files of that.
"""

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.utils.class_weight import compute_class_weight

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    KernelPegasosRegressor,
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosRegressor,
    lam_from_C,
)

# Two classes of three rows on either side of the origin, and rows to predict.
X = np.array([[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1]], dtype=np.float64)
Y = np.array([1, 1, 1, 2, 2, 2])
T, ANSWERS = np.array([[-1.0, -1], [2, 2], [3, 2]]), [1, 2, 2]
# Three classes with names.
X3 = np.array(
    [[-1, 1], [-0.75, 0.5], [-1.5, 1.5], [1, 1], [0.75, 0.5], [1.5, 1.5], [-1, -1], [0, -0.5],
     [1, -1]]
)  # fmt: skip
Y3 = np.array(["one"] * 3 + ["two"] * 3 + ["three"] * 3)
T3, ANSWERS3 = np.array([[-1.5, 0.5], [1, 2], [0, -2]]), ["one", "two", "three"]
IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = load_iris().target_names

LINEAR, KERNEL = PegasosClassifier, KernelPegasosClassifier
BOTH = pytest.mark.parametrize("kind", [LINEAR, KERNEL])
LOSSES = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
PAIRS = pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
FORMATS = [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.lil_array, sp.dok_array, sp.coo_array]


def name_of(kernel):
    """The same in every process, unlike the address of a function."""
    return getattr(kernel, "__name__", str(kernel))


def product(x, z):
    return x @ z.T


def svc(C=1.0, mass=6, **options):
    """The `SVC` with this C, for rows of this weight altogether."""
    options = {"tol": 1e-8, "random_state": 0, **options}
    return KERNEL(lam=lam_from_C(C, mass), penalize_intercept=False, **options)


def linear_svc(C=1.0, mass=6, **options):
    """The `LinearSVC` with this C, of its default loss."""
    options = {"tol": 1e-8, "random_state": 0, "loss": "squared_hinge", **options}
    return LINEAR(lam=lam_from_C(C, mass), **options)


def plain(epochs=5, lam=0.01, **options):
    """Pegasos itself, as `SGDClassifier` goes: so many epochs and no other solver."""
    options = {"random_state": 0, "tol": None, "solver": "pegasos", **options}
    return LINEAR(lam=lam, max_iter=epochs, **options)


# ---- Machines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "precomputed", product], ids=name_of)
def test_two_opposite_rows_support_the_line_between_them(kernel):
    given = kernel == "precomputed"
    machine = svc(kernel=kernel).fit(product(X, X) if given else X, Y)
    assert_array_equal(machine.support_, [1, 3])
    assert_array_equal(machine.n_support_, [1, 1])
    assert_allclose(machine.dual_coef_, [[-0.25, 0.25]], rtol=1e-3)
    assert_allclose(machine.intercept_, 0, atol=1e-4)
    rows = product(T, X) if given else T
    assert_array_equal(machine.predict(rows), ANSWERS)
    if given:  # values with other rows than support vectors are not read
        rows[:, [0, 2, 4, 5]] = 0
        assert_array_equal(machine.predict(rows), ANSWERS)
        with pytest.raises(ValueError, match=r"3 features.*expecting 6"):
            machine.predict(rows.T)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_pairs_of_equal_classes_have_the_scores_of_svc(kernel, C):
    rows = StandardScaler().fit_transform(IRIS)
    theirs = SVC(C=C, kernel=kernel, tol=1e-8, break_ties=True).fit(rows, SPECIES)
    ours = svc(C, 100, kernel=kernel, multi_class="ovo").fit(rows, SPECIES)
    assert_allclose(ours.decision_function(rows), theirs.decision_function(rows), atol=1e-3)
    assert_array_equal(ours.predict(rows), theirs.predict(rows))
    assert_allclose(ours.intercept_, -theirs.intercept_, atol=1e-3)


@LOSSES
def test_machines_of_every_class_are_those_of_linear_svc(loss):
    theirs = LinearSVC(C=0.5, loss=loss, tol=1e-8, max_iter=10**6).fit(IRIS, SPECIES)
    ours = linear_svc(0.5, len(IRIS), loss=loss).fit(IRIS, SPECIES)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


@PAIRS
@pytest.mark.parametrize(
    "machine", [linear_svc(mass=150), svc(mass=150, kernel="linear"), svc(mass=150)]
)
def test_species_are_told_apart_by_name(machine, multi_class):
    labels = NAMES[SPECIES]
    machine = clone(machine).set_params(multi_class=multi_class).fit(IRIS, labels)
    assert_array_equal(machine.classes_, np.sort(NAMES))
    scores, predicted = machine.decision_function(IRIS), machine.predict(IRIS)
    assert np.mean(predicted == labels) > 0.9
    assert_array_equal(machine.classes_[scores.argmax(axis=1)], predicted)
    assert hasattr(machine, "coef_") == (getattr(machine, "kernel", "linear") == "linear")
    assert not hasattr(machine, "predict_proba")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("rows", "labels"), [(X, Y), (IRIS, SPECIES)])
def test_scores_are_sums_over_support_vectors(kernel, rows, labels):
    machine = svc(10, len(rows), kernel=kernel, gamma=0.5, tol=1e-3).fit(rows, labels)
    vectors, scores = machine.support_vectors_, machine.decision_function(rows)
    assert_array_equal(vectors, rows[machine.support_])
    values = product(rows, vectors) if kernel == "linear" else rbf_kernel(rows, vectors, gamma=0.5)
    sums = values @ machine.dual_coef_.T + machine.intercept_
    assert_allclose(scores, sums.ravel() if scores.ndim == 1 else sums, atol=1e-9)
    if scores.ndim == 1:
        winners = (scores > 0).astype(int)
        assert_array_equal(machine.predict(rows), machine.classes_[winners])
    if kernel == "linear":
        assert_allclose(rows @ machine.coef_.T + machine.intercept_, sums, atol=1e-9)


@LOSSES
@BOTH
def test_the_objective_is_the_sum_of_penalty_and_losses(kind, loss):
    machine = kind(lam=0.05, loss=loss, fit_intercept=False, tol=1e-4).fit(IRIS[50:], SPECIES[50:])
    u = np.maximum(0, 1 - (2 * SPECIES[50:] - 3) * machine.decision_function(IRIS[50:]))
    mean = np.mean(u if loss == "hinge" else u**2)
    assert_allclose(machine.objective_, 0.05 / 2 * machine.weight_norm_**2 + mean)


@BOTH
@PAIRS
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_there_is_a_score_for_every_class(kind, multi_class, n_classes):
    rows, labels = make_blobs(80, centers=n_classes, random_state=0)
    machine = kind(lam=0.01, multi_class=multi_class, random_state=0).fit(rows, labels)
    scores = machine.decision_function(rows)
    assert scores.shape == ((80,) if n_classes == 2 else (80, n_classes))
    winners = scores > 0 if n_classes == 2 else scores.argmax(axis=1)
    assert_array_equal(machine.predict(rows), winners)
    assert machine.decision_function(rows[:1]).shape == scores[:1].shape
    n_problems = 1 if n_classes == 2 else n_classes
    if multi_class == "ovo":
        n_problems = n_classes * (n_classes - 1) // 2
    assert machine.intercept_.shape == machine.n_steps_.shape == (n_problems,)


@BOTH
@PAIRS
def test_far_rows_of_a_quadrant_have_larger_scores(kind, multi_class):
    corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    options = {"kernel": "linear"} if kind is KERNEL else {}
    machine = kind(lam=1 / 4, multi_class=multi_class, random_state=0, **options)
    machine.fit(corners, [0, 1, 2, 3])
    near, far = machine.decision_function(5 * corners), machine.decision_function(10 * corners)
    for scores in (near, far):
        assert_array_equal(scores.argmax(axis=1), [0, 1, 2, 3])
    assert (near.max(axis=1) > 0).all()
    assert (near.max(axis=1) < far.max(axis=1)).all()


@pytest.mark.parametrize(
    "machine",
    [
        LINEAR(lam=0.01, loss="squared_hinge"),
        LINEAR(lam=1e3),
        KERNEL(lam=0.01, gamma=1.0),
        KERNEL(lam=1e5, gamma=1e6),
        KERNEL(lam=0.01, gamma=1e3, solver="newton"),
        KERNEL(lam=0.01, gamma=1e3, kernel="laplacian", multi_class="ovo"),
        KernelPegasosClassifierCV(lams=[0.01], gammas=[0.1, 1e4], cv=3),
        KernelPegasosClassifierCV(lams=[0.01], gammas=[0.1, 1e4], cv=3, cv_effort=2),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("size", [1, 1e-30, 1e-200])
def test_numbers_too_small_for_floats_are_no_errors(machine, size):
    """Kernel values of rows that lie far apart, for instance."""
    machine = clone(machine).set_params(random_state=0)
    rows = IRIS * size
    expected = clone(machine).fit(rows, SPECIES).decision_function(1e3 * rows + 1e3)
    with np.errstate(all="raise"):
        scores = machine.fit(rows, SPECIES).decision_function(1e3 * rows + 1e3)
    assert_array_equal(scores, expected)
    small = rows.astype(np.float32)
    with np.errstate(all="raise"):
        machine.fit(small, SPECIES).predict(small)


@PAIRS
def test_ties_go_to_the_largest_score(multi_class):
    """As with ``break_ties=True``; far from all rows, the intercepts decide."""
    rows, labels = make_blobs(20, random_state=0)
    machine = svc(1, 20, gamma=1e6, multi_class=multi_class, tol=1e-3).fit(rows, labels)
    plane = np.random.default_rng(0).uniform(rows.min(), rows.max(), (500, 2))
    scores = machine.decision_function(plane)
    assert_array_equal(machine.predict(plane), scores.argmax(axis=1))


@BOTH
def test_so_small_a_lam_is_the_hard_margin(kind):
    options = {"kernel": "linear"} if kind is KERNEL else {}
    for C in (1e6, 1e8):
        options |= {"penalize_intercept": False, "random_state": 0}
        machine = kind(lam=lam_from_C(C, len(X)), **options).fit(X, Y)
        assert_allclose(machine.coef_, [[0.5, 0.5]], rtol=0.02)
        assert_array_equal(machine.predict(T), ANSWERS)


def test_the_scale_of_the_constant_feature_frees_the_intercept():
    rows, labels = [[2, 1], [3, 1], [1, 3], [2, 3]], [0, 0, 1, 1]
    for scaling in (1, 100, 1000):
        theirs = LinearSVC(C=4, intercept_scaling=scaling, tol=1e-8, max_iter=10**6)
        ours = linear_svc(4, 4, intercept_scaling=scaling).fit(rows, labels)
        assert_allclose(ours.intercept_, theirs.fit(rows, labels).intercept_, rtol=1e-3)
    for machine in (LINEAR(lam=0.1, fit_intercept=False), KERNEL(lam=0.1, fit_intercept=False)):
        assert_array_equal(machine.fit(rows, labels).intercept_, [0])


def test_gamma_comes_from_the_rows():
    for rows, labels, scale in (([[0.0], [1.0]], [0, 1], 4.0), (X, Y, 1 / (2 * X.var()))):
        d = np.shape(rows)[1]
        for gamma, value in (("scale", scale), ("auto", 1 / d)):
            named, given = (svc(gamma=g).fit(rows, labels) for g in (gamma, value))
            assert_allclose(named.decision_function(rows), given.decision_function(rows), rtol=1e-9)


# ---- Weights -------------------------------------------------------------------------------------


def test_a_class_of_little_weight_is_given_up():
    assert_array_equal(svc(mass=3.3, class_weight={1: 0.1}).fit(X, Y).predict(X), [2] * 6)
    weights = [0.1] * 3 + [10] * 3
    assert_array_equal(svc(mass=30.3).fit(X, Y, sample_weight=weights).predict(X), [2] * 6)


@pytest.mark.parametrize("machine", [linear_svc(mass=505), svc(mass=505)])
def test_a_rare_class_is_found_by_its_weight(machine):
    rows, labels = make_classification(200, 10, weights=[0.833, 0.167], random_state=2)
    machine = clone(machine).set_params(class_weight={0: 0.1, 1: 10}, tol=1e-3)
    machine.fit(rows[:100], labels[:100])
    assert f1_score(labels[100:], machine.predict(rows[100:])) > 0.3


def test_weights_of_classes_and_of_rows_decide_on_the_line_between_them():
    """The row to predict is where f is 0 at the optimum without weights."""
    rows, labels = [[-1, -1], [-1, 0], [-0.8, -1], [1, 1], [1, 0]], [1, 1, 1, -1, -1]

    def score(sample_weight=None, **options):
        machine = LINEAR(lam=0.1, fit_intercept=False, tol=1e-8, random_state=0, **options)
        machine.fit(np.array(rows), labels, sample_weight=sample_weight)
        return machine.decision_function([[0.2, -1.0]])

    assert_allclose(score(), 0, atol=1e-4)
    light = score(class_weight={1: 0.001})
    assert light < -0.1
    assert_allclose(light, score([0.001] * 3 + [1] * 2), rtol=1e-4)


def test_heavy_rows_turn_the_line():
    rows, between = [[-2, 0], [-1, -1], [0, -2], [0, 2], [1, 1], [2, 0]], [[-1.0, 1.0]]

    def score(*weights):
        machine = svc(0.01, sum(weights), kernel="linear")
        return machine.fit(rows, Y, sample_weight=weights).decision_function(between)

    assert_allclose(score(1, 1, 1, 1, 1, 1), 0, atol=1e-6)
    assert score(10, 0.1, 0.1, 0.1, 0.1, 10) < -0.1
    assert score(1, 0.1, 10, 10, 0.1, 0.1) > 0.1


def test_balanced_weights_of_weighted_rows():
    """SVC and SGDClassifier balance counts of rows, LinearSVC and ours sums of their weights."""
    X, y = make_classification(80, 4, weights=[0.7], class_sep=0.5, random_state=0)
    weights = np.random.RandomState(0).uniform(0.1, 1, 80) * np.where(y, 3, 1)
    counts = dict(enumerate(compute_class_weight("balanced", classes=np.unique(y), y=y)))
    options = {"C": 0.5, "tol": 1e-8, "random_state": 0}
    theirs = SVC(class_weight="balanced", gamma=0.1, C=0.5, tol=1e-8).fit(X, y, weights)
    scores = [
        KERNEL(class_weight=balance, gamma=0.1, penalize_intercept=False, **options)
        .fit(X, y, weights)
        .decision_function(X)
        for balance in ("balanced", counts)
    ]
    assert abs(scores[0] - theirs.decision_function(X)).max() > 0.1
    assert_allclose(scores[1], theirs.decision_function(X), atol=1e-3)
    coefs = [
        SGDClassifier(class_weight=balance, random_state=0).fit(X, y, sample_weight=weights).coef_
        for balance in ("balanced", counts)
    ]
    assert_array_equal(*coefs)


@pytest.mark.parametrize("kind", [PegasosRegressor, KernelPegasosRegressor])
def test_targets_of_one_column_have_predictions_of_one_column(kind, rng):
    """Those of LinearSVR, SVR and Ridge have one dimension."""
    X = rng.normal(size=(30, 3))
    assert kind(random_state=0).fit(X, X[:, :1]).predict(X).shape == (30, 1)
    with pytest.warns(DataConversionWarning):
        assert SVR().fit(X, X[:, :1]).predict(X).shape == (30,)


@BOTH
def test_the_scale_of_all_weights_does_not_matter(kind):
    alone, *scaled = (
        kind(lam=0.1, tol=1e-8, random_state=0).fit(X, Y, sample_weight=w).decision_function(T)
        for w in (None, np.full(6, 0.01), 100.0)
    )
    assert_allclose(scaled, [alone, alone], rtol=1e-6)


def test_balanced_weights_help_rare_classes_and_change_nothing_else():
    rows = StandardScaler().fit_transform(IRIS)

    def score(class_weight, times):
        X = np.vstack([rows, *[rows[:50]] * times])
        y = np.concatenate([SPECIES, *[SPECIES[:50]] * times])
        machine = LINEAR(lam=0.01, class_weight=class_weight, random_state=0).fit(X, y)
        return f1_score(SPECIES, machine.predict(rows), average="weighted"), machine.coef_

    (before, coef), (after, balanced) = score(None, 0), score("balanced", 0)
    assert before == after > 0.9
    assert_allclose(coef, balanced, atol=1e-6)
    assert score(None, 30)[0] < score("balanced", 30)[0]


# ---- Forms of data -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", product, None], ids=name_of)
@pytest.mark.parametrize(("rows", "labels"), [(X, Y), (X3, Y3)], ids=["two", "three"])
def test_sparse_rows_make_the_machines_of_dense_ones(make, kernel, rows, labels):
    machine = LINEAR(lam=0.1, random_state=0)
    if kernel is not None:
        machine = KERNEL(lam=0.1, kernel=kernel, gamma=0.3, random_state=0)
    dense, sparse = clone(machine).fit(rows, labels), clone(machine).fit(make(rows), labels)
    scores = dense.decision_function(rows)
    for trained in (dense, sparse):  # each scores both kinds of rows
        assert_allclose(trained.decision_function(make(rows)), scores, atol=1e-9)
        assert_allclose(trained.decision_function(rows), scores, atol=1e-9)
    if kernel is not None:
        assert_array_equal(dense.support_, sparse.support_)
        assert sp.issparse(sparse.support_vectors_)
        assert_array_equal(sparse.support_vectors_.toarray(), dense.support_vectors_)
        assert_allclose(sparse.dual_coef_, dense.dual_coef_, atol=1e-9)
    if kernel in (None, "linear"):
        assert_allclose(sparse.coef_, dense.coef_, atol=1e-9)


@PAIRS
@pytest.mark.parametrize(
    "machine", [LINEAR(lam=0.01), KERNEL(lam=0.01, kernel="linear"), KERNEL(lam=0.01)]
)
def test_rows_of_zeros_are_rows(machine, multi_class, rng):
    """Four numbers in 80 rows, and four classes."""
    entries = [0.04, 0.1, 0.01, 0.03], ([7, 39, 77, 77], [6, 5, 35, 31])
    rows, labels = sp.coo_array(entries, shape=(80, 36)), rng.integers(0, 4, 80)
    machine = clone(machine).set_params(multi_class=multi_class, random_state=0)
    dense, sparse = clone(machine).fit(rows.toarray(), labels), machine.fit(rows, labels)
    scores = dense.decision_function(rows.toarray())
    assert_allclose(sparse.decision_function(rows), scores, atol=1e-9)
    assert_array_equal(dense.predict(rows.toarray()), dense.classes_[scores.argmax(axis=1)])


@BOTH
def test_the_order_of_indices_in_a_row_does_not_matter(kind, rng):
    rows = sp.random_array((50, 30), density=0.3, random_state=rng, format="csr")
    labels = rng.integers(0, 3, 50)
    turned = rows.copy()
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        turned.indices[start:stop] = rows.indices[start:stop][::-1]
        turned.data[start:stop] = rows.data[start:stop][::-1]
    turned.has_sorted_indices = turned.has_canonical_format = False
    straight = kind(lam=0.01, random_state=0).fit(rows, labels).decision_function(rows)
    other = kind(lam=0.01, random_state=0).fit(turned, labels).decision_function(turned)
    assert_allclose(other, straight, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_weights_are_in_double_precision_whatever_the_rows_are(dtype):
    coef = plain(22).fit(X.astype(dtype), Y.astype(dtype)).coef_
    assert coef.dtype == np.float64
    assert_allclose(coef, plain(22).fit(X, Y).coef_, rtol=1e-5)


@BOTH
def test_a_machine_is_fitted_again_to_other_data(kind):
    machine = kind(lam=0.1, random_state=0).fit(X, Y)
    machine.fit(X[:, :1], np.array(["ham", "spam"])[Y - 1])
    assert machine.n_features_in_ == 1
    assert_array_equal(machine.predict(X[:, :1]), np.array(["ham", "spam"])[Y - 1])


# ---- Fitted attributes ---------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "labels"), [(X, Y), (IRIS, SPECIES)])
def test_weights_of_linear_machines_may_be_set(rows, labels):
    machine = LINEAR(lam=0.1, random_state=0).fit(rows, labels)
    scores = machine.decision_function(rows)
    machine.coef_, machine.intercept_ = machine.coef_.copy(), machine.intercept_.copy()
    assert_array_equal(machine.decision_function(rows), scores)
    machine.coef_, machine.intercept_ = -machine.coef_, -machine.intercept_
    assert_array_equal(machine.decision_function(rows), -scores)


@pytest.mark.parametrize(("rows", "labels"), [(X, Y), (IRIS, SPECIES)])
def test_dual_coefficients_may_be_set_and_weights_of_kernel_machines_may_not(rows, labels):
    machine = svc(mass=len(rows), kernel="linear", tol=1e-3).fit(rows, labels)
    scores = machine.decision_function(rows)
    with pytest.raises(AttributeError):
        machine.coef_ = np.zeros_like(machine.coef_)
    with pytest.raises(ValueError, match="read-only"):
        machine.coef_[0, 0] = 0
    machine.dual_coef_, machine.intercept_ = -machine.dual_coef_, -machine.intercept_
    assert_allclose(machine.decision_function(rows), -scores, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_altered_machines_do_not_read_what_is_not_there(kernel):
    rows = X @ X.T if kernel == "precomputed" else X
    machine = svc(kernel=kernel).fit(rows, Y)
    predicted = machine.predict(rows)
    machine.n_support_[0] = 10**6
    assert_array_equal(machine.predict(rows), predicted)
    machine.dual_coef_ = np.ones((1, 50))
    with pytest.raises(ValueError, match=r"has shape|model expects 50"):
        machine.predict(rows)


def test_kernel_functions_see_support_vectors_only_when_they_predict():
    seen = []

    def kernel(x, z):
        seen.append(len(z))
        return product(x, z)

    machine = svc(kernel=kernel).fit(X, Y)
    seen.clear()
    assert_array_equal(machine.predict(T), ANSWERS)
    assert seen == [len(machine.support_)]


# ---- When a fit stops ----------------------------------------------------------------------------


@BOTH
def test_a_fit_that_stops_early_warns(kind):
    options = {"gamma": 10.0} if kind is KERNEL else {}
    machine = kind(lam=1e-6, max_iter=2, tol=1e-10, random_state=0, **options)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        machine.fit(IRIS, SPECIES)
    assert type(machine.n_iter_) is int
    # A last iteration of Newton's method may take two passes.
    assert 2 <= machine.n_iter_ <= 3


def test_tol_decides_the_number_of_epochs():
    rows, labels = StandardScaler().fit_transform(IRIS), SPECIES == 1
    assert plain(42).fit(rows, labels).n_iter_ == 42
    options = {"solver": "sdca", "random_state": 0}
    fine, rough = (LINEAR(lam=0.01, tol=tol, **options).fit(rows, labels) for tol in (1e-5, 0.1))
    assert 1000 > fine.n_iter_ > rough.n_iter_


@pytest.mark.parametrize("make", [plain, lambda **options: svc(solver="pegasos", **options)])
def test_seeds_decide_what_one_epoch_learns(make):
    def scores(seed):
        machine = make(random_state=seed).set_params(max_iter=1, tol=None)
        return machine.fit(IRIS, SPECIES).decision_function(IRIS)

    assert_array_equal(scores(0), scores(0))
    assert np.abs(scores(0) - scores(1)).max() > 1e-3


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_backends_of_joblib_change_nothing(backend, rng):
    rows = sp.random_array((200, 500), density=0.02, random_state=rng, format="csr")
    labels = rng.integers(0, 20, 200)
    alone = LINEAR(lam=0.01, random_state=0).fit(rows, labels)
    with joblib.parallel_config(backend, n_jobs=2):
        together = LINEAR(lam=0.01, n_jobs=2, random_state=0).fit(rows, labels)
    assert_array_equal(alone.coef_, together.coef_)


@BOTH
@pytest.mark.parametrize("lam", [1e-4, 1e5])
def test_large_penalties_leave_small_weights(kind, lam):
    machine = kind(lam=lam, random_state=0)
    for solver in ("auto", "pegasos"):
        machine.set_params(solver=solver, tol=None, max_iter=6).fit(IRIS, SPECIES)
        assert np.isfinite(machine.weight_norm_).all()
        if lam == 1e5:
            assert_allclose(machine.weight_norm_, 0, atol=1e-3)


# ---- Going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("rows", "labels", "new", "answers"), [(X, Y, T, ANSWERS), (X3, Y3, T3, ANSWERS3)]
)
def test_partial_fit_learns_from_pieces(make, rows, labels, new, answers):
    classes = np.unique(labels)
    n_problems = 1 if len(classes) == 2 else len(classes)
    machine, third = LINEAR(lam=0.01, random_state=0), len(rows) // 3
    machine.partial_fit(make(rows[:third]), labels[:third], classes=classes)
    assert machine.coef_.shape == (n_problems, 2)
    assert machine.intercept_.shape == (n_problems,)
    assert machine.decision_function([[0, 0]]).shape == ((1,) if n_problems == 1 else (1, 3))
    for _ in range(20):
        machine.partial_fit(make(rows), labels)
    assert_array_equal(machine.predict(new), answers)
    with pytest.raises(ValueError, match=r"1 features.*expecting 2"):
        machine.partial_fit(make(rows[:, :1]), labels)


def test_pieces_are_not_in_the_order_of_a_fit():
    whole, pieces = plain(2).fit(X, Y), plain()
    for _ in range(2):
        pieces.partial_fit(X, Y, classes=[1, 2])
    assert_array_equal(pieces.n_steps_, whole.n_steps_)
    assert_array_equal(pieces.predict(T), whole.predict(T))
    assert np.abs(pieces.coef_ - whole.coef_).max() > 0


def test_there_are_no_starting_points():
    for name in ("coef_init", "intercept_init"):
        with pytest.raises(TypeError, match=name):
            plain().fit(X, Y, **{name: np.zeros(2)})


# ---- Searches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "search",
    [
        PegasosClassifierCV(lams=[0.01, 0.1], cv=3, random_state=0),
        KernelPegasosClassifierCV(lams=[0.01, 0.1], gammas=[0.1, 1.0], cv=3, random_state=0),
        KernelPegasosClassifierCV(lams=[0.01, 0.1], kernel=product, cv=3, random_state=0),
    ],
)
def test_searches_take_named_classes_and_rows_of_both_kinds(search, make):
    labels = NAMES[SPECIES]
    found = clone(search).fit(make(IRIS), labels)
    assert found.score(make(IRIS), labels) > 0.9
    scores = found.decision_function(IRIS)
    assert_array_equal(found.classes_[scores.argmax(axis=1)], found.predict(make(IRIS)))
    assert found.best_params_ == clone(search).fit(IRIS, labels).best_params_


@pytest.mark.parametrize(
    "search", [PegasosClassifierCV(lams=[0.1]), KernelPegasosClassifierCV(lams=[0.1])]
)
@pytest.mark.parametrize(
    ("labels", "weights", "message"),
    [
        (np.ones(150), None, "at least two classes"),
        (SPECIES, SPECIES == 1, "two classes with rows of weight > 0"),
        (SPECIES, np.zeros(150), "all zero"),
        (SPECIES, -np.ones(150), "must be >= 0"),
        (SPECIES[1:], None, r"y must have one entry per row of X \(150\), got 149"),
    ],
)
def test_searches_refuse_what_a_fit_refuses(search, labels, weights, message):
    weights = None if weights is None else weights.astype(np.float64)
    with pytest.raises(ValueError, match=message):
        clone(search).fit(IRIS, labels, sample_weight=weights)


def test_searches_of_scikit_learn_find_a_good_lam():
    grid = {"lam": np.logspace(-4, 4, 9), "average": [False, True, "suffix"]}
    machine = make_pipeline(StandardScaler(), plain(20))
    grid = {f"pegasosclassifier__{name}": values for name, values in grid.items()}
    search = RandomizedSearchCV(machine, grid, n_iter=5, random_state=0).fit(IRIS, SPECIES)
    assert search.best_score_ > 0.8
