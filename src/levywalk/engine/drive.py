"""Advance all replicas from checkpoint to checkpoint, and return the trace."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Ints
from levywalk.engine.interrupt import Interruptible
from levywalk.engine.measure import Measure
from levywalk.engine.prepare import Job
from levywalk.engine.reference import ReferenceBackend
from levywalk.engine.resume import RunProgress, StateFile
from levywalk.engine.run_state import RunPlan, RunRecord, RunState
from levywalk.engine.standings import Standings
from levywalk.engine.threads import Pace, Share, equal_shares, side_by_side
from levywalk.errors import DivergedWarning
from levywalk.progress import Bar
from levywalk.trace import Trace

_PIECE = 1 << 16  # steps between two checks for Ctrl-C, or fewer …
_PIECE_SECONDS = 0.1  # … if they would take longer than about this
_FIRST_PIECE = 64  # steps of the first piece, before the time per step is known
_MODELS = 1 << 16  # entries of models that are stored to be measured together

Through = Callable[[int, Ints], Standings]


def drive(
    job: Job, provenance: dict[str, Any], progress: bool | None, file: StateFile | None = None
) -> Trace:
    """Advance all replicas through all checkpoints; each thread advances its share of the replicas.

    With a file, the run is resumed from the state in it. From time to time all shares stop at the
    same step, and their state is written to the file.
    """
    plan = job.plan
    measure = Measure(plan.problem, job.loss_nodes, only_distance=job.only_distance)
    state, record = (
        RunState.new(plan, job.start, job.x0),
        RunRecord(plan.replicas, len(job.checkpoints)),
    )
    with Interruptible() as interrupt, file or nullcontext():
        so_far = file.load(state, record) if file else RunProgress()
        before, began = so_far.seconds, time.perf_counter()
        shares = _shares(job, state) if so_far.done < plan.steps else []
        walks = [
            RunShare(go, state.rows(rows), measure, record, rows, so_far.done)
            for rows, go in shares
        ]
        title = f"walking {provenance['design']['name']}"
        with Bar(
            title, plan.steps * len(walks), done=so_far.done * len(walks), show=progress
        ) as bar:
            while so_far.done < plan.steps:
                deadline = time.monotonic() + file.pause if file else math.inf
                pace = Pace(so_far.done, plan.steps, _piece(job), interrupt, deadline)
                so_far.done = side_by_side(walks, job.checkpoints, pace, bar)
                so_far.seconds = before + time.perf_counter() - began
                if file:
                    file.save(state, record, so_far)
                if interrupt.requested:
                    break
    points = int(np.searchsorted(job.checkpoints, so_far.done)) + 1
    step = np.append(job.checkpoints[: points - 1], so_far.done)
    provenance["loss"] = measure.describe()
    provenance["interrupted"] = so_far.done < plan.steps
    provenance["resumed_at"] = so_far.resumed_at
    provenance["seconds"] = so_far.seconds
    return _trace(plan, state, measure, step, record, provenance)


class RunShare(Share):
    """One thread's replicas of a run.

    ``go`` advances them through some marks, and they are measured at each mark.
    """

    def __init__(
        self,
        go: Through,
        state: RunState,
        measure: Measure,
        record: RunRecord,
        rows: slice,
        done: int,
    ) -> None:
        self.go, self.measure, self.done = go, measure, done
        self.errors, self.counts = record.errors[rows], record.counts[rows]
        self.most = max(1, _MODELS // state.model.size)  # marks per call
        self.piece = _FIRST_PIECE
        if done == 0:
            self.note(_standing(state), 0)

    def goals(self, marks: Ints, column: int) -> Ints:
        """Return the next marks, limited by the memory for their models."""
        return marks[column : column + self.most]

    def most_steps(self) -> int:
        """Return how many steps take about a tenth of a second."""
        return self.piece

    def advance(self, marks: Ints, column: int) -> None:
        """Walk through the marks and measure at each."""
        began = time.perf_counter()
        self.note(self.go(self.done, marks), column)
        # Pieces become longer while they take little time, and shorter if a step or a checkpoint
        # costs more than expected.
        per_step = (time.perf_counter() - began) / (int(marks[-1]) - self.done)
        self.piece = max(1, min(4 * self.piece, int(_PIECE_SECONDS / max(per_step, 1e-9))))

    def note(self, seen: Standings, column: int) -> None:
        """Measure the models and write the results into the record, starting at this column."""
        self.measure(seen, self.errors, column)
        here = slice(column, column + seen.hops.shape[1])
        self.counts[:, 0, here], self.counts[:, 1, here] = seen.hops, seen.transfers
        self.counts[:, 2, here] = seen.small_messages


def _piece(job: Job) -> int:
    """Return the largest number of steps between two checks for Ctrl-C and the time."""
    plan = job.plan
    samples = getattr(plan.problem, "n_samples", plan.problem.n) / plan.problem.n
    if job.backend == "kernel":
        nanoseconds = 10.0 + 0.5 * plan.problem.dim * min(
            samples, getattr(plan.update, "minibatch", None) or samples
        )
        nanoseconds *= -(-plan.replicas // job.threads)
    else:
        nanoseconds = 2e4 * plan.replicas
    return max(1, min(_PIECE, int(_PIECE_SECONDS * 1e9 / nanoseconds)))


def _shares(job: Job, state: RunState) -> list[tuple[slice, Through]]:
    """Return each thread's replicas and the function that advances them.

    The reference backend is plain Python and uses one thread.
    """
    plan = job.plan
    if job.backend == "reference":
        advance = ReferenceBackend(plan, state).advance
        return [(slice(0, plan.replicas), partial(_by_steps, state, advance))]
    from levywalk.engine.kernels import KernelBackend

    backend = KernelBackend(plan)
    return [
        (rows, backend.block(state, range(rows.start, rows.stop)).through)
        for rows in equal_shares(plan.replicas, job.threads)
    ]


def _standing(state: RunState) -> Standings:
    """Return the current state of the replicas as one mark."""
    return Standings(*(getattr(state, name)[:, None] for name in Standings._fields))


def _by_steps(
    state: RunState, advance: Callable[[int, int], None], start: int, marks: Ints
) -> Standings:
    return Standings.by_steps(state, start, marks, advance)


def _trace(
    plan: RunPlan,
    state: RunState,
    measure: Measure,
    step: Ints,
    record: RunRecord,
    provenance: dict[str, Any],
) -> Trace:
    points = len(step)
    distance2, excess, loss = (record.errors[:, i, :points] for i in range(3))
    hops, transfers, small_messages = (record.counts[:, i, :points] for i in range(3))
    diverged = int((state.diverged_at >= 0).sum())
    if diverged:
        first = int(state.diverged_at[state.diverged_at >= 0].min())
        warnings.warn(
            f"{diverged} of {plan.replicas} replicas diverged, the first at step {first}; their "
            "errors are infinite "
            "from there on (trace.diverged_at); use a smaller step_size: up to 'theory' is stable",
            DivergedWarning,
            stacklevel=4,
        )
    return Trace(
        step=step,
        distance2=distance2,
        excess_loss=excess,
        loss=loss,
        hops=hops,
        transfers=transfers,
        bytes=transfers * plan.method.token_bytes,
        small_messages=small_messages,
        visits=state.visits if plan.record_visits else None,
        walk=state.walk[:, : int(step[-1])] if plan.record_walk else None,
        final_node=state.node,
        model=state.model,
        diverged_at=state.diverged_at,
        switched_at=state.switched_at,
        memory=_memory(state) if plan.record_memory else None,
        target=plan.phases[0].bound.law,
        optimum=measure.optimum,
        provenance=provenance,
    )


def _memory(state: RunState) -> dict[str, AnyArray]:
    """Return the memory of tokens and nodes at the end, by name."""
    return state.token_memory | state.node_memory
