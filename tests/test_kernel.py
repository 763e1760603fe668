"""Kernels, and kernel Pegasos against a textbook version, the linear solver, and itself."""

import functools
import itertools
import pickle

import numpy as np
import paper
import pytest
from covering import covering
from interruption import interrupted
from losses import LOSSES
from reference import kernel_pegasos
from rows import DTYPES, LAYOUTS, convert, make_rows
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.metrics import pairwise
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_estimator import CONVERGED, of_certain_labels
from test_linear import stream

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, _core, kernels
from pegasos.kernels import _cache
from pegasos.problems import _multiclass, _rows
from pegasos.problems._settings import Settings
from pegasos.problems._validate import rows as make_core_rows
from pegasos.solvers import _kernel_pegasos, _pegasos
from pegasos.solvers._kernel_solver import KernelSolver


def cosine(X, Z, scale=1.0):
    """A kernel of our own."""
    return scale * pairwise.cosine_similarity(X, Z)


# name, parameters, the same by scikit-learn
KERNELS = {
    "linear": ("linear", {}, pairwise.linear_kernel),
    "poly": ("poly", {"gamma": 0.3, "degree": 3, "coef0": 1.5},
             lambda X, Z: pairwise.polynomial_kernel(X, Z, gamma=0.3, degree=3, coef0=1.5)),
    "rbf": ("rbf", {"gamma": 0.2}, lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.2)),
    "sigmoid": ("sigmoid", {"gamma": 0.1, "coef0": 0.2},
                lambda X, Z: pairwise.sigmoid_kernel(X, Z, gamma=0.1, coef0=0.2)),
    "laplacian": ("laplacian", {"gamma": 0.1},
                  lambda X, Z: pairwise.laplacian_kernel(X, Z, gamma=0.1)),
    "callable": (cosine, {"params": {"scale": 2.0}}, lambda X, Z: cosine(X, Z, 2.0)),
}  # fmt: skip


@pytest.mark.filterwarnings(
    "ignore:.*rounding allows no smaller gap:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks(
    [
        KernelPegasosClassifier(),
        KernelPegasosClassifier(lam=1e-4, loss="squared_hinge"),
        # At C = 1, gaps of rounding leave these objectives 1e-8 of their scores.
        KernelPegasosClassifier(lam=1e-4, loss="modified_huber"),
        KernelPegasosClassifier(lam=1.0, loss="log_loss"),  # of small λ, gaps tell scores to 1e-7
        KernelPegasosClassifier(**CONVERGED, kernel="precomputed"),
    ],
    expected_failed_checks=of_certain_labels,
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("n", [90, 600])  # over all rows, or a sample of them
@pytest.mark.parametrize("loss", list(LOSSES))
def test_pegasos_begins_every_fit(rng, multi_class, n, loss):
    X, y = rng.normal(size=(n, 4)), np.arange(n) % 3
    fitted = KernelPegasosClassifier(
        lam=0.05, loss=loss, multi_class=multi_class, random_state=0
    ).fit(X, y)
    n_rows = n if multi_class == "ovr" else 2 * n // 3
    assert (fitted.n_steps_ == (n_rows if n_rows <= 512 else 256)).all()
    assert next(iter(fitted.solver_epochs_.items())) == ("pegasos", 1)
    assert sum(fitted.solver_epochs_.values()) == fitted.n_iter_


def test_rounding_where_all_scores_are_0_disproves_nothing(rng):
    """Classes that 3 features cannot tell apart: w = 0 is best, and |w|^2 is a rounding error."""
    X = rng.normal(3, size=(20, 3))
    y = (10 * rng.random(20)).astype(int)
    fitted = KernelPegasosClassifier(kernel="precomputed", tol=1e-7, random_state=0).fit(X @ X.T, y)
    assert np.isfinite(fitted.duality_gap_).all()


@pytest.mark.parametrize("kernel", ["sigmoid", "poly", "precomputed"])
def test_kernels_without_a_dual_learn_all_the_same(kernel):
    X, y = load_iris(return_X_y=True)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), y != 1
    if kernel == "precomputed":
        X = np.tanh(0.3 * X @ X.T)
    machine = KernelPegasosClassifier(
        lam=0.1,
        kernel=kernel,
        gamma=0.3,
        coef0=-0.1,
        degree=2,
        tol=None,
        max_iter=5,
        random_state=0,
    )
    machine.fit(X, y)
    assert machine.objective_[0] < 0.95  # w = 0 has 1


# ---- Kernel functions ----------------------------------------------------------------------------


@covering(
    3, layout=LAYOUTS, dtype=DTYPES, which=KERNELS, shape=((7, 60), (60, 7), (1, 1), (16, 33))
)
def test_kernels_are_those_of_scikit_learn(rng, layout, dtype, which, shape):
    (n, m), (name, parameters, expected) = shape, KERNELS[which]
    X, _ = make_rows(rng, n=max(n, 4))
    Z, _ = make_rows(rng, n=max(m, 4))
    X, Z = X[:n], Z[:m]
    kernel = kernels.make(name, **parameters)
    points = [kernel.points(convert(part, layout, dtype)) for part in (X, Z)]
    values = points[0].against(points[1])
    # What rounding does to float32 is known of kernels that are positive by their form.
    assert values.dtype == (np.float64 if which in ("sigmoid", "callable") else dtype)
    assert values.flags.c_contiguous
    tolerance = 2e-4 if values.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(values, expected(X, Z), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "tolerance", "low"), [(np.float32, 1e-6, -87), (np.float64, 5e-16, -700)]
)
def test_the_exponential_is_accurate(dtype, tolerance, low):
    x = np.linspace(low, 0, 200_003).astype(dtype)
    # exp(-gamma |x - z|^2) with norms -x and products 0, gamma = 1

    def values(norms):
        rows = (_core.Rows(np.zeros((len(own), 1), dtype)) for own in norms)
        options = {"kind": _core.KERNELS["rbf"], "gamma": 1.0}
        points = [_core.Points(r, norms=n, **options) for r, n in zip(rows, norms, strict=True)]
        out = np.empty((len(norms[0]), len(norms[1])), dtype)
        _core.kernel_values(*points, out, _core.Watch())
        return out

    products = values([np.zeros(1, dtype), -x])
    exact = np.exp(x.astype(np.longdouble))
    assert (np.abs(products[0] - exact) / exact).max() < tolerance
    assert products[0, -1] == 1
    far = values([np.zeros(1, dtype), np.full(20, 1e30, dtype)])
    assert (far >= 0).all()
    assert (far < 1e-37).all()


