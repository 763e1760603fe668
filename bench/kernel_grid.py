"""Kernel machines beside SVC over λ, γ, rows and classes: where is it slow, and by how much?

Both on one thread, in turn, with their default tolerance (ours is certified to 1e-3), on the same
Gaussian kernel with C = 1/(λ n); rows are synthetic, float64. SVC's intercept is free, ours is a
constant feature. Of several classes, both make pairs, with the λ that C is for pairs of mean size;
"rest" is ours as one-vs-rest, beside the same SVC. SVC has the hinge only; "squared" is ours with
its square, beside that. A number is how many times as long as ours SVC took.
"""

import statistics
import time
import warnings

import numpy as np
from data import binary, blobs
from measure import say, touch_memory
from sklearn.svm import SVC

import pegasos

# Of more rows, memory is touched before each fit: as much as our columns take at most.
_MANY, _MEMORY = 4096, 3 * 2**29
LAMS, GAMMAS = 10.0 ** -np.arange(1, 7), (0.1, 1, 10)  # γ beside "scale"


def one_letter(n):
    """One class of 26 beside the rest."""
    data = blobs(16, 26, n=n, n_clusters_per_class=1, class_sep=1.5)
    data.y = (data.y == 3).astype(int)
    return data


SETS = {
    "57 features": lambda n: blobs(57, 2, n=n, seed=3, flip_y=0.05),
    "10 features, noisy": lambda n: blobs(
        10, 2, n=n, seed=5, n_clusters_per_class=4, flip_y=0.1, class_sep=0.8
    ),
    "300 features, sparse": lambda n: binary(n),
    "one letter of 26": one_letter,
    "10 classes": lambda n: blobs(16, 10, n=n, seed=1, class_sep=2),
    "26 classes": lambda n: blobs(16, 26, n=n, n_clusters_per_class=1, class_sep=1.5),
}


def best_of(estimator, data, seconds=0.3, most=5):
    """The shortest fit of a few that take so many seconds together."""
    times = []
    while len(times) < most and sum(times) < seconds:
        if len(data.y) > _MANY:
            touch_memory(_MEMORY)
        began = time.perf_counter()
        estimator.fit(data.X, data.y)
        times.append(time.perf_counter() - began)
    return min(times)


def contenders(lam, gamma, n_classes):
    """Ours by name."""
    options = {"gamma": gamma, "n_jobs": 1, "random_state": 0}
    pairs = {"multi_class": "ovo"} if n_classes > 2 else {}
    mean = lam * n_classes / 2  # of pairs of mean size
    machine = pegasos.KernelPegasosClassifier
    yield "hinge", machine(lam=mean, **pairs, **options)
    yield "squared", machine(lam=mean, loss="squared_hinge", **pairs, **options)
    if n_classes > 2:
        yield "rest", machine(lam=lam, **options)


def run(args):
    """Rows of the table, and a summary for each number of rows."""
    rows, summary = [], []
    sizes = (200,) if args.quick else (500, 3000, 15000) if args.slow else (500, 3000)
    lams = LAMS[1::3] if args.quick else LAMS
    for n in sizes:
        ratios = {}
        for name, make in SETS.items():
            data = make(n)
            n_classes = len(np.unique(data.y))
            dense = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
            for factor in GAMMAS:
                gamma = factor / (dense.shape[1] * dense.var())
                found = {}
                for lam in lams:
                    say(f"{n} rows, {name}, gamma {factor:g} x scale, lam {lam:g}")
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        peer = best_of(SVC(C=pegasos.C_from_lam(lam, n), gamma=gamma), data)
                        for who, ours in contenders(lam, gamma, n_classes):
                            ratio = peer / best_of(ours, data)
                            found.setdefault(who, {})[f"{lam:.0e}"] = ratio
                            kind = "two classes" if n_classes == 2 else "pairs"
                            ratios.setdefault(f"{kind}, {who}", []).append(ratio)
                rows += [
                    {"rows": n, "set": name, "gamma": factor, "ours": who, **of_lam}
                    for who, of_lam in found.items()
                ]
        summary += [
            {
                "rows": n,
                "ours": who,
                "median": statistics.median(of),
                "least": min(of),
                "below 0.9": f"{sum(r < 0.9 for r in of)} of {len(of)}",
            }
            for who, of in ratios.items()
        ]
    return rows, summary
