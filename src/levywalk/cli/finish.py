"""What `levywalk run`, `compare` and `demo` share: resuming, writing files, the table, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from levywalk.experiments.spec import Experiment
    from levywalk.trace import Comparison

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help=(
            "Folder for the results. Default: levywalk-COMMAND, or the one that the experiment "
            "file names; if that folder has other results, a number is added to its name."
        ),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Number of cores to use; default: all.")
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Start from the beginning; delete what an interrupted run left."),
]
_ROW_PER_DESIGN = 150  # columns of a terminal from which on a design is a row, and not a column

Pages = Callable[["Comparison"], list[Path]]


def carry_out(
    spec: Experiment,
    place: Path,
    folder: Path,
    *,
    command: str,
    fresh: bool,
    as_json: bool,
    ran: str = "",
    note: Callable[[Comparison], str] = lambda _: "",
    pages: Pages | None = None,
) -> None:
    """Carry out an experiment and write the results into the folder; resume what was interrupted
    there.

    ``ran`` is the command that alone gives the same results, if there is one; ``pages`` writes more
    files.
    """
    from levywalk.errors import LevywalkError, ResumeError, ResumeInUse
    from levywalk.experiments.execute import execute
    from levywalk.experiments.result_folder import mark, unmark
    from levywalk.experiments.state_files import FOLDER, StateFolder

    states = StateFolder(folder / FOLDER)
    if fresh:
        states.remove()
    elif states.exists():
        print(f"Resuming from {states.folder}. --fresh starts from the beginning.", file=sys.stderr)
    if not states.exists():
        mark(folder, spec)
    try:
        result = execute(spec, place, resume=states.folder)
    except ResumeInUse:
        raise
    except ResumeError as error:
        raise ResumeError(f"{error}; or give --fresh, or another --out") from None
    except LevywalkError:
        if not states.exists():
            unmark(folder)  # nothing was begun
        raise
    result = replace(result, command=ran)
    said = note(result)
    finish(result, folder, as_json, spec=spec, command=command, note=said, pages=pages)
    states.remove()
    unmark(folder)


def folder_for(
    out: Path | None, default: str | Path, spec: Experiment, *, writes_file: bool = False
) -> Path:
    """Return the folder of --out, or the default one if it holds no other result, or that name with
    a number.
    """
    from levywalk.experiments.execute import writable_folder
    from levywalk.experiments.result_folder import result_folder

    if out is not None:
        return writable_folder(out)
    folder = result_folder(default, spec, writes_file=writes_file)
    if folder != Path(default):
        print(f"{default} holds another result, so this one goes to {folder}.", file=sys.stderr)
    return writable_folder(folder)


def finish(
    result: Comparison,
    folder: Path,
    as_json: bool,
    *,
    spec: Experiment,
    command: str,
    note: str = "",
    pages: Pages | None = None,
) -> None:
    """Write the files and show the table."""
    from levywalk.experiments.execute import write_results

    output = spec.output
    files = write_results(
        result, folder, traces=output.traces, table=output.table, figure=output.figure
    )
    files += pages(result) if pages is not None else []
    names = [str(path) for path in files]
    private = _privacy(result)
    if as_json:
        more: dict[str, Any] = {
            "command": command,
            "seed": spec.run.seed,
            "sentence": note,
            "files": names,
            **({"privacy": private} if private else {}),
        }
        print(json.dumps(result.document() | more, indent=2))
    else:
        _show(result)
        if note:
            print(f"\n{note}")
        _show_privacy(private)
        print(f"\nSeed {spec.run.seed}. Written: " + ", ".join(names))


def _privacy(result: Comparison) -> dict[str, dict[str, Any]]:
    """Return what each design's nodes have spent, if the runs were private."""
    wanted = (
        "epsilon_spent", "epsilon_at_cap", "updates_at_cap", "nodes_out_of_budget", "accountant",
    )  # fmt: skip
    told = {name: trace.provenance.get("privacy") for name, trace in result.traces.items()}
    return {name: {key: said[key] for key in wanted} for name, said in told.items() if said}


def _show_privacy(private: dict[str, dict[str, Any]]) -> None:
    from levywalk.privacy.privacy import SIMULATED

    for name, said in private.items():
        print(
            f"\n{name}: ε spent {said['epsilon_spent']:.3g} (by {said['accountant']}), and "
            f"{said['epsilon_at_cap']:.3g} at the cap of {said['updates_at_cap']} updates per "
            f"node, which {said['nodes_out_of_budget']} nodes reached."
        )
    if private:
        print(SIMULATED)


def _show(result: Comparison) -> None:
    """Print the table: a row per design if the terminal is wide enough, else a column per
    design.
    """
    from rich.console import Console
    from rich.table import Table

    from levywalk.trace.tables import comparison_text, title_text

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a table that goes into a file is not narrowed
    headers, rows = comparison_text(result)
    narrow = console.width < _ROW_PER_DESIGN
    if narrow:
        broken = [[cell.replace(" [", "\n[").replace(" (", "\n(") for cell in row] for row in rows]
        headers, *rows = [list(line) for line in zip(headers, *broken, strict=True)]
    table = Table(title=title_text(result), title_justify="left", show_lines=narrow)
    for i, header in enumerate(headers):
        table.add_column(header, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)