def test_equal_rows_have_kernel_one_up_to_the_rounding_of_their_norms(rng):
    X = (1e3 * rng.normal(size=(50, 30))).astype(np.float32)
    points = kernels.make("rbf", gamma=1e-6).points(X)
    diagonal = np.diag(points.against(points))
    assert (diagonal <= 1).all()
    rounding = 16 * np.finfo(np.float32).eps * points.norms.max()
    np.testing.assert_allclose(diagonal, 1, rtol=1e-6 * rounding)


@pytest.mark.parametrize(("n", "m"), [(3, 1), (1, 64), (130, 65), (20, 200)])
def test_products_of_thick_rows_are_those_of_dense_ones(rng, monkeypatch, layout, dtype, n, m):
    if layout == "dense":
        pytest.skip("dense rows go through BLAS")
    monkeypatch.setattr(kernels._points, "_THICK", 0)
    monkeypatch.setattr(kernels._points, "_HOLLOW", 1)
    kernel = kernels.make("linear")
    X, Z = (rng.normal(size=(k, 23)) * (rng.random((k, 23)) < 0.4) for k in (n, m))
    points, others = (kernel.points(convert(rows, layout, dtype)) for rows in (X, Z))
    others.X.data[:] = 1  # a column that is stored twice counts twice
    others.X.indices[:] = rng.integers(0, 23, others.X.nnz)
    assert others.by_panels
    values = points.against(others)
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(values, X @ others.X.toarray().T, rtol=tolerance, atol=tolerance)


@covering(
    3, kernel=["rbf", "laplacian", "poly"], density=[0.02, 0.1, 0.6], megabytes=[0, 0.3, 100],
    layout=LAYOUTS, dtype=DTYPES,
)  # fmt: skip
def test_blocks_and_scores_are_those_of_the_matrix(rng, layout, dtype, kernel, density, megabytes):
    """Of columns that are kept, and of others."""
    n = 300
    X = rng.normal(size=(n, 40)) * (rng.random((n, 40)) < density)
    points = kernels.make(kernel, gamma=0.1).points(convert(X, layout, dtype))
    matrix = points.against(points).astype(np.float64)
    cache = kernels.ColumnCache(points, megabytes)
    tolerance = {"rtol": 0, "atol": (1e-4 if dtype is np.float32 else 1e-12) * matrix.max()}
    for _ in range(2):
        rows, which = rng.permutation(n)[:90], rng.permutation(n)[:70]
        coef = rng.normal(size=(3, 90)) * (rng.random((3, 90)) < 0.5)
        out = np.full((90, 75), 7, dtype)
        cache.among(rows, which, out[:, :70])
        np.testing.assert_allclose(out[:, :70], matrix[np.ix_(rows, which)], **tolerance)
        assert (out[:, 70:] == 7).all()
        scores = cache.push(coef, rows)
        np.testing.assert_allclose(scores / 20, coef @ matrix[rows] / 20, **tolerance)
    kept = np.flatnonzero(cache.column_of >= 0)
    columns = cache.columns[cache.column_of[kept]]
    np.testing.assert_allclose(columns, matrix[kept], **tolerance)


def test_rows_may_be_asked_for_again_and_again(rng, dtype):
    """Together they have more entries than all rows have, each of which counts once."""
    n, d = 400, 3000
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 3e-4)
    X[7] = rng.normal(size=d)
    points = kernels.make("linear").points(sparse.csr_array(X.astype(dtype)))
    assert points.by_transpose
    rows, which = np.arange(30), np.full(2 * n, 7)
    out = np.empty((len(rows), len(which)), dtype)
    kernels.ColumnCache(points, 0.1).among(rows, which, out)
    tolerance = 1e-3 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(out, X[rows] @ X[which].T, rtol=tolerance, atol=tolerance)


def test_threads_may_ask_for_the_transpose_at_once(rng):
    """As those do that predict by one machine: none has memory that another one gave back."""
    n, d, numbers = 10_000, 20_000, 100
    places = rng.integers(0, d, n * numbers), np.arange(0, n * numbers + 1, numbers)
    X = sparse.csr_array((rng.random(n * numbers), *places), shape=(n, d))
    X.sum_duplicates()
    points, some = kernels.make("linear").points(X), kernels.make("linear").points(X[:5])
    assert points.by_transpose
    expected = (X[:5] @ X.T).toarray()

    def ask(k, on_poll):
        points.core.transpose()
        np.testing.assert_allclose(some.against(points, on_poll=on_poll), expected, rtol=1e-10)

    _core.run_jobs([functools.partial(ask, k) for k in range(8)], 4)


@pytest.mark.parametrize("density", [0.1, 0.9])
def test_predictions_take_coefficients_of_any_type(rng, density):
    X, y = make_rows(rng, n=200, density=density)
    clf = KernelPegasosClassifier(lam=1e-2, random_state=0).fit(X, y)
    scores = clf.decision_function(X)
    clf.dual_coef_ = clf.dual_coef_.astype(np.float32)
    np.testing.assert_allclose(clf.decision_function(X), scores, rtol=1e-3, atol=1e-5)


