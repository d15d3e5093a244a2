"""Errors of many models at once; the result of a model does not depend on the other models.

``models[r, m]`` is replica r's model at mark m, and ``errors[r, :, column + m]`` are its distance2,
excess_loss and loss. The errors are infinite, and not NaN, for a model that has overflowed or is so
large that sums of products are inf - inf.

`LANES` models are measured side by side, one in each lane of a vector, since a short walk spends
much of its time here. Every sum has one order, whatever the machine: over the dimensions there are
four sums side by side, and only the logistic loss fuses products with them. A compiler that may
reorder sums chooses the order by where the arrays lie in memory, so that the last digits would
differ from run to run.
"""

from __future__ import annotations

from math import isfinite, log

import numpy as np

from levywalk.arrays import Bools, Floats, Ints
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.sigmoid import exponential
from levywalk.engine.kernels.vectors import choose, load, multiply_add, store

LANES = 8  # models side by side
_FACTORS = 32  # factors in [1, 2] per product, which is then at most 2^32


@kernel()
def distances2(models, active, optimum, errors, column):  # type: ignore[no-untyped-def]
    """Write only ‖x - x*‖²."""
    dim = models.shape[2]
    whole = dim - dim % 4
    for r in range(models.shape[0]):
        for m in range(models.shape[1]):
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for j in range(0, whole, 4):
                one += (models[r, m, j] - optimum[j]) ** 2
                two += (models[r, m, j + 1] - optimum[j + 1]) ** 2
                three += (models[r, m, j + 2] - optimum[j + 2]) ** 2
                four += (models[r, m, j + 3] - optimum[j + 3]) ** 2
            for j in range(whole, dim):
                one += (models[r, m, j] - optimum[j]) ** 2
            total = (one + two) + (three + four)
            errors[r, 0, column + m] = total if active[r, m] and isfinite(total) else np.inf


def quadratic_excess(
    models: Floats,
    active: Bools,
    optimum: Floats,
    hessian: Floats,
    least: float,
    errors: Floats,
    column: int,
) -> None:
    """Write all errors of least squares, where f(x) - f(x*) is ½(x - x*)ᵀH(x - x*).

    The cost does not depend on the number of samples.
    """
    room = np.empty(LANES * (models.shape[2] + 3))
    _quadratic_excess(models, active, optimum, hessian, least, room, errors, column)


@kernel()
def _quadratic_excess(  # type: ignore[no-untyped-def]
    models, active, optimum, hessian, least, room, errors, column
):
    """``room`` is for the gaps x - x* of `LANES` models with the lanes side by side, then for a
    line of zeros and two lines of results.
    """
    marks, dim = models.shape[1], models.shape[2]
    whole, count = dim - dim % 4, models.shape[0] * models.shape[1]
    zeros, squares, excesses = LANES * dim, LANES * (dim + 1), LANES * (dim + 2)
    room[:] = 0.0
    r = m = row = mark = 0  # the next model to be read, and the next to be written
    for first in range(0, count, LANES):
        lanes = LANES if first + LANES < count else count - first
        for k in range(lanes):  # the other lanes keep what they had
            for j in range(dim):
                room[LANES * j + k] = models[r, m, j] - optimum[j]
            m += 1
            if m == marks:
                r, m = r + 1, 0
        zero = load(room, zeros, LANES)
        one, two, three, four = zero, zero, zero, zero
        for j in range(0, whole, 4):
            a, b = load(room, LANES * j, LANES), load(room, LANES * (j + 1), LANES)
            c, d = load(room, LANES * (j + 2), LANES), load(room, LANES * (j + 3), LANES)
            one, two, three, four = one + a * a, two + b * b, three + c * c, four + d * d
        for j in range(whole, dim):
            a = load(room, LANES * j, LANES)
            one = one + a * a
        store(room, squares, (one + two) + (three + four))
        total = zero
        for i in range(dim):
            some, own = i - i % 4, load(room, LANES * i, LANES)
            one, two, three, four = own * (0.5 * hessian[i, i]), zero, zero, zero
            for j in range(0, some, 4):
                one = one + load(room, LANES * j, LANES) * hessian[i, j]
                two = two + load(room, LANES * (j + 1), LANES) * hessian[i, j + 1]
                three = three + load(room, LANES * (j + 2), LANES) * hessian[i, j + 2]
                four = four + load(room, LANES * (j + 3), LANES) * hessian[i, j + 3]
            for j in range(some, i):
                one = one + load(room, LANES * j, LANES) * hessian[i, j]
            total = total + ((one + two) + (three + four)) * own
        store(room, excesses, total)
        for k in range(lanes):
            square, half = room[squares + k], room[excesses + k]
            excess = (half if half > 0.0 else 0.0) if isfinite(half) else np.inf
            known = active[row, mark]
            errors[row, 0, column + mark] = square if known and isfinite(square) else np.inf
            errors[row, 1, column + mark] = excess if known else np.inf
            errors[row, 2, column + mark] = excess + least if known else np.inf
            mark += 1
            if mark == marks:
                row, mark = row + 1, 0


