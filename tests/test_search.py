"""Searches: classes × λ × folds equal separate fits, and follow scikit-learn's form."""

import functools
import itertools
import re
import tracemalloc
import warnings

import numpy as np
import paper
import pytest
from covering import covering
from rows import DTYPES, LAYOUTS, convert, make_rows
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.metrics import f1_score, get_scorer, make_scorer, pairwise_distances
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    check_cv,
    cross_val_score,
)
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    KernelPegasosRegressorCV,
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosRegressorCV,
    _core,
)
from pegasos.estimators import _grid, _search
from pegasos.problems import _multiclass, _rows, _validate
from pegasos.solvers._pegasos import Pegasos

LAMS = [1.0, 0.03, 1e-3]


@pytest.fixture
def data(rng):
    X, _ = make_rows(rng, n=90, d=12)
    y = (X[:, :3] + 0.5 * rng.normal(size=(90, 3))).argmax(axis=1)
    return X, y


@pytest.mark.filterwarnings(
    "ignore:.*rounding allows no smaller gap:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks(
    [
        PegasosClassifierCV(),
        KernelPegasosClassifierCV(),
        PegasosClassifierCV(lams=[0.1, 0.01], cv=2, loss="log_loss"),
        PegasosClassifierCV(lams=[0.1, 0.01], cv=2, multi_class="crammer_singer"),
        PegasosClassifierCV(lams=[0.1, 0.01], cv=2, tol=1e-8, max_iter=10**5),
        KernelPegasosClassifierCV(lams=[0.1, 0.01], cv=2, tol=1e-8, max_iter=10**5),
        PegasosRegressorCV(),
        KernelPegasosRegressorCV(Cs=2, cv=2),
        PegasosRegressorCV(lams=[0.1, 0.01], cv=2, loss="squared_error"),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_a_row_of_weight_two_counts_as_two_rows(rng):
    """In the grid of λ, in machines and in scores."""
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    weights = rng.integers(0, 4, 40)
    again = np.repeat(np.arange(40), weights)
    folds = np.arange(40) % 4
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(4)]
    splits_of_many = [tuple(np.flatnonzero(np.isin(again, part)) for part in s) for s in splits]
    for kind in (PegasosClassifierCV, KernelPegasosClassifierCV):
        options = {"random_state": 0, "class_weight": {0: 2, 1: 1, 2: 1}, "cv_effort": 1e-6}
        one = kind(cv=splits, **options).fit(X, y, sample_weight=weights)
        many = kind(cv=splits_of_many, **options).fit(X[again], y[again])
        np.testing.assert_array_equal(one.cv_results_["param_lam"], many.cv_results_["param_lam"])
        mass = weights.sum() + weights[y == 0].sum()
        assert min(one.cv_results_["param_lam"]) == pytest.approx(0.1 / mass, rel=1e-5)
        for name in ("mean_test_score", "std_test_score"):
            np.testing.assert_allclose(one.cv_results_[name], many.cv_results_[name], atol=1e-12)


@pytest.mark.parametrize(
    "kind",
    [
        PegasosClassifierCV, KernelPegasosClassifierCV, PegasosRegressorCV,
        KernelPegasosRegressorCV,
    ],
)  # fmt: skip
def test_a_search_without_y_is_refused_by_its_own_name(rng, kind):
    with pytest.raises(ValueError, match=f"^This {kind.__name__} estimator requires y"):
        kind().fit(rng.normal(size=(20, 2)))


def test_accuracy_weighs_rows_as_training_does(rng):
    """Else a search would choose the λ that heed class weights least."""
    X, y = rng.normal(size=(100, 2)), np.arange(100) % 2
    for weights in ({0: 1000, 1: 1e-4}, {0: 1e-4, 1: 1000}):
        search = PegasosClassifierCV(class_weight=weights, random_state=0).fit(20 * X, y)
        assert (search.predict(20 * X) == max(weights, key=weights.get)).mean() > 0.95
        plain = PegasosClassifierCV(class_weight=weights, scoring="accuracy", random_state=0)
        assert plain.fit(20 * X, y).cv_results_["mean_test_score"].max() < 0.75
        assert search.cv_results_["mean_test_score"].max() > 0.99


@covering(
    3, multi_class=["ovr", "ovo"], weighted=[False, True], together=[2**40, 1], layout=LAYOUTS,
    dtype=DTYPES,
)  # fmt: skip
def test_a_set_of_linear_machines_has_the_bits_of_separate_fits(
    rng, data, layout, dtype, multi_class, weighted, together, monkeypatch
):
    """A held-out row is a row of weight zero: drawing it changes nothing."""
    X, y = data
    monkeypatch.setattr(_grid, "_SET_BYTES", together)  # all λ in one set, or each in its own
    X = convert(X, layout, dtype)
    weights = rng.uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    options = {"average": "suffix", "random_state": 3, "multi_class": multi_class}
    found = {}
    real = Pegasos.model

    def spy(self):
        coef, intercept = real(self)
        for k, problem in enumerate(self.problems):
            found[problem["lam"], self.problem.labels[k].tobytes()] = coef[k], intercept[k]
        return coef, intercept

    monkeypatch.setattr(Pegasos, "model", spy)
    search = PegasosClassifierCV(
        lams=LAMS, cv=3, cv_effort=5, solver="pegasos", refit=False, **options
    )
    search.fit(X, y, sample_weight=weights)
    for k, (_, test) in enumerate(check_cv(3, y, classifier=True).split(X, y)):
        held_out = weights.copy()
        held_out[test] = 0
        for j, lam in enumerate(LAMS):
            single = paper.linear(lam=lam, max_iter=5, **options).fit(X, y, sample_weight=held_out)
            columns = _multiclass.problem_labels(y, 3, multi_class, held_out)
            for column, w, b in zip(columns, single.coef_, single.intercept_, strict=True):
                np.testing.assert_array_equal(found[lam, column.tobytes()][0], w)
                assert found[lam, column.tobytes()][1] == b
            score = single.score(X[test], y[test], sample_weight=weights[test])
            assert search.scores_[j, k] == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("solver", ["auto", "pegasos"])
@pytest.mark.parametrize("kind", [PegasosClassifierCV, KernelPegasosClassifierCV])
def test_epochs_of_a_search_are_max_iter_at_most(data, kind, solver):
    def epochs_and_scores(**options):
        search = kind(lams=LAMS, cv=3, solver=solver, refit=False, random_state=0, **options).fit(
            *data
        )
        return search.cv_results_["n_epochs"], search.scores_

    for more in (2, 8):
        epochs, scores = epochs_and_scores(cv_effort=more, max_iter=2)
        expected, same = epochs_and_scores(cv_effort=2)
        np.testing.assert_array_equal(epochs, 2)
        np.testing.assert_array_equal(epochs, expected)
        np.testing.assert_array_equal(scores, same)


@pytest.mark.parametrize("cache_size", [0.01, 100])
def test_a_set_of_kernel_machines_takes_the_decisions_of_separate_fits(data, cache_size):
    X, y = data
    steps, gammas = [50, 200], [0.05, 0.5]
    search = KernelPegasosClassifierCV(
        lams=LAMS, gammas=gammas, n_steps=steps, cv=KFold(3), sampling="uniform", random_state=5,
        cache_size=cache_size,
    ).fit(X, y)  # fmt: skip
    assert search.scores_.shape == (2, 3, 2, 3)
    for k, (_, test) in enumerate(KFold(3).split(X)):
        weights = np.ones(len(y))
        weights[test] = 0
        for g, gamma in enumerate(gammas):
            for j, lam in enumerate(LAMS):
                for t, n_steps in enumerate(steps):
                    single = KernelPegasosClassifier(
                        lam=lam, gamma=gamma, n_steps=n_steps, sampling="uniform", random_state=5
                    ).fit(X, y, sample_weight=weights)
                    score = single.score(X[test], y[test])
                    assert search.scores_[g, j, t, k] == pytest.approx(score, abs=1e-12)
    best = search.best_params_
    assert set(best) == {"gamma", "lam", "n_steps"}
    assert (search.n_steps_ == best["n_steps"]).all()
    assert search.gamma_ == best["gamma"]


@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
@pytest.mark.parametrize("kernel", [False, True])
def test_every_machine_is_within_the_tolerance(data, solver, kernel):
    X, y = data
    make = KernelPegasosClassifierCV if kernel else PegasosClassifierCV
    search = make(
        lams=LAMS, cv=3, cv_effort=1e-6, tol=1e-6, max_iter=10**6, solver=solver, random_state=0,
        **({"gammas": [_scale(X)]} if kernel else {}),
    )  # fmt: skip
    search.fit(X, y)
    assert (search.cv_results_["relative_gap"] <= 1e-6).all()
    assert (search.duality_gap_ <= 1e-6 * search.objective_).all()
    # Converged machines do not depend on how they were trained.
    single = KernelPegasosClassifier if kernel else PegasosClassifier
    grid = GridSearchCV(
        single(tol=1e-8, max_iter=10**5, **({"gamma": _scale(X)} if kernel else {})),
        {"lam": LAMS}, cv=3,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"], atol=0.012
    )
    for name in grid.cv_results_.keys() - {"mean_fit_time", "std_fit_time"}:
        assert name in search.cv_results_ or "score_time" in name
    assert search.best_params_["lam"] in LAMS
    assert search.lam_ == search.best_params_["lam"]
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    assert search.to_model().predict(X).tolist() == search.predict(X).tolist()


def _scale(X):
    return 1 / (X.shape[1] * X.var())


def test_splitters_groups_weights_and_scorers(rng, data):
    X, y = data
    groups = np.arange(90) // 9
    weights = rng.uniform(0.1, 2, 90)
    for cv in (GroupKFold(5), StratifiedKFold(3), ShuffleSplit(4, random_state=0)):
        for scoring in (None, "f1_macro", make_scorer(f1_score, average="micro")):
            search = PegasosClassifierCV(lams=LAMS, cv=cv, scoring=scoring, random_state=0)
            used = groups if isinstance(cv, GroupKFold) else None
            search.fit(X, y, sample_weight=weights, groups=used)
            assert search.scores_.shape == (3, cv.get_n_splits(X, y, groups))
            assert 0.4 < search.best_score_ <= 1
    binary = PegasosClassifierCV(lams=LAMS, scoring="roc_auc", random_state=0).fit(X, y == 1)
    assert 0.5 < binary.best_score_ <= 1


@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_that_of_scoring(rng, data, weighted):
    X, y = data
    scores, weights = {}, {"sample_weight": rng.uniform(0.1, 2, 90)} if weighted else {}
    for scoring in (None, "roc_auc", "recall", make_scorer(f1_score)):
        search = PegasosClassifierCV(lams=LAMS, scoring=scoring, random_state=0).fit(X, y == 1)
        found = scores[str(scoring)] = search.score(X, y == 1, **weights)
        judge = get_scorer("accuracy" if scoring is None else scoring)
        assert found == judge(search.best_estimator_, X, y == 1, **weights)
    assert len(set(scores.values())) == 4


@pytest.mark.parametrize("cv_effort", ["auto", 0.05])
def test_edges_tell_where_a_wider_grid_may_score_higher(cv_effort):
    X, y = make_blobs(200, 3, centers=4, cluster_std=4.0, random_state=0)
    wide = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]
    of_linear = {"cv": 3, "cv_effort": cv_effort, "random_state": 0}
    found, ends = set(), [(i, j) for i in range(7) for j in range(i + 1, 8)]
    for i, j in ends:
        search = PegasosClassifierCV(Cs=wide[i:j], refit=False, **of_linear).fit(X, y)
        means, C = search.cv_results_["mean_test_score"], wide[i:j]
        best = means == means.max()
        at = {C[0]: "smallest", C[-1]: "largest"}.get(search.C_)
        is_told = j - i > 1 and at and best.sum() == 1
        assert search.edges_ == ({"C": at} if is_told else {})
        found.add(str(search.edges_))
    assert len(found) == 3
    by_lam = PegasosClassifierCV(lams=[10.0, 0.02, 0.01], **of_linear).fit(X, y)
    assert set(by_lam.edges_) <= {"lam"}
    of_gamma = KernelPegasosClassifierCV(Cs=[1.0], gammas=[100.0, 1e-3], **of_linear).fit(X, y)
    assert of_gamma.edges_ == {"gamma": "smallest"}
    of_words = KernelPegasosClassifierCV(Cs=[1.0], gammas=[100.0, "scale"], **of_linear).fit(X, y)
    assert of_words.edges_ == {}


