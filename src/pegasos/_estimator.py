"""What the estimators share: scikit-learn's conventions around a training session."""

import copy
import functools
from dataclasses import asdict
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from pegasos import _certificate, _core, _problems, _session, _threads, _validate
from pegasos._callbacks import CallbackSupportMixin, StopRequestedError, Watch
from pegasos._checkpoint import CheckpointDue
from pegasos._progress import Progress
from pegasos._training import SOLVERS, warn_unless


class PegasosEstimator(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of `PegasosClassifier` and `KernelPegasosClassifier`.

    A subclass makes sessions in `_begin` and `_resume` and takes their results over in `_keep`.
    """

    _parameter_constraints = {
        "lam": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions(set(SOLVERS))],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_steps": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "sampling": [StrOptions(set(_core.SAMPLINGS))],
        "project": ["boolean"],
        "average": ["boolean", StrOptions({"suffix"})],
        "fit_intercept": ["boolean"],
        "penalize_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "multi_class": [StrOptions({"ovr", "ovo"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    classes_: np.ndarray
    intercept_: np.ndarray
    n_iter_: int
    n_steps_: np.ndarray
    objective_: np.ndarray
    dual_objective_: np.ndarray
    duality_gap_: np.ndarray
    alpha_counts_: np.ndarray
    _fitted: dict[str, Any]
    _state: dict[str, np.ndarray]

    #: Of fits of the command line.
    _checkpoints = None

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels of the rows of `X`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        winners = _problems.winners(self.decision_function(X))
        return self.classes_[winners]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- Inside ----------------------------------------------------------------------------------

    def _validate_rows(self, X, **options):
        _validate.before_conversion(X)
        checks = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}
        # What is not finite is told below, with its place; so is what a conversion makes infinite.
        try:
            with np.errstate(over="ignore"):
                valid = validate_data(self, X, ensure_all_finite=False, **checks, **options)
        except ValueError:
            # Of two things that are wrong, scikit-learn wants NaN told first.
            if isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2:
                _validate.finite_rows(X)
            raise
        X, *others = valid if isinstance(valid, tuple) else (valid,)
        _validate.finite_rows(X)
        X = _validate.aligned(X)
        return (X, *others) if others else X

    def _row_weights(self, sample_weight, codes, classes):
        """Sample weight times class weight, or None if both are one."""
        weights = _validate.sample_weight(sample_weight, len(codes))
        if self.class_weight is None:
            return weights
        if self.class_weight == "balanced":
            mass = np.bincount(codes, weights, minlength=len(classes))
            factor = mass.sum() / (len(classes) * np.where(mass > 0, mass, 1))
        else:
            for label, weight in self.class_weight.items():
                _validate.real(f"class_weight[{label!r}]", weight, at_least=0)
            factor = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
        with np.errstate(over="ignore"):  # the check follows
            weights = factor[codes] * (1.0 if weights is None else weights)
        return _validate.sample_weight(weights, len(codes), "sample_weight times class_weight")

    def _n_steps(self):
        return None if self.n_steps is None else _validate.integer("n_steps", self.n_steps)

    def _settings(self):
        return _session.LinearSettings(
            self.lam,
            batch_size=self.batch_size,
            sampling=self.sampling,
            project=bool(self.project),
            average=self.average,
            fit_intercept=bool(self.fit_intercept),
            penalize_intercept=bool(self.penalize_intercept),
            intercept_scaling=self.intercept_scaling,
        )

    def _seed(self):
        # None is NumPy's global generator here, as everywhere in scikit-learn.
        state = check_random_state(None) if self.random_state is None else self.random_state
        return _validate.seed(state)

    def _check_unchanged(self, settings, classes):
        """Raise unless training can go on from the state that is kept."""
        for name, value in self._choices(settings).items():
            if value != self._fitted[name]:
                raise ValueError(
                    f"{name} must stay {self._fitted[name]!r} while training goes on "
                    f"(warm_start or partial_fit), got {value!r}; clone the estimator to begin anew"
                )
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"y must have the classes of the fit that warm_start continues, "
                f"{self.classes_.tolist()}, got {classes.tolist()}"
            )

    def _restored(self, kind, settings, classes, n_features, dtype):
        """The session that the last call left, of a class `kind`."""
        n_problems = _problems.count(len(classes), self.multi_class)
        try:
            _session.check_state(self._state, kind(settings, n_problems, n_features, dtype, 0))
        except ValueError as error:
            raise ValueError(
                f"this {type(self).__name__} was damaged, and cannot go on: {error}"
            ) from None
        return kind.restore(settings, self._state)

    def _n_threads(self):
        return joblib.effective_n_jobs(self.n_jobs)

    def _run(self, session, run, classes):
        """Call `run` with threads and progress; keep what was learned if it is interrupted."""

        def on_progress():
            progress.update(session.progress)
            if self._checkpoints is not None:
                self._checkpoints.watch()

        with Progress(type(self).__name__, self.verbose) as progress:
            while True:
                try:
                    return run(n_threads=self._n_threads(), on_progress=on_progress)
                except (KeyboardInterrupt, CheckpointDue) as stop:
                    with _threads.uninterrupted():
                        self._keep(session, classes)
                    if self._checkpoints is not None:
                        self._checkpoints.write(self, (session.n_iter, session.progress()[0]))
                    if not isinstance(stop, CheckpointDue):
                        raise

    def _train(self, session, rows, classes, watch, max_iter, n_steps):
        """Run `session` over `rows` and tell callbacks of it.

        Returns
        -------
        certificate : pegasos._certificate.Certificate
        is_over : bool
            Whether the plan was carried out, and not stopped by a callback.
        """
        run = functools.partial(
            session.train, rows, solver=self.solver, tol=self.tol, max_iter=max_iter,
            n_steps=n_steps,
        )  # fmt: skip
        if watch.is_needed:

            def attributes():
                twin = copy.copy(self)
                twin._keep(session, classes)
                return {k: v for k, v in vars(twin).items() if k not in vars(self) or k[-1] == "_"}

            run = functools.partial(
                run, on_epoch=lambda: watch.epoch(attributes, lambda: session.standing(rows))
            )
        try:
            certificate = self._run(session, run, classes)
        except StopRequestedError:
            return session.certify(rows), False
        if n_steps is None:
            warn_unless(certificate, self.tol, rows, session.settings, self.solver, max_iter)
        return certificate, True

    def _watch(self, max_iter, n_steps, X, y):
        """Callbacks' view of a fit that begins now."""
        known = n_steps is None and self.tol is None and self.solver == "pegasos"
        return Watch(self, max_iter if known else None, X=X, y=y)

    def _keep_model(self, session, classes, model):
        """Take over `model`, a dictionary of attributes, and counters; drop what was said of the last.

        All is made before anything is taken over: without memory for it, the last model stays whole.
        """
        model |= {
            "classes_": classes,
            "n_steps_": session.problems["n_steps"].copy(),
            "n_iter_": session.n_iter,
            "_fitted": self._choices(session.settings),
        }
        for stale in ("alpha_counts_", "objective_", "dual_objective_", "duality_gap_"):
            self.__dict__.pop(stale, None)
        self.__dict__.update(model)

    def _certificate(self):
        """What is known of the fitted model."""
        if hasattr(self, "objective_"):
            return _certificate.Certificate(self.objective_, self.dual_objective_)
        return _certificate.Certificate.unknown(len(self.intercept_))

    def _keep_results(self, session, certificate):
        """Take over what is known only at the end of `fit`."""
        counts = session.counts.view()
        counts.flags.writeable = False  # they are part of the state
        results = {"alpha_counts_": counts}
        if certificate is not None:
            results["objective_"] = certificate.objective
            results["dual_objective_"] = certificate.dual_objective
            results["duality_gap_"] = certificate.gap
        self.__dict__.update(results)

    def _choices(self, settings):
        """What must not change while training goes on, and decides how scores are read."""
        return {**asdict(settings), "multi_class": self.multi_class}
