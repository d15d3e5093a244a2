"""Carry out an experiment file and write what it asks for."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levywalk.errors import InvalidParameter
from levywalk.experiments.compare import Comparison, compare

if TYPE_CHECKING:
    from levywalk.experiments.spec import Experiment


def execute(
    experiment: Experiment, folder: Path, progress: bool | None = None, resume: Path | None = None
) -> Comparison:
    """Run every design of the experiment; files named in it are relative to ``folder``, ``resume`` as in `compare`."""
    network, problem, designs = experiment.build(folder)
    return compare(network, problem, designs, progress=progress, resume=resume, **experiment.run.options())


def writable_folder(path: str | Path) -> Path:
    """Create the folder for results; refuse a file of that name before any work is done."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".levywalk-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InvalidParameter(
            f"out must be a folder that can be written, got {str(folder)!r}: {error.strerror}"
        ) from None
    return folder


def write_results(
    result: Comparison,
    folder: Path,
    *,
    traces: bool = True,
    table: bool = True,
    figure: str = "png",
    settings: dict[str, Any] | None = None,
    command: str = "",
) -> list[Path]:
    """Write traces, table, figure and a JSON of everything in numbers; return the files.

    ``settings`` is the experiment file's content, ``command`` what else gives the same results.
    """
    written: list[Path] = []
    if traces:
        names = _file_names(list(result.traces))
        written += [trace.save(folder / f"{names[name]}.nc") for name, trace in result.traces.items()]
    if table:
        result.table().to_csv(folder / "table.csv")
        written.append(folder / "table.csv")
    if figure != "none":
        from levywalk.report import plot

        plot(result, path=folder / f"figure.{figure}")
        written.append(folder / f"figure.{figure}")
    document = as_json(result) | {"settings": settings or {}, "command": command}
    (folder / "result.json").write_text(json.dumps(document, indent=2) + "\n")
    return [*written, folder / "result.json"]


def as_json(result: Comparison) -> dict[str, Any]:
    """Return the comparison as plain JSON; infinity is null.

    Examples
    --------
    >>> import levywalk as lw
    >>> result = lw.compare(lw.ring(20), lw.homogeneous(20), {"a": lw.unif_rw()}, steps=9, replicas=2, step_size=0.01)
    >>> as_json(result)["designs"]["a"]["steps_to_0.01"] is None
    True
    """
    rows = result.table().to_dict(orient="index")
    designs = {
        str(name): {str(key): value for key, value in row.items()}
        | {
            "sweep": [asdict(trial) for trial in result.sweep[str(name)]],
            "provenance": result.traces[str(name)].provenance,
        }
        for name, row in rows.items()
    }
    clean: dict[str, Any] = finite({"accuracy": result.accuracy, "designs": designs})
    return clean


def found_in_words(result: Comparison) -> str:
    """Say in two sentences what was found.

    Examples
    --------
    >>> import levywalk as lw
    >>> result = lw.compare(lw.ring(20), lw.homogeneous(20), {"a": lw.unif_rw()}, steps=9, replicas=2, step_size=0.01)
    >>> found_in_words(result)
    'a did not reach 1 % of the initial error within 9 steps: ... was left.'
    """
    from levywalk.report.page.verdict import verdict
    from levywalk.report.results import results_of

    return " ".join(verdict(results_of(as_json(result), result.traces))[:2])


def finite(value: Any) -> Any:
    """Return the value with plain numbers, and None for what JSON has no number for.

    Examples
    --------
    >>> finite({"steps": math.inf, "nodes": (1, 2)})
    {'steps': None, 'nodes': [1, 2]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _file_names(names: list[str]) -> dict[str, str]:
    """Return a readable file name for each name, no two alike, not even where capitals do not count.

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
