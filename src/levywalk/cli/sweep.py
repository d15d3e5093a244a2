"""``levywalk sweep``: an experiment over a grid of values.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.ctrl_c import RESUME, ends_by_ctrl_c
from levywalk.cli.finish import Json, Out
from levywalk.cli.options import Scheduler, Workers
from levywalk.cli.source_options import SourceOptions, with_source_options

if TYPE_CHECKING:
    from levywalk.sweeps.store import ResultStore
    from levywalk.sweeps.sweep import Sweep, SweepResult

_MOST_ROWS = 100


File = Annotated[
    Path | None,
    typer.Argument(metavar="EXPERIMENT.toml", help="An experiment file with a table [sweep]."),
]
Example = Annotated[
    bool, typer.Option("--example", help="Print a commented example file and stop.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and print what would be run.")
]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh", help="Compute all runs of this sweep again, also those that are stored."
    ),
]


@ends_by_ctrl_c(RESUME)
@with_source_options
def sweep(
    sources: SourceOptions,
    experiment: File = None,
    example: Example = False,
    out: Out = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
    dry_run: DryRun = False,
    fresh: FreshOption = False,
) -> None:
    """Run an experiment for every combination of the values in its sweep table.

    If it is interrupted, run the same command again to resume.
    """
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.execute import writable_folder
    from levywalk.sweeps.pools import ClusterError
    from levywalk.sweeps.store import ResultStore, ResultStoreError
    from levywalk.sweeps.stored_folders import (
        mark_asked,
        stored_folder,
        stores_beside,
        take_over,
    )
    from levywalk.sweeps.sweep import EXAMPLE, STORE, read_sweep, run_sweep, write_sweep

    if example:
        print(EXAMPLE.read_text(encoding="utf-8"), end="")
        return
    if experiment is None:
        raise InvalidParameter(
            "levywalk sweep needs a file; `levywalk sweep --example > sweep.toml` writes one"
        )
    if workers is not None and scheduler is not None:
        raise InvalidParameter(f"give --workers or --scheduler, got {workers} and {scheduler!r}")
    grid = read_sweep(experiment, network=sources.network, data=sources.data)
    wanted = Path(grid.points[0].experiment.output.folder)
    folder = out or stored_folder(wanted, grid.asked())
    if folder.exists() and not folder.is_dir():
        raise InvalidParameter(f"--out must be a folder, got the file {str(folder)!r}")
    store = ResultStore(folder / STORE)
    beside = stores_beside(wanted, folder) if out is None else []
    missing = [
        key
        for key in _missing(grid, store, fresh)
        if fresh or not any(other.has(key) for other in beside)
    ]
    if dry_run:
        _print_plan(grid, store, missing, as_json)
        return
    if out is None and folder != wanted:
        print(f"{wanted} holds another sweep, so this one goes to {folder}.", file=sys.stderr)
    writable_folder(folder)
    mark_asked(folder, grid.asked())
    if not fresh:
        take_over(store, beside, dict.fromkeys(grid.keys()))
    if fresh:
        for key in missing:
            store.remove(key)
    _say(grid, missing)
    try:
        swept = run_sweep(grid, store, workers=workers, scheduler=scheduler)
    except KeyboardInterrupt:
        left = len(_missing(grid, store, fresh=False))
        raise KeyboardInterrupt(f"{left} runs are left.") from None
    except (ResultStoreError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    files = write_sweep(swept, folder)
    if as_json:
        print(
            json.dumps(
                swept.document() | {"command": "sweep", "files": [str(path) for path in files]},
                indent=2,
            )
        )
    else:
        _show(swept)
        print("\nWritten: " + ", ".join(str(path) for path in [*files, store.folder]))
    if swept.failures:
        print(f"error: {len(swept.failures)} runs failed; the others are stored:", file=sys.stderr)
        for failure in swept.failures:
            print(f"  {failure.name}: {failure.why}", file=sys.stderr)
        raise typer.Exit(1)


def _missing(grid: Sweep, store: ResultStore, fresh: bool) -> list[str]:
    """Return the distinct keys that are to be computed."""
    return [key for key in dict.fromkeys(grid.keys()) if fresh or not store.has(key)]


def _say(grid: Sweep, missing: list[str]) -> None:
    different = len(set(grid.keys()))
    stored = f", {different - len(missing)} of them stored" if len(missing) < different else ""
    designs = len(grid.points[0].experiment.designs)
    print(
        f"{len(grid.points)} points, {designs} designs: {different} different runs{stored}",
        file=sys.stderr,
    )


def _print_plan(grid: Sweep, store: ResultStore, missing: list[str], as_json: bool) -> None:
    """Print what would be run."""
    runs: list[dict[str, Any]] = [
        run.point.values | {"design": run.design, "stored": key not in missing}
        for run, key in zip(grid.runs, grid.keys(), strict=True)
    ]
    if as_json:
        print(
            json.dumps(
                {"points": len(grid.points), "to_compute": len(missing), "runs": runs}, indent=2
            )
        )
        return
    for run, row in zip(grid.runs, runs, strict=True):
        print(f"{run.name}{'  (stored)' if row['stored'] else ''}")
    print(
        f"{len(grid.points)} points, {len(missing)} different runs to compute, results in "
        f"{store.folder.parent}"
    )


def _show(swept: SweepResult) -> None:
    """Print the table in words."""
    from rich.console import Console
    from rich.table import Table

    from levywalk.sweeps.grid import shown
    from levywalk.trace.tables import with_interval

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    keys = [axis.key for axis in swept.sweep.axes]
    table = Table(title="steps to the accuracy [95 % interval over walks]", title_justify="left")
    for header in (*keys, "design"):
        table.add_column(header, overflow="fold")
    for header in ("accuracy", "γL*", "steps", "transfers per step"):
        table.add_column(header, justify="right", overflow="fold")
    for row in swept.rows[:_MOST_ROWS]:
        steps = with_interval(row["steps_to"], row["steps_to_low"], row["steps_to_high"])
        numbers = [f"{100 * row['accuracy']:g} %", f"{row['relative_step_size']:.2g}", steps]
        table.add_row(
            *[shown(row[key]) for key in keys],
            row["design"],
            *numbers,
            f"{row['transfers_per_step']:.2f}",
        )
    console.print(table, markup=False)
    if len(swept.rows) > _MOST_ROWS:
        print(f"… and {len(swept.rows) - _MOST_ROWS} more rows in table.csv")
