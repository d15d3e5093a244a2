"""A state folder that is an old copy (a restored backup, a cloned machine) is noticed, fenced, and
settled by `fleet rejoin`; what is not an old copy is never fenced.
"""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking.faults import GUARDIAN, HOLDER, NEXT, ScheduledFault, draw
from levywalk.fleet.checking.machines import made_of
from levywalk.fleet.checking.mutants import TrustsItsDisk
from levywalk.fleet.checking.schedules import play, run_world
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.world import World
from levywalk.fleet.protocol.events import (
    Effect,
    Excused,
    Genesis,
    Gone,
    Got,
    Notice,
    Persist,
    Reached,
    Send,
    Silent,
    Start,
    Timer,
    Turn,
)
from levywalk.fleet.protocol.evidence import Lie
from levywalk.fleet.protocol.links import LinkKind
from levywalk.fleet.protocol.messages import (
    Alive,
    Certificate,
    Certified,
    Exposed,
    Fenced,
    Greeting,
    Guard,
    Guarding,
    Heartbeat,
    Prepare,
    Prepared,
    Refused,
    Release,
    Released,
    Sighting,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import HeldStatus, RegisterValue
from levywalk.fleet.protocol.starts import (
    KEPT_LINKS,
    LINK,
    NeighbourStart,
    StartChain,
    Starts,
    disagreement,
    next_link,
    possible,
    start_name,
)
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime.wire import (
    FORMAT,
    Hello,
    Reader,
    chunk_frames,
    encode_frame,
    hello_frame,
    mark_of,
)
from levywalk.fleet.simulate.timeline import why_stuck
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.fleet.storage.codec import decode_slot, encode
from levywalk.fleet.storage.limits import Limits
from levywalk.remedy import command_line
from tests.fleet.linked import stepped
from tests.fleet.test_protocol import EPOCH, FLEET, HANDS, TERMS, TOKEN, given_to, sent
from tests.fleet.test_world import CALM
from tests.limits import mostly_more

NOTHING = (b"", 0, b"", 0, False)
NOW = Epoch(1, TOKEN.seq, 1)
RESTORED = TOKEN._replace(epoch=NOW, base=TOKEN.step)
GUARD = Guard(RESTORED, HANDS.regenerated(RESTORED, 2, 0))  # node 1 asks node 2
BEAT = Heartbeat(NOW, b"", True, 0, True, 2, 2, FLEET.scores_of(1))


def said(effects: list[Effect]) -> list[str]:
    return [effect.what for effect in effects if isinstance(effect, Notice)]


def done(effects: list[Effect]) -> list[Effect]:
    """What a node writes or sends."""
    return [effect for effect in effects if isinstance(effect, Send | Persist)]


def started(v: int = 2, disk=None, number: int = 1) -> Node:
    """A node after a start; its neighbours are v - 1 and v + 1."""
    node = FLEET.node(v, disk)
    node.receive(Start(b"%d|%d" % (v, number)), 0.0)
    return node


def links_of(node: Node) -> bytes:
    assert node.disk.chain is not None
    return node.disk.chain.links


def answer(node: Node, *seen) -> Sighting:
    """A neighbour's answer to a node's last greeting."""
    return Sighting(*(seen or NOTHING), links_of(node)[-LINK:])


def guardian_with_old_disk() -> Node:
    """A node that guards a token of node 1, and has started again."""
    node = started()
    node.receive(Got(1, GUARD), 1.0)
    return started(disk=node.disk, number=2)


# Chains


def test_a_chain_tells_a_restart_from_a_fork_and_from_an_old_copy():
    chain = None
    for number in range(5):
        chain = next_link(chain, b"%d" % number, 20 * number)
    links = chain.links
    origin = links[:LINK]
    now = Greeting(origin, 5, links, 90)
    for count, ended in zip(range(1, 6), (20, 40, 60, 80, 90), strict=True):
        link = links[(count - 1) * LINK : count * LINK]
        assert disagreement(now, Sighting(origin, count, link, ended, False, b"")) == ""
        more = disagreement(now, Sighting(origin, count, link, ended + 1, False, b""))
        assert f"write {ended + 1} of the fenced node, whose disk ended with write {ended}" in more
        other = Sighting(origin, count, b"x" * LINK, 1, False, b"")
        assert "a copy of the disk was started" in disagreement(now, other)
    ahead = Sighting(origin, 6, b"x" * LINK, 1, False, b"")
    assert "start 6" in disagreement(now, ahead)
    assert disagreement(now, Sighting(*NOTHING, b"")) == ""
    assert disagreement(now, Sighting(b"y" * LINK, 9, b"x" * LINK, 900, False, b"")) == ""
    assert disagreement(now, Sighting(b"y" * LINK, 9, b"x" * LINK, 900, True, b"")) == ""
    newer = Sighting(b"y" * LINK, 9, b"x" * LINK, 900, True, links[-LINK:])
    assert "newer state folder" in disagreement(now, newer)


def test_the_writes_of_a_start_itself_do_not_hide_what_was_lost():
    """Each start writes, so that soon the numbers are those of the lost writes."""
    node = started()
    lost = node.disk.starts.commits + 1
    for number in range(2, 9):
        node = started(disk=node.disk, number=number)
    assert node.disk.starts.commits > lost
    seen = Sighting(node.disk.starts.origin, 1, links_of(node)[:LINK], lost, False, b"")
    node.receive(Got(1, seen), 0.0)
    assert node.fenced


def test_a_chain_is_bounded_and_its_old_part_is_believed():
    chain = None
    for number in range(KEPT_LINKS + 10):
        chain = next_link(chain, b"%d" % number, 5)
    assert len(chain.links) == LINK * KEPT_LINKS
    now = Greeting(b"o" * LINK, KEPT_LINKS + 10, chain.links, 5)
    assert disagreement(now, Sighting(b"o" * LINK, 10, b"x" * LINK, 5, False, b"")) == ""
    assert disagreement(now, Sighting(b"o" * LINK, 10, b"x" * LINK, 6, False, b""))
    assert disagreement(now, Sighting(b"o" * LINK, 11, b"x" * LINK, 5, False, b""))
    assert disagreement(now, Sighting(b"o" * LINK, 11, chain.links[:LINK], 5, False, b"")) == ""


def test_a_neighbour_remembers_earlier_folders():
    first, second = b"1" * LINK, b"2" * LINK
    seen = (
        NeighbourStart().after(Greeting(first, 1, first, 7)).after(Greeting(second, 1, second, 3))
    )
    assert (seen.origin, seen.commits, seen.past) == (second, 3, (first,))
    assert seen.told(Greeting(first, 2, first + b"3" * LINK, 9)).replaced
    assert seen.told(Greeting(b"4" * LINK, 1, b"4" * LINK, 0)).number == 0  # a new one


@pytest.mark.parametrize(
    "greeting",
    [
        Greeting(b"short", 1, bytes(LINK), 0),
        Greeting(bytes(32), 1, bytes(LINK), 0),
        Greeting(bytes(LINK), 0, bytes(LINK), 0),
        Greeting(bytes(LINK), 1, b"", 0),
        Greeting(bytes(LINK), 1, bytes(LINK + 1), 0),
        Greeting(bytes(LINK), 1, bytes(2 * LINK), 0),
        Greeting(bytes(LINK), 999, bytes(LINK * (KEPT_LINKS + 1)), 0),
    ],
)
def test_a_greeting_that_cannot_be_is_refused(greeting):
    assert not possible(greeting)
    node = started()
    before = node.disk.starts
    effects = node.receive(Got(1, greeting), 0.0)
    assert said(effects) == ["refused"]
    assert node.disk.starts == before


# One node


def test_the_first_start_needs_no_answer_and_greets():
    node = FLEET.node(2)
    effects = node.receive(Start(b"random"), 0.0)
    assert not node.awaited
    assert isinstance(effects[0], Persist)  # before it is said
    greetings = sent(effects, Greeting)
    assert len(greetings) == 2
    assert (greetings[0].number, greetings[0].commits) == (1, node.disk.starts.commits)


def test_two_starts_from_one_disk_are_a_fork():
    disk = started().disk
    one = started(disk=replace(disk), number=2)
    other = started(disk=replace(disk), number=3)
    assert links_of(one)[:LINK] == links_of(other)[:LINK]
    assert links_of(one) != links_of(other)
    neighbour = started(1)
    for node in (one, other):
        neighbour.receive(Got(2, node._standing()), 0.0)
    assert neighbour.sightings[2].link == links_of(one)[-LINK:]  # the second is not believed
    (told,) = sent(neighbour.receive(Got(2, other._standing()), 0.0), Sighting)
    effects = other.receive(Got(1, told), 0.0)
    assert said(effects) == ["fenced"]
    assert "a copy of the disk was started" in other.fenced


def test_a_guardian_with_an_old_disk_acts_on_nothing_before_all_have_answered():
    node = guardian_with_old_disk()
    assert node.awaited == {1, 3}
    release = Got(1, Release(NOW, TOKEN.seq, 3, bytes(32), 9))
    assert not sent(node.receive(release, 1.0), Released)
    assert not done(node.receive(Silent(), 1.0))
    node.receive(Got(1, answer(node)), 1.0)
    assert node.awaited == {3}
    assert not sent(node.receive(release, 1.0), Released)
    effects = node.receive(Got(3, answer(node)), 1.0)
    assert said(effects) == ["confirmed"]
    assert sent(node.receive(release, 1.0), Released)


def test_an_answer_to_an_earlier_start_confirms_nothing():
    node = guardian_with_old_disk()
    old = Sighting(*NOTHING, links_of(node)[:LINK])
    for u in (1, 3):
        node.receive(Got(u, old), 1.0)
    assert node.awaited == {1, 3}


@pytest.mark.parametrize("answered_first", [False, True])
def test_a_neighbour_that_has_seen_more_fences_for_good(answered_first):
    node = guardian_with_old_disk()
    if answered_first:
        for u in (1, 3):
            node.receive(Got(u, answer(node)), 1.0)
        assert not node.awaited
    starts = node.disk.starts
    more = Sighting(starts.origin, 1, links_of(node)[:LINK], starts.commits + 5, False, b"")
    effects = node.receive(Got(3, more), 1.0)
    assert said(effects) == ["fenced"]
    assert node.fenced.startswith(
        f"node 3 has seen write {starts.commits + 5} of the fenced node, whose"
    )
    release = Got(1, Release(NOW, TOKEN.seq, 3, bytes(32), 9))
    for event in (release, Silent(), Turn(), Timer(), Gone(1), Genesis(FLEET.token), Reached(1)):
        assert not done(node.receive(event, 500.0))
    again = started(disk=node.disk, number=3)
    assert again.fenced
    assert not again.ungreeted
    assert node.disk.guarded.register is None


def test_what_the_operator_says_settles_those_who_are_missing():
    node = guardian_with_old_disk()
    node.receive(Got(1, answer(node)), 1.0)
    effects = node.receive(Gone(3), 2.0)
    assert "confirmed" in said(effects)
    assert node.disk.starts.seen[3].gone
    again = started(disk=node.disk, number=3)
    assert again.awaited == {1}  # it need not be said again
    other = guardian_with_old_disk()
    assert "confirmed" not in said(other.receive(Gone(3, for_good=False), 2.0))
    assert other.awaited == {1, 3}  # its process does not exist, but its disk may have seen more
    other.receive(Excused(3), 2.0)
    assert other.awaited == {1}


def test_a_late_greeting_of_a_dead_node_is_settled_by_saying_again_that_it_is_gone():
    """The greeting was sent before the node died, and arrives after the operator has spoken: the
    node seems to be back. A neighbour that starts again waits for its answer, and names it.
    """
    node = guardian_with_old_disk()
    node.receive(Got(1, answer(node)), 1.0)
    node.receive(Gone(3), 2.0)
    node.receive(Got(3, Greeting(b"9" * LINK, 1, b"9" * LINK, 2)), 3.0)
    assert not node.disk.starts.seen[3].gone
    again = started(disk=node.disk, number=3)
    again.receive(Got(1, answer(again)), 4.0)
    assert again.awaited == {3}
    assert "confirmed" in said(again.receive(Gone(3), 5.0))
    assert not again.awaited
    assert again.disk.starts.seen[3].gone


def test_a_holder_that_is_gone_is_replaced_once_all_others_have_answered():
    node = guardian_with_old_disk()
    node.receive(Gone(1), 1.0)
    assert node.disk.guarded.register is None
    node.receive(Got(3, answer(node)), 1.0)
    assert node.disk.guarded.register == RegisterValue.REGENERATED


def test_what_the_operator_says_is_not_lost_if_the_waiting_node_crashes():
    node = guardian_with_old_disk()
    node.receive(Gone(1), 1.0)
    back = Greeting(b"9" * LINK, 1, b"9" * LINK, 2)  # node 1 is back, without its disk
    node.receive(Got(1, back), 1.0)
    again = started(disk=node.disk, number=3)
    assert again.awaited == {1, 3}
    for u in (1, 3):
        again.receive(Got(u, answer(again)), 1.0)
    assert again.disk.guarded.register == RegisterValue.REGENERATED
    assert not again.disk.starts.seen[1].owed


def test_a_node_answers_at_once_also_while_it_waits_itself():
    node = guardian_with_old_disk()
    effects = node.receive(Got(1, Greeting(b"1" * LINK, 1, b"1" * LINK, 4)), 1.0)
    (told,) = sent(effects, Sighting)
    assert told.number == 0
    assert node.disk.starts.seen[1].commits == 4
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Send)  # what it says it has seen is on the disk
    (told,) = sent(node.receive(Got(1, Greeting(b"1" * LINK, 1, b"1" * LINK, 4)), 1.0), Sighting)
    assert (told.number, told.commits, told.answers) == (1, 4, b"1" * LINK)


