"""What single claims judge, with invented evidence."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.point_answer import PointAnswer
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.paper import FULL, METHODS, QUICK, SCENES, SECOND, UNIF
from levywalk.reproduction.theory_claims import claim_12


def test_a_bound_that_fails_on_one_instance_is_no_bound():
    def answered(asked):
        return [
            (
                {},
                {
                    "exact": 1.0,
                    "printed": 0.5 if description["problem"]["seed"] == QUICK.first else 9.0,
                    "corrected": 3.0,
                },
            )
            for description in asked
        ]

    for point in claim_12(Evidence(QUICK, answered)).points:
        printed = "printed" in point.where
        assert point.answer == (PointAnswer.NO if printed else PointAnswer.YES), point.where
        assert point.ratio.effect == (0.5 if printed else 3.0)


@pytest.mark.parametrize("effort", [FULL, SECOND, QUICK])
def test_every_instance_is_heterogeneous(effort):
    for seeds in (effort.seeds, effort.tuning_seeds):
        assert all(len(lw.heterogeneous(1000, seed=seed).important_nodes) for seed in seeds)
    assert (len(effort.seeds), len(effort.tuning_seeds)) == (
        effort.instances,
        effort.tuning_instances,
    )


def test_the_price_of_one_step_size_is_the_steps_over_those_at_the_best_of_each_instance():
    """Four tuning instances of five are twice as fast at γL* = 0.1; the last needs γL* = 1."""
    step = np.array([0, 100, 200, 400])

    def answered(asked):
        def settling(i, size):
            last = i == len(asked) - 1
            if size not in (0.1, 1.0):
                return np.where(step < 400, 1.0, 0.05)
            return np.where(step < (100 if (size == 1.0) == last else 200), 1.0, 0.05)

        return [
            ({"step": step, "distance": np.array([settling(i, g) for g in d["relative"]])}, {})
            for i, d in enumerate(asked)
        ]

    evidence = Evidence(QUICK, answered)
    found = evidence.price(SCENES["ring"].at(10.0), METHODS[UNIF], 0.1, 0.95)
    assert (found.effect, found.of) == (1.0, QUICK.tuning_instances)
    assert found.high >= 2.0  # the last instance
