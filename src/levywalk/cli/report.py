"""``levywalk report``: write a folder of results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from levywalk.trace import Comparison


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A folder that `levywalk run`, `compare`, `demo` or `reproduce` wrote.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File of the page; default: DIR/report.html."),
    ] = None,
    figures: Annotated[
        bool,
        typer.Option(
            "--figures", help="Also write each figure for a paper, one column wide, as PDF and PNG."
        ),
    ] = False,
) -> None:
    """Write one HTML file that opens offline: verdict, curves, table, visits and theory."""
    written = write_on_one_core(folder, out, figures=figures)
    print("Written: " + ", ".join(str(path) for path in written))


def write_on_one_core(
    source: Comparison | Path, out: Path | None = None, *, figures: bool = False
) -> list[Path]:
    """Write the report with one BLAS thread: on a busy machine several took five times as long."""
    from threadpoolctl import threadpool_limits

    from levywalk.experiments.folder_report import write_report

    with threadpool_limits(1):
        return write_report(source, out, figures=figures)
