"""How one field of a record is written as bytes and read again; `codec` has the records.

Every kind has exactly one encoding of a value, and refuses all other bytes (`Malformed`).
All kinds are in one file: most are a few lines, and some are made of others.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Protocol

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.fleet.protocol.schema import TensorSchema
from levywalk.fleet.protocol.tensors import Malformed, Tensor, check_writable, whole_array
from levywalk.fleet.storage.limits import Limits

_MOST_SCORES = 16
_MOST_VALUES = 32


class Put(Protocol):
    """Stores a tensor separately and returns its address, or None to write it among the fields."""

    def __call__(self, tensor: Tensor, /) -> bytes | None:
        """Store the tensor."""


class Get(Protocol):
    """Returns the array that is stored separately under an address."""

    def __call__(self, name: str, address: bytes, /) -> AnyArray:
        """Return the array."""


Encodings = dict[int, tuple[object, bytes]]  # the last records that were written, by their `id`
_MOST_RECENT = 16


class FieldWriter:
    """The bytes that are written so far."""

    def __init__(
        self, put: Put, schema: TensorSchema | None = None, recent: Encodings | None = None
    ) -> None:
        self.parts: list[bytes | memoryview] = []
        self.put, self.schema, self.recent = put, schema, recent
        self.changeable = 0  # arrays that can change, or are stored separately


class FieldReader:
    """The bytes that are read; reading beyond their end is an error."""

    def __init__(self, data: bytes, limits: Limits, get: Get) -> None:
        self.data, self.at, self.limits, self.get = data, 0, limits, get

    def take(self, count: int) -> bytes:
        """Read this many bytes."""
        end = self.at + count
        if end > len(self.data):
            raise Malformed("it ends early")
        self.at, start = end, self.at
        return self.data[start:end]

    def numbers(self, numbers: struct.Struct) -> tuple[Any, ...]:
        """Read the numbers of a struct."""
        if self.at + numbers.size > len(self.data):
            raise Malformed("it ends early")
        found = numbers.unpack_from(self.data, self.at)
        self.at += numbers.size
        return found


class FieldKind(Protocol):
    """How one field is written and read."""

    def write(self, out: FieldWriter, value: Any) -> None:
        """Write a value."""

    def read(self, source: FieldReader) -> Any:
        """Read a value."""


class NumberField:
    """A number of fixed size that must obey a rule."""

    def __init__(
        self, code: str, rule: str = "", holds: Callable[[Any], bool] | None = None
    ) -> None:
        self.code, self.rule, self.holds = code, rule, holds

    def check(self, value: Any) -> None:
        """Raise `Malformed` if a value does not obey the rule."""
        if self.holds is not None and not self.holds(value):
            raise Malformed(f"a number must be {self.rule}, got {value!r}")


INT = NumberField("q")
COUNT = NumberField("q", "at least 0", lambda value: value >= 0)
FLAG = NumberField("B", "0 or 1", lambda value: value in (0, 1))
SCORE = NumberField("d", "finite and at least 0", lambda value: 0.0 <= value < math.inf)


class NumbersField:
    """Several numbers in a row, as one struct."""

    def __init__(self, numbers: Sequence[NumberField]) -> None:
        self.struct = struct.Struct("<" + "".join(number.code for number in numbers))
        self.checked = [(i, number) for i, number in enumerate(numbers) if number.holds is not None]
        self.counts = [i for i, number in enumerate(numbers) if number is COUNT]
        self.others = [(i, number) for i, number in self.checked if number is not COUNT]
        self.flags = [i for i, number in enumerate(numbers) if number is FLAG]

    def write(self, out: FieldWriter, values: Sequence[Any]) -> None:
        """Write a value."""
        for i in self.counts:  # most numbers are, so no function is called for them
            if not values[i] >= 0:
                COUNT.check(values[i])
        for i, number in self.others:
            number.check(values[i])
        try:
            out.parts.append(self.struct.pack(*values))
        except struct.error as error:
            raise Malformed(f"numbers that cannot be written ({error}): {values!r}") from None

    def read(self, source: FieldReader) -> Sequence[Any]:
        """Read a value."""
        values: Sequence[Any] = source.numbers(self.struct)
        for i, number in self.checked:
            number.check(values[i])
        if self.flags:
            values = list(values)
            for i in self.flags:
                values[i] = bool(values[i])
        return values


class RecordField:
    """A named tuple: its fields in order."""

    def __init__(self, type_: Any, *kinds: NumberField | FieldKind) -> None:
        assert len(kinds) == len(type_._fields), type_
        self.type = type_
        self.groups: list[
            tuple[int, int, FieldKind]
        ] = []  # which fields, and how; neighbouring numbers are written together
        start = 0
        while start < len(kinds):
            stop = start
            numbers: list[NumberField] = []
            while stop < len(kinds) and isinstance(number := kinds[stop], NumberField):
                numbers.append(number)
                stop += 1
            kind = kinds[start]
            if isinstance(kind, NumberField):
                self.groups.append((start, stop, NumbersField(numbers)))
                start = stop
            else:
                self.groups.append((start, start, kind))
                start += 1

    def write(self, out: FieldWriter, value: Any) -> None:
        """Write a value."""
        for start, stop, kind in self.groups:
            kind.write(out, value[start] if start == stop else value[start:stop])

    def read(self, source: FieldReader) -> Any:
        """Read a value."""
        values: list[Any] = []
        for start, stop, kind in self.groups:
            found = kind.read(source)
            if start == stop:
                values.append(found)
            else:
                values.extend(found)
        return self.type._make(values)


class RememberedField:
    """A record that is often written several times, such as a token: its last encodings are kept.

    The same object has the same bytes, since records are never changed. A record with an array that
    could change, or that is stored separately, is encoded each time.
    """

    def __init__(self, kind: RecordField) -> None:
        self.kind = kind

    def write(self, out: FieldWriter, value: Any) -> None:
        """Write a value."""
        recent = out.recent
        if recent is None:
            self.kind.write(out, value)
            return
        known = recent.get(id(value))
        if known is not None and known[0] is value:
            out.parts.append(known[1])
            return
        start, changeable = len(out.parts), out.changeable
        self.kind.write(out, value)
        if out.changeable == changeable:
            recent[id(value)] = value, b"".join(out.parts[start:])
            if len(recent) > _MOST_RECENT:
                del recent[next(iter(recent))]

    def read(self, source: FieldReader) -> Any:
        """Read a value."""
        return self.kind.read(source)


class BytesField:
    """A short sequence of bytes."""

    def __init__(self, most: int) -> None:
        self.most = most

    def write(self, out: FieldWriter, value: bytes) -> None:
        """Write a value."""
        if len(value) > self.most:
            raise Malformed(f"at most {self.most} bytes can be written, got {len(value)}")
        out.parts += [_SHORT.pack(len(value)), value]

    def read(self, source: FieldReader) -> bytes:
        """Read a value."""
        (count,) = source.numbers(_SHORT)
        if count > self.most:
            raise Malformed(f"at most {self.most} bytes were expected, got {count}")
        return source.take(count)


_SHORT, LONG, _BYTE = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<B")


class ChoiceField:
    """One of a few words, as its index."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.bytes = {word: _BYTE.pack(place) for place, word in enumerate(words)}

    def write(self, out: FieldWriter, value: str) -> None:
        """Write a value."""
        if value not in self.bytes:
            raise Malformed(f"one of {', '.join(self.words)} can be written, got {value!r}")
        out.parts.append(self.bytes[value])

    def read(self, source: FieldReader) -> str:
        """Read a value."""
        (place,) = source.numbers(_BYTE)
        if place >= len(self.words):
            raise Malformed(f"one of {', '.join(self.words)} was expected, got number {place}")
        word: str = self.words[place]
        return word


