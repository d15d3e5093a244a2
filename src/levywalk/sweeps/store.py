"""Results on disk, each under a hash of its description: nothing is computed twice, and nothing
finished is lost.

A result is one numpy archive without pickle: its arrays, and as JSON its description, its numbers
and the version of levywalk. It is written to a temporary file, synced and renamed, so a reader sees
all of it or nothing. The same result has the same bytes, so two processes may write the same key.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.archives import Archive
from levywalk.arrays import AnyArray
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.room import LARGEST_ARRAY
from levywalk.version import __version__
from levywalk.whole_files import sync_folder

FORMAT = 1
_ABOUT = "about"
_SUFFIX = ".npz"
_PARTIAL = ".partial"
_DATE = (1980, 1, 1, 0, 0, 0)  # of every member, so that the bytes do not depend on the time


class ResultStoreError(LevywalkError, OSError):
    """A result could not be read or written; results that were stored before are not affected."""


class ResultStoreWarning(UserWarning):
    """A stored result is damaged or has the wrong file name, and is treated as missing."""


@dataclass(frozen=True, eq=False)
class Result:
    """A stored result: the description of the task, its arrays and its numbers (plain JSON;
    infinity is allowed).
    """

    description: dict[str, Any]
    arrays: dict[str, AnyArray]
    numbers: dict[str, Any]


def plain(value: Any, where: str = "description") -> Any:
    """Return the value as plain JSON: None, bools, ints, floats, strings, lists and dicts; refuse
    anything else.

    Examples
    --------
    >>> plain({"n": np.int64(5), "sizes": (0.1, np.float64(0.2))})
    {'n': 5, 'sizes': [0.1, 0.2]}
    >>> plain({"run": {"seed": {1, 2}}})
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: description.run.seed must be a number, text,
        list or dict, got {1, 2}
    """
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = bool(value) if isinstance(value, np.bool_) else _python_number(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        strange = next((key for key in value if not isinstance(key, str)), None)
        if strange is not None:
            raise InvalidParameter(f"{where} must have text as keys, got the key {strange!r}")
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    raise InvalidParameter(f"{where} must be a number, text, list or dict, got {value!r}")


def _python_number(value: np.integer[Any] | np.floating[Any]) -> int | float:
    return int(value) if isinstance(value, np.integer) else float(value)


def canonical(value: Any) -> str:
    """Return the canonical JSON of a plain value: sorted keys, floats by repr, no spaces.

    Examples
    --------
    >>> canonical({"b": 0.1, "a": [1, 1.0]})
    '{"a":[1,1.0],"b":0.1}'
    """
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


def key_of(description: Mapping[str, Any]) -> str:
    """Return the hash under which the result of a description is stored.

    Examples
    --------
    >>> key_of({"n": 5}) == key_of({"n": np.int64(5)}), key_of({"n": 5}) == key_of({"n": 5.0})
    (True, False)
    """
    if not isinstance(description, Mapping):
        raise InvalidParameter(f"description must be a dict, got {description!r}")
    text = canonical({"format": FORMAT, "levywalk": __version__, "description": description})
    return hashlib.sha256(text.encode()).hexdigest()


def pack(
    description: Mapping[str, Any], arrays: Mapping[str, AnyArray], numbers: Mapping[str, Any]
) -> bytes:
    """Return a result as the bytes of its file: the same result, the same bytes."""
    about = {
        "format": FORMAT,
        "levywalk": __version__,
        "description": description,
        "numbers": plain(numbers, "numbers"),
        "arrays": list(arrays),
    }
    members = {_ABOUT: np.frombuffer(canonical(about).encode(), np.uint8)}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.hasobject or name == _ABOUT:
            raise InvalidParameter(
                f"arrays must be numpy arrays of numbers, none named {_ABOUT!r}; got {name!r}"
            )
        members[name] = array
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            with archive.open(
                zipfile.ZipInfo(f"{name}.npy", _DATE), "w", force_zip64=True
            ) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def unpack(content: bytes) -> Result:
    """Return the result in the bytes of a file; damaged bytes raise an exception of any kind."""
    archive = Archive(io.BytesIO(content), "", ResultStoreError, LARGEST_ARRAY)
    about = json.loads(archive.array(_ABOUT, kinds="u", dims=1).tobytes())
    arrays = {name: archive.array(name, "biufcSU") for name in archive.names if name != _ABOUT}
    if (about["format"], about["levywalk"]) != (FORMAT, __version__):
        raise ValueError(f"made by levywalk {about['levywalk']}, format {about['format']}")
    if list(arrays) != about["arrays"]:
        raise ValueError(f"holds the arrays {list(arrays)} instead of {about['arrays']}")
    return Result(about["description"], arrays, about["numbers"])


class ResultStore:
    """A folder of results, which is created when the first one is written.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ResultStore(folder)
    ...     key = store.key({"nodes": 5})
    ...     before = store.has(key)
    ...     store.save(key, {"nodes": 5}, {"error": np.array([1.0, 0.5])}, {"steps": 12})
    ...     before, store.has(key), store.load(key).numbers
    (False, True, {'steps': 12})
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            self.folder = Path(folder)
        except TypeError:
            raise InvalidParameter(f"store must be a folder, got {folder!r}") from None
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidParameter(f"store must be a folder, got the file {str(folder)!r}")

    key = staticmethod(key_of)

    def path(self, key: str) -> Path:
        """Return the file of a key's result, whether it exists or not."""
        return self.folder / f"{key}{_SUFFIX}"

    def has(self, key: str) -> bool:
        """Return whether `load` would find an undamaged result."""
        return self.load(key) is not None

    def load(self, key: str, description: Mapping[str, Any] | None = None) -> Result | None:
        """Return the result of a key, or None; a damaged or misplaced one gives a warning and is
        treated as missing.

        A description, if given, is compared with the stored one.
        """
        path = self.path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ResultStoreError(
                f"{path} cannot be read: {error.strerror or error}; check its permissions"
            ) from None
        try:
            found = unpack(content)
            whose = key_of(found.description)
        except Exception as error:  # a damaged file makes zipfile, json and numpy raise anything
            _report(path, f"is damaged ({type(error).__name__}: {error})")
            return None
        if whose != key or (
            description is not None and canonical(description) != canonical(found.description)
        ):
            _report(path, "holds the result of something else")
            return None
        return found

    def save(
        self,
        key: str,
        description: Mapping[str, Any],
        arrays: Mapping[str, AnyArray],
        numbers: Mapping[str, Any],
    ) -> None:
        """Store a result under its key; it replaces an earlier one."""
        if key_of(description) != key:
            raise InvalidParameter(f"key must be store.key(description), got {key!r}")
        self.put(key, pack(description, arrays, numbers))

    def put(self, key: str, content: bytes) -> None:
        """Store the bytes that `pack` made; a reader sees all of them or nothing, also after a
        power cut.
        """
        path, partial = self.path(key), None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            number, partial = tempfile.mkstemp(
                prefix=f"{key[:16]}-", suffix=_PARTIAL, dir=self.folder
            )
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)  # noqa: PTH105 (mkstemp gives text)
            partial = None
            sync_folder(self.folder)
        except OSError as error:
            raise ResultStoreError(
                f"{path} could not be written: {error.strerror or error}; results that were stored "
                f"before are "
                "not affected: make room there, or give another folder"
            ) from None
        finally:
            if partial is not None:
                Path(partial).unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Delete the result of a key, if there is one."""
        self.path(key).unlink(missing_ok=True)


def _report(path: Path, what: str) -> None:
    warnings.warn(
        f"{path} {what}: it is treated as missing and will be replaced",
        ResultStoreWarning,
        stacklevel=3,
    )
