"""Words are uniform and independent across steps, slots and replicas.

Under the claim every bit is a fair coin, independent of the others it is paired with. For each of the 64 x 64 pairs of
bits of two words the number of agreements is Binomial(N, 1/2); the largest deviation of all is bounded by Hoeffding's
inequality and a union bound, so a right scheme fails any one check with probability at most 1e-8. Keys are fixed, so a
test that passes, passes.
Every test is also run on a scheme with the flaw that it looks for, which must fail.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from levywalk.draws import HOP, JUMP, MINIBATCH, SLOT, STEP, Domain, Key, keys

FALSE_ALARM = 1e-8
N = 20_000
MASK = 2**64 - 1
U = np.uint64


def finalise(z):
    z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
    return z ^ (z >> U(31))


def scheme(k0, k1, step, slot):
    """The words of levywalk, vectorised over any argument."""
    k0, k1, step, slot = (np.atleast_1d(np.asarray(a, dtype=U)) for a in (k0, k1, step, slot))
    return finalise((finalise(k0 + step * U(STEP)) ^ k1) + (slot + U(1)) * U(SLOT))


def offsets_into_one_sequence(k0, k1, step, slot):
    """Flawed: plain SplitMix64 whose keys are small offsets, so one replica's words are another's, later."""
    k0, step, slot = (np.atleast_1d(np.asarray(a, dtype=U)) for a in (k0, step, slot))
    return finalise((k0 % U(4) + step) * U(STEP) + slot * U(SLOT))


def packed_counter(k0, k1, step, slot):
    """Flawed: step and slot in one counter, so a slot's word is another slot's at the next step."""
    k0, step, slot = (np.atleast_1d(np.asarray(a, dtype=U)) for a in (k0, step, slot))
    return finalise(k0 + (step + slot) * U(STEP))


def unmixed(k0, k1, step, slot):
    """Flawed: a Weyl sequence without the finaliser."""
    k0, step, slot = (np.atleast_1d(np.asarray(a, dtype=U)) for a in (k0, step, slot))
    return k0 + step * U(STEP) + slot * U(SLOT)


def bits(words):
    """Rows of 64 signs, +1 or -1."""
    shifts = np.arange(64, dtype=U)
    return 2.0 * ((words[:, None] >> shifts) & U(1)).astype(np.float64) - 1.0


def hoeffding(tests):
    """P(max |mean of N signs| > limit) <= 2 tests exp(-N limit²/2) = FALSE_ALARM."""
    return np.sqrt(2.0 * np.log(2.0 * tests / FALSE_ALARM) / N)


def bits_are_fair(words) -> bool:
    return bool(np.abs(bits(words).mean(axis=0)).max() <= hoeffding(64))


def bits_are_independent(a, b) -> bool:
    """All 4096 correlations between a bit of one word and a bit of the other are within the limit."""
    return bool(np.abs(bits(a).T @ bits(b) / len(a)).max() <= hoeffding(64 * 64))


def pairs_are_uniform(a, b) -> bool:
    """Chi-square over 16 x 16 cells of the upper four bits of both: where neighbours and acceptances are decided."""
    cells = np.bincount((a >> U(60)).astype(np.int64) * 16 + (b >> U(60)).astype(np.int64), minlength=256)
    statistic = float(((cells - len(a) / 256) ** 2).sum() / (len(a) / 256))
    return bool(stats.chi2(255).ppf(FALSE_ALARM / 2) <= statistic <= stats.chi2(255).isf(FALSE_ALARM / 2))


KEY = Key.of(2024, Domain.WALK, 0)
STEPS = np.arange(N)
PAIRS = {
    "adjacent steps": ((KEY.k0, KEY.k1, STEPS, HOP), (KEY.k0, KEY.k1, STEPS + 1, HOP)),
    "jump and proposal of a step": ((KEY.k0, KEY.k1, STEPS, JUMP), (KEY.k0, KEY.k1, STEPS, HOP)),
    "adjacent hops of a step": ((KEY.k0, KEY.k1, STEPS, HOP), (KEY.k0, KEY.k1, STEPS, HOP + 1)),
    "a hop and the next step's jump": ((KEY.k0, KEY.k1, STEPS, HOP), (KEY.k0, KEY.k1, STEPS + 1, JUMP)),
    "a minibatch and a hop": ((KEY.k0, KEY.k1, STEPS, MINIBATCH), (KEY.k0, KEY.k1, STEPS, HOP)),
    "adjacent minibatch draws": ((KEY.k0, KEY.k1, STEPS, MINIBATCH), (KEY.k0, KEY.k1, STEPS, MINIBATCH + 1)),
}


def replica_words(word, step):
    """One word of each of N replicas."""
    table = REPLICAS
    return word(table[:, 0], table[:, 1], np.full(len(table), step), HOP)


REPLICAS = keys(2024, Domain.WALK, range(N + 1))


def test_the_vectorised_scheme_is_the_packages_own():
    assert scheme(KEY.k0, KEY.k1, STEPS[:50], HOP).tolist() == [KEY.word(t, HOP) for t in range(50)]


@pytest.mark.parametrize("slot", [JUMP, HOP, HOP + 1, MINIBATCH])
def test_every_bit_is_a_fair_coin_along_a_walk(slot):
    assert bits_are_fair(scheme(KEY.k0, KEY.k1, STEPS, slot))


@pytest.mark.parametrize("name", PAIRS)
def test_words_within_a_replica_are_independent(name):
    first, second = (scheme(*arguments) for arguments in PAIRS[name])
    assert bits_are_independent(first, second)
    assert pairs_are_uniform(first, second)


def test_words_of_adjacent_replicas_are_fair_and_independent():
    first = replica_words(scheme, 5)
    assert bits_are_fair(first)
    assert bits_are_independent(first[:-1], first[1:])
    assert pairs_are_uniform(first[:-1], first[1:])


def test_one_replicas_walk_is_independent_of_anothers_at_any_small_lag():
    other = Key.of(2024, Domain.WALK, 1)
    a = scheme(KEY.k0, KEY.k1, STEPS, HOP)
    for lag in range(4):
        b = scheme(other.k0, other.k1, STEPS + lag, HOP)
        assert bits_are_independent(a, b)
        assert not np.intersect1d(a, b).size


def test_walks_of_tuning_and_report_are_independent():
    other = Key.of(2024, Domain.TUNING, 0)
    a, b = scheme(KEY.k0, KEY.k1, STEPS, HOP), scheme(other.k0, other.k1, STEPS, HOP)
    assert bits_are_independent(a, b)
    assert not np.intersect1d(a, b).size


def test_keys_that_differ_in_one_bit_give_independent_words():
    a = scheme(KEY.k0, KEY.k1, STEPS, HOP)
    for bit in (0, 31, 63):
        assert bits_are_independent(a, scheme(KEY.k0 ^ (1 << bit), KEY.k1, STEPS, HOP))
        assert bits_are_independent(a, scheme(KEY.k0, KEY.k1 ^ (1 << bit), STEPS, HOP))


def test_keys_that_are_offsets_in_the_first_half_give_independent_words():
    # The first level alone would be one sequence for all keys; the second half of the key must separate them.
    other = Key.of(2024, Domain.WALK, 1)
    k0 = (KEY.k0 + STEP) & MASK
    assert bits_are_independent(scheme(KEY.k0, KEY.k1, STEPS + 1, HOP), scheme(k0, other.k1, STEPS, HOP))


def test_a_scheme_whose_keys_are_offsets_is_caught():
    a = offsets_into_one_sequence(0, 0, STEPS + 1, HOP)
    b = offsets_into_one_sequence(1, 0, STEPS, HOP)
    assert not bits_are_independent(a, b)
    assert np.intersect1d(a, b).size


def test_a_scheme_with_step_and_slot_in_one_counter_is_caught():
    (_, _, steps, slot), (_, _, later, other) = PAIRS["a hop and the next step's jump"]
    a, b = packed_counter(KEY.k0, 0, steps, slot), packed_counter(KEY.k0, 0, later, other)
    assert not bits_are_independent(a, b)
    assert not pairs_are_uniform(a, b)


def test_a_scheme_without_mixing_is_caught():
    a, b = unmixed(KEY.k0, 0, STEPS, HOP), unmixed(KEY.k0, 0, STEPS + 1, HOP)
    assert not bits_are_independent(a, b)
    assert not pairs_are_uniform(a, b)
    stuck = bits(a)
    stuck[:, 3] = 1.0
    assert not np.abs(stuck.mean(axis=0)).max() <= hoeffding(64)
