"""Losses with several outputs on sparse features: SGD, SAG and SAGA, without l1.

The model has one row per feature, with the numbers of all outputs side by side. What
`levywalk.engine.kernels.sparse_rows` says of an entry holds here for a row: a row that no sample
has touched since step m obeys x ← s x - γ d in each step, and is brought up to date when a sample
has its feature.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.several_outputs import SQUARES, softmax_slopes
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.sparse_rows import (
    SAFE,
    SCALE,
    SMALL,
    SPARSE_SAG,
    SPARSE_SAGA,
    drawn_sample,
)
from levywalk.engine.kernels.words import step_hash


@njit
def _to_slopes(z, targets, i, loss, outputs):  # type: ignore[no-untyped-def]
    """Replace the predictions of sample i by its slopes; z has room for whole lanes of four."""
    if loss == SQUARES:
        for c in range(outputs):
            z[c] = 2.0 * (z[c] - targets[i * outputs + c])
        return
    softmax_slopes(z, outputs, np.int64(targets[i]))


@cache
def compiled_outputs_sgd() -> Callable[..., None]:
    """Return the loop of plain SGD, with the model as a number times a vector.

    It is one long function for the reason that `levywalk.engine.kernels.loop` gives.
    """
    TAG = source_tag()

    @kernel()
    def outputs_sgd(
        rows: Any, seen: Any, start: int, marks: Any, data: Any, step_sizes: Any, scratch: Any
    ) -> None:
        _ = TAG
        indptr, indices, values = data.indptr, data.indices, data.values
        targets, offsets, weights, loss = data.targets, data.offsets, data.weights, data.loss[0]
        ridge, minibatch, outputs = data.ridge, data.minibatch, data.outputs
        chosen, slopes, z = scratch.chosen, scratch.slopes, scratch.predictions
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
                        for c in range(outputs):
                            z[c] = 0.0
                        for k in range(indptr[i], indptr[i + 1]):
                            at, value = np.int64(indices[k]) * outputs, s * values[k]
                            for c in range(outputs):
                                z[c] += value * x[at + c]
                        _to_slopes(z, targets, i, loss, outputs)
                        chosen[b] = i
                        for c in range(outputs):
                            slopes[b * outputs + c] = z[c]
                            safe &= abs(z[c]) < SAFE and abs(z[c] * change) < SAFE
                    if safe:
                        s *= shrink
                        if abs(s) < SCALE:
                            for j in range(dim):
                                x[j] *= s
                            s = 1.0
                        by = change / (batch * s)
                        for b in range(batch):
                            i = chosen[b]
                            for k in range(indptr[i], indptr[i + 1]):
                                at, value = np.int64(indices[k]) * outputs, by * values[k]
                                for c in range(outputs):
                                    x[at + c] += value * slopes[b * outputs + c]
                    else:  # all entries, checked
                        for b in range(batch):
                            i = chosen[b]
                            for k in range(indptr[i], indptr[i + 1]):
                                at = np.int64(indices[k]) * outputs
                                for c in range(outputs):
                                    work[at + c] += slopes[b * outputs + c] * values[k]
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

    return outputs_sgd


@cache
def compiled_outputs_lagged(rule: int) -> Callable[..., None]:
    """Return the loop of SAG or of SAGA, whose rows are made up for later.

    It is one long function for the reason that `levywalk.engine.kernels.loop` gives.
    """
    TAG, SAG, SAGA = source_tag(), rule == SPARSE_SAG, rule == SPARSE_SAGA

    @kernel()
    def outputs_lagged(
        rows: Any, seen: Any, start: int, marks: Any, data: Any, step_sizes: Any, scratch: Any
    ) -> None:
        _ = TAG
        indptr, indices, values = data.indptr, data.indices, data.values
        targets, offsets, weights, loss = data.targets, data.offsets, data.weights, data.loss[0]
        ridge, minibatch, share = data.ridge, data.minibatch, 1.0 / data.n
        outputs, z = data.outputs, scratch.predictions
        chosen, fresh, changes = scratch.chosen, scratch.slopes, scratch.changes
        before, work, last = scratch.before, scratch.work, scratch.last
        products, sums = scratch.products, scratch.sums
        many, dim = len(step_sizes) > 1, rows.model.shape[1]
        for r in range(len(rows.scale)):
            x, walk, active = rows.model[r], rows.walk[r], rows.active[r]
            total, kept = rows.sums[r], rows.slopes[r]
            hot, mark = False, 0  # hot: numbers may overflow, and steps are made on all entries
            for j in range(dim):
                hot |= not abs(total[j]) < SAFE
            for j in range(len(last)):
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
                    shrink = 1.0 - gain * ridge
                    products[now + 1] = products[now] * shrink
                    sums[now + 1] = sums[now] * shrink + gain
                    pull = -gain * weights[v] / batch
                    safe = not hot and 0.0 < shrink <= 1.0
                    for b in range(batch):
                        i = drawn_sample(h, first, count, minibatch, b)
                        for c in range(outputs):
                            z[c] = 0.0
                        for k in range(indptr[i], indptr[i + 1]):
                            row = np.int64(indices[k])
                            at, m = row * outputs, last[row]
                            if m < now:
                                decay = products[now] / products[m]
                                lag = (sums[now] - decay * sums[m]) * share
                                for c in range(outputs):
                                    x[at + c] = decay * x[at + c] - lag * total[at + c]
                                last[row] = now
                            for c in range(outputs):
                                z[c] += values[k] * x[at + c]
                        _to_slopes(z, targets, i, loss, outputs)
                        chosen[b] = i
                        for c in range(outputs):
                            by = z[c] - kept[i * outputs + c]
                            fresh[b * outputs + c], changes[b * outputs + c] = z[c], by
                            safe &= abs(by) < SAFE and abs(pull * by) < SAFE
                    if SAGA or not safe:  # Σ change a over the samples; SAG's is that of new ones
                        for b in range(batch):
                            i = chosen[b]
                            for c in range(outputs):
                                if SAG:
                                    place = i * outputs + c
                                    changes[b * outputs + c] = fresh[b * outputs + c] - kept[place]
                                    kept[place] = fresh[b * outputs + c]
                            for k in range(indptr[i], indptr[i + 1]):
                                at = np.int64(indices[k]) * outputs
                                for c in range(outputs):
                                    work[at + c] += changes[b * outputs + c] * values[k]
                    if SAGA and safe:
                        for b in range(batch):
                            i = chosen[b]
                            for k in range(indptr[i], indptr[i + 1]):
                                row = np.int64(indices[k])
                                if last[row] <= now:
                                    for e in range(row * outputs, (row + 1) * outputs):
                                        x[e] = shrink * x[e] + pull * work[e]
                                        x[e] -= gain * share * total[e]
                                        work[e] = 0.0
                                    last[row] = now + 1
                    for b in range(batch if safe else 0):
                        i = chosen[b]
                        for c in range(outputs):  # 0 if it was drawn twice
                            place = i * outputs + c
                            z[c] = (fresh[b * outputs + c] - kept[place]) / count
                            kept[place] = fresh[b * outputs + c]
                        for k in range(indptr[i], indptr[i + 1]):
                            at = np.int64(indices[k]) * outputs
                            for c in range(outputs):
                                total[at + c] += z[c] * values[k]
                    if not safe or t + 1 == marks[mark] or products[now + 1] < SMALL:
                        until = now + 1 if safe else now  # bring all rows up to date
                        for j in range(len(last)):
                            if last[j] < until:
                                decay = products[until] / products[last[j]]
                                lag = (sums[until] - decay * sums[last[j]]) * share
                                for e in range(j * outputs, (j + 1) * outputs):
                                    x[e] = decay * x[e] - lag * total[e]
                            last[j] = now + 1
                        products[now + 1], sums[now + 1] = 1.0, 0.0
                    if not safe:  # this step on all entries, checked
                        hot, finite = True, True
                        for j in range(dim):
                            before[j] = x[j]
                            if SAG:
                                total[j] += work[j] / count
                            x[j] = shrink * x[j] - gain * share * total[j]
                            if SAGA:
                                x[j] += pull * work[j]
                            work[j] = 0.0
                            finite &= math.isfinite(x[j])
                        for b in range(batch if SAGA else 0):
                            i = chosen[b]
                            for c in range(outputs):
                                place = i * outputs + c
                                z[c] = (fresh[b * outputs + c] - kept[place]) / count
                                kept[place] = fresh[b * outputs + c]
                            for k in range(indptr[i], indptr[i + 1]):
                                at = np.int64(indices[k]) * outputs
                                for c in range(outputs):
                                    total[at + c] += z[c] * values[k]
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

    return outputs_lagged
