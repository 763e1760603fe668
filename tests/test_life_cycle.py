"""What an estimator is after each call: fits that fail or are interrupted, other data, other solvers."""

import itertools
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from rows import convert, make_rows
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from pegasos import KernelPegasosClassifier, PegasosClassifier

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
    clf = machine(0.01, random_state=0).fit(X, y)
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
    clf = machine(0.01, random_state=0).fit(frame, y)
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
    clf = machine(0.01, random_state=0).fit(X, y)
    before, scores = public(clf), clf.decision_function(X)
    with pytest.raises(RuntimeError, match="no disk"):
        clf.set_callbacks(Failing(task)).fit(X[:, :7], y > 0)
    same(before, public(clf))
    np.testing.assert_array_equal(clf.decision_function(X), scores)


def test_a_partial_fit_that_fails_changes_nothing(rng):
    X, y = make_rows(rng)
    clf = PegasosClassifier(0.01, random_state=0)
    with pytest.raises(ValueError, match="two classes"):
        clf.partial_fit(X, y, classes=[1])
    assert not public(clf)
    clf.partial_fit(X, y, classes=[-1, 1])
    before = public(clf)
    for arguments in ((X[:, :3], y), (X, y + 5), (X, y, None, np.zeros(len(y)))):
        with pytest.raises(ValueError, match=r"features|only labels|zero"):
            clf.partial_fit(*arguments)
    same(before, public(clf))


REFITS = """
import numpy as np
from pegasos import KernelPegasosClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 400))
for kernel in ("rbf", "laplacian"):
    for n_features in (300, 600):
        clf = KernelPegasosClassifier(random_state=0, kernel=kernel).fit(X, X[:, 0] > 0)
        other = rng.normal(size=(5000, n_features))
        for call in (lambda: clf.fit(other[:100], np.zeros(100)), lambda: clf.predict(other)):
            try:
                call()
            except ValueError as error:
                print(error)
"""


def test_after_a_refit_that_failed_no_foreign_memory_is_read():
    done = subprocess.run(
        [sys.executable, "-c", REFITS], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 8
    assert all("X has" in line and "features" in line for line in said[1::2])


def test_rows_are_compared_with_the_support_vectors_themselves(machine, rng):
    """`n_features_in_` is an attribute that users can write to."""
    X, y = make_rows(rng)
    clf = machine(0.01, random_state=0).fit(X, y)
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
    clf = machine(0.01, random_state=0).fit(frame, y)
    with pytest.raises(KeyboardInterrupt):
        clf.set_callbacks(Striking(None)).fit(X[:, :7], np.where(y > 0, "a", "b"))
    assert clf.n_features_in_ == 7
    assert not hasattr(clf, "feature_names_in_")
    assert not hasattr(clf, "objective_")
    assert clf.classes_.tolist() == ["a", "b"]
    assert set(clf.predict(X[:, :7])) <= {"a", "b"}
