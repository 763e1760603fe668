"""Dual coordinate ascent: sessions that bring problems to a certified gap.

They start from any dual point, such as the one that Pegasos leaves behind, and stop at a relative
duality gap. ``csrc/dual.c`` has the algorithm; here is when to look at the gap, which primal point to
return, and what is kept so that a session can be interrupted and go on.
"""

import numpy as np

from pegasos import _certificate, _core, _session, _validate

#: Layout of one problem's state, that of ``struct pegasos_dual``.
ASCENT = np.asarray(_core.BLANK_DUAL).dtype

# w is looked at so many times in an epoch: single iterates swing where rows are many beside features,
# and the mean over an epoch is then a far better primal point.
_SNAPSHOTS = 8
# Looks at the gap: after so many epochs' worth of visits, then whenever they have grown by so much.
_EPOCHS_BEFORE_LOOK, _GROWTH_BEFORE_LOOK = 3, 1.5


class DualSession:
    """Linear problems over the same rows, and where their ascent stands.

    Parameters
    ----------
    settings : pegasos._session.LinearSettings
        Of which λ and the intercept matter here.
    n_problems, n_rows, n_features : int
    seed : int
        Names the order in which rows are visited.

    Attributes
    ----------
    a : ndarray of shape (n_problems, n_rows)
        Dual variables.
    coef : ndarray of shape (n_problems, n_features)
        The best primal point at the last look, with `intercept`.
    relative_gap : ndarray of shape (n_problems,)
        As of the last look.
    n_epochs : ndarray of int64 of shape (n_problems,)
    """

    _ARRAYS = ("ascents", "a", "w", "sums", "n_sums", "active", "coef", "intercept",
               "relative_gap", "primal", "n_visits", "n_visits_at_look", "n_epochs", "base")  # fmt: skip

    def __init__(self, settings, n_problems, n_rows, n_features, seed):
        self.settings = settings
        self.ascents = np.zeros(n_problems, ASCENT)
        self.ascents["generator"] = [
            np.random.SeedSequence([seed, 1, k]).generate_state(1, np.uint64)[0]
            for k in range(n_problems)
        ]
        self.a = np.zeros((n_problems, n_rows))
        self.w = np.zeros((n_problems, n_features))
        # Sums over the snapshots of the epoch under way, the constant feature last.
        self.sums = np.zeros((n_problems, n_features + 1))
        self.n_sums = np.zeros(n_problems, np.int64)
        self.active = np.zeros((n_problems, n_rows), np.int64)
        self.coef = np.zeros((n_problems, n_features))
        self.intercept = np.zeros(n_problems)
        self.relative_gap = np.full(n_problems, np.inf)
        self.primal = np.ones(n_problems)
        self.n_visits = np.zeros(n_problems, np.int64)
        self.n_visits_at_look = np.zeros(n_problems, np.int64)
        self.n_epochs = np.zeros(n_problems, np.int64)
        self.base = np.zeros(n_problems, np.int64)

    def begin(self, rows, labels, row_weights, a=None):
        """Say what the rows and problems are, and at which dual point to start.

        Parameters
        ----------
        rows : pegasos._core.Rows
        labels : ndarray of int8 of shape (n_problems, n_rows)
        row_weights : ndarray of shape (n_rows,) or None
        a : ndarray of shape (n_problems, n_rows), optional
            None: where the session stands. It stands at w(a) for the rows it has seen; for others,
            w is found anew.
        """
        self.rows, self.labels, self.row_weights = rows, labels, row_weights
        self.mass = _certificate.masses(labels, row_weights)
        self.norms = self._norms()
        fresh = a is not None
        if fresh:
            self.a = _certificate.feasible(a, labels, row_weights, self.settings)
        self.a = np.clip(self.a, 0, 1 if row_weights is None else row_weights) * (labels != 0)
        for k, problem in enumerate(self.ascents):
            problem["scale"] = 1 / (self.settings.lam * self.mass[k])
            problem["intercept_scaling"] = self.feature
            w, constant = self._weights_of(k)
            distance = np.abs(w - self.w[k]).max(initial=0)
            summed = problem["scale"] * (self.a[k] * np.sqrt(self.norms)).sum()
            if fresh or distance > 1e-9 * summed:
                self.w[k], problem["constant_weight"] = w, constant
                self.relative_gap[k] = np.inf
                self.n_visits[k] = self.n_visits_at_look[k] = 0
                if fresh and self.settings.free_intercept:
                    problem["intercept"] = _certificate.best_intercepts(
                        rows, labels[k : k + 1], row_weights, w[None]
                    )[0]
                inside = np.flatnonzero(labels[k])
                self.active[k, : len(inside)] = inside
                self.sums[k], self.n_sums[k] = 0, 0
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
        scratch = None if self.rows.size == n * d else np.zeros(d)
        _core.norms(self.rows, 0, np.zeros(d) if scratch is None else scratch, norms)
        self._mean_norm = norms.mean()
        return norms + self.feature**2

    def _weights_of(self, k):
        factors = self.a[k] * self.labels[k] * self.ascents["scale"][k]
        w = np.zeros(self.w.shape[1])
        _core.combine(self.rows, 0, factors, w)
        return w, self.feature * factors.sum()

    def run(self, tol, max_iter, *, n_threads=1, on_progress=None):
        """Climb until every problem's relative gap is at most `tol`, or for `max_iter` epochs.

        Can be stopped at any time by an exception; a run that is called again then completes the
        one that was interrupted.

        Parameters
        ----------
        tol : float or None
            None: exactly `max_iter` epochs.
        max_iter : int
        n_threads, on_progress
            As in `LinearSession.run`.
        """
        last = self.base + max(max_iter, 0)
        _session.in_threads(
            [lambda k=k: self._climb(k, tol, last[k]) for k in range(len(self.a))],
            n_threads, on_progress,
        )  # fmt: skip
        self.base = self.n_epochs.copy()

    def _climb(self, k, tol, last):
        """Run problem `k`, yielding after each piece."""
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
            looks = self.n_epochs[k] >= last or self._is_time_to_look(k, inside, tol)
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

    def _is_done(self, k, tol):
        return tol is not None and self.relative_gap[k] <= tol

    def _is_time_to_look(self, k, inside, tol):
        """Whether enough was done since the last look, which costs as much as half an epoch."""
        return tol is not None and self.n_visits[k] >= max(
            _EPOCHS_BEFORE_LOOK * inside, _GROWTH_BEFORE_LOOK * self.n_visits_at_look[k]
        )

    def _is_settled(self, k, p, inside, tol):
        """Whether rows that take part are where they want to be, so that the others must be asked."""
        wanted = max(tol or 0, 0.3 * min(self.relative_gap[k], 1))
        spread = (p["highest"] - p["lowest"]) * p["n_active"] / inside
        return spread <= wanted * self.primal[k]

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
            self.rows, both, self.row_weights, points, intercepts, self.settings
        )
        best = int(primal.argmin())
        a = _certificate.feasible(self.a[k : k + 1], labels, self.row_weights, self.settings)
        if self.settings.free_intercept:
            w, _ = _certificate.weights_of(
                self.rows, self.labels[k], a[0], self.mass[k], self.settings
            )
            squared_norm = np.array([w @ w])
        else:
            squared_norm = np.array([self.w[k] @ self.w[k] + p["constant_weight"] ** 2])
        dual = _certificate.best_dual(
            a, squared_norm, self.mass[k : k + 1], self.row_weights, self.settings
        )
        self.coef[k], self.intercept[k], self.primal[k] = (
            points[best],
            intercepts[best],
            primal[best],
        )
        self.relative_gap[k] = max(primal[best] - dual[0], 0) / max(primal[best], 1e-300)
        self.n_visits_at_look[k] = self.n_visits[k]

    @staticmethod
    def _shift(p):
        """Move the intercept of a problem whose intercept is not penalised.

        Such a problem has the condition sum_i a_i y_i = 0, which steps along single coordinates
        cannot meet. A constant feature B penalises the distance of b from a reference b_0 instead;
        moving b_0 to b after every epoch takes the penalty away (the method of multipliers).
        """
        p["intercept"] += p["intercept_scaling"] * p["constant_weight"]

    def model(self):
        """Coefficients and intercepts: of the last look, or where there was none, as they are."""
        coef, intercept = self.coef.copy(), self.intercept.copy()
        unseen = ~np.isfinite(self.relative_gap)
        coef[unseen] = self.w[unseen]
        p = self.ascents[unseen]
        intercept[unseen] = p["intercept"] + p["intercept_scaling"] * p["constant_weight"]
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
        return coef, intercept

    def dual(self):
        """Dual variables that belong to the present state."""
        return self.a

    def state(self):
        """The state as a dictionary of arrays, to be given to `restore`."""
        return {name: getattr(self, name) for name in self._ARRAYS}

    @classmethod
    def restore(cls, settings, state):
        """The session whose `state` this is; `begin` must follow."""
        n_problems, n_features = state["w"].shape
        session = cls(settings, n_problems, state["a"].shape[1], n_features, seed=0)
        for name in cls._ARRAYS:
            getattr(session, name)[...] = state[name]
        return session
