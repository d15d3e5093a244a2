"""Who can open an epoch that is not true: a stranger, a neighbour, a former guardian, the present
guardian and the holder try, with heartbeats and with forged links.

Nodes sign with real keys here. An attacker is an honest node's key in other hands: the node itself
takes part in the walk as usual, and says one thing more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.ending import unsigned_ending
from levywalk.fleet.protocol.events import Got, Notice, Pardoned, Persist, Revive, Send
from levywalk.fleet.protocol.evidence import Lie, Pardon, refuses_lie
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.links import NO_RIGHT, EpochLink, LinkKind, Right
from levywalk.fleet.protocol.messages import Exposed, Fenced, Finished, Guard, Heartbeat, Prepare
from levywalk.fleet.protocol.records import (
    FALSE_END,
    NOBODY,
    Archived,
    Disk,
    Guarded,
    HeldStatus,
)
from levywalk.fleet.protocol.terms import GuardianPolicy, HandOffTerms
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.fleet.linked import Hands, stepped
from tests.limits import mostly_more

N = 8
TERMS = HandOffTerms(b"false epochs", heartbeat=0.1, dead_after=1.0, retry=0.05, renew_after=20)


def made(terms: HandOffTerms) -> Fleet:
    return Fleet.of(
        lw.ring(N), lw.homogeneous(N, dim=2, seed=1), lw.mhlj(), steps=300, step_size="theory",
        seed=2, start=0, terms=terms,
    )  # fmt: skip


FLEET = made(TERMS)
BORN = Epoch(0, 0, 0)
AHEAD = Epoch(999_999, 5, 3)


class Attacked:
    """A signed fleet in the midst of its walk: node ``holder`` works, ``guardian`` guards."""

    def __init__(self, policy: GuardianPolicy = GuardianPolicy.WAIT) -> None:
        self.virtual = VirtualFleet(made(replace(TERMS, policy=policy)), signed=True)
        self.hands = Hands(TERMS.run, self.virtual.signers)
        self.former: dict[int, tuple[Certificate, Right]] = {}
        while not self._ready():
            self.virtual.step()

    def _ready(self) -> bool:
        for v, machine in enumerate(self.virtual.machines):
            guarded = machine.disk["guarded"]
            if guarded is not None and isinstance(guarded.register, Certificate):
                activate = guarded.activate
                if activate is not None:
                    self.former.setdefault(v, (guarded.register, Right(activate)))
            held = machine.disk["held"]
            if (
                held is not None
                and held.status == HeldStatus.ACTIVE
                and held.token.seq >= 12
                and len(self.former) >= 4
                and held.right.release is not None
                and held.right.release.seq == held.token.seq - 1
                and held.right.release.guardian not in (v, held.guardian)
            ):
                self.holder, self.guardian, self.token = v, held.guardian, held.token
                return True
        return False

    def known(self) -> set[Epoch]:
        return {machine.disk["known"].epoch for machine in self.virtual.machines}

    def says(self, who: int, message: object) -> None:
        """Let a node say something to its neighbours, besides what it does as usual."""
        for u in lw.ring(N).neighbours(who).tolist():
            self.virtual._tell(u, Got(who, message))  # type: ignore[arg-type]

    def goes_on(self) -> Token:
        """The walk comes to its end."""
        assert self.virtual.run()
        return self.virtual.final

    def link(self, who: int, kind: LinkKind, right: Right, counter: int, seq: int) -> EpochLink:
        made = self.token._replace(epoch=Epoch(counter, seq, who), seq=seq, step=3, base=3)
        near = lw.ring(N).neighbours(who).tolist()
        return self.hands.link(kind, made, near[0], BORN, right)


def attackers(fleet: Attacked) -> dict[str, int]:
    used = {fleet.holder, fleet.guardian}
    former = next(v for v in fleet.former if v not in used)
    idle = [v for v in range(1, N) if v not in used | set(fleet.former)]
    near = [v for v in lw.ring(N).neighbours(fleet.holder).tolist() if v != fleet.guardian]
    return {
        "holder": fleet.holder,
        "guardian": fleet.guardian,
        "former guardian": former,
        "neighbour": near[0],
        "stranger": idle[0] if idle else near[0],
    }


WHO = ["stranger", "neighbour", "former guardian", "guardian", "holder"]


@pytest.mark.parametrize("who", WHO)
def test_a_heartbeat_has_no_authority(who: str) -> None:
    """The attack of the red team: epoch + 999,999, and no token of that epoch exists."""
    fleet = Attacked()
    says = Heartbeat(AHEAD, b"", True, 0, True, 2, 2, FLEET.scores_of(0))
    fleet.says(attackers(fleet)[who], says)
    assert fleet.known() == {BORN}
    assert fleet.goes_on().epoch == BORN


@pytest.mark.parametrize("who", WHO)
def test_a_token_of_an_epoch_that_nobody_opened_goes_nowhere(who: str) -> None:
    fleet = Attacked()
    me = attackers(fleet)[who]
    made = fleet.token._replace(epoch=Epoch(1, 12, me), seq=12)
    fleet.says(me, Prepare(made, (me + 2) % N))
    end = fleet.hands.end(made._replace(step=300), me, (me + 2) % N)
    fleet.says(me, Finished(made._replace(step=300), end))
    assert fleet.known() == {BORN}
    assert fleet.goes_on().epoch == BORN


@pytest.mark.parametrize("kind", LinkKind)
@pytest.mark.parametrize(
    "who", mostly_more(["stranger", "neighbour"], lambda who: who == "neighbour")
)
def test_whoever_has_not_held_the_model_opens_no_epoch(who: str, kind: LinkKind) -> None:
    """Not with nothing, not with a right that it signs itself, not with the right of others."""
    fleet = Attacked()
    me = attackers(fleet)[who]
    fleet.former.pop(me, None)
    own = fleet.hands.released(me, BORN, 6, me, me)
    rights = [NO_RIGHT, Right(own), *(right for _, right in fleet.former.values())]
    for right in rights:
        for counter in (1, 999_999):
            for seq in (0, 7, 12):
                link = fleet.link(me, kind, right, counter, seq)
                fleet.says(me, Fenced(link))
                made = fleet.token._replace(epoch=link.epoch, seq=seq, step=3, base=3)
                fleet.says(me, Guard(made, link))
    assert fleet.known() == {BORN}
    assert fleet.goes_on().epoch == BORN


@pytest.mark.parametrize("who", ["guardian", "holder"])
def test_the_present_guardian_and_the_holder_cannot_jump_ahead(who: str) -> None:
    """They may open the next epoch, which is their right, and no other one."""
    fleet = Attacked()
    me = attackers(fleet)[who]
    held = fleet.virtual.machines[fleet.holder].disk["held"]
    kind = LinkKind.REGENERATED if who == "guardian" else LinkKind.GUARDIAN_REPLACED
    for right in (held.right, NO_RIGHT):
        far = fleet.link(me, kind, right, 999_999, fleet.token.seq)
        fleet.says(me, Fenced(far))
    for seq in (fleet.token.seq - 2, fleet.token.seq + 1):
        fleet.says(me, Fenced(fleet.link(me, kind, held.right, 1, seq)))
    assert fleet.known() == {BORN}
    assert fleet.goes_on().epoch == BORN


def test_a_former_guardian_that_denies_its_release_is_found_out() -> None:
    """It signs that it has regenerated what it has released. Nodes that were not there accept the
    epoch; one that holds the release does not, and tells all; the holder continues above it.
    """
    fleet = Attacked()
    virtual = fleet.virtual
    held = virtual.machines[fleet.holder].disk["held"]
    release = held.right.release
    liar = release.guardian
    right = next(
        Right(guarded.activate)
        for machine in virtual.machines[liar : liar + 1]
        if (guarded := machine.disk["guarded"]) is not None
    )
    false = fleet.link(liar, LinkKind.REGENERATED, right, 1, release.seq)
    assert liar not in (fleet.holder, fleet.guardian)
    fleet.says(liar, Fenced(false))
    final = fleet.goes_on()
    assert final.step == 300
    assert final.epoch.counter == 2
    assert final.epoch.node == fleet.holder
    for v, machine in enumerate(virtual.machines):
        assert [lie.liar for lie in machine.disk["liars"]] == [liar]
        known = machine.disk["known"].link
        assert known is not None
        assert false.opening not in (known.opening, known.right.link), v
    assert {told.node for told in virtual.reports if told.what == "lied"} == set(range(N))
    assert final.base >= fleet.token.step  # nothing is lost


def test_a_lie_needs_two_signatures_of_one_node() -> None:
    fleet = Attacked()
    held = fleet.virtual.machines[fleet.holder].disk["held"]
    release = held.right.release
    liar, keys = release.guardian, fleet.virtual.signers[0]
    false = fleet.link(liar, LinkKind.REGENERATED, NO_RIGHT, 1, release.seq).opening
    assert refuses_lie(Lie(false, release), TERMS.run, keys) is None
    other = fleet.link((liar + 1) % N, LinkKind.REGENERATED, NO_RIGHT, 1, release.seq).opening
    before = fleet.link(liar, LinkKind.REGENERATED, NO_RIGHT, 1, release.seq + 1).opening
    for wrong in (
        Lie(other, release),
        Lie(before, release),
        Lie(false._replace(signature=bytes(64)), release),
        Lie(false, release._replace(signature=bytes(64))),
        Lie(false._replace(step=4), release),
        Lie(false, release._replace(to=liar)),
    ):
        assert refuses_lie(wrong, TERMS.run, keys) is not None
        fleet.says(fleet.guardian, Exposed(wrong))
    assert not any(machine.disk["liars"] for machine in fleet.virtual.machines)
    assert fleet.goes_on().epoch == BORN


def test_a_liar_is_not_heard_any_more_and_says_so_itself_to_nobody() -> None:
    fleet = Attacked()
    held = fleet.virtual.machines[fleet.holder].disk["held"]
    release = held.right.release
    liar = release.guardian
    false = fleet.link(liar, LinkKind.REGENERATED, NO_RIGHT, 1, release.seq).opening
    node = fleet.virtual.node(fleet.guardian)  # which is a neighbour of the liar
    assert node.disk.edges[liar].up
    node.receive(Got(fleet.holder, Exposed(Lie(false, release))), fleet.virtual.now)
    before = replace(node.disk)
    assert not node.disk.edges[liar].up
    effects = node.receive(
        Got(liar, Heartbeat(BORN, b"", True, 9, True, 2, 2, FLEET.scores_of(0))),
        fleet.virtual.now,
    )
    assert not [one for one in effects if isinstance(one, Send | Notice)]
    assert node.disk == before


def test_the_operator_lets_a_liar_in_again_and_a_new_disk_alone_does_not() -> None:
    fleet = Attacked()
    virtual = fleet.virtual
    release = virtual.machines[fleet.holder].disk["held"].right.release
    liar = release.guardian
    near = lw.ring(N).neighbours(liar).tolist()
    far = (liar + N // 2) % N
    false = fleet.link(liar, LinkKind.REGENERATED, NO_RIGHT, 1, release.seq)
    lie = Lie(false.opening, release)
    virtual._tell(far, Got((far + 1) % N, Exposed(lie)))
    honest = [machine for v, machine in enumerate(virtual.machines) if v != liar]
    stepped(virtual, lambda: all(machine.disk["liars"] == (lie,) for machine in honest))
    virtual._fault(PlannedFault("rejoin", liar))
    virtual.run(until=virtual.now + 3 * TERMS.heartbeat)
    assert not any(virtual.machines[u].disk["edges"][liar].up for u in near)

    def signed(word: Pardon, by: int = OPERATOR) -> Pardon:
        return word._replace(signature=fleet.hands.of(by).sign(word.statement(TERMS.run)))

    right = Pardon(liar, false.epoch, b"")
    for wrong in (
        right,
        signed(right, by=liar),
        signed(right._replace(epoch=Epoch(2, 9, liar))),
        signed(right._replace(node=far)),
        signed(right)._replace(node=far),
    ):
        virtual._tell(far, Pardoned(wrong))
        assert virtual.machines[far].disk["liars"] == (lie,)
    assert not virtual.over
    virtual._tell(far, Pardoned(signed(right)))
    pardoned = lie._replace(pardon=signed(right))
    stepped(
        virtual, lambda: all(machine.disk["liars"] == (pardoned,) for machine in virtual.machines)
    )
    stepped(virtual, lambda: all(virtual.machines[u].disk["edges"][liar].up for u in near))
    assert not virtual.over
    node = virtual.node(far)
    for old in (Fenced(false), Exposed(lie)):  # the false link stays false, the word stays given
        node.receive(Got((far + 1) % N, old), virtual.now)
        assert node.disk.liars == (pardoned,)
        assert node.disk.known.epoch != false.epoch
    again = Lie(fleet.link(liar, LinkKind.REGENERATED, NO_RIGHT, 7, release.seq).opening, release)
    node.receive(Got((far + 1) % N, Exposed(again)), virtual.now)
    assert node.disk.liars == (again,)  # which the word does not cover
    node.receive(Got((far + 1) % N, Exposed(pardoned)), virtual.now)
    assert node.disk.liars == (again,)


def test_the_end_needs_the_guardian_of_this_very_hand_off() -> None:
    fleet = Attacked()
    virtual = fleet.virtual
    last = fleet.token._replace(step=300)
    held = virtual.machines[fleet.holder].disk["held"]
    for who, right in (
        (fleet.holder, held.right),
        ((fleet.holder + 4) % N, held.right),
        (fleet.guardian, NO_RIGHT),
        *((v, right) for v, (_, right) in fleet.former.items() if v != fleet.guardian),
    ):
        blank = fleet.hands.end(last, who, who)._replace(right=right)
        sign = fleet.hands.of(who).sign(blank.statement(TERMS.run))
        fleet.says(who, Finished(last, blank._replace(signature=sign)))
    assert not any(machine.disk["final"] for machine in virtual.machines)
    assert fleet.goes_on().epoch == BORN


def test_nobody_else_gives_the_operators_word() -> None:
    """A node's own signature, another copy, another node, an epoch that is not higher."""
    fleet = Attacked()
    me = next(
        v
        for v, machine in enumerate(fleet.virtual.machines)
        if best_copy(Disk(**machine.disk)) is not None and v != fleet.holder
    )
    node = fleet.virtual.node(me)
    copy = best_copy(node.disk)
    assert copy is not None
    word = fleet.hands.word(copy, me, 1)
    mine = word._replace(signature=fleet.hands.of(me).sign(word.statement(TERMS.run)))
    other = fleet.hands.word(copy._replace(step=copy.step + 1), me, 1)
    before = replace(node.disk)
    for wrong in (
        mine,
        other,
        word._replace(signature=b""),
        fleet.hands.word(copy, (me + 1) % N, 1),
        fleet.hands.word(copy, me, 0)._replace(epoch=Epoch(0, copy.seq, 0)),
        word._replace(epoch=Epoch(999_999, copy.seq, me)),
    ):
        effects = node.receive(Revive(copy, wrong), fleet.virtual.now)
        assert [one.what for one in effects if isinstance(one, Notice)] == ["refused"]
        assert node.disk == before
    fleet.virtual._tell(me, Revive(copy, word))  # and the true one works
    assert fleet.goes_on().epoch >= Epoch(1, copy.seq, me)


