"""What the linear benchmarks measure: pegasos and its peers, one small class for each.

A class says which losses it minimises, gives budgets from small to large, and fits a task within
one. All minimise the same objective, with the intercept as the weight of a constant feature, which
peers get as a column of X. They get the type that they compute with, and a matrix that they need
not convert. To add a peer, write a class and add it to `PEERS`.
"""

import contextlib
import importlib.metadata
import io
import itertools
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn import svm
from sklearn.linear_model import (
    LogisticRegression,
    Ridge,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
)
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC, LinearSVR

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
    from skglm.datafits import Huber, Quadratic
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import AndersonCD
except ImportError:
    skglm = None

EPOCHS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400, 1000)
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
MANY = 100_000  # iterations, where a tolerance ends the fit

# Losses of targets z and scores s, by the definitions of scikit-learn.
LOSSES = {
    "hinge": lambda z, s, _: np.maximum(0, 1 - z * s),
    "squared_hinge": lambda z, s, _: np.maximum(0, 1 - z * s) ** 2,
    "modified_huber": lambda z, s, _: np.where(
        z * s >= -1, np.maximum(0, 1 - z * s) ** 2, -4 * z * s
    ),
    "log_loss": lambda z, s, _: np.logaddexp(0, -z * s),
    "epsilon_insensitive": lambda z, s, epsilon: np.maximum(0, np.abs(z - s) - epsilon),
    "squared_epsilon_insensitive": lambda z, s, epsilon: (
        np.maximum(0, np.abs(z - s) - epsilon) ** 2
    ),
    "huber": lambda z, s, epsilon: np.where(
        np.abs(z - s) <= epsilon, (z - s) ** 2 / 2, epsilon * np.abs(z - s) - epsilon**2 / 2
    ),
    "squared_error": lambda z, s, _: (z - s) ** 2 / 2,
}
CLASSIFICATION = ("hinge", "squared_hinge", "modified_huber", "log_loss")


