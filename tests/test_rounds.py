"""Newton's method by rounds over blocks in this process; those of a cluster: test_dask.py."""

import contextlib
import dataclasses
import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from losses import ALL, BOUNDS, CONJUGATES, CURVATURES, EPSILON, LEAST, LOSSES, SLOPES, make_targets
from rows import convert
from scipy import sparse

from pegasos import PegasosClassifier, PegasosRegressor
from pegasos.problems import _losses, _partitions
from pegasos.problems._settings import Settings
from pegasos.solvers import _rounds, _schedule

LAM, ALONG = 0.01, np.array([[0.1, 1.5]])
INTERCEPTS = {
    "penalised": {"penalize_intercept": True, "intercept_scaling": 2.0},
    "free": {"penalize_intercept": False},
    "none": {"fit_intercept": False},
}


def settings_of(loss, intercept):
    form = loss if loss in LOSSES else _losses.named(loss, EPSILON * (loss != "squared_error"))
    return Settings(LAM, loss=form, **INTERCEPTS[intercept])


def local_of(loss, intercept, **others):
    kind, more = (
        (PegasosClassifier, {}) if loss in LOSSES else (PegasosRegressor, {"epsilon": EPSILON})
    )
    return kind(lam=LAM, loss=loss, random_state=0, **INTERCEPTS[intercept], **more, **others)


def make_blocks(X, y, z, c, settings, sizes=(23, 1, 41, 30)):
    """Problems (y, z) of shape (n_problems, n) in blocks of these sizes."""
    blocks, first = [], 0
    for size in sizes:
        part = slice(first, first + size)
        values = None if settings.loss.name in LOSSES else np.ascontiguousarray(z[:, part])
        labels = np.ascontiguousarray(y[:, part].astype(np.int8))
        weights = None if c is None else c[part]
        blocks.append(
            _rounds.Block(
                X=X[part], labels=labels, weights=weights, values=values, settings=settings
            )
        )
        first += size
    assert first == X.shape[0]
    return blocks


class Recorded(_rounds.BlockRunner):
    """Keeps what it is told, and what it answers."""

    def __init__(self, blocks):
        super().__init__(blocks)
        self.messages, self.answers = [], []

    def sum_up(self, function, message, *on_block):
        self.messages.append(message)
        self.answers.append(super().sum_up(function, message, *on_block))
        return self.answers[-1]


def problem_of(rng, loss, n=95, d=7):
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32)
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    y, z = make_targets(rng, y, loss)
    return X, y[None], z[None], rng.integers(0, 4, n) / 2


def rounds_of(engine, c, n, d, problems=1):
    """Rounds that begin at 0."""
    mass = np.full(problems, c.sum() if c is not None else float(n))
    about = SimpleNamespace(shape=(n, d), fingerprint=[n, d, 0])
    settings = engine.blocks[0].settings
    rounds = _rounds.Rounds(settings, engine, about, mass, np.full(problems, n), 0)
    rounds.n_passes = 1
    return rounds


def run(blocks, c, n, d, tol=1e-4, problems=1, with_matrix=True, monkeypatch=None, max_rounds=500):
    if not with_matrix:
        monkeypatch.setattr(_rounds, "MOST_FEATURES", 0)
    engine = Recorded(blocks)
    rounds = rounds_of(engine, c, n, d, problems)
    rounds.train(tol=tol, max_iter=max_rounds)
    return rounds, engine


@pytest.mark.parametrize("with_matrix", [True, False], ids=["matrix", "pairs"])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", ALL)
def test_rounds_reach_the_optimum_with_a_true_certificate(
    rng, loss, intercept, with_matrix, monkeypatch
):
    X, y, z, c = problem_of(rng, loss)
    n, d = X.shape
    settings = settings_of(loss, intercept)
    rounds, _ = run(make_blocks(X, y, z, c, settings), c, n, d, 1e-4, 1, with_matrix, monkeypatch)
    assert (rounds.n_pairs == 0) == with_matrix
    assert (rounds.certify().relative_gap <= 1e-4).all()
    # The objective, by its definition.
    (point,), feature = [p.best for p in rounds.problems], _rounds.feature_of(settings)
    u = z[0] - y[0] * (X.astype(float) @ point[:-1] + feature * point[-1])
    penalised = point[:-1] if intercept == "free" else point
    objective = LAM / 2 * penalised @ penalised + c @ ALL[loss](u) / c.sum()
    np.testing.assert_allclose(rounds.certify().objective, objective, rtol=1e-12)
    # No model is below the bound, also not that of other solvers.
    local = local_of(loss, intercept, tol=1e-9, max_iter=10**5)
    local.fit(X.astype(float), y[0] if loss in LOSSES else z[0], c)
    assert local.objective_[0] <= rounds.certify().objective[0] * (1 + 1e-7)
    assert rounds.certify().dual_objective[0] <= local.objective_[0] * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [1e-60, 1e-8, 1e-2, 1.0])
