"""Warnings that point at the line of the user's that asked for a fit."""

import sys
import warnings
from types import FrameType
from typing import Any

# Packages between that line and a warning: pipelines and cross-validation call `fit`, too,
# threads and processes call these, and `numpy.errstate` wraps functions.
_BETWEEN = {"pegasos", "sklearn", "joblib", "numpy", *sys.stdlib_module_names}


class ConstantPredictionWarning(UserWarning):
    """Warn of a model that predicts no better than a constant, or hardly.

    A classifier predicts one class for all training rows, a regressor has about the mean loss of a
    constant, or a one-class machine has w = 0.

    Examples
    --------
    >>> import numpy as np, pegasos, warnings
    >>> X, y = np.linspace(0, 1, 100)[:, None], np.arange(100) < 5
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", pegasos.ConstantPredictionWarning)
    ...     clf = pegasos.PegasosClassifier().fit(X, y)
    >>> print(*set(clf.predict(X)))
    False
    """


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning of the innermost line that is the user's.

    A worker's stack has no such line; the outermost one of this package stands for it.
    """
    frame: FrameType | None = sys._getframe(1)
    level = ours = 2
    while frame is not None and (package := _package(frame.f_globals)) in _BETWEEN:
        ours = level if package == "pegasos" else ours
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=ours if frame is None else level)


def _package(names: dict[str, Any]) -> str:
    """The package that a frame with these globals is of, also of a module run by ``python -m``."""
    spec = names.get("__spec__")
    return str(names.get("__name__") if spec is None else spec.name).partition(".")[0]
