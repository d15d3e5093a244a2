"""Options that several commands share: a problem, a walk, the terms of a hand-off, workers."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Option("--data", help="Data of the nodes: heterogeneous, homogeneous, or a data file."),
]
Important = Annotated[
    int | None,
    typer.Option(
        "--important",
        min=0,
        help="Number of important nodes (only with heterogeneous data); default: random.",
    ),
]
Loss = Annotated[
    str,
    typer.Option(
        "--loss", help="least_squares or logistic (only with a data file or private data)."
    ),
]
Ridge = Annotated[
    float,
    typer.Option(
        "--ridge", min=0.0, help="Ridge of the problem (only with a data file or private data)."
    ),
]
SelfLoops = Annotated[
    str, typer.Option("--self-loops", help="Self-loops of the network: none or counted.")
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