def test_a_huber_loss_that_is_nearly_the_absolute_error_has_a_small_gap(rng, epsilon):
    X, y, z, c = problem_of(rng, "huber")
    settings = Settings(LAM * epsilon, loss=_losses.named("huber", epsilon))
    rounds, _ = run(make_blocks(X, y, z, c, settings), c, *X.shape, 1e-3, max_rounds=60)
    assert (rounds.certify().relative_gap <= 1e-3).all()


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_matrices_are_of_a_wider_band_from_a_step_too_long_to_one_too_short(loss):
    settings, turns, back = settings_of(loss, "penalised"), 0, 0
    for seed in range(4):
        X, y, z, c = problem_of(np.random.default_rng(seed), loss)
        _, engine = run(make_blocks(X, y, z, c, settings), c, *X.shape, 1e-6)
        point = step = of_start = at_end = np.zeros(X.shape[1] + 1)
        is_wide, n_searches = False, 0
        for message, sums in zip(engine.messages, engine.answers, strict=True):
            assert message.wide.tolist() == [is_wide]
            # A step that is the last one with another length begins where that began.
            is_search = step.any() and np.array_equal(message.points[0], point)
            of_start, n_searches = (of_start, n_searches + 1) if is_search else (at_end, 0)
            (point,), (step,) = message.points, message.steps
            at_end = LAM * (point + step) - sums["vectors"][0].sum(axis=0) / c.sum()
            slope, unit = at_end @ step, abs(of_start @ step)
            is_long, is_short = slope > 2 * unit, slope < -0.3 * unit and n_searches == 0
            turns, back = turns + (is_long and not is_wide), back + (is_wide and is_short)
            is_wide = (is_wide or is_long) and not is_short
    assert turns >= 4
    assert back > 0 or loss != "hinge"


@pytest.mark.parametrize("far", [1e3, 1e4])
def test_a_row_far_from_all_others_does_not_end_the_search_along_a_step(rng, far):
    """The slope along a step is flat up to where this row errs, and steep beyond."""
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, 1, -1)
    y[0] = -np.sign(X[0, 0])
    X[0] *= far
    settings = dataclasses.replace(settings_of("hinge", "none"), lam=1 / 300)
    blocks = make_blocks(X, y[None], None, None, settings, [100] * 3)
    rounds, _ = run(blocks, None, *X.shape, 1e-3, max_rounds=60)
    assert (rounds.certify().relative_gap <= 1e-3).all()


