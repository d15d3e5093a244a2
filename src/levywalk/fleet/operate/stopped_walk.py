"""Whether a walk has stopped, why, and what to do: the verdict of `fleet status` and `doctor`.

No node knows the whole walk. Each one knows when it last saw a step: the model came, or left, or
the copy that it guards changed, or there was a new epoch. If all nodes of a fleet are in one
folder, the shortest of these silences is that of the walk itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levywalk.fleet.operate.log_text import short
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime.sightings import DEATHS
from levywalk.fleet.setup.manifest import Manifest

if TYPE_CHECKING:
    from levywalk.fleet.operate.fleet_status import NodeView


def able_to_continue(views: Sequence[NodeView], winner: Epoch) -> list[int]:
    """Return the nodes from whose disks the walk continues by itself once they run: one that holds
    the model, guards it with an empty register, or has it prepared and another one has its
    certificate.
    """
    released = {
        (tuple(one.about["guarded"]["epoch"]), one.about["guarded"]["seq"])
        for one in views
        if one.about["guarded"] is not None and one.about["guarded"]["register"] == "released"
    }
    found = []
    for one in views:
        held, guarded = one.about["held"], one.about["guarded"]
        if one.about.get("fenced"):
            continue
        if held is not None and Epoch(*held["epoch"]) >= winner:
            certified = (tuple(held["epoch"]), held["seq"] - 1) in released
            if held["live"] or certified:
                found.append(one.id)
                continue
        if (
            guarded is not None
            and guarded["register"] is None
            and Epoch(*guarded["epoch"]) >= winner
        ):
            found.append(one.id)
    return found


def seconds_of_silence(views: Sequence[NodeView]) -> float | None:
    """Return for how long none of the nodes that answer has seen a step; None if none answers."""
    return min((one.about["silence"] for one in views if "silence" in one.about), default=None)


def why_stopped(
    views: Sequence[NodeView], manifest: Manifest, winner: Epoch, waits: Sequence[str], at: str
) -> str | None:
    """Return that the walk has stopped, why, and what to do; None if it seems to go on.

    The walk has begun and is not over.
    """
    silence = seconds_of_silence(views)
    if silence is None:
        return None
    able = able_to_continue(views, winner)
    whole = len(views) == manifest.nodes and all(_is_known(one) for one in views)
    dead_after = manifest.terms.dead_after
    if whole:
        quiet = silence > (DEATHS if able else 1.0) * dead_after
    else:
        quiet = all(_is_quiet(one.about) for one in views if "silence" in one.about)
    if not quiet:
        return None
    said = f"the walk has stopped: no step for {silence:.0f} s"
    down = [v for v in able if v not in {one.id for one in views if one.answers}]
    fenced = [one.waits_to_act(at) for one in views if one.about.get("fenced")]
    if fenced:
        return f"{said}, because {fenced[0]}"
    if able and down == able:
        return (
            f"{said}, because node {short(down)}, which can continue it, does not run or answer; "
            f"do: levywalk fleet up {at}"
        )
    if able:
        if waits and "; do: " in waits[0]:  # it says itself what helps
            return f"{said}, because {waits[0]}"
        because = f"because {waits[0]}" if waits else f"although node {short(able)} has the model"
        return (
            f"{said}, {because}; do: levywalk fleet up {at}, and levywalk fleet gone {at} NODE for "
            "a node that will never come back"
        )
    which = f" --token {manifest.token_number}" if manifest.tokens > 1 else ""
    where = "on any disk" if len(views) == manifest.nodes else "on the disks here"
    more = (
        ""
        if len(views) == manifest.nodes
        else "look at levywalk fleet status on the other machines first; if there is none either, "
    )
    return (
        f"{said}, because no copy of the model that could continue is left {where}: the nodes that "
        f"held and guarded it have lost their disks; do: {more}levywalk fleet revive {at}{which}"
    )


def _is_known(one: NodeView) -> bool:
    """Return whether a node says when it last saw a step, or sees none because it does not run."""
    return "silence" in one.about or (one.local and one.pid is None)


def _is_quiet(about: Mapping[str, Any]) -> bool:
    return bool(about["silence"] > about["patience"])