@covering(
    layout=LAYOUTS, dtype=DTYPES, n_jobs=(1, 2),
    densities=((0.1, 0.01), (0.01, 0.1), (0.6, 0.01), (0.1, 0.6)),
)  # fmt: skip
def test_rows_to_predict_may_be_stored_otherwise_than_support_vectors(
    rng, layout, dtype, n_jobs, densities
):
    """Thin, thick and full rows meet in tiles, of which the last ones are shorter."""

    def rows(n, density):
        X = rng.normal(size=(n, 60)) * (rng.random((n, 60)) < density)
        return X, convert(X, layout, dtype)

    fitted, predicted = densities
    _, X = rows(80, fitted)
    clf = paper.kernel(lam=1e-2, gamma=0.3, n_steps=160, n_jobs=n_jobs, random_state=0)
    clf.fit(X, np.arange(80) % 3)
    dense, Z = rows(4097, predicted)
    some = np.append(rng.integers(0, 4097, 40), [1023, 1024, 4095, 4096])
    support = clf.support_vectors_ if layout == "dense" else clf.support_vectors_.toarray()
    distances = ((dense[some, None] - support[None]) ** 2).sum(axis=2)
    expected = np.exp(-0.3 * distances) @ clf.dual_coef_.T + clf.intercept_
    size = np.abs(clf.dual_coef_).sum()
    tolerance = size * (1e-5 if dtype is np.float32 else 1e-13)
    np.testing.assert_allclose(clf.decision_function(Z)[some], expected, rtol=0, atol=tolerance)


@covering(
    layout=LAYOUTS, dtype=DTYPES, kernel=("linear", "rbf", "poly", "laplacian"),
    n=(512, 513, 1300),
)  # fmt: skip
def test_the_whole_matrix_that_problems_share_is_symmetric(rng, layout, dtype, kernel, n):
    """Of large ones, half is computed."""
    X = rng.normal(size=(n, 30)) * (rng.random((n, 30)) < 0.5)
    options = {} if kernel == "linear" else {"gamma": 0.1}
    points = kernels.make(kernel, **options).points(convert(X, layout, dtype))
    cache = kernels.ColumnCache(points, 100, n_problems=3)
    cache.keep(np.arange(n))
    K = cache.columns[cache.column_of]
    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(K, points.against(points), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(K, K.T, rtol=tolerance, atol=tolerance)


def out_of_place(array):
    """The same numbers, where processors do not read them."""
    raw = np.zeros(array.nbytes + 1, np.uint8)
    out = raw[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "precomputed"])
def test_misaligned_rows_are_copied(rng, layout, dtype, kernel):
    X = rng.normal(size=(40, 40))
    X = convert(X @ X.T if kernel == "precomputed" else X * (np.abs(X) > 1), layout, dtype)
    if layout == "dense":
        twin = out_of_place(X)
    elif kernel == "precomputed":
        pytest.skip("a precomputed matrix is dense")
    else:
        twin = X.copy()
        twin.data, twin.indices, twin.indptr = map(out_of_place, (X.data, X.indices, X.indptr))
    clf = paper.kernel(lam=1e-2, kernel=kernel, n_steps=80, random_state=0).fit(
        X, np.arange(40) % 2
    )
    same = paper.kernel(lam=1e-2, kernel=kernel, n_steps=80, random_state=0).fit(
        twin, np.arange(40) % 2
    )
    np.testing.assert_array_equal(same.decision_function(twin), clf.decision_function(X))
    model = clf.to_model()
    if kernel == "precomputed":
        X, twin = X[:, clf.support_], out_of_place(X[:, clf.support_])
    np.testing.assert_array_equal(model.decision_function(twin), model.decision_function(X))


def test_dense_rows_become_sparse_ones(rng, dtype):
    X = make_rows(rng, n=50, density=0.2)[0].astype(dtype)
    X[7], X[:, 5] = 1, 0
    for rows in (X, X[::2], np.asfortranarray(X), np.zeros((2, 3), dtype), X[:0]):
        csr, expected = _rows.without_zeros(rows), sparse.csr_array(rows)
        assert csr.dtype == dtype
        for array in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(csr, array), getattr(expected, array))


