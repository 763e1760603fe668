"""Kernels that are added from outside, as CONTRIBUTING says: one class each."""

import contextlib

import numpy as np
import pytest
from rows import convert, make_rows
from scipy import sparse

import pegasos
from pegasos import KernelPegasosClassifier, KernelPegasosClassifierCV, kernels


class Cauchy(kernels.Kernel):
    """A function of squared distances, with all that can be said of it."""

    name = "cauchy"
    formula = "1/(1 + γ‖x−z‖²)"
    uses = ("gamma",)
    is_of_products = True
    needs_norms = True
    is_positive = True
    has_unit_diagonal = True

    def transform(self, products, x_norms, z_norms):
        products *= -2
        products += x_norms[:, None]
        products += z_norms
        np.maximum(products, 0, out=products)
        products *= self.gamma
        products += 1
        np.reciprocal(products, out=products)

    def rounding(self, points, dtype):
        """As that of a Gaussian by products: with t = gamma |x - z|^2, K falls by K^2 per t."""
        squares = np.maximum(self.gamma * points.norms.astype(np.float64), 1 / 4)
        errors = np.finfo(dtype).eps * (9 * (points.longest() + 4) * squares + 8)
        return errors, np.ones(len(points))

    def onnx(self, ops, X, Z, rows):
        products = ops.MatMul(X, np.ascontiguousarray(-2.0 * Z.T))
        norms = ops.ReduceSum(ops.Mul(X, X), np.array([1]), keepdims=1)
        distances = ops.Add(ops.Add(norms, products), (Z * Z).sum(axis=1))
        return ops.Reciprocal(ops.Add(ops.Mul(distances, np.array([self.gamma])), np.ones(1)))


class Intersection(kernels.Kernel):
    """Sums of min(x_j, z_j), for rows without negative entries: the least that a class may say."""

    name = "intersection"

    def between(self, X, Z, out):
        out[...] = np.minimum(X[:, None], Z).sum(axis=2)


class Unbounded(Intersection):
    """A class that claims more than it shows."""

    name = "unbounded"
    is_positive = True


class Strict(Intersection):
    """A class that says which rows it takes."""

    name = "strict"

    @classmethod
    def refuse(cls, X):
        if X.min() < 0:
            raise ValueError("kernel='strict' needs an X without negative numbers")


def cauchy(X, Z, gamma=1.0):
    X, Z = (A.toarray() if sparse.issparse(A) else A for A in (X, Z))
    return 1 / (1 + gamma * ((X[:, None] - Z) ** 2).sum(axis=2))


def intersection(X, Z, gamma=1.0):
    X, Z = (A.toarray() if sparse.issparse(A) else A for A in (X, Z))
    return np.minimum(X[:, None], Z).sum(axis=2)


@contextlib.contextmanager
def registered(kind):
    kernels.register(kind)
    try:
        yield
    finally:
        del kernels.KERNELS[kind.name]


@pytest.fixture(params=[(Cauchy, cauchy), (Intersection, intersection)], ids=["cauchy", "min"])
def kernel(request):
    """A kernel that is registered for the time of a test, and its values as a function."""
    with registered(request.param[0]):
        yield request.param


def rows_and_labels(rng, n_classes=2):
    X, y = make_rows(rng, n=90)
    return np.abs(X), y if n_classes == 2 else rng.integers(0, n_classes, len(y))


