"""Dual coordinate ascent in bundles along a path of λ, for searches by epochs.

``csrc/ascent.c`` has the algorithm, ``csrc/bundle.c`` the epochs of several problems; here are the
arrays.
"""

from collections.abc import Callable

import numpy as np

from pegasos import _core
from pegasos.problems._problem import Problem
from pegasos.solvers import _pegasos

# From where on a bundle's factor is folded into its vectors, whose numbers get small beside it.
_LARGEST_FACTOR = 1e6


def blank_ascents(n_problems: int, seed: int) -> np.ndarray:
    """The states of problems before their first epoch, each with a generator of its own."""
    ascents = np.zeros(n_problems, _core.DUAL_STATE)
    ascents["factor"] = 1
    ascents["generator"] = np.random.SeedSequence([seed, 1]).generate_state(n_problems, np.uint64)
    return ascents


def features_of(problem: Problem, norms: np.ndarray) -> np.ndarray:
    """The value of the constant feature of each problem; `norms` are |x_i|^2 of all rows.

    An unpenalised intercept has one as well: see ``pegasos_ascent`` and ``pegasos_free_feature``.
    """
    features = np.full(len(problem), problem.settings.constant_feature)
    if problem.settings.free_intercept:
        for k, y in enumerate(problem.labels):
            inside = norms[y != 0]
            features[k] = _core.free_feature(inside.mean() if len(inside) else 0)
    return features


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


class LamPath:
    """A bundle of problems on the way along a path of λ, from large ones to small ones.

    A λ begins where the last one ended, the first with an epoch of Pegasos. `norms` are |x_i|^2.
    """

    def __init__(self, problem: Problem, norms: np.ndarray, seed: int) -> None:
        self.problem, self.norms = problem, norms
        rows, labels, row_weights = problem.rows, problem.labels, problem.row_weights
        (k, n), d, lanes = labels.shape, rows.shape[1], _pegasos.lanes(rows)
        weights = 1.0 if row_weights is None else np.maximum(row_weights, 1e-300)
        self.diagonal = np.broadcast_to(problem.settings.loss.diagonal / weights, n)
        self.labels = _pegasos.interleaved(labels, lanes)
        self.inside = np.flatnonzero(labels.any(axis=0))
        self.ascents = blank_ascents(k, seed)
        self.ascents["intercept_scaling"] = features_of(problem, norms)
        self.ascents["pegasos_mass"] = problem.masses
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
            change_lam(ascents, self.a, self.v, problem.masses, lam, self.lam, self.diagonal)
        self.lam, self.n_epochs = lam, self.n_epochs + n_epochs
        if len(self.inside):
            _core.bundle_run(
                problem.rows, self.order, self.inside, ascents, problem.settings.free_intercept,
                self.labels, problem.row_weights, self.norms, self.a, self.v, self.mean,
                self.n_epochs, _core.Watch(tell), problem.settings.loss.form,
            )  # fmt: skip

    def model(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means of w over the last half epoch, the factors to divide them by, and intercepts."""
        d, k = len(self.v), len(self.ascents)
        constant = self.ascents["intercept_scaling"] * self.mean[d, :k]
        return self.mean[:d].T, self.ascents["factor"], self.ascents["intercept"] + constant
