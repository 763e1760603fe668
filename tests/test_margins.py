"""Functional and geometric margins, and |w|, of linear and kernel machines."""

import numpy as np
import pytest
from rows import convert, make_rows

from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.kernels import KERNELS

MACHINES = {"linear": PegasosClassifier, "kernel": KernelPegasosClassifier}


@pytest.fixture(params=MACHINES)
def machine(request):
    return MACHINES[request.param]


def by_definition(clf, X, y):
    """y_i f(x_i) of every row and problem, from class scores of machines of two classes."""
    classes = clf.classes_.tolist()
    if len(classes) == 2:
        return (np.where(y == classes[1], 1, -1) * clf.decision_function(X))[:, None]
    return np.where(y[:, None] == clf.classes_, 1, -1) * clf.decision_function(X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_functional_margins_are_scores_times_labels(machine, rng, layout, dtype, n_classes):
    X, _ = make_rows(rng)
    X, y = convert(X, layout, dtype), np.array(["b", "a", "c"])[rng.integers(0, n_classes, 60)]
    clf = machine(lam=0.05, random_state=0).fit(X, y)
    margins = clf.margins(X, y)
    assert margins.shape == (60, 1 if n_classes == 2 else 3)
    np.testing.assert_array_equal(margins, by_definition(clf, X, y))
    norms = clf.weight_norm_
    assert norms.shape == margins.shape[1:]
    np.testing.assert_allclose(clf.margins(X, y, geometric=True), margins / norms, rtol=1e-12)
    # Few or other rows than those of the fit, in another order.
    some = rng.permutation(60)[:7]
    np.testing.assert_allclose(clf.margins(X[some], y[some]), margins[some], rtol=1e-4, atol=1e-6)


def test_pairs_have_margins_of_their_own_rows_only(machine, rng):
    X, y = rng.normal(size=(80, 5)), np.arange(80) % 4
    # A gamma of "scale" would be that of the rows of a fit.
    of_kernel = {"gamma": 0.2} if machine is KernelPegasosClassifier else {}
    options = {"tol": 1e-7, "random_state": 0} | of_kernel
    clf = machine(lam=0.05, multi_class="ovo", **options).fit(X, y)
    margins, k = clf.margins(X, y), 0
    assert margins.shape == (80, 6)
    for i in range(4):
        for j in range(i + 1, 4):
            inside = (y == i) | (y == j)
            assert np.isnan(margins[~inside, k]).all()
            # A pair's machine is that of the other rows alone, but for rounding and the order of
            # rows.
            pair = machine(lam=0.05, **options).fit(X[inside], y[inside])
            np.testing.assert_allclose(
                margins[inside, k], pair.margins(X[inside], y[inside])[:, 0], atol=1e-3
            )
            k += 1


def test_the_norm_of_linear_machines_is_that_of_coef(rng, dtype):
    X, y = make_rows(rng)
    clf = PegasosClassifier(lam=0.05, random_state=0).fit(X.astype(dtype), y)
    np.testing.assert_allclose(clf.weight_norm_, [np.sqrt((clf.coef_**2).sum())], rtol=1e-14)


@pytest.mark.parametrize("kernel", [*KERNELS, "callable"])
def test_the_norm_of_kernel_machines_is_that_of_beta(rng, layout, dtype, kernel):
    if kernel == "precomputed" and layout != "dense":
        pytest.skip("precomputed kernels are dense")
    X, _ = make_rows(rng, n=300)
    y, X = rng.integers(0, 3, 300), convert(X, layout, dtype)

    def inner(A, B):
        return A @ B.T

    options = {"coef0": 0.5, "degree": 2, "gamma": 0.3, "multi_class": "ovo", "tol": None}
    options |= {
        "kernel": inner if kernel == "callable" else kernel,
        "max_iter": 20,
        "random_state": 0,
    }
    rows = X
    if kernel == "precomputed":
        rows = np.ascontiguousarray(X @ X.T)
    clf = KernelPegasosClassifier(lam=0.05, **options).fit(rows, y)
    beta = np.zeros((3, 300))
    beta[:, clf.support_] = clf.dual_coef_
    if kernel == "precomputed":
        K = rows.astype(np.float64)
    else:
        points = clf._support.kernel.points(X.astype(np.float64))
        K = points.against(points)
    squared = np.einsum("ki,ij,kj->k", beta, K, beta)
    rounding = 50 * np.finfo(dtype).eps * np.einsum("ki,ij,kj->k", *map(np.abs, (beta, K, beta)))
    # Of a kernel that is not positive semi-definite, squares may be negative.
    found = clf.weight_norm_
    assert (squared[np.isnan(found)] <= rounding[np.isnan(found)]).all()
    assert (np.abs(found**2 - squared) <= rounding)[~np.isnan(found)].all()
    assert not np.isnan(found).any() or kernel == "sigmoid"


def test_a_linear_kernel_has_the_margins_of_a_linear_machine(rng, layout):
    X, y = make_rows(rng)
    X = convert(X, layout, np.float64)
    linear = PegasosClassifier(lam=0.05, tol=1e-8, random_state=0).fit(X, y)
    kernel = KernelPegasosClassifier(lam=0.05, kernel="linear", tol=1e-8, random_state=0).fit(X, y)
    np.testing.assert_allclose(kernel.weight_norm_, linear.weight_norm_, rtol=1e-3)
    np.testing.assert_allclose(kernel.weight_norm_, np.linalg.norm(kernel.coef_, axis=1))
    both = [clf.margins(X, y, geometric=True) for clf in (linear, kernel)]
    np.testing.assert_allclose(*both, atol=1e-2)


def test_geometric_margins_are_distances(machine):
    """Of separable rows, the hard margin: half the distance between the nearest points."""
    X = np.array([[0.0, 0], [1, 1], [3, 3], [4, 4]])
    options = {"tol": 1e-7, "penalize_intercept": False, "random_state": 0}
    if machine is KernelPegasosClassifier:
        options["kernel"] = "linear"
    clf = machine(lam=1e-3, **options).fit(X, [0, 0, 1, 1])
    margins = clf.margins(X, [0, 0, 1, 1], geometric=True)[:, 0]
    np.testing.assert_allclose(margins, np.sqrt(2) * np.array([2, 1, 1, 2]), rtol=1e-2)
    # A label on the wrong side.
    assert clf.margins(X[:1], [1])[0, 0] < 0


def test_a_machine_of_no_weight_has_no_distances(machine):
    clf = machine(lam=1.0, penalize_intercept=False, random_state=0)
    if machine is KernelPegasosClassifier:
        clf.set_params(kernel="linear")
    clf.fit(np.zeros((4, 2)), [0, 1, 1, 1])
    assert clf.weight_norm_.tolist() == [0]
    assert np.isinf(clf.margins(np.zeros((1, 2)), [1], geometric=True)).all()


def test_what_is_wrong_is_named(machine, rng):
    X, y = make_rows(rng)
    with pytest.raises(ValueError, match="not fitted"):
        machine().margins(X, y)
    clf = machine(lam=0.1, random_state=0).fit(X, y)
    for arguments, message in [
        ((X, y[:5]), r"one label per row of X \(60\), got 5"),
        ((X, y + 1), "only labels in classes"),
        ((X[:, :3], y), "X has 3 features"),
    ]:
        with pytest.raises(ValueError, match=message):
            clf.margins(*arguments)
    with pytest.raises(TypeError, match="geometric must be True or False, got 'yes'"):
        clf.margins(X, y, geometric="yes")
