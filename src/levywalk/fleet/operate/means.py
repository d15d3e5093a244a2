"""Means over nodes in which a bad value shows: none is left out because it is not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def mean_of(values: Sequence[float]) -> float:
    """Return the mean: NaN if a value is no number, infinite if one is infinite.

    Numbers from nodes elsewhere may be so large that their sum is not finite; their mean is.

    Examples
    --------
    >>> mean_of([1.0, 3.0]), mean_of([1.0, math.inf]), mean_of([math.nan, math.inf])
    (2.0, inf, nan)
    >>> mean_of([1e308, 1e308, 1e308]), mean_of([math.inf, -math.inf])
    (1e+308, nan)
    """
    if all(map(math.isfinite, values)):
        try:
            return math.fsum(values) / len(values)
        except OverflowError:  # of the sum
            return math.fsum(value / len(values) for value in values)
    return float(sum(value for value in values if not math.isfinite(value)))


def mean_metrics(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over those who have it.

    Examples
    --------
    >>> mean_metrics([{"accuracy": 0.5}, {}, {"accuracy": math.nan}])
    {'accuracy': nan}
    """
    names = dict.fromkeys(name for one in found for name in one)
    return {name: mean_of([one[name] for one in found if name in one]) for name in names}
