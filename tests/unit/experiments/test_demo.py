from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from levywalk import Comparison, DataWarning
from levywalk.experiments.demo import demo, demo_experiment, sentence
from levywalk.experiments.execute import execute
from levywalk.walks import paper_designs

UNREACHED = "ignore:.*no step size reached:levywalk.errors.DataWarning"


@pytest.fixture(scope="module")
def result() -> Comparison:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        found = demo(steps=1000, replicas=4)
    assert [str(warning.message) for warning in caught] == found.cautions
    assert any("WeightRW: no step size reached 0.1 %" in text for text in found.cautions)
    return found


def test_demo_is_the_papers_example(result: Comparison) -> None:
    provenance = result.traces["MHLJ"].provenance
    assert provenance["network"]["name"] == "ring(1000)"
    assert list(result.traces) == ["UnifRW", "WeightRW", "MHLJ", "i.i.d. weighted"]


def test_sentence_speaks_with_the_numbers_of_the_run(result: Comparison) -> None:
    text = sentence(result)
    dwell = int(result.traces["WeightRW"].longest_dwell()[0].max())
    assert f"up to {dwell:,} updates in a row" in text
    for steps in result.steps_to.values():
        assert (f"{steps:,.0f}" if math.isfinite(steps) else "more than 1,000") in text


def test_sentence_does_not_claim_a_speed_up_that_was_not_there(result: Comparison) -> None:
    swapped = dict(result.traces)
    swapped["WeightRW"], swapped["MHLJ"] = swapped["MHLJ"], swapped["WeightRW"]
    generous = replace(result, traces=swapped, accuracy=0.99)
    text = sentence(generous)
    steps = generous.steps_to
    if math.isfinite(steps["MHLJ"]) and math.isfinite(steps["WeightRW"]):
        assert ("times fewer" in text) == (steps["WeightRW"] >= steps["MHLJ"])
    else:
        assert "times fewer" not in text


@pytest.mark.filterwarnings(UNREACHED)
def test_demo_is_an_experiment_that_gives_the_same_walks(result: Comparison) -> None:
    experiment = demo_experiment(steps=1000, replicas=4)
    assert experiment.build(Path())[2] == dict(paper_designs())
    again = execute(experiment, Path(), progress=False)
    assert again.step_size == result.step_size
    for name, trace in result.traces.items():
        assert (again.traces[name].distance2 == trace.distance2).all()
        assert again.traces[name].walk is not None
