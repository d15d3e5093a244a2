"""Sections of experiment files that are recipes of the registry: the arguments of a factory are the
keys of its section, for the package's own names and for users' alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from levywalk.registry import arguments_of, names
from levywalk.schedule import Schedule
from levywalk.walks import Walk

_PLAIN = (bool, int, float, str, NoneType)


class FileSection(BaseModel):
    """A section whose keys and types are checked."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RecipeSection(FileSection):
    """A design, an update or a schedule by its recipe."""

    kind: str

    def recipe(self) -> dict[str, Any]:
        """Return the recipe: what was given, and the defaults."""
        return self.model_dump(exclude={"update"} if "update" in type(self).model_fields else None)


def _section_of(
    kind: str, key: str, name: str, make: Callable[..., Any], base: Any, skip: int = 0
) -> Any:
    """Derive a section from the arguments of a factory: one spelling for Python and TOML."""
    hints = hints_of(make)
    fields: dict[str, Any] = {key: (Literal[name], ...)}
    for argument, parameter in list(arguments_of(make).items())[skip:]:
        if argument in ("name", "update") and kind == "design":
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[argument] = (_field_type(hints.get(argument, Any)), default)
    return create_model(f"_{kind}_{name}", __base__=base, **fields)


def hints_of(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a factory's arguments, as far as they can be looked up."""
    try:
        return get_type_hints(make.__init__ if inspect.isclass(make) else make)
    except Exception:  # annotations of a user's own may name anything
        return {}


def _is_walk(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, Walk)


def _field_type(hint: Any) -> Any:
    """Return a type that pydantic checks strictly; objects of the package are recipes in a file."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if all(part in _PLAIN or get_origin(part) is Literal for part in parts):
        return hint
    optional = NoneType in parts
    if any(_is_walk(part) for part in parts):
        return sections_of("design", "kind", RecipeSection, plain=True)
    if Schedule in parts:
        return (
            sections_of("schedule", "kind", RecipeSection) | None
            if optional
            else sections_of("schedule", "kind", RecipeSection)
        )
    return Any


@lru_cache(maxsize=32)
def _unions(
    kind: str, known: tuple[tuple[str, Any], ...], key: str, base: Any, skip: int, first: Any
) -> Any:
    sections = [_section_of(kind, key, name, make, base, skip) for name, make in known]
    if first is not None:
        sections.insert(0, first)
    either = reduce(or_, sections)
    return Annotated[either, Field(discriminator=key)] if len(sections) > 1 else either


def sections_of(
    kind: str, key: str, base: Any, skip: int = 0, first: Any = None, plain: bool = False
) -> Any:
    """Return all sections of a kind, users' own included, distinguished by a key; ``plain`` ones
    contain no walks.
    """
    known = tuple(
        (name, make)
        for name, make in sorted(names(kind).items())
        if not plain
        or not any(_is_walk(hint) for key, hint in hints_of(make).items() if key != "return")
    )
    return _unions(kind, known, key, base, skip, first)
