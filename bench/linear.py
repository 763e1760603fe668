"""Linear machines: time to a relative suboptimality, and test error against time, beside peers.

All minimise the same objective, with the intercept as the weight of a constant feature. Every
contender is given budgets from small to large, each a whole fit from scratch: tolerances for ours
and for liblinear's, numbers of epochs for the others. What a fit reached is computed off the clock
from its coefficients; its time to a suboptimality is that of its fastest budget that got there. The
optimum is the dual bound of a fit of ours to a certified gap of 1e-9 (or the best that was
reached). Of several binary problems, objectives are added up.

Peers get what they compute with (float32 for snapml, float64 for the others), and a matrix that
they need not convert. SGDClassifier has its default schedule, and, of two classes, the best of
eight. All have one thread unless their name says otherwise; liblinear-multicore takes the place of
liblinear-official where it is installed, since both are the module "liblinear".
"""

import contextlib
import importlib.metadata
import io
import itertools
import statistics
import warnings

import data as sets
import numpy as np
from measure import say, timed, touch_memory
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

import pegasos

try:
    from liblinear import liblinearutil
except ImportError:
    liblinearutil = None
try:
    import snapml
except ImportError:
    snapml = None
try:
    import skglm
except ImportError:
    skglm = None

LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
# A contender gets no larger budget after a fit of so many seconds.
PATIENCE = 20.0

# name: how to get it, the class against the rest (None: all classes), lam
CASES = {
    "imdb": (lambda: sets.load_or_imitate("imdb"), None, 1e-4),
    "adult": (lambda: sets.load_or_imitate("adult"), None, 3.07e-5),
    "covtype": (lambda: sets.load_or_imitate("covtype"), None, 1e-6),
    "covtype, every 4th": (lambda: sets.load_or_imitate("covtype").first(131_000), None, 1e-5),
    "mnist 8": (lambda: sets.load_or_imitate("mnist"), 8, 1e-4),
    "newsgroups20": (lambda: sets.load_or_imitate("newsgroups20"), None, 1e-4),
    "fashion_mnist": (lambda: sets.load_or_imitate("fashion_mnist"), None, 1e-4),
    "50,000 x 300, sparse": (lambda: sets.binary(50_000, threshold=6.0), None, 1e-5),
    "15,000 x 16": (lambda: sets.blobs(16, 2, n=15_000, seed=2, flip_y=0.05), None, 1e-4),
    "7500 x 16, 10 classes": (
        lambda: sets.blobs(16, 10, n=7500, seed=1, class_sep=2), None, 1e-4,
    ),
    "15,000 x 16, 26 classes": (
        lambda: sets.blobs(16, 26, n=15_000, n_clusters_per_class=1, class_sep=1.5), None, 1e-4,
    ),
}  # fmt: skip


class Ours:
    """`PegasosClassifier`, at its defaults but for the tolerance."""

    budgets = tuple(s * t for t in LEVELS for s in (1.0, 0.3))

    def __init__(self, lam, dtype, n_jobs):
        self.lam, self.dtype, self.n_jobs = lam, dtype, n_jobs
        self.name = f"pegasos {np.dtype(dtype).name}" + (
            f", {n_jobs} threads" if n_jobs > 1 else ""
        )

    def take(self, X, y):
        self.X, self.y = X.astype(self.dtype), y

    def fit(self, tol):
        machine = pegasos.PegasosClassifier(
            lam=self.lam, tol=tol, random_state=0, n_jobs=self.n_jobs
        )
        self.machine = machine.fit(self.X, self.y)

    def model(self):
        return self.machine.coef_, self.machine.intercept_


class Linear:
    """scikit-learn's LinearSVC."""

    name = "LinearSVC"
    budgets = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400, 1000)

    def __init__(self, lam):
        self.lam = lam

    def take(self, X, y):
        self.X, self.y = X.astype(np.float64), y

    def fit(self, max_iter):
        C = pegasos.C_from_lam(self.lam, self.X.shape[0])
        machine = LinearSVC(C=C, loss="hinge", tol=1e-9, max_iter=max_iter, random_state=0)
        self.machine = machine.fit(self.X, self.y)

    def model(self):
        return self.machine.coef_, self.machine.intercept_


