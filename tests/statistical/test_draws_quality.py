"""Words64 are uniform and independent across steps, slots, walkers, seeds and domains; flawed
hashes are caught.

The tests and their budget of false alarms (1e-6 for all of them together) are in `battery`, the
orders of words and the flawed hashes in `streams`. Seeds are fixed, so a test that passes, passes.
The long version is ``python -m benchmarks.draws``; docs/draws.md says what it found.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from levywalk.draws import PASS, SLOT, Key, Words, split, unit
from tests.limits import mostly_more
from tests.statistical import battery
from tests.statistical.battery import LEVEL, MOST, THRESHOLD, Cells, caught_by, examine, p_values
from tests.statistical.streams import (
    CLAIMED,
    FLAWED,
    KEY,
    ORDERS,
    SEED,
    levywalk,
    mix64,
    unexpanded,
)

WORDS = 1 << 19
FLAWED_WORDS = 1 << 17
PER_ORDER = 50
PARTS = ("k0", "k1", "step", "slot")
U = np.uint64


def judged(scheme, order, words=FLAWED_WORDS):
    """The p-values of a scheme's words in an order."""
    return p_values(examine([order.words(scheme, 0, words)], order.width))


def told(found):
    """What a failing test prints: the seed and the smallest p-values."""
    least = sorted(found.items(), key=lambda pair: pair[1])[:5]
    return f"seed {SEED}: " + ", ".join(f"{name} {p:.2g}" for name, p in least)


# What is tested is the package's own --------------------------------------------------------------


@pytest.mark.parametrize("name", ORDERS)
def test_the_vectorised_words_are_the_packages_own(name):
    order = ORDERS[name]
    for start in (0, order.width - 1, 2**17 - 3):
        index = np.arange(start, start + 5, dtype=U)
        coordinates = np.broadcast_arrays(*order.at(index))
        own = [
            Key(k0, k1).word(step, slot)
            for k0, k1, step, slot in zip(*(c.tolist() for c in coordinates), strict=True)
        ]
        assert order.words(levywalk, start, 5).tolist() == own


@pytest.mark.parametrize("degree", [1, 2, 7, 1000, 2**32 - 1])
def test_the_vectorised_decisions_are_the_packages_own(degree):
    words = ORDERS["steps"].words(levywalk, 0, 100)
    index, uniform = battery.splits(words, degree)
    assert list(zip(index.tolist(), uniform.tolist(), strict=True)) == [
        split(word, degree) for word in words.tolist()
    ]
    assert battery.units(words).tolist() == [unit(word) for word in words.tolist()]


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_never_reads_a_word_twice(name):
    coordinates = np.broadcast_arrays(*ORDERS[name].at(np.arange(1 << 12, dtype=U)))
    assert len(set(zip(*(c.tolist() for c in coordinates), strict=True))) == 1 << 12


# The words pass -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", mostly_more(CLAIMED, lambda name: name in ("steps", "walkers", "seeds"))
)
def test_words_pass_every_test_in_every_order(name):
    found = judged(levywalk, ORDERS[name], WORDS)
    assert not caught_by(found), told(found)
    assert len(found) <= PER_ORDER


def pass_words(count):
    """Jump word and three hops of 8 passes of each step, as nodes without data read them."""
    index = np.arange(count, dtype=U)
    k0, k1 = np.array([KEY.k0], U), np.array([KEY.k1], U)
    hashes = levywalk(k0, k1, index >> U(5), ((index >> U(2)) & U(7)) + U(PASS + 1))
    slot = index & U(3)
    return np.where(slot == U(0), hashes, mix64(hashes + slot * U(SLOT)))


def test_the_vectorised_words_of_passes_are_the_packages_own():
    found = pass_words(200).tolist()
    for i in (0, 1, 5, 31, 32, 77, 199):
        words = Words(KEY, i >> 5).passed(1 + ((i >> 2) & 7))
        assert words(i & 3) == found[i]


@pytest.mark.more
def test_words_of_passes_pass_every_test():
    found = p_values(examine([pass_words(WORDS)], 32))
    assert not caught_by(found), told(found)


