from __future__ import annotations

import hashlib
import math
import struct
import tracemalloc
from contextlib import suppress
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load

from levywalk.arrays import AnyArray, Floats
from levywalk.fleet.protocol.checkpoints import Checkpoint, Checkpoints
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.evidence import Lie, Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.given import GivenTokens
from levywalk.fleet.protocol.kept_memory import (
    REASONS,
    DroppedEntries,
    KeptMemory,
    MemoryEntry,
)
from levywalk.fleet.protocol.lineage import MemoryLoss
from levywalk.fleet.protocol.links import KINDS, EpochLink, LinkKind, Opening, Right
from levywalk.fleet.protocol.messages import Certificate
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.records import (
    FALSE_END,
    Archived,
    Began,
    BudgetSpent,
    Disk,
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
from levywalk.fleet.protocol.starts import LINK, NeighbourStart, StartChain, Starts
from levywalk.fleet.protocol.tensors import (
    CHUNK,
    HEADER,
    INLINE,
    Incoming,
    Malformed,
    Tensor,
    check_writable,
)
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.storage import codec
from levywalk.fleet.storage.codec import LINES, SLOTS, decode, decode_line, decode_slot, encode
from levywalk.fleet.storage.limits import Limits

# Pinned in both formats: on the disk, and on the wire (`test_wire`).
OPENING = Opening(
    LinkKind.GIVER_GONE,
    Epoch(1, 2, 3),
    parent=FIRST,
    right_epoch=Epoch(0, 1, 7),
    right_seq=8,
    as_guardian=True,
    seq=4,
    step=5,
    digest=b"digest",
    guardian=6,
    signature=b"signature",
)
DIM, PHASES, MEMORY = 3, 2, 48
LIMITS = Limits(DIM, PHASES, MEMORY)
ints = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
scores = st.tuples(*[st.floats(0.0, allow_infinity=False)] * PHASES)
floats = arrays(np.float64, DIM, elements=st.floats(allow_nan=False, allow_infinity=False))
epochs = st.builds(Epoch, counts, counts, ints)
digests = st.binary(max_size=32)
memories = arrays(np.uint8, MEMORY)
tokens = st.builds(
    Token, epochs, counts, counts, counts, counts, counts, counts, floats, counts, memories, ints,
    ints, counts, counts, digests, ints, counts, counts,
)  # fmt: skip
signatures = st.binary(max_size=64)
certificates = st.builds(Certificate, ints, epochs, counts, ints, ints, digests, signatures)
openings = st.builds(
    Opening,
    st.sampled_from(KINDS),
    epochs,
    epochs,
    epochs,
    counts,
    st.booleans(),
    counts,
    counts,
    digests,
    ints,
    signatures,
)
rights = st.builds(Right, st.none() | certificates, st.none() | openings)
links = st.builds(EpochLink, openings, rights)
pardons = st.builds(Pardon, ints, epochs, signatures)
revocations = st.builds(Revocation, ints, epochs, signatures)
means = st.floats(0.0, allow_infinity=False)
sizes = st.builds(FleetSize, counts, counts, means, signatures)
ends = st.builds(Ending, ints, epochs, counts, counts, digests, signatures, rights)
lies = st.builds(Lie, openings, certificates, st.none() | pardons, st.none()) | st.builds(
    Lie, st.none(), certificates, st.none() | pardons, ends
)
edges = st.builds(Edge, counts, st.booleans(), counts, scores, st.booleans())
statuses = st.sampled_from(HeldStatus)
start_links = st.binary(min_size=LINK, max_size=LINK).map(lambda link: b"\x01" + link[1:])
past = st.lists(start_links, max_size=8).map(tuple)
sightings = st.builds(
    NeighbourStart,
    start_links,
    st.integers(1, 2**63 - 1),
    start_links,
    counts,
    st.booleans(),
    past,
    st.booleans(),
) | st.sampled_from(
    [NeighbourStart(gone=gone, owed=owed) for gone in (False, True) for owed in (False, True)]
)
contents = arrays(np.uint8, st.integers(0, 70))
entries = st.builds(
    MemoryEntry,
    *(epochs, counts, counts, st.booleans(), st.just(0)),
    *(st.lists(ints, max_size=3).map(tuple), contents),
)
stamps = st.builds(DroppedEntries, epochs, st.integers(0, 9), st.integers(9, 2**62))
losses = st.builds(MemoryLoss, ints, ints)
slots: dict[str, st.SearchStrategy[Any]] = {
    "memory": st.none()
    | st.builds(
        KeptMemory, *(st.lists(part, max_size=3).map(tuple) for part in (entries, stamps, losses))
    ),
    "known": st.builds(Known, epochs, counts, st.none() | links),
    "own": st.builds(Own, counts, counts, st.booleans()),
    "edges": st.dictionaries(ints, edges, max_size=4),
    "held": st.none()
    | st.builds(Held, statuses, tokens, ints, ints, ints, ints, epochs, rights, st.none() | links),
    "guarded": st.none()
    | st.builds(
        Guarded,
        tokens,
        ints,
        st.sampled_from([None, *RegisterValue]) | certificates,
        st.none() | certificates,
        counts,
    ),
    "final": st.none() | tokens,
    "end": st.none() | ends,
    "liars": st.lists(lies, max_size=3).map(tuple),
    "revoked": st.lists(revocations, max_size=3).map(lambda words: Revocations(tuple(words))),
    "size": st.none() | sizes,
    "starts": st.none()
    | st.builds(
        Starts,
        start_links,
        st.integers(1, 2**63 - 1),
        counts,
        st.text(max_size=80),
        st.dictionaries(ints, sightings, max_size=4),
    ),
    "chain": st.none()
    | st.builds(StartChain, st.lists(start_links, min_size=1, max_size=5).map(b"".join)),
    "spent": st.none() | st.builds(Spending, counts, st.booleans()),
    "refusals": st.none()
    | st.lists(
        st.builds(RefusedModels, ints, counts, epochs, counts, st.booleans()),
        max_size=3,
        unique_by=lambda one: one.node,
    ).map(lambda senders: Refusals(tuple(sorted(senders)))),
    "given": st.none() | st.lists(tokens, max_size=3).map(lambda found: GivenTokens(tuple(found))),
    "checkpoints": st.none()
    | st.lists(st.builds(Checkpoint, epochs, counts), max_size=3).map(Checkpoints().reached),
}
lines: st.SearchStrategy[Any] = st.one_of(
    st.builds(Visit, epochs, counts, counts, counts, counts, ints, ints, st.none() | floats),
    st.builds(Archived, tokens, statuses | st.sampled_from(["guarded", "final"]), epochs, counts),
    st.builds(Began, epochs, epochs, counts),
    st.builds(SilentNeighbour, epochs, counts, counts, ints),
    st.builds(BudgetSpent, epochs, counts, counts),
    st.builds(NewSize, epochs, counts, counts, counts, counts, means),
    st.builds(NewGeneration, epochs, counts, counts, counts, st.sampled_from(REASONS), ints),
    st.builds(
        Measured,
        epochs,
        counts,
        st.lists(st.floats(allow_infinity=False, allow_nan=False), max_size=3).map(tuple),
    ),
)
kept: st.SearchStrategy[Any] = st.one_of(lines, *slots.values())
KEPT = (*LINES, *(type_ for types in SLOTS.values() for type_ in types))


def bits(value: Any) -> Any:
    """Return a value in which floats and arrays are bytes, so that == compares every bit."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, tuple):
        return (type(value).__name__ if type(value) is not tuple else "", *map(bits, value))
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return (type(value).__name__, value)


@pytest.mark.parametrize("slot", SLOTS)
@given(data=st.data())
def test_every_slot_comes_back_to_the_bit(slot: str, data: st.DataObject) -> None:
    value = data.draw(slots[slot])
    found = decode_slot(slot, encode(value), LIMITS)
    assert bits(found) == bits(value)
    assert encode(found) == encode(value)


@given(value=lines)
def test_every_line_comes_back_to_the_bit(value: Line) -> None:
    assert bits(decode_line(encode(value), LIMITS)) == bits(value)


@given(value=kept, data=st.data())
def test_bytes_that_were_changed_are_refused_or_another_value(
    value: Any, data: st.DataObject
) -> None:
    changed = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(bytes(changed), KEPT, LIMITS)
    except Malformed:
        return
    assert encode(found) == changed  # one value, one encoding


@given(value=kept, data=st.data())
def test_bytes_that_were_cut_or_prolonged_are_refused(value: Any, data: st.DataObject) -> None:
    original = encode(value)
    with pytest.raises(Malformed):
        decode(original[: data.draw(st.integers(0, len(original) - 1))], KEPT, LIMITS)
    with pytest.raises(Malformed, match="after its end"):
        decode(original + data.draw(st.binary(min_size=1, max_size=9)), KEPT, LIMITS)


@given(data=st.binary(max_size=400), number=st.integers(0, 46))
def test_no_bytes_do_harm(data: bytes, number: int) -> None:
    for one in (data, bytes([codec.FORMAT, number]) + data):
        with suppress(Malformed):
            decode(one, KEPT, LIMITS)


def test_everything_that_is_kept_has_a_number_of_its_own() -> None:
    assert set(LINES) == set(get_args(Line))
    assert set(SLOTS) == set(Disk.__dataclass_fields__)
    assert len(codec._NUMBERS) == len(codec._KINDS) - 1  # visits have an old number as well
    assert {number for number, (type_, _) in codec._KINDS.items() if type_ is Visit} == {16, 19}


def test_a_visit_of_the_first_schema_is_still_read() -> None:
    visit = Visit(Epoch(1, 2, 3), 4, 5, 6, 7, -1, 8, np.array([1.0, 2.0, 3.0]))
    old = codec.FieldWriter(codec._all_inline)
    codec._KINDS[16][1].write(old, visit)
    written = codec._PREFIX.pack(codec.FORMAT, 16) + b"".join(old.parts)
    assert bits(decode_line(written, LIMITS)) == bits(visit)
    assert len(encode(visit)) < len(written) - 40


@pytest.mark.parametrize(
    "number", [b"\x80\x00", b"\xff" * 9 + b"\x01", b"\x80" * 12 + b"\x01", b"\x80"], ids=repr
)
def test_a_number_has_one_form_alone(number: bytes) -> None:
    """Padded, beyond 63 bits, endless, and cut."""
    step = encode(Visit(FIRST, 300, 0, 0, 0, -1, -1, None)).index(b"\xac\x02")
    written = encode(Visit(FIRST, 300, 0, 0, 0, -1, -1, None))
    with pytest.raises(Malformed):
        decode_line(written[:step] + number + written[step + 2 :])


def test_the_format_is_what_it_was() -> None:
    """If this fails, the disks of older nodes are no longer understood: give `FORMAT` another
    number.
    """
    token = Token(
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
    seal = Certificate(1, Epoch(1, 2, 3), 4, 5, 6, b"digest", b"signature")
    edge = Edge(1, True, 2, (0.5, 1.5), False)
    link = EpochLink(OPENING, Right(seal))
    end = Ending(1, Epoch(1, 2, 3), 4, 5, b"digest", b"signature", Right(seal))
    values = [
        *(
            Known(FIRST, 1),
            Own(1, 2, leaving=True),
            {1: edge, 7: edge},
            Held("moving", token, 1, 2, 3, 4, FIRST),
            Known(FIRST, 1, link),
            Held("seeking", token, 1, 2, 3, 4, FIRST, Right(None, OPENING), link),
        ),
        *(Guarded(token, 1, seal, None), Guarded(token, 1, "regenerated", seal), token, None),
        *(Guarded(token, 1, "finished", seal, 7), end, (Lie(OPENING, seal),)),
        (Lie(OPENING, seal, Pardon(1, FIRST, b"signature")),),
        *(
            Visit(FIRST, 1, 2, 3, 4, 5, 6, np.ones(3)),
            Archived(token, "final", FIRST, 2),
            Began(FIRST, FIRST, 3),
        ),
    ]
    measured = Measured(FIRST, 1, (0.5, math.nan))
    seen = {
        3: NeighbourStart(b"a" * LINK, 2, b"b" * LINK, 9, True, (b"c" * LINK,), True),
        5: NeighbourStart(),
    }
    starts = (Starts(b"o" * LINK, 4, 77, "why", seen), StartChain(b"l" * 3 * LINK))
    stamped = MemoryEntry(FIRST, 4, 3, True, 1, (5, 6), np.arange(9, dtype=np.uint8))
    remembered = (
        KeptMemory((stamped,), (DroppedEntries(FIRST, 1, 2),), (MemoryLoss(7, 8),)),
        NewGeneration(FIRST, 1, 2, 3, REASONS[1], 4),
        SilentNeighbour(FIRST, 1, 2, 3),
    )
    grown = (NewSize(FIRST, 1, 2, 3, 4, 5.0), FleetSize(1, 9, 3.5, b"signature"))
    # kinds that were added later
    later = {Measured, Starts, StartChain, Revocations, *map(type, (*remembered, *grown))}
    private = (Spending(7, first=True), BudgetSpent(FIRST, 1, 7))
    refused = Refusals((RefusedModels(3, 2, FIRST, 9, True),))
    later |= {*map(type, private), Refusals, GivenTokens, Checkpoints}
    ends = (Lie(None, seal, None, end), Lie(None, seal, Pardon(1, FIRST, b"signature"), end))
    added = [ends, Archived(token, FALSE_END, FIRST, 0)]  # later, to kinds that were there
    assert hashlib.sha256(b"".join(map(encode, added))).hexdigest()[:16] == "3094615b07fcd36e"
    given = GivenTokens((token, token._replace(step=8)))
    assert hashlib.sha256(encode(given)[1:]).hexdigest()[:16] == "f5a3529ee1fdc766"
    assert hashlib.sha256(encode(refused)).hexdigest()[:16] == "dd93875e774dca36"
    went = Checkpoints((Checkpoint(FIRST, 7), Checkpoint(Epoch(1, 2, 3), 9)))
    assert hashlib.sha256(encode(went)).hexdigest()[:16] == "f33d06df711849c0"
    assert hashlib.sha256(b"".join(map(encode, private))).hexdigest()[:16] == "73191db3cca6aa6a"
    assert {type(value) for value in values} | later == set(codec._NUMBERS)
    assert hashlib.sha256(b"".join(map(encode, values))).hexdigest()[:16] == "88f8ef66db64ee41"
    assert hashlib.sha256(b"".join(map(encode, remembered))).hexdigest()[:16] == "4c1da6e5829ab4ee"
    assert hashlib.sha256(encode(measured)).hexdigest()[:16] == "4d3d6ae7ab5c45f5"
    revoked = Revocations((Revocation(1, FIRST, b"signature"), Revocation(2, FIRST, b"s")))
    assert hashlib.sha256(encode(revoked)).hexdigest()[:16] == "f81dc5f2d1ab24ae"
    assert hashlib.sha256(b"".join(map(encode, grown))).hexdigest()[:16] == "7588571c10a046bd"
    assert hashlib.sha256(b"".join(map(encode, starts))).hexdigest()[:16] == "89ab04bb3b9fd21a"


# What no node could have written


def token_with(**changes: Any) -> Token:
    return Token.first(np.arange(float(DIM)), np.arange(MEMORY, dtype=np.uint8))._replace(**changes)


def patched(token: Token, old: bytes, new: bytes) -> bytes:
    data = encode(token)
    assert data.count(old) == 1
    return data.replace(old, new)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_is_not_finite_is_refused_both_ways(bad: float) -> None:
    data = patched(token_with(), struct.pack("<d", 2.0), struct.pack("<d", bad))
    with pytest.raises(Malformed, match="not a valid Token: a model contains NaN or infinity"):
        decode_slot("final", data, LIMITS)
    with pytest.raises(Malformed, match="finite"):
        encode(token_with(model=np.array([bad, 1.0, 2.0])))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"F64"', b'"I64"'),
        (b'"shape":[3]', b'"shape":[9]'),
        (b'"shape":[3]', b'"shape":[ '),
        (b'"data_offsets":[0,24]', b'"data_offsets":[8,32]'),
        (b'"model"', b'"madel"'),
        (struct.pack("<Q", HEADER - 8) + b'{"model"', struct.pack("<Q", 2**63) + b'{"model"'),
    ],
)
def test_a_model_of_another_type_shape_or_name_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(
        Malformed, match="a model of 3 numbers of type float64 was expected, got the header"
    ):
        decode_slot("final", patched(token_with(), old, new), LIMITS)


@pytest.mark.parametrize("dim", [0, 1, 2, 4, 1000])
def test_a_model_of_another_size_is_refused(dim: int) -> None:
    with pytest.raises(
        Malformed,
        match=f"with 3 numbers of type float64 was expected, got {HEADER + 8 * dim} bytes",
    ):
        decode_slot("final", encode(token_with(model=np.ones(dim))), LIMITS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"U8"', b'"I8"'),
        (b'"shape":[48]', b'"shape":[49]'),
        (b'"data_offsets":[0,48]', b'"data_offsets":[8,56]'),
        (b'"memory"', b'"memury"'),
        (struct.pack("<Q", HEADER - 8) + b'{"memory"', struct.pack("<Q", 2**63) + b'{"memory"'),
    ],
)
def test_a_memory_of_another_type_shape_or_name_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(Malformed, match="a memory of 48 bytes was expected, got the header"):
        decode_slot("final", patched(token_with(), old, new), LIMITS)


@pytest.mark.parametrize("size", [0, 1, MEMORY - 1, MEMORY + 1, 8 * MEMORY])
def test_a_memory_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"with 48 bytes was expected, got {HEADER + size} bytes"):
        decode_slot("final", encode(token_with(memory=np.ones(size, np.uint8))), LIMITS)


def test_what_travels_is_part_of_the_digest_and_read_only_after_reading() -> None:
    token = token_with()
    for i in range(MEMORY):
        other = token.memory.copy()
        other[i] ^= 1
        assert token._replace(memory=other).digest() != token.digest()
    assert token._replace(memory=token.memory[:-1].copy()).digest() != token.digest()
    assert token._replace(memory=np.empty(0, np.uint8)).digest() != token.digest()
    assert token._replace(came_from=3).digest() != token.digest()
    assert token._replace(small_messages=3).digest() != token.digest()
    assert token._replace(size=1).digest() != token.digest()
    found = decode_slot("final", encode(token), LIMITS)
    assert isinstance(found, Token)
    assert found.digest() == token.digest()
    assert not found.memory.flags.writeable
    assert not found.model.flags.writeable


@pytest.mark.parametrize("size", [0, 1, HEADER - 1, HEADER + 1, HEADER + 8 * DIM - 1, 2**32 - 1])
def test_a_false_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=r"expected|ends early"):
        decode(
            patched(token_with(), struct.pack("<I", HEADER + 8 * DIM), struct.pack("<I", size)),
            KEPT,
            LIMITS,
        )


def test_nothing_large_is_allocated_for_a_lie() -> None:
    lies = [
        patched(token_with(), struct.pack("<I", HEADER + 8 * DIM), struct.pack("<I", 2**32 - 1)),
        encode({}).replace(struct.pack("<I", 0), struct.pack("<I", 2**32 - 1)),
        bytes([codec.FORMAT, 6]) + b"\xff" * 100,
        encode(token_with(model=np.ones(30_000))),
        patched(token_with(), struct.pack("<I", HEADER + MEMORY), struct.pack("<I", 2**32 - 1)),
        encode(token_with(memory=np.ones(240_000, np.uint8))),
    ]
    tracemalloc.start()
    try:
        for lie in lies:
            with pytest.raises(Malformed):
                decode(lie, KEPT, LIMITS)
        with pytest.raises(Malformed, match="was expected, got 1099511627776 bytes"):
            Incoming("model", 2**40, dim=DIM)
        with pytest.raises(Malformed, match="was expected, got 1099511627776 bytes"):
            Incoming("memory", 2**40, dim=MEMORY, itemsize=1)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "changes",
    [{"step": -1}, {"seq": -1}, {"hop": -1}, {"phase": -1}, {"hops": 2**63}, {"step": 1.5},
     {"chain": bytes(33)}, {"model": np.ones(3, np.float32)}, {"model": np.ones((3, 1))},
     {"small_messages": -1}, {"came_from": 2**63}, {"memory": np.ones(MEMORY)},
     {"memory": np.ones(MEMORY, np.int8)}, {"memory": np.ones((MEMORY, 1), np.uint8)}],
)  # fmt: skip
def test_what_would_be_refused_is_not_written(changes: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        encode(token_with(**changes))


@pytest.mark.parametrize(
    "bad", [(np.nan, 1.0), (-1.0, 1.0), (np.inf, 1.0), (1.0,), (1.0, 1.0, 1.0)]
)
def test_scores_that_would_lead_the_walk_astray_are_refused(bad: tuple[float, ...]) -> None:
    edge = Edge(0, True, 2, (7.0,) * len(bad), True)
    data = encode({3: edge}).replace(
        struct.pack("<d", 7.0) * len(bad), struct.pack(f"<{len(bad)}d", *bad)
    )
    with pytest.raises(Malformed, match=r"finite and at least 0|scores were expected"):
        decode_slot("edges", data, LIMITS)


@pytest.mark.parametrize(
    "bad",
    [Known(FIRST, -(2**63)), Known(Epoch(-1, 0, 0), 0), Known(Epoch(0, -1, 0), 0),
     Began(FIRST, FIRST, -1), token_with(base=-1)],
)  # fmt: skip
def test_where_an_epoch_began_is_not_before_the_first_step(bad: object) -> None:
    """What is lost is counted from there, and the count must fit onto the disk."""
    with pytest.raises(Malformed, match="at least 0"):
        encode(bad)


def test_another_format_is_refused_by_its_number() -> None:
    with pytest.raises(Malformed, match="format 5 was expected, got 1, of another version"):
        decode_slot("known", b"\x01" + encode(Known(FIRST, 1))[1:], LIMITS)


def test_a_kind_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(
        Malformed,
        match=r"Visit or Archived or Began or .* or SilentNeighbour or BudgetSpent or NewSize was",
    ):
        decode_line(encode(Known(FIRST, 1)))
    with pytest.raises(Malformed, match="Held or NoneType was expected, got kind 99"):
        decode_slot("held", bytes([codec.FORMAT, 99]))
    with pytest.raises(Malformed, match="cannot be written"):
        encode(object())


# Large models, which lie elsewhere


def large(seed: int = 0) -> Floats:
    model = np.random.default_rng(seed).normal(size=300_000)
    model.flags.writeable = False
    return model


def test_a_large_model_lies_elsewhere_under_its_address() -> None:
    token = Token.first(large(), large(1).view(np.uint8))
    there: dict[tuple[str, bytes], AnyArray] = {}

    def put(tensor: Tensor) -> bytes:
        there[tensor.name, tensor.address()] = tensor.array
        return tensor.address()

    data = encode(token, put)
    assert len(data) < 400
    assert [name for name, _ in there] == ["model", "memory"]
    limits = Limits(300_000, 1, 8 * 300_000)
    found = decode_slot("final", data, limits, lambda name, address: there[name, address])
    assert bits(found) == bits(token)
    with pytest.raises(Malformed, match="stored separately was not expected here"):
        decode_slot("final", data, limits)


def test_a_tensor_is_what_the_safetensors_library_reads() -> None:
    for dim in (0, 1, 10, 123_456):
        for tensor in (
            Tensor("model", np.arange(float(dim))),
            Tensor("memory", np.arange(dim).astype(np.uint8)),
        ):
            found = load(b"".join(map(bytes, tensor.chunks())))
            assert list(found) == [tensor.name]
            assert bits(found[tensor.name]) == bits(tensor.array)
            assert (
                tensor.address() == hashlib.sha256(b"".join(map(bytes, tensor.chunks()))).digest()
            )


@given(cuts=st.lists(st.integers(0, HEADER + 8 * DIM), max_size=6), model=floats)
def test_a_tensor_may_come_in_any_pieces(cuts: list[int], model: Floats) -> None:
    tensor = Tensor("model", model)
    data = b"".join(map(bytes, tensor.chunks()))
    incoming = Incoming("model", len(data), DIM)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        incoming.take(data[start:stop])
    assert bits(incoming.done(tensor.address())) == bits(model)


def test_a_tensor_that_is_torn_flipped_or_too_long_is_refused() -> None:
    tensor = Tensor("model", large())
    data = b"".join(map(bytes, tensor.chunks()))

    def receive(content: bytes) -> Floats:
        incoming = Incoming("model", len(data), 300_000)
        for at in range(0, len(content), CHUNK):
            incoming.take(content[at : at + CHUNK])
        return incoming.done(tensor.address())

    assert bits(receive(data)) == bits(tensor.array)
    with pytest.raises(Malformed, match="ends early"):
        receive(data[:-1])
    with pytest.raises(Malformed, match="is longer than announced"):
        receive(data + b"3094615b07fcd36e")
    with pytest.raises(Malformed, match="does not have the announced hash"):
        receive(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])


def test_the_address_of_an_array_that_may_change_is_not_remembered() -> None:
    array = np.ones(INLINE)
    before = Tensor("model", array).address()
    array[5] = 2.0
    assert Tensor("model", array).address() != before
    frozen = large()
    assert Tensor("model", frozen).address() == Tensor("model", frozen).address()
    known = len(codec_addresses())
    del frozen
    assert len(codec_addresses()) == known - 1


def codec_addresses() -> dict[Any, Any]:
    from levywalk.fleet.protocol import tensors

    return tensors._addresses


def test_a_token_is_encoded_once_and_to_the_same_bytes() -> None:
    sealed = np.arange(3.0)
    sealed.flags.writeable = False
    token = token_with(model=sealed)
    recent: dict[int, tuple[object, bytes]] = {}
    one = Held(HeldStatus.MOVING, token, 1, 2, 3, 4, FIRST)
    assert encode(one, recent=recent) == encode(one)
    (known,) = [data for value, data in recent.values() if value is token]
    assert known in encode(one)
    other = one._replace(status=HeldStatus.ENDING)
    recent[id(token)] = token, b"what was remembered"
    assert b"what was remembered" in encode(other, recent=recent)
    same = token._replace(step=token.step)  # equal, and another object
    assert encode(other._replace(token=same), recent=recent) == encode(other)


def test_a_token_that_could_change_or_lies_elsewhere_is_encoded_each_time() -> None:
    recent: dict[int, tuple[object, bytes]] = {}
    changeable = token_with(model=np.arange(3.0))
    before = encode(changeable, recent=recent)
    changeable.model[0] = 7.0
    assert encode(changeable, recent=recent) != before
    token, stored = token_with(model=large()), []

    def put(tensor: Tensor) -> bytes | None:
        if tensor.nbytes <= INLINE:
            return None
        stored.append(tensor.address())
        return stored[-1]

    assert encode(token, put, None, recent) == encode(token, put, None, recent)
    assert len(stored) == 2  # the store is told each time
    assert not recent


def test_only_the_last_encodings_are_kept() -> None:
    recent: dict[int, tuple[object, bytes]] = {}
    for step in range(100):
        encode(Token.first(np.zeros(2))._replace(step=step), recent=recent)
    assert len(recent) < 20
    assert max(value.step for value, _ in recent.values()) == 99  # type: ignore[attr-defined]


def test_a_model_that_was_finite_and_can_change_is_looked_at_again() -> None:
    model = np.zeros(3)
    check_writable("model", model, 8)
    model[1] = np.nan
    with pytest.raises(Malformed, match="finite"):
        check_writable("model", model, 8)
