"""Pack a network, a problem and a design into the tables that `levywalk.engine.kernels.walkers`
reads.

Memory, in bytes: 8 per direction of an edge, and per node 8 + 64 ⌈(dim + 4)/8⌉ with one sample
each, or 8 + 32 with many plus 64 ⌈(dim + 4)/8⌉ per sample; 16 more per node for i.i.d. sampling.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from levywalk.arrays import Floats, Words64
from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.machine import shape
from levywalk.engine.kernels.rows import HEAD
from levywalk.engine.kernels.vectors import LINE
from levywalk.engine.kernels.walkers import (
    FAR,
    MANY,
    MIDDLE,
    NEAR,
    ONE,
    PLACE,
    RATIO,
    SAMPLES,
    TARGET,
    WALK,
    WEIGHT,
    Tables,
    lines_of,
)
from levywalk.engine.kernels.words import BIT, LOW, S32, unit
from levywalk.network import Network
from levywalk.problem import GeneralizedLinear
from levywalk.updates import Update
from levywalk.walks import BoundWalk

# Edges above the first size are in a slow cache: then prefetching them is worth its cost. Tables
# above the second are in a slower one or in memory: then nodes are prefetched too, and more walkers
# take turns meanwhile.
_NEAR_EDGES, _NEAR = 2**18, 2 * 2**20
_NEAR_TURNS, _FAR_TURNS = 32, 64
# The models of a batch should stay in the first-level cache. For records that are longer than this,
# the record of one walker should also stay there between its dot product and its step. Then walkers
# are advanced one by one, since they do not have to wait for memory.
_MODELS = 16 * 2**10
_WIDEST = 20
# Wide groups share what a loop does once for each group; with longer records there is less of it,
# and more code to compile.
_WIDE_LINES = 2
_WORD = 2**32
_NEARBY = np.uint64(2)


def fit(problem: GeneralizedLinear) -> bool:
    """Return whether the number of samples fits in 32 bits; the edges of a network always do."""
    return int(problem.n_samples) < _WORD


def kind_of(problem: GeneralizedLinear | None) -> int:
    """Return the layout: the walk alone, one sample per node, or many."""
    if problem is None:
        return WALK
    return ONE if problem.n_samples == problem.n else MANY


def width_of(lines: int) -> int:
    """Return how many walkers to advance at once in vector lanes."""
    return shape().group if lines <= _WIDEST else 1


def widths_of(lines: int, kind: int, iid: bool) -> tuple[int, ...]:
    """Return the groups into which replicas are divided, the largest first and single ones last."""
    width = width_of(lines)
    wide = kind != MANY and not iid and lines <= _WIDE_LINES
    return tuple(dict.fromkeys((shape().wide if wide else width, width, 1)))


def parts_of(start: int, stop: int, widths: tuple[int, ...]) -> list[tuple[int, slice]]:
    """Return which replicas are advanced in groups of which width; empty parts are left out.

    Examples
    --------
    >>> parts_of(0, 21, (8, 4, 1))
    [(8, slice(0, 16, None)), (4, slice(16, 20, None)), (1, slice(20, 21, None))]
    >>> parts_of(3, 7, (8, 4, 1))
    [(4, slice(3, 7, None))]
    """
    parts = []
    for width in widths:
        end = start + (stop - start) // width * width
        if end > start:
            parts.append((width, slice(start, end)))
        start = end
    return parts


def pack(
    network: Network, bound: BoundWalk, problem: GeneralizedLinear | None, update: Update | None
) -> tuple[Tables, int]:
    """Return the tables, and where they are: `NEAR`, `MIDDLE` or `FAR`."""
    lines = 0 if problem is None else lines_of(problem.dim)
    nodes, samples, heads = np.empty(0), np.empty(0), np.empty(0, np.uint64)
    places = _places(network)
    ratios = bound.ratio
    if problem is not None:
        table, samples = pack_samples(problem)
        table[:, WEIGHT], table[:, RATIO] = bound.weights, ratios
        table.view(np.uint64)[:, PLACE] = places
        nodes = ratios = table.reshape(-1)
        heads = nodes.view(np.uint64)
    edges = np.empty(0, np.uint64)
    keep, other = np.empty(0), np.empty(0, np.uint64)
    if bound.table is None:
        edges = np.empty(
            len(network.indices), np.uint64
        )  # allocated by numpy and not by numba, because numpy requests large pages
        _edge_words(network.indptr, network.indices, bound.ratio, edges)
    else:
        keep, other = bound.table.keep, bound.table.other.astype(np.uint64)
    size = sum(array.nbytes for array in (nodes, places, edges, samples, keep, other))
    reach = FAR if is_far(size) else MIDDLE if edges.nbytes > _NEAR_EDGES else NEAR
    tables = Tables(
        nodes,
        heads,
        places,
        ratios,
        edges,
        network.indices.view(np.uint32),
        samples,
        lines,
        np.uint64(getattr(update, "minibatch", None) or 0),
        0.0 if problem is None else problem.ridge,
        keep,
        other,
        batch_of(lines, reach == FAR),
    )
    return tables, reach


def is_far(size: int) -> bool:
    """Return whether tables of so many bytes are larger than the fast caches."""
    return size > _NEAR


def pack_samples(problem: GeneralizedLinear) -> tuple[Floats, Floats]:
    """Return the records of the nodes without weights, ratios and places, and the samples.

    The samples are empty if every node has one, which is then in its record.
    """
    lines, kind = lines_of(problem.dim), kind_of(problem)
    table = aligned_rows(problem.n, HEAD if kind == MANY else lines * LINE)
    rows = table
    if kind == MANY:
        table.view(np.uint64)[:, SAMPLES] = _both(problem.offsets[:-1], np.diff(problem.offsets))
        rows = aligned_rows(problem.n_samples, lines * LINE)
    rows[:, TARGET] = problem.sorted_targets
    rows[:, HEAD : HEAD + problem.dim] = problem.sorted_features
    return table, rows.reshape(-1) if kind == MANY else np.empty(0)


def batch_of(lines: int, far: bool) -> int:
    """Return how many walkers take turns."""
    width = width_of(lines)
    turns = (_FAR_TURNS if far else _NEAR_TURNS) if width > 1 else 1
    if not lines:  # no models, so more walkers fit into the first-level cache
        turns = _FAR_TURNS
    return max(width, min(turns, _MODELS // (8 * LINE * max(lines, 1)) // width * width))


def aligned_rows(count: int, width: int) -> Floats:
    """Return rows of zeros; the first row begins at a cache line.

    Examples
    --------
    >>> aligned_rows(3, 8).ctypes.data % 64
    0
    """
    raw = np.zeros(count * width + LINE)
    shift = (-(raw.ctypes.data // 8)) % LINE
    return raw[shift : shift + count * width].reshape(count, width)


def padded_rows(problem: GeneralizedLinear) -> Floats:
    """Return the features of all samples, each row padded with zeros to whole lines."""
    rows = aligned_rows(problem.n_samples, lines_of(problem.dim) * LINE)
    rows[:, HEAD : HEAD + problem.dim] = problem.sorted_features
    return rows.reshape(-1)


def _places(network: Network) -> Words64:
    """Return each node's first edge and degree, packed into one word."""
    return _both(network.indptr[:-1], network.degree)