class OneOfField:
    """A value of one of several kinds: the kind's number, then the value.

    A constant is its number alone.
    """

    def __init__(self, *kinds: tuple[Any, FieldKind | None]) -> None:
        self.kinds = kinds
        self.by_type = {
            what: (_BYTE.pack(place), kind)
            for place, (what, kind) in enumerate(kinds)
            if kind is not None
        }

    def write(self, out: FieldWriter, value: Any) -> None:
        """Write a value."""
        found = self.by_type.get(type(value))
        if found is not None:
            out.parts.append(found[0])
            found[1].write(out, value)
            return
        for place, (what, kind) in enumerate(self.kinds):
            if kind is None and (value is what or (isinstance(value, str) and value == what)):
                out.parts.append(_BYTE.pack(place))
                return
            if kind is not None and isinstance(value, what):
                out.parts.append(_BYTE.pack(place))
                kind.write(out, value)
                return
        raise Malformed(f"a value that cannot be written here: {value!r}")

    def read(self, source: FieldReader) -> Any:
        """Read a value."""
        (place,) = source.numbers(_BYTE)
        if place >= len(self.kinds):
            raise Malformed(f"a kind below {len(self.kinds)} was expected, got number {place}")
        what, kind = self.kinds[place]
        return what if kind is None else kind.read(source)


class ScoresField:
    """A score for each phase."""

    def write(self, out: FieldWriter, value: tuple[float, ...]) -> None:
        """Write a value."""
        if len(value) > _MOST_SCORES:
            raise Malformed(f"at most {_MOST_SCORES} scores can be written, got {len(value)}")
        for score in value:
            SCORE.check(score)
        out.parts += [_BYTE.pack(len(value)), struct.pack(f"<{len(value)}d", *value)]

    def read(self, source: FieldReader) -> tuple[float, ...]:
        """Read a value."""
        (count,) = source.numbers(_BYTE)
        phases = source.limits.phases
        if count > _MOST_SCORES or (phases is not None and count != phases):
            raise Malformed(
                f"{'a few' if phases is None else phases} scores were expected, got {count}"
            )
        scores = source.numbers(struct.Struct(f"<{count}d"))
        for score in scores:
            SCORE.check(score)
        return scores


