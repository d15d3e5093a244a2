"""Small HTML tables that show results in a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from numbers import Integral, Real

import numpy as np

_CELL = 'style="text-align: left; vertical-align: top"'


def table_html(rows: Sequence[tuple[str, object]], caption: str) -> str:
    """Return a table of two columns, a name and a value per row.

    Numbers are written as `value_text` writes them. All text is escaped.

    Parameters
    ----------
    rows
        Pairs of a name and a value.
    caption
        The text above the table.

    Examples
    --------
    >>> "<td" in table_html([("spectral gap", 0.125)], "Ring & walk")
    True
    >>> "Ring &amp; walk" in table_html([("spectral gap", 0.125)], "Ring & walk")
    True
    """
    body = "".join(
        f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(value_text(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption {_CELL}>{escape(caption)}</caption><tbody>{body}</tbody></table>"


def columns_html(header: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> str:
    """Return a table of several columns with a header.

    Parameters
    ----------
    header
        One name per column.
    rows
        One value per column each.
    caption
        The text above the table.

    Examples
    --------
    >>> columns_html(["design", "steps"], [["MHLJ", 1200]], "Cost").count("<td")
    2
    """
    head = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in header)
    lines = (
        "".join(f"<td {_CELL}>{escape(value_text(value))}</td>" for value in row) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f"<table><caption {_CELL}>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def value_text(value: object) -> str:
    """Return a value as text: counts with commas, other numbers with four digits, yes or no, a dash
    for None.

    Examples
    --------
    >>> values = (12000, 0.000123456, 12000.0, float("inf"), True, None, "dense")
    >>> [value_text(value) for value in values]
    ['12,000', '0.0001235', '12,000', 'infinite', 'yes', '–', 'dense']
    """
    if value is None:
        return "–"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return _real_text(float(value))
    return str(value)


def _real_text(value: float) -> str:
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"
