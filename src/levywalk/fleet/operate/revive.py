"""`fleet revive`: continue a walk that has died from the best copy that is left.

Copies that a node does not use itself are on many disks: what it guarded before, what was prepared
and never used, what was archived, and the models that the log records. The newest becomes a new
epoch, as if a guardian had restored it, with the operator's signature. If the walk is alive after
all, it is archived: the higher epoch always wins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from levywalk.fleet.operate.fleet_status import NodeView, winning_epoch
from levywalk.fleet.operate.folder import PATIENCE, FleetFolder, FleetProblem, Say, nothing_said
from levywalk.fleet.operate.node_processes import looks
from levywalk.fleet.operate.operators_key import operators_key
from levywalk.fleet.operate.stopped import able_to_continue
from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.surviving import token_of
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.runtime import control
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.rows import LogDamage


class SurvivingCopy(NamedTuple):
    """A copy of the model that a node does not use itself."""

    epoch: Epoch
    step: int
    seq: int
    node: int
    line: int | None  # its line in the log, or None if it is guarded or prepared
    digest: bytes  # hash of the token

    @property
    def where(self) -> str:
        """Where it is, in words."""
        kind = "guarded or prepared" if self.line is None else f"line {self.line} of the log"
        return f"node {self.node}, {kind}"


class Revival(NamedTuple):
    """What was revived: the copy, its new epoch, and the updates that are known to be lost."""

    copy: SurvivingCopy
    epoch: int
    lost: int  # that some disk has seen; the nodes whose disks are lost may have made more


def surviving_copies(fleet: FleetFolder, node: int) -> Iterator[SurvivingCopy]:
    """Yield the best copy in a node's slots, and the best one in its log."""
    file, manifest = fleet.files[node], fleet.manifest
    if not (file.state / "state.db").exists():
        return

    def of(token: Token, line: int | None) -> SurvivingCopy:
        return SurvivingCopy(token.epoch, token.step, token.seq, node, line, token.digest())

    with StoreReader(file.state, manifest.digest, limits=manifest.limits) as reading:
        disk = reading.load()
        kept = None if disk is None else best_copy(disk)
        if kept is not None and manifest.published.refuses(kept) is None:
            yield of(kept, None)
        damage: list[LogDamage] = []
        found = [
            of(token, number)
            for number, line in reading.with_models(damage)
            if (token := token_of(line, manifest.published)) is not None
            and manifest.published.refuses(token) is None
        ]
        if found:
            yield max(found)


def revive(
    fleet: FleetFolder,
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
        Whether to do so although the walk seems to be alive, or a better copy is on a node that
        does not run.

    Raises
    ------
    FleetProblem
        If the walk has not stopped, no copy is left, no neighbour answers, or the operator's key
        is not here.
    """
    views, status = fleet.views(), fleet.status()
    if status["finished"]:
        raise FleetProblem("the walk is over: there is nothing to revive")
    winner = winning_epoch(views)
    if winner == FIRST and not fleet.begun:
        raise FleetProblem(f"the walk has not started: levywalk fleet up {fleet.path}")
    able = able_to_continue(views, winner)
    if not force and (able or status["stopped"] is None):
        why = f"node {able[0]} can continue the walk by itself" if able else "a node saw it lately"
        raise FleetProblem(
            f"the walk has not stopped for good: {why}; see levywalk fleet status {fleet.path}. "
            "--force revives an older copy all the same, and the present walk is archived"
        )
    best = _chosen(fleet, views, force=force)
    reached = max([best.step, *(step for one in views for step in _steps(one))])
    word = _signed_word(fleet, views, best)
    done = control.ask(
        fleet.files[best.node].state,
        "revive",
        line=best.line,
        counter=word.epoch.counter,
        digest=word.digest.hex(),
        signature=word.signature.hex(),
    )
    for _ in looks(time.monotonic() + timeout):
        say("waiting for a neighbour that guards the model")
        after = fleet.views()
        fresh = winning_epoch(after)
        if fresh > winner and fresh != Epoch(*done["epoch"]):
            return Revival(best, fresh.counter, reached - best.step)
    raise FleetProblem(
        f"node {best.node} has the model, but no neighbour guards it yet: start its neighbours "
        f"with levywalk fleet up {fleet.path}; then the walk continues by itself"
    )


def _signed_word(fleet: FleetFolder, views: list[NodeView], copy: SurvivingCopy) -> Certificate:
    """Return the operator's word that a node may continue from its copy, above all epochs that are
    known here.
    """
    key = operators_key(fleet, "revive a walk")
    epochs = [Epoch(*one.about["epoch"]) for one in views]
    epochs += [Epoch(*token["epoch"]) for one in views for token in one.tokens]
    counter = max(epochs).counter + 1
    epoch = Epoch(counter, copy.seq, copy.node)
    blank = Certificate(OPERATOR, epoch, copy.seq, copy.node, OPERATOR, copy.digest, b"")
    return key.signed(blank, fleet.manifest.digest)


def _chosen(fleet: FleetFolder, views: list[NodeView], *, force: bool) -> SurvivingCopy:
    copies = [copy for v in fleet.files for copy in surviving_copies(fleet, v)]
    answering = {one.id for one in views if one.answers}
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
