"""A number that changes with the kernels' source."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def source_tag() -> int:
    """Return a number that changes with any source file of the kernels.

    numba keys its cache on the file of the outermost function alone; a loop that closes over this number is compiled
    anew when a file that it calls into has changed.

    Examples
    --------
    >>> source_tag() == source_tag()
    True
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:4], "big")
