"""What an estimator is after each call: fits that fail or are stopped, other data and solvers."""

import itertools
import pickle
import threading
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from covering import covering
from interruption import interrupted
from losses import LOSSES, TARGET_LOSSES
from rows import convert, make_rows
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosRegressor,
    PegasosClassifier,
    PegasosRegressor,
    fit,
)
from pegasos.estimators import _callbacks

MACHINES = {"linear": PegasosClassifier, "kernel": KernelPegasosClassifier}


@pytest.fixture(params=MACHINES)
def machine(request):
    return MACHINES[request.param]


def public(clf):
    """All that is known of a fitted estimator."""
    return {name: value for name, value in vars(clf).items() if name.endswith("_")}


def same(before, after):
    assert before.keys() == after.keys()
    for name, value in before.items():
        if sparse.issparse(value):
            value, after = value.toarray(), after | {name: after[name].toarray()}
        np.testing.assert_array_equal(value, after[name], err_msg=name)


# ---- Fits that fail ------------------------------------------------------------------------------


class Failing:
    """A callback that fails at the end of a task."""

    def __init__(self, task):
        self.task = task

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        if context.task_name == self.task:
            raise RuntimeError("no disk")


def one_class(clf, X, y):
    clf.fit(X, np.zeros(len(y)))


def bad_parameter(clf, X, y):
    clf.set_params(n_steps=3, solver="sdca").fit(X, y)


def no_memory(clf, X, y):
    clf.set_params(batch_size=2**60, solver="pegasos").fit(X, y)


def warning(clf, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.set_params(tol=1e-9, max_iter=1, batch_size=1, solver="auto", n_steps=None).fit(X, y)


def test_a_refit_that_fails_changes_nothing(machine, rng, layout, dtype):
    X, y = make_rows(rng)
    X = convert(X, layout, dtype)
    clf = machine(lam=0.01, random_state=0).fit(X, y)
    before, scores = public(clf), clf.decision_function(X)
    for fail, d in itertools.product((one_class, bad_parameter, no_memory, warning), (15, 40)):
        other, labels = make_rows(rng, d=d)
        other = convert(other, layout, dtype)
        with pytest.raises((ValueError, MemoryError, ConvergenceWarning)):
            fail(clf, other, labels)
        same(before, public(clf))
        np.testing.assert_array_equal(clf.decision_function(X), scores)
        with pytest.raises(ValueError, match=f"X has {d} features"):
            clf.decision_function(other)


def test_a_refit_that_fails_leaves_names_alone(machine, rng):
    X, y = make_rows(rng)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    clf = machine(lam=0.01, random_state=0).fit(frame, y)
    before = public(clf)
    for other in (X[:, :3], frame[["f2", "f1"]]):
        with pytest.raises(ValueError, match="one class"):
            one_class(clf, other, y)
        same(before, public(clf))
    clf.predict(frame)  # warns of nothing, which the suite takes for an error


@pytest.mark.parametrize("task", ["epoch", "fit"])
def test_a_refit_whose_callback_fails_changes_nothing(machine, rng, task):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    X, y = make_rows(rng)
    clf = machine(lam=0.01, random_state=0).fit(X, y)
    before, scores = public(clf), clf.decision_function(X)
    with pytest.raises(RuntimeError, match="no disk"):
        clf.set_callbacks(Failing(task)).fit(X[:, :7], y > 0)
    same(before, public(clf))
    np.testing.assert_array_equal(clf.decision_function(X), scores)


def test_a_partial_fit_that_fails_changes_nothing(rng):
    X, y = make_rows(rng)
    clf = PegasosClassifier(lam=0.01, random_state=0)
    with pytest.raises(ValueError, match="two classes"):
        clf.partial_fit(X, y, classes=[1])
    assert not public(clf)
    clf.partial_fit(X, y, classes=[-1, 1])
    before = public(clf)
    for arguments in ((X[:, :3], y), (X, y + 5), (X, y, None, np.zeros(len(y)))):
        with pytest.raises(ValueError, match=r"features|only labels|zero"):
            clf.partial_fit(*arguments)
    same(before, public(clf))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("n_features", [300, 600])
def test_after_a_refit_that_failed_no_foreign_memory_is_read(rng, kernel, n_features):
    """Which ended the interpreter."""
    X, other = rng.normal(size=(200, 400)), rng.normal(size=(5000, n_features))
    clf = KernelPegasosClassifier(random_state=0, kernel=kernel).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="one class"):
        clf.fit(other[:100], np.zeros(100))
    with pytest.raises(ValueError, match=f"X has {n_features} features"):
        clf.predict(other)


