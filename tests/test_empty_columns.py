"""Sparse rows of which most columns are empty, as hashed text: trained on without these."""

import pickle

import numpy as np
import pytest
from interruption import interrupted
from losses import LOSSES, TARGET_LOSSES
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import pegasos
from pegasos import (
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosOneClass,
    PegasosRegressor,
    PegasosRegressorCV,
)
from pegasos.estimators import _callbacks
from pegasos.io import _checkpoint
from pegasos.problems import _rows, _validate
from pegasos.solvers._schedule import Schedule

D = 2**15


def hashed(rng, n=60, dtype=np.float64, n_words=150):
    """Rows of 8 of some words, which hash into few of D columns, and numbers of two topics."""
    places, of_words = rng.permutation(D)[:n_words], rng.normal(size=n_words)
    words = np.minimum(rng.geometric(0.02, size=(n, 8)) - 1, n_words - 1)
    values = rng.uniform(0.2, 0.5, size=(n, 8))
    ends = np.arange(0, 8 * n + 1, 8)
    X = sparse.csr_array((values.ravel().astype(dtype), places[words.ravel()], ends), shape=(n, D))
    return X, (values * of_words[words]).sum(axis=1)


def without_empty(X):
    """The matrix of the columns that have numbers, and these."""
    columns = np.unique(X.indices)
    places = np.zeros(X.shape[1], int)
    places[columns] = np.arange(len(columns))
    few = sparse.csr_array((X.data, places[X.indices], X.indptr), shape=(X.shape[0], len(columns)))
    return few, columns


@pytest.fixture
def all_columns(monkeypatch):
    """Let fits take all columns, as those of earlier versions did, until it is called."""
    monkeypatch.setattr(_rows, "without_empty_columns", lambda rows: (rows, None))
    return monkeypatch.undo


def of_labels(y, k):
    return np.digitize(y, np.quantile(y, np.arange(1, k) / k))


