"""Read edge lists from text.

A fast pass uses numpy's reader. If it fails, a slower pass reads line by line and can name the line
that is wrong.
"""

from __future__ import annotations

import io
import math
import warnings
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from levywalk.arrays import AnyArray, Bools, Ints
from levywalk.errors import InvalidNetwork
from levywalk.network.direction import declared_directed
from levywalk.remedy import python_or_command
from levywalk.room import require_bytes, text_array

_SHAPE = (
    "a line should hold two node ids, such as '17 42' or '17,42', and perhaps a weight; "
    "comments start with # or %"
)
_HEADER = {
    "source", "target", "from", "to", "src", "dst", "u", "v", "fromnodeid", "tonodeid", "fromid",
    "toid", "node1", "node2", "node_1", "node_2", "id1", "id2", "id_1", "id_2",
}  # fmt: skip
_LARGEST = np.iinfo(np.int64).max
_LINE_BYTES = 375  # what the slower pass takes for a line at its peak, measured
_SHOWN = 60  # characters of an offending line in a message
MANY_NODES = 10_000_000  # above this, far more nodes than entries are treated as a damaged file


class EdgeList(NamedTuple):
    """The content of an edge list: edges (u, v) of n nodes, and what else the file says."""

    n: int
    u: Ints
    v: Ints
    labels: AnyArray | None
    weights: int
    directed: bool


def read_edges(name: str, data: bytes, node_base: int | None = None) -> EdgeList:
    r"""Return the edges of a file, with ids numbered from 0.

    Without ``node_base`` the ids that occur are numbered in ascending order. With it, they are
    numbers from ``node_base`` on, and an id that does not occur is a node without an edge.

    Examples
    --------
    >>> read_edges("example", b"# Directed graph\n1 4\n", node_base=1)
    EdgeList(n=4, u=array([0]), v=array([3]), labels=array([1, 2, 3, 4]), weights=0, directed=True)
    >>> read_edges("example", b"# three friends\n3 7\n7,9,0.5\n").labels
    array([3, 7, 9])
    """
    text = _text(name, data)
    directed = declared_directed(text)
    if ";" in text and "," not in text:
        text = text.replace(";", ",")
    ids, weights = _fast(text) or _careful(name, text)
    if node_base is None:
        numbered, labels = _number(ids)
        n = int(numbered.max()) + 1
    else:
        numbered, labels, n = _from_base(name, ids, node_base)
    return EdgeList(n, numbered[:, 0], numbered[:, 1], labels, weights, directed)


def _from_base(name: str, ids: AnyArray, base: int) -> tuple[Ints, AnyArray | None, int]:
    """Number the ids from their base; labels are None where the base is 0."""
    remedy = python_or_command("leave node_base out", "leave --node-base out")
    if ids.dtype.kind != "i":
        raise InvalidNetwork(f"{name}: the ids are names, not numbers from {base} on; {remedy}")
    if int(ids.min()) < base:
        other = python_or_command("node_base=0", "--node-base 0")
        raise InvalidNetwork(
            f"{name}: the id {int(ids.min())} is below the base {base}; use {other}, or {remedy}"
        )
    n = int(ids.max()) - base + 1
    if n > MANY_NODES and n > 100 * len(ids):
        raise InvalidNetwork(
            f"{name}: ids up to {int(ids.max())} but only {len(ids)} edges; {remedy}, so that the "
            "ids that occur are numbered"
        )
    return ids - base, np.arange(base, base + n) if base else None, n


def _text(name: str, data: bytes) -> str:
    """Decode the file, or raise an error that it is not a text file."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        other = python_or_command("format=", "--network-format")
        raise InvalidNetwork(
            f"{name}: not text in UTF-8, as which it should be saved; {_SHAPE} (other formats: "
            f"{other})"
        )
    return text


def _fast(text: str) -> tuple[Ints, int] | None:
    """Read plain integers with numpy's reader; return None if the file contains anything else."""
    if ",," in text:  # an empty field, which the slower pass refuses
        return None
    plain = text.replace(",", " ").replace("%", "#")
    columns = _first_width(plain)
    if columns < 2:
        return None
    row = np.dtype([("ids", np.int64, (2,)), ("weights", np.float64, (columns - 2,))])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns about 1.5 for an integer
            table = np.loadtxt(io.StringIO(plain), dtype=row, comments="#", ndmin=1)
    except (ValueError, TypeError, OverflowError, Warning):
        return None
    ids = np.ascontiguousarray(table["ids"])
    if not ids.size or ids.min() < 0:
        return None
    return ids, int((table["weights"] != 1).any(axis=1).sum())


def _first_width(plain: str) -> int:
    """Return the number of columns of the first line with data."""
    for line in io.StringIO(plain):
        fields = line.partition("#")[0].split()
        if fields:
            return len(fields)
    return 0


