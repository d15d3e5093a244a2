"""One transaction of a node's database, and the lock of its folder."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from levywalk.fleet.storage.errors import StoreInUse
from levywalk.fleet.storage.failpoints import failpoint
from levywalk.fleet.storage.reader import StoreReader


class Transaction:
    """All or nothing: commits at the end, rolls back on any error,
    and translates SQLite's errors.
    """

    def __init__(self, store: StoreReader, db: sqlite3.Connection, failpoints: str) -> None:
        self.store, self.db, self.failpoints = store, db, failpoints

    def __enter__(self) -> None:
        try:
            self.db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise self.store._failed(error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                failpoint(f"{self.failpoints}:before")
                self.db.execute("COMMIT")
                return
        except sqlite3.Error as failure:
            error = failure
        with suppress(sqlite3.Error):
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise self.store._failed(error) from None


def file_identity(path: str | Path) -> tuple[int, int]:
    """Return what distinguishes a file from all others, or nothing if it does not exist."""
    try:
        about = os.stat(path)  # noqa: PTH116 (of a string, which is quick: before every write)
    except OSError:
        return 0, 0
    return about.st_dev, about.st_ino


def locked_file(folder: Path) -> IO[bytes]:
    """Return the lock file, open and locked.

    It is never removed, since a lock on a removed file would have no effect.
    """
    lock = os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    for pause in (
        0.02,
        0.05,
        0.1,
    ):  # another process may test the lock just now, to see whether this node runs
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(pause)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        who = lock.read(20).decode(errors="replace").strip()
        lock.close()
        raise StoreInUse(
            f"{folder} is in use by process {who or 'unknown'}; stop it, or give this node a "
            "folder of its own"
        ) from None
    lock.truncate(0)
    lock.seek(0)
    lock.write(b"%d\n" % os.getpid())
    lock.flush()
    return lock
