"""How a node's starts, and what it has seen of its neighbours, are written as bytes.

They are part of every write of a node, so this is made to be quick: one struct for each neighbour.
"""

from __future__ import annotations

import math
import struct

from levywalk.fleet.protocol.starts import KEPT_LINKS, LINK, NeighbourStart, StartChain, Starts
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.storage.field_kinds import BytesField, FieldReader, FieldWriter

_OWN = struct.Struct(f"<{LINK}sqqI")  # origin, starts, writes, number of neighbours
_SEEN = struct.Struct(f"<q{LINK}sq{LINK}sqBB")  # node; what was seen; flags; earlier folders
_NOTHING = bytes(LINK)
_MOST_WHY = 400  # bytes of the reason why a node is fenced
_WHY = BytesField(_MOST_WHY)


class StartsField:
    """A node's own starts, and what it has seen of its neighbours, in order."""

    def write(self, out: FieldWriter, value: Starts) -> None:
        """Write a value."""
        parts: list[bytes | memoryview] = out.parts
        if len(value.origin) != LINK or value.number < 1:
            raise Malformed(f"starts that cannot be written: {value!r}")
        try:
            parts.append(_OWN.pack(value.origin, value.number, value.commits, len(value.seen)))
            for node in sorted(value.seen):
                origin, count, link, commits, gone, past, owed = value.seen[node]
                size = LINK if count else 0
                wrong = past and any(len(one) != LINK for one in past)
                if wrong or not len(origin) == len(link) == size:
                    raise Malformed(f"what was seen of node {node} has links of a wrong size")
                flags = gone + 2 * owed
                parts.append(_SEEN.pack(node, origin, count, link, commits, flags, len(past)))
                parts += past
        except struct.error as error:
            raise Malformed(f"starts that cannot be written ({error}): {value!r}") from None
        _WHY.write(out, value.fenced.encode()[:_MOST_WHY])

    def read(self, source: FieldReader) -> Starts:
        """Read a value."""
        origin, count, commits, many = source.numbers(_OWN)
        if count < 1 or commits < 0:
            raise Malformed(f"a node cannot have {count} starts and {commits} writes")
        seen: dict[int, NeighbourStart] = {}
        last = -math.inf
        for _ in range(many):  # each takes bytes, so a false count soon comes to their end
            node, first, starts, link, writes, flags, past = source.numbers(_SEEN)
            if node <= last or starts < 0 or writes < 0 or flags > 3:
                raise Malformed(f"what was seen of node {node} is not possible")
            if (starts == 0) != (first == _NOTHING) or (starts == 0 and link != _NOTHING):
                raise Malformed(f"what was seen of node {node} contradicts itself")
            before = tuple(source.take(LINK) for _ in range(past))
            first, link = (first, link) if starts else (b"", b"")
            gone, owed = bool(flags & 1), bool(flags & 2)
            seen[node] = NeighbourStart(first, starts, link, writes, gone, before, owed)
            last = node
        try:
            why = _WHY.read(source).decode()
        except UnicodeDecodeError:
            raise Malformed("the reason why a node is fenced is not text") from None
        return Starts(origin, count, commits, why, seen)


class ChainField:
    """The links of a node's last starts."""

    _links = BytesField(KEPT_LINKS * LINK)

    def write(self, out: FieldWriter, value: StartChain) -> None:
        """Write a value."""
        self._links.write(out, value.links)

    def read(self, source: FieldReader) -> StartChain:
        """Read a value."""
        links = self._links.read(source)
        if not links or len(links) % LINK:
            raise Malformed(f"a chain of starts cannot have {len(links)} bytes")
        return StartChain(links)
