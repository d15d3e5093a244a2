"""Many walkers at once: `levywalk.engine.reference` for eight walkers in parallel.

A single chain has to wait for the dot product before the next update, and for the neighbour before
the next node. With eight chains in the lanes of one register (`levywalk.engine.kernels.vectors`),
and a few such groups in turn, the processor does not have to wait. A step of a group has the
following parts, with no branch that depends on a random draw except rare ones:

1. the words of the step, in lanes;
2. the update: dot products along the features, eight numbers at a time, with each walker's partial
   sums in a row; their totals, and therefore the slopes of the losses, are in lanes again; then
   each model moves along its node's features;
3. the move: a proposal in lanes, which is accepted if a part of its word is below the edge's
   threshold, or if the walker jumps. The second and third hop of a jump, and the one decision in
   2^31 that the 32 bits of the threshold do not settle, are made for single walkers.

The same source with ``width=1`` advances the walkers that do not fill a group, for example a single
chain. Sums are added in the same order for every width, so a replica's numbers do not depend on the
number of replicas.

There are three layouts of a node; the layout is chosen at compile time:

========  ==========================================================================================
`WALK`    no model: the place of the node (first edge and degree in one word)
`ONE`     one sample: target, weight w(v), ratio t_v/d_v, place and features in one record of whole
          cache lines
`MANY`    many samples: where they are, weight, ratio and place; the samples are in rows of target
          and features
========  ==========================================================================================

An edge is one word: the neighbour and the upper 32 bits of its acceptance probability.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from levywalk.arrays import Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.vectors import (
    LINE,
    bits,
    choose,
    from_bits,
    load,
    load_tail,
    lowest,
    multiply_add,
    pick,
    prefetch,
    real,
    row_sums,
    store,
    which,
)
from levywalk.engine.kernels.words import (
    BIT,
    HOP,
    JUMP,
    LOW,
    MINIBATCH,
    S11,
    S32,
    ULP,
    divide,
    slot_word,
    step_hash,
    unit,
)

WALK, ONE, MANY = 0, 1, 2
GROUP = 8  # walkers that are advanced at once
UNROLLED = 8  # up to so many lines of a record are constants of the compiled code
# Up to so many lines of a record are prefetched; the hardware itself prefetches further lines that
# are read in order.
ASKED = 4

# The head of a record, before the features; the layout `WALK` has only the place.
HEAD = 4
TARGET, WEIGHT, RATIO, PLACE = range(HEAD)
SAMPLES = TARGET  # of many samples: the first and how many, in one word

_LINE = np.uint64(LINE)
_TWO = np.uint64(2)
_SURE = np.uint64(1 << 32)  # above every fraction


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
    samples: Floats  # MANY: rows of target and features
    lines: int  # length of a record or a sample, divided by eight
    minibatch: Any  # a word; 0: all of a node's samples
    ridge: float
    keep: Floats  # alias table of i.i.d. sampling, empty for a walk
    other: Words64
    batch: int  # walkers that take turns


class Course(NamedTuple):
    """Step sizes and jump probabilities of the current steps: one number, or one per step."""

    step_sizes: Floats
    p_jumps: Floats  # empty without a jump law
    distances: Floats  # cumulative law of the jump's distance


def lines_of(dim: int) -> int:
    """Return how many cache lines a record of head and features takes."""
    return -(-(dim + HEAD) // LINE)


@njit(inline="always")
def _sigmoid(z):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-z)) in lanes: exp(y) = 2^k exp(r), with the polynomial of degree 13 in |r| ≤
    ln(2)/2.
    """
    y = z * -1.0
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
    return 1.0 / (p * power + 1.0)


