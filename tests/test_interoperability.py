"""The estimators inside what others made: scikit-learn's tools, frames, files, other processes."""

import dataclasses
import io
import itertools
import multiprocessing
import operator
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from covering import covering
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC, OneClassSVM

import pegasos
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
    PegasosRegressorCV,
)
from pegasos.problems._losses import LOSSES, TARGET_LOSSES

MACHINES = {
    "linear": PegasosClassifier(lam=1e-3, random_state=0),
    "linear, pairs": PegasosClassifier(lam=1e-3, multi_class="ovo", random_state=0),
    "rbf": KernelPegasosClassifier(lam=1e-3, gamma=0.5, random_state=0),
    "rbf, pairs": KernelPegasosClassifier(lam=1e-3, gamma=0.5, multi_class="ovo", random_state=0),
}

NAMES = np.array(["setosa", "versicolor", "virginica"])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(params=MACHINES)
def machine(request):
    return clone(MACHINES[request.param])


# ---- scikit-learn's tools ------------------------------------------------------------------------


def test_a_grid_search_over_a_pipeline_finds_the_kernel_that_fits():
    X, y = make_moons(200, noise=0.1, random_state=0)
    pipe = make_pipeline(StandardScaler(), KernelPegasosClassifier(lam=1e-3, random_state=0))
    grid = {"kernelpegasosclassifier__kernel": ["linear", "rbf"]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"kernelpegasosclassifier__kernel": "rbf"}
    assert search.best_score_ > 0.95


@pytest.mark.parametrize("loss", list(LOSSES))
def test_calibration_gives_probabilities_that_follow_the_scores(iris, machine, loss):
    X, y = iris
    machine.set_params(loss=loss)
    clf = CalibratedClassifierCV(machine, ensemble=False, cv=3).fit(X, y)
    probabilities = clf.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert clf.score(X, y) > 0.85


def test_one_vs_rest_around_binary_machines_is_the_multi_class_machine(iris):
    X, y = iris
    ours = PegasosClassifier(lam=1e-2, tol=1e-6, random_state=0).fit(X, y)
    around = OneVsRestClassifier(PegasosClassifier(lam=1e-2, tol=1e-6, random_state=0)).fit(X, y)
    # The objective is strongly convex: a relative gap g leaves |w - w*|^2 <= 2 g P / lam.
    for k, machine in enumerate(around.estimators_):
        far = np.linalg.norm(machine.coef_[0] - ours.coef_[k])
        assert far <= 2 * np.sqrt(2 * 1e-6 * ours.objective_[k] / 1e-2)


def test_a_linear_machine_on_nystroem_features_is_nearly_the_kernel_machine():
    X, y = make_moons(300, noise=0.15, random_state=0)
    exact = KernelPegasosClassifier(lam=1e-3, gamma=2.0, random_state=0).fit(X, y)
    approximate = make_pipeline(
        Nystroem(gamma=2.0, n_components=100, random_state=0),
        PegasosClassifier(lam=1e-3, random_state=0),
    ).fit(X, y)
    assert (exact.predict(X) == approximate.predict(X)).mean() > 0.98


def test_metadata_routing_brings_sample_weights_to_every_fold(iris, machine):
    X, y = iris
    weights = np.where(y == 2, 0.0, 1.0)  # a class of weight zero is never predicted
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scaler, machine.set_fit_request(sample_weight=True))
        # Without a scorer of its own, scikit-learn 1.6 finds no request in a pipeline's score.
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        found = cross_validate(
            pipe, X, y, cv=3, params={"sample_weight": weights}, scoring=scorer,
            return_estimator=True,
        )  # fmt: skip
        for fitted in found["estimator"]:
            assert 2 not in fitted.predict(X)
    assert found["test_score"].min() > 0.95  # it would be 2/3 at most without weights


