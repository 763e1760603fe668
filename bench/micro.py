"""The smallest pieces: an epoch beside one product ``X @ w``, memory, prediction beside peers.

An epoch is one pass in a new random order, update steps included. ``X @ w`` is timed twice: with
BLAS on one thread, as an epoch is, and with as many threads as BLAS takes. Prediction is that of
LinearSVC with the same coefficients, on the type of rows that suits it best; each in turn.
"""

import os
import statistics
import tracemalloc

import data as sets
import numpy as np
from measure import in_turn, ratio, say, timed
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import pegasos
from pegasos.problems import _multiclass, _validate
from pegasos.problems._settings import Settings
from pegasos.solvers import _pegasos

LAM = 1e-4


class Epochs:
    """A session on which epochs can be run one by one."""

    def __init__(self, X, y, n_problems):
        classes, codes = np.unique(y, return_inverse=True)
        labels = _multiclass.problem_labels(codes, len(classes), "ovr")
        if n_problems == 1 and len(classes) > 2:
            labels = labels[:1].copy()
        labels = np.ascontiguousarray(np.resize(labels, (n_problems, len(y))))
        self.rows, dtype = _validate.rows(X, checked=True)
        settings = Settings(LAM)
        self.session = _pegasos.Pegasos(settings, n_problems, X.shape[1], dtype, seed=0)
        self.session.set_rows(labels, None)

    def run(self, n=1):
        """Run `n` epochs and return the seconds of one."""
        self.session.plan(n_epochs=n)
        return timed(lambda: self.session.run(self.rows)) / n


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
    pegasos.fit(X[:100], np.arange(100) % 2, LAM, solver="pegasos", tol=None, max_iter=1)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    pegasos.fit(X, y, LAM, solver="pegasos", tol=None, max_iter=2)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    n, d = X.shape
    # weights and coef; counts, permutation; labels; scores of the final pass
    state = 2 * d * X.dtype.itemsize + n * (8 + 8 + 1)
    return {"set": data.name, "peak/X": peak / size, "state/X": state / size}


def prediction(data, repetitions):
    """Scores of all rows: ours on float32 and float64 rows, and LinearSVC's on both."""
    ours = pegasos.fit(data.X, data.y, LAM, solver="pegasos", tol=None, max_iter=1)
    peer = LinearSVC()
    peer.classes_, peer.n_features_in_ = ours.classes, data.X.shape[1]
    peer.coef_, peer.intercept_ = ours.coef, ours.intercept
    matrices = [data.X.astype(dtype) for dtype in (np.float32, np.float64)]
    calls = [
        lambda X=X, f=f: timed(lambda: f(X))
        for f in (ours.decision_function, peer.decision_function)
        for X in matrices
    ]
    single, double, *peers = in_turn(calls, repetitions)
    best = min(peers, key=statistics.median)
    return {
        "set": data.name,
        "K": len(ours.coef),
        "float32 ms": 1e3 * statistics.median(single),
        "float64 ms": 1e3 * statistics.median(double),
        "LinearSVC ms": 1e3 * statistics.median(best),
        "float32/LinearSVC": ratio(single, best),
        "float64/LinearSVC": ratio(double, best),
    }


def run(args):
    """All rows of the tables."""
    repetitions = args.repetitions or (3 if args.quick else 15)
    results = {"repetitions": repetitions, "epochs": [], "memory": [], "prediction": []}
    for name in ("imdb", "fashion_mnist"):
        if args.quick:
            shape = (2000, 20000, 100, 10) if name == "imdb" else (5000, 784, None, 10)
            data = sets.imitate(name, *shape)
        else:
            data = sets.load_or_imitate(name)
        for dtype in (np.float32, np.float64):
            for n_problems in (1, 10):
                say(f"{data.name} {np.dtype(dtype).name} K={n_problems}")
                results["epochs"].append(measure(data, dtype, n_problems, repetitions))
        results["memory"].append(memory(data))
    for name in ("imdb", "newsgroups20", "covtype", "fashion_mnist"):
        try:
            data = sets.load(name)
        except sets.MissingDataError as missing:
            say(f"{name}: {missing}")
            continue
        say(f"{name}: prediction")
        results["prediction"].append(
            prediction(data.first(600) if args.quick else data, repetitions)
        )
    return results
