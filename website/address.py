"""Set the project's address wherever it is said: ``python -m website.address https://…``.

It needs nothing but Python, since it is used before anything is installed.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("pyproject.toml", "CITATION.cff", "docs/extending.md")


def set_address(root: Path, address: str) -> list[str]:
    """Replace the address that pyproject.toml says by another one; return the changed files."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    old, new = project["urls"]["Source"], address.rstrip("/")
    if not new.startswith("https://") or any(mark in new for mark in ' "\\<>#?'):
        raise SystemExit(f"the address must be like https://github.com/OWNER/levywalk, got {new!r}")
    changed = []
    for place in PLACES:
        path = root / place
        text = path.read_text(encoding="utf-8")
        if old in text and old != new:
            path.write_text(text.replace(old, new), encoding="utf-8")
            changed.append(place)
    return changed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("type: python -m website.address https://github.com/OWNER/levywalk")
    print("changed:", ", ".join(set_address(ROOT, sys.argv[1])) or "nothing")
