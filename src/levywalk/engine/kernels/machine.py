"""The width of the machine's vector registers, and what the kernels choose by it.

All choices that depend on the processor are made here. They change the speed and never a bit of a
result (`levywalk.engine.kernels.rows` says how).

=====  ======  =====  ===========================================================================
bits   group   wide   chunk
=====  ======  =====  ===========================================================================
512    8       8      8: AVX-512; a line of a row is one register
256    4       8      4: AVX2; half a line is one register, and the head of a row is never read
128    2       8      2: SSE2, NEON and everything else
=====  ======  =====  ===========================================================================

A group has as many walkers as a register has numbers. Short records, and walks without a model, are
advanced in wide groups first: a loop shares its own work among more walkers, and has more that does
not wait for each other. Measured on an AMD EPYC (family 25, model 17), in CPU time relative to C by
hand of the same width, on a ring of 1,000 nodes: with 256 bits the simple random walk went from
1.36 in groups of 4 to 1.20 in groups of 8, and 64 models from 1.09 to 1.04; with 128 bits the walk
went from 1.18 in groups of 2 to 1.06 (4) and 0.99 (8), and 64 models from 1.09 to 1.04 and 1.09;
a second run had 1.03 and 0.90 for the walk, 1.10 and 1.05 for the models, in groups of 4 and of 8.
The machine was busy, and single runs differ by about 0.05.
Words that are computed walker by walker, by the multiplication of 64 bits that vectors of 128 lack,
made the walk 1.39 and 64 models 1.26.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from numba.core import config as numba_config

from levywalk.errors import InvalidParameter


class Shape(NamedTuple):
    """How many walkers a group and a wide group have, and how many numbers an instruction has."""

    bits: int
    group: int
    wide: int
    chunk: int


config: Any = numba_config  # numba makes its attributes at run time
SHAPES = {
    512: Shape(512, 8, 8, 8),
    256: Shape(256, 4, 8, 4),
    128: Shape(128, 2, 8, 2),
}


@cache
def vector_bits() -> int:
    """Return the width of the vector registers that compiled code may use, in bits.

    It is what LLVM reports of this machine, or what ``NUMBA_CPU_FEATURES`` restricts it to.
    The variable ``LEVYWALK_VECTOR_BITS`` selects the shape of another width; LLVM splits its
    vectors where the machine's are shorter.

    Examples
    --------
    >>> vector_bits() in SHAPES
    True
    """
    asked = os.environ.get("LEVYWALK_VECTOR_BITS", "")
    if asked:
        if asked not in map(str, SHAPES):
            raise InvalidParameter(
                f"LEVYWALK_VECTOR_BITS must be 128, 256 or 512, got {asked!r}; unset it"
            )
        return int(asked)
    if config.CPU_FEATURES is not None:
        features = set(str(config.CPU_FEATURES).split(","))
    elif config.CPU_NAME == "generic":
        features = set()
    else:
        features = {f"+{name}" for name, has in llvm.get_host_cpu_features().items() if has}
    if {"+avx512f", "+avx512dq", "+avx512vl"} <= features:
        return 512
    return 256 if "+avx2" in features else 128


def shape() -> Shape:
    """Return the choices for this machine."""
    return SHAPES[vector_bits()]
