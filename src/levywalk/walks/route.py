"""A fixed route: the model visits given nodes in a given order, repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Memory, Number
from levywalk.registry import registered
from levywalk.walks.bound_walk import BoundWalk
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.problem import Problem


@dataclass(frozen=True)
class Route(Walk):
    """A fixed route; see `route`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.route([0, 1, 2]).nodes
    (0, 1, 2)
    """

    nodes: tuple[int, ...]
    name: str = field(default="route", compare=False)
    # The place on the route of the node that holds the model; -1 before the first visit of it.
    token_memory = {"place": Number(np.int64, initial=-1)}  # noqa: RUF012

    def __post_init__(self) -> None:
        clean = np.asarray(self.nodes)
        if clean.ndim != 1 or clean.dtype.kind not in "iu" or len(clean) < 2 or clean.min() < 0:
            raise InvalidParameter(
                f"nodes must be a list of at least two nodes, got {self.nodes!r:.80}"
            )
        object.__setattr__(self, "nodes", tuple(clean.tolist()))

    def bind(self, network: Network, problem: Problem) -> BoundWalk:
        """Check that the route follows edges, from its last node to its first one too."""
        bound = Walk.bind(self, network, problem)
        if max(self.nodes) >= network.n:
            raise InvalidParameter(f"nodes must lie in [0, {network.n - 1}], got {max(self.nodes)}")
        for u, v in zip(self.nodes, (*self.nodes[1:], self.nodes[0]), strict=True):
            if v not in network.neighbours(u):
                raise InvalidParameter(
                    f"nodes must follow edges of the network and end next to where they begin, but "
                    f"{u} and {v} are no neighbours"
                )
        missing = np.setdiff1d(np.arange(network.n), np.array(self.nodes))
        if missing.size:
            raise InvalidParameter(
                f"nodes must visit every node, but {missing.size} are missing, such as {missing[0]}"
            )
        return bound

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Go to the next node of the route."""
        place = memory.token["place"]
        if place < 0:  # the model begins at the route's first visit of the start node
            place = self.nodes.index(view.node)
        following = (place + 1) % len(self.nodes)
        to = self.nodes[following]
        if not view.reaches(to):
            memory.token["place"] = place
            return Decision(view.node)
        memory.token["place"] = following
        return Decision(to)

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        nodes = np.array(self.nodes)

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            (place,) = token
            at = place[0]
            if at < 0:
                at = 0
                while nodes[at] != node:
                    at += 1
            at = at + 1 if at + 1 < len(nodes) else 0
            place[0] = at
            return nodes[at], 0

        return decide


@registered("design")
def route(nodes: Sequence[int]) -> Route:
    """Visit the nodes in a given order, repeatedly.

    A route that was planned by somebody who knows the network: an upper limit to compare walks with
    that do not know it.

    Parameters
    ----------
    nodes
        The nodes in order; each is a neighbour of the one before, the first one is a neighbour of
        the last one, and every node occurs. The model begins at the place where its start node
        first occurs.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(5), lw.homogeneous(5, dim=2)
    >>> walk = lw.route(range(5))
    >>> trace = lw.run(
    ...     network, problem, walk, steps=7, step_size=0.01, start=3, record_walk=True
    ... )
    >>> trace.walk[0].tolist()
    [3, 4, 0, 1, 2, 3, 4]
    """
    if isinstance(nodes, tuple):
        return Route(nodes)
    try:
        return Route(tuple(np.asarray(nodes).tolist()))
    except TypeError:  # a single number, or None
        raise InvalidParameter(
            f"nodes must be a sequence of nodes, such as range(5), got {nodes!r}"
        ) from None
