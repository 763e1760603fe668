"""A solver that is added from outside, as CONTRIBUTING says: one class."""

import numpy as np
import pytest
from rows import make_rows
from sklearn.exceptions import ConvergenceWarning

import pegasos
from pegasos import PegasosClassifier
from pegasos.problems import _certificate
from pegasos.solvers import _schedule
from pegasos.solvers._solver import Solver


class ProjectedAscent(Solver):
    """Gradient ascent on the dual, all rows at once: a_i + (1 - y_i f(x_i))/L within its bounds.

    L = m times the largest curvature of m D, which is at most sum_i |x_i|^2/(lam m).
    """

    name = "projected"

    @staticmethod
    def begins_with_pegasos(rows):
        return False  # so that an epoch of Pegasos comes first

    def _improve(self, k, tol, last):
        y, lam_mass = self.labels[k], self.settings.lam * self.mass[k]
        c = 1.0 if self.row_weights is None else self.row_weights
        feature = self.settings.constant_feature
        size = (pegasos.problems._rows.squared_norms(self.rows) + feature**2).sum() / lam_mass
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            w, constant = _certificate.weights_of(self.problem, k, self.a[k])
            intercept = np.array([feature * constant])
            scores = np.empty((len(y), 1))
            pegasos.problems._rows.scorer(self.rows, w[None], intercept)(0, scores)
            u = 1 - y * scores[:, 0]
            squared = w @ w + constant**2
            primal = self.settings.lam / 2 * squared + (c * np.maximum(u, 0)).sum() / self.mass[k]
            dual = self.a[k].sum() / self.mass[k] - self.settings.lam / 2 * squared
            self._keep(k, w, intercept[0], primal, dual)
            self.a[k] = np.clip(self.a[k] + u / size, 0, c)
            self.n_epochs[k] += 1
            self.n_visits[k] += len(y)
            yield


@pytest.fixture
def registered():
    _schedule.LINEAR.register(ProjectedAscent)
    yield
    del _schedule.LINEAR.solvers["projected"]


@pytest.fixture
def data(rng):
    return make_rows(rng, n=60, d=4)


def test_a_solver_from_outside_has_all_that_others_have(registered, data):
    X, y = data
    options = {"tol": 0.01, "max_iter": 10**5, "random_state": 0}
    machine = PegasosClassifier(0.1, solver="projected", **options).fit(X, y)
    assert (machine.duality_gap_ <= 0.01 * machine.objective_).all()
    assert list(machine.solver_epochs_) == ["pegasos", "projected"]
    other = PegasosClassifier(0.1, random_state=0).fit(X, y)
    assert machine.dual_objective_ <= other.objective_ + 1e-12
    assert other.dual_objective_ <= machine.objective_ + 1e-12
    model = pegasos.fit(X, y, 0.1, solver="projected", **options)
    np.testing.assert_array_equal(model.coef, machine.coef_)


def test_it_goes_on_from_a_state(registered, data):
    X, y = data
    whole = PegasosClassifier(0.1, solver="projected", tol=None, max_iter=41, random_state=0).fit(
        X, y
    )
    parts = PegasosClassifier(
        0.1, solver="projected", tol=None, max_iter=21, random_state=0, warm_start=True
    ).fit(X, y)
    parts.set_params(max_iter=20).fit(X, y)
    assert parts.n_iter_ == whole.n_iter_ == 41
    assert parts.objective_ <= whole.objective_ * (1 + 1e-9)
    parts.set_params(solver="sdca", tol=1e-6, max_iter=10**4).fit(X, y)
    assert (parts.duality_gap_ <= 1e-6 * parts.objective_).all()


def test_auto_lets_it_follow_where_the_others_are_slow(registered, data, monkeypatch):
    monkeypatch.setattr(_schedule, "_STAGE", 2)
    X, y = data
    options = {"tol": 1e-15, "max_iter": 60, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        machine = PegasosClassifier(1e-5, **options).fit(X, y)
    assert set(machine.solver_epochs_) >= {"sdca", "newton", "projected"}


def test_what_is_not_registered_is_refused(data):
    with pytest.raises(ValueError, match=r"solver must be one of .*newton.*'projected'"):
        PegasosClassifier(solver="projected").fit(*data)
