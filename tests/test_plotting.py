"""Pictures: what they contain, what they are called, and what is refused by name."""

import doctest
import runpy
import types
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import paper
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import PredictionErrorDisplay
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    KernelPegasosOneClass,
    KernelPegasosRegressor,
    KernelPegasosRegressorCV,
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosOneClass,
    PegasosRegressor,
)

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from pegasos import plotting
from pegasos.plotting import (
    ConvergenceDisplay,
    Recorder,
    SearchDisplay,
    SupportVectorsDisplay,
    TubeDisplay,
    WeightsDisplay,
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def moons():
    return make_moons(60, noise=0.2, random_state=0)


@pytest.fixture
def blobs():
    X, y = make_blobs(60, centers=3, random_state=1)
    return X / 10, np.array(["left", "right", "top"])[y]


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def finished(**columns):
    """A search with these results: parameters by name, scores by their keys."""
    results = {}
    for name, column in columns.items():
        key = name if name.startswith(("mean_", "std_", "split")) else f"param_{name}"
        results[key] = column
    return types.SimpleNamespace(cv_results_=results)


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("name", plotting.__all__)
def test_examples(name):
    if name in ("ConvergenceDisplay", "Recorder"):
        pytest.importorskip("sklearn.callback")
    found = doctest.DocTestFinder().find(getattr(plotting, name), name)
    assert any(test.examples for test in found)
    for test in found:
        assert doctest.DocTestRunner().run(test).failed == 0


# ---- Searches ------------------------------------------------------------------------------------


def test_a_search_over_two_parameters_is_a_heat_map(moons):
    grid = {"lam": [1e-4, 1e-3, 0.1], "gamma": [0.5, 4]}
    search = GridSearchCV(KernelPegasosClassifier(random_state=0), grid, cv=2).fit(*moons)
    display = SearchDisplay.from_estimator(search)
    ax = display.ax_
    assert display.figure_ is ax.figure
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lam", "gamma")
    assert tick_labels(ax.xaxis) == ["1e-4", "1e-3", "1e-1"]
    assert tick_labels(ax.yaxis) == ["0.5", "4"]
    assert display.colorbar_.ax.get_ylabel() == "mean_test_score"
    assert display.texts_.shape == (2, 3)
    for score, params in zip(
        search.cv_results_["mean_test_score"], search.cv_results_["params"], strict=True
    ):
        at = grid["gamma"].index(params["gamma"]), grid["lam"].index(params["lam"])
        assert display.texts_[at].get_text() == f"{score:.3f}"
        assert display.texts_[at].get_position() == at[::-1]
        assert display.image_.get_array()[at] == score


def test_a_search_over_one_parameter_is_a_curve(moons):
    grid = {"lam": [1e-2, 1e-4, 1e-3]}
    search = GridSearchCV(PegasosClassifier(random_state=0), grid, cv=3).fit(*moons)
    display = SearchDisplay.from_estimator(search)
    line, _, (bars,) = display.errorbar_
    order = [1, 2, 0]
    mean, std = (search.cv_results_[f"{of}_test_score"][order] for of in ("mean", "std"))
    error = std * np.sqrt(3 / 2) / np.sqrt(3)  # of three folds, with Bessel's correction
    np.testing.assert_array_equal(line.get_xdata(), [1e-4, 1e-3, 1e-2])
    np.testing.assert_array_equal(line.get_ydata(), mean)
    lengths = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 2 * error)
    assert display.ax_.get_xscale() == "log"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("lam", "mean_test_score")


def test_parameters_may_be_dictionaries(moons):
    weights = [{0: 1, 1: 5}, None, {0: 5, 1: 1}]
    grid = {"class_weight": weights, "C": [0.1, 1]}
    search = GridSearchCV(PegasosClassifier(random_state=0), grid, cv=2).fit(*moons)
    display = SearchDisplay.from_estimator(search, "class_weight", "C")
    names = ["None", "{0: 1, 1: 5}", "{0: 5, 1: 1}"]
    assert tick_labels(display.ax_.xaxis) == names
    for score, params in zip(
        search.cv_results_["mean_test_score"], search.cv_results_["params"], strict=True
    ):
        at = grid["C"].index(params["C"]), names.index(str(params["class_weight"]))
        assert display.values[at] == score
    alone = GridSearchCV(PegasosClassifier(random_state=0), {"class_weight": weights}, cv=2)
    display = SearchDisplay.from_estimator(alone.fit(*moons))
    assert tick_labels(display.ax_.xaxis) == names


def test_best_points_are_marked(moons):
    best, within = "best mean score", "largest λ within one standard error"
    search = PegasosClassifierCV(lams=np.geomspace(1e-4, 1, 7), cv=3, random_state=0).fit(*moons)
    display = SearchDisplay.from_estimator(search)
    means, error = search.cv_results_["mean_test_score"], search.cv_results_["standard_error"]
    lams = search.cv_results_["param_lam"].data
    k = search.best_index_
    assert display.marks[best] == (search.lam_,)
    assert display.marks[within] == (lams[means >= means[k] - error[k]].max(),)
    marked = {
        line.get_label().partition(":")[0]: line
        for line in display.ax_.lines
        if line.get_label().startswith((best, within))
    }
    assert f"{best}: {means[k]:.3f} ± {error[k]:.3f}" in legend_texts(display.ax_)
    for name, (lam,) in display.marks.items():
        assert marked[name].get_xdata()[0] == lam
        assert marked[name].get_ydata()[0] == means[lams == lam][0]
    search = KernelPegasosClassifierCV(lams=[0.1, 1e-3], gammas=[0.1, 3, 20], cv=3, random_state=0)
    display = SearchDisplay.from_estimator(search.fit(*moons))
    lam, gamma = display.marks[best]
    at = display.y_values.index(gamma), display.x_values.index(lam)
    assert display.values[at] == np.max(display.values) == search.best_score_
    error = search.cv_results_["standard_error"][search.best_index_]
    texts = {f"{best}: {search.best_score_:.3f} ± {error:.3f}", within}
    assert set(legend_texts(display.ax_)) == texts


