"""Ctrl-C at random pieces of work and lines: it is answered, and warm starts end at the same bits.

``python tests/test_interrupts.py 200`` interrupts so many fits and prints how long answers took: by
the clock, which on a busy machine says little, and in CPU time of the process. Then it sends bursts
of Ctrl-C to as many random estimators, eight fits of each or three searches or rounds of
`partial_fit`.
"""

import contextlib
import copy
import functools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings

import numpy as np
import pytest
from interruption import asked_often, interrupted
from losses import LOSSES, TARGET_LOSSES
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import pegasos
from pegasos import _core
from pegasos._threads import blas
from pegasos.solvers import _schedule

PACKAGE = os.path.dirname(pegasos.__file__)


@pytest.fixture(autouse=True)
def often():
    """Small fits have many moments at which Ctrl-C is heard."""
    with asked_often():
        yield


def rows(kind, n=4000, n_classes=3):
    rng = np.random.default_rng(0)
    if kind == "dense":
        X = rng.normal(size=(n, 60)).astype(np.float32)
        centres = rng.normal(size=(60, n_classes))
    else:
        d, density = (200, 0.04) if kind == "sparse, few features" else (2000, 0.01)
        X = sparse.random_array((n, d), density=density, format="csr", random_state=rng)
        X *= 10 if d == 200 else 1
        centres = rng.normal(size=(d, n_classes))
    scores = X @ centres
    return X, (scores + scores.std() * rng.normal(size=scores.shape)).argmax(axis=1)


def linear(solver, kind, n_classes, **options):
    def make(n=4000):
        plan = {"tol": None, "max_iter": 60} | options
        clf = pegasos.PegasosClassifier(
            lam=1e-4, solver=solver, warm_start=True, random_state=0, **plan
        )
        return clf, *rows(kind, n, n_classes)

    return make


def kernel(solver, kind, n_classes=3, **options):
    def make(n=1000):
        clf = pegasos.KernelPegasosClassifier(
            lam=1e-4,
            gamma=0.01,
            solver=solver,
            tol=1e-4,
            warm_start=True,
            random_state=0,
            **options,
        )
        return clf, *rows(kind, n, n_classes)

    return make


FITS = {
    "pegasos, dense, two classes": linear("pegasos", "dense", 2, batch_size=3),
    "pegasos, dense": linear("pegasos", "dense", 3),
    "pegasos, sparse": linear("pegasos", "sparse", 3, average=True),
    "sdca, dense": linear("sdca", "dense", 3),
    "sdca, sparse, two classes": linear("sdca", "sparse", 2, penalize_intercept=False),
    "sdca, sparse": linear("sdca", "sparse", 3),
    "newton, dense, two classes": linear("newton", "dense", 2),
    "newton, dense, threads": linear("newton", "dense", 2, n_jobs=3),
    "newton, sparse, threads": linear("newton", "sparse", 2, n_jobs=2, penalize_intercept=False),
    "newton, dense": linear("newton", "dense", 3, multi_class="ovo", penalize_intercept=False),
    "auto, dense": linear("auto", "dense", 3),
    "auto, sparse": linear("auto", "sparse", 3),
    "auto, ascent gives up": linear("auto", "sparse, few features", 2, tol=1e-3, max_iter=1000),
    "auto, sparse, threads": linear("auto", "sparse", 3, n_jobs=2),
    "kernel, sdca": kernel("sdca", "dense"),
    "kernel, auto, small cache": kernel("auto", "sparse", cache_size=1),
    "kernel, sdca, pairs": kernel("sdca", "dense", 5, multi_class="ovo"),
    "kernel, auto, pairs, threads": kernel("auto", "sparse", 5, multi_class="ovo", n_jobs=2),
}


class CtrlC:
    """Comes `delay` seconds after a fit began piece `piece` of its work, from 0 on; counts pieces.

    It stands where checkpoints are asked for, after each piece of the main thread. Another thread
    raises the signal, for which the end of the next piece waits, unless the time it takes is of
    interest.
    """

    def __init__(self, piece=None, delay=0.0, is_awaited=True):
        self.piece, self.delay, self.is_awaited, self.n_pieces = piece, delay, is_awaited, 0
        self.at, self.has_come = None, threading.Event()

    def watch(self):
        if self.is_awaited:
            self.wait()
        if self.n_pieces == self.piece:
            threading.Thread(target=self.come).start()
        self.n_pieces += 1

    def wait(self):
        if self.piece is not None and self.n_pieces > self.piece:
            self.has_come.wait()

    def write(self, *_):
        """No checkpoint is wanted."""

    def come(self):
        time.sleep(self.delay)
        self.at = time.perf_counter(), time.process_time()
        signal.raise_signal(signal.SIGINT)
        self.has_come.set()


def interrupt(clf, X, y, ctrl_c):
    """Fit with Ctrl-C; how long the answer took, or None if it was too late."""
    clf._checkpoints, has_returned = ctrl_c, False
    try:
        clf.fit(X, y)
        has_returned = True
        ctrl_c.wait()
    except KeyboardInterrupt:
        if has_returned:
            return None
        heard = time.perf_counter(), time.process_time()
        return heard[0] - ctrl_c.at[0], heard[1] - ctrl_c.at[1]
    finally:
        clf._checkpoints = None
    return None


