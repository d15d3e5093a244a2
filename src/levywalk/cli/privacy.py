"""``levywalk privacy``: what privacy costs, before a run.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.ctrl_c import START_OVER, ends_by_ctrl_c
from levywalk.cli.options import MetricsText
from levywalk.cli.source_options import Data, Important, SourceOptions, with_source_options

if TYPE_CHECKING:
    from rich.console import Console

    from levywalk.experiments.privacy_curve import PrivacyCurve

PRIVACY_EXAMPLES = """Examples:

levywalk privacy ring:50 --clip 5

levywalk privacy complete:50 --data digits.csv --loss softmax --held-out 0.2 --metrics accuracy \
--clip 1 --budgets 1,4,16 --out digits-privacy

levywalk privacy ring:50 --designs unif_rw,mhlj,unif_rw+saga --clip 5 --settings scores=public"""


NetworkText = Annotated[
    str,
    typer.Argument(help="Network: ring:50, grid:5,10, er:50,0.2, ws:50,4,0.1, …, or a file."),
]
Designs = Annotated[
    str, typer.Option("--designs", help="Designs, separated by commas, such as unif_rw,mhlj.")
]
Clip = Annotated[
    float, typer.Option("--clip", help="Largest norm of w(v) times the gradient of a sample.")
]
Budgets = Annotated[
    str,
    typer.Option("--budgets", metavar="NUMBERS", help="ε of each node, separated by commas."),
]
Settings = Annotated[
    str | None,
    typer.Option(
        "--settings",
        metavar="SETTINGS",
        help=(
            "Further settings, such as delta=1e-6,adjacency=node,adversary=neighbour,scores=public."
        ),
    ),
]
Steps = Annotated[int, typer.Option("--steps", help="Number of updates of each walk.")]
MostUpdates = Annotated[
    int | None,
    typer.Option(
        "--updates",
        min=1,
        help="Updates that a node may make. Default: twice the largest expected number.",
    ),
]
TunedSize = Annotated[
    str, typer.Option("--step-size", help="tuned (for each budget), or a number.")
]
Replicas = Annotated[int, typer.Option("--replicas", min=1, help="Number of independent walks.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the network, the data and the walks.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for a figure and a JSON file."),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")]


@ends_by_ctrl_c(START_OVER)
@with_source_options
def privacy(
    sources: SourceOptions,
    network: NetworkText,
    data: Data = "heterogeneous",
    important: Important = None,
    designs: Designs = "unif_rw",
    clip: Clip = 1.0,
    budgets: Budgets = "0.5,1,2,4,8,16",
    settings: Settings = None,
    steps: Steps = 1000,
    updates: MostUpdates = None,
    step_size: TunedSize = "tuned",
    replicas: Replicas = 4,
    metrics: MetricsText = None,
    seed: Seed = 0,
    out: Folder = None,
    as_json: Json = False,
) -> None:
    """Estimate what privacy costs before a run: ε against the accuracy reached in simulations.

    For each budget ε it takes the smallest noise with which a node may make that many updates. The
    simulation uses the data without protection, so its answers are not private: they are only for
    the owner of the data.
    """
    from levywalk import checks
    from levywalk.experiments.execute import writable_folder
    from levywalk.experiments.experiment_file import written_experiment
    from levywalk.experiments.privacy_curve import privacy_curve
    from levywalk.experiments.shorthand import (
        design_settings,
        metric_names,
        network_settings,
        problem_settings,
        step_size_setting,
    )
    from levywalk.json_values import finite

    steps = checks.integer("--steps", steps, low=1)
    given = _budgets(budgets)
    more = _settings(settings)
    size = step_size_setting(step_size, ("tuned",))
    _, spec = written_experiment(
        network=network_settings(network, seed=seed, options=sources.network),
        problem=problem_settings(data, important=important, seed=seed, options=sources.data),
        designs=design_settings(designs),
        run={"steps": steps, "replicas": replicas, "seed": seed, "metrics": metric_names(metrics)},
        folder=Path(),
    )
    graph, problem, made, measured = spec.build_with_metrics(Path())
    folder = writable_folder(out) if out is not None else None
    curves = {}
    for name, pair in made.items():
        walk, update = pair if isinstance(pair, tuple) else (pair, None)
        curves[name] = privacy_curve(
            graph,
            problem,
            walk.called(name),
            clip=clip,
            steps=steps,
            budgets=given,
            updates=updates,
            update=update,
            step_size=size,
            replicas=replicas,
            seed=seed,
            metrics=measured,
            **more,
        )
    document = finite(
        {
            "network": graph.name,
            "seed": seed,
            "steps": steps,
            "replicas": replicas,
            "designs": {name: curve.document() for name, curve in curves.items()},
        }
    )
    files: list[Path] = []
    if folder is not None:
        from levywalk.report.figures.privacy import plot_privacy

        plot_privacy(document["designs"], path=folder / "privacy.png")
        (folder / "privacy.json").write_text(json.dumps(document, indent=2) + "\n")
        files = [folder / "privacy.png", folder / "privacy.json"]
    if as_json:
        print(json.dumps(document | {"files": [str(path) for path in files]}, indent=2))
        return
    _show(curves)
    if files:
        print("\nWritten: " + ", ".join(str(path) for path in files))


def _budgets(text: str) -> list[float]:
    from levywalk import checks
    from levywalk.errors import InvalidParameter

    try:
        return [checks.positive("--budgets", float(word)) for word in text.split(",")]
    except ValueError as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(
            f"--budgets must be numbers above 0, separated by commas, such as 1,4,16, got {text!r}"
        ) from None


def _settings(text: str | None) -> dict[str, Any]:
    """Return the settings that are not the command's own options."""
    from levywalk.errors import InvalidParameter
    from levywalk.privacy.privacy import settings_of_text

    found = settings_of_text(text) if text is not None else {}
    for name in ("clip", "noise", "budget"):
        if name in found:
            instead = {
                "clip": "use --clip",
                "noise": "the command computes it for each budget",
                "budget": "use --budgets",
            }[name]
            raise InvalidParameter(f"--settings must not have {name}: {instead}")
    return found


