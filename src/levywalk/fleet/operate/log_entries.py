"""The logs of all nodes, merged by time, as JSON lines or as sentences."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from levywalk.fleet.operate.log_text import sentence
from levywalk.printable import printable

_PAUSE = 0.2  # seconds between two looks for new lines


def entries(paths: Mapping[int, Path]) -> Iterator[dict[str, Any]]:
    """Yield all lines of the nodes' logs in order of time; each has at least time, level, node and
    event. Output of a process that is not JSON, such as a traceback, follows the line before it.
    """
    return heapq.merge(
        *(_of_one(node, path) for node, path in sorted(paths.items())),
        key=lambda entry: entry["time"],
    )


def _of_one(node: int, path: Path) -> Iterator[dict[str, Any]]:
    last = ""
    if path.is_file():
        with path.open("rb") as file:
            for raw in file:
                entry = parsed(node, raw, last)
                last = entry["time"]
                yield entry


def parsed(node: int, raw: bytes, last: str = "") -> dict[str, Any]:
    r"""Return a line of a node's log.

    If it has no time, it gets ``last``, the time of the line before.

    Examples
    --------
    >>> parsed(
    ...     3, b'{"time": "2026-01-01T12:00:00.000+00:00", "level": "info", "event": "stopped"}\n'
    ... )["node"]
    3
    >>> parsed(3, b"Segmentation fault\n")
    {'time': '', 'level': 'error', 'node': 3, 'event': 'Segmentation fault'}
    """
    text = raw.decode(errors="replace").rstrip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        entry: dict[str, Any] = {"time": last, "level": "info"} | found | {"node": node}
        if isinstance(found.get("event"), str) and isinstance(entry["time"], str):
            return entry
    return {"time": last, "level": "error", "node": node, "event": text}


class FolderReports:
    """What the nodes of a folder have reported."""

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._read, self._last = dict.fromkeys(paths, 0), dict.fromkeys(paths, "")
        self.silent: dict[int, str] = {}  # a log can be read also if its node does not run

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield all lines in order of time."""
        return entries(self._paths)

    def new(self) -> list[dict[str, Any]]:
        """Return the lines since the last call, in order of time."""
        fresh = []
        for node, path in sorted(self._paths.items()):
            if not path.is_file():
                continue
            with path.open("rb") as file:
                file.seek(self._read[node])
                for raw in file:
                    if raw.endswith(b"\n"):  # otherwise the rest of the line is not written yet
                        self._read[node] += len(raw)
                        entry = parsed(node, raw, self._last[node])
                        self._last[node] = entry["time"]
                        fresh.append(entry)
        return sorted(fresh, key=lambda entry: str(entry["time"]))


def follow(new: Callable[[], list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield all lines, and then new ones as they are written, without end."""
    while True:
        yield from new()
        time.sleep(_PAUSE)


def in_words(entry: Mapping[str, Any]) -> str:
    """Return an entry as a line for people.

    Examples
    --------
    >>> entry = {
    ...     "time": "2026-01-01T12:00:00.250+00:00",
    ...     "level": "info",
    ...     "node": 3,
    ...     "event": "edge up",
    ... }
    >>> in_words(entry | {"neighbour": 2})
    '2026-01-01 12:00:00.250  node   3  the edge to node 2 is up'
    """
    try:
        said = sentence(entry["event"], dict(entry))
    except (KeyError, TypeError, ValueError):  # written by another version of levywalk
        said = (
            f"{entry['event']} {json.dumps({k: v for k, v in entry.items() if k not in _ALWAYS})}"
        )
    mark = {"warning": "! ", "error": "✗ "}.get(str(entry["level"]), "")
    if "token" in entry:  # of several
        said = f"token {entry['token']}: {said}"
    when = str(entry["time"])[:23].replace("T", " ")
    return printable(f"{when:23}  node {entry['node']:>3}  {mark}{said}")


_ALWAYS = ("time", "level", "node", "event")
