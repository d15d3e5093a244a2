"""The entries of a sparse matrix, from its arrays, with every array checked.

scipy's compiled conversions trust the arrays: an index out of range, or row pointers that go up and
down again, make them write outside of an array, and scipy's own check skips the indices if the last
pointer is 0. Here the arrays are checked and converted with numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Ints
from levywalk.errors import InvalidNetwork
from levywalk.room import require_bytes

Entries = tuple[Ints, Ints, AnyArray]
ARRAYS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def entries_of(format: str, arrays: Mapping[str, Any], shape: tuple[int, int]) -> Entries:
    """Return rows, columns and values of all stored entries, or refuse the arrays.

    Examples
    --------
    >>> arrays = {"data": np.ones(2), "indices": np.array([1, 0]), "indptr": np.array([0, 1, 2])}
    >>> entries_of("csr", arrays, (2, 2))
    (array([0, 1]), array([1, 0]), array([1., 1.]))
    >>> entries_of("csr", arrays | {"indptr": np.array([0, 9, 2])}, (2, 2))
    Traceback (most recent call last):
    levywalk.errors.InvalidNetwork: matrix is not a valid csr matrix: indptr must not decrease
    """
    return _CONVERSIONS[format](format, arrays, shape)


def entries_of_matrix(matrix: Any) -> Entries:
    """Return rows, columns and values of all stored entries of a scipy sparse matrix."""
    kind = str(matrix.format)
    if kind == "dok":
        keys = np.array(list(matrix.keys()), dtype=np.int64).reshape(-1, 2)
        arrays = {"row": keys[:, 0], "col": keys[:, 1]}
        arrays["data"] = np.array(list(matrix.values()), dtype=matrix.dtype)
        return entries_of("coo", arrays, matrix.shape)
    if kind == "lil":
        return _of_lil(matrix)
    if kind not in ARRAYS:
        raise InvalidNetwork(f"matrix has the format {kind!r}; pass scipy.sparse.csr_array(matrix)")
    return entries_of(kind, {name: getattr(matrix, name) for name in ARRAYS[kind]}, matrix.shape)


def _compressed(format: str, arrays: Mapping[str, Any], shape: tuple[int, int]) -> Entries:
    lines, across = shape if format == "csr" else shape[::-1]
    data = _array(format, "data", arrays["data"], 1)
    indptr = _pointers(format, arrays["indptr"], lines)
    data, indices = _stored(format, data, arrays["indices"], int(indptr[-1]), across)
    line = np.repeat(np.arange(lines), np.diff(indptr))
    rows, columns = (line, indices) if format == "csr" else (indices, line)
    return rows, columns, data


def _of_blocks(format: str, arrays: Mapping[str, Any], shape: tuple[int, int]) -> Entries:
    data = _array(format, "data", arrays["data"], 3)
    _, height, width = data.shape
    fits = height > 0 and width > 0 and shape[0] % height == 0 and shape[1] % width == 0
    _require(format, fits, f"blocks of {height} x {width} do not divide {shape[0]} x {shape[1]}")
    indptr = _pointers(format, arrays["indptr"], shape[0] // height)
    end, across = int(indptr[-1]), shape[1] // width
    data, indices = _stored(format, data, arrays["indices"], end, across)
    require_bytes("the matrix's entries", 40 * data.size, "store it in the format csr")
    block_row = np.repeat(np.arange(shape[0] // height), np.diff(indptr))
    rows = (block_row[:, None, None] * height + np.arange(height)[:, None]) + np.zeros(
        width, dtype=np.int64
    )
    columns = (indices[:, None, None] * width + np.arange(width)) + np.zeros(
        (height, 1), dtype=np.int64
    )
    return rows.reshape(-1), columns.reshape(-1), data.reshape(-1)


def _of_coordinates(format: str, arrays: Mapping[str, Any], shape: tuple[int, int]) -> Entries:
    data = _array(format, "data", arrays["data"], 1)
    rows = _indices(format, "row", arrays["row"], shape[0])
    columns = _indices(format, "col", arrays["col"], shape[1])
    same = len(data) == len(rows) == len(columns)
    _require(format, same, "data, row and col must have the same length")
    return rows, columns, data


def _of_diagonals(format: str, arrays: Mapping[str, Any], shape: tuple[int, int]) -> Entries:
    data = _array(format, "data", arrays["data"], 2)
    offsets = _integers(format, "offsets", arrays["offsets"])
    _require(format, len(offsets) == len(data), "offsets must have one entry per row of data")
    within = not len(offsets) or bool((offsets > -shape[0]).all() and (offsets < shape[1]).all())
    _require(format, within, f"offsets must lie within a matrix of {shape[0]} x {shape[1]}")
    require_bytes("the matrix's entries", 40 * data.size, "store it in the format csr")
    # data[k, j] is the entry of column j on diagonal offsets[k]; what lies outside is unused
    columns = np.broadcast_to(np.arange(data.shape[1]), data.shape)
    rows = columns - offsets[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    return rows[inside], columns[inside], data[inside]


def _of_lil(matrix: Any) -> Entries:
    """Read a list of lists; each node's columns and values are Python lists."""
    n = matrix.shape[0]
    alike = len(matrix.rows) == n == len(matrix.data) and all(
        isinstance(columns, list) and isinstance(values, list) and len(columns) == len(values)
        for columns, values in zip(matrix.rows, matrix.data, strict=True)
    )
    _require("lil", alike, "rows and data must be lists of the same lengths, one per row")
    rows = np.repeat(np.arange(n), [len(columns) for columns in matrix.rows])
    try:
        columns = np.array([j for columns in matrix.rows for j in columns], dtype=np.int64)
        data = np.array([x for values in matrix.data for x in values], dtype=matrix.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidNetwork(f"matrix is not a valid lil matrix: {error}") from None
    return _of_coordinates("lil", {"data": data, "row": rows, "col": columns}, matrix.shape)


_CONVERSIONS: dict[str, Callable[[str, Mapping[str, Any], tuple[int, int]], Entries]] = {
    "csr": _compressed,
    "csc": _compressed,
    "bsr": _of_blocks,
    "coo": _of_coordinates,
    "dia": _of_diagonals,
}


def _array(format: str, name: str, value: Any, dims: int) -> AnyArray:
    array = np.asarray(value)
    _require(
        format,
        array.ndim == dims and array.dtype.kind in "biuf",
        f"{name} must hold numbers in {dims} dimension{'s' if dims > 1 else ''}, got {array.dtype} "
        f"of shape {array.shape}",
    )
    return array


def _integers(format: str, name: str, value: Any) -> Ints:
    array = np.asarray(value)
    fits = array.ndim == 1 and array.dtype.kind in "iu"
    _require(format, fits, f"{name} must hold integers, got {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "u" and len(array):
        _require(format, int(array.max()) < 2**63, f"{name} must fit in 64 signed bits")
    return array.astype(np.int64)


def _indices(format: str, name: str, value: Any, below: int) -> Ints:
    array = _integers(format, name, value)
    within = not len(array) or bool(array.min() >= 0 and array.max() < below)
    _require(format, within, f"{name} must lie in [0, {below})")
    return array


def _pointers(format: str, value: Any, lines: int) -> Ints:
    array = _integers(format, "indptr", value)
    _require(
        format, len(array) == lines + 1, f"indptr must have {lines + 1} entries, got {len(array)}"
    )
    _require(format, int(array[0]) == 0, f"indptr must begin with 0, got {int(array[0])}")
    _require(format, bool((array[1:] >= array[:-1]).all()), "indptr must not decrease")
    return array


def _stored(
    format: str, data: AnyArray, indices: Any, end: int, below: int
) -> tuple[AnyArray, Ints]:
    """Return the values and indices that are in use; a matrix may keep room behind them."""
    length = len(np.atleast_1d(indices))
    _require(format, len(data) == length, "data and indices must have the same length")
    _require(format, end <= length, f"indptr ends at {end}, but there are {length} indices")
    return data[:end], _indices(format, "indices", indices, below)[:end]


def _require(format: str, holds: bool, what: str) -> None:
    if not holds:
        raise InvalidNetwork(f"matrix is not a valid {format} matrix: {what}")
