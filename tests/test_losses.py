"""Losses, against NumPy, SciPy and peers: the core, and what is built on it."""

import contextlib
import functools
import itertools

import numpy as np
import pytest
from covering import covering
from interruption import interrupted
from losses import (
    ALL,
    BOUNDS,
    CONJUGATES,
    CURVATURES,
    LEAST,
    LOSSES,
    SLOPES,
    SMOOTH,
    TARGET_LOSSES,
    core_targets,
    form,
    make_targets,
)
from rows import DTYPES, LAYOUTS, convert, make_rows
from scipy.optimize import minimize, minimize_scalar
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import LinearSVC

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, PegasosClassifierCV, _core
from pegasos.problems import _validate
from pegasos.problems._settings import Settings
from pegasos.solvers import _pegasos

LAM = 0.05
U = np.linspace(-50, 50, 1_000_001)
# lam |w|^2 of the optimum is at most this: the largest l'(u) (1 - u).
BALL = {loss: (SLOPES[loss](U) * (1 - U)).max() for loss in LOSSES}
SMOOTH_ALL = [loss for loss in ALL if CURVATURES[loss]]


def rows_of(X, layout, dtype):
    rows = convert(X, layout, dtype)
    if layout == "dense":
        return _core.Rows(rows)
    return _core.Rows(rows.data, rows.indices, rows.indptr, rows.shape[1])


def problems_of(n_problems, **settings):
    problems = np.zeros(n_problems, _core.PROBLEM)
    settings = {"lam": LAM, "weight_factor": 1, "last_step": 10**9} | settings
    for name, value in settings.items():
        problems[name] = value
    problems["q"] = 1
    return problems


def delay_of(X, c, lam, loss, feature=1.0):
    """t0 with which the first step does not leap."""
    longest = (c * ((X**2).sum(axis=1) + feature**2)).max()
    return int(np.ceil(CURVATURES[loss] * longest / lam))


def textbook(loss, X, y, z, c, draws, delay, batch_size, ball, average, intercept):
    """Pegasos with rates 1/(lam (t + delay)): w, b and sums of slopes."""
    if intercept == "penalized":
        X = np.column_stack([X, np.ones(len(X))])
    w, b, counts, kept = np.zeros(X.shape[1]), 0.0, np.zeros(len(y)), []
    for t in range(1, len(draws) // batch_size + 1):
        batch = draws[(t - 1) * batch_size : t * batch_size]
        eta = 1 / (LAM * (t + delay))
        slopes = SLOPES[loss](z[batch] - y[batch] * (X[batch] @ w + b))
        w = (1 - eta * LAM) * w + eta / batch_size * (slopes * c[batch] * y[batch]) @ X[batch]
        if intercept == "free":
            b += eta / batch_size * (slopes * c[batch] * y[batch]).sum()
        np.add.at(counts, batch, slopes)
        if ball and w @ w > ball / LAM:
            w *= np.sqrt(ball / LAM / (w @ w))
        kept.append((w, b))
    if average:
        w, b = np.mean([w for w, _ in kept], axis=0), np.mean([b for _, b in kept])
    return (w[:-1], w[-1], counts) if intercept == "penalized" else (w, b, counts)


def objective(loss, X, y, z, c, w, b, penalty):
    losses = ALL[loss](z - y * (X @ w + b))
    return LAM / 2 * (w @ w + penalty * b * b) + c @ losses / c.sum()


#: What `optimum` has found: tests of many parameters ask for it again.
OPTIMA = {}


def optimum(loss, *data, intercept):
    """The objective's least value of a smooth loss, by SciPy."""
    key = loss, intercept, *(array.tobytes() for array in data)
    if key not in OPTIMA:
        OPTIMA[key] = minimized(loss, *data, intercept)
    return OPTIMA[key]


def minimized(loss, X, y, z, c, intercept):
    feature, penalty = float(intercept != "none"), float(intercept == "penalized")

    def value(v):
        w, b = v[:-1], v[-1] * feature
        slope = -y * c * SLOPES[loss](z - y * (X @ w + b)) / c.sum()
        gradient = np.append(LAM * w + slope @ X, feature * slope.sum() + penalty * LAM * b)
        return objective(loss, X, y, z, c, w, b, penalty), gradient

    options = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 10_000}
    return minimize(
        value, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options=options
    ).fun


