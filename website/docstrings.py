"""Docstrings as they are meant: |x| is no reference of Sphinx, and ArrayLike is one word."""

from __future__ import annotations

import re
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Ask Sphinx to show every docstring to `escape_bars` before it is read."""
    app.connect("autodoc-process-docstring", _process, priority=900)  # after numpydoc
    app.connect("autodoc-process-signature", _sign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _sign(
    app: Any,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    return signature and plain_types(signature), returns and plain_types(returns)


def plain_types(signature: str) -> str:
    """Return a signature in which what numpy's ArrayLike consists of is called ArrayLike again.

    Examples
    --------
    >>> plain_types(
    ...     "(x: int | _Buffer | ~np._SupportsArray[dtype[Any]] | complex | "
    ...     "_NestedSequence[complex | bytes | str] | None = None)"
    ... )
    '(x: int | ArrayLike | None = None)'
    """
    parts = (
        r"[~\w.]*(?:_Buffer|_SupportsArray)\b[^=]*?[~\w.]*_NestedSequence\[[~\w.]*complex[^\]]*\]"
    )
    return re.sub(parts, "ArrayLike", signature)


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
