"""Where the pairs compete: networks, problems, seeds and budgets.

All of it was fixed before the first full run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levywalk.draws import Domain, generator
from levywalk.errors import InvalidParameter, NotConnected
from levywalk.experiments.shorthand import network_settings
from levywalk.experiments.sources import build_network
from levywalk.extras import needs
from levywalk.league.pairs import PAIRS, QUICK_NAMES, Pair, pairs_named
from levywalk.network import Network, read_network
from levywalk.problem import Logistic, Problem, heterogeneous

ACCURACIES = (1e-1, 1e-2, 1e-3, 1e-6)
_GNUTELLA = Path(__file__).parent / "p2p-Gnutella08.edges.gz"
_REDRAWN = (
    1_000_003  # distance of the seeds of redrawn networks, so that no other instance has them
)
_MOST_REDRAWS = 100
_LABELS = 50  # the stream of the labels of logistic problems
_RIDGE = 0.01

NETWORKS: dict[str, dict[str, Any]] = {
    "ring": {"family": "ring", "n": 1000},
    "grid": {"family": "grid", "rows": 25, "cols": 40},
    "ws": {"family": "watts_strogatz", "n": 1000, "k": 4, "p": 0.1, "seed": 0},
    "er": {"family": "erdos_renyi", "n": 1000, "p": 0.1, "seed": 0},
    "gnutella": {"family": "gnutella"},
}
QUICK_NETWORKS: dict[str, dict[str, Any]] = {
    "ring": {"family": "ring", "n": 100},
    "er": {"family": "erdos_renyi", "n": 100, "p": 0.1, "seed": 0},
}
# Networks that no rule was made on, of ten kinds; recommendations are judged on them. The list was
# fixed before anything ran on them. Earlier lists have been seen since: lattices, a cube, blocks,
# power laws, a caveman graph, random trees, a circulant, bipartite and duplication graphs, and
# before that a hypercube, ladder, regular, BA, clusters, geometric, dense ER, a torus and a path.
OTHER_NETWORKS: dict[str, dict[str, Any]] = {
    "newman": {"family": "newman", "n": 600, "k": 6, "p": 0.05, "seed": 0},
    "expander": {"family": "expander", "side": 24},
    "windmill": {"family": "windmill", "cliques": 60, "size": 10},
    "regular-tree": {"family": "regular_tree", "n": 500, "branches": 4},
    "multipartite": {"family": "multipartite", "parts": 8, "size": 50},
    "internet": {"family": "internet", "n": 600, "seed": 0},
    "waxman": {"family": "waxman", "n": 500, "seed": 0},
    "chordal": {"family": "chordal", "n": 601},
    "unequal-blocks": {"family": "unequal_blocks", "n": 600, "seed": 0},
    "cliques": {"family": "cliques", "cliques": 40, "size": 12},
}
PROBLEMS = {
    "snr10": "least squares, SNR 10",
    "snr1000": "least squares, SNR 1,000",
    "logistic": "logistic regression, ridge 0.01",
}


@dataclass(frozen=True)
class LeagueEffort:
    """How much is run.

    Attributes
    ----------
    seeds, tuning_seeds
        The instances that are reported, and those that step sizes are tuned on: never the same.
    walks
        The number of walks on each instance.
    exponents
        Step sizes that are tried first: powers of 3 times the update's default.
    refinements
        How often the neighbourhood of the best is tried at half the distance.
    shorter
        What budgets are divided by.
    """

    name: str
    networks: Mapping[str, Mapping[str, Any]]
    problems: tuple[str, ...]
    pairs: tuple[Pair, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    tuning_seeds: tuple[int, ...] = (1000, 1001)
    walks: int = 4
    exponents: tuple[float, ...] = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
    refinements: int = 2
    shorter: float = 1.0


FULL = LeagueEffort("full", NETWORKS, tuple(PROBLEMS), PAIRS)
QUICK = LeagueEffort(
    "quick",
    QUICK_NETWORKS,
    ("snr10",),
    pairs_named(QUICK_NAMES),
    seeds=(0, 1),
    tuning_seeds=(1000,),
    walks=2,
    exponents=(-2.0, -1.0, 0.0, 1.0, 2.0),
    refinements=0,
)

# Steps in units of n, first match wins; chosen from the prototype's table and the time of a step.
_LONG = {  # rows of the prototype's table on the ring that take millions of steps
    ("unif_rw", "sgd"): 2000,
    ("unif_rw", "sag"): 4200,
    ("mhlj", "saga"): 2400,
}
_ITERATIONS = {"dsgd": 6000, "extra": 12_000, "nids": 12_000, "tracking": 12_000,
               "accelerated": 150}  # fmt: skip


def budget(pair: Pair, network: str, n: int, problem: str, effort: LeagueEffort) -> int:
    """Return the most steps (iterations of gossip) that a pair may take.

    Examples
    --------
    >>> oldest = next(pair for pair in PAIRS if pair.name == "oldest_neighbour + point_saga")
    >>> budget(oldest, "grid", 1000, "snr10", FULL)
    60000
    """
    if pair.gossip:
        steps = float(_ITERATIONS[pair.update])
        if network in ("er", "gnutella"):  # few iterations are enough, and each takes longer
            steps = min(steps, 3000.0)
        return max(1, int(steps / effort.shorter))
    if pair.diffusing and network == "ring":
        long = _LONG.get((pair.walk, pair.update), 300) if problem == "snr10" else 300
        times = 600 if pair.newton else long
    elif pair.diffusing:
        times = 100
    else:
        times = 30 if pair.newton else 60
    if n > 2000:
        times = min(times, 40)
    return max(1, int(times * n / effort.shorter))


def uses_fewer_trials(pair: Pair, network: str, problem: str) -> bool:
    """Return whether a pair's budget is so long that fewer step sizes and walks are tried."""
    return network == "ring" and problem == "snr10" and (pair.walk, pair.update) in _LONG


