"""Write report.html for a comparison or for a folder of results, with the theory beside the
numbers.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.experiments.inspect import inspect
from levywalk.experiments.spec import Experiment, check_experiment
from levywalk.inside import inside
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.progress import Bar
from levywalk.report.claims_file import CLAIMS, figure_files, read_claims, read_how_asked
from levywalk.report.curves import curves_of
from levywalk.report.page.build import claims_page, html_page, write_page
from levywalk.report.page.images import FigureImage
from levywalk.report.page.theory import Theory
from levywalk.room import at_most
from levywalk.theory import bounds
from levywalk.theory.chain.transition import require_design
from levywalk.trace import Comparison
from levywalk.trace.comparison_files import RESULT, require_folder
from levywalk.trace.provenance import is_plain_sgd, text_of
from levywalk.trace.ranking import Criterion
from levywalk.updates import Update
from levywalk.walks import Design, Walk

MOST_NODES = 2_000  # for larger networks, spectra take minutes
PAGE = "report.html"
_STRANGERS = 512 << 20  # bytes of the network, and of the data, that somebody else's settings give


def write_report(
    source: Comparison | str | Path,
    out: str | Path | None = None,
    *,
    figures: bool = False,
    own_files: bool = False,
    progress: bool | None = None,
) -> list[Path]:
    """Write a comparison, or what a folder holds, as one HTML page that opens offline; return the
    files.

    Parameters
    ----------
    source
        A comparison, or a folder that `Comparison.save`, `levywalk run`, `compare`, `demo` or
        `reproduce` wrote. The page of a comparison in memory and that of the folder it was saved to
        are the same.
    out
        The file to write; default: report.html in the folder, or here for a comparison.
    figures
        Whether to write each figure for a paper as well, as PDF and PNG, beside the page.
    own_files
        Whether the folder's results are your own, so that files that they name may be read wherever
        they are. By default only files inside the folder are read, since the folder may come from
        somebody else; without its network or data, the page has no theory.
    progress
        Whether to show a progress bar; default: in a notebook, or if stderr is a
        terminal.

    Examples
    --------
    >>> write_report("nowhere")
    Traceback (most recent call last):
    levywalk.errors.MissingFile: nowhere is not a folder;
        `levywalk run experiment.toml --out DIR` ...
    """
    in_memory = isinstance(source, Comparison)
    folder = Path() if isinstance(source, Comparison) else require_folder(source)
    if not in_memory and not own_files:
        _stay_inside(folder)
    claims = [] if in_memory else read_claims(folder)
    if not isinstance(source, Comparison):
        alone = (folder / CLAIMS).exists() and not (folder / RESULT).exists()
        if alone:
            return [_write_claims(claims, folder, _page_file(folder, out), figures)]
        source = Comparison.load(folder)
    path = _page_file(folder, out)
    place = path.parent if in_memory else folder
    curves = curves_of(source)
    theory = theory_beside(source, place, progress, own_files=own_files or in_memory)
    command = rerun_command(place) if source.settings else ""
    page = html_page(source, command=command, theory=theory, curves=curves, claims=claims)
    written = [write_page(page, path)]
    if figures:
        from levywalk.report.figures.column import paper_figures

        written += paper_figures(source, curves, path.parent)
    return written


def _stay_inside(folder: Path) -> None:
    """Refuse a folder with a link that would make the report read or write elsewhere."""
    for name in (RESULT, CLAIMS, PAGE, *(path.name for path in folder.glob("*.nc"))):
        inside(folder, name)


def rerun_command(folder: Path) -> str:
    """Return the command that repeats an experiment, once its settings are saved as
    experiment.toml.

    Examples
    --------
    >>> rerun_command(Path("my results"))
    "levywalk run experiment.toml --out 'my results'"
    """
    return f"levywalk run experiment.toml --out {shlex.quote(folder.resolve().name)}"


def _page_file(folder: Path, out: str | Path | None) -> Path:
    path = folder / PAGE if out is None else Path(out)
    if not path.parent.is_dir() or path.is_dir():
        raise InvalidParameter(f"out must name a file in a folder that exists, got {str(path)!r}")
    return path


def _write_claims(claims: list[dict[str, Any]], folder: Path, path: Path, figures: bool) -> Path:
    if figures:
        raise InvalidParameter(
            f"figures need traces, and {folder} has claims alone; leave --figures out"
        )
    images = [FigureImage(title, file.read_bytes()) for title, file in figure_files(folder).items()]
    return write_page(claims_page(claims, images, read_how_asked(folder)), path)


def theory_beside(
    results: Comparison,
    folder: Path,
    progress: bool | None = None,
    *,
    own_files: bool = True,
) -> Theory:
    """Judge each design on the network and the data of the run; if that is not possible, say
    why.

    Without ``own_files`` only files inside the folder are read, and little memory is taken.
    """
    if results.rank_by != Criterion.DISTANCE2:
        return _without(
            f"designs were ranked by {results.ranking.quantity}, and the theory is about the "
            "distance to the optimum"
        )
    ran = next(iter(results.traces.values()))
    nodes = ran.target.size
    if nodes > MOST_NODES:
        return _without(
            f"the network has {nodes:,} nodes, and spectra are computed here up to {MOST_NODES:,}"
        )
    if not results.settings:
        return _without("the folder does not hold the experiment’s settings")
    try:
        experiment = check_experiment(results.settings, f"settings in {RESULT}")
        network, problem, designs = (
            _parts(experiment, folder) if own_files else _parts_inside(experiment, folder)
        )
    except LevywalkError as error:
        return _without(f"network and data cannot be built again ({str(error).splitlines()[0]})")
    for key, thing in (("network", network), ("problem", problem)):
        if thing.fingerprint() != ran.provenance[key].get("fingerprint"):
            return _without(f"the {key} that the settings give now is not the one that was run")
    rows: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    with Bar("theory", len(results.traces), show=progress) as bar:
        for name in results.traces:
            try:
                rows[name], found = _theory_row(results, network, problem, name, designs[name])
                notes += found
            except LevywalkError as error:
                notes.append(f"{name} is left out: {error}")
            bar.advance(1)
    if rows:
        notes.append(
            "Predictions are for small step sizes and a start at x = 0. The floor is the value "
            "that the "
            "error tends to at the step size used: the bias of jumps plus the noise of the walk."
        )
    return Theory(rows, notes)


def _without(why: str) -> Theory:
    return Theory(
        {},
        [f"Left out: {why}. `levywalk inspect` judges a network and data before anything runs."],
    )


def _parts(experiment: Experiment, folder: Path) -> tuple[Network, Any, dict[str, Walk]]:
    """Build the experiment; its files are looked for beside the results, one folder up,
    and here.
    """
    places = [folder, folder.resolve().parent, Path()]
    for place in places[:-1]:
        try:
            return _walks_of(*experiment.build(place))
        except LevywalkError:
            continue
    return _walks_of(*experiment.build(places[-1]))


def _parts_inside(experiment: Experiment, folder: Path) -> tuple[Network, Any, dict[str, Walk]]:
    """Build an experiment of somebody else: its files lie in the folder, and it is small."""
    for section in (experiment.network, experiment.problem):
        if hasattr(section, "file"):
            inside(folder, section.file)
    with at_most(_STRANGERS):
        return _walks_of(*experiment.build(folder))


def _walks_of(
    network: Network, problem: Problem, methods: Mapping[str, Walk | tuple[Walk, Update]]
) -> tuple[Network, Any, dict[str, Walk]]:
    """Return the parts with the walk of each method: theory judges walks."""
    walks = {
        name: value[0] if isinstance(value, tuple) else value for name, value in methods.items()
    }
    return network, problem, walks


def _theory_row(
    results: Comparison, network: Network, problem: Problem, name: str, design: Walk
) -> tuple[dict[str, Any], list[str]]:
    """Return what theory says about a method, and sentences about it."""
    if len(design.phases) > 1:
        raise InvalidParameter("it changes during the run, so there is no single chain to judge")
    design = require_design(network, problem, design)  # says why another walk has no answer
    assert results.accuracy is not None
    found = inspect(network, problem, {name: design}, accuracy=results.accuracy, progress=False)
    (row,) = found.rows()
    gamma = results.step_size[name]
    notes = [found.sentences[0]] if row["score"] > 2.0 else []
    update = results.traces[name].provenance.get("update")
    if not is_plain_sgd(update):
        row |= dict.fromkeys(("steps", "steps_trusted", "bias2"))
        told = text_of(update) or "not known"
        return row, [
            *notes,
            f"{name}: floor, steps and bound are left out, because theory predicts plain SGD on "
            f"all samples of a node and the update is {told}. The other columns are about the "
            "walk alone.",
        ]
    guess = found.judgements[name].prediction
    if guess is not None:
        row["floor"] = guess.bias2 + gamma * guess.noise
    row["bound"] = _bound(results, network, problem, name, design, gamma)
    return row, notes


def _bound(
    results: Comparison, network: Network, problem: Problem, name: str, design: Design, gamma: float
) -> dict[str, float] | None:
    """Return the terms of the corrected bound, relative to the initial error, if they are
    finite.
    """
    local = getattr(problem, "local_strong_convexity", None)
    if local is None or not np.min(local) > 0.0:
        return None
    steps = max(1, int(results.traces[name].step[-1]))
    found = bounds(network, problem, design, steps=steps, step_size=gamma, form="corrected")
    terms = found.forms["corrected"]
    parts = {
        key: getattr(terms, key) / found.constants.initial2
        for key in ("transient", "variance", "bias", "remainder")
    }
    return parts if all(math.isfinite(part) for part in parts.values()) else None
