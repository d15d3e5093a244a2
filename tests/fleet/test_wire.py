from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol import messages
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.evidence import Lie, Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.links import EpochLink, Right
from levywalk.fleet.protocol.messages import Certificate, Message
from levywalk.fleet.protocol.revocation import Revocation
from levywalk.fleet.protocol.tensors import HEADER, INLINE, Malformed, Tensor
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.runtime.messages_pb2 import Frame
from levywalk.fleet.runtime.wire import (
    CHUNK_MOST,
    FORMAT,
    MOST_CERTIFICATE,
    MOST_FRAME,
    Hello,
    Reader,
    chunk_frames,
    encode_frame,
    hello_frame,
)
from levywalk.fleet.storage.limits import Limits
from tests.fleet.test_codec import (
    LIMITS,
    MEMORY,
    OPENING,
    bits,
    certificates,
    counts,
    digests,
    ends,
    epochs,
    large,
    lies,
    links,
    revocations,
    scores,
    sizes,
    token_with,
    tokens,
)
from tests.limits import mostly_more

PEER = 3
HELLO = Hello(FORMAT, bytes(range(32)), bytes(range(16)), "levywalk 0.1", b"certificate")
by_field: dict[Any, st.SearchStrategy[Any]] = {
    Token: tokens,
    Token | None: st.none() | tokens,
    Epoch: epochs,
    Certificate: certificates,
    EpochLink: links,
    Lie: lies,
    Revocation: revocations,
    FleetSize: sizes,
    Ending: ends,
    int: counts,
    bool: st.booleans(),
    bytes: digests,
    str: st.text(max_size=100),
    tuple[float, ...]: scores,
}
said: st.SearchStrategy[Any] = st.one_of(
    *[
        st.builds(kind, *[by_field[hint] for hint in get_type_hints(kind).values()])
        for kind in get_args(Message)
    ]
)

TOKEN = Token(
    Epoch(1, 2, 3),
    4,
    5,
    6,
    7,
    8,
    9,
    np.arange(3.0),
    1,
    np.arange(MEMORY, dtype=np.uint8),
    10,
    11,
    12,
    13,
    b"chain",
    14,
    15,
)
SEAL = Certificate(1, Epoch(1, 2, 3), 4, 5, 6, b"digest", b"signature")
LINK = EpochLink(OPENING, Right(SEAL, OPENING))  # a link carries one right; the wire takes both
PARDON = Pardon(1, Epoch(1, 2, 3), b"signature")
END = Ending(1, Epoch(1, 2, 3), 4, 5, b"digest", b"signature", Right(None, OPENING))
EXAMPLES: dict[str, Message] = {
    type(message).__name__: message
    for message in [
        messages.Prepare(TOKEN, 1),
        messages.Prepared(FIRST, 1, b"d"),
        messages.Refused(FIRST, 1, b"d", "why"),
        messages.Release(FIRST, 1, 2, b"d", 3),
        messages.Released(SEAL),
        messages.Withdraw(FIRST, 1, 2),
        messages.Withdrawn(FIRST, 1, 2),
        messages.Activate(SEAL),
        messages.Certified(SEAL),
        messages.Alive(FIRST, 1),
        messages.Renew(TOKEN),
        messages.Renewed(FIRST, 1, 2),
        messages.Guard(TOKEN, LINK),
        messages.Guarding(FIRST, 1),
        messages.Fenced(LINK),
        messages.Exposed(Lie(OPENING, SEAL, PARDON)),
        messages.Revoked(Revocation(3, PARDON.epoch, b"s" * 64)),
        messages.Heartbeat(FIRST, b"12345678", True, 2, True, 3, 4, (0.5, 1.5)),
        messages.Finished(TOKEN, END),
        messages.Greeting(b"o" * 16, 2, b"l" * 32, 3),
        messages.Sighting(b"o" * 16, 2, b"l" * 16, 3, True, b"a" * 16),
        messages.Question(FIRST, 1, 2, 3, b"l" * 408),
        messages.Answer(FIRST, 1, 2, 3, b"v" * 8),
        messages.Sized(FleetSize(1, 9, 3.5, b"s")),
    ]
}


def linked(**changes: Any) -> EpochLink:
    return LINK._replace(opening=OPENING._replace(**changes))


def greeted(limits: Limits = LIMITS) -> Reader:
    reader = Reader(limits, PEER)
    assert reader.take(hello_frame(PEER, HELLO)) == HELLO
    return reader


def frames_of(message: Message, guardian_certificate: bytes = b"") -> list[bytes]:
    data, after = encode_frame(PEER, message, guardian_certificate)
    return [data, *(frame for tensor in after for frame in chunk_frames(tensor))]


def through(frames: Iterable[bytes], reader: Reader) -> tuple[Any, ...]:
    return tuple(found for frame in frames if (found := reader.take(frame)) is not None)


# What was said is what is heard


@given(value=said, certificate=st.binary(max_size=100))
def test_every_message_comes_back_to_the_bit(value: Message, certificate: bytes) -> None:
    frames = frames_of(value, certificate)
    assert len(frames) == 1
    ((found, with_it),) = through(frames, greeted())
    assert bits(found) == bits(value)
    assert with_it == certificate
    assert frames_of(found, with_it) == frames


