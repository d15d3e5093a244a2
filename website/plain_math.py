"""Formulas as they were typed, for machines on which MathJax could not be installed."""

from __future__ import annotations

from html import escape
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx that the renderer ``plain`` exists."""
    app.add_html_math_renderer("plain", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator: Any, node: Any) -> None:
    from docutils.nodes import SkipNode

    translator.body.append(f"<code>{escape(node.astext())}</code>")
    raise SkipNode


def _display(translator: Any, node: Any) -> None:
    from docutils.nodes import SkipNode

    translator.body.append(f"<pre>{escape(node.astext())}</pre>")
    raise SkipNode
