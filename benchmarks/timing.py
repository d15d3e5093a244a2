"""Interleaved repetitions, medians and ratios.

Machines are noisy and slow down as they warm up, so contenders take turns within every repetition,
and a ratio is the median of the ratios within repetitions: what slows all of them down at once
cancels.
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

import levywalk

Contender = Callable[[], float]  # does its work once and returns what it measured

NS = "ns/update"
STEP = "ns/step"


@dataclass(frozen=True)
class Row:
    """One line of the table. What could not be measured has no numbers,
    and a note that says why.
    """

    section: str
    case: str
    contender: str
    unit: str
    median: float | None
    low: float | None
    high: float | None
    ratio: float | None
    ratio_to: str
    repetitions: int
    note: str = ""
    at: float | None = (
        None  # the number that the section varies, for figures: dimension, nodes, threads
    )


class Clock:
    """What `seconds` reads: wall time, or this process's CPU time where other work shares
    its core.
    """

    name = "wall"
    read: Callable[[], float] = staticmethod(time.perf_counter)

    @classmethod
    def use_cpu(cls) -> None:
        """Count CPU seconds from now on; for one thread alone, since those of all threads are added
        up.
        """
        cls.name, cls.read = "cpu", staticmethod(time.process_time)


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes, by `Clock`."""
    began = Clock.read()
    work()
    return Clock.read() - began


def interleave(
    section: str,
    case: str,
    contenders: Mapping[str, Contender],
    repetitions: int,
    *,
    unit: str,
    baseline: str,
    at: float | None = None,
) -> list[Row]:
    """Measure every contender once per repetition, in turn, after one turn that is not counted.

    An empty baseline makes no ratios.
    """
    measured: dict[str, list[float]] = {name: [] for name in contenders}
    for repetition in range(-1, repetitions):
        for name, contender in contenders.items():
            value = contender()
            if repetition >= 0:
                measured[name].append(value)
    return [
        summary(section, case, name, values, unit, measured, baseline, at)
        for name, values in measured.items()
    ]


def summary(
    section: str,
    case: str,
    contender: str,
    values: Sequence[float],
    unit: str,
    measured: Mapping[str, Sequence[float]],
    baseline: str,
    at: float | None,
) -> Row:
    """Return the row of one contender's measurements; ``measured`` has those of the baseline."""
    ratio = None
    if baseline:
        ratio = statistics.median(
            value / base for value, base in zip(values, measured[baseline], strict=True)
        )
    middle = statistics.median(values)
    return Row(
        section,
        case,
        contender,
        unit,
        middle,
        min(values),
        max(values),
        ratio,
        baseline,
        len(values),
        "",
        at,
    )


def absent(section: str, case: str, contender: str, unit: str, note: str) -> Row:
    """Return the row of a contender that could not be measured."""
    return Row(section, case, contender, unit, None, None, None, None, "", 0, note)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text; a section and a case are named on their first line alone."""
    head = ("case", "contender", "median", "lowest", "highest", "", "ratio", "to", "")
    lines: list[tuple[str, ...]] = [head]
    previous = ("", "")
    for row in rows:
        if row.section != previous[0]:
            lines.append((f"[{row.section}]", *[""] * (len(head) - 1)))
        lines.append(
            (
                row.case if (row.section, row.case) != previous else "",
                row.contender,
                *map(short, (row.median, row.low, row.high)),
                row.unit,
                "" if row.ratio is None else f"{row.ratio:.2f}",
                row.ratio_to,
                row.note,
            )
        )
        previous = (row.section, row.case)
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


def short(value: float | None) -> str:
    """Return a number in as many digits as it deserves; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 10 else f"{value:.1f}"


def machine(compiler: str) -> dict[str, str]:
    """Return what the figures depend on; neither host names nor paths."""
    return {
        "cpu": _cpu(),
        "caches": _caches(),
        "cores": str(cores()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "levywalk": levywalk.__version__,
        "compiler": compiler,
        "clock": f"{Clock.name} seconds",
        "load": f"{os.getloadavg()[0]:.2f} at the start"
        if hasattr(os, "getloadavg")
        else "unknown",
    }


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or "unknown"
    first = info.read_text().partition("\n\n")[0]
    fields = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in first.splitlines())
    }
    name = fields.get("model name", "unknown")
    return (
        f"{name}, family {fields['cpu family']}, model {fields['model']}"
        if "cpu family" in fields
        else name
    )


def _caches() -> str:
    """Return the caches of the first core, where the system tells."""
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (folder / name).read_text().strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return ", ".join(found) or "unknown"
