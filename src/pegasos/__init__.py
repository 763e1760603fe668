"""Support vector machines by Pegasos.

``import pegasos`` loads only NumPy and the extension. The estimators load scikit-learn later.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pegasos._functional import C_from_lam, decision_function, fit, lam_from_C
from pegasos._user_warnings import ConstantPredictionWarning
from pegasos.io._model import KernelModel, LinearModel, load, to_model

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pegasos.estimators._kernel import KernelPegasosClassifier
    from pegasos.estimators._linear import PegasosClassifier
    from pegasos.estimators._one_class import KernelPegasosOneClass, PegasosOneClass
    from pegasos.estimators._regression import KernelPegasosRegressor, PegasosRegressor
    from pegasos.estimators._search import (
        KernelPegasosClassifierCV,
        KernelPegasosRegressorCV,
        PegasosClassifierCV,
        PegasosRegressorCV,
    )
    from pegasos.io._blocks import Blocks

_ESTIMATORS = {
    "Blocks": "pegasos.io._blocks",
    "KernelPegasosClassifier": "pegasos.estimators._kernel",
    "KernelPegasosClassifierCV": "pegasos.estimators._search",
    "KernelPegasosOneClass": "pegasos.estimators._one_class",
    "KernelPegasosRegressor": "pegasos.estimators._regression",
    "KernelPegasosRegressorCV": "pegasos.estimators._search",
    "PegasosClassifier": "pegasos.estimators._linear",
    "PegasosClassifierCV": "pegasos.estimators._search",
    "PegasosOneClass": "pegasos.estimators._one_class",
    "PegasosRegressor": "pegasos.estimators._regression",
    "PegasosRegressorCV": "pegasos.estimators._search",
}

__all__ = [
    "Blocks",
    "C_from_lam",
    "ConstantPredictionWarning",
    "KernelModel",
    "KernelPegasosClassifier",
    "KernelPegasosClassifierCV",
    "KernelPegasosOneClass",
    "KernelPegasosRegressor",
    "KernelPegasosRegressorCV",
    "LinearModel",
    "PegasosClassifier",
    "PegasosClassifierCV",
    "PegasosOneClass",
    "PegasosRegressor",
    "PegasosRegressorCV",
    "__version__",
    "decision_function",
    "fit",
    "lam_from_C",
    "load",
    "to_model",
]


def __getattr__(name: str) -> Any:
    if name in _ESTIMATORS:
        found = globals()[name] = getattr(importlib.import_module(_ESTIMATORS[name]), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
