"""Kernel problems on their way to a certified gap, over a matrix that need never be held whole.

Dual ascent is in ``csrc/kernel.c``. Where it gets slow, and the kernel matrix has a factor of few
columns, Newton's method on that follows (`_low_rank`), and dual ascent completes what the factor's
rounding leaves.
"""

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pegasos import _core
from pegasos._threads import blas, in_threads, uninterrupted
from pegasos.problems import _certificate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers import _low_rank
from pegasos.solvers._ascent import features_of
from pegasos.solvers._kernel_pegasos import check_convex
from pegasos.solvers._solver import Solver

#: Layout of where a problem's run stands, that of ``struct pegasos_kernel``.
KERNEL_STATE = np.asarray(_core.BLANK_KERNEL).dtype

# Of running sums, the gap may be a little smaller than the certificate finds it.
_SAFELY = 0.99
# A gap that is proved once more, and is above this part of what it was, hardly gets smaller.
_HARDLY = 0.9
# Problems over a whole matrix with fewer numbers than this in all are not worth another thread.
_FEW = 2**20
# "auto" lets dual ascent go on as long as it halves the gap in so many epochs; in as many as
# Newton's method is likely to cost, if those are fewer. It is likely to read so many numbers more
# than follow from the size of the factor.
_BUDGET, _MORE = 128, 5e6
# Newton's method goes on to this part of the gap that is asked for, since dual ascent goes on from
# the primal point w(a), and not from the best one that Newton's method has found. If that is not
# enough, it is run again, each time to so much less, and for so many epochs at most. What is left
# after the last run is rounding.
_PART_OF_TOL, _MOST_RUNS, _EPOCHS_OF_RUN = 0.1, 3, 300


def _of_runs(name: str) -> Any:
    """A property: this field of all problems' runs, which the core writes."""
    return property(lambda solver: solver.runs[name])


