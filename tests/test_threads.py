"""Many at once: threads over shared arrays, processes forked and spawned."""

import _thread
import functools
import multiprocessing
import os
import signal
import sys
import sysconfig
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import joblib
import numpy as np
import paper
import pytest
import threadpoolctl
from covering import covering
from interruption import interrupted
from rows import DTYPES, LAYOUTS, convert, make_rows

import pegasos
from pegasos import _core, kernels
from pegasos._cached import cached_property
from pegasos._threads import blas
from pegasos.io import _model
from pegasos.solvers import _linear

CSR_PARTS = ("data", "indices", "indptr")


def shared(layout, n=400):
    """Rows, labels and weights that nobody may write to."""
    X, y = make_rows(np.random.default_rng(0), n=n, d=12)
    y = y + 2 * (np.arange(n) % 2)  # four classes
    X = convert(X, layout, np.float32)
    weights = np.random.default_rng(1).uniform(0.5, 2, n)
    arrays = [X] if layout == "dense" else [getattr(X, part) for part in CSR_PARTS]
    for array in (*arrays, y, weights):
        array.flags.writeable = False
    return X, y, weights


def learn(kind, X, y, weights, seed):
    """Fit and predict; what can be compared bit by bit."""
    if kind == "function":
        model = pegasos.fit(X, y, 1e-3, sample_weight=weights, random_state=seed, n_jobs=2)
        return model.coef, model.intercept, model.objective, model.decision_function(X)
    make = {
        "pegasos": lambda: paper.linear(lam=1e-3, random_state=seed),
        "sdca": lambda: pegasos.PegasosClassifier(
            lam=1e-3, solver="sdca", max_iter=5000, random_state=seed
        ),
        "newton": lambda: pegasos.PegasosClassifier(lam=1e-3, solver="newton", random_state=seed),
        "kernel": lambda: paper.kernel(lam=1e-3, gamma=0.1, max_iter=5, random_state=seed),
    }[kind]
    clf = make().fit(X, y, weights)
    coef = clf.dual_coef_ if kind == "kernel" else clf.coef_
    return coef, clf.intercept_, clf.objective_, clf.decision_function(X)


@pytest.mark.parametrize("layout", ["dense", "csr32"])
@pytest.mark.parametrize("kind", ["function", "pegasos", "sdca", "newton", "kernel"])
def test_fits_in_threads_over_shared_read_only_arrays_give_the_bits_of_serial_ones(kind, layout):
    data = shared(layout)
    before = [np.copy(part) for part in data[1:]]
    serial = [learn(kind, *data, seed) for seed in range(4)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: learn(kind, *data, k % 4), range(16)))
    for k, arrays in enumerate(found):
        for one, other in zip(arrays, serial[k % 4], strict=True):
            np.testing.assert_array_equal(one, other)
    for part, copy in zip(data[1:], before, strict=True):
        np.testing.assert_array_equal(part, copy)


@pytest.mark.parametrize("layout", ["dense", "csr64"])
@pytest.mark.parametrize("make", [paper.linear, paper.kernel])
def test_predictions_of_one_estimator_at_once(make, layout):
    X, y, _ = shared(layout)
    clf = make(lam=1e-3, max_iter=3, random_state=0).fit(X, y)
    expected = clf.decision_function(X)
    with ThreadPoolExecutor(8) as pool:
        for scores in pool.map(lambda _: clf.decision_function(X), range(32)):
            np.testing.assert_array_equal(scores, expected)


# From 3.12 on Python warns that forks of processes with threads may hang; this is what is tested.
def blas_threads():
    return [
        info["num_threads"]
        for info in threadpoolctl.threadpool_info()
        if info["user_api"] == "blas"
    ]


def test_blas_has_one_thread_whichever_thread_asks_for_it_and_whichever_ends_last():
    with blas.one_thread():
        pass  # the libraries are there
    seen, is_in, may_end = [], threading.Event(), threading.Event()

    def work():
        with blas.one_thread():
            seen.append(blas_threads())
            is_in.set()
            may_end.wait()

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        for main_ends_first in (True, False):
            is_in.clear(), may_end.clear()
            thread = threading.Thread(target=work)
            thread.start()
            is_in.wait()
            with blas.one_thread():
                if not main_ends_first:
                    may_end.set()
                    thread.join()
                seen.append(blas_threads())
            may_end.set()
            thread.join()
            assert blas_threads() == before
    assert all(number == 1 for numbers in seen for number in numbers)


