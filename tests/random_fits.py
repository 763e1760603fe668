"""Random fits, whose certificates are checked in float64 and against an independent solver.

    python tests/random_fits.py --seed 12345                 # one case, told step by step
    python tests/random_fits.py --calls 3600 --seed 1000     # cases 1000, 1001, ... for an hour

A case is a fit of few rows: any kernel, loss, intercept and solver, weights of up to 24 orders of
magnitude. From the rows as they were given and from public attributes alone, P(w) is summed again,
with a bound on what rounding can do to that sum. An interior-point method for the dual, or Newton's
method for the log loss, which share nothing with the package, find another point. The case ends
well if no point is below `dual_objective_`, if P(w) is within `duality_gap_` of both objectives,
and if there is a gap and a warning where the documentation says so. Of regression, one class and
joint classes, the other point is that of another solver or of a longer fit. How cases are run is in
random_calls.py.
"""

import dataclasses
import re
import sys
from functools import partial
from itertools import combinations

import numpy as np
import random_calls
from losses import BOUNDS, LOSSES, SLOPES, TARGET_LOSSES
from random_calls import Rows, Wrong, dress, label_columns, told
from scipy import sparse
from sklearn.base import clone
from threadpoolctl import ThreadpoolController

import pegasos
from pegasos.solvers import _warnings

EPS = float(np.finfo(np.float64).eps)
_POOLS = ThreadpoolController()


# ---- Draws ---------------------------------------------------------------------------------------


def draw_rows(case):
    """From 6 to 60 rows, seldom more, some of them equal."""
    case.scale, case.shift = 1.0, 0.0
    n, d = case.integer(6, 60), case.integer(1, 12)
    if case.chance(0.02):
        n = case.integer(61, 120)
    density = case.pick(1.0, 1.0, 0.3)
    if density < 1:
        d = case.integer(3, 40)
    elif case.chance(0.2):  # rows span few dimensions
        d = 2 * n + case.integer(0, 20)
    A = case.rng.normal(size=(n, d)).astype(np.float32) * (case.rng.random((n, d)) < density)
    A = A.astype(np.float64) * case.pick(1, 1, 1, 1, 1e-3, 0.1, 10, 1e3)
    if case.chance(0.3):
        twins = case.rng.random(n) < case.pick(0.1, 0.8)
        A[twins] = A[case.rng.integers(0, case.integer(1, n), twins.sum())]
    if case.chance(0.1):
        A[case.integer(0, n - 1)] = 0
    return dress(case, A)


def draw_codes(case, values):
    """Classes 0, 1, ..., each with two rows at least; some separable, some at random."""
    n, k = len(values), case.pick(2, 2, 2, 3, 4 if len(values) > 7 else 2)
    scores = values @ case.rng.normal(size=(values.shape[1], k))
    scores /= max(np.abs(scores).max(), 1e-300)
    codes = (scores + case.pick(0, 0.3, 3) * case.rng.normal(size=(n, k))).argmax(axis=1)
    codes[case.rng.permutation(n)[: 2 * k]] = np.tile(np.arange(k), 2)
    return codes


def draw_weights(case, codes):
    n = len(codes)
    kind = case.pick("none", "none", "spread", "zeros", "orders", "orders", "class")
    case.note(f"weights: {kind}")
    if kind == "none":
        return None
    if kind == "spread":
        return case.rng.uniform(0.2, 3, n)
    if kind == "zeros":
        weights = case.rng.uniform(0.2, 3, n) * (case.rng.random(n) < 0.6)
        weights[[np.argmax(codes == 0), np.argmax(codes == 1)]] = 1.0
        return weights
    if kind == "orders":
        orders = case.pick(2.0, 5.0, 12.0)
        weights = 10 ** case.rng.uniform(-orders, orders, n)
        return weights if case.chance(0.5) else np.where(weights > 1, 10**orders, 10**-orders)
    return np.where(codes == 0, case.pick(1e-12, 1e-5, 1e5, 1e12), 1.0)


def draw_options(case):
    """Parameters that linear and kernel machines share."""
    return {
        "lam": float(10 ** case.rng.uniform(-6, 1.5)),
        "loss": case.pick(*LOSSES),
        "solver": case.pick("auto", "sdca", "newton", "pegasos"),
        "tol": case.pick("auto", 1e-3, 1e-6, 1e-9),
        "max_iter": case.pick(1000, 1000, 1000, 30, 2),
        "multi_class": case.pick("ovr", "ovo"),
        "random_state": case.integer(0, 2**31),
    } | case.pick(
        {"fit_intercept": False},
        {"intercept_scaling": case.pick(1.0, 0.1, 10.0)},
        {"penalize_intercept": False},
    )


# ---- Kernel functions, as users write them; each value depends on its two rows only --------------


def _pairs(X, Z):
    X, Z = (np.asarray(A.toarray() if sparse.issparse(A) else A, np.float64) for A in (X, Z))
    return X[:, None], Z[None]


def gauss(X, Z, width=1.0):
    X, Z = _pairs(X, Z)
    return np.exp(-((X - Z) ** 2).sum(axis=2) / width)


def gauss_in_single(X, Z, width=1.0):
    return gauss(X, Z, width).astype(np.float32)


def product(X, Z, width=1.0):
    X, Z = _pairs(X, Z)
    return (X * Z).sum(axis=2) / width


def hat(X, Z, width=1.0):
    """Positive semi-definite or not, as the rows are."""
    X, Z = _pairs(X, Z)
    return np.maximum(0, 1 - ((X - Z) ** 2).sum(axis=2) / width)


