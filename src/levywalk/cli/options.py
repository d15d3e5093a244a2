"""Options that several commands share: the data and the losses of a problem in shorthand."""

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
