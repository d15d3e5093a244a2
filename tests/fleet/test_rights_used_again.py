"""Rights that were used already: a link with a true right and a parent that never existed, an order
of the operator that was carried out long ago, a model that is said to have come back.

Nobody can know such a parent. So a link says where its right was given, and is compared with what
is known of that place, and of the epochs that its signer opened with it.
"""

from __future__ import annotations

import pytest

import levywalk as lw
from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.checkpoints import Checkpoint
from levywalk.fleet.protocol.events import Got, Revive
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.links import EpochLink, LinkKind, Right
from levywalk.fleet.protocol.messages import Fenced, Guard
from levywalk.fleet.protocol.records import Archived, Guarded, Held
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.fleet.linked import Hands, stepped
from tests.fleet.test_false_epochs import TERMS, N, chances, passes
from tests.fleet.test_old_rights import begin_epochs, counters, lost, walking
from tests.limits import mostly_more

STEPS = 250


def holder_token(virtual: VirtualFleet) -> Token:
    """Return the token of the holder, as soon as there is one."""
    stepped(virtual, lambda: virtual.whose("holder") is not None)
    holder = virtual.whose("holder")
    assert holder is not None
    token: Token = virtual.machines[holder].disk["held"].token
    return token


def spoiled(copy: Token, epoch: Epoch) -> Token:
    return copy._replace(epoch=epoch, base=copy.step, model=copy.model + 99.0, version=0)


def replaced(
    hands: Hands, virtual: VirtualFleet, liar: int, guarded: Guarded
) -> tuple[EpochLink, Token]:
    """What a former guardian signs: an epoch in place of one of its own that nobody has seen."""
    copy, counter = guarded.copy, max(counters(virtual)) + 1
    false = spoiled(copy, Epoch(counter + 1, copy.seq, liar))
    parent, near = Epoch(counter, copy.seq, liar), virtual.node(liar).neighbours[0]
    assert guarded.activate is not None
    right = Right(guarded.activate)
    return hands.link(LinkKind.GUARDIAN_REPLACED, false, near, parent, right), false


def ends_unharmed(virtual: VirtualFleet, before: int) -> None:
    """Check that the walk ends with all of its updates, and without a model that is spoiled."""
    passes(virtual, 25.0)
    finals = [one.disk["final"] for one in virtual.machines]
    assert None not in finals
    assert {one.step for one in finals} == {STEPS}
    assert max(float(abs(one.model).max()) for one in finals) < 50.0
    assert lost(virtual) == before


@pytest.mark.parametrize("epochs", mostly_more([0, 2], lambda epochs: epochs == 0))
@pytest.mark.parametrize("message", ["fenced", "guard"])
def test_a_parent_that_is_made_up_rolls_nothing_back(message: str, epochs: int) -> None:
    virtual, hands = walking(lw.ring(N), STEPS, 1.0)
    former = chances(virtual)
    if epochs:
        begin_epochs(virtual, epochs)
    before, walked = lost(virtual), holder_token(virtual).step
    in_use = {virtual.whose("holder"), virtual.whose("guardian")}
    liar = next(v for v in former if v not in in_use)
    assert former[liar].copy.step < walked - 20
    link, false = replaced(hands, virtual, liar, former[liar])
    for u in virtual.node(liar).neighbours:
        sent = Fenced(link) if message == "fenced" else Guard(false, link, None)
        virtual._tell(u, Got(liar, sent))
    ends_unharmed(virtual, before)


def test_a_guardian_that_was_never_visited_cannot_carry_it_through() -> None:
    """It believes the false link, and restores the model when the liar is silent. Its own link
    contains the false one, which still says where the right was given.
    """
    virtual, hands = walking(lw.ring(N), STEPS, 1.0)
    former = chances(virtual)
    begin_epochs(virtual, 2)
    pairs: list[tuple[int, int]] = []

    def unused() -> bool:
        in_use = {virtual.whose("holder"), virtual.whose("guardian")}
        if None in in_use:
            return False
        for liar in sorted(set(former) - in_use):
            near = sorted(set(virtual.node(liar).neighbours) - in_use)
            pairs.extend((liar, u) for u in near if virtual.machines[u].disk["held"] is None)
        return bool(pairs)

    stepped(virtual, unused)
    liar, near = pairs[0]
    for slot in ("checkpoints", "guarded"):  # as if the walk had never visited it
        setattr(virtual.node(near).disk, slot, None)
        virtual.machines[near].disk[slot] = None
    before = lost(virtual)
    copy, counter = former[liar].copy, max(counters(virtual)) + 1
    false = spoiled(copy, Epoch(counter + 1, copy.seq, liar))
    parent, right = Epoch(counter, copy.seq, liar), Right(former[liar].activate)
    link = hands.link(LinkKind.GUARDIAN_REPLACED, false, near, parent, right)
    virtual._tell(near, Got(liar, Guard(false, link, None)))
    assert virtual.machines[near].disk["known"].epoch == link.epoch
    ends_unharmed(virtual, before)


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_start_node_cannot_make_up_what_it_began(epochs: int) -> None:
    """It needs no right, and names an epoch of its own that began before the first hand-off."""
    virtual, hands = walking(lw.ring(N), STEPS, 2.0)
    if epochs:
        begin_epochs(virtual, epochs)
    in_use = ("holder", "guardian")
    stepped(virtual, lambda: all(virtual.whose(one) not in (None, 0) for one in in_use))
    assert holder_token(virtual).step > 30
    before, counter = lost(virtual), max(counters(virtual)) + 1
    false = spoiled(virtual.fleet.token._replace(step=3), Epoch(counter + 1, 0, 0))
    near = virtual.node(0).neighbours[0]
    link = hands.link(LinkKind.GUARDIAN_REPLACED, false, near, Epoch(counter, 0, 0))
    for u in virtual.node(0).neighbours:
        virtual._tell(u, Got(0, Fenced(link)))
    ends_unharmed(virtual, before)


