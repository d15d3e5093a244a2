"""SAG, SAGA and Point-SAGA for a group of walkers in parallel, along walks that are already known.

How a model walks does not depend on its numbers, so the walk of a piece is made first, by the loops
that exist for it, and this loop updates the models along it. It knows nothing of walks, and a walk
nothing of it. Groups of walkers are in the lanes of a register as in
`levywalk.engine.kernels.walkers`, and sums have the order of `levywalk.engine.kernels.rows`: a
replica's numbers depend neither on the number of replicas nor on the machine.

A walker has a slot of two rows: its model x and the sum S of all stored gradients. A node keeps one
slope per sample and replica, in the memory of the run itself; each replica's slopes are contiguous,
because walkers of one group are at different nodes, and a walk is local. All three updates are

    x ← x shrink + p S + c a,    S ← S + e a

with the node's features a (with many samples, Σ e_s a_s), e = φ' - its stored value, p = -γ/n, and

===========  ==================================  ================
`SAG`        c = -γ e/n                          shrink = 1 - γρ
`SAGA`       c = -γ w(v) e                       shrink = 1 - γρ
`POINT`      c = -γ e/(1 + γρ), p = -γ/n/(1+γρ)  1/(1 + γρ)
===========  ==================================  ================

Point-SAGA takes φ' at the proximal point; with one sample that is the root of a scalar equation.

A model that overflows keeps its last finite value. Bounds of |x| and |S| say when one may: then,
and only then, the model before the update is kept until the new one is known to be finite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from levywalk.arrays import Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.rows import HEAD, row_add, row_dot, row_totals
from levywalk.engine.kernels.sigmoid import sigmoid
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.sum_rows import sum_add, sum_advance, sum_dots
from levywalk.engine.kernels.tables import aligned_rows
from levywalk.engine.kernels.vectors import (
    LINE,
    bits,
    choose,
    from_bits,
    load,
    lowest,
    multiply_add,
    pick,
    pick_two,
    prefetch,
    put,
    store,
    which,
)
from levywalk.engine.kernels.walkers import ASKED, MANY, ONE, SAMPLES, TARGET, WEIGHT
from levywalk.engine.kernels.words import BIT, LOW, S32

SAG, SAGA, POINT = 0, 1, 2
SQUARE = WEIGHT  # Point-SAGA has no weights: ‖a‖² is in their place

_FAR = 1e290  # above this bound a model may overflow in one step
_ROOT = 60  # steps towards a root at most, as in `levywalk.updates.linear`
_NEAR = 4e-6  # a step below this share is the last one: its cube is below rounding
_MAGNITUDE = np.uint64(0x7FFFFFFFFFFFFFFF)


class TableRows(NamedTuple):
    """The replicas' state, which the loop changes in place."""

    scale: Floats
    active: Bools
    model: Floats
    sums: Floats
    slopes: Floats  # (replicas, samples)
    diverged_at: Ints
    walk: Ints32  # (replicas, steps of the piece): the node of each update


class NodeData(NamedTuple):
    """Samples and weights, packed as in `levywalk.engine.kernels.tables`."""

    nodes: Floats
    heads: Words64  # the same memory, read as words
    samples: Floats
    lines: int
    ridge: float
    n: float
    most: float  # the largest |feature|
    batch: int  # walkers that take turns


class TableScratch(NamedTuple):
    """The current batch; every array begins at a cache line."""

    node: Words64
    where: Words64  # the place of each walker's slope, or of its first one
    first: Words64  # the place of each walker's slopes of node 0
    scale: Floats
    slots: Floats  # two rows for each walker
    reach: Floats  # bounds of |x| …
    sums: Floats  # … and of |S|
    saved: Floats  # models before an update that may overflow
    gradient: Floats
    partials: Floats
    lanes: Floats  # four rows, of a number for each walker of the group
    terms: Words64


def table_scratch(data: NodeData, width: int) -> TableScratch:
    """Return the buffers of one call of the loop."""
    batch, row = 1 if width == 1 else data.batch, data.lines * LINE

    def aligned(count: int) -> Floats:
        return aligned_rows(1, count).reshape(-1)

    def words(count: int) -> Words64:
        return aligned(count).view(np.uint64)

    return TableScratch(
        words(batch),
        words(batch),
        words(batch),
        aligned(batch),
        aligned(batch * 2 * row),
        aligned(batch),
        aligned(batch),
        aligned(LINE * row),
        aligned(LINE * row),
        aligned(4 * LINE),
        aligned(4 * LINE),
        words(2 * LINE),
    )