def test_means_that_differ_by_rounding_tie():
    """Of folds of 36 and 35 rows: an error in each of three, or two in one and one in another."""
    X, y = np.arange(178.0)[:, None], np.arange(178) % 2
    ends = np.cumsum([0, 36, 36, 36, 35, 35])
    folds = [np.arange(*ends[k : k + 2]) for k in range(5)]
    wrong = {1.0: [1, 1, 1, 0, 0], 10.0: [0, 1, 2, 0, 0]}

    def score(clf, X, y):
        return (len(X) - wrong[clf.C][np.searchsorted(ends, X[0, 0], "right") - 1]) / len(X)

    search = PegasosClassifierCV(
        Cs=[1.0, 10.0], cv=[(np.setdiff1d(np.arange(178), fold), fold) for fold in folds],
        scoring=score, refit=False, random_state=0,
    ).fit(X, y)  # fmt: skip
    results = search.cv_results_
    assert results["mean_test_score"][0] < results["mean_test_score"][1]
    assert results["rank_test_score"].tolist() == [1, 1]
    assert (search.C_, search.edges_) == (1.0, {})


def test_a_class_that_a_fold_lacks_is_learned_from_the_others(data):
    X, _ = data
    y = np.repeat([0, 1, 2], 30)
    search = PegasosClassifierCV(lams=LAMS, cv=KFold(3), random_state=0).fit(
        X, y
    )  # one class a fold
    assert (search.scores_ == 0).all()  # what was not seen is not predicted
    with pytest.raises(
        ValueError, match=r"fold 0 has 45 rows to test on and leaves 1 class to .* 2 classes"
    ):
        PegasosClassifierCV(lams=LAMS, cv=KFold(2)).fit(X, np.repeat([0, 1], 45))