def test_there_is_an_example_of_every_message() -> None:
    assert {type(message) for message in EXAMPLES.values()} == set(get_args(Message))


def test_the_format_is_what_it_was() -> None:
    """If this fails, nodes of another version are no longer understood: give `FORMAT` another
    number.
    """
    revoked = encode_frame(PEER, EXAMPLES["Revoked"], b"c")[0]
    assert hashlib.sha256(revoked).hexdigest()[:16] == "e2b4d3328f1fa392"
    grown = encode_frame(PEER, EXAMPLES["Sized"], b"c")[0]
    assert hashlib.sha256(grown).hexdigest()[:16] == "0ed0751228bc6e5d"
    later = (messages.Question, messages.Answer)  # messages that were added later
    added = b"".join(encode_frame(PEER, EXAMPLES[kind.__name__], b"c")[0] for kind in later)
    assert hashlib.sha256(added).hexdigest()[:16] == "34d8635e41629e67"
    shown = EXAMPLES["Release"]._replace(token=EXAMPLES["Prepare"].token)
    of_format_6 = (messages.Release, messages.Withdraw, messages.Withdrawn)  # others are as in 4
    asked = [shown, *(EXAMPLES[kind.__name__] for kind in of_format_6)]
    withdrawn = b"".join(encode_frame(PEER, message, b"c")[0] for message in asked)
    assert hashlib.sha256(withdrawn).hexdigest()[:16] == "4b900b9df039641f"
    opened = EXAMPLES["Guard"]._replace(given=EXAMPLES["Prepare"].token)
    frame = encode_frame(PEER, opened, b"c")[0]  # format 6
    assert hashlib.sha256(frame).hexdigest()[:16] == "97495b9af9a76b82"
    beat = encode_frame(PEER, EXAMPLES["Heartbeat"], b"c")[0]  # format 7
    assert hashlib.sha256(beat).hexdigest()[:16] == "7c8d7b45dcfac810"
    ended = encode_frame(PEER, OF_AN_END, b"c")[0]  # format 7
    assert hashlib.sha256(ended).hexdigest()[:16] == "74046c3a8cb70830"
    elsewhere = (messages.Revoked, messages.Sized, messages.Heartbeat)
    frames = [
        hello_frame(PEER, HELLO._replace(format=4)),
        *(
            encode_frame(PEER, message, b"c")[0]
            for message in EXAMPLES.values()
            if not isinstance(message, (*later, *of_format_6, *elsewhere))
        ),
    ]
    frames += chunk_frames(Tensor("model", np.arange(10_000.0)))
    frames += chunk_frames(Tensor("memory", np.arange(80_000).astype(np.uint8)))
    assert hashlib.sha256(b"".join(frames)).hexdigest()[:16] == "003d460be28777be"


def test_a_large_model_follows_its_message_in_chunks() -> None:
    token = Token.first(large(), large(1).view(np.uint8))
    message, limits = messages.Prepare(token, 4), Limits(300_000, 1, 8 * 300_000)
    data, after = encode_frame(PEER, message, b"certificate")
    assert len(data) < 200
    assert [tensor.name for tensor in after] == ["model", "memory"]
    reader = greeted(limits)
    assert reader.take(data) is None
    chunks = [frame for tensor in after for frame in chunk_frames(tensor)]
    assert len(chunks) == 2 * 3
    assert max(map(len, chunks)) <= MOST_FRAME
    for frame in chunks[:-1]:
        assert reader.take(frame) is None
    found, certificate = reader.take(chunks[-1])
    assert bits(found) == bits(message)
    assert certificate == b"certificate"
    assert found.token.digest() == token.digest()
    assert not found.token.model.flags.writeable
    assert not found.token.memory.flags.writeable
    assert through(frames_of(messages.Alive(FIRST, 1)), reader) == (
        (messages.Alive(FIRST, 1), b""),
    )


def test_chunks_are_what_protobuf_reads_and_writes() -> None:
    tensor = Tensor("model", large())
    frames = list(chunk_frames(tensor))
    assert frames == [
        Frame(chunk=Frame.FromString(frame).chunk).SerializeToString() for frame in frames
    ]
    content = [Frame.FromString(frame).chunk for frame in frames]
    assert b"".join(content) == b"".join(tensor.chunks())
    assert [len(chunk) for chunk in content[:-1]] == [CHUNK_MOST] * 2


def test_a_stream_at_rest_keeps_no_model_alive() -> None:
    reader, chunks = expecting()
    model = weakref.ref(through(chunks, reader)[0][0].token.model)
    assert model() is None


