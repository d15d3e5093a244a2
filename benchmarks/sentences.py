"""One sentence per line, as in all Markdown of this repository."""

from __future__ import annotations

import re


def one_per_line(text: str) -> str:
    """Return a paragraph with each sentence on a line of its own."""
    return re.sub(r"(?<=[\w)`*%]\.) (?=[A-Z*`])", "\n", text)
