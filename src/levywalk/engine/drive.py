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

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.engine.measure import Measure
from levywalk.engine.observer import Observer
from levywalk.engine.prepare import Job
from levywalk.engine.privacy_record import privacy_record
from levywalk.engine.reference import ReferenceBackend
from levywalk.engine.resume import RunProgress, StateFile
from levywalk.engine.run_state import RunRecord, RunState
from levywalk.engine.standings import Standings
from levywalk.engine.threads import Share, StepLimit, equal_shares, side_by_side
from levywalk.engine.tokens import joint_standings
from levywalk.engine.twin_check import check_twins
from levywalk.errors import CallbackError, DivergedWarning, Interrupted
from levywalk.interruption import CtrlC, Listening
from levywalk.progress import Bar
from levywalk.remedy import python_or_command
from levywalk.trace import Trace

_PIECE = 1 << 16  # steps between two checks for Ctrl-C, or fewer …
_PIECE_SECONDS = 0.1  # … if they would take longer than about this
_FIRST_PIECE = 64  # steps of the first piece, before the time per step is known
_MODELS = 1 << 17  # entries of models that are stored to be measured together

Through = Callable[[int, Ints], Standings]


def drive(
    job: Job, provenance: dict[str, Any], progress: bool | None, file: StateFile | None = None
) -> Trace:
    """Advance all replicas through all checkpoints; each thread advances its share of the replicas.

    With a file, the run is resumed from the state in it. From time to time all shares stop at the
    same step, and their state is written to the file. Ctrl-C ends the run by `Interrupted` with the
    shortened trace, and an exception in a metric or a callback by `CallbackError` with it.
    """
    plan = job.run_plan
    measure = Measure(plan.problem, job.loss_nodes, only_distance=job.only_distance)
    state, record = (
        RunState.new(plan, job.start, job.x0),
        RunRecord(
            plan.replicas,
            len(job.checkpoints),
            job.costs is not None,
            0 if job.metrics is None else len(job.metrics.functions),
        ),
    )
    observer = Observer(
        job, record, provenance["design"]["name"], partial(_models, state, plan.tokens)
    )
    failed: CallbackError | None = None
    with Listening() as ctrl_c, ctrl_c.held(), file or nullcontext():
        so_far = file.load(state, record) if file else RunProgress()
        before, began = so_far.seconds, time.perf_counter()
        shares = shares_of(job, state) if so_far.done < plan.steps else []
        walks = [
            RunShare(go, state.rows(rows), measure, record, rows, so_far.done, job)
            for rows, go in shares
        ]
        title = f"walking {provenance['design']['name']}"
        with Bar(
            title, plan.steps * len(walks), done=so_far.done * len(walks), show=progress
        ) as bar:
            deadline = time.monotonic() + file.pause if file else math.inf
            if so_far.done == 0:
                failed = _looked(observer, 0, ctrl_c)
            while so_far.done < plan.steps and failed is None:
                goal = observer.until(so_far.done)
                marks = job.checkpoints[: int(np.searchsorted(job.checkpoints, goal)) + 1]
                step_limit = StepLimit(so_far.done, goal, _piece(job), ctrl_c, deadline)
                so_far.done = side_by_side(walks, marks, step_limit, bar)
                so_far.seconds = before + time.perf_counter() - began
                failed = _looked(observer, so_far.done, ctrl_c)
                ends = so_far.done == plan.steps or ctrl_c.requested or failed is not None
                if file and (ends or time.monotonic() >= deadline):
                    file.save(state, record, so_far)
                    deadline = time.monotonic() + file.pause
                if ctrl_c.requested:
                    break
        points = int(np.searchsorted(job.checkpoints, so_far.done)) + 1
        step = np.append(job.checkpoints[: points - 1], so_far.done)
        provenance["loss"] = measure.describe()
        if job.metrics is not None:
            provenance["metrics"] = job.metrics.record()
        provenance["interrupted"] = so_far.done < plan.steps
        provenance["resumed_at"] = so_far.resumed_at
        provenance["seconds"] = so_far.seconds
        if plan.method.privacy is not None:
            provenance["privacy"] = privacy_record(job, state, so_far.done)
        trace = _trace(job, state, measure, step, record, provenance)
        if failed is not None:
            failed.partial = trace
            raise failed
        if ctrl_c.requested:  # also after the last step: whoever pressed it waits for an end
            raise Interrupted(trace)
    return trace


