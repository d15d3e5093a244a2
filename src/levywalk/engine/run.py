"""`run`: check the arguments, choose a backend, take all replicas from checkpoint to checkpoint, return a Trace."""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats, Ints, Words
from levywalk.design import AliasTable, AnyDesign, Bound, Design, Switching
from levywalk.draws import Domain, Key, keys, split
from levywalk.engine import reference
from levywalk.engine.interrupt import Interruptible
from levywalk.engine.measure import Measure
from levywalk.engine.memory import require_room
from levywalk.engine.plan import Phase, Plan, State
from levywalk.errors import DivergedWarning, InvalidParameter
from levywalk.network import Network
from levywalk.problem import LinearModelProblem, Problem
from levywalk.progress import Bar
from levywalk.schedule import Schedule
from levywalk.theory import stationary, transition
from levywalk.trace import Trace
from levywalk.update import Sgd, as_step_size
from levywalk.version import __version__

BACKENDS = ("auto", "kernel", "reference")
CHECKPOINTS = 200
MOST_STEPS = 2**53  # checkpoints are computed in float64
_PIECE = 1 << 16  # steps between two looks at Ctrl-C and the progress bar

Advance = Callable[[State, range, int, int], None]


def run(
    network: Network,
    problem: Problem,
    design: AnyDesign,
    *,
    steps: int,
    step_size: float | str | Schedule,
    replicas: int = 1,
    seed: int = 0,
    record_every: int | None = None,
    record_walk: bool = False,
    record_visits: bool = True,
    start: str | int | npt.ArrayLike = "uniform",
    x0: npt.ArrayLike | None = None,
    threads: int | None = None,
    backend: str = "auto",
    update: Sgd | None = None,
    progress: bool | None = None,
) -> Trace:
    """Let the model walk.

    Step t = 0, 1, …: one update x ← x - γ w(v) ∇f_v(x) at the node v that holds the model, then one move.

    Parameters
    ----------
    network, problem, design
        Where, on what and how the model walks; the network must be connected and have one node per node of the problem.
    steps
        How many updates.
    step_size
        γ: a number, "theory" (1/max w(v)L_v) or a schedule such as ``Decaying(0.01, timescale=1000)``.
    replicas, seed
        How many independent walks; replica i depends on (seed, i) alone, whatever the number of replicas and threads.
    record_every
        Steps between checkpoints; None makes about 200. Step 0 and the last are always among them.
    record_walk, record_visits
        Whether to keep the node of every update, and every node's count of updates.
    start
        "uniform", "target" (π), "stationary" (the chain's own law, jumps included), a node, or one node per replica.
    x0
        The first model: zeros by default, one vector, or one per replica.
    threads
        How many cores; all by default. The result does not depend on it.
    backend
        "kernel" (compiled; least squares and logistic), "reference" (plain Python, any Problem), or "auto".
    update
        What a node does; `Sgd` with all local samples by default, ``Sgd(minibatch=8)`` draws eight.
    progress
        Whether to show a progress bar; by default when it takes a while and stderr is a terminal.

    Returns
    -------
    Trace
        After Ctrl-C, of what was done until then, with ``provenance["interrupted"]``.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(100), lw.homogeneous(100)
    >>> trace = lw.run(network, problem, lw.mhlj(), steps=1000, step_size=0.01, replicas=4)
    >>> trace.distance2.shape, int(trace.visits.sum())
    ((4, 201), 4000)
    """
    steps, replicas = check_sizes(steps, replicas, record_every)
    job = prepare(
        network,
        problem,
        design,
        steps=steps,
        step_size=step_size,
        keys=keys(checks.seed(seed), Domain.WALK, range(replicas)),
        start_keys=keys(seed, Domain.START, range(replicas)),
        start=start,
        x0=x0,
        record_every=record_every,
        record_walk=record_walk,
        record_visits=record_visits,
        threads=threads,
        backend=backend,
        update=update,
    )
    provenance = _provenance(network, problem, design, seed, step_size, start, job)
    return drive(job, provenance, progress)


