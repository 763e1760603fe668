"""Checkpoints of `pegasos train`: always a whole model, and killed runs go on to the same bits."""

import contextlib
import copy
import itertools
import json
import os
import pickle
import re
import signal
import types
import zipfile

import killing
import numpy as np
import pytest
from interruption import asked_often
from losses import core_targets
from rows import make_rows
from scipy import sparse
from test_kernel_run import Source

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, _core, cli
from pegasos.io import _archive, _checkpoint
from pegasos.solvers import _linear
from pegasos.solvers._schedule import Schedule


@pytest.fixture
def data(tmp_path, rng):
    """Files of dense and sparse rows that take some dozens of pieces of work to train on."""
    X, y = rng.normal(size=(1500, 30)), rng.integers(0, 3, 1500)
    np.savez(tmp_path / "dense.npz", X=X, y=y)
    S = sparse.random_array((1500, 400), density=0.05, format="csr", random_state=rng)
    np.savez(
        tmp_path / "sparse.npz", data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=y
    )
    return tmp_path


def small(tmp_path, rng, n=300):
    np.savez(tmp_path / "small.npz", X=rng.normal(size=(n, 5)), y=rng.integers(0, 3, n))
    return ["train", str(tmp_path / "small.npz"), "-q", "--lam", "1e-3"]


@contextlib.contextmanager
def ticking():
    """A block in which a second passes whenever a fit asks whether a checkpoint is due."""
    clock = types.SimpleNamespace(monotonic=itertools.count().__next__)
    with pytest.MonkeyPatch.context() as patch, asked_often(5e5):
        patch.setattr(_checkpoint, "time", clock)
        yield


@pytest.fixture
def ticks():
    with ticking():
        yield


# Whether a fit comes to its tolerance is not the point.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("file", "options"),
    [
        (
            "dense.npz",
            ["--solver", "pegasos", "--average", "suffix", "--tol", "none", "--max-iter", "300"],
        ),
        ("dense.npz", ["--solver", "newton", "--tol", "1e-6"]),
        ("sparse.npz", ["--solver", "sdca", "--tol", "1e-6", "--jobs", "2"]),
        ("dense.npz", ["--solver", "sdca", "--tol", "1e-6", "--kernel", "rbf"]),
        ("sparse.npz", ["--multi-class", "crammer_singer", "--tol", "none", "--max-iter", "300"]),
    ],
)
def test_a_killed_run_leaves_a_whole_model_and_goes_on_to_the_same_bits(data, rng, file, options):
    checkpoint, output = data / "checkpoint.npz", data / "model.npz"
    train = ["train", str(data / file), "-q", "--lam", "1e-4", *options, "-o"]
    assert cli.main([*train, str(data / "whole.npz")]) == 0
    train_on = [*train, str(output), "--checkpoint", str(checkpoint), "--checkpoint-every", "1"]
    for place in (os.path.dirname(pegasos.__file__), zipfile.__file__):  # anywhere; as it writes
        resume = ["--resume", str(checkpoint)] if checkpoint.exists() else []
        killed = killing.train, int(rng.integers(1, 300)), (place,), 5e4, [*train_on, *resume]
        assert killing.exit_code(*killed) == -signal.SIGKILL
        model = pegasos.load(checkpoint)
        assert np.isfinite(model.intercept).all()
    assert not output.exists()
    assert cli.main(["predict", str(checkpoint), str(data / file), "-o", str(data / "y")]) == 0
    assert cli.main([*train, str(output), "--resume", str(checkpoint)]) == 0
    whole, model = pegasos.load(data / "whole.npz"), pegasos.load(output)
    if "--kernel" in options:  # to rounding: another order of sums
        np.testing.assert_allclose(model.objective, whole.objective, rtol=1e-5)
    else:
        np.testing.assert_array_equal(model.coef, whole.coef)
        np.testing.assert_array_equal(model.objective, whole.objective)


def test_checkpoints_wait_for_what_begins_anew_and_then_less_again(tmp_path, monkeypatch):
    clock = types.SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr(_checkpoint, "time", clock)
    checkpoints = _checkpoint.Checkpoints(tmp_path / "file", 3, np.ones((2, 1)), np.arange(2))
    waits = []
    for stands in [0, 0, 0, 0, *range(1, 30)]:
        checkpoints.write(PegasosClassifier(), {}, stands)
        waits.append(checkpoints._due)
    assert waits[:4] == [3, 6, 12, 24]
    assert (np.diff(waits[3:]) <= 0).all()
    assert waits[-1] == 3