class Few(Recorded):
    """Blocks that make centres anew, as those on disk do, and have room for two problems."""

    keeps_centres, n_at_once = False, 2


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "log_loss"])
def test_problems_have_a_lam_each_and_go_as_many_at_once_as_there_is_room_for(rng, loss):
    X, y, z, c = problem_of(rng, loss)
    c, lams = c + 0.5, [1.0, 0.1, 0.01, 1e-3, 0.3]
    own = dataclasses.replace(settings_of(loss, "free"), lam_of_each=tuple(lams))
    blocks = make_blocks(X, *(np.repeat(of, 5, axis=0) for of in (y, z)), c, own)
    engine = Few(blocks)
    rounds = rounds_of(engine, c, *X.shape, 5)
    rounds.n_passes = 0
    certificate = rounds.train(tol=1e-4, max_iter=300)
    assert (certificate.relative_gap <= 1e-4).all()
    (coef, _), exact = rounds.model(), local_of(loss, "free", tol=1e-9, max_iter=10**5)
    for k, lam in enumerate(lams):
        exact.set_params(lam=lam).fit(X.astype(float), (y if loss in LOSSES else z)[0], c)
        assert exact.objective_[0] <= certificate.objective[k] * (1 + 1e-7)
        assert certificate.dual_objective[k] <= exact.objective_[0] * (1 + 1e-12)
        # lam/2 |w - w*|^2 is at most the gap, also with a free intercept.
        apart = np.sum((coef[k] - exact.coef_) ** 2) * lam / 2
        assert apart <= certificate.gap[k] + 1e-7 * exact.objective_[0]
    # A round takes each problem that is left once: in two or three passes at first.
    which = [message.which.tolist() for message in engine.messages]
    assert which[:6] == [[0, 1], [2, 3], [4]] * 2
    assert rounds.n_passes < len(which)
    begun = [k for k in range(len(which)) if not k or which[k][0] <= which[k - 1][-1]]
    assert rounds.n_passes == len(begun)
    for first, end in itertools.pairwise([*begun, len(which)]):
        assert all(len(some) == 2 for some in which[first : end - 1])
    assert rounds.blocks.centres == [None] * len(blocks)


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_a_free_intercept_takes_an_offset_away(rng, loss, offset):
    """Newton's matrix held steps back, up to any number of rounds."""
    n, d = 400, 6
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d) + rng.normal(size=n)
    y, z = make_targets(rng, np.where(scores > 0, 1.0, -1.0), loss)
    settings = settings_of(loss, "free")

    def n_passes(X):
        engine = Recorded(make_blocks(X, y[None], z[None], None, settings, (100,) * 4))
        rounds = rounds_of(engine, None, n, d)
        rounds.n_passes = 0  # it begins at the blocks' own solutions
        assert rounds.train(tol=1e-3, max_iter=200).relative_gap <= 1e-3
        return rounds.n_passes

    assert n_passes(X + offset) <= n_passes(X + offset - offset) + 3


def test_the_bound_counts_the_last_dual_point_by_itself(rng):
    """Mixtures alone are exact to a few parts in ten million."""
    X, y, z, c = problem_of(rng, "hinge", 300)
    settings = settings_of("hinge", "penalised")
    blocks = make_blocks(X, y, z, c, settings, (100, 200))
    rounds, _ = run(blocks, c, *X.shape, 1e-9, max_rounds=200)
    assert (rounds.certify().relative_gap <= 1e-9).all()


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_the_bound_is_that_of_dual_variables_which_numpy_finds(rng, loss, intercept, monkeypatch):
    """Replayed from the messages: centres, dual variables of every round, and their mixture."""
    heard, mixed_with = [], _rounds.Bound.mixed

    def noted(bound, lam, *dual_point):
        heard.append(dual_point)
        return mixed_with(bound, lam, *dual_point)

    monkeypatch.setattr(_rounds.Bound, "mixed", noted)
    X, y, z, c = problem_of(rng, loss)
    c = c + 0.5
    n, d = X.shape
    settings = settings_of(loss, intercept)
    rounds, engine = run(make_blocks(X, y, z, c, settings), c, n, d, 0.05, max_rounds=15)
    feature, width = _rounds.feature_of(settings), CURVATURES[loss]
    least, most, dead = LEAST[loss], BOUNDS[loss], EPSILON if loss == "epsilon_insensitive" else 0
    centre, duals = np.zeros(n), []

    def slopes(u, width):
        if CURVATURES[loss]:
            return SLOPES[loss](u)
        p = centre + u / width
        return np.clip(np.sign(p) * np.maximum(np.abs(p) - dead / width, 0), least, most)

    def errors(w):
        return z[0] - y[0] * (X.astype(float) @ w[:-1] + feature * w[-1])

    for message in engine.messages:
        for _, point, width in message.moves:
            centre = slopes(errors(point), width)
        a = c * slopes(errors(message.points[0] + message.steps[0]), message.widths[0])
        if intercept == "free":
            sums = a[y[0] * a > 0].sum(), -a[y[0] * a < 0].sum()
            sums = np.abs(sums)
            for sign, total in zip((1, -1), sums, strict=True):
                a = np.where(y[0] * a * sign > 0, a * sums.min() / max(total, 1e-300), a)
            np.testing.assert_allclose(y[0] @ a, 0, atol=1e-9 * n)
        duals.append(a)
    assert len(heard) == len(duals) <= 15

    def dual_value(a):
        of_w = (a * y[0]) @ X.astype(float)
        squared = of_w @ of_w + (feature * (a @ y[0])) ** 2 * (intercept == "penalised")
        value = (CONJUGATES[loss](a, c) + (z[0] - 1) * a).sum()
        return value / c.sum() - squared / (2 * LAM * c.sum() ** 2)

    # D of a mixture with the next dual point, which is a parabola in the share of that point.
    mixture, total, of_mixture = np.zeros(n), 0.0, np.zeros(d + 1)

    def mixed(share):
        between = of_mixture + share[..., None] * (point - of_mixture)
        return total + share * (value - total) - LAM / 2 * np.square(between).sum(axis=-1)

    for a, (value, point) in zip(duals, heard, strict=True):
        own = value - LAM / 2 * point @ point
        assert own <= dual_value(a) + 1e-12  # lower for the log loss with a free intercept
        if (loss, intercept) != ("log_loss", "free"):
            np.testing.assert_allclose(own, dual_value(a), rtol=1e-9, atol=1e-12)
        at_0, between, at_1 = mixed(np.array([0, 0.5, 1]))
        bend = 2 * between - at_0 - at_1
        t = np.clip(0.5 + (at_1 - at_0) / (4 * bend), 0, 1) if bend > 0 else float(at_1 > at_0)
        assert (mixed(np.linspace(0, 1, 1001)) <= mixed(t) + 1e-14).all()
        mixture, total = mixture + t * (a - mixture), total + t * (value - total)
        of_mixture = of_mixture + t * (point - of_mixture)
    found = rounds.problems[0].bound
    claimed = found.value - LAM / 2 * found.point @ found.point
    np.testing.assert_allclose(claimed, mixed(np.zeros(())), rtol=1e-9)
    assert claimed <= dual_value(mixture) + 1e-12
    assert claimed <= found.best + 1e-14  # of two sums, in their own orders
    assert claimed >= 0.99 * found.best


