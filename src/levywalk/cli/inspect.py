"""``levywalk inspect``: judge walks before anything runs.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levywalk.cli.ctrl_c import START_OVER, ends_by_ctrl_c
from levywalk.cli.source_options import Data, Important, SourceOptions, with_source_options

if TYPE_CHECKING:
    from levywalk.experiments.inspect import Inspection
    from levywalk.network import Network
    from levywalk.problem import Problem


@ends_by_ctrl_c(START_OVER)
@with_source_options
def inspect(
    context: typer.Context,
    sources: SourceOptions,
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
    p_jump: Annotated[float, typer.Option("--p-jump", help="Probability of a jump in MHLJ.")] = 0.1,
    p_distance: Annotated[
        float, typer.Option("--p-distance", help="Parameter p_d of the jump distance in MHLJ.")
    ] = 0.5,
    max_hops: Annotated[int, typer.Option("--max-hops", help="Largest jump distance in MHLJ.")] = 3,
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
    """Recommend what to use on a network before a run, by judging UnifRW, WeightRW and MHLJ.

    First what to do, then the numbers: entrapment, spectral gaps, bias, predicted cost.
    """
    from levywalk.errors import InvalidParameter
    from levywalk.experiments import shorthand
    from levywalk.experiments.advice import advice
    from levywalk.experiments.execute import writable_folder
    from levywalk.experiments.inspect import inspect as judge
    from levywalk.json_values import finite
    from levywalk.reproduction.phase_diagram import place_sentence
    from levywalk.walks import mhlj, unif_rw, weight_rw

    if not 0.0 < accuracy < 1.0:
        raise InvalidParameter(
            f"--accuracy must be between 0 and 1, a share of the initial error, got {accuracy:g}"
        )
    graph = shorthand.read_network_text(network, seed=seed, options=sources.network)
    if smoothness is not None:
        problem = shorthand.problem_from_smoothness(smoothness, graph.n)
    else:
        problem = shorthand.read_problem_text(
            data, graph, important=important, seed=seed, options=sources.data
        )
    designs = {
        design.name: design
        for design in (unif_rw(), weight_rw(), mhlj(p_jump, p_distance, max_hops))
    }
    folder = writable_folder(out) if out is not None else None
    found = judge(graph, problem, designs, accuracy=accuracy)
    command = "" if smoothness is not None else _measured_by(context, found)
    small = graph.n <= _MOST_NODES and smoothness is None
    pair = _pair(graph, problem) if small else None
    document = {
        "network": graph.name,
        "seed": seed,
        "accuracy": accuracy,
        "advice": advice(found, command),
        "phase": (
            "Phase diagram: not placed in it, because only smoothness constants were given."
            if smoothness is not None
            else place_sentence(graph, problem)
        ),
        "recommended": pair,
        **_document(found),
    }
    if tune:
        document["tuned"] = _tune_mhlj(graph, problem, accuracy, folder)
    document = finite(document)
    files = _write(found, document, folder) if folder is not None else []
    files += [folder / "tune.png"] if folder is not None and tune else []
    if as_json:
        print(json.dumps(document | {"files": [str(path) for path in files]}, indent=2))
        return
    _show(found, document)
    if files:
        print("\nWritten: " + ", ".join(str(path) for path in files))


def _pair(network: Network, problem: Problem) -> dict[str, Any]:
    """Return the recommended pair of a walk and an update, as plain data."""
    from levywalk.league.recommend import recommended

    best = recommended(network, problem)
    size = best.step_size if best.update.tunable else None
    return {"pair": best.pair, "step_size": size, "why": best.why}


_MOST_NODES = 200_000  # with more, the pilots of a recommendation take minutes
_OWN = ("smoothness", "p_jump", "p_distance", "max_hops", "tune", "out", "as_json")
_STEPS = 100_000  # of levywalk compare, by default


def _measured_by(context: typer.Context, found: Inspection) -> str:
    """Return the command that measures the same designs on the same network and data."""
    words = ["levywalk", "compare", str(context.params["network"])]
    given = [
        option
        for option in context.command.params
        if option.param_type_name == "option"
        and getattr(context.get_parameter_source(str(option.name)), "name", "") == "COMMANDLINE"
    ]
    for option in given:
        value = context.params[str(option.name)]
        if option.name in _OWN:
            continue
        if isinstance(value, bool):
            words.append((option.opts if value else option.secondary_opts)[0])
        else:
            words += [option.opts[0], str(value)]
    jumps = [
        name for name in ("p_jump", "p_distance", "max_hops") if name in {o.name for o in given}
    ]
    if jumps:
        design = "mhlj:" + ",".join(f"{name}={context.params[name]}" for name in jumps)
        words += ["--designs", f"unif_rw,weight_rw,{design}"]
    needed = [row["steps"] for row in found.rows() if row["steps"] is not None]
    most = max((steps for steps in needed if math.isfinite(steps)), default=0.0)
    if 2 * most > _STEPS:
        words += ["--steps", str(math.ceil(2 * most / _STEPS) * _STEPS)]
    return shlex.join(words)


def _document(found: Inspection) -> dict[str, Any]:
    assumptions = [{"name": a.name, "holds": a.holds, "why": a.why} for a in found.assumptions]
    return {
        "designs": found.rows(),
        "sentences": found.sentences,
        "methods": found.methods,
        "assumptions": assumptions,
    }


def _tune_mhlj(
    network: Network, problem: Problem, accuracy: float, folder: Path | None
) -> dict[str, Any]:
    """Find the best parameters of MHLJ, and draw the cost against p_jump if there is a folder."""
    from levywalk.theory import tune

    best = tune(network, problem, accuracy=accuracy)
    if folder is not None:
        from levywalk.report import plot

        plot(best, path=folder / "tune.png")
    return {
        "parameters": best.parameters,
        "steps": best.cost,
        "verdict": best.prediction.verdict,
        "curve": list(best.curve),
    }


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

    L, graph = found.smoothness, found.network
    print(*document["advice"], sep="\n")
    pair = document["recommended"]
    if pair is not None:
        size = pair["step_size"]
        given = "" if size is None else f" with step size {size:.3g}"
        print(f"If walk and update may remember, use {pair['pair']}{given}. {pair['why']}")
    print(document["phase"])
    print(
        f"\n{graph.name}: {graph.n:,} nodes, {graph.n_edges:,} edges, self-loops: "
        f"{graph.self_loops}; L is between {L.min():.3g} and {L.max():.3g}, {L.mean():.3g} on "
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
        "are they trusted?": lambda row: {True: "yes", False: "no", None: "–"}[
            row["steps_trusted"]
        ],
    }
    for label, cell in lines.items():
        table.add_row(label, *[cell(row) for row in rows])
    Console().print(table)
    for sentence in found.sentences:
        print(sentence)
    if found.verdicts:
        print("\nHow far the predictions can be trusted:")
        for verdict in found.verdicts:
            print(verdict)
    print("\nHow the numbers were found:")
    for method in found.methods:
        print(method)
    print("\nThe assumptions of the theorems:")
    print(found.assumptions)
    if "tuned" in document:
        best = document["tuned"]
        chosen = ", ".join(f"{key} = {value:g}" for key, value in best["parameters"].items())
        print(
            f"\nThe best parameters of MHLJ are {chosen}: {_count(best['steps'])} predicted steps, "
            f"{best['verdict']}."
        )


def _count(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value < 1e15 else "never"
