"""Benchmarks. Both sides of every ratio run in this process, in turn.

Tables: ``linear`` (time to a suboptimality beside peers), ``kernel`` (kernel machines beside
SVC), ``small`` (default fits of small sets beside LinearSVC and SVC), ``threads`` (what two
threads gain), ``select`` (cross-validated searches), ``gap`` (time to a certified duality gap),
``micro`` (an epoch beside ``X @ w``, prediction, memory), ``scale`` (how cost grows; one very
large run), ``all``.
"""

import argparse
import importlib
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import measure

# Table: its module.
TABLES = {
    "linear": "linear",
    "kernel": "kernel",
    "small": "small",
    "threads": "threads",
    "select": "search",
    "gap": "gap",
    "micro": "micro",
    "scale": "scale",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", choices=[*TABLES, "all"], default="micro")
    parser.add_argument("--quick", action="store_true", help="small imitations, few repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE as well")
    parser.add_argument("--plots", metavar="FOLDER", help="draw the figures, as PNG")
    parser.add_argument("--repetitions", type=int, metavar="R", help="how often to measure")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="of the table, only these rows")
    parser.add_argument("--slow", action="store_true", help="peers that take minutes, too")
    parser.add_argument("--huge", action="store_true", help="scale: past 2**31 nonzeros (20 GB)")
    args = parser.parse_args()
    about = {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python "
        f"{platform.python_version()}, NumPy {version('numpy')}, "
        f"scikit-learn {version('scikit-learn')}, pegasos {version('pegasos')}",
        "date": time.strftime("%Y-%m-%d"),
    }
    everything = dict(about)
    for name in TABLES if args.table == "all" else [args.table]:
        module = importlib.import_module(TABLES[name])
        results = module.run(args)
        print(f"{name}: {about['machine']}; {about['date']}; repetitions: {results['repetitions']}")
        for part, rows in results.items():
            if isinstance(rows, list) and part != "curves":
                print(f"\n{measure.table(rows)}\n", flush=True)
        if args.plots and hasattr(module, "plot"):
            Path(args.plots).mkdir(parents=True, exist_ok=True)
            module.plot(results, Path(args.plots))
        everything[name] = results
        if args.json:
            Path(args.json).write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
