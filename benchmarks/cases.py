"""What is measured: walks of one or many replicas in the kernel, in C, in the oracle, in plain
loops; do they agree?
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np

import levywalk as lw
from benchmarks import numba_loop, numpy_loop
from benchmarks.reference_c import BY_HAND, CHEAP, FLAGS, GATHERS, ChainC, ReferenceC, WalkersC
from benchmarks.timing import Contender, seconds
from levywalk.draws import Domain, keys
from levywalk.engine.kernels import KernelBackend
from levywalk.engine.kernels.machine import vector_bits
from levywalk.engine.prepare import Job, prepare
from levywalk.engine.reference import ReferenceBackend
from levywalk.engine.run_state import RunState
from levywalk.problem import GeneralizedLinear

KERNEL = "kernel"
TOLERANCE = 1e-9
_NEAR_BYTES = 1 << 20  # tables of more ask for cache lines ahead

Advance = Callable[
    [RunState, int, int], None
]  # takes all replicas of a state from one step to another


# ---- networks and problems -----------------------------------------------------------------------


@cache
def networks(large: int) -> tuple[lw.Network, ...]:
    """Return the four networks of all comparisons: two that fit into the cache and two of ``large``
    nodes.
    """
    return (
        lw.ring(1000),
        lw.erdos_renyi(1000, 0.1),
        lw.watts_strogatz(large, 4, 0.1),
        lw.random_regular(large, 4),
    )


@cache
def heterogeneous(n: int, dim: int = 10) -> GeneralizedLinear:
    """Return the paper's heterogeneous data, drawn once; two important nodes among a thousand."""
    return lw.heterogeneous(n, dim, important=2) if n == 1000 else lw.heterogeneous(n, dim)


def logistic(n: int, dim: int) -> lw.Logistic:
    """Return a logistic problem with one sample per node."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n, dim))
    noisy = features @ rng.standard_normal(dim) + rng.logistic(size=n)
    return lw.Logistic(features, (noisy > 0).astype(np.float64), ridge=0.01)


def many_samples(n: int, dim: int, each: int) -> lw.LeastSquares:
    """Return a least-squares problem with several samples per node."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n * each, dim))
    targets = features @ rng.standard_normal(dim) + rng.standard_normal(n * each)
    return lw.LeastSquares(features, targets, np.repeat(np.arange(n), each))


# ---- many walkers in C ---------------------------------------------------------------------------


def walkers_c(compiler: ReferenceC, backend: KernelBackend) -> dict[str, Advance]:
    """Return the hand-vectorised C of walkers.c by name: what takes all replicas of a state
    forward.
    """
    return _by_hand(compiler, backend, (BY_HAND, GATHERS))


def cheaper_draws_c(compiler: ReferenceC, backend: KernelBackend) -> dict[str, Advance]:
    """Return walkers.c with its own draws and with cheaper ones, by name;
    the walk is then another.
    """
    return _by_hand(compiler, backend, (BY_HAND, CHEAP))


def _by_hand(
    compiler: ReferenceC, backend: KernelBackend, names: tuple[str, ...]
) -> dict[str, Advance]:
    """Return builds of walkers.c; none where the machine or the number of replicas does not suit
    it.
    """
    plan, tables = backend.plan, backend.tables
    if tables is None or plan.replicas % 8 or not compiler.has(vector_bits()):
        return {}
    far = tables.nodes.nbytes + tables.edges.nbytes > _NEAR_BYTES
    return {
        name: WalkersC(compiler.build_walkers(plan.problem.dim, name, far), backend).advance
        for name in names
    }


