"""``levywalk fleet simulate``: run a whole fleet in one process, with chosen faults.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.ctrl_c import START_OVER, ends_by_ctrl_c
from levywalk.cli.finish import Json, Out
from levywalk.cli.fleet.common import (
    Tokens,
    check_times,
    read_check_updates,
    read_fleet_design,
    read_fleet_step_size,
)
from levywalk.cli.fleet.planned_faults import Faults, draw_faults, read_faults
from levywalk.cli.options import (
    AvoidAfter,
    CheckUpdates,
    DesignText,
    Dtype,
    FalseAlarm,
    Policy,
    PrivacyText,
    RenewAfter,
    Steps,
    StepSize,
    Stop,
    Then,
    UpdateText,
)
from levywalk.cli.source_options import Data, Important, SourceOptions, with_source_options

if TYPE_CHECKING:
    from levywalk.fleet.protocol.terms import HandOffTerms
    from levywalk.fleet.simulate.virtual import VirtualFleet

FOLDER = "levywalk-fleet"
SIMULATE_EXAMPLES = """Examples:

levywalk fleet simulate ring:30

levywalk fleet simulate ring:30 --steps 2000 --kill 5@1.5 --restart 5@3

levywalk fleet simulate ring:30 --kill holder@1.502 --dead-after 0.5

levywalk fleet simulate ring:30 --tokens 2 --kill 5@1.5 --restart 5@3   (two models at a time)

levywalk fleet simulate ws:30,4,0.1 --cut 0-9@2-4 --policy eager --renew-after 20

levywalk fleet simulate complete:8 --design unif_rw --step-size 0.002 --poison 5@1 \
--privacy clip=5,noise=0 --check-updates   (a node that sends false models is named and avoided)

levywalk fleet simulate ring:30 --lose-disk 5@2 --restart 5@4 --leave 7@3 --join 12@1 --random 4

