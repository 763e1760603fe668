"""Linear machines on a Dask cluster: two workers of one thread each, in this process."""

import asyncio
import contextlib
import doctest
import gc
import itertools
import os
import pickle
import re
import runpy
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import killing
import numpy as np
import pytest
from losses import ALL, EPSILON, LOSSES
from scipy import sparse

distributed = pytest.importorskip("distributed", reason='needs pip install ".[dask]"')
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", reason='needs pip install ".[dask]"')
import dask
import pandas as pd
from sklearn.base import clone

import pegasos.dask
from pegasos import PegasosClassifier, PegasosRegressor, load
from pegasos.dask import DaskPegasosClassifier, DaskPegasosRegressor
from pegasos.problems import _partitions
from pegasos.problems._multiclass import problem_labels
from pegasos.problems._settings import Settings
from pegasos.solvers import _rounds

LAM = 0.01


@pytest.fixture(scope="module")
def cluster():
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 6)) * (rng.random((120, 6)) < 0.7)
    y = np.where(X @ rng.normal(size=6) + rng.normal(size=120) > 0, "yes", "no")
    return X, y


def in_chunks(array, sizes=(50, 30, 40)):
    chunks = (sizes, *((n,) for n in array.shape[1:]))
    return da.from_array(array, chunks=chunks)


