"""Linear problems on their way to a certified gap.

``csrc/solve.c`` has the schedule: an epoch of Pegasos, then dual coordinate ascent or Newton's
method. Here are the pieces of memory that it works on, one for each problem.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from pegasos import _core, _threads
from pegasos.problems import _certificate, _rows, _validate
from pegasos.problems._problem import Problem
from pegasos.problems._settings import Settings
from pegasos.solvers._pegasos import Pegasos

#: The core's numbers for the solvers, by their names in `solver=`.
METHODS = {"auto": _core.AUTO, "sdca": _core.ASCENT, "newton": _core.NEWTON}
# Newton's method may run until only rounding is left if it likely takes at most these seconds.
_CHEAP = 0.005
# Threads take time to start and to meet. So they share only problems of at least _MANY numbers on
# which Newton's method is likely to take at least _LONG seconds.
_MANY, _LONG = 10**5, 0.01
# From a gap of this many times `tol`, `tol` is reached in about as many epochs as were made.
_NEARLY = 10
# Newton's method in coordinates of a span has matrices of rows by rows. With more rows than this,
# these matrices take longer than products with the rows.
_MOST_BY_NEWTON = 500
# Problems that have at most this part of the rows, on average, are solved on their own rows.
_MOST_OF_PART = 0.5


@dataclasses.dataclass
class ProblemGroup:
    """Problems that are solved over the same rows and features, and their fits.

    `inside` and `columns` are the numbers of the rows and features; None: all of them. `columns`
    and `fits` are None before the first run. New fits begin at `start` (None: at 0), which has dual
    variables of the rows and, for linear machines, coefficients of all features and intercepts.

    Fits over all rows may use coordinates of the `span` of the rows in place of features. Until the
    rows are known, a restored state has the span's fingerprint and coefficients in `restored`.
    """

    problems: slice
    inside: Any = None
    columns: Any = None
    fits: Any = None
    start: Any = None
    span: Any = None
    restored: Any = None

    def shape(self, of_all: tuple[int, int]) -> tuple[int, int]:
        """The numbers of its rows and features, given those `of_all` data."""
        n, d = of_all
        n = n if self.inside is None else len(self.inside)
        d = d if self.columns is None else len(self.columns)
        return n, n if self.span else d

    def features(self, n_features: int) -> np.ndarray:
        """The numbers of its features, out of `n_features`."""
        return np.arange(n_features) if self.columns is None else self.columns

    def begin(self, of_all: tuple[int, int], before: Any = None) -> None:
        """Make fits that begin at `start` and count epochs on from the fits `before`."""
        fits = _core.Fits(self.problems.stop - self.problems.start, *self.shape(of_all))
        if self.start is not None:
            a, *model = self.start
            if self.columns is not None:
                model[0] = model[0][:, self.columns]
            elif self.span:
                model[0] = self.span.coordinates(model[0])
            a, *model = (np.ascontiguousarray(own, np.float64) for own in (a, *model))
            coef, intercept = model or (None, None)
            fits.begin_at(a, coef, intercept, before)
        self.fits, self.start = fits, None

    @property
    def fingerprint(self) -> int | None:
        """The fingerprint of the span whose coordinates the fits use; None: they use features."""
        return self.span.fingerprint if self.span else self.restored and self.restored[0]

    def coef_of_span(self) -> Any:
        """Coefficients of all features where fits have coordinates of the span."""
        return self.span.coef(self.fits.coef) if self.span else self.restored[1]


class LinearSolver:
    """Linear problems over the same rows, on their way to a relative duality gap.

    If each problem has few of the rows, as in one-vs-one with many classes, problems are solved one
    by one on their own rows and features. All memory of a fit is then as small as these.

    Attributes
    ----------
    shape : tuple of int
        Rows and features; a kernel machine has no features.
    n_epochs, base : ndarray of int64 of shape (n_problems,)
        Passes over the rows at this λ, and their number when the present plan began.
    n_inside : ndarray of int64 of shape (n_problems,)
        Rows of each problem.
    """

    #: The class that runs first, and the most numbers in small rows, summed over the problems.
    pegasos: type[Pegasos] = Pegasos
    small_size = 2**18

    rows: Any = None  # until `begin`, like `problem`
    problem: Any = None
    #: Whether gap checks in `groups` prove something; not if they come from a checkpoint.
    is_proved = True
    # How often this plan may still check the gap before rows change to their span; 0 for good once
    # the fit had to return to features.
    _n_asks = 2

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, n_features: int, seed: int
    ) -> None:
        self.settings, self.seed = settings, seed
        self.shape = n_rows, n_features
        self.groups = list[ProblemGroup]()
        self.base = np.zeros(n_problems, np.int64)
        self._fingerprints = np.zeros(n_problems, np.int64)
        self.n_inside = np.zeros(n_problems, np.int64)
        # The solutions of the last run; None during a run, and after one that was stopped.
        self._found: Any = None

    @property
    def fingerprints(self) -> Any:
        """Checksums of the data of each problem; kernel machines compare their rows themselves."""
        if self.problem is None:
            return self._fingerprints
        return self._fingerprints_of(self.rows, self.problem)

    def _fingerprints_of(self, rows: Any, problem: Problem) -> np.ndarray:
        own = rows.checksum if self.shape[1] else 0
        return np.array(problem.fingerprints) ^ own

    # ---- What the memory says --------------------------------------------------------------------

    def solutions(self) -> np.ndarray:
        """The best model and the work done so far for each problem, of dtype `_core.SOLUTION`.

        During a run, it is current.
        """
        if self._found is not None:
            return self._found
        table: Any = np.zeros(len(self.base), _core.SOLUTION)
        table["objective"] = table["relative_gap"] = np.inf
        for group in self._begun():
            table[group.problems] = group.fits.solutions()
        return table

    @property
    def _whole(self) -> Any:
        """The fits of all problems, if they are over all rows."""
        return self.groups[0].fits if self.groups and self.groups[0].inside is None else None

    @property
    def is_in_span(self) -> bool:
        """Whether problems are solved in coordinates of the span of the rows."""
        return bool(self.groups) and self.groups[0].fingerprint is not None

    def _begun(self) -> list[ProblemGroup]:
        return [group for group in self.groups if group.fits is not None]

    def _of_all(self, name: str, size: int, places: str) -> Any:
        """Gather an array of the fits for all problems, over all `size` rows or features."""
        if self._whole is not None:
            return getattr(self._whole, name)
        out = np.zeros((len(self.base), size))
        for group in self._begun():
            own = getattr(group, places)
            out[group.problems, slice(None) if own is None else own] = getattr(group.fits, name)
        return out

    @property
    def a(self) -> Any:
        """Dual variables, of shape (n_problems, n_rows)."""
        return self._of_all("a", self.shape[0], "inside")

    @property
    def coef(self) -> Any:
        """The best primal points at the last gap check; `intercept` belongs to them."""
        if self.is_in_span:
            return self.groups[0].coef_of_span()
        return self._of_all("coef", self.shape[1], "columns")

    @property
    def intercept(self) -> Any:
        return self.solutions()["intercept"]

    @property
    def n_epochs(self) -> Any:
        return self.solutions()["n_epochs"]

    def certificate(self) -> _certificate.Certificate:
        """The certificate of the last gap check."""
        table, settings = self.solutions(), self.settings
        primal, gap = table["objective"].copy(), table["relative_gap"].copy()
        if not self.has_dual(self.rows):
            return _certificate.Certificate(primal, np.full_like(primal, np.nan), gap, settings)
        # D is at least 0, as in `certify`.
        return _certificate.Certificate(primal, np.fmax(primal * (1 - gap), 0), settings=settings)

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts, whose objectives were finite."""
        coef = self.coef
        return coef if coef.flags.owndata else coef.copy(), np.array(self.intercept)

    def dual(self) -> Any:
        """Dual variables that belong to the present state."""
        return self.a

    def last_check(self) -> np.ndarray | None:
        """Results of the last gap check for a certificate: objectives; for kernel machines, gaps.

        None if there are none, or if they come from a checkpoint. Only dual ascent computes
        objectives from the model itself, and not from running sums. In coordinates of the span,
        objectives differ a little.
        """
        table = self.solutions()
        is_checked = (table["solver"] == _core.ASCENT) & (self.is_proved and not self.is_in_span)
        for group in self._begun():
            own = is_checked[group.problems]
            if own.any():
                own &= group.fits.coef.any(axis=1)
        return table["objective"].copy() if is_checked.all() else None

    def progress(self) -> tuple[int, int, str]:
        """Rows visited since this solver began, 0, and the largest gap."""
        table = self.solutions()
        gap = table["relative_gap"].max()
        visited = int((table["n_epochs"] * self.n_inside).sum())
        return visited, 0, f"gap {gap:.2g}" if np.isfinite(gap) else ""

    def epochs(self) -> dict[str, int]:
        """Epochs of each solver by name, in order of their start, for the problem with most."""
        table = self.solutions()
        most = table[table["n_epochs"].argmax()]
        pegasos, ascent, newton = (int(most[name]) for name in ("pegasos", "ascent", "newton"))
        if not pegasos and most["n_steps"]:  # its steps had exact length
            pegasos, ascent = 1, ascent - 1
        others = [("sdca", ascent), ("newton", newton)]
        if most["first_solver"] == _core.NEWTON:
            others.reverse()
        return {name: n for name, n in [("pegasos", pegasos), *others] if n > 0}

    # ---- Of any model ----------------------------------------------------------------------------

    #: The certificate of a solver's present state.
    certify = staticmethod(_certificate.certify)
    #: Scores (n, n_problems) of rows, all or some, under coefficients and intercepts.
    scores = staticmethod(_rows.decision_function)

    @staticmethod
    def norms_of(rows: Any) -> Any:
        """|x_i|^2."""
        return rows.squared_norms()

    # ---- Fits ------------------------------------------------------------------------------------

    @staticmethod
    def has_dual(rows: Any) -> bool:
        """Whether dual values bound the optimum and the first epoch is one of Pegasos: always True.

        Without a dual, a fit stops where |P - D| is small at a point that no longer moves.
        """
        return True

    @staticmethod
    def exact(rows: _core.Rows, settings: Settings, name: str, n_problems: int) -> str | None:
        """The `method` that leaves only rounding, if solver `name` was asked for.

        This is Newton's method by a matrix, once the rows within the smoothed corner are those at
        the corner. None if that would not be cheap.
        """
        has_matrix = rows.shape[1] < _core.NEWTON_MAX_UNKNOWNS
        is_cheap = n_problems * rows.seconds(settings.loss.core, _core.NEWTON) <= _CHEAP
        return "newton" if has_matrix and is_cheap and name in ("auto", "newton") else None

    def begin(self, rows: Any, problem: Problem, start: Any = None) -> None:
        """Set the problem and the starting point.

        `start` has feasible dual variables, coefficients and intercepts. None: the present point.
        """
        if self.rows is rows and self.problem is problem:
            return  # goes on where it stands
        insides, known = self.insides(rows, problem), [group.inside for group in self.groups]
        if len(known) == len(insides) and all(map(np.array_equal, known, insides)):
            begun = self._begun()
            if begun and (self.fingerprints != self._fingerprints_of(rows, problem)).any():
                for group in begun:
                    group.fits.begin_at_point()
            groups, base = self.groups, self.base
            if self.is_in_span:
                groups = [self._moved(groups[0], rows)]
        else:
            if self._begun():
                start = self.a, self.coef, self.intercept
            groups = self._divided(rows, insides, start)
            base = np.zeros(len(self.base), np.int64)  # new memory counts epochs from 0
        # Change all attributes at the end: an interrupted call is then begun again.
        vars(self).update(
            groups=groups, base=base, problem=problem, rows=rows, _found=None,
            n_inside=problem.n_inside.copy(),
        )  # fmt: skip

    @staticmethod
    def insides(rows: Any, problem: Problem) -> list[Any]:
        """The rows of each problem that is solved on its own; else [None], meaning all rows."""
        few = _MOST_OF_PART * problem.labels.size
        is_divided = len(problem) > 1 and problem.n_inside.sum() <= few
        return _insides(problem) if is_divided else [None]

    def _divided(self, rows: Any, insides: list[Any], start: Any) -> list[ProblemGroup]:
        """Groups that have these rows and begin at `start`."""
        groups = []
        for k, inside in enumerate(insides):
            problems = slice(0, len(self.base)) if inside is None else slice(k, k + 1)
            group = ProblemGroup(problems, inside)
            if start is not None:
                a, coef, intercept = (of_all[problems] for of_all in start)
                a = a if inside is None else a[:, inside]
                group.start = (a, coef, intercept) if self.shape[1] else (a,)
            if inside is None or not (self.shape[1] and rows.is_sparse):
                group.begin(self.shape)  # else once its features are known
            groups.append(group)
        return groups

    def _moved(self, group: ProblemGroup, rows: _core.Rows) -> ProblemGroup:
        """The group of all rows, which has fits, in coordinates of the span of `rows`.

        Its fits go on if they use this span. Else new fits begin at its point, with features if
        `rows` have no span that can be used.
        """
        span = _rows.span_of(rows)
        if span and span.fingerprint == group.fingerprint:
            return dataclasses.replace(group, span=span, restored=None)
        return self._begun_again(group, span)

    def _begun_again(self, group: ProblemGroup, span: Any) -> ProblemGroup:
        """A group of all rows that begins where this one stands; `span` None: with features."""
        start = self.a, self.coef, self.intercept
        is_zero = not (start[0].any() or start[1].any())
        new = ProblemGroup(group.problems, start=None if is_zero else start, span=span)
        new.begin(self.shape, before=group.fits)
        return new

    def _of(self, group: ProblemGroup, n_threads: int) -> Any:
        """The rows of a group in the form of the core; also makes its fits if there are none."""
        if group.inside is None:
            return group.span.rows if group.span else self.rows
        rows, columns = self.rows.part(group.inside)
        new, d = dataclasses.replace(group, columns=columns), self.shape[1]
        is_same = columns is group.columns or np.array_equal(group.features(d), new.features(d))
        if group.fits is None or not is_same:
            if group.fits is not None:
                coef = np.zeros((1, d))
                coef[:, group.features(d)] = group.fits.coef
                new.start = group.fits.a, coef, group.fits.solutions()["intercept"]
            new.begin(self.shape)
            # New memory counts epochs from 0. Ctrl-C leaves both changes or neither.
            _core.update_atomically(
                vars(group), vars(new), written=((self.base, group.problems, 0),)
            )
        return rows

    def _are_parts(self) -> bool:
        """Whether `_of` returns the rows of all problems, and the core takes those of each."""
        return False

    def widen(self) -> bool:
        """Return from the span to all features; False if the rows have them already."""
        if self.is_in_span:
            # Ctrl-C leaves both changes or neither, so that the fit does not change back.
            vars(self).update(groups=[self._begun_again(self.groups[0], None)], _n_asks=0)
            return True
        return False

    def end_plan(self) -> None:
        """Count the epochs of the next run from here."""
        self.base = np.array(self.n_epochs)
        self._n_asks = min(2 * self._n_asks, 2)

    def change_lam(self, problem: Problem) -> None:
        """Go on with another λ, over the same rows; the core counts epochs from here."""
        self.settings, self.problem = problem.settings, problem
        self.base[:] = 0
        self._n_asks = min(2 * self._n_asks, 2)

    def run(
        self,
        tol: float | None,
        max_iter: int,
        *,
        method: str = "auto",
        by_epochs: bool = False,
        n_threads: int = 1,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """Go on until every problem's relative gap is at most `tol`, or for `max_iter` epochs.

        An exception can stop it at any time; if it is called again before `end_plan`, it completes
        the interrupted run. A last iteration of several epochs may end after `max_iter`. Without
        `tol`, all epochs are made. `method` is a key of `METHODS`. `by_epochs`: pieces of work end
        with each epoch, because a caller wants to know of it.

        Where rows are few compared with features, it may change to their span: see `_limits`.
        """
        problem, norms = self.problem, self.norms_of(self.rows)
        n_jobs, n_threads, begin_together = self._shares(method, n_threads)
        solve: Any = functools.partial(
            _core.solve, tol=-1.0 if tol is None else tol, seed=self.seed, solver=METHODS[method],
            n_threads=n_threads,
        )  # fmt: skip

        def last(some: slice, most: int) -> Any:
            return np.minimum(self.base[some] + most, 2**62 // self.shape[0] - 2)

        def solve_group(group: ProblemGroup, most: int, on_poll: Callable[[], None]) -> None:
            some, over = group.problems, self._of(group, n_threads)
            table[some] = solve(
                over, problem.subset(some, group.inside).targets, norms[group.inside], group.fits,
                last(some, most), watch=_core.Watch(on_poll, by_epochs=by_epochs),
            )  # fmt: skip
            on_poll()  # most problems are too short to call it

        table: Any = None
        self._found = None
        for most in self._limits(tol, max(max_iter, 0), method):
            try:
                if self._whole is None and not self._are_parts():
                    table = np.zeros(len(self.base), _core.SOLUTION)
                    jobs = [functools.partial(solve_group, group, most) for group in self.groups]
                    with _threads.blas.one_thread():  # here, as in `_core.solve`
                        # `on_progress` after an epoch reads all models: no thread may change them.
                        _core.run_jobs(jobs, 1 if by_epochs else n_jobs, on_progress)
                else:
                    groups, whole = self.groups, self._whole
                    table = solve(
                        self._of(groups[0], n_threads), problem.targets, norms,
                        [group.fits for group in groups] if whole is None else whole,
                        last(slice(None), most), n_jobs=n_jobs, begin_together=begin_together,
                        insides=[group.inside for group in groups] if whole is None else None,
                        watch=_core.Watch(on_progress, by_epochs=by_epochs),
                    )  # fmt: skip
            except _core.TooLargeError:
                raise _validate.overflow("float64", self.settings.lam) from None
        self._found = table

    def _limits(self, tol: float | None, max_iter: int, method: str) -> Iterator[int]:
        """Numbers of epochs after which the core stops, the last being `max_iter`.

        If rows are few compared with features, epochs are cheap in coordinates of the rows' span.
        But it takes time to find the span. A fit therefore changes to it, between two limits, once
        it has taken about that time and is not nearly done.
        """
        has_features = self._whole is not None and self.shape[1] > 0 and not self.is_in_span
        most_rows = {"auto": np.inf, "newton": _MOST_BY_NEWTON}.get(method, 0)
        may_change = self._n_asks > 0 and has_features and self.shape[0] <= most_rows
        if tol is not None and may_change and _rows.are_wide(self.rows):
            few = int(_rows.Span.passes(self.rows) / (2 * len(self.base)))
            for n_asks, most, nearly in ((2, few, _NEARLY), (1, 2 * few, 1)):
                if most > 0:
                    yield min(most, max_iter)
                if n_asks > self._n_asks:  # asked before a stop: by now gaps may be larger
                    continue
                if (self.solutions()["relative_gap"] <= nearly * tol).all():
                    self._n_asks = 1
                elif most < max_iter:
                    span = _rows.span_of(self.rows)
                    if span:
                        self.groups = [self._begun_again(self.groups[0], span)]
                    else:
                        self._n_asks = 0
                    break
        yield max_iter

    def _shares(self, method: str, n_threads: int) -> tuple[int, int, bool]:
        """Problems that go side by side, threads of each call, and whether to `begin_together`."""
        n, rows = len(self.base), self.rows
        # Threads that are left over share the passes of Newton's method.
        is_long = (
            rows.size >= _MANY and rows.seconds(self.settings.loss.core, _core.NEWTON) >= _LONG
        )
        n_shares = n_threads if is_long and method != "sdca" else 1
        if self._whole is None:
            return n_threads, n_shares // n, False
        # Problems of the squared error begin together, at the optimum.
        is_squared = self.settings.loss.name == "squared_error" and method != "sdca"
        are_equal = is_squared and np.ptp(self.problem.lams) == 0 and np.ptp(self.base) == 0
        return min(n_threads, n), n_shares, bool(are_equal)

    # ---- Saving ----------------------------------------------------------------------------------

    _ARRAYS = ("base", "fingerprints", "n_inside")

    def state(self) -> dict[str, np.ndarray]:
        """The state as a dictionary of arrays, to be given to `restore`."""
        arrays = {name: getattr(self, name) for name in self._ARRAYS}
        arrays["shape"] = np.array(self.shape, np.int64)
        if not self.groups:
            return arrays
        if self.is_proved:
            arrays["is_proved"] = np.ones(1, np.int64)
        if self.groups[0].inside is None:
            if self.is_in_span:
                fingerprint = np.array([self.groups[0].fingerprint], np.int64)
                arrays |= {"span": fingerprint, "coef": self.coef}
            if self._n_asks < 2:
                arrays["is_wide"] = np.full(1, self._n_asks, np.int64)
            return arrays | {"memory": self.groups[0].fits.memory}
        for group in self.groups:
            if group.fits is None and group.start is not None:  # without columns yet
                group.begin(self.shape)
        begun = self._begun()
        sizes = [(len(p.inside), p.shape(self.shape)[1] * bool(p.fits)) for p in self.groups]
        have_own = any(p.columns is not None for p in begun)
        columns = [np.zeros(0, np.int64), *(p.features(self.shape[1]) for p in begun if have_own)]
        memory = [np.zeros(0, np.uint8), *(p.fits.memory[0] for p in begun)]
        return arrays | {
            "inside": np.concatenate([p.inside for p in self.groups]),
            "columns": np.concatenate(columns),
            "sizes": np.array(sizes, np.int64),
            "memory": np.concatenate(memory),
        }

    @classmethod
    def restore(cls, settings: Settings, state: dict[str, np.ndarray], seed: int) -> Self:
        """The solver that has this `state`; `begin` must follow."""
        n_rows, n_features = state["shape"].tolist()
        solver = cls(settings, len(state["base"]), n_rows, n_features, seed)
        for name in cls._ARRAYS:
            getattr(solver, name)[...] = state[name]
        solver.groups = groups_of(state)
        solver._n_asks, solver.is_proved = int(state.get("is_wide", [2])[0]), "is_proved" in state
        return solver


def groups_of(state: dict[str, np.ndarray]) -> list[ProblemGroup]:
    """The groups of a state."""
    if "memory" not in state:
        return []
    if "sizes" not in state:
        n_problems, (n, d) = len(state["base"]), state["shape"].tolist()
        restored = (int(state["span"][0]), state["coef"]) if "span" in state else None
        fits = _core.Fits(n_problems, n, n if restored else d, state["memory"].copy())
        return [ProblemGroup(slice(0, n_problems), fits=fits, restored=restored)]
    groups, at, has_columns = list[ProblemGroup](), [0, 0, 0], len(state["columns"]) > 0
    is_kernel = state["shape"][1] == 0
    for k, (n, d) in enumerate(state["sizes"].tolist()):
        counts = n, d if has_columns else 0, _core.Fits.n_bytes(n, d) if d or is_kernel else 0
        arrays = [state[name] for name in ("inside", "columns", "memory")]
        inside, columns, memory = (
            array[i : i + count].copy() for array, i, count in zip(arrays, at, counts, strict=True)
        )
        at = [i + count for i, count in zip(at, counts, strict=True)]
        group = ProblemGroup(slice(k, k + 1), inside)
        if d or is_kernel:
            group.columns = columns if has_columns else None
            group.fits = _core.Fits(1, n, d, memory[None])
        groups.append(group)
    return groups


def shallow_copy(thing: Any) -> Any:
    """Return a copy that shares attributes; `copy.copy` would take 1 % of a small fit."""
    new = object.__new__(type(thing))
    vars(new).update(vars(thing))
    return new


def _insides(problem: Problem) -> list[np.ndarray]:
    """The rows of each problem; one without rows gets row 0, whose label is 0."""
    all_rows = map(np.flatnonzero, problem.labels)
    return [rows if len(rows) else np.zeros(1, np.int64) for rows in all_rows]