def logistic_loss(
    models: Floats, features: Floats, targets: Floats, offsets: Ints, ridge: float, out: Floats
) -> None:
    """Write f(x) of each row: the mean over nodes of the node's mean, plus the ridge term."""
    groups = -(-len(models) // LANES)
    room = np.empty(LANES * (groups * (models.shape[1] + 1) + 2))
    _logistic_loss(models, features, targets, offsets, ridge, room, out)


@kernel()
def _logistic_loss(  # type: ignore[no-untyped-def]
    models, features, targets, offsets, ridge, room, out
):
    """Samples are read once for all models. With log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), one
    logarithm is taken of the product of the terms of `_FACTORS` samples. ``room`` is for the
    entries of every group of models, with the lanes side by side, and the sums so far, then for a
    line of zeros and one of products.
    """
    nodes, count, dim = len(offsets) - 1, models.shape[0], models.shape[1]
    groups = (count + LANES - 1) // LANES
    whole, size = dim - dim % 4, LANES * (dim + 1)
    zeros, products = groups * size, groups * size + LANES
    for k in range(LANES):
        room[zeros + k] = 0.0
    zero = load(room, zeros, LANES)
    for g in range(groups):
        square = zero
        for k in range(LANES):
            r = min(LANES * g + k, count - 1)
            for j in range(dim):
                room[g * size + LANES * j + k] = models[r, j]
        for j in range(dim):
            entry = load(room, g * size + LANES * j, LANES)
            square = multiply_add(entry, entry, square)
        store(room, g * size + LANES * dim, square * (0.5 * ridge))
    for v in range(nodes):
        share = 1.0 / (nodes * (offsets[v + 1] - offsets[v]))
        for start in range(offsets[v], offsets[v + 1], _FACTORS):
            stop = min(start + _FACTORS, offsets[v + 1])
            for g in range(groups):
                total, product = zero, zero + 1.0
                for i in range(start, stop):
                    at, one, two, three, four = g * size, zero, zero, zero, zero
                    for j in range(0, whole, 4):
                        a, b = load(room, at, LANES), load(room, at + LANES, LANES)
                        c, d = load(room, at + 2 * LANES, LANES), load(room, at + 3 * LANES, LANES)
                        one = multiply_add(a, features[i, j], one)
                        two = multiply_add(b, features[i, j + 1], two)
                        three = multiply_add(c, features[i, j + 2], three)
                        four = multiply_add(d, features[i, j + 3], four)
                        at += 4 * LANES
                    for j in range(whole, dim):
                        one = multiply_add(load(room, at, LANES), features[i, j], one)
                        at += LANES
                    z = (one + two) + (three + four)
                    above = z > 0.0
                    product = product * (exponential(choose(above, z * -1.0, z)) + 1.0)
                    total = total + (choose(above, z, 0.0) - z * targets[i])
                store(room, products, product)
                for k in range(LANES):
                    room[products + k] = log(room[products + k])
                total = total + load(room, products, LANES)
                at = g * size + LANES * dim
                store(room, at, multiply_add(total, share, load(room, at, LANES)))
    for r in range(count):
        out[r] = room[r // LANES * size + LANES * dim + r % LANES]
