"""Folders of sweeps and reproductions: each holds one question, finds it again, and uses what the
folders beside it have stored.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.experiments.result_folder import candidates
from levywalk.sweeps.store import ResultStore
from levywalk.trace.comparison_files import RESULT, read_json
from levywalk.whole_files import write_whole

MARK = ".asked.json"
_RESULTS = (RESULT, "claims.json", "store")


def stored_folder(wanted: Path, asked: Mapping[str, Any]) -> Path:
    """Return the folder of a question, plain data: the one that holds it, or the first one that
    holds nothing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     first = stored_folder(Path(place, "sweep"), {"p_jump": [0.1]})
    ...     mark_asked(first, {"p_jump": [0.1]})
    ...     other = stored_folder(Path(place, "sweep"), {"p_jump": [0.1, 0.2]})
    ...     again = stored_folder(Path(place, "sweep"), {"p_jump": [0.1]})
    >>> first.name, other.name, again.name
    ('sweep', 'sweep-2', 'sweep')
    """
    folders = list(candidates(wanted))
    for folder in folders:
        if _asked(folder) == asked:
            return folder
    for folder in folders:
        if _asked(folder) is None:
            return folder
    raise InvalidParameter(f"{wanted} holds other results; give --out DIR")


def mark_asked(folder: Path, asked: Mapping[str, Any]) -> None:
    """Write down what a folder is for."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / MARK, json.dumps(asked, indent=1).encode() + b"\n")


def stores_beside(wanted: Path, folder: Path) -> list[ResultStore]:
    """Return the stores of the other folders with the wanted name or that name and a number."""
    places = [each / "store" for each in candidates(wanted) if each != folder]
    return [ResultStore(place) for place in places if place.is_dir()]


def take_over(store: ResultStore, others: Iterable[ResultStore], keys: Iterable[str]) -> None:
    """Copy results that other stores hold; their names say what they are, so they are valid."""
    for key in keys:
        source = next((each.path(key) for each in others if each.path(key).is_file()), None)
        if source is not None and not store.path(key).exists():
            store.put(key, source.read_bytes())


def take_over_all(store: ResultStore, others: Iterable[ResultStore]) -> None:
    """Copy all results of other stores."""
    for other in others:
        store.folder.mkdir(parents=True, exist_ok=True)
        for source in other.folder.glob("*.npz"):
            if not (store.folder / source.name).exists():
                shutil.copy2(source, store.folder / source.name)


def _asked(folder: Path) -> dict[str, Any] | None:
    """Return what a folder is for; empty if that is unknown, None if it holds no result."""
    try:
        if (folder / MARK).exists():
            return read_json(folder / MARK)
    except LevywalkError:
        return {}
    return {} if any((folder / name).exists() for name in _RESULTS) else None
