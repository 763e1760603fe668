"""What commands read and write: pipes, links, devices, closed streams, and text of many kinds."""

import bz2
import codecs
import contextlib
import dataclasses
import errno
import gzip
import io
import lzma
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from interruption import asked_often
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import pegasos
from pegasos import cli
from pegasos.io import _archive, _readers
from pegasos.io._progress import Progress

COMMAND = [sys.executable, "-m", "pegasos"]
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture
def rows(rng):
    """Rows in which every feature but the first and last is used by every second row."""
    X = rng.normal(size=(60, 5)).round(3)
    X[1::2, [0, -1]] = 0
    return X, np.where(X[:, 1] + X[:, 2] > 0, 1, -1)


def write_csv(path, X, y=None, delimiter=","):
    columns = X if y is None else np.column_stack([X, y])
    np.savetxt(path, columns, delimiter=delimiter, fmt="%.9g")
    return str(path)


def write_svm(path, X, y, zero_based=False):
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    return str(path)


def write(path, X, y):
    if path.suffix == ".npz":
        np.savez(path, X=X, y=y)
        return str(path)
    return (write_csv if path.suffix == ".csv" else write_svm)(path, X, y)


def main(*words):
    return cli.main([str(word) for word in words])


@contextlib.contextmanager
def piped(path, content):
    """A named pipe that something writes `content` to, once."""
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(content), daemon=True)
    writer.start()
    yield str(path)
    writer.join()


# ---- Reading
# ---------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("name", ["a.csv", "a.svm", "a.npz"])
def test_a_pipe_is_read_like_a_file(tmp_path, rows, name):
    file = write(tmp_path / name, *rows)
    expected = _readers.read(file)
    with piped(tmp_path / f"pipe{name}", (tmp_path / name).read_bytes()) as pipe:
        X, y, *_ = _readers.read(pipe)
    np.testing.assert_array_equal(_dense(X), _dense(expected[0]))
    np.testing.assert_array_equal(y, expected[1])
    assert len(y) == 60


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


@posix
@pytest.mark.parametrize("place", ["-", "/dev/stdin"])
def test_standard_input_is_read(tmp_path, rows, place):
    file, X = write_csv(tmp_path / "a.csv", *rows), rows[0]
    pegasos.fit(*rows, 0.01).save(tmp_path / "m.npz")
    with open(file, "rb") as text:
        done = subprocess.run(
            [*COMMAND, "predict", tmp_path / "m.npz", place, "--format", "csv"],
            input=text.read(), capture_output=True, check=True,
        )  # fmt: skip
    predicted = [int(label) for label in done.stdout.split()]
    np.testing.assert_array_equal(predicted, pegasos.load(tmp_path / "m.npz").predict(X))


