"""Builds the C core by itself, warnings as errors; runs its tests, and counts instructions."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1]
GENERATOR = ["-G", "Ninja"] if shutil.which("ninja") else []

_SPEC = importlib.util.spec_from_file_location("instructions", SOURCE / "bench" / "instructions.py")
instructions = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(instructions)


def run(*command):
    """What a command prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A folder with the core, of which instructions are counted as well, and its tests."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed (the test extra brings it)")
    place = tmp_path_factory.mktemp("core")
    run("cmake", "-S", SOURCE, "-B", place, "-DPEGASOS_WERROR=ON", *GENERATOR)
    run("cmake", "--build", place, "--target", "c_tests")
    return place


def test_the_c_core_builds_without_warnings_and_passes_its_tests(build):
    said = run("ctest", "--test-dir", build, "--output-on-failure", "-j", "2")
    assert "100% tests passed" in said


def test_no_hot_path_takes_more_instructions_than_recorded(build):
    try:
        rows, comparable = instructions.compare(build)
    except instructions.UnavailableError as missing:
        pytest.skip(str(missing))
    if not comparable:
        pytest.skip(f"counts are recorded for another compiler than {instructions.compiler()}")
    slower = {path: change for path, *_, change in rows if change > instructions.TOLERANCE}
    assert not slower, "if this is meant, record it: python bench/instructions.py --write"


@pytest.mark.skipif(os.name == "nt", reason="compilers on Windows are told in the sources")
def test_what_is_built_with_the_core_does_not_fuse_products_with_sums_either(tmp_path):
    """Else certificates, whose sums are in the extension, have other bits where CPUs can fuse."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed (the test extra brings it)")
    (tmp_path / "sums.c").write_text("")
    (tmp_path / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.20)
        project(sums LANGUAGES C)
        add_subdirectory("{SOURCE}" core)
        add_library(sums MODULE sums.c)
        target_link_libraries(sums PRIVATE pegasos_core)
    """)
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *GENERATOR)
    commands = json.loads((build / "compile_commands.json").read_text())
    (of_sums,) = (made["command"] for made in commands if made["file"].endswith("/sums.c"))
    assert "-ffp-contract=off" in of_sums
