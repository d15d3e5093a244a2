"""Jumps whose probability and distances change at given steps.

A schedule changes p_jump alone. Here p_jump, p_distance and max_hops of the truncated geometric law
change together, as they do when a person moves sliders while the model walks (`levywalk live`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.contracts import keeps
from levywalk.draws import HOP, JUMP, Words, unit
from levywalk.errors import InvalidParameter
from levywalk.memory import Memory
from levywalk.registry import registered
from levywalk.schedule import Schedule
from levywalk.walks.designs import Design
from levywalk.walks.jump import JumpLaw, TruncatedGeometric, jump_distance
from levywalk.walks.rule import hop, metropolis_hastings
from levywalk.walks.target import Mixed
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

TARGETS = ("uniform", "importance", "degree", "mixed")


class PieceNumbers:
    """A schedule that says which piece a step belongs to: 0, 1, …

    Examples
    --------
    >>> PieceNumbers((0, 2)).values(0, 4)
    array([0., 0., 1., 1.])
    """

    def __init__(self, begins: Sequence[int]) -> None:
        self.begins = np.asarray(begins, dtype=np.int64)

    def values(self, start: int, stop: int) -> Floats:
        """Return the number of the piece of each step."""
        found = np.searchsorted(self.begins, np.arange(start, stop), side="right") - 1
        return found.astype(np.float64)


@registered("design", "changing_jumps")
class ChangingJumps(Walk):
    """Metropolis-Hastings with jumps whose three parameters change at given steps.

    Parameters
    ----------
    target
        "uniform", "importance", "degree" or "mixed" (with ``mix``).
    begins
        The steps from which each piece holds, in ascending order; the first is 0.
    p_jump, p_distance, max_hops
        p_J, p_d and r of each piece. A p_J of 0 is a walk without jumps.
    mix
        The share of the uniform law, for the target "mixed".
    reweight
        Whether updates are weighted by w(v) = 1/(nπ(v)).
    name
        The name in tables and figures.

    Examples
    --------
    A walk without jumps that is freed at step 500:

    >>> import levywalk as lw
    >>> freed = ChangingJumps("importance", [0, 500], [0.0, 0.1], [0.5, 0.5], [3, 3])
    >>> trace = lw.run(lw.ring(9), lw.homogeneous(9, dim=2), freed, steps=900, step_size=0.01)
    >>> freed.piece_at(499).jump is None, freed.piece_at(500).jump.p_jump
    (True, 0.1)
    """

    def __init__(
        self,
        target: str,
        begins: list[int],
        p_jump: list[float],
        p_distance: list[float],
        max_hops: list[int],
        mix: float | None = None,
        reweight: bool = True,
        name: str = "changing jumps",
    ) -> None:
        checks.choice("target", target, TARGETS)
        if (target == "mixed") != (mix is not None):
            raise InvalidParameter(
                f"mix can only be given with target 'mixed', got target {target!r}, mix {mix!r}"
            )
        pieces = {"begins": begins, "p_jump": p_jump, "p_distance": p_distance}
        for key, value in (pieces | {"max_hops": max_hops}).items():
            if not isinstance(value, (list, tuple)) or len(value) != len(begins) or not value:
                raise InvalidParameter(
                    f"{key} must list one number per piece, as begins does, got {value!r:.80}"
                )
        self.begins = [checks.integer("begins", step, low=0) for step in begins]
        if self.begins[0] != 0 or any(np.diff(self.begins) <= 0):
            raise InvalidParameter(
                f"begins must ascend from 0, such as [0, 500], got {self.begins!r:.80}"
            )
        self.p_jump = [checks.probability("p_jump", value) for value in p_jump]
        laws = [TruncatedGeometric(*law) for law in zip(p_distance, max_hops, strict=True)]
        self.p_distance = [law.p_distance for law in laws]
        self.max_hops_of = [law.max_hops for law in laws]
        self.mix, self.reweight, self.name = mix, bool(reweight), name
        self.target_name, self.target = target, target if mix is None else Mixed(mix)
        self.recipe = (
            "design",
            "changing_jumps",
            {
                "target": target,
                "begins": self.begins,
                "p_jump": self.p_jump,
                "p_distance": self.p_distance,
                "max_hops": self.max_hops_of,
                "mix": mix,
                "reweight": self.reweight,
            },
        )

    @property
    def max_hops(self) -> int:  # type: ignore[override]
        """The longest jump of any piece."""
        return max(self.max_hops_of)

    @cached_property
    def _reach(self) -> list[Floats]:
        laws = zip(self.p_distance, self.max_hops_of, strict=True)
        return [JumpLaw(0.5, TruncatedGeometric(*law)).cumulative() for law in laws]

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The number of the piece of each step."""
        return {"piece": PieceNumbers(self.begins)}

    def piece_at(self, step: int) -> Design:
        """Return the design that holds at a step."""
        piece = bisect_right(self.begins, step) - 1
        law = TruncatedGeometric(self.p_distance[piece], self.max_hops_of[piece])
        p_jump = self.p_jump[piece]
        jump = JumpLaw(p_jump, law) if p_jump > 0.0 else None
        return Design(self.target, jump, reweight=self.reweight, name=self.name)

    def next_change(self, step: int) -> int | None:
        """Return the first step after this one at which another piece begins, if there is one."""
        piece = bisect_right(self.begins, step)
        return self.begins[piece] if piece < len(self.begins) else None

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Decide by Algorithm [alg:jump] with the parameters of the step's piece."""
        if view.hops_left:
            return Decision(hop(view, words(HOP + view.hop)), view.hops_left - 1)
        piece = int(view.scheduled["piece"])
        uniform: Any = unit(words(JUMP))
        distance = jump_distance(uniform, self.p_jump[piece], self._reach[piece])
        if distance:
            return Decision(hop(view, words(HOP)), distance - 1)
        return Decision(metropolis_hastings(view, words(HOP)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangingJumps) and self.recipe == other.recipe

    def __hash__(self) -> int:
        return hash(tuple(self.begins))


def is_plain_in_pieces(walk: object) -> bool:
    """Return whether a walk is a plain design in each of its pieces, so that kernels can run it.

    Examples
    --------
    >>> is_plain_in_pieces(ChangingJumps("uniform", [0], [0.1], [0.5], [3]))
    True
    """
    return isinstance(walk, ChangingJumps) and keeps(
        walk, ChangingJumps, "decide", "bind", "schedules", "piece_at", "next_change"
    )
