"""Support vector machines by Pegasos.

``import pegasos`` loads NumPy and the extension only; the estimators bring scikit-learn with them
when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pegasos._functional import C_from_lam, decision_function, fit, lam_from_C
from pegasos._model import KernelModel, LinearModel, load

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pegasos._kernel import KernelPegasosClassifier
    from pegasos._linear import PegasosClassifier
    from pegasos._search import KernelPegasosClassifierCV, PegasosClassifierCV

_ESTIMATORS = {
    "KernelPegasosClassifier": "pegasos._kernel",
    "KernelPegasosClassifierCV": "pegasos._search",
    "PegasosClassifier": "pegasos._linear",
    "PegasosClassifierCV": "pegasos._search",
}

__all__ = [
    "C_from_lam",
    "KernelModel",
    "KernelPegasosClassifier",
    "KernelPegasosClassifierCV",
    "LinearModel",
    "PegasosClassifier",
    "PegasosClassifierCV",
    "__version__",
    "decision_function",
    "fit",
    "lam_from_C",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _ESTIMATORS:
        return getattr(importlib.import_module(_ESTIMATORS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
