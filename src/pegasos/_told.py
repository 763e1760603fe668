"""Warnings that point at the line of the user's that asked for a fit."""

import sys
import warnings

# Packages between this line and a warning: pipelines and cross-validation call `fit`, too.
_BETWEEN = {"pegasos", "sklearn", "joblib"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning of the innermost line that is not of this package or scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__")).partition(".")[0]