@pytest.mark.parametrize("part", PARTS)
def test_flipping_one_bit_of_the_zero_key_a_step_or_a_slot_flips_half_of_the_word(part):
    assert battery.avalanche(levywalk, 1 << 9, part).p >= THRESHOLD


def test_the_budget_of_false_alarms_holds_all_tests():
    assert (len(ORDERS) + 1) * PER_ORDER + len(PARTS) <= MOST  # one for the words of passes
    assert pytest.approx(LEVEL) == THRESHOLD * MOST


def test_keys_that_count_are_hidden_by_their_expansion():
    # Without it one round of mix64 is all that stands between a counter in the second half of a key
    # and the jump words: bits of one word correlate.
    def within(scheme, order):
        words = ORDERS[order].words(scheme, 0, 1 << 20)
        return p_values(dict(battery.bit_pairs(words, 1)))["bit pairs, same word"]

    assert within(unexpanded, "counted k1, jumps") < THRESHOLD
    assert within(levywalk, "counted k1, jumps") >= THRESHOLD


# The tests are fair -------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", [np.random.PCG64, np.random.Philox])
def test_numpys_generators_pass(generator):
    found = p_values(examine([generator(SEED).random_raw(WORDS)], width=1024))
    assert not caught_by(found), told(found)


@pytest.mark.more
def test_no_test_gives_small_p_values_too_often():
    # p-values of ideal words are uniform or, where counts are small or two statistics share a
    # level, larger.
    source = np.random.PCG64(SEED)
    runs = [p_values(examine([source.random_raw(1 << 14)], width=64)) for _ in range(24)]
    for name in runs[0]:
        p = [run[name] for run in runs]
        assert stats.ks_1samp(p, stats.uniform.cdf, alternative="greater").pvalue > LEVEL / len(
            runs[0]
        ), name


def test_chunks_add_up_to_the_whole():
    words = ORDERS["steps"].words(levywalk, 0, 1 << 15)
    once, twice = examine([words]), examine([words[: 1 << 14], words[1 << 14 :]])
    assert set(once) == set(twice)
    for name in ("16-bit windows", "bytes", "bits", "maximum of 8", "order of 4"):
        assert once[name].p == pytest.approx(twice[name].p)


def test_linear_complexity_has_rueppels_law_over_all_sequences():
    found = np.bincount(
        [battery.linear_complexity(list(bits)) for bits in product((0, 1), repeat=10)], minlength=11
    )
    assert found.tolist() == [1, *(2 ** min(20 - 2 * L, 2 * L - 1) for L in range(1, 11))]


def test_ranks_are_those_of_known_matrices():
    single = U(1) << np.arange(64, dtype=U)
    twice = np.where(np.arange(64) == 5, single[4], single)
    summed = np.where(np.arange(64) < 3, single[:1] ^ single[5:6], single)
    assert battery._ranks(np.concatenate([single, twice, summed])).observed.tolist() == [1, 1, 1]


def test_the_law_of_ranks_is_that_of_counted_matrices():
    # (2^64 - 1)(2^64 - 2)(2^64 - 4)… invertible matrices of 2^(64·64).
    invertible = 1
    for row in range(64):
        invertible *= 2**64 - 2**row
    assert battery._rank_law()[2] == pytest.approx(invertible / 2**4096)
    assert battery._rank_law().sum() == pytest.approx(1.0)


# Flawed hashes are caught, each for its own reason ------------------------------------------------

