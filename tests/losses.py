"""Losses of u = 1 - y f(x), their derivatives, conjugates and bounds, by their definitions."""

import numpy as np
from scipy.special import entr, expit

#: l(u)
LOSSES = {
    "hinge": lambda u: np.maximum(u, 0),
    "squared_hinge": lambda u: np.maximum(u, 0) ** 2,
    "modified_huber": lambda u: np.where(u > 2, 4 * u - 4, np.maximum(u, 0) ** 2),
    "log_loss": lambda u: np.logaddexp(0, u - 1),
}
SMOOTH = [loss for loss in LOSSES if loss != "hinge"]

#: l'(u)
SLOPES = {
    "hinge": lambda u: (u > 0).astype(float),
    "squared_hinge": lambda u: 2 * np.maximum(u, 0),
    "modified_huber": lambda u: np.clip(2 * u, 0, 4),
    "log_loss": lambda u: expit(u - 1),
}
#: The largest l''(u) of those that are smooth.
CURVATURES = {"squared_hinge": 2, "modified_huber": 2, "log_loss": 0.25}

#: What a dual variable a of a row of weight c adds to m D, beside its part of lam/2 |w(a)|^2.
CONJUGATES = {
    "hinge": lambda a, c: a,
    "squared_hinge": lambda a, c: a - a**2 / (4 * c),
    "modified_huber": lambda a, c: a - a**2 / (4 * c),
    "log_loss": lambda a, c: c * (entr(a / c) + entr(1 - a / c)),
}
#: The largest dual variable of a row of weight 1.
BOUNDS = {"hinge": 1, "squared_hinge": np.inf, "modified_huber": 4, "log_loss": 1}