def saddle(X, Z, width=1.0):
    """Indefinite, but for few rows."""
    X, Z = _pairs(X, Z)
    return ((X * Z).sum(axis=2) - 2 * X[:, :, 0] * Z[:, :, 0]) / width


def draw_function(case, values):
    size = max(np.mean(values**2) * values.shape[1], 1e-6)
    return {
        "kernel": case.pick(gauss, gauss_in_single, product, hat, saddle),
        "kernel_params": {"width": float(size * case.pick(0.1, 1, 10))},
    }


def draw_matrix(case, n):
    """A matrix instead of rows: positive definite, singular, the identity, or indefinite."""
    V = case.rng.normal(size=(n, case.pick(n + 5, 3, 1)))
    K = V @ V.T / V.shape[1]
    kind = case.pick("rows'", "identity", "less definite", "indefinite")
    if kind == "identity":
        K = np.eye(n)
    elif kind == "less definite":
        K -= 10.0 ** case.integer(-17, -4) * np.eye(n)
    elif kind == "indefinite":
        K = case.rng.normal(size=(n, n))
    K *= case.pick(1, 1, 1e-6, 1e6)
    K = (K + K.T) / 2
    case.note(f"matrix: {kind}, V of shape {V.shape}")
    K = K.astype(case.pick(np.float32, np.float64))
    return Rows(K, K.astype(np.float64), K.dtype, f"{K.dtype} matrix of {n} rows")


# ---- What NumPy says -----------------------------------------------------------------------------


def kernel_values(name, gamma, degree, coef0, params, A):
    """The kernel matrix of rows `A` in float64, and bounds of its errors."""
    d = A.shape[1]
    if callable(name):
        K = np.asarray(name(A, A, **params), np.float64)
        return K, np.zeros_like(K)
    if name in ("rbf", "laplacian"):
        apart = A[:, None] - A[None]
        t = gamma * (apart**2 if name == "rbf" else np.abs(apart)).sum(axis=2)
        return np.exp(-t), EPS * ((d + 8) * t + 8) * np.exp(-t)
    inner = gamma * (A @ A.T) + coef0
    error = (d + 8) * EPS * (gamma * (np.abs(A) @ np.abs(A).T) + abs(coef0))
    if name == "sigmoid":
        return np.tanh(inner), error + 8 * EPS
    size = (np.abs(inner) + error) ** degree
    return inner**degree, size - np.abs(inner) ** degree + 8 * EPS * (degree + 1) * size


@dataclasses.dataclass
class Scores:
    """Scores of all rows without the intercept and |w|^2, each with a bound of its error."""

    f: np.ndarray
    f_error: np.ndarray
    norm: float
    norm_error: float


@dataclasses.dataclass
class Features:
    """The space of linear machines."""

    X: np.ndarray

    def of_weights(self, w, w_error=0.0):
        (_, d), size = self.X.shape, np.abs(self.X)
        w_error = w_error + np.zeros(d)
        error = (d + 2) * EPS * (size @ np.abs(w)) + size @ w_error
        doubt = (d + 2) * EPS * (w @ w) + 2 * np.abs(w) @ w_error + w_error @ w_error
        return Scores(self.X @ w, error, w @ w, doubt)

    def of_coefficients(self, beta):
        sizes = np.abs(beta) @ np.abs(self.X)
        return self.of_weights(beta @ self.X, (len(beta) + 2) * EPS * sizes)

    def matrix(self):
        return self.X @ self.X.T

    def lack(self, inside):
        """What rounding of `matrix` may take from its eigenvalues; none is below 0 otherwise."""
        return 0.0


@dataclasses.dataclass
class Matrix:
    """The space of a kernel matrix, whose values have these errors."""

    K: np.ndarray
    error: np.ndarray

    def of_coefficients(self, beta):
        size, (f, n) = np.abs(beta), (self.K @ beta, len(beta))
        error = self.error @ size + (n + 2) * EPS * (np.abs(self.K) @ size)
        return Scores(f, error, beta @ f, size @ error + (n + 2) * EPS * (size @ np.abs(f)))

    def matrix(self):
        return self.K

    def lack(self, inside):
        """By how much the least eigenvalue among some rows may be below 0."""
        K = self.K[np.ix_(inside, inside)]
        values = np.linalg.eigvalsh(K)
        noise = len(K) * EPS * np.abs(values).max() + self.error.sum(axis=1).max()
        return max(0.0, -values[0]) + noise


