"""What the documentation shows is run: examples of the reference, of the guide, and the C program.

Those of `pegasos.plotting` are run by test_plotting.py.
"""

import contextlib
import doctest
import gzip
import importlib.util
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.linear_model import (
    LogisticRegression,
    Ridge,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, OneClassSVM

import pegasos
from pegasos import cli, kernels, plotting

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDE = sorted(path.name for path in DOCS.glob("*.rst") if ">>> " in path.read_text("utf-8"))
PUBLIC = [f"pegasos.{name}" for name in pegasos.__all__ if name != "__version__"]
#: Which test_dask.py runs: Dask need not be there.
DASK = ["pegasos.dask.DaskPegasosClassifier", "pegasos.dask.DaskPegasosRegressor"]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
PLOTS = [f"pegasos.plotting.{name}" for name in plotting.__all__]


#: Of examples whose output depends on the versions of libraries and on the machine.
ABOUT = doctest.register_optionflag("ABOUT")


class Checker(doctest.OutputChecker):
    """With ABOUT: numbers within a quarter, seconds of any size, more than half of the words."""

    def check_output(self, want, got, optionflags):
        if not optionflags & ABOUT:
            return super().check_output(want, got, optionflags)
        texts = [re.sub(r"[\d.]+ s\b", "", text) for text in (want, got)]
        numbers = [np.array(re.findall(r"\d+(?:\.\d+)?", text), float) for text in texts]
        words, found = (set(re.findall(r"[^\W\d]+", text)) for text in texts)
        return (
            len(numbers[0]) == len(numbers[1])
            and np.allclose(*numbers, rtol=0.25)
            and 2 * len(words & found) > len(words)
        )


def run_examples(found):
    runner, said = doctest.DocTestRunner(Checker()), []
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


def test_outputs_that_depend_on_versions_are_compared():
    agree = Checker().check_output
    assert agree("9 of 10 texts in 0.06 s", "10 of 11 texts in 2.5 s", ABOUT)
    for other in ("5 of 10 texts in 0.06 s", "9 of texts in 0.06 s", "9 and 10 rows in 0.06 s"):
        assert not agree("9 of 10 texts in 0.06 s", other, ABOUT)


@pytest.mark.parametrize("page", GUIDE)
def test_examples_of_the_guide_run(page):
    text = (DOCS / page).read_text("utf-8")
    run_examples([doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)])


def test_examples_of_the_readme_run():
    blocks = re.findall(r"```pycon\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    run_examples([doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README", None, 0)])


def test_the_readme_links_to_what_there_is():
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) >= 10
    for link in links:
        assert "://" in link or (ROOT / link).exists(), link


def test_the_map_of_files_is_complete():
    """CONTRIBUTING names each file of the core and of the package, and no others there."""
    told = set(
        re.findall(
            r"[\w/]+\.(?:pyx|pyi|py|pxi|[ch])\b", (ROOT / "CONTRIBUTING.md").read_text("utf-8")
        )
    )
    files = [*ROOT.glob("csrc/*.[ch]"), *ROOT.glob("src/pegasos/**/*.p[yx]*")]
    names = {f.name for f in files if f.suffix in {".c", ".h", ".py", ".pyi", ".pyx", ".pxi"}}
    assert len(names) > 80
    assert sorted(names - {Path(name).name for name in told} - {"__init__.py"}) == []
    for name in told:
        assert "/" not in name or (ROOT / name).exists(), name


def test_the_reference_has_every_public_name():
    text, module = (DOCS / "api.rst").read_text("utf-8"), "pegasos"
    documented = []
    for directive, argument in re.findall(
        r"^\.\. (currentmodule|autosummary)::(.*(?:\n(?: .*)?(?=\n))*)", text, re.MULTILINE
    ):
        if directive == "currentmodule":
            module = argument.strip()
        else:
            names = re.findall(r"^   (\w+)", argument, re.MULTILINE)
            documented += [f"{module}.{name}" for name in names]
    assert sorted(documented) == sorted({*PUBLIC, *PLOTS, *DASK})


def test_representations_in_notebooks_link_to_no_page_that_may_not_be_there():
    for name in filter(re.compile("Pegasos").search, PUBLIC + DASK):
        module, _, cls = name.rpartition(".")
        with contextlib.suppress(ImportError):  # of Dask
            estimator = getattr(importlib.import_module(module), cls)()
            assert "href=" not in estimator._repr_html_()


