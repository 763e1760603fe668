"""Kernel values in single precision for rows in double: what they lead to is proved in double."""

import numpy as np
import pytest
from covering import covering
from losses import LOSSES
from rows import convert, make_rows
from sklearn.base import clone

from pegasos import KernelPegasosClassifier, kernels
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings

KERNELS = {"rbf": {"gamma": 0.3}, "poly": {"gamma": 0.3, "coef0": 1.0}}


@pytest.fixture
def made(monkeypatch):
    """The types of the kernel values that fits ask for."""
    types, hold = [], kernels.ColumnCache._hold

    def note(cache, points):
        types.append(points.dtype.name)
        hold(cache, points)

    monkeypatch.setattr(kernels.ColumnCache, "_hold", note)
    return types


def objective(clf, X, y):
    """The primal objective, written down."""
    params = clf.get_params()
    K = kernels.make(params["kernel"], **KERNELS[params["kernel"]]).points(X)
    K = K.against(K)
    beta = np.zeros(len(X))
    beta[clf.support_] = clf.dual_coef_[0]
    penalty = beta @ K @ beta + (clf.intercept_[0] ** 2 if params["penalize_intercept"] else 0)
    u = 1 - y * (K @ beta + clf.intercept_[0])
    return clf.lam / 2 * penalty + LOSSES[params["loss"]](u).mean()


@covering(
    kernel=list(KERNELS), loss=list(LOSSES), free=[False, True], lam=[1e-2, 1e-4],
    layout=["dense", "csr32"],
)  # fmt: skip
def test_what_is_claimed_holds_in_double(rng, made, kernel, loss, free, lam, layout):
    X, y = make_rows(rng, n=420, d=4)
    clf = KernelPegasosClassifier(
        lam=lam, kernel=kernel, **KERNELS[kernel], loss=loss, penalize_intercept=not free,
        random_state=0,
    )  # fmt: skip
    clf.fit(convert(X, layout, np.float64), y)
    assert made[0] == "float32"
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    assert clf.objective_[0] == pytest.approx(objective(clf, X, y), rel=1e-9)
    best = clone(clf).set_params(tol=1e-7).fit(X, y)
    assert clf.dual_objective_[0] <= best.objective_[0] * (1 + 1e-9)
    assert best.dual_objective_[0] <= clf.objective_[0] * (1 + 1e-9)


def test_values_in_double_follow_where_single_precision_does_not_do(rng, made):
    X = rng.normal(size=(500, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=500) > 0
    clf = KernelPegasosClassifier(lam=1e-7, max_iter=10**4, warm_start=True, random_state=0)
    clf.fit(X, y)
    assert made == ["float32", "float64"]
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]
    n_iter = clf.n_iter_
    clf.fit(X, y)  # goes on with what it has
    assert made[2:] == ["float64"]
    assert clf.n_iter_ <= n_iter + 1


def test_a_finer_gap_begins_anew_where_the_coarse_one_ended(rng, made):
    X, y = make_rows(rng, n=420, d=4)
    clf = KernelPegasosClassifier(lam=1e-3, tol=1e-3, warm_start=True, random_state=0).fit(X, y)
    clf.set_params(tol=1e-8).fit(X, y)
    assert made == ["float32", "float64"]
    assert clf.duality_gap_[0] <= 1e-8 * clf.objective_[0]


@pytest.mark.parametrize(
    "options",
    [
        {"tol": 1e-5}, {"solver": "newton"}, {"solver": "pegasos", "max_iter": 2, "tol": None},
        {"kernel": "laplacian"}, {"kernel": "linear"}, {"kernel": "sigmoid"},
        {"kernel": "poly", "coef0": -1.0, "gamma": 0.3},
    ],
    ids=str,
)  # fmt: skip
def test_double_precision_stays_where_it_is_needed(rng, made, options):
    X, y = make_rows(rng, n=420, d=4)
    KernelPegasosClassifier(lam=1e-2, random_state=0, **options).fit(X, y)
    assert made == ["float64"]


def test_rows_that_float32_does_not_tell_apart_stay_as_they_are(rng):
    X = rng.normal(size=(50, 3))
    for kernel, parameters in KERNELS.items():
        kind = kernels.make(kernel, **parameters)
        assert kind.points(X).narrowed().is_narrow
        assert not kind.points(X.astype(np.float32)).narrowed().is_narrow
        assert not kind.points(X + 1e9).narrowed().is_narrow
        assert not kind.points(X * 1e30).narrowed().is_narrow
    assert not kernels.make("rbf", gamma=1e3).points(X).narrowed().is_narrow  # far, in float32


def test_parts_of_narrow_rows_get_no_certificate_of_rounded_rows(rng):
    X = rng.normal(size=(30, 3))
    points = kernels.make("rbf", gamma=0.3).points(X).narrowed()
    cache = kernels.ColumnCache(points[np.array([4, 2, 9, 20, 11])][1:], 1)
    assert cache.points.dtype == np.float32
    problem = Problem(np.ones((1, 4), np.int8), None, Settings(0.1))
    with pytest.raises(ValueError, match="no certificate"):
        cache.certify(problem, np.zeros((1, 4)), np.zeros(1), np.zeros((1, 4)))


def test_values_of_narrow_rows_are_off_by_no_more_than_is_said(rng):
    X = rng.normal(size=(30, 3))
    points = kernels.make("rbf", gamma=0.3).points(X).narrowed()
    exact = kernels.make("rbf", gamma=0.3).points(X)
    errors, sizes = points.kernel.rounding(points, np.float32)
    off = np.abs(points.against(points).astype(np.float64) - exact.against(exact))
    assert (off <= np.maximum(errors, errors[:, None]) * sizes.max()).all()