@dataclasses.dataclass
class Machine:
    """A binary problem: its rows (labels -1 and 1, weights c that sum to 1) and its settings."""

    space: object
    inside: np.ndarray
    y: np.ndarray
    c: np.ndarray
    lam: float
    loss: str
    constant: float  # the feature of a penalised intercept, or 0
    free: bool

    def primal(self, scores, b):
        """P and a bound of its error."""
        f, error = scores.f[self.inside], scores.f_error[self.inside]
        u = 1 - self.y * (f + b)
        error = error + 4 * EPS * (1 + np.abs(f) + abs(b))
        norm = scores.norm + ((b / self.constant) ** 2 if self.constant else 0)
        losses = LOSSES[self.loss](u)
        errors = error * SLOPES[self.loss](u + error) + 4 * EPS * losses
        P = self.lam / 2 * norm + self.c @ losses
        doubt = self.lam / 2 * (scores.norm_error + 4 * EPS * abs(norm)) + self.c @ errors
        return P, doubt + (len(u) + 4) * EPS * self.c @ losses

    def best_intercept(self, f):
        """Where the slope in b, which grows with b, changes its sign."""
        f = f[self.inside]
        low, high = (self.y - f).min() - 40, (self.y - f).max() + 40
        for _ in range(100):
            b = (low + high) / 2
            u = 1 - self.y * (f + b)
            slope = -(self.c * self.y) @ SLOPES[self.loss](u)
            low, high = (b, high) if slope < 0 else (low, b)
        return high

    def other_point(self):
        """Coefficients and intercept, by an interior-point method or by Newton's."""
        K = self.space.matrix()[np.ix_(self.inside, self.inside)] + self.constant**2
        beta = np.zeros(len(self.inside))
        with _POOLS.limit(limits=1, user_api="blas"):  # threads cost more than such matrices take
            solve = self._logistic_point if self.loss == "log_loss" else self._best_dual_point
            beta[self.inside] = solve(K)
        b = self.constant**2 * beta.sum()
        return beta, self.best_intercept(self.space.of_coefficients(beta).f) if self.free else b

    def _best_dual_point(self, K):
        """Dual variables are c t, with 0 <= t <= bound."""
        signed, bound = self.c * self.y, BOUNDS[self.loss]
        Q = signed[:, None] * K * signed / self.lam
        if self.loss != "hinge":
            Q += np.diag(self.c / 2)
        size = bound if np.isfinite(bound) else 1.0
        t = size * maximise_dual(
            size**2 * Q, size * self.c, signed if self.free else None, bounded=np.isfinite(bound)
        )
        return signed * t / self.lam

    def _logistic_point(self, K):
        """Newton's method on P, with halved steps."""
        n, ones = len(K), float(self.free) * np.ones((1, len(K)))
        beta, b, least = np.zeros(n), 0.0, np.inf
        for _ in range(100):
            u = 1 - self.y * (K @ beta + b)
            slope = SLOPES["log_loss"](u)
            bend = self.c * slope * (1 - slope)
            right = bend * (K @ beta + b) + self.c * self.y * slope
            whole = np.block([[self.lam * np.eye(n) + bend[:, None] * K, bend[:, None] * ones.T],
                              [ones, np.array([[0.0 if self.free else 1.0]])]])  # fmt: skip
            found = np.linalg.lstsq(whole, np.append(right, 0.0), rcond=None)[0]
            for halvings in range(30):
                part = 0.5**halvings
                new, at = beta + part * (found[:n] - beta), b + part * (found[n] - b)
                losses = LOSSES["log_loss"](1 - self.y * (K @ new + at))
                P = self.lam / 2 * new @ K @ new + self.c @ losses
                if least > P:
                    break
            else:
                break
            beta, b, least = new, at, P
        return beta


def maximise_dual(Q, q, v, *, bounded, n_iter=100):
    """The largest q't - t'Qt/2 with t >= 0 and, if `bounded`, t <= 1, and v't = 0 if v is given.

    A primal-dual interior-point method with Mehrotra's corrections.
    """
    n, upper = len(q), np.full(len(q), float(bounded))
    Q, q = Q / q.max(), q / q.max()
    v = np.zeros(n) if v is None else v / np.abs(v).max()
    t, z, p = np.full(n, 0.5 / max(1, Q.diagonal().max())), np.ones(n), 0.0
    s = 1 - t
    x = upper.copy()  # the multipliers of t <= 1
    best, least = t, np.inf
    for _ in range(n_iter):
        dual = q - Q @ t - p * v + z - x
        balance, room = -(v @ t), upper * (1 - t - s)
        mu = (t @ z + s @ x) / (n * (1 + bounded))
        off = max(mu, np.abs(dual).max(), abs(balance))
        if off < least:
            best, least = t, off
        if off < 1e-22:
            break
        H = Q + np.diag(z / t + x / s)

        def step(tz, sx, dual=dual, balance=balance, room=room, H=H, t=t, z=z, s=s, x=x):
            """Steps towards t z = tz and s x = sx."""
            right = dual + (tz / t - z) - (sx / s - x) + upper * x / s * room
            whole = np.block([[H, v[:, None]], [v[None], np.array([[0.0 if v.any() else 1.0]])]])
            found = np.linalg.solve(whole, np.append(right, balance))
            dt = found[:n]
            ds = upper * (room - dt)
            return dt, found[n], ds, (tz - z * dt) / t - z, upper * ((sx - x * ds) / s - x)

        def longest(dt, ds, dz, dx, t=t, z=z, s=s, x=x):
            parts = [(-a / d)[d < 0] for a, d in ((t, dt), (s, ds), (z, dz), (x, dx))]
            return min(1.0, 0.995 * np.concatenate(parts).min(initial=np.inf))

        with np.errstate(all="ignore"):
            try:
                dt, _, ds, dz, dx = step(0.0, 0.0)
                a = longest(dt, ds, dz, dx)
                after = ((t + a * dt) @ (z + a * dz) + (s + a * ds) @ (x + a * dx)) / n
                aim = mu * min(1.0, max(after / (1 + bounded) / mu, 0)) ** 3
                dt, dp, ds, dz, dx = step(aim - dt * dz, aim - ds * dx)
            except np.linalg.LinAlgError:
                break
            a = longest(dt, ds, dz, dx)
            t, s, z, x, p = t + a * dt, s + a * ds, z + a * dz, x + a * dx, p + a * dp
        if not np.isfinite(t).all():
            break
    return np.clip(best, 0, 1 if bounded else np.inf)


