"""Check every argument of a run and bind its design, before anything large is allocated.

`prepare` is long because it takes every argument of a run and checks one after another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints, Words64
from levywalk.draws import Key, split
from levywalk.engine.backends import BACKENDS, choose_backend
from levywalk.engine.bind import bind_phases, method_of
from levywalk.engine.links import LinkTimes
from levywalk.engine.measure import loss_nodes
from levywalk.engine.metric_plan import MetricPlan, metric_plan
from levywalk.engine.run_state import RunPlan
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.privacy import (
    Privacy,
    bind_privacy,
    check_scores,
    fitted_update,
    scored_problem,
)
from levywalk.problem import Problem, first_model, model_type
from levywalk.remedy import python_or_command
from levywalk.room import require_room
from levywalk.schedule import Schedule
from levywalk.theory import stationary, transition
from levywalk.trace import Costs
from levywalk.updates import Update, as_update, check_update
from levywalk.walks import AliasTable, BoundWalk, Walk, is_plain_design

EVEN, GROWING = 100, 100  # default checkpoints
CHECKPOINTS = EVEN + GROWING
MOST_STEPS = 2**53  # checkpoints are computed in float64
_WORTH_A_THREAD = 100_000  # updates: fewer are finished before a thread has started


@dataclass(frozen=True)
class Job:
    """A plan, the values of its first state, and how it is executed."""

    run_plan: RunPlan
    start: Ints
    x0: Floats
    checkpoints: Ints
    threads: int
    backend: str
    loss_nodes: Ints | None  # the nodes on which the loss is measured; None: all
    tuning: bool  # whether it tries a grid of step sizes
    only_distance: bool  # whether only distance2 is measured
    costs: Costs | None = None  # what the axis of time is computed from
    factors: Floats | None = None  # each node's factor of the costs of an update, if they differ
    metrics: MetricPlan | None = None
    callbacks: tuple[Callable[[dict[str, Any]], object], ...] = ()


def check_steps(steps: Any) -> int:
    """Return steps as an integer for which checkpoints can be computed."""
    clean: int = checks.integer("steps", steps, low=1)
    if clean > MOST_STEPS:
        raise InvalidParameter(f"steps must be an integer of at most 2^53, got {clean}")
    return clean


def check_sizes(steps: Any, replicas: Any, record_every: Any) -> tuple[int, int]:
    """Return steps and replicas as integers.

    Sizes whose measurements would not fit are refused before anything is allocated.
    """
    steps = check_steps(steps)
    replicas = checks.integer("replicas", replicas, low=1)
    if record_every is None:
        points = CHECKPOINTS
    elif _listed(record_every):
        points = len(record_every)
    else:
        points = -(-steps // checks.integer("record_every", record_every, low=1))
    remedy = "use a larger record_every or fewer replicas"
    require_room("checkpoints", (7, replicas, min(points, steps) + 1), 8, remedy)
    return steps, replicas


def prepare(
    network: Network,
    problem: Problem,
    design: Walk,
    *,
    steps: int,
    step_size: float | str | Schedule,
    keys: Words64,
    start_keys: Words64,
    start: Any,
    x0: Any,
    record_every: Any,
    record_walk: bool,
    record_visits: bool,
    threads: int | None,
    backend: str,
    update: Update | str | None,
    measure_loss: str | int = "auto",
    seed: int = 0,
    scale: Floats | None = None,
    record_memory: bool = False,
    only_distance: bool = False,
    costs: Costs | None = None,
    tokens: int = 1,
    meeting: str = "pass",
    metrics: Any = None,
    measure_metrics: Any = "auto",
    callbacks: tuple[Callable[[dict[str, Any]], object], ...] = (),
    privacy: Privacy | None = None,
    noise_keys: Words64 | None = None,
) -> Job:
    """Check every argument and bind the design; allocate nothing large.

    The seed is used to draw the nodes on which f is measured, and the noise of released scores.
    """
    replicas = len(keys)
    checks.choice("backend", backend, BACKENDS)
    update = as_update(update)
    known = problem
    if privacy is None:
        update = update.fitted(problem)
    else:
        check_scores(privacy, design, step_size)
        update = fitted_update(privacy, update, problem)
        known = scored_problem(privacy, problem, seed)
    checkpoints = checkpoints_of(steps, record_every)
    nodes = network.n if record_visits and isinstance(network, Network) else 0
    _require_records(replicas, nodes, steps if record_walk else 0, len(checkpoints))
    phases = bind_phases(network, known, design, update, step_size)
    check_update(update, problem)
    bound = None if privacy is None else bind_privacy(privacy, steps, tokens)
    method = method_of(phases, update, design.detector, known, bound)
    plan = RunPlan(
        network,
        problem,
        phases,
        method,
        keys,
        np.ones(replicas) if scale is None else scale,
        steps,
        bool(record_walk),
        bool(record_visits),
        bool(record_memory),
        tokens,
        meeting,
        LinkTimes.of(costs, network, method.token_bytes),
        noise_keys,
    )
    if method.node_memory:
        require_room(
            "memory of nodes", (replicas, plan.node_memory_bytes()), 1, "use fewer replicas"
        )
    factors = None if costs is None else costs.factors(network.n)
    if factors is not None and not record_visits:
        raise InvalidParameter(
            "costs with per_node are computed from visits, got record_visits=False; leave it out"
        )
    measured = loss_nodes(measure_loss, problem, update, steps, len(checkpoints), seed)
    first = _first_model(x0, replicas, problem)
    return Job(
        plan,
        start_nodes(start, design, network, problem, phases[0].bound, start_keys),
        first,
        checkpoints,
        threads_for(threads, steps * replicas),
        choose_backend(backend, plan),
        measured,
        tuning=scale is not None,
        only_distance=only_distance,
        costs=costs,
        factors=factors,
        metrics=metric_plan(metrics, measure_metrics, problem, update, first, steps, checkpoints),
        callbacks=callbacks,
    )


def _require_records(replicas: int, nodes: int, steps: int, checkpoints: int) -> None:
    """Refuse records that would not fit: visits of nodes, recorded steps and checkpoints."""
    require_room(
        "visits",
        (replicas, nodes),
        8,
        python_or_command("use record_visits=False or fewer replicas", "use fewer replicas"),
    )
    require_room(
        "walk",
        (replicas, steps),
        4,
        python_or_command(
            "use record_walk=False, fewer steps or fewer replicas",
            "use fewer steps or replicas, or for an experiment file --set run.record_walk=false",
        ),
    )
    require_room(
        "checkpoints",
        (7, replicas, checkpoints),
        8,
        python_or_command(
            "use a larger record_every or fewer replicas",
            "use fewer replicas, or for an experiment file --set run.record_every=1000",
        ),
    )


def checkpoints_of(steps: int, record_every: Any) -> Ints:
    """Return the steps at which a run is measured; step 0 and the last step are always included.

    By default they are 100 even ones and 100 that grow by a constant factor from step 1 on, so that
    early and late differences can both be seen; those that fall on the same step count once. Up to
    200 steps, every step is measured.

    Examples
    --------
    >>> checkpoints_of(10, 4), checkpoints_of(10, [1, 2, 5])
    (array([ 0,  4,  8, 10]), array([ 0,  1,  2,  5, 10]))
    >>> checkpoints_of(100_000, None)[[0, 1, 2, 10, 20, 30, 100, -2, -1]].tolist()
    [0, 1, 2, 10, 32, 100, 25000, 99000, 100000]
    """
    if record_every is None:
        if steps <= CHECKPOINTS:
            return np.arange(steps + 1)
        even = np.linspace(0, steps, EVEN + 1)
        growing = steps ** (np.arange(GROWING) / GROWING)
        return np.unique(np.round(np.concatenate([even, growing])).astype(np.int64))
    if _listed(record_every):
        points = np.asarray(record_every)
        if points.ndim != 1 or points.dtype.kind not in "iu" or not len(points):
            raise InvalidParameter(
                "record_every must be a number of steps or a list of steps, got "
                f"{record_every!r:.80}"
            )
        if points.min() < 0 or points.max() > steps:
            raise InvalidParameter(
                f"record_every must list steps in [0, {steps}], got {points.min()} to "
                f"{points.max()}"
            )
        return np.unique(np.concatenate([[0], points.astype(np.int64), [steps]]))
    every = checks.integer("record_every", record_every, low=1)
    return np.unique(np.append(np.arange(0, steps, every, dtype=np.int64), steps))


def _listed(record_every: Any) -> bool:
    return isinstance(record_every, (list, tuple, range, np.ndarray))


def start_nodes(
    start: Any,
    design: Walk,
    network: Network,
    problem: Problem,
    bound: BoundWalk,
    start_keys: Words64,
) -> Ints:
    """Return the node that each replica starts from, which is always a node with data."""
    n, replicas, holders = network.n, len(start_keys), bound.holders
    if isinstance(start, str):
        checks.choice("start", start, ("uniform", "target", "stationary"))
        law = _start_law(start, design, network, problem, bound)
        words = [Key(int(k0), int(k1)).word(0, 0) for k0, k1 in start_keys]
        if law is None:
            found = np.array([split(word, problem.n)[0] for word in words], dtype=np.int64)
        else:
            table = AliasTable.of(law)
            found = np.array([table.pick(word) for word in words], dtype=np.int64)
        return found if holders is None else holders[found]
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
    if bound.idle is not None and holders is not None and bound.idle[nodes].any():
        some = int(np.atleast_1d(nodes)[np.atleast_1d(bound.idle[nodes])][0])
        raise InvalidParameter(
            f"start must be a node with data, got node {some}, which has none; "
            f"use 'uniform', or a node with data such as {int(holders[0])}"
        )
    return np.array(np.broadcast_to(nodes, (replicas,)), dtype=np.int64)


def _start_law(
    start: str, design: Walk, network: Network, problem: Problem, bound: BoundWalk
) -> Floats | None:
    if start == "uniform":
        return None
    first = design.phases[0]
    if start == "target" or (
        is_plain_design(first) and bound.jump is None
    ):  # then π is the stationary law
        return bound.law
    return stationary(transition(network, problem, first))


def _first_model(x0: Any, replicas: int, problem: Problem) -> Floats:
    dim = problem.dim
    if x0 is None:
        return first_model(problem)
    try:
        clean = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(f"x0 must be numbers, got {x0!r}") from None
    shapes = [(dim,), (replicas, dim)]
    outputs = getattr(getattr(problem, "sample_loss", None), "n_outputs", 1)
    if outputs > 1:  # also as a matrix, as `loss` takes it
        shapes += [(dim // outputs, outputs), (replicas, dim // outputs, outputs)]
        if clean.shape in shapes[2:]:
            clean = clean.reshape(*clean.shape[:-2], dim)
    if clean.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise InvalidParameter(f"x0 must have shape {wanted}, got {clean.shape}")
    if not np.isfinite(clean).all():
        raise InvalidParameter("x0 must be finite, got NaN or infinity")
    return clean.astype(model_type(problem)).astype(np.float64)


def threads_for(threads: int | None, updates: int) -> int:
    """Return the number of threads: by default all cores, but fewer if there are few updates."""
    if threads is not None:
        return checks.integer("threads", threads, low=1)
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min(cores, updates // _WORTH_A_THREAD))
