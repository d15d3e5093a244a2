"""Every other case: many samples per node, minibatches, and the two phases of a switching design."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from levywalk.arrays import Floats, Ints
from levywalk.engine.kernels.moves import REORDER, move, source_tag
from levywalk.engine.kernels.words import MINIBATCH, ONE, slot_word, split, step_hash

ZERO = np.uint64(0)


class Samples(NamedTuple):
    """Samples in node order, with their features in rows."""

    features: Floats
    targets: Floats
    offsets: Ints
    minibatch: int  # 0: all of a node's samples


class Phases(NamedTuple):
    """Both phases side by side: row 0 the first, row 1 the second (or the first again)."""

    weight: Floats  # (2, n)
    ratio: Floats  # (2, n)
    step_sizes: Floats  # (2, length)
    p_jump: Floats  # (2, length)
    distances: Floats  # (2, hops), filled up with 1


class Watch(NamedTuple):
    """The detector's state, and its constants: threshold 0 never switches."""

    phase: Ints
    switched_at: Ints
    mean: Floats
    power: Floats
    mass: Floats
    streak: Ints
    threshold: float
    decay: float
    patience: int


@cache
def general_kernel(logistic: bool) -> Callable[..., Any]:
    """Return the compiled loop for a loss."""
    LOGISTIC = logistic
    TAG = source_tag()

    @njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
    def general(rows, start, stop, graph, table, samples, phases, watch, scale, ridge):  # type: ignore[no-untyped-def]
        _ = TAG
        dim = rows.model.shape[1]
        many_steps = phases.step_sizes.shape[1] > 1
        many_jumps = phases.p_jump.shape[1] > 1
        count_visits = rows.visits.shape[1] > 0
        keep_walk = rows.walk.shape[1] > 0
        gradient = np.empty(dim)

        for r in range(len(rows.node)):
            k0, k1 = rows.keys[r, 0], rows.keys[r, 1]
            v = np.uint64(rows.node[r])
            x = rows.model[r]
            active = rows.active[r]
            phase = watch.phase[r]
            hops = transfers = 0

            for t in range(start, stop):
                h = step_hash(k0, k1, np.uint64(t))
                if count_visits:
                    rows.visits[r, v] += 1
                if keep_walk:
                    rows.walk[r, t] = v

                if active:
                    first_sample = samples.offsets[v]
                    count = samples.offsets[v + ONE] - first_sample
                    drawn = 0 < samples.minibatch < count
                    batch = samples.minibatch if drawn else count
                    gradient[:] = 0.0
                    for j in range(batch):
                        i = j
                        if drawn:
                            index, _ = split(slot_word(h, MINIBATCH + np.uint64(j)), np.uint64(count))
                            i = np.int64(index)
                        row = samples.features[first_sample + i]
                        z = 0.0
                        for k in range(dim):
                            z += row[k] * x[k]
                        if LOGISTIC:
                            slope = 1.0 / (1.0 + np.exp(-z)) - samples.targets[first_sample + i]
                        else:
                            slope = 2.0 * (z - samples.targets[first_sample + i])
                        for k in range(dim):
                            gradient[k] += slope * row[k]

                    gamma = phases.step_sizes[phase, t - start if many_steps else 0]
                    if phase == 0:
                        gamma *= scale[r]
                    weight = phases.weight[phase, v]
                    for k in range(dim):
                        gradient[k] = weight * (gradient[k] / batch + ridge * x[k])
                        x[k] -= gamma * gradient[k]

                    if watch.threshold > 0.0 and phase == 0:
                        fresh = 1.0 - watch.decay
                        length = square = 0.0
                        for k in range(dim):
                            watch.mean[r, k] = watch.decay * watch.mean[r, k] + fresh * gradient[k]
                            length += watch.mean[r, k] * watch.mean[r, k]
                            square += gradient[k] * gradient[k]
                        watch.power[r] = watch.decay * watch.power[r] + fresh * square
                        watch.mass[r] = watch.decay * watch.mass[r] + fresh
                        quiet = length < watch.threshold * watch.power[r] * watch.mass[r]
                        watch.streak[r] = watch.streak[r] + 1 if quiet else 0
                        if watch.streak[r] >= watch.patience:
                            phase = 1
                            watch.switched_at[r] = t

                p_jump = phases.p_jump[phase, t - start if many_jumps else 0]
                v, more_hops, more_transfers = move(h, v, graph, table, p_jump, phases.distances[phase],
                                                    phases.ratio[phase], ONE, ZERO)
                hops += more_hops
                transfers += more_transfers

            rows.node[r] = v
            rows.hops[r] += hops
            rows.transfers[r] += transfers
            watch.phase[r] = phase

    return general  # type: ignore[no-any-return]