@pytest.mark.parametrize(("dim", "frames"), [(INLINE // 8, 1), (INLINE // 8 + 1, 2)])
def test_a_model_lies_in_its_message_up_to_64_KiB(dim: int, frames: int) -> None:
    message = messages.Renew(Token.first(np.arange(float(dim))))
    sent = frames_of(message)
    assert len(sent) == frames
    assert bits(through(sent, greeted(Limits(dim, 1, 0)))) == bits(((message, b""),))


@pytest.mark.parametrize(("size", "frames"), [(0, 1), (1, 1), (INLINE, 1), (INLINE + 1, 2)])
def test_a_memory_lies_in_its_message_up_to_64_KiB(size: int, frames: int) -> None:
    message = messages.Renew(Token.first(np.arange(3.0), np.arange(size).astype(np.uint8)))
    sent = frames_of(message)
    assert len(sent) == frames
    ((found, certificate),) = through(sent, greeted(Limits(3, 1, size)))
    assert bits((found, certificate)) == bits((message, b""))
    assert found.token.digest() == message.token.digest()
    assert not found.token.memory.flags.writeable


# Anything at all may come


class Fuzz:
    """Streams of good frames, and what an enemy makes of them."""

    dim = 9000  # its model and its memory come in chunks, small ones here
    limits = Limits(dim, 2, 8 * dim)

    def __init__(self) -> None:
        model = np.random.default_rng(0).normal(size=self.dim)
        token = Token.first(model, model[::-1].copy().view(np.uint8))
        self.good: list[bytes] = [hello_frame(PEER, HELLO)]
        for message in EXAMPLES.values():
            if hasattr(message, "token"):
                data, after = encode_frame(PEER, message._replace(token=token))
                self.good += [data, *(frame for tensor in after for frame in self.pieces(tensor))]
            else:
                self.good += frames_of(message)

    @staticmethod
    def pieces(tensor: Tensor) -> Iterator[bytes]:
        content = b"".join(tensor.chunks())
        for at in range(0, len(content), 30_000):
            yield Frame(chunk=content[at : at + 30_000]).SerializeToString()

    def listen(self, frames: Iterable[bytes], limits: Limits) -> int:
        """Return how many messages came before the end or the first that is malformed; each could
        have been sent.
        """
        reader, count, size = Reader(limits, PEER), 0, 0
        for frame in frames:
            try:
                found = reader.take(frame)
            except Malformed:
                return count
            if isinstance(found, Hello):
                continue
            size = size or len(frame)
            if found is not None:
                again = frames_of(*found)
                assert len(again[0]) == size  # nothing was said twice, or beside
                assert bits(through(again, greeted(limits))) == bits((found,))
                count, size = count + 1, 0
        return count


FUZZ = Fuzz()


def test_the_streams_that_are_fuzzed_are_good_ones() -> None:
    assert FUZZ.listen(FUZZ.good, FUZZ.limits) == len(EXAMPLES)


@given(data=st.data())
def test_a_stream_that_was_tampered_with_is_refused_or_means_something_else(
    data: st.DataObject,
) -> None:
    first = data.draw(st.integers(0, len(FUZZ.good) - 1))
    frames = [FUZZ.good[0], *FUZZ.good[first : first + 12]]
    for _ in range(data.draw(st.integers(1, 3))):
        i, j = (data.draw(st.integers(0, len(frames) - 1)) for _ in range(2))
        what = data.draw(
            st.sampled_from(["cut", "splice", "join", "twice", "swap", "drop", "insert"])
        )
        at = data.draw(st.integers(0, len(frames[i])))
        if what == "cut":
            frames[i] = frames[i][:at]
        elif what == "splice":
            frames[i] = frames[i][:at] + frames[j][data.draw(st.integers(0, len(frames[j]))) :]
        elif what == "join":
            frames[i] += frames[j]
        elif what == "twice":
            frames.insert(j, frames[i])
        elif what == "swap":
            frames[i], frames[j] = frames[j], frames[i]
        elif what == "drop" and len(frames) > 1:
            del frames[i]
        elif what == "insert":
            frames[i] = frames[i][:at] + data.draw(st.binary(max_size=20)) + frames[i][at:]
    FUZZ.listen(frames, FUZZ.limits)


@given(value=said, data=st.data())
def test_a_frame_with_flipped_bits_is_refused_or_another_message(
    value: Message, data: st.DataObject
) -> None:
    frame = bytearray(frames_of(value)[0])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    FUZZ.listen([hello_frame(PEER, HELLO), bytes(frame)], LIMITS)


@pytest.mark.parametrize(
    "name", mostly_more(EXAMPLES, lambda name: len(frames_of(EXAMPLES[name])[0]) < 300)
)
def test_every_bit_of_every_message_may_be_flipped(name: str) -> None:
    (frame,) = frames_of(EXAMPLES[name])
    hello = hello_frame(PEER, HELLO)
    heard = 0
    for i in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[i // 8] ^= 1 << i % 8
        heard += FUZZ.listen([hello, bytes(flipped)], LIMITS)
    assert 0 < heard < 8 * len(frame)  # some bits are numbers, and some are not


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_frame_that_was_cut_is_refused(name: str) -> None:
    (frame,) = frames_of(EXAMPLES[name], b"certificate")
    for end in range(len(frame)):
        with pytest.raises(Malformed):
            greeted().take(frame[:end])


@given(frames=st.lists(st.binary(max_size=300), max_size=4), begun=st.booleans())
def test_no_bytes_do_harm(frames: list[bytes], begun: bool) -> None:
    FUZZ.listen([hello_frame(PEER, HELLO)] * begun + frames, LIMITS)
    FUZZ.listen(
        [hello_frame(PEER, HELLO)] * begun + [b"\x08\x03" + frame for frame in frames], LIMITS
    )


@given(order=st.permutations(range(6)))
def test_chunks_in_another_order_are_refused(order: list[int]) -> None:
    token = Token.first(large()[: Fuzz.dim].copy(), large(1)[: Fuzz.dim].copy().view(np.uint8))
    data, after = encode_frame(PEER, messages.Renew(token))
    chunks = [piece for tensor in after for piece in Fuzz.pieces(tensor)]
    assert len(chunks) == len(order)
    reader = greeted(Fuzz.limits)
    reader.take(data)
    moved = [chunks[i] for i in order]
    if moved == chunks:
        assert len(through(moved, reader)) == 1
    else:
        with pytest.raises(Malformed):
            through(moved, reader)


# The rules, one by one


def hostile(message: Message, reader: Reader | None = None, **fields: Any) -> Any:
    """Return what a reader makes of a message whose protobuf fields were changed, given by their
    paths (a__b).
    """
    frame = Frame.FromString(encode_frame(PEER, message)[0])
    body = getattr(frame, type(message).__name__.lower())
    for path, value in fields.items():
        *outer, last = path.split("__")
        at = body
        for name in outer:
            at = getattr(at, name)
        if value is None:
            at.ClearField(last)
        elif isinstance(value, list):
            getattr(at, last)[:] = value
        else:
            setattr(at, last, value)
    return (reader or greeted()).take(frame.SerializeToString())


def paths(descriptor: Any, before: str = "") -> Iterator[tuple[str, FieldDescriptor]]:
    for field in descriptor.fields:
        yield before + field.name, field
        if field.message_type is not None:
            yield from paths(field.message_type, f"{before}{field.name}__")


BAD: dict[int, list[tuple[Any, str]]] = {
    FieldDescriptor.TYPE_UINT64: [
        (2**63, "at least 0 and below"),
        (2**64 - 1, "at least 0 and below"),
    ],
    FieldDescriptor.TYPE_BYTES: [(bytes(1100), "at most (32|256|408|512|1024) bytes, got 1100")],
    FieldDescriptor.TYPE_STRING: [
        ("é" * 1001, "at most 1000 characters, got 1001|there is no link of the kind 'éé")
    ],
    FieldDescriptor.TYPE_DOUBLE: [(bad, "must be finite") for bad in (np.nan, np.inf, -np.inf)],
    FieldDescriptor.TYPE_MESSAGE: [(None, "is missing")],
}
EVERY = [
    pytest.param(name, path, bad, says, id=f"{name}-{path}-{i}")
    for name in EXAMPLES
    for path, field in paths(Frame.DESCRIPTOR.fields_by_name[name.lower()].message_type)
    for i, (bad, says) in enumerate(BAD.get(field.type, []))
    if path.split("__")[-1] not in ("inline", "address", "scores")
    and not path.endswith(("right__release", "right__link", "pardon"))  # which may be missing
    and (name, path) not in {("Release", "token"), ("Guard", "given")}
    and (name, path) not in {("Exposed", "lie__link"), ("Exposed", "lie__end")}
]
OF_AN_END = messages.Exposed(Lie(None, SEAL, PARDON, END))


@pytest.mark.parametrize(("name", "path", "bad", "says"), EVERY)
def test_every_field_is_checked(name: str, path: str, bad: Any, says: str) -> None:
    message = OF_AN_END if path.startswith("lie__end__") else EXAMPLES[name]
    with pytest.raises(Malformed, match=f"^not a valid {name}: {path.split('__')[-1]} .*{says}"):
        hostile(whole(message), **{path: bad})


def whole(message: Any) -> Any:
    """Return an example with all that it may carry."""
    if isinstance(message, messages.Release):
        return message._replace(token=EXAMPLES["Prepare"].token)
    if isinstance(message, messages.Guard):
        return message._replace(given=EXAMPLES["Prepare"].token)
    return message


def test_what_must_hold_of_a_field_does_hold_at_its_limits() -> None:
    top = 2**63 - 1
    found, _ = hostile(
        messages.Refused(FIRST, 1, b"", ""), seq=top, digest=bytes(32), why="é" * 1000
    )
    assert found == messages.Refused(FIRST, top, bytes(32), "é" * 1000)
    found, _ = hostile(
        messages.Released(SEAL), certificate__signature=bytes(512), certificate__to=-(2**63)
    )
    assert found.certificate == SEAL._replace(signature=bytes(512), to=-(2**63))
    found, _ = hostile(messages.Renew(TOKEN), token__came_from=-(2**63), token__small_messages=top)
    assert (found.token.came_from, found.token.small_messages) == (-(2**63), top)
    content = b"".join(Tensor("memory", np.full(MEMORY, 255, np.uint8)).chunks())
    found, _ = hostile(messages.Renew(TOKEN), token__memory__inline=content)
    assert found.token.memory.tolist() == [255] * MEMORY


@pytest.mark.parametrize(
    "bad", [[np.nan, 1.0], [-1.0, 1.0], [np.inf, 1.0], [1.0], [1.0, 1.0, 1.0], [], [1.0] * 10_000]
)
def test_scores_that_would_lead_the_walk_astray_are_refused(bad: list[float]) -> None:
    with pytest.raises(Malformed, match=r"finite and at least 0|2 scores were expected, got"):
        hostile(EXAMPLES["Heartbeat"], scores=bad)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_is_not_finite_is_refused_both_ways(bad: float) -> None:
    content = b"".join(Tensor("model", np.array([bad, 1.0, 2.0])).chunks())
    with pytest.raises(Malformed, match="not a valid Renew: a model contains NaN or infinity"):
        hostile(messages.Renew(TOKEN), token__model__inline=content)
    with pytest.raises(Malformed, match="this Renew cannot be sent: a model of finite numbers"):
        encode_frame(PEER, messages.Renew(token_with(model=np.array([bad, 1.0, 2.0]))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"F64"', b'"I64"'),
        (b'"F64"', b'"F32"'),
        (b'"shape":[3]', b'"shape":[9]'),
        (b'"shape":[3]', b'"shape":[ ]'),
        (b'"data_offsets":[0,24]', b'"data_offsets":[8,32]'),
        (b'"model"', b'"madel"'),
        (struct.pack("<Q", HEADER - 8), struct.pack("<Q", 2**63)),
    ],
)
def test_a_model_of_another_type_shape_or_name_is_refused(old: bytes, new: bytes) -> None:
    content = b"".join(Tensor("model", TOKEN.model).chunks())
    assert content.count(old) == 1
    with pytest.raises(
        Malformed, match="a model of 3 numbers of type float64 was expected, got the header"
    ):
        hostile(messages.Renew(TOKEN), token__model__inline=content.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"U8"', b'"I8"'),
        (b'"U8"', b'"F64"'),
        (b'"shape":[48]', b'"shape":[49]'),
        (b'"shape":[48]', b'"shape":[ ]'),
        (b'"data_offsets":[0,48]', b'"data_offsets":[8,56]'),
        (b'"memory"', b'"memury"'),
        (struct.pack("<Q", HEADER - 8), struct.pack("<Q", 2**63)),
    ],
)
def test_a_memory_of_another_type_shape_or_name_is_refused(old: bytes, new: bytes) -> None:
    content = b"".join(Tensor("memory", TOKEN.memory).chunks())
    assert content.count(old) == 1
    longer = len(new) - len(old)  # so that the size stays right, spaces of the header make room
    changed = (
        content.replace(old, new).replace(b" " * longer, b"", 1)
        if longer > 0
        else content.replace(old, new)
    )
    changed = changed[:HEADER].ljust(HEADER) + content[HEADER:]
    with pytest.raises(Malformed, match="a memory of 48 bytes was expected, got the header"):
        hostile(messages.Renew(TOKEN), token__memory__inline=changed)


@pytest.mark.parametrize("size", [0, 1, MEMORY - 1, MEMORY + 1, 8 * MEMORY, INLINE])
def test_a_memory_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"with 48 bytes was expected, got {HEADER + size} bytes"):
        through(frames_of(messages.Renew(token_with(memory=np.ones(size, np.uint8)))), greeted())


def test_a_memory_where_none_travels_is_refused() -> None:
    with pytest.raises(Malformed, match=f"with 0 bytes was expected, got {HEADER + MEMORY} bytes"):
        through(frames_of(messages.Renew(token_with())), greeted(LIMITS._replace(memory=0)))


def test_a_small_memory_must_come_inline_and_a_large_one_in_chunks() -> None:
    with pytest.raises(Malformed, match="a memory of 48 bytes must come inline"):
        hostile(messages.Renew(TOKEN), token__memory__address=bytes(32))
    with pytest.raises(Malformed, match="a memory of 48 bytes must come inline"):
        hostile(messages.Renew(TOKEN), token__memory__inline=None)
    content = b"".join(Tensor("memory", np.zeros(70_000, np.uint8)).chunks())
    with pytest.raises(Malformed, match="a memory of 70000 bytes must come in chunks"):
        hostile(messages.Renew(TOKEN), greeted(Limits(3, 2, 70_000)), token__memory__inline=content)


def test_a_large_memory_with_another_hash_is_refused() -> None:
    token = token_with(memory=np.arange(70_000).astype(np.uint8))
    data, *chunks = frames_of(messages.Renew(token))
    reader = greeted(Limits(3, 2, 70_000))
    assert reader.take(data) is None
    with pytest.raises(Malformed, match="a memory does not have the announced hash"):
        through([*chunks[:-1], chunks[-1][:-1] + bytes([chunks[-1][-1] ^ 1])], reader)


@pytest.mark.parametrize("dim", [0, 1, 2, 4, 8000])
def test_a_model_of_another_size_is_refused(dim: int) -> None:
    with pytest.raises(
        Malformed,
        match=f"with 3 numbers of type float64 was expected, got {HEADER + 8 * dim} bytes",
    ):
        through(frames_of(messages.Renew(token_with(model=np.ones(dim)))), greeted())


def test_a_small_model_must_come_inline_and_a_large_one_in_chunks() -> None:
    with pytest.raises(Malformed, match="a model of 3 numbers must come inline"):
        hostile(messages.Renew(TOKEN), token__model__address=bytes(32))
    with pytest.raises(Malformed, match="a model of 3 numbers must come inline"):
        hostile(messages.Renew(TOKEN), token__model__inline=None)
    content = b"".join(Tensor("model", np.zeros(20_000)).chunks())
    with pytest.raises(Malformed, match="a model of 20000 numbers must come in chunks"):
        hostile(
            messages.Renew(TOKEN), greeted(Limits(20_000, 1, MEMORY)), token__model__inline=content
        )


@pytest.mark.parametrize("address", [b"", bytes(31), bytes(33)])
def test_an_address_is_a_SHA_256(address: bytes) -> None:
    with pytest.raises(Malformed, match="address must have 32 bytes"):
        hostile(
            messages.Renew(TOKEN), greeted(Limits(20_000, 1, MEMORY)), token__model__address=address
        )


def expecting(dim: int = 300_000) -> tuple[Reader, list[bytes]]:
    """Return a reader that expects a large model, and its chunks."""
    data, *chunks = frames_of(messages.Renew(Token.first(large()[:dim].copy())))
    reader = greeted(Limits(dim, 1, 0))
    assert reader.take(data) is None
    return reader, chunks


def test_a_model_with_another_hash_is_refused() -> None:
    reader, chunks = expecting()
    with pytest.raises(Malformed, match="a model does not have the announced hash"):
        through([*chunks[:-1], chunks[-1][:-1] + bytes([chunks[-1][-1] ^ 1])], reader)


def test_a_large_model_that_is_not_finite_is_refused() -> None:
    model = np.ones(20_000)
    data, _ = encode_frame(PEER, messages.Renew(Token.first(model)))
    model[7] = np.nan
    bad = Tensor("model", model)
    frame = Frame.FromString(data)
    frame.renew.token.model.address = bad.address()
    with pytest.raises(Malformed, match="a model contains NaN or infinity"):
        through([frame.SerializeToString(), *chunk_frames(bad)], greeted(Limits(20_000, 1, 0)))


def test_a_model_that_goes_on_after_its_end_is_refused() -> None:
    reader, chunks = expecting()
    last = Frame.FromString(chunks[-1]).chunk
    with pytest.raises(Malformed, match="is longer than announced"):
        through([*chunks[:-1], Frame(chunk=last + b"74046c3a8cb70830").SerializeToString()], reader)


def test_a_chunk_that_nobody_expects_is_refused() -> None:
    reader, chunks = expecting()
    assert len(through(chunks, reader)) == 1
    with pytest.raises(Malformed, match="a chunk that no message announced"):
        reader.take(chunks[-1])
    with pytest.raises(Malformed, match="a chunk that no message announced"):
        Reader(LIMITS, PEER).take(chunks[0])


@pytest.mark.parametrize(
    "frame", [*frames_of(messages.Alive(FIRST, 1)), hello_frame(PEER, HELLO), b""]
)
def test_nothing_comes_between_a_message_and_its_chunks(frame: bytes) -> None:
    reader, chunks = expecting()
    assert reader.take(chunks[0]) is None
    with pytest.raises(Malformed, match="a chunk of a model was expected, got another frame"):
        reader.take(frame)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x12",  # no length
        b"\x12\x00",  # nothing
        b"\x12\x80",
        b"\x12\x02a",  # not whole
        b"\x12\x01ab",  # something after it
        b"\x12\x81\x80\x80\x80\x00a",  # a length in more bytes than any chunk needs
        b"\x12\xff\xff\xff\xffa",
        b"\x12\x01a\x08\x03",  # a sender
        b"\x12\x81\x80\x40" + bytes(CHUNK_MOST + 1),
    ],
)
def test_what_is_not_a_chunk_is_refused(frame: bytes) -> None:
    reader, _ = expecting()
    with pytest.raises(
        Malformed,
        match=r"not a chunk|a chunk of 1 to 1048576 bytes, alone in its frame, was expected",
    ):
        reader.take(frame)


