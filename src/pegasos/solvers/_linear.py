"""Linear problems on their way to a certified gap.

``csrc/solve.c`` has the schedule: an epoch of Pegasos, then dual coordinate ascent or Newton's
method. Here are the pieces of memory that it works on, one for each problem.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _rows, _validate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers import _pegasos
from pegasos.solvers._solver import Solver

#: How the core numbers the solvers that `solver=` names.
METHODS = {"auto": _core.AUTO, "sdca": _core.ASCENT, "newton": _core.NEWTON}
_STANDING = np.asarray(_core.BLANK_STANDING).dtype
# Newton's method may be taken to the end if that is likely to take so many seconds.
_CHEAP = 0.005
# Threads share a problem of so many numbers on which Newton's method is likely to take so many
# seconds: to start them and let them meet takes its time.
_MANY, _LONG = 10**5, 0.01
# Problems that begin together, as bundles, cost as much as so many.
_LEAST_BUNDLE = 3


class Linear(Solver):
    """Linear problems over the same rows.

    Attributes
    ----------
    memory : ndarray of uint8 of shape (n_problems, n_bytes)
        The states of all fits, as the core has them. Copying it is saving them.
    method : str
        What `run` uses, a key of `METHODS`.
    """

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        self.settings, self.seed = settings, seed
        self.shape = n_rows, n_features
        try:
            self.memory = np.zeros((n_problems, _core.kept(n_rows, n_features)), np.uint8)
        except (MemoryError, ValueError):
            raise MemoryError(
                f"{n_problems} problems over {n_rows} rows of {n_features} features are more than "
                "memory has room for"
            ) from None
        self.base = np.zeros(n_problems, np.int64)
        self.fingerprints = np.zeros(n_problems, np.int64)
        self.n_inside = np.zeros(n_problems, np.int64)
        self.is_at_rounding = np.zeros(n_problems, bool)
        # Epochs at other λ, which do not count.
        self._earlier = np.zeros(n_problems, np.int64)
        self._set_views()

    def _set_views(self) -> None:
        (n, d), k = self.shape, len(self.memory)
        of_a, of_coef = _core.standings(n, d, self.memory, np.zeros(k, _STANDING))
        self.a = self.memory[:, of_a : of_a + 8 * n].view(np.float64)
        self.coef = self.memory[:, of_coef : of_coef + 8 * d].view(np.float64)

    # ---- What the memory says --------------------------------------------------------------------

    def standings(self) -> np.ndarray:
        """What fits have found so far, one entry of `standing_t` each."""
        table = np.zeros(len(self.memory), _STANDING)
        _core.standings(*self.shape, self.memory, table)
        return table

    @property
    def primal(self) -> Any:
        return self.standings()["objective"]

    @property
    def relative_gap(self) -> Any:
        return self.standings()["relative_gap"]

    @property
    def intercept(self) -> Any:
        return self.standings()["intercept"]

    @property
    def n_epochs(self) -> Any:
        return self.standings()["n_epochs"] - self._earlier

    @property
    def n_steps(self) -> Any:
        return self.standings()["n_steps"]

    @property
    def is_seen(self) -> Any:
        """Dual ascent computes objectives from the model itself, and not from running sums."""
        is_ascent = self.standings()["solver"] == _core.ASCENT
        return is_ascent & self.coef.any(axis=1) if is_ascent.any() else is_ascent

    def progress(self) -> tuple[int, int, str]:
        """Rows visited, 0, and the largest gap."""
        table = self.standings()
        gap = table["relative_gap"].max()
        visited = int((table["n_epochs"] * self.n_inside).sum())
        return visited, 0, f"gap {gap:.2g}" if np.isfinite(gap) else ""

    def epochs(self) -> dict[str, int]:
        """Epochs of each solver, by its name, in the order in which they began.

        Of the problem that made most.
        """
        table = self.standings()
        k = table[np.argmax(table["n_epochs"])]
        epochs = {name: int(k[name]) for name in ("pegasos", "ascent", "newton")}
        if not epochs["pegasos"] and k["n_steps"]:  # a first epoch with steps of exact length
            epochs["pegasos"], epochs["ascent"] = 1, epochs["ascent"] - 1
        order = ["pegasos", "ascent", "newton"]
        if k["first_solver"] == _core.NEWTON:
            order = ["pegasos", "newton", "ascent"]
        names = {"ascent": "sdca"}
        return {names.get(name, name): epochs[name] for name in order if epochs[name] > 0}

    # ---- Fits ------------------------------------------------------------------------------------

    @staticmethod
    def begins_with_pegasos(rows: Any) -> bool:
        """Always: the core does it."""
        return True

    @staticmethod
    def exact(rows: _core.Rows, name: str, n_problems: int) -> str | None:
        """Newton's method, once the rows within the smoothed corner are those at the corner."""
        is_cheap = n_problems * _core.seconds(rows, _core.NEWTON) <= _CHEAP
        return "newton" if is_cheap and name in ("auto", "newton") else None

    def begin(self, problem: Problem, start: Any = None) -> None:
        """Say what is minimised, and where to start; see `Solver.begin`."""
        is_same = self.rows is problem.rows and self.problem is problem
        self.problem, self.rows = problem, problem.rows
        if not is_same:
            self.norms = _rows.squared_norms(problem.rows)
            if (self.fingerprints != problem.fingerprints).any():
                _core.set_pending(self.memory, *self.shape, _core.BEGIN_AT_POINT)
            else:  # but the rows may be others
                _core.set_pending(self.memory, *self.shape, _core.CHECK_DATA)
            self.fingerprints[:] = problem.fingerprints
            self.n_inside[:] = problem.n_inside
        if start is not None:
            a, coef, intercept = (np.ascontiguousarray(part, np.float64) for part in start[:3])
            _core.set_points(self.memory, a, coef, intercept)

    def change_lam(self, settings: Settings, problem: Problem) -> None:
        """Go on with another λ, over the same rows; epochs are counted from here."""
        self.settings, self.problem = settings, problem
        self._earlier += self.n_epochs
        self.base[:] = 0

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        n, rows, last = len(self.memory), self.rows, self.base + self._earlier + max(max_iter, 0)
        settings = self.settings
        options: dict[str, Any] = {
            "lam": settings.lam,
            "intercept_scaling": settings.constant_feature,
            "free_intercept": settings.free_intercept,
            "tol": -1.0 if tol is None else tol,
            "seed": self.seed,
            "solver": METHODS[self.method],
        }
        last = np.minimum(last, 2**62 // rows.shape[0] - 2)

        # Threads that are left over share the passes of Newton's method.
        is_long = rows.size >= _MANY and _core.seconds(rows, _core.NEWTON) >= _LONG
        n_shares = n_threads // n if is_long and self.method != "sdca" else 1

        def solve(part: slice, together: bool, tell: Callable[[], None]) -> None:
            with _threads.pool(1 if together else n_shares) as pool:
                status = _core.solve(
                    rows, self.problem.targets, part.start, self.norms, self.memory[part],
                    last[part], together=together, pool=pool,
                    watch=_core.Watch(tell, by_epochs=self.by_epochs), **options,
                )  # fmt: skip
            if status == _core.OVERFLOW:
                raise _validate.overflow(np.dtype(np.float64), settings.lam_told)

        has_blas = self.method != "sdca" and _core.gains_by_blas(rows.shape[1])
        n_groups = 1 if n_threads == 1 else n
        with _threads.blas.one_thread() if has_blas else contextlib.nullcontext():
            if bundles := self._bundles():
                jobs = [functools.partial(solve, part, True) for part in bundles]
                _threads.in_threads(jobs, n_threads, on_progress)
            jobs = [functools.partial(solve, part, False) for part in _parts(n, n_groups)]
            _threads.in_threads(jobs, n_threads, on_progress)

    def _bundles(self) -> list[slice]:
        """The problems that begin together."""
        n = len(self.memory)
        if n < _LEAST_BUNDLE or self.method == "newton" or self.problem.values is not None:
            return []
        return _parts(n, -(-n // _pegasos.lanes(self.rows)))

    # ---- Saving ----------------------------------------------------------------------------------

    _ARRAYS = ("memory", "base", "fingerprints", "n_inside")

    def state(self) -> dict[str, np.ndarray]:
        arrays = {name: getattr(self, name) for name in self._ARRAYS}
        return arrays | {"shape": np.array(self.shape, np.int64)}

    @classmethod
    def restore(cls, settings: Settings, state: dict[str, np.ndarray], seed: int) -> Self:
        n_rows, n_features = state["shape"].tolist()
        solver = cls(settings, len(state["memory"]), n_rows, n_features, seed)
        for name in cls._ARRAYS:
            getattr(solver, name)[...] = state[name]
        return solver


def _parts(n: int, n_parts: int) -> list[slice]:
    """`n` problems in `n_parts` slices."""
    return [slice(k * n // n_parts, (k + 1) * n // n_parts) for k in range(n_parts)]
