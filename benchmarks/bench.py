"""The benchmarks: one table of medians and ratios; see `main`'s options with ``python -m benchmarks
--help``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.generators import generators
from benchmarks.growth import growth
from benchmarks.loops import loops
from benchmarks.memory import memory
from benchmarks.models import models
from benchmarks.peers import PEERS
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.sizes import sizes
from benchmarks.timing import Clock, Row, machine, table
from benchmarks.updates import chains, checkpoints, dims, threads, visits, walkers
from benchmarks.walks import walks
from benchmarks.widths import widths

_SAME = (
    "cpu",
    "cores",
    "clock",
    "python",
    "numpy",
    "numba",
    "levywalk",
)  # a file's older sections stay beside new ones


@dataclass(frozen=True)
class Section:
    """What measures a section, and about how many seconds it takes."""

    measure: Callable[[Scale, ReferenceC | None], Iterator[Row]]
    full: int
    quick: int


SECTIONS = {
    "chain": Section(chains, 20, 6),
    "walkers": Section(walkers, 45, 8),
    "widths": Section(widths, 90, 40),
    "walk": Section(walks, 90, 15),
    "memory": Section(memory, 60, 20),
    "dims": Section(dims, 60, 15),
    "threads": Section(threads, 40, 10),
    "sizes": Section(sizes, 75, 15),
    "checkpoints": Section(checkpoints, 15, 4),
    "visits": Section(visits, 10, 4),
    "loops": Section(loops, 15, 10),
    "growth": Section(growth, 30, 10),
    "generators": Section(generators, 40, 3),
    "models": Section(models, 90, 60),
}


def main() -> None:
    """Measure what the command line asks for, print the table."""
    options = _options()
    if options.cpu:
        Clock.use_cpu()
    scale = QUICK if options.quick else FULL
    began = time.perf_counter()
    rows: list[Row] = []
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        compiler = ReferenceC.find(Path(folder))
        about = machine(compiler.version() if compiler else "no gcc found: the C rows are skipped")
        about["peers"] = ", ".join(
            f"{peer.package} {peer.version() or 'not installed'}" for peer in PEERS
        )
        print("\n".join(f"{name + ':':10}{value}" for name, value in about.items()))
        estimate = sum(_estimate(SECTIONS[name], scale) for name in options.only)
        print(
            f"\nAbout {estimate / 60:.0f} min, and as much again when the kernels are compiled for "
            "the first time."
        )
        for name in options.only:
            print(f"\n{name}: about {_estimate(SECTIONS[name], scale)} s", flush=True)
            section_began = time.perf_counter()
            rows += SECTIONS[name].measure(scale, compiler)
            took[name] = round(time.perf_counter() - section_began, 1)
            print(f"{name}: {took[name]:.0f} s", flush=True)
            if (
                options.json
            ):  # after each section: a failure in the next one should not cost this one
                _write(options.json, about, scale, rows, took)
    print(f"\n{table(rows)}\n")
    print(
        f"Medians of {scale.repetitions} interleaved repetitions (fewer for the slow ones); a "
        "ratio is the "
        f"median of the ratios within repetitions. {time.perf_counter() - began:.0f} s in all."
    )


def _estimate(section: Section, scale: Scale) -> int:
    return section.quick if scale is QUICK else section.full


def _write(
    file: Path, about: dict[str, str], scale: Scale, rows: list[Row], took: dict[str, float]
) -> None:
    """Write the rows; sections of a file from the same machine and software that were not measured
    now stay in it.
    """
    old: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    same = old.get("scale") == scale.name and all(
        old["machine"].get(key) == about.get(key) for key in _SAME
    )
    sections = {
        name: {"seconds": took[name], "rows": [_plain(row) for row in rows if row.section == name]}
        for name in took
    }
    kept = {
        name: section
        for name, section in old.get("sections", {}).items()
        if same and name not in took
    }
    together = {
        name: (sections | kept)[name] for name in SECTIONS if name in sections or name in kept
    }
    file.write_text(
        json.dumps(
            {"machine": about, "scale": scale.name, "sections": together},
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
    )


def _plain(row: Row) -> dict[str, Any]:
    """Return a row with no more digits than were measured."""
    values = asdict(row)
    del values["section"]
    return {
        key: float(f"{value:.5g}") if isinstance(value, float) else value
        for key, value in values.items()
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="less work, smaller networks: a fifth of the time"
    )
    parser.add_argument(
        "--only",
        type=_sections,
        default=list(SECTIONS),
        metavar="NAME,…",
        help=f"of {', '.join(SECTIONS)}",
    )
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="count CPU seconds: for a core that is shared with other work; no threads",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the rows to a file, for benchmarks.page",
    )
    options = parser.parse_args()
    if options.cpu:  # the seconds of several threads would be added up
        options.only = [name for name in options.only if name != "threads"]
    return options


def _sections(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"must be of {', '.join(SECTIONS)}, got {name!r}")
    return names
