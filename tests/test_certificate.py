"""The certificate: what it claims is true, and exact; solvers reach the gap that is asked for."""

import functools
import itertools
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import paper
import pytest
from covering import covering
from interruption import interrupted
from rows import DTYPES, LAYOUTS, convert, make_rows
from scipy import sparse
from sklearn.datasets import (
    load_breast_cancer,
    load_iris,
    load_wine,
    make_blobs,
    make_moons,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_info

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    _core,
    kernels,
)
from pegasos.problems import _certificate
from pegasos.problems._losses import LOSSES

INTERCEPTS = {
    "none": {"fit_intercept": False},
    "penalized": {"intercept_scaling": 2.0},
    "free": {"penalize_intercept": False},
}


@functools.cache
def _optimum(X, y, lam, weights, intercept):
    X, y = np.array(X), np.array(y)
    c = np.ones(len(y)) if weights is None else np.array(weights)
    C = 1 / (lam * c.sum())
    if intercept == "free":
        machine = SVC(C=C, kernel="linear", tol=1e-9).fit(X, y, sample_weight=c)
    else:
        machine = LinearSVC(
            C=C, loss="hinge", tol=1e-10, max_iter=10**6, fit_intercept=intercept != "none",
            intercept_scaling=2.0,
        ).fit(X, y, sample_weight=c)  # fmt: skip
    w, b = machine.coef_.ravel(), float(np.ravel(machine.intercept_)[0])
    penalty = w @ w + (b / 2.0) ** 2 * (intercept == "penalized")
    return lam / 2 * penalty + np.average(np.maximum(0, 1 - y * (X @ w + b)), weights=c)


def optimum(X, y, lam, weights, intercept):
    """The smallest objective, by LIBLINEAR or LIBSVM at a tight tolerance."""
    weights = None if weights is None else tuple(weights)
    return _optimum(tuple(map(tuple, X)), tuple(y), lam, weights, intercept)


