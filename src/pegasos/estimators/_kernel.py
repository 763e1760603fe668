"""Kernel estimators in scikit-learn's conventions: their common part, and the classifier."""

import functools
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pegasos import _threads, kernels
from pegasos.estimators import _parameters
from pegasos.estimators._base import Data, PegasosEstimator
from pegasos.estimators._classification import Classifier
from pegasos.estimators._parameters import (
    ClassifierParameters,
    KernelEstimatorParameters,
    PenalizedParameters,
    parameters,
)
from pegasos.io._model import KernelModel
from pegasos.kernels import ColumnCache
from pegasos.problems import _rows, _validate
from pegasos.problems._settings import Settings
from pegasos.solvers import _state
from pegasos.solvers._kernel_solver import KernelSolver
from pegasos.solvers._schedule import Schedule


def _squared_norms(matrix: Any, support: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """beta' K beta of every problem, computed with a few rows of the kernel matrix at a time."""
    squared = np.zeros(len(coef))
    for k in range(0, len(support), 256):
        rows = support[k : k + 256]
        scores = coef[:, support] @ matrix[np.ix_(support, rows)].astype(np.float64)
        squared += np.einsum("ij,ij->i", scores, coef[:, rows])
    return squared


class KernelMachine(PegasosEstimator):
    _COEFFICIENTS = "dual_coef_"
    _solver_class = KernelSolver

    support_: np.ndarray
    support_vectors_: Any
    dual_coef_: np.ndarray
    n_support_: np.ndarray  # of classifiers
    _support: Any
    _squared_norms: np.ndarray | None

    @property
    def coef_(self) -> np.ndarray:
        """Weights of a machine with a linear kernel."""
        check_is_fitted(self, "dual_coef_")
        if not self._support.kernel.is_linear:
            raise AttributeError(
                f"coef_ is there for kernel='linear' only, got {self._support.kernel.name!r}"
            )
        coef = self.dual_coef_ @ self.support_vectors_
        coef.flags.writeable = False  # because scores do not use it
        return coef

    @property
    def weight_norm_(self) -> np.ndarray:
        """‖w‖ of each problem, without the intercept."""
        check_is_fitted(self, "dual_coef_")
        squared = self._squared_norms
        if squared is None and len(self._support) == 0:
            squared = np.zeros(len(self.dual_coef_))
        elif squared is None:
            cache = ColumnCache(self._support, 0, self._n_threads())
            scores = cache.push(self.dual_coef_, np.arange(len(self._support)))
            squared = np.einsum("ij,ij->i", self.dual_coef_, scores)
        return np.sqrt(np.where(squared >= 0, squared, np.nan))

    def to_model(self) -> KernelModel:
        """The fitted model as a `pegasos.KernelModel`, which can be saved without pickle.

        It has no certificate if `dual_coef_` or `intercept_` was changed after the fit.
        """
        model: KernelModel = self._if_unchanged(self._fitted_model())
        return model

    def _fitted_model(self) -> KernelModel:
        check_is_fitted(self, "dual_coef_")
        return KernelModel(support=self._support, dual_coef=self.dual_coef_, **self._model_fields())

    @classmethod
    def _unpack_model(cls, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        parameters, attributes = super()._unpack_model(model)
        support = model.support
        if not support.kernel.is_stored:
            raise ValueError(
                f"a model whose kernel is {support.kernel.name!r} is no estimator without it"
            )
        parameters |= {"kernel" if k == "name" else k: v for k, v in model.kernel.items()}
        return parameters, attributes | {
            "support_vectors_": support.X, "dual_coef_": model.dual_coef,
            "_support": support, "_squared_norms": None,
        }  # fmt: skip

    def _open(self, schedule: Schedule, data: Data, n_threads: int) -> bool:
        X, kernel = data.X, data.kernel
        make_cache = functools.partial(
            ColumnCache,
            megabytes=float(self.cache_size),
            n_threads=n_threads,
            n_problems=len(data.problem_labels),
            are_pairs=data.scheme == "ovo",
            assume_psd=self.assume_psd,
        )
        draws = self._few_draws(schedule, X.shape[0])
        if draws is not None:
            schedule.pegasos.run_among(draws, lambda few: make_cache(kernel.subset(X, few)))
            return False
        points = kernel.points_among_themselves(X)
        if schedule.may_be_narrow(self.solver, self.tol, len(points)):
            points = points.narrowed()
        # Otherwise Pegasos runs first, over columns of all rows, so dividing problems does not pay.
        data.rows = make_cache(points, divides=self.solver != "pegasos" and kernel.is_positive)
        return True

    def _problem_scores(self, X: Any) -> np.ndarray:
        model = self._fitted_model()
        X = self._validate_rows(X, reset=False)
        if self._support.kernel.is_precomputed:
            try:
                X = X[:, self.support_]
            except IndexError:
                raise ValueError(
                    f"support_ names rows other than the {X.shape[1]} of the kernel matrix: "
                    "leave this attribute as fit has set it"
                ) from None
        _validate.same_features(X.shape[1], model.n_features)
        n_threads = self._n_threads() if X.shape[0] > 1 else 1
        return model._problem_scores(X, checked=True, n_threads=n_threads)

    def _n_threads(self) -> int:
        if self.n_jobs is not None:
            return _threads.count(self.n_jobs)
        return _threads.blas.n_threads()

    def _validate_rows(self, X: Any, **options: Any) -> Any:
        if kernels.kind(self.kernel) is kernels.Precomputed and _validate.is_sparse(X):
            raise TypeError("Sparse precomputed kernels are not supported; give a dense matrix")
        return super()._validate_rows(X, **options)

    def _make_kernel(self, X: Any, weights: np.ndarray | None, continuing: bool) -> kernels.Kernel:
        kind, gamma = kernels.kind(self.kernel), self.gamma
        kind.refuse(X)
        if continuing and hasattr(self, "_gamma"):
            gamma = self._gamma
        gamma = kind.gamma_of(gamma, X, weights)
        kernel = kernels.make(
            self.kernel, gamma=gamma, degree=int(self.degree), coef0=float(self.coef0),
            params=self.kernel_params,
        )  # fmt: skip
        kernel.refuse_overflow(X)
        return kernel

    def _few_draws(self, schedule: Schedule, n: int) -> np.ndarray | None:
        """The draws of the fit if scores should be pulled, or None."""
        is_fixed = self.n_steps is not None or (self.solver == "pegasos" and self.tol is None)
        if self.scores == "push" or self.warm_start or not is_fixed:
            return None
        plan = _parameters.plan(self)
        schedule.pegasos.plan(n_steps=plan["n_steps"], n_epochs=plan["max_iter"])
        return schedule.pegasos.planned_draws(n // 2 if self.scores == "auto" else 2**40)

    def _begin(self, settings: Settings, data: Data, dtype: Any, seed: int) -> Schedule:
        n_problems, n_rows = data.problem_labels.shape
        return Schedule(self._solver_class, settings, n_problems, n_rows, np.float64, seed)

    def _schedule_of(self, data: Data, *, continuing: bool) -> Schedule:
        X, labels = data.X, data.problem_labels
        data.kernel = self._make_kernel(X, data.sample_weight, continuing)
        settings = self._settings_of(data, continuing=continuing)
        if not continuing:
            return self._begin(settings, data, X.dtype, self._seed())
        n_rows, _ = _state.rows_of(self._state)
        if n_rows != labels.shape[1]:
            raise ValueError(
                f"X must be that of the fit that warm_start continues, with {n_rows} rows, "
                f"got {labels.shape[1]}"
            )
        if getattr(self, "_fingerprint", None) not in (None, _rows.fingerprint(X)):
            raise ValueError(
                "X must be that of the fit that warm_start continues, got one with other values, "
                f"or of another type or layout ({type(X).__name__} of {X.dtype})"
            )
        return self._restored(settings, data, X.dtype)

    def _model_of(self, coef: np.ndarray, intercept: np.ndarray, data: Data) -> dict[str, Any]:
        support, kernel, X = np.nonzero(coef.any(axis=0))[0], data.kernel, data.X
        vectors = np.empty((0, 0), dtype=X.dtype) if kernel.is_precomputed else X[support]
        return {
            "support_": support,
            "dual_coef_": coef.take(support, axis=1),
            "intercept_": intercept,
            "support_vectors_": vectors,
            "_squared_norms": _squared_norms(X, support, coef) if kernel.is_precomputed else None,
            "_support": kernel.points(vectors),
        }

    def _state_of(self, schedule: Schedule, data: Data, is_final: bool = False) -> dict[str, Any]:
        """What a warm start needs to go on, if one was asked for or the fit was interrupted."""
        if is_final and not self.warm_start:
            return {}
        # Keep gamma, as "scale" depends on weights, which may change.
        return {
            "_state": schedule.state(),
            "_fingerprint": _rows.fingerprint(data.X),
            "_gamma": data.kernel.gamma,
        }

    def _fixed_parameters(self, settings: Settings) -> dict[str, Any]:
        return {**super()._fixed_parameters(settings), "kernel": self.kernel, "gamma": self.gamma,
                "degree": self.degree, "coef0": self.coef0,
                "kernel_params": dict(self.kernel_params or {})}  # fmt: skip


@parameters
class KernelPegasosClassifier(
    Classifier, KernelMachine, ClassifierParameters, KernelEstimatorParameters, PenalizedParameters
):
    __doc__ = f"""Kernel support vector machine with a certified objective.

    Minimises, for each binary problem,

    ``P(w) = lam/2 |w|^2 + 1/m sum_i c_i max(0, 1 - y_i (<w, phi(x_i)> + b))``, ``m = sum_i c_i``,

    or another `loss` in place of max(0, ...). The kernel is ``K(x, z) = <phi(x), phi(z)>``, and
    ``w = sum_j beta_j phi(x_j)``. The algorithm is that of `PegasosClassifier`.

    Parameters
    ----------
    C : float, default=None
        As in `PegasosClassifier`; it is the C of `sklearn.svm.SVC`.
    lam : float, default=None
        Regularisation λ > 0, in place of C; the fitted λ is `lam_`.
    kernel : str or callable, default="rbf"
        {kernels.formulas(indent=8)},
        or a function of two matrices (n, d) and (m, d) that returns (n, m), dense or sparse. A
        function, "sigmoid", and "poly" with coef0 < 0 are computed in float64: float32 rows are
        converted, since nothing bounds the rounding of such kernels. During a fit of float64 rows,
        other "poly" and "rbf" are computed in float32 if `solver` is "auto" or "sdca", `tol` is
        1e-4 or more (as "auto" is, except for few rows), and float32 tells rows apart. The gap is
        certified in float64; if it is above `tol`, the fit goes on in float64.
    gamma : "scale", "auto" or float, default="scale"
        "scale" is 1 / (n_features * X.var()), rows weighted by `sample_weight`; "auto" is
        1 / n_features. A width σ is γ = 1/(2σ²); a Gaussian exp(−‖x−z‖²/(2g)) is
        γ = 1/(2g).
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Keyword arguments for a callable kernel.
    assume_psd : bool, default=False
        True: you know that the kernel matrix is positive semi-definite, so that the duality gap
        bounds the distance to the optimum. "linear", "rbf", "laplacian" and, for coef0 >= 0,
        "poly" need no such promise. For other kernels, a matrix of at most 1000 rows is factorised
        to find out; with more rows, the gap is NaN unless you promise.
    cache_size : float, default=1000
        Room for the kernel columns that are kept while training, in MB of 2**20 bytes. Columns that
        do not fit are computed again when they are needed, and a small λ takes longer. A fit also
        needs up to a quarter of `cache_size`, or, if not all columns fit, up to as much again and
        at least 2048 by 2048 kernel values; a million kernel values, or a longer column; and a copy
        of at most 16,384 rows. In one-vs-one by coordinate ascent, pairs of classes share one
        matrix of up to 2048 rows. With more rows, and if no pair has more than half of them, each
        pair has a matrix of its own, with an eighth of `cache_size`. Models with different
        `cache_size` agree within `tol`, not to the bit.
    scores : {{"auto", "push", "pull"}}, default="auto"
        "push" updates the scores of all rows after each violation. "pull" computes only the scores
        of rows that the fit will draw, so that few steps on many rows stay cheap. Their results
        differ by rounding only. "auto" pulls if there are at most half as many draws as
        rows. With `warm_start` and with losses other than the hinge, scores are always pushed.
    loss : {{"hinge", "squared_hinge", "modified_huber", "log_loss"}}, default="hinge"
        As in `PegasosClassifier`. Losses other than the hinge need a kernel that is known to be
        positive semi-definite (see `assume_psd`): there may be no minimum otherwise. With
        "log_loss", every row is a support vector, and predictions take longer.
    solver : {{"auto", "pegasos", "sdca", "newton"}}, default="auto"
        "pegasos" is the algorithm of the paper. "sdca" is dual ascent by steps on pairs of rows.
        Its first epoch is Pegasos, with steps of exact length if the kernel is known to be positive
        semi-definite. "newton" goes on with Newton's method if the kernel matrix has a factor of at
        most 1024 columns; one of more than 32 must fit into `cache_size`. Kernel matrices of few
        rows have such a factor, and those of polynomials of few features. "sdca" then completes
        what rounding of the factor leaves. Without such a factor, or a dual, "newton" is "sdca".
        "auto" is "sdca", followed by "newton" if "sdca" is slow. "auto" with `n_steps` is
        "pegasos".
    tol, max_iter, n_steps, batch_size, sampling, project, average
        As in `PegasosClassifier`.
    fit_intercept, penalize_intercept, intercept_scaling
        As in `PegasosClassifier`; a constant feature c of value `intercept_scaling` adds c² to the
        kernel.
    multi_class, class_weight, warm_start, random_state, verbose
        As in `PegasosClassifier`. `warm_start` needs the same X and kernel, and keeps γ and the
        scores of all rows. If kernel values are computed again in other groups, rounding may change
        the last bits.
    n_jobs : int, default=None
        Threads for kernel values and scores; one of them calls a kernel function. Up to eight pairs
        of classes that have matrices of their own train side by side. None: as many threads as BLAS
        has. -1: one for each CPU. BLAS has one thread during a fit. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        As in `PegasosClassifier`.
    lam_ : float
        The λ of the fit: `lam`, or that of C.
    support_ : ndarray of shape (n_support,)
        Rows of X with a coefficient in any problem, in the order of X. To group them by class, as
        `sklearn.svm.SVC` does: ``support_[np.argsort(y[support_], kind="stable")]``.
    support_vectors_ : ndarray or csr_array of shape (n_support, n_features)
        The rows `support_` of X; of shape (0, 0) for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class; if y has several columns, of each problem.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        Coefficients of the support vectors, labels included: scores are
        ``K(x, support) @ dual_coef_.T + intercept_``. With ``penalize_intercept=False``, those of
        a problem add up to 0 to rounding, as in `sklearn.svm.SVC`. Those of ``solver="pegasos"``
        need not: the paper's steps on an intercept are on the primal.
    coef_ : ndarray of shape (n_problems, n_features)
        Weights, computed on access and read-only. Only with ``kernel="linear"``.
    intercept_ : ndarray of shape (n_problems,)
    weight_norm_ : ndarray of shape (n_problems,)
        ‖w‖ of each problem, w = sum_j beta_j phi(x_j), without the intercept, computed on
        access; see `margins`. NaN if its square is negative: then the kernel is not positive
        semi-definite.
    n_iter_, solver_epochs_, n_steps_, objective_, dual_objective_, duality_gap_, alpha_counts_
        As in `PegasosClassifier`. If scores were pulled, objectives and gap are not set, since they
        need the scores of all rows. The gap and the dual objective are NaN if the kernel matrix is
        not known to be positive semi-definite (see `assume_psd`), since there may be no duality.
        `tol` then asks for ``|P - D| <= tol P`` at one point: no step along a single dual variable
        gains much any more, but there may be better points.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    PegasosClassifier : Linear machines, for many rows or many features.
    sklearn.svm.SVC : Sequential minimal optimisation by LIBSVM.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated sub-gradient solver for SVM.
    Mathematical Programming B 127 (2011) 3-30, section 4.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pegasos import KernelPegasosClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> clf = KernelPegasosClassifier(lam=1e-3, gamma=2.0, random_state=0).fit(X, y)
    >>> print(f"accuracy {{clf.score(X, y):.3f}}, support vectors: {{clf.n_support_.sum()}}")
    accuracy 0.995, support vectors: 15
    """

    def _model_of(self, coef: np.ndarray, intercept: np.ndarray, data: Data) -> dict[str, Any]:
        model = super()._model_of(coef, intercept, data)
        if data.scheme == "multilabel":
            return model | {"n_support_": np.count_nonzero(model["dual_coef_"], axis=1)}
        codes = data.codes[model["support_"]]
        return model | {"n_support_": np.bincount(codes, minlength=len(data.classes))}
