"""Walker's alias table: draw a node from any distribution with one random word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levywalk.arrays import Floats, Ints32
from levywalk.draws import split


@dataclass(frozen=True, slots=True)
class AliasTable:
    """Column i returns node i with probability ``keep[i]``, and node ``other[i]`` otherwise.

    Examples
    --------
    >>> from levywalk.draws import stratified_words
    >>> table = AliasTable.of(np.array([0.5, 0.25, 0.25]))
    >>> [table.pick(word) for word in stratified_words(4)]
    [0, 1, 0, 2]
    >>> table = AliasTable.of(np.array([0.3, 0.0, 0.6, 0.1, 0.0]))
    >>> {table.pick(word) for word in stratified_words(1000)}
    {0, 2, 3}
    """

    keep: Floats
    other: Ints32

    @classmethod
    def of(cls, law: Floats) -> AliasTable:
        """Build the table of a distribution in O(n); what has probability 0 is never picked."""
        n = len(law)
        scaled = (law * (n / law.sum())).tolist()
        keep = [1.0] * n
        other = list(range(n))
        small = [i for i in range(n) if scaled[i] < 1.0]
        large = [i for i in range(n) if scaled[i] >= 1.0]
        while small and large:
            i, j = small.pop(), large[-1]
            keep[i], other[i] = scaled[i], j
            scaled[j] -= 1.0 - scaled[i]
            if scaled[j] < 1.0:
                small.append(large.pop())
        for i in small:  # rounding left it over
            if not scaled[i]:
                keep[i], other[i] = 0.0, int(np.argmax(law))
        return cls(np.array(keep), np.array(other, dtype=np.int32))

    def pick(self, word: int) -> int:
        """Return the node that the random word selects."""
        index, uniform = split(word, len(self.keep))
        return index if uniform < self.keep[index] else int(self.other[index])
