"""The plain loop: `levywalk.engine.reference`, statement for statement, one replica after the other, for every case.

It serves what `levywalk.engine.kernels.walkers` does not: switching designs, samples beyond 2^32, and whoever
asks for code without vectors. Arrays are taken out of their tuples before the loop, and the loop calls only
functions of numbers: passing an array to a function, even an inlined one, costs two atomic reference counts a step,
four times the update itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from levywalk.arrays import AnyArray, Bools, Floats, Ints, Ints32, Words
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.words import BIT, HOP, JUMP, MINIBATCH, slot_word, split, step_hash, unit

# Sums may be reordered and fused (models agree with the oracle's to rounding); NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz"}


class Rows(NamedTuple):
    """The replicas' state that the loop changes in place; visits and walk have no columns when not recorded."""

    keys: Words
    scale: Floats
    node: Ints
    model: Floats
    active: Bools
    hops: Ints
    transfers: Ints
    visits: Ints
    walk: Ints32


class Graph(NamedTuple):
    """The network as unsigned CSR: unsigned indices need no wrap-around test."""

    indptr: AnyArray
    indices: AnyArray


class Data(NamedTuple):
    """The problem: samples in node order, with their features in rows."""

    features: Floats
    targets: Floats
    offsets: Ints
    minibatch: int  # 0: all of a node's samples
    ridge: float


class Phases(NamedTuple):
    """How to walk: row 0 the first phase, row 1 the second; without a second, both are the first."""

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
    whole: float  # what counts as one


@cache
def compiled_loop(logistic: bool) -> Callable[..., None]:
    """Return the loop for a loss."""
    LOGISTIC, TAG = logistic, source_tag()

    @njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
    def loop(rows: Any, start: int, stop: int, graph: Any, data: Any, phases: Any, watch: Any) -> None:
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
        gradient, x = np.empty(dim), np.empty(dim)

        for r in range(len(rows.node)):
            k0, k1 = rows.keys[r, 0], rows.keys[r, 1]
            v = np.uint64(rows.node[r])
            x[:] = rows.model[r]  # two threads that write into one cache line would run slower than one
            active = rows.active[r]
            phase = watch.phase[r]
            step_size, p_jump = step_sizes[phase, 0], p_jumps[phase, 0]
            scale = rows.scale[r]
            hops = transfers = 0

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
                            index, _ = split(slot_word(h, MINIBATCH + np.uint64(b)), np.uint64(count))
                            i = first_sample + np.int64(index)
                        z = 0.0
                        for j in range(dim):
                            z += features[i, j] * x[j]
                        if LOGISTIC:
                            slope = 1.0 / (1.0 + np.exp(-z)) - targets[i]
                        else:
                            slope = 2.0 * (z - targets[i])
                        for j in range(dim):
                            gradient[j] += slope * features[i, j]
                    gain = min(step_size * (scale if scaled[phase] else 1.0), most[phase])
                    weight = weights[phase, v]
                    for j in range(dim):
                        gradient[j] = weight * (gradient[j] / batch + ridge * x[j])
                        x[j] -= gain * gradient[j]

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
                        if streak[r] >= watch.patience if watch.patience > 0 else streak[r] * fresh >= watch.whole:
                            phase = 1
                            watch.switched_at[r] = t
                            step_size, p_jump = step_sizes[phase, 0], p_jumps[phase, 0]

                # Move, i.i.d.
                if len(keep) > 0:
                    index, uniform = split(slot_word(h, HOP), np.uint64(len(keep)))
                    u = index if uniform < keep[index] else np.uint64(other[index])
                    hops += 1
                    transfers += u != v
                    v = u
                    continue

                # Move, jump: d hops to uniform neighbours
                if many_jumps:
                    p_jump = p_jumps[phase, t - start]
                if p_jump > 0.0:
                    uniform = unit(slot_word(h, JUMP))
                    if uniform < p_jump:
                        distance = 1
                        while uniform >= p_jump * distances[phase, distance - 1]:
                            distance += 1
                        for i in range(distance):
                            first = indptr[v]
                            index, _ = split(slot_word(h, HOP + np.uint64(i)), indptr[v + BIT] - first)
                            u = np.uint64(indices[first + index])
                            transfers += u != v
                            v = u
                        hops += distance
                        continue

                # Move, Metropolis-Hastings: propose a neighbour, accept or stay
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

    return loop
