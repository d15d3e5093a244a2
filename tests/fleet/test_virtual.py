"""The virtual fleet: faults at given times, stop rules, signatures."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.signing import new_signers
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.events import Notice, Start, Timer
from levywalk.fleet.protocol.messages import Activate, Prepare, Release
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.terms import GuardianPolicy, HandOffTerms
from levywalk.fleet.runtime.node_status import waits_for
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.timeline import summary, timeline, timeline_data, why_stuck
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.limits import mostly_more

RING, PROBLEM = lw.ring(12), lw.homogeneous(12, seed=1)


def fleet_of(policy: str = GuardianPolicy.WAIT, steps: int = 400, design=None, **more) -> Fleet:
    terms = HandOffTerms(
        b"virtual", renew_after=20, policy=policy, heartbeat=0.1, dead_after=1.0, retry=0.05
    )
    how = {"steps": steps, "step_size": "theory", "seed": 2, "record_every": 10, "terms": terms}
    return Fleet.of(RING, PROBLEM, design or lw.mhlj(), **(how | more))


def after(policy: str, *faults: tuple[float, PlannedFault], absent=()) -> VirtualFleet:
    virtual = VirtualFleet(fleet_of(policy), absent=absent)
    for time, fault in faults:
        virtual.at(time, fault)
    virtual.run()
    return virtual


def words(virtual: VirtualFleet) -> str:
    return "\n".join(row.text for row in timeline(virtual))


def calm() -> VirtualFleet:
    virtual = VirtualFleet(fleet_of())
    assert virtual.run()
    return virtual


def holds(virtual: VirtualFleet, status: str) -> bool:
    """Whether some node holds the token in this status; to let a fault come at a chosen moment."""
    return any(
        (held := m.disk["held"]) is not None and held.status == status for m in virtual.machines
    )


def at_status(
    policy: str, status: str, fault: PlannedFault, *, after_seconds: float = 0.5
) -> VirtualFleet:
    """Run until the token is in this status, then let the fault happen, and go on."""
    virtual = VirtualFleet(fleet_of(policy))
    virtual.run(until=after_seconds)
    while not holds(virtual, status):
        virtual.step()
    virtual.at(virtual.now, fault)
    virtual.run()
    return virtual


# Faults


@pytest.mark.parametrize("back", mostly_more([0.3, 3.0], lambda back: back == 3.0))
@pytest.mark.parametrize(
    "status", mostly_more(["active", "moving", "prepared"], lambda one: one != "active")
)
@pytest.mark.parametrize("who", ["holder", "guardian"])
def test_crashes_with_restart_lose_nothing(who, status, back):
    virtual = VirtualFleet(fleet_of())
    virtual.run(until=0.5)
    while not holds(virtual, status):
        virtual.step()
    victim = virtual.whose(who)
    virtual.at(virtual.now, PlannedFault("kill", victim))
    virtual.at(virtual.now + back, PlannedFault("restart", victim))
    assert virtual.run()
    trace = merge(virtual.logs, virtual.fleet)
    if back > 1:  # taken for dead
        assert trace.provenance["fleet"]["lost_updates"] <= 21
    else:  # the very walk of a fleet without faults
        assert trace.provenance["fleet"]["lost_updates"] == 0
        assert np.array_equal(trace.walk, merge(calm().logs, virtual.fleet).walk)


def test_a_dead_holder_is_brought_back_by_its_guardian():
    virtual = at_status(GuardianPolicy.WAIT, "active", PlannedFault("kill", "holder"))
    assert virtual.over
    assert virtual.final.epoch.counter == 1
    assert "restores the model" in words(virtual)


def test_when_the_guardian_is_dead_the_walk_waits_or_is_eager():
    waits = at_status(GuardianPolicy.WAIT, "moving", PlannedFault("kill", "guardian"))
    assert not waits.over
    assert "waits for its guardian" in why_stuck(waits)
    assert "which is dead: restart it" in why_stuck(waits)
    guardian = next(told.node for told in waits.reports if told.what == "kill")
    waits.at(waits.now, PlannedFault("restart", guardian))
    assert waits.run()
    assert waits.final.epoch.counter == 0

    eager = at_status(GuardianPolicy.EAGER, "moving", PlannedFault("kill", "guardian"))
    assert eager.over
    assert eager.final.epoch.counter == 1
    assert "continues without its guardian" in words(eager)


def mute(virtual: VirtualFleet, node: int, message: type) -> None:
    """Let a node ignore one kind of message, and go on to say that it lives."""
    virtual.node(node)._answers[message] = lambda *_: None


@pytest.mark.parametrize("restarted", [False, True])
def test_the_walk_goes_around_a_neighbour_that_lives_and_does_not_answer(restarted):
    virtual = VirtualFleet(fleet_of(design=lw.unif_rw(), steps=60))
    mute(virtual, 5, Prepare)
    if restarted:  # a holder that starts again gives the neighbour the whole time again
        while not any(holds_to(virtual, 5)):
            virtual.step()
        holder = holds_to(virtual, 5).index(True)
        virtual.at(virtual.now + 1.0, PlannedFault("kill", holder))
        virtual.at(virtual.now + 1.2, PlannedFault("restart", holder))
    assert virtual.run()
    why = "the node runs, but does not answer"
    told = [one for one in virtual.reports if one.what == "gives up"]
    assert told
    assert {(one.about["to"], one.about["why"]) for one in told} == {(5, why)}
    assert not any(isinstance(line, Visit) for line in virtual.machines[5].log)
    assert virtual.final is not None
    assert (virtual.final.epoch.counter, virtual.final.step) == (0, 60)  # nothing is lost


def holds_to(virtual: VirtualFleet, to: int) -> list[bool]:
    """Return which nodes hold the token, and ask this node to take it."""
    found = [machine.disk["held"] for machine in virtual.machines]
    return [one is not None and one.status == "moving" and one.to == to for one in found]


def test_asking_for_the_status_changes_nothing():
    """A node that has started again has asked for nothing before its disk is confirmed."""
    virtual = VirtualFleet(fleet_of(design=lw.unif_rw(), steps=60))
    while not any(holds_to(virtual, 5)):
        virtual.step()
    holder = holds_to(virtual, 5).index(True)
    fleet, before = virtual.fleet, virtual.node(holder)
    node = Node(fleet.site(holder), fleet.terms, before.disk, before.signer)
    node.receive(Start(b"drawn"), 100.0)
    assert node.awaited
    assert node.unanswered(100.0) is None
    later = 100.0 + 3 * fleet.terms.dead_after
    node.awaited.clear()
    node.heard = dict.fromkeys(node.neighbours, later)
    node._resume(later)
    assert node.unanswered(later) == (5, 0.0)
    effects = node.receive(Timer(), later)
    assert not any(isinstance(one, Notice) and one.what == "gives up" for one in effects)
    assert node.disk.held.status == "moving"


def test_a_neighbour_that_never_takes_the_model_is_named_at_once_the_next_time():
    virtual = VirtualFleet(fleet_of(design=lw.unif_rw(), steps=60))
    for v in range(12):
        mute(virtual, v, Prepare)
    while not any(one.what == "gives up" for one in virtual.reports):
        virtual.step()
    first = next(one for one in virtual.reports if one.what == "gives up")
    node = virtual.node(first.node)
    assert node.not_taken == {first.about["to"]: 1}
    while not holds_to(virtual, first.about["to"])[first.node]:
        virtual.step()
    assert node.keeps_waiting(first.about["to"], 0.0)
    assert not node.keeps_waiting(99, 0.0)
    silent = virtual.node(first.about["to"])
    silent._answers[Prepare] = silent._prepare
    while node.disk.held is not None:
        virtual.step()
    assert first.about["to"] not in node.not_taken


def test_a_guardian_that_lives_and_does_not_answer_is_named():
    virtual = VirtualFleet(fleet_of())
    mute(virtual, 5, Release)
    assert not virtual.run()
    (holder,) = [
        virtual.node(v)
        for v, machine in enumerate(virtual.machines)
        if (held := machine.disk["held"]) is not None and held.status != "prepared"
    ]
    node, seconds = holder.unanswered(virtual.now)
    assert node == holder.disk.held.guardian == 5
    assert seconds > virtual.fleet.terms.dead_after
    connected = set(holder.neighbours)
    assert waits_for(holder.disk, connected, 20) is None  # as far as the connections tell
    said = waits_for(holder.disk, connected, 20, unresponsive=(node, seconds))
    assert said is not None
    assert said.startswith(
        "waits for its guardian, node 5, which is connected and has not answered"
    )
    assert said.endswith("levywalk fleet revoke")


def test_the_operator_can_call_a_guardian_gone():
    virtual = at_status(GuardianPolicy.WAIT, "moving", PlannedFault("kill", "guardian"))
    guardian = next(told.node for told in virtual.reports if told.what == "kill")
    virtual.at(virtual.now, PlannedFault("gone", guardian))
    assert virtual.run()


@pytest.mark.parametrize("policy", GuardianPolicy)
def test_a_guardian_that_dies_before_it_has_said_that_the_walk_is_over(policy):
    virtual = VirtualFleet(fleet_of(policy, steps=60))
    while not holds(virtual, "ending"):
        virtual.step()
    guardian = virtual.whose("guardian")
    assert virtual.node(guardian).disk.final is None
    virtual._fault(PlannedFault("kill", guardian))
    ended = virtual.run()
    assert ended == (policy == GuardianPolicy.EAGER)
    if not ended:
        assert f"node {guardian}" in why_stuck(virtual)
        virtual.at(virtual.now, PlannedFault("gone", guardian))
        assert virtual.run()
    assert (virtual.final.step, virtual.final.epoch.counter) == (60, 1)
    assert merge(virtual.logs, virtual.fleet).provenance["fleet"]["lost_updates"] == 0


def test_a_guardian_without_its_disk_needs_the_operators_word():
    virtual = VirtualFleet(fleet_of())
    virtual.run(until=0.5)
    while not holds(virtual, "moving"):
        virtual.step()
    guardian = virtual.whose("guardian")
    virtual.at(virtual.now, PlannedFault("lose disk", guardian))
    virtual.at(virtual.now + 0.2, PlannedFault("restart", guardian))
    assert not virtual.run()
    assert "which has lost its disk: tell the others" in why_stuck(virtual)
    virtual.at(virtual.now, PlannedFault("gone", guardian))
    assert virtual.run()
    with pytest.raises(InvalidParameter, match="missing"):
        merge(virtual.logs, virtual.fleet)
    trace = merge(virtual.logs, virtual.fleet, missing="mark")
    assert trace.step[-1] == 400
    assert len(trace.provenance["fleet"]["missing"]) == (trace.walk == -1).sum() > 0


def test_a_partition_pauses_the_walk_or_forks_it_never_silently():
    side = frozenset(range(6))
    for policy in (GuardianPolicy.WAIT, GuardianPolicy.EAGER):
        for time in (0.4, 0.5, 0.6):
            virtual = after(
                policy,
                (time, PlannedFault("cut", nodes=side)),
                (time + 3, PlannedFault("heal", nodes=side)),
            )
            assert virtual.over
            while virtual.now < time + 6:  # each side may have come to an end of its own
                virtual.step()
            finals = {virtual.node(v).disk.final.digest() for v in range(12)}
            assert len(finals) == 1
            if policy == GuardianPolicy.WAIT:
                assert merge(virtual.logs, virtual.fleet).provenance["fleet"]["lost_updates"] <= 21


def test_a_newcomer_takes_part_and_one_who_leaves_does_not():
    virtual = after(
        GuardianPolicy.WAIT,
        (0.3, PlannedFault("join", 5)),
        (0.8, PlannedFault("leave", 8)),
        absent=[5],
    )
    assert virtual.over
    trace = merge(virtual.logs, virtual.fleet)
    path = [stay for stay in virtual.path if stay.node == 5]
    assert trace.visits[0, 5] > 0
    assert min(stay.time for stay in path) > 0.3
    left = next(told.time for told in virtual.reports if told.what == "left")
    assert all(stay.node != 8 for stay in virtual.path if stay.time > left)


def test_faults_that_make_no_sense_are_told():
    virtual = after(
        GuardianPolicy.WAIT,
        (0.1, PlannedFault("restart", 3)),
        (0.2, PlannedFault("kill", 3)),
        (0.3, PlannedFault("kill", 3)),
    )
    assert "restart changes nothing: the node runs" in words(virtual)
    assert "kill changes nothing: the node does not run" in words(virtual)
    for wrong in (
        PlannedFault("explode", 1),
        PlannedFault("kill", 12),
        PlannedFault("cut", nodes=frozenset([12])),
        PlannedFault("kill", "boss"),
    ):
        with pytest.raises(InvalidParameter):
            virtual.at(1.0, wrong)
    with pytest.raises(InvalidParameter, match="the walk starts there"):
        VirtualFleet(fleet_of(), absent=[fleet_of().start])


def test_all_that_happens_is_the_same_again():
    faults = [
        (0.3, PlannedFault("kill", 4)),
        (1.9, PlannedFault("restart", 4)),
        (2.5, PlannedFault("kill", "holder")),
    ]
    one, two = after(GuardianPolicy.WAIT, *faults), after(GuardianPolicy.WAIT, *faults)
    assert one.reports == two.reports
    assert one.path == two.path


def test_the_picture_holds_the_whole_way():
    virtual = at_status(GuardianPolicy.WAIT, "active", PlannedFault("kill", "holder"))
    shown = timeline_data(virtual)
    assert {leg.name[:7] for leg in shown.legs} == {"epoch 0", "epoch 1"}
    assert {what for _, _, what in shown.marks} == {"kill", "regenerated", "finished"}
    assert [what for *_, what in shown.bars] == ["away"]
    assert summary(virtual)["finished"]
    assert summary(virtual)["handoffs"] == virtual.final.transfers


# Stop rules


def test_at_the_end_the_row_counts_the_updates_that_were_made():
    """The last node may make several updates, after the token has come to it."""
    virtual = VirtualFleet(fleet_of(steps=201, seed=7))
    assert virtual.run()
    assert virtual.path[-1].step == 195
    last = timeline(virtual)[-1]
    assert (last.text, last.step) == ("the walk is over after 201 updates", 201)


def test_it_stops_after_the_steps():
    assert calm().final.step == 400


@pytest.mark.parametrize("design", [lw.mhlj(), lw.unif_rw()])
def test_the_detector_stops_the_walk_where_a_switching_one_would_switch(design):
    from levywalk.walks import Detector

    loose = {"threshold": 0.5, "window": 20, "patience": 10}
    fleet = fleet_of(design=design, steps=3000, stop="detector", detector=Detector(**loose))
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    switching = lw.switching(design, lw.weight_rw(), **loose)
    reference = lw.run(
        RING,
        PROBLEM,
        switching,
        steps=3000,
        step_size="theory",
        seed=2,
        backend="reference",
        record_walk=True,
    )
    stop = int(reference.switched_at[0]) + 1
    assert 10 < stop < 3000
    assert virtual.final.step == stop
    again = lw.run(
        RING,
        PROBLEM,
        design,
        steps=stop,
        step_size="theory",
        seed=2,
        backend="reference",
        record_walk=True,
    )
    assert np.array_equal(virtual.final.model, again.model[0])
    trace = merge(virtual.logs, fleet)
    assert np.array_equal(trace.walk, again.walk)
    assert trace.final_node[0] == again.final_node[0]
    assert trace.provenance["fleet"]["stopped_at"] == stop
    assert not trace.provenance["interrupted"]
    assert trace.switched_at[0] == -1


def test_a_detector_that_never_settles_leaves_it_to_the_steps():
    from levywalk.walks import Detector

    fleet = fleet_of(steps=100, stop="detector", detector=Detector(threshold=1e-9))
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    assert virtual.final.step == 100


def test_a_switching_walk_has_no_detector_left_to_stop_it():
    with pytest.raises(InvalidParameter, match="stop must be 'steps' for a switching walk"):
        fleet_of(design=lw.switching(lw.mhlj(), lw.unif_rw()), stop="detector")


# Signatures


def test_a_signed_fleet_makes_the_same_walk():
    pytest.importorskip("cryptography")
    virtual = VirtualFleet(fleet_of(), signed=True)
    assert virtual.run()
    assert np.array_equal(virtual.final.model, calm().final.model)
    assert virtual.final.chain == calm().final.chain


def test_a_certificate_that_the_guardian_did_not_sign_is_refused():
    pytest.importorskip("cryptography")
    virtual = VirtualFleet(fleet_of(), signed=True)
    strangers = new_signers(range(12))
    virtual.run(until=0.3)
    while not any(
        isinstance(getattr(event, "message", None), Activate) for *_, event in virtual._queue
    ):
        virtual.step()
    at, order, to, event = next(
        e for e in virtual._queue if isinstance(getattr(e[3], "message", None), Activate)
    )
    certificate = event.message.certificate
    forged = certificate._replace(signature=strangers[certificate.guardian].sign(b"anything"))
    virtual._queue.remove((at, order, to, event))
    virtual._push(at, to, event._replace(message=Activate(forged)))
    virtual.run(until=at)
    assert any("not signed by the guardian" in str(told.about) for told in virtual.reports)
    assert virtual.run()  # the true one is sent again


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(InvalidParameter, match=r"pip install 'levywalk\[fleet\]'"):
        VirtualFleet(fleet_of(), signed=True)
