"""Memory that runs out, and memory that does not come back."""

import gc
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, PegasosClassifierCV

WORK = {
    "linear": lambda X, y: PegasosClassifier(tol=0.1, random_state=0).fit(X, y).predict(X),
    "kernel": lambda X, y: KernelPegasosClassifier(tol=0.1, random_state=0).fit(X, y).predict(X),
    "search": lambda X, y: (
        PegasosClassifierCV([0.1, 0.01], cv=2, random_state=0).fit(X, y).predict(X)
    ),
}


def small_problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    return X, np.arange(40) % 3


@pytest.mark.parametrize("name", WORK)
def test_a_failing_allocator_is_a_memory_error_and_leaves_the_next_fit_whole(name):
    """CPython's and NumPy's small blocks fail, one after the other, now at one place, now at another."""
    testcapi = pytest.importorskip("_testcapi", reason="needs CPython's test module")
    X, y = small_problem()
    work = WORK[name]
    expected = work(X, y)
    errors, others = 0, []
    for start in [*range(1, 40, 3), *range(50, 6000, 350)]:
        outcome = None
        testcapi.set_nomemory(start, start + 1)
        try:
            work(X, y)
        except Exception as error:
            outcome = error
        finally:
            testcapi.remove_mem_hooks()
        if isinstance(outcome, MemoryError):
            errors += 1
        elif outcome is not None:
            others.append(repr(outcome))
        outcome = None
    assert errors > 0
    # SystemError and the like would mean that an error was not passed on.
    assert not [text for text in others if "SystemError" in text], others
    np.testing.assert_array_equal(work(X, y), expected)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="RLIMIT_AS is what Linux makes of it"
)
@pytest.mark.parametrize(
    "work",
    [
        "PegasosClassifier(n_steps=50).fit(X, y).predict(X)",
        "KernelPegasosClassifier(n_steps=50).fit(X, y).predict(X)",
        "PegasosClassifier(n_steps=50).fit(sparse.csr_array(X), y).predict(sparse.csr_array(X))",
        "pegasos.load(path)",
    ],
)
def test_a_limit_on_memory_gives_memory_errors(work, tmp_path):
    """Under every limit above what is in use, the work is done or ends with MemoryError."""
    path = tmp_path / "model.npz"
    pegasos.fit(
        np.random.default_rng(0).normal(size=(4, 100_000)), [0, 1, 0, 1], 0.1, n_steps=3
    ).save(path)
    script = textwrap.dedent(f"""
        import resource, warnings
        import numpy as np
        import pegasos
        from pegasos import KernelPegasosClassifier, PegasosClassifier
        from scipy import sparse
        warnings.simplefilter("ignore")
        path = {str(path)!r}
        X = np.random.default_rng(0).normal(size=(20, 2**14))
        y = np.arange(20) % 2
        PegasosClassifier(n_steps=1).fit(X[:, :2], y)  # what is loaded late is loaded
        KernelPegasosClassifier(n_steps=1).fit(X[:, :2], y).predict(X[:, :2])
        used = 4096 * int(open("/proc/self/statm").read().split()[0])
        outcomes = []
        for more in [0, 2**16, 2**18, 2**20, 2**22, 2**24]:
            resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
            try:
                {work}
                outcomes.append("done")
            except MemoryError:
                outcomes.append("MemoryError")
        print(outcomes)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "MemoryError" in done.stdout


def resident_bytes():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("make", [PegasosClassifier, KernelPegasosClassifier])
def test_memory_stays_flat_over_many_fits(make):
    X, y = small_problem()
    sizes = []
    for _ in range(4):
        for _ in range(100):
            make(n_steps=30, random_state=0).fit(X, y).predict(X)
        gc.collect()
        sizes.append(resident_bytes())
    # A leak of one array of X's size per fit would be 160 kB per hundred; noise is a few pages.
    assert sizes[-1] - sizes[1] < 200_000, sizes
