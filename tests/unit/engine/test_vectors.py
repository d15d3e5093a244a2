"""Lanes do to eight numbers what numpy does to each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from levywalk.draws import Domain, Key, expanded_keys, keys, split
from levywalk.engine.kernels import vectors, words
from levywalk.engine.kernels.sigmoid import sigmoid

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
    near = vectors.which(vectors.below(x >> words.S11, y >> words.S11))
    return vectors.which((x != y) & (x <= y)), vectors.which((x > y) | (x != x)), near


def test_word_operations_are_numpys_lane_by_lane():
    a, b, out = WORDS.copy(), OTHER.copy(), np.zeros(56, np.uint64)
    a[3] = b[3]
    below, above, near = _words(a, b, out)
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
    assert near == sum(1 << i for i in range(8) if int(a[i]) >> 11 < int(b[i]) >> 11)


@njit
def _numbers(a, b, out):
    x, y = vectors.load(a, 0, 8), vectors.load(b, 0, 8)
    vectors.store(out, 0, x + y)
    vectors.store(out, 8, 2.0 - x)
    vectors.store(out, 16, x * y)
    vectors.store(out, 24, x / y)
    vectors.store(out, 32, vectors.choose(x < y, x, 0.0))
    vectors.store(out, 40, vectors.multiply_add(x, 3.0, y))
    vectors.store(out, 48, vectors.from_bits(vectors.bits(x)))
    return vectors.multiply_add(a[0], b[0], a[1])


def fused(a: float, b: float, c: float) -> float:
    """Return a b + c, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def test_number_operations_are_numpys_lane_by_lane():
    out = np.zeros(56)
    alone = _numbers(NUMBERS, MORE, out)
    expected = [
        NUMBERS + MORE,
        2.0 - NUMBERS,
        NUMBERS * MORE,
        NUMBERS / MORE,
        np.where(NUMBERS < MORE, NUMBERS, 0.0),
        [fused(a, 3.0, b) for a, b in zip(NUMBERS, MORE, strict=True)],
        NUMBERS,
    ]
    assert np.array_equal(out.reshape(7, 8), np.array(expected))
    assert alone == fused(NUMBERS[0], MORE[0], NUMBERS[1])


@njit
def _memory(table, at, out):
    vectors.store(out, 0, vectors.pick(table, at, 1, vectors.load(at, 1, 8), 3, 2))
    vectors.store(out, 8, vectors.pick(table, at, 1, vectors.load(at, 1, 1), 3, 2))
    vectors.prefetch(table, at[1])
    return vectors.lowest(np.uint64(40))


def test_pick_reads_every_index_and_the_rest_is_what_it_says():
    table, at, out = RNG.normal(size=300), RNG.integers(0, 99, 9).astype(np.uint64), np.zeros(9)
    low = _memory(table, at, out)
    assert np.array_equal(out[:8], table[at[1:].astype(int) * 3 + 2])
    assert out[8] == out[0]
    assert low == 3
    table, out = RNG.integers(2**31, 2**32, 300).astype(np.uint32), np.zeros(9, np.uint64)
    _memory(table, at, out)
    assert np.array_equal(out, table[at[[*range(1, 9), 1]].astype(int) * 3 + 2])


@njit
def _two(table, at, out):
    eight = vectors.pick_two(table, at, 1, vectors.load(at, 1, 8), 3)
    four = vectors.pick_two(table, at, 1, vectors.load(at, 1, 4), 3)
    two = vectors.pick_two(table, at, 1, vectors.load(at, 1, 2), 3)
    one = vectors.pick_two(table, at, 1, vectors.load(at, 1, 1), 3)
    vectors.store(out, 0, eight[0])
    vectors.store(out, 8, eight[1])
    vectors.store(out, 16, four[0])
    vectors.store(out, 20, four[1])
    vectors.store(out, 24, two[0])
    vectors.store(out, 26, two[1])
    vectors.store(out, 28, one[0])
    vectors.store(out, 29, one[1])


def test_pick_two_reads_neighbouring_numbers_for_any_number_of_lanes():
    table, at, out = RNG.normal(size=300), RNG.integers(0, 99, 9).astype(np.uint64), np.zeros(30)
    _two(table, at, out)
    first, second = table[at[1:].astype(int) * 3], table[at[1:].astype(int) * 3 + 1]
    begin = 0
    for count in (8, 4, 2, 1):
        assert np.array_equal(out[begin : begin + count], first[:count])
        assert np.array_equal(out[begin + count : begin + 2 * count], second[:count])
        begin += 2 * count


@njit
def _put(table, at, numbers):
    vectors.put(table, at, 1, vectors.load(numbers, 0, 8))
    vectors.put(table, at, 9, vectors.load(numbers, 8, 1))


def test_put_writes_every_lane_to_its_own_place_and_nothing_else():
    table, numbers = np.zeros(50), RNG.normal(size=9)
    at = RNG.permutation(50)[:11].astype(np.uint64)
    _put(table, at, numbers)
    expected = np.zeros(50)
    expected[at[1:10].astype(int)] = numbers
    assert np.array_equal(table, expected)


@njit
def _draws(k0, k1, t, slot, count, out):
    h = words.step_hash(vectors.load(k0, 0, 8), vectors.load(k1, 0, 8), t)
    word = words.slot_word(h, slot)
    index, fraction = words.divide(word, count)
    vectors.store(out, 0, word)
    vectors.store(out, 8, index)
    vectors.store(out, 16, fraction)


@pytest.mark.parametrize(
    ("step", "slot", "count"), [(0, 1, 1), (7, 3, 2), (2**40, 1 << 32, 2**32 - 1), (99, 1, 1000)]
)
def test_eight_walkers_draw_what_each_draws_alone(step, slot, count):
    pairs, out = expanded_keys(keys(5, Domain.WALK, range(8))), np.zeros(24, np.uint64)
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
        vectors.store(out, np.uint64(i), sigmoid(vectors.load(z, np.uint64(i), 8)))


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
