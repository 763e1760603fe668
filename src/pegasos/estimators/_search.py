"""Searches over λ (and γ, ε, T) by cross-validation.

The steps of `fit`:

    _task      checks X and y; makes folds, the values to try and the scoring
    _train     goes over γ (one kernel matrix each), over ε, and over folds that share weights
    `_grid`    `Training` trains the machines of all λ there, as far as `cv_effort` says, and gives
               `Grid` the scores of test rows
    _results   has means and ranks of points, and the best one
    fit        of the best estimator trains on all rows

For rows on disk, `_block_search` replaces `_train`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, r2_score
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import check_is_fitted

from pegasos import _core, _threads, _user_warnings, kernels
from pegasos.estimators import _folds, _grid, _parameters
from pegasos.estimators._base import CommonMixin, Data, PegasosEstimator, lam_of
from pegasos.estimators._block_search import BlockFolds
from pegasos.estimators._kernel import KernelPegasosClassifier
from pegasos.estimators._linear import LinearMachine, PegasosClassifier
from pegasos.estimators._parameters import (
    ClassifierParameters,
    KernelParameters,
    RegressorParameters,
    SearchParameters,
    parameters,
)
from pegasos.estimators._regression import KernelPegasosRegressor, PegasosRegressor
from pegasos.io._blocks import Blocks
from pegasos.io._model import KernelModel, LinearModel
from pegasos.io._progress import Progress
from pegasos.problems import _multiclass, _rows
from pegasos.problems._losses import EPSILON_LOSSES, with_probabilities
from pegasos.solvers import _block_schedule
from pegasos.solvers._kernel_solver import KernelSolver
from pegasos.solvers._linear import LinearSolver

# The automatic grid of C: how many values, and their range.
_N_CS, _LEAST_AND_MOST_C = 10, (1e-4, 10.0)
# The largest factor of the automatic C for "huber": with far larger C, Pegasos's steps would be too
# short to count. Errors that far above epsilon are absolute errors to "huber".
_MOST_OF_HUBER = 1e6
# The automatic grid of γ, as multiples of "scale".
_OF_SCALE = (0.1, 1.0, 10.0)
# If a fold has one problem, or its problems have at most this many kernel values, a second pass
# over the γ takes longer than the machines that would be dropped after the first fold.
_FEW = 2**20
# Folds share the weights of all rows if balanced weights differ from them by at most this part.
_ALIKE = 0.01
# The epsilon of a search that is given none.
_EPSILON = 0.1
# A search over few rows begins with their span if finding it takes as long as this many passes.
_PASSES_FOR_SPAN = 100


def _public(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The public attributes of a fitted estimator."""
    return {k: v for k, v in attributes.items() if k.endswith("_") and not k.startswith("_")}


@dataclasses.dataclass
class _Task:
    """The work of a call of `fit` of a search."""

    estimator: Any  # without values of the searched parameters
    data: Data
    folds: list[Any]
    on_disk: BlockFolds | None  # for rows that are larger than memory
    of_rows: tuple[Any, ...]  # the arguments of `fit` of the best estimator
    axes: dict[str, Any]  # the values to try of each parameter, outermost first
    lams: np.ndarray  # the values of λ on the axis of C or λ
    scoring: _folds.Scoring