def test_of_equal_scores_the_mark_is_at_what_the_search_takes(rng):
    """scikit-learn takes the first; ours the largest λ, of scores that are equal in 12 digits."""
    lams = rng.permutation(np.geomspace(1e-6, 1, 30)).tolist()
    means = rng.choice([0.7, 0.8, 0.8 * (1 + 1e-15)], 30)
    is_best = means >= 0.8
    theirs, ours = (finished(lam=lams, mean_test_score=means.tolist()) for _ in range(2))
    for search in (theirs, ours):
        search.cv_results_["rank_test_score"] = np.where(is_best, 1, 2)
    ours.cv_results_["standard_error"] = np.full(30, 0.01)
    first, largest = lams[np.argmax(is_best)], np.max(lams, where=is_best, initial=0)
    for search, lam in ((theirs, first), (ours, largest)):
        assert SearchDisplay.from_estimator(search).marks["best mean score"] == (lam,)


def test_a_search_in_a_pipeline_and_a_pipeline_in_a_search(moons):
    own = PegasosClassifierCV(lams=[1e-3, 1e-2], cv=3, random_state=0).fit(*moons)
    pipeline = make_pipeline("passthrough", clone(own)).fit(*moons)
    display = SearchDisplay.from_estimator(pipeline)
    np.testing.assert_array_equal(display.values, SearchDisplay.from_estimator(own).values)
    np.testing.assert_array_equal(display.standard_error, own.cv_results_["standard_error"])
    svm = Pipeline([("scale", StandardScaler()), ("svm", KernelPegasosClassifier(random_state=0))])
    grid = {"svm__gamma": [0.5, 2], "svm__C": [0.1, 1, 10]}
    display = SearchDisplay.from_estimator(GridSearchCV(svm, grid, cv=2).fit(*moons))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("svm__C", "svm__gamma")
    assert display.values.shape == display.standard_error.shape == (2, 3)


@pytest.mark.parametrize(("name", "of"), [("C", "Cs"), ("lam", "lams")])
def test_what_a_search_tried_goes_across(moons, name, of):
    search = PegasosClassifierCV(**{of: [0.01, 0.1, 1.0]}, cv=3, random_state=0).fit(*moons)
    theirs = GridSearchCV(PegasosClassifier(random_state=0), {name: [0.01, 0.1, 1.0]}, cv=3)
    for each in (search, theirs.fit(*moons)):
        display = SearchDisplay.from_estimator(each)
        assert display.ax_.get_xlabel() == name
        assert display.x_values == [0.01, 0.1, 1.0]
    other = "lam" if name == "C" else "C"
    display = SearchDisplay.from_estimator(search, x=other)
    assert display.ax_.get_xlabel() == other
    assert display.marks["best mean score"] == (getattr(search, f"{other}_"),)


def test_what_was_dropped_is_not_marked():
    search = finished(lam=[1.0, 0.1, 0.01], mean_test_score=[0.9, 0.8, 0.7])
    search.cv_results_ |= {"dropped": [True, False, False], "standard_error": [np.nan, 0.05, 0.05]}
    marks = SearchDisplay.from_estimator(search).marks
    assert set(marks.values()) == {(0.1,)}


def test_a_cell_shows_the_best_over_other_parameters():
    search = finished(
        lam=[0.1, 0.1, 0.1, 0.2, 0.2],
        gamma=[1, 1, 1, 1, 2],
        n_steps=[10, 20, 30, 10, 10],
        mean_test_score=[0.5, 0.7, np.nan, np.nan, 0.25],
        split0_test_score=[0, 0, 0, 0, 0],
        split1_test_score=[1, 2, 3, 4, 5],
    )
    display = SearchDisplay.from_estimator(search)
    np.testing.assert_array_equal(display.values, [[0.7, np.nan], [np.nan, 0.25]])
    assert [text and text.get_text() for text in display.texts_.flat] == [
        "0.700", None, None, "0.250",
    ]  # fmt: skip
    search.cv_results_["param_gamma"] = ["scale"] * 5
    display = SearchDisplay.from_estimator(search)
    np.testing.assert_array_equal(display.values, [0.7, 0.25])
    np.testing.assert_array_equal(display.standard_error, [1, 2.5])


def test_parameters_that_are_no_numbers_or_not_in_every_candidate():
    kernel = np.ma.array(["rbf", "poly", "?"], mask=[False, False, True], dtype=object)
    search = finished(kernel=kernel, lam=[1.0, 20000.0, 1.0], mean_test_score=[0.1, 0.2, 0.3])
    display = SearchDisplay.from_estimator(search, x="kernel", y="lam")
    assert tick_labels(display.ax_.xaxis) == ["poly", "rbf"]
    assert tick_labels(display.ax_.yaxis) == ["1e0", "2e4"]
    np.testing.assert_array_equal(display.values, [[np.nan, 0.1], [0.2, np.nan]])
    display = SearchDisplay.from_estimator(search, x="kernel", y=None)
    assert tick_labels(display.ax_.xaxis) == ["poly", "rbf"]
    assert display.standard_error is None
    gamma = np.array(["scale", 8, 0.5, "auto", 16], dtype=object)
    search = finished(lam=[1.0] * 5, gamma=gamma, mean_test_score=np.arange(5))
    display = SearchDisplay.from_estimator(search)
    assert tick_labels(display.ax_.yaxis) == ["0.5", "8", "16", "auto", "scale"]
    np.testing.assert_array_equal(display.values.ravel(), [2, 1, 4, 3, 0])
    search = finished(lam=[1.0, 1.0], gamma=[0.0898412, 8.98412], mean_test_score=[0.1, 0.2])
    display = SearchDisplay.from_estimator(search)
    assert tick_labels(display.ax_.yaxis) == ["0.08984", "8.984"]


