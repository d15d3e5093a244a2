"""The lifted walk on a ring: the model keeps its direction and turns round rarely."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from levywalk import checks
from levywalk.draws import OWN, Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Memory
from levywalk.registry import registered
from levywalk.walks.bound_walk import BoundWalk
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.problem import Problem


@dataclass(frozen=True)
class LiftedRing(Walk):
    """The lifted walk on a ring; see `lifted_ring`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.lifted_ring(p_turn=0.01).p_turn
    0.01
    """

    p_turn: float | None = None
    name: str = field(default="lifted ring", compare=False)

    def __post_init__(self) -> None:
        if self.p_turn is not None:
            object.__setattr__(self, "p_turn", checks.probability("p_turn", self.p_turn))

    def bind(self, network: Network, problem: Problem) -> BoundWalk:
        """Check that the network is a ring, and set ``p_turn`` to 1/n if it is not given."""
        return Walk.bind(self._on(network), network, problem)

    def _on(self, network: Network) -> Self:
        others = np.diff(network.indptr) - (network.self_loops == "counted")
        if network.n < 3 or (others != 2).any():
            v = int(np.argmax(others != 2))
            raise InvalidParameter(
                f"lifted_ring walks on a ring, where every node has two neighbours, but node {v} "
                f"has {int(others[v])}; use mhda, which also avoids turning back"
            )
        made = copy.copy(self)
        p_turn = 1.0 / network.n if self.p_turn is None else self.p_turn
        object.__setattr__(made, "p_turn", p_turn)
        object.__setattr__(made, "recipe", ("design", "lifted_ring", {"p_turn": p_turn}))
        return made

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Go on in the same direction, or turn round with probability ``p_turn``."""
        assert self.p_turn is not None
        ways = [u for u in view.neighbours if u != view.node]
        if view.came_from not in ways:
            to = ways[words.index(2)]
        else:
            turns = words.uniform(OWN) < self.p_turn
            to = view.came_from if turns else ways[1 - ways.index(view.came_from)]
        return Decision(to if view.reaches(to) else view.node)

    def chain(self, network: Network, problem: Problem) -> Any:
        """Return the chain on directed edges, in the order of ``network.indices``."""
        from levywalk.walks.edge_chains import turning

        p_turn = self._on(network).p_turn
        assert p_turn is not None
        return turning(network, p_turn)

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk import compiled as draws

        HOP, OWN_, word, split, unit = draws.HOP, draws.OWN, draws.word, draws.split, draws.unit
        p_turn = 0.0 if self.p_turn is None else self.p_turn

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            first, second = np.int64(-1), np.int64(-1)
            for u in neighbours:
                if np.int64(u) != node:
                    first, second = second, np.int64(u)
            if came_from < 0:
                index, _ = split(word(words, HOP), np.uint64(2))
                return (second if index == 1 else first), 0
            if unit(word(words, OWN_)) < p_turn:
                return came_from, 0
            return (second if first == came_from else first), 0

        return decide


@registered("design")
def lifted_ring(p_turn: float | None = None) -> LiftedRing:
    """Keep the direction on a ring, and turn round with a small probability.

    The walk of Diaconis, Holmes and Neal (2000): it mixes in O(n) steps instead of O(n²), with the
    uniform law. Any other network is refused.

    Parameters
    ----------
    p_turn
        The probability to turn round; default 1/n.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(50), lw.homogeneous(50, dim=2)
    >>> trace = lw.run(network, problem, lw.lifted_ring(), steps=500, step_size=0.01)
    >>> int(trace.transfers[0, -1])
    500
    """
    return LiftedRing(p_turn)
