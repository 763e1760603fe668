"""Regressors: optima against independent solvers, scikit-learn's conventions, units and errors."""

import itertools
import json
import pickle
import re
import warnings

import losses
import numpy as np
import pytest
from covering import covering
from interruption import asked_often, interrupted
from rows import DTYPES, LAYOUTS, convert, make_rows
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVR
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_losses import LAM, delay_of, textbook

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosRegressor,
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosRegressor,
)
from pegasos.io import _archive
from pegasos.problems._settings import Settings
from pegasos.solvers._kernel_pegasos import KernelPegasos

EPSILON = 0.3
#: l(u) and l'(u), by their definitions.
LOSSES = {
    "epsilon_insensitive": (
        lambda u, e: np.maximum(np.abs(u) - e, 0),
        lambda u, e: np.sign(u) * (np.abs(u) > e),
    ),
    "squared_epsilon_insensitive": (
        lambda u, e: np.maximum(np.abs(u) - e, 0) ** 2,
        lambda u, e: 2 * np.sign(u) * np.maximum(np.abs(u) - e, 0),
    ),
    "huber": (
        lambda u, e: np.where(np.abs(u) < e, u**2 / 2, e * np.abs(u) - e**2 / 2),
        lambda u, e: np.clip(u, -e, e),
    ),
    "squared_error": (lambda u, e: u**2 / 2, lambda u, e: u),
}
SMOOTH = [loss for loss in LOSSES if loss != "epsilon_insensitive"]
SOLVERS = ("auto", "sdca", "newton", "pegasos")
KINDS = (PegasosRegressor, KernelPegasosRegressor)
INTERCEPTS = {
    "none": {"fit_intercept": False},
    "penalized": {"intercept_scaling": 2.0},
    "free": {"penalize_intercept": False},
}
BOTH = pytest.mark.parametrize("kind", KINDS)
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture
def data(rng):
    """Rows, targets with outliers and weights, one of them 0."""
    X, _ = make_rows(rng, n=90, d=6, density=0.7)
    y = X @ rng.normal(size=6) + 1.5 + 0.5 * rng.normal(size=90)
    y[::11] += 5
    c = rng.uniform(0.2, 3, 90)
    c[7] = 0
    return X, y, c


def mean_loss(loss, u, c, epsilon=EPSILON):
    return c @ LOSSES[loss][0](u, epsilon) / c.sum()


def penalty(w, b, lam, intercept):
    return lam / 2 * (w @ w + (b / 2.0) ** 2 * (intercept == "penalized"))


def optimum(loss, X, y, c, lam, intercept, start=None):
    """The least objective of a smooth loss, by SciPy, or that at least as low as `start`."""
    feature = float(intercept != "none")
    slope_of = LOSSES[loss][1]

    def value(v):
        w, b = v[:-1], v[-1] * feature
        u = y - X @ w - b
        slope = -c * slope_of(u, EPSILON) / c.sum()
        of_b = slope.sum() + (lam * b / 4 if intercept == "penalized" else 0)
        gradient = np.append(lam * w + slope @ X, feature * of_b)
        return penalty(w, b, lam, intercept) + mean_loss(loss, u, c), gradient

    options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 10_000}
    start = np.zeros(X.shape[1] + 1) if start is None else start
    return minimize(value, start, jac=True, method="L-BFGS-B", options=options).fun


# ---- scikit-learn's checks -----------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "ignore:.*rounding allows no smaller gap:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks(
    [PegasosRegressor(loss=loss) for loss in LOSSES]
    # The dual variables of the Huber loss are at most epsilon: at C = 1, 0.1 fits too little.
    + [
        KernelPegasosRegressor(loss=loss, epsilon=1.0 if loss == "huber" else 0.1)
        for loss in LOSSES
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


# ---- Optima --------------------------------------------------------------------------------------


@covering(
    3, loss=LOSSES, layout=LAYOUTS, dtype=DTYPES, weighted=(False, True), intercept=INTERCEPTS,
    solver=SOLVERS, kind=KINDS,
)  # fmt: skip
def test_fits_are_optimal_and_their_certificates_true(
    data, loss, layout, dtype, weighted, intercept, solver, kind
):
    X, y, c = data
    c = c if weighted else np.ones(len(y))
    lam, is_pegasos = 0.05, solver == "pegasos"
    options = {"kernel": "linear"} if kind is KernelPegasosRegressor else {}
    tol = 0.05 if is_pegasos else 1e-7
    reg = kind(
        lam=lam, loss=loss, epsilon=EPSILON, solver=solver, tol=tol, random_state=0,
        **INTERCEPTS[intercept], **options,
    )  # fmt: skip
    reg.fit(convert(X, layout, dtype), y, sample_weight=c if weighted else None)
    w, b = np.ravel(reg.coef_), reg.intercept_[0]
    # The objective, computed here, is what the estimator says.
    mine = penalty(w, b, lam, intercept) + mean_loss(loss, y - X @ w - b, c)
    assert reg.objective_[0] == pytest.approx(mine, rel=1e-5 if dtype == np.float32 else 1e-9)
    assert reg.duality_gap_[0] == pytest.approx(reg.objective_[0] - reg.dual_objective_[0])
    assert reg.duality_gap_[0] <= tol * reg.objective_[0]
    assert (b == 0) == (intercept == "none")
    # No objective, of SciPy or of a finer fit, is below the dual one.
    if loss in SMOOTH:
        best = optimum(loss, X, y, c, lam, intercept)
        assert reg.objective_[0] <= best * (1 + tol) + 1e-9
    else:
        fine = PegasosRegressor(
            lam=lam, epsilon=EPSILON, tol=1e-9, random_state=1, **INTERCEPTS[intercept]
        ).fit(X, y, sample_weight=c)
        best = fine.objective_[0]
    assert reg.dual_objective_[0] <= best * (1 + 1e-9)
    np.testing.assert_allclose(
        reg.predict(convert(X, layout, dtype)), X @ w + b, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_linear_machines_are_those_of_linear_svr(data, C, loss):
    X, y, c = data
    theirs = LinearSVR(C=C, loss=loss, epsilon=0.2, tol=1e-10, max_iter=10**7, random_state=0)
    theirs.fit(X, y, sample_weight=c)
    ours = PegasosRegressor(C=C, loss=loss, epsilon=0.2, tol=1e-9, random_state=0)
    ours.fit(X, y, sample_weight=c)
    w = np.append(theirs.coef_, theirs.intercept_)
    losses = LOSSES[loss][0](y - theirs.predict(X), 0.2)
    assert ours.lam_ == pytest.approx(1 / (C * c.sum()))
    objective = (w @ w / 2 + C * c @ losses) / (C * c.sum())
    assert ours.objective_[0] == pytest.approx(objective, rel=1e-5)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=5e-3, atol=5e-3)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == np.shape(theirs.intercept_)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("penalized", [False, True])
def test_steps_on_pairs_do_not_undo_each_other_where_lam_is_small(loss, penalized):
    """Epochs of steps on single rows would be 130 and more."""
    X, y = make_friedman1(300, noise=0.5, random_state=0)
    reg = KernelPegasosRegressor(
        C=100, gamma=0.1, loss=loss, tol=1e-4, solver="sdca", penalize_intercept=penalized,
        random_state=0,
    ).fit(StandardScaler().fit_transform(X), (y - y.mean()) / y.std())  # fmt: skip
    assert reg.duality_gap_[0] <= 1e-4 * reg.objective_[0]
    assert reg.n_iter_ < 40


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_machines_are_those_of_svr(data, C, weighted):
    X, y, c = data
    c = c if weighted else None
    theirs = SVR(C=C, gamma=0.2, epsilon=0.2, tol=1e-9).fit(X, y, sample_weight=c)
    ours = KernelPegasosRegressor(
        C=C, gamma=0.2, epsilon=0.2, penalize_intercept=False, tol=1e-9, random_state=0
    ).fit(X, y, sample_weight=c)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=2e-3, atol=2e-3)
    assert ours.dual_coef_.shape == (1, len(ours.support_))
    np.testing.assert_allclose(ours.dual_coef_.sum(), 0, atol=1e-8)
    by_hand = rbf_kernel(X, ours.support_vectors_, 0.2) @ ours.dual_coef_[0] + ours.intercept_
    np.testing.assert_allclose(ours.predict(X), by_hand)


