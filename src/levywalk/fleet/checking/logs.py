"""Check real fleets: I1 to I9, and what was lost, from the folders that the nodes have left.

`Invariants` sees every write when it happens. Real nodes write on their own, so everything is
checked afterwards, from their logs: which node made which update of which epoch, after how many
hand-offs, and some of the models in between. The number of hand-offs and the number of transfers of
a token are the same (a restored token keeps both), so ``Visit.transfers`` is the seq of the
protocol.

- I1, I4: in an epoch, each seq is at one node, and along its steps the seq never falls.
- I3: after an epoch was begun from seq n of its parent, no later token of the parent became active.
- I5: in one log, epochs never fall.
- I6: each (epoch, step) is logged once, and none in between is missing.
- I7: every model in a log, also of a replaced epoch, is that of the replay, to the bit.
- I8: if nodes remember, every model of the walk that counts is that of the replay, with what nodes
  remembered and where memory started again; so is what disks keep of it (`remembered_logs`).
- I9: with privacy, what each node has spent is what its log says, on all its disks together. The
  noise of real nodes cannot be computed again, so I7 and I8 are not checked for their models, but
  how far each visit has moved them (`spent_watch`).
- Of a replaced epoch at most K updates are lost, and the reported losses agree with the logs. Only
  under the policy "eager" and after the operator has revived the walk may it be more: whole
  branches. They are counted, too.
- The number that `fleet status` shows is the one that the logs give; if a disk was lost, the true
  number lies in the range that it shows.

I2, that a copy can always continue, is not checked here: it shows in that the walk continues, which
the caller checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levywalk.arrays import Floats
from levywalk.engine.bind import bind_phases
from levywalk.fleet.checking.growing import SizeAt, sizes_along, sizes_told
from levywalk.fleet.checking.log_pieces import DiskLog, pieces
from levywalk.fleet.checking.memory_watch import NOTHING_REMEMBERED
from levywalk.fleet.checking.remembered_logs import RememberingDisk, WalkEnds, remembered_by
from levywalk.fleet.checking.spent_watch import check_changes, check_spent
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.walk_replay import (
    check_replay,
    in_model_type,
    needs_whole_walk,
    weight_at,
)
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import winning_chain
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.records import (
    REVIVED,
    Archived,
    Began,
    BudgetSpent,
    Line,
    NewGeneration,
    NewSize,
    SilentNeighbour,
)
from levywalk.fleet.protocol.terms import GuardianPolicy
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.several_tokens import token_folder
from levywalk.updates import Sgd

Visits = dict[Epoch, dict[int, tuple[int, Visit]]]


class WalkVerdict(NamedTuple):
    """The result for a fleet that broke no invariant."""

    steps: int
    handoffs: int
    epochs: int
    lost: int
    reported: int  # lost updates that were reported by a node that came back
    models: int  # models compared with the replay; with real noise, changes within their bound
    revived: int = 0  # how often the operator has revived the walk
    shown: tuple[int, int | None] = (0, 0)  # the range of lost updates that the status shows
    entries: int = 0  # of nodes' memory, compared with the replay
    generations: int = 0  # how often memory started again, on the walk that counts
    silences: int = 0  # how often a neighbour did not answer, in all branches


def judge_folder(fleet: Fleet, folder: Path) -> WalkVerdict:
    """Check everything that a fleet has left: the logs, the losses that its status shows, and the
    errors that its nodes report. With several tokens, this is about the fleet's own
    one (`Fleet.of_token`).
    """
    number = fleet.token_number
    for path in sorted(folder.glob("node-*/node.log")):
        for line in path.read_text().splitlines():
            if '"level": "error"' in line or line.startswith("Traceback"):
                raise Violation("crash", f"{path}: {line}")
    logs = pieces(folder, number)
    founded = Manifest.parse(Manifest.read(folder / "manifest.json").text)
    means = tuple(phase.mean_score for phase in founded.published.phases)
    first = SizeAt(founded.nodes, founded.mean_smoothness, means)
    verdict = judge(fleet, logs, first)
    status = FleetFolder.open(folder).token(number).status()
    least, most = status["lost_updates"], status["lost_updates_at_most"]
    in_use = sum(1 for _ in folder.glob(f"node-*/{token_folder(Path('state'), number)}/state.db"))
    exact = len(logs) == in_use == fleet.network.n  # otherwise a disk was lost or moved away
    if verdict.lost < least or (most is not None and verdict.lost > most):
        shown = f"{least} to {'any number' if most is None else most}"
        raise Violation("report", f"{verdict.lost} updates are lost, the status says {shown}")
    if exact and least != verdict.lost:
        raise Violation("report", f"{verdict.lost} updates are lost, the status says {least}")
    return verdict._replace(shown=(least, most))


def judge(fleet: Fleet, logs: Sequence[DiskLog], first: SizeAt | None = None) -> WalkVerdict:
    """Check everything about a fleet; raise `Violation` for the first error.

    Parameters
    ----------
    first
        The size for which the fleet was created, if nodes have joined it since.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.fleet.simulate.virtual import VirtualFleet
    >>> fleet = Fleet.of(lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=50, step_size="theory")
    >>> virtual = VirtualFleet(fleet)
    >>> virtual.run()
    True
    >>> judge(fleet, [DiskLog(v, lines) for v, lines in virtual.logs.items()]).steps
    50
    """
    visits, began, archived = _sorted(logs)
    _check_single(visits)
    revived = {line.by for _, line in archived if line.what == REVIVED} & set(began)
    _check_fences(visits, [one for epoch, one in began.items() if epoch not in revived])
    _check_whole(visits, began)
    lineage = _lineage(began)
    told = sizes_told(line for piece in logs for line in piece.lines)
    sizes = SizeHistory(first, told) if told and first is not None else None
    along = {} if sizes is None else sizes.along([(one.epoch, one.base) for one in lineage])
    winning = _winning(visits, lineage)
    private = fleet.published.privacy is not None
    passed = _check_budgets(fleet, logs) if private else set()
    checked = ReplayComparison()
    if private and fleet.real:
        models = check_changes(fleet, visits, passed)
    else:
        models = 0 if _judged_whole(fleet) else _check_models(fleet, visits, began, sizes)
        checked = _check_last(fleet, winning, lineage, logs, passed, along)
        models += checked.models
    lost = _lost(fleet, visits, lineage, revived)
    if sum(lost.values()) != _reported_by_merge(fleet, logs):
        raise Violation(
            "report", f"{sum(lost.values())} updates are lost, the merged logs say otherwise"
        )
    return WalkVerdict(
        len([1 for _, line in winning if line.step < fleet.published.steps]),
        winning[-1][1].transfers if winning else 0,
        len(lineage),
        sum(lost.values()),
        _reports(visits, began, archived),
        models,
        len(revived),
        entries=checked.entries,
        generations=checked.generations,
        silences=sum(isinstance(line, SilentNeighbour) for one in logs for line in one.lines),
    )


def _sorted(
    logs: Iterable[DiskLog],
) -> tuple[Visits, dict[Epoch, Began], list[tuple[int, Archived]]]:
    """Sort the lines by kind; check I5 and I6."""
    visits: Visits = {}
    began: dict[Epoch, Began] = {}
    archived = []
    for piece in logs:
        v, highest = piece.node, FIRST
        for line in piece.lines:
            if isinstance(line, Archived):
                archived.append((v, line))
                continue
            if isinstance(line, Measured | NewGeneration | SilentNeighbour | BudgetSpent | NewSize):
                continue  # the visit after it tells where
            epoch = Epoch(*(line.token_epoch if isinstance(line, Visit) else line.epoch))
            if epoch < highest:
                raise Violation(
                    "I5", f"node {v} worked in epoch {tuple(highest)} and then in {tuple(epoch)}"
                )
            highest = epoch
            if isinstance(line, Visit):
                other = visits.setdefault(epoch, {}).setdefault(line.step, (v, line))
                if other[1] is not line:
                    raise Violation(
                        "I6", f"step {line.step} of {tuple(epoch)} at nodes {other[0]} and {v}"
                    )
            elif not line.possible:
                raise Violation(
                    "log", f"epoch {tuple(epoch)} began from {tuple(line.parent)}, no earlier one"
                )
            elif began.setdefault(epoch, line) != line:
                raise Violation(
                    "log", f"epoch {tuple(epoch)} began twice: {began[epoch]} and {line}"
                )
    return visits, began, archived


def _check_single(visits: Visits) -> None:
    """Check I1 and I4: one token per epoch, and each of its hand-offs led to one node."""
    for epoch, steps in visits.items():
        places: dict[int, int] = {}
        for v, line in steps.values():
            if places.setdefault(line.transfers, v) != v:
                raise Violation(
                    "I4",
                    f"{tuple(epoch)}/{line.transfers} at nodes {places[line.transfers]} and {v}",
                )
        for (_, before), (_, after) in pairwise(steps[s] for s in sorted(steps)):
            if after.transfers < before.transfers or after.hops <= before.hops:
                raise Violation(
                    "I1", f"epoch {tuple(epoch)} goes back from {before[:4]} to {after[:4]}"
                )


def _check_fences(visits: Visits, began: Iterable[Began]) -> None:
    """Check I3."""
    for child in began:
        for step, (v, line) in visits.get(child.parent, {}).items():
            if line.transfers > child.epoch.seq:
                raise Violation(
                    "I3",
                    f"epoch {tuple(child.epoch)} began from hand-off {child.epoch.seq} of "
                    f"{tuple(child.parent)}, whose "
                    f"step {step} was made at node {v} after hand-off {line.transfers}",
                )


def _check_whole(visits: Visits, began: dict[Epoch, Began]) -> None:
    """Check that the beginning of every epoch is logged, and each of its steps up to the last."""
    for epoch, steps in visits.items():
        if epoch not in began:
            raise Violation("I7", f"nobody has logged how epoch {tuple(epoch)} began")
        missing = set(range(began[epoch].base, max(steps) + 1)) ^ set(steps)
        if missing:
            raise Violation(
                "I6",
                f"step {min(missing)} of epoch {tuple(epoch)} is missing, or before its beginning",
            )


def _lineage(began: dict[Epoch, Began]) -> list[Began]:
    """Return the epochs that led to the highest one, from the first one on."""
    epoch, found = max(began, default=FIRST), []
    while epoch != FIRST:
        if epoch not in began:
            raise Violation("I7", f"nobody has logged how epoch {tuple(epoch)} began")
        found.append(began[epoch])
        epoch = began[epoch].parent
    return found[::-1]


def _winning(visits: Visits, lineage: list[Began]) -> list[tuple[int, Visit]]:
    ends: list[float] = [child.base for child in lineage[1:]] + [float("inf")]
    return [
        visits[one.epoch][step]
        for one, end in zip(lineage, ends, strict=True)
        for step in sorted(visits.get(one.epoch, {}))
        if step < end
    ]


class SizeHistory(NamedTuple):
    """The size for which a fleet was created, and those that its logs tell."""

    first: SizeAt
    told: dict[Epoch, dict[int, SizeAt]]

    def along(self, lineage: Sequence[tuple[Epoch, int]]) -> dict[int, SizeAt]:
        """Return from which steps of a walk on which size was used."""
        return sizes_along(lineage, self.told, self.first)


def _check_models(
    fleet: Fleet, visits: Visits, began: dict[Epoch, Began], sizes: SizeHistory | None
) -> int:
    """Check I7 at every model in the logs, epoch by epoch; return how many there were."""
    update = fleet.published.update
    assert isinstance(update, Sgd)
    size = fleet.published.phases[0].step_size
    (phase,) = bind_phases(fleet.network, fleet.problem, fleet.design, update, size)
    bases = {(one.parent, one.base) for one in began.values()}
    at: dict[tuple[Epoch, int], Floats] = {(FIRST, 0): fleet.x0}
    compared = 0
    for epoch in sorted(began):
        own = began[epoch]
        if (own.parent, own.base) not in at:
            raise Violation(
                "I7",
                f"epoch {tuple(epoch)} began from step {own.base}, which its parent never reached",
            )
        x = at[own.parent, own.base]
        used = None if sizes is None else sizes.first
        steps = visits.get(epoch, {})
        for t in range(own.base, max(steps, default=own.base - 1) + 1):
            if (epoch, t) in bases:
                at[epoch, t] = x
            v, line = steps[t]
            if line.model is not None:
                compared += 1
                if not np.array_equal(line.model, x):
                    raise Violation(
                        "I7",
                        f"the model of {tuple(epoch)} before step {t} at node {v} is not the "
                        "replay's",
                    )
            if t < fleet.published.steps:
                gamma = min(float(phase.step_sizes(t, t + 1)[0]), phase.published.most)
                i, word = fleet.index(v), partial(fleet.key(v).word, t)
                gradient = update.gradient(fleet.problem, i, x, word)
                weight = phase.bound.weights[i]
                if sizes is not None and used is not None:
                    used = sizes.told.get(epoch, {}).get(t, used)
                    weight = weight_at(fleet, v, 0, used)
                x = in_model_type(fleet, x - gamma * (weight * gradient))
        at[epoch, max(steps, default=own.base - 1) + 1] = x
    return compared


def _check_budgets(fleet: Fleet, logs: Sequence[DiskLog]) -> set[tuple[Epoch, int]]:
    """Check I9; return the visits without an update."""
    disks: dict[int, list[tuple[Sequence[Line], int | None]]] = {}
    for piece in logs:
        disks.setdefault(piece.node, []).append((piece.lines, piece.spent))
    return {place for v, found in disks.items() for place in check_spent(fleet, v, found)}


class ReplayComparison(NamedTuple):
    """What was compared with the replay of the walk that counts, and how often its memory started
    again.
    """

    models: int = 0
    entries: int = 0
    generations: int = 0


def _judged_whole(fleet: Fleet) -> bool:
    """Return whether models are compared along the whole walk, and not epoch by epoch."""
    return fleet.published.remembers or needs_whole_walk(fleet)


def _check_last(
    fleet: Fleet,
    winning: list[tuple[int, Visit]],
    lineage: list[Began],
    logs: Sequence[DiskLog],
    passed: set[tuple[Epoch, int]],
    sizes: dict[int, SizeAt],
) -> ReplayComparison:
    """Check that the newest model on any disk is that of the winning walk; if updates
    depend on earlier ones, also every model in the logs, and what nodes remember (I8).
    """
    tokens = [piece.token for piece in logs if piece.token is not None]
    last = max(tokens, key=lambda token: (token.epoch, token.step), default=None)
    if last is None:
        return ReplayComparison()
    steps = [(v, line) for v, line in winning if line.step < last.step]
    if len(steps) != last.step:
        raise Violation(
            "I6", f"the token has made {last.step} updates, the logs have {len(steps)} of them"
        )
    walk = [*(v for v, _ in steps), -1]
    if not _judged_whole(fleet):
        check_replay(fleet, walk, last, sizes=sizes)
        return ReplayComparison()
    models = {line.step: line.model for _, line in steps if line.model is not None}
    still = {line.step for _, line in steps if (Epoch(*line.token_epoch), line.step) in passed}
    remembered = NOTHING_REMEMBERED
    if fleet.published.remembers:
        ends = WalkEnds(fleet, last, lineage, {line.step: (v, line) for v, line in steps})
        disks = [RememberingDisk(piece.node, piece.lines, piece.kept) for piece in logs]
        remembered = remembered_by(ends, disks)
    check_replay(fleet, walk, last, remembered, models, still, sizes)
    return ReplayComparison(len(models), len(remembered.after), len(remembered.starts))


def _lost(
    fleet: Fleet, visits: Visits, lineage: list[Began], revived: set[Epoch]
) -> dict[Epoch, int]:
    """Count the updates that do not count, by epoch, and compare with the promise."""
    ends = {one.epoch: child.base for one, child in pairwise(lineage)} | {
        lineage[-1].epoch: fleet.published.steps
    }
    split = fleet.terms.policy == GuardianPolicy.EAGER or bool(revived)
    unbounded = {one.epoch for one, child in pairwise(lineage) if child.epoch in revived}
    lost = {}
    for epoch, steps in visits.items():
        lost[epoch] = len([s for s in steps if ends.get(epoch, 0) <= s < fleet.published.steps])
        if epoch not in ends and not split:
            raise Violation(
                "fork",
                f"epoch {tuple(epoch)} made {len(steps)} updates, and nothing goes on from it",
            )
        bounded = epoch in ends and epoch not in unbounded
        if bounded and lost[epoch] > fleet.terms.renew_after:
            raise Violation(
                "loss",
                f"{lost[epoch]} updates of {tuple(epoch)} are lost, {fleet.terms.renew_after} may "
                "be",
            )
    return lost


def _reported_by_merge(fleet: Fleet, logs: Sequence[DiskLog]) -> int | None:
    whole: dict[int, list[Line]] = {}
    for piece in logs:
        whole.setdefault(piece.node, []).extend(piece.lines)
    lost = winning_chain(whole, fleet.published).lost
    return None if lost is None else len(lost)


def _reports(
    visits: Visits, began: dict[Epoch, Began], archived: list[tuple[int, Archived]]
) -> int:
    """Check the losses that nodes report after they came back; return their sum."""
    told = 0
    for v, line in archived:
        epoch, by = line.token.epoch, began.get(line.by)
        if line.what in ("guarded", "seeking", REVIVED) or by is None or by.parent != epoch:
            continue
        true = len([s for s in visits.get(epoch, {}) if s >= by.base])
        if line.lost != true:
            raise Violation(
                "report",
                f"node {v} says that {line.lost} updates of {tuple(epoch)} are lost, not {true}",
            )
        told += true
    return told
