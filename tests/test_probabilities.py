"""Probabilities of losses that have them: formulas, conventions, errors, files and searches."""

import json
import pickle
import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from seal import seal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import brier_score_loss, get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
)
from pegasos.problems import _multiclass

KINDS = [PegasosClassifier, KernelPegasosClassifier]
SEARCHES = [PegasosClassifierCV, KernelPegasosClassifierCV]
ABLE, UNABLE = ["modified_huber", "log_loss"], ["hinge", "squared_hinge"]

with_a_loss = pytest.mark.parametrize("loss", ABLE)
multi_class_too = pytest.mark.parametrize("multi_class", ["ovr", "ovo"])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def model_of(scores, classes, loss, multi_class="ovr"):
    """A model whose problems give every row these scores."""
    n = len(scores)
    nothing, steps = np.full(n, np.nan), np.zeros(n, np.int64)
    return pegasos.LinearModel(
        coef=np.zeros((n, 1)), intercept=np.asarray(scores, float), classes=np.asarray(classes),
        multi_class=multi_class, lam=1.0, loss=loss, objective=nothing, dual_objective=nothing,
        n_steps=steps,
    )  # fmt: skip


# ---- What they are -------------------------------------------------------------------------------


@with_a_loss
@multi_class_too
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_they_sum_to_one_and_the_predicted_class_is_the_most_probable(
    iris, kind, loss, multi_class, n_classes
):
    X, y = iris[0], iris[1] + n_classes - 3
    some = y >= 0
    clf = kind(lam=1e-3, loss=loss, multi_class=multi_class, random_state=0).fit(X[some], y[some])
    far = np.vstack([X, 30 * X, -1e5 * X])  # scores of all sizes
    for rows in (far, far.astype(np.float32), sparse.csr_array(far)):
        probabilities = clf.predict_proba(rows)
        assert probabilities.shape == (len(far), n_classes)
        assert probabilities.dtype == np.float64
        assert probabilities.min() >= 0
        assert probabilities.max() <= 1
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-14)
    probabilities, predicted = clf.predict_proba(far), clf.predict(far)
    best = probabilities.max(axis=1, keepdims=True)
    is_best = (probabilities == best)[np.arange(len(far)), np.searchsorted(clf.classes_, predicted)]
    # Votes of pairs may contradict one another; here they do so for few rows.
    assert is_best.mean() > 0.95 if (multi_class, n_classes) == ("ovo", 3) else is_best.all()
    np.testing.assert_array_equal(clf.to_model().predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(far), probabilities)


@with_a_loss
def test_they_grow_with_the_score(cancer, loss):
    X, y = cancer
    clf = PegasosClassifier(lam=1e-2, loss=loss, random_state=0).fit(X, y)
    scores, probabilities = clf.decision_function(X), clf.predict_proba(X)
    order = np.argsort(scores)
    assert (np.diff(probabilities[order, 1]) >= 0).all()
    assert (np.diff(probabilities[order, 0]) <= 0).all()
    np.testing.assert_array_equal(probabilities[:, 1] > 0.5, clf.predict(X) == 1)
    expected = expit(scores) if loss == "log_loss" else (np.clip(scores, -1, 1) + 1) / 2
    np.testing.assert_allclose(probabilities[:, 1], expected, rtol=1e-14)
    # 1 - p would have lost the digits of a small one.
    np.testing.assert_allclose(probabilities[:, 0], expit(-scores) if loss == "log_loss" else
                               (np.clip(-scores, -1, 1) + 1) / 2, rtol=1e-14)  # fmt: skip


