"""The words of levywalk as streams, next to flawed hashes and to numpy's generators: what `battery`
judges.

A scheme is a hash ``(k0, k1, step, slot) -> words``, vectorised. An order goes through the
coordinates (key, step, slot) so that words whose independence is claimed stand next to each other:
its ``width`` is the number of words after which the outer coordinate moves, so words 1, width - 1,
width and width + 1 apart are neighbours in the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from levywalk.draws import HOP, JUMP, MINIBATCH, MIX_1, MIX_2, SLOT, STEP, Domain, Key, keys

Words64 = npt.NDArray[np.uint64]
Coordinates = tuple[Words64, Words64, Words64, Words64]
Scheme = Callable[[Words64, Words64, Words64, Words64], Words64]

SEED = 2024
U = np.uint64
MASK = 2**64 - 1


# Schemes ------------------------------------------------------------------------------------------


def mix64(z: Words64) -> Words64:
    """Finalise as levywalk does."""
    z = (z ^ (z >> U(30))) * U(MIX_1)
    z = (z ^ (z >> U(27))) * U(MIX_2)
    return z ^ (z >> U(31))


def levywalk(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Hash as `levywalk.draws.Key.word` does, vectorised over any argument."""
    return mix64((mix64(k0 + step * U(STEP)) ^ k1) + (slot + U(1)) * U(SLOT))


