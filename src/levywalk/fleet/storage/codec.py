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
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.fleet.protocol.messages import Certificate
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import (
    Archived,
    Began,
    Edge,
    Guarded,
    Held,
    HeldStatus,
    Known,
    Line,
    Own,
    RegisterValue,
)
from levywalk.fleet.protocol.tensors import Incoming, Malformed, Tensor, check_writable
from levywalk.fleet.protocol.token import Epoch, Token

FORMAT = 1
_MOST_SCORES = 16
_STATUSES = tuple(HeldStatus)  # in this order: a new one goes to the end
_OVERTAKEN = (*_STATUSES, "guarded", "final")


class Limits(NamedTuple):
    """The sizes that the run's manifest allows. None: any size that fits the bytes is accepted."""

    dim: int | None = None
    phases: int | None = None
    memory: int | None = None  # bytes that travel with a model


ANY = Limits()


class Put(Protocol):
    """Stores a tensor separately and returns its address, or None to write it among the fields."""

    def __call__(self, tensor: Tensor, /) -> bytes | None:
        """Store the tensor."""


class Get(Protocol):
    """Returns the array that is stored separately under an address."""

    def __call__(self, name: str, address: bytes, /) -> AnyArray:
        """Return the array."""


def _all_inline(tensor: Tensor) -> bytes | None:
    return None


def _none_elsewhere(name: str, address: bytes) -> AnyArray:
    raise Malformed(f"a {name} that is stored separately was not expected here")


# The parts of a value


class _Out:
    """The bytes that are written so far."""

    def __init__(self, put: Put) -> None:
        self.parts: list[bytes | memoryview] = []
        self.put = put


class _In:
    """The bytes that are read; reading beyond their end is an error."""

    def __init__(self, data: bytes, limits: Limits, get: Get) -> None:
        self.data, self.at, self.limits, self.get = data, 0, limits, get

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise Malformed("it ends early")
        self.at, start = end, self.at
        return self.data[start:end]

    def numbers(self, numbers: struct.Struct) -> tuple[Any, ...]:
        if self.at + numbers.size > len(self.data):
            raise Malformed("it ends early")
        found = numbers.unpack_from(self.data, self.at)
        self.at += numbers.size
        return found


class _Kind(Protocol):
    """How one field is written and read."""

    def write(self, out: _Out, value: Any) -> None: ...

    def read(self, source: _In) -> Any: ...


class _Number:
    """A number of fixed size that must obey a rule."""

    def __init__(
        self, code: str, rule: str = "", holds: Callable[[Any], bool] | None = None
    ) -> None:
        self.code, self.rule, self.holds = code, rule, holds

    def check(self, value: Any) -> None:
        if self.holds is not None and not self.holds(value):
            raise Malformed(f"a number must be {self.rule}, got {value!r}")


_INT = _Number("q")
_COUNT = _Number("q", "at least 0", lambda value: value >= 0)
_FLAG = _Number("B", "0 or 1", lambda value: value in (0, 1))
_SCORE = _Number("d", "finite and at least 0", lambda value: 0.0 <= value < math.inf)


class _Numbers:
    """Several numbers in a row, as one struct."""

    def __init__(self, numbers: Sequence[_Number]) -> None:
        self.struct = struct.Struct("<" + "".join(number.code for number in numbers))
        self.checked = [(i, number) for i, number in enumerate(numbers) if number.holds is not None]
        self.flags = [i for i, number in enumerate(numbers) if number is _FLAG]

    def write(self, out: _Out, values: Sequence[Any]) -> None:
        for i, number in self.checked:
            number.check(values[i])
        try:
            out.parts.append(self.struct.pack(*values))
        except struct.error as error:
            raise Malformed(f"numbers that cannot be written ({error}): {values!r}") from None

    def read(self, source: _In) -> Sequence[Any]:
        values: Sequence[Any] = source.numbers(self.struct)
        for i, number in self.checked:
            number.check(values[i])
        if self.flags:
            values = list(values)
            for i in self.flags:
                values[i] = bool(values[i])
        return values


