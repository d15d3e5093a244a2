"""Whether the numbers of a state file can be those of a run.

What comes from a file is hostile until it is checked.
"""

from __future__ import annotations

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.engine.prepare import Job
from levywalk.engine.run_state import RunRecord, RunState
from levywalk.privacy import RELEASES
from levywalk.problem import known_optimum


def contradiction(job: Job, state: RunState, record: RunRecord, done: int) -> str | None:
    """Return what no run could have written after ``done`` steps, or None.

    Nodes and phases lead a kernel to memory; the rest would make a wrong trace.
    """
    if not _within(state.active.view(np.uint8), 0, 1):  # first: numpy trusts a mask
        return "a flag is neither 0 nor 1"
    plan, checkpoints = job.run_plan, job.checkpoints
    longest = plan.method.max_hops
    active, switched = state.active, state.switched_at >= 0
    seen = int(
        np.searchsorted(checkpoints, done, side="right")
    )  # checkpoints that have been measured
    counts, errors = record.counts[:, :, :seen], record.errors[:, :, :seen]
    hops, transfers = counts[:, 0], counts[:, 1]
    walked = state.walk[:, :done]
    claims = {
        "a node lies outside of the network": _within(state.node, 0, plan.network.n - 1),
        "a model is not finite": np.isfinite(state.model).all(),
        "hops do not fit the steps": _within(state.hops, done, done * longest),
        "there are more transfers than hops": (state.transfers >= 0).all()
        and (state.transfers <= state.hops).all(),
        "a step of divergence does not fit": _within(state.diverged_at, -1, done - 1)
        and np.array_equal(active, state.diverged_at < 0),
        "a step of switching does not fit": _within(state.switched_at, -1, done - 1)
        and np.array_equal(switched, state.phase == 1),
        "a phase does not exist": _within(state.phase, 0, len(plan.phases) - 1),
        "the detector's state is impossible": _possible_detector(state, done),
        "the node before lies outside of the network": _within(
            state.came_from, -1, plan.network.n - 1
        ),
        "there is a negative number of small messages": (state.small_messages >= 0).all(),
        "visits do not sum to the steps": not plan.record_visits
        or (_within(state.visits, 0, done) and (state.visits.sum(axis=1) == done).all()),
        "the walk leaves the network": _within(walked, 0, plan.network.n - 1),
        "hops or transfers were lost on the way": (np.diff(counts, axis=2) >= 0).all()
        and (transfers >= 0).all()
        and (transfers <= hops).all()
        and (hops >= checkpoints[:seen]).all()
        and (
            counts
            <= np.stack([state.hops, state.transfers, state.small_messages], axis=1)[:, :, None]
        ).all(),
        "time runs backwards": _possible_time(job, record, seen),
        "a node has made more updates than its budget allows": _possible_releases(job, state),
        "a distance is negative or unknown": known_optimum(plan.problem) is None
        or (errors[:, 0] >= 0).all(),
    }
    return next((wrong for wrong, holds in claims.items() if not holds), None)


def _possible_time(job: Job, record: RunRecord, seen: int) -> bool:
    """Return whether time is finite, begins at 0 and never runs backwards."""
    if job.costs is None:
        return True
    time = record.time[:, :seen]
    return bool(np.isfinite(time).all() and (time[:, :1] == 0).all() and (np.diff(time) >= 0).all())


def _possible_releases(job: Job, state: RunState) -> bool:
    """Return whether the counters of privacy are within the budget."""
    privacy = job.run_plan.method.privacy
    return privacy is None or _within(state.node_memory[RELEASES], 0, privacy.cap)


def _possible_detector(state: RunState, done: int) -> bool:
    memory, active = state.token_memory, state.active
    if "detector.mean" not in memory:
        return True
    return (
        bool(np.isfinite(memory["detector.mean"][active]).all())
        and bool((memory["detector.power"][active] >= 0).all())
        and _within(memory["detector.mass"][active], 0.0, 1.0 + 1e-9)
        and _within(memory["detector.streak"], 0, done)
    )


def _within(values: AnyArray, low: float, high: float) -> bool:
    """Return whether all values lie in [low, high]; NaN does not.

    No copy of a large array is made.
    """
    return not values.size or bool(values.min() >= low and values.max() <= high)