def _show(curves: dict[str, PrivacyCurve]) -> None:
    from rich.console import Console
    from rich.table import Table

    from levywalk.privacy.privacy import SIMULATED

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    for name, curve in curves.items():
        table = Table(title=f"{name}: what each ε costs", title_justify="left")
        for header in (
            "budget ε",
            "noise",
            "updates a node may make",
            "nodes that ran out",
            "ε spent",
            "step size",
            f"{curve.quantity} (least to largest)",
        ):
            table.add_column(header, justify="right", overflow="fold")
        for row in [*curve.rows, curve.without]:
            reached = f"{row['value']:.3g} ({row['low']:.3g} to {row['high']:.3g})"
            if row["budget"] is None:
                cells = ["none", "0", "–", "–", "∞"]
            else:
                cells = [
                    f"{row['budget']:g}",
                    f"{row['noise']:.3g}",
                    str(row["updates_at_cap"]),
                    str(row["nodes_out_of_budget"]),
                    f"{row['epsilon_spent']:.3g}",
                ]
            table.add_row(*cells, f"{row['step_size']:.3g}", reached)
        console.print(table, markup=False)
        _show_between_nodes(console, name, curve)
    definition = curve.privacy["definition"]
    print(f"\nThe definition: {definition}.")
    print(SIMULATED)
    print("Tuned step sizes were chosen on these data; ε does not count that.")


def _show_between_nodes(console: Console, name: str, curve: PrivacyCurve) -> None:
    """Print ε by the distance of two nodes, or why it is not known, against "neighbour"."""
    from rich.table import Table

    from levywalk.privacy.published_loss import PUBLISHED

    found = [(row, row["between_nodes"]) for row in curve.rows if "between_nodes" in row]
    known = [(row, between) for row, between in found if "published_epsilon" in between]
    if not known:
        if found:
            print(f"{name}: no published loss between nodes: {found[0][1]['because']}")
        return
    most = len(known[0][1]["published_epsilon"])
    shown = sorted({d for d in (1, 2, 3, most) if d <= most})
    table = Table()
    headers = ["budget ε", "composition, expected"]
    for header in [*headers, *(f"{d} hop{'s' * (d > 1)} apart" for d in shown)]:
        table.add_column(header, justify="right", overflow="fold")
    for row, between in known:
        pairs = zip(between["published_epsilon"], between["epsilon_of_the_walk"], strict=True)
        cells = [f"{published:.3g} / {walked:.3g}" for published, walked in pairs]
        composed = f"{between['composition_epsilon']:.3g}"
        table.add_row(f"{row['budget']:g}", composed, *(cells[d - 1] for d in shown))
    print(f"{name}: ε between two nodes: expected, as published / of the first walk made")
    console.print(table, markup=False)
    print(f"Expected, as published: {PUBLISHED}.")
