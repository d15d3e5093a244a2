"""The content of a file, decompressed in a stream and never beyond a limit.

A few kilobytes of gzip can stand for gigabytes, so decompression stops at a limit, which an error
states. ``--max-file-size``, the variable LEVYWALK_MAX_FILE_SIZE or ``max_bytes`` raise it.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from levywalk import checks
from levywalk.errors import InvalidParameter, LevywalkError, TooLarge
from levywalk.remedy import python_or_command
from levywalk.room import available_bytes

VARIABLE = "LEVYWALK_MAX_FILE_SIZE"
DEFAULT = 1 << 30  # bytes of a file after decompression
GZIP = b"\x1f\x8b"
OTHER_PACKING = (".bz2", ".xz", ".zst", ".zip", ".7z", ".tar", ".tgz", ".rar")  # suffixes
_CHUNK = 1 << 20
_given: ContextVar[int | None] = ContextVar("given", default=None)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size_of_text(text: str) -> int:
    """Return a number of bytes such as ``8G``, ``500M`` or ``1000000``.

    Examples
    --------
    >>> size_of_text("8G"), size_of_text("500 MiB")
    (8589934592, 524288000)
    """
    found = re.fullmatch(r"\s*([0-9]{1,15})\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise InvalidParameter(f"a file's size must be such as 500M or 8G, got {text!r}")
    return int(found[1]) * _UNITS[found[2].upper()]


def most_bytes() -> int:
    """Return the limit of a file's content: `content_limit`'s, or the environment's, or 1 GiB."""
    given = _given.get()
    if given is not None:
        return given
    told = os.environ.get(VARIABLE)
    return DEFAULT if told is None else size_of_text(told)


@contextmanager
def content_limit(max_bytes: int | None) -> Iterator[None]:
    """Set the limit of a file's content while a file is read; None changes nothing."""
    clean = _given.get() if max_bytes is None else checks.integer("max_bytes", max_bytes, low=1)
    before = _given.set(clean)
    try:
        yield
    finally:
        _given.reset(before)


def too_much(where: Path | str, limit: int) -> TooLarge:
    """Return the error about a content that is larger than the limit."""
    return TooLarge(
        f"{where}: more than {limit / 2**20:,.0f} MiB after decompression, which is the limit; if "
        "you trust the file, raise the limit with "
        + python_or_command("max_bytes=8 * 2**30", "--max-file-size 8G")
    )


class _Bounded(io.RawIOBase):
    """A stream that ends in an error at a limit."""

    def __init__(self, source: gzip.GzipFile, where: Path, limit: int) -> None:
        self._source, self._where, self._limit, self._seen = source, where, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._source.read(min(len(buffer), _CHUNK))
        self._seen += len(chunk)
        if self._seen > self._limit:
            raise too_much(self._where, self._limit)
        buffer[: len(chunk)] = chunk
        return len(chunk)


@contextmanager
def open_content(path: Path, error: type[LevywalkError]) -> Iterator[IO[bytes]]:
    """Open a file, gzipped or not, for reading; damaged gzip raises ``error``."""
    limit = most_bytes()
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP or path.suffix.lower() == ".gz"
            raw.seek(0)
            if not packed:
                yield raw
                return
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield io.BufferedReader(_Bounded(unpacked, path, limit), _CHUNK)
    except (EOFError, zlib.error, gzip.BadGzipFile) as cause:
        raise error(f"{path}: damaged or cut off gzip data ({cause}); fetch it again") from None
    except OSError as cause:
        if isinstance(cause, LevywalkError):
            raise
        raise error(f"{path} cannot be read: {cause.strerror or cause}") from None


def read_content(path: Path, error: type[LevywalkError], memory: int = 2) -> bytes:
    """Return a file's bytes, decompressed.

    Parameters
    ----------
    path
        The file.
    error
        The error that damaged gzip or a file that cannot be read raises.
    memory
        How many times the content's size reading it takes, everything included; a content for which
        the available memory is too small is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "zeros.gz"
    ...     _ = path.write_bytes(gzip.compress(bytes(5_000_000)))
    ...     with content_limit(1 << 20):
    ...         read_content(path, InvalidParameter)
    Traceback (most recent call last):
    levywalk.errors.TooLarge: ...: more than 1 MiB after decompression, which is the limit; ...
    """
    room = available_bytes() // memory
    pieces, size = [], 0
    with open_content(path, error) as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > room:
                raise TooLarge(
                    f"{path}: reading more than {room / 2**20:,.0f} MiB takes {memory} times as "
                    "much memory, which is not available; take a smaller file or a larger machine"
                )
            pieces.append(chunk)
    return b"".join(pieces)