@dataclass
class Task:
    """Problems over the same rows: lam/2 (|w|^2 + b^2) + mean loss, summed over columns of y."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray
    lam: float
    loss: str = "hinge"
    epsilon: float = 0.1

    def __post_init__(self):
        self.is_regression = self.loss not in CLASSIFICATION
        if self.is_regression:
            self.targets = self.y.reshape(len(self.y), -1).astype(np.float64)
        else:
            self.classes, codes = np.unique(self.y, return_inverse=True)
            targets = np.where(codes[:, None] == np.arange(len(self.classes)), 1.0, -1.0)
            self.targets = targets[:, 1:] if len(self.classes) == 2 else targets
        self.C = pegasos.C_from_lam(self.lam, self.X.shape[0])

    def ours(self):
        """Which estimator minimises P, and with which parameters beside lam."""
        if self.is_regression:
            return pegasos.PegasosRegressor, {"loss": self.loss, "epsilon": self.epsilon}
        return pegasos.PegasosClassifier, {"loss": self.loss}

    def scores(self, X, coef, intercept):
        return X @ coef.T + intercept

    def objective(self, coef, intercept):
        """P of a model, summed over problems, in float64."""
        scores = self.X.astype(np.float64) @ coef.T + intercept
        losses = LOSSES[self.loss](self.targets, scores, self.epsilon)
        return self.lam / 2 * ((coef**2).sum() + (intercept**2).sum()) + losses.mean(axis=0).sum()

    def with_ones(self, dtype=np.float64):
        """The rows with a constant feature."""
        ones = np.ones((self.X.shape[0], 1), dtype)
        if sparse.issparse(self.X):
            return sparse.hstack([self.X, ones], format="csr", dtype=dtype)
        return np.hstack([self.X.astype(dtype), ones])


class JointTask(Task):
    """The problem of Crammer and Singer over all classes."""

    def __post_init__(self):
        self.loss, name = "hinge", self.loss
        super().__post_init__()
        self.loss = name

    def ours(self):
        return pegasos.PegasosClassifier, {"multi_class": "crammer_singer"}

    def objective(self, coef, intercept):
        scores = self.X.astype(np.float64) @ coef.T + intercept
        own = (scores * (self.targets > 0)).sum(axis=1)
        losses = (scores + (self.targets < 0)).max(axis=1) - own
        return self.lam / 2 * ((coef**2).sum() + (intercept**2).sum()) + losses.mean()


class OneClassTask(Task):
    """nu/2 |w|^2 + mean of max(0, -f) + nu b, where `lam` is nu."""

    def __post_init__(self):
        self.is_regression, self.classes = False, np.ones(1)
        self.targets = np.ones((self.X.shape[0], 1))

    def ours(self):
        return pegasos.PegasosOneClass, {}

    def objective(self, coef, intercept):
        scores = self.X.astype(np.float64) @ coef[0] + intercept[0]
        losses = np.maximum(0, -scores).mean()
        return self.lam / 2 * (coef**2).sum() + losses + self.lam * intercept[0]


class KernelTask(Task):
    """Regression with a Gaussian kernel and a free intercept; `coef` are those of all rows."""

    gamma = 0.1

    def __post_init__(self):
        super().__post_init__()
        self.kernel = rbf_kernel(self.X.astype(np.float64), gamma=self.gamma)

    def ours(self):
        options = {"gamma": self.gamma, "epsilon": self.epsilon, "penalize_intercept": False}
        return pegasos.KernelPegasosRegressor, options

    def scores(self, X, coef, intercept):
        return rbf_kernel(X, self.X, gamma=self.gamma) @ coef.T + intercept

    def objective(self, coef, intercept):
        scores = self.kernel @ coef.T
        losses = LOSSES["epsilon_insensitive"](self.targets, scores + intercept, self.epsilon)
        return self.lam / 2 * (coef.T * scores).sum() + losses.mean(axis=0).sum()


#: Those whose loss says more than a loss.
TASKS = {
    "crammer_singer": JointTask,
    "one_class": OneClassTask,
    "epsilon_insensitive, rbf": KernelTask,
}


def with_coefficients_of_all(machine, n):
    """Coefficients of all rows, and the intercept, of a kernel machine."""
    coef = np.zeros((1, n))
    coef[:, machine.support_] = machine.dual_coef_
    return coef, np.ravel(machine.intercept_)


class Ours:
    """pegasos at its defaults, but for the tolerance."""

    budgets = tuple(s * t for t in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5) for s in (1.0, 0.3))

    def __init__(self, task, dtype=np.float64, n_jobs=1):
        self.task, self.X = task, task.X.astype(dtype)
        self.make, options = task.ours()
        self.options = options | {"n_jobs": n_jobs, "random_state": 0}
        self.options["nu" if task.loss == "one_class" else "lam"] = task.lam
        threads = f", {n_jobs} threads" if n_jobs > 1 else ""
        self.name = f"pegasos {np.dtype(dtype).name}{threads}"

    def fit(self, tol):
        self.machine = self.make(tol=tol, **self.options).fit(self.X, self.task.y)

    def model(self):
        if isinstance(self.task, KernelTask):
            return with_coefficients_of_all(self.machine, self.X.shape[0])
        return np.atleast_2d(self.machine.coef_), np.ravel(self.machine.intercept_)

    def bound(self):
        """A lower bound on the least P, and the relative gap that it was found with."""
        if isinstance(self.task, JointTask):  # dual ascent takes many epochs to such a gap
            self.options["max_iter"] = 10_000
        self.fit(1e-9)
        bound, gap = self.machine.dual_objective_.sum(), self.machine.duality_gap_.sum()
        return bound, gap / abs(self.machine.objective_.sum())


class Peer:
    """An estimator of scikit-learn, or one with its manners: `machine` makes it for a budget.

    `variants` are what else it is given, by what that adds to its name.
    """

    losses: tuple[str, ...] = ()
    variants: dict = {"": {}}
    budgets: tuple = EPOCHS
    most_classes = 1000
    has_outputs = False  # whether one machine predicts several

    def __init__(self, task, variant, options):
        self.task, self.options, self.X = task, options, task.with_ones()
        self.name = type(self).name + variant
        self.columns = [task.y]
        if task.targets.shape[1] > 1 and task.is_regression and not self.has_outputs:
            self.columns = list(task.y.T)

    @classmethod
    def all(cls, task):
        """The variants that minimise the task's objective."""
        n_classes = 0 if task.is_regression else len(task.classes)
        if task.loss in cls.losses and n_classes <= cls.most_classes:
            for variant, options in cls.variants.items():
                if task.loss in options.get("losses", cls.losses):
                    yield cls(task, variant, {k: v for k, v in options.items() if k != "losses"})

    def machine(self, budget):
        raise NotImplementedError

    def fit(self, budget):
        self.machines = [self.machine(budget).fit(self.X, y) for y in self.columns]

    def model(self):
        coef = np.vstack([np.atleast_2d(machine.coef_) for machine in self.machines])
        return coef[:, :-1].astype(np.float64), coef[:, -1].astype(np.float64)


