"""The gate before the C core: whatever is wrong above it is an exception, never foreign memory."""

import itertools
import operator
import sys

import numpy as np
import pytest
from rows import convert

from pegasos import _core

N, D, K = 6, 5, 2
SAMPLING = _core.SAMPLINGS["permutation"]
LINEAR, POLYNOMIAL, GAUSSIAN = (_core.KERNELS[name] for name in ("linear", "poly", "rbf"))


def problems(**fields):
    state = np.zeros(K, _core.PROBLEM)
    state["lam"] = 0.1
    state["q"], state["last_step"] = 1, N
    for name, value in fields.items():
        state[name] = value
    return state


def pegasos(dtype, width=D, **fields):
    """Arrays of `_core.Pegasos`."""
    arrays = [values(dtype, K, width), values(dtype, K, width), np.zeros((K, N))]
    return [problems(**fields), *arrays, np.zeros((K, 1), np.int64), np.zeros((K, 1))]


def ascents(k):
    state = np.zeros(k, _core.DUAL_STATE)
    state["scale"] = state["factor"] = 1
    return state


def values(dtype, *shape):
    return np.linspace(0.1, 1, int(np.prod(shape))).reshape(shape).astype(dtype)


def make_targets(labels, *more, **settings):
    return _core.Targets(labels, *more, **TARGETS | {"lams": np.full(len(labels), 0.1)} | settings)


def make_rows(layout, dtype):
    X = convert(values(dtype, N, D), layout, dtype)
    if layout == "dense":
        return _core.Rows(X)
    return _core.Rows(X.data, X.indices, X.indptr, D)


def points(layout, dtype, **more):
    norms = np.ones(N, dtype)
    options = {"kind": GAUSSIAN, "gamma": 0.5, "norms": norms} | more
    return _core.Points(make_rows(layout, dtype), **options)


def columns(layout, dtype, room=N, **more):
    return _core.Columns(points(layout, dtype), values(dtype, room, N), np.full(N, -1), **more)


def kernel_problems(layout, dtype, factor=lambda _: np.eye(N), **more):
    """Arguments of `solve`, for kernel machines."""
    matrix = _core.Matrix(columns(layout, dtype, **more), factor, is_positive=True)
    targets = make_targets(np.ones((K, N), np.int8), np.ones(N))
    return [matrix, targets, np.ones(N), _core.Fits(K, N, 0), np.full(K, 5)]