@BOTH
def test_least_squares_are_those_of_ridge(data, kind):
    X, y, c = data
    options = {"kernel": "linear"} if kind is KernelPegasosRegressor else {}
    theirs = Ridge(alpha=2.0).fit(X, y, sample_weight=c)
    for scale in ({"lam": 2.0 / c.sum()}, {"C": 0.5}):
        ours = kind(
            loss="squared_error", penalize_intercept=False, tol=1e-10, random_state=0, **scale,
            **options,
        ).fit(X, y, sample_weight=c)  # fmt: skip
        np.testing.assert_allclose(np.ravel(ours.coef_), theirs.coef_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4, atol=1e-4)


def test_a_kernel_that_is_given_predicts_as_the_kernel(data):
    X, y, _ = data
    options = {"tol": 1e-8, "random_state": 0}
    other = KernelPegasosRegressor(gamma=0.2, **options).fit(X, y)
    given = KernelPegasosRegressor(kernel="precomputed", assume_psd=True, **options)
    given.fit(rbf_kernel(X, gamma=0.2), y)
    np.testing.assert_allclose(
        given.predict(rbf_kernel(X, gamma=0.2)), other.predict(X), rtol=1e-3, atol=1e-3
    )


# ---- Several outputs -----------------------------------------------------------------------------


@pytest.mark.parametrize("far", [0, 1000])
def test_constant_targets_are_found_at_once(rng, far):
    """Also where a matrix of single precision would do for others."""
    X = (rng.normal(size=(300, 60)) + far).astype(np.float32)
    lam = 1e-5 * float((X**2).sum(axis=1, dtype=np.float64).mean())
    make = {"loss": "squared_error", "penalize_intercept": False, "lam": lam, "random_state": 0}
    reg = PegasosRegressor(**make, tol=1e-3).fit(X, np.full(300, 3.3))
    assert reg.n_iter_ == 2  # a pass for the matrix, and one for the gap
    assert not reg.coef_.any()
    assert reg.intercept_ == pytest.approx([3.3])