def test_addresses_of_the_repository_are_those_of_the_package():
    names = ["CITATION.cff", "conda/recipe/recipe.yaml"]
    if (ROOT / ".github").exists():  # not in a source distribution
        names.append(".github/ISSUE_TEMPLATE/config.yml")
    for name in names:
        found = re.findall(r"https://github\.com/[\w-]+/[\w-]+", (ROOT / name).read_text("utf-8"))
        assert set(found) == {URLS["Source"]}, name


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


def blocks(page, language):
    """The blocks of code that a page has in a language."""
    text = (DOCS / page).read_text("utf-8")
    found = re.findall(rf"^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(block).strip() for block in found]


def test_every_block_of_code_is_run():
    """Blocks with prompts are; here are the others. A new one needs a test that runs it."""
    pages = {page.name: page.read_text("utf-8") for page in DOCS.glob("*.rst")}
    assert {name: re.findall(r"^\.\. code-block:: (\w+)", text, re.MULTILINE)
            for name, text in pages.items() if "code-block::" in text} == {
        "c_use.rst": ["sh"] * 3,
        "command_line.rst": ["sh", "console"],
        "larger_than_memory.rst": ["python"] * 2,
        # By test_dask.py; the other two need a cluster that it has not.
        "clusters.rst": ["python"] * 3,
        "quick_start.rst": ["sh"],  # that of the README
    }  # fmt: skip
    (block,) = blocks("quick_start.rst", "sh")
    assert block.replace("\n", " && ") in (ROOT / "README.md").read_text("utf-8")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with the files that the pages and the help name."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).round(3)
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
    for name in ("spam.svm.gz", "clicks.svm.gz", "clicks-1.svm.gz", "clicks-2.svm.gz"):
        with gzip.open(name, "wb") as file:
            dump_svmlight_file(X, y, file)
    for name in ("new.svm", "big.svm"):
        dump_svmlight_file(X, y, name)
    houses = pd.DataFrame(X, columns=["size", "age", "rooms"]).assign(price=X[:, 0])
    houses.insert(0, "id", range(200))
    houses.to_csv("houses.csv", index=False)
    houses.drop(columns="id").to_csv("prices.csv", index=False)
    houses.drop(columns=["id", "price"]).to_csv("new.csv", index=False)
    houses.drop(columns=["id", "price"]).to_csv("usual.csv", index=False)
    np.savetxt("digits.csv", np.column_stack([y, X]), delimiter=",")
    if has_pyarrow := importlib.util.find_spec("pyarrow"):
        houses.to_parquet("houses.parquet")
    iris = load_iris(as_frame=True)
    frame = iris.frame.assign(species=iris.target_names[iris.target]).drop(columns="target")
    frame[::2].to_csv("iris.csv", index=False)
    frame[1::2].to_csv("new_iris.csv", index=False)
    return has_pyarrow


COMMANDS = [
    *(block for page in ("command_line.rst",) for block in blocks(page, "sh")),
    *cli._EXAMPLES.values(),
    "pegasos train clicks.svm.gz --memory 2G -o clicks.npz",  # of larger_than_memory.rst
]


def test_commands_that_pages_and_help_show_run(files, capsys):
    lines = [line for block in COMMANDS for line in block.splitlines()]
    found = re.findall(r"^ *pegasos ([^>#\n]+)", "\n".join(lines), re.MULTILINE)
    assert len(found) > 20
    for command in found:
        if "--resume" in command or (".parquet" in command and not files):
            continue  # a fit must be killed for it: test_checkpoint.py
        capsys.readouterr()
        assert cli.main(shlex.split(command)) == 0, (command, capsys.readouterr())


def test_commands_whose_output_is_shown_print_it(files, capsys):
    for block in blocks("command_line.rst", "console"):
        for command, shown in re.findall(
            r"^\$ pegasos (.+)\n((?:(?!\$ ).*\n?)*)", f"{block}\n", re.MULTILINE
        ):
            assert cli.main(shlex.split(command)) == 0
            said = capsys.readouterr()
            assert shown.strip() == (said.out + said.err).strip(), command


def test_commands_within_sentences_are_understood():
    shown = set()
    for page in DOCS.glob("*.rst"):
        shown |= set(re.findall(r"\bpegasos ((?:train|predict) [^`\n>]+)", page.read_text("utf-8")))
    assert len(shown) >= 5
    for command in shown:
        cli._parser().parse_args(re.sub(r"(?<= )[CG]\b", "0.1", command).split())


def test_blocks_on_disk_are_trained_on_as_the_page_shows(files, capsys):
    Path("shown.py").write_text("\n".join(blocks("larger_than_memory.rst", "python")), "utf-8")
    scaled = runpy.run_path("shown.py")["scaled"]
    np.testing.assert_allclose(np.abs(scaled.in_memory()[0].toarray()).max(axis=0), 1)
    accuracy, gap = re.findall(r"[\d.e-]+", capsys.readouterr().out)
    assert float(accuracy) > 0.95
    assert float(gap) <= 1e-3


def run(*command, **options):
    """What a command prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def numbers(said):
    """The numbers at the ends of lines, by what stands before them."""
    pairs = [line.rsplit(" ", 1) for line in said.splitlines()]
    found = {}
    for name, number in pairs:
        with contextlib.suppress(ValueError):
            found.setdefault(name, []).append(float(number))
    return found


@pytest.fixture(scope="module")
def c_library(tmp_path_factory):
    """Where the C library is installed, as a user would."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed (the test extra brings it)")
    place = tmp_path_factory.mktemp("c")
    options = ["-G", "Ninja"] if shutil.which("ninja") else []
    # Debug: compiles in a fifth of the time; the same bits. clang: test_c_core.py has the default.
    options += ["-DCMAKE_BUILD_TYPE=Debug", "-DPEGASOS_WERROR=ON"]
    options += ["-DCMAKE_C_COMPILER=clang"] if shutil.which("clang") and os.name != "nt" else []
    run("cmake", "-S", DOCS.parent, "-B", place / "build", *options)
    targets = ("--target", "pegasos", "pegasos_shared", "--config", "Debug")
    run("cmake", "--build", place / "build", *targets)
    run("cmake", "--install", place / "build", "--prefix", place / "prefix", "--config", "Debug")
    return place / "prefix"


COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or [None]
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"


@pytest.fixture(scope="module", params=COMPILERS)
def c_examples(request, c_library, tmp_path_factory):
    """The folder of the built examples, which use the installed library."""
    place = tmp_path_factory.mktemp("examples")
    options = ["-G", "Ninja"] if shutil.which("ninja") else []
    if request.param:
        options += [f"-DCMAKE_C_COMPILER={request.param}", f"-DCMAKE_C_FLAGS={WARNINGS}"]
    run("cmake", "-S", DOCS / "c_example", "-B", place, f"-DCMAKE_PREFIX_PATH={c_library}",
        "-DCMAKE_BUILD_TYPE=Debug", *options)  # fmt: skip
    run("cmake", "--build", place, "--config", "Debug")
    return place


def run_example(place, name, *arguments):
    """What an example prints."""
    (program,) = (p for p in place.rglob(f"{name}*") if p.stem == name and p.is_file()
                  and os.access(p, os.X_OK) and p.suffix in ("", ".exe"))  # fmt: skip
    return run(program, *arguments)


def rows_of_c_examples():
    """The rows of docs/c_example, in whole numbers so that both have the same bits."""
    i, j = np.arange(1000)[:, None], np.arange(5)
    X = (i * (2 * j + 3) * (j + 7) % 101) / 50 - 1
    return X, np.where((X[:, 0] + X[:, 1] - X[:, 2] > 0) != (np.arange(1000) % 10 == 0), 1, -1)


def optimum(**options):
    """A model of these rows whose objective and bound agree in all digits that examples print."""
    X, y = rows_of_c_examples()
    model = pegasos.fit(X, y, 1e-2, tol=1e-11, random_state=0, **options)
    return model, (model.predict(X) == y).mean()


def test_the_c_example_of_a_hinge_machine_agrees_with_python(c_examples):
    said = numbers(run_example(c_examples, "hinge"))
    (objective,), (bound,) = said["objective"], said["no model is below"]
    model, accuracy = optimum()
    best = model.objective[0]
    assert best - 1e-9 <= objective <= best + 1e-6 * best + 1e-9
    assert objective - 1e-6 * objective - 1e-9 <= bound <= best + 1e-9
    assert said["accuracy"] == [pytest.approx(accuracy, abs=5e-4)]
    # |w - w*|^2 <= 2 (P(w) - P(w*))/lam.
    distance = (2 * max(objective - bound, 1e-9) / 1e-2) ** 0.5 + 1e-6
    found = np.r_[said["weight"], said["intercept"]]
    assert np.linalg.norm(found - np.r_[model.coef[0], model.intercept]) <= distance


