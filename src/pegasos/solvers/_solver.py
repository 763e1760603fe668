"""What solvers share that bring problems from where Pegasos ends to a certified gap."""

import functools
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Self

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _certificate, _validate
from pegasos.problems._problem import Problem
from pegasos.solvers._pegasos import Settings

#: Of running sums, the gap may be a little smaller than the certificate finds it.
SAFELY = 0.99


class Solver:
    """Problems over the same rows, on their way to a relative duality gap.

    Parameters
    ----------
    settings : pegasos.solvers._pegasos.Settings
        Of which λ and the intercept matter here.
    n_problems, n_rows, n_features : int
    seed : int
        Names the order in which rows are visited, if that is random.

    Attributes
    ----------
    a : ndarray of shape (n_problems, n_rows)
        Dual variables.
    coef : ndarray of shape (n_problems, n_features)
        The best primal point at the last gap check, with `intercept`, and its objective `primal`.
    relative_gap : ndarray of shape (n_problems,)
        As of the last gap check.
    is_seen : ndarray of bool of shape (n_problems,)
        Whether `primal` was computed on the present rows.
    n_epochs, n_visits : ndarray of int64 of shape (n_problems,)
        Passes over the rows, and rows visited.
    n_steps : ndarray of int64 of shape (n_problems,)
        Steps of Pegasos among them: a first epoch of dual ascent is one of Pegasos.
    fingerprints : ndarray of int64 of shape (n_problems,)
        Of the labels and row weights of each problem.
    n_inside : ndarray of int64 of shape (n_problems,)
        Rows that each problem has.
    is_at_rounding : ndarray of bool of shape (n_problems,)
        Whether the last run of a problem has ended above `tol` because rounding allows no smaller
        gap.
    """

    #: None until `begin`.
    rows: Any = None
    #: Whether somebody wants to hear of every epoch: pieces of work must then end with it.
    by_epochs = False

    #: Its name, as `solver=` has it.
    name = ""
    #: Whether the gap that a check finds may be told as the certificate of a fit.
    checks_are_whole = False

    @staticmethod
    def suits(rows: Any) -> bool:
        """Whether it can work on these rows."""
        return True

    @staticmethod
    def pays(rows: Any) -> bool:
        """Whether it may follow another solver that is slow."""
        return True

    @staticmethod
    def cost(rows: Any) -> float:
        """Seconds that it is likely to take to a gap of about 1e-3, from sizes alone."""
        return np.inf

    @staticmethod
    def ends_exactly(rows: Any) -> bool:
        """Whether its last iterations are few, and leave nothing but rounding."""
        return False

    @property
    def has_given_up(self) -> bool:
        """Whether the last run of a problem has ended above `tol` because it got nowhere."""
        return False

    @staticmethod
    def begins_with_pegasos(rows: Any) -> bool:
        """Whether its own first epoch is one of Pegasos, so that it needs none before."""
        return False

    @property
    def has_dual(self) -> bool:
        """Whether dual values bound the optimum.

        Else fits stop where |P - D| is small at one point, which does not move any more then.
        """
        return True

    _ARRAYS: ClassVar[tuple[str, ...]] = (
        "a", "coef", "intercept", "primal", "relative_gap", "n_epochs", "n_visits", "n_steps",
        "base",
        "fingerprints", "n_inside",
    )  # fmt: skip

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        self.settings, self.seed = settings, seed
        self.a = np.zeros((n_problems, n_rows))
        self.coef = np.zeros((n_problems, n_features))
        self.intercept = np.zeros(n_problems)
        self.primal = np.full(n_problems, np.inf)
        self.relative_gap = np.full(n_problems, np.inf)
        self.n_epochs = np.zeros(n_problems, np.int64)
        self.n_visits = np.zeros(n_problems, np.int64)
        self.n_steps = np.zeros(n_problems, np.int64)
        self.base = np.zeros(n_problems, np.int64)
        self.fingerprints = np.zeros(n_problems, np.int64)
        self.n_inside = np.zeros(n_problems, np.int64)
        self.is_at_rounding = np.zeros(n_problems, bool)

    def begin(self, problem: Problem, start: Any = None) -> Any:
        """Say what is minimised, and where to start.

        Parameters
        ----------
        problem : pegasos.problems._problem.Problem
        start : tuple of arrays, optional
            Dual variables, feasible, coefficients and intercepts; and, if they are known, scores of
            all rows under w(a) without the intercept. None: where the solver stands.

        Returns
        -------
        tuple of arrays, or None
            `start`; where problems are others than before, whose sums and bounds are of no use any
            more, the points at which the solver stands.
        """
        self.problem, self.rows = problem, problem.rows
        self.labels, self.row_weights, self.mass = (
            problem.labels,
            problem.row_weights,
            problem.masses,
        )
        if start is None and (self.fingerprints != problem.fingerprints).any():
            start = _certificate.feasible(problem, self.a), self.coef, self.intercept
        self.fingerprints[:] = problem.fingerprints
        self.n_inside[:] = problem.n_inside
        if start is not None:
            self.a[...], self.coef[...], self.intercept[...] = start[:3]
            self.primal[:] = self.relative_gap[:] = np.inf
        self.is_seen = np.zeros(len(self.a), bool)
        return start

    def continue_from(self, other: "Solver") -> None:
        """Go on counting from another solver, and trust its certificates and what they are of."""
        for name in Solver._ARRAYS:
            getattr(self, name)[...] = getattr(other, name)
        self.is_seen = other.is_seen.copy()

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """Go on until every problem's relative gap is at most `tol`, or for `max_iter` epochs.

        Can be stopped at any time by an exception; a run that is called again, before `end_plan`,
        then completes the one that was interrupted.

        Parameters
        ----------
        tol : float or None
            None: `max_iter` epochs.
        max_iter : int
            A last iteration that takes several epochs may end later.
        n_threads, on_progress
            As in `Pegasos.carry_out`.
        """
        last = self.base + max(max_iter, 0)
        _threads.in_threads(self._jobs(tol, last, n_threads), n_threads, on_progress)

    def _jobs(self, tol: float | None, last: np.ndarray, n_threads: int) -> list[Any]:
        """What `run` has to do, for `in_threads`."""
        return [
            _threads.by_pieces(functools.partial(self._improve, k, tol, int(last[k])))
            for k in range(len(self.a))
        ]

    def end_plan(self) -> None:
        """Count the epochs of the next run from here."""
        self.base = self.n_epochs.copy()

    def _improve(self, k: int, tol: float | None, last: int) -> Generator[Any]:
        """Run problem `k` for up to `last` epochs in all, yielding after each piece of work."""
        raise NotImplementedError

    def _keep(
        self, k: int, coef: np.ndarray, intercept: np.ndarray, primal: float, dual: float
    ) -> None:
        """Take the result of a gap check: keep the primal point if it is the best, set the gap."""
        if primal < self.primal[k]:
            self.coef[k], self.intercept[k], self.primal[k] = coef, intercept, primal
        self.is_seen[k] = False
        if self.has_dual:
            gap, primal = max(self.primal[k] - dual, 0), self.primal[k]
        else:
            gap = abs(primal - dual)
        self.relative_gap[k] = gap / max(primal, 1e-300)

    def _forget_all_but_zero(self, which: slice) -> None:
        """Forget those of some problems, and take w = 0 as the best point so far."""
        intercept, primal = self.problem.constants
        self.coef[which], self.relative_gap[which] = 0, np.inf
        self.intercept[which], self.primal[which] = intercept[which], primal[which]

    def prefer_constants(self) -> None:
        """Take w = 0 where no better point is known.

        Where it is the optimum, solvers come close to it. What they leave is noise, by which the
        model would rank rows.
        """
        intercept, primal = self.problem.constants
        is_better = np.isfinite(self.primal) & (primal <= self.primal + _core.ROUNDING)
        for k in np.flatnonzero(is_better):
            if not self.coef[k].any():
                continue
            dual = self.primal[k] * (1 - self.relative_gap[k])
            with _threads.uninterrupted():
                self.coef[k], self.intercept[k], self.primal[k] = 0, intercept[k], primal[k]
                self.is_seen[k] = False
                if self.has_dual:
                    self.relative_gap[k] = max(primal[k] - dual, 0) / max(primal[k], 1e-300)

    def certificate(self) -> _certificate.Certificate:
        """What the last gap check found."""
        if not self.has_dual:
            unknown = np.full_like(self.primal, np.nan)
            return _certificate.Certificate(self.primal.copy(), unknown, self.relative_gap.copy())
        return _certificate.Certificate(self.primal.copy(), self.primal * (1 - self.relative_gap))

    def _is_done(self, k: int, tol: float | None) -> bool:
        if tol is None:
            return False
        gap = _certificate.significant(self.relative_gap[k], self.primal[k])
        return bool(gap <= SAFELY * tol)

    def progress(self) -> tuple[int, int, str]:
        """Rows visited since this solver began, 0, and the largest gap."""
        gap = self.relative_gap.max()
        return int(self.n_visits.sum()), 0, f"gap {gap:.2g}" if np.isfinite(gap) else ""

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts."""
        coef, intercept = self.coef.copy(), self.intercept.copy()
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
        return coef, intercept

    def scores_of_model(self) -> np.ndarray | None:
        """Scores of all rows under the model, (n_problems, n_rows), if they are at hand."""
        return None

    def scores_of_dual(self) -> np.ndarray | None:
        """Scores of all rows under w(a) without the intercept, if they are at hand."""
        return None

    def dual(self) -> np.ndarray:
        """Dual variables that belong to the present state."""
        return self.a

    def state(self) -> dict[str, np.ndarray]:
        """The state as a dictionary of arrays, to be given to `restore`."""
        return {name: getattr(self, name) for name in self._ARRAYS}

    @classmethod
    def restore(cls, settings: Settings, state: dict[str, np.ndarray], seed: int) -> Self:
        """The solver whose `state` this is; `begin` must follow."""
        solver = cls(
            settings, state["a"].shape[0], state["a"].shape[1], state["coef"].shape[1], seed
        )
        for name in cls._ARRAYS:
            getattr(solver, name)[...] = state[name]
        return solver
