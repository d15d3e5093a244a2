"""Ratios of two costs over instances, with bootstrap intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import Domain, generator

RESAMPLES = 2000


@dataclass(frozen=True)
class Ratio:
    """The median over instances of a ratio, its 95 % bootstrap interval over instances, and how
    many are undefined.
    """

    effect: float
    low: float
    high: float
    undefined: int
    of: int


def ratio(above: Floats, below: Floats, seed: int = 0) -> Ratio:
    """Compare two costs instance by instance; the ratio is undefined if both are infinite.

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
    rng = generator(seed, Domain.BOOTSTRAP)
    # An order statistic, because there is nothing between a number and infinity.
    drawn = np.sort(values[rng.integers(0, len(values), (RESAMPLES, len(values)))], axis=1)[
        :, (len(values) - 1) // 2
    ]
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    return Ratio(
        float(values[(len(values) - 1) // 2]), float(low), float(high), undefined, len(above)
    )
