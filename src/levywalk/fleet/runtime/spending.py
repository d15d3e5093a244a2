"""What a node's budget of privacy has spent, in ε, for the status, the metrics and the doctor.

The accountant is plain composition: a node of a fleet sees more than a simulation's observer (a
hash of models that it has not seen, and the guardian's older copy), so no other bound holds here
(docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from levywalk.fleet.protocol.records import Spending
from levywalk.fleet.setup.manifest import Manifest

if TYPE_CHECKING:
    from levywalk.privacy import NoiseSource, Privacy  # it needs scipy, most nodes do not


def system_noise(manifest: Manifest) -> Callable[[int], NoiseSource] | None:
    """Return where the noise of a real node's visits comes from: the operating system's generator,
    and never the draws of the walk.
    """
    if manifest.published.privacy is None:
        return None
    from levywalk.privacy import SystemNoise

    return lambda step: SystemNoise()


def spending_of(manifest: Manifest, spent: Spending | None) -> dict[str, Any] | None:
    """Return what a node has spent, ready for JSON; None without privacy.

    A node of whose disk nothing is known may have spent all.
    """
    bound = manifest.published.privacy
    if bound is None:
        return None
    count = bound.cap if spent is None else min(spent.releases, bound.cap)
    at_cap = _epsilon(bound.privacy, bound.cap)
    fixed = manifest.published.detector is None
    return {
        "updates_spent": count,
        "updates_at_cap": bound.cap,
        # the number of visits tells something if the walk, or its end, depends on the model
        "epsilon_spent": _epsilon(bound.privacy, count) if fixed else at_cap,
        "epsilon_at_cap": at_cap,
    }


@lru_cache(maxsize=4096)
def _epsilon(privacy: Privacy, updates: int) -> float:
    return privacy.epsilon(updates)
