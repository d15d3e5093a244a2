"""Sections on updates: one chain against C, many replicas, dimensions, threads, checkpoints, visits
and draws.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

import levywalk as lw
from benchmarks.cases import (
    KERNEL,
    TOLERANCE,
    Case,
    cheaper_draws_c,
    heterogeneous,
    logistic,
    many_samples,
    networks,
    walkers_c,
)
from benchmarks.reference_c import BY_HAND, FAST, PLAIN, ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import NS, Contender, Row, cores, interleave
from levywalk.problem import GeneralizedLinear

REPLICAS = 64
APART = "kernel, one replica after the other"
_LOSS_DIMS = (2, 10, 32, 100, 1000)
_SAMPLES = (1, 2, 5, 10, 100)


def chains(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """One chain: against C and the loops that one would first write, on four networks, and with
    visits.
    """
    for network in networks(scale.nodes):
        case = Case(network, heterogeneous(network.n), _steps(network, scale))
        title = f"{network.name}, dim 10"
        _check(title, case, compiler)
        contenders = {
            KERNEL: case.kernel(),
            **(case.c(compiler) if compiler else {}),
            "plain numba loop": case.numba(),
            "plain numpy loop": case.numpy(scale.slow_steps),
        }
        if network.n == 1000:
            contenders |= {"lw.run": case.run(), "reference backend": case.oracle(scale.slow_steps)}
        yield from interleave(
            "chain", title, contenders, scale.repetitions, unit=NS, baseline=_baseline(compiler)
        )


def walkers(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Many replicas at once: against each alone, and against C."""
    for network in networks(scale.nodes):
        steps = _steps(network, scale) * 4 // REPLICAS
        case = Case(network, heterogeneous(network.n), steps, REPLICAS)
        title = f"{network.name}, dim 10, {REPLICAS} replicas"
        _check(title, case, compiler)
        contenders = {KERNEL: case.kernel(), APART: case.apart()}
        if compiler:
            contenders |= {
                f"{name}, one after the other": contender
                for name, contender in case.c(compiler).items()
            }
            contenders |= {
                name: case.by(advance)
                for name, advance in walkers_c(compiler, case.backend).items()
            }
        baseline = BY_HAND if BY_HAND in contenders else KERNEL
        yield from interleave(
            "walkers", title, contenders, scale.repetitions, unit=NS, baseline=baseline
        )


