"""Progress of a long run on standard error: tqdm where it is installed, else a plain line."""

import sys
import time


class Progress:
    """Shows how far a run is; a context manager.

    Parameters
    ----------
    description : str
        What is being done.
    enabled : bool
        False: nothing is shown.
    """

    def __init__(self, description, enabled=True):
        self.description, self.enabled = description, bool(enabled)
        self._bar = None
        self._began = self._shown = 0.0
        self._look = lambda: (0, 0, "")

    def __enter__(self):
        self._began = time.perf_counter()
        if self.enabled:
            try:
                from tqdm import tqdm
            except ImportError:
                pass
            else:
                self._bar = tqdm(total=0, desc=self.description, unit="row", unit_scale=True)
        return self

    def update(self, look):
        """Show, if it is time, what `look` returns: how much is done, of how much (0: not known), a note."""
        self._look = look
        if self.enabled and time.perf_counter() - self._shown > 0.2:
            self._show(*look())

    def __exit__(self, kind, *_):
        if self.enabled:
            done, total, note = self._look()
            self._show(total or done if kind is None else done, total, note)
            if self._bar is not None:
                self._bar.close()
            else:
                sys.stderr.write("\n")
                sys.stderr.flush()

    def _show(self, done, total, note):
        self._shown = time.perf_counter()
        if self._bar is not None:
            self._bar.total = total or None
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
            return
        line = self.description
        if total:
            part = done / total
            line += f" [{('#' * round(30 * part)).ljust(30, '.')}] {100 * part:3.0f} %"
        sys.stderr.write(f"\r{line}  {note}  {self._shown - self._began:.1f} s")
        sys.stderr.flush()
