"""Rights that are long past: a former guardian keeps what made it the guardian, and can sign a link
with it when the walk is epochs away. Nodes know how far the walk went in earlier epochs.

Nodes sign with real keys, as in `test_false_epochs`; an attacker is an honest node's key in other
hands.
"""

from __future__ import annotations

import pytest

import levywalk as lw
from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.checkpoints import MOST_CHECKPOINTS, Checkpoint, Checkpoints
from levywalk.fleet.protocol.events import Got, Revive
from levywalk.fleet.protocol.evidence import Lie, Pardon
from levywalk.fleet.protocol.links import EpochLink, LinkKind, Right
from levywalk.fleet.protocol.messages import Exposed, Fenced, Guard, Prepare, Release
from levywalk.fleet.protocol.records import NOBODY, Archived, Guarded, HeldStatus
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.fleet.storage.codec import decode_slot, encode
from tests.fleet.linked import Hands, stepped
from tests.fleet.test_false_epochs import BORN, FLEET, TERMS, Attacked, N, chances, passes, unseen
from tests.limits import mostly_more


def walking(network: lw.Network, steps: int, until: float) -> tuple[VirtualFleet, Hands]:
    fleet = Fleet.of(
        network, lw.homogeneous(network.n, dim=2, seed=1), lw.mhlj(), steps=steps,
        step_size="theory", seed=2, start=0, terms=TERMS,
    )  # fmt: skip
    virtual = VirtualFleet(fleet, signed=True, latency=0.01)
    passes(virtual, until)
    return virtual, Hands(TERMS.run, virtual.signers)


def counters(virtual: VirtualFleet, away: int | None = None) -> set[int]:
    machines = enumerate(virtual.machines)
    return {one.disk["known"].epoch.counter for v, one in machines if v != away}


def begin_epochs(virtual: VirtualFleet, number: int, away: int | None = None) -> None:
    """Honest ones: the holder is cut off until its guardian has restored the model."""
    for wanted in range(1, number + 1):
        while max(counters(virtual, away)) < wanted:
            stepped(virtual, lambda: virtual.whose("holder") not in (None, away))
            holder = virtual.whose("holder")
            assert holder is not None
            alone = frozenset([holder])
            virtual._fault(PlannedFault("cut", -1, alone))
            passes(virtual, 1.6 * TERMS.dead_after)
            virtual._fault(PlannedFault("heal", -1, alone))
            passes(virtual, 0.5)
    stepped(virtual, lambda: min(counters(virtual, away)) >= number)


def denial(
    hands: Hands, virtual: VirtualFleet, liar: int, guarded: Guarded
) -> tuple[EpochLink, Token]:
    """What a former guardian signs: that it has restored the model, and another one at that."""
    copy, counter = guarded.copy, max(counters(virtual)) + 1
    false = copy._replace(
        epoch=Epoch(counter, copy.seq, liar), base=copy.step, model=copy.model + 99.0, version=0
    )
    near = virtual.node(liar).neighbours[0]
    assert guarded.activate is not None
    right = Right(guarded.activate)
    return hands.link(LinkKind.REGENERATED, false, near, copy.epoch, right), false


def lost(virtual: VirtualFleet) -> int:
    logs = (line for one in virtual.machines for line in one.log)
    return sum(line.lost for line in logs if isinstance(line, Archived))


@pytest.mark.parametrize("epochs", mostly_more([2, 1, 3], lambda epochs: epochs == 2))
def test_a_right_of_an_epoch_long_past_rolls_nothing_back(epochs: int) -> None:
    """The releases of that epoch are on no disk any more."""
    virtual, hands = walking(lw.ring(N), 250, 1.0)
    former = chances(virtual)
    begin_epochs(virtual, epochs)
    before, honest = lost(virtual), counters(virtual)
    stepped(virtual, lambda: virtual.whose("holder") is not None)
    liar = next(v for v in former if v not in (virtual.whose("holder"), virtual.whose("guardian")))
    link, false = denial(hands, virtual, liar, former[liar])
    assert former[liar].copy.epoch == BORN
    for u in virtual.node(liar).neighbours:
        virtual._tell(u, Got(liar, Guard(false, link, None)))
        virtual._tell(u, Got(liar, Fenced(link)))
    passes(virtual, 15.0)
    assert counters(virtual) == honest  # nobody has accepted it
    assert {one.disk["final"].step for one in virtual.machines} == {250}
    assert lost(virtual) == before