def test_plain_arrays_on_given_axes():
    _, ax = plt.subplots()
    labels = "C", "width", "error"
    display = SearchDisplay([[1, 2, 3], [4, 5, 6]], [1, 2, 3], [10, 20], labels)
    assert display.plot(ax, values_format=".0f") is display
    assert display.ax_ is ax
    assert [text.get_text() for text in display.texts_.flat] == list("123456")
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels[:2]
    marks, values = {"best mean score": (1.0, 10)}, np.logspace(0, 2, 3)
    display = SearchDisplay([[3, 2, 1], [0, 0, 0]], values, np.array([10, 20]), marks=marks).plot()
    assert "3.000" in display.ax_.get_legend().get_texts()[0].get_text()
    curve = SearchDisplay([3, 2, 1], values, marks={"best mean score": (100.0,)}).plot()
    assert "1.000" in curve.ax_.get_legend().get_texts()[0].get_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "C"}, "x must be one of 'lam', 'gamma', 'n_steps', 'auto', got 'C'"),
        ({"y": "C"}, "y must be one of 'gamma', 'n_steps', None, 'auto', got 'C'"),
        ({"y": "lam"}, "y must be one of 'gamma', 'n_steps', None, 'auto', got 'lam'"),
        ({"metric": "f1"}, "metric must be one of 'mean_test_score', 'std_test_score', got 'f1'"),
        ({"x": "gamma", "y": "n_steps"}, "y must be set together with x='gamma'"),
    ],
)
def test_a_search_without_it_is_refused(options, message):
    search = finished(
        lam=[0.1, 0.1],
        gamma=np.ma.array([1, 0], mask=[False, True]),
        n_steps=np.ma.array([0, 1], mask=[True, False]),
        mean_test_score=[0.5, 0.5],
        std_test_score=[0.1, 0.1],
    )
    with pytest.raises(ValueError, match=message):
        SearchDisplay.from_estimator(search, **options)


def test_bad_values_and_no_search():
    with pytest.raises(ValueError, match=r"values must have .* \(3, 2\), got \(2, 3\)"):
        SearchDisplay(np.zeros((2, 3)), [1, 2], [1, 2, 3])
    with pytest.raises(NotFittedError, match="search must be fitted"):
        SearchDisplay.from_estimator(GridSearchCV(PegasosClassifier(), {"lam": [1]}))


# ---- Convergence ---------------------------------------------------------------------------------


@pytest.fixture
def callbacks():
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize(
    "clf",
    [
        paper.linear(lam=0.01, max_iter=6, random_state=0),
        PegasosClassifier(lam=0.01, solver="sdca", random_state=0),
        PegasosClassifier(lam=0.01, solver="newton", random_state=0),
        KernelPegasosClassifier(lam=0.01, random_state=0),
    ],
)
def test_the_record_ends_with_the_fitted_model(clf, blobs):
    recorder = Recorder()
    clf.set_callbacks(recorder).fit(*blobs)
    n = len(recorder.epochs)
    assert recorder.epochs == list(range(1, n + 1))
    assert len(recorder.seconds) == len(recorder.objectives) == len(recorder.gaps) == n
    assert recorder.seconds[0] > 0
    assert (np.diff(recorder.seconds) >= 0).all()
    assert recorder.names == ["left", "right", "top"]
    for objective, bound in zip(recorder.objectives, recorder.bounds, strict=True):
        assert (bound <= clf.objective_ * (1 + 1e-9)).all()
        assert (objective >= clf.dual_objective_ * (1 - 1e-9)).all()
    np.testing.assert_allclose(recorder.objectives[-1], clf.objective_)
    np.testing.assert_allclose(recorder.bounds[-1], clf.dual_objective_)
    np.testing.assert_allclose(recorder.gaps[-1], clf.duality_gap_ / clf.objective_, atol=1e-7)
    clf.fit(*blobs)
    assert len(recorder.epochs) == n  # a new record


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize("kind", [PegasosOneClass, KernelPegasosOneClass])
def test_one_class_has_a_record_in_its_own_units(moons, kind):
    one, recorder = kind(nu=0.3, tol=1e-6, random_state=0), Recorder()
    one.set_callbacks(recorder).fit(moons[0] + 2)  # not around the origin
    assert recorder.names == ["one class"]
    for objective, bound in zip(recorder.objectives, recorder.bounds, strict=True):
        assert bound <= one.objective_ + 1e-12
        assert objective >= one.dual_objective_ - 1e-12
    np.testing.assert_allclose(recorder.objectives[-1], one.objective_, rtol=1e-6)
    np.testing.assert_allclose(recorder.bounds[-1], one.dual_objective_, rtol=1e-6)
    assert recorder.gaps[-1] <= 1e-6
    display = ConvergenceDisplay.from_recorder(recorder)
    assert [ax.get_yscale() for ax in display.ax_] == ["linear", "log"]  # objectives below zero


