"""What the experiments share: data, tables, figures, and the section of a report."""

import argparse
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
QUICK_RESULTS = ROOT / "build" / "experiments"

sys.path.insert(0, str(ROOT / "bench"))
import data as sets


def table(names, rows):
    """Rows of cells as a markdown table; floats with three digits."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value):
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class Claim(NamedTuple):
    """A published result: a row of the table at the top of the report."""

    result: str
    ours: str
    published: str
    verdict: str
    reason: str


def verdict(holds, word="reproduced"):
    """`word` if ours agrees with the published result."""
    return word if holds else "not reproduced"


def rows(text, begin):
    """Cells of the table rows of `text` whose first cell begins with `begin`."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()
             if line.startswith("|")]  # fmt: skip
    found = [row for row in cells if row[0].startswith(begin)]
    if not found:
        raise LookupError(f"no table has a row {begin!r}")
    return found


def number(cell):
    """The number with which a cell begins."""
    return float(cell.split()[0].rstrip(","))


def summary(parts):
    """The table of claims, from pairs of an experiment's module and its section of the report.

    A source stands beside its first claim.
    """
    found, last = [], None
    for module, text in parts:
        if " --quick`" in text:
            continue  # small subsets cannot stand beside published results
        for claim in module.claims(text):
            found.append(["" if last == module.SOURCE else module.SOURCE, *claim])
            last = module.SOURCE
    names = ["source", "result", "ours", "published", "verdict", "reason"]
    return table(names, found) if found else ""


def mean_sd(values, form=".2f"):
    """Mean ± standard deviation of a sample."""
    spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{np.mean(values):{form}} ± {spread:{form}}"


def slope(x, y):
    """Slope of the least-squares line through (log x, log y)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def lacking(module):
    """What the experiment `module` needs and does not find here, in words; None if it finds all."""
    if module.DRAWS and importlib.util.find_spec("matplotlib") is None:
        return "its pictures need matplotlib: pip install '.[plot]'"
    for name in module.DATA:
        try:
            sets.load(name)
        except sets.MissingDataError as missing:
            return str(missing)
    return None


def axes(rows, columns, width=9.0, height=3.4):
    """A figure and its panels, an array of shape (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def log_log(ax, title, x_label, y_label):
    """Make `ax` a panel with logarithmic axes."""
    ax.set(xscale="log", yscale="log", title=title, xlabel=x_label, ylabel=y_label)
    ax.grid(alpha=0.3)


def guide(ax, x, y, slope, label):
    """Draw the line of a published slope through the point (x[0], y), dashed."""
    x = np.asarray(x, float)
    ax.plot(x, y * (x / x[0]) ** slope, "--", color="grey", linewidth=1, label=label)


def save(figure, output, name, caption):
    """Write `figure` as a small PNG of few colours; returns the markdown that shows it."""
    from PIL import Image

    path = Path(output) / f"{name}.png"
    figure.savefig(path, dpi=80)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE, kmeans=3)
    small.save(path, optimize=True)
    return f"![{caption}]({name}.png)"


def section(module, output, quick=False):
    """The section of the report that `module` makes: title, what it reproduces, what came out."""
    body = module.run(Path(output), quick=quick)
    return f"## {module.TITLE}\n\n{inspect.getdoc(module)}\n\n{body}\n"


def alone(name):
    """Command line of the experiment `name`: its section on standard output."""
    module = importlib.import_module(f"experiments.{name}")
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{name}", description=module.TITLE)
    add_options(parser)
    args = parser.parse_args()
    if reason := lacking(module):
        sys.exit(f"{name} was not run: {reason}")
    print(section(module, folder(args), args.quick), end="")


def add_options(parser):
    """Options that all command lines here have."""
    parser.add_argument("--quick", action="store_true", help="small subsets, few repetitions")
    parser.add_argument(
        "--output", type=Path, metavar="DIR",
        help="default experiments/results, with --quick build/experiments",
    )  # fmt: skip


def folder(args):
    """The folder for pictures and report, which it makes: what is quick does not replace results."""
    output = args.output or (QUICK_RESULTS if args.quick else RESULTS)
    output.mkdir(parents=True, exist_ok=True)
    return output