def of_unknown_sizes(parts, n_columns=None):
    """A Dask array of arrays whose numbers of rows it does not know."""
    shape = (np.nan,) if n_columns is None else (np.nan, n_columns)
    arrays = [
        da.from_delayed(dask.delayed(part, traverse=False), shape, parts[0].dtype) for part in parts
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def same_bits(one, other):
    for name in ("coef_", "intercept_", "objective_", "dual_objective_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.n_iter_ == other.n_iter_


def test_the_bits_of_a_process_without_dask(client, cluster, data):
    X, y = data
    clf = DaskPegasosClassifier(lam=LAM, random_state=3, client=client)
    clf.fit(in_chunks(X), in_chunks(y))
    ends, local = [0, 50, 80, 120], PegasosClassifier(lam=LAM, random_state=3)
    parts = [
        _partitions.checked(k, X[i:j], y[i:j], None, local)
        for k, (i, j) in enumerate(pairwise(ends))
    ]
    about = _partitions.Partitions([part.about for part in parts])
    settings = Settings(LAM)
    blocks = _rounds.BlockRunner([
        _rounds.Block(
            X=part.X, labels=problem_labels(about.codes(part.y), 2, "ovr"), weights=None,
            values=None, settings=settings,
        )
        for part in parts
    ])  # fmt: skip
    rounds = _rounds.Rounds(settings, blocks, about, np.array([120.0]), np.array([120]), 3)
    certificate, (coef, intercept) = rounds.train(tol=1e-3, max_iter=300), rounds.model()
    np.testing.assert_array_equal(clf.coef_, coef)
    np.testing.assert_array_equal(clf.intercept_, intercept)
    np.testing.assert_array_equal(clf.dual_objective_, certificate.dual_objective)
    assert clf.n_iter_ == rounds.n_passes
    # One worker and four give the bits of two.
    for n_workers in (1, 4):
        with distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as others, distributed.Client(others, set_as_default=False) as other:  # fmt: skip
            same_bits(clf, clone(clf).set_params(client=other).fit(in_chunks(X), in_chunks(y)))


@pytest.mark.parametrize("loss", ALL)
def test_the_certificate_and_the_model_are_those_of_all_rows(client, data, loss):
    X, y = data
    weights = np.linspace(0, 2, len(y)).round(1)
    if loss in LOSSES:
        kinds, more, z = (DaskPegasosClassifier, PegasosClassifier), {"multi_class": "ovr"}, 1.0
    else:
        kinds, more = (DaskPegasosRegressor, PegasosRegressor), {"epsilon": EPSILON}
        y = z = X[:, 0] * 3 + (y == "yes")
    here, local = (kind(lam=LAM, loss=loss, random_state=0, **more) for kind in kinds)
    here.fit(in_chunks(X), in_chunks(y), in_chunks(weights))
    local.set_params(tol=1e-7, max_iter=10**5).fit(X, y, weights)
    w, b = np.ravel(here.coef_), here.intercept_[0]
    signs = np.where(y == "yes", 1, -1) if loss in LOSSES else 1
    losses = ALL[loss](z - signs * (X @ w + b))
    objective = LAM / 2 * (w @ w + b * b) + weights @ losses / weights.sum()
    np.testing.assert_allclose(here.objective_, objective, rtol=1e-12)
    assert here.duality_gap_[0] <= 1e-3 * objective
    np.testing.assert_allclose(here.duality_gap_, here.objective_ - here.dual_objective_)
    assert local.objective_[0] <= here.objective_[0] * (1 + 1e-7)
    assert here.dual_objective_[0] <= local.objective_[0] * (1 + 1e-9)
    assert here.lam_ == LAM
    assert here.coef_.shape == local.coef_.shape
    # What it predicts is lazy, and what the local estimator predicts.
    alone = here.to_local()
    assert type(alone) is type(local)
    assert here.predict(in_chunks(X)).chunks == ((50, 30, 40),)
    np.testing.assert_array_equal(here.predict(in_chunks(X)).compute(), alone.predict(X))
    score = here.score(in_chunks(X), in_chunks(y), in_chunks(weights))
    np.testing.assert_allclose(score, alone.score(X, y, weights), rtol=1e-12)
    if loss in LOSSES:
        scores = here.decision_function(in_chunks(X)).compute()
        np.testing.assert_array_equal(scores, alone.decision_function(X))
    assert hasattr(here, "predict_proba") == (loss in ("log_loss", "modified_huber"))
    if hasattr(here, "predict_proba"):
        np.testing.assert_array_equal(
            here.predict_proba(in_chunks(X)).compute(), alone.predict_proba(X)
        )
    np.testing.assert_array_equal(alone.to_model().predict(X), alone.predict(X))
    # Training goes on from it.
    before = alone.coef_.copy()
    alone.partial_fit(X, y)
    assert 0 < np.abs(alone.coef_ - before).max() < 2 * np.abs(before).max()


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "columns", "rows", "unknown", "frame"])
def test_what_holds_the_rows_does_not_matter(client, data, kind):
    X, y = data
    codes = (y == "yes").astype(int)
    clf = DaskPegasosClassifier(lam=LAM, loss="squared_hinge", random_state=0)
    wanted = clone(clf).fit(in_chunks(X), in_chunks(codes))
    ends = ((0, 50), (50, 80), (80, 120))
    dX, dy = in_chunks(X), in_chunks(codes)
    if kind.startswith("csr"):
        dX = dX.map_blocks(getattr(sparse, kind), dtype=float)
    elif kind == "columns":
        dX = dX.rechunk({1: (4, 2)})
    elif kind == "rows":
        dy = dy.rechunk(32)
    elif kind == "unknown":  # with partitions that have no rows
        dX = of_unknown_sizes([X[:0], *(X[i:j] for i, j in ends), X[:0]], 6)
        dy = of_unknown_sizes([codes[:0], *(codes[i:j] for i, j in ends), codes[:0]])
    else:
        frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=codes)
        parts = [dask.delayed(frame[i:j]) for i, j in ends]
        frame = dd.from_delayed(parts, meta=frame[:0])
        dX, dy = frame[list("abcdef")], frame["label"]
    clf.fit(dX, dy)
    if kind.startswith("csr"):
        np.testing.assert_allclose(clf.coef_, wanted.coef_, rtol=1e-3)
    else:
        same_bits(clf, wanted)
    assert hasattr(clf, "feature_names_in_") == (kind == "frame")
    predicted = clf.predict(dX).compute()
    assert predicted.shape == (120,)
    assert clf.score(dX, dy) == np.mean(predicted == codes)
    if kind == "frame":
        with pytest.raises(ValueError, match=r"X must have the columns of the fit.*'b'"):
            clf.predict(dX[list("bacdef")])
        with pytest.raises(ValueError, match="X has 2 features"):
            clone(clf).fit(in_chunks(X), dy := in_chunks(codes)).predict(in_chunks(X[:, :2]))
        words = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")).assign(label=y), 3)
        assert set(clone(clf).fit(words[list("abcdef")], words["label"]).classes_) == {"no", "yes"}
        with pytest.raises(ValueError, match=r"got text .* in column 'label': encode it"):
            clone(clf).fit(words, words["label"])
        with pytest.raises(ValueError, match=r"got text .* in column 'label': encode it"):
            clone(clf).fit(words.astype({"label": "category"}).categorize(), words["label"])
        dates = words.assign(label=pd.Timestamp("2026-01-01"))
        with pytest.raises(TypeError, match="column 'label' of X must be numeric, got dtype date"):
            clone(clf).fit(dates, words["label"])


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_several_classes_share_the_rounds(client, rng, multi_class, class_weight):
    X = rng.normal(size=(150, 5))
    y = np.argmax(X[:, :4] + rng.normal(size=(150, 4)), axis=1)
    params = {"multi_class": multi_class, "class_weight": class_weight, "random_state": 0}
    here = DaskPegasosClassifier(C=1.0, loss="log_loss", **params)
    here.fit(in_chunks(X, (70, 80)), in_chunks(y, (70, 80)))
    local = PegasosClassifier(C=1.0, loss="log_loss", tol=1e-8, **params).fit(X, y)
    np.testing.assert_allclose(here.lam_, local.lam_)
    assert (here.duality_gap_ <= 1e-3 * here.objective_).all()
    assert (here.objective_ >= local.objective_ * (1 - 1e-7)).all()
    assert (here.dual_objective_ <= local.objective_ * (1 + 1e-9)).all()
    for method in ("predict", "decision_function", "predict_proba"):
        lazy = getattr(here, method)(in_chunks(X, (70, 80)))
        np.testing.assert_array_equal(lazy.compute(), getattr(here.to_local(), method)(X))


