"""Read Matrix Market files.

scipy's compiled reader is not used because it crashes on some damaged files.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from typing import Any

import numpy as np
from scipy import sparse

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidNetwork
from levywalk.remedy import python_or_command

_BANNER = re.compile(
    r"%%MatrixMarket\s+matrix\s+(coordinate|array)\s+(\w+)\s+([\w-]+)\s*$", re.IGNORECASE
)
_SHOWN = 60


def parse_matrix(name: str, data: bytes) -> Any:
    r"""Return the file's matrix as a scipy coo_array; if it is symmetric, only the stored half.

    Examples
    --------
    >>> file = b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"
    >>> parse_matrix("example", file).nnz
    2
    """
    text = data.decode("latin-1")
    banner = _BANNER.match(text.partition("\n")[0].rstrip())
    if "\0" in text or banner is None:
        raise InvalidNetwork(
            f"{name}: not a Matrix Market file; the first line should be such as "
            "'%%MatrixMarket matrix coordinate pattern symmetric' (other formats: "
            f"{python_or_command('format=', '--network-format')})"
        )
    layout, field, symmetry = (word.lower() for word in banner.groups())
    if field not in ("pattern", "integer", "real", "double") or symmetry == "hermitian":
        raise InvalidNetwork(
            f"{name}: a matrix must hold real numbers or a pattern, got {field} {symmetry}"
        )
    sizes, number, body = _size_line(name, text, 3 if layout == "coordinate" else 2)
    if sizes[0] != sizes[1]:
        raise InvalidNetwork(f"{name}: the matrix must be square, got {sizes[0]} x {sizes[1]}")
    if max(sizes) > len(data) * 100 + 10_000_000:
        raise InvalidNetwork(
            f"{name}, line {number}: {sizes} announced, far more than the file holds"
        )
    if layout == "array":
        return _dense(name, body, number, sizes[0], symmetry)
    return _coordinates(name, body, number, sizes, 2 if field == "pattern" else 3)


def _size_line(name: str, text: str, count: int) -> tuple[list[int], int, str]:
    """Return the sizes, the number of the line that contains them, and the text after that line."""
    stream = io.StringIO(text)
    for number, line in enumerate(stream, start=1):
        if line.startswith("%") or not line.strip():
            continue
        fields = line.split()
        if len(fields) != count or not all(re.fullmatch("[0-9]{1,18}", field) for field in fields):
            wanted = "rows, columns and entries" if count == 3 else "rows and columns"
            raise _wrong_line(name, number, line, wanted)
        return [int(field) for field in fields], number, stream.read()
    raise InvalidNetwork(f"{name}: no line with the sizes of the matrix; it is cut off")


def _coordinates(name: str, body: str, number: int, sizes: list[int], columns: int) -> Any:
    n, _, entries = sizes
    table = _table(body, [("at", np.int64, (2,)), ("value", np.float64, (columns - 2,))])
    if table is None or (table.size and (table["at"].min() < 1 or table["at"].max() > n)):
        raise _bad_line(name, body, number, n, columns)
    _require_count(name, table.size, entries)
    values = table["value"][:, 0] if columns == 3 else np.ones(table.size, dtype=np.int8)
    return sparse.coo_array((values, (table["at"][:, 0] - 1, table["at"][:, 1] - 1)), shape=(n, n))


def _dense(name: str, body: str, number: int, n: int, symmetry: str) -> Any:
    """Read all values, column by column; for a symmetric matrix only the lower half is stored."""
    table = _table(body, [("value", np.float64)])
    if table is None:
        raise _bad_line(name, body, number, n, 1)
    offset = 1 if symmetry == "skew-symmetric" else 0  # a skew matrix does not store its diagonal
    side = n - offset
    _require_count(name, table.size, n * n if symmetry == "general" else side * (side + 1) // 2)
    if symmetry == "general":
        return sparse.coo_array(table["value"].reshape(n, n).T)
    column, row = np.triu_indices(n, offset)
    return sparse.coo_array((table["value"], (row, column)), shape=(n, n))


def _table(body: str, row: list[Any]) -> AnyArray | None:
    """Read rows with numpy's reader; return None if a line does not have the expected form."""
    if not body.strip():
        return np.empty(0, dtype=row)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.loadtxt(io.StringIO(body), dtype=row, comments="%", ndmin=1)
    except (ValueError, TypeError, OverflowError, Warning):
        return None


def _require_count(name: str, found: int, announced: int) -> None:
    if found != announced:
        raise InvalidNetwork(
            f"{name}: {announced} entries announced, {found} found; the file is cut off"
        )


def _bad_line(name: str, body: str, before: int, n: int, columns: int) -> InvalidNetwork:
    """Return an error that names the first line that is not an entry."""
    wanted = ("one number", f"two indices in [1, {n}]", f"two indices in [1, {n}] and a number")[
        columns - 1
    ]
    for number, line in enumerate(io.StringIO(body), start=before + 1):
        fields = line.partition("%")[0].split()
        if fields and not _is_entry(fields, n, columns):
            return _wrong_line(name, number, line, wanted)
    return InvalidNetwork(f"{name}: every line should hold {wanted}")


def _wrong_line(name: str, number: int, line: str, wanted: str) -> InvalidNetwork:
    return InvalidNetwork(
        f"{name}, line {number}: should hold {wanted}, got {line.strip()[:_SHOWN]!r}"
    )


def _is_entry(fields: list[str], n: int, columns: int) -> bool:
    if len(fields) != columns:
        return False
    if columns == 1:
        return _is_number(fields[0])
    inside = all(
        re.fullmatch("[0-9]{1,18}", field) and 1 <= int(field) <= n for field in fields[:2]
    )
    return inside and (columns == 2 or _is_number(fields[2]))


def _is_number(field: str) -> bool:
    try:
        return not math.isnan(float(field))
    except ValueError:
        return False
