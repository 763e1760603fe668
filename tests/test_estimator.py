"""PegasosClassifier: scikit-learn's conventions, and what goes beyond them."""

import ast
import collections
import pickle
import signal
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import paper
import pytest
from interruption import interrupted
from reference import pegasos as textbook
from rows import convert, make_rows
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, PegasosRegressor
from pegasos.estimators import _parameters
from pegasos.problems import _losses

# The checks of sample weights compare two fits to 1e-7.
CONVERGED = {"tol": 1e-8, "max_iter": 10**5}


def of_certain_labels(estimator):
    """Of several labels, two checks want probabilities between 0 and 1 that all differ."""
    checks = [
        "check_classifier_multioutput",
        "check_classifiers_multilabel_output_format_predict_proba",
    ]
    return dict.fromkeys(checks * (estimator.loss == "modified_huber"), "they may be 0 and 1")


@parametrize_with_checks(
    [
        PegasosClassifier(),
        PegasosClassifier(multi_class="ovo", n_jobs=2),
        PegasosClassifier(loss="squared_hinge"),
        PegasosClassifier(loss="modified_huber"),
        PegasosClassifier(loss="log_loss"),
        PegasosClassifier(lam=1e-2, loss="log_loss", multi_class="ovo"),
    ],
    expected_failed_checks=of_certain_labels,
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def without_sample_weight_equivalence(_):
    """What a fixed number of steps cannot give: a row of weight two is drawn once."""
    return dict.fromkeys(
        [
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ],
        "needs a tolerance",
    )


@parametrize_with_checks(
    [paper.linear(average="suffix")], expected_failed_checks=without_sample_weight_equivalence
)
def test_scikit_learn_accepts_the_algorithm_of_the_paper(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        PegasosClassifier(multi_class="crammer_singer"),
        PegasosClassifier(multi_class="crammer_singer", penalize_intercept=False),
    ]
)
def test_scikit_learn_accepts_joint_classes(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "kind",
    [
        PegasosClassifier,
        KernelPegasosClassifier,
        pegasos.PegasosClassifierCV,
        pegasos.KernelPegasosClassifierCV,
        pegasos.PegasosRegressor,
        pegasos.KernelPegasosRegressor,
        pegasos.PegasosOneClass,
        pegasos.KernelPegasosOneClass,
    ],
)
def test_every_parameter_is_checked(kind):
    assert kind().get_params().keys() <= _parameters.PARAMETERS.keys()
    # ... but for defaults, which the checks must allow.
    for name, check, default in _parameters._checks(kind, tuple(kind().get_params())):
        check(name, default)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [getattr(pegasos, name) for name in pegasos.__all__ if "Pegasos" in name]
)
def test_checkers_of_types_know_every_fitted_attribute(kind, rng):
    """Pyright knew none of those of searches."""
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    y = (X["a"] > 0).to_numpy(float)
    fitted = kind(random_state=0).fit(X) if "OneClass" in kind.__name__ else kind().fit(X, y)
    known = {name for base in kind.__mro__ for name in vars(base).get("__annotations__", ())}
    attributes = {name for name in vars(fitted) if name.endswith("_") and name[0] != "_"}
    assert attributes - known == set()


