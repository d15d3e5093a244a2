"""Means, settling times and their bootstrap intervals; an infinite error makes a mean infinite."""

from __future__ import annotations

from dataclasses import dataclass

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


def resampled_means(values: Floats, seed: int, count: int = RESAMPLES) -> Floats:
    """Return means over rows of bootstrap samples of the rows; the same seed, rows and count give
    the same samples.
    """
    rng = generator(seed, Domain.BOOTSTRAP)
    rows = len(values)
    times = rng.multinomial(rows, np.full(rows, 1.0 / rows), size=count).astype(np.float64)
    finite = np.isfinite(values)
    with np.errstate(over="ignore", invalid="ignore"):
        means = times @ np.where(finite, values, 0.0) / rows
    if not finite.all():
        means[times @ (~finite).astype(np.float64) > 0] = np.inf
    return np.asarray(means)


def settled_draws(
    step: Ints, errors: Floats, accuracy: float, seed: int, count: int = RESAMPLES
) -> Floats:
    """Return the settling times of the means over bootstrap samples of the walks."""
    return settled_at(step, resampled_means(errors, seed, count), accuracy)


@dataclass(frozen=True)
class OtherChoices:
    """What a result would have been had tuning chosen otherwise: at which share of tuning draws
    each step size is chosen, and what the result there is in units of the result at the chosen one.

    Attributes
    ----------
    factors
        Steps at each step size over steps at the chosen one, in the tuning walks.
    shares
        How often each step size is chosen; they sum to 1.
    """

    factors: Floats
    shares: Floats

    def spread(self, draws: Floats, seed: int) -> Floats:
        """Return the draws, each multiplied by the factor of a step size that is drawn at random.

        Examples
        --------
        >>> others = OtherChoices(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
        >>> others.spread(np.array([100.0, np.inf]), seed=0)
        array([200.,  inf])
        """
        rng = generator(seed, Domain.BOOTSTRAP, 1)
        return np.asarray(draws * rng.choice(self.factors, size=len(draws), p=self.shares))


def interval_around(point: float, draws: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of some draws, widened to contain the point.

    The draws are means of resampled walks, which vary more than the mean itself, so that they can
    all settle later than it.

    Examples
    --------
    >>> interval_around(3.0, np.array([4.0, 5.0, np.inf]))
    (3.0, inf)
    """
    level = checks.real(
        "level", level, "in (0, 1)", low=0.0, high=1.0, low_open=True, high_open=True
    )
    tail = (1.0 - level) / 2.0
    # An order statistic, because there is nothing between a number and infinity.
    low, high = np.quantile(draws, [tail, 1.0 - tail], method="inverted_cdf")
    return min(float(low), point), max(float(high), point)


def bootstrap_steps(
    step: Ints,
    errors: Floats,
    accuracy: float,
    level: float,
    seed: int,
    others: OtherChoices | None = None,
) -> tuple[float, float]:
    """Return the interval of the settling time of the mean over walks; with ``others``, also over
    the step sizes that tuning might have chosen. An end beyond the last step is infinite.
    """
    draws = settled_draws(step, errors, accuracy, seed)
    if others is not None:
        draws = others.spread(draws, seed)
        # Another step size may need more steps than the run has: that is not reached within it.
        draws = np.where(draws > step[-1], np.inf, draws)
    point = float(settled_at(step, mean_over_walks(errors)[None], accuracy)[0])
    return interval_around(point, draws, level)


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
    means = resampled_means(values[:, None], seed)[:, 0]
    return interval_around(float(mean_over_walks(values)), means, level)
