"""Numbers at the edge: a finite result whose certificate is true, or a clear error."""

import contextlib
import itertools
import re
import warnings

import numpy as np
import paper
import pytest
from covering import covering
from losses import LOSSES
from rows import make_rows
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, PegasosClassifierCV
from pegasos.problems import _validate
from pegasos.problems._settings import Settings
from pegasos.solvers._pegasos import Pegasos

SOLVERS = ("pegasos", "sdca", "newton", "auto")
LONG = np.longdouble


def objectives(model, X, y, lam):
    """P of a model without, or with a penalised, intercept; in long double."""
    X = np.asarray(X.toarray() if sparse.issparse(X) else X).astype(LONG)
    values = []
    for coef, b, label in zip(
        model.coef.astype(LONG), model.intercept.astype(LONG), _positive(model), strict=True
    ):
        t = np.where(np.asarray(y) == label, LONG(1), LONG(-1))
        hinge = np.maximum(0, 1 - t * (X @ coef + b)).mean()
        values.append(LONG(lam) / 2 * (coef @ coef + b * b) + hinge)
    return np.array(values)


def _positive(model):
    return model.classes[1:] if len(model.classes) == 2 else model.classes


def fit_or_refuse(X, y, lam, **options):
    """A model that is what it says, or None if the fit was refused with advice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "lam . steps . batch_size", RuntimeWarning)
        options = {"max_iter": 60, "random_state": 0, **options}
        try:
            model = pegasos.fit(X, y, lam, **options)
        except ValueError as error:
            assert "overflowed" in str(error)  # noqa: PT017 any other error is a bug
            return None
    assert np.isfinite(model.coef).all()
    assert np.isfinite(model.intercept).all()
    assert np.isfinite(model.objective).all()
    assert np.isfinite(model.decision_function(X)).all()
    primal = objectives(model, X, y, lam)
    # Margins are known to an epsilon or so, objectives no better.
    np.testing.assert_allclose(model.objective.astype(LONG), primal, rtol=1e-6, atol=1e-15)
    # The bound is one: no model that we can name lies below it, not w = 0 nor this one.
    assert (model.dual_objective <= np.minimum(primal, 1) * (1 + 1e-9)).all()
    assert (model.duality_gap >= 0).all()
    return model


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize(
    ("dtype", "size"),
    [(np.float32, 1e19), (np.float32, 1e-19), (np.float32, 1e-42),
     (np.float64, 1e150), (np.float64, 1e-150), (np.float64, 1e-310)],
)  # fmt: skip
def test_features_of_every_size(kind, dtype, size, solver):
    X, y = make_rows(np.random.default_rng(0))
    X = kind((X * size).astype(dtype))
    for lam in (1e-12, 1e-3, 1.0, 1e12):
        fit_or_refuse(X, y, lam, solver=solver)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("lam", [1e-300, 1e-150, 1e-30, 1e-12, 1e30, 1e150, 1e300])
def test_lambda_of_every_size(lam, solver):
    X, y = make_rows(np.random.default_rng(0))
    for rows in (X, sparse.csr_array(X), X.astype(np.float32)):
        model = fit_or_refuse(rows, y, lam, solver=solver)
        if lam >= 1e30:  # nothing is learned: w = 0 is the optimum, but for rounding
            np.testing.assert_allclose(model.objective, 1, rtol=1e-12)


@pytest.mark.parametrize("value", [1e300, 1e-300])
@pytest.mark.parametrize("solver", SOLVERS)
def test_one_feature_beyond_all_others(value, solver):
    X, y = make_rows(np.random.default_rng(0))
    X[:, 0] = value
    fit_or_refuse(X, y, 1e-3, solver=solver)


ROWS = {
    "constant features": (np.ones((8, 3)), [0, 1] * 4),
    "all rows equal": (np.tile([0.5, -2.0, 3.0], (8, 1)), [0, 0, 0, 1] * 2),
    "rows of zeros": (np.zeros((8, 3)), [0, 1] * 4),
    "one row per class": (np.eye(5), [0, 1, 2, 3, 4]),
    "two rows": (np.array([[1.0, 2], [3, 4]]), [0, 1]),
    "two equal rows": (np.array([[1.0, 2], [1, 2]]), [0, 1]),
    "one feature": (np.array([[1.0], [2], [3], [4]]), [0, 0, 1, 1]),
    "denormals": (np.full((4, 2), 5e-324) * [[1], [0], [2], [3]], [0, 1, 0, 1]),
    "more features than rows": (np.random.default_rng(0).normal(size=(3, 50)), [0, 1, 1]),
    "one row against many": (np.random.default_rng(0).normal(size=(300, 2)), [1] + [0] * 299),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("what", ROWS)
def test_degenerate_rows(what, solver):
    X, y = ROWS[what]
    for rows in (X, sparse.csr_array(X), X.astype(np.float32)):
        for lam in (1e-12, 1e-3, 10.0):
            assert fit_or_refuse(rows, y, lam, solver=solver) is not None
        fit_or_refuse(rows, y, 1e-3, solver=solver, multi_class="ovr", fit_intercept=False)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("what", ROWS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_rows_in_kernel_machines(what, solver):
    X, y = ROWS[what]
    for kernel in ("rbf", "linear", "laplacian"):
        for lam in (1e-12, 1e-3, 10.0):
            clf = pegasos.KernelPegasosClassifier(
                lam=lam, kernel=kernel, solver=solver, max_iter=30, random_state=0
            )
            if what == "denormals" and kernel != "linear":
                with pytest.raises(ValueError, match=r"gamma='scale' .* cannot hold"):
                    clf.fit(X, y)
                clf.gamma = 1.0
            clf.fit(X, y)
            assert np.isfinite(clf.decision_function(X)).all()
            assert (clf.dual_objective_ <= np.minimum(clf.objective_, 1) * (1 + 1e-6)).all()


INTERCEPTS = {
    "none": {"fit_intercept": False},
    "penalised": {},
    "free": {"penalize_intercept": False},
}


@covering(
    3, intercept=INTERCEPTS, solver=SOLVERS, n_classes=[2, 4], is_sparse=[False, True],
    loss=list(LOSSES),
)  # fmt: skip
def test_rows_of_weight_zero_do_not_change_a_bit(
    rng, is_sparse, n_classes, solver, intercept, loss
):
    """Whatever their values. Of a free intercept, the mean norm of all rows was once a measure."""
    n, weights = 300, np.ones(300)
    weights[::5] = 0
    X, y = rng.normal(size=(n, 6)), rng.integers(0, n_classes, n)
    X[np.arange(n), y] += 1
    found = []
    for factor in (0, 1, 1e4, 1e100):
        Z = X * np.where(weights == 0, factor, 1)[:, None]
        if is_sparse:  # zeros are stored
            Z = sparse.csr_array((Z.ravel(), np.tile(np.arange(6), n), np.arange(0, 6 * n + 1, 6)))
        clf = PegasosClassifier(
            lam=1e-2, solver=solver, loss=loss, tol=1e-4, max_iter=60, random_state=0,
            **INTERCEPTS[intercept],
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            clf.fit(Z, y, sample_weight=weights)
        found.append((
            clf.n_iter_, clf.solver_epochs_, clf.coef_.tolist(), clf.intercept_.tolist(),
            clf.objective_.tolist(), clf.duality_gap_.tolist(),
        ))  # fmt: skip
    for other in found[1:]:
        assert other == found[0]


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
def test_rows_of_other_pairs_do_not_slow_a_pair(rng, kind):
    """One class has long rows: pairs of other classes do not see them."""
    n = 400
    X, y = rng.normal(size=(n, 6)), np.arange(n) % 4
    X[np.arange(n), y] += 1
    X[y == 3] *= 1e4
    more = {"kernel": "linear"} if kind is KernelPegasosClassifier else {}
    clf = kind(
        lam=1e-2, solver="sdca", multi_class="ovo", penalize_intercept=False, max_iter=150,
        random_state=0, **more,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    others = np.array([3 not in pair for pair in itertools.combinations(range(4), 2)])
    assert others.sum() == 3
    assert (clf.duality_gap_ <= 1e-3 * clf.objective_)[others].all()


@pytest.mark.parametrize("loss", list(LOSSES))
def test_rows_of_weight_zero_do_not_change_a_kernel_machine(rng, loss):
    n, factor = 300, np.where(np.arange(300) % 5 == 0, 1e3, 1)
    X = rng.normal(size=(n, 6))
    y, K = X[:, 0] + rng.normal(size=n) > 0, X @ X.T
    found = [
        KernelPegasosClassifier(
            lam=1e-2, kernel="precomputed", assume_psd=True, solver="sdca", loss=loss,
            penalize_intercept=False, max_iter=60, random_state=0,
        ).fit(matrix, y, sample_weight=factor == 1)
        for matrix in (K, K * factor[:, None] * factor)
    ]  # fmt: skip
    np.testing.assert_array_equal(found[0].support_, found[1].support_)
    np.testing.assert_allclose(found[0].dual_coef_, found[1].dual_coef_, rtol=1e-9)
    assert found[0].n_iter_ == found[1].n_iter_


@pytest.mark.parametrize("effort", [3, 1e-3])
def test_rows_outside_a_fold_do_not_change_its_machines(rng, effort):
    n = 300
    X, y, out = rng.normal(size=(n, 6)), rng.integers(0, 3, n), np.arange(n) % 5 == 0
    X[np.arange(n), y] += 1
    rows = np.flatnonzero(~out)
    cv = [(rows[:150], rows[150:]), (rows[90:], rows[:90])]

    def size(clf, X, y):
        return np.abs(clf.decision_function(X)).sum()

    found = []
    for factor in (1, 1e4):
        search = PegasosClassifierCV(
            lams=[1e-2, 1e-1], cv=cv, cv_effort=effort, penalize_intercept=False, solver="sdca",
            scoring=size, refit=False, random_state=0,
        )  # fmt: skip
        search.fit(X * np.where(out, factor, 1)[:, None], y)
        found.append(search.scores_.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("sampling", ["permutation", "cyclic", "uniform"])
@pytest.mark.parametrize("at", [2**31, 2**32, 2**53])
def test_counters_pass_the_limits_of_smaller_numbers(sampling, at):
    """Two fits that differ in how far their counters are alone go on alike past 2**31 and 2**32."""
    X, y = make_rows(np.random.default_rng(0))
    clf = paper.linear(
        lam=0.1, n_steps=100, sampling=sampling, warm_start=True, random_state=0
    ).fit(X, y)
    problems = clf._state["problems"]
    for name in ("n_steps", "next_draw", "last_step"):
        problems[name] = at - 50
    clf._state["base"][:] = clf._state["finished"][:] = at - 50
    coef = clf.coef_ * 100 / (at - 50)  # v = lam t w is kept; w is what t makes of it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        clf.set_params(n_steps=101).fit(X, y)
    assert clf.n_steps_.tolist() == [at + 51]
    # A step moves w by at most 1/(lam t) times the norm of a row.
    bound = 101 / (0.1 * (at - 50)) * np.linalg.norm(X, axis=1).max()
    assert np.abs(clf.coef_ - coef).max() <= 2 * bound
    assert clf.alpha_counts_.sum() > 100
    with contextlib.suppress(AttributeError):
        assert clf.objective_[0] < 1.5


def test_very_many_cheap_steps():
    X = np.array([[1.0], [-1.0]])
    model = paper.fit(X, [0, 1], 0.5, n_steps=2 * 10**7, fit_intercept=False, random_state=0)
    assert model.n_steps.tolist() == [2 * 10**7]
    np.testing.assert_allclose(model.coef, [[-1.0]], rtol=1e-6)  # min of w^2/4 + max(0, 1 - w)


@pytest.mark.parametrize("kind", ["pegasos", "poly"])
def test_a_lam_too_small_for_large_features_is_told_with_the_least_that_is_not(rng, kind):
    """Nothing overflows there, as the message once said."""
    X, y = 1e7 * rng.normal(size=(50, 3)), np.arange(50) % 2

    def fit(lam):
        options = {"loss": "squared_hinge", "max_iter": 2, "tol": None, "random_state": 0}
        if kind == "poly":
            clf = pegasos.KernelPegasosClassifier(
                lam=lam, kernel="poly", degree=1, gamma=1, **options
            )
            return clf.set_params(solver="pegasos").fit(X, y)
        return pegasos.PegasosClassifier(lam=lam, **options, solver=kind).fit(X, y)

    said = r"^λ=0.0001 is too small for loss='squared_hinge' .* lam must be at least (\S+)\. Scale"
    with pytest.raises(ValueError, match=said) as told:
        fit(1e-4)
    least = float(re.search(said, str(told.value))[1])
    with pytest.raises(ValueError, match="is too small"):
        fit(least / 1.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(fit(least).objective_).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pegasos_goes_on_quietly_from_a_model_whose_norm_overflows(dtype):
    """A warning of NumPy, which is an error here, came before the sentence on overflow."""
    session = Pegasos(Settings(0.1), 2, 3, dtype, 0)
    coef = np.full((2, 3), 1e170)
    session.go_on_from(coef, np.full(2, 1e170), 1, np.array([5, 5]), 1.0)
    assert (session.problems["n_steps"] == 20).all()  # lam t is |x|^2 and that of the intercept
    assert np.isinf(session.problems["squared_norm"]).all()


@pytest.mark.parametrize("dtype", ["i1", "u8", ">i4", "?", "f2", "f4", "f8"])
@pytest.mark.parametrize("values", [(0, 1), (3, 5), (1, 1), (0, 1, 2)])
@pytest.mark.parametrize("count", [20, 600])
def test_numbers_as_labels_are_told_apart_as_numpy_does(rng, dtype, values, count):
    y = rng.permuted(np.repeat(values, count)).astype(dtype)
    classes, codes = _validate.labels(y, len(y))
    expected = np.unique(y)
    np.testing.assert_array_equal(classes, expected)
    assert classes.dtype == expected.dtype
    np.testing.assert_array_equal(expected[codes], y)
