"""Read a node's folder: every row has a checksum, and every model is checked against its hash."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from levywalk.arrays import AnyArray
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.records import (
    Archived,
    Began,
    BudgetSpent,
    Disk,
    HeldStatus,
    Line,
    NewGeneration,
)
from levywalk.fleet.protocol.tensors import CHUNK, Incoming, Malformed
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.storage.codec import SLOTS, decode_line, decode_slot
from levywalk.fleet.storage.errors import (
    DiskFull,
    NoDescriptors,
    NodeStoreError,
    StoreDamaged,
    StoreForeign,
)
from levywalk.fleet.storage.limits import ANY, Limits
from levywalk.fleet.storage.rows import REMEDY, SHORT_SUM, LogDamage, StoredRow, note_damage
from levywalk.fleet.storage.schema import APPLICATION, MEASURES, NOT_VISITS, OLDER, SCHEMA

NEEDED = ("known", "own", "edges")
OtherLine = Archived | Began | NewGeneration | BudgetSpent  # lines of a log that are not visits
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_PAGE = 1000  # lines read at once, so that a reader never blocks the node
_TRIES = 10_000  # lines of a damaged page that are skipped one by one


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
        held = slots.get("held")
        if (
            held is not None
            and held.status == HeldStatus.SEEKING
            and not held.parent < held.token.epoch
        ):
            raise self._damaged(
                f"holds a model of epoch {tuple(held.token.epoch)} that was restored from epoch "
                f"{tuple(held.parent)}, which is no earlier one"
            )
        missing = [name for name in NEEDED if name not in slots]
        if missing:
            raise self._damaged(f"lacks {', '.join(missing)}")
        return Disk(**slots)

    def lines(self, after: int = 0, damage: list[LogDamage] | None = None) -> Iterator[Line]:
        """Yield the lines of the log in order, without the first ``after``.

        Parameters
        ----------
        damage
            Where lines that cannot be read are noted, and left out. None: they are an error.
        """
        return (line for _, line in self.numbered(after, damage))

    def numbered(
        self, after: int = 0, damage: list[LogDamage] | None = None
    ) -> Iterator[tuple[int, Line]]:
        """Yield the lines of the log with their numbers: see `lines`."""
        number, size, tries, pruned = after, _PAGE, 0, self.pruned
        while True:
            try:
                found = self._rows(
                    "SELECT number, value, models, sum FROM lines WHERE number > ? ORDER BY number "
                    "LIMIT ?",
                    number,
                    size,
                )
                rows = self._sealed("lines", found) if damage is None else found
            except StoreDamaged as error:  # a page of SQLite: go on behind it
                if damage is None or (size == 1 and tries == _TRIES):
                    raise
                if size == 1:
                    tries, number = tries + 1, number + 1
                    note_damage(damage, number, number, str(error))
                size = max(1, size // 10)
                continue
            for row in rows:
                number = max(number, min(pruned, row[0] - 1))
                if row[0] != number + 1:
                    if damage is None:
                        raise self._damaged(f"lacks line {number + 1} of its log")
                    note_damage(damage, number + 1, row[0] - 1, "missing")
                number = row[0]
                line = self._read(row, damage)
                if line is not None:
                    yield number, line
            if len(found) < size:
                return
            size = _PAGE

    def without_visits(self, damage: list[LogDamage] | None = None) -> Iterator[OtherLine]:
        """Yield the lines of the log that are not visits, in order.

        Visits, which are most lines, are not read. For ``damage`` see `lines`.
        """
        return (line for _, line in self._others(damage))

    def _others(self, damage: list[LogDamage] | None) -> Iterator[tuple[int, OtherLine]]:
        found = self._rows(
            f"SELECT number, value, models, sum FROM lines WHERE {NOT_VISITS} ORDER BY number"
        )
        for row in found:
            line = self._read(row, damage)
            if isinstance(line, OtherLine):
                yield row[0], line

    def _read(self, row: tuple[Any, ...], damage: list[LogDamage] | None) -> Line | None:
        """Return the line of a row; None, and a note, if it is damaged."""
        try:
            (whole,) = self._sealed("lines", [row])
            return cast(Line, self._line(whole))
        except StoreDamaged as error:
            if damage is None:
                raise
            note_damage(damage, row[0], row[0], str(error))
            return None

    def continued(self, node: int) -> Iterator[Epoch]:
        """Yield the epochs that this node ended as the holder, by continuing in a new one: the line
        before the new one's beginning is a visit of the same hand-off.
        """
        damage: list[LogDamage] = []
        for number, line in self._others(damage):
            if not isinstance(line, Began) or line.epoch.node != node:
                continue
            before = self._rows(
                "SELECT number, value, models, sum FROM lines WHERE number < ? ORDER BY number "
                "DESC LIMIT 1",
                number,
            )
            last = self._read(before[0], damage) if before else None
            if isinstance(last, Visit) and (last.token_epoch, last.transfers) == (
                line.parent,
                line.epoch.seq,
            ):
                yield line.parent

    def with_models(self, damage: list[LogDamage]) -> Iterator[tuple[int, Line]]:
        """Yield the lines that contain a model, with their numbers: archived tokens, and the last
        visit whose model was recorded. For ``damage`` see `lines`.
        """
        for number, other in self._others(damage):
            if isinstance(other, Archived):
                yield number, other
        number = len(self) + 1
        for _ in range(_PAGE):
            rows = self._rows(
                "SELECT number, value, models, sum FROM lines WHERE number < ? ORDER BY number "
                "DESC LIMIT ?",
                number,
                _PAGE,
            )
            for row in rows:
                number = row[0]
                line = self._read(row, damage)
                if isinstance(line, Visit) and line.model is not None:
                    yield number, line
                    return
            if not rows:
                return

    def last_measured(self) -> Measured | None:
        """Return the last metrics in the log."""
        found = self._rows(
            f"SELECT number, value, models, sum FROM lines WHERE {MEASURES} "
            "ORDER BY number DESC LIMIT 1"
        )
        lines = [self._line(row) for row in self._sealed("lines", found)]
        return lines[0] if lines else None

    def last_visit(self, damage: list[LogDamage] | None = None) -> Visit | None:
        """Return the last line of the log if it is a visit; at the end of the walk it is."""
        found = list(self.lines(len(self) - 1, damage))
        return found[0] if found and isinstance(found[0], Visit) else None

    def _line(self, row: StoredRow) -> Any:
        try:
            line = decode_line(row.value, self.limits, self._model)
            if isinstance(line, Began) and not line.possible:
                raise Malformed(f"epoch {tuple(line.epoch)} came from no earlier one")
            return line
        except Malformed as error:
            raise self._damaged(
                f"cannot be understood in line {row.key} of its log: {error}"
            ) from None

    @property
    def pruned(self) -> int:
        """The number of the last line up to which visits were removed on purpose."""
        found = self._one("SELECT value FROM about WHERE name = 'pruned'")
        return int(found) if isinstance(found, bytes) and found.isdigit() else 0

    def check_pages(self) -> None:
        """Let SQLite check every page of the database."""
        found = self._one("PRAGMA quick_check(1)")
        if found != "ok":
            raise self._damaged(f"is damaged ({found})")

    def __len__(self) -> int:
        """Return how many lines the log has."""
        return int(self._rows("SELECT coalesce(max(number), 0) FROM lines")[0][0])

    def _sealed(self, table: str, found: Iterable[tuple[Any, ...]]) -> list[StoredRow]:
        """Return the rows, whose checksums must be right."""
        rows = []
        for row in found:
            key, value, models, sum_ = row
            if (
                not isinstance(value, bytes)
                or not isinstance(models, bytes)
                or not isinstance(sum_, bytes)
                or len(sum_) not in ((32,) if isinstance(key, str) else (SHORT_SUM, 32))
                or StoredRow.summed(key, value, models, len(sum_)) != row
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
        if version != SCHEMA and version not in OLDER:
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

    def _no_descriptors(self) -> NoDescriptors:
        return NoDescriptors(
            f"no file descriptor is left to open a model in {self.folder}; nothing was changed, "
            "and the node tries again: raise the limit of open files (ulimit -n), or close what "
            "holds so many connections to the node"
        )

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self.path} {what}{REMEDY}: move {self.folder} away and start the node "
            "again "
            "without its disk (do not use a backup of the folder: it does not contain the later "
            "promises)"
        )

    def _bad_model(self, path: Path, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{path} {what}{REMEDY}: restore this file from a backup or from a "
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
                if name != "model":
                    most = self.limits.memory if name == "memory" else None
                    incoming = Incoming(name, size, most, itemsize=1)
                else:
                    incoming = Incoming(name, size, self.limits.dim, schema=self.limits.schema)
                while chunk := file.read(CHUNK):
                    incoming.take(chunk)
                return incoming.done(address)
        except FileNotFoundError:
            raise self._bad_model(path, "is missing") from None
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise self._no_descriptors() from None
            raise self._bad_model(path, f"cannot be read: {error.strerror or error}") from None
        except Malformed as error:
            raise self._bad_model(path, f"is damaged: {error}") from None

    def _file(self, address: bytes) -> Path:
        return self.models / f"{address.hex()}.safetensors"
