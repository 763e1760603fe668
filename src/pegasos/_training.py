"""From a plan to a model: which solver runs, for how long, and when a result is good enough."""

import dataclasses
import warnings

import numpy as np

from pegasos import _certificate, _core, _rows
from pegasos._ascent import SWEEPS, DualAscent, goes_in_bundles
from pegasos._kernel_ascent import KernelAscent
from pegasos._kernel_newton import KernelNewton
from pegasos._kernel_session import KernelSession
from pegasos._newton import MOST_FEATURES, Newton
from pegasos._session import LinearSession
from pegasos._threads import uninterrupted

SOLVERS = ("auto", "pegasos", "sdca", "newton")

# With a tolerance, Pegasos looks at the gap after so many epochs, then whenever they have doubled:
# a look takes two passes over the rows, a tenth of what was done.
_EPOCHS_BEFORE_LOOK = 20

# Where Pegasos goes on from another solver: lam t stays within what single precision resolves.
_MOST_GROWTH, _MOST_STEPS = 2**20, 2**50

# "auto" lets a finisher go on for so many epochs; if the gap has not halved by then, it is the
# other's turn, for twice as many.
_TURN = 64


class _Training:
    """A session, and the finisher that completes it if the solver has one."""

    #: Finishers by solver; the one of them that "auto" begins with, as a function of the rows; and
    #: the function that makes certificates.
    finishers, cheaper, _certify = {}, None, None

    finisher = None
    #: Epochs done of a fit with a tolerance that is not over yet; and for "auto", the length of the
    #: finisher's turn and the gap before it.
    epochs_begun, turn, gap_before = 0, 0, np.inf
    #: Solvers and their epochs, in the order in which they ran, up to when the last one took over.
    _ran = ()

    # What overflows is found where models and certificates are made, and told in a sentence.
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def train(
        self, rows, *, solver, tol, max_iter, n_steps=None, order=None, n_threads=1,
        on_progress=None, on_epoch=None, afresh=True,
    ):  # fmt: skip
        """Run the solver until every relative duality gap is at most `tol`, or to the plan's end.

        Can be stopped at any time by an exception; calling it again completes the plan. So it does
        until `end_plan`, which belongs where the result is kept.

        Parameters
        ----------
        rows : pegasos._core.Rows
        solver : {"auto", "pegasos", "sdca", "newton"}
        tol : float or None
            None: `max_iter` epochs or `n_steps` steps.
        max_iter : int
        n_steps, order
            For "pegasos", in place of `max_iter` and `tol`.
        n_threads, on_progress, on_epoch
            As in `LinearSession.run`; with `on_epoch` one thread is used. Of a finisher's problems,
            which need not go together, an epoch is as many passes as there are problems.
        afresh : bool
            Whether to compute the certificate from the model and the dual variables once more, or
            to take over what a finisher saw last.

        Returns
        -------
        pegasos._certificate.Certificate
        """
        threads = {"n_threads": n_threads, "on_progress": on_progress}
        if on_epoch is not None:
            threads |= {"n_threads": 1, "on_epoch": on_epoch}
        if solver == "pegasos" or n_steps is not None or order is not None:
            self.leave_finisher(rows)
        if solver != "pegasos" and n_steps is None and order is None:
            self._finish(rows, solver, tol, max_iter, threads)
            certificate = self.certify(rows) if afresh else self.finisher.certificate()
        else:
            self.average_as(self.settings.average)
            if tol is None or n_steps is not None or order is not None:
                self.plan(n_steps=n_steps, n_epochs=max_iter)
                self.carry_out(rows, order=order, **threads)
                certificate = self.certify(rows)
            else:
                certificate = self._descend(rows, tol, max_iter, threads)
        return certificate

    @np.errstate(over="ignore")
    def leave_finisher(self, rows):
        """Let Pegasos go on from the model of a finisher, with the epochs that led to it behind it.

        So many steps are behind it, too, that the next one, of 1/(lam t), moves the score of a row
        of average norm by 1 at most: few rows must not undo what a solver has made of many.
        """
        finisher, settings = self.finisher, self.settings
        if finisher is None:
            return
        most = _MOST_GROWTH / settings.batch_size
        growth = min(self._squared_norm(rows) + settings.constant_feature**2, most)
        least_steps = int(np.clip(growth / settings.lam, 1, _MOST_STEPS))
        inside = finisher.n_inside
        if self.labels is not None:
            inside = np.count_nonzero(self.labels, axis=1)
        self._ran = tuple(self.solver_epochs.items())
        self.go_on_from(*finisher.model(), self.n_iter, inside, least_steps)
        if self.counts is not None:
            weights = 1 if self.row_weights is None else np.maximum(self.row_weights, 1e-300)
            draws = self.problems["n_steps"] * settings.batch_size
            epochs = draws / np.maximum(inside, 1)
            self.counts[...] = np.rint(epochs[:, None] * np.clip(finisher.dual() / weights, 0, 1))
        self.finisher = None

    def end_plan(self):
        """Let the next `train` do more."""
        self._end_part()
        self.epochs_begun = self.turn = 0

    def _end_part(self):
        """Count from here: the next part of the plan is another one."""
        if self.finisher is None:
            super().end_plan()
        else:
            self.finisher.end_plan()

    def _finish(self, rows, solver, tol, max_iter, threads):
        """One epoch of Pegasos, where that is a good start, then a finisher; "auto": one that suits."""
        start = None
        kind = self.finishers.get(solver) or (
            type(self.finisher) if self.finisher else self.first(rows)
        )
        if self.finisher is None and not kind.begins_at_zero(rows):
            # An average is by far the better point to start at.
            self.average_as(self.settings.average or "suffix")
            self.plan(n_epochs=1)
            self.carry_out(rows, **threads)
            finisher = self._begin(kind, rows, (super().dual(), *super().model()))
            with uninterrupted():
                self._end_part()
                self._hand_over(finisher)
                self.epochs_begun += 1
        else:
            if self.finisher is None:
                # Then Pegasos has done nothing, or what is to be gone on from.
                start = super().dual(), *super().model()
            self._hand_over(self._begin(kind, rows, start))
            del start  # as large as what training keeps
        threads["on_progress"] = self._count_epochs(**threads)
        self.finisher.by_epochs = threads.pop("on_epoch", None) is not None
        left = max(max_iter - self.epochs_begun, 0)
        if solver != "auto" or tol is None:
            self.finisher.run(tol, left, **threads)
            return
        if self.turn == 0:
            self.gap_before, self.turn = np.inf, _TURN
            is_new = not self.finisher.n_visits.any()
            if is_new and kind is not self.cheaper(rows):
                self.gap_before, self.turn = 0, SWEEPS  # then it is the other's turn in any case
        while left > 0:
            finisher = self.finisher
            finisher.run(tol, min(self.turn, left), **threads)
            used = int((finisher.n_epochs - finisher.base).max())
            left -= used
            gap = finisher.relative_gap.max()
            if gap <= tol or left <= 0:
                return
            is_slow = gap > self.gap_before / 2
            following = self._begin(self._other(rows), rows) if is_slow else finisher
            following.by_epochs = finisher.by_epochs
            with uninterrupted():
                self._hand_over(following)
                following.end_plan()
                self.epochs_begun += used
                self.turn = max(2 * self.turn, _TURN) if is_slow else self.turn
                self.gap_before = np.inf if is_slow else gap

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def start_from(self, other, rows):
        """Begin where the finisher of another session stands, whose problems have another λ.

        w is kept, since optima change little with λ: dual variables of a smaller λ are smaller.
        """
        finisher = other.finisher
        a = finisher.a * min(1, self.settings.lam / other.settings.lam)
        self.finisher = self._begin(type(finisher), rows, (a, *finisher.model()))

    def _count_epochs(self, on_progress, on_epoch=None, **_):
        """What a finisher is to call now and then, so that `on_epoch` hears of each epoch."""
        if on_epoch is None:
            return on_progress
        told = self._finisher_epochs()

        def progress():
            nonlocal told
            if on_progress is not None:
                on_progress()
            while told < self._finisher_epochs():
                told += 1
                on_epoch()

        return progress

    def _finisher_epochs(self):
        return 0 if self.finisher is None else int(self.finisher.n_epochs.mean())

    def _hand_over(self, finisher):
        """Let a finisher go on, and remember what ran before."""
        ran = tuple(self.solver_epochs.items())
        with uninterrupted():
            self._ran, self.finisher = ran, finisher

    @property
    def solver_epochs(self):
        """Epochs of each solver, in the order in which they ran."""
        ran = dict(self._ran)
        left = self.n_iter - sum(ran.values())
        if left < 0:  # those were of other rows
            ran, left = {}, self.n_iter
        at_work = "pegasos"
        if self.finisher is not None:
            at_work = next(
                s for s, kind in self.finishers.items() if isinstance(self.finisher, kind)
            )
            if at_work == "sdca" and left and "pegasos" not in ran and self.finisher.n_steps.any():
                ran["pegasos"], left = 1, left - 1  # see `DualAscent`
        if left:
            ran[at_work] = ran.get(at_work, 0) + left
        return ran

    def _other(self, rows):
        """The finisher that is not at work."""
        sdca, newton = self.finishers.values()
        return newton if isinstance(self.finisher, sdca) else sdca

    def _begin(self, kind, rows, start=None):
        """A finisher of this kind that goes on from `start`, or where the present one stands."""
        if isinstance(self.finisher, kind):
            self.finisher.begin(rows, self.labels, self.row_weights, start)
            return self.finisher
        last = self.finisher
        if start is None:
            if last.rows is None:  # of a state: what it saw may have been of other rows
                last.begin(rows, self.labels, self.row_weights)
            start = (last.dual(), *last.model())
        new = kind(self.settings, len(self.problems), *rows.shape, self.seed)
        new.begin(rows, self.labels, self.row_weights, start)
        if last is not None:
            new.take_over(last)
        return new

    def _descend(self, rows, tol, max_iter, threads):
        """Pegasos alone, looking at the gap now and then."""
        while True:
            left = max(max_iter - self.epochs_begun, 0)
            epochs = min(max(self.epochs_begun, _EPOCHS_BEFORE_LOOK), left)
            self.plan(n_epochs=epochs)
            self.carry_out(rows, **threads)
            certificate = self.certify(rows)
            if epochs == left or certificate.stopping_gap.max() <= tol:
                return certificate
            with uninterrupted():
                self._end_part()
                self.epochs_begun += epochs

    def set_rows(self, labels, row_weights, **options):
        if labels.shape[1] != self.n_rows:
            self.finisher, self._ran = None, ()
        super().set_rows(labels, row_weights, **options)

    @property
    def n_steps(self):
        """Steps of Pegasos by each problem, those of a finisher's first epoch included."""
        steps = self.problems["n_steps"].copy()
        return steps if self.finisher is None else steps + self.finisher.n_steps

    @property
    def n_iter(self):
        return super().n_iter + (0 if self.finisher is None else int(self.finisher.n_epochs.max()))

    def progress(self):
        """Rows visited since the finisher began, and the gaps; before it, as a `LinearSession`."""
        if self.finisher is None:
            return super().progress()
        gap = self.finisher.relative_gap.max()
        done = int(self.finisher.n_visits.sum())
        return done, 0, f"gap {gap:.2g}" if np.isfinite(gap) else ""

    def model(self):
        return super().model() if self.finisher is None else self.finisher.model()

    def dual(self):
        return super().dual() if self.finisher is None else self.finisher.dual()

    def certify(self, rows):
        """The certificate of the present model, computed from it and from the dual variables.

        Of a pass over the rows that a finisher made with this very model, the result is taken over.
        """
        seen = self.finisher is not None and self.finisher.is_seen.all()
        return self._certify(
            rows, self.labels, self.row_weights, self.dual, self.model, self.settings,
            self.problems["lam"], self.finisher.primal.copy() if seen else None,
        )  # fmt: skip

    def standing(self, rows):
        """Objectives and relative gaps: those a finisher saw last, else certified now."""
        if self.finisher is not None and np.isfinite(self.finisher.relative_gap).all():
            return {
                "objective": self.finisher.primal.copy(),
                "relative_gap": self.finisher.certificate().relative_gap,
            }
        certificate = self.certify(rows)
        return {"objective": certificate.objective, "relative_gap": certificate.relative_gap}

    def state(self):
        where = np.array([self.epochs_begun, self.turn, self.gap_before], np.float64)
        ran, names = dict(self._ran), ("pegasos", *self.finishers)
        places = {solver: place for place, solver in enumerate(ran, 1)}
        epochs = [[of.get(solver, 0) for solver in names] for of in (ran, places)]
        state = super().state() | {"where": where, "solver_epochs": np.array(epochs, np.int64)}
        for solver, kind in self.finishers.items():
            if isinstance(self.finisher, kind):
                arrays = self.finisher.state()
                state |= {f"{solver}.{name}": array for name, array in arrays.items()}
        return state

    @classmethod
    def restore(cls, settings, state):
        session = super().restore(settings, state)
        session.epochs_begun, session.turn = (int(number) for number in state["where"][:2])
        session.gap_before = float(state["where"][2])
        names, (epochs, places) = ("pegasos", *cls.finishers), state["solver_epochs"].tolist()
        ran = sorted(zip(places, names, epochs, strict=True))
        session._ran = tuple((solver, n) for place, solver, n in ran if place > 0)
        for solver, kind in cls.finishers.items():
            prefix = f"{solver}."
            arrays = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            if arrays:
                session.finisher = kind.restore(settings, arrays, session.seed)
        return session


