"""Plain SGD under privacy along walks that are already known: clip, noise and count.

The walk of a piece is known before (`levywalk.engine.kernels.walk_then_update`), since neither the
model nor a budget decides where it goes. A visit is that of `levywalk.privacy.private_data`: each
sample's gradient times w(v) is clipped, the mean gets the noise of the words of its step, and the
node counts the release; a node that has made as many as its cap passes the model on as it is.

For a linear model the norm of a sample's gradient is ‖a‖ ‖φ'‖, so that it is known before the
gradient is: ``squares`` has ‖a‖² of each sample, summed as the reference sums it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from levywalk.arrays import Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.normals import normals_at, room_for_normals
from levywalk.engine.kernels.samples import slope_of
from levywalk.engine.kernels.several_outputs import add_at, room_of, slopes_at
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.kernels.words import step_hash


class PrivateReplicas(NamedTuple):
    """The replicas' state, which the loop changes in place."""

    keys: Words64  # (replicas, 4): the key of the walk, and behind it that of the noise
    scale: Floats
    active: Bools
    model: Floats
    releases: Ints  # (replicas, nodes): how many each node has made
    diverged_at: Ints
    walk: Ints32  # (replicas, steps of the piece): the node of each update


class PrivateRows(NamedTuple):
    """The samples by node; offsets, weights and spreads by the network's numbers of nodes."""

    features: Floats
    targets: Floats
    squares: Floats
    offsets: Ints
    weights: Floats
    spreads: Floats  # the standard deviation of a release's noise
    loss: int  # as in `samples` for one output, and as in `several_outputs` for several
    outputs: int
    columns: int  # targets of a sample
    ridge: float
    clip: float
    cap: int  # releases that a node may make


class PrivateScratch(NamedTuple):
    """Buffers of one call."""

    gradient: Floats
    before: Floats
    slopes: Floats  # of one sample
    noise: Floats
    middle: Floats


def private_scratch(dim: int, outputs: int) -> PrivateScratch:
    """Return the buffers of one call of the loop."""
    return PrivateScratch(
        np.zeros(dim),
        np.zeros(dim),
        np.zeros(room_of(outputs)),
        np.zeros(room_for_normals(dim)),
        np.zeros(room_for_normals(dim)),
    )


@cache
def compiled_private(several: bool) -> Callable[..., None]:
    """Return the loop for losses with one output, or with several.

    It is one function because arrays that are passed to functions cost reference counts; those
    that it calls get addresses.
    """
    TAG, SEVERAL = source_tag(), several

    @kernel()
    def private_sgd(
        rows: Any, seen: Any, start: int, marks: Any, data: Any, step_sizes: Any, scratch: Any
    ) -> None:
        _ = TAG
        features, targets, squares, offsets = (
            data.features, data.targets, data.squares, data.offsets,
        )  # fmt: skip
        loss, outputs, clip, cap = data.loss, data.outputs, data.clip, data.cap
        gradient, before, slopes = scratch.gradient, scratch.before, scratch.slopes
        noise = scratch.noise
        noise_at, middle_at = np.int64(noise.ctypes.data), np.int64(scratch.middle.ctypes.data)
        features_at, targets_at = np.int64(features.ctypes.data), np.int64(targets.ctypes.data)
        gradient_at, own_slopes_at = np.int64(gradient.ctypes.data), np.int64(slopes.ctypes.data)
        many, dim, width = len(step_sizes) > 1, rows.model.shape[1], features.shape[1]
        for r in range(len(rows.scale)):
            x, walk, active, made = rows.model[r], rows.walk[r], rows.active[r], rows.releases[r]
            model_at = np.int64(x.ctypes.data)
            mark = 0
            for t in range(start, marks[-1]):
                v = walk[t - start]
                if active and made[v] < cap:
                    made[v] += 1
                    first, count, weight = offsets[v], offsets[v + 1] - offsets[v], data.weights[v]
                    for j in range(dim):
                        gradient[j] = 0.0
                    for i in range(first, first + count):
                        if SEVERAL:
                            row_at = features_at + i * width * 8
                            target_at = targets_at + i * data.columns * 8
                            slopes_at(
                                row_at, model_at, target_at, loss, width, outputs, own_slopes_at
                            )
                            power = 0.0
                            for c in range(outputs):
                                power += slopes[c] * slopes[c]
                        else:
                            # Four sums, so that additions need not wait for each other.
                            z, one, two, three = 0.0, 0.0, 0.0, 0.0
                            for j in range(0, width - width % 4, 4):
                                z += features[i, j] * x[j]
                                one += features[i, j + 1] * x[j + 1]
                                two += features[i, j + 2] * x[j + 2]
                                three += features[i, j + 3] * x[j + 3]
                            for j in range(width - width % 4, width):
                                z += features[i, j] * x[j]
                            z = (z + one) + (two + three)
                            slope = slope_of(loss, z, targets[i])
                            power = slope * slope
                        factor = clip / (weight * math.sqrt(squares[i] * power))
                        if factor > 1.0:  # NaN stays
                            factor = 1.0
                        factor *= weight / count
                        if SEVERAL:
                            for c in range(outputs):
                                slopes[c] *= factor
                            add_at(gradient_at, row_at, own_slopes_at, width, outputs, 1.0)
                        else:
                            slope *= factor
                            for j in range(width):
                                gradient[j] += slope * features[i, j]
                    h = step_hash(rows.keys[r, 2], rows.keys[r, 3], np.uint64(t))
                    normals_at(noise_at, middle_at, dim, h)
                    size = rows.scale[r] * step_sizes[t - start if many else 0]
                    spread, pull = data.spreads[v], weight * data.ridge
                    finite = True
                    for j in range(dim):
                        before[j] = x[j]
                        x[j] -= size * (gradient[j] + spread * noise[j] + pull * x[j])
                        finite &= math.isfinite(x[j])
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

    return private_sgd