@pytest.mark.parametrize("kind", [PegasosClassifierCV, GridSearchCV])
def test_metadata_routing_brings_groups_to_the_splitter_of_a_search(iris, kind):
    X, y = iris
    cv = LeaveOneGroupOut()
    search = kind(PegasosClassifier(), {"C": [1]}, cv=cv) if kind is GridSearchCV else kind(cv=cv)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            search, X, y, cv=3, params={"groups": np.arange(150) % 4}, return_estimator=True,
            error_score="raise",
        )  # fmt: skip
        assert [fitted.n_splits_ for fitted in found["estimator"]] == [4, 4, 4]
        # What users have requested stands.
        search.set_fit_request(groups="family") if kind is PegasosClassifierCV else None
        cross_validate(
            search, X, y, cv=3, error_score="raise",
            params={"groups" if kind is GridSearchCV else "family": np.arange(150) % 4},
        )  # fmt: skip


# ---- Data frames ---------------------------------------------------------------------------------


def test_arrays_that_could_be_of_dask_but_are_not_are_read_without_a_warning(iris, machine):
    """Those of xarray have the method of Dask's collections, which returns None then."""

    class Labelled:
        def __init__(self, values):
            self.values, self.shape, self.ndim = values, values.shape, values.ndim

        def __array__(self, dtype=None, copy=None):
            return np.array(self.values, dtype)

        def __dask_graph__(self):
            return None

    X, y = iris
    found = clone(machine).fit(Labelled(X), y).predict(Labelled(X))
    assert np.array_equal(found, clone(machine).fit(X, y).predict(X))


def frame_of(library, X, y):
    names = [f"x{k}" for k in range(X.shape[1])]
    label = np.array(["one", "two", "three"])[y]
    if library == "pandas":
        return pd.DataFrame(X, columns=names), pd.Series(label)
    polars = pytest.importorskip("polars", reason="polars is not installed (extra interop)")
    return polars.DataFrame(X, schema=names), polars.Series(label)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_give_the_bits_of_arrays_and_their_names(iris, machine, library):
    X, y = iris
    frame, labels = frame_of(library, X, y)
    fitted = clone(machine).fit(frame, labels)
    plain = machine.fit(X, np.asarray(labels))
    np.testing.assert_array_equal(fitted.decision_function(frame), plain.decision_function(X))
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    assert set(fitted.predict(frame)) == {"one", "two", "three"}
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[[*frame.columns[1:], frame.columns[0]]])