class LinearTraining(_Training, LinearSession):
    """Linear machines."""

    finishers = {"sdca": DualAscent, "newton": Newton}
    _certify = staticmethod(_certificate.certify)

    def _squared_norm(self, rows):
        """Mean of |x_i|^2."""
        return _rows.squared_norms(rows).mean()

    def first(self, rows):
        """The finisher to begin with: several problems go as bundles at first."""
        return DualAscent if goes_in_bundles(len(self.problems)) else self.cheaper(rows)

    def cheaper(self, rows):
        """The finisher that is likely to reach a gap of about 1e-3 first, from sizes alone.

        Newton's method takes some ten iterations of four passes, each with a matrix product over
        the tenth of the rows that are in the band. Coordinate ascent takes about 15 epochs where
        features are many, several times as many where rows are, each with additions to w in random
        order.
        """
        n, d = rows.shape
        if d > MOST_FEATURES:
            return DualAscent
        one_pass = rows.size * (0.4e-9 if rows.size == n * d else 1.5e-9)
        newton = 10 * (4 * one_pass + 0.2 * n * d**2 / 1e11 + d**3 / 3e10)
        epochs = 15 if n < 2 * d else 60
        return Newton if newton < 2 * epochs * one_pass else DualAscent


class KernelTraining(_Training, KernelSession):
    """Kernel machines; `rows` is a `ColumnCache`."""

    finishers = {"sdca": KernelAscent, "newton": KernelNewton}
    _certify = staticmethod(_certificate.certify_kernel)

    def _squared_norm(self, cache):
        """Mean of |phi(x_i)|^2."""
        return np.abs(cache.points.diagonal()).mean()

    def certify(self, rows):
        """The same; what a finisher computed afresh already is taken over."""
        if self.finisher is not None and self.finisher.is_seen.all():
            return self.finisher.certificate()
        certificate = super().certify(rows)
        if self.finisher is None:
            return certificate
        # It stops by what it sees; without a dual, that is at its last point, and not at its best.
        return dataclasses.replace(certificate, estimate=self.finisher.relative_gap.copy())

    def train(self, rows, *, tol, **options):
        """The same; where rounding, which solvers do not count, spoils a little of the gap, they go on for that."""
        certificate = super().train(rows, tol=tol, **options)
        if tol is not None and certificate.estimate is not None:
            excess = (certificate.relative_gap - certificate.estimate).max()
            if (
                certificate.relative_gap.max() > tol >= certificate.estimate.max()
                and excess < tol / 4
            ):
                return super().train(rows, tol=tol - 2 * excess, **options)
        return certificate

    def _finish(self, rows, solver, *rest):
        """The same; Newton's method has no use for an objective that is not convex."""
        super()._finish(
            rows, "sdca" if solver == "newton" and not rows.is_positive else solver, *rest
        )

    def first(self, cache):
        """The same."""
        return self.cheaper(cache)

    def cheaper(self, cache):
        """The finisher that asks for few columns, for a first solution at least."""
        return KernelAscent

    def _other(self, cache):
        # Newton's method goes over all columns with a coefficient in every iteration.
        return super()._other(cache) if cache.holds_all and cache.is_positive else KernelAscent


