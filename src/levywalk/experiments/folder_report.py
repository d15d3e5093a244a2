"""Write the report of a folder of results, with the theory beside it where the experiment can be built again."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.experiments.inspect import inspect
from levywalk.experiments.spec import Experiment, check_experiment
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.progress import Bar
from levywalk.report.page.build import claims_page, html_page, page_curves, write_page
from levywalk.report.page.images import FigureImage
from levywalk.report.page.theory import Theory
from levywalk.report.results import Results, asked_beside, figures_beside, read_results
from levywalk.theory import bounds
from levywalk.walks import AnyDesign, Design

MOST_NODES = 2_000  # above, spectra take minutes


def write_report(
    folder: str | Path, out: str | Path | None = None, *, figures: bool = False, progress: bool | None = None
) -> list[Path]:
    """Write ``report.html`` into the folder, or ``out``, and if asked the figures for a paper; return the files.

    Examples
    --------
    >>> write_report("nowhere")
    Traceback (most recent call last):
    levywalk.errors.MissingFile: nowhere is not a folder; `levywalk run experiment.toml --out DIR` writes such a folder
    """
    folder = Path(folder)
    results = read_results(folder)
    path = folder / "report.html" if out is None else Path(out)
    if not path.parent.is_dir() or path.is_dir():
        raise InvalidParameter(f"out must name a file in a folder that exists, got {str(path)!r}")
    if isinstance(results, list):
        if figures:
            raise InvalidParameter(f"figures need traces, and {folder} has claims alone; leave --figures out")
        pictures = [FigureImage(title, file.read_bytes()) for title, file in figures_beside(folder).items()]
        return [write_page(claims_page(results, pictures, asked_beside(folder)), path)]
    curves = page_curves(results)
    command = f"levywalk run experiment.toml --out {shlex.quote(folder.resolve().name)}"
    theory = theory_beside(results, folder, progress)
    written = [write_page(html_page(results, command=command, theory=theory, curves=curves), path)]
    if figures:
        from levywalk.report.figures.column import paper_figures

        written += paper_figures(results, curves, path.parent)
    return written


def theory_beside(results: Results, folder: Path, progress: bool | None = None) -> Theory:
    """Judge each design on the network and data of the run; where that cannot be, say why."""
    nodes = next(iter(results.traces.values())).target.size
    if nodes > MOST_NODES:
        return _without(f"the network has {nodes:,} nodes, and spectra are computed here up to {MOST_NODES:,}")
    if not results.settings:
        return _without("the folder does not hold the experiment’s settings")
    try:
        experiment = check_experiment(results.settings, "settings in result.json")
        network, problem, designs = _parts(experiment, folder)
    except LevywalkError as error:
        return _without(f"network and data cannot be built again ({str(error).splitlines()[0]})")
    ran = next(iter(results.traces.values())).provenance
    for key, thing in (("network", network), ("problem", problem)):
        if thing.fingerprint() != ran[key].get("fingerprint"):
            return _without(f"the {key} that the settings give now is not the one that was run")
    rows: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    with Bar("theory", len(results.traces), show=progress) as bar:
        for name in results.traces:
            try:
                rows[name], note = _judged(results, network, problem, name, designs[name])
                notes += [note] if note else []
            except LevywalkError as error:
                notes.append(f"{name} is left out: {error}")
            bar.advance(1)
    if rows:
        notes.append(
            "Predictions are for small step sizes and a start at x = 0. The floor is what the error tends to at the "
            "step size used: the bias of jumps plus the noise of the walk."
        )
    return Theory(rows, notes)


def _without(why: str) -> Theory:
    return Theory({}, [f"Left out: {why}. `levywalk inspect` judges a network and data before anything runs."])


def _parts(experiment: Experiment, folder: Path) -> tuple[Network, Any, dict[str, AnyDesign]]:
    """Build the experiment; its files are looked for beside the results, one folder up, and here."""
    places = [folder, folder.resolve().parent, Path()]
    for place in places[:-1]:
        try:
            return experiment.build(place)
        except LevywalkError:
            continue
    return experiment.build(places[-1])


def _judged(
    results: Results, network: Network, problem: Problem, name: str, design: AnyDesign
) -> tuple[dict[str, Any], str]:
    if not isinstance(design, Design):
        raise InvalidParameter("it changes on its way, so there is no one chain to judge")
    found = inspect(network, problem, {name: design}, accuracy=results.accuracy, progress=False)
    (row,) = found.rows()
    gamma = float(results.rows[name]["step_size"])
    guess = found.judgements[name].prediction
    if guess is not None and results.traces[name].provenance["update"] == "Sgd(minibatch=None)":
        row["floor"] = guess.bias2 + gamma * guess.noise
    row["bound"] = _bound(results, network, problem, name, design, gamma)
    return row, found.sentences[0] if row["score"] > 2.0 else ""


def _bound(
    results: Results, network: Network, problem: Problem, name: str, design: Design, gamma: float
) -> dict[str, float] | None:
    """Return the corrected bound's terms, relative to the first error, where they are finite."""
    local = getattr(problem, "local_strong_convexity", None)
    if local is None or not np.min(local) > 0.0:
        return None
    found = bounds(
        network, problem, design, steps=max(1, int(results.traces[name].step[-1])), step_size=gamma, form="corrected"
    )
    terms = found.forms["corrected"]
    parts = {
        key: getattr(terms, key) / found.constants.initial2 for key in ("transient", "variance", "bias", "remainder")
    }
    return parts if all(math.isfinite(part) for part in parts.values()) else None
