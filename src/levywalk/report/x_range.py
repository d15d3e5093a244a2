"""Which part of the horizontal axis shows all changes of the curves; whether it is logarithmic.

A walk reaches its floor early and then goes on: on a linear axis over all steps the curves are an
L. The rule cuts the axis where all curves have settled, and takes a logarithmic one if some settle
much earlier than others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levywalk.arrays import Floats

_WIDEST = 10.0  # a floor that varies by more than this factor has not settled
_FLAT = 1.2  # a trend within this factor cannot be seen
_NARROWEST = 2.0  # within this factor a curve counts as flat
_ROOM = 1.5  # the longer a level stretch is, the wider its noise ranges (on a log scale)
_BEYOND = 2.5  # the axis ends at this multiple of the last settling point, so that floors show
_APART = 20.0  # an axis this many times as long as the first settling is logarithmic
_SHORTEST = 0.01  # no smaller share of the axis is shown …
_FEWEST = 25  # … and no fewer checkpoints
_BEGUN = 0.8  # a curve has begun to fall at this share of its first value


@dataclass(frozen=True)
class XRange:
    """The shown part of the horizontal axis; ``end`` is where the curves end."""

    left: float
    right: float
    end: float
    log: bool

    @property
    def is_cut(self) -> bool:
        """Whether the axis ends before the curves."""
        return self.right < self.end


def x_range(lines: Sequence[tuple[Floats, Floats]], reached: Sequence[float] = ()) -> XRange:
    """Return what to show of some lines.

    Parameters
    ----------
    lines
        The horizontal values, ascending, and the vertical ones of each line.
    reached
        Horizontal values that must be seen, such as where lines reach an accuracy; infinite ones
        are ignored.

    Examples
    --------
    >>> x = np.arange(100_001.0)
    >>> early, late = np.exp(-x / 100) + 0.01, np.exp(-x / 10_000) + 0.01
    >>> x_range([(x, early)]).right < 2000, x_range([(x, early), (x, late)]).log
    (True, True)
    >>> x_range([(x, late)])
    XRange(left=0.0, right=100000.0, end=100000.0, log=False)
    """
    end = max(float(x[-1]) for x, _ in lines)
    settled = [settles_at(x, y) for x, y in lines]
    seen = [at for at in reached if math.isfinite(at)]
    right = max(_BEYOND * max([*settled, *seen]), _SHORTEST * end, _few_points(lines))
    right = right if 0.0 < right < 0.8 * end else end
    left = max(_begins(lines), right / 1e6)
    log = 0.0 < min(settled) * _APART < right and left < right
    return XRange(left if log else 0.0, right, end, log)


def settles_at(x: Floats, y: Floats) -> float:
    """Return from where on a curve is level: on a log scale it then ranges no more than 1.5 times
    as wide as in its second half. A curve that still moves there, in one direction or by more than
    a factor of 10, or is not finite, settles at its end.

    Examples
    --------
    >>> x = np.arange(1001.0)
    >>> settles_at(x, np.maximum(np.exp(-x / 10), 0.01)), settles_at(x, np.exp(-x / 10))
    (40.0, 1000.0)
    """
    if not (np.isfinite(y) & (y > 0)).all():
        return float(x[-1])
    logs = np.log(y)
    # the largest and the smallest value from each point on
    high = np.maximum.accumulate(logs[::-1])[::-1]
    low = np.minimum.accumulate(logs[::-1])[::-1]
    spread = high - low
    middle, later = (int(np.searchsorted(x, share * x[-1])) for share in (0.5, 0.75))
    half = spread[middle]
    # noise has about one mean in both quarters of the second half; a curve that moves has not
    trend = abs(float(logs[middle:later].mean() - logs[later:].mean())) if middle < later else 0.0
    if half > math.log(_WIDEST) or (half > math.log(_FLAT) and trend > half / 4):
        return float(x[-1])
    limit = max(_ROOM * half, math.log(_NARROWEST))
    return float(x[int(np.argmax(spread <= limit))])


def _few_points(lines: Sequence[tuple[Floats, Floats]]) -> float:
    return max(float(x[min(_FEWEST, len(x) - 1)]) for x, _ in lines)


def _begins(lines: Sequence[tuple[Floats, Floats]]) -> float:
    """Return the first positive value at which some line is about to leave its start."""
    found = []
    for x, y in lines:
        moved = np.flatnonzero((y < _BEGUN * y[0]) | (y > y[0] / _BEGUN))
        last = max(int(moved[0]) - 1, 0) if moved.size else len(x) - 1
        positive = x[x > 0]
        found.append(max(float(x[last]), float(positive[0])) if positive.size else 0.0)
    return min(found)
