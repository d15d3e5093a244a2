"""I8 of fleets that have ended, from their logs and disks: what is right passes, what is not is
found.
"""

from __future__ import annotations

from typing import Any

import pytest

import levywalk as lw
from levywalk.fleet.checking.log_pieces import DiskLog
from levywalk.fleet.checking.logs import judge
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.kept_memory import EPOCHS, NODE_LOST, KeptMemory
from levywalk.fleet.protocol.lineage import MOST_ANCESTORS
from levywalk.fleet.protocol.records import NewGeneration
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet

N = 5
TERMS = HandOffTerms(b"", renew_after=5, heartbeat=1.0, dead_after=4.0, retry=0.5)


def walked(kills: int, steps: int) -> tuple[Fleet, list[DiskLog]]:
    """Let a fleet with SAGA and oldest neighbour walk: node 3 loses its disk soon, and the holder
    is killed so many times. Return it, and what its nodes have left.
    """
    problem = lw.heterogeneous(N, dim=2, seed=1)
    given: dict[str, Any] = {"steps": steps, "step_size": 0.01, "update": "saga"}
    given |= {"terms": TERMS, "record_every": 1, "seed": 3}
    fleet = Fleet.of(lw.complete(N), problem, lw.oldest_neighbour(), **given)
    virtual = VirtualFleet(fleet)
    virtual.run(until=0.2)
    lost = left_by(virtual, 3)
    virtual.at(0.2, PlannedFault("lose disk", 3))
    virtual.at(0.4, PlannedFault("restart", 3))
    for i in range(kills):
        virtual.at(0.8 + 5.5 * i, PlannedFault("kill", "holder"))
        for v in range(N):
            virtual.at(6.0 + 5.5 * i, PlannedFault("restart", v))
    assert virtual.run()
    return fleet, [lost, *(left_by(virtual, v) for v in range(N))]


def left_by(virtual: VirtualFleet, v: int) -> DiskLog:
    """Return what a node has left, as it is read from the disk of a real one."""
    lines, kept = tuple(virtual.logs[v]), virtual.machines[v].disk["memory"]
    return DiskLog(v, lines, virtual.final if virtual.over else None, None, kept)


def starts(pieces: list[DiskLog]) -> list[NewGeneration]:
    """Return where memory started again."""
    return [line for one in pieces for line in one.lines if isinstance(line, NewGeneration)]


@pytest.mark.parametrize("kills", [0, 2, pytest.param(MOST_ANCESTORS + 6, marks=pytest.mark.more)])
def test_a_walk_that_was_restored_is_judged_in_all_its_epochs(kills):
    """A token names its last ancestors alone; of the earlier ones the logs tell."""
    fleet, pieces = walked(kills, 100 + 80 * kills)
    found = judge(fleet, pieces)
    many = kills > MOST_ANCESTORS
    assert found.epochs > (MOST_ANCESTORS + 1 if many else kills)
    assert found.models == found.steps
    assert found.entries >= N * TERMS.memory_depth
    assert {line.why for line in starts(pieces)} == ({NODE_LOST, EPOCHS} if many else {NODE_LOST})
    assert found.generations >= 1 + many


def test_a_walk_whose_token_carries_a_velocity_is_judged():
    """Heavy ball: nodes remember nothing, and each model depends on all updates before it."""
    given: dict[str, Any] = {"steps": 200, "step_size": 0.01, "update": "heavy_ball"}
    given |= {"terms": TERMS, "record_every": 1, "seed": 3}
    fleet = Fleet.of(lw.ring(N), lw.heterogeneous(N, dim=2, seed=1), lw.mhlj(), **given)
    virtual = VirtualFleet(fleet)
    virtual.at(0.2, PlannedFault("kill", "holder"))
    for v in range(N):
        virtual.at(6.0, PlannedFault("restart", v))
    assert virtual.run()
    pieces = [left_by(virtual, v) for v in range(N)]
    found = judge(fleet, pieces)
    assert found.epochs > 1
    assert found.models == found.steps == 200
    final = virtual.final
    wrong = [one._replace(token=final._replace(model=final.model + 1e-9)) for one in pieces]
    with pytest.raises(Violation, match="I7"):
        judge(fleet, wrong)


@pytest.mark.parametrize(("byte", "what"), [(0, "what no replay does"), (-8, "remembers a visit")])
def test_a_disk_that_keeps_another_memory_is_found(byte, what):
    """The first bytes are the update's, the last ones are the walk's."""
    fleet, pieces = walked(0, 60)
    assert judge(fleet, pieces).entries > 0
    kept = pieces[2].kept
    assert isinstance(kept, KeptMemory)
    content = kept.entries[-1].content.copy()
    content[byte] ^= 1
    wrong = kept._replace(entries=(*kept.entries[:-1], kept.entries[-1]._replace(content=content)))
    pieces[2] = pieces[2]._replace(kept=wrong)
    with pytest.raises(Violation, match=what):
        judge(fleet, pieces)


def test_a_start_of_memory_that_nobody_logged_is_found():
    """If the replay does not know where memory started again, its models are others."""
    fleet, pieces = walked(0, 60)
    (start,) = starts(pieces)
    assert judge(fleet, pieces).generations == 1
    silent = [
        one._replace(lines=[line for line in one.lines if line is not start]) for one in pieces
    ]
    with pytest.raises(Violation, match="I8"):
        judge(fleet, silent)
