"""What CI runs, by hand as well: ``nox -s lint``; ``nox -l`` lists all."""

import itertools
import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "tests"]

BUILD = ("scikit-build-core>=0.10", "cython>=3.1", "cython-cmake>=0.2", "cmake>=3.26", "ninja")
PROJECT = nox.project.load_toml("pyproject.toml")["project"]
EXTRAS = PROJECT["optional-dependencies"]
TARGETS = (
    "x86_64-windows-gnu", "x86_64-macos", "aarch64-macos", "x86_64-linux-musl",
    "aarch64-linux-musl",
)  # fmt: skip
# All that reaches the extension; the rest tests other programs (compilers, valgrind), or documents.
SANITIZED = ("-q", "-n", "auto", "tests", *(
    f"--ignore=tests/test_{name}.py" for name in ("c_core", "docs", "experiments")
))  # fmt: skip
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")


@nox.session
def lint(session):
    """ruff, clang-format, codespell, and small checks of files."""
    session.install("pre-commit")
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")


@nox.session
def types(session):
    """mypy and pyright."""
    session.install(".[plot,data,onnx,dask]", "mypy", "pyright")
    session.run("mypy")
    session.run("pyright")


@nox.session
def tests(session):
    """The suite, on the newest dependencies."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session
def oldest(session):
    """The suite, on the oldest dependencies that are supported."""
    extras = ("test", "interop", "onnx", "parquet")
    bounds = itertools.chain(PROJECT["dependencies"], *map(EXTRAS.get, extras))
    oldest = {f"{bound.replace('>=', '==')}.*" for bound in bounds}
    # matplotlib 3.8 calls what pyparsing 3.3 deprecates, and warnings are errors in tests.
    session.install(f".[{','.join(extras)}]", *sorted(oldest), "pyparsing<3.3")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session
def interoperability(session):
    """The estimators among packages that the suite can do without."""
    session.install(".[test,interop,onnx,dask]")
    session.run("python", "-m", "pytest", "-n", "auto", "tests/test_interoperability.py")
    session.run("python", "-m", "pytest", "tests/test_dask.py")


@nox.session
@nox.parametrize("preset", ["asan", "tsan", "valgrind"], ids=["asan", "tsan", "valgrind"])
def sanitizers(session, preset):
    """Run the C tests under a sanitizer or valgrind, if installed; see CMakePresets.json."""
    session.install("cmake>=3.26", "ninja")
    session.run("cmake", "--preset", preset, "-G", "Ninja")
    session.run("cmake", "--build", "--preset", preset)
    session.run("ctest", "--preset", preset)


@nox.session
def sanitizers_python(session):
    """The Python tests on an extension with AddressSanitizer and UBSan; see tests/sanitized.py."""
    session.install(".[test]")
    session.run("python", "tests/sanitized.py", *(session.posargs or SANITIZED))


@nox.session
def random_calls(session):
    """Random calls on the sanitized extension, for an hour; see tests/random_calls.py."""
    session.install(".[test]")
    session.run("python", "tests/sanitized.py", *(session.posargs or ("--calls", "3600")))


@nox.session
def targets(session):
    """The C core and its tests, compiled for systems that are not this one."""
    session.install("ziglang")
    sources = [str(path) for path in sorted(Path("csrc").glob("*.c"))]
    for target, part in itertools.product(TARGETS, ("pegasos", "newton")):
        session.run(
            "python", "-m", "ziglang", "cc", "-target", target, "-std=c11", "-O2",
            "-ffp-contract=off", "-fno-trapping-math", *WARNINGS, "-Icsrc", *sources,
            f"tests/c/test_{part}.c", *([] if "windows" in target else ["-lm"]),
            "-o", f"{session.create_tmp()}/{part}-{target}",
        )  # fmt: skip


@nox.session
def docs(session):
    """The documentation; warnings are errors. Chromium, if there is one, looks at the pages."""
    session.install(".[docs]", "pytest")
    session.run("python", "-m", "sphinx", "-W", "-b", "html", "docs", "docs/_build/html")
    pages = {"PEGASOS_SITE": "docs/_build/html"}
    session.run("python", "-m", "pytest", "-q", "-rs", "tests/test_site.py", env=pages)


@nox.session
def bench(session):
    """Whether the benchmark runs; its figures mean nothing here."""
    session.install(".[bench]")
    session.run("python", "bench/run.py", "micro", "--quick")


@nox.session
def sdist(session):
    """The source distribution, built and tested without anything but its own content."""
    session.install("build", *BUILD, "numpy", "scipy", "scikit-learn")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", "--sdist", "--no-isolation", "-o", "dist")
    (archive,) = Path("dist").glob("*.tar.gz")
    place = Path(session.create_tmp())
    shutil.unpack_archive(archive, place)
    source = place / archive.name.removesuffix(".tar.gz")
    session.install("--no-index", "--no-deps", "--no-build-isolation", str(source))
    session.install(*EXTRAS["test"])
    with session.chdir(source):
        session.run("python", "-m", "pytest", "-n", "auto", "-m", "not slow")


@nox.session
def wheels(session):
    """Wheels for this system, as the workflow builds them; on Linux, docker is needed."""
    session.install("cibuildwheel==3.2.1")  # as in wheels.yml
    session.run("cibuildwheel", "--output-dir", "wheelhouse", *session.posargs)
