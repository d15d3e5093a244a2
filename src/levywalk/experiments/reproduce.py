"""Reproduce the paper: ask every claim, say what became of it, and whether that is what a full run has found before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.experiments.claims import CLAIMS
from levywalk.experiments.evidence import Evidence
from levywalk.experiments.jobs import run_all
from levywalk.experiments.judge import Claim
from levywalk.experiments.paper import LABELS, Effort
from levywalk.experiments.store import Store
from levywalk.experiments.study import measure
from levywalk.experiments.tuned import Outcome, Runner

EXPECTED = Path(__file__).with_name("expected_verdicts.json")


def stored(store: Store, workers: int | None = None, scheduler: str | None = None) -> Runner:
    """Return what carries out descriptions, each once: what the store holds is read.

    By default in this process: most pieces of work are shorter than the start of another one.
    """
    if workers is None and scheduler is None:
        workers = 0

    def run(descriptions: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        keys = run_all(descriptions, measure, store, workers=workers, scheduler=scheduler, progress=False)
        results = [store.load(key) for key in keys]
        assert all(result is not None for result in results)
        return [(dict(result.arrays), dict(result.numbers)) for result in results if result is not None]

    return run


def chosen(labels: Sequence[str]) -> list[Callable[[Evidence], Claim]]:
    """Return the claims of some labels, all of them if there are none.

    Examples
    --------
    >>> [claim.__name__ for claim in chosen(["grid", "homo"])]
    ['claim_1', 'claim_4']
    """
    for label in labels:
        if label not in LABELS:
            raise InvalidParameter(f"label must be of {', '.join(LABELS)}, got {label!r}")
    return [claim for claim, label in zip(CLAIMS, LABELS, strict=True) if not labels or label in labels]


def expected_verdicts(effort: Effort) -> dict[str, str]:
    """Return the verdicts that an earlier run of this effort found, by claim."""
    known: dict[str, dict[str, str]] = json.loads(EXPECTED.read_text())
    if effort.name not in known:
        raise InvalidParameter(f"check must be of an effort whose verdicts are known: {', '.join(known)}; give --quick")
    return known[effort.name]


def surprises(claims: Sequence[Claim], effort: Effort) -> list[str]:
    """Return, in words, the verdicts that differ from those expected."""
    expected = expected_verdicts(effort)
    return [
        f"claim {claim.id} [{claim.label}]: {claim.verdict}, expected: {expected[str(claim.id)]}"
        for claim in claims
        if claim.verdict != expected[str(claim.id)]
    ]


def as_json(claims: Sequence[Claim], effort: Effort, seconds: float) -> dict[str, Any]:
    """Return everything in plain numbers."""
    return {
        "claims": [claim.as_json() for claim in claims],
        "effort": effort.name,
        "instances": list(effort.seeds),
        "tuning_instances": list(effort.tuning_seeds),
        "walks": effort.walks,
        "accuracies": list(effort.accuracies),
        "seconds": round(seconds, 1),
    }


def markdown(claims: Sequence[Claim], effort: Effort, seconds: float) -> str:
    """Return the claims as a page.

    Examples
    --------
    >>> from levywalk.experiments.paper import QUICK
    >>> markdown([], QUICK, 1.0).splitlines()[0]
    '# The paper, claim by claim'
    """
    command = f"levywalk reproduce --all{' --quick' if effort.name == 'quick' else ''}"
    lines = [
        "# The paper, claim by claim",
        "",
        f"Written by `{command}` in {seconds / 60:.1f} minutes: {effort.instances} instances (seeds {effort.seeds[0]} "
        f"to {effort.seeds[-1]}) of {effort.walks} walks, step sizes tuned on {effort.tuning_instances} others. T is "
        "the number of steps to an accuracy; effects are medians over instances with 95 % bootstrap intervals over "
        "instances; a point says yes or no only if the whole interval does. What was decided beforehand is in "
        "`experiments/paper.py` and `experiments/claims.py`.",
        "",
        "| | claim | verdict | leading effect |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {claim.id} [{claim.label}] | {claim.text} | **{claim.verdict}** | {_effect(claim.leading)} |"
        for claim in claims
    ]
    for claim in claims:
        lines += ["", f"## {claim.id} [{claim.label}]: {claim.verdict}", "", f"{claim.text}.", ""]
        lines += ["| point | effect | answer |", "|---|---|---|"]
        lines += [
            f"| {point.where if point.primary else f'*{point.where}*'} | {_effect(point.ratio)} | {point.answer} |"
            for point in claim.points
        ]
    lines += ["", "Points in italics are secondary and change no verdict."]
    return "\n".join(lines) + "\n"


def _effect(found: Any) -> str:
    text = f"{found.effect:.3g} [{found.low:.3g}, {found.high:.3g}]"
    return text + (f", {found.undefined} of {found.of} undefined" if found.undefined else "")
