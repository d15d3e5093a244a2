"""Text from others, as a terminal may show it: control characters are written out."""

from __future__ import annotations

import unicodedata
from typing import Any

_SHOWN = {"Zs"}  # spaces of all widths, which `str.isprintable` refuses


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return a text in which nothing commands a terminal.

    Escape sequences, carriage returns, and characters that change the direction of the text are
    written as in Python's source. Otherwise a neighbour's words could clear the screen, or make a
    line of a log look like another one.

    Parameters
    ----------
    text
        What somebody else has written.
    lines
        Whether line ends and tabs stay.

    Examples
    --------
    >>> print(printable("ready\x1b[2J\rnode 3 is gone"))
    ready\x1b[2J\rnode 3 is gone
    >>> printable("a\nb", lines=True) == "a\nb", printable("a\nb")
    (True, 'a\\nb')
    """
    if text.isprintable():
        return text
    return "".join(
        c
        if c.isprintable() or unicodedata.category(c) in _SHOWN or (lines and c in "\n\t")
        else c.encode("unicode_escape").decode()
        for c in text
    )


def printable_values(found: Any) -> Any:
    r"""Return a value made of dicts and lists in which every text is `printable`, keys as well.

    Examples
    --------
    >>> printable_values({"why\r": ["\x1b[31m", 3]})
    {'why\\r': ['\\x1b[31m', 3]}
    """
    if isinstance(found, str):
        return printable(found)
    if isinstance(found, dict):
        return {printable_values(key): printable_values(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [printable_values(value) for value in found]
    return found
