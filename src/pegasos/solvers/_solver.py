"""What solvers share that bring problems from where Pegasos begins to a certified gap."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from pegasos.problems import _certificate, _validate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings


class Solver:
    """Problems over the same rows, on their way to a relative duality gap.

    Attributes
    ----------
    settings : pegasos.problems._settings.Settings
        Of which λ, the loss and the intercept matter here.
    shape : tuple of int
        Rows and features; a kernel machine has no features.
    a : ndarray of shape (n_problems, n_rows)
        Dual variables.
    coef : ndarray of shape (n_problems, n_features)
        The best primal point at the last gap check, with `intercept`, and its objective `primal`.
    relative_gap : ndarray of shape (n_problems,)
        As of the last gap check.
    n_epochs, base : ndarray of int64 of shape (n_problems,)
        Passes over the rows at this λ; and from where on the present plan counts them.
    n_steps : ndarray of int64 of shape (n_problems,)
        Steps of Pegasos among them: a first epoch of dual ascent is one of Pegasos.
    fingerprints : ndarray of int64 of shape (n_problems,)
        Of the labels and row weights of each problem.
    n_inside : ndarray of int64 of shape (n_problems,)
        Rows that each problem has.
    """

    rows: Any = None  # until `begin`, as `problem`
    #: What `run` uses: "auto", "sdca" or "newton".
    method = "auto"
    #: Whether somebody wants to hear of every epoch: pieces of work must then end with it.
    by_epochs = False

    settings: Settings
    problem: Any = None
    shape: tuple[int, int]
    base: np.ndarray
    # Attributes of one, properties of the other.
    a: Any
    coef: Any
    intercept: Any
    primal: Any
    relative_gap: Any
    n_epochs: Any
    n_steps: Any

    @staticmethod
    def exact(rows: Any, name: str, n_problems: int) -> str | None:
        """The `method` that leaves nothing but rounding, if solver `name` was asked for.

        None if that would not be cheap.
        """
        raise NotImplementedError

    @staticmethod
    def begins_with_pegasos(rows: Any) -> bool:
        """Whether its own first epoch is one of Pegasos, so that it needs none before."""
        raise NotImplementedError

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        raise NotImplementedError

    @property
    def has_dual(self) -> bool:
        """Whether dual values bound the optimum.

        Else fits stop where |P - D| is small at one point, which does not move any more then.
        """
        return True

    def begin(self, problem: Problem, start: Any = None) -> None:
        """Say what is minimised, and where to start.

        `start` has dual variables, feasible, coefficients and intercepts. None: where this stands.
        """
        raise NotImplementedError

    def change_lam(self, settings: Settings, problem: Problem) -> None:
        """Go on with another λ, over the same rows; epochs are counted from here."""
        raise NotImplementedError

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
        then completes the one that was interrupted. A last iteration of several epochs may end
        after `max_iter`. Without `tol`, all epochs are made.
        """
        raise NotImplementedError

    def widen(self) -> bool:
        """Let rows be in double precision; False if they are, or may not be."""
        return False

    def end_plan(self) -> None:
        """Count the epochs of the next run from here."""
        self.base = np.array(self.n_epochs)

    def epochs(self) -> dict[str, int]:
        """Epochs of each solver, by its name, in the order in which they began.

        Of the problem that made most.
        """
        raise NotImplementedError

    def certificate(self) -> _certificate.Certificate:
        """What the last gap check found."""
        primal, gap = np.array(self.primal), np.array(self.relative_gap)
        nu = self.settings.loss.nu
        if not self.has_dual:
            return _certificate.Certificate(primal, np.full_like(primal, np.nan), gap, nu)
        return _certificate.Certificate(primal, primal * (1 - gap), nu=nu)

    def progress(self) -> tuple[int, int, str]:
        """Rows visited since this solver began, 0, and the largest gap."""
        raise NotImplementedError

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts."""
        coef, intercept = self.coef, np.array(self.intercept)
        coef = coef if coef.flags.owndata else coef.copy()
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise _validate.overflow(np.dtype(np.float64), self.settings.lam)
        return coef, intercept

    def scores_of_model(self) -> np.ndarray | None:
        """Scores of all rows under the model, (n_problems, n_rows), if they are at hand."""
        return None

    def seen(self) -> np.ndarray | None:
        """What certificates take from the last gap check: objectives, or gaps of kernel machines.

        None: nothing.
        """
        raise NotImplementedError

    def dual(self) -> np.ndarray:
        """Dual variables that belong to the present state."""
        return self.a

    # ---- Saving ----------------------------------------------------------------------------------

    _ARRAYS: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, np.ndarray]:
        """The state as a dictionary of arrays, to be given to `restore`."""
        return {name: getattr(self, name) for name in self._ARRAYS}

    @classmethod
    def restore(cls, settings: Settings, state: dict[str, np.ndarray], seed: int) -> Self:
        """The solver whose `state` this is; `begin` must follow."""
        raise NotImplementedError
