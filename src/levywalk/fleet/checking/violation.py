"""The error that a check of the fleet raises: an invariant does not hold."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, which: str, why: str) -> None:
        super().__init__(f"{which}: {why}")
        self.which = which