# ---- Checks --------------------------------------------------------------------------------------


def check_fit(case, clf, space, rows, codes, weights, second, longer):
    """Raise unless the certificate of a fit is true.

    `second` is another fit to the same rows, or None: its models are points, too. `longer` makes
    the same fit with more epochs.
    """
    weights = np.ones(len(codes)) if weights is None else weights
    if codes.ndim == 2:
        classes, columns = np.arange(codes.shape[1]), 2 * codes.T - 1
    else:
        classes, codes = np.unique(codes, return_inverse=True)
        columns = label_columns(codes, len(classes), clf.multi_class)
    if not np.array_equal(clf.classes_, classes):
        raise Wrong(f"classes_ are {clf.classes_}, should be {classes}")
    doubts = np.zeros(len(columns))
    for k, y in enumerate(columns):
        inside = (y != 0) & (weights > 0)
        if not inside.any():
            continue
        machine = Machine(
            space, inside, y[inside], weights[inside] / weights[inside].sum(), clf.lam,
            clf.loss,
            clf.intercept_scaling if clf.fit_intercept and clf.penalize_intercept else 0.0,
            clf.fit_intercept and not clf.penalize_intercept,
        )  # fmt: skip
        doubts[k] = check_problem(case, clf, k, machine, second)
        if isinstance(space, Matrix):
            check_known(clf, k, machine, rows)
    check_warning(case, clf, doubts, longer, codes.ndim == 2)
    if clf.fit_intercept and not clf.penalize_intercept:
        check_balance(clf, len(codes))


def scores_of(clf, k, space):
    if isinstance(clf, pegasos.PegasosClassifier):
        return space.of_weights(np.asarray(clf.coef_[k], np.float64))
    beta = np.zeros(len(space.matrix()))
    beta[clf.support_] = clf.dual_coef_[k]
    return space.of_coefficients(beta)


def check_problem(case, clf, k, machine, second):
    """Raise unless objective, dual objective and gap of problem `k` are true.

    Returns what rounding may do to P.
    """
    objective, dual, gap = clf.objective_[k], clf.dual_objective_[k], clf.duality_gap_[k]
    P, doubt = machine.primal(scores_of(clf, k, machine.space), clf.intercept_[k])
    objective, dual, gap = float(objective), float(dual), float(gap)
    said = f"problem {k}: objective {objective!r}, dual {dual!r}, gap {gap!r}"
    room = 2 * doubt + own_rounding(machine)
    case.note(f"  {said}, P {float(P)!r} +- {doubt:.3g}, room {room:.3g}")
    if np.isnan(gap) != np.isnan(dual) or not (
        np.isnan(gap) or abs(gap - max(objective - dual, 0)) <= 4 * EPS * abs(objective)
    ):
        raise Wrong(f"{said}, which is not their difference")
    if not abs(P - objective) <= np.nan_to_num(gap) + room:
        raise Wrong(f"{said}, but P is {float(P)!r} +- {room:.3g}: the objective is false")
    if P - dual > gap + room:
        raise Wrong(f"{said}, but P is {float(P)!r} +- {room:.3g}: the gap is too small")
    if np.isnan(dual):
        return doubt
    beta, b = machine.other_point()
    points = {"w = 0": (np.zeros_like(beta), 0.0), "an interior-point method": (beta, b)}
    least = machine.space.lack(machine.inside)
    for name, (beta, b) in points.items():
        below(said, name, machine, machine.space.of_coefficients(beta), b, dual, least, beta)
    if second is not None:
        scores = scores_of(second, k, machine.space)
        beta = np.zeros(len(machine.inside))
        if hasattr(second, "dual_coef_"):
            beta[second.support_] = second.dual_coef_[k]
        what = f"solver={second.solver!r}"
        below(said, what, machine, scores, second.intercept_[k], dual, least, beta)
    return doubt


def check_balance(clf, n):
    """Coefficients of machines with an unpenalised intercept sum to 0, except by Pegasos itself."""
    if clf.solver == "pegasos" or not hasattr(clf, "dual_coef_"):
        return
    sums, sizes = clf.dual_coef_.sum(axis=1), np.abs(clf.dual_coef_).sum(axis=1)
    if (np.abs(sums) > 4 * n * EPS * sizes).any():
        raise Wrong(f"dual_coef_ sum to {sums}, of sizes {sizes}")


def below(said, name, machine, scores, b, dual, lack, beta):
    """Raise if a point has an objective below the dual one.

    Of a matrix with an eigenvalue below 0 by `lack`, duality holds with so much on its diagonal.
    """
    P, doubt = machine.primal(scores, b)
    size = np.abs(beta[machine.inside])
    u = 1 - machine.y * (scores.f[machine.inside] + b)
    steep = SLOPES[machine.loss](u + lack * size)
    doubt += lack * (machine.lam / 2 * (beta @ beta) + machine.c @ (steep * size))
    doubt = 2 * doubt + own_rounding(machine)
    if dual > P + doubt:
        raise Wrong(
            f"{said}, but {name} reaches {float(P)!r} +- {doubt:.3g}, which is below the dual one"
        )


