"""Sums of rows have one order, whatever the machine: exact arithmetic says what they are."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numba import njit

from levywalk.arrays import Floats
from levywalk.engine.kernels import machine, rows, vectors
from levywalk.engine.kernels.rows import ANY_SHORT, HEAD, LONG, SHORT
from tests.limits import mostly_more


def fused(a: float, b: float, c: float) -> float:
    """Return a b + c, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def dot(a: Floats, x: Floats) -> float:
    """The sum as the module's first lines state it, one feature after the other."""
    lines = -(-(len(a) + HEAD) // 8)
    sums: dict[tuple[int, int], float] = {}
    for j, (p, q) in enumerate(zip(a.tolist(), x.tolist(), strict=True)):
        line, position = divmod(j + HEAD, 8)
        at = (line % 4 if lines > SHORT else 0, position)
        sums[at] = fused(p, q, sums[at]) if at in sums else p * q
    totals = []
    for position in range(8):
        found = [sums.get((which, position), -0.0) for which in range(4)]
        several = (found[0] + found[1]) + (found[2] + found[3])
        totals.append(several if lines > SHORT else found[0])
    four = [totals[j] + totals[j + 4] for j in range(4)]
    return (four[0] + four[1]) + (four[2] + four[3])


@cache
def compiled(lines: int, width: int, chunk: int) -> Any:
    LINES, WIDTH, CHUNK = lines, width, chunk

    @njit
    def work(nodes, at, model, count, coefficients, shrinks, out):  # type: ignore[no-untyped-def]
        one = np.uint64(0)
        vectors.store(
            out, 0, rows.dots(nodes, at, model, one, np.uint64(count), WIDTH, LINES, CHUNK)
        )
        four = rows.row_dot(
            nodes, at[0] * np.uint64(count * 8), model, 0, np.uint64(count), LINES, CHUNK
        )
        vectors.store(out, 8, four)
        vectors.store(out, 16, rows.row_totals(out, 8, 1))
        rows.advance(
            nodes,
            at,
            model,
            one,
            vectors.load(coefficients, 0, WIDTH),
            vectors.load(shrinks, 0, WIDTH),
            np.uint64(count),
            1,
            LINES,
            CHUNK,
        )

    return work


def table(rng: np.random.Generator, count: int, dim: int) -> tuple[Floats, Floats]:
    """Return features of very different sizes, and the rows that contain them behind a head."""
    features = rng.normal(size=(count, dim)) * 10.0 ** rng.integers(-6, 6, (count, dim))
    padded = np.zeros((count, -(-(dim + HEAD) // 8) * 8))
    padded[:, HEAD : HEAD + dim] = features
    return features, padded


SHAPES = [
    (1, 1),
    (10, 2),
    (10, ANY_SHORT),
    (20, 3),
    (60, 8),
    (60, ANY_SHORT),
    (61, LONG),
    (131, LONG),
]
QUICK = {
    ((10, 2), 4, 4),
    ((61, LONG), 4, 4),
    ((10, 2), 8, 8),
    ((10, 2), 2, 2),
    ((10, ANY_SHORT), 1, 4),
}


# On every machine a group has as many walkers as an instruction has numbers, or is a wide one;
# others go alone.
WIDTHS = [
    (width, kind.chunk)
    for kind in machine.SHAPES.values()
    for width in sorted({1, kind.group, kind.wide})
]


@pytest.mark.parametrize(
    "case",
    mostly_more(
        [(shape, *width) for shape, width in product(SHAPES, WIDTHS)], lambda case: case in QUICK
    ),
)
def test_dot_products_and_updates_are_the_exact_ones(
    case: tuple[tuple[int, int], int, int],
) -> None:
    (dim, constant), width, chunk = case
    rng = np.random.default_rng(dim)
    features, nodes = table(rng, 11, dim)
    nodes[:, :HEAD] = np.nan  # the head is never read as a feature
    models, padded = table(rng, width, dim)
    at = rng.integers(0, 11, width).astype(np.uint64)
    coefficients, shrinks = rng.normal(size=width), rng.uniform(0.9, 1.0, width)
    out, model = np.zeros(24), padded.reshape(-1)
    compiled(constant, width, chunk)(
        nodes.reshape(-1), at, model, nodes.shape[1] // 8, coefficients, shrinks, out
    )
    theirs = features[at.astype(int)]
    assert out[:width].tolist() == [dot(a, x) for a, x in zip(theirs, models, strict=True)]
    assert out[16] == out[0]
    new = model.reshape(padded.shape)
    expected = [
        [fused(c, f, v * s) for f, v in zip(a.tolist(), x.tolist(), strict=True)]
        for a, x, c, s in zip(theirs, models, coefficients.tolist(), shrinks.tolist(), strict=True)
    ]
    assert new[:, HEAD : HEAD + dim].tolist() == expected
    assert not new[:, :HEAD].any()


@cache
def compiled_alone(lines: int, chunk: int) -> Any:
    NUMBERS, CHUNK = lines * 8, chunk

    @njit
    def work(nodes, at, model, coefficient, shrink, out):  # type: ignore[no-untyped-def]
        v, held = vectors.load(at, 0, 1), vectors.load(model, 0, NUMBERS)
        vectors.store(out, 0, rows.held_dot(nodes, v, held, CHUNK))
        step, less = vectors.load(coefficient, 0, 1), vectors.load(shrink, 0, 1)
        vectors.store(model, 0, rows.held_advance(nodes, v, held, step, less, 1, CHUNK))

    return work


@pytest.mark.parametrize("chunk", [2, 4, 8])
@pytest.mark.parametrize("dim", mostly_more([3, 10, 20], lambda dim: dim == 10))
def test_a_model_in_registers_has_the_same_bits(dim: int, chunk: int) -> None:
    rng = np.random.default_rng(dim)
    features, nodes = table(rng, 5, dim)
    (model,), padded = table(rng, 1, dim)
    out, at, step, less = np.zeros(1), np.array([3], np.uint64), np.array([0.3]), np.array([0.97])
    flat = padded.reshape(-1)
    compiled_alone(len(flat) // 8, chunk)(nodes.reshape(-1), at, flat, step, less, out)
    assert out[0] == dot(features[3], model)
    expected = [
        fused(0.3, f, v * 0.97) for f, v in zip(features[3].tolist(), model.tolist(), strict=True)
    ]
    assert flat[HEAD : HEAD + dim].tolist() == expected
