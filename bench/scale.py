"""How cost grows with rows, features, nonzeros, problems and support vectors; one large run.

Every curve is the time of training on synthetic rows of growing size, all else fixed; its slope on
logarithmic axes is fitted by least squares: 0 is "does not matter", 1 is "in proportion". Sizes are
measured in turn, round after round, and the fastest of each counts, so that a busy spell of the
machine does not bend a curve. The large run is one epoch over at least 100 million nonzeros; with
--huge over more than 2**31, which need 64-bit row offsets and about 20 GB of memory.
"""

import gc
from types import SimpleNamespace

import numpy as np
from measure import peak_memory, say, timed, touch_memory
from scipy import sparse

import pegasos
from pegasos import _core
from pegasos.problems._settings import Settings
from pegasos.solvers import _pegasos

LAM = 1e-4
STEPS = 200_000


def rows(n, d, nonzeros, seed=0):
    """CSR rows with `nonzeros` of `d` features each, float32, and labels."""
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, d, size=n * nonzeros, dtype=np.int32)
    data = rng.random(n * nonzeros, dtype=np.float32)
    indptr = np.arange(n + 1, dtype=np.int32) * np.int32(nonzeros)
    X = sparse.csr_array((data, indices, indptr), shape=(n, d))
    return X, np.where(rng.random(n) < 0.5, -1, 1).astype(np.int8)


def session(X, labels, seed=0):
    handle = _core.Rows(X.data, X.indices, X.indptr, X.shape[1])
    trained = _pegasos.Pegasos(
        Settings(LAM, sampling="uniform"), len(labels), X.shape[1], X.dtype, seed
    )
    trained.set_rows(labels, None, count=False)
    return trained, handle


def seconds_of_steps(X, labels, steps):
    """Seconds of `steps` steps of every problem, rows drawn with replacement."""
    trained, handle = session(X, labels)
    trained.plan(n_steps=steps)
    return timed(lambda: trained.run(handle))


def by_rows(quick):
    for n in (10_000, 30_000, 100_000) if quick else (10_000, 30_000, 100_000, 300_000, 1_000_000):
        X, y = rows(n, 2000, 50)
        yield n, lambda X=X, y=y: seconds_of_steps(X, y[None], STEPS // (10 if quick else 1))


def by_features(quick):
    for d in (1000, 10_000, 100_000) if quick else (1000, 10_000, 100_000, 1_000_000):
        X, y = rows(20_000, d, 50)
        yield d, lambda X=X, y=y: seconds_of_steps(X, y[None], STEPS // (10 if quick else 1))


def by_nonzeros(quick):
    for nonzeros in (30, 100, 300) if quick else (30, 100, 300, 1000):
        X, y = rows(10_000, 20_000, nonzeros)
        yield nonzeros, lambda X=X, y=y: seconds_of_steps(X, y[None], STEPS // (10 if quick else 2))


def by_problems(quick):
    X, y = rows(10_000, 20_000, 100)
    for k in (1, 4, 16) if quick else (1, 4, 16, 64, 256):
        labels = np.random.default_rng(1).choice(np.array([-1, 1], np.int8), size=(k, len(y)))
        yield k, lambda k=labels: seconds_of_steps(X, k, STEPS // (50 if quick else 10))


def by_support_vectors(quick):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 50)).astype(np.float32)
    for n_support in (500, 1000, 2000) if quick else (500, 1000, 2000, 4000, 8000):
        Z = rng.normal(size=(n_support, 50)).astype(np.float32)
        machine = pegasos.KernelPegasosClassifier(lam=0.5 / n_support, gamma=1.0, solver="pegasos",
                                                  tol=None, max_iter=1, random_state=0)  # fmt: skip
        machine.fit(Z, rng.random(n_support) < 0.5)
        yield len(machine.support_), lambda m=machine: timed(lambda: m.decision_function(X))


CURVES = {
    "rows, T fixed": by_rows,
    "features, T and nonzeros a row fixed": by_features,
    "nonzeros a row, T fixed": by_nonzeros,
    "problems": by_problems,
    "support vectors, prediction": by_support_vectors,
}


def curve(what, quick, repetitions):
    """One row of the table."""
    points = list(CURVES[what](quick))
    best = np.full(len(points), np.inf)
    for _ in range(repetitions):
        best = np.minimum(best, [measure() for _, measure in points])
    sizes = np.array([size for size, _ in points], float)
    slope = np.polyfit(np.log(sizes), np.log(best), 1)[0]
    return {
        "what grows": what,
        "from": int(sizes[0]),
        "to": int(sizes[-1]),
        "first ms": 1e3 * best[0],
        "last ms": 1e3 * best[-1],
        "slope": float(slope),
        "sizes": sizes.tolist(),
        "ms": (1e3 * best).tolist(),
    }


def large(nonzeros, n_features=1_000_000, per_row=100):
    """One epoch of a binary fit, the certificate included, over `nonzeros` numbers."""
    n = -(-nonzeros // per_row)
    say(f"{nonzeros:.3g} nonzeros: making rows")
    data = np.empty(n * per_row, np.float32)
    indices = np.empty(n * per_row, np.int32)
    rng, block = np.random.default_rng(0), 10_000_000
    for first in range(0, len(data), block):
        part = slice(first, min(first + block, len(data)))
        data[part] = rng.random(part.stop - first, dtype=np.float32)
        indices[part] = rng.integers(0, n_features, part.stop - first, dtype=np.int32)
    indptr = np.arange(n + 1, dtype=np.int64) * per_row
    y = rng.random(n) < 0.5
    size = data.nbytes + indices.nbytes + indptr.nbytes
    found = []
    say(f"{nonzeros:.3g} nonzeros: training")
    # SciPy would make the indices as wide as the row offsets.
    X = SimpleNamespace(data=data, indices=indices, indptr=indptr, shape=(n, n_features))
    with peak_memory() as peak:
        seconds = timed(
            lambda: found.append(
                pegasos.fit(X, y, LAM, solver="pegasos", tol=None, max_iter=1, random_state=0)
            )
        )  # fmt: skip
    return {
        "nonzeros": len(data),
        "rows": n,
        "GB": size / 1e9,
        "seconds": seconds,
        "ns/nonzero": 1e9 * seconds / len(data),
        "peak above X, %": 100 * peak[0] / size,
        "objective": float(found[0].objective[0]),
        "gap": float(found[0].objective[0] - found[0].dual_objective[0]),
    }


def run(args):
    """All rows of both tables."""
    repetitions = args.repetitions or (2 if args.quick else 5)
    results = {"repetitions": repetitions, "curves of growth": [], "large runs": []}
    for what in CURVES:
        say(what)
        results["curves of growth"].append(curve(what, args.quick, repetitions))
        gc.collect()
    sizes = [1_000_000] if args.quick else [100_000_000]
    if args.huge:
        sizes.append(2**31 + 2**20)
    touch_memory(2**30)
    for size in sizes:
        results["large runs"].append(large(size))
        gc.collect()
    return results