def own_rounding(machine):
    """What rounding in float64 may do to the dual objective, beside what the gap leaves room for.

    With D(a) >= 0, lam/2 |w(a)|^2 is at most 1, and sum a_i |x_i| at most 4 times the root of the
    weighted mean of |x_i|^2. Gaps of kernel machines have room for more than that.
    """
    terms = len(machine.inside)
    if not isinstance(machine.space, Features):
        return 8 * terms * EPS
    X = machine.space.X[machine.inside]
    rms = np.sqrt(machine.c @ (X**2).sum(axis=1) + machine.constant**2)
    w_error = (terms + X.shape[1]) * EPS * 4 * rms / machine.lam
    return 8 * terms * EPS + np.sqrt(2 * machine.lam) * w_error + machine.lam / 2 * w_error**2


def is_positive_by_form(kernel, coef0):
    """Whether all matrices of a kernel are positive semi-definite."""
    return kernel in ("linear", "rbf", "laplacian") or (kernel == "poly" and coef0 >= 0)


def is_positive(K):
    """Whether a matrix is positive semi-definite up to rounding in float64."""
    return K.trace() > 0 and np.linalg.eigvalsh(K)[0] >= -(len(K) + 1) * EPS / 4 * K.trace()


def check_known(clf, k, machine, rows):
    """Raise unless there is a gap where the matrix is positive semi-definite, and only there."""
    K, gap = machine.space.K, clf.duality_gap_[k]
    is_sure = clf.assume_psd or is_positive_by_form(clf.kernel, clf.coef0)
    size = max(K.trace(), np.abs(K).max())
    if np.isnan(gap):
        if is_sure or is_positive(K):
            least = np.linalg.eigvalsh(K)[0]
            raise Wrong(f"problem {k}: no gap, but the least eigenvalue is {least}, sizes {size}")
    elif not is_sure:
        own = np.linalg.eigvalsh(K[np.ix_(machine.inside, machine.inside)])[0]
        if own < -4 * (np.finfo(rows.dtype).eps + len(K) * EPS) * size:
            raise Wrong(f"problem {k}: a gap of {gap}, but an eigenvalue of {own}, sizes {size}")


_WORDS = re.compile(
    r"stopped (?:at max_iter=(?P<epochs>\d+)|after (?P<done>\d+) epochs?: rounding allows no "
    r"smaller gap)(?: for (?P<which>(?:class|classes|label) .*?))?\. "
    r"Objective (?P<objective>[^,]+), (?:gap (?P<gap>[^,]+), (?P<part>\S+) % of the objective|"
    r"(?P<apart>\S+) % from the dual value .*?); tol=(?P<tol>\S+) asks for"
)
# What an objective is known to, whatever the data: one that is smaller has converged.
_ROUNDING = 4 * np.finfo(np.float64).eps
# A gap has become lower if it is at most this part of what it was.
_LOWER = 0.9


def check_warning(case, clf, doubts, longer, has_columns):
    """Raise unless a warning is given where the gap is above `tol`, and its numbers are true.

    Of a gap within the `doubts` of the objectives, it may call the limit of epochs the cause only
    if more epochs lower it. Those doubts are upper bounds, and rounding does less as a rule.
    """
    tol = 1e-3 if clf.tol == "auto" else clf.tol
    objective, gap = clf.objective_, clf.duality_gap_
    relative = np.where(objective > _ROUNDING, gap / np.where(objective > 0, objective, 1), 0)
    if case.converged:
        if (relative > tol).any():
            raise Wrong(f"no warning, but gaps {gap} with objectives {objective}, tol={tol}")
        return
    case.note(f"  {case.stopped_short}")
    said = _WORDS.match(case.stopped_short[0])
    if len(case.stopped_short) > 1 or not said:
        raise Wrong(f"warned of {case.stopped_short}")
    names = [f"class {c}" for c in clf.classes_]
    if has_columns:
        names = [f"label {k}" for k in clf.classes_]
    elif clf.multi_class == "ovo":
        names = [f"classes {a} and {b}" for a, b in combinations(clf.classes_, 2)]
    k = names.index(said["which"]) if said["which"] else 0
    numbers = [("objective", objective[k])]
    if said["gap"]:
        numbers += [("gap", gap[k]), ("part", 100 * relative[k])]
        if not relative[k] > tol or relative[k] < np.nanmax(relative):
            raise Wrong(f"warned of {said[0]}, but the relative gaps are {relative}, tol={tol}")
        if gap[k] <= doubts[k] and said["done"] is None:
            least = longer().duality_gap_[k]
            if not least <= _LOWER * gap[k]:
                raise Wrong(f"warned of {said[0]}, but {least} is the gap after more epochs")
    elif not np.isnan(gap[k]):
        raise Wrong(f"warned of {said[0]}, but the gap is {gap[k]}")
    for name, number in numbers:
        if abs(float(said[name]) - number) > 0.01 * abs(number):
            raise Wrong(f"warned of {said[0]}, but its {name} is {number}")
    epochs = int(said["epochs"] or said["done"])
    if clf.n_iter_ < epochs or (said["done"] and clf.n_iter_ != epochs):
        raise Wrong(f"warned of {said[0]}, but n_iter_ is {clf.n_iter_}")


# ---- Kinds of cases ------------------------------------------------------------------------------


def fit(case, estimator, rows, codes, weights):
    what = f"{told(estimator)}.fit({rows.name}, {len(np.unique(codes))} classes)"
    return case.call(what, lambda: estimator.fit(rows.X, codes, sample_weight=weights))


