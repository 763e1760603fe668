"""One class: estimators that tell outliers from rows like the training rows."""

from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from pegasos import kernels
from pegasos.estimators._base import CommonMixin, Data, PegasosEstimator
from pegasos.estimators._kernel import KernelMachine
from pegasos.estimators._linear import LinearMachine
from pegasos.estimators._parameters import (
    EstimatorParameters,
    KernelEstimatorParameters,
    parameters,
)
from pegasos.io._blocks import Blocks
from pegasos.problems import _losses, _multiclass, _validate
from pegasos.problems._settings import Settings, settings_of
from pegasos.solvers import _warnings
from pegasos.solvers._schedule import Schedule

# Training divides by 2 to a power in this range; it must not be below the mean of norms.
_LEAST_EXPONENT, _MOST_EXPONENT = -900, 900
# The mean of norms is multiplied by this, to leave room for rounding.
_MORE = 1.001


class OneClass(CommonMixin, OutlierMixin, PegasosEstimator):
    """Base of `PegasosOneClass` and `KernelPegasosOneClass`.

    Training has w = s w', b = s (b' - 1) and P = s (P' - nu), with s >= the mean of c_i |x_i|^2:

        P'(w', b') = nu s/2 |w'|^2 + 1/m sum_i c_i max(0, 1 - <w', x_i> - b') + nu b'.

    That is a problem with all labels +1 and an extra term nu b', and 0 < nu/2 <= min P' <= nu. For
    the dual has sum_i a_i = nu m. One feasible point is a = nu c, whose |w|^2 is at most the mean
    of c_i |x_i|^2. So all that is known of problems with P >= 0 holds. s is a power of two. Fits
    that go on keep it: P' stays above 0 as long as the mean is below 2 s, and projection needs a
    mean of at most s. Subclasses define `_mean_norm`, which returns the mean.
    """

    # Constants that are parameters of other estimators.
    loss = "hinge"
    C = lam = None
    fit_intercept, penalize_intercept, intercept_scaling = True, False, 1.0

    nu: float
    _scheme = "one_class"

    @property
    def offset_(self) -> np.ndarray:
        """The scores with which rows are compared: -b."""
        check_is_fitted(self, "intercept_")
        return -self.intercept_

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the rows of `X` above `offset_`: negative for outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            For a precomputed kernel, kernel values with all training rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            f(x) = <w, x> + b = ``score_samples(X) - offset_``.
        """
        return self._fitted_model()._class_scores(self._problem_scores(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Scores of the rows of `X`, without the offset; the larger, the more like training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            <w, x>, or exactly `offset_` if they differ by at most 1e-6 of it. So rounding does not
            decide on which side support vectors are, unless its error is larger, as it can be for
            polynomial kernels of float32 rows.
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Tell outliers: -1, or +1 for the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `decision_function`.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            +1 where `decision_function` is at least 0.
        """
        return self._fitted_model()._predictions_of(self.decision_function(X))

    def _model_fields(self) -> dict[str, Any]:
        y = {"classes": _multiclass.ONE_CLASS_LABELS, "multi_class": self._scheme}
        return super()._model_fields() | y

    @classmethod
    def _unpack_model(cls, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        parameters, attributes = super()._unpack_model(model)
        return parameters | {"nu": model.lam}, attributes

    def _read(self, X: Any, y: Any, sample_weight: Any, *, continuing: bool) -> Data:
        X, feature_attributes = self._rows_to_fit(X, continuing=continuing)
        n = X.shape[0]
        weights = _validate.sample_weight(sample_weight, n)
        labels = _multiclass.labels_of_targets(1, n, weights)
        return Data(
            X=X,
            y=labels[0],
            feature_attributes=feature_attributes,
            sample_weight=weights,
            weights=weights,
            problem_labels=labels,
            mass=float(n if weights is None else weights.sum()),
            units=self._fitted["units"] if continuing else None,
        )

    def _check_data(self, data: Data) -> None:
        if data.units is None:
            return
        mean, most = self._mean_norm(data), data.units[0] * (1 if self.project else 2)
        if not mean <= most:
            raise ValueError(
                "X must not have larger rows than the fit that warm_start continues: the mean of "
                f"their squared norms is {mean:.4g}, but may be {most:.4g}; clone the estimator to "
                "begin anew"
            )

    def _warn(self, schedule: Schedule, data: Data, certificate: Any) -> None:
        if self.n_steps is None:
            _warnings.warn_of_no_outliers(schedule, certificate, data.rows)

    def _lam_of(self, data: Data) -> float:
        return float(self.nu)

    def _settings_for(self, lam: float, data: Data) -> Settings:
        nu = float(self.nu)
        if data.units is None:
            mean = self._mean_norm(data)
            if not mean < np.ldexp(1.0, _MOST_EXPONENT):
                raise _validate.overflow(data.X.dtype, None)
            exponent = max(np.frexp(mean)[1], _LEAST_EXPONENT)
            data.units = (float(np.ldexp(1.0, exponent)) if mean > 0 else 1.0,)
        loss = _losses.of_one_class(nu)
        return settings_of(self, nu, loss=loss, units=data.units)

    def _fixed_parameters(self, settings: Settings) -> dict[str, Any]:
        return {"nu": float(self.nu), **super()._fixed_parameters(settings)}


def _mean(norms: np.ndarray, data: Data) -> float:
    """The mean of |K(x_i, x_i)|, weighted, and a little larger because of rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        if data.weights is None:
            return _MORE * float(np.abs(norms).mean())
        share = data.weights / data.weights.max()
        return _MORE * float((np.abs(norms) * share).sum() / share.sum())


@parameters
class PegasosOneClass(OneClass, LinearMachine, EstimatorParameters):
    """Linear one-class support vector machine with a certified objective.

    Minimises

    ``P(w, b) = nu/2 |w|^2 + 1/m sum_i c_i max(0, -(<w, x_i> + b)) + nu b``, ``m = sum_i c_i``,

    where ``c_i`` is the sample weight of row i. All rows but a fraction of at most `nu` then lie
    beyond a hyperplane that is as far as possible from the origin. P is `nu` times the objective of
    `sklearn.linear_model.SGDOneClassSVM` with this `nu`, whose w and b are equal. It is also `nu`
    times that of `sklearn.svm.OneClassSVM` in Schölkopf's form; LIBSVM's w and b are nu m times
    as large.

    Parameters
    ----------
    nu : float, default=0.5
        In [1e-6, 1]. By weight, at most this fraction of the training rows are outliers, and at
        least this fraction are support vectors.
    solver : {"auto", "pegasos", "sdca", "newton"}, default="auto"
        As in `PegasosClassifier`. Newton's method smooths the corner of the loss.
    tol : float, "auto" or None, default="auto"
        Relative duality gap ``(P - D)/|D|`` at which a fit stops, where D, the dual objective, is
        below 0; see `PegasosClassifier`.
    max_iter, n_steps, batch_size, sampling, average
        As in `PegasosClassifier`.
    project : bool, default=False
        After every step, project on a ball that holds the optimum: ``|w|^2`` is at most the mean of
        the ``|x_i|^2``, rounded up to a power of two. `partial_fit` refuses it, since it cannot
        know this mean.
    warm_start : bool, default=False
        True: `fit` goes on where the last `fit` ended; see `PegasosClassifier`. `nu` must not
        change. The mean of the ``|x_i|^2`` may double, but not without limit, and with `project` it
        may rise to the next power of two.
    n_jobs : int, default=None
        Threads that share the passes of Newton's method over the rows. Results do not depend on it.
    random_state, verbose
        As in `PegasosClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights w.
    intercept_ : ndarray of shape (1,)
        b.
    offset_ : ndarray of shape (1,)
        -b: ``decision_function(X) = score_samples(X) - offset_``.
    lam_ : float
        `nu`, which is the λ of P.
    objective_, dual_objective_, duality_gap_ : ndarray of shape (1,)
        P of this model on the training data, a lower bound on P of all models, and the difference.
        The optimum is ``-nu/2 |w|^2``, so objectives are 0 or negative. They are set by `fit`, but
        not by an interrupted one or `partial_fit`.
    weight_norm_ : ndarray of shape (1,)
        ‖w‖.
    n_iter_, solver_epochs_, n_steps_
        As in `PegasosClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Set when the columns of X have names that are strings.

    See Also
    --------
    KernelPegasosOneClass : With a kernel.
    sklearn.linear_model.SGDOneClassSVM : Stochastic gradient descent, without a certificate.

    Notes
    -----
    A linear machine separates rows from the origin by a hyperplane: outliers are on the side of the
    origin. It suits features that are not negative, such as words, and features of a kernel
    approximation such as `sklearn.kernel_approximation.Nystroem`. If rows lie around the origin, as
    standardised ones do, no hyperplane separates them: w = 0 is best, and a warning says so.

    Pegasos starts at w = 0 and b = -s, where s is the mean of the ``|x_i|^2`` rounded up to a power
    of two. Step t has the rate 1/(nu t), as for w: b falls by `nu` times the rate, and rises by the
    rate where f(x) < 0. So it finds b slowly unless rows have norms of about 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pegasos import PegasosOneClass
    >>> X = np.random.RandomState(0).normal(loc=3, size=(200, 2))
    >>> one = PegasosOneClass(nu=0.1, random_state=0).fit(X)
    >>> print(f"outliers: {(one.predict(X) == -1).sum()}, offset {one.offset_[0]:.2f}")
    outliers: 19, offset 7.58
    >>> print(one.predict([[3, 3], [0, 0]]))
    [ 1 -1]
    """

    nu: float = 0.5

    def _read_blocks(self, blocks: Blocks, *, continuing: bool) -> tuple[Data, Any, Any, Any]:
        data = Data(
            X=blocks, y=np.ones(1), feature_attributes={"n_features_in_": blocks.shape[1]},
            problem_labels=np.ones((1, 1), np.int8), mass=blocks.mass,
            units=self._fitted["units"] if continuing else None,
        )  # fmt: skip
        self._check_data(data)

        def targets(y: np.ndarray, weights: Any, _: Any) -> tuple[np.ndarray, Any, Any]:
            return _multiclass.labels_of_targets(1, len(y), weights), weights, None

        return data, targets, np.array([blocks.mass]), np.array([blocks.n_inside])

    def _mean_norm(self, data: Data) -> float:
        if isinstance(data.X, Blocks):
            return _MORE * data.X.mean_squared_norm
        rows, _ = _validate.rows(data.X, checked=True)
        return _mean(rows.squared_norms(), data)


@parameters
class KernelPegasosOneClass(
    OneClass, KernelMachine, KernelEstimatorParameters, EstimatorParameters
):
    __doc__ = f"""Kernel one-class support vector machine with a certified objective.

    Minimises

    ``P(w, b) = nu/2 |w|^2 + 1/m sum_i c_i max(0, -(<w, phi(x_i)> + b)) + nu b``,

    ``m = sum_i c_i``, where the kernel is ``K(x, z) = <phi(x), phi(z)>``, and ``w = sum_j beta_j
    phi(x_j)``. It estimates where rows are dense: elsewhere, f is negative.

    Parameters
    ----------
    nu : float, default=0.5
        As in `PegasosOneClass`; it is the nu of `sklearn.svm.OneClassSVM`.
    kernel : str or callable, default="rbf"
        {kernels.formulas(indent=8)},
        or a function; see `KernelPegasosClassifier`.
    gamma, degree, coef0, kernel_params, assume_psd, cache_size
        As in `KernelPegasosClassifier`.
    scores : {{"auto", "push", "pull"}}, default="auto"
        As in `KernelPegasosClassifier`.
    solver : {{"auto", "pegasos", "sdca", "newton"}}, default="auto"
        As in `KernelPegasosClassifier`.
    tol, max_iter, n_steps, batch_size, sampling, project, average
        As in `PegasosOneClass`.
    warm_start, random_state, verbose
        As in `PegasosOneClass`. `warm_start` needs the same X and kernel, and keeps γ.
    n_jobs : int, default=None
        Threads for kernel values and scores; see `KernelPegasosClassifier`.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of X with a coefficient, in the order of X.
    support_vectors_ : ndarray or csr_array of shape (n_support, n_features)
        The rows `support_` of X; of shape (0, 0) for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the support vectors, which sum to 1: those of `sklearn.svm.OneClassSVM`,
        divided by nu m.
    coef_ : ndarray of shape (1, n_features)
        Weights, computed on access and read-only. Only with ``kernel="linear"``.
    intercept_, offset_, lam_
        As in `PegasosOneClass`.
    objective_, dual_objective_, duality_gap_ : ndarray of shape (1,)
        As in `PegasosOneClass`. If scores were pulled, they are not set. The gap and the dual
        objective are NaN if the kernel matrix is not known to be positive semi-definite.
    weight_norm_ : ndarray of shape (1,)
        ‖w‖, computed on access.
    n_iter_, solver_epochs_, n_steps_
        As in `PegasosClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    PegasosOneClass : The linear machine, for many rows or many features.
    sklearn.svm.OneClassSVM : Sequential minimal optimisation by LIBSVM.

    Examples
    --------
    >>> import numpy as np
    >>> from pegasos import KernelPegasosOneClass
    >>> X = np.random.RandomState(0).normal(size=(300, 2))
    >>> one = KernelPegasosOneClass(nu=0.1, random_state=0).fit(X)
    >>> print(f"outliers: {{(one.predict(X) == -1).sum()}}, support vectors: {{len(one.support_)}}")
    outliers: 19, support vectors: 39
    >>> print(one.predict([[0, 0], [4, 4]]))
    [ 1 -1]
    """

    nu: float = 0.5

    def _mean_norm(self, data: Data) -> float:
        kernel = data.kernel
        if kernel is None:  # in a fit that goes on
            kernel = self._make_kernel(data.X, data.weights, continuing=data.units is not None)
        return _mean(kernel.points_among_themselves(data.X).diagonal(), data)
