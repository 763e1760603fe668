"""Trained models: scores, predictions, and a file format without pickle."""

import dataclasses
import functools
import json
import os
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from pegasos import _core, _threads
from pegasos.io import _archive
from pegasos.problems import _multiclass, _rows, _validate
from pegasos.problems._certificate import Certificate, part_of
from pegasos.problems._losses import EPSILON_LOSSES, LOSSES, TARGET_LOSSES, with_probabilities

# Memory for one piece of a kernel prediction.
_PREDICT_BYTES = 2**23
_FLOAT64 = np.dtype(np.float64).str  # in this machine's byte order
# From this number of rows on, it pays to convert support vectors to another layout.
_MANY = 64


def this_version() -> str:
    from pegasos import __version__

    return __version__


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class _Model:
    """The common part of linear and kernel models."""

    intercept: np.ndarray
    classes: Any = None
    multi_class: str = "ovr"
    lam: float
    objective: np.ndarray
    dual_objective: np.ndarray
    n_steps: np.ndarray
    loss: str = "hinge"
    epsilon: float | None = None
    is_flat: bool = False
    feature_names: np.ndarray | None = None
    label_name: str | None = None
    zero_based: bool | None = None
    center: np.ndarray | None = None
    scale: np.ndarray | None = None
    version: str | None = dataclasses.field(default_factory=this_version)

    #: The name and version of the file's layout.
    _FORMAT: ClassVar[str]
    #: How the names of the estimators of these models begin.
    _MACHINE: ClassVar[str]
    #: The attribute with a row of coefficients for each problem.
    _COEFFICIENTS: ClassVar[str]
    _ARRAYS: ClassVar[tuple[str, ...]] = ("intercept", "objective", "dual_objective", "n_steps")
    #: Arrays that are not in every file.
    _OPTIONAL: ClassVar[tuple[str, ...]] = ("classes", "feature_names", "center", "scale")
    _ABOUT: ClassVar[tuple[str, ...]] = (
        "multi_class", "lam", "loss", "epsilon", "is_flat", "label_name", "zero_based", "version",
    )  # fmt: skip

    def __repr__(self) -> str:
        parts = [self._answers, _validate.counted(self.n_features, "feature")]
        parts += [f"lam={self.lam:.3g}", f"loss={self.loss!r}"]
        gaps = self._relative_gap
        if np.isfinite(gaps).all():
            parts.append(f"relative gap <= {gaps.max():.2g}" if gaps.any() else "gap 0")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def _relative_gap(self) -> np.ndarray:
        """The gap as a part of P, or of |D| for one class, as for `tol`.

        NaN if the P of one class is 0: a D that rounding moves below 0 is all gap.
        """
        if self.multi_class != "one_class":
            return part_of(self.duality_gap, self.objective)
        gaps = part_of(self.duality_gap, -self.dual_objective)
        return np.where((self.objective == 0) & (gaps > 0), np.nan, gaps)

    @property
    def _answers(self) -> str:
        """The number of classes or outputs, in words."""
        if self._has_targets:
            return _validate.counted(self._n_problems, "output")
        return _validate.counted(
            1 if self.multi_class == "one_class" else len(self.classes), "class", "classes"
        )

    @property
    def _has_targets(self) -> bool:
        """Whether this is a model of regression, whose scores are its predictions."""
        return self.loss in TARGET_LOSSES

    @property
    def _n_problems(self) -> int:
        """The number of binary problems, or of outputs."""
        if self._has_targets:
            return len(self.n_steps)
        return _multiclass.count(len(self.classes), self.multi_class)

    def _problem_name(self, k: int) -> str:
        return _multiclass.name(k, self._n_problems, self.classes, self.multi_class)

    @property
    def duality_gap(self) -> np.ndarray:
        """`objective` - `dual_objective`: P(w) is at most this far above the optimum."""
        return Certificate(self.objective, self.dual_objective).gap

    def _problem_scores(self, X: Any, *, checked: bool = False) -> np.ndarray:
        """Scores of rows by each problem, (n_samples, n_problems). Subclasses define this."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the rows of `X`; see `pegasos.decision_function`."""
        return self._class_scores(self._problem_scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels, or targets, of the rows of `X`."""
        return self._predictions_of(self.decision_function(X))

    def _predictions_of(self, scores: np.ndarray) -> np.ndarray:
        """The predictions for the `scores` of `decision_function`."""
        if self._has_targets:
            return scores
        return _multiclass.predicted(scores, self.classes, self.multi_class)

    @with_probabilities
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes of the rows of `X`, (n_samples, n_classes).

        With loss="log_loss" or "modified_huber"; see `PegasosClassifier.predict_proba`.
        """
        return self._probabilities(self._problem_scores(X))

    def _class_scores(self, scores: np.ndarray) -> np.ndarray:
        """Turn scores of problems into scores of `decision_function`."""
        if self._has_targets:
            return scores.ravel() if self.is_flat else scores
        if self.multi_class == "one_class":
            scores = np.where(
                np.abs(scores) <= _multiclass.NEAR * np.abs(self.intercept), 0, scores
            )
        return _multiclass.class_scores(scores, len(self.classes), self.multi_class)

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of the classes from scores of problems."""
        of_score = LOSSES[self.loss].probability
        return _multiclass.class_probabilities(
            scores, len(self.classes), self.multi_class, of_score
        )

    def to_estimator(self) -> Any:
        """The model as a fitted estimator, for pipelines, plots, ONNX and more.

        Its parameters are those that the model knows, such as `lam`, `loss` and the kernel; others
        have their defaults. It has no `n_iter_` and nothing of the training rows, such as
        `support_`. `fit` begins anew, and `partial_fit` is refused.

        Returns
        -------
        PegasosClassifier, PegasosRegressor, PegasosOneClass or one of these with a kernel
            If the model has a `scale`, a `sklearn.pipeline.Pipeline` of a
            `sklearn.preprocessing.StandardScaler` and one of these.

        Raises
        ------
        ValueError
            If the kernel is a function, or precomputed.
        """
        import pegasos

        kind = "Regressor" if self._has_targets else "Classifier"
        kind = "OneClass" if self.multi_class == "one_class" else kind
        fitted = getattr(pegasos, f"{self._MACHINE}{kind}")._from_model(self)
        if self.scale is None:
            return fitted
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scaler: Any = StandardScaler(with_mean=self.center is not None)
        vars(scaler).update(
            fitted._feature_attributes(), mean_=self.center, scale_=self.scale, var_=self.scale**2,
            n_samples_seen_=1,
        )  # fmt: skip
        vars(fitted).pop("feature_names_in_", None)  # the scaler returns arrays without names
        return make_pipeline(scaler, fitted)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to `path`, with any suffix, as an .npz archive of plain arrays.

        A file of this name is replaced whole.

        Raises
        ------
        ValueError
            If labels are neither numbers nor strings, or the kernel is a function or precomputed:
            the file could not stand alone.
        """
        _archive.save(path, self._arrays())

    def _arrays(self) -> dict[str, np.ndarray]:
        """The contents of the file: a ValueError if `load` would refuse them."""
        about, arrays = self._own()
        about |= {"format": self._FORMAT} | {name: getattr(self, name) for name in _Model._ABOUT}
        arrays |= {name: getattr(self, name) for name in _Model._ARRAYS}
        for name in self._OPTIONAL:
            given = getattr(self, name)
            if given is None:
                continue
            plain = _multiclass.plain(given)
            if plain.dtype.kind not in "fiubU" or plain.tolist() != given.tolist():
                what = (
                    "labels must be numbers or strings"
                    if name == "classes"
                    else f"{name} must be strings"
                )
                raise ValueError(f"{what} to be saved, got {given.tolist()}")
            arrays[name] = plain
        arrays[self._COEFFICIENTS], arrays["intercept"] = self._coefficients()
        for name in (self._COEFFICIENTS, "intercept"):
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} must be finite to be saved")
        return arrays | {"about": np.array(json.dumps(about))}

    def _own(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Contents that only files of this class have: plain values and arrays."""
        return {}, {}

    @classmethod
    def _from(cls, about: dict[str, Any], arrays: dict[str, Any]) -> Any:
        """The model of a file, whose arrays may not fit together."""
        return cls(**about, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model of this class from a file of `save`; see `pegasos.load`.

        Raises
        ------
        ValueError
            If the file holds no model of this class, or is damaged.
        """
        model = load(path)
        if not isinstance(model, cls):
            raise ValueError(  # noqa: TRY004 the file is at fault
                f"{os.fspath(path)} holds a {type(model).__name__}, not a {cls.__name__}; "
                "pegasos.load reads both"
            )
        return model

    def _check(self) -> None:
        """Raise a ValueError unless the arrays fit together."""
        _validate.choice("multi_class", self.multi_class, _multiclass.SCHEMES)
        _validate.choice("loss", self.loss, [*LOSSES, *TARGET_LOSSES])
        _validate.choice("zero_based", self.zero_based, [None, True, False])
        _validate.boolean("is_flat", self.is_flat)
        for name in ("label_name", "version"):
            if not isinstance(value := getattr(self, name), str | None):
                raise ValueError(  # noqa: TRY004 the file is at fault
                    f"{name} must be a string, got {value!r}"
                )
        if self._has_targets:
            self._check_targets()
        else:
            self._check_classes()
        n_problems, n_features = self._n_problems, self.n_features
        if n_features < 1:
            raise ValueError("there must be a feature at least")
        # A joint problem has one objective, but several weight vectors.
        n_objectives = 1 if self.multi_class == "crammer_singer" else n_problems
        shape_of_coefficients = self._coefficients()[0].shape
        for name, kind, shape, may_be in (
            (self._COEFFICIENTS, _FLOAT64, shape_of_coefficients, np.isfinite),
            ("intercept", _FLOAT64, (n_problems,), np.isfinite),
            ("objective", "f", (n_objectives,), lambda P: ~np.isinf(P)),  # NaN: not known
            ("dual_objective", "f", (n_objectives,), lambda D: ~np.isinf(D)),
            ("n_steps", "i", (n_objectives,), lambda steps: steps >= 0),
            ("feature_names", "U", (n_features,), lambda names: np.True_),
            ("center", _FLOAT64, (n_features,), np.isfinite),
            ("scale", _FLOAT64, (n_features,), lambda scale: np.isfinite(scale) & (scale > 0)),
        ):
            array = getattr(self, name)
            if array is None:
                continue
            if array.shape != shape or kind not in (array.dtype.kind, array.dtype.str):
                raise ValueError(f"{name} has dtype {array.dtype}, shape {array.shape}")
            if not may_be(array).all():
                raise ValueError(f"{name} has numbers that no model has, such as infinity")

    def _check_classes(self) -> None:
        if self.classes is None or self.classes.ndim != 1 or self.classes.dtype.kind not in "fiubU":
            raise ValueError("classes must be one-dimensional numbers or strings")
        if len(self.classes) < 2:
            raise ValueError(f"there must be two classes at least, got {len(self.classes)}")
        if not np.array_equal(np.unique(self.classes), self.classes):  # false for NaN, too
            raise ValueError(f"classes must be distinct, finite and sorted, got {self.classes}")
        numbers = np.arange(len(self.classes))
        if self.multi_class == "multilabel" and not np.array_equal(self.classes, numbers):
            raise ValueError(f"classes must be numbers of columns of y, got {self.classes}")
        if self.multi_class == "one_class":
            if not np.array_equal(self.classes, _multiclass.ONE_CLASS_LABELS):
                raise ValueError(f"classes of one class must be -1 and 1, got {self.classes}")
            if self.loss != "hinge":
                raise ValueError(f"loss of one class must be 'hinge', got {self.loss!r}")
        if self.epsilon is not None:
            raise ValueError(f"epsilon must be None with loss={self.loss!r}, got {self.epsilon!r}")

    def _check_targets(self) -> None:
        if self.classes is not None:
            raise ValueError(f"classes must be None with loss={self.loss!r}")
        if self.epsilon is not None:
            _validate.real("epsilon", self.epsilon, at_least=0)
        if (self.epsilon is not None) != (self.loss in EPSILON_LOSSES):
            raise ValueError(f"epsilon is {self.epsilon!r} with loss={self.loss!r}")
        if self.n_steps.ndim != 1 or not 1 <= len(self.n_steps) <= (1 if self.is_flat else np.inf):
            raise ValueError(f"n_steps has shape {self.n_steps.shape}, is_flat is {self.is_flat}")

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients, a row a problem, and intercepts as float64; users may set them."""
        name = self._COEFFICIENTS
        matrix = _validate.floats(name, getattr(self, name))
        intercept = _validate.floats("intercept", self.intercept)
        n_problems = self._n_problems
        if matrix.ndim != 2 or len(matrix) != n_problems or intercept.shape != (n_problems,):
            raise ValueError(
                f"{name} and intercept must have {n_problems} rows for {self._answers}, "
                f"got shapes {matrix.shape} and {intercept.shape}"
            )
        return matrix, intercept

    @property
    def n_features(self) -> int:
        """Columns that X must have; subclasses define it."""
        raise NotImplementedError

    def _check_names(self, names: Any) -> None:
        """Raise unless these column names, if known, are as in training."""
        if self.feature_names is None or names is None:
            return
        given, known = list(names), self.feature_names.tolist()
        if given != known:
            raise ValueError(
                f"X must have the columns of training, {reprlib.repr(known)}, got "
                f"{reprlib.repr(given)}"
            )


def standardized(X: Any, center: np.ndarray | None, scale: np.ndarray) -> Any:
    """(X - center)/scale, a copy of the same type; dense if rows are centred."""
    if _validate.is_sparse(X):
        if center is not None:
            return standardized(X.toarray(), center, scale)
        X = X.copy()
        X.data /= scale[X.indices]
        return X
    return np.ascontiguousarray((X - (0 if center is None else center)) / scale, dtype=X.dtype)


def _numbers(scores: np.ndarray) -> np.ndarray:
    """Scores of problems, or a ValueError if they are not numbers."""
    # A plain sum finds infinite numbers and NaN in one pass. Only NaN is refused.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isnan(scores.sum()) and np.isnan(scores).any():
            at = int(np.argmax(np.isnan(scores).any(axis=1)))
            raise ValueError(
                f"the score of X[{at}] is not a number: coefficients are not finite, or X is "
                "too large for float64"
            )
    return scores


# Overflow leads to NaN in the end, which has an error message.
@np.errstate(over="ignore", under="ignore", invalid="ignore")
def kernel_scores(
    X: Any, support: Any, dual_coef: np.ndarray, intercept: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Scores of the rows of `X`, which must be valid, in pieces of bounded size.

    For a precomputed kernel, `X` has the kernel values with the support vectors.
    """
    n_support, kernel = dual_coef.shape[1], support.kernel
    if not kernel.is_precomputed and n_support != len(support):
        raise ValueError(f"dual_coef has shape {dual_coef.shape} for {len(support)} vectors")
    if n_support == 0:
        return _numbers(np.tile(intercept, (X.shape[0], 1)))
    if kernel.is_precomputed or kernel.is_linear:
        # Sums by the core have a fixed order: it does not matter which rows are scored together.
        coef = dual_coef if kernel.is_precomputed else support.weights(dual_coef)
        rows, _ = _validate.rows(X, checked=True)
        return _numbers(_rows.decision_function(rows, coef, intercept))
    n, scores = X.shape[0], np.tile(intercept, (X.shape[0], 1))
    coef = dual_coef.T.astype(support.dtype)
    size = max(1, _PREDICT_BYTES // (8 * n_support))
    if n >= _MANY and kernel.is_hollow(support.X) and kernel.is_hollow(X):
        support = kernel.points(_rows.without_zeros(support.X))
    support.core.transpose()  # before threads need it

    def add(first: int, on_poll: Callable[[], None]) -> None:
        part = kernel.points(_alike(X[first : first + size], support.X))
        scores[first : first + size] += part.against(support, on_poll=on_poll) @ coef
        on_poll()

    jobs = [functools.partial(add, first) for first in range(0, n, size)]
    with _threads.blas.one_thread():
        _core.run_jobs(jobs, 1 if callable(kernel.name) else n_threads)
    return _numbers(scores)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LinearModel(_Model):
    """A trained linear machine; made by `pegasos.fit` and by `to_model` of linear estimators.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, n_features)
        Weights. One problem for two classes; else one per class ("ovr") or label ("multilabel"),
        or one per pair of classes in the order (0, 1), (0, 2), ..., (1, 2), ... ("ovo"). For
        regression, one per output.
    intercept : ndarray of shape (n_problems,)
    classes : ndarray of shape (n_classes,) or None
        The labels, sorted. In a problem of two classes the later one has the positive scores. None
        for regression: scores are then what is predicted.
    multi_class : {"ovr", "ovo", "crammer_singer", "multilabel", "one_class"}
        "crammer_singer": one joint problem with a weight vector for each class, and one objective.
        "multilabel": each row may have several labels, and `predict` returns zeros and ones of
        shape (n_samples, n_classes). Classes are then the numbers of the columns of y.
        "one_class": `classes` are -1 for outliers, whose scores are negative, and 1.
    lam : float
        Regularisation λ; of a one-class machine, nu.
    objective : ndarray of shape (n_problems,)
        P(w) of this model on the training rows.
    dual_objective : ndarray of shape (n_problems,)
        A lower bound on P: no model has an objective below it.
    duality_gap : ndarray of shape (n_problems,)
        `objective` - `dual_objective`.
    n_steps : ndarray of shape (n_problems,)
        Steps taken.
    loss : str
        "hinge", "squared_hinge", "modified_huber" or "log_loss", the last two of which have
        `predict_proba`; or a loss of `PegasosRegressor`.
    epsilon : float or None
        The epsilon of the loss, if it has one.
    is_flat : bool
        Whether `predict` of a regression returns a one-dimensional array, as y was.
    feature_names : ndarray of str of shape (n_features,) or None
        Names of the columns that an estimator was trained on. A data frame with other columns is
        refused.
    label_name : str or None
        Name of the column of the label in the table that `pegasos train` read; None if it had none.
    zero_based : bool or None
        Whether the LIBSVM text that `pegasos train` read counts features from 0; None for other
        rows.
    center, scale : ndarray of shape (n_features,) or None
        Set by ``pegasos train --scale`` and by a pipeline with a scaler (`pegasos.to_model`): the
        weights are those of (x - `center`) / `scale`. `center` is None if rows are only divided, as
        sparse ones are.
    version : str or None
        The version of pegasos that trained the model; None if its file does not say.
    alpha_counts : ndarray of shape (n_problems, n_samples) or None
        As `PegasosClassifier.alpha_counts_`. None unless Pegasos made the model
        (``solver="pegasos"``, `n_steps` or `order`). Not saved.

    Examples
    --------
    >>> import numpy as np, pegasos
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]])
    >>> model = pegasos.fit(X, ["left", "left", "right", "right"], lam=0.1, random_state=0)
    >>> model.coef.shape, model.classes.tolist()
    ((1, 2), ['left', 'right'])
    >>> model.predict([[5.0, 0.0]]).tolist()
    ['right']
    """

    coef: np.ndarray
    alpha_counts: np.ndarray | None = None

    _FORMAT = "pegasos linear model 1"
    _MACHINE = "Pegasos"
    _COEFFICIENTS = "coef"
    _ARRAYS = (*_Model._ARRAYS, "coef")

    @property
    def n_features(self) -> int:
        """Columns that X must have."""
        return self._coefficients()[0].shape[1]

    def _problem_scores(self, X: Any, *, checked: bool = False) -> np.ndarray:
        """Scores of the rows of `X` by each problem; `checked` as in `_validate.rows`."""
        self._check_names(_validate.column_names(X))
        coef, intercept = self._coefficients()
        if self.scale is not None:  # score (x - center)/scale without a copy of the rows
            coef = coef / self.scale
            intercept = intercept if self.center is None else intercept - coef @ self.center
        rows, _ = _validate.rows(X, n_features=coef.shape[1], checked=checked)
        return _numbers(_rows.decision_function(rows, coef, intercept))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class KernelModel(_Model):
    """A trained kernel machine; made by `to_model` of kernel estimators.

    Attributes
    ----------
    support : pegasos.kernels.Points
        The support vectors with their kernel.
    dual_coef : ndarray of shape (n_problems, n_support)
    intercept, classes, multi_class, lam, loss, epsilon, is_flat, feature_names
        As in `LinearModel`.
    objective, dual_objective, duality_gap, n_steps, label_name, zero_based, center, scale, version
        As in `LinearModel`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pegasos import KernelPegasosClassifier
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> clf = KernelPegasosClassifier(lam=1e-3, gamma=2.0, random_state=0).fit(X, y)
    >>> model = clf.to_model()
    >>> model.kernel["name"], model.kernel["gamma"]
    ('rbf', 2.0)
    >>> print("predicted:", model.predict(X[:8]), "true:", y[:8])
    predicted: [0 1 0 1 1 1 0 1] true: [0 1 0 1 1 1 0 1]
    """

    support: Any
    dual_coef: np.ndarray

    _FORMAT = "pegasos kernel model 1"
    _MACHINE = "KernelPegasos"
    _COEFFICIENTS = "dual_coef"
    _ARRAYS = (*_Model._ARRAYS, "dual_coef", "vectors", "indices", "indptr")
    _ABOUT = (*_Model._ABOUT, "kernel", "shape")

    @property
    def n_features(self) -> int:
        """Columns that X must have; for a precomputed kernel, one per support vector."""
        if self.support.kernel.is_precomputed:
            return self._coefficients()[0].shape[1]
        return self.support.X.shape[1]

    def _problem_scores(self, X: Any, *, checked: bool = False, n_threads: int = 1) -> np.ndarray:
        """Scores by each problem, in pieces of bounded size; `checked`: X is known to be good.

        For a precomputed kernel, X has only the values with the support vectors.
        """
        dual_coef, intercept = self._coefficients()
        if not checked:
            from sklearn.utils import check_array

            self._check_names(_validate.column_names(X))
            X = _validate.converted(check_array, X)
            _validate.finite("X", X)
            X = _validate.aligned(X)
            _validate.same_features(X.shape[1], self.n_features)
        if self.scale is not None:
            X = standardized(X, self.center, self.scale)
        return kernel_scores(X, self.support, dual_coef, intercept, n_threads)

    # ---- The file --------------------------------------------------------------------------------

    @property
    def kernel(self) -> dict[str, Any]:
        """The kernel's name and parameters, as the file has them."""
        return self.support.kernel.stored

    def _own(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        from pegasos import kernels

        kernel = self.support.kernel
        if not kernel.is_stored:
            raise ValueError(
                f"a model whose kernel is {getattr(kernel.name, '__name__', kernel.name)!r} cannot "
                "be saved without its kernel: keep the estimator with joblib (with cloudpickle if "
                "a function is a lambda or of __main__), or take a kernel that has a name, one of "
                f"{', '.join(kernels.stored_names())}"
            )
        X, empty = self.support.X, np.empty(0, np.int64)  # dense, or parts of a sparse matrix
        parts = (X.data, X.indices, X.indptr) if _validate.is_sparse(X) else (X, empty, empty)
        about = {"kernel": self.kernel, "shape": [int(n) for n in X.shape]}
        return about, dict(zip(("vectors", "indices", "indptr"), parts, strict=True))

    @classmethod
    def _from(cls, about: dict[str, Any], arrays: dict[str, Any]) -> Any:
        from pegasos import kernels

        about = dict(about)
        kernel, shape = kernels.from_stored(about.pop("kernel")), about.pop("shape")
        if not isinstance(shape, list):
            raise ValueError(f"shape must be two sizes, got {shape!r}")  # noqa: TRY004 damaged
        shape = tuple(shape)
        vectors, indices, indptr = (arrays.pop(k) for k in ("vectors", "indices", "indptr"))
        if vectors.dtype not in (np.float32, np.float64) or not np.isfinite(vectors).all():
            raise ValueError(f"vectors must be finite numbers, got dtype {vectors.dtype}")
        if len(indptr):
            vectors = _validate.csr(vectors, indices, indptr, shape)
        if vectors.ndim != 2 or vectors.shape != shape:
            raise ValueError(f"vectors have shape {vectors.shape}, not {shape}")
        return cls(support=kernel.points(vectors), **about, **arrays)

    def _check(self) -> None:
        super()._check()
        if self.dual_coef.shape[1] != len(self.support):
            raise ValueError(
                f"dual_coef has shape {self.dual_coef.shape} for {len(self.support)} vectors"
            )
        if np.abs(self.dual_coef).max(initial=0) > np.finfo(self.support.dtype).max:
            raise ValueError(f"dual_coef has numbers that {self.support.dtype} cannot hold")


def to_model(estimator: Any) -> LinearModel | KernelModel:
    """Make a model of a fitted estimator, or of a pipeline of a scaler and an estimator.

    Parameters
    ----------
    estimator : object
        A fitted estimator or search of pegasos, or a search of scikit-learn over one; a pipeline of
        a `sklearn.preprocessing.StandardScaler` and one of these, or a search over such a pipeline.

    Returns
    -------
    LinearModel or KernelModel
        For a pipeline, it has the `center` and `scale` of the scaler, and takes the rows that the
        pipeline takes.

    Raises
    ------
    TypeError
        If a pipeline has other steps.

    Examples
    --------
    >>> import pegasos
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), pegasos.PegasosClassifier(random_state=0))
    >>> model = pegasos.to_model(pipeline.fit(X, y))
    >>> print("model:", model.predict(X[::30]), "pipeline:", pipeline.predict(X[::30]))
    model: [0 0 1 1 2] pipeline: [0 0 1 1 2]
    """
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.validation import check_is_fitted

    given = machine = estimator = getattr(estimator, "best_estimator_", estimator)
    scalers: list[Any] = []
    if isinstance(estimator, Pipeline) and estimator.steps:
        *steps, given = (step for _, step in estimator.steps)
        scalers = [step for step in steps if step is not None and step != "passthrough"]
        machine = getattr(given, "best_estimator_", given)
    are_known = len(scalers) <= 1 and all(isinstance(s, StandardScaler) for s in scalers)
    if not are_known or not hasattr(machine, "to_model"):
        steps = [type(step).__name__ for step in (*scalers, given)]
        raise TypeError(
            "estimator must be one of pegasos, or a pipeline of a StandardScaler and one, got "
            f"{', '.join(steps)}: keep others with joblib or skops"
        )
    model: LinearModel | KernelModel = machine.to_model()
    for scaler in scalers:
        check_is_fitted(scaler)
        scale = np.ones(model.n_features) if scaler.scale_ is None else scaler.scale_
        names = getattr(scaler, "feature_names_in_", None)
        center = scaler.mean_ if scaler.with_mean else None
        model = dataclasses.replace(model, center=center, scale=scale, feature_names=names)
    return model


def load(path: str | os.PathLike[str]) -> LinearModel | KernelModel:
    """Read a linear or kernel model from a file of `save`. Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    LinearModel or KernelModel

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If the file holds no model, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np, pegasos
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]])
    >>> model = pegasos.fit(X, [0, 0, 1, 1], lam=0.1, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     model.save(path)
    ...     again = pegasos.load(path)
    >>> rows = [[5.0, 0.0], [0.0, 2.0]]
    >>> print("saved:", model.predict(rows), "loaded:", again.predict(rows))
    saved: [1 0] loaded: [1 0]
    """
    return with_arrays(path)[0]


def with_arrays(
    path: _archive.Path, folder: str | None = None
) -> tuple[LinearModel | KernelModel, dict[str, np.ndarray]]:
    """A model and all arrays of its file; for `folder`, see `pegasos.io._archive.load`."""
    name = _validate.path("path", path)
    try:
        arrays = _archive.load_sealed(path, folder)
        if "about" not in arrays and "search.checkpoint" in arrays:
            raise ValueError("it has a search under way, and no model yet")
        about = json.loads(str(arrays["about"]))
        kinds = {kind._FORMAT: kind for kind in (LinearModel, KernelModel)}
        if not isinstance(about["format"], str) or about["format"] not in kinds:
            raise ValueError(f"its format is {about['format']!r}, not one of {list(kinds)}")
        kind = kinds[about["format"]]
        may_miss = {"epsilon": None, "is_flat": False, "label_name": None, "version": None}
        about = may_miss | about
        about = {name: about[name] for name in kind._ABOUT}
        about["lam"] = _validate.lam("lam", about["lam"])
        names = *kind._ARRAYS, *(name for name in kind._OPTIONAL if name in arrays)
        model = kind._from(about, {name: np.ascontiguousarray(arrays[name]) for name in names})
        model._check()
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        what = f"it{what.removeprefix(name)}" if what.startswith(f"{name} ") else what
        raise ValueError(f"{name} is not a pegasos model: {what}") from None
    return model, arrays


def _alike(part: Any, other: Any) -> Any:
    """Rows in the layout and type of `other`, or an error if that type cannot hold them."""
    with np.errstate(over="ignore"):  # the check follows
        if _validate.is_sparse(other):
            from scipy import sparse

            csr = sparse.csr_array(part) if _validate.is_sparse(part) else _rows.without_zeros(part)
            alike = csr.astype(other.dtype, copy=False)
        else:
            dense = part.toarray() if _validate.is_sparse(part) else part
            alike = np.ascontiguousarray(dense, dtype=other.dtype)
    if other.dtype.itemsize < part.dtype.itemsize:
        _validate.finite("X", alike)
    return alike
