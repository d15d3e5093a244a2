"""``levywalk live`` and ``levywalk explain``: pages that show walks in a browser.

Each option of `live` is a parameter, so that function is long.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.ctrl_c import START_OVER, ends_by_ctrl_c
from levywalk.cli.source_options import Data, Important, SourceOptions, with_source_options

if TYPE_CHECKING:
    from levywalk.live.server import Player

NETWORK = "grid:10,10"
EXAMPLES = """Examples:

levywalk live

levywalk live grid:20,20 --designs unif_rw,weight_rw,mhlj,iid_weighted

levywalk live my.edges --data my.csv --loss logistic --step-size 0.01

levywalk live --trace levywalk-demo/WeightRW.nc

levywalk live --fleet fleet

Ctrl-C ends it."""


@ends_by_ctrl_c(START_OVER)
@with_source_options
def live(
    sources: SourceOptions,
    network: Annotated[
        str | None,
        typer.Argument(
            help="Network: ring:100, grid:10,10, ws:500,4,0.1, …, or a network file. "
            "Default: grid:10,10."
        ),
    ] = None,
    data: Data = "heterogeneous",
    important: Important = None,
    designs: Annotated[
        str | None,
        typer.Option(
            "--designs",
            help="One to four designs, separated by commas, such as weight_rw,mhlj (the default).",
        ),
    ] = None,
    step_size: Annotated[
        str, typer.Option("--step-size", help="theory (1/L* of each design), or one number.")
    ] = "theory",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the network, the data and the walks.")
    ] = 0,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Play a recorded trace instead (.nc)."),
    ] = None,
    fleet: Annotated[
        Path | None,
        typer.Option(
            "--fleet",
            metavar="DIR",
            help="Watch a fleet instead: its folder, or an operator's folder. Nothing is changed.",
        ),
    ] = None,
    token: Annotated[
        int | None,
        typer.Option(
            "--token", metavar="K", help="Which of a fleet's tokens to watch (default: 0)."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="Address to listen at. Any but 127.0.0.1 opens the page to others."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8642,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open the page in a browser.")
    ] = True,
) -> None:
    """Watch walks side by side in the browser: one that is trapped, and one that jumps.

    The page shows at step t exactly what `levywalk run` computes.
    """
    from levywalk.errors import InvalidParameter
    from levywalk.extras import needs

    with needs("live", "levywalk live"):
        from levywalk.live.server import serve
    if trace is not None and fleet is not None:
        raise InvalidParameter("--trace and --fleet exclude each other; give one of them")
    if token is not None and fleet is None:
        raise InvalidParameter("--token needs --fleet: it chooses one of the fleet's tokens")
    if fleet is not None:
        if network is not None or designs is not None:
            raise InvalidParameter(
                "--fleet shows a fleet as it is; leave NETWORK and --designs out"
            )
        player = _fleet(fleet, token)
    elif trace is not None:
        if designs is not None:
            raise InvalidParameter("--trace plays one recorded design; leave --designs out")
        player = _trace(trace, network, sources, seed)
    else:
        player = _walks(network, data, important, designs, step_size, seed, sources)

    def ready(address: str) -> None:
        print(f"Open {address} in a browser. Ctrl-C ends it.", flush=True)
        if host not in ("127.0.0.1", "localhost", "::1"):
            print(
                "Everybody who knows this address can see and control the page; the connection is "
                "not encrypted.",
                file=sys.stderr,
            )
        screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if show and sys.stdout.isatty() and (screen or sys.platform in ("darwin", "win32")):
            webbrowser.open(address)

    serve(player, host, port, ready)


def _walks(
    network: str | None,
    data: str,
    important: int | None,
    designs: str | None,
    step_size: str,
    seed: int,
    sources: SourceOptions,
) -> Player:
    from functools import partial

    from levywalk.experiments.demo import SNR
    from levywalk.experiments.shorthand import (
        design_settings,
        network_settings,
        problem_settings,
        step_size_setting,
    )
    from levywalk.experiments.spec import check_experiment
    from levywalk.live.export import export_experiment
    from levywalk.live.session import LiveSession
    from levywalk.live.walk_player import WalkPlayer

    drawn = data in ("heterogeneous", "homogeneous")
    if network is None and data == "heterogeneous" and important is None:
        important = 1
    options = {**({"snr": SNR} if drawn else {}), **sources.data}
    sections: dict[str, Any] = {
        "network": network_settings(network or NETWORK, seed=seed, options=sources.network),
        "problem": problem_settings(data, important=important, seed=seed, options=options),
        "designs": design_settings(designs or "weight_rw,mhlj"),
    }
    size = step_size_setting(step_size, ("theory",))
    spec = check_experiment({**sections, "run": {"steps": 1, "step_size": size}}, "the command")
    graph, problem, made = spec.build(Path())
    session = LiveSession(graph, problem, made, step_size=size, seed=seed)
    print("Preparing the walks; the first time, this compiles code …", file=sys.stderr, flush=True)
    session.advance(1)  # so that nobody waits in front of a page that does not move
    session.restart(seed)
    title = f"A model walks over {graph.name}"
    return WalkPlayer(session, title, partial(export_experiment, session, sections))


def _trace(path: Path, network: str | None, sources: SourceOptions, seed: int) -> Player:
    from levywalk.experiments.shorthand import read_network_text
    from levywalk.live.playback import TraceSession, network_of
    from levywalk.live.walk_player import WalkPlayer
    from levywalk.trace.files import load_trace

    found = load_trace(path)
    graph = (
        network_of(found, path)
        if network is None
        else read_network_text(network, seed=seed, options=sources.network)
    )
    session = TraceSession(found, graph, path)
    return WalkPlayer(session, f"{session.runs[0].name} on {graph.name}, recorded")


def _fleet(folder: Path, token: int | None) -> Player:
    from levywalk.extras import needs

    with needs("fleet", "levywalk live --fleet"):
        from levywalk.live.fleet_player import FleetPlayer
    return FleetPlayer(folder, token)


@ends_by_ctrl_c(START_OVER)
def explain(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")] = Path(
        "explain.html"
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed at the start.")] = 0,
) -> None:
    """Write one HTML file in which visitors can try walks on three networks.

    It opens from disk and needs no server, so it can be used in a lecture or linked from a README.
    """
    from levywalk import checks
    from levywalk.live.explain import write_explain
    from levywalk.live.session import MOST_SEED

    written = write_explain(out, checks.integer("seed", seed, low=0, high=MOST_SEED))
    print(f"Written: {written} ({written.stat().st_size:,} bytes). Open it in a browser.")
