"""Where nodes are drawn."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.live.layout import Density, edges, places


@pytest.mark.parametrize(
    "network",
    [
        lw.ring(7),
        lw.grid(3, 5),
        lw.path(2),
        lw.path(40),
        lw.star(30),
        lw.watts_strogatz(200, 4, 0.1),
        lw.watts_strogatz(3000, 4, 0.1),
    ],
    ids=lambda network: network.name,
)
def test_positions_lie_in_the_picture_and_are_always_the_same(network: lw.Network) -> None:
    found = places(network)
    assert found.shape == (network.n, 2)
    assert np.isfinite(found).all()
    assert found.min() >= -1e-9
    assert found.max() <= 1 + 1e-9
    assert (found == places(network)).all()
    assert len(np.unique(np.round(found, 9), axis=0)) > 0.9 * network.n  # not on one heap


def test_a_grid_and_a_ring_are_drawn_as_themselves() -> None:
    grid = places(lw.grid(3, 5))
    for u, v in edges(lw.grid(3, 5)):
        assert np.abs(grid[u] - grid[v]).sum() == pytest.approx(0.25)
    ring = places(lw.ring(8))
    assert np.allclose(np.hypot(*(ring - 0.5).T), 0.5)


def test_neighbours_are_drawn_near_each_other() -> None:
    network = lw.watts_strogatz(200, 4, 0.05, seed=1)
    found = places(network)
    along = np.array([np.hypot(*(found[u] - found[v])) for u, v in edges(network)])
    apart = np.hypot(*(found[:, None] - found[None]).transpose(2, 0, 1))
    assert np.median(along) < 0.3 * np.median(apart)


def test_few_of_many_edges_are_drawn_and_densities_add_up() -> None:
    network = lw.watts_strogatz(500, 4, 0.1)
    assert len(edges(network)) == network.n_edges
    assert 50 <= len(edges(network, most=100)) <= 100
    values = np.arange(500.0)
    assert Density(places(network)).sums(values).sum() == values.sum()