def test_several_outputs_share_the_rounds(client, data, rng):
    X = data[0]
    y = X @ rng.normal(size=(6, 2)) * [1, 1000] + rng.normal(size=(120, 2)) + [0, 5]
    params = {"loss": "squared_error", "penalize_intercept": False, "random_state": 0}
    here = DaskPegasosRegressor(C=10.0, **params).fit(in_chunks(X), in_chunks(y))
    local = PegasosRegressor(C=10.0, tol=1e-9, **params).fit(X, y)
    assert here.coef_.shape == (2, 6)
    np.testing.assert_allclose(here.objective_, local.objective_, rtol=1e-3)
    predicted = here.predict(in_chunks(X))
    assert predicted.shape == (120, 2)
    np.testing.assert_array_equal(predicted.compute(), here.to_local().predict(X))
    np.testing.assert_allclose(here.score(in_chunks(X), in_chunks(y)), here.to_local().score(X, y))


class OfLogLoss(DaskPegasosClassifier):
    """A subclass that has a parameter of its own, and sets others itself."""

    def __init__(self, note="", client=None):
        super().__init__(lam=LAM, loss="log_loss", client=client)
        self.note = note


def test_a_subclass_is_fitted_with_what_it_sets(client, data):
    X, y = data
    fitted = OfLogLoss("mine", client).fit(in_chunks(X), in_chunks(y))
    assert fitted.to_local().loss == "log_loss"
    assert fitted.lam_ == LAM


