"""The status of a fleet with several tokens: that of each token, and of the nodes they share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeVar

from levywalk.fleet.operate.any_fleet import AnyFleet
from levywalk.fleet.operate.fleet_status import NodeRole
from levywalk.fleet.operate.means import mean_metrics, mean_of
from levywalk.fleet.runtime.spending import in_all, spending_of, whole_spending
from levywalk.fleet.setup.manifest import Manifest

T = TypeVar("T", bound=Hashable)
_OF_TOKEN = (  # of the status of one token, which is that of a fleet with one (`fleet_status`)
    *("finished", "holder", "guardian", "epoch", "epoch_full", "step", "steps", "transfers"),
    *("lost_updates", "lost_updates_at_most", "memory_starts", "hops_per_second", "loss"),
    *("loss_is_infinite", "metrics", "privacy", "diverged_at", "stopped", "waits"),
    *("false_ends", "refused_models"),
)
_OF_ROW = (
    *("role", "epoch", "step", "finished", "hops_per_second", "loss", "privacy", "waits"),
    "fenced",
)


def whole_status(fleet: AnyFleet) -> dict[str, Any]:
    """Return the status of a fleet, ready for JSON.

    With one token it is `fleet_status.fleet_status`. With several, ``tokens`` has that of each; the
    rest is about all of them: counts are sums, the loss and the metrics are means, ε is that of the
    updates for all tokens, and the walk is finished when all are.
    """
    parts = [fleet.token(number).status() for number in range(fleet.manifest.tokens)]
    return joint_status(parts, fleet.manifest)


def joint_status(found: Sequence[dict[str, Any]], manifest: Manifest) -> dict[str, Any]:
    """Return the status of a fleet from those of its tokens."""
    first = found[0]
    if len(found) == 1:
        return first
    at_most = [one["lost_updates_at_most"] for one in found]
    losses = [one["loss"] for one in found if one["loss"] is not None]
    stops = [f"token {k}: {one['stopped']}" for k, one in enumerate(found) if one["stopped"]]
    waits = [said + wait for said, wait in told_by_token([one["waits"] for one in found])]
    warnings = [said + one for said, one in told_by_token([one["warnings"] for one in found])]
    kept = ("name", "run", "steps", "nodes_up", "nodes_down", "nodes_unreached")
    return {name: first[name] for name in kept} | {
        "tokens": [
            {"token": k} | {name: one[name] for name in _OF_TOKEN} for k, one in enumerate(found)
        ],
        "finished": all(one["finished"] for one in found),
        "transfers": sum(one["transfers"] for one in found),
        "lost_updates": sum(one["lost_updates"] for one in found),
        "lost_updates_at_most": None if None in at_most else sum(at_most),
        "hops_per_second": _sum([one["hops_per_second"] for one in found]),
        "loss": mean_of(losses) if losses else None,
        "loss_is_infinite": any(one["loss_is_infinite"] for one in found),
        "metrics": mean_metrics([one["metrics"] for one in found]),
        "privacy": whole_spending(manifest, [_spent(one["nodes"]) for one in found]),
        "stopped": "; ".join(stops) or None,
        "waits": waits,
        "revoked": sorted({v for one in found for v in one["revoked"]}),
        "false_ends": [
            said + one for said, one in told_by_token([one["false_ends"] for one in found])
        ],
        "refused_models": [
            {"token": k} | refused
            for k, one in enumerate(found)
            for refused in one["refused_models"]
        ],
        "warnings": warnings,
        "nodes": [
            _row(rows, manifest) for rows in zip(*(one["nodes"] for one in found), strict=True)
        ],
    }


def _spent(rows: Sequence[dict[str, Any]]) -> dict[int, int | None]:
    """Return what each node has spent for one token; None without privacy."""
    return {
        row["id"]: None if row["privacy"] is None else row["privacy"]["updates_spent"]
        for row in rows
    }


def _row(rows: Sequence[dict[str, Any]], manifest: Manifest) -> dict[str, Any]:
    """Return what is known about a node from what is known of each token there."""
    first = rows[0]
    spent = in_all([_spent([row])[row["id"]] for row in rows])
    roles = [
        f"{what} {', '.join(str(k) for k, row in enumerate(rows) if row['role'] == role)}"
        for role, what in ((NodeRole.HOLDER, "holds"), (NodeRole.GUARDIAN, "guards"))
        if any(row["role"] == role for row in rows)
    ]
    about = {name: value for name, value in first.items() if name not in _OF_ROW}
    return about | {
        "role": "; ".join(roles),
        "fenced": next((row["fenced"] for row in rows if row["fenced"]), None),
        "error": next((row["error"] for row in rows if row["error"]), None),
        "edges_up": min(row["edges_up"] for row in rows),
        "metrics": mean_metrics([row["metrics"] for row in rows]),
        "privacy": spending_of(manifest, spent),
        "tokens": [{name: row[name] for name in _OF_ROW} for row in rows],
    }


def _sum(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def told_by_token(parts: Sequence[Sequence[T]]) -> Iterator[tuple[str, T]]:
    """Yield what is said about each token, and before it the token; nothing before what is the same
    for all of them, which is said once.

    Examples
    --------
    >>> list(told_by_token([["no node runs", "it waits"], ["no node runs"]]))
    [('', 'no node runs'), ('token 0: ', 'it waits')]
    """
    common = set(parts[0]).intersection(*parts[1:])
    for number, part in enumerate(parts):
        for one in part:
            if one not in common:
                yield f"token {number}: ", one
            elif number == 0:
                yield "", one