# hash: (order in which it fails, tests that must catch it there, tests that must not, order in
# which it passes)
REASONS = {
    "shared_counter": (
        "diagonal",
        {"repeats of a word", "bit pairs, 1 apart", "pairs, high bits"},
        {"bits"},
        "steps",
    ),
    "one_half": (
        "offset keys",
        {"repeats of a word", "bit pairs, 1 row - 1 apart"},
        set(),
        "walkers",
    ),
    "one_multiply": (
        "steps",
        {
            "gaps, low bits",
            "rank, bit 0",
            "linear complexity, bit 0",
            "triples, low bits",
            "16-bit windows",
        },
        {"gaps, high bits", "triples, high bits", "linear complexity, bit 63"},
        None,
    ),
    "half_mixed": (
        "small keys",
        {"bit pairs, 1 apart", "pairs, high bits", "pairs, low bits"},
        {"bits"},
        "steps",
    ),
    "jump_of_one_half": (
        "offset keys, jumps",
        {"repeats of a word", "bit pairs, 1 row - 1 apart"},
        set(),
        "offset keys",
    ),
    "jump_of_a_sum": (
        "offset keys, jumps",
        {"bit pairs, 1 row - 1 apart"},
        set(),
        "offset keys",
    ),
    "jump_is_the_hop": (
        "jump beside hop",
        {"bit pairs, 1 apart"},
        {"bits"},
        "steps",
    ),
    "weyl": ("steps", {"unit, Kolmogorov-Smirnov", "bytes", "unit, autocorrelation"}, set(), None),
    "lcg": (
        "steps",
        {"gaps, low bits", "rank, bit 0", "linear complexity, bit 0", "triples, low bits"},
        {"gaps, high bits", "triples, high bits", "unit, Kolmogorov-Smirnov"},
        None,
    ),
    "xorshift": (
        "steps",
        {
            "rank of 64 words",
            "rank, bit 0",
            "rank, bit 63",
            "linear complexity, bit 0",
            "linear complexity, bit 63",
        },
        {
            "bits",
            "bytes",
            "16-bit windows",
            "unit, Kolmogorov-Smirnov",
            "gaps, low bits",
            "maximum of 8",
        },
        None,
    ),
}


@pytest.mark.parametrize(
    "name", mostly_more(REASONS, lambda name: name in ("shared_counter", "one_multiply", "lcg"))
)
def test_a_flawed_hash_is_caught_for_its_own_reason(name):
    order, reasons, others, innocent = REASONS[name]
    caught = set(caught_by(judged(FLAWED[name], ORDERS[order])))
    assert reasons <= caught
    assert not others & caught
    if innocent is not None:
        found = judged(FLAWED[name], ORDERS[innocent])
        assert not caught_by(found), told(found)


def test_every_flawed_hash_has_a_reason():
    assert set(REASONS) == set(FLAWED)


@pytest.mark.parametrize(
    ("name", "blind"),
    [
        ("one_half", {"k1"}),
        ("half_mixed", {"k1", "slot"}),
        ("one_multiply", set(PARTS)),
        ("weyl", set(PARTS)),
    ],
)
def test_a_hash_that_does_not_mix_a_coordinate_has_no_avalanche(name, blind):
    assert {
        part for part in PARTS if battery.avalanche(FLAWED[name], 1 << 9, part).p < THRESHOLD
    } == blind


def test_words_that_are_too_even_are_caught_by_the_other_tail():
    windows = examine([ORDERS["steps"].words(FLAWED["weyl"], 0, FLAWED_WORDS)])["bytes"]
    assert isinstance(windows, Cells)
    statistic = ((windows.observed - windows.expected) ** 2 / windows.expected).sum()
    assert statistic < windows.observed.size / 10
    assert windows.p < THRESHOLD


@pytest.mark.parametrize("bit", [0, 11, 63])
def test_a_bit_that_is_one_in_51_percent_is_caught(bit):
    words = ORDERS["steps"].words(levywalk, 0, WORDS)
    forced = np.arange(WORDS, dtype=U) % U(50) == 0
    caught = caught_by(
        p_values(dict(battery.frequencies(np.where(forced, words | U(1 << bit), words), 1)))
    )
    assert "bits" in caught


def test_an_acceptance_from_the_bits_of_the_neighbour_is_caught():
    def reused(words, degree):
        return battery.splits(words, degree)[0], battery.units(words)

    words = ORDERS["steps"].words(levywalk, 0, FLAWED_WORDS)
    found = p_values(dict(battery.decisions(words, 1, reused)))
    assert {name for name in found if name.startswith("split, degree")} <= set(caught_by(found))
    assert not caught_by(p_values(dict(battery.decisions(words, 1))))


def test_a_neighbour_from_a_byte_is_caught():
    def coarse(words, degree):
        return ((words >> U(56)) * U(degree) >> U(8)).astype(np.int64), battery.units(words << U(8))

    found = p_values(dict(battery.decisions(ORDERS["steps"].words(levywalk, 0, WORDS), 1, coarse)))
    assert {"split, degree 100", "split, degree 1000"} <= set(caught_by(found))
