"""What privacy budgets have spent, counted again from the visits: I9.

I9: a node's count is that of the updates that it has made, in whatever epoch, and is written in the
same transaction as they are. It never falls, and never exceeds the cap; a node whose budget is
spent passes the model on as it is; an empty disk after the first one is one whose budget is spent.

The noise of real nodes cannot be computed again, so the replay of their models (I7, I8) is not
possible. What can be checked of them is checked here: which visits made no update, that the model
is the same to the bit after those, and how far the others have moved it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.contracts import keeps
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import BudgetSpent, Disk, Line
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.setup.build import Fleet
from levywalk.privacy.private_data import known_ridge, sensitivity
from levywalk.updates import Sgd

_RARE = 1e-12  # how often the noise of an update is larger than is allowed for here

Place = tuple[Epoch, int]  # an epoch and a step
Noted = Callable[[int, dict[Any, Any], Any], None]


class SpentWatch:
    """Counts the updates of each node, for updates that ask for one gradient at each visit."""

    def __init__(self, fleet: Fleet, note: Noted) -> None:
        self.on = fleet.published.privacy is not None
        self.cap = 0 if fleet.published.privacy is None else fleet.published.privacy.cap
        self.steps, self._note = fleet.published.steps, note
        self.counts: dict[int, int] = {}
        self.passed: dict[Place, int] = {}  # visits without an update, and where

    def persisted(self, v: int, slots: Mapping[str, Any], lines: Iterable[Line]) -> None:
        """Note one write of a node, and check I9."""
        count, visits = self.counts.get(v, 0), 0
        for line in lines:
            if not isinstance(line, Visit) or line.step >= self.steps or line.diverged_at >= 0:
                continue
            visits += 1
            if count < self.cap:
                count += 1
            else:
                place = Epoch(*line.token_epoch), line.step
                self.passed[place] = v
                self._note(v, self.passed, place)
        if visits and count != self.counts.get(v, 0) and "spent" not in slots:
            raise Violation("I9", f"node {v} has made an update and not written that it counts")
        self.counts[v] = count
        spent = slots.get("spent")
        if spent is not None and spent.releases != count:
            raise Violation(
                "I9", f"node {v} says that {spent.releases} updates are spent, it made {count}"
            )

    def wiped(self, v: int) -> None:
        """Note that a disk is lost: the budget of the node counts as spent."""
        self.counts[v] = self.cap

    def unseen(self, v: int, disk: Disk) -> None:
        """Note that a node continues from an old disk, whose later writes nobody has seen."""
        self.counts[v] = 0 if disk.spent is None else disk.spent.releases


def check_spent(
    fleet: Fleet, node: int, logs: Sequence[tuple[Sequence[Line], int | None]]
) -> set[Place]:
    """Check I9 for the disks that one node had, each with its log and what it says is spent (None
    if that is not known); return the visits without an update.
    """
    watch = SpentWatch(fleet, lambda *_: None)
    begun = 0  # disks with which the budget was whole
    for lines, spent in logs:
        reached = any(isinstance(line, BudgetSpent) for line in lines)
        whole = reached or spent is None or spent < watch.cap
        begun += whole and spent is not None and spent > 0
        watch.counts[node] = 0 if whole else watch.cap
        for line in lines:
            watch.persisted(node, {"spent": None}, [line])
        if spent is not None and watch.counts[node] != spent:
            raise Violation(
                "I9",
                f"the disk of node {node} says that {spent} updates are spent, its log has "
                f"{watch.counts[node]} of at most {watch.cap}",
            )
    if begun > 1:
        raise Violation("I9", f"node {node} has had its whole budget on {begun} disks")
    return set(watch.passed)


def check_changes(
    fleet: Fleet, visits: Mapping[Epoch, Mapping[int, tuple[int, Visit]]], passed: set[Place]
) -> int:
    """Check how far each visit has moved the model, where the logs have the model before and after
    it: not at all if the budget was spent, and for plain SGD at most γ times clip and noise.

    Returns how many changes were checked.
    """
    checked = 0
    for epoch, steps in visits.items():
        for t, (v, line) in steps.items():
            before, after = line.model, steps[t + 1][1].model if t + 1 in steps else None
            if before is None or after is None or line.diverged_at >= 0:
                continue
            checked += 1
            moved = float(np.linalg.norm(after - before))
            most = 0.0 if (epoch, t) in passed else _farthest(fleet, line, v, before)
            if moved > most:
                raise Violation(
                    "I9",
                    f"step {t} of {tuple(epoch)} at node {v} has moved the model by {moved:g}, "
                    f"at most {most:g} is possible",
                )
    return checked


def _farthest(fleet: Fleet, line: Visit, v: int, model: Floats) -> float:
    """Return how far an update may move the model; infinity if that is not known."""
    from scipy.stats import chi

    published = fleet.published
    bound = published.privacy
    assert bound is not None
    plain = keeps(published.update, Sgd, "gradient", "direction", "apply")
    if not plain or len(published.phases) > 1:
        return float("inf")
    phase = published.phases[0]
    noise = bound.privacy.noise * sensitivity(bound.privacy, parts=1)
    ridge = known_ridge(fleet.problem) * phase.weight(fleet.scores_of(v)[0])
    release = bound.privacy.clip + noise * float(chi.isf(_RARE, published.dim))
    whole = release + ridge * float(np.linalg.norm(model))
    return phase.step_size_at(line.step, 1.0) * whole * (1.0 + 1e-9)
