"""The linear solver against a textbook version, and against itself run in other ways."""

import functools
import itertools
import pickle
import warnings

import numpy as np
import paper
import pytest
from covering import covering
from interruption import interrupted
from reference import objective
from reference import pegasos as textbook
from rows import DTYPES, LAYOUTS, convert, make_rows
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone

import pegasos
from pegasos import _core
from pegasos.problems import _rows, _validate
from pegasos.problems._settings import Settings
from pegasos.solvers import _pegasos
from pegasos.solvers._kernel_solver import KernelSolver
from pegasos.solvers._linear import LinearSolver, ProblemGroup
from pegasos.solvers._schedule import Schedule

INTERCEPTS = {
    "none": {"fit_intercept": False},
    "penalized": {"fit_intercept": True, "intercept_scaling": 1.5},
    "free": {"fit_intercept": True, "penalize_intercept": False},
}


def stream(n, count, sampling, seed):
    """The first `count` draws of a stream."""
    draws = np.empty(count, np.int64)
    _core.Order(seed, np.empty(n, np.int64), _core.SAMPLINGS[sampling], 0).draw(draws)
    return draws


def same(a, b):
    return np.array_equal(a.coef, b.coef) and np.array_equal(a.intercept, b.intercept)


# ---- Exact replay --------------------------------------------------------------------------------


@covering(
    3, layout=LAYOUTS, dtype=DTYPES, sampling=("permutation", "cyclic", "uniform"),
    batch_size=(1, 7), project=(False, True), average=(False, True, "suffix"),
    intercept=("none", "penalized", "free"), weighted=(False, True),
)  # fmt: skip
def test_takes_the_same_decisions_as_a_textbook_version(
    rng, layout, dtype, sampling, batch_size, project, average, intercept, weighted
):
    X, y = make_rows(rng)
    weights = rng.uniform(0.1, 3, len(y)) if weighted else None
    lam, n_steps = 0.05, 301
    model = paper.fit(
        convert(X, layout, dtype),
        y,
        lam,
        n_steps=n_steps,
        batch_size=batch_size,
        sampling=sampling,
        project=project,
        average=average,
        sample_weight=weights,
        random_state=5,
        **INTERCEPTS[intercept],
    )
    w, b, counts, _ = textbook(
        X,
        y,
        lam,
        stream(len(y), n_steps * batch_size, sampling, 5),
        batch_size=batch_size,
        project=project,
        average=average,
        intercept=intercept,
        scaling=1.5,
        weights=weights,
    )
    np.testing.assert_array_equal(model.alpha_counts[0], counts)
    tolerance = 1e-9 if dtype is np.float64 else 2e-4
    scale = np.abs(w).max()
    np.testing.assert_allclose(model.coef[0], w, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(model.intercept[0], b, rtol=0, atol=tolerance * max(scale, abs(b)))
    expected = objective(
        X, y, lam, w, b, weights=weights, penalized=intercept == "penalized", scaling=1.5
    )
    np.testing.assert_allclose(model.objective[0], expected, rtol=20 * tolerance)


def test_a_given_order_is_followed_draw_by_draw(problem, layout, dtype, rng):
    X, y = problem
    draws = rng.integers(0, len(y), 157)
    model = paper.fit(convert(X, layout, dtype), y, 0.1, order=draws, batch_size=5)
    w, _, counts, _ = textbook(X, y, 0.1, draws, batch_size=5, intercept="penalized")
    assert model.n_steps[0] == 31
    np.testing.assert_array_equal(model.alpha_counts[0], counts)
    np.testing.assert_allclose(model.coef[0], w, atol=1e-4)


def test_a_margin_of_exactly_one_is_no_violation():
    X = np.array([[1.0], [-1.0]])
    model = paper.fit(X, [1, -1], 1.0, order=[0, 0, 0], fit_intercept=False)
    # w_2 = 1, margin 1 at t = 2: kept. w_3 = 1/2 at t = 3: violated.
    np.testing.assert_array_equal(model.alpha_counts[0], [2, 0])


def test_classes_are_told_apart_at_zero_not_at_one():
    X = np.array([[0.3], [-0.3]])
    model = paper.fit(X, ["no", "yes"], 1.0, order=[0, 1], fit_intercept=False)
    scores = pegasos.decision_function(model, X)
    assert (np.abs(scores) < 1).all()
    assert model.predict(X).tolist() == ["no", "yes"]


# ---- Layouts and types ---------------------------------------------------------------------------


def test_repeated_and_unsorted_columns_add_up(rng, dtype):
    from scipy import sparse

    X, y = make_rows(rng)
    tidy = convert(X, "csr32", dtype)
    # Every entry split in two equal halves, in reverse order of columns.
    halves = sparse.csr_array(
        (
            np.repeat(tidy.data[::-1] / 2, 2),
            np.repeat(tidy.indices[::-1], 2),
            np.concatenate([[0], 2 * np.cumsum(np.diff(tidy.indptr)[::-1])]).astype(np.int32),
        ),
        shape=tidy.shape,
    )
    draws = rng.integers(0, len(y), 400)
    options = {"project": True, "fit_intercept": False}
    a = paper.fit(tidy, y, 0.05, order=draws, **options)
    b = paper.fit(halves, y[::-1], 0.05, order=len(y) - 1 - draws, **options)
    np.testing.assert_array_equal(a.alpha_counts, b.alpha_counts[:, ::-1])
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-3 if dtype is np.float32 else 1e-9)


