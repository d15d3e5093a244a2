"""Tokens, slots and log lines as bytes, for the disk.

Nothing is ever unpickled. For messages see `wire`.

A value is written as the number of the format, the number of its kind, and its fields in order,
little-endian and without padding. Each value has exactly one encoding, and all other bytes are
refused (`Malformed`). Bytes are not trusted: counts and sizes are compared with the bytes that are
there, and with the run's manifest (`Limits`), before anything of that size is allocated.

Arrays are `Tensor` bytes. A large array is stored separately, under its SHA-256: the caller of
`encode` gives ``put``, which stores a `Tensor` and returns its address, and the caller of `decode`
gives ``get``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from types import NoneType
from typing import Any, cast

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.checkpoints import Checkpoint, Checkpoints
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.evidence import Lie, Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.given import GivenTokens
from levywalk.fleet.protocol.kept_memory import REASONS, KeptMemory
from levywalk.fleet.protocol.links import KINDS, EpochLink, Opening, Right
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.records import (
    FALSE_END,
    REVIVED,
    Archived,
    Began,
    BudgetSpent,
    Edge,
    Guarded,
    Held,
    HeldStatus,
    Known,
    Line,
    NewGeneration,
    NewSize,
    Own,
    RegisterValue,
    SilentNeighbour,
    Spending,
)
from levywalk.fleet.protocol.refusals import Refusals, RefusedModels
from levywalk.fleet.protocol.revocation import Revocation, Revocations
from levywalk.fleet.protocol.schema import TensorSchema
from levywalk.fleet.protocol.starts import StartChain, Starts
from levywalk.fleet.protocol.tensors import Malformed, Tensor
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.storage.field_kinds import (
    COUNT,
    FLAG,
    INT,
    LONG,
    SCORE,
    ArrayField,
    BytesField,
    ChoiceField,
    Encodings,
    FieldKind,
    FieldReader,
    FieldWriter,
    FlatField,
    Get,
    NothingField,
    NumbersField,
    OneOfField,
    Put,
    RecordField,
    RememberedField,
    ScoresField,
    ValuesField,
    VarintField,
)
from levywalk.fleet.storage.limits import ANY, Limits
from levywalk.fleet.storage.memory_field import MemoryField
from levywalk.fleet.storage.starts_field import ChainField, StartsField

# 2 had no size of the fleet in tokens, 3 no withdrawals in what is guarded, 4 links that do not say
# where their right was given
FORMAT = 5
_STATUSES = tuple(HeldStatus)  # in this order: a new one goes to the end
_OVERTAKEN = ("guarded", "final", REVIVED, FALSE_END, *_STATUSES)  # a new status is the last here


def _all_inline(tensor: Tensor) -> bytes | None:
    return None


def _none_elsewhere(name: str, address: bytes) -> AnyArray:
    raise Malformed(f"a {name} that is stored separately was not expected here")


class LiesField:
    """The proofs of lies, in the order in which they were found."""

    def write(self, out: FieldWriter, value: tuple[Lie, ...]) -> None:
        """Write a value."""
        out.parts.append(LONG.pack(len(value)))
        for lie in value:
            _LIE.write(out, lie)

    def read(self, source: FieldReader) -> tuple[Lie, ...]:
        """Read a value."""
        (count,) = source.numbers(LONG)
        return tuple(_LIE.read(source) for _ in range(count))  # each takes bytes


class LieField:
    """The proof of one lie: a link and a release, as it always was; or, after a number that is no
    kind of a link, an end and a release.
    """

    def write(self, out: FieldWriter, value: Lie) -> None:
        """Write a value."""
        if (value.link is None) == (value.end is None):
            raise Malformed("a lie has either a link or an end")
        if value.end is None:
            _OPENING.write(out, value.link)
        else:
            out.parts.append(bytes([_END_FOLLOWS]))
            _ENDING.write(out, value.end)
        _SEALED.write(out, value.release)
        _PARDON_OR_NONE.write(out, value.pardon)

    def read(self, source: FieldReader) -> Lie:
        """Read a value."""
        link, end = None, None
        if source.data[source.at : source.at + 1] == bytes([_END_FOLLOWS]):
            source.take(1)
            end = _ENDING.read(source)
        else:
            link = _OPENING.read(source)
        return Lie(link, _SEALED.read(source), _PARDON_OR_NONE.read(source), end)


class RevocationsField:
    """The nodes that were revoked, in the order in which that was heard."""

    def write(self, out: FieldWriter, value: Revocations) -> None:
        """Write a value."""
        out.parts.append(LONG.pack(len(value.orders)))
        for word in value.orders:
            _REVOCATION.write(out, word)

    def read(self, source: FieldReader) -> Revocations:
        """Read a value."""
        (count,) = source.numbers(LONG)
        return Revocations(tuple(_REVOCATION.read(source) for _ in range(count)))


class CheckpointsField:
    """How far the walk went in earlier epochs, in ascending order."""

    def write(self, out: FieldWriter, value: Checkpoints) -> None:
        """Write a value."""
        out.parts.append(LONG.pack(len(value.places)))
        for one in value.places:
            _CHECKPOINT.write(out, one)

    def read(self, source: FieldReader) -> Checkpoints:
        """Read a value."""
        (count,) = source.numbers(LONG)
        places = tuple(_CHECKPOINT.read(source) for _ in range(count))  # each takes bytes
        if any(one.epoch >= other.epoch for one, other in pairwise(places)):
            raise Malformed("epochs are not in order")
        return Checkpoints(places)


class RefusalsField:
    """Whose models were refused, in ascending order."""

    def write(self, out: FieldWriter, value: Refusals) -> None:
        """Write a value."""
        out.parts.append(LONG.pack(len(value.senders)))
        for one in value.senders:
            _REFUSED.write(out, one)

    def read(self, source: FieldReader) -> Refusals:
        """Read a value."""
        (count,) = source.numbers(LONG)
        senders = tuple(_REFUSED.read(source) for _ in range(count))  # each takes bytes
        if any(one.node >= other.node for one, other in pairwise(senders)):
            raise Malformed("senders are not in order")
        return Refusals(senders)


class GivenField:
    """Tokens as they were given to a node."""

    def write(self, out: FieldWriter, value: GivenTokens) -> None:
        """Write a value."""
        out.parts.append(LONG.pack(len(value.tokens)))
        for token in value.tokens:
            _TOKEN.write(out, token)

    def read(self, source: FieldReader) -> GivenTokens:
        """Read a value."""
        (count,) = source.numbers(LONG)
        return GivenTokens(tuple(_TOKEN.read(source) for _ in range(count)))  # each takes bytes


class EdgesField:
    """The records of a node's edges, by neighbour."""

    def write(self, out: FieldWriter, value: dict[int, Edge]) -> None:
        """Write a value."""
        out.parts.append(LONG.pack(len(value)))
        for node, edge in sorted(value.items()):
            _NODE.write(out, (node,))
            _EDGE.write(out, edge)

    def read(self, source: FieldReader) -> dict[int, Edge]:
        """Read a value."""
        (count,) = source.numbers(LONG)
        edges: dict[int, Edge] = {}
        last = -math.inf
        for _ in range(count):  # each takes bytes, so a false count soon comes to their end
            (node,) = _NODE.read(source)
            if node <= last:
                raise Malformed("edges are not in order")
            edges[node] = _EDGE.read(source)
            last = node
        return edges