@pytest.fixture
def problem(rng):
    """Rows that no machine separates, so that the optimum has rows at every bound."""
    X, y = make_rows(rng, n=120, d=9)
    y[: len(y) // 5] *= -1
    return X, y


@covering(
    3,
    layout=LAYOUTS,
    dtype=DTYPES,
    intercept=INTERCEPTS,
    weighted=(False, True),
    options=(
        {"max_iter": 5},
        {"max_iter": 200},
        {"n_steps": 77, "batch_size": 3},
        {"max_iter": 5, "sampling": "uniform"},
        {"max_iter": 5, "sampling": "cyclic", "average": True},
        {"max_iter": 5, "average": "suffix", "project": True},
        {"solver": "sdca", "max_iter": 1},
        {"solver": "sdca", "max_iter": 4},
        {"solver": "sdca", "max_iter": 500},
        {"solver": "newton", "max_iter": 1},
        {"solver": "newton", "max_iter": 9},
        {"solver": "newton", "max_iter": 500},
        {"solver": "auto", "max_iter": 500},
    ),
)
def test_the_gap_bounds_the_distance_to_the_optimum(
    rng, problem, layout, dtype, intercept, weighted, options
):
    X, y = problem
    lam = 0.01
    weights = rng.uniform(0.1, 3, len(y)) if weighted else None
    model = paper.fit(
        convert(X, layout, dtype), y, lam, sample_weight=weights, random_state=0,
        **INTERCEPTS[intercept], **options,
    )  # fmt: skip
    best = optimum(X, y, lam, weights, intercept)
    assert model.dual_objective[0] <= best * (1 + 1e-7)
    assert model.objective[0] >= best * (1 - 1e-7)
    assert model.duality_gap[0] == max(model.objective[0] - model.dual_objective[0], 0)
    if options.get("max_iter") == 500:
        assert model.duality_gap[0] < 1e-5 * best
    if options == {"max_iter": 200}:  # whole epochs of permutations
        assert model.duality_gap[0] < (0.5 if intercept == "free" else 0.2) * best


@pytest.mark.parametrize("intercept", ["none", "penalized"])
@pytest.mark.parametrize("weighted", [False, True])
def test_after_whole_epochs_the_dual_point_has_the_weights_of_the_model(
    rng, problem, layout, dtype, intercept, weighted
):
    X, y = problem
    lam, epochs = 0.01, 30
    c = rng.uniform(0.1, 3, len(y)) if weighted else np.ones(len(y))
    model = paper.fit(
        convert(X, layout, dtype), y, lam, sample_weight=c, max_iter=epochs, random_state=0,
        **INTERCEPTS[intercept],
    )  # fmt: skip
    assert model.alpha_counts.max() <= epochs
    a = c * model.alpha_counts[0] / epochs
    w = (a * y) @ X / (lam * c.sum())
    constant = 2.0 * (a * y).sum() / (lam * c.sum()) * (intercept == "penalized")
    rtol = 1e-9 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(model.coef[0], w, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.intercept[0], 2.0 * constant, rtol=rtol, atol=rtol)
    # and the certificate is at least as good as that point
    dual = a.sum() / c.sum() - lam / 2 * (w @ w + constant**2)
    assert model.dual_objective[0] >= dual - 1e-9


def test_primal_and_dual_are_those_of_extended_precision(rng, layout, dtype):
    X, y = make_rows(rng, n=80, d=11)
    model = paper.fit(convert(X, layout, dtype), y, 1e-3, max_iter=7, random_state=0)
    wide = np.longdouble
    w, b, lam = model.coef[0].astype(wide), wide(model.intercept[0]), wide(1e-3)
    hinge = np.maximum(0, 1 - y * (X.astype(wide) @ w + b)).mean()
    np.testing.assert_allclose(
        model.objective[0], float(lam / 2 * (w @ w + b * b) + hinge), rtol=1e-13
    )
    a = np.minimum(model.alpha_counts[0].astype(wide) / 7, 1)
    w = (a * y) @ X.astype(wide) / (lam * len(y))
    b = (a * y).sum() / (lam * len(y))
    first, second = a.mean(), lam / 2 * (w @ w + b * b)
    r = min(first / (2 * second), 1 / a.max())
    np.testing.assert_allclose(
        model.dual_objective[0], float(r * first - r * r * second), rtol=1e-12
    )


@covering(
    3, layout=LAYOUTS, dtype=DTYPES, intercept=INTERCEPTS, multi_class=("ovr", "ovo"),
    solver=("auto", "sdca", "newton"),
)  # fmt: skip
def test_solvers_reach_the_gap_that_is_asked_for(
    rng, layout, dtype, intercept, multi_class, solver
):
    X, _ = make_rows(rng, n=150, d=12)
    y = rng.integers(0, 4, 150)
    X = convert(X, layout, dtype)
    for tol in (1e-1, 1e-3, 1e-6):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            model = paper.fit(
                X, y, 0.02, solver=solver, tol=tol, max_iter=5000, multi_class=multi_class,
                random_state=0, **INTERCEPTS[intercept],
            )  # fmt: skip
        assert (model.duality_gap <= tol * model.objective).all()


@pytest.mark.parametrize("solver", ["auto", "pegasos", "sdca", "newton"])
def test_a_fit_that_stops_short_says_so(problem, solver):
    X, y = problem
    options = {"solver": solver, "tol": 1e-7, "max_iter": 3, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match=r"at max_iter=3\. Objective .*tol=1e-07"):
        model = paper.fit(X, y, 1e-3, **options)
    with pytest.warns(ConvergenceWarning) as told:
        clf = paper.linear(lam=1e-3, **options).fit(X, y)
    assert f"{model.objective[0]:.6g}" in str(told[0].message)
    np.testing.assert_array_equal(clf.coef_, model.coef)
    np.testing.assert_array_equal(clf.duality_gap_, model.duality_gap)
    assert clf.n_iter_ >= 3
    with pytest.warns(ConvergenceWarning, match="features that are centred and scaled"):
        paper.fit(1e4 * X, y, 1e-3, **options)


@pytest.mark.parametrize(
    ("multi_class", "which"), [("ovr", "class (\\w+)"), ("ovo", "classes (.+)")]
)
@pytest.mark.parametrize("make", [paper.linear, paper.kernel])
def test_what_a_fit_that_stops_short_says_is_true(rng, make, multi_class, which):
    X, _ = make_rows(rng)
    names = np.array(["ape", "bee", "cat"])
    y = names[rng.integers(0, 3, len(X))]
    clf = make(
        lam=1e-4, solver="pegasos", tol=1e-7, max_iter=2, multi_class=multi_class, random_state=0
    )
    with pytest.warns(ConvergenceWarning) as told:
        clf.fit(X, y)
    said = re.match(
        rf"stopped at max_iter=2 for {which}\. Objective (\S+), gap (\S+), "
        r"(\S+) % of the objective; tol=1e-07 asks for 1e-05 %\.",
        str(told[0].message),
    )
    k = np.argmax(clf.duality_gap_ / clf.objective_)
    named = [*names] if multi_class == "ovr" else ["ape and bee", "ape and cat", "bee and cat"]
    assert said[1] == named[k]
    gap, objective = clf.duality_gap_[k], clf.objective_[k]
    for words, number in zip(
        said.groups()[1:], (objective, gap, 100 * gap / objective), strict=True
    ):
        assert float(words) == pytest.approx(number, rel=0.01)
    assert "optimum" not in str(told[0].message)


def test_pegasos_itself_stops_at_a_gap(problem):
    X, y = problem
    clf = paper.linear(lam=0.1, tol=0.02, max_iter=10**5, random_state=0).fit(X, y)
    assert clf.duality_gap_[0] <= 0.02 * clf.objective_[0]
    assert 20 <= clf.n_iter_ < 10**5
    # the same steps as without a tolerance
    plain = paper.linear(lam=0.1, max_iter=clf.n_iter_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize(
    ("solver", "function", "when"),
    [
        ("sdca", "Watch", (0, 2, 12)),
        ("newton", "Watch", (0, 2, 30)),
        ("auto", "certify", (0,)),  # the certificate
    ],
)
def test_threads_and_interruptions_do_not_change_the_answer(
    rng, monkeypatch, intercept, solver, function, when
):
    X, _ = make_rows(rng, n=200, d=12)
    y = rng.integers(0, 5, 200)
    options = {"solver": solver, "tol": 1e-5, "max_iter": 3000, "random_state": 1}
    options |= INTERCEPTS[intercept]
    whole = paper.linear(lam=0.02, **options).fit(X, y)
    threads = paper.linear(lam=0.02, n_jobs=3, **options).fit(X, y)
    np.testing.assert_array_equal(whole.coef_, threads.coef_)
    clf = paper.linear(lam=0.02, warm_start=True, **options)
    real = getattr(_core, function)
    for after in when:
        if function == "Watch":
            with interrupted(after):
                clf.fit(X, y)
            clf.predict(X)
            clf = pickle.loads(pickle.dumps(clf))
            continue
        calls = iter(range(10**9))

        def call(what, *arguments, calls=calls, after=after, **named):
            if next(calls) >= after:
                raise KeyboardInterrupt
            return what(*arguments, **named)

        monkeypatch.setattr(_core, function, functools.partial(call, real))
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
        clf.predict(X)
        clf = pickle.loads(pickle.dumps(clf))  # saved, and continued elsewhere
    monkeypatch.setattr(_core, function, real)
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.coef_, whole.coef_)
    np.testing.assert_array_equal(clf.duality_gap_, whole.duality_gap_)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.parametrize(
    "make",
    [
        PegasosClassifier,
        functools.partial(PegasosClassifier, penalize_intercept=False, multi_class="ovo"),
        KernelPegasosClassifier,
        functools.partial(KernelPegasosClassifier, kernel="linear"),
        functools.partial(KernelPegasosClassifier, kernel="poly", penalize_intercept=False),
    ],
)
def test_defaults_suit_small_data(load, scaled, make):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X) if scaled else X
    for tol in (1e-3, 1e-6):
        clf = make(tol=tol, random_state=0).fit(X, y)  # a warning would be an error
        assert (clf.duality_gap_ <= tol * clf.objective_).all()


