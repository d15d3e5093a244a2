"""A recorded trace that is played again, as if it walked now."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.live.live_run import Jumps, RunChanges, StayCounts
from levywalk.live.session import NetworkPicture, Session
from levywalk.network import Network
from levywalk.registry import names
from levywalk.trace import Trace

_PATH = 256  # the last steps whose nodes are shown one by one


def network_of(trace: Trace, path: Path) -> Network:
    """Return the network of a trace, if its name says how it was made.

    A ring, a grid and other networks without randomness can be made again; the fingerprint in the
    trace says whether they are the same.

    Examples
    --------
    >>> import levywalk as lw
    >>> trace = lw.run(lw.grid(2, 3), lw.homogeneous(6, dim=2), lw.mhlj(), steps=9, step_size=0.1)
    >>> network_of(trace, Path("trace.nc")).name
    'grid(2, 3)'
    """
    told = trace.provenance.get("network")
    told = told if isinstance(told, dict) else {}
    name = str(told.get("name", ""))
    found = re.fullmatch(r"(\w+)\(([\d, .]+)\)", name)
    known = names("network")
    if found and found[1] in known and trace.target.size <= 10_000_000:
        try:
            loops = {"self_loops": told.get("self_loops", "none")}
            made: Network = known[found[1]](*(_number(t) for t in found[2].split(",")), **loops)
            if made.fingerprint() == told.get("fingerprint"):
                return made
        except (LevywalkError, TypeError, ValueError):
            pass  # another family under this name
    raise InvalidParameter(
        f"{path} was recorded on {name or 'an unknown network'}, which its name alone does not "
        f"give; name the network as well, such as: levywalk live my.edges --trace {path}"
    )


def _number(text: str) -> int | float:
    return int(text) if text.strip().isdigit() else float(text)


class TraceRun:
    """The first replica of a recorded trace, seen at one step after the other."""

    def __init__(self, trace: Trace, network: Network, path: Path) -> None:
        if trace.walk is None:
            raise InvalidParameter(
                f"{path} has no recorded walk, so there is nothing to play; record it with "
                "record_walk=True, or in an experiment file with record_walk = true under [run]"
            )
        if len(trace.target) != network.n:
            raise InvalidParameter(
                f"{path} was recorded on {len(trace.target)} nodes, but the network has "
                f"{network.n}; name the network of the trace"
            )
        self.name, self.trace, self.network = trace.name, trace, network
        self._nodes: Ints = np.append(trace.walk[0], trace.final_node[0]).astype(np.int64)
        if self._nodes.min() < 0 or self._nodes.max() >= network.n:
            raise InvalidParameter(f"{path} has a walk over nodes that the network does not have")
        self.end = len(self._nodes) - 1
        self.changes: list[Jumps] = []
        self.rewind()

    def rewind(self) -> None:
        """Go back to step 0."""
        self.done, self.visits = 0, np.zeros(self.network.n, np.int64)
        self.stays, self.since = StayCounts(self.network.n), RunChanges()
        self.stays.arrivals[self.node] += 1
        self.curve = [self._point(0)]

    @property
    def node(self) -> int:
        """The node that holds the model."""
        return int(self._nodes[self.done])

    @property
    def target(self) -> Floats:
        """The share of updates that each node should get."""
        return self.trace.target

    @property
    def _checkpoint(self) -> int:
        """The last checkpoint until now."""
        return int(np.searchsorted(self.trace.step, self.done, side="right")) - 1

    @property
    def transfers(self) -> int:
        """The messages until the last checkpoint."""
        return int(self.trace.transfers[0, self._checkpoint])

    @property
    def hops(self) -> int:
        """The decisions until the last checkpoint."""
        return int(self.trace.hops[0, self._checkpoint])

    @property
    def error(self) -> float:
        """‖x - x*‖² at the last checkpoint."""
        return float(self.trace.distance2[0, self._checkpoint])

    def advance(self, steps: int) -> None:
        """Go on by some steps."""
        stop = min(self.done + steps, self.end)
        nodes = self._nodes[self.done : stop + 1]
        np.add.at(self.visits, nodes[:-1], 1)
        self.stays.follow(nodes)
        first, self.done = self._checkpoint, stop
        new = [self._point(i) for i in range(first + 1, self._checkpoint + 1)]
        self.curve += new
        self.since.curve += new
        self.since.steps += len(nodes) - 1
        last = nodes[-_PATH - 1 :]
        far = [self._far(int(v), int(u)) for v, u in pairwise(last)]
        self.since.path = (self.since.path + last[1:].tolist())[-_PATH:]
        self.since.hops = (self.since.hops + far)[-_PATH:]

    def _far(self, v: int, u: int) -> int:
        """Return 1 for a stay or a move to a neighbour, 2 for a jump that went further."""
        return 1 if u == v or u in self.network.neighbours(v) else 2

    def _point(self, i: int) -> tuple[int, int, float]:
        trace = self.trace
        return int(trace.step[i]), int(trace.transfers[0, i]), float(trace.distance2[0, i])

    def new_changes(self) -> RunChanges:
        """Return what happened since the last call."""
        found, self.since = self.since, RunChanges()
        return found


class TraceSession(Session):
    """A recorded trace as a session."""

    kind = "trace"

    def __init__(self, trace: Trace, network: Network, path: Path) -> None:
        run = TraceRun(trace, network, path)
        seed: Any = trace.provenance.get("seed", 0)
        super().__init__(NetworkPicture(network, None), seed if isinstance(seed, int) else 0)
        self.recorded, self.runs = run, [run]

    def restart(self, seed: Any, changes: Any = (), step: Any = 0) -> None:
        """Begin again, and go to a step; a recorded walk has one seed and no other jumps."""
        self.recorded.rewind()
        self.advance(checks.integer("step", step, low=0, high=self.end))
        self.recorded.new_changes()
