"""The command line. Commands import what they need when they run, so that ``levywalk --help`` is
fast.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from levywalk.cli.compare import EXAMPLES, compare
from levywalk.cli.finish import Fresh, Json, Out, Threads, carry_out, finish
from levywalk.cli.fleet import app as fleet
from levywalk.cli.fleet.node import NODE_EXAMPLES, node
from levywalk.cli.inspect import inspect
from levywalk.cli.report import report
from levywalk.cli.reproduce import reproduce
from levywalk.cli.sweep import sweep
from levywalk.errors import LevywalkError
from levywalk.version import __version__

app = typer.Typer(
    name="levywalk",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Decentralised learning by a walking model: Metropolis-Hastings with Lévy jumps.",
)


def _version(show: bool) -> None:
    if show:
        print(f"levywalk {__version__}")
        raise typer.Exit


@app.callback()
def levywalk(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    load: Annotated[
        list[Path] | None,
        typer.Option(
            "--load",
            metavar="FILE",
            help=(
                "Run a Python file that registers designs, updates or losses of your own; "
                "can be repeated."
            ),
        ),
    ] = None,
) -> None:
    """Decentralised learning by a walking model: Metropolis-Hastings with Lévy jumps."""
    from levywalk.registry import load_file

    for file in load or []:
        load_file(file)


@app.command()
def demo(
    out: Out = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the instance and of the walks.")
    ] = 0,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """See a walk that is trapped, and how jumps help, on the paper's ring of 1000 nodes."""
    from levywalk.experiments.demo import demo as run_demo
    from levywalk.experiments.demo import demo_experiment, sentence, write_demo_report
    from levywalk.experiments.execute import writable_folder

    folder = writable_folder(out or "levywalk-demo")
    if not as_json:
        print(
            "Ring(1000), heterogeneous data with two important nodes, each method at its own tuned "
            "step size.",
            file=sys.stderr,
        )
    result = run_demo(seed, threads=threads)
    done = len(result.traces) == 4 and not result.interrupted
    finish(
        result,
        folder,
        as_json,
        spec=demo_experiment(seed),
        command="demo",
        note=sentence(result) if done else "",
        pages=lambda found: [write_demo_report(found, folder)],
    )


@app.command()
def run(
    experiment: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment file.")
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented example file and stop.")
    ] = False,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one value of the file, such as run.steps=5000; can be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Same as --set run.seed=…")
    ] = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Run an experiment file: network, problem, designs, steps, outputs.

    If it is interrupted, run the same command again to resume.
    """
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.execute import writable_folder
    from levywalk.experiments.spec import merge_overrides, read_experiment

    if example:
        print(
            Path(__file__)
            .parents[1]
            .joinpath("experiments", "example.toml")
            .read_text(encoding="utf-8"),
            end="",
        )
        return
    if experiment is None:
        raise InvalidParameter(
            "levywalk run needs an experiment file; `levywalk run --example > experiment.toml` "
            "writes one"
        )
    changes = list(override or []) + ([f"run.seed={seed}"] if seed is not None else [])
    spec = read_experiment(experiment, merge_overrides(changes))
    folder = writable_folder(out or spec.output.folder)
    carry_out(spec, experiment.parent, folder, command="run", fresh=fresh, as_json=as_json)


app.command(epilog=EXAMPLES)(compare)
app.command()(sweep)
app.command()(inspect)
app.command()(reproduce)
app.command()(report)
app.add_typer(fleet, name="fleet")
app.command(epilog=NODE_EXAMPLES)(node)


def main() -> None:
    """Run the command line; bad input gives a message and no traceback."""
    warnings.showwarning = _show_warning
    sys.argv[1:] = loads_first(sys.argv[1:])
    try:
        app(standalone_mode=True)
    except LevywalkError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None


def loads_first(arguments: list[str]) -> list[str]:
    """Return the arguments with every ``--load FILE`` before the command, wherever it was typed.

    Examples
    --------
    >>> loads_first(["run", "a.toml", "--load", "mine.py"])
    ['--load', 'mine.py', 'run', 'a.toml']
    """
    loads: list[str] = []
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--load":
            loads += ["--load", *([file] if (file := next(rest, None)) is not None else [])]
        elif argument.startswith("--load="):
            loads.append(argument)
        else:
            others.append(argument)
    return loads + others


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
