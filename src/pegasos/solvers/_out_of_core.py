"""The common part of fits whose rows lie elsewhere, on disk or on a cluster."""

import copy
from typing import Any, Self

import numpy as np

from pegasos.problems._certificate import Certificate
from pegasos.problems._settings import Settings
from pegasos.solvers import _schedule


class OutOfCoreSchedule:
    """A fit that makes passes over rows that lie elsewhere; estimators use it as a `Schedule`.

    `about`, a `Partitions` or `Blocks`, describes all rows. `masses` and `n_inside` are the sum of
    weights and the number of rows of each problem. `n_passes` counts all passes, `base` those of
    earlier plans.
    """

    #: The name of the solver, as in `solver=`.
    name: str
    #: Attributes that a state has besides arrays: numbers >= 0.
    _COUNTS: tuple[str, ...] = ()

    def __init__(
        self, settings: Settings, about: Any, masses: np.ndarray, n_inside: np.ndarray, seed: int
    ) -> None:
        self.settings, self.about, self.seed = settings, about, seed
        self.masses, self.n_inside = np.where(masses > 0, masses, 1), n_inside
        self.n_passes = self.base = 0

    @property
    def n_rows(self) -> int:
        return int(self.about.shape[0])

    @property
    def n_iter(self) -> int:
        return self.n_passes

    @property
    def n_steps(self) -> np.ndarray:
        return np.zeros(len(self.masses), np.int64)

    @property
    def solver_epochs(self) -> dict[str, int]:
        return {self.name: self.n_passes}

    def alpha_counts(self) -> None:
        """There are none."""

    def epochs_of_plan(self) -> np.ndarray:
        return np.full(len(self.masses), self.n_passes - self.base)

    def certify(self, rows: Any = None) -> Certificate:
        """The certificate of the best models so far; NaN before it is known."""
        raise NotImplementedError

    def _with_gap(self, note: str) -> str:
        """A note with the largest gap, once the gaps of all problems are known."""
        gap = self.certify().proved_gap.max()
        return f"{note}, gap {gap:.1e}" if np.isfinite(gap) else note

    def ended(self) -> Self:
        new = copy.copy(self)
        new.base = self.n_passes
        return new

    def compact_state(self) -> dict[str, np.ndarray]:
        """What Pegasos needs besides the model to go on with other rows; see `Schedule`."""
        norm, of_rows = self.about.mean_squared_norm, (self.about.shape[1], self.about.dtype)
        return _schedule.compact_state(self, self.n_inside, norm, *of_rows, seed=self.seed)

    def state(self) -> dict[str, np.ndarray]:
        """All that a fit needs to go on with the same bits."""
        numbers = [self.seed, self.n_passes, self.base]
        numbers += [getattr(self, name) for name in self._COUNTS]
        return {
            "blocks": np.array([self.n_parts, *self.about.fingerprint], np.int64),
            "numbers": np.array(numbers, np.uint64),
        }

    @property
    def n_parts(self) -> int:
        """The number of parts in which the rows are read."""
        raise NotImplementedError

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take over a saved `state`, which may be damaged; nothing was trained before."""
        own = OutOfCoreSchedule.state(self)
        if not np.array_equal(state.get("blocks", ()), own["blocks"]):
            raise ValueError(
                "the fit to go on with was of other partitions or blocks, or with other memory"
            )
        numbers = np.asarray(state.get("numbers", ()))
        if numbers.dtype != np.uint64 or numbers.shape != own["numbers"].shape:
            raise ValueError("state: numbers are missing, or do not fit the rest")
        seed, n_passes, base, *counts = numbers.tolist()
        if not (base <= n_passes < 2**40 and self._are_counts(n_passes, *counts)):
            raise ValueError("state: numbers do not fit the rest")
        self._restore({name: array for name, array in state.items() if name not in own})
        self.seed, self.n_passes, self.base = seed, n_passes, base
        vars(self).update(zip(self._COUNTS, counts, strict=True))

    def _are_counts(self, n_passes: int, *counts: int) -> bool:
        """Whether `_COUNTS` can have these values after `n_passes` passes."""
        return True

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take the arrays of a state, or change nothing and raise a ValueError."""
        raise NotImplementedError
