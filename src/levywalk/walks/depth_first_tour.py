"""A depth-first search over the network, then the tour along its tree, repeated without end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.draws import Words
from levywalk.memory import Memory, Number, PerEdge
from levywalk.registry import registered
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

UNKNOWN, ROOT = -2, -1  # parents of a node that was never visited, and of the first node


@dataclass(frozen=True)
class DepthFirstTour(Walk):
    """A depth-first search, then its tour; see `depth_first_tour`.

    The token knows whether the search is still on. A node remembers its parent in the tree (a
    node without one has not been found yet) and the order in which its children were found.

    Examples
    --------
    >>> import levywalk as lw
    >>> sorted(lw.depth_first_tour().node_memory)
    ['child', 'parent']
    """

    name: str = field(default="depth-first tour", compare=False)
    token_memory = {"searching": Number(np.int64, initial=1)}  # noqa: RUF012
    node_memory = {  # noqa: RUF012
        "parent": Number(np.int64, initial=UNKNOWN),
        "child": PerEdge(np.int64),  # 0: no child; k: the k-th child
    }
    asks_neighbours = ("parent",)

    def questions(self, view: LocalView, memory: Memory, words: Words) -> Sequence[int]:
        """Return all live neighbours while the search is on, none afterwards."""
        return super().questions(view, memory, words) if memory.token["searching"] else ()

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Continue the search if a neighbour was not found yet; else follow the tree."""
        node, near = memory.node, view.neighbours
        if node["parent"] == UNKNOWN:
            node["parent"] = view.came_from if view.came_from >= 0 else ROOT
        child = node["child"]
        if memory.token["searching"]:
            parents = view.answers["parent"]
            fresh = [i for i, u in enumerate(near) if u != view.node and parents[i] == UNKNOWN]
            if fresh:
                i = fresh[words.index(len(fresh))]
                child[i] = child.max() + 1
                return Decision(near[i])
            if node["parent"] >= 0:
                return Decision(node["parent"])
            memory.token["searching"] = 0  # back at the first node: the tree is complete
        came = [int(child[i]) for i, u in enumerate(near) if u == view.came_from]
        following = came[0] + 1 if came else 1
        for i, u in enumerate(near):
            if child[i] == following:
                return Decision(u)
        if node["parent"] >= 0:
            return Decision(node["parent"])
        first = [u for i, u in enumerate(near) if child[i] == 1]
        return Decision(first[0] if first else view.node)

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk.compiled import HOP, split, word

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept,
            asked, step, words,
        ):  # fmt: skip
            (searching,), (parent, child), (parents,) = token, kept, asked
            if parent[0] == UNKNOWN:
                parent[0] = came_from if came_from >= 0 else ROOT
            degree, asks = len(neighbours), 0
            if searching[0] != 0:
                fresh, most = 0, np.int64(0)
                for i in range(degree):
                    u = np.int64(neighbours[i])
                    asks += u != node
                    most = max(most, child[i])
                    fresh += u != node and parents[u] == UNKNOWN
                if fresh > 0:
                    index, _ = split(word(words, HOP), np.uint64(fresh))
                    left = np.int64(index)
                    for i in range(degree):
                        u = np.int64(neighbours[i])
                        if u != node and parents[u] == UNKNOWN:
                            if left == 0:
                                child[i] = most + 1
                                return u, 0, asks
                            left -= 1
                if parent[0] >= 0:
                    return parent[0], 0, asks
                searching[0] = 0
            following = np.int64(1)
            for i in range(degree):
                if np.int64(neighbours[i]) == came_from:
                    following = child[i] + 1
            to = parent[0] if parent[0] >= 0 else node
            for i in range(degree):
                if child[i] == following or (child[i] == 1 and to == node):
                    to = np.int64(neighbours[i])
                    if child[i] == following:
                        break
            return to, 0, asks

        return decide


@registered("design")
def depth_first_tour() -> DepthFirstTour:
    """Search the network depth first, then walk along the tree that was found, repeatedly.

    While it searches, the node that holds the model asks its neighbours whether they have been
    found (small messages), and goes to one that has not, drawn at random; if there is none, the
    model goes back to the node from which this one was found. After 2(n-1) transfers it is back
    at the first node, and then each lap along the tree takes 2(n-1) transfers without a question
    (Tarry 1895; Cheung 1983, "Graph traversal techniques and the maximum flow problem in
    distributed computation").

    Notes
    -----
    The walk has no Markov chain on nodes; a node is visited as often as it has edges in the tree.
    Updates are not weighted. A neighbour that dies breaks the tour: the model then waits for it.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.grid(5, 5), lw.homogeneous(25, dim=2)
    >>> trace = lw.run(network, problem, lw.depth_first_tour(), steps=48, step_size=0.01)
    >>> int(trace.visits.min()), int(trace.transfers[0, -1])
    (1, 48)
    """
    return DepthFirstTour()
