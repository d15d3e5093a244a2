"""Faults as plain records, and schedules of faults that are drawn from a seed.

=========  =========================================================================================
kind       what happens
=========  =========================================================================================
crash      a node stops after ``amount`` effects of its next event (of its next one that writes, if
           10 is added); it starts again with its disk
torn       the power fails during a node's next write, which happens as a whole (amount 1) or not at
           all (0)
full       a node's disk is full: its next write fails, the node stops, and starts again when there
           is room
die        like a crash, for ever; the operator says so later, unless the fleet is eager
wipe       the disk is lost: the operator says so, and the node starts again with nothing
rollback   a node stops, and starts again with its disk as it was ``amount`` writes ago; if it is
           fenced, the operator lets it rejoin some seconds later, as after a lost disk
cut        nothing gets from the first node to the second
split      nothing gets between the listed nodes and all others
deaf       a node hears nobody
mute       nobody hears a node
slow       everything that a node sends or does takes longer
storm      messages are lost everywhere
clock      a node's clock jumps ahead
silent     a guardian is told that its holder is silent, which may not be true
rumour     a node is told that a neighbour is gone for ever, which may not be true
revive     a node is told to continue the walk from its own copy, although the walk may be alive
joins      a new edge
grows      the operator tells a node a new size of the fleet: another L̄, and one node more
leaves     a node is asked to leave
=========  =========================================================================================

A node is given by its number, or by its role at that time: `HOLDER`, `GUARDIAN` or `NEXT`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

import numpy as np

from levywalk.fleet.protocol.terms import GuardianPolicy, HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.network import Network, erdos_renyi, grid, ring, star, watts_strogatz
from levywalk.problem import LeastSquares, Logistic, Problem, heterogeneous
from levywalk.walks import (
    Walk,
    least_used_edge,
    mhlj,
    oldest_neighbour,
    switching,
    unif_rw,
    weight_rw,
)

NETWORKS = ("ring", "ws", "grid", "er", "star")
DESIGNS = ("mhlj", "weight_rw", "unif_rw", "switching")
PROBLEMS = ("least squares", "logistic")
SOME_IDLE = "some idle"  # least squares of which every third node has no data; only if asked for
# Methods with memory at the nodes, or in the token: a design and an update; only if asked for.
WITH_MEMORY = (
    ("mhlj", "saga"),
    ("unif_rw", "saga"),
    ("least_used_edge", "sgd"),
    ("least_used_edge", "saga"),
    ("switching", "saga"),
    ("unif_rw", "point_saga"),
    ("oldest_neighbour", "sgd"),
    ("mhlj", "heavy_ball"),
)
# Methods with privacy, and a budget of four updates for each node; only if asked for.
WITH_PRIVACY = (
    ("mhlj", "sgd"),
    ("unif_rw", "saga"),
    ("least_used_edge", "saga"),
    ("switching", "sgd"),
    ("oldest_neighbour", "sgd"),
)
PRIVACY = "clip=1,noise=2,budget=4.4,scores=public"
# Methods whose updates guardians can compare; only if asked for.
CHECKED = (
    ("mhlj", "least squares"),
    ("unif_rw", "logistic"),
    ("weight_rw", "least squares"),
    ("least_used_edge", "least squares"),
    ("oldest_neighbour", "least squares"),
)
GROWING = (("mhlj", "sgd"), ("weight_rw", "sgd"), ("unif_rw", "saga"), ("mhlj", "saga"))
HOLDER, GUARDIAN, NEXT = -1, -2, -3
ROLES = (HOLDER, GUARDIAN, NEXT)
KINDS = (
    ("crash", 10),
    ("torn", 3),
    ("full", 2),
    ("die", 2),
    ("wipe", 1),
    ("cut", 5),
    ("split", 3),
    ("deaf", 2),
    ("mute", 2),
    ("slow", 2),
    ("storm", 1),
    ("clock", 1),
    ("silent", 3),
    ("rumour", 1),
    ("joins", 1),
    ("leaves", 1),
    ("revive", 1),
    ("rollback", 2),
)


class ScheduledFault(NamedTuple):
    """One fault: when, what, where, for how long. The meaning of ``amount`` depends on the kind."""

    at: float
    kind: str
    nodes: tuple[int, ...]
    lasts: float = 0.0
    amount: float = 0.0


@dataclass(frozen=True)
class FaultSchedule:
    """A run of a virtual fleet with all its faults. The whole run is determined by this.

    Attributes
    ----------
    loss, duplicates, delay
        The usual faults of the network: the probability that a message is lost or doubled, and the
        longest time that it takes.
    drift
        Clocks run at rates that differ from 1 by at most this, and start at any time.
    until
        When all faults end. From then on the walk must come to its end.

    Examples
    --------
    >>> schedule = draw(7)
    >>> FaultSchedule.read(schedule.to_json()) == schedule
    True
    """

    seed: int
    network: str
    nodes: int
    design: str
    problem: str
    steps: int
    renew_after: int
    policy: str
    shared_key: bool
    loss: float
    duplicates: float
    delay: float
    drift: float
    until: float
    faults: tuple[ScheduledFault, ...]
    update: str = "sgd"
    privacy: str | None = None
    checked: bool = False

    @property
    def fleet(self) -> Fleet:
        """The fleet of this schedule."""
        terms = HandOffTerms(
            run=b"%d" % self.seed,
            renew_after=self.renew_after,
            policy=self.policy,
            heartbeat=HEARTBEAT,
            dead_after=DEAD_AFTER,
            retry=RETRY,
        )
        fleet = _fleet(
            *(self.network, self.nodes, self.design, self.problem, self.steps),
            *(self.update, self.privacy, self.checked),
        )
        start = Random(self.seed).randrange(fleet.network.n)
        if fleet.index(start) < 0:  # the walk starts at a node with data
            start = fleet.start
        return replace(fleet, terms=terms, seed=self.seed, shared_key=self.shared_key, start=start)

    def to_json(self) -> str:
        """Return the schedule as JSON."""
        return json.dumps(asdict(self) | {"faults": [list(fault) for fault in self.faults]})

    @classmethod
    def read(cls, text: str) -> FaultSchedule:
        """Return the schedule that was written as JSON."""
        found = json.loads(text)
        faults = tuple(
            ScheduledFault(at, kind, tuple(nodes), *more)
            for at, kind, nodes, *more in found.pop("faults")
        )
        return cls(**found, faults=faults)


HEARTBEAT, DEAD_AFTER, RETRY = 6.0, 20.0, 2.0


def draw(seed: int, *, kinds: dict[str, int] | None = None, **fixed: Any) -> FaultSchedule:
    """Draw a schedule.

    Parameters
    ----------
    seed
        Each seed gives another schedule.
    kinds
        The kinds of faults, and how frequent each is relative to the others; see `KINDS`.
    fixed
        Fields of `FaultSchedule` that are given instead of drawn.

    Examples
    --------
    >>> draw(3) == draw(3), draw(3) == draw(4)
    (True, False)
    """
    rng = Random(seed)
    family = rng.choice(NETWORKS)
    nodes = rng.choice((5, 6, 7, 8, 9, 10, 12)) if rng.random() < 0.93 else rng.choice((16, 20, 30))
    mild = rng.random() < 0.3
    drawn: dict[str, Any] = {
        "network": family,
        "nodes": nodes,
        "design": rng.choice(DESIGNS),
        "problem": rng.choice(PROBLEMS),
        "steps": rng.randrange(30, 60),
        "renew_after": rng.choice((3, 4, 5, 8, 13, 20)),
        "policy": GuardianPolicy.EAGER if rng.random() < 0.15 else GuardianPolicy.WAIT,
        "shared_key": rng.random() < 0.5,
        "loss": 0.0 if mild else rng.choice((0.0, 0.02, 0.1)),
        "duplicates": 0.0 if mild else rng.choice((0.0, 0.05, 0.2)),
        "delay": rng.choice((0.4, 1.0, 2.0)),
        "drift": rng.choice((0.0, 0.02, 0.2)),
        "until": rng.choice((60.0, 100.0, 150.0)),
    } | fixed
    weights = dict(KINDS) if kinds is None else kinds
    network = _network(drawn["network"], drawn["nodes"])
    many = rng.randrange(8, 25)
    times = _times(rng, many, drawn["until"])
    chosen = rng.choices(list(weights), list(weights.values()), k=many)
    faults = tuple(_fault(rng, network, at, kind) for at, kind in zip(times, chosen, strict=True))
    everything: dict[str, Any] = {"seed": seed, "faults": faults} | drawn
    return FaultSchedule(**everything)


def draw_with_memory(seed: int) -> FaultSchedule:
    """Draw a schedule for a method with memory at the nodes or in the token. Its faults are those
    of `draw`.

    Examples
    --------
    >>> draw_with_memory(2).design, draw_with_memory(2).faults == draw(2).faults
    ('least_used_edge', True)
    """
    design, update = WITH_MEMORY[seed % len(WITH_MEMORY)]
    return draw(seed, design=design, update=update)


def draw_with_privacy(seed: int) -> FaultSchedule:
    """Draw a schedule for a method with privacy. Its faults are those of `draw`.

    Examples
    --------
    >>> draw_with_privacy(2).fleet.published.privacy.cap, draw_with_privacy(2).update
    (4, 'saga')
    """
    design, update = WITH_PRIVACY[seed % len(WITH_PRIVACY)]
    return draw(seed, design=design, update=update, privacy=PRIVACY)


def draw_checked(seed: int) -> FaultSchedule:
    """Draw a schedule in which guardians compare models; in every other one without noise. Its
    faults are those of `draw`.

    Examples
    --------
    >>> draw_checked(2).fleet.published.check.clip, draw_checked(3).privacy
    (1.0, 'clip=1,noise=2,budget=4.4,scores=public')
    """
    design, problem = CHECKED[seed % len(CHECKED)]
    privacy = PRIVACY if seed % 2 else "clip=1,noise=0"
    return draw(seed, design=design, problem=problem, privacy=privacy, checked=True)


def draw_growing(seed: int) -> FaultSchedule:
    """Draw a schedule in which the fleet grows three times, of a method whose updates depend on its
    size. The other faults are those of `draw`.

    Examples
    --------
    >>> [fault.kind for fault in draw_growing(2).faults].count("grows")
    3
    """
    design, update = GROWING[seed % len(GROWING)]
    found = draw(seed, design=design, update=update)
    rng = Random(seed + 3)
    nodes = _network(found.network, found.nodes).n
    grows = [
        ScheduledFault(
            round(rng.uniform(0.0, found.until / 2), 2), "grows", (rng.randrange(nodes),)
        )
        for _ in range(3)
    ]
    return replace(found, faults=tuple(sorted([*found.faults, *grows])))


def drawing(
    *, memory: bool = False, privacy: bool = False, grows: bool = False, checked: bool = False
) -> Callable[[int], FaultSchedule]:
    """Return the function that draws schedules of such methods, or of fleets that grow."""
    if checked:
        return draw_checked
    if grows:
        return draw_growing
    return draw_with_privacy if privacy else draw_with_memory if memory else draw


def _times(rng: Random, many: int, until: float) -> list[float]:
    """Return the times of the faults: often several at about the same time."""
    times: list[float] = []
    while len(times) < many:
        first = rng.uniform(0.0, until)
        times += [
            min(until, first + rng.uniform(0.0, 3.0)) for _ in range(rng.choice((1, 1, 2, 3, 4)))
        ]
    return sorted(round(time, 2) for time in times[:many])


def _fault(rng: Random, network: Network, at: float, kind: str) -> ScheduledFault:
    v = rng.choice(ROLES) if rng.random() < 0.6 else rng.randrange(network.n)
    short, long = round(rng.uniform(0.5, 8.0), 2), round(rng.uniform(5.0, 60.0), 2)
    lasts = short if rng.random() < 0.6 else long
    if kind in ("cut", "rumour"):
        return ScheduledFault(at, kind, (v, _other(rng, network, v)), lasts)
    if kind == "joins":
        v = rng.randrange(network.n)
        others = sorted(set(range(network.n)) - set(network.neighbours(v).tolist()) - {v})
        return (
            ScheduledFault(at, kind, (v, rng.choice(others)))
            if others
            else ScheduledFault(at, "silent", (v,))
        )
    if kind == "split":
        return ScheduledFault(
            at,
            kind,
            tuple(sorted(rng.sample(range(network.n), rng.randrange(1, network.n // 2 + 1)))),
            lasts,
        )
    if kind in ("crash", "die", "wipe"):
        return ScheduledFault(
            at,
            kind,
            (v,),
            long if kind == "die" else lasts,
            rng.randrange(5) + 10 * rng.randrange(2),
        )
    if kind == "rollback":
        return ScheduledFault(at, kind, (v,), short, rng.choice((1, 1, 2, 3, 5, 10, 30, 100)))
    if kind == "torn":
        return ScheduledFault(at, kind, (v,), lasts, rng.randrange(2))
    if kind == "slow":
        return ScheduledFault(at, kind, (v,), lasts, round(rng.uniform(1.0, 10.0), 2))
    if kind == "storm":
        return ScheduledFault(at, kind, (), lasts, round(rng.uniform(0.2, 0.8), 2))
    if kind == "clock":
        return ScheduledFault(at, kind, (v,), 0.0, round(rng.uniform(1.0, 100.0), 2))
    return ScheduledFault(at, kind, (v,), lasts)


def _other(rng: Random, network: Network, v: int) -> int:
    if v < 0:
        return rng.choice([role for role in ROLES if role != v])
    return int(rng.choice(network.neighbours(v).tolist()))


@lru_cache(maxsize=256)
def _network(family: str, n: int) -> Network:
    if family == "ring":
        return ring(n)
    if family == "ws":
        return watts_strogatz(n, 4 if n > 5 else 2, 0.2, seed=n)
    if family == "grid":
        return grid(2, max(3, n // 2)) if n < 12 else grid(3, n // 3)
    if family == "er":
        return erdos_renyi(n, min(0.9, 4.0 / n), seed=n).largest_component()
    return star(n)


@lru_cache(maxsize=256)
def _problem(kind: str, n: int) -> Problem:
    if kind == "least squares":
        return heterogeneous(n, dim=3, sigma2_high=20.0, important=1, seed=n)
    if kind == SOME_IDLE:
        whole = heterogeneous(n, dim=3, sigma2_high=20.0, important=1, seed=n)
        holders = np.flatnonzero(np.arange(n) % 3)
        return LeastSquares(
            whole.features[holders], whole.targets[holders], node=holders, idle="pass"
        )
    rng = np.random.default_rng(n)
    features = rng.normal(size=(2 * n, 2)) * np.where(np.arange(2 * n) < 2, 3.0, 1.0)[:, None]
    return Logistic(features, rng.integers(0, 2, 2 * n), node=np.repeat(np.arange(n), 2), ridge=0.1)


def _design(name: str) -> Walk:
    if name == "mhlj":
        return mhlj(p_jump=0.3)
    if name == "weight_rw":
        return weight_rw()
    if name == "unif_rw":
        return unif_rw()
    if name == "least_used_edge":
        return least_used_edge()
    if name == "oldest_neighbour":
        return oldest_neighbour()
    return switching(mhlj(p_jump=0.3), unif_rw(), threshold=0.5, window=5, patience=3)


@lru_cache(maxsize=1024)
def _fleet(
    family: str,
    n: int,
    design: str,
    problem: str,
    steps: int,
    update: str,
    privacy: str | None,
    checked: bool,
) -> Fleet:
    network = _network(family, n)
    return Fleet.of(
        network,
        _problem(problem, network.n),
        _design(design),
        steps=steps,
        step_size=0.01,
        record_every=1,
        update=update,
        privacy=privacy,
        check_updates=checked,
    )
