"""Randomness as a pure function: ``word(key, step, slot)``, no generator state anywhere.

The oracle, the kernels and the fleet in replay mode read the same words, so they are compared walk
for walk, any step can be recomputed alone, and replicas do not disturb each other.

A word is 64 random bits, two levels deep: ``h = mix64(k0 + step * STEP)`` once per step, then
``word = mix64((h ^ k1) + (slot + 1) * SLOT)``. Two levels, because one counter for step and slot
would make one slot's words another's at a later step, and two 64-bit halves, because with one all
keys would be offsets into one sequence.

What a step reads (slots are names, not numbers, elsewhere):

========================  ==========================================================================
``JUMP``                  one 53-bit uniform: whether to jump and how far (``walks.jump``)
``HOP + i``               hop i of a jump; hop 0 is also the proposal of a Metropolis-Hastings
                          decision. One word gives the neighbour and an acceptance uniform
                          (`split`): the index is exact to degree/2^64, and the uniform has 53 bits
``MINIBATCH + j``         the j-th local sample of a minibatch
``OWN + i``               whatever a user's own walk or update draws besides
========================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from levywalk.arrays import Words64

STEP = 0x9E3779B97F4A7C15
SLOT = 0xD1B54A32D192ED03
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
_MASK = 0xFFFFFFFFFFFFFFFF
_LOW = 0xFFFFFFFF

JUMP = 0
HOP = 1
MINIBATCH = 1 << 32
OWN = 1 << 48


class Domain(IntEnum):
    """What a stream of randomness is for; streams of different domains never meet."""

    WALK = 0
    START = 1
    TUNING = 2
    NETWORK = 3
    DATA = 4
    PARTITION = 5
    BOOTSTRAP = 6
    TUNING_START = 7
    LOSS = 8
    FLEET = 9


def mix64(z: int) -> int:
    """Scramble 64 bits: the finaliser of SplitMix64.

    Examples
    --------
    >>> hex(mix64(1))
    '0x5692161d100b05e5'
    """
    z = ((z ^ (z >> 30)) * MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * MIX_2) & _MASK
    return z ^ (z >> 31)


@dataclass(frozen=True, slots=True)
class Key:
    """The 128 bits that make one replica's randomness.

    Examples
    --------
    >>> key = Key.of(seed=0, domain=Domain.WALK, replica=3)
    >>> key.word(step=10, slot=JUMP) == key.word(step=10, slot=JUMP)
    True
    """

    k0: int
    k1: int

    @classmethod
    def of(cls, seed: int, domain: Domain, replica: int = 0) -> Key:
        """Derive the key of one replica of one domain from the seed."""
        state = np.random.SeedSequence(seed, spawn_key=(int(domain), replica)).generate_state(
            2, np.uint64
        )
        return cls(int(state[0]), int(state[1]))

    def word(self, step: int, slot: int) -> int:
        """Return the 64 random bits of (step, slot)."""
        h = mix64((self.k0 + step * STEP) & _MASK)
        return mix64(((h ^ self.k1) + (slot + 1) * SLOT) & _MASK)


@dataclass(frozen=True, slots=True)
class Words:
    """The random words of one step: ``words(slot)`` is 64 bits, the same whenever it is asked for.

    A walk reads the slots ``JUMP`` and ``HOP + i``, an update reads ``MINIBATCH + j``; a method of
    your own that needs more takes ``OWN + i``.

    Examples
    --------
    >>> words = Words(Key.of(seed=0, domain=Domain.WALK), step=10)
    >>> words(HOP) == words(HOP), 0 <= words.index(5) < 5, 0.0 <= words.uniform(OWN) < 1.0
    (True, True, True)
    """

    key: Key
    step: int

    def __call__(self, slot: int) -> int:
        """Return the 64 random bits of a slot."""
        return self.key.word(self.step, slot)

    def uniform(self, slot: int = HOP) -> float:
        """Return a uniform number in [0, 1) from a slot."""
        return unit(self.key.word(self.step, slot))

    def index(self, count: int, slot: int = HOP) -> int:
        """Return a uniform index below ``count`` from a slot."""
        return split(self.key.word(self.step, slot), count)[0]


def unit(word: int) -> float:
    """Return the word's upper 53 bits as a float in [0, 1).

    Examples
    --------
    >>> unit(1 << 63)
    0.5
    """
    return (word >> 11) * 2.0**-53


def split(word: int, count: int) -> tuple[int, float]:
    """Return a uniform index below ``count`` and an independent uniform in [0, 1) from one word.

    The index is the integer part of ``word / 2**64 * count``, the uniform its fractional part.
    ``count`` is below 2**32, so that a kernel needs two 32-bit products for it.

    Examples
    --------
    >>> split(1 << 63, 5)  # half of 5 is 2.5
    (2, 0.5)
    """
    high = (word >> 32) * count
    low = (word & _LOW) * count
    total = high + (low >> 32)
    fraction = ((total & _LOW) << 32) | (low & _LOW)
    return total >> 32, unit(fraction)


def keys(seed: int, domain: Domain, replicas: range) -> Words64:
    """Return the keys of several replicas as rows (k0, k1).

    Examples
    --------
    >>> keys(0, Domain.WALK, range(3)).shape
    (3, 2)
    """
    rows = [Key.of(seed, domain, replica) for replica in replicas]
    return np.array([[key.k0, key.k1] for key in rows], dtype=np.uint64).reshape(len(rows), 2)


def generator(seed: int, domain: Domain, *index: int) -> np.random.Generator:
    """Return numpy's generator for bulk draws (networks, data sets) in a domain of its own.

    Examples
    --------
    >>> float(generator(0, Domain.DATA).random()) != float(generator(0, Domain.NETWORK).random())
    True
    """
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(int(domain), *index)))
    )


def stratified_words(count: int) -> Iterator[int]:
    """Yield ``count`` words evenly over the whole range, to enumerate a rule's outcomes with their
    probabilities.

    Examples
    --------
    >>> [unit(word) for word in stratified_words(4)]
    [0.125, 0.375, 0.625, 0.875]
    """
    for k in range(count):
        yield ((2 * k + 1) << 63) // count
