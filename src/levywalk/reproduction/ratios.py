"""Ratios of two costs over instances, with intervals of their median."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import Domain, generator
from levywalk.trace.statistics import OtherChoices, interval_around

RESAMPLES = 40_000  # many, because levels that are corrected for many cells look far into the tails


@dataclass(frozen=True)
class Ratio:
    """The median over instances of a ratio, its interval over instances, and how many are
    undefined.
    """

    effect: float
    low: float
    high: float
    undefined: int
    of: int


def ratio(
    above: Floats,
    below: Floats,
    seed: int = 0,
    others: tuple[OtherChoices, OtherChoices] | None = None,
    level: float = 0.95,
) -> Ratio:
    """Compare two costs instance by instance; the ratio is undefined if both are infinite.

    With ``others``, of the first and of the second method, the interval is also over the step sizes
    that tuning might have chosen. ``level`` is the interval's.

    Examples
    --------
    >>> ratio(np.array([2.0, 4.0, np.inf, np.inf]), np.array([1.0, 2.0, 5.0, np.inf])).effect
    2.0
    """
    known = ~(np.isinf(above) & np.isinf(below))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.sort(above[known] / below[known])
    undefined = int((~known).sum())
    if not len(values):
        return Ratio(math.nan, math.nan, math.nan, undefined, len(above))
    n = len(values)
    effect = float(values[(n - 1) // 2])
    if n == 1:  # one exact number, and no sample
        return Ratio(effect, effect, effect, undefined, len(above))
    # How many of n values lie below the true median is binomial, so the interval is between two of
    # them; beyond the least and the greatest there are only 0 and infinity. A bootstrap of the
    # median errs too often at the levels that many cells ask for.
    ends = np.concatenate([[0.0], values, [np.inf]])
    below_median = generator(seed, Domain.BOOTSTRAP).binomial(n, 0.5, RESAMPLES)
    low, high = ends[below_median], ends[below_median + 1]
    if others is not None:
        factor = others[0].spread(np.ones(RESAMPLES), seed) / others[1].spread(
            np.ones(RESAMPLES), seed + 1
        )
        low, high = low * factor, high * factor
    return Ratio(
        effect,
        interval_around(effect, low, level)[0],
        interval_around(effect, high, level)[1],
        undefined,
        len(above),
    )