@covering(
    3, loss=ALL, layout=LAYOUTS, dtype=DTYPES, batch_size=(1, 7), project=(False, True),
    average=(False, True), intercept=("none", "penalized", "free"),
)  # fmt: skip
def test_pegasos_steps_along_the_slope(
    rng, loss, layout, dtype, batch_size, project, average, intercept
):
    X, y = make_rows(rng)
    c, (y, z) = rng.uniform(0.2, 2, len(y)), make_targets(rng, y, loss)
    # A short delay as well: then steps leap, so that there is something to project; but rounding
    # to float32 would grow from leap to leap.
    delay = 3 if project and dtype == np.float64 else delay_of(X, c, LAM, loss)
    ball = 0.3 * project
    problems = problems_of(
        1, delay=delay, ball=ball, average_from=int(average),
        intercept_scaling=float(intercept == "penalized"), free_intercept=intercept == "free",
    )  # fmt: skip
    weights, counts = np.zeros((1, X.shape[1]), dtype), np.zeros((1, len(y)))
    sums = np.zeros_like(weights) if average else None
    pending, slopes = np.zeros((1, batch_size), np.int64), np.zeros((1, batch_size))
    draws, rows = rng.integers(0, len(y), 50 * batch_size), rows_of(X, layout, dtype)
    pegasos = _core.Pegasos(problems, weights, sums, counts, pending, slopes)
    for first, end in [(0, 23), (23, len(draws))]:  # cut within a step
        targets = core_targets(loss, y, z, c)
        pegasos.run(rows, targets, first, draws[first:end], _core.Watch())
    coef, b = pegasos.model()
    w, expected, sums_of_slopes = textbook(
        loss, X, y, z, c, draws, delay, batch_size, ball, average, intercept
    )
    tolerance = (
        {"rtol": 1e-9, "atol": 1e-9} if dtype == np.float64 else {"rtol": 1e-3, "atol": 1e-3}
    )
    np.testing.assert_allclose(coef[0], w, **tolerance)
    np.testing.assert_allclose(b[0], expected, **tolerance)
    np.testing.assert_allclose(counts[0], sums_of_slopes, **tolerance)


@pytest.mark.parametrize("loss", SMOOTH)
def test_a_bundle_takes_the_steps_of_its_problems(rng, dtype, loss):
    X, y = make_rows(rng)
    labels = np.stack([y, -y, np.roll(y, 1)]).astype(np.int8)
    rows, draws = rows_of(X, "csr32", dtype), rng.integers(0, len(y), 300)
    settings = {
        "delay": delay_of(X, np.ones(len(y)), LAM, loss),
        "intercept_scaling": 1,
        "average_from": 5,
    }
    models = []
    for bundled in (False, True):
        problems, counts = problems_of(3, **settings), np.zeros(labels.shape)
        weights, sums = np.zeros((2, 3, X.shape[1]), dtype)
        pending, slopes = np.zeros((3, 1), np.int64), None if bundled else np.zeros((3, 1))
        pegasos = _core.Pegasos(problems, weights, sums, counts, pending, slopes)
        pegasos.run(rows, core_targets(loss, labels, None), 0, draws, _core.Watch(), bundled)
        models.append((*pegasos.model(), counts))
    for alone, together in zip(*models, strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-4)


def test_a_loss_that_needs_slopes_is_refused_without(rng):
    X, y = make_rows(rng)
    weights, pending = np.zeros((1, X.shape[1])), np.zeros((1, 1), np.int64)
    pegasos = _core.Pegasos(problems_of(1), weights, None, None, pending)
    rows, targets = rows_of(X, "dense", np.float64), core_targets("log_loss", y, None)
    with pytest.raises(ValueError, match="slopes"):
        pegasos.run(rows, targets, 0, np.zeros(1, np.int64), _core.Watch())


