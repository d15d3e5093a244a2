"""``levywalk report``: write a folder of results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levywalk.cli.ctrl_c import START_OVER, ends_by_ctrl_c

if TYPE_CHECKING:
    from levywalk.trace import Comparison


@ends_by_ctrl_c(START_OVER)
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
    own_files: Annotated[
        bool,
        typer.Option(
            "--own-files",
            help=(
                "The results are your own: read the network and data files that they name, also "
                "outside of DIR."
            ),
        ),
    ] = False,
) -> None:
    """Write one HTML file that opens offline: verdict, curves, table, visits and theory."""
    written = write_on_one_core(folder, out, figures=figures, own_files=own_files)
    print("Written: " + ", ".join(str(path) for path in written))


def write_on_one_core(
    source: Comparison | Path,
    out: Path | None = None,
    *,
    figures: bool = False,
    own_files: bool = False,
) -> list[Path]:
    """Write the report with one BLAS thread: on a busy machine several took five times as long."""
    from threadpoolctl import threadpool_limits

    from levywalk.experiments.folder_report import write_report

    with threadpool_limits(1):
        return write_report(source, out, figures=figures, own_files=own_files)
