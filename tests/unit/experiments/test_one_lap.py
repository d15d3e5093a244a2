"""The demo's last panel."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from levywalk.experiments.demo import demo
from levywalk.experiments.one_lap import lap_sentence, one_lap, write_one_lap


@pytest.mark.more
def test_one_lap_of_the_ring_is_enough(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few steps are not enough for the others
        result = demo(steps=300, replicas=2)
    lap = one_lap(result)
    at = int(np.searchsorted(lap.step, 1000))
    assert (lap.error[:, at] < 1e-18).all()
    assert (lap.error[:, at // 2] > 1e-10).all()
    assert "up to rounding after 1,000, one lap of the ring" in lap_sentence(lap)
    picture = write_one_lap(result, lap, tmp_path)
    assert picture.read_bytes()[:4] == b"\x89PNG"
