"""What `levywalk run`, `compare` or `demo` left in a folder, read and checked: traces, numbers, claims."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidTrace, MissingFile
from levywalk.trace import Trace
from levywalk.trace.files import load_trace

_HOW = "`levywalk run experiment.toml --out DIR` writes such a folder"
_NUMBERS = ("step_size", "relative_step_size", "final_error", "transfers_per_step", "hops_per_step")


@dataclass(frozen=True)
class Results:
    """A comparison as it is reported.

    Attributes
    ----------
    accuracy
        The relative error that step sizes were tuned for.
    rows
        By design the row of the table, as in result.json; None stands for infinity.
    traces
        By design.
    settings
        The experiment file's content, or empty.
    claims
        The claims of `levywalk reproduce`, or empty.
    command
        What was typed, where it alone gives the same results (`levywalk demo`, `levywalk compare`), or empty.
    """

    accuracy: float
    rows: dict[str, dict[str, Any]]
    traces: dict[str, Trace]
    settings: dict[str, Any] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)
    command: str = ""

    @property
    def accuracies(self) -> list[float]:
        """All accuracies that the table has steps for, the tuned one first."""
        found = {
            float(key.removeprefix("steps_to_"))
            for row in self.rows.values()
            for key in row
            if key.startswith("steps_to_") and not key.endswith(("_low", "_high"))
        }
        return sorted(found, key=lambda accuracy: (accuracy != self.accuracy, -accuracy))

    def steps_to(self, name: str, accuracy: float | None = None) -> tuple[float, float, float]:
        """Return steps to the accuracy and the ends of their interval; what is not reached is infinite."""
        key = f"steps_to_{self.accuracy if accuracy is None else accuracy:g}"
        steps, low, high = (_number(self.rows[name], key + end) for end in ("", "_low", "_high"))
        return steps, low, high


def results_of(
    document: dict[str, Any], traces: dict[str, Trace], claims: list[dict[str, Any]] | None = None
) -> Results:
    """Return the results in a document as result.json holds it; a damaged one is refused.

    Examples
    --------
    >>> results_of({"accuracy": 0.1, "designs": {"MHLJ": "fast"}}, {})
    Traceback (most recent call last):
    levywalk.errors.InvalidTrace: result.json: design 'MHLJ' has no readable numbers; the file is damaged
    """
    accuracy, rows = document.get("accuracy"), document.get("designs")
    if accuracy is None or not _is_number(accuracy) or not isinstance(rows, dict) or not rows:
        raise InvalidTrace(f"result.json has no accuracy or no designs; the file is damaged. {_HOW}")
    for name, row in rows.items():
        if not isinstance(row, dict) or not all(key in row for key in (*_NUMBERS, f"steps_to_{accuracy:g}")):
            raise InvalidTrace(f"result.json: design {name!r} has no readable numbers; the file is damaged")
        for key, value in row.items():
            if key not in ("sweep", "provenance") and not (value is None or _is_number(value)):
                raise InvalidTrace(f"result.json: {key} of {name!r} is {value!r}, not a number; the file is damaged")
            if key.startswith("steps_to_") and not _accuracy_in(key):
                raise InvalidTrace(f"result.json: {name!r} has a key {key!r} without an accuracy; the file is damaged")
    settings, command = document.get("settings"), document.get("command")
    return Results(
        float(accuracy),
        rows,
        traces,
        settings if isinstance(settings, dict) else {},
        claims or [],
        command if isinstance(command, str) else "",
    )


def read_results(folder: str | Path) -> Results | list[dict[str, Any]]:
    """Read a folder; one that holds claims.json alone gives the claims.

    Examples
    --------
    >>> read_results("nowhere")
    Traceback (most recent call last):
    levywalk.errors.MissingFile: nowhere is not a folder; `levywalk run experiment.toml --out DIR` writes such a folder
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingFile(f"{folder} is not a folder; {_HOW}")
    claims = _claims(folder / "claims.json")
    if not (folder / "result.json").exists():
        if (folder / "claims.json").exists():
            return claims
        raise MissingFile(
            f"{folder} has no result.json; `levywalk compare NETWORK --out DIR`, `levywalk run FILE.toml --out DIR` "
            "and `levywalk demo --out DIR` write one"
        )
    document = _json(folder / "result.json")
    found = results_of(document, {}, claims)
    return replace(found, traces=_traces(folder, found.rows))


def _traces(folder: Path, rows: dict[str, dict[str, Any]]) -> dict[str, Trace]:
    """Return the trace of each design; a folder may hold others, of earlier runs."""
    there = [load_trace(path) for path in sorted(folder.glob("*.nc"))]
    traces: dict[str, Trace] = {}
    for name, row in rows.items():
        named = [trace for trace in there if trace.name == name]
        if not named:
            raise MissingFile(
                f"{folder} has no trace of design {name!r} (*.nc); run again, with traces = true in [output]"
            )
        same = [trace for trace in named if trace.provenance == row.get("provenance")]
        if not same:
            raise InvalidTrace(f"{folder}: the trace of {name!r} is of another run than result.json; run again")
        traces[name] = same[0]
    return traces


def _claims(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    claims = _json(path).get("claims")
    if not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims):
        raise InvalidTrace(f"{path} has no list of claims; `levywalk reproduce --json` prints one")
    return claims


def asked_beside(folder: str | Path) -> dict[str, Any]:
    """Return how claims were asked, as claims.json tells: all that is neither a claim nor a figure.

    Examples
    --------
    >>> asked_beside("nowhere")
    {}
    """
    path = Path(folder) / "claims.json"
    told = _json(path) if path.exists() else {}
    return {name.replace("_", " "): value for name, value in told.items() if name not in ("claims", "figures")}


def figures_beside(folder: str | Path) -> dict[str, Path]:
    """Return the PNG files that claims.json names as its figures, by title; what is not in the folder is left out.

    Examples
    --------
    >>> figures_beside("nowhere")
    {}
    """
    folder = Path(folder).resolve()
    if not (folder / "claims.json").exists():
        return {}
    figures = _json(folder / "claims.json").get("figures")
    found = {}
    for figure in figures if isinstance(figures, list) else []:
        files = figure.get("files") if isinstance(figure, dict) else None
        for name in files if isinstance(files, list) else []:
            path = (folder / str(name)).resolve()
            if path.suffix == ".png" and path.is_relative_to(folder) and path.is_file():
                found[str(figure.get("title"))] = path
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MissingFile(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidTrace(f"{path} is not JSON: {error}; the file is damaged") from None
    if not isinstance(content, dict):
        raise InvalidTrace(f"{path} must hold an object, got {type(content).__name__}; the file is damaged")
    return content


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _accuracy_in(key: str) -> bool:
    try:
        return float(key.removeprefix("steps_to_").removesuffix("_low").removesuffix("_high")) > 0.0
    except ValueError:
        return False


def _number(row: dict[str, Any], key: str) -> float:
    value = row.get(key)
    return math.inf if value is None else float(value)