def calls(layout, dtype):
    """A good call of every function of the core: its name, and its arguments."""
    rows, labels = make_rows(layout, dtype), np.ones((K, N), np.int8)
    draws, one = np.arange(N), np.ones(N)
    targets = make_targets(labels, one)
    yield "Targets", [labels, one]
    watch = _core.Watch()
    yield "Pegasos", pegasos(dtype)
    yield "Pegasos.run", [_core.Pegasos(*pegasos(dtype)), rows, targets, 0, draws, watch]
    yield "Pegasos.model", [_core.Pegasos(*pegasos(dtype))]
    yield "decision_function", [rows, values(dtype, K, D), np.ones(K)]
    yield "decision_function", [
        rows, values(np.float64, D, K), np.ones(K), True, np.array([3, 0, 5]),
    ]  # fmt: skip
    yield "decision_function", [
        rows, values(np.float64, 2 * K, D), np.ones(2 * K), False,
        np.array([3, 0, 5]), np.array([1, 3]),
    ]  # fmt: skip
    yield "Rows.combine", [rows, np.ones((K, N))]
    yield "Rows.combine", [rows, np.ones((K, N)), True]
    yield "Rows.squared_norms", [rows, 2]
    yield "certify", [rows, targets, values(np.float64, K, D), np.ones(K), np.ones((K, N))]
    yield "certify", [rows, targets, None, None, np.ones((K, N))]
    yield "Targets.constants", [targets, np.full(K, 0.5)]
    yield "Targets.feasible", [targets, np.ones((K, N)), True]
    yield "Targets.parts", [targets, np.ones((K, N))]
    yield "LamPath", [rows, targets]
    path = _core.LamPath(rows, targets, seed=0)
    yield "LamPath.run", [path, np.full(K, 0.1), 3, _core.Watch()]
    yield "run_dual_epochs", [
        rows, targets, 1, one, draws.copy(), np.zeros(N), np.zeros(D), np.zeros(N), ascents(1), 2,
        _core.Watch(),
    ]  # fmt: skip
    yield "Fits", [K, N, D, _core.Fits(K, N, D).memory]
    yield "Fits.begin_at", [_core.Fits(K, N, D), np.ones((K, N)), np.ones((K, D)), np.ones(K)]
    yield "Fits.begin_at", [_core.Fits(K, N, 0), np.ones((K, N))]
    yield "solve", kernel_problems(layout, dtype)
    yield "solve", [rows, targets, one, _core.Fits(K, N, D), np.full(K, 5)]
    # Kernels.
    yield "Pegasos.run_kernel", [
        _core.Pegasos(*pegasos(np.float64, N)), columns(layout, dtype), targets, np.zeros((K, N)),
        np.zeros((K, N)), 0, draws, watch,
    ]  # fmt: skip
    yield "Matrix", [columns(layout, dtype), lambda _: np.eye(N)]
    x = points(layout, dtype)
    yield "kernel_values", [x, x, values(dtype, N, N), watch]
    yield "Columns", [x, values(dtype, 3, N), np.full(N, -1)]
    few = columns(layout, dtype, 3)
    yield "Columns.keep", [few, draws[:4].copy(), watch]
    yield "Columns.among", [few, draws[:2].copy(), draws[:4].copy(), values(dtype, 2, 4), watch]
    yield "Columns.add", [few, draws[:3].copy(), np.ones((K, 3)), np.zeros((K, N)), watch]
    yield "Columns.certify", [
        few, targets, np.ones((K, N)), np.ones(K), np.ones((K, N)), one, one, one, None,
    ]  # fmt: skip
    yield "Order", [0, np.zeros(N, np.int64), SAMPLING, 0]
    if layout == "dense":
        yield "Rows", [values(dtype, N, D)]
        return
    X = convert(values(dtype, N, D), layout, dtype)
    yield "Rows", [X.data, X.indices, X.indptr, D]
    yield "Rows.part", [rows, np.array([N - 1, 0])]
    two = [np.empty(2 * D, kind) for kind in (dtype, X.indices.dtype)]
    yield "Rows.take", [rows, np.array([N - 1, 0]), *two]
    for how in ({"by_transpose": True}, {"by_panels": True}):
        yield "kernel_values", [x, points(layout, dtype, **how), values(dtype, N, N), watch]
    yield "Pegasos.run", [_core.Pegasos(*pegasos(dtype)), rows, targets, 0, draws, watch, True]


# Other lengths that are no mistake: of index arrays and lists of rows the first entries count, and
# fewer rows, draws, columns or problems may be asked for.
MAY_BE_LONGER = {
    ("decision_function", 4, 0), ("Rows.combine", 1, 0),
    ("Rows", 0, 0), ("Rows", 1, 0), ("Rows", 2, 0), ("Pegasos", 3, 1),
    ("Pegasos.run", 4, 0), ("Pegasos.run_kernel", 6, 0), ("Targets", 0, 0),
    ("Columns", 1, 0), ("Columns.keep", 1, 0),
    ("Order", 1, 0), ("Rows.part", 1, 0), ("Rows.take", 2, 0), ("Rows.take", 3, 0),
}  # fmt: skip
MAY_BE_SHORTER = {
    ("decision_function", 4, 0), ("Rows.combine", 1, 0), ("Pegasos", 3, 1), ("Rows", 2, 0),
    ("Order", 1, 0), ("Columns", 1, 0), ("Columns.keep", 1, 0),
    ("Pegasos.run", 4, 0), ("Pegasos.run_kernel", 6, 0), ("Targets", 0, 0), ("Rows.part", 1, 0),
    ("Rows.take", 1, 0),
}  # fmt: skip


TARGETS = {"intercept_scaling": 1.0, "free_intercept": False}
KEYWORDS = {
    "Targets": TARGETS,
    "LamPath": {"seed": 0},
    "solve": {"tol": 1e-3, "seed": 0, "solver": _core.AUTO},
    "Columns.certify": {"ridge": 0.0, "is_positive": True},
    "Matrix": {"is_positive": True},
}


def call(name, arguments, **more):
    keywords = KEYWORDS.get(name, {}) | more
    if name in ("solve", "Columns.certify"):
        keywords["watch"] = _core.Watch()
    return operator.attrgetter(name)(_core)(*arguments, **keywords)


def refused(name, arguments, **more):
    with pytest.raises((ValueError, TypeError)):
        call(name, arguments, **more)


@pytest.fixture(params=["dense", "csr32", "csr64"])
def layout(request):
    return request.param


