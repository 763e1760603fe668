"""Dual coordinate ascent: a finisher for many features.

``csrc/dual.c`` has the algorithm; here is when to look at the gap, and which primal point to return.
"""

import numpy as np

from pegasos import _certificate, _core, _session
from pegasos._finisher import Finisher

#: Layout of one problem's state, that of ``struct pegasos_dual``.
ASCENT = np.asarray(_core.BLANK_DUAL).dtype

# w is looked at so many times in an epoch: single iterates swing where rows are many beside features,
# and the mean over an epoch is then a far better primal point.
_SNAPSHOTS = 8
# Looks at the gap: after so many epochs' worth of visits, then whenever they have grown by so much; and
# earlier if the gap is estimated at no more than so many times the one that is asked for.
_EPOCHS_BEFORE_LOOK, _GROWTH_BEFORE_LOOK, _HOPEFUL = 8, 1.5, 3


def blank_ascents(n_problems, seed):
    """The states of problems before their first epoch, each with a generator of its own."""
    ascents = np.zeros(n_problems, ASCENT)
    ascents["generator"] = [
        np.random.SeedSequence([seed, 1, k]).generate_state(1, np.uint64)[0]
        for k in range(n_problems)
    ]
    return ascents


class DualAscent(Finisher):
    """Dual coordinate ascent. `w` is w(a)."""

    _ARRAYS = (
        *Finisher._ARRAYS,
        "ascents",
        "w",
        "sums",
        "n_sums",
        "active",
        "n_visits_at_look",
        "estimate",
        "estimate_at_look",
    )

    def __init__(self, settings, n_problems, n_rows, n_features, seed):
        super().__init__(settings, n_problems, n_rows, n_features, seed)
        self.ascents = blank_ascents(n_problems, seed)
        self.w = np.zeros((n_problems, n_features))
        # Sums over the snapshots of the epoch under way, the constant feature last.
        self.sums = np.zeros((n_problems, n_features + 1))
        self.n_sums = np.zeros(n_problems, np.int64)
        self.active = np.zeros((n_problems, n_rows), np.int64)
        self.n_visits_at_look = np.zeros(n_problems, np.int64)
        self.estimate = np.full(n_problems, np.inf)  # of the relative gap
        self.estimate_at_look = np.full(n_problems, np.inf)

    def begin(self, rows, labels, row_weights, start=None):
        super().begin(rows, labels, row_weights, start)
        self.norms = self._norms()
        np.clip(self.a, 0, 1 if row_weights is None else row_weights, out=self.a)
        self.a *= labels != 0
        for k, problem in enumerate(self.ascents):
            problem["scale"] = 1 / (self.settings.lam * self.mass[k])
            problem["intercept_scaling"] = self.feature
            w, constant = self._weights_of(k)
            # The session stands at w(a), but for rounding, unless the rows are others than before.
            distance = np.abs(w - self.w[k]).max(initial=0)
            summed = problem["scale"] * (self.a[k] * np.sqrt(self.norms)).sum()
            if start is None and distance <= 1e-9 * summed:
                continue
            self.w[k], problem["constant_weight"] = w, constant
            if self.settings.free_intercept and start is not None:
                best = _certificate.best_intercepts(rows, labels[k : k + 1], row_weights, w[None])
                problem["intercept"] = best[0]
            self.coef[k] = w
            self.intercept[k] = problem["intercept"] + self.feature * constant
            self.primal[k] = self.relative_gap[k] = np.inf
            self.n_visits[k] = self.n_visits_at_look[k] = 0
            self.sums[k], self.n_sums[k] = 0, 0
            inside = np.flatnonzero(labels[k])
            self.active[k, : len(inside)] = inside
            _core.dual_start(self.ascents[k : k + 1], len(inside))

    @property
    def feature(self):
        """Value of the constant feature. An unpenalised intercept has one as well: see `_shift`."""
        if self.settings.free_intercept:
            return max(np.sqrt(self._mean_norm), 1e-3)
        return self.settings.constant_feature

    def _norms(self):
        n, d = self.rows.shape
        norms = np.empty(n)
        _core.norms(self.rows, 0, np.zeros(d), norms)
        self._mean_norm = norms.mean()
        return norms + self.feature**2

    def _weights_of(self, k):
        w, _ = _certificate.weights_of(
            self.rows, self.labels[k], self.a[k], self.settings.lam * self.mass[k], self.settings
        )
        total = (self.a[k] * self.labels[k]).sum() * self.ascents["scale"][k]
        return w, self.feature * total

    def _improve(self, k, tol, last):
        ascent, inside = self.ascents[k : k + 1], np.count_nonzero(self.labels[k])
        p, size = ascent[0], _session.rows_per_call(self.rows, 3)
        while self.n_epochs[k] < last and not self._is_done(k, tol):
            while p["position"] < p["n_active"]:
                step = -(-int(p["n_active"]) // _SNAPSHOTS)
                until_snapshot = step - int(p["position"]) % step
                self.n_visits[k] += _core.dual_run(
                    self.rows, ascent, self.labels[k], self.row_weights, self.norms,
                    self.active[k], self.a[k], self.w[k], min(size, until_snapshot),
                )  # fmt: skip
                if p["position"] % step == 0 or p["position"] >= p["n_active"]:
                    self.sums[k, :-1] += self.w[k]
                    self.sums[k, -1] += p["constant_weight"]
                    self.n_sums[k] += 1
                yield
            self.n_epochs[k] += 1
            looks = self.n_epochs[k] >= last or self._is_time_to_look(k, p, inside, tol)
            if looks:
                self._look(k)
            self.sums[k], self.n_sums[k] = 0, 0
            if p["n_active"] < inside and (looks or self._is_settled(k, p, inside, tol)):
                self.active[k, :inside] = np.flatnonzero(self.labels[k])
                _core.dual_start(ascent, inside)
            else:
                _core.dual_begin_epoch(ascent)
            if self.settings.free_intercept:
                self._shift(p)
            yield

    def _is_time_to_look(self, k, p, inside, tol):
        """Whether a look, which costs about an epoch, is likely to end this, or much was done since."""
        if tol is None:
            return False
        # What rows lost when they were visited is an estimate of the primal, mostly too high.
        squared = np.einsum("j,j->", self.w[k], self.w[k])  # BLAS would use threads
        penalty = self.settings.lam / 2 * (squared + p["constant_weight"] ** 2)
        primal = penalty + (p["loss"] + p["left_loss"]) / self.mass[k]
        dual = self.a[k].sum() / self.mass[k] - penalty
        self.estimate[k] = 1 - dual / max(primal, 1e-300)
        hopeful = self.estimate[k] <= min(_HOPEFUL * tol, self.estimate_at_look[k] / 2)
        if hopeful and self.n_visits[k] >= self.n_visits_at_look[k] + inside:
            return True
        return self.n_visits[k] >= max(
            _EPOCHS_BEFORE_LOOK * inside, _GROWTH_BEFORE_LOOK * self.n_visits_at_look[k]
        )

    def _is_settled(self, k, p, inside, tol):
        """Whether rows that take part are where they want to be, so that the others must be asked."""
        wanted = max(tol or 0, 0.3 * min(self.relative_gap[k], self.estimate[k], 1))
        spread = (p["highest"] - p["lowest"]) * p["n_active"] / inside
        return spread <= wanted * min(self.primal[k], 1)

    def _look(self, k):
        """Find the relative gap of the better of w and its mean, and keep that one."""
        p, labels = self.ascents[k], self.labels[k : k + 1]
        mean = self.sums[k] / max(self.n_sums[k], 1)
        points = np.stack([self.w[k], mean[:-1]])
        constants = np.array([p["constant_weight"], mean[-1]])
        intercepts = p["intercept"] + self.feature * constants
        both = np.repeat(labels, 2, axis=0)
        if self.settings.free_intercept:
            intercepts = _certificate.best_intercepts(self.rows, both, self.row_weights, points)
        primal = _certificate.objectives(
            self.rows, both, self.row_weights, points, intercepts, self.settings, self.settings.lam
        )
        best = int(primal.argmin())
        a = _certificate.feasible(self.a[k : k + 1], labels, self.row_weights, self.settings)
        if self.settings.free_intercept:
            w, _ = _certificate.weights_of(
                self.rows, self.labels[k], a[0], self.settings.lam * self.mass[k], self.settings
            )
            squared_norm = np.array([w @ w])
        else:
            squared_norm = np.array([self.w[k] @ self.w[k] + p["constant_weight"] ** 2])
        dual = _certificate.best_dual(
            a, squared_norm, self.mass[k : k + 1], self.row_weights, self.settings.lam
        )
        self._keep(k, points[best], intercepts[best], primal[best], dual[0])
        self.n_visits_at_look[k] = self.n_visits[k]
        self.estimate_at_look[k] = self.estimate[k]

    @staticmethod
    def _shift(p):
        """Move the intercept of a problem whose intercept is not penalised.

        Such a problem has the condition sum_i a_i y_i = 0, which steps along single coordinates
        cannot meet. A constant feature B penalises the distance of b from a reference b_0 instead;
        moving b_0 to b after every epoch takes the penalty away (the method of multipliers).
        """
        p["intercept"] += p["intercept_scaling"] * p["constant_weight"]