class _Record:
    """A named tuple: its fields in order."""

    def __init__(self, type_: Any, *kinds: _Number | _Kind) -> None:
        assert len(kinds) == len(type_._fields), type_
        self.type = type_
        self.groups: list[
            tuple[int, int, _Kind]
        ] = []  # which fields, and how; neighbouring numbers are written together
        start = 0
        while start < len(kinds):
            stop = start
            numbers: list[_Number] = []
            while stop < len(kinds) and isinstance(number := kinds[stop], _Number):
                numbers.append(number)
                stop += 1
            kind = kinds[start]
            if isinstance(kind, _Number):
                self.groups.append((start, stop, _Numbers(numbers)))
                start = stop
            else:
                self.groups.append((start, start, kind))
                start += 1

    def write(self, out: _Out, value: Any) -> None:
        for start, stop, kind in self.groups:
            kind.write(out, value[start] if start == stop else value[start:stop])

    def read(self, source: _In) -> Any:
        values: list[Any] = []
        for start, stop, kind in self.groups:
            found = kind.read(source)
            if start == stop:
                values.append(found)
            else:
                values.extend(found)
        return self.type._make(values)


class _Bytes:
    """A short sequence of bytes."""

    def __init__(self, most: int) -> None:
        self.most = most

    def write(self, out: _Out, value: bytes) -> None:
        if len(value) > self.most:
            raise Malformed(f"at most {self.most} bytes can be written, got {len(value)}")
        out.parts += [_SHORT.pack(len(value)), value]

    def read(self, source: _In) -> bytes:
        (count,) = source.numbers(_SHORT)
        if count > self.most:
            raise Malformed(f"at most {self.most} bytes were expected, got {count}")
        return source.take(count)


_SHORT, _LONG, _BYTE = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<B")


class _Choice:
    """One of a few words, as its index."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def write(self, out: _Out, value: str) -> None:
        if value not in self.words:
            raise Malformed(f"one of {', '.join(self.words)} can be written, got {value!r}")
        out.parts.append(_BYTE.pack(self.words.index(value)))

    def read(self, source: _In) -> str:
        (place,) = source.numbers(_BYTE)
        if place >= len(self.words):
            raise Malformed(f"one of {', '.join(self.words)} was expected, got number {place}")
        word: str = self.words[place]
        return word


class _OneOf:
    """A value of one of several kinds: the kind's number, then the value.

    A constant is its number alone.
    """

    def __init__(self, *kinds: tuple[Any, _Kind | None]) -> None:
        self.kinds = kinds

    def write(self, out: _Out, value: Any) -> None:
        for place, (what, kind) in enumerate(self.kinds):
            if kind is None and (value is what or (isinstance(value, str) and value == what)):
                out.parts.append(_BYTE.pack(place))
                return
            if kind is not None and isinstance(value, what):
                out.parts.append(_BYTE.pack(place))
                kind.write(out, value)
                return
        raise Malformed(f"a value that cannot be written here: {value!r}")

    def read(self, source: _In) -> Any:
        (place,) = source.numbers(_BYTE)
        if place >= len(self.kinds):
            raise Malformed(f"a kind below {len(self.kinds)} was expected, got number {place}")
        what, kind = self.kinds[place]
        return what if kind is None else kind.read(source)


class _Scores:
    """A score for each phase."""

    def write(self, out: _Out, value: tuple[float, ...]) -> None:
        if len(value) > _MOST_SCORES:
            raise Malformed(f"at most {_MOST_SCORES} scores can be written, got {len(value)}")
        for score in value:
            _SCORE.check(score)
        out.parts += [_BYTE.pack(len(value)), struct.pack(f"<{len(value)}d", *value)]

    def read(self, source: _In) -> tuple[float, ...]:
        (count,) = source.numbers(_BYTE)
        phases = source.limits.phases
        if count > _MOST_SCORES or (phases is not None and count != phases):
            raise Malformed(
                f"{'a few' if phases is None else phases} scores were expected, got {count}"
            )
        scores = source.numbers(struct.Struct(f"<{count}d"))
        for score in scores:
            _SCORE.check(score)
        return scores


class _Array:
    """A tensor, among the fields or stored separately."""

    def __init__(self, name: str, itemsize: int = 8) -> None:
        self.name, self.itemsize = name, itemsize

    def write(self, out: _Out, value: AnyArray) -> None:
        check_writable(self.name, value, self.itemsize)
        tensor = Tensor(
            self.name, np.ascontiguousarray(value) if not value.flags.c_contiguous else value
        )
        address = out.put(tensor)
        if address is None:
            out.parts += [_BYTE.pack(0), _LONG.pack(tensor.size), *tensor.chunks()]
        else:
            out.parts += [_BYTE.pack(1), address]

    def read(self, source: _In) -> AnyArray:
        (elsewhere,) = source.numbers(_BYTE)
        if elsewhere == 1:
            return source.get(self.name, source.take(32))
        if elsewhere:
            raise Malformed(
                f"a {self.name} is among the fields (0) or stored separately (1), got {elsewhere}"
            )
        (size,) = source.numbers(_LONG)
        if size > len(source.data) - source.at:
            raise Malformed("it ends early")
        limits = source.limits
        most = limits.dim if self.itemsize == 8 else limits.memory
        incoming = Incoming(self.name, size, most, hashed=False, itemsize=self.itemsize)
        incoming.take(source.take(size))
        return incoming.done()


class _Edges:
    """The records of a node's edges, by neighbour."""

    def write(self, out: _Out, value: dict[int, Edge]) -> None:
        out.parts.append(_LONG.pack(len(value)))
        for node, edge in sorted(value.items()):
            _NODE.write(out, (node,))
            _EDGE.write(out, edge)

    def read(self, source: _In) -> dict[int, Edge]:
        (count,) = source.numbers(_LONG)
        edges: dict[int, Edge] = {}
        last = -math.inf
        for _ in range(count):  # each takes bytes, so a false count soon comes to their end
            (node,) = _NODE.read(source)
            if node <= last:
                raise Malformed("edges are not in order")
            edges[node] = _EDGE.read(source)
            last = node
        return edges


