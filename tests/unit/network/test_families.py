from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from levywalk import network as lw
from levywalk.errors import InvalidNetwork, InvalidParameter, TooLarge


def same(network, graph):
    """Equal node for node; the pairs that name a lattice's nodes are numbered in their order."""
    return network == lw.Network.from_networkx(graph, network.self_loops)


@pytest.mark.parametrize("self_loops", ["none", "counted"])
@pytest.mark.parametrize(
    ("network", "graph"),
    [
        (lambda s: lw.ring(3, self_loops=s), nx.cycle_graph(3)),
        (lambda s: lw.ring(10, self_loops=s), nx.cycle_graph(10)),
        (lambda s: lw.path(2, self_loops=s), nx.path_graph(2)),
        (lambda s: lw.path(9, self_loops=s), nx.path_graph(9)),
        (lambda s: lw.complete(2, self_loops=s), nx.complete_graph(2)),
        (lambda s: lw.complete(7, self_loops=s), nx.complete_graph(7)),
        (lambda s: lw.star(2, self_loops=s), nx.star_graph(1)),
        (lambda s: lw.star(6, self_loops=s), nx.star_graph(5)),
        *((lambda s, m=m, b=b: lw.barbell(m, b, self_loops=s), nx.barbell_graph(m, b))
          for m in (2, 3, 5) for b in (0, 1, 4)),
        *((lambda s, r=r, c=c: lw.grid(r, c, self_loops=s), nx.grid_2d_graph(r, c))
          for r in (1, 2, 3, 4) for c in (2, 3, 5)),
        *((lambda s, r=r, c=c: lw.torus(r, c, self_loops=s), nx.grid_2d_graph(r, c, periodic=True))
          for r in (1, 2, 3, 4) for c in (2, 3, 5)),
    ],
)  # fmt: skip
def test_deterministic_families_equal_those_of_networkx(network, graph, self_loops):
    assert same(network(self_loops), graph)


def test_degenerate_random_families_equal_those_of_networkx():
    assert same(lw.erdos_renyi(6, 1.0), nx.complete_graph(6))
    for n, k in [(10, 2), (10, 5), (7, 6), (6, 6), (3, 2), (2, 2)]:
        assert same(lw.watts_strogatz(n, k, 0.0), nx.watts_strogatz_graph(n, k, 0.0))
    assert same(lw.watts_strogatz(5, 5, 0.7), nx.complete_graph(5))
    assert same(lw.random_regular(6, 5), nx.complete_graph(6))
    assert same(lw.barabasi_albert(5, 4), nx.star_graph(4))


@pytest.mark.parametrize(
    "family",
    [
        lambda seed: lw.erdos_renyi(60, 0.08, seed=seed),
        lambda seed: lw.erdos_renyi(60, 0.5, seed=seed),
        lambda seed: lw.watts_strogatz(60, 4, 0.3, seed=seed),
        lambda seed: lw.random_regular(60, 3, seed=seed),
        lambda seed: lw.barabasi_albert(60, 2, seed=seed),
    ],
)
def test_the_seed_decides_everything(family):
    assert family(3) == family(3)
    assert family(3) != family(4)


@pytest.mark.parametrize("seed", range(20))
def test_random_families_keep_what_their_definition_fixes(seed):
    assert lw.watts_strogatz(50, 6, 0.5, seed=seed).n_edges == 150
    assert (
        lw.watts_strogatz(8, 6, 1.0, seed=seed).n_edges == 24
    )  # nearly complete: rewirings without place
    assert set(lw.random_regular(50, 5, seed=seed).degree.tolist()) == {5}
    assert set(lw.random_regular(12, 10, seed=seed).degree.tolist()) == {10}
    grown = lw.barabasi_albert(50, 3, seed=seed)
    assert grown.n_edges == 3 + 46 * 3
    assert grown.degree.min() >= 1
    assert grown.components() == 1
    assert all((grown.neighbours(v) < v).sum() == 3 for v in range(4, 50))