def test_long_rows_keep_their_accuracy_in_single_precision(rng, layout):
    # After a step with a row of ones, the next row violates its margin if it sums up to less than
    # lam (t - 1) = 1.
    d = 100_003
    u = rng.uniform(0.5, 1, d)
    for total, violates in ((1 - 2e-6, True), (1 + 2e-6, False)):
        rows = np.stack([np.ones(d), u * (total / u.sum()), np.zeros(d)])
        model = paper.fit(
            convert(rows, layout, np.float32), [1, 1, 0], 1.0, order=[0, 1], fit_intercept=False
        )
        assert model.alpha_counts[0].tolist() == [1, int(violates), 0]


def test_scores_are_right_for_every_row_length(rng, layout, dtype):
    for d in (*range(1, 40), 63, 64, 65, 100):
        X = rng.normal(size=(5, d))
        coef = rng.normal(size=(3, d))
        intercept = rng.normal(size=3)
        rows, _ = pegasos.problems._validate.rows(convert(X, layout, dtype))
        scores = _rows.decision_function(rows, coef, intercept)
        expected = X.astype(dtype).astype(float) @ coef.T + intercept
        np.testing.assert_allclose(scores, expected, atol=1e-12, err_msg=f"{d} features")


def test_rows_are_not_copied_and_may_be_read_only(problem, layout, dtype):
    X, y = problem
    X = convert(X, layout, dtype)
    before = X.copy()
    for array in [X] if layout == "dense" else [X.data, X.indices, X.indptr]:
        array.flags.writeable = False
    paper.fit(X, y, 0.1, random_state=0)
    assert (before != X).sum() == 0


def test_one_row_of_each_class_one_column(layout, dtype):
    model = paper.fit(convert(np.array([[1.0], [-2.0]]), layout, dtype), [1, 0], 0.1)
    assert model.predict(np.array([[3.0], [-3.0]])).tolist() == [1, 0]


def test_rows_of_zeros_only_are_learned_by_the_intercept(layout, dtype):
    model = paper.fit(convert(np.zeros((9, 4)), layout, dtype), [0] * 8 + [1], 0.01)
    assert not model.coef.any()
    assert model.predict(np.zeros((1, 4))).tolist() == [0]


# ---- Sessions ------------------------------------------------------------------------------------


def _session_of(X, labels, settings, layout, dtype, weights=None):
    rows, dtype = pegasos.problems._validate.rows(convert(X, layout, dtype))
    session = _pegasos.Pegasos(settings, len(labels), X.shape[1], dtype, seed=3)
    session.set_rows(labels, weights)
    return session, rows


@pytest.mark.parametrize("kind", [LinearSolver, KernelSolver])
def test_a_session_that_is_made_late_is_the_one_that_is_made_at_once(rng, kind):
    labels = rng.integers(-1, 2, size=(3, 40)).astype(np.int8)
    settings = Settings(0.02, "squared_hinge", batch_size=3, project=True, average="suffix")
    early, late = (Schedule(kind, settings, 3, 40, np.float64, 5) for _ in range(2))
    assert not early.pegasos.weights.any()
    for schedule in (early, late):
        schedule.set_rows(labels, rng.uniform(size=40))
        schedule.set_rows(labels[:, :30], np.linspace(0, 1, 30))
        assert (schedule.n_iter, schedule.n_steps.tolist()) == (0, [0, 0, 0])
    expected, state = early.state(), late.state()
    assert state.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(state[name], array, err_msg=name, strict=True)


