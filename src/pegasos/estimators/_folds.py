"""Folds of cross-validation: their training rows, test rows and scores."""

import contextlib
import copy
import inspect
import reprlib
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv

from pegasos.estimators._base import Data, is_same
from pegasos.problems import _validate


@dataclass(frozen=True)
class Fold:
    learns: np.ndarray  # bool, for all rows
    weights: np.ndarray | None  # for all rows; folds with equal weights share one array
    test: np.ndarray  # the rows to score, possibly several times


def read(
    cv: Any, X: Any, data: Data, groups: Any, balance: Callable[[np.ndarray], Any]
) -> list[Fold]:
    """The checked folds that `cv`, as in scikit-learn, makes of `X` and `groups`.

    If rows have classes, an int means stratified folds. `balance` gets the number of times that
    each row is in a fold, and returns factors of class weights in the fold, or None.
    """
    codes, n_rows, wanted = data.codes, len(data.y), (1, "row of weight", "rows of weight")
    has_classes = codes is not None and codes.ndim == 1  # but not several labels for each row
    if has_classes:
        wanted = (2, "class", "classes")
    if not isinstance(cv, Iterable) or hasattr(cv, "split"):
        if cv is None or isinstance(cv, Integral):
            _check_number(5 if cv is None else int(cv), codes if has_classes else None, n_rows)
        splitter: Any = cv  # scikit-learn takes more than its annotations say
        cv = check_cv(splitter, data.y, classifier=codes is not None).split(X, data.y, groups)
    splits = list(cv)
    if not splits:
        raise ValueError(
            "cv must give at least one split, got none (a generator gives its splits only once)"
        )
    folds = []
    for k, split in enumerate(splits):
        try:
            train, test = split
        except (TypeError, ValueError):
            raise ValueError(
                f"cv: split {k} must be a pair, rows to learn from and rows to test on, "
                f"got {reprlib.repr(split)}"
            ) from None
        train = _validate.row_numbers(f"cv: rows to learn from in fold {k}", train, n_rows)
        test = _validate.row_numbers(f"cv: rows to test on in fold {k}", test, n_rows)
        times = np.bincount(train, minlength=n_rows)
        learns = times > 0
        weighed = learns if data.weights is None else learns & (data.weights > 0)
        counted = np.bincount(data.codes[weighed]) if has_classes else weighed
        n_left = int(np.count_nonzero(counted))
        if n_left < wanted[0] or not len(test):
            raise ValueError(
                f"cv: fold {k} has {_validate.counted(len(test), 'row')} to test on and leaves "
                f"{_validate.counted(n_left, *wanted[1:])} to learn from; at least 1 row and "
                f"{_validate.counted(*wanted)} are needed"
            )
        # A row that is k times in a fold has k times its weight.
        factors, ratios = [times] if times.max() > 1 else [], balance(times)
        if ratios is not None:
            factors.append(ratios[data.codes])
        weights = data.weights
        for factor in factors:
            with np.errstate(over="ignore"):  # the check follows
                weights = factor * (1.0 if weights is None else weights)
        if factors:
            name = f"the weights of rows, as often as they are in fold {k} of cv,"
            weights = _validate.sample_weight(weights, n_rows, name)
        folds.append(Fold(learns, weights, test))
    return folds


def _check_number(n_folds: int, codes: Any, n_rows: int) -> None:
    """Raise unless there are as many rows (of one class, if rows have classes) as folds."""
    most = n_rows if codes is None else int(np.bincount(codes).max())
    if n_folds > most:
        rows, what = ("rows", "X") if codes is None else ("rows of one class", "the largest")
        raise ValueError(
            f"{_validate.parameter('cv', n_folds)} needs {n_folds} {rows} at least, but {what} has "
            f"{most} sample{'s' * (most != 1)}"
        )


@dataclass(frozen=True)
class FoldSet:
    """Folds that can be trained together, since they give every row the same weight."""

    numbers: list[int]  # their numbers among all folds
    tests: list[np.ndarray]  # the test rows of each
    labels: np.ndarray  # (n_folds, n_problems, n_samples); 0 leaves a row out
    weights: np.ndarray | None
    values: np.ndarray | None  # targets (n_problems, n_samples), which all folds share
    are_all: bool  # whether there are no other folds to train

    def problems(self, fold: np.ndarray, column: np.ndarray) -> tuple[Any, Any, Any]:
        """Labels, weights and targets of problems `column` in folds `fold`, pair by pair."""
        values = None if self.values is None else self.values[column]
        return self.labels[fold, column], self.weights, values