@pytest.mark.parametrize("path", sorted(Path(pegasos.__file__).parent.rglob("*.py")), ids=str)
def test_dependencies_are_used_by_their_public_interfaces(path):
    """No import of a name, or of a part of a module's name, that begins with an underscore."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            module, *parts = name.split(".")
            private = [part for part in parts if part.startswith("_")]
            assert module == "pegasos" or not private, name


@pytest.mark.parametrize("module", ["linear", "pegasos", "schedule"])
def test_solvers_of_linear_machines_ask_numpy_for_nothing_that_it_may_fuse(module):
    """Where a CPU can, these fuse products with additions: another machine had other bits."""
    path = Path(pegasos.__file__).parent / "solvers" / f"_{module}.py"
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(getattr(node, "op", None), ast.MatMult), ast.unparse(node)
        name = getattr(node, "attr", "")
        assert name not in ("einsum", "dot", "vdot", "matmul", "tensordot"), ast.unparse(node)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def test_it_is_the_functional_fit_with_the_same_bits(problem, layout, dtype, rng):
    X, y = problem
    X = convert(X, layout, dtype)
    weights = rng.uniform(0.1, 2, len(y))
    options = {"batch_size": 3, "average": True, "project": True, "random_state": 4}
    model = paper.fit(X, y, 0.03, sample_weight=weights, **options)
    clf = paper.linear(lam=0.03, **options).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(clf.coef_, model.coef)
    np.testing.assert_array_equal(clf.intercept_, model.intercept)
    np.testing.assert_array_equal(clf.objective_, model.objective)
    np.testing.assert_array_equal(clf.alpha_counts_, model.alpha_counts)
    np.testing.assert_array_equal(
        clf.decision_function(X), pegasos.decision_function(clf.to_model(), X)
    )
    assert clf.coef_.dtype == np.float64


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_it_learns_real_digits(digits, multi_class, dtype):
    X, y = digits
    clf = paper.linear(lam=1e-3, max_iter=50, multi_class=multi_class, random_state=0)
    scores = cross_val_score(clf, X.astype(dtype), y, cv=5)
    assert scores.mean() > 0.92


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("solver", ["auto", "pegasos", "sdca", "newton"])
@pytest.mark.parametrize("penalized", [True, False])
def test_without_a_tolerance_a_fit_runs_the_epochs_that_were_asked_for(
    digits, kind, solver, penalized
):
    X, y = digits
    X = X[:200]

    def fit(max_iter, labels):
        return kind(
            lam=1e-3, solver=solver, tol=None, max_iter=max_iter, penalize_intercept=penalized,
            random_state=0,
        ).fit(X, labels)  # fmt: skip

    for labels in (y[:200] % 2, y[:200]):
        for max_iter in (1, 2, 5, 12):
            clf = fit(max_iter, labels)
            if clf.n_iter_ != max_iter:
                # Of Newton's method, iterations of several epochs are not cut: this is where the
                # first that reaches `max_iter` ends.
                assert solver in ("auto", "newton")
                assert clf.n_iter_ > max_iter
                if len(clf.intercept_) == 1:
                    for other in (clf.n_iter_ - 1, clf.n_iter_):
                        same = fit(int(other), labels)
                        assert same.n_iter_ == clf.n_iter_
                        np.testing.assert_array_equal(same.objective_, clf.objective_)


# ---- Going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {}, {"project": True}, {"average": True}, {"batch_size": 4}, {"batch_size": 7},
    {"sampling": "cyclic"}, {"sampling": "uniform"},
])  # fmt: skip
def test_warm_start_gives_the_bits_of_one_longer_fit(problem, layout, dtype, options):
    X, y = problem
    X = convert(X, layout, dtype)
    long = paper.linear(lam=0.01, max_iter=12, random_state=0, **options).fit(X, y)
    short = paper.linear(lam=0.01, max_iter=4, random_state=0, warm_start=True, **options)
    for _ in range(3):
        short.fit(X, y)
        short = pickle.loads(pickle.dumps(short))
    np.testing.assert_array_equal(short.coef_, long.coef_)
    np.testing.assert_array_equal(short.intercept_, long.intercept_)
    np.testing.assert_array_equal(short.alpha_counts_, long.alpha_counts_)
    assert short.n_iter_ == long.n_iter_ == 12


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("tol", [None, 1e-4])
@pytest.mark.parametrize("penalized", [True, False])
@pytest.mark.parametrize("solver", ["auto", "pegasos", "sdca", "newton"])
@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
def test_a_fit_that_ended_is_continued(digits, kind, solver, penalized, tol):
    X, y = digits
    X = X[:300]
    options = {"solver": solver, "penalize_intercept": penalized, "tol": tol, "random_state": 0}
    for labels in (y[:300] % 2, y[:300]):
        long = kind(lam=1e-3, max_iter=18, **options).fit(X, labels)
        short = kind(lam=1e-3, max_iter=9, warm_start=True, **options).fit(X, labels)
        before = short.objective_
        short.fit(X, labels)
        if solver == "pegasos" and tol is None:
            scores = [machine.decision_function(X) for machine in (short, long)]
            if kind is PegasosClassifier:
                np.testing.assert_array_equal(*scores)
            else:
                np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-9)
            continue
        if solver != "pegasos":  # whose next step may lead up
            assert (short.objective_ <= before * (1 + 1e-12)).all()
        # What each says of the optimum holds for the other.
        assert (short.dual_objective_ <= long.objective_ * (1 + 1e-12)).all()
        assert (long.dual_objective_ <= short.objective_ * (1 + 1e-12)).all()


def test_warm_start_with_exact_steps_goes_on_where_each_problem_stopped(rng):
    # One-vs-one problems have their own rows, so they stop at different draws.
    X, _ = make_rows(rng, n=200)
    y = rng.integers(0, 4, 200)
    options = {"multi_class": "ovo", "random_state": 0}
    long = paper.linear(lam=0.01, n_steps=300, **options).fit(X, y)
    short = paper.linear(lam=0.01, n_steps=100, warm_start=True, **options)
    for _ in range(3):
        short.fit(X, y)
    np.testing.assert_array_equal(short.coef_, long.coef_)
    assert short.n_steps_.tolist() == [300] * 6


def test_partial_fit_takes_one_epoch_of_steps_over_each_piece(problem, layout, dtype):
    X, y = problem
    pieces = [slice(0, 25), slice(25, 30), slice(30, 60)]
    clf = paper.linear(lam=0.05, sampling="cyclic", random_state=0)
    draws = []
    for number, piece in enumerate(pieces, start=1):
        clf.partial_fit(convert(X[piece], layout, dtype), y[piece], classes=[-1, 1])
        # The order of the piece, as the session draws it.
        seed = np.random.SeedSequence([0, number]).generate_state(1, np.uint64)[0]
        n = piece.stop - piece.start
        order = np.empty(n, np.int64)
        pegasos._core.Order(seed, np.empty(n, np.int64), 1, 0).draw(order)
        draws.extend(piece.start + order)
    w, b, _, _ = textbook(X, y, 0.05, draws, intercept="penalized")
    assert clf.n_steps_.tolist() == [60]
    np.testing.assert_allclose(clf.coef_[0], w, atol=1e-4)
    np.testing.assert_allclose(clf.intercept_[0], b, atol=1e-4)
    assert not hasattr(clf, "objective_")


def test_rows_of_weight_zero_do_not_advance_partial_fit(problem):
    X, y = problem
    weights = np.ones(len(y))
    weights[::2] = 0
    clf = paper.linear(lam=0.05).partial_fit(X, y, classes=[-1, 1], sample_weight=weights)
    assert clf.n_steps_.tolist() == [30]


def test_partial_fit_learns_from_pieces_that_lack_classes(rng):
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for multi_class in ("ovr", "ovo"):
        clf = paper.linear(lam=1e-2, multi_class=multi_class, average="suffix", random_state=0)
        for _ in range(30):
            for label in rng.permutation(3):
                some = rng.choice(np.flatnonzero(y == label), 7)
                clf.partial_fit(X[some], y[some], classes=[0, 1, 2])
        assert clf.score(X, y) > 0.8
        assert clf.n_features_in_ == 4


# ---- Interrupts and progress ---------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_keeps_what_was_learned_and_warm_start_goes_on(digits, monkeypatch, n_jobs):
    X, y = digits
    plan = 10**8  # minutes, were it not interrupted
    clf = paper.linear(lam=1e-3, n_steps=plan, warm_start=True, n_jobs=n_jobs, random_state=0)
    real, calls = pegasos._core.Watch, collections.Counter()

    def watch(on_poll):
        def told():
            calls[threading.get_ident()] += 1
            in_main_thread = threading.current_thread() is threading.main_thread()
            if in_main_thread and len(calls) == n_jobs and min(calls.values()) >= 3:
                signal.raise_signal(signal.SIGINT)
            on_poll()

        return real(told)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(pegasos._core, "Watch", watch)
        clf.fit(X, y)
    done = clf.n_steps_.copy()
    assert (done > 0).all()
    assert (done < plan).all()
    assert clf.score(X, y) > 0.8

    # Each problem was stopped at a step of its own; the next fit completes them all.
    target = int(done.max()) + 500
    whole = paper.linear(lam=1e-3, n_steps=target, random_state=0).fit(X, y)
    clf.set_params(n_steps=target).fit(X, y)
    assert clf.n_steps_.tolist() == [target] * 10
    np.testing.assert_array_equal(clf.coef_, whole.coef_)
    np.testing.assert_array_equal(clf.alpha_counts_, whole.alpha_counts_)


def test_a_step_interrupted_half_way_does_not_reach_into_other_data(problem, monkeypatch):
    X, y = problem
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    clf = paper.linear(lam=0.01, batch_size=1000, max_iter=5, warm_start=True, random_state=0)
    with interrupted(after=5, every=5e3):
        clf.fit(X, y)
    assert clf._state["problems"]["n_pending"][0] > 100
    assert clf.n_steps_.tolist() == [0]
    clf.partial_fit(X[:10], y[:10])  # has none of the rows that were waiting
    assert clf.n_steps_.tolist() == [1]


@pytest.mark.parametrize("average", [False, True, "suffix"])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_an_interrupted_fit_is_completed_with_the_same_bits(
    problem, monkeypatch, average, batch_size
):
    X, y = problem
    options = {"max_iter": 9, "batch_size": batch_size, "average": average, "random_state": 0}
    whole = paper.linear(lam=0.01, **options).fit(X, y)
    clf = paper.linear(lam=0.01, warm_start=True, **options)
    for after in (1, 2, 1):
        with interrupted(after=after, every=5e3):
            clf.fit(X, y)
        assert not hasattr(clf, "objective_")
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.coef_, whole.coef_)
    np.testing.assert_array_equal(clf.objective_, whole.objective_)
    assert clf.n_iter_ == whole.n_iter_ == 9


def test_a_refused_fit_leaves_the_estimator_as_it_was(problem):
    X, y = problem
    clf = paper.linear(lam=0.01, warm_start=True, random_state=0).fit(X, y)
    before = clf.predict(X)
    with pytest.raises(ValueError, match="features"):
        clf.fit(np.hstack([X, X]), y)
    assert clf.n_features_in_ == X.shape[1]
    with pytest.raises(ValueError, match="features"):
        clf.predict(np.hstack([X, X]))
    np.testing.assert_array_equal(clf.predict(X), before)

    clf.set_params(warm_start=False, lam=1e-12, max_iter=1)
    huge = X.copy()
    huge[:, 0] = 1e300
    with pytest.raises(ValueError, match="overflowed"):
        clf.fit(huge, np.arange(len(y)) % 3)
    assert clf.classes_.tolist() == [-1, 1]
    np.testing.assert_array_equal(clf.predict(X), before)


def test_averages_survive_going_on_with_a_shorter_plan(problem, monkeypatch):
    X, y = problem
    clf = paper.linear(lam=0.01, max_iter=10**6, average="suffix", warm_start=True, random_state=0)
    with interrupted(after=3, every=5e3):
        clf.fit(X, y)
    clf.set_params(max_iter=10).fit(X, y)
    assert clf._state["problems"]["n_averaged"][0] == 300


def test_parameters_may_be_numpy_scalars(problem):
    X, y = problem
    a = paper.linear(
        lam=np.float32(0.5), n_steps=np.int32(50), average=np.str_("suffix"), project=np.True_,
        sampling=np.str_("cyclic"), random_state=np.int64(3),
    ).fit(X, y)  # fmt: skip
    b = paper.linear(
        lam=0.5, n_steps=50, average="suffix", project=True, sampling="cyclic", random_state=3
    ).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    paper.linear(average=np.False_).fit(X, y)


@pytest.mark.parametrize("loss", np.array(_losses.TARGET_LOSSES))
def test_losses_of_targets_may_be_numpy_strings(problem, loss):
    X, y = problem
    a, b = (PegasosRegressor(loss=of, random_state=0).fit(X, y) for of in (loss, str(loss)))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    c, d = (pegasos.fit(X, y, 0.1, loss=of, random_state=0) for of in (loss, str(loss)))
    np.testing.assert_array_equal(c.coef, d.coef)


def test_a_degree_may_be_a_small_numpy_integer(rng, tmp_path):
    X, y = rng.normal(size=(30, 300)), np.arange(30) % 2  # with more features than it can count
    clf = KernelPegasosClassifier(kernel="poly", degree=np.uint8(2), random_state=0).fit(X, y)
    clf.to_model().save(tmp_path / "model.npz")
    loaded = pegasos.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))


def test_without_a_seed_numpys_global_generator_decides(problem):
    X, y = problem
    fits = []
    for seed in (1, 1, 2):
        np.random.seed(seed)  # noqa: NPY002
        fits.append(paper.linear(lam=0.01).fit(X, y).coef_)
    assert (fits[0] == fits[1]).all()
    assert (fits[0] != fits[2]).any()


def test_progress_is_shown_on_standard_error(digits, capsys):
    paper.linear(verbose=1, max_iter=3).fit(*digits)
    shown = capsys.readouterr()
    assert "PegasosClassifier" in shown.err
    assert "100" in shown.err
    assert shown.out == ""
    paper.linear(max_iter=3).fit(*digits)
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", ["rbf", "sigmoid"])
def test_progress_of_kernel_machines_calls_its_gap_an_estimate(digits, kernel, capsys):
    # It leaves rounding out, and a kernel that is not positive semi-definite proves none.
    KernelPegasosClassifier(kernel=kernel, C=10, verbose=1, random_state=0).fit(*digits)
    assert "KernelPegasosClassifier  estimated gap " in capsys.readouterr().err


# ---- Data of many kinds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_array],
)
def test_sparse_matrices_of_every_format_are_taken(problem, make):
    X, y = problem
    expected = paper.linear(lam=0.01, random_state=0).fit(sparse.csr_array(X), y)
    clf = paper.linear(lam=0.01, random_state=0).fit(make(X), y)
    np.testing.assert_allclose(clf.coef_, expected.coef_, rtol=1e-12)
    np.testing.assert_array_equal(clf.predict(make(X)), expected.predict(X))


def test_memory_maps_that_cannot_be_written_are_taken(problem, tmp_path):
    X, y = problem
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    a = paper.linear(lam=0.01, random_state=0).fit(mapped, y)
    b = paper.linear(lam=0.01, random_state=0).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("labels", [[False, True], [2.0, -1.0], ["b", "a"], [np.int8(3), 9]])
def test_labels_of_every_kind_come_back(problem, labels):
    X, y = problem
    y = np.where(y > 0, labels[0], labels[1])
    clf = paper.linear(lam=0.01).fit(X, y)
    assert clf.predict(X).dtype == y.dtype
    assert clf.classes_.tolist() == sorted(labels)


def test_class_weights_multiply_sample_weights(problem, rng):
    X, y = problem
    weights = rng.uniform(0.5, 2, len(y))
    a = paper.linear(lam=0.01, class_weight={1: 3.0, -1: 0.5}, random_state=0)
    a.fit(X, y, sample_weight=weights)
    b = paper.linear(lam=0.01, random_state=0)
    b.fit(X, y, sample_weight=weights * np.where(y > 0, 3.0, 0.5))
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_balanced_classes_weigh_the_same(problem, rng):
    X, y = problem
    weights = rng.uniform(0.5, 2, len(y))
    balanced = paper.linear(lam=0.01, class_weight="balanced", random_state=0)
    balanced.fit(X, y, sample_weight=weights)
    mass = {label: weights[y == label].sum() for label in (-1, 1)}
    explicit = paper.linear(
        lam=0.01, class_weight={k: weights.sum() / (2 * m) for k, m in mass.items()}, random_state=0
    ).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(balanced.coef_, explicit.coef_, rtol=1e-9, atol=1e-12)


def test_random_states_of_every_kind_are_taken(problem):
    X, y = problem
    for make in (lambda: 7, lambda: np.random.RandomState(7), lambda: np.random.default_rng(7)):
        a, b = (paper.linear(lam=0.01, random_state=make()).fit(X, y).coef_ for _ in range(2))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_small_fits_depend_on_no_seed_by_default(kind, load, loss):
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(y))
    one = kind(lam=0.01, loss=loss, random_state=0).fit(X, y)
    other = kind(lam=0.01, loss=loss, random_state=1).fit(X[order], y[order])
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=1e-4, atol=1e-6
    )
    assert (one.duality_gap_ <= 1e-9 * one.objective_).all()