def test_arrays_that_stay_on_disk_have_no_name(tmp_path, rng):
    """So that a kill leaves none of them."""
    arrays = {
        "matrix": np.asfortranarray(rng.normal(size=(5, 3))), "number": np.array(3, np.int64),
        "empty": np.zeros((0, 4)), "text": np.array(["a", "bc"]), "bytes": np.arange(4, dtype="u1"),
    }  # fmt: skip
    _archive.save(tmp_path / "file.npz", arrays)
    folder = tmp_path / "folder"
    folder.mkdir()
    found = _archive.load_sealed(tmp_path / "file.npz", str(folder))
    if os.name == "posix":
        assert list(folder.iterdir()) == []
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert isinstance(found[name], np.memmap)
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.usefixtures("ticks")
def test_checkpoints_do_not_change_the_model(tmp_path, rng):
    train = [*small(tmp_path, rng, 2000), "--solver", "sdca", "--tol", "1e-4", "-o"]
    outputs = [tmp_path / "a.npz", tmp_path / "b.npz"]
    checkpoint = ["--checkpoint", str(tmp_path / "c.npz"), "--checkpoint-every", "1"]
    assert cli.main([*train, str(outputs[0])]) == 0
    assert cli.main([*train, str(outputs[1]), *checkpoint]) == 0
    assert pegasos.load(tmp_path / "c.npz").classes.tolist() == [0, 1, 2]
    a, b = (pegasos.load(output) for output in outputs)
    np.testing.assert_array_equal(a.coef, b.coef)


@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf"]])
def test_a_fit_leaves_a_checkpoint_at_its_end(tmp_path, rng, kernel, capsys):
    """However soon it ends: the next one takes it up, with another tolerance too."""
    train = [*small(tmp_path, rng), *kernel, "--tol", "1e-2", "-o", str(tmp_path / "a.npz")]
    checkpoint = str(tmp_path / "c.npz")
    assert cli.main([*train, "--checkpoint", checkpoint]) == 0
    first = pegasos.load(tmp_path / "a.npz")
    train.remove("-q")
    assert cli.main([*train, "--resume", checkpoint]) == 0
    assert f"going on from {checkpoint}\n" in capsys.readouterr().err
    np.testing.assert_array_equal(pegasos.load(tmp_path / "a.npz").intercept, first.intercept)
    assert cli.main([*train, "--resume", checkpoint, "--tol", "1e-6"]) == 0
    assert (pegasos.load(tmp_path / "a.npz").duality_gap < 1e-5).all()


@pytest.mark.parametrize("task", [[], ["--task", "regression"]])
@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf"]])
def test_a_run_of_a_c_goes_on_with_its_lam(tmp_path, rng, kernel, task, capsys):
    train = [*small(tmp_path, rng)[:-2], *kernel, *task, "--solver", "pegasos", "--tol", "none",
             "--max-iter", "300", "-o", str(tmp_path / "m.npz")]  # fmt: skip
    file = str(tmp_path / "c.npz")
    assert cli.main([*train, "--C", "2"]) == 0
    whole = pegasos.load(tmp_path / "m.npz")
    assert whole.lam == 1 / 600
    assert cli.main([*train, "--C", "2", "--checkpoint", file, "--max-iter", "100"]) == 0
    part = pegasos.load(file)
    assert part.lam == whole.lam
    assert (part.n_steps < whole.n_steps).any()
    assert cli.main([*train, "--C", "2", "--resume", file]) == 0
    again = pegasos.load(tmp_path / "m.npz")
    assert again.lam == whole.lam
    np.testing.assert_array_equal(again.n_steps, whole.n_steps)
    np.testing.assert_allclose(again.objective, whole.objective, rtol=1e-12)
    assert cli.main([*train, "--C", "3", "--resume", file]) == 2
    assert "C must be 2 to go on from" in capsys.readouterr().err
    assert cli.main([*train, "--lam", repr(whole.lam), "--resume", file]) == 2
    assert "C must be 2 to go on from" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf"]])