# The end of the walk


def false_end(fleet: Attacked, who: int, seq: int, right: Right) -> Finished:
    """What a node signs about a register that it had, with the right that it had."""
    token = fleet.token._replace(seq=seq, step=300, model=fleet.token.model + 99.0)
    blank = unsigned_ending(who, token, right)
    end = blank._replace(signature=fleet.hands.of(who).sign(blank.statement(TERMS.run)))
    return Finished(token, end)


def the_true_end(fleet: Attacked) -> Token:
    """The walk comes to its end, which all nodes know, and nobody keeps another one."""
    final = fleet.goes_on()
    assert final.step == 300
    assert float(abs(final.model).max()) < 50.0
    for machine in fleet.virtual.machines:
        found = machine.disk["final"]
        assert found is not None
        assert found.digest() == final.digest()
    return final


def archived(fleet: Attacked, what: str) -> list[tuple[int, Archived]]:
    return [
        (v, line)
        for v, lines in fleet.virtual.logs.items()
        for line in lines
        if isinstance(line, Archived) and line.what == what
    ]


@pytest.mark.parametrize("which", range(4))
def test_a_former_guardian_alone_does_not_end_the_walk(which: int) -> None:
    """Each signs the end for its own hand-off, with its true right and a model of its own."""
    fleet = Attacked()
    used = {fleet.holder, fleet.guardian}
    liars = [v for v in fleet.former if v not in used]
    who = liars[which % len(liars)]
    release, right = fleet.former[who]
    fleet.says(who, false_end(fleet, who, release.seq, right))
    final = the_true_end(fleet)
    assert final.epoch.counter <= 1
    assert final.base == 0 or final.base >= fleet.token.step  # nothing is lost
    assert all(line.lost == 0 for _, line in archived(fleet, FALSE_END))