def test_seconds_leave_out_certificates(monkeypatch):
    times = iter([0.0, 1.0, 3.0, 4.0, 6.0])
    monkeypatch.setattr(plotting.time, "perf_counter", lambda: next(times))
    recorder, epoch = Recorder(), types.SimpleNamespace(task_name="epoch")
    recorder.setup(None, None)
    for _ in range(2):
        recorder.on_fit_task_begin(None, epoch)
        metadata = dict.fromkeys(("objective", "dual_objective", "relative_gap"), np.ones(1))
        recorder.on_fit_task_end(None, epoch, metadata=metadata)
    assert recorder.seconds == [1.0, 2.0]


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize("x", ["epoch", "seconds"])
def test_convergence_has_a_line_for_each_problem(blobs, x):
    clf = paper.linear(lam=0.01, max_iter=6, random_state=0, multi_class="ovo")
    display = ConvergenceDisplay.from_estimator(clf, *blobs, x=x)
    assert not hasattr(clf, "coef_")
    objective, gap = display.ax_
    assert display.figure_ is objective.figure
    assert [ax.get_xlabel() for ax in display.ax_] == [x, x]
    assert objective.get_ylabel() == "objective (solid) and bound (dashed)"
    assert gap.get_ylabel() == "relative gap"
    assert objective.get_yscale() == gap.get_yscale() == "log"
    box = gap.get_legend().get_window_extent()
    assert box.x0 >= gap.get_window_extent().x1  # off the data
    assert legend_texts(gap) == ["right against left", "top against left", "top against right"]
    clf.fit(*blobs)
    ends = clf.objective_, clf.dual_objective_, clf.duality_gap_ / clf.objective_
    for lines, last in zip(display.lines_, ends, strict=True):
        np.testing.assert_allclose([line.get_ydata()[-1] for line in lines], last)
    for above, below, area in zip(*display.lines_[:2], display.areas_, strict=True):
        assert (above.get_ydata() >= below.get_ydata()).all()
        assert (above.get_linestyle(), below.get_linestyle()) == ("-", "--")
        assert above.get_color() == below.get_color()
        heights = area.get_paths()[0].vertices[:, 1]
        assert {*above.get_ydata(), *below.get_ydata()} <= {*heights}
    looks = {(line.get_color(), line.get_marker()) for line in display.lines_[0]}
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == 3
    if x == "epoch":
        assert list(gap.lines[0].get_xdata()) == [1, 2, 3, 4, 5, 6]
    else:
        assert (gap.lines[0].get_xdata() > 0).all()


def test_gaps_that_are_rounding_are_drawn_as_the_least():
    gap = np.array([[0.1], [1e-17], [0.0]])
    display = ConvergenceDisplay([1, 2, 3], gap + 1, np.ones((3, 1)), gap).plot()
    np.testing.assert_array_equal(display.lines_[2][0].get_ydata(), [0.1, 1e-12, 1e-12])


def test_many_problems_are_one_line_and_marks_are_changes():
    gap = np.array([[0.5, 0.5, 0.25]] + 9 * [[0.1, 0.1, 0.1]]).T
    display = ConvergenceDisplay([1, 2, 3], gap, gap / 2, gap).plot(marker="x")
    assert [len(lines) for lines in display.lines_] == [10, 10, 10]
    assert display.lines_[2][0].get_markevery() == [0, 2]
    assert display.lines_[2][0].get_marker() == "x"
    assert legend_texts(display.ax_[1])[:2] == ["problem 0", "problem 1"]
    wide = np.hstack([gap, [[0.1], [0.7], [0.1]]])
    _, axes = plt.subplots(2)
    display = ConvergenceDisplay([1, 2, 3], wide, wide / 2, wide).plot(axes)
    assert display.ax_.tolist() == axes.tolist()
    assert [len(ax.lines) for ax in axes] == [2, 1]
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), [0.5, 0.7, 0.25])
    assert legend_texts(axes[1]) == ["largest of 11 problems"]


def test_one_axes_has_no_gap_and_a_bound_of_zero_is_left_out():
    _, ax = plt.subplots()
    display = ConvergenceDisplay([1, 2], [[1.0], [0.5]], [[0.0], [0.4]], [[1.0], [0.2]]).plot(ax)
    assert display.ax_.tolist() == [ax]
    assert [len(lines) for lines in display.lines_] == [1, 1, 0]
    np.testing.assert_array_equal(display.lines_[1][0].get_ydata(), [np.nan, 0.4])


@pytest.mark.usefixtures("callbacks")
def test_a_gap_that_is_not_known_leaves_its_axes_empty(moons):
    clf = paper.kernel(lam=0.1, kernel="sigmoid", max_iter=3, random_state=0)
    display = ConvergenceDisplay.from_estimator(clf, *moons)
    assert np.isnan(display.relative_gap).all()
    display.figure_.canvas.draw()


@pytest.mark.usefixtures("callbacks")
def test_convergence_of_a_pipeline_is_that_of_its_last_step(blobs):
    clf, scaler = PegasosClassifier(C=2, random_state=0), StandardScaler()
    piped = ConvergenceDisplay.from_estimator(make_pipeline(scaler, clf), *blobs)
    alone = ConvergenceDisplay.from_estimator(clf, scaler.fit_transform(blobs[0]), blobs[1])
    np.testing.assert_array_equal(piped.objective, alone.objective)
    np.testing.assert_array_equal(piped.bound, alone.bound)


