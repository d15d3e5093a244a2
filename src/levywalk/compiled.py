"""The random words of a step for numba functions: what your own compiled twin draws from.

A compiled twin is a numba function that computes the same as a Python method. A twin of
`Walk.decide` gets ``words``, the hash of its step; ``word(words, slot)`` is the same 64 bits that
``words(slot)`` gives in `decide`. Importing this module loads numba.

Examples
--------
>>> import numpy as np
>>> split(np.uint64(1) << np.uint64(63), np.uint64(5))[0] == 2
True
"""

from __future__ import annotations

import numpy as np

from levywalk.draws import OWN as _OWN
from levywalk.engine.kernels.words import HOP, JUMP, split, unit, word

OWN = np.uint64(_OWN)

__all__ = ["HOP", "JUMP", "OWN", "split", "unit", "word"]
