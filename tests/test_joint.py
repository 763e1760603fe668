"""Joint classes: Crammer and Singer's problem with costs, by Pegasos, ascent and Newton."""

import pickle

import numpy as np
import pytest
from covering import covering
from interruption import asked_often, interrupted
from rows import DTYPES, LAYOUTS, convert, make_rows
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC
from test_linear import stream

import pegasos
from pegasos import PegasosClassifier, PegasosClassifierCV, _core
from pegasos.solvers._joint import JointSchedule

JOINT = {"multi_class": "crammer_singer", "random_state": 3}


def make_classes(rng, n=80, n_classes=4):
    X, _ = make_rows(rng, n=n, d=7)
    y = (X @ rng.normal(size=(7, n_classes)) + rng.normal(size=(n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def make_cost(rng, n_classes):
    cost = rng.uniform(0.1, 3, (n_classes, n_classes))
    np.fill_diagonal(cost, 0)
    return cost


def primal(coef, intercept, X, y, c, cost, lam, feature):
    """P(W) of intercepts that are penalised as weights of a feature of this value."""
    scores = X @ coef.T + intercept
    losses = (cost[y] + scores - scores[np.arange(len(y)), y][:, None]).max(axis=1)
    norm = (coef**2).sum() + (((intercept / feature) ** 2).sum() if feature else 0)
    return lam / 2 * norm + c @ losses / c.sum()


def dual(a, X, y, c, cost, lam, feature):
    """D(a), a feasible."""
    X = np.column_stack([X, np.full(len(X), feature)])
    np.testing.assert_allclose(a.sum(axis=1), 0, atol=1e-12 * c.max())
    is_own = np.eye(cost.shape[0])[y]
    assert (a <= c[:, None] * is_own + 1e-12 * c.max()).all()
    w = a.T @ X / (lam * c.sum())
    return -(a * cost[y]).sum() / c.sum() - lam / 2 * (w**2).sum()


def kept(clf, n, d, n_classes):
    """The state of a warm start: numbers of the struct and dual variables."""
    memory = clf._state["memory"]
    STATE = _core.JOINT_STATE
    numbers = memory[STATE.itemsize :].view(np.float64)
    begin = n_classes * (d + 1)
    return memory[: STATE.itemsize].view(STATE)[0], numbers[begin:][: n * n_classes].reshape(n, -1)


@covering(
    layout=LAYOUTS,
    dtype=DTYPES,
    n_classes=[2, 3, 9],
    weighted=[False, True],
    intercept=["none", "penalized", "free"],
    costly=[False, True],
    lam=[1e-1, 1e-3],
    solver=["auto", "sdca", "newton"],
)
def test_the_certificate_is_that_of_the_formulas(
    rng, layout, dtype, n_classes, weighted, intercept, costly, lam, solver
):
    X, y = make_classes(rng, n_classes=n_classes)
    c = rng.integers(0, 3, len(y)).astype(float) if weighted else np.ones(len(y))
    c[:n_classes] = 1
    cost = make_cost(rng, n_classes) if costly else 1 - np.eye(n_classes)
    feature = 2.0 if intercept == "penalized" else 0.0
    clf = PegasosClassifier(
        **JOINT, lam=lam, tol=1e-9, max_iter=10**5, solver=solver,
        fit_intercept=intercept != "none", penalize_intercept=intercept != "free",
        warm_start=True, intercept_scaling=2.0, cost=cost if costly else None,
    ).fit(convert(X, layout, dtype), y, c)  # fmt: skip
    assert clf.objective_.shape == clf.duality_gap_.shape == (1,)
    assert 0 <= clf.duality_gap_[0] <= 1e-9 * clf.objective_[0]
    _, a = kept(clf, len(y), 7, n_classes)
    problem = X, y, c, cost, lam, feature
    if intercept == "free":  # the certificate is of dual variables that are balanced further
        np.testing.assert_allclose(a.sum(axis=0), 0, atol=1e-3 * c.sum())
    np.testing.assert_allclose(
        dual(a, *problem), clf.dual_objective_[0], rtol=1e-3 if intercept == "free" else 1e-9
    )
    coef, b = clf.coef_, clf.intercept_
    if n_classes == 2:  # the difference is told; the optimum has two opposite vectors
        assert coef.shape == (1, 7)
        coef, b = np.vstack([-coef, coef]) / 2, np.append(-b, b) / 2
    np.testing.assert_allclose(primal(coef, b, *problem), clf.objective_[0], rtol=1e-8)
    for _ in range(20):
        moved = coef + rng.normal(size=coef.shape) * 10.0 ** rng.uniform(-4, 0)
        assert primal(moved, b, *problem) >= clf.dual_objective_[0]


@pytest.mark.filterwarnings("ignore:stopped:sklearn.exceptions.ConvergenceWarning")
def test_random_certificates_hold(rng):
    """Of any fit, however short, no model has an objective below its dual one."""
    for trial in range(100):
        n_classes, lam = int(rng.integers(2, 6)), 10.0 ** rng.uniform(-3, 3)
        X, y = make_classes(rng, n=30, n_classes=n_classes)
        X = X * 10.0 ** rng.uniform(-2, 1)
        cost, c = make_cost(rng, n_classes), rng.uniform(0.1, 2, len(y))
        options = {"solver": "pegasos", "tol": None} if trial % 2 else {"tol": None}
        if trial % 4 == 1:
            options |= {"project": True, "batch_size": int(rng.integers(1, 5))}
        elif trial % 4 == 3:  # rows may be drawn more often than there are epochs
            options |= {"sampling": "uniform"}
        clf = PegasosClassifier(**JOINT, **options, lam=lam, cost=cost, max_iter=1 + trial % 5)
        clf.fit(X, y, c)
        best = PegasosClassifier(**JOINT, lam=lam, cost=cost, tol=1e-4).fit(X, y, c)
        slack = 1e-12 * best.objective_[0]
        assert clf.dual_objective_[0] <= best.objective_[0] + slack
        assert clf.objective_[0] >= best.dual_objective_[0] - slack
        if n_classes > 2:
            value = primal(clf.coef_, clf.intercept_, X, y, c, cost, lam, 1.0)
            np.testing.assert_allclose(value, clf.objective_[0], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:stopped:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_epochs", [1, 5])
def test_the_dual_value_of_pegasos_is_that_of_its_steps(rng, n_epochs):
    X, y = make_classes(rng)
    clf = PegasosClassifier(
        **JOINT, lam=0.1, solver="pegasos", tol=None, max_iter=n_epochs, warm_start=True
    ).fit(X, y)
    _, a = kept(clf, 80, 7, 4)
    expected = dual(a / n_epochs, X, y, np.ones(80), 1 - np.eye(4), 0.1, 1.0)
    assert clf.dual_objective_[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("ignore:stopped:sklearn.exceptions.ConvergenceWarning")
def test_the_best_model_so_far_is_kept(rng):
    clf = PegasosClassifier(**JOINT, lam=1e-3, tol=None, max_iter=1, solver="sdca", warm_start=True)
    X, y = make_classes(rng)
    objectives = [clf.fit(X, y).objective_[0] for _ in range(20)]
    assert (np.diff(objectives) <= 1e-12).all()


# The liblinear of scikit-learn 1.6 uses up all its iterations; its model is good enough.
@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_optimum_is_that_of_liblinear(rng, fit_intercept, n_classes):
    X, y = make_classes(rng, n=200, n_classes=n_classes)
    options = {"C": 0.3, "fit_intercept": fit_intercept, "max_iter": 10**6}
    ours = PegasosClassifier(**JOINT, **options, tol=1e-9).fit(X, y)
    theirs = LinearSVC(**options, multi_class="crammer_singer", tol=1e-10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    scores = theirs.decision_function(X)
    if n_classes == 2:
        scores = np.column_stack([scores, -scores])
    best = np.sort(scores)
    is_clear = best[:, -1] - best[:, -2] > 1e-3  # some scores are equal
    assert is_clear.mean() > 0.9
    np.testing.assert_array_equal(ours.predict(X)[is_clear], theirs.predict(X)[is_clear])
    if n_classes > 2:
        feature = float(fit_intercept)
        problem = X, y, np.ones(len(y)), 1 - np.eye(n_classes), ours.lam_, feature
        least = primal(theirs.coef_, np.broadcast_to(theirs.intercept_, n_classes), *problem)
        np.testing.assert_allclose(ours.objective_[0], least, rtol=1e-6)


def textbook(X, y, cost, lam, draws, batch_size, *, project, c, is_free, average):
    """Pegasos as in the paper; a constant feature is a column of X."""
    W, mass, n = np.zeros((len(cost), X.shape[1])), c.sum(), np.count_nonzero(c)
    b, kept = np.zeros(len(cost)), []
    radius = np.sqrt(2 * (c @ cost[y].max(axis=1)) / mass / lam)
    for t in range(1, len(draws) // batch_size + 1):
        step, change = np.zeros_like(W), np.zeros(len(cost))
        for i in draws[(t - 1) * batch_size : t * batch_size]:
            scores = cost[y[i]] + W @ X[i] + b
            worst = y[i] if scores.max() <= scores[y[i]] else scores.argmax()
            step[worst] -= c[i] * n / mass * X[i]
            step[y[i]] += c[i] * n / mass * X[i]
            change[worst] -= c[i] * n / mass
            change[y[i]] += c[i] * n / mass
        b = b + is_free * change / (lam * t * batch_size)
        W = (1 - 1 / t) * W + step / (lam * t * batch_size)
        if project:
            W = min(1, radius / max(np.linalg.norm(W), 1e-300)) * W
        kept.append((W, b))
    if average:
        kept = kept[len(kept) // 2 * (average == "suffix") :]
        return np.mean([W for W, _ in kept], axis=0), np.mean([b for _, b in kept], axis=0)
    return W, b


@covering(
    layout=LAYOUTS,
    dtype=DTYPES,
    batch_size=[1, 3],
    sampling=["permutation", "cyclic", "uniform"],
    project=[False, True],
    weighted=[False, True],
    intercept=["none", "penalized", "free"],
    average=[False, True, "suffix"],
    scale=[1, 64],  # projections of long steps shrink W by orders of magnitude
)
def test_pegasos_takes_the_steps_of_the_paper(
    rng, layout, dtype, batch_size, sampling, project, weighted, intercept, average, scale
):
    X, y = make_classes(rng)
    X = scale * X
    cost, n_steps = make_cost(rng, 4), 120
    c = rng.integers(0, 3, len(y)).astype(float) if weighted else np.ones(len(y))
    c[:4] = 1
    clf = PegasosClassifier(
        **JOINT, lam=1e-2, solver="pegasos", n_steps=n_steps, batch_size=batch_size, cost=cost,
        sampling=sampling, project=project, fit_intercept=intercept != "none", average=average,
        penalize_intercept=intercept != "free",
    ).fit(convert(X, layout, dtype), y, c)  # fmt: skip
    draws = stream(len(y), 4 * n_steps * batch_size, sampling, 3)
    rows = np.column_stack([X, np.full(len(X), float(intercept == "penalized"))])
    draws = draws[c[draws] > 0][: n_steps * batch_size]
    W, b = textbook(
        rows, y, cost, 1e-2, draws, batch_size, project=project, c=c, is_free=intercept == "free",
        average=average,
    )  # fmt: skip
    W[:, -1] += b
    assert clf.n_steps_.tolist() == [n_steps]
    np.testing.assert_allclose(np.column_stack([clf.coef_, clf.intercept_]), W, atol=1e-9)


class StopError(Exception):
    pass


@pytest.mark.parametrize(
    "options",
    [
        {"last_step": 3000},
        {"last_step": 3000, "averages": True, "average_from": 1501, "is_free": True},
        {"tol": 1e-6, "last_epoch": 200},
        {"tol": 1e-6, "last_epoch": 200, "newton_after": 1, "is_free": True},
    ],
)
@pytest.mark.parametrize("layout", ["dense", "csr32"])
def test_a_fit_that_was_stopped_anywhere_ends_with_the_same_bits(rng, options, layout):
    X, y = make_classes(rng)
    rows, _ = pegasos.problems._validate.rows(convert(X, layout, np.float64))
    norms, options = (X**2).sum(axis=1), dict(options)
    problem = _core.Joint(
        rows, y.astype(np.int64), None, make_cost(rng, 4), norms, lam=1e-3, feature=1.0,
        is_free=options.pop("is_free", False),
    )  # fmt: skip

    def run(on_poll, every=1.0):
        memory = np.zeros(_core.Joint.n_bytes(len(X), 7, 4, "averages" in options), np.uint8)
        stops = 0
        while True:
            try:
                problem.run(memory, seed=5, watch=_core.Watch(on_poll, every=every), **options)
                return memory, stops
            except StopError:
                stops += 1
                memory = memory.copy()

    calls = 0

    def on_poll():
        nonlocal calls
        calls += 1
        # A transaction must get to its end: it polls for every row.
        if calls % 701 == 0:
            raise StopError

    whole, _ = run(None, every=1e9)
    stopped, stops = run(on_poll)
    assert stops > 3
    np.testing.assert_array_equal(whole, stopped)


def test_a_fit_that_begins_anew_takes_the_seed_that_is_set(rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    clf = PegasosClassifier(**JOINT | {"random_state": 0}, lam=1e-2, n_steps=50).fit(X, y)
    clf.set_params(warm_start=True, random_state=7).fit(X, y)  # nothing is there to go on from
    new = clone(clf).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, new.coef_)
    assert (clf.coef_ != clone(clf).set_params(random_state=0).fit(X, y).coef_).any()


@pytest.mark.parametrize("solver", ["sdca", "newton", "pegasos"])
def test_warm_starts_complete_what_was_interrupted(rng, solver):
    X, y = make_classes(rng)
    options = {**JOINT, "lam": 1e-3, "solver": solver, "tol": None, "warm_start": True}
    longer = PegasosClassifier(**options, max_iter=12).fit(X, y)
    twice = PegasosClassifier(**options, max_iter=6).fit(X, y)
    twice = pickle.loads(pickle.dumps(twice)).fit(X, y)
    assert min(twice.n_iter_, longer.n_iter_) >= 12
    assert solver == "newton" or twice.n_iter_ == longer.n_iter_ == 12
    assert twice.objective_[0] <= 2 * longer.objective_[0]
    if solver == "pegasos":
        np.testing.assert_array_equal(longer.coef_, twice.coef_)
    with pytest.raises(ValueError, match="must be those of the fit that warm_start"):
        twice.fit(X + 1, y)
    with pytest.raises(ValueError, match="X must be that of the fit"):
        twice.fit(X[:-1], y[:-1])
    other = "auto" if solver == "pegasos" else "pegasos"
    with pytest.raises(ValueError, match="solver must not change"):
        twice.set_params(solver=other).fit(X, y)
    np.testing.assert_array_equal(twice.set_params(solver=solver).coef_, twice.to_model().coef)


def test_dual_ascent_goes_on_from_newtons_method(rng):
    X, y = make_classes(rng)
    options = {**JOINT, "lam": 1e-3, "max_iter": 10**4}
    clf = PegasosClassifier(**options, solver="newton", tol=1e-3, warm_start=True).fit(X, y)
    before = clf.n_iter_
    clf.set_params(solver="sdca", tol=None, max_iter=2).fit(X, y)
    assert clf.n_iter_ == before + 2
    assert clf.solver_epochs_ == {"pegasos": 1, "sdca": 2, "newton": before - 1}
    assert 2 * len(X) < kept(clf, *X.shape, 4)[0]["n_visits"] <= 3 * len(X)  # Pegasos's are some
    clf.set_params(tol=1e-4, max_iter=10**4).fit(X, y)
    assert clf.duality_gap_[0] <= 1e-4 * clf.objective_[0]
    new = PegasosClassifier(**options, solver="sdca", tol=1e-4).fit(X, y)
    assert clf.solver_epochs_["sdca"] < new.n_iter_ / 2


@pytest.mark.parametrize("lam", [1e-1, 1e-3])
def test_an_interrupted_fit_of_few_rows_is_completed_to_the_same_bits(rng, lam):
    """With tol="auto", which asks for a tiny gap, and, where that is slow, for a usual one."""
    clf = PegasosClassifier(**JOINT, lam=lam, warm_start=True, max_iter=10**4, solver="sdca")
    for _ in range(20):  # of some rows, it is not slow where λ is small, or slow where it is large
        X, y = make_classes(rng)
        with asked_often():
            whole = clone(clf).fit(X, y)
        is_slow = whole.n_iter_ >= 200
        if is_slow == (lam < 1e-2):
            break
    assert is_slow == (lam < 1e-2)
    assert whole.duality_gap_[0] <= (1e-3 if is_slow else 1e-10) * whole.objective_[0]
    for after in (1, 20, 100):
        again = clone(clf)
        with interrupted(after):
            again.fit(X, y)
        with asked_often():
            again = pickle.loads(pickle.dumps(again)).fit(X, y)
        np.testing.assert_array_equal(again.coef_, whole.coef_)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_searches_score_folds_as_single_fits_do(rng, layout, n_classes):
    X, y = make_classes(rng, n=90, n_classes=n_classes)
    cost, c, rows = make_cost(rng, n_classes), rng.uniform(0.2, 2, 90), convert(X, layout, "f8")
    folds = list(StratifiedKFold(3).split(X, y))
    joint = JOINT | {"cost": cost}
    search = PegasosClassifierCV(
        **joint, lams=[1.0, 1e-2], cv=folds, cv_effort=1e-6, max_iter=10**5
    )
    search.fit(rows, y, c)
    for k, lam in enumerate(search.lams):
        for fold, (train, test) in enumerate(folds):
            clf = PegasosClassifier(**joint, lam=lam, tol=1e-9, max_iter=10**5)
            clf.fit(X[train], y[train], c[train])
            is_sure = np.ones(len(test), bool)
            if n_classes > 2:
                first, second = np.sort(clf.decision_function(X[test]), axis=1)[:, :-3:-1].T
                is_sure = first - second > 1e-2
            right = np.where(is_sure, clf.predict(X[test]) == y[test], 0.5)
            doubt = 0.5 * c[test][~is_sure].sum() / c[test].sum()
            assert abs(search.scores_[k, fold] - np.average(right, weights=c[test])) <= doubt + 1e-9
    assert (search.cv_results_["relative_gap"] <= 1e-6).all()
    assert search.best_estimator_.multi_class == "crammer_singer"
    np.testing.assert_array_equal(search.best_estimator_.cost, cost)
    assert search.predict(rows).shape == (90,)


@pytest.mark.parametrize("effort", ["auto", 3])
def test_searches_take_any_effort_and_numbers_of_steps(rng, effort):
    X, y = make_classes(rng)
    search = PegasosClassifierCV(**JOINT, Cs=3, cv=2, cv_effort=effort).fit(X, y)
    if effort == 3:
        assert (search.cv_results_["n_epochs"] == 3).all()
    else:
        assert (search.cv_results_["relative_gap"] <= 0.05).all()
    assert search.best_score_ > 0.4
    steps = PegasosClassifierCV(**JOINT, lams=[1e-1], cv=2, n_steps=[20, 200], refit=False)
    scores = steps.fit(X, y).scores_
    folds = list(StratifiedKFold(2).split(X, y))
    for t, n_steps in enumerate((20, 200)):
        one = PegasosClassifierCV(**JOINT, lams=[1e-1], cv=folds, n_steps=n_steps, refit=False)
        np.testing.assert_array_equal(scores[0, t], one.fit(X, y).scores_[0, 0])


def test_callbacks_and_files_know_the_model(rng, tmp_path):
    X, y = make_classes(rng)
    names = np.array(["a", "b", "c", "d"])[y]
    clf = PegasosClassifier(**JOINT, lam=1e-2).fit(X, names)
    clf.to_model().save(tmp_path / "model.npz")
    model = pegasos.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(model.predict(X), clf.predict(X))
    np.testing.assert_array_equal(model.objective, clf.objective_)
    assert clf.decision_function(X).shape == (len(X), 4)
    assert clf.solver_epochs_["pegasos"] == 1
    assert not hasattr(clf, "predict_proba")


def test_costs_move_errors_to_where_they_are_cheap():
    X, y = load_digits(return_X_y=True)
    cost = 1 - np.eye(10)
    cost[:, 8] = 20  # an 8 where there is none
    cost[8, 8] = 0
    plain, costly = (
        PegasosClassifier(**JOINT, lam=1e-1, cost=of).fit(X / 16, y).predict(X / 16)
        for of in (None, cost)
    )
    wrong = [np.count_nonzero((predicted == 8) & (y != 8)) for predicted in (plain, costly)]
    assert wrong[1] < wrong[0] / 2


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (np.ones((3, 3)), r"cost must be 0 on its diagonal, but cost\[0, 0\] is 1"),
        (np.zeros((4, 4)), r"cost must have shape \(3, 3\)"),
        (np.zeros((3, 3)), "cost must be above 0 somewhere"),
        (np.zeros(3), r"cost must have shape \(3, 3\)"),
        ([[0, 1, 1], [1, 0], [1, 1, 0]], r"cost must have 3 rows .* got \[\[0, 1, 1\], \[1, 0\]"),
        (np.array([[0, 1, 1], [1, 0, -1], [1, 1, 0]]), r"but cost\[1, 2\] is -1"),
        (np.array([[0, 1, np.nan], [1, 0, 1], [1, 1, 0]]), r"cost must be finite.*cost\[0, 2\]"),
        (np.array([[0, 1, np.inf], [1, 0, 1], [1, 1, 0]]), r"cost must be finite.*cost\[0, 2\]"),
    ],
)
def test_bad_costs_are_refused(rng, cost, told):
    X, y = make_classes(rng, n_classes=3)
    with pytest.raises(ValueError, match=told):
        PegasosClassifier(multi_class="crammer_singer", cost=cost).fit(X, y)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"multi_class": "ovr", "cost": np.eye(2)}, "cost needs multi_class='crammer_singer'"),
        ({"loss": "squared_hinge"}, "loss must be 'hinge' with"),
    ],
)
def test_what_the_joint_problem_has_not_is_refused(rng, options, told):
    X, y = make_classes(rng)
    with pytest.raises(ValueError, match=told):
        PegasosClassifier(**{"multi_class": "crammer_singer"} | options).fit(X, y)
    clf = PegasosClassifier(multi_class="crammer_singer")
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'"):
        clf.partial_fit(X, y, classes=range(4))
    with pytest.raises(ValueError, match="multi_class must be 'ovr' or 'ovo' if y has several"):
        clf.fit(X, np.eye(4)[y])
    with pytest.raises(ValueError, match="margins are of binary problems"):
        clf.fit(X, y).margins(X, y)


@pytest.mark.parametrize("x", [1e-300, 1e-160, 1e150])
def test_rows_of_any_size_end_in_numbers_or_a_sentence(rng, x):
    X, y = make_classes(rng)
    X[:5] = 0
    clf = PegasosClassifier(**JOINT, lam=1e-3, max_iter=20, fit_intercept=False, tol=None)
    if x > 1e100:
        with pytest.raises(ValueError, match=r"training overflowed float64"):
            clf.fit(X * 1e200, y)
    assert np.isfinite(clf.fit(X * x, y).objective_).all()
    assert clf.duality_gap_[0] >= 0


def test_a_fit_that_was_stopped_before_it_began_takes_other_rows(rng, monkeypatch):
    X, y = make_classes(rng)
    clf = PegasosClassifier(**JOINT, lam=0.1, warm_start=True)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(JointSchedule, "_run", stop)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    clf.fit(X[:60], y[:60])
    other = PegasosClassifier(**JOINT, lam=0.1).fit(X[:60], y[:60])
    np.testing.assert_array_equal(clf.coef_, other.coef_)


def test_damaged_memory_is_refused(rng):
    X, y = make_classes(rng)
    clf = PegasosClassifier(**JOINT, lam=1e-2, warm_start=True, max_iter=3, tol=None).fit(X, y)
    for name, value in (("position", 10**6), ("n_active", -1), ("n_rows", 5), ("n_classes", 9)):
        broken = pickle.loads(pickle.dumps(clf))
        JointSchedule.core_state(broken._state["memory"])[name] = value
        with pytest.raises(ValueError, match=r"memory (is not|must be) that of a fit"):
            broken.fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
def test_dual_values_are_never_below_that_of_no_dual_variables():
    """Of rows that costs hardly tell apart, the objective is near 0, and rounding is below."""
    rng, cost = np.random.default_rng(22), np.array([[0, 3e-3], [1e-4, 0]])
    X = rng.normal(size=(30, 10))
    clf = PegasosClassifier(
        multi_class="crammer_singer", cost=cost, lam=5e-6, solver="newton",
        penalize_intercept=False, random_state=0, tol=1e-6,
    ).fit(X, X[:, 0] > 0)  # fmt: skip
    assert clf.dual_objective_[0] >= 0


@pytest.mark.parametrize("seed", [9, 14, 47, 49, 51])
def test_newton_gets_there_whatever_the_size_of_rows_and_weights(seed):
    """With a narrower corner at first, steps were so long that hardly any of one could be taken."""
    rng = np.random.default_rng(seed)
    n, d, n_classes = int(rng.integers(30, 200)), int(rng.integers(1, 20)), int(rng.integers(2, 8))
    X, y = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2), np.arange(n) % n_classes
    c, lam = 10.0 ** rng.uniform(-2, 2, n), 10.0 ** rng.uniform(-5, -2)
    clf = PegasosClassifier(**JOINT, solver="newton", lam=lam, tol=1e-3, max_iter=1000).fit(X, y, c)
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]


