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

from levywalk.draws import (
    HOP,
    JUMP,
    MINIBATCH,
    MIX_1,
    MIX_2,
    OWN,
    PASS,
    SLOT,
    STEP,
    Domain,
    Key,
    keys,
)

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
    a = mix64(k0 ^ mix64(k1 + U(STEP)))
    return unexpanded(a, mix64(k1 ^ mix64(a + U(SLOT))), step, slot)


def unexpanded(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Hash as levywalk does with the key as it is, not scrambled: what the claim does not cover."""
    z = ((_round(k0 + step * U(STEP), 30, MIX_1)) ^ k1) + slot * U(0)
    z = _round(z, 27, MIX_2)
    step_hash = z ^ (z >> U(31))
    return np.where(slot == U(0), step_hash, mix64(step_hash + slot * U(SLOT)))


def _round(z: Words64, shift: int, factor: int) -> Words64:
    found: Words64 = (z ^ (z >> U(shift))) * U(factor)
    return found


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


def jump_of_one_half(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Use one half of the key for jump words alone; the other words are levywalk's."""
    flawed = mix64(k0 + step * U(STEP)) + slot * U(0)
    return np.where(slot == U(JUMP), flawed, levywalk(k0, k1, step, slot))


def jump_of_a_sum(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Only xor the second half of the key to jump words; the other words are levywalk's."""
    flawed = (mix64(k0 + step * U(STEP)) ^ k1) + slot * U(0)
    return np.where(slot == U(JUMP), flawed, levywalk(k0, k1, step, slot))


def jump_is_the_hop(k0: Words64, k1: Words64, step: Words64, slot: Words64) -> Words64:
    """Make the hop's word of the jump's by one multiplication; the others are levywalk's."""
    jump = levywalk(k0, k1, step, slot * U(0))
    return np.where(slot == U(HOP), jump * U(MIX_1), levywalk(k0, k1, step, slot))


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
    for scheme in (
        shared_counter,
        one_half,
        one_multiply,
        half_mixed,
        jump_of_one_half,
        jump_of_a_sum,
        jump_is_the_hop,
        weyl,
        lcg,
        xorshift,
    )
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


def _keys_of(table: Callable[[], Words64], slot: int = HOP) -> Callable[[Words64], Coordinates]:
    """Go through the keys of a table at a step, then the next step."""

    def at(i: Words64) -> Coordinates:
        k0, k1 = table()
        row = (i % U(len(k0))).astype(np.int64)
        return k0[row], k1[row], i // U(len(k0)), _is(slot)

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


def _counted_k0(slot: int) -> Callable[[Words64], Coordinates]:
    return lambda i: (i, _is(0), _is(0), _is(slot))


def _counted_k1(slot: int) -> Callable[[Words64], Coordinates]:
    return lambda i: (_is(0), i, _is(0), _is(slot))


def _of_both(
    name: str, claim: str, width: int, at: Callable[[int], Callable[[Words64], Coordinates]]
) -> tuple[Order, Order]:
    """Return an order over several keys, for proposals and for jump words."""
    return (
        Order(name, claim, width, at(HOP)),
        Order(f"{name}, jumps", f"{claim}: the jump words", width, at(JUMP)),
    )


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
        Order("jump beside hop", "jump word and proposal of each step", 2, _slots_of(1, JUMP)),
        Order("own slots", "32 slots of methods of one's own, each step", 32, _slots_of(5, OWN)),
        Order("passes", "the hashes of 32 passes of each step", 32, _slots_of(5, PASS + 1)),
        *_of_both(
            "walkers",
            "1024 adjacent walkers at each step",
            1 << WALKERS,
            lambda slot: _keys_of(walkers, slot),
        ),
        *_of_both(
            "seeds",
            "256 adjacent seeds at each step",
            1 << SEEDS,
            lambda slot: _keys_of(seeds, slot),
        ),
        *_of_both(
            "domains",
            "all domains at each step",
            len(Domain),
            lambda slot: _keys_of(domains, slot),
        ),
        Order("steps at 2^32", "steps across 2^32", 1, _steps_of(HOP, 2**32 - 2**17)),
        Order("steps at 2^53", "steps across 2^53", 1, _steps_of(HOP, 2**53 - 2**17)),
        *_of_both(
            "small keys",
            "256 keys with both halves below 16",
            256,
            lambda slot: _keys_of(small_keys, slot),
        ),
        *_of_both(
            "one-bit keys",
            "the 128 keys with one bit set",
            128,
            lambda slot: _keys_of(one_bit_keys, slot),
        ),
        *_of_both(
            "offset keys",
            "first halves of keys that are steps of each other",
            16,
            lambda slot: _keys_of(offset_keys, slot),
        ),
        *_of_both("counted k0", "one word each of keys (0, 0), (1, 0), (2, 0), …", 1, _counted_k0),
        *_of_both("counted k1", "one word each of keys (0, 0), (0, 1), (0, 2), …", 1, _counted_k1),
    )
}
CLAIMED = {name: order for name, order in ORDERS.items() if order.claimed}
