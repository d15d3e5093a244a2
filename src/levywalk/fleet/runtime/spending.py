"""What a node's budget of privacy has spent, in ε, for the status, the metrics and the doctor.

The accountant is plain composition: a node of a fleet sees more than a simulation's observer (a
hash of models that it has not seen, and the guardian's older copy), so no other bound holds here
(docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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


def spending_of(manifest: Manifest, spent: int | None) -> dict[str, Any] | None:
    """Return what a node has spent, ready for JSON; None without privacy.

    Nothing is known of a node whose disk cannot be read: then what it has spent is None.
    """
    bound = manifest.published.privacy
    if bound is None:
        return None
    count = None if spent is None else min(spent, bound.cap)
    at_cap = _epsilon(bound.privacy, bound.cap)
    epsilon = None if count is None else _epsilon(bound.privacy, count)
    if manifest.published.detector is not None:
        epsilon = at_cap  # the walk, or its end, depends on the model: the count tells something
    return {
        "updates_spent": count,
        "updates_at_cap": bound.cap,
        "epsilon_spent": epsilon,
        "epsilon_at_cap": at_cap,
    }


def fleet_spending(manifest: Manifest, spent: Mapping[int, int | None]) -> dict[str, Any] | None:
    """Return what the nodes of a fleet have spent, ready for JSON; None without privacy.

    A sample is at one node, so ε of the fleet is the largest of its nodes. What nobody knows of a
    node counts as ε at the cap.
    """
    bound = manifest.published.privacy
    if bound is None:
        return None
    told = [spending_of(manifest, count) for _, count in sorted(spent.items())]
    rows = [row for row in told if row is not None]
    at_cap = _epsilon(bound.privacy, bound.cap)
    unknown = [v for v, count in sorted(spent.items()) if count is None]
    known = [row["epsilon_spent"] for row in rows if row["epsilon_spent"] is not None]
    return {
        "definition": bound.privacy.definition,
        "delta": bound.privacy.delta,
        "adjacency": bound.privacy.adjacency,
        "adversary": bound.privacy.adversary,
        "accountant": "composition",
        "budget": bound.privacy.budget,
        "updates_spent": sum(count for count in spent.values() if count is not None),
        "updates_at_cap": bound.cap,
        "epsilon_spent": at_cap if unknown else max(known, default=0.0),
        "epsilon_at_cap": at_cap,
        "nodes_out_of_budget": [
            v for v, count in sorted(spent.items()) if count is not None and count >= bound.cap
        ],
        "nodes_unknown": unknown,
    }


@lru_cache(maxsize=4096)
def _epsilon(privacy: Privacy, updates: int) -> float:
    return privacy.epsilon(updates)
