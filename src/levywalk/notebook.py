"""Results and progress in a notebook: small HTML tables, and a bar that is updated in place."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from html import escape
from numbers import Integral, Real
from threading import Lock
from typing import Any
from uuid import uuid4

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


def in_notebook() -> bool:
    """Return whether this code runs in a notebook's kernel, which shows HTML and pictures.

    Examples
    --------
    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class LiveBar:
    """A progress bar in a notebook: one output of the cell, which is updated in place.

    It is HTML and needs no widgets. ``end`` empties it.
    """

    every = 0.2  # seconds between two updates

    def __init__(self) -> None:
        from IPython.display import display

        self._display: Any = display
        self._id = f"levywalk-{uuid4().hex}"
        self._drawn_at = -math.inf
        self._begun = False
        self._drawing = Lock()  # several threads report

    def update(self, title: str, share: float, left: str) -> None:
        """Draw the bar, unless it was drawn a moment ago."""
        with self._drawing:
            now = time.monotonic()
            if now - self._drawn_at < self.every:
                return
            self._drawn_at = now
            self._draw(*bar_texts(title, share, left))

    def end(self) -> None:
        """Remove the bar."""
        with self._drawing:
            self._drawn_at = math.inf
            if self._begun:
                self._draw("", "")

    def _draw(self, html: str, plain: str) -> None:
        content = {"text/html": html, "text/plain": plain}
        self._display(content, raw=True, display_id=self._id, update=self._begun)
        self._begun = True


def bar_texts(title: str, share: float, left: str) -> tuple[str, str]:
    """Return a progress bar as HTML and as plain text.

    Examples
    --------
    >>> html, plain = bar_texts("walking MHLJ & co", 0.25, "about 2 min left")
    >>> plain
    'walking MHLJ & co: 25 %, about 2 min left'
    >>> '<progress value="0.2500" max="1"' in html and "MHLJ &amp; co" in html
    True
    """
    share = min(max(share, 0.0), 1.0)
    plain = f"{title}: {100 * share:.0f} %" + (f", {left}" if left else "")
    html = (
        f'<progress value="{share:.4f}" max="1" style="width: 15em; vertical-align: middle">'
        f"</progress> {escape(plain)}"
    )
    return html, plain
