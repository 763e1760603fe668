"""Memory that runs out, and memory that does not come back.

``python tests/test_faults.py 10000`` makes so many fits of all kinds, with predictions, files,
pickles and searches, and prints the resident memory ten times on the way.
"""

import copy
import ctypes
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from covering import covering
from rows import convert
from scipy import sparse

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
)

PACKAGE = os.path.dirname(pegasos.__file__)
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")


def small_problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    return X, np.arange(40) % 3


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="RLIMIT_AS is what Linux makes of it"
)
def test_a_limit_on_memory_gives_memory_errors(tmp_path):
    """Under every limit above what is in use, the work is done or ends with MemoryError."""
    path = tmp_path / "model.npz"
    pegasos.fit(
        np.random.default_rng(0).normal(size=(4, 1_000_000)), [0, 1, 0, 1], 0.1, n_steps=3
    ).save(path)
    script = textwrap.dedent(f"""
        import gc, resource, warnings
        import numpy as np
        import pegasos
        from pegasos import KernelPegasosClassifier, PegasosClassifier
        from scipy import sparse
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).normal(size=(20, 2**17))
        y = np.arange(20) % 2
        S = sparse.csr_array(X)
        PegasosClassifier(n_steps=1).fit(X[:, :2], y)  # what is loaded late is loaded
        # ... and BLAS has its buffers: OpenBLAS ends the process if it cannot have them.
        KernelPegasosClassifier(n_steps=50).fit(X, y).predict(X)
        works = {{
            "linear": lambda: PegasosClassifier(n_steps=50).fit(X, y).predict(X),
            "kernel": lambda: KernelPegasosClassifier(n_steps=50).fit(X, y).predict(X),
            "sparse": lambda: PegasosClassifier(n_steps=50).fit(S.copy(), y).predict(S.copy()),
            "file": lambda: pegasos.load({str(path)!r}),
        }}
        for name, work in works.items():
            gc.collect()
            used = 4096 * int(open("/proc/self/statm").read().split()[0])
            outcomes = []
            for more in [0, 2**18, 2**21, 2**24]:
                resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
                try:
                    work()
                    outcomes.append("done")
                except MemoryError:
                    outcomes.append("MemoryError")
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            print(name, *outcomes)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 4
    assert all("MemoryError" in line for line in done.stdout.splitlines()), done.stdout


class Mallinfo2(ctypes.Structure):
    """What glibc says of `malloc`: its own fields, of which two count bytes that are in use."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


def allocated_bytes():
    """Bytes in use, whichever pages the system has in memory; small objects of 64 bytes."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Mallinfo2
    told = mallinfo2()
    return told.uordblks + told.hblkhd + 64 * sys.getallocatedblocks()


@pytest.mark.skipif(
    os.name == "nt" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc has mallinfo2"
)
@pytest.mark.skipif(SANITIZED, reason="AddressSanitizer has a malloc of its own")
@pytest.mark.parametrize("make", [PegasosClassifier, KernelPegasosClassifier])
def test_memory_stays_flat_over_many_fits(make):
    X, y = small_problem()
    sizes = []
    for _ in range(4):
        for _ in range(40):
            make(n_steps=30, random_state=0).fit(X, y).predict(X)
        gc.collect()
        sizes.append(allocated_bytes())
    # A leak of one array of X's size per fit would be twice that.
    assert sizes[-1] - sizes[1] < 40 * X.nbytes, sizes


@covering(n_classes=[2, 3], solver=["auto", "pegasos", "sdca", "newton"], layout=["dense", "csr32"])
def test_beside_x_a_fit_takes_memory_for_its_rows_alone(layout, solver, n_classes):
    """As much as the manual says, however many features there are."""
    rng = np.random.default_rng(0)
    n, d = 20_000, 200
    X = rng.normal(size=(n, d))
    y = np.argmax(X @ rng.normal(size=(d, n_classes)) + 9 * rng.normal(size=(n, n_classes)), axis=1)
    if layout == "csr32":
        X = convert(X * (rng.random((n, d)) < 0.3), layout, np.float64)
    limits = {"tol": None, "max_iter": 3} if solver == "pegasos" else {"tol": 1e-2}
    clf = PegasosClassifier(lam=1e-3, solver=solver, random_state=0, **limits)
    clf.fit(X[:200], y[:200])  # what is imported when it is needed is not X's
    tracemalloc.start()
    try:
        clf.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    n_problems, size = len(clf.intercept_), X.nbytes if layout == "dense" else X.data.nbytes
    assert peak <= n * (55 * n_problems + 130) + size / 50
    if layout == "dense":  # beside what has to be kept
        assert peak <= n * (34 * n_problems + 8) + size / 10


def fails_at(number, work, *arguments):
    """Do the work, but for a MemoryError at one of the package's lines; whether it came so far."""
    left = number

    def trace(frame, event, _):
        nonlocal left
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise MemoryError
        return trace

    handler, tracer = signal.getsignal(signal.SIGINT), sys.gettrace()
    sys.settrace(trace)
    try:
        work(*arguments)
    except MemoryError:
        return True
    finally:
        sys.settrace(tracer)
        signal.signal(signal.SIGINT, handler)
    return False


@pytest.mark.parametrize(
    ("make", "options", "every"),
    [
        (PegasosClassifier, {"n_steps": 50}, 1),
        (PegasosClassifier, {"lam": 0.1, "tol": 0.5}, 7),
        (KernelPegasosClassifier, {"n_steps": 50}, 1),
    ],
)
def test_a_fit_that_fails_at_any_line_leaves_a_whole_model(make, options, every):
    """The old one or the new one, also of other classes, and no exception but MemoryError."""
    X, y = small_problem()
    first = make(random_state=0, warm_start=False, **options).fit(X, y == 0)
    second = copy.copy(first).fit(X, y)
    expected = [(f.classes_.tolist(), f.decision_function(X).tobytes()) for f in (first, second)]
    number = 0
    while True:
        clf = copy.copy(first)
        failed = fails_at(number, clf.fit, X, y)
        found = clf.classes_.tolist(), clf.decision_function(X).tobytes()
        assert found in expected if failed else found == expected[1]
        if not failed:
            break
        number += every
    assert number > 200
    with ThreadPoolExecutor(1) as pool:  # no lock is left behind that another thread would wait for
        pool.submit(copy.copy(first).fit, X, y).result(timeout=60)


# A line of `with` that fails before it can close is one of the trace's making.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lack_of_memory_is_not_taken_for_a_bad_file(tmp_path):
    path = tmp_path / "model.npz"
    pegasos.fit(*small_problem(), 0.1, n_steps=3).save(path)
    number = 0
    while fails_at(number, pegasos.load, path):
        number += 1
    assert number > 50


def test_the_extension_fails_with_memory_errors_and_loses_nothing():
    """Each allocation of a call into the extension fails once, then all that follow for a while.

    So it is while threads start and end, which are waited for all the same; no job is left out.
    """
    pytest.importorskip("_testcapi", reason="CPython's test module is not installed")
    script = textwrap.dedent("""
        import contextvars, functools, gc, sys, time
        import _testcapi
        import numpy as np
        from pegasos import _core
        from pegasos.solvers import _pegasos

        # CPython 3.11 does not survive that there is no memory for the first one.
        contextvars.ContextVar("any").set(None)
        x, ones = np.eye(6), np.ones(6)
        indices, indptr = np.zeros(6, np.int32), np.arange(7)
        labels, draws = np.ones((2, 6), np.int8), np.arange(6)
        settings = dict(lams=np.full(2, 0.1), intercept_scaling=1.0)
        targets = _core.Targets(labels, ones, **settings)
        problems = np.zeros(2, _core.PROBLEM)
        problems["lam"], problems["last_step"], problems["weight_factor"] = 0.1, 9, 1
        problems["q"] = 1
        weights, pending = np.zeros((2, 6)), np.zeros((2, 1), np.int64)
        coef, intercept = np.zeros((2, 6)), np.zeros(2)
        arrays = problems, weights, None, None, pending
        pegasos = _core.Pegasos(*arrays)
        rows, sparse = _core.Rows(x), _core.Rows(ones, indices, indptr, 6)
        points = _core.Points(rows, kind=_core.KERNELS["linear"])
        columns = _core.Columns(points, x.copy(), np.full(6, -1))
        fits = _core.Fits(2, 6, 6)
        options = dict(tol=1e-3, seed=0, watch=_core.Watch())
        solve, done = functools.partial(_core.solve, **options), [None] * 4
        calls = [
            (_core.Rows, x), (_core.Rows, ones, indices, indptr, 6),
            (functools.partial(_core.Targets, **settings), labels, ones),
            (_core.Pegasos, *arrays), (pegasos.run_kernel, columns, targets, weights.copy(),
            weights.copy(), 0, draws, _core.Watch()),
            (lambda *a: _core.Order(*a).draw(np.empty(6, np.int64)), 1, draws.copy(), 0, 0),
            (pegasos.run, rows, targets, 0, draws, _core.Watch()),
            (pegasos.run, sparse, targets, 0, draws, _core.Watch(), True), (pegasos.model,),
            (_core.decision_function, rows, coef, intercept), (sparse.combine, coef),
            (sparse.squared_norms, 2),
            *((functools.partial(solve, solver=solver), rows, targets, ones, fits, draws[:2])
            for solver in (_core.ASCENT, _core.NEWTON)),
            (fits.are_valid, targets, 8), (fits.solutions,),
            (_core.Fits, 2, 6, 6), (fits.begin_at, weights, coef, intercept),
            (_core.kernel_values, points, points, x.copy(), _core.Watch()),
            (lambda: (thin := _core.Points(sparse, kind=_core.KERNELS["linear"], by_transpose=True),
            _core.kernel_values(thin, thin, x.copy(), _core.Watch())),),
            (functools.partial(solve, solver=_core.NEWTON, n_threads=3), rows, targets, ones,
            fits, draws[:2]),
            (functools.partial(solve, solver=_core.ASCENT, n_jobs=2), rows, targets, ones, fits,
            draws[:2]),
            (_core.run_jobs, [functools.partial(done.__setitem__, k) for k in range(4)], 3),
        ]

        def attempt(call, start, count):
            try:
                _testcapi.set_nomemory(start, start + count)
                call[0](*call[1:])
            except BaseException as error:
                _testcapi.remove_mem_hooks()
                return error
            _testcapi.remove_mem_hooks()

        def sweep(call):
            failed = 0
            for count in (1, 50):
                for start in range(60 if call is calls[-1] else 40):
                    done[:] = [None] * 4
                    error = attempt(call, start, count)
                    if call is calls[-1] and error is None and None in done:
                        raise SystemExit(f"jobs are lost at {start}: {done}")
                    # NumPy reports so that it could not describe a structured array.
                    described = isinstance(error, ValueError) and "field name" in str(error)
                    if not (error is None or isinstance(error, MemoryError) or described):
                        raise SystemExit(f"{call[0]} at {start}: {error!r}")
                    failed += error is not None
            return failed

        # Python and NumPy keep some blocks for another call, and threads for the moment in which
        # they end; one that is lost is lost each time.
        failed, blocks = np.zeros(len(calls), int), np.zeros((len(calls), 4), int)
        for k, call in enumerate(calls):
            sweep(call)
            for j in range(4):
                failed[k] = sweep(call)
                time.sleep(0.02)
                gc.collect()
                blocks[k, j] = sys.getallocatedblocks()
        print(failed.sum(), int(np.median(np.diff(blocks), axis=1).sum()))
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    failed, lost = (int(number) for number in done.stdout.split())
    assert failed > 500
    assert lost < 20  # a block lost per failure would be a thousand


def resident_bytes():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def kinds_of_fits(folder):
    """Functions that fit, and use the result: linear and kernel, all solvers and kinds of rows."""
    X, y = small_problem()
    S, path = sparse.csr_array(X * (np.abs(X) > 0.5)), Path(folder) / "model.npz"
    y2 = y == 0

    def used(clf, X, y):
        clf.fit(X, y).predict(X)
        return clf

    def saved(clf, X, y):
        used(clf, X, y).to_model().save(path)
        pegasos.load(path).predict(X)
        pickle.loads(pickle.dumps(clf)).predict(X)

    def warm(clf, X, y):
        used(used(clf, X, y), X, y)

    def in_pieces(clf, X, y):
        for part in (slice(0, 17), slice(17, 40)):
            clf.partial_fit(X[part], y[part], classes=np.unique(y))

    def refused(clf, X, y):
        try:
            clf.fit(X, y[:-1])
        except ValueError:
            return
        raise AssertionError

    def clf(make=PegasosClassifier, lam=0.1, **options):
        return make(lam=lam, **({"random_state": 0, "max_iter": 20} | options))

    kernel = KernelPegasosClassifier
    return [
        *(
            lambda solver=solver, rows=rows, labels=labels: used(clf(solver=solver), rows, labels)
            for solver in ("auto", "pegasos", "sdca", "newton")
            for rows in (X, S, X.astype(np.float32))
            for labels in (y, y2)
        ),
        *(
            lambda solver=solver, rows=rows: used(clf(kernel, solver=solver), rows, y)
            for solver in ("auto", "pegasos", "sdca", "newton")
            for rows in (X, S)
        ),
        lambda: saved(clf(), X, y),
        lambda: saved(clf(kernel, kernel="laplacian"), X, y2),
        lambda: warm(clf(warm_start=True, average="suffix", n_steps=20), X, y),
        lambda: warm(clf(kernel, warm_start=True, cache_size=0), S, y),
        lambda: in_pieces(clf(batch_size=3), S, y),
        lambda: refused(clf(), X, y),
        lambda: used(clf(n_jobs=2, multi_class="ovo", penalize_intercept=False), S, y),
        lambda: used(clf(kernel, n_jobs=2, multi_class="ovo"), S, np.arange(40) % 5),
        lambda: pegasos.fit(X, y, 0.1, n_steps=30, random_state=0).predict(X),
    ]


def measure(n_fits):
    """Make fits in one process, every hundredth a search, and print the resident memory."""
    warnings.simplefilter("ignore")
    X, y = small_problem()
    searches = itertools.cycle(
        [
            lambda: PegasosClassifierCV(lams=[0.01, 0.1], cv=2, random_state=0).fit(X, y),
            lambda: KernelPegasosClassifierCV(
                lams=[0.1], gammas=[0.1, 1], cv=2, random_state=0
            ).fit(X, y),
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        fits, began = itertools.cycle(kinds_of_fits(folder)), time.perf_counter()
        for number in range(1, n_fits + 1):
            (next(searches) if number % 100 == 0 else next(fits))()
            if number % max(n_fits // 10, 1) == 0:
                gc.collect()
                size = resident_bytes() / 2**20
                seconds = time.perf_counter() - began
                print(f"{number:6} fits, {seconds:5.0f} s: {size:7.1f} MB resident", flush=True)


if __name__ == "__main__":
    measure(int(sys.argv[1]))