class SVC(Peer):
    name, losses = "LinearSVC", ("hinge", "squared_hinge")

    def machine(self, budget):
        return LinearSVC(
            C=self.task.C, loss=self.task.loss, dual=True, tol=1e-9, max_iter=budget,
            fit_intercept=False, random_state=0,
        )  # fmt: skip


class PrimalSVC(Peer):
    name, losses, budgets = "LinearSVC, primal", ("squared_hinge",), TOLERANCES

    def machine(self, budget):
        return LinearSVC(C=self.task.C, dual=False, tol=budget, max_iter=MANY, fit_intercept=False)


class SVR(Peer):
    name, losses = "LinearSVR", ("epsilon_insensitive", "squared_epsilon_insensitive")

    def machine(self, budget):
        return LinearSVR(
            C=self.task.C, loss=self.task.loss, epsilon=self.task.epsilon, dual=True, tol=1e-9,
            max_iter=budget, fit_intercept=False, random_state=0,
        )  # fmt: skip


class PrimalSVR(Peer):
    name, losses = "LinearSVR, primal", ("squared_epsilon_insensitive",)
    budgets = TOLERANCES

    def machine(self, budget):
        return LinearSVR(C=self.task.C, loss=self.task.loss, epsilon=self.task.epsilon, dual=False,
                         tol=budget, max_iter=MANY, fit_intercept=False)  # fmt: skip


class JointSVC(Peer):
    name, losses, budgets = "LinearSVC, crammer_singer", ("crammer_singer",), TOLERANCES

    def machine(self, budget):
        return LinearSVC(C=self.task.C, multi_class="crammer_singer", tol=budget, max_iter=MANY,
                         fit_intercept=False, random_state=0)  # fmt: skip


class KernelSVR(Peer):
    name, losses, budgets = "SVR", ("epsilon_insensitive, rbf",), TOLERANCES

    def __init__(self, task, variant, options):
        super().__init__(task, variant, options)
        self.X = task.X

    def machine(self, budget):
        return svm.SVR(C=self.task.C, gamma=self.task.gamma, epsilon=self.task.epsilon, tol=budget,
                       cache_size=2000)  # fmt: skip

    def model(self):
        return with_coefficients_of_all(self.machines[0], self.X.shape[0])


class OneClass(Peer):
    """LIBSVM's w and b are nu m times ours."""

    name, losses, budgets = "OneClassSVM", ("one_class",), TOLERANCES

    def __init__(self, task, variant, options):
        super().__init__(task, variant, options)
        self.X = task.X.astype(np.float64)

    def machine(self, budget):
        return svm.OneClassSVM(kernel="linear", nu=self.task.lam, tol=budget, cache_size=2000)

    def model(self):
        (machine,), scale = self.machines, self.task.lam * self.X.shape[0]
        coef = machine.coef_.toarray() if sparse.issparse(machine.coef_) else machine.coef_
        return coef / scale, machine.intercept_ / scale


class GradientOneClass(OneClass):
    name, budgets = "SGDOneClassSVM", EPOCHS

    def machine(self, budget):
        return SGDOneClassSVM(nu=self.task.lam, max_iter=budget, tol=None, random_state=0)

    def model(self):
        (machine,) = self.machines
        return machine.coef_.reshape(1, -1), -machine.offset_


