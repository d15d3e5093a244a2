"""The common case at full speed: one sample per node, one phase.

A node's data lie in one record: features, target, weight w(v), ratio t_v/d_v. The dimension is a constant of the compiled
loop up to `UNROLLED`, so that short sums are unrolled; above, it is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from levywalk.engine.kernels.moves import REORDER, move, source_tag
from levywalk.engine.kernels.words import ONE, step_hash

UNROLLED = 32


@cache
def chain_kernel(logistic: bool, dim: int) -> Callable[..., Any]:
    """Return the compiled loop for a loss and a dimension (0: any)."""
    LOGISTIC = logistic
    DIM = dim
    TAG = source_tag()

    @njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
    def chain(rows, start, stop, graph, table, records, stride, any_dim, p_jumps, distances, step_sizes, scale, ridge):  # type: ignore[no-untyped-def]
        _ = TAG
        d = np.uint64(DIM) if DIM > 0 else np.uint64(any_dim)
        at_target, at_weight, at_ratio = d, d + ONE, d + np.uint64(2)
        count_visits = rows.visits.shape[1] > 0
        keep_walk = rows.walk.shape[1] > 0

        for r in range(len(rows.node)):
            k0, k1 = rows.keys[r, 0], rows.keys[r, 1]
            v = np.uint64(rows.node[r])
            x = rows.model[r]
            active = rows.active[r]
            hops = transfers = 0
            gamma = step_sizes[0] * scale[r]
            p_jump = p_jumps[0]

            for t in range(start, stop):
                h = step_hash(k0, k1, np.uint64(t))
                if count_visits:
                    rows.visits[r, v] += 1
                if keep_walk:
                    rows.walk[r, t] = v
                if len(step_sizes) > 1:
                    gamma = step_sizes[t - start] * scale[r]
                if len(p_jumps) > 1:
                    p_jump = p_jumps[t - start]

                if active:
                    base = v * stride
                    z = 0.0
                    for j in range(d):
                        z += records[base + j] * x[j]
                    if LOGISTIC:
                        slope = 1.0 / (1.0 + np.exp(-z)) - records[base + at_target]
                    else:
                        slope = 2.0 * (z - records[base + at_target])
                    gain = gamma * records[base + at_weight]
                    slope *= gain
                    shrink = 1.0 - gain * ridge
                    for j in range(d):
                        x[j] = shrink * x[j] - slope * records[base + j]

                v, more_hops, more_transfers = move(h, v, graph, table, p_jump, distances, records, stride, at_ratio)
                hops += more_hops
                transfers += more_transfers

            rows.node[r] = v
            rows.hops[r] += hops
            rows.transfers[r] += transfers

    return chain  # type: ignore[no-any-return]
