"""What all nodes agree on about hand-offs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from levywalk import checks


class GuardianPolicy(StrEnum):
    """What a holder does when its guardian is silent."""

    WAIT = "wait"  # until it is back, or the operator says that it is gone
    EAGER = "eager"  # take another guardian, at the risk of a second branch of the walk


@dataclass(frozen=True)
class HandOffTerms:
    """What all nodes agree on about hand-offs.

    Attributes
    ----------
    renew_after
        K: a permanent death loses at most so many updates.
    policy
        When the guardian is gone and the holder lives: "wait" for it, or be "eager" and go on at the risk of a fork.
    heartbeat, dead_after, retry
        In seconds.

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

    def __post_init__(self) -> None:
        checks.integer("renew_after", self.renew_after, low=1)
        checks.choice("policy", self.policy, tuple(GuardianPolicy))
        object.__setattr__(self, "policy", GuardianPolicy(self.policy))
        for name in ("heartbeat", "dead_after", "retry"):
            checks.positive(name, getattr(self, name))
