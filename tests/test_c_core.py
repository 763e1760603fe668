"""Builds the C core by itself, warnings as errors, and runs its tests under ctest."""

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
