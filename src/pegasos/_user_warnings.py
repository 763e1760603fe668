"""Warnings that point at the line in the user's code that called for a fit."""

import sys
import warnings
from types import FrameType
from typing import Any

# Packages between that line and a warning. Pipelines and cross-validation call `fit` too, threads
# and processes call these, and `numpy.errstate` wraps functions.
_BETWEEN = {"pegasos", "sklearn", "joblib", "numpy", *sys.stdlib_module_names}


class ConstantPredictionWarning(UserWarning):
    """Warn that a model predicts no better than a constant, or hardly better.

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
    """Issue a warning at the innermost line of the user's code.

    The stack of a worker has no such line; it gets the outermost line of this package.
    """
    frame: FrameType | None = sys._getframe(1)
    level = ours = 2
    while frame is not None and (package := _package(frame.f_globals)) in _BETWEEN:
        ours = level if package == "pegasos" else ours
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=ours if frame is None else level)


def _package(names: dict[str, Any]) -> str:
    """The package of a frame with these globals, also for a module run by ``python -m``."""
    spec = names.get("__spec__")
    return str(names.get("__name__") if spec is None else spec.name).partition(".")[0]