def test_bad_records(moons):
    with pytest.raises(ValueError, match="recorder must have seen an epoch"):
        ConvergenceDisplay.from_recorder(Recorder())
    for other in (None, Recorder, PegasosClassifier(), [1]):
        with pytest.raises(TypeError, match=r"recorder must be a pegasos\.plotting\.Recorder, got"):
            ConvergenceDisplay.from_recorder(other)
    with pytest.raises(ValueError, match="x must be one of 'epoch', 'seconds', got 'steps'"):
        ConvergenceDisplay.from_estimator(PegasosClassifier(), *moons, x="steps")
    with pytest.raises(TypeError, match="estimator must take callbacks"):
        ConvergenceDisplay.from_estimator(object(), *moons)
    with pytest.raises(ValueError, match="ax must be one or two axes, got 3"):
        ConvergenceDisplay([1], [[1]], [[1]], [[0]]).plot(plt.subplots(3)[1])


# ---- Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_classes", "multi_class", "titles"),
    [
        (2, "ovr", ["1 against 0"]),
        (3, "ovr", ["0", "1", "2"]),
        (3, "ovo", ["1 against 0", "2 against 0", "2 against 1"]),
    ],
)
def test_weights_are_images_with_titles(rng, n_classes, multi_class, titles):
    X, y = rng.normal(size=(40, 12)), np.arange(40) % n_classes
    clf = PegasosClassifier(lam=0.1, multi_class=multi_class, random_state=0).fit(X, y)
    display = WeightsDisplay.from_estimator(clf, shape=(3, 4))
    assert [ax.get_title() for ax in display.ax_] == titles
    assert len(display.images_) == len(titles)
    limit = np.abs(clf.coef_).max()
    for image, weights in zip(display.images_, clf.coef_, strict=True):
        np.testing.assert_array_equal(image.get_array(), weights.reshape(3, 4))
        assert image.get_clim() == (-limit, limit)
    assert len(display.figure_.axes) == len(titles) + 1  # and the colour bar


def test_the_best_of_a_search_on_given_axes(rng):
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 2
    search = GridSearchCV(PegasosClassifier(random_state=0), {"lam": [0.1, 1]}, cv=2).fit(X, y)
    _, ax = plt.subplots()
    display = WeightsDisplay.from_estimator(search, (2, 2), ax=ax)
    assert display.ax_.tolist() == [ax]
    coef = search.best_estimator_.coef_.reshape(2, 2)
    np.testing.assert_array_equal(display.images_[0].get_array(), coef)


@pytest.mark.parametrize("layout", ["plain", "frame", "pipeline", "text", "given"])
def test_weights_are_bars_with_names(blobs, layout):
    X, y = blobs
    given, clf = None, PegasosClassifier(lam=0.1, random_state=0)
    names = {"frame": ["height", "width"], "pipeline": ["x0", "x1"], "given": ["p", "q"]}
    names = names.get(layout, ["feature 0", "feature 1"])
    if layout == "frame":
        X = pd.DataFrame(X, columns=names)
    if layout == "pipeline":
        clf = make_pipeline(StandardScaler(), clf)
    if layout == "given":
        given = names
    if layout == "text":
        X, y = ["good film", "bad film", "bad play", "good play"] * 4, [1, 0, 0, 1] * 4
        clf, names = make_pipeline(TfidfVectorizer(), clf), ["bad", "film", "good", "play"]
    display = WeightsDisplay.from_estimator(clf.fit(X, y), feature_names=given)
    coef = (clf[-1] if hasattr(clf, "steps") else clf).coef_
    assert len(display.bars_) == len(display.ax_) == len(coef)
    for ax, bars, weights in zip(display.ax_, display.bars_, coef, strict=True):
        shown = dict(zip(tick_labels(ax.yaxis), [bar.get_width() for bar in bars], strict=True))
        assert shown == dict(zip(names, weights, strict=True))
        assert list(shown.values()) == sorted(weights)
    if layout == "text":
        assert tick_labels(ax.yaxis)[0] == "bad"
        assert tick_labels(ax.yaxis)[-1] == "good"


def test_bars_are_of_the_largest_weights(rng):
    X = rng.normal(size=(80, 30))
    reg = PegasosRegressor(random_state=0).fit(X, X[:, [3, 7]] @ [[2, 0], [-1, 1]])
    display = WeightsDisplay.from_estimator(reg, max_features=3)
    assert [ax.get_title() for ax in display.ax_] == ["output 0", "output 1"]
    for bars, weights in zip(display.bars_, reg.coef_, strict=True):
        widths = [bar.get_width() for bar in bars]
        assert widths == sorted(sorted(weights, key=abs)[-3:])
    colours = [bar.get_facecolor() for bar in display.bars_[0]]
    assert colours[0] != colours[-1]  # against and for


def test_weights_may_be_those_of_one_output():
    display = WeightsDisplay(np.arange(3), ["price"]).plot()
    assert display.ax_[0].get_title() == "price"


def test_bad_weights(moons):
    clf = PegasosClassifier(lam=0.1, random_state=0).fit(*moons)
    with pytest.raises(ValueError, match=r"shape must be .* coef_ has columns, 2, got \(28, 28\)"):
        WeightsDisplay.from_estimator(clf, shape=(28, 28))
    with pytest.raises(ValueError, match=r"feature_names must be as many .* 2, got shape \(3,\)"):
        WeightsDisplay.from_estimator(clf, feature_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="ax must be 1 axes, got 2"):
        WeightsDisplay.from_estimator(clf, ax=plt.subplots(2)[1])
    with pytest.raises(ValueError, match=r"shape must be two sizes .* got \(2,\)"):
        WeightsDisplay.from_estimator(clf, shape=(2,))
    with pytest.raises(NotFittedError):
        WeightsDisplay.from_estimator(PegasosClassifier())
    kernel = KernelPegasosClassifier(lam=0.1, random_state=0).fit(*moons)
    with pytest.raises(TypeError, match="a linear machine of pegasos, got KernelPegasosClassifier"):
        WeightsDisplay.from_estimator(kernel, (1, 2))
    with pytest.raises(TypeError, match=r"estimator must be a linear machine .* got object"):
        WeightsDisplay.from_estimator(object())