class _Search(BaseEstimator):
    """The common part of all searches.

    A second base, `_OfClassifiers` or `_OfRegressors`, defines the meaning of y. Its `_plain_score`
    scores rows number `test` if `scoring` is None. A third base, `_Linear` or `_Kernel`, has
    `_machines`, which yields machines and their place on the axes that change rows or kernels.
    """

    cv_results_: dict[str, Any]
    scores_: np.ndarray
    n_splits_: int
    best_index_: int
    best_score_: float
    best_params_: dict[str, Any]
    best_estimator_: Any
    edges_: dict[str, str]
    C_: float
    lam_: float
    # Attributes of the best estimator.
    n_features_in_: int
    feature_names_in_: np.ndarray
    intercept_: np.ndarray
    n_iter_: int
    solver_epochs_: dict[str, int]
    n_steps_: np.ndarray
    objective_: np.ndarray
    dual_objective_: np.ndarray
    duality_gap_: np.ndarray

    #: The class of estimators that are searched over.
    _best: Any

    #: The checkpoints of a search over `Blocks` on the command line. `_resumed`, if it is set, has
    #: the arrays of a checkpoint from which the next `fit` goes on.
    _checkpoints: Any = None

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Search, then train on all rows with the best parameters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Blocks
            `Blocks` are for linear machines and rows larger than memory. The problems of all λ and
            folds then share the passes over the rows, which are in random order: row number i is
            tested in fold i modulo `cv`. "auto" of `cv_effort` is then a gap of 0.05, in 16
            passes or rounds at most.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels, or targets of one output or several. None for Blocks, which have them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in training and in scores; a number stands for all rows. None for
            Blocks, which have them.
        groups : array-like of shape (n_samples,), default=None
            For splitters that need them. Metadata routing brings them without a request.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described, or a fold has too little to learn from (fewer than
            two classes, or no row of weight), or no row of weight to test on, or a single row to
            test on for R².
        """
        _parameters.check(self)
        task = self._task(X, y, sample_weight, groups)
        estimator, data = task.estimator, task.data
        attributes = estimator._target_attributes(data)
        attributes["_fitted"] = estimator._fixed_parameters(
            estimator._settings_for(task.lams[0], data)
        )
        few = {"max_iter": min(_grid.LEAST_EPOCHS, self.max_iter), "tol": None}

        def score(more: Any, where: tuple[int, ...], fold: int, scores: np.ndarray) -> Any:
            axes = zip(task.axes.items(), where, strict=True)
            point = {name: axis[k] for (name, axis), k in axes} | more
            if data.units is not None:
                scores = scores * np.array(data.units)
            return task.scoring(fold, scores, lambda: _folds.fitted(estimator, attributes, **point))

        shape, n_problems = [len(axis) for axis in task.axes.values()], len(data.problem_labels)
        with Progress(type(self).__name__, self.verbose) as progress:

            def on_scored(done: int, of: int) -> None:
                if task.on_disk is None:  # a search on disk shows its passes
                    progress.update(lambda: (done, of, ""))

            grid, early = (
                _grid.Grid(shape, len(task.folds), n_problems, functools.partial(score, more), of)
                for more, of in (({}, on_scored), (few, lambda *_: None))
            )
            if task.on_disk is None:
                self._train(task, grid, early)
            else:
                state = grid.restore(self.__dict__.pop("_resumed", {}))
                for where, machine in self._variants(estimator, task.axes):
                    if not grid.epochs[where].all():  # else a checkpoint had its scores
                        task.on_disk.search(
                            self, machine, task.lams, where, grid, state, progress.update
                        )
                        state = {}
        more = few if grid.adopt_if_better(early) else {}
        feature_attributes = X.seen if isinstance(X, Blocks) else data.feature_attributes
        results = self._results(task.axes, task.lams, data, more, grid)
        fitted = feature_attributes | _public(attributes) | results
        if self.refit:
            estimator._is_for_scores = task.scoring.is_of_scores
            estimator.set_params(**fitted["best_params_"]).fit(*task.of_rows)
            estimator.__dict__.update(feature_attributes)
            fitted |= {"best_estimator_": estimator} | _public(vars(estimator))
        # Replace all attributes at once; a search that fails leaves those of the last one.
        _core.update_atomically(vars(self), fitted, _public(vars(self)))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels or targets of the rows of `X` by the best estimator; see its method."""
        return self._refitted().predict(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Score of the best estimator by `scoring`, as `GridSearchCV` has it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Blocks
            As for `predict`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets. None for Blocks, which have them.
        sample_weight : array-like of shape (n_samples,), default=None
            None for Blocks, which have them. A `scoring` without weights refuses them.

        Returns
        -------
        float
            With ``scoring=None``, the accuracy of a classifier or the R² of a regressor.
        """
        best = self._refitted()
        if self.scoring is None:
            return best.score(X, y, sample_weight)
        if isinstance(X, Blocks):
            X.without(y, sample_weight)
            y, sample_weight = X.targets()
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return get_scorer(self.scoring)(best, X, y, **weights)

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's routing of metadata may hand to `fit` and `score`.

        As in `GridSearchCV`, `groups` need no request if `cv` is a splitter that asks for them.
        """
        requests = super().get_metadata_routing()
        asked = get_routing_for_object(self.cv).split.requests.get("groups")
        if asked is not None and requests.fit.requests["groups"] is None:
            requests.fit.add_request(param="groups", alias=asked)
        return requests

    def to_model(self) -> LinearModel | KernelModel:
        """The best estimator as a model, which can be saved without pickle."""
        return self._refitted().to_model()

    def _refitted(self) -> Any:
        check_is_fitted(self, "cv_results_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"refit={self.refit!r}: there is no estimator to predict with")
        return self.best_estimator_

    def _task(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> _Task:
        estimator, on_disk = self._estimator(), None
        of_rows: tuple[Any, ...] = (X,)
        if isinstance(X, Blocks):
            X.without(y, sample_weight)
            if not isinstance(estimator, LinearMachine):
                PegasosEstimator._validate_rows(estimator, X)  # its error says who takes Blocks
            if _block_schedule.fit_into_memory(X):
                X, y, sample_weight = X.in_memory()
            else:
                _parameters.check_blocks(self)
                read = estimator._read_blocks(X, continuing=False)
                on_disk = BlockFolds(X, read, self.cv)
                data, folds = on_disk.data, on_disk.folds
        if on_disk is None:
            if y is None:
                raise ValueError(
                    f"This {type(self).__name__} estimator requires y to be passed, but the target "
                    "y is None"
                )
            data = estimator._read(X, y, sample_weight, continuing=False)
            estimator._check_data(data)
            folds = _folds.read(self.cv, X, data, groups, functools.partial(self._balance, data))
            y = _multiclass.as_csr(data.y, data.is_matrix) if data.is_sparse else data.y
            of_rows = data.X, y, data.sample_weight
        estimator.__dict__.update(data.feature_attributes)
        axes = self._other_axes(data)
        name, values, lams = self._lams(data, axes.get("epsilon"))
        axes[name] = values
        if self.n_steps is not None:
            axes["n_steps"] = np.atleast_1d(self.n_steps)
        # By default, scores weigh rows as training does. Otherwise they would favour λ with which
        # weights matter least. Scorers of scikit-learn get `sample_weight`, as everywhere.
        weights = data.weights if self.scoring is None else data.sample_weight
        plain = functools.partial(self._plain_score, data)
        scoring = _folds.Scoring(self.scoring, X, data, weights, folds, plain)
        return _Task(estimator, data, folds, on_disk, of_rows, axes, lams, scoring)

    def _train(self, task: _Task, grid: _grid.Grid, early: _grid.Grid) -> None:
        """Train machines at all points over rows in memory."""
        n_threads = _threads.count(self.n_jobs)
        first, *rest = self._rounds(len(task.folds), *task.data.problem_labels.shape)
        for numbers in (first, *rest):
            if numbers is not first:
                grid.drop(first, task.scoring.sizes())
            for outer, machines in self._machines(task):
                for where, machine in self._variants(task.estimator, task.axes):
                    points = [machine._settings_for(lam, task.data) for lam in task.lams]
                    for fold_set in _folds.fold_sets(task.folds, numbers, task.data):
                        _grid.Training(
                            self, machines, outer + where, fold_set, points,
                            task.axes.get("n_steps"), task.estimator._seed(), n_threads, grid,
                            early,
                        ).run()  # fmt: skip

    def _estimator(self) -> Any:
        """An estimator of the searched class, without values of the searched parameters."""
        return self._best(**_parameters.shared(self, self._best) | {"n_steps": None})

    def _other_axes(self, data: Data) -> dict[str, Any]:
        """The axes besides λ and T, outermost first."""
        return {}

    def _variants(self, estimator: Any, axes: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Estimators for each place on the axes that change neither rows nor kernel."""
        if "epsilon" not in axes:
            yield (), estimator
        for e, epsilon in enumerate(axes.get("epsilon", ())):
            yield (e,), copy.copy(estimator).set_params(epsilon=epsilon)

    def _balance(self, data: Data, times: np.ndarray) -> Any:
        """Ratios of class weights in a fold; see `_folds.read`."""

    def _lams(self, data: Data, epsilons: Any) -> tuple[str, np.ndarray, np.ndarray]:
        """ "C" or "lam", the values to try, and their λ.

        1/C times the weights w is a mean of c_i l'(u_i) x_i. So the automatic C suit rows whose
        errors u, and so slopes l', have the size of y. C has the units of y over l'(u):
        "epsilon_insensitive" has slopes of 1, "huber" of epsilon at most, others of u.
        """
        mass = data.mass
        name = "C" if self.lams is None else "lam"
        values = self.Cs if self.lams is None else self.lams
        if values is None or isinstance(values, Integral):
            values = np.geomspace(*_LEAST_AND_MOST_C, _N_CS if values is None else values)
            if data.units is not None and self.loss == "epsilon_insensitive":
                values = values * max(data.units)
            elif data.units is not None and self.loss == "huber":
                values = values * min(max(1.0, max(data.units) / max(epsilons)), _MOST_OF_HUBER)
            if name == "lam":
                values = [lam_of(C, mass) for C in values]
            values = [_short(value) for value in values]
        values = np.asarray(values, dtype=np.float64)
        lams = values if name == "lam" else np.array([lam_of(C, mass) for C in values])
        return name, values, lams

    def _rounds(self, n_folds: int, n_problems: int, n_rows: int) -> list[range]:
        """The folds; or the folds after which points may be dropped, and the others."""
        return [range(n_folds)]

    @np.errstate(over="ignore", invalid="ignore")  # squares of scores may be infinite
    def _results(
        self,
        axes: dict[str, Any],
        lams: np.ndarray,
        data: Data,
        more: dict[str, Any],
        grid: _grid.Grid,
    ) -> dict[str, Any]:
        """Attributes of a search, named as in scikit-learn; all points have `more` parameters."""
        axes = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in axes.items()}
        points = list(itertools.product(*axes.values()))
        params = [dict(zip(axes, point, strict=True)) | more for point in points]
        results = _parameters_of(axes, points, lams, data.mass) | {"params": params}
        results |= _scores_of(grid, len(points))
        mean, rank = results["mean_test_score"], results["rank_test_score"]
        if not np.isfinite(mean).all():
            _user_warnings.warn(f"scoring gave scores that are not finite: {mean}")
        # Among equally good points, choose the most regularised one.
        best = np.flatnonzero(rank == rank.min())
        if self.one_standard_error and np.isfinite(mean[best[0]]):
            least = mean[best[0]] - results["standard_error"][best[0]]
            best = np.flatnonzero(~results["dropped"] & (mean >= least))
        index = int(best[np.argmax(results["param_lam"].data[best])])
        return {
            "cv_results_": results,
            "scores_": grid.scores,
            "n_splits_": grid.scores.shape[-1],
            "best_index_": index,
            "best_score_": float(mean[index]),
            "best_params_": params[index],
            # T is left out: fitted estimators have steps per problem.
            **{f"{name}_": results[f"param_{name}"][index].item() for name in ("C", "lam")},
            **{f"{name}_": params[index][name] for name in axes if name in ("gamma", "epsilon")},
            "edges_": _edges(results, axes, index),
        }


def _parameters_of(
    axes: dict[str, Any], points: list[Any], lams: np.ndarray, mass: float
) -> dict[str, Any]:
    """The parameters of points, by axes, with both C and λ, whichever was searched."""
    results: dict[str, Any] = {}
    for name, values in zip(axes, zip(*points, strict=True), strict=True):
        mixed = len({isinstance(value, str) for value in values}) > 1
        results[f"param_{name}"] = np.ma.array(values, dtype=object if mixed else None)
    if "C" in axes:
        at = list(axes).index("C")
        places = np.indices([len(axis) for axis in axes.values()])[at].ravel()
        results["param_lam"] = np.ma.array(lams[places])
    else:
        with np.errstate(all="ignore"):  # C may be infinite for tiny weights
            results["param_C"] = np.ma.array(1 / (results["param_lam"].data * mass))
    return results


def _scores_of(grid: _grid.Grid, n_points: int) -> dict[str, Any]:
    """The scores of points, and facts about their machines."""
    flat, dropped = grid.scores.reshape(n_points, -1), grid.dropped.ravel()
    mean = flat.mean(axis=1)
    mean[dropped] = np.nanmean(flat[dropped], axis=1)
    n_scored = np.where(dropped, np.isfinite(flat).sum(axis=1), flat.shape[1])
    # Points without a score in every fold rank last, as in scikit-learn's searches.
    ranked = np.where(np.isnan(mean) | dropped, np.inf, -_rounded(mean))
    return {
        **{f"split{k}_test_score": flat[:, k] for k in range(flat.shape[1])},
        "std_test_score": flat.std(axis=1),
        "standard_error": _grid.standard_errors(flat),
        "mean_test_score": mean,
        "rank_test_score": rankdata(ranked, method="min").astype(np.int32),
        "relative_gap": grid.gaps.ravel(),
        "n_epochs": grid.epochs.ravel(),
        "mean_fit_time": grid.seconds.ravel() / n_scored,
        "dropped": dropped,
    }


def _edges(results: dict[str, Any], names: Iterable[str], best: int) -> dict[str, str]:
    """Searched numbers whose best value is an end of their grid, without a tie."""
    means = _rounded(results["mean_test_score"])
    means = np.where(results["dropped"] | np.isnan(means), -np.inf, means)
    edges = {}
    for name in names:
        tried = results[f"param_{name}"].data
        is_best = tried == tried[best]
        if tried.dtype.kind in "if" and not is_best.all():
            end = {tried.min(): "smallest", tried.max(): "largest"}.get(tried[best])
            if end is not None and means[is_best].max() > means[~is_best].max():
                edges[name] = end
    return edges


def _rounded(means: np.ndarray) -> np.ndarray:
    """Means of scores without their last bits, so that equal numbers of errors give a tie."""
    return np.array([float(f"{mean:.12g}") for mean in means.tolist()])


def _short(number: float) -> float:
    """The number in six digits, so that it does not depend on the machine's last bits."""
    return float(f"{number:.6g}")


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def _narrowed(X: Any, kernel: kernels.Kernel) -> Any:
    """Return the rows in single precision if their kernel values can be computed in it."""
    if kernel.is_precomputed or X.dtype == np.float32:
        return X
    narrow = kernel.in_single(X)
    return X if narrow is None or kernel.may_vanish(X, np.finfo(np.float32)) else narrow


class _OfClassifiers(CommonMixin, ClassifierMixin, _Search):
    classes_: np.ndarray

    score = _Search.score

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the rows of `X` by the best estimator; see its method."""
        return self._refitted().decision_function(X)

    @with_probabilities
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes by the best estimator; see its method.

        They are there with ``loss="log_loss"`` and ``loss="modified_huber"`` only.
        """
        return self._refitted().predict_proba(X)

    @with_probabilities
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`; see its method."""
        return self._refitted().predict_log_proba(X)

    def _plain_score(
        self, data: Data, scores: np.ndarray, test: np.ndarray, weights: np.ndarray | None
    ) -> float:
        if data.scheme == "multilabel":
            is_right = ((scores > 0) == data.codes[test]).all(axis=1)
        else:
            of_classes = _multiclass.class_scores(scores, len(data.classes), data.scheme)
            is_right = _multiclass.winners(of_classes) == data.codes[test]
        return float(np.average(is_right, weights=weights))

    def _balance(self, data: Data, times: np.ndarray) -> Any:
        if self.class_weight != "balanced":
            return None
        weights = np.ones(len(times)) if data.sample_weight is None else data.sample_weight
        of_all, of_fold = (np.bincount(data.codes, w) for w in (weights, times * weights))
        ratios = of_all / np.where(of_fold > 0, of_fold, np.inf)
        ratios /= ratios.max()
        ratios[of_fold == 0] = 1
        return None if ratios.min() >= 1 - _ALIKE else ratios


class _OfRegressors(CommonMixin, RegressorMixin, _Search):
    epsilon_: float
    n_outputs_: int

    score = _Search.score

    def _task(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> _Task:
        task = super()._task(X, y, sample_weight, groups)
        single = [k for k, fold in enumerate(task.folds) if len(fold.test) == 1]
        if single and (self.scoring is None or self.scoring == "r2"):
            raise ValueError(
                f"cv: fold {single[0]} has 1 row to test on, but R² needs 2 rows: take fewer "
                "folds, or scoring='neg_mean_absolute_error' in Python"
            )
        return task

    def _other_axes(self, data: Data) -> dict[str, Any]:
        axes = super()._other_axes(data)
        if self.loss not in EPSILON_LOSSES:
            return axes
        epsilons = [_EPSILON] if self.epsilons is None else np.asarray(self.epsilons, float)
        return axes | {"epsilon": epsilons}

    def _plain_score(
        self, data: Data, scores: np.ndarray, test: np.ndarray, weights: np.ndarray | None
    ) -> float:
        y = data.y[test].reshape(scores.shape)
        errors, spread = (
            np.average(np.square(y - center), axis=0, weights=weights)
            for center in (scores, np.average(y, axis=0, weights=weights))
        )
        size = errors * spread
        if not ((size > 0) & (size < np.inf)).all():
            return r2_score(y, scores, sample_weight=weights)
        # The formula of `r2_score`, whose checks take most of the time of a search over few rows.
        return float(np.mean(1 - errors / spread))


class _Linear(_Search):
    coef_: np.ndarray

    def _machines(self, task: _Task) -> Iterator[tuple[tuple[int, ...], _grid.Machines]]:
        X = task.data.X
        rows, dtype = _rows.of_training(X)
        rows, _ = _rows.without_empty_columns(rows)
        is_cheap = _rows.Span.passes(rows) <= _PASSES_FOR_SPAN
        span = _rows.span_of(rows) if is_cheap and self.solver in ("auto", "newton") else None
        if span:  # all machines share it
            rows, dtype = span.rows, np.dtype(np.float64)
        yield (), _grid.Machines(LinearSolver, X, rows, dtype)


class _Kernel(_Search):
    gamma_: float | str
    support_: np.ndarray
    support_vectors_: Any
    dual_coef_: np.ndarray
    n_support_: np.ndarray  # of classifiers

    @property
    def _is_automatic(self) -> bool:
        """Whether the search decides how far machines are trained."""
        return isinstance(self.cv_effort, str) and self.n_steps is None

    def _other_axes(self, data: Data) -> dict[str, Any]:
        kind = kernels.kind(self.kernel)
        if "gamma" not in kind.uses:
            return {}
        if self.gammas is not None:
            return {"gamma": list(self.gammas)}
        scale = kind.gamma_of("scale", data.X, data.sample_weight)
        gammas = [_short(factor * scale) for factor in _OF_SCALE]
        return {"gamma": [gamma for gamma in gammas if 0 < gamma < np.inf]}

    def _machines(self, task: _Task) -> Iterator[tuple[tuple[int, ...], _grid.Machines]]:
        X = task.data.X
        variants: list[tuple[tuple[int, ...], dict[str, Any]]] = [
            ((g,), {"gamma": gamma}) for g, gamma in enumerate(task.axes.get("gamma", ()))
        ]
        for where, own in variants or [((), {})]:
            estimator = self._estimator().set_params(**own)
            kernel = estimator._make_kernel(X, task.data.sample_weight, continuing=False)
            rows = _narrowed(X, kernel) if self._is_automatic else X
            points = kernel.points_among_themselves(rows)
            # Folds of a class share most columns: two need few more columns than one.
            cache = kernels.ColumnCache(
                points, float(self.cache_size), estimator._n_threads(),
                n_problems=len(task.folds), assume_psd=self.assume_psd,
            )  # fmt: skip
            yield where, _grid.Machines(KernelSolver, X, cache, np.float64)


@parameters
class PegasosClassifierCV(_OfClassifiers, _Linear, ClassifierParameters, SearchParameters):
    """Linear machine with the C that cross-validation finds best.

    The problems of all classes, λ and folds are trained together, over shared rows.

    Parameters
    ----------
    Cs : int or list of float, default=None
        The C to try, as in `PegasosClassifier`. An int stands for that number of C from 1e-4 to 10,
        evenly on a log scale. None stands for ``Cs=10``, unless `lams` is given. All folds take the
        λ that this C has for all rows.
    lams : int or list of float, default=None
        The λ to try, in place of `Cs`. An int stands for the λ of that number of automatic C, in
        six digits.
    cv : int, cross-validation generator or iterable, default=5
        As in scikit-learn: an int means stratified folds. If a fold names a training row several
        times (oversampling, bootstrap), the row has as many times its weight.
    scoring : str or callable, default=None
        As in scikit-learn; None is accuracy, of rows weighted by `sample_weight` and
        `class_weight`. Other scorers are given `sample_weight` if they take it. A callable is given
        a fold's test rows and an estimator that knows the scores of these rows only, since a search
        keeps no other part of its machines. Folds come in any order.
    refit : bool, default=True
        Whether to train on all rows with the best parameters, to the gap `tol`. (`cv_effort` has an
        exception.)
    one_standard_error : bool, default=False
        True: of all points whose mean score is within one standard error of the best one, choose
        the one with the largest λ.
    cv_effort : "auto", int or float, default="auto"
        How well the machines of the search are trained. The final model is trained to `tol`.

        - A float in (0, 1): to this relative duality gap, from the largest λ to the smallest. Each
          machine begins where the one with the larger λ ended, unless ``solver="pegasos"``. One
          that reaches `max_iter` first is scored as it is, without a warning. Smaller gaps than
          0.05 change accuracy little.
        - An int: this number of epochs, but at most `max_iter`. Nothing is certified. Linear
          machines with `solver` "auto" or "sdca" use dual coordinate ascent in bundles, from the
          largest λ to the smallest, and are scored by the mean over the last half epoch;
          `batch_size`, `sampling`, `project` and `average` are ignored. Kernel machines, and linear
          ones with another `solver`, use Pegasos with an average (of the last half, unless
          `average` says otherwise). The final model is trained on to `tol`: it may predict worse
          than `best_score_` says, above all for many classes in few features.
        - "auto": a gap of 0.05 for kernel machines, and for another `solver` than "auto". For
          linear machines, too, if folds weigh rows differently, as bootstrap samples do, or if
          Newton's method is likely to certify all of them within a second and sooner than dual
          ascent, as with few features. Otherwise two epochs, or up to 16 if these take less than a
          tenth of a second. The number then doubles for the λ within a standard error of the best
          score, until the best score rises by at most half a standard error. A machine makes at
          most `max_iter` epochs, but for the last iteration of Newton's method.

        With "auto", three more rules save time or improve scores. First, sparse rows of linear
        machines that make epochs, and rows of kernel machines, are in single precision during the
        search. They are not if float32 cannot tell rows apart, if all kernel values of a row would
        vanish, or if the kernel is a function or precomputed. Second, with accuracy as `scoring`,
        kernel machines of several classes are dropped after the first fold if their share of
        correct rows is below the best one by more than four standard errors of the difference of
        independent shares. (A search over few rows drops nothing.) Third, for more than two classes
        in few features, without `class_weight`, linear machines that stop after two epochs are
        scored, too. If their best score is higher by more than a standard error, the search is over
        these machines, and `best_params_` also has ``max_iter`` and ``tol=None``.
    n_steps : int or list of int, default=None
        With solver "pegasos" (or "auto"): T, or several T in growing order, each scored on the way
        to the last one. `cv_effort` is then ignored.
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `PegasosClassifier`.
    penalize_intercept, intercept_scaling, n_jobs, random_state
        As in `PegasosClassifier`.
    multi_class, cost
        As in `PegasosClassifier`. With "crammer_singer", every fold and C is a fit of its own, and
        they share no passes.
    class_weight : dict or "balanced", default=None
        As in `PegasosClassifier`. "balanced" counts the classes of the training rows of each fold,
        as in `sklearn.model_selection.GridSearchCV`. But if these weights differ by at most 1 %
        from those of all rows, as in stratified folds of many rows, folds have the weights of all
        rows. So have folds of `Blocks`, which are random.
    verbose : int, default=0
        1: show progress on standard error.

    Attributes
    ----------
    cv_results_ : dict
        As in `sklearn.model_selection.GridSearchCV`, and:

        - "param_C" and "param_lam": C and λ of the point, whichever of them was searched;
        - "standard_error": of the mean score;
        - "n_epochs": how many epochs its machines were trained;
        - "relative_gap": the largest certified gap of its machines, NaN if nothing is certified;
        - "dropped": whether it was dropped after the first fold (see `cv_effort`). Then its mean is
          the score of that fold, scores of other folds are NaN, and it ranks last;
        - "mean_fit_time": seconds spent on its machines and their scores, divided by the number of
          its folds. Work that several points share is left out.
    scores_ : ndarray
        Scores, one axis for each searched parameter, in the order of `cv_results_`, and one for the
        folds.
    best_params_, best_score_, best_index_
        As in `GridSearchCV`. Of equally good points, the one with the largest λ is best. Points
        with a score of NaN rank last.
    C_, lam_ : float
        The best C and its λ.
    edges_ : dict
        Parameters whose best value is the smallest or largest of their grid, such as
        ``{"C": "largest"}``: a wider grid may score higher. A parameter is left out if another
        value scores as well, or if "scale" or "auto" was among its values.
    best_estimator_ : PegasosClassifier
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pegasos import PegasosClassifierCV
    >>> X, y = load_digits(return_X_y=True)
    >>> search = PegasosClassifierCV(Cs=[0.01, 0.1, 1, 10], random_state=0).fit(X / 16, y)
    >>> print(f"C {search.C_:g}, λ {search.lam_:.2g}, accuracy {search.best_score_:.3f}")
    C 0.1, λ 0.0056, accuracy 0.931
    """

    cost: ArrayLike | None = None

    _best = PegasosClassifier


@parameters
class KernelPegasosClassifierCV(
    _OfClassifiers, _Kernel, ClassifierParameters, KernelParameters, SearchParameters
):
    """Kernel machine with the C and γ that cross-validation finds best.

    The problems of all classes, λ and folds are trained over one kernel matrix for each γ.

    Parameters
    ----------
    gammas : list of float or "scale", "auto", default=None
        The γ to try; see `KernelPegasosClassifier`. "scale" is that of all rows, in every fold.
        None: a tenth of "scale", "scale" and ten times "scale", as numbers of six digits. (A
        kernel without γ is tried once.)
    Cs, lams, cv, scoring, refit, one_standard_error, cv_effort, n_steps
        As in `PegasosClassifierCV`.
    kernel, degree, coef0, kernel_params, assume_psd, cache_size, n_jobs
        As in `KernelPegasosClassifier`.
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `PegasosClassifier`.
    penalize_intercept, intercept_scaling, multi_class, class_weight, random_state, verbose
        As in `PegasosClassifierCV`.

    Attributes
    ----------
    cv_results_, scores_, best_params_, best_score_, best_index_, C_, lam_, edges_
        As in `PegasosClassifierCV`.
    gamma_ : float or str
        The best γ, of a kernel that has one.
    best_estimator_ : KernelPegasosClassifier
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pegasos import KernelPegasosClassifierCV
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> search = KernelPegasosClassifierCV(Cs=[0.1, 1, 10], random_state=0).fit(X, y)
    >>> print(f"C {search.C_:g}, γ {search.gamma_:.2f}, accuracy {search.best_score_:.3f}")
    C 0.1, γ 9.00, accuracy 0.960
    """

    gammas: Sequence[float | str] | None = None

    _best = KernelPegasosClassifier

    def _rounds(self, n_folds: int, n_problems: int, n_rows: int) -> list[range]:
        is_long = n_problems > 1 and n_problems * n_rows**2 > _FEW
        if self._is_automatic and self.scoring in (None, "accuracy") and is_long and n_folds > 2:
            return [range(1), range(1, n_folds)]
        return super()._rounds(n_folds, n_problems, n_rows)


@parameters
class PegasosRegressorCV(_OfRegressors, _Linear, RegressorParameters, SearchParameters):
    """Linear regression with the C that cross-validation finds best.

    The problems of all outputs, λ and folds are trained together, over shared rows.

    Parameters
    ----------
    Cs, lams : int or list of float, default=None
        As in `PegasosClassifierCV`. But with the loss "epsilon_insensitive", whose best C grows
        with y, the automatic C are multiplied by a power of two near the standard deviation of y.
        With "huber", they are multiplied by that power over the largest epsilon, at least by 1 and
        at most by a million.
    epsilons : list of float, default=None
        The epsilon of the loss to try, in the units of y; None stands for 0.1 alone. Ignored with
        ``loss="squared_error"``, which has none.
    cv : int, cross-validation generator or iterable, default=5
        As in `PegasosClassifierCV`, but an int means folds in the order of the rows. R² needs at
        least 2 rows to test on in each fold.
    scoring : str or callable, default=None
        As in `PegasosClassifierCV`, but None is R², its mean over outputs, of rows weighted by
        `sample_weight`.
    cv_effort : "auto", int or float, default="auto"
        As in `PegasosClassifierCV`: a relative duality gap in (0, 1), or a number of epochs. "auto"
        depends on the machines:

        - Linear machines with "epsilon_insensitive" over sparse rows of many features make 16
          epochs, unless dual ascent is likely to certify all of them within 0.03 seconds, or folds
          weigh rows differently. Whichever λ is best then goes on to a gap of 1e-3, until the best
          one has that gap. If this raises its score much, the next smaller λ goes on, too.
        - Linear machines over few features, for Newton's method: a gap of 1e-3.
        - Others: a gap of 0.05, in at most 16 epochs. Machines whose mean score is then at most
          half a standard error below the best one so far go on to a gap of 1e-3.
        - With ``solver="pegasos"``: a gap of 0.05.

        Rows may be in single precision, as in `PegasosClassifierCV`.
    refit, one_standard_error, n_steps, verbose
        As in `PegasosClassifierCV`.
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `PegasosRegressor`.
    penalize_intercept, intercept_scaling, n_jobs, random_state
        As in `PegasosRegressor`.

    Attributes
    ----------
    cv_results_, scores_, best_params_, best_score_, best_index_, C_, lam_, edges_
        As in `PegasosClassifierCV`. No point is dropped.
    epsilon_ : float
        The best epsilon, of a loss that has one.
    best_estimator_ : PegasosRegressor
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pegasos import PegasosRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = PegasosRegressorCV(penalize_intercept=False, random_state=0).fit(X, y)
    >>> print(f"C {search.C_:g}, R2 {search.best_score_:.2f}")
    C 356.168, R2 0.48
    """

    epsilons: Sequence[float] | None = None

    _best = PegasosRegressor


@parameters
class KernelPegasosRegressorCV(
    _OfRegressors, _Kernel, RegressorParameters, KernelParameters, SearchParameters
):
    """Kernel regression with the C, γ and ε that cross-validation finds best.

    The problems of all outputs, λ and folds are trained over one kernel matrix for each γ.

    Parameters
    ----------
    gammas : list of float or "scale", "auto", default=None
        The γ to try, as in `KernelPegasosClassifierCV`.
    Cs, lams, epsilons, cv, scoring, refit, one_standard_error, cv_effort, n_steps
        As in `PegasosRegressorCV`.
    kernel, degree, coef0, kernel_params, assume_psd, cache_size, n_jobs
        As in `KernelPegasosRegressor`.
    loss, solver, tol, max_iter, batch_size, sampling, project, average, fit_intercept
        As in `KernelPegasosRegressor`.
    penalize_intercept, intercept_scaling, random_state, verbose
        As in `PegasosRegressorCV`.

    Attributes
    ----------
    cv_results_, scores_, best_params_, best_score_, best_index_, C_, lam_, edges_, epsilon_
        As in `PegasosRegressorCV`.
    gamma_ : float or str
        The best γ, of a kernel that has one.
    best_estimator_ : KernelPegasosRegressor
        Trained on all rows. The search has its fitted attributes, too.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold
    >>> from pegasos import KernelPegasosRegressorCV
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    >>> folds = KFold(5, shuffle=True, random_state=0)
    >>> search = KernelPegasosRegressorCV(epsilons=[0.1, 0.3], cv=folds, random_state=0).fit(X, y)
    >>> print(f"C {search.C_:g}, γ {search.gamma_:.2f}, R2 {search.best_score_:.3f}")
    C 10, γ 0.33, R2 0.988
    """

    gammas: Sequence[float | str] | None = None
    epsilons: Sequence[float] | None = None

    _best = KernelPegasosRegressor
