"""Metropolis-Hastings with delayed acceptance: the walk avoids the node that it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import HOP, JUMP, OWN, Words, split, unit
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, Memory, Number
from levywalk.registry import registered
from levywalk.schedule import is_schedule
from levywalk.walks.jump import JumpLaw, jump_distance
from levywalk.walks.rule import hop
from levywalk.walks.target import Target, as_target
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.problem import Problem

PREVIOUS: dict[str, Kind] = {"previous": Number(np.int64, initial=-1)}


@dataclass(frozen=True)
class Mhda(Walk):
    """Metropolis-Hastings with delayed acceptance; see `mhda`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.mhda().token_memory
    {'previous': Number(dtype=int64, initial=-1)}
    """

    target: Any = "uniform"
    jump: JumpLaw | None = None
    name: str = field(default="MHDA", compare=False)
    token_memory = PREVIOUS

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", as_target(self.target))
        if self.jump is not None and not isinstance(self.jump, JumpLaw):
            raise InvalidParameter(
                f"jump must be a JumpLaw, such as lw.JumpLaw(0.1), or None, got {self.jump!r}"
            )
        if self.jump is not None and is_schedule(self.jump.p_jump):
            raise InvalidParameter("jump of mhda must have a constant p_jump, got a schedule")
        cumulative = np.empty(0) if self.jump is None else self.jump.cumulative()
        object.__setattr__(self, "_cumulative", cumulative)

    @property
    def max_hops(self) -> int:  # type: ignore[override]
        """The longest jump."""
        return max(1, len(self._cumulative))

    _cumulative: Floats = field(init=False, repr=False, compare=False)

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Propose a neighbour and accept it by the target; avoid the one that sent the model."""
        token = memory.token
        if view.hops_left:
            return Decision(hop(view, words(HOP + view.hop)), view.hops_left - 1)
        if self.jump is not None:
            p_jump: Any = self.jump.p_jump
            distance = jump_distance(unit(words(JUMP)), p_jump, self._cumulative)
            if distance:
                token["previous"] = -1  # a jump forgets where the model was
                return Decision(hop(view, words(HOP)), distance - 1)
        to = self._delayed(view, token["previous"], words)
        if to != view.node:
            token["previous"] = view.node
        return Decision(to)

    def _delayed(self, view: LocalView, previous: int, words: Words) -> int:
        if not view.degree:
            return view.node
        index, uniform = split(words(HOP), view.degree)
        own = view.score / view.degree
        ratio = view.neighbour_scores[index] / view.neighbour_degrees[index]
        to = view.neighbours[index]
        if not uniform * own < ratio or not view.reaches(to):
            return view.node
        if to != previous or to == view.node:
            return to
        others = [i for i, u in enumerate(view.neighbours) if u not in (previous, view.node)]
        if not others:
            return to
        pick, uniform = split(words(OWN), len(others))
        other = others[pick]
        second = view.neighbour_scores[other] / view.neighbour_degrees[other]
        # min(1, (A(i, j') / A(i, k))²), both acceptance probabilities times own
        accept = (min(own, second) / min(own, ratio)) ** 2
        if uniform < accept and view.reaches(view.neighbours[other]):
            return view.neighbours[other]
        return to

    def chain(self, network: Network, problem: Problem) -> Any:
        """Return the chain without jumps on directed edges: (previous, node), by `network.indices`.

        A state is the entry of ``network.indices`` in the row of the previous node. With jumps
        there is none, because a jump forgets the previous node.
        """
        if self.jump is not None or network.self_loops != "none":
            return None
        from levywalk.walks.edge_chains import delayed_acceptance

        return delayed_acceptance(network, self.bind(network, problem).scores)

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk import compiled as draws

        HOP_, OWN_, word, split_, unit_ = (
            draws.HOP,
            draws.OWN,
            draws.word,
            draws.split,
            draws.unit,
        )
        p_jump = 0.0 if self.jump is None else float(self.jump.p_jump)  # type: ignore[arg-type]
        cumulative = tuple(float(value) for value in self._cumulative) or (1.0,)

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            (previous,) = token
            degree = len(neighbours)
            if hops_left > 0:
                index, _ = split_(word(words, HOP_ + np.uint64(hop)), np.uint64(degree))
                return neighbours[index], hops_left - 1
            if p_jump > 0.0:
                uniform = unit_(words)
                if uniform < p_jump:
                    distance = 1
                    while uniform >= p_jump * cumulative[distance - 1]:
                        distance += 1
                    previous[0] = -1
                    index, _ = split_(word(words, HOP_), np.uint64(degree))
                    return neighbours[index], distance - 1
            index, uniform = split_(word(words, HOP_), np.uint64(degree))
            own, ratio = score / degree, scores[index] / degrees[index]
            to = np.int64(neighbours[index])
            if not uniform * own < ratio or to == node:
                return node, 0
            if to == previous[0]:
                others = 0
                for u in neighbours:
                    others += u != to and u != node
                if others > 0:
                    pick, uniform = split_(word(words, OWN_), np.uint64(others))
                    left = np.int64(pick)
                    for i in range(degree):
                        u = np.int64(neighbours[i])
                        if u in (to, node):
                            continue
                        if left == 0:
                            second = scores[i] / degrees[i]
                            if uniform < (min(own, second) / min(own, ratio)) ** 2:
                                to = u
                            break
                        left -= 1
            previous[0] = node
            return to, 0

        return decide


@registered("design")
def mhda(target: str | Target = "uniform", jump: JumpLaw | None = None) -> Mhda:
    """Metropolis-Hastings with delayed acceptance (Lee, Xu, Eun 2012), for any target.

    A neighbour j of the node i is proposed and accepted with probability
    A(i,j) = min(1, π_j d_i / (π_i d_j)). If j is the previous node k, another neighbour j' is
    drawn uniformly, and the model goes there with probability min(1, [A(i,j')/A(i,k)]²), else
    to k. After a rejection the model stays and k is kept. The law of the nodes is exactly π,
    and averages along the walk have at most the variance of plain Metropolis-Hastings.

    Parameters
    ----------
    target
        The law π: "uniform", "importance", "degree", a `Target` or one score per node.
    jump
        Lévy jumps, as in `mhlj`; the law is then no longer exactly π.

    Notes
    -----
    The previous node travels with the model. There is none at the start and after a jump. Under
    the self-loop policy "counted" a node's own loop is a stay: it is never the way back, and k
    is kept.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(100), lw.homogeneous(100, dim=2)
    >>> trace = lw.run(network, problem, lw.mhda(), steps=100, step_size=0.01, record_walk=True)
    >>> len(set(trace.walk[0].tolist()))  # on a ring it never turns back
    100
    """
    return Mhda(target, jump)
