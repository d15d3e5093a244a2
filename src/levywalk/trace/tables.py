"""The numbers of a comparison as text."""

from __future__ import annotations

import math

from levywalk.trace import Comparison
from levywalk.trace.ranking import Ranking


def whole(value: float) -> str:
    """Return a count with thousands separators, or that it was not reached.

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


def percent(share: float | None) -> str:
    """Return a share as per cent.

    Examples
    --------
    >>> percent(0.01), percent(0.000123), percent(None)
    ('1 %', '0.0123 %', '∞')
    """
    if share is None or not math.isfinite(share):
        return "∞"
    if 100 * share < 1000:
        return f"{100 * share:.3g} %"
    return f"{100 * share:,.0f} %" if share < 1e6 else f"{100 * share:.2e} %"


def quantity_text(ranking: Ranking, value: float | None) -> str:
    """Return a value of what designs are ranked by: per cent of the initial value, or a plain
    number.

    Examples
    --------
    >>> quantity_text(Ranking("distance2", 0.01), 0.25), quantity_text(Ranking("loss", None), 0.25)
    ('25 %', '0.25')
    """
    if ranking.relative:
        return percent(value)
    return "∞" if value is None or not math.isfinite(value) else f"{value:.5g}"


def title_text(result: Comparison) -> str:
    """Return the title of a comparison's table."""
    ranking, sampled = result.ranking, sampled_text(result)
    if ranking.relative:
        title = f"steps to a share of the initial {ranking.quantity} [95 % interval over walks]"
    else:
        title = f"{ranking.quantity} at the end [95 % interval over walks]"
    if ranking.recorded:
        title += f"; higher {ranking.quantity} is better" if ranking.higher_is_better else ""
    title += f"; {sampled}" if sampled else ""
    if not result.step_sizes_tuned:
        return f"{title}; step sizes given, not tuned"
    if result.accuracy is None:
        return f"{title}; step sizes tuned for the {ranking.best} {ranking.quantity} at the end"
    return f"{title}; tuned to {quantity_text(ranking, result.accuracy)}"


def sampled_text(result: Comparison) -> str:
    """Return on how many nodes the loss was measured if that was a sample, else an empty text."""
    found = sorted({trace.sampled_loss for trace in result.traces.values()} - {""})
    return f"losses measured on a sample of {', '.join(found)}" if found else ""


def other_metrics(result: Comparison) -> list[str]:
    """Return the metrics that all traces have, without the one that designs are ranked by."""
    every = [set(trace.metrics) for trace in result.traces.values()]
    first = next(iter(result.traces.values())).metrics
    return [name for name in first if name != result.rank_by and all(name in one for one in every)]


def comparison_text(result: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the headers and the cells of a comparison's table as text, one row per design."""
    ranking, rows = result.ranking, result.rows
    accuracies = sorted(result.accuracies, reverse=True)
    visits = any("busiest_node" in row for row in rows.values())
    dwell = any("longest_dwell" in row for row in rows.values())
    headers = ["design", "step size (γL*)"]
    headers += [f"steps to {quantity_text(ranking, accuracy)}" for accuracy in accuracies]
    timed = result.accuracy is not None and all("seconds_per_step" in row for row in rows.values())
    headers += [f"seconds to {quantity_text(ranking, result.accuracy)}"] if timed else []
    headers += [] if ranking.relative else [f"{ranking.quantity} at the end"]
    metrics = other_metrics(result)
    headers += [f"{metric} at the end" for metric in metrics]
    headers += ["busiest node: share (target)"] if visits else []
    headers += ["longest dwell"] if dwell else []
    headers += ["transfers per step"]
    asked = any(row["small_messages_per_step"] > 0 for row in rows.values())
    headers += ["small messages per step"] if asked else []
    lines = []
    for name, row in rows.items():
        cells = [name, f"{row['step_size']:.2e} ({row['relative_step_size']:.2g})"]
        cells += [with_interval(*result.steps_interval(name, accuracy)) for accuracy in accuracies]
        cells += [f"{row[f'time_to_{result.accuracy:g}']:,.4g}"] if timed else []
        if not ranking.relative:
            low, high = (row[f"{result.final_column}_{end}"] for end in ("low", "high"))
            known = "" if math.isnan(low) else f" [{low:.5g}, {high:.5g}]"
            cells.append(quantity_text(ranking, result.final(name)) + known)
        cells += [f"{row[f'final_{metric}']:.5g}" for metric in metrics]
        if visits:
            share, target = 100 * row["busiest_share"], 100 * row["busiest_target"]
            node = result.traces[name].shown(row["busiest_node"])
            cells.append(f"{node}: {share:.2f} % ({target:.2f} %)")
        cells += [whole(row["longest_dwell"])] if dwell else []
        cells.append(f"{row['transfers_per_step']:.2f}")
        cells += [f"{row['small_messages_per_step']:.2f}"] if asked else []
        lines.append(cells)
    return headers, lines