@pytest.mark.parametrize("scale", [1e7, 1e8])
def test_gaps_of_spoiled_squares_are_below_the_objective(rng, scale):
    """Dual variables of 0 prove that much, whatever rounding has left of others."""
    X = rng.normal(size=(192, 10))
    X[:, 0] *= scale  # the matrix of the equations is singular but for rounding
    Y = X[:, :1] + rng.normal(size=(192, 3))
    for max_iter in (2, 3, 1000):
        reg = PegasosRegressor(
            loss="squared_error", C=1000, fit_intercept=False, max_iter=max_iter, tol=1e-6
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reg.fit(X, Y)
        assert (reg.dual_objective_ >= 0).all(), max_iter
        assert (reg.duality_gap_ <= reg.objective_).all(), max_iter


@pytest.mark.parametrize("layout", ["dense", "csr32"])
@pytest.mark.parametrize("is_free", [False, True])
def test_one_pass_proves_the_gaps_of_squares(data, monkeypatch, layout, is_free):
    X, y, c = data
    Y, lam = np.column_stack([y, -2 * y + 1, np.sin(y), 1e3 * y]), 0.02
    rows, all_rows = convert(X, layout, np.float64), np.column_stack([X, np.full(len(X), 0.5)])
    penalties = lam * np.append(np.ones(6), not is_free)
    w = np.linalg.solve(
        np.diag(penalties) + (all_rows.T * c) @ all_rows / c.sum(), (all_rows.T * c) @ Y / c.sum()
    )
    best = penalties @ w**2 / 2 + c @ (Y - all_rows @ w) ** 2 / (2 * c.sum())
    intercept = {"penalize_intercept": False} if is_free else {"intercept_scaling": 0.5}
    with monkeypatch.context() as patch:
        patch.setattr(pegasos._core, "certify", None)  # another pass
        reg = PegasosRegressor(loss="squared_error", lam=lam, tol=1e-9, random_state=0, **intercept)
        reg.fit(rows, Y, sample_weight=c)
    np.testing.assert_allclose(reg.objective_, best, rtol=1e-11)
    np.testing.assert_allclose(reg.dual_objective_, best, rtol=1e-9)
    assert (reg.duality_gap_ <= 1e-9 * reg.objective_).all()


def test_squares_of_short_rows_take_a_few_long_ones(rng):
    """Products of stored numbers alone make the matrix, but for pieces of long rows."""
    X = rng.normal(size=(1000, 60)) * (rng.random((1000, 60)) < 0.05)
    X[-16:] = rng.normal(size=(16, 60))
    Y = X @ rng.normal(size=(60, 2)) + rng.normal(size=(1000, 2))
    reg = PegasosRegressor(loss="squared_error", lam=1e-3, intercept_scaling=0.5, solver="newton")
    reg.set_params(random_state=0, tol=1e-9).fit(sparse.csr_array(X), Y)
    all_rows = np.column_stack([X, np.full(len(X), 0.5)])
    w = np.linalg.solve(1e-3 * np.eye(61) + all_rows.T @ all_rows / 1000, all_rows.T @ Y / 1000)
    np.testing.assert_allclose(reg.coef_, w[:-1].T, rtol=1e-9)
    assert reg.solver_epochs_ == {"newton": 2}


@covering(2, kind=KINDS, loss=LOSSES, solver=SOLVERS, layout=("dense", "csr32"))
def test_several_outputs_are_single_fits(data, kind, loss, solver, layout):
    X, y, c = data
    X = convert(X, layout, np.float64)
    Y = np.column_stack([y, -2 * y + 1, np.sin(y), 8 * y])
    tol = 0.2 if solver == "pegasos" else 1e-9
    make = {"loss": loss, "solver": solver, "tol": tol, "random_state": 0, "lam": 0.02}
    together = kind(**make).fit(X, Y, sample_weight=c)
    assert together.n_outputs_ == 4
    assert together.predict(X).shape == Y.shape
    for k, column in enumerate(Y.T):
        single = kind(**make).fit(X, column, sample_weight=c)
        assert together.objective_[k] == pytest.approx(single.objective_[0], rel=2 * tol)
        assert together.dual_objective_[k] <= single.objective_[0] * (1 + 1e-9)
        assert single.predict(X).shape == y.shape
    with_threads = kind(**make, n_jobs=2).fit(X, Y, sample_weight=c)
    np.testing.assert_array_equal(with_threads.predict(X), together.predict(X))
    if kind is PegasosRegressor:
        assert together.coef_.shape == (4, X.shape[1])


@BOTH
@EVERY_LOSS
def test_steps_of_several_outputs_are_those_of_single_fits(data, kind, loss):
    X, y, c = data
    Y = np.column_stack([y, 1.01 * y, y[::-1]])  # of one unit
    make = {"loss": loss, "solver": "pegasos", "n_steps": 300, "random_state": 0, "lam": 0.1}
    make |= {"average": "suffix"}
    layouts = X, convert(X, "csr32", np.float64)
    for rows, project in itertools.product(layouts, (False, True)):
        reg = kind(**make, project=project)
        together = reg.fit(rows, Y, sample_weight=c).predict(rows)
        for k, column in enumerate(Y.T):
            single = clone(reg).fit(rows, column, sample_weight=c)
            np.testing.assert_allclose(together[:, k], single.predict(rows), rtol=1e-9, atol=1e-9)


# ---- Pegasos itself ------------------------------------------------------------------------------


def draws_of(c, n_steps, batch_size, sampling, seed):
    """The rows that a fit draws, but for those without weight."""
    settings = Settings(LAM, batch_size=batch_size, sampling=sampling)
    session = KernelPegasos(settings, 1, len(c), np.float64, seed)
    session.set_rows((c > 0).astype(np.int8)[None], None)
    session.plan(n_steps=n_steps)
    draws = session.planned_draws(2**40)
    return draws[c[draws] > 0]


@covering(
    2, kind=KINDS, loss=LOSSES, layout=("dense", "csr32", "csr64"), dtype=(np.float32, np.float64),
    batch_size=(1, 3), project=(False, True), average=(False, True), outputs=(1, 3),
    intercept=("none", "penalized", "free"), sampling=("permutation", "cyclic", "uniform"),
)  # fmt: skip
def test_pegasos_takes_the_steps_of_a_textbook_draw_for_draw(
    data, kind, loss, layout, dtype, batch_size, project, average, outputs, intercept, sampling
):
    X, y, c = data
    y = 50 * y  # units of training are others
    Y = np.column_stack([y, -0.6 * y, y + 20])[:, :outputs]
    reg = kind(
        solver="pegasos", n_steps=60, lam=LAM, loss=loss, epsilon=losses.EPSILON, project=project,
        batch_size=batch_size, average=average, sampling=sampling, random_state=0,
        fit_intercept=intercept != "none", penalize_intercept=intercept == "penalized",
        **({"kernel": "linear", "scores": "push"} if kind is KernelPegasosRegressor else {}),
    ).fit(convert(X, layout, dtype), Y, sample_weight=c)  # fmt: skip
    draws = draws_of(c, 60, batch_size, sampling, reg._seed())
    X, c = X.astype(dtype).astype(np.float64), c / c[c > 0].mean()
    delay = delay_of(X, c, LAM, loss, float(intercept != "none"))
    for k, z in enumerate(Y.T):
        ball = 2 * np.average(losses.ALL[loss](z), weights=c) if project else 0
        w, b, _ = textbook(
            loss, X, np.ones(len(z)), z, c, draws, delay, batch_size, ball, average, intercept
        )
        tolerance = 1e-9 if dtype == np.float64 else 1e-3
        size = np.abs(w).max()
        np.testing.assert_allclose(reg.coef_[k], w, rtol=tolerance, atol=tolerance * size)
        np.testing.assert_allclose(reg.intercept_[k], b, rtol=tolerance, atol=tolerance * size)


# ---- Units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("lam", [1e-3, 1e3])  # beside epsilon
def test_huber_is_solved_where_few_rows_are_within_epsilon(rng, free, lam):
    """Newton's method once stopped at half a per cent, and more, with a free intercept."""
    X, _ = make_rows(rng, n=200, d=5)
    y = X @ rng.normal(size=5) + rng.standard_t(2, 200) + 3
    for epsilon in 10.0 ** np.arange(-8, 2):
        options = {"loss": "huber", "epsilon": epsilon, "lam": lam * epsilon, "random_state": 0}
        options["penalize_intercept"] = not free
        one = PegasosRegressor(solver="newton", tol=1e-6, **options).fit(X, y)
        other = PegasosRegressor(solver="sdca", tol=1e-2, **options).fit(X, y)
        assert one.duality_gap_[0] <= 1e-6 * one.objective_[0]
        assert one.dual_objective_[0] <= other.objective_[0] * (1 + 1e-12)
        assert other.dual_objective_[0] <= one.objective_[0] * (1 + 1e-12)


@covering(2, kind=KINDS, epsilon=(1e-17, 1e-150), solver=("auto", "sdca", "newton"))
def test_an_objective_as_small_as_the_slopes_of_its_loss_is_not_taken_for_rounding(
    data, kind, epsilon, solver
):
    """Over epsilon, it is nearly that of absolute errors, however small epsilon is."""
    X, y, c = data
    options = {"tol": 1e-4, "max_iter": 10**4, "random_state": 0}
    of_errors = kind(epsilon=0, lam=0.05, **options).fit(X, y, sample_weight=c)
    reg = kind(loss="huber", epsilon=epsilon, lam=0.05 * epsilon, solver=solver, **options)
    reg.fit(X, y, sample_weight=c)
    assert reg.duality_gap_[0] <= 1e-4 * reg.objective_[0]
    np.testing.assert_allclose(reg.objective_ / epsilon, of_errors.objective_, rtol=2e-4)
    # With a lam that is large beside epsilon, the warning does not depend on epsilon either.
    with pytest.warns(UserWarning, match="a constant predicts the training targets better"):
        reg.set_params(lam=epsilon * 1e3).fit(X, y)


@BOTH
@EVERY_LOSS
@pytest.mark.parametrize("exponent", [-400, -60, 40, 400])
def test_the_units_of_targets_change_no_bit(data, kind, loss, exponent):
    X, y, _ = data
    unit = 2.0**exponent
    lam = 0.05
    reg = kind(lam=lam, loss=loss, epsilon=EPSILON, random_state=0).fit(X, y)
    is_linear = loss == "epsilon_insensitive"
    other = kind(
        lam=lam / unit if is_linear else lam, loss=loss, epsilon=EPSILON * unit, random_state=0
    ).fit(X, unit * y)
    np.testing.assert_array_equal(other.predict(X), unit * reg.predict(X))
    for name in ("objective_", "dual_objective_", "duality_gap_"):
        of_objective = unit if is_linear else unit**2
        np.testing.assert_array_equal(getattr(other, name), of_objective * getattr(reg, name))
    assert other.lam_ == (lam / unit if is_linear else lam)


@BOTH
@EVERY_LOSS
@pytest.mark.parametrize("value", [0.0, 0.1, -1e-20, 1e9])
def test_constant_targets_are_learned(rng, kind, loss, value):
    X = rng.normal(size=(40, 3))
    y = np.full(40, value)
    reg = kind(loss=loss, epsilon=abs(value) / 100 or 0.1, penalize_intercept=False)
    np.testing.assert_allclose(reg.fit(X, y).predict(X), y, rtol=0.011)


def test_a_warning_tells_objectives_in_the_units_of_targets(data):
    X, y, _ = data
    reg = PegasosRegressor(lam=1e-8, max_iter=100, tol=1e-9, solver="sdca", random_state=0)
    with pytest.warns(ConvergenceWarning) as told:
        reg.fit(X, 1e4 * y)
    assert told[0].filename == __file__
    words = str(told[0].message)
    assert f"Objective {reg.objective_[0]:.6g}, gap {reg.duality_gap_[0]:.3g}" in words
    with pytest.warns(ConvergenceWarning, match="for output 1"):
        reg.fit(X, np.column_stack([np.zeros(len(y)), y]))


@pytest.mark.filterwarnings("default")
@covering(
    2, kind=KINDS, loss=LOSSES, intercept=INTERCEPTS, lam=(1e-3, 1.0, 100.0), outputs=(1, 2),
    layout=LAYOUTS, dtype=DTYPES,
)  # fmt: skip
def test_a_model_that_is_worse_than_a_constant_says_so(
    data, kind, loss, intercept, lam, outputs, layout, dtype
):
    X, y, c = data
    Y = np.column_stack([y, 1e3 + 50 * y])[:, :outputs]
    reg = kind(loss=loss, lam=lam, epsilon=EPSILON, random_state=0, **INTERCEPTS[intercept])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        reg.fit(convert(X, layout, dtype), Y, sample_weight=c)
    found, own, best = reg.predict(convert(X, layout, dtype)).reshape(Y.shape), [], []
    for k in range(outputs):
        own.append(mean_loss(loss, Y[:, k] - found[:, k], c))
        of_constants = minimize_scalar(
            lambda b: mean_loss(loss, Y[:, k] - b, c),  # noqa: B023
            bounds=(Y[:, k].min(), Y[:, k].max()), options={"xatol": 1e-8},
        )  # fmt: skip
        best.append(of_constants.fun)
    told = [str(of.message) for of in told if "a constant predicts" in str(of.message)]
    worse = np.array(own) > (1 + 1e-3) * np.array(best)
    assert len(told) == worse.any()
    if told:
        k = int("of output 1 " in told[0])
        assert worse[k]
        assert ("of output" in told[0]) == (outputs == 2)
        numbers = re.search(r"mean loss of (\S+), the model has (\S+)\. ", told[0])
        assert [float(of) for of in numbers.groups()] == pytest.approx([best[k], own[k]], rel=1e-3)
        assert ("fit_intercept=True" in told[0]) == (intercept == "none")
        assert ("penalize_intercept=False" in told[0]) == (intercept == "penalized")
        assert ("TransformedTargetRegressor" in told[0]) == (
            loss in ("epsilon_insensitive", "huber")
        )
        assert f"a lam below {lam:g}" in told[0]


@pytest.mark.filterwarnings("error:a constant predicts")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("y", [3.0, 1 / 3, -0.7])
def test_of_rounding_and_gaps_no_constant_is_called_better(rng, kind, loss, y):
    X = rng.normal(size=(30, 3))
    for C, epsilon in itertools.product([1, 1e5], [0.3, 1e-3]):
        reg = kind(C=C, loss=loss, epsilon=epsilon, penalize_intercept=loss.startswith("eps"))
        reg.fit(X, np.full(30, y))
        assert np.abs(reg.predict(X) - y).mean() < 1.1 * epsilon


def test_with_any_kernel_a_model_that_is_worse_than_a_constant_says_so():
    """|w|^2 of an indefinite kernel may be below 0, and the objective below the mean loss."""
    X = np.random.default_rng(0).normal(size=(600, 3))[300:]
    reg = KernelPegasosRegressor(C=0.01, kernel="sigmoid", gamma=1.0, coef0=1, random_state=0)
    with pytest.warns(UserWarning, match="a constant predicts the training targets better"):
        reg.fit(X, np.sin(3 * X[:, 0]))


OF_SEVERAL = np.array([1, 1e-9, 2.0**20])


@pytest.mark.filterwarnings("ignore:lam:RuntimeWarning")  # in the unit of large targets, it is
@covering(
    2, loss=LOSSES, solver=("sdca", "newton", "pegasos"), layout=LAYOUTS, dtype=DTYPES,
    intercept=INTERCEPTS, average=(False, "suffix"),
)  # fmt: skip
def test_each_output_is_fitted_as_if_alone(data, loss, solver, layout, dtype, intercept, average):
    """Whatever the sizes of others; here by the same draws, so that bits are the same."""
    X, y, c = data
    rows, Y = convert(X, layout, dtype), np.outer(y, OF_SEVERAL) + OF_SEVERAL
    options = {"loss": loss, "solver": solver, "tol": None, "max_iter": 4, "average": average}
    options |= {"epsilon": 0.3, "random_state": 0, "project": solver == "pegasos"}
    fit = PegasosRegressor(**options, **INTERCEPTS[intercept]).fit
    together = fit(rows, Y, sample_weight=c)
    coef, intercepts = together.coef_, together.intercept_
    objective, gap = together.objective_, together.duality_gap_
    for k, column in enumerate(Y.T):
        alone = fit(rows, column, sample_weight=c)
        np.testing.assert_array_equal(coef[k], alone.coef_)
        np.testing.assert_array_equal(intercepts[k], alone.intercept_[0])
        assert objective[k] == pytest.approx(alone.objective_[0], rel=1e-12)
        assert gap[k] == pytest.approx(alone.duality_gap_[0], rel=1e-9, abs=1e-12 * objective[k])


@EVERY_LOSS
def test_outputs_of_a_kernel_machine_have_gaps_of_their_own(data, loss):
    X, y, c = data
    make = {"loss": loss, "epsilon": 0.1, "random_state": 0, "tol": 1e-4, "lam": 0.02}
    reg = KernelPegasosRegressor(**make).fit(X, np.outer(y, OF_SEVERAL), sample_weight=c)
    assert (reg.duality_gap_ <= 1e-4 * reg.objective_).all()
    for k, size in enumerate(OF_SEVERAL):
        alone = clone(reg).fit(X, size * y, sample_weight=c)
        assert reg.dual_objective_[k] <= alone.objective_[0] * (1 + 1e-12)
        assert alone.dual_objective_[0] <= reg.objective_[k] * (1 + 1e-12)


@BOTH
@pytest.mark.parametrize("effort", ["auto", 2, 1e-3])
def test_a_search_weighs_all_outputs_as_single_searches_do(data, kind, effort):
    search = {PegasosRegressor: pegasos.PegasosRegressorCV}.get(
        kind, pegasos.KernelPegasosRegressorCV
    )
    X, y, c = data
    make = {"lams": [1e-3, 1e-1], "loss": "squared_error", "random_state": 0, "cv_effort": effort}
    Y = np.outer(y, OF_SEVERAL)
    scores = search(**make, refit=False).fit(X, Y, sample_weight=c).scores_
    alone = [search(**make, refit=False).fit(X, z, sample_weight=c).scores_ for z in Y.T]
    np.testing.assert_allclose(scores, np.mean(alone, axis=0), rtol=1e-3, atol=1e-3)


# ---- The functional interface --------------------------------------------------------------------


@covering(
    2, loss=LOSSES, solver=SOLVERS, layout=LAYOUTS, dtype=DTYPES, intercept=INTERCEPTS,
    outputs=("flat", 1, 3),
)  # fmt: skip
def test_it_is_the_functional_fit_with_the_same_bits(
    data, tmp_path, loss, solver, layout, dtype, intercept, outputs
):
    X, y, c = data
    rows = convert(X, layout, dtype)
    Y = y if outputs == "flat" else np.outer(y, OF_SEVERAL[:outputs]) + 1
    options = {"loss": loss, "epsilon": 0.3, "solver": solver, "random_state": 4}
    options |= INTERCEPTS[intercept] | {"tol": None if solver == "pegasos" else "auto"}
    options |= {"max_iter": 5} if solver == "pegasos" else {}
    model = pegasos.fit(rows, Y, 0.03, sample_weight=c, **options)
    reg = PegasosRegressor(lam=0.03, **options).fit(rows, Y, sample_weight=c)
    np.testing.assert_array_equal(np.atleast_2d(reg.coef_), model.coef)
    for name in ("intercept", "objective", "dual_objective", "n_steps"):
        np.testing.assert_array_equal(getattr(reg, f"{name}_"), getattr(model, name))
    np.testing.assert_array_equal(reg.predict(X), model.predict(X))
    np.testing.assert_array_equal(pegasos.decision_function(model, X), model.predict(X))
    assert model.lam == 0.03
    assert model.classes is None
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(pegasos.load(tmp_path / "model.npz").predict(X), reg.predict(X))


@EVERY_LOSS
def test_alpha_counts_of_targets_make_the_weights(data, loss):
    X, y, c = data
    Y, lam = np.outer(y, OF_SEVERAL), 0.05
    model = pegasos.fit(
        X, Y, lam, loss=loss, epsilon=1e-10, sample_weight=c, solver="pegasos", tol=None,
        max_iter=3, fit_intercept=False, random_state=0,
    )  # fmt: skip
    assert model.alpha_counts.shape == (3, len(y))
    # w = 1/(lam T) sum_i (n c_i/m) alpha_i x_i, with T the steps, and t_0 more of smooth losses.
    sums = (np.count_nonzero(c) / c.sum() * c * model.alpha_counts) @ X / lam
    steps = sums / model.coef
    np.testing.assert_allclose(steps, np.broadcast_to(steps[:, :1], steps.shape), rtol=1e-9)
    assert (steps[:, 0] >= model.n_steps * (1 - 1e-9)).all()


def test_the_functional_fit_refuses_what_is_no_target(data):
    X, y, _ = data
    for targets, options, error, words in (
        (np.where(y > 1, np.nan, y), {}, ValueError, "y must be finite"),
        (y[:-1], {}, ValueError, "y must have a target for each row"),
        (y.astype(str), {}, TypeError, "y must be numeric"),
        (y[:, None, None], {}, ValueError, "got shape"),
        (sparse.csr_array(y[:, None]), {}, TypeError, "y must be dense"),
        (y, {"epsilon": -1}, ValueError, "epsilon must be a finite number >= 0, got -1"),
        (y, {"epsilon": 0, "loss": "huber"}, ValueError, "epsilon of loss='huber' must be .* > 0"),
        (y, {"loss": "absolute"}, ValueError, "loss must be one of 'hinge', .*'squared_error'"),
        (y * 1e160, {}, ValueError, "y must have targets between"),
    ):
        with pytest.raises(error, match=words):
            pegasos.fit(X, targets, 0.1, **{"loss": "epsilon_insensitive"} | options)


# ---- Going on ------------------------------------------------------------------------------------


@BOTH
@EVERY_LOSS
@pytest.mark.parametrize("outputs", [1, 3])
def test_short_fits_of_pegasos_have_the_bits_of_a_long_one(data, kind, loss, outputs):
    X, y, c = data
    y = y if outputs == 1 else np.column_stack([y, -y, 3 * y])
    options = {"solver": "pegasos", "tol": None, "loss": loss, "random_state": 0, "project": True}
    long = kind(max_iter=6, warm_start=True, **options).fit(X, y, sample_weight=c)
    short = kind(max_iter=2, warm_start=True, **options)
    for _ in range(3):
        short = pickle.loads(pickle.dumps(short.fit(X, y, sample_weight=c)))
    np.testing.assert_array_equal(short.predict(X), long.predict(X))
    np.testing.assert_array_equal(short.objective_, long.objective_)
    assert short.n_iter_ == 6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@covering(2, kind=KINDS, loss=LOSSES, solver=("auto", "sdca", "newton"), keeps=(False, True))
def test_a_fit_that_ended_is_continued(data, kind, loss, solver, keeps):
    X, y, _ = data
    y = 1e-9 * y  # units are kept as well
    options = {"loss": loss, "epsilon": 1e-10, "solver": solver, "random_state": 0}
    reg = kind(max_iter=3, tol=None, warm_start=keeps, **options).fit(X, y)
    before = reg.objective_
    reg.set_params(warm_start=True, max_iter=50).fit(X, y)
    best = kind(tol=1e-9, **options).fit(X, y)
    if keeps:
        assert reg.objective_[0] <= before[0] * (1 + 1e-12)
    assert best.dual_objective_[0] <= reg.objective_[0] * (1 + 1e-9)
    assert reg.dual_objective_[0] <= best.objective_[0] * (1 + 1e-9)


@covering(2, kind=KINDS, loss=LOSSES, solver=SOLVERS)
def test_an_interrupted_fit_is_completed_to_the_same_bits(data, kind, loss, solver):
    X, y, _ = data
    tol = 0.05 if solver == "pegasos" else 1e-6
    options = {"loss": loss, "solver": solver, "lam": 0.02, "tol": tol, "random_state": 0}
    options["warm_start"] = True
    with asked_often(1e3):
        whole = kind(**options).fit(X, y)
    reg = kind(**options)
    # The squared error is over soon.
    with interrupted(1, every=1e2) if loss == "squared_error" else interrupted(3):
        reg.fit(X, y)
    assert not hasattr(reg, "objective_")
    reg = pickle.loads(pickle.dumps(reg))
    with asked_often(1e3):
        reg.fit(X, y)
    if kind is PegasosRegressor:
        np.testing.assert_array_equal(reg.predict(X), whole.predict(X))
    assert reg.objective_[0] == pytest.approx(whole.objective_[0], rel=2 * tol)


def test_pieces_of_several_outputs_are_those_of_single_ones(data):
    X, y, _ = data
    Y, make = np.column_stack([y, y[::-1], 1.01 * y]), {"lam": 0.1, "random_state": 0}
    for rows in (X, convert(X, "csr32", np.float64)):
        together = PegasosRegressor(**make).partial_fit(rows, Y).partial_fit(rows, Y)
        for k, column in enumerate(Y.T):
            single = PegasosRegressor(**make).partial_fit(rows, column).partial_fit(rows, column)
            np.testing.assert_allclose(
                together.predict(rows)[:, k], single.predict(rows), rtol=1e-9, atol=1e-9
            )


@EVERY_LOSS
def test_pieces_lead_to_the_optimum(data, loss):
    X, y, _ = data
    make = {"loss": loss, "lam": 0.1, "average": True, "random_state": 0}
    whole = PegasosRegressor(**make, tol=1e-6, solver="sdca").fit(X, y)
    reg = PegasosRegressor(**make)
    for _ in range(200):
        reg.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert not hasattr(reg, "objective_")
    assert reg.n_steps_[0] == 200 * len(y)
    u = y - reg.predict(X)
    reached = penalty(np.append(reg.coef_, reg.intercept_), 0, 0.1, "none")
    reached += mean_loss(loss, u, np.ones(len(y)), 0.1)
    assert whole.dual_objective_[0] <= reached <= 1.1 * whole.objective_[0]


def test_partial_fit_goes_on_from_a_fit(data):
    X, y, _ = data
    reg = PegasosRegressor(loss="squared_error", random_state=0).fit(X, 1e6 * y)
    before = reg.predict(X)
    reg.partial_fit(X[:5], 1e6 * y[:5])
    assert 0 < np.abs(reg.predict(X) - before).max() < 1e6 * np.ptp(y)


def test_few_steps_with_a_kernel_are_the_same_pushed_and_pulled(data):
    X, y, _ = data
    make = {"solver": "pegasos", "n_steps": 20, "random_state": 0, "lam": 0.1}
    pushed = KernelPegasosRegressor(scores="push", **make).fit(X, y)
    pulled = KernelPegasosRegressor(scores="pull", **make).fit(X, y)
    np.testing.assert_allclose(pulled.predict(X), pushed.predict(X), rtol=1e-9, atol=1e-12)
    assert not hasattr(pulled, "objective_")


# ---- What there is around ------------------------------------------------------------------------


@BOTH
def test_estimators_are_cloned_searched_and_put_into_pipelines(data, kind):
    X, y, _ = data
    search = GridSearchCV(
        make_pipeline(StandardScaler(), kind(random_state=0)), {f"{kind.__name__.lower()}__C": [1]}
    )
    assert search.fit(X, y).best_score_ > 0
    reg = kind(loss="huber", epsilon=0.5, C=2)
    assert clone(reg).get_params() == reg.get_params()
    assert not hasattr(reg, "decision_function")
    assert not hasattr(reg, "classes_")


@covering(
    2, kind=KINDS, loss=LOSSES, layout=("dense", "csr32", "csr64"), dtype=(np.float32, np.float64),
    outputs=(None, 1, 3),
)  # fmt: skip
def test_model_files_predict_as_their_estimators(
    tmp_path, data, kind, loss, layout, dtype, outputs
):
    X, y, _ = data
    X = convert(X, layout, dtype)
    y = y if outputs is None else np.column_stack([y, -y, 2 * y + 1][:outputs])
    reg = kind(loss=loss, epsilon=EPSILON, C=2, random_state=0).fit(X, y)
    reg.to_model().save(tmp_path / "m.npz")
    model = pegasos.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(model.predict(X), reg.predict(X))
    np.testing.assert_array_equal(model.decision_function(X), reg.predict(X))
    np.testing.assert_array_equal(model.duality_gap, reg.duality_gap_)
    assert (model.loss, model.lam, model.classes) == (loss, reg.lam_, None)
    assert model.epsilon == (None if loss == "squared_error" else EPSILON)
    assert model.feature_names is None
    assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize("kind", [*KINDS, PegasosClassifier])
def test_model_files_know_the_names_of_features(tmp_path, data, kind):
    pandas = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    clf = kind(random_state=0).fit(frame, y if "Reg" in kind.__name__ else y > y.mean())
    clf.to_model().save(tmp_path / "m.npz")
    model = pegasos.load(tmp_path / "m.npz")
    assert model.feature_names.tolist() == list("abcdef")
    np.testing.assert_array_equal(model.predict(frame), clf.predict(frame))
    np.testing.assert_array_equal(model.predict(X), clf.predict(frame))
    with pytest.raises(
        ValueError, match=r"X must have the columns of training, \['a', .*got \['f'"
    ):
        model.predict(frame[list("fabcde")])


def test_model_files_of_classifiers_need_not_speak_of_regression(tmp_path, data):
    X, y, _ = data
    clf = PegasosClassifier().fit(X, y > y.mean())
    arrays = clf.to_model()._arrays()
    known = json.loads(str(arrays["about"]))
    del known["epsilon"], known["is_flat"]
    _archive.save(tmp_path / "m.npz", arrays | {"about": np.array(json.dumps(known))})
    np.testing.assert_array_equal(pegasos.load(tmp_path / "m.npz").predict(X), clf.predict(X))


def without(name):
    return lambda arrays: {k: v for k, v in arrays.items() if k != name}


def about(**changes):
    def change(arrays):
        known = json.loads(str(arrays["about"])) | changes
        return arrays | {"about": np.array(json.dumps(known))}

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (about(epsilon=-1.0), "epsilon must be a finite number >= 0, got -1.0"),
        (about(epsilon=None), "epsilon is None with loss='huber'"),
        (about(loss="squared_error"), "epsilon is 0.1 with loss='squared_error'"),
        (about(loss="hinge"), "classes must be"),
        (about(is_flat=True), r"n_steps has shape \(2,\), is_flat is True"),
        (about(is_flat="yes"), "is_flat must be"),
        (lambda arrays: arrays | {"classes": np.arange(2)}, "classes must be None"),
        (lambda arrays: arrays | {"feature_names": np.arange(6)}, "feature_names has dtype int64"),
        (
            lambda arrays: arrays | {"feature_names": np.array(["a"])},
            r"feature_names .* shape \(1,\)",
        ),
        (without("n_steps"), "n_steps.* is missing"),
    ],
)
def test_damaged_model_files_are_refused(tmp_path, data, change, words):
    X, y, _ = data
    model = PegasosRegressor(loss="huber").fit(X, np.column_stack([y, -y])).to_model()
    path = tmp_path / "m.npz"
    _archive.save(path, change(model._arrays()))
    with pytest.raises(ValueError, match=f"is not a pegasos model: .*{words}"):
        pegasos.load(path)


