"""Losses with several outputs in the plain loop: softmax, and squares of several outputs.

The model has one row per feature, with the numbers of all outputs side by side, and is one vector.
Eight outputs at a time are computed in lanes, then four, two and one: a number's sum has one order,
whatever the machine and the number of outputs.

Functions get addresses instead of arrays: an array that is passed to a function costs two atomic
reference counts, which together would take a quarter of the time of an update.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from levywalk.engine.kernels.sigmoid import exponential
from levywalk.engine.kernels.twins import pointer_to
from levywalk.engine.kernels.vectors import load, multiply_add, store

SOFTMAX, SQUARES = 3, 4  # numbers of losses, beside those of `levywalk.engine.kernels.loop`


def room_of(outputs: int) -> int:
    """Return how many numbers the slopes of a sample need: whole lanes, and a lane of zeros."""
    return -(-outputs // 8) * 8 + 8


@njit(inline="always")
def _numbers(address, count):  # type: ignore[no-untyped-def]
    return carray(pointer_to(address, np.float64), (count,))  # type: ignore[call-arg]


def _lanes_of_predictions(LANES: int) -> Callable[..., None]:
    """Return a function that writes the predictions of LANES outputs, beginning at c."""

    @njit(inline="always")
    def predict(row, model, width, outputs, slopes, room, c):  # type: ignore[no-untyped-def]
        step, at = np.uint64(outputs), np.uint64(c)
        zero = load(slopes, room, LANES)
        one, two, three, four = zero, zero, zero, zero
        for j in range(0, width - width % 4, 4):
            one = multiply_add(load(model, at, LANES), row[j], one)
            two = multiply_add(load(model, at + step, LANES), row[j + 1], two)
            three = multiply_add(load(model, at + step + step, LANES), row[j + 2], three)
            four = multiply_add(load(model, at + step + step + step, LANES), row[j + 3], four)
            at += step + step + step + step
        for j in range(width - width % 4, width):
            one = multiply_add(load(model, at, LANES), row[j], one)
            at += step
        store(slopes, np.uint64(c), (one + two) + (three + four))

    return predict


_eight, _four, _two, _one = (_lanes_of_predictions(count) for count in (8, 4, 2, 1))


@njit
def softmax_slopes(z, outputs, label):  # type: ignore[no-untyped-def]
    """Replace predictions by the slopes of the softmax loss; z has room for whole lanes of four."""
    highest = z[0]
    for c in range(1, outputs):
        if z[c] > highest:
            highest = z[c]
    for c in range(0, outputs, 4):
        store(z, np.uint64(c), exponential(load(z, np.uint64(c), 4) - highest))
    total = 0.0
    for c in range(outputs):
        total += z[c]
    share = 1.0 / total
    for c in range(outputs):
        z[c] *= share
    z[label] -= 1.0


@njit
def slopes_at(  # type: ignore[no-untyped-def]
    row_at, model_at, target_at, loss, width, outputs, slopes_at
):
    """Write the slopes of the sample at an address, to an address with the room of `room_of`."""
    room = np.uint64((outputs + 7) // 8 * 8)
    row, model = _numbers(row_at, width), _numbers(model_at, width * outputs)
    slopes = _numbers(slopes_at, room + np.uint64(8))
    for k in range(room, room + np.uint64(8)):
        slopes[k] = 0.0
    c = 0
    while c + 8 <= outputs:
        _eight(row, model, width, outputs, slopes, room, c)
        c += 8
    if c + 4 <= outputs:
        _four(row, model, width, outputs, slopes, room, c)
        c += 4
    if c + 2 <= outputs:
        _two(row, model, width, outputs, slopes, room, c)
        c += 2
    if c < outputs:
        _one(row, model, width, outputs, slopes, room, c)
    if loss == SQUARES:
        target = _numbers(target_at, outputs)
        for k in range(outputs):
            slopes[k] = 2.0 * (slopes[k] - target[k])
        return
    softmax_slopes(slopes, outputs, np.int64(_numbers(target_at, 1)[0]))


@njit
def add_at(model_at, row_at, slopes_at, width, outputs, shrink):  # type: ignore[no-untyped-def]
    """Multiply a model by ``shrink``, and add the product of a sample's features and its slopes."""
    row, model = _numbers(row_at, width), _numbers(model_at, width * outputs)
    slopes = _numbers(slopes_at, outputs)
    step = np.uint64(outputs)
    at, c = np.uint64(0), 0
    while c + 8 <= outputs:
        some, at = load(slopes, np.uint64(c), 8), np.uint64(c)
        for j in range(width):
            store(model, at, multiply_add(load(model, at, 8), shrink, some * row[j]))
            at += step
        c += 8
    if c + 4 <= outputs:
        four, at = load(slopes, np.uint64(c), 4), np.uint64(c)
        for j in range(width):
            store(model, at, multiply_add(load(model, at, 4), shrink, four * row[j]))
            at += step
        c += 4
    if c + 2 <= outputs:
        two, at = load(slopes, np.uint64(c), 2), np.uint64(c)
        for j in range(width):
            store(model, at, multiply_add(load(model, at, 2), shrink, two * row[j]))
            at += step
        c += 2
    if c < outputs:
        for j in range(width):
            place = j * outputs + c
            model[place] = multiply_add(model[place], shrink, slopes[c] * row[j])


@njit
def output_slopes(  # type: ignore[no-untyped-def]
    features, i, model, targets, loss, outputs, slopes
):
    """Write the slopes of sample i to ``slopes``, which has the room of `room_of`."""
    width = features.shape[1]
    columns = outputs if loss == SQUARES else 1
    slopes_at(
        np.int64(features.ctypes.data) + i * width * 8,
        np.int64(model.ctypes.data),
        np.int64(targets.ctypes.data) + i * columns * 8,
        loss, width, outputs,
        np.int64(slopes.ctypes.data),
    )  # fmt: skip


@njit
def add_outputs(model, features, i, slopes, outputs, shrink):  # type: ignore[no-untyped-def]
    """Multiply a model by ``shrink``, and add the product of sample i's features and its slopes."""
    width = features.shape[1]
    row = np.int64(features.ctypes.data) + i * width * 8
    model_at, place = np.int64(model.ctypes.data), np.int64(slopes.ctypes.data)
    add_at(model_at, row, place, width, outputs, shrink)
