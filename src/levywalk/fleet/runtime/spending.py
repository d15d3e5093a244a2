"""What a node's privacy budget has spent, in ε, for the status, the metrics and the doctor.

The accountant is plain composition: a node of a fleet sees more than a simulation's observer (a
hash of models that it has not seen, and the guardian's older copy), so no other bound holds here
(docs/privacy.md). Releases for different tokens compose like those for one, so ε of a node is that
of the sum over the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def spending_of(
    manifest: Manifest, spent: int | None, *, of_token: bool = False
) -> dict[str, Any] | None:
    """Return what a node has spent for all tokens together, ready for JSON; None without privacy.

    Nothing is known of a node whose disk cannot be read: then what it has spent is None.

    Parameters
    ----------
    of_token
        Whether the count is that of the manifest's token alone, which has its share of the cap. If
        there are further tokens, ε is not known from it, and is None.
    """
    bound = manifest.published.privacy
    if bound is None:
        return None
    cap = bound.cap if of_token else bound.whole_cap
    count = None if spent is None else min(spent, cap)
    at_cap = _epsilon(bound.privacy, bound.whole_cap)
    epsilon = None
    if count is not None and cap == bound.whole_cap:
        epsilon = _epsilon(bound.privacy, count)
    if manifest.published.detector is not None:
        epsilon = at_cap  # the walk, or its end, depends on the model: the count tells something
    return {
        "updates_spent": count,
        "updates_at_cap": cap,
        "epsilon_spent": epsilon,
        "epsilon_at_cap": at_cap,
    }


def fleet_spending(
    manifest: Manifest, spent: Mapping[int, int | None], *, of_token: bool = False
) -> dict[str, Any] | None:
    """Return what the nodes of a fleet have spent, ready for JSON; None without privacy.

    A sample is at one node, so ε of the fleet is the largest of its nodes. What nobody knows of a
    node counts as ε at the cap. See `spending_of` for ``of_token``.
    """
    bound = manifest.published.privacy
    if bound is None:
        return None
    cap = bound.cap if of_token else bound.whole_cap
    told = [spending_of(manifest, one, of_token=of_token) for _, one in sorted(spent.items())]
    rows = [row for row in told if row is not None]
    at_cap = _epsilon(bound.privacy, bound.whole_cap)
    unknown = [v for v, count in sorted(spent.items()) if count is None]
    known = [row["epsilon_spent"] for row in rows if row["epsilon_spent"] is not None]
    epsilon = at_cap if unknown else max(known, default=0.0)
    return {
        "definition": bound.privacy.definition,
        "delta": bound.privacy.delta,
        "adjacency": bound.privacy.adjacency,
        "adversary": bound.privacy.adversary,
        "accountant": "composition",
        "budget": bound.privacy.budget,
        "updates_spent": sum(count for count in spent.values() if count is not None),
        "updates_at_cap": cap,
        "epsilon_spent": epsilon if cap == bound.whole_cap else None,
        "epsilon_at_cap": at_cap,
        "nodes_out_of_budget": [
            v for v, count in sorted(spent.items()) if count is not None and count >= cap
        ],
        "nodes_unknown": unknown,
    }


def whole_spending(
    manifest: Manifest, spent: Sequence[Mapping[int, int | None]]
) -> dict[str, Any] | None:
    """Return what the nodes of a fleet have spent for all tokens together, from what they have
    spent for each; None without privacy.

    With several tokens, ``nodes_out_of_share`` has for each token the nodes that have spent their
    share for it, and not yet those for all.
    """
    bound = manifest.published.privacy
    if bound is None:
        return None
    found = fleet_spending(manifest, {v: in_all([one[v] for one in spent]) for v in spent[0]})
    if found is None or bound.tokens == 1:
        return found
    out = set(found["nodes_out_of_budget"])
    short = [
        [v for v, count in sorted(one.items()) if count is not None and count >= bound.cap]
        for one in spent
    ]
    return found | {
        "tokens": bound.tokens,
        "updates_at_cap_of_token": bound.cap,
        "nodes_out_of_share": [[v for v in nodes if v not in out] for nodes in short],
    }


def in_all(spent: Sequence[int | None]) -> int | None:
    """Return what a node has spent for all tokens together; None if that is not known.

    Examples
    --------
    >>> in_all([3, 4]), in_all([3, None])
    (7, None)
    """
    known = [count for count in spent if count is not None]
    return sum(known) if len(known) == len(spent) else None


@lru_cache(maxsize=4096)
def _epsilon(privacy: Privacy, updates: int) -> float:
    return privacy.epsilon(updates)