def test_whoever_has_released_the_model_and_says_that_it_is_final_is_found_out() -> None:
    fleet = Attacked()
    virtual = fleet.virtual
    release = virtual.machines[fleet.holder].disk["held"].right.release
    liar = release.guardian
    guarded = virtual.machines[liar].disk["guarded"]
    assert guarded.register == release
    virtual._tell(fleet.holder, Got(fleet.guardian, false_end(
        fleet, liar, release.seq, Right(guarded.activate)
    )))  # fmt: skip
    final = the_true_end(fleet)
    assert final.epoch.counter == 1
    assert final.epoch.node == fleet.holder
    assert final.base >= fleet.token.step
    for v, machine in enumerate(virtual.machines):
        assert [lie.liar for lie in machine.disk["liars"]] == [liar]
        assert machine.disk["liars"][0].end is not None
        near = lw.ring(N).neighbours(liar).tolist()
        assert v not in near or not machine.disk["edges"][liar].up  # it is shut out


def test_a_node_that_believes_a_false_end_takes_part_again_and_deletes_nothing() -> None:
    fleet = Attacked()
    virtual = fleet.virtual
    release = virtual.machines[fleet.holder].disk["held"].right.release
    liar = release.guardian
    right = Right(virtual.machines[liar].disk["guarded"].activate)
    lie = false_end(fleet, liar, release.seq, right)
    far = next(
        v
        for v, machine in enumerate(virtual.machines)
        if v not in (fleet.holder, fleet.guardian, liar)
        and (
            machine.disk["guarded"] is None
            or not isinstance(machine.disk["guarded"].activate, Certificate)
            or machine.disk["guarded"].copy.seq <= release.seq
        )
    )
    node = virtual.node(far)
    near = next(u for u in node.neighbours if u != liar)
    node.receive(Got(near, lie), virtual.now)
    assert node.disk.final is not None
    assert node.disk.final.digest() == lie.token.digest()
    asked = node.receive(Got(near, Prepare(fleet.token._replace(seq=90), liar)), virtual.now)
    assert [one[:2] for one in asked if isinstance(one, Send)] == [(near, lie)]
    proof = Lie(None, release, None, lie.end)
    effects = node.receive(Got(near, Exposed(proof)), virtual.now)
    assert node.disk.final is node.disk.end is None
    lines = [line for one in effects if isinstance(one, Persist) for line in one.lines]
    assert [(line.what, line.token.digest()) for line in lines if isinstance(line, Archived)] == [
        (FALSE_END, lie.token.digest())
    ]
    node.receive(Got(near, lie), virtual.now)
    assert node.disk.final is None  # it is not taken in again
    node.receive(Got(near, Prepare(fleet.token._replace(seq=90), liar)), virtual.now)
    assert node.disk.held is not None


