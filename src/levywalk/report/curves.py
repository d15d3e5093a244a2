"""Curves thin enough for a page: what the report and its paper figures both draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.trace import Trace
from levywalk.trace.statistics import mean_over_walks, resampled_means

MOST_POINTS = 200


@dataclass(frozen=True, eq=False)
class Curve:
    """The error of one design at a few checkpoints.

    Attributes
    ----------
    x
        Mean "steps", "hops" and "transfers" until each point.
    mean, low, high, median
        Of the error over walks, low and high the 95 % interval of the mean.
    reached
        The point from which on the mean stays at the accuracy, or None.
    """

    name: str
    x: dict[str, Floats]
    mean: Floats
    low: Floats
    high: Floats
    median: Floats
    reached: int | None

    def plain(self) -> dict[str, Any]:
        """Return lists for JSON, seven digits deep; None where there is no number."""
        parts = {
            **self.x,
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "median": self.median,
        }
        return {
            "name": self.name,
            "reached": self.reached,
            **{key: _listed(part) for key, part in parts.items()},
        }


def curve(name: str, trace: Trace, accuracy: float) -> Curve:
    """Return at most `MOST_POINTS` points of a trace, the one where the accuracy is reached among them.

    Examples
    --------
    >>> import levywalk as lw
    >>> trace = lw.run(lw.ring(20), lw.homogeneous(20), lw.mhlj(), steps=1000, step_size=0.01, record_every=1)
    >>> points = curve("MHLJ", trace, 0.5)
    >>> len(points.mean) <= 200, points.x["steps"][[0, -1]].tolist()
    (True, [0.0, 1000.0])
    """
    at = trace.steps_to(accuracy)
    crossing = int(np.searchsorted(trace.step, at)) if math.isfinite(at) else None
    keep = _kept(len(trace.step), crossing)
    errors = trace.error[:, keep]
    low, high = np.quantile(resampled_means(errors, seed=0), [0.025, 0.975], axis=0, method="inverted_cdf")
    return Curve(
        name=name,
        x={
            "steps": trace.step[keep].astype(np.float64),
            "hops": trace.hops[:, keep].mean(axis=0),
            "transfers": trace.transfers[:, keep].mean(axis=0),
        },
        mean=mean_over_walks(errors),
        low=low,
        high=high,
        median=np.median(errors, axis=0),
        reached=None if crossing is None else int(np.searchsorted(keep, crossing)),
    )


def _kept(count: int, also: int | None) -> Ints:
    """Return which checkpoints to draw: even ones, and closer ones at the beginning for a logarithmic axis."""
    if count <= MOST_POINTS:
        return np.arange(count)
    even = np.linspace(0, count - 1, 130)
    early = np.geomspace(1, count - 1, MOST_POINTS - 131)
    points = np.concatenate([even, early, [] if also is None else [also]])
    return np.unique(np.rint(points).astype(np.int64))


def _listed(values: Floats) -> list[float | None]:
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values.tolist()]
