"""Random reshuffling: every node once in each round, in an order that is drawn anew."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.draws import OWN, Words, mix64
from levywalk.memory import Memory, Number
from levywalk.registry import registered
from levywalk.walks.bound_walk import BoundWalk
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.problem import Problem

ROUNDS = 6  # of the Feistel network


def shuffled(place: int, key: int, n: int) -> int:
    """Return the image of a place under the permutation of 0, …, n-1 that belongs to a key.

    A Feistel network permutes a square number of places that is at least n, and places beyond n
    are mapped again until they lie below n.

    Examples
    --------
    >>> sorted(shuffled(i, key=7, n=10) for i in range(10)) == list(range(10))
    True
    """
    bits = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << bits) - 1
    while True:
        left, right = place >> bits, place & mask
        for turn in range(ROUNDS):
            left, right = right, left ^ (mix64(key ^ mix64(right * ROUNDS + turn + 1)) & mask)
        place = (left << bits) | right
        if place < n:
            return place


@dataclass(frozen=True)
class Reshuffling(Walk):
    """Random reshuffling; see `reshuffling`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.reshuffling().local
    False
    """

    name: str = field(default="reshuffling", compare=False)
    n: int = field(default=0, init=False, repr=False, compare=False)
    local = False
    token_memory = {  # noqa: RUF012
        "key": Number(np.uint64),  # of the round's permutation
        "place": Number(np.int64, initial=-1),  # in the round; -1: the round begins
    }

    def bind(self, network: Network, problem: Problem) -> BoundWalk:
        """Note the number of nodes."""
        made = copy.copy(self)
        object.__setattr__(made, "n", network.n)
        return Walk.bind(made, network, problem)

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Go to the next node of the round."""
        token = memory.token
        place = token["place"] + 1
        if place == 0 or place == self.n:
            place, token["key"] = 0, words(OWN)
        token["place"] = place
        return Decision(shuffled(place, token["key"], self.n))

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk.compiled import OWN as OWN_
        from levywalk.compiled import mix64 as mix
        from levywalk.compiled import word

        n = self.n
        bits = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
        mask = np.uint64((1 << int(bits)) - 1)
        rounds = np.uint64(ROUNDS)

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            key, place = token
            at = place[0] + 1
            if at == 0 or at == n:
                at = 0
                key[0] = word(words, OWN_)
            place[0] = at
            found = np.uint64(at)
            while True:
                left, right = found >> bits, found & mask
                for turn in range(ROUNDS):
                    mixed = mix(key[0] ^ mix(right * rounds + np.uint64(turn + 1)))
                    left, right = right, left ^ (mixed & mask)
                found = (left << bits) | right
                if found < np.uint64(n):
                    return np.int64(found), 0

        return decide


@registered("design")
def reshuffling() -> Reshuffling:
    """Visit every node once in each round of n steps, in an order that is drawn anew.

    Only a server could do this: an upper limit to compare walks along edges with. The start node is
    the first visit, and the rounds follow. Orders come from a Feistel network with the round's key,
    so that no list of nodes is needed.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(5), lw.homogeneous(5, dim=2)
    >>> walk = lw.reshuffling()
    >>> trace = lw.run(network, problem, walk, steps=11, step_size=0.01, record_walk=True)
    >>> sorted(trace.walk[0, 1:6].tolist()), sorted(trace.walk[0, 6:11].tolist())
    ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    """
    return Reshuffling()
