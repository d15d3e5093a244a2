"""The command line. Commands import what they need when they run, so that ``levywalk --help`` is
fast.

Each option of `run` is a parameter, so that function is long.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.compare import EXAMPLES, compare
from levywalk.cli.ctrl_c import RESUME, START_OVER, ends_by_ctrl_c
from levywalk.cli.doctor import doctor
from levywalk.cli.finish import Fresh, Json, Out, Threads, carry_out, finish, folder_for
from levywalk.cli.fleet import app as fleet
from levywalk.cli.fleet.node import NODE_EXAMPLES, node
from levywalk.cli.inspect import inspect
from levywalk.cli.league import league
from levywalk.cli.live import EXAMPLES as LIVE_EXAMPLES
from levywalk.cli.live import explain, live
from levywalk.cli.loaded_files import error_of_loaded_file
from levywalk.cli.options import CostsText, MetricsText, PrivacyText, RankBy, typed_command
from levywalk.cli.privacy import PRIVACY_EXAMPLES, privacy
from levywalk.cli.report import report, write_on_one_core
from levywalk.cli.reproduce import reproduce
from levywalk.cli.source_options import SourceOptions, with_source_options
from levywalk.cli.sweep import sweep
from levywalk.errors import LevywalkError
from levywalk.printable import printable
from levywalk.version import __version__

if TYPE_CHECKING:
    from levywalk.trace import Comparison

app = typer.Typer(
    name="levywalk",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Decentralised learning by a walking model: Metropolis-Hastings with Lévy jumps.",
)


_ANYWHERE = ("--load", "--max-file-size")  # options that may stand before or after the command
_ASCII = "levywalk_ascii"
_PLAIN = {
    "γ": "gamma", "μ": "mu", "σ": "sigma", "π": "pi", "τ": "tau", "λ": "lambda", "é": "e",
    "…": "...", "–": "-", "—": "-", "−": "-", "×": "x", "·": "*", "²": "^2", "³": "^3", "‖": "||",
    "≤": "<=", "≥": ">=", "≈": "~", "→": "->", "±": "+-", "∞": "inf", "½": "1/2", "’": "'",
    "“": '"', "”": '"', "‘": "'", "✓": "yes", "✗": "no", "│": "|", "─": "-", "━": "-", "┃": "|",
}  # fmt: skip


def _version(show: bool) -> None:
    if show:
        print(f"levywalk {__version__}")
        raise typer.Exit


@app.callback()
@ends_by_ctrl_c(START_OVER)
def levywalk(
    context: typer.Context,
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
    max_file_size: Annotated[
        str | None,
        typer.Option(
            "--max-file-size",
            metavar="SIZE",
            help="Largest size of a file after decompression, such as 500M or 8G; default: 1G.",
        ),
    ] = None,
) -> None:
    """Decentralised learning by a walking model: Metropolis-Hastings with Lévy jumps."""
    from levywalk.cli.notices import show_notices
    from levywalk.contents import VARIABLE, size_of_text
    from levywalk.registry import load_file
    from levywalk.remedy import command_line

    if max_file_size is not None:  # in the environment, so that worker processes know it as well
        os.environ[VARIABLE] = str(size_of_text(max_file_size))
    context.with_resource(command_line())
    context.with_resource(show_notices())
    for file in load or []:
        load_file(file)


@app.command(short_help="See a walk that is trapped, and how jumps help.")
@ends_by_ctrl_c(START_OVER)
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
    from levywalk.experiments.one_lap import lap_sentence, one_lap, write_one_lap

    folder = folder_for(out, "levywalk-demo", demo_experiment(seed))
    if not as_json:
        print(
            "Ring(1000), heterogeneous data with two important nodes, signal to noise 33,000, each "
            "method at its own tuned step size.",
            file=sys.stderr,
        )
    result = run_demo(seed, threads=threads)
    lap = one_lap(result, threads)
    finish(
        result,
        folder,
        as_json,
        spec=demo_experiment(seed),
        command="demo",
        note=f"{sentence(result)}\n{lap_sentence(lap)}",
        pages=lambda found: [
            write_one_lap(found, lap, folder),
            write_demo_report(found, folder),
        ],
    )


@app.command(short_help="Run an experiment file, and write a report.")
@ends_by_ctrl_c(RESUME)
@with_source_options
def run(
    context: typer.Context,
    sources: SourceOptions,
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
    costs: CostsText = None,
    metrics: MetricsText = None,
    rank_by: RankBy = None,
    privacy: PrivacyText = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Run an experiment file: network, problem, designs, steps, outputs; and write a report.

    If it is interrupted, run the same command again to resume.
    """
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.experiment_file import (
        changed_experiment,
        may_write,
        write_experiment,
    )
    from levywalk.experiments.folder_report import PAGE
    from levywalk.experiments.overrides import merge_overrides, merged
    from levywalk.experiments.shorthand import metric_names
    from levywalk.experiments.sources import with_options
    from levywalk.experiments.spec import check_experiment, read_toml

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
    named = None if metrics is None else json.dumps(metric_names(metrics))
    given = {"seed": seed, "costs": costs, "metrics": named, "rank_by": rank_by}
    given |= {"privacy": None if privacy is None else json.dumps(privacy)}
    changes = list(override or []) + [f"run.{k}={v}" for k, v in given.items() if v is not None]
    content = merged(read_toml(experiment)[0], merge_overrides(changes))
    content = with_options(content, sources.network, sources.data)
    spec = check_experiment(content, str(experiment))
    spec.run.options()  # refuses a wrong update or wrong costs before anything is written
    # Options and --set make another experiment than the file's; it is written beside its results.
    changed = bool(changes or sources.network or sources.data)
    if changed and out is not None:
        may_write(out)
    folder = folder_for(out, spec.output.folder, spec, writes_file=changed)

    def pages(found: Comparison) -> list[Path]:
        written = write_on_one_core(found, folder / PAGE)
        if changed:
            settings = changed_experiment(content, experiment.parent, folder)
            written.append(write_experiment(settings, folder, typed_command(context)))
        return written

    carry_out(
        spec,
        experiment.parent,
        folder,
        command="run",
        fresh=fresh,
        as_json=as_json,
        pages=pages,
    )


