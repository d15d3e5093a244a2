"""What all figures of the paper share: how a line is drawn from instances, its look, and how many
instances and walks are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.report.figures.figure_data import Line
from levywalk.reproduction import figure_recipes, paper
from levywalk.reproduction.paper import MHLJ, MHLJ_CODE, UNIF, WEIGHT, Effort
from levywalk.reproduction.reported_walks import ReportedWalks

POINTS = 140  # number of points of all curves of a panel
FROM = 10  # the first step that is drawn
DIVERGED = 1e3  # an error this many times the initial one counts as diverged
BAND = "Line: median over instances of the mean over walks; band: 10 to 90 % of instances"
LOOKS = {
    UNIF: 0,
    WEIGHT: 1,
    MHLJ: 2,
    MHLJ_CODE: 4,
    paper.IID: 3,
    "p_jump = 0.1 (MHLJ)": 2,
    "no jumps (WeightRW)": 1,
}
_FIRST_LOOK = 5  # for lines without a look of their own


def figure_effort(effort: Effort) -> Effort:
    """Return the effort for walks that only figures show: the first few of the reported instances.

    Examples
    --------
    >>> figure_effort(paper.FULL).seeds == paper.FULL.seeds[:10]
    True
    """
    return replace(effort, instances=min(effort.instances, figure_recipes.DRAWN))


def sweep_effort(effort: Effort) -> Effort:
    """Return the effort for sweeps, which take many short walks: half of the instances, fewer
    walks.

    Examples
    --------
    >>> sweep_effort(paper.QUICK).instances, sweep_effort(paper.FULL).walks
    (3, 32)
    """
    return replace(
        effort,
        instances=-(-effort.instances // 2),
        walks=min(effort.walks, figure_recipes.SWEPT_WALKS),
    )


def looks_of(names: Mapping[str, Any]) -> dict[str, int]:
    """Return a look (colour, dashes, marks) for each line: that of its method, or the next free
    one.

    Examples
    --------
    >>> looks_of({"MHLJ(0.1)": {}, "MixedRW, λ = 0.1": {}, "MixedRW, λ = 0.4": {}})
    {'MHLJ(0.1)': 2, 'MixedRW, λ = 0.1': 5, 'MixedRW, λ = 0.4': 6}
    """
    others = [name for name in names if name not in LOOKS]
    return {
        name: LOOKS[name] if name in LOOKS else _FIRST_LOOK + others.index(name) for name in names
    }


def curve(
    name: str, look: int, walks: ReportedWalks, size: int, axis: str, points: int = POINTS
) -> Line:
    """Return the error of some walks against steps, hops or transfers, at some of the
    checkpoints.
    """
    keep = _kept(walks.step, points)
    where = (
        walks.step.astype(np.float64)
        if axis == "steps"
        else np.median(walks.curves[axis][:, size], axis=0)
    )
    low, middle, high = over_instances(walks.curves["distance"][:, size])
    diverges = not middle[-1] < DIVERGED
    return Line(
        name, look, where[keep], middle[keep], low[keep], high[keep], "diverges" if diverges else ""
    )


def over_instances(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the 10 %, 50 % and 90 % quantiles over rows, as order statistics, because some are
    infinite.

    Examples
    --------
    >>> [float(q[0]) for q in over_instances(np.array([[1.0], [2.0], [3.0], [4.0], [np.inf]]))]
    [1.0, 3.0, inf]
    """
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9], axis=0, method="inverted_cdf")
    return low, middle, high


def _kept(step: Ints, points: int) -> Ints:
    first = int(np.searchsorted(step, FROM))
    return np.unique(np.round(np.linspace(first, len(step) - 1, points)).astype(np.int64))
