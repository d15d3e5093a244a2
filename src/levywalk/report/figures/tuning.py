"""The figure of a tuning: predicted cost, spectral gap and error floor."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from levywalk.report.figures.style import COLOURS, tidy
from levywalk.theory import Tuning

_ROUNDING = 1e-20  # a relative floor below this counts as zero
_AXES = {"p_jump": "p_jump", "mix": "λ, the share of the uniform law"}
PANELS = {
    "cost": "predicted cost to the accuracy",
    "spectral_gap": "right spectral gap",
    "bias2": "floor: ‖x̃ − x*‖² / ‖x*‖²",
}


def tuning_panel(axes: Axes, tuning: Tuning, column: str) -> None:
    """Draw one column of a tuning against p_jump or λ; a dashed line marks what was chosen."""
    axis = next(iter(tuning.parameters))
    where = np.array([row[axis] for row in tuning.curve], dtype=np.float64)
    values = np.array([row[column] for row in tuning.curve], dtype=np.float64)
    shown = np.isfinite(values) & (values > _ROUNDING)
    axes.plot(where[shown], values[shown], marker="o", markersize=3.5, color=COLOURS[0])
    axes.axvline(tuning.parameters[axis], color=COLOURS[1], linewidth=1.0, linestyle="--")
    axes.set_title(PANELS[column], fontsize=9)
    axes.set_xlabel(_AXES[axis])
    if axis == "p_jump" and (where > 0).any():
        axes.set_xscale("symlog", linthresh=float(where[where > 0].min()))
    axes.set_xlim(left=0.0)
    if not shown.any():
        axes.annotate("none", (0.5, 0.5), xycoords="axes fraction", ha="center")
    if shown.any() and values[shown].max() > 10 * values[shown].min():
        axes.set_yscale("log")
    tidy(axes)


def tuning_title(tuning: Tuning) -> str:
    """Return the least cost and where it is."""
    rest = ", ".join(f"{name} = {value:g}" for name, value in tuning.parameters.items())
    return f"least predicted cost {tuning.cost:,.0f} at {rest}"
