"""Published results and shapes of real data; skipped where the data are not on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import paper
import pytest
from sklearn.datasets import load_svmlight_file

from pegasos import cli

ROOT = Path(__file__).parents[1]


def test_digits_5_and_6_reproduce_the_published_error(data_folder):
    done = subprocess.run(
        [sys.executable, "-m", "experiments.digits_5_vs_6"], cwd=ROOT,
        capture_output=True, text=True, check=True, env={"PEGASOS_DATA": str(data_folder)},
    )  # fmt: skip
    mean = float(done.stdout.split("Misclassified of 600: mean ")[1].split(",")[0])
    assert 19.5 <= mean <= 21.5


def test_adult_reaches_the_test_error_of_the_literature(data_folder, dtype):
    train, test = (str(data_folder / "adult" / name) for name in ("a9a.gz", "a9a.t.gz"))
    X, y = load_svmlight_file(train, n_features=123, dtype=dtype)
    X_test, y_test = load_svmlight_file(test, n_features=123, dtype=dtype)
    clf = paper.linear(lam=3.07e-5, max_iter=30, average="suffix", random_state=0).fit(X, y)
    assert clf.score(X_test, y_test) > 0.845
    # Dense rows take the same decisions, save where a margin is within rounding of one.
    dense = paper.linear(lam=3.07e-5, max_iter=30, average="suffix", random_state=0)
    dense.fit(X.toarray(), y)
    assert (dense.alpha_counts_ != clf.alpha_counts_).mean() < 1e-3
    np.testing.assert_allclose(dense.objective_, clf.objective_, rtol=1e-4)


def test_the_command_line_reads_published_files(data_folder, tmp_path, capsys):
    folder = data_folder / "adult"
    model = str(tmp_path / "adult.npz")
    assert cli.main(["train", str(folder / "a9a.gz"), "-o", model, "-q"]) == 0
    # The test file lacks the last column.
    assert cli.main(["predict", model, str(folder / "a9a.t.gz"), "-o", str(tmp_path / "out")]) == 0
    accuracy = float(capsys.readouterr().err.split("accuracy ")[1].split()[0])
    assert accuracy > 84
    assert len((tmp_path / "out").read_text().split()) == 16281


def test_sparse_text_in_single_precision_learns_as_in_double(data_folder):
    bz2 = str(data_folder / "reuters_moneyfx" / "reuters.trn.bz2")
    X, y = load_svmlight_file(bz2)
    models = [
        paper.fit(X.astype(kind), y, 1e-4, max_iter=20, average="suffix", random_state=0)
        for kind in (np.float32, np.float64)
    ]
    np.testing.assert_allclose(models[0].objective, models[1].objective, rtol=1e-3)
    assert (models[0].predict(X) == y).mean() > 0.97


TABLES = {
    "micro": ([], "epoch/X@w"),
    "small": (["--sets", "wine", "mushrooms"], "x pegasos"),
    "threads": (["--sets", "sparse, 2 classes", "kernel, 10 classes"], "equal"),
}


@pytest.mark.slow
def test_benchmarks_run_and_report_ratios(tmp_path):
    """In one process: its imports take as long as a quick table."""
    lines = [[table, *options, "--quick", "--json"] for table, (options, _) in TABLES.items()]
    code = f"import run, sys\nfor line in {lines}: sys.argv[1:] = [*line, '.']; run.main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT / "bench")},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "DIFFER" not in done.stdout
    for table, (_, figure) in TABLES.items():
        assert figure in done.stdout.split(f"{table}: ")[1]
        assert (tmp_path / f"{table}.json").stat().st_size > 500


_FAILS_AT_THE_SECOND = """
import linear, run

def measure(name, *_):
    if name != "first":
        raise MemoryError
    return [{"set": name}], [{"set": name}]

class Data:
    X = y = None
    called = lambda self, name: name
    first = lambda self, count: self

linear.measure, linear.Task, linear.touch_memory = measure, lambda *_: None, lambda _: None
linear.CASES = {"first": (Data, None, 1), "second": (Data, None, 1)}
run.main()
"""


def test_figures_are_kept_set_by_set(tmp_path):
    """Of a table that was stopped after an hour, nothing was left."""
    done = subprocess.run(
        [sys.executable, "-c", _FAILS_AT_THE_SECOND, "linear", "--quick", "--json", tmp_path],
        env=os.environ | {"PYTHONPATH": str(ROOT / "bench")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.rstrip().endswith("MemoryError")
    (kept,) = json.loads((tmp_path / "linear.json").read_text()).items()
    assert kept[0] == "first"
    assert kept[1]["about"]["command"] == "python bench/run.py linear --quick"
