"""The compiled twin of `levywalk.draws`, for one walker or for several in lanes.

It gives the same words and the same integers.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from levywalk import draws

STEP = np.uint64(draws.STEP)
SLOT = np.uint64(draws.SLOT)
MIX_1 = np.uint64(draws.MIX_1)
MIX_2 = np.uint64(draws.MIX_2)
JUMP = np.uint64(draws.JUMP)
HOP = np.uint64(draws.HOP)
MINIBATCH = np.uint64(draws.MINIBATCH)
PASS = np.uint64(draws.PASS)
BIT = np.uint64(1)
LOW = np.uint64(0xFFFFFFFF)
S11 = np.uint64(11)
S27 = np.uint64(27)
S30 = np.uint64(30)
S31 = np.uint64(31)
S32 = np.uint64(32)
ULP = 2.0**-53


@njit(inline="always")
def mix64(z):  # type: ignore[no-untyped-def]
    """Scramble 64 bits."""
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@njit(inline="always")
def step_hash(a, b, t):  # type: ignore[no-untyped-def]
    """Return the hash of a step under an expanded key: the word of the slot JUMP."""
    return hash_at(a, b, t * STEP)


@njit(inline="always")
def hash_at(a, b, moment):  # type: ignore[no-untyped-def]
    """Return the hash of the step t for which ``moment`` is t STEP."""
    z = a + moment
    z = ((z ^ (z >> S30)) * MIX_1) ^ b
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@njit(inline="always")
def slot_word(h, slot):  # type: ignore[no-untyped-def]
    """Return the word of a slot other than JUMP."""
    return mix64(h + slot * SLOT)


@njit
def word(h, slot):  # type: ignore[no-untyped-def]
    """Return the word of any slot."""
    return h if slot == JUMP else slot_word(h, slot)


@njit(inline="always")
def unit(word):  # type: ignore[no-untyped-def]
    """Return the upper 53 bits as a float in [0, 1)."""
    return np.float64(word >> S11) * ULP


@njit(inline="always")
def divide(word, count):  # type: ignore[no-untyped-def]
    """Return the integer part of word / 2^64 * count, and its fractional part as 64 bits.

    Two 32-bit products are enough.
    """
    low = (word & LOW) * count
    total = (word >> S32) * count + (low >> S32)
    return total >> S32, (total << S32) | (low & LOW)


@njit(inline="always")
def propose(word, place):  # type: ignore[no-untyped-def]
    """Return the fraction of a proposal, in the lower 32 bits of a word, and the edge proposed.

    ``place`` has a node's first edge in its upper half, and its degree in its lower half.
    """
    degree = place & LOW
    total = (word >> S32) * degree + (((word & LOW) * degree) >> S32)
    return total, (place >> S32) + (total >> S32)


@njit(inline="always")
def split(word, count):  # type: ignore[no-untyped-def]
    """Return a uniform index below count < 2^32 and an independent uniform number."""
    index, fraction = divide(word, count)
    return index, unit(fraction)
