"""Means, settling times and their bootstrap intervals; an infinite error makes a mean infinite."""

from __future__ import annotations

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.draws import Domain, generator

RESAMPLES = 1000


def mean_over_walks(errors: Floats) -> Floats:
    """Return the mean over rows; it is infinite where any walk's error is infinite.

    Examples
    --------
    >>> mean_over_walks(np.array([[1.0, 2.0], [3.0, np.inf]]))
    array([ 2., inf])
    """
    with np.errstate(over="ignore"):
        return np.asarray(errors.mean(axis=0))


def settled_at(step: Ints, curves: Floats, accuracy: float) -> Floats:
    """Return, for each curve, the first checkpoint after which it stays at or below ``accuracy``,
    or infinity.

    Examples
    --------
    >>> settled_at(
    ...     np.array([0, 10, 20, 30]), np.array([[1.0, 0.1, 0.3, 0.1], [1.0, 0.1, 0.1, 0.2]]), 0.2
    ... )
    array([30., 10.])
    >>> settled_at(np.array([0, 10]), np.array([[1.0, 0.3]]), 0.2)
    array([inf])
    """
    above = ~(curves <= accuracy)
    last_above = np.where(above.any(axis=1), above.shape[1] - 1 - above[:, ::-1].argmax(axis=1), -1)
    padded = np.append(step.astype(np.float64), np.inf)
    return np.asarray(padded[last_above + 1])


def resampled_means(values: Floats, seed: int) -> Floats:
    """Return means over rows of `RESAMPLES` bootstrap samples of the rows."""
    count = len(values)
    rng = generator(seed, Domain.BOOTSTRAP)
    times = rng.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES).astype(np.float64)
    finite = np.isfinite(values)
    with np.errstate(over="ignore", invalid="ignore"):
        means = times @ np.where(finite, values, 0.0) / count
    means[times @ (~finite).astype(np.float64) > 0] = np.inf
    return np.asarray(means)


def bootstrap_steps(
    step: Ints, errors: Floats, accuracy: float, level: float, seed: int
) -> tuple[float, float]:
    """Return the percentile interval of the settling time of the mean over walks."""
    level = checks.real(
        "level", level, "in (0, 1)", low=0.0, high=1.0, low_open=True, high_open=True
    )
    times = settled_at(step, resampled_means(errors, seed), accuracy)
    tail = (1.0 - level) / 2.0
    # An order statistic, because there is nothing between a number and infinity.
    low, high = np.quantile(times, [tail, 1.0 - tail], method="inverted_cdf")
    return float(low), float(high)


def bootstrap_mean(
    values: Floats, level: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Return the percentile interval of the mean, or None for a single value and for unknown ones
    (NaN).

    Examples
    --------
    >>> bootstrap_mean(np.array([1.0])) is None
    True
    """
    if len(values) < 2 or np.isnan(values).any():
        return None
    tail = (1.0 - level) / 2.0
    means = resampled_means(values[:, None], seed)[:, 0]
    low, high = np.quantile(means, [tail, 1.0 - tail], method="inverted_cdf")
    return float(low), float(high)
