"""Write a node's log: one JSON object per line on standard output, and not too many of one kind."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter, deque
from datetime import UTC, datetime

# lines of one kind per minute, so that no neighbour can fill the disk through this node's log
_LINES = 100


class LogWriter:
    """The log of one node, for people and machines.

    Parameters
    ----------
    keep
        How many of the last lines stay in memory, for operators elsewhere.
    """

    def __init__(self, node: int, keep: int = 0) -> None:
        self.node = node
        self.kept: deque[tuple[int, str]] = deque(maxlen=keep)  # with their numbers, from 1
        self._count = 0
        self._written: Counter[str] = Counter()
        self._minute = time.monotonic()

    def write(self, what: str, level: str, about: dict[str, object]) -> None:
        """Write a line, unless there were too many of its kind in the last minute."""
        now = time.monotonic()
        if now - self._minute > 60.0:
            self._minute, self._written = now, Counter()
        self._written[what] += 1
        if self._written[what] > _LINES:
            return
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": when, "level": level, "node": self.node, "event": what}
        line |= {"neighbour" if name == "node" else name: value for name, value in about.items()}
        if self._written[what] == _LINES:
            line["more"] = "further lines of this kind are not written for a minute"
        text = json.dumps(line, default=str)
        self._count += 1
        self.kept.append((self._count, text))
        with contextlib.suppress(
            OSError
        ):  # the disk is full, or nobody reads: the walk does not depend on the log
            print(text, flush=True)  # noqa: T201