def test_a_chunk_stands_alone_in_its_frame() -> None:
    reader, _ = expecting()
    with pytest.raises(Malformed, match="a chunk of a model was expected, got another frame"):
        reader.take(Frame(sender=PEER, chunk=b"a").SerializeToString())
    with pytest.raises(Malformed, match="one message or one chunk alone"):
        greeted().take(Frame(sender=PEER, chunk=b"a").SerializeToString())


def test_a_frame_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(
        Malformed, match=f"a frame of at most {MOST_FRAME} bytes was expected, got {MOST_FRAME + 1}"
    ):
        greeted().take(bytes(MOST_FRAME + 1))
    with pytest.raises(Malformed, match="not a frame"):
        greeted().take(bytes(MOST_FRAME))


@pytest.mark.parametrize("sender", [0, 5, 2**32 - 1])
@pytest.mark.parametrize("begun", [True, False])
def test_nobody_speaks_for_another(sender: int, begun: bool) -> None:
    reader = greeted() if begun else Reader(LIMITS, PEER)
    frame = (
        encode_frame(sender, messages.Alive(FIRST, 1))[0] if begun else hello_frame(sender, HELLO)
    )
    with pytest.raises(Malformed, match=f"a frame from node 3 names node {sender} as its sender"):
        reader.take(frame)


