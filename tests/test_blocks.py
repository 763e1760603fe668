"""Rows on disk: caches that are whole and true, and fits to the certificate of all rows."""

import _thread
import contextlib
import datetime
import errno
import gzip
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile

import killing
import numpy as np
import pandas as pd
import pytest
from covering import covering
from interruption import interrupted
from losses import ALL, CONJUGATES, EPSILON, LOSSES, TARGET_LOSSES
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pegasos
from pegasos import (
    Blocks,
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
    PegasosOneClass,
    PegasosRegressor,
    PegasosRegressorCV,
    _core,
    cli,
)
from pegasos.estimators import _search
from pegasos.io import _blocks, _readers
from pegasos.io._checkpoint import CheckpointDue
from pegasos.solvers import _block_schedule, _rounds

LAYOUTS, DTYPES = ("dense", "sparse"), ("float32", "float64")
# By rounds, and by dual ascent.
SOLVERS = ("newton", "sdca")
# So many rows of 12 features are far more than this.
N, D, MEMORY = 3000, 12, "200kB"


def make(rng, layout="dense", kind="binary", n=N, weighted=False):
    """Rows, sorted by label, exact in float32; labels or targets; weights, some of which are 0."""
    X = rng.normal(size=(n, D)).astype(np.float32)
    X[np.abs(X) < 0.8 * (layout == "sparse")] = 0
    score = X @ rng.normal(size=D) + rng.normal(size=n)
    y = {
        "binary": (score > 0).astype(int),
        "classes": np.searchsorted([-2, 2], score),
        "strings": np.array(["down", "up"])[(score > 0).astype(int)],
        "targets": score,
    }[kind]
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    weights = rng.integers(0, 4, n) / 2 if weighted else None
    return sparse.csr_array(X) if layout == "sparse" else X, y, weights


def source_of(X, y, weights=None, size=700):
    """A function that returns the rows in pieces."""

    def pieces():
        for first in range(0, X.shape[0], size):
            part = slice(first, first + size)
            yield X[part], y[part], None if weights is None else weights[part]

    return pieces


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def rows_of(X, y, weights=None):
    """All that belongs to each row, as a sorted table."""
    _, codes = np.unique(y, return_inverse=True)
    weights = np.ones(len(y)) if weights is None else weights
    table = np.column_stack([dense(X), codes, weights])
    return table[np.lexsort(table.T)]


# ---- Caches --------------------------------------------------------------------------------------


def files(folder, X, y):
    """Sources of the same rows, of every kind."""
    path = str(folder / "rows")
    S = sparse.csr_array(X)
    dump_svmlight_file(S, y, path + ".svm", zero_based=False)
    half = len(y) // 2
    for name, part in (("-1", slice(0, half)), ("-2", slice(half, None))):
        with gzip.open(f"{path}{name}.svm.gz", "wb") as file:
            dump_svmlight_file(S[part], y[part], file, zero_based=False)
    with open(path + ".csv", "w") as file:
        file.write(",".join(f"x{j}" for j in range(X.shape[1])) + ",y\n")
        np.savetxt(file, np.column_stack([dense(X), y]), delimiter=",", fmt="%.9g")
    np.save(path + "-X.npy", dense(X))
    np.save(path + "-y.npy", y)
    np.save(path + "-table.npy", np.column_stack([y, dense(X)]))
    np.savez(path + ".npz", X=dense(X), y=y)
    np.savez_compressed(
        path + "-s.npz", data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=y
    )
    mapped = np.load(path + "-X.npy", mmap_mode="r")
    return {
        "libsvm": path + ".svm",
        "gz": path + "-?.svm.gz",
        "csv": path + ".csv",
        "npy": (path + "-X.npy", path + "-y.npy"),
        "table": path + "-table.npy",
        "memmap": (mapped, y),
        "npz": path + ".npz",
        "scipy": [path + "-s.npz"],
        "csr": (S, y),
        "callable": source_of(X, y),
    }


@pytest.mark.parametrize("kind", [
    "libsvm", "gz", "csv", "npy", "table", "memmap", "npz", "scipy", "csr", "callable",
])  # fmt: skip
def test_every_source_becomes_the_same_rows_in_random_order(tmp_path, rng, kind):
    X, y, _ = make(rng)
    source = files(tmp_path, X, y)[kind]
    label = {"label_column": 0} if kind == "table" else {}
    # Text has as many digits as float32.
    blocks = Blocks(source, cache=tmp_path / "cache", memory=MEMORY, dtype="float32", **label)
    assert blocks.shape == (N, D)
    assert blocks.n_blocks > 16
    assert blocks.is_sparse == (kind in ("libsvm", "gz", "scipy", "csr"))
    own = list(blocks)
    assert len(own) == blocks.n_blocks
    # The source is sorted by label; each block is a random sample.
    shares = [labels.mean() for _, labels, _ in own]
    assert np.std(shares) < 0.2
    assert abs(np.mean(shares) - y.mean()) < 0.1
    Z, z, _ = blocks.in_memory()
    assert (rows_of(Z, z) == rows_of(X, y)).all()
    assert (z == np.concatenate([labels for _, labels, _ in own])).all()
    assert blocks.classes.tolist() == [0, 1]
    assert blocks.class_weight_sums.tolist() == np.bincount(y).tolist()
    scale = np.sqrt((X.astype(np.float64) ** 2).mean(axis=0))
    np.testing.assert_allclose(blocks.feature_scale, scale, rtol=1e-12)


def test_parquet(tmp_path, rng):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    X, y, _ = make(rng, kind="strings")
    columns = {f"x{j}": X[:, j] for j in range(D)} | {"label": y}
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"no column 'other'; its columns are \['x0', 'x1'"):
        Blocks(tmp_path / "rows.parquet", cache=tmp_path / "cache", label_column="other")
    with pytest.raises(ValueError, match="label_column must be a column, got None"):
        Blocks(tmp_path / "rows.parquet", cache=tmp_path / "cache", label_column=None)
    options = {"label_column": "label", "memory": MEMORY}
    blocks = Blocks(tmp_path / "*.parquet", cache=tmp_path / "cache", **options)
    Z, z, _ = blocks.in_memory()
    assert (rows_of(Z, z) == rows_of(X, y)).all()


@pytest.mark.parametrize("memory", [MEMORY, "1GB"])
@pytest.mark.parametrize("kind", ["file", "frames", "pieces"])
def test_fits_of_blocks_know_the_names_of_columns(tmp_path, rng, kind, memory):
    """They did not: frames with other columns, or in another order, were scored."""
    X, y, _ = make(rng)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
    if kind == "file":
        frame.assign(number=range(N), y=y).to_csv(tmp_path / "rows.csv", index=False)
    source = {
        "file": tmp_path / "rows.csv",
        "frames": (frame, y),
        "pieces": lambda: ((frame[k::3], y[k::3]) for k in range(3)),
    }[kind]
    options = {"drop": "number"} if kind == "file" else {}
    blocks = Blocks(source, cache=tmp_path / "cache", memory=memory, **options)
    clf = PegasosClassifier(random_state=0, warm_start=True).fit(blocks)
    for fitted in (clf, clf.fit(blocks), PegasosClassifierCV(Cs=2, cv=2).fit(blocks)):
        assert fitted.feature_names_in_.tolist() == frame.columns.tolist()
        np.testing.assert_allclose(fitted.score(blocks), fitted.score(frame, y))
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.predict(frame[frame.columns[::-1]])
    other = Blocks((frame[frame.columns[::-1]], y), cache=tmp_path / "other", memory=memory)
    for use in (clf.predict, clf.fit):
        with pytest.raises(ValueError, match=r"columns of training|other partitions or blocks"):
            use(other)


def test_a_fit_of_blocks_that_fit_into_memory_goes_on_from_a_checkpoint(tmp_path, rng):
    X, y, _ = make(rng)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
    frame.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    line = f"train {tmp_path}/rows.csv --memory 1GB -q --seed 0"
    assert (
        cli.main([*line.split(), "--checkpoint", f"{tmp_path}/c.npz", "-o", f"{tmp_path}/a"]) == 0
    )
    assert cli.main([*line.split(), "--resume", f"{tmp_path}/c.npz", "-o", f"{tmp_path}/b"]) == 0


def test_pieces_with_other_columns_are_refused(tmp_path, rng):
    X, y, _ = make(rng)
    pieces = [(pd.DataFrame(X, columns=[*"abcdefghijkl"]), y), (X, y)]
    with pytest.raises(
        ValueError, match=r"piece 1 of source\(\) has the features None, but piece 0"
    ):
        Blocks(lambda: iter(pieces), cache=tmp_path, memory=MEMORY)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["classes", "strings", "targets"])
def test_a_cache_has_all_that_belongs_to_rows(tmp_path, rng, layout, dtype, kind):
    X, y, weights = make(rng, layout, kind, weighted=True)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path, memory=MEMORY, dtype=dtype)
    Z, z, c = blocks.in_memory()
    assert Z.dtype == dtype
    assert z.dtype.kind == y.dtype.kind
    assert (rows_of(Z, z, c) == rows_of(X, y, weights)).all()
    assert np.isclose(blocks.mass, weights.sum())
    assert blocks.n_inside == (weights > 0).sum()
    norms = (dense(Z).astype(np.float64) ** 2).sum(axis=1)
    mean = np.average(norms, weights=c)
    np.testing.assert_allclose(blocks.mean_squared_norm, mean, rtol=1e-6)
    if kind != "targets":
        classes, codes = np.unique(y, return_inverse=True)
        assert (blocks.classes == classes).all()
        np.testing.assert_allclose(blocks.class_weight_sums, np.bincount(codes, weights))


