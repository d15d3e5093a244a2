"""Write files so that they survive a power failure."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that the name of a new file in it survives a power failure.

    Examples
    --------
    >>> sync_folder(Path())
    """
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write or replace a file atomically.

    A reader sees either the old or the new content, even after a power failure.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(number)
        beside.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
