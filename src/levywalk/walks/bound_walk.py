"""A walk that is bound to a network and a problem: scores, weights and target law as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import AnyArray, Bools, Floats, Ints
from levywalk.walks.alias import AliasTable
from levywalk.walks.jump import JumpLaw
from levywalk.walks.view import LocalView, Server

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.walks.walk import Walk


@dataclass(frozen=True)
class BoundWalk:
    """One phase of a walk.

    Attributes
    ----------
    scores
        t_v, the target's score of each node of the network.
    law
        π(v) = t_v / Σt over the nodes with data, in their order.
    weights
        w(v) = 1/(nπ(v)) = t̄/t_v, or ones, of each node with data. t̄ is the mean of their scores, a
        published constant.
    largest
        L* = max_v w(v) L_v: step sizes up to 1/L* are stable.
    holders
        The nodes with data in ascending order; None if all nodes of the network have data.
    """

    network: Network
    walk: Walk
    scores: Floats
    law: Floats
    weights: Floats
    largest: float
    holders: Ints | None = None
    _view_of: dict[int, LocalView] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        network: Network,
        walk: Walk,
        scores: Floats,
        smoothness: Floats,
        holders: Ints | None = None,
    ) -> BoundWalk:
        """Derive the law and the weights from the scores; ``smoothness`` is of nodes with data."""
        own = scores if holders is None else scores[holders]
        weights = own.mean() / own if walk.reweight else np.ones(len(own))
        law = own / own.sum()
        largest = float((weights * smoothness).max())
        return cls(network, walk, scores, law, weights, largest, holders)

    @cached_property
    def idle(self) -> Bools | None:
        """Which nodes of the network have no data and pass the model on; None if all have data."""
        if self.holders is None:
            return None
        idle = np.ones(self.network.n, np.bool_)
        idle[self.holders] = False
        return idle

    def spread(self, values: AnyArray, rest: float = 0.0) -> AnyArray:
        """Return numbers of the nodes with data as numbers of all nodes; idle nodes have
        ``rest``.
        """
        if self.holders is None:
            return values
        every = np.full(self.network.n, rest, dtype=values.dtype)
        every[self.holders] = values
        return every

    def with_data(self, values: AnyArray) -> AnyArray:
        """Return those of the numbers of all nodes that belong to nodes with data."""
        return values if self.holders is None else values[self.holders]

    def position(self, v: int) -> int:
        """Return the number of node v in the problem, -1 for an idle node."""
        if self.holders is None:
            return v
        found = int(np.searchsorted(self.holders, v))
        return found if found < len(self.holders) and self.holders[found] == v else -1

    @property
    def walk_law(self) -> Floats:
        """π over all nodes of the network, idle ones too: the law of a walk that counts passes."""
        return self.law if self.holders is None else self.scores / self.scores.sum()

    @property
    def jump(self) -> JumpLaw | None:
        """The jump law, if the walk has one."""
        return getattr(self.walk, "jump", None)

    @property
    def moves(self) -> str:
        """How the walk moves: "walk" or "iid" for a `Design`, the walk's name for any other."""
        return str(getattr(self.walk, "moves", self.walk.name))

    @cached_property
    def table(self) -> AliasTable | None:
        """The alias table of i.i.d. sampling; None for a walk over edges."""
        return self.server.table if self.moves == "iid" else None

    @cached_property
    def server(self) -> Server:
        """The global information that only a server has; it never chooses an idle node."""
        return Server(self.network, self.spread(self.law))

    @property
    def mean_score(self) -> float | None:
        """t̄, the published constant of the weights; None if updates are not weighted."""
        return float(self.with_data(self.scores).mean()) if self.walk.reweight else None

    @property
    def ratio(self) -> Floats:
        """t_v / d_v: a proposal from v to u is accepted with probability
        min(1, ratio_u / ratio_v).
        """
        return np.asarray(self.scores / self.network.degree)

    def view(self, v: int) -> LocalView:
        """Return what node v knows."""
        view = self._view_of.get(v)
        if view is None:
            near = self.network.neighbours(v)
            more: dict[str, Any] = {} if self.walk.local else {"server": self.server}
            view = LocalView(
                v,
                int(self.network.degree[v]),
                float(self.scores[v]),
                near.tolist(),
                self.network.degree[near].tolist(),
                self.scores[near].tolist(),
                **more,
            )
            self._view_of[v] = view
        return view
