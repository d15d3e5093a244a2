"""Many walkers at once: `levywalk.engine.reference` for a group of walkers in parallel.

A single chain has to wait for the dot product before the next update, and for the neighbour before
the next node. With several chains in the lanes of one register (`levywalk.engine.kernels.vectors`),
and a few such groups in turn, the processor does not have to wait. How many walkers a group has
depends on the machine (`levywalk.engine.kernels.machine`). A step of a group has the following
parts, with no branch that depends on a random draw except rare ones:

1. the words of the step, in lanes;
2. the update: dot products along the features (`levywalk.engine.kernels.rows`), the slopes of the
   losses in lanes, and each model moves along its node's features;
3. the move: a proposal in lanes, which is accepted if a part of its word is below the edge's
   threshold, or if the walker jumps. The second and third hop of a jump, and the one decision in
   2^32 that the 32 bits of the threshold do not settle, are made for single walkers. Where the
   tables are in memory, a jump goes on while other groups take their turns.

While a group takes its turn, the words and the proposal of another one are prepared, which comes
half a round later: its edge has then arrived when it is read.

The same source with ``width=1`` advances the walkers that do not fill a group, for example a single
chain. Sums are added in the same order for every width, so a replica's numbers depend neither on
the number of replicas nor on the machine.

There are three layouts of a node; the layout is chosen at compile time:

========  ==========================================================================================
`WALK`    no model: the place of the node (first edge and degree in one word)
`ONE`     one sample: target, weight w(v), ratio t_v/d_v, place and features in one record of whole
          cache lines
`MANY`    many samples: where they are, weight, ratio and place; the samples are in rows of target
          and features
========  ==========================================================================================

An edge is one word: the neighbour and the upper 32 bits of its acceptance probability.

`walkers` is one long function, and `compiled_walkers` contains it, for the reason that
`levywalk.engine.kernels.loop` gives; the file is long because of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from levywalk.arrays import AnyArray, Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.rows import (
    HEAD,
    advance,
    dots,
    held_advance,
    held_dot,
    row_add,
    row_dot,
    row_totals,
)
from levywalk.engine.kernels.sigmoid import sigmoid
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.vectors import (
    LINE,
    below,
    choose,
    forget,
    load,
    lowest,
    multiply_add,
    only,
    pick,
    pick_two,
    prefetch,
    real,
    settled,
    store,
    which,
)
from levywalk.engine.kernels.words import (
    BIT,
    HOP,
    LOW,
    MINIBATCH,
    S11,
    S32,
    STEP,
    ULP,
    divide,
    hash_at,
    propose,
    slot_word,
    step_hash,
    unit,
)

WALK, ONE, MANY = 0, 1, 2
NEAR, MIDDLE, FAR = 0, 1, 2  # where the tables are: in a fast cache, in a slow one, in memory
# Up to so many lines of a record are prefetched; the hardware itself prefetches further lines that
# are read in order.
ASKED = 4

# The head of a record, before the features; the layout `WALK` has only the place.
TARGET, WEIGHT, RATIO, PLACE = range(HEAD)  # the first two are read together
SAMPLES = TARGET  # of many samples: the first and how many, in one word

# What a walker has of its own, in rows of one array: a loop that needs many addresses at once has
# too few registers for them, and these differ by constants. The rows are its node, its transfers,
# hops, the halves of its expanded key, and what was prepared for its next decision while other
# walkers take their turn: the hash of the step, the proposal's fraction, and the edge proposed.
MOST = 64  # walkers that take turns
_OWN_ROWS = 8
NODE, MOVES, HOPS, HALF, OTHER, HASHED, CHANCE, PROPOSED = (
    np.uint64(row * MOST) for row in range(_OWN_ROWS)
)

_HELD = 3  # lines up to which a single walker's model stays in registers

_NEVER, _SURE = np.uint64(0), np.uint64(1 << 32)  # below and above every fraction
_ALL = np.uint64(2**64 - 1)


class Rows(NamedTuple):
    """The state of the replicas, which is only read.

    Visits and walk are written, and have no columns if they are not recorded.
    """

    keys: Words64
    scale: Floats
    active: Bools
    node: Ints
    model: Floats  # no columns for the walk alone
    hops: Ints
    transfers: Ints
    visits: Ints
    walk: Ints32


class Diary(NamedTuple):
    """Further records of a walk without a model.

    First visits and the observable have no columns if they are not recorded.
    """

    first_visit: Ints  # (replicas, n): the step, -1 before
    dwell: bool  # whether to record the stays
    previous: Ints  # (replicas,): the node of the step before, -1 before the first
    stay: Ints  # steps of the current stay
    stays: Ints
    longest: Ints
    longest_at: Ints
    observable: Floats  # (n,)
    total: Floats  # (replicas,): the observable's sum so far
    square: Floats  # (replicas,): the sum of its squares so far
    totals: Floats  # (replicas, marks): the sum at the marks


class Tables(NamedTuple):
    """Network, data and design, packed."""

    nodes: Floats
    heads: Words64  # the same memory as `nodes`, read as words
    places: Words64  # a copy of every node's place, in a separate array
    ratios: Floats  # the same memory as `nodes`; a separate array for the layout WALK
    edges: Words64
    neighbours: AnyArray  # the same neighbours without thresholds, 32 bits each
    samples: Floats  # MANY: rows of target and features
    lines: int  # length of a record or a sample, divided by eight
    minibatch: Any  # a word; 0: all of a node's samples
    ridge: float
    keep: Floats  # alias table of i.i.d. sampling, empty for a walk
    other: Words64
    batch: int  # walkers that take turns


class StepParameters(NamedTuple):
    """Step sizes and jump probabilities of the current steps: one number, or one per step."""

    step_sizes: Floats
    p_jumps: Floats  # empty without a jump law
    distances: Floats  # cumulative law of the jump's distance
    first: int = 0  # the step of the recorded walk's first column


class Scratch(NamedTuple):
    """The current batch: private copies, so that no two threads write into the same cache line.

    Loading and storing lanes that cross two cache lines takes twice as long, so every array begins
    at a cache line.
    """

    own: Words64  # a row of `MOST` words for each of `NODE`, `MOVES`, …
    scale: Floats  # 0: the model has overflowed before and is frozen
    model: Floats
    cuts: Words64
    # Buffers of one group, to exchange numbers between lanes and single walkers.
    gradient: Floats
    partials: Floats
    slopes: Floats
    lanes: Words64  # rows of a number for each walker of the group
    # Records of a walk without a model.
    previous: Words64
    longest_at: Words64
    stays: Ints  # three rows: the current stay, stays, and the longest
    totals: Floats  # two rows: the observable's sum and the sum of its squares


def scratch(tables: Tables, step_parameters: StepParameters, width: int) -> Scratch:
    """Return the buffers of one call of the loop; walkers that are not in a group go one by one."""
    batch, row = 1 if width == 1 else tables.batch, tables.lines * LINE

    def words(count: int) -> Words64:
        return _aligned(count).view(np.uint64)

    return Scratch(
        own=words(_OWN_ROWS * MOST),
        scale=_aligned(batch),
        model=_aligned(batch * row),
        cuts=np.zeros(max(len(step_parameters.distances), 1), np.uint64),
        gradient=_aligned(LINE * row),
        partials=_aligned(4 * LINE),
        slopes=_aligned(LINE),
        lanes=words(LINE * LINE),
        previous=words(batch),
        longest_at=words(batch),
        stays=np.zeros((3, batch), np.int64),
        totals=np.zeros((2, batch)),
    )


def _aligned(count: int) -> Floats:
    """Return zeros that begin at a cache line."""
    raw = np.zeros(count + LINE)
    shift = (-(raw.ctypes.data // 8)) % LINE
    return raw[shift : shift + count]


def lines_of(dim: int) -> int:
    """Return how many cache lines a record of head and features takes."""
    return -(-(dim + HEAD) // LINE)


@cache
def compiled_walkers(
    kind: int,
    width: int,
    chunk: int,
    lines: int,
    logistic: bool,
    ridge: bool,
    iid: bool,
    reach: int,
) -> Callable[..., None]:
    """Return the loop for a layout, a number of walkers side by side, numbers per instruction,
    lines of a record (0: any) and a loss.

    ``reach`` is `NEAR`, `MIDDLE` or `FAR`; beyond near, cache lines are prefetched.

    It is one long function because numba compiles such a loop well only if it is not split
    into functions: passing arrays to them costs more than the update itself.
    """
    KIND, WIDTH, CHUNK, LINES, TAG = kind, width, chunk, lines, source_tag()
    LOGISTIC, RIDGE, IID = logistic, int(ridge), iid
    FETCH_EDGES, FETCH_NODES = reach > NEAR, reach == FAR
    # Single walkers wait for the place first, so they read it from a separate array, which is
    # smaller than the records.
    APART = kind == WALK or width == 1
    AT_PLACE, AT_RATIO = 0 if APART else PLACE, 0 if kind == WALK else RATIO
    # A single walker's next step waits for this one: its node stays in a register, and so does a
    # short model, because a number takes longer through memory.
    ALONE = width == 1
    HELD = ALONE and kind == ONE and 0 < lines <= _HELD
    NUMBERS = lines * LINE
    # Several groups take turns, so a group's proposal is prepared half a round before its turn: the
    # edge has then arrived when it is read. No decision waits for words either.
    AHEAD = width > 1 and not iid
    # A single walker whose edges come from a slow cache looks up its next proposal twice, for the
    # node where it is and for the one where it may go, before it knows which of them it needs.
    BOTH = ALONE and not iid and reach == MIDDLE
    # Where the tables are in memory, the further hops of a jump are made while other groups take
    # their turns, one read after the other, each asked for before.
    LATER = AHEAD and reach == FAR
    GROUP = np.uint64((1 << width) - 1)
    # Rows of `scratch.lanes`
    AT, CHANCES, JUMPS, HASHES, FIRST, COUNTS, TERMS = (np.uint64(row * LINE) for row in range(7))

    @kernel()
    def walkers(
        rows: Any,
        seen: Any,
        start: int,
        marks: Any,
        tables: Any,
        step_parameters: Any,
        diary: Any,
        scratch: Any,
    ) -> None:
        _ = TAG
        nodes, heads, ratios = tables.nodes, tables.heads, tables.ratios
        edges, samples, neighbours = tables.edges, tables.samples, tables.neighbours
        places = tables.places if APART else heads
        keep, other = tables.keep, tables.other
        minibatch, ridge = tables.minibatch, tables.ridge
        step_sizes, p_jumps, distances = (
            step_parameters.step_sizes,
            step_parameters.p_jumps,
            step_parameters.distances,
        )
        many_sizes, many_jumps, jumps = len(step_sizes) > 1, len(p_jumps) > 1, len(p_jumps) > 0
        first_column = step_parameters.first
        visits, walk = rows.visits, rows.walk
        count_visits, keep_walk = visits.shape[1] > 0, walk.shape[1] > 0
        # Whether something after a step needs all its hops: a record, or another law of jumps
        looked_at = count_visits or keep_walk or many_jumps
        dim = rows.model.shape[1]
        lines = np.uint64(LINES if LINES > 0 else tables.lines)
        length = lines * np.uint64(LINE)
        if KIND == WALK:
            stride = BIT
        elif KIND == ONE:
            stride = length
        else:
            stride = np.uint64(HEAD)
        spread = BIT if APART else stride  # distance between two places
        asked = min(int(lines), ASKED) if KIND == ONE else 1  # lines of a record to prefetch

        own, scale = scratch.own, scratch.scale
        node = own  # its first row
        model, cuts, lanes = scratch.model, scratch.cuts, scratch.lanes
        gradient, partials, slopes = scratch.gradient, scratch.partials, scratch.slopes
        batch, last = 1 if ALONE else tables.batch, len(cuts) - 1
        if KIND == WALK:
            first_visit, observable = diary.first_visit, diary.observable
            note_first, note_dwell = first_visit.shape[1] > 0, diary.dwell
            note_total = len(observable) > 0
            looked_at = looked_at or note_first or note_dwell or note_total
            previous, longest_at = scratch.previous, scratch.longest_at
            stays, totals = scratch.stays, scratch.totals

        for begin in range(0, len(rows.node), batch):
            size = 1 if ALONE else min(batch, len(rows.node) - begin)
            for w in range(size):
                r = begin + w
                node[w] = np.uint64(rows.node[r])
                at = np.uint64(w)
                own[HALF + at], own[OTHER + at] = rows.keys[r, 0], rows.keys[r, 1]
                scale[w] = rows.scale[r] if rows.active[r] else 0.0
                own[HOPS + at] = np.uint64(rows.hops[r])
                own[MOVES + at] = np.uint64(rows.transfers[r])
                if KIND == WALK:
                    previous[w] = np.uint64(diary.previous[r])
                    longest_at[w] = np.uint64(diary.longest_at[r])
                    stays[0, w], stays[1, w] = diary.stay[r], diary.stays[r]
                    stays[2, w] = diary.longest[r]
                    totals[0, w], totals[1, w] = diary.total[r], diary.square[r]
                else:
                    # Clear the whole slot: a model that has overflowed there may have left NaN next
                    # to its features.
                    slot = w * np.int64(length)
                    for j in range(np.int64(length)):
                        model[slot + j] = 0.0
                    for j in range(dim):
                        model[slot + HEAD + j] = rows.model[r, j]
            step_size = step_sizes[0]
            mark = 0
            if ALONE:
                v = load(node, 0, WIDTH)
                half, other_half = load(own, HALF, WIDTH), load(own, OTHER, WIDTH)
                rate = load(scale, 0, WIDTH)
            if BOTH:
                h = hash_at(half, other_half, np.uint64(start) * STEP)
                place = pick(places, node, 0, v, spread, AT_PLACE)
                index, fraction = divide(slot_word(h, HOP), place & LOW)
                u = pick(neighbours, node, 0, (place >> S32) + index, 1, 0)
            if HELD:
                held = load(model, 0, NUMBERS)
            # Walkers with further hops to make, walker w as bit w: who has just come to a node,
            # whose place was asked for, and whose edge was
            fresh = place_asked = edge_asked = _NEVER
            end = np.uint64(size)
            lead = np.uint64(size // WIDTH // 2 * WIDTH)
            if AHEAD:
                for first in range(0, size // WIDTH // 2 * WIDTH, WIDTH):
                    i = np.uint64(first)
                    h = step_hash(
                        load(own, HALF + i, WIDTH), load(own, OTHER + i, WIDTH), np.uint64(start)
                    )
                    place = pick(places, node, i, load(node, i, WIDTH), spread, AT_PLACE)
                    total, proposed = propose(slot_word(h, HOP), place)
                    store(own, HASHED + i, h)
                    store(own, CHANCE + i, total)
                    store(own, PROPOSED + i, proposed)

            for t in range(start, marks[-1]):
                if many_sizes:
                    step_size = step_sizes[t - start]
                if jumps and (many_jumps or t == start):
                    p_jump = p_jumps[t - start] if many_jumps else p_jumps[0]
                    for d in range(len(distances)):
                        cuts[d] = np.uint64(np.ceil(p_jump * distances[d] / ULP))
                if count_visits:
                    for w in range(size):
                        visits[begin + w, node[w]] += 1
                if keep_walk:
                    for w in range(size):
                        walk[begin + w, t - first_column] = node[w]
                if KIND == WALK:
                    if note_first:
                        for w in range(size):
                            if first_visit[begin + w, node[w]] < 0:
                                first_visit[begin + w, node[w]] = t
                    if note_dwell:
                        for w in range(size):
                            same = node[w] == previous[w]
                            stays[0, w] = stays[0, w] + 1 if same else 1
                            stays[1, w] += not same
                            previous[w] = node[w]
                            if stays[0, w] > stays[2, w]:
                                stays[2, w], longest_at[w] = stays[0, w], node[w]
                    if note_total:
                        for w in range(size):
                            value = observable[node[w]]
                            totals[0, w] += value
                            totals[1, w] += value * value
                if FETCH_NODES and ALONE and not IID:
                    prefetch(edges, places[only(v)] >> S32)

                before_first, last_cut = cuts[0] - BIT, cuts[last]

                now = np.uint64(t) * STEP
                group = _NEVER
                while group < end:
                    # Prepare: the words of a step, and the edge that they propose
                    i, moment = group, now
                    if AHEAD:
                        i = group + lead
                        if i >= end:
                            i, moment = i - end, now + STEP
                    if not ALONE:
                        v = load(node, i, WIDTH)
                        half, other_half = load(own, HALF + i, WIDTH), load(own, OTHER + i, WIDTH)
                    if BOTH:
                        next_h = hash_at(half, other_half, now + STEP)
                        hop = slot_word(next_h, HOP)
                    else:
                        h = hash_at(half, other_half, moment)
                        hop = slot_word(h, HOP)
                    if not IID and not BOTH:
                        place = pick(places, node, i, v, spread, AT_PLACE)
                        total, proposed = propose(hop, place)
                    if AHEAD:
                        store(own, HASHED + i, h)
                        store(own, CHANCE + i, total)
                        store(own, PROPOSED + i, proposed)
                        if FETCH_EDGES:
                            for lane in range(WIDTH):
                                prefetch(edges, own[PROPOSED + i + np.uint64(lane)])
                        i = group
                        if KIND == MANY:
                            h = load(own, HASHED + i, WIDTH)

                    # Update: x ← x - γ w(v) ∇f_v(x)
                    if KIND == ONE:
                        if HELD:
                            z = held_dot(nodes, v, held, CHUNK)
                        else:
                            z = dots(nodes, node, model, i, lines, WIDTH, LINES, CHUNK)
                        target, weight = pick_two(nodes, node, i, v, stride)
                        if not ALONE:
                            rate = load(scale, i, WIDTH)
                        gain = rate * step_size * weight * -1.0
                        living = rate > 0.0
                        shrink = choose(living, multiply_add(gain, ridge, 1.0), 1.0)
                        if LOGISTIC:
                            change = (sigmoid(z) - target) * gain
                        else:
                            change = (z - target) * (gain * 2.0)
                        change = choose(living, change, 0.0)
                        if ALONE:  # before the branches, so that a wrong guess does not repeat it
                            change = settled(change)
                        if HELD:
                            held = held_advance(nodes, v, held, change, shrink, RIDGE, CHUNK)
                        else:
                            if not ALONE:
                                forget()
                            advance(
                                nodes, node, model, i, change, shrink, lines, RIDGE, LINES, CHUNK
                            )

                    if KIND == MANY:
                        store(lanes, HASHES, h)
                        most = BIT
                        for lane in range(WIDTH):
                            me = np.uint64(lane)
                            word = heads[node[i + me] * stride + np.uint64(SAMPLES)]
                            count = word & LOW
                            drawn = BIT <= minibatch < count
                            terms = minibatch if drawn else count
                            lanes[COUNTS + me], lanes[FIRST + me] = count, word >> S32
                            lanes[TERMS + me] = terms
                            most = max(most, terms)
                        for j in range(WIDTH * np.int64(length)):
                            gradient[j] = 0.0
                        for s in range(most):  # the s-th sample of each walker's node, if it has it
                            for lane in range(WIDTH):
                                me = np.uint64(lane)
                                if s < lanes[TERMS + me]:
                                    index = s
                                    if lanes[TERMS + me] < lanes[COUNTS + me]:
                                        index = divide(
                                            slot_word(lanes[HASHES + me], MINIBATCH + s),
                                            lanes[COUNTS + me],
                                        )[0]
                                    a, x = (lanes[FIRST + me] + index) * length, (i + me) * length
                                    lanes[AT + me] = a
                                    four = row_dot(samples, a, model, x, lines, LINES, CHUNK)
                                    store(partials, np.uint64(lane * 4), four)
                            z = row_totals(partials, 0, WIDTH)
                            target = pick(samples, lanes, AT, load(lanes, AT, WIDTH), 1, TARGET)
                            if LOGISTIC:
                                store(slopes, 0, sigmoid(z) - target)
                            else:
                                store(slopes, 0, (z - target) * 2.0)
                            for lane in range(WIDTH):
                                me = np.uint64(lane)
                                if s < lanes[TERMS + me]:
                                    a, g = lanes[AT + me], me * length
                                    slope = slopes[lane]
                                    row_add(
                                        gradient, g, samples, a, slope, 1.0, lines, 0, LINES, CHUNK
                                    )
                        for lane in range(WIDTH):
                            me = np.uint64(lane)
                            rate = scale[i + me]
                            if rate > 0.0:
                                g, x = me * length, (i + me) * length
                                weight = nodes[node[i + me] * stride + np.uint64(WEIGHT)]
                                gain = rate * step_size * weight * -1.0
                                shrink = multiply_add(gain, ridge, 1.0)
                                gain = gain / np.float64(lanes[TERMS + me])
                                row_add(model, x, gradient, g, gain, shrink, lines, 1, LINES, CHUNK)

                    more = np.uint64(0)  # the walkers of this group that have further hops to make
                    if IID:
                        # Move by i.i.d. sampling
                        u, fraction = divide(hop, np.uint64(len(keep)))
                        store(lanes, AT, u)
                        kept = real(fraction >> S11) * ULP < pick(keep, lanes, AT, u, 1, 0)
                        new = choose(kept, u, pick(other, lanes, AT, u, 1, 0))
                    elif BOTH:
                        # Move one walker: decide by the ratios themselves, and look up the next
                        # neighbour for either answer. The edges' words are twice as long as the
                        # neighbours, which therefore stay longer in the cache.
                        their_place = pick(places, node, i, u, spread, AT_PLACE)
                        mine = pick(ratios, node, i, v, stride, AT_RATIO)
                        theirs = pick(ratios, node, i, u, stride, AT_RATIO)
                        index, chance = divide(hop, place & LOW)
                        from_v = pick(neighbours, node, i, (place >> S32) + index, 1, 0)
                        index, their_chance = divide(hop, their_place & LOW)
                        from_u = pick(neighbours, node, i, (their_place >> S32) + index, 1, 0)
                        accepted = real(fraction >> S11) * ULP * mine < theirs
                        if jumps:
                            jump = h >> S11
                            jumping = below(jump, last_cut)
                            more = which(jumping & below(before_first, jump))
                            if more > 0:
                                store(lanes, JUMPS, jump)
                                store(lanes, HASHES, h)
                            accepted = accepted | jumping
                        new = choose(accepted, u, v)
                        place = choose(accepted, their_place, place)
                        u = choose(accepted, from_u, from_v)
                        fraction = choose(accepted, their_chance, chance)
                        h = next_h
                    else:
                        # Move: what was prepared half a round ago is read as late as possible,
                        # because registers are scarce
                        if AHEAD:
                            v = load(node, i, WIDTH)
                            total = load(own, CHANCE + i, WIDTH)
                            proposed = load(own, PROPOSED + i, WIDTH)
                        edge = pick(edges, own, PROPOSED + i, proposed, 1, 0)
                        u, threshold, chance = edge & LOW, edge >> S32, total & LOW

                        # Metropolis-Hastings: accept with probability ratio_u / ratio_v
                        close = which(chance == threshold)
                        if close > 0:  # one in 2^32: the other bits of the fraction decide
                            if ALONE:
                                store(own, PROPOSED + i, proposed)
                                store(own, HASHED + i, h)
                            store(lanes, CHANCES, threshold)
                            while close > 0:
                                lane = lowest(close)
                                close &= close - BIT
                                here = node[i + lane] * spread + np.uint64(AT_PLACE)
                                word = slot_word(own[HASHED + i + lane], HOP)
                                fraction = divide(word, places[here] & LOW)[1]
                                mine = ratios[node[i + lane] * stride + np.uint64(AT_RATIO)]
                                there = (edges[own[PROPOSED + i + lane]] & LOW) * stride
                                theirs = ratios[there + np.uint64(AT_RATIO)]
                                accepted = unit(fraction) * mine < theirs
                                lanes[CHANCES + lane] = _SURE if accepted else _NEVER
                            threshold = load(lanes, CHANCES, WIDTH)

                        # Jump: the first hop is a proposal that is always accepted. A threshold
                        # says so, because a mask is packed and unpacked between two branches.
                        if jumps:
                            if AHEAD:
                                h = load(own, HASHED + i, WIDTH)
                            jump = h >> S11
                            jumping = below(jump, last_cut)
                            more = which(jumping & below(before_first, jump))
                            if more > 0:
                                store(lanes, JUMPS, jump)
                                store(lanes, HASHES, h)
                            threshold = choose(jumping, _SURE, threshold)
                        new = choose(below(chance, threshold), u, v)

                    store(node, i, new)
                    moved = load(own, MOVES + i, WIDTH)
                    store(own, MOVES + i, choose(new == v, moved, moved + BIT))
                    while more > 0:
                        me = lowest(more)
                        more &= more - BIT
                        if LATER:
                            own[CHANCE + i + me] = BIT  # the hops made so far
                            fresh |= BIT << (i + me)
                            continue
                        here, distance = node[i + me], BIT
                        while lanes[JUMPS + me] >= cuts[distance - BIT]:
                            word = places[here * spread + np.uint64(AT_PLACE)]
                            hop_word = slot_word(lanes[HASHES + me], HOP + distance)
                            index = divide(hop_word, word & LOW)[0]
                            if BOTH:
                                there = np.uint64(neighbours[(word >> S32) + index])
                            else:
                                there = edges[(word >> S32) + index] & LOW
                            if there != here:
                                own[MOVES + i + me] += BIT
                            here = there
                            distance += BIT
                        node[i + me] = here
                        own[HOPS + i + me] += distance - BIT
                        if ALONE:
                            new = load(node, 0, WIDTH)
                        if BOTH:
                            place = pick(places, node, i, new, spread, AT_PLACE)
                            index, fraction = divide(hop, place & LOW)
                            u = pick(neighbours, node, i, (place >> S32) + index, 1, 0)
                    if ALONE:
                        v = new
                    if FETCH_NODES:
                        for lane in range(WIDTH):
                            here = node[i + np.uint64(lane)]
                            if APART:
                                prefetch(places, here)
                            if KIND != WALK:
                                for line in range(asked):
                                    prefetch(nodes, here * stride + np.uint64(line * LINE))
                    group += np.uint64(WIDTH)
                    if LATER:
                        # Make one read for the further hops of each jump, and ask for the next.
                        # Walkers that are prepared or looked at next make all of them.
                        i = group + lead
                        due = GROUP << (i - end if i >= end else i)
                        if group == end and (looked_at or t + 1 == marks[mark]):
                            due = _ALL
                        while (fresh | place_asked | edge_asked) > 0:
                            arrived, edge_asked = edge_asked, _NEVER
                            while place_asked > 0:
                                me = lowest(place_asked)
                                place_asked &= place_asked - BIT
                                word = places[node[me] * spread + np.uint64(AT_PLACE)]
                                hop_word = slot_word(own[HASHED + me], HOP + own[CHANCE + me])
                                own[PROPOSED + me] = (word >> S32) + divide(hop_word, word & LOW)[0]
                                prefetch(edges, own[PROPOSED + me])
                                edge_asked |= BIT << me
                            while arrived > 0:
                                me = lowest(arrived)
                                arrived &= arrived - BIT
                                here, there = node[me], edges[own[PROPOSED + me]] & LOW
                                if KIND == WALK:
                                    prefetch(places, there)
                                else:
                                    for line in range(asked):
                                        prefetch(nodes, there * stride + np.uint64(line * LINE))
                                node[me] = there
                                own[MOVES + me] += BIT if there != here else _NEVER
                                own[HOPS + me] += BIT
                                own[CHANCE + me] += BIT
                                if own[HASHED + me] >> S11 >= cuts[own[CHANCE + me] - BIT]:
                                    fresh |= BIT << me
                            place_asked, fresh = fresh, _NEVER
                            if ((place_asked | edge_asked) & due) == 0:
                                break

                if t + 1 == marks[mark]:
                    if HELD:
                        store(model, 0, held)
                    for w in range(size):
                        r, x0 = begin + w, w * np.int64(length) + HEAD
                        at = np.uint64(w)
                        seen.node[r, mark], seen.transfers[r, mark] = node[w], own[MOVES + at]
                        seen.hops[r, mark] = np.int64(own[HOPS + at]) + t + 1 - start
                        finite = rows.active[r]
                        for j in range(dim):
                            seen.model[r, mark, j] = model[x0 + j]
                            finite &= np.isfinite(model[x0 + j])
                        seen.active[r, mark] = finite
                        if KIND == WALK and note_total:
                            diary.totals[r, mark] = totals[0, w]
                    mark += 1

            if KIND == WALK:
                for w in range(size):
                    r = begin + w
                    diary.previous[r] = np.int64(previous[w])
                    diary.longest_at[r] = np.int64(longest_at[w])
                    diary.stay[r], diary.stays[r] = stays[0, w], stays[1, w]
                    diary.longest[r] = stays[2, w]
                    diary.total[r], diary.square[r] = totals[0, w], totals[1, w]

    return walkers


def no_diary() -> Diary:
    """Return an empty diary, for loops that record nothing in it."""
    ints, floats = np.empty(0, np.int64), np.empty(0)
    empty = ints.reshape(0, 0)
    return Diary(
        empty, False, ints, ints, ints, ints, ints, floats, floats, floats, floats.reshape(0, 0)
    )