def test_a_node_that_was_away_and_believes_an_old_link_comes_back_to_the_walk() -> None:
    """The holder knows only from the link of its own epoch that the walk went on: it continues
    above the false one, since an honest node has accepted that.
    """
    virtual, hands = walking(lw.ring(N), 200, 1.0)
    picked: list[tuple[int, Guarded, int]] = []

    def somebody() -> bool:
        in_use = {virtual.whose("holder"), virtual.whose("guardian")}
        for liar, guarded in chances(virtual).items():
            others = sorted(set(range(N)) - in_use - {liar})
            away = [v for v in others if unseen(virtual, v, guarded.copy.seq, NOBODY)]
            picked.extend((liar, guarded, v) for v in away)
        return bool(picked)

    stepped(virtual, somebody)
    liar, guarded, away = picked[0]
    virtual._fault(PlannedFault("cut", -1, frozenset([away])))
    begin_epochs(virtual, 1, away)
    before = lost(virtual)
    link, _ = denial(hands, virtual, liar, guarded)
    virtual._fault(PlannedFault("heal"))
    virtual._tell(away, Got(virtual.node(away).neighbours[0], Fenced(link)))
    assert virtual.machines[away].disk["known"].epoch == link.epoch
    passes(virtual, 12.0)
    assert counters(virtual) == {link.epoch.counter + 1}
    assert {one.disk["final"].step for one in virtual.machines} == {200}
    assert lost(virtual) == before


@pytest.mark.parametrize("released", [False, True])
def test_a_holder_that_believes_an_old_link_is_replaced_by_its_guardian(released: bool) -> None:
    """Its disk is new, and has no checkpoints. Its guardian, which has, continues with the copy, or
    gives the next node the certificate that the holder does not give it any more.
    """
    virtual, hands = walking(lw.ring(N), 250, 1.0)
    former = chances(virtual)
    begin_epochs(virtual, 2)

    def moves() -> bool:
        holder = virtual.whose("holder")
        if holder is None:
            return False
        held = virtual.machines[holder].disk["held"]
        if held.status != HeldStatus.MOVING or held.to == held.guardian:
            return False
        guarded = virtual.machines[held.guardian].disk["guarded"]
        return (guarded.register is not None) == released

    stepped(virtual, moves)
    holder = virtual.whose("holder")
    assert holder is not None
    held = virtual.machines[holder].disk["held"]
    known = virtual.machines[holder].disk["known"].link.opening
    opened = known.epoch.node, known.parent.node  # which would be known to use a right again
    liar = next(v for v in former if v not in (holder, held.guardian, held.to, *opened))
    link, _ = denial(hands, virtual, liar, former[liar])
    virtual.node(holder).disk.checkpoints = None
    virtual._tell(holder, Got(held.to, Fenced(link)))
    assert virtual.machines[holder].disk["held"] is None
    passes(virtual, 12.0)
    finals = [one.disk["final"] for one in virtual.machines]
    assert None not in finals
    assert {one.step for one in finals} == {250}
    assert min(one.base for one in finals) >= held.copied
    assert counters(virtual) == {link.epoch.counter + 1}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("parent", [FIRST, BORN])
def test_a_start_node_that_begins_again_costs_nothing(parent: Epoch, known: bool) -> None:
    """It needs no right before the first hand-off: nodes that know of none believe it, until the
    holder, which does, continues above.
    """
    virtual, hands = walking(lw.ring(24), 150, 1.0)
    stepped(virtual, lambda: virtual.whose("holder") not in (None, 0))
    unvisited = sorted(set(range(24)) - {stay.node for stay in virtual.path})
    assert len(unvisited) > 5
    start = virtual.fleet.token
    step = 3 if parent == BORN else 0
    again = start._replace(epoch=Epoch(1, 0, 0), step=step, base=step, model=start.model + 99.0)
    link = hands.link(LinkKind.GUARDIAN_REPLACED, again, virtual.node(0).neighbours[0], parent)
    for v in unvisited[2:4]:
        virtual._tell(v, Got(virtual.node(v).neighbours[0], Fenced(link)))
        assert virtual.machines[v].disk["known"].epoch == link.epoch
    if known:  # also to those that know better: it is found out
        for u in virtual.node(0).neighbours:
            virtual._tell(u, Got(0, Guard(again, link, None)))
    passes(virtual, 12.0)
    finals = [one.disk["final"] for one in virtual.machines]
    assert None not in finals
    assert {one.step for one in finals} == {150}
    assert max(float(abs(one.model).max()) for one in finals) < 50.0
    assert counters(virtual) == {2}
    assert lost(virtual) <= 1  # of the start node itself, if it is shut out while it holds


def test_a_node_that_was_let_in_again_cannot_repeat_its_lie() -> None:
    """Its release is on every disk, as part of the proof."""
    fleet = Attacked()
    release = fleet.virtual.machines[fleet.holder].disk["held"].right.release
    liar = release.guardian
    right = Right(fleet.virtual.machines[liar].disk["guarded"].activate)
    false = fleet.link(liar, LinkKind.REGENERATED, right, 1, release.seq)
    word = Pardon(liar, false.epoch, b"")
    word = word._replace(signature=fleet.hands.of(OPERATOR).sign(word.statement(TERMS.run)))
    node = FLEET.node((liar + 4) % N, signer=fleet.virtual.signers[0])
    near = node.neighbours[0]
    node.receive(Got(near, Fenced(fleet.virtual.machines[0].disk["known"].link)), 0.0)
    node.receive(Got(near, Exposed(Lie(false.opening, release, word))), 0.0)
    again = fleet.link(liar, LinkKind.REGENERATED, right, 7, release.seq)
    node.receive(Got(near, Fenced(again)), 0.0)
    assert node.disk.known.epoch == BORN
    assert node.disk.liars == (Lie(again.opening, release),)  # which the word does not cover


