"""``levywalk report``: a folder of results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder that `levywalk run`, `compare`, `demo` or `reproduce` wrote."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page; DIR/report.html by default.")
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write each figure as PDF and PNG, a column wide, for a paper.")
    ] = False,
) -> None:
    """Write one HTML file that opens offline: verdict, curves, table, visits, theory, and how to run it again."""
    print("Written: " + ", ".join(str(path) for path in write_on_one_core(folder, out, figures=figures)))


def write_on_one_core(folder: Path, out: Path | None = None, *, figures: bool = False) -> list[Path]:
    """Write the report; on a busy machine BLAS threads wait for each other, and the theory took five times as long."""
    from threadpoolctl import threadpool_limits

    from levywalk.experiments.folder_report import write_report

    with threadpool_limits(1):
        return write_report(folder, out, figures=figures)
