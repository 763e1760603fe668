"""Kernel machines beside scikit-learn's SVC and scikit-learn-intelex's, same kernel, λ = 1/(C n).

Pegasos without an intercept, as in the paper's kernel experiments; SVC always has one. "mnist 8" is
four epochs of dual coordinate ascent. "gap 1e-3" is ours with
default settings, to a certified relative gap; "pairs" the same one-vs-one, as SVC does where there
are more than two classes, with the λ that its C is for pairs of mean size. Each contender trains
and predicts in turn, after a first small fit that is not counted. "memory" is what the process took
above what it had when training began. "grid" is another table: λ x γ x rows x classes beside SVC
(kernel_grid.py), of 15,000 rows with --slow only.
"""

import statistics
import warnings

import data as sets
import kernel_grid
import numpy as np
from measure import peak_memory, say, timed, touch_memory
from sklearn.svm import SVC

import pegasos

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sklearnex.svm import SVC as IntelSVC  # noqa: N811
except ImportError:
    IntelSVC = None

# Touched before each fit: what the largest takes.
_MEMORY = 4 * 2**30

# name: set, the class against the rest (None: all classes), gamma, lam (None: 1/(10 n)), epochs,
# what else is given to pegasos, whether scikit-learn's SVC takes minutes
CASES = {
    "usps": ("usps", None, 0.04, None, 20, {"solver": "pegasos"}, False),
    "reuters_moneyfx": ("reuters_moneyfx", None, 1.0, 1.29e-4, 20, {"solver": "pegasos"}, False),
    "adult": ("adult", None, 0.05, 3.07e-5, 5, {"solver": "pegasos"}, False),
    "mnist 8": ("mnist", 8, 0.02, 1.67e-5, 4, {"solver": "sdca"}, True),
    "mnist": ("mnist", None, 0.02, None, 3, {"solver": "pegasos", "average": "suffix"}, True),
}


def contenders(gamma, lam, epochs, more, n, n_classes, slow):
    """Estimators by name."""
    C = pegasos.C_from_lam(lam, n)
    yield (
        "pegasos",
        pegasos.KernelPegasosClassifier(
            lam=lam,
            gamma=gamma,
            tol=None,
            max_iter=epochs,
            fit_intercept=False,
            cache_size=6000,
            random_state=0,
            **more,
        ),
    )
    yield (
        "pegasos, gap 1e-3",
        pegasos.KernelPegasosClassifier(
            lam=lam, gamma=gamma, fit_intercept=False, cache_size=6000, random_state=0, n_jobs=2
        ),
    )
    if n_classes > 2:
        yield (
            "pegasos, pairs, gap 1e-3",
            pegasos.KernelPegasosClassifier(
                lam=lam * n_classes / 2, gamma=gamma, fit_intercept=False, cache_size=6000,
                random_state=0, multi_class="ovo", n_jobs=2,
            ),
        )  # fmt: skip
    if IntelSVC is not None:
        yield "scikit-learn-intelex", IntelSVC(C=C, gamma=gamma, cache_size=2000)
    if not slow:
        yield "scikit-learn", SVC(C=C, gamma=gamma, cache_size=1000)


def measure(name, data, gamma, lam, epochs, more, slow, repetitions):
    """Rows of the table for one set."""
    few = np.concatenate([np.flatnonzero(data.y == label)[:50] for label in np.unique(data.y)])
    rows = {}
    for _ in range(repetitions):
        n, n_classes = data.X.shape[0], len(np.unique(data.y))
        for who, machine in contenders(gamma, lam, epochs, more, n, n_classes, slow):
            say(f"{name}: {who}")
            machine.fit(data.X[few], data.y[few]).predict(data.X_test[:50])
            touch_memory(_MEMORY)
            with peak_memory() as memory:
                train = timed(lambda m=machine: m.fit(data.X, data.y))
            predicted = []
            predict = timed(lambda m=machine, p=predicted: p.append(m.predict(data.X_test)))
            row = rows.setdefault(who, {"train": [], "predict": [], "memory": []})
            row["train"].append(train)
            row["predict"].append(predict)
            row["memory"].append(memory[0])
            row["error %"] = 100 * np.mean(predicted[0] != data.y_test)
            row["support"] = len(machine.support_)
            row["gap"] = ""
            if hasattr(machine, "duality_gap_"):
                row["gap"] = f"{(machine.duality_gap_ / machine.objective_).max():.1g}"
    ours = rows["pegasos"]
    return [
        {
            "set": name,
            "machine": who,
            "train s": statistics.median(row["train"]),
            "x pegasos": statistics.median(np.divide(row["train"], ours["train"])),
            "predict s": statistics.median(row["predict"]),
            "us/(row SV)": 1e6 * min(row["predict"]) / data.X_test.shape[0] / row["support"],
            "test error %": row["error %"],
            "support": row["support"],
            "gap": row["gap"],
            "memory MB": max(row["memory"]) / 2**20,
        }
        for who, row in rows.items()
    ]


def run(args):
    """All rows of the table."""
    repetitions = args.repetitions or 1
    results = {"repetitions": repetitions, "kernel": []}
    for name, (source, label, gamma, lam, epochs, more, slow) in CASES.items():
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
        results["kernel"] += measure(name, data, gamma, lam, epochs, more, slow, repetitions)
    if not args.sets or "grid" in args.sets:
        results["grid"], results["summary"] = kernel_grid.run(args)
    return results
