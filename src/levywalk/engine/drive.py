"""Take all replicas from checkpoint to checkpoint; return what happened."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np

from levywalk.arrays import Ints
from levywalk.engine import reference
from levywalk.engine.interrupt import Interruptible
from levywalk.engine.measure import Measure
from levywalk.engine.plan import Plan, State
from levywalk.engine.prepare import Job
from levywalk.errors import DivergedWarning
from levywalk.progress import Bar
from levywalk.trace import Trace

_PIECE = 1 << 16  # steps between two looks at Ctrl-C
_LOOK = 0.1  # seconds between two looks at the progress bar

Advance = Callable[[int, int], None]


def drive(job: Job, provenance: dict[str, Any], progress: bool | None) -> Trace:
    """Take all replicas through all checkpoints, each thread its own share of them."""
    plan = job.plan
    began = time.perf_counter()
    measure = Measure(plan.problem)
    state = State.new(plan, job.start, job.x0)
    record = Record(plan.replicas, len(job.checkpoints))
    with Interruptible() as interrupt:
        pace = Pace(plan.steps, interrupt)
        walks = [Walk(advance, state.rows(rows), rows, measure, record, pace) for rows, advance in _shares(job, state)]
        title = f"walking {provenance['design']['name']}"
        with Bar(title, plan.steps * len(walks), show=progress) as bar:
            if len(walks) == 1:
                walks[0].through(job.checkpoints, bar.advance)
            else:
                _side_by_side(walks, job.checkpoints, bar)
    points = int(np.searchsorted(job.checkpoints, pace.limit)) + 1
    step = np.append(job.checkpoints[: points - 1], pace.limit)
    provenance["interrupted"] = pace.limit < plan.steps
    provenance["seconds"] = time.perf_counter() - began
    return _trace(plan, state, measure, step, record.first(points), provenance)


class Record:
    """What is measured of each (replica, checkpoint)."""

    def __init__(self, replicas: int, checkpoints: int) -> None:
        self.errors = np.empty((3, replicas, checkpoints))  # distance2, excess_loss, loss
        self.counts = np.empty((2, replicas, checkpoints), np.int64)  # hops, transfers

    def first(self, points: int) -> Record:
        """Return the record of the first checkpoints."""
        part = Record(0, 0)
        part.errors, part.counts = self.errors[:, :, :points], self.counts[:, :, :points]
        return part


class Pace:
    """How far the walks may go: to the end, or after Ctrl-C to the furthest step that any of them has begun.

    So all replicas end at the same step, and no thread waits for another before that.
    """

    def __init__(self, steps: int, interrupt: Interruptible) -> None:
        self.limit = steps
        self.furthest = 0
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._settled = False

    def until(self, t: int, goal: int) -> int:
        """Return where the piece that begins at t ends."""
        with self._lock:
            if self._interrupt.requested and not self._settled:
                self.limit, self._settled = self.furthest, True
            stop = min(t + _PIECE, goal, self.limit)
            self.furthest = max(self.furthest, stop)
            return stop


class Walk:
    """One thread's share of the replicas on their way through the checkpoints."""

    def __init__(
        self, advance: Advance, state: State, rows: slice, measure: Measure, record: Record, pace: Pace
    ) -> None:
        self.advance, self.state, self.rows = advance, state, rows
        self.measure, self.record, self.pace = measure, record, pace
        self.done = 0

    def through(self, checkpoints: Ints, report: Callable[[int], None] = lambda steps: None) -> None:
        """Go through all checkpoints, or until Ctrl-C has set an earlier end."""
        for column, goal in enumerate(checkpoints.tolist()):
            while self.done < goal:
                stop = self.pace.until(self.done, goal)
                if stop == self.done:
                    break
                self.advance(self.done, stop)
                self.done, steps = stop, stop - self.done
                report(steps)
            self.note(column)
            if self.done < goal:
                return

    def note(self, column: int) -> None:
        """Measure the replicas into a column of the record."""
        self.record.errors[:, self.rows, column] = self.measure(self.state)
        self.record.counts[0, self.rows, column] = self.state.hops
        self.record.counts[1, self.rows, column] = self.state.transfers


def _side_by_side(walks: list[Walk], checkpoints: Ints, bar: Bar) -> None:
    """Let each walk have a thread; this one shows their progress and takes Ctrl-C."""
    with ThreadPoolExecutor(len(walks)) as pool:
        pending = {pool.submit(walk.through, checkpoints) for walk in walks}
        shown = 0
        while pending:
            finished, pending = wait(pending, timeout=_LOOK)
            done = sum(walk.done for walk in walks)
            bar.advance(done - shown)
            shown = done
            for future in finished:
                future.result()


def _shares(job: Job, state: State) -> list[tuple[slice, Advance]]:
    """Return each thread's replicas and what advances them; the oracle is plain Python and has one thread."""
    plan = job.plan
    if job.backend == "reference":
        everyone = range(plan.replicas)
        return [(slice(0, plan.replicas), partial(reference.advance, plan, state, everyone))]
    from levywalk.engine.kernels import KernelBackend

    backend = KernelBackend(plan)
    parts = np.array_split(np.arange(plan.replicas), min(job.threads, plan.replicas))
    blocks = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
    return [(slice(block.start, block.stop), backend.block(state, block).advance) for block in blocks]


def _trace(
    plan: Plan,
    state: State,
    measure: Measure,
    step: Ints,
    record: Record,
    provenance: dict[str, Any],
) -> Trace:
    distance2, excess, loss = record.errors
    hops, transfers = record.counts
    diverged = int((state.diverged_at >= 0).sum())
    if diverged:
        first = int(state.diverged_at[state.diverged_at >= 0].min())
        warnings.warn(
            f"{diverged} of {plan.replicas} replicas diverged, the first at step {first}; their errors are infinite "
            "from there on (trace.diverged_at); use a smaller step_size: up to 'theory' is stable",
            DivergedWarning,
            stacklevel=4,
        )
    token = 8 * plan.problem.dim + (8 * (plan.problem.dim + 3) if plan.detector is not None else 0)
    return Trace(
        step=step,
        distance2=distance2,
        excess_loss=excess,
        loss=loss,
        hops=hops,
        transfers=transfers,
        bytes=transfers * token,
        visits=state.visits if plan.record_visits else None,
        walk=state.walk[:, : int(step[-1])] if plan.record_walk else None,
        final_node=state.node,
        model=state.model,
        diverged_at=state.diverged_at,
        switched_at=state.switched_at,
        target=plan.phases[0].bound.law,
        optimum=measure.optimum,
        provenance=provenance,
    )
