"""Sweeps: an experiment file with a table ``[sweep]``; every combination of its values is run,
once.

A run of a sweep is one design at one point of the grid. `compare` treats every design separately,
so the result equals that of ``levywalk run`` at that point, and a design that a swept key does not
change is run only once.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levywalk import checks
from levywalk.errors import DataWarning, DivergedWarning, InvalidData
from levywalk.experiments.execute import execute
from levywalk.experiments.spec import Experiment, check_experiment
from levywalk.extras import needs
from levywalk.json_values import finite
from levywalk.notebook import table_html
from levywalk.sweeps.grid import Axis, GridPoint, cell, read_grid, shown
from levywalk.sweeps.jobs import keys_of, run_all
from levywalk.sweeps.store import ResultStore, canonical, plain
from levywalk.sweeps.workers import Failure, JobsFailed
from levywalk.trace.csv_file import write_csv
from levywalk.trace.tables import with_interval

if TYPE_CHECKING:
    import pandas as pd

STORE = "store"
EXAMPLE = Path(__file__).with_name("example_sweep.toml")
_WORK = "levywalk.sweeps.sweep:compare_one"
_LAYOUT = 1  # version of what `compare_one` returns: results of another version are not read
_PER_RUN = (
    "seconds",
    "interrupted",
    "resumed_at",
)  # parts of the provenance that differ between equal runs


@dataclass(frozen=True)
class SweepRun:
    """One design at one point of the grid: what is computed and stored."""

    point: GridPoint
    design: str
    description: dict[str, Any]

    @property
    def name(self) -> str:
        """What error messages call the run."""
        return ", ".join(
            [*(f"{key} = {shown(value)}" for key, value in self.point.values.items()), self.design]
        )


@dataclass(frozen=True)
class Sweep:
    """A checked sweep: its axes and all points; files that it names are relative to ``folder``.

    Examples
    --------
    >>> sweep = read_sweep(EXAMPLE)
    >>> [axis.key for axis in sweep.axes], len(sweep.points)
    (['designs.MHLJ.p_jump', 'network.n', 'run.seed'], 12)
    """

    axes: tuple[Axis, ...]
    points: tuple[GridPoint, ...]
    folder: Path
    runs: tuple[SweepRun, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(_runs(self.points, self.folder)))

    def asked(self) -> dict[str, Any]:
        """Return what the sweep asks, as plain data: its axes, and a digest of all runs."""
        runs = canonical([run.description for run in self.runs])
        return {
            "sweep": {axis.key: plain(list(axis.values)) for axis in self.axes},
            "runs": hashlib.sha256(runs.encode()).hexdigest(),
        }

    def keys(self) -> list[str]:
        """Return the key of every run's result."""
        return keys_of([run.description for run in self.runs], _WORK)


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult:
    """The result of a sweep: one row per point and design, and the runs that failed.

    Attributes
    ----------
    rows
        The swept values by key, the design, the accuracy tuned for, the steps to it with a 95 %
        interval over walks, and the other columns of ``Comparison.table()``.
    """

    sweep: Sweep
    rows: list[dict[str, Any]]
    failures: tuple[Failure, ...] = ()

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        keys = ", ".join(axis.key for axis in self.sweep.axes)
        return f"SweepResult({keys}: {len(self.rows)} rows{failed})"

    def _repr_html_(self) -> str:
        lines = [
            (
                ", ".join(
                    [
                        *(f"{axis.key} = {shown(row[axis.key])}" for axis in self.sweep.axes),
                        row["design"],
                    ]
                ),
                with_interval(row["steps_to"], row["steps_to_low"], row["steps_to_high"]),
            )
            for row in self.rows
        ]
        lines += [(failure.name, f"failed: {failure.why}") for failure in self.failures]
        return table_html(lines, "Sweep: steps to the accuracy [95 % interval over walks]")

    def table(self) -> pd.DataFrame:
        """Return the rows as a table; swept tables and lists are JSON text in it."""
        with needs("frames", "SweepResult.table()", "pandas"):
            import pandas as pd

        return pd.DataFrame(self.flat_rows())

    def flat_rows(self) -> list[dict[str, Any]]:
        """Return the rows; swept tables and lists are JSON text in them."""
        keys = [axis.key for axis in self.sweep.axes]
        return [row | {key: cell(row[key]) for key in keys} for row in self.rows]

    def document(self) -> dict[str, Any]:
        """Return all numbers as plain JSON; infinity is null."""
        clean: dict[str, Any] = finite(
            {
                "axes": {axis.key: list(axis.values) for axis in self.sweep.axes},
                "rows": self.rows,
                "failures": [
                    {"run": failure.name, "why": failure.why} for failure in self.failures
                ],
                "settings": self.sweep.points[0].experiment.model_dump(mode="json"),
            }
        )
        return clean