@with_a_loss
@pytest.mark.parametrize("n_classes", [2, 3])
def test_they_are_those_of_sgd_classifier_with_the_same_weights(iris, loss, n_classes):
    X, y = iris[0], iris[1] + n_classes - 3
    some = y >= 0
    ours = PegasosClassifier(lam=1e-3, loss=loss, random_state=0).fit(X[some], y[some])
    theirs = SGDClassifier(loss=loss, max_iter=1, tol=None, random_state=0).fit(X[some], y[some])
    theirs.coef_, theirs.intercept_ = ours.coef_, ours.intercept_
    rows = np.vstack([X, 10 * X])
    np.testing.assert_allclose(ours.predict_proba(rows), theirs.predict_proba(rows), atol=1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # where a probability is 0, too
        logarithms = ours.predict_log_proba(rows)
    np.testing.assert_allclose(np.exp(logarithms), ours.predict_proba(rows), rtol=1e-12)
    assert np.isneginf(logarithms).any() == (loss == "modified_huber")


@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_pairs_that_agree_with_probabilities_give_these(rng, n_classes):
    p = rng.dirichlet(np.ones(n_classes))
    pairs = _multiclass.pairs(n_classes)
    odds = [p[j] / (p[i] + p[j]) for i, j in pairs]
    for loss, scores in (
        ("log_loss", [np.log(q / (1 - q)) for q in odds]),
        ("modified_huber", [2 * q - 1 for q in odds]),
    ):
        model = model_of(scores, range(n_classes), loss, "ovo")
        np.testing.assert_allclose(model.predict_proba([[0.0]]), [p], rtol=1e-9)
        assert model.predict([[0.0]]) == p.argmax()


def test_where_all_are_0_they_are_uniform():
    for scores, multi_class in (([-1, -2, -5], "ovr"), ([2, -3, 2], "ovo")):  # 0 < 1 < 2 < 0
        model = model_of(scores, ["a", "b", "c"], "modified_huber", multi_class)
        np.testing.assert_array_equal(model.predict_proba([[0.0]]), np.full((1, 3), 1 / 3))
    model = model_of([-1e6, -1e6, -1e6], ["a", "b", "c"], "log_loss")
    np.testing.assert_allclose(model.predict_proba([[0.0]]), np.full((1, 3), 1 / 3))


def test_they_are_0_or_1_without_a_word_where_scores_are_huge():
    model = model_of([1e6], ["a", "b"], "log_loss")
    with np.errstate(all="raise"):
        np.testing.assert_allclose(model.predict_proba([[0.0]]), [[0, 1]], atol=1e-300)


# ---- The same models as elsewhere ----------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 1, 100])
@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
def test_two_classes_are_those_of_logistic_regression(cancer, C, solver):
    X, y = cancer
    theirs = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky").fit(X, y)
    ours = PegasosClassifier(
        C=C, loss="log_loss", penalize_intercept=False, solver=solver, tol=1e-10,
        max_iter=10**4, random_state=0,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_weights_are_those_of_logistic_regression(cancer, rng):
    X, y = cancer
    c, class_weight = rng.uniform(0, 2, len(y)), {0: 3.0, 1: 0.5}
    theirs = LogisticRegression(class_weight=class_weight, tol=1e-10, max_iter=10**4)
    ours = PegasosClassifier(
        C=1, loss="log_loss", penalize_intercept=False, tol=1e-10,
        class_weight=class_weight, random_state=0,
    )  # fmt: skip
    for clf in (theirs, ours):
        clf.fit(X, y, sample_weight=c)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize("C", [0.1, 10])
def test_several_classes_are_those_of_logistic_regression_one_vs_rest(iris, C):
    X, y = iris
    theirs = OneVsRestClassifier(LogisticRegression(C=C, tol=1e-10, max_iter=10**4)).fit(X, y)
    ours = PegasosClassifier(
        C=C, loss="log_loss", penalize_intercept=False, tol=1e-10, random_state=0
    ).fit(X, y)
    expected = np.vstack([machine.coef_ for machine in theirs.estimators_])
    np.testing.assert_allclose(ours.coef_, expected, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_they_are_as_good_as_those_of_calibration(rng):
    """Rows whose probabilities are known: a logistic model."""
    X = rng.normal(size=(4000, 3))
    p = expit(X @ [1.0, -2.0, 0.5] + 0.3)
    y = (rng.random(4000) < p).astype(int)
    train, test = np.arange(4000) < 2000, np.arange(4000) >= 2000
    best = brier_score_loss(y[test], p[test])
    machines = [PegasosClassifier(lam=1e-3, loss=loss, random_state=0) for loss in ABLE]
    machines.append(
        CalibratedClassifierCV(PegasosClassifier(lam=1e-3, random_state=0), ensemble=False)
    )
    for machine in machines:
        found = machine.fit(X[train], y[train]).predict_proba(X[test])[:, 1]
        assert brier_score_loss(y[test], found) < best + 0.005
    found = machines[1].predict_proba(X[test])[:, 1]
    assert np.abs(found - p[test]).mean() < 0.03


# ---- Where there are none ------------------------------------------------------------------------


@pytest.mark.parametrize("loss", UNABLE)
@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba"])
def test_other_losses_say_what_gives_probabilities(iris, loss, name):
    message = re.escape(f"{name} is not available with loss={loss!r}") + (
        ".*loss='log_loss' or loss='modified_huber', or .*CalibratedClassifierCV"
    )
    estimators = [kind(loss=loss) for kind in KINDS]
    estimators += [kind(lams=[1e-3, 1e-1], loss=loss, cv=3, random_state=0) for kind in SEARCHES]
    for estimator in estimators:
        for machine in (estimator, clone(estimator).fit(*iris)):
            assert not hasattr(machine, name)
            with pytest.raises(AttributeError, match=message):
                getattr(machine, name)
    if name == "predict_proba":
        model = pegasos.fit(*iris, lam=1e-2, loss=loss, random_state=0)
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=message):
            model.predict_proba(iris[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_the_fit_decides(iris, kind):
    clf = kind(lam=1e-2, loss="log_loss", random_state=0).fit(*iris)
    before = clf.predict_proba(iris[0])
    np.testing.assert_array_equal(clf.set_params(loss="hinge").predict_proba(iris[0]), before)
    assert not hasattr(clf.fit(*iris), "predict_proba")
    assert hasattr(clf.set_params(loss="log_loss").fit(*iris), "predict_proba")
    for unknown in ("log", None, ["log_loss"]):
        assert not hasattr(kind(loss=unknown), "predict_proba")


# ---- Searches and scorers ------------------------------------------------------------------------


@with_a_loss
@multi_class_too
@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr"])
def test_scorers_of_scikit_learn_ask_for_them(iris, loss, multi_class, scoring):
    clf = PegasosClassifier(lam=1e-2, loss=loss, multi_class=multi_class, random_state=0)
    scores = cross_val_score(clf, *iris, scoring=scoring, cv=3)
    assert (scores > (-0.6 if scoring == "neg_log_loss" else 0.9)).all()


@with_a_loss
@multi_class_too
@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_searches_score_probabilities_as_grid_search_does(iris, kind, loss, multi_class, n_classes):
    X, y = iris[0], iris[1] + n_classes - 3
    X, y = X[y >= 0], y[y >= 0]
    options = {"loss": loss, "multi_class": multi_class, "tol": 1e-7, "random_state": 0}
    lams = [1e-1, 1e-2]
    gammas = {"gammas": ["scale"]} if kind is KernelPegasosClassifierCV else {}
    search = kind(lams=lams, cv=3, scoring="neg_log_loss", cv_effort=1e-7, **gammas, **options).fit(
        X, y
    )
    peer = GridSearchCV(
        kind._best(**options), {"lam": lams}, cv=3, scoring=get_scorer("neg_log_loss")
    ).fit(X, y)
    for k in range(3):
        key = f"split{k}_test_score"
        np.testing.assert_allclose(search.cv_results_[key], peer.cv_results_[key], atol=2e-3)
    assert search.best_params_["lam"] == peer.best_params_["lam"]
    np.testing.assert_array_equal(search.predict_proba(X), search.best_estimator_.predict_proba(X))
    np.testing.assert_array_equal(
        search.predict_log_proba(X), search.best_estimator_.predict_log_proba(X)
    )


def test_a_search_says_that_its_loss_has_none(iris):
    search = PegasosClassifierCV(lams=[1e-2], scoring="neg_log_loss", random_state=0)
    with pytest.raises(AttributeError, match=r"loss='hinge', which has no probabilities: take"):
        search.fit(*iris)


def test_a_scorer_of_the_user_s_may_ask_for_them(iris):
    def sharpness(estimator, X, y):
        assert hasattr(estimator, "predict_proba")
        with pytest.raises(ValueError, match="a search keeps these scores"):
            estimator.predict_proba(X[:-1])
        return estimator.predict_proba(X).max(axis=1).mean()

    search = PegasosClassifierCV(
        lams=[1.0, 1e-3], loss="log_loss", scoring=sharpness, random_state=0
    )
    assert search.fit(*iris).lam_ == 1e-3
    assert 0.5 < search.best_score_ < 1


# ---- Files ---------------------------------------------------------------------------------------


def test_a_loss_that_this_version_does_not_know_is_named(tmp_path, iris):
    """So a file of a later version is refused, and not read with another loss."""
    pegasos.fit(*iris, lam=1e-2, loss="log_loss", random_state=0).save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"])) | {"loss": "later"}
    np.savez(tmp_path / "m.npz", **(arrays | {"about": np.array(json.dumps(about))}))
    seal(tmp_path / "m.npz")
    with pytest.raises(ValueError, match=r"loss must be one of .*'log_loss'.*, got 'later'"):
        pegasos.load(tmp_path / "m.npz")


@with_a_loss
def test_the_functional_interface_has_them(iris, loss):
    X, y = iris
    model = pegasos.fit(X, y, 1e-2, loss=loss, random_state=0)
    clf = PegasosClassifier(lam=1e-2, loss=loss, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), clf.predict_proba(X))
    with pytest.raises(ValueError, match="features"):
        model.predict_proba(X[:, :2])