def test_pieces_and_memory_do_not_change_the_order(tmp_path, rng):
    X, y, _ = make(rng)
    found = []
    for k, (size, memory) in enumerate([(700, MEMORY), (90, MEMORY), (3000, "1 GB")]):
        blocks = Blocks(source_of(X, y, size=size), cache=tmp_path / str(k), memory=memory)
        found.append(blocks.in_memory()[0])
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()
    other = Blocks(source_of(X, y), cache=tmp_path / "other", random_state=1).in_memory()[0]
    assert (other != found[0]).any()
    # Files that are larger than a part of memory are dealt again.
    tiny = Blocks(source_of(*make(rng, n=20000)[:2]), cache=tmp_path / "tiny", memory="20 kB")
    assert tiny.shape == (20000, D)


def test_files_are_dealt_again_in_pieces_of_many_rows(tmp_path, rng, monkeypatch):
    """Conversion with little memory took several times as long: pieces had a row or two."""
    deal, rows = _blocks._Conversion._deal, []

    def counted(conversion, pieces, *arguments):
        pieces = list(pieces)
        rows.append([len(y) for _, y, _ in pieces])
        return deal(conversion, iter(pieces), *arguments)

    monkeypatch.setattr(_blocks._Conversion, "_deal", counted)
    X = rng.normal(size=(60000, 20))
    Blocks((X, X[:, 0] > 0), cache=tmp_path / "cache", memory="250kB")
    _, *again = rows
    assert again
    assert all(min(of_file[:-1]) > 50 for of_file in again)


def test_a_folder_serves_after_ctrl_c_struck_twice(tmp_path, rng, monkeypatch):
    """At the end of a conversion, and as it removed its files: rows were left, and refused."""
    (X, y, _), remove = make(rng), os.remove

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_blocks._Conversion, "_write_index", interrupt)
        patched.setattr(os, "remove", lambda p: (interrupt if p.endswith("rows") else remove)(p))
        with pytest.raises(KeyboardInterrupt):
            Blocks((X, y), cache=tmp_path / "cache", memory=MEMORY)
    assert Blocks((X, y), cache=tmp_path / "cache", memory=MEMORY).shape == X.shape


def test_a_cache_is_a_folder(tmp_path, rng):
    (tmp_path / "rows.npz").touch()
    with pytest.raises(ValueError, match=r"cache must be a folder, got the file .*rows\.npz"):
        Blocks(make(rng)[:2], cache=tmp_path / "rows.npz")
    with pytest.raises(TypeError, match=r"cache must be a str or a path, got 5"):
        Blocks(make(rng)[:2], cache=5)


