"""What a node makes of what should not come: values that cannot be, a wrong sender, a token before
its edges count.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.protocol.events import (
    Effect,
    Gone,
    Got,
    Joins,
    Notice,
    Persist,
    Send,
    Start,
    Turn,
    TurnRequest,
)
from levywalk.fleet.protocol.messages import (
    Activate,
    Alive,
    Certificate,
    Certified,
    Fenced,
    Finished,
    Guard,
    Guarding,
    Heartbeat,
    Message,
    Prepare,
    Prepared,
    Refused,
    Release,
    Released,
    Renew,
    Renewed,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import Disk, Known, Own
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.memory import packed
from tests.fleet.linked import Hands

EPOCH = Epoch(0, 0, 0)
RING = lw.ring(6)
TERMS = HandOffTerms(b"protocol", renew_after=20, heartbeat=0.1, dead_after=1.0, retry=0.05)


def fleet_of(steps: int = 200, seed: int = 0) -> Fleet:
    problem = lw.homogeneous(6, dim=3, seed=1)
    return Fleet.of(
        RING, problem, lw.mhlj(), steps=steps, step_size="theory", terms=TERMS, seed=seed, start=0
    )


FLEET, HANDS = fleet_of(), Hands(TERMS.run)
TOKEN = FLEET.token._replace(epoch=EPOCH, seq=1, step=5, hops=5, transfers=1)
END = HANDS.end(TOKEN, 0, 3)


def sent(effects: list[Effect], kind: type) -> list[Message]:
    return [
        effect.message
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, kind)
    ]


def given_to(node: Node, token: Token, giver: int, guardian: int) -> list[Effect]:
    """Hand a token over as its holder and its guardian would."""
    if node.disk.known.epoch < token.epoch:
        node.receive(Got(giver, Fenced(HANDS.first(token, giver))), 0.0)
    token = token._replace(came_from=giver)
    assert sent(node.receive(Got(giver, Prepare(token, guardian)), 0.0), Prepared)
    certificate = HANDS.released(
        guardian, token.epoch, token.seq - 1, node.id, giver, token.digest()
    )
    return node.receive(Got(giver, Activate(certificate)), 0.0)


def test_a_newcomer_whose_edges_do_not_count_yet_keeps_the_token() -> None:
    """One neighbour knows its degree and gives it the token;
    the other one has not acknowledged it.
    """
    node = FLEET.node(2, Disk(Known(FIRST, 0), Own(0, 0, leaving=False), {}))
    node.receive(Start(), 0.0)
    for u in (1, 3):
        node.receive(Joins(u), 0.0)
        node.receive(
            Got(u, Heartbeat(FIRST, b"", True, 0, False, 2, u // 2, FLEET.scores_of(u))), 0.0
        )
    assert node.disk.own == Own(0, 2, leaving=False)
    given_to(node, TOKEN, 1, 0)
    effects = node.receive(Turn(), 0.0)
    held = node.disk.held
    assert held is not None
    assert (held.status, held.token.step) == ("active", TOKEN.step + TERMS.renew_after)
    assert sent(effects, Renew)


@pytest.mark.more
def test_a_join_while_a_neighbour_is_cut_off_does_not_stop_the_walk() -> None:
    ring, problem = lw.ring(12), lw.homogeneous(12, seed=1)
    fleet = Fleet.of(
        ring, problem, lw.mhlj(), steps=400, step_size="theory", seed=2, terms=TERMS, start=4
    )
    for time in np.arange(0.30, 0.40, 0.01):
        virtual = VirtualFleet(fleet, absent={2})
        virtual.at(time, PlannedFault("join", 2))
        virtual.at(time + 0.001, PlannedFault("cut", nodes=frozenset({3})))
        virtual.at(time + 0.9, PlannedFault("heal"))
        assert virtual.run()


@pytest.mark.parametrize(
    "changes",
    [{"step": 201}, {"step": -1}, {"base": 6}, {"base": -1}, {"seq": 2**63 - 1},
     {"version": 2**63 - 1}, {"hops": 2**63 - 1}, {"transfers": 2**63 - 1}, {"hops": -1},
     {"switched_at": 200}, {"diverged_at": -2}, {"phase": 1}, {"distance": 2**62},
     {"model": np.zeros(4)}, {"model": np.array([np.nan, 0.0, 0.0])}, {"came_from": -2},
     {"came_from": 6}, {"small_messages": -1}, {"small_messages": 2**63 - 1},
     {"memory": np.zeros(1, np.uint8)}, {"memory": np.zeros(0)}],
    ids=str,
)  # fmt: skip
def test_a_token_that_cannot_be_is_refused_and_nothing_is_kept(changes) -> None:
    token = TOKEN._replace(**changes)
    assert FLEET.published.refuses(TOKEN) is None
    assert FLEET.published.refuses(token) is not None
    link = HANDS.first(TOKEN, 2)
    for message in (Prepare(token, 0), Renew(token), Guard(token, link), Finished(token, END)):
        node = FLEET.node(2)
        before = replace(node.disk)
        effects = node.receive(Got(1, message), 0.0)
        assert node.disk == before
        assert bool(sent(effects, Refused)) == isinstance(message, Prepare)


@pytest.mark.parametrize("parent", [EPOCH, Epoch(1, 0, 0), Epoch(0, 0, 1)], ids=str)
def test_an_epoch_does_not_come_from_itself_or_from_a_later_one(parent: Epoch) -> None:
    node = FLEET.node(1)
    before = replace(node.disk)
    right = HANDS.first(FLEET.token._replace(epoch=EPOCH), 1)
    wrong = HANDS.signed(right._replace(opening=right.opening._replace(parent=parent)))
    token = FLEET.token._replace(epoch=EPOCH)
    effects = node.receive(Got(0, Guard(token, wrong)), 0.0)
    assert node.disk == before
    assert not sent(effects, Guarding)
    assert [one.what for one in effects if isinstance(one, Notice)] == ["refused"]
    assert sent(node.receive(Got(0, Guard(token, right)), 0.0), Guarding)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mean": [np.nan, 0.0, 0.0]}, "NaN or infinity"),
        ({"mean": [0.0, -np.inf, 0.0]}, "NaN or infinity"),
        ({"mass": np.nan}, "NaN or infinity"),
        ({"mass": np.inf}, "NaN or infinity"),
        ({"streak": -1}, "the detector cannot have counted -1 updates in a row"),
        ({"streak": 2**63 - 1}, "updates in a row"),
    ],
    ids=str,
)
def test_a_detector_s_averages_that_cannot_be_are_refused(changes, says) -> None:
    fleet = Fleet.of(
        RING,
        lw.homogeneous(6, dim=3, seed=1),
        lw.mhlj(),
        steps=200,
        step_size="theory",
        stop="detector",
        terms=TERMS,
    )
    declared = fleet.published.method.token_memory
    right = fleet.published.method.first_memory() | {
        "detector.power": np.array(np.inf)
    }  # it may overflow
    token = fleet.token._replace(epoch=EPOCH, seq=1, step=5, memory=packed(right, declared))
    assert fleet.published.refuses(token) is None
    wrong = right | {"detector." + name: np.array(value) for name, value in changes.items()}
    assert says in (fleet.published.refuses(token._replace(memory=packed(wrong, declared))) or "")
    for size in (0, fleet.published.memory_bytes - 1, fleet.published.memory_bytes + 1):
        assert "bytes was expected" in (
            fleet.published.refuses(token._replace(memory=np.zeros(size, np.uint8))) or ""
        )


def test_a_stranger_has_nothing_to_say() -> None:
    node = FLEET.node(2)
    before = replace(node.disk)
    for message in (
        Prepare(TOKEN, 0),
        Guard(TOKEN, HANDS.first(TOKEN, 2)),
        Certified(Certificate(0, EPOCH, 0, 2, 1, b"", b"")),
    ):
        (effect,) = node.receive(Got(5, message), 0.0)
        assert effect == Notice("refused", {"sender": 5, "why": "not a neighbour"})
    assert node.disk == before


@pytest.mark.parametrize(
    "kind",
    [Prepared, Release, Released, Activate, Renew, Renewed, Guarding, Alive],
    ids=lambda kind: kind.__name__,
)
def test_what_another_neighbour_says_in_the_place_of_the_right_one_changes_nothing(
    kind: type,
) -> None:
    """Each message of a walk first comes from the receiver's other neighbour, and then from its
    true sender.
    """
    fleet = fleet_of(seed=3)
    virtual, tried = VirtualFleet(replace(fleet, terms=replace(TERMS, renew_after=1))), 0
    while not virtual.over:
        *_, to, event = virtual._queue[0]
        if isinstance(event, Got) and isinstance(event.message, kind):
            node, (other,) = virtual.node(to), set(RING.neighbours(to).tolist()) - {event.sender}
            slots = (node.disk.held, node.disk.guarded, node.disk.known, node.holder_heard)
            node.receive(Got(other, event.message), virtual.now)
            assert (node.disk.held, node.disk.guarded, node.disk.known, node.holder_heard) == slots
            tried += 1
        virtual.step()
    assert tried
    assert virtual.final.step == 200


def test_a_certificate_is_passed_on_until_the_token_is_known_to_have_gone_on() -> None:
    """The giver is away for long; all neighbours of all nodes hear of the certificate, but not for
    ever. (A guardian that is the next node itself needs nobody to pass it on.)
    """
    virtual = VirtualFleet(fleet_of(steps=3000))
    virtual.run(until=0.3)
    while not any(
        (guarded := machine.disk["guarded"]) is not None
        and isinstance(guarded.register, Certificate)
        and guarded.register.to != guarded.register.guardian
        and (held := virtual.machines[guarded.holder].disk["held"]) is not None
        and held.status == "moving"
        and held.token.seq == guarded.copy.seq
        for machine in virtual.machines
    ):
        virtual.step()
    giver = next(
        v for v, m in enumerate(virtual.machines) if (h := m.disk["held"]) and h.status == "moving"
    )
    virtual.at(virtual.now, PlannedFault("kill", giver))
    virtual.at(virtual.now + 4.0, PlannedFault("restart", giver))
    heard: list[float] = []
    while not virtual.over:
        now, *_, event = virtual._queue[0]
        if isinstance(event, Got) and isinstance(event.message, Certified):
            heard.append(now)
        virtual.step()
    assert heard
    assert virtual.final.epoch.counter == 0
    assert heard[-1] < virtual.now - 3.0


def test_who_was_gone_may_come_back_with_fewer_edges() -> None:
    """Of one that has lost its disk, a smaller degree is news; of any other it would be an old
    message.
    """
    network, problem = lw.watts_strogatz(8, 4, 0.0, seed=1), lw.homogeneous(8, seed=1)
    fleet = Fleet.of(network, problem, lw.mhlj(), steps=100, step_size="theory", terms=TERMS)
    node = fleet.node(2)
    node.receive(Start(), 0.0)
    says = Heartbeat(FIRST, b"", True, 0, True, 3, 4, fleet.scores_of(1))
    node.receive(Got(1, says), 0.0)
    assert (node.disk.edges[1].up, node.disk.edges[1].degree) == (True, 4)
    node.receive(Gone(1), 0.0)
    assert (node.disk.edges[1].up, node.disk.edges[1].degree) == (False, 1)
    node.receive(Got(1, says), 0.0)
    assert node.disk.edges[1].degree == 3
    node.receive(Got(1, says._replace(degree=2)), 0.0)
    assert node.disk.edges[1].degree == 3


# Updates in bursts


def walked(burst: int | None) -> tuple[VirtualFleet, int]:
    """Let a fleet walk whose nodes make so many decisions in a turn; return it, and the most that
    one made.
    """
    problem = lw.heterogeneous(6, dim=3, seed=1, important=1)
    fleet = Fleet.of(
        RING, problem, lw.mhlj(), steps=300, step_size="theory", terms=TERMS, seed=1, start=0
    )
    virtual, most = VirtualFleet(fleet), 0
    for v in range(6):
        virtual.node(v).burst = burst
    while not virtual.over:
        virtual.step()
        most = max(most, *(virtual.node(v).made for v in range(6)))
    return virtual, most


def test_a_walk_in_bursts_is_the_same_walk() -> None:
    whole, most = walked(None)
    assert most > 3
    for burst in (1, 3):
        virtual, made = walked(burst)
        assert made == burst
        assert virtual.final.digest() == whole.final.digest()
        assert repr(virtual.logs) == repr(whole.logs)


# Decisions ahead


def test_a_walk_in_which_nodes_think_ahead_is_the_same_walk() -> None:
    """Dead nodes and all: what was decided ahead is used only if nothing else has changed."""
    fleet, logs, known = fleet_of(steps=300), [], 0
    for ahead in (False, True):
        virtual = VirtualFleet(fleet)
        virtual.at(0.5, PlannedFault("kill", 2))
        virtual.at(2.5, PlannedFault("restart", 2))
        while not virtual.over:
            virtual.step()
            running = [one.node for one in virtual.machines if one.node is not None]
            for node in running if ahead else ():
                known += node.think_ahead() is not None
        logs.append((repr(virtual.logs), virtual.final.digest()))
    assert logs[0] == logs[1]
    assert known > 100


def test_a_decision_ahead_is_what_is_written_and_sent() -> None:
    node, plain = FLEET.node(2), FLEET.node(2)
    for one in (node, plain):
        one.receive(Got(1, Fenced(HANDS.first(TOKEN, 1))), 0.0)
    token = TOKEN._replace(came_from=1)
    assert node.think_ahead() is None  # nothing is prepared
    found = None
    while found is None:  # until the decision is a move
        token = token._replace(step=token.step + 1)
        for one in (node, plain):
            one.receive(Got(1, Prepare(token, 0)), 0.0)
        found = node.think_ahead()
    before = repr(node.disk)
    assert node.think_ahead() is not None
    assert repr(node.disk) == before
    certificate = HANDS.released(0, token.epoch, token.seq - 1, 2, 1, token.digest())
    for one in (node, plain):
        one.receive(Got(1, Activate(certificate)), 0.0)
    effects = node.receive(Turn(), 0.0)
    assert repr(effects) == repr(plain.receive(Turn(), 0.0))
    (message,) = sent(effects, Prepare)
    assert message.token is node._outgoing(node.disk.held)[0]
    assert node.disk.held.token is not token


def test_a_decision_ahead_is_forgotten_when_an_edge_goes_down() -> None:
    node = FLEET.node(2)
    site = node.site
    token, known = TOKEN, site.decide_ahead(TOKEN)
    while known[1] != 3:
        token = token._replace(step=token.step + 1)
        known = site.decide_ahead(token)
    node._set_edge(3, node.disk.edges[3]._replace(up=False))
    assert site.decide(token)[1] != 3


@pytest.mark.parametrize(
    "more",
    [{"update": lw.sag()}, {"privacy": lw.Privacy(clip=1.0, noise=1.0)}],
    ids=["memory", "privacy"],
)
def test_nothing_is_decided_ahead_that_changes_more_than_the_token(more: dict[str, object]) -> None:
    problem = lw.homogeneous(6, dim=3, seed=1)
    fleet = Fleet.of(
        RING, problem, lw.unif_rw(), steps=20, step_size=0.01, terms=TERMS, seed=0, start=0, **more
    )
    assert fleet.node(2).site.decide_ahead(fleet.token) is None


def test_after_a_burst_others_are_heard() -> None:
    """The work so far is on the disk, and goes on when there is nothing else to do."""
    edges = {1: FLEET.disk(2).edges[1]._replace(joined=False)}  # it cannot leave
    node = FLEET.node(2, Disk(Known(FIRST, 0), Own(0, 0, leaving=False), edges))
    node.burst = 3
    given_to(node, TOKEN, 1, 0)
    for turn in (1, 2):
        effects = node.receive(Turn(), 0.0)
        assert node.made == 3
        persist, again = (effect for effect in effects if isinstance(effect, Persist | TurnRequest))
        assert persist.slots["held"].token.hops == TOKEN.hops + 3 * turn
        assert persist.slots["held"].status == "active"
        assert again == TurnRequest()
        assert not sent(effects, Renew)
