"""Statistical tests of a stream of 64-bit words, each with a p-value of a known law, in chunks of
any number.

Every test looks at a chunk and returns evidence; evidence of several chunks is added, and the
p-value is that of all chunks together. All p-values are two-sided where too good a fit is possible.

The budget of false alarms: at most `MOST` p-values in a run over all orders, each compared with
`LEVEL` / `MOST`, so that ideal words fail the whole run with probability at most `LEVEL`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from tests.statistical.streams import Scheme, Words64

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEVEL = 1e-6
MOST = 2000
THRESHOLD = LEVEL / MOST
U = np.uint64
ULP = 2.0**-53


# Evidence -----------------------------------------------------------------------------------------


class Evidence(Protocol):
    """What a test saw; `p` is the probability of seeing this or something less likely in ideal
    words.
    """

    @property
    def p(self) -> float: ...

    def __add__(self, other: Self) -> Self: ...


def two_sided(below: float, above: float) -> float:
    """Return the p-value of a statistic from its two tails."""
    return min(1.0, 2.0 * min(below, above))


def chi_square(statistic: float, freedom: int) -> float:
    """Return the two-sided p-value of a chi-square statistic."""
    return two_sided(
        float(special.chdtr(freedom, statistic)), float(special.chdtrc(freedom, statistic))
    )


@dataclass(frozen=True)
class Cells:
    """Counts of classes, against expected counts: Pearson's chi-square, ``groups`` sums being
    fixed.
    """

    observed: Floats
    expected: Floats
    groups: int = 1

    def __add__(self, other: Cells) -> Cells:
        return Cells(self.observed + other.observed, self.expected + other.expected, self.groups)

    @property
    def p(self) -> float:
        if not self.observed.any():
            return 1.0  # nothing was seen
        statistic = float(((self.observed - self.expected) ** 2 / self.expected).sum())
        return chi_square(statistic, self.observed.size - self.groups)


@dataclass(frozen=True)
class Scores:
    """Sums of uncorrelated terms with mean 0 and variance 1, ``terms`` each: all squares together,
    and the largest.
    """

    totals: Floats
    terms: Floats

    def __add__(self, other: Scores) -> Scores:
        return Scores(self.totals + other.totals, self.terms + other.terms)

    @property
    def p(self) -> float:
        z = self.totals / np.sqrt(self.terms)
        largest = -math.expm1(z.size * math.log1p(-2.0 * float(special.ndtr(-np.abs(z).max()))))
        return min(1.0, 2.0 * min(largest, chi_square(float((z**2).sum()), z.size)))


@dataclass(frozen=True)
class Events:
    """A number of rare events, against its mean: Poisson."""

    count: int
    mean: float

    def __add__(self, other: Events) -> Events:
        return Events(self.count + other.count, self.mean + other.mean)

    @property
    def p(self) -> float:
        at_least = 1.0 if self.count == 0 else float(special.pdtrc(self.count - 1, self.mean))
        return two_sided(float(special.pdtr(self.count, self.mean)), at_least)


@dataclass(frozen=True)
class Levels:
    """p-values of chunks, each uniform: Fisher's sum of their logarithms."""

    logs: float
    count: int

    def __add__(self, other: Levels) -> Levels:
        return Levels(self.logs + other.logs, self.count + other.count)

    @property
    def p(self) -> float:
        return chi_square(-2.0 * self.logs, 2 * self.count)


Named = Iterator[tuple[str, Evidence]]


def cells(classes: npt.NDArray[Any], probabilities: Floats) -> Cells:
    """Count classes 0, 1, … of the given probabilities."""
    observed = np.bincount(
        classes.astype(np.int64, copy=False).ravel(), minlength=probabilities.size
    )
    return Cells(observed.astype(np.float64), probabilities * classes.size)


def even(classes: npt.NDArray[Any], count: int) -> Cells:
    """Count ``count`` classes that are equally likely."""
    return cells(classes, np.full(count, 1.0 / count))


# Helpers ------------------------------------------------------------------------------------------


def units(words: Words64) -> Floats:
    """Return `levywalk.draws.unit` of every word."""
    return (words >> U(11)).astype(np.float64) * ULP