def test_a_cache_leaves_a_folder_of_other_files_alone(tmp_path, rng):
    """A file "rows" that was there was overwritten."""
    X, y, _ = make(rng)
    (tmp_path / "rows").write_text("mine")
    with pytest.raises(ValueError, match=r"cache must be a new folder.* files, such as rows"):
        Blocks((X, y), cache=tmp_path, memory=MEMORY)
    assert (tmp_path / "rows").read_text() == "mine"
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"If .* is a cache, delete it.* name another folder"):
        Blocks((X, y), cache=tmp_path, memory=MEMORY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.json", "rows"]
    with pytest.raises(TypeError, match=r"got ndarray of shape \(3000, 12\)$"):
        Blocks(X, cache=tmp_path / "new")


@pytest.mark.parametrize("name", ["rows", "index.json"])
def test_a_conversion_that_is_stopped_as_it_ends_leaves_a_cache_or_none(
    tmp_path, rng, name, monkeypatch
):
    """Rows without an index were refused as other files, and an index without rows was a cache."""
    X, y, _ = make(rng)
    replace = os.replace

    def and_stop(source, target):
        replace(source, target)
        if os.path.basename(target) == name:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", and_stop)
    with pytest.raises(KeyboardInterrupt):
        Blocks((X, y), cache=tmp_path, memory=MEMORY)
    monkeypatch.undo()
    assert len(Blocks((X, y), cache=tmp_path, memory=MEMORY).targets()[0]) == len(X)


def test_a_cache_is_made_once_and_refused_where_it_is_of_other_rows(tmp_path, rng):
    X, y, _ = make(rng)
    calls = itertools.count()
    pieces = source_of(X, y)

    def source():
        for piece in pieces():
            next(calls)
            yield piece

    cache = tmp_path / "cache"
    Blocks(source, cache=cache, memory=MEMORY)
    made = next(calls)
    Blocks(source, cache=cache, memory="1MB")
    assert next(calls) == made + 2  # the first piece alone
    with pytest.raises(ValueError, match=r"cache .* other parameters \(dtype was 'float64' and is"):
        Blocks(source, cache=cache, dtype="float32")
    path = files(tmp_path, X, y)["libsvm"]
    with pytest.raises(ValueError, match="the source has changed"):
        Blocks(path, cache=cache)
    Blocks(path, cache=tmp_path / "file")
    with open(path, "a") as file:
        file.write("1 1:1\n")
    with pytest.raises(ValueError, match="the source has changed since"):
        Blocks(path, cache=tmp_path / "file")


def test_bad_sources_are_told_in_a_sentence(tmp_path, rng):
    X, y, _ = make(rng)
    refused = itertools.count()

    def fails(source, match, error=ValueError, **options):
        cache = tmp_path / str(next(refused))
        with pytest.raises(error, match=match):
            Blocks(source, cache=cache, memory=MEMORY, **options)
        assert not cache.exists()

    iterator = iter([(X[:5], y[:5]), (X[5:], y[5:])])
    fails(lambda: iterator, "fresh iterator at each call, but the second one")
    fails(lambda: iter([]), "source has no rows: a function must return a fresh iterator")
    fails((X[:0], y[:0]), "source has no rows$")
    for empty in (X[:, :0], sparse.csr_array(X[:, :0])):
        fails(lambda X=empty: iter([(X, y)]), r"X must have at least one column, .*\(3000, 0\)$")
    fails((X[:, :0], y), r"\(piece 0\): X must have at least one column, got shape \(\d+, 0\)$")
    fails(lambda: iter([(X, y), (X[:, 1:], y)]), "piece 1.*11 features, but had 12")
    fails(lambda: iter([(X, y), (sparse.csr_array(X), y)]), "X is sparse, but was dense")
    fails(lambda: iter([(X, y), (X, y[:5])]), "y must have an entry for each")
    fails(lambda: iter([(X, y), (X, y.astype(str))]), "label '0', but had only numbers before")
    fails(lambda: iter([(X, y), (X, np.full(N, "a"))]), "label 'a', but had only numbers")
    fails(lambda: iter([(X, y), (X, y, y)]), "sample weights, or none")
    fails(lambda: iter([X]), "piece 0 is ndarray", TypeError)
    fails(lambda: 5, "must return an iterator", TypeError)
    fails((np.where(X[7, 1] == X, np.nan, X), y), r"X\[7, 1\] is nan")
    fails((X.astype(np.float64) * 1e200, y), "finite", dtype="float32")
    fails((X, y[:5]), "entry for each of the 3000 rows")
    missing = str(tmp_path / "no*.svm")
    told = rf"^source must be files that exist, got {re.escape(repr(missing))}$"
    fails(missing, told, FileNotFoundError)
    fails(5, "source must be a file", TypeError)
    fails((X, y), "memory must be|n_features is 3", n_features=3)
    for memory in ("2 apples", "20", 1e9, True, -1, 0, 999):
        with pytest.raises(ValueError, match=f"memory must be a number of bytes, .* {memory!r}$"):
            Blocks((X, y), cache=tmp_path / "other", memory=memory)
    text = tmp_path / "bad.svm"
    for content in ("", "# a\n\n# b\n"):
        text.write_text(content)
        fails(str(text), r"bad\.svm has no rows$")
        fails([str(text), str(text)], r"source \(.*bad\.svm, \.\.\.\) has no rows$")
    text.write_text("1 1:1\n" * 3000 + "-1 1:x\n")
    fails(str(text), r"bad.svm, line 3001")
    text.write_text("1 1:1\n" * 3000 + "nan 1:1\n")
    fails(str(text), r"bad.svm, line 3001: a value is not finite in 'nan 1:1': fill missing")
    text.write_text("1 1:1\n" * 3000 + "-1 2:nan\n")
    fails(str(text), r"bad.svm, line 3001: a value is not finite in '-1 2:nan': fill missing")
    table = tmp_path / "bad.csv"
    table.write_text("1,2,a\n" * 3000 + "1,b\n")
    fails(str(table), r"bad.csv, line 3001: 2 columns")
    table.write_text("1,2,0\n" * 3000 + "1,2, a\n")
    fails(str(table), r"bad.csv \(piece \d+\): y has the label 'a', but had only numbers before$")
    table.write_text("1,2,0\n" * 3000 + '1,"2\n",a\n')
    fails(str(table), r"bad.csv \(piece \d+\): y has the label 'a', but had only numbers before$")
    other = tmp_path / "other.csv"
    table.write_text("a,b,y\n1,2,0\n")
    other.write_text("a,b,y\n\n1,2,c\n")
    fails([table, other], r"rows 1 and on of .*: y has the label 'c', but had only numbers before$")


@pytest.mark.parametrize("kind", ["npz", "scipy"])
def test_damaged_archives_are_named(tmp_path, rng, kind):
    """Whatever zipfile and NumPy raise; the last bytes are read as often as all others."""
    path = pathlib.Path(str(np.ravel(files(tmp_path, *make(rng, n=200)[:2])[kind])[0]))
    whole, cache, n_refused = path.read_bytes(), tmp_path / "cache", 0
    for k, back in enumerate(2 ** rng.uniform(0, np.log2(len(whole)), 40)):
        at = len(whole) - int(back)
        rest = bytes([whole[at] ^ 0xA5]) + whole[at + 1 :] if k % 3 else b""
        path.write_bytes(whole[:at] + rest)
        try:
            Blocks(str(path), cache=cache / str(k), memory=MEMORY)
        except ValueError as error:
            assert path.name in str(error)  # noqa: PT017 some changes are of dates
            n_refused += 1
    assert n_refused > 20
    np.savez(path, X=np.eye(3))
    with pytest.raises(ValueError, match=r"npz: y, an array of labels or targets, is missing"):
        Blocks(str(path), cache=cache / "last", memory=MEMORY)


def read_all(source, cache):
    blocks = Blocks(source, cache=cache, memory="40kB")
    return blocks.in_memory(), blocks.feature_scale


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changed_byte_is_found_wherever_it_is(tmp_path, rng, layout):
    X, y, weights = make(rng, layout, n=400, weighted=True)
    source = source_of(X, y, weights)
    Blocks(source, cache=tmp_path, memory="40kB")
    for name in ("rows", "index.json"):
        path = tmp_path / name
        whole = path.read_bytes()
        for at in [0, len(whole) - 1, *rng.integers(0, len(whole), 30)]:
            changed = bytearray(whole)
            changed[at] ^= 1 << rng.integers(0, 8)
            path.write_bytes(changed)
            with pytest.raises(ValueError, match=f"{name}.* is damaged: .*checksum"):
                read_all(source, tmp_path)
        path.write_bytes(whole)
    with open(tmp_path / "rows", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(ValueError, match="rows ends within"):
        PegasosClassifier().fit(Blocks(source, cache=tmp_path, memory="40kB"))


@contextlib.contextmanager
def full_disk(limit):
    """No file may have more bytes than this."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        with pytest.raises(OSError, match="File too large") as error:
            yield error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(os.name != "posix", reason="limits of files are of POSIX")
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, rng):
    X, y, _ = make(rng)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    cache = tmp_path / "cache"
    for limit in (1000, 20000, 100000):  # as rows are dealt, and as blocks are written
        with full_disk(limit) as error:
            Blocks(str(tmp_path / "rows.npz"), cache=cache, memory=MEMORY)
        assert str(error.value.filename).startswith(str(cache))
        assert not cache.exists()
    names = np.array([f"{k:050}x" for k in range(200)])  # which the index has
    with full_disk(8000) as error:
        Blocks((X[:200, :1], names), cache=cache, memory=MEMORY)
    assert "index.json" in str(error.value.filename)
    blocks = Blocks((X[:200, :1], names), cache=cache, memory=MEMORY)  # nothing is in its way
    assert len(blocks.classes) == 200


def test_a_disk_without_room_for_a_folder_is_left_as_it_was(tmp_path, rng, monkeypatch):
    X, y, _ = make(rng)
    make_folder = os.mkdir

    def full(path, *arguments):
        if "converting" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        make_folder(path, *arguments)

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(OSError, match=r"No space left on device: .*cache"):
        Blocks((X, y), cache=tmp_path / "cache", memory=MEMORY)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="limits of files are of POSIX")
def test_a_disk_too_full_for_dual_variables_loses_nothing(tmp_path, rng):
    X, y, _ = make(rng, n=8000)
    blocks = Blocks((X[:, :2], y), cache=tmp_path, memory="120kB")
    clf = PegasosClassifier(lam=1e-2, random_state=0, solver="sdca").fit(blocks)
    before, files = clf.coef_.copy(), sorted(path.name for path in tmp_path.iterdir())
    with full_disk(30000) as error:
        clf.set_params(lam=1).fit(blocks)
    assert str(error.value.filename) == str(tmp_path)
    assert (clf.coef_ == before).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert (clf.set_params(lam=1e-2).fit(blocks).coef_ == before).all()


def test_files_that_change_are_found(tmp_path, rng, monkeypatch):
    X, y, _ = make(rng)
    path = files(tmp_path, X, y)["libsvm"]
    pieces = _readers._Libsvm.pieces

    def and_change(*arguments):
        yield from pieces(*arguments)
        with open(path, "a") as file:
            file.write("1 1:1\n")

    monkeypatch.setattr(_readers._Libsvm, "pieces", and_change)
    with pytest.raises(ValueError, match="source has changed while it was read"):
        Blocks(path, cache=tmp_path / "cache", memory=MEMORY)
    assert not (tmp_path / "cache").exists()
    monkeypatch.undo()
    blocks = Blocks(path, cache=tmp_path / "cache", memory=MEMORY)
    # Other rows take the place of the cache between two passes.
    other = Blocks((-X, y), cache=tmp_path / "other", memory=MEMORY)
    clf = PegasosClassifier(tol=None, max_iter=1, warm_start=True).fit(blocks)
    os.replace(tmp_path / "other" / "rows", tmp_path / "cache" / "rows")
    with pytest.raises(ValueError, match=r"rows (is damaged|ends within)"):
        clf.fit(blocks)
    with pytest.raises(FileNotFoundError, match="rows"):
        list(other)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, rng):
    X, y, _ = make(rng)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OSError, match="file"):
        Blocks((X, y), cache=file / "cache")
    if os.access("/proc/version", os.W_OK) or os.geteuid() == 0:
        pytest.skip("this user may write everything")
    os.chmod(tmp_path, 0o500)
    with pytest.raises(PermissionError, match="cache"):
        Blocks((X, y), cache=tmp_path / "cache")


@pytest.mark.parametrize("name", ["converting", "pegasos-converting"])
def test_a_folder_of_others_is_refused_and_stays_as_it_is(tmp_path, rng, name):
    """A folder in which others had a folder `converting` was taken for a cache, and cleared."""
    X, y, _ = make(rng)
    (tmp_path / name).mkdir()
    for file in (tmp_path / name / "notes", tmp_path / "report", tmp_path / "rows"):
        file.write_text("of others")
    with pytest.raises(ValueError, match=r"has other files, such as (converting|report)$"):
        Blocks((X, y), cache=tmp_path, memory=MEMORY)
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"of others"}
    assert (tmp_path / name / "notes").exists()


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
def test_a_killed_conversion_leaves_nothing_or_a_whole_cache(tmp_path, rng):
    X, y, _ = make(rng, n=500)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    source, cache = str(tmp_path / "rows.npz"), tmp_path / "cache"
    killed = 0
    for line in rng.integers(1, 2500, 3):
        code = killing.exit_code(killing.convert, int(line), source, str(cache))
        killed += code == -signal.SIGKILL
        blocks = Blocks(source, cache=cache, memory=MEMORY)
        assert (rows_of(*blocks.in_memory()[:2]) == rows_of(X, y)).all()
        for path in cache.iterdir():
            path.unlink()
    assert killed >= 2


# ---- Fits ----------------------------------------------------------------------------------------


def objectives(clf, X, y, weights):
    """P of each problem, and D of its dual variables if there are some, by their definitions."""
    X, name, m = dense(X).astype(np.float64), clf.loss, np.ones(len(y))
    c = m if weights is None else weights
    if name in TARGET_LOSSES:
        labels, values = np.ones((1, len(y))), y[None]
    elif len(clf.classes_) == 2:
        labels, values = np.where(y == clf.classes_[1], 1, -1)[None], m[None]
    else:
        labels = np.where(y == clf.classes_[:, None], 1, -1)
        values = np.ones(labels.shape)
    P, D = [], []
    for k in range(len(labels)):
        w, b = np.atleast_2d(clf.coef_)[k], clf.intercept_[k]
        u = values[k] - labels[k] * (X @ w + b)
        is_free = clf.fit_intercept and not clf.penalize_intercept
        feature = clf.intercept_scaling * (clf.fit_intercept and not is_free)
        norm = w @ w + ((b / feature) ** 2 if feature else 0)
        P.append(clf.lam_ / 2 * norm + (c * ALL[name](u)).sum() / c.sum())
        if "a" not in clf._state:
            continue
        inside = c > 0
        a, y, z = (array[k][inside] for array in (clf._state["a"], labels, values))
        if is_free:  # the heavier side is scaled down until sum_i a_i y_i is 0
            sizes = (a * y)[a * y > 0].sum(), -(a * y)[a * y < 0].sum()
            a = a * np.where(a * y > 0, *(min(sizes) / size for size in sizes))
            assert abs(a @ y) < 1e-12 * sum(sizes)
        beta = a * y / (clf.lam_ * c.sum())
        v = X[inside].T @ beta
        norm = v @ v + (feature * beta.sum()) ** 2
        parts = CONJUGATES[name](a, c[inside]) + (z - 1) * a
        D.append(parts.sum() / c.sum() - clf.lam_ / 2 * norm)
    return np.array(P), np.array(D)


@covering(layout=LAYOUTS, dtype=DTYPES, kind=["binary", "classes"])
def test_the_gap_is_certified_over_all_rows(tmp_path, rng, layout, dtype, kind):
    X, y, weights = make(rng, layout, kind, weighted=True)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path, memory=MEMORY, dtype=dtype)
    X, y, weights = blocks.in_memory()
    for loss, solver in itertools.product(LOSSES, SOLVERS):
        options = {"lam": 1e-3, "loss": loss, "random_state": 0}
        clf = PegasosClassifier(warm_start=True, solver=solver, **options).fit(blocks)
        assert (clf.duality_gap_ <= 1e-3 * clf.objective_).all()
        assert clf.solver_epochs_ == {solver: clf.n_iter_}
        P, D = objectives(clf, X, y, weights)
        np.testing.assert_allclose(clf.objective_, P, rtol=1e-10)
        if solver == "sdca":
            np.testing.assert_allclose(clf.dual_objective_, D, rtol=1e-9)
        else:
            exact = PegasosClassifier(tol=1e-7, **options).fit(X, y, weights)
        assert (clf.objective_ >= exact.dual_objective_ * (1 - 1e-9)).all()
        assert (clf.dual_objective_ <= exact.objective_ * (1 + 1e-9)).all()
        np.testing.assert_allclose(
            clf.decision_function(blocks), clf.decision_function(X), rtol=1e-12
        )
        assert (clf.predict(blocks) == clf.predict(X)).all()
        assert np.isclose(clf.score(blocks), clf.score(X, y, weights))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_free_intercept_has_a_certificate_as_well(tmp_path, rng, layout):
    X, y, weights = make(rng, layout, "classes", weighted=True)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path / "labels", memory=MEMORY)
    rows = blocks.in_memory()
    for loss, solver in itertools.product(("hinge", "squared_hinge", "log_loss"), SOLVERS):
        options = {"lam": 1e-3, "loss": loss, "penalize_intercept": False, "random_state": 0}
        clf = PegasosClassifier(warm_start=True, solver=solver, **options).fit(blocks)
        assert (clf.duality_gap_ <= 1e-3 * clf.objective_).all()
        P, D = objectives(clf, *rows)
        np.testing.assert_allclose(clf.objective_, P, rtol=1e-10)
        if solver == "sdca":  # of a smooth loss, a bound on D
            assert (clf.dual_objective_ <= D * (1 + 1e-9)).all()
            rtol = 1e-9 if loss == "hinge" else 1e-4
            np.testing.assert_allclose(clf.dual_objective_, D, rtol=rtol)
        else:
            exact = PegasosClassifier(tol=1e-6, **options).fit(*rows)
        assert (clf.objective_ >= exact.dual_objective_ * (1 - 1e-9)).all()
        assert (clf.dual_objective_ <= exact.objective_ * (1 + 1e-9)).all()
    y = rng.normal(size=X.shape[0]) + 7
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path / "targets", memory=MEMORY)
    reg = PegasosRegressor(lam=1, penalize_intercept=False, random_state=0).fit(blocks)
    assert reg.duality_gap_ <= 1e-3 * reg.objective_
    assert abs(reg.intercept_[0] - 7) < 0.2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("nu", [0.1, 0.6])
def test_one_class_is_certified_over_all_rows(tmp_path, rng, layout, nu):
    X, y, weights = make(rng, layout, weighted=True)
    X = abs(X)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path, memory=MEMORY, dtype="float64")
    X, _, weights = blocks.in_memory()
    one = PegasosOneClass(nu=nu, random_state=0, warm_start=True).fit(blocks)
    w, b, c = one.coef_[0], one.intercept_[0], weights / weights.sum()
    scores = X @ w + b
    P = nu / 2 * (w @ w) + c @ np.maximum(0, -scores) + nu * b
    np.testing.assert_allclose(one.objective_, P, rtol=1e-9)
    assert one.duality_gap_ <= 1e-3 * abs(one.dual_objective_)
    a = one._state["a"][0] / weights.sum()
    total = a.sum()  # nu: else a is scaled down, or mixed with c
    a = a * nu / total if total > nu else a + (nu - total) / (1 - total) * (c - a)
    v = X.T @ (a / nu)
    np.testing.assert_allclose(one.dual_objective_, -nu / 2 * (v @ v), rtol=1e-9)
    exact = PegasosOneClass(nu=nu, tol=1e-6, random_state=0).fit(X, sample_weight=weights)
    assert exact.dual_objective_ <= one.objective_ + 1e-9
    assert one.dual_objective_ <= exact.objective_ + 1e-9
    scores[np.abs(scores) <= 1e-6 * abs(b)] = 0  # of support vectors, or they would be rounding
    np.testing.assert_allclose(one.decision_function(blocks), scores, rtol=1e-9, atol=1e-12)
    assert (one.predict(blocks) == np.where(scores >= 0, 1, -1)).mean() > 0.999
    assert nu - 0.05 < c @ (one.predict(blocks) < 0) < nu + 0.05
    # It goes on from its state.
    again = one.set_params(tol=1e-4).fit(blocks)
    assert again.duality_gap_ <= 1e-4 * abs(again.dual_objective_)
    assert again.lam_ == nu


@pytest.mark.parametrize("layout", LAYOUTS)
def test_regression_is_certified_over_all_rows(tmp_path, rng, layout):
    X, y, weights = make(rng, layout, "targets", weighted=True)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path, memory=MEMORY, dtype="float64")
    X, y, weights = blocks.in_memory()
    for loss, solver in itertools.product(TARGET_LOSSES, SOLVERS):
        options = {"lam": 1e-3, "loss": loss, "epsilon": EPSILON, "random_state": 0}
        reg = PegasosRegressor(solver=solver, **options).fit(blocks)
        assert (reg.duality_gap_ <= 1e-3 * reg.objective_).all()
        u = y - reg.predict(X)
        norm = (reg.coef_**2).sum() + reg.intercept_[0] ** 2
        P = reg.lam_ / 2 * norm + (weights * ALL[loss](u)).sum() / weights.sum()
        np.testing.assert_allclose(reg.objective_, P, rtol=1e-10)
        if solver == "newton":
            exact = PegasosRegressor(tol=1e-7, **options).fit(X, y, weights)
        assert reg.objective_ >= exact.dual_objective_ * (1 - 1e-9)
        assert reg.dual_objective_ <= exact.objective_ * (1 + 1e-9)
        assert np.isclose(reg.score(blocks), reg.score(X, y, weights))
    both = Blocks((X, np.column_stack([y, 2 * y])), cache=tmp_path / "both", memory=MEMORY)
    reg = PegasosRegressor(loss="squared_error", lam=1e-3, random_state=0).fit(both)
    assert reg.coef_.shape == (2, D)
    assert reg.predict(both).shape == (N, 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_fit_into_memory_have_the_bits_of_a_fit_in_memory(tmp_path, rng, layout):
    X, y, weights = make(rng, layout, "classes", weighted=True)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path / "large", memory="100MB")
    options = {"class_weight": "balanced", "random_state": 0, "C": 0.1}
    one = PegasosClassifier(**options).fit(blocks)
    other = PegasosClassifier(**options).fit(*blocks.in_memory())
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert (one.intercept_ == other.intercept_).all()
    # And the λ, classes and weights of a fit of blocks are those of a fit in memory.
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path / "small", memory=MEMORY)
    for multi_class in ("ovr", "ovo"):
        one = PegasosClassifier(multi_class=multi_class, tol=1e-4, **options)
        other = PegasosClassifier(multi_class=multi_class, tol=1e-4, **options)
        one.fit(blocks), other.fit(*blocks.in_memory())
        assert np.isclose(one.lam_, other.lam_)
        np.testing.assert_allclose(one.objective_, other.objective_, rtol=2e-4)
        assert (one.predict(blocks) == other.predict(blocks)).mean() > 0.98
    with pytest.raises(ValueError, match="leave both out"):
        one.fit(blocks, y)


@pytest.mark.parametrize(("solver", "scoring"), [("newton", None), ("sdca", "f1_macro")])
def test_a_search_trains_the_problems_of_its_folds(tmp_path, rng, solver, scoring):
    X, y, weights = make(rng, "sparse", "classes", weighted=True)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path, memory=MEMORY)
    blocks.memory = 500_000  # scores are on disk
    X, y, weights = blocks.in_memory()
    options = {"Cs": [1e-4, 1e-2], "cv_effort": 5e-3, "random_state": 0, "scoring": scoring}
    rest = {"class_weight": {1: 2}, "penalize_intercept": False}
    number = np.arange(N) % 3
    search = PegasosClassifierCV(cv=3, solver=solver, **options, **rest).fit(blocks)
    folds = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(3)]
    exact = PegasosClassifierCV(cv=folds, **options, **rest).fit(X, y, weights)
    np.testing.assert_allclose(search.scores_, exact.scores_, atol=1.5e-2)
    assert (search.cv_results_["relative_gap"] <= 5e-3).all()
    assert search.C_ == exact.C_
    assert np.isclose(search.lam_, exact.lam_)
    assert search.best_estimator_.solver_epochs_.keys() == {solver}
    # Passes are as many as the hardest problem needs.
    assert len(set(search.cv_results_["n_epochs"])) == 1
    assert (search.predict(blocks) == search.best_estimator_.predict(X)).all()
    assert search.score(blocks) == pytest.approx(search.score(X, y, weights), rel=1e-12)
    some = {"cv": 3, "solver": solver, "Cs": [1e-3, 0.1], "refit": False}
    search = PegasosClassifierCV(cv_effort=2, **some).fit(blocks)
    assert search.cv_results_["n_epochs"].tolist() == [2 + (solver == "newton")] * 2
    if solver == "sdca":  # to a gap of 0.05 it takes hundreds, of small lam
        search = PegasosClassifierCV(**some | {"Cs": [0.1, 1e4]}).fit(blocks)
        assert search.cv_results_["n_epochs"].tolist() == [16, 16]
    blocks.memory = 50_000
    with pytest.raises(ValueError, match="is too little for 18 problem"):
        PegasosClassifierCV(**some).fit(blocks)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("effort", ["auto", 3, 0.5])
def test_progress_of_a_search_tells_the_share_that_is_done(
    tmp_path, rng, solver, effort, monkeypatch
):
    told = []

    class Watched(_search.Progress):
        def update(self, look):
            told.append(look()[:2])

    monkeypatch.setattr(_search, "Progress", Watched)
    X, y, _ = make(rng, "dense", "targets")
    blocks = Blocks((X, y), cache=tmp_path, memory=MEMORY)
    options = {"lams": [1e-3, 1.0], "epsilons": [0.1, 1.0], "cv": 3, "refit": False}
    PegasosRegressorCV(solver=solver, cv_effort=effort, **options).fit(blocks)
    done, total = np.array(told).T
    assert (np.diff(done) >= 0).all()
    most = {"auto": 16, 3: 3}.get(effort, 0)
    assert (total == 2 * most).all()
    if effort == 3:
        assert done[0] < 1
        assert done[-1] > 5
        assert (done <= total).all()


def test_a_search_of_rows_that_fit_into_memory_is_that_of_arrays(tmp_path, rng):
    X, y, weights = make(rng, "sparse", "classes", weighted=True, n=400)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path)
    options = {"Cs": [1e-4, 1e-2], "cv": 3, "random_state": 0}
    search = PegasosClassifierCV(**options).fit(blocks)
    exact = PegasosClassifierCV(**options).fit(*blocks.in_memory())
    assert search.coef_.tobytes() == exact.coef_.tobytes()


@pytest.mark.parametrize(("solver", "gap"), [("newton", 1e-4), ("sdca", 3e-4)])
def test_a_search_over_regressors_has_targets_of_its_folds(tmp_path, rng, solver, gap):
    X, y, _ = make(rng, "dense", "targets")
    y = np.column_stack([y, 1000 * X[:, 0] + y])
    blocks = Blocks((X, y), cache=tmp_path, memory=MEMORY, dtype="float64")
    blocks.memory = 700_000
    X, y, _ = blocks.in_memory()
    options = {"lams": [1e-3, 1.0], "epsilons": [0.1, 1.0], "cv_effort": gap, "random_state": 0}
    number = np.arange(N) % 3
    folds = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(3)]
    search = PegasosRegressorCV(cv=3, solver=solver, **options).fit(blocks)
    exact = PegasosRegressorCV(cv=folds, **options).fit(X, y)
    assert (search.cv_results_["relative_gap"] <= gap).all()
    # lam/2 |w - w*|^2 is at most the gap: w* is 0.014 or 0.025 away where lam and P are 1.
    np.testing.assert_allclose(search.scores_, exact.scores_, atol=2e-3)
    assert search.best_params_ == exact.best_params_


@pytest.fixture
def blocks(tmp_path, rng):
    X, y, weights = make(rng, "sparse", "classes", weighted=True)
    return Blocks(source_of(X, y, weights), cache=tmp_path / "cache", memory=MEMORY)


@pytest.mark.skipif(os.name == "nt", reason="a thread cannot send SIGINT to another on Windows")
def test_nothing_is_read_after_loads_are_closed(blocks, monkeypatch):
    """However often Ctrl-C comes while the thread that reads is waited for."""
    loads, read, has_ended = _block_schedule._Loads(blocks, 1), blocks.read, []
    is_closing, close, n_heard, n_times = threading.Semaphore(0), loads.close, 0, 3

    def hear(*_):
        nonlocal n_heard
        n_heard += 1
        if n_heard <= n_times:
            raise KeyboardInterrupt

    def closed():
        is_closing.release()
        close()

    def interrupting(wanted, part):
        for k in range(n_times + 1):  # only the last one does not begin to close them once more
            is_closing.acquire()
            while n_heard <= k:  # as it begins to wait, the main thread may be not woken
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.001)
        read(wanted, part)
        has_ended.append(True)

    monkeypatch.setattr(blocks, "read", interrupting)
    monkeypatch.setattr(loads, "close", closed)
    before = signal.signal(signal.SIGINT, hear)
    try:
        with pytest.raises(KeyboardInterrupt), _core.Closing(loads):
            loads.start([0])
        assert has_ended
    finally:
        n_heard = n_times + 1
        is_closing.release(n_times + 1)  # if it was not waited for
        signal.signal(signal.SIGINT, before)


def test_loads_that_were_not_read_start_no_thread(blocks, monkeypatch):
    def start(*_):
        raise MemoryError

    monkeypatch.setattr(_thread, "start_new_thread", start)
    with _core.Closing(_block_schedule._Loads(blocks, 1)):
        pass


@pytest.mark.parametrize("reason", ["no more threads", "no memory in a thread"])
def test_a_thread_that_does_not_begin_is_not_waited_for(blocks, monkeypatch, reason):
    def start(function, arguments):
        if reason == "no more threads":
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", start)
    loads = _block_schedule._Loads(blocks, 1)
    with pytest.raises((RuntimeError, MemoryError), match="thread"), _core.Closing(loads):
        loads.get([0])


def test_loads_that_ctrl_c_stops_anywhere_leave_no_read(blocks, monkeypatch):
    """Nor do they wait for ever: Ctrl-C in an executor's `submit` has left its lock held."""
    read, counts, tracing = blocks.read, [0, 0], sys.gettrace()

    def counted(wanted, part):
        counts[0] += 1
        time.sleep(1e-3)
        read(wanted, part)
        counts[1] += 1

    monkeypatch.setattr(blocks, "read", counted)

    def stop_at(number):
        lines = itertools.count()

        def trace(*_):
            if next(lines) == number:
                raise KeyboardInterrupt
            return trace

        return trace

    def use(loads):
        loads.start([0])
        loads.get([0])
        loads.start([1])
        loads.start([2])
        loads.get([2])

    for number in itertools.count():
        loads = _block_schedule._Loads(blocks, 1)
        sys.settrace(stop_at(number))
        try:
            with _core.Closing(loads):
                use(loads)
        except KeyboardInterrupt:
            sys.settrace(tracing)
            assert counts[0] == counts[1]
        else:
            break
        finally:
            sys.settrace(tracing)
    assert number > 20
    assert counts[0] == counts[1] > 20


def test_rows_that_are_kept_share_their_memory_with_a_matrix(blocks):
    part = blocks.room([0, 1])
    blocks.read([0, 1], part)
    values, indices, _ = map(np.asarray, part.rows().arrays)
    whole = part.matrix().toarray()
    part.keep(part.rows(), np.arange(0, part.n_rows, 4))
    matrix = part.matrix()
    np.testing.assert_array_equal(matrix.toarray(), whole[::4])
    assert np.shares_memory(matrix.data, values)
    assert np.shares_memory(matrix.indices, indices)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_interrupted_fit_goes_on_to_the_same_bits(blocks, rng, solver):
    options = {"lam": 1e-3, "tol": 1e-4, "random_state": 0, "warm_start": True, "solver": solver}
    whole = PegasosClassifier(**options).fit(blocks)
    assert whole.n_iter_ >= 3
    for after in rng.integers(0, 300, 1):
        clf, stops = PegasosClassifier(**options), 0
        for k in itertools.count(after, 1000):
            try:
                with interrupted(k, every=3e3):
                    clf.fit(blocks)
                    raise KeyboardInterrupt
            finally:
                stops += 1
            if hasattr(clf, "duality_gap_"):
                break
        assert clf.coef_.tobytes() == whole.coef_.tobytes()
        assert (clf.objective_ == whole.objective_).all()
        assert clf.n_iter_ == whole.n_iter_
    again = PegasosClassifier(**options, n_jobs=3).fit(blocks)
    assert again.coef_.tobytes() == whole.coef_.tobytes()


class Seldom:
    """Checkpoints that are due at the polls number 1, 3, 6, 10 and so on; the last one is kept."""

    def __init__(self, n_due=1):
        self.n_polls, self.n_due = 0, n_due

    def watch(self):
        self.n_polls += 1
        if self.n_polls == self.n_due * (self.n_due + 1) // 2:
            self.n_due += 1
            raise CheckpointDue

    def write(self, _, arrays, stands):
        self.written = {name: array.copy() for name, array in arrays.items()}


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_interrupted_search_leaves_that_of_before(blocks, rng, solver, monkeypatch):
    options = {"lams": [1e-2, 0.1], "cv": 2, "cv_effort": 2, "refit": False, "random_state": 0}
    search = PegasosClassifierCV(solver=solver, **options).fit(blocks)
    before, kept = dict(vars(search)), Seldom(10**6)  # at the end only, and where it is stopped
    search._checkpoints = kept
    with interrupted(int(rng.integers(0, 40)), every=3e3):
        search.fit(blocks)
    assert vars(search) == before | {"_checkpoints": kept}
    assert (kept.written["seconds"] > 0).all()
    assert (search.fit(blocks).scores_ == before["scores_"]).all()
    # A search that was over is not made again, whatever its scores are.
    search._resumed = search._checkpoints.written
    search._resumed["scores"][0, 0] = np.nan
    search._checkpoints, search.cv_results_ = None, None
    monkeypatch.setattr(_block_schedule, "schedule", None)
    with pytest.warns(UserWarning, match="scores that are not finite"):
        scores = search.fit(blocks).scores_
    assert np.isnan(scores[0, 0])
    assert (scores == before["scores_"]).sum() == scores.size - 1
    search._resumed = {"scores": before["scores_"]}
    with pytest.raises(ValueError, match=r"state.gaps is missing"):
        search.fit(blocks)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_goes_on_where_a_checkpoint_stopped_a_load_or_a_check(blocks, solver):
    options = {"lam": 1e-2, "random_state": 0, "warm_start": True, "solver": solver}
    whole, clf = PegasosClassifier(**options).fit(blocks), PegasosClassifier(**options)
    clf._checkpoints = Seldom()
    clf.fit(blocks)
    assert clf._checkpoints.n_due > 8
    assert clf.coef_.tobytes() == whole.coef_.tobytes()
    assert (clf.dual_objective_ == whole.dual_objective_).all()


def test_progress_is_told_after_each_load(blocks):
    """Also where the jobs of a load are too short to tell it."""
    clf = PegasosClassifier(lam=1e-2, solver="sdca", random_state=0)
    schedule, _ = clf._prepare(blocks, None, None)
    n_loads, told = schedule.loads.n_loads, []
    schedule.train(
        blocks, tol=None, max_iter=2,
        on_progress=lambda: told.append((schedule.n_passes, schedule.n_loads)),
    )  # fmt: skip
    assert n_loads > 2
    assert len(set(told)) >= 2 * n_loads


@pytest.mark.parametrize("loss", LOSSES)
def test_a_load_foretells_the_gap(blocks, loss):
    """A load of all rows tells it exactly."""
    clf = PegasosClassifier(lam=1e-2, loss=loss, solver="sdca", random_state=0)
    schedule, _ = clf._prepare(blocks, None, None)
    gaps = schedule.train(blocks, tol=None, max_iter=1).relative_gap
    schedule.loads.n_each = blocks.n_blocks
    with _core.Closing(schedule.loads):
        np.testing.assert_allclose(schedule._estimated_gaps(), gaps, rtol=1e-6)


def test_where_many_rows_decide_two_passes_come_near_the_optimum(tmp_path, rng, monkeypatch):
    """A first pass of dual ascent that takes w(a) for w leaves a gap 1.4 to 3 times as large.

    Gaps of single seeds differ as much: some are summed.
    """
    X = sparse.random_array((6000, 200), density=0.02, format="csr", random_state=rng)
    y = X @ rng.normal(size=200) > 0
    blocks = Blocks((X, y), cache=tmp_path / "cache", memory="300kB")
    lam = 5 * blocks.mean_squared_norm / len(blocks)

    def gap():
        gaps = []
        for seed in range(6):
            clf = PegasosClassifier(lam=lam, solver="sdca", max_iter=2, tol=1e-6, random_state=seed)
            with pytest.warns(UserWarning, match="max_iter"):
                clf.fit(blocks)
            gaps.append(clf.duality_gap_[0] / clf.objective_[0])
        return sum(gaps)

    own = gap()
    assert own <= 6 * 2e-3
    monkeypatch.setattr(_block_schedule.BlockSchedule, "_growth", 1.0)
    assert own <= 0.85 * gap()


def test_rows_that_have_settled_make_room_for_others(tmp_path, rng):
    """Where rows with the smallest steps were kept, fits took 62 or 63 passes here."""
    X = rng.normal(size=(10_000, 20)).astype(np.float32)
    y = X @ rng.normal(size=20) + 2 * rng.normal(size=len(X)) > 0
    blocks = Blocks((X, y), cache=tmp_path / "cache", memory="250kB", dtype="float32")
    clf = PegasosClassifier(lam=1e-5, solver="sdca", random_state=0).fit(blocks)
    assert clf.n_iter_ <= 56


def test_problems_whose_gap_is_small_enough_are_left_alone(blocks):
    schedule, _ = PegasosClassifier(lam=1e-3, solver="sdca", random_state=0)._prepare(
        blocks, None, None
    )
    gaps = schedule.train(blocks, tol=None, max_iter=1).relative_gap
    tol = np.median(gaps)
    is_done, a, w = gaps <= tol, schedule.a.copy(), schedule.w.copy()
    assert 0 < is_done.sum() < len(gaps)
    found = schedule.train(blocks, tol=tol, max_iter=50).relative_gap
    assert (found <= tol).all()
    assert (found[is_done] == gaps[is_done]).all()
    assert ((schedule.a == a).all(axis=1) == is_done).all()
    assert ((schedule.w == w).all(axis=1) == is_done).all()


def test_a_damaged_state_of_dual_ascent_is_refused(blocks):
    clf = PegasosClassifier(lam=1e-2, solver="sdca", random_state=0)
    schedule, fresh = (clf._prepare(blocks, None, None)[0] for _ in range(2))
    schedule.train(blocks, tol=None, max_iter=1)
    state = schedule.state()
    cases = [
        {name: odd} for name, array in state.items() for odd in (np.array(1.0), array[..., None])
    ]
    cases += [{"kept": state["kept"][[0, 0]]}, {"kept": state["kept"] + N}]
    for case in cases:
        with pytest.raises(ValueError, match=r"state[.:] ?\w+ |of other partitions"):
            fresh.restore(state | case)
        assert fresh.n_passes == 0
        assert not fresh.a.any()
    fresh.restore(state)
    np.testing.assert_array_equal(fresh.a, schedule.a)
    smooth = clf.set_params(loss="squared_hinge")._prepare(blocks, None, None)[0]
    smooth.restore(smooth.state())
    with pytest.raises(ValueError, match=r"state\.kept must"):  # a smooth loss keeps none
        smooth.restore(smooth.state() | {"kept": np.zeros(1, np.int64)})


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_goes_on_for_more_passes(blocks, solver):
    options = {"lam": 1e-3, "warm_start": True, "random_state": 0, "solver": solver}
    clf, start = PegasosClassifier(tol=None, max_iter=2, **options), solver == "newton"
    first = clf.fit(blocks).duality_gap_
    assert clf.solver_epochs_ == {solver: 2 + start}
    second = clf.fit(blocks).duality_gap_
    assert clf.n_iter_ == 4 + start
    assert (second < first).all()
    with pytest.raises(ValueError, match=r"of other (blocks|partitions or blocks)"):
        clf.set_params(solver=SOLVERS[start]).fit(blocks)
    clf.set_params(solver=solver)
    with pytest.raises(ValueError, match="lam must stay"):
        clf.set_params(lam=1e-2).fit(blocks)
    X, y, _ = blocks.in_memory()
    with pytest.raises(ValueError, match="the last fit was of Blocks"):
        clf.set_params(lam=1e-3).fit(X, y)
    fitted = PegasosClassifier(lam=1e-2, random_state=0).fit(blocks)
    before = fitted.score(X, y)
    assert fitted.partial_fit(X[:100], y[:100]).score(X, y) > before - 0.1


def test_rounds_take_as_many_problems_at_once_as_fit_into_memory(tmp_path, rng, monkeypatch):
    X, y, _ = make(rng, "dense", "classes", n=1000)
    blocks = Blocks((X, y), cache=tmp_path, memory="80kB")
    seen, see = [], _rounds.evaluate_block
    monkeypatch.setattr(
        _rounds, "evaluate_block", lambda *a: seen.append(len(a[-1].which)) or see(*a)
    )
    clf = PegasosClassifier(lam=1e-2, loss="squared_hinge", random_state=0, solver="newton")
    # The matrices of three classes of 12 features have 64 13^2 bytes each, and a fourth of this.
    objectives = []
    for n_at_once, memory in ((1, 60_000), (2, 100_000), (3, 140_000)):
        blocks.memory = memory
        seen.clear()
        clf.fit(blocks)
        assert max(seen) == n_at_once
        assert (clf.duality_gap_ <= 1e-3 * clf.objective_).all()
        objectives.append(clf.objective_)
    np.testing.assert_allclose(objectives[1:], [objectives[0]] * 2, rtol=1e-3)
    blocks.memory = 30_000
    with pytest.raises(ValueError, match="no room for what it keeps of each problem"):
        clf.fit(blocks)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_features_have_rounds_but_where_lam_is_large(tmp_path, rng, layout):
    X, y, _ = make(rng, layout)
    blocks = Blocks(source_of(X, y), cache=tmp_path, memory=MEMORY)
    is_sparse = layout != "dense"
    for loss, ratio, is_ascent in (  # of λ m to the mean of |x|^2
        ("hinge", 1.5, True), ("hinge", 0.3, True), ("hinge", 0.1, False),
        ("log_loss", 1.5, is_sparse), ("squared_hinge", 1.5, is_sparse),
        ("squared_hinge", 0.5, False),
    ):  # fmt: skip
        clf = PegasosClassifier(lam=ratio * blocks.mean_squared_norm / len(blocks), loss=loss)
        name = clf._prepare(blocks, None, None)[0].name
        assert name == ("sdca" if is_ascent else "newton"), (loss, ratio)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_features_have_pairs_in_place_of_matrices(tmp_path, rng, layout, monkeypatch):
    monkeypatch.setattr(_rounds, "MOST_FEATURES", 0)
    X, y, weights = make(rng, layout, weighted=True)
    blocks = Blocks(source_of(X, y, weights), cache=tmp_path, memory=MEMORY)
    options = {"loss": "squared_hinge", "random_state": 0, "warm_start": True}
    whole, clf = (PegasosClassifier(C=10, **options) for _ in range(2))
    assert whole._prepare(blocks, None, None)[0].n_pairs >= 5
    clf._checkpoints = Seldom()
    whole.fit(blocks), clf.fit(blocks)
    assert clf.coef_.tobytes() == whole.coef_.tobytes()
    np.testing.assert_allclose(clf.objective_, objectives(clf, *blocks.in_memory())[0], rtol=1e-10)
    exact = PegasosClassifier(C=10, **options, tol=1e-6).fit(*blocks.in_memory())
    assert clf.dual_objective_ <= exact.objective_ * (1 + 1e-12)
    assert clf.duality_gap_ <= 1e-3 * clf.objective_
    # λ is large, or the hinge has corners on sparse rows.
    for other in ({"C": 1e-3, **options}, {"C": 10, **options, "loss": "hinge"}):
        name = PegasosClassifier(**other)._prepare(blocks, None, None)[0].name
        assert name == ("newton" if layout == "dense" and other["loss"] == "hinge" else "sdca")


def test_dual_variables_may_be_on_disk(tmp_path, rng):
    X, y, _ = make(rng, n=8000)
    X = np.ascontiguousarray(X[:, :2])
    blocks = Blocks((X, y), cache=tmp_path, memory="120kB")
    options = {"lam": 1e-3, "random_state": 0, "warm_start": True, "solver": "sdca"}
    clf = PegasosClassifier(**options).fit(blocks)
    P, D = objectives(clf, *blocks.in_memory())
    np.testing.assert_allclose(clf.objective_, P, rtol=1e-10)
    np.testing.assert_allclose(clf.dual_objective_, D, rtol=1e-9)
    assert clf.duality_gap_ <= 1e-3 * clf.objective_
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.json", "rows"]


def test_what_blocks_cannot_do_is_told(blocks):
    with pytest.raises(ValueError, match=r"'sdca' or 'newton', and no n_steps; .* got "):
        PegasosClassifier(solver="pegasos").fit(blocks)
    with pytest.raises(ValueError, match=r"'sdca' or 'newton', and no n_steps; .* got "):
        PegasosClassifierCV(solver="pegasos").fit(blocks)
    with pytest.raises(ValueError, match="solver='auto' or 'sdca' for one class"):
        PegasosOneClass(solver="newton").fit(blocks)
    with pytest.raises(ValueError, match="multi_class='ovr' or 'ovo'"):
        PegasosClassifier(multi_class="crammer_singer").fit(blocks)
    with pytest.raises(TypeError, match="Nystroem"):
        KernelPegasosClassifier().fit(blocks, None)
    with pytest.raises(TypeError, match=r"KernelPegasosClassifier takes no Blocks.*Nystroem"):
        KernelPegasosClassifierCV().fit(blocks)
    with pytest.raises(ValueError, match="an integer as cv"):
        PegasosClassifierCV(cv=KFold(3)).fit(blocks)
    with pytest.raises(ValueError, match="no function as scoring; got"):
        PegasosClassifierCV(scoring=lambda *_: 0).fit(blocks)
    with pytest.raises(ValueError, match="leave both out"):
        PegasosClassifierCV().fit(blocks, np.zeros(N))
    with pytest.raises(TypeError, match="takes no Blocks"):
        PegasosClassifier(lam=1).partial_fit(blocks, None, classes=[0, 1])
    with pytest.raises(TypeError, match=r"no array.*a function that returns scaled pieces"):
        make_pipeline(StandardScaler(), PegasosClassifier()).fit(blocks)
    with pytest.raises(TypeError, match="no array"):
        GridSearchCV(PegasosClassifier(), {"C": [1]}).fit(blocks)
    blocks.memory = 1000
    with pytest.raises(ValueError, match=r"memory=1000 bytes is too little .* give .* at least"):
        PegasosClassifier().fit(blocks)


def test_too_little_memory_for_a_fit_is_told_while_rows_are_converted(tmp_path, rng):
    X = sparse.random_array((2000, 1000), density=0.01, format="csr", random_state=rng)
    y = X.sum(axis=1) > np.median(X.sum(axis=1))
    said = r"memory=50000 bytes is too little for 1 problem.* 1000 features: give \d+kB at least"
    with pytest.warns(UserWarning, match=said) as told:
        blocks = Blocks((X, y), cache=tmp_path / "cache", memory="50kB")
    assert [warning.filename for warning in told] == [__file__]
    with pytest.raises(ValueError, match="memory=50000 bytes is too little"):
        PegasosClassifier().fit(blocks)
    give = re.search(r"give (\d+kB)", str(told[0].message))[1]
    blocks = Blocks((X, y), cache=tmp_path / "another", memory=give)
    for solver in ("auto", "sdca"):
        clf = PegasosClassifier(random_state=0, solver=solver, tol=0.1).fit(blocks)
        np.testing.assert_array_equal(
            clf.predict(X), clf.classes_[np.int64(clf.decision_function(X) > 0)]
        )


def test_more_features_than_weights_fit_into_memory_are_told_at_once(tmp_path, capsys):
    """A feature of a large number, perhaps a mistake, ended in 16 GB of squares of features."""
    path = tmp_path / "far.svm"
    path.write_text("1 1:1\n-1 2147483647:1\n")
    said = r"too little for 1 problem\(s\) over rows of {} features in .*far\.svm: give {}MB"
    with pytest.raises(ValueError, match=said.format(2147483647, 17180)):
        Blocks(path, cache=tmp_path / "cache", memory="2GB")
    assert cli.main(["train", str(path), "--memory", "2GB"]) == 2
    assert re.search("--memory 2000000000 bytes is " + said.format(2147483647, 17180),
                     capsys.readouterr().err)  # fmt: skip
    path.write_text("1 1:1\n-1 2:1\n")
    with pytest.raises(ValueError, match=said.format(10**9, 8000)):
        Blocks(path, cache=tmp_path / "cache", memory="2GB", n_features=10**9)
    assert os.listdir(tmp_path) == ["far.svm"]


def test_one_class_or_strings_are_refused(tmp_path, rng):
    X, y, _ = make(rng, kind="strings")
    one = Blocks((X, np.ones(N)), cache=tmp_path / "one", memory=MEMORY)
    with pytest.raises(ValueError, match=r"two classes|one class"):
        PegasosClassifier().fit(one)
    words = Blocks((X, y), cache=tmp_path / "words", memory=MEMORY)
    with pytest.raises(ValueError, match=r"must be numbers for regression, but it has '[a-z]"):
        PegasosRegressor().fit(words)
    assert PegasosClassifier(random_state=0).fit(words).predict(X).dtype.kind == "U"


@pytest.mark.parametrize("dtype", [str, object])
def test_labels_that_are_text_stay_text_unless_a_file_has_them(tmp_path, rng, dtype):
    """Arrays of "9" and "10" became those of numbers, whose predictions no label of y equals."""
    X, y, _ = make(rng)
    y = np.where(y == 1, "10", "9").astype(dtype)
    of_arrays = Blocks((X, y), cache=tmp_path / "arrays", memory=MEMORY)
    of_pieces = Blocks(lambda: iter([(X, y)]), cache=tmp_path / "pieces", memory=MEMORY)
    for blocks in (of_arrays, of_pieces):
        clf = PegasosClassifier(random_state=0).fit(blocks)
        assert clf.classes_.tolist() == ["10", "9"]
        assert clf.score(blocks) == clf.score(X, y)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), fmt="%s", delimiter=",")
    assert Blocks(tmp_path / "rows.csv", cache=tmp_path / "file").classes.tolist() == [9, 10]


