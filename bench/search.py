"""Searches over λ by cross-validation: ours in one set, beside GridSearchCV over its peers.

All use the CPUs there are (n_jobs) and try the same ten λ in five folds; peers have their default
settings but for λ, the hinge and the seed. "x ours" is time beside ours with default settings in
the same round; "score" the best mean score that each search reports, "test" the accuracy of the
model it ends with, on the test rows of the set or on the second half of it. LinearSVC runs where a
search takes it a minute or less, or with --slow. Kernel searches try six γ around "scale" and six
λ, beside SVC, whose intercept is free; classes are pairs, as SVC's. "usps grid" is table B's first
grid: 28 cells × 5 folds × 10 classes, PCA and kernel matrix included.
"""

import functools
import os
import statistics
import warnings

import data as sets
import numpy as np
from data import binary, blobs, halves, real, text
from measure import say, timed, touch_memory
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import SVC, LinearSVC

import pegasos

LAMS = np.geomspace(1e-2, 1e-6, 10)
FOLDS = 5


# name: how to get it, and which peers run without --slow.
CASES = {
    "imdb": (lambda: real("imdb"), "both"),
    "newsgroups20": (lambda: real("newsgroups20"), "sgd"),
    "text, 105 classes": (lambda: text(55000, 105), "sgd"),
    "adult": (lambda: real("adult"), "both"),
    "covtype, every 20th": (lambda: real("covtype", 20), "both"),
    "sparse, 300 features": (binary, "both"),
    "16 features, 26 classes": (
        lambda: blobs(16, 26, n_clusters_per_class=1, class_sep=1.5), "sgd",
    ),
    "16 features, 10 classes": (lambda: blobs(16, 10, seed=1, class_sep=2), "both"),
    "22 features, 2 classes": (lambda: blobs(22, 2, seed=2, flip_y=0.05), "both"),
    "fashion_mnist": (lambda: real("fashion_mnist"), ""),
}  # fmt: skip


# The same for kernels.
KERNEL_CASES = {
    "kernel, 57 features": lambda: blobs(57, 2, n=2000, seed=3, flip_y=0.05),
    "kernel, 10 features": lambda: blobs(
        10, 2, n=3000, seed=5, n_clusters_per_class=4, flip_y=0.1, class_sep=0.8
    ),
    "kernel, 10 classes": lambda: blobs(16, 10, n=3000, seed=1, class_sep=2),
    "kernel, 26 classes": lambda: blobs(
        16, 26, n=3000, n_clusters_per_class=1, class_sep=1.5
    ),
}  # fmt: skip
KERNEL_LAMS, GAMMAS = np.geomspace(1e-1, 1e-5, 6), np.geomspace(0.05, 16, 6)


def kernel_contenders(X):
    jobs, n = os.cpu_count(), X.shape[0] * (FOLDS - 1) // FOLDS
    gammas = list(GAMMAS / (X.shape[1] * X.var()))
    ours = pegasos.KernelPegasosClassifierCV(
        lams=KERNEL_LAMS, gammas=gammas, multi_class="ovo", n_jobs=jobs, random_state=0
    )
    grid = {"gamma": gammas, "C": 1 / (KERNEL_LAMS * n)}
    yield "KernelPegasosClassifierCV", ours
    yield "GridSearchCV(SVC)", GridSearchCV(SVC(), grid, cv=FOLDS, n_jobs=jobs)


def contenders(n, peers, slow):
    """Searches by name. The peers' λ is that of a training part."""
    jobs, n = os.cpu_count(), n * (FOLDS - 1) // FOLDS
    for effort in ("auto", 1, 0.05):
        name = "PegasosClassifierCV" if effort == "auto" else f"same, cv_effort={effort}"
        if effort == 0.05 and not (peers or slow):
            continue
        yield (
            name,
            pegasos.PegasosClassifierCV(lams=LAMS, cv_effort=effort, n_jobs=jobs, random_state=0),
        )
    if peers or slow:
        sgd = SGDClassifier(random_state=0)
        yield (
            "GridSearchCV(SGDClassifier)",
            GridSearchCV(sgd, {"alpha": LAMS}, cv=FOLDS, n_jobs=jobs),
        )
    if peers == "both" or slow:
        svc = LinearSVC(loss="hinge", random_state=0)
        yield (
            "GridSearchCV(LinearSVC)",
            GridSearchCV(svc, {"C": 1 / (LAMS * n)}, cv=FOLDS, n_jobs=jobs),
        )


def measure(name, data, searches, repetitions):
    """The rows of one set; `searches` makes pairs of a name and a search, ours first."""
    rows, ours = {}, None
    for _ in range(repetitions):
        for who, search in searches():
            ours = ours or who
            say(f"{name}: {who}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds = timed(lambda s=search: s.fit(data.X, data.y))
            row = rows.setdefault(who, {"seconds": []})
            row["seconds"].append(seconds)
            row["score"] = search.best_score_
            row["test"] = np.mean(search.predict(data.X_test) == data.y_test)
    ours = rows[ours]["seconds"]
    return [
        {
            "set": name,
            "search": who,
            "seconds": statistics.median(row["seconds"]),
            "x ours": statistics.median(np.divide(row["seconds"], ours)),
            "score": f"{row['score']:.4f}",
            "test": f"{row['test']:.4f}",
        }
        for who, row in rows.items()
    ]


def usps_grid(data):
    """Table B's first grid: T × λ, one matrix for γ = 1/(2 g), g = 0.25."""
    X = np.concatenate([data.X, data.X_test])[:700]
    y = np.concatenate([data.y, data.y_test])[:700]
    X = PCA(30, random_state=0).fit_transform(X)
    search = pegasos.KernelPegasosClassifierCV(
        lams=10.0 ** np.arange(-3, 4), gammas=[2.0], n_steps=[100, 300, 500, 700],
        sampling="uniform", fit_intercept=False,
        cv=KFold(5, shuffle=True, random_state=0), refit=False, random_state=0,
    )  # fmt: skip
    return search.fit(X, y)


def run(args):
    """All rows of the table."""
    repetitions = args.repetitions or 1
    results = {"repetitions": repetitions, "select": []}
    touch_memory(2**30)
    # Worker processes of joblib start once, and not in what is measured.
    warm = halves("warm", np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2)
    measure("warming up", warm, lambda: contenders(80, "both", False), 1)
    for name, (make, peers) in CASES.items():
        if args.sets and name not in args.sets:
            continue
        data = make()
        if args.quick:
            data = data.first(600)
        searches = functools.partial(contenders, data.X.shape[0], peers, args.slow)
        results["select"] += measure(data.called(name), data, searches, repetitions)
    for name, make in KERNEL_CASES.items():
        if args.sets and name not in args.sets:
            continue
        data = make()
        if args.quick:
            data = data.first(200)
        searches = functools.partial(kernel_contenders, data.X)
        results["select"] += measure(name, data, searches, repetitions)
    if not args.sets or "usps" in args.sets:
        try:
            data = sets.load("usps")
        except sets.MissingDataError as missing:
            say(f"usps: {missing}")
            data = sets.imitate_images("usps", 700, d=256)
        usps_grid(data)
        found = []
        times = [timed(lambda: found.append(usps_grid(data))) for _ in range(max(3, repetitions))]
        results["select"].append(
            {
                "set": data.called("usps grid"),
                "search": "KernelPegasosClassifierCV",
                "seconds": statistics.median(times),
                "x ours": 1.0,
                "score": f"{found[-1].best_score_:.4f}",
                "test": "",
            }
        )
    return results
