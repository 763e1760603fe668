"""The common part of classifiers: labels, classes and their scores."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight

from pegasos import _user_warnings
from pegasos.estimators._base import Data, PegasosEstimator, ScoreMixin
from pegasos.io._blocks import Blocks
from pegasos.problems import _multiclass, _validate
from pegasos.problems._losses import LOSSES, with_probabilities
from pegasos.problems._settings import Settings
from pegasos.solvers import _warnings
from pegasos.solvers._schedule import Schedule


class Classifier(ScoreMixin, ClassifierMixin, PegasosEstimator):
    classes_: np.ndarray
    alpha_counts_: np.ndarray
    _scheme: str
    _is_sparse: bool
    _is_matrix = False
    _on_dask = "DaskPegasosClassifier"
    #: Whether this is the best estimator of a search whose scoring uses scores, not classes.
    _is_for_scores = False

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the rows of `X`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            For a precomputed kernel, kernel values with all training rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: positive means ``classes_[1]``. Otherwise the class of the largest score
            wins; for one-vs-one these are votes, with ties broken by summed scores. If a row may
            have several labels, it has those with positive scores.

        Notes
        -----
        A row's scores do not depend on the rows that are passed with it, but for kernels other than
        "linear" and "precomputed": there, BLAS multiplies blocks of rows. It may round a row
        differently in a block of another size, so the last bits of a score may differ.
        """
        scores = self._problem_scores(X)
        return _multiclass.class_scores(scores, len(self.classes_), self._scheme)

    def predict(self, X: Any) -> Any:
        """Predicted labels of the rows of `X`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            If the y of the fit had several columns: zeros and ones of shape (n_samples, n_labels),
            in a csr_array if that y was a sparse array, in a csr_matrix if it was a sparse matrix.
        """
        predicted = _multiclass.predicted(self.decision_function(X), self.classes_, self._scheme)
        return _multiclass.as_csr(predicted, self._is_matrix) if self._is_sparse else predicted

    @with_probabilities
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes of the rows of `X`; only with some losses.

        For two classes, the one with positive scores has 1/(1 + exp(-f(x))) with
        ``loss="log_loss"``, and (clip(f(x), -1, 1) + 1)/2 with ``loss="modified_huber"``. The other
        losses have no probabilities: take one of these two, or put
        `sklearn.calibration.CalibratedClassifierCV` around the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns are in the order of `classes_`, and rows sum to one. If the y of the fit had
            several columns, each column has the probability of its label, whatever the sum.

        Raises
        ------
        AttributeError
            If the loss has no probabilities. So `hasattr` tells whether there is this method.

        Notes
        -----
        One-vs-rest: the probabilities of the problems, divided by their sum, as in
        `sklearn.linear_model.SGDClassifier`; if all are 0, those of all classes are equal.
        One-vs-one: of K classes, class k has 1/(sum_j 1/r_kj - (K - 2)), where r_kj is its
        probability against class j, divided by the sum over all classes (Price, Knerr, Personnaz
        and Dreyfus, Pairwise neural network classifiers with probabilistic outputs, NIPS 7, 1995).
        `predict` counts votes of pairs. Where these contradict one another, the most probable class
        of a row may be another one, as with `sklearn.svm.SVC`.
        """
        scores = self._problem_scores(X)
        return _multiclass.class_probabilities(
            scores, len(self.classes_), self._scheme, LOSSES[self._fitted["loss"]].probability
        )

    @with_probabilities
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`; -inf where that is 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def margins(self, X: Any, y: ArrayLike, *, geometric: bool = False) -> np.ndarray:
        """Margins of labelled rows: functional ones y f(x), or geometric ones y f(x)/‖w‖.

        A row with a positive margin is on its side. The functional margin of a support vector is at
        most 1, to the accuracy of the fit (with ``loss="log_loss"``, every row is a support vector,
        whatever its margin). The geometric margin is the distance from where f is 0, in the space
        of features (of the kernel).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `decision_function`.
        y : array-like of shape (n_samples,)
            Labels, of the classes of the fit; or zeros and ones in columns, as in the fit.
        geometric : bool, default=False
            True: divide by ‖w‖, the `weight_norm_` of each problem.

        Returns
        -------
        ndarray of shape (n_samples, n_problems)
            NaN where a row is in neither class of a pair ("ovo").

        Examples
        --------
        The rows (1, 1) and (3, 3) are nearest to the line between the classes. It passes (2, 2), at
        a distance of √2:

        >>> from pegasos import PegasosClassifier
        >>> X, y = [[0, 0], [1, 1], [3, 3], [4, 4]], ["left", "left", "right", "right"]
        >>> clf = PegasosClassifier(lam=1e-3, tol=1e-6, penalize_intercept=False, random_state=0)
        >>> clf = clf.fit(X, y)
        >>> print(clf.margins(X, y).round(2).ravel())
        [2. 1. 1. 2.]
        >>> print(clf.margins(X, y, geometric=True).round(2).ravel())
        [2.83 1.41 1.41 2.83]
        >>> print(clf.weight_norm_.round(2))
        [0.71]
        """
        _validate.boolean("geometric", geometric)
        model = self._fitted_model()
        if model.multi_class == "crammer_singer":
            raise ValueError(
                "margins are of binary problems, and multi_class='crammer_singer' has none: take "
                "the differences of columns of decision_function"
            )
        scores = self._problem_scores(X)
        if model.multi_class == "multilabel":
            codes = _validate.indicator(y, len(scores))
            _validate.same_columns(codes, model.classes)
        else:
            _validate.labels(y, len(scores))
            _, codes = _validate.labels_among(y, None, model.classes)
        labels = _multiclass.problem_labels(codes, len(model.classes), model.multi_class).T
        margins = np.where(labels == 0, np.nan, labels * scores)
        with np.errstate(divide="ignore", invalid="ignore"):  # w may be 0
            return margins / self.weight_norm_ if geometric else margins

    def _model_fields(self) -> dict[str, Any]:
        y = {"classes": self.classes_, "multi_class": self._scheme}
        return super()._model_fields() | y

    @classmethod
    def _unpack_model(cls, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        parameters, attributes = super()._unpack_model(model)
        parameters |= {"lam": model.lam, "loss": model.loss}
        if model.multi_class != "multilabel":
            parameters["multi_class"] = model.multi_class
        y = {"classes_": model.classes, "_scheme": model.multi_class, "_is_sparse": False}
        return parameters, attributes | y

    def _read(
        self, X: Any, y: Any, sample_weight: Any, *, continuing: bool, among: tuple[Any, ...] = ()
    ) -> Data:
        """As in the base; `among` has the other arguments of `labels_among`; empty: y has all."""
        is_sparse, is_matrix = _validate.is_sparse(y), isinstance(y, sparse.spmatrix)
        is_multilabel = _validate.has_columns(y)
        scheme = "multilabel" if is_multilabel else self.multi_class
        if is_multilabel:
            if self.multi_class == "crammer_singer":
                raise ValueError(
                    "multi_class must be 'ovr' or 'ovo' if y has several columns, got "
                    "'crammer_singer', which is for one class a row"
                )
            y = _validate.indicator(y)
        (X, y), feature_attributes = self._rows_to_fit(
            X, y=y, multi_output=is_multilabel, continuing=continuing
        )
        if among or is_multilabel:
            classes, codes = _validate.labels_among(y, *among)
        else:
            classes, codes = _validate.labels(y, X.shape[0])
        # Integers are classes; only many of them deserve a warning. The check would take a tenth
        # of the time of a small fit.
        are_many = not is_multilabel and 2 * len(classes) > len(y)
        if y.dtype.kind not in "biu" or are_many:
            _validate.only_classes(y)
        sample_weight = _validate.sample_weight(sample_weight, len(codes))
        weights = self._row_weights(sample_weight, codes, classes)
        of_problems = codes, len(classes), scheme, weights
        return Data(
            X=X,
            y=y,
            feature_attributes=feature_attributes,
            classes=classes,
            codes=codes,
            sample_weight=sample_weight,
            weights=weights,
            problem_labels=_multiclass.problem_labels(*of_problems),
            mass=_multiclass.mass(*of_problems),
            scheme=scheme,
            is_sparse=is_sparse,
            is_matrix=is_matrix,
        )

    def _read_blocks(self, blocks: Blocks, *, continuing: bool) -> tuple[Data, Any, Any, Any]:
        if self.multi_class == "crammer_singer":
            raise ValueError(
                "Blocks that are larger than memory need "
                f"{_validate.parameter('multi_class', 'ovr')} or "
                f"{_validate.value_of('multi_class', 'ovo')}, got "
                f"{_validate.value_of('multi_class', 'crammer_singer')}"
            )
        classes, sums, counts = blocks.classes, blocks.class_weight_sums, blocks.class_counts
        if classes is None or sums is None or counts is None:
            raise ValueError("y of the blocks must have at most 65536 distinct labels")
        _validate.only_classes(np.repeat(classes, 2))  # twice, as it warns if most labels differ
        factor = self._class_factors(classes, sums)
        n_classes, multi_class = len(classes), self.multi_class
        with np.errstate(over="ignore"):
            of_classes = factor * sums
        if not np.isfinite(of_classes).all():
            raise ValueError("sample_weight times class_weight must be finite, and its sum as well")
        inside = np.where(of_classes > 0, counts, 0)
        # Labels of each problem for one row of each class.
        labels = np.abs(_multiclass.problem_labels(np.arange(n_classes), n_classes, multi_class))

        def targets(y: np.ndarray, weights: Any, _: Any) -> tuple[np.ndarray, Any, Any]:
            codes = blocks.codes(y)
            weights = self._weighted(weights, factor, codes, may_be_zero=True)
            return _multiclass.problem_labels(codes, n_classes, multi_class, weights), weights, None

        data = Data(
            X=blocks, y=np.repeat(classes, inside > 0), classes=classes,
            codes=np.arange(n_classes), weights=of_classes, problem_labels=labels,
            feature_attributes={"n_features_in_": blocks.shape[1]}, scheme=multi_class,
            mass=_multiclass.mass(np.arange(n_classes), n_classes, multi_class, of_classes),
        )  # fmt: skip
        self._check_data(data)
        if continuing:
            self._check_same(data)
        return data, targets, labels @ of_classes, labels @ inside

    def _row_weights(
        self, weights: np.ndarray | None, codes: np.ndarray, classes: np.ndarray
    ) -> np.ndarray | None:
        """Sample weights times class weights, or None if both are one."""
        if self.class_weight is None:
            return weights
        if codes.ndim == 2:
            raise ValueError(
                "class_weight must be None if y has several columns, since all labels share the "
                f"weights of rows, got {self.class_weight!r}: take sample_weight, or "
                "sklearn.multiclass.OneVsRestClassifier around this classifier"
            )
        factor = self._class_factors(classes, np.bincount(codes, weights, minlength=len(classes)))
        return self._weighted(weights, factor, codes)

    def _weighted(
        self, weights: np.ndarray | None, factor: np.ndarray, codes: np.ndarray, **options: bool
    ) -> np.ndarray | None:
        """Sample weight times class weight, or None if both are one."""
        if self.class_weight is None:
            return weights
        with np.errstate(over="ignore"):  # the check follows
            weights = factor[codes] * (1.0 if weights is None else weights)
        name = "sample_weight times class_weight"
        return _validate.sample_weight(weights, len(codes), name, **options)

    def _class_factors(self, classes: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """The weight of each class, given its sum of sample weights."""
        if self.class_weight is None:
            return np.ones(len(classes))
        if self.class_weight == "balanced":
            return mass.sum() / (len(classes) * np.where(mass > 0, mass, 1))
        for label, weight in self.class_weight.items():
            _validate.real(f"class_weight[{label!r}]", weight, at_least=0)
        known = classes.tolist()
        unknown = [label for label in self.class_weight if label not in known]
        if unknown and any(label not in self.class_weight for label in known):
            raise ValueError(
                f"class_weight must have classes of y as keys, {reprlib.repr(known)}, "
                f"got {reprlib.repr(unknown)}"
            )
        return compute_class_weight(self.class_weight, classes=classes, y=classes)

    def _check_data(self, data: Data) -> None:
        if data.scheme != "multilabel":
            _validate.at_least_two(data.classes, data.codes, data.weights)

    def _check_same(self, data: Data) -> None:
        if data.scheme != self._scheme:
            wanted = "one label for each row" if data.scheme == "multilabel" else "several columns"
            raise ValueError(
                f"y must have {wanted}, as in the fit that goes on, got shape {data.y.shape}"
            )
        if data.scheme == "multilabel":
            _validate.same_columns(data.y, self.classes_)
        if not np.array_equal(data.classes, self.classes_):
            raise ValueError(
                f"y must have the classes of the fit that warm_start continues, "
                f"{self.classes_.tolist()}, got {data.classes.tolist()}"
            )

    def _target_attributes(self, data: Data) -> dict[str, Any]:
        return {
            "classes_": data.classes, "_scheme": data.scheme,
            "_is_sparse": data.is_sparse, "_is_matrix": data.is_matrix,
        }  # fmt: skip

    def _end_only_attributes(self, schedule: Schedule) -> dict[str, Any]:
        counts = schedule.alpha_counts()
        return {} if counts is None else {"alpha_counts_": counts}

    def _fixed_parameters(self, settings: Settings) -> dict[str, Any]:
        return super()._fixed_parameters(settings) | {"multi_class": self.multi_class}

    def _warn(self, schedule: Schedule, data: Data, certificate: Any) -> None:
        if data.is_out_of_core:
            return  # a check of all rows would take a pass
        if data.scheme == "multilabel":
            self._warn_of_one_value(data)
            return
        balancing = ("class_weight", "balanced") if self.class_weight is None else None
        if data.scheme == "crammer_singer":
            certificate = None  # only binary problems' certificates help there
        _warnings.warn_of_single_class(
            schedule, certificate, data.rows, codes=data.codes, weights=data.weights,
            balancing=balancing, classes=data.classes, multi_class=data.scheme, mass=data.mass,
            is_for_scores=self._is_for_scores,
        )  # fmt: skip

    def _warn_of_one_value(self, data: Data) -> None:
        """Warn of labels that all rows have, or no row."""
        inside = np.ones(len(data.y), bool) if data.weights is None else data.weights > 0
        n_with = np.count_nonzero(data.y[inside], axis=0)
        is_one = (n_with == 0) | (n_with == np.count_nonzero(inside))
        if is_one.any():
            k = int(np.argmax(is_one))
            which = "has" if n_with[k] == 0 else "lacks"
            _user_warnings.warn(
                f"no row of weight > 0 {which} label {k}, so nothing tells which rows have it"
            )
