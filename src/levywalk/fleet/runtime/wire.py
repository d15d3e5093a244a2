"""Messages as protobuf frames; ``messages.proto`` defines a stream of them, and this file enforces
it.

Messages and frames have the same field names, and the type of a field in ``messages.proto`` says
which values are valid, so one translation serves all messages. Received bytes are not trusted:
`Reader` returns a message that a correct node of this run could have sent, or raises `Malformed`.
It allocates no more than the size of the frame and of the models that the run's manifest allows.
What `Reader` would refuse cannot be sent. Reading and writing are one file, to be seen together.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, cast, get_args

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.evidence import Lie, Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.lineage import LINEAGE_BYTES, MOST_ANSWER
from levywalk.fleet.protocol.links import KINDS, EpochLink, LinkKind, Opening, Right
from levywalk.fleet.protocol.messages import Guard, Message, Release
from levywalk.fleet.protocol.revocation import Revocation
from levywalk.fleet.protocol.schema import TensorSchema
from levywalk.fleet.protocol.starts import KEPT_LINKS, LINK
from levywalk.fleet.protocol.tensors import (
    CHUNK,
    HEADER,
    INLINE,
    Incoming,
    Malformed,
    Tensor,
    check_writable,
    whole_array,
)
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.runtime.messages_pb2 import Frame
from levywalk.fleet.storage.limits import Limits

# 1 had no links of epochs and no starts of nodes, 2 no questions and no revocations, 3 no sizes,
# 4 no token in Release, 5 no decision in it, no withdrawals and no given token in Guard, 6 no ends
# in lies
FORMAT = 8
CHUNK_MOST = CHUNK  # bytes of a tensor in one frame
MOST_FRAME = CHUNK_MOST + 1024
MOST_CERTIFICATE = 1 << 13
_CHUNK_TAG = (
    Frame.CHUNK_FIELD_NUMBER << 3 | 2
)  # the byte with which a chunk begins; no other frame does
_MOST_COUNT = (1 << 63) - 1
_MOST = {
    "signature": 512,
    "certificate": MOST_CERTIFICATE,
    "why": 1000,
    "software": 100,
    "proof": 64,
    "links": LINK * KEPT_LINKS,
    "lineage": LINEAGE_BYTES,
    "values": MOST_ANSWER,
}  # others: 32
_EXACTLY = {"manifest": 32, "incarnation": 16, "nonce": 16}


class Hello(NamedTuple):
    """The first message on a stream."""

    format: int
    manifest: bytes  # its SHA-256
    incarnation: bytes  # incarnation of the sender's state folder
    software: str
    certificate: bytes  # the sender's certificate, DER
    nonce: bytes = bytes(16)  # drawn by the end that connects, and repeated in the answer
    proof: bytes = b""  # signature of the answering end: it has the key of its certificate


def proven(manifest: bytes, nonce: bytes, answers: int, dials: int) -> bytes:
    """Return what the answering end signs.

    (gRPC does not tell which certificate a server has used for TLS.)
    """
    return b"hello|" + manifest + nonce + struct.pack("<qq", answers, dials)


# Checks of fields


def _check_count(name: str, value: int) -> None:
    if not 0 <= value <= _MOST_COUNT:
        raise Malformed(f"{name} must be at least 0 and below 2**63, got {value!r}")


def _check_finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise Malformed(f"{name} must be finite, got {value!r}")


def _check_scores(name: str, value: tuple[float, ...]) -> None:
    if not all(0.0 <= score < math.inf for score in value):
        raise Malformed(f"{name} must be finite and at least 0, got {value!r}")


def _check_size(name: str, value: bytes | str, most: int = 32) -> None:
    if len(value) > most:
        raise Malformed(f"{name} must have at most {most} {_unit(value)}, got {len(value)}")


def _check_exactly(name: str, value: bytes, size: int) -> None:
    if len(value) != size:
        raise Malformed(f"{name} must have {size} {_unit(value)}, got {len(value)}")


def _check_kind(name: str, value: str) -> None:
    if value not in KINDS:
        raise Malformed(f"there is no link of the kind {value[:100]!r}")


def _unit(value: bytes | str) -> str:
    return "characters" if isinstance(value, str) else "bytes"


def _check_of(field: FieldDescriptor) -> Callable[[str, Any], None] | None:
    """Return the check of a field's value that protobuf does not make itself."""
    name, type_ = field.name, field.type
    if type_ == FieldDescriptor.TYPE_UINT64:
        return _check_count
    if type_ in (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING):
        if name == "kind":
            return _check_kind
        if name in _EXACTLY:
            return partial(_check_exactly, size=_EXACTLY[name])
        return partial(_check_size, most=_MOST[name]) if name in _MOST else _check_size
    if type_ == FieldDescriptor.TYPE_DOUBLE:
        return _check_scores if name == "scores" else _check_finite
    return None


