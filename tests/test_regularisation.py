"""C and λ: which is taken, what the one is of the other, and what is told of both."""

import functools

import numpy as np
import pytest
from rows import make_rows
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, LinearSVC

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
    cli,
)

KINDS = [PegasosClassifier, KernelPegasosClassifier]
SEARCHES = [PegasosClassifierCV, KernelPegasosClassifierCV]
BOTH = pytest.mark.parametrize("kind", KINDS)
FINE = {"tol": 1e-8, "random_state": 0}


@pytest.fixture
def problem(rng):
    X, _ = make_rows(rng, n=90, d=6, density=1.0)
    y = (X @ rng.normal(size=6) + rng.normal(size=90) > 0).astype(int)
    return X, y, rng.uniform(0.2, 3, 90)


@pytest.fixture
def three_classes(rng):
    X, _ = make_rows(rng, n=120, d=6, density=1.0)
    scores = X @ rng.normal(size=(6, 3)) + rng.normal(size=(120, 3))
    return X, scores.argmax(axis=1)


# ---- What λ is ----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 1: 0.5}, "balanced"])
def test_the_default_is_c_of_one_over_the_sum_of_weights(problem, kind, class_weight):
    X, y, c = problem
    clf = kind(random_state=0, class_weight=class_weight).fit(X, y, sample_weight=c)
    of_class = class_weight or {0: 1.0, 1: 1.0}
    if class_weight == "balanced":
        mass = np.bincount(y, c)
        of_class = mass.sum() / (2 * mass)
    total = sum(c[i] * of_class[y[i]] for i in range(len(y)))
    assert clf.lam_ == pytest.approx(1 / total, rel=1e-12)
    assert isinstance(clf.lam_, float)
    for same in ({"C": 1.0}, {"C": 1}, {"lam": clf.lam_}):
        other = kind(random_state=0, class_weight=class_weight, **same)
        other.fit(X, y, sample_weight=c)
        assert other.lam_ == clf.lam_
        np.testing.assert_array_equal(other.decision_function(X), clf.decision_function(X))
    assert clf.to_model().lam == clf.lam_


@BOTH
def test_weights_count_as_c_does(problem, kind):
    X, y, c = problem
    twice = kind(C=0.3, **FINE).fit(X, y, sample_weight=2 * c)
    other = kind(C=0.6, **FINE).fit(X, y, sample_weight=c)
    assert twice.lam_ == pytest.approx(other.lam_, rel=1e-12)
    np.testing.assert_allclose(
        twice.decision_function(X), other.decision_function(X), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 1: 0.5}])
def test_linear_machines_are_those_of_linear_svc(problem, C, loss, class_weight):
    X, y, c = problem
    options = {"C": C, "loss": loss, "class_weight": class_weight}
    theirs = LinearSVC(tol=1e-9, max_iter=10**6, random_state=0, **options)
    theirs.fit(X, y, sample_weight=c)
    ours = PegasosClassifier(**FINE, **options).fit(X, y, sample_weight=c)

    def objective(clf):
        loss_of = np.maximum(0, 1 - (2 * y - 1) * clf.decision_function(X))
        loss_of = loss_of**2 if loss == "squared_hinge" else loss_of
        factor = np.array([1.0, 1.0] if class_weight is None else [3.0, 0.5])[y]
        w = np.append(clf.coef_[0], clf.intercept_)
        return w @ w / 2 + C * np.sum(c * factor * loss_of), np.sum(C * c * factor)

    (found, total), (expected, _) = objective(ours), objective(theirs)
    assert found == pytest.approx(expected, rel=1e-6)
    assert ours.objective_[0] == pytest.approx(expected / total, rel=1e-6)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=2e-3, atol=2e-3
    )


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 1: 0.5}])
def test_kernel_machines_are_those_of_svc(problem, C, class_weight):
    X, y, c = problem
    options = {"C": C, "gamma": 0.2, "class_weight": class_weight}
    theirs = SVC(tol=1e-8, **options).fit(X, y, sample_weight=c)
    ours = KernelPegasosClassifier(penalize_intercept=False, **FINE, **options)
    ours.fit(X, y, sample_weight=c)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=2e-3, atol=2e-3
    )


