"""Read CSV: a table of text whose columns are features, a target and perhaps a node.

An error names the file and the line, and shows the text of the line.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidData
from levywalk.problem.columns import (
    MISSING,
    ChosenColumns,
    Column,
    choose_columns,
    is_header,
    is_number,
)
from levywalk.problem.formats import bad_line, finite_number, lines_of, refuse_too_large
from levywalk.problem.raw_data import RawData
from levywalk.remedy import python_or_command
from levywalk.room import text_array

_DELIMITERS = (",", "\t", ";")
_CHECK_EVERY = 4096  # rows between two looks at the memory


class _Row(NamedTuple):
    number: int
    fields: list[str]
    line: str


def read_csv(
    path: Path,
    *,
    target: Column | None = None,
    node: Column | None = None,
    features: str | Iterable[Column] | None = None,
    header: bool | None = None,
    missing: str = "refuse",
) -> RawData:
    """Return the chosen columns of a CSV file; see `levywalk.read_data` for the arguments."""
    rows = _rows(path)
    first = list(islice(rows, 2))
    if not first:
        raise InvalidData(f"{path}: no sample in the file")
    width = len(first[0].fields)
    if width < 2:
        raise bad_line(
            path,
            first[0].number,
            first[0].line,
            "one column; a data set needs a feature and a target, separated by commas, tabs or "
            "semicolons" + ("; delete comments" if first[0].line.lstrip().startswith("#") else ""),
        )
    told = _decide_header(path, first) if header is None else header
    names = first[0].fields if told else None
    chosen = choose_columns(str(path), width, names, target=target, node=node, features=features)
    reader = _Cells(path, names, chosen, missing == "drop")
    samples = chain(first[1:] if told else first, rows)
    for row in samples:
        if len(row.fields) != width:
            why = f"{len(row.fields)} columns where the first line has {width}"
            raise bad_line(path, row.number, row.line, why)
        reader.add(row)
    return reader.result(told, header)


def _decide_header(path: Path, first: list[_Row]) -> bool:
    """Return whether the first line is a header; refuse to guess where both is possible."""
    line = first[0]
    told = is_header(line.fields, first[1].fields if len(first) > 1 else None)
    if told is not None:
        return told
    words = [i for i, field in enumerate(line.fields) if not is_number(field)]
    if words:
        why = f"column {words[0]} holds {line.fields[words[0]]!r}, not a finite number, beside "
        why += "numbers, so that the line may be a header or a damaged sample"
    else:
        why = "the line may be a header that counts the columns, or a sample"
    yes, no = (
        python_or_command("header=True", "--header"),
        python_or_command("header=False", "--no-header"),
    )
    raise bad_line(path, line.number, line.line, f"{why}; say which with {yes} or {no}")


class _Cells:
    """Collect the chosen columns of a table, row by row."""

    def __init__(
        self, path: Path, names: list[str] | None, chosen: ChosenColumns, drop: bool
    ) -> None:
        self.path, self.names, self.chosen, self.drop = path, names, chosen, drop
        self.values = array("d")
        self.targets: list[float | str] = []
        self.nodes: list[str] = []
        self.dropped = 0

    def add(self, row: _Row) -> None:
        """Add the cells of one line."""
        fields = row.fields
        chosen = self.chosen
        needed = [*chosen.features, chosen.target]
        if chosen.node is not None:
            needed.append(chosen.node)
        if any(fields[i].lower() in MISSING for i in needed):
            self._missing(row, next(i for i in needed if fields[i].lower() in MISSING))
            return
        for i in chosen.features:
            self.values.append(self._number(row, i))
        goal = fields[chosen.target]
        try:
            self.targets.append(finite_number(goal))
        except ValueError:
            self.targets.append(goal)
        if chosen.node is not None:
            self.nodes.append(fields[chosen.node])
        if len(self.targets) % _CHECK_EVERY == 0:
            refuse_too_large(self.path, len(self.targets), len(chosen.features))

    def _missing(self, row: _Row, i: int) -> None:
        if self.drop:
            self.dropped += 1
            return
        remedy = python_or_command("missing='drop'", "--missing drop")
        why = f"column {self._called(i)} holds {row.fields[i]!r}, not a finite number; {remedy} "
        raise bad_line(self.path, row.number, row.line, why + "leaves out such lines")

    def _number(self, row: _Row, i: int) -> float:
        try:
            return finite_number(row.fields[i])
        except ValueError:
            option = python_or_command("features=", "--features")
            why = (
                f"column {self._called(i)} holds {row.fields[i]!r}, not a finite number; choose "
                f"columns of numbers with {option}"
            )
            raise bad_line(self.path, row.number, row.line, why) from None

    def _called(self, i: int) -> str:
        return str(i) if self.names is None else repr(self.names[i])

    def result(self, told: bool, header: bool | None) -> RawData:
        """Return what was collected."""
        if not self.targets:
            found = f"only a header and {self.dropped} lines with missing values" if told else ""
            hint = f" ({found})" if self.dropped else ""
            raise InvalidData(
                f"{self.path}: no sample in the file{hint}; a line with the values of a sample is "
                "missing"
            )
        chosen = self.chosen
        refuse_too_large(self.path, len(self.targets), len(chosen.features))
        table = np.frombuffer(self.values, dtype=np.float64)
        names = self.names
        by_numbers = (
            header is None and names is not None and all(is_number(name) for name in names if name)
        )
        return RawData(
            features=table.reshape(len(self.targets), len(chosen.features)),
            targets=_numbers_or_text(self.path, self.targets),
            node=text_array(f"{self.path}: the column of nodes", self.nodes)
            if chosen.node is not None
            else None,
            feature_names=[str(i) if names is None else names[i] for i in chosen.features],
            target_name=str(chosen.target) if names is None else names[chosen.target],
            node_name=None if chosen.node is None else self._called(chosen.node).strip("'"),
            header=None if names is None else tuple(names),
            header_counts_columns=by_numbers,
            left_out=len(chosen.left_out),
            dropped=self.dropped,
        )


def _numbers_or_text(path: Path, values: list[float | str]) -> AnyArray:
    if any(isinstance(value, str) for value in values):
        text = [value if isinstance(value, str) else f"{value:g}" for value in values]
        return text_array(f"{path}: the column of targets", text)
    return np.array(values, dtype=np.float64)


def _rows(path: Path) -> Iterator[_Row]:
    delimiter = ""
    for number, line in lines_of(path):
        if not line.strip():
            continue
        # A line with semicolons has them between its columns, and perhaps commas in its numbers.
        delimiter = delimiter or (";" if ";" in line else max(_DELIMITERS, key=line.count))
        try:
            # Parse line by line, so that an unclosed quote affects only its own line.
            (fields,) = csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True)
        except (csv.Error, ValueError) as error:
            raise bad_line(path, number, line, f"not CSV ({error})") from None
        fields = [field.strip() for field in fields]
        if delimiter == ";":
            fields = [_point(field) for field in fields]
        yield _Row(number, fields, line)


def _point(field: str) -> str:
    """Return a number with a decimal comma, such as 2,5, with a point."""
    if field.count(",") == 1 and "." not in field and is_number(field):
        return field.replace(",", ".")
    return field
