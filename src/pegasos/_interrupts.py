"""Ctrl-C that other libraries make the cause of an error."""

import contextlib
from collections.abc import Generator


@contextlib.contextmanager
def told_as_such() -> Generator[None]:
    """Raise the KeyboardInterrupt that caused an error of the block, if one did.

    NumPy calls data bad when Ctrl-C stops a converter; of imports, it makes failures.
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
