"""``levywalk node``, and ``levywalk fleet init``, ``up``, ``status`` and so on: nodes as processes of their own."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from levywalk.cli.finish import Json
from levywalk.cli.options import (
    DesignText,
    Important,
    Loss,
    Policy,
    RenewAfter,
    Ridge,
    SelfLoops,
    Steps,
    StepSize,
    Stop,
    Then,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from levywalk.fleet.operate.folder import FleetFolder
    from levywalk.problem import Problem

T = TypeVar("T")
Dir = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The fleet's folder, made by levywalk fleet init; or one node's node.toml."),
]
Node = Annotated[int, typer.Argument(metavar="NODE", help="The node's number.")]

_INIT = """Examples:

levywalk fleet init --network ring:8 --data heterogeneous --steps 100000 my-fleet

levywalk fleet init --network ws:30,4,0.1 --data a9a.libsvm --loss logistic --ridge 0.01 my-fleet

levywalk fleet init --network ring:8 --shared-key --seed 7 replay   (walks exactly as levywalk.run with seed 7)

levywalk fleet init --network ring:8 --for systemd my-fleet

levywalk fleet init --network ring:3 --addresses hosts.txt --data private --dim 12 --mean-smoothness 3.5
--step-size 0.02 ours   (on machines of their own, whose owners put their data.csv beside their node.toml)

