"""`fleet revive`: continue a walk that has stopped for good from the best copy that is left.

Copies that a node does not use itself are on many disks: what it guarded before, what was prepared
and never used, what was archived, and the models that the log records. The newest becomes a new
epoch, as if a guardian had restored it, with the operator's signature. If the walk still
runs, it is archived: the higher epoch always wins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from levywalk.fleet.operate.any_fleet import AnyFleet
from levywalk.fleet.operate.fleet_status import NodeView, winning_epoch
from levywalk.fleet.operate.folder import PATIENCE
from levywalk.fleet.operate.log_text import short
from levywalk.fleet.operate.node_processes import FleetProblem, Say, looks, nothing_said
from levywalk.fleet.operate.operators_key import operators_key
from levywalk.fleet.operate.stopped_walk import able_to_continue
from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.runtime.own_disk import SurvivingCopy


class Revival(NamedTuple):
    """What was revived: the copy, its new epoch, and the updates that are known to be lost."""

    copy: SurvivingCopy
    epoch: int
    lost: int  # that some disk has seen; the nodes whose disks are lost may have made more


def revive(
    fleet: AnyFleet,
    *,
    force: bool = False,
    timeout: float = PATIENCE,
    say: Say = nothing_said,
) -> Revival:
    """Continue the walk from the best copy on the disks of this folder, and wait until a neighbour
    guards it.

    Parameters
    ----------
    force
        Whether to do so although the walk seems to run or to be over, or a better copy is on a node
        that does not run.

    Raises
    ------
    FleetProblem
        If the walk has not stopped, no copy is left, no neighbour answers, or the operator's key
        is not here.
    """
    views, status = fleet.node_views(), fleet.status()
    if status["finished"] and not force:
        raise FleetProblem(
            "the walk is over: there is nothing to revive; if that is not true, because a node has "
            "lied, --force revives a copy all the same"
        )
    winner = winning_epoch(views)
    if winner == FIRST and not fleet.begun:
        raise FleetProblem(f"the walk has not started: levywalk fleet up {fleet.path}")
    able = able_to_continue(views, winner)
    if not force and (able or status["stopped"] is None):
        why = (
            f"node {able[0]} can continue the walk by itself"
            if able
            else "a node saw a step recently"
        )
        raise FleetProblem(
            f"the walk has not stopped for good: {why}; see levywalk fleet status {fleet.path}. "
            "--force revives an older copy all the same, and the present walk is archived"
        )
    silent = [one.id for one in views if one.unreached is not None]
    if silent and not force:
        raise FleetProblem(
            f"nodes {short(silent)} have not answered, and may hold the model or a better copy: "
            "look there first; --force takes the best copy of the nodes that answer"
        )
    best = _chosen(fleet, views, force=force)
    reached = max([best.step, *(step for one in views for step in _steps(one))])
    order = _signed_order(fleet, views, best)
    done = fleet.ask(
        best.node,
        "revive",
        line=best.line,
        counter=order.epoch.counter,
        digest=order.digest.hex(),
        signature=order.signature.hex(),
        over=force,
    )
    for _ in looks(time.monotonic() + timeout):
        say("waiting for a neighbour that guards the model")
        after = fleet.node_views()
        fresh = winning_epoch(after)
        if fresh > winner and fresh != Epoch(*done["epoch"]):
            return Revival(best, fresh.counter, reached - best.step)
    raise FleetProblem(
        f"node {best.node} has the model, but no neighbour guards it yet: start its neighbours "
        f"with levywalk fleet up {fleet.path}; then the walk continues by itself"
    )


def _signed_order(fleet: AnyFleet, views: list[NodeView], copy: SurvivingCopy) -> Certificate:
    """Return the operator's signed order to continue from a node's copy, above all epochs that are
    known here.
    """
    key = operators_key(fleet, "revive a walk")
    epochs = [Epoch(*one.about["epoch"]) for one in views]
    epochs += [Epoch(*token["epoch"]) for one in views for token in one.tokens]
    counter = max(epochs).counter + 1
    epoch = Epoch(counter, copy.seq, copy.node)
    blank = Certificate(OPERATOR, epoch, copy.seq, copy.node, OPERATOR, copy.digest, b"")
    return key.signed(blank, fleet.manifest.digest)


def _chosen(fleet: AnyFleet, views: list[NodeView], *, force: bool) -> SurvivingCopy:
    answering = {one.id for one in views if one.answers}
    asked = [one.id for one in views if one.unreached is None]
    copies = [copy for v in asked for copy in fleet.survivors(v)]
    usable = [copy for copy in copies if copy.node in answering]
    if not copies:
        raise FleetProblem(
            "no copy of the model is left on the disks here; if other machines have none either, "
            "create a new fleet"
        )
    best = max(copies)
    if best not in usable and not (force and usable):
        raise FleetProblem(
            f"the best copy, of step {best.step:,}, is on node {best.node}, which does not run: "
            f"levywalk fleet up {fleet.path}"
            + ("; --force takes the best one of the nodes that run" if usable else "")
        )
    return max(usable)


def _steps(one: NodeView) -> Iterator[int]:
    """Yield the steps of the walk that a node has seen."""
    yield from (token["step"] for token in one.tokens)
    if one.last is not None:
        yield one.last.step + 1
