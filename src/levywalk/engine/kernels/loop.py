"""The plain loop: a statement-by-statement copy of `levywalk.engine.reference` for all cases.

It advances one replica after the other.

It is used where `levywalk.engine.kernels.walkers` is not possible: for switching designs, for more
than 2^32 samples, for users' own compiled losses, updates and walks
(`levywalk.engine.kernels.twins`), and if code without vectors is requested. Arrays are taken out of
their tuples before the loop, and the loop calls only functions of numbers: passing an array to a
function, even an inlined one, costs two atomic reference counts per step, which takes four times as
long as the update itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from levywalk.arrays import AnyArray, Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.rows import ANY_SHORT, HEAD, LONG, SHORT, row_dot
from levywalk.engine.kernels.sigmoid import sigmoid
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.twins import call_decide, call_slope, call_update
from levywalk.engine.kernels.vectors import LINE, load, multiply_add, store
from levywalk.engine.kernels.words import (
    BIT,
    HOP,
    MINIBATCH,
    slot_word,
    split,
    step_hash,
    unit,
)


class LoopRows(NamedTuple):
    """The replicas' state, which the loop changes in place.

    Visits and walk have no columns if they are not recorded.
    """

    keys: Words64
    scale: Floats
    node: Ints
    model: Floats
    active: Bools
    hops: Ints
    transfers: Ints
    visits: Ints
    walk: Ints32


class Graph(NamedTuple):
    """The network as CSR with unsigned indices, which need no test for negative values."""

    indptr: AnyArray
    indices: AnyArray


class Data(NamedTuple):
    """The samples of the problem in the order of the nodes, one row of features per sample."""

    features: Floats
    targets: Floats
    offsets: Ints
    minibatch: int  # 0: all of a node's samples
    ridge: float
    single: bool  # whether every node has one sample


class Phases(NamedTuple):
    """The parameters of the walk: row 0 is the first phase and row 1 the second.

    Without a second phase, both rows are the first.
    """

    weight: Floats  # (2, n)
    ratio: Floats  # (2, n)
    step_sizes: Floats  # (2, 1) or (2, steps of the piece)
    scaled: Bools  # (2,)
    most: Floats  # (2,)
    p_jumps: Floats  # (2, 1) or (2, steps of the piece)
    distances: Floats  # (2, max_hops), cumulative
    keep: Floats  # alias table of i.i.d. sampling, empty for a walk
    other: Ints32


class Watch(NamedTuple):
    """The detector's state and constants; threshold 0 never switches."""

    phase: Ints
    switched_at: Ints
    mean: Floats
    power: Floats
    mass: Floats
    streak: Ints
    threshold: float
    steady: float
    rate: float
    patience: int  # 0: one window
    whole: float  # the part of a window that counts as a whole one


LEAST_SQUARES, LOGISTIC_LOSS, OWN_LOSS = 0, 1, 2