def test_a_local_estimator_needs_no_dask(client, data, tmp_path):
    X, y = data
    clf = DaskPegasosClassifier(lam=LAM, random_state=0, client=client)
    clf.fit(in_chunks(X), in_chunks(y))
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((clf.to_local(), X, clf.predict(in_chunks(X)).compute())))
    code = f"""
import pickle, sys
local, X, wanted = pickle.load(open({str(path)!r}, "rb"))
assert (local.predict(X) == wanted).all() and local.n_iter_ > 0 and local.to_model().lam == {LAM}
assert not {{"dask", "distributed"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    again = pickle.loads(pickle.dumps(clf))
    assert again.client is None
    assert clone(clf).client is client
    np.testing.assert_array_equal(again.to_local().predict(X), clf.to_local().predict(X))


@pytest.mark.parametrize("kind", ["array", "csr_array", "csr_matrix", "frame"])
def test_local_estimators_tell_that_they_read_a_collection_into_memory(data, kind):
    X, y = data
    dX = in_chunks(X) if kind != "frame" else dd.from_pandas(pd.DataFrame(X, columns=[*"abcdef"]))
    if kind.startswith("csr"):
        dX = dX.map_blocks(getattr(sparse, kind))
        with pytest.raises(TypeError, match=r"chunks that are sparse: use X\.compute\(\)"):
            pegasos.fit(dX, y, lam=0.1)
    for local, twin in (
        (PegasosClassifier(random_state=0), "pegasos.dask.DaskPegasosClassifier trains"),
        (pegasos.PegasosClassifierCV(Cs=2, cv=3, random_state=0), "DaskPegasosClassifier trains"),
        (pegasos.KernelPegasosRegressor(random_state=0), "DaskPegasosRegressor trains linear"),
        (pegasos.PegasosOneClass(nu=0.9, random_state=0), "of this process. PegasosOneClass takes"),
    ):
        targets = (y == "yes").astype(float)
        with pytest.warns(UserWarning, match="X is a Dask .* into the memory") as told:
            local.fit(dX, in_chunks(targets))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one class may have w = 0
            warnings.filterwarnings("error", message="X is a Dask")
            whole = clone(local).fit(dX.compute(), targets)
        said = [warning for warning in told if "Dask" in str(warning.message)]
        assert twin in str(said[0].message)
        assert said[0].filename == __file__
        with pytest.warns(UserWarning, match=r"takes X\.compute\(\) without this warning"):
            predicted = local.predict(dX)
        np.testing.assert_array_equal(predicted, whole.predict(dX.compute()))


@pytest.mark.parametrize("kind", ["classes", "outputs"])
def test_a_fit_goes_on_from_its_checkpoint(client, data, rng, tmp_path, kind):
    X, y = data
    path, weights = tmp_path / "fit.npz", in_chunks(np.linspace(1, 2, 120))
    kinds = DaskPegasosClassifier, {"class_weight": {"yes": 2.0}, "penalize_intercept": False}
    if kind == "outputs":
        y, kinds = X @ rng.normal(size=(6, 2)) * [1, 1e3], (DaskPegasosRegressor, {})
    clf = kinds[0](lam=LAM, random_state=0, tol=1e-4, **kinds[1])
    data = in_chunks(X), in_chunks(y), weights
    wanted = clone(clf).fit(*data)
    clf.set_params(checkpoint=path)
    for max_iter in (2, 5, 300, 300):  # the last one has nothing left to do
        told = pytest.warns(match="max_iter") if max_iter < 300 else contextlib.nullcontext()
        with told:
            clf.set_params(max_iter=max_iter).fit(*data)
        so_far = load(path)
        np.testing.assert_array_equal(so_far.coef, np.atleast_2d(clf.coef_))
    same_bits(clf, wanted)
    assert clf.to_local()._checkpoints is None
    finer = clone(wanted).set_params(tol=2e-5).fit(*data)
    np.testing.assert_array_equal(clf.set_params(tol=2e-5).fit(*data).coef_, finer.coef_)
    for other, message in (
        (clone(clf).set_params(lam=0.1), "lam must be 0.01 to go on from"),
        (clone(clf).set_params(lam=None, C=1.0), "C must be None"),
    ):
        with pytest.raises(ValueError, match=message):
            other.fit(*data)
    with pytest.raises(ValueError, match="a checkpoint of a fit to other data"):
        clf.fit(in_chunks(X + 1e-9), *data[1:])
    before = clf.coef_
    with pytest.raises(ValueError, match="a checkpoint of a fit to other data"):
        clf.fit(*(array.rechunk({0: 60}) for array in data))
    assert clf.coef_ is before
    clf.to_local().to_model().save(path)
    with pytest.raises(ValueError, match="is a model, but no checkpoint"):
        clf.fit(*data)


def fit_until_killed(clf, X, y):
    """Fit on a cluster of this process, which is killed while its eighth pass is under way."""

    class Killed(pegasos.dask._DaskBlockRunner):
        def result(self, total, centres):
            if next(passes) == 8:
                self.run.begin([total])
                os.kill(os.getpid(), signal.SIGKILL)
            return super().result(total, centres)

    passes, pegasos.dask._DaskBlockRunner = itertools.count(1), Killed
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        clf.set_params(checkpoint_every=1e-9).fit(in_chunks(X), in_chunks(y))


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_killed_client_goes_on_to_the_same_bits(client, rng, tmp_path, loss):
    """Of the hinge, centres have moved; of many features, there are pairs of L-BFGS."""
    has_pairs, path = loss != "hinge", tmp_path / "fit.npz"
    X = rng.normal(size=(120, _rounds.MOST_FEATURES + 1 if has_pairs else 6))
    y = (X[:, :3] + rng.normal(size=(120, 3))).argmax(axis=1)
    clf = DaskPegasosClassifier(loss=loss, lam=1.0 if has_pairs else LAM, random_state=0)
    wanted = clone(clf).fit(in_chunks(X), in_chunks(y))
    clf.set_params(checkpoint=path)
    assert killing.exit_code(fit_until_killed, clf, X, y) == -signal.SIGKILL
    with np.load(path) as so_far:
        assert len(so_far["state.0.pairs" if has_pairs else "state.moves"]) > 0
    same_bits(clf.fit(in_chunks(X), in_chunks(y)), wanted)


def test_three_fits_at_once(client, data):
    X, y = data
    clf = DaskPegasosClassifier(lam=LAM, random_state=0, client=client)
    with ThreadPoolExecutor(3) as threads:
        fits = list(threads.map(lambda _: clone(clf).fit(in_chunks(X), in_chunks(y)), range(3)))
    for other in fits[1:]:
        same_bits(fits[0], other)


def test_a_worker_that_joins_gets_its_share(data, monkeypatch):
    X, y = data

    class Joined(pegasos.dask.Rounds):
        """At the third round, there is another worker."""

        def _make_round(self, *arguments):
            if self.n_passes == 3:
                cluster.scale(2)
                client.wait_for_workers(2, timeout=600)
                self.blocks._looked -= pegasos.dask._POLL  # it looks for others before this round
            super()._make_round(*arguments)

    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster, set_as_default=False) as client:  # fmt: skip
        clf = DaskPegasosClassifier(lam=LAM, random_state=0, client=client, tol=1e-6)
        wanted = clone(clf).fit(in_chunks(X), in_chunks(y))
        monkeypatch.setattr(pegasos.dask, "Rounds", Joined)
        same_bits(wanted, clf.fit(in_chunks(X), in_chunks(y)))
        tasks = client.run(lambda dask_worker: dask_worker.state.executed_count).values()
    assert wanted.n_iter_ > 5
    assert min(tasks) > wanted.n_iter_ - 5


def test_workers_have_equally_many_blocks(client, data):
    """Dask leaves a task where its rows are: of two workers, one had seven of eight partitions."""
    X, y = data
    first, second = client.nthreads()
    with pegasos.dask._Run(client, 30.0) as run:
        tasks = [pegasos.dask._task(_rounds.identity)(k) for k in range(9)]
        futures = run.begin(tasks, workers=[first])
        distributed.wait(futures)
        shared = run.shared(futures)
        distributed.wait(shared)
        places = client.who_has(shared)
        assert sum(second in places[future.key] for future in shared) == 4
        assert client.gather(shared) == list(range(9))
        again = run.shared(shared)  # they are at rest
        assert [future.key for future in again] == [future.key for future in shared]

    clf = DaskPegasosClassifier(lam=LAM, random_state=0, client=client)
    wanted = clone(clf).fit(in_chunks(X, (15,) * 8), in_chunks(y, (15,) * 8))
    rows = [client.persist(in_chunks(array, (15,) * 8), workers=[first]) for array in (X, y)]
    same_bits(wanted, clf.fit(*rows))


def test_rows_stay_where_they_are():
    """Dask takes work on them to a worker that has the message, and the rows with it."""

    def evaluate(block, centres, number, message):
        is_first = distributed.get_worker().address == first
        return {"first": np.eye(8)[number] * is_first}

    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.as_current(),
        pegasos.dask._Run(client, 30.0) as run,
    ):
        first = min(client.nthreads())
        tasks = [pegasos.dask._task(_rounds.identity)(k) for k in range(8)]
        futures = run.begin(tasks, workers=[first])
        distributed.wait(futures)
        parts = run.shared(futures)
        blocks = run.begin_at_home(lambda part, sent: part + sent, parts, 1)
        runner = pegasos.dask._DaskBlockRunner(run, blocks)
        for _ in range(3):
            at_first = runner.sum_up(evaluate, np.ones(10**5))["first"]
            places = client.who_has(blocks)
            assert [len(places[block.key]) for block in blocks] == [1] * 8
            assert at_first.tolist() == [first in places[block.key] for block in blocks]
            assert at_first.sum() == 4
        assert client.gather(blocks) == list(range(1, 9))


def test_what_a_worker_refuses_is_not_moved_to_it_again(client):
    """An annotation of the caller's, or a pause, keeps tasks away from a worker."""
    first = min(client.nthreads())
    with pegasos.dask._Run(client, 30.0) as run:
        tasks = [pegasos.dask._task(_rounds.identity)(k) for k in range(6)]
        with dask.annotate(workers=[first], allow_other_workers=False):
            futures = run.begin(tasks, workers=[first])
            distributed.wait(futures)
            for _ in range(2):
                futures = run.shared(futures)
                distributed.wait(futures)
            keys = [future.key for future in run.shared(futures)]
        assert keys == [future.key for future in futures]
        assert client.gather(futures) == list(range(6))


