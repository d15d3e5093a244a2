"""Write a node's log: one JSON object per line on standard output, and not too many of one kind."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import Iterable
from datetime import UTC, datetime

# Lines of one kind per minute, so that nobody can fill the disk through this node's log. What is
# said about a neighbour is a kind of its own, as long as there are not too many in that minute, and
# so is what is said about all strangers: they cannot use up the lines about neighbours.
_LINES = 100
_NEIGHBOUR_KINDS = 200
_WHO = ("neighbour", "node", "sender")  # the names by which events say whom they are about
_STRANGERS, _OTHER_NEIGHBOURS, _NOBODY = -1, -2, -3


class LogWriter:
    """The log of one node, for people and machines.

    Parameters
    ----------
    keep
        How many of the last lines stay in memory, for operators elsewhere.
    neighbours
        Who is no stranger.
    """

    def __init__(self, node: int, keep: int = 0, neighbours: Iterable[int] = ()) -> None:
        self.node, self.neighbours = node, frozenset(neighbours)
        self.kept: deque[tuple[int, str]] = deque(maxlen=keep)  # with their numbers, from 1
        self._count = 0
        self._written: Counter[tuple[str, int]] = Counter()
        self._minute = time.monotonic()

    def write(self, what: str, level: str, about: dict[str, object]) -> None:
        """Write a line, unless there were too many of its kind in the last minute."""
        now = time.monotonic()
        if now - self._minute > 60.0:
            self._minute, self._written = now, Counter()
        kind = self._kind(what, about)
        self._written[kind] += 1
        if self._written[kind] > _LINES:
            return
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": when, "level": level, "node": self.node, "event": what}
        line |= {"neighbour" if name == "node" else name: value for name, value in about.items()}
        if self._written[kind] == _LINES:
            line["more"] = "further lines of this kind are not written for a minute"
        text = json.dumps(line, default=str)
        self._count += 1
        self.kept.append((self._count, text))
        with contextlib.suppress(
            OSError
        ):  # the disk is full, or nobody reads: the walk does not depend on the log
            print(text, flush=True)  # noqa: T201

    def _kind(self, what: str, about: dict[str, object]) -> tuple[str, int]:
        """Return what counts together: an event, and the neighbour that it is about."""
        who = next((about[name] for name in _WHO if name in about), None)
        if who is None:
            return what, _NOBODY
        if not isinstance(who, int) or who not in self.neighbours:
            return what, _STRANGERS
        if (what, who) in self._written or len(self._written) < _NEIGHBOUR_KINDS:
            return what, who
        return what, _OTHER_NEIGHBOURS
