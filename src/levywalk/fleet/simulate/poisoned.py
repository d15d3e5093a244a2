"""A node that poisons the model: it follows the protocol, and sends another model than its update
has made.
"""

from __future__ import annotations

import numpy as np

from levywalk.fleet.protocol.node_step import NodeSite
from levywalk.fleet.protocol.tensors import sealed_model
from levywalk.fleet.protocol.token import Token

FAR = 1000.0  # by how much an entry of the model is moved, in simulations


def poison(site: NodeSite, amount: float = FAR, *, jumps: bool = True) -> None:
    """Let a node add an amount to every entry of each model that it decides about.

    Parameters
    ----------
    jumps
        Whether it also changes models that only pass through, in a jump.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.build import Fleet
    >>> fleet = Fleet.of(lw.ring(5), lw.homogeneous(5, dim=2), lw.unif_rw(), steps=9, step_size=0.1)
    >>> bad, good = fleet.node(0).site, fleet.node(0).site
    >>> poison(bad)
    >>> bad.decide(fleet.token)[0].model - good.decide(fleet.token)[0].model
    array([1000., 1000.])
    """
    honest = site.decide

    def decide(token: Token) -> tuple[Token, int]:
        after, to = honest(token)
        if jumps or after.step > token.step:
            after = after._replace(model=sealed_model(np.asarray(after.model + amount)))
        return after, to

    site.decide = decide  # type: ignore[method-assign]
