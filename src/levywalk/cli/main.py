"""The command line. Commands load what they need when they run, so that ``levywalk --help`` answers at once."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.inspect import inspect
from levywalk.cli.report import report
from levywalk.cli.reproduce import reproduce
from levywalk.cli.sweep import sweep
from levywalk.errors import LevywalkError
from levywalk.version import __version__

if TYPE_CHECKING:
    from levywalk.experiments import Comparison

app = typer.Typer(
    name="levywalk",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Decentralised learning by a walking model: Metropolis-Hastings with Lévy jumps.",
)

Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the results; made if missing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON alone to stdout.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Cores to use; all by default.")]
_GOES_ON = "goes on where it stopped"


def _version(show: bool) -> None:
    if show:
        print(f"levywalk {__version__}")
        raise typer.Exit


@app.callback()
def levywalk(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decentralised learning by a walking model: Metropolis-Hastings with Lévy jumps."""


@app.command()
def demo(
    out: Out = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another instance and other walks.")] = 0,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """See a walk get trapped and a jump set it free: the paper's ring of 1000 nodes, in under a minute."""
    from levywalk.experiments.demo import demo as run_demo
    from levywalk.experiments.demo import sentence, write_demo_report
    from levywalk.experiments.execute import writable_folder

    folder = writable_folder(out or "levywalk-demo")
    if not as_json:
        print(
            "Ring(1000), heterogeneous data with two important nodes, every method at its own tuned step size.",
            file=sys.stderr,
        )
    result = run_demo(seed, threads=threads)
    done = len(result.traces) == 4 and not _interrupted(result)
    note = sentence(result) if done else ""
    page = write_demo_report(result, folder, seed)
    _finish(result, folder, as_json, note=note, command="demo", seed=seed, more=[page])


@app.command()
def run(
    experiment: Annotated[Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment file.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a commented example file and stop.")] = False,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change one value of the file, e.g. run.steps=5000; can be repeated."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same as --set run.seed=…")] = None,
    out: Out = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start afresh: drop what an interrupted run left.")] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment file: network, problem, designs, steps, outputs. Interrupted, the same command goes on."""
    from levywalk.errors import InvalidParameter, ResumeError, ResumeInUse
    from levywalk.experiments.execute import execute, writable_folder
    from levywalk.experiments.spec import merge_overrides, read_experiment
    from levywalk.experiments.unfinished import FOLDER, Unfinished

    if example:
        print(Path(__file__).parents[1].joinpath("experiments", "example.toml").read_text(encoding="utf-8"), end="")
        return
    if experiment is None:
        raise InvalidParameter(
            "levywalk run needs an experiment file; `levywalk run --example > experiment.toml` writes one"
        )
    changes = list(override or []) + ([f"run.seed={seed}"] if seed is not None else [])
    spec = read_experiment(experiment, merge_overrides(changes))
    folder = writable_folder(out or spec.output.folder)
    unfinished = Unfinished(folder / FOLDER)
    if fresh:
        unfinished.remove()
    elif unfinished.found():
        print(f"going on from {unfinished.folder}; --fresh starts afresh", file=sys.stderr)
    try:
        result = execute(spec, experiment.parent, resume=unfinished.folder)
    except ResumeInUse:
        raise
    except ResumeError as error:
        raise ResumeError(f"{error}; or give --fresh, or another --out") from None
    except KeyboardInterrupt:
        print(f"interrupted: the same command {_GOES_ON}", file=sys.stderr)
        raise typer.Exit(130) from None
    _finish(
        result,
        folder,
        as_json,
        command="run",
        seed=spec.run.seed,
        traces=spec.output.traces,
        table=spec.output.table,
        figure=spec.output.figure,
        settings=spec.model_dump(mode="json"),
    )
    unfinished.remove()


app.command()(sweep)
app.command()(inspect)
app.command()(reproduce)
app.command()(report)


def _interrupted(result: Comparison) -> bool:
    return any(trace.provenance["interrupted"] for trace in result.traces.values())


def _finish(
    result: Comparison,
    folder: Path,
    as_json: bool,
    *,
    command: str,
    seed: int,
    note: str = "",
    traces: bool = False,
    table: bool = True,
    figure: str = "png",
    settings: dict[str, Any] | None = None,
    more: Sequence[Path] = (),
) -> None:
    """Write the files and show the table; what was done before Ctrl-C is kept."""
    from levywalk.experiments.execute import as_json as to_json
    from levywalk.experiments.execute import write_results

    files = write_results(result, folder, traces=traces, table=table, figure=figure, settings=settings)
    files += more
    if as_json:
        document = to_json(result) | {
            "command": command,
            "seed": seed,
            "sentence": note,
            "files": [str(path) for path in files],
        }
        print(json.dumps(document, indent=2))
    else:
        _show(result)
        if note:
            print(f"\n{note}")
        print(f"\nSeed {seed}. Written: " + ", ".join(str(path) for path in files))
    if _interrupted(result):
        hint = f"; the same command {_GOES_ON}" if command == "run" else ""
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
    table = Table(
        title=f"steps to a share of the initial error [95 % interval over walks]; tuned to {100 * result.accuracy:g} %",
        title_justify="left",
        show_lines=console.width < 150,
    )
    for i, header in enumerate(headers):
        table.add_column(header, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)


def main() -> None:
    """Run the command line; no traceback reaches a user for bad input."""
    warnings.showwarning = _show_warning
    try:
        app(standalone_mode=True)
    except LevywalkError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
