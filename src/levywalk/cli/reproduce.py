"""`levywalk reproduce`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from levywalk import checks
from levywalk.cli.ctrl_c import RESUME, ends_by_ctrl_c
from levywalk.cli.finish import Json
from levywalk.cli.options import Scheduler, Workers
from levywalk.errors import InvalidParameter

if TYPE_CHECKING:
    from levywalk.reproduction.reproduce import Reproduction


Labels = Annotated[
    list[str] | None,
    typer.Argument(
        help="Labels of claims and figures, such as homo or simentrap; a wrong label lists all."
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="All claims and figures.")]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Use fewer instances and walks and one accuracy; takes minutes."),
]
Seeds = Annotated[
    str,
    typer.Option(
        "--seeds",
        metavar="first|second",
        help="Which of two independent ranges of instances to use (not with --quick).",
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Exit with code 1 if a verdict is not the expected one.")
]
Figures = Annotated[
    bool, typer.Option("--figures/--no-figures", help="Draw the figures, as PNG and PDF.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder for the results; results that are there are not computed again. "
        "Default: levywalk-reproduction; if that holds other claims, that name with a number.",
    ),
]
FOLDER = Path("levywalk-reproduction")


@ends_by_ctrl_c(f"Finished results are stored. {RESUME}")
def reproduce(
    labels: Labels = None,
    everything: Everything = False,
    quick: Quick = False,
    seeds: Seeds = "first",
    check: Check = False,
    figures: Figures = True,
    as_text: Json = False,
    out: Folder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Check the claims of the paper, with intervals, and draw its figures.

    If it is interrupted, run the same command again to resume.
    """
    from levywalk.experiments.execute import writable_folder
    from levywalk.reproduction import reproduce as paper
    from levywalk.reproduction.paper import EFFORTS, QUICK
    from levywalk.sweeps.pools import ClusterLost
    from levywalk.sweeps.store import ResultStore, ResultStoreError
    from levywalk.sweeps.stored_folders import (
        mark_asked,
        stored_folder,
        stores_beside,
        take_over_all,
    )
    from levywalk.sweeps.workers import JobsFailed

    if bool(labels) == everything:
        raise InvalidParameter(
            "give --all or some labels, such as homo or simentrap; a wrong one lists all"
        )
    if workers is not None and scheduler is not None:
        raise InvalidParameter(f"give --workers or --scheduler, got {workers} and {scheduler!r}")
    checks.choice("--seeds", seeds, tuple(EFFORTS))
    if quick and seeds != "first":
        raise InvalidParameter(f"--quick has instances of its own; leave --seeds {seeds} out")
    effort = QUICK if quick else EFFORTS[seeds]
    paper.spelled_labels(labels or [])
    if check:
        paper.expected_verdicts(effort)  # fails before an hour of work
    asked = {"labels": sorted(set(paper.spelled_labels(labels or []))), "effort": effort.name}
    folder = writable_folder(out or stored_folder(FOLDER, asked))
    if out is None:
        if folder != FOLDER:
            print(f"{FOLDER} holds other claims, so these go to {folder}.", file=sys.stderr)
        mark_asked(folder, asked)
        take_over_all(ResultStore(folder / paper.STORE), stores_beside(FOLDER, folder))
    try:
        found = paper.reproduce(
            labels or [], effort, folder, workers=workers, scheduler=scheduler, figures=figures
        )
    except (ResultStoreError, ClusterLost, JobsFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    files = paper.write_reproduction(found, folder)
    if as_text:
        print(json.dumps(found.document(folder), ensure_ascii=False))
    else:
        _show(found)
        drawn = f", and the figures in {folder / paper.DRAWN}" if found.figures else ""
        print(f"\n{found.seconds:.0f} s. Written: {', '.join(str(path) for path in files)}{drawn}")
    unexpected = paper.unexpected_verdicts(found.claims, effort) if check else []
    for line in unexpected:
        print(f"unexpected: {line}", file=sys.stderr)
    if unexpected:
        raise typer.Exit(1)


def _show(found: Reproduction) -> None:
    for claim in found.claims:
        print(f"{claim.id:3} [{claim.label}] {claim.verdict}: {claim.text}")
        print(indent(claim.tally, " " * 6))