def test_names_say_how_to_build_the_network_again():
    assert lw.watts_strogatz(20, 4, 0.1).name == "watts_strogatz(20, 4, 0.1)"
    assert lw.erdos_renyi(20, 0.5).name == "erdos_renyi(20, 0.5)"
    assert lw.grid(2, 3).name == "grid(2, 3)"
    assert lw.barbell(3, 1).name == "barbell(3, 1)"


@pytest.mark.parametrize("self_loops", ["none", "counted"])
def test_large_networks_are_built_with_clean_rows(self_loops):
    for network in (
        lw.erdos_renyi(20_000, 4e-4, self_loops=self_loops),
        lw.watts_strogatz(20_000, 4, 0.1, self_loops=self_loops),
        lw.random_regular(20_000, 4, self_loops=self_loops),
        lw.barabasi_albert(20_000, 2, self_loops=self_loops),
    ):
        rows = np.repeat(np.arange(network.n), network.degree)
        keys = rows * network.n + network.indices
        mirror = np.sort(network.indices.astype(np.int64) * network.n + rows)
        assert (np.diff(keys) > 0).all()
        assert np.array_equal(keys, mirror)
        assert (rows == network.indices).sum() == (network.n if self_loops == "counted" else 0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: lw.ring(2), "n must be an integer in .3, .*, got 2"),
        (lambda: lw.ring(5.0), "n must be an integer"),
        (lambda: lw.path(1), "n must be an integer in .2, .*, got 1"),
        (lambda: lw.star(1), "n must be an integer"),
        (lambda: lw.complete(1), "n must be an integer"),
        (lambda: lw.complete(5, self_loops="both"), "self_loops must be one of"),
        (lambda: lw.ring(5, self_loops="both"), "self_loops must be one of"),
        (lambda: lw.grid(1, 1), r"rows \* cols must be at least 2, got 1 \* 1"),
        (lambda: lw.grid(0, 5), "rows must be an integer of at least 1, got 0"),
        (lambda: lw.torus(5, -1), "cols must be an integer of at least 1, got -1"),
        (lambda: lw.barbell(1, 0), "m must be an integer of at least 2, got 1"),
        (lambda: lw.barbell(3, -1), "bridge must be an integer of at least 0, got -1"),
        (lambda: lw.erdos_renyi(10, 1.5), r"p must be a number in \[0, 1\], got 1.5"),
        (lambda: lw.erdos_renyi(10, 0.5, seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda: lw.watts_strogatz(10, 11, 0.1), "k must be at most n = 10, got 11"),
        (lambda: lw.watts_strogatz(10, 1, 0.1), "k must be an integer of at least 2, got 1"),
        (lambda: lw.watts_strogatz(10, 4, -0.1), r"p must be a number in \[0, 1\], got -0.1"),
        (lambda: lw.random_regular(5, 3), r"n \* degree must be even, got 5 \* 3"),
        (lambda: lw.random_regular(5, 5), "degree must be below n = 5, got 5"),
        (lambda: lw.random_regular(5, 0), "degree must be an integer of at least 1, got 0"),
        (lambda: lw.barabasi_albert(5, 5), "m must be below n = 5, got 5"),
        (lambda: lw.barabasi_albert(5, 0), "m must be an integer of at least 1, got 0"),
    ],
)
def test_arguments_outside_their_domain_are_named(build, message):
    with pytest.raises(InvalidParameter, match=message):
        build()


def test_a_random_network_without_edges_is_refused():
    with pytest.raises(
        InvalidNetwork, match="at least one edge between distinct nodes, got none among 10"
    ):
        lw.erdos_renyi(10, 0.0)


@pytest.mark.parametrize(
    "build",
    [
        lambda: lw.complete(1_000_000),
        lambda: lw.grid(10**5, 10**5),
        lambda: lw.barbell(10**6, 1),
        lambda: lw.erdos_renyi(10**6, 0.5),
        lambda: lw.watts_strogatz(10**8, 1000, 0.1),
        lambda: lw.random_regular(10**8, 1000),
        lambda: lw.barabasi_albert(10**8, 1000),
    ],
)
def test_what_cannot_fit_is_refused_before_it_is_allocated(build):
    with pytest.raises(TooLarge, match="take a smaller or sparser network"):
        build()
