"""The frame of both pages, the live one and the one that opens from disk."""

from __future__ import annotations

from html import escape
from pathlib import Path

from levywalk.report.page.markup import Markup, filled

_STATIC = Path(__file__).with_name("static")


def asset_text(name: str) -> str:
    """Return the text of a file of this package."""
    return (_STATIC / name).read_text(encoding="utf-8")


def document(title: str, body: str, style: str, scripts: str, policy: str = "") -> str:
    """Return a page; ``style`` and ``scripts`` are elements, ``policy`` what the page may load.

    Examples
    --------
    >>> "<title>a &lt; b</title>" in document("a < b", "", "", "")
    True
    """
    values = {
        "title": escape(title),
        "policy": policy,
        "style": style,
        "body": filled(body, {"title": Markup(escape(title))}),
        "scripts": scripts,
    }
    return filled(asset_text("page.html"), {key: Markup(value) for key, value in values.items()})