def settings(intercept, n_problems=1):
    """λ and the intercept, as `core_targets` takes them."""
    return {
        "lams": np.full(n_problems, LAM), "intercept_scaling": float(intercept == "penalized"),
        "free_intercept": intercept == "free",
    }  # fmt: skip


def solved(rng, layout, dtype, intercept, loss, solver, tol):
    """Rows, labels, targets and weights; what is found, dual variables and coefficients."""
    X, y = make_rows(rng)
    c, (y, z) = rng.uniform(0.2, 2, len(y)), make_targets(rng, y, loss)
    fits, targets = _core.Fits(1, *X.shape), core_targets(loss, y, z, c, **settings(intercept))
    (found,) = _core.solve(
        rows_of(X, layout, dtype), targets, (X**2).sum(axis=1), fits, np.full(1, 100_000), tol=tol,
        seed=0, solver=solver, watch=_core.Watch(),
    )  # fmt: skip
    return (X, y, z, c), found, fits.a[0].copy(), fits.coef[0]


@covering(
    3, intercept=["none", "penalized", "free"], layout=LAYOUTS[:2], loss=SMOOTH_ALL,
    solver=[_core.AUTO, _core.ASCENT, _core.NEWTON], dtype=DTYPES,
)  # fmt: skip
def test_solvers_climb_to_the_optimum(rng, layout, dtype, intercept, loss, solver):
    (X, y, z, c), found, a, coef = solved(rng, layout, dtype, intercept, loss, solver, 1e-9)
    assert found["relative_gap"] <= 1e-9
    b = found["intercept"]
    primal = objective(loss, X, y, z, c, coef, b, intercept == "penalized")
    assert primal == pytest.approx(found["objective"], rel=1e-12)
    assert primal == pytest.approx(optimum(loss, X, y, z, c, intercept=intercept), rel=1e-7)
    np.testing.assert_allclose(a, c * SLOPES[loss](z - y * (X @ coef + b)), rtol=1e-3, atol=1e-3)
    # The optimum is within the ball on which Pegasos projects.
    ball = BALL[loss] if loss in LOSSES else 2 * c @ ALL[loss](z) / c.sum()
    assert coef @ coef + (intercept == "penalized") * b**2 <= ball / LAM


@covering(
    layout=LAYOUTS[:2], dtype=DTYPES, intercept=("none", "penalized", "free"),
    loss=[loss for loss in ALL if not CURVATURES[loss]],
    solver=[_core.AUTO, _core.ASCENT, _core.NEWTON],
)  # fmt: skip
def test_losses_with_corners_are_solved_as_both_objectives_say(
    rng, layout, dtype, intercept, loss, solver
):
    """P of the model and D of the dual variables, which SciPy's solvers reach less exactly."""
    (X, y, z, c), found, a, w = solved(rng, layout, dtype, intercept, loss, solver, 1e-7)
    primal = objective(loss, X, y, z, c, w, found["intercept"], intercept == "penalized")
    assert (a >= LEAST[loss] * c).all()
    assert (a <= BOUNDS[loss] * c).all()
    signed = a * y
    if intercept == "free":
        up, down = signed[signed > 0].sum(), -signed[signed < 0].sum()
        a[signed > 0] *= min(1, down / up)
        a[signed < 0] *= min(1, up / down)
    of_a = (a * y) @ X / (LAM * c.sum())
    b = (a * y).sum() / (LAM * c.sum()) * (intercept == "penalized")
    dual = (CONJUGATES[loss](a, c) + (z - 1) * a).sum() / c.sum() - LAM / 2 * (of_a @ of_a + b * b)
    assert found["relative_gap"] <= 1e-7
    # With a free intercept, dual ascent's variables are nearly balanced.
    assert -1e-12 <= primal - dual <= (1e-2 if intercept == "free" else 3e-7) * primal


