"""What a fit warns of: why it stopped above `tol`, and that its model tells nothing apart."""

import itertools
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from rows import convert
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosRegressor,
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosRegressor,
    PegasosRegressorCV,
    _core,
)


def rare(rng, n=1000, d=5):
    """Rows of which 1 % belong to a class that is hardly apart from the other."""
    y = np.where(np.arange(n) < n // 100, "ill", "well")
    return rng.normal(size=(n, d)) + 0.5 * (y == "ill")[:, None], y


def functional(**options):
    class Machine:
        def fit(self, X, y):
            self.model = pegasos.fit(X, y, 1e-4, random_state=0, **options)
            self.coef_ = self.model.coef
            return self

        def decision_function(self, X):
            return self.model.decision_function(X)

    return Machine()


def linear(lam=1e-4, **options):
    return PegasosClassifier(lam=lam, random_state=0, **options)


def kernel(lam=1e-3, **options):
    return KernelPegasosClassifier(lam=lam, kernel="linear", random_state=0, **options)


@pytest.mark.parametrize(
    "machine",
    [
        PegasosClassifier(lam=1e-2),
        KernelPegasosClassifier(lam=1e-2, kernel="linear"),
        PegasosRegressor(loss="squared_error", fit_intercept=False),
        pegasos.PegasosOneClass(),
    ],
    ids=lambda machine: type(machine).__name__,
)
def test_warnings_of_models_that_tell_nothing_have_a_category(rng, machine):
    """They were a UserWarning like any other, which nobody could filter."""
    X, y = rare(rng)
    y = y if isinstance(machine, pegasos.estimators._classification.Classifier) else 10 + X[:, 0]
    with pytest.warns(pegasos.ConstantPredictionWarning) as told:
        machine.fit(X - X.mean(axis=0), y)
    assert len(told) == 1


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("solver", ["auto", "sdca", "newton"])
@pytest.mark.parametrize("make", [linear, kernel, functional])
def test_a_model_that_predicts_one_class_says_so(
    rng, layout, dtype, make, solver, penalize_intercept
):
    """What is left of its weights is noise, by which rows must not be ranked."""
    X, y = rare(rng)
    X = convert(X, layout, dtype)
    machine = make(solver=solver, penalize_intercept=penalize_intercept)
    with pytest.warns(UserWarning, match=r"^all training rows are predicted .* class well") as told:
        machine.fit(X, y)
    assert len(told) == 1
    assert told[0].filename == __file__ or make is functional
    words = str(told[0].message)
    assert "so this model is of no use" in words
    assert "a lam below" not in words
    assert "loss='squared_hinge'" in words
    assert ("sample_weight" if make is functional else "class_weight='balanced'") in words
    assert not machine.coef_.any()
    assert np.ptp(machine.decision_function(X)) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [linear, kernel])
def test_what_the_warning_says_helps_does(rng, make):
    X, y = rare(rng)
    machine = make(class_weight="balanced", lam=0.01).fit(X, y)
    assert set(machine.predict(X)) == {"ill", "well"}
    # Of a class that is predicted once, nothing is said.
    X[0] += 50
    assert (make(lam=1e-3).fit(X, y).predict(X) == "ill").sum() >= 1


@pytest.mark.filterwarnings("default")
def test_several_classes_of_which_one_is_predicted(rng):
    X, y = rng.normal(size=(300, 3)), (np.arange(300) < 9) * (1 + np.arange(300) % 2)
    for multi_class in ("ovr", "ovo"):
        for kind in (PegasosClassifier, KernelPegasosClassifier):
            with pytest.warns(UserWarning, match="of class 0, "):
                kind(lam=1.0, multi_class=multi_class, random_state=0).fit(X, y)


