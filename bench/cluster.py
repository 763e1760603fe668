"""`pegasos.dask` on a LocalCluster: rounds to a certified gap, what a round costs, and workers.

"rounds": rounds to gaps of 1e-2 and 1e-3 with 8 blocks of shuffled rows, in this process; and
kilobytes that a round sends to each worker and that each block returns. "overhead": milliseconds of
each of the last 10 rounds of a fit over almost no rows, on 2 workers. "workers": 10 rounds, or
fewer to a gap of 1e-2, over sparse rows that workers make, by 1 and by 2 workers of one thread, in
turn; "CPU s" is that of all workers and this process, "busy" what others took of the machine, and
"bits" whether models are equal bit for bit. With --huge, 100 million stored values. "peers": a fit
of the log loss on 2 workers beside the solvers of dask_ml's LogisticRegression, each with the
fewest iterations that come within 0.1 % of our certified bound; and, where pyspark and Java are
installed, beside Spark's LogisticRegression on two threads of one machine, its second fit, which
finds the code compiled. (xgboost refuses its linear booster on a cluster. dask_ml's gradient
descent and proximal gradient are left out: they took 5 to 8 times our time, and its others 0.3 to 3
times, on 2026-11-26.)
"""

import contextlib
import functools
import logging
import pickle
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from unittest import mock

import dask
import dask.array as da
import data as sets
import distributed
import numpy as np
import psutil
from measure import say, timed
from peers import Task
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

import pegasos

try:
    from dask_ml.linear_model import LogisticRegression as DaskLogisticRegression
except ImportError:
    DaskLogisticRegression = None
try:
    from pyspark.ml.classification import LogisticRegression as SparkLogisticRegression
    from pyspark.sql import SparkSession
except ImportError:
    SparkSession = None
from pegasos.dask import DaskPegasosClassifier, _DaskBlockRunner
from pegasos.problems import _partitions
from pegasos.solvers import _rounds

LOSSES = ("hinge", "squared_hinge", "log_loss")
N_BLOCKS = 8
# Rounds of a fit by workers after its start.
ROUNDS = 10
PEER_SOLVERS = ("lbfgs", "newton", "admm")
# name: rows and labels, and λ.
SETS = {
    "50,000 x 22": (lambda: sets.blobs(22, 2, 50_000), 1e-4),
    "adult": (lambda: sets.load_or_imitate("adult"), 3e-5),
    "50,000 x 300, sparse": (lambda: sets.binary(50_000), 1e-4),
    "imdb": (lambda: sets.load_or_imitate("imdb"), 1e-4),
}


class Counted(_rounds.BlockRunner):
    """Notes the size of what would go over the network in the last round."""

    def sum_up(self, function, message, *on_block):
        sums = super().sum_up(function, message, *on_block)
        self.kilobytes = [len(pickle.dumps(what)) / 1000 for what in (message, sums)]
        return sums


def in_blocks(X, y, loss, lam):
    """The rounds of a fit, in this process."""
    local = pegasos.PegasosClassifier(lam=lam, loss=loss, random_state=0)
    order = np.random.default_rng(0).permutation(len(y))
    parts = [
        _partitions.checked(k, X[rows], y[rows], None, local)
        for k, rows in enumerate(np.array_split(order, N_BLOCKS))
    ]
    about = _partitions.Partitions([part.about for part in parts])
    data, targets, masses, n_inside = local._read_blocks(about, continuing=False)
    settings, blocks = local._settings_for(lam, data), []
    for part in parts:
        labels, weights, values = targets(part.y[:, None], part.weights, None)
        arrays = {"X": part.X, "labels": labels, "weights": weights, "values": values}
        blocks.append(_rounds.Block(settings=settings, **arrays))
    return _rounds.Rounds(settings, Counted(blocks), about, masses, n_inside, 0)


