"""Export to ONNX by skl2onnx (extra ``onnx``): call `register`, then ``skl2onnx.to_onnx``.

"Export to ONNX" in the reference describes the outputs, and limitations of skl2onnx.
"""

import functools
from typing import Any

import numpy as np
from sklearn.base import is_outlier_detector, is_regressor

import pegasos
from pegasos._extras import needed_by
from pegasos.problems import _multiclass, _validate

with needed_by("pegasos.onnx", "onnx", "onnx", "skl2onnx"):
    from onnx import TensorProto
    from skl2onnx import update_registered_converter
    from skl2onnx.algebra import onnx_ops
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        Int64TensorType,
        StringTensorType,
    )

__all__ = ["register"]

# Types of labels, by NumPy's kinds.
_LABELS = {
    "b": (np.bool_, BooleanTensorType),
    "i": (np.int64, Int64TensorType),
    "u": (np.int64, Int64TensorType),
    "f": (np.float64, DoubleTensorType),
    "U": (np.str_, StringTensorType),
}


def register() -> None:
    """Register pegasos' estimators with skl2onnx, so that it can export them, also in pipelines.

    ``skl2onnx.to_onnx`` raises a ValueError for a kernel that is a function, and for labels that
    are neither strings nor numbers that int64 or float64 can hold.
    """
    options = {"raw_scores": [True, False], "zipmap": [True, False]}
    for name in pegasos._ESTIMATORS:
        of_kind: dict[str, Any] = {"options": options} if "Classifier" in name else {}
        update_registered_converter(
            getattr(pegasos, name), name, _set_shapes, _convert, overwrite=True, parser=_parse,
            **of_kind,
        )  # fmt: skip


class _Graph:
    """ONNX operators in the requested version, and the graph to which outputs are added."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def __getattr__(self, name: str) -> functools.partial[Any]:
        operator = getattr(onnx_ops, f"Onnx{name}")
        return functools.partial(operator, op_version=self._container.target_opset)

    def output(self, name: str, operator: str, *arguments: Any, **options: Any) -> None:
        """Make the result of an operator the output of this name."""
        made = getattr(self, operator)(*arguments, output_names=[name], **options)
        made.add_to(self._scope, self._container)


def _labels(classes: np.ndarray) -> np.ndarray:
    classes = _multiclass.plain(classes)
    made: np.ndarray = classes.astype(_LABELS.get(classes.dtype.kind, (object,))[0])
    if made.dtype == object or made.tolist() != classes.tolist():
        raise ValueError(
            "labels must be strings, or numbers that int64 or float64 can hold, to be exported, "
            f"got {classes.tolist()}"
        )
    return made


def _parse(
    scope: Any,
    model: Any,
    inputs: list[Any],
    custom_parsers: Any = None,  # given by skl2onnx; our estimators contain no others
) -> list[Any]:
    """Declare the node of a fitted estimator and its outputs."""
    operator = scope.declare_local_operator(type(model).__name__, model)
    operator.inputs.extend(inputs)
    outputs: list[Any] = operator.outputs
    for name, kind, _ in _outputs(scope, model):
        outputs.append(scope.declare_local_variable(name, kind()))
    return outputs


def _set_shapes(operator: Any) -> None:
    told = _outputs(operator.scope_inst, operator.raw_operator)
    for output, (_, _, shape) in zip(operator.outputs, told, strict=True):
        output.type.shape = shape


def _outputs(scope: Any, estimator: Any) -> list[tuple[str, Any, list[int | None]]]:
    """Name, type and shape of each output."""
    if is_regressor(estimator):
        return [("variable", DoubleTensorType, [None, estimator.n_outputs_])]
    if is_outlier_detector(estimator):
        return [("label", Int64TensorType, [None, 1]), ("scores", DoubleTensorType, [None, 1])]
    classes, gives = estimator.classes_, _gives(scope, estimator)
    of_labels: list[int | None] = [None]
    of_second: list[int | None] = [None, len(classes)]
    if getattr(estimator, "_scheme", "") == "multilabel":  # each label has a column
        of_labels = of_second
    elif len(classes) == 2 and gives == "scores":
        of_second = of_labels
    second = "scores" if gives == "raw_scores" else gives
    label_type = _LABELS[_labels(classes).dtype.kind][1]
    return [("label", label_type, of_labels), (second, DoubleTensorType, of_second)]


def _gives(scope: Any, estimator: Any) -> str:
    """The kind of the second output: "scores", "raw_scores" or "probabilities".

    skl2onnx sets "raw_scores" for the estimator inside a `CalibratedClassifierCV`.
    """
    if scope.get_options(estimator, {"raw_scores": False})["raw_scores"]:
        return "raw_scores"
    return "probabilities" if hasattr(estimator, "predict_proba") else "scores"


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the graph of `predict` and, for classifiers, `decision_function` or `predict_proba`."""
    estimator = operator.raw_operator
    estimator = getattr(estimator, "best_estimator_", estimator)  # if it is a search
    model = estimator.to_model()
    ops = _Graph(scope, container)
    columns = [ops.Cast(x, to=TensorProto.DOUBLE) for x in operator.inputs]
    X = ops.Concat(*columns, axis=1) if len(columns) > 1 else columns[0]
    if isinstance(model, pegasos.LinearModel):
        coef = model.coef
    elif not model.dual_coef.size and not callable(model.support.kernel.name):
        # ONNX has no empty arrays.
        coef = np.zeros((len(model.intercept), estimator.n_features_in_))
    else:
        Z, coef = model.support.X, model.dual_coef
        Z = np.asarray(Z.toarray() if _validate.is_sparse(Z) else Z, dtype=np.float64)
        rows = getattr(estimator, "support_", None)  # a loaded model does not have or need it
        X = model.support.kernel.onnx(ops, X, Z, rows)  # kernel values with the support vectors
    second = ops.Add(ops.MatMul(X, np.ascontiguousarray(coef.T)), model.intercept)
    *labels, out = operator.outputs
    if labels:
        classes, winners, second = _answers(ops, second, model, scope, operator.raw_operator)
        name = labels[0].full_name
        if classes is None:
            ops.output(name, "Cast", winners, to=TensorProto.INT64)
        else:
            ops.output(name, "Gather", classes, winners)
    # If another estimator contains this one, skl2onnx goes on in the type of its input.
    is_double = isinstance(out.type, DoubleTensorType)
    kind = TensorProto.DOUBLE if is_double else TensorProto.FLOAT
    ops.output(out.full_name, "Cast", second, to=kind)


