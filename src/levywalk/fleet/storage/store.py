"""A node's disk: what it must not forget survives a kill and a power cut at any time, and is never half there.

A folder of one node in one run:

=====================  ==============================================================================================
``state.db``           SQLite: a row for each slot of `Disk`, the log's lines, each with a checksum; beside it lies
                       SQLite's own ``state.db-wal``, which is part of the state
``models/``            models above 64 KiB as safetensors files, each named by the hash of its bytes
``begun``              the mark that there was a state: without its database such a folder is damaged, not new
``lock``               locked by the process that runs the node, whose number is inside
=====================  ==============================================================================================

`Store.persist` is one transaction. A model's file is written beside, synced, named, and its folder synced before the
transaction that refers to it begins; it is removed after a transaction that no longer does. So a kill leaves at most
files that nothing refers to, and these go when the folder is opened again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from levywalk.arrays import Floats
from levywalk.durable import sync_folder
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Archived, Began, Disk, Line
from levywalk.fleet.protocol.tensors import CHUNK, INLINE, Incoming, Malformed, Tensor
from levywalk.fleet.storage.codec import ANY, SLOTS, Limits, decode_line, decode_slot, encode
from levywalk.fleet.storage.failpoints import failpoint

SCHEMA = 1
_APPLICATION = 0x6C77666C  # marks a database of ours, for `file` and for us
_NEEDED = ("known", "own", "edges")
_PAGE = 1000  # lines read at once: another process's reading never holds up the node
_SETTINGS: dict[str, tuple[object, object]] = {  # what is asked for, and what SQLite then says
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
    "CREATE TABLE slots (name TEXT PRIMARY KEY, value BLOB NOT NULL, models BLOB NOT NULL, sum BLOB NOT NULL)",
    "CREATE TABLE lines (number INTEGER PRIMARY KEY, value BLOB NOT NULL, models BLOB NOT NULL, sum BLOB NOT NULL)",
    "CREATE INDEX lines_with_models ON lines (number) WHERE models <> x''",
)
_PUT_SLOT = (
    "INSERT INTO slots VALUES (?, ?, ?, ?) ON CONFLICT (name) "
    "DO UPDATE SET value = excluded.value, models = excluded.models, sum = excluded.sum"
)
_ADD_LINE = "INSERT INTO lines VALUES (?, ?, ?, ?)"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_VISIT = b"\x10"  # the second byte of a visit, as `codec` numbers it


class StoreError(LevywalkError, OSError):
    """A node's folder cannot be read or written."""


class StoreInUse(StoreError):
    """Another process runs the node of that folder."""


class StoreForeign(StoreError):
    """The folder is of another run, or of a newer levywalk."""


class StoreDamaged(StoreError):
    """Something in the folder is not as it was written. Nothing was changed."""


class DiskFull(StoreError):
    """There was no room. The store holds what it held before, and can be used: make room and persist the same again."""


class _Row(NamedTuple):
    """A slot or a line as it is stored."""

    key: str | int
    value: bytes
    models: bytes  # the addresses of models that lie in files
    sum: bytes  # a checksum over all of it; SQLite has none

    @classmethod
    def of(cls, key: str | int, value: bytes, models: bytes) -> _Row:
        found = hashlib.blake2b(f"{key}|{len(value)}|".encode(), digest_size=32)
        found.update(value)
        found.update(models)
        return cls(key, value, models, found.digest())

    def addresses(self) -> set[bytes]:
        return {self.models[at : at + 32] for at in range(0, len(self.models), 32)}


