"""A fit: the session of Pegasos or another solver, whichever is at work, and its results.

`LinearSolver` (schedule: ``csrc/solve.c``) solves linear problems, `KernelSolver` kernel problems.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pegasos.problems import _certificate
from pegasos.problems._problem import Problem, blank, scaled
from pegasos.problems._settings import Settings
from pegasos.solvers._linear import LinearSolver, shallow_copy
from pegasos.solvers._pegasos import MOST_GROWTH

# Pegasos checks no gap before this number of epochs.
_EPOCHS_BEFORE_CHECK = 20

# Down to this gap, kernel values in single precision nearly always do. Certificates are in double.
_LEAST_NARROW = 1e-4

# tol="auto" asks for the gap GAP, well below what thousands of test rows can tell. If the rows or
# kernel matrices of all problems have few numbers (`LinearSolver.small_size`), it asks for a gap
# that is only rounding, within _MOST_EPOCHS. (w is off by the root of the gap where the loss is
# smooth; the hinge has corners, which are found exactly.) With few features, a fit of 1.2 to 2.1 ms
# takes hardly longer; kernel machines of 500 rows would take 1.3 to 2.5 times as long.
GAP, _MOST_EPOCHS = 1e-3, 200
_LEAST_GAP, _LEAST_GAP_IF_SMOOTH = 1e-10, 1e-14


#: Values of `solver=` besides "auto", in the order of tables of epochs.
SOLVERS = ("pegasos", "sdca", "newton")


def next_check(epochs: int, max_iter: int) -> int:
    """The number of epochs at which Pegasos, after `epochs`, checks the gap; at most `max_iter`.

    Epochs double from check to check. A check takes two passes, a tenth of the epochs before it.
    """
    return max(min(epochs + max(epochs, _EPOCHS_BEFORE_CHECK), max_iter), epochs)


class Schedule:
    """Problems over the same rows, the solver at work on them, and the rest of the plan.

    `solver_class` is the class of the solver that follows Pegasos: `LinearSolver`, or
    `KernelSolver` for kernel machines, whose `n_features` is the number of rows. `finisher` is
    that solver once it is at work; the fit then has its model. None: Pegasos is at work.
    """

    def __init__(
        self,
        solver_class: type[LinearSolver],
        settings: Settings,
        n_problems: int,
        n_features: int,
        dtype: Any,
        seed: int,
    ) -> None:
        self.solver_class, self.dtype, self.seed = solver_class, np.dtype(dtype), seed
        self.shape = n_problems, n_features
        self.problem = blank(settings)
        self.finisher: Any = None
        self._pegasos: Any = None
        # Epochs that Pegasos has made in a fit that is not over yet.
        self.epochs_begun = 0
        # The solvers before the one at work and their epochs, in the order in which they ran.
        self._earlier_epochs: tuple[tuple[str, int], ...] = ()

    @property
    def pegasos(self) -> Any:
        """The session of Pegasos, made at the first use: a fit by another solver needs none."""
        if self._pegasos is None:
            new = self.solver_class.pegasos(self.settings, *self.shape, self.dtype, self.seed)
            if len(self.problem):
                new.set_problem(self.problem)
            self._pegasos = new
        return self._pegasos

    @property
    def solver(self) -> Any:
        """The solver at work."""
        return self.pegasos if self.finisher is None else self.finisher

    # ---- Training --------------------------------------------------------------------------------

    def set_rows(
        self, labels: np.ndarray, row_weights: np.ndarray | None, values: np.ndarray | None = None
    ) -> None:
        """Set the problems, before `train`; `values` are the z_i of losses that take targets."""
        if labels.shape[1] != self.n_rows:
            self.finisher, self._earlier_epochs = None, ()
        self.problem = Problem(labels, scaled(row_weights), self.settings, values)
        if self._pegasos is not None:
            self._pegasos.set_problem(self.problem)

    def set_piece(
        self, labels: np.ndarray, row_weights: np.ndarray | None, values: np.ndarray | None
    ) -> None:
        """Set the problems to the next piece of rows, for Pegasos.

        The piece has a new stream of draws and weights that count as they are; no alpha counts.
        """
        pegasos, self._earlier_epochs = self.pegasos, ()
        pegasos.forget_rows()
        pegasos.stream += 1
        self.problem = Problem(labels, row_weights, self.settings, values)
        pegasos.set_problem(self.problem, count=False, normalize=False)

    # Overflow is found where models and certificates are made, and reported there.
    @np.errstate(all="ignore")
    def train(
        self,
        rows: Any,
        *,
        solver: str,
        tol: Any,
        max_iter: int,
        n_steps: Any = None,
        order: np.ndarray | None = None,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
        on_epoch: Callable[[], None] | None = None,
        check: str = "afresh",
    ) -> _certificate.Certificate:
        """Run solvers until every relative duality gap is at most `tol`, or to the plan's end.

        An exception can stop it at any time. The next call then completes the plan. To allow a new
        plan, replace the stored schedule by what `ended` returns.

        `tol="auto"` asks for `GAP`, or for a gap that is only rounding where that costs little;
        None asks for `max_iter` epochs. `n_steps` and `order` are for "pegasos" and replace both.
        With `on_epoch`, one thread is used; since problems of a solver need not go together, an
        epoch is then as many passes as there are problems. `check` chooses the certificate:
        "afresh" (from the model and the dual variables), "last" (from the solver), or "none".
        """
        is_fixed = n_steps is not None or order is not None
        threads: dict[str, Any] = {
            "n_threads": n_threads if on_epoch is None else 1,
            "on_progress": on_progress,
            "on_epoch": on_epoch,
        }
        stages = self._stages(rows, solver, tol, max_iter, is_fixed)
        while True:
            (name, gap, most), *stages = stages
            wanted: Any = gap
            while True:
                if name == "pegasos" or is_fixed:
                    plan = None if is_fixed else wanted, most, n_steps, order
                    found = self._run_pegasos(rows, *plan, threads)
                else:
                    at_work, start = self._next_solver(rows, threads)
                    at_work.begin(rows, self.problem, start)
                    self._put_to_work(at_work)
                    at_work.run(
                        wanted, most - self.epochs_begun, method=name,
                        by_epochs=on_epoch is not None, n_threads=threads["n_threads"],
                        on_progress=self._telling(on_progress, on_epoch),
                    )  # fmt: skip
                    is_checked = at_work.solutions()["is_gap_checked"].all() and at_work.is_proved
                    found = at_work.certificate() if check == "last" or is_checked else None
                if check == "none":
                    return _certificate.Certificate.unknown(self.shape[0])
                certificate = found or self.solver_class.certify(rows, self.problem, self.solver)
                if wanted is None or is_fixed or certificate.proved_gap.max() <= wanted:
                    return certificate
                excess = certificate.rounding_excess(wanted)
                is_short = (certificate.proved_gap > gap) & (self.epochs_of_plan() < most)
                if excess:  # rounding, which solvers do not count: ask for a smaller gap
                    wanted -= 2 * excess
                elif is_short.any() and self.solver.widen():
                    wanted = gap
                else:
                    break
            if not stages or certificate.stopping_gap.max() <= GAP:
                return certificate

    def _stages(
        self, rows: Any, solver: str, tol: Any, max_iter: int, is_fixed: bool
    ) -> list[tuple[str, Any, int]]:
        """What to try, in order: a solver, the gap to reach, and the most epochs."""
        if tol != "auto":
            return [(solver, tol, max_iter)]
        usual = (solver, GAP, max_iter)
        if is_fixed or not self._has_few(rows.size):
            return [usual]
        exact = self.solver_class.exact(rows, self.settings, solver, self.shape[0])
        if exact is None:
            return [usual]
        loss = self.settings.loss
        least = _LEAST_GAP_IF_SMOOTH if loss.curvature or loss.nu else _LEAST_GAP
        return [(exact, least, min(max_iter, _MOST_EPOCHS)), usual]

    def may_be_narrow(self, solver: str, tol: Any, n_rows: int) -> bool:
        """Whether kernel values in single precision are likely to do for `train`.

        False if the last `train` needed double precision.
        """
        if solver not in ("auto", "sdca") or tol is None:
            return False
        if self.finisher is not None and self.finisher.value_bytes == 8:
            return False
        return not self._has_few(n_rows**2) if tol == "auto" else tol >= _LEAST_NARROW

    def _has_few(self, n_numbers: int) -> bool:
        """Whether rows or a kernel matrix of `n_numbers` are small, over all problems together."""
        return n_numbers * self.shape[0] <= self.solver_class.small_size

    def _run_pegasos(
        self,
        rows: Any,
        tol: float | None,
        max_iter: int,
        n_steps: Any,
        order: np.ndarray | None,
        threads: dict[str, Any],
    ) -> _certificate.Certificate | None:
        """Run Pegasos alone: the whole plan, or epochs until a check finds a small enough gap.

        Returns the certificate of that check, or None if the plan ended without one.
        """
        self.return_to_pegasos(rows)
        pegasos = self.pegasos
        pegasos.set_averaging(bool(self.settings.average))
        if tol is None:
            pegasos.plan(n_steps=n_steps, n_epochs=max_iter)
            pegasos.carry_out(rows, order=order, **threads)
            return None
        while True:
            until = next_check(self.epochs_begun, max_iter)
            pegasos.plan(n_epochs=until - self.epochs_begun)
            pegasos.carry_out(rows, **threads)
            if until >= max_iter:
                return None
            certificate = self.certify(rows)
            if certificate.stopping_gap.max() <= tol:
                return certificate
            pegasos = self._ended_pegasos()
            vars(self).update(_pegasos=pegasos, epochs_begun=until)

    def _ended_pegasos(self) -> Any:
        ended = shallow_copy(self.pegasos)
        ended.end_plan()
        return ended

    def _next_solver(self, rows: Any, threads: dict[str, Any]) -> tuple[Any, Any]:
        """The solver at work or the one after Pegasos, and the point where it begins; None: at 0.

        If that solver has no first epoch of Pegasos in itself, Pegasos makes an epoch before it.
        """
        if self.finisher is not None:
            return self.finisher, None
        start = None
        if not self.solver_class.has_dual(rows):
            # An average is by far the better point to start at.
            self.pegasos.set_averaging(True)
            self.pegasos.plan(n_epochs=1)
            self.pegasos.carry_out(rows, **threads)
        if self.n_steps.any():
            coef, intercept = self.pegasos.model()
            targets, is_free = self.problem.targets, self.settings.free_intercept
            a = targets.feasible(self.pegasos.dual(), is_free)
            start = a, coef, intercept
        (n_rows, n_features), n_problems = rows.shape, self.shape[0]
        return self.solver_class(self.settings, n_problems, n_rows, n_features, self.seed), start

    def _put_to_work(self, solver: Any) -> None:
        """Let a solver go on, and record what ran before it."""
        if solver is self.finisher:
            return
        if not self.n_iter:
            self.finisher = solver
            return
        changes = {"_earlier_epochs": tuple(self.solver_epochs.items()), "finisher": solver}
        if not solver.has_dual(solver.rows):
            changes |= {"_pegasos": self._ended_pegasos(), "epochs_begun": self.epochs_begun + 1}
        vars(self).update(changes)

    def epochs_of_plan(self) -> np.ndarray:
        """Epochs of the present plan that each problem has made; inf if Pegasos is at work."""
        if self.finisher is None:
            return np.full(self.shape[0], np.inf)
        return self.epochs_begun + self.finisher.n_epochs - self.finisher.base

    def ended(self) -> "Schedule":
        """A copy whose plan is over, so that its next `train` does more."""
        new: Schedule = shallow_copy(self)
        new.epochs_begun = 0
        if self.finisher is None:
            new._pegasos = self._ended_pegasos()
        else:
            new.finisher = shallow_copy(self.finisher)
            new.finisher.end_plan()
        return new

    # ---- Changing the solver ---------------------------------------------------------------------

    @np.errstate(all="ignore")
    def at_lam(self, lam: float) -> "Schedule":
        """The schedule of these problems with another λ, which begins at the present point.

        If a solver is at work, this schedule itself is changed. Pegasos alone begins at 0.
        """
        settings = dataclasses.replace(self.settings, lam=lam)
        problem = dataclasses.replace(self.problem, settings=settings)
        if self.finisher is None:
            new = Schedule(self.solver_class, settings, *self.shape, self.dtype, self.seed)
            new.problem = problem
            return new
        if self._pegasos is not None:
            self._pegasos.change_lam(problem)
        self.finisher.change_lam(problem)
        self.problem, self.epochs_begun = problem, 0
        return self

    @np.errstate(over="ignore", under="ignore")
    def return_to_pegasos(self, rows: Any) -> None:
        """Let Pegasos go on from another solver's model, and count the epochs before it."""
        solver, problem = self.finisher, self.problem
        if solver is None:
            return
        pegasos = self.pegasos.copy()
        inside = problem.n_inside
        if not len(inside):  # not set yet
            inside = solver.n_inside
        ran = tuple(self.solver_epochs.items())
        coef, intercept = solver.model()
        norm = float(np.abs(self.solver_class.norms_of(rows)).mean())
        pegasos.go_on_from(coef, intercept, self.n_iter, inside, norm)
        if pegasos.counts is not None:
            c = problem.row_weights
            weights = 1 if c is None else np.maximum(c, 1e-300)
            steps = pegasos.problems["n_steps"] + pegasos.problems["delay"]
            epochs = steps * self.settings.batch_size / np.maximum(inside, 1)
            losses = [self.settings.loss_of(k) for k in range(len(inside))]
            most = np.array([loss.dual_upper for loss in losses])[:, None]
            a = np.clip(solver.dual() / weights, -most, most)
            counts = epochs[:, None] * a
            pegasos.counts[...] = np.rint(counts) if self.settings.loss.has_counts else counts
        vars(self).update(_earlier_epochs=ran, _pegasos=pegasos, finisher=None)

    def _telling(
        self, on_progress: Callable[[], None] | None, on_epoch: Callable[[], None] | None
    ) -> Callable[[], None] | None:
        """A function for a solver to call now and then, which calls `on_epoch` for each epoch."""
        if on_epoch is None:
            return on_progress
        told = int(self.solver.n_epochs.mean())

        def progress() -> None:
            nonlocal told
            if on_progress is not None:
                on_progress()
            while told < int(self.solver.n_epochs.mean()):
                told += 1
                on_epoch()

        return progress

    # ---- What there is so far --------------------------------------------------------------------

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (n_problems, n_features) and intercepts, in float64."""
        return self.solver.model()

    @property
    def settings(self) -> Settings:
        return self.problem.settings

    @property
    def n_rows(self) -> int:
        return self.problem.n_rows

    @property
    def n_steps(self) -> np.ndarray:
        """Steps of Pegasos by each problem, including those in another solver's first epoch."""
        steps = np.zeros(self.shape[0], np.int64)
        if self._pegasos is not None:
            steps += self._pegasos.n_steps
        return steps if self.finisher is None else steps + self.finisher.solutions()["n_steps"]

    @property
    def n_iter(self) -> int:
        """Passes over the present rows; the largest number of all problems."""
        others = 0 if self.finisher is None else int(self.finisher.n_epochs.max())
        return others + (0 if self._pegasos is None else self._pegasos.n_iter)

    @property
    def solver_epochs(self) -> dict[str, int]:
        """Epochs of each solver, in the order in which they ran."""
        if self.finisher is not None and not self._earlier_epochs:
            return self.finisher.epochs()
        ran, n_iter = dict(self._earlier_epochs), self.n_iter
        if self.finisher is not None:
            own = self.finisher.epochs()
        else:
            own = {"pegasos": n_iter - sum(ran.values())}
        if min(own.values(), default=0) < 0 or n_iter != sum((*ran.values(), *own.values())):
            ran = {}  # these epochs were on other rows
            own = {"pegasos": n_iter} if self.finisher is None else own
        both = {name: ran.get(name, 0) + own.get(name, 0) for name in ran | own}
        return {name: epochs for name, epochs in both.items() if epochs}

    def progress(self) -> tuple[int, int, str]:
        """What is done, how much is planned (0: not known), and a note."""
        return self.solver.progress()

    def certify(self, rows: Any) -> _certificate.Certificate:
        """The certificate of the present model, computed from it and from the dual variables."""
        return self.solver_class.certify(rows, self.problem, self.solver)

    def latest_certificate(self, rows: Any) -> _certificate.Certificate:
        """The certificate that a solver found last; else a new one."""
        solver = self.finisher
        if solver is None or not solver.is_proved:
            return self.certify(rows)
        is_known = np.isfinite(solver.solutions()["relative_gap"]).all()
        return solver.certificate() if is_known else self.certify(rows)

    def alpha_counts(self) -> np.ndarray | None:
        """How often each row was a violation, if Pegasos has led to the model; else None."""
        return self.pegasos.alpha_counts() if self.finisher is None else None

    # ---- Saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """The state as a dictionary of arrays, to be given to `restore`."""
        state = self.pegasos.state()
        state |= {
            "epochs_begun": np.array([self.epochs_begun], np.int64),
            "solver_epochs": table(dict(self._earlier_epochs)),
        }
        if self.finisher is not None:
            arrays = self.finisher.state()
            state |= {f"solver.{name}": array for name, array in arrays.items()}
        return state

    def compact_state(self) -> dict[str, np.ndarray]:
        """What Pegasos needs to go on with other rows: nothing that grows with the present ones.

        If another solver was at work, `restore_compact_state` takes this and the model.
        """
        solver, pegasos = self.finisher, self._pegasos
        if solver is None:
            self.pegasos.forget_rows()
            return self.state()
        norms = solver.norms_of(solver.rows)
        norm = float(norms.sum() / len(norms))
        stream = 0 if pegasos is None else pegasos.stream
        return compact_state(
            self, solver.n_inside, norm, self.shape[1], self.dtype, seed=self.seed, stream=stream
        )

    def restore_compact_state(
        self, compact_state: dict[str, np.ndarray], coef: np.ndarray, intercept: np.ndarray
    ) -> Self:
        """Let Pegasos of a new schedule go on from a model; see `return_to_pegasos`."""
        self.seed, _, stream, n_epochs = (int(number) for number in compact_state["numbers"])
        norm = float(compact_state["squared_norm"][0])
        self.pegasos.go_on_from(coef, intercept, n_epochs, compact_state["n_inside"], norm)
        self.pegasos.stream = stream
        self._earlier_epochs = _epochs_of_table(compact_state["solver_epochs"])
        return self

    def restore(self, state: dict[str, np.ndarray]) -> Self:
        """Let a new schedule take over a saved `state`; see `pegasos.solvers._state`."""
        self._pegasos = self.solver_class.pegasos.restore(self.settings, state)
        self.problem, self.seed = self._pegasos.problem, self._pegasos.seed
        self.epochs_begun = int(state["epochs_begun"][0])
        self._earlier_epochs = _epochs_of_table(state["solver_epochs"])
        arrays = {k.removeprefix("solver."): v for k, v in state.items() if k.startswith("solver.")}
        if arrays:
            self.finisher = self.solver_class.restore(self.settings, arrays, self.seed)
        return self