class _Nothing:
    """None."""

    def write(self, out: _Out, value: None) -> None:
        pass

    def read(self, source: _In) -> None:
        return None


_NODE = _Numbers([_INT])
_EPOCH = _Record(Epoch, _COUNT, _COUNT, _INT)
_DIGEST, _SIGNATURE = _Bytes(32), _Bytes(512)
_MODEL = _Array("model")
_SEALED = _Record(Certificate, _INT, _EPOCH, _INT, _INT, _DIGEST, _SIGNATURE)
_CARRIED = _Array("memory", itemsize=1)
_TOKEN = _Record(
    Token,
    *(_EPOCH, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT),
    _MODEL,
    _COUNT,
    _CARRIED,
    *(_INT, _INT, _COUNT, _COUNT),
    _DIGEST,
    *(_INT, _COUNT),
)
_EDGE = _Record(Edge, _COUNT, _FLAG, _COUNT, _Scores(), _FLAG)

# Every kind of value, by number. A number is never used for another kind; a change of how a kind is
# written needs another `FORMAT`.
_KINDS: dict[int, tuple[type, _Kind]] = {
    0: (NoneType, _Nothing()),
    1: (Known, _Record(Known, _EPOCH, _COUNT)),
    2: (Own, _Record(Own, _COUNT, _COUNT, _FLAG)),
    3: (dict, _Edges()),
    4: (Held, _Record(Held, _Choice(_STATUSES), _TOKEN, _INT, _INT, _INT, _INT, _EPOCH)),
    5: (
        Guarded,
        _Record(
            Guarded,
            *(_TOKEN, _INT),
            _OneOf((None, None), (Certificate, _SEALED), (RegisterValue.REGENERATED, None)),
            _OneOf((None, None), (Certificate, _SEALED)),
        ),
    ),
    6: (Token, _TOKEN),
    16: (
        Visit,
        _Record(
            Visit, _EPOCH, *(_COUNT,) * 4, _INT, _INT, _OneOf((None, None), (np.ndarray, _MODEL))
        ),
    ),
    17: (Archived, _Record(Archived, _TOKEN, _Choice(_OVERTAKEN), _EPOCH, _COUNT)),
    18: (Began, _Record(Began, _EPOCH, _EPOCH, _COUNT)),
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
}
LINES: tuple[type, ...] = (Visit, Archived, Began)


def encode(value: object, put: Put = _all_inline) -> bytes:
    """Return a value as bytes. What `decode` would refuse cannot be written.

    Examples
    --------
    >>> encode(Known(Epoch(0, 0, 3), 7)).hex()
    '01010000000000000000000000000000000003000000000000000700000000000000'
    """
    number = _NUMBERS.get(type(value))
    if number is None:
        raise Malformed(f"a value that cannot be written: {value!r}")
    out = _Out(put)
    out.parts.append(_PREFIX.pack(FORMAT, number))
    _KINDS[number][1].write(out, value)
    return b"".join(out.parts)


def decode(
    data: bytes, expected: Sequence[type], limits: Limits = ANY, get: Get = _none_elsewhere
) -> Any:
    """Return the value in the bytes, which must be of one of the expected types and use
    all bytes.
    """
    source = _In(data, limits, get)
    format_, number = source.numbers(_PREFIX)
    if format_ != FORMAT:
        raise Malformed(
            f"format {FORMAT} was expected, got {format_}, of another version of levywalk"
        )
    type_, kind = _KINDS.get(number, (NoneType, _Nothing()))
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