def test_coefficients_may_be_set(data):
    X, y, _ = data
    reg = PegasosRegressor().fit(X, y)
    reg.coef_, reg.intercept_ = np.ones(6), np.array([2.0])
    np.testing.assert_allclose(reg.predict(X), X.sum(axis=1) + 2, rtol=1e-9, atol=1e-9)
    reg.intercept_ = np.zeros(2)
    with pytest.raises(ValueError, match="must have 1 rows for 1 output,"):
        reg.predict(X)


@pytest.mark.parametrize(("C", "first"), [(1e-3, "pegasos"), (10.0, "newton")])
def test_squares_are_solved_at_once_where_rows_outweigh_the_penalty(C, first):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 400)) * (rng.random((1500, 400)) < 0.02)
    y = X @ rng.normal(size=400) + rng.normal(size=1500)
    reg = PegasosRegressor(C=C, loss="squared_error", tol=1e-3, random_state=0)
    reg.fit(sparse.csr_array(X), y)
    assert next(iter(reg.solver_epochs_)) == first
    assert reg.duality_gap_[0] <= 1e-3 * reg.objective_[0]


# ---- What is refused -----------------------------------------------------------------------------


def with_one(value):
    def spoil(y):
        y = y.copy()
        y[3] = value
        return y

    return spoil


