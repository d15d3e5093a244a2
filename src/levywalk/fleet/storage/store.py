"""A node's disk: the state survives a kill or a power cut at any time, and is never half written.

The folder of one node in one run:

===============  ===================================================================================
``state.db``     SQLite: a row for each slot of `Disk` and for each log line, with checksums;
                 SQLite's own ``state.db-wal`` beside it is part of the state
``models/``      models above 64 KiB as safetensors files, each named by the hash of its bytes
``begun``        a mark that the folder was in use: without its database it is damaged, not new
``lock``         locked by the process that runs the node; contains its process id
===============  ===================================================================================

`NodeStore.persist` is one transaction. A model's file is written under another name, synced and
renamed, and its folder is synced, before the transaction that refers to it begins. It is removed
after a transaction that no longer refers to it. So a kill leaves at most files that nothing refers
to, and these are removed when the folder is opened again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.tensors import INLINE, Tensor
from levywalk.fleet.storage.codec import SLOTS, encode
from levywalk.fleet.storage.errors import DiskFull, NodeStoreError, StoreInUse
from levywalk.fleet.storage.failpoints import failpoint
from levywalk.fleet.storage.limits import ANY, Limits
from levywalk.fleet.storage.reader import APPLICATION, NEEDED, SCHEMA, StoredRow, StoreReader
from levywalk.whole_files import sync_folder

_SETTINGS: dict[str, tuple[object, object]] = {  # the wanted value, and how SQLite reports it
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "fullfsync": ("ON", 1),
    "checkpoint_fullfsync": ("ON", 1),
    "locking_mode": ("NORMAL", "normal"),
    "wal_autocheckpoint": (1000, 1000),
    "foreign_keys": ("ON", 1),
    "trusted_schema": ("OFF", 0),
    "cell_size_check": ("ON", 1),
    "temp_store": ("MEMORY", 2),
}
_TABLES = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE slots (name TEXT PRIMARY KEY, value BLOB NOT NULL, models BLOB NOT NULL, sum "
    "BLOB NOT NULL)",
    "CREATE TABLE lines (number INTEGER PRIMARY KEY, value BLOB NOT NULL, models BLOB NOT NULL, "
    "sum BLOB NOT NULL)",
    "CREATE INDEX lines_with_models ON lines (number) WHERE models <> x''",
)
_PUT_SLOT = (
    "INSERT INTO slots VALUES (?, ?, ?, ?) ON CONFLICT (name) "
    "DO UPDATE SET value = excluded.value, models = excluded.models, sum = excluded.sum"
)
_ADD_LINE = "INSERT INTO lines VALUES (?, ?, ?, ?)"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class NodeStore(StoreReader):
    """A node's folder, opened by the one process that runs the node.

    Parameters
    ----------
    folder
        It is created, readable by its owner alone, if it does not exist.
    run
        The run's id; a folder of another run is refused.
    limits
        The sizes that the manifest allows.
    inline
        Models larger than this many bytes are stored in files of their own.

    Examples
    --------
    >>> import tempfile
    >>> from levywalk.fleet.protocol.records import Known, Own
    >>> from levywalk.fleet.protocol.token import FIRST, Epoch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with NodeStore(folder, b"run 1") as store:
    ...         before = store.load()
    ...         store.persist(whole(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})))
    ...         store.persist(Persist({"known": Known(Epoch(1, 7, 3), 41)}, ()))
    ...     with NodeStore(folder, b"run 1") as store:
    ...         before, store.load().known.base
    (None, 41)
    """

    def __init__(
        self,
        folder: str | Path,
        run: bytes,
        *,
        limits: Limits = ANY,
        inline: int = INLINE,
    ) -> None:
        self.inline = inline
        self._lock: IO[bytes] | None = None
        self._sums: dict[str, bytes] = {}  # checksum of each slot's value
        self._used: dict[str, set[bytes]] = {}  # models that each slot refers to
        self._kept: set[bytes] = set()  # models that log lines refer to
        self._there: set[bytes] = set()  # files that are safe on the disk
        self._loose: set[bytes] = set()  # files that may not be needed any more
        self._count = 0
        super().__init__(folder, run, limits=limits)

    def _open(self) -> None:
        try:
            self._make_folders()
            self._lock = _locked(self.folder)
            self._make_database()
            self._check()
            self._check_whole()
            self._settle()
            self._look_for_models()
            self._count = len(self)
        except OSError as error:
            self.close()
            if isinstance(error, NodeStoreError):
                raise
            raise (
                self._full()
                if error.errno in _FULL
                else NodeStoreError(
                    f"{error.filename or self.folder} cannot be used: {error.strerror or error}; "
                    "check the permissions"
                )
            ) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the database and release the lock."""
        super().close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _make_folders(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidParameter(f"folder must be a folder, got the file {str(self.folder)!r}")
        for folder in (self.folder, self.models):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, parents=True)
                sync_folder(folder.parent)

    # A new store

    def _make_database(self) -> None:
        """Open the database, and create its tables in a new folder."""
        begun = self.folder / "begun"
        was_there = self.path.exists() and self.path.stat().st_size > 0
        if not was_there:
            if begun.exists():
                raise self._damaged("is missing or empty, although the folder was in use")
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connect(read_only=False)
        if not begun.exists():
            if self._one("SELECT count(*) FROM sqlite_master") == 0:
                self._make_tables()
            failpoint("create:after")
            self._mark(begun)

    def _make_tables(self) -> None:
        self._settle()
        db = self._open_db
        with _Transaction(self, db, "create"):
            for table in _TABLES:
                db.execute(table)
            db.execute("INSERT INTO about VALUES ('run', ?)", (self.run,))
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _mark(self, begun: Path) -> None:
        """Write the mark that the folder was in use."""
        self._check()
        partial = begun.with_suffix(".partial")
        with partial.open("wb") as file:
            file.write(
                b"This folder is in use: without state.db the node must not start here as "
                b"a new one.\n"
            )
            file.flush()
            os.fsync(file.fileno())
        failpoint("mark:before")
        partial.replace(begun)
        sync_folder(self.folder)
        failpoint("mark:after")

    # An old store

    def _check_whole(self) -> None:
        """Let SQLite check every page, and check the checksum of every slot."""
        found = self._one("PRAGMA quick_check(1)")
        if found != "ok":
            raise self._damaged(f"is damaged ({found})")
        self._note(self._slots(), ())

    def _settle(self) -> None:
        """Set what SQLite needs to be durable, and check that it has accepted it."""
        for name, (wanted, answer) in _SETTINGS.items():
            self._rows(f"PRAGMA {name} = {wanted}")
            found = self._one(f"PRAGMA {name}")
            if found != answer:
                raise NodeStoreError(
                    f"{self.path} needs SQLite with {name} = {wanted}, got {found!r}; "
                    "keep the folder on a local disk, not on a network share"
                )

    def _look_for_models(self) -> None:
        """Check that every model that is referred to exists, and remove files that nothing refers
        to.
        """
        lines = self._rows(
            "SELECT number, value, models, sum FROM lines WHERE models <> x'' ORDER BY number"
        )
        for row in self._sealed("lines", lines):
            self._kept |= row.addresses()
        referred = self._referred()
        for address in sorted(referred):
            if not self._file(address).is_file():
                raise self._bad_model(self._file(address), "is missing")
        names = {self._file(address).name for address in referred}
        for path in sorted(self.models.iterdir()):
            if path.name not in names and path.suffix in (".safetensors", ".partial"):
                _remove(path)
        self._there = referred

    def _referred(self) -> set[bytes]:
        return self._kept.union(*self._used.values())

    # Writing

    def persist(self, change: Persist) -> None:
        """Write slots and lines in one transaction. They are on the disk when this returns.

        A slot that already has this value is not written again, which takes no time.

        After `DiskFull` nothing has changed: persist the same change later, or restart the node
        from `load`. After another `NodeStoreError` the store is closed, because a commit that
        failed may still have happened: open the store and restart the node from `load`. In both
        cases the node must not continue as if the change were made.
        """
        db = self._open_db
        wrong = set(change.slots) - set(SLOTS)
        lacking = set(NEEDED) - set(change.slots) - set(self._used)
        if wrong or lacking:
            what = (
                f"no slot {', '.join(sorted(wrong))}"
                if wrong
                else f"also {', '.join(sorted(lacking))} at first"
            )
            raise InvalidParameter(
                f"persist must write {what}, got {', '.join(change.slots)}; see `whole`"
            )
        try:
            rows = [self._row(name, value) for name, value in change.slots.items()]
            slots = [row for row in rows if row.sum != self._sums.get(str(row.key))]
            lines = [self._row(self._count + 1 + i, line) for i, line in enumerate(change.lines)]
            if not slots and not lines:
                return  # for example after a message that arrived twice
            with _Transaction(self, db, "commit"):
                db.executemany(_PUT_SLOT, slots)
                db.executemany(_ADD_LINE, lines)
        except DiskFull:
            self._forget()
            raise
        except NodeStoreError:
            self.close()
            raise
        failpoint("commit:after")
        self._note(slots, lines)
        self._forget()

    def _note(self, slots: Iterable[StoredRow], lines: Iterable[StoredRow]) -> None:
        """Remember which models are referred to now."""
        for row in slots:
            self._loose |= self._used.get(str(row.key), set())
            self._used[str(row.key)], self._sums[str(row.key)] = row.addresses(), row.sum
        for row in lines:
            self._kept |= row.addresses()
            self._count += 1

    def _row(self, key: str | int, value: object) -> StoredRow:
        """Return the row to store. Its models in files are on the disk afterwards."""
        models: list[bytes] = []

        def put(tensor: Tensor) -> bytes | None:
            if tensor.nbytes <= self.inline:
                return None
            address = tensor.address()
            if address not in self._there:
                self._loose.add(address)
                self._write(address, tensor)
            models.append(address)
            return address

        data = encode(value, put, self.limits.schema)
        return StoredRow.of(key, data, b"".join(models))

    def _write(self, address: bytes, tensor: Tensor) -> None:
        """Write the file of a model; it is safe on the disk when this returns."""
        path = self._file(address)
        partial = path.with_suffix(".partial")
        try:
            number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(number, "wb", buffering=0) as file:
                failpoint("write:before")
                for chunk in tensor.chunks():
                    _write_all(file, chunk)
                failpoint("fsync:before")
                os.fsync(file.fileno())
            failpoint("fsync:after")
            failpoint("rename:before")
            partial.replace(path)
            failpoint("rename:after")
            failpoint("folder:before")
            sync_folder(self.models)
            failpoint("folder:after")
        except OSError as error:
            _remove(partial)
            _remove(path)
            if error.errno in _FULL:
                raise self._full() from None
            raise NodeStoreError(
                f"{path} cannot be written: {error.strerror or error}; check the disk"
            ) from None
        self._there.add(address)

    def _forget(self) -> None:
        """Remove the files of models that nothing refers to any more."""
        if self._loose:
            for address in self._loose - self._referred():
                self._there.discard(address)
                _remove(self._file(address))
            self._loose.clear()


class _Transaction:
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


def whole(disk: Disk) -> Persist:
    """Return the change that writes a whole disk. It is the first change of a new store."""
    return Persist({name: getattr(disk, name) for name in SLOTS}, ())


def _locked(folder: Path) -> IO[bytes]:
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


def _write_all(file: IO[bytes], chunk: bytes | memoryview) -> None:
    left = memoryview(chunk)
    while left:
        left = left[file.write(left) :]


def _remove(path: Path) -> None:
    """Remove a file that nothing refers to.

    If that fails, it is removed when the folder is opened again.
    """
    failpoint("remove:before")
    with suppress(OSError):
        path.unlink()
    failpoint("remove:after")
