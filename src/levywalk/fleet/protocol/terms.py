"""The times and rules of the hand-off, which are the same at all nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from levywalk import checks

DEPTH, MOST_DEPTH = 4, 100


class GuardianPolicy(StrEnum):
    """What a holder does when its guardian is silent."""

    WAIT = "wait"  # until it is back, or the operator says that it is gone
    EAGER = "eager"  # take another guardian, at the risk of a second branch of the walk


@dataclass(frozen=True)
class HandOffTerms:
    """The times and rules of the hand-off, which are the same at all nodes.

    Attributes
    ----------
    run
        The name of the run; the hash of the manifest.
    renew_after
        K: one permanent death of a node loses at most this many updates.
    policy
        What a holder does when its guardian is gone: "wait" for it, or be "eager" and continue
        without it, at the risk of a second branch of the walk.
    heartbeat, dead_after, retry
        Seconds between heartbeats; seconds of silence after which a node is considered dead;
        seconds after which an unanswered message is sent again.
    start
        The node where the walk starts, which alone may open the first epoch; None for any node.
    memory_depth
        How many earlier states of its memory a node keeps, for methods with memory at the nodes: an
        older copy of the token finds what it needs after at most so many later visits to a node.

    Examples
    --------
    >>> HandOffTerms(run=b"test").dead_after
    60.0
    """

    run: bytes
    renew_after: int = 100
    policy: GuardianPolicy | str = GuardianPolicy.WAIT
    heartbeat: float = 5.0
    dead_after: float = 60.0
    retry: float = 1.0
    start: int | None = None
    memory_depth: int = DEPTH

    def __post_init__(self) -> None:
        checks.integer("renew_after", self.renew_after, low=1)
        checks.integer("memory_depth", self.memory_depth, low=1, high=MOST_DEPTH)
        checks.choice("policy", self.policy, tuple(GuardianPolicy))
        object.__setattr__(self, "policy", GuardianPolicy(self.policy))
        for name in ("heartbeat", "dead_after", "retry"):
            checks.positive(name, getattr(self, name))
