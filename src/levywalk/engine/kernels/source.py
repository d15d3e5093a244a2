"""A number that changes with the kernels' source."""

from __future__ import annotations

from levywalk.version import source_digest


def source_tag() -> int:
    """Return a number that changes with any source file of the kernels.

    numba's cache depends only on the file of the outermost function. A loop that contains this
    number as a constant is compiled again if any file of the functions that it calls has changed.

    Examples
    --------
    >>> source_tag() == source_tag()
    True
    """
    return int(source_digest("engine/kernels")[:8], 16)
