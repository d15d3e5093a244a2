"""Read a data set from a LIBSVM or npz file, and what the readers of all formats share.

An error names the file and the line, and shows the text of the line.
"""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.archives import Archive
from levywalk.contents import OTHER_PACKING, open_content, read_content
from levywalk.errors import InvalidData, InvalidParameter, TooLarge
from levywalk.problem.columns import Column, names_text, positions_of, split_list
from levywalk.problem.raw_data import RawData
from levywalk.problem.samples import clean_features, clean_targets
from levywalk.remedy import python_or_command
from levywalk.room import LARGEST_ARRAY, available_bytes, require_bytes, require_room

FORMATS = ("libsvm", "csv", "npz")
_SUFFIXES = {
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".t": "libsvm",
    ".txt": "libsvm",
    ".csv": "csv",
    ".tsv": "csv",
    ".npz": "npz",
}
_FOREIGN = (
    ".json", ".jsonl", ".parquet", ".feather", ".arrow", ".xls", ".xlsx", ".ods", ".arff", ".mat",
    ".h5", ".hdf5", ".pkl", ".pickle", ".dta", ".sav", ".rds",
)  # fmt: skip
_NPZ_NAMES = (("features", "targets"), ("X", "y"))
# A LIBSVM file with at least so many features stays sparse if less than this share of its entries
# is not 0; below, the vectors of dense rows are faster.
SPARSE_FEATURES, SPARSE_SHARE = 1_000, 0.05
_NAME = 80  # bytes of a feature's name, and of its number in a model
_MANY = 1 << 24  # features that can be listed by their indices
_SHOWN = 60  # characters of an offending line in a message
_LINE_MEMORY = 64  # times the length of a line that splitting it takes


def format_of(path: Path) -> str:
    """Return the format that the suffix names; a final .gz is ignored."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    if last in OTHER_PACKING:
        raise InvalidParameter(
            f"{path.name!r} is packed with something else than gzip; unpack it first"
        )
    if last in _FOREIGN:
        frame = python_or_command(", or read it with pandas and give the data frame itself", "")
        raise InvalidParameter(
            f"levywalk reads CSV, LIBSVM and npz files, got {path.name!r}; save it as CSV (in "
            f"pandas: frame.to_csv('{path.stem}.csv', index=False)){frame}"
        )
    if last not in _SUFFIXES:
        raise InvalidParameter(
            f"the format of {path.name!r} is unknown; name it with "
            f"{python_or_command('format=', '--data-format')} (one of {', '.join(FORMATS)})"
        )
    return _SUFFIXES[last]


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every line with its number.

    Errors of the file system or gzip become errors that name the file and the line.
    """
    number = 0
    longest = available_bytes() // _LINE_MEMORY
    try:
        with (
            open_content(path, InvalidData) as file,
            io.TextIOWrapper(file, encoding="utf-8-sig", newline=None) as text,
        ):
            while line := text.readline(longest):
                number += 1
                if len(line) == longest:
                    raise TooLarge(
                        f"{path}, line {number}: longer than {longest / 2**20:,.0f} MiB, for which "
                        "the memory is too small; is "
                        f"{python_or_command('format=', '--data-format')} right?"
                    )
                yield number, line
    except UnicodeDecodeError:
        raise InvalidData(
            f"{path}, after line {number}: not text in UTF-8; save the file as UTF-8, or is "
            f"{python_or_command('format=', '--data-format')} wrong?"
        ) from None


def bad_line(path: Path, number: int, line: str, why: str) -> InvalidData:
    """Return an error that names a line and shows it."""
    shown = line.strip()
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    return InvalidData(f"{path}, line {number}: {why}; the line is {shown!r}")


def finite_number(text: str) -> float:
    """Return a finite float; notation that only Python allows, such as 1_000, is refused."""
    value = float(text)
    if "_" in text or not math.isfinite(value):
        raise ValueError(text)
    return value


def refuse_too_large(path: Path, rows: int, columns: int) -> None:
    """Refuse a matrix that would not fit into memory, before it is made."""
    require_room(
        f"{path}: the dense matrix of samples and features",
        (rows, columns),
        8,
        f"select samples first, or features with {python_or_command('features=', '--features')}",
    )