def fit_and_check(case, estimator, rows, codes):
    """A fit, sometimes another one by another solver, and all checks."""
    weights = draw_weights(case, codes if codes.ndim == 1 else codes[:, 0])
    if codes.ndim == 2 and weights is not None:
        weights[weights == 0] = 1.0  # or a label may be that of all rows
    clf = fit(case, estimator, rows, codes, weights)
    converged, short, second = case.converged, case.stopped_short, None
    if case.chance(0.3):
        other = {"auto": "sdca", "sdca": "newton", "newton": "auto", "pegasos": "auto"}
        twin = clone(clf).set_params(solver=other[clf.solver], tol=1e-9, max_iter=1000)
        second = fit(case, twin, rows, codes, weights)
    case.converged, case.stopped_short = converged, short

    def longer():
        other = clone(clf).set_params(max_iter=max(1000, 10 * clf.max_iter))
        return fit(case, other, rows, codes, weights)

    check_fit(case, clf, space_of(clf, rows, weights), rows, codes, weights, second, longer)


def space_of(clf, rows, weights):
    """Where the models of an estimator are."""
    if isinstance(clf, pegasos.PegasosClassifier) or clf.kernel == "linear":
        return Features(rows.values)
    if clf.kernel == "precomputed":
        return Matrix(rows.values, np.zeros_like(rows.values))
    gamma = clf.to_model().kernel["gamma"]
    if clf.gamma == "scale" and not callable(clf.kernel):
        A = rows.values
        c = np.ones(len(A)) if weights is None else weights / weights.sum()
        mean = np.average(A.mean(axis=1), weights=c)
        variance = np.average(((A - mean) ** 2).mean(axis=1), weights=c)
        should = 1 / (A.shape[1] * variance) if variance > 0 else 1.0
        if abs(gamma - should) > 1e-6 * should:
            raise Wrong(f"gamma is {gamma}, should be {should}")
    return Matrix(
        *kernel_values(
            clf.kernel, gamma, clf.degree, clf.coef0, clf.kernel_params or {}, rows.values
        )
    )


def linear(case):
    rows = draw_rows(case)
    estimator = pegasos.PegasosClassifier(**draw_options(case))
    fit_and_check(case, estimator, rows, draw_codes(case, rows.values))


def fit_kernel(case, rows, options):
    options["cache_size"] = case.pick(1000, 1000, 0, 0.001)
    name, K = options["kernel"], rows.values
    if callable(name):
        K, _ = kernel_values(name, None, None, None, options["kernel_params"], rows.values)
    is_sure = options.get("assume_psd") or is_positive_by_form(name, options.get("coef0"))
    is_sure = is_sure or (name not in ("poly", "sigmoid") and is_positive(K))
    if options["loss"] != "hinge" and not is_sure:
        case.may_be_refused("positive semi-definite")
    estimator = pegasos.KernelPegasosClassifier(**options)
    fit_and_check(case, estimator, rows, draw_codes(case, rows.values))


def kernel(case):
    rows = draw_rows(case)
    options = draw_options(case)
    size = max(np.mean(rows.values**2) * rows.values.shape[1], 1e-6)
    options |= {
        "kernel": case.pick("rbf", "rbf", "linear", "laplacian", "poly", "sigmoid"),
        "gamma": case.pick("scale", float(case.pick(0.1, 1, 10) / size)),
        "degree": case.pick(1, 2, 3),
        "coef0": case.pick(0.0, 1.0, -0.5),
    }
    case.may_be_refused("float64 cannot hold")  # gamma="scale" of rows that are one number
    fit_kernel(case, rows, options)


def function(case):
    rows = draw_rows(case)
    options = draw_options(case) | draw_function(case, rows.values)
    options["assume_psd"] = options["kernel"] in (gauss, product) and case.chance(0.3)
    fit_kernel(case, rows, options)


def matrix(case):
    rows = draw_matrix(case, case.integer(6, 60))
    fit_kernel(case, rows, draw_options(case) | {"kernel": "precomputed"})


def losses_of(loss, epsilon, u, doubt):
    """l(u) of a loss of regression, and what errors of u up to `doubt` may do to it."""
    size, most = np.abs(u), np.abs(u) + doubt
    over = np.maximum(size - epsilon, 0)
    return {
        "epsilon_insensitive": (over, doubt),
        "squared_epsilon_insensitive": (over**2, 2 * most * doubt),
        "huber": (np.where(size < epsilon, u**2 / 2, epsilon * size - epsilon**2 / 2),
                  np.minimum(most, epsilon) * doubt),
        "squared_error": (u**2 / 2, most * doubt),
    }[loss]  # fmt: skip


def regression_objective(reg, space, y, c, w, b):
    """P of an output where `w` are weights, or coefficients of all rows, and what rounding does."""
    scores = space.of_weights(w) if isinstance(space, Features) else space.of_coefficients(w)
    doubt = scores.f_error + 8 * EPS * (np.abs(scores.f) + abs(b) + np.abs(y))
    values, doubts = losses_of(reg.loss, reg.epsilon, y - scores.f - b, doubt)
    is_penalized = reg.fit_intercept and reg.penalize_intercept
    norm = scores.norm + (b / reg.intercept_scaling) ** 2 * is_penalized
    P, share = reg.lam_ / 2 * norm + c @ values / c.sum(), c / c.sum()
    # Solvers count in the unit of y: rounding of the largest target's loss is theirs.
    own = (
        64 * EPS * losses_of(reg.loss, 0.0 if reg.loss != "huber" else reg.epsilon, y, 0.0)[0].max()
    )
    return P, reg.lam_ / 2 * scores.norm_error + share @ doubts + len(y) * EPS * 8 * P + own


