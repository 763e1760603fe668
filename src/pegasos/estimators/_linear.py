"""Linear estimators in scikit-learn's conventions: their common part, and the classifier."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pegasos.estimators import _parameters
from pegasos.estimators._base import Data, PegasosEstimator, one_at_a_time
from pegasos.estimators._classification import Classifier
from pegasos.estimators._parameters import ClassifierParameters, PenalizedParameters, parameters
from pegasos.io._blocks import Blocks
from pegasos.io._model import LinearModel
from pegasos.problems import _rows, _validate
from pegasos.solvers import _block_schedule, _state
from pegasos.solvers._joint import JointSchedule
from pegasos.solvers._schedule import Schedule

# λ of `partial_fit`, which does not know the number of rows to come.
_LAM_OF_PIECES = 1e-4


class LinearMachine(PegasosEstimator):
    _COEFFICIENTS = "coef_"
    coef_: np.ndarray
    #: Whether the ball that holds the optimum depends on λ alone.
    _has_one_ball = False

    @property
    def weight_norm_(self) -> np.ndarray:
        """‖w‖ of each problem, without the intercept."""
        check_is_fitted(self, "coef_")
        return np.linalg.norm(np.atleast_2d(self.coef_), axis=1)

    def partial_fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Go on with one epoch of Pegasos over the rows of `X`, for data that come in pieces.

        See `PegasosClassifier.partial_fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets of a regressor, with as many outputs in each call. One-class machines ignore it.
        sample_weight : array-like of shape (n_samples,), default=None
            Used unchanged: a row of weight 2 moves the weights twice as far. Their mean should
            be about 1. Rows of weight zero do not advance the step counter.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y or the weights are not as described, or training begins with a `C`. Regressors
            and machines of one class take no `project`.
        """
        with one_at_a_time(self, "partial_fit"):
            first = self._check_piece()
            data = self._read(X, y, sample_weight, continuing=not first)
            return self._learn_piece(data, first=first)

    def to_model(self) -> LinearModel:
        """The fitted model as a `pegasos.LinearModel`, which can be saved without pickle.

        It has no certificate if `coef_` or `intercept_` was changed after the fit.
        """
        model: LinearModel = self._if_unchanged(self._fitted_model())
        return model

    def _fitted_model(self) -> LinearModel:
        check_is_fitted(self, "coef_")
        coef = np.asarray(self.coef_)
        if getattr(self, "_is_flat", False):  # y had one dimension
            coef = coef[None]
        return LinearModel(coef=coef, **self._model_fields())

    @classmethod
    def _unpack_model(cls, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        parameters, attributes = super()._unpack_model(model)
        return parameters, attributes | {"coef_": model.coef[0] if model.is_flat else model.coef}

    def _problem_scores(self, X: Any) -> np.ndarray:
        model = self._fitted_model()
        if isinstance(X, Blocks):
            model._check_names(X.feature_names)
            return np.concatenate([model._problem_scores(rows) for rows, _, _ in X])
        return model._problem_scores(self._validate_rows(X, reset=False), checked=True)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Data]:
        if isinstance(X, Blocks):
            X.without(y if get_tags(self).target_tags.required else None, sample_weight)
            in_memory = _block_schedule.fit_into_memory(X)
            schedule, data = self._prepare_in_memory(X) if in_memory else self._prepare_blocks(X)
            data.feature_attributes = X.seen
            return schedule, data
        return super()._prepare(X, y, sample_weight)

    def _prepare_in_memory(self, blocks: Blocks) -> tuple[Any, Data]:
        """Prepare a fit of all rows of blocks, in memory."""
        if self.warm_start and hasattr(self, "coef_"):  # a checkpoint has no model yet
            self._fitted_model()._check_names(blocks.feature_names)
        names = self.__dict__.pop("feature_names_in_", None)  # arrays have no names
        try:
            return super()._prepare(*blocks.in_memory())
        finally:
            if names is not None:
                self.feature_names_in_ = names

    def _prepare_blocks(self, blocks: Blocks) -> tuple[Any, Data]:
        """Prepare a fit of rows that are larger than memory."""
        _parameters.check_blocks(self)
        continuing = self.warm_start and "blocks" in getattr(self, "_state", ())
        data, targets, masses, n_inside = self._read_blocks(blocks, continuing=continuing)
        settings = self._settings_of(data, continuing=continuing)
        seed = 0 if continuing else self._seed()
        of_rows = blocks, targets, masses, n_inside, seed
        schedule = _block_schedule.schedule(self.solver, settings, *of_rows)
        if continuing:
            schedule.restore(self._state)
        data.rows = blocks
        return schedule, data

    def _schedule_of(self, data: Data, *, continuing: bool) -> Schedule:
        rows, dtype = _rows.of_training(data.X)
        few, columns = _rows.without_empty_columns(rows)
        if not continuing:
            data.rows, data.columns = few, columns
            if columns is not None:  # check the model's memory before training
                _rows.zero_weights(len(data.problem_labels), data.X.shape[1])
            settings = self._settings_of(data, continuing=False)
            return self._begin(settings, data, dtype, self._seed())
        schedule = self._resume(data, dtype)
        if np.array_equal(data.columns, columns):
            rows = few
        else:
            schedule = self._with_all_columns(schedule, data, rows)
        data.rows = rows
        if schedule.n_rows != rows.shape[0]:
            schedule.return_to_pegasos(rows)  # dual variables belong to other rows
        return schedule

    def _check_piece(self) -> bool:
        """Raise unless parameters suit `partial_fit`; returns whether training begins with it."""
        _parameters.check(self)
        if self.solver not in ("auto", "pegasos"):
            raise ValueError(f"partial_fit needs solver='pegasos', got solver={self.solver!r}")
        if self.project and not self._has_one_ball:
            raise ValueError(
                "project must be False in partial_fit, got True: which ball holds the optimum "
                "depends on all rows"
            )
        first = not hasattr(self, "_state")
        if first and hasattr(self, "coef_"):
            raise ValueError(
                "partial_fit cannot go on from a saved model, which lacks the state of training: "
                "clone the estimator to begin anew"
            )
        if first and self.C is not None:
            raise ValueError(
                f"partial_fit cannot begin with C={self.C!r}: lam is 1/C over the sum of all "
                "weights, and more rows may come; give lam in place of C"
            )
        return first

    def _learn_piece(self, data: Data, *, first: bool) -> Self:
        """Make one epoch of Pegasos over the next rows, after those of earlier calls."""
        if first:
            rows, dtype = _validate.rows(data.X, checked=True)
            settings = self._settings_for(_LAM_OF_PIECES if self.lam is None else self.lam, data)
            schedule = self._begin(settings, data, dtype, self._seed())
        else:
            schedule = self._resume(data)
            rows, _ = _validate.rows(data.X, checked=True, dtype=schedule.dtype)
            schedule.return_to_pegasos(rows)
            schedule = self._with_all_columns(schedule, data, rows)
        data.rows = rows
        schedule.set_piece(data.problem_labels, data.weights, data.values)
        plan: dict[str, Any] = {"solver": "pegasos", "tol": None, "max_iter": 1, "check": "none"}
        self._train(schedule, data, **plan)
        schedule = schedule.ended()
        self._set_attributes(self._attributes(schedule, data) | self._state_of(schedule, data))
        return self

    def _resume(self, data: Data, dtype: Any = None) -> Schedule:
        settings = self._settings_of(data, continuing=True)
        if "blocks" in self._state:
            raise ValueError("the last fit was of Blocks: go on with these, or fit a clone")
        _, before = _state.rows_of(self._state)
        if dtype is not None and before != dtype:
            raise ValueError(
                f"X must be {before}, as in the fit that warm_start continues, got {dtype}"
            )
        return self._restored(settings, data, before)

    def _with_all_columns(self, schedule: Any, data: Data, rows: Any) -> Any:
        """The schedule for `rows`, which have all columns; `data` may have fewer."""
        if data.columns is None:
            return schedule
        schedule.return_to_pegasos(rows)  # dual variables belong to other rows
        state = _state.with_empty_columns(schedule.state(), data.columns, data.X.shape[1])
        data.columns = None
        return self._begin(schedule.settings, data, schedule.dtype, 0).restore(state)

    def _model_of(self, coef: np.ndarray, intercept: np.ndarray, data: Data) -> dict[str, Any]:
        coef = _rows.with_empty_columns(coef, data.columns, data.X.shape[1])
        return {"coef_": coef, "intercept_": intercept}

    def _state_of(self, schedule: Schedule, data: Data, is_final: bool = False) -> dict[str, Any]:
        """What a warm start or `partial_fit` needs; data of rows only if `warm_start` is set."""
        if self.warm_start or not is_final:
            columns = {} if data.columns is None else {"columns": data.columns}
            return {"_state": schedule.state() | columns}
        of_all = data.columns, data.X.shape[1]
        return {"_state": _state.with_empty_columns(schedule.compact_state(), *of_all)}


