"""Shorten a schedule that breaks an invariant until it can be read, and write down what happens in
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from levywalk.fleet.checking.faults import FaultSchedule
from levywalk.fleet.checking.machines import Maker, real_node
from levywalk.fleet.checking.schedules import run_world
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.world import World

SIMPLER: tuple[dict[str, Any], ...] = (
    {"loss": 0.0},
    {"duplicates": 0.0},
    {"drift": 0.0},
    {"design": "unif_rw"},
    {"problem": "least squares"},
    {"shared_key": True},
    {"policy": "wait"},
    {"network": "ring", "nodes": 5},
    {"nodes": 5},
    {"nodes": 6},
    {"steps": 30},
)


def violation(schedule: FaultSchedule, make: Maker = real_node) -> Violation | None:
    """Return the invariant that a schedule breaks, or None."""
    try:
        run_world(World(schedule, make))
    except Violation as found:
        return found
    return None


def shrink(schedule: FaultSchedule, make: Maker = real_node) -> FaultSchedule:
    """Return a simpler schedule that breaks the same invariant.

    Faults are left out, in halves, quarters and so on, as long as the same invariant is broken.
    Then the network and its faults are simplified where possible.
    """
    found = violation(schedule, make)
    if found is None:
        return schedule
    which = found.which

    def fails(tried: FaultSchedule) -> bool:
        again = violation(tried, make)
        return again is not None and again.which == which

    before = None
    while schedule != before:
        before = schedule
        schedule = _fewer_faults(schedule, fails)
        for change in SIMPLER:
            tried = _smaller(replace(schedule, **change))
            if tried != schedule and fails(tried):
                schedule = tried
    return schedule


def _fewer_faults(schedule: FaultSchedule, fails: Callable[[FaultSchedule], bool]) -> FaultSchedule:
    size = len(schedule.faults)
    while size >= 1:
        for tried in _without(schedule, size):
            if fails(tried):
                schedule = tried
                break
        else:
            size //= 2
    return schedule


def _without(schedule: FaultSchedule, size: int) -> Iterator[FaultSchedule]:
    faults = schedule.faults
    for i in range(0, len(faults), size):
        yield replace(schedule, faults=faults[:i] + faults[i + size :])


def _smaller(schedule: FaultSchedule) -> FaultSchedule:
    """Return the schedule without faults at nodes that do not exist."""
    n = schedule.fleet.network.n
    return replace(
        schedule, faults=tuple(f for f in schedule.faults if all(v < n for v in f.nodes))
    )


def transcript(
    schedule: FaultSchedule, make: Maker = real_node, *, heartbeats: bool = False
) -> str:
    """Return what every node did and when, line by line, up to the violation if there is one.

    Examples
    --------
    >>> from levywalk.fleet.checking.faults import draw
    >>> print(transcript(draw(1)).splitlines()[-1])
    holds
    """
    world = World(schedule, make, keep=True)
    try:
        run_world(world)
        verdict = "holds"
    except Violation as found:
        verdict = f"BROKEN  {found}"
    assert world.transcript is not None
    dull = () if heartbeats else ("Heartbeat", "Alive")
    lines = [line for line in world.transcript if not any(word in line for word in dull)]
    return "\n".join([schedule.to_json(), *lines, verdict])