class ValuesField:
    """A few numbers, each finite or NaN."""

    def write(self, out: FieldWriter, value: tuple[float, ...]) -> None:
        """Write a value."""
        _check_values(value)
        numbers = [math.nan if one != one else one for one in value]  # one encoding of NaN
        out.parts += [_BYTE.pack(len(value)), struct.pack(f"<{len(value)}d", *numbers)]

    def read(self, source: FieldReader) -> tuple[float, ...]:
        """Read a value."""
        (count,) = source.numbers(_BYTE)
        kind = struct.Struct(f"<{count}d")
        start = source.at
        values = source.numbers(kind)
        _check_values(values)
        plain = kind.pack(*(math.nan if one != one else one for one in values))
        if plain != source.data[start : source.at]:
            raise Malformed("NaN is written in another way than usual")
        return values


def _check_values(values: tuple[float, ...]) -> None:
    if len(values) > _MOST_VALUES or any(math.isinf(one) for one in values):
        raise Malformed(f"at most {_MOST_VALUES} numbers that are not infinite, got {values!r}")


class ArrayField:
    """A tensor, among the fields or stored separately."""

    def __init__(self, name: str, itemsize: int = 8) -> None:
        self.name, self.itemsize = name, itemsize

    def write(self, out: FieldWriter, value: AnyArray) -> None:
        """Write a value."""
        check_writable(self.name, value, self.itemsize)
        tensor = Tensor(
            self.name,
            np.ascontiguousarray(value) if not value.flags.c_contiguous else value,
            out.schema if self.itemsize == 8 else None,
        )
        address = out.put(tensor)
        out.changeable += address is not None or value.flags.writeable
        if address is None:
            out.parts += [_BYTE.pack(0), LONG.pack(tensor.size), *tensor.chunks()]
        else:
            out.parts += [_BYTE.pack(1), address]

    def read(self, source: FieldReader) -> AnyArray:
        """Read a value."""
        (elsewhere,) = source.numbers(_BYTE)
        if elsewhere == 1:
            return source.get(self.name, source.take(32))
        if elsewhere:
            raise Malformed(
                f"a {self.name} is among the fields (0) or stored separately (1), got {elsewhere}"
            )
        (size,) = source.numbers(LONG)
        if size > len(source.data) - source.at:
            raise Malformed("it ends early")
        limits = source.limits
        most = {"model": limits.dim, "memory": limits.memory}.get(self.name)
        schema = limits.schema if self.itemsize == 8 else None
        return whole_array(self.name, source.take(size), most, self.itemsize, schema)


class NothingField:
    """None."""

    def write(self, out: FieldWriter, value: None) -> None:
        """Write a value."""

    def read(self, source: FieldReader) -> None:
        """Read a value."""
        return


class VarintField:
    """A whole number in as few bytes as it needs: seven bits per byte, the lowest first.

    Parameters
    ----------
    signed
        Whether it may be negative; then 0, -1, 1, -2, … are written as 0, 1, 2, 3, …
    """

    def __init__(self, *, signed: bool = False) -> None:
        self.signed = signed

    def write(self, out: FieldWriter, value: Any) -> None:
        """Write a value."""
        try:
            number = index(value)
        except TypeError:
            raise Malformed(f"a whole number was expected, got {value!r}") from None
        if not (-_HALF if self.signed else 0) <= number < _HALF:
            raise Malformed(f"a number of 64 bits that is at least 0 was expected, got {value!r}")
        if self.signed:
            number = (number << 1) ^ (number >> 63)
        found = bytearray()
        while number > 127:
            found.append(number & 127 | 128)
            number >>= 7
        found.append(number)
        out.parts.append(bytes(found))

    def read(self, source: FieldReader) -> int:
        """Read a value. Only the shortest form of a number is accepted."""
        number = shift = 0
        while True:
            byte = source.take(1)[0]
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
            if shift > 63:
                raise Malformed("a number is too long")
        if (byte == 0 and shift > 7) or number >= (2 * _HALF if self.signed else _HALF):
            raise Malformed("a number is not written in its shortest form, or too large")
        return (number >> 1) ^ -(number & 1) if self.signed else number


_HALF = 1 << 63


class FlatField:
    """A record whose fields are written one after the other, each by its own kind."""

    def __init__(self, type_: Any, *kinds: FieldKind) -> None:
        self.type, self.kinds = type_, kinds

    def write(self, out: FieldWriter, value: Any) -> None:
        """Write a value."""
        if len(value) != len(self.kinds):
            raise Malformed(f"{len(self.kinds)} fields were expected, got {value!r}")
        for kind, part in zip(self.kinds, value, strict=True):
            kind.write(out, part)

    def read(self, source: FieldReader) -> Any:
        """Read a value."""
        return self.type._make([kind.read(source) for kind in self.kinds])
