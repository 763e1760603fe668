"""Time to a certified relative duality gap, default settings but for tol.

Every fit is a whole one, from the labels to its certificate, on as many threads as there are CPUs.
Where scikit-learn's LinearSVC or SVC solves the same problem, its time at default settings and what
it reached stand beside: the gap to the best dual objective that is known here, since it has none.
"""

import os
import statistics
import warnings

import data as sets
import numpy as np
from measure import say, timed, touch_memory
from sklearn.svm import SVC, LinearSVC

import pegasos

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)

# name: set, lam, gamma (None: linear)
CASES = {
    "adult": ("adult", 3.07e-5, None),
    "imdb": ("imdb", 1e-4, None),
    "covtype": ("covtype", 1e-6, None),
    "newsgroups20": ("newsgroups20", 1e-4, None),
    "fashion_mnist": ("fashion_mnist", 1e-4, None),
    "usps rbf": ("usps", 1.36e-4, 0.04),
}


def machine(lam, gamma, tol):
    """Ours."""
    options = {"tol": tol, "random_state": 0, "n_jobs": os.cpu_count()}
    if gamma is None:
        return pegasos.PegasosClassifier(lam=lam, **options)
    return pegasos.KernelPegasosClassifier(lam=lam, gamma=gamma, **options)


def peer(lam, gamma, n, n_classes):
    """scikit-learn's, where it minimises the same objective."""
    C = pegasos.C_from_lam(lam, n)
    if gamma is None:
        return LinearSVC(C=C, loss="hinge", random_state=0)
    return SVC(C=C, gamma=gamma) if n_classes == 2 else None


def measure(name, data, lam, gamma, repetitions, slow):
    """The row of one set."""
    row = {"set": name, "lam": lam}
    for tol in TOLERANCES:
        say(f"{name}: {tol:g}")
        times = []
        for _ in range(repetitions):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                fitted = machine(lam, gamma, tol)
                times.append(timed(lambda m=fitted: m.fit(data.X, data.y)))
        reached = (fitted.duality_gap_ / fitted.objective_).max()
        warned = "" if reached <= tol and not told else f" (warns, {reached:.1g})"
        row[f"{tol:g}"] = f"{statistics.median(times):.2f} s{warned}"
    other = peer(lam, gamma, data.X.shape[0], len(fitted.classes_)) if slow else None
    if other is not None:
        say(f"{name}: scikit-learn")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            seconds = timed(lambda: other.fit(data.X, data.y))
        row["peer"] = f"{type(other).__name__} {seconds:.1f} s"
        row["peer's gap"] = f"{_gap(other, data, lam, fitted):.1g}"
        row["peer warns"] = "yes" if told else "no"
    return row


def _gap(other, data, lam, fitted):
    """How far a linear machine is above the best bound, at most; the worst of its problems."""
    scores = np.reshape(other.decision_function(data.X), (data.X.shape[0], -1))
    worst = 0.0
    for k in range(scores.shape[1]):
        positive = fitted.classes_[-1] if scores.shape[1] == 1 else fitted.classes_[k]
        y = np.where(data.y == positive, 1, -1)
        w, b = other.coef_[k].astype(np.float64), other.intercept_[k]
        primal = lam / 2 * (w @ w + b * b) + np.maximum(0, 1 - y * scores[:, k]).mean()
        worst = max(worst, (primal - fitted.dual_objective_[k]) / primal)
    return worst


def run(args):
    """All rows of the table."""
    repetitions = args.repetitions or 3
    results = {"repetitions": repetitions, "gap": []}
    touch_memory(2**30)
    for name, (source, lam, gamma) in CASES.items():
        if args.sets and name not in args.sets:
            continue
        try:
            data = sets.load(source)
        except sets.MissingDataError as missing:
            say(f"{name}: {missing}")
            data = sets.imitate_images(source, 700)
        if args.quick:
            data = data.first(1000)
        results["gap"].append(measure(data.called(name), data, lam, gamma, repetitions, args.slow))
    return results
