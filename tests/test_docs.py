"""What the documentation shows is run: examples of the reference, of the guide, and the C program.

Those of `pegasos.plotting` are run by test_plotting.py.
"""

import doctest
import importlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pegasos
from pegasos import cli, kernels, plotting

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDE = sorted(path.name for path in DOCS.glob("*.rst") if ">>> " in path.read_text("utf-8"))
PUBLIC = [f"pegasos.{name}" for name in pegasos.__all__ if name != "__version__"]
PLOTS = [f"pegasos.plotting.{name}" for name in plotting.__all__]


def run_examples(found):
    runner, said = doctest.DocTestRunner(), []
    for test in found:
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_examples_that_run(name):
    module, _, name = name.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    # Without the module's names: who copies an example has only what it imports.
    found = [test for test in doctest.DocTestFinder().find(thing, name, globs={}) if test.examples]
    assert found
    run_examples(found)


@pytest.mark.parametrize("page", GUIDE)
def test_examples_of_the_guide_run(page):
    text = (DOCS / page).read_text("utf-8")
    run_examples([doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)])


def test_the_reference_has_every_public_name():
    text, module = (DOCS / "api.rst").read_text("utf-8"), "pegasos"
    documented = set()
    for directive, name in re.findall(
        r"^\.\. (currentmodule|auto\w+):: ([\w.]+)", text, re.MULTILINE
    ):
        if directive == "currentmodule":
            module = name
        else:
            documented.add(f"{module}.{name}")
    assert documented == {*PUBLIC, *PLOTS}


@pytest.mark.parametrize("name", pegasos.__all__)
def test_absolute_values_are_code(name):
    """Or reStructuredText reads |P - D| as a substitution, and the site cannot be built."""
    found = getattr(pegasos, name)
    members = vars(found) if isinstance(found, type) else {}
    public = [member for name, member in members.items() if not name.startswith("_")]
    for documented in (found, *public):
        text = re.sub(r"``.*?``", "", getattr(documented, "__doc__", None) or "", flags=re.DOTALL)
        assert "|" not in re.sub(r"^ *>>> .*$", "", text, flags=re.MULTILINE), documented


def test_the_guide_names_every_kernel():
    text = (DOCS / "quick_start.rst").read_text("utf-8")
    for name, kind in kernels.KERNELS.items():
        assert f'``"{name}"``' in text
        assert f'"{name}" {kind.formula}' in " ".join(
            pegasos.KernelPegasosClassifier.__doc__.split()
        )


def test_commands_that_the_pages_show_are_understood():
    shown = set()
    for page in DOCS.glob("*.rst"):
        shown |= set(re.findall(r"\bpegasos ((?:train|predict) [^`\n>]+)", page.read_text("utf-8")))
    assert len(shown) >= 5
    for command in shown:
        cli._parser().parse_args(re.sub(r"\b[LG]\b", "0.1", command).split())


def test_the_c_program_builds_against_the_core_and_agrees_with_python(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed (the test extra brings it)")
    options = ["-G", "Ninja"] if shutil.which("ninja") else []
    options += ["-DCMAKE_BUILD_TYPE=Debug"]  # compiles in a fifth of the time; the same bits
    for command in (
        ["cmake", "-S", DOCS / "c_example", "-B", tmp_path, *options],
        ["cmake", "--build", tmp_path, "--config", "Debug"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (program,) = (p for p in tmp_path.rglob("margin*") if p.name in ("margin", "margin.exe"))
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    steps, accuracy, objective, bound = (line.rsplit(" ", 1)[1] for line in said.splitlines())
    # The rows of docs/c_example, in whole numbers so that both have the same bits.
    i, j = np.arange(1000)[:, None], np.arange(5)
    X = (i * (2 * j + 3) * (j + 7) % 101) / 50 - 1
    y = np.where((X[:, 0] + X[:, 1] - X[:, 2] > 0) != (np.arange(1000) % 10 == 0), 1, -1)
    model = pegasos.fit(
        X, y, 1e-2, solver="pegasos", tol=None, max_iter=200, fit_intercept=False, random_state=42
    )
    assert int(steps) == model.n_steps[0]
    assert accuracy == f"{(model.predict(X) == y).mean():.3f}"
    assert objective == f"{model.objective[0]:.9f}"
    # Python takes the best multiple of the same dual point.
    assert float(bound) <= model.dual_objective[0] + 1e-9
    assert model.dual_objective[0] <= model.objective[0]
    # The other program asks for a gap; both answers are within it.
    (program,) = (p for p in tmp_path.rglob("certified*") if p.stem == "certified" and p.is_file())
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    numbers = [float(line.rsplit(" ", 1)[1]) for line in said.splitlines() if "epoch" not in line]
    *weights, intercept, objective, bound = numbers
    model = pegasos.fit(X, y, 1e-2, tol=1e-9, random_state=0)
    assert bound - 1e-9 <= model.objective[0] <= objective + 1e-9
    assert objective - bound <= 1e-6 * objective + 1e-9
    np.testing.assert_allclose(weights, model.coef[0], atol=0.01)
    assert intercept == pytest.approx(model.intercept[0], abs=0.01)
