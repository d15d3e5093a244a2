"""The section on sizes: Watts-Strogatz networks of 1k to 10M nodes, each in a process of its own.

So its memory is its own too: resident bytes above those of the imported library, once bound and at
the peak.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import levywalk as lw
from benchmarks.cases import Case, heterogeneous
from benchmarks.probes import PEAK, RANDOM, Probes
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import NS, STEP, Clock, Row, absent, interleave, seconds
from benchmarks.walks import WALKERS, WalkAlone
from levywalk.problem import GeneralizedLinear
from levywalk.room import available_bytes

BYTES_PER_NODE = 600  # at the peak, to know beforehand what would not fit
UNITS = {
    "build network": "s",
    "draw data": "s",
    "bind": "s",
    "memory once bound": "bytes/node",
    "memory at the peak": "bytes/node",
}
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
REPLICAS = 64
ONE, MANY, WALK = "kernel, one replica", f"kernel, {REPLICAS} replicas", "the walk alone"


def sizes(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Seconds to build and bind, bytes per node, and nanoseconds per update and step, by size."""
    for n in scale.sizes:
        title = f"watts_strogatz({n}, 4, 0.1), dim 10"
        if n * BYTES_PER_NODE > available_bytes():
            yield absent(
                "sizes", title, MANY, NS, f"needs {n * BYTES_PER_NODE / 2**30:.1f} GiB of memory"
            )
            continue
        command = [
            sys.executable,
            "-m",
            "benchmarks.sizes",
            str(n),
            str(scale.large_steps),
            str(scale.repetitions),
        ]
        command += ["--cpu"] if Clock.name == "cpu" else []
        found = json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
        )
        for name, unit in UNITS.items():
            value = found["once"][name]
            yield Row("sizes", title, name, unit, value, value, value, None, "", 1, "", n)
        yield from (Row(**row) for row in found["rows"])


def measure(n: int, steps: int, repetitions: int) -> dict[str, Any]:
    """Measure one size in this process."""
    warm = lw.watts_strogatz(500, 4, 0.1)
    for replicas in (1, REPLICAS):  # compile, and load all that the measurement will load
        Case(warm, heterogeneous(warm.n), 100, replicas).kernel()()
    _forget_peak()
    before = _resident()
    once: dict[str, float] = {}
    network = _timed(once, "build network", lambda: lw.watts_strogatz(n, 4, 0.1))
    problem = _timed(once, "draw data", lambda: heterogeneous(n))
    many = Case(network, problem, steps // 16, REPLICAS)
    _timed(once, "bind", lambda: many.backend)
    once["memory once bound"] = max(_resident() - before, 0) / n
    title = f"watts_strogatz({n}, 4, 0.1), dim 10"
    rows = interleave(
        "sizes", title, {MANY: many.kernel()}, repetitions, unit=NS, baseline="", at=n
    )
    once["memory at the peak"] = max(_peak() - before, 0) / n
    rows += _one_replica(network, problem, title, steps, repetitions)
    each = max(steps * 16 // WALKERS, 1)
    alone = WalkAlone(network, lw.simple_rw(), None)
    advance = alone.kernel(each)
    step = {WALK: lambda: 1e9 / (each * WALKERS) * seconds(advance)}
    rows += interleave("sizes", title, step, repetitions, unit=STEP, baseline="", at=n)
    with tempfile.TemporaryDirectory() as folder:
        compiler = ReferenceC.find(Path(folder))
        if compiler is not None and many.backend.tables is not None:
            probes, tables = Probes(compiler, steps * 4), many.backend.tables
            limits = {
                RANDOM: lambda: probes.lines_of_update(tables, 10),
                PEAK: lambda: probes.arithmetic(10),
            }
            rows += interleave("sizes", title, limits, repetitions, unit=NS, baseline="", at=n)
            limits = {f"{RANDOM}, {WALK}": lambda: probes.lines_of_step(alone.tables)}
            rows += interleave("sizes", title, limits, repetitions, unit=STEP, baseline="", at=n)
    return {"once": once, "rows": [vars(row) for row in rows]}


def _one_replica(
    network: lw.Network, problem: GeneralizedLinear, title: str, steps: int, repetitions: int
) -> list[Row]:
    contenders = {ONE: Case(network, problem, steps).kernel()}
    return interleave("sizes", title, contenders, repetitions, unit=NS, baseline="", at=network.n)


def _timed(once: dict[str, float], name: str, work: Callable[[], Any]) -> Any:
    results: list[Any] = []
    once[name] = seconds(lambda: results.append(work()))
    return results[0]


def _resident() -> int:
    """Return this process's resident bytes; their peak where the system does not tell."""
    return _status("VmRSS") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


def _peak() -> int:
    """Return the most resident bytes since `_forget_peak`, or ever where the system cannot
    forget.
    """
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


def _forget_peak() -> None:
    """Compiling takes hundreds of megabytes, and they are not the network's."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    """Return a figure of Linux's about this process in bytes, zero elsewhere."""
    file = Path("/proc/self/status")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def main() -> None:
    """Measure one size and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("repetitions", type=int)
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    if arguments.cpu:
        Clock.use_cpu()
    print(json.dumps(measure(arguments.nodes, arguments.steps, arguments.repetitions)))


if __name__ == "__main__":
    main()