def regression(case):
    """Several outputs in any unit: P summed again, and no point below the dual objective."""
    rows = draw_rows(case)
    options, A = draw_options(case), rows.values
    del options["multi_class"]
    unit, n_outputs = case.pick(1.0, 1.0, 1e-9, 1e6), case.pick(1, 1, 3)
    scores = A @ case.rng.normal(size=(A.shape[1], n_outputs))
    Y = scores / max(np.abs(scores).max(), 1e-300) + case.pick(0.01, 1) * case.rng.normal(
        size=scores.shape
    )
    Y = unit * (Y + case.pick(0, 0, 10))
    options["loss"] = case.pick(*TARGET_LOSSES)
    options["epsilon"] = float(unit * 10 ** case.rng.uniform(case.pick(-3, -8), 0.3))
    if options["loss"] == "epsilon_insensitive":
        options["lam"] /= unit
    make, space = pegasos.PegasosRegressor, Features(A)
    if case.chance(0.5):
        options["gamma"] = float(case.pick(0.1, 1) / max(np.mean(A**2) * A.shape[1], 1e-6))
        make = pegasos.KernelPegasosRegressor
        space = Matrix(*kernel_values("rbf", options["gamma"], None, None, None, A))
    weights = draw_weights(case, (np.arange(len(Y)) % 2).astype(int))
    c = np.ones(len(Y)) if weights is None else weights
    y = Y[:, 0] if n_outputs == 1 and case.chance(0.5) else Y

    def fitted(reg):
        what = f"{told(reg)}.fit({rows.name}, y of {y.shape})"
        return case.call(what, lambda: reg.fit(rows.X, y, sample_weight=weights))

    def point(reg, k):
        if make is pegasos.PegasosRegressor:
            return np.atleast_2d(reg.coef_)[k], reg.intercept_[k]
        beta = np.zeros(len(Y))
        beta[reg.support_] = reg.dual_coef_[k]
        return beta, reg.intercept_[k]

    reg = fitted(make(**options))
    converged = case.converged
    other = {"auto": "sdca", "sdca": "newton", "newton": "auto", "pegasos": "auto"}[reg.solver]
    second = fitted(clone(reg).set_params(solver=other, tol=1e-9, max_iter=1000))
    for k, z in enumerate(Y.T):
        constant = np.average(z, weights=c) if reg.fit_intercept else 0.0
        points = {
            "w = 0": (np.zeros_like(point(reg, k)[0]), constant),
            f"solver={second.solver!r}": point(second, k),
        }
        objective = partial(regression_objective, reg, space, z, c)
        check_bounds(case, reg, k, converged, objective, point(reg, k), points)


def check_bounds(case, machine, k, converged, value, point, others, size=None, least=0.0):
    """Raise unless the certificate of problem `k` is true.

    `value` of a point is its P, and what rounding may do to that; `point` is that of the fit,
    `others` have names. Gaps are parts of `size`, or of the objective. A gap of `least` is rounding
    in the numbers in which solvers count.
    """
    objective, dual, gap = (
        float(a[k]) for a in (machine.objective_, machine.dual_objective_, machine.duality_gap_)
    )
    P, room = value(*point)
    said = (
        f"problem {k}: objective {objective!r}, dual {dual!r}, gap {gap!r}, P {P!r} +- {room:.3g}"
    )
    case.note(f"  {said}")
    if not abs(gap - max(objective - dual, 0)) <= 4 * EPS * abs(objective):
        raise Wrong(f"{said}: the gap is not the difference")
    if abs(P - objective) > room + EPS * 64 * abs(objective) or P - dual > gap + 2 * room:
        raise Wrong(f"{said}: the objective or the gap is false")
    size, tol = objective if size is None else size, machine.tol
    least = max(least, _ROUNDING if 0 <= objective <= _ROUNDING else 0)
    if converged and gap > (1e-3 if tol == "auto" else tol) * size + 2 * room + least:
        raise Wrong(f"{said}: no warning, tol={tol}")
    for name, at in others.items():
        other, doubt = value(*at)
        if other < dual - doubt - room:
            raise Wrong(f"{said}, but {name} has P {other!r} +- {doubt:.3g}")


