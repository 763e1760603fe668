"""Newton's method by rounds over blocks in this process; tests/test_dask.py has those of a cluster."""

import pickle

import numpy as np
import pytest
from losses import ALL, BOUNDS, CONJUGATES, CURVATURES, EPSILON, LEAST, LOSSES, SLOPES, make_targets
from rows import convert

from pegasos import PegasosClassifier, PegasosRegressor
from pegasos.problems import _losses
from pegasos.problems._settings import Settings
from pegasos.solvers import _rounds

LAM = 0.01
INTERCEPTS = {
    "penalised": {"penalize_intercept": True, "intercept_scaling": 2.0},
    "free": {"penalize_intercept": False},
    "none": {"fit_intercept": False},
}


def settings_of(loss, intercept):
    form = loss if loss in LOSSES else _losses.of_targets(loss, EPSILON * (loss != "squared_error"))
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
        own = (y[0, part] > 0).astype(int) if values is None else values[0]
        labels = np.ascontiguousarray(y[:, part].astype(np.int8))
        weights = None if c is None else c[part]
        blocks.append(_rounds.Block(X[part], labels, weights, values, settings, own))
        first += size
    assert first == X.shape[0]
    return blocks


class Recorded(_rounds.BlocksInProcess):
    """Keeps what it is told."""

    def __init__(self, blocks):
        super().__init__(blocks)
        self.messages = []

    def look(self, message):
        self.messages.append(message)
        return super().look(message)


def problem_of(rng, loss, n=95, d=7):
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32)
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    y, z = make_targets(rng, y, loss)
    return X, y[None], z[None], rng.integers(0, 4, n) / 2


def run(blocks, c, n, d, tol=1e-4, problems=1, with_matrix=True, monkeypatch=None, max_rounds=500):
    if not with_matrix:
        monkeypatch.setattr(_rounds, "_MOST_FEATURES", 0)
    mass = np.full(problems, c.sum() if c is not None else float(n))
    engine = Recorded(blocks)
    start = np.zeros((problems, d + 1))
    rounds = _rounds.Rounds(engine, blocks[0].settings, mass, start, np.ones(problems))
    rounds.run(tol, max_rounds)
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
    assert rounds.with_matrix == with_matrix
    assert (rounds.relative_gaps <= 1e-4).all()
    # The objective, by its definition.
    (point,), feature = rounds.points, _rounds.feature_of(settings)
    u = z[0] - y[0] * (X.astype(float) @ point[:-1] + feature * point[-1])
    penalised = point[:-1] if intercept == "free" else point
    objective = LAM / 2 * penalised @ penalised + c @ ALL[loss](u) / c.sum()
    np.testing.assert_allclose(rounds.objective, objective, rtol=1e-12)
    # No model is below the bound, also not that of other solvers.
    local = local_of(loss, intercept, tol=1e-9, max_iter=10**5)
    local.fit(X.astype(float), y[0] if loss in LOSSES else z[0], c)
    assert local.objective_[0] <= rounds.objective[0] * (1 + 1e-7)
    assert rounds.dual_objective[0] <= local.objective_[0] * (1 + 1e-12)


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_the_bound_is_that_of_dual_variables_which_numpy_finds(rng, loss, intercept):
    """Replayed from the messages: centres, dual variables of every round, and their mixture."""
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
    (problem,) = rounds._problems
    assert len(problem.cuts) == len(duals) <= 15
    shares = problem.shares
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(), 1)

    def dual_value(a):
        of_w = (a * y[0]) @ X.astype(float)
        squared = of_w @ of_w + (feature * (a @ y[0])) ** 2 * (intercept == "penalised")
        value = (CONJUGATES[loss](a, c) + (z[0] - 1) * a).sum()
        return value / c.sum() - squared / (2 * LAM * c.sum() ** 2)

    mixture = dual_value(np.array(duals).T @ shares[1:])
    values = np.array([value for value, _ in problem.cuts])
    claimed = values @ shares[1:] - LAM / 2 * shares[1:] @ problem.gram @ shares[1:]
    assert claimed <= mixture + 1e-12
    assert claimed >= 0.99 * rounds.dual_objective[0]
    for a, (value, point) in zip(duals, problem.cuts, strict=True):
        own = value - LAM / 2 * point @ point
        assert own <= dual_value(a) + 1e-12  # lower for the log loss with a free intercept
        if (loss, intercept) != ("log_loss", "free"):
            np.testing.assert_allclose(own, dual_value(a), rtol=1e-9, atol=1e-12)


