"""Benchmarks. Both sides of every ratio run in this process, in turn.

Tables: ``linear`` (time to a suboptimality beside peers), ``targets`` (the same for the other
losses and for regression), ``kernel`` (kernel machines beside SVC), ``small`` (default fits of
small sets beside LinearSVC and SVC), ``threads`` (what two threads gain), ``select``
(cross-validated searches), ``gap`` (time to a certified duality gap), ``micro`` (an epoch beside
``X @ w``, prediction, memory), ``scale`` (how cost grows; one very
large run), ``blocks`` (rows on disk), ``cluster`` (rounds, workers and what a round costs on a
Dask cluster), ``all``. With ``--json``, figures are kept in ``bench/results``, of which
``python bench/page.py`` makes the page.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import measure

ROOT = Path(__file__).parents[1]

# Table: its module, and the function there.
TABLES = {
    "linear": ("linear", "run"),
    "targets": ("linear", "run_targets"),
    "kernel": ("kernel", "run"),
    "small": ("small", "run"),
    "threads": ("threads", "run"),
    "select": ("search", "run"),
    "gap": ("gap", "run"),
    "micro": ("micro", "run"),
    "scale": ("scale", "run"),
    "blocks": ("blocks", "run"),
    "cluster": ("cluster", "run"),
}
PACKAGES = (
    "pegasos", "numpy", "scipy", "scikit-learn", "scikit-learn-intelex", "liblinear-multicore",
    "liblinear-official", "snapml", "skglm", "distributed", "dask-ml", "pyspark",
)  # fmt: skip


def cpu():
    """The processor's name, where Linux tells it."""
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions():
    """Of what is installed of `PACKAGES`."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit():
    """The commit that is measured, with a + where files differ from it; "" outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except OSError:
        return ""
    return done.stdout.strip()


def save(folder, table, about, results):
    """Keep the figures of the sets that were measured; those of other sets stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / f"{table}.json", {}
    for part, rows in results.items():
        for row in rows if isinstance(rows, list) else ():
            kept = new.setdefault(str(row.get("set", "all")), {"about": about})
            kept.setdefault(part, []).append(row)
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | new, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", choices=[*TABLES, "all"], default="micro")
    parser.add_argument("--quick", action="store_true", help="small imitations, few repetitions")
    parser.add_argument(
        "--json", metavar="FOLDER", nargs="?", const=ROOT / "bench" / "results", type=Path,
        help="keep the figures in FOLDER (default: %(const)s)",
    )  # fmt: skip
    parser.add_argument("--repetitions", type=int, metavar="R", help="how often to measure")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="of the table, only these rows")
    parser.add_argument("--slow", action="store_true", help="peers that take minutes, too")
    parser.add_argument(
        "--huge", action="store_true",
        help="scale: past 2**31 nonzeros (20 GB); blocks: 500 million stored values; cluster: 100",
    )  # fmt: skip
    args = parser.parse_args()
    about = {
        "machine": f"{cpu()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": versions(),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }
    for name in TABLES if args.table == "all" else [args.table]:
        module, function = TABLES[name]
        options = ["--quick"] * args.quick + ["--slow"] * args.slow + ["--huge"] * args.huge
        told = about | {"command": " ".join(["python bench/run.py", name, *options])}

        def keep(results, name=name, told=told):
            told["repetitions"] = results["repetitions"]
            if args.json:
                save(args.json, name, told, results)

        args.keep = keep  # which tables of many sets call after each of them
        results = getattr(importlib.import_module(module), function)(args)
        keep(results)
        print(f"{name}: " + "; ".join(f"{key} {value}" for key, value in told.items()))
        for part, rows in results.items():
            if isinstance(rows, list) and part != "curves":
                print(f"\n{measure.table(rows)}\n", flush=True)


if __name__ == "__main__":
    main()