def check_nothing_is_left(client):
    """The scheduler forgets tasks a moment after the client has let go of them."""
    deadline = time.monotonic() + 600
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ctrl_c_leaves_nothing_on_the_cluster(client, data):
    X, y = data
    clf = DaskPegasosClassifier(lam=LAM, random_state=0, max_iter=10**6, tol=1e-300)

    class Struck:
        """Rows of which the first ones bring Ctrl-C, and are not ready when it comes."""

        def __call__(self, block):
            if len(block) == 50:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)
            return block

    with pytest.raises(KeyboardInterrupt):
        clf.fit(in_chunks(X).map_blocks(Struck(), dtype=float), in_chunks(y))
    assert not hasattr(clf, "coef_")
    check_nothing_is_left(client)


def test_a_fit_leaves_nothing_on_the_cluster(client, data):
    X, y = data
    DaskPegasosClassifier(lam=LAM, random_state=0).fit(in_chunks(X), in_chunks(y))
    check_nothing_is_left(client)


def test_bad_input_is_told_in_a_sentence(client, data, caplog):
    X, y = data
    codes, dX = (y == "yes").astype(float), in_chunks(X)
    clf, reg = DaskPegasosClassifier(lam=LAM), DaskPegasosRegressor(lam=LAM)
    dy = in_chunks(codes)
    bad = X.copy()
    bad[60, 2] = np.nan
    cases = [
        (ValueError, r"partition 1: .*X\[10, 2\] is nan", lambda: clf.fit(in_chunks(bad), dy)),
        (ValueError, "one class", lambda: clf.fit(dX, in_chunks(np.ones(120)))),
        (TypeError, "y must be a Dask array or data frame, got None", lambda: reg.fit(dX)),
        (TypeError, "checkpoint must be a str or a path, got 5",
         lambda: DaskPegasosClassifier(checkpoint=5).fit(dX, dy)),
        (ValueError, "sample_weight must not be all zero", lambda: reg.fit(dX, dy, 0 * dy)),
        (ValueError, "with rows of weight > 0", lambda: clf.fit(dX, dy, 1 * (dy == 0))),
        (ValueError, r"partition \d: sample_weight must be >= 0", lambda: clf.fit(dX, dy, dy - 1)),
        (ValueError, r"y must have a row for each row of X \(120\), got 20",
         lambda: clf.fit(dX, dy[:20])),
        (ValueError, r"partition \d: .* X has \d+ and y has \d+",
         lambda: clf.fit(dX, of_unknown_sizes([codes[:49], codes[49:80], codes[80:]]))),
        (ValueError, "y must have the partitions of X, 3, got 2.*compute_chunk_sizes",
         lambda: clf.fit(dX, of_unknown_sizes([codes[:50], codes[50:]]))),
        (ValueError, "partition 0 has 6 features, and partition 1 has 5",
         lambda: clf.fit(
             of_unknown_sizes([X[:50], X[50:, :5]], 6),
             of_unknown_sizes([codes[:50], codes[50:]]))),
        (ValueError, "partition 0 has float64 as the type of X, and partition 1 has float32",
         lambda: clf.fit(
             of_unknown_sizes([X[:50], X[50:].astype("f")], 6),
             of_unknown_sizes([codes[:50], codes[50:]]))),
        (TypeError, "labels of one kind", lambda: clf.fit(
            of_unknown_sizes([X[:50], X[50:]], 6),
            of_unknown_sizes([codes[:50].astype(int), y[50:].astype(object)]))),
        (ValueError, "all partitions are empty",
         lambda: clf.fit(of_unknown_sizes([X[:0]], 6), of_unknown_sizes([codes[:0]]))),
        (TypeError, "X must be a Dask array or data frame, got ndarray", lambda: clf.fit(X, dy)),
        (ValueError, "X must be two-dimensional", lambda: clf.fit(dX[:, 0], dy)),
        (ValueError, "tol must be a finite number > 0",
         lambda: clone(clf).set_params(tol=0).fit(dX, dy)),
        (ValueError, "C or lam must be None", lambda: clone(clf).set_params(C=1).fit(dX, dy)),
        (ValueError, "loss must be one of",
         lambda: clone(reg).set_params(loss="hinge").fit(dX, dy)),
        (ValueError, r"partition \d: sample_weight must be finite",
         lambda: reg.fit(dX, dy, in_chunks(np.full(120, np.nan)))),
    ]  # fmt: skip
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()
    assert not caplog.records  # of workers, whose tasks failed
    assert not hasattr(clf, "coef_")
    assert not hasattr(reg, "coef_")
    for fitted in (clf.fit(dX, dy), reg.fit(dX, dy)):
        with pytest.raises(ValueError, match="all partitions are empty"):
            fitted.score(dX[:0], dy[:0])
        with pytest.raises(TypeError, match=r"got ndarray\. .* or predict with to_local\(\)"):
            fitted.predict(X)