def coef_of(clf):
    return clf.dual_coef_ if hasattr(clf, "dual_coef_") else clf.coef_


def check(clf, whole, X):
    if hasattr(clf, "dual_coef_"):  # to rounding: another order of sums
        np.testing.assert_allclose(clf.objective_, whole.objective_, rtol=1e-3)
    else:
        np.testing.assert_array_equal(coef_of(clf), coef_of(whole))
        np.testing.assert_array_equal(clf.intercept_, whole.intercept_)
        np.testing.assert_array_equal(clf.objective_, whole.objective_)
    assert (clf.duality_gap_ >= 0).all()
    assert np.isfinite(clf.predict(X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", FITS)
def test_an_interrupted_fit_goes_on_to_the_same_model(fit, rng):
    clf, X, y = FITS[fit]()
    whole = FITS[fit]()[0]
    whole._checkpoints = counter = CtrlC()
    whole.fit(X, y)
    n_heard = 0
    for part in rng.uniform(0, 0.3, 3):
        ctrl_c = CtrlC(int(part * counter.n_pieces), delay=0.005 * rng.random())
        if interrupt(clf, X, y, ctrl_c) is None:
            break  # it was done: the next fit would do as much again
        n_heard += 1
        assert np.isfinite(clf.decision_function(X)).all()
    else:
        clf.fit(X, y)
    assert n_heard or clf.n_jobs == 2  # of two threads, the other may do most of the work
    check(clf, whole, X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("n_classes", "stops"), [(2, (0, 1, 5, 20, 50)), (4, (0, 1, 5, 20, 50, 100, 200))]
)
def test_an_auto_fit_goes_on_to_the_same_bits_whatever_solver_was_at_work(rng, n_classes, stops):
    """Where dual ascent gets nowhere, Newton's method goes on."""
    X = sparse.csr_array(sparse.random(2000, 200, 0.04, "csr", random_state=rng))
    X.data[:] = 3
    scores = X @ rng.normal(size=(200, n_classes))
    y = (scores + 2 * scores.std() * rng.normal(size=scores.shape)).argmax(axis=1)
    options = {"tol": 1e-6, "random_state": 0}
    whole = pegasos.PegasosClassifier(lam=1e-4, **options).fit(X, y)
    assert list(whole.solver_epochs_) == ["pegasos", "sdca", "newton"]
    parts = pegasos.PegasosClassifier(lam=1e-4, warm_start=True, **options)
    seen = set()
    for after in stops:
        with interrupted(after, every=1e5):
            parts.fit(X, y)
        seen |= set(parts.solver_epochs_)
    assert seen == set(whole.solver_epochs_)
    parts.fit(X, y)
    assert parts.n_iter_ == whole.n_iter_
    assert parts.solver_epochs_ == whole.solver_epochs_
    np.testing.assert_array_equal(parts.coef_, whole.coef_)


class AtPiece(CtrlC):
    """Comes in the main thread, after a piece of work."""

    def watch(self):
        self.n_pieces += 1
        if self.n_pieces - 1 == self.piece:
            raise KeyboardInterrupt


def check_after_any_piece(make, X, y):
    whole = make()
    whole._checkpoints = counter = AtPiece()
    whole.fit(X, y)
    for piece in range(counter.n_pieces):
        clf = make()
        clf._checkpoints = AtPiece(piece)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
        check(clf.fit(X, y), whole, X)
    return counter.n_pieces


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_pairs_of_classes_go_on_after_each_of_them(kind):
    """Each is a piece of work, however short."""
    make = functools.partial(
        pegasos.PegasosClassifier, multi_class="ovo", warm_start=True, random_state=0
    )
    assert check_after_any_piece(make, *rows(kind, 200, 5)) >= 10


@pytest.mark.parametrize("kind", ["to dense rows", "to sparse rows"])
def test_pairs_of_classes_that_were_stopped_between_layouts_go_on(kind):
    """Some pairs have features of their own then, and others all of them."""
    layouts = [sparse.random_array((60, 90), density=0.1, format="csr", random_state=0)]
    layouts.insert(kind == "to sparse rows", layouts[0].toarray())
    y = np.arange(60) % 5
    first = pegasos.PegasosClassifier(multi_class="ovo", warm_start=True, random_state=0, tol=1e-3)
    first.fit(layouts[1], y)
    whole = copy.deepcopy(first).fit(layouts[0], y)
    for after in (0, 1, 4, 8):
        cut = copy.deepcopy(first)
        with interrupted(after=after):
            cut.fit(layouts[0], y)
        cut = pickle.loads(pickle.dumps(cut)).fit(layouts[0], y)
        np.testing.assert_array_equal(cut.coef_, whole.coef_)
        assert cut.n_iter_ == whole.n_iter_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_suffix_average_goes_on_after_any_piece_of_work():
    """What was decided where the epochs after a gap check began is not decided once more."""

    def make():
        return pegasos.PegasosClassifier(
            lam=1e-3, solver="pegasos", average="suffix", tol=1e-9, max_iter=32, warm_start=True,
            random_state=0,
        )  # fmt: skip

    check_after_any_piece(make, *rows("dense", 800, 3))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cache_size", [0.05, 200])
def test_a_half_step_of_a_kernel_machine_goes_on_after_any_piece_of_work(cache_size):
    """The columns of rows that were drawn for it are not there any more."""

    def make():
        return pegasos.KernelPegasosClassifier(
            lam=0.01, gamma=0.01, solver="pegasos", batch_size=3, multi_class="ovo", tol=None,
            max_iter=12, warm_start=True, random_state=0, cache_size=cache_size,
        )  # fmt: skip

    check_after_any_piece(make, *rows("dense", 110, 4))


def with_ctrl_c_at(number, call):
    """Call it, with Ctrl-C at line `number` of those it runs in the package; return their count."""
    count = 0

    def at_line(frame, event, argument):
        nonlocal count
        if event == "line":
            count += 1
            if count == number:
                signal.raise_signal(signal.SIGINT)
        return at_line

    def at_call(frame, event, argument):
        return at_line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def interrupted_at(line, make):
    """What Ctrl-C at a line leaves; at an earlier one, if the main thread does not get so far."""
    while True:
        clf, X, y = make()
        try:
            with_ctrl_c_at(line, functools.partial(clf.fit, X, y))
        except KeyboardInterrupt:
            return clf
        assert line > 1
        line //= 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", FITS)
def test_ctrl_c_may_come_at_any_line(fit, rng):
    def make():
        clf, X, y = FITS[fit](200)
        if clf.tol is None:
            clf.set_params(max_iter=7)
        return clf, X, y

    whole, X, y = make()
    n_lines = with_ctrl_c_at(-1, lambda: whole.fit(X, y))
    for number in rng.choice(n_lines, 15, replace=False):
        clf = interrupted_at(number + 1, make)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        clf.fit(X, y)
        check(clf, whole, X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", FITS)
def test_a_fit_that_ctrl_c_comes_too_late_for_is_not_made_twice(fit):
    """It is at its end, or the model is being kept: the next fit returns this model.

    All fits end by the same lines; each is struck at every third, and three of them at all.
    """

    def make():
        clf, X, y = FITS[fit](200)
        return clf.set_params(max_iter=7) if clf.tol is None else clf, X, y

    whole, X, y = make()
    whole.fit(X, y)  # the first fit of a process has more lines: what it imports
    whole, X, y = make()
    n_lines = with_ctrl_c_at(-1, lambda: whole.fit(X, y))
    n_kept = 0
    for number in range(n_lines - 60 + list(FITS).index(fit) % 3, n_lines + 1, 3):
        clf = interrupted_at(number, make)
        n_kept += hasattr(clf, "objective_")
        clf.fit(X, y)
        check(clf, whole, X)
        assert clf.n_iter_ == whole.n_iter_ or hasattr(clf, "dual_coef_")
    assert n_kept or whole.n_jobs == 2  # lines differ in number


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("machine", [
    pegasos.PegasosClassifier, pegasos.KernelPegasosClassifier,
])  # fmt: skip
@pytest.mark.parametrize("first", ["sdca", "newton"])
def test_pegasos_takes_a_model_over_wholly_or_not_at_all(monkeypatch, machine, first):
    """Every line in which it does may be the last one."""
    X, y = rows("dense", 120)
    options = {"tol": None, "max_iter": 5, "warm_start": True, "random_state": 0}
    start = machine(lam=1e-3, solver=first, **options).fit(X, y)
    whole = copy.deepcopy(start).set_params(solver="pegasos").fit(X, y)
    real = _schedule.Schedule.return_to_pegasos
    number, n_lines = -1, 0

    def struck(schedule, cache):
        nonlocal n_lines
        n_lines = max(n_lines, with_ctrl_c_at(number, lambda: real(schedule, cache)))

    monkeypatch.setattr(_schedule.Schedule, "return_to_pegasos", struck)
    copy.deepcopy(start).set_params(solver="pegasos").fit(X, y)
    for line in range(1, n_lines + 1):
        clf, number = copy.deepcopy(start).set_params(solver="pegasos"), line
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
        number = -1
        check(clf.fit(X, y), whole, X)
        assert clf.n_iter_ == whole.n_iter_


def test_a_fit_may_follow_while_the_traceback_of_ctrl_c_is_there():
    """Interactive sessions keep the last one; it must not keep the estimator from being fitted."""
    whole, X, y = FITS["pegasos, dense"](60)
    whole.set_params(max_iter=2).fit(X, y)
    for number in range(1, 40):
        clf = clone(whole)
        try:
            with_ctrl_c_at(number, functools.partial(clf.fit, X, y))
        except KeyboardInterrupt:
            check(clf.fit(X, y), whole, X)


def test_a_partial_fit_that_is_interrupted_is_made_or_not(rng):
    X, y = rows("dense", 600)
    pieces = [slice(0, 200), slice(200, 400), slice(400, 600)]

    def make(n):
        clf = pegasos.PegasosClassifier(lam=1e-3, random_state=0)
        for piece in pieces[:n]:
            clf.partial_fit(X[piece], y[piece], classes=[0, 1, 2])
        return clf

    coefs = [None, *(make(n).coef_ for n in (1, 2, 3))]

    def following(clf, n):
        return clf.partial_fit(X[pieces[n]], y[pieces[n]], classes=[0, 1, 2])

    for n in range(3):
        n_lines = with_ctrl_c_at(-1, functools.partial(following, make(n), n))
        for number in {*rng.integers(1, n_lines, 30), *range(n_lines - 30, n_lines)}:
            clf = make(n)
            with contextlib.suppress(KeyboardInterrupt):  # lines differ in number
                with_ctrl_c_at(number, functools.partial(following, clf, n))
            is_made = np.array_equal(getattr(clf, "coef_", None), coefs[n + 1])
            if not is_made:
                assert np.array_equal(getattr(clf, "coef_", None), coefs[n])
                following(clf, n)
            np.testing.assert_array_equal(clf.coef_, coefs[n + 1])


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("machine", [
    pegasos.PegasosClassifierCV, pegasos.KernelPegasosClassifierCV,
])  # fmt: skip
def test_a_search_that_is_interrupted_is_made_or_not(machine, refit):
    X, y = rows("dense", 90)
    other = machine(cv=2, random_state=0).fit(X[:, :7], y > 0)
    n_lines = with_ctrl_c_at(
        -1, functools.partial(copy.copy(other).set_params(refit=refit).fit, X, y)
    )
    whole = machine(cv=2, random_state=0, refit=refit).fit(X, y)
    for number in range(n_lines - 25, n_lines + 1):
        clf = copy.copy(other).set_params(refit=refit)
        with contextlib.suppress(KeyboardInterrupt):  # lines differ in number
            with_ctrl_c_at(number, functools.partial(clf.fit, X, y))
        assert vars(clf).keys() in (vars(other).keys(), vars(whole).keys())
        assert len(clf.classes_) == (3 if clf.n_features_in_ == 60 else 2)


class Twice(CtrlC):
    """Comes in the main thread after a piece of work, and once more at a later line."""

    def __init__(self, piece, line):
        super().__init__(piece)
        self.line, self.n_lines = line, None

    def watch(self):
        self.n_pieces += 1
        if self.n_pieces - 1 == self.piece:
            self.n_lines = 0
            signal.raise_signal(signal.SIGINT)

    def at_line(self, frame, event, argument):
        if event == "line" and self.n_lines is not None:
            self.n_lines += 1
            if self.n_lines == self.line:
                signal.raise_signal(signal.SIGINT)
        return self.at_line

    def __call__(self, frame, event, argument):
        return self.at_line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def strike(self, clf, X, y):
        """Whether a fit was interrupted before it was over."""
        clf._checkpoints, before = self, sys.gettrace()
        sys.settrace(self)
        try:
            clf.fit(X, y)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
            clf._checkpoints = None
        return False


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", FITS)
def test_a_second_ctrl_c_does_not_cut_short_what_the_first_one_began(fit, rng):
    """Arrays are put in order and kept while an exception is on its way out."""

    def make():
        clf, X, y = FITS[fit](200)
        return clf.set_params(max_iter=7) if clf.tol is None else clf, X, y

    whole, X, y = make()
    whole._checkpoints = counter = CtrlC()
    whole.fit(X, y)
    whole._checkpoints = None
    first = Twice(0, None)
    first.strike(*make())
    for _ in range(12):
        clf = make()[0]
        second = Twice(rng.integers(counter.n_pieces), 1 + rng.integers(first.n_lines or 1))
        while not second.strike(clf, X, y):  # two threads: not so many pieces this time
            clf, second = make()[0], Twice(second.piece // 2, second.line)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert hasattr(clf, "_state")
        clf.fit(X, y)
        check(clf, whole, X)


def test_a_second_ctrl_c_is_raised_as_blas_gets_its_threads_back(monkeypatch):
    """Python tells on standard error, and does not raise, what comes up as an object is freed."""
    real, n_struck = type(blas)._end, 0

    def struck(self):
        nonlocal n_struck
        real(self)
        if n_struck == 0:
            n_struck += 1
            raise KeyboardInterrupt

    clf, X, y = FITS["newton, dense"](200)
    monkeypatch.setattr(type(blas), "_end", struck)
    with interrupted(0, every=1):
        clf.fit(X, y)  # what could not be raised is an error of pytest
    assert n_struck == 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_loses_no_pairs_of_classes(n_jobs):
    """Whenever the core asks whether to go on: what problems have found so far is put in place."""

    def make():
        clf, X, y = FITS["kernel, sdca, pairs"](200)
        return clf.set_params(n_jobs=n_jobs), X, y

    whole, X, y = make()
    whole.fit(X, y)
    for after in range(6):
        clf = make()[0]
        with interrupted(after, every=1):
            clf.fit(X, y)
        clf.fit(X, y)
        check(clf, whole, X)


@pytest.mark.parametrize("fit", ["pegasos, sparse", "sdca, dense", "sdca, sparse"])
def test_a_handler_that_does_not_raise_cuts_nothing_short(fit, rng):
    whole, X, y = FITS[fit](200)
    whole.set_params(tol=None, max_iter=12).fit(X, y)
    fresh = FITS[fit](200)[0].set_params(tol=None, max_iter=12)
    n_lines = with_ctrl_c_at(-1, lambda: fresh.fit(X, y))
    heard, before = [], signal.getsignal(signal.SIGINT)
    for number in rng.choice(n_lines, 40, replace=False):
        clf = FITS[fit](200)[0].set_params(tol=None, max_iter=12)
        signal.signal(signal.SIGINT, lambda *arguments: heard.append(arguments))
        try:
            with_ctrl_c_at(number + 1, lambda clf=clf: clf.fit(X, y))
        finally:
            signal.signal(signal.SIGINT, before)
        assert clf.n_iter_ == whole.n_iter_
        np.testing.assert_array_equal(clf.coef_, whole.coef_)
    assert len(heard) == 40


@pytest.mark.parametrize("n_times", [1, 3])
@pytest.mark.parametrize("n_threads", [2, 8])
def test_no_thread_is_at_work_after_ctrl_c(n_times, n_threads):
    """Not even if it comes while threads start, or are waited for, or again and again."""
    main, heard, running = threading.main_thread(), [], set()
    are_begun = threading.Semaphore(0)

    def press():
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main.ident, signal.SIGINT)  # as a terminal does: wakes who waits
        else:
            signal.raise_signal(signal.SIGINT)

    def answer(*arguments):
        heard.append(arguments)
        raise KeyboardInterrupt

    def job(k, on_poll):
        if threading.current_thread() is main:
            are_begun.acquire()
        else:
            running.add(k)
            are_begun.release()
            for _ in range(n_times):
                before = len(heard)
                press()
                while len(heard) == before:  # also by a main thread that waits for this one
                    time.sleep(0.001)
            time.sleep(0.05)  # long enough for a main thread that does not wait to be found out
            running.remove(k)
        on_poll()

    before = signal.signal(signal.SIGINT, answer)
    try:
        with pytest.raises(KeyboardInterrupt):
            _core.run_jobs([functools.partial(job, k) for k in range(n_threads)], n_threads)
        assert not running
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_handler_is_set(monkeypatch, rng):
    """What is called when Ctrl-C comes is the user's own, always."""
    monkeypatch.setattr(signal, "signal", None)
    X, y = rows("sparse", 300)
    pegasos.PegasosClassifier(n_jobs=2, warm_start=True).fit(X, y).partial_fit(X, y)
    pegasos.KernelPegasosClassifier(n_jobs=2, multi_class="ovo").fit(X, y)
    pegasos.PegasosClassifierCV(cv=2, n_jobs=2).fit(X, y)


# ---- Storms --------------------------------------------------------------------------------------

#: Sends the process that started it bursts of signals: a delay and gaps between them, in seconds.
SENDER = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's goes to all
for line in sys.stdin:
    for pause in map(float, line.split()):
        time.sleep(pause)
        os.kill(os.getppid(), signal.SIGINT)
    print(flush=True)
"""


def started_threads():
    """Threads that `threading` has started.

    It also lists dummies of others that have asked it for their own, as threadpoolctl does where
    the core sets BLAS's threads. They cannot be joined, and stay once their thread has ended.
    """
    return {thread for thread in threading.enumerate() if not thread.name.startswith("Dummy-")}


class Storm:
    """Calls under bursts of one to five Ctrl-C, 0 to 5 ms apart, from another process.

    Its handler raises KeyboardInterrupt while a call is under way, and else does nothing.
    """

    def __init__(self, rng):
        self.rng, self.is_under_way, self.n_heard = rng, False, 0

    def __enter__(self):
        self.before = signal.signal(signal.SIGINT, self.hear), sys.unraisablehook
        # Ctrl-C in a callback of a weak reference is lost, and the call goes on: what is told of it
        # must not be Python code, which the next Ctrl-C would stop.
        sys.unraisablehook = bool
        self.sender = subprocess.Popen(
            [sys.executable, "-c", SENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.burst(0, 0)  # it has started
        self.sender.stdout.readline()
        return self

    def __exit__(self, *_):
        self.sender.communicate()
        handler, sys.unraisablehook = self.before
        signal.signal(signal.SIGINT, handler)

    def hear(self, *_):
        self.n_heard += 1
        if self.is_under_way:
            raise KeyboardInterrupt

    def burst(self, delay, n):
        print(delay, *self.rng.choice([0, 1e-4, 1e-3, 5e-3]) * self.rng.random(n),
              file=self.sender.stdin, flush=True)  # fmt: skip

    def strike(self, call, seconds):
        """Call it under a burst; whether it was interrupted. It takes about so many seconds."""
        # Often at the end, where the model is kept.
        moment = (
            self.rng.uniform(-0.1, 1.1) if self.rng.random() < 0.5 else self.rng.normal(1, 0.05)
        )
        threads = started_threads()
        self.burst(max(moment * seconds, 0), self.rng.integers(5))
        if moment < 0:
            time.sleep(-moment * seconds)
        is_interrupted = True
        try:
            self.is_under_way = True
            call()
            # The interpreter hears of signals after calls of C functions, and none is made here.
            self.is_under_way = is_interrupted = False
        except KeyboardInterrupt:
            self.is_under_way = False
        assert self.sender.stdout.readline()  # all were sent
        assert signal.getsignal(signal.SIGINT) == self.hear
        # Not by `join`: CPython before 3.13 takes a thread for one that has ended where Ctrl-C came
        # while it was joined, and it may still be about to.
        deadline = time.monotonic() + 600
        while not started_threads() <= threads:  # others may end meanwhile
            assert time.monotonic() < deadline, started_threads() - threads
            time.sleep(0.001)
        return is_interrupted


def any_fit(rng):
    """An estimator that goes on from what an interrupted fit left, rows and labels or targets."""
    options = {
        "loss": str(rng.choice(list(LOSSES))),
        "solver": str(rng.choice(["auto", "pegasos", "sdca", "newton"])),
        "multi_class": str(rng.choice(["ovr", "ovo"])), "n_jobs": int(rng.integers(1, 3)),
        "tol": [None, "auto", 1e-4][rng.integers(3)], "warm_start": bool(rng.random() < 0.8),
        "max_iter": int(rng.integers(1, 80)), "random_state": 0,
        **[{}, {"penalize_intercept": False}, {"fit_intercept": False}][rng.integers(3)],
    }  # fmt: skip
    if options["solver"] == "pegasos":
        options["average"] = [False, True, "suffix"][rng.integers(3)]
        options["batch_size"] = int(rng.integers(1, 4))
    if rng.random() < 0.2:
        others = {"loss", "multi_class", "penalize_intercept", "fit_intercept"}
        options = {name: value for name, value in options.items() if name not in others}
        one = [pegasos.PegasosOneClass, pegasos.KernelPegasosOneClass][rng.integers(2)]
        X, y = rows(str(rng.choice(["dense", "sparse"])), int(rng.integers(50, 700)), 2)
        return one(nu=float(rng.choice([0.05, 0.5])), **options), X, y
    n_classes, has_targets = int(rng.integers(2, 6)), rng.random() < 0.4
    if has_targets:
        del options["multi_class"]
        options["loss"] = str(rng.choice(list(TARGET_LOSSES)))

    def labelled(X, y):
        """Rows, and labels or targets of one to three outputs."""
        if has_targets:
            y = (np.eye(n_classes)[y] + 0.1 * rng.normal(size=(len(y), 1)))[:, : rng.integers(1, 4)]
        return X, y

    linear, kernel = (
        getattr(pegasos, name + ("Regressor" if has_targets else "Classifier"))
        for name in ("Pegasos", "KernelPegasos")
    )
    if not has_targets and rng.random() < 0.2:  # one problem over all classes
        options |= {"multi_class": "crammer_singer", "loss": "hinge", "max_iter": 20}
        kind = "dense" if options["solver"] == "newton" else "sparse"  # it takes few features
        clf = linear(lam=10 ** rng.uniform(-4, -2), **options)
        return clf, *rows(kind, int(rng.integers(50, 700)), n_classes)
    if rng.random() < 0.5:
        kind = str(rng.choice(["dense", "sparse", "sparse, few features"]))
        clf = linear(lam=10 ** rng.uniform(-4, -2), **options)
        return clf, *labelled(*rows(kind, int(rng.integers(50, 1500)), n_classes))
    X, y = rows(str(rng.choice(["dense", "sparse"])), int(rng.integers(50, 700)), n_classes)
    options |= {"cache_size": [0.1, 1, 200][rng.integers(3)], "gamma": 0.01}
    options["kernel"] = ["rbf", "precomputed", inner_products][rng.integers(3)]
    if options["kernel"] == "precomputed":
        X = inner_products(X, X) / 60
    options["assume_psd"] = True
    return kernel(lam=10 ** rng.uniform(-4, -2), **options), *labelled(X, y)


def inner_products(X, Z):
    products = X @ Z.T
    return (products.toarray() if sparse.issparse(products) else products).astype(np.float64)


def storm_over_fits(storm, n_storms):
    """Interrupt fits of one estimator, each time up to three times; how often they were."""
    whole, X, y = any_fit(storm.rng)
    began = time.perf_counter()
    whole.fit(X, y)
    seconds, n_interrupted = time.perf_counter() - began, 0
    if not (whole.duality_gap_ >= 0).all():  # rounding has made a kernel indefinite: all may differ
        return 0
    for _ in range(n_storms):
        clf = clone(whole)
        if not clf.warm_start and storm.rng.random() < 0.5:
            other = y[::-1] if hasattr(clf, "epsilon") else y > 0
            clf.fit(X[:, :3] if clf.get_params().get("kernel") != "precomputed" else X, other)
        for _ in range(storm.rng.integers(1, 4)):
            before = vars(clf).copy()
            if not storm.strike(lambda clf=clf: clf.fit(X, y), seconds):
                break
            n_interrupted += 1
            after = vars(clf)
            if before.keys() != after.keys() or any(before[k] is not after[k] for k in before):
                assert clf.predict(X).shape == y.shape
        else:
            clf.fit(X, y)
        check(clf, whole, X)
        assert clf.n_iter_ == whole.n_iter_ or hasattr(clf, "dual_coef_"), clf
    return n_interrupted


def storm_over_searches(storm, n_storms):
    """Interrupt searches, which are made or not."""
    rng = storm.rng
    machine = [
        pegasos.PegasosClassifierCV, pegasos.KernelPegasosClassifierCV,
        pegasos.PegasosRegressorCV, pegasos.KernelPegasosRegressorCV,
    ][rng.integers(4)]  # fmt: skip
    X, y = rows(str(rng.choice(["dense", "sparse"])), int(rng.integers(60, 300)), 3)
    options = {
        "cv": 2, "random_state": 0, "refit": bool(rng.random() < 0.7), "n_jobs": 1,
        "loss": str(rng.choice(list(LOSSES))), "lams": [1e-1, 1e-2, 1e-3],
        "multi_class": str(rng.choice(["ovr", "ovo"])),
        "cv_effort": [[2, 4], ["auto"]][rng.integers(2)][0],
    }  # fmt: skip
    other = y > 0
    if hasattr(machine(), "epsilons"):
        y, other = y + 0.1 * rng.normal(size=len(y)), -y
        options |= {"loss": str(rng.choice(list(TARGET_LOSSES))), "epsilons": [0.1, 0.5]}
        del options["multi_class"]
    began = time.perf_counter()
    whole = machine(**options).fit(X, y)
    seconds, n_interrupted = time.perf_counter() - began, 0
    first = machine(**options | {"refit": True}).fit(X, other).set_params(refit=whole.refit)
    for _ in range(n_storms):
        clf = copy.copy(first)
        before = vars(clf).copy()
        if storm.strike(lambda clf=clf: clf.fit(X, y), seconds):
            n_interrupted += 1
            after = vars(clf)
            if before.keys() != after.keys() or any(before[k] is not after[k] for k in before):
                same_search(clf, whole)
            clf.fit(X, y)
        same_search(clf, whole)
    return n_interrupted


def same_search(clf, whole):
    assert vars(clf).keys() == vars(whole).keys()
    assert clf.best_params_ == whole.best_params_
    np.testing.assert_array_equal(clf.scores_, whole.scores_)
    if clf.refit:
        np.testing.assert_allclose(clf.objective_, whole.objective_, rtol=1e-3)
    if clf.refit and not hasattr(clf, "dual_coef_"):
        np.testing.assert_array_equal(clf.coef_, whole.coef_)


def storm_over_pieces(storm, n_storms):
    """Interrupt calls of partial_fit, which are made or not."""
    rng, n = storm.rng, int(storm.rng.integers(20, 1500))
    X, y = rows(str(rng.choice(["dense", "sparse"])), 3 * n, 3)
    options = {
        "loss": str(rng.choice(list(LOSSES))), "random_state": 0,
        "multi_class": str(rng.choice(["ovr", "ovo"])), "n_jobs": int(rng.integers(1, 3)),
        "average": [False, True][rng.integers(2)], "solver": str(rng.choice(["auto", "pegasos"])),
    }  # fmt: skip

    def learn(clf, k):
        clf.partial_fit(X[k * n : k * n + n], y[k * n : k * n + n], classes=[0, 1, 2])

    whole, coefs = pegasos.PegasosClassifier(lam=1e-3, **options), [None]
    began, n_interrupted = time.perf_counter(), 0
    for k in range(3):
        learn(whole, k)
        coefs.append(whole.coef_)
    seconds = (time.perf_counter() - began) / 3
    for _ in range(n_storms):
        clf = clone(whole)
        for k in range(3):
            while storm.strike(lambda clf=clf, k=k: learn(clf, k), seconds):
                n_interrupted += 1
                coef = getattr(clf, "coef_", None)
                if np.array_equal(coef, coefs[k + 1]):
                    break
                assert np.array_equal(coef, coefs[k])
            np.testing.assert_array_equal(clf.coef_, coefs[k + 1])
            assert (clf.predict(X) >= 0).all()
    return n_interrupted


def storm_over_blocks(storm, n_storms):
    """Interrupt conversions, which are made or not, and fits, which go on with their load."""
    rng, n_interrupted = storm.rng, 0
    kind, n = str(rng.choice(["dense", "sparse, few features"])), int(rng.integers(1200, 2400))
    has_newton = rng.random() < 0.5
    X, y = rows("dense" if has_newton else kind, 5 * n if has_newton else n)
    X = X[:, :12] if has_newton else X  # or second derivatives take more than their part of memory
    options = {
        "loss": str(rng.choice(list(LOSSES))), "random_state": 0, "warm_start": True,
        "penalize_intercept": bool(rng.random() < 0.5), "n_jobs": int(rng.integers(1, 3)),
        "lam": 10 ** rng.uniform(-4, -2), "max_iter": 8, "tol": [None, 1e-3][rng.integers(2)],
        "solver": "newton" if has_newton else "sdca",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        blocks = pegasos.Blocks((X, y), cache=f"{folder}/whole", memory="250kB")
        of_blocks = time.perf_counter() - began
        whole = pegasos.PegasosClassifier(**options).fit(blocks)
        seconds = time.perf_counter() - began - of_blocks
        assert "blocks" in whole._state
        for k in range(n_storms):
            make = functools.partial(pegasos.Blocks, (X, y), cache=f"{folder}/{k}", memory="250kB")
            n_interrupted += storm.strike(make, of_blocks)
            clf, again = clone(whole), make()
            assert again.fingerprint == blocks.fingerprint
            for _ in range(rng.integers(1, 4)):
                if not storm.strike(lambda clf=clf, again=again: clf.fit(again), seconds):
                    break
                n_interrupted += 1
            else:
                clf.fit(again)
            np.testing.assert_array_equal(clf.coef_, whole.coef_)
            assert clf.n_iter_ == whole.n_iter_
    return n_interrupted


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_no_handler_of_signals_is_set(n_jobs):
    before, seen = signal.getsignal(signal.SIGINT), []

    def kernel(X, Z):
        if threading.current_thread() is threading.main_thread():
            seen.append(signal.getsignal(signal.SIGINT))
        return inner_products(X, Z)

    X, y = rows("dense", 300)
    pegasos.KernelPegasosClassifier(
        kernel=kernel, assume_psd=True, lam=1e-2, n_jobs=n_jobs, random_state=0
    ).fit(X, y)
    assert seen
    assert all(handler is before for handler in seen)


STORMS = {
    "fits": (storm_over_fits, 8), "searches": (storm_over_searches, 3),
    "pieces": (storm_over_pieces, 3), "blocks": (storm_over_blocks, 3),
}  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="other processes cannot send SIGINT on Windows")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", STORMS)
def test_storms(kind, rng):
    """A user who is impatient, at any moment from before a call to after it."""
    with Storm(rng) as storm:
        for _ in range(4 if kind != "blocks" else 1):
            STORMS[kind][0](storm, 3)


def storms(n_rounds):
    """Print how many calls were interrupted, over so many random estimators."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    totals = dict.fromkeys(STORMS, 0)
    n_wrong = 0
    for number in range(n_rounds):
        seed = np.random.SeedSequence().entropy
        kind = [*STORMS, "fits"][number % 5]
        call, n_storms = STORMS[kind]
        with Storm(np.random.default_rng(seed)) as storm:
            try:
                totals[kind] += call(storm, n_storms)
            except Exception:  # noqa: BLE001 the next one may tell more
                n_wrong += 1
                print(f"{kind}, seed {seed}:", flush=True)
                traceback.print_exc()
    said = ", ".join(f"{kind} {total}" for kind, total in totals.items())
    print(f"calls interrupted in {n_rounds} storms: {said}; {n_wrong} storms went wrong")
    return n_wrong


def measure(n_fits):
    """Interrupt fits, and say how long answers took."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng, all_latencies, different = np.random.default_rng(), [], 0
    for number, (name, make) in enumerate(FITS.items()):
        latencies, wrong = [], 0
        clf, X, y = make()
        began = time.perf_counter()
        whole = clf.fit(X, y)
        seconds = time.perf_counter() - began
        for _ in range(n_fits // len(FITS) + (number < n_fits % len(FITS))):
            clf = make()[0]
            took = interrupt(clf, X, y, CtrlC(0, seconds * rng.random(), is_awaited=False))
            if took is None:
                continue
            latencies.append(took)
            try:
                check(clf.fit(X, y), whole, X)
            except AssertionError:
                wrong += 1
        different += wrong
        all_latencies += latencies
        print(f"{name:30} {_figures(latencies)}; {wrong} went on to another model", flush=True)
    print(f"{'all':30} {_figures(all_latencies)}; {different} went on to another model")
    return different


def _figures(latencies):
    if not latencies:  # all fits had ended
        return "  0 answers"
    clock, cpu = 1000 * np.array(latencies).T
    return (
        f"{len(clock):3} answers: median {np.median(clock):5.1f} ms, "
        f"95 % {np.quantile(clock, 0.95):5.1f}, longest {clock.max():5.1f}; "
        f"of CPU {np.median(cpu):5.1f}, longest {cpu.max():5.1f}"
    )


if __name__ == "__main__":
    number = int(sys.argv[1])
    sys.exit(measure(number) + storms(number) > 0)
