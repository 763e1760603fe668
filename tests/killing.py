"""Runs that are killed at a line of the package, in processes of their own."""

import itertools
import multiprocessing
import os
import signal
import sys
import types
import warnings

from pegasos import Blocks, _core, cli
from pegasos.io import _blocks, _checkpoint

# What a run of the command line imports takes seconds: one process does, and forks for each run.
LOADED = ("pytest", "pegasos.estimators", "pegasos.io._metrics", "pegasos.io._readers", "pandas")


def exit_code(run, *arguments):
    """How a process ends that calls `run`, a function of this module; killed: minus the signal."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LOADED])
    process = context.Process(target=run, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def kill_at(line, places):
    """Kill this process when so many lines of these files and folders were run."""
    left = line

    def at_line(frame, event, argument):
        nonlocal left
        left -= event == "line"
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return at_line

    sys.settrace(lambda frame, *_: at_line if frame.f_code.co_filename.startswith(places) else None)


def train(line, places, every, arguments):
    """Run `pegasos train`, and count lines from its first checkpoint on.

    Asking for the time takes a second, however fast the machine is: what a checkpoint waits for is
    work. Small fits are asked as large ones are, after `every` numbers.
    """
    warnings.simplefilter("ignore")
    _checkpoint.time = types.SimpleNamespace(monotonic=itertools.count().__next__)
    watch, write = _core.Watch, _checkpoint.Checkpoints.write
    _core.Watch = lambda *tell, **options: watch(*tell, **options | {"every": every})

    def write_and_count(*written):
        write(*written)
        kill_at(line, places)

    _checkpoint.Checkpoints.write = write_and_count
    sys.exit(cli.main(arguments))


def convert(line, source, cache):
    """Make blocks of a file, and count lines from the beginning."""
    kill_at(line, (_blocks.__file__,))
    Blocks(source, cache=cache, memory="200kB")
