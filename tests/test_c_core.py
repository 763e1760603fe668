"""Builds the C core by itself, warnings as errors, and runs its tests under ctest."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1]


def test_the_c_core_builds_without_warnings_and_passes_its_tests(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed (the test extra brings it)")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    for command in (
        ["cmake", "-S", SOURCE, "-B", tmp_path, "-DPEGASOS_WERROR=ON", *generator],
        ["cmake", "--build", tmp_path, "--target", "c_tests"],
        ["ctest", "--test-dir", tmp_path, "--output-on-failure"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed" in done.stdout


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
    command = ["cmake", "-S", tmp_path, "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    command += ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(command, capture_output=True, check=True)
    commands = json.loads((build / "compile_commands.json").read_text())
    (of_sums,) = (made["command"] for made in commands if made["file"].endswith("/sums.c"))
    assert "-ffp-contract=off" in of_sums