Then: levywalk fleet up my-fleet"""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The new fleet's folder; must not exist, or be empty.")],
    network: Annotated[str, typer.Option("--network", help="ring:8, grid:5,6, er:30,0.2, …, or a network file.")],
    data: Annotated[
        str,
        typer.Option(
            "--data", help="heterogeneous, homogeneous, a data file, or private: it is with the nodes' owners."
        ),
    ] = "heterogeneous",
    important: Important = None,
    dim: Annotated[int | None, typer.Option("--dim", help="Of private data: how many features.")] = None,
    mean_smoothness: Annotated[
        float | None,
        typer.Option("--mean-smoothness", help="Of private data: the agreed mean of L_v (levywalk node --check)."),
    ] = None,
    loss: Loss = "least_squares",
    ridge: Ridge = 0.0,
    self_loops: SelfLoops = "none",
    design: DesignText = "mhlj",
    then: Then = None,
    steps: Steps = 100_000,
    step_size: StepSize = "theory",
    stop: Stop = "steps",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the network, the data and the start.")] = 0,
    shared_key: Annotated[
        bool, typer.Option("--shared-key", help="All nodes draw from the seed: a replay of a simulation, for tests.")
    ] = False,
    renew_after: RenewAfter = 100,
    policy: Policy = "wait",
    heartbeat: Annotated[float, typer.Option("--heartbeat", help="Seconds between signs of life.")] = 5.0,
    dead_after: Annotated[
        float, typer.Option("--dead-after", help="Seconds of silence after which a node is held dead.")
    ] = 60.0,
    host: Annotated[str, typer.Option("--host", help="What the nodes listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option("--port", help="Of node 0; the others count up. Free ones by default.")
    ] = None,
    addresses: Annotated[
        Path | None,
        typer.Option("--addresses", metavar="FILE", help="Nodes on machines of their own: a line host:port for each."),
    ] = None,
    deploy: Annotated[
        str | None, typer.Option("--for", metavar="WHAT", help="Also files for systemd, compose or kubernetes.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the fleet; the folder's name by default.")] = None,
    days: Annotated[int, typer.Option("--days", min=1, help="How long the nodes' certificates are valid.")] = 365,
) -> None:
    """Found a fleet: keys and certificates, a manifest, and a folder with its own data for each node."""
    from levywalk import checks
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.shorthand import (
        read_design_text,
        read_network_text,
        read_problem_text,
        step_size_setting,
    )
    from levywalk.fleet.protocol.terms import Terms
    from levywalk.fleet.setup.create import found
    from levywalk.fleet.setup.deploy import KINDS
    from levywalk.fleet.setup.manifest import Manifest
    from levywalk.walks import switching

    if deploy is not None:
        checks.choice("--for", deploy, KINDS)
    if dead_after < 3 * heartbeat:
        raise InvalidParameter(
            f"--dead-after must be at least 3 heartbeats of {heartbeat:g}, or the living seem dead, got {dead_after:g}"
        )
    size = step_size_setting(step_size)
    if size == "tuned":
        raise InvalidParameter("step_size must be 'theory' or a number above 0, got 'tuned'")
    graph = read_network_text(network, seed=seed, self_loops=self_loops)
    if data == "private":
        problem = _unseen(graph.n, dim, mean_smoothness, loss, ridge)
    elif dim is not None or mean_smoothness is not None:
        raise InvalidParameter(f"--dim and --mean-smoothness go with --data private, got --data {data}")
    else:
        problem = read_problem_text(data, graph.n, important=important, loss=loss, ridge=ridge, seed=seed)
    first = read_design_text(design)
    made = found(
        folder,
        graph,
        problem,
        first if then is None else switching(first, read_design_text(then)),
        steps=steps,
        step_size=size,
        name=_named(folder) if name is None else name,
        seed=seed,
        shared_key=shared_key,
        terms=Terms(b"", renew_after, policy, heartbeat=heartbeat, dead_after=dead_after, retry=min(1.0, heartbeat)),
        host=host,
        port=port,
        addresses=None if addresses is None else _lines(addresses),
        days=days,
        deploy=deploy,
        stop=stop,
    )
    manifest = Manifest.read(made / "manifest.json")
    print(f"Made {folder}: fleet {manifest.name}, {graph.name}, {graph.n} nodes, {steps:,} updates.")
    print(f"Keep {folder}/authority/ca.key to yourself: who has it can add nodes.")
    if deploy is not None:
        print(f"Next: read {folder}/INSTALL.md")
    elif addresses is not None:
        print(f"Next: move each {folder}/node-N to its machine, and there: levywalk node node-N/node.toml")
        print(f"Then, at node {manifest.start}: levywalk fleet begin node-{manifest.start}/node.toml")
    else:
        first_of_all = "put each node's data into node-N/data.csv, then " if data == "private" else ""
        print(f"Next: {first_of_all}levywalk fleet up {_typed(folder)}")


def _unseen(n: int, dim: int | None, mean_smoothness: float | None, loss: str, ridge: float) -> Problem:
    """Return a problem whose data is with the nodes' owners."""
    from levywalk.errors import InvalidParameter
    from levywalk.fleet.setup.create import Unseen

    if dim is None or mean_smoothness is None:
        raise InvalidParameter(
            "--data private needs --dim and --mean-smoothness: all nodes must agree on them, and the data is not here"
        )
    return Unseen(n, dim, mean_smoothness, loss=loss, ridge=ridge)


def _lines(path: Path) -> list[str]:
    """Return the lines of a file that hold something."""
    from levywalk.errors import InvalidParameter

    try:
        return [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"--addresses {path} cannot be read: {error}") from None


def _named(folder: Path) -> str:
    """Return a fleet's name from its folder's: small letters, digits and hyphens."""
    small = "".join(c if c.isascii() and c.isalnum() else "-" for c in folder.absolute().name.lower())
    return small[:32].strip("-") or "fleet"


_UP = """Examples:

levywalk fleet up my-fleet && levywalk fleet status my-fleet --watch

Nodes that run already are left alone, so the same command brings back those that died."""


