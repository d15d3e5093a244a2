"""What the machine can do at best, measured by probes.c: random cache lines, lines in order,
products.

They are the limits beside which docs/performance.md plots the costs. A limit counts only what a
step cannot do without; waiting for one's own last result and the words of the step are not in it.
"""

from __future__ import annotations

from functools import cached_property, partial

from benchmarks.reference_c import RANDOM_LINES, ReferenceC
from benchmarks.timing import seconds
from levywalk.arrays import AnyArray
from levywalk.engine.kernels.machine import vector_bits
from levywalk.engine.kernels.walkers import ASKED, Tables, lines_of

LINE_BYTES = 64
_SUMS = 12  # of probes.c
RANDOM, PEAK = "limit: random cache lines", "limit: floating-point peak"


class Probes:
    """The probes of probes.c; every call measures anew."""

    def __init__(self, compiler: ReferenceC, reads: int = 204_800) -> None:
        self.library, self.reads = compiler.build_probes(), reads
        self.read = 0  # so far: each time other lines are read

    def random_line(self, table: AnyArray) -> float:
        """Return the ns that a random cache line of a table takes, if many are asked for at once.

        It is the best of asking ahead, of leaving it to the processor, and of a list of lines.
        """
        lines = max(table.nbytes // LINE_BYTES, 1)
        found = []
        for name in RANDOM_LINES:
            probe = getattr(self.library, name)
            work = partial(probe, table.ctypes.data, lines, self.reads, self.read)
            found.append(1e9 / self.reads * seconds(work))
            self.read += self.reads
        return min(found)

    def next_line(self, table: AnyArray) -> float:
        """Return the ns that a cache line takes when a table is read in order."""
        lines = max(table.nbytes // LINE_BYTES, 1)
        times = max(self.reads // lines, 1)
        took = seconds(lambda: self.library.in_order(table.ctypes.data, table.nbytes // 8, times))
        return 1e9 * took / (lines * times)

    @cached_property
    def product(self) -> float:
        """The ns of one product with its addition, in full registers that never wait."""
        lanes = vector_bits() // 64
        best = min(seconds(lambda: self.library.products(self.reads)) for _ in range(5))
        return 1e9 * best / (self.reads * _SUMS * lanes)

    def lines_of_update(self, tables: Tables, dim: int) -> float:
        """Return the ns of the cache lines of one update: the node's record and the edge.

        Beyond the first lines of a record the hardware reads ahead, so these count as in order.
        """
        lines = lines_of(dim)
        asked = min(lines, ASKED)
        found = asked * self.random_line(tables.nodes) + self.random_line(tables.edges)
        return found + (lines - asked) * self.next_line(tables.nodes) if lines > asked else found

    def lines_of_step(self, tables: Tables) -> float:
        """Return the ns of the cache lines of one step of a walk alone: the place and the edge."""
        return self.random_line(tables.places) + self.random_line(tables.edges)

    def arithmetic(self, dim: int) -> float:
        """Return the ns of the products of one update: the dot product and the step."""
        return 2 * dim * self.product