def network_of(section: Mapping[str, Any], seed: int) -> Network:
    """Return an instance of a network; a random one that is not connected is drawn again.

    Examples
    --------
    >>> network_of({"family": "expander", "side": 5}, 1).n
    25
    """
    if section["family"] == "gnutella":
        return read_network(_GNUTELLA, largest_component=True)
    drawn = "seed" in section
    for redraws in range(_MOST_REDRAWS):
        now = seed + redraws * _REDRAWN
        made = _family(dict(section) | ({"seed": now} if drawn else {}))
        try:
            made.require_connected()
        except NotConnected:
            if not drawn:
                raise
        else:
            return made
    raise InvalidParameter(f"network {dict(section)!r} is not connected; give it more edges")


def _family(section: dict[str, Any]) -> Network:
    if section["family"] in _BY_NETWORKX:
        return _by_networkx(section)
    return build_network(section)


_BY_NETWORKX: dict[str, Callable[..., Any]] = {
    "newman": lambda nx, n, k, p, seed: nx.newman_watts_strogatz_graph(n, k, p, seed=seed),
    "expander": lambda nx, side: nx.margulis_gabber_galil_graph(side),
    "windmill": lambda nx, cliques, size: nx.windmill_graph(cliques, size),
    "regular_tree": lambda nx, n, branches: nx.full_rary_tree(branches, n),
    "multipartite": lambda nx, parts, size: nx.complete_multipartite_graph(*[size] * parts),
    "internet": lambda nx, n, seed: nx.random_internet_as_graph(n, seed=seed),
    "waxman": lambda nx, n, seed: nx.waxman_graph(n, 0.6, 0.12, seed=seed),
    "chordal": lambda nx, n: nx.chordal_cycle_graph(n),
    "unequal_blocks": lambda nx, n, seed: nx.gaussian_random_partition_graph(
        n, 30, 3.0, 0.3, 0.01, seed=seed
    ),
    "cliques": lambda nx, cliques, size: nx.ring_of_cliques(cliques, size),
}


def _by_networkx(section: dict[str, Any]) -> Network:
    with needs("graphs", f"a network of the family {section['family']!r}", "networkx"):
        import networkx as nx

    rest = {key: value for key, value in section.items() if key != "family"}
    graph = nx.convert_node_labels_to_integers(_BY_NETWORKX[section["family"]](nx, **rest))
    edges = {(min(u, v), max(u, v)) for u, v in graph.edges() if u != v}
    return Network.from_edges(sorted(edges), n=graph.number_of_nodes())


def problem_of(name: str, n: int, seed: int) -> Problem:
    """Return an instance of a problem: dim 10, two nodes of 100 times the variance.

    Examples
    --------
    >>> problem_of("logistic", 50, 0).ridge, problem_of("snr10", 50, 0).dim
    (0.01, 10)
    """
    if name == "logistic":
        data = heterogeneous(n, dim=10, important=2, seed=seed)
        draws = generator(seed, Domain.DATA, _LABELS).random(n)
        labels = draws < 1.0 / (1.0 + _exp(-(data.features @ data.truth)))
        return Logistic(data.features, labels.astype(int), ridge=_RIDGE)
    snr = {"snr10": 10.0, "snr1000": 1000.0}
    if name not in snr:
        raise InvalidParameter(f"problem must be one of {', '.join(PROBLEMS)}, got {name!r}")
    return heterogeneous(n, dim=10, important=2, seed=seed, snr=snr[name])


def _exp(values: Any) -> Any:
    import numpy as np

    return np.exp(np.clip(values, -700.0, 700.0))


def networks_named(names: list[str] | None, effort: LeagueEffort) -> dict[str, Mapping[str, Any]]:
    """Return the sections of some networks: of the league, or in a word such as ``ring:500``.

    Examples
    --------
    >>> networks_named(["ring"], FULL), networks_named(["grid:5,6"], FULL)["grid:5,6"]["rows"]
    ({'ring': {'family': 'ring', 'n': 1000}}, 5)
    """
    if not names:
        return dict(effort.networks)
    try:
        return {
            name: effort.networks[name] if name in effort.networks else network_settings(name)
            for name in names
        }
    except InvalidParameter as error:
        raise InvalidParameter(
            f"{error}; the league's own networks are {', '.join(effort.networks)}"
        ) from None