def test_a_frame_has_one_body() -> None:
    alive, fenced = (
        frames_of(message)[0] for message in (messages.Alive(FIRST, 1), messages.Fenced(LINK))
    )
    with pytest.raises(Malformed, match="one message or one chunk alone was expected"):
        greeted().take(b"\x08\x03")
    for other in (alive, fenced, fenced[2:], b"\x12\x01a"):
        with pytest.raises(Malformed, match=r"repeated fields|one message or one chunk alone"):
            greeted().take(alive + other)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x08\x03\x4a\x04\x0a\x00\x10\x07"
        + b"\xf8\x07\x01",  # an unknown field 127 of the frame …
        b"\x08\x03\x4a\x06\x0a\x00\x10\x07\x78\x01",  # … of Alive …
        b"\x08\x03\x4a\x06\x0a\x02\x78\x01\x10\x07",  # … and of its epoch
        b"\x08\x03\x4a\x06\x0a\x00\x10\x07\x10\x07",  # seq twice
        b"\x08\x03\x4a\x05\x0a\x00\x10\x87\x00",  # seq in two bytes, where one is enough
        b"\x08\x03\x4a\x06\x0a\x02\x08\x00\x10\x07",  # a 0 that need not be written
        b"\x08\x03\x4a\x06\x0a\x00\x0a\x00\x10\x07",  # the epoch twice
        b"\x08\x05\x08\x03\x4a\x04\x0a\x00\x10\x07",  # the sender twice
    ],
)
def test_a_frame_says_everything_once_and_nothing_else(frame: bytes) -> None:
    plain = b"\x08\x03\x4a\x04\x0a\x00\x10\x07"
    assert greeted().take(plain) == (messages.Alive(Epoch(0, 0, 0), 7), b"")
    with pytest.raises(Malformed, match="unknown or repeated fields"):
        greeted().take(frame)