# Named tuples and protobuf messages


class _Following(list[Tensor]):
    """The large tensors that follow a frame, and how models are written."""

    def __init__(self, schema: TensorSchema | None) -> None:
        super().__init__()
        self.schema = schema


class _WireArray:
    """A tensor of this name, inside the message or after it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = 1 if name == "memory" else 8

    def write(self, value: AnyArray, after: _Following) -> dict[str, bytes]:
        check_writable(self.name, value, self.itemsize)
        tensor = Tensor(
            self.name,
            np.ascontiguousarray(value) if not value.flags.c_contiguous else value,
            after.schema if self.itemsize == 8 else None,
        )
        if tensor.nbytes <= INLINE:
            return {"inline": b"".join(tensor.chunks())}
        after.append(tensor)
        return {"address": tensor.address()}

    def read(self, source: Any, reader: Reader) -> AnyArray:
        count = reader.dim if self.itemsize == 8 else reader.memory
        schema = reader.schema if self.itemsize == 8 else None
        nbytes = self.itemsize * count if schema is None else schema.nbytes
        large = nbytes > INLINE
        if source.WhichOneof("content") != ("address" if large else "inline"):
            kind = "numbers" if self.itemsize == 8 else "bytes"
            raise Malformed(
                f"a {self.name} of {count} {kind} must come {'in chunks' if large else 'inline'}"
            )
        if large:
            return reader.expect(self.name, source.address, count, self.itemsize, schema)
        return whole_array(self.name, source.inline, count, self.itemsize, schema)


class _WireRecord:
    """A named tuple, as the protobuf message with the same fields."""

    def __init__(self, type_: Any, descriptor: Any) -> None:
        fields = descriptor.fields_by_name
        self.type, self.names = type_, type_._fields
        self.optional = _OPTIONAL.get(type_, ())
        assert set(self.names) == set(fields), type_
        self.values = attrgetter(
            *self.names, self.names[0]
        )  # one name more, since attrgetter returns no tuple for a single name
        self.checks = [
            (i, name, check)
            for i, name in enumerate(self.names)
            if (check := _check_of(fields[name])) and check is not _check_count
        ]
        self.counts = [
            i for i, name in enumerate(self.names) if _check_of(fields[name]) is _check_count
        ]
        self.scores = self.names.index("scores") if "scores" in self.names else None
        self.parts: list[tuple[int, str, _WireRecord | _WireArray]] = []
        for i, name in enumerate(self.names):
            inner = fields[name].message_type
            if inner is not None:
                part = (
                    _WireArray(name)
                    if inner.name == "Tensor"
                    else _WireRecord(_INNER[inner.name], inner)
                )
                self.parts.append((i, name, part))

    def _check(self, values: Sequence[Any]) -> None:
        for i in self.counts:
            if not 0 <= values[i] <= _MOST_COUNT:
                _check_count(self.names[i], values[i])
        for i, name, check in self.checks:
            check(name, values[i])

    def write(self, value: Any, after: _Following) -> dict[str, Any]:
        self._check(value)
        found = dict(zip(self.names, value, strict=True))
        for _, name, part in self.parts:
            if found[name] is None and name in self.optional:
                del found[name]
            else:
                found[name] = part.write(found[name], after)
        return found

    def read(self, source: Any, reader: Reader) -> Any:
        values = [*self.values(source)[:-1]]
        if self.scores is not None:
            values[self.scores] = tuple(values[self.scores])
            if len(values[self.scores]) != reader.phases:
                raise Malformed(
                    f"{reader.phases} scores were expected, got {len(values[self.scores])}"
                )
        self._check(values)
        if self.type is Opening:
            values[0] = LinkKind(values[0])
        for i, name, part in self.parts:
            if source.HasField(name):
                values[i] = part.read(values[i], reader)
            elif name in self.optional:
                values[i] = None
            else:
                raise Malformed(f"{name} is missing")
        return self.type._make(values)


_OPTIONAL: dict[type, tuple[str, ...]] = {
    Right: ("release", "link"),
    Lie: ("link", "pardon", "end"),
    Release: ("token",),
    Guard: ("given",),
}
_INNER = {
    one.__name__: one
    for one in (
        Epoch,
        Token,
        Certificate,
        Opening,
        Right,
        EpochLink,
        Ending,
        Pardon,
        Lie,
        Revocation,
        FleetSize,
    )
}
_KINDS: dict[str, _WireRecord] = {
    field.name: _WireRecord(type_, field.message_type)
    for type_ in (Hello, *get_args(Message))
    for field in [Frame.DESCRIPTOR.fields_by_name[type_.__name__.lower()]]
}


# Sending


def _frame(
    sender: int, value: Any, guardian_certificate: bytes, after: _Following, token: int = 0
) -> bytes:
    kind = type(value).__name__
    body = kind.lower()
    try:
        _check_size("guardian_certificate", guardian_certificate, MOST_CERTIFICATE)
        fields: Any = {body: _KINDS[body].write(value, after)}
        return Frame(
            sender=sender, guardian_certificate=guardian_certificate, token=token, **fields
        ).SerializeToString()
    except (TypeError, ValueError) as error:  # errors of protobuf, and Malformed
        raise Malformed(f"this {kind} cannot be sent: {error}") from None


def encode_frame(
    sender: int,
    message: Message,
    guardian_certificate: bytes = b"",
    schema: TensorSchema | None = None,
    token: int = 0,
) -> tuple[bytes, list[Tensor]]:
    r"""Return a message as a frame, and the large tensors whose `chunk_frames` must follow it, in
    this order. ``schema`` is that of models that are several named arrays; ``token`` says which of
    several tokens the message is about.

    Examples
    --------
    >>> from levywalk.fleet.protocol.messages import Alive
    >>> encode_frame(3, Alive(Epoch(0, 0, 3), 7))
    (b'\x08\x03J\x06\n\x02\x18\x06\x10\x07', [])
    """
    after = _Following(schema)
    return _frame(sender, message, guardian_certificate, after, token), after


def mark_of(start: int, commit: int) -> bytes:
    """Return the sender's start and the number of a write, as they follow a frame.

    Protobuf reads the two as one message. A frame that is sent again stays the same without them.
    """
    return Frame(start=start, commit=commit).SerializeToString()


def hello_frame(sender: int, hello: Hello) -> bytes:
    """Return the frame with which a stream begins."""
    return _frame(sender, hello, b"", _Following(None))


def chunk_frames(tensor: Tensor) -> Iterator[bytes]:
    """Yield a tensor as frames. Its bytes are copied once, into the frames.

    Examples
    --------
    >>> [len(frame) for frame in chunk_frames(Tensor("model", np.zeros(200_000)))]
    [1048580, 551556]
    """
    first = CHUNK_MOST - len(tensor.header)
    body = tensor.content()
    yield _chunk(tensor.header, body[:first])
    for at in range(first, len(body), CHUNK_MOST):
        yield _chunk(body[at : at + CHUNK_MOST])


def _chunk(*pieces: bytes | memoryview) -> bytes:
    return b"".join((bytes([_CHUNK_TAG]), _varint(sum(map(len, pieces))), *pieces))


def _varint(value: int) -> bytes:
    """Return a number as protobuf writes it: seven bits per byte, the lowest first."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


