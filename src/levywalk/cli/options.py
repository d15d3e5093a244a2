"""Options that several commands share: problem, design, and the rules of the hand-off."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[str, typer.Option("--data", help="Data of the nodes: heterogeneous, homogeneous, or a data file.")]
Important = Annotated[
    int | None, typer.Option("--important", min=0, help="Number of important nodes (only with --data heterogeneous).")
]
Loss = Annotated[str, typer.Option("--loss", help="Loss, for a data file or private data: least_squares or logistic.")]
Ridge = Annotated[float, typer.Option("--ridge", min=0.0, help="Ridge penalty, for a data file or private data.")]
SelfLoops = Annotated[str, typer.Option("--self-loops", help="Self-loops of the network: none or counted.")]
DesignText = Annotated[
    str, typer.Option("--design", help="Design of the walk, such as mhlj, unif_rw or mhlj:p_jump=0.2.")
]
Then = Annotated[str | None, typer.Option("--then", help="Design to switch to once the model has settled.")]
Steps = Annotated[int, typer.Option("--steps", help="Number of updates.")]
StepSize = Annotated[str, typer.Option("--step-size", help="Step size: theory, or a number.")]
Stop = Annotated[
    str,
    typer.Option("--stop", help="When to stop: steps (after --steps), or detector (also when the model has settled)."),
]
RenewAfter = Annotated[
    int, typer.Option("--renew-after", metavar="K", help="Number of updates that one permanent death may lose at most.")
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        help="When the guardian is gone: wait for it, or eager (continue; the walk may split, which is reported).",
    ),
]
