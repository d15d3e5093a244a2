"""``levywalk report``: a folder of results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `levywalk run --out DIR` wrote.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page; DIR/report.html by default.")
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write each figure as PDF and PNG, a column wide, for a paper.")
    ] = False,
) -> None:
    """Write one HTML file that opens offline: verdict, curves, table, visits, theory, and how to run it again."""
    from levywalk.experiments.report import write_report

    print("Written: " + ", ".join(str(path) for path in write_report(folder, out, figures=figures)))
