"""Randomness as a pure function ``word(key, step, slot)``; there is no generator state.

The reference backend, the kernels and the fleet in replay mode read the same words. Therefore their
walks can be compared step by step, any step can be recomputed alone, and replicas do not influence
each other.

A word is 64 random bits and is computed in two levels. The first is once per step: `mix64` of
``a + step * STEP``, with the key's second half b put in between its two rounds. This hash is the
word of slot 0. The word of any other slot is ``mix64(hash + slot * SLOT)``. There are two levels
because with one counter for step and slot, the words of one slot would appear again in another slot
at a later step. The key has two 64-bit halves because with a single one all keys would be offsets
into one sequence. (a, b) is the key (k0, k1) scrambled (`expand`), so that keys that count, or
differ in one bit, are as good as any.

These words are version 1 and will not change: published numbers depend on them.

A step reads the following slots (other modules use their names, never their numbers):

========================  ==========================================================================
``JUMP``                  one 53-bit uniform: whether to jump and how far (``walks.jump``); slot 0,
                          the cheapest
``HOP + i``               hop i of a jump; hop 0 is also the proposal of a Metropolis-Hastings
                          decision. One word gives the neighbour and an acceptance uniform
                          (`split`): the index is exact to degree/2^64, and the uniform has 53
                          bits
``MINIBATCH + j``         the j-th local sample of a minibatch
``OWN + i``               further draws of a user's own walk or update
``PASS + k``              the hash of the k-th pass of the step (k = 1, 2, …): a node without data
                          passes the model on, and its decision reads the slots above from this
                          hash in place of the step's (`Words.passed`)
========================  ==========================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from levywalk.arrays import Words64

VERSION = 1  # of the words; results of one version are the same numbers everywhere

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
PASS = 1 << 56


class Domain(IntEnum):
    """The purpose of a random stream; streams of different domains are independent."""

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
    PRIVACY = 10


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


def expand(k0: int, k1: int) -> tuple[int, int]:
    """Scramble the two halves of a key; no two keys give the same pair.

    Examples
    --------
    >>> expand(0, 0)
    (5197578548964807871, 635774622904623484)
    """
    a = mix64(k0 ^ mix64((k1 + STEP) & _MASK))
    return a, mix64(k1 ^ mix64((a + SLOT) & _MASK))


@dataclass(frozen=True, slots=True)
class Key:
    """The 128-bit key that determines all random numbers of one replica.

    Examples
    --------
    >>> key = Key.of(seed=0, domain=Domain.WALK, replica=3)
    >>> key.word(step=10, slot=JUMP) == key.word(step=10, slot=JUMP)
    True
    """

    k0: int
    k1: int
    expanded: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "expanded", expand(self.k0, self.k1))

    @classmethod
    def of(cls, seed: int, domain: Domain, replica: int = 0, token: int = 0) -> Key:
        """Derive the key of one replica of one domain from the seed.

        If several models walk in a replica, the first one has the replica's own key.
        """
        spawn = (int(domain), replica, *((token,) if token else ()))
        state = np.random.SeedSequence(seed, spawn_key=spawn).generate_state(2, np.uint64)
        return cls(int(state[0]), int(state[1]))

    def step_hash(self, step: int) -> int:
        """Return the first level of a step's words, which is the word of slot 0."""
        a, b = self.expanded
        z = (a + step * STEP) & _MASK
        z = (((z ^ (z >> 30)) * MIX_1) & _MASK) ^ b
        z = ((z ^ (z >> 27)) * MIX_2) & _MASK
        return z ^ (z >> 31)

    def word(self, step: int, slot: int) -> int:
        """Return the 64 random bits of (step, slot)."""
        return slot_word(self.step_hash(step), slot)


def slot_word(step_hash: int, slot: int) -> int:
    """Return the second level: the word of a slot, given the step's hash.

    Examples
    --------
    >>> key = Key.of(seed=0, domain=Domain.WALK)
    >>> slot_word(key.step_hash(10), HOP) == key.word(10, HOP)
    True
    """
    shift = (slot * SLOT) & _MASK
    return mix64((step_hash + shift) & _MASK) if shift else step_hash


