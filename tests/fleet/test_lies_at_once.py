"""Several things at once, each of which alone is harmless: two guardians that lie, a lie that
reaches one half of a divided fleet, and two operators that revive one walk.

As in `test_false_epochs`, nodes sign with real keys, and a liar takes part as usual.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.protocol.ending import unsigned_ending
from levywalk.fleet.protocol.events import Got, Revive
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.links import LinkKind, Right
from levywalk.fleet.protocol.messages import Fenced, Finished, Guard, Message
from levywalk.fleet.protocol.records import NOBODY, Archived, Guarded, HeldStatus
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.fleet.linked import Hands, stepped
from tests.fleet.test_false_epochs import TERMS, chances, unseen
from tests.limits import mostly_more

STEPS = 200


class Lies:
    """A fleet in which everybody knows everybody, and what its nodes could sign."""

    def __init__(self, seed: int, n: int = 8) -> None:
        fleet = Fleet.of(
            lw.complete(n), lw.homogeneous(n, dim=2, seed=1), lw.mhlj(), steps=STEPS,
            step_size="theory", seed=seed, start=0, terms=TERMS,
        )  # fmt: skip
        self.virtual = VirtualFleet(fleet, signed=True, latency=0.01)
        self.hands = Hands(TERMS.run, self.virtual.signers)
        self.rights: dict[tuple[int, int], Guarded] = {}
        self.n = n

    def goes_on(self, seconds: float) -> None:
        until = self.virtual.now + seconds
        while self.virtual.now < until:
            self.virtual.step()
            for v, guarded in chances(self.virtual).items():
                self.rights.setdefault((v, guarded.copy.seq), guarded)

    def end(self, liar: int, guarded: Guarded) -> Message:
        final = guarded.copy._replace(step=STEPS, model=guarded.copy.model + 99.0)
        assert guarded.activate is not None
        blank = unsigned_ending(liar, final, Right(guarded.activate))
        signature = self.hands.of(liar).sign(blank.statement(TERMS.run))
        return Finished(final, blank._replace(signature=signature))

    def link(self, liar: int, guarded: Guarded, near: int, above: int = 1) -> Guard:
        copy, known = guarded.copy, [one.disk["known"] for one in self.virtual.machines]
        epoch = Epoch(max(one.epoch.counter for one in known) + above, copy.seq, liar)
        false = copy._replace(epoch=epoch, base=copy.step, model=copy.model + 99.0, version=0)
        assert guarded.activate is not None
        right = Right(guarded.activate)
        link = self.hands.link(LinkKind.REGENERATED, false, near, copy.epoch, right)
        return Guard(false, link, None)

    def finals(self, without: set[int]) -> set[tuple[int, bytes, bool]]:
        """What honest nodes take for the end: its step and hash, and whether it is a true one."""
        tokens = [
            one.disk["final"] for v, one in enumerate(self.virtual.machines) if v not in without
        ]
        assert None not in tokens
        return {(one.step, one.digest(), bool(abs(one.model).max() < 50.0)) for one in tokens}

    def lost(self, without: set[int]) -> int:
        """Updates that honest nodes have made to the true model, and that are lost."""
        return sum(
            line.lost
            for v, one in enumerate(self.virtual.machines)
            for line in one.log
            if v not in without
            and isinstance(line, Archived)
            and line.what not in ("guarded", HeldStatus.PREPARED)
            and abs(line.token.model).max() < 50.0
        )


@pytest.mark.parametrize("seed", mostly_more(range(30), lambda seed: seed < 2))
def test_two_guardians_that_lie_at_the_same_time_end_nothing(seed: int) -> None:
    """Each has its own rights alone. They sign links and ends, and tell some nodes."""
    fleet, draw = Lies(seed), np.random.default_rng(seed)
    virtual = fleet.virtual
    fleet.goes_on(float(draw.uniform(0.8, 2.0)))
    names = sorted({v for v, _ in fleet.rights})
    liars = draw.choice(names, 2, replace=False).tolist()
    for _ in range(3):
        for liar in liars:
            mine = [one for (v, _), one in fleet.rights.items() if v == liar]
            guarded = mine[int(draw.integers(len(mine)))]
            told = [u for u in draw.permutation(fleet.n).tolist() if u not in liars][:3]
            if draw.random() < 0.5:
                message: Message = fleet.end(liar, guarded)
            else:
                message = Fenced(fleet.link(liar, guarded, told[0]).link)
            for u in told:
                virtual._tell(u, Got(int(draw.choice(liars)), message))
        fleet.goes_on(float(draw.uniform(0.0, 0.4)))
    fleet.goes_on(20.0)
    ((step, _, is_true),) = fleet.finals(set(liars))
    assert (step, is_true) == (STEPS, True)
    assert fleet.lost(set(liars)) == 0


def half_that_knows_nothing(fleet: Lies) -> tuple[int, Guarded, list[int]]:
    """Return a former guardian, and nodes that the walk has not visited since."""
    virtual, found = fleet.virtual, []

    def somebody() -> bool:
        in_use = {virtual.whose("holder"), virtual.whose("guardian")}
        if NOBODY in in_use or None in in_use:
            return False
        for liar, guarded in chances(virtual).items():
            others = set(range(fleet.n)) - in_use - {liar}
            half = [v for v in sorted(others) if unseen(virtual, v, guarded.copy.seq, NOBODY)]
            half = [v for v in half if virtual.machines[v].disk["held"] is None]
            if liar not in in_use and guarded.copy.seq > 3 and len(half) >= fleet.n // 3:
                found.append((liar, guarded, half[: fleet.n // 3]))
        return bool(found)

    stepped(virtual, somebody)
    return found[0]


@pytest.mark.parametrize("kind", ["end", "link"])
def test_a_lie_in_one_half_of_a_divided_fleet_gives_way_to_the_walk_of_the_other(kind: str) -> None:
    fleet = Lies(3, n=12)
    virtual = fleet.virtual
    liar, guarded, half = half_that_knows_nothing(fleet)
    virtual._fault(PlannedFault("cut", -1, frozenset({liar, *half})))
    virtual.node(liar)._releases = lambda: iter(())  # type: ignore[method-assign]  # says nothing
    said = fleet.end(liar, guarded) if kind == "end" else fleet.link(liar, guarded, half[0])
    virtual._tell(half[0], Got(liar, said))
    fleet.goes_on(1.0)
    believed = [virtual.machines[v].disk for v in half]
    if kind == "end":
        assert all(disk["final"] is not None for disk in believed)
    else:
        assert all(disk["known"].epoch.counter >= 1 for disk in believed)
    virtual._fault(PlannedFault("heal"))
    fleet.goes_on(20.0)
    ((step, _, is_true),) = fleet.finals({liar})
    assert (step, is_true) == (STEPS, True)
    assert fleet.lost({liar}) <= 1


def test_two_operators_that_revive_a_divided_fleet_at_once_leave_one_walk() -> None:
    """Both take the same number for the new epoch. One of the two wins; the other one is archived,
    and its updates are counted.
    """
    fleet = Lies(5)
    virtual = fleet.virtual
    fleet.goes_on(1.5)
    stepped(virtual, lambda: None not in (virtual.whose("holder"), virtual.whose("guardian")))
    lost = [virtual.whose("holder"), virtual.whose("guardian")]
    for v in lost:
        virtual._fault(PlannedFault("lose disk", v))  # type: ignore[arg-type]
    for v in lost:
        virtual._fault(PlannedFault("restart", v))  # type: ignore[arg-type]
    fleet.goes_on(5.0)
    assert virtual.whose("holder") is None
    virtual._fault(PlannedFault("cut", -1, frozenset(range(4))))
    fleet.goes_on(2.0)  # both sides know who is away
    for side in (range(4), range(4, 8)):
        copies = {v: best_copy(virtual.node(v).disk) for v in side}
        node, copy = max(
            ((v, one) for v, one in copies.items() if one is not None),
            key=lambda one: (one[1].step, one[0]),
        )
        virtual._tell(node, Revive(copy, fleet.hands.word(copy, node, 1)))
    fleet.goes_on(3.0)
    known = {one.disk["known"].epoch for one in virtual.machines}
    assert [epoch.counter for epoch in known] == [1, 1]
    virtual._fault(PlannedFault("heal"))
    fleet.goes_on(20.0)
    assert len(fleet.finals(set())) == 1
    assert {one.disk["final"].step for one in virtual.machines} == {STEPS}
    kept = virtual.machines[0].disk["known"].epoch
    gone = [
        line
        for one in virtual.machines
        for line in one.log
        if isinstance(line, Archived) and line.token.epoch.counter == 1 and line.lost
    ]
    assert gone
    assert all(line.by == kept and line.token.epoch < kept for line in gone)