def test_blas_has_its_threads_again_after_fits_side_by_side(rng):
    X, y = make_rows(rng, n=300, d=120)

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    def fit(seed):
        PegasosClassifier(lam=1e-4, solver="newton", tol=1e-6, random_state=seed).fit(X, y)

    fit(0)  # SciPy's BLAS is there from now on
    before = threads()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fit, range(24)))
    assert threads() == before


@pytest.mark.parametrize("n_classes", [2, 4])
def test_ascent_that_gets_nowhere_gives_up(rng, n_classes):
    """Where lam m is little beside |x|^2, epochs over all rows hardly move dual variables."""
    X = sparse.csr_array(sparse.random(4000, 200, 0.04, "csr", random_state=rng))
    X.data[:] = 3
    scores = X @ rng.normal(size=(200, n_classes))
    y = (scores + 2 * scores.std() * rng.normal(size=scores.shape)).argmax(axis=1)
    for lam, solvers in ((1e-4, ["pegasos", "sdca", "newton"]), (1, ["pegasos", "sdca"])):
        clf = PegasosClassifier(lam=lam, tol=1e-3, random_state=0).fit(X, y)
        assert list(clf.solver_epochs_) == solvers
        assert clf.solver_epochs_["sdca"] < (8 if n_classes == 2 else 16)
        assert (clf.duality_gap_ <= 1e-3 * clf.objective_).all()
    clf.set_params(lam=1e-4, solver="sdca", tol=0.1).fit(X, y)
    assert list(clf.solver_epochs_) == ["pegasos", "sdca"]
    # Nor does a fit that was begun with solver="auto" give up then.
    for asked in ({"solver": "sdca"}, {"tol": None}):
        again = PegasosClassifier(lam=1e-4, warm_start=True, random_state=0)
        with interrupted(3):
            again.fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            again.set_params(max_iter=9, **asked).fit(X, y)
        assert list(again.solver_epochs_) == ["pegasos", "sdca"]


