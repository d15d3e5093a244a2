"""Lanes do to eight numbers what numpy does to each."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from levywalk.draws import Domain, Key, keys, split
from levywalk.engine.kernels import vectors, words
from levywalk.engine.kernels.walkers import _sigmoid

RNG = np.random.default_rng(0)
WORDS = RNG.integers(0, 2**64, 8, dtype=np.uint64)
OTHER = RNG.integers(0, 2**64, 8, dtype=np.uint64)
NUMBERS, MORE = RNG.normal(size=8), RNG.normal(size=8)


@njit
def _words(a, b, out):
    x, y = vectors.load(a, 0, 8), vectors.load(b, 0, 8)
    vectors.store(out, 0, x + y)
    vectors.store(out, 8, x - y)
    vectors.store(out, 16, x * y)
    vectors.store(out, 24, (x & y) | (x ^ words.LOW))
    vectors.store(out, 32, (x >> words.S11) ^ (y << words.S27))
    vectors.store(out, 40, vectors.choose(x < y, x, words.BIT))
    vectors.store(out, 48, vectors.choose(x >= y, x, y))
    return vectors.which((x != y) & (x <= y)), vectors.which((x > y) | (x != x))


def test_word_operations_are_numpys_lane_by_lane():
    a, b, out = WORDS.copy(), OTHER.copy(), np.zeros(56, np.uint64)
    a[3] = b[3]
    below, above = _words(a, b, out)
    with np.errstate(over="ignore"):
        expected = [
            a + b,
            a - b,
            a * b,
            (a & b) | (a ^ np.uint64(2**32 - 1)),
            (a >> np.uint64(11)) ^ (b << np.uint64(27)),
            np.where(a < b, a, np.uint64(1)),
            np.where(a >= b, a, b),
        ]
    assert np.array_equal(out.reshape(7, 8), expected)
    assert below == sum(1 << i for i in range(8) if a[i] < b[i])
    assert above == sum(1 << i for i in range(8) if a[i] > b[i])


@njit
def _numbers(a, b, out):
    x, y = vectors.load(a, 0, 8), vectors.load(b, 0, 8)
    vectors.store(out, 0, x + y)
    vectors.store(out, 8, 2.0 - x)
    vectors.store(out, 16, x * y)
    vectors.store(out, 24, x / y)
    vectors.store(out, 32, vectors.choose(x < y, x, 0.0))
    vectors.store(out, 40, vectors.multiply_add(x, 3.0, y))
    vectors.store(out, 48, vectors.load_tail(a, 0, 8, 3))
    vectors.store(out, 56, vectors.from_bits(vectors.bits(x)))


def test_number_operations_are_numpys_lane_by_lane():
    out = np.zeros(64)
    _numbers(NUMBERS, MORE, out)
    expected = [
        NUMBERS + MORE,
        2.0 - NUMBERS,
        NUMBERS * MORE,
        NUMBERS / MORE,
        np.where(NUMBERS < MORE, NUMBERS, 0.0),
        NUMBERS * 3.0 + MORE,
        np.where(np.arange(8) < 3, 0.0, NUMBERS),
        NUMBERS,
    ]
    rows = out.reshape(8, 8)
    exact = [0, 1, 2, 3, 4, 6, 7]
    assert np.array_equal(rows[exact], np.array(expected)[exact])
    assert np.allclose(rows[5], expected[5], rtol=1e-15, atol=1e-15)  # may be fused


@njit
def _memory(table, at, out):
    vectors.store(out, 0, vectors.pick(table, at, 1, 8, 3, 2))
    vectors.prefetch(table, at[1])
    return vectors.lowest(np.uint64(40)), vectors.multiply_high(np.uint64(2**63), np.uint64(6))


def test_pick_reads_every_index_and_the_rest_is_what_it_says():
    table, at, out = RNG.normal(size=300), RNG.integers(0, 99, 9).astype(np.uint64), np.zeros(8)
    low, high = _memory(table, at, out)
    assert np.array_equal(out, table[at[1:].astype(int) * 3 + 2])
    assert (low, high) == (3, 3)


@njit
def _row_sums(rows, out):
    vectors.store(out, 0, vectors.row_sums(rows, 0, 8))
    for row in range(8):
        vectors.store(out, np.uint64(8 + row), vectors.row_sums(rows, np.uint64(8 * row), 1))
    vectors.store(out, 16, vectors.row_sums(rows, 0, 2))
    vectors.store(out, 18, vectors.row_sums(rows, 16, 4))


def test_row_sums_do_not_depend_on_how_many_rows_are_added_up():
    rows, out = RNG.normal(size=64) * 10.0 ** RNG.integers(-9, 9, 64), np.zeros(22)
    _row_sums(rows, out)
    a = rows.reshape(8, 8)
    pairs = a[:, ::2] + a[:, 1::2]
    fours = pairs[:, ::2] + pairs[:, 1::2]
    expected = fours[:, 0] + fours[:, 1]
    assert np.array_equal(out[:8], expected)
    assert np.array_equal(out[8:16], expected)
    assert np.array_equal(out[16:18], expected[:2])
    assert np.array_equal(out[18:22], expected[2:6])


@njit
def _draws(k0, k1, t, slot, count, out):
    h = words.step_hash(vectors.load(k0, 0, 8), vectors.load(k1, 0, 8), t)
    word = words.slot_word(h, slot)
    index, fraction = words.divide(word, count)
    vectors.store(out, 0, word)
    vectors.store(out, 8, index)
    vectors.store(out, 16, fraction)


@pytest.mark.parametrize(
    ("step", "slot", "count"), [(0, 0, 1), (7, 3, 2), (2**40, 1 << 32, 2**32 - 1), (99, 1, 1000)]
)
def test_eight_walkers_draw_what_each_draws_alone(step, slot, count):
    pairs, out = keys(5, Domain.WALK, range(8)), np.zeros(24, np.uint64)
    k0, k1 = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    _draws(k0, k1, np.uint64(step), np.uint64(slot), np.uint64(count), out)
    for lane in range(8):
        word = Key.of(5, Domain.WALK, lane).word(step, slot)
        index, uniform = split(word, count)
        assert int(out[lane]) == word
        assert int(out[8 + lane]) == index
        assert (int(out[16 + lane]) >> 11) * 2.0**-53 == uniform


@njit
def _sigmoids(z, out):
    for i in range(0, len(z), 8):
        vectors.store(out, np.uint64(i), _sigmoid(vectors.load(z, np.uint64(i), 8)))


def test_the_sigmoid_in_lanes_is_exact_to_rounding_and_keeps_nan_and_infinity():
    z = np.concatenate(
        [RNG.normal(size=4000) * 3, RNG.uniform(-50, 50, 4000), np.linspace(-700, 700, 4000)]
    )
    out = np.empty_like(z)
    _sigmoids(z, out)
    exact = 1.0 / (1.0 + np.exp(-z.astype(np.longdouble)))
    assert float(np.abs(out / exact - 1).max()) < 1e-15
    ends = np.array([np.inf, -np.inf, np.nan, 1e300, -1e300, 0.0, 710.0, -710.0])
    out = np.empty(8)
    _sigmoids(ends, out)
    assert np.isnan(out[2])
    assert np.allclose(np.delete(out, 2), [1, 0, 1, 0, 0.5, 1, 0], rtol=0, atol=1e-300)


WALK = """
import numpy as np, levywalk as lw
network, problem = lw.ring(30), lw.heterogeneous(30, dim=10, important=2)
trace = lw.run(network, problem, lw.mhlj(), steps=300, step_size="theory", replicas=9, \
record_walk=True)
print(trace.walk.sum(), trace.transfers.sum(), *trace.model.ravel().tolist())
"""


@pytest.mark.more
def test_machines_without_vector_registers_make_the_same_walks_and_models():
    def result(**environment: str) -> list[float]:
        said = subprocess.run(
            [sys.executable, "-c", WALK],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [float(number) for number in said.stdout.split()]

    here = result()
    plain = result(LEVYWALK_KERNELS="plain")
    # The lowest common denominator of this machine's kind, as numba would compile for it
    generic = result(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    for other in (plain, generic):
        assert other[:2] == here[:2]
        assert np.allclose(other[2:], here[2:], rtol=1e-9, atol=1e-12)
