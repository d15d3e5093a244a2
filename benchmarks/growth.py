"""The section on growth: replicas and dimension, one at a time, beside the machine's limits.

What is not varied is 64 replicas, dimension 10 and 1,000 nodes. The growth with the number of nodes
is measured by `benchmarks.sizes`, where every size has a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import levywalk as lw
from benchmarks.cases import KERNEL, Case, heterogeneous
from benchmarks.probes import PEAK, RANDOM, Probes
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import NS, Row, interleave

NODES, REPLICAS, DIM = 1000, 64, 10
BY_REPLICAS, BY_DIM = "by replicas", "by dimension"
TITLE = f"watts_strogatz({NODES}, 4, 0.1)"


def growth(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Nanoseconds per update by replicas and by dimension."""
    network = lw.watts_strogatz(NODES, 4, 0.1)
    for replicas in scale.replicas:
        case = Case(network, heterogeneous(NODES, DIM), _steps(DIM, replicas, scale), replicas)
        title = f"{TITLE}, dim {DIM}, {BY_REPLICAS}: {replicas:,}"
        yield from _row(title, case, DIM, replicas, scale, compiler)
    for dim in scale.growth_dims:
        case = Case(network, heterogeneous(NODES, dim), _steps(dim, REPLICAS, scale), REPLICAS)
        yield from _row(
            f"{TITLE}, {REPLICAS} replicas, {BY_DIM}: {dim:,}", case, dim, dim, scale, compiler
        )


def _row(
    title: str, case: Case, dim: int, at: int, scale: Scale, compiler: ReferenceC | None
) -> list[Row]:
    contenders = {KERNEL: case.kernel()}
    tables = case.backend.tables
    if compiler is not None and tables is not None:
        probes = Probes(compiler)
        contenders[RANDOM] = lambda: probes.lines_of_update(tables, dim)
        contenders[PEAK] = lambda: probes.arithmetic(dim)
    repetitions = max(scale.repetitions // 2, 3)
    return interleave("growth", title, contenders, repetitions, unit=NS, baseline="", at=at)


def _steps(dim: int, replicas: int, scale: Scale) -> int:
    """Return the steps that take about the scale's budget."""
    return max(int(scale.budget / (8e-9 + 0.5e-9 * dim) / replicas), 20)