@cache
def compiled_loop(
    loss: int, own_update: bool = False, own_walk: bool = False
) -> Callable[..., None]:
    """Return the loop for a loss; a user's own update or walk is called by its address.

    It is one function of 190 lines because numba compiles such a loop well only if it is not split
    into functions: passing arrays to them would take four times as long as the update itself.
    """
    LOGISTIC, OWN_SLOPE, TAG = loss == LOGISTIC_LOSS, loss == OWN_LOSS, source_tag()
    OWN_UPDATE, OWN_WALK = own_update, own_walk
    LOOKED_AT = own_update or own_walk  # whether every step checks for overflow

    @kernel()
    def loop(
        rows: Any, start: int, stop: int, graph: Any, data: Any, phases: Any, watch: Any, twins: Any
    ) -> None:
        _ = TAG
        indptr, indices = graph.indptr, graph.indices
        features, targets, offsets = data.features, data.targets, data.offsets
        minibatch, ridge = data.minibatch, data.ridge
        weights, ratios, keep, other = phases.weight, phases.ratio, phases.keep, phases.other
        step_sizes, p_jumps, distances = phases.step_sizes, phases.p_jumps, phases.distances
        mean, power, mass, streak = watch.mean, watch.power, watch.mass, watch.streak
        visits, walk = rows.visits, rows.walk
        count_visits, keep_walk = visits.shape[1] > 0, walk.shape[1] > 0
        scaled, most = phases.scaled, phases.most
        many_sizes, many_jumps = step_sizes.shape[1] > 1, p_jumps.shape[1] > 1
        dim = features.shape[1]
        gradient, sums, sigma = np.empty(dim), np.empty(4), np.empty(1)
        # The model and a sample, padded to whole lines: dot products are summed as in `rows`.
        lines = (dim + HEAD + LINE - 1) // LINE
        padded, sample = np.zeros(lines * LINE), np.zeros(lines * LINE)
        x, own = padded[HEAD : HEAD + dim], sample[HEAD : HEAD + dim]
        if LOOKED_AT:
            before = np.empty(dim)
            token, kept = twins.token, twins.node
            n_token, n_kept = len(token.base), len(kept.base)
            token_update, kept_update = token.own[0], kept.own[0]
            token_at, token_length = (
                np.zeros(n_token + 1, np.int64),
                np.zeros(n_token + 1, np.int64),
            )
            kept_at, kept_length = np.zeros(n_kept + 1, np.int64), np.zeros(n_kept + 1, np.int64)
            word_size = np.int64(8)

        for r in range(len(rows.node)):
            k0, k1 = rows.keys[r, 0], rows.keys[r, 1]
            v = np.uint64(rows.node[r])
            x[:] = rows.model[
                r
            ]  # two threads that write into the same cache line would be slower than one
            active = rows.active[r]
            phase = watch.phase[r]
            step_size, p_jump = step_sizes[phase, 0], p_jumps[phase, 0]
            scale = rows.scale[r]
            hops = transfers = 0
            if LOOKED_AT:
                came_from = twins.came_from[r]
                for k in range(n_token):
                    token_at[k] = token.base[k] + r * token.row[k]
                    token_length[k] = token.length[k]

            for t in range(start, stop):
                h = step_hash(k0, k1, np.uint64(t))
                if count_visits:
                    visits[r, v] += 1
                if keep_walk:
                    walk[r, t] = v
                if many_sizes:
                    step_size = step_sizes[phase, t - start]

                # Update: x ← x - γ w(v) ∇f_v(x)
                if active:
                    first_sample = offsets[v]
                    count = offsets[v + BIT] - first_sample
                    drawn = 0 < minibatch < count
                    batch = minibatch if drawn else count
                    gradient[:] = 0.0
                    for b in range(batch):
                        i = first_sample + b
                        if drawn:
                            index, _ = split(
                                slot_word(h, MINIBATCH + np.uint64(b)), np.uint64(count)
                            )
                            i = first_sample + np.int64(index)
                        for j in range(dim):
                            own[j] = features[i, j]
                        if lines > SHORT:
                            store(sums, 0, row_dot(sample, 0, padded, 0, lines, LONG, 4))
                        else:
                            store(sums, 0, row_dot(sample, 0, padded, 0, lines, ANY_SHORT, 4))
                        z = (sums[0] + sums[1]) + (sums[2] + sums[3])
                        if OWN_SLOPE:
                            slope = call_slope(twins.slope, z, targets[i])  # type: ignore[call-arg, var-annotated]
                        elif LOGISTIC:
                            sigma[0] = z
                            store(sigma, 0, sigmoid(load(sigma, 0, 1)))
                            slope = sigma[0] - targets[i]
                        else:
                            slope = 2.0 * (z - targets[i])
                        for j in range(dim):
                            gradient[j] = multiply_add(slope, own[j], gradient[j])
                    gain = min(step_size * (scale if scaled[phase] else 1.0), most[phase])
                    weight = weights[phase, v]
                    if LOOKED_AT:
                        before[:] = x
                    if OWN_UPDATE:
                        for j in range(dim):
                            gradient[j] = gradient[j] / batch + ridge * x[j]
                        for k in range(kept_update):
                            first_entry, length = v * np.uint64(kept.length[k]), kept.length[k]
                            if kept.kind[k] == 1:
                                first_entry, length = (
                                    indptr[v],
                                    np.int64(indptr[v + BIT] - indptr[v]),
                                )
                            elif kept.kind[k] == 2:
                                first_entry, length = np.uint64(first_sample), count
                            kept_at[k] = (
                                kept.base[k]
                                + r * kept.row[k]
                                + np.int64(first_entry) * kept.item[k]
                            )
                            kept_length[k] = length
                        call_update(  # type: ignore[call-arg]
                            twins.update,
                            x.ctypes.data,
                            gradient.ctypes.data,
                            dim,
                            token_at.ctypes.data,
                            token_length.ctypes.data,
                            kept_at.ctypes.data,
                            kept_length.ctypes.data,
                            weight,
                            gain,
                            len(weights[0]),
                        )
                    else:
                        change = gain * weight * -1.0
                        shrink = multiply_add(change, ridge, 1.0)
                        watched = watch.threshold > 0.0 and phase == 0
                        for j in range(dim):
                            old = x[j]
                            if data.single:
                                x[j] = multiply_add(slope * change, own[j], old * shrink)
                            else:
                                x[j] = multiply_add(change / batch, gradient[j], old * shrink)
                            if watched:
                                gradient[j] = weight * (gradient[j] / batch + ridge * old)
                    if LOOKED_AT:
                        finite = True
                        for j in range(dim):
                            finite &= np.isfinite(x[j])
                        if not finite:
                            x[:] = before
                            active = False
                            twins.diverged_at[r] = t

                    # Detector: as in walks.detector
                    if watch.threshold > 0.0 and phase == 0:
                        fresh = min(1.0, watch.steady + watch.rate * gain)
                        beta = 1.0 - fresh
                        length = square = 0.0
                        for j in range(dim):
                            mean[r, j] = beta * mean[r, j] + fresh * gradient[j]
                            length += mean[r, j] * mean[r, j]
                            square += gradient[j] * gradient[j]
                        power[r] = beta * power[r] + fresh * square
                        mass[r] = beta * mass[r] + fresh
                        quiet = length < watch.threshold * power[r] * mass[r] < np.inf
                        streak[r] = streak[r] + 1 if quiet else 0
                        if (
                            streak[r] >= watch.patience
                            if watch.patience > 0
                            else streak[r] * fresh >= watch.whole
                        ):
                            phase = 1
                            watch.switched_at[r] = t
                            step_size, p_jump = step_sizes[phase, 0], p_jumps[phase, 0]

                # Move by the user's own decision
                if OWN_WALK:
                    hop, left = 0, 0
                    while True:
                        first = indptr[v]
                        degree = np.int64(indptr[v + BIT] - first)
                        for k in range(kept_update, n_kept):
                            first_entry, length = v * np.uint64(kept.length[k]), kept.length[k]
                            if kept.kind[k] == 1:
                                first_entry, length = first, degree
                            elif kept.kind[k] == 2:
                                first_entry, length = (
                                    np.uint64(offsets[v]),
                                    offsets[v + BIT] - offsets[v],
                                )
                            kept_at[k] = (
                                kept.base[k]
                                + r * kept.row[k]
                                + np.int64(first_entry) * kept.item[k]
                            )
                            kept_length[k] = length
                        answer: Any = call_decide(  # type: ignore[call-arg]
                            twins.decide,
                            np.int64(v),
                            came_from,
                            hop,
                            left,
                            twins.own_scores[v],
                            degree,
                            np.int64(indices.ctypes.data) + np.int64(first) * 4,
                            np.int64(twins.degrees.ctypes.data) + np.int64(first) * word_size,
                            np.int64(twins.scores.ctypes.data) + np.int64(first) * word_size,
                            np.int64(token_at.ctypes.data) + token_update * word_size,
                            np.int64(token_length.ctypes.data) + token_update * word_size,
                            np.int64(kept_at.ctypes.data) + kept_update * word_size,
                            np.int64(kept_length.ctypes.data) + kept_update * word_size,
                            h,
                        )
                        u, left = np.uint64(answer & 0xFFFFFFFF), answer >> 32
                        if u >= np.uint64(len(weights[0])):
                            twins.bad[0] = True
                            u, left = v, 0
                        transfers += u != v
                        came_from = np.int64(v) if u != v else -1
                        v = u
                        hops += 1
                        hop += 1
                        if left == 0:
                            break
                    continue

                # Move by i.i.d. sampling
                if len(keep) > 0:
                    index, uniform = split(slot_word(h, HOP), np.uint64(len(keep)))
                    u = index if uniform < keep[index] else np.uint64(other[index])
                    hops += 1
                    transfers += u != v
                    v = u
                    continue

                # Move by a jump: d hops to uniform neighbours
                if many_jumps:
                    p_jump = p_jumps[phase, t - start]
                if p_jump > 0.0:
                    uniform = unit(h)
                    if uniform < p_jump:
                        distance = 1
                        while uniform >= p_jump * distances[phase, distance - 1]:
                            distance += 1
                        for i in range(distance):
                            first = indptr[v]
                            index, _ = split(
                                slot_word(h, HOP + np.uint64(i)), indptr[v + BIT] - first
                            )
                            u = np.uint64(indices[first + index])
                            transfers += u != v
                            v = u
                        hops += distance
                        continue

                # Move by Metropolis-Hastings: propose a neighbour, accept or stay
                first = indptr[v]
                index, uniform = split(slot_word(h, HOP), indptr[v + BIT] - first)
                u = np.uint64(indices[first + index])
                if uniform * ratios[phase, v] < ratios[phase, u]:
                    transfers += u != v
                    v = u
                hops += 1

            rows.node[r], rows.model[r] = v, x
            rows.hops[r] += hops
            rows.transfers[r] += transfers
            watch.phase[r] = phase
            if LOOKED_AT:
                rows.active[r] = active
                twins.came_from[r] = came_from

    return loop