# ---- Support vectors -----------------------------------------------------------------------------


def colours_and_markers(display):
    """The distinct ones of the points."""
    colours = {tuple(points.get_facecolor()[0]) for points in display.points_}
    markers = {points.get_paths()[0].vertices.tobytes() for points in display.points_}
    return colours, markers


def test_support_vectors_are_ringed_and_margins_drawn(moons):
    X, y = moons
    clf = KernelPegasosClassifier(lam=1e-2, gamma=2.0, random_state=0).fit(X, y)
    display = SupportVectorsDisplay.from_estimator(clf, X, y, grid_resolution=30)
    assert display.figure_ is display.ax_.figure
    np.testing.assert_array_equal(display.rings_.get_offsets(), X[clf.support_])
    assert 0 < len(clf.support_) < len(X)
    for k in (0, 1):
        np.testing.assert_array_equal(display.points_[k].get_offsets(), X[y == k])
    assert [len(looks) for looks in colours_and_markers(display)] == [2, 2]
    box, inside = display.ax_.get_legend().get_window_extent(), display.ax_.get_window_extent()
    assert box.x0 >= inside.x1  # off the data
    assert legend_texts(display.ax_) == ["0", "1", "support vectors"]
    contours = display.boundary_.surface_
    assert list(contours.levels) == [-1, 0, 1]
    corner = display.boundary_.xx0[0, 0], display.boundary_.xx1[0, 0]
    assert (corner < X.min(axis=0)).all()
    on_boundary = contours.get_paths()[1].vertices
    assert np.abs(clf.decision_function(on_boundary)).max() < 0.1


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_support_vectors_of_linear_machines_by_definition(blobs, multi_class):
    X, y = blobs
    clf = PegasosClassifier(lam=0.1, multi_class=multi_class, random_state=0).fit(X, y)
    display = SupportVectorsDisplay.from_estimator(clf, X, y, grid_resolution=10)
    wanted = set()
    a, b, c = clf.classes_
    problems = [(b, a), (c, a), (c, b)] if multi_class == "ovo" else [(a, ""), (b, ""), (c, "")]
    for (later, earlier), w, intercept in zip(problems, clf.coef_, clf.intercept_, strict=True):
        for i, label in enumerate(y):
            score = X[i] @ w + intercept
            if label == later and score <= 1.001:
                wanted.add(i)
            if label != later and earlier in (label, "") and score >= -1.001:
                wanted.add(i)
    np.testing.assert_array_equal(display.rings_.get_offsets(), X[sorted(wanted)])
    assert 0 < len(wanted) < len(X)


@pytest.mark.parametrize("seed", range(5))
def test_linear_support_vectors_on_the_margin_are_ringed(seed):
    """Rounding leaves about half of them just beyond it."""
    X, y = make_blobs(60, centers=2, cluster_std=1.5, random_state=seed)
    clf = PegasosClassifier(penalize_intercept=False, random_state=0).fit(X, y)
    display = SupportVectorsDisplay.from_estimator(clf, X, y, grid_resolution=10)
    wanted = SVC(kernel="linear", tol=1e-9).fit(X, y).support_
    np.testing.assert_array_equal(display.rings_.get_offsets(), X[np.sort(wanted)])


@pytest.mark.parametrize("cost", [None, [[0, 2, 0.5], [1, 0, 3], [2, 1, 0]]])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_support_vectors_of_the_joint_problem_have_its_model(n_classes, cost):
    X, y = make_blobs(80, centers=n_classes, random_state=1)
    cost = cost and np.array(cost)[:n_classes, :n_classes]
    options = {"multi_class": "crammer_singer", "cost": cost, "tol": 1e-9, "random_state": 0}
    clf = PegasosClassifier(C=0.1, penalize_intercept=False, **options).fit(X, y)
    display = SupportVectorsDisplay.from_estimator(clf, X, y, grid_resolution=50)
    rings = {tuple(row) for row in display.rings_.get_offsets().tolist()}
    is_ringed = np.array([tuple(row) in rings for row in X.tolist()])
    assert is_ringed.sum() < len(X) / 2
    again = PegasosClassifier(C=0.1, penalize_intercept=False, **options)
    again.fit(X[is_ringed], y[is_ringed])
    np.testing.assert_allclose(again.coef_, clf.coef_, atol=1e-4 * np.abs(clf.coef_).max())
    if n_classes == 2:
        edges = [-1, 0, 1] if cost is None else [-2, 0, 1]
        assert list(display.boundary_.surface_.levels) == edges


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber", "log_loss"])
def test_a_loss_without_a_margin_has_no_lines_of_it(moons, kind, loss):
    X, y = moons
    clf = kind(lam=1e-2, loss=loss, random_state=0).fit(X, y)
    display = SupportVectorsDisplay.from_estimator(clf, X, y, grid_resolution=10)
    has_margin = loss != "log_loss"
    levels = [-1, 0, 1] if has_margin else [0]
    assert list(display.boundary_.surface_.levels) == levels
    n_rings = len(display.rings_.get_offsets())
    assert n_rings < len(X) if has_margin else n_rings == len(X)
    if kind is KernelPegasosClassifier:
        assert n_rings == len(clf.support_)


