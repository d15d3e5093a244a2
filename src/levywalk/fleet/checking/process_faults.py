"""Faults of real processes: killed, stopped, disconnected, with lost disks; drawn at random,
several at once.

A fault is a generator: it does its harm, and yields the seconds until its next step. When it ends,
the fault is over. Only a `loss` is permanent.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from levywalk.fleet.checking.running_fleet import NONE, POLL, Links, RunningFleet, WalkProgress
from levywalk.fleet.storage.failpoints import FAILPOINTS

HEALS = 10.0  # seconds within which the walk continues after a fault …
DIES = 15.0  # … and, after a death, when dead_after has passed
LOST_DISK, ROLLBACK = "lost disk", "rollback"
WEIGHTS = {
    "kill": 7,
    "stop": 4,
    "failpoint": 4,
    "end": 2,
    LOST_DISK: 2,
    ROLLBACK: 2,
    "cut link": 3,
    "cut node": 3,
    "one way": 3,
}
WEIGHTS |= {"delay": 2, "reset": 3, "flapping": 2, "halves": 1}
_AT_CREATION = ("create", "mark")  # failpoints of a new store
_OF_FILES = ("write", "fsync", "rename", "folder", "remove")  # failpoints of large models


class ProcessFault(NamedTuple):
    """One fault, and its steps."""

    kind: str
    text: str
    stages: Iterator[float]


@dataclass
class FaultTally:
    """The faults that were injected, and how long the walk paused after each."""

    kinds: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(
        default_factory=list
    )  # seconds from the end of a fault until the walk went on
    after_loss: list[float] = field(default_factory=list)  # the same after a death
    timeline: list[str] = field(default_factory=list)

    def __add__(self, other: FaultTally) -> FaultTally:
        return FaultTally(
            self.kinds + other.kinds,
            self.waits + other.waits,
            self.after_loss + other.after_loss,
            self.timeline + other.timeline,
        )


class FaultInjector:
    """Injects faults into a running fleet.

    Parameters
    ----------
    patience
        Factor for the time within which the walk must continue; 1 is the promise on an idle
        machine.
    files
        Whether models are so large that they are stored in files, so that failpoints of files are
        reached.
    kinds
        The kinds of faults; None for all that the links support.
    """

    def __init__(
        self,
        live: RunningFleet,
        draws: random.Random,
        *,
        patience: float = 1.0,
        files: bool = False,
        kinds: tuple[str, ...] | None = None,
    ) -> None:
        self.live, self.draws, self.patience, self.files = live, draws, patience, files
        able = (
            "kill",
            "stop",
            "failpoint",
            "end",
            LOST_DISK,
            ROLLBACK,
            *(() if live.links is None else live.links.kinds),
        )
        self.kinds = [kind for kind in able if kinds is None or kind in kinds]
        self.tally = FaultTally()
        self.dead_after = live.fleet.terms.dead_after
        self._began = time.monotonic()
        self._whole: WalkProgress = NONE  # the progress since the last permanent loss
        self._made: dict[str, Callable[[int], tuple[str, Iterator[float]]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "failpoint": self._failpoint,
            "end": self._end,
            LOST_DISK: self._lost_disk,
            ROLLBACK: self._rollback,
            "cut link": self._cut_link,
            "cut node": self._cut_node,
            "one way": self._one_way,
            "flapping": self._flapping,
            "halves": self._halves,
            "delay": self._delay,
            "reset": self._reset,
        }

    def say(self, text: str) -> None:
        """Write down what happens."""
        self.tally.timeline.append(f"{time.monotonic() - self._began:8.2f}  {text}")

    # One round

    def strike(self, most: int = 3) -> int:
        """Inject one fault, or several at once, and check that the walk continues; return their
        number.
        """
        many = min(most, self.draws.choices((1, 2, 3), (6, 3, 1))[0])
        kinds = self.draws.choices(self.kinds, [WEIGHTS[kind] for kind in self.kinds], k=many)
        lost = [kind for kind in kinds if kind in (LOST_DISK, ROLLBACK)]
        if lost:  # one at a time: two disks could have both copies
            kinds = [lost[0], *(kind for kind in kinds if kind not in (LOST_DISK, ROLLBACK))]
            self.settle()
        roles, faults, taken = self.live.roles(), [], set[int]()
        for kind in kinds:
            fault, v = self.made(kind, roles, taken)
            taken.add(v)
            faults.append(fault)
        self.say(f"roles {roles}")
        self._play(faults)
        self.tally.kinds.update(fault.kind for fault in faults)
        since = self.live.pulse()
        waited = self.live.wait(since, HEALS * self.patience)
        self.tally.waits.append(waited)
        self.say(f"went on from {since} after {waited:.2f} s")
        return len(faults)

    def made(self, kind: str, roles: dict[str, int], taken: set[int]) -> tuple[ProcessFault, int]:
        """Return a fault of a kind, and the node that it is drawn for, which has none yet."""
        v = self._victim(roles, taken)
        return ProcessFault(kind, *self._made[kind](v)), v

    def _play(self, faults: list[ProcessFault]) -> None:
        due = [(time.monotonic(), fault) for fault in faults]
        for fault in faults:
            self.say(f"{fault.kind}: {fault.text}")
        while due:
            at, fault = min(due, key=lambda one: one[0])
            due.remove((at, fault))
            time.sleep(max(0.0, at - time.monotonic()))
            pause = next(fault.stages, None)
            if pause is not None:
                due.append((time.monotonic() + pause, fault))
            else:
                self.say(f"{fault.kind} is over: {fault.text}")

    def lose(self, role: str) -> float:
        """Kill the node that has a role (see `RunningFleet.catch`) for good; return the seconds
        until the walk continued.
        """
        self.settle()
        since = self.live.pulse()
        v = self.live.catch(role)
        self.live.kill(v)
        self.say(f"loss: node {v}, {role}")
        self.tally.kinds["loss"] += 1
        since = max(since, self.live.pulse())
        waited = self.live.wait(since, (self.dead_after + DIES) * self.patience)
        self.tally.after_loss.append(waited)
        self.say(f"went on after {waited:.2f} s")
        return waited

    def settle(self) -> None:
        """Wait until the model has a holder and a guardian again after an earlier loss."""
        while True:
            now = self.live.pulse()
            if now.epoch != self._whole.epoch:
                self._whole = now
            if now.transfers >= self._whole.transfers + 3:
                break
            self.live.wait(now, (self.dead_after + DIES) * self.patience)
        self._whole = NONE

    # Drawing

    def _victim(self, roles: dict[str, int], taken: set[int]) -> int:
        """Draw a node without a fault; mostly one that the walk needs at this moment."""
        free = [v for v in range(self.live.n) if v not in taken and self.live.runs(v)]
        wanted = [v for v in roles.values() if v in free]
        return self.draws.choice(wanted if wanted and self.draws.random() < 0.7 else free)

    def _span(self) -> float:
        """Return how long a fault lasts: mostly short, sometimes longer than ``dead_after``."""
        if self.draws.random() < 0.2:
            return self.dead_after * self.draws.uniform(1.2, 1.8)
        return self.dead_after * self.draws.choice((0.0, 0.05, 0.2, 0.5))

    def _kill(self, v: int) -> tuple[str, Iterator[float]]:
        span = self._span()

        def stages() -> Iterator[float]:
            self.live.kill(v)
            yield span
            self.live.start(v)

        return f"node {v} for {span:.1f} s", stages()

    def _stop(self, v: int) -> tuple[str, Iterator[float]]:
        span = self._span()

        def stages() -> Iterator[float]:
            self.live.freeze(v)
            yield span
            self.live.thaw(v)

        return f"node {v} for {span:.1f} s", stages()

    def _failpoint(self, v: int) -> tuple[str, Iterator[float]]:
        names = [
            name
            for name in FAILPOINTS
            if not name.startswith(_AT_CREATION) and (self.files or not name.startswith(_OF_FILES))
        ]
        where = f"{self.draws.choice(names)}:{self.draws.choice((1, 2, 3, 5, 8, 13, 30))}"
        return f"node {v} at {where}", self._dies_at(v, where)

    def _dies_at(self, v: int, where: str) -> Iterator[float]:
        self.live.kill(v)
        self.live.start(v, where)
        deadline = time.monotonic() + 3.0 + self.dead_after
        while self.live.runs(v) and time.monotonic() < deadline:
            yield POLL
        self.say(f"node {v} {'came' if not self.live.runs(v) else 'did not come'} to {where}")
        self.live.kill(v)
        self.live.start(v)

    def _end(self, v: int) -> tuple[str, Iterator[float]]:
        span = self._span() / 2

        def stages() -> Iterator[float]:
            self.live.end(v)
            yield span
            self.live.start(v)

        return f"node {v} for {span:.1f} s", stages()

    def _lost_disk(self, v: int) -> tuple[str, Iterator[float]]:
        where = None
        if self.draws.random() < 0.4:
            names = [name for name in FAILPOINTS if name.startswith(_AT_CREATION)]
            where = f"{self.draws.choice(names)}:1"

        def stages() -> Iterator[float]:
            self.live.kill(v)
            self.live.lose_disk(v)
            yield 0.0
            if where is None:
                self.live.start(v)
            else:
                yield from self._dies_at(v, where)

        return f"node {v}" + (f", which then dies at {where}" if where else ""), stages()

    def _rollback(self, v: int) -> tuple[str, Iterator[float]]:
        span = self.draws.choice((0.3, 1.0, 3.0))

        def stages() -> Iterator[float]:
            self.live.kill(v)
            self.live.back_up(v)
            self.live.start(v)
            while self.live.is_fenced(v) is None:
                yield POLL
            yield span
            self.live.kill(v)
            self.live.roll_back(v)
            self.live.start(v)
            while (fenced := self.live.is_fenced(v)) is None:
                yield POLL
            self.say(f"node {v} {'is fenced' if fenced else 'has lost nothing'}")
            self.live.settle_rollback(v, fenced=fenced)

        return f"node {v}, to {span:.1f} s before", stages()

    # Links

    @property
    def _links(self) -> Links:
        assert self.live.links is not None
        return self.live.links

    def _cut(self, ways: list[tuple[int, int]]) -> Iterator[float]:
        return self._cut_for(ways, max(0.3, self._span()))

    def _cut_for(self, ways: list[tuple[int, int]], span: float) -> Iterator[float]:
        for a, b in ways:
            self._links.cut(a, b)
        yield span
        for a, b in ways:
            self._links.heal(a, b)

    def _cut_link(self, v: int) -> tuple[str, Iterator[float]]:
        u = self.draws.choice(self.live.neighbours(v))
        return f"between {v} and {u}", self._cut([(v, u), (u, v)])

    def _cut_node(self, v: int) -> tuple[str, Iterator[float]]:
        return f"node {v}", self._cut(
            [way for u in self.live.neighbours(v) for way in ((v, u), (u, v))]
        )

    def _one_way(self, v: int) -> tuple[str, Iterator[float]]:
        u = self.draws.choice(self.live.neighbours(v))
        way = self.draws.choice(((v, u), (u, v)))
        return f"from {way[0]} to {way[1]}", self._cut([way])

    def _flapping(self, v: int) -> tuple[str, Iterator[float]]:
        u = self.draws.choice(self.live.neighbours(v))
        times = self.draws.choice((3, 5, 8))

        def stages() -> Iterator[float]:
            for _ in range(times):
                yield from self._cut_for(
                    [(v, u), (u, v)], self.dead_after * self.draws.uniform(0.05, 0.4)
                )
                yield self.dead_after * self.draws.uniform(0.02, 0.2)

        return f"between {v} and {u}, {times} times", stages()

    def _halves(self, v: int) -> tuple[str, Iterator[float]]:
        span = self.dead_after * self.draws.uniform(1.2, 1.8)
        half = nearest_half(self.live, v)
        return f"{half} and the others, for {span:.1f} s", self._cut_for(
            ways_between(self.live, half), span
        )

    def _delay(self, v: int) -> tuple[str, Iterator[float]]:
        late = self.draws.choice((0.02, 0.1, 0.5))

        def stages() -> Iterator[float]:
            self._links.delay(v, late)
            yield max(1.0, self._span())
            self._links.delay(v, 0.0)

        return f"node {v}, {late} s late", stages()

    def _reset(self, v: int) -> tuple[str, Iterator[float]]:
        u = self.draws.choice(self.live.neighbours(v))

        def stages() -> Iterator[float]:
            for _ in range(3):
                self._links.reset(v, u)
                yield 0.1

        return f"between {v} and {u}", stages()


def nearest_half(live: RunningFleet, v: int) -> list[int]:
    """Return half of the nodes, those that are nearest to one: they stay connected."""
    found = [v]
    for u in found:  # grows meanwhile
        found += [w for w in live.neighbours(u) if w not in found]
    return sorted(found[: live.n // 2])


def ways_between(live: RunningFleet, half: list[int]) -> list[tuple[int, int]]:
    """Return the ways between these nodes and all others, in both directions."""
    return [
        way for a in half for b in live.neighbours(a) if b not in half for way in ((a, b), (b, a))
    ]