def _careful(name: str, text: str) -> tuple[AnyArray, int]:
    """Read line by line, and name the first line that is wrong.

    This pass accepts names as ids, a header, and weights on some lines only. Lines of different
    lengths with whole numbers alone may be lists of neighbours, and are refused.
    """
    lines = text.count("\n")
    require_bytes(
        f"{name}: reading {lines} lines with names, headers or remarks",
        _LINE_BYTES * lines,
        "number the nodes, and leave nothing but two numbers on each line",
    )
    pairs: list[tuple[str, str]] = []
    numbers: list[int] = []
    widths: set[int] = set()
    weights, like_ids = 0, True
    long: tuple[int, str] | None = None  # the first line with more than two columns
    for number, line in enumerate(io.StringIO(text), start=1):
        fields = _fields(line)
        if not fields or (not pairs and _is_header(fields)):
            continue
        problem = _problem(fields)
        if problem:
            raise _bad_line(name, number, line, problem)
        weights += any(_is_weight(field) for field in fields[2:])
        widths.add(len(fields))
        like_ids = like_ids and all(map(_is_integer, fields))
        if long is None and len(fields) > 2:
            long = number, line
        pairs.append((fields[0], fields[1]))
        numbers.append(number)
    if not pairs:
        raise InvalidNetwork(
            f"{name}: no line with an edge, only comments or blank lines; {_SHAPE}"
        )
    if long is not None and len(widths) > 1 and like_ids:
        why = "a node with all its neighbours, or an edge with a weight that other lines lack,"
        raise InvalidNetwork(
            f"{_bad_line(name, *long, why)}; write one edge on each line, and a weight on all of "
            "them or none"
        )
    return _ids(name, text, pairs, numbers), weights


def _fields(line: str) -> list[str]:
    """Split a line without its comment.

    An empty field between commas is kept, so that it is refused later. A name between commas or
    tabs may contain spaces and may stand in quotes.
    """
    content = line.replace("%", "#").partition("#")[0].strip()
    comma = "," if "," in content else "\t"
    if comma not in content:
        return content.split()
    fields = [part for field in content.split(comma) for part in _parts(field)]
    if comma == "\t":
        return [field for field in fields if field]
    return fields[:-1] if fields[-1] == "" else fields  # some programs end each line with a comma


def _parts(field: str) -> list[str]:
    """Return the numbers of a field between commas, or the one name in it."""
    parts = field.split()
    if len(parts) > 1 and not all(_is_number(part) or part == "{}" for part in parts):
        return [field.strip().strip('"')]
    return [part.strip('"') for part in parts] or [""]


def _is_header(fields: list[str]) -> bool:
    return len(fields) >= 2 and {fields[0].lower(), fields[1].lower()} <= _HEADER


def _problem(fields: list[str]) -> str | None:
    """Return what is wrong with a line, if anything."""
    if len(fields) < 2:
        return "only one id"
    for field in fields[:2]:
        if not field:
            return "an empty id"
        if not field.strip("-<>="):
            return f"the arrow {field!r}, which should be left out,"
        if _is_integer(field):
            if int(field) < 0:
                return f"the negative id {field}"
            if int(field) > _LARGEST:
                return f"the id {field[:_SHOWN]}, which does not fit in 64 bits"
        elif _is_number(field):
            return f"the id {field[:_SHOWN]}, which is not an integer"
    if not (
        _is_integer(fields[0])
        or len(fields) == 2
        or _is_number(fields[2])
        or fields[2].startswith("{")
    ):
        return "more than two names"
    return None


def _is_integer(field: str) -> bool:
    digits = field[1:] if field[:1] in ("+", "-") else field
    return (
        digits.isascii() and digits.isdigit() and len(digits) < 4000
    )  # Python refuses longer integers


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return field[-1:].isdigit() or field[-1:] == "."  # 'nan' and 'infinity' may be names


def _is_weight(field: str) -> bool:
    """Whether a further column is a weight other than 1; {} means 'no data' in networkx's files."""
    if field == "{}":
        return False
    try:
        return not math.isclose(float(field), 1.0, rel_tol=0.0)
    except ValueError:
        return True


def _ids(name: str, text: str, pairs: list[tuple[str, str]], numbers: list[int]) -> AnyArray:
    """Return the ids as integers if all are integers, as text if no line has two integers.

    A mixture of both is an error.
    """
    integral = [_is_integer(a) and _is_integer(b) for a, b in pairs]
    if all(integral):
        return np.array([(int(a), int(b)) for a, b in pairs], dtype=np.int64)
    if not any(integral):
        every = list(chain.from_iterable(pairs))
        return text_array(f"{name}: the names of the nodes", every).reshape(len(pairs), 2)
    number = numbers[integral.index(False)]
    line = text.splitlines()[number - 1] if number <= text.count("\n") + 1 else ""
    problem = "a name where other lines have integers"
    hint = "; put # before it if it is a header" if integral.index(False) == 0 else ""
    raise InvalidNetwork(f"{_bad_line(name, number, line, problem)}{hint}")


def _bad_line(name: str, number: int, line: str, problem: str) -> InvalidNetwork:
    shown = line.strip()
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    return InvalidNetwork(f"{name}, line {number}: {problem} in {shown!r}; {_SHAPE}")


def _number(ids: AnyArray) -> tuple[Ints, AnyArray | None]:
    """Number the ids 0..n-1 in ascending order; labels are None if this changes nothing."""
    if ids.dtype.kind != "i":
        labels, inverse = np.unique(ids, return_inverse=True)
        return inverse.reshape(ids.shape), labels
    largest = int(ids.max())
    if largest > 8 * ids.size + 1000:  # sparse ids: sort them
        labels, inverse = np.unique(ids, return_inverse=True)
        return inverse.reshape(ids.shape), labels
    used: Bools = np.zeros(largest + 1, dtype=np.bool_)
    used[ids] = True
    if used.all():
        return ids, None
    rank: Any = np.cumsum(used) - 1
    return rank[ids], np.flatnonzero(used)
