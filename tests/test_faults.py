"""Memory that runs out, and memory that does not come back."""

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier


def small_problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    return X, np.arange(40) % 3


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
        np.random.default_rng(0).normal(size=(4, 1_000_000)), [0, 1, 0, 1], 0.1, n_steps=3
    ).save(path)
    script = textwrap.dedent(f"""
        import resource, warnings
        import numpy as np
        import pegasos
        from pegasos import KernelPegasosClassifier, PegasosClassifier
        from scipy import sparse
        warnings.simplefilter("ignore")
        path = {str(path)!r}
        X = np.random.default_rng(0).normal(size=(20, 2**17))
        y = np.arange(20) % 2
        PegasosClassifier(n_steps=1).fit(X[:, :2], y)  # what is loaded late is loaded
        # ... and BLAS has its buffers: OpenBLAS ends the process if it cannot have them.
        KernelPegasosClassifier(n_steps=50).fit(X, y).predict(X)
        used = 4096 * int(open("/proc/self/statm").read().split()[0])
        outcomes = []
        for more in [0, 2**18, 2**21, 2**24]:
            resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
            try:
                {work}
                outcomes.append("done")
            except MemoryError:
                outcomes.append("MemoryError")
        print(outcomes)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"},
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
        for _ in range(60):
            make(n_steps=30, random_state=0).fit(X, y).predict(X)
        gc.collect()
        sizes.append(resident_bytes())
    # A leak of one array of X's size per fit would be 100 kB per sixty; noise is a few pages.
    assert sizes[-1] - sizes[1] < 150_000, sizes
