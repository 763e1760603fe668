"""Dual coordinate ascent: for many features.

``csrc/ascent.c`` has the algorithm, the gap checks and when to stop; here are the arrays, and
bundles.
"""

import functools

import numpy as np

from pegasos import _certificate, _core, _pegasos, _rows, _threads, _validate
from pegasos._solver import Solver

#: Layout of one problem's state, that of ``struct pegasos_dual``.
ASCENT = np.asarray(_core.BLANK_DUAL).dtype
#: Layout of where its run stands, that of ``struct pegasos_ascent``.
RUN = np.asarray(_core.BLANK_ASCENT).dtype

# A bundle's gap is checked if it is estimated at no more than so many times the one that is asked
# for.
_HOPEFUL = 1.3
# Epochs that problems begin with as bundles, at most, before each leaves out rows of its own. A
# bundle costs as much as three problems.
SWEEPS, _LEAST_BUNDLE = 8, 3
# What `n_swept` is once they are over.
_OVER = 2**61
# From where on a bundle's factor is folded into its vectors, whose numbers get small beside it.
_LARGEST_FACTOR = 1e6


def blank_ascents(n_problems, seed):
    """The states of problems before their first epoch, each with a generator of its own."""
    ascents = np.zeros(n_problems, ASCENT)
    ascents["factor"] = 1
    ascents["generator"] = [
        np.random.SeedSequence([seed, 1, k]).generate_state(1, np.uint64)[0]
        for k in range(n_problems)
    ]
    return ascents


def goes_in_bundles(n_problems):
    """Whether problems begin together, by `sweep`."""
    return n_problems >= _LEAST_BUNDLE


def norms(rows, settings):
    """|x_i|^2 with the constant feature, and the value of that feature.

    An unpenalised intercept has one as well: see `shift`.
    """
    out = _rows.squared_norms(rows)
    feature = settings.constant_feature
    if settings.free_intercept:
        feature = max(np.sqrt(out.mean()), 1e-3)
    return out + feature**2, feature


def sweep(
    rows, labels, inside, row_weights, norms, settings, ascents, a, v, seed, first, last, sums=None,
    record=None,
):  # fmt: skip
    """Bring a bundle of problems from draw number `first` of an order of rows to number `last`.

    Parameters
    ----------
    labels, a, v : ndarray of shape (n_rows or n_features, lanes)
        Interleaved as by `pegasos._pegasos.interleaved`, `v` of the type of the rows, and w =
        "factor" v; `a`, `v` and `ascents` are updated in place.
    inside : ndarray of int64
        The rows that have a label in some of the problems: what the order is of.
    sums : ndarray, optional
        Zeros, like `v`: ends as the mean of `v` over the last half of the last epoch, and
        "constant_sum" as that of "constant_weight".
    record : callable, optional
        Told the number of the next draw along with every change, so that Ctrl-C cannot come
        between.

    Yields
    ------
    int
        The number of the next draw, after each piece of work.
    """
    n = len(inside)
    if n == 0:
        return  # as one-vs-one may have it: of two classes, no row has weight
    order = _core.Order(seed, np.empty(n, np.int64), _core.SAMPLINGS["permutation"], first)
    size = _pegasos.rows_per_call(rows, 2 * _LEAST_BUNDLE)
    averaged = n - n // 2
    while first < last:
        before = first - (last - averaged)
        until_mean = -before if before < 0 and sums is not None else last
        draws = np.empty(min(size, last - first, n - first % n, until_mean), np.int64)
        order.draw(draws)
        draws = inside[draws]
        with _threads.uninterrupted():
            if first % n == 0:
                ascents["gap"] = ascents["constant_sum"] = 0
                if first > 0:
                    ascents["pegasos_mass"] = 0
                    if settings.free_intercept:
                        shift(ascents)
            _core.dual_sweep(
                rows, ascents, labels, row_weights, norms, a, v, sums if before >= 0 else None,
                before, draws,
            )  # fmt: skip
            first += len(draws)
            if first == last and sums is not None:
                sums *= -1 / averaged
                sums += v
                ascents["constant_sum"] *= -1 / averaged
                ascents["constant_sum"] += ascents["constant_weight"]
            if record is not None:
                record(first)
        yield first