# Receiving


class Reader:
    """Reads the frames of one stream, in order.

    Parameters
    ----------
    limits
        The sizes that the manifest allows; all must be given.
    peer
        The node at the other end, as TLS has proved.
    tokens
        The number of tokens of the fleet.

    Examples
    --------
    >>> from levywalk.fleet.protocol.messages import Alive
    >>> reader = Reader(Limits(dim=10, phases=1, memory=0), peer=3)
    >>> reader.take(hello_frame(3, Hello(FORMAT, bytes(32), bytes(16), "levywalk 1.2", b"")))
    Hello(format=8, manifest=..., software='levywalk 1.2', certificate=b'', ...)
    >>> reader.take(encode_frame(3, Alive(Epoch(0, 0, 3), 7))[0])
    (Alive(epoch=Epoch(counter=0, seq=0, node=3), seq=7), b'')
    >>> reader.take(encode_frame(5, Alive(Epoch(0, 0, 3), 7))[0])
    Traceback (most recent call last):
    levywalk.fleet.protocol.tensors.Malformed: a frame from node 3 names node 5 as its sender
    """

    def __init__(self, limits: Limits, peer: int, tokens: int = 1) -> None:
        if limits.dim is None or limits.phases is None or limits.memory is None:
            raise InvalidParameter(
                f"limits must give all sizes, got {limits}: sizes are never taken from the wire"
            )
        self.dim, self.phases, self.memory, self.peer = (
            limits.dim,
            limits.phases,
            limits.memory,
            peer,
        )
        self.schema, self.greeted = limits.schema, False
        self._expected: list[
            tuple[Incoming, bytes]
        ] = []  # the tensors to come, and their addresses
        self._whole: tuple[Message, bytes] | None = None  # the message that they are part of
        self.mark = (0, 0)  # the sender's start, and the number of a write, of the last message
        self.tokens, self.token = tokens, 0  # how many there are; the last message is about this

    def take(self, data: bytes) -> Hello | tuple[Message, bytes] | None:
        """Return what is complete with this frame: a Hello, a message with the guardian's
        certificate, or None. A Hello of another format is also returned, so that the caller can
        report it; nothing after it can be read.
        """
        if len(data) > MOST_FRAME:
            raise Malformed(f"a frame of at most {MOST_FRAME} bytes was expected, got {len(data)}")
        if data and data[0] == _CHUNK_TAG:
            return self._take_chunk(data)
        if self._expected:
            raise Malformed(
                f"a chunk of a {self._expected[0][0].name} was expected, got another frame"
            )
        try:
            frame = Frame.FromString(data)
        except DecodeError:
            raise Malformed("the bytes are not a frame") from None
        if frame.sender != self.peer:
            raise Malformed(
                f"a frame from node {self.peer} names node {frame.sender} as its sender"
            )
        body = cast("str | None", frame.WhichOneof("body"))
        if body is None or body == "chunk":
            raise Malformed("a frame with one message or one chunk alone was expected")
        if (body == "hello") is self.greeted:
            raise Malformed(
                "a second Hello" if self.greeted else f"a Hello was expected first, got {body}"
            )
        known = body != "hello" or frame.hello.format == FORMAT
        frame.DiscardUnknownFields()
        if known and frame.ByteSize() != len(data):
            raise Malformed("a frame with unknown or repeated fields")
        if frame.token >= (1 if body == "hello" else self.tokens):
            raise Malformed(
                f"a message about token {frame.token}, but there are tokens 0 to {self.tokens - 1}"
            )
        kind = _KINDS[body]
        try:
            _check_size("guardian_certificate", frame.guardian_certificate, MOST_CERTIFICATE)
            _check_count("start", frame.start)
            _check_count("commit", frame.commit)
            value = kind.read(getattr(frame, body), self)
        except Malformed as error:
            raise Malformed(f"not a valid {kind.type.__name__}: {error}") from None
        if body == "hello":
            self.greeted = known
            return cast(Hello, value)
        self.mark, self.token = (frame.start, frame.commit), frame.token
        if not self._expected:
            return value, frame.guardian_certificate
        self._whole = (value, frame.guardian_certificate)
        return None

    def expect(
        self, name: str, address: bytes, count: int, itemsize: int, schema: TensorSchema | None
    ) -> AnyArray:
        """Return the array of a tensor that follows in chunks. The chunks will fill it."""
        _check_exactly("address", address, 32)
        size = HEADER + itemsize * count
        if schema is not None:
            size = len(schema.header) + schema.nbytes
        incoming = Incoming(name, size, count, itemsize=itemsize, schema=schema)
        self._expected.append((incoming, address))
        return incoming.array

    def _take_chunk(self, data: bytes) -> tuple[Message, bytes] | None:
        if not self._expected:
            raise Malformed("a chunk that no message announced")
        count = at = 0
        while True:
            at += 1
            if at > 4 or at >= len(data):
                raise Malformed("the bytes are not a chunk")
            count |= (data[at] & 127) << 7 * (at - 1)
            if data[at] < 128:
                break
        if not 0 < count <= CHUNK_MOST or at + 1 + count != len(data):
            raise Malformed(
                f"a chunk of 1 to {CHUNK_MOST} bytes, alone in its frame, was expected, got "
                f"{count} of {len(data)}"
            )
        incoming, address = self._expected[0]
        incoming.take(memoryview(data)[at + 1 :])
        if incoming.at < incoming.size:
            return None
        incoming.done(address)  # makes the array read-only; it is part of the message already
        del self._expected[0]
        if self._expected:
            return None
        whole, self._whole = self._whole, None  # so that an idle stream keeps no model in memory
        return whole