@pytest.mark.parametrize("seed", [1, 2, 5, 8, 11])
def test_newton_gets_there_with_free_intercepts_and_weights_over_many_orders(seed):
    """Rows of large weights, which a step did not know of, allowed for hardly any of it."""
    X, y = make_blobs(50, centers=3, random_state=seed, cluster_std=20)
    clf = PegasosClassifier(
        **JOINT, solver="newton", lam=6e-5, tol=1e-3, max_iter=500, penalize_intercept=False
    ).fit(X, y, np.where(y == 0, 1e3, 1e-4))  # fmt: skip
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_over_many_orders_leave_no_mean_of_classes(rng):
    """The optimum has none, and Newton's steps bring none: lam alone would take it away."""
    X, c = 30 * rng.normal(size=(60, 5)), 10.0 ** rng.uniform(-6, 6, 60)
    y = np.arange(60) % 3
    clf = PegasosClassifier(
        multi_class="crammer_singer", solver="newton", lam=1e-7, max_iter=100, random_state=0
    )
    coef = clf.fit(X, y, c).coef_
    assert np.abs(coef.sum(axis=0)).max() <= 1e-13 * np.abs(coef).max()


def test_one_class_for_all_rows_is_told_where_the_list_of_advice_is_short():
    X = np.array([[0.0, 0], [0, 0], [0, 0], [1, 0], [0, 1], [1, 1]])
    clf = PegasosClassifier(
        multi_class="crammer_singer", solver="pegasos", n_steps=1, fit_intercept=False, lam=1e-3,
        class_weight="balanced", random_state=0,
    )  # fmt: skip
    with pytest.warns(pegasos.ConstantPredictionWarning, match="no use. What may help: a lam"):
        clf.fit(X, [0, 1, 2, 0, 1, 2])
