"""What `levywalk run`, `compare` and `demo` share: going on after an interruption, files, the table, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from levywalk.experiments import Comparison
    from levywalk.experiments.spec import Experiment

Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the results; made if missing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON alone to stdout.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Cores to use; all by default.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start afresh: drop what an interrupted run left.")]
_GOES_ON = "the same command goes on where it stopped"


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
    pages: Callable[[], list[Path]] | None = None,
) -> None:
    """Carry out an experiment and write it into the folder; what an interrupted one left there is gone on from."""
    from levywalk.errors import ResumeError, ResumeInUse
    from levywalk.experiments.execute import execute
    from levywalk.experiments.state_files import FOLDER, StateFolder

    unfinished = StateFolder(folder / FOLDER)
    if fresh:
        unfinished.remove()
    elif unfinished.found():
        print(f"going on from {unfinished.folder}; --fresh starts afresh", file=sys.stderr)
    try:
        result = execute(spec, place, resume=unfinished.folder)
    except ResumeInUse:
        raise
    except ResumeError as error:
        raise ResumeError(f"{error}; or give --fresh, or another --out") from None
    except KeyboardInterrupt:
        print(f"interrupted: {_GOES_ON}", file=sys.stderr)
        raise typer.Exit(130) from None
    hint = f"; {_GOES_ON}"
    said = note(result)
    finish(result, folder, as_json, spec=spec, command=command, note=said, ran=ran, pages=pages, hint=hint)
    unfinished.remove()


def interrupted(result: Comparison) -> bool:
    """Return whether Ctrl-C ended it."""
    return any(trace.provenance["interrupted"] for trace in result.traces.values())


def finish(
    result: Comparison,
    folder: Path,
    as_json: bool,
    *,
    spec: Experiment,
    command: str,
    note: str = "",
    ran: str = "",
    pages: Callable[[], list[Path]] | None = None,
    hint: str = "",
) -> None:
    """Write the files and show the table; what was done before Ctrl-C is kept.

    ``ran`` is what was typed, where it alone gives the same results; ``pages`` writes what is made of the files.
    """
    from levywalk.experiments.execute import as_json as to_json
    from levywalk.experiments.execute import write_results

    output, settings = spec.output, spec.model_dump(mode="json")
    files = write_results(
        result,
        folder,
        traces=output.traces,
        table=output.table,
        figure=output.figure,
        settings=settings,
        command=ran,
    )
    files += pages() if pages is not None else []
    names = [str(path) for path in files]
    if as_json:
        document: dict[str, Any] = {"command": command, "seed": spec.run.seed, "sentence": note, "files": names}
        print(json.dumps(to_json(result) | document, indent=2))
    else:
        _show(result)
        if note:
            print(f"\n{note}")
        print(f"\nSeed {spec.run.seed}. Written: " + ", ".join(names))
    if interrupted(result):
        print(f"interrupted: the results above are of what was done until then{hint}", file=sys.stderr)
        raise typer.Exit(130)


def _show(result: Comparison) -> None:
    """Print the table: a row per design where there is room, else a column per design."""
    from rich.console import Console
    from rich.table import Table

    from levywalk.report.tables import comparison_text

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a table that is piped into a file is not squeezed
    headers, rows = comparison_text(result.table())
    if console.width < 150:
        broken = [[cell.replace(" [", "\n[").replace(" (", "\n(") for cell in row] for row in rows]
        headers, *rows = [list(line) for line in zip(headers, *broken, strict=True)]
    how = f"tuned to {100 * result.accuracy:g} %" if any(result.sweep.values()) else "step sizes given, not tuned"
    table = Table(
        title=f"steps to a share of the initial error [95 % interval over walks]; {how}",
        title_justify="left",
        show_lines=console.width < 150,
    )
    for i, header in enumerate(headers):
        table.add_column(header, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)
