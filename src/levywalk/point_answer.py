"""What one point says about a claim of the paper: the words of claims.json, of its page and of its
pictures.
"""

from __future__ import annotations

from enum import StrEnum


class PointAnswer(StrEnum):
    """What one point says about a claim."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"
    SHOWN = "shown"  # reported, and no part of the verdict