@pytest.mark.filterwarnings("default")
def test_scores_that_rank_rows_are_not_of_no_use():
    """A smaller lam was advised, whatever it changed, and one-vs-one was not."""
    X, y = make_classification(3000, 20, weights=[0.99], flip_y=0.02, random_state=0)
    with pytest.warns(UserWarning, match="their scores differ and may rank rows") as told:
        clf = linear(None, loss="squared_hinge").fit(X, y)
    assert " help: class_weight='balanced', " in str(told[0].message)
    assert roc_auc_score(y, clf.decision_function(X)) > 0.6
    with pytest.warns(UserWarning, match=r"or a lam below 1 \(C above 0.0033\)$"):
        KernelPegasosClassifier(lam=5.0, random_state=0).fit(X[::10], y[::10])
    X, y = make_classification(
        3000, 16, n_classes=26, n_informative=16, n_redundant=0, n_clusters_per_class=1,
        random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="help: multi_class='ovo', loss='squared_hinge'"):
        linear(None).fit(X, y)
    assert linear(None, multi_class="ovo").fit(X, y).score(X, y) > 0.6


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("make_rows", [np.array, sparse.csr_array])
@pytest.mark.parametrize("offset", [30, 1000])
def test_rows_far_from_0_are_told_to_be_centred(offset, make_rows, rng):
    """Other losses and larger C were advised, one after the other, and did not help."""
    x = rng.normal(size=(200, 1))
    y = (x[:, 0] + 0.1 * rng.normal(size=200) > 0).astype(int)
    advice = "help: features that are centred and scaled .*, penalize_intercept=False"
    with pytest.warns(UserWarning, match=advice):
        clf = linear(None).fit(make_rows(x + offset), y)
    assert clf.score(x + offset, y) < 0.6
    with warnings.catch_warnings(action="error", category=UserWarning):
        free = linear(None, penalize_intercept=False).fit(make_rows(x + offset), y)
        centred = linear(None).fit(make_rows(x), y)
    assert min(free.score(x + offset, y), centred.score(x, y)) > 0.9


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("of_rows", ["equal", "contradictory", "of XOR"])
@pytest.mark.parametrize("make", [linear, kernel])
def test_where_classes_have_one_mean_the_model_is_said_to_be_of_no_use(rng, make, of_rows):
    y = np.arange(120) % 2
    X = {
        "equal": np.full((120, 3), 0.7),
        "contradictory": np.repeat(rng.normal(size=(60, 3)), 2, axis=0),
        "of XOR": np.tile([[0.0, 0], [0, 1], [1, 1], [1, 0]], (30, 1)),
    }[of_rows]
    if of_rows == "equal":
        y = (np.arange(120) < 9).astype(int)
    with pytest.warns(UserWarning, match="this model is of no use. What may help: .") as told:
        make(penalize_intercept=False).fit(X, y)
    assert len(told) == 1
    if of_rows == "of XOR":
        assert ("a kernel machine with kernel='rbf'" in str(told[0].message)) == (make is linear)
        assert KernelPegasosClassifier(gamma=1, C=100, random_state=0).fit(X, y).score(X, y) == 1


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "parameters", [{"kernel": "sigmoid"}, {"kernel": "poly", "coef0": -1.0, "C": 100}]
)
def test_no_loss_is_advised_that_the_kernel_refuses(parameters):
    """A larger C was advised, which does not help either."""
    X, y = make_moons(1500, noise=0.2, random_state=0)
    advice = r"What may help: a positive semi-definite kernel such as kernel='rbf'$"
    with pytest.warns(UserWarning, match=advice):
        KernelPegasosClassifier(random_state=0, **parameters).fit(X, y)
    clf = KernelPegasosClassifier(random_state=0, **parameters | {"kernel": "rbf"})
    assert clf.fit(X, y).score(X, y) > 0.9


