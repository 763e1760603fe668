"""Benchmarks: ``python bench/run.py --help``. Both sides of every ratio run in this process, in turn.

Tables: ``epochs`` (a linear epoch beside ``X @ w``), ``kernel`` (kernel machines beside SVC), ``gap``
(time to a certified duality gap), ``select`` (cross-validated searches).
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
TABLES = {"epochs": "epochs", "kernel": "kernel", "gap": "gap", "select": "search"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("table", nargs="?", choices=TABLES, default="epochs")
    parser.add_argument("--quick", action="store_true", help="small imitations, few repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE as well")
    parser.add_argument("--repetitions", type=int, metavar="R", help="how often to measure")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="of the table, only these rows")
    parser.add_argument("--slow", action="store_true", help="peers that take minutes, too")
    args = parser.parse_args()
    about = {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python "
        f"{platform.python_version()}, NumPy {version('numpy')}, pegasos {version('pegasos')}",
        "date": time.strftime("%Y-%m-%d"),
    }
    results = about | importlib.import_module(TABLES[args.table]).run(args)
    print(f"{about['machine']}; {about['date']}; repetitions: {results['repetitions']}")
    for part in results.values():
        if isinstance(part, list):
            print(f"\n{measure.table(part)}")
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