@pytest.mark.parametrize("later", mostly_more([0, 2], lambda later: later == 0))
def test_an_order_of_the_operator_is_carried_out_once(later: int) -> None:
    virtual, hands = walking(lw.ring(N), STEPS, 1.0)

    def copies() -> dict[int, Token]:
        found = {v: best_copy(virtual.node(v).disk) for v in range(N)}
        holder = virtual.whose("holder")
        return {v: copy for v, copy in found.items() if copy is not None and v != holder}

    stepped(virtual, lambda: virtual.whose("holder") is not None and bool(copies()))
    node, copy = next(iter(copies().items()))
    word = hands.word(copy, node, 1)
    virtual._tell(node, Revive(copy, word))
    passes(virtual, 0.7)
    assert counters(virtual) == {1}
    if later:
        begin_epochs(virtual, 1 + later)
    in_use = ("holder", "guardian")
    stepped(virtual, lambda: all(virtual.whose(one) not in (None, node) for one in in_use))
    assert holder_token(virtual).step > copy.step + 10
    before, counter = lost(virtual), max(counters(virtual)) + 1
    false, near = spoiled(copy, Epoch(counter, copy.seq, node)), virtual.node(node).neighbours[0]
    link = hands.link(LinkKind.REVIVED, false, near, copy.epoch, Right(word))
    for u in virtual.node(node).neighbours:
        virtual._tell(u, Got(node, Fenced(link)))
    ends_unharmed(virtual, before)


@pytest.mark.parametrize("later", mostly_more([0, 2], lambda later: later == 0))
@pytest.mark.parametrize("right", ["the same", "an older one"])
def test_whoever_has_restored_the_model_does_not_restore_it_again(right: str, later: int) -> None:
    """The epoch that it opened went on, and so did others."""
    virtual, hands = walking(lw.ring(N), STEPS, 1.0)
    helds: dict[tuple[Epoch, int], Held] = {}

    def watched() -> None:
        virtual_step()
        for v, one in enumerate(virtual.machines):
            held = one.disk["held"]
            release = None if held is None else held.right.release
            if release is not None and release.to == v and held.status != "prepared":
                helds[held.token.epoch, held.token.seq] = held

    virtual_step, virtual.step = virtual.step, watched  # type: ignore[method-assign]

    def restored() -> EpochLink:
        begin_epochs(virtual, max(counters(virtual)) + 1)
        link: EpochLink = virtual.machines[0].disk["known"].link
        return link

    first = restored()
    while (
        first.opening.kind != LinkKind.REGENERATED
        or (first.opening.parent, first.opening.seq - 1) not in helds
    ):
        first = restored()
    one = first.opening
    liar, older = one.epoch.node, helds[one.parent, one.seq - 1]
    for _ in range(later):
        restored()
    in_use = ("holder", "guardian")
    stepped(virtual, lambda: all(virtual.whose(role) not in (None, liar) for role in in_use))
    stepped(virtual, lambda: holder_token(virtual).step > one.step + 10)
    stepped(virtual, lambda: all(virtual.whose(role) not in (None, liar) for role in in_use))
    before, counter = lost(virtual), max(counters(virtual)) + 1
    near = virtual.node(liar).neighbours[0]
    if right == "the same":
        false = spoiled(older.token._replace(seq=one.seq), Epoch(counter, one.seq, liar))
        link = hands.link(LinkKind.REGENERATED, false, near, one.parent, first.right)
    else:
        false = spoiled(older.token, Epoch(counter, one.seq - 1, liar))
        link = hands.link(LinkKind.GUARDIAN_REPLACED, false, near, one.parent, older.right)
    for u in virtual.node(liar).neighbours:
        virtual._tell(u, Got(liar, Fenced(link)))
    ends_unharmed(virtual, before)


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize(
    "says", ["came back", "came back, and was restored", "was restored, and its guardian replaced"]
)
def test_a_guardian_that_denies_in_other_words_what_it_released_is_found_out(
    says: str, ahead: int
) -> None:
    """It says that it released the model to itself, or that it opened an epoch of its own before
    this one, which nobody has seen.
    """
    virtual, hands = walking(lw.ring(N), STEPS, 1.0)
    found: list[tuple[int, Guarded]] = []

    def released() -> bool:
        if virtual.whose("holder") is None:
            return False
        token = holder_token(virtual)
        in_use = {virtual.whose("holder"), virtual.whose("guardian")}
        for v, one in enumerate(virtual.machines):
            guarded = one.disk["guarded"]
            if guarded is None or v in in_use or guarded.activate is None:
                continue
            copy, register = guarded.copy, guarded.register
            to = register.to if isinstance(register, Certificate) else v
            if to != v and (token.epoch, token.seq) == (copy.epoch, copy.seq + ahead):
                found.append((v, guarded))
        return bool(found)

    stepped(virtual, released)
    liar, guarded = found[0]
    copy, before = guarded.copy, lost(virtual)
    seq = copy.seq + says.startswith("came back")
    false = spoiled(copy._replace(seq=seq, transfers=copy.transfers), Epoch(2, seq, liar))
    named = copy.epoch if says == "came back" else Epoch(1, seq, liar)
    near, right = virtual.node(liar).neighbours[0], Right(guarded.activate)
    link = hands.link(LinkKind.GUARDIAN_REPLACED, false, near, named, right)
    for u in virtual.node(liar).neighbours:
        virtual._tell(u, Got(liar, Fenced(link)))
    ends_unharmed(virtual, before)
    assert all(liar in {lie.liar for lie in one.disk["liars"]} for one in virtual.machines)


