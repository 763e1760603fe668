"""How the benchmarks measure: in turn, in one process, as ratios; and tables of what they found."""

import contextlib
import mmap
import re
import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np


def say(*words):
    """What is being done, on standard error."""
    print(*words, file=sys.stderr, flush=True)


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def in_turn(calls, repetitions):
    """Seconds of each call, run in turn: one list per call."""
    times = [[call() for call in calls] for _ in range(repetitions)]
    return list(zip(*times, strict=True))


def ratio(a, b):
    """Median of the ratios of neighbours in time: the machine's speed drifts."""
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def quartiles(a, b):
    """Between what lies the middle half of these ratios."""
    return np.percentile(np.divide(a, b), [25, 75])


@contextlib.contextmanager
def peak_memory():
    """Watch the process: yields a list that will hold the bytes it took above what it had.

    Linux keeps the peak itself. Elsewhere a thread looks now and then, which sees nothing of calls
    that hold the interpreter.
    """
    import psutil

    process, stop, peak = psutil.Process(), threading.Event(), []
    before = highest = process.memory_info().rss
    linux = Path("/proc/self/clear_refs")
    if linux.exists():
        linux.write_text("5")

    def watch():
        nonlocal highest
        while not stop.wait(0.02):
            highest = max(highest, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()
        if linux.exists():
            status = Path("/proc/self/status").read_text()
            highest = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))
        peak.append(highest - before)


def touch_memory(n_bytes):
    """Take memory and give it back, so that nobody's clock runs while a virtual machine finds some.

    The first touch of a page there can cost several times what training on it does.
    """
    pages = np.empty(n_bytes, np.uint8)
    pages[:: mmap.PAGESIZE] = 1


def table(rows):
    """Rows of figures as text."""
    names = list(dict.fromkeys(
        name for row in rows for name, value in row.items() if not isinstance(value, list)
    ))  # fmt: skip
    cells = [
        [
            "" if v is None else f"{v:.3g}" if isinstance(v, float) else str(v)
            for v in map(row.get, names)
        ]
        for row in rows
    ]
    widths = [max(len(c) for c in column) for column in zip(names, *cells, strict=True)]
    lines = [names, ["-" * w for w in widths], *cells]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True))
                     for line in lines)  # fmt: skip