def test_layouts_and_types_see_the_same(rng, layout, dtype):
    X, y, z, c = problem_of(rng, "hinge")
    settings, sums = settings_of("hinge", "penalised"), []
    rows = X.astype(np.float64), convert(X, layout, dtype)
    points = rng.normal(size=(2, 1, X.shape[1] + 1))
    for with_matrix in (True, False):
        message = _rounds.Message(
            which=np.array([0]), points=points[0], steps=points[1], widths=np.array([0.3]),
            with_matrix=with_matrix, moves=[],
        )  # fmt: skip
        sums += [
            _rounds.see(make_blocks(R, y, z, c, settings, (95,))[0], None, message) for R in rows
        ]
    for one, other in (sums[:2], sums[2:]):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    # The diagonal is that of the matrix.
    at = np.triu_indices(X.shape[1] + 1)
    diagonal = sums[0][3][:, at[0] == at[1]]
    np.testing.assert_allclose(diagonal, sums[2][3], rtol=1e-10)


def test_pieces_of_a_block_add_up(rng, monkeypatch):
    X, y, z, c = problem_of(rng, "epsilon_insensitive")
    settings = settings_of("epsilon_insensitive", "free")
    message = _rounds.Message(
        which=np.array([0]), points=rng.normal(size=(1, 8)), steps=rng.normal(size=(1, 8)),
        widths=np.array([0.3]), with_matrix=True, moves=[(0, rng.normal(size=8), 0.5)],
    )  # fmt: skip
    (block,) = make_blocks(X, y, z, c, settings, (95,))
    whole = _rounds.see(block, _rounds.move(block, None, message), message)
    monkeypatch.setattr(_rounds, "_PIECE", 10)
    pieces = _rounds.see(block, _rounds.move(block, None, message), message)
    for a, b in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("with_matrix", [True, False])
def test_a_block_from_elsewhere_gives_the_same_bits(rng, layout, dtype, with_matrix):
    """What another process sends need not be aligned."""
    X, y, z, c = problem_of(rng, "huber")
    settings = settings_of("huber", "penalised")
    (block,) = make_blocks(convert(X, layout, dtype), y, z, c, settings, (95,))
    message = _rounds.Message(
        which=np.array([0]), points=rng.normal(size=(1, 8)), steps=rng.normal(size=(1, 8)),
        widths=np.array([1.0]), with_matrix=with_matrix, moves=[],
    )  # fmt: skip
    buffers = []
    pickled = pickle.dumps((block, message), protocol=5, buffer_callback=buffers.append)
    shifted = [memoryview(bytearray(b"x") + buffer.raw())[1:] for buffer in buffers]
    again = pickle.loads(pickled, buffers=shifted)
    for a, b in zip(
        _rounds.see(block, None, message), _rounds.see(again[0], None, again[1]), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    local = local_of("huber", "penalised", tol=1e-2)
    for a, b in zip(_rounds.begin(block, 0, local), _rounds.begin(again[0], 0, local), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_tree_has_one_shape():
    def add(parts):
        assert len(parts) <= 8
        return "(" + "".join(parts) + ")"

    letters = [chr(97 + k) for k in range(17)]
    assert _rounds.tree(letters, add) == "((abcdefgh)(ijklmnop)(q))"
    assert _rounds.tree(letters[:1], add) == "a"


def test_a_block_without_all_classes_has_no_part_in_the_start(rng):
    X, y, z, _ = problem_of(rng, "hinge")
    blocks = make_blocks(X, y, z, None, settings_of("hinge", "penalised"), (94, 1))
    local = local_of("hinge", "penalised", tol=1e-2)
    weights = [_rounds.begin(block, k, local)[0][0] for k, block in enumerate(blocks)]
    assert weights == [94, 0]
    (_, point), model = _rounds.begin(blocks[0], 0, local), local.fit(X[:94], blocks[0].y)
    np.testing.assert_array_equal(point[0, :-1], 94 * model.coef_[0])
    np.testing.assert_allclose(point[0, -1] * 2, 94 * model.intercept_[0])
