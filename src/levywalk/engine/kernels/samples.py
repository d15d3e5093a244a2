"""The loss of samples for compiled updates: slopes, curvatures, gradients and proximal steps.

``loss`` is 0 for the squared error, 1 for the logistic loss, and otherwise the address of two
addresses: those of another loss's compiled slope and of its compiled curvature, 0 if it has none.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from levywalk.engine.kernels.twins import call_slope, pointer_to
from levywalk.problem.losses.loss import CURVATURE_STEP

_STEPS = 60  # of an inner solve, as in `levywalk.updates.linear`
_DEPTH = 1e-15
# A Newton step that goes too far is halved, until it is small or ends before the line rises by more
# than this share of its first fall; at most so often that this share of it is left.
_SMALL, _BEYOND, _LEAST_SHARE = 1e-6, 0.1, 1e-6


@njit
def _own(loss):  # type: ignore[no-untyped-def]
    """Return the addresses of another loss's slope and curvature."""
    return carray(pointer_to(loss, np.int64), (2,))  # type: ignore[call-arg]


@njit
def slope_of(loss, z, y):  # type: ignore[no-untyped-def]
    """Return φ'(z, y)."""
    if loss == 0:
        return 2.0 * (z - y)
    if loss == 1:
        sign = 1.0 - 2.0 * y
        return sign / (1.0 + np.exp(-sign * z))
    return call_slope(_own(loss)[0], z, y)  # type: ignore[call-arg]


@njit
def curvature_of(loss, z, y):  # type: ignore[no-untyped-def]
    """Return φ''(z, y); for a loss without compiled curvature, by a difference of slopes."""
    if loss == 0:
        return 2.0
    if loss == 1:
        return 1.0 / ((1.0 + np.exp(-z)) * (1.0 + np.exp(z)))
    if _own(loss)[1] != 0:
        return call_slope(_own(loss)[1], z, y)  # type: ignore[call-arg]
    step = CURVATURE_STEP * (1.0 + abs(z))
    higher = slope_of(loss, z + step, y)
    lower = slope_of(loss, z - step, y)
    return (higher - lower) / (2.0 * step)


@njit
def gradient_of(model, features, targets, loss, ridge, drawn):  # type: ignore[no-untyped-def]
    """Return the gradient of a node's loss, over all samples or over those drawn."""
    count, dim = features.shape
    batch = len(drawn) if len(drawn) > 0 else count
    gradient = np.zeros(dim)
    for b in range(batch):
        i = drawn[b] if len(drawn) > 0 else b
        z = 0.0
        for j in range(dim):
            z += features[i, j] * model[j]
        slope = slope_of(loss, z, targets[i])
        for j in range(dim):
            gradient[j] += slope * features[i, j]
    for j in range(dim):
        gradient[j] = gradient[j] / batch + ridge * model[j]
    return gradient


@njit
def plain_step(model, gradient, token, kept, weight, step_size, n):  # type: ignore[no-untyped-def]
    """Make the step of SGD."""
    for j in range(len(model)):
        model[j] -= step_size * weight * gradient[j]


@njit
def proximal_slopes(loss, centre, gain, y):  # type: ignore[no-untyped-def]
    """Return φ' at the root u of u - centre + gain φ'(u, y) = 0, for a node with one sample."""
    if loss == 0:
        return 2.0 * (centre - y) / (1.0 + 2.0 * gain)
    end = centre - gain * slope_of(loss, centre, y)
    low, high, u = min(centre, end), max(centre, end), centre
    last = high - low
    for _ in range(_STEPS):
        value = u - centre + gain * slope_of(loss, u, y)
        if value > 0.0:
            high = u
        else:
            low = u
        following = u - value / (1.0 + gain * curvature_of(loss, u, y))
        # Between two flat ends Newton's method can go to and fro and never leave the interval.
        if not low <= following <= high or abs(following - u) > 0.5 * last:
            following = 0.5 * (low + high)
        last = abs(following - u)
        done = last <= _DEPTH * (1.0 + abs(u))
        u = following
        if done:
            break
    return slope_of(loss, u, y)


