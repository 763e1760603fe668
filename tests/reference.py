"""Pegasos as a textbook has it: one weight vector, shrunk in full at every step, in float64.

Nothing is shared with the package. The compiled solver must take the same decisions.
"""

import numpy as np


def pegasos(
    X,
    y,
    lam,
    draws,
    *,
    batch_size=1,
    project=False,
    average=False,
    intercept="none",
    scaling=1.0,
    weights=None,
):
    """Run Pegasos over `draws` and return (w, b, alpha counts, list of |w| after each step).

    X is dense of shape (n, d); y holds -1, +1, or 0 for rows that are not in the problem. Steps
    are made of batch_size draws of rows in the problem; draws left over are ignored. `average` is
    False, True or "suffix"; `intercept` "none", "penalized" or "free".
    """
    X = np.asarray(X, dtype=np.float64)
    n, d = X.shape
    inside = y != 0
    c = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    c = c * inside.sum() / c[inside].sum()
    if intercept == "penalized":
        X = np.column_stack([X, np.full(n, scaling)])
    own = [i for i in draws if inside[i]]
    n_steps = len(own) // batch_size
    w, b = np.zeros(X.shape[1]), 0.0
    counts = np.zeros(n, dtype=np.int64)
    iterates, norms = [], []
    for t in range(1, n_steps + 1):
        batch = own[(t - 1) * batch_size : t * batch_size]
        eta = 1 / (lam * t)
        violating = [i for i in batch if y[i] * (X[i] @ w + b) < 1]
        w = (1 - eta * lam) * w
        for i in violating:
            w = w + eta / batch_size * c[i] * y[i] * X[i]
            if intercept == "free":
                b += eta / batch_size * c[i] * y[i]
            counts[i] += 1
        norm = np.linalg.norm(w)
        if project and norm > 0:
            w = min(1, 1 / (np.sqrt(lam) * norm)) * w
        iterates.append((w, b))
        norms.append(np.linalg.norm(w))
    if average:
        kept = iterates if average is True else iterates[n_steps // 2 :]
        w = np.mean([w for w, _ in kept], axis=0)
        b = np.mean([b for _, b in kept])
    if intercept == "penalized":
        w, b = w[:d], scaling * w[d]
    return w, b, counts, norms


def objective(X, y, lam, w, b, *, weights=None, penalized=True, scaling=1.0):
    """P(w) in float64."""
    c = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    w = np.asarray(w, dtype=np.float64)
    norm2 = w @ w + ((b / scaling) ** 2 if penalized else 0)
    hinge = np.maximum(0, 1 - y * (np.asarray(X, dtype=np.float64) @ w + b))
    return lam / 2 * norm2 + c @ hinge / c.sum()


def kernel_pegasos(K, y, lam, draws, *, batch_size=1, constant=0.0, weights=None):
    """Kernel Pegasos by alpha counting, scores pulled from the whole sum at every draw.

    K is the kernel matrix; a penalised intercept is the constant feature of value `constant`.
    Returns coefficients of w in terms of the phi(x_j), the intercept and the alpha counts.
    """
    n = len(y)
    inside = y != 0
    c = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    c = c * inside.sum() / c[inside].sum()
    K = np.asarray(K, dtype=np.float64) + constant**2
    own = [i for i in draws if inside[i]]
    n_steps = len(own) // batch_size
    alpha = np.zeros(n, dtype=np.int64)
    for t in range(1, n_steps + 1):
        batch = own[(t - 1) * batch_size : t * batch_size]
        sums = [y[i] * np.sum(c * alpha * y * K[i]) / batch_size for i in batch]
        for i, s in zip(batch, sums, strict=True):
            if t == 1 or s < lam * (t - 1):
                alpha[i] += 1
    coef = c * alpha * y / (lam * n_steps * batch_size)
    return coef, constant**2 * coef.sum(), alpha
