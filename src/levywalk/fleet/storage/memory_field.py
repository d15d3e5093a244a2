"""How what a node remembers for walk and update is written as bytes."""

from __future__ import annotations

import struct

from levywalk.fleet.protocol.kept_memory import (
    MOST_DROPPED,
    MOST_KNOWN_LOSSES,
    DroppedEntries,
    KeptMemory,
    MemoryEntry,
)
from levywalk.fleet.protocol.lineage import MemoryLoss
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.terms import MOST_DEPTH
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.storage.field_kinds import ArrayField, FieldReader, FieldWriter

_HEAD = struct.Struct("<BBB")  # how many entries, stamps and losses
_ENTRY = struct.Struct("<qqqqqBBI")  # epoch; hops, seq; firm; losses; number of edges
_DROPPED = struct.Struct("<5q")
_LOSS = struct.Struct("<2q")
_CONTENT = ArrayField("kept", itemsize=1)


class MemoryField:
    """The entries of a node's memory, stamps of those that were dropped, and known losses."""

    def write(self, out: FieldWriter, value: KeptMemory) -> None:
        """Write a value."""
        counts = len(value.entries), len(value.dropped), len(value.losses)
        _check_counts(*counts)
        parts = out.parts
        parts.append(_HEAD.pack(*counts))
        try:
            for one in value.entries:
                epoch, hops, seq, firm, losses, edges, content = one
                parts.append(_ENTRY.pack(*epoch, hops, seq, firm, losses, len(edges)))
                parts.append(struct.pack(f"<{len(edges)}q", *edges))
                _CONTENT.write(out, content)
            parts += [_DROPPED.pack(*one.epoch, one.low, one.high) for one in value.dropped]
            parts += [_LOSS.pack(*one) for one in value.losses]
        except struct.error as error:
            raise Malformed(f"a memory that cannot be written ({error})") from None

    def read(self, source: FieldReader) -> KeptMemory:
        """Read a value."""
        counts = source.numbers(_HEAD)
        _check_counts(*counts)
        entries = []
        for _ in range(counts[0]):
            *numbers, firm, losses, many = source.numbers(_ENTRY)
            if firm > 1 or losses > counts[2] or min(numbers[3:]) < 0:
                raise Malformed(f"an entry of a memory is not possible: {numbers}")
            if 8 * many > len(source.data) - source.at:
                raise Malformed("it ends early")
            edges = source.numbers(struct.Struct(f"<{many}q"))
            content = _CONTENT.read(source)
            epoch, hops, seq = Epoch(*numbers[:3]), *numbers[3:]
            entries.append(MemoryEntry(epoch, hops, seq, bool(firm), losses, edges, content))
        dropped = []
        for _ in range(counts[1]):
            *epoch_numbers, low, high = source.numbers(_DROPPED)
            if not 0 <= low <= high:
                raise Malformed(f"stamps from {low} to {high} are not possible")
            dropped.append(DroppedEntries(Epoch(*epoch_numbers), low, high))
        losses = tuple(MemoryLoss(*source.numbers(_LOSS)) for _ in range(counts[2]))
        return KeptMemory(tuple(entries), tuple(dropped), losses)


def _check_counts(entries: int, dropped: int, losses: int) -> None:
    if entries > MOST_DEPTH + 1 or dropped > MOST_DROPPED or losses > MOST_KNOWN_LOSSES:
        raise Malformed(
            f"a memory of {entries} entries, {dropped} stamps and {losses} losses is not possible"
        )