class Gradient:
    """scikit-learn's SGDClassifier, on rows with a constant feature, so that b is penalised.

    A budget is a schedule, whether iterates are averaged, and a number of epochs. "best schedule"
    counts the fastest fit, but not the search for its schedule.
    """

    schedules = (("optimal", 0.0), ("constant", 0.003), ("constant", 0.03), ("invscaling", 0.3))

    def __init__(self, lam, searches):
        self.lam, schedules = lam, self.schedules if searches else self.schedules[:1]
        self.name = "SGDClassifier" + (", best schedule" if searches else "")
        averages = (False, True) if searches else (False,)
        epochs = (1, 3, 10, 30) if searches else (1, 2, 3, 5, 8, 12, 20, 30, 50)
        self.budgets = tuple(itertools.product(epochs, schedules, averages))

    def take(self, X, y):
        self.y, ones = y, np.ones((X.shape[0], 1))
        if sparse.issparse(X):
            self.X = sparse.hstack([X, ones], format="csr", dtype=np.float64)
        else:
            self.X = np.hstack([X, ones])

    def fit(self, budget):
        epochs, (schedule, eta0), average = budget
        machine = SGDClassifier(
            alpha=self.lam, max_iter=epochs, tol=None, average=average, fit_intercept=False,
            learning_rate=schedule, eta0=eta0 or 0.01, random_state=0,
        )  # fmt: skip
        self.machine = machine.fit(self.X, self.y)

    def model(self):
        return self.machine.coef_[:, :-1], self.machine.coef_[:, -1]


class Liblinear:
    """liblinear-official or, where that is installed, liblinear-multicore: both are "liblinear".

    Their only budget is a tolerance.
    """

    budgets = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)

    def __init__(self, lam, n_threads=None):
        self.lam, self.threads = lam, f" -m {n_threads}" if n_threads else ""
        self.name = "liblinear-official"
        if n_threads:
            self.name = f"liblinear-multicore, {n_threads} thread{'s' * (n_threads > 1)}"

    def take(self, X, y):
        self.classes, codes = np.unique(y, return_inverse=True)
        self.X = sparse.csr_matrix(X, dtype=np.float64)
        self.problem = liblinearutil.problem(codes, self.X, bias=1)

    def fit(self, tol):
        C = pegasos.C_from_lam(self.lam, self.X.shape[0])
        with contextlib.redirect_stdout(io.StringIO()):
            self.machine = liblinearutil.train(
                self.problem, f"-s 3 -c {C} -e {tol} -B 1 -q{self.threads}"
            )

    def model(self):
        labels = self.machine.get_labels()
        if len(labels) == 2:
            w, b = self.machine.get_decfun(0)
            sign = 1 if labels[0] == 1 else -1
            return sign * np.array([w]), sign * np.array([b])
        by_class = [self.machine.get_decfun(labels.index(k)) for k in range(len(labels))]
        return np.array([w for w, _ in by_class]), np.array([b for _, b in by_class])


class Snap:
    """snapml, on one thread; a penalised intercept is a constant feature there, too."""

    name = "snapml"
    budgets = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400, 1000)

    def __init__(self, lam):
        self.lam = lam

    def take(self, X, y):
        self.X, self.y = X.astype(np.float32), y  # what it computes with
        if sparse.issparse(X):
            self.X = sparse.csr_matrix(self.X)

    def fit(self, epochs):
        machine = snapml.SupportVectorMachine(
            regularizer=self.lam * self.X.shape[0], fit_intercept=True, max_iter=epochs, tol=1e-9,
            random_state=0,
        )  # fmt: skip
        self.machine = machine.fit(self.X, self.y)

    def model(self):
        d = self.X.shape[1]
        coef = np.asarray(self.machine.coef_, np.float64).reshape(-1, d)
        return coef, np.asarray(self.machine.intercept_, np.float64).reshape(-1)


class Skglm:
    """skglm, with all rows in its working set, and compiled before the clock runs; two classes."""

    name = "skglm"
    budgets = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400, 1000)

    def __init__(self, lam):
        self.lam = lam

    def take(self, X, y):
        self.y, ones = np.where(y == np.unique(y)[1], 1, -1), np.ones((X.shape[0], 1))
        if sparse.issparse(X):
            self.X = sparse.hstack([X, ones], format="csc", dtype=np.float64)
        else:
            self.X = np.asfortranarray(np.hstack([X, ones]))
        self.fit(1)

    def fit(self, epochs):
        n = self.X.shape[0]
        machine = skglm.LinearSVC(
            C=pegasos.C_from_lam(self.lam, n), max_iter=1, max_epochs=epochs, p0=n, tol=1e-9,
            fit_intercept=False,
        )  # fmt: skip
        self.machine = machine.fit(self.X, self.y)

    def model(self):
        coef = self.machine.coef_.reshape(1, -1)
        return coef[:, :-1], coef[:, -1]


def contenders(lam, n_classes, slow):
    for dtype in (np.float32, np.float64):
        yield Ours(lam, dtype, 1)
    if n_classes > 2:
        yield Ours(lam, np.float32, 2)
    yield Linear(lam)
    if liblinearutil is not None and (slow or n_classes == 2):
        try:
            importlib.metadata.version("liblinear-multicore")
        except importlib.metadata.PackageNotFoundError:
            yield Liblinear(lam)
        else:
            yield Liblinear(lam, 1)
            yield Liblinear(lam, 2)
    if snapml is not None:
        yield Snap(lam)
    if skglm is not None and n_classes == 2:
        yield Skglm(lam)
    yield Gradient(lam, False)
    if slow or n_classes == 2:
        yield Gradient(lam, True)


