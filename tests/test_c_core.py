"""Builds the C core by itself, warnings as errors, and runs its tests under ctest."""

import json
import os
import re
import shutil
import subprocess
import sys
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


@pytest.mark.skipif(sys.platform != "linux", reason="symbols are listed by nm, of files of ELF")
def test_the_shared_library_exports_what_its_header_declares_and_no_more(tmp_path):
    """Of clang, the functions that choose among clones are visible unless the linker hides them."""
    if shutil.which("cmake") is None or shutil.which("nm") is None:
        pytest.skip("cmake (the test extra brings it) or nm is not installed")
    options = ["-DCMAKE_BUILD_TYPE=Debug", *(["-G", "Ninja"] if shutil.which("ninja") else [])]
    options += ["-DCMAKE_C_COMPILER=clang"] if shutil.which("clang") else []
    for command in (
        ["cmake", "-S", SOURCE, "-B", tmp_path, *options],
        ["cmake", "--build", tmp_path, "--target", "pegasos_shared"],
    ):
        subprocess.run(command, capture_output=True, check=True)
    command = ["nm", "-D", "--defined-only", "--format=posix", tmp_path / "libpegasos.so"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    header = (SOURCE / "csrc" / "pegasos.h").read_text()
    declared = re.findall(r"^PEGASOS_API .*?(pegasos_\w+)\(", header, re.MULTILINE)
    assert sorted(line.split()[0] for line in said.splitlines()) == sorted(declared)
