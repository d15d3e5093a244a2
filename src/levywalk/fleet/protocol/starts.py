"""The starts of a node, chained, and what its neighbours have seen of them.

A state folder that was restored from a backup, or copied to a second machine, does not contain the
later promises of its node. It cannot tell that by itself. Its neighbours can: each start of a node
draws a random number and hashes it together with the link of the start before; each write of the
node has a number, which its next start keeps in its link; and a neighbour remembers the last start
and the highest number that it has seen. `disagreement` compares the two.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

from levywalk.fleet.protocol.messages import Greeting, Sighting

_HASH = 8  # bytes of a hash
LINK = 16  # bytes of a link: the hash, and the number of the last write before the start
KEPT_LINKS = 64  # links of so many starts are kept
_PAST = 8  # earlier state folders of one neighbour that are remembered


class StartChain(NamedTuple):
    """The links of a node's last starts, one after another."""

    links: bytes


class NeighbourStart(NamedTuple):
    """What a node has last seen of a neighbour."""

    origin: bytes = b""  # the link of the first start from that state folder
    number: int = 0  # starts from it
    link: bytes = b""  # the link of the last one
    commits: int = 0  # the highest number of a write
    gone: bool = False  # whether it was declared gone, and has not come back since
    past: tuple[bytes, ...] = ()  # origins of earlier state folders
    owed: bool = False  # whether it was declared gone, and that was not acted on yet

    def after(self, greeting: Greeting) -> NeighbourStart:
        """Return what is known after a greeting that does not contradict what was known."""
        if greeting.origin == self.origin:
            commits, last = max(self.commits, greeting.commits), greeting.links[-LINK:]
            return NeighbourStart(self.origin, greeting.number, last, commits, False, *self[5:])
        past = (*self.past, self.origin)[-_PAST:] if self.origin else self.past
        return NeighbourStart(
            *(greeting.origin, greeting.number, greeting.links[-LINK:], greeting.commits, False),
            *(past, self.owed),
        )

    def told(self, greeting: Greeting) -> Sighting:
        """Return the answer to a greeting."""
        if greeting.origin not in (self.origin, *self.past):
            return Sighting(self.origin, 0, b"", 0, False, greeting.links[-LINK:])
        return Sighting(
            *(self.origin, self.number, self.link, self.commits),
            greeting.origin != self.origin,
            greeting.links[-LINK:],
        )


class Starts(NamedTuple):
    """A node's own starts, and what it has seen of its neighbours'."""

    origin: bytes
    number: int
    commits: int  # the number of its last write
    fenced: str  # why it must not take part any more; empty if it may
    seen: dict[int, NeighbourStart]


def next_link(chain: StartChain | None, draw: bytes, commits: int) -> StartChain:
    """Return the chain with the link of one more start, of a disk that ends with that write.

    Examples
    --------
    >>> once = next_link(None, b"random", 0)
    >>> again = next_link(once, b"another", 640)
    >>> again.links.startswith(once.links), len(again.links)
    (True, 32)
    """
    links = b"" if chain is None else chain.links
    hashed = hashlib.blake2b(links[-LINK:] + draw, digest_size=_HASH).digest()
    link = hashed + commits.to_bytes(LINK - _HASH, "big")
    return StartChain((links + link)[-KEPT_LINKS * LINK :])


@lru_cache(maxsize=4096)  # every message is compared with it
def start_name(links: bytes) -> int:
    """Return the number that names the last start of a chain in every message.

    Examples
    --------
    >>> start_name(b""), start_name(bytes([0] * 7 + [6]) + bytes(8))
    (0, 3)
    """
    return int.from_bytes(links[-LINK : _HASH - LINK], "big") >> 1  # below 2**63


def possible(greeting: Greeting) -> bool:
    """Return whether a greeting has the right sizes.

    Examples
    --------
    >>> possible(Greeting(bytes(16), 1, bytes(16), 0)), possible(Greeting(b"", 1, bytes(16), 0))
    (True, False)
    """
    links = len(greeting.links)
    whole = len(greeting.origin) == LINK and greeting.number >= 1 and links % LINK == 0
    return whole and LINK <= links <= LINK * min(greeting.number, KEPT_LINKS)


def disagreement(greeting: Greeting, seen: Sighting) -> str:
    """Return why a node must not take part with what is on its disk, given what a neighbour has
    seen of it; empty if the two agree.

    Examples
    --------
    >>> links = next_link(next_link(None, b"random", 0), b"another", 640).links
    >>> now = Greeting(links[:LINK], 2, links, 641)
    >>> disagreement(now, Sighting(links[:LINK], 1, links[:LINK], 640, False, b""))
    ''
    >>> disagreement(now, Sighting(links[:LINK], 1, links[:LINK], 812, False, b""))
    'has seen write 812 of the fenced node, whose disk ended with write 640: the disk is an old
    copy'
    >>> disagreement(now, Sighting(links[:LINK], 2, b"another", 600, False, b""))
    'has seen another start 2 of the fenced node: a copy of the disk was started as well'
    """
    if not seen.number:
        return ""
    if seen.replaced and seen.answers == greeting.links[-LINK:]:
        return "knows a newer state folder of the fenced node: the disk is an old copy"
    if seen.origin != greeting.origin:
        return ""
    if seen.number > greeting.number:
        return (
            f"has seen start {seen.number} of the fenced node, whose disk counts "
            f"{greeting.number}: the disk is an old copy, or a copy of it runs as well"
        )
    at = len(greeting.links) - (greeting.number - seen.number + 1) * LINK
    if at >= 0 and greeting.links[at : at + LINK] != seen.link:
        return (
            f"has seen another start {seen.number} of the fenced node: a copy of the disk was "
            "started as well"
        )
    ended = greeting.commits
    if seen.number < greeting.number:  # what the disk held when the next start began
        after = max(0, at + LINK)
        ended = int.from_bytes(greeting.links[after + _HASH : after + LINK], "big")
    if seen.commits > ended:
        return (
            f"has seen write {seen.commits} of the fenced node, whose disk ended with write "
            f"{ended}: the disk is an old copy"
        )
    return ""
