"""Default fits of small sets beside scikit-learn's LinearSVC and SVC, where fixed costs count.

All sets are float64. The five dense ones are standardised and have λ = 1/n, so that C = 1;
"mushrooms" is an imitation of that set, separable, with binary features in CSR and λ = 1e-5.
Linear: both penalise the intercept, so that the objective is the same. Ours goes on to rounding by
default where that is cheap, as here; in a second row, to a relative gap of 1e-3. LinearSVC has its
default settings, and in a second row the loosest tolerance that reaches that gap, with iterations
enough. Kernel: same γ and C; SVC's intercept is free, and its problems are
pairs of classes. So ours is measured with pairs too, with the λ that C is for pairs of mean size.

Each round times one fit of each machine. "x pegasos" is how many times as long as ours a fit
takes, the median over rounds; the quartiles stand beside. "gap" is the relative gap of the sum of
objectives: ours is certified, a peer's is computed afterwards from the best dual bound that is
known here.
"""

import statistics
import warnings

import numpy as np
from measure import in_turn, quartiles, ratio, say, timed
from peers import Ours, Task
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_info

import pegasos

# Where a tolerance is given, the gap that is to be reached.
GAP = 1e-3


def standardised(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y, None


def synthetic():
    X, y = make_classification(1000, 20, random_state=0)
    return StandardScaler().fit_transform(X), y, None


def mushrooms(n=8124, attributes=21, d=112, species=60, seed=0):
    """Rows of species with usual values, some changed; the 30 % nearest the border are left out."""
    rng, drawn = np.random.default_rng(seed), n * 10 // 7
    firsts = np.sort(rng.choice(np.arange(1, d), attributes - 1, replace=False))
    firsts = np.concatenate([[0], firsts])
    sizes = np.diff(firsts, append=d)
    usual = rng.random((species, attributes)) ** 2 * sizes
    other = rng.random((drawn, attributes)) ** 2 * sizes
    changed = rng.random((drawn, attributes)) < 0.25
    values = np.where(changed, other, usual[rng.integers(0, species, drawn)]).astype(np.int32)
    indptr = np.arange(0, drawn * attributes + 1, attributes, dtype=np.int32)
    indices = (values + firsts).astype(np.int32).ravel()
    X = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(drawn, d))
    scores = X @ rng.normal(size=d)
    scores -= np.median(scores)
    kept = np.sort(np.argsort(-np.abs(scores), kind="stable")[:n])
    return X[kept], scores[kept] > 0, 1e-5


# name: rows, labels, lam (None: 1/n)
CASES = {
    "iris": lambda: standardised(load_iris),
    "wine": lambda: standardised(load_wine),
    "breast_cancer": lambda: standardised(load_breast_cancer),
    "digits": lambda: standardised(load_digits),
    "1000 x 20": synthetic,
    "mushrooms": mushrooms,
}


