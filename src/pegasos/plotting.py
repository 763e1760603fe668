"""Pictures of searches, fits and models, as display objects in scikit-learn's manner.

``from_estimator`` computes what is to be shown and draws it. ``plot`` draws it again, on given axes
or a new figure. Both return the display. Needs matplotlib, which ``import pegasos`` does not load.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Hashable, Iterable, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pegasos import kernels
from pegasos._extras import needed_by
from pegasos.estimators._classification import Classifier
from pegasos.estimators._grid import standard_errors
from pegasos.estimators._linear import LinearMachine
from pegasos.estimators._one_class import OneClass
from pegasos.problems import _multiclass, _validate
from pegasos.problems._losses import LOSSES

with needed_by("pegasos.plotting", "plot", "matplotlib"):
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Colormap, ListedColormap
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

__all__ = [
    "ConvergenceDisplay",
    "Recorder",
    "SearchDisplay",
    "SupportVectorsDisplay",
    "TubeDisplay",
    "WeightsDisplay",
]

_MOST_LINES, _X = 10, ("epoch", "seconds")
# Smaller relative gaps are rounding. A logarithmic axis would show little else, and cannot show 0.
_LEAST_GAP = 1e-12
# Errors above epsilon, and margins above 1, by at most this part count as on the edge of a tube or
# on the margin. Support vectors are there, to the accuracy of the fit.
_EDGE = 1e-3
# The palette of B. Wong, "Points of view: Color blindness" (2011), without black. Markers
# distinguish groups of one colour: with eight of them for seven colours, 56 pairs differ.
_BLUE, _VERMILLION, _ORANGE = "#0072B2", "#D55E00", "#E69F00"
_COLOURS = (_BLUE, _VERMILLION, "#009E73", _ORANGE, "#CC79A7", "#56B4E9", "#F0E442")
_MARKERS = "os^Dv<P>"
# The marks of points of a search.
_BEST, _WITHIN = "best mean score", "largest λ within one standard error"
_MARKS: dict[str, dict[str, Any]] = {
    _BEST: {"marker": "*", "markersize": 14, "color": _VERMILLION, "linestyle": "none"},
    _WITHIN: {"marker": "D", "markersize": 7, "color": _ORANGE, "linestyle": "none"},
}


class SearchDisplay:
    """Scores of a parameter search: a heat map over two parameters, or a curve over one.

    Parameters
    ----------
    values : array-like of shape (n_y, n_x), or (n_x,) for a curve
        Scores; NaN leaves a cell empty.
    x_values, y_values : sequence
        Values of the parameters on the x and y axes; `y_values` is None for a curve.
    labels : tuple of three str, default=("x", "y", "score")
        Names of the parameters and of the score.
    standard_error : array-like of the shape of `values`, default=None
        Standard errors of the scores: the error bars of a curve. The legend has the best score's.
    marks : dict, default=None
        Points to mark. Keys: "best mean score" and "largest λ within one standard error". Values:
        tuples of the value of x and, in a heat map, the value of y.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    image_, colorbar_ : matplotlib AxesImage and Colorbar, of a heat map
    texts_ : ndarray of shape (n_y, n_x)
        Annotations of a heat map, None where a cell is empty.
    errorbar_ : matplotlib ErrorbarContainer, of a curve

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.model_selection import GridSearchCV
    >>> from pegasos import KernelPegasosClassifier
    >>> from pegasos.plotting import SearchDisplay
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> grid = {"lam": [1e-3, 1e-2], "gamma": [0.5, 2, 8]}
    >>> search = GridSearchCV(KernelPegasosClassifier(random_state=0), grid, cv=2).fit(X, y)
    >>> SearchDisplay.from_estimator(search).values.shape
    (3, 2)
    """

    def __init__(
        self,
        values: ArrayLike,
        x_values: Sequence[Any],
        y_values: Sequence[Any] | None = None,
        labels: Sequence[str] = ("x", "y", "score"),
        standard_error: ArrayLike | None = None,
        marks: dict[str, tuple[Any, ...]] | None = None,
    ) -> None:
        self.values = np.asarray(values, dtype=float)
        self.x_values, self.labels = list(x_values), labels
        self.y_values = None if y_values is None else list(y_values)
        self.standard_error = None if standard_error is None else np.asarray(standard_error)
        self.marks = marks or {}
        shape = (len(x_values),) if y_values is None else (len(y_values), len(x_values))
        if self.values.shape != shape:
            raise ValueError(
                f"values must have the shape that x_values and y_values say, {shape}, "
                f"got {self.values.shape}"
            )

    @classmethod
    def from_estimator(
        cls,
        search: Any,
        x: str = "auto",
        y: str | None = "auto",
        metric: str = "mean_test_score",
        *,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the results of a search.

        The best mean score is marked. For searches of pegasos, so is the largest λ whose score is
        within one standard error of the best.

        Parameters
        ----------
        search : object
            Has ``cv_results_`` as scikit-learn's searches do, for instance a `GridSearchCV`; or a
            pipeline that ends with one.
        x : str, default="auto"
            Name of the parameter on the x axis. "auto" is "C" or "lam", whichever the search tried,
            also of a step ("svm__C"), else the first parameter.
        y : str or None, default="auto"
            Name of the parameter on the y axis; None for a curve, with error bars of one standard
            error. "auto" is "gamma" if the search tried several, else None.
        metric : str, default="mean_test_score"
            Key of ``cv_results_`` to show. If other parameters vary too, its largest value.
        ax, **options
            As in `plot`.
        """
        while isinstance(search, Pipeline):
            search = search[-1]
        results = getattr(search, "cv_results_", None)
        if results is None:
            raise NotFittedError(f"search must be fitted and have cv_results_, got {search!r}")
        names = [key.removeprefix("param_") for key in results if key.startswith("param_")]
        if _validate.choice("x", x, [*names, "auto"]) == "auto":
            given = {name for point in results.get("params", [names]) for name in point}
            ends = {name.rpartition("__")[2]: name for name in names if name in given}
            x = ends.get("C") or ends.get("lam") or names[0]
        others = [name for name in names if name != x]
        if _validate.choice("y", y, [*others, None, "auto"]) == "auto":
            y = next((name for name in others if name.rpartition("__")[2] == "gamma"), None)
            if y and len(_in_order(np.ma.compressed(results[f"param_{y}"]))) < 2:
                y = None
        metrics = [key for key in results if not key.startswith(("param", "rank_"))]
        scores = np.asarray(results[_validate.choice("metric", metric, metrics)], dtype=float)

        parameters = [np.ma.asarray(results[f"param_{name}"]) for name in (x, y) if name]
        # A list of grids masks the parameters that a candidate lacks.
        masked = np.any([np.ma.getmaskarray(column) for column in parameters], axis=0)
        # Values that are not hashable, such as those of `class_weight`, are replaced by their text.
        columns = [
            [value if isinstance(value, Hashable) else str(value) for value in of.data.tolist()]
            for of in parameters
        ]
        keys = list(zip(*columns, strict=True))
        # NaN first, then ascending: the last entry of a cell is the first of the best ones.
        best = {keys[i]: i for i in np.argsort(-scores, kind="stable")[::-1] if not masked[i]}
        if not best:
            raise ValueError(f"y must be set together with x={x!r} in a candidate, got {y!r}")
        marks = {}
        if metric == "mean_test_score":
            marks = {name: keys[i] for name, i in _marked(results, list(best.values())).items()}
        axes = [_in_order(column) for column in zip(*best, strict=True)]
        at = np.array([best.get(point, -1) for point in itertools.product(*axes)])
        at = at.reshape([len(axis) for axis in axes]).T
        error = _standard_error(results, metric)
        error = None if error is None else np.append(error, np.nan)[at]
        labels = x, y or "", metric
        values = np.append(scores, np.nan)[at]
        display = cls(values, axes[0], axes[1] if y else None, labels, error, marks)
        return display.plot(ax=ax, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        cmap: str | Colormap = "viridis",
        values_format: str = ".3f",
    ) -> Self:
        """Draw; `cmap` and `values_format` are the colours and annotations of a heat map."""
        if ax is None:
            n_y, n_x = np.atleast_2d(self.values).shape
            size = max(6.4, 2 + 0.6 * n_x), max(4.8, 1.5 + 0.4 * n_y)
            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        ax.set_xlabel(self.labels[0])
        draw = self._draw_curve if self.y_values is None else self._draw_map
        for name, at, place, style in draw(ax, cmap, values_format):
            label = name
            if name == _BEST:
                of = [v for v in (self.values, self.standard_error) if v is not None]
                label += ": " + " ± ".join(format(numbers[at], values_format) for numbers in of)
            ax.plot(*place, label=label, **style)
        if self.marks:
            ax.legend(loc="upper left", bbox_to_anchor=(0, -0.12), frameon=False)
        return self

    def _draw_curve(self, ax: Axes, *_: Any) -> list[Any]:
        """Draw a curve; returns the name, index, place and style of each mark."""
        x: Any = self.x_values
        if all(_is_number(value) and value > 0 for value in x):
            ax.set_xscale("log")
        else:
            x = range(len(x))
            ax.set_xticks(x, _tick_labels(self.x_values))
        self.errorbar_ = ax.errorbar(
            x, self.values, self.standard_error, marker="o", color=_BLUE, capsize=3
        )
        ax.set_ylabel(self.labels[2])
        marks = [(name, self.x_values.index(u)) for name, (u,) in self.marks.items()]
        return [(name, at, (x[at], self.values[at]), _MARKS[name]) for name, at in marks]

    def _draw_map(self, ax: Axes, cmap: str | Colormap, values_format: str) -> list[Any]:
        """Draw a heat map; returns marks like `_draw_curve`."""
        y_values: Any = self.y_values
        self.image_ = ax.imshow(self.values, cmap=cmap, origin="lower", aspect="auto")
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, label=self.labels[2])
        ax.set_xticks(range(len(self.x_values)), _tick_labels(self.x_values))
        ax.set_yticks(range(len(y_values)), _tick_labels(y_values))
        ax.set_ylabel(self.labels[1])
        self.texts_ = np.full(self.values.shape, None)
        for (i, j), value in np.ndenumerate(self.values):
            if np.isfinite(value):
                colour = self.image_.cmap(self.image_.norm(value))
                ink = "black" if np.dot(colour[:3], (0.299, 0.587, 0.114)) > 0.5 else "white"
                text = format(value, values_format)
                self.texts_[i, j] = ax.text(j, i, text, ha="center", va="center", color=ink)
        marks = []
        for name, (u, v) in self.marks.items():
            j, i = self.x_values.index(u), y_values.index(v)
            style = {"markeredgecolor": "white", "clip_on": False, **_MARKS[name]}
            marks.append((name, (i, j), (j, i - 0.35), style))
        return marks


