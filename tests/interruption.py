"""Ctrl-C at chosen moments: when the core asks whether to go on."""

import contextlib
import itertools

import numpy as np
import pytest

from pegasos import _core
from pegasos.solvers import _linear

#: Also within `asked_often`.
WATCH = _core.Watch


@contextlib.contextmanager
def asked_often(every=5e4):
    """A block in which the core asks after `every` numbers, so that small fits are asked, too.

    Threads share small fits there.
    """
    real = _core.Watch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "Watch", lambda *a, **options: real(*a, **options | {"every": every}))
        patch.setattr(_linear, "_LONG", 0)
        yield


@contextlib.contextmanager
def interrupted(after, every=1e3):
    """A block that Ctrl-C ends: the core asks after `every` numbers, and goes on `after` times."""
    asks = itertools.count()

    def watch(on_poll=None, **options):
        def told():
            if next(asks) >= after:
                raise KeyboardInterrupt
            if on_poll is not None:
                on_poll()

        return WATCH(told, **options | {"every": every})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "Watch", watch)
        with pytest.raises(KeyboardInterrupt):
            yield


def assert_stops_change_nothing(rows, targets, norms, step):
    """That linear fits which Ctrl-C stops now and then end with the bits of one that goes on.

    `step` is the longest way between stops, in polls.
    """

    def fitted(stops):
        fits, n_asked, n_stops = _core.Fits(1, *rows.shape), 0, 0

        def on_poll():
            nonlocal n_asked
            n_asked += 1
            if n_asked in stops:
                raise KeyboardInterrupt

        while True:
            try:
                _core.solve(
                    rows, targets, norms, fits, np.full(1, 500), tol=1e-5, seed=3,
                    solver=_core.AUTO, watch=_core.Watch(on_poll, every=3e3),
                )  # fmt: skip
                return fits.memory, n_stops, n_asked
            except KeyboardInterrupt:
                n_stops += 1

    whole, _, n_polls = fitted(())
    for stops in ((1,), (2, 5, 9), tuple(range(1, n_polls, step)), (n_polls - 1,)):
        cut, n_stops, _ = fitted(stops)
        assert n_stops == len(stops)
        np.testing.assert_array_equal(cut, whole)
