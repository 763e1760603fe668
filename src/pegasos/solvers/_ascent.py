"""Dual coordinate ascent: for many features.

``csrc/ascent.c`` has the algorithm, the gap checks and when to stop, ``csrc/bundle.c`` the first
epochs of several problems; here are the arrays.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _certificate, _rows, _validate
from pegasos.problems._problem import Problem
from pegasos.solvers import _pegasos
from pegasos.solvers._pegasos import Settings
from pegasos.solvers._solver import Solver

#: Layout of one problem's state, that of ``struct pegasos_dual``.
ASCENT = np.asarray(_core.BLANK_DUAL).dtype
#: Layout of where its run stands, that of ``struct pegasos_ascent``.
RUN = np.asarray(_core.BLANK_ASCENT).dtype

# Epochs that problems begin with as bundles, at most, before each leaves out rows of its own; a
# bundle costs as much as three problems.
SWEEPS, _LEAST_BUNDLE = 8, 3
# From where on a bundle's factor is folded into its vectors, whose numbers get small beside it.
_LARGEST_FACTOR = 1e6


def blank_ascents(n_problems: int, seed: int) -> np.ndarray:
    """The states of problems before their first epoch, each with a generator of its own."""
    ascents = np.zeros(n_problems, ASCENT)
    ascents["factor"] = 1
    ascents["generator"] = np.random.SeedSequence([seed, 1]).generate_state(n_problems, np.uint64)
    return ascents


def goes_in_bundles(n_problems: int) -> bool:
    """Whether problems begin together."""
    return n_problems >= _LEAST_BUNDLE


def features_of(problem: Problem, norms: np.ndarray) -> np.ndarray:
    """The value of the constant feature of each problem; `norms` are |x_i|^2 of all rows.

    An unpenalised intercept has one as well: see `shift`. It is as large as the problem's rows:
    other rows, which may be much larger, would make steps too short.
    """
    features = np.full(len(problem), problem.settings.constant_feature)
    if problem.settings.free_intercept:
        for k, y in enumerate(problem.labels):
            inside = np.abs(norms[y != 0])
            features[k] = max(np.sqrt(inside.mean()) if len(inside) else 0, 1e-3)
    return features


def blank_runs(n_problems: int, **fields: Any) -> np.ndarray:
    """Where runs of problems stand before their first epoch."""
    runs = np.zeros(n_problems, RUN)
    for name in ("estimate", "estimate_at_check", "primal", "relative_gap"):
        runs[name] = np.inf
    for name, value in fields.items():
        runs[name] = value
    return runs


def order_of(inside: np.ndarray, seed: int, next_draw: int) -> _core.Order:
    """The order in which a bundle visits the rows `inside`, before draw number `next_draw`."""
    permutation = np.empty(len(inside), np.int64)
    return _core.Order(seed, permutation, _core.SAMPLINGS["permutation"], next_draw)


def change_lam(
    ascents: np.ndarray,
    a: np.ndarray,
    v: np.ndarray,
    masses: np.ndarray,
    lam: float,
    before: float,
    diagonal: np.ndarray,
) -> None:
    """Bring a bundle from the λ `before` to a smaller one, in place.

    With q = before/lam, w(a) becomes q w. Of the points r a, that of the best dual value is taken,
    where 1/q <= r <= 1: at r = 1/q, w stays as it is, as it does for small λ once no row is at its
    bound; at r = 1, a does. D(r a) = r A - r^2 B, with A = sum_i a_i/m and B = lam/2 |q w|^2 +
    sum_i h_i a_i^2/(2m), is highest at A/(2 B). `diagonal` has the h_i of `Loss.diagonal`.
    """
    k, q = len(ascents), before / lam
    twice_b, r = lam * q**2 * ascents["squared_norm"], np.ones(a.shape[1])
    twice_b = twice_b + (diagonal[:, None] * a * a).sum(axis=0)[:k] / masses
    linear = a.sum(axis=0)[:k] / masses
    np.divide(linear, twice_b, out=r[:k], where=twice_b > 0)
    np.clip(r, 1 / q, 1, out=r)
    a *= r
    ascents["scale"] = 1 / (lam * masses)
    ascents["squared_norm"] *= (q * r[:k]) ** 2
    for of_w in ("constant_weight", "factor"):
        ascents[of_w] *= q * r[:k]
    if ascents["factor"].max() > _LARGEST_FACTOR:
        v[:, :k] *= ascents["factor"].astype(v.dtype)
        ascents["factor"] = 1


def shift(ascents: np.ndarray) -> None:
    """Move the intercepts of problems whose intercept is not penalised.

    Such a problem has the condition sum_i a_i y_i = 0, which steps along single coordinates cannot
    meet. A constant feature B penalises the distance of b from a reference b_0 instead; moving b_0
    to b after every epoch takes the penalty away (the method of multipliers).
    """
    ascents["intercept"] += ascents["intercept_scaling"] * ascents["constant_weight"]


class LamPath:
    """A bundle of problems on the way along a path of λ, from large ones to small ones.

    A λ begins where the last one ended, the first with an epoch of Pegasos.

    Parameters
    ----------
    problem : pegasos.problems._problem.Problem
        Of which λ does not matter.
    norms : ndarray of shape (n_rows,)
        |x_i|^2.
    seed : int
    """

    def __init__(self, problem: Problem, norms: np.ndarray, seed: int) -> None:
        self.problem, self.norms = problem, norms
        rows, labels, row_weights = problem.rows, problem.labels, problem.row_weights
        (k, n), d, lanes = labels.shape, rows.shape[1], _pegasos.lanes(rows)
        weights = 1.0 if row_weights is None else np.maximum(row_weights, 1e-300)
        self.diagonal = np.broadcast_to(problem.settings.loss.diagonal(weights), n)
        self.labels = _pegasos.interleaved(labels, lanes)
        self.inside = np.flatnonzero(labels.any(axis=0))
        self.ascents = blank_ascents(k, seed)
        self.ascents["intercept_scaling"] = features_of(problem, norms)
        self.ascents["loss"] = problem.settings.loss.number
        self.ascents["pegasos_mass"] = problem.masses
        self.runs = blank_runs(
            k, mass=problem.masses, tol=-1, free_intercept=problem.settings.free_intercept,
            n_inside=problem.n_inside,
        )  # fmt: skip
        self.a = _pegasos.aligned_zeros((n, lanes), np.float64)
        self.v, self.mean = (
            _pegasos.aligned_zeros((d + more, lanes), f"f{rows.value_bytes}") for more in (0, 1)
        )
        if len(self.inside):  # of two classes, a fold may have no row
            self.order = order_of(self.inside, seed, 0)
        self.lam, self.n_epochs = 0.0, 0

    def run(self, lam: float, n_epochs: int, tell: Callable[[], None]) -> None:
        """Make `n_epochs` epochs at `lam`, at most that of the call before; calls `tell`."""
        ascents, problem = self.ascents, self.problem
        if self.n_epochs == 0:
            ascents["scale"] = 1 / (lam * problem.masses)
        else:
            ascents["pegasos_mass"] = 0
            change_lam(ascents, self.a, self.v, problem.masses, lam, self.lam, self.diagonal)
            if problem.settings.free_intercept:
                shift(ascents)
        self.runs["lam"], self.runs["part"], self.runs["n_epochs"] = (
            lam,
            _core.BUNDLE,
            self.n_epochs,
        )
        self.lam, self.n_epochs = lam, self.n_epochs + n_epochs
        if len(self.inside):
            _core.bundle_run(
                problem.rows, self.order, self.inside, ascents, self.runs, self.labels,
                problem.row_weights, self.norms, self.a, self.v, self.mean, self.n_epochs,
                _core.Watch(tell),
            )  # fmt: skip

    def model(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means of w over the last half epoch, the factors to divide them by, and intercepts."""
        d, k = len(self.v), len(self.ascents)
        constant = self.ascents["intercept_scaling"] * self.mean[d, :k]
        return self.mean[:d].T, self.ascents["factor"], self.ascents["intercept"] + constant


