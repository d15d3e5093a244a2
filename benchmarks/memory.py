"""Updates and walks that remember, beside plain SGD: time per update, and memory per node."""

from __future__ import annotations

from collections.abc import Iterator

import levywalk as lw
from benchmarks.cases import KERNEL, Case, heterogeneous, logistic, networks
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import NS, Row, interleave
from levywalk.problem import GeneralizedLinear

REPLICAS = 64
SGD = f"{KERNEL}, sgd"
BYTES = "bytes per (replica, node)"
_TABLES = {"sag": lw.sag(), "saga": lw.saga(), "point_saga": lw.point_saga()}
_PLAIN = {"finito": lw.finito(), "newton_token": lw.newton_token(), "walkman": lw.walkman()}
_WALKS = {
    "mhda": lw.mhda(),
    "least_used_edge": lw.least_used_edge(),
    "oldest_neighbour": lw.oldest_neighbour(),
    "depth_first_tour": lw.depth_first_tour(),
}


def memory(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Many replicas of each update and walk; what a node keeps for each of them."""
    for network in networks(scale.nodes)[:3]:
        steps = (scale.steps if network.n == 1000 else scale.large_steps) // REPLICAS
        problem = heterogeneous(network.n)
        title = f"{network.name}, least squares, dim 10, {REPLICAS} replicas"
        yield from _updates(network, problem, title, steps, scale)
    ring = lw.ring(1000)
    steps = scale.steps // REPLICAS
    title = f"ring(1000), logistic, dim 10, {REPLICAS} replicas"
    yield from _updates(ring, logistic(1000, 10), title, steps, scale)
    one = {
        f"{KERNEL}, {name}": Case(ring, heterogeneous(1000), scale.steps, update=update).kernel()
        for name, update in {"sgd": None, **_TABLES}.items()
    }
    title = "ring(1000), least squares, dim 10, one replica"
    yield from interleave("memory", title, one, scale.repetitions, unit=NS, baseline=SGD)
    yield from _plain_loop(ring, scale)
    yield from _bytes(ring)


def _updates(
    network: lw.Network, problem: GeneralizedLinear, title: str, steps: int, scale: Scale
) -> list[Row]:
    """Measure the updates that have vector kernels beside SGD."""
    contenders = {
        f"{KERNEL}, {name}": Case(network, problem, steps, REPLICAS, update=update).kernel()
        for name, update in {"sgd": None, **_TABLES}.items()
    }
    return interleave("memory", title, contenders, scale.repetitions, unit=NS, baseline=SGD)


def _plain_loop(ring: lw.Network, scale: Scale) -> Iterator[Row]:
    """Measure updates that have no vector kernel, and Point-SAGA along walks that remember."""
    problem, steps = heterogeneous(1000), scale.steps // REPLICAS // 4
    contenders = {SGD: Case(ring, problem, steps, REPLICAS).kernel()}
    contenders |= {
        f"{KERNEL}, {name}": Case(ring, problem, steps, REPLICAS, update=update).kernel()
        for name, update in _PLAIN.items()
    }
    contenders |= {
        f"{KERNEL}, {name} + point_saga": Case(
            ring, problem, steps, REPLICAS, design=walk, update=lw.point_saga()
        ).kernel()
        for name, walk in _WALKS.items()
    }
    title = f"ring(1000), least squares, dim 10, {REPLICAS} replicas, the plain loop"
    yield from interleave("memory", title, contenders, scale.repetitions, unit=NS, baseline=SGD)


def _bytes(ring: lw.Network) -> Iterator[Row]:
    """Count what a node keeps for each replica, by the declarations that a run allocates by."""
    methods: dict[str, tuple[lw.Walk | None, lw.Update]] = {
        name: (None, update) for name, update in (_TABLES | _PLAIN).items()
    }
    methods |= {f"{name} + point_saga": (walk, lw.point_saga()) for name, walk in _WALKS.items()}
    for name, (walk, update) in methods.items():
        case = Case(ring, heterogeneous(1000), 1, design=walk, update=update)
        size = case.job.run_plan.node_memory_bytes() / ring.n
        note = f"{size * REPLICAS / 1000:.3g} GB at 1M nodes and {REPLICAS} replicas"
        blank = (None, "", 1, note)
        yield Row("memory", "ring, dim 10, what nodes keep", name, BYTES, size, size, size, *blank)
