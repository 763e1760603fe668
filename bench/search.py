"""Searches over λ by cross-validation: ours in one set, beside GridSearchCV over ours and its peers.

All use the CPUs there are (n_jobs); with --slow, peers that take many minutes too. "x ours" is time
beside ours in the same turn; "score" the best mean score that each search reports, "test" the accuracy of
the model it ends with. "usps grid" is table B's
first grid: 28 cells × 5 folds × 10 classes, PCA and kernel matrix included.
"""

import os
import statistics
import warnings

import data as sets
import numpy as np
from measure import say, timed, touch_memory
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import LinearSVC

import pegasos

LAMS = np.geomspace(1e-2, 1e-6, 10)
FOLDS = 5

# name: options of our search
CASES = {name: {"cv_effort": 1} for name in ("imdb", "newsgroups20", "fashion_mnist")}


def contenders(options, n, dense, slow):
    """Searches by name. The peers' λ is that of a training part; theirs are the defaults but for it."""
    jobs, n = os.cpu_count(), n * (FOLDS - 1) // FOLDS
    certified = {k: v for k, v in options.items() if k != "cv_epochs"}
    yield (
        "PegasosClassifierCV",
        pegasos.PegasosClassifierCV(LAMS, n_jobs=jobs, random_state=0, **options),
    )
    yield (
        "same, cv_effort=0.05",
        pegasos.PegasosClassifierCV(LAMS, n_jobs=jobs, random_state=0, **certified),
    )
    if slow or not dense:
        sgd = SGDClassifier(random_state=0)
        yield (
            "GridSearchCV(SGDClassifier)",
            GridSearchCV(sgd, {"alpha": LAMS}, cv=FOLDS, n_jobs=jobs),
        )
    ours = pegasos.PegasosClassifier(random_state=0)
    if slow:
        yield (
            "GridSearchCV(PegasosClassifier)",
            GridSearchCV(ours, {"lam": LAMS}, cv=FOLDS, n_jobs=jobs),
        )
        svc = LinearSVC(loss="hinge", random_state=0)
        yield (
            "GridSearchCV(LinearSVC)",
            GridSearchCV(svc, {"C": 1 / (LAMS * n)}, cv=FOLDS, n_jobs=jobs),
        )


def measure(name, data, options, slow, repetitions):
    """The rows of one set."""
    rows = {}
    for _ in range(repetitions):
        for who, search in contenders(
            options, data.X.shape[0], isinstance(data.X, np.ndarray), slow
        ):
            say(f"{name}: {who}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds = timed(lambda s=search: s.fit(data.X, data.y))
            row = rows.setdefault(who, {"seconds": []})
            row["seconds"].append(seconds)
            row["score"] = search.best_score_
            row["test"] = np.mean(search.predict(data.X_test) == data.y_test)
    ours = rows["PegasosClassifierCV"]["seconds"]
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
        10.0 ** np.arange(-3, 4), gammas=[2.0], n_steps=[100, 300, 500, 700], sampling="uniform",
        fit_intercept=False,
        cv=KFold(5, shuffle=True, random_state=0), refit=False, random_state=0,
    )  # fmt: skip
    return search.fit(X, y)


def run(args):
    """All rows of the table."""
    repetitions = args.repetitions or 1
    results = {"repetitions": repetitions, "select": []}
    touch_memory(2**30)
    for name, options in CASES.items():
        if args.sets and name not in args.sets:
            continue
        data = sets.load_or_imitate(name)
        if data.X_test is None:
            data.X_test, data.y_test = data.X, data.y
        if args.quick:
            data = data.first(600)
        results["select"] += measure(name, data, options, args.slow, repetitions)
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
                "set": "usps grid",
                "search": "KernelPegasosClassifierCV",
                "seconds": statistics.median(times),
                "x ours": 1.0,
                "score": f"{found[-1].best_score_:.4f}",
                "test": "",
            }
        )
    return results