def test_a_number_of_lams_and_no_refit(data):
    X, y = data
    search = PegasosClassifierCV(lams=4, refit=False, random_state=0).fit(X, y)
    lams = search.cv_results_["param_lam"]
    assert len(lams) == 4
    steps = np.diff(np.log(lams.astype(float)))
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-5)  # they are short numbers
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(X)


def test_the_answer_does_not_depend_on_the_number_of_threads():
    X, y = load_iris(return_X_y=True)
    one, two = (
        PegasosClassifierCV(lams=LAMS, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2)
    )  # fmt: skip
    np.testing.assert_array_equal(one.scores_, two.scores_)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_scores_that_overflow_are_told(rng):
    X, y = 1e200 * rng.normal(size=(60, 4)), np.arange(60) % 3
    with pytest.raises(ValueError, match="overflowed"):
        PegasosClassifierCV(lams=[1e-300], cv=3, cv_effort=2, refit=False).fit(X, y)


@covering(layout=LAYOUTS, dtype=DTYPES, n_classes=(2, 3, 10))
def test_epochs_lead_to_certified_machines(rng, layout, dtype, n_classes):
    """One bundle of machines, whose λ are halved among threads, and several; any order of λ."""
    X = rng.normal(size=(200, 12))
    y = (X[:, :n_classes] + 0.5 * rng.normal(size=(200, n_classes))).argmax(axis=1)
    X, lams = convert(X, layout, dtype), np.array([0.02, 1.0, 0.05, 0.1])
    options = {"cv": 3, "refit": False, "random_state": 0}

    def scores(**how):
        found = {}

        def keep(clf, X, y):
            found[clf.lam, X.sum()] = clf.decision_function(X)
            return 0.0

        PegasosClassifierCV(lams=lams, scoring=keep, **how, **options).fit(X, y)
        return found

    exact, found = scores(cv_effort=1e-8), scores(cv_effort=1000)
    again = scores(cv_effort=1000, n_jobs=2)
    assert len(exact) == len(found) == 3 * len(lams)
    for point, right in exact.items():
        np.testing.assert_array_equal(found[point], again[point])
        assert np.abs(found[point] - right).max() <= 0.03


def wide(rng, n=700, d=3000, n_classes=3):
    """Sparse rows with more features than rows, of classes that overlap."""
    X = sparse.random(n, d, 0.01, "csr", random_state=np.random.RandomState(rng.integers(2**31)))
    y = (X @ rng.normal(size=(d, n_classes)) + 0.3 * rng.normal(size=(n, n_classes))).argmax(axis=1)
    return X, y


def test_few_features_are_certified_and_many_make_epochs_by_themselves(rng, data):
    X, y = data
    narrow = PegasosClassifierCV(lams=LAMS, cv=3, refit=False, random_state=0).fit(X, y).cv_results_
    certified = PegasosClassifierCV(lams=LAMS, cv=3, cv_effort=0.05, refit=False, random_state=0)
    np.testing.assert_array_equal(
        narrow["mean_test_score"], certified.fit(X, y).cv_results_["mean_test_score"]
    )
    assert (narrow["relative_gap"] <= 0.05).all()
    found = PegasosClassifierCV(lams=LAMS, cv=3, refit=False, random_state=0).fit(*wide(rng))
    assert np.isnan(found.cv_results_["relative_gap"]).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_epochs_go_on_for_what_may_be_best(rng, monkeypatch, n_classes):
    """Twice as many for the λ within a standard error, until the best one has settled."""
    X, y = wide(rng, n_classes=n_classes)
    monkeypatch.setattr(_grid, "_AFFORDED", 0)
    lams = np.geomspace(1e-5, 1, 6)
    swept = []
    real = _grid.Training._run_ascent

    def spy(self, places, epochs):
        real(self, places, epochs)
        grid = self.grid
        swept.append((places, epochs, grid.scores.mean(axis=-1), grid.scores.copy()))

    monkeypatch.setattr(_grid.Training, "_run_ascent", spy)
    options = {"cv": 4, "refit": False, "random_state": 0}
    search = PegasosClassifierCV(lams=lams, **options).fit(X, y)
    assert [epochs for _, epochs, *_ in swept] == [2, 4, 8, 16][: len(swept)]
    assert len(swept) >= 2
    np.testing.assert_array_equal(swept[0][0], np.arange(6))
    expected = np.full(6, 2)
    for (_, _, means, scores), (places, epochs, *_) in itertools.pairwise(swept):
        best = means.argmax()
        error = scores[best].std(ddof=1) / 2
        np.testing.assert_array_equal(places, np.flatnonzero(means >= means[best] - error))
        expected[places] = epochs
    np.testing.assert_array_equal(search.cv_results_["n_epochs"], expected)
    for (_, _, before, _), (_, epochs, means, scores) in itertools.pairwise(swept):
        goes_on = means.max() - before.max() > scores[means.argmax()].std(ddof=1) / 4
        assert goes_on == (epochs != swept[-1][1]) or epochs == 16
    # Single precision serves rows of double precision as well; threads change nothing.
    monkeypatch.setattr(_grid.Training, "_run_ascent", real)
    for others, jobs in ((X, 2), (X.astype(np.float32), 1)):
        again = PegasosClassifierCV(lams=lams, n_jobs=jobs, **options).fit(others, y)
        np.testing.assert_array_equal(again.scores_, search.scores_)


def test_rows_that_single_precision_would_blur_stay_as_they_are(rng):
    X, y = wide(rng, n=80, d=300, n_classes=2)
    seen = []

    def keep(clf, X, y):
        seen.append(clf.decision_function(X))
        return 0.0

    for make, options in (
        (PegasosClassifierCV, {}), (KernelPegasosClassifierCV, {"gammas": [0.5]}),
    ):  # fmt: skip
        for rows, is_narrow in (
            (X, True), (X.toarray(), make is KernelPegasosClassifierCV),
            (X.astype(np.float32), True),
            (sparse.hstack([X, sparse.csr_array(1.6e9 + np.arange(80.0)[:, None])], "csr"), False),
            (np.c_[X.toarray(), np.linspace(1e5, 1e5 + 1, 80)], False),
        ):  # fmt: skip
            seen.clear()
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                make(lams=[0.1], cv=2, refit=False, scoring=keep, random_state=0, **options).fit(
                    rows, y
                )
                scores = [s.copy() for s in seen]
                seen.clear()
                narrow = rows.astype(np.float32)
                make(lams=[0.1], cv=2, refit=False, scoring=keep, random_state=0, **options).fit(
                    narrow, y
                )
            same = all(np.array_equal(a, b) for a, b in zip(scores, seen, strict=True))
            assert same == is_narrow, (make, is_narrow)
    assert not _rows.survives_rounding(1e100 * X)
    assert not _rows.survives_rounding(1e100 * X.toarray())


