"""`LinkTimes`: what messages take on the links of a network, if the links differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from levywalk.arrays import Floats
from levywalk.network import Network
from levywalk.trace import Costs


class LinkTimes(NamedTuple):
    """The seconds of messages on each link, for a walk that adds them up hop by hop."""

    network: Network
    factors: Floats  # by the place in network.indices
    latency: float
    transfer: float  # seconds of a token on an ordinary link

    @classmethod
    def of(cls, costs: Costs | None, network: Network, token_bytes: int) -> LinkTimes | None:
        """Return the times of a network's links, or None if they are all alike.

        Examples
        --------
        >>> import levywalk as lw
        >>> costs = lw.Costs(0.0, latency=1.0, bandwidth=10.0, per_link={(0, 1): 3.0})
        >>> times = LinkTimes.of(costs, lw.path(3), token_bytes=20)
        >>> times.sent(1, 0), times.sent(1, 2), times.asked(1, [0, 2])
        (9.0, 3.0, 8.0)
        """
        factors = None if costs is None else costs.link_factors(network.indptr, network.indices)
        if costs is None or factors is None:
            return None
        return cls(network, factors, float(costs.latency), costs.message(token_bytes))

    def sent(self, u: int, v: int) -> float:
        """Return the seconds of a token from u to v."""
        return self.transfer * self._factor(u, v)

    def asked(self, u: int, nodes: Sequence[int]) -> float:
        """Return the seconds of questions from u to some nodes, and of their answers."""
        return 2.0 * self.latency * sum(self._factor(u, v) for v in nodes)

    def _factor(self, u: int, v: int) -> float:
        first, last = self.network.indptr[u : u + 2]
        place = first + np.searchsorted(self.network.indices[first:last], v)
        known = place < last and self.network.indices[place] == v
        return float(self.factors[place]) if known else 1.0  # a server reaches all nodes alike