def up(
    folder: Dir,
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help="Seconds for all nodes to answer.")] = 120.0,
) -> None:
    """Start every node that does not run, as a process of its own, and let the walk begin."""
    fleet = _open(folder)
    started = _carried_out(lambda say: fleet.up(timeout, say))
    n = len(fleet.files)
    what = f"Started {_short(started)}." if started else "All nodes were running."
    logs = fleet.log(next(iter(fleet.files))) if fleet.lone else f"{folder}/node-*/node.log"
    print(f"{what} {n} of {n} nodes run; logs are {logs}.")
    at = _typed(folder)
    if not fleet.whole:
        start = fleet.manifest.start
        where = f"here: levywalk fleet begin {at}" if start in fleet.files else "where that node is"
        print(f"Of {fleet.manifest.nodes} nodes {n} are here. The walk begins at node {start}, on your word, {where}")
    print(f"Next: levywalk fleet status {at} --watch, levywalk fleet logs {at}, levywalk fleet stop {at}")


def begin(
    place: Annotated[Path, typer.Argument(metavar="DIR|NODE.toml", help="The fleet's folder, or one node's file.")],
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help="Seconds for all edges to be up.")] = 120.0,
) -> None:
    """Let the walk of a fleet begin that something else has started: systemd, compose, kubernetes.

    levywalk fleet up does this by itself. A walk that has begun does not begin again.
    """
    from levywalk.fleet.operate.folder import begin_at

    if place.is_file():
        fresh = _carried_out(lambda say: begin_at(place, timeout, say))
    else:
        fleet = _open(place)
        fresh = _carried_out(lambda say: fleet.begin(timeout, say))
    print("The walk begins." if fresh else "The walk had begun before.")


_STATUS = """Examples:

levywalk fleet status my-fleet --watch

levywalk fleet status my-fleet --json | jq .holder

loss is the mean over nodes of each one's own loss of the model that it saw last. hops/s is the median of what nodes saw
between two visits. Nodes that are down or stopped are read from their disks."""


def status(
    folder: Dir,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between looks, with --watch.")] = 1.0,
) -> None:
    """Show where the model is, how far the walk is, and how every node is."""
    fleet = _open(folder)
    if watch and not as_json:
        _watch(fleet, every)
        return
    found = fleet.status()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    from rich.console import Console

    console = Console()
    console.print(picture(found), _table(found), markup=False, highlight=False)


def _watch(fleet: FleetFolder, every: float) -> None:
    """Show the fleet until Ctrl-C; where no terminal is, a line for each look."""
    import time

    from rich.console import Console
    from rich.live import Live

    console = Console()
    try:
        if not console.is_terminal:
            while True:
                print(_line(fleet.status()), flush=True)
                time.sleep(every)
        with Live(picture(fleet.status()), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(picture(fleet.status()), refresh=True)
    except KeyboardInterrupt:
        return


def _line(found: dict[str, Any]) -> str:
    """Return how a fleet is in a line."""
    from datetime import UTC, datetime

    where = _where(found)
    nodes = f"{found['nodes_up']} up, {found['nodes_down']} down"
    rate = _if(found["hops_per_second"], ", {:.0f} hand-offs a second")
    waits = "".join(f"; {wait}" for wait in found["waits"])
    far = f"{found['step']:,} of {found['steps']:,} updates{rate}, epoch {found['epoch']}, {found['lost_updates']} lost"
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}  {where}; {far}; {nodes}{waits}"


def _where(found: dict[str, Any]) -> str:
    if found["holder"] is None:
        return "not born yet"
    if found["finished"]:
        return f"the walk is over; it ended at node {found['holder']}"
    guardian = found["guardian"]
    return f"at node {found['holder']}" + ("" if guardian is None else f", guarded by node {guardian}")


