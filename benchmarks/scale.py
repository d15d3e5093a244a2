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
    replicas: tuple[int, ...]  # by which the growth is measured
    growth_dims: tuple[int, ...]


DIMS = (2, 10, 32, 33, 100, 200, 1000)
REPLICAS = (1, 2, 4, 8, 16, 64, 256, 1024, 4096)
GROWTH_DIMS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)

FULL = Scale(
    name="full",
    steps=1_000_000,
    large_steps=500_000,
    slow_steps=10_000,
    budget=0.03,
    repetitions=9,
    nodes=1_000_000,
    generations=3,
    sizes=SIZES,
    dims=DIMS,
    walk_steps=1_000_000,
    replicas=REPLICAS,
    growth_dims=GROWTH_DIMS,
)
QUICK = Scale(
    name="quick",
    steps=200_000,
    large_steps=100_000,
    slow_steps=2_000,
    budget=0.01,
    repetitions=3,
    nodes=100_000,
    generations=1,
    sizes=SIZES[:3],
    dims=(2, 10, 100),
    walk_steps=200_000,
    replicas=(1, 8, 64, 1024),
    growth_dims=(1, 10, 100, 1000),
)