@pytest.mark.parametrize("status", [HeldStatus.ACTIVE, HeldStatus.MOVING, HeldStatus.WITHDRAWING])
def test_a_false_end_by_the_present_guardian_takes_nothing_from_the_holder(
    status: HeldStatus,
) -> None:
    """The holder knows better. It keeps its model, and continues in a higher epoch."""
    fleet = Attacked()
    virtual = fleet.virtual
    held = virtual.machines[fleet.holder].disk["held"]
    stepped(virtual, lambda: virtual.machines[fleet.holder].disk["held"].status != "prepared")
    right = held.right
    node = virtual.node(fleet.holder)
    if status != HeldStatus.ACTIVE:
        node._put("held", node.disk.held._replace(status=status, to=node.neighbours[0]))
        node._commit()
    before = node.disk.held
    end = false_end(fleet, fleet.guardian, fleet.token.seq, right)
    effects = node.receive(Got(fleet.guardian, end), virtual.now)
    after = node.disk.held
    assert node.disk.final is None
    assert after is not None
    assert (after.status, after.token.step, after.to) == (
        HeldStatus.SEEKING, before.token.step, before.to,
    )  # fmt: skip
    assert after.token.epoch == Epoch(1, before.token.seq, fleet.holder)
    assert after.guardian != fleet.guardian
    assert "false end" in [one.what for one in effects if isinstance(one, Notice)]


