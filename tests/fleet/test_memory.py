"""Memory that survives faults (I8): what a visit reads belongs to the walk that counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking.faults import draw
from levywalk.fleet.checking.log_pieces import DiskLog
from levywalk.fleet.checking.logs import judge
from levywalk.fleet.checking.machines import made_of
from levywalk.fleet.checking.mutants import IgnoresLosses, ReadsTheNewestMemory
from levywalk.fleet.checking.schedules import sweep
from levywalk.fleet.checking.shrink import violation
from levywalk.fleet.protocol.events import Got, Send
from levywalk.fleet.protocol.kept_memory import (
    DEPTH,
    EPOCHS,
    MOST_DROPPED,
    MOST_KNOWN_LOSSES,
    NODE_LOST,
    KeptMemory,
    MemoryEntry,
)
from levywalk.fleet.protocol.lineage import MOST_ANCESTORS, MOST_LOSSES, Lineage, MemoryLoss
from levywalk.fleet.protocol.messages import Answer, Question
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import NewGeneration, SilentNeighbour
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.limits import mostly_more

N = 6
NOTHING = np.empty(0, np.uint8)
FIRST_EPOCH, SECOND, THIRD = Epoch(0, 0, 3), Epoch(1, 7, 4), Epoch(2, 9, 1)
QUICK = HandOffTerms(b"", renew_after=5, heartbeat=1.0, dead_after=4.0, retry=0.5)


def entry(hops: int, epoch: Epoch = FIRST_EPOCH, losses: int = 0, **more: Any) -> MemoryEntry:
    given: dict[str, Any] = {"seq": hops, "firm": False, "edges": (), "content": NOTHING} | more
    return MemoryEntry(epoch, hops, losses=losses, **given)


def with_entries(*stamps: int, depth: int = 4) -> KeptMemory:
    kept = KeptMemory()
    for hops in stamps:
        kept = kept.with_entry(entry(hops), Lineage(), depth)
    return kept


def problem() -> lw.LeastSquares:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((2 * N, 2))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return lw.LeastSquares(rows, rng.standard_normal(2 * N), node=np.tile(np.arange(N), 2))


def fleet_of(design: lw.Walk, update: Any = None, steps: int = 300, **more: Any) -> Fleet:
    given: dict[str, Any] = {"step_size": 0.2, "seed": 5, "terms": QUICK} | more
    return Fleet.of(lw.complete(N), problem(), design, steps=steps, update=update, **given)


def generations(virtual: VirtualFleet) -> list[NewGeneration]:
    lines = [line for log in virtual.logs.values() for line in log]
    return [line for line in lines if isinstance(line, NewGeneration)]


# Which entry is read


def test_an_entry_counts_up_to_where_the_token_s_copy_branched():
    kept = with_entries(3, 6, 9)
    for branch, read in ((2, None), (3, 3), (5, 3), (6, 6), (8, 6), (9, 9), (50, 9)):
        found = kept.recalled(Lineage().reopened(FIRST_EPOCH, branch), SECOND)
        assert (found.entry and found.entry.hops, found.why) == (read, ())


def test_an_entry_of_an_epoch_that_is_no_ancestor_does_not_count():
    kept = with_entries(3).with_entry(entry(5, SECOND), Lineage().reopened(FIRST_EPOCH, 4), 4)
    other = Lineage().reopened(FIRST_EPOCH, 4)  # a second branch from the same place
    assert kept.recalled(other, THIRD).entry == entry(3)
    assert kept.recalled(other.reopened(SECOND, 6), THIRD).entry == entry(5, SECOND)


def test_a_visit_drops_what_is_not_on_its_chain():
    branch = Lineage().reopened(FIRST_EPOCH, 5)
    kept = with_entries(3, 6).with_entry(entry(7, SECOND), branch, 4)
    assert kept.entries == (entry(3), entry(7, SECOND))
    # If the dropped branch is revived after all, its memory is missing, and the node knows that.
    revived = Lineage().reopened(FIRST_EPOCH, 8)
    assert kept.recalled(revived, THIRD).why == ((DEPTH, -1),)
    assert kept.recalled(branch.reopened(SECOND, 9), THIRD).why == ()


def test_depth_is_how_many_predecessors_are_kept():
    kept = with_entries(1, 2, 3, 4, depth=2)
    assert [one.hops for one in kept.entries] == [2, 3, 4]
    assert kept.recalled(Lineage().reopened(FIRST_EPOCH, 2), SECOND).entry == entry(2)
    assert kept.recalled(Lineage().reopened(FIRST_EPOCH, 1), SECOND).why == ((DEPTH, -1),)


def test_a_stay_takes_one_place_unless_a_guardian_has_a_copy():
    kept = KeptMemory()
    for hops, firm in ((3, False), (4, True), (5, False), (6, False)):
        kept = kept.with_entry(entry(hops, seq=1, firm=firm), Lineage(), 9)
    assert [one.hops for one in kept.entries] == [4, 6]


def test_stamps_of_dropped_entries_do_not_grow_without_end():
    kept, lineage = KeptMemory(), Lineage()
    for number in range(3 * MOST_DROPPED):
        epoch = Epoch(number, 0, 1)
        for hops in (10 * number + 1, 10 * number + 2, 10 * number + 3):
            kept = kept.with_entry(entry(hops, epoch), lineage, 1)
        lineage = lineage.reopened(epoch, 10 * number + 3)
    assert len(kept.dropped) == MOST_DROPPED
    # What nobody can judge any more counts as missing: here the earliest epoch of all.
    early = Lineage().reopened(Epoch(0, 0, 1), 2)
    assert kept.recalled(early, Epoch(999, 0, 1)).why == ((DEPTH, -1),)


def test_too_many_ancestors_are_a_reason_to_start_again():
    lineage = Lineage()
    for number in range(MOST_ANCESTORS):
        lineage = lineage.reopened(Epoch(number, 0, 1), number + 1)
    assert KeptMemory().recalled(lineage, Epoch(99, 0, 1)).why == ()
    more = lineage.reopened(Epoch(50, 0, 1), 50)
    assert KeptMemory().recalled(more, Epoch(99, 0, 1)).why == ((EPOCHS, -1),)
    assert len(more.ancestors) == MOST_ANCESTORS
    risen = lineage.risen(40, ())  # a later generation has no memory from before
    assert not risen.reopened(Epoch(50, 0, 1), 50).owed


def test_a_restored_token_in_which_nobody_decided_anything_is_no_ancestor():
    lineage = Lineage().reopened(FIRST_EPOCH, 5)
    assert lineage.reopened(SECOND, 5) == lineage


# Losses


def test_a_loss_is_a_reason_once():
    kept = with_entries(3).with_loss(6, b"disk")
    found = kept.recalled(Lineage(), FIRST_EPOCH)
    assert found.why == ((NODE_LOST, 6),)
    risen = Lineage().risen(8, found.losses)
    assert kept.recalled(risen, FIRST_EPOCH) == (None, (), ())  # the token lists it
    kept = kept.with_entry(entry(9, losses=1), risen, 4)
    for other in range(MOST_LOSSES):  # and if it does not any more, the node remembers the visit
        risen = risen.risen(10, (MemoryLoss.of(other, b"other"),))
    assert kept.recalled(risen, FIRST_EPOCH).why == ()
    # A copy from before that visit does not have the new generation.
    before = Lineage().reopened(FIRST_EPOCH, 8)
    assert kept.recalled(before, SECOND).why == ((NODE_LOST, 6),)


def test_a_disk_that_came_back_can_be_lost_again():
    kept = KeptMemory().with_loss(6, b"disk").with_loss(6, b"disk")
    assert len(set(kept.losses)) == 2
    for number in range(MOST_KNOWN_LOSSES + 5):
        kept = kept.with_loss(number, b"disk")
    assert len(kept.losses) == MOST_KNOWN_LOSSES


def test_what_a_token_carries_is_checked():
    published = fleet_of(lw.unif_rw(), lw.saga()).published
    token = published.first_token(np.zeros(2))._replace(epoch=THIRD, hops=9)
    for wrong in (
        Lineage(since=10),
        Lineage(generation=-1),
        Lineage().reopened(THIRD, 4),
        Lineage().reopened(SECOND, 4).reopened(FIRST_EPOCH, 6),
        Lineage().reopened(FIRST_EPOCH, 10),
    ):
        refused = published.refuses(published._with_lineage(token, wrong))
        assert refused is not None
        assert "is impossible after 9 decisions" in refused or "cannot come before" in refused
    right = Lineage(2, 7).reopened(FIRST_EPOCH, 3).reopened(SECOND, 9)
    assert published.refuses(published._with_lineage(token, right)) is None
    assert published.lineage(published._with_lineage(token, right)) == right


def test_a_fleet_without_memory_at_its_nodes_carries_nothing_more():
    for design, update, size in ((lw.mhlj(), None, 0), (lw.mhlj(), lw.heavy_ball(), 16)):
        published = fleet_of(design, update).published
        assert published.memory_bytes == size
        token = published.first_token(np.zeros(2))
        assert published.reopened(token, SECOND, FIRST_EPOCH).memory is token.memory


def test_a_new_generation_begins_with_what_the_first_token_has():
    published = fleet_of(lw.unif_rw(), lw.saga()).published
    token = published.first_token(np.zeros(2))
    used = token.memory.copy()
    used[-16:] = 7  # the sum
    risen = published.risen(token._replace(memory=used, hops=12))
    assert not risen.memory[-16:].any()
    assert published.lineage(risen) == Lineage(1, 12)


# In a fleet


@pytest.mark.more
def test_saga_finds_the_optimum_after_a_node_has_lost_its_disk(monkeypatch: pytest.MonkeyPatch):
    def after_a_loss() -> VirtualFleet:
        virtual = VirtualFleet(fleet_of(lw.unif_rw(), lw.saga(), steps=700))
        virtual.at(0.5, PlannedFault("lose disk", 3))
        virtual.at(1.0, PlannedFault("restart", 3))
        assert virtual.run()
        return virtual

    virtual = after_a_loss()
    assert np.abs(virtual.final.model - problem().optimum).max() < 1e-6
    (line,) = generations(virtual)  # it rises once, although all others know of the loss
    assert (line.why, line.node, line.generation) == (NODE_LOST, 3, 1)
    assert 0 < line.step < 350
    assert virtual.fleet.published.lineage(virtual.final).generation == 1
    # Without the rule the sum keeps a gradient that nobody subtracts, and the limit is wrong.
    monkeypatch.setattr(KeptMemory, "with_loss", lambda self, node, disk: self)
    assert np.abs(after_a_loss().final.model - problem().optimum).max() > 1e-3


def test_a_node_that_is_only_away_is_no_reason_to_start_again():
    virtual = VirtualFleet(fleet_of(lw.unif_rw(), lw.saga()))
    virtual.at(0.5, PlannedFault("kill", 3))
    virtual.at(20.0, PlannedFault("restart", 3))
    assert virtual.run()
    assert generations(virtual) == []


@pytest.mark.parametrize(
    ("design", "update"),
    [(lw.mhlj(0.3), lw.point_saga()), (lw.least_used_edge(), None)],
    ids=["point_saga", "least used edge"],
)
def test_restored_tokens_read_what_belongs_to_them(design: lw.Walk, update: Any):
    """The random schedules check what is read; here nothing is lost, and so nothing starts
    again.
    """
    virtual = VirtualFleet(fleet_of(design, update, steps=600))
    for time in (0.3, 6.5):
        virtual.at(time, PlannedFault("kill", "holder"))
    for time in (6.3, 13.0):
        for v in range(N):
            virtual.at(time, PlannedFault("restart", v))
    assert virtual.run()
    assert generations(virtual) == []
    ancestors = virtual.fleet.published.lineage(virtual.final).ancestors
    assert len(ancestors) == virtual.final.epoch.counter >= 1
    logs = [DiskLog(v, lines, virtual.final) for v, lines in virtual.logs.items()]
    assert judge(virtual.fleet, logs).models > 100  # as a real fleet's folders are judged
    kept = [machine.disk["memory"] for machine in virtual.machines]
    assert all(len(one.entries) <= 1 + QUICK.memory_depth for one in kept)


# Questions


def asking(steps: int = 120) -> Fleet:
    return fleet_of(lw.oldest_neighbour(), steps=steps)


def test_a_walk_that_asks_is_that_of_the_reference_backend():
    fleet = asking()
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    given: dict[str, Any] = {"steps": 120, "step_size": 0.2, "seed": 5, "backend": "reference"}
    trace = lw.run(fleet.network, problem(), fleet.design, **given)
    assert np.array_equal(virtual.final.model, trace.model[0])
    assert virtual.final.small_messages == trace.small_messages[0, -1] == 2 * (N - 1) * 120
    for machine in virtual.machines:  # each visit ended with a move, of which others have copies
        assert all(one.firm for one in machine.disk["memory"].entries[:-1])


def test_a_neighbour_that_does_not_answer_is_left_out_and_the_log_says_so():
    virtual = VirtualFleet(asking())
    node = virtual.node(3)
    node._answers[Question] = lambda *_: None  # it lives, and never answers
    assert virtual.run()
    lines = [line for log in virtual.logs.values() for line in log]
    silences = {
        (Epoch(*line.token_epoch), line.step)
        for line in lines
        if isinstance(line, SilentNeighbour) and line.node == 3
    }
    visits = {(Epoch(*line.token_epoch), line.step) for line in lines if isinstance(line, Visit)}
    assert silences == {place for place in visits if place[1] < 120}
    assert not any(isinstance(line, Visit) for line in virtual.logs[3])


def test_an_answer_is_about_the_walk_of_the_question():
    virtual = VirtualFleet(asking(steps=40))
    assert virtual.run()
    node, final = virtual.node(2), virtual.final
    kept = node.disk.memory
    assert kept is not None
    newest, before = kept.entries[-1], kept.entries[-2]

    def answer(lineage: Lineage, epoch: Epoch) -> bytes:
        node.disk.known = node.disk.known._replace(epoch=epoch)
        content = lineage.numbers().astype("<i8").tobytes()
        asked = Question(epoch, final.seq, final.hops, 0, content)
        sent = [one for one in node.receive(Got(1, asked), virtual.now) if isinstance(one, Send)]
        (told,) = [one.message for one in sent if isinstance(one.message, Answer)]
        return told.values

    own = final.epoch
    assert answer(Lineage(), own) == newest.content.tobytes()
    restored = Lineage().reopened(own, newest.hops - 1)
    assert answer(restored, Epoch(1, 9, 1)) == before.content.tobytes()
    risen = Lineage().risen(final.hops, ())
    assert answer(risen, own) == np.array(-1, "<i8").tobytes()  # as before the first visit
    too_old = Lineage().reopened(own, kept.entries[0].hops - 1)
    assert answer(too_old, Epoch(2, 9, 1)) == b""  # it does not know any more


# Random faults


@pytest.mark.parametrize(
    "chunk", mostly_more(range(20), lambda chunk: chunk == 0, lambda chunk: chunk > 5)
)
def test_schedules_with_memory(chunk: int):
    outcome = sweep(range(16 * chunk, 16 * (chunk + 1)), memory=True)  # each method twice
    assert not outcome.failures, "\n".join(f"seed {s.seed}: {why}" for s, why in outcome.failures)
    assert outcome.finished > 0.8 * outcome.schedules
    assert outcome.regenerated > 0


@pytest.mark.more
@pytest.mark.parametrize("seed", [51, 5099])  # copies that are restored where they did not come to
def test_what_broke_it_once(seed: int):
    assert violation(draw(seed, design="least_used_edge", update="saga")) is None


@pytest.mark.parametrize("mutant", [ReadsTheNewestMemory, IgnoresLosses])
def test_a_bug_with_memory_is_found(mutant: type[Node]):
    kinds = {"wipe": 3, "die": 2, "crash": 2, "cut": 1}
    schedules = [draw(seed, kinds=kinds, design="unif_rw", update="saga") for seed in range(20)]
    broken = (violation(schedule, made_of(mutant)) for schedule in schedules)
    assert str(next(found for found in broken if found is not None)).startswith("I8")


def test_a_copy_that_is_revived_with_its_memory_keeps_its_generation():
    published = fleet_of(lw.unif_rw(), lw.saga()).published
    token: Token = published.first_token(np.zeros(2))._replace(epoch=FIRST_EPOCH, hops=30, step=25)
    again = published.reopened(token, THIRD, FIRST_EPOCH)
    assert published.lineage(again) == Lineage().reopened(FIRST_EPOCH, 30)