def shared_counter(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Count steps and slots in one counter: a slot's word is another slot's at the next step."""
    return mix64((k0 ^ mix64(k1)) + (step + slot) * U(STEP))


def one_half(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Use one half of the key: keys are offsets into one sequence."""
    return mix64(mix64(k0 + step * U(STEP)) + (slot + U(1)) * U(SLOT))


def one_multiply(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Mix by one multiplication without a last xor-shift: low bits never see high ones."""
    words: Words64 = ((k0 + step * U(STEP) + (slot + U(1)) * U(SLOT)) ^ k1) * U(MIX_1)
    return words


def _half_mix(z: Words64) -> Words64:
    z = (z ^ (z >> U(30))) * U(MIX_1)
    return z ^ (z >> U(27))


def half_mixed(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Do levywalk's two levels with a mix64 that stops after its first round."""
    return _half_mix((_half_mix(k0 + step * U(STEP)) ^ k1) + (slot + U(1)) * U(SLOT))


def weyl(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Do not mix at all: far too even."""
    words: Words64 = (k0 ^ k1) + step * U(STEP) + slot * U(SLOT)
    return words


def lcg(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Step a linear congruential generator modulo 2^64, from the start for the largest step."""
    return _table(step, slot, _lcg_table)


def xorshift(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Step xorshift64 and return its raw state: linear over bits."""
    return _table(step, slot, _xorshift_table)


FLAWED: dict[str, Scheme] = {
    scheme.__name__: scheme
    for scheme in (shared_counter, one_half, one_multiply, half_mixed, weyl, lcg, xorshift)
}


def _table(step: Words64, slot: Words64, table: Callable[[int], Words64]) -> Words64:
    step, _ = np.broadcast_arrays(step, slot)
    return table(1 << int(step.max()).bit_length())[step.astype(np.int64)]


def _doubled(
    count: int,
    advance: Callable[[Words64], Words64],
    square: Callable[[], Callable[[Words64], Words64]],
) -> Words64:
    """Return ``count`` states by doubling: advance by 1, then by 2, by 4, …"""
    states = np.array([0x0123456789ABCDEF], dtype=U)
    while len(states) < count:
        states = np.concatenate([states, advance(states)])
        advance = square()
    return states[:count]


@lru_cache(maxsize=1)
def _lcg_table(count: int) -> Words64:
    a, c = 6364136223846793005, 1442695040888963407

    def advance(x: Words64) -> Words64:
        return x * U(a) + U(c)

    def square() -> Callable[[Words64], Words64]:
        nonlocal a, c
        a, c = a * a & MASK, (a + 1) * c & MASK
        return advance

    return _doubled(count, advance, square)


@lru_cache(maxsize=1)
def _xorshift_table(count: int) -> Words64:
    def one(x: Words64) -> Words64:
        x = x ^ (x << U(13))
        x = x ^ (x >> U(7))
        return x ^ (x << U(17))

    columns = one(U(1) << np.arange(64, dtype=U))

    def advance(x: Words64) -> Words64:
        found = np.zeros_like(x)
        for bit in range(64):
            found ^= columns[bit] * ((x >> U(bit)) & U(1))
        return found

    def square() -> Callable[[Words64], Words64]:
        nonlocal columns
        columns = advance(columns)
        return advance

    return _doubled(count, advance, square)


# Orders -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """A way through the coordinates; ``claimed`` is whether levywalk says that the words are
    independent.
    """

    name: str
    claim: str
    width: int
    at: Callable[[Words64], Coordinates]
    claimed: bool = True

    def words(self, scheme: Scheme, start: int, count: int) -> Words64:
        """Return words ``start`` to ``start + count - 1`` of a scheme in this order."""
        index = np.arange(start, start + count, dtype=U)
        return np.broadcast_to(scheme(*self.at(index)), (count,))


def _is(*values: int) -> Words64:
    return np.array(values, dtype=U)


KEY = Key.of(SEED, Domain.WALK, 0)
K0, K1 = _is(KEY.k0), _is(KEY.k1)
WALKERS = 10  # 2^10 of them
SEEDS = 8


@cache
def walkers() -> Words64:
    """Return the keys of walkers 0, 1, … of one seed, as columns."""
    return np.ascontiguousarray(keys(SEED, Domain.WALK, range(1 << WALKERS)).T)


@cache
def seeds() -> Words64:
    """Return the keys of walker 0 of seeds 0, 1, …, as columns."""
    return np.ascontiguousarray(
        np.vstack([keys(seed, Domain.WALK, range(1)) for seed in range(1 << SEEDS)]).T
    )


@cache
def domains() -> Words64:
    """Return the keys of walker 0 of every domain of one seed, as columns."""
    return np.ascontiguousarray(np.vstack([keys(SEED, domain, range(1)) for domain in Domain]).T)


def _steps_of(slot: int, first: int = 0) -> Callable[[Words64], Coordinates]:
    return lambda i: (K0, K1, i + U(first), _is(slot))


def _slots_of(bits: int, first: int) -> Callable[[Words64], Coordinates]:
    """Go through 2^bits slots of a step, then the next step."""
    return lambda i: (K0, K1, i >> U(bits), (i & U((1 << bits) - 1)) + U(first))


def _keys_of(table: Callable[[], Words64], bits: int) -> Callable[[Words64], Coordinates]:
    """Go through 2^bits keys at a step, then the next step."""

    def at(i: Words64) -> Coordinates:
        k0, k1 = table()
        row = (i & U((1 << bits) - 1)).astype(np.int64)
        return k0[row], k1[row], i >> U(bits), _is(HOP)

    return at


@cache
def one_bit_keys() -> Words64:
    """Return the 128 keys of which one bit is set, as columns."""
    single = U(1) << np.arange(64, dtype=U)
    zero = np.zeros(64, dtype=U)
    return np.array([np.concatenate([single, zero]), np.concatenate([zero, single])])


@cache
def small_keys() -> Words64:
    """Return the keys with both halves below 16, as columns."""
    low = np.arange(256, dtype=U)
    return np.array([low >> U(4), low & U(15)])


@cache
def offset_keys() -> Words64:
    """Return 16 keys whose first halves are steps of one sequence and whose second halves count, as
    columns.
    """
    count = np.arange(16, dtype=U)
    return np.array([count * U(STEP), count])


def _diagonal(i: Words64) -> Coordinates:
    """Take (t, HOP + 1), then (t + 1, HOP): the trap of one counter for both."""
    odd = i & U(1)
    return K0, K1, (i >> U(1)) + odd, U(HOP + 1) - odd


def _counted_k0(i: Words64) -> Coordinates:
    return i, _is(0), _is(0), _is(HOP)


def _counted_k1(i: Words64) -> Coordinates:
    return _is(0), i, _is(0), _is(HOP)


ORDERS: dict[str, Order] = {
    order.name: order
    for order in (
        Order("steps", "the proposals of one walker, step after step", 1, _steps_of(HOP)),
        Order("jumps", "the jump words of one walker, step after step", 1, _steps_of(JUMP)),
        Order(
            "slots", "2^20 slots of a step, as a long jump reads them", 1 << 20, _slots_of(20, JUMP)
        ),
        Order("steps and slots", "jump word and three hops of each step", 4, _slots_of(2, JUMP)),
        Order("diagonal", "slot s + 1 of step t and slot s of step t + 1", 2, _diagonal),
        Order("minibatches", "32 local samples of each step", 32, _slots_of(5, MINIBATCH)),
        Order(
            "walkers",
            "1024 adjacent walkers at each step",
            1 << WALKERS,
            _keys_of(walkers, WALKERS),
        ),
        Order("seeds", "256 adjacent seeds at each step", 1 << SEEDS, _keys_of(seeds, SEEDS)),
        Order("domains", "all eight domains at each step", 8, _keys_of(domains, 3)),
        Order("steps at 2^32", "steps across 2^32", 1, _steps_of(HOP, 2**32 - 2**17)),
        Order("steps at 2^53", "steps across 2^53", 1, _steps_of(HOP, 2**53 - 2**17)),
        Order("small keys", "256 keys with both halves below 16", 256, _keys_of(small_keys, 8)),
        Order("one-bit keys", "the 128 keys with one bit set", 128, _keys_of(one_bit_keys, 7)),
        Order(
            "offset keys",
            "first halves of keys that are steps of each other",
            16,
            _keys_of(offset_keys, 4),
        ),
        Order("counted k0", "one word each of keys (0, 0), (1, 0), (2, 0), …", 1, _counted_k0),
        Order(
            "counted k1",
            "one word each of keys (0, 0), (0, 1), (0, 2), …",
            1,
            _counted_k1,
            claimed=False,
        ),
    )
}
CLAIMED = {name: order for name, order in ORDERS.items() if order.claimed}
