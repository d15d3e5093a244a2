"""What a reader has found in a file or a data frame, before labels are mapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levywalk.arrays import AnyArray


@dataclass(frozen=True)
class RawData:
    """Columns of a table: numbers as features, numbers or text as targets, text as nodes."""

    features: Any  # an array, or a sparse one
    targets: AnyArray
    node: AnyArray | None
    feature_names: list[str]
    target_name: str
    node_name: str | None = None
    header: tuple[str, ...] | None = None
    header_counts_columns: bool = False
    left_out: int = 0  # columns without a name
    dropped: int = 0  # rows with missing values
