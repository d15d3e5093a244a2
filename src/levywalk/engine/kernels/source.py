"""A number that changes with the kernels' source."""

from __future__ import annotations

from levywalk.version import source_digest


def source_tag() -> int:
    """Return a number that changes with any source file of the kernels.

    numba keys its cache on the file of the outermost function alone; a loop that closes over this
    number is compiled anew when a file that it calls into has changed.

    Examples
    --------
    >>> source_tag() == source_tag()
    True
    """
    return int(source_digest("engine/kernels")[:8], 16)