def test_epochs_of_a_search_keep_to_max_iter(rng, monkeypatch):
    X, y = wide(rng)
    search = PegasosClassifierCV(lams=LAMS, cv=3, max_iter=1, refit=False, random_state=0).fit(X, y)
    assert (search.cv_results_["n_epochs"] == 1).all()


@pytest.mark.parametrize("effort", ["auto", 0.05, 2])
def test_results_tell_standard_errors_epochs_and_times(data, effort):
    X, y = data
    search = PegasosClassifierCV(lams=LAMS, cv=4, cv_effort=effort, random_state=0).fit(X, y)
    results, scores = search.cv_results_, search.scores_
    np.testing.assert_allclose(results["standard_error"], scores.std(axis=1, ddof=1) / 2)
    assert (results["mean_fit_time"] > 0).all()
    assert (results["n_epochs"] >= 1).all()
    kernel = KernelPegasosClassifierCV(lams=LAMS, cv=4, cv_effort=effort, random_state=0).fit(X, y)
    assert (kernel.cv_results_["n_epochs"] >= 1).all()
    assert (kernel.cv_results_["mean_fit_time"] > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_rule_of_one_standard_error_takes_the_largest_lam(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    options = {"lams": np.geomspace(1e-4, 1, 8), "cv": 3, "random_state": 0}
    best = PegasosClassifierCV(**options).fit(X, y)
    search = PegasosClassifierCV(one_standard_error=True, **options).fit(X, y)
    np.testing.assert_array_equal(search.scores_, best.scores_)
    results, k = search.cv_results_, best.best_index_
    mean, error = results["mean_test_score"], results["standard_error"]
    within = results["param_lam"][mean >= mean[k] - error[k]]
    assert search.lam_ == within.max() >= best.lam_
    assert search.best_estimator_.lam == search.lam_
    assert search.best_score_ == mean[search.best_index_]


CONVERGED = {"cv_effort": 1e-6, "max_iter": 10**4, "refit": False, "random_state": 0}


def both(scale=0.3, **options):
    """The two searches, at machines whose scores do not depend on the way to them."""
    options = CONVERGED | options
    return [
        PegasosClassifierCV(lams=LAMS[:2], **options),
        KernelPegasosClassifierCV(lams=LAMS[:2], gammas=[scale], **options),
    ]


def grid_scores(search, X, y, cv, **fit):
    """What scikit-learn's search finds for the same machines."""
    make, options = (
        search._best,
        {"tol": 1e-8, "max_iter": 10**5, "multi_class": search.multi_class},
    )
    if make is KernelPegasosClassifier:
        options |= {"gamma": search.gammas[0]}
    grid = GridSearchCV(make(**options), {"lam": LAMS[:2]}, cv=cv, scoring=search.scoring)
    results = grid.fit(X, y, **fit).cv_results_
    splits = [name for name in results if name.startswith("split")]
    return np.stack([results[name].data for name in splits], axis=-1)


@pytest.mark.parametrize(
    "more", [{"cv_effort": 1}, {"cv_effort": 1, "penalize_intercept": False}, {}]
)
def test_pairs_of_classes_without_rows_are_no_division_by_zero(rng, more):
    """Which ended the interpreter."""
    X, y = rng.normal(size=(80, 3)), np.arange(80) % 8
    X[:, 0] += 9 * (y == 0)
    search = PegasosClassifierCV(lams=[1, 1e-2], multi_class="ovo", refit=False, **more)
    # Of eight classes only two are learned: with weights, others do not count.
    assert search.fit(X, y, sample_weight=(y < 2).astype(float)).scores_.mean() > 0.8
    search.set_params(cv=[(np.flatnonzero(y < 2), np.arange(80))])
    assert search.fit(X, y).scores_.mean() > 0.2


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("shape", [(3000, 3), (2000, 3), (80, 300)])
def test_a_precomputed_matrix_must_be_square(shape, refit):
    """What was read beside the rows ended the interpreter."""
    search = KernelPegasosClassifierCV(lams=[1e-2], kernel="precomputed", refit=refit)
    told = f"X must be a square matrix with kernel='precomputed', got shape {shape}"
    with pytest.raises(ValueError, match=re.escape(told)):
        search.fit(np.ones(shape), np.arange(shape[0]) % 2)


@pytest.mark.parametrize("gammas", [None, [0.1, 1.0]])
@pytest.mark.parametrize("kernel", ["linear", "precomputed", linear_kernel])
def test_a_kernel_without_gamma_is_searched_without_one(rng, kernel, gammas):
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + X[:, 1] > 0
    rows = X @ X.T if kernel == "precomputed" else X
    options = {"kernel": kernel, "gammas": gammas, "Cs": [0.1, 1.0], "cv": 2, "random_state": 0}
    search = KernelPegasosClassifierCV(**options).fit(rows, y)
    assert (search.scores_.shape, [*search.best_params_]) == ((2, 2), ["C"])
    assert not hasattr(search, "gamma_")
    assert "param_gamma" not in search.cv_results_
    search = KernelPegasosRegressorCV(**options | {"epsilons": [0.1, 0.2, 0.3]}).fit(rows, X[:, 0])
    assert search.scores_.shape == (3, 2, 2)
    assert [*search.best_params_] == ["epsilon", "C"]


def test_sparse_rows_of_users_stay_unsorted():
    X = sparse.csr_array(np.random.default_rng(0).normal(size=(30, 4)))
    X.indices, X.data, X.has_sorted_indices = X.indices[::-1].copy(), X.data[::-1].copy(), False
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int64)
    before = X.indices.copy()
    KernelPegasosClassifierCV(kernel="laplacian", Cs=2, cv=2).fit(X, np.arange(30) % 2)
    np.testing.assert_array_equal(X.indices, before)


def test_a_sparse_precomputed_matrix_is_refused():
    with pytest.raises(TypeError, match="Sparse precomputed kernels are not supported"):
        KernelPegasosClassifierCV(lams=[1e-2], kernel="precomputed").fit(
            sparse.eye_array(80).tocsr(), np.arange(80) % 2
        )


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # float32 cannot prove 1e-8
def test_rows_that_are_repeated_count_as_often(rng, layout, dtype):
    """Oversampling: folds with repeats beside a fold without, with and without sample weights."""
    X = rng.normal(size=(120, 4))
    y = (X[:, 0] + 0.8 * rng.normal(size=120) > 1.3).astype(int)
    folds = list(StratifiedKFold(3).split(X, y))
    for k in (0, 2):
        train, test = folds[k]
        folds[k] = np.concatenate([train, np.repeat(train[y[train] == 1], 9)]), test
    X = convert(X, layout, dtype)
    for search in both(scoring="recall", cv=folds):
        found = search.fit(X, y).scores_.reshape(2, 3)
        np.testing.assert_allclose(found, grid_scores(search, X, y, folds), atol=0.05)
        assert found[:, [0, 2]].min() > found[:, 1].max()
    # The same as weights, bit by bit; and times the weights that rows have anyway.
    weights = rng.uniform(0.5, 2, 120)
    train, test = folds[0]
    times = np.bincount(train, minlength=120)
    for given in (None, weights):
        for effort in ("auto", 1e-6, 2):
            options = {
                **CONVERGED,
                "cv_effort": effort,
                "scoring": lambda clf, X, y: clf.score(X, y),
            }
            one = PegasosClassifierCV(lams=LAMS, cv=[(train, test)], **options)
            other = PegasosClassifierCV(lams=LAMS, cv=[(np.unique(train), test)], **options)
            one.fit(X, y, sample_weight=given)
            other.fit(X, y, sample_weight=times * (1 if given is None else given))
            np.testing.assert_array_equal(one.scores_, other.scores_)


@pytest.mark.filterwarnings("ignore:.*rounding:sklearn.exceptions.ConvergenceWarning")
@covering(
    2, kind=("linear", "kernel"), multi_class=("ovr", "ovo", "crammer_singer"), dtype=DTYPES,
    layout=LAYOUTS, weighted=(False, True), cv=("groups", "repeated", "stratified"),
)  # fmt: skip
def test_classes_are_balanced_in_each_fold(rng, kind, multi_class, dtype, layout, weighted, cv):
    """Scores are those of GridSearchCV, which sees the training rows of a fold alone."""
    if kind == "kernel" and multi_class == "crammer_singer":
        pytest.skip("kernel machines have no joint problem")
    centers = rng.normal(size=(3, 6))  # so near that weights of classes change what is predicted
    y = np.repeat([0, 1, 2], [110, 25, 15])
    X = convert(centers[y] + 1.5 * rng.normal(size=(150, 6)), layout, dtype)
    c = rng.uniform(0.1, 3, 150) if weighted else None
    splits = {
        "groups": [(np.r_[0:70, 110:150], np.r_[70:110]), (np.r_[20:120, 138:150], np.r_[0:20])],
        "repeated": [(rng.integers(0, 150, 150), np.arange(150)) for _ in range(2)],
        "stratified": StratifiedKFold(3),
    }[cv]
    make, search = {
        "linear": (PegasosClassifier, PegasosClassifierCV),
        "kernel": (KernelPegasosClassifier, KernelPegasosClassifierCV),
    }[kind]
    options = {"class_weight": "balanced", "multi_class": multi_class, "random_state": 0}
    lams = [1e-1, 1e-2]
    ours = search(
        lams=lams, cv=splits, scoring="accuracy", cv_effort=1e-6, refit=False, **options,
        **{"gammas": [0.05]} if kind == "kernel" else {},
    ).fit(X, y, sample_weight=c)  # fmt: skip
    gamma = {"gamma": 0.05} if kind == "kernel" else {}
    theirs = GridSearchCV(
        make(tol=1e-6, **options, **gamma), {"lam": lams}, cv=splits, scoring="accuracy",
        refit=False, error_score="raise",
    ).fit(X, y, sample_weight=c)  # fmt: skip
    scores = [theirs.cv_results_[f"split{k}_test_score"] for k in range(theirs.n_splits_)]
    np.testing.assert_allclose(ours.scores_.reshape(2, -1), np.transpose(scores), atol=0.011)
    plain = search(
        lams=lams, cv=splits, scoring="accuracy", cv_effort=1e-6, refit=False,
        **options | {"class_weight": None}, **{"gammas": [0.05]} if kind == "kernel" else {},
    ).fit(X, y, sample_weight=c)  # fmt: skip
    assert np.abs(plain.scores_ - ours.scores_).max() > 0.01


@pytest.mark.parametrize("kind", ["negative", "mask", "list", "unsigned"])
def test_folds_are_named_as_numpy_names_rows(data, layout, dtype, kind):
    X, y = data
    X, n = convert(X, layout, dtype), len(y)

    def named(rows):
        if kind == "negative":
            return rows - n
        if kind == "mask":
            return np.isin(np.arange(n), rows)
        return rows.tolist() if kind == "list" else rows.astype(np.uint8)

    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    folds = [(train, np.sort(test)) for train, test in folds]
    renamed = [(named(train), named(test)) for train, test in folds]
    for one, other in zip(both(cv=folds), both(cv=renamed), strict=True):
        np.testing.assert_array_equal(one.fit(X, y).scores_, other.fit(X, y).scores_)


ALL = np.arange(90)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ([], "cv must give at least one split"),
        (iter([]), "cv must give at least one split, got none .a generator"),
        ([(ALL, ALL, ALL)], "cv: split 0 must be a pair"),
        ([1, 2], "cv: split 0 must be a pair, .* got 1"),
        ([(ALL, ALL), (ALL, ALL.astype(float))], "test on in fold 1 must be row numbers.*float64"),
        ([(ALL.astype(object), ALL)], "learn from in fold 0 must be row numbers.*object"),
        ([(ALL.astype(str), ALL)], "learn from in fold 0 must be row numbers.*<U"),
        ([(ALL, [[1], [2, 3]])], "test on in fold 0 must be row numbers.*several lengths"),
        ([(ALL, ALL.reshape(9, 10))], r"must be row numbers.*\(9, 10\)"),
        (
            [(ALL > 3, ALL[:80] > 3)],
            r"True or False for each of 90 rows; got bool of shape \(80,\)",
        ),
        ([(ALL, [90])], r"test on in fold 0 must be in \[-90, 90\), but contains 90"),
        ([([0, 1, -91], ALL)], r"learn from in fold 0 must be in \[-90, 90\), but contains -91"),
        ([(ALL, [])], "fold 0 has 0 rows to test on"),
        ([([], ALL)], "leaves 0 classes"),
        ([(ALL, 5)], "must be row numbers.* of shape"),
        (91, "cv=91 needs 91 rows of one class at least, but the largest has"),
    ],
)
def test_folds_that_are_none_are_refused_in_words(data, cv, message):
    X, y = data
    for X_ in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=message):
            PegasosClassifierCV(lams=LAMS, cv=cv).fit(X_, y)
        if not isinstance(cv, list):
            break