@posix
@pytest.mark.parametrize(
    ("format", "pack"),
    [("csv", bytes), ("csv", gzip.compress), ("libsvm", gzip.compress), ("libsvm", bz2.compress),
     ("npz", bytes)],
)  # fmt: skip
def test_standard_input_may_be_packed(tmp_path, rows, monkeypatch, format, pack):
    file = tmp_path / f"a.{format}"
    {"csv": write_csv, "libsvm": write_svm, "npz": write}[format](file, *rows)
    packed = pack(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("not this one")
    with piped(tmp_path / "pipe", packed) as pipe, open(pipe) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        X, y, *_ = _readers.read("-", format=format)
    np.testing.assert_array_equal(_dense(X), rows[0])
    np.testing.assert_array_equal(y, rows[1])


def test_faults_of_a_pipe_are_told_by_its_name(tmp_path):
    with (
        piped(tmp_path / "pipe.csv", b"1,2,0\n3,x,1\n") as pipe,
        pytest.raises(ValueError, match=r"pipe\.csv, line 2: column 2 is not a number"),
    ):
        _readers.read(pipe)


@pytest.mark.parametrize("zero_based", [True, False])
def test_a_model_remembers_from_where_features_are_counted(tmp_path, rows, capsys, zero_based):
    X, y = rows
    every, some = tmp_path / "every.svm", tmp_path / "some.svm"
    write_svm(every, X, y, zero_based)
    write_svm(some, X[1::2], y[1::2], zero_based)  # without first and last feature
    assert main("train", every, "-q", "-o", tmp_path / "m.npz", "--lam", 0.01) == 0
    model = pegasos.load(tmp_path / "m.npz")
    assert model.zero_based is zero_based
    assert main("predict", tmp_path / "m.npz", some, "--scores") == 0
    scores = np.loadtxt(capsys.readouterr().out.splitlines()[1:])
    np.testing.assert_allclose(scores, model.decision_function(X[1::2]), rtol=1e-7)


@pytest.mark.filterwarnings("default")
def test_a_file_that_counts_otherwise_than_the_model_is_read_as_told(tmp_path, rows, capsys):
    X, y = rows
    train = write_svm(tmp_path / "train.svm", X, y, zero_based=True)
    new = write_svm(tmp_path / "new.svm", X, y, zero_based=False)
    assert main("train", train, "-q", "-o", tmp_path / "m.npz", "--lam", 0.01) == 0
    assert main("predict", tmp_path / "m.npz", new) == 2
    said = capsys.readouterr().err
    assert "feature number 5, counted from 0, but" in said
    assert main("predict", tmp_path / "m.npz", new, "--zero-based", "no") == 0
    shown = capsys.readouterr()
    assert "new.svm are counted from 1 as told, but the model was" in shown.err
    expected = pegasos.load(tmp_path / "m.npz").predict(X)
    assert [int(label) for label in shown.out.split()] == expected.tolist()


@pytest.mark.filterwarnings("default")
def test_files_that_may_count_from_0_are_told(tmp_path, rows, capsys):
    X, y = rows
    pegasos.fit(X, y, 0.01).save(tmp_path / "m.npz")  # of an array
    some = write_svm(tmp_path / "some.svm", X[1::2], y[1::2], zero_based=True)
    assert main("predict", tmp_path / "m.npz", some) == 0
    assert "has neither a feature 0 nor a feature 5" in capsys.readouterr().err
    assert main("predict", tmp_path / "m.npz", some, "--zero-based", "yes", "--scores") == 0
    scores = np.loadtxt(capsys.readouterr().out.splitlines()[1:])
    expected = pegasos.load(tmp_path / "m.npz").decision_function(X[1::2])
    np.testing.assert_allclose(scores, expected, rtol=1e-7)
    every = write_svm(tmp_path / "every.svm", X, y, zero_based=True)
    assert main("predict", tmp_path / "m.npz", every, "--zero-based", "no") == 2
    assert "feature number 0 where features are counted from 1" in capsys.readouterr().err


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_may_have_other_delimiters(tmp_path, rows, delimiter):
    X, y = rows
    name = write_csv(tmp_path / "a.csv", X, y, delimiter)
    read, labels, *_ = _readers.read(name)
    np.testing.assert_array_equal(read, X)
    np.testing.assert_array_equal(labels, y)
    assert _readers.guess_format("a.tsv.gz") == "csv"


@pytest.mark.parametrize("space", ["\t", " \t", "  "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_libsvm_text_may_have_tabs_and_marks(tmp_path, space, end, mark):
    lines = ["1 1:2 3:4", "-1 2:1 ", "1"]
    text = mark + "".join(line.replace(" ", space) + end for line in lines)
    (tmp_path / "a.svm").write_bytes(text.encode())
    X, y, zero_based, *_ = _readers.read(tmp_path / "a.svm")
    np.testing.assert_array_equal(X.toarray(), [[2, 0, 4], [0, 1, 0], [0, 0, 0]])
    assert y.tolist() == [1, -1, 1]
    assert zero_based is False


def test_libsvm_text_without_labels_can_be_predicted(tmp_path, rows, capsys):
    X, y = rows
    labelled = write_svm(tmp_path / "a.svm", X, y)
    lines = (tmp_path / "a.svm").read_text().splitlines()
    bare = tmp_path / "bare.svm"
    bare.write_text("".join(line.partition(" ")[2] + "\n" for line in lines))
    assert main("train", labelled, "-q", "-o", tmp_path / "m.npz") == 0
    out = []
    for file in (labelled, bare):
        assert main("predict", tmp_path / "m.npz", file) == 0
        out.append(capsys.readouterr())
    assert out[0].out == out[1].out
    assert "accuracy" not in out[1].err
    bare.write_text("# of rows only\n1:2 # one\n# two\n2:1\n")
    assert main("predict", tmp_path / "m.npz", bare) == 0
    assert len(capsys.readouterr().out.split()) == 2
    bare.write_text("1:2\n\n2:1\n")
    assert main("predict", tmp_path / "m.npz", bare) == 2
    assert "bare.svm, line 2: a row without features needs a label" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.svm", "1:2 2:3\n1:1\n", r"line 1: no row of LIBSVM text in '1:2 2:3': a row has"),
        ("a.svm", "1 1:2 2:3\n1:1\n", r"line 2: no row of LIBSVM text in '1:1': a row has"),
        ("a.svm", "1,2,3\n4,5,6\n", r"line 1: .* in '1,2,3': .*of CSV, say --format csv$"),
        ("a.csv", "spam,1,2\nham,3,4\n", r"column 1 is not a number.*--label 0"),
        ("a.csv", "1,0.5,0.25\n0,0.5,0.75\n", r"labels such as 0.25 .*--label .*--task regression"),
        ("a.csv", "1,5,0\n0,6,0\n2,7,0\n", r"all rows have the label 0, .*--label"),
        ("a.csv", "1,5;2,5;1\n1,5;2,5;1\n", r"column 2 is not a number"),
        ("a.csv", "p;q r;s\n1;2,5;1\n", r"column 2 \('q r'\) is not a number in '1;2,5;1'"),
        ("a.csv", "p,q r,s\n1,x,1\n", r"if it is the label, say --label 'q r'; .*--drop 'q r'$"),
        ("a.csv", "a\x00b,1,0\n2,1,1\n", r"a\.csv"),
        ("a.csv", "\n  \n", r"a\.csv is empty$"),
        ("a.csv", "\na,b,y\n\n", r"a\.csv has names of columns and no rows"),
        ("a.csv", "\n\na,b,y\n\n1,2,0\n3,x,1\n", r"a\.csv, line 6: column 2 \('b'\) is not a"),
        ("a.csv", "\n1|2|0\n", r"a\.csv has 1 column, but .*--separator"),
        ("a.csv", "1,2,0\n\n  \n3,4,1\n", r"a\.csv, line 3: 0 columns where the first line has 3"),
        ("a.csv", "1,2,0\n1_0,4,1\n", r"a\.csv, line 2: column 1 is not a number in '1_0,4,1'"),
        ("a.csv", "\uff11,2,0\n3,4,1\n", r"a\.csv, line 1: column 1 is not a number"),
        ("a.csv", "1,2,\udce9\n3,4,1\n", r"a\.csv is not text in UTF-8, to which it"),
        ("a.svm", "\x93NUMPY\x01\0v\0", r"a\.svm is binary, not text: .* it by --format$"),
        ("a.svm", "# 1,2\n1 1:2\n1 2\n", r"a\.svm, line 3: .* in '1 2': .* pairs index:value"),
        ("a.svm", "1 1:2\nspam 1:2\n",
         r"a\.svm, line 2: .* in 'spam 1:2': a row has a number"),
        ("a.svm", "1 4294967296:2\n", r"line 1: .* in '1 4294967296:2': a row"),
        ("a.svm", "1 -2:1\n", r" in '1 -2:1': .* indices .* from 0 to 2147483647;"),
        ("a.svm", "1 1:1 qid:3\n", r"line 1: .* in '1 1:1 qid:3': a row"),
        ("a.svm", "1 \uff11:1\n", r"line 1: .* in '1 \uff11:1': a row"),
        ("a.svm", "1 :1\n", r"line 1: .* in '1 :1': a row"),
        ("a.svm", "1 1:x\n", r"line 1: .* in '1 1:x': a row"),
        ("a.svm", "1 1:\n", r"line 1: .* in '1 1:': a row"),
        ("a.svm", "1 1:1:1\n", r"line 1: .* in '1 1:1:1': a row"),
        ("a.svm", "1,2 1:1\n", r" in '1,2 1:1': a row has a number"),
        ("a.svm", "nan 1:2\n1 1:1\n", r"a\.svm, line 1: a value is not finite in 'nan 1:2'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_text_is_said_in_a_sentence(tmp_path, capsys, name, text, message):
    (tmp_path / name).write_text(text, errors="surrogateescape")
    assert main("train", tmp_path / name, "-q", "-o", tmp_path / "m.npz") == 2
    said = capsys.readouterr().err
    assert re.search(message, said), said
    assert len(said.splitlines()) == 1


def test_a_vector_in_place_of_rows_is_refused_by_its_shape_whatever_it_holds(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", X=np.array([1, np.nan]), y=np.arange(2))
    assert main("train", tmp_path / "a.npz", "-q", "-o", tmp_path / "m.npz") == 2
    assert "a.npz: X must be two-dimensional" in capsys.readouterr().err


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.svm", "a.csv"])
def test_text_in_utf_16_is_told(tmp_path, name, coding):
    text = ("\ufeff" if coding != "utf-16" else "") + "1,2,0\n3,4,1\n"
    (tmp_path / name).write_bytes(text.encode(coding))
    with pytest.raises(ValueError, match=rf"{name} is text in UTF-16: save it as UTF-8"):
        _readers.read(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "1 1:1 3:2\n-1 2:1",
        "\t1   1:1\t3:2  \n  -1\v2:1\f\n",
        "\n1 1:1 3:2\r\n\r\n \t\n-1 2:1\r\n",
        "1 qid:3 1:1 3:2\n-1 qid:4 2:1\n-1 3:1\n",
        "# all\n1 1:1 #3:2\n-1#x 2:1\n1 1:1#\n",
        "1 0:1 3:2\n-1 2:1\n",
        "1 1:1 3:2\n-1 0:1\n",
        "1 1:0 3:0\n-1\n-1 2:0\n",
        ".5 01:+1 +3:-.5e1\n+1. 2:1e-400\n-1e0 2:0.12345678901234567890\n",
        f"2 1:0.{'1' * 400} 2:123456789012345678\n3 7:1e-310\n",
        "1 1:1 # \udce9\n-1 2:1\n",
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".xz"])
def test_libsvm_text_is_what_scikit_learn_reads(tmp_path, text, ending):
    """In memory and as `Blocks`; of a compressed file, in two members, with a mark before it."""
    content, path = text.encode(errors="surrogateescape"), str(tmp_path / f"a.svm{ending}")
    X, y = load_svmlight_file(io.BytesIO(content), zero_based="auto")
    if ending:
        pack = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[ending].compress
        content = codecs.BOM_UTF8 + content
        content = pack(content[:9]) + pack(content[9:])
    pathlib.Path(path).write_bytes(content)
    rows = _readers.read(path)
    blocks = pegasos.Blocks(path, cache=tmp_path / "cache", memory="1MB")
    for found, labels, *_ in (rows, blocks.in_memory()):
        tables = [np.column_stack(each) for each in ((labels, found.toarray()), (y, X.toarray()))]
        tables = [table[np.lexsort(table.T)] for table in tables]  # blocks have another order
        np.testing.assert_array_equal(*tables)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv_may_have_line_ends_and_marks_of_all_systems(tmp_path, end, mark):
    lines = ["a,b,label", "1,2,x", "3,4,y"]
    (tmp_path / "a.csv").write_bytes((mark + end.join(lines) + end).encode())
    X, y, *_ = _readers.read(tmp_path / "a.csv")
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
    assert y.tolist() == ["x", "y"]


@pytest.mark.parametrize("header", ["", "a,b,label\n"])
@pytest.mark.parametrize("before", ["\n", "\r\n\r\n", "  \n"])
@pytest.mark.parametrize("after", ["", "\n\n"])
def test_csv_may_have_empty_lines(tmp_path, header, before, after):
    """Before the header, and after it; only those between rows were skipped, as pandas does."""
    (tmp_path / "a.csv").write_text(f"{before}{header}{after}1,2,x\n\n3,4,y\n\n", newline="")
    X, y, _, names, _ = _readers.read(tmp_path / "a.csv")
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
    assert y.tolist() == ["x", "y"]
    assert names == (["a", "b"] if header else None)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_may_be_wide_and_have_delimiters_in_quotes(tmp_path, delimiter):
    names = [f'"a,b;c\t{k}"' for k in range(9)]
    rows = [[*names, "label"], ["1"] * 9 + ["x"], ["2"] * 9 + ["y"]]
    wide = [["1"] * 70_000 + ["0"], ["2"] * 70_000 + ["1"]]
    for table, n_columns in ((rows, 9), (wide, 70_000)):
        (tmp_path / "a.csv").write_text("".join(delimiter.join(row) + "\n" for row in table))
        assert _readers.read(tmp_path / "a.csv")[0].shape == (2, n_columns)


def test_a_table_without_features_is_refused(tmp_path, capsys):
    """Names of columns that are there twice were looked for, and ended in an IndexError."""
    (tmp_path / "a.csv").write_text("a,label\n1,x\n2,y\n")
    assert main("train", tmp_path / "a.csv", "--drop", "a", "-o", tmp_path / "m.npz") == 2
    assert "a label and at least one feature are needed" in capsys.readouterr().err


def test_columns_of_one_name_in_parquet_are_refused(tmp_path, capsys):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    table = pyarrow.table([[1.0, 2.0], [2.0, 1.0], [0, 1]], names=["a", "a", "y"])
    parquet.write_table(table, tmp_path / "a.parquet")
    assert main("train", tmp_path / "a.parquet", "-q", "-o", tmp_path / "m.npz") == 2
    assert "a.parquet has two columns named 'a', and" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_columns_of_one_name_are_told(tmp_path, capsys):
    """A model was trained without names, which predictions go by, and nothing said so."""
    (tmp_path / "a.csv").write_text("a,a,label\n1,2,x\n2,1,y\n")
    assert main("train", tmp_path / "a.csv", "-q", "-o", tmp_path / "m.npz") == 0
    assert "a.csv has two columns named 'a': the model takes columns by" in capsys.readouterr().err
    assert pegasos.load(tmp_path / "m.npz").feature_names is None
    assert main("train", tmp_path / "a.csv", "--drop", 1, "-q", "-o", tmp_path / "m.npz") == 0
    assert "two columns" not in capsys.readouterr().err


def test_labels_that_are_not_those_of_the_model_are_told(tmp_path, rows, capsys):
    X, y = rows
    pegasos.fit(X, y, 0.01).save(tmp_path / "m.npz")
    file = write_csv(tmp_path / "a.csv", np.column_stack([y, X]))
    assert main("predict", tmp_path / "m.npz", file) == 0
    assert "is --label right?" in capsys.readouterr().err
    assert main("predict", tmp_path / "m.npz", file, "--label", 0) == 0
    assert "accuracy" in capsys.readouterr().err


# ---- Writing
# ---------------------------------------------------------------------------------------

MODEL = pegasos.fit(np.eye(4), [0, 1, 0, 1], 0.1, random_state=0)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_links_are_followed_and_permissions_kept(tmp_path, mode):
    real, link = tmp_path / "folder" / "real.npz", tmp_path / "link.npz"
    real.parent.mkdir()
    real.write_bytes(b"before")
    real.chmod(mode)
    link.symlink_to(real)
    MODEL.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == mode
    assert pegasos.load(real).n_features == 4
    assert [p.name for p in real.parent.iterdir()] == ["real.npz"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_file_keeps_its_owner(tmp_path):
    (tmp_path / "m.npz").touch(0o600)
    os.chown(tmp_path / "m.npz", 12345, 54321)
    MODEL.save(tmp_path / "m.npz")
    status = (tmp_path / "m.npz").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o600)


@posix
def test_what_is_private_is_so_while_it_is_written(tmp_path):
    (tmp_path / "a.txt").touch(0o600)
    with _archive.replacing(tmp_path / "a.txt", "w"):
        assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


def test_a_lack_of_memory_that_the_system_tells_is_a_memory_error():
    """As of files that are mapped, where the address space is limited."""
    with pytest.raises(MemoryError, match=r"^rows\.npz: "), _archive.naming("rows.npz"):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


@posix
def test_a_new_file_has_the_permissions_of_the_mask(tmp_path):
    before = os.umask(0o027)
    try:
        MODEL.save(tmp_path / "m.npz")
        (tmp_path / "dangling.npz").symlink_to("there.npz")
        MODEL.save(tmp_path / "dangling.npz")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m.npz").stat().st_mode) == 0o640
    assert not (tmp_path / "there.npz").is_symlink()


@posix
def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe, got = tmp_path / "pipe.npz", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    MODEL.save(pipe)
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    (tmp_path / "m.npz").write_bytes(got[0])
    np.testing.assert_array_equal(pegasos.load(tmp_path / "m.npz").coef, MODEL.coef)


@posix
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_is_told_and_the_device_stays_one(tmp_path, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    link = tmp_path / "full.npz"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left.*full\.npz"):
        MODEL.save(link)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert link.is_symlink()
    np.savez(tmp_path / "a.npz", X=np.eye(4))
    MODEL.save(tmp_path / "m.npz")
    assert main("predict", tmp_path / "m.npz", tmp_path / "a.npz", "-o", "/dev/full") == 2
    assert capsys.readouterr().err == "pegasos: error: /dev/full: No space left on device\n"


@pytest.mark.parametrize("option", ["-o", "--checkpoint"])
@pytest.mark.parametrize(
    ("place", "message"),
    [("nowhere/m.npz", "No such file"), (".", "Is a directory"), ("new/", "Is a directory"),
     ("x" * 300, "too long"), ("a.npz/m.npz", "Not a directory")],
)  # fmt: skip
def test_where_nothing_can_be_written_training_does_not_begin(
    tmp_path, capsys, option, place, message
):
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=np.arange(4) % 2)
    place = os.path.join(tmp_path, place)
    words = ["train", tmp_path / "a.npz", "-o", tmp_path / "m.npz", option, place]
    assert main(*words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pegasos: error: {place}: ")
    assert message in said
    assert len(said.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("option", ["-o", "--checkpoint"])
def test_training_does_not_overwrite_its_rows(tmp_path, capsys, option):
    for name in ("a.npz", "v.npz"):
        np.savez(tmp_path / name, X=np.eye(4), y=np.arange(4) % 2)
    (tmp_path / "link.npz").symlink_to("a.npz")
    before = [(tmp_path / name).read_bytes() for name in ("a.npz", "v.npz")]
    for name in ("a.npz", "link.npz", "v.npz"):
        words = ["train", tmp_path / "a.npz", "--validation", tmp_path / "v.npz"]
        assert main(*words, "-o", tmp_path / "m.npz", option, tmp_path / name) == 2
        assert f"{name} is read, and would be overwritten" in capsys.readouterr().err
    assert [(tmp_path / name).read_bytes() for name in ("a.npz", "v.npz")] == before


def test_a_model_does_not_replace_the_checkpoint_of_its_training(tmp_path, capsys):
    """It has no state to go on from, where Ctrl-C ended the training."""
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=np.arange(4) % 2)
    (tmp_path / "link.npz").symlink_to("c.npz")
    for name in ("c.npz", "link.npz"):
        words = ["train", tmp_path / "a.npz", "-o", tmp_path / name, "--checkpoint"]
        assert main(*words, tmp_path / "c.npz") == 2
        assert "c.npz is the checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "c.npz").exists()


def test_a_model_does_not_replace_the_checkpoint_that_training_goes_on_from(tmp_path, capsys):
    data, file = tmp_path / "a.npz", tmp_path / "c.npz"
    np.savez(data, X=np.eye(4), y=np.arange(4) % 2)
    train = ["train", data, "-q", "--solver", "pegasos", "--tol", "none", "--max-iter", "50"]
    checkpoint = ["--checkpoint", file, "--checkpoint-every", "1e-9"]
    with asked_often(1e3):
        assert main(*train, "-o", tmp_path / "m.npz", *checkpoint) == 0
    before = file.read_bytes()
    (tmp_path / "link.npz").symlink_to("c.npz")
    for name in ("c.npz", "link.npz"):
        assert main(*train, "-o", tmp_path / name, "--resume", file) == 2
        assert f"{name} is read, and would be overwritten" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert main(*train, "-o", tmp_path / "m.npz", "--resume", file, *checkpoint) == 0


def test_prediction_does_not_overwrite_what_it_reads(tmp_path, capsys):
    MODEL.save(tmp_path / "m.npz")
    np.savez(tmp_path / "a.npz", X=np.eye(4))
    for name in ("m.npz", "a.npz"):
        before = (tmp_path / name).read_bytes()
        words = ["predict", tmp_path / "m.npz", tmp_path / "a.npz", "-o", tmp_path / name]
        assert main(*words) == 2
        assert f"{name} is read, and would be overwritten" in capsys.readouterr().err
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("option", ["-o", "--checkpoint", "--resume"])
def test_a_name_may_not_be_empty(tmp_path, capsys, monkeypatch, option):
    """Of a variable of a script that has no value, for instance."""
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", X=np.eye(4), y=np.arange(4) % 2)
    assert main("train", "a.npz", "-q", option, "") == 2
    assert capsys.readouterr().err.startswith("pegasos: error: '': No such file")


@posix
def test_a_file_that_must_not_be_written_stays_as_it_is(tmp_path):
    file = tmp_path / "m.npz"
    file.write_bytes(b"precious")
    file.chmod(0o444)
    if os.access(file, os.W_OK):
        pytest.skip("this user may write everything")
    with pytest.raises(PermissionError, match=r"m\.npz"):
        MODEL.save(file)
    assert file.read_bytes() == b"precious"


def test_names_may_be_long_and_odd(tmp_path):
    for name in ("x" * 250, "ä b\nc'\"", "-m"):
        MODEL.save(tmp_path / name)
        assert pegasos.load(tmp_path / name).n_features == 4


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("before")
    with contextlib.suppress(RuntimeError), _archive.replacing(file, "w") as out:
        out.write("half")
        raise RuntimeError
    assert file.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


# ---- Streams
# ---------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path, rows):
    """A data file, and a model of it."""
    model = tmp_path / "m.npz"
    pegasos.fit(*rows, 0.01).save(model)
    return write_csv(tmp_path / "a.csv", *rows), str(model)


def shell(line, *words):
    """Run a line of shell script, in which "$@" is a command and its words."""
    script = ["sh", "-c", line, "sh", *COMMAND, *map(str, words)]
    return subprocess.run(script, capture_output=True, text=True, check=False)


@posix
@pytest.mark.parametrize("line", ['"$@" 2>&-', '"$@" >&- 2>&- <&-', '"$@" 2>/dev/full'])
def test_a_model_is_written_where_nobody_listens(tmp_path, small, line):
    if "full" in line and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    done = shell(line, "train", small[0], "-o", tmp_path / "new.npz")
    assert done.returncode == 0
    assert done.stdout == ""
    assert pegasos.load(tmp_path / "new.npz").n_features == 5


@posix
def test_a_model_is_written_though_the_reader_of_reports_leaves(tmp_path, small):
    done = shell('{ "$@"; echo $? >&3; } 3>&2 2>&1 | true', "train", small[0],
                 "-o", tmp_path / "new.npz")  # fmt: skip
    assert done.stderr == "0\n"
    assert pegasos.load(tmp_path / "new.npz").n_features == 5


@posix
def test_predictions_that_nobody_reads_end_without_a_traceback(tmp_path, small):
    np.savez(tmp_path / "many.npz", X=np.zeros((10**5, 5)))
    done = shell('{ "$@"; echo $? >&2; } | head -1', "predict", small[1], tmp_path / "many.npz")
    assert done.stderr == "141\n"
    assert len(done.stdout.splitlines()) == 1
    done = shell('"$@" >&-', "predict", small[1], small[0])
    assert done.returncode == 2
    assert done.stderr == "pegasos: error: standard output is closed: say -o FILE\n"
    done = shell('"$@" >&-', "train", small[0], "-o", tmp_path / "new.npz", "--json")
    assert done.returncode == 2
    assert done.stderr == "pegasos: error: standard output is closed: leave --json out\n"
    assert not os.path.exists(tmp_path / "new.npz")
    if os.path.exists("/dev/full"):
        done = shell('"$@" >/dev/full', "predict", small[1], small[0])
        assert done.returncode == 2
        assert done.stderr == "pegasos: error: standard output: No space left on device\n"
        done = shell('"$@" >/dev/full', "info", small[1], "--json")
        assert done.stderr == "pegasos: error: standard output: No space left on device\n"


@posix
def test_ctrl_c_keeps_the_model_so_far(tmp_path, rows):
    file = write_csv(tmp_path / "a.csv", *rows)
    train = ["train", file, "-o", str(tmp_path / "new.npz"), "--solver", "pegasos", "--tol", "none",
             "--max-iter", str(10**9), "--checkpoint", str(tmp_path / "half.npz")]  # fmt: skip
    log = tmp_path / "log"
    with open(log, "w") as out:
        process = subprocess.Popen([*COMMAND, *train], stderr=out)
        while "\nPegasosClassifier" not in log.read_text():  # the first sign of progress
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.wait()
    said = log.read_text()
    assert process.returncode == 130
    assert f"interrupted; the model so far is saved to {tmp_path / 'new.npz'}; " in said
    assert said.endswith(f"to go on, say --resume {tmp_path / 'half.npz'}\n")
    assert pegasos.load(tmp_path / "new.npz").n_steps[0] > 0


@pytest.mark.parametrize("learned", [0.0, 1.0])
@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf"]])
def test_ctrl_c_writes_no_model_that_has_learned_nothing(
    tmp_path, small, kernel, learned, monkeypatch, capsys
):
    def interrupted(machine, X, y, *_):
        machine.fit(X, y)
        if kernel:
            machine.dual_coef_ = machine.dual_coef_ * learned
        else:
            machine.coef_ = machine.coef_ * learned
        return False

    monkeypatch.setattr(cli, "_fitted", interrupted)
    path = tmp_path / "new.npz"
    path.write_text("an old file")
    assert main("train", small[0], "-q", "-o", path, *kernel) == 130
    assert (path.read_bytes() == b"an old file") == (not learned)
    what = f"the model so far is saved to {path}"
    what = what if learned else "nothing was learned yet: no model is written"
    assert capsys.readouterr().err == f"pegasos: interrupted; {what}\n"


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.filterwarnings("default")
def test_ctrl_c_writes_no_model_of_some_classes(tmp_path, rng, is_begun, monkeypatch, capsys):
    """A model took the place of an old one, though two of three classes had not begun.

    Of a class that has, w = 0 may be best.
    """
    X = rng.normal(size=(200, 3))
    np.savez(tmp_path / "a.npz", X=X, y=X.argmax(axis=1))

    def interrupted(machine, X, y, *_):
        machine.fit(X, y)
        machine.coef_ = machine.coef_ * [[1], [0], [0]]
        machine.n_steps_ = np.where([True, is_begun, is_begun], machine.n_steps_, 0)
        return False

    monkeypatch.setattr(cli, "_fitted", interrupted)
    path = tmp_path / "new.npz"
    path.write_text("an old file")
    assert main("train", tmp_path / "a.npz", "-q", "--C", 100, "-o", path) == 130
    assert (path.read_bytes() == b"an old file") == (not is_begun)
    said = capsys.readouterr().err
    words = "nothing was learned yet of some classes or outputs: no model is written"
    assert (words in said) == (not is_begun)


@pytest.mark.parametrize("resume", [False, True])
def test_ctrl_c_names_no_checkpoint_of_an_earlier_run(tmp_path, small, resume, monkeypatch, capsys):
    half = str(tmp_path / "half.npz")
    train = ["train", small[0], "-o", tmp_path / "new.npz", "-q", "--checkpoint", half]
    assert main(*train) == 0
    monkeypatch.setattr(cli, "_training_rows", lambda *_: signal.raise_signal(signal.SIGINT))
    assert main(*train, *(["--resume", half] if resume else [])) == 130
    go_on = f"; to go on, say --resume {half}" if resume else ""
    assert capsys.readouterr().err == f"pegasos: interrupted{go_on}\n"


def test_ctrl_c_in_a_converter_of_numpy_is_no_bad_data(tmp_path, monkeypatch, capsys):
    """It was called a label that is not a number: NumPy makes it the cause of a ValueError."""

    def interrupted(_):
        raise KeyboardInterrupt

    def stopped(lines, *, converters, **options):
        return loadtxt(lines, converters=dict.fromkeys(converters, interrupted), **options)

    loadtxt = np.loadtxt
    monkeypatch.setattr(np, "loadtxt", stopped)
    path = tmp_path / "a.csv"
    path.write_text("a,b,y\n1,2,yes\n3,4,no\n")
    with pytest.raises(KeyboardInterrupt):
        pegasos.PegasosClassifier().fit(pegasos.Blocks(path, cache=tmp_path / "cache"))
    assert main("train", path, "-o", tmp_path / "new.npz", "-q") == 130
    assert capsys.readouterr().err == "pegasos: interrupted\n"


@pytest.mark.parametrize("is_ctrl_c", [False, True])
def test_ctrl_c_during_an_import_is_told_as_such(tmp_path, small, is_ctrl_c, monkeypatch, capsys):
    def imports(*_):
        cause = KeyboardInterrupt() if is_ctrl_c else OSError()
        inner = ImportError("initialization failed")
        inner.__cause__ = cause
        raise ImportError("initialization failed") from inner

    monkeypatch.setattr(cli, "_training_rows", imports)
    code = main("train", small[0], "-o", tmp_path / "new.npz", "-q")
    told = "interrupted" if is_ctrl_c else "error: initialization failed"
    assert (code, capsys.readouterr().err) == (130 if is_ctrl_c else 2, f"pegasos: {told}\n")


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_without_a_place(tmp_path, small, capsys):
    train = ["train", small[0], "-o", tmp_path / "new.npz", "-q", "--solver", "sdca"]
    assert main(*train, "--max-iter", 1, "--tol", 1e-9) == 0
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert said.startswith("pegasos: warning: stopped at --max-iter 1")


def test_progress_in_a_file_is_lines(tmp_path, capsys, small):
    assert main("train", small[0], "-o", tmp_path / "new.npz") == 0
    said = capsys.readouterr().err
    assert "\r" not in said
    assert any(line.startswith("PegasosClassifier") for line in said.split("\n"))


def test_progress_does_not_go_to_another_program(tmp_path, small, monkeypatch):
    read, write = os.pipe()
    with open(write, "w") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        assert main("train", small[0], "-o", tmp_path / "new.npz") == 0
    with open(read) as pipe:
        said = pipe.read()
    assert "PegasosClassifier" not in said
    assert "model saved" in said


def test_lines_of_progress_are_few(capsys, monkeypatch):
    """In a file: as far apart as the run is old, and at most a minute."""
    now = [0.0]
    monkeypatch.setattr("pegasos.io._progress.time.perf_counter", lambda: now[0])
    with Progress("running") as progress:
        for _ in range(10 * 3600):
            now[0] += 0.1
            progress.update(lambda: (now[0], 3600, ""))
    lines = capsys.readouterr().err.splitlines()
    assert 60 <= len(lines) <= 75
    assert lines[-1] == f"running [{'#' * 10}] 100 %  3600.0 s"


@posix
def test_progress_in_a_terminal_is_one_line(tmp_path, small):
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    train = [*COMMAND, "train", small[0], "-o", str(tmp_path / "new.npz")]
    process = subprocess.Popen(train, stderr=theirs)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # at the end
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert process.wait() == 0
    shown = re.findall(rb"\r(PegasosClassifier[^\r]*)", said)
    assert max(map(len, shown)) < 60  # or the terminal would break it


def test_a_line_of_progress_hides_the_longer_one_before(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    now = [0.0]
    monkeypatch.setattr("pegasos.io._progress.time.perf_counter", lambda: now[0])
    with Progress("running") as progress:
        for note in ("a long note", "short", ""):
            now[0] += 1
            progress.update(lambda note=note: (0, 0, note))
    assert capsys.readouterr().err.split("\r")[1:] == [
        "running  a long note  1.0 s",
        "running  short  2.0 s      ",
        "running  3.0 s       ",
        "running  3.0 s\n",
    ]


def test_models_show_their_size_and_their_gap_and_no_numbers_of_rows(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    linear = pegasos.PegasosClassifier(lam=0.01, random_state=0).fit(X, y).to_model()
    shown = repr(linear)
    told = "LinearModel(3 classes, 4 features, lam=0.01, loss='hinge', relative gap <= "
    assert shown.startswith(told)
    assert (
        float(shown.removesuffix(")").split("<= ")[1])
        >= 0.99 * (linear.duality_gap / linear.objective).max()
    )
    exact = dataclasses.replace(linear, objective=linear.dual_objective)
    assert repr(exact).endswith("loss='hinge', gap 0)")
    kernel = pegasos.KernelPegasosRegressor(random_state=0).fit(X, y.astype(float)).to_model()
    assert repr(kernel).startswith("KernelModel(1 output, 4 features, ")
    kernel.save(tmp_path / "model.npz")
    assert repr(pegasos.load(tmp_path / "model.npz")) == repr(kernel)


@pytest.mark.parametrize("kind", [pegasos.PegasosOneClass, pegasos.KernelPegasosOneClass])
@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_of_one_class_show_the_gap_that_tol_bounds(kind, nu):
    X = np.random.default_rng(0).normal(3, 1, size=(300, 2))
    one = kind(nu=nu, max_iter=3, solver="pegasos", random_state=0).fit(X)
    told = float(repr(one.to_model()).removesuffix(")").split(" relative gap <= ")[1])
    assert told == pytest.approx((one.duality_gap_ / abs(one.dual_objective_))[0], rel=0.06)


def test_a_model_of_one_class_whose_w_is_0_shows_no_part_of_0():
    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.warns(UserWarning, match="w = 0"):
        model = pegasos.PegasosOneClass(nu=0.1).fit(X).to_model()
    assert repr(dataclasses.replace(model, dual_objective=np.zeros(1))).endswith(", gap 0)")
    rounded = dataclasses.replace(model, dual_objective=np.array([-1e-17]))
    assert "gap" not in repr(rounded)
