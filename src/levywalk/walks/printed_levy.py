"""Jumps by the paper's printed formula for P_Lévy instead of its algorithm.

The paper prints diag(Aⁱ1)⁻¹Aⁱ for a jump of i hops, in which all walks of i hops have the same
weight; Algorithm [alg:jump] makes i moves to uniform neighbours, which is (D⁻¹A)ⁱ. Both agree on
regular networks. A hop to u with i-1 more to make has a weight of (Aⁱ⁻¹1)(u), the number of walks
of i-1 hops from u. A node would have to know the network around it for that, so this walk is not
local.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from levywalk.draws import HOP, JUMP, Words, split, unit
from levywalk.errors import InvalidParameter
from levywalk.memory import Memory
from levywalk.registry import registered
from levywalk.walks.designs import Design
from levywalk.walks.jump import jump_distance
from levywalk.walks.rule import metropolis_hastings
from levywalk.walks.view import Decision, LocalView


@registered("design", "printed_jumps")
@dataclass(frozen=True)
class PrintedJumps(Design):
    """A design whose jumps follow the printed P_Lévy; made by ``mhlj(levy="printed")``.

    The parameters are those of `Design`; it must have a jump law.

    Examples
    --------
    >>> import levywalk as lw
    >>> printed = lw.mhlj(levy="printed")
    >>> printed.local, printed.jump == lw.mhlj().jump
    (False, True)
    """

    name: str = field(default="MHLJ (printed jumps)", compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jump is None:
            raise InvalidParameter(
                "jump must be a JumpLaw, such as JumpLaw(0.1), got None; without jumps there is "
                "nothing that the paper prints otherwise"
            )

    @property
    def local(self) -> bool:  # type: ignore[override]
        """Whether a node can decide alone: not with these jumps."""
        return False

    def as_algorithm(self) -> Design:
        """Return the design that jumps by the algorithm instead."""
        return Design(self.target, self.jump, reweight=self.reweight)

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Decide as Algorithm [alg:jump] does, but hop in proportion to the walks that go on."""
        if view.hops_left:
            return self._hop(view, words(HOP + view.hop), view.hops_left)
        assert self.jump is not None
        p_jump: Any = view.scheduled["p_jump"] if self._scheduled else self.jump.p_jump
        distance = jump_distance(unit(words(JUMP)), p_jump, self._cumulative)
        if distance:
            return self._hop(view, words(HOP), distance)
        return Decision(metropolis_hastings(view, words(HOP)))

    def _hop(self, view: LocalView, word: int, hops: int) -> Decision:
        """Make the first of some hops."""
        assert view.server is not None
        counts = view.server.walk_counts(hops - 1)
        weights = [float(counts[u]) for u in view.neighbours]
        if min(weights) == max(weights):  # the same draw as a hop of the algorithm
            index, _ = split(word, len(weights))
        else:
            limits = list(accumulate(weights))
            index = min(bisect_right(limits, unit(word) * limits[-1]), len(weights) - 1)
        return Decision(view.neighbours[index], hops - 1)