@njit
def _aligned(count):  # type: ignore[no-untyped-def]
    """Return zeros that are aligned to cache lines.

    Loading and storing lanes that cross two cache lines takes twice as long.
    """
    raw = np.zeros(count + 2 * LINE)
    shift = (-(raw.ctypes.data // 8)) % LINE
    return raw[shift : shift + count]


@njit
def _aligned_words(count):  # type: ignore[no-untyped-def]
    return _aligned(count).view(np.uint64)


@cache
def compiled_walkers(
    kind: int, width: int, lines: int, logistic: bool, ridge: bool, iid: bool, far: bool
) -> Callable[..., None]:
    """Return the loop for a layout, a number of walkers side by side, lines of a record (0: any)
    and a loss.

    With ``far`` cache lines are prefetched, for tables that are larger than the cache.
    """
    KIND, WIDTH, LINES, TAG = kind, width, lines, source_tag()
    LOGISTIC, RIDGE, IID, FAR = logistic, ridge, iid, far
    # Single walkers wait for the place first. In far tables it is stored in a separate array, where
    # more places share a cache line.
    APART = kind == WALK or (far and width == 1)
    AT_PLACE, AT_RATIO = 0 if APART else PLACE, 0 if kind == WALK else RATIO

    @njit(cache=True, nogil=True, error_model="numpy")
    def walkers(
        rows: Any, seen: Any, start: int, marks: Any, tables: Any, course: Any, diary: Any
    ) -> None:
        _ = TAG
        nodes, heads, ratios = tables.nodes, tables.heads, tables.ratios
        edges, samples = tables.edges, tables.samples
        places = tables.places if APART else heads
        keep, other = tables.keep, tables.other
        minibatch, ridge = tables.minibatch, tables.ridge
        step_sizes, p_jumps, distances = course.step_sizes, course.p_jumps, course.distances
        many_sizes, many_jumps, jumps = len(step_sizes) > 1, len(p_jumps) > 1, len(p_jumps) > 0
        visits, walk = rows.visits, rows.walk
        count_visits, keep_walk = visits.shape[1] > 0, walk.shape[1] > 0
        dim = rows.model.shape[1]
        lines = LINES if LINES > 0 else tables.lines
        length = np.uint64(lines * LINE)
        if KIND == WALK:
            stride = BIT
        elif KIND == ONE:
            stride = length
        else:
            stride = np.uint64(HEAD)
        spread = BIT if APART else stride  # distance between two places

        # The current batch: private copies, so that no two threads write into the same cache line.
        batch = min(tables.batch, len(rows.node))
        node, moves, hops = _aligned_words(batch), _aligned_words(batch), _aligned_words(batch)
        k0, k1 = _aligned_words(batch), _aligned_words(batch)
        scale = _aligned(batch)  # 0: the model has overflowed before and is frozen
        model = _aligned(batch * lines * LINE)
        # Buffers of one group, to exchange numbers between lanes and single walkers.
        partials, gradient = _aligned(WIDTH * LINE), _aligned(WIDTH * lines * LINE)
        slopes, shrinks = _aligned(WIDTH), _aligned(WIDTH)
        at, thresholds, fractions = (
            _aligned_words(WIDTH),
            _aligned_words(WIDTH),
            _aligned_words(WIDTH),
        )
        jump_words, hashes = _aligned_words(WIDTH), _aligned_words(WIDTH)
        first, counts, terms = (
            _aligned_words(WIDTH),
            _aligned_words(WIDTH),
            _aligned_words(WIDTH),
        )  # of samples
        cuts = np.zeros(max(len(distances), 1), np.uint64)
        last = len(cuts) - 1

        # Records of a walk without a model.
        first_visit, observable = diary.first_visit, diary.observable
        note_first, note_dwell, note_total = (
            first_visit.shape[1] > 0,
            diary.dwell,
            len(observable) > 0,
        )
        previous, longest_at = np.empty(batch, np.uint64), np.empty(batch, np.uint64)
        stay, stays, longest = (
            np.empty(batch, np.int64),
            np.empty(batch, np.int64),
            np.empty(batch, np.int64),
        )
        total, square = np.empty(batch), np.empty(batch)

        for begin in range(0, len(rows.node), batch):
            size = min(batch, len(rows.node) - begin)
            for w in range(size):
                r = begin + w
                node[w], k0[w], k1[w] = np.uint64(rows.node[r]), rows.keys[r, 0], rows.keys[r, 1]
                scale[w] = rows.scale[r] if rows.active[r] else 0.0
                hops[w], moves[w] = np.uint64(rows.hops[r]), np.uint64(rows.transfers[r])
                # Clear the whole slot: a model that has overflowed there may have left NaN next to
                # its features.
                for j in range(lines * LINE):
                    model[w * lines * LINE + j] = 0.0
                for j in range(dim):
                    model[w * lines * LINE + HEAD + j] = rows.model[r, j]
                if KIND == WALK:
                    previous[w], longest_at[w] = (
                        np.uint64(diary.previous[r]),
                        np.uint64(diary.longest_at[r]),
                    )
                    stay[w], stays[w], longest[w] = diary.stay[r], diary.stays[r], diary.longest[r]
                    total[w], square[w] = diary.total[r], diary.square[r]
            step_size = step_sizes[0]
            mark = 0

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
                        walk[begin + w, t] = node[w]
                if KIND == WALK:
                    if note_first:
                        for w in range(size):
                            if first_visit[begin + w, node[w]] < 0:
                                first_visit[begin + w, node[w]] = t
                    if note_dwell:
                        for w in range(size):
                            same = node[w] == previous[w]
                            stay[w] = stay[w] + 1 if same else 1
                            stays[w] += not same
                            previous[w] = node[w]
                            if stay[w] > longest[w]:
                                longest[w], longest_at[w] = stay[w], node[w]
                    if note_total:
                        for w in range(size):
                            value = observable[node[w]]
                            total[w] += value
                            square[w] += value * value
                if FAR and not IID:
                    for w in range(size):
                        prefetch(edges, places[node[w] * spread + np.uint64(AT_PLACE)] >> S32)

                first_cut, last_cut = cuts[0], cuts[last]

                for group in range(0, size, WIDTH):
                    i = np.uint64(group)
                    h = step_hash(load(k0, i, WIDTH), load(k1, i, WIDTH), np.uint64(t))

                    # Update: x ← x - γ w(v) ∇f_v(x)
                    if KIND == ONE:
                        for lane in range(WIDTH):
                            me = i + np.uint64(lane)
                            a, x = node[me] * length, me * length
                            partial = load_tail(nodes, a, LINE, HEAD) * load(model, x, LINE)
                            done = 1
                            if (
                                LINES == 0
                                # long records: four parallel sums, to wait less
                            ):
                                second, third, fourth = partial * 0.0, partial * 0.0, partial * 0.0
                                while done + 4 <= lines:
                                    b, y = a + np.uint64(done * LINE), x + np.uint64(done * LINE)
                                    partial = multiply_add(
                                        load(nodes, b, LINE), load(model, y, LINE), partial
                                    )
                                    b, y = b + _LINE, y + _LINE
                                    second = multiply_add(
                                        load(nodes, b, LINE), load(model, y, LINE), second
                                    )
                                    b, y = b + _LINE, y + _LINE
                                    third = multiply_add(
                                        load(nodes, b, LINE), load(model, y, LINE), third
                                    )
                                    b, y = b + _LINE, y + _LINE
                                    fourth = multiply_add(
                                        load(nodes, b, LINE), load(model, y, LINE), fourth
                                    )
                                    done += 4
                                partial = (partial + second) + (third + fourth)
                            for line in range(done, lines):
                                c = np.uint64(line * LINE)
                                partial = multiply_add(
                                    load(nodes, a + c, LINE), load(model, x + c, LINE), partial
                                )
                            store(partials, np.uint64(lane * LINE), partial)
                        z = row_sums(partials, 0, WIDTH)
                        target = pick(nodes, node, i, WIDTH, length, TARGET)
                        if LOGISTIC:
                            slope = _sigmoid(z) - target
                        else:
                            slope = (z - target) * 2.0
                        rate = load(scale, i, WIDTH)
                        gain = rate * step_size * pick(nodes, node, i, WIDTH, length, WEIGHT)
                        living = rate > 0.0
                        store(slopes, 0, choose(living, slope * gain * -1.0, 0.0))
                        if RIDGE:
                            store(shrinks, 0, choose(living, gain * -ridge + 1.0, 1.0))
                        for lane in range(WIDTH):
                            me = i + np.uint64(lane)
                            a, x, slope = node[me] * length, me * length, slopes[lane]
                            old = load(model, x, LINE)
                            if RIDGE:
                                old = old * shrinks[lane]
                            store(
                                model, x, multiply_add(load_tail(nodes, a, LINE, HEAD), slope, old)
                            )
                            for line in range(1, lines):
                                c = np.uint64(line * LINE)
                                old = load(model, x + c, LINE)
                                if RIDGE:
                                    old = old * shrinks[lane]
                                store(
                                    model, x + c, multiply_add(load(nodes, a + c, LINE), slope, old)
                                )

                    if KIND == MANY:
                        store(hashes, 0, h)
                        most = BIT
                        for lane in range(WIDTH):
                            word = heads[node[i + np.uint64(lane)] * stride + np.uint64(SAMPLES)]
                            counts[lane], first[lane] = word & LOW, word >> S32
                            drawn = BIT <= minibatch < counts[lane]
                            terms[lane] = minibatch if drawn else counts[lane]
                            most = max(most, terms[lane])
                        for j in range(WIDTH * lines * LINE):
                            gradient[j] = 0.0
                        for b in range(
                            np.int64(most)
                        ):  # the b-th sample of each walker's node, if it has as many
                            s = np.uint64(b)
                            for lane in range(WIDTH):
                                if s < terms[lane]:
                                    x = (i + np.uint64(lane)) * length
                                    index = s
                                    if terms[lane] < counts[lane]:
                                        index = divide(
                                            slot_word(hashes[lane], MINIBATCH + s), counts[lane]
                                        )[0]
                                    a = (first[lane] + index) * length
                                    at[lane] = a
                                    partial = load_tail(samples, a, LINE, HEAD) * load(
                                        model, x, LINE
                                    )
                                    for line in range(1, lines):
                                        c = np.uint64(line * LINE)
                                        term = load(samples, a + c, LINE)
                                        partial = multiply_add(
                                            term, load(model, x + c, LINE), partial
                                        )
                                    store(partials, np.uint64(lane * LINE), partial)
                            z = row_sums(partials, 0, WIDTH)
                            target = pick(samples, at, 0, WIDTH, 1, TARGET)
                            if LOGISTIC:
                                store(slopes, 0, _sigmoid(z) - target)
                            else:
                                store(slopes, 0, (z - target) * 2.0)
                            for lane in range(WIDTH):
                                if s < terms[lane]:
                                    a, slope = at[lane], slopes[lane]
                                    g = np.uint64(lane) * length
                                    old = load(gradient, g, LINE)
                                    store(
                                        gradient,
                                        g,
                                        multiply_add(load_tail(samples, a, LINE, HEAD), slope, old),
                                    )
                                    for line in range(1, lines):
                                        c = np.uint64(line * LINE)
                                        old = load(gradient, g + c, LINE)
                                        store(
                                            gradient,
                                            g + c,
                                            multiply_add(load(samples, a + c, LINE), slope, old),
                                        )
                        for lane in range(WIDTH):
                            me = i + np.uint64(lane)
                            if scale[me] > 0.0:
                                g, x = np.uint64(lane) * length, me * length
                                gain = (
                                    -scale[me]
                                    * step_size
                                    * nodes[node[me] * stride + np.uint64(WEIGHT)]
                                )
                                shrink = 1.0 + gain * ridge
                                gain /= np.float64(terms[lane])
                                for line in range(lines):
                                    c = np.uint64(line * LINE)
                                    old = load(model, x + c, LINE) * shrink
                                    store(
                                        model,
                                        x + c,
                                        multiply_add(load(gradient, g + c, LINE), gain, old),
                                    )

                    # Move by i.i.d. sampling
                    v = load(node, i, WIDTH)
                    more = np.uint64(0)  # the walkers of this group that have further hops to make
                    if IID:
                        u, fraction = divide(slot_word(h, HOP), np.uint64(len(keep)))
                        store(at, 0, u)
                        kept = real(fraction >> S11) * ULP < pick(keep, at, 0, WIDTH, 1, 0)
                        new = choose(kept, u, pick(other, at, 0, WIDTH, 1, 0))
                    else:
                        # Move: propose a neighbour
                        place = pick(places, node, i, WIDTH, spread, AT_PLACE)
                        index, fraction = divide(slot_word(h, HOP), place & LOW)
                        store(at, 0, (place >> S32) + index)
                        edge = pick(edges, at, 0, WIDTH, 1, 0)
                        u, threshold = edge & LOW, edge >> S32

                        # Metropolis-Hastings: accept with probability ratio_u / ratio_v
                        close = which((fraction >> S32) - threshold + BIT <= _TWO)
                        if close > 0:
                            store(thresholds, 0, threshold)
                            store(fractions, 0, fraction)
                            while close > 0:
                                lane = lowest(close)
                                close &= close - BIT
                                mine = ratios[node[i + lane] * stride + np.uint64(AT_RATIO)]
                                theirs = ratios[
                                    (edges[at[lane]] & LOW) * stride + np.uint64(AT_RATIO)
                                ]
                                thresholds[lane] = (
                                    _SURE if unit(fractions[lane]) * mine < theirs else np.uint64(0)
                                )
                            threshold = load(thresholds, 0, WIDTH)
                        accept = fraction >> S32 < threshold

                        # Jump: the first hop is a proposal that is always accepted
                        if jumps:
                            jump = slot_word(h, JUMP) >> S11
                            jumping = jump < last_cut
                            accept = accept | jumping
                            more = which(jumping & (jump >= first_cut))
                            if more > 0:
                                store(jump_words, 0, jump)
                                store(hashes, 0, h)
                        new = choose(accept, u, v)

                    store(node, i, new)
                    moved = load(moves, i, WIDTH)
                    store(moves, i, choose(new != v, moved + BIT, moved))
                    while more > 0:
                        me = lowest(more)
                        more &= more - BIT
                        here, distance = node[i + me], BIT
                        while jump_words[me] >= cuts[distance - BIT]:
                            word = places[here * spread + np.uint64(AT_PLACE)]
                            index, _ = divide(slot_word(hashes[me], HOP + distance), word & LOW)
                            there = edges[(word >> S32) + index] & LOW
                            if there != here:
                                moves[i + me] += BIT
                            here = there
                            distance += BIT
                        node[i + me] = here
                        hops[i + me] += distance - BIT
                    if FAR:
                        for lane in range(WIDTH):
                            here = node[i + np.uint64(lane)]
                            if APART:
                                prefetch(places, here)
                            if KIND != WALK:
                                for line in range(min(lines, ASKED) if KIND == ONE else 1):
                                    prefetch(nodes, here * stride + np.uint64(line * LINE))

                if t + 1 == marks[mark]:
                    for w in range(size):
                        r, x0 = begin + w, w * lines * LINE + HEAD
                        seen.node[r, mark], seen.transfers[r, mark] = node[w], moves[w]
                        seen.hops[r, mark] = np.int64(hops[w]) + t + 1 - start
                        finite = rows.active[r]
                        for j in range(dim):
                            seen.model[r, mark, j] = model[x0 + j]
                            finite &= np.isfinite(model[x0 + j])
                        seen.active[r, mark] = finite
                        if KIND == WALK and note_total:
                            diary.totals[r, mark] = total[w]
                    mark += 1

            if KIND == WALK:
                for w in range(size):
                    r = begin + w
                    diary.previous[r], diary.longest_at[r] = (
                        np.int64(previous[w]),
                        np.int64(longest_at[w]),
                    )
                    diary.stay[r], diary.stays[r], diary.longest[r] = stay[w], stays[w], longest[w]
                    diary.total[r], diary.square[r] = total[w], square[w]

    return walkers


def no_diary() -> Diary:
    """Return an empty diary, for loops that record nothing in it."""
    ints, floats = np.empty(0, np.int64), np.empty(0)
    empty = ints.reshape(0, 0)
    return Diary(
        empty, False, ints, ints, ints, ints, ints, floats, floats, floats, floats.reshape(0, 0)
    )