def test_pieces_that_are_frames_have_their_columns_named(tmp_path, rng):
    """Messages told of no column, and a piece without rows ended the conversion."""
    X, y, _ = make(rng)
    names = [f"x{j}" for j in range(D)]
    good = pd.DataFrame(X, columns=names)
    for k, (value, said) in enumerate(
        (
            (np.nan, r"piece 2\): X .* but X\[0, 3\] \(column 'x3'\) is nan: fill"),
            ("a", r"piece 2\): X must be numeric, got text .* in column 'x3'"),
        )
    ):
        bad = good.assign(x3=value)
        pieces = [(good[:0], y[:0]), (good, y), (bad, y)]
        with pytest.raises(ValueError, match=said):
            Blocks(lambda pieces=pieces: iter(pieces), cache=tmp_path / str(k), memory=MEMORY)
    pieces[2] = (good.astype("Float32"), y)
    blocks = Blocks(lambda: iter(pieces), cache=tmp_path / "good", memory=MEMORY)
    assert blocks.shape == (2 * N, D)
    assert blocks.feature_names == names


def test_pieces_that_are_tables_of_arrow_have_their_columns_named(tmp_path, rng):
    """Text in them ended in NumPy's error."""
    pa = pytest.importorskip("pyarrow")
    X, y, _ = make(rng)
    table = pa.table({"x0": X[:, 0], "x1": ["a"] * N})
    with pytest.raises(
        ValueError, match=r"piece 0\): X must be numeric, got text .* in column 'x1'"
    ):
        Blocks(lambda: iter([(table, y)]), cache=tmp_path / "text", memory=MEMORY)