def one_class(case):
    """P summed again, and neither w = 0 nor another solver's model is below the dual objective."""
    rows = draw_rows(case)
    A, options = rows.values, draw_options(case)
    options = {name: options[name] for name in ("solver", "tol", "max_iter", "random_state")}
    options["nu"] = float(case.pick(1.0, 10 ** case.rng.uniform(-4, 0)))
    make, space = pegasos.PegasosOneClass, Features(A)
    if case.chance(0.5):
        options["gamma"] = float(case.pick(0.1, 1) / max(np.mean(A**2) * A.shape[1], 1e-6))
        make = pegasos.KernelPegasosOneClass
        space = Matrix(*kernel_values("rbf", options["gamma"], None, None, None, A))
    weights = draw_weights(case, np.arange(len(A)) % 2)
    c = np.ones(len(A)) if weights is None else weights
    norms = (A**2).sum(axis=1) if make is pegasos.PegasosOneClass else np.ones(len(A))
    # Solvers count in this; where there is none, in 1.
    unit = options["nu"] * (c @ norms) / c.sum() or options["nu"]

    def fitted(one):
        what = f"{told(one)}.fit({rows.name})"
        return case.call(what, lambda: one.fit(rows.X, sample_weight=weights))

    def point(one):
        if make is pegasos.PegasosOneClass:
            return one.coef_[0], one.intercept_[0]
        beta = np.zeros(len(A))
        beta[one.support_] = one.dual_coef_[0]
        return beta, one.intercept_[0]

    def objective(w, b):
        scores = space.of_weights(w) if isinstance(space, Features) else space.of_coefficients(w)
        doubt = scores.f_error + 8 * EPS * (np.abs(scores.f) + abs(b))
        nu, share = options["nu"], c / c.sum()
        P = nu / 2 * scores.norm + share @ np.maximum(0, -scores.f - b) + nu * b
        return P, nu / 2 * scores.norm_error + share @ doubt + 64 * EPS * (unit + nu * abs(b))

    one = fitted(make(**options))
    converged = case.converged
    other = {"auto": "sdca", "sdca": "newton", "newton": "auto", "pegasos": "auto"}[one.solver]
    second = fitted(clone(one).set_params(solver=other, tol=1e-9, max_iter=1000))
    points = {"w = 0": (0 * point(one)[0], 0.0), f"solver={second.solver!r}": point(second)}
    size = abs(one.dual_objective_[0])
    least = 8 * EPS * unit / options["nu"]  # they take 4 EPS of up to twice the mean norm for 0
    if not point(one)[0].any():  # P = 0, and |D| is rounding at best, so that no tol is reached
        least = max(least, _warnings._OF_ROUNDING * unit)
    check_bounds(case, one, 0, converged, objective, point(one), points, size, least)
    scores = one.decision_function(rows.X)
    w, b = point(one)
    f = (space.of_weights(w) if isinstance(space, Features) else space.of_coefficients(w)).f + b
    if (np.abs(scores - f) > 1e-5 * (np.abs(f).max() + abs(b))).any():
        raise Wrong(f"decision_function is {scores}, should be {f}")


def joint(case):
    """Crammer and Singer's P summed again, and other points of it."""
    rows = draw_rows(case)
    A, options = rows.values, draw_options(case)
    options |= {"loss": "hinge", "multi_class": "crammer_singer"}
    options["average"] = case.pick(False, True, "suffix")
    codes = draw_codes(case, A)
    n_classes = len(np.unique(codes))
    cost = 1.0 - np.eye(n_classes)
    if case.chance(0.5):
        cost *= case.rng.uniform(0, 3, cost.shape) * case.pick(1.0, 1e-3, 100.0)
        options["cost"] = cost
    weights = draw_weights(case, codes)
    share = np.ones(len(A)) if weights is None else weights
    share = share / share.sum()

    def fitted(clf):
        what = f"{told(clf)}.fit({rows.name}, {n_classes} classes)"
        return case.call(what, lambda: clf.fit(rows.X, codes, sample_weight=weights))

    def point(clf):
        coef, b = clf.coef_, clf.intercept_
        return (coef, b) if n_classes > 2 else (np.vstack([-coef, coef]) / 2, np.r_[-b, b] / 2)

    clf = fitted(pegasos.PegasosClassifier(**options))
    converged = case.converged
    second = fitted(clone(clf).set_params(solver="sdca", tol=1e-9, max_iter=1000))

    def objective(W, b):
        all_of = [Features(A).of_weights(w) for w in W]
        S = np.stack([scores.f for scores in all_of], axis=1) + b
        error = np.stack([scores.f_error for scores in all_of], axis=1).max(axis=1)
        error += 8 * EPS * (np.abs(S).max(axis=1) + cost.max())
        losses = (cost[codes] + S - S[np.arange(len(S)), codes][:, None]).max(axis=1)
        norm = sum(scores.norm for scores in all_of)
        if clf.fit_intercept and clf.penalize_intercept:
            norm += ((b / clf.intercept_scaling) ** 2).sum()
        doubt = clf.lam_ / 2 * sum(scores.norm_error for scores in all_of) + share @ error * 2
        P = clf.lam_ / 2 * norm + share @ losses
        return P, doubt + 64 * EPS * (P + share @ cost[codes].max(axis=1))

    points = {"w = 0": (0 * point(clf)[0], 0 * point(clf)[1]), "a longer fit": point(second)}
    check_bounds(case, clf, 0, converged, objective, point(clf), points)


def several_labels(case):
    """A problem for each column of y; each has rows of both kinds."""
    rows = draw_rows(case)
    A, n_labels = rows.values, case.pick(2, 3, 5)
    Y = (A @ case.rng.normal(size=(A.shape[1], n_labels)) > 0).astype(int)
    Y[case.rng.random(Y.shape) < case.pick(0, 0.2)] ^= 1
    Y[:2] = [[0], [1]]
    options = draw_options(case)
    if case.chance(0.5):
        estimator = pegasos.PegasosClassifier(**options)
    else:
        gamma = float(case.pick(0.1, 1) / max(np.mean(A**2) * A.shape[1], 1e-6))
        estimator = pegasos.KernelPegasosClassifier(**options, gamma=gamma)
    fit_and_check(case, estimator, rows, Y)


KINDS = {
    "regression": (regression, 3),
    "linear": (linear, 2),
    "kernel": (kernel, 4),
    "function": (function, 2),
    "matrix": (matrix, 3),
    "one class": (one_class, 2),
    "joint": (joint, 2),
    "several labels": (several_labels, 2),
}


if __name__ == "__main__":
    sys.exit(random_calls.main(sys.argv[1:], __doc__, __file__, KINDS))
