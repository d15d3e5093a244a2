"""A comparison's numbers as text for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def whole(value: float) -> str:
    """Return a count with thin groups, or that it was not reached.

    Examples
    --------
    >>> whole(12400.0), whole(math.inf)
    ('12,400', 'not reached')
    """
    return f"{value:,.0f}" if math.isfinite(value) else "not reached"


def with_interval(value: float, low: float, high: float) -> str:
    """Return a count with its interval.

    Examples
    --------
    >>> with_interval(500.0, 400.0, math.inf)
    '500 [400, ∞]'
    """
    if not math.isfinite(value):
        return "not reached" if not math.isfinite(low) else f"not reached [{low:,.0f}, ∞]"
    return f"{value:,.0f} [{low:,.0f}, {f'{high:,.0f}' if math.isfinite(high) else '∞'}]"


def comparison_text(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return the headers and the cells of ``Comparison.table()`` in words."""
    accuracies = [
        name.removeprefix("steps_to_")
        for name in table.columns
        if name.startswith("steps_to_") and not name.endswith(("_low", "_high"))
    ]
    headers = [
        "design",
        "step size (γL*)",
        *[f"steps to {float(a) * 100:g} %" for a in accuracies],
        "busiest node: share (target)",
    ]
    headers += ["longest dwell"] if "longest_dwell" in table else []
    headers += ["transfers per step"]
    rows = []
    for name, row in table.iterrows():
        cells = [str(name), f"{row['step_size']:.2e} ({row['relative_step_size']:.2g})"]
        cells += [
            with_interval(row[f"steps_to_{a}"], row[f"steps_to_{a}_low"], row[f"steps_to_{a}_high"]) for a in accuracies
        ]
        cells.append(
            f"{int(row['busiest_node'])}: {100 * row['busiest_share']:.2f} % ({100 * row['busiest_target']:.2f} %)"
        )
        cells += [whole(row["longest_dwell"])] if "longest_dwell" in table else []
        cells.append(f"{row['transfers_per_step']:.2f}")
        rows.append(cells)
    return headers, rows
