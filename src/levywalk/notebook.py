"""How results are shown in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table_html(rows: Sequence[tuple[str, object]], caption: str) -> str:
    """Return a table with two columns as HTML; all text in it is escaped.

    Examples
    --------
    >>> table_html([("steps", 5)], "a < b")
    '<table><caption>a &lt; b</caption><tr><th>steps</th><td>5</td></tr></table>'
    """
    lines = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption>{escape(caption)}</caption>{lines}</table>"