def _looked(observer: Observer, done: int, ctrl_c: CtrlC) -> CallbackError | None:
    """Evaluate metrics and call callbacks; return the error if one of them fails.

    A `KeyboardInterrupt` that a callback raises by itself counts as a press of Ctrl-C.
    """
    try:
        observer.look(done)
    except CallbackError as error:
        return error
    except Interrupted:  # a second press
        raise
    except KeyboardInterrupt:
        ctrl_c.requested = True
    return None


def _models(state: RunState, tokens: int) -> tuple[Floats, AnyArray]:
    """Return the replicas' models, and whether each is finite."""
    now = joint_standings(_standing(state), tokens)
    return now.model[:, 0], now.active[:, 0]


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
        job: Job,
    ) -> None:
        self.go, self.measure, self.done, self.job = go, measure, done, job
        self.tokens = tokens = job.run_plan.tokens
        replicas = slice(rows.start // tokens, rows.stop // tokens)
        self.errors, self.counts = record.errors[replicas], record.counts[replicas]
        self.visits, self.time = state.visits, record.time[replicas]
        self.on_links = state.on_links
        # Marks per call. Visits and the time on links are known only after a call, so factors of
        # nodes and links need each mark.
        one_by_one = job.factors is not None or job.run_plan.links is not None
        self.most = 1 if one_by_one else max(1, _MODELS // state.model.size)
        self.piece = _FIRST_PIECE
        if done == 0:
            self.note(_standing(state), 0, np.zeros(1, np.int64))

    def goals(self, marks: Ints, column: int) -> Ints:
        """Return the next marks, limited by the memory for their models."""
        return marks[column : column + self.most]

    def most_steps(self) -> int:
        """Return how many steps take about a tenth of a second."""
        return self.piece

    def advance(self, marks: Ints, column: int) -> None:
        """Walk through the marks and measure at each."""
        began = time.perf_counter()
        self.note(self.go(self.done, marks), column, marks)
        # Pieces become longer while they take little time, and shorter if a step or a checkpoint
        # costs more than expected.
        per_step = (time.perf_counter() - began) / (int(marks[-1]) - self.done)
        self.piece = max(1, min(4 * self.piece, int(_PIECE_SECONDS / max(per_step, 1e-9))))

    def note(self, seen: Standings, column: int, marks: Ints) -> None:
        """Measure the models and write the results into the record, starting at this column."""
        if self.job.costs is not None:
            self.time[:, column : column + len(marks)] = self._seconds(seen, marks)
        seen = joint_standings(seen, self.tokens)
        self.measure(seen, self.errors, column)
        here = slice(column, column + seen.hops.shape[1])
        self.counts[:, 0, here], self.counts[:, 1, here] = seen.hops, seen.transfers
        self.counts[:, 2, here] = seen.small_messages

    def _seconds(self, seen: Standings, marks: Ints) -> Floats:
        """Return the time of each (replica, mark): that of the slowest of its tokens, which walk at
        the same time.
        """
        costs, factors = self.job.costs, self.job.factors
        assert costs is not None
        work: AnyArray = marks[None]
        if factors is not None:
            # Row by row: a product of matrices would round by the number of rows, so of threads.
            work = np.array([[np.sum(visits * factors)] for visits in self.visits])
        if self.job.run_plan.links is not None:
            own: AnyArray = costs.compute * work + self.on_links
        else:
            sent = seen.transfers * self.job.run_plan.method.token_bytes
            own = costs.seconds(work, seen.transfers, seen.small_messages, sent)
        return np.asarray(own.reshape(-1, self.tokens, own.shape[1]).max(axis=1))


def _piece(job: Job) -> int:
    """Return the largest number of steps between two checks for Ctrl-C and the time."""
    plan = job.run_plan
    samples = getattr(plan.problem, "n_samples", plan.problem.n) / plan.problem.n
    if job.backend == "kernel":
        nanoseconds = 10.0 + 0.5 * plan.problem.dim * min(
            samples, getattr(plan.update, "minibatch", None) or samples
        )
        nanoseconds += 20.0 * plan.problem.dim * (plan.method.privacy is not None)
        nanoseconds *= -(-plan.walkers // job.threads)
    else:
        nanoseconds = (1e3 if job.backend == "batched" else 2e4) * plan.walkers
    return max(1, min(_PIECE, int(_PIECE_SECONDS * 1e9 / nanoseconds)))


def shares_of(job: Job, state: RunState) -> list[tuple[slice, Through]]:
    """Return each thread's replicas and the function that advances them.

    The reference backend is plain Python and uses one thread; frameworks have threads of their own.
    """
    plan = job.run_plan
    if job.backend == "reference":
        advance = ReferenceBackend(plan, state).advance
        return [(slice(0, plan.walkers), partial(_by_steps, state, advance))]
    if job.backend == "batched":
        from levywalk.engine.batched import BatchedBackend

        return [(slice(0, plan.walkers), BatchedBackend(plan, state).through)]
    from levywalk.engine.kernels import KernelBackend

    backend = KernelBackend(plan)
    check_twins(plan, backend, job.start, job.x0)
    return [
        (rows, backend.block(state, range(rows.start, rows.stop)).through)
        for rows in _of_tokens(equal_shares(plan.replicas, job.threads), plan.tokens)
    ]


def _of_tokens(shares: list[slice], tokens: int) -> list[slice]:
    """Return the rows of the replicas' tokens: those of one replica stay together."""
    return [slice(share.start * tokens, share.stop * tokens) for share in shares]


def _standing(state: RunState) -> Standings:
    """Return the current state of the replicas as one mark."""
    return Standings(*(getattr(state, name)[:, None] for name in Standings._fields))


def _by_steps(
    state: RunState, advance: Callable[[int, int], None], start: int, marks: Ints
) -> Standings:
    return Standings.by_steps(state, start, marks, advance)


def _trace(
    job: Job,
    state: RunState,
    measure: Measure,
    step: Ints,
    record: RunRecord,
    provenance: dict[str, Any],
) -> Trace:
    plan, points = job.run_plan, len(step)
    distance2, excess, loss = (record.errors[:, i, :points] for i in range(3))
    hops, transfers, small_messages = (record.counts[:, i, :points] for i in range(3))
    ended = joint_standings(_standing(state), plan.tokens)
    diverged_at = _first(state.diverged_at, plan.tokens)
    diverged = int((diverged_at >= 0).sum())
    if diverged:
        first = int(diverged_at[diverged_at >= 0].min())
        warnings.warn(
            f"{provenance['design']['name']}: {diverged} of {plan.replicas} replicas diverged, the "
            f"first at step {first}; their errors are infinite from there on"
            + python_or_command(
                " (trace.diverged_at); use a smaller step_size: up to 'theory' is stable",
                "; use a smaller step size: up to theory is stable (--step-size theory, or for "
                "an experiment file --set run.step_size=theory)",
            ),
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
        visits=_sum(state.visits, plan.tokens) if plan.record_visits else None,
        walk=state.walk[:, : int(step[-1])] if plan.record_walk else None,
        final_node=ended.node[:, 0],
        model=np.asarray(ended.model[:, 0], dtype=np.float64),
        diverged_at=diverged_at,
        switched_at=_first(state.switched_at, plan.tokens),
        memory=_memory(state, plan.tokens) if plan.record_memory else None,
        target=plan.phases[0].bound.spread(plan.phases[0].bound.law),
        optimum=measure.optimum,
        provenance=provenance,
        node_names=plan.network.given_names,
        time=None if job.costs is None else record.time[:, :points],
        **_metrics(job, record, step),
    )


def _metrics(job: Job, record: RunRecord, step: Ints) -> dict[str, Any]:
    """Return what a trace holds of metrics: their values, and where they were evaluated."""
    if job.metrics is None:
        return {}
    evaluated = job.checkpoints[job.metrics.columns]
    return {
        "metrics": {
            name: record.metrics[:, i, : len(step)] for i, name in enumerate(job.metrics.functions)
        },
        "metric_step": evaluated[evaluated <= step[-1]],
    }


def _memory(state: RunState, tokens: int) -> dict[str, AnyArray]:
    """Return the memory of tokens and nodes at the end, by name; of several tokens, one by one."""
    found = state.token_memory | state.node_memory
    if tokens == 1:
        return found
    return {name: array.reshape(-1, tokens, *array.shape[1:]) for name, array in found.items()}


def _sum(counts: Ints, tokens: int) -> Ints:
    """Return the sum over the tokens of each replica."""
    return counts if tokens == 1 else counts.reshape(-1, tokens, counts.shape[1]).sum(axis=1)


def _first(steps: Ints, tokens: int) -> Ints:
    """Return the first step of any token of each replica; -1 if there is none."""
    if tokens == 1:
        return steps
    found = np.where(steps < 0, np.iinfo(np.int64).max, steps).reshape(-1, tokens).min(axis=1)
    return np.where(found == np.iinfo(np.int64).max, -1, found)