class Logistic(Peer):
    name, losses, budgets, most_classes = "LogisticRegression", ("log_loss",), TOLERANCES, 2
    variants = {f", {solver}": {"solver": solver}
                for solver in ("lbfgs", "liblinear", "newton-cg", "newton-cholesky")}  # fmt: skip

    @classmethod
    def all(cls, task):
        # newton-cholesky makes a matrix of features by features.
        few = task.X.shape[1] <= 2000
        return (peer for peer in super().all(task) if few or not peer.name.endswith("cholesky"))

    def machine(self, budget):
        return LogisticRegression(C=self.task.C, tol=budget, max_iter=MANY, fit_intercept=False,
                                  random_state=0, **self.options)  # fmt: skip


class RidgePeer(Peer):
    name, losses, budgets = "Ridge", ("squared_error",), TOLERANCES
    variants = {f", {solver}": {"solver": solver}
                for solver in ("cholesky", "lsqr", "sparse_cg", "sag")}  # fmt: skip
    has_outputs = True

    @classmethod
    def all(cls, task):
        few = task.X.shape[1] <= 2000
        return (peer for peer in super().all(task) if few or not peer.name.endswith("cholesky"))

    def machine(self, budget):
        alpha = self.task.lam * self.task.X.shape[0]
        return Ridge(alpha=alpha, tol=budget, max_iter=MANY, fit_intercept=False, random_state=0,
                     **self.options)  # fmt: skip


class Gradient(Peer):
    """A budget is a schedule, whether iterates are averaged, and a number of epochs.

    "best schedule" counts the fastest fit, but not the search for its schedule.
    """

    name, losses = "SGD", tuple(LOSSES)
    variants = {"": {"searches": False}, ", best schedule": {"searches": True}}
    schedules = (("optimal", 0.0), ("constant", 0.003), ("constant", 0.03), ("invscaling", 0.3))

    def __init__(self, task, variant, options):
        super().__init__(task, variant, options)
        searches = options["searches"]
        averages = (False, True) if searches else (False,)
        epochs = (1, 3, 10, 30) if searches else EPOCHS[:9]
        schedules = self.schedules if searches else self.schedules[:1]
        self.budgets = tuple(itertools.product(epochs, schedules, averages))

    def machine(self, budget):
        epochs, (schedule, eta0), average = budget
        make = SGDRegressor if self.task.is_regression else SGDClassifier
        # The loss of SGDRegressor's squared_error is halved as ours is.
        return make(loss=self.task.loss, alpha=self.task.lam, epsilon=self.task.epsilon,
                    max_iter=epochs, tol=None, average=average, fit_intercept=False,
                    learning_rate=schedule, eta0=eta0 or 0.01, random_state=0)  # fmt: skip


class Liblinear(Peer):
    """liblinear-multicore or, where that is not installed, liblinear-official.

    Both are the module "liblinear". Its loss of squared regression is not halved, as scikit-learn's
    LinearSVR has it. Its only budget is a tolerance.
    """

    name, budgets, most_classes = "liblinear", TOLERANCES[:7], 20
    losses = ("hinge", "squared_hinge", "log_loss", "crammer_singer",
              "epsilon_insensitive", "squared_epsilon_insensitive")  # fmt: skip
    numbers = {"hinge": (3,), "squared_hinge": (1, 2), "log_loss": (0, 7), "crammer_singer": (4,),
               "epsilon_insensitive": (13,), "squared_epsilon_insensitive": (11, 12)}  # fmt: skip

    @classmethod
    def all(cls, task):
        if liblinearutil is None or task.loss not in cls.losses or task.targets.shape[1] > 20:
            return
        threads = (1, 2)
        try:
            importlib.metadata.version("liblinear-multicore")
        except importlib.metadata.PackageNotFoundError:
            threads = (None,)
        for number, n_threads in itertools.product(cls.numbers[task.loss], threads):
            if n_threads != 2 or number != 12:
                yield cls(task, number, n_threads)

    def __init__(self, task, number, n_threads):
        self.task, self.X = task, sparse.csr_matrix(task.with_ones())
        self.arguments = f"-s {number} -c {task.C} -p {task.epsilon} -q"
        self.name = "liblinear-official"
        if n_threads:
            self.arguments += f" -m {n_threads}"
            self.name = f"liblinear-multicore, {n_threads} thread{'s' * (n_threads > 1)}"
        self.name += f", -s {number}" if len(self.numbers[task.loss]) > 1 else ""
        columns = task.targets.T if task.is_regression else [np.searchsorted(task.classes, task.y)]
        self.problems = [liblinearutil.problem(y, self.X) for y in columns]

    def fit(self, tol):
        with contextlib.redirect_stdout(io.StringIO()):
            self.machines = [
                liblinearutil.train(problem, f"{self.arguments} -e {tol}")
                for problem in self.problems
            ]

    def model(self):
        found = []
        for machine in self.machines:
            if self.task.is_regression:
                found.append(machine.get_decfun(0)[0])
                continue
            labels = machine.get_labels()
            if len(labels) == 2:
                sign = 1 if labels[0] == 1 else -1
                found.append(sign * np.array(machine.get_decfun(0)[0]))
            else:
                found += [machine.get_decfun(labels.index(k))[0] for k in range(len(labels))]
        coef = np.array(found)
        return coef[:, :-1], coef[:, -1]