def huber_objective(point, X, z):
    """P of docs/c_example/regression.c at (w, b), and its gradient."""
    errors, lam = z - X @ point[:-1] - point[-1], 1e-4
    slopes = np.clip(errors, -0.5, 0.5)
    losses = np.where(abs(errors) <= 0.5, errors**2 / 2, 0.5 * abs(errors) - 0.125)
    gradient = np.r_[lam * point[:-1] - X.T @ slopes / len(z), -slopes.mean()]
    return lam / 2 * point[:-1] @ point[:-1] + losses.mean(), gradient


def test_the_c_example_of_regression_agrees_with_scipy(c_examples):
    said = numbers(run_example(c_examples, "regression"))
    (objective,), (bound,) = said["objective"], said["no model is below"]
    i, (X, _) = np.arange(1000), rows_of_c_examples()
    z = 2 * X[:, 0] - X[:, 1] + 0.5 + (i * 29 % 41 - 20) / 100 + 30 * (i % 20 == 0)
    found = np.r_[said["weight"], said["intercept"]]
    best = optimize.minimize(huber_objective, np.zeros(6), (X, z), jac=True, tol=1e-9)
    assert huber_objective(found, X, z)[0] == pytest.approx(objective, abs=1e-8)
    assert bound - 1e-9 <= best.fun <= objective + 1e-9
    assert objective - bound <= 1e-6 * objective + 2e-9
    assert found == pytest.approx(best.x, abs=0.02)
    assert said["errors below epsilon"] == [950]


def test_the_c_example_of_ctrl_c_ends_with_a_certified_model(c_examples):
    said = run_example(c_examples, "watch")
    assert said.count("epoch ") >= 2
    assert "the fit was stopped, and can be resumed" in said
    found, best = numbers(said), optimum()[0].objective[0]
    (objective,), (bound,) = found["objective"], found["no model is below"]
    assert 0.5 * best <= bound <= best + 1e-9
    assert best - 1e-9 <= objective <= 1.5 * best


def test_the_c_example_of_saving_goes_on_to_the_same_bits(c_examples, tmp_path):
    said = numbers(run_example(c_examples, "resume", tmp_path / "fit.bin"))
    assert said["parts"][0] >= 3
    assert said["same objective"] == said["same weights"] == [1]
    (objective,), (bound,) = said["objective"], said["no model is below"]
    best = optimum(penalize_intercept=False)[0].objective[0]
    assert best - 1e-9 <= objective <= best + 1e-6 * best + 1e-9
    assert objective - 1e-6 * objective - 1e-9 <= bound <= best + 1e-9


def test_the_c_example_of_a_kernel_machine_agrees_with_python(c_examples):
    said = numbers(run_example(c_examples, "kernel"))
    (objective,), (bound,) = said["objective"], said["no model is below"]
    i = np.arange(600)
    X = np.c_[(i * 37 % 199) / 99 - 1, (i * i * 5 % 211) / 105 - 1]
    y = np.where(((X**2).sum(axis=1) < 0.5) != (i % 20 == 0), 1, -1)
    model = pegasos.KernelPegasosClassifier(
        lam=1e-3, kernel="rbf", gamma=4, tol=1e-9, penalize_intercept=False, random_state=0
    ).fit(X, y)
    half = 0.5e-7  # of the last digit that is printed
    assert model.dual_objective_[0] - half <= objective <= (1 + 1e-9) * model.objective_[0] + half
    assert (1 - 1e-9) * model.dual_objective_[0] - half <= bound <= model.objective_[0] + half
    assert said["accuracy"] == [pytest.approx(model.score(X, y), abs=5e-4)]
    assert said["intercept"] == [pytest.approx(model.intercept_[0], abs=1e-3)]


def test_pkg_config_and_the_static_library_suffice(c_library, tmp_path):
    pkg_config = shutil.which("pkg-config") or shutil.which("pkgconf")
    if pkg_config is None or shutil.which("cc") is None:
        pytest.skip("pkg-config or cc is not installed")
    (folder,) = c_library.rglob("pkgconfig")
    environment = os.environ | {"PKG_CONFIG_PATH": str(folder)}
    flags = run(pkg_config, "--cflags", "--libs", "--static", "pegasos", env=environment).split()
    program = tmp_path / "hinge"
    static = [str(next(c_library.rglob("libpegasos.a"))) if f == "-lpegasos" else f for f in flags]
    run("cc", "-std=c11", DOCS / "c_example" / "hinge.c", *static, "-o", program)
    assert "no model is below" in run(program)


