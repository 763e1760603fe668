"""Ctrl-C that other libraries report as an error."""

import contextlib
from collections.abc import Generator


@contextlib.contextmanager
def told_as_such() -> Generator[None]:
    """Raise the KeyboardInterrupt that caused an error in the block, if one did.

    If Ctrl-C stops a converter, NumPy reports bad data; if it stops an import, a failure.
    """
    try:
        yield
    except Exception as error:
        cause = error.__cause__
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__
        if cause is not None:
            raise cause from None
        raise
