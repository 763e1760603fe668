"""Archives of plain arrays (.npz): written whole or not at all, read without pickle.

Archives of pegasos have a checksum over their contents. It finds accidental changes. Whoever
changes a file on purpose can also write a checksum.
"""

import contextlib
import errno
import hashlib
import math
import os
import shutil
import stat
import tempfile
import threading
import zipfile
from collections.abc import Generator
from typing import IO, Any

import numpy as np

from pegasos.problems import _validate

# An archive may unpack to _ALWAYS bytes, or to _MOST_RATIO times its size. Zeros could grow more.
_ALWAYS, _MOST_RATIO = 2**28, 200
_LONG_HEADER = 2048  # bytes

Path = str | os.PathLike[str]


_CHECKSUM = "checksum"


def sealed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays and a checksum over their names, types, shapes and numbers."""
    return arrays | {_CHECKSUM: np.array(_checksum(arrays))}


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(set(arrays) - {_CHECKSUM}):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.ravel().view(np.uint8) if array.size else b"")
    return digest.hexdigest()


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a dictionary of arrays and its checksum to `path`, and replace what is there."""
    contents: dict[str, Any] = sealed(arrays)
    with replacing(path) as file:
        np.savez(file, **contents)


@contextlib.contextmanager
def replacing(path: Path, mode: str = "wb") -> Generator[IO[Any]]:
    """A file to write, which replaces `path` once it is complete.

    Links are followed, and a replaced file's owner and permissions are kept. A pipe or device is
    written to directly.
    """
    name = _validate.path("path", path)
    encoding = None if "b" in mode else "utf-8"
    target, temporary, before = _places(name)
    try:
        with open(temporary or target, mode, encoding=encoding) as file:
            if temporary and before is not None:
                if hasattr(os, "chown"):
                    with contextlib.suppress(PermissionError):  # not all may give files away
                        os.chown(temporary, before.st_uid, before.st_gid)
                os.chmod(temporary, stat.S_IMODE(before.st_mode))
            yield file
            if temporary:
                file.flush()
                os.fsync(file.fileno())  # else a crash could leave a name without content
        if temporary:
            os.replace(temporary, target)
    except OSError as error:
        error.filename = name  # not that of the temporary file
        raise
    finally:
        if temporary and os.path.exists(temporary):
            os.remove(temporary)


def check_writable(path: str) -> None:
    """Raise the OSError with which `replacing` would end, if it is known beforehand."""
    target, temporary, _ = _places(path)
    if temporary:
        try:
            open(temporary, "wb").close()
            os.remove(temporary)
        except OSError as error:
            error.filename = path
            raise
    elif os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _places(name: str) -> tuple[str, str | None, os.stat_result | None]:
    """The file to write to; one to write first, or None; the status of an old file, or None."""
    before = None
    with contextlib.suppress(FileNotFoundError):
        before = os.stat(name)
    if before is not None:
        if not os.access(name, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        if not stat.S_ISREG(before.st_mode):
            return name, None, None
    if not os.path.basename(name):
        code = errno.EISDIR if name else errno.ENOENT
        raise OSError(code, os.strerror(code), name)
    target = os.path.realpath(name)
    folder, last = os.path.split(target)
    # A part of a long name, so that there is room for the additions.
    temporary = os.path.join(folder, f"{last[:40]}.{threading.get_native_id()}.tmp")
    return target, temporary, before


def load_sealed(path: Path, folder: str | None = None) -> dict[str, np.ndarray]:
    """As `load`, for a file by `save`; a ValueError also if its checksum is wrong."""
    arrays = load(path, folder)
    seal = arrays.pop(_CHECKSUM, None)
    if seal is None:
        raise ValueError("it has no checksum")
    if str(seal) != _checksum(arrays):
        raise ValueError("its checksum is wrong: it was changed, or is damaged")
    return arrays


def load(path: Path, folder: str | None = None) -> dict[str, np.ndarray]:
    """Read all arrays of `path`: a ValueError if it is no complete archive of plain arrays.

    If there is a `folder`, arrays stay on disk, in files there without a name.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{name} is not an .npz archive, or is truncated")
        try:
            _check_sizes(file)
            file.seek(0)
            if folder is not None:
                return _unpacked(file, folder)
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except (MemoryError, SystemError):  # bytes in a file cannot cause these
            raise
        except Exception as error:  # three parsers of foreign bytes may raise any
            if getattr(error, "filename", None) is not None:  # an error in `folder`
                raise
            raise ValueError(
                f"{name} is corrupt or holds more than plain arrays: {error}"
            ) from None


def names(path: Path) -> set[str]:
    """The names of the arrays of `path`; the arrays are not read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a parser of foreign bytes may raise any
        raise ValueError("it is not an .npz archive, or is corrupt") from error


def _unpacked(file: IO[bytes], folder: str) -> dict[str, np.ndarray]:
    """The arrays of an archive, each in a file without a name, so that no kill leaves it behind."""
    arrays = dict[str, np.ndarray]()
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            with (
                archive.open(name) as member,
                naming(folder),
                tempfile.TemporaryFile(dir=folder) as out,
            ):
                shutil.copyfileobj(member, out)
                out.seek(0)
                shape, is_fortran, dtype = _header(name, out)
                arrays[name.removesuffix(".npy")] = np.memmap(
                    out, dtype, "r", out.tell(), shape, "F" if is_fortran else "C"
                )
    return arrays


def _header(name: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of the array that follows in the file."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0}  # fmt: skip
    if version not in read:
        raise ValueError(f"{name} is of .npy version {version}")
    try:
        return read[version](file)
    except MemoryError:
        # Python's parser raises it for deep nesting, in headers of up to 10 kB that NumPy reads.
        # Headers of our own files are too short for that.
        if file.tell() < _LONG_HEADER:
            raise
        raise ValueError(f"{name} has too complex a header") from None


@contextlib.contextmanager
def naming(path: str) -> Generator[None]:
    """Make errors of the system name the file; a lack of memory is a MemoryError."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"{path}: {error.strerror}") from error
        error.filename = path if error.filename is None else error.filename
        raise


def _check_sizes(file: IO[bytes]) -> None:
    """Raise unless every member is an array of its declared size, before memory is allocated."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        total = sum(info.file_size for info in members)
        if total > max(_ALWAYS, _MOST_RATIO * size):
            raise ValueError(f"{size} bytes that unpack to {total} are refused")
        for info in members:
            with archive.open(info) as member:
                shape, _, dtype = _header(info.filename, member)
                if dtype.hasobject:
                    raise ValueError(f"{info.filename} holds objects, which only pickle could read")
                declared, there = math.prod(shape) * dtype.itemsize, info.file_size - member.tell()
                if min(shape, default=0) < 0 or declared != there or dtype.itemsize == 0:
                    raise ValueError(
                        f"{info.filename} declares {declared} bytes (shape {shape}, {dtype}) and "
                        f"has {there}"
                    )
