"""Docstrings in plain text: an absolute value such as |x| is not a reference of Sphinx."""

from __future__ import annotations

import re
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Ask Sphinx to show every docstring to `escape_bars` before it is read."""
    app.connect("autodoc-process-docstring", _process, priority=900)  # after numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = escape_bars(lines)


def escape_bars(lines: list[str]) -> list[str]:
    """Return lines of a docstring in which bars are bars; code and examples stay as they are.

    Examples
    --------
    >>> escape_bars(["The value |x| of ``a|b``."])[0].count(chr(92))
    2
    >>> escape_bars(["| ".join([">>> 1", "2"])])
    ['>>> 1| 2']
    """
    found, in_example = [], False
    for line in lines:
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if in_example:
            found.append(line)
        else:
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [re.sub(r"(?<!\\)\|", r"\\|", part) for part in parts[::2]]
            found.append("".join(parts))
    return found
