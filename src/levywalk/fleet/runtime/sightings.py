"""What a node has seen of the walk: when the token was here, how fast it moves, and the loss and
the metrics of the model.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any

import numpy as np

from levywalk.fleet.protocol.records import Disk, HeldStatus
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.setup.built import OwnMetrics
from levywalk.problem import Problem

DEATHS = 3.0  # times ``dead_after`` without a step: the walk seems to have stopped …
VISITS = 10.0  # … and times the longest time between two steps that this node has seen
_WINDOW = 30.0  # seconds over which hand-offs are counted


class Sightings:
    """The visits of the token at one node, as far as the running process has seen them."""

    def __init__(
        self, disk: Disk, problem: Problem | None, metrics: OwnMetrics | None = None
    ) -> None:
        self.problem, self._metrics = problem, metrics
        self.visits: deque[tuple[float, int]] = (
            deque()
        )  # when the token was here, and its transfers
        self.seen = _present(disk)
        self.taken: Token | None = (
            None  # the last token that arrived, before this node's own update
        )
        self.progress_at = time.monotonic()  # when a step of the walk was last seen here
        self.longest = 0.0  # the longest time between two steps that were seen here
        self._mark = self._progress(disk)

    @staticmethod
    def _progress(disk: Disk) -> tuple[object, ...]:
        """Return what changes with every step that a node can see: the token while it is here, the
        copy that it guards, the highest epoch, the end.
        """
        held, guarded = disk.held, disk.guarded
        return (
            disk.known.epoch,
            None if held is None else (held.token.epoch, held.token.seq, held.token.step),
            None
            if guarded is None
            else (guarded.copy.seq, guarded.copy.step, guarded.register is None),
            disk.final is not None,
        )

    def silence(self) -> float:
        """Return for how many seconds no step of the walk was seen here."""
        return time.monotonic() - self.progress_at

    def patience(self, dead_after: float) -> float:
        """Return after how many seconds without a step the walk seems to have stopped: longer than
        a death takes to be noticed and repaired, and much longer than any time between two visits
        so far.
        """
        return max(DEATHS * dead_after, VISITS * self.longest)

    def look(self, disk: Disk) -> None:
        """Remember the token while it is here, for the status and the metrics."""
        mark = self._progress(disk)
        if mark != self._mark:
            now = time.monotonic()
            self.longest = max(self.longest, now - self.progress_at)
            self._mark, self.progress_at = mark, now
        held = disk.held
        if held is not None and held.status == HeldStatus.PREPARED and disk.final is None:
            self.taken = held.token
            return
        token = _present(disk)
        if token is not None and token is not self.seen:
            now = time.monotonic()
            if not self.visits or self.visits[-1][1] != token.transfers:
                self.visits.append((now, token.transfers))
                while len(self.visits) > 2 and now - self.visits[0][0] > _WINDOW:
                    self.visits.popleft()
            self.seen = token

    def rate(self) -> float | None:
        """Return the fleet's transfers per second, measured from the token's visits here.

        The rate falls while the token is away for long.
        """
        if len(self.visits) < 2:
            return None
        (since, first), (until, last) = self.visits[0], self.visits[-1]
        away, between = time.monotonic() - until, (until - since) / (len(self.visits) - 1)
        return (
            (last - first) / (until - since + max(0.0, away - 3 * between))
            if until > since
            else None
        )

    def loss(self) -> dict[str, Any] | None:
        """Return this node's own loss of the last model that it received, before its own update.

        A node without data has none. As in a simulation, the loss is infinite once the model has
        diverged, and where it cannot be computed because the model is too large.
        """
        if self.taken is None or self.problem is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(self.problem.local_loss(0, self.taken.model))
        if self.taken.diverged_at >= 0 or not math.isfinite(value):
            value = math.inf
        return {"step": self.taken.step, "value": value}

    def metrics(self) -> dict[str, float]:
        """Return this node's metrics of the last model that it received, on what it has held out;
        empty if there are none. A metric without a finite value is NaN, and stays.
        """
        if self.taken is None or self._metrics is None:
            return {}
        return dict(zip(self._metrics.names, self._metrics(self.taken.model), strict=True))


def _present(disk: Disk) -> Token | None:
    """Return the token at a node; beside the final one there may be one that was never used."""
    if disk.held is None or disk.final is not None:
        return disk.final
    return disk.held.token