def change_lam(ascents, a, v, masses, lam, before):
    """Bring a bundle from the λ `before` to a smaller one, in place.

    With q = before/lam, w(a) becomes q w. Of the points r a, that of the best dual value is taken,
    where 1/q <= r <= 1: at r = 1/q, w stays as it is, as it does for small λ once no row is at its
    bound; at r = 1, a does. D(r a) = r A - r^2 B, with A = sum_i a_i/m and B = lam/2 |q w|^2, is
    highest at A/(2 B).
    """
    k, q = len(ascents), before / lam
    twice_b, r = lam * q**2 * ascents["squared_norm"], np.ones(a.shape[1])
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


def shift(ascents):
    """Move the intercepts of problems whose intercept is not penalised.

    Such a problem has the condition sum_i a_i y_i = 0, which steps along single coordinates cannot
    meet. A constant feature B penalises the distance of b from a reference b_0 instead; moving b_0
    to b after every epoch takes the penalty away (the method of multipliers).
    """
    ascents["intercept"] += ascents["intercept_scaling"] * ascents["constant_weight"]


class DualAscent(Solver):
    """Dual coordinate ascent. `w` is w(a)."""

    name = "sdca"
    is_exact = True
    _ARRAYS = (*Solver._ARRAYS, "ascents", "runs", "w", "sums", "active", "n_swept")

    @staticmethod
    def cost(rows):
        """About 15 epochs where features are many, four times as many where rows are.

        Their additions to w, in random order, cost as much as another pass.
        """
        n, d = rows.shape
        return 2 * (15 if n < 2 * d else 60) * _rows.seconds_a_pass(rows)

    @staticmethod
    def head_start(n_problems):
        """Several problems begin as bundles."""
        return SWEEPS if goes_in_bundles(n_problems) else 0

    @staticmethod
    def begins_with_pegasos(rows):
        """Always, with steps of exact length instead of 0 or 1."""
        return True

    def __init__(self, settings, n_problems, n_rows, n_features, seed):
        super().__init__(settings, n_problems, n_rows, n_features, seed)
        self.ascents = blank_ascents(n_problems, seed)
        self.runs = np.zeros(n_problems, RUN)
        for name in ("intercept", "primal", "relative_gap", "n_epochs", "n_visits", "n_steps"):
            self.runs[name] = getattr(self, name)
            setattr(self, name, self.runs[name])  # the core writes what a `Solver` has, too
        self.runs["estimate"] = self.runs["estimate_at_check"] = np.inf  # of the relative gap
        self.w = np.zeros((n_problems, n_features))
        # Sums over the snapshots of the epoch under way, the constant feature last.
        self.sums = np.zeros((n_problems, n_features + 1))
        self.active = np.zeros((n_problems, n_rows), np.int64)
        self.n_swept = np.zeros(n_problems, np.int64)  # draws of `sweep`, or `_OVER`

    def begin(self, rows, labels, row_weights, start=None):
        start = super().begin(rows, labels, row_weights, start)
        self.norms, self.feature = norms(rows, self.settings)
        if start is None:
            self._check_kept()
        for name, value in (
            ("lam", self.settings.lam), ("mass", self.mass), ("n_inside", self.n_inside),
            ("free_intercept", self.settings.free_intercept),
        ):  # fmt: skip
            self.runs[name] = value
        np.clip(self.a, 0, 1 if row_weights is None else row_weights, out=self.a)
        self.a *= labels != 0
        for k, problem in enumerate(self.ascents):
            problem["scale"] = 1 / (self.settings.lam * self.mass[k])
            problem["intercept_scaling"] = self.feature
            problem["loss"] = self.settings.loss.number
            w, constant = self._weights_of(k)
            # The session stands at w(a), but for rounding, unless the rows are others than before.
            distance = np.abs(w - self.w[k]).max(initial=0)
            summed = problem["scale"] * (self.a[k] * np.sqrt(self.norms)).sum()
            is_coarse = 0 < self.n_swept[k] < _OVER and rows.value_bytes == 4
            if start is None and distance <= (1e-4 if is_coarse else 1e-9) * summed:
                continue
            self._set_weights(k, w, constant)
            if self.settings.free_intercept and start is not None:
                best = _certificate.best_intercepts(
                    rows, labels[k : k + 1], row_weights, w[None], self.settings.loss
                )
                problem["intercept"] = best[0]
            self.coef[k] = w
            self.intercept[k] = problem["intercept"] + self.feature * constant
            for name in ("primal", "relative_gap", "estimate", "estimate_at_check"):
                self.runs[name][k] = np.inf
            for name in ("n_visits", "n_visits_at_check", "n_snapshots", "part", "place"):
                self.runs[name][k] = 0
            self.sums[k] = self.n_swept[k] = 0
            inside = np.flatnonzero(labels[k])
            self.active[k, : len(inside)] = inside
            _core.dual_start(self.ascents[k : k + 1], len(inside))
            if not self.a[k].any():
                problem["pegasos_mass"] = self.mass[k]

    def _set_weights(self, k, w, constant):
        self.w[k], problem = w, self.ascents[k]
        problem["constant_weight"] = constant
        problem["squared_norm"] = _certificate.inner(w, w) + constant**2

    def _weights_of(self, k):
        w, _ = _certificate.weights_of(
            self.rows, self.labels[k], self.a[k], self.settings.lam * self.mass[k], self.settings
        )
        total = (self.a[k] * self.labels[k]).sum() * self.ascents["scale"][k]
        return w, self.feature * total

    def run(self, tol, max_iter, *, n_threads=1, on_progress=None):
        n, size = len(self.a), _pegasos.lanes(self.rows)
        self.runs["tol"] = -1 if tol is None else tol
        self.runs["last_epoch"] = self.base + max_iter
        self.runs["by_epochs"] = self.by_epochs
        jobs = []
        if goes_in_bundles(n):
            parts = [slice(of[0], of[-1] + 1) for of in np.array_split(range(n), -(-n // size))]
            jobs = [functools.partial(self._sweep, part, tol, max_iter) for part in parts]
        _threads.in_threads(jobs, n_threads, on_progress)
        jobs = [functools.partial(self._ascend, k) for k in range(n)]
        _threads.in_threads(jobs, n_threads, on_progress)

    def _sweep(self, part, tol, max_iter):
        """The first epochs of the problems `part`, as a bundle, and a gap check of those that may be done."""
        if max_iter == 0 or self.n_swept[part.start] == _OVER:
            return
        ascents, problems = self.ascents[part], np.arange(part.start, part.stop)
        n_inside = np.count_nonzero(self.labels[part], axis=1)
        while not (yield from self._sweep_bundle(part, tol, min(SWEEPS, max_iter))):
            pass  # Ctrl-C was answered by less than an exception
        if self.rows.value_bytes == 4:
            # From here on w is w(a) in double.
            for j in problems:
                self._set_weights(j, *self._weights_of(j))
                yield
        if tol is not None and max_iter > SWEEPS:
            problems = problems[self.runs["estimate"][part] <= _HOPEFUL * tol]
        if len(problems):
            self._check_gaps(problems, tol)
        with _threads.uninterrupted():
            for name in ("n_visits", "estimate"):
                self.runs[f"{name}_at_check"][problems] = self.runs[name][problems]
            self.n_swept[part] = _OVER  # and what follows them was done, too
            self.sums[part] = self.runs["n_snapshots"][part] = 0
            for j in range(len(ascents)):
                _core.dual_start(ascents[j : j + 1], n_inside[j])
            if self.settings.free_intercept:
                shift(ascents)
        yield

    def _sweep_bundle(self, part, tol, n_epochs):
        """Up to `n_epochs` epochs of the problems `part`; returns whether they were done, as far as wanted."""
        ascents, labels = self.ascents[part], self.labels[part]
        inside, n_inside = np.flatnonzero(labels.any(axis=0)), np.count_nonzero(labels, axis=1)
        n, k = len(inside), len(labels)
        last, narrow = n_epochs * n, f"f{self.rows.value_bytes}"

        def most_are_within(factor):
            estimate = self.runs["estimate"][part]
            return tol is not None and (estimate > factor * tol).sum() < _LEAST_BUNDLE

        with _pegasos.bundled(
            _pegasos.lanes(self.rows), self.w[part], self.a[part], self.sums[part, :-1],
            dtypes=(narrow, np.float64, narrow),
        ) as (w, a, sums, heard):  # fmt: skip

            def record(done):
                self.n_swept[part] = done
                if done % n == 0:
                    self.n_epochs[part] += 1
                    self.n_visits[part] += n_inside
                    self.n_steps[part] += n_inside * (ascents["pegasos_mass"] > 0)
                    self.runs["n_snapshots"][part] = averages
                    self.sums[part, -1] = ascents["constant_sum"]
                    self._estimate(part, a.sum(axis=0)[:k])

            signs = _pegasos.interleaved(labels, w.shape[1])
            while (first := int(self.n_swept[part.start])) < last:
                if most_are_within(_HOPEFUL):
                    break
                end = first - first % n + n
                averages = most_are_within(4 * _HOPEFUL) or end == last
                if first % n == 0:
                    sums[:] = 0
                for _ in sweep(
                    self.rows, signs, inside, self.row_weights, self.norms, self.settings, ascents,
                    a, w, self.seed, first, end, sums if averages else None, record,
                ):  # fmt: skip
                    yield
                    if heard:
                        return False
        return True

    def _ascend(self, k):
        """Bring problem k to the end of its run."""
        (n, d), run, known = self.rows.shape, self.runs[k : k + 1], self.primal[k]
        is_free = self.settings.free_intercept
        scratch = (
            np.empty(d),
            np.empty(n) if is_free else None,
            np.empty(4 * n) if is_free else None,
        )
        if run["part"][0] > 0:  # an interrupted gap check is made once more
            run["part"], run["place"] = 1, 0
        status = _core.RUNNING
        while status == _core.RUNNING:
            status = _core.ascent_advance(
                self.rows, self.ascents[k : k + 1], run, self.labels[k], self.row_weights,
                self.norms, self.active[k], self.a[k], self.w[k], self.sums[k], self.coef[k],
                *scratch, _pegasos.numbers_per_call(),
            )  # fmt: skip
            self.is_seen[k] |= self.primal[k] < known
            if status == _core.OVERFLOW:
                raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
            yield

    def _estimate(self, part, total):
        """Estimate relative gaps from what was seen in the last epoch and sum_i a_i."""
        p, mass = self.ascents[part], self.mass[part]
        dual, gap = total / mass - self.settings.lam / 2 * p["squared_norm"], p["gap"] / mass
        self.runs["estimate"][part] = gap / np.maximum(dual + gap, 1e-300)

    def _check_gaps(self, problems, tol):
        """Find relative gaps: of the mean of w where there is one, and of w itself if that will not do."""
        problems = np.asarray(problems)
        dual = np.full(len(self.a), np.nan)
        dual[problems] = self._dual_values(problems)
        averaged = problems[self.runs["n_snapshots"][problems] > 0]
        if len(averaged):
            means = self.sums[averaged]
            self._judge(averaged, means[:, :-1], means[:, -1], dual)
        left = [k for k in problems if k not in averaged or not self._is_done(k, tol)]
        if left:
            self._judge(left, self.w[left], self.ascents["constant_weight"][left], dual)

    def _dual_values(self, problems):
        labels, mass = self.labels[problems], self.mass[problems]
        a = _certificate.feasible(self.a[problems], labels, self.row_weights, self.settings)
        squared_norm = self.ascents["constant_weight"][problems] ** 2
        for j, k in enumerate(problems):
            w = self.w[k]
            if self.settings.free_intercept:
                squared_norm[j] = 0
                w, _ = _certificate.weights_of(
                    self.rows, labels[j], a[j], self.settings.lam * mass[j], self.settings
                )
            squared_norm[j] += _certificate.inner(w, w)
        return _certificate.best_dual(
            a, squared_norm, mass, self.row_weights, self.settings.lam, self.settings.loss
        )

    def _judge(self, problems, points, constants, dual):
        """Keep those of the points that are better than what problems have."""
        labels = self.labels[problems]
        intercepts = self.ascents["intercept"][problems] + self.feature * constants
        if self.settings.free_intercept:
            intercepts = _certificate.best_intercepts(
                self.rows, labels, self.row_weights, points, self.settings.loss
            )
        primal = _certificate.objectives(
            self.rows, labels, self.row_weights, points, intercepts, self.settings,
            self.settings.lam,
        )  # fmt: skip
        for j, k in enumerate(problems):
            self._keep(k, points[j], intercepts[j], primal[j], dual[k])
