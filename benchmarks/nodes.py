"""How fast real nodes pass the model on: ``make bench-fleet``, or ``python -m benchmarks.nodes
[CASE …]``.

Every hop is what it is in use: a process per node, mutual TLS 1.3 on the loopback, a guardian,
signatures, SQLite with fsync. A hop's time is that between the first and the last line of the walk
in the nodes' own logs, over the transfers in between. Before each run the time of an fsync and the
machine's load are printed: no hop is faster than four fsyncs.

``--against FOLDER`` compares with another checkout, which has an environment of its own in
``.venv``: runs of the two alternate, and the ratio is the median over the pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

import levywalk as lw
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.create import create
from levywalk.fleet.storage.disk_speed import fsync_seconds

MEGABYTES_10 = 10 * 1024 * 1024 // 8
NEVER = 10**9
GOALS = {"small": 200.0, "large": 3.0, "many": 80.0}
UP_WITHIN = 60.0


@contextmanager
def fleet(network: lw.Network, dim: int, steps: int, **more: Any) -> Iterator[FleetFolder]:
    """Make a fleet in a temporary folder; stop all of its processes at the end."""
    rng = np.random.default_rng(0)
    problem = lw.LeastSquares(
        rng.normal(size=(network.n, dim)) / np.sqrt(dim),
        rng.normal(size=network.n),
        node=np.arange(network.n),
    )
    with tempfile.TemporaryDirectory() as name:
        at = create(
            Path(name) / "fleet",
            network,
            problem,
            lw.unif_rw(),  # on a regular network every step is a hop
            steps=steps,
            terms=HandOffTerms(run=b""),
            record_every=NEVER,
            metrics=False,
            **{"step_size": "theory", **more},
        )
        print(
            f"  fsync {1e3 * fsync_seconds(name):.2f} ms, load {os.getloadavg()[0]:.1f}", flush=True
        )
        folder = FleetFolder.open(at)
        try:
            yield folder
        finally:
            folder.stop(force=True)


def whole_walk(folder: FleetFolder) -> tuple[float, float]:
    """Let a walk go to its end; return hops per second, and CPU milliseconds of all processes per
    hop.
    """
    folder.up()
    before = cpu_seconds(folder)
    while not (status := folder.status())["finished"]:
        time.sleep(2.0)  # asking costs the nodes time
    used = cpu_seconds(folder) - before
    seconds = times(folder, "finished") - times(folder, "began")
    hops = status["transfers"]
    return hops / seconds, 1e3 * used / hops


def times(folder: FleetFolder, event: str) -> float:
    """Return when something was first logged, by the node that it happened at."""
    found = []
    for v in folder.files:
        for line in folder.log(v).read_text().splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("event") == event:
                found.append(datetime.fromisoformat(entry["time"]).timestamp())
    return min(found)


def processes(folder: FleetFolder) -> list[int]:
    return [
        node["pid"] for node in folder.status(patience=10.0)["nodes"] if node["pid"] is not None
    ]


def cpu_seconds(folder: FleetFolder) -> float:
    """Return the CPU time of all nodes so far."""
    ticks = 0
    for pid in processes(folder):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(folder: FleetFolder) -> list[float]:
    """Return each process's share of the memory (PSS), in MiB."""
    rows = [Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in processes(folder)]
    return [int(row.split()[1]) / 1024 for lines in rows for row in lines if row.startswith("Pss:")]


def small(times: int) -> None:
    """A model of 10 floats on a ring of 4."""
    rates = []
    for _ in range(times):
        with fleet(lw.ring(4), 10, 2000) as folder:
            rate, cpu = whole_walk(folder)
            print(
                f"  {rate:.0f} hops/s, {cpu:.1f} ms of CPU a hop, "
                f"{statistics.mean(memory(folder)):.0f} MiB a process"
            )
            rates.append(rate)
    print(
        f"10 floats: {statistics.median(rates):.0f} hops/s (median of {times}; goal "
        f"{GOALS['small']:.0f})"
    )


def large(times: int) -> None:
    """A model of 10 MB on a ring of 4."""
    rates = []
    for _ in range(times):
        with fleet(lw.ring(4), MEGABYTES_10, 60) as folder:
            rate, cpu = whole_walk(folder)
            print(
                f"  {rate:.1f} hops/s, {cpu:.0f} ms of CPU a hop, "
                f"{statistics.mean(memory(folder)):.0f} MiB a process"
            )
            rates.append(rate)
    print(
        f"10 MB: {statistics.median(rates):.1f} hops/s (median of {times}; goal "
        f"{GOALS['large']:.0f})"
    )


def many(times: int) -> None:
    """A hundred processes, four neighbours each."""
    for _ in range(times):
        with fleet(lw.watts_strogatz(100, 4, 0.1, seed=0), 10, NEVER) as folder:
            began = time.perf_counter()
            folder.up(timeout=600.0)
            up = time.perf_counter() - began
            first, at = folder.status(patience=10.0)["transfers"], time.perf_counter()
            time.sleep(20.0)
            last, seconds = folder.status(patience=10.0)["transfers"], time.perf_counter() - at
            print(
                f"100 processes: up and the walk begun after {up:.0f} s (goal {UP_WITHIN:.0f}), "
                f"{(last - first) / seconds:.0f} hops/s (goal {GOALS['many']:.0f}), "
                f"{statistics.mean(memory(folder)):.0f} MiB a process"
            )


