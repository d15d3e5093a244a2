"""Comparisons as folders: one netCDF file per trace, table.csv, and result.json with all
numbers.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter, InvalidTrace, MissingFile
from levywalk.json_values import finite
from levywalk.trace.comparison import Comparison, Trial
from levywalk.trace.csv_file import write_csv
from levywalk.trace.files import load_trace
from levywalk.trace.ranking import Criterion
from levywalk.trace.trace import Trace

RESULT = "result.json"
_LONGEST = 64 << 20  # bytes of a JSON file
_HOW = "`levywalk run experiment.toml --out DIR` writes such a folder"
_NUMBERS = ("step_size", "relative_step_size", "transfers_per_step", "hops_per_step")
_NOT_NUMBERS = ("loss_measured", "busiest_name", "sweep", "provenance", "metric")
_TRIAL = tuple(field.name for field in fields(Trial))


def document_of(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as the content of result.json, without settings and command."""
    designs = {}
    for name, row in comparison.rows.items():
        designs[name] = row | {
            "sweep": [asdict(trial) for trial in comparison.sweep[name]],
            "provenance": comparison.traces[name].provenance,
        }
        if name in comparison.final_metric:
            designs[name]["metric"] = comparison.final_metric[name]
    document: dict[str, Any] = {"accuracy": comparison.accuracy, "designs": designs}
    if comparison.rank_by != Criterion.DISTANCE2:
        document["rank_by"] = comparison.rank_by
    clean: dict[str, Any] = finite(document)
    return clean


