"""Every experiment in its quick form: tables, pictures, and figures that are sane; no times."""

import argparse
import importlib
import importlib.metadata
import inspect
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from experiments import __main__ as command
from experiments import digits_5_vs_6, kernel_table, ladder, report, time_to_suboptimality
from experiments.report import number, rows


@pytest.fixture
def section(data_folder, tmp_path):
    """A function that runs the experiment of a name: its section, after looking at its pictures."""

    def run(name):
        module = importlib.import_module(f"experiments.{name}")
        if reason := report.lacking(module):
            pytest.skip(reason)
        with threadpool_limits(1):  # the matrices are small, and other tests run beside
            text = report.section(module, tmp_path, quick=True)
        pictures = re.findall(r"!\[.+\]\((.+\.png)\)", text)
        assert sorted(pictures) == sorted(path.name for path in tmp_path.glob("*.png"))
        for picture in pictures:
            content = (tmp_path / picture).read_bytes()
            assert content.startswith(b"\x89PNG")
            assert 2000 < len(content) < 60000
        return text

    return run


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
    verdicts = re.findall(r"(\d+) of (\d+) cells are at most the published risk", text)
    assert len(verdicts) == 4
    # All tables together: another BLAS trains other machines, as another seed does.
    found, cells = np.array(verdicts, int).sum(axis=0)
    assert found >= 0.8 * cells


def test_kernel_table(section):
    text = section("kernel_table")
    for name, bound in (("reuters_moneyfx", 8), ("adult", 25), ("usps", 8), ("mnist", 8)):
        cells = rows(text, name)[0]
        assert number(cells[5]) < bound
        assert number(cells[7]) < bound
        assert cells[8:] == ["", "", ""]  # published figures, of all rows
    assert float(re.search(r"random splits .* err on ([\d.]+) ± [\d.]+ %", text)[1]) < 8
    assert "ratios of seconds" not in text
    assert kernel_table.verdict("a", 2.0, 1.0, (10, 4)) == "a 5 and 4.0"


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
    assert "published" not in text  # that is of all rows


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


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """Data folder and cache are empty."""
    monkeypatch.setattr(report.sets, "_CACHE", tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PEGASOS_DATA", str(tmp_path / "empty"))


def copied_results(tmp_path):
    """A copy of the results that are part of the project, and what is in each file."""
    output = tmp_path / "results"
    shutil.copytree(report.RESULTS, output)
    return output, {path.name: path.read_bytes() for path in output.iterdir()}


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("options", [[], ["--quick"]])
def test_without_data_nothing_is_overwritten(tmp_path, capsys, options):
    output, before = copied_results(tmp_path)
    with pytest.raises(SystemExit, match=r"nothing was run: .*report.md is as it was"):
        command.main([*options, "--output", str(output)])
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before
    said = capsys.readouterr().err
    assert "digits_5_vs_6 was not run: coding5/coding5_train.csv is not in the data folder" in said
    assert said.count(" was not run: ") == len(command.MODULES)


def test_only_what_was_run_is_replaced(tmp_path, monkeypatch):
    output, before = copied_results(tmp_path)
    monkeypatch.setattr(digits_5_vs_6, "DATA", [])
    monkeypatch.setattr(digits_5_vs_6, "run", lambda output, quick: f"made anew, quick={quick}")
    command.main(["--only", "digits_5_vs_6", "--quick", "--output", str(output)])
    old, new = (
        re.split("^## ", text, flags=re.MULTILINE)
        for text in (before["report.md"].decode(), (output / "report.md").read_text("utf-8"))
    )
    assert "made anew, quick=True" in new[1]
    assert "--quick" in new[1]
    assert new[2:] == old[2:]
    # What is quick has no place among the published results; the other lines stay.
    assert digits_5_vs_6.SOURCE in old[0]
    assert digits_5_vs_6.SOURCE not in new[0]
    assert set(new[0].splitlines()) < set(old[0].splitlines())
    for path in output.glob("*.png"):
        assert path.read_bytes() == before[path.name]


def test_a_first_report_has_what_was_run(tmp_path, monkeypatch):
    monkeypatch.setattr(digits_5_vs_6, "DATA", [])
    monkeypatch.setattr(digits_5_vs_6, "run", lambda output, quick: "made anew")
    claim = report.Claim("errors", "20", "23", "reproduced", "made anew")
    monkeypatch.setattr(digits_5_vs_6, "claims", lambda section: [claim])
    command.main(["--only", "digits_5_vs_6", "--output", str(tmp_path / "new")])
    text = (tmp_path / "new" / "report.md").read_text("utf-8")
    assert text.startswith("# Published results, reproduced\n")
    assert text.count("\n## ") == 1
    assert rows(text, digits_5_vs_6.SOURCE) == [[digits_5_vs_6.SOURCE, *claim]]


def test_the_table_at_the_top_has_the_numbers_of_the_sections():
    """Of the results that are part of the project: sections and table belong together."""
    path = report.RESULTS / "report.md"
    parts = []
    for name in command.MODULES:
        module = importlib.import_module(f"experiments.{name}")
        parts.append((module, command.sections(path)[module.TITLE]))
    head = path.read_text("utf-8").split("\n## ")[0]
    assert report.summary(parts) in head
    verdicts = {row[4] for row in report.rows(head, "")[2:]}
    assert verdicts == {"reproduced", "corrected", "not comparable"}


def test_a_claim_that_does_not_hold_is_called_so():
    section = "17 of our 100 runs misclassify as many or more\n" + report.table(
        ["misclassified", "ours", "range", "published", "check"],
        [["unpenalised intercept", "31.00 ± 2.00 (5.17 %)", "27 to 36", "23 (3.83 %)", "20.4"],
         ["no intercept", "30.00 ± 2.00 (5.00 %)", "27 to 33", "", "19.4"]],
    )  # fmt: skip
    assert [claim.verdict for claim in digits_5_vs_6.claims(section)] == ["not reproduced"] * 2
    with pytest.raises(LookupError, match="no table has a row 'usps'"):
        rows(section, "usps")


def test_quick_results_do_not_replace_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "QUICK_RESULTS", tmp_path / "quick")
    parser = argparse.ArgumentParser()
    report.add_options(parser)
    folders = [report.folder(parser.parse_args(options)) for options in ([], ["--quick"])]
    assert folders == [report.RESULTS, report.QUICK_RESULTS]


def test_without_matplotlib_a_sentence_says_so(tmp_path, monkeypatch, capsys):
    """What needs none is run all the same."""

    def version(package):
        if package == "matplotlib":
            raise PackageNotFoundError(package)
        return importlib.metadata.version(package)

    monkeypatch.setitem(sys.modules, "matplotlib", None)  # cannot be imported
    monkeypatch.setattr(command, "version", version)
    monkeypatch.setattr(digits_5_vs_6, "DATA", [])
    monkeypatch.setattr(digits_5_vs_6, "run", lambda output, quick: "made anew")
    monkeypatch.setattr(digits_5_vs_6, "claims", lambda section: [])
    command.main(["--only", "digits_5_vs_6", "paper_figures", "--output", str(tmp_path)])
    said = capsys.readouterr().err
    assert "paper_figures was not run: its pictures need matplotlib: pip install" in said
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "scikit-learn" in text
    assert "matplotlib" not in text


def test_every_module_keeps_the_contract():
    for name in command.MODULES:
        module = importlib.import_module(f"experiments.{name}")
        assert module.TITLE
        assert module.SOURCE
        assert ("report.axes(" in inspect.getsource(module)) == module.DRAWS
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
