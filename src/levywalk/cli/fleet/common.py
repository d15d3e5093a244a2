"""What the fleet commands share: their arguments, and how they open a fleet and report errors."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from levywalk.printable import printable

if TYPE_CHECKING:
    from levywalk.fleet.operate.any_fleet import AnyFleet
    from levywalk.fleet.operate.folder import FleetFolder
    from levywalk.walks import Walk


T = TypeVar("T")
Dir = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="The fleet's folder, created by levywalk fleet init; or the node.toml of one node.",
    ),
]
ReadDir = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="The fleet's folder, created by levywalk fleet init; the node.toml of one node; or an "
        "operator's folder, for a fleet elsewhere.",
    ),
]
Tokens = Annotated[
    int,
    typer.Option(
        "--tokens",
        metavar="M",
        help="Number of models that walk at the same time; with --privacy they share the budget of "
        "each node.",
    ),
]
TokenNumber = Annotated[
    int | None,
    typer.Option(
        "--token", metavar="K", help="Number of the token, from 0 on; default: all tokens."
    ),
]
NodeNumber = Annotated[int, typer.Argument(metavar="NODE", help="Number of the node.")]


def open_fleet(folder: Path) -> FleetFolder:
    """Return the fleet in a folder."""
    from levywalk.fleet.operate.folder import FleetFolder

    return FleetFolder.open(folder)


def open_any_fleet(folder: Path) -> AnyFleet:
    """Return the fleet in a folder, or the one elsewhere that an operator's folder names."""
    from levywalk.fleet.operate import any_fleet

    return any_fleet.open_any_fleet(folder)


def check_token(fleet: AnyFleet, token: int | None) -> None:
    """Refuse the number of a token that the fleet does not have."""
    from levywalk.errors import InvalidParameter

    count = fleet.manifest.tokens
    if token is not None and not 0 <= token < count:
        has = "has one token" if count == 1 else f"has {count} tokens"
        must = "0" if count == 1 else f"from 0 to {count - 1}"
        raise InvalidParameter(f"--token must be {must}, because the fleet {has}, got {token}")


def shell_quoted(folder: Path) -> str:
    """Return a folder as it must be typed in a shell."""
    return shlex.quote(str(folder))


def node_list(nodes: list[int]) -> str:
    """Return some nodes in words, such as nodes 3, 5-7."""
    from levywalk.fleet.operate.log_text import short

    return f"node{'s' if len(nodes) > 1 else ''} {short(nodes)}"


def were_told(nodes: list[int]) -> str:
    """Return the beginning of a sentence about nodes that were told something."""
    return f"{node_list(nodes).capitalize()} {'were' if len(nodes) > 1 else 'was'} told"


def carried_out(work: Callable[[Callable[[str], None]], T]) -> T:
    """Do some work, with progress on a terminal. A problem of the fleet ends with exit code 1."""
    from levywalk.fleet.operate.node_processes import FleetProblem
    from levywalk.fleet.runtime.control import NoAnswer
    from levywalk.fleet.storage.errors import NodeStoreError

    shown = sys.stderr.isatty()

    def say(text: str) -> None:
        if shown:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    try:
        return work(say)
    except (FleetProblem, NoAnswer, NodeStoreError) as error:
        say("")
        print(f"error: {printable(str(error), lines=True)}", file=sys.stderr)
        raise typer.Exit(1) from None
    finally:
        say("")


def check_times(heartbeat: float, dead_after: float) -> None:
    """Refuse a time of silence so short that running nodes would be considered dead."""
    from levywalk.errors import InvalidParameter

    if dead_after < 3 * heartbeat:
        raise InvalidParameter(
            f"--dead-after must be at least 3 heartbeats of {heartbeat:g}, or running "
            f"nodes are considered dead, got {dead_after:g}"
        )


def read_check_updates(
    asked: bool, alarm: float | None, avoid_after: int | None
) -> dict[str, float | int] | None:
    """Return what the options say about comparing models; None if guardians compare nothing.

    Examples
    --------
    >>> read_check_updates(True, None, 5)
    {'avoid_after': 5}
    """
    from levywalk.errors import InvalidParameter

    given = {
        name: value
        for name, value in {"alarm": alarm, "avoid_after": avoid_after}.items()
        if value is not None
    }
    if given and not asked:
        raise InvalidParameter("--false-alarm and --avoid-after need --check-updates; add it")
    return given if asked else None


def read_fleet_step_size(text: str) -> str | float:
    """Return the step size of a fleet, which can be given or computed but not tuned."""
    from levywalk.experiments.shorthand import step_size_setting

    return step_size_setting(text, ("theory",))


def read_fleet_design(design: str, then: str | None) -> Walk:
    """Return the design of a fleet, which may switch to a second one."""
    from levywalk.experiments.shorthand import read_design_text
    from levywalk.walks import switching

    first = read_design_text(design)
    return first if then is None else switching(first, read_design_text(then))
