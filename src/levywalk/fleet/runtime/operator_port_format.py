r"""How an operator and a node talk at the operator port: one question, and its answer.

The question is a JSON object of at most 4 KiB. The answer is a stream of frames: first a JSON
object, and then records (bytes, each after its length), which are cut into pieces of at most 1 MiB
wherever that falls. Log lines and tokens are records as `storage.codec` writes them, whose reader
checks every byte; a token of which only the place in the walk is of interest has no numbers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any, cast

from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Archived, Began, Line
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.runtime.own_disk import without_model
from levywalk.fleet.storage.codec import LINES, decode, encode
from levywalk.fleet.storage.limits import Limits

SERVICE, METHOD = "levywalk.fleet.v1.Operator", "Ask"
QUESTIONS = ("status", "doctor", "logs", "trace", "model", "copies", "revive")
MOST_QUESTION = 4096  # bytes
PIECE = 1 << 20  # bytes of records in a frame
MOST_OPERATOR_FRAME = PIECE + 1024
MOST_HEADER = PIECE  # bytes of the first frame of an answer
STRIPPED = Limits(dim=0, memory=0)  # of tokens without their numbers
_OTHERS = tuple(kind for kind in LINES if kind is not Archived)
_LENGTH = struct.Struct("<Q")
_ARCHIVED = b"\x11"  # the second byte of an archived token, as `codec` numbers it


def header(value: dict[str, Any]) -> bytes:
    """Return the first frame of an answer."""
    found = json.dumps(value).encode()
    if len(found) > MOST_HEADER:
        raise InvalidParameter(f"the answer has {len(found)} bytes, more than {MOST_HEADER}")
    return found


def json_object(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in some bytes that are not trusted.

    Examples
    --------
    >>> json_object(b'{"do": "status"}', "a question")
    {'do': 'status'}
    >>> json_object(b"[]", "a question")
    Traceback (most recent call last):
    levywalk.fleet.protocol.tensors.Malformed: a question must be a JSON object
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Malformed(f"{what} must be a JSON object")
    return found


def pieces(records: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield records as frames of at most `PIECE` bytes.

    Examples
    --------
    >>> b"".join(pieces([b"a", b"bc"]))
    b'\x01\x00\x00\x00\x00\x00\x00\x00a\x02\x00\x00\x00\x00\x00\x00\x00bc'
    """
    waiting = bytearray()
    for record in records:
        waiting += _LENGTH.pack(len(record)) + record
        while len(waiting) >= PIECE:
            yield bytes(waiting[:PIECE])
            del waiting[:PIECE]
    if waiting:
        yield bytes(waiting)


class Records:
    """The records of an answer, put together from its frames.

    Parameters
    ----------
    most, most_record
        How many bytes may come in all, and how many a record may have.
    """

    def __init__(self, most: int, most_record: int) -> None:
        self.most, self.most_record = most, most_record
        self.found: list[bytes] = []
        self._waiting = bytearray()
        self._came = 0

    def take(self, frame: bytes) -> None:
        """Take the next frame."""
        self._came += len(frame)
        if self._came > self.most:
            raise Malformed(f"an answer of more than {self.most} bytes")
        self._waiting += frame
        at = 0
        while len(self._waiting) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._waiting, at)
            if size > self.most_record:
                raise Malformed(f"a record of {size} bytes, more than {self.most_record}")
            end = at + _LENGTH.size + size
            if len(self._waiting) < end:
                break
            self.found.append(bytes(self._waiting[at + _LENGTH.size : end]))
            at = end
        del self._waiting[:at]

    def done(self) -> list[bytes]:
        """Return the records, none of which may be incomplete."""
        if self._waiting:
            raise Malformed("an answer that ends within a record")
        return self.found


def line_record(line: Line, limits: Limits, *, models: bool) -> bytes:
    """Return a line of a node's log as a record.

    Archived tokens never have their numbers; visits have their models only if ``models`` is true.
    """
    if isinstance(line, Archived):
        return encode(line._replace(token=without_model(line.token)))
    if isinstance(line, Visit) and not models:
        line = line._replace(model=None)
    return encode(line, schema=limits.schema)


def read_line_record(record: bytes, limits: Limits) -> Line:
    """Return the line of a record, and refuse all that `line_record` would not have written.

    Examples
    --------
    >>> from levywalk.fleet.protocol.token import Epoch
    >>> line = Began(Epoch(1, 7, 3), Epoch(0, 0, 2), 41)
    >>> read_line_record(line_record(line, Limits(), models=False), Limits()) == line
    True
    """
    if record[1:2] == _ARCHIVED:
        return cast(Line, decode(record, (Archived,), STRIPPED._replace(phases=limits.phases)))
    line = cast(Line, decode(record, _OTHERS, limits))
    if isinstance(line, Began) and not line.possible:
        raise Malformed(f"epoch {tuple(line.epoch)} came from no earlier one")
    return line