@pytest.mark.skipif(sys.platform != "linux", reason="symbols are listed by nm, of files of ELF")
def test_the_shared_library_exports_what_its_header_declares_and_no_more(c_library):
    """Of clang, the functions that choose among clones are visible unless the linker hides them."""
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    (library,) = c_library.rglob("libpegasos.so")
    said = run("nm", "-D", "--defined-only", "--format=posix", library)
    header = (ROOT / "csrc" / "pegasos.h").read_text()
    declared = re.findall(r"^PEGASOS_API .*?(pegasos_\w+)\(", header, re.MULTILINE)
    assert sorted(line.split()[0] for line in said.splitlines()) == sorted(declared)


def test_programs_take_no_c_library_whose_names_may_be_others(c_library, tmp_path):
    """Before 1.0, minor releases change public names: see docs/releasing.md."""
    major, minor = map(int, pegasos.__version__.split(".")[:2])
    (version,) = c_library.rglob("pegasosConfigVersion.cmake")
    script = tmp_path / "compatible.cmake"
    for wanted, is_taken in ((minor, True), (minor - 1, False)):
        script.write_text(f"""
            set(PACKAGE_FIND_VERSION_MAJOR {major})
            set(PACKAGE_FIND_VERSION_MINOR {wanted})
            set(PACKAGE_FIND_VERSION {major}.{wanted})
            include("{version.as_posix()}")
            message(STATUS "taken: ${{PACKAGE_VERSION_COMPATIBLE}}")
        """)
        assert f"taken: {str(is_taken).upper()}" in run("cmake", "-P", script)
    if platform.system() == "Linux":
        assert [*c_library.rglob(f"libpegasos.so.{major}.{minor}")]


def test_the_files_of_the_core_compile_with_a_program(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    *_, command = blocks("c_use.rst", "sh")
    assert "-O2" in command
    # Compiling takes long, and the fixtures do so: here are the options and the list of files.
    run("sh", "-c", command.replace("-O2", "-fsyntax-only"), cwd=ROOT)


def test_versions_and_requirements_agree():
    """What a release changes in several files; see docs/releasing.md."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    recipe = (ROOT / "conda" / "recipe" / "recipe.yaml").read_text("utf-8")
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    for text, form in ((citation, r"^version: (\S+)$"), (recipe, r'^  version: "(\S+)"$')):
        assert re.search(form, text, re.MULTILINE)[1] == pegasos.__version__
    assert f"## {pegasos.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    wanted = {
        "host": project["build-system"]["requires"],
        "run": project["project"]["dependencies"],
    }
    for name, requirements in wanted.items():
        listed = re.search(rf"^  {name}:\n((?:    - .+\n)+)", recipe, re.MULTILINE)[1]
        found = {line.strip("- ").replace(" ", "") for line in listed.splitlines()}
        assert set(requirements) <= found


@pytest.mark.parametrize(
    ("kind", "titles"),
    [
        (LinearSVC, ["LinearSVC"]),
        (LogisticRegression, ["LogisticRegression"]),
        (SGDClassifier, ["SGDClassifier"]),
        (SVC, ["SVC", "All classifiers"]),
        (LinearSVR, ["LinearSVR, SVR"]),
        (SVR, ["LinearSVR, SVR"]),
        (Ridge, ["LinearSVR, SVR"]),
        (SGDRegressor, ["LinearSVR, SVR", "SGDClassifier"]),
        (OneClassSVM, ["OneClassSVM"]),
        (SGDOneClassSVM, ["OneClassSVM"]),
    ],
)
def test_coming_from_tells_of_every_parameter(kind, titles):
    page = (ROOT / "docs" / "coming_from.rst").read_text(encoding="utf-8")
    sections = {
        part.split("\n", 1)[0]: part for part in re.split(r"\n(?=[^\n]+\n[-=]{3,}\n)", page)
    }
    told = "".join(section for name, section in sections.items() if name.startswith(tuple(titles)))
    missing = [name for name in kind().get_params() if not re.search(rf"``{name}(=.*)?``", told)]
    missing = [name for name in missing if not re.search(rf"[(, ]{name}=", told)]
    assert not missing
