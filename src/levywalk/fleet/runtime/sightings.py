"""What a node has seen of the walk: when the token was here, how fast it moves, and the loss and
the metrics of the model.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any

from levywalk.fleet.protocol.records import Disk, HeldStatus
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.setup.built import OwnMetrics
from levywalk.problem import Problem

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
        self.seen = disk.final if disk.held is None else disk.held.token
        self.taken: Token | None = (
            None  # the last token that arrived, before this node's own update
        )

    def look(self, disk: Disk) -> None:
        """Remember the token while it is here, for the status and the metrics."""
        if disk.held is not None and disk.held.status == HeldStatus.PREPARED:
            self.taken = disk.held.token
            return
        token = disk.final if disk.held is None else disk.held.token
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

        A node without data has none.
        """
        if self.taken is None or self.problem is None:
            return None
        value = float(self.problem.local_loss(0, self.taken.model))
        return {"step": self.taken.step, "value": value} if math.isfinite(value) else None

    def metrics(self) -> dict[str, float]:
        """Return this node's metrics of the last model that it received, on what it has held out;
        empty if there are none.
        """
        if self.taken is None or self._metrics is None:
            return {}
        values = self._metrics(self.taken.model)
        return {
            name: value
            for name, value in zip(self._metrics.names, values, strict=True)
            if math.isfinite(value)
        }