@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_outputs_of_the_squared_error_begin_at_their_optimum(rng, layout, dtype, intercept):
    """Together, in two groups, wherever they are stopped."""
    X, (n, d) = rng.normal(size=(300, 5)).astype(np.float32).astype(np.float64), (300, 5)
    Z, c = rng.normal(size=(20, n)), rng.uniform(0.2, 2, n)
    c[::9] = 0
    labels = np.tile((c > 0).astype(np.int8), (20, 1))
    targets = core_targets("squared_error", labels, Z, c, **settings(intercept, 20))

    def fitted(stops):
        fits, asked = _core.Fits(20, n, d), itertools.count(1)

        def on_poll():
            if next(asked) in stops:
                raise KeyboardInterrupt

        for _ in range(len(stops) + 1):
            with contextlib.suppress(KeyboardInterrupt):
                _core.solve(
                    rows_of(X, layout, dtype), targets, (X**2).sum(axis=1), fits,
                    np.full(20, 100), tol=1e-9, seed=0, begin_together=True, solver=_core.AUTO,
                    watch=_core.Watch(on_poll, every=1.0),
                )  # fmt: skip
        return fits

    whole = fitted(())
    found, coef = whole.solutions(), whole.coef
    assert (found["n_steps"] == 0).all()
    assert (found["n_epochs"] == 2).all()
    assert (found["relative_gap"] <= 1e-12).all()
    for stops in ((1,), tuple(range(2, 120, 13))):
        np.testing.assert_array_equal(fitted(stops).memory, whole.memory)
    A = np.column_stack([X, np.full(n, float(intercept != "none"))])
    matrix = (A * c[:, None]).T @ A / c.sum() + LAM * np.eye(d + 1)
    matrix[d, d] -= LAM * (intercept == "free")
    w = np.linalg.solve(matrix, (A * c[:, None]).T @ Z.T / c.sum())
    np.testing.assert_allclose(coef, w[:d].T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["intercept"], w[d], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_matrix_of_single_precision_proves_a_gap_to_more_digits(seed):
    """Targets far from 0: the dual value was off by up to 5e-8 of itself."""
    rng, n, d = np.random.default_rng(seed), 300, 100  # BLAS makes the matrix
    X = rng.normal(size=(n, d))
    z = 150 + X @ rng.normal(size=d) / 10 + 0.1 * rng.normal(size=n)
    make = settings("free", 1) | {"lams": np.array([0.1])}
    targets = core_targets("squared_error", np.ones((1, n), np.int8), z[None], None, **make)
    fits = _core.Fits(1, n, d)
    (found,) = _core.solve(
        _core.Rows(X), targets, (X**2).sum(axis=1), fits, np.array([2]), tol=1e-3, seed=0,
        begin_together=True, solver=_core.NEWTON, watch=_core.Watch(),
    )  # fmt: skip
    a = fits.a[0].astype(np.longdouble)
    a -= a.mean()
    v = (a[:, None] * X).mean(axis=0)
    dual = (a @ z / n) ** 2 / (2 * (a @ a / n + v @ v / make["lams"][0]))
    assert found["relative_gap"] > 1e-12  # else the matrix was of double precision
    claimed = found["objective"] * (1 - found["relative_gap"])
    assert claimed == pytest.approx(float(dual), rel=2e-9)


@pytest.mark.parametrize("loss", ALL)
def test_the_core_knows_the_bounds_and_the_curvature(loss):
    about = _core.about_loss(loss, form(loss)[1])
    assert (about["dual_lower"], about["dual_upper"]) == (LEAST[loss], BOUNDS[loss])
    assert about["curvature"] == CURVATURES[loss]


@pytest.mark.parametrize("loss", ALL)
def test_the_best_constant_is_the_best(rng, loss):
    for penalty in (0, 0.3, 10, np.inf):
        y = np.where(rng.random(50) < 0.4, 1, -1)
        c, (y, z) = rng.uniform(0.1, 3, 50), make_targets(rng, y, loss)
        best, least = core_targets(loss, y, z, c).constants(np.array([float(penalty)]))

        def value(b, of=(y, z, c, penalty)):
            y, z, c, penalty = of
            return c @ ALL[loss](z - y * b) / c.sum() + (penalty / 2 * b**2 if b else 0)

        assert least[0] == pytest.approx(value(best[0]), rel=1e-12)
        if penalty == np.inf:
            assert best[0] == 0
        else:
            found = minimize_scalar(value, bracket=(-1, 1), tol=1e-12)
            assert value(best[0]) <= found.fun * (1 + 1e-12)


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("scaling", [0.3, 3])
@pytest.mark.parametrize("prefix", ["", "Kernel"])
def test_a_penalized_intercept_is_the_best_where_rows_tell_nothing(rng, loss, scaling, prefix):
    y = np.where(rng.random(50) < 0.3, 1, -1)
    make = getattr(pegasos, prefix + "Pegasos" + ("Classifier" if loss in LOSSES else "Regressor"))
    options = {} if loss in LOSSES else {"epsilon": form(loss)[1]}
    options |= {"kernel": "linear"} if prefix else {}
    model = make(lam=0.1, loss=loss, intercept_scaling=scaling, tol=1e-6, **options)
    model.fit(np.zeros((50, 2)), y)
    signs, z = (y, 1) if loss in LOSSES else (1, y)

    def value(b):
        return ALL[loss](z - signs * b).mean() + 0.05 * (b / scaling) ** 2

    least = minimize_scalar(value, bracket=(-1, 1), tol=1e-12).fun
    assert value(model.intercept_[0]) <= least * (1 + 2e-6)
    assert model.dual_objective_[0] >= least * (1 - 2e-6)


@pytest.mark.parametrize("solver", ["sdca", "newton"])
@pytest.mark.parametrize("kind", [pegasos.PegasosRegressor, pegasos.KernelPegasosRegressor])
def test_epochs_are_made_even_where_nothing_is_left_to_gain(rng, kind, solver):
    reg = kind(lam=0.1, tol=None, max_iter=5, solver=solver)
    assert reg.fit(rng.normal(size=(40, 3)), np.zeros(40)).n_iter_ >= 5


@pytest.mark.parametrize("loss", SMOOTH_ALL)
def test_no_dual_value_is_above_the_optimum(rng, loss):
    X, y = make_rows(rng)
    c, (y, z) = rng.uniform(0.2, 2, len(y)), make_targets(rng, y, loss)
    for intercept in ("none", "free"):
        targets = core_targets(loss, y, z, c, **settings(intercept))
        least = optimum(loss, X, y, z, c, intercept=intercept)
        for size in (0.1, 1, 5):
            a = targets.feasible(size * rng.normal(size=(1, len(y))), intercept == "free")[0]
            assert (a >= LEAST[loss] * c).all()
            assert (a <= BOUNDS[loss] * c).all()
            assert intercept == "none" or a @ y == pytest.approx(0, abs=1e-12)
            w = (a * y) @ X / (LAM * c.sum())
            own = targets.parts(a[None])[0] / c.sum() - LAM / 2 * w @ w
            best = _core.certify(_core.Rows(X), targets, None, None, a[None])[2][0]
            multiples = np.append(1, np.geomspace(1e-3, 1e3, 2001))
            values = [
                (CONJUGATES[loss](r * a, c) + (z - 1) * r * a).sum() / c.sum()
                - r * r * LAM / 2 * w @ w
                for r in multiples
                if (r * a <= BOUNDS[loss] * c).all() and (r * a >= LEAST[loss] * c).all()
            ]
            assert own == pytest.approx(values[0])
            assert own - best <= 1e-14 * abs(own)  # whose |w|^2 are summed in other orders
            assert best <= least
            assert loss == "log_loss" or max(values) <= best  # which has no closed form


@pytest.mark.parametrize("loss", ALL)
def test_objectives_are_summed(rng, loss):
    X, y = make_rows(rng)
    c, (y, z) = rng.uniform(0.2, 2, len(y)), make_targets(rng, y, loss)
    y[rng.random(len(y)) < 0.1] = 0
    w, b = rng.normal(size=X.shape[1]), rng.normal()
    targets = core_targets(loss, y, z, c)
    *sums, _ = _core.certify(_core.Rows(X), targets, w[None], np.array([b]))
    losses = (c * (y != 0) * ALL[loss](z - y * (X @ w + b))).sum()
    assert np.ravel(sums) == pytest.approx([w @ w, losses])


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("n_problems", [1, 3, 17])
@pytest.mark.parametrize("loss", ["hinge", "huber", "squared_error"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_certificates_are_the_same_however_rows_are_read(
    layout, loss, n_problems, free_intercept, rng
):
    """Objectives and dual values do not depend on each other, nor on other problems, in one bit."""
    n, d = 300, 21
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    rows, c = rows_of(X, layout, np.float64), rng.uniform(0.2, 2, n)
    y, z = rng.choice([-1, 0, 1], (n_problems, n)), np.ones((n_problems, n))
    if loss in TARGET_LOSSES:
        y, z = abs(y), rng.normal(size=(n_problems, n))
    how = {"intercept_scaling": 0.0 if free_intercept else 2.0, "free_intercept": free_intercept}
    lams = rng.uniform(0.01, 1, n_problems)
    targets = core_targets(loss, y, z, c, lams=lams, **how)
    a = y * rng.uniform(-0.5, 2, (n_problems, n))
    coef, intercept = rng.normal(size=(n_problems, d)), rng.normal(size=n_problems)
    np.testing.assert_allclose(targets.masses, (c * (y != 0)).sum(axis=1), rtol=1e-13)
    bounds = _core.certify(rows, targets, None, None, a)[2]
    for interleaved in (False, True):
        laid = np.ascontiguousarray(coef.T) if interleaved else coef
        own = _core.certify(rows, targets, laid, intercept, interleaved=interleaved)
        found = _core.certify(rows, targets, laid, intercept, a, interleaved=interleaved)
        for part, alone in zip(found, (*own[:2], bounds), strict=True):
            np.testing.assert_array_equal(part, alone)
        for k in range(n_problems):
            some = slice(k, k + 1)
            of_k = core_targets(loss, y[some], z[some], c, lams=lams[some], **how)
            alone = _core.certify(rows, of_k, coef[some], intercept[some], a[some])
            assert alone[2] == bounds[some]
            np.testing.assert_allclose(alone[:2], [part[some] for part in found[:2]], rtol=1e-12)
            losses = c * (y[k] != 0) * ALL[loss](z[k] - y[k] * (X @ coef[k] + intercept[k]))
            assert alone[1] == pytest.approx(losses.sum())


# ---- Estimators ----------------------------------------------------------------------------------


def classes_of(X, kind, rng):
    scores = X[:, :4] @ rng.normal(size=(4, 4)) + 0.3 * rng.normal(size=(len(X), 4))
    return (scores[:, 0] > 0).astype(int) if kind == "binary" else scores.argmax(axis=1)


def labels_of(y, multi_class):
    """The labels of every problem, (n_problems, n_samples), in the order of the estimators."""
    classes = np.unique(y)
    if len(classes) == 2:
        return np.where(y == classes[1], 1, -1)[None]
    if multi_class == "ovr":
        return np.where(y == classes[:, None], 1, -1)
    pairs = [(a, b) for i, a in enumerate(classes) for b in classes[i + 1 :]]
    return np.array([(y == b) * 1 - (y == a) * 1 for a, b in pairs])


def objectives(fitted, scores, y, c, squared_norm, free):
    labels = labels_of(y, fitted.multi_class)
    weights = c * (labels != 0)
    losses = (weights * LOSSES[fitted.loss](1 - labels * scores.T)).sum(axis=1)
    penalty = squared_norm + (0 if free else fitted.intercept_**2)
    return fitted.lam / 2 * penalty + losses / weights.sum(axis=1)


@covering(
    layout=LAYOUTS, dtype=DTYPES, solver=("auto", "sdca", "newton"), kind=("binary", "multi-class")
)
def test_linear_machines_meet_liblinear_s(rng, layout, dtype, solver, kind):
    X, _ = make_rows(rng, n=150)
    y = classes_of(X, kind, rng)
    clf = PegasosClassifier(
        lam=1 / len(y),
        loss="squared_hinge",
        solver=solver,
        tol=1e-8,
        max_iter=10**5,
        random_state=0,
    ).fit(convert(X, layout, dtype), y)
    peer = LinearSVC(C=1, tol=1e-12, max_iter=10**6).fit(X, y)
    theirs = X @ peer.coef_.T + peer.intercept_
    labels = labels_of(y, "ovr")
    losses = (np.maximum(0, 1 - labels * theirs.T) ** 2).mean(axis=1)
    least = 0.5 / len(y) * ((peer.coef_**2).sum(axis=1) + peer.intercept_**2) + losses
    np.testing.assert_allclose(clf.objective_, least, rtol=1e-6)


@covering(
    3, layout=LAYOUTS, dtype=DTYPES, solver=("auto", "sdca", "newton", "pegasos"),
    intercept=("none", "penalized", "free"), multi_class=("ovr", "ovo"), loss=SMOOTH,
)  # fmt: skip
def test_certificates_of_linear_machines_are_true(
    rng, layout, dtype, solver, intercept, multi_class, loss
):
    X, _ = make_rows(rng, n=120)
    y, c = classes_of(X, "multi-class", rng), rng.uniform(0.2, 3, 120)
    options = {
        "fit_intercept": intercept != "none", "penalize_intercept": intercept != "free",
        "multi_class": multi_class, "random_state": 0,
    }  # fmt: skip
    fit = functools.partial(PegasosClassifier, lam=0.02, loss=loss, max_iter=300, **options)
    tol = 0.2 if solver == "pegasos" else 1e-4
    X = convert(X, layout, dtype)
    clf = fit(solver=solver, tol=tol).fit(X, y, sample_weight=c)
    norms = (clf.coef_**2).sum(axis=1)
    dense = X if layout == "dense" else X.toarray()
    scores = dense.astype(float) @ clf.coef_.T + clf.intercept_
    primal = objectives(clf, scores, y, c, norms, intercept == "free")
    np.testing.assert_allclose(clf.objective_, primal, rtol=1e-9)
    assert (clf.duality_gap_ <= tol * clf.objective_).all()
    best = fit(solver="sdca", tol=1e-7).fit(X, y, sample_weight=c)
    assert (clf.objective_ - clf.duality_gap_ <= best.objective_ * (1 + 1e-12)).all()


@covering(
    3, dtype=DTYPES, solver=("auto", "sdca", "newton", "pegasos"), free=(False, True),
    multi_class=("ovr", "ovo"), cache_size=(200, 0.05), loss=SMOOTH,
)  # fmt: skip
def test_kernel_machines_are_linear_machines_of_more_features(
    rng, dtype, solver, free, multi_class, cache_size, loss
):
    X, _ = make_rows(rng, n=150, d=6, density=1)
    y, c = classes_of(X, "multi-class", rng), rng.uniform(0.2, 3, 150)
    options = {
        "loss": loss, "penalize_intercept": not free, "multi_class": multi_class,
        "random_state": 0, "max_iter": 300,
    }  # fmt: skip
    tol = 0.5 if solver == "pegasos" else 1e-4
    clf = KernelPegasosClassifier(
        lam=0.02, kernel="poly", degree=2, gamma=1, coef0=1, solver=solver, tol=tol,
        cache_size=cache_size, **options,
    ).fit(X.astype(dtype), y, sample_weight=c)  # fmt: skip
    # (<x, x'> + 1)^2 is the product of these.
    pairs = [X[:, i] * X[:, j] * np.sqrt(1 + (i != j)) for i in range(6) for j in range(i + 1)]
    features = np.column_stack([np.ones(150), np.sqrt(2) * X, *pairs])
    linear = PegasosClassifier(lam=0.02, solver="sdca", tol=1e-7, **options | {"max_iter": 10**4})
    least = linear.fit(features, y, sample_weight=c).objective_
    assert (clf.duality_gap_ <= tol * clf.objective_).all()
    assert (clf.objective_ >= least * (1 - 2e-7)).all()
    assert (clf.objective_ - clf.duality_gap_ <= least * (1 + 1e-6)).all()


@covering(loss=SMOOTH, solver=("auto", "sdca", "newton", "pegasos"))
def test_kernels_without_a_minimum_are_refused(rng, loss, solver):
    y = make_rows(rng, n=50)[1]
    K = rng.normal(size=(50, 50))
    indefinite, positive = K + K.T, K @ K.T
    clf = KernelPegasosClassifier(lam=0.1, kernel="precomputed", loss=loss, solver=solver)
    with pytest.raises(ValueError, match=rf"{loss}.*positive semi-definite.*assume_psd"):
        clf.fit(indefinite, y)
    assert not hasattr(clf, "intercept_")
    clf.set_params(tol=0.3).fit(positive, y)


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
@covering(loss=SMOOTH, solver=("pegasos", "sdca", "auto"))
def test_threads_and_interruptions_change_no_bits(rng, kind, loss, solver):
    X, _ = make_rows(rng, n=150)
    y = classes_of(X, "multi-class", rng)
    options = {"loss": loss, "solver": solver, "tol": None, "max_iter": 7}
    fit = functools.partial(kind, lam=0.02, random_state=0, **options)
    whole, shared = fit().fit(X, y), fit(n_jobs=2).fit(X, y)
    longer = fit(warm_start=True, max_iter=7)
    with interrupted(after=4):
        longer.fit(X, y)
    longer.fit(X, y)
    for other in (longer, shared):
        # Of a kernel machine that Pegasos trains and that is cut, sums are added up in other
        # groups.
        near = 1e-12 if kind is KernelPegasosClassifier and solver == "pegasos" else 0
        np.testing.assert_allclose(
            other.decision_function(X), whole.decision_function(X), rtol=near, atol=near
        )


@covering(average=(False, True), intercept=("penalized", "free"), loss=SMOOTH)
def test_longer_rows_make_steps_shorter_and_leave_the_model(rng, average, intercept, loss):
    """Rows that need a larger t0: w stays, and so does what averages hold."""
    X, y = make_rows(rng)
    settings = Settings(LAM, loss, average=average, penalize_intercept=intercept != "free")
    session = _pegasos.Pegasos(settings, 1, X.shape[1], np.float64, 0)
    for factor in (1, 10):
        rows, _ = _validate.rows(factor * X)
        session.set_rows(y[None].astype(np.int8), None)
        before = session.model()
        session._shorten_steps(rows)
        for old, new in zip(before, session.model(), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-12)
        feature = 1  # of either intercept
        longest = (factor**2 * (X**2).sum(axis=1) + feature).max()
        assert session.problems["delay"][0] == np.ceil(CURVATURES[loss] * longest / LAM)
        session.plan(n_epochs=1)
        session.run(rows)


@pytest.mark.parametrize("loss", SMOOTH)
def test_searches_score_machines_of_the_loss(rng, loss):
    X, _ = make_rows(rng, n=150)
    y = classes_of(X, "multi-class", rng)
    lams = [0.5, 0.05, 0.005]
    for options in ({}, {"cv_effort": 30}, {"cv_effort": 200, "solver": "pegasos", "refit": False}):
        search = PegasosClassifierCV(lams=lams, loss=loss, cv=3, random_state=0, **options).fit(
            X, y
        )
        if search.refit:
            assert search.best_estimator_.loss == loss
        for k, lam in enumerate(lams):
            scores = cross_val_score(
                PegasosClassifier(lam=lam, loss=loss, solver="sdca", tol=1e-6), X, y,
                cv=StratifiedKFold(3),
            )  # fmt: skip
            found = search.cv_results_["mean_test_score"][k]
            assert found == pytest.approx(scores.mean(), abs=0.035)
