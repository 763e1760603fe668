"""Micro-benchmarks: what an epoch costs beside one SciPy product ``X @ w`` over the same rows.

    python bench/run.py [--quick] [--json FILE]

Both sides run in this process, in turn, on the same matrix; what counts are the ratios. An epoch
is one pass in a new random order, update steps included. ``X @ w`` is timed twice: with BLAS on one
thread, as an epoch is, and with as many threads as BLAS takes.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
import data as sets

import pegasos
from pegasos import _problems, _session, _validate

LAM = 1e-4


class Epochs:
    """A session on which epochs can be run one by one."""

    def __init__(self, X, y, n_problems):
        classes, codes = np.unique(y, return_inverse=True)
        columns = _problems.label_columns(codes, len(classes), "ovr")
        if n_problems == 1 and len(classes) > 2:
            columns = columns[:1].copy()
        columns = np.ascontiguousarray(np.resize(columns, (n_problems, len(y))))
        self.rows, dtype = _validate.rows(X, checked=True)
        settings = _session.LinearSettings(LAM)
        self.session = _session.LinearSession(settings, n_problems, X.shape[1], dtype, seed=0)
        self.session.set_rows(columns, None)

    def run(self, n=1):
        """Run `n` epochs and return the seconds of one."""
        self.session.plan(n_epochs=n)
        return timed(lambda: self.session.run(self.rows)) / n


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def in_turn(calls, repetitions):
    """Seconds of each call, run in turn: one list per call."""
    times = [[call() for call in calls] for _ in range(repetitions)]
    return list(zip(*times, strict=True))


def ratio(a, b):
    """Median of the ratios of neighbours in time: the machine's speed drifts."""
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def measure(data, dtype, n_problems, repetitions):
    """One row of the table."""
    X = data.X.astype(dtype)
    stored = X.nnz if hasattr(X, "nnz") else X.size
    w = np.random.default_rng(0).normal(size=X.shape[1]).astype(dtype)

    def product(threads):
        with threadpool_limits(limits=threads, user_api="blas"):
            return timed(lambda: X @ w)

    epochs = Epochs(X, data.y, n_problems)
    first = epochs.run()  # from w = 0: more rows violate their margin than later
    # BLAS threads spin for a while after their work, so that product goes first.
    calls = [lambda: product(os.cpu_count()), lambda: product(1), epochs.run]
    if n_problems > 1:
        single = Epochs(X, data.y, 1)
        single.run()
        calls.append(single.run)
    all_threads, one_thread, later, *alone = in_turn(calls, repetitions)
    return {
        "set": data.name,
        "layout": "CSR" if hasattr(X, "nnz") else "dense",
        "type": np.dtype(dtype).name,
        "K": n_problems,
        "nonzeros": stored,
        "first epoch ms": 1e3 * first,
        "epoch ms": 1e3 * statistics.median(later),
        "ns/nonzero": 1e9 * statistics.median(later) / stored / n_problems,
        "X@w ms": 1e3 * statistics.median(one_thread),
        "epoch/X@w": ratio(later, one_thread),
        "X@w threads ms": 1e3 * statistics.median(all_threads),
        "epoch/X@w threads": ratio(later, all_threads),
        "epoch/(K=1)": ratio(later, alone[0]) if alone else 1.0,
    }


def memory(data):
    """Peak memory of a fit above X, beside the state that it must keep; both as parts of X."""
    X = data.X
    size = sum(a.nbytes for a in (X.data, X.indices, X.indptr)) if hasattr(X, "nnz") else X.nbytes
    y = data.y == data.y[0]
    pegasos.fit(X[:100], np.arange(100) % 2, LAM, max_iter=1)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    pegasos.fit(X, y, LAM, max_iter=2)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    n, d = X.shape
    # weights and coef; counts, permutation; labels; scores of the final pass
    state = 2 * d * X.dtype.itemsize + n * (8 + 8 + 1)
    return {"set": data.name, "peak/X": peak / size, "state/X": state / size}


def table(rows):
    """Rows of figures as text."""
    names = list(rows[0])
    cells = [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    widths = [max(len(c) for c in column) for column in zip(names, *cells, strict=True)]
    lines = [names, ["-" * w for w in widths], *cells]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True))
                     for line in lines)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="small imitations, few repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE as well")
    parser.add_argument("--repetitions", type=int, metavar="R", help="default 15; 3 with --quick")
    args = parser.parse_args()
    repetitions = args.repetitions or (3 if args.quick else 15)

    results = {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, pegasos {pegasos.__version__}",
        "date": time.strftime("%Y-%m-%d"),
        "repetitions": repetitions,
        "epochs": [],
        "memory": [],
    }
    for name in ("imdb", "fashion_mnist"):
        if args.quick:
            shape = (2000, 20000, 100, 10) if name == "imdb" else (5000, 784, None, 10)
            data = sets.imitate(name, *shape)
        else:
            data = sets.load_or_imitate(name)
        for dtype in (np.float32, np.float64):
            for n_problems in (1, 10):
                print(f"{data.name} {np.dtype(dtype).name} K={n_problems}", file=sys.stderr)
                results["epochs"].append(measure(data, dtype, n_problems, repetitions))
        results["memory"].append(memory(data))
    print(f"{results['machine']}; medians of {repetitions}, {results['date']}\n")
    print(table(results["epochs"]))
    print()
    print(table(results["memory"]))
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
