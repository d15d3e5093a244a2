"""The phase diagram: who wins a cell, and where a user's own problem lies."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest

import levywalk as lw
from levywalk.report.figures.phase import write_phase
from levywalk.reproduction import phase, phase_diagram
from levywalk.reproduction.phase import METHODS, MIXED, judge_cell, measure_phase, tuned_steps
from levywalk.reproduction.phase_diagram import place, place_sentence, signal_to_noise
from levywalk.sweeps.store import Result

SIZES = 3
DATA = Path(__file__).parents[2] / "data"


def even(value=1000.0):
    return np.full((8, len(phase.DESIGNS), SIZES), value), np.zeros((8, len(phase.DESIGNS), SIZES))


def test_a_winner_is_decided_only_if_it_is_faster_on_every_instance():
    steps, errors = even()
    steps[:, 2] = 500.0
    assert judge_cell(steps, errors).decided
    steps[0, 2] = 1500.0
    found = judge_cell(steps, errors)
    assert found.winner == "MHLJ(0.1)"
    assert not found.decided
    assert found.ratio == 0.5


def test_mixed_is_one_method_that_chooses_among_its_mixes():
    steps, errors = even()
    steps[:, 6, 1] = 100.0
    found = judge_cell(steps, errors)
    assert found.winner == MIXED
    assert found.decided
    assert set(found.steps) == set(METHODS)


def test_a_step_size_is_never_chosen_on_the_instance_that_it_is_judged_on():
    steps, errors = even()
    own = steps[:, :1].copy()
    own[:, 0, 0] = 300.0
    own[0, 0] = [900.0, 10.0, 10.0]  # the others would not choose what suits the first instance
    assert tuned_steps(own, errors[:, :1], [0]).tolist() == [900.0] + [300.0] * 7


def test_where_nobody_gets_there_nobody_wins():
    steps, errors = even(np.inf)
    found = judge_cell(steps, errors)
    assert found.winner is None
    assert found.as_json()["steps"]["UnifRW"] is None


@pytest.fixture(scope="module")
def measured():
    (asked,) = [
        d | {"network": {"family": "ring", "n": 40}, "steps": 300, "walks": 2}
        for d in phase.descriptions("ring", [3])
        if d["problem"]["snr"] == phase.SNRS[-1] and d["problem"]["sigma2_high"] == phase.RATIOS[2]
    ]
    return measure_phase(asked)


def test_an_instance_measures_every_design_at_every_step_size(measured):
    arrays, numbers = measured
    designs, sizes = len(phase.DESIGNS), len(phase.SIZES)
    assert arrays["steps"].shape == (designs, sizes, 2)
    assert arrays["error"].shape == (designs, sizes)
    loose, tight = arrays["steps"][..., 0], arrays["steps"][..., 1]
    assert (loose <= tight).all()
    assert numbers["spread"] > 10.0


@pytest.mark.more
def test_the_real_network_is_read_from_its_file():
    asked = phase.descriptions("gnutella", [0])[0] | {"steps": 5, "walks": 1, "relative": [0.1]}
    arrays, _ = measure_phase(asked, str(DATA))
    assert arrays["steps"].shape == (len(phase.DESIGNS), 1, 2)
    network = phase._from_file(DATA / "p2p-Gnutella08.edges.gz")
    assert network.n == 6299
    network.require_connected()


@pytest.fixture(scope="module")
def whole_diagram(measured):
    arrays, _ = measured
    count = len(phase.SNRS) * len(phase.RATIOS) * len(phase.SEEDS)
    results = [
        Result({}, arrays, {"spread": 2.0 * phase.RATIOS[k // len(phase.SEEDS) % 6]})
        for k in range(count)
    ]
    return phase_diagram.document({"ring": results, "er": results})


@pytest.fixture
def diagram(whole_diagram):
    return copy.deepcopy(whole_diagram)  # one of the tests changes it


@pytest.mark.more
def test_the_diagram_has_a_cell_for_each_ratio_and_can_be_drawn(diagram, tmp_path):
    cells = diagram["graphs"]["ring"]["cells"]["0.01"]
    assert (len(cells), len(cells[0])) == (8, 6)
    assert diagram["graphs"]["ring"]["spread"] == [2.0 * ratio for ratio in phase.RATIOS]
    (file,) = write_phase(diagram, tmp_path, ("png",))
    assert file.stat().st_size > 10_000


@pytest.mark.parametrize("snr", [2.0, 300.0, 50_000.0])
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_signal_to_noise_is_found_from_data_in_any_unit(snr, scale):
    drawn = lw.heterogeneous(3000, important=2, snr=snr, seed=4)
    problem = lw.LeastSquares(scale * drawn.features, drawn.targets)
    found, spread = signal_to_noise(problem)
    assert found == pytest.approx(snr, rel=0.25)
    assert spread == pytest.approx(drawn.smoothness.max() / np.median(drawn.smoothness))


def test_few_samples_use_the_right_degrees_of_freedom():
    estimates = []
    for seed in range(60):
        drawn = lw.homogeneous(40, dim=10, snr=100.0, seed=seed)
        estimates.append(signal_to_noise(drawn)[0])
    assert np.median(estimates) == pytest.approx(100.0, rel=0.15)  # 133 with 40 instead of 30


def test_data_without_noise_have_an_infinite_ratio():
    drawn = lw.homogeneous(100, snr=math.inf, seed=1)
    assert signal_to_noise(drawn)[0] > 1e20


def test_what_cannot_be_placed_says_why():
    few = lw.homogeneous(20, dim=10, seed=1)
    assert signal_to_noise(few) == (
        "20 samples for 10 features are too few to estimate the noise; 30 are needed"
    )
    twice = np.ones((30, 2))
    same = lw.LeastSquares(twice, np.arange(30.0), ridge=0.1)
    assert "not independent (rank 1)" in signal_to_noise(same)
    labels = lw.Logistic(np.ones((5, 1)), [0, 1, 0, 1, 0], ridge=0.1)
    assert "not placed in it, because it is not a least squares" in place_sentence(
        lw.ring(5), labels
    )


@pytest.mark.more
def test_a_problem_is_placed_where_its_numbers_are(diagram, tmp_path, monkeypatch):
    network = lw.ring(1000)
    problem = lw.heterogeneous(1000, important=2, snr=1e6, seed=1)
    cells = diagram["graphs"]["ring"]["cells"]
    row, column = 7, 2  # σ²_H = 100 is nearest to a spread of about 120: ratio 40 has 80
    for accuracy in ("0.1", "0.01"):
        cells[accuracy][row][column] = cells[accuracy][row][column] | {
            "winner": "MHLJ(0.9)",
            "decided": True,
        }
    found = place(network, problem, diagram)
    assert found.lines[0] == "on Ring(1000) to 10 % MHLJ(0.9) won, to 1 % MHLJ(0.9) won"
    file = tmp_path / "diagram.json"
    file.write_text(json.dumps(diagram))
    monkeypatch.setattr(phase_diagram, "DIAGRAM", file)
    sentence = place_sentence(network, problem)
    assert sentence.startswith("Phase diagram: signal to noise about 1")
    assert "on Ring(1000) to 10 % MHLJ(0.9) won" in sentence


def test_a_step_size_at_an_end_of_the_grid_is_counted_where_the_method_gets_there():
    steps, errors = even()
    steps[:, 1] = [500.0, 900.0, 900.0]  # WeightRW: the first of three
    steps[:, 2] = [900.0, 500.0, 900.0]  # MHLJ(0.1): the one in the middle
    steps[:, 3] = np.inf  # MHLJ(0.9) gets nowhere
    steps[:, 5] = [900.0, 900.0, 500.0]  # MixedRW: the last, of its second λ
    found = [phase.at_edge(steps, errors, name) for name in ("WeightRW", "MHLJ(0.1)", "MHLJ(0.9)")]
    assert found == [8, 0, None]
    assert phase.at_edge(steps, errors, MIXED) == 8


@pytest.mark.more
def test_the_diagram_says_how_often_a_step_size_is_at_an_end_of_the_grid(diagram):
    shares = diagram["graphs"]["ring"]["at_edge"]
    assert set(shares) == set(METHODS)
    assert all(0.0 <= share <= 1.0 for share in shares.values())


def test_units_of_single_features_change_no_signal_to_noise():
    drawn = lw.heterogeneous(2000, important=2, snr=100.0, seed=5)
    units = np.array([1000.0, 0.01] + [1.0] * 8)
    problem = lw.LeastSquares(units * drawn.features, drawn.targets)
    assert signal_to_noise(problem)[0] == pytest.approx(signal_to_noise(drawn)[0], rel=0.05)


def test_samples_without_features_do_not_count_as_ordinary_ones():
    drawn = lw.homogeneous(60, dim=2, snr=10.0, seed=1)
    features = np.vstack([drawn.features, np.zeros((200, 2))])
    targets = np.append(drawn.targets, np.zeros(200))
    found, _ = signal_to_noise(lw.LeastSquares(features, targets, ridge=0.1))
    assert 1.0 < found < math.inf  # 0 if the zeros were the ordinary samples