_NODE = NumbersField([INT])
_EPOCH = RecordField(Epoch, COUNT, COUNT, INT)
_DIGEST, _SIGNATURE = BytesField(32), BytesField(512)
_MODEL = ArrayField("model")
_SEALED = RememberedField(RecordField(Certificate, INT, _EPOCH, INT, INT, INT, _DIGEST, _SIGNATURE))
_OPENING = RecordField(
    Opening,
    *(ChoiceField(KINDS), _EPOCH, _EPOCH, _EPOCH, COUNT, FLAG, COUNT, COUNT),
    *(_DIGEST, INT, _SIGNATURE),
)
_RIGHT = RecordField(
    Right,
    OneOfField((None, None), (Certificate, _SEALED)),
    OneOfField((None, None), (Opening, _OPENING)),
)
_PARDON = RecordField(Pardon, INT, _EPOCH, _SIGNATURE)
_REVOCATION = RecordField(Revocation, INT, _EPOCH, _SIGNATURE)
_REFUSED = RecordField(RefusedModels, INT, COUNT, _EPOCH, COUNT, FLAG)
_CHECKPOINT = RecordField(Checkpoint, _EPOCH, COUNT)
_PARDON_OR_NONE = OneOfField((None, None), (Pardon, _PARDON))
_ENDING = RecordField(Ending, INT, _EPOCH, COUNT, COUNT, _DIGEST, _SIGNATURE, _RIGHT)
_END_FOLLOWS = 255
_LIE = LieField()
_LINK = RecordField(EpochLink, _OPENING, _RIGHT)
_LINK_OR_NONE = OneOfField((None, None), (EpochLink, _LINK))
_CARRIED = ArrayField("memory", itemsize=1)
_TOKEN = RememberedField(
    RecordField(
        Token,
        *(_EPOCH, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT),
        _MODEL,
        COUNT,
        _CARRIED,
        *(INT, INT, COUNT, COUNT),
        _DIGEST,
        *(INT, COUNT, COUNT),
    )
)
_SHORT, _SHORT_SIGNED = VarintField(), VarintField(signed=True)
_EDGE = RecordField(Edge, COUNT, FLAG, COUNT, ScoresField(), FLAG)