def test_good_calls_are_taken(layout, dtype):
    for name, arguments in calls(layout, dtype):
        call(name, arguments)


def test_arrays_of_other_lengths_are_refused(layout, dtype):
    for name, good in calls(layout, dtype):
        for k, array in enumerate(good):
            if not isinstance(array, np.ndarray):
                continue
            for axis, change in [(a, c) for a in range(array.ndim) for c in (-1, 1)]:
                allowed = MAY_BE_LONGER if change > 0 else MAY_BE_SHORTER
                is_dense_rows = name == "Rows" and array.ndim == 2
                if (name, k, axis) in allowed or is_dense_rows:
                    continue
                arguments = list(good)
                width = [(0, 0)] * array.ndim
                width[axis] = (0, max(change, 0))
                keep = [slice(None)] * array.ndim
                keep[axis] = slice(0, array.shape[axis] + change)
                arguments[k] = np.pad(array, width, mode="edge")[tuple(keep)].copy()
                refused(name, arguments)


def test_targets_and_fits_of_other_sizes_are_refused(layout, dtype):
    """Of other rows or features, or of too few problems or too many."""
    for name, good in calls(layout, dtype):
        for k, argument in enumerate(good):
            others = []
            if isinstance(argument, _core.Targets):
                shapes = [(K, N - 1), (K, N + 1), (K - 1, N)]
                if name == "Targets.constants":  # it has no other array of rows
                    shapes = shapes[2:]
                elif name == "LamPath":  # nor this one of problems
                    shapes = shapes[:2]
                others = [_core.Targets(np.ones(of, np.int8), np.ones(of[1])) for of in shapes]
            elif isinstance(argument, _core.Fits):
                shapes = itertools.product((K - 1, K), (N - 1, N, N + 1), (0, D, D + 1))
                own = (K, argument.n_rows, argument.n_features)
                others = [_core.Fits(*of) for of in shapes if of != own]
            for other in others:
                refused(name, [*good[:k], other, *good[k + 1 :]])


def test_fits_are_views_of_their_memory(rng):
    """A saved copy goes on where they stood."""
    fits = _core.Fits(K, N, D)
    a, coef, intercept = rng.random((K, N)), rng.normal(size=(K, D)), rng.normal(size=K)
    fits.begin_at(a, coef, intercept)
    for some in (fits, _core.Fits(K, N, D, fits.memory.copy())):
        np.testing.assert_array_equal(some.a, a)
        np.testing.assert_array_equal(some.coef, coef)
        assert some.solutions()["n_epochs"].tolist() == [0] * K
    _core.Fits(K, N, D, fits.memory).coef[1] = 7
    assert (fits.coef[1] == 7).all()
    with pytest.raises(MemoryError, match=f"{K} problems over {2**50} rows of 0 features"):
        _core.Fits(K, 2**50, 0)
    for wrong in (misaligned(fits.memory.view(float)).view(np.uint8), fits.memory[:, ::-1]):
        refused("Fits", [K, N, D, wrong])
    with pytest.raises(ValueError, match="only kernel machines"):
        _ = fits.scores


@pytest.mark.parametrize(
    "loss",
    [-1, len(_core.LOSSES), (0, 0.1), (4, -0.1), (4, np.nan), (4, np.inf), (6, 0.0), (7, 1.0)],
)
def test_losses_that_there_are_not_are_refused(loss):
    labels = np.ones((K, N), np.int8)
    refused("Targets", [labels, None, loss, None if np.ravel(loss)[0] < 4 else np.ones((K, N))])


@pytest.mark.parametrize("loss", range(len(_core.LOSSES)))
def test_targets_are_given_where_a_loss_takes_them(loss):
    labels, values, takes = np.ones((K, N), np.int8), np.ones((K, N)), loss >= 4
    loss = (loss, 0.5 if loss in (4, 5, 6) else 0.0)
    call("Targets", [labels, None, loss, values if takes else None])
    refused("Targets", [labels, None, loss, None if takes else values])
    if takes:
        refused("Targets", [labels, None, loss, values[:, 1:].copy()])
    own = np.linspace(0.1, 1, K) if loss[1] else np.zeros(K)
    call("Targets", [labels, None, loss, values if takes else None, own])
    for wrong in (own[1:], np.append(own, own[:1]), own - 1, own + np.nan):
        refused("Targets", [labels, None, loss, values if takes else None, wrong])
    targets = make_targets(labels, None, loss, values if takes else None, own)
    assert call("Fits.are_valid", [_core.Fits(K, N, D), targets, 8])
    refused("Fits.are_valid", [_core.Fits(K - 1, N, D), targets, 8])