def test_a_walk_that_is_revived_after_its_end_keeps_what_the_end_showed() -> None:
    virtual, hands = walking(lw.ring(N), 60, 12.0)
    final = virtual.machines[2].disk["final"]
    release = virtual.machines[2].disk["end"].right.release
    virtual._tell(2, Revive(final, hands.word(final, 2, 1), over=True))
    virtual.step()
    assert virtual.machines[2].disk["end"] is None
    shown = Checkpoint(release.epoch, release.seq + 1)
    assert shown in virtual.machines[2].disk["checkpoints"].places


# What stays possible, and what it costs


def test_a_holder_that_kept_the_model_can_go_back_to_it_and_revive_loses_nothing() -> None:
    """It was cut off until its guardian had restored the model, and its right was never used up.
    Honest branches of a divided fleet look the same, so nothing denies its link.
    """
    virtual, hands = walking(lw.ring(N), 400, 1.0)
    kept: list[tuple[int, Held]] = []

    def given() -> bool:
        """Whether a release by its guardian made a node the holder, which has not moved it on."""
        holder = virtual.whose("holder")
        held = None if holder is None else virtual.machines[holder].disk["held"]
        return held is not None and held.right.release is not None and held.status == "active"

    while not kept:
        stepped(virtual, given)
        holder = virtual.whose("holder")
        assert holder is not None
        held = virtual.machines[holder].disk["held"]
        virtual._fault(PlannedFault("cut", -1, frozenset([holder])))
        passes(virtual, 1.6 * TERMS.dead_after)
        virtual._fault(PlannedFault("heal", -1, frozenset([holder])))
        passes(virtual, 1.5)
        link = virtual.machines[0].disk["known"].link
        if (link.opening.parent, link.opening.seq) == (held.token.epoch, held.token.seq):
            kept.append((holder, held))
    liar, held = kept[0]
    stepped(virtual, lambda: virtual.whose("holder") not in (None, liar))
    walked = holder_token(virtual).step
    false = spoiled(held.token, Epoch(max(counters(virtual)) + 1, held.token.seq, liar))
    near = virtual.node(liar).neighbours[0]
    link = hands.link(LinkKind.GUARDIAN_REPLACED, false, near, held.token.epoch, held.right)
    for u in virtual.node(liar).neighbours:
        virtual._tell(u, Got(liar, Fenced(link)))
    passes(virtual, 3.0)
    assert counters(virtual) == {link.epoch.counter}  # everybody has archived the model
    archived = [
        (line.token.step, v, line.token)
        for v, one in enumerate(virtual.machines)
        for line in one.log
        if isinstance(line, Archived)
    ]
    step, best, copy = max(archived, key=lambda one: one[:2])  # what `fleet revive` takes
    assert step >= walked
    virtual._tell(best, Revive(copy, hands.word(copy, best, link.epoch.counter + 1)))
    passes(virtual, 25.0)
    assert {one.disk["final"].step for one in virtual.machines} == {400}
