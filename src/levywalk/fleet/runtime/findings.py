"""What a check of a fleet has found, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class FindingLevel(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """The result of one check."""

    level: FindingLevel
    what: str
    remedy: str = ""
