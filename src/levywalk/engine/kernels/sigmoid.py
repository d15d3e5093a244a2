"""The exponential and the logistic function in lanes: the same bits on every machine, which no
library promises.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from levywalk.engine.kernels.vectors import bits, choose, from_bits, multiply_add, only, single


@njit(inline="always")
def exponential(y):  # type: ignore[no-untyped-def]
    """exp(y) in lanes, for y limited to ±708: 2^k exp(r), with the polynomial of degree 13 in |r| ≤
    ln(2)/2.
    """
    y = choose(y > 708.0, 708.0, y)
    y = choose(y < -708.0, -708.0, y)
    shifted = multiply_add(
        y, 1.4426950408889634, 6755399441055744.0
    )  # 1.5 * 2^52: the integer part in the low bits
    k = shifted - 6755399441055744.0
    r = multiply_add(k, -1.9082149292705877e-10, multiply_add(k, -0.6931471803691238, y))
    s = r * r  # even and odd terms in parallel, which halves the dependency chain
    even = multiply_add(s, 2.08767569878681e-09, 2.755731922398589e-07)
    odd = multiply_add(s, 1.6059043836821613e-10, 2.505210838544172e-08)
    even = multiply_add(even, s, 2.48015873015873e-05)
    odd = multiply_add(odd, s, 2.7557319223985893e-06)
    even = multiply_add(even, s, 0.001388888888888889)
    odd = multiply_add(odd, s, 0.0001984126984126984)
    even = multiply_add(even, s, 0.041666666666666664)
    odd = multiply_add(odd, s, 0.008333333333333333)
    even = multiply_add(even, s, 0.5)
    odd = multiply_add(odd, s, 0.16666666666666666)
    even = multiply_add(even, s, 1.0)
    odd = multiply_add(odd, s, 1.0)
    p = multiply_add(odd, r, even)
    power = from_bits((bits(shifted) + np.uint64(1023)) << np.uint64(52))
    return p * power


@njit
def exponential_of(y):  # type: ignore[no-untyped-def]
    """exp(y) of one number."""
    return only(exponential(single(y)))


@njit(inline="always")
def sigmoid(z):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-z)) in lanes."""
    return 1.0 / (exponential(z * -1.0) + 1.0)
