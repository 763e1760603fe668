"""Ctrl-C at chosen moments: when the core asks whether to go on."""

import contextlib
import itertools

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
