"""The version number, and a digest that distinguishes different sources with the same version."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

_HERE = Path(__file__).parent


@cache
def source_digest(*parts: str) -> str:
    """Return a digest of source files of this package; each part is a file or a folder.

    Examples
    --------
    >>> source_digest("draws.py", "network") == source_digest("draws.py")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        path = _HERE / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content = file.read_bytes()
            digest.update(
                f"{file.relative_to(_HERE).as_posix()} {len(content)} ".encode() + content
            )
    return digest.hexdigest()