class OfLogLoss(PegasosClassifierCV):
    """A subclass that has one parameter, and sets the others itself."""

    def __init__(self, Cs=2):
        super().__init__(Cs=Cs, loss="log_loss", random_state=0)


def test_what_a_subclass_sets_is_searched_with(data):
    search = OfLogLoss().fit(*data)
    plain = PegasosClassifierCV(Cs=2, loss="log_loss", random_state=0).fit(*data)
    assert search.best_estimator_.get_params() == plain.best_estimator_.get_params()
    np.testing.assert_array_equal(search.scores_, plain.scores_)
    np.testing.assert_array_equal(search.predict_proba(data[0]), plain.predict_proba(data[0]))


def test_a_search_without_refit_forgets_the_last_one(data):
    X, y = data
    for search, wide in zip(both(refit=True), both(refit=True), strict=True):
        search.fit(X, y)
        assert search.predict(X[:3]).shape == (3,)
        fitted = {name for name in vars(search) if name.endswith("_")}
        for name in ("best_estimator_", "intercept_", "n_iter_"):
            assert name in fitted
        search.set_params(refit=False).fit(X[:, :5], y)
        assert "best_estimator_" not in vars(search)
        assert not hasattr(search, "intercept_")
        assert search.n_features_in_ == 5
        with pytest.raises(AttributeError, match="refit=False"):
            search.predict(X)
        # A search that fails leaves the last one whole.
        wide.fit(X, y)
        before = dict(vars(wide))
        with pytest.raises(RuntimeError, match="no score"):
            wide.set_params(scoring=_fails).fit(X[:, :5], y)
        assert vars(wide) == before | {"scoring": _fails}
        assert wide.predict(X).shape == y.shape


