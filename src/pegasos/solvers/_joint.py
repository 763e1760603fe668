"""One problem over all classes, on its way to a certified gap.

``csrc/joint.c`` has the algorithms. Here is the memory that they work on, with the methods of
`pegasos.solvers._schedule.Schedule` that estimators use.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pegasos import _core
from pegasos.problems import _rows, _validate
from pegasos.problems._certificate import Certificate
from pegasos.problems._settings import Settings
from pegasos.solvers._linear import LinearSolver
from pegasos.solvers._schedule import _LEAST_GAP, _MOST_EPOCHS, GAP, next_check


class JointSchedule:
    """A joint problem over the classes of rows, by Pegasos or dual ascent.

    `cost[k, j]` is the cost of answering class j for rows of class k.
    """

    solver_class = LinearSolver

    def __init__(
        self, settings: Settings, cost: np.ndarray, n_features: int, dtype: Any, seed: int
    ) -> None:
        self.settings, self.cost, self.seed = settings, cost, seed
        self.n_features, self.dtype = n_features, np.dtype(dtype)
        self.memory = np.zeros(0, np.uint8)
        # Where the present plan began, in epochs and in steps of Pegasos; and the first step in the
        # average of its iterates, or 0 if there is no average.
        self.base = np.zeros(3, np.int64)
        self.is_pegasos = False
        self.fingerprint = 0
        self._problem: Any = None  # the core's form of the problem, made by `train`

    def set_rows(self, labels: np.ndarray, row_weights: np.ndarray | None, _: Any) -> None:
        """Set the problem, before `train`: labels as for one-vs-rest, and weights of rows."""
        codes = labels[0] > 0 if len(labels) == 1 else labels.argmax(axis=0)
        self.codes = np.where(labels.any(axis=0), codes, -1).astype(np.int64)
        self.weights = row_weights
        n, K = len(self.codes), len(self.cost)
        if self.n_rows:
            return
        what = f"a problem over {n} rows of {self.n_features} features and {K} classes is more than"
        self.memory = _core.aligned_zeros((self.n_bytes(n),), np.uint8, what)

    def n_bytes(self, n_rows: int) -> int:
        K, averages = len(self.cost), bool(self.settings.average)
        return _core.Joint.n_bytes(n_rows, self.n_features, K, averages)

    # ---- Training --------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def train(
        self,
        rows: Any,
        *,
        solver: str,
        tol: Any,
        max_iter: int,
        n_steps: Any = None,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
        on_epoch: Callable[[], None] | None = None,
    ) -> Certificate:
        """Go on until the relative gap is at most `tol`, or to the plan's end, in one thread."""
        self._take_rows(rows, solver == "pegasos" or n_steps is not None)
        newton_after = self._newton_after(solver)
        # Solve small problems up to rounding: see `pegasos.solvers._schedule.GAP`.
        is_exact = tol == "auto" and rows.size * len(self.cost) <= LinearSolver.small_size
        tol = GAP if tol == "auto" else tol
        told = self.n_iter

        def on_poll() -> None:
            nonlocal told
            if on_progress is not None:
                on_progress()
            if on_epoch is not None and told < self.n_iter:
                told = self.n_iter
                on_epoch()

        watch = _core.Watch(on_poll, by_epochs=on_epoch is not None)
        if not self.is_pegasos:
            run = functools.partial(self._run, self.memory, watch, newton_after=newton_after)
            last = int(self.base[0]) + max_iter
            if is_exact:
                most = min(last, int(self.base[0]) + _MOST_EPOCHS)
                if self.n_iter < most:
                    run(tol=_LEAST_GAP, last_epoch=most)
            run(tol=-1.0 if tol is None else tol, last_epoch=last)
            return self.certify(rows)
        stages = self._stages(max_iter, None if n_steps is not None else tol, n_steps, on_epoch)
        self._plan_average(stages[-1])
        for steps in stages:
            if steps <= self.core_state(self.memory)["n_steps"]:
                continue
            self._run(self.memory, watch, last_step=steps)
            on_poll()
            if tol is not None and self.certify(rows).relative_gap[0] <= tol:
                break
        return self.certify(rows)

    def _newton_after(self, solver: str) -> int:
        """The number of epochs of dual ascent before Newton's method; 0: never take it."""
        K, most = len(self.cost), _core.NEWTON_MAX_UNKNOWNS
        n_unknowns = K * (self.n_features + self.settings.fit_intercept)
        if solver == "newton" and n_unknowns > most:
            raise ValueError(
                f"{_validate.parameter('solver', solver)} takes up to {most} coefficients and "
                f"intercepts with {_validate.parameter('multi_class', 'crammer_singer')}, got "
                f"{n_unknowns} of {K} classes: take {_validate.parameter('solver', 'auto')}"
            )
        return {"newton": 1, "auto": self._problem.newton_after}.get(solver, 0)

    def _take_rows(self, rows: Any, is_pegasos: bool) -> None:
        """Set the data of the fit; a ValueError if the fit has begun on other data."""
        arrays = [*rows.arrays, self.codes, self.cost]
        fingerprint = _rows.fingerprint(*arrays, *[] if self.weights is None else [self.weights])
        if self.n_rows and self.fingerprint != fingerprint:
            raise ValueError(
                "X, y, cost and the weights of rows must be those of the fit that warm_start "
                "continues, got others: multi_class='crammer_singer' cannot go on with them"
            )
        if self.n_rows and self.is_pegasos != is_pegasos:
            raise ValueError(
                "solver must not change between Pegasos and dual ascent while a fit goes on with "
                "multi_class='crammer_singer'"
            )
        norms, settings = rows.squared_norms(), self.settings
        _validate.no_overflow(settings.lam, norms)
        is_free = settings.free_intercept
        self._problem = _core.Joint(
            rows, self.codes, self.weights, self.cost, norms, lam=settings.lam,
            feature=1.0 if is_free else settings.constant_feature, is_free=is_free,
        )  # fmt: skip
        self.fingerprint, self.is_pegasos = fingerprint, is_pegasos

    def _stages(self, max_iter: int, tol: Any, n_steps: Any, on_epoch: Any) -> list[int]:
        """The steps at which Pegasos checks the gap; the last one ends the plan."""
        base, n = int(self.base[1]), int(np.count_nonzero(self.codes >= 0))
        if n_steps is not None:
            return [base + n_steps]
        epochs = [max_iter] if tol is None else [next_check(0, max_iter)]
        while epochs[-1] < max_iter:
            epochs.append(next_check(epochs[-1], max_iter))
        if on_epoch is not None:
            epochs = list(range(1, max_iter + 1))
        return [base - (-e * n // self.settings.batch_size) for e in epochs]

    def _plan_average(self, last: int) -> None:
        """Set the first step of the average, given the last step of the plan.

        A suffix average has the last half of all steps. If more than half of them are done, it
        keeps the first step of the average of the last plan.
        """
        done, half = int(self.core_state(self.memory)["n_steps"]), last // 2
        if self.settings.average == "suffix" and half >= done:
            self.base[2] = half + 1
        elif not self.base[2]:
            self.base[2] = bool(self.settings.average)

    def _run(self, memory: np.ndarray, watch: _core.Watch, **options: Any) -> None:
        settings = self.settings
        if self.is_pegasos:
            sampling = _core.SAMPLINGS[settings.sampling]
            options |= {"batch_size": settings.batch_size, "sampling": sampling}
            options |= {"project": settings.project, "average_from": int(self.base[2])}
        try:
            self._problem.run(
                memory, averages=bool(settings.average), seed=self.seed, watch=watch, **options
            )
        except _core.TooLargeError:
            raise _validate.overflow("float64", settings.lam) from None

    def ended(self) -> Self:
        new, now = copy.copy(self), self.core_state(self.memory)
        new.base = np.array([now["n_epochs"], now["n_steps"], self.base[2]])
        return new

    # ---- What there is so far --------------------------------------------------------------------

    @staticmethod
    def core_state(memory: np.ndarray) -> Any:
        """The beginning of the memory of a fit, as ``struct pegasos_joint``."""
        return memory[: _core.JOINT_STATE.itemsize].view(_core.JOINT_STATE)[0]

    @property
    def n_rows(self) -> int:
        """The number of rows of the fit, or 0 before it begins."""
        return int(self.core_state(self.memory)["n_rows"]) if len(self.memory) else 0

    @np.errstate(all="ignore")
    def _checked(self) -> np.ndarray:
        """The memory, with the certificate of its present state; a copy if it had none."""
        now = self.core_state(self.memory)
        if now["is_checked"] or not now["n_steps"]:
            return self.memory
        memory = _core.aligned_zeros(self.memory.shape, np.uint8)
        memory[:] = self.memory
        self.core_state(memory)["is_due"] = 1
        options = {"last_epoch": int(now["n_epochs"]), "newton_after": int(now["width"] > 0)}
        if self.is_pegasos:
            options = {"last_step": int(now["n_steps"])}
        self._run(memory, _core.Watch(), **options)
        return memory

    def certify(self, rows: Any) -> Certificate:
        """The certificate of the present model, on the rows of `train`."""
        now = self.core_state(self._checked())
        if not now["n_steps"]:
            return Certificate.unknown(1)
        # a = 0 is a dual point too, with the value 0.
        primal, bound = now["primal"][None].copy(), np.fmax(now["dual"][None], 0)
        return Certificate(primal, bound, settings=self.settings)

    latest_certificate = certify

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts; for two classes, their difference."""
        K, d = len(self.cost), self.n_features
        numbers = self._checked()[_core.JOINT_STATE.itemsize :].view(np.float64)
        coef, intercept = numbers[: K * d].reshape(K, d).copy(), numbers[K * d : K * (d + 1)].copy()
        _validate.no_overflow(self.settings.lam, coef, intercept)
        return (coef, intercept) if K > 2 else (np.diff(coef, axis=0), np.diff(intercept))

    @property
    def n_iter(self) -> int:
        now = self.core_state(self.memory)
        if not self.is_pegasos:
            return int(now["n_epochs"])
        steps = int(now["n_steps"]) * self.settings.batch_size
        return -(-steps // max(int(now["n_inside"]), 1))

    @property
    def n_steps(self) -> np.ndarray:
        """Steps of Pegasos; the first epoch of dual ascent has one step a row."""
        return np.array([self.core_state(self.memory)["n_steps"]])

    @property
    def solver_epochs(self) -> dict[str, int]:
        first = self.n_iter if self.is_pegasos else min(self.n_iter, 1)
        newton = int(self.core_state(self.memory)["n_newton"])
        epochs = {"pegasos": first, "sdca": self.n_iter - first - newton, "newton": newton}
        return {name: n for name, n in epochs.items() if n}

    def epochs_of_plan(self) -> np.ndarray:
        return np.array([np.inf if self.is_pegasos else self.n_iter - self.base[0]])

    def alpha_counts(self) -> None:
        """There are none."""

    def progress(self) -> tuple[int, int, str]:
        """Rows visited, 0, and the gap at the last check."""
        now = self.core_state(self.memory)
        gap = Certificate(now["primal"][None], now["dual"][None]).relative_gap[0]
        visited = int(now["n_epochs"] * now["n_inside"] + now["position"] + now["n_steps"])
        return visited, 0, f"gap {gap:.2g}" if np.isfinite(gap) else ""

    # ---- Saving ----------------------------------------------------------------------------------

    def return_to_pegasos(self, rows: Any) -> None:
        """Refuse other rows, unless the fit has not begun."""
        if self.n_rows:
            raise ValueError(
                f"X must be that of the fit that warm_start continues, with {self.n_rows} rows, "
                f"got {rows.shape[0]} others: multi_class='crammer_singer' cannot go on with these"
            )

    def compact_state(self) -> dict[str, np.ndarray]:
        """The state for a fit that is not to go on: the next one begins anew."""
        numbers = np.array([self.seed, 0, 0, 0], np.uint64)
        return {"numbers": numbers, "weights": np.zeros(0, self.dtype)}

    def state(self) -> dict[str, np.ndarray]:
        if not self.n_rows:
            return self.compact_state()
        numbers = [self.seed, self.n_rows, self.is_pegasos, self.fingerprint]
        return self.compact_state() | {
            "numbers": np.array(numbers, np.uint64),
            "memory": self.memory.copy(),
            "base": self.base.copy(),
        }

    def restore(self, state: dict[str, np.ndarray]) -> Self:
        """Take over a saved `state`; the core checks its memory as training goes on."""
        if "memory" not in state:
            return self
        self.seed, _, is_pegasos, self.fingerprint = map(int, state["numbers"])
        self.is_pegasos = bool(is_pegasos)
        self.memory = _core.aligned_zeros(state["memory"].shape, np.uint8)
        self.memory[:], self.base = state["memory"], state["base"]
        return self