@pytest.mark.parametrize(
    "settings",
    [
        *({"lams": np.array([0.1, lam])} for lam in (0.0, np.nan, np.inf, -1.0)),
        *({"lams": np.full(n, 0.1)} for n in (K - 1, K + 1)),
        *({"intercept_scaling": scaling} for scaling in (-1.0, np.nan, np.inf, 1e151)),
        {"free_intercept": True}, {"loss": (0, 0.0, 0.5)},
    ],
)  # fmt: skip
def test_settings_without_a_meaning_are_refused(settings):
    refused("Targets", [np.ones((K, N), np.int8)], **settings)


def test_masses_are_sums_of_weights(rng):
    """In the order of rows, where they are in the problem; 1 without rows."""
    labels, weights = rng.integers(-1, 2, (K + 1, N)).astype(np.int8), rng.uniform(0.1, 9, N)
    labels[K] = 0
    for c in (None, weights):
        own = [np.cumsum((np.ones(N) if c is None else c) * (y != 0))[-1] for y in labels[:K]]
        assert _core.Targets(labels, c).masses.tolist() == [*own, 1]
    weights[0], labels[0, 0] = np.inf, 1
    with pytest.raises(ValueError, match="masses must have a finite number"):
        _core.Targets(labels, weights)  # and not later, where threads may share it


def test_targets_are_of_problems_and_rows():
    for shape in ((0, N), (K, 0)):
        refused("Targets", [np.ones(shape, np.int8)])


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)
    out = raw[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


# What comes from people, as it lies: rows, coefficients, kernel matrices.
FROM_PEOPLE = ("Rows", "decision_function", "Columns")


def test_misaligned_arrays_are_refused(layout, dtype):
    for name, good in calls(layout, dtype):
        for k, array in enumerate(good):
            if name not in FROM_PEOPLE or not isinstance(array, np.ndarray) or array.itemsize == 1:
                continue
            arguments = list(good)
            arguments[k] = misaligned(array)
            is_ours = k >= 4 if name == "decision_function" else k > 1 and name == "Columns"
            if is_ours:
                continue
            refused(name, arguments)


def test_types_that_do_not_go_together_are_refused(layout, dtype):
    other = np.float64 if dtype == np.float32 else np.float32
    for name, good in calls(layout, dtype):
        if name.startswith("decision_function") and other == np.float64:
            continue  # coefficients of float64 go with any rows
        for k, array in enumerate(good):
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                continue
            if name == "Rows":
                continue  # either type will do for the only array that has a choice
            if name == "decision_function" and k != 1:
                continue
            arguments = list(good)
            arguments[k] = array.astype(other)
            refused(name, arguments)


@pytest.mark.parametrize("is_interleaved", [False, True])
def test_a_group_of_problems_has_the_scores_that_it_has_alone(layout, dtype, is_interleaved):
    rows, coef = make_rows(layout, dtype), values(dtype, 3, K, D) ** np.arange(1, K + 1)[:, None]
    if is_interleaved:
        coef = np.ascontiguousarray(coef.transpose(0, 2, 1))
    intercept, which, ends = np.arange(3.0 * K), np.array([3, 0, 5, 1, 1]), np.array([2, 2, 5])
    together = _core.decision_function(
        rows, coef.reshape(-1, coef.shape[2]), intercept, is_interleaved, which, ends
    )
    for g, first in enumerate((0, 2, 2)):
        own, b = which[first : ends[g]], intercept[K * g : K * g + K]
        alone = _core.decision_function(rows, coef[g], b, is_interleaved, own)
        np.testing.assert_array_equal(together[first : ends[g]], alone)
    of_all = _core.decision_function(
        rows, coef.reshape(-1, coef.shape[2]), intercept, is_interleaved, None, np.array([1, 3, N])
    )
    np.testing.assert_array_equal(
        of_all[3:], _core.decision_function(rows, coef[2], intercept[-K:], is_interleaved)[3:]
    )
    for wrong in ([2, 1, 5], [2, 2, 4], [2, 2, 6], [-1, 2, 5], []):
        with pytest.raises(ValueError, match=r"ends|intercept"):
            _core.decision_function(
                rows, coef.reshape(-1, coef.shape[2]), intercept, is_interleaved, which,
                np.array(wrong, np.int64),
            )  # fmt: skip


@pytest.mark.parametrize("wrong", [-1, N, 2**62, -(2**63)])
def test_indices_out_of_range_are_refused(layout, dtype, wrong):
    indices = {"Pegasos.run": [4], "decision_function": [4], "Rows.part": [1], "Rows.take": [1],
               "Columns": [2], "Columns.keep": [1], "Columns.among": [1, 2], "Columns.add": [1],
               "Pegasos.run_kernel": [6]}  # fmt: skip
    for name, good in calls(layout, dtype):
        for k in indices.get(name, []):
            if k >= len(good) or good[k] is None or (wrong == -1 and name == "Columns"):
                continue  # there is no column
            arguments = list(good)
            arguments[k] = good[k].copy()
            arguments[k][-1] = wrong
            refused(name, arguments)


def users_of_pegasos(layout, dtype):
    """Methods of `_core.Pegasos`, and their other arguments."""
    for name, (_, *more) in calls(layout, dtype):
        if name.startswith("Pegasos."):
            yield name, more


def arrays_for(method, dtype, **fields):
    is_kernel = method == "Pegasos.run_kernel"
    return pegasos(np.float64, N, **fields) if is_kernel else pegasos(dtype, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"lam": 0.0}, {"lam": np.nan}, {"q": 0.0}, {"n_pending": 1}, {"n_drawn": 1},
        {"n_drawn": -1}, {"n_steps": -1}, {"n_steps": 2**62}, {"next_draw": -1},
        {"next_draw": -(2**63)}, {"last_step": 2**63 - 1}, {"average_from": -1}, {"n_averaged": 1},
    ],
)  # fmt: skip
def test_problems_in_no_state_that_can_be_are_refused(layout, dtype, fields):
    for name, more in users_of_pegasos(layout, dtype):
        if name != "Pegasos.model" or "n_drawn" not in fields:
            refused(name, [_core.Pegasos(*arrays_for(name, dtype, **fields)), *more])