def rounds(names, quick):
    for name in names:
        make, lam = SETS[name]
        made = make()
        some = slice(None, None, len(made.y) // 4000 if quick else 1)  # sets may be sorted by label
        for loss in LOSSES:
            say("rounds", name, loss)
            run = in_blocks(made.X[some], made.y[some], loss, lam)
            row = {"set": made.called(name), "loss": loss}
            row["method"] = "L-BFGS" if run.n_pairs else "Newton"
            for tol in (1e-2, 1e-3):
                gap = run.train(tol=tol, max_iter=300).relative_gap.max()
                row[f"rounds to {tol:g}"] = run.n_passes if gap <= tol else None
            row["kB sent"], row["kB returned"] = run.blocks.kilobytes
            yield row


def made_rows(number, n, nonzeros, d):
    """The rows of a partition, like those of text: a column of each of ranges that widen."""
    rng = np.random.default_rng(number)
    starts = (np.geomspace(1, d - nonzeros + 1, nonzeros + 1) - 1).astype(int)
    starts += np.arange(nonzeros + 1)
    columns = rng.integers(starts[:-1], starts[1:], (n, nonzeros), np.int32)
    values = rng.random(n * nonzeros, dtype=np.float32)
    ends = np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)
    X = sparse.csr_array((values, columns.ravel(), ends), shape=(n, d))
    scores = X @ np.random.default_rng(0).normal(size=d).astype(np.float32)
    y = scores + rng.normal(scale=scores.std(), size=n) > np.median(scores)
    return X, y.astype(np.int64)


@contextlib.contextmanager
def cluster_of(n_workers):
    """The client of a cluster, which is gone at the end."""
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield client


def cpu_seconds(client):
    """Of all workers and this process."""
    workers = client.run(time.process_time).values()
    return sum(workers) + time.process_time()


def overhead(client):
    """Seconds of the rounds of one fit over almost no rows, each from the client and back."""
    for n_blocks in (8, 32):
        say("overhead", n_blocks)
        chunks = (25,) * n_blocks
        X = da.random.default_rng(0).normal(size=(25 * n_blocks, 20), chunks=(chunks, 20))
        y = (X[:, 0] + X[:, 1] ** 2 > 1).persist(client=client)
        X, times = X.persist(client=client), []
        sum_up = _DaskBlockRunner.sum_up

        def timed_sum_up(*given, own=sum_up, times=times):
            began = time.perf_counter()
            sums = own(*given)
            times.append(time.perf_counter() - began)
            return sums

        clf = DaskPegasosClassifier(
            lam=1e-3, tol=1e-9, max_iter=2 * ROUNDS, random_state=0, client=client
        )
        with warnings.catch_warnings(), mock.patch.object(_DaskBlockRunner, "sum_up", timed_sum_up):
            warnings.simplefilter("ignore")
            clf.fit(X, y)
        times = times[-ROUNDS:]  # those before are the start, for which workers import
        yield {
            "set": "overhead", "blocks": n_blocks, "rounds": len(times),
            "ms a round": 1e3 * statistics.median(times), "least ms": 1e3 * min(times),
        }  # fmt: skip


def workers(stored, repetitions):
    """The first rounds of a fit, by the workers of one cluster after the other."""
    nonzeros, d = 100, 100_000
    n = stored // nonzeros // N_BLOCKS
    made = [dask.delayed(made_rows, pure=True)(k + 1, n, nonzeros, d) for k in range(N_BLOCKS)]
    X = da.concatenate([da.from_delayed(one[0], (n, d), np.float32) for one in made])
    y = da.concatenate([da.from_delayed(one[1], (n,), np.int64) for one in made])
    found, fitted = defaultdict(lambda: defaultdict(list)), {}
    for _ in range(repetitions):
        for count in (1, 2):
            with cluster_of(count) as client:
                kept = client.persist([X, y])
                with client.as_current():
                    distributed.wait(kept)
                for loss in ("log_loss", "hinge"):
                    say("workers", loss, count)
                    clf = DaskPegasosClassifier(
                        lam=1e-5, loss=loss, tol=1e-2, max_iter=ROUNDS, random_state=0,
                        client=client,
                    )  # fmt: skip
                    before, cpu, busy = time.perf_counter(), cpu_seconds(client), _busy()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        fitted[loss, count] = clf.fit(*kept)
                    cpu, wall = cpu_seconds(client) - cpu, time.perf_counter() - before
                    row = found[loss, count]
                    row["wall"].append(wall)
                    row["cpu"].append(cpu)
                    row["busy"].append((_busy() - busy - cpu) / wall / psutil.cpu_count())
    for (loss, count), row in found.items():
        other = [x / y for x, y in zip(found[loss, 1]["wall"], row["wall"], strict=True)]
        is_equal = np.array_equal(fitted[loss, count].coef_, fitted[loss, 1].coef_)
        yield {
            "set": loss, "stored": stored, "workers": count, "rounds": fitted[loss, count].n_iter_,
            "s": statistics.median(row["wall"]), "CPU s": statistics.median(row["cpu"]),
            "speed-up": statistics.median(other), "busy": statistics.median(row["busy"]),
            "bits": "equal" if is_equal else "differ",
        }  # fmt: skip