def splits(words: Words64, count: int) -> tuple[Ints, Floats]:
    """Return `levywalk.draws.split` of every word."""
    low = (words & U(0xFFFFFFFF)) * U(count)
    total = (words >> U(32)) * U(count) + (low >> U(32))
    fraction = (total << U(32)) | (low & U(0xFFFFFFFF))
    return (total >> U(32)).astype(np.int64), units(fraction)


@cache
def _weights16() -> npt.NDArray[np.uint8]:
    """Return the number of ones of every 16-bit number."""
    table = np.zeros(1 << 16, dtype=np.uint8)
    for bit in range(16):
        table += ((np.arange(1 << 16) >> bit) & 1).astype(np.uint8)
    return table


def weights(words: Words64) -> Ints:
    """Return the number of ones of every word."""
    total = np.zeros(len(words), dtype=np.int64)
    for half in _halves(words).T:
        total += _weights16()[half]
    return total


def _halves(words: Words64) -> npt.NDArray[np.uint16]:
    """Return the four 16-bit windows of every word, lowest first."""
    return np.ascontiguousarray(words).astype("<u8", copy=False).view("<u2").reshape(-1, 4)


def signs(words: Words64) -> npt.NDArray[np.float32]:
    """Return the 64 bits of every word as +1 and -1, lowest first."""
    ordered = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    found = np.unpackbits(ordered, axis=1, bitorder="little").astype(np.float32)
    found *= 2.0
    found -= 1.0
    return found