def warn_unless(certificate, tol, rows, settings, solver, max_iter, name):
    """Warn if a relative gap is above `tol`: what was reached, and what is likely to help.

    `name` says in words which problem a number stands for.
    """
    if tol is None:
        return
    gaps, stopping = certificate.relative_gap, certificate.stopping_gap
    gaps = np.where(np.isnan(gaps), stopping, gaps)
    k = int(np.argmax(gaps))  # NaN is the largest
    if gaps[k] <= tol:
        return
    from sklearn.exceptions import ConvergenceWarning

    n = rows.shape[0]
    size = 1.0  # of a kernel matrix, nothing is said
    if isinstance(rows, _core.Rows):
        size = np.sqrt(_rows.squared_norms(rows, 1000).mean())
    if stopping[k] <= tol:
        advice = "Rounding forbids to prove more: give X as float64, or a larger lam"
    elif not 0.1 <= size <= 10:
        advice = (
            f"The rows of X have norms of about {size:.2g}: scale the features, so that these are "
            "about 1"
        )
    elif solver == "pegasos":
        advice = "Pegasos is slow to a fine solution: solver='auto' completes what it begins"
    elif settings.lam * n < 1:
        advice = (
            f"lam={settings.lam:.2g} is small for {n} rows: a larger one is learned faster, and may "
            "predict better"
        )
    else:
        advice = "Give more epochs (max_iter), or accept a larger tol"
    which = f" for {name(k)}" if len(gaps) > 1 else ""
    if np.isnan(certificate.gap[k]):
        reached = (
            f"with primal and dual value {100 * gaps[k]:.3g} % of it apart (the kernel matrix is not known to "
            "be positive semi-definite, so that this bounds nothing)"
        )
    else:
        reached = f"with gap {certificate.gap[k]:.3g}, {100 * gaps[k]:.3g} % of the objective"
    when = "" if stopping[k] <= tol else f" after max_iter={max_iter} epochs"
    warnings.warn(
        f"stopped{when}{which} at objective {certificate.objective[k]:.6g} "
        f"{reached}; tol={tol:g} asks for {100 * tol:.3g} %. {advice}",
        ConvergenceWarning,
        stacklevel=5,
    )