def test_machines_of_a_class_against_the_rest_have_the_c_of_linear_svc(three_classes):
    X, y = three_classes
    theirs = LinearSVC(C=0.5, loss="hinge", tol=1e-9, max_iter=10**6, random_state=0).fit(X, y)
    ours = PegasosClassifier(C=0.5, **FINE).fit(X, y)
    assert ours.lam_ == pytest.approx(1 / (0.5 * len(y)))
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=2e-3, atol=2e-3
    )


@BOTH
def test_pairs_of_classes_share_the_mean_of_their_sums_of_weights(three_classes, kind):
    X, y = three_classes
    c = np.where(y == 0, 2.0, 0.7)
    clf = kind(C=0.5, multi_class="ovo", random_state=0).fit(X, y, sample_weight=c)
    sums = [c[(y == i) | (y == j)].sum() for i, j in [(0, 1), (0, 2), (1, 2)]]
    assert clf.lam_ == pytest.approx(1 / (0.5 * np.mean(sums)))
    # A class without weight is in no pair: what is left is one pair of classes.
    c[y == 2] = 0
    assert clf.fit(X, y, sample_weight=c).lam_ == pytest.approx(1 / (0.5 * c.sum()))


def test_pairs_of_classes_of_equal_weight_have_the_c_of_svc(three_classes):
    X, y = three_classes
    options = {"C": 0.7, "gamma": 0.2, "class_weight": "balanced"}
    ours = KernelPegasosClassifier(
        multi_class="ovo", penalize_intercept=False, **FINE, **options
    ).fit(X, y)
    theirs = SVC(tol=1e-8, decision_function_shape="ovr", break_ties=True, **options).fit(X, y)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=2e-3, atol=2e-3
    )


# ---- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, *SEARCHES])
def test_parameters_are_given_by_their_names(kind):
    with pytest.raises(TypeError, match="positional"):
        kind([1.0] if kind in SEARCHES else 1.0)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [*((kind, "C", "lam") for kind in KINDS), *((kind, "Cs", "lams") for kind in SEARCHES)],
)
def test_one_of_both_is_given(problem, kind, one, other):
    X, y, _ = problem
    value = 2 if kind in SEARCHES else 0.25
    clf = kind(**{one: value, other: value})
    with pytest.raises(
        ValueError, match=rf"^{one} or {other} .* {one}={value} and {other}={value}"
    ):
        clf.fit(X, y)
    assert not hasattr(clf, "lam_")


@BOTH
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", True, [1.0], 10**400])
def test_what_c_may_be(problem, kind, value):
    X, y, _ = problem
    with pytest.raises((TypeError, ValueError), match="C must be a finite number > 0, got"):
        kind(C=value).fit(X, y)


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("values", [[], [0.1, 0.0], [[1.0]], 0, [np.nan], "1", 2.5])
@pytest.mark.parametrize("name", ["Cs", "lams"])
def test_what_several_may_be(problem, kind, name, values):
    X, y, _ = problem
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be"):
        kind(**{name: values}).fit(X, y)


@BOTH
def test_c_times_weights_stays_in_range(problem, kind):
    X, y, _ = problem
    for C, weight in [(1e200, 1e200), (1e-200, 1e-200)]:
        with pytest.raises(ValueError, match=r"^C times the sum of the weights of rows must be in"):
            kind(C=C).fit(X, y, sample_weight=np.full(len(y), weight))


# ---- Going on ------------------------------------------------------------------------------------


def test_pieces_have_a_lam_of_their_own(problem):
    X, y, _ = problem
    clf = PegasosClassifier(random_state=0).partial_fit(X, y, classes=[0, 1])
    told = PegasosClassifier(lam=1e-4, random_state=0).partial_fit(X, y, classes=[0, 1])
    assert clf.lam_ == told.lam_ == 1e-4
    np.testing.assert_array_equal(clf.coef_, told.coef_)
    assert PegasosClassifier(lam=0.3).partial_fit(X, y, classes=[0, 1]).lam_ == 0.3
    clf = PegasosClassifier(C=2.0)
    with pytest.raises(ValueError, match=r"partial_fit cannot begin with C=2\.0.* give lam"):
        clf.partial_fit(X, y, classes=[0, 1])
    assert not hasattr(clf, "coef_")


