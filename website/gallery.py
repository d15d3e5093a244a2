"""The gallery: in which order its examples stand, and which of them cannot run here."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

PARTS = ("walks", "models", "costs")


def part_order(folder: str) -> int:
    """Return the place of a part of the gallery, by the path of its folder.

    Examples
    --------
    >>> part_order("../examples/gallery/walks"), part_order("examples/gallery/costs")
    (0, 2)
    """
    return PARTS.index(Path(folder).name)


def needs_of(example: Path) -> list[str]:
    """Return what an example needs, by its comment ``# needs: torch, levywalk.torch_problem``.

    Examples
    --------
    >>> needs_of(Path("no such file"))
    []
    """
    if not example.is_file():
        return []
    found = re.search(r"^# needs: (.+)$", example.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [] if found is None else [name.strip() for name in found[1].split(",")]


def is_there(name: str) -> bool:
    """Say whether a module, or a name inside one, can be imported.

    Examples
    --------
    >>> is_there("levywalk.ring"), is_there("levywalk.no_such_name"), is_there("no_such_module")
    (True, False, False)
    """
    try:
        if importlib.util.find_spec(name) is not None:
            return True
    except ImportError:  # the part before the last dot is no package
        pass
    module, _, attribute = name.rpartition(".")
    return bool(module) and is_there(module) and hasattr(importlib.import_module(module), attribute)


def missing_for(folder: Path) -> list[str]:
    """Return patterns of the examples that cannot run here; what they lack is printed."""
    patterns = []
    for example in sorted(folder.rglob("show_*.py")):
        lacking = [name for name in needs_of(example) if not is_there(name)]
        if lacking:
            print(f"gallery: {example.name} is left out: it needs {' and '.join(lacking)}")
            patterns.append(re.escape(example.name))
    return patterns
