"""The kernels for registers of 512, 256 and 128 bits, beside C for the same width.

Each width is measured in a process of its own, in which the compiler may use no wider registers. A
width that the machine lacks is marked "not measured".
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import levywalk as lw
from benchmarks.cases import KERNEL, Case, cheaper_draws_c, heterogeneous, networks
from benchmarks.probes import RANDOM, Probes
from benchmarks.reference_c import BY_HAND, FLAGS, WIDTHS, ReferenceC
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.timing import NS, STEP, Clock, Contender, Row, interleave, seconds
from benchmarks.updates import APART
from benchmarks.walks import WALKERS, WalkAlone

REPLICAS = 64
# What LLVM may use in a process that measures a width.
_FEATURES: dict[int, dict[str, str]] = {
    512: {},
    256: {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma,+bmi,+bmi2,+popcnt"},
    128: {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx,+fma,+popcnt"},
}


def widths(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """One chain and many replicas, for every width that this machine has."""
    for bits, features in _FEATURES.items():
        if compiler is None or platform.machine() != "x86_64" or not compiler.has(bits):
            note = "not measured: this machine does not have this width"
            blank = (None, None, None, None, "", 0)
            yield Row("widths", f"{bits} bits", KERNEL, NS, *blank, note)
            continue
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.widths", scale.name, Clock.name],
            env=os.environ | features,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for row in json.loads(found.stdout):
            yield Row(**row)


def _here(scale: Scale) -> Iterator[Row]:
    """Measure the width of this process."""
    from levywalk.engine.kernels.machine import vector_bits

    bits = vector_bits()
    assert bits in WIDTHS
    with tempfile.TemporaryDirectory() as folder:
        compiler = ReferenceC.find(Path(folder))
        assert compiler is not None
        for network in networks(scale.nodes):
            yield from _walk_alone(f"{bits} bits, {network.name}", network, scale, compiler)
        for network in networks(scale.nodes)[:3]:
            problem = heterogeneous(network.n)
            steps = 20_000 if network.n == 1000 else 5_000
            many = Case(network, problem, steps, REPLICAS)
            # One chain walks so far that it leaves the cache: over a tenth of these steps every
            # repetition finds its few thousand nodes of a large network in it.
            one = Case(network, problem, scale.large_steps if network.n > 1000 else 10 * steps)
            for case in (many, one):
                wrong = case.disagreements(compiler, 5_000)
                if wrong:
                    raise SystemExit(f"{bits} bits, {network.name}: C differs in {wrong}")
            title = f"{bits} bits, {network.name}, dim 10"
            contenders = {KERNEL: many.kernel(), APART: many.apart()}
            contenders |= {
                name: many.by(advance)
                for name, advance in cheaper_draws_c(compiler, many.backend).items()
            }
            yield from interleave(
                "widths",
                f"{title}, {REPLICAS} replicas",
                contenders,
                scale.repetitions,
                unit=NS,
                baseline=BY_HAND,
            )
            contenders = {KERNEL: one.kernel(), **one.c(compiler)}
            yield from interleave(
                "widths",
                f"{title}, one chain",
                contenders,
                scale.repetitions,
                unit=NS,
                baseline=list(FLAGS)[1],
            )


def _walk_alone(
    title: str, network: lw.Network, scale: Scale, compiler: ReferenceC
) -> Iterator[Row]:
    """The walk alone: the simple random walk and MHLJ, beside walk.c and the random lines."""
    steps = scale.large_steps // 20
    per_step = 1e9 / (steps * WALKERS)
    problem = heterogeneous(network.n)
    for design, name in ((lw.simple_rw(), "simple random walk"), (lw.mhlj(), "MHLJ")):
        walk = WalkAlone(network, design, problem)
        walk.check(compiler)
        works = {KERNEL: walk.kernel(steps), BY_HAND: walk.c(compiler, steps)}
        contenders: dict[str, Contender] = {
            who: (lambda work=work: per_step * seconds(work))  # type: ignore[misc]
            for who, work in works.items()
        }
        if network.n > 1000:  # in the cache the words of the step are the limit
            probes, tables = Probes(compiler), walk.tables
            contenders[RANDOM] = partial(probes.lines_of_step, tables)
        yield from interleave(
            "widths",
            f"{title}, the walk alone, {name}",
            contenders,
            scale.repetitions,
            unit=STEP,
            baseline=BY_HAND,
        )


if __name__ == "__main__":
    stdout, sys.stdout = sys.stdout, sys.stderr  # the rows are alone on stdout
    if sys.argv[2] == "cpu":
        Clock.use_cpu()
    rows = [asdict(row) for row in _here(QUICK if sys.argv[1] == QUICK.name else FULL)]
    print(json.dumps(rows), file=stdout)
