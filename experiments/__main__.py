"""Runs the experiments that the data on this machine allow, and writes a report.

Published tables and figures, reproduced: ours beside theirs, with the spread over seeds.
"""

import argparse
import importlib
import os
import platform
import sys
import time
from importlib.metadata import version
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


def machine():
    """Processor, operating system and versions, in a line."""
    processor = platform.machine()
    about = Path("/proc/cpuinfo")
    if about.exists():
        names = [line for line in about.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":", 1)[1].strip() if names else processor
    packages = ("pegasos", "numpy", "scipy", "scikit-learn", "matplotlib")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return (
        f"{processor}, {os.cpu_count()} CPUs, {platform.system()}; "
        f"Python {platform.python_version()}, {versions}"
    )


def measure(name, output, quick):
    """The section of one experiment, with the seconds it took."""
    began = time.perf_counter()
    module = importlib.import_module(f"experiments.{name}")
    try:
        text = report.section(module, output, quick)
    except report.sets.MissingDataError as missing:
        text = f"## {module.TITLE}\n\n{report.skipped(missing)}\n"
    seconds = time.perf_counter() - began
    print(f"{name}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return f"{text}\nTook {seconds:.1f} s (`python -m experiments.{name}`).\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--only", nargs="+", choices=MODULES, metavar="NAME", default=MODULES,
                        help=f"of {', '.join(MODULES)}")  # fmt: skip
    report.add_options(parser)
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    form = " Made with `--quick`: small subsets, to see that all runs." * args.quick
    about = f"Written by `python -m experiments` on {time.strftime('%Y-%m-%d')}: {machine()}.{form}"
    sections = [measure(name, args.output, args.quick) for name in args.only]
    path = args.output / "report.md"
    text = "\n".join(["# Published results, reproduced\n", about + "\n", *sections])
    path.write_text(text, encoding="utf-8")
    print(f"report: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
