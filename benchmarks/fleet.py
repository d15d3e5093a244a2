"""How fast a virtual fleet passes the model on, and in how much memory: ``python -m
benchmarks.fleet``.

A hand-off is a pass of the model between two nodes, guarded: seven messages and six commits to the
in-memory disk. Its time holds all that belongs to it: updates, decisions, hashes, signatures if
there are any, heartbeats of all nodes. Memory is the peak resident size of a whole process of its
own (VmHWM): the interpreter, numpy, scipy, the fleet, its logs.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import levywalk as lw
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import VirtualFleet

NETWORKS = {
    "ring(1000)": lambda: lw.ring(1000),
    "ws(1000,4,0.1)": lambda: lw.watts_strogatz(1000, 4, 0.1, seed=0),
}
DESIGNS = {"unif_rw": lw.unif_rw, "mhlj": lw.mhlj}
GOALS = {"signed": 2000, "unsigned": 5000}
MOST_MIB = 300
LATENCY = 0.001


def once(network: str, design: str, steps: int, *, signed: bool) -> tuple[float, float, float]:
    """Return hand-offs per second, updates per second and the share of messages that are
    heartbeats.
    """
    plan = Fleet.of(
        NETWORKS[network](),
        lw.heterogeneous(1000, seed=0),
        DESIGNS[design](),
        steps=steps,
        step_size="theory",
    )
    virtual = VirtualFleet(plan, signed=signed, latency=LATENCY)
    began = time.process_time()
    if not virtual.run():
        raise RuntimeError("the walk did not come to its end")
    seconds = time.process_time() - began
    final = virtual.final
    return (
        final.transfers / seconds,
        final.step / seconds,
        1.0 - 7.0 * final.transfers / virtual.messages,
    )


def peak(network: str, design: str, steps: int, *, signed: bool) -> float:
    """Return the peak resident size of a process that does this and nothing else, in MiB."""
    code = (
        f"from benchmarks.fleet import once, resident; once({network!r}, {design!r}, {steps}, "
        f"signed={signed}); "
        "print(resident())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def resident() -> float:
    """Return this process's peak resident size in MiB. (getrusage would count what the parent had
    before exec.)
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    print(
        f"{options.steps:,} updates, {options.repetitions} repetitions, latency {1000 * LATENCY:g} "
        "ms, CPU seconds\n"
    )
    print(
        f"{'network':16}{'design':10}{'':10}{'hand-offs/s':>12}{'lowest':>9}{'highest':>9}"
        f"{'goal':>7}{'updates/s':>11}{'heartbeats':>12}{'peak MiB':>10}"
    )
    cases = [(n, d, signed) for n in NETWORKS for d in DESIGNS for signed in (False, True)]
    found: dict[tuple[str, str, bool], list[tuple[float, float, float]]] = {
        case: [] for case in cases
    }
    for _ in range(options.repetitions):
        for network, design, signed in cases:  # in turn: what slows the machine down hits all
            found[network, design, signed].append(
                once(network, design, options.steps, signed=signed)
            )
    for (network, design, signed), rows in found.items():
        rates, label = [row[0] for row in rows], "signed" if signed else "unsigned"
        print(
            f"{network:16}{design:10}{label:10}{statistics.median(rates):12,.0f}{min(rates):9,.0f}",
            end="",
        )
        print(
            f"{max(rates):9,.0f}{GOALS[label]:7,}"
            f"{statistics.median(row[1] for row in rows):11,.0f}",
            end="",
        )
        print(
            f"{rows[0][2]:12.0%}{peak(network, design, options.steps, signed=signed):10.0f}",
            flush=True,
        )
    print(
        f"\nMemory: at most {MOST_MIB} MiB is the goal; the imports alone take {_imports():.0f} "
        "MiB."
    )


def _imports() -> float:
    code = "import benchmarks.fleet as b; print(b.resident())"
    return float(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


if __name__ == "__main__":
    main()
