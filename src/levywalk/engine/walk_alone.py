"""`walk`: walks without a model.

They give the quantities that depend only on the walk: visits, dwell times, hitting times and
correlations.

`walk` is long because each option is a parameter with a description of its own.
"""

from __future__ import annotations

import math
import platform
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats, Ints, Words64
from levywalk.draws import VERSION, Domain, keys
from levywalk.engine.bind import BoundPhase, Sites, method_of
from levywalk.engine.prepare import check_steps, start_nodes, threads_for
from levywalk.engine.threads import Share, StepLimit, equal_shares, side_by_side
from levywalk.engine.walk_shares import BATCHES, KernelWalkShare, ReferenceWalkShare, WalkNotes
from levywalk.errors import Interrupted, InvalidParameter
from levywalk.interruption import CtrlC, Listening
from levywalk.memory import NodeMemory, node_memory_bytes
from levywalk.network import Network, as_network
from levywalk.problem import Problem
from levywalk.progress import Bar
from levywalk.room import require_room
from levywalk.schedule import Constant
from levywalk.step import PublishedPhase
from levywalk.trace.walk_record import WalkRecord
from levywalk.updates import Sgd
from levywalk.version import __version__
from levywalk.walks import BoundWalk, Walk, as_target, is_plain_design

if TYPE_CHECKING:
    from levywalk.engine.kernels.walkers import StepParameters

_PIECE = 1 << 16  # steps between two checks for Ctrl-C …
_PIECE_OF_ALL = 1 << 26  # … or fewer: the limit for all replicas together


