"""The plain loop: a statement-by-statement copy of `levywalk.engine.reference` for all cases.

It advances one replica after the other.

It is used where `levywalk.engine.kernels.walkers` is not possible: for switching designs, for more
than 2^32 samples, for users' own compiled losses, updates and walks
(`levywalk.engine.kernels.twins`), and if code without vectors is requested. Arrays are taken out of
their tuples before the loop, and the loop calls only functions of numbers: passing an array to a
function, even an inlined one, costs two atomic reference counts per step, which takes four times as
long as the update itself.

Therefore `loop` is one long function, and `compiled_loop` contains it; the file is long because of
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from levywalk import step
from levywalk.arrays import AnyArray, Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.rows import ANY_SHORT, HEAD, LONG, SHORT, row_dot, total_of
from levywalk.engine.kernels.several_outputs import add_at, slopes_at
from levywalk.engine.kernels.sigmoid import sigmoid
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.twins import call_decide, call_linear, call_slope, call_update
from levywalk.engine.kernels.vectors import LINE, load, multiply_add, store
from levywalk.engine.kernels.words import (
    BIT,
    HOP,
    MINIBATCH,
    PASS,
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
    first: int  # the step of the walk's first column


class Graph(NamedTuple):
    """The network as CSR with unsigned indices, which need no test for negative values."""

    indptr: AnyArray
    indices: AnyArray
    idle: Bools  # which nodes have no data; empty if all have


class Data(NamedTuple):
    """The samples of the problem in the order of the nodes, one row of features per sample."""

    features: Floats
    rows: Floats  # the same features, each row padded to whole lines as in `rows`; or empty
    targets: Floats
    offsets: Ints
    minibatch: int  # 0: all of a node's samples
    ridge: float
    single: bool  # whether every node has one sample
    smoothness: Floats  # L_v, for updates that use it; otherwise empty
    nodes: int  # the number of nodes with data
    several: int  # which loss with several outputs, as in `several_outputs`
    outputs: int  # of the loss, 1 for all others
    columns: int  # of the targets
    room: int  # for the slopes of a sample with several outputs
    rounded: bool  # whether models are float32
    l1: float  # times the step size: the soft threshold after an update


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


MOST_PASSES = np.uint64(step.MOST_PASSES)
LEAST_SQUARES, LOGISTIC_LOSS, OWN_LOSS, SEVERAL_OUTPUTS = 0, 1, 2, 3
BY_GRADIENT, BY_SAMPLES = 1, 2  # what a user's own update is given; 0: plain SGD


@cache
def compiled_loop(
    loss: int, own_update: int = 0, own_walk: bool = False, idle: bool = False
) -> Callable[..., None]:
    """Return the loop for a loss; a user's own update or walk is called by its address.

    It is one long function because numba compiles such a loop well only if it is not split
    into functions: passing arrays to them would take four times as long as the update itself.
    """
    LOGISTIC, OWN_SLOPE, TAG = loss == LOGISTIC_LOSS, loss == OWN_LOSS, source_tag()
    OWN_UPDATE, OWN_WALK, LINEAR = own_update == BY_GRADIENT, own_walk, own_update == BY_SAMPLES
    LOOKED_AT = own_update > 0 or own_walk  # whether every step checks for overflow
    IDLE = idle  # whether some nodes have no data
    SEVERAL, LOSS = loss == SEVERAL_OUTPUTS, loss

    @kernel()
    def loop(
        rows: Any,
        start: int,
        stop: int,
        graph: Any,
        data: Any,
        phases: Any,
        watch: Any,
        twins: Any,
        marks: Any,
        seen: Any,
    ) -> None:
        """``seen`` gets the state at each mark before ``stop``, which is the last mark."""
        _ = TAG
        indptr, indices, idle = graph.indptr, graph.indices, graph.idle
        features, targets, offsets = data.features, data.targets, data.offsets
        samples = data.rows
        minibatch, ridge, l1, rounded = data.minibatch, data.ridge, data.l1, data.rounded
        weights, ratios, keep, other = phases.weight, phases.ratio, phases.keep, phases.other
        step_sizes, p_jumps, distances = phases.step_sizes, phases.p_jumps, phases.distances
        mean, power, mass, streak = watch.mean, watch.power, watch.mass, watch.streak
        visits, walk = rows.visits, rows.walk
        count_visits, keep_walk = visits.shape[1] > 0, walk.shape[1] > 0
        scaled, most = phases.scaled, phases.most
        many_sizes, many_jumps = step_sizes.shape[1] > 1, p_jumps.shape[1] > 1
        width, outputs = features.shape[1], data.outputs
        dim = width * outputs
        columns = data.columns
        sigma = np.empty(1)
        # The model and the gradient, padded to whole lines: dot products are summed as in `rows`.
        # They are changed in whole lines too, since a vector that was written in several parts is
        # slow to read. The parts beside the features are zero and stay so.
        lines = (dim + HEAD + LINE - 1) // LINE
        whole = lines * LINE
        padded, sloping = np.zeros(whole), np.zeros(whole)
        x, gradient = padded[HEAD : HEAD + dim], sloping[HEAD : HEAD + dim]
        drawn_rows = np.empty(max(1, minibatch), np.int64)
        loss = np.int64(data.several if SEVERAL else LOSS)
        if OWN_SLOPE:
            loss = np.int64(twins.loss.ctypes.data)
        output_slope = np.zeros(data.room)
        model_at, slopes_of = np.int64(x.ctypes.data), np.int64(output_slope.ctypes.data)
        gradient_at, rows_at = np.int64(gradient.ctypes.data), np.int64(features.ctypes.data)
        targets_at = np.int64(targets.ctypes.data)
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
            asked_at = np.zeros(len(twins.asked) + 1, np.int64)
            word_size = np.int64(8)

        for r in range(len(rows.node)):
            k0, k1 = rows.keys[r, 0], rows.keys[r, 1]
            v = np.uint64(rows.node[r])
            padded[:] = 0.0  # a model that has overflowed may have left NaN beside its features
            # A copy: two threads that write into the same cache line would be slower than one.
            x[:] = rows.model[r]
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
                for k in range(len(twins.asked)):
                    asked_at[k] = kept.base[twins.asked[k]] + r * kept.row[twins.asked[k]]

            at, mark = 0, marks[0]
            for t in range(start, stop):
                if t == mark:
                    if not LOOKED_AT:
                        for j in range(dim):
                            active &= np.isfinite(x[j])
                    seen.node[r, at], seen.model[r, at], seen.active[r, at] = v, x, active
                    seen.hops[r, at] = rows.hops[r] + hops
                    seen.transfers[r, at] = rows.transfers[r] + transfers
                    seen.small_messages[r, at] = twins.small_messages[r]
                    at += 1
                    mark = marks[at]
                h = step_hash(k0, k1, np.uint64(t))
                if count_visits:
                    visits[r, v] += 1
                if keep_walk:
                    walk[r, t - rows.first] = v
                if many_sizes:
                    step_size = step_sizes[phase, t - start]

                # Update: x ← x - γ w(v) ∇f_v(x)
                if active:
                    first_sample = offsets[v]
                    count = offsets[v + BIT] - first_sample
                    drawn = 0 < minibatch < count
                    batch = minibatch if drawn else count
                    if not SEVERAL or LOOKED_AT or not data.single:
                        sloping[:] = 0.0
                    if LINEAR:
                        n_drawn = minibatch if drawn else 0
                        for b in range(n_drawn):
                            index, _ = split(
                                slot_word(h, MINIBATCH + np.uint64(b)), np.uint64(count)
                            )
                            drawn_rows[b] = np.int64(index)
                        batch = 0
                    for b in range(batch):
                        i = first_sample + b
                        if drawn:
                            index, _ = split(
                                slot_word(h, MINIBATCH + np.uint64(b)), np.uint64(count)
                            )
                            i = first_sample + np.int64(index)
                        if SEVERAL:
                            row_at = rows_at + i * width * 8
                            target_at = targets_at + i * columns * 8
                            slopes_at(row_at, model_at, target_at, loss, width, outputs, slopes_of)
                            if LOOKED_AT or not data.single:
                                add_at(gradient_at, row_at, slopes_of, width, outputs, 1.0)
                            continue
                        a = np.uint64(i) * np.uint64(whole)
                        if lines > SHORT:
                            z = total_of(row_dot(samples, a, padded, 0, lines, LONG, 4))
                        else:
                            z = total_of(row_dot(samples, a, padded, 0, lines, ANY_SHORT, 4))
                        if OWN_SLOPE:
                            slope = call_slope(  # type: ignore[call-arg, var-annotated]
                                twins.slope, z, targets[i]
                            )
                        elif LOGISTIC:
                            sigma[0] = z
                            store(sigma, 0, sigmoid(load(sigma, 0, 1)))
                            slope = sigma[0] - targets[i]
                        else:
                            slope = 2.0 * (z - targets[i])
                        for j in range(whole):
                            sloping[j] = multiply_add(slope, samples[a + np.uint64(j)], sloping[j])
                    gain = min(step_size * (scale if scaled[phase] else 1.0), most[phase])
                    weight = weights[phase, v]
                    if LOOKED_AT:
                        before[:] = x
                    if OWN_UPDATE or LINEAR:
                        for k in range(kept_update):
                            first_entry, length = v * np.uint64(kept.length[k]), kept.length[k]
                            if kept.kind[k] == 1:
                                first_entry, length = (
                                    indptr[v],
                                    np.int64(indptr[v + BIT] - indptr[v]),
                                )
                            elif kept.kind[k] == 2:
                                length = count * kept.length[k]
                                first_entry = np.uint64(first_sample * kept.length[k])
                            kept_at[k] = (
                                kept.base[k]
                                + r * kept.row[k]
                                + np.int64(first_entry) * kept.item[k]
                            )
                            kept_length[k] = length
                    if LINEAR:
                        call_linear(  # type: ignore[call-arg]
                            twins.update,
                            x.ctypes.data,
                            dim,
                            np.int64(features.ctypes.data) + first_sample * width * word_size,
                            np.int64(targets.ctypes.data) + first_sample * columns * word_size,
                            count,
                            data.smoothness[v],
                            loss,
                            ridge,
                            drawn_rows.ctypes.data,
                            n_drawn,
                            token_at.ctypes.data,
                            token_length.ctypes.data,
                            kept_at.ctypes.data,
                            kept_length.ctypes.data,
                            weight,
                            gain,
                            data.nodes,
                        )
                    elif OWN_UPDATE:
                        for j in range(dim):
                            gradient[j] = gradient[j] / batch + ridge * x[j]
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
                            data.nodes,
                        )
                    else:
                        change = gain * weight * -1.0
                        shrink = multiply_add(change, ridge, 1.0)
                        watched = watch.threshold > 0.0 and phase == 0
                        if SEVERAL and data.single:
                            for k in range(outputs):
                                output_slope[k] *= change
                            add_at(model_at, row_at, slopes_of, width, outputs, shrink)
                        for j in range(0 if SEVERAL and data.single else whole):
                            old = padded[j]
                            if not SEVERAL and data.single:
                                padded[j] = multiply_add(
                                    slope * change, samples[a + np.uint64(j)], old * shrink
                                )
                            else:
                                padded[j] = multiply_add(change / batch, sloping[j], old * shrink)
                            if watched:
                                sloping[j] = weight * (sloping[j] / batch + ridge * old)
                    if l1 > 0.0:  # the soft threshold
                        cut = gain * l1
                        for j in range(dim):
                            smooth = x[j]
                            x[j] = (
                                0.0 if abs(smooth) <= cut else smooth - math.copysign(cut, smooth)
                            )
                            if watch.threshold > 0.0 and phase == 0:
                                gradient[j] += (smooth - x[j]) / gain
                    if rounded:
                        for j in range(dim):
                            x[j] = np.float64(np.float32(x[j]))
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

                # Move, until the model is at a node with data
                moving, passes, first_hash = True, np.uint64(0), h
                while moving:
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
                                    length = (offsets[v + BIT] - offsets[v]) * kept.length[k]
                                    first_entry = np.uint64(offsets[v] * kept.length[k])
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
                                asked_at.ctypes.data,
                                len(weights[0]),
                                t,
                                np.int64(twins.small_messages.ctypes.data) + r * word_size,
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

                    # Move by i.i.d. sampling
                    elif len(keep) > 0:
                        index, uniform = split(slot_word(h, HOP), np.uint64(len(keep)))
                        u = index if uniform < keep[index] else np.uint64(other[index])
                        hops += 1
                        transfers += u != v
                        v = u

                    else:
                        # Move by a jump: d hops to uniform neighbours
                        jumps = False
                        if many_jumps:
                            p_jump = p_jumps[phase, t - start]
                        if p_jump > 0.0:
                            uniform = unit(h)
                            if uniform < p_jump:
                                jumps, distance = True, 1
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

                        # Move by Metropolis-Hastings: propose a neighbour, accept or stay
                        if not jumps:
                            first = indptr[v]
                            index, uniform = split(slot_word(h, HOP), indptr[v + BIT] - first)
                            u = np.uint64(indices[first + index])
                            if uniform * ratios[phase, v] < ratios[phase, u]:
                                transfers += u != v
                                v = u
                            hops += 1

                    # A node without data passes the model on, with words of its own
                    moving = IDLE and idle[v]
                    if moving:
                        passes += BIT
                        if passes > MOST_PASSES:
                            twins.bad[0] = True
                            moving = False
                        h = slot_word(first_hash, PASS + passes)

            rows.node[r], rows.model[r] = v, x
            rows.hops[r] += hops
            rows.transfers[r] += transfers
            watch.phase[r] = phase
            rows.active[r] = active
            if LOOKED_AT:
                twins.came_from[r] = came_from

    return loop