def _answers(
    ops: _Graph, of_problems: Any, model: Any, scope: Any, estimator: Any
) -> tuple[Any, Any, Any]:
    """Labels, the index of each row's label, and the second output; None: numbers are labels."""
    if model.multi_class == "one_class":
        is_near = ops.LessOrEqual(ops.Abs(of_problems), _multiclass.NEAR * np.abs(model.intercept))
        scores = ops.Where(is_near, np.zeros(1), of_problems)
        winners = ops.Cast(ops.GreaterOrEqual(scores, np.zeros(1)), to=TensorProto.INT64)
        return _multiclass.ONE_CLASS_LABELS, winners, scores
    gives, n_classes = _gives(scope, estimator), len(model.classes)
    is_multilabel = model.multi_class == "multilabel"
    if is_multilabel:
        scores = of_problems
        winners = ops.Greater(scores, np.zeros(1))
    elif n_classes == 2:
        scores = ops.Squeeze(of_problems, np.array([1]))
        winners = ops.Cast(ops.Greater(scores, np.zeros(1)), to=TensorProto.INT64)
    else:
        is_ovo = model.multi_class == "ovo"
        scores = _votes(ops, of_problems, n_classes) if is_ovo else of_problems
        winners = ops.ArgMax(scores, axis=1, keepdims=0)
    second = scores
    if gives == "raw_scores" and n_classes == 2 and not is_multilabel:
        second = ops.MatMul(of_problems, np.array([[-1.0, 1.0]]))
    elif gives == "probabilities":
        second = _probabilities(ops, of_problems, model)
    return None if is_multilabel else _labels(model.classes), winners, second


def _votes(ops: _Graph, scores: Any, n_classes: int) -> Any:
    """Scores of classes from scores of pairs; see `pegasos.problems._multiclass.class_scores`."""
    pairs = _multiclass.pairs(n_classes)
    for_first, for_second = np.zeros((2, len(pairs), n_classes))
    for k, (i, j) in enumerate(pairs):
        for_first[k, i] = for_second[k, j] = 1
    won = ops.Cast(ops.Greater(scores, np.zeros(1)), to=TensorProto.DOUBLE)
    votes = ops.Add(ops.MatMul(won, for_second - for_first), for_first.sum(axis=0))
    sums = ops.MatMul(scores, for_second - for_first)
    squashed = ops.Div(sums, ops.Mul(ops.Add(ops.Abs(sums), np.ones(1)), np.array([3.0])))
    return ops.Add(votes, squashed)


def _probability(ops: _Graph, loss: str, scores: Any) -> Any:
    """The probability of the label +1; see `pegasos.problems._losses.Loss.probability`."""
    if loss == "log_loss":
        return ops.Sigmoid(scores)
    clipped = ops.Clip(scores, np.array(-1.0), np.array(1.0))
    return ops.Div(ops.Add(clipped, np.ones(1)), np.array([2.0]))


def _probabilities(ops: _Graph, scores: Any, model: Any) -> Any:
    """Probabilities of classes; see `pegasos.problems._multiclass.class_probabilities`."""
    n_classes = len(model.classes)
    if model.multi_class == "multilabel":
        return _probability(ops, model.loss, scores)
    if n_classes == 2:
        return _probability(ops, model.loss, ops.MatMul(scores, np.array([[-1.0, 1.0]])))
    if model.multi_class == "ovr":
        of_classes = _probability(ops, model.loss, scores)
    else:
        pairs = _multiclass.pairs(n_classes)
        # `both` has columns for the first classes of all pairs, then for the second ones. Each sum
        # takes only the columns of its class, as 0 times infinity is not a number.
        both = _probability(ops, model.loss, ops.Concat(ops.Neg(scores), scores, axis=1))
        columns = [i for i, _ in pairs] + [j for _, j in pairs]
        mine = np.array([np.flatnonzero(np.equal(columns, k)) for k in range(n_classes)])
        inverse = ops.Gather(ops.Div(np.ones(1), both), mine, axis=1)
        sums = ops.Squeeze(ops.MatMul(inverse, np.ones((n_classes - 1, 1))), np.array([2]))
        of_classes = ops.Div(np.ones(1), ops.Add(sums, np.array([2.0 - n_classes])))
    to_sum = np.ones((n_classes, n_classes))  # a product with it has row sums in every column
    is_0 = ops.Equal(ops.MatMul(of_classes, to_sum), np.zeros(1))
    of_classes = ops.Add(of_classes, ops.Cast(is_0, to=TensorProto.DOUBLE))
    return ops.Div(of_classes, ops.MatMul(of_classes, to_sum))
