"""Checks of arguments.

Each check returns the clean value, or raises an error that names the argument, the value and the
values that are allowed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter, MissingFile


def integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as an int within [low, high].

    Examples
    --------
    >>> integer("steps", 5, low=1)
    5
    >>> integer("steps", 0, low=1)
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: steps must be an integer of at least 1, got 0
    """
    domain = "an integer"
    if low is not None and high is not None:
        domain += f" in [{low}, {high}]"
    elif low is not None:
        domain += f" of at least {low}"
    elif high is not None:
        domain += f" of at most {high}"
    try:
        if isinstance(value, bool):
            raise TypeError
        clean = operator.index(value)
    except TypeError:
        raise InvalidParameter(f"{name} must be {domain}, got {value!r}") from None
    if (low is not None and clean < low) or (high is not None and clean > high):
        raise InvalidParameter(f"{name} must be {domain}, got {value!r}")
    return clean


def real(
    name: str,
    value: Any,
    domain: str,
    *,
    low: float,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return ``value`` as a finite float in the interval; ``domain`` describes it in the message.

    Examples
    --------
    >>> real("ridge", 0.5, "at least 0", low=0.0)
    0.5
    """
    try:
        if isinstance(value, (bool, str)):
            raise TypeError
        clean = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(f"{name} must be a number {domain}, got {value!r}") from None
    outside = (
        clean < low or clean > high or (low_open and clean == low) or (high_open and clean == high)
    )
    if not math.isfinite(clean) or outside:
        raise InvalidParameter(f"{name} must be a number {domain}, got {value!r}")
    return clean


def probability(name: str, value: Any) -> float:
    """Return ``value`` as a float in [0, 1].

    Examples
    --------
    >>> probability("p_jump", 1.5)
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: p_jump must be a number in [0, 1], got 1.5
    """
    return real(name, value, "in [0, 1]", low=0.0, high=1.0)


def positive(name: str, value: Any) -> float:
    """Return ``value`` as a finite float above 0."""
    return real(name, value, "above 0", low=0.0, low_open=True)


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``options``.

    Examples
    --------
    >>> choice("backend", "gpu", ["auto", "kernel"])
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: backend must be one of 'auto', 'kernel', got 'gpu'
    """
    known = list(options)
    if not isinstance(value, str) or value not in known:
        raise InvalidParameter(
            f"{name} must be one of {', '.join(repr(str(one)) for one in known)}, got {value!r}"
        )
    return value


def seed(value: Any) -> int:
    """Return a seed: any integer of at least 0."""
    return integer("seed", value, low=0)


def exists(path: str | Path) -> bool:
    """Return whether a file or a folder exists; False for text that cannot be a path.

    Examples
    --------
    >>> exists("."), exists("x" * 5000)
    (True, False)
    """
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # a name that is too long, or with a NUL
        return False


def existing_file(path: str | Path) -> Path:
    """Return ``path`` as a Path to a file that exists."""
    try:
        clean = Path(path)
    except TypeError:
        raise InvalidParameter(f"path must be a path, got {path!r}") from None
    if not exists(clean):
        raise MissingFile(
            f"no file at {str(clean)!r}; check the path (relative paths start at "
            f"{str(Path.cwd())!r})"
        )
    if not clean.is_file():
        raise InvalidParameter(f"path must name a file, got the folder {str(clean)!r}")
    return clean
