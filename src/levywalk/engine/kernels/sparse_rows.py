"""SGD, SAG and SAGA on sparse features: an update costs as much as its samples have entries.

The walk of a piece is known before (`levywalk.engine.kernels.walk_then_update`). Entries of the
model that a sample does not have change too, by the ridge, the l1 penalty or the mean of the stored
gradients, and this is made up for when they are needed:

- Plain SGD without l1 keeps x = s u with a number s, which takes the ridge's factors.
- Otherwise an entry that no sample has touched since step m obeys x ← S_{γ l1}(s x - γ d) in each
  step, with d the mean of the stored gradients, or 0 for SGD. Products P of the factors s and the
  sums Q of the steps γ that they discount give the result of many such steps at once, because a
  number that keeps its sign moves along a line; where the sign changes, the step is found by
  bisection.

At the end of every piece and at every checkpoint all entries are brought up to date, in O(dim).
Where numbers threaten to overflow, and where the ridge's factor is not in (0, 1], steps are made
on all entries at once and are checked, so that a run diverges at the same step as in
`levywalk.engine.reference`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from levywalk.arrays import Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.samples import slope_of
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.words import MINIBATCH, slot_word, split, step_hash

SPARSE_SGD, SPARSE_SAG, SPARSE_SAGA = 0, 1, 2
SAFE = 1e100  # a change below this cannot make a number overflow: features are below 1e150
SMALL = 1e-100  # below this, products of factors are begun anew
SCALE = 1e-9  # below this, the factor of the whole model is multiplied into it


class SparseReplicas(NamedTuple):
    """The replicas' state, which the loops change in place."""

    keys: Words64
    scale: Floats
    active: Bools
    model: Floats
    sums: Floats  # of the stored gradients; no columns for SGD
    slopes: Floats  # (replicas, samples); no columns for SGD
    diverged_at: Ints
    walk: Ints32  # (replicas, steps of the piece): the node of each update


class SparseData(NamedTuple):
    """The samples as CSR in the order of the nodes; offsets and weights by the network's nodes."""

    indptr: Ints
    indices: Ints32
    values: Floats
    targets: Floats
    offsets: Ints
    weights: Floats
    loss: Ints  # [0]: the loss as `levywalk.engine.kernels.samples` numbers it
    minibatch: int  # 0: all of a node's samples
    ridge: float
    l1: float
    n: float  # nodes with data
    outputs: int  # of the loss; above 1 in `levywalk.engine.kernels.sparse_outputs`


class SparseScratch(NamedTuple):
    """Buffers of one call: numbers of a minibatch, of the model, and of a piece's steps."""

    chosen: Ints
    slopes: Floats
    changes: Floats
    predictions: Floats  # of one sample
    before: Floats
    work: Floats
    last: Ints
    factors: Floats
    steps: Floats
    products: Floats
    sums: Floats