# ---- a case --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Replicas of a walk, and who may advance them;
    every contender returns nanoseconds per update.
    """

    network: lw.Network
    problem: GeneralizedLinear
    steps: int
    replicas: int = 1
    visits: bool = False
    design: lw.Walk | None = None  # mhlj by default
    update: lw.Update | None = None  # SGD by default

    def kernel(self, threads: int = 1) -> Contender:
        """`Block.through` of all replicas in one block, or in as many as there are threads."""
        if threads == 1:
            return self.timed(lambda state: self._block(state, range(self.replicas)))
        edges = [self.replicas * i // threads for i in range(threads + 1)]
        shares = [range(a, b) for a, b in pairwise(edges)]

        def advance(state: RunState) -> None:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda share: self._block(state, share), shares))

        return self.timed(advance)

    def plain(self) -> Contender:
        """`Block.through` of the loop without vectors."""
        backend = KernelBackend(self.job.run_plan, plain=True)

        def advance(state: RunState) -> None:
            backend.block(state, range(self.replicas)).through(0, np.array([self.steps]))

        return self.timed(advance)

    def processes(self, count: int) -> Workers:
        """As many processes as threads in `kernel`, each with its share of the replicas."""
        edges = [self.replicas * i // count for i in range(count + 1)]
        shares = [range(a, b) for a, b in pairwise(edges)]
        job = self.job
        self._block(
            RunState.new(job.run_plan, job.start, job.x0), shares[0]
        )  # compiled before it forks

        def work(share: range) -> None:
            self._block(RunState.new(job.run_plan, job.start, job.x0), share)

        return Workers(work, shares, 1e9 / (self.steps * self.replicas))

    def apart(self) -> Contender:
        """`Block.through` of one replica after the other."""

        def advance(state: RunState) -> None:
            for i in range(self.replicas):
                self._block(state, range(i, i + 1))

        return self.timed(advance)

    def c(self, compiler: ReferenceC) -> dict[str, Contender]:
        """The C reference under all of `FLAGS`, one replica after the other."""
        return {name: self.by(self._chain_c(compiler, name)) for name in FLAGS}

    def by(self, advance: Advance) -> Contender:
        """Whatever takes all replicas of a state forward."""
        return self.timed(lambda state: advance(state, 0, self.steps))

    def run(self, record_every: int | None = None, threads: int = 1) -> Contender:
        """`levywalk.run`: checks, binding, checkpoints (200 unless told otherwise), the trace."""
        per_update = 1e9 / (self.steps * self.replicas)
        return lambda: (
            per_update
            * seconds(
                lambda: lw.run(
                    self.network,
                    self.problem,
                    self._design,
                    steps=self.steps,
                    step_size="theory",
                    replicas=self.replicas,
                    threads=threads,
                    record_every=record_every,
                    record_visits=self.visits,
                    progress=False,
                )
            )
        )

    def oracle(self, steps: int) -> Contender:
        """The reference backend, one replica, over fewer steps."""
        plan = self.job.run_plan
        one = replace(plan, keys=plan.keys[:1], scale=plan.scale[:1])
        return self.timed(
            lambda state: ReferenceBackend(one, state.rows(slice(0, 1))).advance(0, steps), steps
        )

    def numpy(self, steps: int) -> Contender:
        """The plain numpy loop, one chain, over fewer steps."""
        return lambda: 1e9 / steps * seconds(lambda: numpy_loop.walk(self.job.run_plan, steps))

    def numba(self) -> Contender:
        """The plain numba loop, one chain."""
        return lambda: (
            1e9 / self.steps * seconds(lambda: numba_loop.walk(self.job.run_plan, self.steps))
        )

    def disagreements(self, compiler: ReferenceC, steps: int) -> list[str]:
        """Return what differs between the kernel and C after ``steps`` steps:
        nothing, it is hoped.
        """
        case = Case(self.network, self.problem, steps, self.replicas, design=self.design)
        job = case._prepare(record=True)
        backend = KernelBackend(job.run_plan)
        ours = RunState.new(job.run_plan, job.start, job.x0)
        backend.block(ours, range(self.replicas)).through(0, np.array([steps]))
        found = []
        chains = {name: _one_after_another(compiler, name, backend) for name in FLAGS}
        for name, advance in (chains | walkers_c(compiler, backend)).items():
            records = ("walk", "visits") if name in chains else ()  # walkers.c records neither
            theirs = RunState.new(job.run_plan, job.start, job.x0)
            advance(theirs, 0, steps)
            found += [
                f"{name}: {field}"
                for field in (*records, "node", "hops", "transfers")
                if not np.array_equal(getattr(ours, field), getattr(theirs, field))
            ]
            error = np.linalg.norm(ours.model - theirs.model) / np.linalg.norm(ours.model)
            if not error <= TOLERANCE:
                found.append(f"{name}: model by {error:.1e}")
        return found

    @cached_property
    def job(self) -> Job:
        """The walk as `levywalk.run` would prepare it."""
        return self._prepare(record=False)

    @cached_property
    def backend(self) -> KernelBackend:
        """The walk in the arrays that kernel and C read."""
        return KernelBackend(self.job.run_plan)

    def timed(self, advance: Callable[[RunState], None], steps: int | None = None) -> Contender:
        """Time ``advance`` from the start each time; making the state is not counted."""
        updates = steps if steps is not None else self.steps * self.replicas
        job = self.job

        def measure() -> float:
            state = RunState.new(job.run_plan, job.start, job.x0)
            state.visits.fill(
                0
            )  # zeros come as untouched pages, and touching them is not the walk's work
            return 1e9 / updates * seconds(lambda: advance(state))

        return measure

    @property
    def _design(self) -> lw.Walk:
        return lw.mhlj() if self.design is None else self.design

    def _prepare(self, record: bool) -> Job:
        return prepare(
            self.network,
            self.problem,
            self._design,
            steps=self.steps,
            step_size="theory",
            keys=keys(0, Domain.WALK, range(self.replicas)),
            start_keys=keys(0, Domain.START, range(self.replicas)),
            start="uniform",
            x0=None,
            record_every=self.steps,
            record_walk=record,
            record_visits=record or self.visits,
            threads=1,
            backend="auto",
            update=self.update,
        )

    def _block(self, state: RunState, replicas: range) -> None:
        self.backend.block(state, replicas).through(0, np.array([self.steps]))

    def _chain_c(self, compiler: ReferenceC, flags: str) -> Advance:
        return _one_after_another(compiler, flags, self.backend)


class Workers:
    """Processes that each do their share of a piece of work when they are asked; a `Contender`.

    They are copies of this one, so that they share all tables, and wait for their turn meanwhile.
    """

    def __init__(self, work: Callable[[range], None], shares: list[range], scale: float) -> None:
        self.scale, self.pipes, self.started = scale, [], []
        context = multiprocessing.get_context("fork")
        for share in shares:
            ours, theirs = context.Pipe()
            worker = context.Process(target=self._serve, args=(theirs, work, share), daemon=True)
            worker.start()
            self.pipes.append(ours)
            self.started.append(worker)

    @staticmethod
    def _serve(pipe: Any, work: Callable[[range], None], share: range) -> None:
        while pipe.recv():
            work(share)
            pipe.send(True)

    def __call__(self) -> float:
        """Let all processes work once; return the nanoseconds per update."""
        return self.scale * seconds(self._once)

    def _once(self) -> None:
        for pipe in self.pipes:
            pipe.send(True)
        for pipe in self.pipes:
            pipe.recv()

    def stop(self) -> None:
        """End the processes."""
        for pipe, worker in zip(self.pipes, self.started, strict=True):
            pipe.send(False)
            worker.join()


def _one_after_another(compiler: ReferenceC, flags: str, backend: KernelBackend) -> Advance:
    """Return chain.c over all replicas in turn."""
    plan = backend.plan
    function = compiler.build(plan.problem.dim, flags)
    chains = [ChainC(function, backend, i) for i in range(plan.replicas)]

    def advance(state: RunState, start: int, stop: int) -> None:
        for i, chain in enumerate(chains):
            chain.advance(state.rows(slice(i, i + 1)), start, stop)

    return advance