def test_a_guardians_certificate_has_at_most_8_KiB() -> None:
    message = messages.Activate(SEAL)
    assert through(frames_of(message, bytes(MOST_CERTIFICATE)), greeted()) == (
        (message, bytes(MOST_CERTIFICATE)),
    )
    with pytest.raises(
        Malformed, match="guardian_certificate must have at most 8192 bytes, got 8193"
    ):
        encode_frame(PEER, message, bytes(MOST_CERTIFICATE + 1))
    frame = Frame.FromString(encode_frame(PEER, message)[0])
    frame.guardian_certificate = bytes(MOST_CERTIFICATE + 1)
    with pytest.raises(
        Malformed, match="guardian_certificate must have at most 8192 bytes, got 8193"
    ):
        greeted().take(frame.SerializeToString())


def test_a_text_is_in_UTF_8() -> None:
    (frame,) = frames_of(messages.Refused(FIRST, 1, b"", "why"))
    with pytest.raises(Malformed, match="not a frame"):
        greeted().take(frame.replace(b"why", b"w\xffy"))


# How a stream begins


def test_a_stream_begins_with_one_hello() -> None:
    with pytest.raises(Malformed, match="a Hello was expected first, got alive"):
        Reader(LIMITS, PEER).take(encode_frame(PEER, messages.Alive(FIRST, 1))[0])
    with pytest.raises(Malformed, match="a second Hello"):
        greeted().take(hello_frame(PEER, HELLO))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"manifest": bytes(31)}, "manifest must have 32 bytes, got 31"),
        ({"manifest": b""}, "manifest must have 32 bytes, got 0"),
        ({"incarnation": bytes(17)}, "incarnation must have 16 bytes, got 17"),
        ({"software": "x" * 101}, "software must have at most 100 characters, got 101"),
        ({"certificate": bytes(8193)}, "certificate must have at most 8192 bytes, got 8193"),
    ],
)
def test_a_hello_that_cannot_be_is_refused_both_ways(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Malformed, match=f"this Hello cannot be sent: {says}"):
        hello_frame(PEER, HELLO._replace(**changes))
    frame = Frame(sender=PEER, hello=HELLO._replace(**changes)._asdict())
    with pytest.raises(Malformed, match=f"not a valid Hello: {says}"):
        Reader(LIMITS, PEER).take(frame.SerializeToString())


