"""A model of a user's own on real nodes: the file that builds it, which every operator installs.

Nothing executable ever travels. The manifest has the name of the file and of the function, the
SHA-256 of the file, and what the function must make. Where the file is, only the node's own node
file says; a node runs it only if it has that hash.

::

    def build(features, targets, node=None):    # returns a Problem
    def metrics(features, targets):             # optional: {name: f(model) -> float}
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from levywalk.errors import InvalidParameter, InvalidSpec, LevywalkError, MissingFile
from levywalk.fleet.setup.fields import Fields

METRICS = "metrics"  # the name of the function that makes the metrics
_LARGEST = 1 << 20  # bytes of a file
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MOST_METRICS = 32
_MOST_LENGTH = 1 << 31


@dataclass(frozen=True)
class ModelCode:
    """What the manifest says about the code that builds the model.

    Attributes
    ----------
    file, function, sha256
        The name of the file without its folder, the function in it, and the file's hash.
    sample
        The shape of one sample's features.
    metrics
        The names of the metrics that nodes compute on what they have held out.
    """

    file: str
    function: str
    sha256: str
    sample: tuple[int, ...]
    metrics: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "file": self.file,
            "function": self.function,
            "sha256": self.sha256,
            "sample": list(self.sample),
            "metrics": list(self.metrics),
        }

    @classmethod
    def parsed(cls, table: Fields) -> ModelCode:
        """Read it from a manifest's table."""
        file, function = table.text("file", most=255), table.text("function", most=64)
        if Path(file).name != file or not file.endswith(".py"):
            raise table.bad("file", "the name of a Python file without its folder")
        if not _NAME.fullmatch(function):
            raise table.bad("function", "the name of a function")
        sha256 = table.text("sha256", most=64)
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise table.bad("sha256", "64 hexadecimal digits")
        sample, metrics = table.values["sample"], table.values["metrics"]
        if (
            not isinstance(sample, list)
            or not 1 <= len(sample) <= 8
            or not all(type(one) is int and 1 <= one < _MOST_LENGTH for one in sample)
        ):
            raise table.bad("sample", "a list of 1 to 8 lengths")
        if (
            not isinstance(metrics, list)
            or len(metrics) > _MOST_METRICS
            or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in metrics)
            or len(set(metrics)) < len(metrics)
        ):
            raise table.bad("metrics", f"a list of at most {_MOST_METRICS} different names")
        return cls(file, function, sha256, tuple(sample), tuple(metrics))


class Code(NamedTuple):
    """A file that was run, and the functions in it."""

    path: Path
    sha256: str
    function: str
    build: Callable[..., Any]
    metrics: Callable[..., Any] | None

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function of the file; an error in it names the file and the line."""
        try:
            return function(*arguments, **named)
        except LevywalkError as error:
            name = function.__name__
            raise InvalidParameter(f"{name} of {self.path} has failed: {error}") from error
        except Exception as error:
            name = function.__name__
            raise InvalidParameter(
                f"{name} of {self.path} has failed: {_told(error, self.path)}; correct the file"
            ) from error


def split_name(text: str) -> tuple[Path, str]:
    """Return the file and the function of ``FILE:FUNCTION``.

    Examples
    --------
    >>> split_name("models/mine.py:build")
    (PosixPath('models/mine.py'), 'build')
    """
    file, colon, function = text.rpartition(":")
    if not colon or not file.endswith(".py") or not _NAME.fullmatch(function):
        raise InvalidParameter(
            f"--model must be a Python file and a function in it, such as my_model.py:build, got "
            f"{text!r}"
        )
    return Path(file), function


def load_code(path: Path, function: str, sha256: str | None = None) -> Code:
    """Run the file of a model, and find its functions.

    The bytes that are run are those that were hashed.

    Parameters
    ----------
    path, function
        The file, and the function that builds the problem.
    sha256
        The hash that the file must have; None where a fleet is created.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        wanted = "" if sha256 is None else f" with the sha256 {sha256}"
        raise MissingFile(
            f"the model's file {path} does not exist: install it there{wanted}"
        ) from None
    except OSError as error:
        raise InvalidSpec(
            f"the model's file {path} cannot be read ({error.strerror}); let the user that runs "
            "the node read it"
        ) from None
    if len(content) > _LARGEST:
        raise InvalidSpec(f"the model's file {path} must have at most {_LARGEST} bytes")
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise InvalidSpec(
            f"the model's file {path} has the sha256 {found}, but the manifest says {sha256}: "
            "install the file with which the fleet was created (nothing of it was run), or create "
            "a new fleet with this one"
        )
    module = _run(path, content, found)
    build, metrics = getattr(module, function, None), getattr(module, METRICS, None)
    if not callable(build):
        known = [name for name in vars(module) if not name.startswith("_")]
        functions = [name for name in known if callable(getattr(module, name))]
        raise InvalidParameter(
            f"{path} has no function {function!r}; it has {', '.join(functions) or 'none'}"
        )
    return Code(path, found, function, build, metrics if callable(metrics) else None)


def _run(path: Path, content: bytes, sha256: str) -> ModuleType:
    """Run the content of a file as a module of its own."""
    module = ModuleType(f"levywalk_model_{sha256[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except Exception as error:
        del sys.modules[module.__name__]
        raise InvalidParameter(
            f"the model's file {path} cannot be run: {_told(error, path)}; correct it, or install "
            "what it imports"
        ) from error
    return module


def _told(error: Exception, path: Path) -> str:
    """Return an error in words, with the last line of the file that it came from."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"


def metric_functions(code: Code, features: Any, targets: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the metrics of a file for held-out samples, by name; none if it has none."""
    if code.metrics is None:
        return {}
    found = code.call(code.metrics, features, targets)
    if (
        not isinstance(found, Mapping)
        or not 1 <= len(found) <= _MOST_METRICS
        or not all(
            isinstance(name, str) and _NAME.fullmatch(name) and callable(function)
            for name, function in found.items()
        )
    ):
        raise InvalidParameter(
            f"metrics of {code.path} must return a dict of 1 to {_MOST_METRICS} names such as "
            f"accuracy and functions of the model, got {found!r:.80}"
        )
    return dict(found)
