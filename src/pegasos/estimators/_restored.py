"""From a model back to a fitted estimator."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pegasos
from pegasos.io._model import KernelModel, LinearModel


def estimator(model: LinearModel | KernelModel) -> Any:
    """What `to_estimator` of models returns."""
    is_one_class, scheme = model.multi_class == "one_class", model.multi_class
    kind = "OneClass" if is_one_class else "Regressor" if model.has_targets else "Classifier"
    parameters: dict[str, Any] = {"nu": model.lam}
    if not is_one_class:
        parameters = {"lam": model.lam, "loss": model.loss}
    if model.epsilon is not None:
        parameters["epsilon"] = model.epsilon
    if kind == "Classifier" and scheme != "multilabel":
        parameters["multi_class"] = scheme
    attributes: dict[str, Any]
    if isinstance(model, LinearModel):
        attributes = {"coef_": model.coef[0] if model.is_flat else model.coef}
    else:
        if not model.support.kernel.is_stored:
            raise ValueError(
                f"a model whose kernel is {model.support.kernel.name!r} is no estimator without it"
            )
        parameters |= {"kernel" if k == "name" else k: v for k, v in model.kernel.items()}
        attributes = {
            "support_vectors_": model.support.X, "dual_coef_": model.dual_coef,
            "_support": model.support, "_squared_norms": None,
        }  # fmt: skip
    if kind == "Classifier":
        attributes |= {"classes_": model.classes, "_scheme": scheme, "_is_sparse": False}
    elif kind == "Regressor":
        attributes |= {"n_outputs_": model.n_problems, "_is_flat": model.is_flat}
    if not np.isnan(model.objective).all():
        for name in ("objective", "dual_objective", "duality_gap"):
            attributes[f"{name}_"] = getattr(model, name)
    names = model.feature_names
    known: dict[str, Any] = {"n_features_in_": model.n_features}
    known |= {} if names is None else {"feature_names_in_": names.astype(object)}
    fitted = getattr(pegasos, f"{'' if 'coef_' in attributes else 'Kernel'}Pegasos{kind}")(
        **parameters
    )
    units = (1.0,) * (model.n_problems if kind == "Regressor" else 1)  # nothing goes on from these
    settings = fitted._settings_for(model.lam, SimpleNamespace(units=units))
    attributes |= {
        "intercept_": model.intercept, "lam_": model.lam, "n_steps_": model.n_steps,
        "_fitted": fitted._choices(settings), "_of_file": {"zero_based": model.zero_based},
    }  # fmt: skip
    if model.scale is None:
        fitted._take(attributes | known)
        return fitted
    fitted._take(attributes | {"n_features_in_": model.n_features})
    has_mean = model.center is not None
    scaler = StandardScaler(with_mean=has_mean)
    vars(scaler).update(
        known, mean_=model.center, scale_=model.scale, var_=model.scale**2, n_samples_seen_=1
    )
    return make_pipeline(scaler, fitted)