@pytest.mark.parametrize("lam", [1, 10])
@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
@pytest.mark.parametrize("make", [make_moons, make_blobs])
def test_free_intercepts_of_simple_machines_are_those_of_svc(make, solver, lam, dtype):
    options = {"noise": 0.1} if make is make_moons else {"centers": 2, "cluster_std": 0.5}
    X, y = make(200, random_state=0, **options)
    X = X.astype(dtype)
    options = {"solver": solver, "penalize_intercept": False, "tol": 1e-6, "random_state": 0}
    weights = np.full(200, 0.1)
    for kernel in ("linear", "rbf"):
        svc = SVC(C=1 / (200 * lam), kernel=kernel, gamma=1.0, tol=1e-8).fit(X, y)
        ours = [KernelPegasosClassifier(lam=lam, kernel=kernel, gamma=1.0, **options)]
        if kernel == "linear":
            ours.append(PegasosClassifier(lam=lam, **options))
        for machine in ours:
            for weighted in ({}, {"sample_weight": weights}):
                machine.fit(X, y, **weighted)
                np.testing.assert_allclose(
                    machine.decision_function(X), svc.decision_function(X), atol=2e-3
                )
                # As scores are that close, predictions may differ where they are about 0.
                assert machine.score(X, y) >= svc.score(X, y) - 0.01


def test_a_gap_check_that_wakes_rows_is_followed_by_another():
    """Estimates fall to 0 over rows that are awake: the wrong ones, until a check wakes more."""
    X, y = make_blobs(200, random_state=0, centers=2, cluster_std=0.5)
    machine = PegasosClassifier(lam=1, solver="sdca", penalize_intercept=False, tol=1e-6)
    for seed in range(12):
        machine.set_params(random_state=seed).fit(X, y)  # which warns if 1000 epochs do not do
        assert machine.duality_gap_ <= 1e-6 * machine.objective_


