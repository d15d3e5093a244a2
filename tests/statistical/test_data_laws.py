"""The data laws have the moments that the paper states.

Each statistic has an exactly known law under the claim (chi-square, normal, binomial), and its
limits are that law's quantiles: a right program exceeds any one of them with probability 1e-9. Each
check is also run on a law that is slightly wrong and must reject it, so that the limits are known
to bite.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from levywalk.problem import LeastSquares, heterogeneous, homogeneous, partition
from levywalk.problem.synthetic import SyntheticLeastSquares

FALSE_ALARM = 1e-9
N = 40_000


def within(law, value) -> bool:
    """Whether ``value`` lies between the law's two quantiles at half the false-alarm probability
    each.
    """
    low, high = law.ppf(FALSE_ALARM / 2), law.isf(FALSE_ALARM / 2)
    return bool(low <= value <= high)


def features_have_variance(features, sigma2) -> bool:
    """Σ a²/σ² is chi-square with one degree per entry, and Σ a/σ√N is standard normal."""
    scaled = features / np.sqrt(sigma2)
    mean = scaled.sum() / np.sqrt(scaled.size)
    return within(stats.chi2(scaled.size), np.sum(scaled**2)) and within(stats.norm(), mean)


def features_are_uncorrelated(features, sigma2) -> bool:
    """The sum over pairs of columns of (a+b)²/2σ² is chi-square; a correlation would inflate it."""
    paired = (features[:, 0::2] + features[:, 1::2]) / np.sqrt(2 * sigma2)
    return within(stats.chi2(paired.size), np.sum(paired**2))


def residuals_have_deviation(problem, noise) -> bool:
    residuals = (problem.targets - problem.features @ problem.truth) / noise
    return within(stats.chi2(problem.n), np.sum(residuals**2)) and within(
        stats.norm(), residuals.sum() / np.sqrt(problem.n)
    )


def optimum_is_centred_on_the_truth(problem, noise) -> bool:
    """‖A(x* - x)‖² / noise² is chi-square with dim degrees: least squares on Gaussian noise."""
    moved = problem.features @ (problem.optimum - problem.truth)
    return within(stats.chi2(problem.dim), float(moved @ moved) / noise**2)


@pytest.mark.parametrize("seed", [0, 1])
def test_homogeneous_features_noise_and_optimum_follow_the_law(seed):
    problem = homogeneous(N, sigma2=4.0, noise=2.0, seed=seed)
    assert features_have_variance(problem.features, 4.0)
    assert features_are_uncorrelated(problem.features, 4.0)
    assert residuals_have_deviation(problem, 2.0)
    assert optimum_is_centred_on_the_truth(problem, 2.0)


def test_truth_is_standard_normal_over_seeds():
    truths = np.array([homogeneous(2, seed=seed).truth for seed in range(400)])
    assert features_have_variance(truths, 1.0)
    assert not features_have_variance(np.sqrt(1.25) * truths, 1.0)


def test_a_wrong_variance_noise_or_correlation_is_noticed():
    problem = homogeneous(N)
    assert not features_have_variance(problem.features * np.sqrt(1.03), 1.0)
    assert not features_have_variance(problem.features + 0.02, 1.0)
    correlated = problem.features.copy()
    correlated[:, 1::2] = 0.05 * correlated[:, 0::2] + np.sqrt(1 - 0.05**2) * correlated[:, 1::2]
    assert features_have_variance(correlated, 1.0)
    assert not features_are_uncorrelated(correlated, 1.0)
    residuals = problem.targets - problem.features @ problem.truth
    louder = SyntheticLeastSquares(
        problem.features, problem.targets + 0.06 * residuals, truth=problem.truth
    )
    assert not residuals_have_deviation(louder, 1.0)
    shifted = SyntheticLeastSquares(problem.features, problem.targets, truth=problem.truth + 0.02)
    assert not optimum_is_centred_on_the_truth(shifted, 1.0)


def test_important_nodes_have_the_large_variance_and_others_the_small_one():
    problem = heterogeneous(N, sigma2_low=0.25, sigma2_high=9.0, p_high=0.1, seed=3)
    important = np.isin(np.arange(N), problem.important_nodes)
    assert features_have_variance(problem.features[important], 9.0)
    assert features_have_variance(problem.features[~important], 0.25)
    assert residuals_have_deviation(problem, 1.0)
    mixed = important.copy()
    mixed[np.flatnonzero(~important)[:300]] = True
    assert not features_have_variance(problem.features[mixed], 9.0)


def test_the_number_of_important_nodes_is_binomial():
    count = len(heterogeneous(1_000_000, dim=1, p_high=0.002, seed=4).important_nodes)
    assert within(stats.binom(1_000_000, 0.002), count)
    assert not within(stats.binom(1_000_000, 0.0025), count)


def places_are_uniform(counts, important, runs) -> bool:
    """A node is important in Binomial(runs, important/n) of the runs; the nodes share the false
    alarm.
    """
    law = stats.binom(runs, important / len(counts))
    share = FALSE_ALARM / (2 * len(counts))
    return bool((counts >= law.ppf(share)).all() and (counts <= law.isf(share)).all())


@pytest.mark.more
def test_a_fixed_number_of_important_nodes_is_placed_uniformly():
    n, important, runs = 10, 3, 2000
    counts = np.zeros(n)
    for seed in range(runs):
        counts[heterogeneous(n, dim=1, important=important, seed=seed).important_nodes] += 1
    assert places_are_uniform(counts, important, runs)
    first_favoured = np.array([runs, *[(important - 1) * runs / (n - 1)] * (n - 1)])
    assert not places_are_uniform(first_favoured, important, runs)


def test_iid_partition_gives_every_sample_every_node_alike():
    runs, features = 2000, np.ones((9, 1))
    hits = sum(partition(features, np.zeros(9), 3, seed=seed) == 0 for seed in range(runs))
    assert places_are_uniform(hits, 3, runs)
    in_order = sum(np.arange(9) // 3 == 0 for _ in range(runs))
    assert not places_are_uniform(in_order, 3, runs)


def test_smoothness_of_the_law_is_twice_a_chi_square():
    problem = homogeneous(N, seed=6)
    assert isinstance(problem, LeastSquares)
    assert within(stats.chi2(N * problem.dim), problem.smoothness.sum() / 2)
    assert not within(stats.chi2(N * problem.dim), problem.smoothness.sum())