def fitted(machine, X, y):
    """A fitted clone, and whether it warned that it did not converge."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        machine = clone(machine).fit(X, y)
    return machine, any(issubclass(w.category, ConvergenceWarning) for w in told)


def certified(machine):
    """The sum of objectives of one of ours, and its relative gap."""
    P = machine.objective_.sum()
    return P, machine.duality_gap_.sum() / P


class LinearSet:
    """The linear machines of a set, and what they reach."""

    def __init__(self, X, y, lam):
        self.X, self.y, self.lam = X, y, lam
        self.task = Task(X, y, lam)
        self.bound, _ = Ours(self.task).bound()

    def machines(self):
        ours = pegasos.PegasosClassifier(lam=self.lam, random_state=0)
        yield "pegasos", ours
        yield f"pegasos, tol={GAP:g}", clone(ours).set_params(tol=GAP)
        C = pegasos.C_from_lam(self.lam, self.X.shape[0])
        peer = LinearSVC(C=C, loss="hinge", random_state=0)
        yield "LinearSVC", peer
        for tol in (1e-1, 1e-2, 1e-3, 1e-4):
            loose = clone(peer).set_params(tol=tol, max_iter=100_000)
            if self.reached(fitted(loose, self.X, self.y)[0])[1] <= GAP:
                yield f"LinearSVC, tol={tol:g}", loose
                return

    def reached(self, machine):
        if not isinstance(machine, LinearSVC):
            return certified(machine)
        P = self.task.objective(machine.coef_, machine.intercept_)
        return P, (P - self.bound) / P


class KernelSet:
    """The machines of a set with a Gaussian kernel, and what they reach."""

    def __init__(self, X, y, lam, gamma=None):
        self.X, self.y, self.lam = X, y, lam
        self.gamma = gamma or 1 / (X.shape[1] * X.var())
        self.C = pegasos.C_from_lam(lam, X.shape[0])
        self.n_classes = len(np.unique(y))
        self._bounds = {}

    def machines(self):
        ours = pegasos.KernelPegasosClassifier(lam=self.lam, gamma=self.gamma, random_state=0)
        yield "pegasos", ours
        if self.n_classes > 2:
            lam = self.lam * self.n_classes / 2
            yield "pegasos, pairs", clone(ours).set_params(lam=lam, multi_class="ovo")
        yield "SVC", SVC(C=self.C, gamma=self.gamma)

    def reached(self, machine):
        if isinstance(machine, pegasos.KernelPegasosClassifier):
            return certified(machine)
        pairs = [self._pair(machine, i, j) for j in range(self.n_classes) for i in range(j)]
        P, bound = np.sum(pairs, axis=0)
        return P, (P - bound) / P

    def _pair(self, machine, i, j):
        """The objective of SVC for a pair of classes, and a bound below it."""
        rows = np.isin(self.y, machine.classes_[[i, j]])
        X, positive = self.X[rows].astype(np.float64), self.y[rows] == machine.classes_[j]
        lam = pegasos.lam_from_C(self.C, X.shape[0])
        # The support vectors of a class come together; of one in row j - 1, of the other in row i.
        last = np.cumsum(machine.n_support_)
        at = [slice(stop - n, stop) for n, stop in zip(machine.n_support_, last, strict=True)]
        dual = machine.dual_coef_
        dual = dual.toarray() if sparse.issparse(dual) else dual
        beta = np.concatenate([dual[j - 1, at[i]], dual[i, at[j]]])
        vectors = self.X[np.concatenate([machine.support_[at[i]], machine.support_[at[j]]])]
        number = i * (2 * self.n_classes - i - 1) // 2 + j - i - 1
        signs = np.where(positive, 1, -1) * (1 if self.n_classes == 2 else -1)
        scores, of_vectors = (self._scores(Z, vectors, beta) for Z in (X, vectors))
        scores += np.ravel(machine.intercept_)[number]
        P = lam / 2 * (beta @ of_vectors) + np.maximum(0, 1 - signs * scores).mean()
        return P, self._bound(i, j, lam, X, positive)

    def _scores(self, X, vectors, beta, chunk=1000):
        """Without the intercept, in float64."""
        vectors = vectors.astype(np.float64)
        return np.concatenate([
            rbf_kernel(X[k : k + chunk].astype(np.float64), vectors, self.gamma) @ beta
            for k in range(0, X.shape[0], chunk)
        ])  # fmt: skip

    def _bound(self, i, j, lam, X, positive):
        """Below the least objective of a pair, by a fit of ours to a gap of 1e-6."""
        if (i, j) not in self._bounds:
            best = pegasos.KernelPegasosClassifier(
                lam=lam, gamma=self.gamma, tol=1e-6, penalize_intercept=False, random_state=0,
                n_jobs=2,
            )  # fmt: skip
            self._bounds[i, j] = fitted(best, X, positive)[0].dual_objective_[0]
        return self._bounds[i, j]


def measure(name, kind, of_set, repetitions):
    """The rows of one set."""
    say(f"{name}: {kind}")
    machines, X, y = dict(of_set.machines()), of_set.X, of_set.y
    found = {who: fitted(machine, X, y) for who, machine in machines.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [lambda m=machine: timed(lambda: m.fit(X, y)) for machine in machines.values()]
        times = dict(zip(machines, in_turn(calls, repetitions), strict=True))
    blas = max((pool["num_threads"] for pool in threadpool_info()
                if pool["user_api"] == "blas"), default=1)  # fmt: skip
    rows = []
    for who, seconds in times.items():
        ours = who == "pegasos"
        low, high = quartiles(seconds, times["pegasos"])
        P, gap = of_set.reached(found[who][0])
        rows.append(
            {
                "set": name,
                "kind": kind,
                "dtype": X.dtype.name,
                "machine": who,
                "threads": blas if kind == "kernel" and who.startswith("pegasos") else 1,
                "median ms": 1e3 * statistics.median(seconds),
                "least ms": 1e3 * min(seconds),
                "x pegasos": ratio(seconds, times["pegasos"]),
                "quartiles": "" if ours else f"{low:.3g} to {high:.3g}",
                "x of least": min(seconds) / min(times["pegasos"]),
                "objective": f"{P:.6g}",
                "gap": f"{gap:.1g}",
                "warns": "yes" if found[who][1] else "",
            }
        )
    return rows


def run(args):
    """All rows of the table."""
    repetitions = args.repetitions or (3 if args.quick else 31)
    results = {"repetitions": repetitions, "small": []}
    for name, load in CASES.items():
        if args.sets and name not in args.sets:
            continue
        X, y, lam = load()
        if args.quick:
            every = -(-X.shape[0] // 300)
            X, y = X[::every], y[::every]
        lam = lam or 1 / X.shape[0]
        results["small"] += measure(name, "linear", LinearSet(X, y, lam), repetitions)
        if not sparse.issparse(X):
            results["small"] += measure(name, "kernel", KernelSet(X, y, lam), repetitions)
    return results
