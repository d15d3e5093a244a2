"""Options that several commands share: a problem in shorthand, a walk, and the terms of a hand-off."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[str, typer.Option("--data", help="heterogeneous, homogeneous, or a data file.")]
Important = Annotated[
    int | None, typer.Option("--important", min=0, help="How many important nodes, of heterogeneous data.")
]
Loss = Annotated[str, typer.Option("--loss", help="least_squares or logistic, for a data file.")]
Ridge = Annotated[float, typer.Option("--ridge", min=0.0, help="Of a data file's problem.")]
SelfLoops = Annotated[str, typer.Option("--self-loops", help="none or counted.")]
DesignText = Annotated[str, typer.Option("--design", help="Such as mhlj, unif_rw or mhlj:p_jump=0.2.")]
Then = Annotated[str | None, typer.Option("--then", help="Another design, once the model has settled.")]
Steps = Annotated[int, typer.Option("--steps", help="Updates.")]
StepSize = Annotated[str, typer.Option("--step-size", help="theory, or a number.")]
Stop = Annotated[str, typer.Option("--stop", help="steps, or detector: also when the model has settled.")]
RenewAfter = Annotated[
    int, typer.Option("--renew-after", metavar="K", help="The most updates that a permanent death may lose.")
]
Policy = Annotated[
    str, typer.Option("--policy", help="When the guardian is gone: wait, or eager (may fork, never silently).")
]
