"""What is there only if an extra of the package is installed."""

import contextlib
from collections.abc import Generator


@contextlib.contextmanager
def needed_by(what: str, extra: str) -> Generator[None]:
    """Let a failed import of the block say what to install, and that `what` needs it."""
    try:
        yield
    except ImportError as error:
        missing = (error.name or extra).partition(".")[0]
        raise ImportError(f'{what} needs {missing}: pip install "pegasos[{extra}]"') from error
