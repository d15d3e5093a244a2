"""The compiled loop: `levywalk.engine.reference`, statement for statement.

One source serves two machines. With one sample per node and one phase ("simple"), a node's data lie in one aligned
record (features, target, weight w(v), ratio t_v/d_v) and the dimension is a constant of the compiled code up to
`UNROLLED`. Every other case (many samples, minibatches, a switching design) reads samples and phases from tables.
Which of the two, the loss and the dimension are closed over as plain numbers: the compiler drops what is not needed,
and numba caches the result on disk.

Arrays are taken out of their tuples before the loop, and the loop calls only functions of numbers: passing an array to
a function, even an inlined one, costs two atomic reference counts a step, four times the update itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from levywalk.arrays import AnyArray, Bools, Floats, Ints, Ints32, Words
from levywalk.engine.kernels.words import HOP, JUMP, MINIBATCH, ONE, slot_word, split, step_hash, unit

UNROLLED = 32
# Sums may be reordered and fused (models agree with the oracle's to rounding); NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz"}


class Rows(NamedTuple):
    """The replicas' state that the loop changes in place; visits and walk have no columns when not recorded.

    Models lie in rows that begin at cache lines: one that straddles two is stored and loaded half as fast.
    """

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
    """The problem: records (simple), or samples in node order with their features in rows."""

    dim: int
    records: Floats
    stride: int
    features: Floats
    targets: Floats
    offsets: Ints
    minibatch: int  # 0: all of a node's samples
    ridge: float


class Phases(NamedTuple):
    """How to walk: row 0 the first phase, row 1 the second; without a second, both are the first."""

    weight: Floats  # (2, n), not used by simple
    ratio: Floats  # (2, n), not used by simple
    step_sizes: Floats  # (2, 1) or (2, steps of the piece)
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
    decay: float
    patience: int


def record_stride(dim: int) -> int:
    """Return the length of a record in numbers, padded so that records start at cache lines."""
    return -(-(dim + 3) // 8) * 8


def _source_tag() -> int:
    """Return a number that changes with any source file of the kernels.

    numba keys its cache on the file of the outermost function alone; a loop that closes over this number is compiled
    anew when a file that it calls into has changed.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:4], "big")


@cache
def compiled_loop(logistic: bool, simple: bool, dim: int) -> Callable[..., None]:
    """Return the loop for a loss, a layout and a dimension (0: any)."""
    LOGISTIC, SIMPLE, DIM, STRIDE, TAG = logistic, simple, dim, record_stride(dim), _source_tag()

    @njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
    def loop(rows: Any, start: int, stop: int, graph: Any, data: Any, phases: Any, watch: Any) -> None:
        _ = TAG
        indptr, indices = graph.indptr, graph.indices
        records, features, targets, offsets = data.records, data.features, data.targets, data.offsets
        minibatch, ridge = data.minibatch, data.ridge
        weights, ratios, keep, other = phases.weight, phases.ratio, phases.keep, phases.other
        step_sizes, p_jumps, distances = phases.step_sizes, phases.p_jumps, phases.distances
        mean, power, mass, streak = watch.mean, watch.power, watch.mass, watch.streak
        visits, walk = rows.visits, rows.walk
        count_visits, keep_walk = visits.shape[1] > 0, walk.shape[1] > 0
        many_sizes, many_jumps = step_sizes.shape[1] > 1, p_jumps.shape[1] > 1
        dim = DIM if DIM > 0 else data.dim
        stride = np.uint64(STRIDE) if DIM > 0 else np.uint64(data.stride)
        at_target, at_weight, at_ratio = np.uint64(dim), np.uint64(dim + 1), np.uint64(dim + 2)
        gradient = np.empty(dim)

        for r in range(len(rows.node)):
            k0, k1 = rows.keys[r, 0], rows.keys[r, 1]
            v = np.uint64(rows.node[r])
            x = rows.model[r]
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
                if active and SIMPLE:
                    base = v * stride
                    z = 0.0
                    for j in range(dim):
                        z += records[base + np.uint64(j)] * x[j]
                    if LOGISTIC:
                        slope = 1.0 / (1.0 + np.exp(-z)) - records[base + at_target]
                    else:
                        slope = 2.0 * (z - records[base + at_target])
                    gain = step_size * scale * records[base + at_weight]
                    slope *= gain
                    shrink = 1.0 - gain * ridge
                    for j in range(dim):
                        x[j] = shrink * x[j] - slope * records[base + np.uint64(j)]
                elif active:
                    first_sample = offsets[v]
                    count = offsets[v + ONE] - first_sample
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
                    gain = step_size * (scale if phase == 0 else 1.0)
                    weight = weights[phase, v]
                    for j in range(dim):
                        gradient[j] = weight * (gradient[j] / batch + ridge * x[j])
                        x[j] -= gain * gradient[j]

                    # Detector: as in design.detector
                    if watch.threshold > 0.0 and phase == 0:
                        fresh = 1.0 - watch.decay
                        length = square = 0.0
                        for j in range(dim):
                            mean[r, j] = watch.decay * mean[r, j] + fresh * gradient[j]
                            length += mean[r, j] * mean[r, j]
                            square += gradient[j] * gradient[j]
                        power[r] = watch.decay * power[r] + fresh * square
                        mass[r] = watch.decay * mass[r] + fresh
                        quiet = length < watch.threshold * power[r] * mass[r] < np.inf
                        streak[r] = streak[r] + 1 if quiet else 0
                        if streak[r] >= watch.patience:
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
                            index, _ = split(slot_word(h, HOP + np.uint64(i)), indptr[v + ONE] - first)
                            u = np.uint64(indices[first + index])
                            transfers += u != v
                            v = u
                        hops += distance
                        continue

                # Move, Metropolis-Hastings: propose a neighbour, accept or stay
                first = indptr[v]
                index, uniform = split(slot_word(h, HOP), indptr[v + ONE] - first)
                u = np.uint64(indices[first + index])
                if SIMPLE:
                    accept = uniform * records[v * stride + at_ratio] < records[u * stride + at_ratio]
                else:
                    accept = uniform * ratios[phase, v] < ratios[phase, u]
                if accept:
                    transfers += u != v
                    v = u
                hops += 1

            rows.node[r] = v
            rows.hops[r] += hops
            rows.transfers[r] += transfers
            watch.phase[r] = phase

    return loop
