"""The quick reproduction, as `levywalk reproduce --all --quick --check` does it: verdicts,
orderings, intervals.
"""

from __future__ import annotations

import math

import pytest

from levywalk.point_answer import PointAnswer
from levywalk.reproduction.paper import LABELS, QUICK
from levywalk.reproduction.reproduce import expected_verdicts, reproduce, unexpected_verdicts
from tests.shared import shared_folder

pytestmark = pytest.mark.more


ASKED = [
    "hete",
    "simentrap",
    "grid",
    "switch",
    "hops",
    "limit",
    "bounds",
]  # the others take minutes


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with (
        shared_folder(tmp_path_factory, "quick-reproduction") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        # What is stored depends on the files of a user's own methods that other tests have loaded.
        patch.setattr("levywalk.sweeps.task.loaded_files", dict)
        return reproduce(ASKED, QUICK, folder, workers=0, figures=False, progress=False)


def points(found, label, *words):
    claim = next(claim for claim in found.claims if claim.label == label)
    chosen = [point for point in claim.points if all(word in point.where for word in words)]
    assert chosen, f"no point of [{label}] has {words}"
    return chosen


def test_the_verdicts_are_those_expected(found):
    assert [claim.label for claim in found.claims] == ASKED
    assert unexpected_verdicts(found.claims, QUICK) == []


def test_every_interval_holds_its_effect_and_says_how_many_instances_it_rests_on(found):
    for claim in found.claims:
        for point in claim.points:
            if not math.isnan(point.ratio.effect):
                assert point.ratio.low <= point.ratio.effect <= point.ratio.high, (
                    claim.label,
                    point,
                )
            tuned = point.where.startswith("price of one step size")  # on the tuning instances
            expected = (len(QUICK.tuning_seeds),) if tuned else (1, len(QUICK.seeds))
            assert point.ratio.of in expected, (claim.label, point)


def test_a_trapped_walk_dwells_far_longer_than_sampling_would(found):
    (dwell,) = points(found, "grid", "dwell")
    assert dwell.ratio.effect >= 10.0


def test_jumps_as_the_published_code_makes_them_beat_uniform_sampling_where_noise_is_small(found):
    (quiet,) = points(found, "simentrap", "MHLJ(0.9)/UnifRW", "SNR 33,000")
    assert quiet.answer == PointAnswer.YES
    assert quiet.ratio.effect < 0.5


def test_a_walk_never_beats_weighted_sampling_on_the_grid(found):
    for point in points(found, "grid", "WeightRW/i.i.d. weighted"):
        assert point.ratio.effect > 1.0


def test_hops_per_update_are_below_1_1_as_printed_and_1_51_as_the_code_jumps(found):
    for point in points(found, "hops", "hops per update, MHLJ(0.1)"):
        assert point.answer == PointAnswer.YES
        assert point.ratio.effect == pytest.approx(1.0571, abs=0.005)
    for point in points(found, "hops", "hops per update, MHLJ(0.9)"):
        assert point.answer == PointAnswer.NO
        assert point.ratio.effect == pytest.approx(1.5143, abs=0.005)


def test_the_printed_bound_is_refuted_and_the_corrected_one_holds(found):
    (printed,) = points(found, "bounds", "printed", "counterexample")
    assert printed.answer == PointAnswer.NO
    assert printed.ratio.effect < 1e-6
    for point in points(found, "bounds", "corrected"):
        assert point.ratio.low > 1.0


def test_a_constant_step_size_alone_moves_the_limit_so_jumps_are_not_all_of_it(found):
    for point in points(found, "limit", "without jumps"):
        assert not point.primary
        assert point.answer == PointAnswer.SHOWN
        assert point.ratio.effect > 10.0
        assert point.ratio.low > 1.0


def test_a_run_has_verdicts_of_its_own():
    assert set(expected_verdicts(QUICK)) == {str(k) for k in range(1, len(LABELS) + 1)}