def peers(client, quick):
    """A fit beside dask_ml, whose `C` multiplies the penalty, not the losses, and Spark."""
    rows, lam = sets.blobs(22, 2, 4000 if quick else 50_000), 1e-4
    n, d = rows.X.shape
    task = Task(rows.X, rows.y, lam, loss="log_loss")
    with client.as_current(), warnings.catch_warnings(), contextlib.ExitStack() as opened:
        warnings.simplefilter("ignore")
        X = da.from_array(rows.X, chunks=(n // N_BLOCKS, d)).persist()
        y = da.from_array((task.targets[:, 0] > 0).astype(int), chunks=n // N_BLOCKS).persist()
        clf = DaskPegasosClassifier(lam=lam, loss="log_loss", random_state=0)
        clone(clf).set_params(max_iter=1).fit(X, y)  # workers import
        seconds = timed(lambda: clf.fit(X, y))
        bound = clf.dual_objective_[0]
        yield {
            "set": "peers", "machine": "pegasos", "iterations": clf.n_iter_, "s": seconds,
            "above": clf.objective_[0] / bound - 1, "x pegasos": 1.0,
        }  # fmt: skip
        fits = {}
        for solver in PEER_SOLVERS if DaskLogisticRegression else ():
            fits[f"dask_ml, {solver}"] = functools.partial(dask_ml_fit, solver, X, y, lam * n)
        if SparkSession:
            fits["Spark, lbfgs"] = opened.enter_context(spark_fit(task))
        for machine, fit in fits.items():
            for budget in (1, 2, 3, 5, 10, 20, 50, 100, 200):
                say("peers", machine, budget)
                spent, coef, intercept = fit(budget)
                found = task.objective(coef[None, :], np.ravel(intercept))
                if found <= bound * (1 + 1e-3):
                    break
            reached = found <= bound * (1 + 1e-3)
            yield {
                "set": "peers", "machine": machine, "iterations": budget, "s": spent,
                "above": found / bound - 1, "x pegasos": spent / seconds if reached else None,
            }  # fmt: skip


def dask_ml_fit(solver, X, y, C, budget):
    """Seconds, coef and intercept."""
    peer = DaskLogisticRegression(C=C, solver=solver, max_iter=budget, tol=1e-12)
    return timed(functools.partial(peer.fit, X, y)), peer.coef_, peer.intercept_


@contextlib.contextmanager
def spark_fit(task):
    """A function of the budget, as `dask_ml_fit`, with a free intercept."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()
    with tempfile.NamedTemporaryFile(suffix=".svm") as file:
        dump_svmlight_file(task.X, task.targets[:, 0] > 0, file.name, zero_based=False)
        reader = spark.read.format("libsvm").option("numFeatures", task.X.shape[1])
        rows = reader.load(file.name).repartition(N_BLOCKS).cache()
        rows.count()

        def fit(budget):
            peer = SparkLogisticRegression(
                regParam=task.lam, maxIter=budget, tol=1e-12, standardization=False
            )
            model = peer.fit(rows)
            return timed(lambda: peer.fit(rows)), model.coefficients.toArray(), model.intercept

        yield fit
    spark.stop()


def _busy():
    """CPU seconds that all processes of the machine have taken."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0)


def run(args):
    repetitions = args.repetitions or (1 if args.quick else 2)
    names = [name for name in SETS if not args.sets or name in args.sets]
    stored = 100_000_000 if args.huge else 400_000 if args.quick else 8_000_000
    found = {"repetitions": repetitions, "rounds": list(rounds(names, args.quick))}
    with cluster_of(2) as client:
        found["overhead"] = list(overhead(client))
        found["peers"] = list(peers(client, args.quick))
    return found | {"workers": list(workers(stored, repetitions))}