def sparse_scratch(batch: int, dim: int, steps: int, outputs: int) -> SparseScratch:
    """Return the buffers for nodes with up to ``batch`` samples and pieces of so many steps."""
    return SparseScratch(
        chosen=np.empty(batch, np.int64),
        slopes=np.empty(batch * outputs),
        changes=np.empty(batch * outputs),
        predictions=np.zeros(-(-outputs // 4) * 4),
        before=np.zeros(dim),
        work=np.zeros(dim),
        last=np.zeros(dim // outputs, np.int64),
        factors=np.empty(steps + 1),
        steps=np.empty(steps + 1),
        products=np.empty(steps + 1),
        sums=np.empty(steps + 1),
    )


@njit(inline="always")
def _cut(x, by):  # type: ignore[no-untyped-def]
    """Return x moved towards 0 by a number, or 0; NaN stays NaN."""
    return 0.0 if abs(x) <= by else x - math.copysign(by, x)


@njit
def _across_zero(x, d, l1, m, k, factors, steps, products, sums):  # type: ignore[no-untyped-def]
    """Return an entry after the steps m, …, k-1, whose sign may change on the way."""
    while m < k:
        if x == 0.0:
            if abs(d) <= l1:
                return 0.0
            x = _cut(-steps[m] * d, steps[m] * l1)
            m += 1
            continue
        sign = math.copysign(1.0, x)
        pull, size = d * sign + l1, abs(x)
        decay = products[k] / products[m]
        rest = decay * size - (sums[k] - decay * sums[m]) * pull
        if rest > 0.0:
            return sign * rest
        low, high = m, k  # its sign is the same after low steps, and not after high ones
        while high - low > 1:
            middle = (low + high) // 2
            decay = products[middle] / products[m]
            if decay * size - (sums[middle] - decay * sums[m]) * pull > 0.0:
                low = middle
            else:
                high = middle
        decay = products[low] / products[m]
        size = decay * size - (sums[low] - decay * sums[m]) * pull
        x = _cut(factors[low] * sign * size - steps[low] * d, steps[low] * l1)
        m = low + 1
    return x


@njit(inline="always")
def drawn_sample(h, first, count, minibatch, b):  # type: ignore[no-untyped-def]
    """Return the b-th sample of an update: of all of a node's, or of those that are drawn."""
    if not 0 < minibatch < count:
        return first + b
    index, _ = split(slot_word(h, MINIBATCH + np.uint64(b)), np.uint64(count))
    return first + np.int64(index)


@cache
def compiled_sparse_sgd() -> Callable[..., None]:
    """Return the loop of plain SGD without l1, with the model as a number times a vector."""
    TAG = source_tag()

    @kernel()
    def sparse_sgd(
        rows: Any, seen: Any, start: int, marks: Any, data: Any, step_sizes: Any, scratch: Any
    ) -> None:
        _ = TAG
        indptr, indices, values = data.indptr, data.indices, data.values
        targets, offsets, weights, loss = data.targets, data.offsets, data.weights, data.loss[0]
        ridge, minibatch = data.ridge, data.minibatch
        chosen, slopes = scratch.chosen, scratch.slopes
        before, work = scratch.before, scratch.work
        many, dim = len(step_sizes) > 1, rows.model.shape[1]
        for r in range(len(rows.scale)):
            x, walk, active, s, mark = rows.model[r], rows.walk[r], rows.active[r], 1.0, 0
            for t in range(start, marks[-1]):
                if active:
                    v = walk[t - start]
                    h = step_hash(rows.keys[r, 0], rows.keys[r, 1], np.uint64(t))
                    first, count = offsets[v], offsets[v + 1] - offsets[v]
                    batch = minibatch if 0 < minibatch < count else count
                    change = -rows.scale[r] * step_sizes[t - start if many else 0] * weights[v]
                    shrink = 1.0 + change * ridge
                    safe = -1.0 <= shrink <= 1.0
                    for b in range(batch):
                        i = drawn_sample(h, first, count, minibatch, b)
                        z = 0.0
                        for k in range(indptr[i], indptr[i + 1]):
                            z += values[k] * x[indices[k]]
                        slope = slope_of(loss, s * z, targets[i])
                        chosen[b], slopes[b] = i, slope
                        safe &= abs(slope) < SAFE and abs(slope * change) < SAFE
                    if safe:
                        s *= shrink
                        if abs(s) < SCALE:
                            for j in range(dim):
                                x[j] *= s
                            s = 1.0
                        for b in range(batch):
                            i, by = chosen[b], change * slopes[b] / (batch * s)
                            for k in range(indptr[i], indptr[i + 1]):
                                x[indices[k]] += by * values[k]
                    else:  # all entries, checked; sums as the reference makes them
                        for b in range(batch):
                            i, by = chosen[b], slopes[b]
                            for k in range(indptr[i], indptr[i + 1]):
                                work[indices[k]] += by * values[k]
                        finite = True
                        for j in range(dim):
                            before[j] = s * x[j]
                            x[j] = shrink * before[j] + change * (work[j] / batch)
                            work[j] = 0.0
                            finite &= math.isfinite(x[j])
                        s = 1.0
                        if not finite:
                            for j in range(dim):
                                x[j] = before[j]
                            active = False
                            rows.diverged_at[r] = t
                if t + 1 == marks[mark]:
                    if s != 1.0:
                        for j in range(dim):
                            x[j] *= s
                        s = 1.0
                    for j in range(dim):
                        seen.model[r, mark, j] = x[j]
                    seen.active[r, mark] = active
                    mark += 1
            rows.active[r] = active

    return sparse_sgd


@cache
def compiled_sparse_lagged(rule: int) -> Callable[..., None]:
    """Return the loop of SGD with l1, of SAG or of SAGA, whose entries are made up for later.

    It is one long function for the reason that `levywalk.engine.kernels.loop` gives.
    """
    TAG, SGD, SAG, SAGA = source_tag(), rule == SPARSE_SGD, rule == SPARSE_SAG, rule == SPARSE_SAGA

    @kernel()
    def sparse_lagged(
        rows: Any, seen: Any, start: int, marks: Any, data: Any, step_sizes: Any, scratch: Any
    ) -> None:
        _ = TAG
        indptr, indices, values = data.indptr, data.indices, data.values
        targets, offsets, weights, loss = data.targets, data.offsets, data.weights, data.loss[0]
        ridge, minibatch, l1, share = data.ridge, data.minibatch, data.l1, 1.0 / data.n
        chosen, fresh, changes = scratch.chosen, scratch.slopes, scratch.changes
        before, work, last = scratch.before, scratch.work, scratch.last
        factors, steps, products, sums = (
            scratch.factors, scratch.steps, scratch.products, scratch.sums,
        )  # fmt: skip
        many, dim = len(step_sizes) > 1, rows.model.shape[1]
        for r in range(len(rows.scale)):
            x, walk, active = rows.model[r], rows.walk[r], rows.active[r]
            total, kept = rows.sums[r], rows.slopes[r]
            hot = False  # whether numbers may overflow: all steps are then made on all entries
            if not SGD:
                for j in range(dim):
                    hot |= not abs(total[j]) < SAFE
            mark = 0
            for j in range(dim):
                last[j] = 0
            products[0], sums[0] = 1.0, 0.0
            for t in range(start, marks[-1]):
                now = t - start
                if active:
                    v = walk[now]
                    h = step_hash(rows.keys[r, 0], rows.keys[r, 1], np.uint64(t))
                    first, count = offsets[v], offsets[v + 1] - offsets[v]
                    batch = minibatch if 0 < minibatch < count else count
                    gain = rows.scale[r] * step_sizes[now if many else 0]
                    shrink = 1.0 - gain * ridge * (weights[v] if SGD else 1.0)
                    factors[now], steps[now] = shrink, gain
                    products[now + 1] = products[now] * shrink
                    sums[now + 1] = sums[now] * shrink + gain
                    pull = -gain * weights[v] / batch
                    safe = not hot and 0.0 < shrink <= 1.0
                    for b in range(batch):
                        i = drawn_sample(h, first, count, minibatch, b)
                        z = 0.0
                        for k in range(indptr[i], indptr[i + 1]):
                            j = indices[k]
                            m, d = last[j], 0.0 if SGD else total[j] * share
                            if m < now:
                                y, decay = x[j], products[now] / products[m]
                                lag = sums[now] - decay * sums[m]
                                if l1 == 0.0:
                                    y = decay * y - lag * d
                                elif y != 0.0 or abs(d) > l1:
                                    sign = math.copysign(1.0, y)
                                    rest = decay * abs(y) - lag * (d * sign + l1)
                                    if y != 0.0 and rest > 0.0:
                                        y = sign * rest
                                    else:
                                        y = _across_zero(
                                            y, d, l1, m, now, factors, steps, products, sums
                                        )
                                x[j], last[j] = y, now
                            z += values[k] * x[j]
                        slope = slope_of(loss, z, targets[i])
                        chosen[b], fresh[b] = i, slope
                        changes[b] = slope if SGD else slope - kept[i]
                        safe &= abs(changes[b]) < SAFE and abs(pull * changes[b]) < SAFE
                    for b in range(batch if SAG and safe else 0):
                        i = chosen[b]
                        renewed = (fresh[b] - kept[i]) / count  # 0 if it was drawn twice
                        kept[i] = fresh[b]
                        for k in range(indptr[i], indptr[i + 1]):
                            total[indices[k]] += renewed * values[k]
                    if safe and not SAG:
                        if batch == 1:
                            i, by = chosen[0], pull * changes[0]
                            renewed = 0.0 if SGD else (fresh[0] - kept[i]) / count
                            if SAGA:
                                kept[i] = fresh[0]
                            for k in range(indptr[i], indptr[i + 1]):
                                j = indices[k]
                                y = shrink * x[j] + by * values[k]
                                if SAGA:
                                    y -= gain * share * total[j]
                                    total[j] += renewed * values[k]
                                x[j], last[j] = _cut(y, gain * l1), now + 1
                        else:
                            for b in range(batch):
                                i, by = chosen[b], pull * changes[b]
                                for k in range(indptr[i], indptr[i + 1]):
                                    work[indices[k]] += by * values[k]
                            for b in range(batch):
                                i = chosen[b]
                                for k in range(indptr[i], indptr[i + 1]):
                                    j = indices[k]
                                    if last[j] <= now:
                                        y = shrink * x[j] + work[j]
                                        if SAGA:
                                            y -= gain * share * total[j]
                                        x[j], last[j] = _cut(y, gain * l1), now + 1
                                        work[j] = 0.0
                            for b in range(batch if SAGA else 0):
                                i = chosen[b]
                                renewed = (fresh[b] - kept[i]) / count
                                kept[i] = fresh[b]
                                for k in range(indptr[i], indptr[i + 1]):
                                    total[indices[k]] += renewed * values[k]
                    whole = t + 1 == marks[mark] or products[now + 1] < SMALL
                    if whole or not safe:  # bring all entries up to date
                        until = now + 1 if safe else now
                        for j in range(dim):
                            m, d, y = last[j], 0.0 if SGD else total[j] * share, x[j]
                            if m < until:
                                decay = products[until] / products[m]
                                lag = sums[until] - decay * sums[m]
                                if l1 == 0.0:
                                    x[j] = decay * y - lag * d
                                elif y != 0.0 or abs(d) > l1:
                                    sign = math.copysign(1.0, y)
                                    rest = decay * abs(y) - lag * (d * sign + l1)
                                    if y != 0.0 and rest > 0.0:
                                        x[j] = sign * rest
                                    else:
                                        x[j] = _across_zero(
                                            y, d, l1, m, until, factors, steps, products, sums
                                        )
                            last[j] = now + 1
                        products[now + 1], sums[now + 1] = 1.0, 0.0
                    if not safe:  # this step on all entries, checked
                        for b in range(batch):
                            i, by = chosen[b], changes[b]
                            if SAG:
                                by, kept[i] = fresh[b] - kept[i], fresh[b]
                            for k in range(indptr[i], indptr[i + 1]):
                                work[indices[k]] += by * values[k]
                        finite = True
                        for j in range(dim):
                            before[j] = x[j]
                            if SAG:
                                total[j] += work[j] / count
                            y = shrink * x[j] + (0.0 if SAG else pull * work[j])
                            if not SGD:
                                y -= gain * share * total[j]
                            x[j], work[j] = _cut(y, gain * l1), 0.0
                            finite &= math.isfinite(x[j])
                        for b in range(batch if SAGA else 0):
                            i = chosen[b]
                            renewed = (fresh[b] - kept[i]) / count
                            kept[i] = fresh[b]
                            for k in range(indptr[i], indptr[i + 1]):
                                total[indices[k]] += renewed * values[k]
                        if not SGD:
                            hot = True
                        if not finite:
                            for j in range(dim):
                                x[j] = before[j]
                            active = False
                            rows.diverged_at[r] = t
                if t + 1 == marks[mark]:
                    for j in range(dim):
                        seen.model[r, mark, j] = x[j]
                    seen.active[r, mark] = active
                    mark += 1
            rows.active[r] = active

    return sparse_lagged