def read_sweep(
    path: str | Path,
    *,
    network: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> Sweep:
    """Read an experiment file with a table ``[sweep]``; check every key and every value before
    anything runs.

    ``network`` and ``data`` are options that are laid over [network] and [problem].
    """
    path = checks.existing_file(path)
    axes, points = read_grid(path, network, data)
    return Sweep(axes, points, path.parent)


def _runs(points: tuple[GridPoint, ...], folder: Path) -> Iterator[SweepRun]:
    digests: dict[Path, str] = {}
    for point in points:
        experiment = point.experiment
        whole = experiment.model_dump(exclude={"output": True, "run": {"threads"}})
        files = _files(experiment, folder, digests)
        for design, section in whole["designs"].items():
            run = whole["run"]
            if isinstance(run["step_size"], dict):
                run = run | {"step_size": {design: run["step_size"][design]}}
            alone = whole | {"designs": {design: section}, "run": run}
            yield SweepRun(point, design, {"experiment": alone, "files": files, "layout": _LAYOUT})


def _files(experiment: Experiment, folder: Path, known: dict[Path, str]) -> dict[str, str]:
    """Return a digest of each file that the experiment reads: with other contents it is another
    experiment.
    """
    named = {
        "network": getattr(experiment.network, "file", None),
        "problem": getattr(experiment.problem, "file", None),
    }
    found = {}
    for section, name in named.items():
        if name is not None:
            path = checks.existing_file(folder / name)
            if path not in known:
                known[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            found[section] = known[path]
    return found


def compare_one(
    description: dict[str, Any], folder: str = "."
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compute one run of a sweep: one design at one point, on one thread."""
    content = description["experiment"]
    experiment = check_experiment(content | {"run": content["run"] | {"threads": 1}})
    if _files(experiment, Path(folder), {}) != description["files"]:
        raise InvalidData(
            f"a file in {folder!r} is not the one that the sweep was started with; restore it, or "
            f"start again"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)  # the table has their number
        warnings.simplefilter("ignore", DataWarning)  # was shown when the file was checked
        result = execute(experiment, Path(folder), progress=False)
    (name,) = experiment.designs
    trace = result.traces[name]
    arrays = {
        "step": trace.step,
        "error": trace.error,
        "excess_loss": trace.excess_loss,
        "transfers": trace.transfers,
    }
    row = result.rows[name]
    numbers = {
        "columns": [str(column) for column in row],  # in order, because JSON's keys are sorted
        "row": row,
        "trials": [asdict(trial) for trial in result.sweep[name]],
        "provenance": {
            key: value for key, value in trace.provenance.items() if key not in _PER_RUN
        },
    }
    return arrays, numbers


def run_sweep(
    sweep: Sweep,
    store: ResultStore,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> SweepResult:
    """Compute the runs of a sweep that the store lacks, and return all; the result lists runs that
    failed.

    Parameters
    ----------
    workers, scheduler, progress
        As in `levywalk.sweeps.jobs.run_all`.
    """
    failures: tuple[Failure, ...] = ()
    try:
        run_all(
            [run.description for run in sweep.runs],
            _WORK,
            store,
            workers=workers,
            scheduler=scheduler,
            progress=progress,
            names=[run.name for run in sweep.runs],
            given={"folder": str(sweep.folder.resolve())},
        )
    except JobsFailed as error:
        failures = error.failures
    failed = {failure.key for failure in failures}
    rows = []
    for run, key in zip(sweep.runs, sweep.keys(), strict=True):
        if key not in failed:
            found = store.load(key)
            assert found is not None
            rows.append(
                _row(run, {name: found.numbers["row"][name] for name in found.numbers["columns"]})
            )
    return SweepResult(sweep, rows, failures)


def _row(run: SweepRun, found: Mapping[str, Any]) -> dict[str, Any]:
    accuracy = run.point.experiment.run.accuracy
    steps = {
        f"steps_to{end}": found[f"steps_to_{accuracy:g}{end}"] for end in ("", "_low", "_high")
    }
    head = {"design": run.design, "steps": run.point.experiment.run.steps, "accuracy": accuracy}
    return run.point.values | head | steps | dict(found)


def write_sweep(swept: SweepResult, folder: Path) -> list[Path]:
    """Write table, figure and JSON; return the files."""
    output = swept.sweep.points[0].experiment.output
    written: list[Path] = []
    if output.table and swept.rows:
        written.append(write_csv(folder / "table.csv", swept.flat_rows()))
    if output.figure != "none" and swept.rows:
        from levywalk.report.figures.sweep import plot_sweep

        path = folder / f"figure.{output.figure}"
        plot_sweep(swept.rows, [axis.key for axis in swept.sweep.axes], path=path)
        written.append(path)
    (folder / "result.json").write_text(
        json.dumps(swept.document(), indent=2) + "\n", encoding="utf-8"
    )
    return [*written, folder / "result.json"]
