"""Losses of u = z - y f(x), their derivatives, conjugates and bounds, by their definitions."""

import numpy as np
from scipy.special import entr, expit

from pegasos import _core

EPSILON = 0.3


def _beyond(u):
    return np.maximum(np.abs(u) - EPSILON, 0)


#: l(u) of losses that take labels: z = 1.
LOSSES = {
    "hinge": lambda u: np.maximum(u, 0),
    "squared_hinge": lambda u: np.maximum(u, 0) ** 2,
    "modified_huber": lambda u: np.where(u > 2, 4 * u - 4, np.maximum(u, 0) ** 2),
    "log_loss": lambda u: np.logaddexp(0, u - 1),
}
SMOOTH = [loss for loss in LOSSES if loss != "hinge"]
#: Of those that take targets: y = 1.
TARGET_LOSSES = {
    "epsilon_insensitive": _beyond,
    "squared_epsilon_insensitive": lambda u: _beyond(u) ** 2,
    "huber": lambda u: np.where(
        np.abs(u) < EPSILON, u**2 / 2, EPSILON * np.abs(u) - EPSILON**2 / 2
    ),
    "squared_error": lambda u: u**2 / 2,
}
ALL = LOSSES | TARGET_LOSSES

#: l'(u)
SLOPES = {
    "hinge": lambda u: (u > 0).astype(float),
    "squared_hinge": lambda u: 2 * np.maximum(u, 0),
    "modified_huber": lambda u: np.clip(2 * u, 0, 4),
    "log_loss": lambda u: expit(u - 1),
    "epsilon_insensitive": lambda u: np.sign(u) * (np.abs(u) > EPSILON),
    "squared_epsilon_insensitive": lambda u: 2 * np.sign(u) * _beyond(u),
    "huber": lambda u: np.clip(u, -EPSILON, EPSILON),
    "squared_error": lambda u: u,
}
#: The largest l''(u) of those that are smooth.
CURVATURES = {
    "hinge": 0, "squared_hinge": 2, "modified_huber": 2, "log_loss": 0.25, "epsilon_insensitive": 0,
    "squared_epsilon_insensitive": 2, "huber": 1, "squared_error": 1,
}  # fmt: skip

#: What a dual variable a of a row of weight c adds to m D, beside its part of lam/2 |w(a)|^2, less
#: z a - a of losses that take targets.
CONJUGATES = {
    "hinge": lambda a, c: a,
    "squared_hinge": lambda a, c: a - a**2 / (4 * c),
    "modified_huber": lambda a, c: a - a**2 / (4 * c),
    "log_loss": lambda a, c: c * (entr(a / c) + entr(1 - a / c)),
    "epsilon_insensitive": lambda a, c: a - EPSILON * np.abs(a),
    "squared_epsilon_insensitive": lambda a, c: a - EPSILON * np.abs(a) - a**2 / (4 * c),
    "huber": lambda a, c: a - a**2 / (2 * c),
    "squared_error": lambda a, c: a - a**2 / (2 * c),
}
#: The largest dual variable of a row of weight 1, and the smallest.
BOUNDS = {
    "hinge": 1, "squared_hinge": np.inf, "modified_huber": 4, "log_loss": 1,
    "epsilon_insensitive": 1, "squared_epsilon_insensitive": np.inf, "huber": EPSILON,
    "squared_error": np.inf,
}  # fmt: skip
LEAST = {loss: 0.0 if loss in LOSSES else -bound for loss, bound in BOUNDS.items()}


def form(loss):
    """How the core has a loss."""
    has_epsilon = loss in TARGET_LOSSES and loss != "squared_error"
    return _core.LOSSES[loss], EPSILON * has_epsilon


def make_targets(rng, y, loss):
    """Labels and z of one problem: of losses that take targets, labels of 1 and numbers."""
    if loss in LOSSES:
        return y, np.ones(len(y))
    return np.ones(len(y)), y + 0.5 * rng.normal(size=len(y))


def core_targets(loss, y, z, c=None, **more):
    """What the core takes, of problems y and z of shape (n_problems, n) or of one."""
    values = np.atleast_2d(z).copy() if loss in TARGET_LOSSES else None
    return _core.Targets(np.atleast_2d(y).astype(np.int8), c, form(loss), values, **more)
