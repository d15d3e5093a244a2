"""The published closed formula against its series, known limits and real walks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import levywalk as lw
from levywalk.privacy import zcdp_epsilon
from levywalk.privacy.published_loss import (
    hop_distances,
    mean_by_distance,
    published_epsilon,
    published_pairwise_rho,
    sum_over_delays,
)

NETWORKS = [lw.ring(7), lw.ring(8), lw.path(6), lw.star(6), lw.complete(5), lw.grid(3, 3)]


def chain(network: lw.Network) -> np.ndarray:
    return lw.transition(network, lw.homogeneous(network.n, dim=2), lw.unif_rw()).toarray()


def series(matrix: np.ndarray, steps: int) -> np.ndarray:
    """Σ_{k ≤ steps} Wᵏ/k, power by power."""
    total, power = np.zeros_like(matrix), np.eye(len(matrix))
    for k in range(1, steps + 1):
        power = power @ matrix
        total += power / k
    return total


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_the_logarithm_is_the_sum_over_delays(network: lw.Network) -> None:
    matrix, terms = chain(network), 4_000
    plain = series(matrix, terms) - sum(1.0 / k for k in range(1, terms + 1)) / network.n
    # An even ring alternates for ever, so that the last term is the error.
    assert sum_over_delays(matrix) == pytest.approx(plain, abs=1.0 / terms)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_the_formula_is_the_series_of_the_walk_up_to_eulers_constant(network: lw.Network) -> None:
    steps, noise, n = 6000, 3.0, network.n
    found = published_pairwise_rho(chain(network), steps, noise)
    plain = steps / (noise**2 * n) * series(chain(network), steps)
    # The published ln T is below 1 + 1/2 + … + 1/T by 0.577, and delays beyond T are within 1 %.
    off = steps / (noise**2 * n) * np.euler_gamma / n
    share = steps / (noise**2 * n) * (0.01 * math.log(steps) / n + 1.0 / steps)
    assert np.abs(plain - found - off).max() <= share


@pytest.mark.parametrize("n", [3, 10, 41])
def test_complete_networks_have_known_limits(n: int) -> None:
    uniform = np.full((n, n), 1.0 / n)
    assert sum_over_delays(uniform) == pytest.approx(np.zeros((n, n)), abs=1e-13)
    # Without loops all other eigenvalues are -1/(n-1), and 1 + 1/(n-1) = n/(n-1).
    others = (np.ones((n, n)) - np.eye(n)) / (n - 1)
    expected = -math.log(n / (n - 1)) * (np.eye(n) - 1.0 / n)
    assert sum_over_delays(others) == pytest.approx(expected, abs=1e-13)
    rho = published_pairwise_rho(uniform, 10_000, 2.0)
    assert rho == pytest.approx(np.full((n, n), 10_000 * math.log(10_000) / (4.0 * n * n)))


def test_on_real_walks_each_update_alone_loses_at_most_what_the_series_says() -> None:
    network, steps, walks = lw.ring(7), 240, 80
    made = lw.walk(network, lw.unif_rw(), steps=steps, replicas=walks, seed=11, record_walk=True)
    assert made.walk is not None
    n, later = network.n, steps // 2  # each update is followed by as many steps
    first, every = np.zeros((walks, n, n)), np.zeros((walks, n, n))
    for r, walk in enumerate(made.walk):
        for s in range(later):
            u, after = walk[s], walk[s + 1 : s + 1 + later]
            every[r, u] += np.bincount(after, weights=1.0 / np.arange(1, later + 1), minlength=n)
            nodes, delays = np.unique(after, return_index=True)
            first[r, u, nodes] += 1.0 / (delays + 1.0)
    first, every = first * n / later, every * n / later  # for one update
    expected = series(chain(network), later)
    error = every.std(axis=0) / math.sqrt(walks)
    assert (np.abs(every.mean(axis=0) - expected) <= 6.0 * error).all()
    apart = ~np.eye(n, dtype=bool)
    assert (first.mean(axis=0)[apart] <= expected[apart]).all()
    # The formula has a factor of two for the mean over walks, and one update's share of T.
    rho = published_pairwise_rho(chain(network), 20_000, 1.0) * n / 20_000
    assert (0.5 * first.mean(axis=0)[apart] <= rho[apart]).all()


def test_the_loss_falls_with_the_distance_and_by_epsilon_it_is_no_less_than_by_all_orders() -> None:
    network = lw.ring(12)
    rho = published_pairwise_rho(chain(network), 5000, 20.0)
    by_distance = mean_by_distance(rho, hop_distances(network))
    assert len(by_distance) == 6
    assert all(near > far > 0.0 for near, far in itertools.pairwise(by_distance))
    assert by_distance[0] == pytest.approx(rho[0, 1])
    assert by_distance[5] == pytest.approx(rho[0, 6])
    for value in by_distance:
        assert published_epsilon(value, 20.0, 1e-5) >= zcdp_epsilon(value, 1e-5) * (1 - 1e-9)
    assert published_epsilon(3.0, 20.0, 1e-5) == pytest.approx(zcdp_epsilon(3.0, 1e-5), rel=1e-6)


def test_orders_beyond_those_that_may_be_averaged_are_not_used() -> None:
    rho, noise, delta = 1e-4, 5.0, 1e-5
    orders = np.linspace(1.001, 0.5 + math.sqrt(0.25 + 2 * noise**2), 20_000)
    losses = orders * rho + np.log(1 / (orders * delta)) / (orders - 1) + np.log1p(-1 / orders)
    assert published_epsilon(rho, noise, delta) == pytest.approx(losses.min(), rel=1e-4)


def test_what_the_formula_does_not_hold_for_is_refused() -> None:
    problem = lw.heterogeneous(6, seed=1)
    weighted = lw.transition(lw.ring(6), problem, lw.weight_rw())
    with pytest.raises(lw.InvalidParameter, match="transition must be symmetric"):
        published_pairwise_rho(weighted, 1000, 1.0)
    with pytest.raises(lw.InvalidParameter, match="connected"):
        published_pairwise_rho(np.eye(4), 1000, 1.0)
    with pytest.raises(lw.InvalidParameter, match="at least two nodes"):
        published_pairwise_rho(np.ones((2, 3)), 1000, 1.0)
    with pytest.raises(lw.InvalidParameter, match="steps must be at least") as error:
        published_pairwise_rho(chain(lw.ring(50)), 100, 1.0)
    needed = int(str(error.value).split("at least ")[1].split()[0])
    assert (published_pairwise_rho(chain(lw.ring(50)), needed, 1.0) > 0.0).all()
    with pytest.raises(lw.InvalidParameter, match="steps must be at least"):
        published_pairwise_rho(chain(lw.ring(50)), needed - 1, 1.0)
