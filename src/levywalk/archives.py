"""Arrays in numpy's archives (npz) from untrusted files.

The directory of the archive and the header of each array are checked before anything is
decompressed or allocated, and decompression ends where the header says that the array ends.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.errors import LevywalkError
from levywalk.room import budget

_CHUNK = 1 << 20
_LONGEST_HEADER = 10_000  # characters; numpy's own limit
_MOST_MEMBERS = 10_000
_DENSEST = 1_100  # bytes that deflate packs into one, at most (1,032), and some room
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_READERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class Archive:
    """The arrays of an archive whose directory has been checked.

    Parameters
    ----------
    file
        The archive, open for reading and seekable.
    where
        The file's name, with which errors begin; may be empty.
    error
        The error that a damaged archive raises.
    most
        The most bytes that one array may take.

    Examples
    --------
    >>> from levywalk.errors import InvalidData
    >>> file = io.BytesIO()
    >>> np.savez(file, x=np.arange(3.0))
    >>> archive = Archive(file, "example.npz", InvalidData, most=1000)
    >>> archive.names, archive.array("x")
    (('x',), array([0., 1., 2.]))
    """

    def __init__(self, file: IO[bytes], where: str, error: type[LevywalkError], most: int) -> None:
        self.where, self._error, self._most = where, error, most
        try:
            length = file.seek(0, io.SEEK_END)
            self._zip = zipfile.ZipFile(file)
            self._members = self._checked_directory(length)
        except LevywalkError:
            raise
        except Exception as cause:  # zipfile raises nearly any type on damaged directories
            raise self._bad(f"not an archive: {_told(cause)}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self._members)

    def array(self, name: str, kinds: str = "biuf", dims: int | None = None) -> AnyArray:
        """Return an array; refuse one with another type or another number of dimensions."""
        if name not in self._members:
            listed = ", ".join(map(repr, self.names[:20])) or "none"
            raise self._bad(f"has no array {name!r}, only {listed}")
        try:
            return self._read(name, kinds, dims)
        except LevywalkError:
            raise
        except Exception as cause:  # so do zipfile, zlib and numpy on damaged members
            raise self._bad(f"the array {name!r} cannot be read: {_told(cause)}") from None

    def _read(self, name: str, kinds: str, dims: int | None) -> AnyArray:
        info = self._members[name]
        with self._zip.open(info) as member:
            shape, fortran, dtype = array_header(member)
            if dtype.hasobject or dtype.names is not None or dtype.kind not in kinds:
                raise self._bad(f"the array {name!r} holds {dtype}, plain arrays are needed")
            if dims is not None and len(shape) != dims:
                raise self._bad(f"the array {name!r} has shape {shape}, not {dims} dimensions")
            size = math.prod(shape) * dtype.itemsize
            limit = min(self._most, budget())
            if size > limit:
                raise self._bad(
                    f"the array {name!r} of shape {shape} takes {size / 2**20:,.0f} MiB, more than "
                    f"the limit of {limit / 2**20:,.0f} MiB"
                )
            if size + member.tell() != info.file_size:
                raise self._bad(
                    f"the array {name!r} of shape {shape} does not have the size of its member"
                )
            flat = np.empty(size, dtype=np.uint8)
            fill(member, flat)
        array = flat.view(dtype) if dtype.itemsize else np.empty(math.prod(shape), dtype=dtype)
        array = array.reshape(shape, order="F" if fortran else "C")
        return np.ascontiguousarray(array, dtype=dtype.newbyteorder("=")).reshape(shape)

    def _checked_directory(self, length: int) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist()
        if len(infos) > _MOST_MEMBERS:
            raise self._bad(f"{len(infos)} members, more than the limit of {_MOST_MEMBERS}")
        found = {info.filename.removesuffix(".npy"): info for info in infos}
        if len(found) < len(infos):
            raise self._bad("two members have the same name")
        if sum(info.compress_size for info in infos) > length:
            raise self._bad("its members overlap")
        for name, info in found.items():
            if info.flag_bits & 1 or info.compress_type not in _METHODS:
                raise self._bad(f"the array {name!r} is encrypted or packed in an unusual way")
            if info.file_size > _DENSEST * (info.compress_size + 1):
                raise self._bad(f"the array {name!r} declares more bytes than its member can hold")
        return found

    def _bad(self, what: str) -> LevywalkError:
        return self._error(f"{self.where}: {what}" if self.where else what)


def array_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array in numpy's format: shape, whether in Fortran order, type.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> np.save(file, np.ones((2, 3), dtype=np.int32))
    >>> _ = file.seek(0)
    >>> array_header(file)
    ((2, 3), False, dtype('int32'))
    """
    magic = member.read(8)
    version = (magic[6], magic[7]) if len(magic) == 8 else (0, 0)
    if magic[:6] != b"\x93NUMPY" or version not in _READERS:
        raise ValueError("an array must begin with numpy's header, version 1.0 or 2.0")
    width = 2 if version == (1, 0) else 4
    length = member.read(width)
    if len(length) < width or int.from_bytes(length, "little") > _LONGEST_HEADER:
        raise ValueError(f"a header is longer than {_LONGEST_HEADER} characters or cut off")
    rest = member.read(int.from_bytes(length, "little"))
    shape, fortran, dtype = _READERS[version](io.BytesIO(length + rest))
    if len(shape) > 32 or any(length < 0 for length in shape):
        raise ValueError(f"an array cannot have the shape {shape}")
    return shape, bool(fortran), dtype


def fill(member: IO[bytes], target: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    """Read exactly as many bytes as the target holds; the archive verifies its checksum at the
    end.
    """
    position = 0
    while position < len(target):
        chunk = member.read(min(_CHUNK, len(target) - position))
        if not chunk:
            raise ValueError("it ends early")
        target[position : position + len(chunk)] = np.frombuffer(chunk, np.uint8)
        position += len(chunk)
    if member.read(1):
        raise ValueError("it continues after its end")


def _told(cause: Exception) -> str:
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