@pytest.mark.parametrize("how", [{"C": 2.0}, {}, {"lam": 0.01}])
def test_pieces_after_a_fit_keep_its_lam(problem, how):
    X, y, c = problem
    clf = PegasosClassifier(random_state=0, **how).fit(X, y, sample_weight=c)
    lam = clf.lam_
    assert clf.partial_fit(X[:5], y[:5]).lam_ == lam
    other = PegasosClassifier(lam=lam, random_state=0).fit(X, y, sample_weight=c)
    np.testing.assert_array_equal(other.partial_fit(X[:5], y[:5]).coef_, clf.coef_)


@BOTH
def test_a_warm_start_keeps_lam_whatever_the_weights(problem, kind):
    X, y, c = problem
    clf = kind(C=0.5, warm_start=True, random_state=0).fit(X, y)
    lam = clf.lam_
    assert clf.fit(X, y, sample_weight=c).lam_ == lam
    assert clf.set_params(C=None, lam=lam).fit(X, y).lam_ == lam
    assert lam == 1 / (0.5 * len(y))


@BOTH
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"C": 0.5}, {"C": 2.0}, r"C must stay 0\.5 .* got 2\.0"),
        ({"C": 0.5}, {"C": None}, r"C must stay 0\.5 .* got 1\.0"),
        ({}, {"C": 2.0}, r"C must stay 1\.0 .* got 2\.0"),
        ({"lam": 0.1}, {"lam": None}, r"C must stay None .* got 1\.0"),
        ({"lam": 0.1}, {"lam": 0.2}, r"lam must stay 0\.1 .* got 0\.2"),
        ({"C": 0.5}, {"C": None, "lam": 0.3}, r"lam must stay .* got 0\.3"),
    ],
)
def test_neither_changes_while_training_goes_on(problem, kind, before, after, message):
    X, y, _ = problem
    clf = kind(warm_start=True, random_state=0, **before).fit(X, y)
    with pytest.raises(ValueError, match=message):
        clf.set_params(**after).fit(X, y)


@BOTH
def test_a_fit_that_was_interrupted_is_completed_with_its_c(problem, kind):
    X, y, c = problem
    options = {"C": 3.0, "tol": None, "solver": "pegasos", "random_state": 0}
    whole = kind(max_iter=8, **options).fit(X, y, sample_weight=c)
    parts = kind(max_iter=4, warm_start=True, **options)
    parts.fit(X, y, sample_weight=c).fit(X, y, sample_weight=c)
    assert parts.lam_ == whole.lam_
    np.testing.assert_array_equal(parts.decision_function(X), whole.decision_function(X))


# ---- Searches ------------------------------------------------------------------------------------


def of_search(kind, **options):
    more = {"gammas": [0.2]} if kind is KernelPegasosClassifierCV else {}
    return kind(cv=3, random_state=0, **more, **options)


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_searches_tell_both(three_classes, rng, kind, weighted, multi_class):
    X, y = three_classes
    c = rng.uniform(0.5, 2, len(y)) if weighted else None
    mass = len(y) if c is None else c.sum()
    mass *= 2 / 3 if multi_class == "ovo" else 1
    Cs = [0.02, 0.5, 5.0]
    of_c = of_search(kind, Cs=Cs, multi_class=multi_class).fit(X, y, sample_weight=c)
    lams = of_c.cv_results_["param_lam"].tolist()
    np.testing.assert_allclose(lams, 1 / (np.array(Cs) * mass), rtol=1e-12)
    of_lam = of_search(kind, lams=lams, multi_class=multi_class).fit(X, y, sample_weight=c)
    np.testing.assert_array_equal(of_c.scores_, of_lam.scores_)
    for search, name in [(of_c, "C"), (of_lam, "lam")]:
        results, k = search.cv_results_, search.best_index_
        np.testing.assert_allclose(results["param_C"].tolist(), Cs, rtol=1e-12)
        assert results["param_C"][k] == search.C_
        assert search.lam_ == results["param_lam"][k] == search.best_estimator_.lam_
        assert set(search.best_params_) - {"max_iter", "tol", "gamma"} == {name}
        assert search.best_params_[name] == search.best_estimator_.get_params()[name]
        assert [point[name] for point in results["params"]] == results[f"param_{name}"].tolist()
    assert of_c.best_index_ == of_lam.best_index_
    np.testing.assert_array_equal(of_c.decision_function(X), of_lam.decision_function(X))


