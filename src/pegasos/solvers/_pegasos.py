"""Pegasos: problems and their state, run in pieces short enough to be interrupted.

The state is plain arrays. Whoever keeps them can go on later, in another process if
need be, and gets the bits of an uninterrupted run.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from pegasos import _core, _user_warnings
from pegasos.problems import _validate
from pegasos.problems._problem import Problem, blank, scaled
from pegasos.problems._settings import Settings

# The most numbers in the weights of problems that go over dense rows together.
_SHARED_NUMBERS = 2**15
# The delay t0 of the steps must be a whole number in float64.
_MOST_DELAY = 2**53
# Limits of lam t, which float32 must resolve, and of t, where Pegasos follows another solver.
MOST_GROWTH, _MOST_STEPS = 2**20, 2**50
# A bundle over sparse rows costs about as much as this number of single problems.
_LEAST_BUNDLE = 3


def bundle_size(rows: _core.Rows) -> int:
    """The number of problems in a bundle, so that the weights of a feature fill a cache line."""
    return _core.BUNDLE_BYTES // rows.value_bytes


def in_bundles(rows: _core.Rows, settings: Settings) -> bool:
    """Whether many problems can go in bundles: over sparse rows, with steps that are simple."""
    simple = settings.batch_size == 1 and not settings.project and not settings.loss.has_targets
    return bool(rows.is_sparse and simple)


def next_draw(problems: np.ndarray) -> int:
    """Number of the first draw that an unfinished problem has not read; -1 if all are finished.

    Finished problems may be far ahead; draws that they have read are not made again.
    """
    unfinished = problems["n_steps"] < problems["last_step"]
    return int(problems["next_draw"][unfinished].min()) if unfinished.any() else -1


class Plans(NamedTuple):
    """The plans that were carried out, in steps of each problem."""

    finished: np.ndarray  # where the last one ended
    base: np.ndarray  # where epochs are counted from
    n_epochs: int = 0  # since then


class Pegasos:
    """Linear problems over the same features, and the state of Pegasos on them.

    `dtype`, float32 or float64, is the type of the rows; `seed` determines the order of draws.
    """

    #: The problems, which have no rows before `set_rows`.
    problem: Problem
    # For suffix averages over several plans, one row per problem: mean weights of the earlier
    # steps, their mean intercept, and the number of steps.
    earlier: np.ndarray | None = None
    counts: np.ndarray | None = None

    def __init__(
        self, settings: Settings, n_problems: int, n_features: int, dtype: Any, seed: int
    ) -> None:
        self.seed, self.stream = seed, 0
        self.problem = blank(settings)
        self.problems = np.zeros(n_problems, _core.PROBLEM)
        self.problems["lam"] = settings.lams
        self.problems["intercept_scaling"] = settings.constant_feature
        self.problems["free_intercept"] = settings.free_intercept
        self.problems["ball"] = settings.loss.ball if settings.project else 0
        self.problems["q"] = 1
        shape = n_problems, n_features
        what = f"{n_features} weights for each of {n_problems} problems are more than"
        self.weights = _core.aligned_zeros(shape, dtype, what)
        batch, batch_size = (n_problems, settings.batch_size), settings.batch_size
        what = f"{_validate.parameter('batch_size', batch_size)} is more rows than"
        self.pending = _core.aligned_zeros(batch, np.int64, what)
        # l'(u) of pending rows, unless it is always 1.
        has_slopes = not settings.loss.has_counts
        self.slopes = _core.aligned_zeros(batch, np.float64, what) if has_slopes else None
        #: Sums of the iterates, if averages are wanted.
        self.sums: Any = _core.aligned_zeros(shape, dtype) if settings.average else None
        finished, base = np.zeros((2, n_problems), np.int64)
        self.plans = Plans(finished, base)
        self._planned_epochs: int | None = None

    @property
    def settings(self) -> Settings:
        return self.problem.settings

    @property
    def n_rows(self) -> int:
        """Rows of the problems: 0 before the first rows are set, and after `forget_rows`."""
        return self.problem.n_rows

    def copy(self) -> Self:
        """A copy of the problems that goes on by itself."""
        new = copy.copy(self)
        for name in self._ARRAYS:
            array = getattr(self, name)
            if array is not None:
                setattr(new, name, _core.aligned_zeros(array.shape, array.dtype))
                getattr(new, name)[...] = array
        return new

    def change_lam(self, problem: Problem) -> None:
        """Take over the λ of `problem`, which must differ in nothing else."""
        self.problem, self.problems["lam"] = problem, problem.settings.lams

    def set_averaging(self, is_wanted: bool) -> None:
        """Let later plans average the iterates, as in the settings or over a suffix, or not."""
        if is_wanted and self.sums is None:
            self.sums = _core.aligned_zeros(self.weights.shape, self.weights.dtype)
        elif not is_wanted and self.sums is not None:
            restarted = self._restarted(slice(None), 0)
            _core.update_atomically(vars(self), {"sums": None, "earlier": None}, written=restarted)

    @np.errstate(over="ignore", under="ignore")  # numbers that are too large become infinite
    def go_on_from(
        self,
        coef: np.ndarray,
        intercept: np.ndarray,
        n_epochs: int,
        n_inside: np.ndarray,
        squared_norm: float,
    ) -> None:
        """Go on from a model as if `n_epochs` epochs of Pegasos over `n_inside` rows had led to it.

        v = lam (t + t0) w. The number t of steps is made so large that the next step, of 1/(lam t),
        moves the score of an average row by at most 1. Otherwise a few rows could undo what a
        solver learned from many. Averages begin anew.
        """
        problems = self.problems
        steps = -(-n_epochs * n_inside // self.settings.batch_size)
        most = MOST_GROWTH / self.settings.batch_size
        growth = min(squared_norm + self.settings.constant_feature**2, most)
        least = np.minimum(np.maximum(growth / problems["lam"], 1), _MOST_STEPS).astype(np.int64)
        problems["n_steps"] = np.maximum(problems["n_steps"], np.maximum(steps, least))
        growth = problems["lam"] * (problems["n_steps"] + problems["delay"])
        self.weights[...] = growth[:, None] * coef
        feature = self.settings.constant_feature
        problems["constant_weight"] = growth * intercept / feature if feature else 0
        problems["intercept"] = 0 if feature else intercept
        problems["q"], problems["n_norm_updates"] = 1, 0
        squared = (self.weights.astype(np.float64) ** 2).sum(axis=1)
        problems["squared_norm"] = squared + problems["constant_weight"] ** 2
        self.set_averaging(False)
        self.set_averaging(bool(self.settings.average))
        finished = problems["n_steps"].copy()
        self.plans = Plans(finished, finished - steps, n_epochs)

    def forget_rows(self) -> None:
        """Keep only what was learned from the present rows."""
        self.problem = blank(self.settings)
        self.counts, self.problems = None, self.problems.copy()
        for name in ("next_draw", "n_drawn", "n_pending"):
            self.problems[name] = 0
        done = self.problems["n_steps"].copy()
        self.plans = Plans(done, done)

    def set_rows(
        self,
        labels: np.ndarray,
        row_weights: np.ndarray | None,
        values: np.ndarray | None = None,
        *,
        count: bool = True,
    ) -> None:
        """Set the `Problem` that has these arrays, with `row_weights` scaled."""
        self.set_problem(Problem(labels, scaled(row_weights), self.settings, values), count)

    def set_problem(self, problem: Problem, count: bool = True, normalize: bool = True) -> None:
        """Set the problems, before `plan` and `run`.

        If the number of rows stays the same, the stream of draws and the alpha counts go on.
        Otherwise both begin anew, and so does a step that was interrupted. `count`: keep alpha
        counts. `normalize`: divide weights by their mean, as the objective does.
        """
        row_weights, settings = problem.row_weights, problem.settings
        if problem.n_rows != self.n_rows:
            self.forget_rows()
        self.problem, (finished, base, n_epochs) = problem, self.plans
        if (finished - base != -(-n_epochs * problem.n_inside // settings.batch_size)).any():
            # Problems have gained or lost rows, so past epochs had other lengths.
            self.plans = Plans(finished, finished)
        if not count:
            self.counts = None
        elif self.counts is None:
            self.counts = np.zeros(problem.labels.shape)
        self.problems["weight_factor"] = 1
        if row_weights is not None and normalize:
            for k, column in enumerate(problem.labels):
                inside = column != 0
                mass = row_weights[inside].sum()
                self.problems["weight_factor"][k] = problem.n_inside[k] / mass if mass > 0 else 1
        if settings.project and settings.loss.has_targets:
            # At the optimum, lam/2 |w|^2 <= P(w) <= P(0).
            self.problems["ball"] = 2 * problem.at_zero

    def plan(self, *, n_steps: Any = None, n_epochs: int = 0) -> None:
        """Set the step at which each problem stops: `n_steps` or `n_epochs` past the last plan.

        A step takes batch_size draws. So E passes over the n_k rows of problem k are
        E n_k / batch_size steps, rounded up. If the last plan was interrupted, the new one replaces
        it: it begins where the last one began, and work done since counts.
        """
        problems, batch_size = self.problems, self.settings.batch_size
        inside, (finished, base, epochs) = self.problem.n_inside, self.plans
        if n_steps is None:
            name, given, planned = "max_iter", n_epochs, epochs + n_epochs
            steps = [-(-planned * int(n) // batch_size) for n in inside]
            targets = [int(b) + step for b, step in zip(base, steps, strict=True)]
        else:
            name, given, planned = "n_steps", n_steps, None
            targets = [
                int(done) + int(step) * bool(n)  # no rows, no steps
                for done, step, n in zip(
                    finished, np.broadcast_to(n_steps, inside.shape), inside, strict=True
                )
            ]
        if max(targets) * batch_size >= 2**62:
            raise ValueError(f"{name} is too large for these data: {given} makes over 2**62 draws")
        problems["last_step"] = np.maximum(targets, problems["n_steps"])
        self._planned_epochs = planned
        self._check_precision()
        self._plan_averages()

    def _check_precision(self) -> None:
        """Warn if single precision cannot hold the sums that the plan leads to.

        v grows like lam t w, while each row is added with a factor of 1/k. Once v is 2^24 times
        what is added, rounding loses the addition. A quarter of that keeps the bits that matter.
        """
        growth = (
            self.problems["lam"] * self.problems["last_step"]
        ).max() * self.settings.batch_size
        if self.weights.dtype == np.float32 and growth > 2**22:
            _user_warnings.warn(
                f"lam * steps * batch_size = {growth:.2g} is more than float32 can resolve; "
                "later steps may be lost. Give X as float64, or train for fewer steps",
                RuntimeWarning,
            )

    def _plan_averages(self) -> None:
        """Set the first step of each average.

        A suffix average covers the last half of the planned steps, but no step can be taken out of
        a sum. When training goes on by short plans, the average therefore has two sums: an earlier
        one, which has ended, and a present one, to which steps are added. When the present sum
        alone will cover the last third, it becomes the earlier one and a new sum begins. In the
        long run both cover between a third and five ninths of all steps, and never over 3/4.
        """
        problems = self.problems
        if self.sums is None:
            return
        if self.settings.average is True:
            problems["average_from"] = 1
            return
        for k, problem in enumerate(problems):
            done, last = int(problem["n_steps"]), int(problem["last_step"])
            if last == done:
                continue
            n, n_earlier, part = problem["n_averaged"], 0, slice(k, k + 1)
            if self.earlier is not None:
                n_earlier = self.earlier[k, -1]
            if last // 2 >= done or n == n_earlier == 0:
                if self.earlier is not None:
                    self.earlier[k, -1] = 0
                restarted = self._restarted(part, max(last // 2, done) + 1)
                _core.update_atomically({}, {}, written=restarted if n > 0 else restarted[1:])
            elif n > 0 and done == self.plans.finished[k]:  # else an interrupted plan goes on
                before = int(problem["average_from"]) - 1
                if 3 * before <= 2 * last:
                    self._end_sum(part)

    def _restarted(self, part: slice, average_from: Any) -> tuple[Any, ...]:
        """Changes that restart the averages of these problems at the step `average_from`."""
        problems = self.problems[part].copy()
        problems["average_from"] = average_from
        for name in ("rate_sum", "constant_sum", "intercept_sum", "n_averaged"):
            problems[name] = 0
        return (self.sums, part, 0), (self.problems, part, problems)

    def _end_sum(self, part: slice) -> None:
        """Make the sum of a problem the earlier one of its suffix average, and begin a new sum."""
        with np.errstate(all="ignore"):
            mean, intercept = self._in_core(part).model()
        if self.earlier is None:
            self.earlier = np.zeros((len(self.problems), self.weights.shape[1] + 2))
        earlier = *mean[0], intercept[0], self.problems["n_averaged"][part][0]
        restarted = self._restarted(part, self.problems["n_steps"][part] + 1)
        _core.update_atomically({}, {}, written=((self.earlier, part, earlier), *restarted))

    def progress(self) -> tuple[int, int, str]:
        """Steps taken by all problems, how many are planned, and a note."""
        p = self.problems
        return sum(p["n_steps"].tolist()), sum(p["last_step"].tolist()), ""

    @property
    def n_steps(self) -> np.ndarray:
        return self.problems["n_steps"].copy()

    @property
    def n_iter(self) -> int:
        """Passes over the present rows: as planned, if the plan has epochs, else those begun."""
        p = self.problems
        if self._planned_epochs and (p["n_steps"] >= p["last_step"]).all():
            return self._planned_epochs
        if self.plans.n_epochs > 0:
            return self.plans.n_epochs
        return -(-int(p["next_draw"].max()) // max(1, self.n_rows))

    def run(self, rows: Any, *, order: np.ndarray | None = None, **options: Any) -> None:
        """Carry out the plan and end it; more training needs a new plan."""
        self.carry_out(rows, order=order, **options)
        self.end_plan()

    def carry_out(
        self,
        rows: Any,
        *,
        order: np.ndarray | None = None,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
        on_epoch: Callable[[], None] | None = None,
    ) -> None:
        """Train until every problem has reached its last step, or `order` is used up.

        An exception (KeyboardInterrupt, or one raised by `on_progress`) can stop it at any time.
        The state is then as after a run that got so far. `order` are the rows to draw, from draw
        number 0 on, in place of the session's own stream. `on_progress` is called now and then,
        `on_epoch` when the state is as after a run that ended after an epoch.
        """
        self._shorten_steps(rows)
        if on_epoch is None:
            self._run(rows, order, n_threads, on_progress)
            return
        steps = -(-self.problem.n_inside // self.settings.batch_size)
        planned = self.problems["last_step"].copy()
        try:
            while (self.problems["n_steps"] < planned).any():
                self.problems["last_step"] = np.minimum(self.problems["n_steps"] + steps, planned)
                self._run(rows, order, n_threads, on_progress)
                on_epoch()
        finally:
            self.problems["last_step"] = planned

    def _shorten_steps(self, rows: Any) -> None:
        """Make the delay t0 of a smooth loss large enough for these rows: see ``pegasos.c``.

        Where t0 grows, v = lam (t + t0) w/q grows with it, so that w does not change.
        """
        curvature, problems = self.settings.loss.curvature, self.problems
        if curvature == 0:
            return
        norms = self._squared_norms(rows)
        norms = norms + max(self.settings.constant_feature**2, float(self.settings.free_intercept))
        if self.problem.row_weights is not None:
            norms = norms * self.problem.row_weights
        longest = (norms * (self.problem.labels != 0)).max(axis=1)
        least = np.ceil(curvature * problems["weight_factor"] * longest / problems["lam"])
        k = int(np.argmax(least))  # NaN is the largest
        if not np.isfinite(least[k]):
            raise _validate.overflow(self.weights.dtype, problems["lam"].min())
        if least[k] >= _MOST_DELAY:
            lam = problems["lam"][k]
            raise _validate.too_small(lam, lam * (least[k] / _MOST_DELAY), self.settings.loss.name)
        least = np.maximum(least.astype(np.int64), problems["delay"])
        before = problems["n_steps"] + problems["delay"]
        factor = (problems["n_steps"] + least) / np.maximum(before, 1)
        factor[before == 0] = 1  # v is 0
        if (factor == 1).all():
            problems["delay"] = least
            return
        new = self.copy()
        new.problems["delay"] = least
        new._scale(factor)
        vars(self).update(vars(new))

    def _squared_norms(self, rows: Any) -> np.ndarray:
        return rows.squared_norms()

    def _scale(self, factor: np.ndarray) -> None:
        """Multiply v of each problem, and the numbers that are proportional to v."""
        self.weights *= factor[:, None].astype(self.weights.dtype)
        if self.counts is not None:
            self.counts *= factor[:, None]
        self.problems["constant_weight"] *= factor
        self.problems["squared_norm"] *= factor**2
        self.problems["rate_sum"] /= factor

    def end_plan(self) -> None:
        """Let the next plan begin at the end of the present plan, which was carried out."""
        done, epochs = self.problems["n_steps"].copy(), self._planned_epochs
        self.plans = Plans(done, done if epochs is None else self.plans.base, epochs or 0)

    def _run(
        self,
        rows: Any,
        order: np.ndarray | None,
        n_threads: int,
        on_progress: Callable[[], None] | None,
    ) -> None:
        n, n_at_once = len(self.problems), self._n_at_once(rows)
        groups = np.array_split(np.arange(n), min(n, max(n_threads, -(-n // n_at_once))))

        def run(part: slice, on_poll: Callable[[], None]) -> None:
            problems = self.problems[part]
            first = next_draw(problems)
            if first < 0:
                return
            draws = self._order_from(first) if order is None else order[first:]
            bundled = rows.is_sparse and n_at_once > 1 and len(problems) >= _LEAST_BUNDLE
            targets = self.problem.subset(part).targets
            self._in_core(part).run(rows, targets, first, draws, _core.Watch(on_poll), bundled)

        jobs = [functools.partial(run, slice(group[0], group[-1] + 1)) for group in groups]
        _core.run_jobs(jobs, n_threads, on_progress)

    def _in_core(self, part: slice = slice(None)) -> _core.Pegasos:
        """Some of the problems, in the form in which the core trains them."""
        arrays = self.problems, self.weights, self.sums, self.counts, self.pending, self.slopes
        some: list[Any] = [None if array is None else array[part] for array in arrays]
        return _core.Pegasos(*some)

    def _n_at_once(self, rows: _core.Rows) -> int:
        """The number of problems that go over blocks of rows together.

        Problems share dense rows as long as all weight vectors stay in cache. Sparse rows leave
        little to share except a row's columns: problems go in bundles, or one by one.
        """
        if not rows.is_sparse:
            return max(2, int(_SHARED_NUMBERS / rows.shape[1]))
        return bundle_size(rows) if in_bundles(rows, self.settings) else 1

    def _order_from(self, first: int) -> _core.Order:
        """The session's order of draws, from draw number `first` on."""
        seed = self.seed
        if self.stream > 0:
            sequence = np.random.SeedSequence([self.seed, self.stream])
            seed = int(sequence.generate_state(1, np.uint64)[0])
        sampling = _core.SAMPLINGS[self.settings.sampling]
        return _core.Order(seed, np.empty(self.n_rows, np.int64), sampling, first)

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            coef, intercept = self._in_core().model()
            if self.earlier is not None:
                n_earlier = self.earlier[:, -1]
                share = n_earlier / np.maximum(n_earlier + self.problems["n_averaged"], 1)
                coef += share[:, None] * (self.earlier[:, :-2] - coef)
                intercept += share * (self.earlier[:, -2] - intercept)
        _validate.no_overflow(self.settings.lam, coef, intercept, dtype=self.weights.dtype)
        return coef, intercept

    def alpha_counts(self) -> np.ndarray | None:
        """Return a read-only copy of the alpha counts, as integers for the hinge."""
        if self.counts is None:
            return None
        counts = self.counts.astype(np.int64 if self.settings.loss.has_counts else np.float64)
        counts.flags.writeable = False
        return counts

    def last_check(self) -> None:
        """None, since Pegasos makes no gap check."""

    def dual(self) -> np.ndarray:
        """The dual variables that belong to the alpha counts.

        After T steps of k draws, w = 1/(lam (T + t0) k) sum_i (n c_i/m) alpha_i y_i x_i. So
        w(a) = w for a_i = c_i alpha_i n/((T + t0) k). For the hinge, after E whole epochs of
        permutations, T k = E n and alpha_i <= E: a is feasible, and the certificate tight.
        """
        assert self.counts is not None  # `set_problem` makes them by default
        steps = np.maximum(self.problems["n_steps"] + self.problems["delay"], 1)
        n_inside = np.maximum(self.problem.n_inside, 1)
        a = self.counts / (steps * self.settings.batch_size / n_inside)[:, None]
        c = self.problem.row_weights
        return a if c is None else a * c

    # ---- Saving ----------------------------------------------------------------------------------

    _ARRAYS = ("problems", "weights", "sums", "earlier", "pending", "slopes", "counts")

    def state(self) -> dict[str, np.ndarray]:
        state = {name: getattr(self, name) for name in self._ARRAYS}
        state["finished"], state["base"], n_epochs = self.plans
        numbers = [self.seed, self.n_rows, self.stream, n_epochs]
        state["numbers"] = np.array(numbers, dtype=np.uint64)
        return {name: array for name, array in state.items() if array is not None}

    @classmethod
    def restore(cls, settings: Settings, state: dict[str, np.ndarray]) -> Self:
        """Return the session of a `state`, which must be checked first if it may be damaged."""
        weights = state["weights"]
        seed, n_rows, stream, n_epochs = (int(number) for number in state["numbers"])
        session = cls(settings, weights.shape[0], weights.shape[1], weights.dtype, seed)
        session.problem = blank(settings, n_rows)
        session.stream = stream
        session.plans = Plans(state["finished"].copy(), state["base"].copy(), n_epochs)
        session.set_averaging("sums" in state)
        for name in {"counts", "earlier"} & state.keys():
            setattr(session, name, np.empty_like(state[name]))
        for name in cls._ARRAYS:
            if name in state:
                getattr(session, name)[...] = state[name]
        return session
