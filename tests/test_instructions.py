"""The regression guard of small fits: they may not call more functions than they do."""

import collections
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier

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
