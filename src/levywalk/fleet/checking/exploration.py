"""What the model checker has found: how much it has explored, and the way to a violation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from levywalk.fleet.checking.small_fleet import SmallFleet
from levywalk.fleet.checking.states import Move, WorldState


class ExploredStep(NamedTuple):
    """The step that led to a state."""

    before: WorldState
    node: int
    move: Move
    ending: str  # "", "crash" or "death"
    effects: int  # number of effects that were performed before that


@dataclass
class Counterexample:
    """A broken invariant, and the shortest sequence of events that leads to it."""

    invariant: str
    what: str
    trace: list[str]

    def __str__(self) -> str:
        return "\n".join([f"{self.invariant}: {self.what}", *(f"  {line}" for line in self.trace)])


@dataclass
class Exploration:
    """The result of an exploration."""

    setting: SmallFleet
    states: int = 0
    transitions: int = 0
    runs: int = 0  # number of fair runs from different disks
    checked: int = 0  # number of states from which a fair run was checked
    paused: int = 0
    most_lost: int = 0
    seconds: float = 0.0
    complete: bool = False
    violation: Counterexample | None = None

    def __str__(self) -> str:
        end = "exhausted" if self.complete else "NOT exhausted"
        size = f"{self.states:9,} states {self.transitions:9,} transitions"
        fair = f"{self.runs:7,} fair runs {self.paused:5,} pauses"
        return (
            f"{self.setting.name:28}{size} {fair}  lost ≤ {self.most_lost} "
            f"{self.seconds:6.1f} s  {end}"
        )
