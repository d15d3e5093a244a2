"""Read a node's folder: every row has a checksum, and every model is checked against its hash."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from levywalk.arrays import AnyArray
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.records import Archived, Began, Disk, Line
from levywalk.fleet.protocol.tensors import CHUNK, Incoming, Malformed
from levywalk.fleet.storage.codec import SLOTS, decode_line, decode_slot
from levywalk.fleet.storage.errors import DiskFull, NodeStoreError, StoreDamaged, StoreForeign
from levywalk.fleet.storage.limits import ANY, Limits

SCHEMA = 1
APPLICATION = 0x6C77666C  # the application id of our databases
NEEDED = ("known", "own", "edges")
_PAGE = 1000  # lines read at once, so that a reader never blocks the node
# The second bytes of visits and of their metrics, as `codec` numbers them.
_VISIT, _MEASURED = b"\x10", b"\x13"


class StoredRow(NamedTuple):
    """A slot or a log line as it is stored."""

    key: str | int
    value: bytes
    models: bytes  # addresses of the models that are stored in files
    sum: bytes  # checksum of the row; SQLite has none

    @classmethod
    def of(cls, key: str | int, value: bytes, models: bytes) -> StoredRow:
        """Return the row of a value, with its checksum."""
        found = hashlib.blake2b(f"{key}|{len(value)}|".encode(), digest_size=32)
        found.update(value)
        found.update(models)
        return cls(key, value, models, found.digest())

    def addresses(self) -> set[bytes]:
        """Return the addresses of the models that are stored in files."""
        return {self.models[at : at + 32] for at in range(0, len(self.models), 32)}


class StoreReader:
    """Reads a node's folder without a lock, also while the node runs.

    Parameters
    ----------
    folder
        The node's folder.
    run
        The run that it must belong to; None for any.
    limits
        The sizes that the manifest allows.
    """

    def __init__(
        self, folder: str | Path, run: bytes | None = None, *, limits: Limits = ANY
    ) -> None:
        self.folder, self.run, self.limits = Path(folder), run, limits
        self.path, self.models = self.folder / "state.db", self.folder / "models"
        self._db: sqlite3.Connection | None = None
        self._open()

    def _open(self) -> None:
        if not self.path.is_file():
            raise NodeStoreError(
                f"{self.folder} is not a node's folder: {self.path} does not exist"
            )
        self._connect(read_only=True)
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. After that, ``state.db-wal`` is not needed any more."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def load(self) -> Disk | None:
        """Return the node's disk, or None if the node has never been started."""
        for patience in (True, True, False):
            rows = self._slots()
            try:
                return self._disk(rows)
            except StoreDamaged:
                # There is no lock: the node may have replaced a model meanwhile.
                if not patience or rows == self._slots():
                    raise
        raise AssertionError

    def _slots(self) -> list[StoredRow]:
        return self._sealed(
            "slots", self._rows("SELECT name, value, models, sum FROM slots ORDER BY name")
        )

    def _disk(self, rows: Iterable[StoredRow]) -> Disk | None:
        slots: dict[str, Any] = {}
        for row in rows:
            if row.key not in SLOTS:
                raise self._damaged(f"holds a slot {row.key!r}, which does not exist")
            try:
                slots[str(row.key)] = decode_slot(str(row.key), row.value, self.limits, self._model)
            except Malformed as error:
                raise self._damaged(
                    f"cannot be understood in its slot {row.key}: {error}"
                ) from None
        if not slots:
            return None
        missing = [name for name in NEEDED if name not in slots]
        if missing:
            raise self._damaged(f"lacks {', '.join(missing)}")
        return Disk(**slots)

    def lines(self, after: int = 0) -> Iterator[Line]:
        """Yield the lines of the log in order, without the first ``after``."""
        number = after
        while True:
            found = self._rows(
                "SELECT number, value, models, sum FROM lines WHERE number > ? ORDER BY number "
                "LIMIT ?",
                number,
                _PAGE,
            )
            for row in self._sealed("lines", found):
                number += 1
                if row.key != number:
                    raise self._damaged(f"lacks line {number} of its log")
                yield self._line(row)
            if len(found) < _PAGE:
                return

    def without_visits(self) -> Iterator[Archived | Began]:
        """Yield the lines of the log that are not visits, in order.

        Visits, which are most lines, are not read.
        """
        found = self._rows(
            "SELECT number, value, models, sum FROM lines WHERE substr(value, 2, 1) NOT IN (?, ?) "
            "ORDER BY number",
            _VISIT,
            _MEASURED,
        )
        for row in self._sealed("lines", found):
            yield self._line(row)

    def last_measured(self) -> Measured | None:
        """Return the last metrics in the log."""
        found = self._rows(
            "SELECT number, value, models, sum FROM lines WHERE substr(value, 2, 1) = ? "
            "ORDER BY number DESC LIMIT 1",
            _MEASURED,
        )
        lines = [self._line(row) for row in self._sealed("lines", found)]
        return lines[0] if lines else None

    def last_visit(self) -> Visit | None:
        """Return the last line of the log if it is a visit; at the end of the walk it is."""
        found = self._rows(
            "SELECT number, value, models, sum FROM lines ORDER BY number DESC LIMIT 1"
        )
        lines = [self._line(row) for row in self._sealed("lines", found)]
        return lines[0] if lines and isinstance(lines[0], Visit) else None

    def _line(self, row: StoredRow) -> Any:
        try:
            return decode_line(row.value, self.limits, self._model)
        except Malformed as error:
            raise self._damaged(
                f"cannot be understood in line {row.key} of its log: {error}"
            ) from None

    def __len__(self) -> int:
        """Return how many lines the log has."""
        return int(self._rows("SELECT coalesce(max(number), 0) FROM lines")[0][0])

    def _sealed(self, table: str, found: Iterable[tuple[Any, ...]]) -> list[StoredRow]:
        """Return the rows, whose checksums must be right."""
        rows = []
        for row in found:
            key, value, models, _ = row
            if (
                not isinstance(value, bytes)
                or not isinstance(models, bytes)
                or StoredRow.of(key, value, models) != row
            ):
                raise self._damaged(f"has a wrong checksum in {table}, row {key!r}")
            rows.append(StoredRow(*row))
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
            raise NodeStoreError(f"{self.folder} is closed; open it again")
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
        """Check that this is a node's database of the right version and run."""
        if self._one("PRAGMA application_id") != APPLICATION:
            raise StoreForeign(
                f"{self.path} is not a node's database; give the node a folder of its own"
            )
        version = self._one("PRAGMA user_version")
        if version != SCHEMA:
            raise StoreForeign(
                f"{self.path} has schema {version}, and this levywalk writes {SCHEMA}: use the "
                "levywalk that wrote it"
            )
        run = self._one("SELECT value FROM about WHERE name = 'run'")
        if self.run is not None and run != self.run:
            raise StoreForeign(
                f"{self.folder} belongs to the run {run!r}, not to {self.run!r}; give this run's "
                "node another folder"
            )

    def _failed(self, error: sqlite3.Error) -> NodeStoreError:
        """Return our error for an error of SQLite."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return self._full()
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return self._damaged(f"is damaged ({error})")
        return NodeStoreError(
            f"{self.path} cannot be used: {error}; check the disk and the permissions"
        )

    def _full(self) -> DiskFull:
        return DiskFull(
            f"there is no room in {self.folder}; the stored state is not damaged: make room, and "
            "the node continues"
        )

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self.path} {what}; nothing was changed: move {self.folder} away and start the node "
            "again "
            "without its disk (do not use a backup of the folder: it does not contain the later "
            "promises)"
        )

    def _bad_model(self, path: Path, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{path} {what}; nothing was changed: restore this file from a backup or from a "
            "neighbour's "
            f"folder, or move {self.folder} away and start the node again without its disk"
        )

    # Models in files

    def _model(self, name: str, address: bytes) -> AnyArray:
        """Read the file of a model, and check it."""
        path = self._file(address)
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if name == "memory":
                    incoming = Incoming(name, size, self.limits.memory, itemsize=1)
                else:
                    incoming = Incoming(name, size, self.limits.dim, schema=self.limits.schema)
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