@pytest.mark.filterwarnings(
    "ignore:.*rounding allows no smaller gap:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("density", [0.02, 0.2])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
def test_how_kernel_values_are_computed_does_not_matter(rng, monkeypatch, dtype, kernel, density):
    """Dense, hollow, thick or thin; kept or computed again; by one thread or three."""
    X, y = make_rows(rng, n=300, d=60, density=density)
    rows, options = X.astype(dtype), {"gamma": 0.05, "degree": 2, "random_state": 0}
    # Without a dual there is one solution only as long as no decision hangs on a last bit.
    options |= (
        {"tol": None, "max_iter": 3} if kernel == "sigmoid" else {"tol": 1e-7, "max_iter": 2000}
    )
    few = {"_FEW": 1}
    machines = {}
    for name, data, n_jobs, changed in [
        ("blas", rows, 1, {"_HOLLOW": -1}),
        ("hollow", rows, 1, {}),
        ("hollow, threads", rows, 3, few),
        ("sparse", sparse.csr_array(rows), 1, {}),
        ("sparse, threads", sparse.csr_array(rows), 3, few),
        ("sparse, kept", sparse.csr_array(rows), 2, {"_CHEAP": 0}),
    ]:
        with monkeypatch.context() as patch:
            for constant, value in changed.items():
                patch.setattr(kernels._points, constant, value)
            machine = KernelPegasosClassifier(lam=1e-2, kernel=kernel, n_jobs=n_jobs, **options)
            machines[name] = machine.fit(data, y), machine.decision_function(data)
    _, scores = machines["blas"]
    for _, others in machines.values():
        np.testing.assert_allclose(others, scores, rtol=1e-2, atol=1e-3)
    for one, more in (("hollow", "hollow, threads"), ("sparse", "sparse, threads")):
        np.testing.assert_array_equal(machines[one][0].dual_coef_, machines[more][0].dual_coef_)


# ---- Training ------------------------------------------------------------------------------------


@covering(
    layout=LAYOUTS, dtype=DTYPES, which=(*KERNELS, "precomputed"),
    sampling=("permutation", "cyclic", "uniform"), batch_size=(1, 7), weighted=(False, True),
    cache_size=(100, 0.005),
)  # fmt: skip
def test_takes_the_same_decisions_as_a_textbook_version(
    rng, layout, dtype, which, sampling, batch_size, weighted, cache_size
):
    X, y = make_rows(rng)
    name, parameters, function = KERNELS["rbf" if which == "precomputed" else which]
    K = function(X, X)
    if which == "precomputed":  # dense in any case
        name, parameters, rows = "precomputed", {}, K.astype(dtype)
    else:
        rows = convert(X, layout, dtype)
    params = (
        parameters.pop("params", None) if "params" in (parameters := dict(parameters)) else None
    )
    weights = rng.uniform(0.1, 3, len(y)) if weighted else None
    lam, n_steps = 0.03, 260
    clf = paper.kernel(
        lam=lam, kernel=name, **parameters, kernel_params=params, n_steps=n_steps,
        sampling=sampling, batch_size=batch_size, intercept_scaling=0.8, random_state=5,
        cache_size=cache_size,
    ).fit(rows, y, sample_weight=weights)  # fmt: skip
    coef, intercept, alpha = kernel_pegasos(
        K, y, lam, stream(len(y), n_steps * batch_size, sampling, 5), batch_size=batch_size,
        constant=0.8, weights=weights,
    )  # fmt: skip
    np.testing.assert_array_equal(clf.alpha_counts_[0], alpha)
    np.testing.assert_array_equal(clf.support_, np.flatnonzero(alpha))
    np.testing.assert_allclose(clf.dual_coef_[0], coef[alpha > 0], rtol=1e-9)
    np.testing.assert_allclose(clf.intercept_[0], intercept, rtol=1e-9, atol=1e-12)
    scores = K @ coef + intercept
    atol = 1e-8 if dtype is np.float64 else 2e-3 * np.abs(scores).max()
    np.testing.assert_allclose(clf.decision_function(rows), scores, atol=atol, rtol=0)
    penalty = coef @ K @ coef + (intercept / 0.8) ** 2
    hinge = np.maximum(0, 1 - y * scores)
    expected = lam / 2 * penalty + (
        hinge.mean() if weights is None else np.average(hinge, weights=weights)
    )
    np.testing.assert_allclose(
        clf.objective_[0], expected, rtol=1e-9 if dtype is np.float64 else 1e-3
    )


@pytest.mark.parametrize("cache_size", [0.005, 1000])
def test_pegasos_goes_on_with_other_weights_as_the_linear_machine(rng, cache_size):
    """Heavier rows lengthen the delay of a smooth loss, and w stays what it is."""
    X, y = make_rows(rng)
    options = {
        "lam": 1e-2, "loss": "squared_hinge", "solver": "pegasos", "n_steps": 100,
        "average": False, "warm_start": True, "random_state": 0,
    }  # fmt: skip
    linear = PegasosClassifier(**options).fit(X, y)
    clf = KernelPegasosClassifier(kernel="linear", cache_size=cache_size, **options).fit(X, y)
    weights = 10 * rng.random(len(y)) ** 4
    before = linear.coef_
    for machine in (linear, clf):
        machine.fit(X, y, sample_weight=weights)
    assert (linear.coef_ != before).any()
    np.testing.assert_allclose(clf.dual_coef_[0] @ X[clf.support_], linear.coef_[0], rtol=1e-9)
    np.testing.assert_allclose(clf.intercept_, linear.intercept_, rtol=1e-9)


def test_columns_of_large_batches_may_exceed_their_room(rng):
    """Where pending rows make blocks long, columns of them are computed, and forgotten."""
    X = rng.normal(size=(4000, 3))
    y = X[:, 0] + rng.normal(size=4000) > 0
    make = {"lam": 1e-2, "gamma": 0.5, "n_steps": 3, "batch_size": 2500, "random_state": 0}
    small, large = (paper.kernel(**make, cache_size=size).fit(X, y) for size in (0.005, 1000))
    np.testing.assert_array_equal(small.alpha_counts_, large.alpha_counts_)
    np.testing.assert_allclose(small.objective_, large.objective_, rtol=1e-9)


@covering(
    3, batch_size=(1, 7), project=(False, True), average=(False, True, "suffix"),
    intercept=("none", "penalized", "free"), weighted=(False, True), megabytes=(0.1, 10),
)  # fmt: skip
def test_the_linear_kernel_is_linear_pegasos_draw_for_draw(
    rng, batch_size, project, average, intercept, weighted, megabytes
):
    X, _ = make_rows(rng, n=300)
    labels = _multiclass.problem_labels(rng.integers(0, 3, 300), 3, "ovo")
    weights = rng.uniform(0.1, 2, 300) if weighted else None
    settings = Settings(
        0.02, batch_size=batch_size, project=project, average=average,
        fit_intercept=intercept != "none", penalize_intercept=intercept != "free",
        intercept_scaling=1.5,
    )  # fmt: skip
    linear = _pegasos.Pegasos(settings, 3, X.shape[1], np.float64, 1)
    kernel = _kernel_pegasos.KernelPegasos(settings, 3, len(X), np.float64, 1)
    cache = kernels.ColumnCache(kernels.make("linear").points(X), megabytes)
    for session, data in ((linear, make_core_rows(X)[0]), (kernel, cache)):
        session.set_rows(labels, weights)
        session.plan(n_steps=700)
        session.run(data)
    np.testing.assert_array_equal(linear.counts, kernel.counts)
    for name in ("n_steps", "next_draw", "n_violations", "n_averaged"):
        np.testing.assert_array_equal(linear.problems[name], kernel.problems[name])
    (w, b), (coef, c) = linear.model(), kernel.model()
    np.testing.assert_allclose(coef @ X, w, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(c, b, rtol=1e-8, atol=1e-9)


@covering(
    layout=LAYOUTS, dtype=DTYPES, multi_class=("ovr", "ovo"), kernel=("rbf", "precomputed"),
    average=(False, True, "suffix"),
)  # fmt: skip
def test_pulled_scores_take_the_decisions_of_pushed_ones(
    rng, layout, dtype, multi_class, kernel, average
):
    X, _ = make_rows(rng, n=500)
    y = rng.integers(0, 3, 500)
    rows = convert(X, layout, dtype)
    if kernel == "precomputed":
        rows = pairwise.rbf_kernel(X, gamma=0.1).astype(dtype)
    weights = rng.uniform(0.1, 2, 500)
    push, pull, auto = (
        paper.kernel(
            lam=1e-3, kernel=kernel, gamma=0.1, n_steps=40, batch_size=3, multi_class=multi_class,
            average=average, scores=scores, random_state=0,
        ).fit(rows, y, sample_weight=weights)
        for scores in ("push", "pull", "auto")
    )  # fmt: skip
    for other in (pull, auto):
        np.testing.assert_array_equal(push.alpha_counts_, other.alpha_counts_)
        np.testing.assert_allclose(push.dual_coef_, other.dual_coef_, rtol=1e-9)
        np.testing.assert_allclose(push.intercept_, other.intercept_, rtol=1e-9, atol=1e-12)
        assert not hasattr(other, "objective_")
        np.testing.assert_array_equal(push.predict(rows), other.predict(rows))


def test_few_steps_on_many_rows_evaluate_few_kernel_values(rng):
    asked = []

    def counted(A, B):
        asked.append(A.shape[0] * B.shape[0])
        return pairwise.rbf_kernel(A, B, gamma=0.1)

    for n in (1000, 20_000):
        X, y = make_rows(rng, n=n)
        asked.clear()
        paper.kernel(lam=1e-3, kernel=counted, n_steps=200, random_state=0).fit(X, y)
        assert sum(asked) < 2 * 200**2


@pytest.mark.parametrize("megabytes", [0, 0.01, 0.1, 1, 1000])
def test_the_size_of_the_cache_does_not_change_the_answer(rng, layout, dtype, megabytes):
    X, _ = make_rows(rng, n=400)
    y = rng.integers(0, 3, 400)
    X = convert(X, layout, dtype)
    fits = [
        paper.kernel(lam=1e-3, gamma=0.1, cache_size=size, max_iter=5, random_state=0).fit(X, y)
        for size in (megabytes, 10)
    ]
    np.testing.assert_array_equal(fits[0].alpha_counts_, fits[1].alpha_counts_)


def test_columns_are_computed_once_while_there_is_room(rng):
    X, _ = make_rows(rng, n=300)
    asked = []

    def counted(A, B):
        asked.append(A.shape[0] * B.shape[0])
        return pairwise.rbf_kernel(A, B, gamma=0.1)

    y = rng.integers(0, 2, 300)
    paper.kernel(lam=1e-3, kernel=counted, max_iter=30, random_state=0).fit(X, y)
    # every column at most once, and blocks of rows among themselves while there were few of them
    assert sum(asked) < 1.2 * 300 * 300


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_many_problems_equal_as_many_separate_fits(rng, dtype, multi_class):
    X, _ = make_rows(rng, n=200)
    y = rng.integers(0, 4, 200)
    options = {"gamma": 0.1, "n_steps": 500, "random_state": 2}
    together = paper.kernel(lam=1e-3, multi_class=multi_class, **options)
    together.fit(X.astype(dtype), y)
    for k, column in enumerate(_multiclass.problem_labels(y, 4, multi_class)):
        alone = paper.kernel(lam=1e-3, **options)
        # Rows outside the problem have no weight in a fit of their own.
        alone.fit(X.astype(dtype), np.where(column == 0, 1, column), sample_weight=np.abs(column))
        np.testing.assert_array_equal(together.alpha_counts_[k], alone.alpha_counts_[0])


@covering(
    layout=LAYOUTS, dtype=DTYPES, which=("rbf", "laplacian", "precomputed"),
    intercept=({"fit_intercept": False}, {}, {"penalize_intercept": False}),
    weighted=(False, True), together=(True, False),
)  # fmt: skip
def test_pairs_of_classes_are_certified_among_their_own_rows(
    rng, monkeypatch, layout, dtype, which, intercept, weighted, together
):
    """Whether over one matrix of all rows or, as if there were too many, each over its own."""
    if not together:
        monkeypatch.setattr(_cache, "_SMALL", 0)
        monkeypatch.setattr(_cache, "_SMALL_OF_PAIRS", 0)
    X, _ = make_rows(rng, n=240, d=30)
    X *= rng.uniform(size=X.shape) < 0.3  # hollow if dense, thick if sparse
    X, y = X.astype(dtype), (5 * rng.uniform(size=240) ** 1.1).astype(int)
    K = (
        pairwise.laplacian_kernel(X, gamma=0.1)
        if which == "laplacian"
        else pairwise.rbf_kernel(X, gamma=0.1)
    )
    K = K.astype(np.float64)
    rows = K.astype(dtype) if which == "precomputed" else convert(X, layout, dtype)
    weights = np.ones(240)
    if weighted:
        weights = rng.integers(0, 3, 240) * np.isin(y, [0, 2, 4]).astype(float)
    asked, solve = [], _core.solve

    def recorded(over, targets, norms, fits, *a, insides=None, **options):
        asked.extend([len(norms)] if insides is None else map(len, insides))
        return solve(over, targets, norms, fits, *a, insides=insides, **options)

    monkeypatch.setattr(_core, "solve", recorded)
    machines = [
        KernelPegasosClassifier(
            lam=1e-2, kernel=which, gamma=0.1, multi_class="ovo", tol=1e-4, random_state=0,
            n_jobs=n, **intercept,
        ).fit(rows, y, sample_weight=weights)
        for n in (1, 2)
    ]  # fmt: skip
    machine = machines[0]
    np.testing.assert_array_equal(machines[1].dual_coef_, machine.dual_coef_)
    np.testing.assert_array_equal(machines[1].duality_gap_, machine.duality_gap_)
    sizes = {  # a problem without rows has one that is in none
        max(1, np.count_nonzero(np.isin(y, pair) & (weights > 0)))
        for pair in itertools.combinations(range(5), 2)
    }
    # A precomputed matrix is used where it lies.
    assert set(asked) == ({240} if which == "precomputed" else sizes)
    assert (machine.duality_gap_ <= 1e-4 * machine.objective_).all()
    coef = np.zeros((10, 240))
    coef[:, machine.support_] = machine.dual_coef_
    for k, labels in enumerate(_multiclass.problem_labels(y, 5, "ovo", weights)):
        assert not coef[k, labels == 0].any()
        hinge = np.maximum(0, 1 - labels * (K @ coef[k] + machine.intercept_[k]))
        squared = coef[k] @ K @ coef[k]
        if not intercept:
            squared += machine.intercept_[k] ** 2
        mass = np.sum(weights * (labels != 0))
        primal = 5e-3 * squared + (weights * (labels != 0) * hinge).sum() / (mass or 1)
        rtol = 1e-9 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(machine.objective_[k], primal, rtol=rtol, atol=1e-15)
        own = labels != 0
        if k not in (1, 3, 8) or len(np.unique(labels[own])) < 2:
            continue
        # The same problem by itself has the same optimum.
        part = rows[own][:, own] if which == "precomputed" else rows[own]
        alone = KernelPegasosClassifier(
            lam=1e-2, kernel=which, gamma=0.1, tol=1e-4, random_state=0, **intercept
        ).fit(part, labels[own], sample_weight=weights[own])
        assert abs(alone.objective_[0] / primal - 1) <= 2e-4


@pytest.mark.parametrize("intercept", [{}, {"penalize_intercept": False}], ids=str)
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("solver", ["pegasos", "sdca", "newton"])
def test_rows_that_are_out_have_a_coefficient_of_exactly_zero(
    rng, dtype, solver, multi_class, intercept
):
    """Sums that go up and down again end at 1e-17: such rows would count as support vectors."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = (X[:200] / 16).astype(dtype), y[:200]
    limits = {"tol": None, "max_iter": 30} if solver == "pegasos" else {"tol": 1e-5}
    clf = KernelPegasosClassifier(
        lam=1e-4, gamma=1.0, solver=solver, multi_class=multi_class, warm_start=True,
        random_state=0, **limits, **intercept,
    ).fit(X, y, sample_weight=rng.uniform(0.5, 2, 200))  # fmt: skip
    sizes = np.abs(clf.dual_coef_[clf.dual_coef_ != 0])
    assert sizes.min() > 1e-9 * sizes.max()
    assert clf.dual_coef_.any(axis=0).all()
    assert len(clf.support_) < 200  # some rows are out
    if solver == "sdca":
        state = {k.removeprefix("solver."): v for k, v in clf._state.items() if "solver." in k}
        a = KernelSolver.restore(None, state, 0).a
        np.testing.assert_array_equal(clf.dual_coef_ != 0, a[:, clf.support_] != 0)
        assert not np.delete(a, clf.support_, axis=1).any()


@pytest.mark.parametrize(
    ("kernel", "cache_size"), [("rbf", 0.1), ("rbf", 10), ("sigmoid", 10)], ids=str
)
def test_an_interrupted_fit_is_completed(rng, kernel, cache_size):
    X, y = make_rows(rng, n=300)
    options = {
        "kernel": kernel, "coef0": -3, "gamma": 0.1, "max_iter": 9, "batch_size": 7,
        "project": True, "fit_intercept": False, "random_state": 0, "cache_size": cache_size,
    }  # fmt: skip
    whole = paper.kernel(lam=1e-3, **options).fit(X, y)
    clf = paper.kernel(lam=1e-3, warm_start=True, **options)
    for after in (40, 40, 3):
        with interrupted(after, every=1):
            clf.fit(X, y)
        assert clf.n_steps_[0] < whole.n_steps_[0]
        clf.predict(X)
        # |v|^2 of a kernel that is not positive semi-definite may be below 0.
        assert (clf._state["problems"]["squared_norm"] < 0).all() == (kernel == "sigmoid")
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.alpha_counts_, whole.alpha_counts_)
    np.testing.assert_allclose(clf.dual_coef_, whole.dual_coef_, rtol=1e-12)


def test_it_learns_moons_and_digits():
    X, y = make_moons(400, noise=0.15, random_state=0)
    clf = paper.kernel(lam=1e-3, gamma=2.0, random_state=0).fit(X[:200], y[:200])
    assert clf.score(X[200:], y[200:]) > 0.96
    X, y = load_digits(return_X_y=True)
    clf = paper.kernel(lam=1e-4, random_state=0).fit(X[:1200], y[:1200])
    assert clf.score(X[1200:], y[1200:]) > 0.93
    assert clf.support_vectors_.shape == (len(clf.support_), 64)
    assert clf.n_support_.sum() == len(clf.support_)
    assert clf.dual_coef_.shape == (10, len(clf.support_))


def test_predictions_come_in_pieces_of_bounded_size(rng, monkeypatch):
    X, y = make_rows(rng)
    clf = paper.kernel(lam=1e-2, random_state=0).fit(X, y)
    whole = clf.decision_function(X)
    monkeypatch.setattr(pegasos.io._model, "_PREDICT_BYTES", 1000)
    np.testing.assert_allclose(clf.decision_function(X), whole, rtol=1e-12)


def test_searches_over_gamma_and_precomputed_kernels_work(rng):
    X, y = make_rows(rng, n=120)
    search = GridSearchCV(
        paper.kernel(max_iter=5, random_state=0), {"gamma": [0.01, "scale"]}, cv=3
    ).fit(X, y)
    assert search.best_score_ > 0.6
    K = pairwise.rbf_kernel(X, gamma=0.05)
    direct = paper.kernel(lam=1e-2, gamma=0.05, random_state=0).fit(X, y)
    given = paper.kernel(lam=1e-2, kernel="precomputed", random_state=0).fit(K, y)
    np.testing.assert_array_equal(direct.alpha_counts_, given.alpha_counts_)
    np.testing.assert_allclose(given.decision_function(K), direct.decision_function(X), rtol=1e-9)
    GridSearchCV(given, {"lam": [1e-3, 1e-1]}, cv=3).fit(K, y)


# ---- Bad input -----------------------------------------------------------------------------------


def test_a_warm_start_needs_the_same_rows(rng):
    X, y = make_rows(rng)
    clf = paper.kernel(warm_start=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="with 60 rows, got 59"):
        clf.fit(X[:-1], y[:-1])
    with pytest.raises(ValueError, match="with other values"):
        clf.fit(X + 1, y)
    clf.set_params(gamma=1.0)
    with pytest.raises(ValueError, match="gamma must stay"):
        clf.fit(X, y)


def weighted(X, Z, s=1.0, by=1.0):
    return np.exp(-s * (((X[:, None] - Z) * by) ** 2).sum(axis=2))


def test_a_warm_start_needs_the_same_parameters_of_a_kernel_function(rng):
    """The scores that are kept would be of the kernel before, so that the fit gets nowhere."""
    X, y = make_rows(rng, n=40, d=3)
    params = {"s": 1.0, "by": np.ones(3)}
    clf = paper.kernel(kernel=weighted, kernel_params=params, warm_start=True).fit(X, y)
    clf = pickle.loads(pickle.dumps(clf)).fit(X, y)
    clf.set_params(kernel_params={"s": 1.0, "by": np.ones(3)}).fit(X, y)
    for change in (
        {"s": 5.0, "by": np.ones(3)},
        {"s": 1.0, "by": np.arange(3.0)},
        {"s": 1.0},
        None,
    ):
        clf.set_params(kernel_params=change)
        with pytest.raises(ValueError, match=r"kernel_params must stay {'s': 1\.0, 'by': array"):
            clf.fit(X, y)
    clf.set_params(kernel_params=params).fit(X, y)
    params["s"] = 2.0
    with pytest.raises(ValueError, match="kernel_params must stay"):
        clf.fit(X, y)


@pytest.mark.parametrize("where", [lambda by: {"by": by}, lambda by: {"all": {"by": by}}])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.coo_array, np.asarray])
def test_equal_parameters_of_a_kernel_function_may_be_other_arrays(rng, make, where):
    """NumPy raised that the truth value of an array is ambiguous."""

    def scaled(X, Z, **params):
        return X @ params.get("all", params)["by"] @ Z.T

    X, y = make_rows(rng, n=40, d=3)
    params = where(make(np.eye(3)))
    clf = paper.kernel(kernel=scaled, kernel_params=params, warm_start=True).fit(X, y)
    clf.set_params(kernel_params=where(make(np.eye(3)))).fit(X, y)
    for other in (2 * np.eye(3), np.eye(3)[:2], 1.0):
        clf.set_params(kernel_params=where(make(other) if np.ndim(other) else other))
        with pytest.raises(ValueError, match="kernel_params must stay"):
            clf.fit(X, y)


def test_a_fit_without_a_warm_start_leaves_nothing_to_go_on_from(rng):
    X, y = make_rows(rng)
    clf = KernelPegasosClassifier(lam=0.1, warm_start=True, random_state=0).fit(X, y)
    clf.set_params(warm_start=False).fit(2 * X, y)
    clf.set_params(warm_start=True).fit(2 * X, y)
    fresh = KernelPegasosClassifier(lam=0.1, random_state=0).fit(2 * X, y)
    np.testing.assert_array_equal(clf.dual_coef_, fresh.dual_coef_)


@pytest.mark.parametrize("solver", ["auto", "sdca", "newton", "pegasos"])
def test_without_a_minimum_solvers_stay_with_sane_points(rng, solver):
    X, y = make_rows(rng, n=150)
    for coef0 in (0, 1):
        options = {
            "kernel": "sigmoid",
            "gamma": 0.5,
            "coef0": coef0,
            "solver": solver,
            "max_iter": 60,
        }
        clf = KernelPegasosClassifier(lam=0.01, tol=None, random_state=0, **options).fit(X, y)
        assert 0 <= clf.objective_[0] <= 1
        assert np.isnan(clf.duality_gap_).all()


# ---- Models in files -----------------------------------------------------------------------------


@pytest.mark.parametrize("which", [name for name in KERNELS if name != "callable"])
def test_models_survive_saving_and_loading(tmp_path, rng, layout, dtype, which):
    name, parameters, _ = KERNELS[which]
    X, _ = make_rows(rng)
    y = rng.choice(["a", "b", "c"], len(X))
    clf = paper.kernel(lam=0.01, kernel=name, **parameters, random_state=0)
    model = clf.fit(convert(X, layout, dtype), y).to_model()
    model.save(tmp_path / "m.npz")
    loaded = pegasos.load(tmp_path / "m.npz")
    assert isinstance(loaded, pegasos.KernelModel)
    for rows in (X, convert(X, layout, dtype)):  # of any layout and type
        np.testing.assert_array_equal(loaded.decision_function(rows), clf.decision_function(rows))
        np.testing.assert_array_equal(loaded.predict(rows), clf.predict(rows))
    np.testing.assert_array_equal(loaded.objective, clf.objective_)
    with pytest.raises(ValueError, match="holds a KernelModel, not a LinearModel"):
        pegasos.LinearModel.load(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="X has 3 features, but the model expects 23 features"):
        loaded.predict(X[:, :3])


@pytest.mark.parametrize("kernel", ["precomputed", pairwise.rbf_kernel])
def test_models_that_cannot_stand_alone_are_not_saved(tmp_path, rng, kernel):
    X, y = make_rows(rng)
    clf = paper.kernel(kernel=kernel).fit(X @ X.T, y)
    np.testing.assert_array_equal(
        clf.to_model().predict((X @ X.T)[:, clf.support_] if kernel == "precomputed" else X @ X.T),
        clf.predict(X @ X.T),
    )
    name = kernel if kernel == "precomputed" else "rbf_kernel"
    told = f"kernel is '{name}' cannot be saved without its kernel: keep .* joblib .* rbf, "
    with pytest.raises(ValueError, match=told):
        clf.to_model().save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_machines_without_support_vectors_predict(layout, dtype, kernel):
    X = convert(np.zeros((6, 4)), layout, dtype)
    clf = KernelPegasosClassifier(lam=1.0, kernel=kernel, random_state=0).fit(X, [0, 1, 0, 1, 0, 1])
    assert len(clf.support_) == 0
    np.testing.assert_array_equal(clf.decision_function(X), np.full(6, clf.intercept_))


@pytest.mark.parametrize("kind", ["u1", "i2", "u4", "u8"])
def test_index_arrays_of_any_integers_will_do(rng, dtype, kind):
    X = convert(make_rows(rng)[0], "csr32", dtype)
    twin = X.copy()
    twin.indices, twin.indptr = X.indices.astype(kind), X.indptr.astype("u8")
    y = np.arange(60) % 2
    expected = paper.kernel(lam=1e-2, n_steps=60, random_state=0).fit(X, y).decision_function(X)
    clf = paper.kernel(lam=1e-2, n_steps=60, random_state=0).fit(twin, y)
    np.testing.assert_array_equal(clf.decision_function(twin), expected)


# ---- What scikit-learn's SVC has
# ----------------------------------------------------------------------


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
def test_a_function_may_return_sparse_kernel_values(rng, layout, make, solver):
    X, y = make_rows(rng)
    X = convert(X, layout, np.float64)

    def inner(A, B):
        return A @ B.T

    options = {"solver": solver, "max_iter": 20, "tol": None, "random_state": 0}
    expected = KernelPegasosClassifier(lam=0.1, kernel=inner, **options).fit(X, y)
    clf = KernelPegasosClassifier(lam=0.1, kernel=lambda A, B: make(inner(A, B)), **options).fit(
        X, y
    )
    near = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(clf.decision_function(X), expected.decision_function(X), **near)
    with pytest.raises(
        ValueError, match=r"kernel must return an array of shape \(60, 60\).*\(60, 9\)"
    ):
        KernelPegasosClassifier(kernel=lambda A, _: make(np.ones((A.shape[0], 9)))).fit(X, y)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_linear_kernel_machines_have_weights(rng, layout, dtype, multi_class):
    X, _ = make_rows(rng)
    X, y = convert(X, layout, dtype), rng.integers(0, 4, 60)
    clf = KernelPegasosClassifier(lam=0.1, kernel="linear", multi_class=multi_class, random_state=0)
    assert not hasattr(clf, "coef_")
    assert isinstance(clf.fit(X, y).coef_, np.ndarray)
    assert clf.coef_.shape == (6 if multi_class == "ovo" else 4, 23)
    scores = _multiclass.class_scores(X @ clf.coef_.T + clf.intercept_, 4, multi_class)
    near = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(scores, clf.decision_function(X), **near)
    clf.set_params(kernel="rbf")
    assert hasattr(clf, "coef_")  # the fitted machine is linear still
    assert not hasattr(clf.fit(X, y), "coef_")


def test_support_rows_that_do_not_exist_are_named(rng):
    X, y = make_rows(rng, n=30, d=4)
    clf = KernelPegasosClassifier(kernel="precomputed", random_state=0).fit(X @ X.T, y)
    clf.support_ = clf.support_ + 30
    with pytest.raises(ValueError, match=r"support_ names rows .* 30 of the kernel matrix"):
        clf.predict(X @ X.T)


def test_support_vectors_come_in_the_order_of_rows(rng):
    X, y = make_rows(rng)
    clf = KernelPegasosClassifier(lam=0.1, random_state=0).fit(X, y)
    assert (np.diff(clf.support_) > 0).all()
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    np.testing.assert_array_equal(clf.n_support_, np.unique(y[clf.support_], return_counts=True)[1])


# ---- Pieces of work
# ----------------------------------------------------------------------------------


SHAPES = [(200, 5000), (20, 40000), (1500, 200)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", ["laplacian", "rbf"])
@pytest.mark.parametrize("density", [1, 0.2, 0.01])
def test_ctrl_c_is_heard_between_pieces_of_work(rng, kernel, shape, density):
    """Rows, other rows and features count."""
    n, d = shape
    X = rng.normal(size=(n, d)).astype(np.float32)
    if density < 1:
        X = sparse.random_array(
            (n, d), density=density, format="csr", dtype=np.float32, random_state=rng
        )
    points = kernels.make(kernel, gamma=1 / d).points(X)
    told = []
    points.against(points, on_poll=lambda: told.append(None))
    numbers = n * n * d / 32  # a piece has about 5e6 of them
    if points.by_transpose or points.by_panels:
        numbers = n * n * density * d * (density if points.by_transpose else 1 / 16)
    assert numbers / 1e7 - 1 <= len(told) <= (numbers + n * n) / 1e6 + 1


@pytest.mark.parametrize("far", [1e200, -3e38])
def test_rows_that_single_precision_cannot_hold_are_refused(rng, layout, far):
    if layout == "dense":
        X = rng.normal(size=(30, 4)).astype(np.float32)
    else:
        X = convert(rng.normal(size=(30, 4)), layout, np.float32)
    clf = paper.kernel(lam=1e-2, n_steps=60, random_state=0).fit(X, np.arange(30) % 2)
    Z = np.zeros((3, 4))
    Z[1, 2] = 1.5 * far
    with pytest.raises(ValueError, match="X must be finite"):
        clf.decision_function(convert(Z, layout, np.float64))


@pytest.mark.parametrize("kernel", ["sigmoid", "poly", "linear"])
def test_scores_that_overflow_are_told_in_words_or_are_numbers(kernel):
    X = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, 0.0], [0.0, -2.0]])
    clf = paper.kernel(lam=1e-2, kernel=kernel, n_steps=8, random_state=0).fit(X, [0, 1, 0, 1])
    try:
        scores = clf.decision_function(np.full((2, 2), 1e307))
    except ValueError as error:
        scores = None
        assert "not a number" in str(error)  # noqa: PT017 either may be
    assert scores is None or not np.isnan(scores).any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid", "precomputed"])
def test_coefficients_add_up_to_0_where_the_intercept_is_free(rng, dtype, kernel, solver, loss):
    """As Lagrange's condition for b says, even where a fit stops far from the optimum."""
    if kernel == "sigmoid" and loss != "hinge":
        pytest.skip("needs a kernel that is positive semi-definite")
    for trial in range(6):
        n, k = int(rng.integers(6, 60)), int(rng.integers(2, 4))
        X, y = rng.normal(size=(n, 3)).astype(dtype), rng.integers(0, k, n)
        y[:k] = np.arange(k)
        weights = None if trial % 2 else 10 ** rng.uniform(-3, 3, n)
        clf = KernelPegasosClassifier(
            lam=10 ** rng.uniform(-5, 1), kernel=kernel, loss=loss, solver=solver,
            random_state=trial, multi_class=rng.choice(["ovr", "ovo"]), penalize_intercept=False,
            max_iter=int(rng.choice([1, 3, 200])), tol=rng.choice([0.1, 1e-6]),
        )  # fmt: skip
        clf.fit(X @ X.T if kernel == "precomputed" else X, y, sample_weight=weights)
        sizes = np.abs(clf.dual_coef_).sum(axis=1)
        assert (np.abs(clf.dual_coef_.sum(axis=1)) <= n * 2**-52 * sizes).all()