A node is a number, or holder or guardian: the node that has this role at the time. \
Times are virtual seconds."""

NetworkArgument = Annotated[
    str | None,
    typer.Argument(
        help="Network: ring:30, grid:5,6, er:30,0.2, ws:30,4,0.1, …, or a network file."
    ),
]
NetworkOption = Annotated[
    str | None,
    typer.Option("--network", help="The network, spelled as for levywalk fleet init."),
]
KillOption = Annotated[
    Faults,
    typer.Option(
        "--kill", metavar="NODE@TIME", help="The process of the node dies; its disk stays."
    ),
]
RestartOption = Annotated[
    Faults, typer.Option("--restart", metavar="NODE@TIME", help="The node starts again.")
]
LoseDiskOption = Annotated[
    Faults,
    typer.Option(
        "--lose-disk",
        metavar="NODE@TIME",
        help="The process of the node dies, and its disk is lost.",
    ),
]
LeaveOption = Annotated[
    Faults,
    typer.Option(
        "--leave", metavar="NODE@TIME", help="The node leaves after handing the model over."
    ),
]
JoinOption = Annotated[
    Faults,
    typer.Option(
        "--join",
        metavar="NODE@TIME",
        help="The node takes part only from this time on, with its edges.",
    ),
]
GoneOption = Annotated[
    Faults,
    typer.Option(
        "--gone",
        metavar="NODE@TIME",
        help="The neighbours are told that the node will not come back.",
    ),
]
PoisonOption = Annotated[
    Faults,
    typer.Option(
        "--poison",
        metavar="NODE@TIME",
        help="The node sends false models from then on; see --check-updates.",
    ),
]
CutOption = Annotated[
    Faults,
    typer.Option(
        "--cut",
        metavar="NODES@FROM-TO",
        help="Nodes such as 0-9,12 are disconnected from the others.",
    ),
]
RandomOption = Annotated[
    int,
    typer.Option(
        "--random",
        metavar="N",
        min=0,
        help="Add N random faults: crashes with restart, and cuts.",
    ),
]
DeadAfterOption = Annotated[
    float,
    typer.Option("--dead-after", help="Seconds after which a silent node is considered dead."),
]
HeartbeatOption = Annotated[
    float | None,
    typer.Option(
        "--heartbeat", help="Seconds between heartbeats. Default: a tenth of --dead-after."
    ),
]
LatencyOption = Annotated[float, typer.Option("--latency", help="Seconds that a message takes.")]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the network, the data, the walk and --random.")
]
OwnKeysOption = Annotated[
    bool, typer.Option("--own-keys", help="Each node draws from its own key, as real nodes do.")
]
SignedOption = Annotated[bool, typer.Option("--signed", help="Sign every hand-off (Ed25519).")]


@ends_by_ctrl_c(START_OVER)
@with_source_options
def simulate(
    sources: SourceOptions,
    network: NetworkArgument = None,
    network_option: NetworkOption = None,
    data: Data = "heterogeneous",
    important: Important = None,
    design: DesignText = "mhlj",
    then: Then = None,
    update: UpdateText = "sgd",
    dtype: Dtype = "float64",
    steps: Steps = 2000,
    step_size: StepSize = "theory",
    stop: Stop = "steps",
    kill: KillOption = None,
    restart: RestartOption = None,
    lose_disk: LoseDiskOption = None,
    leave: LeaveOption = None,
    join: JoinOption = None,
    gone: GoneOption = None,
    poison: PoisonOption = None,
    cut: CutOption = None,
    random: RandomOption = 0,
    dead_after: DeadAfterOption = 1.0,
    heartbeat: HeartbeatOption = None,
    latency: LatencyOption = 0.001,
    renew_after: RenewAfter = 100,
    policy: Policy = "wait",
    seed: SeedOption = 0,
    own_keys: OwnKeysOption = False,
    signed: SignedOption = False,
    privacy: PrivacyText = None,
    tokens: Tokens = 1,
    check_updates: CheckUpdates = False,
    false_alarm: FalseAlarm = None,
    avoid_after: AvoidAfter = None,
    out: Out = Path(FOLDER),
    as_json: Json = False,
) -> None:
    """Run a whole fleet in one process, in virtual time and with chosen faults.

    Shows what happens to the model, and writes the timeline as a figure, the trace, and everything
    as JSON.
    """
    from levywalk import checks
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.execute import writable_folder
    from levywalk.experiments.shorthand import (
        read_network_text,
        read_problem_text,
        read_update_text,
    )
    from levywalk.fleet.setup.build import Fleet
    from levywalk.fleet.simulate.virtual import FaultKind
    from levywalk.fleet.simulate.virtual_tokens import VirtualTokens
    from levywalk.problem.problem import MODEL_TYPES

    if network is not None and network_option is not None:
        raise InvalidParameter(
            f"the network must be given once, got {network} and --network {network_option}"
        )
    network = network_option if network is None else network
    if network is None:
        raise InvalidParameter(
            "levywalk fleet simulate needs a network, such as ring:30; --help has examples"
        )
    size = read_fleet_step_size(step_size)
    graph = read_network_text(network, seed=seed, options=sources.network)
    checks.choice("--dtype", dtype, MODEL_TYPES)
    problem: Any = read_problem_text(
        data, graph, important=important, seed=seed, options=sources.data
    )
    terms = _terms(dead_after, heartbeat, latency, renew_after, policy)
    plan = Fleet.of(
        graph,
        problem.astype(dtype),
        read_fleet_design(design, then),
        steps=steps,
        step_size=size,
        seed=seed,
        shared_key=not own_keys,
        stop=stop,
        terms=terms,
        update=read_update_text(update),
        privacy=privacy,
        tokens=tokens,
        check_updates=read_check_updates(check_updates, false_alarm, avoid_after),
    )
    chosen = {
        "kill": kill,
        "restart": restart,
        "lose disk": lose_disk,
        "leave": leave,
        "join": join,
        "gone": gone,
        "poison": poison,
    }
    faults = read_faults(chosen, cut, graph.n)
    faults += draw_faults(random, plan.network.n, steps * latency * 5, dead_after, seed)
    absent = {fault.node for _, fault in faults if fault.what == FaultKind.JOIN}
    virtual = VirtualTokens(plan, signed=signed, latency=latency, absent=absent)
    for time, fault in faults:
        virtual.at(time, fault)
    folder = writable_folder(FOLDER if out is None else out)
    virtual.run()
    if tokens == 1:
        document, files = _write_results(virtual.each[0], folder)
    else:
        parts = [
            _write_results(one, writable_folder(folder / f"token-{number}"))
            for number, one in enumerate(virtual.each)
        ]
        document = {"tokens": [part for part, _ in parts]}
        files = [path for _, written in parts for path in written]
    if as_json:
        print(json.dumps(document | {"files": [str(path) for path in files]}, indent=2))
        return
    for number, one in enumerate(virtual.each):
        if tokens > 1:
            print(f"Token {number}, which starts at node {one.fleet.start}:")
        _show(document if tokens == 1 else document["tokens"][number], one)
    if plan.published.privacy is not None:
        from levywalk.privacy.privacy import SIMULATED

        print(SIMULATED)
    print("Written: " + ", ".join(str(path) for path in files))
    print(f"To draw more, in Python: lw.plot(lw.load_trace({str(files[-1])!r}), path='walk.png')")


def _terms(
    dead_after: float, heartbeat: float | None, latency: float, renew_after: int, policy: str
) -> HandOffTerms:
    """Return the rules of the hand-off."""
    from levywalk import checks
    from levywalk.errors import InvalidParameter
    from levywalk.fleet.protocol.terms import HandOffTerms

    dead_after = checks.positive("--dead-after", dead_after)
    if dead_after < 4 * checks.positive("--latency", latency):
        raise InvalidParameter(
            f"--dead-after must be at least 4 latencies, or running nodes are considered dead, "
            f"got {dead_after:g} and {latency:g}"
        )
    beat = dead_after / 10 if heartbeat is None else checks.positive("--heartbeat", heartbeat)
    check_times(beat, dead_after)
    return HandOffTerms(
        b"simulate", renew_after, policy, heartbeat=beat, dead_after=dead_after, retry=beat / 2
    )


def _write_results(virtual: VirtualFleet, folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Write the figure, the trace and the JSON; return what is in the JSON, and the files."""
    from levywalk.fleet.operate.merge import merge
    from levywalk.fleet.simulate.timeline import summary, timeline, timeline_data
    from levywalk.json_values import finite
    from levywalk.report.figures.timeline import plot_timeline

    plan, shown = virtual.fleet, timeline_data(virtual)
    found = summary(virtual)
    document: dict[str, Any] = {
        "network": plan.network.name,
        "design": plan.design.name,
        "seed": plan.seed,
        "signed": bool(virtual.signers),
        "summary": found,
        "events": [row._asdict() for row in timeline(virtual)],
    }
    title = f"{plan.network.name}, {plan.design.name}: {_in_words(found)}"
    files = [folder / name for name in ("timeline.png", "timeline.svg", "fleet.json")]
    for path in files[:2]:
        plot_timeline(
            shown.n, shown.end, shown.legs, shown.marks, shown.bars, title=title, path=path
        )
    if found["updates"] > 0:
        trace = merge(virtual.logs, plan, missing="mark")
        document["error"] = float(trace.error[0, -1]) if trace.step[0] == 0 else None
        files.append(trace.save(folder / "trace.nc"))
    document = finite(document)
    files[2].write_text(json.dumps(document, indent=2) + "\n")
    return document, files


