"""Whether a forecast can be relied upon, and why.

The thresholds were fixed on the instances "design" of ``benchmarks/predictions.py``, before the
instances on which forecasts are judged were looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levywalk.theory.judge.fewest_steps import Crossing

_SLOW = 2.5  # largest ratio of the steps to accuracy/1.25 and to 1.25 accuracy that was tried
_BEND = 2.5  # largest ratio of curvatures at x⁰ and at x* that was tried


@dataclass(frozen=True)
class Trust:
    """Whether a forecast is trusted, with the reason in words."""

    trusted: bool
    reason: str


def verdict_of_curve(crossing: Crossing, bias2: float, accuracy: float, bend: float) -> Trust:
    """Judge steps that come from the error curve.

    What lies outside the range of the instances on which forecasts were tried is not trusted.

    Parameters
    ----------
    crossing
        Where the curve settles.
    bias2, accuracy
        The relative bias, and the accuracy.
    bend
        The curvature of the slowest direction at x⁰ divided by that at x*; 1 for least squares.

    Examples
    --------
    >>> verdict_of_curve(Crossing(100.0, 0.0, 90.0, 110.0), 0.0, 0.01, 1.0).trusted
    True
    >>> verdict_of_curve(Crossing(100.0, 0.0, 50.0, 300.0), 0.0, 0.01, 1.0).reason
    'near the accuracy the error falls slowly: for 1.25 times the accuracy it takes 50 steps, ...'
    """
    change = max(bend, 1.0 / bend)
    if change > _BEND:
        return Trust(
            False,
            f"the curvature of the losses changes by a factor of {change:.2g} between the first "
            "model and the optimum, so that no quadratic model describes them",
        )
    if not np.isfinite(crossing.steps):
        if bias2 > 0.5 * accuracy:
            return Trust(
                True, "the bias of the jumps alone is more than half the accuracy at any step size"
            )
        return Trust(
            False, "no step size that was tried brings the error to half the accuracy or below"
        )
    if crossing.late > _SLOW * crossing.early:
        late = f"{crossing.late:,.0f}" if np.isfinite(crossing.late) else "infinitely many"
        return Trust(
            False,
            "near the accuracy the error falls slowly: for 1.25 times the accuracy it takes "
            f"{crossing.early:,.0f} steps, for 1/1.25 of it {late}",
        )
    return Trust(
        True, "the exact curve of the mean squared error was followed to the accuracy and beyond"
    )


def verdict_of_limit() -> Trust:
    """Judge steps that come from the limit of small step sizes.

    Examples
    --------
    >>> verdict_of_limit().reason
    'the network is too large for the error curve, and the limit of small steps overlooks ...'
    """
    return Trust(
        False,
        "the network is too large for the error curve, and the limit of small steps overlooks "
        "traps that delay the walk before it has seen all of the data",
    )


def verdict_of_other_loss(has_curve: bool) -> Trust:
    """Judge steps of losses for which forecasts were not compared with simulations.

    Examples
    --------
    >>> verdict_of_other_loss(True).reason
    'the loss is neither that of least squares nor that of logistic regression, for which ...'
    """
    other = "the loss is neither that of least squares nor that of logistic regression, "
    if has_curve:
        return Trust(
            False,
            other + "for which forecasts were tried; they follow its mean curvature between the "
            "first model and the optimum",
        )
    return Trust(False, other + "so only the limit of small steps answers")