@njit
def proximal_rows(  # type: ignore[no-untyped-def]
    model, features, targets, loss, shrink, slopes, total
):
    """Make the proximal step of a node with several samples, by Newton's method.

    The model is the centre of the step before and its result after. Slopes are renewed, and the
    change of their gradient is added to ``total``.
    """
    count, dim = features.shape
    x, change, predictions = model.copy(), np.empty(dim), np.empty(count)
    factor, along = np.empty((dim, dim)), np.empty(count)
    for _ in range(_STEPS):
        for j in range(dim):
            change[j] = (x[j] - model[j]) / shrink
            for k in range(j + 1):
                factor[j, k] = 1.0 / shrink if j == k else 0.0
        for i in range(count):
            z = 0.0
            for j in range(dim):
                z += features[i, j] * x[j]
            predictions[i] = z
            slope = slope_of(loss, z, targets[i]) / count
            bend = curvature_of(loss, z, targets[i]) / count
            for j in range(dim):
                change[j] += slope * features[i, j]
                for k in range(j + 1):
                    factor[j, k] += bend * features[i, j] * features[i, k]
        if not solve_positive(factor, change, 0.0):
            change[:] = np.nan  # the model has overflowed
        largest = scale = pull = square = 0.0
        for j in range(dim):
            largest, scale = max(largest, abs(change[j])), max(scale, abs(x[j]))
            pull += change[j] * (x[j] - model[j])
            square += change[j] * change[j]
        share = 1.0
        if largest > _SMALL * (1.0 + scale):
            for i in range(count):
                along[i] = 0.0
                for j in range(dim):
                    along[i] += features[i, j] * change[j]
            first = _rise(loss, targets, predictions, along, pull, square, shrink, 0.0)
            while (
                share > _LEAST_SHARE
                and _rise(loss, targets, predictions, along, pull, square, shrink, share)
                < -_BEYOND * first
            ):
                share *= 0.5
        for j in range(dim):
            x[j] -= share * change[j]
        if largest <= _DEPTH * (1.0 + scale):
            break
    for i in range(count):
        z = 0.0
        for j in range(dim):
            z += features[i, j] * x[j]
        predictions[i] = z
    for i in range(count):
        slope = slope_of(loss, predictions[i], targets[i])
        renewed = (slope - slopes[i]) / count
        slopes[i] = slope
        for j in range(dim):
            model[j] -= shrink * slope / count * features[i, j]
            total[j] += renewed * features[i, j]


@njit
def _rise(  # type: ignore[no-untyped-def]
    loss, targets, predictions, along, pull, square, shrink, share
):
    """Return the derivative of the proximal step's objective against a share of a Newton step.

    It is negative beyond the lowest point of the line.
    """
    count = len(targets)
    total = 0.0
    for i in range(count):
        total += slope_of(loss, predictions[i] - share * along[i], targets[i]) * along[i]
    return (pull - share * square) / shrink + total / count


@njit
def solve_positive(factor, vector, least):  # type: ignore[no-untyped-def]
    """Solve a positive system in place, and return True; the lower triangle becomes its Cholesky
    factor.

    Return False, with the vector as it was, if a pivot is not above ``least``.
    """
    dim = len(vector)
    for j in range(dim):
        for k in range(j + 1):
            entry = factor[j, k]
            for m in range(k):
                entry -= factor[j, m] * factor[k, m]
            if k < j:
                factor[j, k] = entry / factor[k, k]
            elif entry > least:
                factor[j, j] = np.sqrt(entry)
            else:
                return False
    for j in range(dim):
        entry = vector[j]
        for k in range(j):
            entry -= factor[j, k] * vector[k]
        vector[j] = entry / factor[j, j]
    for i in range(dim):
        j = dim - 1 - i
        entry = vector[j]
        for k in range(j + 1, dim):
            entry -= factor[k, j] * vector[k]
        vector[j] = entry / factor[j, j]
    return True