class Recorder:
    """Record of how a fit goes: a callback for ``set_callbacks``, with scikit-learn 1.9 or later.

    A new fit begins a new record. Fits that have callbacks train their problems on one thread;
    kernel values may use more. Kernel fits of few steps tell callbacks nothing.

    Attributes
    ----------
    epochs : list of int
        1, 2, ...
    seconds : list of float
        Seconds of training up to the end of each epoch, without certificates for the record.
    objectives, bounds, gaps : list of ndarray of shape (n_problems,)
        P(w), the dual objective and the relative duality gap that the solver knew after each epoch
        (dual ascent knows P(w) from its last gap check), and those of the end of the fit.
    names : list of str
        What each problem distinguishes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pegasos import PegasosClassifier
    >>> from pegasos.plotting import Recorder
    >>> recorder = Recorder()
    >>> clf = PegasosClassifier(lam=1e-2, solver="pegasos", tol=None, max_iter=5)
    >>> clf = clf.set_callbacks(recorder).fit(*load_iris(return_X_y=True))
    >>> recorder.epochs
    [1, 2, 3, 4, 5]
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.epochs: list[int] = []
        self.seconds: list[float] = []
        self.objectives: list[Any] = []
        self.bounds: list[Any] = []
        self.gaps: list[Any] = []
        self.names: list[str] = []

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin a new record."""
        self._begin()
        self._spent, self._since = 0.0, time.perf_counter()

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing at the end of a fit."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Stop the clock: the epoch has ended, and its certificate is computed next."""
        if context.task_name == "epoch":
            self._spent += time.perf_counter() - self._since

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: dict[str, Any]) -> None:
        """Record an epoch, or the end of the fit."""
        if context.task_name == "epoch":
            self._write(**metadata)
            self._since = time.perf_counter()
        elif self.epochs:
            self.names = _problem_names(estimator)
            if getattr(estimator, "_scheme", None) == "crammer_singer":
                self.names = ["all classes"]
            objective, bound = estimator.objective_, estimator.dual_objective_
            # For one class, P and D are at most 0, and the relative gap is a part of |D|.
            size = -bound if isinstance(estimator, OneClass) else objective
            gap = np.maximum(objective - bound, 0) / np.where(size > 0, size, 1)
            # The last of many problems may have gone on for less than an epoch of all.
            if not np.allclose(gap, self.gaps[-1], equal_nan=True):
                self._spent += time.perf_counter() - self._since
                self._write(objective=objective, dual_objective=bound, relative_gap=gap)

    def _write(self, **record: np.ndarray) -> None:
        self.epochs.append(len(self.epochs) + 1)
        self.seconds.append(self._spent)
        self.objectives.append(record["objective"])
        self.bounds.append(record["dual_objective"])
        self.gaps.append(record["relative_gap"])


