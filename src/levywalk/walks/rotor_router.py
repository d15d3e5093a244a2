"""The rotor-router walk: each node passes the model to its neighbours in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.draws import Words
from levywalk.memory import Memory, Number
from levywalk.registry import registered
from levywalk.walks.target import Degree
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk


@dataclass(frozen=True)
class RotorRouter(Walk):
    """The rotor-router walk; see `rotor_router`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.rotor_router().node_memory
    {'rotor': Number(dtype=int64, initial=-1)}
    """

    name: str = field(default="rotor-router", compare=False)
    target = Degree()
    node_memory = {"rotor": Number(np.int64, initial=-1)}  # noqa: RUF012

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Turn the rotor to the next neighbour that is alive, and go there."""
        if not view.degree:
            return Decision(view.node)
        rotor, near = memory.node["rotor"], view.neighbours
        rotor = words.index(view.degree) if rotor < 0 else (rotor + 1) % view.degree
        for _ in range(view.degree):
            if near[rotor] != view.node and view.reaches(near[rotor]):
                break
            rotor = (rotor + 1) % view.degree
        memory.node["rotor"] = rotor
        return Decision(near[rotor])

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk.compiled import HOP, split, word

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            (place,) = kept
            degree, rotor = len(neighbours), place[0] + 1
            if rotor == 0:
                index, _ = split(word(words, HOP), np.uint64(degree))
                rotor = np.int64(index)
            elif rotor == degree:
                rotor = 0
            if np.int64(neighbours[rotor]) == node and degree > 1:  # its own loop
                rotor = rotor + 1 if rotor + 1 < degree else 0
            place[0] = rotor
            return np.int64(neighbours[rotor]), 0

        return decide


@registered("design")
def rotor_router() -> RotorRouter:
    """Pass the model to the neighbours in turn (Priezzhev, Dhar, Dhar, Krishnamurthy 1996).

    Each node remembers the neighbour that got the model last and takes the next one, in the
    order of their numbers; the first one is drawn. In the long run all edges are used equally
    often in each direction, so nodes are visited in proportion to their degree, and updates are
    weighted by d̄/deg(v).

    Notes
    -----
    The walk has no Markov chain on nodes, so theory cannot judge it.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.complete(5), lw.homogeneous(5, dim=2)
    >>> trace = lw.run(network, problem, lw.rotor_router(), steps=2000, step_size=0.01)
    >>> int(trace.visits.max() - trace.visits.min()) <= 8
    True
    """
    return RotorRouter()
