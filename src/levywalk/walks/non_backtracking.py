"""The non-backtracking walk: to a uniform neighbour other than the one that sent the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.draws import Words
from levywalk.memory import Memory
from levywalk.registry import registered
from levywalk.walks.target import Degree
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.problem import Problem


@dataclass(frozen=True)
class NonBacktracking(Walk):
    """The non-backtracking walk; see `non_backtracking`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.non_backtracking().name
    'non-backtracking'
    """

    name: str = field(default="non-backtracking", compare=False)
    target = Degree()

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Leave by a uniform edge other than the one of arrival, if there is one."""
        ways = [u for u in view.live if u != view.node]
        forward = [u for u in ways if u != view.came_from] or ways
        return Decision(forward[words.index(len(forward))] if forward else view.node)

    def chain(self, network: Network, problem: Problem) -> Any:
        """Return the chain on directed edges, in the order of ``network.indices``."""
        from levywalk.walks.edge_chains import non_backtracking

        return non_backtracking(network)

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk.compiled import HOP, split, word

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            ways, back = 0, 0
            for u in neighbours:
                ways += u != node
                back += u == came_from and u != node
            if ways == 0:
                return node, 0
            if ways == back:
                back = 0
            index, _ = split(word(words, HOP), np.uint64(ways - back))
            left = np.int64(index)
            for u in neighbours:
                if u == node or (back > 0 and u == came_from):
                    continue
                if left == 0:
                    return np.int64(u), 0
                left -= 1
            return node, 0

        return decide


@registered("design")
def non_backtracking() -> NonBacktracking:
    """Leave by a uniform edge other than the one of arrival (Alon et al. 2007).

    Only a node with a single neighbour sends the model back. Nodes are visited in proportion to
    their degree, as by `simple_rw`; updates are weighted by d̄/deg(v).

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(50), lw.homogeneous(50, dim=2)
    >>> walk = lw.non_backtracking()
    >>> trace = lw.run(network, problem, walk, steps=50, step_size=0.01, record_walk=True)
    >>> len(set(trace.walk[0].tolist()))
    50
    """
    return NonBacktracking()
