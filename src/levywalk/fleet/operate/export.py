"""Export what the walk has made from a fleet's folder: the model and the trace.

The nodes may run meanwhile.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from levywalk.engine.tokens import mean_model
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.fleet.operate.any_fleet import AnyFleet
from levywalk.fleet.operate.false_ends import disputed_ends, false_ends
from levywalk.fleet.operate.model_copies import ModelCopy, newest_copy
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.records import (
    Began,
    BudgetSpent,
    Line,
    NewGeneration,
    NewSize,
    SilentNeighbour,
)
from levywalk.fleet.protocol.tensors import Tensor
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.runtime.control import NoAnswer
from levywalk.fleet.storage.errors import NodeStoreError
from levywalk.fleet.storage.rows import LogDamage
from levywalk.whole_files import write_whole

if TYPE_CHECKING:
    from levywalk.trace import Trace


Damage = dict[int, list[LogDamage]]  # by node


def model(
    fleet: AnyFleet,
    out: str | Path,
    *,
    node: int | None = None,
    now: bool = False,
    force: bool = False,
) -> ModelCopy:
    """Write a model as safetensors; return where it came from.

    It is a vector named ``model``, or the named arrays of a user's own model in their own types.

    Parameters
    ----------
    node
        Take the model from this node's disk; by default from any disk that has the final model.
    now
        Take the newest model on any disk, also before the walk is over.
    force
        Write the model even if it has diverged.

    Raises
    ------
    FleetProblem
        If the walk is not over and ``now`` is false, if no disk has a model, or if the model has
        diverged and ``force`` is false.
    """
    out = _checked_out(out)
    best = _best_copy(fleet, node, now=now, force=force)
    write_whole(out, b"".join(Tensor("model", best.token.model, fleet.manifest.schema).chunks()))
    return best


def mean_of_tokens(
    fleet: AnyFleet,
    out: str | Path,
    *,
    node: int | None = None,
    now: bool = False,
    force: bool = False,
) -> list[ModelCopy]:
    """Write the mean of the models of all tokens, as a simulation takes it (`lw.run` with
    ``tokens``); return where they came from. The arguments are those of `model`.
    """
    out = _checked_out(out)
    copies = [
        _best_copy(fleet.token(number), node, now=now, force=force)
        for number in range(fleet.manifest.tokens)
    ]
    mean = mean_model(np.array([[copy.token.model for copy in copies]]))[0]
    itemsize = fleet.manifest.published.method.itemsize
    found = mean.astype(f"float{8 * itemsize}").astype(np.float64)
    write_whole(out, b"".join(Tensor("model", found, fleet.manifest.schema).chunks()))
    return copies


def _checked_out(out: str | Path) -> Path:
    out = Path(out)
    if not out.absolute().parent.is_dir() or out.is_dir():
        raise InvalidParameter(
            f"out must be a file in a folder that exists, got {str(out)!r}; create the folder first"
        )
    return out


def _best_copy(fleet: AnyFleet, node: int | None, *, now: bool, force: bool) -> ModelCopy:
    """Return the model of a token to take, with its numbers."""
    if node is not None:
        fleet.check(node)
    said = f"token {fleet.manifest.token_number}: " if fleet.manifest.tokens > 1 else ""
    copies, unread = [], []
    for v in fleet.ids if node is None else [node]:
        try:
            copies += fleet.copies(v)
        except (NodeStoreError, NoAnswer) as error:
            unread.append(f"node {v}: {error}")
    wrong = {}
    if any(copy.final for copy in copies):
        views = fleet.node_views()
        found = false_ends(views)
        wrong = {v: one.why for v, one in found.items() if node is None or one.lied}
        no_end = wrong.keys() | (disputed_ends(views) if node is None else set())
        copies = [copy for copy in copies if not (copy.final and copy.node in no_end)]
    best = newest_copy(copies)
    where = "no disk" if node is None else f"node {node}"
    if best is None and wrong:
        raise FleetProblem(said + "; ".join(wrong.values()))
    if best is None:
        raise FleetProblem("; ".join([f"{said}{where} has a model yet", *unread]))
    if not best.final and not now:
        raise FleetProblem(
            f"{said}the walk is not over: {best.token.step:,} of "
            f"{fleet.manifest.published.steps:,} updates are done, "
            f"as far as {where if node is not None else 'the disks here'} know; --now takes the "
            "newest model"
        )
    if best.token.diverged_at >= 0 and not force:
        raise FleetProblem(
            f"{said}the model has diverged: update {best.token.diverged_at:,} would have "
            "overflowed, and "
            "the model is the last finite one before it, which is useless; create a new fleet "
            "with a smaller --step-size (theory is stable), or write this model nevertheless "
            "with --force"
        )
    return fleet.fetched(best)


def trace(fleet: AnyFleet, *, missing: str = "refuse", token: int | None = None) -> Trace:
    """Merge all nodes' logs into the trace that a simulation would have made: see `merge`.

    Damaged lines are left out: ``provenance["fleet"]["damaged"]`` lists them as (node, first line,
    last line), and ``missing`` the steps that are in no other line. Updates that no log has may be
    lost as well: ``lost_updates_at_most`` is the upper end, as in the fleet's status; None if there
    is none.

    Parameters
    ----------
    token
        Which of several tokens; None for all of them, each as a replica of one trace, which ends
        where the slowest of them is.
    """
    from levywalk.fleet.operate.token_traces import stack_traces

    if token is not None or fleet.manifest.tokens == 1:
        return _LoggedWalk(fleet.token(token or 0), missing).trace()
    walks = [_LoggedWalk(fleet.token(k), missing) for k in range(fleet.manifest.tokens)]
    found = [walk.trace() for walk in walks]
    until = min(int(one.step[-1]) for one in found)
    return stack_traces(
        [
            one if one.step[-1] == until else walk.trace(until)
            for walk, one in zip(walks, found, strict=True)
        ]
    )


class _LoggedWalk:
    """The walk of one token, in the logs of the nodes."""

    def __init__(self, fleet: AnyFleet, missing: str) -> None:
        from levywalk.fleet.operate.merge import winning_chain
        from levywalk.fleet.operate.origin import fleet_behind

        self.missing = missing
        self.damage: Damage = {}
        self.logs = read_logs(fleet, self.damage, partial=missing == "mark")
        if not any(self.logs.values()):
            raise FleetProblem("no node has logged an update yet: the walk has not started")
        self.whole = fleet_behind(fleet)
        self.most_lost: int | None = fleet.status()["lost_updates_at_most"]
        if self.damage and missing == "refuse":
            gaps = len(winning_chain(self.logs, self.whole.published).missing)
            if gaps <= sum(one.lines for found in self.damage.values() for one in found):
                self.missing = "mark"  # a few damaged lines are reported, no reason to give up

    def trace(self, until: int | None = None) -> Trace:
        """Return the trace up to a step."""
        from levywalk.fleet.operate.merge import NO_MODELS, merge
        from levywalk.fleet.operate.origin import ElsewhereProblem, without_errors

        try:
            with warnings.catch_warnings():
                if isinstance(self.whole.problem, ElsewhereProblem):  # its errors are unknown
                    warnings.simplefilter("ignore", DataWarning)
                merged = merge(self.logs, self.whole, missing=self.missing, until=until)
                found = without_errors(merged, self.whole)
        except InvalidParameter as error:
            if self.missing == "refuse" and "missing='mark'" in str(error):
                raise FleetProblem(
                    str(error).replace("use missing='mark'", "use --missing mark")
                ) from None
            if str(error).startswith(NO_MODELS):
                raise FleetProblem(str(error)) from None
            raise
        about = found.provenance["fleet"]
        most = self.most_lost
        # Lines that were pruned are in no log; an update that was logged is lost for certain.
        about["lost_updates_at_most"] = (
            None if most is None else max(most, about["lost_updates"] or 0)
        )
        about["damaged"] = [
            [v, one.first, one.last]
            for v, all_of_it in sorted(self.damage.items())
            for one in all_of_it
        ]
        return found


def read_logs(
    fleet: AnyFleet, damage: Damage | None = None, *, partial: bool = False
) -> dict[int, list[Line]]:
    """Read all logs up to a common point of the walk, so that no line is missing because one log
    was read earlier than another.

    Parameters
    ----------
    damage
        Where lines that cannot be read are noted, by node. None: they are an error.
    partial
        Whether to go on without nodes elsewhere that do not answer.
    """
    first: dict[int, list[Line]] = {}
    ends: dict[int, int] = {}
    found: dict[int, list[LogDamage]] = {}
    readings = fleet.log_readers(partial=partial)
    try:
        for v, reading in readings.items():
            found[v] = []
            noted = None if damage is None else found[v]
            numbered = list(reading.numbered(damage=noted))
            first[v] = [line for _, line in numbered]
            ends[v] = max([n for n, _ in numbered[-1:]] + [one.last for one in found[v]], default=0)
        latest = max((_place(line) for lines in first.values() for line in lines), default=_NOWHERE)
        # Everything before the latest line of the first round was written before it, so the second
        # round finds it.
        for v, reading in readings.items():
            noted = None if damage is None else found[v]
            first[v] += [line for line in reading.lines(ends[v], noted) if _place(line) <= latest]
    finally:
        for reading in readings.values():
            reading.close()
    if damage is not None:
        damage |= {v: noted for v, noted in found.items() if noted}
    return first


_NOWHERE: tuple[Epoch, int] = FIRST, 0


def _place(line: Line) -> tuple[Epoch, int]:
    """Return the position of a line in the walk."""
    if isinstance(line, Visit | Measured | NewGeneration | SilentNeighbour | BudgetSpent | NewSize):
        return Epoch(*line.token_epoch), line.step
    return (line.epoch, line.base) if isinstance(line, Began) else _NOWHERE