@pytest.mark.parametrize("memory", [MEMORY, "1GB"])
def test_boolean_labels_stay_booleans(tmp_path, rng, memory):
    """They became 0 and 1, whose `~` is no mask; and strings, where they were objects."""
    X, y, _ = make(rng)
    objects = Blocks((X, (y == 1).astype(object)), cache=tmp_path / "objects", memory=memory)
    np.testing.assert_array_equal(objects.classes, [False, True])
    assert objects.classes.dtype == bool
    of_both = [(X[::2], y[::2] == 1), (X[1::2], (y[1::2] == 1).astype(object))]
    both = Blocks(lambda: iter(of_both), cache=tmp_path / "both", memory=memory)
    assert both.classes.dtype == bool
    blocks = Blocks((X, y == 1), cache=tmp_path / "booleans", memory=memory)
    clf = PegasosClassifier(random_state=0, class_weight={True: 2}).fit(blocks)
    assert blocks.classes.dtype == clf.classes_.dtype == clf.predict(X).dtype == bool
    assert clf.score(blocks) == clf.score(X, y == 1)
    mixed = Blocks(
        lambda: iter([(X[::2], y[::2] == 1), (X[1::2], y[1::2])]),
        cache=tmp_path / "m",
        memory=memory,
    )
    assert mixed.classes.dtype == np.int64
    np.savez(tmp_path / "rows.npz", X=X, y=y == 1)
    line = f"train {tmp_path}/rows.npz --memory {memory} -q -o {tmp_path}/model.npz"
    assert cli.main(line.split()) == 0
    assert pegasos.load(tmp_path / "model.npz").classes.tolist() == [False, True]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array(["2026-01-01", "2026-01-02"], "M8[D]"), "y must be numeric, got dtype datetime"),
        (np.array([1, 1j]), "y must be real, got complex128"),
        (np.array(["a", None], object), r"y must be finite .*but y\[1\] is .*missing"),
        (np.array([1.0, np.nan], object), r"y must be finite .*but y\[1\] is nan.*missing"),
        (np.array(["a", pd.NA], object), r"y must be finite .*but y\[1\] is <NA>.*missing"),
        (np.array(["a", pd.NaT], object), r"y must be finite .*but y\[1\] is NaT.*missing"),
        (np.array([1, np.datetime64("NaT")], object), r"y must be finite .*y\[1\] is NaT.*missing"),
        (np.array(["a", datetime.date(2026, 1, 1)], object), r"y must hold labels.*y\[1\] is dat"),
        (np.array([1, 1j], object), r"y must hold labels \(numbers or strings\), but y\[1\] is 1j"),
        (np.array([1, "a"], object), "y must hold labels of one kind, .*, got int, str$"),
        (np.array([1, "2"], object), "y must hold labels of one kind, .*, got int, str$"),
        (np.array([True, 2], object), "y must hold labels of one kind, .*, got bool, int$"),
        (np.array([b"a", "b"], object), "y must hold labels of one kind, .*, got bytes, str$"),
    ],
)
def test_labels_that_are_missing_or_no_labels_are_refused(tmp_path, rng, labels, said):
    """Dates became integers or text, complex numbers lost a part, and None was a class.

    Of labels of several kinds, all became text: 1 and "1" were one class.
    """
    with pytest.raises((TypeError, ValueError), match=said):
        Blocks((rng.normal(size=(90, 2)), np.tile(labels, 45)), cache=tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "p q,label\nx,1\n", r"say label_column='p q'; .*: drop=\['p q'\]$"),
        ("a.csv", "1|2\n3|4\n", r"has 1 column, but .*: separator says what is"),
        ("a.csv", "0,1,2\n", r"say header='yes' or header='no'$"),
        ("a.csv", "\0,1\n", r"name it by format$"),
        ("a.svm", "1,2\n", r" in '1,2': .* of CSV, say format='csv'$"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_words_of_python(tmp_path, name, text, told):
    """Options of the command line came first."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=told) as refused:
        Blocks(tmp_path / name, cache=tmp_path / "cache")
    assert "--" not in str(refused.value)


@pytest.mark.parametrize("memory", [MEMORY, "1GB"])
def test_fractions_are_no_labels(tmp_path, rng, memory):
    """They were classes where rows were larger than memory."""
    X, y, _ = make(rng)
    blocks = Blocks((X, (y == 1) / 2), cache=tmp_path, memory=memory)
    with pytest.raises(ValueError, match=r"label type: continuous\. y must hold .*, got 0\.5; "):
        PegasosClassifier().fit(blocks)
    whole = Blocks((X, (y == 1) * 2.0), cache=tmp_path / "whole", memory=memory)
    assert PegasosClassifier(random_state=0).fit(whole).classes_.tolist() == [0, 2]


def test_integers_that_float64_cannot_hold_are_no_labels(tmp_path, rng):
    """Two labels became one, without a word."""
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 3 + 2**53
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X.astype(str), y]), "%s", ",")
    for number, source in enumerate(((X, y), (X, y.astype(np.uint64)), tmp_path / "rows.csv")):
        with pytest.raises(ValueError, match="y has the integer 9007199254740993, which float64"):
            Blocks(source, cache=tmp_path / str(number))
    y = np.char.add("123456789012345678", (np.arange(90) % 3 + 10).astype(str))  # of 20 digits
    blocks = Blocks((X, y), cache=tmp_path / "text")
    assert blocks.classes.tolist() == sorted(set(y))
    large = Blocks((X, np.full(90, 2**60)), cache=tmp_path / "large")
    assert large.classes.tolist() == [2**60]


def test_many_targets_with_a_word_are_refused(tmp_path, rng):
    """The numbers of the strings, which are too many for classes, were taken for targets."""
    X, y = rng.normal(size=(70_000, 1)), rng.normal(size=70_000).astype(str)
    y[1] = "ham"
    blocks = Blocks((X, y), cache=tmp_path, memory="1MB")
    assert blocks.classes is None
    for reg in (PegasosRegressor(), PegasosRegressorCV()):
        with pytest.raises(ValueError, match="must be numbers for regression, but it has 'ham'"):
            reg.fit(blocks)


def test_indices_of_two_types_and_blocks_without_weight(tmp_path, rng):
    X, y, _ = make(rng, "sparse")
    plain = X.copy()
    X.indptr, X.data = X.indptr.astype(np.int64), X.data.astype(">f4")
    blocks = Blocks((X, y), cache=tmp_path / "mixed", memory=MEMORY)
    assert (rows_of(*blocks.in_memory()[:2]) == rows_of(plain, y)).all()
    # One class has no weight, and no other row is in the first blocks.
    number = np.arange(N)
    labels = np.where(number < N - 60, 2, number % 2)
    one = Blocks((plain, labels), cache=tmp_path / "one", memory=MEMORY)
    clf = PegasosClassifier(class_weight={2: 0}, lam=0.1, random_state=0).fit(one)
    assert clf.duality_gap_[0] <= 1e-3 * clf.objective_[0]


def test_features_of_a_kernel_come_in_pieces(tmp_path, rng):
    X, y, _ = make(rng, "dense")
    scaler = StandardScaler().fit(X)
    features = Nystroem(n_components=20, random_state=0).fit(scaler.transform(X))
    pieces = source_of(X, y)

    def mapped():
        for rows, labels, _ in pieces():
            yield features.transform(scaler.transform(rows)), labels

    blocks = Blocks(mapped, cache=tmp_path, memory=MEMORY)
    assert PegasosClassifier(random_state=0).fit(blocks).score(blocks) > 0.7


# ---- The command line ----------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("options", [["--lam", "1e-3"], ["--cv", "2", "--Cs", "2"]])
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, rng, solver, options):
    X, y, _ = make(rng, "sparse", "classes")
    data, checkpoint = str(tmp_path / "data.svm"), str(tmp_path / "checkpoint.npz")
    dump_svmlight_file(X, y, data)
    is_search = "--cv" in options
    train = ["train", data, "-q", *options, "--memory", "500kB" if is_search else MEMORY]
    train += ["--tol", "1e-2" if is_search else "1e-4", "--solver", solver, "-o"]
    assert cli.main([*train, str(tmp_path / "whole.npz")]) == 0
    output = str(tmp_path / "model.npz")
    often = ["--checkpoint", checkpoint, "--checkpoint-every", "20"]
    places = _block_schedule.__file__, _rounds.__file__
    killed = killing.train, int(rng.integers(1, 400)), places, 1e4, [*train, output, *often]
    assert killing.exit_code(*killed) in (-signal.SIGKILL, 0)
    with zipfile.ZipFile(checkpoint) as archive:
        assert ("search.scores.npy" in archive.namelist()) == is_search
        is_begun = "state.blocks.npy" in archive.namelist()
    if is_begun:
        assert np.isfinite(pegasos.load(checkpoint).coef).all()
    else:
        with pytest.raises(ValueError, match="not a pegasos model: it has a search under way"):
            pegasos.load(checkpoint)
    assert cli.main([*train, output, "--resume", checkpoint]) == 0
    whole, model = pegasos.load(tmp_path / "whole.npz"), pegasos.load(output)
    assert whole.coef.tobytes() == model.coef.tobytes()
    assert (whole.objective == model.objective).all()
    # A state that does not fit is refused, and a model without one.
    assert cli.main([*train, output, "--resume", str(tmp_path / "whole.npz")]) == 2
    assert is_begun or is_search
    other = "200kB" if is_search else "300kB"
    assert cli.main([*train, output, "--resume", checkpoint, "--memory", other]) == 2


def test_a_fit_that_is_resumed_twice_keeps_the_scores_of_its_search(tmp_path, rng):
    X, y, _ = make(rng, "sparse")
    data, first, second = (str(tmp_path / name) for name in ("data.svm", "first", "second"))
    dump_svmlight_file(X, y, data)
    train = ["train", data, "-q", "--memory", "500kB", "--cv", "2", "--Cs", "2", "-o"]
    train += [str(tmp_path / "model.npz"), "--checkpoint"]
    assert cli.main([*train, first]) == 0
    assert cli.main([*train, second, "--checkpoint-every", "1e-9", "--resume", first]) == 0
    with np.load(first) as of_search, np.load(second) as of_fit:
        assert "state.blocks" in of_fit
        np.testing.assert_array_equal(of_fit["search.scores"], of_search["search.scores"])


def test_the_command_line_trains_on_blocks(tmp_path, rng, capsys):
    X, y, _ = make(rng, "sparse")
    data, output = str(tmp_path / "data.svm"), str(tmp_path / "model.npz")
    dump_svmlight_file(X, y, data)
    train = ["train", data, "--memory", MEMORY, "--cache", str(tmp_path / "cache"), "-o", output]
    assert cli.main(train) == 0
    assert "3000 rows, 12 features" in capsys.readouterr().err
    assert (tmp_path / "cache" / "index.json").exists()
    assert cli.main(["predict", output, data, "-o", str(tmp_path / "y")]) == 0
    assert cli.main([*train, "--kernel", "rbf"]) == 2
    assert "Nystroem" in capsys.readouterr().err
    for options, message in (
        (["--solver", "pegasos"], "need --solver auto, sdca or newton, and no --n-steps; searches"),
        (["--multi-class", "crammer_singer"], "need --multi-class ovr or ovo, got crammer_singer"),
    ):
        assert cli.main([*train, *options]) == 2
        assert message in capsys.readouterr().err
    for size, message in (("2", "--memory must be"), ("2000", "--memory 2000 bytes is too little")):
        assert cli.main([*train, "--memory", size]) == 2
        assert f"error: {message}" in capsys.readouterr().err


STATUS = pathlib.Path("/proc/self/status")


@pytest.mark.skipif(
    not STATUS.exists() or "VmHWM" not in STATUS.read_text(), reason="memory is read from /proc"
)
def test_conversion_and_fits_stay_within_memory(tmp_path):
    """What the process took at most is its own: `ru_maxrss` has that of the one that started it."""
    program = """
import sys
import numpy as np
from pegasos import Blocks, PegasosClassifier

def source():
    rng = np.random.default_rng(0)
    for _ in range(60):
        X = rng.normal(size=(2000, 50)).astype(np.float32)
        yield X, (X[:, 0] + X[:, 1] + rng.normal(size=2000) > 0).astype(int)

def peak():
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) * 1.024e-3

first = lambda: (piece for piece, _ in zip(source(), range(3)))
warm = Blocks(first, cache=sys.argv[1] + "0", memory=2**18)
PegasosClassifier(random_state=0).fit(warm)
before = peak()
blocks = Blocks(source, cache=sys.argv[1], memory="8MB")
PegasosClassifier(lam=1e-4, random_state=0).fit(blocks).score(blocks)
print(blocks.nbytes / 1e6, peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "cache")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    size, grown = map(float, done.stdout.split())
    assert size > 22
    assert grown < 8 * 1.1 + 4
