"""The regression guard: no hot path may take more instructions than were recorded."""

import collections
import importlib.util
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier

_SPEC = importlib.util.spec_from_file_location(
    "instructions", Path(__file__).parents[1] / "bench" / "instructions.py"
)
instructions = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(instructions)


# Calls of functions of this library in a fit of iris by default, Python's and the core's, with some
# to spare: in small fits they are what takes time. They do not depend on the machine.
CALLS = {PegasosClassifier: 330, KernelPegasosClassifier: 420}


@pytest.mark.parametrize("kind", CALLS)
def test_a_small_fit_calls_few_functions(kind):
    X, y = load_iris(return_X_y=True)
    clf = kind(lam=1 / 150, random_state=0)
    clf.fit(X, y)  # imports, and what is looked for once
    root, calls = str(Path(pegasos.__file__).parent), []

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(root):
            calls.append(frame.f_code.co_name)
        elif event == "c_call" and "pegasos" in (getattr(argument, "__module__", None) or ""):
            calls.append(argument.__name__)

    sys.setprofile(watch)
    try:
        clf.fit(X, y)
    finally:
        sys.setprofile(None)
    assert 0.5 * CALLS[kind] <= len(calls) <= CALLS[kind], collections.Counter(calls).most_common(
        12
    )


def test_no_hot_path_takes_more_instructions_than_recorded():
    try:
        rows, comparable = instructions.compare()
    except instructions.UnavailableError as missing:
        pytest.skip(str(missing))
    if not comparable:
        pytest.skip(f"counts are recorded for another compiler than {instructions.compiler()}")
    slower = {path: change for path, *_, change in rows if change > instructions.TOLERANCE}
    assert not slower, "if this is meant, record it: python bench/instructions.py --write"
