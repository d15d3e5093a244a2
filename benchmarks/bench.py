"""The benchmarks: one table of medians and ratios; see `main`'s options with ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import levywalk as lw
from benchmarks.cases import KERNEL, TOLERANCE, Chain, logistic, many_samples
from benchmarks.reference_c import PLAIN, ReferenceC
from benchmarks.timing import Contender, Row, cores, interleave, machine, seconds, table

NS = "ns/update"


@dataclass(frozen=True)
class Scale:
    """How much work to measure."""

    steps: int
    large_steps: int  # where every step misses the cache
    slow_steps: int  # for plain Python
    replica_steps: int
    repetitions: int
    nodes: int  # of the large networks
    generations: int


FULL = Scale(1_000_000, 500_000, 10_000, 500_000, 11, 1_000_000, 3)
QUICK = Scale(200_000, 100_000, 2_000, 100_000, 5, 100_000, 1)


def chains(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """One chain: against C, with visits, by dimension, by loss, by network."""
    ring = lw.ring(1000)
    problem = lw.heterogeneous(1000, important=2)
    steps = scale.steps

    plain = Chain(ring, problem, steps)
    _check("ring(1000), dim 10", plain, compiler)
    extra = {
        "lw.run": plain.run(),
        "reference backend": plain.oracle(scale.slow_steps),
        "plain numpy loop": plain.numpy(scale.slow_steps),
    }
    yield from _against_c("ring(1000), dim 10", plain, compiler, scale, extra)
    yield from _against_c("ring(1000), dim 10, visits", Chain(ring, problem, steps, visits=True), compiler, scale)
    for dim in (2, 33, 100):
        chain = Chain(ring, lw.heterogeneous(1000, dim, important=2), steps)
        _check(f"ring(1000), dim {dim}", chain, compiler)
        yield from _against_c(f"ring(1000), dim {dim}", chain, compiler, scale)

    losses = {
        "least squares": plain.kernel(),
        "logistic": Chain(ring, logistic(1000, 10), steps).kernel(),
        "least squares, 10 samples a node": Chain(ring, many_samples(1000, 10, 10), steps).kernel(),
    }
    yield from interleave(
        "chain", "ring(1000), dim 10, kernel", losses, scale.repetitions, unit=NS, baseline="least squares"
    )

    for network in (lw.erdos_renyi(1000, 0.1), lw.watts_strogatz(scale.nodes, 4, 0.1)):
        steps = scale.steps if network.n == 1000 else scale.large_steps
        chain = Chain(network, lw.heterogeneous(network.n), steps)
        _check(network.name, chain, compiler)
        yield from _against_c(f"{network.name}, dim 10", chain, compiler, scale)


def _against_c(
    case: str, chain: Chain, compiler: ReferenceC | None, scale: Scale, extra: dict[str, Contender] | None = None
) -> list[Row]:
    """Measure the kernel and C in turn; without a compiler, the kernel is its own baseline."""
    contenders = {KERNEL: chain.kernel(), **(chain.c(compiler) if compiler else {}), **(extra or {})}
    return interleave("chain", case, contenders, scale.repetitions, unit=NS, baseline=PLAIN if compiler else KERNEL)


def _check(case: str, chain: Chain, compiler: ReferenceC | None) -> None:
    """Print whether C and the kernel agree; figures of two different algorithms would mean nothing."""
    if compiler is None:
        return
    steps = min(chain.steps, 200_000)
    found = chain.disagreements(compiler, steps)
    if found:
        raise SystemExit(f"check: {case}: the kernel and C differ after {steps:,} steps: {', '.join(found)}")
    print(
        f"check: {case}: C and the kernel agree over {steps:,} steps: walk, visits, final node, hops and transfers "
        f"exactly, models to {TOLERANCE:g}"
    )


def replicas(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Sixteen replicas on one thread and on more, measured at 200 checkpoints and at the end alone."""
    network, problem, count, steps = lw.ring(1000), lw.heterogeneous(1000, important=2), 16, scale.replica_steps

    def contender(threads: int, record_every: int | None) -> Contender:
        def work() -> object:
            return lw.run(
                network,
                problem,
                lw.mhlj(),
                steps=steps,
                step_size="theory",
                replicas=count,
                threads=threads,
                record_every=record_every,
                record_visits=False,
                progress=False,
            )

        return lambda: 1e9 / (count * steps) * seconds(work)

    for title, record_every in (("200 checkpoints", None), ("one checkpoint", steps)):
        contenders = {_threads(number): contender(number, record_every) for number in sorted({1, 2, cores()})}
        case = f"lw.run, {count} replicas, {title}"
        for row in interleave("replicas", case, contenders, scale.repetitions, unit=NS, baseline=_threads(1)):
            yield replace(row, note=f"{1 / row.ratio:.2f} times as fast")


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def generators(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """The families at a million nodes."""
    n = scale.nodes
    side = round(n**0.5)
    makers: list[Callable[[], lw.Network]] = [
        lambda: lw.ring(n),
        lambda: lw.grid(side, side),
        lambda: lw.watts_strogatz(n, 4, 0.1),
        lambda: lw.erdos_renyi(n, 8 / n),
        lambda: lw.random_regular(n, 4),
        lambda: lw.barabasi_albert(n, 2),
    ]
    networks = [maker() for maker in makers]
    notes = {each.name: f"{(each.indptr.nbytes + each.indices.nbytes) / each.n:.0f} bytes/node" for each in networks}
    contenders: dict[str, Contender] = {
        network.name: lambda maker=maker: seconds(maker)  # type: ignore[misc]
        for network, maker in zip(networks, makers, strict=True)
    }
    rows = interleave(
        "generators", f"networks of {n:,} nodes", contenders, scale.generations, unit="s", baseline=networks[0].name
    )
    for row in rows:
        yield replace(row, ratio_to="", note=notes[row.contender])  # a ratio of two families says nothing


SECTIONS = {"chain": chains, "replicas": replicas, "generators": generators}


def main() -> None:
    """Measure what the command line asks for, print the table."""
    options = _options()
    scale = QUICK if options.quick else FULL
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        compiler = ReferenceC.find(Path(folder))
        about = machine(compiler.version() if compiler else "no gcc found: the C rows are skipped")
        print("\n".join(f"{name + ':':10}{value}" for name, value in about.items()), end="\n\n")
        rows = [row for name in options.only for row in SECTIONS[name](scale, compiler)]
    print(f"\n{table(rows)}\n")
    print(
        f"Medians of {scale.repetitions} interleaved repetitions ({scale.generations} for networks); a ratio is the "
        f"median of the ratios within repetitions. {time.perf_counter() - began:.0f} s in all."
    )
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less work, smaller networks: a third of the time")
    parser.add_argument(
        "--only", type=_sections, default=list(SECTIONS), metavar="NAME,…", help=f"of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to a file")
    return parser.parse_args()


def _sections(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"must be of {', '.join(SECTIONS)}, got {name!r}")
    return names
