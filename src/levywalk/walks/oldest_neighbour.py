"""Go to the neighbour that was visited longest ago."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.draws import Words
from levywalk.memory import Memory, Number
from levywalk.registry import registered
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk


@dataclass(frozen=True)
class OldestNeighbour(Walk):
    """Go to the neighbour that was visited longest ago; see `oldest_neighbour`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.oldest_neighbour().asks_neighbours
    ('last',)
    """

    name: str = field(default="oldest neighbour", compare=False)
    node_memory = {"last": Number(np.int64, initial=-1)}  # noqa: RUF012
    asks_neighbours = ("last",)

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Note the visit, then go to the neighbour whose last visit is the oldest."""
        memory.node["last"] = view.step
        ages = [
            (last, u)
            for last, u in zip(view.answers["last"], view.neighbours, strict=True)
            if last is not None and u != view.node
        ]
        if not ages:
            return Decision(view.node)
        oldest = min(last for last, _ in ages)
        ways = [u for last, u in ages if last == oldest]
        return Decision(ways[words.index(len(ways))])

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk.compiled import HOP, split, word

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept,
            asked, step, words,
        ):  # fmt: skip
            (mine,), (last,) = kept, asked
            mine[0] = step
            oldest, ways, others = np.int64(0), 0, 0
            for u in neighbours:
                if np.int64(u) == node:
                    continue
                others += 1
                if ways == 0 or last[u] < oldest:
                    oldest, ways = last[u], 1
                elif last[u] == oldest:
                    ways += 1
            if ways == 0:
                return node, 0, 0
            index, _ = split(word(words, HOP), np.uint64(ways))
            left = np.int64(index)
            for u in neighbours:
                if np.int64(u) != node and last[u] == oldest:
                    if left == 0:
                        return np.int64(u), 0, others
                    left -= 1
            return node, 0, others

        return decide


@registered("design")
def oldest_neighbour() -> OldestNeighbour:
    """Go to the neighbour that was visited longest ago; one that never was comes first.

    Each node remembers the step of its last visit, and the node that holds the model asks its
    neighbours for theirs: a question and an answer for each of them, which the trace counts as
    small messages. Ties are broken at random. This is the rule "least recently visited" of
    distributed exploration (Malpani, Chen, Vaidya, Welch 2005, "Distributed token circulation in
    mobile ad hoc networks").

    Notes
    -----
    The walk has no Markov chain on nodes and no known law; updates are not weighted.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.grid(5, 5), lw.homogeneous(25, dim=2)
    >>> trace = lw.run(network, problem, lw.oldest_neighbour(), steps=100, step_size=0.01)
    >>> int(trace.visits.min()) > 0, int(trace.small_messages[0, -1]) > 0
    (True, True)
    """
    return OldestNeighbour()
