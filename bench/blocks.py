"""Fits of rows on disk: time, passes and peak memory, beside a fit in memory and SGDClassifier.

The rows are those of imdb, or of its shape where it is missing, repeated with noise: each number is
multiplied by a random factor in [0.5, 1.5], one in 16 is left out, and three labels in 100 are
turned. They come from .npz files, so that no text is parsed. λ = 1e-4, the hinge loss, a penalised
intercept, float32. `memory` is an eighth of the rows. `SGDClassifier.partial_fit` reads the
same blocks in their order, pass after pass, until its objective is within 0.1 % of the certified
bound, or for 12 passes; its model is scored off the clock.

Every machine has a process of its own. "CPU s" is its time of processor while it trains, and "wall
s" that of the clock. "peak MB" is memory above that of Python with its libraries; in memory, the
rows are part of it. "above" is the objective beside the certified lower bound, as a part of it.
--huge repeats the rows 160 times: 500 million stored values, which take 4 GB of disk three times
and 20 minutes; it leaves the fit in memory out.
"""

import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import data
import numpy as np
from measure import peak_memory, say
from sklearn.linear_model import SGDClassifier

from pegasos import Blocks, PegasosClassifier

LAM, PASSES, ENOUGH = 1e-4, 12, 1e-3


def write(folder, copies):
    """Write the rows as files, and say which rows they are."""
    rng = np.random.default_rng(0)
    found = data.load_or_imitate("imdb")
    X, y = found.X.tocsr().astype(np.float32), np.where(found.y == found.y.max(), 1, -1)
    for k in range(copies):
        part, drawn = X.copy(), rng.random(X.nnz, np.float32)
        part.data *= np.where(drawn < 1 / 16, np.float32(0), 0.5 + drawn)
        part.eliminate_zeros()
        arrays = {name: getattr(part, name) for name in ("data", "indices", "indptr", "shape")}
        np.savez(f"{folder}/{k:04}.npz", y=np.where(rng.random(len(y)) < 0.03, -y, y), **arrays)
    return found.called("imdb")


def opened(folder, memory):
    return Blocks(f"{folder}/*.npz", cache=f"{folder}/cache", memory=memory, dtype="float32")


def alone(function, *arguments):
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def convert(folder, memory):
    with peak_memory() as peak:
        wall, cpu = time.perf_counter(), time.process_time()
        blocks = opened(folder, memory)
        spent = time.process_time() - cpu, time.perf_counter() - wall
    return spent, peak[0] / 1e6, blocks.shape[0], blocks.nbytes


def fit(folder, memory, in_memory):
    blocks = opened(folder, memory)
    clf = PegasosClassifier(lam=LAM, random_state=0)
    with peak_memory() as peak:
        rows = blocks.in_memory()[:2] if in_memory else (blocks,)
        wall, cpu = time.perf_counter(), time.process_time()
        clf.fit(*rows)
        spent = time.process_time() - cpu, time.perf_counter() - wall
    return spent, peak[0] / 1e6, clf.n_iter_, clf.objective_[0], clf.dual_objective_[0]


def stochastic(folder, memory, bound):
    blocks, sgd = opened(folder, memory), SGDClassifier(alpha=LAM, random_state=0)
    cpu = wall = n_passes = 0
    with peak_memory() as peak:
        while n_passes < PASSES:
            n_passes += 1
            began = time.process_time(), time.perf_counter()
            for X, y, _ in blocks:
                sgd.partial_fit(X, y, classes=[-1, 1])
            cpu, wall = cpu + time.process_time() - began[0], wall + time.perf_counter() - began[1]
            losses = sum(
                np.maximum(0, 1 - y * sgd.decision_function(X)).sum() for X, y, _ in blocks
            )
            w = np.append(sgd.coef_, sgd.intercept_)
            objective = LAM / 2 * w @ w + losses / len(blocks)
            if objective <= bound * (1 + ENOUGH):
                break
    return (cpu, wall), peak[0] / 1e6, n_passes, objective, bound


def run(args):
    copies = 160 if args.huge else 1 if args.quick else 8
    rows, memory = [], max(10, 3 * copies) * 10**6
    with tempfile.TemporaryDirectory() as folder:
        say("writing the rows")
        name = alone(write, folder, copies)
        say("conversion")
        spent, peak, n, size = alone(convert, folder, memory)
        about = {"set": f"{name}, {copies} times", "rows": n, "MB": size / 1e6}

        def add(machine, memory, spent, peak, passes=None, objective=None, bound=None):
            rows.append(about | {
                "machine": machine, "memory": memory / 1e6, "peak MB": peak, "passes": passes,
                "CPU s": spent[0], "wall s": spent[1],
                "above": None if objective is None else objective / bound - 1,
            })  # fmt: skip

        add("conversion", memory, spent, peak)
        say("pegasos on blocks")
        found = alone(fit, folder, memory, False)
        add("pegasos on blocks", memory, *found)
        bound = found[-1]
        if not args.huge:
            say("pegasos in memory")
            add("pegasos in memory", size, *alone(fit, folder, memory, True))
        say("SGDClassifier.partial_fit")
        add("SGDClassifier.partial_fit", memory, *alone(stochastic, folder, memory, bound))
    return {"blocks": rows, "repetitions": 1}
