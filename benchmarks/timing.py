"""Interleaved repetitions, medians and ratios.

Machines are noisy and slow down as they warm up, so contenders take turns within every repetition, and a ratio is the
median of the ratios within repetitions: what slows all of them down at once cancels.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np

Contender = Callable[[], float]  # does its work once and returns what it measured


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    section: str
    case: str
    contender: str
    unit: str
    median: float
    low: float
    high: float
    ratio: float
    ratio_to: str
    repetitions: int
    note: str = ""


def seconds(work: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def interleave(
    section: str, case: str, contenders: Mapping[str, Contender], repetitions: int, *, unit: str, baseline: str
) -> list[Row]:
    """Measure every contender once per repetition, in turn, after one turn that is not counted."""
    measured: dict[str, list[float]] = {name: [] for name in contenders}
    for repetition in range(-1, repetitions):
        for name, contender in contenders.items():
            value = contender()
            if repetition >= 0:
                measured[name].append(value)
    rows = []
    for name, values in measured.items():
        ratios = [value / base for value, base in zip(values, measured[baseline], strict=True)]
        rows.append(
            Row(
                section,
                case,
                name,
                unit,
                statistics.median(values),
                min(values),
                max(values),
                statistics.median(ratios),
                baseline,
                repetitions,
            )
        )
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text; a case is named on its first line alone."""
    head = ("case", "contender", "median", "lowest", "highest", "", "ratio", "to", "")
    lines: list[tuple[str, ...]] = [head]
    previous = ""
    for row in rows:
        lines.append(
            (
                row.case if row.case != previous else "",
                row.contender,
                *map(_short, (row.median, row.low, row.high)),
                row.unit,
                f"{row.ratio:.2f}" if row.ratio_to else "",
                row.ratio_to,
                row.note,
            )
        )
        previous = row.case
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    numbers = {2, 3, 4, 6}
    texts = [
        "  ".join(
            cell.rjust(width) if i in numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join((texts[0], "-" * max(map(len, texts)), *texts[1:]))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 10 else f"{value:.1f}"


def machine(compiler: str) -> dict[str, str]:
    """Return what the figures depend on; neither host names nor paths."""
    return {
        "cpu": _cpu(),
        "cores": str(cores()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "compiler": compiler,
        "load": f"{os.getloadavg()[0]:.2f} at the start" if hasattr(os, "getloadavg") else "unknown",
    }


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
