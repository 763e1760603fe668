"""A trained linear model: scores, predictions, and a file format without pickle."""

import json
import os
from dataclasses import dataclass

import numpy as np

from pegasos import _archive, _problems, _session, _validate

_FORMAT = "pegasos linear model 1"
_ARRAYS = ("coef", "intercept", "classes", "objective", "n_steps")


@dataclass(frozen=True, eq=False)
class LinearModel:
    """What `pegasos.fit` returns.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, n_features)
        Weights, in the type of the training rows. One problem for two classes; else one per class
        ("ovr") or one per pair of classes in the order (0, 1), (0, 2), ..., (1, 2), ... ("ovo").
    intercept : ndarray of shape (n_problems,)
    classes : ndarray of shape (n_classes,)
        The labels, sorted. In a problem of two classes the later one has the positive scores.
    multi_class : {"ovr", "ovo"}
    lam : float
    objective : ndarray of shape (n_problems,)
        P(w) of this model on the training rows.
    n_steps : ndarray of shape (n_problems,)
        Steps taken.
    alpha_counts : ndarray of shape (n_problems, n_samples) or None
        How often each training row was drawn and violated its margin. Not saved.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    multi_class: str
    lam: float
    objective: np.ndarray
    n_steps: np.ndarray
    alpha_counts: np.ndarray | None = None

    def decision_function(self, X):
        """Scores of the rows of `X`; see `pegasos.decision_function`."""
        return self.scores(X)

    def scores(self, X, *, checked=False):
        """`decision_function`; `checked` as in `_validate.rows`."""
        rows, dtype = _validate.rows(X, n_features=self.coef.shape[1], checked=checked)
        coef = self.coef.astype(dtype, copy=False)
        scores = _session.decision_function(rows, coef, self.intercept)
        return _problems.class_scores(scores, len(self.classes), self.multi_class)

    def predict(self, X):
        """Predicted labels of the rows of `X`."""
        return self.labels_of(self.decision_function(X))

    def labels_of(self, scores):
        """The labels that win by `scores`, as `decision_function` returns them."""
        return self.classes[_problems.winners(scores)]

    def save(self, path):
        """Write the model to `path` as an .npz archive of plain arrays, replacing it whole."""
        classes = self.classes
        if classes.dtype == object:  # from a list or a data frame: of one kind after all?
            classes = np.array(classes.tolist())
        if classes.dtype.kind not in "fiubU" or classes.tolist() != self.classes.tolist():
            raise ValueError(
                f"labels must be numbers or strings to be saved, got {self.classes.tolist()}"
            )
        about = {"format": _FORMAT, "multi_class": self.multi_class, "lam": self.lam}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        _archive.save(path, {**arrays, "about": np.array(json.dumps(about)), "classes": classes})

    @classmethod
    def load(cls, path):
        """Read a model written by `save`. Nothing in the file is executed.

        Raises
        ------
        ValueError
            If the file is not such a model, or not a whole one.
        """
        try:
            arrays = _archive.load(path)
            about = json.loads(str(arrays["about"]))
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']!r}, not {_FORMAT!r}")
            model = cls(
                multi_class=about["multi_class"],
                lam=_validate.real("lam", about["lam"], above=0),
                **{name: np.ascontiguousarray(arrays[name]) for name in _ARRAYS},
            )
            model._check()
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{os.fspath(path)} is not a pegasos model: {what}") from None
        return model

    def _check(self):
        """Raise a ValueError unless the arrays fit together."""
        _validate.choice("multi_class", self.multi_class, ["ovr", "ovo"])
        if self.classes.ndim != 1 or self.classes.dtype.kind not in "fiubU":
            raise ValueError("classes must be one-dimensional numbers or strings")
        n_problems = _problems.count(len(self.classes), self.multi_class)
        if len(self.classes) < 2 or self.coef.ndim != 2 or self.coef.shape[0] != n_problems:
            raise ValueError(
                f"coef has shape {self.coef.shape} for {len(self.classes)} classes, "
                f"multi_class={self.multi_class!r}"
            )
        if self.coef.dtype not in (np.float32, np.float64) or self.coef.shape[1] < 1:
            raise ValueError(f"coef has dtype {self.coef.dtype}, shape {self.coef.shape}")
        if self.intercept.shape != (n_problems,) or self.intercept.dtype != np.float64:
            raise ValueError(
                f"intercept has dtype {self.intercept.dtype}, shape {self.intercept.shape}"
            )
        if not (np.isfinite(self.coef).all() and np.isfinite(self.intercept).all()):
            raise ValueError("coef or intercept is not finite")