def compared(times: int) -> None:
    """Guardians that compare models (`--check-updates`), and guardians that do not, in turn."""
    private: dict[str, Any] = {"privacy": "clip=5,noise=20", "step_size": 0.01}
    checked = {True: private | {"check_updates": True}, False: private}
    in_turn(times, checked, ((10, 300), (131_072, 60)))


def private(times: int) -> None:
    """Nodes with privacy, and nodes without, in turn."""
    plain: dict[str, Any] = {"step_size": 0.01}
    kinds = {True: plain | {"privacy": "clip=5,noise=20"}, False: plain}
    in_turn(times, kinds, ((10, 600), (640, 300)))


def in_turn(
    times: int, kinds: dict[bool, dict[str, Any]], sizes: tuple[tuple[int, int], ...]
) -> None:
    """Compare fleets with an option (True) and without it, for pairs of a dimension and steps."""
    for dim, steps in sizes:
        ratios: dict[str, list[float]] = {"hops/s": [], "CPU time of a hop": []}
        for pair in range(times):
            found = {}
            for chosen in (False, True) if pair % 2 == 0 else (True, False):
                with fleet(lw.ring(4), dim, steps, **kinds[chosen]) as folder:
                    found[chosen] = whole_walk(folder)
            (was, cpu_was), (now, cpu_now) = found[False], found[True]
            ratios["hops/s"].append(now / was)
            ratios["CPU time of a hop"].append(cpu_now / cpu_was)
            print(
                f"  {dim} numbers: {was:.1f} hops/s without and {now:.1f} with, {cpu_was:.1f} and "
                f"{cpu_now:.1f} ms of CPU a hop",
                flush=True,
            )
        for name, values in ratios.items():
            ordered = ", ".join(f"{value:.2f}" for value in sorted(values))
            print(f"{dim} numbers, {name}: {statistics.median(values):.2f} times ({ordered})")


# What a pair runs: network, dim and steps. On the ring every second hop goes back to the guardian.
PAIRS = {
    "small": ("lw.ring(4)", 10, 400),
    "onward": ("lw.complete(8)", 10, 400),
    "large": ("lw.ring(4)", MEGABYTES_10, 30),
}
_ONE = """
import contextlib, io, json, levywalk as lw, benchmarks.nodes as nodes
with contextlib.redirect_stdout(io.StringIO()), nodes.fleet({network}, {dim}, {steps}) as folder:
    found = nodes.whole_walk(folder)
print(json.dumps(found))
"""


def against(other: Path, case: str, pairs: int) -> None:
    """Compare this checkout with another one, in runs that alternate."""
    network, dim, steps = PAIRS[case]
    print(f"{case}: {dim} numbers, {network}, {steps} steps", flush=True)
    code = _ONE.format(network=network, dim=dim, steps=steps)
    here = Path(__file__).parents[1]
    ratios: dict[str, list[float]] = {"hops/s": [], "CPU time of a hop": []}
    for pair in range(pairs):
        found = {}
        order = [(other, other / ".venv" / "bin" / "python"), (here, Path(sys.executable))]
        for folder, python in order if pair % 2 == 0 else order[::-1]:
            run = subprocess.run(
                [str(python), "-c", code], cwd=folder, capture_output=True, text=True, check=True
            )
            found[folder] = json.loads(run.stdout)
        (was, cpu_was), (now, cpu_now) = found[other], found[here]
        ratios["hops/s"].append(now / was)
        ratios["CPU time of a hop"].append(cpu_now / cpu_was)
        print(
            f"  {was:.1f} and {now:.1f} hops/s, {cpu_was:.1f} and {cpu_now:.1f} ms of CPU a hop, "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    for name, values in ratios.items():
        ordered = ", ".join(f"{value:.2f}" for value in sorted(values))
        print(f"{name}: {statistics.median(values):.2f} times that of {other} (pairs: {ordered})")


CASES = {
    "small": (small, 3),
    "large": (large, 3),
    "many": (many, 1),
    "compared": (compared, 3),
    "private": (private, 3),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nodes", description="How fast real nodes pass the model on."
    )
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help=f"{', '.join(CASES)}; with --against {', '.join(PAIRS)}; all by default",
    )
    parser.add_argument("--times", type=int, help="how often each is repeated")
    parser.add_argument(
        "--against", type=Path, metavar="FOLDER", help="another checkout, to be compared with"
    )
    given = parser.parse_args()
    if given.against is not None:
        if not (given.against / ".venv" / "bin" / "python").exists():
            parser.error(
                f"FOLDER must be a checkout with an environment in .venv (run `make demo` there), "
                f"got {str(given.against)!r}"
            )
        for name in given.cases or PAIRS:
            if name not in PAIRS:
                parser.error(f"CASE must be one of {', '.join(PAIRS)}, got {name!r}")
            against(given.against.resolve(), name, given.times or 5)
        return
    for name in given.cases or CASES:
        if name not in CASES:
            parser.error(f"CASE must be one of {', '.join(CASES)}, got {name!r}")
        case, times = CASES[name]
        print(f"{name}: {case.__doc__}")
        case(given.times or times)


if __name__ == "__main__":
    main()
