"""Progress of a long run on standard error: tqdm where it is installed, else a plain line."""

import sys
import time


class Progress:
    """Counts up to `total`; a context manager.

    Parameters
    ----------
    total : int
        What `update` is called with at the end.
    description : str
        What is being done.
    enabled : bool
        False: nothing is shown.
    """

    def __init__(self, total, description, enabled=True):
        self.total, self.description, self.enabled = total, description, bool(enabled)
        self._bar = None
        self._began = self._shown = 0.0

    def __enter__(self):
        self._began = time.perf_counter()
        if self.enabled:
            try:
                from tqdm import tqdm
            except ImportError:
                self._show(0)
            else:
                self._bar = tqdm(
                    total=self.total, desc=self.description, unit="step", unit_scale=True
                )
        return self

    def update(self, done):
        """Show that `done` of `total` is done."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif self.enabled and time.perf_counter() - self._shown > 0.2:
            self._show(done)

    def __exit__(self, kind, *_):
        if self._bar is not None:
            self._bar.close()
        elif self.enabled:
            if kind is None:
                self._show(self.total)
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _show(self, done):
        self._shown = time.perf_counter()
        part = done / self.total if self.total else 1.0
        bar = ("#" * round(30 * part)).ljust(30, ".")
        sys.stderr.write(
            f"\r{self.description} [{bar}] {100 * part:3.0f} %  {self._shown - self._began:.1f} s"
        )
        sys.stderr.flush()
