"""Explain mistakes in an experiment file: the key as the user wrote it, the mistake, the value, the
remedy.
"""

from __future__ import annotations

import difflib
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from levywalk.remedy import python_or_command


def explain(model: type[BaseModel], item: Any) -> str:
    """Turn one validation error of pydantic into a message: the key, the mistake, the value, the
    remedy.
    """
    known = _known_keys(model, list(item["loc"]))
    key = ".".join(str(part) for part in known[0])
    kind, value = item["type"], item["input"]
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(item["loc"][-1]), known[1], n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        inside = [
            name
            for name, field in model.model_fields.items()
            for section in _flatten(field.annotation)
            if len(item["loc"]) == 1 and item["loc"][0] in getattr(section, "model_fields", ())
        ]
        if inside:
            hint = f"did you mean '{inside[0]}.{item['loc'][0]}'? "
        return f"{key}: unknown key (value {value!r}); {hint}known here: {', '.join(known[1])}"
    if kind == "missing":
        return f"{key}: missing; add it"
    if kind == "union_tag_not_found":
        name = item["ctx"]["discriminator"].strip("'")
        return f"{key}: {name!r} is missing; it selects the kind"
    if kind == "union_tag_invalid":
        tag, tags = item["ctx"]["tag"], item["ctx"]["expected_tags"]
        name = item["ctx"]["discriminator"].strip("'")
        near = difflib.get_close_matches(str(tag), tags.replace("'", "").split(", "), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return (
            f"{key}.{name}: must be one of {tags}, got {tag!r}; {hint}a name of your own must be "
            f"registered first, with {python_or_command('lw.register', 'levywalk --load FILE')}"
        )
    message = item["msg"].removeprefix("Input should be ").replace("Value error, ", "")
    return f"{key}: must be {message}, got {value!r}"


def _known_keys(model: Any, loc: list[Any]) -> tuple[list[Any], list[str]]:
    """Return the location as the user wrote it, without pydantic's union tags, and the keys allowed
    there.
    """
    written: list[Any] = []
    keys: list[str] = []
    types = [model]
    for part in loc:
        sections = [
            item for item in types if isinstance(item, type) and issubclass(item, BaseModel)
        ]
        tagged = [item for item in sections if _tag_matches(item, part)]
        if len(sections) > 1 and tagged:  # the tag of a union, which the user did not write
            types = tagged
            continue
        written.append(part)
        keys = sorted({name for item in sections for name in item.model_fields})
        types = [found for item in types for found in _children(item, part)]
    return written, keys


def _tag_matches(section: type[BaseModel], part: Any) -> bool:
    for name in ("family", "data", "kind"):
        field = section.model_fields.get(name)
        if field is not None and part in get_args(field.annotation):
            return True
    return False


def _children(item: Any, part: Any) -> list[Any]:
    if isinstance(item, type) and issubclass(item, BaseModel):
        field = item.model_fields.get(str(part))
        return _flatten(field.annotation) if field is not None else []
    if get_origin(item) is dict:
        return _flatten(get_args(item)[1])
    return []


def _flatten(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _flatten(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [found for part in get_args(annotation) for found in _flatten(part)]
    return [annotation]
