"""Archives of plain arrays (.npz): written whole or not at all, read without pickle.

Ours carry a checksum over all that they hold. It finds what a disk or a hand has changed; who changes a
file on purpose can write a checksum as well.
"""

import hashlib
import math
import os
import zipfile

import numpy as np

# An archive may unpack to so many bytes, or to so many times its size: zeros shrink a thousandfold.
_ALWAYS, _MOST_RATIO = 2**28, 200
_LONG_HEADER = 2048  # bytes


_CHECKSUM = "checksum"


def sealed(arrays):
    """The arrays, and a checksum over their names, types, shapes and numbers."""
    return arrays | {_CHECKSUM: np.array(_checksum(arrays))}


def _checksum(arrays):
    digest = hashlib.sha256()
    for name in sorted(set(arrays) - {_CHECKSUM}):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.ravel().view(np.uint8) if array.size else b"")
    return digest.hexdigest()


def save(path, arrays):
    """Write a dictionary of arrays and its checksum to `path`, replacing what is there in one move."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, **sealed(arrays))
            file.flush()
            os.fsync(
                file.fileno()
            )  # or a crash of the machine could leave the name without content
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def load_sealed(path):
    """As `load`, of an archive that `save` has written; also a ValueError if its checksum is not right."""
    arrays = load(path)
    seal = arrays.pop(_CHECKSUM, None)
    if seal is None:
        raise ValueError("it has no checksum")
    if str(seal) != _checksum(arrays):
        raise ValueError("its checksum does not fit what it holds: it was changed, or is damaged")
    return arrays


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
        try:
            _check_sizes(file)
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except (MemoryError, SystemError):  # nothing that bytes in a file could cause
            raise
        except Exception as error:  # noqa: BLE001 three parsers of foreign bytes, and what they raise
            raise ValueError(
                f"{name} is corrupt or holds more than plain arrays: {error}"
            ) from None


def _check_sizes(file):
    """Raise unless every member is an array as large as it says, before memory is taken for it."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        total = sum(info.file_size for info in members)
        if total > max(_ALWAYS, _MOST_RATIO * size):
            raise ValueError(f"{size} bytes that unpack to {total} are refused")
        for info in members:
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                read = {(1, 0): np.lib.format.read_array_header_1_0,
                        (2, 0): np.lib.format.read_array_header_2_0}  # fmt: skip
                if version not in read:
                    raise ValueError(f"{info.filename} is of .npy version {version}")
                try:
                    shape, _, dtype = read[version](member)
                except MemoryError:
                    # Of Python's parser, which takes deep nesting so: NumPy reads 10 kB of header at
                    # most. The headers of our own files are shorter than that takes.
                    if member.tell() < _LONG_HEADER:
                        raise
                    raise ValueError(f"{info.filename} has too complex a header") from None
                if dtype.hasobject:
                    raise ValueError(f"{info.filename} holds objects, which only pickle could read")
                declared, there = math.prod(shape) * dtype.itemsize, info.file_size - member.tell()
                if min(shape, default=0) < 0 or declared != there or dtype.itemsize == 0:
                    raise ValueError(
                        f"{info.filename} declares {declared} bytes (shape {shape}, {dtype}) and "
                        f"has {there}"
                    )