app.command(epilog=EXAMPLES, short_help="Compare designs, each at its tuned step size.")(compare)
app.command(short_help="Run an experiment for every point of a grid of values.")(sweep)
app.command(short_help="Judge a network before a run: what to use, and why.")(inspect)
app.command(epilog=PRIVACY_EXAMPLES, short_help="Estimate the cost of privacy before a run.")(
    privacy
)
app.command(short_help="Check the claims of the paper, and draw its figures.")(reproduce)
app.command(short_help="Compare pairs of a walk and an update.")(league)
app.command(short_help="Write a folder of results as one HTML page.")(report)
app.command(epilog=LIVE_EXAMPLES, short_help="Watch walks live in the browser.")(live)
app.command(short_help="Write a page on which visitors can try walks.")(explain)
app.command(short_help="Check this installation.")(doctor)
app.add_typer(fleet, name="fleet")
app.command(epilog=NODE_EXAMPLES, short_help="Run one node of a fleet in this terminal.")(node)


def main() -> None:
    """Run the command line; bad input gives a message and no traceback."""
    print_everywhere()
    warnings.showwarning = _show_warning
    sys.argv[1:] = loads_first(sys.argv[1:])
    try:
        app(standalone_mode=True)
    except LevywalkError as error:
        told = with_options_named(str(error), sys.argv[1:])
        print(f"error: {printable(told, lines=True)}", file=sys.stderr)
        raise SystemExit(2) from None
    except MemoryError as error:
        told = f": {error}" if str(error) else ""
        print(f"error: there is not enough memory{told}; take smaller sizes", file=sys.stderr)
        raise SystemExit(2) from None
    except Exception as error:
        wrong = error_of_loaded_file(error)
        if wrong is None:
            raise
        print(f"error: {printable(wrong, lines=True)}", file=sys.stderr)
        raise SystemExit(2) from None
    except SystemExit as end:
        # typer ends without a word if Ctrl-C meets it before or between the commands.
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            print("Interrupted. Run the same command again.", file=sys.stderr)
        raise


def with_options_named(message: str, arguments: list[str]) -> str:
    """Return an error about an argument with the name of the option that was typed for it.

    Examples
    --------
    >>> with_options_named("dead_after must be above 0, got -1", ["--dead-after", "-1"])
    '--dead-after must be above 0, got -1'
    >>> with_options_named("p_jump must be in [0, 1], got 2", ["--design", "mhlj:p_jump=2"])
    'p_jump must be in [0, 1], got 2'
    """
    found = re.match(r"(?:\[\w+\] )?([a-z]\w*) must ", message)
    if found is None:
        return message
    option = f"--{found[1].replace('_', '-')}"
    typed = {argument.partition("=")[0] for argument in arguments}
    return f"{option} must {message[found.end() :]}" if option in typed else message


def loads_first(arguments: list[str]) -> list[str]:
    """Return the arguments with ``--load FILE`` and ``--max-file-size SIZE`` before the command,
    wherever they were typed.

    Examples
    --------
    >>> loads_first(["run", "a.toml", "--load", "mine.py"])
    ['--load', 'mine.py', 'run', 'a.toml']
    """
    first: list[str] = []
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in _ANYWHERE:
            first += [argument, *([value] if (value := next(rest, None)) is not None else [])]
        elif argument.startswith(tuple(f"{option}=" for option in _ANYWHERE)):
            first.append(argument)
        else:
            others.append(argument)
    return first + others


def print_everywhere() -> None:
    """Print letters that the terminal does not know in other words, such as gamma, or as ``?``."""
    codecs.register_error("levywalk", _replaced)
    codecs.register(_renamed_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            ascii_only = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_ASCII if ascii_only else None, errors="levywalk")


def _renamed_ascii(name: str) -> codecs.CodecInfo | None:
    """Return ASCII under another name: where a stream says "ascii", typer prints UTF-8 instead."""
    if name != _ASCII:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        name=_ASCII,
        encode=known.encode,
        decode=known.decode,
        incrementalencoder=known.incrementalencoder,
        incrementaldecoder=known.incrementaldecoder,
        streamreader=known.streamreader,
        streamwriter=known.streamwriter,
    )


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in letters), error.end


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    from levywalk.cli.notices import show_warning

    show_warning(str(message))


if __name__ == "__main__":
    main()