def test_a_waiting_holder_sends_heartbeats_and_refuses_a_model_after_a_while():
    node = started()
    given_to(node, TOKEN, 1, 0)
    node = started(disk=node.disk, number=2)
    assert node.disk.held.status == HeldStatus.ACTIVE
    assert not done(node.receive(Turn(), 0.0))
    effects = node.receive(Timer(), 1.0)
    beats = [one for one in done(effects) if isinstance(getattr(one, "message", 0), Heartbeat)]
    assert {(beat.to, beat.commit) for beat in beats} == {(1, 0), (3, 0)}
    assert not sent(effects, Prepare)
    waiting = guardian_with_old_disk()
    prepare = Got(3, Prepare(TOKEN, 1))
    assert not sent(waiting.receive(prepare, 1.0), Prepared)
    (refused,) = sent(waiting.receive(prepare, TERMS.dead_after + 1.0), Refused)
    assert "do not answer" in refused.why


@pytest.mark.parametrize("waits", [True, False])
def test_a_guardian_takes_every_message_of_a_waiting_holder_for_a_sign_of_life(waits):
    """A restarted node that waits cannot activate what was released to it, nor say that it did."""
    node = started()
    node.receive(Got(1, GUARD), 0.0)
    late = 0.8 * TERMS.dead_after
    node.receive(Got(1, Greeting(b"1" * LINK, 1, b"1" * LINK, 4)), late)
    name, commit = start_name(b"1" * LINK), 0 if waits else 4
    for time in (1.5 * late, 2.0 * late):
        node.receive(Got(1, BEAT, name, commit), time)
    node.receive(Timer(), 2.4 * late)  # the greeting alone would be too long ago
    assert (node.disk.guarded.register is None) == waits


