"""The time that is left: what questions ask for is what is counted beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from levywalk.experiments.tuning import GRID
from levywalk.reproduction import paper
from levywalk.reproduction.claims import CLAIMS
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_contents import figure_data
from levywalk.reproduction.figure_recipes import FIGURES
from levywalk.reproduction.time_estimate import TimeEstimate, TimeEstimateBar, cost, invented_result
from levywalk.sweeps.store import canonical

HOMO = {"homo": CLAIMS[0]}


@pytest.mark.more  # the next test counts one claim
def test_every_claim_and_figure_can_be_counted() -> None:
    questions: dict[str, Any] = dict(zip(paper.LABELS, CLAIMS, strict=True))
    questions |= {
        f"figure {name}": lambda evidence, name=name: figure_data(evidence, name)
        for name in FIGURES
    }
    estimate = TimeEstimate(questions, paper.QUICK)
    assert estimate.tasks > 1000
    assert estimate.share == 0.0


@pytest.mark.more
def test_what_is_asked_is_what_was_counted() -> None:
    estimate = TimeEstimate(HOMO, paper.QUICK)
    estimate.begin("homo")
    asked = set()

    def runner(descriptions: Any) -> Any:
        asked.update(canonical(description) for description in descriptions)
        estimate.answered(descriptions, len(descriptions), 1.0)
        return [invented_result(description) for description in descriptions]

    CLAIMS[0](Evidence(paper.QUICK, runner))
    assert estimate.done == estimate.tasks == len(asked)
    assert estimate.share == pytest.approx(1.0)
    assert estimate.left() == 0.0


def test_the_time_left_follows_what_was_computed_and_not_what_was_read() -> None:
    estimate = TimeEstimate(HOMO, paper.QUICK)
    estimate.begin("homo")
    pieces = list(
        paper.tuning(
            paper.scene_of("er-homogeneous@10"), paper.METHODS[paper.UNIF], paper.QUICK, GRID
        )
    )
    estimate.answered(pieces[:1], 0, 0.001)  # read
    assert estimate.left() is None
    estimate.answered(pieces[1:2], 1, 10 * cost(pieces[1]))
    first = estimate.left()
    assert first is not None
    assert first == pytest.approx(
        10 * (estimate._ends["homo"] - cost(pieces[0]) - cost(pieces[1])), abs=0.5
    )


def test_the_bar_says_what_is_asked_how_much_is_done_and_how_long_it_will_take(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    pieces = list(
        paper.tuning(
            paper.scene_of("er-homogeneous@10"), paper.METHODS[paper.UNIF], paper.QUICK, GRID
        )
    )
    with TimeEstimateBar(HOMO, paper.QUICK, show=True) as bar:
        bar.begin("homo")
        bar.answered(pieces, len(pieces), 100.0)
    shown = capfd.readouterr().err
    for words in ("[homo] 1 of 1", "5 of about", "tasks", "min left"):
        assert words in shown


def test_nothing_is_counted_where_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with TimeEstimateBar(HOMO, paper.QUICK) as bar:
        bar.begin("homo")
    assert bar.estimate is None
    assert capfd.readouterr().err == ""