@njit(inline="always")
def magnitude(z):  # type: ignore[no-untyped-def]
    """Return |z| in lanes."""
    return from_bits(bits(z) & _MAGNITUDE)


@njit(inline="always")
def proximal_logistic(centre, gain, target, old, done, every):  # type: ignore[no-untyped-def]
    """Return φ' at the root u of u - centre + gain (σ(u) - y) = 0, in lanes.

    Chebyshev's method (Newton's with the next term, so errors are cubed) from where the stored
    slope ``old`` would put the root, and bisection where it leaves the interval that holds it. A
    lane that is done rests, so its bits do not depend on the others; ``every`` is the mask of all
    lanes.
    """
    high = multiply_add(gain, target, centre)
    low = high - gain
    u = multiply_add(gain * -1.0, old, centre)
    slope = old
    last = gain
    for _ in range(_ROOT):
        sigma = sigmoid(u)
        fresh = sigma - target
        bend = sigma * (1.0 - sigma)
        turn = bend * multiply_add(sigma, -1.0, 0.5)  # φ'''/2
        value = multiply_add(gain, fresh, u - centre)
        high, low = choose(value > 0.0, u, high), choose(value > 0.0, low, u)
        flat = 1.0 / multiply_add(gain, bend, 1.0)
        step = value * flat
        following = u - multiply_add(step * step, gain * turn * flat, step)
        # Between two flat ends steps can go to and fro inside the interval, so they must halve.
        inside = (following >= low) & (following <= high)
        inside = inside & (magnitude(following - u) <= last * 0.5)
        following = choose(inside, following, (low + high) * 0.5)
        # Taylor's series gives φ' at the new point to the last digit, once the step is small.
        move = following - u
        last = magnitude(move)
        slope = choose(done, slope, multiply_add(multiply_add(turn, move, bend), move, fresh))
        near = inside & (magnitude(step) <= magnitude(u) * _NEAR + _NEAR)
        u = choose(done, u, following)
        done = done | near
        if which(done) == every:
            break
    return slope