@pytest.mark.parametrize("policy", GuardianPolicy)
def test_the_walk_goes_on_above_a_false_end_by_the_present_guardian(policy: GuardianPolicy) -> None:
    fleet = Attacked(policy)
    held = fleet.virtual.machines[fleet.holder].disk["held"]
    fleet.says(fleet.guardian, false_end(fleet, fleet.guardian, fleet.token.seq, held.right))
    final = the_true_end(fleet)
    assert final.epoch.counter >= 1
    assert final.base >= fleet.token.step
    false = {v for v, _ in archived(fleet, FALSE_END)}
    assert false  # the other neighbour of the guardian had believed it


def test_only_the_operator_undoes_an_end_that_nobody_can_deny() -> None:
    """The holder is gone, and its guardian has lied."""
    fleet = Attacked()
    virtual = fleet.virtual
    held = virtual.machines[fleet.holder].disk["held"]
    me = next(
        v
        for v, machine in enumerate(virtual.machines)
        if v not in (fleet.holder, fleet.guardian)
        and best_copy(Disk(**machine.disk)) is not None
        and machine.disk["guarded"] is not None
    )
    node = virtual.node(me)
    near = node.neighbours[0]
    end = false_end(fleet, fleet.guardian, fleet.token.seq, held.right)
    node.receive(Got(near, end), virtual.now)
    assert node.disk.final is not None
    copy = best_copy(node.disk)
    assert copy is not None
    assert copy.step < 300
    word = fleet.hands.word(copy, me, 1)
    node.receive(Revive(copy, word), virtual.now)
    assert node.disk.held is None
    node.receive(Revive(copy, word._replace(signature=b""), over=True), virtual.now)
    assert node.disk.final is not None
    effects = node.receive(Revive(copy, word, over=True), virtual.now)
    assert node.disk.final is None
    assert node.disk.held.status == HeldStatus.SEEKING
    lines = [line for one in effects if isinstance(one, Persist) for line in one.lines]
    assert [line.what for line in lines if isinstance(line, Archived)] == ["final", "revived"]


