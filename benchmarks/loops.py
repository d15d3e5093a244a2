"""The section on the plain loop: what users' own compiled walks, updates and losses cost, and
switching designs.

Such methods run one replica after the other in `levywalk.engine.kernels.loop`.
"""

from __future__ import annotations

import runpy
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import levywalk as lw
from benchmarks.cases import KERNEL, Case, heterogeneous
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import NS, Row, interleave
from levywalk.problem import GeneralizedLinear

PLAIN_LOOP = "plain loop"
REPLICAS = 8
_FEATURES, _CLASSES = 64, 10  # of softmax
_EXAMPLES = Path(__file__).parent.parent / "examples" / "extending"


class OwnSquare(lw.Loss):
    """(z - y)², which is built in too, as a user would write it: the price of a call by address."""

    name = "own_square_of_benchmarks"
    curvature_max = 2.0

    def value(self, z: Any, y: Any) -> Any:
        """Return φ(z, y)."""
        return (z - y) ** 2

    def slope(self, z: Any, y: Any) -> Any:
        """Return φ'(z, y)."""
        return 2.0 * (z - y)

    def compiled(self) -> Any:
        """Return the compiled slope."""
        from numba import njit

        @njit
        def slope(z: float, y: float) -> float:
            return 2.0 * (z - y)

        return slope


def loops(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Nanoseconds per update of the plain loop: built in, switching, and users' own twins."""
    ring, squares = lw.ring(1000), heterogeneous(1000)
    own_loss = GeneralizedLinear(
        squares.features, squares.targets, loss=_example("pseudo_huber", "PseudoHuber")
    )
    same = GeneralizedLinear(squares.features, squares.targets, loss=OwnSquare())
    huber = lw.Huber(squares.features, squares.targets)
    case = Case(ring, squares, scale.steps // 8 // REPLICAS, REPLICAS)
    cases = {
        f"{PLAIN_LOOP}, squared error as a user-defined loss": replace(case, problem=same),
        f"{PLAIN_LOOP}, a user-defined loss (pseudo-Huber)": replace(case, problem=own_loss),
        f"{PLAIN_LOOP}, Huber": replace(case, problem=huber),
        f"{PLAIN_LOOP}, a user-defined update (heavy ball)": replace(
            case, update=_example("heavy_ball", "HeavyBall")
        ),
        f"{PLAIN_LOOP}, an update with memory at the nodes (SAG)": replace(
            case, update=_example("sag", "Sag")
        ),
        f"{PLAIN_LOOP}, a user-defined walk (non-backtracking)": replace(
            case, design=_example("non_backtracking", "NonBacktracking")
        ),
        f"{PLAIN_LOOP}, a switching design": replace(
            case, design=lw.switching(lw.mhlj(), lw.unif_rw())
        ),
    }
    contenders = {KERNEL: case.apart(), PLAIN_LOOP: case.plain()}
    contenders |= {name: each.kernel() for name, each in cases.items()}
    title = f"ring(1000), dim 10, {REPLICAS} replicas, one after the other"
    yield from interleave(
        "loops", title, contenders, scale.repetitions, unit=NS, baseline=PLAIN_LOOP
    )
    yield from _softmax(scale)


def _softmax(scale: Scale) -> Iterator[Row]:
    """Nanoseconds per update of softmax regression, beside numpy's own."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((1000, _FEATURES)) / 8.0
    problem = lw.Softmax(features, rng.integers(0, _CLASSES, 1000), ridge=0.01)
    case = Case(lw.ring(1000), problem, scale.steps // 64, 1)
    contenders = {
        PLAIN_LOOP: case.kernel(),
        f"{PLAIN_LOOP}, SAGA": replace(case, update=lw.saga()).kernel(),
        "numpy": lambda: _numpy_softmax(problem, max(scale.steps // 6400, 100)),
    }
    title = f"ring(1000), softmax, {_FEATURES} features, {_CLASSES} classes, one replica"
    yield from interleave(
        "loops", title, contenders, scale.repetitions, unit=NS, baseline=PLAIN_LOOP
    )


def _numpy_softmax(problem: lw.Softmax, steps: int) -> float:
    """Return nanoseconds per update of a plain numpy loop; the model goes round the ring."""
    features, classes = problem.sorted_features, problem.sorted_targets.astype(int)
    x = np.zeros((_FEATURES, _CLASSES))
    start = time.perf_counter()
    for t in range(steps):
        a = features[t % 1000]
        p = np.exp(a @ x)
        p /= p.sum()
        p[classes[t % 1000]] -= 1.0
        x -= 0.01 * (a[:, None] * p + problem.ridge * x)
    return (time.perf_counter() - start) / steps * 1e9


def _example(file: str, name: str) -> Any:
    """Return an object of a class that docs/extending.md shows."""
    return runpy.run_path(str(_EXAMPLES / f"{file}.py"))[name]()
