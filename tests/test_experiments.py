"""Every experiment in its quick form: tables, pictures, and figures that are sane; no times."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from experiments import __main__ as command
from experiments import ladder, report, time_to_suboptimality


@pytest.fixture
def section(data_folder, tmp_path):
    """A function that runs the experiment of a name: its section, after looking at its pictures."""

    def run(name):
        module = importlib.import_module(f"experiments.{name}")
        for data in module.DATA:
            try:
                report.sets.load(data)
            except report.sets.MissingDataError as missing:
                pytest.skip(str(missing))
        with threadpool_limits(1):  # the matrices are small, and other tests run beside
            text = report.section(module, tmp_path, quick=True)
        pictures = re.findall(r"!\[.+\]\((.+\.png)\)", text)
        assert sorted(pictures) == sorted(path.name for path in tmp_path.glob("*.png"))
        for picture in pictures:
            content = (tmp_path / picture).read_bytes()
            assert content.startswith(b"\x89PNG")
            assert 2000 < len(content) < 60000
        assert "skipped" not in text
        return text

    return run


def rows(text, begin):
    """Cells of the table rows whose first cell begins so."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()
             if line.startswith("|")]  # fmt: skip
    found = [row for row in cells if row[0].startswith(begin)]
    assert found, f"no row {begin!r}"
    return found


def number(cell):
    return float(cell.split()[0])


def test_digits(section):
    text = section("digits_5_vs_6")
    for begin in ("unpenalised intercept", "no intercept"):
        assert 16 < number(rows(text, begin)[0][1]) < 25
    for split, count in (("train", 200), ("test", 600)):
        counts = [float(n) for n in re.findall(r"[\d.]+", rows(text, split)[0][1])]
        assert sum(counts) == pytest.approx(count, abs=0.3)


def test_usps_grids(section):
    text = section("usps_grids")
    for steps, bound in (("100", 60), ("700", 30)):
        cells = rows(text, steps)[0][1:]
        assert len(cells) == 7
        assert all(0 < number(cell) < bound for cell in cells)
    assert number(rows(text, "0.00025")[0][1]) > 60
    assert number(rows(text, "poly")[0][1]) < number(rows(text, "0.00025")[0][1])
    assert len(re.findall(r"cells are at most the published risk", text)) == 4


def test_kernel_table(section):
    text = section("kernel_table")
    for name, bound in (("reuters_moneyfx", 8), ("adult", 25), ("usps", 8), ("mnist", 8)):
        cells = rows(text, name)[0]
        assert number(cells[5]) < bound
        assert number(cells[7]) < bound


def test_toy_moons_and_fashion(section):
    text = section("toy_moons_fashion")
    assert 94 < number(rows(text, "separable, 20 epochs")[0][3]) < 99.5
    assert number(rows(text, "separable, 20 epochs")[-1][3]) > 99
    smooth, _ = rows(text, "moons, noise 0.1, 20 epochs")
    assert 93 < number(smooth[3]) < 98
    for row in rows(text, "linear"):
        if row[1] in ("0..255", "0..1"):
            assert number(row[3]) > 92
    unscaled, scaled = rows(text, "Gaussian")[:2]
    assert 40 < number(unscaled[3]) < 60
    assert number(scaled[3]) > 92
    assert float(re.search(r"training images of a\s+pair is ([\d.e-]+):", text)[1]) < 1e-100
    assert len(rows(text, "Gaussian, pu")) == 6
    assert len(rows(text, "linear, ")) == 4


def test_time_to_suboptimality(section):
    text = section("time_to_suboptimality")
    for name in time_to_suboptimality.CASES:
        known, ours = rows(text, name)[0], rows(text, f"ours: {name}")[0]
        optimum, gap, error, epsilon = map(float, known[5:9])
        assert 0 < optimum < 1
        assert gap < 1e-3
        assert 0 < epsilon < 1
        assert float(ours[2]) == epsilon
        table = text.split(f"\n{name}, ε")[1].split("\n\n")[1]
        for solver in time_to_suboptimality.SOLVERS:
            cells = rows(table, solver)[0]
            if cells[4]:
                assert number(cells[4]) <= 1.1 * error + 0.01
        assert rows(table, "sdca")[0][4], "coordinate ascent reaches ε"


def test_paper_figures(section):
    text = section("paper_figures")
    assert len(rows(text, "LinearSVC")) == 2
    parts = text.split("### ")
    for row in rows(parts[2], "adult") + rows(parts[2], "imdb"):
        assert -1.3 < float(row[2]) < -0.4
    assert -1.2 < float(rows(parts[2], "adult")[0][2]) < -0.8
    for row in rows(parts[3], "imdb"):
        assert int(row[4]) >= 16
    for row in rows(parts[4], "adult") + rows(parts[4], "imdb"):
        assert number(row[2]) > 0
        assert float(row[3]) < -0.5
        assert 0.3 < float(row[4]) < 10


def test_missing_data_are_skipped_in_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr(report.sets, "_CACHE", tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PEGASOS_DATA", str(tmp_path / "empty"))
    output = tmp_path / "results"
    names = ["digits_5_vs_6", "time_to_suboptimality", "paper_figures"]
    command.main(["--quick", "--output", str(output), "--only", *names])
    text = (output / "report.md").read_text(encoding="utf-8")
    assert "skipped: coding5/coding5_train.csv is not in the data folder" in text
    assert text.count("skipped: ") == 1 + len(time_to_suboptimality.CASES) + 2
    assert text.count("\n## ") == 3


def test_every_module_keeps_the_contract():
    for name in command.MODULES:
        module = importlib.import_module(f"experiments.{name}")
        assert module.TITLE
        assert module.__doc__
        assert set(module.DATA) <= set(report.sets._LOADERS)


def test_epsilon_ends_where_a_model_errs_too_often():
    rungs = [ladder.Rung(1, 0.0, above, error) for above, error in
             [(0.5, 0.11), (0.2, 0.12), (0.1, 0.11), (0.01, 0.1)]]  # fmt: skip
    assert time_to_suboptimality.tolerable(rungs, 0.1) == 0.1
    assert time_to_suboptimality.tolerable(rungs, 0.2) == 0.5
    assert time_to_suboptimality.tolerable(rungs, 0.05) == 0
    assert ladder.first_below(rungs, 0.15).suboptimality == 0.1
    assert ladder.first_below(rungs, 0.001) is None


def test_slopes_and_tables():
    x = np.array([1.0, 2, 4])
    assert report.slope(x, 3 * x**-0.5) == pytest.approx(-0.5)
    assert report.mean_sd([1.0, 3.0], ".1f") == "2.0 ± 1.4"
    assert report.table(["a", "b"], [[1, 0.123456]]) == "| a | b |\n| --- | --- |\n| 1 | 0.123 |"
