"""A design that has met its network and problem: every node's score, weight and law, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from levywalk.arrays import Floats
from levywalk.walks.alias import AliasTable
from levywalk.walks.jump import JumpLaw
from levywalk.walks.rule import LocalView

if TYPE_CHECKING:
    from levywalk.network import Network


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
    scores: Floats
    law: Floats
    weights: Floats
    largest: float
    jump: JumpLaw | None
    moves: str
    table: AliasTable | None
    _views: dict[int, LocalView] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, network: Network, scores: Floats, smoothness: Floats, jump: JumpLaw | None, moves: str, reweight: bool
    ) -> Bound:
        """Derive the law and the weights from the scores."""
        weights = scores.mean() / scores if reweight else np.ones(network.n)
        law = scores / scores.sum()
        table = AliasTable.of(law) if moves == "iid" else None
        return cls(network, scores, law, weights, float((weights * smoothness).max()), jump, moves, table)

    @property
    def ratio(self) -> Floats:
        """t_v / d_v: a proposal from v to u is accepted with probability min(1, ratio_u / ratio_v)."""
        return np.asarray(self.scores / self.network.degree)

    def view(self, v: int) -> LocalView:
        """Return what node v knows."""
        view = self._views.get(v)
        if view is None:
            near = self.network.neighbours(v)
            view = LocalView(
                v,
                int(self.network.degree[v]),
                float(self.scores[v]),
                near.tolist(),
                self.network.degree[near].tolist(),
                self.scores[near].tolist(),
            )
            self._views[v] = view
        return view