def test_a_false_end_that_was_believed_gives_way_to_the_true_one() -> None:
    """Its guardian has the right to a later hand-off, and so somebody else's word."""
    fleet = Attacked()
    hands, token = fleet.hands, fleet.token._replace(step=300)
    near, far = lw.ring(N).neighbours(fleet.holder).tolist()
    node = FLEET.node(fleet.holder, signer=fleet.virtual.signers[fleet.holder])
    node.receive(Got(near, Fenced(fleet.virtual.machines[near].disk["known"].link)), 0.0)
    early, late = token._replace(seq=7, model=token.model + 1.0), token._replace(seq=9)
    false = Finished(early, hands.end(early, far, near))
    true = Finished(late, hands.end(late, near, far))
    node.receive(Got(far, false), 0.0)
    assert node.disk.final == early
    effects = node.receive(Got(near, true), 0.0)
    assert node.disk.final == late
    assert {one.to for one in effects if isinstance(one, Send) and one.message == true} == {far}
    lines = [line for one in effects if isinstance(one, Persist) for line in one.lines]
    assert [(line.what, line.token) for line in lines] == [(FALSE_END, early)]
    answer = node.receive(Got(far, false), 0.0)  # and not back again; the sender is told
    assert node.disk.final == late
    assert [one.message for one in answer if isinstance(one, Send)] == [true]


def test_a_lie_about_the_end_needs_two_signatures_of_one_node() -> None:
    fleet = Attacked()
    release = fleet.virtual.machines[fleet.holder].disk["held"].right.release
    liar, keys = release.guardian, fleet.virtual.signers[0]
    end = false_end(fleet, liar, release.seq, NO_RIGHT).end
    before = false_end(fleet, liar, release.seq - 1, NO_RIGHT).end
    link = fleet.link(liar, LinkKind.REGENERATED, NO_RIGHT, 1, release.seq).opening
    assert refuses_lie(Lie(None, release, None, end), TERMS.run, keys) is None
    assert refuses_lie(Lie(None, release, None, before), TERMS.run, keys) is None
    other = false_end(fleet, (liar + 1) % N, release.seq, NO_RIGHT).end
    after = false_end(fleet, liar, release.seq + 1, NO_RIGHT).end
    for wrong in (
        Lie(None, release),
        Lie(link, release, None, end),
        Lie(None, release, None, other),
        Lie(None, release, None, after),
        Lie(None, release, None, end._replace(signature=bytes(64))),
        Lie(None, release._replace(signature=bytes(64)), None, end),
        Lie(None, release, None, end._replace(step=4)),
        Lie(None, release, Pardon(liar, BORN, b""), end),
    ):
        assert refuses_lie(wrong, TERMS.run, keys) is not None
        fleet.says(fleet.guardian, Exposed(wrong))
    assert not any(machine.disk["liars"] for machine in fleet.virtual.machines)
    assert fleet.goes_on().epoch == BORN


@pytest.mark.parametrize("who", ["stranger", "neighbour", "former guardian"])
def test_nobody_else_undoes_an_honest_end(who: str) -> None:
    """Not with the proof of its own lie, not with an earlier end, not with an old model."""
    fleet = Attacked()
    me = attackers(fleet)[who]
    release, right = fleet.former.get(me, (None, NO_RIGHT))
    final = fleet.goes_on()
    seq = final.seq + 3 if release is None else release.seq
    says = false_end(fleet, me, seq, right)
    own = fleet.hands.released(me, BORN, seq, me, me)
    for message in (says, Exposed(Lie(None, own, None, says.end)), Prepare(fleet.token, me)):
        fleet.says(me, message)
    fleet.virtual.run(until=fleet.virtual.now + 5 * TERMS.dead_after)
    for machine in fleet.virtual.machines:
        assert machine.disk["final"].digest() == final.digest()


def used(virtual: VirtualFleet, guarded: Guarded) -> bool:
    """Whether a node has more than a copy of what is guarded: before that, its guardian is the
    only one that has the model, as the holder that it was.
    """
    if guarded.register is not None:
        return True
    held = virtual.machines[guarded.holder].disk["held"]
    return held is not None and held.status != HeldStatus.PREPARED


@pytest.mark.parametrize("seed", mostly_more(range(40), lambda seed: seed in (1, 9)))
def test_false_ends_at_any_moment_cost_epochs_and_nothing_else(seed: int) -> None:
    """One node signs false ends for all that it guards or has guarded, again and again."""
    draw = np.random.default_rng(seed)
    policy = tuple(GuardianPolicy)[seed % 2]
    virtual = VirtualFleet(made(replace(TERMS, policy=policy)), signed=True)
    hands = Hands(TERMS.run, virtual.signers)
    who = int(draw.integers(N))
    for _ in range(10):
        virtual.run(until=virtual.now + float(draw.uniform(0.01, 0.25)))
        node = virtual.node(who)
        if virtual.over:
            break
        if node.disk.guarded is None or not used(virtual, node.disk.guarded):
            continue
        token = node.disk.guarded.copy
        final = token._replace(step=300, model=token.model + 99.0)
        blank = unsigned_ending(who, final, node._right_to_guard(node.disk.guarded))
        end = blank._replace(signature=hands.of(who).sign(blank.statement(TERMS.run)))
        for u in draw.permutation(node.neighbours)[: int(draw.integers(1, 3))].tolist():
            virtual._tell(u, Got(who, Finished(final, end)))
        virtual._moved_at = virtual.now
    virtual.run()
    liars = {lie.liar for machine in virtual.machines for lie in machine.disk["liars"]}
    honest = [virtual.machines[v].disk for v in range(N) if v != who]  # the liar may be shut out
    assert {disk["final"].digest() for disk in honest} == {virtual.final.digest()}
    assert virtual.final.step == 300
    assert float(abs(virtual.final.model).max()) < 50.0
    assert liars <= {who}