# Every kind of value, by number. A number is never used for another kind; a change of how a kind is
# written needs another `FORMAT`.
_KINDS: dict[int, tuple[type, FieldKind]] = {
    0: (NoneType, NothingField()),
    1: (Known, RecordField(Known, _EPOCH, COUNT, _LINK_OR_NONE)),
    2: (Own, RecordField(Own, COUNT, COUNT, FLAG)),
    3: (dict, EdgesField()),
    4: (
        Held,
        RecordField(
            Held,
            *(ChoiceField(_STATUSES), _TOKEN, INT, INT, INT, INT, _EPOCH),
            *(_RIGHT, _LINK_OR_NONE),
        ),
    ),
    5: (
        Guarded,
        RecordField(
            Guarded,
            *(_TOKEN, INT),
            OneOfField(
                (None, None), (Certificate, _SEALED), *((one, None) for one in RegisterValue)
            ),
            OneOfField((None, None), (Certificate, _SEALED)),
            COUNT,
        ),
    ),
    6: (Token, _TOKEN),
    7: (Ending, _ENDING),
    8: (tuple, LiesField()),
    9: (Starts, StartsField()),
    10: (StartChain, ChainField()),
    11: (KeptMemory, MemoryField()),
    16: (
        Visit,
        RecordField(
            Visit, _EPOCH, *(COUNT,) * 4, INT, INT, OneOfField((None, None), (np.ndarray, _MODEL))
        ),
    ),
    # (16 was written by schema 1, which took more than twice the room)
    17: (Archived, RecordField(Archived, _TOKEN, ChoiceField(_OVERTAKEN), _EPOCH, COUNT)),
    18: (Began, RecordField(Began, _EPOCH, _EPOCH, COUNT)),
    19: (
        Visit,
        FlatField(
            Visit,
            FlatField(Epoch, _SHORT, _SHORT, _SHORT_SIGNED),
            *(_SHORT,) * 4,
            *(_SHORT_SIGNED,) * 2,
            OneOfField((None, None), (np.ndarray, _MODEL)),
        ),
    ),
    20: (Measured, RecordField(Measured, _EPOCH, COUNT, ValuesField())),
    21: (
        NewGeneration,
        RecordField(NewGeneration, _EPOCH, COUNT, COUNT, COUNT, ChoiceField(REASONS), INT),
    ),
    22: (SilentNeighbour, RecordField(SilentNeighbour, _EPOCH, COUNT, COUNT, INT)),
    24: (NewSize, RecordField(NewSize, _EPOCH, *(COUNT,) * 4, SCORE)),
    40: (Revocations, RevocationsField()),
    42: (FleetSize, RecordField(FleetSize, COUNT, COUNT, SCORE, _SIGNATURE)),
    44: (Refusals, RefusalsField()),
    45: (GivenTokens, GivenField()),
    46: (Checkpoints, CheckpointsField()),
    50: (Spending, RecordField(Spending, COUNT, FLAG)),
    51: (BudgetSpent, RecordField(BudgetSpent, _EPOCH, COUNT, COUNT)),
}
_NUMBERS = {type_: number for number, (type_, _) in _KINDS.items()}
_PREFIX = struct.Struct("<BB")