def test_a_fit_that_ends_early_warns(client, data):
    X, y = data
    clf = DaskPegasosClassifier(lam=1e-5, random_state=0, tol=1e-9, max_iter=2)
    with pytest.warns(match="stopped at max_iter=2. Objective"):
        clf.fit(in_chunks(X), in_chunks(y))
    assert clf.n_iter_ == 3
    assert (clf.duality_gap_ > 0).all()


def test_a_cluster_without_workers_or_client_is_told(data, caplog):
    X, y = data
    clf = DaskPegasosClassifier(lam=LAM, worker_timeout=1.0)
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=":0"
    ) as empty, distributed.Client(empty, set_as_default=False) as client:  # fmt: skip
        clf.client = client
        with pytest.raises(RuntimeError, match="no worker for almost worker_timeout=1 s"):
            clf.fit(in_chunks(X), in_chunks(y))
        check_nothing_is_left(client)
        client.sync(asyncio.sleep, 0)
        gc.collect()
        assert "never retrieved" not in caplog.text  # by Dask, of what the fit waited for
    with pytest.raises(RuntimeError, match="the Dask client is closed"):
        clf.fit(in_chunks(X), in_chunks(y))


@pytest.mark.parametrize("died", [0.0, 0.3, 6.0, 7.999])
@pytest.mark.parametrize("timeout", [30.0, 1.5])
def test_a_fit_gives_up_within_worker_timeout_of_the_last_worker(monkeypatch, died, timeout):
    now = 100.0

    def result(timeout):
        nonlocal now
        now += timeout
        raise TimeoutError

    def nthreads():
        nonlocal now
        is_there = now < 100 + died
        now += timeout / 3000  # for the answer
        return {"a worker": 1} if is_there else {}

    monkeypatch.setattr(pegasos.dask, "time", SimpleNamespace(monotonic=lambda: now))
    run = pegasos.dask._Run(SimpleNamespace(status="running", nthreads=nthreads), timeout)
    with pytest.raises(RuntimeError, match=f"no worker for almost worker_timeout={timeout:g} s"):
        run._wait(SimpleNamespace(result=result, done=lambda: False))
    assert 0.75 * timeout < now - (100 + died) <= timeout


