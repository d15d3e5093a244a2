"""Curves with few enough points for a page; the report and its figures for a paper both draw
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.report.x_range import XRange, x_range
from levywalk.trace import Comparison, Trace
from levywalk.trace.statistics import mean_over_walks, resampled_means, settled_at

MOST_POINTS = 200


@dataclass(frozen=True, eq=False)
class Curve:
    """The error (or loss) of one design at a few checkpoints.

    Attributes
    ----------
    x
        Mean "steps", "hops" and "transfers" until each point; also "time" if the run had costs.
    mean, low, high, median
        Mean and median of the error over walks; low and high are the 95 % interval of the mean.
    reached
        The point from which on the mean stays at or below the accuracy, or None.
    """

    name: str
    x: dict[str, Floats]
    mean: Floats
    low: Floats
    high: Floats
    median: Floats
    reached: int | None

    def plain(self) -> dict[str, Any]:
        """Return lists for JSON, with seven digits; None where there is no finite number."""
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


def curve(
    name: str,
    trace: Trace,
    values: Floats,
    accuracy: float | None,
    until: float = math.inf,
    *,
    rises: bool = False,
    columns: Ints | None = None,
) -> Curve:
    """Return at most `MOST_POINTS` points of a trace, among them the one where the accuracy is
    reached; most of them up to step ``until``.

    ``values`` are the error, or what else is drawn, of each (replica, checkpoint); if it ``rises``,
    the accuracy is reached from below. ``columns`` are the checkpoints at which they were measured,
    if not at all.

    Examples
    --------
    >>> import levywalk as lw
    >>> parts = lw.ring(20), lw.homogeneous(20), lw.mhlj()
    >>> trace = lw.run(*parts, steps=1000, step_size=0.01, record_every=1)
    >>> points = curve("MHLJ", trace, trace.error, 0.5)
    >>> len(points.mean) <= 200, points.x["steps"][[0, -1]].tolist()
    (True, [0.0, 1000.0])
    """
    crossing = None
    if accuracy is not None:
        sign = -1.0 if rises else 1.0
        mean = sign * mean_over_walks(values)
        at = float(settled_at(trace.step, mean[None], sign * accuracy)[0])
        crossing = int(np.searchsorted(trace.step, at)) if math.isfinite(at) else None
    places = np.arange(len(trace.step)) if columns is None else columns
    step = trace.step[places]
    also = None if crossing is None else int(np.searchsorted(places, crossing))
    keep = places[_kept(len(places), also, int(np.searchsorted(step, until)))]
    errors = values[:, keep]
    low, high = np.quantile(
        resampled_means(errors, seed=0), [0.025, 0.975], axis=0, method="inverted_cdf"
    )
    return Curve(
        name=name,
        x={
            "steps": trace.step[keep].astype(np.float64),
            "hops": trace.hops[:, keep].mean(axis=0),
            "transfers": trace.transfers[:, keep].mean(axis=0),
            **({} if trace.time is None else {"time": trace.time[:, keep].mean(axis=0)}),
        },
        mean=mean_over_walks(errors),
        low=low,
        high=high,
        median=np.median(errors, axis=0),
        reached=None if crossing is None else int(np.searchsorted(keep, crossing)),
    )


def axes_of(curves: Sequence[Curve]) -> list[str]:
    """Return what the curves can be drawn against: what all of them have.

    Examples
    --------
    >>> axes_of([])
    ['steps', 'hops', 'transfers']
    """
    timed = bool(curves) and all("time" in curve.x for curve in curves)
    return ["steps", "hops", "transfers", *(["time"] if timed else [])]


def drawn_quantity(results: Comparison) -> str:
    """Return what the curves of a comparison show: what it is ranked by, or the loss if that has no
    curve.
    """
    return results.ranking.quantity if results.ranking.has_curve else "loss"


def curves_of(results: Comparison) -> list[Curve]:
    """Return the curves of all designs."""
    ranking = results.ranking
    by_end_alone = not ranking.has_curve
    values = {
        name: trace.loss if by_end_alone else ranking.oriented(results.values(name))
        for name, trace in results.traces.items()
    }
    means = [
        (trace.step.astype(np.float64), mean_over_walks(values[name]))
        for name, trace in results.traces.items()
    ]
    until = x_range(means, list(results.steps_to.values())).right
    return [
        curve(
            name,
            trace,
            values[name],
            results.accuracy,
            until,
            rises=ranking.higher_is_better,
            columns=np.searchsorted(trace.step, trace.metric_step) if ranking.recorded else None,
        )
        for name, trace in results.traces.items()
    ]


def axis_range(lines: Sequence[Curve], axis: str) -> XRange:
    """Return the part of an axis on which all changes of some curves are visible."""
    reached = [float(line.x[axis][line.reached]) for line in lines if line.reached is not None]
    return x_range([(line.x[axis], line.mean) for line in lines], reached)


def _kept(count: int, also: int | None, until: int) -> Ints:
    """Return which checkpoints to draw: even ones, most of them before the checkpoint ``until``,
    and closer ones at the beginning for a logarithmic axis.
    """
    if count <= MOST_POINTS:
        return np.arange(count)
    until = min(until, count - 1)
    even = np.append(np.linspace(0, until, 100), np.linspace(until, count - 1, 30))
    early = np.geomspace(1, count - 1, MOST_POINTS - 131)
    points = np.concatenate([even, early, [] if also is None else [also]])
    return np.unique(np.rint(points).astype(np.int64))


def _listed(values: Floats) -> list[float | None]:
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values.tolist()]
