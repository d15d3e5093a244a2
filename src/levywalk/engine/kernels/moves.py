"""Where the model goes after an update: the compiled twin of `levywalk.design.rule` and `levywalk.engine.reference.move`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from levywalk.arrays import AnyArray, Bools, Floats, Ints, Ints32, Words
from levywalk.engine.kernels.words import HOP, JUMP, ONE, slot_word, split, unit

# Sums may be reordered and fused (models agree with the oracle's to rounding); NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}


class Graph(NamedTuple):
    """The network as unsigned CSR: unsigned indices need no wrap-around test."""

    indptr: AnyArray
    indices: AnyArray


class Table(NamedTuple):
    """The alias table of i.i.d. sampling; empty for a walk."""

    keep: Floats
    other: Ints32


class Rows(NamedTuple):
    """The replicas' state that a loop changes in place; visits and walk have no columns when not recorded."""

    keys: Words
    node: Ints
    model: Floats
    active: Bools
    hops: Ints
    transfers: Ints
    visits: Ints
    walk: Ints32


@njit(forceinline=True, error_model="numpy")
def move(h, v, graph, table, p_jump, distances, ratios, stride, offset):  # type: ignore[no-untyped-def]
    """Return the next node, the hops and the transfers; node u's ratio lies at ``ratios[u * stride + offset]``."""
    indptr, indices = graph.indptr, graph.indices
    if len(table.keep) > 0:
        index, uniform = split(slot_word(h, HOP), np.uint64(len(table.keep)))
        u = index if uniform < table.keep[index] else np.uint64(table.other[index])
        return u, 1, np.int64(u != v)

    if p_jump > 0.0:
        uniform = unit(slot_word(h, JUMP))
        if uniform < p_jump:
            distance = 1
            while uniform >= p_jump * distances[distance - 1]:
                distance += 1
            transfers = 0
            for i in range(distance):
                first = indptr[v]
                index, _ = split(slot_word(h, HOP + np.uint64(i)), indptr[v + ONE] - first)
                u = np.uint64(indices[first + index])
                transfers += np.int64(u != v)
                v = u
            return v, distance, transfers

    first = indptr[v]
    index, uniform = split(slot_word(h, HOP), indptr[v + ONE] - first)
    u = np.uint64(indices[first + index])
    if uniform * ratios[v * stride + offset] < ratios[u * stride + offset]:
        return u, 1, np.int64(u != v)
    return v, 1, 0


def source_tag() -> int:
    """Return a number that changes with any source file of the kernels.

    numba keys its cache on the file of the outermost function alone; a kernel that closes over this number is compiled anew
    when a file that it calls into has changed.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:4], "big")
