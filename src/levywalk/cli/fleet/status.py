"""``levywalk fleet status``: show where the model is and how the nodes are."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.finish import Json
from levywalk.cli.fleet.common import ReadDir, TokenNumber, check_token, open_any_fleet
from levywalk.fleet.operate.status_text import said_diverged, said_lost, said_memory_starts
from levywalk.json_values import finite
from levywalk.printable import printable_values

if TYPE_CHECKING:
    from rich.console import RenderableType


class ShownState(StrEnum):
    """What the table says of a node."""

    UP = "up"
    FENCED = "fenced"
    DOWN = "down"
    SILENT = "does not answer"
    UNREACHED = "not reached"
    REVOKED = "revoked"
    LEAVING = "leaving"
    FINISHED = "at the end"


_NOT_UP = {
    ShownState.UNREACHED: ("?", "yellow"),
    ShownState.DOWN: ("✗", "red"),
    ShownState.SILENT: ("‖", "yellow"),
}

STATUS_EXAMPLES = """Examples:

levywalk fleet status my-fleet --watch

levywalk fleet status my-fleet --json | jq .holder

levywalk fleet status operator   (a fleet elsewhere: a copy of the folder that --operator-port made)

loss is the mean over the nodes of each node's own loss of the last model that it received; it is \
infinite once the
model has diverged (in JSON: null, and loss_is_infinite is true). \
A metric is the mean of its values on the nodes' own held-out data; it is nan if one of them is \
no number (in JSON: null). \
Hand-offs per second are
the median of what the nodes measured between two visits. The disks of nodes that are down or \
stopped are read. A fleet with privacy shows no loss, which is a function of the data, but what \
its nodes have spent, for all tokens together."""


def status(
    folder: ReadDir,
    as_json: Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update the display until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.1, help="Seconds between updates (only with --watch).")
    ] = 1.0,
    token: TokenNumber = None,
) -> None:
    """Show where the model is, how far the walk is, and the state of every node.

    With several tokens there is one line for each; --token K shows all about one of them, except ε,
    which counts the updates for all tokens.
    """
    from levywalk.fleet.operate.whole_status import whole_status

    fleet = open_any_fleet(folder)
    check_token(fleet, token)

    def look() -> dict[str, Any]:
        return whole_status(fleet) if token is None else fleet.token(token).status()

    if watch and not as_json:
        _watch(look, every)
        return
    found = look()
    if as_json:
        print(json.dumps(finite(found), indent=2, allow_nan=False))
        return
    from rich.console import Console

    console = Console()
    found = printable_values(found)
    console.print(picture(found), _table(found), markup=False, highlight=False)


def _watch(look: Callable[[], dict[str, Any]], every: float) -> None:
    """Show the fleet until Ctrl-C; without a terminal, print one line per update."""
    import time

    from rich.console import Console
    from rich.live import Live

    console = Console()
    try:
        if not console.is_terminal:
            while True:
                print("\n".join(_lines(printable_values(look()))), flush=True)
                time.sleep(every)
        first = picture(printable_values(look()))
        with Live(first, console=console, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(picture(printable_values(look())), refresh=True)
    except KeyboardInterrupt:
        return


def _lines(found: dict[str, Any]) -> list[str]:
    """Return the status of a fleet in one line for each token."""
    from datetime import UTC, datetime

    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    if "tokens" not in found:
        return [f"{when}  {_line(found)}"]
    return [f"{when}  token {one['token']} {_line(one)}" for one in each_token(found)]


def each_token(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the status of each of several tokens as that of a fleet with one token."""
    return [found | one for one in found["tokens"]]


def _line(found: dict[str, Any]) -> str:
    """Return the status of a walk in one line."""
    where = _where(found)
    nodes = _counted(found)
    rate = _if(found["hops_per_second"], ", {:.0f} hand-offs a second")
    waits = "".join(
        f"; {wait}" for wait in (*said_diverged(found), *said_memory_starts(found), *found["waits"])
    )
    far = (
        f"{found['step']:,} of {found['steps']:,} updates{rate}, epoch {found['epoch']}, "
        f"{said_lost(found)} lost"
    )
    return f"{where}; {far}; {nodes}{waits}"