def _in_words(found: dict[str, Any]) -> str:
    """Return the result in one sentence."""
    lost = found["lost_updates"]
    parts = [f"{found['updates']:,} updates"]
    if found["handoffs"] is not None:
        parts.append(f"{found['handoffs']:,} hand-offs")
    parts.append(f"{len(found['epochs'])} epoch{'s' if len(found['epochs']) > 1 else ''}")
    parts.append(
        "lost updates unknown"
        if lost is None
        else f"{lost or 'no'} update{'' if lost == 1 else 's'} lost"
    )
    return ", ".join(parts) + ("" if found["finished"] else "; not finished")


def _show(document: dict[str, Any], virtual: VirtualFleet) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    found = document["summary"]
    table = Table(title="what happened to the model", title_justify="left")
    for name in ("time", "node", "what happened", "updates", "hand-offs"):
        table.add_column(name, justify="left" if name == "what happened" else "right")
    for row in document["events"]:
        node = "" if row["node"] < 0 else escape(virtual.fleet.network.shown(row["node"]))
        table.add_row(
            f"{row['time']:.3f}", node, row["text"], f"{row['step']:,}", f"{row['handoffs']:,}"
        )
    Console().print(table)
    print(
        f"{_in_words(found)}; {virtual.messages:,} messages in {found['seconds']:.3g} virtual "
        "seconds."
    )
    if document.get("error") is not None:
        print(f"The error is {document['error']:.3g} of the initial one.")
    if found["missing_steps"]:
        print(
            f"The log of {found['missing_steps']:,} updates was lost with a disk; the model "
            "contains them."
        )
    if found["too_late"]:
        print(f"Too late, after the end of the walk: {', '.join(found['too_late'])}.")
    if not found["finished"]:
        print(f"The walk is not over: {found['why_not']}.")