class Words:
    """The random words of one step: ``words(slot)`` returns the same 64 bits at every call.

    The slots are constants of this module, `levywalk.draws`. A walk reads ``draws.JUMP`` and
    ``draws.HOP + i``, an update reads ``draws.MINIBATCH + j``; your own method can use
    ``draws.OWN + i`` for further draws.

    Examples
    --------
    >>> words = Words(Key.of(seed=0, domain=Domain.WALK), step=10)
    >>> words(HOP) == words(HOP), 0 <= words.index(5) < 5, 0.0 <= words.uniform(OWN) < 1.0
    (True, True, True)
    """

    __slots__ = ("_own", "_step_hash")

    def __init__(self, key: Key, step: int) -> None:
        self._own: Callable[[int], int] | None = None
        if type(key) is Key:
            self._step_hash = key.step_hash(step)  # once for all slots
        else:  # a key with words of its own
            self._own = functools.partial(key.word, step)

    def __call__(self, slot: int) -> int:
        """Return the 64 random bits of a slot."""
        return slot_word(self._step_hash, slot) if self._own is None else self._own(slot)

    def passed(self, count: int) -> Words:
        """Return the words of the step's pass number ``count``, 1 being the first.

        A node without data passes the model on with them.

        Examples
        --------
        >>> key = Key.of(seed=0, domain=Domain.WALK)
        >>> Words(key, 10).passed(2)(HOP) == slot_word(key.word(10, PASS + 2), HOP)
        True
        """
        found = object.__new__(Words)
        found._own, found._step_hash = None, self(PASS + count)
        return found

    def uniform(self, slot: int = HOP) -> float:
        """Return a uniform number in [0, 1) from a slot."""
        return unit(self(slot))

    def index(self, count: int, slot: int = HOP) -> int:
        """Return a uniform index below ``count`` from a slot."""
        return split(self(slot), count)[0]


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


def token_keys(seed: int, domain: Domain, replicas: range, tokens: int) -> Words64:
    """Return the keys of several tokens of each replica, one row per token.

    The first token of a replica has the replica's own key.

    Examples
    --------
    >>> token_keys(0, Domain.WALK, range(3), 2)[::2].tolist() == keys(
    ...     0, Domain.WALK, range(3)
    ... ).tolist()
    True
    """
    rows = [Key.of(seed, domain, replica, token) for replica in replicas for token in range(tokens)]
    return np.array([[key.k0, key.k1] for key in rows], dtype=np.uint64).reshape(len(rows), 2)


def expanded_keys(rows: Words64) -> Words64:
    """Return the expanded pairs of several keys, which kernels read.

    Examples
    --------
    >>> rows = keys(0, Domain.WALK, range(3))
    >>> tuple(expanded_keys(rows)[2].tolist()) == Key.of(0, Domain.WALK, 2).expanded
    True
    """
    found = [expand(int(k0), int(k1)) for k0, k1 in rows]
    return np.array(found, dtype=np.uint64).reshape(len(found), 2)


def generator(seed: int, domain: Domain, *index: int) -> np.random.Generator:
    """Return a numpy generator for large draws (networks, data sets), with its own domain.

    Examples
    --------
    >>> float(generator(0, Domain.DATA).random()) != float(generator(0, Domain.NETWORK).random())
    True
    """
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(int(domain), *index)))
    )


def stratified_words(count: int) -> Iterator[int]:
    """Yield ``count`` words that are evenly spaced over the whole range.

    They enumerate the outcomes of a rule with their probabilities.

    Examples
    --------
    >>> [unit(word) for word in stratified_words(4)]
    [0.125, 0.375, 0.625, 0.875]
    """
    for k in range(count):
        yield ((2 * k + 1) << 63) // count