def test_layouts_and_types_see_the_same(rng, layout, dtype):
    X, y, z, c = problem_of(rng, "hinge")
    settings, sums = settings_of("hinge", "penalised"), []
    rows = X.astype(np.float64), convert(X, layout, dtype)
    points = rng.normal(size=(2, 1, X.shape[1] + 1))
    for with_matrix in (True, False):
        message = _rounds.Message(
            which=np.array([0]), points=points[0], steps=points[1], widths=np.array([0.3]),
            along=ALONG, wide=[not with_matrix], with_matrix=with_matrix, moves=[],
        )  # fmt: skip
        sums += [
            _rounds.evaluate_block(make_blocks(R, y, z, c, settings, (95,))[0], None, 0, message)
            for R in rows
        ]
    for one, other in (sums[:2], sums[2:]):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-10, atol=1e-10)
    # The diagonal is that of a matrix whose band is wider, about the same middle.
    message.with_matrix, message.wide = True, [False]
    message.widths = _rounds._WIDER * message.widths
    centres = np.full((1, 95), 0.5 - 0.5 / _rounds._WIDER)
    (block,) = make_blocks(rows[0], y, z, c, settings, (95,))
    wide, at = _rounds.evaluate_block(block, centres, 0, message), np.triu_indices(X.shape[1] + 1)
    diagonal = wide["second"][:, at[0] == at[1]]
    np.testing.assert_allclose(diagonal, sums[2]["second"], rtol=1e-10)
    last = wide["second"][:, at[1] == X.shape[1]] / 2.0  # by the constant feature
    np.testing.assert_allclose(last, sums[2]["first"], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(last[:, -1], 2.0 * sums[2]["total"], rtol=1e-10)


def test_first_matrix_of_pairs_is_that_of_features_without_correlations(rng):
    gradient, diagonal, mean = rng.normal(size=(3, 6))
    matrix = np.diag(diagonal**2) + np.outer(mean, mean)
    step = _rounds._by_pairs(gradient, diagonal**2, mean, [])
    np.testing.assert_allclose(matrix @ step, -gradient, rtol=1e-9)
    pair = rng.normal(size=6)
    pair = pair, matrix @ pair
    step = _rounds._by_pairs(gradient, diagonal**2, mean, [pair])
    np.testing.assert_allclose(matrix @ step, -gradient, rtol=1e-9)


def test_pairs_of_features_far_from_0_take_few_rounds(rng, monkeypatch):
    """The gap was 0.98 after 60, with a diagonal of mean squares as the first matrix."""
    X = rng.normal(size=(95, 7))
    y = np.sign(X @ rng.normal(size=7) + rng.normal(size=95))
    blocks = make_blocks(1000 + X, y[None], None, None, settings_of("squared_hinge", "free"))
    rounds, _ = run(blocks, None, 95, 7, 1e-3, 1, False, monkeypatch, max_rounds=60)
    assert rounds.certify().relative_gap <= 1e-3


def test_repeated_columns_of_a_partition_are_one(rng):
    """Their squares were added up, in place of the square of their sum."""
    X, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    repeated = sparse.csr_array(
        (np.repeat(X.ravel() / 2, 2), np.repeat(np.tile(np.arange(4), 20), 2), np.arange(21) * 8),
        shape=X.shape,
    )
    message = _rounds.Message(
        which=np.array([0]), points=np.zeros((1, 5)), steps=np.zeros((1, 5)), along=ALONG,
        widths=np.zeros(1), wide=[False], with_matrix=False, moves=[],
    )  # fmt: skip
    local, sums = local_of("squared_hinge", "penalised"), []
    for rows in (X, repeated):
        part = _partitions.checked(0, rows, y, None, local)
        of_part = part.X, 2 * y[None] - 1, None, None, settings_of("squared_hinge", "penalised")
        sums.append(_rounds.evaluate_block(make_blocks(*of_part, (20,))[0], None, 0, message))
    for name in sums[0]:
        np.testing.assert_allclose(*(of[name] for of in sums), rtol=1e-12, atol=1e-12)
    assert repeated.nnz == 160  # the rows that were given are as they were


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_few_stored_numbers_are_multiplied_alone(rng, monkeypatch, dtype, index, intercept):
    n, d, stored = 95, 30, 3
    places, ends = rng.integers(d, size=n * stored), np.arange(0, n * stored + 1, stored)
    thin = sparse.csr_array(
        (rng.normal(size=n * stored).astype(dtype), places.astype(index), ends.astype(index)),
        shape=(n, d),
    )
    y, c, settings = np.ones((2, n)), rng.integers(0, 3, n) / 2, settings_of("hinge", intercept)
    whole, thin, empty = (
        make_blocks(X, y, None, c, settings, (n,))[0] for X in (thin.toarray(), thin, 0 * thin)
    )
    empty.X.eliminate_zeros()
    bends = c * rng.integers(0, 3, (2, n))
    expected = _rounds._matrices(whole, whole.rows(), bends)
    monkeypatch.delattr(_rounds.Block, "dense")
    found = _rounds._matrices(thin, thin.rows(), bends)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    of_nothing = _rounds._matrices(empty, empty.rows(), bends)
    np.testing.assert_allclose(of_nothing[:, -1], expected[:, -1])
    assert not of_nothing[:, :-1].any()
    for factors, sums in ((bends[:, 1:], (2, d, d)), (bends, (1, d, d)), (bends, (2, d, d - 1))):
        with pytest.raises(ValueError, match="room for a matrix of each"):
            thin.rows().add_products(np.ascontiguousarray(factors), np.zeros(sums))


def test_pieces_of_a_block_add_up(rng, monkeypatch):
    X, y, z, c = problem_of(rng, "epsilon_insensitive")
    settings = settings_of("epsilon_insensitive", "free")
    message = _rounds.Message(
        which=np.array([0]), points=rng.normal(size=(1, 8)), steps=rng.normal(size=(1, 8)),
        widths=np.array([0.3]), along=ALONG, wide=[True], with_matrix=True,
        moves=[(0, rng.normal(size=8), 0.5)],
    )  # fmt: skip
    (block,) = make_blocks(X, y, z, c, settings, (95,))
    whole = _rounds.evaluate_block(block, _rounds.move(block, None, message), 0, message)
    monkeypatch.setattr(_rounds, "_PIECE", 10)
    pieces = _rounds.evaluate_block(block, _rounds.move(block, None, message), 0, message)
    for name in whole:
        np.testing.assert_allclose(whole[name], pieces[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("with_matrix", [True, False])
def test_a_block_from_elsewhere_gives_the_same_bits(rng, layout, dtype, with_matrix):
    """What another process sends need not be aligned."""
    X, y, z, c = problem_of(rng, "huber")
    settings = settings_of("huber", "penalised")
    (block,) = make_blocks(convert(X, layout, dtype), y, z, c, settings, (95,))
    message = _rounds.Message(
        which=np.array([0]), points=rng.normal(size=(1, 8)), steps=rng.normal(size=(1, 8)),
        widths=np.array([1.0]), along=ALONG, wide=[False], with_matrix=with_matrix, moves=[],
    )  # fmt: skip
    buffers = []
    pickled = pickle.dumps((block, message), protocol=5, buffer_callback=buffers.append)
    shifted = [memoryview(bytearray(b"x") + buffer.raw())[1:] for buffer in buffers]
    again = pickle.loads(pickled, buffers=shifted)
    message.seed = again[1].seed = 7
    for function in (_rounds.evaluate_block, _rounds.begin):
        one, other = (function(each, None, 0, what) for each, what in ((block, message), again))
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_the_tree_has_one_shape(monkeypatch):
    def add(parts):
        assert len(parts) <= 8
        return "(" + "".join(parts) + ")"

    monkeypatch.setattr(_rounds, "add", add)
    letters = [chr(97 + k) for k in range(17)]
    tree = _rounds.BlockRunner(letters).sum_up(lambda block, *_: block, None)
    assert tree == "((abcdefgh)(ijklmnop)(q))"
    assert _rounds.BlockRunner("a").sum_up(lambda block, *_: block, None) == "a"


@pytest.mark.parametrize(("more", "most"), [(0, 30), (1, 10)])
def test_own_solutions_of_many_features_take_fewer_epochs(rng, monkeypatch, more, most):
    """They took most of a fit there."""
    X, y, z, _ = problem_of(rng, "hinge", d=_rounds.MOST_FEATURES + more)
    (block,) = make_blocks(X, y, z, None, settings_of("hinge", "penalised"), (95,))
    made, train = [], _schedule.Schedule.train

    def noted(schedule, rows, **plan):
        found = train(schedule, rows, **plan | {"tol": None})
        made.append(schedule.n_iter)
        return found

    monkeypatch.setattr(_schedule.Schedule, "train", noted)
    _rounds.begin(block, None, 0, _rounds.Message(which=np.array([0]), seed=5))
    assert made == [most]


@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_a_fit_begins_at_the_mean_of_the_blocks_own_solutions(rng, kind):
    """Of classes, a block that lacks one has none."""
    loss = "hinge" if kind == "classes" else "huber"
    X, y, z, _ = problem_of(rng, loss)
    sizes = (64, 30, 1)
    blocks = make_blocks(X, y, z, None, settings_of(loss, "penalised"), sizes)
    message = _rounds.Message(which=np.array([0]), seed=5)
    found = [_rounds.begin(block, None, k, message) for k, block in enumerate(blocks)]
    weights = [64, 30, 0] if kind == "classes" else [64, 30, 1]
    assert [of["weight"].tolist() for of in found] == [[weight] for weight in weights]
    local, first = local_of(loss, "penalised"), 0
    for size, weight, of in zip(sizes, weights, found, strict=True):
        own = slice(first, first + size)
        if weight > 1:
            local.fit(X[own], (y if loss in LOSSES else z)[0, own])
            coef, (b,) = np.ravel(local.coef_), local.intercept_
            w, objective = of["points"][0] / weight, []
            for point in (w, np.append(coef, b / 2)):
                u = z[0, own] - y[0, own] * (X[own] @ point[:-1] + 2 * point[-1])
                objective.append(LAM / 2 * point @ point + ALL[loss](u).mean())
            assert objective[0] <= objective[1] * 1.011
        else:
            assert not weight or of["points"].any()
        first += size
    engine = Recorded(blocks)
    rounds = rounds_of(engine, None, 95, X.shape[1])
    rounds.n_passes, rounds.seed = 0, 5
    rounds.train(tol=1e-3, max_iter=1)
    mean = sum(of["points"][0] for of in found) / sum(weights)
    np.testing.assert_allclose(engine.messages[1].points[0], mean, rtol=1e-14)


class StoppedError(Exception):
    """Between rounds."""


@pytest.mark.parametrize("with_matrix", [True, False], ids=["matrix", "pairs"])
@pytest.mark.parametrize("loss", ["hinge", "log_loss", "epsilon_insensitive"])
def test_a_state_goes_on_with_the_same_bits(rng, loss, with_matrix, monkeypatch):
    """Blocks lose their centres with their process."""
    X, y, z, c = problem_of(rng, loss)
    if not with_matrix:
        monkeypatch.setattr(_rounds, "MOST_FEATURES", 0)
    y, z = np.concatenate([y, -y]), np.concatenate([z, z + 1 if loss not in LOSSES else z])
    blocks = make_blocks(X, y, z, c, settings_of(loss, "free"))

    def new():
        return rounds_of(_rounds.BlockRunner(blocks), c, *X.shape, 2)

    whole = new()
    wanted, states = whole.train(tol=1e-5, max_iter=300), []

    def stop():
        if going.n_passes % 3 == 0:
            raise StoppedError

    going, is_over = new(), False
    while not is_over:
        state = {name: array.copy() for name, array in going.state().items()}
        states.append(going.n_passes)
        going = new()
        going.restore(state)
        with contextlib.suppress(StoppedError):
            found, is_over = going.train(tol=1e-5, max_iter=300, on_epoch=stop), True
    assert going.n_passes == whole.n_passes
    assert len(states) >= 2
    np.testing.assert_array_equal(wanted.dual_objective, found.dual_objective)
    for one, other in zip(whole.model(), going.model(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_of_another_fit_or_a_damaged_one_is_refused(rng):
    X, y, z, c = problem_of(rng, "hinge")
    blocks = make_blocks(X, y, z, c, settings_of("hinge", "penalised"))
    rounds, _ = run(blocks, c, *X.shape, max_rounds=3)
    state = rounds.state()
    with pytest.raises(ValueError, match="of other partitions"):
        rounds_of(_rounds.BlockRunner(blocks[1:]), c, *X.shape).restore(state)
    with pytest.raises(ValueError, match="of other partitions"):
        rounds_of(_rounds.BlockRunner(blocks), c, *X.shape).restore({"moves": state["moves"]})
    for name in set(state) - {"blocks", "numbers"}:
        odd = state[name][..., None], state[name].astype(np.float32), np.array(1.0), None
        for other in odd:
            fresh = rounds_of(_rounds.BlockRunner(blocks), c, *X.shape)
            bad = state | {name: other}
            with pytest.raises(ValueError, match=r"is missing|must have dtype"):
                fresh.restore({k: v for k, v in bad.items() if v is not None})
            assert fresh.n_passes == 1
    moves = np.ones((1, X.shape[1] + 3))
    seed, n_passes, _ = numbers = state["numbers"]
    late = np.array([seed, n_passes, n_passes + 1], np.uint64)
    for bad in (
        {"moves": moves}, {"moves": 0 * moves}, {"moves": np.nan * moves},
        {"numbers": numbers[:2]}, {"numbers": late},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"(numbers|moves) .*do not fit"):
            rounds_of(_rounds.BlockRunner(blocks), c, *X.shape).restore(state | bad)


@pytest.mark.parametrize("has_stalled", [False, True])
@pytest.mark.parametrize("has_overshot", [False, True])
def test_a_saved_iterate_knows_how_its_steps_went(has_stalled, has_overshot):
    def begun():
        return _rounds.Iterate(np.ones(3), 5.0, np.zeros(3), _losses.Loss("hinge"))

    saved, other = begun(), begun()
    saved.line, saved.has_overshot = saved.line._replace(has_stalled=has_stalled), has_overshot
    other.restore(saved.state())
    assert (other.line.has_stalled, other.has_overshot) == (has_stalled, has_overshot)
