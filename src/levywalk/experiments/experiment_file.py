"""Experiment files that `levywalk compare` writes, so that a user can change them and run them."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.experiments.shorthand import files_seen_from
from levywalk.experiments.spec import Experiment, check_experiment
from levywalk.report.experiment_toml import toml

FILE = "experiment.toml"
_CHECKPOINTS = 1000
_WALKS_UP_TO = (
    25_000_000  # updates of a design (100 MB); of longer walks the nodes are not recorded
)
_SEAL = "# levywalk compare overwrites this file unless it was edited; seal "


def written_experiment(
    *,
    network: dict[str, Any],
    problem: dict[str, Any],
    designs: dict[str, dict[str, Any]],
    run: dict[str, Any],
    folder: Path,
) -> tuple[dict[str, Any], Experiment]:
    """Return the settings of an experiment file in the folder, and the experiment that they give.

    There are a thousand checkpoints, and walks are recorded unless they are very long.

    Examples
    --------
    >>> parts = {"network": {"family": "ring", "n": 9}, "problem": {"data": "homogeneous"}}
    >>> run = {"steps": 5000, "replicas": 2, "threads": None}
    >>> settings, _ = written_experiment(
    ...     **parts, designs={"a": {"kind": "mhlj"}}, run=run, folder=Path("out")
    ... )
    >>> settings["run"]
    {'steps': 5000, 'replicas': 2, 'record_every': 5, 'record_walk': True}
    """
    more = {
        "record_every": max(1, run["steps"] // _CHECKPOINTS),
        "record_walk": run["steps"] * run["replicas"] <= _WALKS_UP_TO,
    }
    settings = {
        "network": files_seen_from(folder, network),
        "problem": files_seen_from(folder, problem),
        "run": {key: value for key, value in (run | more).items() if value is not None},
        "designs": designs,
        "output": {"folder": str(folder)},
    }
    return settings, check_experiment(settings, "the comparison")


def changed_experiment(content: dict[str, Any], place: Path, folder: Path) -> dict[str, Any]:
    """Return the settings of an experiment file at ``place``, as a file in ``folder`` has them.

    Examples
    --------
    >>> content = {"network": {"family": "file", "file": "my.edges"}, "problem": {"data": "x"}}
    >>> changed_experiment(content, Path("a"), Path("a/out"))["network"]["file"]
    '../my.edges'
    """
    settings = dict(content)
    for part in ("network", "problem"):
        section = content[part]
        if "file" in section:
            settings[part] = files_seen_from(
                folder, section | {"file": str(place / section["file"])}
            )
    return settings | {"output": {**content.get("output", {}), "folder": str(folder)}}


def may_write(folder: Path) -> None:
    """Refuse to overwrite an experiment file that was written or changed by hand."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else None
    except (OSError, UnicodeDecodeError):
        text = ""
    seal, _, body = ("" if text is None else text).partition("\n")
    if text is not None and seal.rpartition(" ")[2] != _digest(body):
        raise InvalidParameter(
            f"{path} was written or changed by hand and would be overwritten; give another --out, "
            f"or run it: "
            f"levywalk run {shlex.quote(str(path))}"
        )


def write_experiment(settings: dict[str, Any], folder: Path, command: str) -> Path:
    """Write the experiment file, with the command that made it, and a seal that shows whether it
    was changed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_experiment({"run": {"steps": 9}}, Path(folder), "levywalk compare ring:9")
    ...     may_write(Path(folder))
    ...     print(path.read_text().splitlines()[-1])
    steps = 9
    """
    path = folder / FILE
    where = shlex.quote(str(path))
    told = " ".join(command.splitlines())
    body = (
        f"# {told}\n"
        f"# For the same result: levywalk run {where}. For another, change it and: levywalk run "
        f"{where} --out DIR\n"
        "# All settings, with comments: levywalk run --example\n\n"
        f"{toml(settings)}\n"
    )
    path.write_text(_sealed(body), encoding="utf-8")
    return path


def _sealed(body: str) -> str:
    return f"{_SEAL}{_digest(body)}\n{body}"


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]
