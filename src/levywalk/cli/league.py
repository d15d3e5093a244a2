"""`levywalk league`.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from levywalk.cli.ctrl_c import RESUME, ends_by_ctrl_c
from levywalk.cli.finish import Json
from levywalk.cli.options import CostsText, Scheduler, Workers
from levywalk.errors import InvalidParameter

Networks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NETWORK]...",
        help="Networks of the league (ring, grid, ws, er, gnutella), or ba:500,3, …, or files.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Small networks, few pairs and instances; under a minute.")
]
Check = Annotated[bool, typer.Option("--check", help="Exit with code 1 if a goal is not met.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say how many results are missing and how long they take."),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help=(
            "Rank by a metric on held-out samples, with --reach: accuracy, log_loss, "
            "mean_squared_error, mean_absolute_error or r2."
        ),
    ),
]
Reach = Annotated[
    float | None,
    typer.Option(
        "--reach", help="Target value, such as 0.9; pairs are ranked by the cost to reach it."
    ),
]
Folder = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder for the results; results that are there are not computed again.",
    ),
]


@ends_by_ctrl_c(f"Finished results are stored. {RESUME}")
def league(
    networks: Networks = None,
    quick: Quick = False,
    check: Check = False,
    metric: MetricName = None,
    reach: Reach = None,
    dry_run: DryRun = False,
    costs: CostsText = None,
    as_text: Json = False,
    out: Folder = Path("levywalk-league"),
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Compare pairs of a walk and an update, tuned fairly, and show where each pair is best.

    Without --quick it takes about an hour on two idle cores; --dry-run estimates it. --costs are
    those of the column time (default: home-broadband).

    With --metric accuracy --reach 0.9 pairs are ranked by the cost until 90 % of the held-out
    samples are classified correctly; gossip is left out.

    If it is interrupted, run the same command again to resume.
    """
    from levywalk.experiments.execute import writable_folder
    from levywalk.league import by_metric
    from levywalk.league import league as competition
    from levywalk.league.goals import GOAL_NETWORKS
    from levywalk.league.scenes import FULL, QUICK, networks_named
    from levywalk.league.text import goals_text, table
    from levywalk.report.league_document import failure_sentences, map_rows
    from levywalk.sweeps.pools import ClusterLost
    from levywalk.sweeps.store import ResultStoreError
    from levywalk.trace import as_costs

    if workers is not None and scheduler is not None:
        raise InvalidParameter(f"give --workers or --scheduler, got {workers} and {scheduler!r}")
    effort = QUICK if quick else FULL
    chosen = networks_named(networks, effort)
    if (metric is None) != (reach is None):
        raise InvalidParameter(
            "--metric and --reach belong together, such as --metric accuracy --reach 0.9"
        )
    if metric is not None and check:
        raise InvalidParameter("--check judges goals about errors, not --metric; leave one out")
    if check and not set(chosen) & set(GOAL_NETWORKS):  # before an hour of work
        raise InvalidParameter(
            f"--check needs a network that a goal is about, of {', '.join(GOAL_NETWORKS)}; "
            "leave --check out"
        )
    paid = as_costs(costs) or competition.COSTS
    if paid.per_node is not None or paid.per_link is not None:
        raise InvalidParameter(
            f"--costs of a league must be alike at all nodes and links, got {costs!r}; leave "
            "shares, factors and seeds out"
        )
    tasks = None
    if metric is not None and reach is not None:
        by_metric.require_possible(chosen, effort, metric, reach)
        tasks = by_metric.metric_tasks(chosen, effort, metric, reach)
        count, stored, seconds = by_metric.left_by_metric(tasks, out)
    else:
        count, stored, seconds = competition.left_of(chosen, effort, out)
    cores = os.cpu_count() or 1 if workers is None else max(1, workers)
    place = f"{cores} core{'s' if cores > 1 else ''}" if scheduler is None else "one core"
    about = max(1, round(seconds / (cores if scheduler is None else 1) / 60))
    minutes = f"{about} minute{'s' if about > 1 else ''}"
    kept = f"{count} results, {stored} of them stored"
    notice = f"{kept}; the others take about {minutes} on {place}."
    if dry_run:
        told = {"results": count, "stored": stored, "minutes": about}
        print(json.dumps(told) if as_text else notice)
        return
    print(notice, file=sys.stderr)
    folder = writable_folder(out)
    words = ["levywalk", "league", *(networks or []), *(["--quick"] if quick else [])]
    words += [] if metric is None else ["--metric", metric, "--reach", f"{reach:g}"]
    words += [] if costs is None else ["--costs", costs]
    how: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "costs": paid}
    how["command"] = " ".join(words)
    try:
        if tasks is not None:
            document, files = by_metric.metric_league(tasks, effort, folder, **how)
        else:
            document, files = competition.league(chosen, effort, folder, **how)
    except (ResultStoreError, ClusterLost) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    if as_text:
        print(json.dumps(document, ensure_ascii=False))
    else:
        print(*table(*map_rows(document)), sep="\n")
        if document["goals"]:
            print("", *goals_text(document), sep="\n")
        print(f"\n{document['seconds']:.0f} s. Written: {', '.join(str(path) for path in files)}")
    for line in failure_sentences(document):
        print(f"error: {line}", file=sys.stderr)
    missed = [goal for goal in document["goals"] if not goal["met"]]
    if check and missed:
        for goal in missed:
            print(f"not met: {goal['goal']} ({goal['by']})", file=sys.stderr)
    if document["failures"] or (check and missed):
        raise typer.Exit(1)
