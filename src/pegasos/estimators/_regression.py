"""Regression: estimators whose y has targets, in scikit-learn's conventions."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from pegasos import kernels
from pegasos.estimators._base import Data, PegasosEstimator, ScoreMixin
from pegasos.estimators._kernel import KernelMachine
from pegasos.estimators._linear import LinearMachine
from pegasos.estimators._parameters import (
    KernelEstimatorParameters,
    PenalizedParameters,
    RegressorParameters,
    parameters,
)
from pegasos.io import _readers
from pegasos.io._blocks import Blocks
from pegasos.problems import _losses, _units, _validate
from pegasos.problems._settings import Settings, settings_of
from pegasos.solvers import _warnings
from pegasos.solvers._schedule import Schedule

# The units of targets are computed from about this number of rows of blocks.
_ROWS_FOR_UNITS = 2**16


class Regressor(ScoreMixin, RegressorMixin, PegasosEstimator):
    epsilon: float
    n_outputs_: int
    _is_flat: bool
    _on_dask = "DaskPegasosRegressor"

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets of the rows of `X`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            For a precomputed kernel, kernel values with all training rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            One-dimensional if the y of the fit was.
        """
        scores = self._problem_scores(X)
        return scores.ravel() if self._is_flat else scores

    def _model_fields(self) -> dict[str, Any]:
        y = {"epsilon": self._fitted["epsilon"], "is_flat": self._is_flat}
        return super()._model_fields() | y

    @classmethod
    def _unpack_model(cls, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        parameters, attributes = super()._unpack_model(model)
        parameters |= {"lam": model.lam, "loss": model.loss}
        if model.epsilon is not None:
            parameters["epsilon"] = model.epsilon
        return parameters, attributes | {"n_outputs_": model._n_problems, "_is_flat": model.is_flat}

    def _read(self, X: Any, y: Any, sample_weight: Any, *, continuing: bool) -> Data:
        _validate.before_targets(y)
        (X, y), feature_attributes = self._rows_to_fit(
            X, y=y, multi_output=True, continuing=continuing
        )
        y = _validate.targets(y, X.shape[0])
        weights = _validate.sample_weight(sample_weight, X.shape[0])
        units = self._fitted["units"] if continuing else None
        labels, values, units = _units.problems(y, weights, units)
        return Data(
            X=X,
            y=y,
            feature_attributes=feature_attributes,
            sample_weight=weights,
            weights=weights,
            problem_labels=labels,
            mass=float(X.shape[0] if weights is None else weights.sum()),
            values=values,
            units=units,
        )

    def _read_blocks(self, blocks: Blocks, *, continuing: bool) -> tuple[Data, Any, Any, Any]:
        if blocks.names is not None:
            word = _readers.first_word(blocks.names)
            raise ValueError(f"y of the blocks must be numbers for regression, but it has {word!r}")
        n_outputs = max(1, blocks.n_outputs)
        y = blocks.some_targets(_ROWS_FOR_UNITS)
        labels, values, units = _units.problems(
            y, None, self._fitted["units"] if continuing else None
        )

        def targets(y: np.ndarray, weights: Any, _: Any) -> tuple[np.ndarray, Any, Any]:
            _validate.targets(y, len(y))
            labels, values, _ = _units.problems(y, weights, units)
            return labels, weights, values

        data = Data(
            X=blocks, y=y if blocks.n_outputs else y[:, 0],
            feature_attributes={"n_features_in_": blocks.shape[1]}, problem_labels=labels,
            mass=blocks.mass, values=values, units=units,
        )  # fmt: skip
        return data, targets, np.full(n_outputs, blocks.mass), np.full(n_outputs, blocks.n_inside)

    def _check_same(self, data: Data) -> None:
        n_outputs, is_flat = len(data.problem_labels), data.y.ndim == 1
        if (n_outputs, is_flat) != (self.n_outputs_, self._is_flat):
            wanted = "(n_samples,)" if self._is_flat else f"(n_samples, {self.n_outputs_})"
            raise ValueError(
                f"y must have shape {wanted}, as in the fit that goes on, got {data.y.shape}"
            )

    def _target_attributes(self, data: Data) -> dict[str, Any]:
        return {"n_outputs_": len(data.problem_labels), "_is_flat": data.y.ndim == 1}

    def _warn(self, schedule: Schedule, data: Data, certificate: Any) -> None:
        if not data.is_out_of_core:  # a check of all rows would take a pass
            _warnings.warn_of_constant(
                schedule, certificate, data.rows, name=data.name_of, mass=data.mass
            )

    def _settings_for(self, lam: float, data: Data) -> Settings:
        loss = _losses.named(self.loss, float(self.epsilon))
        return settings_of(self, lam, loss=loss, units=data.units)

    def _fixed_parameters(self, settings: Settings) -> dict[str, Any]:
        epsilon = float(self.epsilon) if self.loss in _losses.EPSILON_LOSSES else None
        return super()._fixed_parameters(settings) | {"epsilon": epsilon}


@parameters
class PegasosRegressor(Regressor, LinearMachine, RegressorParameters, PenalizedParameters):
    """Linear regression with a certified loss: support vector regression, Huber's, least squares.

    Minimises, for each output,

    ``P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(y_i - <w, x_i> - b)``, ``m = sum_i c_i``,

    where ``c_i`` is the sample weight of row i and l is the `loss`. Since λ = 1/(C m), P is
    1/(C m) times the objective of `sklearn.svm.LinearSVR` with this C. A fit begins with an epoch
    of Pegasos, stochastic sub-gradient descent on the primal, except with the squared error on few
    features.

    Parameters
    ----------
    C : float, default=None
        Weight C > 0 of the losses, as in `sklearn.svm.LinearSVR`: a larger C fits closer. ``λ =
        1/(C m)``, where m is the sum of the weights of all rows. None stands for C = 1, unless
        `lam` is given.
    lam : float, default=None
        Regularisation λ > 0, in place of C; the fitted λ is `lam_`. None: λ follows from C. But
        `partial_fit`, which cannot know the sum of weights, takes λ = 1e-4.
    loss : str, default="epsilon_insensitive"
        Loss of a row with the error u = y - f(x):

        - "epsilon_insensitive": max(0, abs(u) - epsilon), that of support vector regression. Rows
          within epsilon are no support vectors, and outliers weigh little;
        - "squared_epsilon_insensitive": max(0, abs(u) - epsilon)²;
        - "huber": u²/2, but epsilon abs(u) - epsilon²/2 where abs(u) > epsilon, so that outliers
          weigh less;
        - "squared_error": u²/2. It is half the square, as in `sklearn.linear_model.SGDRegressor`,
          so that C is 1/alpha of `sklearn.linear_model.Ridge`, and λ is alpha/m.

        All but the first are smooth.
    epsilon : float, default=0.1
        Errors up to epsilon >= 0 cost nothing with "epsilon_insensitive" and its square. With
        "huber", the error from which on the loss grows as a straight line; it must be above 0.
        Ignored with "squared_error". It has the units of y.
    solver : {"auto", "pegasos", "sdca", "newton"}, default="auto"
        As in `PegasosClassifier`. Newton's method smooths the loss "epsilon_insensitive", and
        "huber" if epsilon is small compared with y. With "squared_error", its first step is exact,
        and no epoch of Pegasos comes before it.
    tol : float, "auto" or None, default="auto"
        Relative duality gap (P - D)/P at which a fit stops; see `PegasosClassifier`.
    max_iter, n_steps, batch_size, sampling, average
        As in `PegasosClassifier`.
    project : bool, default=False
        After every step, project on a ball that holds the optimum: ``|w| <= sqrt(2 P(0)/lam)``,
        where P(0) is the mean loss of f = 0.
    fit_intercept, penalize_intercept, intercept_scaling
        As in `PegasosClassifier`. By default, the intercept is part of ``|w|``, as in
        `sklearn.svm.LinearSVR`, and draws predictions towards 0. If y is not centred, or `lam` is
        large, ``penalize_intercept=False`` is the better choice.
    warm_start : bool, default=False
        True: `fit` goes on where the last `fit` ended; see `PegasosClassifier`. `loss`, `epsilon`
        and the shape of y must not change.
    n_jobs, random_state, verbose
        As in `PegasosClassifier`. Threads share the outputs.

    Attributes
    ----------
    lam_ : float
        The λ of the fit: `lam`, or that of C.
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        Weights. One-dimensional if y is.
    intercept_ : ndarray of shape (n_outputs,)
        Of shape (1,) if y is one-dimensional, as in `sklearn.linear_model.SGDRegressor`.
    n_outputs_ : int
        Columns of y.
    objective_, dual_objective_, duality_gap_ : ndarray of shape (n_outputs,)
        P(w) of this model on the training data, a lower bound on P of all models, and the
        difference. They are set by `fit`, but not by an interrupted one or `partial_fit`.
    weight_norm_ : ndarray of shape (n_outputs,)
        ‖w‖ of each output, without the intercept.
    n_iter_, solver_epochs_, n_steps_
        As in `PegasosClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Set when the columns of X have names that are strings.

    See Also
    --------
    KernelPegasosRegressor : Regression with a kernel.
    sklearn.svm.LinearSVR : Dual coordinate descent by LIBLINEAR.

    Notes
    -----
    Training divides each column of y, and epsilon, by a power of two near the standard deviation of
    the column, which rounds nothing. So gaps are as fine for targets of 1e-12 as for targets of 1,
    whatever the sizes of other outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pegasos import PegasosRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = PegasosRegressor(C=100, penalize_intercept=False, random_state=0).fit(X, y)
    >>> print(f"R2 {reg.score(X, y):.2f}, objective {reg.objective_[0]:.2f}")
    R2 0.48, objective 49.45
    """

    epsilon: float = 0.1

    def _model_of(self, coef: np.ndarray, intercept: np.ndarray, data: Data) -> dict[str, Any]:
        model = super()._model_of(coef, intercept, data)
        return model | {"coef_": model["coef_"][0]} if data.y.ndim == 1 else model


@parameters
class KernelPegasosRegressor(
    Regressor, KernelMachine, RegressorParameters, KernelEstimatorParameters, PenalizedParameters
):
    __doc__ = f"""Kernel regression with a certified loss: support vector regression and others.

    Minimises, for each output,

    ``P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(y_i - <w, phi(x_i)> - b)``, ``m = sum_i c_i``,

    where l is the `loss` of `PegasosRegressor`, the kernel is ``K(x, z) = <phi(x), phi(z)>``, and
    ``w = sum_j beta_j phi(x_j)``.

    Parameters
    ----------
    C : float, default=None
        As in `PegasosRegressor`; it is the C of `sklearn.svm.SVR`.
    lam : float, default=None
        Regularisation λ > 0, in place of C; the fitted λ is `lam_`.
    loss : str, default="epsilon_insensitive"
        As in `PegasosRegressor`. Losses other than "epsilon_insensitive" need a kernel that is
        known to be positive semi-definite (see `assume_psd`): there may be no minimum otherwise.
        With "huber" and "squared_error", nearly every row is a support vector.
    epsilon : float, default=0.1
        As in `PegasosRegressor`.
    kernel : str or callable, default="rbf"
        {kernels.formulas(indent=8)},
        or a function; see `KernelPegasosClassifier`.
    gamma, degree, coef0, kernel_params, assume_psd, cache_size
        As in `KernelPegasosClassifier`.
    scores : {{"auto", "push", "pull"}}, default="auto"
        As in `KernelPegasosClassifier`. With losses other than "epsilon_insensitive", scores are
        always pushed.
    solver : {{"auto", "pegasos", "sdca", "newton"}}, default="auto"
        As in `KernelPegasosClassifier`.
    tol, max_iter, n_steps, batch_size, sampling, project, average
        As in `PegasosRegressor`.
    fit_intercept, penalize_intercept, intercept_scaling
        As in `PegasosRegressor`; a constant feature c of value `intercept_scaling` adds c² to the
        kernel. `sklearn.svm.SVR` has ``penalize_intercept=False``.
    warm_start, random_state, verbose
        As in `PegasosRegressor`. `warm_start` needs the same X and kernel, and keeps γ.
    n_jobs : int, default=None
        Threads for kernel values and scores; see `KernelPegasosClassifier`.

    Attributes
    ----------
    lam_ : float
        The λ of the fit: `lam`, or that of C.
    support_ : ndarray of shape (n_support,)
        Rows of X with a coefficient for any output, in the order of X.
    support_vectors_ : ndarray or csr_array of shape (n_support, n_features)
        The rows `support_` of X; of shape (0, 0) for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_outputs, n_support)
        Coefficients of the support vectors: predictions are
        ``K(x, support) @ dual_coef_.T + intercept_``. Of shape (1, n_support) if y is
        one-dimensional, as in `sklearn.svm.SVR`.
    coef_ : ndarray of shape (n_outputs, n_features)
        Weights, computed on access and read-only. Only with ``kernel="linear"``.
    intercept_ : ndarray of shape (n_outputs,)
    n_outputs_ : int
        Columns of y.
    objective_, dual_objective_, duality_gap_ : ndarray of shape (n_outputs,)
        As in `PegasosRegressor`. If scores were pulled, they are not set. The gap and the dual
        objective are NaN if the kernel matrix is not known to be positive semi-definite.
    weight_norm_ : ndarray of shape (n_outputs,)
        ‖w‖ of each output, without the intercept, computed on access.
    n_iter_, solver_epochs_, n_steps_
        As in `PegasosClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    PegasosRegressor : Linear regression, for many rows or many features.
    sklearn.svm.SVR : Sequential minimal optimisation by LIBSVM.

    Examples
    --------
    >>> import numpy as np
    >>> from pegasos import KernelPegasosRegressor
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> reg = KernelPegasosRegressor(C=10, random_state=0).fit(X, y)
    >>> print(f"R2 {{reg.score(X, y):.2f}}, support vectors: {{len(reg.support_)}}")
    R2 0.99, support vectors: 5
    """

    epsilon: float = 0.1
