"""The demo: the paper's own example, [simentrap], on one instance, at the signal to noise that its
published curve fits.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path

from levywalk.experiments.compare import compare
from levywalk.experiments.spec import Experiment, check_experiment
from levywalk.trace import Comparison

NODES = 1000
IMPORTANT = 2
SNR = 33_000.0  # ‖truth‖²/noise²: docs/paper.md, "Signal to noise"
STEPS = 8_000  # a little more than the slowest method needs, so that all of them fill the figure
ACCURACY = 0.001
REPLICAS = 64
_KINDS = {
    "UnifRW": "unif_rw",
    "WeightRW": "weight_rw",
    "MHLJ": "mhlj",
    "i.i.d. weighted": "iid_weighted",
}


def demo_experiment(seed: int = 0, *, steps: int = STEPS, replicas: int = REPLICAS) -> Experiment:
    """Return the demo as an experiment; `levywalk run` gives the same result for it.

    Examples
    --------
    >>> list(demo_experiment(7).designs), demo_experiment(7).run.seed
    (['UnifRW', 'WeightRW', 'MHLJ', 'i.i.d. weighted'], 7)
    """
    run = {
        "steps": steps,
        "replicas": replicas,
        "accuracy": ACCURACY,
        "seed": seed,
        "record_every": max(1, steps // 1000),
        "record_walk": True,
    }
    return check_experiment(
        {
            "network": {"family": "ring", "n": NODES},
            "problem": {
                "data": "heterogeneous",
                "important": IMPORTANT,
                "snr": SNR,
                "seed": seed,
            },
            "run": run,
            "designs": {name: {"kind": kind} for name, kind in _KINDS.items()},
            "output": {"folder": "levywalk-demo"},
        },
        "the demo",
    )


def demo(
    seed: int = 0,
    *,
    steps: int = STEPS,
    replicas: int = REPLICAS,
    threads: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compare UnifRW, WeightRW, MHLJ and weighted i.i.d. sampling on Ring(1000) with two important
    nodes, tuned.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():  # so few steps are not enough
    ...     warnings.simplefilter("ignore")
    ...     result = demo(steps=400, replicas=2)
    >>> list(result.traces)
    ['UnifRW', 'WeightRW', 'MHLJ', 'i.i.d. weighted']
    """
    experiment = demo_experiment(seed, steps=steps, replicas=replicas)
    network, problem, designs = experiment.build(Path())
    options = experiment.run.options() | {"threads": threads}
    result = compare(network, problem, designs, progress=progress, **options)
    settings = experiment.model_dump(mode="json")
    return replace(result, settings=settings, command=demo_command(seed))


def sentence(result: Comparison) -> str:
    """Return one sentence that explains the demo's table, with its numbers."""
    dwell = {name: int(trace.longest_dwell()[0].max()) for name, trace in result.traces.items()}
    steps = result.steps_to
    goal = result.ranking.goal

    def reached(name: str) -> str:
        return (
            f"{steps[name]:,.0f}"
            if math.isfinite(steps[name])
            else f"more than {int(result.traces[name].step[-1]):,}"
        )

    weight, jump, server = "WeightRW", "MHLJ", "i.i.d. weighted"
    if math.isfinite(steps[jump]) and math.isfinite(steps[weight]):
        ratio = steps[weight] / steps[jump]
        effect = (
            f", {ratio:.1f} times fewer than WeightRW"
            if ratio >= 1.0
            else f", {1 / ratio:.1f} times more than WeightRW"
        )
    else:
        effect = ""
    return (
        f"To {goal}, uniform sampling (UnifRW) is slow: it needs {reached('UnifRW')} steps, "
        f"because its step size must suit the few important nodes. A server that prefers them "
        f"needs {reached(server)}, but a model that walks there by Metropolis-Hastings (WeightRW) "
        f"is trapped: it makes up to {dwell[weight]:,} updates in a row at one node, and needs "
        f"{reached(weight)}; with Lévy jumps (MHLJ) it is not trapped: it never stayed longer than "
        f"{dwell[jump]:,} and needed {reached(jump)}{effect}. {NOISY}"
    )


NOISY = (
    "This is the paper's ring at the signal to noise of its published curve, about 33,000; with "
    "noise as large as its text says (signal to noise 10) all methods soon reach their noise "
    "floors, and to 1 % MHLJ is no faster than UnifRW (docs/paper.md)."
)


def demo_command(seed: int = 0) -> str:
    """Return the command that gives the same result as the demo.

    Examples
    --------
    >>> demo_command(7)
    'levywalk demo --seed 7'
    """
    return f"levywalk demo --seed {seed}"


def write_demo_report(result: Comparison, folder: Path) -> Path:
    """Write the demo's report.html into the folder, without the theory, which takes longer."""
    from levywalk.experiments.folder_report import PAGE, rerun_command
    from levywalk.report.page.build import html_page, write_page
    from levywalk.report.page.theory import Theory

    name = shlex.quote(folder.resolve().name)
    note = (
        "The demo leaves out spectral gaps and predictions, because they take longer; "
        f"`levywalk report {name}` adds them."
    )
    page = html_page(result, command=rerun_command(folder), theory=Theory({}, [note]))
    return write_page(page, folder / PAGE)