@pytest.mark.parametrize("make", [pegasos.PegasosClassifier, pegasos.KernelPegasosClassifier])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_threads_of_jobs_leave_no_dummies(make, multi_class):
    """Python lists threads that ask `threading` who they are for ever, as daemons."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 60)), np.arange(200) % 5
    before = set(threading.enumerate())
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        make(lam=1e-3, solver="newton", multi_class=multi_class, n_jobs=2).fit(X, y)
    assert set(threading.enumerate()) <= before


def test_a_block_that_a_tracer_keeps_from_its_end_ends_when_it_is_forgotten():
    """A tracer can raise between the last line of a `with` block and its end; signals cannot."""

    def strike(frame, event, argument):
        if event == "line" and frame.f_lineno == frame.f_code.co_firstlineno + 1 and entered:
            raise KeyboardInterrupt
        return strike

    def interrupted():
        with blas.one_thread():
            entered.append(set(blas_threads()))

    entered, tracer = [], sys.gettrace()
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        sys.settrace(strike)
        try:
            interrupted()
        except KeyboardInterrupt:
            pass
        else:
            pytest.fail("the tracer did not strike")
        finally:
            sys.settrace(tracer)
        assert entered == [{1}]
        assert blas_threads() == before


@pytest.mark.parametrize("n_times", [1, 3])
@pytest.mark.parametrize("comes_in", ["_begin", "_end"])
def test_a_block_begins_and_ends_whatever_ctrl_c_does(monkeypatch, comes_in, n_times):
    left, real = n_times, getattr(type(blas), comes_in)

    def struck(self):
        nonlocal left
        real(self)
        if left:
            left -= 1
            raise KeyboardInterrupt

    monkeypatch.setattr(type(blas), comes_in, struck)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(KeyboardInterrupt), blas.one_thread():
            assert comes_in == "_end"
        assert left == 0
        assert blas_threads() == before


MACHINES = {
    "newton": lambda **o: pegasos.PegasosClassifier(lam=1e-3, solver="newton", **o),
    "newton, free": lambda **o: pegasos.PegasosClassifier(
        lam=1e-3, solver="newton", penalize_intercept=False, **o
    ),
    **{
        f"{kernel}, {solver}, {megabytes} MB": functools.partial(
            pegasos.KernelPegasosClassifier, lam=1e-4, kernel=kernel, solver=solver,
            cache_size=megabytes,
        )
        for kernel in ("rbf", "poly")
        for solver in ("sdca", "newton", "pegasos")
        for megabytes in (0.5, 100)
        if (solver, megabytes) != ("newton", 0.5)
    },
    "rbf, pairs": functools.partial(
        pegasos.KernelPegasosClassifier, lam=1e-4, multi_class="ovo"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_neither_threads_of_ours_nor_of_blas_change_a_bit(monkeypatch, dtype, name):
    monkeypatch.setattr(kernels._points, "_FEW", 1)  # threads share little work, too
    monkeypatch.setattr(_model, "_PREDICT_BYTES", 2**20)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 120)).astype(dtype)
    y = np.argmax(X @ rng.normal(size=(120, 3)) + 3 * rng.normal(size=(1300, 3)), axis=1)
    y = y if "pairs" in name else y > 0
    found = []
    for blas_threads, n_jobs in [(1, 1), (2, 1), (1, 2), (2, 3)]:
        with threadpoolctl.threadpool_limits(blas_threads, user_api="blas"):
            clf = MACHINES[name](tol=None, max_iter=3, n_jobs=n_jobs, random_state=0).fit(X, y)
            coef = clf.dual_coef_ if hasattr(clf, "dual_coef_") else clf.coef_
            scores = clf.decision_function(X[:700])
        found.append((coef, clf.intercept_, clf.objective_, clf.dual_objective_, scores))
    for other in found[1:]:
        for a, b in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(a, b)


# Plain loops; BLAS; products. Passes of so many numbers are shared, and there are blocks of sums to
# add up.
SHAPES = {"plain": (4000, 30), "blas": (2500, 120), "products": (2100, 2003)}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@covering(
    shape=SHAPES.values(), layout=LAYOUTS, dtype=DTYPES,
    machine=[
        {"loss": "hinge"}, {"loss": "squared_hinge", "fit_intercept": False},
        {"loss": "log_loss", "penalize_intercept": False},
        {"loss": "hinge", "penalize_intercept": False},
    ],
)  # fmt: skip
def test_threads_that_share_one_problem_change_no_bit(
    rng, monkeypatch, layout, dtype, shape, machine
):
    """Nor does Ctrl-C, after which the fit goes on with another number of threads."""
    monkeypatch.setattr(_linear, "_LONG", 0)
    X, y = make_rows(rng, *shape, density=0.1)
    X, weights = convert(X, layout, dtype), rng.uniform(0.1, 2, len(y))

    def make(n_jobs):
        return pegasos.PegasosClassifier(
            lam=1e-3, solver="newton", tol=1e-3, max_iter=12, n_jobs=n_jobs, warm_start=True,
            random_state=0, **machine,
        )  # fmt: skip

    fits = [make(n_jobs).fit(X, y, weights) for n_jobs in (1, 2, 3)]
    clf = make(2)
    for after, n_jobs in ((0, 2), (4, 3), (2, 1), (5, 2)):
        with interrupted(after):
            clf.set_params(n_jobs=n_jobs).fit(X, y, weights)
    fits.append(clf.set_params(n_jobs=3).fit(X, y, weights))
    for name in ("coef_", "intercept_", "objective_", "dual_objective_", "n_iter_"):
        for other in fits[1:]:
            np.testing.assert_array_equal(getattr(other, name), getattr(fits[0], name))


@pytest.mark.parametrize("n_jobs", [2, 5, 8])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_that_are_left_over_share_problems_and_end(rng, monkeypatch, n_jobs, n_classes):
    """Also where what they were given is freed late, as free-threaded Python may do."""
    started, ended, real = [], [], _thread.start_new_thread

    def start(function, arguments):
        def work(*arguments):
            function(*arguments)
            ended.append(function)

        started.append(arguments)
        return real(work, arguments)

    monkeypatch.setattr(_linear, "_LONG", 0)
    monkeypatch.setattr(_thread, "start_new_thread", start)
    X, y = make_rows(rng, n=3000, d=40)
    y = y if n_classes == 2 else y + 3 * (X[:, 0] > 0.5) * (y > 0)
    clf = pegasos.PegasosClassifier(lam=1e-2, solver="newton", n_jobs=n_jobs, random_state=0)
    clf.fit(X, y)
    n = 1 if n_classes == 2 else n_classes
    assert len(started) == min(n, n_jobs) - 1 + n * (max(n_jobs // n, 1) - 1)
    while len(ended) < len(started):  # their last line is this test's
        time.sleep(0.001)


class Solved:
    """A problem for the core, whose passes threads may share; `fits` has what was found."""

    def __init__(self, rng):
        X, y = make_rows(rng, n=3000, d=40)
        self.rows = _core.Rows(X)
        self.targets = _core.Targets(
            y.astype(np.int8)[None], lams=np.array([1e-3]), intercept_scaling=1.0
        )
        self.norms = (X**2).sum(axis=1)
        self.fits = _core.Fits(1, *X.shape)

    def solve(self, n_threads):
        _core.solve(
            self.rows, self.targets, self.norms, self.fits, np.array([500]), tol=1e-3, seed=0,
            solver=_core.NEWTON, watch=_core.Watch(every=1.0), n_threads=n_threads,
        )  # fmt: skip
        return self.fits.memory


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
@pytest.mark.parametrize("n_that_come", [0, 1, 3])
def test_threads_that_come_late_or_never_change_nothing(monkeypatch, n_that_come, error):
    """There may be no more of them; then fewer do what there is to do."""
    real, n_asked = _thread.start_new_thread, 0

    def start(function, arguments):
        nonlocal n_asked
        n_asked += 1
        if n_asked > n_that_come:
            raise error

        def late(*arguments):
            time.sleep(0.005 * n_asked)
            function(*arguments)

        return real(late, arguments)

    def fits():
        return [learn(kind, *shared("dense", 100), 0) for kind in ("function", "kernel")]

    alone, learned = Solved(np.random.default_rng(0)).solve(1), fits()
    monkeypatch.setattr(_thread, "start_new_thread", start)
    np.testing.assert_array_equal(Solved(np.random.default_rng(0)).solve(4), alone)
    for arrays, others in zip(learned, fits(), strict=True):
        for one, other in zip(arrays, others, strict=True):
            np.testing.assert_array_equal(one, other)
    done = []
    _core.run_jobs([lambda on_poll, k=k: done.append(k) for k in range(9)], 4)
    assert sorted(done) == list(range(9))


def test_threads_that_may_not_start_are_not_waited_for(monkeypatch):
    """Where an audit hook forbids them, a frame keeps what they were to be given."""

    def start(function, arguments):
        nonlocal n_asked
        n_asked += 1
        if n_asked % 2:
            return real(function, arguments)
        raise PermissionError("no threads here")

    real, n_asked = _thread.start_new_thread, 0
    monkeypatch.setattr(_thread, "start_new_thread", start)
    with pytest.raises(PermissionError, match="no threads here"):
        Solved(np.random.default_rng(0)).solve(4)
    with pytest.raises(PermissionError, match="no threads here"):
        _core.run_jobs([lambda on_poll: None] * 9, 4)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_what_a_job_raises_is_raised_when_no_job_is_at_work(n_threads):
    begun, ended = [], []

    def job(k, on_poll):
        begun.append(k)
        try:
            if k == 1:
                raise LookupError("one")
            while n_threads > 1:  # until it is stopped
                on_poll()
        finally:
            ended.append(k)

    with pytest.raises(LookupError, match="one"):
        _core.run_jobs([functools.partial(job, k) for k in range(4)], n_threads)
    assert sorted(begun) == sorted(ended)
    assert 1 in begun


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_forked_and_spawned_learn_the_same(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    data = shared("csr32", n=100)
    kinds = ["function", "sdca", "kernel"]
    expected = [learn(kind, *data, 0) for kind in kinds]  # threads and BLAS have been at work here
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        found = [pool.submit(learn, kind, *data, 0) for kind in kinds]
        for arrays, future in zip(expected, found, strict=True):
            for one, other in zip(arrays, future.result(timeout=600), strict=True):
                np.testing.assert_array_equal(one, other)


def warnings_of_two_threads(machine):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        machine.fit(*shared("dense", n=100)[:2])
    return [str(warning.message) for warning in told]


def test_workers_of_a_pool_have_threads_without_a_warning():
    """Joblib warned that processes cannot begin there, and fits had one thread."""
    kinds = pegasos.PegasosClassifier, pegasos.KernelPegasosClassifier, pegasos.PegasosClassifierCV
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for told in pool.map(warnings_of_two_threads, [make(n_jobs=2) for make in kinds]):
            assert not [words for words in told if "n_jobs" in words]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fit_in_a_process_that_another_thread_has_forked_hears_signals():
    """That thread is the main one there, whose fits alone are stopped by signals."""
    data, codes = shared("dense")[:2], []

    def stop(*_):
        os._exit(7)

    def fork():
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            signal.setitimer(signal.ITIMER_PROF, 30)  # which ends a process that hears nothing
            pegasos.PegasosClassifier(tol=None, max_iter=10**9).fit(*data)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert codes == [7]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_learns_the_same(backend):
    data = shared("dense", n=100)
    expected = learn("sdca", *data, 0)
    with joblib.parallel_config(backend=backend):
        found = joblib.Parallel(2)(joblib.delayed(learn)("sdca", *data, 0) for _ in range(3))
    for arrays in found:
        for one, other in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="this Python has a GIL; a free-threaded one (3.13t) runs this whole file without",
)
def test_the_gil_stays_off():
    """The extension says that it needs none; importing it must not switch it on."""
    assert not sys._is_gil_enabled()


def test_properties_of_two_objects_do_not_wait_for_each_other():
    """Those of `functools` did with Python 3.11, and for ever in a process forked meanwhile."""
    begun, may_end = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def answer(self):
            begun.set()
            return may_end.wait(20)

    one, another = Slow(), Slow()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: one.answer)
        assert begun.wait(20)
        begun.clear()
        second = pool.submit(lambda: another.answer)
        both_compute = begun.wait(10)
        may_end.set()
        assert first.result()
        assert second.result()
        assert both_compute
    assert one.answer is True