def test_values_of_a_new_kernel_are_those_of_its_formula(rng, layout, dtype, kernel):
    kind, function = kernel
    X, _ = rows_and_labels(rng)
    points = kernels.make(kind.name, gamma=0.1).points(convert(X, layout, dtype))
    exact = function(X.astype(np.longdouble), X.astype(np.longdouble), gamma=0.1)
    errors = 50 * np.finfo(dtype).eps * exact.max()
    if kind.is_positive:
        errors, sizes = points.kernel.rounding(points, dtype)
        assert (exact <= sizes).all()
    assert (np.abs(points.against(points) - exact) <= errors).all()
    np.testing.assert_allclose(points.diagonal(), np.diag(exact).astype(float), rtol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_new_kernel_is_fitted_certified_and_stored(
    rng, tmp_path, layout, dtype, kernel, n_classes
):
    kind, function = kernel
    X, y = rows_and_labels(rng, n_classes)
    rows, lam = convert(X, layout, dtype), 0.01
    options = {"lam": lam, "tol": 1e-4, "random_state": 0}
    clf = KernelPegasosClassifier(kernel=kind.name, **options).fit(rows, y)
    gamma = clf.to_model().kernel["gamma"]
    assert gamma == (pytest.approx(1 / (X.shape[1] * X.var())) if kind.uses else 1)
    same = KernelPegasosClassifier(kernel=function, kernel_params={"gamma": gamma}, **options)
    same.fit(rows, y)
    # Both are near the one optimum, as near as their gaps say: so they are near each other.
    for one, other in ((clf, same), (same, clf)):
        assert (one.duality_gap_ <= 1.01e-4 * one.objective_).all()
        assert (one.dual_objective_ <= other.objective_).all()
    apart = sum(np.sqrt(2 * machine.duality_gap_ / lam) for machine in (clf, same))
    sizes = np.sqrt(np.diag(function(X, X, gamma)) + 1)
    differences = np.abs(clf.decision_function(rows) - same.decision_function(rows))
    assert (differences.reshape(len(y), -1) <= sizes[:, None] * apart).all()

    path = tmp_path / "model.npz"
    clf.to_model().save(path)
    model = pegasos.load(path)
    assert model.kernel["name"] == kind.name
    np.testing.assert_array_equal(model.predict(rows), clf.predict(rows))
    np.testing.assert_array_equal(model.decision_function(rows), clf.decision_function(rows))


def test_a_new_kernel_may_refuse_rows(rng, layout, dtype):
    X, y = rows_and_labels(rng)
    with registered(Strict):
        for machine in (
            KernelPegasosClassifier(lam=0.01, kernel="strict", random_state=0),
            KernelPegasosClassifierCV(lams=[0.01], kernel="strict", cv=3, random_state=0),
        ):
            machine.fit(convert(X, layout, dtype), y)
            with pytest.raises(ValueError, match="'strict' needs an X without negative numbers"):
                machine.fit(convert(-X, layout, dtype), y)


def test_searches_know_a_new_kernel(rng, kernel):
    X, y = rows_and_labels(rng)
    search = KernelPegasosClassifierCV(
        lams=[0.1, 0.001], kernel=kernel[0].name, cv=3, random_state=0
    )
    assert search.fit(X, y).best_estimator_.kernel == kernel[0].name


def test_the_onnx_form_of_a_new_kernel(rng):
    for name in ("onnx", "skl2onnx", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra onnx)")
    import onnxruntime
    import skl2onnx

    import pegasos.onnx

    pegasos.onnx.register()
    X, y = rows_and_labels(rng)
    for kind in (Cauchy, Intersection):
        with registered(kind):
            clf = KernelPegasosClassifier(lam=0.01, kernel=kind.name, random_state=0).fit(X, y)
        if kind is Intersection:
            with pytest.raises(ValueError, match="kernel='intersection' has no ONNX form"):
                skl2onnx.to_onnx(clf, X[:1])
            continue
        graph = skl2onnx.to_onnx(clf, X[:1]).SerializeToString()
        session = onnxruntime.InferenceSession(graph)
        _, scores = session.run(None, {session.get_inputs()[0].name: X})
        np.testing.assert_allclose(scores, clf.decision_function(X), rtol=1e-9, atol=1e-9)


def test_kernels_that_are_not_registered_are_refused(rng, tmp_path):
    X, y = rows_and_labels(rng)
    with registered(Cauchy):
        for kind, message in (
            (Cauchy, "name must be a string that no other kernel has, got 'cauchy'"),
            (kernels.Kernel, "name must be a string that no other kernel has, got None"),
            (Unbounded, "kernel 'unbounded' is positive: its certificates need `rounding`"),
        ):
            with pytest.raises(ValueError, match=message):
                kernels.register(kind)
        model = KernelPegasosClassifier(kernel="cauchy", random_state=0).fit(X, y).to_model()
    model.save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"kernel must be one of 'linear', .* got 'cauchy'"):
        pegasos.load(tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"kernel must be one of 'linear', .* got 'cauchy'"):
        KernelPegasosClassifier(kernel="cauchy").fit(X, y)