def test_a_greeting_of_a_new_start_is_a_sign_of_life_and_a_repeated_one_is_not():
    node = started()
    node.receive(Got(1, GUARD), 0.0)
    first, second = StartChain(b"1" * LINK), next_link(StartChain(b"1" * LINK), b"again", 4)
    late = 0.8 * TERMS.dead_after
    for time, links in ((late, first.links), (2 * late, second.links), (3 * late, second.links)):
        node.receive(Got(1, Greeting(b"1" * LINK, len(links) // LINK, links, 4)), time)
        node.receive(Timer(), time)
        assert node.disk.guarded.register is None
    node.receive(Timer(), 3.4 * late)
    assert node.disk.guarded.register == RegisterValue.REGENERATED


def test_what_the_operator_asks_of_a_waiting_node_is_done_later():
    node = started(disk=started().disk, number=2)
    node.receive(Genesis(FLEET.token), 1.0)
    assert node.disk.held is None
    for u in (1, 3):
        node.receive(Got(u, answer(node)), 1.0)
    assert node.disk.held is not None
    assert node.disk.held.status == HeldStatus.SEEKING


def test_messages_of_an_earlier_start_are_dropped_and_the_highest_write_is_stored():
    node = started()
    old, new = start_name(b"0" * LINK), start_name(b"1" * LINK)
    assert not done(node.receive(Got(1, GUARD, new, 9), 0.0))  # it has not greeted yet
    node.receive(Got(1, Greeting(b"1" * LINK, 2, b"0" * LINK + b"1" * LINK, 5)), 0.0)
    assert not done(node.receive(Got(1, GUARD, old, 9), 0.0))
    effects = node.receive(Got(1, GUARD, new, 9), 0.0)
    assert sent(effects, Guarding)
    wrote = next(effect for effect in effects if isinstance(effect, Persist))
    assert wrote.slots["starts"].seen[1].commits == 9  # in the transaction that owes to it
    node.receive(Got(1, Alive(NOW, TOKEN.seq), new, 12), 0.0)
    assert node.disk.starts.seen[1].commits == 9  # nothing owes to it
    assert node.sightings[1].commits == 12
    word = Certificate(1, NOW, TOKEN.seq, 5, 4, bytes(32), b"")
    effects = node.receive(Got(1, Certified(word), new, 13), 0.0)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Send)  # what is forwarded owes to it
    assert node.disk.starts.seen[1].commits == 13


def test_writes_are_numbered_and_messages_name_the_write_that_they_need():
    node = started()
    before = node.disk.starts.commits
    effects = node.receive(Got(1, GUARD), 1.0)
    numbers = [effect.slots["starts"].commits for effect in effects if isinstance(effect, Persist)]
    assert numbers == list(range(before + 1, before + 1 + len(numbers)))
    written = before
    for effect in effects:
        if isinstance(effect, Persist):
            written += 1
        elif isinstance(effect, Send):
            assert (effect.start, effect.commit) == (start_name(links_of(node)), written)
    waiting = guardian_with_old_disk()
    beats = [e for e in waiting.receive(Timer(), 1.0) if isinstance(e, Send)]
    assert {effect.commit for effect in beats} == {0}  # it may be a copy that does not count


def test_a_folder_of_an_earlier_incarnation_is_old():
    first, fresh, neighbour = started(number=1), started(number=8), started(1)
    for node in (first, fresh):
        neighbour.receive(Got(2, node._standing()), 0.0)
    restored = started(disk=first.disk, number=2)
    (told,) = sent(neighbour.receive(Got(2, restored._standing()), 0.0), Sighting)
    restored.receive(Got(1, told), 0.0)
    assert "newer state folder" in restored.fenced
    again = started(disk=fresh.disk, number=9)
    (told,) = sent(neighbour.receive(Got(2, again._standing()), 0.0), Sighting)
    again.receive(Got(1, told), 0.0)
    assert not again.fenced


# Epochs and lies, while a node waits


def test_a_node_that_waits_learns_of_a_higher_epoch_by_its_link():
    node, neighbour = guardian_with_old_disk(), started(1)
    higher = RESTORED._replace(epoch=Epoch(2, 3, 5), seq=3)
    link = HANDS.regenerated(higher, 4, 3)
    neighbour.receive(Got(0, Fenced(link)), 0.0)
    assert neighbour.disk.known.epoch == link.epoch
    effects = neighbour.receive(Got(2, node._standing()), 1.0)
    told = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == 2]
    kinds = [type(message) for message in told]
    assert kinds.index(Fenced) < kinds.index(Sighting)  # it knows the epoch before it acts
    for message in told:
        node.receive(Got(1, message), 1.0)
    assert node.disk.known.link == link
    assert node.disk.guarded is None
    assert node.awaited == {3}


def denied_by(liar: int, giver: int) -> tuple[Node, Lie]:
    """A node that holds a token and has started again; the liar denies that it has released it."""
    node = started()
    given_to(node, TOKEN, giver, liar)
    made = TOKEN._replace(epoch=Epoch(1, 0, liar), seq=0, step=3, base=3)
    false = HANDS.link(LinkKind.REGENERATED, made, 5, EPOCH).opening
    lie = Lie(false, node.disk.held.right.release)
    assert lie.liar == liar
    return started(disk=node.disk, number=2), lie


def test_a_holder_that_waits_continues_above_a_lie_once_it_may_act():
    node, lie = denied_by(0, giver=1)
    assert said(node.receive(Got(3, Exposed(lie)), 1.0)) == ["lied"]
    assert node.disk.liars == (lie,)
    node.receive(Got(1, answer(node)), 1.0)
    assert (node.disk.held.status, node.disk.held.token.epoch) == (HeldStatus.ACTIVE, EPOCH)
    node.receive(Got(3, answer(node)), 1.0)
    assert (node.disk.held.status, node.disk.held.token.epoch.counter) == (HeldStatus.SEEKING, 2)


def test_nobody_waits_for_the_answer_of_a_node_that_has_lied():
    node, lie = denied_by(1, giver=3)
    assert node.awaited == {1, 3}
    effects = node.receive(Got(3, Exposed(lie)), 1.0)
    assert node.awaited == {3}
    wrote = next(effect for effect in effects if isinstance(effect, Persist))
    assert wrote.slots["liars"] == (lie,)
    assert wrote.slots["starts"].seen[1].gone  # in the same transaction
    assert started(disk=node.disk, number=3).awaited == {3}


# On disk and on the wire


def test_starts_are_written_and_read():
    seen = {
        1: NeighbourStart(b"1" * LINK, 3, b"2" * LINK, 99, False, (b"3" * LINK, b"4" * LINK)),
        7: NeighbourStart(gone=True),
        8: NeighbourStart(owed=True),
        9: NeighbourStart(b"1" * LINK, 3, b"2" * LINK, 99, True, (), True),
    }
    for starts in (
        Starts(b"o" * LINK, 1, 0, "", {}),
        Starts(b"o" * LINK, 4, 1 << 40, "node 3 has seen more – ü", seen),
    ):
        assert decode_slot("starts", encode(starts)) == starts
    chain = next_link(next_link(None, b"a", 0), b"b", 7)
    assert decode_slot("chain", encode(chain)) == chain
    for bad in (StartChain(b""), StartChain(b"123")):
        with pytest.raises(Malformed, match="cannot have"):
            decode_slot("chain", encode(bad))
    data = bytearray(encode(Starts(b"o" * LINK, 1, 0, "", seen)))
    for at in range(2, len(data)):
        data[at] ^= 0xFF
        with contextlib.suppress(Malformed):
            assert isinstance(decode_slot("starts", bytes(data)), Starts)
        data[at] ^= 0xFF


def test_a_frame_has_the_start_and_the_write_behind_it():
    reader = Reader(Limits(dim=20_000, phases=1, memory=0), peer=3)
    reader.take(hello_frame(3, Hello(FORMAT, bytes(32), bytes(16), "", b"")))
    for message in (
        Greeting(b"o" * LINK, 2, b"l" * 2 * LINK, 77),
        Sighting(b"o" * LINK, 2, b"l" * LINK, 77, True, b"a" * LINK),
        Alive(EPOCH, 5),
    ):
        frame, _ = encode_frame(3, message)
        assert reader.take(frame + mark_of(4, 1234)) == (message, b"")
        assert reader.mark == (4, 1234)
        assert reader.take(frame) == (message, b"")
        assert reader.mark == (0, 0)
    large = TOKEN._replace(model=np.zeros(20_000))
    frame, tensors = encode_frame(3, Prepare(large, 1))
    assert reader.take(frame + mark_of(5, 6)) is None
    chunks = [reader.take(chunk) for tensor in tensors for chunk in chunk_frames(tensor)]
    assert isinstance(chunks[-1][0], Prepare)
    assert reader.mark == (5, 6)


# Many nodes in virtual time

ROLES = {"holder": HOLDER, "guardian": GUARDIAN, "next": NEXT, "node 0": 0, "node 3": 3}


@pytest.mark.parametrize("writes", [1, 5, 30])
@pytest.mark.parametrize("role", ROLES)
def test_a_restored_backup_in_the_middle_of_a_walk(role, writes):
    fault = ScheduledFault(12.0, "rollback", (ROLES[role],), 3.0, writes)
    world = World(replace(CALM, faults=(fault,)))
    assert run_world(world) is not None  # I1 to I7, and the walk comes to its end
    assert world.done["rollback"] == 1


@pytest.mark.more
def test_a_node_that_trusts_its_disk_makes_two_tokens():
    """What happens without the answers of neighbours; it is what the tests above would miss."""
    broken: Counter[str] = Counter()
    for seed in range(30):
        world = World(draw(seed, kinds={"rollback": 1}, loss=0.0), made_of(TrustsItsDisk))
        try:
            world.run(world.schedule.until)
        except Violation as why:
            broken[str(why).split(":")[0]] += 1
    assert broken["I1"] >= 3, broken


@pytest.mark.parametrize(
    "seeds",
    mostly_more(
        [range(8), range(8, 80), range(80, 300)],
        lambda seeds: 0 in seeds,
        lambda seeds: 80 in seeds,
    ),
    ids=str,
)
def test_rollbacks_with_other_faults(seeds):
    kinds = {"rollback": 6, "crash": 4, "torn": 1, "cut": 2, "silent": 1, "wipe": 1, "die": 1}
    faults: Counter[str] = Counter()
    for seed in seeds:
        faults += play(draw(seed, kinds=kinds)).faults
    assert faults["rollback"] > len(seeds)


def virtual_ring(steps: int = 800, *, signed: bool = False) -> VirtualFleet:
    fleet = FLEET.of(
        lw.ring(6),
        lw.homogeneous(6),
        lw.mhlj(),
        steps=steps,
        step_size="theory",
        terms=replace(TERMS, dead_after=20.0, heartbeat=5.0, retry=1.0),
    )
    return VirtualFleet(fleet, signed=signed)


def test_a_restart_of_the_whole_fleet_does_not_block():
    virtual = virtual_ring()
    for v in range(6):
        virtual.at(1.0, PlannedFault("kill", v))
        virtual.at(2.0 + 0.1 * v, PlannedFault("restart", v))
    assert virtual.run()
    assert Counter(told.what for told in virtual.reports)["confirmed"] == 6
    assert virtual.final.epoch.counter == 0


def test_a_virtual_node_that_is_rolled_back_is_fenced_and_rejoins():
    virtual = virtual_ring()
    virtual.at(0.2, PlannedFault("back up", 2))
    virtual.at(1.0, PlannedFault("roll back", 2))
    virtual.at(2.0, PlannedFault("rejoin", 2))
    virtual.run(until=1.5)
    assert "of the fenced node, whose disk ended with write" in virtual.node(2).fenced
    assert "plan a fault 'rejoin'" in why_stuck(virtual)
    with command_line():  # which has no such option
        assert "(--lose-disk 2@TIME --gone 2@TIME --restart 2@LATER)" in why_stuck(virtual)
    assert virtual.run()
    assert not virtual.node(2).fenced


def test_what_the_command_line_plans_instead_of_a_rejoin_frees_a_fenced_node():
    virtual = virtual_ring()
    virtual.at(0.2, PlannedFault("back up", 2))
    virtual.at(1.0, PlannedFault("roll back", 2))
    virtual.at(2.0, PlannedFault("lose disk", 2))
    virtual.at(2.0, PlannedFault("gone", 2))
    virtual.at(2.5, PlannedFault("restart", 2))
    assert virtual.run()
    assert not virtual.node(2).fenced


@pytest.mark.parametrize("at", mostly_more([0.3, 0.6, 1.0], lambda at: at == 0.6))
def test_a_guardian_that_rejoins_is_not_accused_of_what_its_lost_disk_had_signed(at):
    """It has released the token, comes back from a time before that, and then without its disk."""
    virtual = virtual_ring(signed=True)
    virtual.run(until=at)
    guardian = virtual.whose("guardian")
    virtual._fault(PlannedFault("back up", guardian))
    stepped(
        virtual,
        lambda: isinstance(virtual.machines[guardian].disk["guarded"].register, Certificate),
    )
    virtual._fault(PlannedFault("roll back", guardian))
    stepped(virtual, lambda: bool(virtual.node(guardian).fenced))
    virtual._fault(PlannedFault("rejoin", guardian))
    assert virtual.run()
    assert not any(machine.disk["liars"] for machine in virtual.machines)


def test_a_guardian_that_restarts_beside_a_dead_node_waits_until_it_is_gone():
    virtual = virtual_ring()
    virtual.run(until=1.0)
    guardian, holder = virtual.whose("guardian"), virtual.whose("holder")
    virtual.at(1.0, PlannedFault("kill", holder))
    virtual.at(1.1, PlannedFault("kill", guardian))
    virtual.at(2.0, PlannedFault("restart", guardian))
    assert not virtual.run()
    assert virtual.node(guardian).awaited == {holder}
    assert f"node {guardian} has started again and waits" in why_stuck(virtual)
    assert f"--gone {holder}@TIME" in why_stuck(virtual)
    virtual.at(virtual.now, PlannedFault("gone", holder))
    assert virtual.run()


def test_new_neighbours_do_not_hide_an_old_disk():
    """The number of the write that makes a new edge must not be that of a write that is lost."""
    node = started()
    old = copy.deepcopy(node.disk)
    node.receive(Got(1, GUARD), 1.0)
    assert node.disk.starts.commits == old.starts.commits + 1
    seen = node.disk.starts.origin, 1, links_of(node)[-LINK:], node.disk.starts.commits
    restored = FLEET.node(2, old)
    effects = restored.receive(Start(b"2|2", (5, 5)), 2.0)  # named twice, it is one neighbour
    assert 5 in restored.disk.edges
    assert restored.disk.own.pending == restored.disk.own.degree + 1
    assert restored.awaited == {1, 3, 5}
    assert {one.to for one in effects if isinstance(one, Send)} >= {1, 3, 5}
    restored.receive(Got(1, answer(restored, *seen, False)), 2.1)
    assert restored.fenced