def picture(found: dict[str, Any]) -> RenderableType:
    """Return where the model is and how far, for a terminal."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from levywalk.fleet.operate.log_text import count

    strip = Text(overflow="fold")
    for node in found["nodes"]:
        sign, style = _sign(node)
        strip.append(sign, style)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("model", _where(found))
    share = min(1.0, found["step"] / found["steps"])
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(1.0, share, width=30, complete_style="green"), f"{found['step']:,} of {found['steps']:,} updates"
    )
    facts.add_row("walk", bar)
    facts.add_row("hand-offs", f"{found['transfers']:,}" + _if(found["hops_per_second"], "  ({:.0f} a second)"))
    facts.add_row("loss", _if(found["loss"], "{:.4g}") or "–")
    facts.add_row("epoch", f"{found['epoch']}, {count(found['lost_updates'], 'update')} lost")
    facts.add_row("nodes", f"{found['nodes_up']} up, {found['nodes_down']} down")
    facts.add_row("", strip)
    facts.add_row("", Text("● holds  ◆ guards  · runs  ‖ does not answer  ✗ down", style="dim"))
    waits = [Text(f"! {wait}", style="yellow") for wait in found["waits"]]
    return Panel(Group(facts, *waits), title=found["name"], title_align="left", expand=False)


def _sign(node: dict[str, Any]) -> tuple[str, str]:
    """Return the sign of a node in the strip."""
    sign, style = {"holder": ("●", "bold green"), "guardian": ("◆", "cyan")}.get(node["role"], ("·", ""))
    if not node["up"]:
        sign, style = "✗", "red"
    elif not node["answers"]:
        sign, style = "‖", "yellow"
    return sign, f"{style} reverse" if node["role"] == "holder" else style


def _if(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _table(found: dict[str, Any]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None)
    for name in ("node", "process", "state", "epoch", "step", "edges up", "loss"):
        table.add_column(name, justify="left" if name == "state" else "right")
    for node in found["nodes"]:
        state = "down" if not node["up"] else "does not answer" if not node["answers"] else "up"
        words = [state, node["role"], "leaving" if node["leaving"] else "", "at the end" if node["finished"] else ""]
        table.add_row(
            str(node["id"]),
            str(node["pid"] or "–"),
            ", ".join(word for word in words if word),
            str(node["epoch"]),
            "–" if node["step"] is None else f"{node['step']:,}",
            f"{node['edges_up']} of {len(node['edges'])}",
            _if(node["loss"], "{:.4g}") or "–",
        )
    return table


def stop(
    folder: Dir,
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help="Seconds for a node to end.")] = 30.0,
    force: Annotated[bool, typer.Option("--force", help="Then kill those that still run; nothing is lost.")] = False,
) -> None:
    """Stop all nodes. Nothing is lost: levywalk fleet up goes on from there."""
    fleet = _open(folder)
    ended = _carried_out(lambda say: fleet.stop(timeout, force=force, say=say))
    print(f"Stopped {_short(ended)}." if ended else "No node was running.")
    if not fleet.status()["finished"]:
        print(f"Next: levywalk fleet up {_typed(folder)} goes on where the walk was.")


_LOGS = """Examples:

levywalk fleet logs my-fleet --follow

levywalk fleet logs my-fleet --node 3 --json | jq .event"""


def logs(
    folder: Dir,
    follow: Annotated[bool, typer.Option("--follow", help="Go on, until Ctrl-C.")] = False,
    node: Annotated[int | None, typer.Option("--node", help="Of one node alone.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show what the nodes have reported, in order of time (UTC)."""
    from levywalk.fleet.operate import log_book

    fleet = _open(folder)
    paths = {v: fleet.log(v) for v in (fleet.files if node is None else [node])}
    try:
        for entry in log_book.follow(paths) if follow else log_book.entries(paths):
            print(json.dumps(entry) if as_json else log_book.in_words(entry), flush=follow)
    except KeyboardInterrupt:
        return


_TRACE = """Examples:

levywalk fleet trace my-fleet --out walk.nc

and then, in Python:

import levywalk as lw; lw.plot(lw.load_trace("walk.nc"))"""


