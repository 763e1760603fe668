"""Searches: sets of classes × λ × folds equal what separate fits give, and follow scikit-learn's form."""

import subprocess
import sys

import numpy as np
import paper
import pytest
from rows import convert, make_rows
from sklearn.datasets import load_iris
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
    _problems,
    _search,
)
from pegasos._training import LinearTraining

LAMS = [1.0, 0.03, 1e-3]


@pytest.fixture
def data(rng):
    X, _ = make_rows(rng, n=90, d=12)
    y = (X[:, :3] + 0.5 * rng.normal(size=(90, 3))).argmax(axis=1)
    return X, y


@parametrize_with_checks(
    [
        PegasosClassifierCV(lams=[0.1, 0.01], cv=2, tol=1e-8, max_iter=10**5),
        KernelPegasosClassifierCV(lams=[0.1, 0.01], cv=2, tol=1e-8, max_iter=10**5),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("together", [2**40, 1])
def test_a_set_of_linear_machines_has_the_bits_of_separate_fits(
    rng, data, layout, dtype, multi_class, weighted, together, monkeypatch
):
    """A held-out row is a row of weight zero: drawing it changes nothing."""
    X, y = data
    monkeypatch.setattr(_search, "_SET_BYTES", together)  # all λ in one set, or each in its own
    X = convert(X, layout, dtype)
    weights = rng.uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    options = {"average": "suffix", "random_state": 3, "multi_class": multi_class}
    found = {}
    real = LinearTraining.model

    def spy(self):
        coef, intercept = real(self)
        for k, problem in enumerate(self.problems):
            found[problem["lam"], self.labels[k].tobytes()] = coef[k], intercept[k]
        return coef, intercept

    monkeypatch.setattr(LinearTraining, "model", spy)
    search = PegasosClassifierCV(LAMS, cv=3, cv_epochs=5, solver="pegasos", refit=False, **options)
    search.fit(X, y, sample_weight=weights)
    for k, (_, test) in enumerate(check_cv(3, y, classifier=True).split(X, y)):
        held_out = weights.copy()
        held_out[test] = 0
        for j, lam in enumerate(LAMS):
            single = paper.linear(lam, max_iter=5, **options).fit(X, y, sample_weight=held_out)
            columns = _problems.label_columns(y, 3, multi_class, held_out)
            for column, w, b in zip(columns, single.coef_, single.intercept_, strict=True):
                np.testing.assert_array_equal(found[lam, column.tobytes()][0], w)
                assert found[lam, column.tobytes()][1] == b
            score = single.score(X[test], y[test], sample_weight=weights[test])
            assert search.scores_[j, k] == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("cache_size", [0.01, 100])
def test_a_set_of_kernel_machines_takes_the_decisions_of_separate_fits(data, cache_size):
    X, y = data
    steps, gammas = [50, 200], [0.05, 0.5]
    search = KernelPegasosClassifierCV(
        LAMS, gammas=gammas, n_steps=steps, cv=KFold(3), sampling="uniform", random_state=5,
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
                        lam, gamma=gamma, n_steps=n_steps, sampling="uniform", random_state=5
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
    search = make(LAMS, cv=3, cv_tol=1e-6, tol=1e-6, max_iter=10**4, solver=solver, random_state=0)
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
            search = PegasosClassifierCV(LAMS, cv=cv, scoring=scoring, random_state=0)
            used = groups if isinstance(cv, GroupKFold) else None
            search.fit(X, y, sample_weight=weights, groups=used)
            assert search.scores_.shape == (3, cv.get_n_splits(X, y, groups))
            assert 0.4 < search.best_score_ <= 1
    binary = PegasosClassifierCV(LAMS, scoring="roc_auc", random_state=0).fit(X, y == 1)
    assert 0.5 < binary.best_score_ <= 1


def test_a_class_that_a_fold_lacks_is_learned_from_the_others(data):
    X, _ = data
    y = np.repeat([0, 1, 2], 30)
    search = PegasosClassifierCV(LAMS, cv=KFold(3), random_state=0).fit(X, y)  # one class a fold
    assert (search.scores_ == 0).all()  # what was not seen is not predicted
    with pytest.raises(ValueError, match=r"fold 0 has 45 rows to test on and leaves 1 classes"):
        PegasosClassifierCV(LAMS, cv=KFold(2)).fit(X, np.repeat([0, 1], 45))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lams": []}, "lams must be"),
        ({"lams": [0.1, -1]}, "lams must be.*-1"),
        ({"lams": 0}, "lams"),
        ({"n_steps": [100, 50]}, "n_steps must grow.*50"),
        ({"n_steps": [100], "solver": "sdca"}, "n_steps needs solver='pegasos', got solver='sdca'"),
        ({"cv": 1}, "n_splits|folds"),
        ({"scoring": "speed"}, "scoring"),
        ({"cv_tol": 0}, "cv_tol"),
        ({"cv_epochs": 0}, "cv_epochs"),
    ],
)
def test_bad_parameters_are_named(data, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PegasosClassifierCV(**{"lams": LAMS} | options).fit(*data)
    if "lams" in options:
        with pytest.raises(ValueError, match="gammas"):
            KernelPegasosClassifierCV(LAMS, gammas=[0.0]).fit(*data)


def test_a_number_of_lams_and_no_refit(data):
    X, y = data
    search = PegasosClassifierCV(4, refit=False, random_state=0).fit(X, y)
    lams = search.cv_results_["param_lam"]
    assert len(lams) == 4
    np.testing.assert_allclose(np.diff(np.log(lams.astype(float))), np.log(lams[1] / lams[0]))
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(X)


def test_the_answer_does_not_depend_on_the_number_of_threads():
    X, y = load_iris(return_X_y=True)
    one, two = (
        PegasosClassifierCV(LAMS, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2)
    )  # fmt: skip
    np.testing.assert_array_equal(one.scores_, two.scores_)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_scores_that_overflow_are_told(rng):
    X, y = 1e200 * rng.normal(size=(60, 4)), np.arange(60) % 3
    with pytest.raises(ValueError, match="overflowed"):
        PegasosClassifierCV([1e-300], cv=3, cv_epochs=2, refit=False).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_epochs_lead_to_certified_machines(rng, layout, dtype, n_classes):
    """One bundle of machines, whose λ are halved among threads, and several bundles; any order of λ."""
    X = rng.normal(size=(200, 12))
    y = (X[:, :n_classes] + 0.5 * rng.normal(size=(200, n_classes))).argmax(axis=1)
    X, lams = convert(X, layout, dtype), np.array([0.02, 1.0, 0.05, 0.1])
    options = {"cv": 3, "refit": False, "random_state": 0}

    def scores(**how):
        found = []
        PegasosClassifierCV(
            lams, scoring=lambda clf, X, y: found.append(clf.decision_function(X)) or 0.0, **how, **options
        ).fit(X, y)  # fmt: skip
        return found

    certified = iter(scores(cv_tol=1e-8))  # from the largest λ on
    exact = {lam: [next(certified) for _ in range(3)] for lam in -np.sort(-lams)}
    found = scores(cv_epochs=1000)
    again = scores(cv_epochs=1000, n_jobs=2)
    for k, (one, other) in enumerate(zip(found, again, strict=True)):
        np.testing.assert_array_equal(one, other)
        right = exact[lams[k // 3]][k % 3]
        assert np.abs(one - right).max() <= 0.03


def in_a_process(code):
    """Run code that may end the interpreter; returns what it prints."""
    code = f"import numpy as np; from pegasos import *\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize(
    "how", ["sample_weight=(y < 2).astype(float)", "cv=[(np.flatnonzero(y < 2), np.arange(80))]"]
)
def test_pairs_of_classes_without_rows_are_no_division_by_zero(how):
    fit, options = (how, "") if how.startswith("sample") else ("", how)
    out = in_a_process(f"""
X = np.random.default_rng(0).normal(size=(80, 3)); y = np.arange(80) % 8; X[:, 0] += 9 * (y == 0)
for more in ({{"cv_epochs": 1}}, {{"cv_epochs": 1, "penalize_intercept": False}}, {{}}):
    search = PegasosClassifierCV([1, 1e-2], multi_class="ovo", refit=False, **more, {options})
    print(search.fit(X, y, {fit}).scores_.mean())
""")
    # Of eight classes only two are learned: with weights, others do not count.
    least = 0.8 if fit else 0.2
    assert all(float(score) > least for score in out.split())
