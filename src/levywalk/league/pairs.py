"""Which pairs of a walk and an update compete, and why each of them does.

The list was fixed before the first full run. docs/league.md shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.registry import from_dict
from levywalk.updates import Update, as_update
from levywalk.walks import Walk

GOSSIP = ("dsgd", "extra", "nids", "tracking", "accelerated")
_DIFFUSING = ("unif_rw", "weight_rw", "mhlj", "srrw", "rotor_router")
_SERVER = ("reshuffling", "iid_uniform")


@dataclass(frozen=True)
class Pair:
    """One competitor.

    Attributes
    ----------
    walk, update
        The names of the walk and of the update; a gossip method has the walk "gossip".
    reason
        Why it competes.
    options
        Arguments of the update.
    """

    walk: str
    update: str
    reason: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tables call the pair."""
        more = "".join(f" ({value})" for value in self.options.values())
        return f"{self.walk} + {self.update}{more}"

    @property
    def gossip(self) -> bool:
        """Whether all nodes work at once instead of a walking model."""
        return self.walk == "gossip"

    @property
    def server(self) -> bool:
        """Whether the pair needs a server that can reach every node: a limit, no competitor."""
        return self.walk in _SERVER

    @property
    def newton(self) -> bool:
        """Whether the token carries second derivatives."""
        return self.update == "newton_token"

    @property
    def diffusing(self) -> bool:
        """Whether the walk diffuses: without memory it needs about n² steps around a ring."""
        return self.walk in _DIFFUSING

    def plain(self) -> dict[str, Any]:
        """Return the pair as plain data, without the reason."""
        return {"walk": self.walk, "update": self.update, "options": dict(self.options)}


def built_pair(plain: dict[str, Any]) -> tuple[Walk, Update]:
    """Return the walk and the update of a pair.

    Examples
    --------
    >>> walk, update = built_pair({"walk": "mhda", "update": "point_saga", "options": {}})
    >>> walk.name, update
    ('MHDA', PointSaga())
    """
    walk: Walk = from_dict("design", {"kind": plain["walk"]})
    name = plain["update"]
    if name == "averaged":
        return walk, from_dict("update", {"kind": "averaged", "update": {"kind": "sgd"}})
    update: Update = as_update(from_dict("update", {"kind": name, **plain["options"]}))
    return walk, update


_EVERY_WALK = {
    "unif_rw": "the walk that decentralised learning is usually analysed with",
    "weight_rw": "importance sampling without jumps, which gets trapped",
    "mhda": "avoids the way back and keeps the law",
    "non_backtracking": "the plainest walk that avoids the way back",
    "least_used_edge": "covers quickly with a counter per edge and sends no questions",
    "oldest_neighbour": "covers quickly, but asks its neighbours at every step",
    "rotor_router": "covers every edge in turn, without a random number",
    "depth_first_tour": "a lap of 2(n-1) transfers, repeated without end once its marks are set",
    "srrw": "the self-repellent walk, which approaches its base chain",
    "hdt": "history-driven target with MHDA as its sampler, a published reference",
    "lifted_ring": "a walk with a direction; on rings only",
    "reshuffling": "a server's limit: every node once per lap, in random order",
    "iid_uniform": "a server's limit: independent draws",
}
_MHLJ = {
    "sgd": "the paper's method",
    "sag": "the mean of stored gradients under the paper's walk",
    "saga": "weighted SAGA removes the floor of the paper's method",
    "finito": "sets its own step size",
    "heavy_ball": "momentum, the first extension that many people try",
    "adam": "the default of many people",
    "averaged": "the mean of the models of SGD",
    "walkman": "ADMM along the paper's walk",
}

PAIRS: tuple[Pair, ...] = (
    Pair("unif_rw", "sgd", "the baseline of the paper"),
    Pair("weight_rw", "sgd", "the paper's trapped walk"),
    *(Pair("mhlj", update, reason) for update, reason in _MHLJ.items()),
    Pair("mhlj", "point_saga", "the paper's walk, among all walks with Point-SAGA"),
    Pair("mhlj", "newton_token", "the paper's walk, among all walks with the Newton token"),
    *(Pair(walk, "point_saga", reason) for walk, reason in _EVERY_WALK.items()),
    *(Pair(walk, "newton_token", reason) for walk, reason in _EVERY_WALK.items()),
    Pair("unif_rw", "sag", "the published state of the art (Even 2023)"),
    Pair("mhda", "saga", "SAGA with a walk that covers"),
    Pair("oldest_neighbour", "saga", "SAGA with the walk that covers fastest without marks"),
    Pair("depth_first_tour", "saga", "SAGA with equal laps"),
    Pair("iid_uniform", "saga", "a server's limit of SAGA"),
    Pair("oldest_neighbour", "finito", "no step size to set, with a walk that covers"),
    Pair("depth_first_tour", "finito", "no step size to set, with equal laps"),
    Pair("unif_rw", "walkman", "Walkman as published (Mao 2020)", {"form": "gradient"}),
    Pair("unif_rw", "walkman", "Walkman's other form (Mao 2020)", {"form": "prox"}),
    Pair("oldest_neighbour", "walkman", "Walkman with a walk that covers", {"form": "prox"}),
    *(Pair("gossip", method, "the usual alternative to a walk") for method in GOSSIP),
)
# A quick league: the paper's method, the best first-order and second-order pairs, their limit,
# and gossip.
QUICK_NAMES = (
    "unif_rw + sgd",
    "mhlj + sgd",
    "mhlj + saga",
    "mhda + point_saga",
    "oldest_neighbour + point_saga",
    "depth_first_tour + point_saga",
    "oldest_neighbour + newton_token",
    "depth_first_tour + newton_token",
    "reshuffling + point_saga",
    "gossip + extra",
)
# The pairs that can be the best anywhere: recommendations are judged against these.
CONTENDER_NAMES = (
    "mhda + point_saga",
    "hdt + point_saga",
    "least_used_edge + point_saga",
    "oldest_neighbour + point_saga",
    "depth_first_tour + point_saga",
    "depth_first_tour + saga",
    "oldest_neighbour + finito",
    "least_used_edge + newton_token",
    "oldest_neighbour + newton_token",
    "depth_first_tour + newton_token",
)


def pairs_named(names: tuple[str, ...]) -> tuple[Pair, ...]:
    """Return the pairs of these names, in the league's order.

    Examples
    --------
    >>> [pair.update for pair in pairs_named(("mhda + point_saga",))]
    ['point_saga']
    """
    known = {pair.name: pair for pair in PAIRS}
    for name in names:
        if name not in known:
            raise InvalidParameter(f"pair must be one of the league, got {name!r}")
    return tuple(pair for pair in PAIRS if pair.name in names)