def walk(
    network: Network,
    design: Walk,
    *,
    problem: Problem | None = None,
    steps: int,
    replicas: int = 1,
    seed: int = 0,
    start: str | int | npt.ArrayLike = "uniform",
    record_visits: bool = True,
    record_dwell: bool = True,
    record_first: bool = False,
    record_walk: bool = False,
    observable: npt.ArrayLike | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> WalkRecord:
    """Simulate walks without a model: the same walks as in `run`, at a fraction of the cost.

    Parameters
    ----------
    network, design
        The network and the walk. A switching design is not possible, because it needs the model.
    problem
        Only needed for designs that use the smoothness L_v, such as `weight_rw` and `mhlj`.
    steps, replicas, seed, start, threads, progress
        As in `levywalk.run`; the same seed gives the same walks.
    record_visits, record_dwell, record_first, record_walk
        Whether to record every node's number of steps, the stays (their number, and the length and
        the node of the longest), every node's first visit, and the node of every step. Without
        these records a step takes a few nanoseconds.
    observable
        A number for each node; `WalkRecord.correlation` then measures how long its values are
        correlated along the walk.

    Returns
    -------
    WalkRecord
        The recorded walks.

    Raises
    ------
    Interrupted
        After Ctrl-C. ``partial`` is the record of the steps done so far, and its
        ``provenance["interrupted"]`` is true.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(100), lw.heterogeneous(100, important=1)
    >>> trapped = lw.walk(network, lw.weight_rw(), problem=problem, steps=100_000)
    >>> free = lw.walk(network, lw.mhlj(), problem=problem, steps=100_000)
    >>> bool(trapped.longest_dwell[0] > 5 * free.longest_dwell[0])
    True
    """
    with Listening() as ctrl_c:
        steps, replicas = check_steps(steps), checks.integer("replicas", replicas, low=1)
        network = as_network(network)
        problem, bound = bind_walk(network, design, problem)
        values = _observable(observable, network.n)
        for wanted, name, size in (
            (record_visits, "visits", 8 * network.n),
            (record_first, "first visits", 8 * network.n),
            (record_walk, "walk", 4 * steps),
            (values.size > 0, "the observable's sums", 8 * BATCHES),
            (True, "walkers", 200),
        ):
            if wanted:
                require_room(name, (replicas, size), 1, "record less, or use fewer replicas")
        nodes = start_nodes(
            start,
            design,
            network,
            problem,
            bound,
            keys(checks.seed(seed), Domain.START, range(replicas)),
        )
        record = WalkNotes(
            network.n,
            steps,
            replicas,
            nodes,
            record_visits,
            record_dwell,
            record_first,
            record_walk,
            values,
        )
        walk_keys = keys(seed, Domain.WALK, range(replicas))
        edges = np.unique(np.round(np.linspace(0, steps, BATCHES + 1)).astype(np.int64))[1:]
        began = time.perf_counter()
        shares = _shares(network, problem, bound, record, walk_keys, steps, threads)
        with ctrl_c.held():
            done = _walk(shares, steps, edges, replicas, progress, design.name, ctrl_c)
            provenance = {
                **_provenance(network, design, start, seed, steps, replicas),
                "interrupted": done < steps,
                "seconds": time.perf_counter() - began,
            }
            law = bound.spread(bound.law)
            found = replace(
                record.published(done, edges[edges <= done], law, provenance),
                node_names=network.given_names,
            )
            if ctrl_c.requested:
                raise Interrupted(found)
            return found


def _provenance(
    network: Network, design: Walk, start: Any, seed: int, steps: int, replicas: int
) -> dict[str, Any]:
    return {
        "levywalk": __version__,
        "draws": VERSION,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "seed": int(seed),
        "steps": steps,
        "replicas": replicas,
        "network": {
            "name": network.name,
            "n": network.n,
            "edges": network.n_edges,
            "self_loops": network.self_loops,
        },
        "design": design.describe(),
        "start": start if isinstance(start, (str, int)) else np.asarray(start).tolist(),
    }


class _Flat:
    """A placeholder problem for designs that do not use the problem."""

    dim = 1

    def __init__(self, n: int) -> None:
        self.n = n
        self.smoothness = np.ones(n)

    def local_loss(self, v: int, x: Floats) -> float:
        return 0.0

    def local_gradient(self, v: int, x: Floats) -> Floats:
        return np.zeros(1)


def bind_walk(network: Network, design: Any, problem: Problem | None) -> tuple[Problem, BoundWalk]:
    """Bind a design; without a problem, a placeholder is used that the design must not need."""
    if not isinstance(design, Walk) or len(design.phases) != 1:
        raise InvalidParameter(
            f"design must be a Walk such as lw.mhlj(), got {design!r}; a switching design needs a "
            "model: use lw.run"
        )
    if problem is not None:
        return problem, design.bind(network, problem)
    if isinstance(network, Network):
        unknown = np.full(network.n, np.nan)
        if not np.isfinite(as_target(design.target).scores(network.degree, unknown, np.nan)).all():
            raise InvalidParameter(
                f"problem must be given: {design.name} uses the smoothness of its local losses"
            )
    flat: Problem = _Flat(getattr(network, "n", 2))
    return flat, design.bind(network, flat)


def _observable(observable: Any, n: int) -> Floats:
    if observable is None:
        return np.empty(0)
    try:
        values = np.array(observable, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(f"observable must be numbers, got {observable!r:.80}") from None
    if values.shape != (n,):
        raise InvalidParameter(
            f"observable must have one number per node ({n}), got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidParameter("observable must be finite, got NaN or infinity")
    return values


def _shares(
    network: Network,
    problem: Problem,
    bound: BoundWalk,
    record: WalkNotes,
    walk_keys: Words64,
    steps: int,
    threads: int | None,
) -> list[Share]:
    """Return each thread's walkers; a walk without a kernel runs in one thread of plain Python.

    So does a walk through nodes without data, for which the vector loop has no code.
    """
    replicas = len(walk_keys)
    phase = BoundPhase(bound, PublishedPhase(bound.walk, bound.mean_score, Constant(1.0)))
    passes = bound.idle is not None and bound.table is None
    if passes or not is_plain_design(bound.walk):
        method = method_of((phase,), Sgd(), None, problem)
        memory = None
        if method.node_memory:
            ones = np.ones(network.n, np.int64)
            needed = node_memory_bytes(method.node_memory, 1, network.degree, ones)
            require_room("memory of nodes", (replicas, needed), 1, "use fewer replicas")
            memory = NodeMemory(method.node_memory, replicas, 1, network.degree, ones)
        return [ReferenceWalkShare(record, walk_keys, Sites(method, problem, [bound]), memory)]
    from levywalk.engine.kernels import tables, walkers

    packed, reach = tables.pack(network, bound, None, None)

    def step_parameters(start: int, stop: int) -> StepParameters:
        return walkers.StepParameters(
            np.ones(1), phase.jump_probabilities(start, stop), phase.distances()
        )

    return [
        KernelWalkShare(
            record, rows, walk_keys, packed, bound.table is not None, reach, step_parameters
        )
        for rows in equal_shares(replicas, threads_for(threads, steps * replicas))
    ]


def _walk(
    shares: list[Share],
    steps: int,
    ends: Ints,
    replicas: int,
    progress: bool | None,
    name: str,
    ctrl_c: CtrlC,
) -> int:
    """Advance all walkers, each thread its own share; return the number of steps made."""
    with Bar(f"walking {name}", steps * len(shares), show=progress) as bar:
        step_limit = StepLimit(
            0, steps, max(1, min(_PIECE, _PIECE_OF_ALL // replicas)), ctrl_c, math.inf
        )
        return min(side_by_side(shares, ends, step_limit, bar), steps)