@cache
def compiled_tables(
    rule: int,
    kind: int,
    width: int,
    chunk: int,
    lines: int,
    logistic: bool,
    ridge: bool,
    far: bool,
) -> Callable[..., None]:
    """Return the loop for an update and the cases of `walkers.compiled_walkers`.

    It is one function for the reason given there.
    """
    RULE, KIND, WIDTH, CHUNK, LINES, TAG = rule, kind, width, chunk, lines, source_tag()
    LOGISTIC, RIDGE, FAR = logistic, int(ridge), far
    ALL = np.uint64((1 << width) - 1)
    PULLED = int(rule == POINT)
    # Rows of `scratch.lanes` and `scratch.terms`
    FRESH, STEPS, CHANGES, SHRINKS = (np.uint64(row * LINE) for row in range(4))
    COUNTS, AT = np.uint64(0), np.uint64(LINE)

    @kernel()
    def gradient_tables(
        rows: Any, seen: Any, start: int, marks: Any, data: Any, step_sizes: Any, scratch: Any
    ) -> None:
        _ = TAG
        nodes, heads, samples = data.nodes, data.heads, data.samples
        ridge, most, per_node = data.ridge, data.most, -1.0 / data.n
        walk, slopes, each = rows.walk, rows.slopes.reshape(-1), rows.slopes.shape[1]
        many_sizes = len(step_sizes) > 1
        dim = rows.model.shape[1]
        lines = np.uint64(LINES if LINES > 0 else data.lines)
        length = lines * np.uint64(LINE)
        stride = length if KIND == ONE else np.uint64(HEAD)
        both = np.int64(length) * 2
        node, where, first, scale = scratch.node, scratch.where, scratch.first, scratch.scale
        slots, reach, sums, saved = scratch.slots, scratch.reach, scratch.sums, scratch.saved
        gradient, partials = scratch.gradient, scratch.partials
        lanes, terms = scratch.lanes, scratch.terms
        batch, last = len(node), marks[-1] - start - 1

        for begin in range(0, len(rows.active), batch):
            size = min(batch, len(rows.active) - begin)
            for w in range(size):
                r, slot = begin + w, w * both
                scale[w] = rows.scale[r] if rows.active[r] else 0.0
                first[w] = np.uint64(r * each)
                for j in range(both):
                    slots[slot + j] = 0.0
                reach[w] = sums[w] = 0.0
                for j in range(dim):
                    slots[slot + HEAD + j] = rows.model[r, j]
                    reach[w] = max(reach[w], abs(rows.model[r, j]))
                    if rows.active[r]:  # the sum of a model that has overflowed means nothing
                        slots[slot + both // 2 + HEAD + j] = rows.sums[r, j]
                        sums[w] = max(sums[w], abs(rows.sums[r, j]))
            step_size = step_sizes[0]
            mark = 0

            for t in range(start, marks[-1]):
                column = t - start
                now, soon = np.uint64(column), np.uint64(min(column + 1, last))
                if many_sizes:
                    step_size = step_sizes[column]
                for group in range(0, size, WIDTH):
                    i = np.uint64(group)
                    for lane in range(WIDTH):
                        me = i + np.uint64(lane)
                        here = np.uint64(walk[np.uint64(begin) + me, now])
                        node[me] = here
                        if KIND == ONE:
                            where[me] = first[me] + here
                        else:
                            word = heads[here * stride + np.uint64(SAMPLES)]
                            where[me] = first[me] + (word >> S32)
                            terms[COUNTS + np.uint64(lane)] = word & LOW
                            terms[AT + np.uint64(lane)] = (word >> S32) * length
                        # The next node is known, so its data can be here when they are needed.
                        there = np.uint64(walk[np.uint64(begin) + me, soon])
                        if KIND == ONE:
                            prefetch(slopes, first[me] + there)
                        if FAR:
                            asked = min(int(lines), ASKED) if KIND == ONE else 1
                            for line in range(asked):
                                prefetch(nodes, there * stride + np.uint64(line * LINE))
                    at, place = load(node, i, WIDTH), load(where, i, WIDTH)
                    rate = load(scale, i, WIDTH)
                    living = rate > 0.0
                    gamma = rate * step_size
                    pull = gamma * per_node
                    if not RIDGE:
                        shrink = rate
                    elif RULE == POINT:
                        shrink = 1.0 / multiply_add(gamma, ridge, 1.0)
                    else:
                        shrink = choose(living, multiply_add(gamma, ridge * -1.0, 1.0), 1.0)

                    if KIND == ONE:
                        z = sum_dots(nodes, node, slots, i, pull, lines, PULLED, LINES, CHUNK)
                        target, weight = pick_two(nodes, node, i, at, stride)
                        square = weight  # of Point-SAGA: see `SQUARE`
                        old = pick(slopes, where, i, place, 1, 0)
                        if RULE == POINT:
                            z = multiply_add(gamma * old, square, z)
                            gain = gamma * square
                            if RIDGE:
                                z, gain = z * shrink, gain * shrink
                            if LOGISTIC:
                                still = rate <= 0.0
                                slope = proximal_logistic(z, gain, target, old, still, ALL)
                            else:
                                slope = (z - target) * 2.0 / multiply_add(gain, 2.0, 1.0)
                        elif LOGISTIC:
                            slope = sigmoid(z) - target
                        else:
                            slope = (z - target) * 2.0
                        change = choose(living, slope - old, 0.0)
                        put(slopes, where, i, choose(living, slope, old))
                        if RULE == SAG:
                            step = pull * change
                        elif RULE == SAGA:
                            step = gamma * weight * change * -1.0
                        else:
                            step = gamma * change * -1.0
                        if RULE == POINT and RIDGE:
                            step, pull = step * shrink, pull * shrink
                        size_of = magnitude(change)
                    else:
                        size_of = rate * 0.0
                        longest = BIT
                        for lane in range(WIDTH):
                            longest = max(longest, terms[COUNTS + np.uint64(lane)])
                        for j in range(WIDTH * np.int64(length)):
                            gradient[j] = 0.0
                        for s in range(longest):
                            for lane in range(WIDTH):
                                me = np.uint64(lane)
                                a = terms[AT + me]
                                if s < terms[COUNTS + me]:
                                    a += s * length
                                x = (i + me) * np.uint64(both)
                                four = row_dot(samples, a, slots, x, lines, LINES, CHUNK)
                                store(partials, np.uint64(lane * 4), four)
                                lanes[CHANGES + me] = samples[a + np.uint64(TARGET)]
                            z = row_totals(partials, 0, WIDTH)
                            target = load(lanes, CHANGES, WIDTH)
                            if LOGISTIC:
                                store(lanes, FRESH, sigmoid(z) - target)
                            else:
                                store(lanes, FRESH, (z - target) * 2.0)
                            for lane in range(WIDTH):
                                me = np.uint64(lane)
                                lanes[CHANGES + me] = 0.0
                                if s < terms[COUNTS + me] and scale[i + me] > 0.0:
                                    fresh = lanes[FRESH + me]
                                    more = fresh - slopes[where[i + me] + s]
                                    slopes[where[i + me] + s] = fresh
                                    lanes[CHANGES + me] = more
                                    a, g = terms[AT + me] + s * length, me * length
                                    row_add(
                                        gradient, g, samples, a, more, 1.0, lines, 0, LINES, CHUNK
                                    )
                            size_of = size_of + magnitude(load(lanes, CHANGES, WIDTH))
                        for lane in range(WIDTH):
                            me = np.uint64(lane)
                            share = 1.0 / np.float64(terms[COUNTS + me])
                            lanes[CHANGES + me] = share
                            weight = nodes[node[i + me] * stride + np.uint64(WEIGHT)]
                            factor = per_node if RULE == SAG else weight * -1.0
                            lanes[STEPS + me] = scale[i + me] * step_size * factor * share
                        change = load(lanes, CHANGES, WIDTH)
                        step = load(lanes, STEPS, WIDTH)

                    # Bounds of |x| and |S| after the update
                    bound = load(sums, i, WIDTH)
                    further = magnitude(step) * most
                    if KIND == MANY:
                        further = further * size_of
                    further = multiply_add(magnitude(pull), bound, further)
                    if RIDGE:
                        further = multiply_add(magnitude(shrink), load(reach, i, WIDTH), further)
                    else:
                        further = further + load(reach, i, WIDTH)
                    store(reach, i, further)
                    store(sums, i, multiply_add(size_of, most, bound))
                    risky = ALL & ~which(further < _FAR)
                    if risky > 0:
                        for lane in range(WIDTH):
                            own = (group + lane) * both
                            for j in range(np.int64(length)):
                                saved[lane * np.int64(length) + j] = slots[own + j]

                    if KIND == ONE:
                        sum_advance(
                            nodes, node, slots, i, step, pull, change, shrink, lines, RIDGE, LINES,
                            CHUNK,
                        )  # fmt: skip
                    else:
                        store(lanes, SHRINKS, shrink)
                        store(lanes, FRESH, pull)
                        for lane in range(WIDTH):
                            me = np.uint64(lane)
                            x, g = (i + me) * np.uint64(both), me * length
                            sum_add(
                                slots, x, gradient, g, lanes[STEPS + me], lanes[FRESH + me],
                                lanes[CHANGES + me], lanes[SHRINKS + me], lines, RIDGE, LINES,
                                CHUNK,
                            )  # fmt: skip

                    while risky > 0:
                        which_one = np.int64(lowest(risky))
                        risky &= risky - BIT
                        risen, own = group + which_one, (group + which_one) * both
                        finite = True
                        reach[risen] = sums[risen] = 0.0
                        for j in range(np.int64(length)):
                            finite &= np.isfinite(slots[own + j])
                            reach[risen] = max(reach[risen], abs(slots[own + j]))
                            sums[risen] = max(sums[risen], abs(slots[own + np.int64(length) + j]))
                        if not finite:
                            reach[risen] = sums[risen] = scale[risen] = 0.0
                            rows.active[begin + risen] = False
                            rows.diverged_at[begin + risen] = t
                            for j in range(np.int64(length)):
                                slots[own + j] = saved[which_one * np.int64(length) + j]
                                slots[own + np.int64(length) + j] = 0.0

                if t + 1 == marks[mark]:
                    for w in range(size):
                        r, own = begin + w, w * both + HEAD
                        seen.active[r, mark] = rows.active[r]
                        for j in range(dim):
                            seen.model[r, mark, j] = slots[own + j]
                    mark += 1

            for w in range(size):
                r, own = begin + w, w * both + HEAD
                for j in range(dim):
                    rows.model[r, j] = slots[own + j]
                    rows.sums[r, j] = slots[own + both // 2 + j]

    return gradient_tables
