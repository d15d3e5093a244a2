"""Rows as a CSV file, as pandas would write them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows with a header; a column that a row lacks, None and NaN are empty cells.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_csv(Path(folder) / "table.csv", [{"a": 1, "b": 0.5}, {"b": float("nan")}])
    ...     path.read_text().split()
    ['a,b', '1,0.5', ',']
    """
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return path


def _cell(value: Any) -> Any:
    return "" if value is None or value != value else value  # NaN differs from itself
