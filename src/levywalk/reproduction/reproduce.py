"""Reproduce the paper: check every claim, draw every figure, and compare the verdicts with the
expected ones.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.errors import InvalidParameter
from levywalk.experiments.folder_report import write_report
from levywalk.notebook import table_html
from levywalk.report.page.claims import answers_text, besides, effect_text
from levywalk.reproduction.claims import CLAIMS
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_recipes import FIGURES, figures_of
from levywalk.reproduction.measurement import measure
from levywalk.reproduction.paper import LABELS, Effort
from levywalk.reproduction.regions import picture, region_name
from levywalk.reproduction.time_estimate import Question, TimeEstimateBar
from levywalk.reproduction.tuning import Outcome, Runner
from levywalk.reproduction.verdicts import Claim
from levywalk.sweeps.jobs import keys_of, run_all
from levywalk.sweeps.store import ResultStore, canonical
from levywalk.sweeps.workers import Workers
from levywalk.version import __version__

EXPECTED = Path(__file__).with_name("expected_verdicts.json")
STORE = "store"
DRAWN = "figures"  # the folder of the figures, beside the claims
FORMATS = ("png", "pdf")

Tell = Callable[[Sequence[Mapping[str, Any]], int, float], None]


@dataclass(frozen=True, repr=False)
class Reproduction:
    """The result of `levywalk reproduce`: the claims, and the files of the figures by name."""

    command: str
    effort: Effort
    claims: tuple[Claim, ...]
    figures: Mapping[str, Sequence[Path]]
    seconds: float
    networks: Mapping[
        str, int
    ]  # random networks, and how often each was drawn again because it was not connected

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{claim.label} {claim.verdict}" for claim in self.claims)
        return f"Reproduction({verdicts or 'no claims'}; {len(self.figures)} figures)"

    def _repr_html_(self) -> str:
        lines = [
            (f"{claim.id} [{claim.label}] {claim.text}", claim.verdict) for claim in self.claims
        ]
        return table_html(lines, f"Claims of the paper, {self.effort.name} effort")

    def _title(self, name: str) -> str:
        regions = {region_name(claim): f"[{claim.label}] where it holds" for claim in self.claims}
        return regions[name] if name in regions else FIGURES[name].title

    def document(self, folder: Path) -> dict[str, Any]:
        """Return everything as plain JSON; files are relative to the folder."""
        return {
            "claims": [claim.as_json() for claim in self.claims],
            "figures": [
                {
                    "name": name,
                    "title": self._title(name),
                    "files": [path.relative_to(folder).as_posix() for path in files],
                }
                for name, files in self.figures.items()
            ],
            "command": self.command,
            "effort": self.effort.name,
            "instances": list(self.effort.seeds),
            "tuning_instances": list(self.effort.tuning_seeds),
            "walks": self.effort.walks,
            "accuracies": list(self.effort.accuracies),
            "snr": list(self.effort.snrs),
            "networks": len(self.networks),
            "redrawn": sum(again > 0 for again in self.networks.values()),
            "seconds": round(self.seconds, 1),
            "levywalk": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
        }


def reproduce(
    labels: Sequence[str],
    effort: Effort,
    folder: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    figures: bool = True,
    progress: bool | None = None,
) -> Reproduction:
    """Check the claims of some labels (all, if there are none) and draw their figures into the
    folder.

    Parameters
    ----------
    workers, scheduler
        As in `levywalk.sweeps.jobs.run_all`. The results are the same to the bit, whatever is used.
    progress
        Whether to show a progress bar with the time left; default: in a notebook, or if stderr is a
        terminal.
    """
    claims = chosen_claims(labels)
    names = figures_of(spelled_labels(labels)) if figures else []
    if not (claims or names):
        raise InvalidParameter(
            f"{', '.join(labels)} have only figures, and figures are switched off; leave "
            f"--no-figures out"
        )
    questions: dict[str, Question] = dict(claims)
    questions |= {f"figure {name}": partial(_gathered, name=name) for name in names}
    began = time.perf_counter()
    found: list[Claim] = []
    files: dict[str, Sequence[Path]] = {}
    networks: dict[str, int] = {}
    with (
        TimeEstimateBar(questions, effort, show=progress) as bar,
        Workers(workers, scheduler) as crew,
    ):
        evidence = Evidence(
            effort,
            counting_runner(
                stored_runner(ResultStore(folder / STORE), crew, bar.answered), networks
            ),
        )
        for label, ask in claims.items():
            bar.begin(label)
            found.append(ask(evidence))
            if figures:
                files |= _region(found[-1], folder)
        for name in names:
            bar.begin(f"figure {name}")
            files[name] = _drawn(evidence, name, folder)
    command = (
        f"levywalk reproduce {' '.join(labels) or '--all'}"
        f"{' --quick' if effort.name == 'quick' else ''}"
        f"{' --seeds second' if effort.name == 'second' else ''}"
    )
    return Reproduction(command, effort, tuple(found), files, time.perf_counter() - began, networks)


def counting_runner(runner: Runner, networks: dict[str, int]) -> Runner:
    """Return the runner; it also counts how often each random network had to be drawn again."""

    def run(descriptions: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        outcomes = runner(descriptions)
        for description, (_, numbers) in zip(descriptions, outcomes, strict=True):
            if "seed" in description["network"]:
                networks[canonical(description["network"])] = int(numbers["redraws"])
        return outcomes

    return run


def _gathered(evidence: Evidence, name: str) -> object:
    from levywalk.reproduction.figure_contents import figure_data

    return figure_data(evidence, name)


def _drawn(evidence: Evidence, name: str, folder: Path) -> list[Path]:
    from levywalk.reproduction.figure_contents import write_figures

    return write_figures(evidence, [name], folder / DRAWN, FORMATS)


def _region(claim: Claim, folder: Path) -> dict[str, Sequence[Path]]:
    """Draw where a claim holds, if it has cells enough for a picture."""
    from levywalk.report.figures.regions import write_region

    data = picture(claim)
    return {} if data is None else {data.name: write_region(data, folder / DRAWN, FORMATS)}


def stored_runner(
    store: ResultStore, workers: int | Workers | None = None, tell: Tell | None = None
) -> Runner:
    """Return a function that computes descriptions, each once; results that the store holds are
    read.

    ``tell`` is called with the descriptions, the number of them that were computed, and the seconds
    that took.
    """

    def run(descriptions: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        began = time.perf_counter()
        missing = sum(not store.path(key).exists() for key in set(keys_of(descriptions, measure)))
        keys = run_all(descriptions, measure, store, workers=workers, progress=False)
        if tell is not None:
            tell(descriptions, missing, time.perf_counter() - began)
        results = [store.load(key) for key in keys]
        assert all(result is not None for result in results)
        return [
            (dict(result.arrays), dict(result.numbers)) for result in results if result is not None
        ]

    return run


def spelled_labels(labels: Sequence[str]) -> list[str]:
    """Return the labels as claims and figures spell them; a user may leave out capitals and the
    prefix "fig:".

    Examples
    --------
    >>> spelled_labels(["decay", "gap"])
    ['Decay', 'decay', 'gap']
    >>> spelled_labels(["rings"])
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: label must be one of homo, hete, ...; got 'rings'
    """
    known = dict.fromkeys(LABELS)
    for name, recipe in FIGURES.items():
        known |= dict.fromkeys((*recipe.labels, name))
    found = []
    for label in labels:
        same = [other for other in known if _bare(other) == _bare(label)]
        if not same:
            named = {_bare(other): other for other in reversed(known)}
            shown = ", ".join(other for other in known if other in named.values())
            raise InvalidParameter(f"label must be one of {shown}; got {label!r}")
        found += same
    return found


def _bare(label: str) -> str:
    return label.lower().removeprefix("fig:")


def chosen_claims(labels: Sequence[str]) -> dict[str, Callable[[Evidence], Claim]]:
    """Return the claims of some labels (all, if there are none).

    Examples
    --------
    >>> [claim.__name__ for claim in chosen_claims(["grid", "homo"]).values()]
    ['claim_1', 'claim_4']
    """
    asked = spelled_labels(labels)
    return {
        label: claim
        for label, claim in zip(LABELS, CLAIMS, strict=True)
        if not labels or label in asked
    }


def expected_verdicts(effort: Effort) -> dict[str, str]:
    """Return the verdicts that an earlier run of this effort found, by claim."""
    known: dict[str, dict[str, str]] = json.loads(EXPECTED.read_text())
    if effort.name not in known:
        raise InvalidParameter(
            f"--check needs an effort whose verdicts are known: {', '.join(known)}; give --quick"
        )
    return known[effort.name]


def unexpected_verdicts(claims: Sequence[Claim], effort: Effort) -> list[str]:
    """Return, as text, the verdicts that differ from the expected ones."""
    expected = expected_verdicts(effort)
    return [
        f"claim {claim.id} [{claim.label}]: {claim.verdict}, expected: {expected[str(claim.id)]}"
        for claim in claims
        if claim.verdict != expected[str(claim.id)]
    ]


def write_reproduction(found: Reproduction, folder: Path) -> list[Path]:
    """Write the claims as JSON, as Markdown and as a page that contains the figures; return these
    files.
    """
    document = found.document(folder)
    numbers, text = folder / "claims.json", folder / "claims.md"
    numbers.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text.write_text(markdown(document), encoding="utf-8")
    return [text, numbers, *write_report(folder)]


def markdown(document: Mapping[str, Any]) -> str:
    """Return the content of claims.json as Markdown, with links to the figures.

    Examples
    --------
    >>> from levywalk.reproduction.paper import QUICK
    >>> markdown(
    ...     Reproduction("levywalk reproduce", QUICK, (), {}, 1.0, {}).document(Path())
    ... ).splitlines()[0]
    '# The paper, claim by claim'
    """
    lines = ["# The paper, claim by claim", "", *_introduction(document), ""]
    claims, figures = document["claims"], document["figures"]
    if claims:
        lines += _table(
            ["", "claim", "verdict", "points that say yes", "first effect"],
            [
                [
                    _name(c),
                    c["text"],
                    f"**{c['verdict']}**",
                    answers_text(c["points"]),
                    effect_text(c),
                ]
                for c in claims
            ],
        )
    for claim in claims:
        lines += [
            "",
            f"## {_name(claim)}: {claim['verdict']}",
            "",
            f"{claim['text']}.",
            "",
            *_where(claim),
            *_points(claim["points"]),
        ]
        lines += [
            line for figure in figures if _shows(figure, claim) for line in ("", *_figure(figure))
        ]
    others = [figure for figure in figures if not any(_shows(figure, claim) for claim in claims)]
    if others:
        lines += ["", "## More figures" if claims else "## Figures"]
        lines += [line for figure in others for line in ("", *_figure(figure))]
    return "\n".join(lines) + "\n"


def _introduction(document: Mapping[str, Any]) -> list[str]:
    """Return how the claims were checked, one sentence a line."""
    seeds, others = document["instances"], document["tuning_instances"]
    return [
        f"Written by `{document['command']}` in {document['seconds'] / 60:.1f} minutes.",
        f"There are {len(seeds)} instances (seeds {seeds[0]} to {seeds[-1]}) of "
        f"{document['walks']} walks; step sizes were tuned on {len(others)} other instances "
        f"(seeds {others[0]} to {others[-1]}).",
        "The data are as drawn, with one important node or more (seeds without one are passed "
        "over), and the start is uniform.",
        f"Of {document['networks']} random networks {document['redrawn']} were not connected and "
        "were drawn again.",
        "What was decided beforehand is in `reproduction/paper.py`; "
        "the rules are in `reproduction/verdicts.py`.",
        "",
        "- SNR is ‖truth‖²/noise² at unit feature variance: 10 is x ~ N(0, I) with noise 1, on "
        "average; 115 and 33,000 are what the published curves fit "
        "(docs/paper.md, “Signal to noise”).",
        "- MHLJ(0.1) jumps as the paper prints, MHLJ(0.9) as the published code jumps "
        "(docs/paper.md, “What the published code does”).",
        "- T is the number of steps to an accuracy (relative ‖x − x*‖², the mean over walks).\n"
        "  `A/B on ring, SNR 10, 3 %` is T(A)/T(B) there, so A is faster if it is below 1.",
        "- Effects are medians over instances, with the exact interval of a median over instances, "
        "widened by what other tuning instances would have chosen.\n"
        "  A method that does not reach the accuracy needs infinitely many steps; an instance "
        "is *undefined* if neither method reaches it, and a cell with more than half of them "
        "undefined is unclear.",
        "- A cell says yes or no only if its whole interval does.\n"
        "  A claim with m cells has intervals of the level 1 − 0.05/m (Bonferroni), so that with "
        "95 % confidence none of its answers is wrong.",
        "- A claim **holds** if all its cells say yes, **holds in part** if some do; then its "
        "picture and the words below it say where.\n"
        "  Cells that are only shown change no verdict.",
        "- The columns after the answer repeat the comparison by another measure.\n"
        "  They change no verdict either.",
    ]


def _shows(figure: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Return whether a figure belongs to a claim."""
    if figure["name"] == f"where-{claim['id']}":
        return True
    return figure["name"] in FIGURES and claim["label"] in FIGURES[figure["name"]].labels


