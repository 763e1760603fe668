"""Runs the experiments that the data on this machine allow, and writes a report.

It shows published tables and figures beside ours, with the spread over seeds. In a report that is
there already, sections of experiments that are not run stay as they are. The table at the top comes
from the numbers of all sections.
"""

import argparse
import contextlib
import importlib
import os
import platform
import re
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments import report

MODULES = [
    "digits_5_vs_6",
    "usps_grids",
    "toy_moons_fashion",
    "time_to_suboptimality",
    "kernel_table",
    "paper_figures",
]


HEAD = """# Published results, reproduced

{table}

- *Reproduced*: our result agrees with the published one, within its uncertainty, or is better and
  leads to the same conclusion.
- *Corrected*: the published result has a cause that can be removed, which the reason names.
- *Not comparable*: the rows of the published result are not known, as the reason says.

`python -m experiments` writes this page. Each section tells how its results were measured.
"""


def machine():
    """Processor, operating system and versions, in a line."""
    processor = platform.machine()
    about = Path("/proc/cpuinfo")
    if about.exists():
        names = [line for line in about.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":", 1)[1].strip() if names else processor
    versions = [f"Python {platform.python_version()}"]
    for package in ("pegasos", "numpy", "scipy", "scikit-learn", "matplotlib"):
        with contextlib.suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return f"{processor}, {os.cpu_count()} CPUs, {platform.system()}; {', '.join(versions)}"


def measure(name, output, quick):
    """The section of one experiment, with the seconds it took, when and where; None if it cannot run."""
    module = importlib.import_module(f"experiments.{name}")
    if reason := report.lacking(module):
        print(f"{name} was not run: {reason}", file=sys.stderr, flush=True)
        return None
    began = time.perf_counter()
    text = report.section(module, output, quick)
    seconds = time.perf_counter() - began
    print(f"{name}: {seconds:.1f} s", file=sys.stderr, flush=True)
    form = ", small subsets, to see that all runs" * quick
    command = f"python -m experiments.{name}{' --quick' * quick}"
    return (
        f"{text}\nTook {seconds:.1f} s (`{command}`{form}) on {time.strftime('%Y-%m-%d')}: "
        f"{machine()}.\n"
    )


def sections(path):
    """Sections of a report by title; none if there is no report yet."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split("^## ", text, flags=re.MULTILINE)[1:]
    return {part.split("\n", 1)[0]: f"## {part}" for part in parts}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--only", nargs="+", choices=MODULES, metavar="NAME", default=MODULES,
                        help=f"of {', '.join(MODULES)}")  # fmt: skip
    report.add_options(parser)
    args = parser.parse_args(arguments)
    output = report.folder(args)
    path = output / "report.md"
    found = {name: measure(name, output, args.quick) for name in args.only}
    if not any(found.values()):
        sys.exit(f"nothing was run: {path} is as it was" if path.exists() else "nothing was run")
    before = sections(path)
    parts = []
    for name in MODULES:
        module = importlib.import_module(f"experiments.{name}")
        text = found.get(name) or before.get(module.TITLE, "").rstrip("\n") + "\n"
        if text.strip():
            parts.append((module, text))
    head = HEAD.format(table=report.summary(parts))
    path.write_text("\n".join([head, *(text for _, text in parts)]), encoding="utf-8")
    print(f"report: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
