"""A walk that is bound to a network and a problem: scores, weights and target law as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.walks.alias import AliasTable
from levywalk.walks.jump import JumpLaw
from levywalk.walks.view import LocalView, Server

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.walks.walk import Walk


@dataclass(frozen=True)
class Bound:
    """One phase of a walk.

    Attributes
    ----------
    scores
        t_v, the target's score of each node.
    law
        π(v) = t_v / Σt.
    weights
        w(v) = 1/(nπ(v)) = t̄/t_v, or ones; t̄ is a published constant.
    largest
        L* = max_v w(v) L_v: step sizes up to 1/L* are stable.
    """

    network: Network
    walk: Walk
    scores: Floats
    law: Floats
    weights: Floats
    largest: float
    _views: dict[int, LocalView] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, network: Network, walk: Walk, scores: Floats, smoothness: Floats) -> Bound:
        """Derive the law and the weights from the scores."""
        weights = scores.mean() / scores if walk.reweight else np.ones(network.n)
        law = scores / scores.sum()
        return cls(network, walk, scores, law, weights, float((weights * smoothness).max()))

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
        """The global information that only a server has."""
        return Server(self.network, self.law)

    @property
    def mean_score(self) -> float | None:
        """t̄, the published constant of the weights; None if updates are not weighted."""
        return float(self.scores.mean()) if self.walk.reweight else None

    @property
    def ratio(self) -> Floats:
        """t_v / d_v: a proposal from v to u is accepted with probability
        min(1, ratio_u / ratio_v).
        """
        return np.asarray(self.scores / self.network.degree)

    def view(self, v: int) -> LocalView:
        """Return what node v knows."""
        view = self._views.get(v)
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
            self._views[v] = view
        return view