def test_rows_are_compared_with_the_support_vectors_themselves(machine, rng):
    """`n_features_in_` is an attribute that users can write to."""
    X, y = make_rows(rng)
    clf = machine(lam=0.01, random_state=0).fit(X, y)
    clf.n_features_in_ = 5
    with pytest.raises(ValueError, match="X has 5 features"):
        clf.decision_function(X[:, :5])


class Striking(Failing):
    """Ctrl-C after an epoch."""

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "epoch":
            raise KeyboardInterrupt


def test_an_interrupted_refit_keeps_what_was_learned_with_its_number_of_features(machine, rng):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    X, y = make_rows(rng)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    clf = machine(lam=0.01, random_state=0).fit(frame, y)
    with pytest.raises(KeyboardInterrupt):
        clf.set_callbacks(Striking(None)).fit(X[:, :7], np.where(y > 0, "a", "b"))
    assert clf.n_features_in_ == 7
    assert not hasattr(clf, "feature_names_in_")
    assert not hasattr(clf, "objective_")
    assert clf.classes_.tolist() == ["a", "b"]
    assert set(clf.predict(X[:, :7])) <= {"a", "b"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_that_need_no_conversion_are_fitted_as_others(machine, rng, dtype):
    """scikit-learn checks lists and arrays in another order, not those in C order."""
    X, y = make_rows(rng, n=80, d=5)
    X, y = np.ascontiguousarray(X, dtype), (y > 0).astype(int)
    clf = machine(lam=0.1, random_state=0).fit(X, y)
    for other, labels in ((np.asfortranarray(X), y), (X, y.tolist()), (X, y.astype(float))):
        found = machine(lam=0.1, random_state=0).fit(other, labels)
        assert found.n_features_in_ == clf.n_features_in_ == 5
        np.testing.assert_array_equal(found.predict(X), clf.predict(X))
        np.testing.assert_array_equal(found.objective_, clf.objective_)
    with pytest.raises(ValueError, match=r"but X\[3, 2\] is nan"):
        clf.fit(np.where(np.arange(80)[:, None] * 5 + np.arange(5) == 17, np.nan, X), y)
    with pytest.raises(ValueError, match=r"y must have one entry per row of X \(80\), got 79"):
        clf.fit(X, y[1:])


# ---- Going on with another solver ----------------------------------------------------------------

SOLVERS = ("auto", "pegasos", "sdca", "newton")


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_start_may_change_the_solver(machine, rng, multi_class, penalize_intercept):
    X, _ = make_rows(rng, n=90, d=6)
    y = (X @ rng.normal(size=(6, 3))).argmax(axis=1)
    options = {
        "tol": 1e-2, "multi_class": multi_class, "penalize_intercept": penalize_intercept,
        "random_state": 0,
    }  # fmt: skip
    best = machine(lam=0.1, **options).set_params(tol=1e-6).fit(X, y)
    for first, second in itertools.permutations(SOLVERS, 2):
        clf = machine(lam=0.1, solver=first, warm_start=True, **options).fit(X, y)
        epochs = clf.n_iter_
        clf.set_params(solver=second, max_iter=400).fit(X, y)
        assert clf.n_iter_ >= epochs
        assert (clf.objective_ >= best.dual_objective_ - 1e-9).all()
        assert (clf.dual_objective_ <= best.objective_ + 1e-9).all()
        assert (clf.objective_ <= (1.02 if second != "pegasos" else 1.1) * best.objective_).all()


def test_another_solver_goes_on_where_the_last_one_ended(machine, rng, layout):
    """One more epoch of Pegasos, or of any other, does not undo a solution."""
    X, y = make_rows(rng, n=150)
    X = convert(X, layout, np.float64)
    for first, second in itertools.permutations(("pegasos", "sdca", "newton"), 2):
        clf = machine(
            lam=0.01, solver=first, tol=None, max_iter=40, warm_start=True, random_state=0
        )
        before = clf.fit(X, y).objective_[0]
        clf.set_params(solver=second, max_iter=1).fit(X, y)
        assert clf.objective_[0] < 1.2 * before


def test_another_solver_notices_other_weights(machine, rng):
    X, y = make_rows(rng, n=100)
    weights = rng.uniform(0, 3, 100) * (rng.random(100) < 0.7)
    options = {"lam": 0.05, "tol": 1e-4, "random_state": 0}
    if machine is KernelPegasosClassifier:
        options["gamma"] = 0.1  # "scale" would be that of the first weights, and that of the others
    for first, second in itertools.permutations(("sdca", "newton"), 2):
        clf = machine(solver=first, warm_start=True, **options).fit(X, y)
        clf.set_params(solver=second).fit(X, y, sample_weight=weights)
        fresh = machine(solver=second, **options).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(clf.objective_, fresh.objective_, rtol=2e-4)
        assert (clf.duality_gap_ <= 1e-4 * clf.objective_).all()


@covering(
    3, change=["weights", "labels"], multi_class=["ovr", "ovo"], loss=list(LOSSES),
    solver=["auto", "sdca", "newton"],
)  # fmt: skip
def test_problems_of_a_warm_start_may_lose_rows(machine, rng, solver, loss, multi_class, change):
    """What was left of an epoch over other rows was taken for part of the next one."""
    X, y = rng.normal(size=(30, 5)), np.arange(30) % 3
    weights, labels = np.r_[np.zeros(12), np.ones(18)], np.where(np.arange(30) < 12, 0, y)
    other = (y, weights) if change == "weights" else (labels, None)
    options = {
        "loss": loss, "solver": solver, "multi_class": multi_class, "tol": 1e-4, "max_iter": 3000,
        "random_state": 0,
    }  # fmt: skip
    if machine is KernelPegasosClassifier:
        options["gamma"] = 0.2  # "scale" would depend on the weights
    clf = machine(lam=0.1, warm_start=True, **options).fit(X, y).fit(X, *other)
    fresh = machine(lam=0.1, **options).fit(X, *other)
    np.testing.assert_allclose(clf.objective_, fresh.objective_, rtol=2e-4)
    assert (clf.duality_gap_ <= 1e-4 * clf.objective_).all()


@pytest.mark.parametrize("first", ["sdca", "newton"])
def test_pegasos_goes_on_from_another_solver_over_more_rows(rng, first):
    X, y = make_rows(rng, n=150)
    clf = PegasosClassifier(lam=0.01, solver=first, warm_start=True, random_state=0).fit(
        X[:120], y[:120]
    )
    before = clf.score(X[120:], y[120:])
    clf.set_params(solver="pegasos", n_steps=5).fit(X, y)
    assert clf.score(X[120:], y[120:]) >= before - 0.05
    assert (clf.duality_gap_ >= 0).all()


class Counting(Failing):
    """How many epochs a fit has."""

    n_epochs = 0

    def on_fit_task_end(self, estimator, context):
        self.n_epochs += context.task_name == "epoch"


@pytest.mark.parametrize("first", ["pegasos", "newton"])
@pytest.mark.parametrize("before", [False, True])
def test_a_warm_start_has_its_epochs_whatever_rows_have_no_weight(machine, rng, first, before):
    """Epochs over few rows are shorter, and were taken for as many over all rows."""
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    X, y = make_rows(rng, n=100)
    weights = [None, (np.arange(100) < 20).astype(float)]
    counting = Counting(None)
    clf = machine(lam=0.01, solver=first, tol=None, max_iter=20, warm_start=True, random_state=0)
    clf.fit(X, y, sample_weight=weights[before])
    clf.set_params(solver="pegasos", max_iter=5).set_callbacks(counting)
    clf.fit(X, y, sample_weight=weights[not before])
    assert counting.n_epochs == 5
    assert clf.n_steps_ >= 5 * (20 if not before else 100)


# ---- partial_fit after fit -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


OPTIONS = {
    "default": {},
    "pairs, free": {"multi_class": "ovo", "penalize_intercept": False},
    "average": {"average": True, "intercept_scaling": 3.0},
    "batches": {"project": True, "batch_size": 5, "multi_class": "ovo"},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_partial_fit_does_not_forget_the_fit(digits, options, dtype):
    y = digits[1]
    for layout in ("dense", "csr32-64"):
        X = convert(digits[0], layout, dtype)
        clf = PegasosClassifier(lam=1e-3, random_state=0, **OPTIONS[options]).fit(X, y)
        before, coef = clf.score(X, y), clf.coef_
        clf.partial_fit(X[:2], y[:2])
        assert abs(clf.score(X, y) - before) < 0.01
        assert not hasattr(clf, "objective_")
        assert np.linalg.norm(clf.coef_ - coef) < 0.1 * np.linalg.norm(coef)


def test_partial_fit_learns_new_data_after_a_fit(digits):
    X, y = digits
    some = y < 5
    clf = PegasosClassifier(lam=1e-3, random_state=0).fit(
        X, y, sample_weight=np.where(some, 1.0, 1e-9)
    )
    assert clf.score(X[~some], y[~some]) < 0.3
    for _ in range(20):
        clf.partial_fit(X, y)
    assert clf.score(X[~some], y[~some]) > 0.85


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("lam", [1e-6, 1e-2])
def test_partial_fit_does_not_forget_fits_that_took_few_steps(rng, n, lam):
    """Where lam n is small, so many steps as the epochs had would not hold the model fast."""
    X = 50 * rng.normal(size=(n, 5))
    y = np.where(X[:, 0] + 40 * rng.normal(size=n) > 0, 1, -1)
    clf = PegasosClassifier(lam=lam, tol=1e-2, random_state=0).fit(X, y)
    before, scores = clf.score(X, y), clf.decision_function(X[:1])
    clf.partial_fit(X[:1], y[:1])
    assert abs(clf.score(X, y) - before) <= 0.1
    norms = (X**2).sum(axis=1) + 1
    assert np.abs(clf.decision_function(X[:1]) - scores) < 1.1 * norms[0] / norms.mean() + 0.1


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("solver", ["sdca", "newton"])
def test_partial_fit_takes_a_textbook_step_from_the_fitted_model(
    rng, layout, dtype, solver, penalize_intercept
):
    X, y = make_rows(rng)
    lam, scaling = 0.05, 2.0
    clf = PegasosClassifier(
        lam=lam, solver=solver, penalize_intercept=penalize_intercept, intercept_scaling=scaling,
        warm_start=layout == "dense", random_state=0,
    ).fit(convert(X, layout, dtype), y)  # fmt: skip
    w, b, t = clf.coef_[0], clf.intercept_[0], clf.n_iter_ * len(y)
    feature = scaling if penalize_intercept else 0
    assert t > ((X**2).sum(axis=1).mean() + feature**2) / lam  # else t would be this
    x, label = X[5] + 0.25, -np.sign(X[5] @ w + b + 0.25 * w.sum())  # violates its margin
    clf.set_params(solver="auto").partial_fit(convert(x[None], layout, dtype), [int(label)])
    eta = 1 / (lam * (t + 1))
    near = {"rtol": 1e-9} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(clf.coef_[0], (1 - eta * lam) * w + eta * label * x, **near)
    b = (1 - eta * lam * penalize_intercept) * b + eta * label * max(feature**2, 1)
    np.testing.assert_allclose(clf.intercept_[0], b, **near)
    assert clf.n_steps_.tolist() == [t + 1]


# ---- What is kept --------------------------------------------------------------------------------


def arrays_in(thing):
    """All arrays that a fitted estimator holds."""
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from arrays_in(value)
    elif hasattr(thing, "__dict__"):
        yield from arrays_in(vars(thing))


@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_a_fitted_machine_does_not_grow_with_the_number_of_rows(
    machine, rng, layout, solver, multi_class
):
    X, _ = make_rows(rng, n=211, d=7)
    X, y = convert(X, layout, np.float64), rng.integers(0, 3, 211)
    clf = machine(lam=0.1, tol=0.1, solver=solver, multi_class=multi_class, random_state=0)
    clf.fit(X, y, sample_weight=np.where(np.arange(211) < 90, 1.0, 0))
    assert not [array.shape for array in arrays_in(clf) if 211 in array.shape]
    if machine is PegasosClassifier:
        clf.fit(sparse.vstack([sparse.csr_array(X)] * 10), np.tile(y, 10))
        large = len(pickle.dumps(clf))
        assert abs(large - len(pickle.dumps(clf.fit(X, y)))) < 64
        pickle.loads(pickle.dumps(clf)).set_params(solver="auto").partial_fit(X[:5], y[:5])


def test_alpha_counts_are_there_where_pegasos_made_the_model(machine, rng):
    X, y = make_rows(rng)
    assert not hasattr(machine(lam=0.1).fit(X, y), "alpha_counts_")
    clf = machine(lam=0.1, n_steps=20).fit(X, y)
    assert clf.alpha_counts_.shape == (1, len(y))
    assert 0 < clf.alpha_counts_.sum() <= 20
    assert not hasattr(clf.set_params(n_steps=None).fit(X, y), "alpha_counts_")


@pytest.mark.parametrize("solver", ["pegasos", "sdca", "newton"])
def test_an_interrupted_fit_can_be_completed_though_nobody_asked_before(machine, rng, solver):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    X, y = make_rows(rng)
    options = {"solver": solver, "tol": None, "max_iter": 12, "random_state": 0}
    whole = machine(lam=0.01, **options).fit(X, y)
    clf = machine(lam=0.01, **options).set_callbacks(Striking(None))
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    # It is the interrupted fit that goes on, with its own order of rows.
    clf.set_callbacks().set_params(warm_start=True, random_state=1).fit(X, y)
    assert clf.n_iter_ == whole.n_iter_
    np.testing.assert_allclose(clf.decision_function(X), whole.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize("solver", ["pegasos", "newton"])
def test_a_warm_start_after_a_fit_without_one_goes_on_from_the_model(rng, solver):
    X, y = make_rows(rng, n=200)
    clf = PegasosClassifier(lam=0.01, solver=solver, tol=None, max_iter=30, random_state=0).fit(
        X, y
    )
    before = clf.objective_[0]
    clf.set_params(warm_start=True, solver="pegasos", max_iter=1).fit(X, y)
    assert clf.objective_[0] < 1.1 * before


# ---- Fits that have ended ------------------------------------------------------------------------

INTERCEPTS = {
    "penalised": {}, "free": {"penalize_intercept": False}, "none": {"fit_intercept": False},
}  # fmt: skip


def going_on(kind, loss, rng, n=150, d=6):
    """An estimator whose fits go on from the last one, rows, and three classes or targets."""
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, 3)) + 0.5 * rng.normal(size=(n, 3))
    options = {"loss": loss, "lam": 1e-2, "warm_start": True, "random_state": 0}
    if loss in LOSSES:
        return MACHINES[kind](**options), X, scores.argmax(axis=1)
    regressor = PegasosRegressor if kind == "linear" else KernelPegasosRegressor
    return regressor(**options), X, scores + 3


def copied(clf):
    return pickle.loads(pickle.dumps(clf))


@covering(
    3, tol=[1e-2, 1e-7], solver=["auto", "sdca", "newton"], intercept=INTERCEPTS, loss=[*LOSSES,
    *TARGET_LOSSES], kind=MACHINES,
)  # fmt: skip
def test_a_fit_that_has_ended_is_not_made_again(kind, loss, intercept, solver, tol, rng):
    """Its certificate stands. An intercept of the squared error was found anew, 1e-6 apart."""
    clf, X, y = going_on(kind, loss, rng)
    clf.set_params(solver=solver, tol=tol, max_iter=10**5, **INTERCEPTS[intercept]).fit(X, y)
    before, again = public(clf), copied(clf).set_params(tol=2 * tol, max_iter=10**6)
    for _ in range(2):
        same(before, public(clf.fit(X, y)))
        same(before, public(again.fit(X, y)))


@covering(
    plan=[{"tol": 1e-2}, {"tol": "auto"}, {"tol": None, "max_iter": 2}], intercept=INTERCEPTS,
    loss=[*LOSSES, *TARGET_LOSSES], kind=MACHINES,
)  # fmt: skip
def test_a_fit_that_is_interrupted_at_its_end_is_over(
    kind, loss, intercept, plan, rng, monkeypatch
):
    """Completing it makes no epoch, and changes no bit."""

    def strike(callbacks):
        raise KeyboardInterrupt

    clf, X, y = going_on(kind, loss, rng)
    whole = clone(clf.set_params(**plan, **INTERCEPTS[intercept])).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(_callbacks.FitCallbacks, "end", strike)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    same(public(whole), public(copied(clf).fit(X, y)))
    same(public(whole), public(clf.fit(X, y)))


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("change", ["none", "a row", "rows beside w", "weights"])
def test_what_was_proved_of_other_rows_is_forgotten(change, intercept, rng):
    """Wherever Ctrl-C stops a fit to them. A fit to equal rows is over before it can be stopped."""
    reg, X, y = going_on("linear", "squared_error", rng)
    y, weights = y[:, 0], np.ones(len(X))
    reg.set_params(tol=1e-2, **INTERCEPTS[intercept]).fit(X, y, weights)
    if change == "a row":
        X = np.r_[X[:-1], 9 * X[-1:]]
    elif change == "rows beside w":  # all scores stay
        w = reg.coef_ / np.linalg.norm(reg.coef_)
        beside = rng.normal(size=X.shape)
        X = X + beside - np.outer(beside @ w, w)
    elif change == "weights":
        weights[::3] = 2
    whole = copied(reg).fit(X, y, weights)
    assert (whole.n_iter_ == reg.n_iter_) == (change == "none")
    best = clone(reg).set_params(tol=1e-9).fit(X, y, weights)
    assert whole.dual_objective_ <= best.objective_ * (1 + 1e-12)
    assert whole.objective_ >= best.dual_objective_ * (1 - 1e-12)
    for after in range(0 if change == "none" else 3):
        cut = copied(reg)
        with interrupted(after, every=1):
            cut.fit(X, y, weights)
        same(public(whole), public(copied(cut).fit(X, y, weights)))


@pytest.mark.parametrize("solver", ["sdca", "newton"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_rows_that_were_changed_in_place_are_other_rows(convert, solver, rng):
    clf, X, y = going_on("linear", "hinge", rng)
    X = convert(X)
    clf.set_params(solver=solver, tol=1e-6).fit(X, y)
    before, again = clf.coef_.copy(), copied(clf)
    numbers = X if isinstance(X, np.ndarray) else X.data
    numbers[::2] *= -1
    clf.fit(X, y)
    assert not np.array_equal(clf.coef_, before)
    assert (clf.duality_gap_ <= 1e-6 * clf.objective_).all()
    same(public(clf), public(again.fit(X.copy(), y)))


def test_equal_rows_in_another_layout_only_take_longer(rng):
    """A fit then begins at its point, so that its certificate holds."""
    clf, X, y = going_on("linear", "hinge", rng)
    clf.set_params(tol=1e-6).fit(X, y)
    objective = clf.objective_
    clf.fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(clf.objective_, objective, rtol=2e-6)
    assert (clf.duality_gap_ <= 1e-6 * clf.objective_).all()


def test_a_fit_of_exact_targets_that_has_ended_is_not_made_again(rng):
    """Rounding is far from small beside objectives of 1e-9, though targets are of about 1."""
    X = rng.normal(size=(150, 30))
    y = X @ rng.normal(size=30) / 5
    reg = PegasosRegressor(solver="newton", tol=0.1, max_iter=1000, warm_start=True)
    for lam in 10.0 ** -np.arange(5, 12, 0.25):
        reg = clone(reg).set_params(lam=lam).fit(X, y)
        same(public(reg), public(copied(reg).fit(X, y)))


def test_what_was_proved_by_sums_in_single_precision_stands(rng):
    """A free intercept is off by its rounding, and so is a little of the gap."""
    for _ in range(20):
        n, d = rng.integers(100, 2000), 60
        X = rng.normal(size=(n, d)) + 3
        y = X @ rng.normal(size=d) + 10 ** rng.uniform(-4, 0) * rng.normal(size=n) + 30
        reg = PegasosRegressor(loss="squared_error", penalize_intercept=False, warm_start=True)
        reg.set_params(lam=10 ** rng.uniform(-3, 0), tol=1e-2, solver="newton").fit(X, y)
        same(public(reg), public(copied(reg).fit(X, y)))


# ---- Fits within fits ----------------------------------------------------------------------------


def test_a_fit_from_within_ones_own_kernel_function_is_refused(rng):
    X, y = make_rows(rng)
    clf = KernelPegasosClassifier(lam=0.1, random_state=0).fit(X, y)
    before = public(clf)

    def kernel(A, B):
        return clf.fit(A, y).decision_function(B)

    clf.set_params(kernel=kernel)
    with pytest.raises(
        RuntimeError, match=r"fit was called while this KernelPegasosClassifier.*clone"
    ):
        clf.fit(X, y)
    same(before, public(clf))
    clf.set_params(kernel="rbf").fit(X, y)  # it is free again


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_fit_from_within_ones_own_callback_is_refused(rng, call):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    X, y = make_rows(rng)
    clf = PegasosClassifier(lam=0.1, solver="pegasos", tol=None, max_iter=5, random_state=0)
    said = []

    class Refitting(Failing):
        def on_fit_task_end(self, estimator, context):
            clone(clf).set_callbacks().fit(X[:20], y[:20])  # another one may be fitted
            try:
                getattr(clf, call)(X, y)
            except RuntimeError as error:
                said.append(str(error))

    clf.set_callbacks(Refitting(None)).fit(X, y)
    assert len(said) > 2
    assert all(f"{call} was called while" in line for line in said)
    np.testing.assert_array_equal(clf.coef_, clone(clf).fit(X, y).coef_)


def test_a_fit_that_is_refused_by_another_thread_leaves_the_first_alone(rng):
    X, y = make_rows(rng)
    inside, done = threading.Event(), threading.Event()

    def kernel(A, B):
        inside.set()
        done.wait()
        return A @ B.T

    clf = KernelPegasosClassifier(lam=0.1, kernel=kernel, random_state=0)
    thread = threading.Thread(target=clf.fit, args=(X, y))
    thread.start()
    inside.wait()
    with pytest.raises(RuntimeError, match="another thread"):
        clf.fit(X, y)
    done.set()
    thread.join()
    assert clf.score(X, y) > 0.8


# ---- Sizes that do not fit -----------------------------------------------------------------------


@pytest.mark.parametrize("tol", [None, 1e-3])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pairs_of_classes_without_weight(machine, rng, solver, tol):
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 4
    clf = machine(lam=0.1, multi_class="ovo", solver=solver, tol=tol, max_iter=20, random_state=0)
    clf.fit(X, y, sample_weight=y < 2)
    few = clone(clf).fit(X[y < 2], y[y < 2])
    assert (clf.predict(X[y < 2]) < 2).mean() > 0.8
    assert clf.objective_[-1] == clf.duality_gap_[-1] == 0
    assert (clf.objective_[0] - few.objective_[0]) <= clf.duality_gap_[0] + 1e-12


@pytest.mark.parametrize("size", [1e18, 1e308])
def test_a_cache_may_be_larger_than_any_memory(rng, size):
    X, y = make_rows(rng)
    a, b = (KernelPegasosClassifier(lam=0.1, cache_size=s, random_state=0) for s in (1000, size))
    np.testing.assert_array_equal(a.fit(X, y).dual_coef_, b.fit(X, y).dual_coef_)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_pairs_of_classes_without_rows_have_nothing_to_learn(rng, layout, kernel):
    X, y = convert(rng.normal(size=(44, 9)), layout, np.float64), np.arange(44) % 8
    clf = KernelPegasosClassifier(lam=0.02, kernel=kernel, multi_class="ovo", tol=None, max_iter=20,
                                  class_weight={0: 0.0, 1: 0.0}, random_state=0)  # fmt: skip
    clf.fit(X, y)
    assert clf.objective_[0] == clf.duality_gap_[0] == 0
    assert not clf.dual_coef_[0].any()
    assert np.isfinite(clf.decision_function(X)).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("d", [2**50, 2**61, 2**62, 2**63 - 1])
def test_more_columns_than_memory_has_room_for(solver, d):
    index = np.array([0, 1, 2, d - 1])
    X, y = sparse.csr_array((np.ones(4), index, np.arange(5)), shape=(4, d)), [0, 1, 0, 1]
    calls = [
        PegasosClassifier(solver=solver).fit,
        KernelPegasosClassifier(solver=solver).fit,
        KernelPegasosClassifier(solver=solver, kernel="laplacian").fit,
        lambda X, y: fit(X, y, 0.1, solver=solver),
    ]
    for call in calls:
        with pytest.raises((MemoryError, ValueError), match=rf"{d} (features|weights)|shape.*{d}"):
            call(X, y)


def certified(machine, path):
    """Whether `to_model`, its file and the estimator of the file have a certificate."""
    model = machine.to_model()
    model.save(path)
    known = {
        "gap" in repr(model), np.isfinite(model.objective).all(),
        np.isfinite(pegasos.load(path).dual_objective).all(),
        hasattr(pegasos.load(path).to_estimator(), "duality_gap_"),
    }  # fmt: skip
    assert len(known) == 1
    return known.pop()


@pytest.mark.parametrize("kind", ["coefficients", "in place", "intercept"])
@pytest.mark.parametrize(
    "machine",
    [
        pegasos.PegasosClassifier(),
        pegasos.PegasosClassifier(multi_class="crammer_singer"),
        pegasos.PegasosRegressor(),
        pegasos.PegasosOneClass(),
        pegasos.PegasosClassifierCV(cv=2, Cs=2),
        pegasos.KernelPegasosClassifier(),
        pegasos.KernelPegasosRegressor(),
    ],
    ids=lambda machine: type(machine).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_a_certificate_is_not_claimed_of_numbers_that_were_set(tmp_path, rng, machine, kind):
    """A model whose coefficients a user had set to 0 told the objective and gap of the fit."""
    X = rng.normal(size=(60, 3)) + 2
    machine = clone(machine).fit(X, (X[:, 0] > 2) + 0)
    machine = getattr(machine, "best_estimator_", machine)
    path = tmp_path / "model.npz"
    assert certified(machine, path)
    machine = joblib_copy(machine, tmp_path)
    assert certified(machine, path)
    machines = [machine, pegasos.load(path).to_estimator()]
    for changed in machines:
        name = "dual_coef_" if hasattr(changed, "dual_coef_") else "coef_"
        if kind == "in place":
            getattr(changed, name)[...] *= -1
        else:
            name = "intercept_" if kind == "intercept" else name
            setattr(changed, name, getattr(changed, name) + 1)
        assert not certified(changed, path)
    assert certified(machine.fit(X, (X[:, 0] > 2) + 0), path)


def joblib_copy(machine, folder):
    joblib.dump(machine, folder / "machine.joblib")
    return joblib.load(folder / "machine.joblib")
