"""The fewest steps to an accuracy over all step sizes, by the exact curve of the error.

The rule is that of a tuned comparison: a step size counts only if the error falls to half the
accuracy or below, so that it does not reach the accuracy by a hair. Here that is the error after
eight times the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from levywalk.arrays import Floats
from levywalk.theory.judge.error_curve import ErrorCurve

PER_DECADE = 16  # step sizes that are told apart
_LONG = 8.0  # the floor is the error after so many times the steps
MARGIN = 0.5  # the floor must be at most this share of the accuracy
_HIGHEST = 8  # the largest γL that is tried is about 10^(8/16) = 3.2
_LOWEST = -5 * PER_DECADE
_STRIDES = (8, 4, 2, 1)
_TOLERANCE = 0.5  # of an estimate that is about a hundred times too large, as a share of the goal
_FLAT = 0.01  # a curve is at its end if it changes by less than this while t grows eightfold
_DIVERGED = 100.0
_MOST_PIECES = 400
_BAND = 1.25  # the accuracy is moved by this factor to see how sharp the steps are


@dataclass(frozen=True)
class Crossing:
    """When a curve settles below its goal.

    Attributes
    ----------
    steps
        The first step after which the error stays at or below the goal.
    floor
        The error after eight times these steps, or at the end of the curve.
    early, late
        The steps for a goal that is 1.25 times as large, and as small.
    """

    steps: float
    floor: float
    early: float = np.inf
    late: float = np.inf


def crossing(curve: ErrorCurve, goal: float, most: float) -> Crossing:
    """Follow a curve until it is settled below ``goal``, or until it is clear that it takes more
    than ``most`` steps.
    """
    times, errors = np.empty(0), np.empty(0)
    for count, (t, error) in enumerate(curve.pieces(_TOLERANCE * goal)):
        fresh = t > times[-1] if len(times) else t >= 0.0
        times, errors = np.append(times, t[fresh]), np.append(errors, error[fresh])
        if not np.isfinite(errors[-1]) or errors[-1] > _DIVERGED * errors[0]:
            return Crossing(np.inf, np.inf)
        below = settled(times, errors, goal)
        if most < below < np.inf or count >= _MOST_PIECES:
            return Crossing(np.inf, float(errors[-1]))
        if times[-1] >= _LONG * max(below, 1.0):
            floor = float(np.interp(_LONG * below, times, errors))
            early, late = settled(times, errors, goal * _BAND), settled(times, errors, goal / _BAND)
            return Crossing(below, floor, early, late)
        if not np.isfinite(below) and (times[-1] > most or _is_flat(times, errors)):
            return Crossing(np.inf, float(errors[-1]))
    return Crossing(np.inf, np.inf)


def _is_flat(times: Floats, errors: Floats) -> bool:
    recent = errors[times >= times[-1] / _LONG]
    return bool(times[-1] > 1000.0 and np.ptp(recent) <= _FLAT * recent[-1])


def settled(times: Floats, errors: Floats, goal: float) -> float:
    """Return when the errors stay at or below the goal, interpolated; infinity if they do not.

    Examples
    --------
    >>> settled(np.array([0.0, 10.0, 20.0]), np.array([4.0, 2.0, 1.0]), 1.5)
    15.0
    """
    above = np.flatnonzero(~(errors <= goal))
    if not len(above):
        return 0.0
    last = int(above[-1])
    if last + 1 == len(times):
        return np.inf
    share = (errors[last] - goal) / (errors[last] - errors[last + 1])
    return float(times[last] + share * (times[last + 1] - times[last]))


def fewest_steps(
    curve_at: Callable[[float], ErrorCurve], largest: float, goal: float, guess: float
) -> tuple[float, Crossing]:
    """Return the best step size and its crossing.

    Parameters
    ----------
    curve_at
        The curve for a step size γ.
    largest
        The largest curvature L at a node, so that steps far above 1/L diverge.
    goal
        The squared error to reach.
    guess
        A step size to begin with, rather too small than too large.
    """
    known: dict[int, Crossing] = {}

    def at(k: int) -> Crossing:
        if k not in known:
            best = min((one.steps for one in known.values()), default=np.inf)
            found = crossing(curve_at(10.0 ** (k / PER_DECADE) / largest), goal, best)
            if found.floor > MARGIN * goal:
                found = Crossing(np.inf, found.floor)
            known[k] = found
        return known[k]

    best = int(np.clip(round(PER_DECADE * np.log10(guess * largest)), _LOWEST, _HIGHEST))
    while best < _HIGHEST and at(best + _STRIDES[0]).steps < at(best).steps:
        best += _STRIDES[0]
    while best > _LOWEST and not np.isfinite(at(best).steps):
        best -= _STRIDES[0]
    for stride in _STRIDES[1:]:
        best = min((best, best + stride, best - stride), key=lambda place: at(place).steps)
    return 10.0 ** (best / PER_DECADE) / largest, at(best)
