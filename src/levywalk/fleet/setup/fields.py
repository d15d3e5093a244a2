"""Strict reading of the tables in a manifest or a node file: everything unexpected is named and
refused.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from levywalk import checks
from levywalk.errors import InvalidParameter, InvalidSpec, MissingFile

_SHOWN = 80  # longest value that is shown in a message
T = TypeVar("T")


def read_bytes(path: Path, most: int, what: str) -> bytes:
    """Return the contents of a file, unless it is larger than any file of its kind.

    Examples
    --------
    >>> read_bytes(Path("no/such.json"), 10, "a manifest")
    Traceback (most recent call last):
    levywalk.errors.MissingFile: no/such.json: there is no such file;
        levywalk fleet init makes a manifest
    """
    try:
        with path.open("rb") as file:
            found = file.read(most + 1)
    except FileNotFoundError:
        raise MissingFile(
            f"{path}: there is no such file; levywalk fleet init makes {what}"
        ) from None
    except OSError as error:
        raise InvalidSpec(
            f"{path}: cannot be read ({error.strerror}); {what} was expected here"
        ) from None
    if len(found) > most:
        raise InvalidSpec(
            f"{path}: larger than {most} bytes, which {what} never is; is it the right file?"
        )
    return found


class Fields:
    """One table of a file: every key must be known, every required key present, every value of its
    type.

    Examples
    --------
    >>> table = Fields({"retry": 1.5}, "manifest.json", "handoff", needed=("retry",))
    >>> table.number("retry", low=0.0)
    1.5
    >>> Fields({"retyr": 1.5}, "manifest.json", "handoff", needed=("retry",))
    Traceback (most recent call last):
    levywalk.errors.InvalidSpec: manifest.json: unknown key handoff.retyr = 1.5; did you mean retry?
    """

    def __init__(
        self,
        value: Any,
        source: str,
        where: str = "",
        *,
        needed: Iterable[str],
        optional: Iterable[str] = (),
    ) -> None:
        self.source, self.where = source, where
        if not isinstance(value, dict):
            raise InvalidSpec(
                f"{source}: {where or 'the file'} must be a table of keys and values, got "
                f"{_shown(value)}"
            )
        self.values: dict[str, Any] = value
        needed = list(needed)
        known = [*needed, *optional]
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                remedy = (
                    f"did you mean {near[0]}?" if near else f"known keys are {', '.join(known)}"
                )
                raise InvalidSpec(
                    f"{source}: unknown key {self.name(key)} = {_shown(value[key])}; {remedy}"
                )
        for key in needed:
            if key not in value:
                raise InvalidSpec(
                    f"{source}: the key {self.name(key)} is missing; add it, or make the file again"
                )

    def name(self, key: str) -> str:
        """Return the full name of a key, with the name of the table."""
        return f"{self.where}.{key}" if self.where else key

    def bad(self, key: str, must: str) -> InvalidSpec:
        """Return the error that says what the value of a key must be."""
        return InvalidSpec(
            f"{self.source}: {self.name(key)} must be {must}, got {_shown(self.values.get(key))}"
        )

    @contextmanager
    def _clear(self) -> Iterator[None]:
        try:
            yield
        except InvalidParameter as error:
            raise InvalidSpec(f"{self.source}: {error}") from None

    def make(self, made: Callable[..., T], *values: Any) -> T:
        """Return an object that checks its own arguments. Its error names this table."""
        try:
            return made(*values)
        except InvalidParameter as error:
            place = f"in {self.where}: " if self.where else ""
            raise InvalidSpec(f"{self.source}: {place}{error}") from None

    def integer(self, key: str, *, low: int, high: int) -> int:
        """Return an integer within [low, high]."""
        with self._clear():
            return checks.integer(self.name(key), self.values[key], low=low, high=high)

    def number(
        self, key: str, *, low: float, high: float = math.inf, low_open: bool = False
    ) -> float:
        """Return a finite number within the interval."""
        domain = f"{'above' if low_open else 'of at least'} {low:g}"
        domain += "" if high == math.inf else f" and at most {high:g}"
        with self._clear():
            return checks.real(
                self.name(key), self.values[key], domain, low=low, high=high, low_open=low_open
            )

    def choice(self, key: str, options: Iterable[str]) -> str:
        """Return one of a few words."""
        with self._clear():
            return checks.choice(self.name(key), self.values[key], options)

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.values[key]
        if not isinstance(value, bool):
            raise self.bad(key, "true or false")
        return value

    def text(self, key: str, *, most: int = 200) -> str:
        """Return a text on one line."""
        value = self.values[key]
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            raise self.bad(key, f"a text of 1 to {most} characters on one line")
        return value

    def table(self, key: str, *, needed: Iterable[str], optional: Iterable[str] = ()) -> Fields:
        """Return a table within this one."""
        return Fields(
            self.values[key], self.source, self.name(key), needed=needed, optional=optional
        )

    def tables(
        self, key: str, *, needed: Iterable[str], optional: Iterable[str] = ()
    ) -> list[Fields]:
        """Return the tables of a list."""
        value = self.values[key]
        if not isinstance(value, list):
            raise self.bad(key, "a list of tables")
        return [
            Fields(entry, self.source, f"{self.name(key)}[{i}]", needed=needed, optional=optional)
            for i, entry in enumerate(value)
        ]

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
