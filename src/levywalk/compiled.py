"""For numba functions: the random words of a step, and the loss of a sample.

A compiled twin is a numba function that computes the same as a Python method. A twin of
`Walk.decide` gets ``words``, the hash of its step; ``word(words, slot)`` is the same 64 bits that
``words(slot)`` gives in `decide`. Importing this module loads numba.

Examples
--------
>>> import numpy as np
>>> split(np.uint64(1) << np.uint64(63), np.uint64(5))[0] == 2
True

A twin of `Update.apply` that is given samples (`Update.compiled_linear`) gets ``loss``, a number
that stands for the problem's loss; ``slope_of(loss, z, y)`` is its slope. ``exponential(z)`` has
the same bits on every machine, which the exponential of a library does not promise.

>>> round(exponential(1.0), 12)
2.718281828459
"""

from __future__ import annotations

import numpy as np

from levywalk.draws import OWN as _OWN
from levywalk.engine.kernels.samples import (
    curvature_of,
    gradient_of,
    plain_step,
    proximal_rows,
    proximal_slopes,
    slope_of,
    solve_positive,
)
from levywalk.engine.kernels.several_outputs import add_outputs, output_slopes, room_of
from levywalk.engine.kernels.sigmoid import exponential_of as exponential
from levywalk.engine.kernels.words import HOP, JUMP, mix64, split, unit, word

OWN = np.uint64(_OWN)

__all__ = [
    "HOP",
    "JUMP",
    "OWN",
    "add_outputs",
    "curvature_of",
    "exponential",
    "gradient_of",
    "mix64",
    "output_slopes",
    "plain_step",
    "proximal_rows",
    "proximal_slopes",
    "room_of",
    "slope_of",
    "solve_positive",
    "split",
    "unit",
    "word",
]