@pytest.mark.parametrize("kind", SEARCHES)
def test_lams_need_no_c_that_floats_can_hold(problem, kind):
    X, y, _ = problem
    for weight, expected in [(1e-320, np.inf), (1e-12, 1 / (0.1 * 90 * 1e-12))]:
        search = of_search(kind, lams=[0.1]).fit(X, y, sample_weight=np.full(len(y), weight))
        assert search.lam_ == 0.1
        np.testing.assert_allclose(search.C_, expected)
        assert search.best_estimator_.lam_ == 0.1


@pytest.mark.parametrize("kind", SEARCHES)
def test_the_automatic_grid_is_one_of_c(problem, kind):
    X, y, _ = problem
    default = of_search(kind, refit=False).fit(X, y)
    Cs = default.cv_results_["param_C"].tolist()
    assert [Cs[0], Cs[-1], len(Cs)] == [1e-4, 10.0, 10]
    assert np.ptp(np.diff(np.log(Cs))) < 1e-4
    named = of_search(kind, refit=False, Cs=10).fit(X, y)
    np.testing.assert_array_equal(named.scores_, default.scores_)
    few = of_search(kind, refit=False, lams=4).fit(X, y)
    np.testing.assert_allclose(
        few.cv_results_["param_lam"].tolist(), 1 / (np.geomspace(1e-4, 10, 4) * len(y)), rtol=1e-5
    )
    assert "lam" in few.best_params_


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_a_search_tries_gammas_around_scale(problem, kernel):
    X, y, c = problem
    rows = X @ X.T if kernel == "precomputed" else X
    search = KernelPegasosClassifierCV(Cs=[0.1, 1.0], cv=3, kernel=kernel, random_state=0)
    search.fit(rows, y, sample_weight=c)
    if kernel != "rbf":  # these have no gamma
        assert "param_gamma" not in search.cv_results_
        return
    gammas = search.cv_results_["param_gamma"].tolist()
    mean = np.average(X, axis=0, weights=c).mean()
    scale = 1 / (X.shape[1] * np.average((X - mean) ** 2, axis=0, weights=c).mean())
    np.testing.assert_allclose(sorted(set(gammas)), scale * np.array([0.1, 1, 10]), rtol=1e-5)
    assert search.gamma_ == search.best_estimator_.gamma == search.best_params_["gamma"]


@BOTH
@pytest.mark.parametrize("name", ["C", "lam"])
def test_scikit_learn_searches_over_either(problem, kind, name):
    X, y, _ = problem
    search = GridSearchCV(kind(random_state=0), {name: [0.01, 1.0]}, cv=3).fit(X, y)
    expected = search.best_params_[name]
    expected = 1 / (expected * len(y)) if name == "C" else expected
    assert search.best_estimator_.lam_ == pytest.approx(expected, rel=1e-12)
    twin = clone(kind(**{name: 0.3}))
    assert twin.get_params()[name] == 0.3
    assert twin.get_params()["lam" if name == "C" else "C"] is None


# ---- The command line ----------------------------------------------------------------------------


@pytest.fixture
def train(tmp_path, problem):
    X, y, _ = problem
    np.savez(tmp_path / "a.npz", X=X, y=y)
    model = tmp_path / "m.npz"
    return functools.partial(_train, str(tmp_path / "a.npz"), model)


def _train(data, model, *options):
    assert cli.main(["train", data, "-o", str(model), "-q", *options]) == 0
    return pegasos.load(model)


@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf"]])
@pytest.mark.parametrize(
    ("options", "lam"), [([], 1 / 90), (["--C", "0.5"], 2 / 90), (["--lam", "0.3"], 0.3)]
)
def test_the_command_line_takes_either(train, kernel, options, lam):
    assert train(*kernel, *options).lam == pytest.approx(lam, rel=1e-12)


def test_the_command_line_takes_one_of_both(train, capsys):
    with pytest.raises(SystemExit) as end:
        train("--C", "1", "--lam", "0.1")
    assert end.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_search_of_the_command_line_tries_gammas_unless_told(train, capsys):
    model = train("--kernel", "rbf", "--cv", "3", "--Cs", "3")
    assert model.kernel["gamma"] > 0
    args = cli._parser().parse_args(["train", "a", "--kernel", "rbf", "--cv", "3"])
    assert cli._machines(args)[1].gammas is None
    args = cli._parser().parse_args(["train", "a", "--kernel", "rbf", "--cv", "3", "--gamma", "2"])
    assert cli._machines(args)[1].gammas == [2.0]