def test_tables_of_arrow_are_rows_with_names(iris, machine, tmp_path):
    """Their `columns` are what is in them: models refused them, and messages showed all of it."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    X, y = iris
    names = ["a", "b", "c", "d"]
    table = pyarrow.table(dict(zip(names, X.T, strict=True)))
    model = machine.fit(table, y).to_model()
    np.testing.assert_array_equal(model.predict(table), machine.predict(table))
    with pytest.raises(ValueError, match=r"columns of training.*'d', 'c', 'b', 'a'"):
        model.predict(table.select(names[::-1]))
    for column, words in (
        (np.where(y == 0, np.nan, 1.0), r"X\[0, 4\] \(column 'e'\) is nan"),
        (NAMES[y], "got text .* in column 'e'"),
    ):
        with pytest.raises(ValueError, match=words):
            machine.fit(table.append_column("e", pyarrow.array(column)), y)
    for kind in ("timestamp[us]", "date32", "date64", "time32[s]", "duration[ns]"):
        times = pyarrow.nulls(len(y), pyarrow.type_for_alias(kind))
        words = f"column 'e' of X must be numeric, got dtype {kind[:6]}"
        with pytest.raises(TypeError, match=words):
            machine.fit(table.append_column("e", times), y)
    blocks = pegasos.Blocks((table, y), cache=tmp_path, memory="1MB")
    assert blocks.feature_names == names


def test_columns_and_series_that_are_no_rows_are_named(machine):
    dates = pd.DataFrame({"a": [1.0, 2], "day": pd.date_range("2026-01-01", periods=2)})
    with pytest.raises(TypeError, match="column 'day' of X must be numeric, got dtype datetime64"):
        machine.fit(dates, [0, 1])
    polars = pytest.importorskip("polars", reason="polars is not installed (extra interop)")
    for kind in ("Date", "Datetime"):  # they were taken as numbers
        frame = polars.DataFrame(dates).with_columns(polars.col("day").cast(getattr(polars, kind)))
        with pytest.raises(TypeError, match=f"column 'day' of X must be numeric, got dtype {kind}"):
            machine.fit(frame, [0, 1])
    with pytest.raises(ValueError, match=r"two-dimensional.*df\.iloc\[\[0\]\] for one row"):
        machine.fit(dates["a"], [0, 1])


def test_frames_of_mixed_columns_go_through_a_column_transformer(iris):
    X, y = iris
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.array(["u", "v", "w"])[y])})
    columns = make_column_transformer((StandardScaler(), ["a"]), (OneHotEncoder(), ["b"]))
    assert (
        make_pipeline(columns, PegasosClassifier(random_state=0)).fit(frame, y).score(frame, y) == 1
    )


# ---- Copies, files, processes --------------------------------------------------------------------


def through_joblib(fitted):
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    return joblib.load(file)


def through_skops(fitted):
    skops = pytest.importorskip("skops.io", reason="skops is not installed (extra interop)")
    data = skops.dumps(fitted)
    kinds = skops.get_untrusted_types(data=data)
    assert all(kind.startswith(("pegasos.", "scipy.sparse.")) for kind in kinds), kinds
    with pytest.raises(TypeError, match=r"[Uu]ntrusted"):
        skops.loads(data)
    return skops.loads(data, trusted=kinds)


@pytest.mark.parametrize(
    "through",
    [lambda fitted: pickle.loads(pickle.dumps(fitted)), through_joblib, through_skops],
    ids=["pickle", "joblib", "skops"],
)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_stored_machine_answers_and_goes_on_with_the_same_bits(iris, machine, layout, through):
    X, y = layout(iris[0]), iris[1]
    machine.set_params(solver="pegasos", tol=None, max_iter=3, warm_start=True).fit(X, y)
    again = through(machine)
    np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
    again.fit(X, y)
    machine.fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))


def test_clones_and_pickles_work_in_processes_that_were_spawned(iris):
    X, y = iris
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for machine in MACHINES.values():
            fitted = clone(machine).fit(X, y)
            expected = fitted.decision_function(X)
            scores = pool.submit(operator.methodcaller("decision_function", X), fitted).result()
            twin = pool.submit(clone, fitted).result()
            there = pool.submit(operator.methodcaller("fit", X, y), twin).result()
            np.testing.assert_array_equal(scores, expected)
            np.testing.assert_array_equal(there.decision_function(X), expected)


# ---- Model files ---------------------------------------------------------------------------------

FIXTURES = Path(__file__).parent / "fixtures"
# Files of version 1 of the formats, as pegasos 0.1.0 wrote them: they must be read from now on.
STORED = sorted(path.stem for path in FIXTURES.glob("*-1.npz") if "expected" not in path.stem)


@pytest.mark.parametrize("name", STORED)
def test_models_of_earlier_versions_predict_what_they_did(name):
    model = pegasos.load(FIXTURES / f"{name}.npz")
    with np.load(FIXTURES / "expected-1.npz") as expected:
        name, X = name.removesuffix("-1"), expected["X"]
        scores = {"scores": model.decision_function(X), "predictions": model.predict(X)}
        if f"{name} probabilities" in expected:
            scores["probabilities"] = model.predict_proba(X)
        for kind, found in scores.items():
            stored = expected[f"{name} {kind}"]
            if stored.dtype.kind == "f":  # kernels of float32 rows have products of BLAS
                close = 1e-5 if name == "kernel-dense" else 1e-10
                np.testing.assert_allclose(found, stored, rtol=close, atol=close)
            else:
                np.testing.assert_array_equal(found, stored)


def test_there_are_files_of_every_format():
    kinds = {type(pegasos.load(FIXTURES / f"{name}.npz")) for name in STORED}
    assert kinds == {pegasos.LinearModel, pegasos.KernelModel}
    assert all(kind._FORMAT.endswith(" 1") for kind in kinds)  # a new version needs new fixtures


@pytest.mark.parametrize("search", [False, True])
def test_a_pickle_of_another_version_warns_as_those_of_scikit_learn(
    iris, tmp_path, monkeypatch, search
):
    machine = PegasosClassifierCV(Cs=2, cv=2) if search else PegasosClassifier()
    path = tmp_path / "machine.joblib"
    joblib.dump(machine.set_params(random_state=0).fit(*iris), path)
    expected = joblib.load(path).predict(iris[0])  # of this version: no warning
    this = pegasos.__version__
    monkeypatch.setattr(pegasos, "__version__", "later")
    about = f"estimator pegasos.PegasosClassifier from version {this} when using version later"
    with pytest.warns(InconsistentVersionWarning, match=about) as told:
        machine = joblib.load(path)
    assert [warning.filename for warning in told] == [__file__]
    assert (machine.predict(iris[0]) == expected).all()


def test_models_know_the_version_that_trained_them(iris, tmp_path, monkeypatch):
    path, this = tmp_path / "m.npz", pegasos.__version__
    assert pegasos.load(FIXTURES / "linear-labels-1.npz").version is None
    clf = PegasosClassifier(random_state=0).fit(*iris)
    clf.to_model().save(path)
    pickled = pickle.dumps(clf)
    monkeypatch.setattr(pegasos, "__version__", "later")
    model = pegasos.load(path)
    again = model.to_estimator()
    assert model.version == this == again.to_model().version
    with pytest.warns(InconsistentVersionWarning):
        assert pickle.loads(pickled).to_model().version == this
    del clf._origin  # as pickles of earlier fits
    assert clf.to_model().version is None
    assert again.fit(*iris).to_model().version == "later"
    of_text = dataclasses.replace(model, zero_based=True).to_estimator()
    assert of_text.to_model().zero_based
    assert of_text.fit(*iris).to_model().zero_based is None
    assert pegasos.fit(*iris, lam=0.1, random_state=0).version == "later"


def of_every_kind():
    """Estimators, and what y is in their fits: names, two labels, one number or two, nothing."""
    for kind in (PegasosClassifier, KernelPegasosClassifier):
        for loss, multi_class in itertools.product(LOSSES, ["ovr", "ovo"]):
            yield kind(loss=loss, multi_class=multi_class, random_state=0), "names"
        yield kind(random_state=0), "labels"
    yield PegasosClassifier(multi_class="crammer_singer", random_state=0), "names"
    for kind, loss in itertools.product((PegasosRegressor, KernelPegasosRegressor), TARGET_LOSSES):
        yield kind(loss=loss, random_state=0), "number"
        yield kind(loss=loss, random_state=0), "numbers"
    for kind in (PegasosOneClass, KernelPegasosOneClass):
        yield kind(nu=0.1, random_state=0), "nothing"


@pytest.mark.parametrize(
    ("estimator", "target"), [*of_every_kind()], ids=lambda x: x if isinstance(x, str) else repr(x)
)
def test_a_loaded_model_is_an_estimator_again(iris, tmp_path, estimator, target):
    X, y = iris
    targets = {
        "names": NAMES[y], "labels": np.column_stack([y > 0, y == 1]).astype(int),
        "number": X[:, 3], "numbers": X[:, 2:], "nothing": None,
    }  # fmt: skip
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    estimator.fit(frame, targets[target])
    estimator.to_model().save(tmp_path / "m.npz")
    again = pegasos.load(tmp_path / "m.npz").to_estimator()
    assert type(again) is type(estimator)
    for name in ("predict", "decision_function", "predict_proba"):
        if hasattr(estimator, name):
            found, expected = getattr(again, name)(frame), getattr(estimator, name)(frame)
            np.testing.assert_array_equal(found, expected)
    if targets[target] is not None:
        assert again.score(frame, targets[target]) == estimator.score(frame, targets[target])
    stored, before = again.to_model()._arrays(), estimator.to_model()._arrays()
    assert stored.keys() == before.keys()
    for name, array in stored.items():
        np.testing.assert_array_equal(array, before[name])
    if hasattr(again, "partial_fit"):
        with pytest.raises(ValueError, match="partial_fit cannot go on from a saved model"):
            again.partial_fit(frame, *([] if target == "nothing" else [targets[target]]))
    again.fit(frame, targets[target])  # anew


@pytest.mark.parametrize("layout", [pd.DataFrame, np.asarray, sparse.csr_array])
@pytest.mark.parametrize("with_std", [True, False])
@pytest.mark.parametrize("machine", [*map(operator.itemgetter(0), of_every_kind())][::5], ids=repr)
def test_a_pipeline_with_a_scaler_is_a_model(iris, tmp_path, machine, with_std, layout):
    """It had no model: only `pegasos train --scale` wrote one."""
    X, y = iris
    X = layout(3 * X + 7)
    if layout is pd.DataFrame:
        X.columns = ["a", "b", "c", "d"]
    scaler = StandardScaler(with_mean=layout is not sparse.csr_array, with_std=with_std)
    pipeline = make_pipeline("passthrough", scaler, clone(machine)).fit(X, y)
    pegasos.to_model(pipeline).save(tmp_path / "m.npz")
    model = pegasos.load(tmp_path / "m.npz")
    expected = pipeline.predict(X)
    if is_regressor(machine):
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(model.predict(X), expected)
    again = pegasos.to_model(model.to_estimator())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if layout is pd.DataFrame:
        with pytest.raises(ValueError, match="X must have the columns of training"):
            model.predict(X[["b", "a", "c", "d"]])


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
def test_models_centre_sparse_rows_as_well(iris, kind):
    """Those of kernels only divided them, and predicted anything."""
    X, y = 3 * iris[0] + 7, iris[1]
    model = pegasos.to_model(make_pipeline(StandardScaler(), kind(random_state=0)).fit(X, y))
    found = model.decision_function(sparse.csr_array(X))
    np.testing.assert_allclose(found, model.decision_function(X), rtol=1e-9, atol=1e-12)


def test_models_of_other_pipelines_are_refused(iris):
    X, y = iris
    search = PegasosClassifierCV(Cs=2, cv=2, random_state=0)
    grid = GridSearchCV(make_pipeline(StandardScaler(), PegasosClassifier()), {}, cv=2)
    inner = make_pipeline(StandardScaler(), None, GridSearchCV(PegasosClassifier(), {}, cv=2))
    pipelines = make_pipeline(search), make_pipeline(StandardScaler(), search), inner
    for estimator in (search, grid, *pipelines):
        fitted = clone(estimator).fit(X, y)
        np.testing.assert_array_equal(pegasos.to_model(fitted).predict(X), fitted.predict(X))
    for step in (PCA(2), StandardScaler()):
        pipeline = make_pipeline(StandardScaler(), step, PegasosClassifier()).fit(X, y)
        with pytest.raises(TypeError, match=f"got StandardScaler, {type(step).__name__}, Pegasos"):
            pegasos.to_model(pipeline)
    pipeline = make_pipeline(PCA(2), search).fit(X, y)
    with pytest.raises(TypeError, match="got PCA, PegasosClassifierCV: "):
        pegasos.to_model(pipeline)
    for other, name in ((LinearSVC(), "LinearSVC"), (Pipeline([]), "Pipeline")):
        with pytest.raises(TypeError, match=f"estimator must be one of pegasos, .*got {name}"):
            pegasos.to_model(other)
    with pytest.raises(NotFittedError):
        pegasos.to_model(make_pipeline(StandardScaler(), PegasosClassifier()))


def test_a_model_without_its_kernel_is_no_estimator(iris):
    X, y = iris
    model = KernelPegasosClassifier(kernel="precomputed", random_state=0).fit(X @ X.T, y).to_model()
    with pytest.raises(ValueError, match="kernel is 'precomputed' is no estimator without it"):
        model.to_estimator()


# ---- ONNX ----------------------------------------------------------------------------------------


@pytest.fixture
def run_onnx():
    """A function that exports an estimator, runs it on X, and returns labels and the rest."""
    for name in ("onnx", "skl2onnx", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra onnx)")
    import onnxruntime
    import skl2onnx

    import pegasos.onnx

    pegasos.onnx.register()

    def run(estimator, X, second="scores", **options):
        graph = skl2onnx.to_onnx(estimator, X[:1], **options)
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        names = ["variable"] if second is None else ["label", second]
        assert [output.name for output in session.get_outputs()] == names
        return session.run(None, {session.get_inputs()[0].name: X})

    return run


def check_onnx(run_onnx, estimator, X, rtol):
    labels, scores = run_onnx(estimator, X)
    expected = estimator.decision_function(X)
    atol = rtol * np.abs(expected).max()
    np.testing.assert_allclose(scores, expected, rtol=rtol, atol=atol)
    # Where classes tie, rounding decides: that of BLAS here, and of onnxruntime there.
    if expected.ndim == 1:
        is_sure = np.abs(expected) > 2 * atol
    else:
        first, second = np.sort(expected, axis=1)[:, :-3:-1].T
        is_sure = first - second > 4 * atol
    assert is_sure.mean() > 0.9 or not np.ptp(expected)
    np.testing.assert_array_equal(labels[is_sure], estimator.predict(X)[is_sure])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("multi_class", "loss"),
    [*itertools.product(["ovr", "ovo"], ["hinge", "squared_hinge"]), ("crammer_singer", "hinge")],
)
def test_linear_machines_in_onnx_decide_the_same(
    iris, dtype, n_classes, multi_class, loss, run_onnx
):
    X, y = iris[0].astype(dtype), iris[1]
    some = y < n_classes
    clf = PegasosClassifier(lam=1e-3, loss=loss, multi_class=multi_class, random_state=0)
    check_onnx(run_onnx, clf.fit(X[some], y[some]), X, rtol=1e-12)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "laplacian"])
def test_kernel_machines_in_onnx_decide_the_same(iris, kernel, multi_class, run_onnx):
    X, y = iris
    clf = KernelPegasosClassifier(
        lam=1e-2, kernel=kernel, gamma=0.3, degree=2, coef0=0.5, multi_class=multi_class, tol=None,
        max_iter=5, random_state=0,
    )  # fmt: skip
    check_onnx(run_onnx, clf.fit(X, y), X, rtol=1e-10)
    check_onnx(run_onnx, clf.fit(X, y != 1), X, rtol=1e-10)
    if kernel != "sigmoid":  # the squared hinge needs a positive semi-definite kernel
        clf.set_params(loss="squared_hinge", max_iter=1000, tol=0.01)
        check_onnx(run_onnx, clf.fit(X, y), X, rtol=1e-10)


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_float32_rows_of_large_features_differ_from_onnx_by_rounding_of_kernel_values(
    degree, run_onnx
):
    rng = np.random.default_rng(degree)
    X = (100 + 100 * rng.normal(size=(200, 8))).astype(np.float32)
    clf = KernelPegasosClassifier(
        kernel="poly", degree=degree, gamma=1.0, coef0=1, random_state=0, max_iter=5, tol=None
    ).fit(X, X[:, 0] * X[:, 1] > 1e4)
    _, scores = run_onnx(clf, X)
    terms = (X @ clf.support_vectors_.T.astype(float) + 1) ** degree * clf.dual_coef_
    np.testing.assert_allclose(scores, terms.sum(axis=1) + clf.intercept_, rtol=0, atol=1e-10)
    rounding = np.finfo(np.float32).eps * degree * abs(terms).sum(axis=1)
    assert (abs(clf.decision_function(X) - scores) <= rounding).all()


def test_a_precomputed_kernel_in_onnx_takes_values_with_all_training_rows(iris, run_onnx):
    X, y = iris
    clf = KernelPegasosClassifier(lam=1e-2, kernel="precomputed", random_state=0).fit(X @ X.T, y)
    check_onnx(run_onnx, clf, X @ X.T, rtol=1e-10)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_machine_without_support_vectors_is_exported(run_onnx, kernel):
    X, y = np.zeros((6, 6)), np.array([0, 1, 1] * 2)
    clf = KernelPegasosClassifier(lam=1.0, kernel=kernel, penalize_intercept=False, solver="sdca")
    clf.fit(X, y, sample_weight=[2.0, 1, 1] * 2)
    assert not len(clf.support_)
    check_onnx(run_onnx, clf, X, rtol=0)


def test_sparse_support_vectors_are_exported(iris, run_onnx):
    X, y = iris
    clf = KernelPegasosClassifier(lam=1e-2, gamma=0.3, random_state=0).fit(sparse.csr_array(X), y)
    check_onnx(run_onnx, clf, X, rtol=1e-10)


@pytest.mark.parametrize("labels", [["no", "maybe", "yes"], [2.0, 0.0, 1.0], [7, -3, 12]])
def test_labels_of_every_kind_come_out_of_a_pipeline_in_onnx(iris, labels, run_onnx):
    X, y = iris
    pipe = make_pipeline(StandardScaler(), PegasosClassifierCV(lams=[1e-3, 1e-1], random_state=0))
    check_onnx(run_onnx, pipe.fit(X, np.array(labels)[y]), X, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("loss", ["modified_huber", "log_loss"])
@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
def test_probabilities_come_out_of_onnx(iris, kind, loss, multi_class, n_classes, run_onnx):
    X, y = iris[0], iris[1] + n_classes - 3
    some = y >= 0
    clf = kind(lam=1e-3, loss=loss, multi_class=multi_class, random_state=0).fit(X[some], y[some])
    far = 100 * X  # where some probabilities are 0, and rows have none other, perhaps
    for rows in (X, far):
        labels, probabilities = run_onnx(clf, rows, "probabilities")
        np.testing.assert_array_equal(labels, clf.predict(rows))
        np.testing.assert_allclose(probabilities, clf.predict_proba(rows), atol=1e-12)
    labels, scores = run_onnx(clf, X, options={id(clf): {"raw_scores": True}})
    expected = clf.decision_function(X)
    if n_classes == 2:
        expected = np.stack([-expected, expected], axis=1)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(labels, clf.predict(X))


@pytest.mark.parametrize("kind", [PegasosClassifierCV, KernelPegasosClassifierCV])
def test_searches_with_probabilities_go_through_pipelines_to_onnx(iris, kind, run_onnx):
    X, y = iris
    search = kind(lams=[1e-3, 1e-1], cv=2, loss="log_loss", random_state=0)
    pipe = make_pipeline(StandardScaler(), search).fit(X, NAMES[y])
    labels, probabilities = run_onnx(pipe, X, "probabilities")
    np.testing.assert_array_equal(labels, pipe.predict(X))
    np.testing.assert_allclose(probabilities, pipe.predict_proba(X), atol=1e-6)


def test_a_kernel_search_over_targets_goes_to_onnx(iris, run_onnx):
    X, _ = iris
    search = KernelPegasosRegressorCV(Cs=2, gammas=[0.1, 1], cv=2, random_state=0)
    search.fit(X[:, :3], X[:, 3])
    (variable,) = run_onnx(search, X[:, :3], None)
    np.testing.assert_allclose(variable.ravel(), search.predict(X[:, :3]), atol=1e-9)


@covering(
    name=MACHINES, loss=LOSSES, n_classes=(2, 3), ensemble=(True, False),
    dtype=(np.float32, np.float64),
)  # fmt: skip
def test_calibrated_machines_go_to_onnx(iris, name, loss, n_classes, ensemble, dtype, run_onnx):
    X, y = iris[0].astype(dtype), NAMES[iris[1]]
    some, machine = iris[1] >= 3 - n_classes, clone(MACHINES[name]).set_params(loss=loss)
    clf = CalibratedClassifierCV(machine, ensemble=ensemble, cv=3)
    clf.fit(X[some], y[some])
    labels, probabilities = run_onnx(clf, X, "probabilities", options={id(clf): {"zipmap": False}})
    expected = clf.predict_proba(X)
    atol = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(probabilities, expected, atol=atol)
    first, second = np.sort(expected, axis=1)[:, :-3:-1].T
    is_sure = first - second > 2 * atol
    np.testing.assert_array_equal(labels[is_sure], clf.predict(X)[is_sure])


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_a_calibrated_pipeline_goes_to_onnx_if_asked_for_raw_scores(iris, loss, run_onnx):
    X, y = iris[0], iris[1] == 1
    pipe = make_pipeline(StandardScaler(), PegasosClassifier(lam=1e-2, loss=loss, random_state=0))
    clf = CalibratedClassifierCV(pipe, cv=3).fit(X, y)
    options = {id(clf): {"zipmap": False}, PegasosClassifier: {"raw_scores": True}}
    _, probabilities = run_onnx(clf, X, "probabilities", options=options)
    np.testing.assert_allclose(probabilities, clf.predict_proba(X), atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*hardly better than a constant")  # of the wide one
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [None, 1, 3])
@pytest.mark.parametrize(
    "kind",
    [PegasosRegressor, KernelPegasosRegressor, PegasosRegressorCV, KernelPegasosRegressorCV],
)
def test_regressors_go_to_onnx(iris, dtype, outputs, kind, run_onnx):
    """Alone, over sparse support vectors, and in a pipeline."""
    X, _ = iris
    X, Y = X[:, :3].astype(dtype), np.column_stack([X[:, 3], 1e3 * X[:, 0], -X[:, 1] - 5])
    y = Y[:, 0] if outputs is None else Y[:, :outputs]
    few = {"Cs": [1, 10], "cv": 2} if "CV" in kind.__name__ else {"C": 10}
    reg = kind(loss="huber", random_state=0, **few)
    for clf in (reg.fit(X, y), clone(reg).fit(sparse.csr_array(X), y)):
        (variable,) = run_onnx(clf, X, None)
        assert variable.dtype == np.float64
        expected = clf.predict(X).reshape(len(X), -1)
        # Kernel values of rows in single precision are rounded to it.
        is_exact = dtype == np.float64 or "Kernel" not in kind.__name__
        atol = (1e-9 if is_exact else 1e-5) * np.abs(expected).max()
        np.testing.assert_allclose(variable, expected, rtol=1e-9, atol=atol)
    pipe = make_pipeline(StandardScaler(), clone(reg)).fit(X, y)
    (variable,) = run_onnx(pipe, X, None)
    expected = pipe.predict(X).reshape(len(X), -1)
    np.testing.assert_allclose(variable, expected, rtol=1e-4, atol=1e-4)  # of a scaler in float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [PegasosOneClass, KernelPegasosOneClass])
def test_machines_of_one_class_go_to_onnx(iris, dtype, kind, run_onnx):
    """With the outputs of scikit-learn's OneClassSVM."""
    X = (iris[0] + 3).astype(dtype)
    theirs = run_onnx(OneClassSVM(nu=0.2).fit(X), X.astype(np.float32))
    for rows in (X, sparse.csr_array(X)):
        one = kind(nu=0.2, random_state=0).fit(rows)
        labels, scores = run_onnx(one, X)
        assert (labels.shape, labels.dtype) == (theirs[0].shape, theirs[0].dtype)
        assert scores.shape == theirs[1].shape
        expected = one.decision_function(X)
        is_exact = dtype == np.float64 or kind is PegasosOneClass
        atol = (1e-12 if is_exact else 1e-5) * abs(one.offset_[0])
        np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-10, atol=atol)
        # Where kernel values have single precision here, and double there, rounding may decide.
        is_sure = np.abs(expected) > 2 * atol * (not is_exact)
        is_sure |= is_exact
        np.testing.assert_array_equal(labels[is_sure, 0], one.predict(X)[is_sure])
        assert {-1, 1} == set(labels.ravel())


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
def test_loaded_models_go_to_onnx(iris, kind, run_onnx):
    X, y = iris
    clf = kind(lam=1e-3, random_state=0).fit(X, NAMES[y]).to_model().to_estimator()
    check_onnx(run_onnx, clf, X, rtol=1e-10)


def test_what_onnx_cannot_hold_is_refused_by_name(iris, run_onnx):
    X, y = iris
    clf = KernelPegasosClassifier(kernel=lambda X, Z: X @ Z.T, tol=None, max_iter=2).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel that is a function .*<lambda>"):
        run_onnx(clf, X)
    large = PegasosClassifier().fit(X, y.astype(np.uint64) + np.uint64(2**63))
    with pytest.raises(ValueError, match=r"that int64 or float64 can hold.*9223372036854775808"):
        run_onnx(large, X)


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_several_labels_come_out_of_onnx(iris, kind, loss, run_onnx):
    X, y = iris
    Y = np.column_stack([y > 0, y == 1]).astype(int)
    clf = kind(lam=1e-2, loss=loss, random_state=0).fit(X, Y)
    labels, second = run_onnx(clf, X, *["probabilities"] * (loss == "log_loss"))
    np.testing.assert_array_equal(labels, clf.predict(X))
    ours = clf.predict_proba(X) if loss == "log_loss" else clf.decision_function(X)
    np.testing.assert_allclose(second, ours, rtol=1e-10, atol=1e-12)
