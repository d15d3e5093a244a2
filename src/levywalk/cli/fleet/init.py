"""``levywalk fleet init``: create a fleet.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.fleet.common import (
    Tokens,
    check_times,
    read_check_updates,
    read_fleet_design,
    read_fleet_step_size,
    shell_quoted,
)
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
from levywalk.cli.source_options import Important, SourceOptions, with_source_options

if TYPE_CHECKING:
    from levywalk.fleet.protocol.terms import HandOffTerms
    from levywalk.fleet.setup.manifest import Manifest
    from levywalk.problem import Problem

INIT_EXAMPLES = """Examples:

levywalk fleet init --network ring:8 --data heterogeneous --steps 100000 my-fleet

levywalk fleet init --network ws:30,4,0.1 --data a9a.libsvm --loss logistic --ridge 0.01 my-fleet

levywalk fleet init --network ring:8 --shared-key --seed 7 replay   (makes the same walk as \
levywalk.run with seed 7)

levywalk fleet init --network ring:8 --data a9a.libsvm --loss logistic --dtype float32 my-fleet   \
(models of 4 bytes per number)

levywalk fleet init --network ring:8 --tokens 2 my-fleet   (two models walk at the same time)

levywalk fleet init --network ring:8 --for systemd my-fleet

levywalk fleet init --network ring:8 --design unif_rw --step-size 0.002 \
--privacy clip=5,noise=20,budget=2 my-fleet   (clipped gradients with noise; docs/privacy.md)

levywalk fleet init --network ring:8 --design unif_rw --step-size 0.002 \
--privacy clip=5,noise=20,budget=2 --check-updates my-fleet   (guardians refuse false models)

levywalk fleet init --network ring:3 --addresses hosts.txt --data private --dim 12 \
--mean-smoothness 3.5
--step-size 0.02 ours   (each node on its own machine, whose owner puts data.csv beside node.toml)

levywalk fleet init --network ring:8 --model my_model.py:build --data my_shards/ --held-out 0.2 \
--design unif_rw --update adam:minibatch=16 --step-size 0.01 my-fleet   (a model of your own: \
every node builds it from the file, which you install there, and measures it on its own data)

Then: levywalk fleet up my-fleet"""


FolderArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder of the new fleet; it must not exist, or be empty."),
]
NetworkOption = Annotated[
    str,
    typer.Option(
        "--network",
        help="Network: ring:8, grid:5,6, er:30,0.2, …, or a network file.",
    ),
]
DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        help=(
            "Data of the nodes: heterogeneous, homogeneous, a data file, private (only the owners "
            "have it), or with --model a folder with one file per node (node-0.npz, node-1.csv, …)."
        ),
    ),
]
DimOption = Annotated[
    int | None, typer.Option("--dim", help="Number of features (only with --data private).")
]
MeanSmoothnessOption = Annotated[
    float | None,
    typer.Option(
        "--mean-smoothness",
        help="Agreed mean of L_v (only with --data private; see levywalk node --check).",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the network, the data and the start node.")
]
SharedKeyOption = Annotated[
    bool,
    typer.Option(
        "--shared-key",
        help="All nodes draw from the seed, so that the walk is that of a simulation (for tests).",
    ),
]
HeartbeatOption = Annotated[float, typer.Option("--heartbeat", help="Seconds between heartbeats.")]
DeadAfterOption = Annotated[
    float,
    typer.Option("--dead-after", help="Seconds after which a silent node is considered dead."),
]
HostOption = Annotated[
    str, typer.Option("--host", help="Host or IP address that the nodes listen on.")
]
PortOption = Annotated[
    int | None,
    typer.Option("--port", help="Port of node 0; node i listens on port + i. Default: free ports."),
]
AddressesOption = Annotated[
    Path | None,
    typer.Option(
        "--addresses",
        metavar="FILE",
        help="For nodes on several machines: a file with one line host:port per node.",
    ),
]
DeployOption = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="WHAT", help="Also write the files for systemd, compose or kubernetes."
    ),
]
OperatorPortOption = Annotated[
    int | None,
    typer.Option(
        "--operator-port",
        min=0,
        max=65535,
        help="Port at which operators on other machines may query the nodes, with DIR/operator as "
        "their folder; nodes on one host use the ports after it, and 0 means free ports. "
        "Default: none.",
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Name of the fleet. Default: the name of the folder.")
]
DaysOption = Annotated[
    int, typer.Option("--days", min=1, help="Days for which the nodes' certificates are valid.")
]


ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="FILE:FUNCTION",
        help=(
            "A model of your own: a Python file with build(features, targets, node=None) that "
            "returns a problem. It is never sent: install it at every node, which checks its hash."
        ),
    ),
]
ScoresOption = Annotated[
    Path | None,
    typer.Option(
        "--scores",
        metavar="FILE",
        help=(
            "One number per node and line for weighted designs, if the model does not state its "
            "smoothness (only with --model)."
        ),
    ),
]


@with_source_options
def init(
    sources: SourceOptions,
    folder: FolderArgument,
    network: NetworkOption,
    data: DataOption = "heterogeneous",
    important: Important = None,
    dim: DimOption = None,
    mean_smoothness: MeanSmoothnessOption = None,
    design: DesignText = "mhlj",
    then: Then = None,
    update: UpdateText = "sgd",
    dtype: Dtype = "float64",
    model: ModelOption = None,
    scores: ScoresOption = None,
    steps: Steps = 100_000,
    step_size: StepSize = "theory",
    stop: Stop = "steps",
    seed: SeedOption = 0,
    shared_key: SharedKeyOption = False,
    renew_after: RenewAfter = 100,
    policy: Policy = "wait",
    heartbeat: HeartbeatOption = 5.0,
    dead_after: DeadAfterOption = 60.0,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    addresses: AddressesOption = None,
    deploy: DeployOption = None,
    operator_port: OperatorPortOption = None,
    name: NameOption = None,
    days: DaysOption = 365,
    privacy: PrivacyText = None,
    tokens: Tokens = 1,
    check_updates: CheckUpdates = False,
    false_alarm: FalseAlarm = None,
    avoid_after: AvoidAfter = None,
) -> None:
    """Create a fleet: write the keys, the certificates, the manifest and one data folder \
