"""Take all replicas from checkpoint to checkpoint; return what happened."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.engine import reference
from levywalk.engine.interrupt import Interruptible
from levywalk.engine.measure import Measure
from levywalk.engine.plan import Plan, State
from levywalk.engine.prepare import Job
from levywalk.errors import DivergedWarning
from levywalk.progress import Bar
from levywalk.trace import Trace

_PIECE = 1 << 16  # steps between two looks at Ctrl-C and the progress bar

Advance = Callable[[int, int], None]


def drive(job: Job, provenance: dict[str, Any], progress: bool | None) -> Trace:
    """Take all replicas from checkpoint to checkpoint."""
    plan = job.plan
    began = time.perf_counter()
    measure = Measure(plan.problem)
    state = State.new(plan, job.start, job.x0)
    blocks = _blocks(job, state)
    rows: list[tuple[Floats | Ints, ...]] = []
    done: list[int] = []

    def checkpoint(t: int) -> None:
        done.append(t)
        rows.append((*measure(state), state.hops.copy(), state.transfers.copy()))

    title = f"walking {provenance['design']['name']}"
    with (
        Interruptible() as interrupt,
        Bar(title, plan.steps, show=progress) as bar,
        ThreadPoolExecutor(len(blocks)) as pool,
    ):
        checkpoint(0)
        for goal in job.checkpoints[1:].tolist():
            t = done[-1]
            while t < goal and not interrupt.requested:
                stop = min(t + _PIECE, goal)
                others = [pool.submit(advance, t, stop) for advance in blocks[1:]]
                blocks[0](t, stop)
                for other in others:
                    other.result()
                bar.advance(stop - t)
                t = stop
            if t > done[-1]:
                checkpoint(t)
            if interrupt.requested:
                break
    provenance["interrupted"] = done[-1] < plan.steps
    provenance["seconds"] = time.perf_counter() - began
    return _trace(plan, state, measure, np.array(done), rows, provenance)


def _blocks(job: Job, state: State) -> list[Advance]:
    """Return what advances each thread's share of the replicas."""
    plan = job.plan
    parts = np.array_split(np.arange(plan.replicas), min(job.threads, plan.replicas))
    blocks = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
    if job.backend == "reference":
        return [partial(reference.advance, plan, state, block) for block in blocks]
    from levywalk.engine.kernels import KernelBackend

    backend = KernelBackend(plan)
    return [backend.block(state, block).advance for block in blocks]


def _trace(
    plan: Plan,
    state: State,
    measure: Measure,
    step: Ints,
    rows: list[tuple[Floats | Ints, ...]],
    provenance: dict[str, Any],
) -> Trace:
    distance2, excess, loss, hops, transfers = (np.stack(column, axis=1) for column in zip(*rows, strict=True))
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
        hops=hops.astype(np.int64),
        transfers=transfers.astype(np.int64),
        bytes=transfers.astype(np.int64) * token,
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