class KernelAscent(Solver):
    """Kernel problems over the same rows, a `ColumnCache`.

    `coef` is beta, w = sum_j beta_j phi(x_j).

    Attributes
    ----------
    runs : structured ndarray of shape (n_problems,)
        Where each problem stands.
    scores : ndarray of shape (n_problems, n_rows)
        Of all rows without the intercept, of the dual variables `scored`.
    active : ndarray of int64 of shape (n_problems, n_rows)
        The rows of the round under way; `slopes` are theirs.
    plan : structured ndarray of shape (n_problems,)
        What "auto" goes by: the epoch at which the gap should be half of `gap_before`, and whether
        it was not; how often Newton's method was run, its epochs, and those before it; whether
        there is no factor for it.
    """

    checks_are_whole = True
    _STATE = ("a", "scored", "scores", "slopes", "coef", "active")
    _ARRAYS = (*_STATE, "runs", "plan", "base", "fingerprints", "value_bytes")
    _PLAN = np.dtype([(name, np.int64) for name in (
                         "budget_end", "was_slow", "n_runs", "newton", "before", "is_alone")]
                     + [("gap_before", np.float64)])  # fmt: skip

    primal, relative_gap, intercept = map(_of_runs, ("primal", "relative_gap", "intercept"))
    n_epochs, n_steps, n_inside = map(_of_runs, ("n_epochs", "n_steps", "n_inside"))

    @staticmethod
    def exact(rows: Any, name: str, n_problems: int) -> str | None:
        """Steps on pairs end exactly."""
        return name if rows.is_positive and name != "newton" else None

    @staticmethod
    def begins_with_pegasos(rows: Any) -> bool:
        """Whether there is a dual: its own first epoch is Pegasos, with steps of exact length.

        An epoch of plain Pegasos asks for the column of every row that was a violator once.
        """
        return rows.is_positive

    @property
    def has_dual(self) -> bool:
        return self.rows.is_positive

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        self.settings, self.seed = settings, seed
        self.runs = np.zeros(n_problems, KERNEL_STATE)
        self.runs["primal"] = self.runs["relative_gap"] = np.inf
        seeds = np.random.SeedSequence([seed, 1])
        self.runs["generator"] = seeds.generate_state(n_problems, np.uint64)
        self.plan = np.zeros(n_problems, self._PLAN)
        self.a, self.scored, self.scores, self.slopes, self.coef = np.zeros((5, n_problems, n_rows))
        self.active = np.zeros((n_problems, n_rows), np.int64)
        self.base = np.zeros(n_problems, np.int64)
        self.fingerprints = np.zeros(n_problems, np.int64)
        #: The size of kernel values that `scores` are of: 4 or 8; 0: none yet.
        self.value_bytes = np.zeros(1, np.int64)
        self.is_seen, self.is_at_rounding = np.zeros((2, n_problems), bool)

    def begin(self, problem: Problem, start: Any = None) -> None:
        rows, labels, is_free = problem.rows, problem.labels, self.settings.free_intercept
        check_convex(self.settings, rows)
        if rows is not self.rows:
            self._factor: Any = None
        self.problem, self.rows = problem, rows
        self.labels = labels
        size, known = rows.points.dtype.itemsize, self.value_bytes[0]
        if start is None and (
            (self.fingerprints != problem.fingerprints).any() or known not in (0, size)
        ):
            # Problems are others than before, or kernel values more exact: what was found of them
            # is of no use any more.
            a = _certificate.feasible(problem, self.a) if self.a.any() else self.a
            start = a, self.coef, self.intercept
        self.is_seen[:] = False
        #: Whether each problem has a kernel matrix of its own.
        self.is_divided = rows.is_divided_by(labels)
        self.norms, runs = rows.points.diagonal(), self.runs
        for name, value in (
            ("lam", problem.lams), ("mass", problem.masses), ("n_inside", problem.n_inside),
            ("free_intercept", is_free), ("feature", features_of(problem, self.norms)),
        ):  # fmt: skip
            runs[name] = value
        if start is None:
            return
        self.a[...], self.coef[...], runs["intercept"] = start
        # From a = 0, the first epoch is one of Pegasos, with steps of exact length.
        is_zero = np.asarray(self.a.any(axis=1) == 0)
        self._leave_rounds(slice(None))
        runs["part"][is_zero & rows.is_positive] = _core.KERNEL_BEGIN
        # A problem that was slow in single precision has used up its budget.
        is_wider, plan = known == 4 and size == 8, self.plan
        plan["budget_end"] = is_wider * plan["was_slow"] * runs["n_epochs"]
        plan["gap_before"] = runs["relative_gap"]
        plan["was_slow"] = plan["n_runs"] = plan["is_alone"] = 0
        self.scored[...] = self.a
        self.scores[...] = runs["constant_weight"] = runs["reference"] = 0
        if not is_zero.all():
            beta = problem.coefficients(self.a)
            self.scores[...] = rows.scores(beta[None], labels)[0]
            total = beta.sum(axis=1) - self.settings.loss.nu / problem.lams
            runs["constant_weight"] = runs["feature"] * total
        if is_free:
            runs["reference"] = problem.targets.intercepts(self.scores)
        self._forget_all_but_zero(slice(None))
        self.relative_gap[is_zero] = self.primal[is_zero] > 0  # the dual value of a = 0 is 0
        # Last: what was interrupted before is begun again.
        self.fingerprints[:], self.value_bytes[:] = problem.fingerprints, size

    def change_lam(self, settings: Settings, problem: Problem) -> None:
        """Go on with another λ; w stays, since optima change little with λ.

        Dual variables of a smaller λ are smaller then; those of a larger one stay within bounds.
        """
        before, runs = self.settings.lam, self.runs
        factor = min(1, settings.lam / before)
        of_w = factor * before / settings.lam
        with uninterrupted():
            self.settings, self.problem = settings, problem
            self.a *= factor
            self.scored *= factor
            self.scores *= of_w
            runs["constant_weight"] *= of_w  # not of one class, whose λ nobody changes
            runs["lam"] = problem.lams
            if settings.free_intercept:
                runs["reference"] = runs["intercept"]
            for name in ("n_epochs", "n_visits", "n_steps"):
                runs[name] = 0
            self.base[:] = 0
            self.plan[:] = 0
            self._leave_rounds(slice(None))
            self._forget_all_but_zero(slice(None))
            self.is_seen[:] = False

    def _leave_rounds(self, which: Any) -> None:
        """Let problems go on with a gap check, and then with a new round."""
        for name in ("n_active", "n_seen", "is_slow", "in_double", "moved"):
            self.runs[name][which] = 0
        self.runs["part"][which] = _core.KERNEL_CHECK

    def _forget_all_but_zero(self, which: Any) -> None:
        """Forget models, and take w = 0 as the best point so far."""
        intercept, primal = self.problem.constants
        self.coef[which], self.relative_gap[which] = 0, np.inf
        self.intercept[which], self.primal[which] = intercept[which], primal[which]

    def end_plan(self) -> None:
        super().end_plan()
        self.plan["budget_end"] = self.plan["n_runs"] = self.plan["is_alone"] = 0

    def epochs(self) -> dict[str, int]:
        k = int(np.argmax(self.n_epochs))
        newton, before = (int(self.plan[name][k]) for name in ("newton", "before"))
        pegasos = int(self.n_steps[k] > 0)  # a first epoch with steps of exact length
        ascent = int(self.n_epochs[k]) - pegasos - newton
        epochs = {"pegasos": pegasos, "sdca": ascent, "newton": newton}
        order = ["pegasos", "sdca", "newton"]
        if before <= pegasos:
            order = ["pegasos", "newton", "sdca"]
        return {name: epochs[name] for name in order if epochs[name] > 0}

    def progress(self) -> tuple[int, int, str]:
        gap = self.relative_gap.max()
        note = f"gap {gap:.2g}" if np.isfinite(gap) else ""
        return int(self.runs["n_visits"].sum()), 0, note

    # ---- The schedule ----------------------------------------------------------------------------

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        last, plan, runs = self.base + max(max_iter, 0), self.plan, self.runs
        threads: dict[str, Any] = {"n_threads": n_threads, "on_progress": on_progress}
        which, budget = np.flatnonzero(self.n_inside), self._budget()
        may_change = self.rows.is_positive and (
            self.method == "newton" or (self.method == "auto" and tol is not None)
        )
        while True:
            has_budget = may_change & (plan["is_alone"] == 0)
            is_new = has_budget & (plan["budget_end"] == 0)
            plan["budget_end"][is_new] = runs["n_epochs"][is_new] + budget
            plan["gap_before"][is_new] = 1
            self._ascend_all(
                which, tol, np.where(has_budget, np.minimum(plan["budget_end"], last), last),
                threads,
            )  # fmt: skip
            is_left = has_budget & (runs["n_epochs"] < last) & ~self.is_at_rounding
            which = which[is_left[which] & ~self._are_done(which, tol)]
            if not len(which):
                return
            is_slow = (runs["relative_gap"] > plan["gap_before"] / 2)[which]
            n_runs = plan["n_runs"][which]
            is_slow |= (n_runs == 0) & (self.method == "newton")
            # In single precision, that may be the reason: the caller goes on in double precision.
            most_runs = 0 if self.rows.points.is_narrow else _MOST_RUNS
            slow = which[is_slow & (n_runs < most_runs)]
            most = int((last - runs["n_epochs"])[which].max())
            found = self._newton(slow, tol, most, threads) if len(slow) else None
            with uninterrupted():
                self.is_at_rounding[which] = is_slow & (n_runs >= most_runs)
                plan["was_slow"][which] = is_slow
                plan["gap_before"][which] = runs["relative_gap"][which]
                plan["is_alone"][slow] = found is None
                if found is not None:
                    self._go_on_from(slow, *found)
                plan["budget_end"][which] = runs["n_epochs"][which] + budget
            which = which[~self.is_at_rounding[which]]

    def _budget(self) -> int:
        """Epochs of dual ascent, of n^2 numbers, that take as long as Newton's method.

        This reads n numbers for each pair of the factor's columns, about.
        """
        n = self.rows.shape[0]
        rank = min(self.rows.points.rank, n)
        epochs = 1 if self.method == "newton" else (n * rank**2 + _MORE) / n**2
        return int(np.clip(epochs, 1, _BUDGET))

    def _newton(
        self, which: np.ndarray, tol: float | None, max_iter: int, threads: dict[str, Any]
    ) -> Any:
        """Dual variables, intercepts and epochs of Newton's method; None: there is no factor."""
        if self._factor is None:
            self._factor = _low_rank.factor(self.rows)
        if not self._factor.shape[1]:
            return None
        own = self.problem.some(which)
        start = self.a[which], self.intercept[which]
        if tol is not None:
            tol *= _PART_OF_TOL ** (1 + int(self.plan["n_runs"][which].max()))
            max_iter = min(max_iter, _EPOCHS_OF_RUN)
        return _low_rank.newton(own, self._factor, start, tol, max_iter, self.seed, **threads)

    def _go_on_from(
        self, which: np.ndarray, a: np.ndarray, intercept: np.ndarray, n_epochs: np.ndarray
    ) -> None:
        """Let dual ascent go on where Newton's method has ended."""
        self.a[which] = a
        is_first = which[self.plan["n_runs"][which] == 0]
        self.plan["before"][is_first] = self.n_epochs[is_first]
        self.plan["n_runs"][which] += 1
        self.plan["newton"][which] += n_epochs
        self.runs["n_epochs"][which] += n_epochs
        self.runs["n_visits"][which] += n_epochs * self.n_inside[which]
        if self.settings.free_intercept:
            self.runs["reference"][which] = intercept
        self._leave_rounds(which)

    def _are_done(self, which: Any, tol: float | None) -> Any:
        """Whether problems have the gap that is asked for."""
        nu, gaps, primal = self.settings.loss.nu, self.relative_gap[which], self.primal[which]
        gaps = _certificate.significant(gaps, primal, nu)
        return gaps <= (-1 if tol is None else _SAFELY * tol)

    # ---- Dual ascent -----------------------------------------------------------------------------

    def _ascend_all(
        self, which: np.ndarray, tol: float | None, last: np.ndarray, threads: dict[str, Any]
    ) -> None:
        """Run these problems to an epoch, in threads unless they add columns to one cache."""
        self._n_threads, rows, most = None, self.rows, 1
        n_threads, on_progress = threads["n_threads"], threads["on_progress"]
        self.is_at_rounding[which] = self.runs["is_stuck"][which] = False
        self.runs["is_positive"] = rows.is_positive
        self.runs["tol"] = -1 if tol is None else _SAFELY * tol
        self.runs["last_epoch"][which] = last[which]
        with blas.one_thread():
            if rows.is_small:
                if not self.is_divided:
                    rows.keep(np.arange(len(rows.points)))
                most = n_threads if rows.size * len(self.a) > _FEW else 1
            elif self.is_divided:
                most, self._n_threads = rows.side_by_side(len(self.a))
            n_threads = min(n_threads, most)
            if self.is_divided:
                jobs = [functools.partial(self._ascend_inside, int(k), tol) for k in which]
            else:
                jobs = [functools.partial(self._ascend, part) for part in _shares(which, n_threads)]
            in_threads(jobs, n_threads, on_progress)

    def _ascend(self, which: np.ndarray, tell: Callable[[], None]) -> None:
        """Bring problems to the end of their runs."""
        rows = self.rows
        _core.kernel_run(
            rows.columns, rows.place, None if rows.is_small else rows, which, self.runs,
            self.problem.targets, self.norms, self.a, self.scored, self.scores, self.slopes,
            self.coef, self.active, self._watch(tell),
        )  # fmt: skip
        self.is_at_rounding[which] = self.runs["is_stuck"][which]

    def _watch(self, tell: Callable[[], None]) -> _core.Watch:
        return _core.Watch(tell, by_epochs=self.by_epochs)

    def _ascend_inside(self, k: int, tol: float | None, tell: Callable[[], None]) -> None:
        """Dual ascent of one problem, on the kernel matrix among the rows that are in it."""
        if self.rows.is_small:
            inside, columns = self.rows.parts(self.labels).part(k)
            self._run_inside(k, inside, columns, np.arange(len(inside)), None, tell)
            return
        inside, cache = self.rows.inside(self.labels[k], self._n_threads)
        proved = np.inf
        while True:
            self._run_inside(k, inside, cache.columns, cache.place, cache, tell)
            # Once more, without running sums, while columns are at hand.
            self._certify(k, inside, cache)
            if self._are_done(k, tol) or self.n_epochs[k] >= self.runs["last_epoch"][k]:
                return
            if self.runs["is_stuck"][k] or self.relative_gap[k] > _HARDLY * proved:
                self.is_at_rounding[k] = True
                return
            proved = self.relative_gap[k]

    def _run_inside(
        self, k: int, inside: Any, columns: np.ndarray, place: np.ndarray, cache: Any,
        tell: Callable[[], None],
    ) -> None:  # fmt: skip
        """Run problem k on the rows `inside`, whose kernel matrix has these columns."""
        arrays = [getattr(self, name)[k] for name in self._STATE]
        targets = self.problem.part(k, inside, cache).targets
        # Copies: whoever is told may read the problem, and all of it has to be that of one moment.
        own, run = [array[None, inside] for array in arrays], self.runs[k : k + 1].copy()
        a, scored, scores, slopes, coef, active = own

        def put_back() -> None:
            self.runs[k] = run[0]
            for array, part in zip(arrays, own, strict=True):
                array[inside] = part[0]

        def tell_of_all() -> None:
            put_back()
            tell()

        try:
            _core.kernel_run(
                columns, place, cache, np.zeros(1, np.int64), run, targets, self.norms[inside],
                a, scored, scores, slopes, coef, active, self._watch(tell_of_all),
            )  # fmt: skip
        finally:
            put_back()
        self.is_at_rounding[k] = run["is_stuck"][0]

    def scores_of_model(self) -> np.ndarray | None:
        """Those of w(a), where that is the best point so far."""
        beta = self.problem.coefficients(self.a)
        is_other = self.is_divided or not np.array_equal(beta, self.coef)
        return None if is_other else self.scores + self.intercept[:, None]

    def _certify(self, k: int, inside: Any, cache: Any) -> None:
        seen = _certificate.certify_kernel(
            self.problem.part(k, inside, cache),
            lambda: self.a[k : k + 1, inside],
            lambda: (self.coef[k : k + 1, inside], self.intercept[k : k + 1]),
        )
        if seen.relative_gap[0] >= 0:  # else no bound is known
            self.primal[k], self.relative_gap[k] = seen.objective[0], seen.relative_gap[0]
            self.is_seen[k] = True

    def prefer_constants(self) -> None:
        intercept, primal = self.problem.constants
        is_better = np.isfinite(self.primal) & (primal <= self.primal + _core.ROUNDING)
        for k in np.flatnonzero(is_better):
            if not self.coef[k].any():
                continue
            dual = self.primal[k] * (1 - self.relative_gap[k])
            with uninterrupted():
                self.coef[k], self.intercept[k], self.primal[k] = 0, intercept[k], primal[k]
                self.is_seen[k] = False
                if self.has_dual:
                    self.relative_gap[k] = max(primal[k] - dual, 0) / max(primal[k], 1e-300)

    # ---- Saving ----------------------------------------------------------------------------------

    @classmethod
    def restore(cls, settings: Settings, state: dict[str, np.ndarray], seed: int) -> Self:
        n_problems, n_rows = state["a"].shape
        solver = cls(settings, n_problems, n_rows, n_rows, seed)
        for name in cls._ARRAYS:
            getattr(solver, name)[...] = state[name]
        return solver


def _shares(which: np.ndarray, n_threads: int) -> list[np.ndarray]:
    """Problems of each thread; one by one, if there are several."""
    return [which] if n_threads == 1 else list(which[:, None])