def test_a_hello_says_everything_once_and_nothing_else() -> None:
    with pytest.raises(Malformed, match="unknown or repeated fields"):
        Reader(LIMITS, PEER).take(hello_frame(PEER, HELLO) + b"\xf8\x07\x01")


@pytest.mark.parametrize("format_", [0, 1, FORMAT + 1, 2**32 - 1])
def test_another_format_is_known_by_its_number_and_nothing_after_it_is_taken(format_: int) -> None:
    reader = Reader(LIMITS, PEER)
    other = HELLO._replace(format=format_)
    assert (
        reader.take(hello_frame(PEER, other) + b"\xf8\x07\x01") == other
    )  # with what is new in that format
    with pytest.raises(Malformed, match="a Hello was expected first"):
        reader.take(encode_frame(PEER, messages.Alive(FIRST, 1))[0])


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(3), Limits(3, 1), Limits(3, memory=0), Limits(phases=1, memory=0)]
)
def test_a_reader_must_know_the_manifests_sizes(limits: Limits) -> None:
    with pytest.raises(InvalidParameter, match="limits must give all sizes"):
        Reader(limits, PEER)


# What goes out


@pytest.mark.parametrize(
    "changes",
    [{"step": -1}, {"seq": -1}, {"hop": -1}, {"phase": -1}, {"base": -1}, {"hops": 2**63},
     {"step": 1.5}, {"chain": bytes(33)}, {"model": np.ones(3, np.float32)},
     {"model": np.ones((3, 1))}, {"switched_at": 2**63}, {"epoch": Epoch(-1, 0, 0)},
     {"epoch": Epoch(0, -1, 0)}, {"epoch": None}, {"small_messages": -1}, {"came_from": 2**63},
     {"memory": None}, {"memory": np.ones(MEMORY)}, {"memory": np.ones(MEMORY, np.int8)},
     {"memory": np.ones((MEMORY, 1), np.uint8)}],
)  # fmt: skip
def test_what_would_be_refused_is_not_sent(changes: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="this Renew cannot be sent"):
        encode_frame(PEER, messages.Renew(token_with(**changes)))