class DualAscent(Solver):
    """Dual coordinate ascent. `w` is w(a)."""

    name = "sdca"
    is_exact = True
    _ARRAYS = (*Solver._ARRAYS, "ascents", "runs", "w", "sums", "active")

    @staticmethod
    def cost(rows: _core.Rows) -> float:
        """About 15 epochs where features are many, four times as many where rows are.

        Their additions to w, in random order, cost as much as another pass.
        """
        n, d = rows.shape
        return 2 * (15 if n < 2 * d else 60) * _rows.seconds_a_pass(rows)

    @staticmethod
    def head_start(n_problems: int) -> int:
        """Several problems begin as bundles."""
        return SWEEPS if goes_in_bundles(n_problems) else 0

    @staticmethod
    def begins_with_pegasos(rows: _core.Rows) -> bool:
        """Always, with steps of exact length instead of 0 or 1."""
        return True

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, n_features, seed)
        self.ascents = blank_ascents(n_problems, seed)
        self.runs = blank_runs(n_problems)
        for name in ("intercept", "primal", "relative_gap", "n_epochs", "n_visits", "n_steps"):
            setattr(self, name, self.runs[name])  # the core writes what a `Solver` has
        self.w = np.zeros((n_problems, n_features))
        # Sums over the snapshots of the epoch under way, the constant feature last.
        self.sums = np.zeros((n_problems, n_features + 1))
        self.active = np.zeros((n_problems, n_rows), np.int64)

    def begin(self, problem: Problem, start: Any = None) -> Any:
        start = super().begin(problem, start)
        self.norms = _rows.squared_norms(problem.rows)
        if start is None:
            self._check_kept()
        for name, value in (
            ("lam", self.settings.lam), ("mass", self.mass), ("n_inside", self.n_inside),
            ("free_intercept", self.settings.free_intercept),
        ):  # fmt: skip
            self.runs[name] = value
        most = self.settings.loss.most(1.0 if self.row_weights is None else self.row_weights)
        np.clip(self.a, 0, most, out=self.a)
        self.a *= self.labels != 0
        self.ascents["scale"] = 1 / (self.settings.lam * self.mass)
        self.ascents["intercept_scaling"] = features_of(problem, self.norms)
        self.ascents["loss"] = self.settings.loss.number
        runs, bundles = self.runs, self._bundles()
        anew = np.ones(len(self.a), bool)
        if start is None:
            anew[:] = [not self._is_at_w(k) for k in range(len(self.a))]
            for part in bundles:  # of which no problem goes on without the others
                if anew[part].any() or np.ptp(runs["part"][part]) or np.ptp(runs["place"][part]):
                    anew[part] |= runs["part"][part] == _core.BUNDLE
        for name in ("primal", "relative_gap", "estimate", "estimate_at_check"):
            runs[name][anew] = np.inf
        for name in (
            "n_visits", "n_visits_at_estimate", "n_visits_at_check", "n_snapshots", "part", "place",
            "patience", "has_stopped",
        ):  # fmt: skip
            runs[name][anew] = 0
        self.sums[anew] = 0
        started = self.ascents[anew]
        _core.dual_start(started, self.n_inside[anew])
        self.ascents[anew] = started
        for k in np.flatnonzero(anew).tolist():
            self._restart(k, start is not None)
        for part in bundles:
            if anew[part].all() and self.n_inside[part].any():
                runs["part"][part] = _core.BUNDLE

    def _is_at_w(self, k: int) -> bool:
        """Whether problem k is at w(a) up to rounding; if not, its rows have changed."""
        problem, run = self.ascents[k], self.runs[k]
        distance = np.abs(self._weights_of(k)[0] - self.w[k]).max(initial=0)
        lengths = np.sqrt(self.norms + problem["intercept_scaling"] ** 2)
        summed = problem["scale"] * (self.a[k] * lengths).sum()
        is_coarse = self.rows.value_bytes == 4 and run["part"] in (_core.BUNDLE, _core.WEIGHTS)
        return distance <= (1e-4 if is_coarse else 1e-9) * summed

    def _restart(self, k: int, moved: bool) -> None:
        """Let problem k go on from w(a), with the best intercept if it has `moved` there."""
        problem, inside = self.ascents[k], np.flatnonzero(self.labels[k])
        w, constant = self._weights_of(k)
        self.w[k], problem["constant_weight"] = w, constant
        problem["squared_norm"] = _certificate.inner(w, w) + constant**2
        if self.settings.free_intercept and moved:
            best = _certificate.best_intercepts(self.problem.only(k), w[None])
            problem["intercept"] = best[0]
        self.coef[k] = w
        self.intercept[k] = problem["intercept"] + problem["intercept_scaling"] * constant
        self.active[k, : len(inside)] = inside
        if not self.a[k].any():
            problem["pegasos_mass"] = self.mass[k]

    def _weights_of(self, k: int) -> tuple[np.ndarray, float]:
        if not self.a[k].any():
            return np.zeros(self.rows.shape[1]), 0.0
        w, _ = _certificate.weights_of(self.problem, k, self.a[k])
        total = (self.a[k] * self.labels[k]).sum() * self.ascents["scale"][k]
        return w, self.ascents["intercept_scaling"][k] * total

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        self.runs["tol"] = -1 if tol is None else tol
        self.runs["last_epoch"] = self.base + max_iter
        jobs = [
            functools.partial(self._begin_together, part, min(SWEEPS, max_iter))
            for part in self._bundles()
            if self.runs["part"][part.start] == _core.BUNDLE
        ]
        _threads.in_threads(jobs, n_threads, on_progress)
        jobs = [functools.partial(self._ascend, k) for k in range(len(self.a))]
        _threads.in_threads(jobs, n_threads, on_progress)

    def be_patient(self, n_epochs: int) -> None:
        self.runs["patience"] = n_epochs * self.n_inside

    @property
    def has_given_up(self) -> bool:
        return bool(self.runs["has_stopped"].any())

    def end_plan(self) -> None:
        super().end_plan()
        self.runs["patience"] = self.runs["has_stopped"] = 0

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | {"runs": self.runs.copy()}  # which `end_plan` writes to

    def _bundles(self) -> list[slice]:
        """The problems that begin together, as slices."""
        n = len(self.a)
        n_parts = -(-n // _pegasos.lanes(self.rows)) if goes_in_bundles(n) else 0
        return [slice(j * n // n_parts, (j + 1) * n // n_parts) for j in range(n_parts)]

    def _watch(self, tell: Callable[[], None]) -> _core.Watch:
        return _core.Watch(tell, by_epochs=self.by_epochs)

    def _begin_together(self, part: slice, n_epochs: int, tell: Callable[[], None]) -> None:
        """The first epochs of the problems `part`."""
        lanes, narrow = _pegasos.lanes(self.rows), f"f{self.rows.value_bytes}"
        labels, runs = _pegasos.interleaved(self.labels[part], lanes), self.runs[part]
        inside = np.flatnonzero(self.labels[part].any(axis=0))
        first = int(runs["n_epochs"][0]) * len(inside) + int(runs["place"][0])
        order, last = order_of(inside, self.seed, first), int(self.base[part.start]) + n_epochs
        with _pegasos.bundled(
            lanes, self.a[part], self.w[part], self.sums[part],
            dtypes=(np.float64, narrow, narrow),
        ) as (a, v, sums):  # fmt: skip
            _core.bundle_run(
                self.rows, order, inside, self.ascents[part], runs, labels, self.row_weights,
                self.norms, a, v, sums, last, self._watch(tell),
            )  # fmt: skip

    def _ascend(self, k: int, tell: Callable[[], None]) -> None:
        """Bring problem k to the end of its run."""
        (n, d), run, known = self.rows.shape, self.runs[k : k + 1], self.primal[k]
        is_free = self.settings.free_intercept
        scratch = (
            np.empty(d),
            np.empty(n) if is_free else None,
            np.empty(4 * n) if is_free else None,
        )
        try:
            status = _core.ascent_run(
                self.rows, self.ascents[k : k + 1], run, self.labels[k], self.row_weights,
                self.norms, self.active[k], self.a[k], self.w[k], self.sums[k], self.coef[k],
                *scratch, self._watch(tell),
            )  # fmt: skip
        finally:
            self.is_seen[k] |= self.primal[k] < known
        if status == _core.OVERFLOW:
            raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
