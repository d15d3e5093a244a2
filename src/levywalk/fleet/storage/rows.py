"""Rows of a node's database with their checksums, and notes of those that are damaged."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

SHORT_SUM = 8  # bytes of a line's checksum
REMEDY = "; nothing was changed"  # with these words the remedy begins


class StoredRow(NamedTuple):
    """A slot or a log line as it is stored."""

    key: str | int
    value: bytes
    models: bytes  # addresses of the models that are stored in files
    sum: bytes  # checksum of the row; SQLite has none

    @classmethod
    def of(cls, key: str | int, value: bytes, models: bytes) -> StoredRow:
        """Return the row of a value, with its checksum."""
        return cls.summed(key, value, models, 32 if isinstance(key, str) else SHORT_SUM)

    @classmethod
    def summed(cls, key: str | int, value: bytes, models: bytes, size: int) -> StoredRow:
        """Return the row of a value, with a checksum of that many bytes."""
        data = b"%b|%d|%b%b" % (str(key).encode(), len(value), value, models)
        return cls(key, value, models, hashlib.blake2b(data, digest_size=size).digest())

    def addresses(self) -> set[bytes]:
        """Return the addresses of the models that are stored in files."""
        return {self.models[at : at + 32] for at in range(0, len(self.models), 32)}


class LogDamage(NamedTuple):
    """Lines of the log, from ``first`` to ``last``, that cannot be read, and why."""

    first: int
    last: int
    why: str

    @property
    def lines(self) -> int:
        """How many lines."""
        return self.last - self.first + 1


def note_damage(damage: list[LogDamage], first: int, last: int, why: str) -> None:
    """Note damaged lines; those that follow each other are one entry."""
    why = why.partition(REMEDY)[0]
    if damage and damage[-1].last + 1 == first:
        damage[-1] = damage[-1]._replace(last=last)
    else:
        damage.append(LogDamage(first, last, why))
