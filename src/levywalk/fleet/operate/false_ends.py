"""Nodes that know a false end of the walk: other disks show that the walk went on.

A guardian that lies can make some nodes believe so, and so can an end that was overtaken: by the
operator, or by a holder that took its guardian for gone. They learn better from the holder, as soon
as they hear from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from levywalk.fleet.protocol.records import HeldStatus
from levywalk.fleet.protocol.token import Epoch

if TYPE_CHECKING:
    from levywalk.fleet.operate.fleet_status import NodeView

Place = tuple[Epoch, int]  # an epoch, and a hand-off in it


class FalseEnd(NamedTuple):
    """Why the end of the walk at a node is not the end, and whether a guardian must have lied:
    honest ones never sign an end after which the walk continues in the same epoch.
    """

    why: str
    lied: bool


def false_ends(views: Sequence[NodeView]) -> dict[int, FalseEnd]:
    """Return the nodes whose end of the walk is not the end."""
    reached = [found for one in views for found in _reached(one)]
    wrong = {}
    for one in views:
        final = _final(one)
        if final is None:
            continue
        mine = _place(final)
        later = max((found for found in reached if found[0] > mine), default=None)
        if later is not None:
            lied = any(mine < place and place[0] == mine[0] for place, _ in reached)
            why = (
                f"node {one.id} takes the walk to be over at update {final['step']:,}, which is "
                f"false, because {later[1]}; it corrects this as soon as it hears from the holder"
            )
            wrong[one.id] = FalseEnd(why + "; a guardian has lied" * lied, lied)
    return wrong


def disputed_ends(views: Sequence[NodeView]) -> set[int]:
    """Return the nodes whose end of the walk its holder does not know: it still works with this
    very token. It may be about to hear of it.
    """
    works = {
        _place(held)
        for one in views
        if not one.about.get("fenced")
        and (held := one.about["held"]) is not None
        and held["live"]
        and held["status"] != HeldStatus.ENDING
    }
    finals = ((one.id, _final(one)) for one in views)
    return {v for v, final in finals if final is not None and _place(final) in works}


def _reached(one: NodeView) -> Iterator[tuple[Place, str]]:
    """Yield how far the walk came, according to a node's disk."""
    if one.about.get("fenced"):
        return
    held, guarded, final = one.about["held"], one.about["guarded"], _final(one)
    if held is not None and held["live"]:
        yield _place(held), f"node {one.id} holds a later model"
    if guarded is not None:
        epoch, seq = _place(guarded)
        went = guarded["register"] == "released"
        yield (epoch, seq + went), f"node {one.id} guards or has released a later model"
    if final is not None:
        yield _place(final), f"node {one.id} has a later one"


def _final(one: NodeView) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None if one.about.get("fenced") else one.about["final"]
    return found


def _place(token: dict[str, Any]) -> Place:
    return Epoch(*token["epoch"]), token["seq"]