def test_what_a_liar_has_released_denies_no_link_of_others() -> None:
    """Otherwise it could sign a release of the far future, and a link that denies it."""
    fleet = Attacked()
    held = fleet.virtual.machines[fleet.holder].disk["held"]
    liar = next(v for v in fleet.former if v not in (fleet.holder, fleet.guardian))
    release = fleet.hands.released(liar, BORN, 10**6, 3, 4)
    false = fleet.link(liar, LinkKind.REGENERATED, Right(release), 1, 10**6)
    node = FLEET.node((liar + 4) % N, signer=fleet.virtual.signers[0])
    near = node.neighbours[0]
    node.receive(Got(near, Exposed(Lie(false.opening, release))), 0.0)
    assert [lie.liar for lie in node.disk.liars] == [liar]
    honest = fleet.link(
        fleet.holder, LinkKind.GUARDIAN_REPLACED, held.right, 2, fleet.token.seq
    )  # fmt: skip
    node.receive(Got(near, Fenced(honest)), 0.0)
    assert node.disk.known.epoch == honest.epoch


def test_checkpoints_are_kept_and_limited() -> None:
    places = [Checkpoint(Epoch(i, 3 * i, 1), i + 1) for i in range(MOST_CHECKPOINTS + 5)]
    known = Checkpoints().reached(places)
    assert known.places == tuple(places[5:])
    assert known.reached([Checkpoint(places[-1].epoch, 1)]) == known
    assert decode_slot("checkpoints", encode(known)) == known


# What stays possible, and what it costs


@pytest.mark.parametrize("who", ["guardian itself", "another node"])
def test_a_made_up_token_in_place_of_a_released_one_costs_no_update(who: str) -> None:
    """A neighbour of the next node makes it drop the token that was just released to it: the new
    guardian restores it.
    """
    virtual, _ = walking(lw.ring(N), 60, 0.4)
    found: dict[str, int] = {}

    def released() -> bool:
        for v, one in enumerate(virtual.machines):
            held = one.disk["held"]
            if held is None or held.status != HeldStatus.PREPARED:
                continue
            register = (virtual.machines[held.guardian].disk["guarded"] or (None,) * 3)[2]
            is_own = "guardian itself" if held.guardian == v else "another node"
            if isinstance(register, Certificate) and register.digest == held.token.digest():
                found[is_own] = v
        return who in found

    stepped(virtual, released)
    held = virtual.machines[found[who]].disk["held"]
    near = next(u for u in virtual.node(found[who]).neighbours if u != held.giver)
    false = held.token._replace(hops=10**6, model=held.token.model + 99.0)
    virtual._tell(found[who], Got(near, Prepare(false, (found[who] + 4) % N)))
    passes(virtual, 12.0)
    assert {one.disk["final"].step for one in virtual.machines} == {60}
    assert {one.disk["final"].epoch.node for one in virtual.machines} == {held.giver}
    assert lost(virtual) == 0


def test_a_holder_that_has_nothing_released_stops_the_walk_until_it_is_revived() -> None:
    """It asks for the release of a token that nobody has, and is silent. Its guardian, which is
    honest, does not restore what it has released, also if the operator says that the node is gone.
    """
    virtual, hands = walking(lw.ring(N), 60, 0.8)
    holders: list[int] = []

    def unasked() -> bool:
        for v, one in enumerate(virtual.machines):
            held = one.disk["held"]
            if held is not None and held.status == HeldStatus.MOVING and held.to != held.guardian:
                guarded = virtual.machines[held.guardian].disk["guarded"]
                if guarded.register is None:
                    holders.append(v)
        return bool(holders)

    stepped(virtual, unasked)
    holder = holders[0]
    held = virtual.machines[holder].disk["held"]
    guardian = held.guardian
    asks = Release(held.token.epoch, held.token.seq, held.to, bytes(32), 10**6)
    virtual._tell(guardian, Got(holder, asks))
    virtual._fault(PlannedFault("kill", holder))
    passes(virtual, 10.0)
    virtual._fault(PlannedFault("gone", holder))
    passes(virtual, 10.0)
    assert counters(virtual) == {0}
    copy = virtual.machines[guardian].disk["guarded"].copy
    virtual._tell(guardian, Revive(copy, hands.word(copy, guardian, 1)))
    passes(virtual, 12.0)
    others = [one for v, one in enumerate(virtual.machines) if v != holder]
    assert {one.disk["final"].step for one in others} == {60}
