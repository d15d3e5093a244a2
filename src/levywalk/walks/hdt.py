"""The history-driven target: Metropolis-Hastings for a law that avoids what was visited often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.draws import HOP, OWN, Words, split
from levywalk.memory import Memory
from levywalk.registry import registered
from levywalk.walks.mhda import PREVIOUS
from levywalk.walks.target import Target
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.visit_counts import CountsVisits


@dataclass(frozen=True)
class HistoryDriven(CountsVisits):
    """MHDA for a history-driven target; see `hdt`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.hdt(alpha=2).alpha
    2.0
    """

    alpha: float = 5.0
    name: str = field(default="HDT", compare=False)
    token_memory = PREVIOUS

    def questions(self, view: LocalView, memory: Memory, words: Words) -> Sequence[int]:
        """Return the proposed neighbour, and the second proposal if the first is the way back."""
        if not view.degree:
            return ()
        first = split(words(HOP), view.degree)[0]
        asked = [view.neighbours[first]]
        others = self._others(view, memory)
        if asked[0] == memory.token["previous"] and others:
            asked.append(view.neighbours[others[split(words(OWN), len(others))[0]]])
        return [u for u in asked if u != view.node and view.reaches(u)]

    def _others(self, view: LocalView, memory: Memory) -> list[int]:
        back = memory.token["previous"]
        return [i for i, u in enumerate(view.neighbours) if u not in (back, view.node)]

    def _level(self, score: float, visits: float, degree: int) -> float:
        """Return the logarithm of π(x)_v / d_v, with π(x)_v ∝ π_v (x_v/π_v)^-α."""
        return float(np.log(score / degree) - self.alpha * np.log((visits + 1.0) / score))

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Propose by MHDA, and accept by the target that the visits so far have changed."""
        memory.node["visits"] += 1
        if not view.degree:
            return Decision(view.node)
        index, uniform = split(words(HOP), view.degree)
        to, counts = view.neighbours[index], view.answers["visits"]
        if to == view.node or not view.reaches(to):
            return Decision(view.node)
        own = self._level(view.score, memory.node["visits"], view.degree)
        level = self._level(
            view.neighbour_scores[index], counts[index], view.neighbour_degrees[index]
        )
        if not uniform < np.exp(min(0.0, level - own)):
            return Decision(view.node)
        others = self._others(view, memory)
        if to == memory.token["previous"] and others:
            pick, uniform = split(words(OWN), len(others))
            other = others[pick]
            if view.reaches(view.neighbours[other]):
                second = self._level(
                    view.neighbour_scores[other], counts[other], view.neighbour_degrees[other]
                )
                if uniform < np.exp(2.0 * (min(own, second) - min(own, level))):
                    to = view.neighbours[other]
        memory.token["previous"] = view.node
        return Decision(to)

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk import compiled as draws

        HOP_, OWN_, word, split_ = draws.HOP, draws.OWN, draws.word, draws.split
        alpha = self.alpha

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept,
            asked, step, words,
        ):  # fmt: skip
            (previous,), (mine,), (visits,) = token, kept, asked
            mine[0] += 1
            degree = len(neighbours)
            index, uniform = split_(word(words, HOP_), np.uint64(degree))
            to = np.int64(neighbours[index])
            if to == node:
                return node, 0, 0
            own = np.log(score / degree) - alpha * np.log((mine[0] + 1.0) / score)
            level = np.log(scores[index] / degrees[index]) - alpha * np.log(
                (visits[to] + 1.0) / scores[index]
            )
            asks, back = 1, to == previous[0]
            others = 0
            if back:
                for u in neighbours:
                    others += np.int64(u) != to and np.int64(u) != node
                asks += others > 0
            if not uniform < np.exp(min(0.0, level - own)):
                return node, 0, asks
            if others > 0:
                pick, uniform = split_(word(words, OWN_), np.uint64(others))
                left = np.int64(pick)
                for i in range(degree):
                    u = np.int64(neighbours[i])
                    if u in (to, node):
                        continue
                    if left == 0:
                        second = np.log(scores[i] / degrees[i]) - alpha * np.log(
                            (visits[u] + 1.0) / scores[i]
                        )
                        if uniform < np.exp(2.0 * (min(own, second) - min(own, level))):
                            to = u
                        break
                    left -= 1
            previous[0] = node
            return to, 0, asks

        return decide


@registered("design")
def hdt(alpha: float = 5.0, target: str | Target = "uniform") -> HistoryDriven:
    """MHDA for a history-driven target (Hu, Ma, Eun 2025).

    Proposals are accepted for the law π(x)_v ∝ π_v (x_v/π_v)^-α instead of π, with x the share of
    visits so far (each count begins at 1), so that often visited nodes are avoided; in the long
    run nodes are visited by the law π. Unlike `srrw` only the proposed neighbour is asked for its
    count: two small messages.

    Parameters
    ----------
    alpha
        α, how strongly often visited nodes are avoided; 0 is `mhda`.
    target
        The law π.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(20), lw.homogeneous(20, dim=2)
    >>> trace = lw.run(network, problem, lw.hdt(), steps=200, step_size=0.01)
    >>> int(trace.visits.min()) > 3
    True
    """
    return HistoryDriven(alpha, target)
