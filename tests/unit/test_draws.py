"""Randomness is a pure function: words equal their published and recomputed values, in Python,
numpy and compiled.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from levywalk import draws
from levywalk.draws import (
    HOP,
    JUMP,
    MINIBATCH,
    OWN,
    PASS,
    VERSION,
    Domain,
    Key,
    Words,
    expand,
    generator,
    keys,
    mix64,
    split,
    stratified_words,
    unit,
)
from levywalk.engine.kernels import words

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
WORDS = st.integers(0, MASK)
SLOTS = [JUMP, HOP, HOP + 1, HOP + 1000, MINIBATCH, MINIBATCH + 7]


@njit
def compiled_word(k0, k1, step, slot):
    return words.word(words.step_hash(k0, k1, step), slot)


@njit
def compiled_split(word, count):
    return words.split(word, count)


@njit
def compiled_unit(word):
    return words.unit(word)


def numpy_words(k0: int, k1: int, steps: np.ndarray, slot: int) -> np.ndarray:
    """The scheme as the design states it, in wrapping uint64 arithmetic, without any line of
    levywalk.
    """

    def finalise(z):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    weyl = np.array([0xD1B54A32D192ED03], dtype=np.uint64)
    k0, k1 = np.array([k0], dtype=np.uint64), np.array([k1], dtype=np.uint64)
    a = finalise(k0 ^ finalise(k1 + np.uint64(GOLDEN)))
    b = finalise(k1 ^ finalise(a + weyl))
    h = a + steps.astype(np.uint64) * np.uint64(GOLDEN)
    h = ((h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)) ^ b
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h = h ^ (h >> np.uint64(31))
    return h if slot == 0 else finalise(h + weyl * np.uint64(slot))


def test_mix64_gives_the_published_splitmix64_sequence():
    state, found = 0, []
    for _ in range(5):
        state = (state + GOLDEN) & MASK
        found.append(mix64(state))
    assert found == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
        0xF88BB8A8724C81EC,
        0x1B39896A51A8749B,
    ]


def test_mix64_is_a_bijection_where_it_can_be_enumerated():
    inputs = [a << shift for shift in range(0, 64, 8) for a in range(1, 256)]
    assert len({mix64(z) for z in inputs}) == len(set(inputs))
    assert all(0 <= mix64(z) <= MASK for z in inputs)


def test_words_equal_an_independent_numpy_computation():
    key = Key.of(12345, Domain.WALK, 6)
    steps = np.concatenate([np.arange(200), 2**40 + np.arange(5)])
    for slot in SLOTS:
        assert [key.word(int(t), slot) for t in steps] == numpy_words(
            key.k0, key.k1, steps, slot
        ).tolist()


def test_a_key_comes_from_the_seed_sequence_of_its_domain_and_replica():
    expected = np.random.SeedSequence(7, spawn_key=(int(Domain.TUNING), 3)).generate_state(
        2, np.uint64
    )
    assert Key.of(7, Domain.TUNING, 3) == Key(int(expected[0]), int(expected[1]))


@settings(deadline=None)  # the first example compiles
@given(
    k0=WORDS,
    k1=WORDS,
    step=st.integers(0, 2**53),
    slot=st.sampled_from(SLOTS) | st.integers(0, 2**40),
)
def test_compiled_words_equal_pythons(k0, k1, step, slot):
    a, b = expand(k0, k1)
    assert int(compiled_word(np.uint64(a), np.uint64(b), np.uint64(step), np.uint64(slot))) == Key(
        k0, k1
    ).word(step, slot)


# Frozen: numbers that were published with these words must come out again, on any machine.
KNOWN = {
    (JUMP, 0): 0x68C687B03723982C,
    (JUMP, 1): 0xC7BC029254753C54,
    (JUMP, 1000000): 0xA15B5D504F5E3A2D,
    (JUMP, 9007199254740992): 0x1D2AD8FFC0D367F7,
    (HOP, 0): 0xEA573E29606C045A,
    (HOP, 1): 0x50673549D51BB668,
    (HOP, 1000000): 0xE0E8D2AF41727C60,
    (HOP, 9007199254740992): 0xC436AE627A68F671,
    (HOP + 2, 0): 0xB1C3853D585218E2,
    (HOP + 2, 1): 0xD8288901AD786130,
    (HOP + 2, 1000000): 0x51963205607D1986,
    (HOP + 2, 9007199254740992): 0x0A846867A2C812DB,
    (MINIBATCH + 5, 0): 0xAAEEFFEB37CDA8E2,
    (MINIBATCH + 5, 1): 0x4C44DE3BA7D6DDFC,
    (MINIBATCH + 5, 1000000): 0x28F3B9C503D37840,
    (MINIBATCH + 5, 9007199254740992): 0x96B3118E6C2A053C,
    (OWN, 0): 0x244670229D913FB2,
    (OWN, 1): 0xBF519F0623BDA15B,
    (OWN, 1000000): 0xB7C4262A36DF6333,
    (OWN, 9007199254740992): 0xFEC1FFF7ED7A2EDD,
    (PASS + 1, 0): 0xB4A630AF15CB1AA2,
    (PASS + 1, 1000000): 0x291E3398E682FD2E,
    (PASS + 7, 1): 0xCEB60E898047B763,
}


def test_the_words_of_version_1_never_change():
    assert VERSION == 1
    key = Key.of(seed=2024, domain=Domain.WALK, replica=0)
    assert {(slot, step): key.word(step, slot) for slot, step in KNOWN} == KNOWN
    assert Words(key, 10).passed(3)(HOP) == 0x57C4B851E08C24F1


def test_the_words_of_passes_differ_from_all_others_of_the_step():
    step = Words(Key.of(seed=1, domain=Domain.WALK), 5)
    slots = (JUMP, HOP, HOP + 1, MINIBATCH, OWN, PASS)
    found = [step(slot) for slot in slots]
    found += [step.passed(k)(slot) for k in range(1, 50) for slot in slots]
    assert len(set(found)) == len(found)
    assert step.passed(2)(HOP) == Words(Key.of(seed=1, domain=Domain.WALK), 5).passed(2)(HOP)


@settings(deadline=None)  # the first example compiles
@given(word=WORDS | st.sampled_from([0, MASK, 1 << 63]), count=st.integers(1, 2**32 - 1))
def test_compiled_split_and_unit_equal_pythons(word, count):
    index, uniform = compiled_split(np.uint64(word), np.uint64(count))
    assert (int(index), float(uniform)) == split(word, count)
    assert float(compiled_unit(np.uint64(word))) == unit(word)


@given(word=WORDS | st.sampled_from([0, MASK]), count=st.integers(1, 2**32 - 1))
def test_split_is_the_integer_and_fractional_part_of_an_exact_product(word, count):
    index, uniform = split(word, count)
    exact = Fraction(word, 2**64) * count
    assert index == exact.numerator // exact.denominator
    assert 0 <= index < count
    assert 0 <= exact - index - Fraction(uniform) < Fraction(1, 2**53)
    assert 0.0 <= uniform < 1.0


@given(word=WORDS)
def test_unit_is_the_upper_53_bits_and_below_one(word):
    assert Fraction(unit(word)) == Fraction(word >> 11, 2**53)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 1000])
def test_stratified_words_are_the_middles_of_equal_strata(count):
    found = list(stratified_words(count))
    assert len(found) == count
    for k, word in enumerate(found):
        middle = Fraction(2 * k + 1, 2 * count) * 2**64
        assert 0 <= middle - word < 1
    assert all(a < b for a, b in pairwise(found))


@pytest.mark.parametrize(("degree", "per"), [(2, 10), (3, 100), (7, 13)])
def test_stratified_words_give_each_neighbour_exactly_its_share(degree, per):
    indices = [split(word, degree)[0] for word in stratified_words(degree * per)]
    assert np.bincount(indices).tolist() == [per] * degree


def test_streams_of_domains_replicas_and_seeds_never_meet():
    found = [
        Key.of(seed, domain, r) for seed, domain, r in product([0, 1, 2**40], Domain, range(20))
    ]
    assert len({key.k0 for key in found}) == len({key.k1 for key in found}) == len(found)
    first = {key.word(t, slot) for key in found for t in range(5) for slot in SLOTS}
    assert len(first) == len(found) * 5 * len(SLOTS)


def test_slots_do_not_overlap_within_a_step():
    # A jump reads HOP..HOP+2^20-1 and a minibatch MINIBATCH..MINIBATCH+2^31-2.
    assert JUMP < HOP
    assert HOP + 2**20 <= MINIBATCH


def test_keys_are_the_rows_of_the_replicas_wherever_the_range_begins():
    table = keys(3, Domain.WALK, range(2, 6))
    assert table.dtype == np.uint64
    assert [Key(int(a), int(b)) for a, b in table] == [
        Key.of(3, Domain.WALK, r) for r in range(2, 6)
    ]
    assert keys(3, Domain.WALK, range(0)).shape == (0, 2)


def test_generators_of_an_index_repeat_and_differ():
    assert generator(1, Domain.DATA, 4).random() == generator(1, Domain.DATA, 4).random()
    assert generator(1, Domain.DATA, 4).random() != generator(1, Domain.DATA, 5).random()
    assert generator(1, Domain.DATA).random() != generator(1, Domain.NETWORK).random()


def test_kernel_constants_are_the_packages_own():
    for name in ("STEP", "SLOT", "MIX_1", "MIX_2", "JUMP", "HOP", "MINIBATCH"):
        assert int(getattr(words, name)) == getattr(draws, name)
