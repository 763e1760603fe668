"""Progress of a long run on standard error, as a line in a terminal that is overwritten.

A file or a pipe, where nothing can be overwritten, gets a new line now and then.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Self

#: Returns how much is done, the total (0: not known), and a note.
Position = Callable[[], tuple[float, float, str]]

# Seconds between lines in a file: the seconds so far, up to this number.
_SELDOM = 60


class Progress:
    """Shows how far a run is; a context manager."""

    def __init__(self, description: str, enabled: bool = True) -> None:
        stream = sys.stderr  # None where Python has no console
        self.description, self.enabled, self._is_live = description, False, False
        if enabled and stream is not None:
            self.enabled, self._is_live = True, "ipykernel" in sys.modules or stream.isatty()
        self._began = self._shown = 0.0
        self._width = 0
        self._position: Position = lambda: (0, 0, "")

    def __enter__(self) -> Self:
        self._began = self._shown = time.perf_counter()
        return self

    def update(self, position: Position) -> None:
        """Show the result of `position`, if it is time."""
        self._position = position
        if not self.enabled:
            return
        pause = 0.2 if self._is_live else min(max(self._shown - self._began, 1), _SELDOM)
        if time.perf_counter() - self._shown > pause:
            self._show(*position())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.enabled:
            done, total, note = self._position()
            self._show(total or done if kind is None else done, total, note, last=True)

    def _show(self, done: float, total: float, note: str, last: bool = False) -> None:
        self._shown = time.perf_counter()
        line = self.description
        if total:
            part = done / total
            line += f" [{'#' * round(10 * part):.<10}] {100 * part:3.0f} %"
        line += f"  {note}" * bool(note) + f"  {self._shown - self._began:.1f} s"
        # If the reader is gone, training goes on.
        with contextlib.suppress(OSError, ValueError):
            # The line must hide a longer one before it, but a wide line would be broken.
            over = f"\r{line:<{self._width}}" + "\n" * last
            sys.stderr.write(over if self._is_live else f"{line}\n")
            sys.stderr.flush()
        self._width = len(line)