@pytest.mark.parametrize("fields", [{"average_from": 1}, {"rate_sum": 1.0}, {"n_averaged": 1}])
def test_an_average_needs_sums(layout, dtype, fields):
    for name, more in users_of_pegasos(layout, dtype):
        arrays = arrays_for(name, dtype, n_steps=2, **fields)
        arrays[2] = None
        refused(name, [_core.Pegasos(*arrays), *more])


def test_problems_of_other_rows_are_refused(layout, dtype):
    """Weights of another type or of other features, counts of other rows, nothing to write to."""
    other = np.float64 if dtype == np.float32 else np.float32
    for name, more in users_of_pegasos(layout, dtype):
        if name == "Pegasos.model":
            continue
        good = arrays_for(name, dtype)
        width = good[1].shape[1]
        of_float = np.float32 if name == "Pegasos.run_kernel" else other
        for first, wrong in (
            (1, [values(of_float, K, width)] * 2), (1, [values(good[1].dtype, K, width - 1)] * 2),
            (3, [np.zeros((K, N - 1))]), (3, [np.zeros((K, N + 1))]),
        ):  # fmt: skip
            arrays = [*good[:first], *wrong, *good[first + len(wrong) :]]
            refused(name, [_core.Pegasos(*arrays), *more])
    for k in (1, 2):
        arrays = pegasos(dtype)
        arrays[k].flags.writeable = False
        refused("Pegasos", arrays)


@pytest.mark.parametrize(
    "settings",
    [
        {"tol": np.nan}, {"solver": 3}, {"solver": -1}, {"begin_together": True},
    ],
)  # fmt: skip
def test_problems_without_a_meaning_are_refused(layout, dtype, settings):
    for name, good in calls(layout, dtype):
        if name == "solve":
            refused(name, good, **settings)
            refused(name, [*good[:-1], np.full(K, 2**62)])
            refused(name, [*good[:-1], np.full(K, -1)])


def test_memory_of_another_fit_is_refused(layout, dtype):
    """Sizes that the memory says are not those of its arrays."""
    good = dict(calls(layout, dtype))["solve"]
    call("solve", good)
    for word, value in [(0, N - 1), (1, D + 1), (2, 12 - np.dtype(dtype).itemsize), (3, 9), (4, 7)]:
        edited = _core.Fits(K, N, D, good[3].memory.copy())
        edited.memory.view(np.int64)[-1, word] = value
        refused("solve", [*good[:3], edited, good[4]])
        assert not call("Fits.are_valid", [edited, good[1], np.dtype(dtype).itemsize])


