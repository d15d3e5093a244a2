"""Random faults at nodes that carry several tokens: the invariants hold for each token.

Each token has a world of its own, because tokens share nothing but the nodes. The worlds have the
same schedule, and a fault that is meant for the holder or the guardian of the first token happens
to that node in all of them, whatever the node is to the other tokens.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from levywalk.fleet.checking.faults import FaultSchedule, ScheduledFault
from levywalk.fleet.checking.machines import Maker, real_node
from levywalk.fleet.checking.schedules import ScheduleOutcome, run_world
from levywalk.fleet.checking.world import World
from levywalk.fleet.protocol.published_walk import PublishedWalk
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.update_check_terms import CheckSettings, bound_check
from levywalk.privacy import bind_privacy

Chosen = dict[ScheduledFault, tuple[int, ...]]
_NOBODY = -99  # no node, and no role


class TokenWorld(World):
    """The world of one token. The first one says which nodes have the roles of a fault."""

    def __init__(self, schedule: FaultSchedule, make: Maker, fleet: Fleet, chosen: Chosen) -> None:
        self._chosen = chosen
        super().__init__(schedule, make, fleet=fleet)

    def _strike(self, fault: ScheduledFault) -> None:
        if fault not in self._chosen:
            roles = self._roles()
            nodes = tuple(v if v >= 0 else roles.get(v, _NOBODY) for v in fault.nodes)
            self._chosen[fault] = tuple(v if v >= 0 else _NOBODY for v in nodes)
        super()._strike(fault._replace(nodes=self._chosen[fault]))


def play_tokens(
    schedule: FaultSchedule, tokens: int = 2, make: Maker = real_node
) -> list[ScheduleOutcome]:
    """Run one schedule to its end for several tokens; return the outcome of each. An invariant
    that is broken for one of them is a `Violation`.

    Examples
    --------
    >>> from levywalk.fleet.checking.faults import draw
    >>> [outcome.finished for outcome in play_tokens(draw(1))]
    [1, 1]
    """
    fleet, drawn = schedule.fleet, Random(schedule.seed + 3)
    holders = [v for v in range(fleet.network.n) if fleet.index(v) >= 0]
    starts = (fleet.start, *(drawn.choice(holders) for _ in range(1, tokens)))
    fleet = replace(fleet, starts=starts, published=shared(fleet.published, tokens))
    chosen: Chosen = {}
    worlds = [TokenWorld(schedule, make, fleet.of_token(k), chosen) for k in range(tokens)]
    for fault in sorted(schedule.faults):
        for world in worlds:
            world.run(fault.at)
    return [_outcome(world) for world in worlds]


def shared(published: PublishedWalk, tokens: int) -> PublishedWalk:
    """Return what is published about a walk if several tokens share the budget of each node, and
    the false alarms of a whole run.
    """
    bound, check = published.method.privacy, published.check
    if bound is None:
        return published
    private = bind_privacy(bound.privacy, published.steps, tokens, checked=check is not None)
    published = replace(published, method=replace(published.method, privacy=private))
    if check is None:
        return published
    settings = CheckSettings(check.alarm, check.avoid_after, check.samples)
    return bound_check(published, settings, check.ridge, check.first)


def _outcome(world: World) -> ScheduleOutcome:
    cost = run_world(world)
    found = ScheduleOutcome(1, world.events, faults=world.done)
    if cost is not None:
        found.finished, (found.epochs, found.regenerated, found.lost) = 1, cost
    return found
