"""Membership: heartbeats, edge records, and nodes that join or leave."""

from __future__ import annotations

from levywalk.fleet.protocol.events import Joins, Leaves
from levywalk.fleet.protocol.messages import Heartbeat
from levywalk.fleet.protocol.records import Edge
from levywalk.fleet.protocol.witnesses import Witnesses


class Membership(Witnesses):
    """Heartbeats, the agreement of both ends about each edge, joining and leaving."""

    def _announce(self, now: float) -> None:
        for u in self.neighbours:
            self._beat(u, now)

    def _beat(self, u: int, now: float) -> None:
        disk, edge = self.disk, self.disk.edges[u]
        degree, pending, leaving = disk.own
        self._send(
            u,
            Heartbeat(
                disk.known.epoch,
                self._end_name(),
                self._hears(u, now) and not (leaving and self._has_left()) and not self._avoids(u),
                edge.version,
                edge.up,
                pending if pending > degree else degree,
                edge.degree,
                self.site.scores,
            ),
        )

    def _end_name(self) -> bytes:
        """Return the name by which nodes compare which end of the walk they know; empty if it is
        not over.
        """
        end = self.disk.end
        return b"" if end is None else end.digest[:8]

    def _set_edge(self, u: int, edge: Edge) -> None:
        self._put("edges", self.disk.edges | {u: edge})
        self._look()

    def _agree(self, u: int, edge: Edge, message: Heartbeat, now: float) -> None:
        """Bring both ends of an edge to the same record: the newer one, or "down" if both are
        equally new.
        """
        version, up = edge.version, edge.up
        if (  # most heartbeats change nothing
            up
            and message.edge_up
            and message.edge_version == version
            and message.degree <= edge.degree
            and message.scores == edge.scores
        ):
            if self.disk.own.pending:
                self._grow(u, message, now)
            return
        if message.edge_version > version:
            version, up = message.edge_version, message.edge_up
        elif message.edge_version == version:
            up = up and message.edge_up
        settled = message.edge_version == version and message.edge_up == up
        avoided = self._avoids(u)
        if avoided and up:
            version, up = version + 1, False
        if not (up or avoided or self._has_left()) and settled and message.heard and self.id < u:
            version, up = (
                version + 1,
                True,
            )  # only the end with the lower id brings an edge up again
        degree = max(
            edge.degree, message.degree
        )  # a degree never falls: a smaller one is from an old message
        fresh = Edge(version, up, degree, message.scores, edge.joined)
        if fresh != edge:
            self._set_edge(u, fresh)
            if up != edge.up:
                self._record("edge up" if up else "edge down", node=u)
            self._beat(u, now)
        self._grow(u, message, now)

    def _grow(self, u: int, message: Heartbeat, now: float) -> None:
        """Start to use a larger degree once every live neighbour has stored it.

        Neighbours whose edge may come up at any time count as live.
        """
        own = self.disk.own
        if not own.pending:
            return
        if message.known_degree == own.pending:
            self.acknowledged.add(u)
        live = {u for u in self.neighbours if self.disk.edges[u].up or self._hears(u, now)}
        if live <= self.acknowledged:
            self._put("own", own._replace(degree=own.pending, pending=0))
            self._put(
                "edges", {v: edge._replace(joined=True) for v, edge in self.disk.edges.items()}
            )
            self._look()

    def _joins(self, event: Joins, now: float) -> None:
        """Add an edge. It is used once every live neighbour knows the new degree."""
        if event.node not in self.disk.edges:
            self._add_edge(event.node)
            self._greet_newcomer(event.node)
            self._beat(event.node, now)

    def _add_edge(self, node: int) -> None:
        own = self.disk.own
        self.acknowledged.clear()
        self._put("own", own._replace(pending=max(own.degree, own.pending) + 1))
        self._set_edge(node, Edge(0, False, 1, self.site.scores, joined=False))

    def _leaves(self, event: Leaves, now: float) -> None:
        """Accept no token from now on.

        Close the edges once this node neither holds nor guards a token.
        """
        self._put("own", self.disk.own._replace(leaving=True))
        self._record("leaving")
        self._announce(now)

    def _has_left(self) -> bool:
        """Return whether this node is leaving and no longer needed.

        Until then its edges stay up, because it may have to hand a token over.
        """
        return self.disk.own.leaving and self._idle()

    def _take_edges_down(self) -> None:
        down = {
            u: edge._replace(version=edge.version + 1, up=False)
            for u, edge in self.disk.edges.items()
            if edge.up and u != self.id
        }
        if down:
            self._put("edges", self.disk.edges | down)
            self._look()
            self._record("left")
