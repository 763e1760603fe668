"""scikit-learn's callbacks: one task per epoch, with objective and gap; a stop is honoured."""

import signal
import threading

import numpy as np
import paper
import pytest
from rows import make_rows
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from pegasos import Blocks, KernelPegasosClassifier, PegasosClassifier, _core

callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
JOINT = {"multi_class": "crammer_singer"}
EPOCH = ("objective", "dual_objective", "relative_gap")


class Recorder:
    """Writes down what it is told, and asks to stop after some epochs."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.epochs, self.begun, self.ended = [], 0, 0

    def setup(self, estimator, context):
        self.root = context

    def teardown(self, estimator, context):
        self.torn_down = True

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context, *, X, metadata, fitted_estimator):
        self.ended += 1
        if context.task_name == "epoch":
            self.epochs.append((metadata, fitted_estimator.score(X, fitted_estimator.predict(X))))
            return len(self.epochs) == self.stop_after
        return False


@pytest.fixture
def data(rng):
    X, _ = make_rows(rng, n=150, d=8)
    return X, rng.integers(0, 3, 150)


@pytest.mark.parametrize(
    "make",
    [
        lambda: paper.linear(lam=0.01, max_iter=7, random_state=0),
        lambda: paper.kernel(lam=0.01, max_iter=7, random_state=0),
        lambda: paper.kernel(lam=0.01, max_iter=7, random_state=0, cache_size=0.01),
        lambda: PegasosClassifier(lam=0.01, tol=1e-5, random_state=0),
        lambda: PegasosClassifier(lam=0.01, tol=1e-5, solver="sdca", random_state=0),
        lambda: KernelPegasosClassifier(lam=0.01, tol=1e-5, random_state=0),
        lambda: PegasosClassifier(**JOINT, lam=0.01, tol=1e-5, random_state=0),
        lambda: PegasosClassifier(
            **JOINT, lam=0.01, tol=None, max_iter=7, solver="pegasos", random_state=0
        ),
    ],
)
def test_each_epoch_is_a_task_and_the_answer_stays(data, make):
    X, y = data
    recorder = Recorder()
    clf = make().set_callbacks(recorder).fit(X, y)
    plain = make().fit(X, y)
    # Of kernel machines, columns come in other groups if epochs are ended one by one.
    rtol = 0 if isinstance(clf, PegasosClassifier) else 1e-9
    np.testing.assert_allclose(clf.decision_function(X), plain.decision_function(X), rtol=rtol)
    np.testing.assert_allclose(clf.objective_, plain.objective_, rtol=rtol)
    assert recorder.begun == recorder.ended == len(recorder.epochs) + 1
    assert recorder.torn_down
    assert 3 <= len(recorder.epochs) <= clf.n_iter_
    if clf.solver == "pegasos":
        assert len(recorder.epochs) == 7
    for metadata, score in recorder.epochs:
        assert (metadata["objective"] >= plain.dual_objective_ * (1 - 1e-9)).all()
        assert (metadata["dual_objective"] <= plain.objective_ * (1 + 1e-9)).all()
        assert (metadata["relative_gap"] >= 0).all()
        assert score == 1.0  # the fitted estimator of that epoch predicts
    first, last = recorder.epochs[0][0], recorder.epochs[-1][0]
    assert last["objective"].sum() < first["objective"].sum()


def test_no_thread_is_at_work_while_callbacks_read_models(rng, monkeypatch):
    """Pairs of classes that have matrices of their own went side by side."""
    X = rng.normal(size=(300, 4))
    threads, solve = set(), _core.solve

    def noted(*args, **options):
        threads.add(threading.get_ident())
        return solve(*args, **options)

    monkeypatch.setattr(_core, "solve", noted)
    clf = KernelPegasosClassifier(multi_class="ovo", cache_size=0.1, n_jobs=2, random_state=0)
    clf.set_callbacks(Recorder()).fit(X, rng.integers(0, 6, 300))
    assert threads == {threading.get_ident()}


class GapRecorder(Recorder):
    def on_fit_task_end(self, estimator, context, *, metadata, **others):
        if context.task_name == "epoch":
            self.epochs.append(metadata)
        return False


def test_callbacks_are_told_gaps_of_blocks(rng, tmp_path):
    X = rng.normal(size=(6000, 40))
    y = X[:, 0] + rng.normal(size=6000) > 0
    blocks = Blocks((X, y), cache=tmp_path / "cache", memory="1MB")
    recorder = GapRecorder()
    clf = PegasosClassifier(lam=1e-3, tol=1e-4, solver="sdca", random_state=0)
    clf.set_callbacks(recorder).fit(blocks)
    told = {name: np.ravel([epoch[name] for epoch in recorder.epochs]) for name in EPOCH}
    assert len(recorder.epochs) >= 2
    assert told["objective"][-1] < told["objective"][0]
    assert (told["objective"] >= clf.dual_objective_).all()
    assert (told["dual_objective"] <= clf.objective_).all()
    assert (told["relative_gap"] >= 0).all()
    assert told["relative_gap"][-1] <= 1e-4


class EpochCounter(Recorder):
    def on_fit_task_end(self, estimator, context, *, fitted_estimator, **others):
        if context.task_name == "epoch":
            self.epochs.append(fitted_estimator.n_iter_)
        return False


def test_what_a_callback_sees_is_of_the_epoch_that_ended(data):
    X, y = data
    counter = EpochCounter()
    clf = PegasosClassifier(lam=1e-3, tol=1e-6, solver="sdca", random_state=0)
    clf.set_callbacks(counter).fit(X, y > 0)
    assert counter.epochs == list(range(1, clf.n_iter_ + 1))


@pytest.mark.parametrize("solver", ["pegasos", "sdca", "newton"])
def test_a_stop_is_honoured_and_a_warm_start_completes(data, solver):
    X, y = data
    options = {"solver": solver, "tol": 1e-6, "max_iter": 2000, "random_state": 0}
    if solver == "pegasos":
        options |= {"tol": None, "max_iter": 50}
    whole = PegasosClassifier(lam=0.01, **options).fit(X, y)
    clf = PegasosClassifier(lam=0.01, warm_start=True, **options)
    clf.set_callbacks(Recorder(stop_after=3))
    if solver == "pegasos":
        clf.fit(X, y)  # nobody asked for a gap
    else:
        with pytest.warns(ConvergenceWarning, match=r"^a callback stopped the fit after \d+ epoch"):
            clf.fit(X, y)
    assert 3 <= clf.n_iter_ < whole.n_iter_
    assert (clf.duality_gap_ >= 0).all()
    assert (clf.objective_ >= whole.dual_objective_).all()
    clf.set_callbacks().fit(X, y)
    np.testing.assert_array_equal(clf.coef_, whole.coef_)


def test_ctrl_c_in_a_callback_is_answered_at_once(rng):
    X = sparse.random_array((400, 50), density=0.2, format="csr", random_state=rng)
    y, after = rng.integers(0, 4, 400), []

    class Striker(Recorder):
        def on_fit_task_end(self, *arguments, **keywords):
            signal.raise_signal(signal.SIGINT)
            after.append("not answered")

    with pytest.raises(KeyboardInterrupt):
        PegasosClassifier(solver="sdca", random_state=0).set_callbacks(Striker()).fit(X, y)
    assert not after


def test_progress_inside_a_search(data, capsys):
    X, y = data
    search = GridSearchCV(PegasosClassifier(random_state=0), {"lam": [0.1, 0.01]}, cv=2)
    search.set_callbacks(callback.ProgressBar()).fit(X, y)
    assert search.best_params_["lam"] in (0.1, 0.01)


@pytest.mark.parametrize("task", ["epoch", "fit"])
def test_a_callback_that_fails_leaves_the_estimator_as_it_was(data, task):
    X, y = data

    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            if context.task_name == task:
                raise RuntimeError("no disk")

    failing = Failing()
    clf = PegasosClassifier(random_state=0).set_callbacks(failing)
    before = set(vars(clf))
    with pytest.raises(RuntimeError, match="no disk"):
        clf.fit(X, y)
    assert set(vars(clf)) == before
    assert failing.torn_down


def test_a_fit_within_a_fit_is_refused_and_ends_no_callbacks(data):
    """Callbacks of the outer fit were let go of when the inner one was refused."""
    X, y = data
    recorder = Recorder()
    clf = PegasosClassifier(lam=0.01, tol=None, max_iter=4, random_state=0)

    class Nested(Recorder):
        def on_fit_task_end(self, estimator, context, **told):
            with pytest.raises(RuntimeError, match=r"while this .* is being fitted"):
                clf.fit(X, y)
            assert not hasattr(recorder, "torn_down")
            return False

    clf.set_callbacks(recorder, Nested()).fit(X, y)
    assert recorder.torn_down
    assert recorder.epochs


def test_a_callback_that_fails_at_the_beginning_is_let_go_of(data):
    class Failing(Recorder):
        def on_fit_task_begin(self, estimator, context, **data):
            raise OSError("no room")

    failing = Failing()
    with pytest.raises(OSError, match="no room"):
        PegasosClassifier().set_callbacks(failing).fit(*data)
    assert failing.torn_down
