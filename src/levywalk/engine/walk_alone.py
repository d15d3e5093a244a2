"""`walk`: the walk without a model, for what depends on it alone: visits, dwell, hitting times, memory."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats, Ints, Words64
from levywalk.draws import Domain, keys
from levywalk.engine.bind import BoundPhase
from levywalk.engine.interrupt import Interruptible
from levywalk.engine.memory import require_room
from levywalk.engine.prepare import check_steps, start_nodes, threads_for
from levywalk.engine.standings import Standings
from levywalk.engine.threads import Pace, equal_shares, side_by_side
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.progress import Bar
from levywalk.schedule import Constant
from levywalk.step import PublishedPhase
from levywalk.trace.walks import Walks
from levywalk.version import __version__
from levywalk.walks import Bound, Design

if TYPE_CHECKING:
    from levywalk.engine.kernels.walkers import Course, Tables

_PIECE = 1 << 16  # steps between two looks at Ctrl-C …
_PIECE_OF_ALL = 1 << 26  # … or fewer, of all replicas together
_BATCHES = 200  # of consecutive steps, for the observable


def walk(
    network: Network,
    design: Design,
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
) -> Walks:
    """Let walkers walk without a model: the walks that `run` would make, at a fraction of its cost.

    Parameters
    ----------
    network, design
        Where and how they walk; not a switching design, which needs the model.
    problem
        Only for designs that walk by the smoothness L_v, such as `weight_rw` and `mhlj`.
    steps, replicas, seed, start, threads, progress
        As in `levywalk.run`: the same seed makes the same walks.
    record_visits, record_dwell, record_first, record_walk
        Whether to keep every node's count of steps, the stays (how many, the longest and where), every node's first
        visit, and the node of every step. Without them a step costs a few nanoseconds.
    observable
        A number for each node; the walks' `Walks.correlation` then tells how long the walk remembers it.

    Returns
    -------
    Walks
        After Ctrl-C, of what was done until then, with ``provenance["interrupted"]``.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(100), lw.heterogeneous(100, important=1)
    >>> trapped = lw.walk(network, lw.weight_rw(), problem=problem, steps=100_000)
    >>> free = lw.walk(network, lw.mhlj(), problem=problem, steps=100_000)
    >>> bool(trapped.longest_dwell[0] > 5 * free.longest_dwell[0])
    True
    """
    steps, replicas = check_steps(steps), checks.integer("replicas", replicas, low=1)
    problem, bound = bind_walk(network, design, problem)
    values = _observable(observable, network.n)
    for wanted, name, size in (
        (record_visits, "visits", 8 * network.n),
        (record_first, "first visits", 8 * network.n),
        (record_walk, "walk", 4 * steps),
        (values.size > 0, "the observable's sums", 8 * _BATCHES),
        (True, "walkers", 200),
    ):
        if wanted:
            require_room(name, (replicas, size), 1, "record less, or use fewer replicas")
    nodes = start_nodes(start, design, network, problem, bound, keys(checks.seed(seed), Domain.START, range(replicas)))
    record = Record(network.n, steps, replicas, nodes, record_visits, record_dwell, record_first, record_walk, values)
    walk_keys = keys(seed, Domain.WALK, range(replicas))
    edges = np.unique(np.round(np.linspace(0, steps, _BATCHES + 1)).astype(np.int64))[1:]
    began = time.perf_counter()
    done = _walk(network, bound, record, walk_keys, steps, edges, threads, progress, design.name)
    provenance = {
        "levywalk": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "seed": int(seed),
        "steps": steps,
        "replicas": replicas,
        "network": {"name": network.name, "n": network.n, "edges": network.edges, "self_loops": network.self_loops},
        "design": design.describe(),
        "start": start if isinstance(start, (str, int)) else np.asarray(start).tolist(),
        "interrupted": done < steps,
        "seconds": time.perf_counter() - began,
    }
    return record.walks(done, edges[edges <= done], bound.law, provenance)


class _Flat:
    """A problem for designs that do not look at it."""

    dim = 1

    def __init__(self, n: int) -> None:
        self.n = n
        self.smoothness = np.ones(n)

    def local_loss(self, v: int, x: Floats) -> float:
        return 0.0

    def local_gradient(self, v: int, x: Floats) -> Floats:
        return np.zeros(1)


def bind_walk(network: Network, design: Any, problem: Problem | None) -> tuple[Problem, Bound]:
    """Bind a design, to a problem that it does not look at if there is none."""
    if not isinstance(design, Design):
        raise InvalidParameter(
            f"design must be a Design such as lw.mhlj(), got {design!r}; a switching design needs a model: use lw.run"
        )
    if problem is not None:
        return problem, design.bind(network, problem)
    if isinstance(network, Network):
        unknown = np.full(network.n, np.nan)
        if not np.isfinite(design.target.scores(network.degree, unknown, np.nan)).all():
            raise InvalidParameter(f"problem must be given: {design.name} walks by the smoothness of its local losses")
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
        raise InvalidParameter(f"observable must have one number per node ({n}), got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidParameter("observable must be finite, got NaN or infinity")
    return values


class Record:
    """Where the walkers are and what was noted, one row per replica."""

    def __init__(
        self,
        n: int,
        steps: int,
        replicas: int,
        nodes: Ints,
        visits: bool,
        dwell: bool,
        first: bool,
        walk: bool,
        observable: Floats,
    ) -> None:
        def zeros() -> Ints:
            return np.zeros(replicas, np.int64)

        self.node, self.hops, self.transfers = nodes, zeros(), zeros()
        self.visits = np.zeros((replicas, n if visits else 0), np.int64)
        self.walk = np.zeros((replicas, steps if walk else 0), np.int32)
        self.first_visit = np.full((replicas, n if first else 0), -1, np.int64)
        self.dwell = dwell
        self.previous, self.stay, self.stays = zeros() - 1, zeros(), zeros()
        self.longest, self.longest_at = zeros(), zeros()
        # Deviations from the middle, so that sums of squares keep their digits
        self.middle = float(observable.mean()) if observable.size else 0.0
        self.observable = observable - self.middle
        self.total, self.square = np.zeros(replicas), np.zeros(replicas)
        self.totals = np.zeros((replicas, _BATCHES if observable.size else 0))

    def walks(self, done: int, ends: Ints, law: Floats, provenance: dict[str, Any]) -> Walks:
        """Return what is public of it."""
        sums = variance = None
        batches = np.diff(ends, prepend=0)
        if self.observable.size:
            totals = self.totals[:, : len(ends)]
            sums = np.diff(totals, axis=1, prepend=0.0)
            count = max(done * len(self.node), 1)
            variance = max(float(self.square.sum() / count - (self.total.sum() / count) ** 2), 0.0)
        return Walks(
            steps=done,
            visits=self.visits if self.visits.size else None,
            walk=self.walk[:, :done] if self.walk.size else None,
            hops=self.hops,
            transfers=self.transfers,
            stays=self.stays if self.dwell else None,
            longest_dwell=self.longest if self.dwell else None,
            longest_dwell_node=self.longest_at if self.dwell else None,
            first_visit=self.first_visit if self.first_visit.size else None,
            batches=batches,
            batch_sums=sums,
            observable_middle=self.middle,
            observable_variance=variance,
            final_node=self.node,
            target=law,
            provenance=provenance,
        )


class Share:
    """One thread's walkers: whole groups side by side, the rest one by one."""

    def __init__(self, record: Record, rows: slice, walk_keys: Words64, tables: Tables, iid: bool, far: bool) -> None:
        from levywalk.engine.kernels import walkers

        self.record, self.tables, self.done = record, tables, 0
        whole = rows.start + (rows.stop - rows.start) // walkers.GROUP * walkers.GROUP
        parts = ((walkers.GROUP, slice(rows.start, whole)), (1, slice(whole, rows.stop)))
        self.parts = [
            (walkers.compiled_walkers(walkers.WALK, width, 0, False, False, iid, far), part, walk_keys[part])
            for width, part in parts
            if part.stop > part.start
        ]

    def through(
        self, report: Callable[[int], None], *, ends: Ints, course: Callable[[int, int], Course], pace: Pace
    ) -> None:
        """Walk to the last of the ends, or to an earlier end that the pace has set."""
        while self.done < ends[-1]:
            stop = pace.until(self.done, int(ends[-1]))
            if stop == self.done:
                return
            first, last = np.searchsorted(ends, [self.done, stop], side="right")
            marks = ends[first:last] if last > first and ends[last - 1] == stop else np.append(ends[first:last], stop)
            for compiled, part, part_keys in self.parts:
                self._advance(compiled, part, part_keys, marks, range(int(first), int(last)), course(self.done, stop))
            self.done, steps = stop, stop - self.done
            report(steps)

    def _advance(
        self,
        compiled: Callable[..., None],
        part: slice,
        part_keys: Words64,
        marks: Ints,
        columns: range,
        course: Course,
    ) -> None:
        from levywalk.engine.kernels.walkers import Diary, Rows

        record, count = self.record, part.stop - part.start
        rows = Rows(
            part_keys,
            np.ones(count),
            np.ones(count, np.bool_),
            record.node[part],
            np.empty((count, 0)),
            record.hops[part],
            record.transfers[part],
            record.visits[part],
            record.walk[part],
        )
        seen = Standings.empty(count, len(marks), 0)
        totals = np.empty((count, len(marks)))
        diary = Diary(
            record.first_visit[part],
            record.dwell,
            record.previous[part],
            record.stay[part],
            record.stays[part],
            record.longest[part],
            record.longest_at[part],
            record.observable,
            record.total[part],
            record.square[part],
            totals,
        )
        compiled(rows, seen, self.done, marks, self.tables, course, diary)
        record.node[part], record.hops[part] = seen.node[:, -1], seen.hops[:, -1]
        record.transfers[part] = seen.transfers[:, -1]
        if record.observable.size:
            record.totals[part, columns.start : columns.stop] = totals[:, : len(columns)]


def _walk(
    network: Network,
    bound: Bound,
    record: Record,
    walk_keys: Words64,
    steps: int,
    ends: Ints,
    threads: int | None,
    progress: bool | None,
    name: str,
) -> int:
    """Let all walkers walk, each thread its share of them; return how many steps they have made."""
    from levywalk.engine.kernels import tables, walkers

    packed, far = tables.pack(network, bound, None, None)
    phase = BoundPhase(bound, PublishedPhase(bound.walk, bound.mean_score, Constant(1.0)))

    def course(start: int, stop: int) -> Course:
        return walkers.Course(np.ones(1), phase.jump_probabilities(start, stop), phase.distances())

    replicas = len(walk_keys)
    shares = [
        Share(record, rows, walk_keys, packed, bound.table is not None, far)
        for rows in equal_shares(replicas, threads_for(threads, steps * replicas))
    ]
    with Interruptible() as interrupt, Bar(f"walking {name}", steps * len(shares), show=progress) as bar:
        pace = Pace(0, steps, max(1, min(_PIECE, _PIECE_OF_ALL // replicas)), interrupt, math.inf)
        side_by_side(shares, partial(Share.through, ends=ends, course=course, pace=pace), bar)
    return min(pace.limit, steps)
