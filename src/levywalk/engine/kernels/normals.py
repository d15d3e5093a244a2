"""Standard normal numbers from random words: the compiled twin of `levywalk.privacy.noise.normals`.

The inverse of the normal law is Wichura's (1988, "Algorithm AS 241: the percentage points of the
normal distribution", Applied Statistics 37, PPND16): a rational function of q² for the middle 85 %
of all numbers, and two others of √(-ln p) for the tails. A first loop computes all numbers as if
they were in the middle, in vector lanes and without a branch, and a second one those in the tails.
Tails take their logarithm from the C library, whose last digit may differ between machines.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from levywalk.engine.kernels.twins import pointer_to
from levywalk.engine.kernels.vectors import LINE, from_bits, load, store
from levywalk.engine.kernels.words import SLOT, mix64

_SLOTS = np.arange(1, LINE + 1, dtype=np.uint64) * SLOT
_S12 = np.uint64(12)
_ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0
_HALF = 2.0**-53
_MIDDLE = 0.425  # |p - 1/2| up to which the first rational function holds


def room_for_normals(count: int) -> int:
    """Return how much room so many numbers need."""
    return -(-count // LINE) * LINE


@njit(inline="always")
def central(q):  # type: ignore[no-untyped-def]
    """Return the normal number of probability 1/2 + q, for |q| ≤ 0.425."""
    r = q * q * -1.0 + 0.180625
    above = 2509.0809287301226727 * r + 33430.575583588128105
    above = above * r + 67265.770927008700853
    above = above * r + 45921.953931549871457
    above = above * r + 13731.693765509461125
    above = above * r + 1971.5909503065514427
    above = above * r + 133.14166789178437745
    above = above * r + 3.387132872796366608
    below = 5226.495278852545925 * r + 28729.085735721942674
    below = below * r + 39307.89580009271061
    below = below * r + 21213.794301586595867
    below = below * r + 5394.1960214247511077
    below = below * r + 687.1870074920579083
    below = below * r + 42.313330701600911252
    below = below * r + 1.0
    return q * above / below


@njit
def tail(p):  # type: ignore[no-untyped-def]
    """Return minus the normal number of probability p, for p < 0.075."""
    r = math.sqrt(-math.log(p))
    if r <= 5.0:
        r -= 1.6
        above = 7.7454501427834140764e-4 * r + 0.0227238449892691845833
        above = above * r + 0.24178072517745061177
        above = above * r + 1.27045825245236838258
        above = above * r + 3.64784832476320460504
        above = above * r + 5.7694972214606914055
        above = above * r + 4.6303378461565452959
        above = above * r + 1.42343711074968357734
        below = 1.05075007164441684324e-9 * r + 5.475938084995344946e-4
        below = below * r + 0.0151986665636164571966
        below = below * r + 0.14810397642748007459
        below = below * r + 0.68976733498510000455
        below = below * r + 1.6763848301838038494
        below = below * r + 2.05319162663775882187
        below = below * r + 1.0
        return above / below
    r -= 5.0
    above = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
    above = above * r + 0.0012426609473880784386
    above = above * r + 0.026532189526576123093
    above = above * r + 0.29656057182850489123
    above = above * r + 1.7848265399172913358
    above = above * r + 5.4637849111641143699
    above = above * r + 6.6579046435011037772
    below = 2.04426310338993978564e-15 * r + 1.4215117583164458887e-7
    below = below * r + 1.8463183175100546818e-5
    below = below * r + 7.868691311456132591e-4
    below = below * r + 0.0148753612908506148525
    below = below * r + 0.13692988092273580531
    below = below * r + 0.59983220655588793769
    below = below * r + 1.0
    return above / below


@njit
def normals_at(found_at, middle_at, count, h):  # type: ignore[no-untyped-def]
    """Write the normal numbers of the slots 1, …, count of a step with the hash h.

    The two addresses are those of the result and of room for p - 1/2, each with whole lanes
    (`room_for_normals`). The upper 52 bits of a word choose p = (k + 1/2) 2⁻⁵², as in the
    reference, and all differences of p, 1/2 and 1 are exact.
    """
    room = (count + LINE - 1) // LINE * LINE
    found = carray(pointer_to(found_at, np.float64), (room,))  # type: ignore[call-arg]
    middle = carray(pointer_to(middle_at, np.float64), (room,))
    for j in range(0, room, LINE):
        at = np.uint64(j)
        word = mix64(load(_SLOTS, np.uint64(0), LINE) + (h + at * SLOT))
        q = (from_bits((word >> _S12) | _ONE) - 1.5) + _HALF  # k 2⁻⁵² - 1/2 + 2⁻⁵³
        store(middle, at, q)
        store(found, at, central(q))
    for j in range(count):
        q = middle[j]
        if abs(q) > _MIDDLE:
            found[j] = math.copysign(tail(0.5 - abs(q)), q)