class ConvergenceDisplay:
    """Objective, its lower bound, and the relative gap between them, while a fit goes on.

    The optimum is in the shaded area between the objective (solid) and the bound (dashed). Each
    problem has a line, with a mark where it changes. More than ten problems share a line of the
    largest value. Solvers other than Pegasos take problems one by one, so their lines fall in turn.

    Parameters
    ----------
    x_values : array-like of shape (n_records,)
        Epochs (means over problems) or seconds.
    objective, bound, relative_gap : array-like of shape (n_records, n_problems)
    x : {"epoch", "seconds"}, default="epoch"
        What `x_values` are.
    names : list of str, default=None
        What each problem distinguishes, for the legend.

    Attributes
    ----------
    ax_ : ndarray of one or two matplotlib Axes
        Objective with its bound, and gap.
    figure_ : matplotlib Figure
    lines_ : list of three lists of matplotlib Line2D
        Objectives, bounds and gaps; the last is empty on one axes.
    areas_ : list of matplotlib PolyCollection
        Between objectives and bounds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pegasos import PegasosClassifier
    >>> from pegasos.plotting import ConvergenceDisplay
    >>> clf = PegasosClassifier(lam=1e-2, random_state=0)
    >>> display = ConvergenceDisplay.from_estimator(clf, *load_iris(return_X_y=True))
    >>> len(display.lines_[2])
    3
    """

    def __init__(
        self,
        x_values: ArrayLike,
        objective: ArrayLike,
        bound: ArrayLike,
        relative_gap: ArrayLike,
        *,
        x: str = "epoch",
        names: Sequence[str] | None = None,
    ) -> None:
        self.x_values, self.x, self.names = x_values, _validate.choice("x", x, _X), names
        self.objective, self.bound, self.relative_gap = (
            np.asarray(values, dtype=float) for values in (objective, bound, relative_gap)
        )

    @classmethod
    def from_recorder(
        cls, recorder: Recorder, x: str = "epoch", *, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Draw the record of a `Recorder`, against epochs or seconds."""
        if not isinstance(recorder, Recorder):
            raise TypeError(f"recorder must be a pegasos.plotting.Recorder, got {recorder!r}")
        if not recorder.epochs:
            raise ValueError(
                "recorder must have seen an epoch, got none: set it as a callback and fit, without "
                "n_steps or with enough of them"
            )
        x_values = recorder.seconds if x == "seconds" else recorder.epochs
        records = recorder.objectives, recorder.bounds, recorder.gaps
        return cls(x_values, *records, x=x, names=recorder.names).plot(ax=ax, **options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        x: str = "epoch",
        *,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Fit a clone of `estimator` to `X`, `y` with a `Recorder`, and draw the record.

        `estimator` may be a pipeline, whose last step is drawn.
        """
        _validate.choice("x", x, _X)
        machine = clone(estimator, safe=False)
        last = _last_step(machine)[0]
        if not hasattr(last, "set_callbacks"):
            raise TypeError(
                "estimator must take callbacks, as PegasosClassifier does with scikit-learn 1.9 or "
                f"later, got {type(last).__name__}"
            )
        recorder = Recorder()
        last.set_callbacks(recorder)
        machine.fit(X, y)
        return cls.from_recorder(recorder, x, ax=ax, **options)

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw on two axes, or on one without the gap; `options` go to ``Axes.plot``.

        Axes are logarithmic. But the axis of objectives is linear if one of them is 0 or below, as
        for one-class machines. A logarithmic axis omits bounds of zero. Gaps below 1e-12 are
        rounding and are drawn as 1e-12.
        """
        if ax is None:
            _, ax = plt.subplots(1, 2, figsize=(9.6, 4), layout="constrained")
        self.ax_ = np.ravel(ax)
        if len(self.ax_) not in (1, 2):
            raise ValueError(f"ax must be one or two axes, got {len(self.ax_)}")
        self.figure_ = self.ax_[0].figure
        n = self.objective.shape[1]
        names = self.names or [f"problem {k}" for k in range(n)]
        drawn = [self.objective, self.bound, np.maximum(self.relative_gap, _LEAST_GAP)]
        if n > _MOST_LINES:
            names, drawn = [f"largest of {n} problems"], [v.max(1, keepdims=True) for v in drawn]
        is_log = not (drawn[0] <= 0).any()
        if is_log:
            drawn[1] = np.where(drawn[1] > 0, drawn[1], np.nan)
        self.lines_: list[list[Line2D]] = [[], [], []]
        self.areas_: list[PolyCollection] = []
        for k, name in enumerate(names):
            style: dict[str, Any] = {**_look(k), "markersize": 4}
            for at, on in enumerate((self.ax_[0], *self.ax_)):
                line = drawn[at][:, k]
                changes = np.flatnonzero(np.append(True, np.diff(line) != 0)).tolist()
                style |= {"markevery": changes, "label": name, "linestyle": ("-", "--", "-")[at]}
                self.lines_[at] += on.plot(self.x_values, line, **style | options)
            above, below = drawn[0][:, k], drawn[1][:, k]
            colour = self.lines_[0][-1].get_color()
            area = {"color": colour, "alpha": 0.3 / (1 + len(names)), "linewidth": 0}
            self.areas_.append(self.ax_[0].fill_between(self.x_values, below, above, **area))
        self.ax_[0].set(
            ylabel="objective (solid) and bound (dashed)", yscale="log" if is_log else "linear"
        )
        for on in self.ax_:
            on.set_xlabel(self.x)
            if self.x == "epoch":
                on.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(self.ax_) == 2:
            self.ax_[1].set(ylabel="relative gap", yscale="log")
        _legend(self.ax_[-1], handles=self.lines_[0])
        return self


class WeightsDisplay:
    """Weights of linear machines, one picture for each problem: bars, or pixels of an image.

    Bars to the right and red pixels speak for the class that comes first in a title, bars to the
    left and blue pixels against it. All pictures have one scale, symmetric around zero.

    Parameters
    ----------
    coef : array-like of shape (n_problems, n_features) or (n_features,)
    titles : list of str of length n_problems
    shape : tuple of two int, default=None
        Rows and columns of an image; None: bars.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of bars; None: "feature 0" and so on.

    Attributes
    ----------
    ax_ : ndarray of shape (n_problems,)
        The matplotlib Axes of each picture.
    figure_ : matplotlib Figure
    images_ : list of matplotlib AxesImage, of images
    colorbar_ : matplotlib Colorbar, of images
    bars_ : list of matplotlib BarContainer, of bars

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pegasos import PegasosClassifier
    >>> from pegasos.plotting import WeightsDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = PegasosClassifier(random_state=0).fit(X, y)
    >>> display = WeightsDisplay.from_estimator(clf)
    >>> print(", ".join(label.get_text() for label in display.ax_[0].get_yticklabels()))
    petal length (cm), petal width (cm), sepal length (cm), sepal width (cm)
    """

    def __init__(
        self,
        coef: ArrayLike,
        titles: Sequence[str],
        shape: tuple[int, int] | None = None,
        feature_names: ArrayLike | None = None,
    ) -> None:
        self.coef, self.titles, self.shape = np.atleast_2d(coef), titles, shape
        n = self.coef.shape[1]
        if shape is not None and (len(shape) != 2 or math.prod(shape) != n):
            raise ValueError(
                "shape must be two sizes of an image of as many pixels as coef_ has columns, "
                f"{n}, got {shape}"
            )
        if feature_names is None:
            feature_names = [f"feature {k}" for k in range(n)]
        self.feature_names = np.asarray(feature_names)
        if self.feature_names.shape != (n,):
            raise ValueError(
                f"feature_names must be as many as coef_ has columns, {n}, "
                f"got shape {self.feature_names.shape}"
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        shape: tuple[int, int] | None = None,
        *,
        feature_names: ArrayLike | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw what a fitted linear machine learned.

        Parameters
        ----------
        estimator : object
            A linear machine of pegasos, a search over one, whose best estimator is drawn, or a
            pipeline that ends with either.
        shape : tuple of two int, default=None
            Rows and columns of images; None: bars.
        feature_names : array-like of str of shape (n_features,), default=None
            None: the names from earlier steps of the pipeline, or from the data frame of the fit.
        ax, **options
            As in `plot`.
        """
        estimator, _, names = _last_step(estimator)
        if not isinstance(estimator, LinearMachine):
            raise TypeError(
                f"estimator must be a linear machine of pegasos, got {type(estimator).__name__}"
            )
        check_is_fitted(estimator, "coef_")
        names = names if feature_names is None else feature_names
        return cls(estimator.coef_, _problem_names(estimator), shape, names).plot(ax=ax, **options)

    def plot(
        self, ax: Any = None, *, cmap: str | Colormap = "RdBu_r", max_features: int = 20
    ) -> Self:
        """Draw on as many axes as there are problems.

        `cmap` colours images. There are bars for the `max_features` largest weights of a problem.
        """
        n = len(self.coef)
        is_image = self.shape is not None
        n_bars = min(_validate.integer("max_features", max_features), self.coef.shape[1])
        if ax is None:
            n_columns = min(n, math.ceil(math.sqrt(2 * n)) if is_image else 3)
            n_rows = math.ceil(n / n_columns)
            width, height = (1.3, 1.5) if is_image else (4.0, 0.9 + 0.22 * n_bars)
            size = max(3.5, 1 + width * n_columns), max(2.5, height * n_rows)
            figure = plt.figure(figsize=size, layout="constrained")
            ax = [figure.add_subplot(n_rows, n_columns, k + 1) for k in range(n)]
        self.ax_ = np.ravel(ax)
        if len(self.ax_) != n:
            raise ValueError(f"ax must be {n} axes, got {len(self.ax_)}")
        self.figure_ = self.ax_[0].figure
        limit = np.abs(self.coef).max() or 1.0
        pictures: list[Any] = []
        for axes, weights, title in zip(self.ax_, self.coef, self.titles, strict=True):
            axes.set_title(title)
            if is_image:
                image = axes.imshow(weights.reshape(self.shape), cmap=cmap, vmin=-limit, vmax=limit)
                axes.set(xticks=[], yticks=[])
                pictures.append(image)
                continue
            largest = np.argsort(-np.abs(weights), kind="stable")[:n_bars]
            largest = largest[np.argsort(weights[largest], kind="stable")]
            length = weights[largest]
            colours = np.where(length > 0, _VERMILLION, _BLUE)
            pictures.append(axes.barh(range(n_bars), length, color=colours))
            axes.set_yticks(range(n_bars), self.feature_names[largest])
            axes.axvline(0, color="black", linewidth=0.8)
            axes.set(xlabel="weight", xlim=(-1.05 * limit, 1.05 * limit))
        if is_image:
            self.images_ = pictures
            self.colorbar_ = self.figure_.colorbar(pictures[-1], ax=list(self.ax_), label="weight")
        else:
            self.bars_ = pictures
        return self


class SupportVectorsDisplay:
    """Rows of two features, with rings around support vectors, and the border between classes.

    For two classes, there are the boundary (solid) and the margins (dashed); for more, the
    predicted regions; for one class, its contour, and outliers outside. Classes differ in colour
    and marker, regions of more than seven classes also in hatches.

    Support vectors of a linear classifier are the rows with a margin of at most one in any problem,
    to a thousandth; those of a one-class machine, the rows with a score of at most zero. With
    ``multi_class="crammer_singer"``, they are the rows whose class leads another class by at most
    the cost of predicting that one. The log loss has no margin: there are no dashed lines, and
    every row is a support vector.

    Parameters
    ----------
    estimator : object
        A fitted classifier or one-class machine of pegasos, a search over one, whose best estimator
        is drawn, or a pipeline that ends with either. The picture shows the features that the last
        step of a pipeline gets: after scaling, they have other units than `X`.
    X : {array-like, sparse matrix} of shape (n_samples, 2)
        In a pipeline, two features must come to its last step.
    y : array-like of shape (n_samples,), default=None
        Labels; not needed for one-class machines.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    boundary_ : sklearn.inspection.DecisionBoundaryDisplay
    points_ : list of matplotlib PathCollection
        Rows of each class.
    rings_ : matplotlib PathCollection

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pegasos import KernelPegasosClassifier
    >>> from pegasos.plotting import SupportVectorsDisplay
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> clf = KernelPegasosClassifier(lam=1e-3, gamma=2.0, random_state=0).fit(X, y)
    >>> display = SupportVectorsDisplay.from_estimator(clf, X, y)
    >>> print(len(display.rings_.get_offsets()), "rings around", len(clf.support_), "vectors")
    11 rings around 11 vectors
    """

    def __init__(self, estimator: Any, X: Any, y: ArrayLike | None = None) -> None:
        self.estimator, X, self.feature_names = _last_step(estimator, X)
        is_one_class = isinstance(self.estimator, OneClass)
        if not is_one_class and not isinstance(self.estimator, Classifier):
            raise TypeError(
                "estimator must be a classifier or a one-class machine of pegasos, "
                f"got {type(self.estimator).__name__}"
            )
        check_is_fitted(self.estimator)
        if kernels.kind(getattr(self.estimator, "kernel", None)) is kernels.Precomputed:
            raise ValueError("estimator must know features, got one with kernel='precomputed'")
        shape = np.shape(X) if not sparse.issparse(X) else X.shape
        if shape[1:] != (2,) or shape[0] < 1:
            raise ValueError(f"X must have two features and at least one row, got shape {shape}")
        rows = self.estimator._validate_rows(X, reset=False)
        self.X, self.points, self.edges = X, _dense(rows), (1.0, 1.0)
        if is_one_class:
            scores = self.estimator.decision_function(X)
            self.classes, self.codes = np.array(["in the class", "outlier"]), (scores < 0) * 1
            self.has_margin, is_support = False, scores <= 0
        else:
            model = self.estimator.to_model()
            self.classes, self.has_margin = model.classes, LOSSES[model.loss].has_margin
            if model.multi_class == "multilabel":
                raise ValueError(
                    "estimator must give each row one class, got one of several labels"
                )
            _validate.labels(y, len(self.points))
            _, self.codes = _validate.labels_among(y, None, model.classes)
            if model.multi_class == "crammer_singer":
                cost = _validate.cost(self.estimator.cost, model.classes)
                self.edges = cost[0, 1], cost[1, 0]
                margins = _joint_margins(self.estimator.decision_function(X), self.codes, cost)
            else:
                assert y is not None  # `labels` refuses it
                margins = self.estimator.margins(X, y)
            is_support = (margins <= 1 + _EDGE).any(axis=1) | (not self.has_margin)
        known = getattr(self.estimator, "support_vectors_", None)
        self.support_vectors = self.points[is_support] if known is None else _dense(known)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Draw a machine and its data."""
        return cls(estimator, X, y).plot(ax=ax, **options)

    def plot(self, ax: Axes | None = None, *, grid_resolution: int = 200) -> Self:
        """Draw, with scores at `grid_resolution` points along each feature."""
        self.ax_ = ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        self.figure_ = ax.figure
        n = len(self.classes)
        colours = [_look(k)["color"] for k in range(n)]
        if n == 2:
            edges = (-self.edges[0], self.edges[1]) if self.has_margin else ()
            lines = {**dict.fromkeys(edges, "--"), 0: "-"}
            options: dict[str, Any] = {
                "response_method": "decision_function", "plot_method": "contour",
                "levels": sorted(lines), "linestyles": [lines[level] for level in sorted(lines)],
                "colors": "black",
            }  # fmt: skip
        else:
            options = {
                "response_method": "predict", "plot_method": "contourf",
                "levels": np.arange(n + 1) - 0.5, "alpha": 0.25, "zorder": -1,
                "hatches": [("", "//", "..", "xx")[k // len(_COLOURS) % 4] for k in range(n)],
            }  # fmt: skip
        corners = _corners(self.X, self.points)
        self.boundary_ = DecisionBoundaryDisplay.from_estimator(
            self.estimator, corners, eps=0, grid_resolution=grid_resolution, ax=ax, **options
        )
        if n > 2:
            # The way to set colours of many classes depends on the version of scikit-learn.
            self.boundary_.surface_.set_cmap(ListedColormap(colours))
        across, up = self.points.T
        self.points_ = [
            ax.scatter(
                across[self.codes == k], up[self.codes == k],
                s=16, label=str(self.classes[k]), **_look(k),
            )
            for k in range(n)
        ]  # fmt: skip
        across, up = self.support_vectors.T
        style: dict[str, Any] = {"facecolors": "none", "edgecolors": "black", "linewidths": 0.8}
        self.rings_ = ax.scatter(across, up, s=60, label="support vectors", **style)
        if self.feature_names is not None:
            ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        _legend(ax)
        return self


class TubeDisplay:
    """Regression on one feature: rows, the predicted curve, and the tube of errors up to epsilon.

    Errors inside the tube cost nothing with ``loss="epsilon_insensitive"`` and its square, and rows
    there are no support vectors. With ``loss="huber"``, rows outside pull with equal force, rows
    inside in proportion to their error. For several features, see
    `sklearn.metrics.PredictionErrorDisplay`.

    Parameters
    ----------
    x, y, y_pred : array-like of shape (n_samples,)
        The feature, the targets and the predictions of rows.
    epsilon : float
        Half the height of the tube; 0 draws none.
    curve : tuple of two array-like of shape (n_points,), default=None
        The feature and the predictions along the curve; None: those of the rows.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : matplotlib Line2D
    tube_ : matplotlib PolyCollection, or None
    points_ : list of two matplotlib PathCollection
        Rows inside the tube and outside. Rows on its edge, to a thousandth, count as inside.

    Examples
    --------
    >>> import numpy as np
    >>> from pegasos import PegasosRegressor
    >>> from pegasos.plotting import TubeDisplay
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = 2 * X[:, 0] + 1
    >>> y[::10] += 1
    >>> reg = PegasosRegressor(C=10, epsilon=0.3, penalize_intercept=False, random_state=0)
    >>> reg = reg.fit(X, y)
    >>> display = TubeDisplay.from_estimator(reg, X, y)
    >>> print(f"{len(display.points_[1].get_offsets())} rows of 100 are outside the tube")
    10 rows of 100 are outside the tube
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        y_pred: ArrayLike,
        epsilon: float,
        curve: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        arrays = {"x": np.asarray(x), "y": np.asarray(y), "y_pred": np.asarray(y_pred)}
        for name, array in arrays.items():
            if array.ndim != 1 or len(array) != len(arrays["x"]) or not len(array):
                raise ValueError(
                    f"{name} must be one-dimensional, with a number for each row, got shape "
                    f"{array.shape}"
                )
        self.x, self.y, self.y_pred = arrays.values()
        self.epsilon = _validate.real("epsilon", epsilon, at_least=0)
        order = np.argsort(self.x, kind="stable")
        self.curve = (self.x[order], self.y_pred[order]) if curve is None else curve

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        epsilon: Any = "auto",
        grid_resolution: int = 500,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw a fitted regressor of one feature, or a pipeline that ends with one.

        Parameters
        ----------
        estimator : object
            Has `predict`.
        X : {array-like, sparse matrix} of shape (n_samples, 1)
        y : array-like of shape (n_samples,)
        epsilon : float or "auto", default="auto"
            "auto" is the epsilon of the estimator, of the best estimator of a search, or of the
            last step of a pipeline; 0 if it has none, as with ``loss="squared_error"``.
        grid_resolution : int, default=500
            Points along the curve.
        ax, **options
            As in `plot`.
        """
        points = _dense(X)
        if points.shape[1:] != (1,) or not len(points):
            raise ValueError(f"X must have one feature and at least one row, got {points.shape}")
        width: Any = epsilon
        if isinstance(epsilon, str) and epsilon == "auto":
            inner = _last_step(estimator)[0]
            has_one = getattr(inner, "loss", None) != "squared_error"
            width = getattr(inner, "epsilon", 0.0) if has_one else 0.0
        first, last = _corners(None, points)[:, 0]
        n_points = _validate.integer("grid_resolution", grid_resolution)
        grid = np.linspace(first, last, n_points)[:, None]
        curve = grid[:, 0], estimator.predict(_like(X, grid))
        return cls(points[:, 0], y, estimator.predict(X), width, curve).plot(ax=ax, **options)

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        y_pred: ArrayLike,
        *,
        epsilon: float,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw predictions `y_pred` of rows with the feature `x` and the targets `y`."""
        return cls(x, y, y_pred, epsilon).plot(ax=ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> Self:
        """Draw; `options` go to ``Axes.plot`` for the curve."""
        self.ax_ = ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        self.figure_ = ax.figure
        style: dict[str, Any] = {"color": "black", "label": "prediction"} | options
        (self.line_,) = ax.plot(*self.curve, **style)
        self.tube_ = None
        if self.epsilon > 0:
            x, middle = (np.asarray(values) for values in self.curve)
            self.tube_ = ax.fill_between(
                x, middle - self.epsilon, middle + self.epsilon,
                color=_ORANGE, alpha=0.2, label=f"errors up to {self.epsilon:g}",
            )  # fmt: skip
        is_outside = np.abs(self.y - self.y_pred) > (1 + _EDGE) * self.epsilon
        names = ("inside", "outside") if self.epsilon > 0 else ("without error", "rows")
        self.points_ = [
            ax.scatter(
                self.x[mine], self.y[mine], s=14, **_look(k),
                label=name if mine.any() else "_none",  # legends omit such labels
            )
            for k, (mine, name) in enumerate(zip((~is_outside, is_outside), names, strict=True))
        ]  # fmt: skip
        ax.set(xlabel="feature", ylabel="target")
        _legend(ax)
        return self


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Distinct values: numbers first, then others, both sorted."""
    return sorted(set(values), key=lambda v: (0, v) if _is_number(v) else (1, str(v)))


def _tick_labels(values: Sequence[Any]) -> list[str]:
    """Texts of parameter values; all are powers of ten if a number is small or large."""
    powers = any(_is_number(v) and v and not 1e-2 <= abs(v) < 1e4 for v in values)

    def text(value: Any) -> str:
        if not (powers and _is_number(value)):
            return f"{value:.4g}" if _is_number(value) else str(value)
        return np.format_float_scientific(value, 2, trim="-", exp_digits=1).replace("+", "")

    return [text(value) for value in values]


def _look(k: int) -> dict[str, Any]:
    """The colour and the marker of class, problem or group number `k`."""
    return {"color": _COLOURS[k % len(_COLOURS)], "marker": _MARKERS[k % len(_MARKERS)]}


def _legend(ax: Axes, **options: Any) -> None:
    """A legend outside the axes, away from the data."""
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, **options)


def _problem_names(estimator: Any) -> list[str]:
    """What each problem distinguishes, with the class of positive scores first."""
    if isinstance(estimator, OneClass):
        return ["one class"]
    if not hasattr(estimator, "classes_"):
        return [f"output {k}" for k in range(estimator.n_outputs_)]
    classes, scheme = estimator.classes_, estimator._scheme
    if scheme == "multilabel":
        return [f"label {k}" for k in classes]
    if len(classes) > 2 and scheme != "ovo":
        return [str(label) for label in classes]
    return [f"{classes[j]} against {classes[i]}" for i, j in _multiclass.pairs(len(classes))]


def _joint_margins(scores: np.ndarray, codes: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """How far each class is behind a row's own class, in units of its cost; NaN for its own."""
    if scores.ndim == 1:  # the lead of the second of two classes
        scores = scores[:, None] * [-0.5, 0.5]
    own = np.take_along_axis(scores, codes[:, None], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # the cost may be 0, as of the own class
        return (own - scores) / cost[codes]


def _standard_error(results: Any, metric: str) -> np.ndarray | None:
    """Standard errors of mean scores of a search; None for other results."""
    _, is_mean, name = metric.rpartition("mean_")
    folds = [v for k, v in results.items() if k.startswith("split") and k.endswith(f"_{name}")]
    if not is_mean or not folds:
        return None
    return standard_errors(np.array(folds, dtype=float).T)


def _marked(results: Any, points: list[int]) -> dict[str, int]:
    """The marked points of a search, by name: the best one is the one that the search takes.

    Among equally good points, it is the first or, in searches of pegasos, one with the largest λ.
    """
    means = np.asarray(results["mean_test_score"], dtype=float)
    ranks = np.asarray(results.get("rank_test_score", -means), dtype=float)[points]
    means = np.where(results.get("dropped", False), np.nan, means)[points]
    if not np.isfinite(means).any():
        return {}
    is_ours, lams = {"standard_error", "param_lam"} <= results.keys(), np.zeros(len(points))
    if is_ours:
        lams = np.asarray(results["param_lam"], dtype=float)[points]
    ranks[np.isnan(means)] = np.inf
    best = int(np.lexsort((np.array(points), -lams, ranks))[0])
    marked = {_BEST: points[best]}
    if is_ours:
        least = means[best] - np.asarray(results["standard_error"])[points[best]]
        marked[_WITHIN] = points[int(np.argmax(np.where(means >= least, lams, 0)))]
    return marked


def _last_step(estimator: Any, X: Any = None) -> tuple[Any, Any, Any]:
    """The estimator at the end of searches and pipelines, its rows, their feature names or None."""
    names = None
    while True:
        if isinstance(estimator, Pipeline):
            before, estimator = estimator[:-1], estimator[-1]
            if len(before):
                X = X if X is None else before.transform(X)
                with contextlib.suppress(AttributeError, ValueError):
                    names = before.get_feature_names_out()
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, X, getattr(estimator, "feature_names_in_", names)


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def _corners(X: Any, points: np.ndarray) -> Any:
    """Two rows, of the type of `X`, at the ends of the range of `points` plus a margin."""
    low, spread = points.min(axis=0), np.ptp(points, axis=0)
    margin = 0.06 * np.where(spread > 0, spread, 1)
    return _like(X, np.stack([low - margin, low + spread + margin]))


def _like(X: Any, points: np.ndarray) -> Any:
    """Points as rows of the type of `X`, if its columns have names."""
    names = _validate.column_names(X)
    if names is None:
        return points
    make = getattr(type(X), "from_pydict", type(X))  # Arrow tables have it
    return make(dict(zip(names, points.T, strict=True)))
