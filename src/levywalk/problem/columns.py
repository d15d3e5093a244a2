"""Which columns of a table are the target, the node and the features, and which line is a header.

A name means the column with this name; a number, or a name that no column has and that is a whole
number, means a position from 0, or from the end if it is negative.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from levywalk import checks
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.remedy import python_or_command

MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")
_COUNTED_FROM_1 = 5  # columns from which on a first line 1,2,3,… is a header
_LISTED = 240  # characters of a list of names in a message
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")

Column = str | int


class ChosenColumns(NamedTuple):
    """Positions of the target, of the node (None: no such column) and of the features."""

    target: int
    node: int | None
    features: list[int]
    left_out: list[int]


def is_header(first: Sequence[str], second: Sequence[str] | None) -> bool | None:
    """Decide whether a first line is a header; None if both readings are possible.

    A number, an empty field and a mark of a missing value are no evidence for a header. Other text
    is a word; it shows a header, unless the second line has a word in the same column too.

    - Numbers only: a header if they count the columns, 0,1,2,… (three columns or more) or 1,2,3,…
      (five or more); undecided if they are 0,1; else a sample.
    - Words that tell a header: a header, unless numbers stand beside them that do not count the
      columns; then undecided.
    - Words in columns of words: a header if three or more numbers beside them are 0,1,2,…;
      undecided if they are 1,2,3,… or if there are no numbers; else a sample.

    Examples
    --------
    >>> is_header(["a", "b"], ["1", "2"]), is_header(["0", "1", "2"], ["5", "6", "7"])
    (True, True)
    >>> is_header(["1", "2", "3"], ["5", "6", "7"]), is_header(["ann", "2"], ["bob", "7"])
    (False, False)
    >>> print(is_header(["x", "7.5"], ["1", "2"]))
    None
    """
    seen = second if second is not None and len(second) == len(first) else None
    words = [i for i, field in enumerate(first) if _is_word(field)]
    telling = [i for i in words if seen is None or not _is_word(seen[i])]
    numbers = {i: field for i, field in enumerate(first) if is_number(field)}
    counts = _counts_columns(numbers)
    start = int(next(iter(numbers.values()))) if counts else -1
    if not words:
        if not counts or len(numbers) != len(first) or start not in (0, 1):
            return False
        if start == 0:
            return True if len(first) >= 3 else None
        return len(first) >= _COUNTED_FROM_1
    if telling:
        return True if counts or not numbers else None
    if not numbers:
        return None
    if not counts or len(numbers) < 3:
        return False
    return True if start == 0 else None


def _counts_columns(numbers: dict[int, str]) -> bool:
    """Whether the numbers are their positions, or all one more, or all one less, without a gap.

    A gap, as in 1,2,x,4, may be a number that was written wrong.
    """
    if numbers and max(numbers) - min(numbers) + 1 != len(numbers):
        return False
    offsets = {
        int(field) - i if re.fullmatch("[0-9]{1,9}", field) else None
        for i, field in numbers.items()
    }
    return len(offsets) == 1 and offsets <= {-1, 0, 1}


def is_number(field: str) -> bool:
    """Whether a field is a number, with a point or a comma before its decimals.

    Examples
    --------
    >>> is_number("1e-3"), is_number("2,5"), is_number("nan"), is_number("x")
    (True, True, False, False)
    """
    try:
        value = float(field.replace(",", ".", 1))
    except ValueError:
        return False
    return value == value


def _is_word(field: str) -> bool:
    return field.lower() not in MISSING and not is_number(field)


def choose_columns(
    source: str,
    width: int,
    header: Sequence[str] | None,
    *,
    target: Column | None,
    node: Column | None,
    features: str | Iterable[Column] | None,
) -> ChosenColumns:
    """Return the columns' positions; None is the last column for the target and no node.

    By default every other column with a name is a feature.

    Examples
    --------
    >>> choose_columns("t", 4, ["", "who", "x", "y"], target=None, node="who", features=None)
    ChosenColumns(target=3, node=1, features=[2], left_out=[0])
    """
    holder = None if node is None else position_of(source, "node", node, width, header)
    if target is None:
        goal = width - 2 if holder == width - 1 else width - 1
    else:
        goal = position_of(source, "target", target, width, header)
    if goal == holder:
        raise InvalidParameter(f"target and node must differ, got column {goal} for both")
    taken = {goal, holder}
    if features is None:
        others = [i for i in range(width) if i not in taken]
        chosen = [i for i in others if header is None or header[i]]
        left_out = [i for i in others if i not in chosen]
    else:
        chosen, left_out = positions_of(source, features, width, header), []
        both = [i for i in chosen if i in taken]
        if both:
            raise InvalidParameter(
                f"features must not contain the target or the node, got column {both[0]}; leave it "
                f"out of {python_or_command('features=', '--features')}"
            )
    if not chosen:
        raise InvalidData(f"{source}: no column is left for the features; choose another target")
    return ChosenColumns(goal, holder, chosen, left_out)


def positions_of(
    source: str, features: str | Iterable[Column], width: int, header: Sequence[str] | None
) -> list[int]:
    """Return the positions of the listed features; ``3-7`` is a range of positions.

    Examples
    --------
    >>> positions_of("t", "b,2-3", 4, ["a", "b", "c", "d"])
    [1, 2, 3]
    """
    wanted: list[Column] = []
    for one in split_list(features):
        span = _RANGE.fullmatch(one) if isinstance(one, str) else None
        if span is not None and (header is None or one not in header):
            low, high = int(span[1]), int(span[2])
            if not low <= high < width:
                raise InvalidParameter(
                    f"features {one!r} must be a range within 0-{width - 1}, from low to high"
                )
            wanted += range(low, high + 1)
        else:
            wanted.append(one)
    found = [position_of(source, "features", one, width, header) for one in wanted]
    if len(set(found)) != len(found):
        raise InvalidParameter(f"features must differ, got {features!r}")
    return found


def split_list(given: str | Iterable[Column]) -> list[Column]:
    """Return the parts of a text with commas, or a list as it is.

    Examples
    --------
    >>> split_list("a, b"), split_list([0, 3])
    (['a', 'b'], [0, 3])
    """
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return list(given)


def position_of(
    source: str, what: str, column: Column, width: int, header: Sequence[str] | None
) -> int:
    """Return the position of a column given by name or position.

    Examples
    --------
    >>> position_of("t", "target", "y", 2, ["x", "y"]), position_of("t", "target", "-1", 2, None)
    (1, 1)
    """
    if isinstance(column, str):
        if header is not None and header.count(column) == 1:
            return header.index(column)
        if header is not None and column in header:
            raise InvalidData(
                f"{source}: the column {column!r} is twice or more in the header "
                f"{names_text(header)}; give its position, from 0 to {width - 1}"
            )
        if not _WHOLE.fullmatch(column):
            if header is None:
                raise InvalidData(
                    f"{source}: no header to find {what} = {column!r} in; give the column's "
                    f"position, from 0 to {width - 1}"
                )
            raise InvalidData(
                f"{source}: the column {column!r} is not in the header {names_text(header)}; "
                f"choose {what} from these"
            )
        column = int(column)
    return checks.integer(what, column, low=-width, high=width - 1) % width


def names_text(names: Iterable[object]) -> str:
    """Return names for a message, as many as are readable.

    Examples
    --------
    >>> names_text(["a", "b"])
    "'a', 'b'"
    """
    text = ""
    for name in names:
        text += f"{', ' if text else ''}{str(name)!r}"
        if len(text) > _LISTED:
            return text[:_LISTED] + "…"
    return text