@pytest.mark.filterwarnings("default")
def test_a_fit_that_stopped_far_from_the_optimum_is_not_told_to_take_a_smaller_lam(rng):
    """Two warnings advised a larger and a smaller one."""
    X = rng.normal(size=(2500, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=2500) > 0
    machine = KernelPegasosClassifier(
        kernel="poly", loss="squared_hinge", lam=1e-6, solver="sdca", max_iter=100, random_state=0
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        machine.fit(X, y)
    words = [str(warning.message) for warning in told]
    assert len(words) == 2
    assert "help: solver='auto', more epochs (max_iter), a larger lam (a smaller C)" in words[0]
    assert words[1].endswith("What may help: a fit that ends nearer to the optimum")
    X, y = load_diabetes(return_X_y=True)
    machine = KernelPegasosRegressor(
        kernel="poly", solver="pegasos", lam=1e-9, max_iter=1, random_state=0
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        machine.fit(100 * X, y)
    words = str(told[-1].message)
    assert words.startswith("a constant predicts")
    assert "nearer to the optimum" in words
    assert "a lam below" not in words


@pytest.mark.parametrize(
    ("solver", "advice"),
    [
        ("sdca", r"solver='auto', more epochs \(max_iter\), a larger lam \(a smaller C\)"),
        ("auto", r"more epochs \(max_iter\), a larger lam \(a smaller C\) or a larger tol$"),
    ],
)
def test_a_slow_solver_that_was_asked_for_is_told_before_a_small_lam(rng, solver, advice):
    """A smaller C was advised where another solver needed no more epochs."""
    X = rng.normal(size=(500, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=500) > 0
    machine = KernelPegasosClassifier(lam=1e-7, solver=solver, max_iter=100, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"asks for 0.1 %. What may help: {advice}"):
        machine.fit(X, y)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize(
    "machine",
    [
        PegasosRegressor(),
        PegasosRegressor(loss="squared_epsilon_insensitive"),
        PegasosRegressorCV(cv=2),
        KernelPegasosRegressor(),
    ],
)
def test_targets_within_epsilon_are_told(rng, machine, penalize_intercept):
    """The model was w = 0, without a warning."""
    X = rng.normal(size=(100, 3))
    y = 1e-4 * X @ [1, 2, -1]
    machine = clone(machine).set_params(penalize_intercept=penalize_intercept, random_state=0)
    with pytest.warns(UserWarning, match="constant .* as well as .* help: epsilon below") as told:
        machine.fit(X, y)
    assert len(told) == 1
    assert np.ptp(machine.predict(X)) == 0
    with pytest.warns(UserWarning, match="help: epsilon below"):
        machine.fit(X, 5 + y)  # with a penalised intercept, w is not 0
    if isinstance(machine, PegasosRegressorCV):
        machine.set_params(epsilons=[1e-5])
    else:
        machine.set_params(epsilon=1e-5, C=1e4)
    assert machine.fit(X, y).score(X, y) > 0.9


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
def test_wide_targets_need_a_free_intercept_and_a_larger_c(rng, loss):
    """A free intercept alone was told to help, and left R2 at 0.2."""
    X = rng.normal(size=(400, 5))
    y = 5000 + 800 * X @ [1, -1, 0.5, 0.2, 0] + 300 * rng.normal(size=400)
    machine = PegasosRegressor(loss=loss, random_state=0)
    advice = r"help: penalize_intercept=False with a lam below 0.0025 \(C above 1\) or standardised"
    with pytest.warns(UserWarning, match=advice):
        machine.fit(X, y)
    with warnings.catch_warnings(action="ignore"):  # that weights are small, with some losses
        assert machine.set_params(penalize_intercept=False).fit(X, y).score(X, y) < 0.5
    assert machine.set_params(C=1e4).fit(X, y).score(X, y) > 0.9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [PegasosRegressor, KernelPegasosRegressor])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
def test_weights_that_lam_keeps_too_small_are_told(rng, loss, make, dtype):
    """A model with an R2 of 0 was no worse than a constant, and nothing was said."""
    X = rng.normal(size=(300, 4)).astype(dtype)
    noise = rng.normal(size=300)
    y = 2e5 + 1e5 * (X @ [1, -1, 0.5, 0] + 0.1 * noise)
    machine = make(loss=loss, penalize_intercept=False, random_state=0)
    with pytest.warns(UserWarning, match="hardly better than a constant, because its weights"):
        machine.fit(X, y)
    assert machine.score(X, y) < 0.1
    assert machine.set_params(C=1e6, tol=0.01).fit(X, y).score(X, y) > 0.9
    machine.set_params(C=1e-3, tol=1e-3).fit(X, noise)  # the features tell nothing of these
    outputs = np.column_stack([noise, y, noise])
    with pytest.warns(UserWarning, match=r"targets of output 1 hardly better"):
        machine.set_params(C=1).fit(X, outputs, sample_weight=np.arange(300) % 3)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_rows_that_a_kernel_hardly_tells_apart_are_told(rng, kernel):
    """A column of timestamps makes γ = "scale" so small that all kernel values are about 1."""
    X = np.column_stack([rng.normal(size=(300, 3)), 1.7e9 + np.arange(300.0)])
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    of_scale = "help: .*features that are centred and scaled.* another gamma"
    with pytest.warns(pegasos.ConstantPredictionWarning, match=of_scale):
        pegasos.KernelPegasosClassifier(kernel=kernel, random_state=0).fit(X, y > 0)
    with pytest.warns(pegasos.ConstantPredictionWarning, match=of_scale):
        pegasos.KernelPegasosOneClass(kernel=kernel, random_state=0).fit(X)
    for loss, penalize in itertools.product(_core.TARGET_LOSSES, [False, True]):
        machine = KernelPegasosRegressor(
            kernel=kernel, loss=loss, penalize_intercept=penalize, random_state=0
        )
        with pytest.warns(pegasos.ConstantPredictionWarning, match=of_scale):
            machine.fit(X, y)
        assert machine.score(X, y) < 0.01
    with warnings.catch_warnings(action="error"):  # the advice helps
        machine.fit(StandardScaler().fit_transform(X), y)


@pytest.mark.filterwarnings("error")
def test_equal_targets_are_rightly_predicted_by_a_constant(rng):
    X, y = rng.normal(size=(40, 3)), np.zeros(40)
    assert not PegasosRegressor(random_state=0).fit(X, y).coef_.any()
    y[0] = 0.05  # but without weight
    PegasosRegressor(random_state=0).fit(X, y, sample_weight=np.arange(40))


@pytest.mark.parametrize("make", [PegasosRegressor, KernelPegasosRegressor])
def test_a_regressor_that_predicts_a_constant_says_so(rng, make):
    y = rng.normal(size=40)
    with pytest.warns(pegasos.ConstantPredictionWarning, match=r"constant .* this model: .* help"):
        machine = make(penalize_intercept=False, random_state=0).fit(np.zeros((40, 2)), y)
    assert np.ptp(machine.predict(np.zeros((40, 2)))) == 0


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kernel", ["sigmoid", "precomputed"])
def test_a_regressor_that_an_indefinite_kernel_leaves_at_zero_says_so(rng, kernel):
    X = np.r_[rng.normal(size=(280, 2)), rng.uniform(-6, 6, (20, 2))]
    y = (X[:, 0] > 0) * 1.0
    advice = "a constant predicts .* help: a positive semi-definite kernel such as"
    with pytest.warns(UserWarning, match=advice) as told:
        machine = KernelPegasosRegressor(kernel=kernel, random_state=0).fit(
            np.tanh(X @ X.T) if kernel == "precomputed" else X, y
        )
    assert len(told) == 1
    assert len(machine.support_) == 0
    KernelPegasosRegressor(random_state=0).fit(X, y)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("scoring", [None, "roc_auc", "average_precision", "neg_log_loss"])
def test_a_search_that_ranks_rows_is_not_told_of_classes(scoring):
    X, y = make_classification(3000, 20, weights=[0.99], flip_y=0.02, random_state=0)
    search = PegasosClassifierCV(
        lams=[1.0], cv=3, loss="log_loss" if scoring == "neg_log_loss" else "squared_hinge",
        penalize_intercept=False, scoring=scoring, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert not search.predict(X).any()
    assert len(told) == (scoring is None)
    # Where scores tell nothing, it is.
    with pytest.warns(UserWarning, match="this model is of no use"):
        search.fit(np.ones((len(y), 1)), y)


@pytest.mark.filterwarnings("default")
def test_small_features_are_told_where_one_class_is_predicted(rng):
    """A larger C was advised, which would have to be a million."""
    X = rng.normal(size=(300, 10))
    y = (X[:, 0] > 0.3).astype(int)
    with pytest.warns(
        UserWarning, match=r"help: features that .* scaled .* norms of about 0\.0003"
    ):
        linear(0.1).fit(1e-4 * X, y)
    assert linear(0.1).fit(X / 3, y).score(X / 3, y) > 0.8


@pytest.mark.filterwarnings("default")
def test_a_c_that_is_far_too_small_is_told(rng):
    """Another loss was advised."""
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0.3).astype(int)
    with pytest.warns(
        UserWarning, match=r"What may help: .* or a lam below 4 \(C above 0.00083\)$"
    ):
        PegasosClassifier(C=1e-300, random_state=0).fit(
            2 * X / np.linalg.norm(X, axis=1)[:, None], y
        )


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("multi_class", ["ovr", "ovo", "crammer_singer"])
@pytest.mark.parametrize("weight", [None, 5.0])
def test_the_c_that_is_told_is_that_of_the_lam(multi_class, weight):
    """Weights were counted as parts of the largest, and fits of joint problems failed."""
    codes = np.repeat([0, 1, 2], [50, 5, 5])
    X, y = np.eye(3)[codes], np.array(["a", "b", "c"])[codes]
    m = 60 * (weight or 1) * (2 / 3 if multi_class == "ovo" else 1)
    machine = PegasosClassifier(C=1e-6, multi_class=multi_class, random_state=0)
    with pytest.warns(UserWarning, match="all training rows are predicted to be of") as told:
        machine.fit(X, y, sample_weight=None if weight is None else np.full(60, weight))
    assert rf"or a lam below 1 (C above {float(f'{1 / m:.2g}'):g})" in str(told[-1].message)


@pytest.mark.filterwarnings("default")
def test_the_c_of_weighted_targets_is_told(rng):
    y = 5000 + 800 * rng.normal(size=60)
    machine = PegasosRegressor(lam=0.5, loss="epsilon_insensitive", random_state=0)
    X, weights = rng.normal(size=(60, 2)), np.full(60, 5.0)
    with pytest.warns(UserWarning, match=r"a lam below 0.5 \(C above 0.0067\)"):
        machine.fit(X, y, weights)
    with pytest.warns(UserWarning, match=r"a lam below 0.5 or"):  # which has no C
        pegasos.fit(X, y, 0.5, loss="epsilon_insensitive", random_state=0, sample_weight=weights)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("size", [0, 1e-200])
def test_no_lam_below_zero_is_advised(size):
    X, y = make_classification(60, 5, random_state=0)
    with pytest.warns(UserWarning, match="help: features that are .* scaled") as told:
        PegasosClassifier(random_state=0).fit(size * X, y)
    assert "below 0 " not in str(told[-1].message)


@pytest.mark.filterwarnings("default")
def test_features_that_are_far_too_large_are_told():
    """Another loss was advised as well."""
    X, y = make_classification(60, 5, random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        PegasosClassifier(random_state=0).fit(1e39 * X, y)
    words = str(told[0].message)
    assert re.search(r"features that are .* scaled \(.* of about 2\.\de\+39\)", words), words
    assert str(told[1].message).endswith("What may help: a fit that ends nearer to the optimum")


def test_rows_without_weight_do_not_count(rng):
    X, y = rare(rng)
    X[-1], weights = 1e3, np.ones(len(y))
    weights[-1] = 0
    y[-1] = "ill"
    with pytest.warns(UserWarning, match="all training rows"):
        linear(penalize_intercept=False).fit(X, y, sample_weight=weights)


@pytest.mark.filterwarnings("ignore:all training rows")
def test_a_search_ranks_models_of_no_use_as_ties(rng):
    """By average precision, the noise in their weights chose one."""
    X, y = rare(rng, 2000)
    search = PegasosClassifierCV(
        lams=[1e-4, 1e-3, 1e-2, 1e-1], scoring="average_precision", cv_effort=1e-6, random_state=0
    )
    search.fit(X, y == "ill")
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, 0.01, rtol=1e-9)  # that of a constant
    assert search.best_params_ == {"lam": 0.1}


def test_a_fit_without_a_gap_is_left_as_it_is(rng):
    """So many epochs are what was asked for, and not the best objective."""
    X, y = rare(rng)
    assert linear(tol=None, max_iter=2).fit(X, y).coef_.any()
    assert linear(tol=None, max_iter=2, solver="sdca").fit(X, y).coef_.any()


@pytest.mark.parametrize("make", [linear, kernel])
def test_rounding_is_told_from_epochs(rng, make):
    """819 epochs of a limit of 1000 were told as the limit."""
    X, y = (1e3 * rng.normal(size=(7, 8))).astype(np.float32), np.arange(7) % 2
    options = {"solver": "newton", "fit_intercept": False, "tol": 1e-3, "max_iter": 10**4}
    with pytest.warns(ConvergenceWarning) as told:
        machine = make(1e-8 if make is linear else 1e-12, **options).fit(X, y)
    words, n = str(told[0].message), machine.n_iter_
    assert words.startswith(f"stopped after {n} epoch")
    assert "rounding allows no smaller gap" in words
    assert "max_iter" not in words
    assert n < 10**4
    assert sum(machine.solver_epochs_.values()) == n
    with pytest.warns(ConvergenceWarning, match=r"^stopped at max_iter=2\. ") as told:
        machine = make(lam=1e-4, max_iter=2, tol=1e-9).fit(
            rng.normal(size=(50, 3)), np.arange(50) % 2
        )
    assert machine.n_iter_ >= 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        make(lam=1e-4, max_iter=2, tol=None).fit(rng.normal(size=(50, 3)), np.arange(50) % 2)


def test_standardised_rows_are_not_told_to_be_scaled(rng):
    """Their norms are the square root of the number of features."""
    X = rng.normal(size=(1000, 200))
    y = X[:, :10].sum(axis=1) + 2 * rng.normal(size=1000) > 0
    with pytest.warns(ConvergenceWarning, match=r"help: more epochs \(max_iter\)") as told:
        linear(None, max_iter=2).fit(X, y)
    assert "scaled" not in str(told[0].message)
    linear(None).fit(X, y)  # has more
    with pytest.warns(ConvergenceWarning, match=r"help: more epochs .*, features that .* scaled"):
        linear(None, max_iter=2).fit(100 * X, y)


def test_means_that_overflow_are_not_warned_of(rng):
    """NumPy warned of an overflow in matmul."""
    X, y = rng.normal(size=(60, 2)) * 1e200, np.arange(60) % 2
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        PegasosClassifier(lam=1e250, random_state=0).fit(X, y)
    assert not [w for w in told if issubclass(w.category, RuntimeWarning)]


def test_fits_of_counts_are_told_to_divide_them_by_their_largest_values(rng):
    """The advice was to centre them, and their deviations made rare words longer than others."""
    X = sparse.csr_array(rng.poisson(0.05, (400, 300)) * rng.integers(1, 200, (400, 300)) * 1.0)
    y = rng.integers(2, size=400)
    clf = PegasosClassifier(solver="sdca", max_iter=3, tol=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"largest values \(sklearn.*MaxAbsScaler\) \(rows"):
        clf.fit(X, y)


def test_fits_that_stop_early_are_told_to_centre_rows_far_from_0(rng):
    """The advice was to scale them, which made all of them alike: R² 0.00 without a warning."""
    X = rng.normal(size=(200, 5))
    y = X.sum(axis=1)
    reg = PegasosRegressor(penalize_intercept=False, max_iter=200, solver="sdca", random_state=0)
    with pytest.warns(ConvergenceWarning, match="features that are centred and scaled"):
        reg.fit(X + 1e6 * rng.normal(size=5), y)
    assert reg.set_params(solver="auto").fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize(
    "machine",
    [
        PegasosClassifier(max_iter=5),
        KernelPegasosClassifier(max_iter=1),
        PegasosClassifier(C=5, max_iter=5),
        PegasosClassifier(C=100, max_iter=20),
    ],
)
def test_few_epochs_are_told_to_be_few(machine):
    """A smaller C was advised."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    machine = clone(machine).set_params(random_state=0, solver="sdca")
    with pytest.warns(ConvergenceWarning, match=r"help: solver='auto', more epochs \(max_iter\)"):
        machine.fit(X, y)
    machine.set_params(max_iter=1000, solver="auto").fit(X, y)


@pytest.mark.parametrize("solver", ["auto", "sdca"])
def test_a_gap_that_rounding_ends_ends_the_fit(rng, solver):
    """Pairs of classes with caches of their own went on to max_iter epochs, in vain."""
    X, y = rng.normal(size=(60, 3)).astype(np.float32), np.arange(60) % 4
    machine = KernelPegasosClassifier(
        lam=1e-3, gamma=1.0, multi_class="ovo", cache_size=0.001, solver=solver, tol=1e-12,
        max_iter=2000, random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="rounding allows no smaller gap"):
        machine.fit(X, y)
    assert machine.n_iter_ < 1000


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "modified_huber", "log_loss"])
def test_rows_hardly_on_the_wrong_side_are_on_it(loss):
    """The objective is then about the share of these rows times the loss at 0, log 2 at least."""
    X, y = np.r_[np.ones(60), np.full(40, 1e-9)][:, None], np.arange(100) < 60
    with pytest.warns(UserWarning, match="all training rows are predicted to be of class True"):
        clf = linear(loss=loss, fit_intercept=False).fit(X, y)
    assert clf.objective_[0] < 0.41


@pytest.mark.parametrize("observed", [True, False])
def test_warnings_point_at_the_line_that_asked(rng, observed):
    """Of searches, at one of ours; without callbacks, as in old scikit-learn, two too far out."""
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    machine = PegasosClassifier(lam=1e-4, solver="sdca", max_iter=1, tol=1e-12, random_state=0)
    search = PegasosClassifierCV(
        lams=[1e-4], cv=2, solver="sdca", max_iter=1, tol=1e-12, random_state=0
    )
    kernel_machine = KernelPegasosClassifier(
        lam=1e-9, gamma=1.0, solver="sdca", max_iter=1, tol=1e-14, random_state=0
    )
    for estimator in (machine, search, kernel_machine, make_pipeline(machine)):
        fit = type(estimator).fit
        while not observed and hasattr(fit, "__wrapped__"):
            fit = fit.__wrapped__
        with pytest.warns(ConvergenceWarning) as told:
            fit(estimator, X, y)
        assert {of.filename for of in told} == {__file__}, estimator


def test_warnings_of_a_worker_name_this_package(rng):
    """Its stack has no line of the user's; they named one of `threading` or `multiprocessing`."""
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    machine = PegasosClassifier(lam=1e-4, solver="sdca", max_iter=1, tol=1e-12, random_state=0)
    with ThreadPoolExecutor(1) as pool, pytest.warns(ConvergenceWarning) as told:
        pool.submit(machine.fit, X, y).result()
    package = str(Path(pegasos.__file__).parent)
    assert all(of.filename.startswith(package) for of in told)