def objective(X, columns, lam, coef, intercept):
    """P, summed over problems."""
    margins = columns * (X @ coef.T + intercept)
    return (
        lam / 2 * ((coef**2).sum() + (intercept**2).sum())
        + np.maximum(0, 1 - margins).mean(axis=0).sum()
    )


def optimum(X, y, lam, n_jobs):
    """A lower bound on the least P, and the relative gap that it was found with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = pegasos.PegasosClassifier(lam=lam, tol=1e-9, random_state=0, n_jobs=n_jobs).fit(X, y)
    return best.dual_objective_.sum(), best.duality_gap_.sum() / best.objective_.sum()


def measure(name, data, lam, args, repetitions):
    """Rows of the table for one set, and curves of seconds, suboptimality and error."""
    classes, codes = np.unique(data.y, return_inverse=True)
    columns = np.where(codes[:, None] == np.arange(len(classes)), 1.0, -1.0)
    columns = columns[:, 1:] if len(classes) == 2 else columns
    X = data.X.astype(np.float64)
    say(f"{name}: optimum")
    bound, gap = optimum(X, data.y, lam, 2)
    rows, curves = [], []
    everyone = list(contenders(lam, len(classes), args.slow))
    times, reached, errors = {}, {}, {}
    for machine in everyone:
        machine.take(data.X, data.y)
    for repetition in range(repetitions):
        for machine in everyone:
            say(f"{name}: {machine.name}")
            for budget in machine.budgets:
                key = machine.name, budget
                if repetition > 0 and key not in times:
                    break
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seconds = timed(lambda m=machine, b=budget: m.fit(b))
                times.setdefault(key, []).append(seconds)
                if repetition == 0:
                    coef, intercept = machine.model()
                    P = objective(X, columns, lam, coef, intercept)
                    reached[key] = P / bound - 1
                    scores = data.X_test @ coef.T + intercept
                    found = scores[:, 0] > 0 if len(classes) == 2 else scores.argmax(axis=1)
                    truth = np.searchsorted(classes, data.y_test)
                    errors[key] = 100 * np.mean(found != truth)
                    if seconds > PATIENCE or reached[key] < LEVELS[-1] / 3:
                        break
    for machine in everyone:
        keys = [k for k in times if k[0] == machine.name]
        row = {"set": name, "lam": lam, "machine": machine.name}
        for level in LEVELS:
            there = [statistics.median(times[k]) for k in keys if reached[k] <= level]
            row[f"{level:g}"] = min(there) if there else None
        row["spread"] = max(max(times[k]) / min(times[k]) for k in keys)
        rows.append(row)
        curves.append(
            {
                "set": name,
                "machine": machine.name,
                "budget": [str(k[1]) for k in keys],
                "seconds": [statistics.median(times[k]) for k in keys],
                "suboptimality": [float(reached[k]) for k in keys],
                "error %": [float(errors[k]) for k in keys],
            }
        )
    for row in rows:
        if row["machine"].startswith("pegasos"):
            row |= {f"x at {level:g}": _ratio(rows, row, f"{level:g}") for level in LEVELS}
    say(f"{name}: optimum known to {gap:.1g}")
    return rows, curves


def _ratio(rows, ours, level):
    """Time of the fastest peer over ours; None where we or all peers do not get there."""
    peers = [r[level] for r in rows if not r["machine"].startswith("pegasos") and r[level]]
    return min(peers) / ours[level] if peers and ours[level] else None


def run(args):
    """All rows of the table, and the curves."""
    repetitions = args.repetitions or (1 if args.quick else 3)
    results = {"repetitions": repetitions, "linear": [], "curves": []}
    touch_memory(2**31)
    for name, (get, label, lam) in CASES.items():
        if args.sets and name not in args.sets:
            continue
        data = get()
        if args.quick:
            data = data.first(1000)
        if label is not None:
            data.y, data.y_test = data.y == label, data.y_test == label
        rows, curves = measure(name, data, lam, args, repetitions)
        results["linear"] += rows
        results["curves"] += curves
    return results


def plot(results, folder):
    """Suboptimality and test error against seconds, one picture per set."""
    import matplotlib.pyplot as plt

    for name in dict.fromkeys(curve["set"] for curve in results["curves"]):
        figure, (above, below) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
        for curve in results["curves"]:
            if curve["set"] != name:
                continue
            style = {"marker": ".", "label": curve["machine"]}
            style["linestyle"] = "-" if curve["machine"].startswith("pegasos") else "--"
            above.loglog(curve["seconds"], np.maximum(curve["suboptimality"], 1e-9), **style)
            below.semilogx(curve["seconds"], curve["error %"], **style)
        above.set(xlabel="seconds of a whole fit", ylabel="relative suboptimality", title=name)
        below.set(xlabel="seconds of a whole fit", ylabel="test error, %")
        above.legend(fontsize="small")
        figure.savefig(folder / f"linear_{name.replace(' ', '_')}.png", dpi=80)
        plt.close(figure)
