"""claims.json, which `levywalk reproduce` writes: the claims of the paper, how they were asked, the
figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levywalk.errors import InvalidTrace
from levywalk.trace.comparison_files import read_json

CLAIMS = "claims.json"


def read_claims(folder: Path) -> list[dict[str, Any]]:
    """Return the claims in a folder; none if there is no claims.json.

    Examples
    --------
    >>> read_claims(Path("nowhere"))
    []
    """
    path = folder / CLAIMS
    if not path.exists():
        return []
    claims = read_json(path).get("claims")
    if not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims):
        raise InvalidTrace(f"{path} has no list of claims; `levywalk reproduce --json` prints one")
    return claims


def read_how_asked(folder: Path) -> dict[str, Any]:
    """Return how the claims were asked: everything in claims.json that is neither a claim nor a
    figure.

    Examples
    --------
    >>> read_how_asked(Path("nowhere"))
    {}
    """
    path = folder / CLAIMS
    content = read_json(path) if path.exists() else {}
    return {
        name.replace("_", " "): value
        for name, value in content.items()
        if name not in ("claims", "figures")
    }


def figure_files(folder: Path) -> dict[str, Path]:
    """Return the PNG files that claims.json names as its figures, by title; only files inside the
    folder.

    Examples
    --------
    >>> figure_files(Path("nowhere"))
    {}
    """
    folder = folder.resolve()
    if not (folder / CLAIMS).exists():
        return {}
    figures = read_json(folder / CLAIMS).get("figures")
    found = {}
    for figure in figures if isinstance(figures, list) else []:
        files = figure.get("files") if isinstance(figure, dict) else None
        for name in files if isinstance(files, list) else []:
            path = (folder / str(name)).resolve()
            if path.suffix == ".png" and path.is_relative_to(folder) and path.is_file():
                found[str(figure.get("title"))] = path
    return found
