"""``levywalk inspect``: judge walks before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.options import Data, Important, Loss, Ridge, SelfLoops

if TYPE_CHECKING:
    from levywalk.experiments.inspect import Inspection
    from levywalk.network import Network
    from levywalk.problem import Problem


def inspect(
    network: Annotated[
        str,
        typer.Argument(
            help="Network: ring:1000, grid:25,40, er:1000,0.1, ws:1000,4,0.1, …, or a file."
        ),
    ],
    data: Data = "heterogeneous",
    important: Important = None,
    smoothness: Annotated[
        str | None,
        typer.Option(
            "--smoothness",
            metavar="FILE",
            help="Text file with one smoothness constant L per node, instead of data.",
        ),
    ] = None,
    loss: Loss = "least_squares",
    ridge: Ridge = 0.0,
    p_jump: Annotated[float, typer.Option("--p-jump", help="Probability of a jump in MHLJ.")] = 0.1,
    p_distance: Annotated[
        float, typer.Option("--p-distance", help="Parameter p_d of the jump distance in MHLJ.")
    ] = 0.5,
    max_hops: Annotated[int, typer.Option("--max-hops", help="Largest jump distance in MHLJ.")] = 3,
    self_loops: SelfLoops = "none",
    accuracy: Annotated[
        float, typer.Option("--accuracy", help="Relative error for which steps are predicted.")
    ] = 0.01,
    tune: Annotated[
        bool, typer.Option("--tune", help="Also find the best p_jump, p_distance and max_hops.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the network and of the data.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for a figure and a JSON file."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only JSON to standard output.")
    ] = False,
) -> None:
    """Judge UnifRW, WeightRW and MHLJ before a run: entrapment, spectral gaps, bias, cost."""
    from levywalk.experiments import shorthand
    from levywalk.experiments.execute import writable_folder
    from levywalk.experiments.inspect import inspect as judge
    from levywalk.json_values import finite
    from levywalk.walks import mhlj, unif_rw, weight_rw

    graph = shorthand.read_network_text(network, seed=seed, self_loops=self_loops)
    if smoothness is not None:
        problem = shorthand.problem_from_smoothness(smoothness, graph.n)
    else:
        problem = shorthand.read_problem_text(
            data, graph.n, important=important, loss=loss, ridge=ridge, seed=seed
        )
    designs = {
        design.name: design
        for design in (unif_rw(), weight_rw(), mhlj(p_jump, p_distance, max_hops))
    }
    folder = writable_folder(out) if out is not None else None
    found = judge(graph, problem, designs, accuracy=accuracy)
    document = {"network": graph.name, "seed": seed, "accuracy": accuracy, **_document(found)}
    if tune:
        document["tuned"] = _tuned(graph, problem, accuracy, folder)
    document = finite(document)
    files = _write(found, document, folder) if folder is not None else []
    files += [folder / "tune.png"] if folder is not None and tune else []
    if as_json:
        print(json.dumps(document | {"files": [str(path) for path in files]}, indent=2))
        return
    _show(found, document)
    if files:
        print("\nWritten: " + ", ".join(str(path) for path in files))


def _document(found: Inspection) -> dict[str, Any]:
    assumptions = [{"name": a.name, "holds": a.holds, "why": a.why} for a in found.assumptions]
    return {
        "designs": found.rows(),
        "sentences": found.sentences,
        "methods": found.methods,
        "assumptions": assumptions,
    }


def _tuned(
    network: Network, problem: Problem, accuracy: float, folder: Path | None
) -> dict[str, Any]:
    """Find the best parameters of MHLJ, and draw the cost against p_jump if there is a folder."""
    from levywalk.theory import tune

    best = tune(network, problem, accuracy=accuracy)
    if folder is not None:
        from levywalk.report import plot

        plot(best, path=folder / "tune.png")
    return {"parameters": best.parameters, "steps": best.cost, "curve": list(best.curve)}


def _write(found: Inspection, document: dict[str, Any], folder: Path) -> list[Path]:
    from levywalk.report.figures.inspection import plot_inspection

    laws = {name: (judgement.target, judgement.law) for name, judgement in found.judgements.items()}
    figure, table = folder / "inspect.png", folder / "inspect.json"
    plot_inspection(found.rows(), laws, path=figure)
    table.write_text(json.dumps(document, indent=2) + "\n")
    return [figure, table]


def _show(found: Inspection, document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    L = found.smoothness
    print(
        f"{found.network!r}; L is between {L.min():.3g} and {L.max():.3g}, {L.mean():.3g} on "
        "average"
    )
    table = Table(title="Before the run", title_justify="left")
    rows = found.rows()
    table.add_column("")
    for row in rows:
        table.add_column(row["design"], justify="right")
    lines: dict[str, Callable[[dict[str, Any]], str]] = {
        "steps per visit of the worst region": lambda row: f"{row['dwell']:.3g}",
        "the same with i.i.d. sampling": lambda row: f"{row['iid_dwell']:.3g}",
        "steps to escape from it": lambda row: f"{row['escape']:.3g}",
        "its share under the target π": lambda row: f"{row['target']:.3g}",
        "its share under the chain": lambda row: f"{row['mass']:.3g}",
        "total variation distance, π to chain": lambda row: f"{row['total_variation']:.3g}",
        "right spectral gap": lambda row: (
            f"{'' if row['spectral_gap_trusted'] else '≤ '}{row['spectral_gap']:.3g}"
        ),
        f"predicted steps to {100 * found.accuracy:g} %": lambda row: _count(row["steps"]),
        "predicted transfers": lambda row: _count(row["transfers"]),
    }
    for label, cell in lines.items():
        table.add_row(label, *[cell(row) for row in rows])
    Console().print(table)
    for sentence in found.sentences:
        print(sentence)
    print("\nHow the numbers were found:")
    for method in found.methods:
        print(method)
    print("\nThe assumptions of the theorems:")
    print(found.assumptions)
    if "tuned" in document:
        best = document["tuned"]
        chosen = ", ".join(f"{key} = {value:g}" for key, value in best["parameters"].items())
        print(
            f"\nThe best parameters of MHLJ are {chosen}: {_count(best['steps'])} predicted steps."
        )


def _count(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value < 1e15 else "never"