def trace(
    folder: Dir,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path("trace.nc"),
    missing: Annotated[
        str, typer.Option("--missing", help="When a disk was lost: refuse, or mark those steps and go on.")
    ] = "refuse",
) -> None:
    """Merge the nodes' logs into one trace, as a simulation writes it; also while they run."""
    from levywalk.fleet.operate import export
    from levywalk.fleet.operate.log_text import count

    fleet = _open(folder)
    found = _carried_out(lambda _: export.trace(fleet, missing=missing))
    path = found.save(out)
    about = found.provenance["fleet"]
    lost = about["lost_updates"]
    over = "" if about["stopped_at"] >= 0 else " so far"
    missed = "unknown how many" if lost is None else count(lost, "update")
    print(f"{int(found.step[-1]):,} updates{over}, {int(found.transfers[0, -1]):,} hand-offs, {missed} lost.")
    print(f"Written: {path}. In Python: import levywalk as lw; lw.plot(lw.load_trace({str(path)!r}))")


_MODEL = """Examples:

levywalk fleet model my-fleet --out model.safetensors

and then, in Python:

from safetensors.numpy import load_file; model = load_file("model.safetensors")["model"]

or without that library, as the numbers begin after 128 bytes:

import numpy as np; model = np.fromfile("model.safetensors", "<f8", offset=128)"""


def model(
    folder: Dir,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path("model.safetensors"),
    node: Annotated[int | None, typer.Option("--node", help="As that node has it.")] = None,
    now: Annotated[bool, typer.Option("--now", help="The newest on any disk, before the walk is over.")] = False,
) -> None:
    """Write the final model as safetensors: a vector named model, of 64-bit floats."""
    from levywalk.fleet.operate import export

    fleet = _open(folder)
    copy = _carried_out(lambda _: export.model(fleet, out, node=node, now=now))
    what, numbers = "final" if copy.final else "newest", len(copy.token.model)
    print(f"Written: {out}, the {what} model, of node {copy.node} after {copy.token.step:,} updates, {numbers} numbers")


def doctor(folder: Dir, as_json: Json = False) -> None:
    """Look for what is wrong or will be: files, certificates, ports, the disk, nodes, edges; each with its remedy.

    Exit code 1 if there is a problem.
    """
    from levywalk.fleet.operate.doctor import PROBLEM, examine

    findings = list(examine(folder))
    bad = sum(finding.level == PROBLEM for finding in findings)
    if as_json:
        print(json.dumps({"problems": bad, "findings": [finding._asdict() for finding in findings]}, indent=2))
    else:
        for level, what, remedy in findings:
            print(f"{level:8} {what}" + (f"\n{'':9}→ {remedy}" if remedy else ""))
    if bad:
        raise typer.Exit(1)


def gone(folder: Dir, node: Node) -> None:
    """Tell a node's neighbours that it will never come back: the walk goes on without it.

    If it held the model, its guardian brings the model back. Should it come back after all, it finds that out, and what
    it held is kept in its archive.
    """
    fleet = _open(folder)
    told, down = _carried_out(lambda _: fleet.gone(node))
    print(f"Told {_short(told)} that node {node} is gone for good.")
    if down:
        print(f"Not told, as they do not run: {_short(down)}. Say it again when they do.")


def leave(folder: Dir, node: Node) -> None:
    """Let a node leave cleanly: it passes the model on, takes no other, and takes its edges down; then stop it."""
    fleet = _open(folder)
    _carried_out(lambda _: fleet.leave(node))
    at = _typed(folder)
    print(f"Node {node} is leaving. When levywalk fleet status {at} shows none of its edges up, end its process.")


def renew(
    folder: Dir,
    node: Annotated[int | None, typer.Option("--node", help="Of one node alone.")] = None,
    days: Annotated[int, typer.Option("--days", min=1, help="How long they are valid.")] = 365,
) -> None:
    """Give the nodes new certificates, for the keys that they have; needs the fleet's authority."""
    fleet = _open(folder)
    files = _carried_out(lambda _: fleet.renew(None if node is None else [node], days))
    print(f"Renewed {len(files)} certificate{'s' if len(files) > 1 else ''}, valid for {days} days.")
    at = _typed(folder)
    print(f"Nodes take them when they start: levywalk fleet stop {at} && levywalk fleet up {at}")


