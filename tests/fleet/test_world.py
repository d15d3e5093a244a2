from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking.faults import (
    GUARDIAN,
    HOLDER,
    KINDS,
    FaultSchedule,
    ScheduledFault,
    draw,
)
from levywalk.fleet.checking.machines import made_of
from levywalk.fleet.checking.schedules import run_world, sweep
from levywalk.fleet.checking.shrink import shrink, transcript
from levywalk.fleet.checking.world import World
from levywalk.fleet.protocol.events import Got, Joins, Persist, Send, Start, Turn
from levywalk.fleet.protocol.messages import Alive
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.token import FIRST, Epoch
from tests.limits import mostly_more

CALM = draw(
    0, network="ring", nodes=6, design="mhlj", problem="least squares", steps=40, policy="wait",
    shared_key=True, loss=0.0, duplicates=0.0, delay=1.0, drift=0.0, until=60.0, faults=(),
)  # fmt: skip


def with_faults(*faults: ScheduledFault, **more) -> FaultSchedule:
    return replace(CALM, faults=faults, **more)


@pytest.mark.parametrize("seed", mostly_more(range(5), lambda seed: seed < 2))
def test_one_seed_one_run_event_for_event(seed):
    assert transcript(draw(seed), heartbeats=True) == transcript(draw(seed), heartbeats=True)


def test_seeds_differ():
    assert transcript(draw(1)) != transcript(draw(2))


def test_a_schedule_is_written_and_read():
    for seed in range(50):
        assert FaultSchedule.read(draw(seed).to_json()) == draw(seed)


@pytest.mark.more
def test_schedules_are_as_varied_as_they_should_be():
    drawn = [draw(seed) for seed in range(600)]
    assert {fault.kind for schedule in drawn for fault in schedule.faults} == {
        kind for kind, _ in KINDS
    }
    assert {schedule.network for schedule in drawn} == {"ring", "ws", "grid", "er", "star"}
    sizes = [schedule.fleet.network.n for schedule in drawn]
    assert min(sizes) >= 5
    assert max(sizes) == 30


@pytest.mark.parametrize("design", ["mhlj", "weight_rw", "unif_rw", "switching"])
@pytest.mark.parametrize("problem", ["least squares", "logistic"])
def test_without_faults_the_walk_is_the_reference_backends(design, problem):
    world = World(
        replace(CALM, design=design, problem=problem, duplicates=0.3, drift=0.2, steps=60)
    )
    run_world(world)
    fleet = world.fleet
    trace = lw.run(
        fleet.network, fleet.problem, fleet.design, steps=60, step_size=0.01, seed=fleet.seed,
        start=fleet.start, backend="reference", record_walk=True,
    )  # fmt: skip
    visits = world.invariants.visits[Epoch(0, 0, fleet.start)]
    assert [visits[step][0] for step in range(60)] == trace.walk[0].tolist()
    assert np.array_equal(world.sites[0].disk.final.model, trace.model[0])


@pytest.mark.parametrize("amount", range(3))
def test_a_crash_comes_between_any_two_effects(amount):
    world = World(
        with_faults(ScheduledFault(10.0, "crash", (HOLDER,), 5.0, 10 + amount)), keep=True
    )
    world.run(10.0)
    done = []
    for kind in (Persist, Send):
        perform = world._do[kind]

        def spied(v, effect, perform=perform, kind=kind):
            done.append((v, kind))
            perform(v, effect)

        world._do[kind] = spied
    while not any("stops: crash" in line for line in world.transcript):
        done.clear()
        world.run(world._queue[0][0])
    assert len(done) <= amount
    world.run(60.0)
    assert all(site.node is not None for site in world.sites)


def test_a_write_that_is_torn_happens_as_a_whole_or_not_at_all():
    for amount in (0, 1):
        world = World(with_faults(ScheduledFault(10.0, "torn", (HOLDER,), 5.0, amount)), keep=True)
        run_world(world)
        at = next(i for i, line in enumerate(world.transcript) if "stops: torn" in line)
        assert ("writes" in world.transcript[at - 1]) == bool(amount)


def test_a_full_disk_stops_a_node_until_there_is_room():
    world = World(with_faults(ScheduledFault(10.0, "full", (HOLDER,), 12.0)), keep=True)
    world.run(20.0)
    down = [v for v, site in enumerate(world.sites) if site.node is None]
    assert len(down) == 1
    world.run(23.0)
    assert all(site.node is not None for site in world.sites)
    world.heal()
    world.run(500.0)
    assert world.finished


