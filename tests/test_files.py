"""What commands read and write: pipes, links, devices, closed streams, and text of many kinds."""

import contextlib
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import pegasos
from pegasos import _archive, cli
from pegasos._progress import Progress

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


# ---- Writing ---------------------------------------------------------------------------------------

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


# ---- Streams ---------------------------------------------------------------------------------------


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


def test_progress_in_a_file_is_lines(tmp_path, capsys, small):
    assert main("train", small[0], "-o", tmp_path / "new.npz") == 0
    said = capsys.readouterr().err
    assert "\r" not in said
    assert any(line.startswith("PegasosClassifier") for line in said.split("\n"))


def test_lines_of_progress_are_few(capsys, monkeypatch):
    """In a file: as far apart as the run is old, and at most a minute."""
    now = [0.0]
    monkeypatch.setattr("pegasos._progress.time.perf_counter", lambda: now[0])
    with Progress("running") as progress:
        for _ in range(10 * 3600):
            now[0] += 0.1
            progress.update(lambda: (now[0], 3600, ""))
    lines = capsys.readouterr().err.splitlines()
    assert 60 <= len(lines) <= 75


@posix
@pytest.mark.parametrize("tqdm", [True, False])
def test_progress_in_a_terminal_is_one_line(tmp_path, small, tqdm):
    if tqdm:
        pytest.importorskip("tqdm")
    import pty
    import termios

    code = "import sys; from pegasos import cli; sys.modules.update({}) ; sys.exit(cli.main())"
    if not tqdm:
        code = code.replace("{}", "tqdm=None")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-c", code, "train", small[0], "-o", str(tmp_path / "new.npz")]
    process = subprocess.Popen(command, stderr=theirs)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # at the end
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert process.wait() == 0
    assert b"\rPegasosClassifier" in said