# What a former guardian could do through others


def chances(virtual: VirtualFleet) -> dict[int, Guarded]:
    """Return the registers that say "released", by node, with what made the node the guardian."""
    found = {}
    for v, machine in enumerate(virtual.machines):
        guarded = machine.disk["guarded"]
        if guarded is not None and isinstance(guarded.register, Certificate) and guarded.activate:
            found[v] = guarded
    return found


USED = [status for status in HeldStatus if status != HeldStatus.PREPARED]


def passes(virtual: VirtualFleet, seconds: float) -> None:
    """Let time pass, also when all nodes know an end."""
    until = virtual.now + seconds
    while virtual._queue and virtual._queue[0][0] < until:
        virtual.step()


def unseen(virtual: VirtualFleet, who: int, seq: int, of: int) -> bool:
    """Whether a node has no release of that hand-off or a later one; of ``of`` alone, if given."""
    releases = virtual.node(who)._releases()
    return not any(one.seq >= seq and of in (NOBODY, one.guardian) for one in releases)


@pytest.mark.parametrize(
    "network",
    mostly_more(
        [lw.path(12), lw.ring(20), lw.complete(16)],
        lambda network: network.n == 12,
    ),
    ids=["path", "ring", "complete"],
)
@pytest.mark.parametrize("seed", mostly_more(range(4), lambda seed: seed == 0))
def test_an_old_link_does_not_roll_the_walk_back_through_an_honest_guardian(
    network: lw.Network, seed: int
) -> None:
    """A former guardian denies its release to one neighbour, makes it the guardian of a model of
    its own, and is silent. The neighbour, which is honest, restores that model; the holder
    continues above, with its own token, and no update is lost.
    """
    fleet = Fleet.of(
        network, lw.homogeneous(network.n, dim=2, seed=1), lw.mhlj(), steps=300,
        step_size="theory", seed=seed, start=0, terms=TERMS,
    )  # fmt: skip
    virtual = VirtualFleet(fleet, signed=True)
    hands, former, picked = Hands(TERMS.run, virtual.signers), {}, None
    while picked is None:
        virtual.step()
        former |= chances(virtual)
        holder = virtual.whose("holder")
        if holder is None or virtual.now < 0.2:
            continue
        token = virtual.node(holder).disk.held.token
        for liar, guarded in former.items():
            seq, others = guarded.copy.seq, [v for v in range(network.n) if v != liar]
            if token.seq - seq < 20 or not all(unseen(virtual, v, seq, liar) for v in others):
                continue  # it would be found out
            for near in virtual.node(liar).neighbours:
                if unseen(virtual, near, seq, NOBODY):
                    picked = liar, guarded, near
    liar, guarded, near = picked
    copy = guarded.copy
    false = copy._replace(
        epoch=Epoch(1, copy.seq, liar), base=copy.step, model=copy.model + 99.0, version=0,
        came_from=NOBODY,
    )  # fmt: skip
    link = hands.link(LinkKind.REGENERATED, false, near, BORN, Right(guarded.activate))
    virtual.node(liar)._releases = lambda: iter(())  # its own disk does not give it away
    virtual._tell(near, Got(liar, Guard(false, link, None)))
    passes(virtual, 60.0)  # the liar may be shut out, and be the only way to some nodes
    honest = [machine.disk for v, machine in enumerate(virtual.machines) if v != liar]
    finals = [disk["final"] for disk in honest if disk["final"] is not None]
    assert finals
    assert {one.step for one in finals} == {300}
    assert max(float(abs(one.model).max()) for one in finals) < 50.0
    lines = [line for machine in virtual.machines for line in machine.log]
    assert [
        one for one in lines if isinstance(one, Archived) and one.lost and one.what in USED
    ] == []


