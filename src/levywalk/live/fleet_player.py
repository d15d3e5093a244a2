"""A fleet that is watched: where the model is, who guards it, who is alive, what happens.

It only reads: the status that nodes give, their disks, and their logs; or, of a fleet elsewhere,
what nodes answer at their operator ports.
"""

from __future__ import annotations

import shlex
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.any_fleet import Reports, network_behind, open_any_fleet
from levywalk.fleet.operate.fleet_status import NodeView, fleet_status, has_begun
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.log_entries import parsed
from levywalk.fleet.operate.log_text import sentence
from levywalk.fleet.operate.status_text import said_diverged, said_lost, said_memory_starts
from levywalk.live.layout import edges, places
from levywalk.live.session import finite
from levywalk.printable import printable, printable_values

MOST_NODES = 2_000
_PAUSE = 0.5  # seconds between two looks, or three times as long as a look takes
_PATIENCE = 0.5  # seconds to wait for a node's answer
_LINES = 200  # of the log that a page is sent
_TAIL = 1 << 16  # bytes of each log that are read at the beginning
_CURVE = 1_500
_QUIET = ("edge up", "edge down")  # reported by both ends, and many times at the start


class FleetPlayer:
    """Watches the fleet in a folder, or the one elsewhere that an operator's folder names."""

    scripts: tuple[str, ...] = ("draw.js", "chart.js", "fleet.js")
    body = "fleet.html"

    def __init__(self, folder: Path, token: int | None = None) -> None:
        fleet = open_any_fleet(folder)
        tokens = fleet.manifest.tokens
        checks.integer("--token", token or 0, low=0, high=tokens - 1)
        self.fleet = fleet.token(token or 0)
        nodes = self.fleet.manifest.nodes
        if nodes > MOST_NODES:
            raise InvalidParameter(
                f"a fleet of at most {MOST_NODES} nodes can be watched, got {nodes}; use "
                f"levywalk fleet status {folder} --watch"
            )
        which = "" if tokens == 1 else f", token {token or 0} of {tokens}"
        self.title = f"The fleet {fleet.manifest.name} on {fleet.manifest.network}{which}"
        self.network = network_behind(self.fleet)
        self._logs: LogTails | RemoteTails = (
            LogTails({v: self.fleet.log(v) for v in self.fleet.files})
            if isinstance(self.fleet, FleetFolder)
            else RemoteTails(self.fleet.reports())
        )
        self._lines: deque[dict[str, Any]] = deque(maxlen=_LINES)
        self._curve: list[list[float]] = []
        self._took = 0.0
        self._now = self._look()

    def hello(self) -> dict[str, Any]:
        """Return the network, the last lines of the logs, and the present state."""
        return {
            "kind": "fleet",
            "title": self.title,
            "network": {
                "name": self.network.name,
                "n": self.network.n,
                "places": np.round(places(self.network), 5).tolist(),
                "lines": edges(self.network).tolist(),
            },
            "frame": self._now | {"log": list(self._lines), "curve": self._curve},
        }

    def pause(self) -> float | None:
        """Return the seconds until the next look."""
        return max(_PAUSE, 3.0 * self._took)

    def tick(self, seconds: float) -> dict[str, Any] | None:
        """Look at all nodes, and return what is seen."""
        self._now = self._look()
        return self._now

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Refuse: a fleet is only watched here."""
        raise InvalidParameter("the page only watches; use levywalk fleet to change something")

    def _look(self) -> dict[str, Any]:
        began = time.perf_counter()
        views = self.fleet.node_views(_PATIENCE)
        begun = self.fleet.begun if isinstance(self.fleet, FleetFolder) else has_begun(views)
        at = shlex.quote(str(self.fleet.path))
        status = fleet_status(views, self.fleet.manifest, begun=begun, at=at)
        self._took = time.perf_counter() - began
        lines = self._logs.new()
        self._lines.extend(lines)
        point = []
        if status["loss"] is not None and finite(status["loss"]) is not None:
            point = [[status["step"], status["step"], status["loss"]]]
            self._curve = (self._curve + point)[-_CURVE:]
        kept = ("finished", "holder", "guardian", "epoch", "step", "steps", "transfers", "stopped",
                "diverged_at", "loss_is_infinite", "nodes_up", "nodes_down",
                "nodes_unreached")  # fmt: skip
        told = {key: status[key] for key in kept}
        seen = told | {
            "waits": [
                *said_diverged(status),
                *said_memory_starts(status),
                *status["waits"],
                *status["warnings"],
            ],
            "lost_updates": said_lost(status, " updates"),
            "loss": None if status["loss"] is None else finite(status["loss"]),
            "metrics": {name: finite(value) for name, value in status["metrics"].items()},
            "rate": status["hops_per_second"],
            "nodes": [_row(row) for row in status["nodes"]],
            "recent": recent(views),
            "log": lines,
            "curve": point,
        }
        return dict(printable_values(seen))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("id", "name", "up", "answers", "role", "epoch", "step", "leaving", "waits", "error",
            "fenced", "unreached")  # fmt: skip
    return {key: row[key] for key in kept} | {
        "loss": None if row["loss"] is None else finite(row["loss"]),
        "edges_up": row["edges_up"],
    }


def recent(views: list[NodeView], most: int = 12) -> list[int]:
    """Return the nodes that the model was at, by their last visit; the last one comes last."""
    seen = [(one.last.token_epoch, one.last.step, one.id) for one in views if one.last is not None]
    return [v for _, _, v in sorted(seen)[-most:]]


class RemoteTails:
    """The new reports of nodes elsewhere."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def new(self) -> list[dict[str, Any]]:
        """Return the reports since the last call, in order of time, as sentences."""
        found = [_told(one) for one in self._reports.new() if one["event"] not in _QUIET]
        return found[-_LINES:]


class LogTails:
    """The new lines of several logs; of what was written before, the last ones."""

    def __init__(self, paths: dict[int, Path]) -> None:
        self.paths = paths
        self._read: dict[int, int] = {}

    def new(self) -> list[dict[str, Any]]:
        """Return the lines since the last call, in order of time, as sentences."""
        found = []
        for node, path in self.paths.items():
            for raw in self._fresh(node, path):
                entry = parsed(node, raw)
                if entry["event"] not in _QUIET:
                    found.append(_told(entry))
        return sorted(found, key=lambda entry: entry["time"])[-_LINES:]

    def _fresh(self, node: int, path: Path) -> list[bytes]:
        try:
            size = path.stat().st_size
            begin = self._read.get(node, max(0, size - _TAIL))
            if size < begin:  # it was written anew
                begin = 0
            with path.open("rb") as file:
                file.seek(begin)
                text = file.read(16 * _TAIL)
        except OSError:
            return []
        whole, newline, _ = text.rpartition(b"\n")
        self._read[node] = begin + len(whole) + len(newline)
        return whole.splitlines()[-_LINES:] if whole else []


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    try:
        text = sentence(entry["event"], entry)
    except (KeyError, TypeError, ValueError, IndexError):  # a line of another version
        text = entry["event"]
    if "token" in entry:  # of several
        text = f"token {entry['token']}: {text}"
    return {
        "time": _short(entry["time"], 40),
        "node": entry["node"],
        "text": _short(text, 400),
        "level": _short(entry["level"], 16),
    }


def _short(text: object, most: int) -> str:
    """Return the beginning of a text, in which no character changes the text's direction."""
    return printable(str(text)[:most])[:most]