def check_sizes(steps: Any, replicas: Any, record_every: Any) -> tuple[int, int]:
    """Return steps and replicas as integers; refuse what could not be measured before anything is allocated."""
    steps = checks.integer("steps", steps, low=1, high=MOST_STEPS)
    replicas = checks.integer("replicas", replicas, low=1)
    points = CHECKPOINTS if record_every is None else -(-steps // checks.integer("record_every", record_every, low=1))
    remedy = "use a larger record_every or fewer replicas"
    require_room("checkpoints", (6, replicas, min(points, steps) + 1), 8, remedy)
    return steps, replicas


@dataclass(frozen=True)
class Job:
    """A plan, its first state's ingredients and how to carry it out."""

    plan: Plan
    start: Ints
    x0: Floats
    checkpoints: Ints
    threads: int
    backend: str


def prepare(
    network: Network,
    problem: Problem,
    design: AnyDesign,
    *,
    steps: int,
    step_size: float | str | Schedule,
    keys: Words,
    start_keys: Words,
    start: Any,
    x0: Any,
    record_every: int | None,
    record_walk: bool,
    record_visits: bool,
    threads: int | None,
    backend: str,
    update: Sgd | None,
    scale: Floats | None = None,
) -> Job:
    """Check every argument and bind the design; allocate nothing large."""
    replicas = len(keys)
    update = Sgd() if update is None else update
    if not isinstance(update, Sgd):
        raise InvalidParameter(f"update must be Sgd() or Sgd(minibatch=…), got {update!r}")
    backend = _choose_backend(backend, problem)
    checkpoints = checkpoints_of(steps, record_every)
    if record_visits and isinstance(network, Network):
        require_room("visits", (replicas, network.n), 8, "use record_visits=False or fewer replicas")
    if record_walk:
        require_room("walk", (replicas, steps), 4, "use record_walk=False, fewer steps or fewer replicas")
    require_room("checkpoints", (6, replicas, len(checkpoints)), 8, "use a larger record_every or fewer replicas")
    phases = _phases(network, problem, design, step_size)
    update.check(problem)
    plan = Plan(
        network,
        problem,
        phases,
        design.detector if isinstance(design, Switching) else None,
        update,
        keys,
        np.ones(replicas) if scale is None else scale,
        steps,
        bool(record_walk),
        bool(record_visits),
    )
    nodes = _start_nodes(start, design, plan, start_keys)
    return Job(plan, nodes, _first_model(x0, replicas, problem.dim), checkpoints, _threads(threads), backend)


def drive(job: Job, provenance: dict[str, Any], progress: bool | None) -> Trace:
    """Take all replicas from checkpoint to checkpoint."""
    plan = job.plan
    began = time.perf_counter()
    measure = Measure(plan.problem)
    state = State.new(plan, job.start, job.x0)
    advance = _backend(job)
    rows: list[tuple[Floats | Ints, ...]] = []
    done: list[int] = []

    def checkpoint(t: int) -> None:
        done.append(t)
        rows.append((*measure(state), state.hops.copy(), state.transfers.copy()))

    parts = np.array_split(np.arange(plan.replicas), min(job.threads, plan.replicas))
    blocks = [range(part[0], part[-1] + 1) for part in parts]
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
                if len(blocks) == 1:
                    advance(state, blocks[0], t, stop)
                else:
                    list(pool.map(advance, *zip(*[(state, block, t, stop) for block in blocks], strict=True)))
                bar.advance(stop - t)
                t = stop
            if t > done[-1]:
                checkpoint(t)
            if interrupt.requested:
                break
    provenance["interrupted"] = done[-1] < plan.steps
    provenance["seconds"] = time.perf_counter() - began
    return _trace(plan, state, measure, np.array(done), rows, provenance)


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


def _choose_backend(backend: str, problem: Problem) -> str:
    checks.choice("backend", backend, BACKENDS)
    compiled = isinstance(problem, LinearModelProblem)
    if backend == "kernel" and not compiled:
        raise InvalidParameter(
            f"backend must be 'reference' or 'auto' for a {type(problem).__name__}: "
            "kernels exist for LeastSquares and Logistic"
        )
    if backend == "auto":
        return "kernel" if compiled else "reference"
    return backend


def _backend(job: Job) -> Advance:
    if job.backend == "reference":
        return lambda state, block, start, stop: reference.advance(job.plan, state, block, start, stop)
    from levywalk.engine.kernels import KernelBackend

    return KernelBackend(job.plan).advance


def checkpoints_of(steps: int, record_every: int | None) -> Ints:
    """Return the steps at which a run is measured: 0 and the last always among them."""
    if record_every is None:
        return np.unique(np.round(np.linspace(0, steps, CHECKPOINTS + 1)).astype(np.int64))
    every = checks.integer("record_every", record_every, low=1)
    return np.unique(np.append(np.arange(0, steps, every, dtype=np.int64), steps))


def _phases(
    network: Network, problem: Problem, design: AnyDesign, step_size: float | str | Schedule
) -> tuple[Phase, ...]:
    if isinstance(design, Switching):
        first, then = design.first.bind(network, problem), design.then.bind(network, problem)
        return (
            Phase(first, as_step_size(step_size, first.largest)),
            Phase(then, as_step_size(design.step_size, then.largest)),
        )
    if not isinstance(design, Design):
        raise InvalidParameter(f"design must be a Design such as lw.mhlj(), got {design!r}")
    bound = design.bind(network, problem)
    return (Phase(bound, as_step_size(step_size, bound.largest)),)


def _start_nodes(start: Any, design: AnyDesign, plan: Plan, start_keys: Words) -> Ints:
    n, replicas = plan.network.n, plan.replicas
    if isinstance(start, str):
        law = _start_law(checks.choice("start", start, ("uniform", "target", "stationary")), design, plan)
        words = [Key(int(k0), int(k1)).word(0, 0) for k0, k1 in start_keys]
        if law is None:
            return np.array([split(word, n)[0] for word in words], dtype=np.int64)
        table = AliasTable.of(law)
        return np.array([table.pick(word) for word in words], dtype=np.int64)
    try:
        nodes = np.asarray(start)
    except ValueError:  # rows of different lengths
        nodes = np.empty(0)
    if nodes.dtype.kind not in "iu" or nodes.shape not in ((), (replicas,)):
        raise InvalidParameter(
            "start must be 'uniform', 'target', 'stationary', a node, or one node per replica "
            f"({replicas}), got {start!r}"
        )
    if nodes.size and (nodes.min() < 0 or nodes.max() >= n):
        raise InvalidParameter(f"start must lie in [0, {n - 1}], got {start!r}")
    return np.array(np.broadcast_to(nodes, (replicas,)), dtype=np.int64)


def _start_law(start: str, design: AnyDesign, plan: Plan) -> Floats | None:
    bound: Bound = plan.phases[0].bound
    if start == "uniform":
        return None
    if start == "target" or bound.jump is None:  # without jumps the target is the stationary law
        return bound.law
    first = design.first if isinstance(design, Switching) else design
    return stationary(transition(plan.network, plan.problem, first))


def _first_model(x0: Any, replicas: int, dim: int) -> Floats:
    if x0 is None:
        return np.zeros(dim)
    try:
        clean = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(f"x0 must be numbers, got {x0!r}") from None
    if clean.shape not in ((dim,), (replicas, dim)):
        raise InvalidParameter(f"x0 must have shape ({dim},) or ({replicas}, {dim}), got {clean.shape}")
    if not np.isfinite(clean).all():
        raise InvalidParameter("x0 must be finite, got NaN or infinity")
    return clean


def _threads(threads: int | None) -> int:
    if threads is not None:
        return checks.integer("threads", threads, low=1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _provenance(
    network: Network, problem: Problem, design: AnyDesign, seed: int, step_size: Any, start: Any, job: Job
) -> dict[str, Any]:
    phases = job.plan.phases
    fingerprint = getattr(problem, "fingerprint", None)
    return {
        "levywalk": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "backend": job.backend,
        "seed": int(seed),
        "steps": job.plan.steps,
        "replicas": job.plan.replicas,
        "network": {
            "name": network.name,
            "n": network.n,
            "edges": network.edges,
            "self_loops": network.self_loops,
            "fingerprint": network.fingerprint(),
        },
        "problem": {
            "kind": type(problem).__name__,
            "dim": problem.dim,
            "fingerprint": fingerprint() if fingerprint else None,
        },
        "design": design.describe(),
        "update": repr(job.plan.update),
        "step_size": [repr(phase.step_size) for phase in phases],
        "largest_weighted_smoothness": phases[0].bound.largest,
        "start": start if isinstance(start, (str, int)) else np.asarray(start).tolist(),
    }


def run_step_sizes(
    network: Network,
    problem: Problem,
    design: AnyDesign,
    step_sizes: Floats,
    *,
    steps: int,
    replicas: int,
    seed: int,
    record_every: int | None,
    start: Any,
    x0: Any,
    threads: int | None,
    update: Sgd | None,
    progress: bool | None,
) -> Floats:
    """Return the relative errors (step sizes, replicas, checkpoints) of a whole grid of step sizes, for tuning.

    All step sizes see the same walks, of keys that `run` never uses, and go through the machine as one batch.
    """
    count = len(step_sizes)
    if np.ndim(start) == 1:  # one node per replica, again for each step size
        start = np.tile(start, count)
    if x0 is not None and np.ndim(x0) == 2:
        x0 = np.tile(x0, (count, 1))
    walk_keys = np.tile(keys(seed, Domain.TUNING, range(replicas)), (count, 1))
    start_keys = np.tile(keys(seed, Domain.TUNING_START, range(replicas)), (count, 1))
    job = prepare(
        network,
        problem,
        design,
        steps=steps,
        step_size=1.0,
        keys=walk_keys,
        start_keys=start_keys,
        start=start,
        x0=x0,
        record_every=record_every,
        record_walk=False,
        record_visits=False,
        threads=threads,
        backend="auto",
        update=update,
        scale=np.repeat(step_sizes, replicas),
    )
    provenance = {"design": {"name": f"{design.name}: tuning"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)  # finding the edge of stability is the point
        trace = drive(job, provenance, progress)
    if trace.provenance["interrupted"]:
        raise KeyboardInterrupt
    return trace.error.reshape(count, replicas, -1)
