"""Modules that need an extra of the package."""

import contextlib
from collections.abc import Generator


@contextlib.contextmanager
def needed_by(what: str, extra: str, *modules: str) -> Generator[None]:
    """Make a failed import in the block say what to install for `what`.

    If one of `modules`, which the extra brings, is not installed, the error has no cause. Other
    errors are shown as the cause.
    """
    try:
        yield
    except ImportError as error:
        missing = (error.name or extra).partition(".")[0]
        says_all = isinstance(error, ModuleNotFoundError) and missing in modules
        raise ImportError(f'{what} needs {missing}: pip install "pegasos[{extra}]"') from (
            None if says_all else error
        )
