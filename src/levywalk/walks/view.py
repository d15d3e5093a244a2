"""What a node knows when it decides where the model goes, and the decision that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from levywalk.arrays import Floats
from levywalk.walks.alias import AliasTable

if TYPE_CHECKING:
    from levywalk.network import Network


class Decision(NamedTuple):
    """Where the model goes, and how many more hops it makes without an update.

    Examples
    --------
    >>> Decision(3)
    Decision(to=3, hops_left=0)
    """

    to: int
    hops_left: int = 0


class Server:
    """The information that only a server has: the whole network and the whole target law.

    Walks with ``local = False`` can use it.
    """

    def __init__(self, network: Network, law: Floats) -> None:
        self.network, self.law = network, law
        self._walk_counts: dict[int, Floats] = {}

    @cached_property
    def table(self) -> AliasTable:
        """The target law as an alias table."""
        return AliasTable.of(self.law)

    def walk_counts(self, hops: int) -> Floats:
        """Return Aʰ1 up to a common factor: how many walks of so many hops begin at each node.

        Examples
        --------
        >>> import levywalk as lw
        >>> network = lw.path(3)
        >>> Server(network, np.ones(3) / 3).walk_counts(2)  # 2, 2, 2 walks of two hops
        array([1., 1., 1.])
        """
        if hops not in self._walk_counts:
            counts = np.ones(self.network.n)
            if hops:
                before = self.walk_counts(hops - 1)
                counts = np.add.reduceat(
                    before[self.network.indices], self.network.indptr[:-1].astype(np.int64)
                )
                counts = counts / counts.max()
            self._walk_counts[hops] = counts
        return self._walk_counts[hops]


@dataclass(slots=True)
class LocalView:
    """Everything that a node knows about the network when it makes a decision.

    Under the policy "counted" a node is one of its own neighbours.

    Attributes
    ----------
    node, degree, score
        The node itself: its id, its number of edges and its score t_v under the target.
    neighbours, neighbour_degrees, neighbour_scores
        The same for its neighbours, all three in the same order.
    alive
        Which neighbours can be reached, in the same order; None if all can.
    came_from
        The node that sent the model; -1 at the start and after a stay.
    step
        t, the number of the update that has just been made.
    hop, hops_left
        During a move of several hops: how many have been made, and how many are left to make, this
        one included. Both are 0 when the step's move begins.
    scheduled
        The values at this step of the numbers that the walk declares in ``schedules``.
    answers
        The neighbours' answers for each name in the walk's ``asks_neighbours``: one value per
        neighbour, None for one that was not asked.
    server
        The information that only a server has; None for a walk that is ``local``.

    Examples
    --------
    >>> view = LocalView(0, 2, 1.0, (1, 4), (2, 2), (1.0, 1.0), alive=(True, False))
    >>> view.live, view.reaches(4)
    ([1], False)
    """

    node: int
    degree: int
    score: float
    neighbours: Sequence[int]
    neighbour_degrees: Sequence[int]
    neighbour_scores: Sequence[float]
    alive: Sequence[bool] | None = None
    came_from: int = -1
    step: int = 0
    hop: int = 0
    hops_left: int = 0
    scheduled: Mapping[str, float] = field(default_factory=dict)
    answers: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    server: Server | None = None

    @property
    def live(self) -> Sequence[int]:
        """The neighbours that can be reached."""
        if self.alive is None:
            return self.neighbours
        return [u for u, up in zip(self.neighbours, self.alive, strict=True) if up]

    def reaches(self, u: int) -> bool:
        """Return whether the model can be passed to u, a live neighbour or the node itself."""
        return u == self.node or u in self.live