def test_a_run_of_one_class_goes_on_with_its_nu(tmp_path, rng, kernel, capsys):
    train = [
        *small(tmp_path, rng)[:-2], *kernel, "--task", "one-class", "--solver", "pegasos",
        "--tol", "none", "--max-iter", "300", "-o", str(tmp_path / "m.npz"), "--nu",
    ]  # fmt: skip
    file = str(tmp_path / "c.npz")
    assert cli.main([*train, "0.2"]) == 0
    whole = pegasos.load(tmp_path / "m.npz")
    assert cli.main([*train, "0.2", "--checkpoint", file, "--max-iter", "100"]) == 0
    part = pegasos.load(file)
    assert part.lam == whole.lam == 0.2
    assert part.n_steps < whole.n_steps
    assert cli.main([*train, "0.2", "--resume", file]) == 0
    again = pegasos.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.n_steps, whole.n_steps)
    np.testing.assert_allclose(again.objective, whole.objective, rtol=1e-12)
    assert cli.main([*train, "0.3", "--resume", file]) == 2
    assert "nu must be 0.2 to go on from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("memory", lambda a: a[:-8]), ("memory", lambda a: a.view(np.int64)),
        ("memory", lambda a: np.roll(a, 8)), ("base", lambda a: a - 2**40),
        ("base", lambda a: a[:1]), ("numbers", lambda a: a[:3]), ("numbers", lambda a: a + 1),
        ("numbers", lambda a: a.astype(float)), ("weights", lambda a: a.astype(int)),
    ],
)  # fmt: skip
def test_damaged_checkpoints_of_joint_classes_are_refused(
    tmp_path, rng, ticks, name, damaged, capsys
):
    train = [*small(tmp_path, rng), "--multi-class", "crammer_singer", "--tol", "none",
             "--max-iter", "300", "-o", str(tmp_path / "m.npz")]  # fmt: skip
    file = tmp_path / "c.npz"
    assert cli.main([*train, "--checkpoint", str(file), "--checkpoint-every", "1"]) == 0
    arrays = _archive.load_sealed(file)
    arrays[f"state.{name}"] = damaged(arrays[f"state.{name}"])
    _archive.save(file, arrays)
    assert cli.main([*train, "--resume", str(file)]) == 2
    assert re.search("checkpoint|memory is not|must be those of the fit", capsys.readouterr().err)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of a small run, its options, and the checkpoint that it has left there."""
    folder = tmp_path_factory.mktemp("small")
    train = [*small(folder, np.random.default_rng(0)), "--solver", "pegasos", "--tol", "none",
             "--max-iter", "2000", "--batch-size", "3", "-o", str(folder / "m.npz")]  # fmt: skip
    file = folder / "c.npz"
    with ticking():
        assert cli.main([*train, "--checkpoint", str(file), "--checkpoint-every", "1"]) == 0
    return train, file.read_bytes()


@pytest.fixture
def checkpoint(tmp_path, written, ticks):
    """Options of a small run, and the arrays of a checkpoint of it."""
    file = tmp_path / "c.npz"
    file.write_bytes(written[1])
    with np.load(file) as arrays:
        return [*written[0], "--resume", str(file)], file, dict(arrays)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lam", "0.5"], r"lam must be 0.001 to go on from .*c.npz, got 0.5"),
        (["--loss", "log_loss"], r"--loss must be hinge to go on from .*c.npz, got log_loss\n"),
        (["--tol", "0.1", "--project"], r"--project must be left out to go on from"),
        (["--average", "all"], r"--average must be none to go on from .*c.npz, got all\n"),
        (["--intercept", "none"], r"--intercept must be penalized or free to .*c.npz, got none\n"),
        (["--intercept", "free"], r"--intercept must be penalized to .*c.npz, got free\n"),
        (["--class-weight", "balanced"], r"--class-weight must be none to .*got balanced\n"),
        (["--seed", "1"], r"--seed must be 0 to go on from"),
        (["--float32"], r"is a checkpoint of a fit to other data"),
        (["--kernel", "rbf"], r"c.npz is a checkpoint of another kind of estimator"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(checkpoint, capsys, options, message):
    assert cli.main([*checkpoint[0], *options]) == 2
    assert pytest.importorskip("re").search(message, capsys.readouterr().err)


@pytest.mark.parametrize("options", [["--solver", "pegasos"], ["--multi-class", "crammer_singer"]])
def test_a_checkpoint_of_another_layout_is_refused(tmp_path, rng, capsys, ticks, options):
    """Also where it has as many bytes, which would be read as other numbers."""
    model = ["-o", str(tmp_path / "model.npz")]
    train = [*small(tmp_path, rng), *options, *model, "--tol", "none", "--max-iter", "300"]
    file = str(tmp_path / "c.npz")
    assert cli.main([*train, "--checkpoint", file, "--checkpoint-every", "1"]) == 0
    arrays = dict(np.load(file))
    about = json.loads(str(arrays["checkpoint"]))
    for layout in (None, about["layout"] + 1):
        arrays["checkpoint"] = np.array(json.dumps(about | {"layout": layout}))
        np.savez(file, **_archive.sealed(arrays))
        assert cli.main([*train, "--resume", file]) == 2
        assert "c.npz is a checkpoint of another version of pegasos" in capsys.readouterr().err
    assert pegasos.load(file).classes.tolist() == [0, 1, 2]


def field(name, value):
    def change(problems):
        problems[name] = value

    return change


def everywhere(value):
    def change(array):
        array[...] = value

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("problems", field("n_pending", 10**6)),
        ("problems", field("n_pending", -1)),
        ("problems", field("n_drawn", 3)),
        ("problems", field("next_draw", -5)),
        ("problems", field("n_steps", -5)),
        ("problems", field("lam", 5.0)),
        ("problems", field("ball", 1.0)),
        ("problems", field("average_from", 1)),
        ("problems", field("constant_weight", np.nan)),
        ("pending", everywhere(2**62)),
        ("pending", everywhere(-1)),
        ("weights", everywhere(np.nan)),
        ("counts", everywhere(-1)),
        ("numbers", everywhere(7)),
        ("weights", lambda array: array[:, :2].copy()),
        ("weights", lambda array: array.astype(np.float32)),
        ("problems", lambda array: array[:1].copy()),
        ("pending", None),
        ("unknown", lambda array: np.zeros(1)),
    ],
)
def test_a_damaged_state_is_refused(checkpoint, capsys, name, change):
    """What the core trusts cannot come from a file unseen."""
    train, file, arrays = checkpoint
    assert cli.main(train) == 0
    name = f"state.{name}"
    if change is None:
        del arrays[name]
    else:
        replaced = change(arrays.get(name))
        arrays[name] = arrays.get(name) if replaced is None else replaced
    np.savez(file, **_archive.sealed(arrays))
    capsys.readouterr()
    assert cli.main(train) == 2
    assert "c.npz is not a checkpoint of this fit: state" in capsys.readouterr().err


@pytest.mark.parametrize(("solver", "n_iter"), [("newton", 100), ("sdca", 12)])
@pytest.mark.parametrize("name", ["problems", "finisher"])
def test_an_intercept_that_is_not_fitted_stays_zero(rng, solver, n_iter, name):
    """Else an edited state would go on with an intercept that its certificate knows nothing of."""
    X = rng.normal(size=(60, 4))
    y = X[:, 0] + rng.normal(size=60) > 0
    clf = PegasosClassifier(
        lam=1e-3, solver=solver, tol=None, max_iter=n_iter, fit_intercept=False, warm_start=True,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    if name == "problems":
        clf._state["problems"]["constant_weight"] = 3
    else:
        new = Schedule(_linear.LinearSolver, clf._settings_for(clf.lam_, None), 1, 4, X.dtype, 0)
        finisher = new.restore(clf._state).solver
        fits = finisher.groups[0].fits
        fits.begin_at(finisher.a.copy(), finisher.coef.copy(), -np.ones(1))
        clf._state["solver.memory"] = fits.memory
    with pytest.raises(ValueError, match=r"state: .* does not fit the rest"):
        clf.fit(X, y)


def test_a_smooth_loss_is_not_smoothed_further(rng):
    X = rng.normal(size=(60, 4))
    y = X[:, 0] + rng.normal(size=60) > 0
    clf = PegasosClassifier(
        lam=0.1, solver="newton", loss="squared_hinge", tol=None, max_iter=20, warm_start=True,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    clf.fit(X, y)
    words = clf._state["solver.memory"].view(np.float64)
    words[words == 0.5] = 0.25
    with pytest.raises(ValueError, match=r"state: solver.memory does not fit the rest"):
        clf.fit(X, y)


# Words of ``state`` (``csrc/fit.h``).
PENDING, OBJECTIVE, RELATIVE_GAP = 3, 22, 24
GO_ON, GAP_CHECKED = 1, 5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("pending", [GO_ON, GAP_CHECKED])
@pytest.mark.parametrize("solver", ["sdca", "newton"])
def test_a_certificate_does_not_rest_on_what_a_checkpoint_claims(tmp_path, rng, solver, pending):
    """Here it claims a gap of 0 at a thousandth of the objective."""
    X, y = make_rows(rng, n=300, d=5)
    options = {"lam": 0.01, "solver": solver, "warm_start": True, "random_state": 0}
    whole = PegasosClassifier(**options, tol=1e-6).fit(X, y)
    numbers = whole._state["solver.memory"].view(np.float64)
    numbers[:, OBJECTIVE], numbers[:, RELATIVE_GAP] = whole.objective_ / 1000, 0
    numbers.view(np.int64)[:, PENDING] = pending
    state = {f"state.{name}": array for name, array in whole._state.items()}
    checkpoints = _checkpoint.Checkpoints(tmp_path / "c.npz", 1, X, y)
    checkpoints.write(whole, whole.to_model()._arrays() | state, 0)
    resumed = PegasosClassifier(**options, tol=1e-6)
    _checkpoint.resume(resumed, tmp_path / "c.npz", X, y)
    resumed.fit(X, y)
    assert (resumed.dual_objective_ <= whole.objective_ * (1 + 1e-9)).all()
    assert (resumed.objective_ >= whole.dual_objective_ * (1 - 1e-9)).all()


@pytest.mark.parametrize("pending", [2, 6])
def test_a_state_that_was_to_compare_its_rows_goes_on(rng, pending):
    """Earlier versions wrote such states, while they compared."""
    X, y = make_rows(rng, n=100, d=5)
    clf = PegasosClassifier(lam=0.01, tol=1e-4, warm_start=True, random_state=0).fit(X, y)
    clf._state["solver.memory"].view(np.int64)[:, PENDING] = pending
    del clf._state["solver.is_proved"]
    clf.fit(X, y)
    assert clf.duality_gap_ <= 1e-4 * clf.objective_


def test_what_a_checkpoint_is_of_must_be_readable(checkpoint, capsys):
    train, file, arrays = checkpoint
    for text in ("[]", "no JSON", json.dumps({"parameters": 5, "data": 0}), "[" * 10**5):
        np.savez(file, **_archive.sealed(arrays | {"checkpoint": np.array(text)}))
        assert cli.main(train) == 2
        assert "c.npz is not a checkpoint" in capsys.readouterr().err


def warm(kind, **options):
    """A fitted estimator that can go on, and its rows; with averages, and with what is pending."""
    n_classes = 5 if options.get("multi_class") == "ovo" else 3  # with few rows in each problem
    X, y = make_rows(np.random.default_rng(0), n=40, d=5)[0], np.arange(40) % n_classes
    clf = kind(lam=0.1, warm_start=True, random_state=0, **options)
    return clf.fit(sparse.csr_array(X) if n_classes > 3 else X, y), X, y


WARM = {
    "pegasos": (PegasosClassifier, {"n_steps": 17, "batch_size": 3, "average": True}),
    "suffix": (PegasosClassifier, {"n_steps": 17, "batch_size": 3, "average": "suffix"}),
    "sdca": (PegasosClassifier, {"solver": "sdca", "tol": None, "max_iter": 3}),
    "pairs": (
        PegasosClassifier,
        {"solver": "sdca", "tol": None, "max_iter": 3, "multi_class": "ovo"},
    ),
    "newton": (PegasosClassifier, {"solver": "newton", "tol": None, "max_iter": 3}),
    "kernel": (KernelPegasosClassifier, {"n_steps": 17, "batch_size": 3}),
    "kernel sdca": (KernelPegasosClassifier, {"solver": "sdca", "tol": None, "max_iter": 3}),
}
JOINT = PegasosClassifier, {"multi_class": "crammer_singer", "tol": None, "max_iter": 3}


def damaged(state):
    """States with one thing in each array that cannot be, and what that is."""

    def put(array, value):
        copy = array.copy()
        copy[...] = value
        return copy

    for name, array in state.items():
        yield name, "a list", state | {name: array.tolist()}
        yield name, "shorter", state | {name: array[:-1]}
        yield name, "narrower", state | {name: array[..., :-1]}
        yield name, "deeper", state | {name: array[None]}
        if name not in ("sums", "earlier", "counts"):  # a fit may have none
            yield name, "missing", {k: v for k, v in state.items() if k != name}
        if array.dtype.kind in "iuf":
            yield name, "another type", state | {name: np.zeros(array.shape, np.int16)}
        if array.dtype.kind == "i" and name != "pending":
            yield name, "negative", state | {name: put(array, -1)}
            yield name, "huge", state | {name: put(array, 2**62)}
        for field in array.dtype.names or ():
            if array.dtype[field].kind == "i":
                for value in (-1, 2**62):
                    copy = array.copy()
                    copy[field] = value
                    yield name, f"{field}={value}", state | {name: copy}
    for value in (0, 2**20, 2**62, 2**64 - 1):
        numbers = state["numbers"].copy()
        numbers[1] = value
        yield "numbers", f"{value} rows", state | {"numbers": numbers}


def warmed(name):
    kind, options = WARM[name]
    clf, X, y = warm(kind, **options)
    if name == "suffix":
        clf.fit(X, y).fit(X, y)
        assert clf._state["earlier"][:, -1].all()
    return clf, X, y


@pytest.mark.parametrize("name", WARM)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_damaged_pickle_is_refused(name):
    """Who unpickles trusts; what was damaged since must not lead the core to foreign memory."""
    clf, X, y = warmed(name)
    kinds_of_damage = list(damaged(clf._state))
    assert len(kinds_of_damage) > 50
    for array, what, state in kinds_of_damage:
        if array == "solver.is_proved" and what == "missing":
            continue  # then nothing is proved
        other = pickle.loads(pickle.dumps(clf))
        other._state = state
        print(array, what)
        with pytest.raises(ValueError, match=r"state|X must be"):
            other.fit(X, y)
    clf.fit(X, y)  # the state itself is as good as before


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_damaged_pickle_of_joint_classes_is_refused():
    clf, X, y = warm(JOINT[0], **JOINT[1])
    assert clf._state["weights"].shape == (0,)
    for array, what, state in damaged(clf._state):
        if array == "weights" and what in ("shorter", "narrower"):
            continue  # they are as they were
        other = pickle.loads(pickle.dumps(clf))
        other._state = state
        print(array, what)
        with pytest.raises(ValueError, match=r"state|damaged|X must be|memory is not"):
            other.fit(X, y)
    clf.fit(X, y)


@pytest.fixture(params=["pegasos", "sdca", "kernel sdca", "joint"])
def of_another_version(request):
    """What unpickles from a version that told no layout, from one with another; and its rows."""
    kind, options = WARM.get(request.param, JOINT)
    clf, X, y = warm(kind, **options)
    kept = clf.__getstate__()
    unpickled = []
    for layout in ({}, {"_layout": kept.pop("_layout") + 1}):
        unpickled.append(kind.__new__(kind))
        unpickled[-1].__setstate__(kept | layout)
    return unpickled, X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pickle_of_another_version_says_so(of_another_version):
    """Its model predicts, and a fit that begins anew may be gone on with again."""
    unpickled, X, y = of_another_version
    for clf in unpickled:
        clf.predict(X)
        for other in (clf, pickle.loads(pickle.dumps(clf))):
            with pytest.raises(
                ValueError, match=r"state of this .* saved by another version of pegasos"
            ):
                other.fit(X, y)
        clf.set_params(warm_start=False).fit(X, y)
        clf.set_params(warm_start=True).fit(X, y).fit(X, y)


def test_pieces_may_follow_a_fit_of_another_version(rng):
    """What is kept of a fit without warm_start has no memory that versions lay out otherwise."""
    X, y = make_rows(rng, n=40, d=5)
    clf = PegasosClassifier(random_state=0).fit(X, y)
    kept = clf.__getstate__()
    del kept["_layout"]
    clf.__setstate__(kept)
    clf.partial_fit(X, y)


def edited(state):
    """States of which one number of an array is another one, and what that is."""
    for name, array in state.items():
        if name == "solver.memory":
            yield from edited_memory(state, name)
            continue
        for field in array.dtype.names or [None]:
            kind = array.dtype if field is None else array.dtype[field]
            values = [0, 1, 2, 10**6, 2**31, 2**60, 2**61, 2**62 - 1]
            if kind.kind == "f":
                values += [1e-300, -1.0, 1e300, np.inf, -np.inf, np.nan]
            for value in values:
                copy = array.copy()
                (copy if field is None else copy[field]).flat[-1:] = value
                yield f"{name}[{field}] = {value}", state | {name: copy}


def n_steps_of(state):
    """The steps of Pegasos that a state claims."""
    linear = _linear.LinearSolver.restore(
        None, {k.removeprefix("solver."): v for k, v in state.items() if k.startswith("solver.")}, 0
    )
    return max(linear.solutions()["n_steps"])


COUNTS, NUMBERS = (0, 1, 2, 10**6, 2**61, -1), (0.0, 1e-300, -1.0, 1e300, np.inf, np.nan)


def edited_memory(state, name):
    """The same of each word before the arrays of a fit, and of three words in each array."""
    memory, (n_rows, n_features) = state[name], state["solver.shape"].tolist()
    if "solver.sizes" in state:
        n_rows, n_features = state["solver.sizes"][-1].tolist()
    n_words = _core.Fits.n_bytes(n_rows, n_features) // 8
    last = memory.reshape(-1)[None, -8 * n_words :].copy()
    before = _core.Fits(1, n_rows, n_features, last).a.ctypes.data - last.ctypes.data
    words = [*range(before // 8 + 1), *range(before // 8 + 1, n_words, n_rows // 3)]
    # Each of several problems has the layout of one, which is edited word by word.
    for word in words[:: 5 if "solver.sizes" in state else 1]:
        now = abs(int(memory.reshape(-1).view(np.int64)[word - n_words]))
        # Bits of small integers are those of a count, and other bits those of a number.
        kinds = (COUNTS, NUMBERS) if now == 0 else (COUNTS,) if now < 2**52 else (NUMBERS,)
        for value in dict.fromkeys(itertools.chain(*kinds)):
            copy = memory.copy()
            words = copy.reshape(-1).view(np.int64 if isinstance(value, int) else np.float64)
            words[word - n_words] = value
            yield f"word {word} = {value}", state | {name: copy}


@pytest.mark.parametrize("name", WARM)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:lam . steps . batch_size")
def test_whatever_a_state_says_a_fit_ends(name):
    """Refused, or carried out in the epochs that were asked for, to a model of finite numbers."""
    clf, X, y = warmed(name)
    n_refused = 0
    for what, state in edited(clf._state):
        other = copy.copy(clf)
        other._state = {name: array.copy() for name, array in state.items()}
        print(what)
        refusal = None
        try:
            other.fit(X, y)
        except ValueError as error:
            refusal = str(error)
        if refusal is not None:
            assert "state" in refusal or "overflow" in refusal, what
            n_refused += 1
            continue
        before = max(state["problems"]["n_steps"])
        if "solver.memory" in state:
            before += n_steps_of(state)
        assert np.isfinite(other.decision_function(X)).all(), what
        assert (other.n_steps_ <= before + len(X) * 20).all(), what
    assert n_refused > 50


# Words of `state` and `kernel_state` (``csrc/fit.h``) and values that they cannot have after three
# epochs over 30 rows, or in the first one.
PEGASOS, DUAL = 25, 25 + _core.PROBLEM.itemsize // 8
ASCENT = DUAL + _core.DUAL_STATE.itemsize // 8
NEWTON = ASCENT + 9
OUT_OF_RANGE = {
    "first epoch": {
        "lam": {16: 0.0},
        "intercept, of which there is none": {23: 1.0},
        "last_step": {PEGASOS + _core.PROBLEM.names.index("last_step"): 29},
    }
    | {
        name: {PEGASOS + _core.PROBLEM.names.index(name): value}
        for name, value in {
            "lam": 0.0, "ball": 1.0, "average_from": 1, "delay": -1, "n_steps": 31, "next_draw": 31,
            "n_drawn": 1, "n_pending": 1, "q": 0.0,
        }.items()
    },
    "ascent": {
        "epochs of two solvers": {6: 2, 7: 2},
        "gap_before": {11: -1.0},
        "epochs_before_budgets": {12: 4},
        "n_epochs": {21: 2**62 // 30},
        "n_visits": {ASCENT + 2: 4 * 30 + 1},
        "n_snapshots": {ASCENT + 5: -1},
    }
    | {
        name: {DUAL + _core.DUAL_STATE.names.index(name): value}
        for name, value in {
            "factor": 2.0, "n_active": 31, "position": 31, "n_chosen": 31, "n_kept": 1,
            "n_moved": -1,
        }.items()
    },
    "newton": {
        "narrowest": {NEWTON + 1: 0.0},
        "widest": {NEWTON + 2: -1.0},
        "width": {NEWTON + 3: 0.0},
        "n_idle": {NEWTON + 5: 4},
        "was_idle": {NEWTON + 6: 2},
    },
    "kernel": {
        "mass": {17: 0.0},
        "phase": {24: 6},
        "position": {26: 2**40},
        "most_steps": {27: 2**62 // 30},
        "n_steps": {38: 30 * 4 + 1},
        "intercept, of which there is none": {40: 1.0},
    },
}  # fmt: skip


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("of", OUT_OF_RANGE)
def test_numbers_of_a_fit_have_their_ranges(rng, of, loss):
    X, y = make_rows(rng, n=30, d=3, density=1)
    targets = core_targets(loss, y, np.ones(30), lams=np.array([0.01]))
    asks = itertools.count()

    def on_poll():
        if of == "first epoch" and next(asks) >= 2:
            raise KeyboardInterrupt

    rows, d = _core.Rows(X), 3
    if of == "kernel":
        source, d = Source.whole(X @ X.T), 0
        rows = _core.Matrix(source.core, lambda _: np.empty((30, 0)), is_positive=True)
    fits = _core.Fits(1, 30, d)
    with contextlib.suppress(KeyboardInterrupt):
        _core.solve(
            rows, targets, (X**2).sum(axis=1), fits, np.full(1, 3), tol=-1, seed=3,
            solver=_core.ASCENT if of in ("ascent", "kernel") else _core.NEWTON,
            watch=_core.Watch(on_poll, every=30),
        )  # fmt: skip
    memory = fits.memory
    assert fits.are_valid(targets, 8)
    a = (fits.a.ctypes.data - memory.ctypes.data) // 8
    out_of_range = OUT_OF_RANGE[of] | {"dual variable": {a: -0.1}}
    if of == "newton" and loss == "squared_hinge":  # its own width is 1/2
        out_of_range["width of this loss"] = {NEWTON + 3: 0.4}
    for name, change in out_of_range.items():
        changed = memory.copy()
        for word, value in change.items():
            kind = np.float64 if isinstance(value, float) else np.int64
            changed.reshape(-1).view(kind)[word] = value
        assert not _core.Fits(1, 30, d, changed).are_valid(targets, 8), name


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interrupted_fit_may_go_on_with_fewer_epochs():
    """Those it has done already are neither done again nor taken back."""
    clf, X, y = warm(PegasosClassifier, solver="pegasos", tol=1e-9, max_iter=50)
    n_iter, n_steps = clf.n_iter_, clf.n_steps_
    clf._state["epochs_begun"][0] = 40  # of 50, interrupted
    clf.set_params(max_iter=20).fit(X, y)
    assert clf.n_iter_ == n_iter
    np.testing.assert_array_equal(clf.n_steps_, n_steps)


def test_a_state_may_be_of_other_rows():
    """What waits for the rest of a batch is dropped when rows change; it is no damage."""
    clf, X, y = warm(PegasosClassifier, n_steps=17, batch_size=3)
    clf.fit(X[:9], y[:9]).fit(X[:6], y[:6])
    pieces = PegasosClassifier(lam=0.1, batch_size=7, random_state=0)
    for n in (40, 6, 11, 6):
        pieces.partial_fit(X[:n], y[:n], classes=[0, 1, 2])
    assert np.isfinite(pieces.coef_).all()


@pytest.mark.parametrize("make", [PegasosClassifier, KernelPegasosClassifier])
def test_coefficients_of_another_shape_are_refused(make):
    clf, X, _ = warm(make, n_steps=17)
    name = "coef_" if make is PegasosClassifier else "dual_coef_"
    for attribute, change in [
        ("intercept_", lambda a: a[:1]),
        ("intercept_", lambda a: np.append(a, 0)),
        (name, lambda a: a[:1]),
        (name, lambda a: np.vstack([a, a])),
        (name, lambda a: a[:, :2]),
        (name, lambda a: a[0]),
    ]:
        other = copy.copy(clf)
        setattr(other, attribute, change(getattr(clf, attribute)))
        with pytest.raises(ValueError, match=r"shape|feature"):
            other.predict(X)


def test_a_file_that_is_no_checkpoint_is_refused_before_rows_are_read(tmp_path, capsys):
    np.savez(tmp_path / "other.npz", X=np.eye(2))
    PegasosClassifier().fit(np.eye(2), [0, 1]).to_model().save(tmp_path / "model.npz")
    (tmp_path / "text.npz").write_text("1 1:2\n")
    for name, words in (
        ("missing.npz", "missing.npz: No such file"), ("text.npz", "text.npz is not a checkpoint"),
        ("model.npz", "model.npz is a model, but no checkpoint"),
        ("other.npz", "other.npz is no checkpoint: there is nothing to go on from"),
    ):  # fmt: skip
        assert cli.main(["train", "no such file", "--resume", str(tmp_path / name)]) == 2
        assert words in capsys.readouterr().err
