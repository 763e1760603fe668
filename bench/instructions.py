"""Instruction counts of hot paths and small fits, beside those recorded.

Run it by ``python bench/instructions.py``.

Counts do not depend on what else a machine does, but on the compiler and the instruction set: those
recorded are of one compiler, and others are only printed. ``--write`` records the present ones.
"""

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = Path(__file__).with_name("instructions.json")
# More than this above the record is a slowdown.
TOLERANCE = 0.03


class UnavailableError(Exception):
    """What counting needs and is not here."""


def _run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def compiler():
    """What the counts depend on."""
    if shutil.which("cc") is None:
        raise UnavailableError("no C compiler named cc")
    name = "clang" if "clang" in _run("cc", "--version")[0] else "gcc"
    return f"{name} {_run('cc', '-dumpversion')[0].split('.')[0].strip()}, {platform.machine()}"


def count(folder):
    """Instructions by hot path; `folder` is new, or has a build of the core for release."""
    if shutil.which("valgrind") is None or shutil.which("cmake") is None:
        raise UnavailableError("counting needs valgrind and cmake")
    _run("cmake", "-S", ROOT, "-B", folder)
    _run("cmake", "--build", folder, "--target", "instructions")
    program, counts = Path(folder) / "instructions", {}
    for path in _run(program)[0].split():
        _, told = _run(
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
            "--toggle-collect=work", program, path,
        )  # fmt: skip
        counts[path] = int(re.search(r"Collected : (\d+)", told).group(1))
    return counts


def compare(folder):
    """Rows (path, recorded, now, change) against the record, and whether it is of this compiler."""
    record = json.loads(RECORD.read_text())
    now = count(folder)
    rows = [
        (path, record["counts"].get(path), n, n / record["counts"].get(path, n) - 1)
        for path, n in now.items()
    ]
    return rows, record["compiler"] == compiler()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="record the present counts")
    write = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        if write:
            record = {"compiler": compiler(), "counts": count(folder)}
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
        rows, comparable = compare(folder)
    for path, recorded, now, change in rows:
        print(f"{path:20} {recorded or 0:12,} {now:12,} {100 * change:+7.2f} %")
    if not comparable:
        print("the record is of another compiler")
    return comparable and any(change > TOLERANCE for *_, change in rows)


if __name__ == "__main__":
    sys.exit(main())
