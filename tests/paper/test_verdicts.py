"""The quick reproduction, as `levywalk reproduce --all --quick --check` does it: verdicts,
orderings, intervals.
"""

from __future__ import annotations

import math

import pytest

from levywalk.reproduction.paper import FULL, LABELS, QUICK
from levywalk.reproduction.reproduce import expected_verdicts, reproduce, surprises
from levywalk.reproduction.verdicts import PointAnswer

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return reproduce(
        [], QUICK, tmp_path_factory.mktemp("quick"), workers=0, figures=False, progress=False
    )


def points(found, label, *words):
    claim = next(claim for claim in found.claims if claim.label == label)
    chosen = [point for point in claim.points if all(word in point.where for word in words)]
    assert chosen, f"no point of [{label}] has {words}"
    return chosen


def test_the_verdicts_are_those_expected(found):
    assert [claim.label for claim in found.claims] == list(LABELS)
    assert surprises(found.claims, QUICK) == []


def test_every_interval_holds_its_effect_and_says_how_many_instances_it_rests_on(found):
    for claim in found.claims:
        for point in claim.points:
            if not math.isnan(point.ratio.effect):
                assert point.ratio.low <= point.ratio.effect <= point.ratio.high, (
                    claim.label,
                    point,
                )
            assert point.ratio.of in (1, len(QUICK.seeds)), (claim.label, point)


def test_a_trapped_walk_dwells_far_longer_than_sampling_would(found):
    for label in ("grid", "wsju"):
        (dwell,) = points(found, label, "dwell")
        assert dwell.ratio.effect >= 10.0


def test_weights_help_on_a_dense_network_with_two_important_nodes(found):
    for point in points(found, "hete", "WeightRW/UnifRW", "two important"):
        assert point.ratio.high < 1.0


def test_a_walk_never_beats_weighted_sampling_on_sparse_networks(found):
    for label in ("grid", "wsju"):
        for point in points(found, label, "WeightRW/i.i.d. weighted"):
            assert point.ratio.effect > 1.0


def test_jumps_raise_the_right_gap_over_weighted_walks_and_cost_under_a_tenth_more_hops(found):
    for point in points(found, "gap", "right gap, MHLJ/WeightRW"):
        assert point.answer == PointAnswer.YES
    for point in points(found, "hops", "hops per update"):
        assert point.ratio.low > 1.0
        assert point.ratio.high <= 1.1


def test_the_printed_bound_is_refuted_and_the_corrected_one_holds(found):
    (printed,) = points(found, "bounds", "printed", "counterexample")
    assert printed.answer == PointAnswer.NO
    assert printed.ratio.effect < 1e-6
    for point in points(found, "bounds", "corrected"):
        assert point.ratio.low > 1.0


def test_a_constant_step_size_alone_moves_the_limit_so_jumps_are_not_all_of_it(found):
    for point in points(found, "limit", "without jumps"):
        assert not point.primary
        assert point.answer == PointAnswer.YES
        assert point.ratio.effect > 10.0
        assert point.ratio.low > 1.0


def test_constant_jumps_leave_no_floor_that_a_schedule_could_recover(found):
    for point in points(found, "Decay", "constant p_jump"):
        assert not point.primary
        assert point.ratio.high < 1.2


def test_a_full_run_has_verdicts_of_its_own():
    assert (
        set(expected_verdicts(FULL))
        == set(expected_verdicts(QUICK))
        == {str(k) for k in range(1, 14)}
    )
