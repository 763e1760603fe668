"""Archives of plain arrays (.npz): written whole or not at all, read without pickle."""

import os
import zipfile
import zlib

import numpy as np


def save(path, arrays):
    """Write a dictionary of arrays to `path`, replacing what is there in one move."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())  # or a crash of the machine could leave the name without content
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def load(path):
    """Read all arrays of `path` into a dictionary.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not a whole archive of plain arrays.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{name} is not an .npz archive, or is truncated")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except (EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(
                f"{name} is corrupt or holds more than plain arrays: {error}"
            ) from None