def _rows(values: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """Return the values as rows of ``width``, dropping a rest."""
    return values[: len(values) // width * width].reshape(-1, width)


def _lags(width: int, size: int) -> list[int]:
    """Return the distances between neighbours in a grid of this width."""
    return sorted({lag for lag in (1, 2, 3, width - 1, width, width + 1) if 0 < lag <= size // 2})


# Tests: each takes the words of a chunk and the width of their grid -------------------------------


def frequencies(words: Words64, width: int) -> Named:
    """Every bit is fair; every byte and every 16-bit window is uniform."""
    halves = _halves(words)
    counts = np.array(
        [np.bincount(halves[:, place], minlength=1 << 16) for place in range(4)], dtype=np.float64
    )
    yield "16-bit windows", Cells(counts, np.full(counts.shape, len(words) / 2**16), groups=4)
    square = counts.reshape(4, 256, 256)
    octets = np.stack([square.sum(axis=1), square.sum(axis=2)], axis=1).reshape(8, 256)
    yield "bytes", Cells(octets, np.full(octets.shape, len(words) / 256), groups=8)
    ones = (octets @ ((np.arange(256)[:, None] >> np.arange(8)) & 1)).ravel()
    yield "bits", Scores(2.0 * ones - len(words), np.full(64, float(len(words))))


def bit_pairs(words: Words64, width: int) -> Named:
    """Every bit is uncorrelated with every other, of the same word and of neighbouring words."""
    part = len(words) // 16
    first = signs(words[:part])
    inside = first.T @ first
    upper = inside[np.triu_indices(64, 1)].astype(np.float64)
    yield "bit pairs, same word", Scores(upper, np.full(upper.size, float(part)))
    for lag, name in _named_lags(width, len(words)):
        both = (first.T @ signs(words[lag : lag + part])).astype(np.float64).ravel()
        yield f"bit pairs, {name}", Scores(both, np.full(both.size, float(part)))


def _named_lags(width: int, size: int) -> list[tuple[int, str]]:
    names = (
        {width - 1: "1 row - 1 apart", width: "1 row apart", width + 1: "1 row + 1 apart"}
        if width > 3
        else {}
    )
    return [(lag, names.get(lag, f"{lag} apart")) for lag in _lags(width, size)]


def serial(words: Words64, width: int) -> Named:
    """Consecutive words are uniform over a grid, by their high bits and by their low bits."""
    for name, values, narrow in (
        ("high", words >> U(56), words >> U(59)),
        ("low", words & U(255), words & U(31)),
    ):
        pairs = _rows(values, 2)
        yield f"pairs, {name} bits", even(pairs[:, 0] << U(8) | pairs[:, 1], 1 << 16)
        triples = _rows(narrow, 3)
        yield (
            f"triples, {name} bits",
            even(triples[:, 0] << U(10) | triples[:, 1] << U(5) | triples[:, 2], 1 << 15),
        )


def gaps(words: Words64, width: int) -> Named:
    """Waiting times for three zero bits are geometric."""
    longest = 40
    p = 1 / 8
    law = np.array([*(p * (1 - p) ** np.arange(longest)), (1 - p) ** longest])
    for name, hits in (("high", words < U(1 << 61)), ("low", (words & U(7)) == U(0))):
        waits = np.diff(np.flatnonzero(hits)) - 1
        yield f"gaps, {name} bits", cells(np.minimum(waits, longest), law)


def poker(words: Words64, width: int) -> Named:
    """The number of distinct values among 4-bit digits: of the 16 of a word, and the highest of 8
    words.
    """
    part = words[: len(words) // 4]
    yield (
        "poker in a word",
        _distinct([(part >> U(shift)) & U(15) for shift in range(0, 64, 4)], 7, 13),
    )
    yield "poker of 8 words", _distinct(list(_rows(words >> U(60), 8).T), 4, 8)


def _distinct(digits: list[Words64], fewest: int, most: int) -> Cells:
    """Count distinct digits of each hand, classes below ``fewest`` and above ``most`` merged."""
    seen = np.zeros(len(digits[0]), dtype=U)
    for digit in digits:
        seen |= U(1) << digit
    found = _weights16()[seen.astype(np.int64)].astype(np.int64)
    law = np.zeros(17)
    law[0] = 1.0
    for _ in digits:
        law = law * np.arange(17) / 16 + np.concatenate(
            [[0.0], law[:-1] * (16 - np.arange(16)) / 16]
        )
    merged = np.concatenate([[law[: fewest + 1].sum()], law[fewest + 1 : most], [law[most:].sum()]])
    return cells(np.clip(found, fewest, most) - fewest, merged)


def birthdays(words: Words64, width: int) -> Named:
    """Equal spacings among 2^12 birthdays in a year of 2^32 days are Poisson with mean 4
    (Marsaglia).
    """
    part = words[: len(words) // 4]
    for name, days in (("high", part >> U(32)), ("low", part & U(0xFFFFFFFF))):
        born = np.sort(_rows(days, 1 << 12), axis=1)
        spacings = np.sort(np.diff(born, axis=1), axis=1)
        count = int((spacings[:, 1:] == spacings[:, :-1]).sum())
        yield f"birthday spacings, {name} bits", Events(count, 4.0 * len(born))


def ordered(words: Words64, width: int) -> Named:
    """`unit` is uniform (Kolmogorov-Smirnov); words repeat, and their parts collide, as often as by
    chance.
    """
    ascending = np.sort(words)
    u = units(ascending)
    grid = np.arange(len(u) + 1) / len(u)
    distance = float(max((grid[1:] - u).max(), (u - grid[:-1]).max()))
    scaled = distance * (
        math.sqrt(len(u)) + 0.12 + 0.11 / math.sqrt(len(u))
    )  # Stephens: exact enough from 2^10 on
    p = two_sided(float(stats.kstwobign.cdf(scaled)), float(special.kolmogorov(scaled)))
    yield "unit, Kolmogorov-Smirnov", Levels(math.log(max(p, 1e-300)), 1)
    yield "repeats of a word", _collisions(ascending, 64)
    bits = 2 * int(math.log2(len(words))) - 6
    yield "collisions, high bits", _collisions(ascending >> U(64 - bits), bits)
    yield "collisions, low bits", _collisions(np.sort(words & U((1 << bits) - 1)), bits)
    pairs = _rows(words >> U(64 - (bits - 2) // 2), 2)
    yield (
        "collisions of pairs",
        _collisions(np.sort(pairs[:, 0] << U(bits // 2 - 1) | pairs[:, 1]), bits - 2),
    )


def _collisions(ascending: Words64, bits: int) -> Events:
    count = len(ascending)
    return Events(int((ascending[1:] == ascending[:-1]).sum()), count * (count - 1) / 2 / 2.0**bits)


def rank(words: Words64, width: int) -> Named:
    """Binary 64 x 64 matrices have the ranks of random ones: of 64 words, and of one bit of 4096
    words.
    """
    yield "rank of 64 words", _ranks(words[: max(len(words) // 16, min(len(words), 1 << 14))])
    for bit in (0, 63):
        ones = ((words >> U(bit)) & U(1)).astype(np.uint8)
        packed = np.packbits(_rows(ones, 64), axis=1).view(U).ravel()
        yield f"rank, bit {bit}", _ranks(packed)


@cache
def _rank_law() -> Floats:
    """Return the probabilities of rank 62 or less, 63 and 64 of a random binary matrix."""
    full = math.prod(1.0 - 2.0**-k for k in range(1, 65))
    less = full * 2.0 * (1.0 - 2.0**-64)
    return np.array([1.0 - full - less, less, full])


def _ranks(words: Words64) -> Cells:
    matrices = np.ascontiguousarray(_rows(words, 64).T)
    found = np.zeros(matrices.shape[1], dtype=np.int64)
    for row in range(64):
        pivot = matrices[row]
        lowest = pivot & (~pivot + U(1))
        below = matrices[row + 1 :]
        below ^= np.where((below & lowest) != 0, pivot, U(0))
        found += pivot != 0
    return cells(np.maximum(found - 62, 0), _rank_law())


def complexity(words: Words64, width: int) -> Named:
    """Sequences of one bit have the linear complexity of random ones (Rueppel's exact law)."""
    length, count = 256, 96
    law = np.array(
        [1 / 6, 1 / 2, 1 / 4, 1 / 12]
    )  # of length / 2 - 1 or less, length / 2, one more, yet more
    for bit in (0, 63):
        ones = _rows(((words[: length * count] >> U(bit)) & U(1)).astype(np.int64), length)
        found = np.array([linear_complexity(row.tolist()) for row in ones])
        yield f"linear complexity, bit {bit}", cells(np.clip(found - length // 2, -1, 2) + 1, law)


def linear_complexity(sequence: list[int]) -> int:
    """Return the length of the shortest linear recurrence of a sequence of bits (Berlekamp and
    Massey).
    """
    current, previous, past = 1, 1, 0
    length, since = 0, 1
    for place, bit in enumerate(sequence):
        past = past << 1 | bit
        if (current & past).bit_count() & 1 == 0:
            since += 1
            continue
        update = current ^ (previous << since)
        if 2 * length <= place:
            length, previous, since = place + 1 - length, current, 1
        else:
            since += 1
        current = update
    return length


def hamming(words: Words64, width: int) -> Named:
    """Numbers of ones are binomial, and those of neighbouring words independent."""
    ones = weights(words)
    law = stats.binom(64, 0.5).pmf(np.arange(65))
    merged = np.concatenate([[law[:19].sum()], law[19:46], [law[46:].sum()]])
    yield "Hamming weights", cells(np.clip(ones, 18, 46) - 18, merged)
    three = np.array([law[:31].sum(), law[31:34].sum(), law[34:].sum()])
    classes = _rows(np.digitize(ones, [31, 34]), 8)
    joint = three
    for _ in range(7):
        joint = np.multiply.outer(joint, three).ravel()
    yield "Hamming weights of 8 words", cells(classes @ 3 ** np.arange(7, -1, -1), joint)
    yield "Hamming weights, correlation", _correlation((ones - 32) / 4.0, width)


def correlation(words: Words64, width: int) -> Named:
    """`unit` is uncorrelated with itself up to 32 words apart and between neighbours in
    the grid.
    """
    yield "unit, autocorrelation", _correlation((units(words) - 0.5) * math.sqrt(12.0), width)


def _correlation(values: Floats, width: int) -> Scores:
    lags = sorted({*range(1, 33), *_lags(width, len(values))})
    totals = np.array([values[lag:] @ values[:-lag] for lag in lags])
    return Scores(totals, np.array([float(len(values) - lag) for lag in lags]))


def extremes(words: Words64, width: int) -> Named:
    """The largest of 8 is the eighth root of a uniform; the order of 4 is any of 24."""
    high = _rows(units(words), 8).max(axis=1)
    yield "maximum of 8", even(np.minimum((high**8 * 256).astype(np.int64), 255), 256)
    four = _rows(words, 4)
    code = np.zeros(len(four), dtype=np.int64)
    for bit, (a, b) in enumerate(combinations(range(4), 2)):
        code |= (four[:, a] > four[:, b]).astype(np.int64) << bit
    yield "order of 4", even(_orders()[code], 24)


@cache
def _orders() -> Ints:
    """Return the number of each order of 4 by its six comparisons."""
    possible = [
        sum((order[a] > order[b]) << bit for bit, (a, b) in enumerate(combinations(range(4), 2)))
        for order in permutations(range(4))
    ]
    table = np.zeros(64, dtype=np.int64)
    table[possible] = np.arange(24)
    return table


Splitter = Callable[[Words64, int], tuple[Ints, Floats]]


def decisions(words: Words64, width: int, splitter: Splitter = splits) -> Named:
    """The neighbour is uniform for any degree, and the acceptance uniform given the neighbour."""
    degrees = (2, 3, 5, 7, 10, 100, 1000, 10**6 + 3)
    size = len(words) // len(degrees)
    for k, degree in enumerate(degrees):
        index, u = splitter(words[k * size : (k + 1) * size], degree)
        bins = min(degree, 1000)
        width_of = np.diff(np.ceil(np.arange(bins + 1) * degree / bins)) / degree
        law = np.repeat(width_of / 8, 8)
        yield (
            f"split, degree {degree}",
            cells(index * bins // degree * 8 + (u * 8).astype(np.int64), law),
        )
    index, u = splitter(words, 7)
    yield "split, rare acceptance", Events(int((u < 2.0**-12).sum()), len(words) * 2.0**-12)
    now, then = index[:-1:2], index[1::2]
    half = len(then)
    yield (
        "split, next neighbour",
        even((now[:half] * 8 + (u[:-1:2][:half] * 8).astype(np.int64)) * 7 + then, 7 * 8 * 7),
    )


TESTS = (
    frequencies,
    bit_pairs,
    serial,
    gaps,
    poker,
    birthdays,
    ordered,
    rank,
    complexity,
    hamming,
    correlation,
    extremes,
    decisions,
)


# Running ------------------------------------------------------------------------------------------

Results = dict[str, Evidence]


def examine(chunks: Iterable[Words64], width: int = 1) -> Results:
    """Return the evidence of every test over all chunks."""
    found: dict[str, Any] = {}
    for words in chunks:
        for test in TESTS:
            for name, evidence in test(words, width):
                found[name] = found[name] + evidence if name in found else evidence
    return found


def avalanche(scheme: Scheme, bases: int, part: str, first: int = 0) -> Scores:
    """Flip every bit of one coordinate: every output bit flips with probability one half.

    The key is zero, the worst case; the bases are different steps, so that no pair of words is
    counted twice.
    """
    position = ("k0", "k1", "step", "slot").index(part)
    totals = np.zeros((64, 64))
    for bit in range(64):
        count = np.arange(first, first + bases, dtype=U)
        if part == "step":  # steps in which this bit is 0
            count = (count >> U(bit) << U(bit) << U(1)) | (count & U((1 << bit) - 1))
        zero = np.zeros(1, dtype=U)
        base = [zero, zero, count, zero]
        flipped = list(base)
        flipped[position] = base[position] ^ U(1 << bit)
        totals[bit] = signs(scheme(*base) ^ scheme(*flipped)).sum(axis=0)
    return Scores(totals, np.full(totals.shape, float(bases)))


def p_values(results: Mapping[str, Evidence]) -> dict[str, float]:
    """Return the p-value of every test."""
    return {name: evidence.p for name, evidence in results.items()}


def caught_by(found: Mapping[str, float]) -> list[str]:
    """Return the tests whose p-value is below the threshold, smallest first."""
    return sorted(
        (name for name, p in found.items() if p < THRESHOLD), key=lambda name: found[name]
    )