def _where(found: dict[str, Any]) -> str:
    if found["holder"] is None:
        return "lost: no node can continue" if found["stopped"] else "the walk has not started"
    if found["finished"]:
        return f"the walk is over; it ended at node {_called(found, found['holder'])}"
    guardian = found["guardian"]
    return f"at node {_called(found, found['holder'])}" + (
        "" if guardian is None else f", guarded by node {_called(found, guardian)}"
    )


def _counted(found: dict[str, Any]) -> str:
    """Return how many nodes run."""
    silent = len(found.get("nodes_unreached", ()))
    more = f", {silent} not reached" if silent else ""
    return f"{found['nodes_up']} up, {found['nodes_down']} down{more}"


def _called(found: dict[str, Any], node: int) -> str:
    """Return a node's number, and its name if it has one and its file is here."""
    names = {one["id"]: one["name"] for one in found["nodes"]}
    return str(node) if names.get(node) is None else f"{node} ({names[node]!r})"


def picture(found: dict[str, Any]) -> RenderableType:
    """Return the upper part of the status, for a terminal."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    strip = Text(overflow="fold")
    for node in found["nodes"]:
        sign, style = _sign(node)
        strip.append(sign, style)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    walks = each_token(found) if "tokens" in found else [found]
    for one in walks:
        facts.add_row(f"token {one['token']}" if "tokens" in found else "model", Text(_where(one)))
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(
                1.0, min(1.0, one["step"] / one["steps"]), width=30, complete_style="green"
            ),
            f"{one['step']:,} of {one['steps']:,} updates",
        )
        facts.add_row("" if "tokens" in found else "walk", bar)
        if "tokens" in found:
            facts.add_row("", f"epoch {one['epoch']}, {said_lost(one, ' updates')} lost")
    facts.add_row(
        "hand-offs",
        f"{found['transfers']:,}" + _if(found["hops_per_second"], "  ({:.0f} a second)"),
    )
    if found.get("privacy") is None:
        facts.add_row("loss", _if(found["loss"], "{:.4g}") or "–")
    else:
        facts.add_row("privacy", Text(_privacy(found["privacy"])))
    for name, value in found["metrics"].items():
        facts.add_row(Text(name), f"{value:.4g}")
    if "tokens" not in found:
        facts.add_row("epoch", f"{found['epoch']}, {said_lost(found, ' updates')} lost")
    facts.add_row("nodes", _counted(found))
    facts.add_row("", strip)
    legend = "● holds  ◆ guards  · runs  ‖ does not answer  ✗ down"
    unreached = "  ? not reached" if "?" in strip.plain else ""
    facts.add_row("", Text(legend + unreached, style="dim"))
    said = [(f"token {one['token']}: " if "tokens" in found else "", one) for one in walks]
    waits = [
        Text(f"✗ {who}{what}", style="red") for who, one in said for what in said_diverged(one)
    ]
    forgot = [f"{who}{what}" for who, one in said for what in said_memory_starts(one)]
    waits += [
        Text(f"! {what}", style="yellow")
        for what in (*forgot, *found["waits"], *found.get("warnings", ()))
    ]
    return Panel(Group(facts, *waits), title=Text(found["name"]), title_align="left", expand=False)


def _privacy(told: dict[str, Any]) -> str:
    """Return what the fleet has spent, in words; every number with its definition."""
    spent, cap = told["epsilon_spent"], told["updates_at_cap"]
    if spent is None:  # of one token among several
        said = f"at most {cap:,} updates of each node for this token; ε counts the updates for all "
        said += "tokens: leave --token out"
    else:
        each = f", {told['updates_at_cap_of_token']:,} for each token" if "tokens" in told else ""
        said = f"ε = {spent:.4g} spent, {told['epsilon_at_cap']:.4g} at the cap of {cap:,} updates "
        said += f"of each node{each}; {told['definition']}"
    whose = "budget" if spent is not None else "share of this token"
    out = [(told["nodes_out_of_budget"], whose)]
    out += [
        (nodes, f"share of token {k}") for k, nodes in enumerate(told.get("nodes_out_of_share", ()))
    ]
    for nodes, what in out:
        if nodes:
            said += f"\n{len(nodes)} node{'s have' if len(nodes) > 1 else ' has'} spent the {what}"
    unknown = len(told["nodes_unknown"])
    if unknown:
        said += f"\n{unknown} node{'s' if unknown > 1 else ''} not known: counted as at the cap"
    return said


def _sign(node: dict[str, Any]) -> tuple[str, str]:
    """Return the symbol of a node in the row of nodes."""
    from levywalk.fleet.operate.fleet_status import NodeRole

    roles = [row["role"] for row in node.get("tokens", [node])]  # one for each token
    sign, style = "·", ""
    if NodeRole.HOLDER in roles:
        sign, style = "●", "bold green"
    elif NodeRole.GUARDIAN in roles:
        sign, style = "◆", "cyan"
    sign, style = _NOT_UP.get(_reached(node), (sign, style))
    return sign, f"{style} reverse" if NodeRole.HOLDER in roles else style


def _reached(node: dict[str, Any]) -> ShownState:
    """Return whether a node runs and answers."""
    if node.get("unreached") is not None:
        return ShownState.UNREACHED
    if not node["up"]:
        return ShownState.DOWN
    return ShownState.UP if node["answers"] else ShownState.SILENT


def _states(node: dict[str, Any], revoked: Collection[int]) -> list[str]:
    """Return all that the table says about the state of a node, with its role."""
    return [
        _reached(node),
        *([ShownState.FENCED] if node["fenced"] else []),
        *([ShownState.REVOKED] if node["id"] in revoked else []),
        *([node["role"]] if node["role"] else []),
        *([ShownState.LEAVING] if node["leaving"] else []),
        *([ShownState.FINISHED] if node["finished"] else []),
    ]


def _if(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _table(found: dict[str, Any]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    named = any(node["name"] is not None for node in found["nodes"])
    columns = ["node", *(["name"] if named else []), "process", "state"]
    measured = list(found["metrics"])
    last = ["loss"] if found.get("privacy") is None else ["updates spent", "ε spent"]
    for name in (*columns, "epoch", "step", "edges up", *last, *measured):
        table.add_column(Text(name), justify="left" if name in ("name", "state") else "right")
    for node in map(_of_all_tokens, found["nodes"]):
        table.add_row(
            str(node["id"]),
            *([Text(node["name"] or "–")] if named else []),
            str(node["pid"] or "–"),
            ", ".join(_states(node, found.get("revoked", ()))),
            str(node["epoch"]),
            node["step"] if isinstance(node["step"], str) else _number(node["step"]),
            _edges(node),
            *_loss_or_spent(node),
            *(_if(node["metrics"].get(name), "{:.4g}") or "–" for name in measured),
        )
    return table


def _edges(node: dict[str, Any]) -> str:
    """Return how many of a node's edges are up; of one that takes no part its disk cannot tell."""
    takes_part = node["up"] and not node["fenced"]
    return f"{node['edges_up']} of {len(node['edges'])}" if takes_part else "–"


def _number(step: int | None) -> str:
    return "–" if step is None else f"{step:,}"


def _of_all_tokens(node: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a node with the epochs and steps of several tokens side by side, and the
    mean of its losses.
    """
    rows = node.get("tokens")
    if rows is None:
        return node
    losses = [row["loss"] for row in rows if row["loss"] is not None]
    return node | {
        "epoch": " ".join(str(row["epoch"]) for row in rows),
        "step": " ".join(_number(row["step"]) for row in rows),
        "finished": all(row["finished"] for row in rows),
        "loss": sum(losses) / len(losses) if losses else None,
    }


def _loss_or_spent(node: dict[str, Any]) -> list[str]:
    """Return a node's loss; under privacy, which does not show it, what its budget has spent."""
    told = node.get("privacy")
    if told is None:
        return [_if(node["loss"], "{:.4g}") or "–"]
    spent, epsilon = told["updates_spent"], told["epsilon_spent"]
    of = "–" if spent is None else f"{spent:,} of {told['updates_at_cap']:,}"
    return [of, _if(epsilon, "{:.4g}") or "–"]