# ---- Kernels -------------------------------------------------------------------------------------


@covering(
    2,
    dtype=DTYPES,
    kernel=("linear", "poly", "rbf", "laplacian", "precomputed"),
    cache_size=(0.001, 10),
    options=(
        {"max_iter": 200},
        {"max_iter": 3, "average": True},
        {"n_steps": 333, "sampling": "uniform", "project": True},
        {"max_iter": 20, "penalize_intercept": False},
        {"solver": "sdca", "max_iter": 3},
        {"solver": "sdca", "max_iter": 3, "penalize_intercept": False},
        {"solver": "newton", "max_iter": 9, "tol": None},
        {"solver": "newton", "max_iter": 2000, "tol": 1e-4},
        {"solver": "newton", "max_iter": 2000, "tol": 1e-4, "penalize_intercept": False},
        {"solver": "auto", "max_iter": 2000, "tol": 1e-4},
        {"solver": "auto", "max_iter": 2000, "tol": 1e-4, "penalize_intercept": False},
    ),
)
def test_the_gap_of_kernel_machines_bounds_the_distance_to_the_optimum(
    rng, problem, dtype, kernel, cache_size, options
):
    from sklearn.metrics.pairwise import pairwise_kernels

    X, y = problem
    lam, gamma = 0.01, 0.2
    parameters = {"gamma": gamma} if kernel in ("rbf", "poly", "laplacian") else {}
    parameters |= {"degree": 2, "coef0": 1.0} if kernel == "poly" else {}
    K = pairwise_kernels(X, metric="rbf" if kernel == "precomputed" else kernel, **parameters)
    rows = K if kernel == "precomputed" else X
    weights = rng.uniform(0.1, 3, len(y))
    free = "penalize_intercept" in options
    clf = paper.kernel(
        lam=lam, kernel=kernel, **parameters, cache_size=cache_size, fit_intercept=free,
        random_state=0, **options,
    ).fit(rows.astype(dtype), y, sample_weight=weights)  # fmt: skip
    c = weights / weights.sum()
    machine = SVC(C=1 / lam, kernel="precomputed", tol=1e-10)
    if free:
        machine.fit(K, y, sample_weight=c)
        beta = np.zeros(len(y))
        beta[machine.support_] = machine.dual_coef_[0]
        best = lam / 2 * beta @ K @ beta
        best += c @ np.maximum(0, 1 - y * (K @ beta + machine.intercept_[0]))
    else:  # an SVM without intercept: coordinate ascent on the rows of a square root of K
        values, vectors = np.linalg.eigh(K)
        root = vectors * np.sqrt(np.maximum(values, 0))
        best = paper.fit(
            root, y, lam, solver="sdca", tol=1e-8, max_iter=10**5, fit_intercept=False,
            sample_weight=weights,
        ).objective[0]  # fmt: skip
    rtol = 1e-7 if dtype is np.float64 else 1e-4
    assert clf.dual_objective_[0] <= best * (1 + rtol)
    assert clf.objective_[0] >= best * (1 - rtol)
    assert clf.duality_gap_[0] == max(clf.objective_[0] - clf.dual_objective_[0], 0)
    if options == {"max_iter": 200}:
        assert clf.duality_gap_[0] < 0.3 * best
    if options.get("tol"):
        assert clf.duality_gap_[0] <= 1e-4 * clf.objective_[0]


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
def test_a_warm_start_notices_other_weights(rng, kind, solver, intercept):
    """Of the same sum, so that scales stay what they were; gamma="scale" would be another one."""
    X, _ = make_rows(rng, n=150)
    y = rng.integers(0, 3, 150)
    weights = rng.uniform(0.5, 1, 150)
    others = weights[::-1].copy()
    others[:2] = 0, others[0] + others[1]
    options = {"solver": solver, "tol": 1e-6, "max_iter": 10**4, "random_state": 0}
    options |= INTERCEPTS[intercept]
    warm = kind(lam=0.05, warm_start=True, **options).fit(X, y, sample_weight=weights)
    warm.fit(X, y, sample_weight=others)
    if kind is KernelPegasosClassifier:
        options["gamma"] = warm.to_model().support.kernel.gamma
    fresh = kind(lam=0.05, **options).fit(X, y, sample_weight=others)
    assert (warm.duality_gap_ <= 1e-6 * warm.objective_).all()
    np.testing.assert_allclose(warm.objective_, fresh.objective_, rtol=1e-6)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize(
    ("kernel", "cache_size"),
    [("precomputed", 0.05), ("laplacian", 10), ("laplacian", 0.05), ("rbf", 10)],
)
def test_an_interrupted_kernel_ascent_goes_on_where_it_was(
    rng, intercept, multi_class, kernel, cache_size
):
    """In the middle of a round, too.

    Where kernel values that are computed anew have other last bits, or are added in another order,
    the path is another one from there, to an answer as good.
    """
    X, _ = make_rows(rng, n=150, d=12)
    X = np.exp(-0.1 * np.abs(X[:, None] - X).sum(axis=2)) if kernel == "precomputed" else X
    y = rng.integers(0, 4, 150)
    options = {"solver": "sdca", "tol": 1e-5, "max_iter": 3000, "random_state": 1, "gamma": 0.05}
    options |= {"kernel": kernel, "cache_size": cache_size, "multi_class": multi_class}
    options |= INTERCEPTS[intercept]
    whole = paper.kernel(lam=0.01, **options).fit(X, y)
    clf = paper.kernel(lam=0.01, warm_start=True, **options)
    for after in (3, 10):
        with interrupted(after):
            clf.fit(X, y)
        clf.predict(X)
        clf = pickle.loads(pickle.dumps(clf))
    clf.fit(X, y)
    assert (clf.duality_gap_ <= 1e-5 * clf.objective_).all()
    np.testing.assert_allclose(clf.objective_, whole.objective_, rtol=2e-5)
    if (kernel, cache_size) in (("precomputed", 0.05), ("laplacian", 10)):
        assert clf.n_iter_ == whole.n_iter_
        np.testing.assert_array_equal(clf.dual_coef_, whole.dual_coef_)