def dims(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Dimensions, for many replicas and for one; logistic regression; samples per node."""
    ring = lw.ring(1000)
    for dim in scale.dims:
        problem = heterogeneous(1000, dim)
        one, many = (
            Case(ring, problem, _steps_for(dim, 1, count, scale), count) for count in (1, REPLICAS)
        )
        _check(f"ring(1000), dim {dim}", one, compiler)
        contenders = {
            f"{KERNEL}, {REPLICAS} replicas": many.kernel(),
            f"{KERNEL}, one replica": one.kernel(),
        }
        if compiler:
            contenders |= one.c(compiler)
            contenders |= {
                name: many.by(advance)
                for name, advance in walkers_c(compiler, many.backend).items()
            }
        baseline = FAST if compiler else f"{KERNEL}, one replica"
        title = f"ring(1000), least squares, dim {dim}"
        yield from interleave(
            "dims", title, contenders, scale.repetitions, unit=NS, baseline=baseline, at=dim
        )
    for dim in sorted(set(_LOSS_DIMS) & set(scale.dims)):
        title = f"ring(1000), logistic, dim {dim}"
        yield from _one_and_many(ring, logistic(1000, dim), title, dim, 1, scale, dim)
    for each in _SAMPLES:
        title = f"ring(1000), least squares, dim 10, samples per node {each}"
        problem = many_samples(1000, 10, each) if each > 1 else heterogeneous(1000)
        yield from _one_and_many(ring, problem, title, 10, each, scale, each)


def threads(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """The same replicas on one thread, on two, on all, and in as many processes."""
    most = cores()
    counts = sorted({1, 2, most})
    for network in networks(scale.nodes):
        case = Case(
            network, heterogeneous(network.n), _steps(network, scale) * 16 // REPLICAS, REPLICAS
        )
        contenders = {_threads(count): case.kernel(count) for count in counts}
        workers = {_processes(count): case.processes(count) for count in counts[1:]}
        yield from _speed_ups(
            f"{network.name}, dim 10, kernel, {REPLICAS} replicas", contenders | workers, scale
        )
        for each in workers.values():
            each.stop()
    case = Case(lw.ring(1000), heterogeneous(1000), scale.steps // 2, REPLICAS)
    contenders = {
        _threads(count): case.run(record_every=case.steps, threads=count) for count in counts
    }
    yield from _speed_ups(
        f"ring(1000), dim 10, lw.run, {REPLICAS} replicas, one checkpoint", contenders, scale
    )


def checkpoints(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """What measuring the model at the default 200 checkpoints costs, against one."""
    ring = lw.ring(1000)
    for dim, replicas in ((10, 1), (10, REPLICAS), (100, REPLICAS)):
        steps = scale.steps // 2 if dim == 10 else scale.steps // 8
        case = Case(ring, heterogeneous(1000, dim), steps, replicas)
        contenders = {"one checkpoint": case.run(record_every=steps), "200 checkpoints": case.run()}
        title = f"ring(1000), dim {dim}, lw.run, {_replicas(replicas)} of {steps:,} steps"
        yield from interleave(
            "checkpoints", title, contenders, scale.repetitions, unit=NS, baseline="one checkpoint"
        )


def visits(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """What counting visits costs, and what the two-level draws cost against cheaper ones."""
    for network in networks(scale.nodes)[::2]:
        problem, steps = heterogeneous(network.n), _steps(network, scale)
        for replicas in (1, REPLICAS):
            cases = [
                Case(network, problem, steps * 4 // max(replicas, 4), replicas, visits=each)
                for each in (False, True)
            ]
            contenders = {"without visits": cases[0].kernel(), "with visits": cases[1].kernel()}
            title = f"{network.name}, dim 10, kernel, {_replicas(replicas)}"
            yield from interleave(
                "visits", title, contenders, scale.repetitions, unit=NS, baseline="without visits"
            )
    if compiler is None:
        return
    for network in networks(scale.nodes)[::2]:
        case = Case(
            network, heterogeneous(network.n), _steps(network, scale) * 4 // REPLICAS, REPLICAS
        )
        contenders = {
            name: case.by(advance)
            for name, advance in cheaper_draws_c(compiler, case.backend).items()
        }
        if contenders:
            title = f"{network.name}, dim 10, draws, {REPLICAS} replicas"
            yield from interleave(
                "visits", title, contenders, scale.repetitions, unit=NS, baseline=BY_HAND
            )


def _steps(network: lw.Network, scale: Scale) -> int:
    return scale.steps if network.n == 1000 else scale.large_steps


def _steps_for(dim: int, samples: int, replicas: int, scale: Scale) -> int:
    """Return the steps that take about the scale's budget: so that dimension 1000 takes no longer
    than 2.
    """
    return max(int(scale.budget / (15e-9 + 0.4e-9 * dim * samples) / replicas), 500)


def _one_and_many(
    ring: lw.Network,
    problem: GeneralizedLinear,
    title: str,
    dim: int,
    samples: int,
    scale: Scale,
    at: int,
) -> list[Row]:
    one, many = (
        Case(ring, problem, _steps_for(dim, samples, count, scale), count)
        for count in (1, REPLICAS)
    )
    contenders = {
        f"{KERNEL}, {REPLICAS} replicas": many.kernel(),
        f"{KERNEL}, one replica": one.kernel(),
    }
    baseline = f"{KERNEL}, one replica"
    return interleave(
        "dims", title, contenders, scale.repetitions, unit=NS, baseline=baseline, at=at
    )


def _speed_ups(title: str, contenders: dict[str, Contender], scale: Scale) -> Iterator[Row]:
    """Measure against one thread, and say what share of the processes' gain the threads reach."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}

    def noted(name: str) -> Contender:
        def measure() -> float:
            taken[name].append(contenders[name]())
            return taken[name][-1]

        return measure

    found = interleave(
        "threads",
        title,
        {name: noted(name) for name in contenders},
        scale.repetitions,
        unit=NS,
        baseline=_threads(1),
    )
    for row in found:
        assert row.ratio is not None
        number, _, kind = row.contender.partition(" ")
        note = f"{1 / row.ratio:.2f} times as fast"
        others = taken.get(_processes(int(number)))
        if others and kind == "threads":
            pairs = zip(others[1:], taken[row.contender][1:], strict=True)
            share = statistics.median(other / own for other, own in pairs)
            note += f", {share:.2f} of what {number} processes gain"
        yield replace(row, note=note, at=int(number))


def _baseline(compiler: ReferenceC | None) -> str:
    return PLAIN if compiler else KERNEL


def _processes(number: int) -> str:
    return f"{number} processes"


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def _replicas(number: int) -> str:
    return "one replica" if number == 1 else f"{number} replicas"


def _check(title: str, case: Case, compiler: ReferenceC | None) -> None:
    """Print whether C and the kernel agree; figures of two different algorithms would mean
    nothing.
    """
    if compiler is None:
        return
    steps = min(case.steps, 200_000 // case.replicas)
    found = case.disagreements(compiler, steps)
    if found:
        raise SystemExit(
            f"check: {title}: the kernel and C differ after {steps:,} steps: {', '.join(found)}"
        )
    print(
        f"check: {title}: C and the kernel agree over {steps:,} steps: final node, hops and "
        "transfers exactly (chain.c "
        f"also in walk and visits), models to {TOLERANCE:g}",
        flush=True,
    )