def assert_same(machine, other, columns):
    """That a machine has the bits of one that was fitted to `columns` alone, and 0 elsewhere."""
    coef, few = np.atleast_2d(machine.coef_), np.atleast_2d(other.coef_)
    np.testing.assert_array_equal(coef[:, columns], few)
    assert np.count_nonzero(coef) == np.count_nonzero(few)
    for name in ("intercept_", "objective_", "dual_objective_", "n_iter_", "n_steps_"):
        np.testing.assert_array_equal(getattr(machine, name), getattr(other, name))
    assert machine.coef_.shape[-1] == machine.n_features_in_ == D


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("machine", "k"),
    [(PegasosClassifier(loss=loss), 2) for loss in LOSSES]
    + [(PegasosRegressor(loss=loss), None) for loss in TARGET_LOSSES]
    + [(PegasosClassifier(solver=solver, max_iter=5), 4) for solver in ("sdca", "newton")]
    + [
        (PegasosClassifier(solver="pegasos", average="suffix", tol=None, max_iter=3), 4),
        (PegasosClassifier(n_steps=50, batch_size=2, project=True), 2),
        (PegasosClassifier(multi_class="ovo", n_jobs=2), 4),
        (PegasosClassifier(multi_class="crammer_singer"), 4),
        (PegasosClassifier(penalize_intercept=False), 4),
        (PegasosOneClass(nu=0.2), 2),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_has_the_bits_of_a_fit_to_columns_that_are_not_empty(rng, machine, k, dtype):
    X, y = hashed(rng, dtype=dtype)
    few, columns = without_empty(X)
    y = of_labels(y, k) if k else np.stack([y, y**2], axis=1)
    machine, other = (clone(machine).set_params(random_state=0) for _ in range(2))
    machine.fit(X, y)
    assert_same(machine, other.fit(few, y), columns)
    np.testing.assert_array_equal(machine.predict(X), other.predict(few))


def test_the_function_fit_trains_without_them_too(rng):
    X, y = hashed(rng)
    few, columns = without_empty(X)
    for y_, loss in ((of_labels(y, 3), "hinge"), (y, "squared_error")):
        model, other = (pegasos.fit(of, y_, 0.1, loss=loss, random_state=0) for of in (X, few))
        np.testing.assert_array_equal(model.coef[:, columns], other.coef)
        assert model.n_features == D
        assert np.count_nonzero(model.coef) == np.count_nonzero(other.coef)
        np.testing.assert_array_equal(model.duality_gap, other.duality_gap)


@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_a_search_trains_without_them_too(rng, kind):
    X, y = hashed(rng)
    few, columns = without_empty(X)
    search = PegasosClassifierCV if kind == "classes" else PegasosRegressorCV
    y = of_labels(y, 3) if kind == "classes" else y
    search, other = (search(Cs=[0.1, 1], cv=3, random_state=0).fit(of, y) for of in (X, few))
    for name in ("mean_test_score", "relative_gap"):
        np.testing.assert_array_equal(search.cv_results_[name], other.cv_results_[name])
    assert_same(search.best_estimator_, other.best_estimator_, columns)


def rows_of(X):
    return _validate.rows(X)[0]


def test_columns_are_left_out_where_most_are_empty():
    def of(n, stored, d, n_distinct):
        columns = np.arange(n * stored) % n_distinct
        ends = np.arange(0, n * stored + 1, stored)
        return rows_of(sparse.csr_array((np.ones(n * stored), columns, ends), shape=(n, d)))

    few, columns = _rows.without_empty_columns(of(64, 64, 2**14, 4096))
    assert few.shape == (64, 4096)
    np.testing.assert_array_equal(columns, np.arange(4096))
    assert _rows.without_empty_columns(of(512, 64, 2**14, 1000))[0].shape == (512, 1000)
    for rows in (
        of(256, 64, 2**14, 2**13 + 1),
        of(513, 64, 2**14, 1000),  # to count them takes as long as they save, or longer
        of(2, 2, 2**14 - 1, 4),  # all are few
        rows_of(np.zeros((1, 2**14))),
        rows_of(sparse.csr_array((2, 2**14))),
    ):
        assert _rows.without_empty_columns(rows) == (rows, None)


@pytest.mark.parametrize("solver", ["auto", "pegasos", "sdca", "newton"])
@pytest.mark.parametrize("is_pickled", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_start_goes_on(rng, solver, is_pickled):
    X, y = hashed(rng)
    few, columns = without_empty(X)
    y = of_labels(y, 3)
    machine = PegasosClassifier(
        solver=solver, tol=1e-9, max_iter=2, warm_start=True, random_state=0
    )
    machine, other = (clone(machine).fit(of, y) for of in (X, few))
    for _ in range(2):
        if is_pickled:
            machine = pickle.loads(pickle.dumps(machine))
        assert_same(machine.fit(X, y), other.fit(few, y), columns)


@pytest.mark.parametrize("solver", ["auto", "pegasos"])
@pytest.mark.parametrize("average", [False, "suffix"])
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_training_goes_on_with_rows_that_have_other_columns(
    rng, solver, average, call, all_columns
):
    """As it does where all columns are trained on: Pegasos has the bits, solvers the optimum."""
    (X, y), (Z, _) = hashed(rng), hashed(rng)
    y = of_labels(y, 3)
    start = PegasosClassifier(
        solver=solver, average=average, max_iter=50, tol=1e-5 if solver == "auto" else None,
        warm_start=call == "fit", random_state=0,
    )  # fmt: skip
    machines = []
    for _ in range(2):
        machine = clone(start).fit(X, y)
        before = machine.coef_.copy()
        machines.append(getattr(machine, call)(Z, y))
        all_columns()
    assert (machine.coef_ != before)[:, np.unique(Z.indices)].any()
    if call == "fit" and solver == "auto":
        assert max(m.duality_gap_.max() / m.objective_.min() for m in machines) < 1e-4
    first, second = machines
    tolerance = 1e-9 if solver == "pegasos" else 1e-2
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=0, atol=tolerance)
    assert not machine.coef_[:, np.setdiff1d(np.arange(D), [*X.indices, *Z.indices])].any()


def test_a_state_of_all_columns_goes_on_with_its_bits(rng, all_columns):
    """Such as checkpoints of earlier versions have."""
    X, y = hashed(rng)
    y = of_labels(y, 3)
    machine = PegasosClassifier(tol=1e-9, max_iter=3, warm_start=True, random_state=0)
    with pytest.warns(ConvergenceWarning):
        machine.fit(X, y)
    copy = pickle.loads(pickle.dumps(machine))
    machine.set_params(max_iter=1000).fit(X, y)
    all_columns()
    copy.set_params(max_iter=1000).fit(X, y)
    np.testing.assert_array_equal(machine.coef_, copy.coef_)
    assert machine.n_iter_ == copy.n_iter_


@pytest.mark.parametrize("solver", ["auto", "pegasos"])
def test_a_fit_that_was_interrupted_goes_on_to_the_same_bits(rng, solver):
    X, y = hashed(rng)
    y = of_labels(y, 3)
    machine = PegasosClassifier(solver=solver, tol=None, max_iter=2000, random_state=0)
    whole = clone(machine).fit(X, y)
    with interrupted(after=3):
        machine.fit(X, y)
    assert machine.coef_.shape == (3, D)
    machine.set_params(warm_start=True).fit(X, y)
    np.testing.assert_array_equal(machine.coef_, whole.coef_)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo", "crammer_singer"])
@pytest.mark.parametrize("solver", ["auto", "pegasos"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_checkpoint_goes_on(rng, tmp_path, multi_class, solver):
    X, y = hashed(rng)
    y = of_labels(y, 3)
    start = PegasosClassifier(
        multi_class=multi_class, solver=solver, tol=1e-9, max_iter=2, random_state=0
    )
    machine, whole = clone(start), clone(start).set_params(max_iter=5).fit(X, y)
    path = tmp_path / "model.npz"
    machine._checkpoints = _checkpoint.Checkpoints(path, 60, X, y)
    machine.fit(X, y)
    assert pegasos.load(path).n_features == D
    machine = clone(start).set_params(max_iter=5)
    _checkpoint.resume(machine, path, X, y)
    machine.fit(X, y)
    np.testing.assert_allclose(machine.coef_, whole.coef_, rtol=1e-9)
    assert machine.n_iter_ == whole.n_iter_


@pytest.mark.parametrize("multi_class", ["ovr", "ovo", "crammer_singer"])
@pytest.mark.parametrize("solver", ["auto", "pegasos"])
def test_a_fit_that_is_interrupted_at_its_end_is_over(rng, multi_class, solver, monkeypatch):
    def strike(callbacks):
        raise KeyboardInterrupt

    X, y = hashed(rng)
    y = of_labels(y, 3)
    machine = PegasosClassifier(
        multi_class=multi_class, solver=solver, tol=None, max_iter=5, warm_start=True,
        random_state=0,
    )  # fmt: skip
    whole = clone(machine).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(_callbacks.FitCallbacks, "end", strike)
        with pytest.raises(KeyboardInterrupt):
            machine.fit(X, y)
    np.testing.assert_array_equal(machine.fit(X, y).coef_, whole.coef_)
    assert machine.n_iter_ == whole.n_iter_


@pytest.mark.parametrize(
    "fit",
    [PegasosRegressor(random_state=0).fit, lambda X, y: pegasos.fit(X, y, 0.1, loss="huber")],
    ids=["estimator", "function"],
)
def test_models_that_memory_has_no_room_for_are_told_before_training(fit, monkeypatch):
    """NumPy told the size of an array, and only after a fit."""
    monkeypatch.setattr(Schedule, "train", None)
    X = sparse.csr_array((np.ones(3), [5, 7, 9], [0, 1, 2, 3]), shape=(3, 2**28))
    with pytest.raises(MemoryError, match=r"^268435456 weights for each of 65536 problems"):
        fit(X, np.ones((3, 2**16)))


@pytest.mark.parametrize("is_joint", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda columns: columns[::-1][:1].repeat(len(columns)),
        lambda columns: columns - columns.min() - 1,
        lambda columns: columns + D,
        lambda columns: columns[1:],
        lambda columns: columns[:0],
        lambda columns: columns.astype(float),
        lambda columns: columns[None],
        lambda columns: None,
    ],
)
def test_columns_of_a_damaged_state_are_refused(rng, change, is_joint):
    X, y = hashed(rng)
    multi_class = "crammer_singer" if is_joint else "ovr"
    machine = PegasosClassifier(warm_start=True, random_state=0, multi_class=multi_class)
    machine.fit(X, of_labels(y, 3))
    machine._state["columns"] = change(machine._state["columns"])
    with pytest.raises(ValueError, match="was damaged, and cannot go on"):
        machine.fit(X, of_labels(y, 3))


def test_a_joint_problem_does_not_go_on_with_rows_that_have_other_columns(rng):
    (X, y), (Z, _) = hashed(rng), hashed(rng)
    y = of_labels(y, 3)
    machine = PegasosClassifier(warm_start=True, multi_class="crammer_singer").fit(X, y)
    machine.fit(X, y)
    with pytest.raises(ValueError, match="X must be that of the fit"):
        machine.fit(Z, y)


@pytest.mark.parametrize("where", ["trained", "empty", "intercept"])
@pytest.mark.parametrize("machine", [PegasosClassifier(), PegasosRegressor()], ids=str)
def test_a_certificate_is_not_claimed_of_weights_that_were_set(rng, machine, where):
    X, y = hashed(rng)
    machine = pickle.loads(pickle.dumps(clone(machine).fit(X, of_labels(y, 2))))
    assert np.isfinite(machine.to_model().objective).all()
    if where == "intercept":
        machine.intercept_ = machine.intercept_ + 1
    else:
        empty = np.setdiff1d(np.arange(D), X.indices)[0]
        machine.coef_[..., X.indices[0] if where == "trained" else empty] += 1
    assert np.isnan(machine.to_model().objective).all()
