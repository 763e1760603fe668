"""A checksum for archives that a test has changed: what lies behind it is tested as well."""

import numpy as np

from pegasos.io import _archive


def seal(path):
    """Make the checksum of a file right, if the file can be read."""
    try:
        arrays = _archive.load(path)
    except ValueError:
        return
    np.savez(path, **_archive.sealed(arrays))