def _where(claim: Mapping[str, Any]) -> list[str]:
    """Return where a claim holds, row by row, and the level of its intervals."""
    lines = []
    if claim["verdict"] not in ("holds", "undecided") and claim.get("where"):
        lines = [f"- {part}" for part in str(claim["where"]).split(" | ")] + [""]
    level = claim.get("level")
    if isinstance(level, float):
        lines += [f"Intervals have the level {100.0 * level:.5g} %.", ""]
    return lines


def _name(claim: Mapping[str, Any]) -> str:
    return f"{claim['id']} [{claim['label']}]"


def _points(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the primary points as a table, and the secondary ones as another, to be opened."""
    primary, secondary = (
        [point for point in points if point["primary"] == kind] for kind in (True, False)
    )
    lines = _answers(primary)
    if secondary:
        summary = f"{len(secondary)} shown point{'s' if len(secondary) > 1 else ''}"
        lines += [
            "",
            "<details>",
            f"<summary>{summary}</summary>",
            "",
            *_answers(secondary),
            "",
            "</details>",
        ]
    return lines


def _answers(points: Sequence[Mapping[str, Any]]) -> list[str]:
    more = besides(points)
    rows = [
        [
            point["where"],
            effect_text(point),
            point["answer"],
            *(effect_text(point["beside"].get(name)) for name in more),
        ]
        for point in points
    ]
    return _table(["point", "effect", "answer", *more], rows)


def _figure(figure: Mapping[str, Any]) -> list[str]:
    picture, *others = figure["files"]
    links = ", ".join(f"[{Path(name).suffix[1:].upper()}]({name})" for name in others)
    return [f"![{figure['title']}]({picture})", *([f"also as {links}"] if links else [])]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