per node.
    """
    from levywalk import checks
    from levywalk.cli.fleet.own_model import own_model, print_model
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.shorthand import (
        read_network_text,
        read_problem_text,
        read_update_text,
    )
    from levywalk.fleet.setup.create import create
    from levywalk.fleet.setup.deploy import KINDS
    from levywalk.problem.problem import MODEL_TYPES
    from levywalk.problem.sparse_features import is_sparse

    checks.choice("--dtype", dtype, MODEL_TYPES)
    if deploy is not None:
        checks.choice("--for", deploy, KINDS)
    terms = _terms(renew_after, policy, heartbeat, dead_after)
    size = read_fleet_step_size(step_size)
    graph = read_network_text(network, seed=seed, options=sources.network)
    if model is not None:
        if dim is not None or mean_smoothness is not None or important is not None:
            raise InvalidParameter(
                "--dim, --mean-smoothness and --important cannot be used with --model"
            )
        if dtype != "float64":
            raise InvalidParameter(
                f"--dtype {dtype} cannot be used with --model, whose problem has its own "
                "dtype; set it in the file"
            )
        problem: Problem = own_model(model, data, graph, sources.data, scores, seed)
    elif sources.data.get("held_out") is not None or scores is not None:
        raise InvalidParameter("--held-out and --scores need --model FILE:FUNCTION")
    elif data == "private":
        problem = _private(graph.n, dim, mean_smoothness, sources.data, dtype)
    elif dim is not None or mean_smoothness is not None:
        raise InvalidParameter(
            f"--dim and --mean-smoothness go with --data private, got --data {data}"
        )
    else:
        samples: Any = read_problem_text(
            data, graph, important=important, seed=seed, options=sources.data
        )
        problem = samples.astype(dtype)
    create(
        folder,
        graph,
        problem,
        read_fleet_design(design, then),
        steps=steps,
        step_size=size,
        name=_named(folder) if name is None else name,
        seed=seed,
        shared_key=shared_key,
        terms=terms,
        host=host,
        port=port,
        addresses=None if addresses is None else _lines(addresses),
        days=days,
        deploy=deploy,
        operator_port=operator_port,
        stop=stop,
        update=read_update_text(update),
        privacy=privacy,
        tokens=tokens,
        check_updates=read_check_updates(check_updates, false_alarm, avoid_after),
    )
    if model is not None:
        print_model(folder)
    if is_sparse(getattr(problem, "features", None)):
        _print_dense_model(folder)
    _print_next_steps(
        folder, deploy, several_machines=addresses is not None, private=data == "private"
    )


def _terms(renew_after: int, policy: str, heartbeat: float, dead_after: float) -> HandOffTerms:
    """Return the rules of the hand-off."""
    from levywalk.fleet.protocol.terms import HandOffTerms

    check_times(heartbeat, dead_after)
    retry = min(1.0, heartbeat)
    return HandOffTerms(
        b"", renew_after, policy, heartbeat=heartbeat, dead_after=dead_after, retry=retry
    )


def _print_dense_model(folder: Path) -> None:
    """Say how large the model is, which is dense although the samples are sparse."""
    from levywalk.fleet.setup.manifest import Manifest

    published = Manifest.read(folder / "manifest.json").published
    size = published.method.token_bytes
    recorded = -(-published.steps // published.record_every) * published.method.itemsize
    print(
        f"The samples of each node are sparse. The model is dense: {published.dim:,} numbers, "
        f"{size / 2**10:,.0f} KiB in each hand-off, and at most "
        f"{recorded * published.dim / 2**20:,.1f} MiB of recorded models on all disks together."
    )


def _print_next_steps(
    folder: Path, deploy: str | None, *, several_machines: bool, private: bool
) -> None:
    """Say what was created, and what to do next."""
    from levywalk.fleet.setup.manifest import Manifest

    manifest = Manifest.read(folder / "manifest.json")
    steps = manifest.published.steps
    print(
        f"Created {folder}: fleet {manifest.name}, {manifest.network}, {manifest.nodes} nodes, "
        f"{_tokens_of(manifest)}{steps:,} updates."
    )
    print(f"Keep {folder}/authority secret: ca.key adds nodes, and operator.key revives a walk.")
    bound = manifest.published.privacy
    if bound is not None:
        each = "" if bound.tokens == 1 else f", {bound.cap:,} for each token"
        print(
            f"Privacy: each node makes at most {bound.whole_cap:,} updates{each}, and ε is at most "
            f"{bound.privacy.epsilon(bound.whole_cap):.4g}: {bound.privacy.definition}. Keep no "
            "copy of a node's folder from before its first start: budget.json says that nothing "
            "is spent."
        )
    check = manifest.published.check
    if check is not None:
        print(
            "Guardians compare models: one that clipped updates cannot have made is refused, and "
            f"its sender is avoided after {check.avoid_after}."
        )
        if bound is None:
            print("There is a clip and no noise: nothing is private.")
    if (folder / "operator").is_dir():
        print(
            f"Operators elsewhere need a copy of {folder}/operator: levywalk fleet status operator"
        )
    if deploy is not None:
        print(f"Next: read {folder}/INSTALL.md")
    elif several_machines:
        print(
            f"Next: move each {folder}/node-N to its machine, and run there: levywalk node "
            "node-N/node.toml"
        )
        for start in sorted(set(manifest.starts or (manifest.start,))):
            where = f"node-{start}/node.toml"
            print(f"Then, on the machine of node {start}: levywalk fleet begin {where}")
    else:
        data = "put each node's data into node-N/data.csv, then " if private else ""
        print(f"Next: {data}levywalk fleet up {shell_quoted(folder)}")


def _tokens_of(manifest: Manifest) -> str:
    """Return how many tokens there are, and where they start."""
    if manifest.tokens == 1:
        return ""
    starts = ", ".join(map(str, manifest.starts))
    return f"{manifest.tokens} tokens, which start at nodes {starts}, each with "


def _private(
    n: int, dim: int | None, mean_smoothness: float | None, given: dict[str, Any], dtype: str
) -> Problem:
    """Return a problem whose data only the nodes' owners have."""
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.shorthand import loss_recipe
    from levywalk.experiments.sources import DATA_OPTIONS
    from levywalk.fleet.setup.create import PrivateProblem

    if dim is None or mean_smoothness is None:
        raise InvalidParameter(
            "--data private needs --dim and --mean-smoothness: all nodes must agree on them, "
            "and the data is not available here"
        )
    strange = [DATA_OPTIONS[key] for key in given if key not in ("loss", "ridge")]
    if strange:
        raise InvalidParameter(
            f"{', '.join(strange)} cannot be used with --data private, whose data only the "
            "owners have; leave them out"
        )
    loss, ridge = loss_recipe(given.get("loss", "least_squares")), given.get("ridge", 0.0)
    return PrivateProblem(n, dim, mean_smoothness, loss=loss, ridge=ridge, dtype=dtype)


def _lines(path: Path) -> list[str]:
    """Return the lines of a file that are not empty."""
    from levywalk import checks
    from levywalk.errors import InvalidParameter

    checks.existing_file(path)
    try:
        return [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        why = "is no text" if isinstance(error, UnicodeDecodeError) else f": {error.strerror}"
        raise InvalidParameter(f"--addresses {path} cannot be read{why}") from None


def _named(folder: Path) -> str:
    """Return a fleet's name made from its folder's name: small letters, digits and hyphens."""
    small = "".join(
        c if c.isascii() and c.isalnum() else "-" for c in folder.absolute().name.lower()
    )
    return small[:32].strip("-") or "fleet"
