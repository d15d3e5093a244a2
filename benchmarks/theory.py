"""Time, peak memory, method and residual of the theory at 1k, 100k and 1M nodes.

Each row is a process of its own, so that its peak memory is its own. Run ``python -m
benchmarks.theory``, with ``--quick`` for 1k alone. The seconds of the stationary law and of the gap
are apart from those of the network and P.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import levywalk as lw

SIZES = (1_000, 100_000, 1_000_000)
DESIGNS = ("weight_rw", "mhlj", "unif_rw")
KINDS = ("right", "absolute", "singular")
HEAD = ("nodes", "design", "form", "gap", "build s", "law s", "gap s", "GiB", "law by",
        "|πP-π|₁", "gap by", "value", "residual", "trusted")  # fmt: skip


def measure(n: int, design: str, form: str, kind: str) -> dict[str, Any]:
    """Solve one case in this process."""
    began = time.perf_counter()
    network = lw.watts_strogatz(n, 4, 0.1, seed=1).largest_component()
    problem = lw.heterogeneous(network.n, seed=1)
    P = lw.transition(network, problem, getattr(lw, design)(), form=form)
    built = time.perf_counter()
    report = lw.stationary_report(P)
    solved = time.perf_counter()
    gap = lw.spectral_gap(P, kind, stationary=report.law)
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    return {
        "nodes": n,
        "design": design,
        "form": form,
        "gap": kind,
        "build s": built - began,
        "law s": solved - built,
        "gap s": ended - solved,
        "GiB": peak / 2**30,
        "law by": report.method,
        "|πP-π|₁": report.residual,
        "gap by": gap.method,
        "value": gap.value,
        "residual": gap.residual,
        "trusted": str(gap.trusted),
    }


def rows(sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Measure case after case, each in a process of its own."""
    for n in sizes:
        cases = [(design, "matrix", kind) for design in DESIGNS for kind in KINDS]
        for design, form, kind in [*cases, ("mhlj", "operator", "right")]:
            command = [
                sys.executable,
                "-m",
                "benchmarks.theory",
                "--case",
                str(n),
                design,
                form,
                kind,
            ]
            yield json.loads(
                subprocess.run(command, check=True, capture_output=True, text=True).stdout
            )


def main() -> None:
    """Print the table row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1k nodes alone")
    parser.add_argument(
        "--case", nargs=4, metavar=("N", "DESIGN", "FORM", "KIND"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.case:
        n, design, form, kind = arguments.case
        print(json.dumps(measure(int(n), design, form, kind)))
        return
    print("  ".join(name.rjust(12) for name in HEAD))
    for row in rows(SIZES[:1] if arguments.quick else SIZES):
        print("  ".join(_short(row[name]).rjust(12) for name in HEAD), flush=True)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
