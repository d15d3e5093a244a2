"""HTML from Python values: all text is escaped unless this module made it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def tag(name: str, /, *parts: object, **attributes: object) -> Markup:
    """Return one element; its text and attributes are escaped; attributes that are None or False
    are left out.

    Examples
    --------
    >>> tag("p", "a < b & ", tag("b", "c"), class_="note", data_index=1)
    '<p class="note" data-index="1">a &lt; b &amp; <b>c</b></p>'
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{given}>{join(*parts)}</{name}>")


def join(*parts: object) -> Markup:
    """Return the parts one after another, escaped where they are plain text."""
    return Markup(
        "".join(part if isinstance(part, Markup) else escape(str(part)) for part in parts)
    )


def with_commands(text: str) -> list[object]:
    """Return the parts of a sentence, of which those between backticks are shown as code.

    Examples
    --------
    >>> join(*with_commands("Type `ls <a>` & look."))
    'Type <code>ls &lt;a&gt;</code> &amp; look.'
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick that is not closed is a backtick
        return [text]
    return [tag("code", part) if i % 2 else part for i, part in enumerate(parts)]


def embedded(value: Any) -> Markup:
    r"""Return JSON for a script element; nothing in it can end the element.

    Examples
    --------
    >>> embedded(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def filled(template: str, values: Mapping[str, Markup]) -> str:
    """Replace each ``{{name}}`` of the template by its value, in one pass: values are not searched
    again.

    Examples
    --------
    >>> filled("<p>{{a}}</p>", {"a": Markup("{{a}}")})
    '<p>{{a}}</p>'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy under which this style and this script work and nothing else
    does.

    Examples
    --------
    >>> policy("p {}", "1")[:28]
    "default-src 'none'; img-src "
    """
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def beside(name: str) -> str:
    """Return the text of a file of this package."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def section(name: str, title: str, *parts: object) -> Markup:
    """Return a section of the page with its heading."""
    return tag(
        "section",
        tag("h2", title, id=f"{name}-title"),
        *parts,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def plain(value: Any) -> str:
    """Return a value as text: numbers with three digits, lists in brackets, None as a dash.

    Examples
    --------
    >>> plain([0.123456, None]), plain({"mix": 0.5}), plain(None)
    ('[0.123, ∞]', 'mix: 0.5', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join("∞" if item is None else plain(item) for item in value) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(item)}" for key, item in value.items())
    return str(value)