@BOTH
@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (with_one(np.nan), ValueError, r"y\[.* is nan: leave out rows whose y is missing"),
        (with_one(np.inf), ValueError, r"y\[.* is inf: leave out rows whose y is infinite"),
        (lambda y: np.array([*y.astype("M8[D]")], object), TypeError, "y must be num.*datetime"),
        (with_one(1e151), ValueError, "between -1e.150 and 1e.150, got 1e.151"),
        (lambda y: y[:-1], ValueError, "y must have one entry per row of X"),
        (lambda y: y[:, None, None], ValueError, r"got shape \(\d+, 1, 1\)"),
        (lambda y: np.zeros((len(y), 0)), ValueError, "at least one column"),
        (lambda y: y.astype(str), TypeError, "y must be numeric"),
        (lambda y: np.array(["a"] * len(y), object), ValueError, "y must hold numbers"),
        (lambda y: y * 1j, ValueError, "y must be real"),
        (lambda y: sparse.csr_array(y[:, None]), TypeError, "y must be dense"),
    ],
)
def test_bad_targets_are_refused(data, kind, spoil, error, words):
    X, y, _ = data
    with pytest.raises(error, match=words):
        kind().fit(X, spoil(y))


@BOTH
@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"epsilon": -0.1}, ValueError, "epsilon must be a finite number >= 0, got -0.1"),
        ({"epsilon": "auto"}, TypeError, "epsilon must be a finite number >= 0, got 'auto'"),
        ({"epsilon": 0, "loss": "huber"}, ValueError, "epsilon of loss='huber' must .* > 0, got 0"),
        (
            {"loss": "hinge"},
            ValueError,
            "loss must be one of 'epsilon_insensitive', .*got 'hinge'$",
        ),
        ({"loss": "nope"}, ValueError, "loss must be one of 'epsilon_insensitive', .*'nope'$"),
        ({"C": 1, "lam": 1}, ValueError, "C or lam must be None"),
        ({"n_steps": 3, "solver": "sdca"}, ValueError, "n_steps needs solver='pegasos'"),
    ],
)
def test_bad_parameters_are_refused(data, kind, parameters, error, words):
    X, y, _ = data
    with pytest.raises(error, match=words):
        kind(**parameters).fit(X, y)