def _both(first: np.ndarray, count: np.ndarray) -> Words64:
    return (first.astype(np.uint64) << np.uint64(32)) | count.astype(np.uint64)


@kernel()
def _edge_words(indptr, indices, ratio, edges):  # type: ignore[no-untyped-def]
    """Write each edge's neighbour and the upper 32 bits of its acceptance probability.

    The probability is min(1, ratio_u / ratio_v).

    A fraction is compared with its upper 32 bits only: below the threshold all fractions with these
    bits are accepted, above it none, and at the threshold the walkers compare the ratios
    themselves. Therefore the threshold is the least number whose largest fraction is not accepted.
    """
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            scaled = ratio[u] / ratio[v] * 4294967296.0
            if scaled > 4294967295.0:
                scaled = 4294967295.0
            # 0 / 0, if scores are so small that ratios round to zero: never accepted
            if not scaled >= 0.0:
                scaled = 0.0
            edges[e] = (_threshold(np.uint64(scaled), ratio[v], ratio[u]) << S32) | np.uint64(u)


@njit
def _threshold(guess, mine, theirs):  # type: ignore[no-untyped-def]
    """Return the least number whose largest fraction is not accepted, at most 2^32 - 1.

    It is within two of the guess, unless the ratios are so small that their products round to zero.
    """
    low = guess - _NEARBY if guess > _NEARBY else guess - guess
    high = guess + _NEARBY if guess + _NEARBY < LOW else LOW
    if (low > 0 and not _all_accepted(low - BIT, mine, theirs)) or (
        high < LOW and _all_accepted(high, mine, theirs)
    ):
        low, high = guess - guess, LOW
    while low < high:
        middle = (low + high) >> BIT
        if _all_accepted(middle, mine, theirs):
            low = middle + BIT
        else:
            high = middle
    return low


@njit(inline="always")
def _all_accepted(upper, mine, theirs):  # type: ignore[no-untyped-def]
    """Return whether the largest fraction with these upper 32 bits is accepted."""
    return unit((upper << S32) | LOW) * mine < theirs
