"""How labels become problems, and how scores of problems become classes again.

A problem is a row of labels in {-1, 0, +1}; 0 leaves a row of X out. Binary classification is one
problem. One-vs-rest has one per class, one-vs-one one per pair of classes, where +1 is the later
class. With several labels for each row, each label is a problem. "crammer_singer" has the labels
and scores of one-vs-rest, and one joint problem. "one_class" is one problem with all labels +1;
its "classes" are -1 and 1, outliers and the others.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from pegasos.problems._validate import parameter

# One-vs-one adds up scores, which may be as large as float64 allows. Larger scores than this are
# cut, and break ties as an infinite score would.
_LARGEST = 1e300

#: How problems are made of classes. Estimators choose "multilabel" if y has columns.
SCHEMES = ("ovr", "ovo", "crammer_singer", "multilabel", "one_class")

#: Labels that a one-class model predicts: -1 for outliers, 1 for the others.
ONE_CLASS_LABELS = np.array([-1, 1])
#: Scores this near to 0, as a part of the offset, become 0. Otherwise rounding would decide on
#: which side support vectors are, for most fits with kernel values in single precision.
NEAR = 1e-6


def plain(labels: np.ndarray) -> np.ndarray:
    """Labels without objects, if all are of one kind, as from a list or a data frame."""
    return np.array(labels.tolist()) if labels.dtype == object else labels


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """The pairs (i, j), i < j, of one-vs-one, in the order of its problems."""
    return list(combinations(range(n_classes), 2))


def count(n_classes: int, multi_class: str) -> int:
    """Number of problems, or of weight vectors of a joint problem."""
    if n_classes == 2 and multi_class != "multilabel":
        return 1
    return n_classes * (n_classes - 1) // 2 if multi_class == "ovo" else n_classes


def name(k: int, n_problems: int, classes: Any, multi_class: str) -> str:
    """What problem `k` is about, in words; an empty string if it is the only one."""
    if multi_class == "multilabel":
        return f"label {classes[k]}"
    if n_problems == 1 or multi_class == "crammer_singer":
        return ""
    if classes is None:
        return f"output {k}"
    if multi_class == "ovr":
        return f"class {classes[k]}"
    i, j = pairs(len(classes))[k]
    return f"classes {classes[i]} and {classes[j]}"


def labels_of_targets(n_problems: int, n_rows: int, weights: np.ndarray | None) -> np.ndarray:
    """Labels of problems that have all rows with weight: 1 for these rows, 0 for others."""
    labels = np.ones((n_problems, n_rows), np.int8)
    if weights is not None:
        labels[:, weights == 0] = 0
    return labels


def problem_labels(
    codes: np.ndarray, n_classes: int, multi_class: str, row_weights: np.ndarray | None = None
) -> np.ndarray:
    """Labels of every problem, one problem per row; 0 for rows outside the problem or of weight 0.

    `codes` are the class numbers of rows. With "multilabel", they have shape
    (n_samples, n_classes): 1 where a row has a label, else 0.
    """
    n_problems = count(n_classes, multi_class)
    try:
        labels = np.empty((n_problems, codes.shape[0]), dtype=np.int8)
    except (MemoryError, ValueError):
        what, hint = f"{n_problems} problems over {len(codes)} rows are", ""
        if multi_class == "ovo":
            what = f"{parameter('multi_class', 'ovo')} has {n_problems} problems for {n_classes}"
            what += " classes,"
            hint = f"{parameter('multi_class', 'ovr')} has {n_classes}, and "
        raise MemoryError(
            f"{what} more than memory has room for: {hint}"
            "sklearn.multiclass.OneVsRestClassifier trains one at a time"
        ) from None
    own = np.arange(n_classes)[:, None] if codes.ndim == 1 and len(labels) > 1 else 1
    has: Any = own == codes.T
    if len(labels) > 1 and multi_class == "ovo":
        for k, (i, j) in enumerate(pairs(n_classes)):
            np.subtract(has[j], has[i], out=labels[k], dtype=np.int8)
    else:
        labels[:] = has
        labels *= 2
        labels -= 1
    if row_weights is not None:
        labels[:, row_weights == 0] = 0
    return labels


def as_csr(y: np.ndarray, is_matrix: bool) -> Any:
    """Return y with several labels a row as a sparse array, or as a sparse matrix."""
    from scipy import sparse

    return (sparse.csr_matrix if is_matrix else sparse.csr_array)(y)


def mass(
    codes: np.ndarray, n_classes: int, multi_class: str, row_weights: np.ndarray | None = None
) -> float:
    """The sum m of the weights of a problem's rows, for λ = 1/(C m).

    For one-vs-one it is the mean over the pairs of classes with weight, as all pairs share one λ.
    """
    total = float(len(codes) if row_weights is None else row_weights.sum())
    if n_classes == 2 or multi_class != "ovo":
        return total
    return 2 * total / np.count_nonzero(np.bincount(codes, row_weights))


def class_scores(scores: np.ndarray, n_classes: int, multi_class: str) -> np.ndarray:
    """Turn scores per problem into scores per class, in place where the two are the same.

    One-vs-one: a class gets a vote for each pair it wins. Ties are broken by its summed scores,
    squashed into (-1/3, 1/3) so that they never outweigh a vote. For two classes, the result has
    shape (n_samples,), else (n_samples, n_classes).
    """
    if count(n_classes, multi_class) == 1:
        return scores[:, 0]
    if multi_class != "ovo":
        return scores
    votes = np.zeros((scores.shape[0], n_classes))
    sums = np.zeros_like(votes)
    if len(scores) and max(scores.max(), -scores.min()) > _LARGEST:
        scores = np.clip(scores, -_LARGEST, _LARGEST)
    for k, (i, j) in enumerate(pairs(n_classes)):
        votes[:, i] += scores[:, k] <= 0
        votes[:, j] += scores[:, k] > 0
        sums[:, i] -= scores[:, k]
        sums[:, j] += scores[:, k]
    votes += sums / (3 * (np.abs(sums) + 1))
    return votes


def class_probabilities(
    scores: np.ndarray,
    n_classes: int,
    multi_class: str,
    probability: Callable[[np.ndarray], np.ndarray] | None,
) -> np.ndarray:
    """Turn scores per problem into a probability of each class; rows sum to one.

    `probability` gives the probability of the label +1, or of -1 if scores are times -1. See
    `PegasosClassifier.predict_proba`. If there are p with ``r_kj = p_k/(p_k + p_j)`` for all
    pairs, these are p. If every class is sure to lose a pair, all are 0, and uniform in the end.
    """
    assert probability is not None  # `with_probabilities` makes sure of it
    if multi_class == "multilabel":
        return probability(scores)
    if n_classes == 2:
        return probability(scores * [-1.0, 1.0])
    if multi_class == "ovr":
        of_classes = probability(scores)
    else:
        sums = np.full((len(scores), n_classes), 2.0 - n_classes)
        with np.errstate(divide="ignore"):  # infinite where a class is sure to lose a pair
            for k, (i, j) in enumerate(pairs(n_classes)):
                sums[:, i] += 1 / probability(-scores[:, k])
                sums[:, j] += 1 / probability(scores[:, k])
        of_classes = 1 / sums
    of_classes[~of_classes.any(axis=1)] = 1
    return of_classes / of_classes.sum(axis=1, keepdims=True)


def winners(scores: np.ndarray) -> np.ndarray:
    """Index of the winning class for scores as returned by `class_scores`."""
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)


def predicted(scores: np.ndarray, classes: np.ndarray, multi_class: str) -> np.ndarray:
    """Labels of rows with these scores of classes; with "multilabel", zeros and ones in columns."""
    if multi_class == "multilabel":
        return (scores > 0).astype(np.int64)
    if multi_class == "one_class":
        return ONE_CLASS_LABELS[(scores >= 0).astype(np.intp)]
    return classes[winners(scores)]
