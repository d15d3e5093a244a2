"""Options that several commands share: a walk, the terms of a hand-off, workers.

Those about the network and the data are in `levywalk.cli.source_options`.
"""

from __future__ import annotations

import shlex
from typing import Annotated

import typer


def typed_command(context: typer.Context) -> str:
    """Return the command with all options that differ from their defaults and can change a
    result.
    """
    words = ["levywalk", str(context.info_name)]
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if option.param_type_name == "argument":
            words += [] if value is None else [str(value)]
        elif str(option.name) in ("fresh", "as_json", "threads") or str(value) == str(
            option.default
        ):
            continue
        elif isinstance(value, bool):  # a switch, or its opposite
            words.append((option.opts if value else option.secondary_opts)[0])
        elif isinstance(value, list | tuple):
            words += [word for one in value for word in (option.opts[0], str(one))]
        else:
            words += [option.opts[0], str(value)]
    return shlex.join(words)


Dtype = Annotated[
    str,
    typer.Option(
        "--dtype",
        metavar="float64|float32",
        help=(
            "Type of the model's numbers, on disks and in messages. An update is computed in "
            "float64, and then rounded."
        ),
    ),
]
DesignText = Annotated[
    str, typer.Option("--design", help="The design, such as mhlj, unif_rw or mhlj:p_jump=0.2.")
]
UpdateText = Annotated[
    str, typer.Option("--update", help="The update, such as sgd or sgd:minibatch=8.")
]
Then = Annotated[
    str | None,
    typer.Option("--then", help="Design to switch to when the model has settled."),
]
Steps = Annotated[int, typer.Option("--steps", help="Number of updates.")]
StepSize = Annotated[str, typer.Option("--step-size", help="theory, or a number.")]
Stop = Annotated[
    str,
    typer.Option(
        "--stop",
        help=(
            "When the walk ends: steps (after --steps updates), "
            "or detector (also when the model has settled)."
        ),
    ),
]
RenewAfter = Annotated[
    int,
    typer.Option(
        "--renew-after",
        metavar="K",
        help="Largest number of updates that are lost if a node dies for good.",
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        help=(
            "What to do when the guardian is gone: wait, or eager (may fork the walk, "
            "but never silently)."
        ),
    ),
]
MetricsText = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="NAMES",
        help=(
            "Metrics on the held-out samples, separated by commas: accuracy, log_loss, "
            "held_out_loss, mean_squared_error, mean_absolute_error, r2."
        ),
    ),
]
RankBy = Annotated[
    str | None,
    typer.Option(
        "--rank-by",
        metavar="NAME",
        help="What designs are ranked by: distance2 (default), excess_loss, loss or a metric.",
    ),
]
CostsText = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="COSTS",
        help=(
            "Seconds that updates and messages take: data-centre, home-broadband or mobile; or "
            "numbers, such as compute=0.01,latency=0.02,bandwidth=1e6; or both. With "
            "share=0.1,factor=10 a tenth of the nodes is ten times as slow, with "
            "link_share=0.1,link_factor=10 a tenth of the links."
        ),
    ),
]
PrivacyText = Annotated[
    str | None,
    typer.Option(
        "--privacy",
        metavar="PRIVACY",
        help=(
            "Clipped gradients with noise, and a budget ε of each node, such as "
            "clip=1,noise=20,budget=2; also delta=1e-5, adjacency=sample or node, "
            "adversary=colluding, neighbour or final, scores=private, public or released."
        ),
    ),
]
CheckUpdates = Annotated[
    bool,
    typer.Option(
        "--check-updates",
        help=(
            "Guardians compare models, and refuse what clipped updates cannot have made; with "
            "--privacy, whose clip it needs (noise=0 if nothing has to be private), and --update "
            "sgd."
        ),
    ),
]
FalseAlarm = Annotated[
    float | None,
    typer.Option(
        "--false-alarm",
        help=(
            "Probability that a run of honest nodes has a false alarm (only with --check-updates). "
            "Default: 1e-6."
        ),
    ),
]
AvoidAfter = Annotated[
    int | None,
    typer.Option(
        "--avoid-after",
        min=1,
        help=(
            "Number of refused models after which a guardian avoids their sender (only with "
            "--check-updates). Default: 3."
        ),
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        help="Number of worker processes; default: one per core. 0: this process.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786.",
    ),
]