def test_predicted_regions_have_the_colours_of_their_classes(blobs):
    X, y = blobs
    frame = pd.DataFrame(X, columns=["height", "width"])
    clf = KernelPegasosClassifier(lam=1e-2, random_state=0).fit(frame, y)
    display = SupportVectorsDisplay.from_estimator(clf, frame, y, grid_resolution=30)
    ax = display.ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "width")
    assert legend_texts(ax) == ["left", "right", "top", "support vectors"]
    assert len(display.rings_.get_offsets()) == len(clf.support_)
    regions = display.boundary_.surface_
    for k, points in enumerate(display.points_):
        np.testing.assert_allclose(regions.get_facecolor()[k][:3], points.get_facecolor()[0][:3])
        path = regions.get_paths()[k]
        inside = path.contains_points(points.get_offsets())
        assert inside.mean() > 0.8


def test_more_classes_than_named_colours(rng):
    X, y = rng.normal(size=(48, 2)), np.arange(48) % 12
    clf = paper.kernel(lam=1e-2, random_state=0).fit(X, y)
    display = SupportVectorsDisplay.from_estimator(clf, X, y, grid_resolution=10)
    colours, markers = colours_and_markers(display)
    assert (len(colours), len(markers)) == (7, 8)
    pairs = {
        (tuple(points.get_facecolor()[0]), points.get_paths()[0].vertices.tobytes())
        for points in display.points_
    }
    assert len(pairs) == 12
    hatches = display.boundary_.surface_.hatches
    assert len({*zip([k % 7 for k in range(12)], hatches, strict=True)}) == 12


@pytest.mark.parametrize("kind", [PegasosOneClass, KernelPegasosOneClass])
def test_one_class_has_a_contour_and_outliers(moons, kind):
    X = moons[0] + 2
    one = kind(nu=0.2, random_state=0).fit(X)
    display = SupportVectorsDisplay.from_estimator(one, X, grid_resolution=30)
    assert legend_texts(display.ax_) == ["in the class", "outlier", "support vectors"]
    assert [len(looks) for looks in colours_and_markers(display)] == [2, 2]
    predicted = one.predict(X)
    for points, label in zip(display.points_, (1, -1), strict=True):
        np.testing.assert_array_equal(points.get_offsets(), X[predicted == label])
    contour = display.boundary_.surface_
    assert list(contour.levels) == [0]
    scores = one.decision_function(X)
    on_it = one.decision_function(contour.get_paths()[0].vertices)
    assert np.abs(on_it).max() < 0.05 * np.ptp(scores)
    rings = display.rings_.get_offsets()
    expected = X[scores <= 0] if kind is PegasosOneClass else X[one.support_]
    np.testing.assert_array_equal(rings, expected)


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier, PegasosOneClass])
def test_the_last_step_of_a_pipeline_is_drawn(rng, moons, kind):
    X, y = np.hstack([moons[0] * 100, rng.normal(size=(60, 2))]), moons[1]
    search = make_pipeline(StandardScaler(), PCA(2), kind(random_state=0)).fit(X, y)
    if kind is PegasosClassifier:
        search = GridSearchCV(search, {"pegasosclassifier__lam": [0.1, 0.01]}, cv=2).fit(X, y)
    pipeline = getattr(search, "best_estimator_", search)
    Z = pipeline[:-1].transform(X)
    display = SupportVectorsDisplay.from_estimator(search, X, y, grid_resolution=10)
    alone = SupportVectorsDisplay.from_estimator(pipeline[-1], Z, y, grid_resolution=10)
    np.testing.assert_array_equal(display.rings_.get_offsets(), alone.rings_.get_offsets())
    for one, other in zip(display.points_, alone.points_, strict=True):
        np.testing.assert_array_equal(one.get_offsets(), other.get_offsets())
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("pca0", "pca1")


def test_sparse_rows_and_a_search_on_given_axes(moons):
    X, y = sparse.csr_array(moons[0]), moons[1]
    search = GridSearchCV(KernelPegasosClassifier(random_state=0), {"lam": [0.1]}, cv=2).fit(X, y)
    _, ax = plt.subplots()
    display = SupportVectorsDisplay.from_estimator(search, X, y, ax=ax, grid_resolution=10)
    assert display.ax_ is ax
    assert len(display.rings_.get_offsets()) == len(search.best_estimator_.support_)


def test_bad_data(moons, rng):
    X, y = moons
    clf = PegasosClassifier(lam=0.1, random_state=0).fit(X, y)
    for bad in (rng.normal(size=(5, 3)), X[:0], X[0]):
        with pytest.raises(ValueError, match=r"X must have two features and .* row, got shape \("):
            SupportVectorsDisplay.from_estimator(clf, bad, np.zeros(len(bad)))
    for kind in (PegasosClassifier, KernelPegasosClassifier):
        frame = pd.DataFrame(X, columns=["a", "b"])
        named = kind(lam=0.1, random_state=0).fit(frame, y)
        with pytest.raises(ValueError, match="feature names should match"):
            SupportVectorsDisplay(named, frame[["b", "a"]], y)
        wide = kind(lam=0.1, random_state=0).fit(X[:, [0, 1, 1]], y)
        with pytest.raises(ValueError, match=r"X has 2 features, but .* 3 features"):
            SupportVectorsDisplay(wide, X, y)
    with pytest.raises(TypeError, match="X must be numeric"):
        SupportVectorsDisplay(clf, X.astype(str), y)
    machine = KernelPegasosClassifier(lam=0.1, kernel="precomputed").fit(X[:2] @ X[:2].T, [0, 1])
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        SupportVectorsDisplay(machine, X[:2], [0, 1])
    with pytest.raises(ValueError, match="y must have one label per row"):
        SupportVectorsDisplay.from_estimator(clf, X, y[1:])
    with pytest.raises(ValueError, match="y must contain only labels in classes"):
        SupportVectorsDisplay.from_estimator(clf, X, y + 1)
    with pytest.raises(NotFittedError):
        SupportVectorsDisplay.from_estimator(PegasosClassifier(), X, y)
    for other in (object(), PegasosRegressor().fit(X, y)):
        with pytest.raises(
            TypeError, match="estimator must be a classifier or a one-class machine"
        ):
            SupportVectorsDisplay.from_estimator(other, X, y)