class Reading:
    """A node's folder, read without a lock, also while the node runs.

    Parameters
    ----------
    folder
        The node's folder.
    run
        The run that it must be of; None for any.
    limits
        What the manifest says about sizes.
    """

    def __init__(self, folder: str | Path, run: bytes | None = None, *, limits: Limits = ANY) -> None:
        self.folder, self.run, self.limits = Path(folder), run, limits
        self.path, self.models = self.folder / "state.db", self.folder / "models"
        self._db: sqlite3.Connection | None = None
        self._open()

    def _open(self) -> None:
        if not self.path.is_file():
            raise StoreError(f"{self.folder} is no node's folder: {self.path} does not exist")
        self._connect(read_only=True)
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; a store that is closed is whole without ``state.db-wal``."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def load(self) -> Disk | None:
        """Return what the node must not forget, or None if it has not begun."""
        for patience in (True, True, False):
            rows = self._slots()
            try:
                return self._disk(rows)
            except StoreDamaged:
                # Without a lock, the node may have replaced and removed a model between two lines.
                if not patience or rows == self._slots():
                    raise
        raise AssertionError

    def _slots(self) -> list[_Row]:
        return self._sealed("slots", self._rows("SELECT name, value, models, sum FROM slots ORDER BY name"))

    def _disk(self, rows: Iterable[_Row]) -> Disk | None:
        slots: dict[str, Any] = {}
        for row in rows:
            if row.key not in SLOTS:
                raise self._damaged(f"holds a slot {row.key!r}, which does not exist")
            try:
                slots[str(row.key)] = decode_slot(str(row.key), row.value, self.limits, self._model)
            except Malformed as error:
                raise self._damaged(f"cannot be understood in its slot {row.key}: {error}") from None
        if not slots:
            return None
        missing = [name for name in _NEEDED if name not in slots]
        if missing:
            raise self._damaged(f"lacks {', '.join(missing)}")
        return Disk(**slots)

    def lines(self, after: int = 0) -> Iterator[Line]:
        """Yield the log's lines in order, without the first ``after``."""
        number = after
        while True:
            found = self._rows(
                "SELECT number, value, models, sum FROM lines WHERE number > ? ORDER BY number LIMIT ?", number, _PAGE
            )
            for row in self._sealed("lines", found):
                number += 1
                if row.key != number:
                    raise self._damaged(f"lacks line {number} of its log")
                yield self._line(row)
            if len(found) < _PAGE:
                return

    def without_visits(self) -> Iterator[Archived | Began]:
        """Yield the log's few lines that are no visits, in order; most lines are not even read."""
        found = self._rows(
            "SELECT number, value, models, sum FROM lines WHERE substr(value, 2, 1) <> ? ORDER BY number", _VISIT
        )
        for row in self._sealed("lines", found):
            yield self._line(row)

    def last_visit(self) -> Visit | None:
        """Return the log's last line, if it is a visit: at the end of the walk its last one."""
        found = self._rows("SELECT number, value, models, sum FROM lines ORDER BY number DESC LIMIT 1")
        lines = [self._line(row) for row in self._sealed("lines", found)]
        return lines[0] if lines and isinstance(lines[0], Visit) else None

    def _line(self, row: _Row) -> Any:
        try:
            return decode_line(row.value, self.limits, self._model)
        except Malformed as error:
            raise self._damaged(f"cannot be understood in line {row.key} of its log: {error}") from None

    def __len__(self) -> int:
        """Return how many lines the log has."""
        return int(self._rows("SELECT coalesce(max(number), 0) FROM lines")[0][0])

    def _sealed(self, table: str, found: Iterable[tuple[Any, ...]]) -> list[_Row]:
        """Return rows whose checksums are right."""
        rows = []
        for row in found:
            key, value, models, _ = row
            if not isinstance(value, bytes) or not isinstance(models, bytes) or _Row.of(key, value, models) != row:
                raise self._damaged(f"has a wrong checksum in {table}, row {key!r}")
            rows.append(_Row(*row))
        return rows

    # The database

    def _connect(self, *, read_only: bool) -> None:
        mode = "ro" if read_only else "rw"
        try:
            self._db = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=10.0,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise self._failed(error) from None

    @property
    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise StoreError(f"{self.folder} is closed; open it again")
        return self._db

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        db = self._open_db
        try:
            return db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def _one(self, statement: str) -> Any:
        rows = self._rows(statement)
        return rows[0][0] if rows else None

    def _check(self) -> None:
        """Look whether this is a node's database, whole, and of this run."""
        if self._one("PRAGMA application_id") != _APPLICATION:
            raise StoreForeign(f"{self.path} is not a node's database; give the node a folder of its own")
        version = self._one("PRAGMA user_version")
        if version != SCHEMA:
            raise StoreForeign(
                f"{self.path} has schema {version}, and this levywalk writes {SCHEMA}: use the levywalk that wrote it"
            )
        run = self._one("SELECT value FROM about WHERE name = 'run'")
        if self.run is not None and run != self.run:
            raise StoreForeign(
                f"{self.folder} belongs to the run {run!r}, not to {self.run!r}; give this run's node another folder"
            )

    def _failed(self, error: sqlite3.Error) -> StoreError:
        """Return our word for SQLite's."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return self._full()
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return self._damaged(f"is damaged ({error})")
        return StoreError(f"{self.path} cannot be used: {error}; check the disk and the permissions")

    def _full(self) -> DiskFull:
        return DiskFull(
            f"there is no room in {self.folder}; what it holds is unharmed: make room, and the node can go on"
        )

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self.path} {what}; everything is left as it is: move {self.folder} away and let the node come back "
            "without its disk (an older copy of the folder must not be used: it does not know what was promised since)"
        )

    def _bad_model(self, path: Path, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{path} {what}; everything is left as it is: put back a copy of this file, from a backup or a neighbour's "
            f"folder, or move {self.folder} away and let the node come back without its disk"
        )

    # Models in files

    def _model(self, name: str, address: bytes) -> Floats:
        """Read a model's file, which is checked on the way."""
        path = self._file(address)
        try:
            with path.open("rb") as file:
                incoming = Incoming(name, os.fstat(file.fileno()).st_size, self.limits.dim)
                while chunk := file.read(CHUNK):
                    incoming.take(chunk)
                return incoming.done(address)
        except FileNotFoundError:
            raise self._bad_model(path, "is missing") from None
        except OSError as error:
            raise self._bad_model(path, f"cannot be read: {error.strerror or error}") from None
        except Malformed as error:
            raise self._bad_model(path, f"is damaged: {error}") from None

    def _file(self, address: bytes) -> Path:
        return self.models / f"{address.hex()}.safetensors"


