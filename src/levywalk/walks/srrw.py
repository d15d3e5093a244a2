"""The self-repellent random walk: it avoids neighbours that were visited often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.draws import Words
from levywalk.memory import Memory
from levywalk.registry import registered
from levywalk.walks.target import Target
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.visit_counts import CountsVisits


@dataclass(frozen=True)
class SelfRepellent(CountsVisits):
    """The self-repellent random walk; see `srrw`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.srrw(alpha=5).alpha
    5.0
    """

    alpha: float = 10.0
    name: str = field(default="SRRW", compare=False)

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Draw the next node from P(i,j)(x_j/π_j)^-α, normalised, with P of Metropolis-Hastings."""
        memory.node["visits"] += 1
        own = view.score / view.degree if view.degree else 1.0
        # Logarithms, and relative to the largest: a power of a count may overflow.
        moves: list[tuple[int, float, float]] = []
        stay = 1.0
        for i, u in enumerate(view.neighbours):
            if u == view.node or not view.reaches(u):
                continue
            ratio = view.neighbour_scores[i] / view.neighbour_degrees[i]
            p = min(1.0, ratio / own) / view.degree
            stay -= p
            seen = view.answers["visits"][i] + 1.0
            moves.append((u, p, -self.alpha * np.log(seen / view.neighbour_scores[i])))
        if stay > 1e-12:
            seen = memory.node["visits"] + 1.0
            moves.append((view.node, stay, -self.alpha * np.log(seen / view.score)))
        largest = max(level for _, _, level in moves) if moves else 0.0
        masses = [p * np.exp(level - largest) for _, p, level in moves]
        threshold, reached = words.uniform() * sum(masses), 0.0
        for (u, _, _), mass in zip(moves, masses, strict=True):
            reached += mass
            if threshold < reached:
                return Decision(u)
        return Decision(moves[-1][0] if moves else view.node)

    def compiled(self) -> Any:
        """Return the compiled twin of `decide`."""
        from numba import njit

        from levywalk.compiled import HOP, unit, word

        alpha = self.alpha

        @njit
        def decide(  # type: ignore[no-untyped-def]
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept,
            asked, step, words,
        ):  # fmt: skip
            (mine,), (visits,) = kept, asked
            mine[0] += 1
            degree, asks = len(neighbours), 0
            own, stay, largest = score / degree, 1.0, -np.inf
            for i in range(degree):
                u = np.int64(neighbours[i])
                if u == node:
                    continue
                asks += 1
                stay -= min(1.0, scores[i] / degrees[i] / own) / degree
                largest = max(largest, -alpha * np.log((visits[u] + 1.0) / scores[i]))
            level = -alpha * np.log((mine[0] + 1.0) / score)
            if stay > 1e-12:
                largest = max(largest, level)
            total = 0.0
            for turn in range(2):  # the sum of all masses, then the draw among them
                reached, last = 0.0, node
                for i in range(degree):
                    u = np.int64(neighbours[i])
                    if u == node:
                        continue
                    p = min(1.0, scores[i] / degrees[i] / own) / degree
                    other = -alpha * np.log((visits[u] + 1.0) / scores[i])
                    reached += p * np.exp(other - largest)
                    last = u
                    if turn == 1 and total < reached:
                        return u, 0, asks
                if stay > 1e-12:
                    reached += stay * np.exp(level - largest)
                    last = node
                    if turn == 1 and total < reached:
                        return node, 0, asks
                if turn == 0:
                    total = unit(word(words, HOP)) * reached
            return last, 0, asks

        return decide


@registered("design")
def srrw(alpha: float = 10.0, target: str | Target = "uniform") -> SelfRepellent:
    """The self-repellent random walk (Doshi, Hu, Eun 2023).

    The next node is drawn from K(i,j) ∝ P(i,j)(x_j/π_j)^-α, with P the Metropolis-Hastings chain of
    the target π and x the share of visits so far (each count begins at 1). The node asks its
    neighbours for their counts: small messages. In the long run nodes are visited by the law π.
    It is here as a reference: as counts grow, the walk approaches its base chain.

    Parameters
    ----------
    alpha
        α, how strongly often visited neighbours are avoided; 0 is the base chain.
    target
        The law π.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(20), lw.homogeneous(20, dim=2)
    >>> trace = lw.run(network, problem, lw.srrw(), steps=200, step_size=0.01)
    >>> int(trace.visits.min()) > 3
    True
    """
    return SelfRepellent(alpha, target)
