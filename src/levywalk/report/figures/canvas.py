"""Figures that are shown, and figures that are only written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from levywalk.errors import InvalidParameter
from levywalk.notebook import in_notebook


def new_figure(width: float, height: float, *, path: str | Path | None) -> Figure:
    """Return an empty figure, in inches.

    pyplot knows it, so that a notebook shows it at the end of the cell and ``pyplot.show()`` in a
    script, unless it is written to ``path`` outside a notebook: pyplot would keep it open.
    """
    settings: dict[str, Any] = {"figsize": (width, height), "layout": "constrained", "dpi": 150}
    if path is not None and not in_notebook():
        return Figure(**settings)
    from matplotlib import pyplot

    return pyplot.figure(**settings)


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure; the suffix decides the format."""
    path, known = Path(path), (".png", ".pdf", ".svg")
    if path.suffix.lower() not in known:
        raise InvalidParameter(f"path must end in one of {', '.join(known)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidParameter(
            f"path must lie in a folder that exists, got {str(path)!r}; create "
            f"{str(path.parent)!r} first"
        )
    figure.savefig(path)