class Snap(Peer):
    """snapml computes in float32; a penalised intercept is a constant feature there, too."""

    name, losses = "snapml", ("hinge", "log_loss")

    @classmethod
    def all(cls, task):
        is_joint = task.loss == "log_loss" and len(task.classes) > 2
        return [] if snapml is None or task.is_regression or is_joint else super().all(task)

    def __init__(self, task, variant, options):
        super().__init__(task, variant, options)
        self.X = task.with_ones(np.float32)
        if sparse.issparse(self.X):
            self.X = sparse.csr_matrix(self.X)

    def machine(self, budget):
        make = snapml.SupportVectorMachine
        if self.task.loss == "log_loss":
            make = snapml.LogisticRegression
        return make(regularizer=self.task.lam * self.X.shape[0], fit_intercept=False,
                    max_iter=budget, tol=1e-9, random_state=0)  # fmt: skip

    def model(self):
        coef = np.asarray(self.machines[0].coef_, np.float64).reshape(-1, self.X.shape[1])
        return coef[:, :-1], coef[:, -1]


class Skglm(Peer):
    """skglm, with all rows in its working set, and compiled before the clock runs."""

    name, losses, most_classes = "skglm", ("hinge",), 2

    @classmethod
    def all(cls, task):
        return [] if skglm is None else super().all(task)

    def __init__(self, task, variant, options):
        super().__init__(task, variant, options)
        is_sparse = sparse.issparse(self.X)
        self.X = sparse.csc_array(self.X) if is_sparse else np.asfortranarray(self.X)
        self.columns = [task.targets[:, 0].astype(int)]
        if not task.is_regression:
            self.fit(1)

    def machine(self, budget):
        return skglm.LinearSVC(C=self.task.C, max_iter=1, max_epochs=budget, p0=self.X.shape[0],
                               tol=1e-9, fit_intercept=False)  # fmt: skip


class SkglmRegression(Skglm):
    losses, most_classes = ("huber", "squared_error"), 1000

    def __init__(self, task, variant, options):
        super().__init__(task, variant, options)
        self.columns = list(task.targets.T)
        self.fit(1)

    def machine(self, budget):
        datafit = Quadratic() if self.task.loss == "squared_error" else Huber(self.task.epsilon)
        solver = AndersonCD(max_iter=1, max_epochs=budget, p0=self.X.shape[1], tol=1e-9,
                            fit_intercept=False)  # fmt: skip
        penalty = L1_plus_L2(self.task.lam, 0.0)
        return skglm.GeneralizedLinearEstimator(datafit, penalty, solver)


PEERS = (
    SVC, PrimalSVC, SVR, PrimalSVR, JointSVC, KernelSVR, OneClass, GradientOneClass, Logistic,
    RidgePeer, Gradient, Liblinear, Snap, Skglm, SkglmRegression,
)  # fmt: skip


def contenders(task):
    """Ours and all peers of a task."""
    yield Ours(task, np.float32)
    yield Ours(task, np.float64)
    if task.targets.shape[1] > 1:
        yield Ours(task, np.float32, 2)
    for peer in PEERS:
        yield from peer.all(task)
