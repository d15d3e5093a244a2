"""How much work to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """How much work to measure."""

    name: str
    steps: int  # of one chain in the cache
    large_steps: int  # of one chain where every step misses it
    slow_steps: int  # of plain Python
    budget: float  # seconds that one measurement over the dimensions may take, about
    repetitions: int
    nodes: int  # of the large networks
    generations: int
    sizes: tuple[int, ...]
    dims: tuple[int, ...]
    walk_steps: int  # of all walkers together, where a library only walks


DIMS = (2, 4, 8, 10, 16, 32, 33, 64, 100, 128, 200, 256, 512, 1000)
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)

FULL = Scale("full", 1_000_000, 500_000, 10_000, 0.03, 9, 1_000_000, 3, SIZES, DIMS, 1_000_000)
QUICK = Scale(
    "quick",
    200_000,
    100_000,
    2_000,
    0.01,
    5,
    100_000,
    1,
    SIZES[:3],
    (2, 10, 32, 100, 1000),
    200_000,
)