def read_libsvm(
    path: Path,
    *,
    dim: int | None = None,
    index_base: int | None = None,
    features: str | Iterable[Column] | None = None,
    dense: bool | None = None,
) -> RawData:
    """Return the samples of a LIBSVM file; see `levywalk.read_data` for the arguments."""
    base = 1 if index_base is None else index_base
    wanted = None if features is None else _wanted_indices(features, base)
    labels, values, columns, counts = array("d"), array("d"), array("q"), array("q")
    largest = base - 1
    for number, line in lines_of(path):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        try:
            labels.append(finite_number(fields[0]))
        except ValueError:
            why = f"the label {fields[0]!r} is not a finite number"
            if "," in line:
                remedy = python_or_command("format='csv'", "--data-format csv")
                why += f"; for CSV: {remedy}"
            raise bad_line(path, number, line, why) from None
        previous, kept = base - 1, 0
        for field in fields[1:]:
            previous, value = _libsvm_pair(path, number, line, field, previous, base)
            if dim is not None and previous - base >= dim:
                raise bad_line(path, number, line, f"index {previous} is above dim = {dim}")
            if wanted is None or previous in wanted:
                columns.append(previous - base if wanted is None else wanted[previous])
                values.append(value)
                kept += 1
        counts.append(kept)
        largest = max(largest, previous)
    if not labels:
        raise InvalidData(f"{path}: no sample in the file")
    width = largest - base + 1 if dim is None else dim
    if wanted is None:
        require_bytes(
            f"{path}: {width} features with their names",
            _NAME * width,
            f"select features with {python_or_command('features=', '--features')}",
        )
    if width == 0:
        raise InvalidData(f"{path}: no feature in the file; every line has only a label")
    if wanted is not None and max(wanted) >= base + width:
        raise InvalidData(
            f"{path}: the feature {max(wanted)} is not in the file, whose largest index is "
            f"{largest}; choose features up to it"
        )
    indices = list(range(base, base + width)) if wanted is None else list(wanted)
    few = len(indices) >= SPARSE_FEATURES and (
        len(values) < SPARSE_SHARE * len(labels) * len(indices)
    )
    table: Any = None
    if few if dense is None else not dense:
        from scipy.sparse import csr_array

        starts = np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))])
        entries = (np.asarray(values), np.asarray(columns, dtype=np.int64), starts)
        table = csr_array(entries, shape=(len(labels), len(indices)))
    else:
        refuse_too_large(path, len(labels), len(indices))
        table, rows = np.zeros((len(labels), len(indices))), np.arange(len(labels))
        table[np.repeat(rows, counts), np.asarray(columns, dtype=np.int64)] = values
    targets = np.asarray(labels, dtype=np.float64)
    return RawData(table, targets, None, [str(index) for index in indices], "label")


def _wanted_indices(features: str | Iterable[Column], base: int) -> dict[int, int]:
    """Return the column of each feature that is listed by its index in the file."""
    found: list[int] = []
    for one in split_list(features):
        low, dash, high = str(one).partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or int(low) < base:
            raise InvalidParameter(
                f"features of a LIBSVM file must be indices from {base} on, such as 3,7-20, got "
                f"{one!r}"
            )
        span = range(int(low), int(high or low) + 1)
        if len(span) > _MANY:
            raise InvalidParameter(f"features {one!r} are more than fit into memory; choose fewer")
        found += span
    if not found or len(set(found)) != len(found):
        raise InvalidParameter(f"features must be different indices, got {features!r}")
    return {index: column for column, index in enumerate(found)}


def _libsvm_pair(
    path: Path, number: int, line: str, field: str, previous: int, base: int
) -> tuple[int, float]:
    left, colon, right = field.partition(":")
    if not colon:
        raise bad_line(path, number, line, f"{field!r} is not index:value")
    if not (left.isascii() and left.isdigit()) or len(left) > 18:
        raise bad_line(path, number, line, f"the index in {field!r} is not a whole number from 1")
    index = int(left)
    if index < base:
        remedy = python_or_command("index_base=0", "--index-base 0")
        why = f"index 0; LIBSVM indices start at 1, if yours start at 0: {remedy}"
        raise bad_line(path, number, line, why)
    if index <= previous:
        raise bad_line(path, number, line, f"index {index} after {previous}; indices must increase")
    try:
        return index, finite_number(right)
    except ValueError:
        raise bad_line(
            path, number, line, f"the value in {field!r} is not a finite number"
        ) from None


def read_npz(
    path: Path,
    *,
    target: Column | None = None,
    node: Column | None = None,
    features: str | Iterable[Column] | None = None,
) -> RawData:
    """Return the arrays of an npz file; see `levywalk.read_data` for the arguments."""
    for what, name in (("target", target), ("node", node)):
        if name is not None and not isinstance(name, str):
            raise InvalidParameter(f"{what} must name an array of the npz file, got {name!r}")
    with open_content(path, InvalidData) as file:
        # An archive is read from its end, which a gzip stream does not support.
        source = file if file.seekable() else io.BytesIO(read_content(path, InvalidData))
        try:
            archive = Archive(source, f"{path}: not npz", InvalidData, LARGEST_ARRAY)
        except InvalidData as error:
            how = "save it with np.savez(path, features=…, targets=…)"
            raise InvalidData(f"{error}; {how}") from None
        left, right = _npz_names(path, list(archive.names), target)
        table, targets = archive.array(left), archive.array(right, kinds="biufU")
        if node is not None and node not in archive.names:
            raise InvalidData(f"{path}: no array {node!r}; it has {names_text(archive.names)}")
        nodes = None if node is None else archive.array(str(node), kinds="iuU")
    try:
        clean = clean_features(table)
        if nodes is not None and nodes.shape != (len(clean),):
            raise InvalidData(f"{node} must have one entry per sample, got shape {nodes.shape}")
        names = [str(i) for i in range(clean.shape[1])]
        if features is not None:
            names = [str(i) for i in positions_of(str(path), features, clean.shape[1], None)]
            clean = np.ascontiguousarray(clean[:, [int(name) for name in names]])
        values = targets if targets.dtype.kind == "U" else clean_targets(targets, len(clean))
        return RawData(clean, values, nodes, names, right, None if node is None else str(node))
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None


def _npz_names(path: Path, names: list[str], target: Column | None) -> tuple[str, str]:
    for left, right in _NPZ_NAMES:
        wanted = right if target is None else str(target)
        if left in names and wanted in names:
            return left, wanted
    raise InvalidData(
        f"{path}: needs arrays named features and targets, or X and y (target = {target!r}); "
        f"it has {names_text(names) or 'none'}"
    )
