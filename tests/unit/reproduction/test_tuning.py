"""Tuning and reporting, with a runner whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from levywalk.reproduction.paper import FULL, QUICK, SCENES, instance
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.reported_walks import report
from levywalk.reproduction.tuning import tune
from levywalk.reproduction.verdicts import (
    Claim,
    ClaimPoint,
    PointAnswer,
    Verdict,
    above,
    below,
    verdict,
    within,
)

SCENE = SCENES["ring"]
STEP = np.array([0, 10, 100, 1000, 10_000])


def runner_with_best(exponent, floor=0.05):
    """Steps to 0.1 are fewest at one exponent; larger ones diverge, smaller ones are slower."""
    seen = []

    def run(descriptions):
        outcomes = []
        for description in descriptions:
            seen.append(description)
            curves = []
            for relative in description["relative"]:
                k = round(4 * np.log10(relative))
                reached = {0: 1, 1: 2, 2: 3, 3: 4}.get(exponent - k, 5)
                errors = np.where(np.arange(5) < reached, 1.0 - 1e-3 * (k + 100), floor)
                curves.append(np.full(5, np.inf) if k > exponent else errors)
            outcomes.append(({"step": STEP, "distance": np.array(curves)}, {"largest": 1.0}))
        return outcomes

    return run, seen


@pytest.mark.parametrize("exponent", [-4, 1, 4, -8, -10])
def test_the_winner_is_found_also_beyond_the_grid(exponent):
    run, seen = runner_with_best(exponent)
    tuned = tune(SCENE, {"kind": "unif_rw"}, QUICK, run)
    assert tuned.exponents[tuned.best(0.1)] == exponent
    assert tuned.relative(0.1) == pytest.approx(10 ** (exponent / 4))
    assert list(tuned.exponents) == sorted(set(tuned.exponents))
    assert {d["seed"] for d in seen} == set(QUICK.tuning_seeds)


def test_tuning_and_reported_instances_are_disjoint():
    for effort in (FULL, QUICK):
        assert not set(effort.seeds) & set(effort.tuning_seeds)
    assert not set(FULL.seeds) & set(QUICK.seeds)


def test_a_report_has_one_curve_per_instance_and_step_size():
    run, seen = runner_with_best(0)
    found = report(
        SCENE, {"kind": "unif_rw"}, QUICK, [1.0, 0.1], run, start="stationary", important=2
    )
    assert found.curves["distance"].shape == (len(QUICK.seeds), 2, 5)
    assert found.steps_to(0.1, 0).tolist() == [10.0] * len(QUICK.seeds)
    assert found.floor(0) == pytest.approx(0.05)
    assert all(d["start"] == "stationary" and d["problem"]["important"] == 2 for d in seen)


def test_homogeneous_data_know_no_important_nodes():
    assert "important" not in instance(SCENES["er-homogeneous"], 0, important=2)["problem"]


def test_a_ratio_counts_not_reached_as_infinite_and_says_what_is_undefined():
    inf = np.inf
    assert ratio(np.array([inf, inf, inf]), np.array([1.0, 2.0, 3.0])).effect == inf
    assert ratio(np.array([1.0, 2.0, 3.0]), np.array([inf, inf, inf])).effect == 0.0
    neither = ratio(np.array([inf, inf]), np.array([inf, inf]))
    assert np.isnan(neither.effect)
    assert neither.undefined == 2
    assert below(1.0)(neither) == PointAnswer.UNCLEAR


def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        found = ratio(np.exp(rng.normal(size=21)), np.ones(21))
        inside += found.low <= 1.0 <= found.high
    assert inside >= 270  # 95 % in expectation; below 90 % with a probability under 1e-3


def test_answers_need_the_whole_interval():
    small, large, wide = (
        Ratio(0.5, 0.4, 0.6, 0, 9),
        Ratio(2.0, 1.5, 3.0, 0, 9),
        Ratio(1.0, 0.5, 2.0, 0, 9),
    )
    assert [below(1.0)(r) for r in (small, large, wide)] == [
        PointAnswer.YES,
        PointAnswer.NO,
        PointAnswer.UNCLEAR,
    ]
    assert [above(1.0)(r) for r in (small, large, wide)] == [
        PointAnswer.NO,
        PointAnswer.YES,
        PointAnswer.UNCLEAR,
    ]
    assert [within(0.8, 1.25)(r) for r in (small, large, wide)] == [
        PointAnswer.NO,
        PointAnswer.NO,
        PointAnswer.UNCLEAR,
    ]
    assert within(0.8, 1.25)(Ratio(1.0, 0.9, 1.1, 0, 9)) == PointAnswer.YES
    assert (
        verdict([ClaimPoint("a", small, PointAnswer.YES), ClaimPoint("b", small, PointAnswer.NO)])
        == Verdict.IN_PART
    )


def test_a_claim_is_shown_short_and_in_a_notebook():
    point = ClaimPoint("a<b", Ratio(2.0, 1.0, 3.0, 0, 9), PointAnswer.YES)
    claim = Claim(1, "homo", "The methods are alike", Verdict.HOLDS, (point,))
    assert repr(claim) == "Claim(1 [homo] holds: 1 points)"
    assert "a&lt;b" in claim._repr_html_()
    assert "2 [1, 3]: yes" in claim._repr_html_()
