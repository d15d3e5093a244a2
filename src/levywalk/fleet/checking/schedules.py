"""Run schedules: faults happen, then all faults end, and the walk must come to its end.

The invariants hold all the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from levywalk.fleet.checking.faults import FaultSchedule, drawing
from levywalk.fleet.checking.invariants import WalkCost
from levywalk.fleet.checking.machines import Maker, real_node
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.world import World
from levywalk.fleet.protocol.events import Leaves

PATIENCE = 3000.0  # virtual seconds from the end of all faults to the end of the walk


@dataclass
class ScheduleOutcome:
    """The result of one schedule, or of many."""

    schedules: int = 0
    events: int = 0
    finished: int = 0
    epochs: int = 0
    regenerated: int = 0
    lost: int = 0
    most_lost: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[FaultSchedule, str]] = field(default_factory=list)

    def __iadd__(self, other: ScheduleOutcome) -> ScheduleOutcome:
        for name in ("schedules", "events", "finished", "epochs", "regenerated", "lost"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.most_lost = max(self.most_lost, other.most_lost)
        self.faults += other.faults
        self.failures += other.failures
        return self

    def __str__(self) -> str:
        faults = ", ".join(f"{kind} {many:,}" for kind, many in sorted(self.faults.items()))
        return (
            f"{self.schedules:,} schedules, {self.events:,} events, {self.faults.total():,} faults "
            f"({faults})\n"
            f"{self.finished:,} walks came to their end, in {self.epochs:,} epochs; "
            f"{self.regenerated:,} tokens were "
            f"restored by guardians; {self.lost:,} updates lost, at most {self.most_lost} in one "
            "walk\n"
            f"{len(self.failures):,} schedules broke an invariant"
        )


def play(schedule: FaultSchedule, make: Maker = real_node) -> ScheduleOutcome:
    """Run one schedule to its end; raise `Violation` if an invariant is broken.

    Examples
    --------
    >>> outcome = play(drawing()(1))
    >>> outcome.finished, outcome.events > 200
    (1, True)
    """
    world = World(schedule, make)
    loss = run_world(world)
    found = ScheduleOutcome(1, world.events, faults=world.done)
    if loss is not None:
        found.finished, (found.epochs, found.regenerated, found.lost) = 1, loss
        found.most_lost = loss.lost
    return found


def run_world(world: World) -> WalkCost | None:
    """Run a world with its faults, and then without; return the cost, or None if no end is
    promised.
    """
    world.run(world.schedule.until)
    world.heal()
    if not promised(world):
        world.run(world.schedule.until + 100.0)
        return None
    world.run(world.schedule.until + PATIENCE / 2)
    world.say_again()
    world.run(world.schedule.until + PATIENCE)
    if not world.finished:
        raise Violation(
            "progress",
            f"the walk has not come to its end {PATIENCE:,.0f} s after the end of all faults",
        )
    return world.invariants.judge(world.schedule.policy)


def promised(world: World) -> bool:
    """Return whether the walk must end: the remaining nodes are connected, and every leaving node
    has one of them as a neighbour. A node that waits for its neighbours' answers leaves later.
    """
    alive = [v for v, site in enumerate(world.sites) if not site.dead]
    near: dict[int, set[int]] = {v: set() for v in alive}
    edges = [(v, int(u)) for v in alive for u in world.fleet.network.neighbours(v)] + world.joined
    for v, u in edges:
        if v in near and u in near and v != u:
            near[v].add(u)
            near[u].add(v)
    leaving = {v for v in alive if world.sites[v].disk.own.leaving or _leaves_later(world, v)}
    staying = set(alive) - leaving
    return (
        len(staying) > 1 and _connected(staying, near) and all(near[v] - leaving for v in leaving)
    )


def _leaves_later(world: World, v: int) -> bool:
    node = world.sites[v].node
    return node is not None and any(isinstance(event, Leaves) for event in node.postponed)


def _connected(nodes: set[int], near: dict[int, set[int]]) -> bool:
    """Return whether each of the nodes reaches all others through them."""
    first = min(nodes)
    reached, waiting = {first}, [first]
    while waiting:
        new = (near[waiting.pop()] & nodes) - reached
        reached |= new
        waiting += new
    return reached == nodes


def sweep(
    seeds: Iterable[int],
    make: Maker = real_node,
    *,
    memory: bool = False,
    privacy: bool = False,
    grows: bool = False,
    checked: bool = False,
) -> ScheduleOutcome:
    """Run the schedules of these seeds, and collect the failures.

    With ``memory`` they are those of methods with memory at the nodes, with ``privacy`` those of
    methods with privacy, with ``grows`` those of fleets that grow, with ``checked`` those of
    guardians that compare models.

    Examples
    --------
    >>> sweep(range(3)).schedules
    3
    """
    total = ScheduleOutcome()
    for seed in seeds:
        schedule = drawing(memory=memory, privacy=privacy, grows=grows, checked=checked)(seed)
        try:
            total += play(schedule, make)
        except Violation as broken:
            total += ScheduleOutcome(1, failures=[(schedule, str(broken))])
    return total
