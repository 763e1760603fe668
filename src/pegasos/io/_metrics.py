"""Metrics of predictions by name, in words and in tables, for the command line."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import metrics

# Matrices and tables of more classes are hard to read.
_FEW_CLASSES = 30


def measured(
    say: Callable[..., None], where: str, model: Any, y: Any, of_problems: np.ndarray
) -> dict[str, Any]:
    """Report metrics and return them; if there are none, say why."""
    try:
        told = _metrics(model, y, of_problems)
    except ValueError as error:
        say(f"no {where}metrics: {error}")
        return {}
    say(f"{where}{_in_words(told)} of {len(of_problems)} rows")
    return told


def _metrics(model: Any, y: Any, of_problems: np.ndarray) -> dict[str, Any]:
    """Metrics of predictions, or the share of outliers; a ValueError if y does not fit."""
    scores = model._class_scores(of_problems)
    predicted = model._predictions_of(scores)
    if model.multi_class == "one_class":
        return {"outliers": float((predicted < 0).mean())}
    is_multilabel = model.multi_class == "multilabel"
    if y.shape != predicted.shape:
        raise ValueError(f"y has shape {y.shape}, predictions have {predicted.shape}")
    if model._has_targets:
        r2 = {"R2": float(metrics.r2_score(y, predicted))} if len(y) > 1 else {}
        return r2 | {"mean_absolute_error": float(metrics.mean_absolute_error(y, predicted))}
    if is_multilabel:
        return {
            "accuracy": float((predicted == y).all(axis=1).mean()),
            "accuracy_of_each_label": float((predicted == y).mean()),
        }
    is_known = np.isin(y, model.classes)
    if not is_known.all():
        raise ValueError(
            f"labels that the model does not know, such as {y[~is_known][0]}"
            + ("; is --label right?" if not is_known.any() else "")
        )
    classes, found = model.classes, np.unique(y)
    told: dict[str, Any] = {
        "accuracy": float((predicted == y).mean()),
        # The recall of a class is the part of its rows that are found.
        "balanced_accuracy": float(np.mean([(predicted[y == k] == k).mean() for k in found])),
    }
    if len(found) == len(classes):
        columns = scores.reshape(len(scores), -1).T
        of_columns = zip(classes[-len(columns) :], columns, strict=True)
        precisions = [metrics.average_precision_score(y == k, column) for k, column in of_columns]
        told["average_precision"] = float(np.mean(precisions))
    if len(classes) <= _FEW_CLASSES:
        names = [str(label) for label in classes]
        of: dict[str, Any] = {"labels": classes, "target_names": names, "zero_division": np.nan}
        report: Any = metrics.classification_report(y, predicted, output_dict=True, **of)
        told["classes"] = {
            name: report[name] | {"support": int(report[name]["support"])} for name in names
        }
        matrix = metrics.confusion_matrix(y, predicted, labels=classes)
        told["confusion"] = by_class(matrix, classes)
    return told


def by_class(matrix: np.ndarray, classes: np.ndarray) -> dict[str, dict[str, int]]:
    """A confusion matrix by the names of classes, with actual classes first."""
    names = [str(label) for label in classes]
    rows = [dict(zip(names, row, strict=True)) for row in matrix.tolist()]
    return dict(zip(names, rows, strict=True))


def _in_words(told: dict[str, Any]) -> str:
    """All metrics that are single numbers, in a line."""
    words = []
    for name, value in told.items():
        if isinstance(value, float):
            is_share = "accuracy" in name or name == "outliers"
            form = ".4f" if name in ("R2", "average_precision") else ".6g"
            shown = f"{100 * value:.2f} %" if is_share else format(value, form)
            words.append(f"{name.replace('_', ' ')} {shown}")
    return ", ".join(words)


def say_tables(say: Callable[..., None], told: dict[str, Any]) -> None:
    """Print the metrics of classes, and the confusion matrix: a row for each class of the file."""
    for what, kind in (("class", "classes"), ("label, predicted as", "confusion")):
        if kind not in told:
            continue
        table = [[what, *next(iter(told[kind].values()))]] + [
            # Counts are shown in full.
            [name, *(f"{x:.0f}" if float(x).is_integer() else f"{x:.4g}" for x in row.values())]
            for name, row in told[kind].items()
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        say()
        for row in table:
            say("  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)))