@covering(
    layout=LAYOUTS, dtype=DTYPES, sampling=("permutation", "cyclic", "uniform"),
    cuts=([1], [59, 60, 61], [100, 101, 350]),
)  # fmt: skip
def test_resumed_equals_uninterrupted_bit_for_bit(rng, layout, dtype, sampling, cuts):
    X, _ = make_rows(rng)
    labels = rng.integers(-1, 2, size=(3, len(X))).astype(np.int8)
    settings = Settings(0.02, batch_size=3, sampling=sampling, project=True, average=True)
    whole, rows = _session_of(X, labels, settings, layout, dtype)
    whole.plan(n_steps=400)
    whole.run(rows)

    parts, rows = _session_of(X, labels, settings, layout, dtype)
    for begin, end in itertools.pairwise([0, *cuts, 400]):
        # Each part in a session of its own, as after saving and loading.
        parts = _pegasos.Pegasos.restore(settings, parts.state())
        parts.set_rows(labels, None)
        parts.plan(n_steps=end - begin)
        parts.run(rows)
    for name in ("problems", "weights", "sums", "counts"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_cutting_the_draws_anywhere_changes_nothing(rng, layout, dtype):
    X, _ = make_rows(rng)
    labels = rng.integers(-1, 2, size=(2, len(X))).astype(np.int8)
    draws = stream(len(X), 500, "uniform", 0)
    settings = Settings(0.02, batch_size=4, average="suffix")

    def run(pieces):
        session, rows = _session_of(X, labels, settings, layout, dtype)
        session.plan(n_steps=80)
        first = 0
        for piece in np.split(draws, pieces):
            if len(piece):
                session._in_core().run(rows, _core.Targets(labels), first, piece, _core.Watch())
            first += len(piece)
        return session

    whole = run([])
    for pieces in ([1], [250], [3, 4, 5, 6, 499], list(range(1, 500))):
        cut = run(pieces)
        np.testing.assert_array_equal(cut.problems, whole.problems)
        np.testing.assert_array_equal(cut.weights, whole.weights)


@covering(
    3, layout=LAYOUTS, dtype=DTYPES, multi_class=("ovr", "ovo"), n_jobs=(1, 2, 5),
    weighted=(False, True),
)  # fmt: skip
def test_many_problems_equal_as_many_separate_fits(
    rng, layout, dtype, multi_class, n_jobs, weighted
):
    X, _ = make_rows(rng, n=300)
    y = rng.integers(0, 5, len(X))
    weights = rng.uniform(0.1, 3, len(X)) if weighted else None
    options = {
        "sample_weight": weights,
        "max_iter": 7,
        "batch_size": 2,
        "average": True,
        "random_state": 9,
    }
    together = paper.fit(
        convert(X, layout, dtype), y, 0.01, multi_class=multi_class, n_jobs=n_jobs, **options
    )
    labels = pegasos.problems._multiclass.problem_labels(y, 5, multi_class)
    assert len(labels) == len(together.coef) == {"ovr": 5, "ovo": 10}[multi_class]
    settings = Settings(0.01, batch_size=2, average=True)
    for k, column in enumerate(labels):
        rows, kind = pegasos.problems._validate.rows(convert(X, layout, dtype))
        alone = _pegasos.Pegasos(settings, 1, X.shape[1], kind, seed=9)
        alone.set_rows(column[None].copy(), weights)
        alone.plan(n_epochs=7)
        alone.run(rows)
        coef, intercept = alone.model()
        np.testing.assert_array_equal(coef[0], together.coef[k])
        assert intercept[0] == together.intercept[k]
        assert alone.problems["n_steps"][0] == together.n_steps[k]


def test_rows_outside_a_problem_advance_nothing(rng, layout):
    X, y = make_rows(rng)
    inside = np.flatnonzero(rng.random(len(y)) < 0.5)
    draws = rng.integers(0, len(y), 500)
    column = np.zeros((1, len(y)), np.int8)
    column[0, inside] = y[inside]
    settings = Settings(0.02, fit_intercept=False)
    session, rows = _session_of(X, column, settings, layout, np.float64)
    own = np.isin(draws, inside)
    session.plan(n_steps=int(own.sum()))
    session.run(rows, order=draws)
    w, _, counts, _ = textbook(X, column[0], 0.02, draws)
    np.testing.assert_array_equal(session.counts[0], counts)
    np.testing.assert_allclose(session.model()[0][0], w, atol=1e-9)


def test_rows_of_weight_zero_are_as_good_as_absent(problem, layout, dtype):
    X, y = problem
    weights = np.ones(len(y))
    weights[10:30] = 0
    draws = np.arange(len(y))
    kept = weights > 0
    a = paper.fit(convert(X, layout, dtype), y, 0.02, order=draws, sample_weight=weights)
    b = paper.fit(convert(X[kept], layout, dtype), y[kept], 0.02, order=np.arange(int(kept.sum())))
    assert same(a, b)
    assert a.n_steps[0] == kept.sum()
    assert not a.alpha_counts[0, ~kept].any()


def test_scaling_all_weights_changes_nothing(problem, rng):
    X, y = problem
    weights = rng.uniform(0.5, 2, len(y))
    a = paper.fit(X, y, 0.02, sample_weight=weights, random_state=0)
    b = paper.fit(X, y, 0.02, sample_weight=8 * weights, random_state=0)
    assert same(a, b)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(problem, layout, dtype):
    X, y = problem
    X = convert(X, layout, dtype)
    fits = [paper.fit(X, y, 0.01, random_state=s) for s in (1, 1, 2)]
    assert same(fits[0], fits[1])
    assert not same(fits[0], fits[2])


# ---- Identities and bounds -----------------------------------------------------------------------


@covering(project=[False, True], intercept=INTERCEPTS, layout=LAYOUTS)
def test_the_average_is_the_mean_of_the_iterates(problem, layout, project, intercept):
    X, y = problem
    X = convert(X, layout, np.float64)
    draws = stream(len(y), 90, "uniform", 0)
    options = {"project": project, **INTERCEPTS[intercept]}
    iterates = [paper.fit(X, y, 0.03, order=draws[:t], **options) for t in range(1, 91)]
    for average, kept in ((True, iterates), ("suffix", iterates[45:])):
        model = paper.fit(X, y, 0.03, order=draws, average=average, **options)
        mean = np.mean([m.coef for m in kept], axis=0)
        np.testing.assert_allclose(model.coef, mean, rtol=1e-9, atol=1e-12)
        mean = np.mean([m.intercept for m in kept], axis=0)
        np.testing.assert_allclose(model.intercept, mean, rtol=1e-9, atol=1e-12)


@covering(
    intercept=INTERCEPTS, sizes=[[1] * 150, [40] * 12, [100] + [7] * 40, [3, 200, 5, 250, 9,
    9]], dtype=DTYPES,
)  # fmt: skip
def test_a_suffix_that_goes_on_is_the_mean_of_about_the_last_half(rng, dtype, sizes, intercept):
    """Not of the last call alone, which a short one would leave noisy."""
    X, _ = make_rows(rng, n=40)
    labels = rng.choice([-1, 1], size=(2, 40)).astype(np.int8)
    one = _session_of(X, labels, Settings(0.03, **INTERCEPTS[intercept]), "dense", dtype)
    iterates = []
    for _ in range(sum(sizes)):
        one[0].plan(n_steps=1)
        one[0].run(one[1])
        iterates.append(np.column_stack(one[0].model()))
    sums = np.cumsum([np.zeros_like(iterates[0]), *iterates], axis=0)
    settings = Settings(0.03, average="suffix", **INTERCEPTS[intercept])
    session, rows = _session_of(X, labels, settings, "dense", dtype)
    near, n = {"rtol": 1e-3, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-8}, 0
    for size in sizes:
        session = _pegasos.Pegasos.restore(settings, session.state())
        session.set_rows(labels, None)
        session.plan(n_steps=size)
        session.run(rows)
        n += size
        kept = session.problems["n_averaged"].copy()
        if session.earlier is not None:
            kept += session.earlier[:, -1].astype(np.int64)
        assert kept[0] == kept[1]
        assert n / 3 <= kept[0] <= 3 * n / 4 + 1
        mean = (sums[n] - sums[n - kept[0]]) / kept[0]
        np.testing.assert_allclose(np.column_stack(session.model()), mean, **near)


@covering(layout=LAYOUTS, dtype=DTYPES, cut=(0, 1, 9, 10, 19))
def test_a_suffix_that_was_interrupted_has_the_bits_of_one_that_was_not(rng, layout, dtype, cut):
    X, _ = make_rows(rng, n=40)
    labels = rng.choice([-1, 1], size=(2, 40)).astype(np.int8)
    settings, draws = Settings(0.03, average="suffix"), stream(40, 160, "permutation", 3)
    whole, rows = _session_of(X, labels, settings, layout, dtype)
    parts, _ = _session_of(X, labels, settings, layout, dtype)
    for k in range(8):
        whole.plan(n_steps=20)
        whole.run(rows)
        parts.plan(n_steps=20)
        parts.carry_out(rows, order=draws[: 20 * k + cut])
        parts = _pegasos.Pegasos.restore(settings, parts.state())
        parts.set_rows(labels, None)
        parts.plan(n_steps=20)
        parts.run(rows)
    assert whole.earlier[:, -1].all()
    for a, b in zip(parts.model(), whole.model(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_projection_keeps_w_in_the_ball_at_every_step(problem, layout, dtype):
    X, y = problem
    draws = stream(len(y), 120, "uniform", 4)
    radius = 1 / np.sqrt(1e-3)
    touched = 0
    for t in range(1, 121):
        model = paper.fit(
            convert(X, layout, dtype), y, 1e-3, order=draws[:t], project=True, fit_intercept=False
        )
        norm = np.linalg.norm(model.coef.astype(np.float64))
        assert norm <= radius * (1 + 1e-6)
        touched += norm > radius * (1 - 1e-6)
    assert touched > 10  # or the test would say nothing


def test_long_projected_runs_keep_the_norm_true(rng):
    # Many foldings of q and fresh sums of the norm: tiny lambda, large rows.
    X, y = make_rows(rng)
    lam, draws = 1e-7, stream(len(y), 20_000, "permutation", 0)
    w, _, _, _ = textbook(100 * X, y, lam, draws, project=True)
    for layout, dtype in itertools.product(LAYOUTS, DTYPES):
        model = paper.fit(
            convert(100 * X, layout, dtype), y, lam, n_steps=20_000, project=True, random_state=0,
            fit_intercept=False,
        )  # fmt: skip
        norm = np.linalg.norm(model.coef.astype(np.float64))
        assert norm <= (1 + 1e-4) / np.sqrt(lam)
        if dtype is np.float64:
            np.testing.assert_allclose(model.coef[0], w, rtol=1e-6, atol=1e-6 * np.abs(w).max())


def _optimum(X, y, lam, weights=None):
    """min P by L-BFGS on ever sharper smoothings; an independent optimiser."""
    c = np.ones(len(y)) if weights is None else weights
    c = c / c.sum()

    def smoothed(w, width):
        u = 1 - y * (X @ w)
        h = np.where(u <= 0, 0, np.where(u < width, u**2 / (2 * width), u - width / 2))
        slope = np.clip(u / width, 0, 1)
        return lam / 2 * w @ w + c @ h, lam * w - X.T @ (c * slope * y)

    w = np.zeros(X.shape[1])
    for width in 10.0 ** -np.arange(0, 7):
        w = minimize(smoothed, w, args=(width,), jac=True, method="L-BFGS-B",
                     options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}).x  # fmt: skip
    return objective(X, y, lam, w, 0, weights=weights, penalized=False)


@functools.cache
def _with_optimum(weighted, lam):
    """Rows, labels, their weights, and the least objective."""
    rng = np.random.default_rng(0)
    X, y = make_rows(rng, n=200, d=10)
    weights = rng.uniform(0.2, 2, len(y)) if weighted else None
    return X, y, weights, _optimum(X, y, lam, weights)


@covering(layout=LAYOUTS, dtype=DTYPES, average=(False, True, "suffix"), weighted=(False, True))
def test_long_runs_reach_the_optimum(layout, dtype, average, weighted):
    lam = 0.01
    X, y, weights, best = _with_optimum(weighted, lam)
    model = paper.fit(
        convert(X, layout, dtype), y, lam, max_iter=2000, average=average, sample_weight=weights,
        fit_intercept=False, random_state=0,
    )  # fmt: skip
    assert best * (1 - 1e-6) <= model.objective[0] <= best * 1.003


def test_permutation_sampling_draws_each_row_once_an_epoch():
    for sampling in ("permutation", "cyclic"):
        draws = stream(101, 5 * 101, sampling, 7).reshape(5, 101)
        assert (np.sort(draws, axis=1) == np.arange(101)).all()
        repeats = sum(np.array_equal(draws[0], later) for later in draws[1:])
        assert repeats == (4 if sampling == "cyclic" else 0)


@pytest.mark.parametrize("sampling", list(_core.SAMPLINGS))
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_draws_are_unbiased_and_in_range(sampling, n):
    count = 60_000 // n * n
    draws = np.concatenate([stream(n, n, sampling, seed) for seed in range(count // n)])
    for place in range(n):
        seen = np.bincount(draws[place::n], minlength=n)
        assert len(seen) == n
        expected = count / n / n
        # Chi-square with n - 1 degrees of freedom; five standard deviations.
        statistic = ((seen - expected) ** 2 / expected).sum()
        assert statistic <= (n - 1) + 5 * np.sqrt(2 * (n - 1)) + 1e-9


@pytest.mark.parametrize("sampling", list(_core.SAMPLINGS))
def test_any_place_in_the_stream_can_be_sought(sampling):
    n, draws = 17, stream(17, 100, sampling, 2)
    for place in range(100):
        order = _core.Order(2, np.empty(n, np.int64), _core.SAMPLINGS[sampling], place)
        rest = np.empty(100 - place, np.int64)
        order.draw(rest)
        np.testing.assert_array_equal(rest, draws[place:])


def _mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


@pytest.mark.parametrize("n", [1, 10, 1000, 70_001])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_draws_follow_their_definition_in_whole_numbers(n, seed):
    """SplitMix64 and Lemire's bounded draws, in Python's integers: the same on every platform."""
    state = _mix(seed ^ _mix(1))

    def bounded(n):
        nonlocal state
        while True:
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            high, low = divmod(_mix(state) * n, 2**64)
            if low >= 2**64 % n:
                return high

    permutation = list(range(n))
    for place in range(n):
        other = place + bounded(n - place)
        permutation[place], permutation[other] = permutation[other], permutation[place]
    assert stream(n, n, "permutation", seed).tolist() == permutation
    state = _mix(seed ^ _mix(1))
    assert stream(n, n, "uniform", seed).tolist() == [bounded(n) for _ in range(n)]


# ---- Steps and epochs ----------------------------------------------------------------------------


def test_steps_are_counted_per_problem(rng):
    X, _ = make_rows(rng, n=90)
    y = np.repeat([0, 1, 2], 30)
    exact = paper.fit(X, y, 0.1, n_steps=77, multi_class="ovo")
    assert exact.n_steps.tolist() == [77, 77, 77]
    epochs = paper.fit(X, y, 0.1, max_iter=3, batch_size=7, multi_class="ovo")
    assert epochs.n_steps.tolist() == [-(-3 * 60 // 7)] * 3


def test_one_vs_one_scores_are_votes_with_ties_broken_by_sums(rng):
    X, _ = make_rows(rng, n=200)
    y = rng.integers(0, 4, len(X))
    model = paper.fit(X, y, 0.01, multi_class="ovo", random_state=0)
    pairs = X @ model.coef.T + model.intercept
    votes = np.zeros((len(X), 4))
    sums = np.zeros((len(X), 4))
    for k, (i, j) in enumerate(itertools.combinations(range(4), 2)):
        winner = np.where(pairs[:, k] > 0, j, i)
        votes[np.arange(len(X)), winner] += 1
        sums[:, j] += pairs[:, k]
        sums[:, i] -= pairs[:, k]
    expected = np.lexsort((sums, votes), axis=1)[:, -1]
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("largest", [1e305, 1e308, np.inf])
def test_one_vs_one_scores_of_any_size_are_votes(largest):
    """Class 1 wins both of its pairs, and loses none, whatever the third pair says."""
    X, y = np.eye(3), [0, 1, 2]
    clf = pegasos.PegasosClassifier(lam=0.1, multi_class="ovo", random_state=0).fit(X, y)
    clf.coef_ = np.zeros_like(clf.coef_)
    clf.intercept_ = np.array([largest, -1.0, -largest])  # pairs (0, 1), (0, 2) and (1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores, labels = clf.decision_function(X), clf.predict(X)
    np.testing.assert_allclose(scores, [[1 - 1 / 3, 2 + 1 / 3, -1 / 3]] * 3, rtol=1e-15)
    np.testing.assert_array_equal(labels, 1)


def test_lam_and_C_convert_both_ways():  # noqa: N802
    assert pegasos.lam_from_C(pegasos.C_from_lam(0.03, 17), 17) == pytest.approx(0.03, rel=1e-15)


def test_plans_too_large_to_count_are_refused(problem):
    X, y = problem
    with pytest.raises(ValueError, match="max_iter is too large"):
        paper.fit(X, y, 0.1, max_iter=2**60)
    with pytest.raises(ValueError, match="n_steps is too large"):
        paper.fit(X, y, 0.1, n_steps=2**61, batch_size=2)


def test_single_precision_warns_before_its_sums_lose_steps():
    X = np.array([[1.0], [-1.0]], dtype=np.float32)
    with pytest.warns(RuntimeWarning, match="more than float32 can resolve"):
        paper.fit(X, [1, 0], 1.0, n_steps=5000, batch_size=1000)
    paper.fit(X.astype(np.float64), [1, 0], 1.0, n_steps=5000, batch_size=1000)


def test_a_given_order_bounds_the_suffix(problem):
    X, y = problem
    a = paper.fit(X, y, 0.1, order=np.arange(60), n_steps=1000, average="suffix")
    b = paper.fit(X, y, 0.1, order=np.arange(60), average="suffix")
    assert same(a, b)
    assert not same(a, paper.fit(X, y, 0.1, order=np.arange(60)))


@pytest.mark.parametrize("size", [2.0**1000, 2.0**-1000, 2.0**-1060, 1e305, 1e-300, 1e-320])
def test_weights_of_every_size_count_relative_to_each_other(problem, size):
    X, y = problem
    plain = paper.fit(X, y, 0.02, random_state=0)
    a = paper.fit(X, y, 0.02, sample_weight=np.full(len(y), size), random_state=0)
    np.testing.assert_allclose(a.coef, plain.coef, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(a.objective, plain.objective, rtol=1e-12)
    if np.frexp(size)[0] == 0.5:  # a power of two: nothing is rounded
        assert same(a, plain)


@covering(layout=LAYOUTS, dtype=DTYPES, n_problems=(1, 2, 3, 5, 10, 16), n_features=(1, 7, 5000))
def test_interleaved_scores_do_not_depend_on_the_other_rows(
    rng, layout, dtype, n_problems, n_features
):
    X = rng.normal(size=(11, n_features)).astype(dtype)
    coef, intercept = rng.normal(size=(n_problems, n_features)), rng.normal(size=n_problems)
    rows, _ = _validate.rows(convert(X, layout, dtype))
    columns = np.ascontiguousarray(coef.T)
    scores = _core.decision_function(rows, columns, intercept, True)
    np.testing.assert_allclose(scores, X.astype(float) @ coef.T + intercept, rtol=1e-9, atol=1e-9)
    for first in range(11):
        which = np.arange(first, min(first + 3, 11))
        part = _core.decision_function(rows, columns, intercept, True, which)
        np.testing.assert_array_equal(part, scores[first : first + len(part)])


@pytest.mark.parametrize("change", [
    lambda coef: coef.astype(np.float32), lambda coef: coef.astype(">f8"), np.asfortranarray,
    lambda coef: np.repeat(coef, 2, axis=1)[:, ::2], np.ndarray.tolist,
    lambda coef: coef.astype("g"),
])  # fmt: skip
def test_coefficients_that_were_replaced_are_taken_as_they_are(rng, layout, dtype, change):
    X, _ = make_rows(rng)
    clf = pegasos.PegasosClassifier(lam=0.1, random_state=0)
    clf.fit(convert(X, layout, dtype), np.arange(60) % 3)
    clf.coef_, clf.intercept_ = change(clf.coef_), change(clf.intercept_[None])[0]
    expected = X @ np.asarray(clf.coef_, np.float64).T + np.asarray(clf.intercept_, np.float64)
    scores = clf.decision_function(convert(X, layout, dtype))
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)


# ---- Problems of few rows ------------------------------------------------------------------------


def many_classes(rng, layout, dtype, n=120, n_classes=6):
    """Rows of which each problem of one-vs-one has a third; some features are in few of them."""
    X, _ = make_rows(rng, n, d=40, density=0.05)
    y = rng.permutation(n) % n_classes
    X[:, 0] += y / n_classes
    return convert(X, layout, dtype), y


@covering(
    2, layout=LAYOUTS, dtype=DTYPES, solver=("auto", "sdca", "newton"), intercept=tuple(INTERCEPTS),
    loss=("hinge", "squared_hinge", "log_loss"), weighted=(False, True),
)  # fmt: skip
def test_a_pair_has_the_model_of_its_own_rows(
    rng, layout, dtype, solver, intercept, loss, weighted
):
    X, y = many_classes(rng, layout, dtype)
    c = rng.integers(0, 3, len(y)).astype(float) if weighted else np.ones(len(y))
    c[:6], y[:6] = 1, np.arange(6)
    options = {"lam": 0.1, "loss": loss, "random_state": 0, **INTERCEPTS[intercept]}
    clf = pegasos.PegasosClassifier(
        solver=solver, tol=1e-4, max_iter=20_000, multi_class="ovo", **options
    )
    clf.fit(X, y, sample_weight=c)
    assert (clf.duality_gap_ <= 1.01e-4 * clf.objective_).all()
    for k, (i, j) in enumerate(itertools.combinations(range(6), 2)):
        inside = np.flatnonzero(np.isin(y, [i, j]) & (c > 0))
        alone = pegasos.PegasosClassifier(tol=1e-4, max_iter=20_000, **options)
        alone.fit(X[inside], y[inside], sample_weight=c[inside])
        gaps = clf.duality_gap_[k], alone.duality_gap_[0]
        assert abs(clf.objective_[k] - alone.objective_[0]) <= max(gaps) + 1e-15
        # P is lam-strongly convex.
        apart = np.linalg.norm(clf.coef_[k] - alone.coef_[0])
        assert apart <= np.sqrt(2 * gaps[0] / 0.1) + np.sqrt(2 * gaps[1] / 0.1) + 1e-12
        rows = X[inside] if layout == "dense" else X[inside].toarray()
        assert (clf.coef_[k, ~rows.any(axis=0)] == 0).all()


@pytest.mark.parametrize("after", [0, 5, 40])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_pairs_go_on_where_they_were_interrupted(rng, layout, n_jobs, after):
    X, y = many_classes(rng, layout, np.float64)
    clf = pegasos.PegasosClassifier(
        lam=0.1, solver="sdca", tol=1e-4, multi_class="ovo", warm_start=True, n_jobs=n_jobs,
        random_state=0,
    )  # fmt: skip
    whole = clone(clf).fit(X, y)
    with interrupted(after, every=300):
        clf.fit(X, y)
    other = pickle.loads(pickle.dumps(clf)).fit(X, y)
    assert np.array_equal(other.coef_, whole.coef_)
    assert np.array_equal(other.n_iter_, whole.n_iter_)


def test_pairs_go_on_with_other_rows_and_other_pairs(rng, layout, dtype):
    X, y = many_classes(rng, layout, dtype)
    clf = pegasos.PegasosClassifier(
        lam=0.1, solver="sdca", tol=1e-4, multi_class="ovo", warm_start=True, random_state=0
    ).fit(X, y)
    others = many_classes(rng, layout, dtype)[0]
    few = np.where(np.arange(len(y)) < 100, y % 2, y)  # pairs of more than half of the rows
    few[100:106] = np.arange(6)  # all classes remain
    for rows, labels in ((others, y), (others, rng.permutation(y)), (X, few), (others, y)):
        clf.fit(rows, labels)
        assert (clf.duality_gap_ <= 1.01e-4 * clf.objective_).all()
        best = clone(clf).set_params(tol=1e-5, max_iter=10**5).fit(rows, labels)
        np.testing.assert_allclose(clf.objective_, best.objective_, rtol=1.1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [pegasos.PegasosClassifier, pegasos.KernelPegasosClassifier])
def test_other_pairs_make_the_epochs_that_are_asked_for(rng, layout, make):
    """Those of earlier pairs were added to their plan, but not to those that they had made."""
    X, y = many_classes(rng, layout, np.float64)
    clf = make(
        lam=0.1, solver="sdca", tol=None, max_iter=5, multi_class="ovo", warm_start=True,
        random_state=0,
    )  # fmt: skip
    n_iters = [clf.fit(X, labels).n_iter_ for labels in (y, y, np.roll(y, 1))]
    weights = np.where(np.arange(len(y)) < 9, 2.0, 1.0)
    n_iters.append(clf.fit(X, np.roll(y, 1), sample_weight=weights).n_iter_)
    assert n_iters == [5, 10, 5, 10]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pairs_of_rows_with_other_features_make_the_epochs_that_are_asked_for(rng):
    X, y = many_classes(rng, "csr32", np.float64)
    clf = pegasos.PegasosClassifier(
        lam=0.1, solver="sdca", tol=None, max_iter=5, multi_class="ovo", warm_start=True,
        random_state=0,
    )  # fmt: skip
    n_iters = [clf.fit(rows, y).n_iter_ for rows in (X, X, X[:, ::-1])]
    assert n_iters == [5, 10, 5]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ctrl_c_where_rows_have_other_features_takes_no_epochs_from_the_next_fit(rng, monkeypatch):
    X, y = many_classes(rng, "csr32", np.float64)
    clf = pegasos.PegasosClassifier(
        lam=0.1, solver="sdca", tol=None, max_iter=5, multi_class="ovo", warm_start=True,
        random_state=0,
    )  # fmt: skip
    through = clone(clf).fit(X, y).fit(X, y)
    least = clf.fit(X, y).dual_objective_

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProblemGroup, "begin", stop)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X[:, ::-1], y)
    clf.fit(X, y)
    assert clf.n_iter_ == through.n_iter_
    assert (clf.dual_objective_ >= least).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_that_are_mostly_zeros_are_trained_on_as_sparse_ones(rng, dtype):
    codes = rng.integers(0, 60, (5000, 2)) + np.array([0, 60])
    X = np.zeros((5000, 120), dtype)
    X[np.arange(5000)[:, None], codes] = 1
    y = rng.normal(size=120)[codes].sum(axis=1) > 0
    for machine in (
        pegasos.PegasosClassifier(random_state=0),
        pegasos.PegasosClassifierCV(random_state=0),
    ):
        dense, csr = (clone(machine).fit(own, y) for own in (X, sparse.csr_array(X)))
        np.testing.assert_array_equal(dense.decision_function(X), csr.decision_function(X))
    for kept in (X + 1, X[:2000], sparse.csr_array(X)):
        rows, kind = _rows.of_training(kept)
        assert rows.is_sparse == sparse.issparse(kept)
        assert kind == dtype
