"""Runs Python tests on an extension that is built with AddressSanitizer and UBSan.

``python tests/sanitized.py tests/test_kernel.py -x`` builds the package into ``build/sanitized``
and runs pytest on it with the arguments given; what is installed is not touched. ``python
tests/sanitized.py --calls SECONDS [--seed N]`` makes random calls instead (see random_calls.py).
Needs gcc on Linux and the ``test`` extra, and no editable install, which hides what was built.
Where the compiler has no sanitizers, it says so and does nothing.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).parents[1]
PLACE = SOURCE / "build" / "sanitized"
CC = os.environ.get("CC", "cc")
# An index that is out of range only after it was checked, which nothing but a sanitizer would see.
PLANTED = """
import numpy as np
from pegasos import _core
indices = np.zeros(1, np.int32)
rows = _core.Rows(np.ones(1), indices, np.array([0, 1], np.int32), 2)
indices[0] = 3
_core.decision_function(rows, np.ones((1, 2)), np.ones(1))
"""


def runtimes():
    """The shared libraries that must be loaded before Python; None if the compiler lacks them."""
    paths = []
    for name in ("libasan.so", "libubsan.so"):
        asked = [CC, f"-print-file-name={name}"]
        try:
            path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None
        if not os.path.isabs(path):  # a compiler repeats the name of what it does not find
            return None
        paths.append(path)
    return paths


def is_editable():
    """Whether ``pip install -e`` was used: its hook finds pegasos before PYTHONPATH does."""
    try:
        told = metadata.distribution("pegasos").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return False
    return json.loads(told or "{}").get("dir_info", {}).get("editable", False)


def main(arguments):
    libraries = runtimes()
    if not sys.platform.startswith("linux") or libraries is None:
        print(f"SKIPPED: {CC} has no shared libasan and libubsan, so nothing was tested")
        return 0
    if is_editable():
        print("pegasos is an editable install, which hides what is built: pip install . first",
              file=sys.stderr)  # fmt: skip
        return 1
    options = {
        "build-dir": PLACE / "build",
        "cmake.build-type": "Debug",
        "cmake.define.CMAKE_C_FLAGS_DEBUG": "-O1",
        "cmake.define.PEGASOS_SANITIZE": "address,undefined",
    }
    # Not -C: pip has it since 23.1 only.
    settings = [f"--config-settings={name}={value}" for name, value in options.items()]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target",
         PLACE / "package", *settings, SOURCE],
        check=True,
    )  # fmt: skip
    sanitized = os.environ | {
        "PYTHONPATH": str(PLACE / "package"),
        "LD_PRELOAD": " ".join(libraries),
        # Python itself leaks, and tests ask for more memory than there is.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }
    planted = subprocess.run(
        [sys.executable, "-c", PLANTED], env=sanitized, capture_output=True, text=True, check=False
    )
    if planted.returncode == 0 or "AddressSanitizer: heap-buffer-overflow" not in planted.stderr:
        print(f"a planted error was not seen: {planted.stderr}", file=sys.stderr)
        return 1
    print("a planted error was seen; now the tests", flush=True)
    is_of_calls = arguments[:1] == ["--calls"] or arguments[:1] == ["--seed"]
    program = [SOURCE / "tests" / "random_calls.py"] if is_of_calls else ["-m", "pytest"]
    command = [sys.executable, *program, *arguments]
    return subprocess.run(command, env=sanitized, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