class Store(Reading):
    """A node's folder, for the one process that runs the node.

    Parameters
    ----------
    folder
        Made, readable by the owner alone, if it does not exist.
    run
        The run's id; a folder of another run is refused.
    limits
        What the manifest says about sizes.
    inline
        Bytes of a model above which it is a file of its own.

    Examples
    --------
    >>> import tempfile
    >>> from levywalk.fleet.protocol.records import Known, Own
    >>> from levywalk.fleet.protocol.token import FIRST, Epoch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(folder, b"run 1") as store:
    ...         before = store.load()
    ...         store.persist(whole(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})))
    ...         store.persist(Persist({"known": Known(Epoch(1, 7, 3), 41)}, ()))
    ...     with Store(folder, b"run 1") as store:
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
        self._sums: dict[str, bytes] = {}  # the checksum of what a slot holds
        self._used: dict[str, set[bytes]] = {}  # which models a slot refers to
        self._kept: set[bytes] = set()  # which models lines refer to
        self._there: set[bytes] = set()  # which files are on the disk to stay
        self._loose: set[bytes] = set()  # which files perhaps nothing refers to
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
            if isinstance(error, StoreError):
                raise
            raise (
                self._full()
                if error.errno in _FULL
                else StoreError(
                    f"{error.filename or self.folder} cannot be used: {error.strerror or error}; check the permissions"
                )
            ) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the database and let go of the folder."""
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
        """Open the database, and make its tables if nothing was ever kept here."""
        begun = self.folder / "begun"
        was_there = self.path.exists() and self.path.stat().st_size > 0
        if not was_there:
            if begun.exists():
                raise self._damaged("is gone or empty, though the node had begun")
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
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _mark(self, begun: Path) -> None:
        """Leave the mark that there was a state."""
        self._check()
        partial = begun.with_suffix(".partial")
        with partial.open("wb") as file:
            file.write(b"This node has begun: without state.db it must not begin anew in this folder.\n")
            file.flush()
            os.fsync(file.fileno())
        failpoint("mark:before")
        partial.replace(begun)
        sync_folder(self.folder)
        failpoint("mark:after")

    # An old store

    def _check_whole(self) -> None:
        """Let SQLite look at every page, and look at every slot's checksum."""
        found = self._one("PRAGMA quick_check(1)")
        if found != "ok":
            raise self._damaged(f"is damaged ({found})")
        self._note(self._slots(), ())

    def _settle(self) -> None:
        """Ask SQLite for what durability needs, and look whether it agrees."""
        for name, (wanted, answer) in _SETTINGS.items():
            self._rows(f"PRAGMA {name} = {wanted}")
            found = self._one(f"PRAGMA {name}")
            if found != answer:
                raise StoreError(
                    f"{self.path} needs SQLite with {name} = {wanted}, got {found!r}; "
                    "keep the folder on a local disk, not on a network share"
                )

    def _look_for_models(self) -> None:
        """Look whether every model that is referred to is there, and remove the files that nothing refers to."""
        lines = self._rows("SELECT number, value, models, sum FROM lines WHERE models <> x'' ORDER BY number")
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
        """Write slots and lines in one transaction; when this returns, they are on the disk.

        What a slot holds already is not written again, and costs no wait for the disk.

        After `DiskFull` nothing has changed: the same change can be persisted later, or the node begun again from
        `load`. After another `StoreError` the store is closed, since a commit that failed may yet be found done:
        open it and begin again from `load`. In neither case may the node go on as if the change had been made.
        """
        db = self._open_db
        wrong = set(change.slots) - set(SLOTS)
        lacking = set(_NEEDED) - set(change.slots) - set(self._used)
        if wrong or lacking:
            what = f"no slot {', '.join(sorted(wrong))}" if wrong else f"also {', '.join(sorted(lacking))} at first"
            raise InvalidParameter(f"persist must write {what}, got {', '.join(change.slots)}; see `whole`")
        try:
            rows = [self._row(name, value) for name, value in change.slots.items()]
            slots = [row for row in rows if row.sum != self._sums.get(str(row.key))]
            lines = [self._row(self._count + 1 + i, line) for i, line in enumerate(change.lines)]
            if not slots and not lines:
                return  # as after a message that came twice
            with _Transaction(self, db, "commit"):
                db.executemany(_PUT_SLOT, slots)
                db.executemany(_ADD_LINE, lines)
        except DiskFull:
            self._forget()
            raise
        except StoreError:
            self.close()
            raise
        failpoint("commit:after")
        self._note(slots, lines)
        self._forget()

    def _note(self, slots: Iterable[_Row], lines: Iterable[_Row]) -> None:
        """Remember which models are referred to now."""
        for row in slots:
            self._loose |= self._used.get(str(row.key), set())
            self._used[str(row.key)], self._sums[str(row.key)] = row.addresses(), row.sum
        for row in lines:
            self._kept |= row.addresses()
            self._count += 1

    def _row(self, key: str | int, value: object) -> _Row:
        """Return what is to be stored; its models in files are on the disk then."""
        models: list[bytes] = []

        def put(tensor: Tensor) -> bytes | None:
            if tensor.array.nbytes <= self.inline:
                return None
            address = tensor.address()
            if address not in self._there:
                self._loose.add(address)
                self._write(address, tensor)
            models.append(address)
            return address

        data = encode(value, put)
        return _Row.of(key, data, b"".join(models))

    def _write(self, address: bytes, tensor: Tensor) -> None:
        """Write a model's file, and return when it is there to stay."""
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
            raise StoreError(f"{path} cannot be written: {error.strerror or error}; check the disk") from None
        self._there.add(address)

    def _forget(self) -> None:
        """Remove the files of models that nothing refers to any more."""
        if self._loose:
            for address in self._loose - self._referred():
                self._there.discard(address)
                _remove(self._file(address))
            self._loose.clear()


