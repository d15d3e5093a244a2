"""What is measured: one chain in the kernel, in C, in the oracle and in numpy, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import levywalk as lw
from benchmarks import numpy_loop
from benchmarks.reference_c import FLAGS, ChainC, ReferenceC
from benchmarks.timing import Contender, seconds
from levywalk.draws import Domain, keys
from levywalk.engine import reference
from levywalk.engine.kernels import KernelBackend
from levywalk.engine.plan import State
from levywalk.engine.prepare import Job, prepare
from levywalk.problem import LinearModelProblem

KERNEL = "kernel"
TOLERANCE = 1e-9


def chain_job(network: lw.Network, problem: LinearModelProblem, steps: int, *, visits: bool, walk: bool) -> Job:
    """Return one MHLJ chain as `levywalk.run` would prepare it."""
    return prepare(
        network,
        problem,
        lw.mhlj(),
        steps=steps,
        step_size="theory",
        keys=keys(0, Domain.WALK, range(1)),
        start_keys=keys(0, Domain.START, range(1)),
        start="uniform",
        x0=None,
        record_every=steps,
        record_walk=walk,
        record_visits=visits,
        threads=1,
        backend="auto",
        update=None,
    )


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


@dataclass(frozen=True)
class Chain:
    """One chain, and who may advance it; all return nanoseconds per update."""

    network: lw.Network
    problem: LinearModelProblem
    steps: int
    visits: bool = False

    def kernel(self) -> Contender:
        """`Block.advance` alone."""
        job = self._job()
        backend = KernelBackend(job.plan)
        return self._timed(job, lambda state: backend.block(state, range(1)).advance(0, self.steps))

    def c(self, compiler: ReferenceC) -> dict[str, Contender]:
        """The C reference, under all of `FLAGS`."""
        job = self._job()
        backend = KernelBackend(job.plan)

        def contender(name: str) -> Contender:
            chain = ChainC(compiler.build(self.problem.dim, name), backend)
            return self._timed(job, lambda state: chain.advance(state, 0, self.steps))

        return {name: contender(name) for name in FLAGS}

    def run(self) -> Contender:
        """`levywalk.run`: checks, binding, 200 measured checkpoints, the trace."""
        return lambda: (
            1e9
            / self.steps
            * seconds(
                lambda: lw.run(
                    self.network,
                    self.problem,
                    lw.mhlj(),
                    steps=self.steps,
                    step_size="theory",
                    threads=1,
                    record_visits=self.visits,
                    progress=False,
                )
            )
        )

    def oracle(self, steps: int) -> Contender:
        """The reference backend, over fewer steps."""
        job = self._job()
        return self._timed(job, lambda state: reference.advance(job.plan, state, range(1), 0, steps), steps)

    def numpy(self, steps: int) -> Contender:
        """The plain numpy loop, over fewer steps."""
        plan = self._job().plan
        return lambda: 1e9 / steps * seconds(lambda: numpy_loop.walk(plan, steps))

    def disagreements(self, compiler: ReferenceC, steps: int) -> list[str]:
        """Return what differs between the kernel and C after ``steps`` steps: nothing, it is hoped."""
        job = chain_job(self.network, self.problem, steps, visits=True, walk=True)
        backend = KernelBackend(job.plan)
        ours = State.new(job.plan, job.start, job.x0)
        backend.block(ours, range(1)).advance(0, steps)
        found = []
        for flags in FLAGS:
            theirs = State.new(job.plan, job.start, job.x0)
            ChainC(compiler.build(self.problem.dim, flags), backend).advance(theirs, 0, steps)
            found += [
                f"{flags}: {name}"
                for name in ("walk", "visits", "node", "hops", "transfers")
                if not np.array_equal(getattr(ours, name), getattr(theirs, name))
            ]
            error = np.linalg.norm(ours.model - theirs.model) / np.linalg.norm(ours.model)
            if not error <= TOLERANCE:
                found.append(f"{flags}: model by {error:.1e}")
        return found

    def _job(self) -> Job:
        return chain_job(self.network, self.problem, self.steps, visits=self.visits, walk=False)

    def _timed(self, job: Job, advance: Callable[[State], None], steps: int | None = None) -> Contender:
        """Time ``advance`` from the start each time; making the state is not counted."""
        per_update = 1e9 / (steps or self.steps)

        def measure() -> float:
            state = State.new(job.plan, job.start, job.x0)
            return per_update * seconds(lambda: advance(state))

        return measure