def _has_pieces(estimator: Any) -> bool:
    """Whether there is a `partial_fit`."""
    if estimator.multi_class == "crammer_singer":
        raise AttributeError(
            "partial_fit is not available with multi_class='crammer_singer', whose problem needs "
            "all rows at once: take 'ovr' or 'ovo'"
        )
    return True


@parameters
class PegasosClassifier(Classifier, LinearMachine, ClassifierParameters, PenalizedParameters):
    """Linear support vector machine with a certified objective.

    Minimises, for each binary problem,

    ``P(w) = lam/2 |w|^2 + 1/m sum_i c_i max(0, 1 - y_i (<w, x_i> + b))``, ``m = sum_i c_i``,

    or another `loss` in place of max(0, ...). A fit begins with an epoch of Pegasos, stochastic
    sub-gradient descent on the primal with step size 1/(lam t), and goes on as `solver` says.
    ``c_i`` is the sample weight times the class weight of row i. Since λ = 1/(C m), P is 1/(C m)
    times the objective of `sklearn.svm.LinearSVC` with this C and the hinge or its square, and of
    `sklearn.linear_model.LogisticRegression` with the log loss and a free intercept.

    Parameters
    ----------
    C : float, default=None
        Weight C > 0 of the losses, as in `sklearn.svm.LinearSVC`: a larger C fits closer. ``λ =
        1/(C m)``, where m is the sum of the weights of all rows. None stands for C = 1, unless
        `lam` is given. In one-vs-one, all pairs of the K classes share one λ: m is then the mean
        weight of a pair, 2/K times that sum. If all classes have equal weight, each pair has the C
        of `sklearn.svm.SVC`.
    lam : float, default=None
        Regularisation λ > 0, in place of C; the fitted λ is `lam_`. None: λ follows from C. But
        `partial_fit`, which cannot know the sum of weights, takes λ = 1e-4.
    loss : {"hinge", "squared_hinge", "modified_huber", "log_loss"}, default="hinge"
        Loss of a row with u = 1 - y f(x):

        - "hinge": max(0, u), the loss of the paper;
        - "squared_hinge": max(0, u)², the default loss of `sklearn.svm.LinearSVC`. It weighs rows
          far on the wrong side more and has more support vectors;
        - "modified_huber": max(0, u)², but 4u - 4 where u > 2, so that outliers weigh less;
        - "log_loss": log(1 + exp(u - 1)), that of logistic regression. Every row is a support
          vector.

        The last two have `predict_proba`. All but the hinge are smooth, so Newton's method takes
        fewer iterations. For smooth losses, Pegasos takes steps of 1/(lam (t + t0)). There, t0 is
        the largest second derivative of the loss (1/4 for the log loss, otherwise 2) times
        ``max_i c_i |x_i|^2/lam``, so that the first steps do not leap beyond the optimum.
    solver : {"auto", "pegasos", "sdca", "newton"}, default="auto"
        "pegasos" is the algorithm of the paper and nothing else. It reaches a rough solution fast.
        The others begin with an epoch of Pegasos and reach a fine solution fast. "sdca" goes on
        with dual coordinate ascent with shrinking, for many features. "newton" goes on with
        Newton's method, for few features, or for smooth losses of many more rows than features; it
        smooths the hinge. "auto" takes the solver that is likely to be cheaper, and changes to the
        other if it is slow. With `n_steps`, "auto" is "pegasos". "auto" and "newton" may solve
        rows in the space that they span, if there are few rows and many features.
    tol : float, "auto" or None, default="auto"
        Relative duality gap (P - D)/P, at most 1, at which a fit stops. A `ConvergenceWarning` is
        issued if `max_iter`, rounding or a callback ends the fit before. "auto" is 1e-3, which a
        test set of thousands of rows cannot tell from 0. With "auto", small data are solved until
        rounding alone is left: then the seed and the order of rows change only the last digits of
        results. Small means: with `solver` "auto" or "newton", at most 2**18 numbers in X for all
        binary problems together, if Newton's method is likely to take at most 5 ms. For kernel
        machines it means: with `solver` "auto" or "sdca", at most 2**17 numbers in kernel matrices
        that are known to be positive semi-definite. None: run `max_iter` epochs. Ignored if
        `n_steps` is given.
    max_iter : int, default=1000
        Most epochs (passes over the data), if `n_steps` is None. An epoch in which shrinking leaves
        rows out counts as a whole one. An iteration of Newton's method takes several epochs, and
        the last one may end after `max_iter`.
    n_steps : int, default=None
        T, the number of steps of each binary problem; a step takes `batch_size` draws.
    batch_size : int, default=1
        k, the rows drawn per step. Up to a few hundred cost little accuracy at equal k T. For
        Pegasos alone: see `average`.
    sampling : {"permutation", "cyclic", "uniform"}, default="permutation"
        A new permutation of the rows every epoch, one fixed permutation, or independent draws with
        replacement as in the paper's analysis. The first converges fastest in practice.
    project : bool, default=False
        After every step, project on a ball that holds the optimum: ``|w| <= sqrt(r/lam)``, r = 1
        for the hinge, 1/2 for the squared hinge and the modified Huber loss, and 0.2785 for the log
        loss.
    average : bool or "suffix", default=False
        Return the last iterate (False), which the paper found best in practice, the average of all
        iterates (True), or the average of the last half ("suffix"). Needs ``solver="pegasos"``
        or `n_steps`. Other solvers, "auto" among them, go to the optimum, whatever `average`,
        `batch_size`, `sampling` and `project` are. If training goes on by `warm_start` or
        `partial_fit`, "suffix" covers about the last half of all steps: at least a third and at
        most three quarters, unless another solver ran in between.
    fit_intercept : bool, default=True
        Whether there is an intercept b.
    penalize_intercept : bool, default=True
        True: the intercept is the weight of a constant feature and part of ``|w|``, as in
        LIBLINEAR. False: the intercept is free. If several values are equally good, as with a large
        `lam`, the hinge takes the middle one, as LIBSVM does, and other losses any of them. With
        solver="pegasos", steps move a free intercept, and it stays where they leave it.
    intercept_scaling : float, default=1.0
        Value of the constant feature. A larger value penalises the intercept less.
    multi_class : {"ovr", "ovo", "crammer_singer"}, default="ovr"
        One-vs-rest (the largest score wins), one-vs-one (votes, ties broken by summed scores), or
        the joint problem of Crammer and Singer, as in `sklearn.svm.LinearSVC`, which minimises
        ``lam/2 sum_k |w_k|^2 + 1/m sum_i c_i max_k (cost[y_i, k] + s_k - s_y)``, where s_k is the
        score of class k and s_y that of the row's own class. It needs the hinge. Newton's method
        solves it if all classes together have at most 2000 coefficients and intercepts. "auto"
        begins with "sdca", and goes on with "newton" if that is likely to be faster.
        Ignored if y has several columns: each of them is a problem of its own.
    cost : array-like of shape (n_classes, n_classes), default=None
        Only with ``multi_class="crammer_singer"``: ``cost[i, j]`` is the cost of predicting
        ``classes_[j]`` for a row of ``classes_[i]``, at least 0, and 0 where i = j. Errors that
        cost much become rarer, others more frequent. None: all errors cost 1.
    class_weight : dict or "balanced", default=None
        Weight of each class; "balanced" gives all classes the same weight. It must be None if y
        has several columns, since problems share the weights of rows.
    warm_start : bool, default=False
        True: `fit` goes on where the last `fit` ended, for `max_iter` epochs or `n_steps` steps
        more. An interrupted fit is completed, to the bits of an undisturbed one, if X, y and
        weights are equal and in the same layout; CSR rows in place of dense ones take longer.
        λ stays as in the last model, even if the rows have other weights now. `C`, `lam`,
        `loss`, `batch_size`, `sampling`, `project`, `average`, `multi_class` and the parameters of
        the intercept must not change. With solver="pegasos" and `n_steps` or ``tol=None``,
        several fits of the same data give the bits of one longer fit, except with
        ``average="suffix"``. The other solvers check the gap at the end of each fit, and this check
        affects what they do next. So several fits end at another model than one fit, with a
        certificate that also holds.
        False: a fitted estimator keeps nothing that grows with the number of rows, except
        `alpha_counts_`. A warm start from such a fit goes on as `partial_fit` does, and dual
        coordinate ascent begins at 0, since it has no dual variables of the rows.
    n_jobs : int, default=None
        Threads that share the binary problems. If there are fewer problems than threads, threads
        also share the passes of Newton's method over the rows of one problem. As in joblib, -1 is
        one for each CPU. None: one, or what ``joblib.parallel_config`` says. It changes no result.
    random_state : int, RandomState, Generator or None, default=None
        Seed for the order of rows: the same int gives the same bits. None asks NumPy's global
        generator for a seed.
    verbose : int, default=0
        1: show progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted. If y has several columns, their numbers, as in
        `sklearn.multiclass.OneVsRestClassifier`.
    lam_ : float
        The λ of the fit: `lam`, or that of C.
    coef_ : ndarray of shape (n_problems, n_features)
        Weights. There is one problem for two classes. For more, there is one for each class ("ovr")
        or column of y, or for each pair of classes (0, 1), (0, 2), ..., (1, 2), ... ("ovo"); the
        later class of a pair has the positive scores. With "crammer_singer", there is one for each
        class; for two classes, it is the difference of their weights.
    intercept_ : ndarray of shape (n_problems,)
    weight_norm_ : ndarray of shape (n_problems,)
        ‖w‖ of each problem, without the intercept; see `margins`.
    n_iter_ : int
        Epochs so far over the rows of the last call; the most of all problems.
    solver_epochs_ : dict of str to int
        Epochs of each solver that ran, in the order in which they began, such as
        ``{"pegasos": 1, "sdca": 12}``.
    n_steps_ : ndarray of shape (n_problems,)
        Steps of Pegasos so far. Unless `n_steps` is given, a new fit begins with an epoch of them.
        Before dual coordinate ascent, these steps have exact length. If Newton's method begins on
        a sample of the rows, the epoch is over the sample. Regressors with "squared_error" take
        none before Newton's method. If Pegasos goes on from the model of another solver, the number
        includes steps that this model stands for; see `partial_fit`.
    objective_ : ndarray of shape (n_problems,)
        P(w) of this model on the training data; of shape (1,) with "crammer_singer". After an
        interrupted fit and after `partial_fit`, there is no `objective_`, `dual_objective_` or
        `duality_gap_`.
    dual_objective_ : ndarray of shape (n_problems,)
        A lower bound on P: no model has an objective below it. It is the value of a dual point.
    duality_gap_ : ndarray of shape (n_problems,)
        ``objective_ - dual_objective_``: P(w) is at most this far above the optimum. With
        solver="pegasos", the bound is tight after whole epochs of permutations, for the last
        iterate without projection. Otherwise it holds, but is not as tight.
    alpha_counts_ : ndarray of shape (n_problems, n_samples)
        How often a step of Pegasos drew each row and found its margin violated. For losses other
        than the hinge, it is the sum of their slopes at the draws of the row, in float64. Set only
        by `fit` with ``solver="pegasos"`` or `n_steps`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Set when the columns of X have names that are strings.

    See Also
    --------
    pegasos.fit : Trains on NumPy arrays, without scikit-learn.
    sklearn.svm.LinearSVC : Dual coordinate descent by LIBLINEAR.

    Notes
    -----
    Ctrl-C stops a fit between pieces of work of about 10 ms; the factorisation of a large matrix
    takes longer. The model so far is kept, and with ``warm_start=True`` the next fit completes it.
    For probabilities, take ``loss="log_loss"`` or ``loss="modified_huber"``, or wrap the estimator:
    ``CalibratedClassifierCV(PegasosClassifier(), ensemble=False)``.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated sub-gradient solver for SVM.
    Mathematical Programming B 127 (2011) 3-30.

    Crammer, Singer: On the algorithmic implementation of multiclass kernel-based vector machines.
    JMLR 2 (2001) 265-292.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pegasos import PegasosClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = PegasosClassifier(lam=1e-3, random_state=0).fit(X / 16, y)
    >>> print(f"accuracy {clf.score(X / 16, y):.2f}, objective of class 8: {clf.objective_[8]:.2f}")
    accuracy 0.98, objective of class 8: 0.09
    """

    cost: ArrayLike | None = None
    _has_one_ball = True

    @available_if(_has_pieces)
    def partial_fit(
        self, X: Any, y: ArrayLike, classes: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Go on with one epoch of Pegasos over the rows of `X`, for data that come in pieces.

        After a `fit`, it goes on from the fitted model. Step t moves the weights by 1/(λt) times a
        row. If another solver than Pegasos made the model, t is at least the number of steps in as
        many epochs of Pegasos. It is also so large that the first step moves the score of an
        average row by at most 1: a few rows cannot undo the fit. Ctrl-C keeps a whole epoch or
        nothing of it.

        The first call takes λ = `lam`, or 1e-4 if `lam` is None. It refuses a `C`: λ = 1/(C m)
        needs the sum m of all weights, which is not known before the last piece. After a `fit`, λ
        stays that of the fit, even if it came from `C`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_labels)
            Labels, all of them in `classes`; or zeros and ones in columns, as in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed in the first call, unless y has several columns.
        sample_weight : array-like of shape (n_samples,), default=None
            Used unchanged: a row of weight 2 moves the weights twice as far. Rows of weight
            zero do not advance the step counter.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y or the weights are not as described, a label is not in `classes`, or training
            begins with a `C`.
        """
        with one_at_a_time(self, "partial_fit"):
            first = self._check_piece()
            if first and classes is None and not _validate.has_columns(y):
                raise ValueError("classes must be given in the first call to partial_fit")
            if self.class_weight == "balanced":
                raise ValueError(
                    "class_weight='balanced' needs all data at once; for partial_fit give "
                    "class_weight as a dict, for instance from sklearn.utils.compute_class_weight"
                )
            among = classes, None if first else self.classes_
            data = self._read(X, y, sample_weight, continuing=not first, among=among)
            return self._learn_piece(data, first=first)

    def _check_data(self, data: Data) -> None:
        super()._check_data(data)
        if self.multi_class == "crammer_singer":
            _validate.cost(self.cost, data.classes)

    def _begin(self, settings: Any, data: Data, dtype: Any, seed: int) -> Any:
        if self.multi_class != "crammer_singer":
            return super()._begin(settings, data, dtype, seed)
        cost = _validate.cost(self.cost, np.arange(max(len(data.problem_labels), 2)))
        return JointSchedule(settings, cost, data.n_features, dtype, seed)