class _Transaction:
    """All or nothing: commits at the end, rolls back on any error, and translates SQLite's errors."""

    def __init__(self, store: Reading, db: sqlite3.Connection, failpoints: str) -> None:
        self.store, self.db, self.failpoints = store, db, failpoints

    def __enter__(self) -> None:
        try:
            self.db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise self.store._failed(error) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
    """Return the change that writes all of a disk: the first one of a new store."""
    return Persist({name: getattr(disk, name) for name in SLOTS}, ())


def fsync_seconds(folder: str | Path, times: int = 50) -> float:
    """Return how long the disk takes to keep a page for good, the median: no hand-off is faster.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     0 < fsync_seconds(folder, times=3) < 10
    True
    """
    path = Path(folder) / f"fsync-{os.getpid()}.partial"
    taken = []
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(times):
                file.write(bytes(4096))
                began = time.perf_counter()
                os.fsync(file.fileno())
                taken.append(time.perf_counter() - began)
    finally:
        path.unlink(missing_ok=True)
    return median(taken)


def _locked(folder: Path) -> IO[bytes]:
    """Return the open lock file of the folder. It is never removed: a lock on a removed file keeps nobody away."""
    lock = os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    for pause in (0.02, 0.05, 0.1):  # somebody may be looking whether this node runs
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
            f"{folder} is in use by process {who or 'unknown'}; stop it, or give this node a folder of its own"
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
    """Remove a file that nothing refers to; one that stays is removed when the folder is opened again."""
    failpoint("remove:before")
    with suppress(OSError):
        path.unlink()
    failpoint("remove:after")