NODE_EXAMPLES = """Examples:

levywalk node my-fleet/node-3/node.toml --check

levywalk node my-fleet/node-3/node.toml"""


def node(
    file: Annotated[Path, typer.Argument(metavar="NODE.toml", help="The node file.")],
    check: Annotated[
        bool, typer.Option("--check", help="Only read everything, and print what the node publishes of its data.")
    ] = False,
) -> None:
    """Run one node of a fleet in this terminal, as systemd and containers do; Ctrl-C ends it."""
    if check:
        _check(file)
        return
    from levywalk.fleet.runtime.process import ENVIRONMENT, command
    from levywalk.fleet.setup.node_file import NodeFile

    NodeFile.read(file)
    given = command(file.absolute())
    os.execve(given[0], given, os.environ | ENVIRONMENT)


def _check(path: Path) -> None:
    """Read all that a node reads when it starts."""
    from levywalk.fleet.identity.certificates import key_fingerprint
    from levywalk.fleet.identity.node_identity import Identity
    from levywalk.fleet.operate.log_text import count
    from levywalk.fleet.runtime.own_data import own_problem, scores
    from levywalk.fleet.setup.manifest import Manifest
    from levywalk.fleet.setup.node_file import NodeFile

    file = NodeFile.read(path)
    manifest = Manifest.read(file.manifest)
    identity = Identity.load(file.key, file.certificate, file.authority, node=file.id)
    problem = own_problem(manifest, file)
    degree = len(file.neighbours) + (manifest.self_loops == "counted")
    found = scores(manifest, problem, degree)
    print(f"node {file.id} of fleet {manifest.name}, {manifest.nodes} nodes; listens on {file.listen}")
    print(f"certificate valid until {identity.certificate.not_valid_after_utc:%Y-%m-%d}")
    print(f"fingerprint, for its neighbours' node files: {key_fingerprint(identity.certificate)}")
    print(f"{count(problem.samples, 'sample')} of {count(problem.dim, 'feature')}, {count(degree, 'neighbour')}")
    told = ", ".join(f"{score:.6g}" for score in found)
    print(f"L_v = {float(problem.smoothness[0]):.6g}; its neighbours learn the score {told}, and nothing of its data")


def _open(folder: Path) -> FleetFolder:
    from levywalk.fleet.operate.folder import FleetFolder

    return FleetFolder.open(folder)


def _typed(folder: Path) -> str:
    """Return a folder as it is typed."""
    return shlex.quote(str(folder))


def _short(nodes: list[int]) -> str:
    from levywalk.fleet.operate.log_text import short

    return f"node{'s' if len(nodes) > 1 else ''} {short(nodes)}"


def _carried_out(work: Callable[[Callable[[str], None]], T]) -> T:
    """Do what may take a while, and say so on a terminal; a fleet that is not as asked ends in exit code 1."""
    from levywalk.fleet.operate.folder import FleetProblem
    from levywalk.fleet.runtime.control import NoAnswer
    from levywalk.fleet.storage.errors import StoreError

    shown = sys.stderr.isatty()

    def say(text: str) -> None:
        if shown:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    try:
        return work(say)
    except (FleetProblem, NoAnswer, StoreError) as error:
        say("")
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    finally:
        say("")


def register(app: typer.Typer) -> None:
    """Add the commands to ``levywalk fleet``."""
    app.command(epilog=_INIT)(init)
    app.command(epilog=_UP)(up)
    app.command()(begin)
    app.command(epilog=_STATUS)(status)
    app.command()(stop)
    app.command(epilog=_LOGS)(logs)
    app.command(epilog=_TRACE)(trace)
    app.command(epilog=_MODEL)(model)
    for command in (doctor, gone, leave, renew):
        app.command()(command)