def test_a_node_without_its_disk_does_not_bear_a_second_first_token():
    world = World(with_faults(ScheduledFault(20.0, "wipe", (CALM.fleet.start,), 2.0, 0)))
    assert run_world(world) is not None
    assert world.sites[CALM.fleet.start].disks_lost == 1
    assert len([epoch for epoch in world.invariants.began if epoch.counter == 0]) == 1


def test_a_lost_disk_knows_nothing():
    world = World(with_faults(ScheduledFault(20.0, "wipe", (2,), 15.0, 0)))
    world.run(33.0)
    assert world.sites[2].disk.known.epoch == FIRST
    assert world.sites[2].disk.held is None


def test_a_cut_goes_one_way():
    world = World(with_faults(ScheduledFault(0.0, "cut", (0, 1), 60.0)), keep=True)
    world.run(50.0)
    heard = [line for line in world.transcript if "Heartbeat" in line and "←" in line]
    assert not any(line.split()[1] == "1" and line.split()[3] == "0" for line in heard)
    assert any(line.split()[1] == "0" and line.split()[3] == "1" for line in heard)


def test_nothing_reaches_a_disk_that_was_not_there_when_it_was_sent():
    world = World(CALM)
    world.run(10.0)
    before = world.events
    world._deliver(1, Got(0, Alive(FIRST, 0)), (-1, 0))
    assert world.events == before


def test_clocks_differ_and_messages_can_be_late():
    world = World(replace(CALM, drift=0.2))
    clocks = [site.clock(10.0) - site.clock(0.0) for site in world.sites]
    assert len(set(clocks)) == len(clocks)
    world.run(0.0)
    world.receive(0, Got(1, Alive(FIRST, 7)))
    world.receive(0, Start())


def test_a_dead_guardian_pauses_the_walk_until_the_operator_speaks():
    K = 5
    world = World(
        with_faults(ScheduledFault(15.0, "die", (GUARDIAN,), 85.0, 0), until=120.0, renew_after=K)
    )
    world.run(60.0)
    assert world.done["die"] == 1
    before = {epoch: max(steps) for epoch, steps in world.invariants.visits.items()}
    world.run(99.0)
    assert {epoch: max(steps) for epoch, steps in world.invariants.visits.items()} == before
    assert not world.finished
    world.run(102.0)
    assert max(world.invariants.visits) > max(before) or max(world.invariants.began) > max(before)
    loss = run_world(world)
    assert loss is not None
    assert loss.lost == 0


def test_a_dead_holder_costs_at_most_k_updates():
    for at in range(10, 30, 2):
        world = World(with_faults(ScheduledFault(at, "die", (HOLDER,), 500.0, 10), renew_after=3))
        loss = run_world(world)
        assert loss is None or loss.lost <= 3


class Stumbles(Node):
    """It does not survive its first turn after step 10."""

    def _turn(self, event: Turn, now: float) -> None:
        if self.disk.held is not None and self.disk.held.token.step > 10:
            raise ZeroDivisionError("by nothing")
        super()._turn(event, now)


def test_a_node_that_raises_is_a_violation_with_its_seed_and_is_made_short():
    outcome = sweep([3], made_of(Stumbles))
    ((schedule, why),) = outcome.failures
    assert schedule.seed == 3
    assert "error: node" in why
    assert "Turn: ZeroDivisionError: by nothing" in why
    assert not shrink(schedule, made_of(Stumbles)).faults


class Newcomers(World):
    """Who comes back without its disk knows no neighbour either: the operator adds its edges, one
    after the other.
    """

    newcomers = 0

    def _fall(self, v: int, fault: ScheduledFault) -> None:
        super()._fall(v, fault)
        site = self.sites[v]
        if site.blank:
            site.disk.edges = {u: edge for u, edge in site.disk.edges.items() if u == v}
            site.disk.own = site.disk.own._replace(degree=len(site.disk.edges))
            self.newcomers += 1

    def _start(self, v: int) -> None:
        super()._start(v)
        for u in self.fleet.network.neighbours(v).tolist() if self.sites[v].disks_lost else ():
            self.receive(v, Joins(u))


@pytest.mark.more
def test_newcomers_do_not_break_anything():
    newcomers = 0
    for seed in range(60):
        world = Newcomers(draw(seed, kinds=dict(KINDS) | {"wipe": 12}))
        run_world(world)
        newcomers += world.newcomers
        for v, site in enumerate(world.sites):
            if world.newcomers and world.finished and site.up and not site.disk.own.pending:
                assert site.disk.own.degree == len(site.disk.edges), (seed, v)
    assert newcomers > 50
