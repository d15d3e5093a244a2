"""How long `levywalk reproduce` will take: a first pass with invented results counts its tasks."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.progress import Bar, time_left_text
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.measurement import geometric_checkpoints
from levywalk.reproduction.paper import Effort
from levywalk.reproduction.tuning import Outcome
from levywalk.sweeps.store import canonical

Question = Callable[[Evidence], Any]

# Seconds on one core, measured once; only their ratios matter, because the speed is observed.
_TASK, _UPDATE, _THEORY = 0.02, 15e-9, 0.7
_CURVES = ("distance", "median", "excess", "hops", "transfers")


def cost(description: Mapping[str, Any]) -> float:
    """Return about how many seconds a task takes.

    Examples
    --------
    >>> round(cost({"steps": 400_000, "walks": 64, "relative": [0.1, 1.0, 10.0]}), 2)
    1.17
    """
    if "ask" in description:
        return _THEORY
    return _TASK + _UPDATE * float(
        description["steps"] * description["walks"] * len(description["relative"])
    )


def invented_result(description: Mapping[str, Any]) -> Outcome:
    """Return an invented answer of `measurement.measure`, in which the middle one of several step
    sizes is best.
    """
    numbers: dict[str, Any] = defaultdict(lambda: 1.0)
    if "ask" in description:
        return {}, numbers
    step = np.append(0, geometric_checkpoints(description["steps"]))
    sizes = len(description["relative"])
    speed = 1.0 / (1.0 + np.abs(np.arange(sizes) - sizes // 2))
    curve = np.exp(-30.0 * np.outer(speed, step / step[-1]))
    numbers["switched_at"] = [int(step[-1]) // 2] * sizes
    return {"step": step, **dict.fromkeys(_CURVES, curve)}, numbers


@dataclass
class TimeEstimate:
    """The tasks that questions will need, one question after the other, and how many are done.

    Examples
    --------
    >>> from levywalk.reproduction import paper
    >>> from levywalk.reproduction.claims import CLAIMS
    >>> estimate = TimeEstimate({"homo": CLAIMS[0], "limit": CLAIMS[9]}, paper.QUICK)
    >>> estimate.tasks > 50, estimate.left()
    (True, None)
    """

    questions: Mapping[str, Question]
    effort: Effort
    tasks: int = 0  # approximate number of tasks: a grid may be extended
    done: int = 0
    now: str = ""
    _counted_tasks: set[str] = field(default_factory=set)
    _ends: dict[str, float] = field(
        default_factory=dict
    )  # the cost of all questions up to this one
    _at: float = 0.0  # the cost of what is done
    _computed: float = 0.0  # the cost of what was computed, and not read
    _seconds: float = 0.0  # seconds spent on that
    _since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        counted = Evidence(self.effort, self._counted)
        for name, question in self.questions.items():
            question(counted)
            self._ends[name] = self._at
        self.tasks, self._at = len(self._counted_tasks), 0.0
        self._counted_tasks.clear()

    def _counted(self, descriptions: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        self._at += sum(cost(description) for description in self._fresh(descriptions))
        return [invented_result(description) for description in descriptions]

    def _fresh(self, descriptions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the descriptions that are new."""
        met = {canonical(description): description for description in descriptions}
        fresh = [
            description for text, description in met.items() if text not in self._counted_tasks
        ]
        self._counted_tasks.update(met)
        return fresh

    def begin(self, name: str) -> None:
        """Set the question that is asked now; those before it are done, whatever was estimated."""
        names = list(self.questions)
        before = names.index(name)
        self._at = self._ends[names[before - 1]] if before else 0.0
        self.now = f"[{name}] {before + 1} of {len(names)}"

    def answered(
        self, descriptions: Sequence[Mapping[str, Any]], computed: int, seconds: float
    ) -> None:
        """Count tasks as done: how many of them were computed and not read, and the seconds that
        took.
        """
        fresh = self._fresh(descriptions)
        self.done += len(fresh)
        self._at += sum(cost(description) for description in fresh)
        if computed:
            self._computed += computed * cost(descriptions[0])
            self._seconds += seconds
        self._since = time.monotonic()

    @property
    def share(self) -> float:
        """The share of the work that is done, by cost."""
        total = max(self._ends.values(), default=0.0)
        return min(self._at / total, 1.0) if total else 0.0

    def left(self) -> float | None:
        """Return the seconds left at the speed so far, if anything was computed."""
        if not self._computed:
            return None
        total = max(self._ends.values(), default=0.0)
        left = max(total - self._at, 0.0) * self._seconds / self._computed
        return max(left - (time.monotonic() - self._since), 0.0)


class TimeEstimateBar(Bar):
    """Shows the question, the number of tasks and the time left; if nothing is shown, nothing is
    counted.

    Examples
    --------
    >>> from levywalk.reproduction import paper
    >>> with TimeEstimateBar({}, paper.QUICK, show=False) as bar:
    ...     bar.begin("homo")
    """

    def __init__(
        self, questions: Mapping[str, Question], effort: Effort, show: bool | None = None
    ) -> None:
        super().__init__("counting the work", 1.0, show=show, patience=0.0)
        self.estimate: TimeEstimate | None = None
        if self.show:
            self.advance(0)
            self.estimate = TimeEstimate(questions, effort)

    def begin(self, name: str) -> None:
        """Set the question that is asked now."""
        if self.estimate is not None:
            self.estimate.begin(name)
            self._update(self.estimate)

    def answered(
        self, descriptions: Sequence[Mapping[str, Any]], computed: int, seconds: float
    ) -> None:
        """Count tasks as done; see `TimeEstimate.answered`."""
        if self.estimate is not None:
            self.estimate.answered(descriptions, computed, seconds)
            self._update(self.estimate)

    def _update(self, estimate: TimeEstimate) -> None:
        self.title = f"{estimate.now}, {estimate.done:,} of about {estimate.tasks:,} tasks"
        self.advance(estimate.share - self._done)

    def time_left(self) -> str:
        """Return the time left as text, by what the tasks cost."""
        return "" if self.estimate is None else time_left_text(self.estimate.left())

    def columns(self) -> list[Any]:
        """Return what the bar shows in a terminal."""
        from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
        from rich.text import Text

        class Left(ProgressColumn):
            def render(_, task: Task) -> Text:  # noqa: N805 (self is the bar)
                return Text(self.time_left())

        return [TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), Left()]