def test_losses_of_regression_are_refused_by_classifiers(data):
    X, y, _ = data
    for loss in LOSSES:
        for kind in (PegasosClassifier, KernelPegasosClassifier, PegasosClassifierCV):
            with pytest.raises(ValueError, match=f"loss must be one of 'hinge', .*got '{loss}'$"):
                kind(loss=loss).fit(X, y > 0)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_smooth_losses_need_a_kernel_that_is_positive(data, loss, solver):
    X, y, _ = data
    reg = KernelPegasosRegressor(kernel="sigmoid", gamma=5.0, loss=loss, solver=solver)
    with pytest.raises(ValueError, match="take loss='epsilon_insensitive'"):
        reg.fit(X, y)


def test_partial_fit_refuses_what_needs_all_rows(data):
    X, y, _ = data
    for parameters, words in (
        ({"C": 1.0}, "cannot begin with C=1.0"),
        ({"project": True}, "project must be False in partial_fit"),
        ({"solver": "sdca"}, "partial_fit needs solver='pegasos'"),
    ):
        with pytest.raises(ValueError, match=words):
            PegasosRegressor(**parameters).partial_fit(X, y)


@BOTH
def test_what_decides_the_objective_must_stay(data, kind):
    X, y, _ = data
    reg = kind(loss="huber", warm_start=True, random_state=0).fit(X, y)
    for parameters, words in (
        ({"epsilon": 0.2}, "epsilon must stay 0.1 while training goes on"),
        ({"loss": "squared_error"}, "loss must stay 'huber'"),
        ({"lam": 3.0}, "lam must stay"),
    ):
        with pytest.raises(ValueError, match=words):
            clone_of(reg).set_params(**parameters).fit(X, y)
    with pytest.raises(ValueError, match=r"y must have shape \(n_samples,\)"):
        reg.fit(X, y[:, None])


def clone_of(fitted):
    return pickle.loads(pickle.dumps(fitted))


@pytest.mark.parametrize("name", ["counts", "finished", "problems"])
def test_a_damaged_state_is_refused(data, name):
    X, y, _ = data
    reg = PegasosRegressor(warm_start=True, solver="pegasos", n_steps=50).fit(X, y)
    reg._state[name] = reg._state[name][:0]
    with pytest.raises(ValueError, match="was damaged, and cannot go on"):
        reg.fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_dual_objectives_of_the_squared_error_are_never_below_0(rng):
    """0 is one. With a small lambda, rounding leaves dual variables that are far from optimal."""
    X = 1e3 * rng.normal(size=(100, 5))
    y = X @ rng.normal(size=5) + 1e-9 * rng.normal(size=100)
    reg = pegasos.PegasosRegressor(
        loss="squared_error", lam=1e-12, tol=1e-8, max_iter=20, fit_intercept=False
    )
    reg.fit(X, y)
    assert (reg.dual_objective_ >= 0).all()
    assert (reg.duality_gap_ <= reg.objective_).all()