@pytest.mark.parametrize("seed", mostly_more(range(4), lambda seed: seed == 0))
def test_an_end_that_all_know_is_not_undone_by_an_old_link(seed: int) -> None:
    """Not even where no node has a later release than that which the liar denies: the end has."""
    network = lw.complete(16)
    fleet = Fleet.of(
        network, lw.homogeneous(16, dim=2, seed=1), lw.mhlj(), steps=60, step_size="theory",
        seed=seed, start=0, terms=TERMS,
    )  # fmt: skip
    virtual = VirtualFleet(fleet, signed=True)
    hands, former = Hands(TERMS.run, virtual.signers), {}
    while not virtual.over:
        virtual.step()
        former |= chances(virtual)
    final = virtual.final
    for liar, guarded in former.items():
        copy = guarded.copy
        for near in virtual.node(liar).neighbours:
            false = copy._replace(epoch=Epoch(1, copy.seq, liar), base=copy.step, version=0)
            link = hands.link(LinkKind.REGENERATED, false, near, BORN, Right(guarded.activate))
            virtual._tell(near, Got(liar, Guard(false, link, None)))
    passes(virtual, 5.0)
    for machine in virtual.machines:
        assert machine.disk["known"].epoch == BORN
        assert machine.disk["final"].digest() == final.digest()


@pytest.mark.parametrize("seed", mostly_more(range(60), lambda seed: seed < 8))
def test_a_false_end_beside_the_true_one_splits_nobody(seed: int) -> None:
    """It is told to one neighbour some milliseconds before the end: whoever believes it says in its
    heartbeats which end it knows, and is told the true one.
    """
    draw, plain = np.random.default_rng(seed), VirtualFleet(replace(FLEET))
    while not any(
        (held := machine.disk["held"]) and held.status == "ending" for machine in plain.machines
    ):
        plain.step()
    virtual = VirtualFleet(FLEET, signed=True)
    hands, former = Hands(TERMS.run, virtual.signers), {}
    when = plain.now - float(draw.uniform(0.002, 0.06))
    while virtual.now < when:
        virtual.step()
        former |= chances(virtual)
    liar = int(draw.choice(sorted(former)))
    final = former[liar].copy._replace(step=300, model=former[liar].copy.model + 99.0)
    blank = unsigned_ending(liar, final, Right(former[liar].activate))
    end = blank._replace(signature=hands.of(liar).sign(blank.statement(TERMS.run)))
    near = int(draw.choice(virtual.node(liar).neighbours))
    virtual._tell(near, Got(liar, Finished(final, end)))
    passes(virtual, 30.0)
    honest = [machine.disk for v, machine in enumerate(virtual.machines) if v != liar]
    assert len({disk["final"].digest() for disk in honest}) == 1
    assert float(abs(honest[0]["final"].model).max()) < 50.0


def test_of_two_ends_of_one_register_all_nodes_take_the_same() -> None:
    fleet = Attacked()
    final = fleet.goes_on()
    end = fleet.virtual.node(0).disk.end
    other = final._replace(model=final.model + 1.0)
    blank = unsigned_ending(end.guardian, other, end.right)
    signed = blank._replace(signature=fleet.hands.of(end.guardian).sign(blank.statement(TERMS.run)))
    for v in (2, 5):
        fleet.virtual._tell(v, Got(lw.ring(N).neighbours(v)[0], Finished(other, signed)))
    passes(fleet.virtual, 5.0)
    expected = max(final.digest(), other.digest())
    assert {m.disk["final"].digest() for m in fleet.virtual.machines} == {expected}


def test_an_end_by_a_node_that_has_lied_or_was_revoked_is_refused() -> None:
    fleet = Attacked()
    liar = next(v for v in fleet.former if v not in (fleet.holder, fleet.guardian))
    release, right = fleet.former[liar]
    node = fleet.virtual.node(fleet.holder)
    lie = Lie(None, release, None, false_end(fleet, liar, release.seq, right).end)
    stranger = fleet.virtual.node(next(v for v in range(N) if v not in fleet.former))
    stranger.disk.liars = (lie,)
    says = false_end(fleet, liar, release.seq, right)
    effects = stranger.receive(Got(stranger.neighbours[0], says), fleet.virtual.now)
    assert stranger.disk.final is None
    assert "has lied" in next(one for one in effects if isinstance(one, Notice)).about["why"]
    assert node.disk.held is not None


def test_a_token_that_was_made_up_is_no_reason_for_silence() -> None:
    """A neighbour lets a node prepare a token with the highest numbers: the node refuses the true
    ones, which are lower, and the walk goes around it at once.
    """
    fleet = Attacked()
    me = attackers(fleet)["stranger"]
    false = fleet.token._replace(seq=10**6, step=299, hops=10**6)
    for u in fleet.virtual.node(me).neighbours:
        fleet.virtual._tell(u, Got(me, Prepare(false, next(v for v in range(N) if v != u))))
    final = fleet.goes_on()
    assert (final.step, final.epoch) == (300, BORN)
    given = [one.about["why"] for one in fleet.virtual.reports if one.what == "gives up"]
    assert given
    assert all(
        why == f"this node has already received a later token, from node {me}" for why in given
    )
    assert fleet.virtual.now < 5.0
