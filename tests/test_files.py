"""What commands read and write: pipes, links, devices, closed streams, and text of many kinds."""

import contextlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import pegasos
from pegasos import cli
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
