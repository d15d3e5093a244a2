"""What the figures show is what was run: the numbers in the panels are those of the runner's
curves.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.engine.kernels import tables
from levywalk.reproduction import (
    figure_contents,
    figure_lines,
    figure_recipes,
    figure_sweeps,
    paper,
)
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_recipes import FIGURES, figures_of
from levywalk.reproduction.measurement import measure
from levywalk.reproduction.paper import (
    COMMON,
    LABELS,
    METHODS,
    MHLJ,
    SCENES,
    UNIF,
    Effort,
    scene_of,
)
from levywalk.reproduction.reported_walks import report

TINY = Effort("tiny", 0, 2, 1000, 2, 2, 2, 250, (0.1,))
RING = scene_of("ring@33000")


class Counting:
    """Runs each description once, and says what it ran."""

    def __init__(self):
        self.known = {}
        self.asked = []

    def __call__(self, descriptions):
        self.asked += descriptions
        for description in descriptions:
            if repr(description) not in self.known:
                self.known[repr(description)] = measure(description)
        return [self.known[repr(description)] for description in descriptions]


@pytest.fixture(scope="module")
def evidence():
    return Evidence(TINY, Counting())


@pytest.fixture(scope="module")
def ring(evidence):
    return figure_contents.figure_data(evidence, "simentrap")


def line_of(panel, name):
    return next(line for line in panel.lines if line.name == name)


def test_every_label_of_the_command_has_its_figures():
    drawn = {label: figures_of([label]) for label in LABELS}
    assert drawn["Erimp"] == ["erimp"]
    assert drawn["fig:mixeddist"] == ["mixeddist"]
    assert drawn["gap"] == ["p_jump"]
    assert {label for label, names in drawn.items() if not names} == {
        "hops",
        "limit",
        "bounds",
        "jumps",
    }
    assert figures_of([]) == list(FIGURES)
    assert figures_of(["ringMC"]) == figures_of(["fivring"]) == ["ringmc"]
    with pytest.raises(lw.InvalidParameter, match="label must be of"):
        figures_of(["nothing"])


def test_a_figure_has_three_kinds_of_step_size_and_three_costs(ring):
    assert [[panel.x_label for panel in row] for row in ring.rows] == [
        [axis] * 3 for axis in figure_contents.AXES
    ]
    assert [[line.name for line in panel.lines] for row in ring.rows for panel in row] == [
        list(figure_recipes._FOUR)
    ] * 9


def test_a_line_is_the_median_over_instances_of_the_curves_that_were_run(evidence, ring):
    scene = RING
    tuned = evidence.walks(scene, METHODS[MHLJ])
    common = report(
        scene, METHODS[MHLJ], figure_lines.figure_effort(TINY), [COMMON], evidence.runner, of="mean"
    )
    for column, walks in ((0, tuned), (2, common)):
        line = line_of(ring.rows[0][column], MHLJ)
        keep = np.isin(walks.step, line.x)
        middle = np.quantile(walks.curves["distance"][:, -1], 0.5, axis=0, method="inverted_cdf")
        assert np.array_equal(walks.step[keep], line.x)
        assert np.array_equal(middle[keep], line.y)
        assert (line.low <= line.y).all()
        assert (line.y <= line.high).all()


def test_the_axis_of_transfers_has_transfers(evidence, ring):
    walks = evidence.walks(RING, METHODS["WeightRW"])
    steps, hops, transfers = (line_of(row[0], "WeightRW").x for row in ring.rows)
    assert hops.tolist() == steps.tolist()  # without jumps a hop is a step
    keep = np.isin(walks.step, steps)
    assert np.array_equal(transfers, np.median(walks.curves["transfers"][:, -1], axis=0)[keep])
    assert transfers[-1] < steps[-1]  # a stay is no message


def test_a_method_that_diverges_is_kept_and_marked(evidence):
    walks = report(
        SCENES["ring"], METHODS[UNIF], figure_lines.figure_effort(TINY), [1e4], evidence.runner
    )
    line = figure_lines.curve(UNIF, 0, walks, 0, "steps")
    assert line.fate == "diverges"
    assert not line.y[-1] < figure_lines.DIVERGED
    calm = figure_lines.curve(UNIF, 0, evidence.walks(SCENES["ring"], METHODS[UNIF]), 0, "steps")
    assert calm.fate == ""


def test_the_common_step_size_is_the_same_for_all_methods():
    asked = paper.instance(SCENES["ring"], 0) | {
        "relative": [0.1],
        "steps": 10,
        "walks": 1,
        "start": "uniform",
    }
    asked |= {"seed": 0, "of": "mean"}
    network, problem = lw.ring(1000), lw.heterogeneous(1000, seed=0)
    for kind, design in (("unif_rw", lw.unif_rw()), ("weight_rw", lw.weight_rw())):
        arrays, numbers = measure(asked | {"design": {"kind": kind}})
        mean = problem.smoothness.mean()
        trace = lw.run(
            network,
            problem,
            design,
            steps=10,
            step_size=0.1 / mean,
            replicas=1,
            seed=0,
            record_every=1,
        )
        assert numbers["mean_smoothness"] == pytest.approx(mean)
        assert numbers["largest_smoothness"] == problem.smoothness.max()
        assert arrays["distance"][0] == pytest.approx(trace.error[0])


def test_tuned_walks_are_not_run_again(evidence, ring):
    before = len(evidence.runner.known)
    figure_contents.figure_data(evidence, "simentrap")
    assert len(evidence.runner.known) == before


def test_the_control_of_switching_drops_when_most_walks_have_switched(evidence):
    shown = figure_contents.figure_data(evidence, "switch")
    names = list(FIGURES["switch"].designs)
    assert [line.name for line in shown.rows[0][0].lines] == names
    scene = scene_of("ring@10")
    size = evidence.relative(scene, METHODS[MHLJ])[:1]
    switching = report(scene, paper.switching(MHLJ), TINY, size, evidence.runner)
    when = min(numbers["switched_at"][0] for numbers in switching.numbers)  # the lower of two
    control = report(scene, METHODS[MHLJ], TINY, size, evidence.runner, drop_at=when)
    line = line_of(shown.rows[0][0], names[-1])
    assert line.y[-1] == min(control.curves["distance"][:, 0, -1])
    assert {d["drop_at"] for d in evidence.runner.asked if "drop_at" in d} >= {when}


def test_the_toy_chain_is_that_of_the_ruling():
    none, counted, printed = figure_contents.figure_data(Evidence(TINY, Counting()), "ringmc").rows[
        0
    ]
    assert none.text[0] == ("99/100", "1/200", "0", "0", "1/200")
    assert counted.text[0][1] == "1/300"
    assert counted.text[2][2] == "1/3"
    assert none.values[2, 2] == 0.0
    assert printed.text[0][:2] == ("50/51", "1/102")
    assert np.isnan(printed.values[4]).all()


def test_costs_fall_with_looser_accuracies_and_end_where_the_floor_is(evidence, monkeypatch):
    # As if the edges were in a fast cache: the same numbers by a loop that other tests compile.
    monkeypatch.setattr(tables, "_NEAR_EDGES", 2**30)
    costs = figure_sweeps.costs_of(evidence, "er@115", METHODS[MHLJ])
    steps, transfers = costs["steps"], costs["transfers"]
    assert (np.diff(steps.y[np.isfinite(steps.y)]) >= 0).all()
    assert np.isfinite(steps.y[0])
    assert np.isinf(steps.y[-1])  # a hundred steps do not get there
    assert steps.fate == "ends"
    assert np.array_equal(np.isfinite(steps.y), np.isfinite(transfers.y))


@pytest.mark.more
def test_stability_shows_where_uniform_sampling_blows_up(evidence):
    stable = figure_contents.figure_data(evidence, "stability").rows[0][1]
    assert stable.marks[1].at == 1.0
    assert 0.0 < stable.marks[0].at < 1.0
    line = line_of(stable, UNIF)
    assert line.x.tolist() == list(figure_recipes.STABILITY)
    assert not line.y[-1] < figure_lines.DIVERGED
    assert (line.y[:3] < 2.0).all()


def test_gaps_are_those_that_claims_ask_about(evidence):
    def run(descriptions):
        return [
            ({}, {"right": len(d["design"]) / 10, "ask": asked.append(d["ask"])})
            for d in descriptions
        ]

    asked = []
    told = Evidence(TINY, run)
    assert figure_sweeps.gaps_of(told, "ring", METHODS[MHLJ]).tolist() == [0.1]
    assert figure_sweeps.gaps_of(told, "ring", figure_sweeps._jumping(0.4)).tolist() == [0.2]
    assert figure_sweeps.gaps_of(told, "er", METHODS[MHLJ]).tolist() == [0.1]
    assert asked == ["gaps", "right_gap", "right_gap"]


@pytest.mark.more
def test_figures_are_written_in_the_formats_asked_for(evidence, tmp_path):
    paths = figure_contents.write_figures(evidence, ["grid", "ringMC"], tmp_path / "new")
    assert [path.name for path in paths] == ["grid.svg", "ringmc.svg"]
    assert all(path.stat().st_size < 150_000 for path in paths)