def _fails(clf, X, y):
    raise RuntimeError("no score")


@pytest.mark.parametrize("weighted", [False, True])
def test_gamma_of_the_search_is_that_of_the_refit(rng, weighted):
    """What "scale" means depends on sample weights, and not on those of classes."""
    X = rng.normal(size=(60, 3))
    y = (np.arange(60) % 6 == 0).astype(int)
    X[y == 1] *= 8
    weights = rng.uniform(0.1, 3, 60) if weighted else None
    cv = [(np.arange(60), np.arange(60))]
    search = KernelPegasosClassifierCV(
        lams=[1e-2],
        class_weight={0: 1, 1: 40},
        cv=cv,
        scoring=_mean_score,
        cv_effort=1e-8,
        tol=1e-8,
    ).fit(X, y, sample_weight=weights)
    assert search.best_score_ == pytest.approx(_mean_score(search.best_estimator_, X, y), rel=1e-4)


def _mean_score(clf, X, y):
    return np.abs(clf.decision_function(X)).mean()


@pytest.mark.parametrize("how", [{}, {"cv_effort": 2}, {"n_steps": [50, 100]}])
def test_scoring_sees_rows_and_a_fitted_estimator(data, layout, dtype, how):
    X, y = data
    X = convert(X, layout, dtype)
    folds = list(KFold(3, shuffle=True, random_state=1).split(X))
    tests, points = [test for _, test in folds], []

    def scoring(clf, X_test, y_test):
        test = next(test for test in tests if np.array_equal(y[test], y_test))
        assert type(X_test) is type(X)
        assert X_test.dtype == dtype
        assert abs(X_test - X[test]).max() == 0
        assert is_classifier(clf)
        check_is_fitted(clf)
        assert clf.get_params()["lam"] in LAMS
        assert clf.get_params()["solver"] == "auto"
        assert clf.classes_.tolist() == [0, 1, 2]
        assert clf.n_features_in_ == 12
        scores = clf.decision_function(X_test)
        assert clf.decision_function(X_test.copy()) is scores
        np.testing.assert_array_equal(clf.predict(X_test), scores.argmax(axis=1))
        for others in (X, X_test[::-1], X_test[:2]):
            with pytest.raises(
                ValueError, match="scoring must ask for the scores of the test rows that it was"
            ):
                clf.predict(others)
        points.append((clf.lam, clf.n_steps, clf.tol))
        return clf.score(X_test, y_test)

    for make in (
        PegasosClassifierCV,
        functools.partial(KernelPegasosClassifierCV, gammas=["scale"]),
    ):
        points.clear()
        search = make(lams=LAMS, cv=folds, scoring=scoring, random_state=0, refit=False, **how).fit(
            X, y
        )
        n = len(search.cv_results_["params"])
        if make is PegasosClassifierCV and not how:  # machines that stop early, too
            n += sum(tol is None for _, _, tol in points) // 3
            assert n == 2 * len(search.cv_results_["params"])
        assert len(set(points)) == n == len(points) / 3
        plain = make(lams=LAMS, cv=folds, random_state=0, refit=False, **how).fit(X, y)
        np.testing.assert_array_equal(search.scores_, plain.scores_)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_scoring_sees_the_columns_of_a_data_frame(data, library):
    """Of other libraries than pandas, it was given an array."""
    X, y = data
    names = [f"x{k}" for k in range(X.shape[1])]
    columns = dict(zip(names, X.T, strict=True))
    module = pytest.importorskip(library)
    frame = getattr(module, "table" if library == "pyarrow" else "DataFrame")(columns)

    def scoring(clf, X, y):
        assert clf.feature_names_in_.tolist() == names
        return np.average(clf.predict(X) == y, weights=np.exp(np.asarray(X["x3"])))

    search = PegasosClassifierCV(lams=LAMS, scoring=scoring, random_state=0).fit(frame, y)
    assert search.feature_names_in_.tolist() == search.best_estimator_.feature_names_in_.tolist()
    assert 0.4 < search.best_score_ <= 1


def test_scoring_that_takes_weights_is_given_them(rng, data):
    X, y = data
    weights = rng.uniform(0.1, 2, 90)
    given = []

    def weighted(clf, X, y, sample_weight=None):
        given.append(sample_weight)
        return clf.score(X, y, sample_weight)

    def plain(clf, X, y):
        return clf.score(X, y)

    def fit(scoring, weights):
        search = PegasosClassifierCV(lams=LAMS, scoring=scoring, refit=False, random_state=0)
        return search.fit(X, y, sample_weight=weights).scores_

    np.testing.assert_allclose(fit(weighted, weights), fit("accuracy", weights), rtol=1e-12)
    np.testing.assert_array_equal(np.sort(np.concatenate(given[:5])), np.sort(weights))
    np.testing.assert_allclose(fit(None, weights), fit("accuracy", weights), rtol=1e-12)
    assert (fit(plain, weights) != fit(weighted, weights)).any()
    np.testing.assert_array_equal(fit(None, 2.0), fit(None, np.full(90, 2.0)))
    held_out = np.where(np.arange(90) < 20, 0.0, 1.0)
    cv = [(np.arange(90), np.arange(45)), (np.arange(90), np.arange(20))]
    with pytest.raises(ValueError, match="fold 1 has no rows of weight to test on"):
        PegasosClassifierCV(lams=LAMS, cv=cv).fit(X, y, sample_weight=held_out)


@pytest.mark.parametrize("value", [{"a": 1.0}, np.ones(5), "good", None, 1j])
def test_a_score_that_is_no_number_is_refused(data, value):
    with pytest.raises(ValueError, match="scoring must return a number, got"):
        PegasosClassifierCV(lams=LAMS, scoring=lambda clf, X, y: value).fit(*data)


@pytest.mark.parametrize(("name", "more"), [("roc_auc", "roc_auc_ovr"), ("f1", "f1_macro")])
def test_a_score_for_two_classes_is_refused_for_more(data, name, more):
    """In scikit-learn's words."""
    X, y = data
    search = PegasosClassifierCV(lams=LAMS, scoring=name, loss="log_loss", random_state=0)
    with pytest.raises(ValueError, match=r"multiclass|multi_class"):
        search.fit(X, y)
    assert 0 < search.set_params(scoring=more).fit(X, y).best_score_ <= 1
    labels = np.eye(3, dtype=int)[y]
    if name == "f1":
        with pytest.raises(ValueError, match="multilabel"):
            search.set_params(scoring=name).fit(X, labels)
    else:  # which has a meaning for several labels
        assert 0 < search.set_params(scoring=name).fit(X, labels).best_score_ <= 1