def fold_sets(folds: list[Fold], numbers: Sequence[int], data: Data) -> Generator[FoldSet]:
    groups: dict[int, list[int]] = {}
    for k in numbers:
        groups.setdefault(id(folds[k].weights), []).append(k)
    for some in groups.values():
        labels = np.stack([data.problem_labels * folds[k].learns for k in some])
        tests, weights = [folds[k].test for k in some], folds[some[0]].weights
        yield FoldSet(some, tests, labels, weights, data.values, len(groups) == 1)


class Scoring:
    """Scores machines of a search on the test rows of folds.

    `given` has the user's rows, `data` the checked rows. `weights` are for scorers that take them.
    Without `scoring`, `plain` makes a number from scores, their rows, and the rows' weights.
    """

    def __init__(
        self,
        scoring: Any,
        given: Any,
        data: Data,
        weights: Any,
        folds: list[Fold],
        plain: Callable[..., float],
    ) -> None:
        self._score, self._plain = None if scoring is None else get_scorer(scoring), plain
        self._is_theirs = callable(scoring)
        #: Whether the scorer uses scores or probabilities, and not predicted classes.
        self.is_of_scores = getattr(self._score, "_response_method", "predict") != "predict"
        # Functions of the user's may use the column names of data frames.
        self._rows = data.X if _validate.column_names(given) is None else given
        self._y = data.y
        self._weights = weights if not self._is_theirs or _takes_weights(scoring) else None
        self._tests = [fold.test for fold in folds]
        for k, test in enumerate(self._tests):
            if self._weights is not None and not self._weights[test].any():
                raise ValueError(f"cv: fold {k} has no rows of weight to test on")

    def sizes(self) -> np.ndarray:
        """For each fold, the number of equally weighted rows that tell as much as its test rows."""
        weights = [np.ones(len(test)) if self._weights is None else self._weights[test]
                   for test in self._tests]  # fmt: skip
        return np.array([of.sum() ** 2 / np.square(of).sum() for of in weights])

    @np.errstate(over="ignore", invalid="ignore")  # a model with too large scores scores badly
    def __call__(self, k: int, scores: np.ndarray, make_estimator: Callable[[], Any]) -> float:
        """The score of fold `k`, given the scores of its test rows by each problem.

        `make_estimator` makes an estimator that has learned nothing.
        """
        test = self._tests[k]
        weights = None if self._weights is None else self._weights[test]
        if self._score is None:
            return self._plain(scores, test, weights)
        # scikit-learn's scorers only pass the rows on.
        rows = _some_rows(self._rows, test) if self._is_theirs else test

        def problem_scores(X: Any) -> np.ndarray:
            if is_same(X, rows):
                return scores
            raise ValueError(
                "scoring must ask for the scores of the test rows that it was given, all at once, "
                "got other rows: a search keeps these scores and no machines"
            )

        estimator = make_estimator()
        estimator._problem_scores = problem_scores
        weighted = {} if weights is None else {"sample_weight": weights}
        try:
            value = self._score(estimator, rows, self._y[test], **weighted)
        except AttributeError as error:
            if "predict_proba" in str(error):
                _ = estimator.predict_proba  # its error names losses with probabilities
            raise
        with contextlib.suppress(AttributeError, ValueError):
            value = value.item()
        if not isinstance(value, Real):
            raise ValueError(  # noqa: TRY004 as scikit-learn's searches
                f"scoring must return a number, got {reprlib.repr(value)} ({type(value).__name__})"
            )
        return float(value)


def _takes_weights(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some compiled functions have no known signature
        return False
    return any(p.name == "sample_weight" or p.kind == p.VAR_KEYWORD for p in parameters)


def _some_rows(X: Any, which: np.ndarray) -> Any:
    """Some rows of an array, a sparse matrix, or a frame of pandas, Arrow or polars."""
    if isinstance(X, np.ndarray) or _validate.is_sparse(X):
        return X[which]
    return X.take(which) if hasattr(X, "take") else X[which]


def fitted(estimator: Any, about: dict[str, Any], **point: Any) -> Any:
    """A copy of `estimator` with these parameters and the attributes of a fitted estimator."""
    estimator = copy.copy(estimator)
    vars(estimator).update(point | about)
    return estimator
