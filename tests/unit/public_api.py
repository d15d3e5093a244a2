"""The record of the public names and signatures: ``python -m tests.unit.public_api`` rewrites it.

A change of the record in a commit is a change of the API, which RELEASE.md has rules for.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import levywalk as lw

RECORD = Path(__file__).with_suffix(".txt")
COMMAND = "python -m tests.unit.public_api"


def signature(value: object) -> str:
    """Return the parameters and defaults of something that can be called, without types."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(…)"
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in found.parameters.values()
    ]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def members(name: str, value: type) -> Iterator[str]:
    """Return a line for each public method and property that the class itself has."""
    for member, held in sorted(vars(value).items()):
        if member.startswith("_"):
            continue
        if isinstance(held, property):
            yield f"{name}.{member}"
        elif isinstance(held, (staticmethod, classmethod)):
            yield f"{name}.{member}{signature(getattr(value, member))}"
        elif inspect.isfunction(held):
            yield f"{name}.{member}{signature(held)}"


def lines() -> Iterator[str]:
    """Return a line for each public name, and for each public part of a class."""
    for name in lw.__all__:
        value = getattr(lw, name)
        if isinstance(value, ModuleType):
            yield f"{name} module: {', '.join(value.__all__)}"
        elif isinstance(value, type) and issubclass(value, (Exception, Warning, KeyboardInterrupt)):
            yield f"{name}({', '.join(base.__name__ for base in value.__bases__)})"
        elif isinstance(value, type):
            yield f"{name}{signature(value)}"
            yield from members(name, value)
        elif callable(value):
            yield f"{name}{signature(value)}"
        else:
            yield name


if __name__ == "__main__":
    RECORD.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