@pytest.mark.parametrize(
    "bad",
    [messages.Refused(FIRST, 1, b"", "x" * 1001), messages.Refused(FIRST, 1, b"", "\ud800"),
     messages.Fenced(linked(step=-1)), EXAMPLES["Heartbeat"]._replace(scores=(np.nan, 1.0)),
     messages.Released(SEAL._replace(signature=bytes(513)))],
)  # fmt: skip
def test_what_would_be_refused_is_not_sent_either(bad: Message) -> None:
    with pytest.raises(Malformed, match=f"this {type(bad).__name__} cannot be sent"):
        encode_frame(PEER, bad)


@pytest.mark.parametrize(
    "bad",
    [messages.Fenced(linked(step=-(2**63))), messages.Fenced(linked(epoch=Epoch(-1, 0, 0))),
     messages.Fenced(linked(parent=Epoch(0, -1, 0))), messages.Fenced(linked(seq=-1)),
     messages.Guard(token_with(base=-1), LINK)],
)  # fmt: skip
def test_where_an_epoch_began_is_not_before_the_first_step(bad: Message) -> None:
    """What is lost is counted from there, and the count must fit onto the disk."""
    with pytest.raises(Malformed, match="must be at least 0"):
        encode_frame(PEER, bad)


@pytest.mark.parametrize("sender", [-1, 2**32])
def test_a_sender_is_a_node(sender: int) -> None:
    with pytest.raises(Malformed, match="this Alive cannot be sent: Value out of range"):
        encode_frame(sender, messages.Alive(FIRST, 1))


def test_a_model_with_gaps_in_memory_is_sent_as_any_other() -> None:
    message = messages.Renew(token_with(model=np.arange(6.0)[::2]))
    ((found, _),) = through(frames_of(message), greeted())
    assert found.token.model.tolist() == [0.0, 2.0, 4.0]
    message = messages.Renew(token_with(memory=np.arange(2 * MEMORY, dtype=np.uint8)[::2]))
    ((found, _),) = through(frames_of(message), greeted())
    assert found.token.memory.tolist() == list(range(0, 2 * MEMORY, 2))


# Memory


def test_nothing_large_is_allocated_for_a_lie() -> None:
    """In a process of its own, since other tests leave threads and garbage behind."""
    code = "from tests.fleet.test_wire import most_memory; print(most_memory())"
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    if ran.stdout.strip() == "None":
        pytest.skip("only Linux says how much memory was in use at most")
    assert int(ran.stdout) < 1 << 25


def most_memory() -> int | None:
    """Return how many bytes are allocated at most for frames that lie about their sizes; None if
    the system does not say.
    """
    peak = Path("/proc/self/clear_refs")
    sizes = [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"]  # 2 GiB - 1 and more
    lies = [
        *(b"\x12" + size + b"74046c3a8cb70830" for size in sizes),  # a chunk
        *(b"\x08\x03\x52" + size + b"74046c3a8cb70830" for size in sizes),  # a Renew
        *(b"\x08\x03\x1a" + size for size in sizes),  # a certificate
        *(b"\x08\x03\x62\x0a\x4a" + size + b"??" for size in sizes),  # a Heartbeat's scores
        Frame(sender=PEER, heartbeat={"epoch": {}, "scores": [1.0] * 131_000}).SerializeToString(),
        b"\x08\x03" + b"\xfb\x07" * 500_000,  # groups within groups
        b"\x08\x03" + b"\xf8\x07\x01" * 340_000,  # unknown fields
        b"\x08\x03" + b"\x4a\x02\x0a\x00" * 250_000,  # Alive, again and again
    ]
    assert max(map(len, lies)) <= MOST_FRAME
    try:
        peak.write_text("5")  # begin to measure anew
    except OSError:
        return None
    before = memory("VmRSS")
    for lie in lies * 5:
        with pytest.raises(Malformed):
            greeted().take(lie)
    for _ in range(20):  # announced, and never sent
        message, limits = messages.Renew(token_with()), Limits(2**24, 1, MEMORY)
        assert hostile(message, greeted(limits), token__model__address=bytes(32)) is None
        limits = Limits(3, 1, 2**27)
        assert hostile(message, greeted(limits), token__memory__address=bytes(32)) is None
    return memory("VmHWM") - before


def memory(name: str) -> int:
    (line,) = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)
    ]
    return 1024 * int(line.split()[1])