def test_no_client_is_told(data, monkeypatch):
    X, y = data

    def none():
        raise ValueError("no clients found")

    monkeypatch.setattr(distributed, "default_client", none)
    with pytest.raises(ValueError, match="there is no Dask client"):
        DaskPegasosClassifier().fit(in_chunks(X), in_chunks(y))


@pytest.mark.parametrize("kind", [DaskPegasosClassifier, DaskPegasosRegressor])
def test_examples_of_the_reference_run(kind):
    (found,) = [test for test in doctest.DocTestFinder().find(kind, globs={}) if test.examples]
    said = []
    assert doctest.DocTestRunner().run(found, out=said.append).failed == 0, "".join(said)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # Dask's own
def test_the_page_on_clusters_shows_what_runs(client, cluster, data, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.chdir(tmp_path)
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=y)
    dd.from_pandas(frame, 2).to_parquet("clicks")
    page = (Path(__file__).parents[1] / "docs" / "clusters.rst").read_text("utf-8")
    block = re.search(r"code-block:: python\n\n((?:   .*\n|\n)+)", page)[1]
    assert "scheduler:8786" in block
    block = textwrap.dedent(block).replace("scheduler:8786", cluster.scheduler_address)
    Path("shown.py").write_text(block, "utf-8")
    shown = runpy.run_path("shown.py")
    shown["client"].close()
    gap, rounds = re.findall(r"[\d.e-]+", capsys.readouterr().out)
    assert float(gap) <= 1e-3
    assert int(rounds) == shown["clf"].n_iter_
    np.testing.assert_array_equal(shown["local"].coef_, shown["clf"].coef_)


def test_a_killed_worker_changes_no_bit(rng):
    X = rng.normal(size=(4000, 20))
    y = X @ rng.normal(size=20) + 3 * rng.normal(size=4000) > 0
    dX, dy = in_chunks(X, (500,) * 8), in_chunks(y, (500,) * 8)
    clf = DaskPegasosClassifier(lam=1e-4, random_state=0, tol=1e-5, worker_timeout=600)
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        clf.client = client
        victim = next(iter(client.run(os.getpid).values()))
        began = time.monotonic()
        wanted = clone(clf).fit(dX, dy)
        seconds = time.monotonic() - began
        timer = threading.Timer(0.3 * seconds, os.kill, (victim, signal.SIGKILL))
        timer.start()
        same_bits(wanted, clone(clf).fit(dX, dy))
        timer.join()
