from __future__ import annotations

import numpy as np
import pytest

from levywalk.arrays import Floats
from levywalk.report.x_range import XRange, settles_at, x_range

STEPS = np.arange(0.0, 100_001.0, 100.0)


def falling(scale: float, floor: float = 0.005) -> Floats:
    wobble = 1.0 + 0.3 * np.sin(STEPS / 700.0)  # as noise at the floor
    return np.exp(-STEPS / scale) + floor * wobble


def test_an_axis_is_cut_where_all_curves_have_settled() -> None:
    # what `levywalk compare ws:300,4,0.1` measures: all is over after a twentieth of the steps
    lines = [(STEPS, falling(450.0)), (STEPS, falling(900.0)), (STEPS, falling(350.0))]
    shown = x_range(lines)
    assert not shown.log
    assert 5_000 < shown.right < 20_000
    settled = max(settles_at(*line) for line in lines)
    assert settled < shown.right / 2  # the floors are seen
    assert shown.is_cut


def test_an_axis_is_logarithmic_if_some_curves_settle_much_earlier() -> None:
    shown = x_range([(STEPS, falling(300.0)), (STEPS, falling(30_000.0))])
    assert shown.log
    assert shown.right == shown.end == 100_000.0
    assert 0.0 < shown.left <= 100.0


def test_a_curve_that_still_falls_is_shown_to_its_end() -> None:
    assert x_range([(STEPS, falling(20_000.0, floor=0.0))]) == XRange(0.0, 1e5, 1e5, False)


@pytest.mark.parametrize("scale", [15_000.0, 30_000.0, 60_000.0])
def test_a_slow_fall_is_no_level(scale: float) -> None:
    # in the second half it falls by a factor of 28, 5 and 2
    line = np.exp(-STEPS / scale) * (1.0 + 0.1 * np.sin(STEPS / 300.0))
    assert settles_at(STEPS, line) == 100_000.0


@pytest.mark.parametrize("what", ["rises", "spike", "diverges", "vanishes"])
def test_a_late_change_is_never_cut_away(what: str) -> None:
    late = falling(450.0)
    if what == "rises":
        late[600:] *= np.geomspace(1.0, 50.0, len(late) - 600)
    elif what == "spike":
        late[800] *= 30.0
    elif what == "diverges":
        late[900:] = np.inf
    else:
        late[900:] = 0.0
    assert x_range([(STEPS, falling(450.0)), (STEPS, late)]).right == 100_000.0


def test_what_is_marked_is_seen() -> None:
    shown = x_range([(STEPS, falling(450.0))], reached=[30_000.0, np.inf])
    assert shown.right > 30_000.0


def test_a_short_start_is_not_all_that_is_shown() -> None:
    at_once = np.where(STEPS == 0.0, 1.0, 0.01)
    assert x_range([(STEPS, at_once)]).right == 2_500.0  # 25 checkpoints


def test_curves_without_a_step_have_an_axis() -> None:
    assert not x_range([(np.zeros(1), np.ones(1))]).log
