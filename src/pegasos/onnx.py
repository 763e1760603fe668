"""Export to ONNX by skl2onnx (extra ``onnx``): call `register`, then ``skl2onnx.to_onnx``.

The graph computes in double precision whatever the type of its input, so that decisions are those
of the estimator, but for scores so near to 0 or to one another that rounding decides. Its outputs
are ``label`` and ``scores``, which `predict` and `decision_function` return; the estimators have no
probabilities.
"""

import functools
from typing import Any

import numpy as np
from onnx import TensorProto
from skl2onnx import update_registered_converter
from skl2onnx.algebra import onnx_ops
from skl2onnx.common.data_types import (
    BooleanTensorType,
    DoubleTensorType,
    Int64TensorType,
    StringTensorType,
)

import pegasos
from pegasos.problems import _columns as _problems
from pegasos.problems import _validate

# Types of labels, by NumPy's kinds.
_LABELS = {
    "b": (np.bool_, BooleanTensorType),
    "i": (np.int64, Int64TensorType),
    "u": (np.int64, Int64TensorType),
    "f": (np.float64, DoubleTensorType),
    "U": (np.str_, StringTensorType),
}


def register() -> None:
    """Tell skl2onnx of pegasos' estimators; they may then be exported alone or in a pipeline.

    ``skl2onnx.to_onnx`` raises a ValueError for a kernel that is a function, and for labels that
    are neither numbers nor strings.
    """
    for name in pegasos._ESTIMATORS:
        update_registered_converter(
            getattr(pegasos, name), name, _set_shapes, _convert, overwrite=True, parser=_parse
        )


class _Operators:
    """ONNX operators in the version that was asked for."""

    def __init__(self, opset: int) -> None:
        self._opset = opset

    def __getattr__(self, name: str) -> functools.partial[Any]:
        return functools.partial(getattr(onnx_ops, f"Onnx{name}"), op_version=self._opset)


def _labels(classes: np.ndarray) -> np.ndarray:
    if classes.dtype == object:  # from a list or a data frame: of one kind after all?
        classes = np.array(classes.tolist())
    if classes.dtype.kind not in _LABELS:
        raise ValueError(
            f"labels must be numbers or strings to be exported, got {classes.tolist()}"
        )
    return classes.astype(_LABELS[classes.dtype.kind][0])


def _parse(
    scope: Any,
    model: Any,
    inputs: list[Any],
    custom_parsers: Any = None,  # skl2onnx gives it; there is nothing inside
) -> list[Any]:
    """Declare the node of a fitted estimator and its outputs."""
    operator = scope.declare_local_operator(type(model).__name__, model)
    operator.inputs.extend(inputs)
    label_type = _LABELS[_labels(model.classes_).dtype.kind][1]
    for name, kind in (("label", label_type), ("scores", DoubleTensorType)):
        operator.outputs.append(scope.declare_local_variable(name, kind()))
    outputs: list[Any] = operator.outputs
    return outputs


def _set_shapes(operator: Any) -> None:
    n_classes = len(operator.raw_operator.classes_)
    label, scores = operator.outputs
    label.type.shape = [None]
    scores.type.shape = [None] if n_classes == 2 else [None, n_classes]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the graph of `decision_function` and `predict`."""
    estimator = operator.raw_operator
    estimator = getattr(estimator, "best_estimator_", estimator)  # of a search
    model = estimator.to_model()
    ops = _Operators(container.target_opset)
    columns = [ops.Cast(x, to=TensorProto.DOUBLE) for x in operator.inputs]
    X = ops.Concat(*columns, axis=1) if len(columns) > 1 else columns[0]
    if isinstance(model, pegasos.LinearModel):
        coef = model.coef
    elif not len(estimator.support_) and not model.support.kernel.is_function:
        coef = np.zeros(
            (len(model.intercept), estimator.n_features_in_)
        )  # ONNX has no empty arrays
    else:
        X, coef = _kernel_values(ops, X, estimator, model.support), model.dual_coef
    scores = ops.Add(ops.MatMul(X, np.ascontiguousarray(coef.T)), model.intercept)
    label, out = operator.outputs
    if len(model.classes) == 2:
        scores = ops.Squeeze(scores, np.array([1]), output_names=[out.full_name])
        winners = ops.Cast(ops.Greater(scores, np.zeros(1)), to=TensorProto.INT64)
    else:
        if model.multi_class == "ovo":
            scores = _votes(ops, scores, len(model.classes))
        scores = ops.Identity(scores, output_names=[out.full_name])
        winners = ops.ArgMax(scores, axis=1, keepdims=0)
    ops.Gather(_labels(model.classes), winners, output_names=[label.full_name]).add_to(
        scope, container
    )
    scores.add_to(scope, container)


def _kernel_values(ops: _Operators, X: Any, estimator: Any, support: Any) -> Any:
    """Kernel values of `X` with the support vectors; see `pegasos.kernels.Kernel.onnx`."""
    Z = support.X.toarray() if _validate.is_sparse(support.X) else support.X
    return support.kernel.onnx(ops, X, np.asarray(Z, dtype=np.float64), estimator.support_)


def _votes(ops: _Operators, scores: Any, n_classes: int) -> Any:
    """Scores of classes from those of pairs; see `pegasos.problems._columns.class_scores`."""
    pairs = _problems.pairs(n_classes)
    for_first, for_second = np.zeros((2, len(pairs), n_classes))
    for k, (i, j) in enumerate(pairs):
        for_first[k, i] = for_second[k, j] = 1
    won = ops.Cast(ops.Greater(scores, np.zeros(1)), to=TensorProto.DOUBLE)
    votes = ops.Add(ops.MatMul(won, for_second - for_first), for_first.sum(axis=0))
    sums = ops.MatMul(scores, for_second - for_first)
    squashed = ops.Div(sums, ops.Mul(ops.Add(ops.Abs(sums), np.ones(1)), np.array([3.0])))
    return ops.Add(votes, squashed)
