"""The folder of a result: two experiments never share one, and an interrupted one finds its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.experiments.experiment_file import may_write
from levywalk.experiments.state_files import FOLDER
from levywalk.trace.comparison_files import RESULT, read_json

if TYPE_CHECKING:
    from levywalk.experiments.spec import Experiment

MARK = "experiment.json"
_MOST = 10_000


def result_folder(wanted: str | Path, experiment: Experiment, *, writes_file: bool = False) -> Path:
    """Return the folder for an experiment's results: the wanted one, or that name with a number.

    It is the folder that holds this very experiment, finished or not; else the first one that
    holds no other result. With ``writes_file`` an experiment.toml that was changed by hand is kept,
    too.

    Examples
    --------
    >>> import tempfile
    >>> from levywalk.experiments.spec import check_experiment
    >>> parts = {"network": {"family": "ring", "n": 9}, "problem": {"data": "homogeneous"}}
    >>> first, second = (
    ...     check_experiment(
    ...         parts | {"run": {"steps": steps}, "designs": {"a": {"kind": "mhlj"}}}, "it"
    ...     )
    ...     for steps in (5, 6)
    ... )
    >>> with tempfile.TemporaryDirectory() as place:
    ...     mark(result_folder(f"{place}/out", first), first)
    ...     [result_folder(f"{place}/out", each).name for each in (first, second)]
    ['out', 'out-2']
    """
    wanted = Path(wanted)
    own = _identity(experiment.model_dump(mode="json"))
    for folder in candidates(wanted):
        if _held(folder) == own and not (writes_file and _by_hand(folder)):
            return folder
    for folder in candidates(wanted):
        if _held(folder) is None and not (writes_file and _by_hand(folder)):
            return folder
    raise InvalidParameter(f"{wanted} holds the results of another experiment; give --out DIR")


def mark(folder: Path, experiment: Experiment) -> None:
    """Write down which experiment has begun in a folder."""
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    content = experiment.model_dump(mode="json")
    (place / MARK).write_text(json.dumps(content) + "\n", encoding="utf-8")


def unmark(folder: Path) -> None:
    """Remove what `mark` wrote, and its folder if it is empty."""
    place = folder / FOLDER
    (place / MARK).unlink(missing_ok=True)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()


def candidates(wanted: Path) -> Iterator[Path]:
    """Yield the wanted folder, those with its name and a number, and one that does not exist."""
    yield wanted
    if wanted.name in ("", ".."):
        return
    for i in range(2, _MOST):
        folder = wanted.with_name(f"{wanted.name}-{i}")
        yield folder
        if not folder.exists():
            return


def _held(folder: Path) -> dict[str, Any] | None:
    """Return the identity of the experiment in a folder; empty if it is unknown, None if there is
    no result.
    """
    unfinished, finished = folder / FOLDER / MARK, folder / RESULT
    try:
        if unfinished.exists():
            return _identity(read_json(unfinished))
        if finished.exists():
            found = read_json(finished)
            return {} if "axes" in found else _identity(found.get("settings"))  # axes: of a sweep
    except LevywalkError:  # not a file of levywalk, or a damaged one
        return {}
    return {} if any((folder / FOLDER).glob("*.npz")) else None


def _identity(settings: Any) -> dict[str, Any]:
    """Return what decides a result: all settings without the output and the number of threads."""
    if not isinstance(settings, dict) or not isinstance(settings.get("run"), dict):
        return {}
    run = {key: value for key, value in settings["run"].items() if key != "threads"}
    return {key: value for key, value in settings.items() if key != "output"} | {"run": run}


def _by_hand(folder: Path) -> bool:
    """Return whether the folder has an experiment file that was written or changed by hand."""
    try:
        may_write(folder)
    except InvalidParameter:
        return True
    return False