def test_scores_that_are_not_numbers_rank_last(data):
    X, y = data

    def fit(scoring, cv=3, told=r"\[nan nan nan\]"):
        with pytest.warns(UserWarning, match=f"scores that are not finite: {told}$"):
            return PegasosClassifierCV(lams=LAMS, scoring=scoring, cv=cv, random_state=0).fit(
                X, y > 0
            )

    def of_some(clf, X, y):
        return np.nan if clf.lam == LAMS[1] and X[0, 0] == X_first else -clf.lam

    X_first = X[next(StratifiedKFold(3).split(X, y > 0))[1][0], 0]
    search = fit(of_some, told=r"\[.* nan .*\]")
    assert search.cv_results_["rank_test_score"].tolist() == [2, 3, 1]
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True, False]
    assert search.lam_ == LAMS[2]
    nothing = fit(lambda clf, X, y: np.nan)
    assert nothing.cv_results_["rank_test_score"].tolist() == [1, 1, 1]
    assert nothing.lam_ == max(LAMS)
    assert np.isnan(nothing.best_score_)
    assert nothing.predict(X).shape == y.shape
    # As it happens: a measure that one class does not have.
    of_one = np.flatnonzero(y > 0)
    with pytest.warns(UndefinedMetricWarning):
        lacking = fit("roc_auc", [(ALL, ALL), (ALL, of_one)])
    assert np.isnan(lacking.best_score_)
    assert np.isfinite(lacking.scores_[:, 0]).all()


@pytest.mark.parametrize("how", [{}, {"cv_effort": 1}])
def test_rows_without_entries_are_searched(how):
    X, y = sparse.csr_array((80, 3)), np.arange(80) % 4
    for make in (PegasosClassifierCV, KernelPegasosClassifierCV):
        search = make(lams=LAMS, **how).fit(X, y)
        assert (search.scores_ == 0.25).all()


@covering(
    shuffle=[False, True], how=[{}, {"cv_effort": 0.5}, {"cv_effort": 1}, {"n_steps": [200,
    400]}], kind=["dense", "csr"],
)  # fmt: skip
def test_a_search_keeps_no_copies_of_rows(rng, kind, how, shuffle):
    """Beside X there is what machines need: ten numbers for each row and feature of a problem."""
    n, d = 2000, 1500
    X = rng.normal(size=(n, d)).astype(np.float32)
    if kind == "csr":
        columns = np.sort(np.argsort(rng.random((n, 2 * d)), axis=1)[:, :d], axis=1)
        X = sparse.csr_array((X.ravel(), columns.ravel(), np.arange(0, n * d + 1, d)), (n, 2 * d))
    y = rng.integers(2, size=n)
    cv = StratifiedKFold(5, shuffle=shuffle, random_state=0 if shuffle else None)
    search = PegasosClassifierCV(lams=[1.0, 0.5], cv=cv, refit=False, n_jobs=1, **how)
    search.fit(X[:100], y[:100])  # what is imported on the way is not counted
    bytes_of_X = X.nbytes if kind == "dense" else X.data.nbytes + X.indices.nbytes
    tracemalloc.start()
    try:
        search.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    state = 5 * 10 * 8 * sum(X.shape)
    assert state <= 0.2 * bytes_of_X
    assert peak <= 0.1 * bytes_of_X + state


