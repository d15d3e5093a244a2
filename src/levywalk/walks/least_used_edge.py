"""Leave by the edge that was used least often, in either direction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.draws import Words
from levywalk.memory import Memory, PerEdge
from levywalk.registry import registered
from levywalk.walks.target import Degree
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk


@dataclass(frozen=True)
class LeastUsedEdge(Walk):
    """Leave by the least used edge; see `least_used_edge`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.least_used_edge().node_memory
    {'uses': PerEdge(dtype=int64, initial=0)}
    """

    name: str = field(default="least-used edge", compare=False)
    target = Degree()
    node_memory = {"uses": PerEdge(np.int64)}  # noqa: RUF012

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Count the edge of arrival, then leave by the least used edge."""
        uses, near = memory.node["uses"], view.neighbours
        if view.came_from >= 0:
            for i, u in enumerate(near):
                uses[i] += u == view.came_from
        open_ways = [i for i, u in enumerate(near) if u != view.node and view.reaches(u)]
        if not open_ways:
            return Decision(view.node)
        least = min(uses[i] for i in open_ways)
        ways = [i for i in open_ways if uses[i] == least]
        i = ways[words.index(len(ways))]
        uses[i] += 1
        return Decision(near[i])

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk.compiled import HOP, split, word

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            (uses,) = kept
            least, ways = np.int64(-1), 0
            for i in range(len(neighbours)):
                u = np.int64(neighbours[i])
                if u == node:
                    continue
                if u == came_from:
                    uses[i] += 1
                if least < 0 or uses[i] < least:
                    least, ways = uses[i], 1
                elif uses[i] == least:
                    ways += 1
            if ways == 0:
                return node, 0
            index, _ = split(word(words, HOP), np.uint64(ways))
            left = np.int64(index)
            for i in range(len(neighbours)):
                u = np.int64(neighbours[i])
                if u != node and uses[i] == least:
                    if left == 0:
                        uses[i] += 1
                        return u, 0
                    left -= 1
            return node, 0

        return decide


@registered("design")
def least_used_edge() -> LeastUsedEdge:
    """Leave by the edge that was used least often, in either direction.

    Each node counts how often the model came or went over each of its edges, so both ends of an
    edge know the same count and no messages are needed. Ties are broken at random. In the long
    run all edges are used equally often, so nodes are visited in proportion to their degree, and
    updates are weighted by d̄/deg(v) (Cooper, Ilcinkas, Klasing, Kosowski 2011,
    "Derandomizing random walks in undirected graphs using locally fair exploration strategies").

    Notes
    -----
    The walk has no Markov chain on nodes, so theory cannot judge it.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.grid(5, 5), lw.homogeneous(25, dim=2)
    >>> trace = lw.run(network, problem, lw.least_used_edge(), steps=200, step_size=0.01)
    >>> int(trace.visits.min()) > 0
    True
    """
    return LeastUsedEdge()