def test_a_load_tells_u_at_last_visits(dtype):
    """A row that shares no feature with others has u = 1 - y <w, x> after a step that is short."""
    X = np.diag(np.linspace(0.5, 3, N)).astype(dtype)
    y = np.where(np.arange(N) % 2, 1, -1).astype(np.int8)
    y[1] = 0
    a, w, last_u, state = np.zeros(N), np.zeros(N), np.full(N, np.nan), ascents(1)
    scratch, norms = np.zeros(N, np.int64), (X.astype(float) ** 2).sum(axis=1)
    rows, targets = _core.Rows(X), _core.Targets(y[None])
    told = []
    for n_epochs in (1, 2):
        _core.run_dual_epochs(
            rows, targets, 0, norms, scratch, a, w, last_u, state, n_epochs, _core.Watch()
        )
        assert np.isnan(last_u[1])
        told.append(np.delete(last_u, 1))
    np.testing.assert_array_equal(told[0], 1)  # before the first step
    np.testing.assert_allclose(told[1], np.delete(1 - y * (X @ w), 1), atol=1e-12)


def test_a_bundle_has_no_more_problems_than_it_has_room_for(layout, dtype):
    """And all of them have the same targets and epsilon."""
    rows, lanes = make_rows(layout, dtype), _core.BUNDLE_BYTES // np.dtype(dtype).itemsize
    for k in (lanes, lanes + 1):
        arguments = [rows, _core.Targets(np.ones((k, N), np.int8))]
        (call if k == lanes else refused)("LamPath", arguments)
    for values, epsilons in ((np.ones((K, N)), np.full(K, 0.1)), (np.eye(K, N), np.full(K, 0.1)),
                             (np.ones((K, N)), 0.1 + np.arange(K))):  # fmt: skip
        huber = _core.Targets(np.ones((K, N), np.int8), None, (6, 0.1), values, epsilons)
        is_shared = values.all() and np.ptp(epsilons) == 0
        (call if is_shared else refused)("LamPath", [rows, huber])
    path = call("LamPath", [rows, _core.Targets(np.ones((K, N), np.int8))])
    for lam, last_epoch in ((0.0, 1), (np.nan, 1), (np.inf, 1), (0.1, -1), (0.1, 2**62 // N)):
        refused("LamPath.run", [path, np.array([0.1] * (K - 1) + [lam]), last_epoch, _core.Watch()])
    refused("LamPath.run", [path, np.full(K + 1, 0.1), 1, _core.Watch()])


def test_memory_of_another_kernel_machine_is_refused(dtype):
    """Its words are sizes, what is pending, counts, truths, where it is, and rows of the round."""
    good = kernel_problems("dense", dtype)
    call("solve", good)
    n_words = _core.Fits.n_bytes(N, 0) // 8
    wrong = [(0, N + 1), (1, 1), (2, 5), (3, 9), (7, -1), (8, 2**62), (10, 2), (11, 4), (12, 6)]
    wrong += [(24, 6), (25, N + 1), (25, -1), (26, 2**40), (33, 2), (36, -1), (n_words - 1, N)]
    for word, value in wrong:
        edited = _core.Fits(K, N, 0, good[3].memory.copy())
        edited.memory.view(np.int64)[-1, word] = value
        if word == n_words - 1:
            edited.memory.view(np.int64)[-1, 25] = N
        refused("solve", [*good[:3], edited, good[4]])
        assert not call("Fits.are_valid", [edited, good[1], np.dtype(dtype).itemsize])


def test_kernel_problems_side_by_side_need_all_columns_and_have_the_same_bits(layout, dtype):
    refused("solve", kernel_problems(layout, dtype), n_jobs=2)
    ends = []
    for n_jobs in (1, 2):
        good = kernel_problems(layout, dtype, is_all_at_once=True)
        ends.append((call("solve", good, n_jobs=n_jobs), good[3].memory))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


def test_linear_problems_side_by_side_have_the_same_bits(layout, dtype):
    good, ends = dict(calls(layout, dtype))["solve"], []
    refused("solve", good, n_jobs=0)
    for n_jobs in (1, 2, 3):
        good[3] = _core.Fits(K, N, D)
        ends.append((call("solve", good, n_jobs=n_jobs, n_threads=2 * n_jobs), good[3].memory))
    for end in ends[1:]:
        for one, other in zip(ends[0], end, strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_overflow_counts_whichever_kernel_problem_ends_first(dtype):
    k, before = 8, sys.getswitchinterval()
    values = np.ones((k, N))
    values[0] = 1e200
    loss = _core.LOSSES["squared_error"], 0.0
    targets = make_targets(np.ones((k, N), np.int8), None, loss, values, lams=np.ones(k))
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            all_at_once = columns("dense", dtype, is_all_at_once=True)
            matrix = call("Matrix", [all_at_once, lambda _: np.zeros((N, 0))])
            arguments = [matrix, targets, np.ones(N), _core.Fits(k, N, 0), np.full(k, 5)]
            with pytest.raises(_core.TooLargeError):
                call("solve", arguments, n_jobs=k, n_threads=2 * k)
    finally:
        sys.setswitchinterval(before)


def test_neither_model_nor_dual_variables_prove_anything(layout, dtype):
    rows, targets = make_rows(layout, dtype), _core.Targets(np.ones((K, N), np.int8))
    assert _core.certify(rows, targets, None, None) == (None, None, None)


@pytest.mark.parametrize("wrong", [np.zeros((N - 1, 2)), np.zeros((N, 2), np.float32), None, 1 / 3])
def test_factors_of_other_matrices_are_refused(dtype, wrong):
    good = kernel_problems("dense", dtype, factor=lambda _: wrong)
    refused("solve", good, solver=_core.NEWTON, tol=1e-12)


def test_values_in_double_are_made_of_these_rows(layout):
    good = dict(calls(layout, np.float32))["Columns.certify"]
    exact, good[8] = points(layout, np.float32), np.ones(N)
    call("Columns.certify", good, exact=exact)
    refused("Columns.certify", good)
    refused("Columns.certify", [*good[:8], None], exact=exact)
    fewer = _core.Points(_core.Rows(values(np.float32, N - 1, D)), kind=LINEAR)
    for other in (points(layout, np.float64), fewer):
        refused("Columns.certify", good, exact=other)


def test_parts_of_dense_rows_have_all_features(dtype):
    rows = make_rows("dense", dtype)
    part, features = rows.part(np.array([N - 1, 0]))
    assert features is None
    np.testing.assert_array_equal(part.arrays[0], values(dtype, N, D)[[N - 1, 0]])
    for wrong in ([-1], [N], []):
        refused("Rows.part", [rows, np.array(wrong, np.int64)])


def test_columns_without_points_are_all_there(dtype):
    _core.Columns(None, values(dtype, N, N), np.arange(N))
    for column_of in (np.arange(N) - 1, None, np.arange(N)[1:]):
        refused("Columns", [None, values(dtype, N, N), column_of])
    refused("Columns", [None, values(dtype, N + 1, N), np.arange(N)])
    refused("Columns", [None, np.zeros((0, 0), dtype), np.arange(0)])


def test_columns_that_cannot_be_written_are_refused(layout, dtype):
    fixed = values(dtype, 3, N)
    fixed.flags.writeable = False
    refused("Columns", [points(layout, dtype), fixed, np.full(N, -1)])
    for room, column_of in ((3, np.full(N, -1)), (N, np.arange(N) - 1)):
        some = [points(layout, dtype), values(dtype, room, N), column_of]
        refused("Columns", some, is_all_at_once=True)


def test_pending_rows_are_looked_at(layout, dtype):
    for name, more in users_of_pegasos(layout, dtype):
        arrays = arrays_for(name, dtype, n_pending=1, n_drawn=2)
        arrays[4:] = np.full((K, 3), N), np.zeros((K, 3))
        if name != "Pegasos.model":
            refused(name, [_core.Pegasos(*arrays), *more])


@pytest.mark.parametrize("wrong", [[0, 3, 2, 6, 7, 8, 10], [-1, 2, 3, 4, 5, 6, 10], [0] * 6 + [31]])
def test_offsets_that_describe_no_matrix_are_refused(dtype, wrong):
    for kind in (np.int32, np.int64):
        indices = np.zeros(30, kind)
        refused("Rows", [np.ones(30, dtype), indices, np.array(wrong, kind), D])


def test_rows_without_entries_may_lie_anywhere(dtype):
    nowhere = np.zeros(9, np.uint8)[1:1]
    for kind in (np.int32, np.int64):
        _core.Rows(nowhere.view(dtype), nowhere.view(kind), np.zeros(4, kind), D)


@pytest.mark.parametrize("at", [0, 40, 63, 64, 99])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("n_features", [1, 7, 2**31 - 1, 2**31, 2**32, 2**32 + 7, 2**61, 2**63 - 1])
def test_every_column_is_looked_at(at, kind, n_features):
    indices, indptr = np.zeros(100, kind), np.array([0, 70, 100], kind)
    for wrong in (-1, n_features, np.iinfo(kind).min):
        indices[at] = min(n_features - 1, np.iinfo(kind).max)
        _core.Rows(np.ones(100), indices, indptr, n_features)
        if wrong <= np.iinfo(kind).max:
            indices[at] = wrong
            refused("Rows", [np.ones(100), indices, indptr, n_features])


def test_outputs_with_gaps_between_numbers_are_refused(layout, dtype):
    x, out = points(layout, dtype), values(dtype, N, 2 * N)
    call("kernel_values", [x, x, out[:, 1 : N + 1], _core.Watch()])
    refused("kernel_values", [x, x, out[:, ::2], _core.Watch()])
    refused("kernel_values", [x, x, out[::-1, :N], _core.Watch()])


def test_points_without_what_they_need_are_refused(layout, dtype):
    rows, ones = make_rows(layout, dtype), np.ones(N, dtype)
    for wrong in (
        {"kind": 5}, {"kind": -2}, {"kind": _core.OTHER}, {"kind": LINEAR, "write": print},
        {"kind": POLYNOMIAL, "degree": -1}, {"kind": GAUSSIAN, "norms": ones[1:]},
        {"kind": GAUSSIAN, "norms": ones.astype("f4" if dtype == np.float64 else "f8")},
        *([{"kind": LINEAR, name: True} for name in ("by_transpose", "by_panels")]
          if layout == "dense" else []),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            _core.Points(rows, **wrong)
    other = _core.Rows(values(dtype, N, D + 1))
    x, bare = points(layout, dtype), _core.Points(rows, kind=GAUSSIAN)
    wide = _core.Points(other, kind=GAUSSIAN, norms=ones)
    double = points(layout, np.float32 if dtype == np.float64 else np.float64)
    ours = _core.Points(rows, kind=_core.OTHER, write=print)
    for z in (bare, wide, double, ours):
        refused("kernel_values", [x, z, values(dtype, N, N), _core.Watch()])


@pytest.mark.parametrize("degree", [*range(9), 17, 10**5, 2**61])
def test_powers_take_as_many_products_as_the_degree_has_digits(dtype, degree):
    base = np.linspace(-1.5, 1.5, 37).astype(dtype)  # gamma x + coef0, exact
    x, one = (
        _core.Points(_core.Rows(rows), kind=POLYNOMIAL, gamma=1.0, coef0=1.0, degree=degree)
        for rows in (np.ascontiguousarray(base[:, None] - 1), np.ones((2, 1), dtype))
    )
    products = np.empty((2, 37), dtype)
    _core.kernel_values(one, x, products, _core.Watch())
    with np.errstate(over="ignore", under="ignore"):
        expected = np.float64(1) * base.astype(np.float64) ** degree
        fits = np.abs(expected) < np.finfo(dtype).max
    eps = np.finfo(dtype).eps * (degree + 2)
    if eps < 0.1:
        np.testing.assert_allclose(products[0][fits], expected[fits], rtol=4 * eps, atol=1e-30)
    assert (products[0] == products[1]).all()


def test_fits_go_by_an_order_to_their_last_steps(layout, dtype):
    """As by its draws; an order of other rows, or one that stands elsewhere, is refused."""
    rows, targets = dict(calls(layout, dtype))["Pegasos.run"][1:3]
    n_steps, draws = 3 * N + 2, np.empty(3 * N + 2, np.int64)
    _core.Order(7, np.zeros(N, np.int64), SAMPLING, 0).draw(draws)

    def fitted(draws, watch):
        arrays = pegasos(dtype, last_step=n_steps)
        _core.Pegasos(*arrays).run(rows, targets, 0, draws, watch)
        return arrays

    def order(next_draw=0, n=N):
        return _core.Order(7, np.zeros(n, np.int64), SAMPLING, next_draw)

    by_draws = fitted(draws, _core.Watch())
    assert (by_draws[0]["n_steps"] == n_steps).all()
    for more in ((order(), _core.Watch()), (draws, _core.Watch(every=1))):
        for one, other in zip(by_draws, fitted(*more), strict=True):
            np.testing.assert_array_equal(one, other)
    for wrong in (order(1), order(n=N + 1)):
        with pytest.raises(ValueError, match="order"):
            fitted(wrong, _core.Watch())