@pytest.mark.parametrize("interleaved", [False, True])
def test_rows_that_lie_anywhere_have_the_scores_of_all(rng, layout, dtype, interleaved):
    X, _ = make_rows(rng, n=80, d=12)
    rows, _ = _validate.rows(convert(X, layout, dtype))
    for which in (
        np.arange(80), np.arange(79, -1, -1), rng.permutation(80),
        np.sort(rng.permutation(80)[:30]), np.r_[3, 3, 3, 10:30, 5, 7, 9, 41, 43, 45, 50:80, 0],
        np.array([79]), np.arange(42, 55),
    ):  # fmt: skip
        for n_problems in (1, 3, 9, 33):
            coef, intercept = rng.normal(size=(n_problems, 12)), rng.normal(size=n_problems)
            for kind in {np.float64, dtype}:
                given = np.ascontiguousarray((coef.T if interleaved else coef).astype(kind))
                scores = _core.decision_function(rows, given, intercept, interleaved)
                some = _core.decision_function(rows, given, intercept, interleaved, which)
                np.testing.assert_array_equal(some, scores[which])
            found = _rows.decision_function(rows, coef, intercept, which)
            np.testing.assert_allclose(found, X[which] @ coef.T + intercept, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("options", [{}, {"cv_effort": 2}])
def test_rows_whose_squares_overflow_are_searched_or_refused_in_words(rng, n_classes, options):
    X, y = 1e200 * rng.normal(size=(40, 5)), np.arange(40) % n_classes
    search = PegasosClassifierCV(lams=[1.0, 0.1, 0.03], max_iter=5, cv=4, random_state=0, **options)
    try:  # any other warning is an error
        search.fit(X, y)
    except ValueError as error:
        assert "X" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(search.predict(X)).all()


def test_a_search_stops_early_where_few_epochs_score_better():
    X, y = make_classification(
        2000, 16, n_informative=10, n_classes=26, n_clusters_per_class=1, class_sep=1.5,
        random_state=0,
    )  # fmt: skip
    X, lams = X / X.std(axis=0), [1e-4, 1e-3, 1e-2]
    search = PegasosClassifierCV(lams=lams, random_state=0).fit(X, y)
    certified = PegasosClassifierCV(lams=lams, cv_effort=0.05, random_state=0).fit(X, y)
    error = certified.cv_results_["standard_error"][certified.best_index_]
    assert search.best_score_ > certified.best_score_ + error
    assert certified.best_params_.keys() == {"lam"}
    assert all(
        params.keys() == {"lam", "max_iter", "tol"} for params in search.cv_results_["params"]
    )
    assert search.best_params_["tol"] is None
    assert set(search.cv_results_["n_epochs"]) <= {2, 3}  # of Newton's method, an iteration is two
    alone = PegasosClassifier(**search.best_params_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(search.best_estimator_.coef_, alone.coef_)
    # What was scored is what is trained, but for the order of rows.
    scores = cross_val_score(PegasosClassifier(**search.best_params_, random_state=0), X, y)
    assert scores.mean() == pytest.approx(search.best_score_, abs=5 * error)
    assert scores.mean() > certified.best_score_ + error


def test_a_search_does_not_stop_early_where_that_gains_nothing():
    X, y = load_iris(return_X_y=True)
    search = PegasosClassifierCV(lams=[1e-4, 1e-3, 1e-2], random_state=0).fit(X, y)
    assert search.best_params_.keys() == {"lam"}
    assert (search.cv_results_["relative_gap"] <= 0.05).all()


@pytest.fixture(scope="module")
def several_classes():
    X, y = make_blobs(600, 3, centers=8, cluster_std=3.0, random_state=0)
    return X, np.char.add("class ", y.astype(str))


OF_KERNELS = {"lams": [1.0, 1e-2, 1e-4], "gammas": [1e-4, 0.1, 100.0], "random_state": 0}


def test_kernel_points_that_have_lost_are_dropped_after_the_first_fold(several_classes):
    X, y = several_classes
    search = KernelPegasosClassifierCV(**OF_KERNELS).fit(X, y)
    results, scores = search.cv_results_, search.scores_.reshape(-1, 5)
    dropped, mean = results["dropped"], results["mean_test_score"]
    assert 0 < dropped.sum() < len(dropped)
    assert np.isfinite(scores[:, 0]).all()
    assert np.isnan(scores[dropped, 1:]).all()
    assert np.isfinite(scores[~dropped]).all()
    np.testing.assert_array_equal(mean[dropped], scores[dropped, 0])
    assert np.isnan(results["standard_error"][dropped]).all()
    assert not dropped[search.best_index_]
    assert results["rank_test_score"][dropped].min() > results["rank_test_score"][~dropped].max()
    assert (results["mean_fit_time"] > 0).all()
    # The rule, of shares of 120 rows with two more of either kind.
    share = (120 * scores[:, 0] + 2) / 124
    variance, best = share * (1 - share) / 124, np.argmax(share)
    rule = share[best] - share > 4 * np.sqrt(variance + variance[best])
    np.testing.assert_array_equal(dropped, rule)
    # All folds of all points find the same.
    whole = KernelPegasosClassifierCV(cv_effort=0.05, **OF_KERNELS).fit(X, y)
    assert not whole.cv_results_["dropped"].any()
    assert whole.cv_results_["mean_test_score"][dropped].max() < whole.best_score_ - 0.1
    assert abs(whole.best_score_ - search.best_score_) < 0.01
    chosen = KernelPegasosClassifierCV(one_standard_error=True, **OF_KERNELS).fit(X, y)
    assert not dropped[chosen.best_index_]


def test_what_is_dropped_does_not_depend_on_threads(several_classes):
    one, other = (
        KernelPegasosClassifierCV(n_jobs=k, **OF_KERNELS).fit(*several_classes) for k in (1, 2)
    )
    np.testing.assert_array_equal(one.scores_, other.scores_)


@pytest.mark.parametrize(
    "options",
    [
        {"scoring": "balanced_accuracy"},
        {"cv_effort": 0.2},
        {"cv_effort": 2},
        {"n_steps": 500},
        {"cv": 2},
    ],
)
def test_nothing_is_dropped_where_shares_do_not_tell_or_it_was_not_asked_for(
    several_classes, options
):
    X, y = several_classes
    search = KernelPegasosClassifierCV(refit=False, **OF_KERNELS, **options).fit(X, y)
    assert not search.cv_results_["dropped"].any()
    assert np.isfinite(search.scores_).all()


def test_rows_of_little_weight_tell_less(several_classes):
    """With all weight on few of the test rows, nothing is surely worse."""
    X, y = several_classes
    weights = np.full(len(y), 1e-9)
    weights[::40] = 1
    search = KernelPegasosClassifierCV(refit=False, cv=3, **OF_KERNELS)
    assert search.fit(X, y).cv_results_["dropped"].any()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert not search.fit(X, y, sample_weight=weights).cv_results_["dropped"].any()


def test_progress_ends_when_all_is_done(rng, data, several_classes, monkeypatch):
    """Where epochs are doubled, and where points are dropped, too."""
    told = []

    class Watched(_search.Progress):
        def update(self, look):
            told.append(look()[:2])

    monkeypatch.setattr(_search, "Progress", Watched)
    monkeypatch.setattr(_grid, "LEAST_EPOCHS", 1)
    monkeypatch.setattr(_grid, "_AFFORDED", 0)
    for search, (X, y), n_points, change in (
        (
            PegasosClassifierCV(lams=np.geomspace(1, 1e-4, 5), cv=3, random_state=0),
            wide(rng),
            5,
            "more",
        ),
        (PegasosClassifierCV(lams=LAMS, cv=3, random_state=0), data, 3, "none"),
        (PegasosClassifierCV(lams=LAMS, cv=3, n_steps=[50, 90], random_state=0), data, 6, "none"),
        (KernelPegasosClassifierCV(cv=3, **OF_KERNELS), several_classes, 9, "less"),
    ):
        told.clear()
        search.fit(X, y)
        done, expected = np.array(told).T
        assert done.tolist() == list(range(1, len(told) + 1))
        assert (done <= expected).all()
        assert done[-1] == expected[-1]
        assert expected[0] == 3 * n_points
        changed = expected[-1] - expected[0]
        assert np.sign(changed) == {"more": 1, "none": 0, "less": -1}[change]
        if change == "less":
            assert changed == -2 * search.cv_results_["dropped"].sum()


@pytest.mark.parametrize("options", [{"n_steps": [20, 50]}, {"cv_effort": 0.1}])
def test_scores_that_overflow_are_refused_in_a_sentence(rng, options):
    """Scorers refuse them in words of their own."""
    X = np.ones((48, 3)) * 1e307 * rng.choice([-1, 1], size=(48, 3))
    clf = PegasosClassifierCV(lams=[0.1], cv=3, scoring="roc_auc", random_state=0, **options)
    with pytest.raises(ValueError, match="overflow"):
        clf.fit(X, np.arange(48) % 2)


def test_a_path_of_lambda_takes_no_more_epochs_than_fits_that_begin_anew():
    """Where dual ascent is slow, Newton's method follows on a path as it does in a fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    y = X @ rng.normal(size=40) + 6 * rng.normal(size=3000) > 0
    lams = np.logspace(-1, -5, 8)
    search = PegasosClassifierCV(lams=lams, cv=3, cv_effort=0.05, refit=False, random_state=0).fit(
        X, y
    )
    fits = [PegasosClassifier(lam=lam, tol=0.05, random_state=0).fit(X, y) for lam in lams]
    assert search.cv_results_["relative_gap"].max() <= 0.05
    assert search.cv_results_["n_epochs"].sum() <= 1.5 * sum(clf.n_iter_ for clf in fits)


@pytest.mark.parametrize("n_steps", [None, 200])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_kernel_values_that_single_precision_cannot_hold_decide(kernel, layout, n_steps):
    """Values of about 1e-100 tell classes apart. They are 0 in single precision."""
    X, y = make_blobs(90, n_features=3, centers=3, random_state=1)
    metric = {"rbf": "sqeuclidean", "laplacian": "manhattan"}[kernel]
    distances = pairwise_distances(X, metric=metric) + np.diag(np.full(len(X), np.inf))
    gamma = 230 / np.median(distances.min(axis=1))
    make = functools.partial(
        KernelPegasosClassifierCV, lams=[0.1], gammas=[gamma], kernel=kernel, cv=3, refit=False,
        n_steps=n_steps, fit_intercept=False, random_state=0,
    )  # fmt: skip
    X = convert(X, layout, np.float64)
    found, certified = make().fit(X, y), make(cv_effort=0.05).fit(X, y)
    np.testing.assert_array_equal(found.scores_, certified.scores_)
    assert found.best_score_ > 0.85
