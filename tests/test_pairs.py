"""Exact steps on pairs of dual variables, against a textbook version; and what they lead to."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from pegasos import KernelPegasosClassifier, _core


def block_of(rng, dtype, m=37):
    """A Gaussian kernel matrix with twin rows, labels, weights with zeros, and a start within bounds."""
    X = rng.normal(size=(m, 2))
    X[5] = X[4]
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)).astype(dtype)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1).astype(np.int8)
    y[7] = 0
    c = rng.uniform(0.2, 2, m) * (rng.random(m) < 0.9)
    return K, y, c, c * rng.choice([0, 0.3, 1], m) * (y != 0)


def slopes_of(K, y, a, scale, feature):
    return 1 - y * (scale * (K.astype(np.float64) + feature**2) @ (a * y))


def run(K, y, c, a, scale, feature, most, columns=None, place=None):
    m = len(y)
    slopes, wanted = slopes_of(K, y, a, scale, feature), np.zeros(m, np.int8)
    if columns is None:
        columns, place = K, np.arange(m)
    norms = np.diag(K).astype(np.float64)
    done, gap = _core.pairs_run(
        _core.kernel_block(columns, place, wanted), scale, feature, y, c, norms, a, slopes, 0.0,
        0, most, np.empty(_core.PAIRS_ARRAYS * (m + 8)),
    )  # fmt: skip
    return done, gap, slopes, wanted


def textbook_pair(K, y, c, a, scale, feature):
    """One pair, chosen and solved as the books have it."""
    Q = scale * (K.astype(np.float64) + feature**2) * np.outer(y, y)
    u, h = slopes_of(K, y, a, scale, feature), scale * (np.diag(K).astype(float) + feature**2)
    inside, most = y != 0, np.where(y != 0, c, a)

    def gains(u, h):
        steps = np.clip(u / h, -a, most - a)
        return np.where(inside, steps * (u - 0.5 * h * steps), 0), steps

    gain, steps = gains(u, h)
    i = int(np.argmax(gain))
    end = -a[i] if steps[i] < 0 else most[i] - a[i]
    shared = 0 if steps[i] == end else 1 / h[i]
    left = np.maximum(h - Q[i] ** 2 * shared, 1e-12 * h)
    gain, _ = gains(u - Q[i] * steps[i], left)
    j = int(np.argmax(gain))
    if i == j or gain[j] <= 0:
        new = a.copy()
        new[i] += steps[i]
        return new
    # Alternate between the two to the top: (1) of pairs.c is concave.
    p = np.zeros(2)
    for _ in range(20000):
        p[0] = np.clip((u[i] - Q[i, j] * p[1]) / h[i], -a[i], most[i] - a[i])
        p[1] = np.clip((u[j] - Q[i, j] * p[0]) / h[j], -a[j], most[j] - a[j])
    new = a.copy()
    new[[i, j]] += p
    return new


@pytest.mark.parametrize("feature", [0.0, 1.0])
def test_pairs_are_those_of_the_books(rng, dtype, feature):
    K, y, c, a = block_of(rng, dtype)
    for _ in range(12):
        expected = textbook_pair(K, y, c, a, 0.7, feature)
        assert run(K, y, c, a, 0.7, feature, most=1)[0] == 1
        np.testing.assert_allclose(a, expected, atol=1e-6)


@pytest.mark.parametrize("feature", [0.0, 2.0])
@pytest.mark.parametrize("scale", [0.01, 1.0, 1e4])
def test_pairs_climb_to_the_top(rng, dtype, feature, scale):
    K, y, c, a = block_of(rng, dtype)
    start, before = a.copy(), -np.inf
    for _ in range(20):
        _, gap, slopes, _ = run(K, y, c, a, scale, feature, most=50)
        w2 = a[y != 0] @ (1 - slopes[y != 0])  # sum_i a_i y_i f_i
        dual = a[y != 0].sum() - w2 / 2
        assert dual >= before - 1e-9 * max(abs(before), 1)
        before = dual
    np.testing.assert_allclose(slopes, slopes_of(K, y, a, scale, feature), atol=1e-6 * scale + 1e-9)
    assert (a >= 0).all()
    assert (a[y != 0] <= c[y != 0]).all()
    assert a[7] == start[7]
    primal = (c * np.maximum(slopes, 0))[y != 0].sum() + w2 / 2
    assert gap == pytest.approx(primal - dual, abs=1e-6 * max(1, primal))
    assert gap <= 1e-3 * max(1, primal)


def test_columns_are_asked_for_one_by_one(rng, dtype):
    """... and the steps are those with all columns at hand."""
    K, y, c, a = block_of(rng, dtype)
    whole, m = a.copy(), len(y)
    total = run(K, y, c, whole, 1.0, 1.0, most=60)[0]
    columns, place, done = np.zeros_like(K), np.full(m, -1), 0
    while done < total:
        more, _, _, wanted = run(K, y, c, a, 1.0, 1.0, total - done, columns, place)
        done += more
        assert (place[wanted != 0] == -1).all()
        for i in np.flatnonzero(wanted):
            place[i] = np.count_nonzero(place >= 0)
            columns[place[i]] = K[i]
    np.testing.assert_allclose(a, whole, atol=1e-9)
    assert np.count_nonzero(place >= 0) < m


@pytest.mark.parametrize("cache_size", [0.05, 100])
@pytest.mark.parametrize("intercept", [{}, {"fit_intercept": False}, {"penalize_intercept": False}])
def test_small_lam_is_certified_in_few_epochs(dtype, cache_size, intercept):
    """Where steps on single rows undo each other: these took hundreds of epochs, or gave up."""
    X, y = make_moons(400, noise=0.3, random_state=0)
    clf = KernelPegasosClassifier(
        1e-6, gamma=0.5, tol=1e-3, max_iter=400, cache_size=cache_size, random_state=0, **intercept
    ).fit(X.astype(dtype), y)
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
