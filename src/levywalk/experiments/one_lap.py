"""The demo's last panel: a trapped walk, one freed by jumps, and one lap of the ring to 1e-6."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from levywalk.engine import run
from levywalk.experiments.spec import check_experiment
from levywalk.trace import Comparison, Trace
from levywalk.trace.statistics import mean_over_walks, settled_at
from levywalk.updates.newton_token import newton_token
from levywalk.walks.oldest_neighbour import oldest_neighbour

ACCURACY = 1e-6
EXACT = 1e-18  # a squared relative error that only rounding leaves
TRAPPED, FREED, LAP = "WeightRW", "MHLJ", "oldest neighbour + Newton token"


def one_lap(result: Comparison, threads: int | None = None) -> Trace:
    """Run a walk and an update with memory for two laps on the network and data of the demo."""
    experiment = check_experiment(result.settings, "the demo")
    network, problem, _ = experiment.build(Path())
    steps = 2 * network.n
    return run(
        network,
        problem,
        oldest_neighbour().called(LAP),
        steps=steps,
        step_size="theory",
        replicas=experiment.run.replicas,
        seed=experiment.run.seed,
        record_every=max(1, network.n // 200),
        record_visits=False,
        threads=threads,
        update=newton_token(),
    )


def lap_sentence(lap: Trace) -> str:
    """Return one sentence about the lap, with its numbers."""
    sent, exact = _transfers_to(lap, ACCURACY), _transfers_to(lap, EXACT)
    if not math.isfinite(sent):
        return f"{LAP} did not reach {ACCURACY:g} within two laps."
    end = f", and the optimum up to rounding after {exact:,.0f}, one lap of the ring"
    return (
        f"A walk and an update that remember ({LAP}) reach {ACCURACY:g} of the initial error after "
        f"{sent:,.0f} transfers{end if math.isfinite(exact) else ''}: see lw.recommended and "
        "`levywalk league`."
    )


def _transfers_to(lap: Trace, accuracy: float) -> float:
    """Return how many transfers it takes until the mean error stays at or below the accuracy."""
    step = float(settled_at(lap.step, mean_over_walks(lap.error)[None], accuracy)[0])
    if not math.isfinite(step):
        return math.inf
    return float(lap.transfers[:, int(np.searchsorted(lap.step, step))].mean())


def write_one_lap(result: Comparison, lap: Trace, folder: Path) -> Path:
    """Draw the panel into the folder, and return the file."""
    from levywalk.report.figures.one_lap import draw_one_lap

    traces = {f"{TRAPPED}: trapped": TRAPPED, f"{FREED}: freed by jumps": FREED}
    shown = {label: result.traces[name] for label, name in traces.items() if name in result.traces}
    # Each design has the colour that it has in the demo's figure.
    places = [list(result.traces).index(traces[label]) for label in shown]
    path = folder / "one-lap.png"
    draw_one_lap({**shown, f"{LAP}: one lap": lap}, [*places, len(result.traces)], path)
    return path
