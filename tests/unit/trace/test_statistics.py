"""Means, settling times and intervals over walks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import levywalk as lw
from levywalk.trace.statistics import (
    OtherChoices,
    bootstrap_mean,
    bootstrap_steps,
    interval_around,
    mean_over_walks,
    resampled_means,
    settled_at,
)


def naive_settling(step, curve, accuracy):
    for i in range(len(step)):
        if all(value <= accuracy for value in curve[i:]):
            return float(step[i])
    return np.inf


@given(
    curve=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, np.inf, np.nan]), min_size=1, max_size=12)
)
def test_settling_is_that_of_a_naive_loop(curve):
    step = np.arange(len(curve)) * 7
    assert settled_at(step, np.array([curve]), 0.2)[0] == naive_settling(step, curve, 0.2)


def test_many_curves_settle_each_on_its_own():
    curves = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0]], dtype=float)
    assert settled_at(np.array([0, 5, 9]), curves, 0.5).tolist() == [5.0, 9.0, np.inf, 0.0]


def test_the_mean_over_walks_is_infinite_where_a_walk_is_and_never_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mean_over_walks(np.array([[1.0, np.inf, 1.7e308], [3.0, 1.0, 1.7e308]]))
    assert found.tolist() == [2.0, np.inf, np.inf]


def test_resampled_means_are_means_of_resampled_rows():
    values = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    means = resampled_means(values, seed=0)
    assert means[:, 1] == pytest.approx(
        10 * means[:, 0]
    )  # whole rows are drawn: curves keep their correlation
    sums = {round(3 * m, 9) for m in means[:, 0]}
    assert sums <= {a + b + c for a in (1, 2, 4) for b in (1, 2, 4) for c in (1, 2, 4)}
    assert np.array_equal(means, resampled_means(values, seed=0))
    assert not np.array_equal(means, resampled_means(values, seed=1))


def test_a_resample_with_a_diverged_walk_is_infinite_and_one_without_is_not():
    means = resampled_means(np.array([[1.0], [np.inf]]), seed=0)[:, 0]
    assert set(means) == {1.0, np.inf}
    # without the diverged walk with probability 1/4, of 1000
    assert (
        stats.binom(1000, 0.25).ppf(1e-9)
        <= (means == 1.0).sum()
        <= stats.binom(1000, 0.25).isf(1e-9)
    )


@pytest.mark.more
def test_the_interval_of_a_mean_covers_it_about_as_often_as_it_says():
    # 60 normal values: the percentile interval at 90 % covers with probability 0.88 to 0.90; 400
    # trials.
    rng = np.random.default_rng(5)
    hits = 0
    for trial in range(400):
        low, high = bootstrap_mean(rng.normal(size=60), level=0.9, seed=trial)
        hits += low <= 0.0 <= high
    assert stats.binom(400, 0.87).ppf(1e-8) <= hits <= stats.binom(400, 0.91).isf(1e-8)
    # the limits bite: an interval of half the width would cover with probability 0.59
    assert hits > stats.binom(400, 0.6).isf(1e-8)


def test_the_interval_of_settling_times_contains_the_estimate_and_can_end_at_infinity():
    step = np.arange(0, 60, 10)
    rng = np.random.default_rng(1)
    errors = np.exp(-step / 15.0) * rng.lognormal(0, 0.5, size=(30, 1))
    point = settled_at(step, mean_over_walks(errors)[None], 0.2)[0]
    low, high = bootstrap_steps(step, errors, 0.2, 0.95, seed=0)
    assert low <= point <= high
    assert low in step
    assert high in step
    errors[0, -1] = np.inf  # one diverged walk of thirty: most resamples hold it
    assert bootstrap_steps(step, errors, 0.2, 0.95, seed=0)[1] == np.inf


def test_equal_walks_have_an_interval_of_no_width():
    step = np.array([0, 10, 20])
    assert bootstrap_steps(step, np.tile([1.0, 0.1, 0.1], (5, 1)), 0.5, 0.95, seed=0) == (
        10.0,
        10.0,
    )
    assert bootstrap_mean(np.full(5, 2.5)) == (2.5, 2.5)


def test_a_wider_level_gives_a_wider_interval():
    values = np.random.default_rng(0).normal(size=40)
    (a, b), (c, d) = bootstrap_mean(values, 0.5), bootstrap_mean(values, 0.99)
    assert c < a < b < d


@pytest.mark.parametrize("level", [0, 1, -0.5, "high", float("nan")])
def test_a_bad_level_is_named(level):
    with pytest.raises(lw.InvalidParameter, match="level"):
        bootstrap_steps(np.array([0, 1]), np.ones((2, 2)), 0.5, level, seed=0)


def test_unknown_and_single_values_have_no_interval():
    assert bootstrap_mean(np.array([1.0])) is None
    assert bootstrap_mean(np.array([np.nan, np.nan])) is None


def test_an_interval_contains_its_point_also_where_all_resampled_walks_settle_later():
    # The mean over both walks is never above 0.5; either of them alone is, at another time.
    step = np.array([0, 10, 20, 30])
    errors = np.array([[0.2, 0.9, 0.0, 0.2], [0.2, 0.0, 0.9, 0.2]])
    low, high = bootstrap_steps(step, errors, 0.5, 0.95, seed=0)
    assert low == 0.0
    assert high == 30.0
    assert interval_around(1.0, np.array([2.0, 3.0])) == (1.0, 3.0)
    assert interval_around(np.inf, np.array([2.0, 3.0])) == (2.0, np.inf)


def test_other_choices_widen_an_interval_by_their_factors():
    step = np.arange(0, 101)
    rates = np.random.default_rng(0).uniform(0.9, 1.1, size=(30, 1))
    errors = np.exp(-0.05 * rates * step)
    alone = bootstrap_steps(step, errors, 0.2, 0.95, 0)
    others = OtherChoices(np.array([0.5, 1.0, 1.5]), np.array([0.2, 0.6, 0.2]))
    both = bootstrap_steps(step, errors, 0.2, 0.95, 0, others)
    assert both[0] == pytest.approx(0.5 * alone[0], abs=2.0)
    assert both[1] == pytest.approx(1.5 * alone[1], abs=2.0)
    certain = OtherChoices(np.array([0.5, 1.0]), np.array([0.0, 1.0]))
    assert bootstrap_steps(step, errors, 0.2, 0.95, 0, certain) == alone


def test_an_interval_never_ends_beyond_the_run() -> None:
    """A step size that tuning might have chosen may need more steps than the run has."""
    step = np.array([0, 10, 20])
    errors = np.tile([1.0, 0.1, 0.1], (4, 1))
    others = OtherChoices(np.array([1.0, 100.0]), np.array([0.5, 0.5]))
    assert bootstrap_steps(step, errors, 0.5, 0.95, 0, others) == (10.0, np.inf)
    within = OtherChoices(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    assert bootstrap_steps(step, errors, 0.5, 0.95, 0, within) == (10.0, 20.0)
