"""Tuning and reporting, with a runner whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.point_answer import PointAnswer
from levywalk.registry import from_dict
from levywalk.reproduction.paper import (
    FULL,
    METHODS,
    QUICK,
    READINGS,
    SCENES,
    SECOND,
    decays,
    published_scene,
    scene_of,
)
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.regions import picture
from levywalk.reproduction.reported_walks import report
from levywalk.reproduction.tuning import TunedStepSizes, best_mix, tune
from levywalk.reproduction.verdicts import (
    Cell,
    Claim,
    ClaimPoint,
    Verdict,
    above,
    below,
    level_of,
    verdict,
    within,
)
from levywalk.trace.statistics import OtherChoices

SCENE = SCENES["ring"].at(115.0)
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
                k = round(16 * np.log10(relative))
                reached = {0: 1, 1: 2, 2: 2, 4: 3, 8: 4}.get(exponent - k, 5)
                errors = np.where(np.arange(5) < reached, 1.0 - 1e-3 * (k + 100), floor)
                curves.append(np.full(5, np.inf) if k > exponent else errors)
            outcomes.append(({"step": STEP, "distance": np.array(curves)}, {"largest": 1.0}))
        return outcomes

    return run, seen


@pytest.mark.parametrize("exponent", [-16, 4, 16, -32, -40, -13])
def test_the_winner_is_found_also_beyond_the_grid(exponent):
    run, seen = runner_with_best(exponent)
    tuned = tune(SCENE, {"kind": "unif_rw"}, QUICK, run)
    assert tuned.best(0.1) == exponent
    assert tuned.relative(0.1) == pytest.approx(10 ** (exponent / 16))
    assert list(tuned.errors) == sorted(tuned.errors)
    assert {d["seed"] for d in seen} == set(QUICK.tuning_seeds)


def test_other_tuning_instances_would_have_chosen_otherwise():
    """Seven instances of ten are fastest at exponent 0, but three need 400 steps there."""
    step = np.array([0, 100, 200, 400])

    def settling(times):
        return np.array([np.where(step < time, 1.0, 0.05) for time in times])

    errors = {-4: settling([200] * 10), 0: settling([100] * 7 + [400] * 3)}
    tuned = TunedStepSizes(step, errors)
    assert tuned.best(0.1) == -4
    others = tuned.other_choices(0.1)
    # Exponent 0 is chosen if at most two of ten drawn instances are of the slow kind.
    assert set(others.factors) == {0.5, 1.0}
    assert (others.factors == 0.5).mean() == pytest.approx(0.383, abs=0.12)
    assert others.shares.sum() == pytest.approx(1.0)
    sure = ratio(np.full(9, 3.0), np.full(9, 1.0), others=(certain := certainly(), certain))
    assert (sure.low, sure.high) == (3.0, 3.0)
    unsure = ratio(np.full(9, 3.0), np.full(9, 1.0), others=(others, certain))
    assert (unsure.low, unsure.effect, unsure.high) == (1.5, 3.0, 3.0)
    swapped = ratio(np.full(9, 3.0), np.full(9, 1.0), others=(certain, others))
    assert (swapped.low, swapped.effect, swapped.high) == (3.0, 3.0, 6.0)


def test_a_lucky_draw_of_tuning_instances_does_not_count_where_it_fails():
    """Exponent 0 never settles on half of the instances; draws that miss those gain a half."""
    step = np.array([0, 100, 200, 400])
    slow, fast = np.where(step < 200, 1.0, 0.05), np.where(step < 100, 1.0, 0.05)
    errors = {-4: np.array([slow] * 10), 0: np.array([fast] * 5 + [np.ones(4)] * 5)}
    tuned = TunedStepSizes(step, errors)
    assert set(tuned.other_choices(0.1).factors) == {0.5, 1.0}


def certainly():
    return OtherChoices(np.ones(1), np.ones(1))


def test_tuning_and_reported_instances_are_disjoint():
    efforts = (FULL, SECOND, QUICK)
    ranges = [seeds for effort in efforts for seeds in (effort.seeds, effort.tuning_seeds)]
    known = [seed for seeds in ranges for seed in seeds]
    assert len(known) == len(set(known))


def test_a_report_has_one_curve_per_instance_and_step_size():
    run, seen = runner_with_best(0)
    found = report(SCENE, {"kind": "unif_rw"}, QUICK, [1.0, 0.1], run, start="stationary")
    assert found.curves["distance"].shape == (len(QUICK.seeds), 2, 5)
    assert found.steps_to(0.1, 0).tolist() == [10.0] * len(QUICK.seeds)
    assert found.floor(0) == pytest.approx(0.05)
    assert all(d["start"] == "stationary" and d["problem"]["snr"] == 115.0 for d in seen)


def test_the_axis_changes_the_noise_and_the_length_of_walks_alone():
    base, quiet = SCENES["grid"], SCENES["grid"].at(33_000.0)
    assert quiet.network == base.network
    assert dict(quiet.problem) == dict(base.problem) | {"snr": 33_000.0}
    assert quiet.steps == base.steps // 4
    assert scene_of("grid@33000") == quiet
    assert published_scene("ring").name == "ring@33000"
    assert published_scene("er").name == "er@115"


def test_both_readings_jump_as_they_say():
    assert READINGS == {"MHLJ(0.1)": 0.1, "MHLJ(0.9)": 0.9}
    for method, p_jump in READINGS.items():
        design = from_dict("design", dict(METHODS[method]))
        assert design.jump == lw.mhlj(p_jump, 0.5, 3).jump
        decaying = [from_dict("design", dict(d)).jump.p_jump_at(0, 1)[0] for d in decays(method)]
        assert decaying == [p_jump] * 6


def test_the_best_mix_is_chosen_with_its_step_size_and_its_interval_is_over_tuning_instances():
    """λ = 0.9 is fastest on seven instances of ten, and slow on three."""
    step = np.array([0, 100, 200, 400])

    def settling(times):
        return np.array([np.where(step < time, 1.0, 0.05) for time in times])

    even = TunedStepSizes(step, {0: settling([200] * 10), 4: settling([400] * 10)})
    uneven = TunedStepSizes(step, {0: settling([400] * 10), 4: settling([100] * 7 + [400] * 3)})
    found = best_mix({0.3: even, 0.9: uneven}, 0.1)
    assert (found.mix, found.low, found.high) == (0.3, 0.3, 0.9)
    assert set(found.others.factors) == {0.5, 1.0}
    sure = best_mix({0.3: even}, 0.1)
    assert (sure.mix, sure.low, sure.high) == (0.3, 0.3, 0.3)
    assert set(sure.others.factors) == {1.0}


def test_a_ratio_counts_not_reached_as_infinite_and_says_what_is_undefined():
    inf = np.inf
    assert ratio(np.array([inf, inf, inf]), np.array([1.0, 2.0, 3.0])).effect == inf
    assert ratio(np.array([1.0, 2.0, 3.0]), np.array([inf, inf, inf])).effect == 0.0
    neither = ratio(np.array([inf, inf]), np.array([inf, inf]))
    assert np.isnan(neither.effect)
    assert neither.undefined == 2
    assert below(1.0)(neither) == PointAnswer.UNCLEAR


@pytest.mark.more
def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        found = ratio(np.exp(rng.normal(size=21)), np.ones(21))
        inside += found.low <= 1.0 <= found.high
    assert inside >= 270  # 95 % in expectation; below 90 % with a probability under 1e-3


def test_the_interval_is_that_of_two_order_statistics():
    values = np.arange(1.0, 21.0)
    assert (found := ratio(values, np.ones(20))).low == 6.0  # the textbook's for n = 20, 95 %
    assert found.high == 15.0
    wide = ratio(values, np.ones(20), level=level_of(50))
    assert (wide.low, wide.high) == (3.0, 18.0)
    few = ratio(np.arange(1.0, 5.0), np.ones(4))
    assert (few.low, few.high) == (0.0, np.inf)  # four instances cannot say it with 95 %
    exact = ratio(np.array([3.0]), np.ones(1))
    assert (exact.low, exact.high) == (3.0, 3.0)


def test_corrected_intervals_of_many_cells_all_cover_their_medians():
    """Fifty cells of twenty instances, as a claim has: Bonferroni keeps all answers right."""
    rng = np.random.default_rng(1)
    ranks = np.arange(1.0, 21.0)
    ends = {
        level: (int(found.low) - 1, int(found.high) - 1)
        for level in (level_of(50), level_of(50, corrected=False))
        for found in [ratio(ranks, np.ones(20), level=level)]
    }
    cells = np.sort(rng.normal(size=(2000, 50, 20)), axis=2)
    wrong = {
        level: ((cells[..., low] > 0) | (cells[..., high] < 0)).any(axis=1).mean()
        for level, (low, high) in ends.items()
    }
    assert wrong[level_of(50)] <= 0.05
    assert wrong[0.95] >= 0.8  # without the correction nearly every claim errs somewhere


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


def cell(row, column, low, high, rule):
    return Cell(row, column, lambda level: Ratio((low + high) / 2, low, high, 0, 9), rule)


def test_a_claim_says_where_it_holds():
    columns = [(f"SNR {snr}", f"{eps} %") for snr in (10, 115) for eps in (10, 1)]
    cells = [
        cell("A/B", column, low, high, below(1.0))
        for column, (low, high) in zip(
            columns, [(1.1, 1.2), (0.5, 1.5), (0.1, 0.2), (0.1, 0.2)], strict=True
        )
    ]
    cells.append(cell("best λ", ("", ""), 0.1, 0.3, None))
    points = [made.claim_point(0.99) for made in cells]
    assert [str(point.answer) for point in points] == ["no", "unclear", "yes", "yes", "shown"]
    assert [point.primary for point in points] == [True] * 4 + [False]
    claim = Claim(3, "ring", "…", verdict(points), tuple(points), 0.99)
    assert claim.verdict == Verdict.IN_PART
    assert claim.where == "A/B: yes at SNR 115; no at SNR 10 (10 %); unclear at SNR 10 (1 %)"
    assert claim.as_json()["level"] == 0.99
    data = picture(claim)
    assert data.columns == tuple(columns)
    assert [made.answer for made in data.cells[0]] == ["no", "unclear", "yes", "yes"]


def test_a_claim_that_nothing_speaks_for_or_against_is_undecided():
    wide = Ratio(1.0, 0.5, 2.0, 0, 9)
    unclear = ClaimPoint("a", wide, PointAnswer.UNCLEAR)
    assert verdict([unclear]) == Verdict.UNDECIDED
    assert verdict([]) == Verdict.UNDECIDED
    assert verdict([unclear, ClaimPoint("b", wide, PointAnswer.NO)]) == Verdict.FAILS