def symmetric_matrices(rng, count):
    """Small symmetric matrices, a third of them positive semi-definite, and labels."""
    for k in range(count):
        n = int(rng.integers(2, 12))
        half = rng.normal(size=(n, int(rng.integers(1, n + 1))))
        K = half @ half.T
        if k % 3:
            other = rng.normal(size=(n, n))
            K = (other + other.T) / 2 + rng.choice([0, 1, 3]) * K
        yield K * 10 ** rng.uniform(-2, 2), np.r_[1, -1, rng.choice([-1, 1], n - 2)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of Pegasos alone
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", ["auto", "sdca", "newton", "pegasos"])
def test_no_point_is_below_what_is_claimed_of_any_symmetric_matrix(rng, dtype, solver, intercept):
    known = 0
    for K, y in symmetric_matrices(rng, 30):
        K = K.astype(dtype)
        lam, options = 10 ** rng.uniform(-2, 0), INTERCEPTS[intercept]
        clf = KernelPegasosClassifier(
            lam=lam, kernel="precomputed", solver=solver, max_iter=200, random_state=0, **options
        ).fit(K, y)
        values, vectors = np.linalg.eigh(K.astype(np.float64))
        assert np.isnan(clf.duality_gap_[0]) == np.isnan(clf.dual_objective_[0])
        assert values[0] > -1e-5 * values[-1] or np.isnan(clf.duality_gap_[0])
        assert solver == "pegasos" or clf.objective_[0] <= 1 + 1e-12  # that of w = 0
        if np.isnan(clf.duality_gap_[0]):
            continue
        known += 1
        # The claim is of the next matrix that is positive semi-definite: rounding may have made K
        # of it.
        least = max(0, -values[0]) + 1e-14 * values[-1]
        K = K.astype(np.float64) + least * np.eye(len(K))
        found = np.zeros(len(y))
        found[clf.support_] = clf.dual_coef_[0]
        directions = [*vectors.T, *rng.normal(size=(20, len(y))), y, found]
        points = np.concatenate(
            [size * np.array(directions) for size in [0, *10.0 ** np.arange(-3, 4)]]
        )
        for b in [0] if intercept == "none" else [0, -1, 1, 0.3]:
            penalty = (
                lam / 2 * (b / options["intercept_scaling"]) ** 2 if intercept == "penalized" else 0
            )
            penalty = penalty + lam / 2 * np.einsum("ki,ij,kj->k", points, K, points, optimize=True)
            P = penalty + np.maximum(0, 1 - y * (points @ K + b)).mean(axis=1)
            assert clf.dual_objective_[0] <= P.min() * (1 + 1e-12)
    assert known >= 10


def test_a_matrix_that_is_not_positive_is_no_reason_to_warn(rng):
    """What `tol` then asks for is reached, and w = 0 is no better."""
    for K, y in symmetric_matrices(rng, 30):
        clf = KernelPegasosClassifier(lam=1, kernel="precomputed", random_state=0).fit(K, y)
        assert clf.objective_[0] <= 1
    X, y = make_rows(rng)
    for options in ({"kernel": "sigmoid"}, {"kernel": "poly", "coef0": -5}, {"kernel": tanh}):
        clf = KernelPegasosClassifier(lam=0.1, gamma=0.3, random_state=0, **options).fit(X, y)
        assert np.isnan(clf.duality_gap_).all()
        assert np.isnan(clf.to_model().dual_objective).all()
        assert clf.objective_[0] <= 1


def tanh(X, Z):
    """A kernel that has no dual."""
    return np.tanh(X @ Z.T)


def test_a_matrix_is_shown_to_be_positive_or_vouched_for(rng, monkeypatch, dtype):
    X, y = make_rows(rng, n=150)
    gaps = {}
    for most in (1000, 100):
        monkeypatch.setattr(kernels._cache, "_MOST_FACTORED", most)
        for assume_psd in (False, True):
            clf = KernelPegasosClassifier(
                lam=0.1, kernel=lambda A, B: A @ B.T, assume_psd=assume_psd, random_state=0
            ).fit(X.astype(dtype), y)
            gaps[most, assume_psd] = clf.duality_gap_[0] / clf.objective_[0]
    assert np.isnan(gaps.pop((100, False)))
    assert max(gaps.values()) < 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_who_vouches_for_too_much_is_told_nothing(seed):
    X, y = make_rows(np.random.default_rng(seed))
    K = X @ X.T - 20 * np.eye(len(X))
    for solver in ("sdca", "newton", "pegasos"):
        options = {"solver": solver, "tol": None, "max_iter": 50, "random_state": 0}
        clf = KernelPegasosClassifier(lam=1e-3, kernel="precomputed", assume_psd=True, **options)
        assert np.isnan(clf.fit(K, y).duality_gap_[0])


def test_a_search_certifies_nothing_where_there_is_no_dual(rng):
    X, y = make_rows(rng)
    for kernel, none in (("sigmoid", True), ("rbf", False)):
        search = KernelPegasosClassifierCV(
            lams=[1, 0.1], kernel=kernel, gammas=[0.3], random_state=0
        )
        assert np.isnan(search.fit(X, y).cv_results_["relative_gap"]).all() == none


@pytest.mark.parametrize("make", [KernelPegasosClassifier, KernelPegasosClassifierCV])
def test_kernel_matrices_that_are_not_symmetric_are_refused(rng, dtype, make):
    X, y = make_rows(rng, n=100)
    K = (X @ X.T).astype(dtype)
    lam = {"lams": [0.1]} if make is KernelPegasosClassifierCV else {"lam": 0.1}
    make(**lam, kernel="precomputed").fit(np.nextafter(K, np.inf), y)
    K[70, 3] += 1
    with pytest.raises(ValueError, match=r"symmetric matrix, but X\[70, 3\] is .* and X\[3, 70\]"):
        make(kernel="precomputed").fit(K, y)


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("solver", ["auto", "sdca"])
@pytest.mark.parametrize("kernel", [None, "linear", "rbf"])
def test_an_objective_that_is_rounding_has_converged(rng, dtype, loss, solver, kernel):
    """All weight is on one class, and the other loss is below what 1 - y f is known to."""
    for weight in (1e-17, 1e-30, 1e-200):
        for lam in (1e-3, 0.05, 3):
            X = rng.normal(size=(14, 3)).astype(dtype)
            y = np.where(np.arange(14) < 6, -1, 1)
            options = {"loss": loss, "solver": solver, "random_state": 0, "tol": 1e-3}
            kind = KernelPegasosClassifier if kernel else PegasosClassifier
            options |= {"kernel": kernel} if kernel else {}
            clf = kind(lam=lam, penalize_intercept=False, **options)
            clf.fit(X, y, sample_weight=np.where(y > 0, 1, weight))  # a warning would be an error
            assert clf.objective_[0] < 1e-15
            assert clf.n_iter_ < 1000


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("cache_size", [0.001, 100])
def test_rows_that_left_their_pair_count_as_long_as_the_model_has_them(rng, intercept, cache_size):
    """Their weights are 0 by now, and Pegasos goes on from a model that they are part of."""
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 4
    options = {"n_steps": 5, "multi_class": "ovo", "warm_start": True, "random_state": 0}
    options |= {"gamma": 0.5, "cache_size": cache_size, "solver": "auto"}
    clf = KernelPegasosClassifier(lam=0.1, **options, **INTERCEPTS[intercept]).fit(X, y)
    c = (np.arange(40) >= 20).astype(float)
    clf.fit(X, y, sample_weight=c)
    coef = np.zeros((6, 40))
    coef[:, clf.support_] = clf.dual_coef_
    assert coef[:, :20].any()
    f = coef @ np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    for k, (i, j) in enumerate(itertools.combinations(range(4), 2)):
        sign, b = np.where(y == j, 1, -1), clf.intercept_[k]
        inside = np.isin(y, [i, j]) & (c > 0)
        norm = coef[k] @ f[k] + ((b / 2) ** 2 if intercept == "penalized" else 0)
        loss = np.maximum(0, 1 - sign * (f[k] + b))[inside].mean()
        assert clf.objective_[k] == pytest.approx(0.05 * norm + loss, rel=1e-9)


def test_before_the_first_epoch_the_gap_is_infinite():
    """In words of NumPy, infinity over infinity is nothing, and a warning."""
    nothing, found = np.array([np.inf, 2.0]), np.array([-np.inf, 1.0])
    certificate = _certificate.Certificate(nothing, found)
    np.testing.assert_array_equal(certificate.relative_gap, [np.inf, 0.5])
    np.testing.assert_array_equal(certificate.proved_gap, [np.inf, 0.5])


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_linear_kernel_has_the_objectives_of_a_linear_machine(layout, multi_class):
    X, y = make_rows(np.random.default_rng(0), 300, 6)[0], np.arange(300) % 4
    options = {"lam": 1e-2, "multi_class": multi_class, "tol": 1e-6, "random_state": 0}
    X = convert(X, layout, np.float64)
    linear = PegasosClassifier(**options).fit(X, y)
    kernel = KernelPegasosClassifier(kernel="linear", **options).fit(X, y)
    np.testing.assert_allclose(kernel.objective_, linear.objective_, rtol=2e-6)
    np.testing.assert_allclose(kernel.dual_objective_, linear.dual_objective_, rtol=2e-6)
