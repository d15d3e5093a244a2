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
to, and these are removed when the folder is opened again. Writing is one class, whose methods share
the open database and what is known of its files; reading is in `reader`.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.tensors import INLINE, Tensor
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.storage.codec import SLOTS, encode
from levywalk.fleet.storage.errors import DiskFull, NodeStoreError, StoreRemoved
from levywalk.fleet.storage.failpoints import failpoint
from levywalk.fleet.storage.field_kinds import Encodings
from levywalk.fleet.storage.limits import ANY, Limits
from levywalk.fleet.storage.reader import NEEDED, NO_DESCRIPTORS, StoreReader
from levywalk.fleet.storage.rows import StoredRow
from levywalk.fleet.storage.schema import (
    ADD_LINE,
    APPLICATION,
    INDEX,
    MARKS,
    MEASURES,
    MEASURES_INDEX,
    NOT_VISITS,
    OLDER,
    PUT_SLOT,
    SCHEMA,
    SETTINGS,
    TABLES,
)
from levywalk.fleet.storage.transaction import Transaction, file_identity, locked_file
from levywalk.whole_files import sync_folder

_MARK_EVERY = 3600.0  # seconds between two notes of how far the log was when
_PRUNED_AT_ONCE = 20_000  # lines, so that the node does not wait for long
_PAGE, _PAGES = 4096, 3  # bytes of a page, and how many pages a small transaction writes
_LONG_LOG = 200  # pages in SQLite's log: it is emptied
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
        self._written: tuple[list[StoredRow], list[StoredRow]] = ([], [])  # not noted yet
        self._logged = 0  # pages in SQLite's log, about
        self._marked_at = float("-inf")
        self._files: dict[str, tuple[int, int]] = {}  # those that must stay where they are
        self._recent: Encodings = {}  # of tokens and certificates, most of which are written again
        super().__init__(folder, run, limits=limits)

    def _open(self) -> None:
        try:
            self._make_folders()
            self._lock = locked_file(self.folder)
            self._make_database()
            self._check()
            self._check_slots()
            self._settle()
            self._upgrade()
            self._look_for_models()
            self._count = len(self)
            stay = (str(self.path), str(self.folder / "lock"))
            self._files = {path: file_identity(path) for path in stay}
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
        with Transaction(self, db, "create"):
            for table in (*TABLES, INDEX, MEASURES_INDEX, MARKS):
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

    def _check_slots(self) -> None:
        """Let SQLite check the pages of the slots, and check the checksum of every slot.

        The log, which may be long, is not read: `fleet doctor --scrub` does that.
        """
        for table in ("about", "slots"):
            found = self._one(f"PRAGMA quick_check({table})")
            if found != "ok":
                raise self._damaged(f"is damaged ({found})")
        self._note(self._slots(), ())

    def _upgrade(self) -> None:
        """Bring a database of an older schema up to date; its lines stay as they are."""
        version = self._one("PRAGMA user_version")
        measured = self._one("SELECT count(*) FROM sqlite_master WHERE name = 'lines_measured'")
        if version in OLDER or not measured:
            db = self._open_db
            with Transaction(self, db, "create"):
                if version == 1:
                    db.execute(INDEX)
                    db.execute(MARKS)
                db.execute(MEASURES_INDEX)
                db.execute(f"PRAGMA user_version = {SCHEMA}")
        for which in (NOT_VISITS, MEASURES):  # reads the indexes, so that damage is noticed now
            self._one(f"SELECT count(*) FROM lines WHERE {which}")
        last = self._one("SELECT (SELECT time FROM marks ORDER BY number DESC LIMIT 1)")
        self._marked_at = float("-inf") if last is None else float(last)

    def _settle(self) -> None:
        """Set what SQLite needs to be durable, and check that it has accepted it."""
        for name, (wanted, answer) in SETTINGS.items():
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
        self._kept = self._models_in_lines()
        referred = self._referred()
        for address in sorted(referred):
            if not self._file(address).is_file():
                raise self._bad_model(self._file(address), "is missing")
        names = {self._file(address).name for address in referred}
        for path in sorted(self.models.iterdir()):
            if path.name not in names and path.suffix in (".safetensors", ".partial"):
                _remove(path)
        self._there = referred

    def _models_in_lines(self) -> set[bytes]:
        lines = self._rows(
            "SELECT number, value, models, sum FROM lines WHERE models <> x'' ORDER BY number"
        )
        found: set[bytes] = set()
        return found.union(*(row.addresses() for row in self._sealed("lines", lines)))

    def _referred(self) -> set[bytes]:
        return self._kept.union(*self._used.values())

    # Writing

    def check_there(self) -> None:
        """Raise `StoreRemoved` if the folder was removed or replaced.

        The operating system keeps the open files, so that writing would succeed, into files that
        nobody can find any more.
        """
        for path in self._files:
            self._check_file(path)

    def _check_file(self, path: str) -> None:
        if file_identity(path) != self._files[path]:
            raise StoreRemoved(
                f"{self.folder} was removed or replaced while the node ran ({Path(path).name} is "
                "not there any more): the node stops. What it held and guarded is lost, unless "
                "you put the folder back where it was and start the node again; without it the "
                "node starts as a new one, as after a lost disk"
            )

    def persist(self, change: Persist, *, tidy: bool = True) -> None:
        """Write slots and lines in one transaction. They are on the disk when this returns.

        A slot that already has this value is not written again, which takes no time. Without
        ``tidy`` files that are not needed any more stay until `tidy`, or the next change.

        After `DiskFull` nothing has changed: persist the same change later, or restart the node
        from `load`. After another `NodeStoreError` the store is closed, because a commit that
        failed may still have happened: open the store and restart the node from `load`. In both
        cases the node must not continue as if the change were made.
        """
        db = self._open_db
        self.tidy()
        wrong = change.slots.keys() - SLOTS.keys()
        lacking = () if self._used else set(NEEDED) - change.slots.keys()
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
            self._check_file(str(self.path))
            rows = [self._row(name, value) for name, value in change.slots.items()]
            slots = [row for row in rows if row.sum != self._sums.get(str(row.key))]
            lines = [self._row(self._count + 1 + i, line) for i, line in enumerate(change.lines)]
            if not slots and not lines:
                return  # for example after a message that arrived twice
            with Transaction(self, db, "commit"):
                db.executemany(PUT_SLOT, slots)
                if lines:
                    db.executemany(ADD_LINE, lines)
                now = time.time()
                if lines and not self._marked_at <= now <= self._marked_at + _MARK_EVERY:
                    self._marked_at = now  # an hour later, or the clock was set back
                    mark = (self._count + len(lines), self._marked_at)
                    db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", mark)
        except DiskFull:
            self._forget()
            raise
        except NodeStoreError:
            self.close()
            raise
        failpoint("commit:after")
        self._written = slots, lines
        if tidy:
            self.tidy()

    def tidy(self) -> None:
        """Note what the last change has written, and remove the files of models that nothing refers
        to any more.
        """
        if self._written[0] or self._written[1]:
            (slots, lines), self._written = self._written, ([], [])
            self._note(slots, lines)
            self._forget()
            self._logged += _PAGES + sum(len(row.value) for row in (*slots, *lines)) // _PAGE
            if self._logged >= _LONG_LOG:
                self._empty_log()

    def _empty_log(self) -> None:
        """Let SQLite move the contents of its log into the database, and begin the log again.

        A log that is overwritten is synced almost twice as fast as one that grows, so it is kept
        short. Emptying it takes two syncs, which nobody waits for here: messages have been sent.
        What fails now, on a full disk or while the file is read, is done later.
        """
        self._logged = 0
        with suppress(sqlite3.Error):
            self._open_db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def encode_ahead(self, *tokens: Token) -> None:
        """Encode small tokens that will probably be written soon, while nobody waits for that."""
        for token in tokens:
            if max(token.model.nbytes, token.memory.nbytes) <= self.inline:
                encode(token, schema=self.limits.schema, recent=self._recent)

    def prune(self, *, keep_bytes: int | None = None, older_than: float | None = None) -> int:
        """Remove the oldest visits from the log; return how many.

        At most some 20,000 go at once: call it again until it returns 0. Archived tokens and
        beginnings of epochs stay, and the last line always does. The room is used again by later
        lines.

        Parameters
        ----------
        keep_bytes
            About how much of the log stays.
        older_than
            Seconds: visits that were made earlier go. (When, is noted once an hour.)
        """
        db, low = self._open_db, 0
        self.tidy()
        if keep_bytes is not None:
            sizes = self._rows(
                "SELECT avg(length(value) + length(models) + length(sum) + 8) FROM (SELECT * FROM "
                f"lines WHERE NOT ({NOT_VISITS}) ORDER BY number DESC LIMIT 1000)"
            )
            low = max(low, self._count - int(keep_bytes / (sizes[0][0] or 1)))
        if older_than is not None:
            low = max(low, self._number_before(time.time(), older_than))
        first, low = self.pruned, min(low, self._count - 1)
        low = min(low, first + _PRUNED_AT_ONCE)
        if low <= first:
            return 0
        try:
            with Transaction(self, db, "commit"):
                gone = db.execute(
                    f"DELETE FROM lines WHERE number > ? AND number <= ? AND NOT ({NOT_VISITS})",
                    (first, low),
                ).rowcount
                db.execute("INSERT OR REPLACE INTO about VALUES ('pruned', ?)", (b"%d" % low,))
                db.execute("DELETE FROM marks WHERE number < ?", (low,))
        except NodeStoreError as error:
            if not isinstance(error, DiskFull):
                self.close()
            raise
        self._loose |= self._kept
        self._kept = self._models_in_lines()
        self._forget()
        return max(1, gone)

    def _number_before(self, now: float, seconds: float) -> int:
        """Return the last line that was certainly written so long ago, 0 if there is none.

        The clock may have been set: a line with an old time that comes after one with a recent
        time is not old, and a time in the future says nothing.
        """
        found = self._rows(
            "SELECT max(number) FROM marks WHERE time < ? AND number < coalesce("
            "(SELECT min(number) FROM marks WHERE time BETWEEN ? AND ?), number + 1)",
            *(now - seconds, now - seconds, now),
        )
        return found[0][0] or 0

    def _note(self, slots: Iterable[StoredRow], lines: Iterable[StoredRow]) -> None:
        """Remember which models are referred to now."""
        for row in slots:
            name = str(row.key)
            self._loose.update(self._used.get(name, ()))
            self._used[name], self._sums[name] = row.addresses(), row.sum
        for row in lines:
            self._kept.update(row.addresses())
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

        data = encode(value, put, self.limits.schema, self._recent)
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
            if error.errno in NO_DESCRIPTORS:
                raise self._no_descriptors() from None
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


def whole(disk: Disk) -> Persist:
    """Return the change that writes a whole disk. It is the first change of a new store."""
    slots = {name: getattr(disk, name) for name in SLOTS}
    for name in ("memory", "spent", "refusals", "given", "checkpoints"):
        if slots[name] is None:
            del slots[name]  # most fleets have none
    return Persist(slots, ())


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