SLOTS: dict[str, tuple[type, ...]] = {
    "known": (Known,),
    "own": (Own,),
    "edges": (dict,),
    "held": (Held, NoneType),
    "guarded": (Guarded, NoneType),
    "final": (Token, NoneType),
    "end": (Ending, NoneType),
    "liars": (tuple,),
    "revoked": (Revocations,),
    "size": (FleetSize, NoneType),
    "starts": (Starts, NoneType),
    "chain": (StartChain, NoneType),
    "memory": (KeptMemory, NoneType),
    "spent": (Spending, NoneType),
    "refusals": (Refusals, NoneType),
    "given": (GivenTokens, NoneType),
    "checkpoints": (Checkpoints, NoneType),
}
MEASURED = 20  # the number of the metrics of a visit
VISITS = (16, 19, MEASURED)  # the numbers of visits and of their metrics
LINES: tuple[type, ...] = (
    *(Visit, Archived, Began, Measured, NewGeneration, SilentNeighbour, BudgetSpent, NewSize),
)


def encode(
    value: object,
    put: Put = _all_inline,
    schema: TensorSchema | None = None,
    recent: Encodings | None = None,
) -> bytes:
    """Return a value as bytes. What `decode` would refuse cannot be written.

    ``schema`` is that of models that are several named arrays. ``recent`` keeps the last encodings
    of tokens and certificates for the next call with the same ``put`` and ``schema``.

    Examples
    --------
    >>> encode(Known(Epoch(0, 0, 3), 7)).hex()
    '0501000000000000000000000000000000000300000000000000070000000000000000'
    """
    number = _NUMBERS.get(type(value))
    if number is None:
        raise Malformed(f"a value that cannot be written: {value!r}")
    out = FieldWriter(put, schema, recent)
    out.parts.append(_PREFIX.pack(FORMAT, number))
    _KINDS[number][1].write(out, value)
    return b"".join(out.parts)


def decode(
    data: bytes, expected: Sequence[type], limits: Limits = ANY, get: Get = _none_elsewhere
) -> Any:
    """Return the value in the bytes, which must be of one of the expected types and use
    all bytes.
    """
    source = FieldReader(data, limits, get)
    format_, number = source.numbers(_PREFIX)
    if format_ != FORMAT:
        raise Malformed(
            f"format {FORMAT} was expected, got {format_}, of another version of levywalk"
        )
    type_, kind = _KINDS.get(number, (NoneType, NothingField()))
    if type_ not in expected or number not in _KINDS:
        names = " or ".join(one.__name__ for one in expected)
        raise Malformed(f"{names} was expected, got kind {number}")
    try:
        value = kind.read(source)
    except Malformed as error:
        raise Malformed(f"not a valid {type_.__name__}: {error}") from None
    if source.at != len(data):
        raise Malformed(
            f"not a valid {type_.__name__}: {len(data) - source.at} bytes after its end"
        )
    return value


def decode_slot(slot: str, data: bytes, limits: Limits = ANY, get: Get = _none_elsewhere) -> object:
    """Return the value of a slot of the disk."""
    return cast(object, decode(data, SLOTS[slot], limits, get))


def decode_line(data: bytes, limits: Limits = ANY, get: Get = _none_elsewhere) -> Line:
    """Return a line of the log.

    Examples
    --------
    >>> decode_line(encode(Began(Epoch(1, 7, 3), Epoch(0, 0, 2), 41)))
    Began(epoch=Epoch(counter=1, seq=7, node=3), parent=Epoch(counter=0, seq=0, node=2), base=41)
    """
    return cast(Line, decode(data, LINES, limits, get))