def save_comparison(
    comparison: Comparison, folder: str | Path, *, traces: bool = True, table: bool = True
) -> list[Path]:
    """Write a comparison into a folder; return the files, result.json last."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(
            f"folder must be a folder that can be written, got {str(folder)!r}: {error.strerror}"
        ) from None
    written: list[Path] = []
    if traces:
        names = _file_names(list(comparison.traces))
        written += [
            trace.save(folder / f"{names[name]}.nc") for name, trace in comparison.traces.items()
        ]
    if table:
        rows = ({"design": name} | row for name, row in comparison.rows.items())
        written.append(write_csv(folder / "table.csv", rows))
    more = {"settings": comparison.settings, "command": comparison.command}
    text = json.dumps(document_of(comparison) | more, indent=2) + "\n"
    (folder / RESULT).write_text(text, encoding="utf-8")
    return [*written, folder / RESULT]


def load_comparison(folder: str | Path) -> Comparison:
    """Read a folder that `save_comparison` wrote, and check it.

    Examples
    --------
    >>> load_comparison("nowhere")
    Traceback (most recent call last):
    levywalk.errors.MissingFile: nowhere is not a folder;
        `levywalk run experiment.toml --out DIR` ...
    """
    folder = require_folder(folder)
    if not (folder / RESULT).exists():
        raise MissingFile(
            f"{folder} has no {RESULT}; `levywalk compare NETWORK --out DIR`, "
            "`levywalk run FILE.toml --out DIR` and `levywalk demo --out DIR` write one"
        )
    document = read_json(folder / RESULT)
    accuracy, rank_by, rows = _checked(document)
    settings, command = document.get("settings"), document.get("command")
    return Comparison(
        traces=_traces(folder, rows),
        accuracy=accuracy,
        step_size={name: float(row["step_size"]) for name, row in rows.items()},
        sweep={name: _sweep(name, row.get("sweep", [])) for name, row in rows.items()},
        rank_by=rank_by,
        final_metric=_final_metric(rank_by, rows),
        settings=settings if isinstance(settings, dict) else {},
        command=command if isinstance(command, str) else "",
    )


def require_folder(folder: str | Path) -> Path:
    """Return the folder; refuse a path that is none."""
    folder = Path(folder)
    if not checks.exists(folder) or not folder.is_dir():
        raise MissingFile(f"{folder} is not a folder; {_HOW}")
    return folder


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; refuse a file that cannot be read or is damaged."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LONGEST + 1)
        if len(raw) > _LONGEST:
            raise InvalidTrace(
                f"{path} is longer than the limit of {_LONGEST >> 20} MiB; is it the right file?"
            )
        content = json.loads(raw.decode("utf-8"))
    except OSError as error:
        raise MissingFile(f"{path} cannot be read: {error.strerror}") from None
    except InvalidTrace:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidTrace(f"{path} is not JSON: {error}; the file is damaged") from None
    if not isinstance(content, dict):
        raise InvalidTrace(
            f"{path} must hold an object, got {type(content).__name__}; the file is damaged"
        )
    return content


def _checked(document: dict[str, Any]) -> tuple[float | None, str, dict[str, dict[str, Any]]]:
    """Return accuracy, rank_by and the rows by design; refuse a document that holds no such
    things.
    """
    rows = document.get("designs")
    rank_by = document.get("rank_by", Criterion.DISTANCE2.value)
    accuracy = document.get("accuracy")
    relative = rank_by in (Criterion.DISTANCE2, Criterion.EXCESS_LOSS)
    known = _is_number(accuracy) or (accuracy is None and not relative)
    if not known or not isinstance(rank_by, str) or not isinstance(rows, dict) or not rows:
        raise InvalidTrace(f"{RESULT} has no accuracy or no designs; the file is damaged. {_HOW}")
    final = "final_error" if rank_by == Criterion.DISTANCE2 else f"final_{rank_by}"
    needed = [*_NUMBERS, final, *([] if accuracy is None else [f"steps_to_{accuracy:g}"])]
    for name, row in rows.items():
        if not isinstance(row, dict) or not all(key in row for key in needed):
            raise InvalidTrace(
                f"{RESULT}: design {name!r} has no readable numbers; the file is damaged"
            )
        for key, value in row.items():
            nothing = value is None and key != "step_size"
            if key not in _NOT_NUMBERS and not (nothing or _is_number(value)):
                raise InvalidTrace(
                    f"{RESULT}: {key} of {name!r} is {value!r}, not a number; the file is damaged"
                )
            if key.startswith("steps_to_") and not _names_an_accuracy(key, relative):
                raise InvalidTrace(
                    f"{RESULT}: {name!r} has a key {key!r} without an accuracy; the file is damaged"
                )
    return None if accuracy is None else float(accuracy), rank_by, rows


def _sweep(name: str, trials: Any) -> tuple[Trial, ...]:
    try:
        found = [
            Trial(*(math.inf if trial[key] is None else float(trial[key]) for key in _TRIAL))
            for trial in trials
        ]
        if not all(0.0 <= trial.share <= 1.0 for trial in found):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise InvalidTrace(
            f"{RESULT}: the sweep of {name!r} cannot be read; the file is damaged"
        ) from None
    return tuple(found)


def _final_metric(rank_by: str, rows: dict[str, dict[str, Any]]) -> dict[str, Floats]:
    if rank_by in list(Criterion):
        return {}
    try:
        return {
            name: np.array([math.inf if value is None else float(value) for value in row["metric"]])
            for name, row in rows.items()
        }
    except (KeyError, TypeError, ValueError):
        raise InvalidTrace(f"{RESULT} lacks the values of {rank_by!r}; it is damaged") from None


def _traces(folder: Path, rows: dict[str, dict[str, Any]]) -> dict[str, Trace]:
    """Return the trace of each design; a folder may also hold traces of earlier runs."""
    there = [load_trace(path) for path in sorted(folder.glob("*.nc"))]
    traces: dict[str, Trace] = {}
    for name, row in rows.items():
        named = [trace for trace in there if trace.name == name]
        if not named:
            raise MissingFile(
                f"{folder} has no trace of design {name!r} (*.nc); "
                "run again, with traces = true in [output]"
            )
        same = [trace for trace in named if trace.provenance == row.get("provenance")]
        if not same:
            raise InvalidTrace(
                f"{folder}: the trace of {name!r} belongs to another run than {RESULT}; run again"
            )
        largest = same[0].provenance.get("largest_weighted_smoothness", "")
        if largest is not None and not _is_number(largest):
            raise InvalidTrace(f"{folder}: the trace of {name!r} has no smoothness; it is damaged")
        traces[name] = same[0]
    return traces


def _file_names(names: list[str]) -> dict[str, str]:
    """Return a readable file name for each name; no two are alike, also where capitals do not
    count.

    Examples
    --------
    >>> _file_names(["WeightRW", "a b", "a-b"])
    {'WeightRW': 'WeightRW', 'a b': 'a-b', 'a-b': 'a-b-2'}
    """
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "design"
        candidates = (plain if i == 1 else f"{plain}-{i}" for i in itertools.count(1))
        found[name] = next(each for each in candidates if each.lower() not in taken)
        taken.add(found[name].lower())
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _names_an_accuracy(key: str, relative: bool) -> bool:
    text = key.removeprefix("steps_to_").removesuffix("_low").removesuffix("_high")
    try:
        return float(text) > 0.0 or not relative
    except ValueError:
        return False
