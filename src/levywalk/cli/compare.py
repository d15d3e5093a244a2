"""``levywalk compare``: a tuned comparison without an experiment file; it writes that file.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levywalk.cli.ctrl_c import RESUME, ends_by_ctrl_c
from levywalk.cli.finish import Fresh, Json, Out, Threads, carry_out, folder_for
from levywalk.cli.options import CostsText, MetricsText, PrivacyText, RankBy, typed_command
from levywalk.cli.report import write_on_one_core
from levywalk.cli.source_options import Data, Important, SourceOptions, with_source_options

FOLDER = "levywalk-compare"
EXAMPLES = """Examples:

levywalk compare ring:1000

levywalk compare ws:500,4,0.1 --important 2 --designs unif_rw,mhlj,mhlj:p_jump=0.3,max_hops=5

levywalk compare my.edges --data my.csv --loss logistic --ridge 0.01 --partition label \
--accuracy 0.05

levywalk compare ring:50 --data digits.csv --loss softmax --held-out 0.2 --metrics accuracy \
--rank-by accuracy --accuracy 0.9

levywalk compare grid:25,40 --designs mhlj,oldest_neighbour+point_saga --costs mobile

levywalk compare friends.graphml --data people.csv --node name --target income --largest-component

Parameters follow a colon: mhlj:p_jump=0.2, mixed_rw:mix=0.1, simple_rw:reweight=true."""


NetworkText = Annotated[
    str | None,
    typer.Argument(
        help="Network: ring:1000, grid:25,40, er:1000,0.1, ws:1000,4,0.1, …, or a network file."
    ),
]
Designs = Annotated[
    str,
    typer.Option(
        "--designs",
        help="Designs, separated by commas, such as unif_rw,mhlj:p_jump=0.2; with an update: "
        "mhlj+saga. A wrong name lists all.",
    ),
]
Updates = Annotated[int, typer.Option("--steps", help="Number of updates of each walk.")]
Replicas = Annotated[
    int, typer.Option("--replicas", help="Number of independent walks of each design.")
]
Accuracy = Annotated[
    float | None,
    typer.Option(
        "--accuracy",
        help="Accuracy to tune for, as a share of the initial error (default: 0.01). With "
        "--rank-by loss or a metric: a value of that (default: tune for the value at the end).",
    ),
]
TunedSize = Annotated[
    str,
    typer.Option(
        "--step-size", help="tuned (for each design), theory, or one number for all designs."
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the network, the data and the walks.")
]


@ends_by_ctrl_c(RESUME)
@with_source_options
def compare(
    context: typer.Context,
    sources: SourceOptions,
    network: NetworkText = None,
    data: Data = "heterogeneous",
    important: Important = None,
    designs: Designs = "unif_rw,weight_rw,mhlj",
    steps: Updates = 100_000,
    replicas: Replicas = 32,
    accuracy: Accuracy = None,
    metrics: MetricsText = None,
    rank_by: RankBy = None,
    step_size: TunedSize = "tuned",
    costs: CostsText = None,
    privacy: PrivacyText = None,
    seed: Seed = 0,
    threads: Threads = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Compare designs on a network, each at its own tuned step size, and write a report.

    It also writes experiment.toml, with which `levywalk run` gives the same result; change it for
    more.

    If it is interrupted, run the same command again to resume.
    """
    from levywalk import checks
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.execute import found_in_words
    from levywalk.experiments.experiment_file import may_write, write_experiment, written_experiment
    from levywalk.experiments.folder_report import PAGE
    from levywalk.experiments.shorthand import (
        design_settings,
        metric_names,
        network_settings,
        problem_settings,
        step_size_setting,
    )
    from levywalk.privacy import as_privacy
    from levywalk.trace import as_costs

    if network is None:
        raise InvalidParameter(
            "levywalk compare needs a network, such as `levywalk compare ring:1000`, or a file; "
            "--help has examples"
        )
    steps, replicas = (
        checks.integer("steps", steps, low=1),
        checks.integer("replicas", replicas, low=1),
    )
    share = rank_by in (None, "distance2", "excess_loss")
    if accuracy is not None and share and not 0.0 < accuracy < 1.0:
        raise InvalidParameter(
            f"accuracy must be between 0 and 1, a share of the initial error, got {accuracy:g}"
        )
    sections = {
        "network": network_settings(network, seed=seed, options=sources.network),
        "problem": problem_settings(data, important=important, seed=seed, options=sources.data),
        "designs": design_settings(designs),
    }
    as_costs(costs)  # refuses a wrong text before anything is written
    as_privacy(privacy)
    if out is not None:
        may_write(out)
    run = {
        "steps": steps,
        "replicas": replicas,
        "seed": seed,
        "step_size": step_size_setting(step_size),
        "accuracy": 0.01 if accuracy is None and share else accuracy,
        "metrics": metric_names(metrics),
        "rank_by": rank_by,
        "costs": costs,
        "privacy": privacy,
        "threads": threads,
    }
    wanted = Path(FOLDER) if out is None else out
    settings, spec = written_experiment(**sections, run=run, folder=wanted)
    spec.run.options()  # refuses what cannot be ranked by before anything is written
    folder = folder_for(out, wanted, spec, writes_file=True)
    settings, spec = written_experiment(**sections, run=run, folder=folder)
    ran = typed_command(context)
    carry_out(
        spec,
        folder,
        folder,
        command="compare",
        fresh=fresh,
        as_json=as_json,
        ran=ran,
        note=found_in_words,
        pages=lambda found: [
            *write_on_one_core(found, folder / PAGE),
            write_experiment(settings, folder, ran),
        ],
    )
