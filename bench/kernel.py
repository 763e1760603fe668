"""Machines with a Gaussian kernel beside scikit-learn's SVC and scikit-learn-intelex's.

All have the same kernel and C, and a free intercept as SVC's; of several classes, pairs. Ours stops
at a certified gap of 1e-3. Peers are given tolerances from loose to tight; a row is of the loosest
that reached a gap of 1e-3, computed off the clock from the model and the best dual bound that is
known here, or of the tightest if none did. Each contender trains and predicts in turn, after a
first small fit that is not counted. "memory" is what the process took above what it had when
training began. "grid" is another table: λ x γ x rows x classes beside SVC (kernel_grid.py), of
15,000 rows with --slow only.
"""

import statistics
import warnings

import data as sets
import kernel_grid
import numpy as np
from measure import peak_memory, say, timed, touch_memory
from sklearn.svm import SVC
from small import GAP, KernelSet

import pegasos

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sklearnex.svm import SVC as IntelSVC  # noqa: N811
except ImportError:
    IntelSVC = None

# Touched before each fit: what the largest takes.
_MEMORY = 4 * 2**30
_TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)

# name: set, the class against the rest (None: all classes), gamma, lam (None: 1/(10 n)), whether
# scikit-learn's SVC takes minutes
CASES = {
    "usps": ("usps", None, 0.04, None, False),
    "reuters_moneyfx": ("reuters_moneyfx", None, 1.0, 1.29e-4, False),
    "adult": ("adult", None, 0.05, 3.07e-5, False),
    "mnist 8": ("mnist", 8, 0.02, 1.67e-5, True),
    "mnist": ("mnist", None, 0.02, None, True),
}


def contenders(task, slow):
    """By name: estimators from the first budget to the last, and the type of their rows."""
    lam, pairs = task.lam, {}
    if task.n_classes > 2:
        lam, pairs = lam * task.n_classes / 2, {"multi_class": "ovo"}
    for dtype in (np.float32, np.float64):
        ours = pegasos.KernelPegasosClassifier(
            lam=lam, gamma=task.gamma, penalize_intercept=False, cache_size=6000, tol=GAP,
            random_state=0, n_jobs=2, **pairs,
        )  # fmt: skip
        yield f"pegasos {np.dtype(dtype).name}", [ours], dtype
    options = {"C": task.C, "gamma": task.gamma, "cache_size": 2000}
    if IntelSVC is not None:
        yield "intelex", [IntelSVC(tol=tol, **options) for tol in _TOLERANCES], np.float32
    if not slow:
        yield "SVC", [SVC(tol=tol, **options) for tol in _TOLERANCES], np.float64


def measure(name, data, gamma, lam, slow, repetitions):
    """Rows of the table for one set."""
    few = np.concatenate([np.flatnonzero(data.y == label)[:50] for label in np.unique(data.y)])
    task = KernelSet(data.X, data.y, lam, gamma)
    rows = []
    for who, machines, dtype in contenders(task, slow):
        X, X_test = data.X.astype(dtype), data.X_test.astype(dtype)
        machines[0].fit(X[few], data.y[few]).predict(X_test[:50])
        for machine in machines:
            say(f"{name}: {who}, tol={machine.tol:g}")
            touch_memory(_MEMORY)
            with peak_memory() as memory:
                train = timed(lambda m=machine, X=X: m.fit(X, data.y))
            gap = task.reached(machine)[1]
            if gap <= GAP:
                break
        train = [train]
        for _ in range(repetitions - 1):
            touch_memory(_MEMORY)
            train.append(timed(lambda m=machine, X=X: m.fit(X, data.y)))
        predicted = []
        predict = timed(lambda m=machine, X=X_test, p=predicted: p.append(m.predict(X)))
        rows.append(
            {
                "set": name,
                "machine": who,
                "tol": f"{machine.tol:g}",
                "gap": f"{gap:.1g}",
                "reached": "yes" if gap <= GAP else "no",
                "train s": statistics.median(train),
                "predict s": predict,
                "test error %": 100 * np.mean(predicted[0] != data.y_test),
                "support": len(machine.support_),
                "memory MB": memory[0] / 2**20,
            }
        )
    for row in rows:
        row["x pegasos"] = row["train s"] / rows[0]["train s"]
    return rows


def run(args):
    """All rows of the table."""
    repetitions = args.repetitions or 1
    results = {"repetitions": repetitions, "kernel": []}
    for name, (source, label, gamma, lam, slow) in CASES.items():
        if args.sets and name not in args.sets:
            continue
        try:
            data = sets.load(source)
        except sets.MissingDataError as missing:
            say(f"{name}: {missing}")
            data = sets.imitate_images(source, 700)
        if args.quick:
            data = data.first(1000)
        if label is not None:
            data.y, data.y_test = data.y == label, data.y_test == label
        lam = lam or 1 / (10 * data.X.shape[0])
        slow = slow and not args.slow
        results["kernel"] += measure(data.called(name), data, gamma, lam, slow, repetitions)
    if not args.sets or "grid" in args.sets:
        results["grid"], results["summary"] = kernel_grid.run(args)
    return results