def compact_state(
    schedule: Any, n_inside: Any, norm: float, n_features: int, dtype: Any, *, seed: int,
    stream: int = 0,
) -> dict[str, np.ndarray]:  # fmt: skip
    """A `Schedule.compact_state` for any schedule; `norm` is the mean of |x_i|^2."""
    return {
        "numbers": np.array([seed, 0, stream, schedule.n_iter], np.uint64),
        "weights": np.zeros((0, n_features), dtype),
        "solver_epochs": table(schedule.solver_epochs),
        "n_inside": np.asarray(n_inside, np.int64),
        "squared_norm": np.array([min(norm, MOST_GROWTH)], np.float64),
    }


def table(solver_epochs: dict[str, int]) -> np.ndarray:
    """Epochs of each solver, and its place in their order."""
    places = {solver: place for place, solver in enumerate(solver_epochs, 1)}
    return np.array([[of.get(name, 0) for name in SOLVERS] for of in (solver_epochs, places)])


def _epochs_of_table(solver_epochs: np.ndarray) -> tuple[tuple[str, int], ...]:
    """The solvers and their epochs, in order, from the array that `table` returns."""
    epochs, places = solver_epochs.tolist()
    ran = sorted(zip(places, SOLVERS, epochs, strict=True))
    return tuple((solver, n) for place, solver, n in ran if place > 0)