# ---- Tubes ---------------------------------------------------------------------------------------


@pytest.fixture
def wave():
    X = np.linspace(0, 6, 60)[:, None]
    return X, np.sin(X[:, 0]) + 0.3 * np.cos(40 * X[:, 0])


@pytest.mark.parametrize(
    "layout", ["dense", "sparse", "frame", "polars", "pyarrow", "pipeline", "search"]
)
def test_a_tube_tells_rows_inside_from_rows_outside(wave, layout):
    X, y = wave
    X = {"sparse": sparse.csr_array(X), "frame": pd.DataFrame({"t": X[:, 0]})}.get(layout, X)
    if layout in ("polars", "pyarrow"):
        library = pytest.importorskip(layout, reason=f"{layout} is not installed")
        make = {"polars": "DataFrame", "pyarrow": "table"}[layout]
        X = getattr(library, make)({"t": X[:, 0]})
    reg = KernelPegasosRegressor(C=10, epsilon=0.2, random_state=0)
    if layout == "pipeline":
        reg = make_pipeline(StandardScaler(), reg)
    if layout == "search":
        reg = KernelPegasosRegressorCV(Cs=[1, 10], epsilons=[0.2], cv=2, random_state=0)
    reg.fit(X, y)
    _, ax = plt.subplots()
    display = TubeDisplay.from_estimator(reg, X, y, ax=ax, color="green")
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    errors = np.abs(y - reg.predict(X))
    inside, outside = (len(points.get_offsets()) for points in display.points_)
    assert (inside, outside) == ((errors <= 0.2002).sum(), (errors > 0.2002).sum())
    assert outside > 0
    x, middle = display.line_.get_data()
    assert x[0] < 0
    assert x[-1] > 6
    (path,) = display.tube_.get_paths()
    assert path.vertices[:, 1].min() == pytest.approx(middle.min() - 0.2, abs=1e-9)
    assert path.vertices[:, 1].max() == pytest.approx(middle.max() + 0.2, abs=1e-9)
    assert display.line_.get_color() == "green"


def test_a_loss_without_epsilon_has_no_tube(wave):
    X, y = wave
    reg = PegasosRegressor(loss="squared_error", random_state=0).fit(X, y)
    display = TubeDisplay.from_estimator(reg, X, y)
    assert display.tube_ is None
    # The legend names what is drawn.
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["prediction", "rows"]
    assert TubeDisplay.from_estimator(reg, X, y, epsilon=0.5).tube_ is not None


def test_a_tube_of_predictions_goes_through_the_rows(wave, rng):
    X, y = wave
    mixed = rng.permutation(60)
    x = X[mixed, 0]
    display = TubeDisplay.from_predictions(x, y[mixed], 2 * x, epsilon=0.5)
    np.testing.assert_array_equal(display.line_.get_data(), [X[:, 0], 2 * X[:, 0]])


def test_bad_tubes(wave):
    X, y = wave
    two = PegasosRegressor().fit(np.column_stack([X, X]), y)
    with pytest.raises(ValueError, match=r"X must have one feature .*got \(60, 2\)"):
        TubeDisplay.from_estimator(two, np.column_stack([X, X]), y)
    many = PegasosRegressor().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"y must be one-dimensional, .*got shape \(60, 2\)"):
        TubeDisplay.from_estimator(many, X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="epsilon must be a finite number >= 0, got -1"):
        TubeDisplay.from_predictions(X[:, 0], y, y, epsilon=-1)
    with pytest.raises(TypeError, match="epsilon must be a finite number >= 0, got array"):
        TubeDisplay.from_estimator(PegasosRegressor().fit(X, y), X, y, epsilon=np.ones(2))
    with pytest.raises(NotFittedError):
        TubeDisplay.from_estimator(PegasosRegressor(), X, y)


@pytest.mark.parametrize("kind", ["actual_vs_predicted", "residual_vs_predicted"])
def test_scikit_learn_draws_predictions_and_residuals(wave, kind):
    X, y = wave
    reg = PegasosRegressor(random_state=0).fit(X, y)
    display = PredictionErrorDisplay.from_estimator(reg, X, y, kind=kind)
    np.testing.assert_allclose(display.y_pred, reg.predict(X))


def test_the_picture_of_a_certificate_has_the_optimum_in_between(monkeypatch):
    saved = []
    monkeypatch.setattr(plt.Figure, "savefig", lambda figure, path, **_: saved.append(path))
    script = Path(__file__).parents[1] / "docs" / "certificate.py"
    drawn = runpy.run_path(script)
    assert saved == [script.with_suffix(".png")]
    best = PegasosClassifier(lam=1e-2, tol=1e-6, random_state=0).fit(
        drawn["X"] / 16, drawn["y"] == 8
    )
    above, below = (drawn[name].get_ydata() for name in ("above", "below"))
    assert (above >= best.dual_objective_).all()
    assert (below <= best.objective_).all()
    assert above[-1] - below[-1] < 1e-3 * above[-1]  # as the README says
