"""The remark on communication overheads: hops per update of MHLJ."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw


@pytest.mark.parametrize(("p_jump", "p_distance", "max_hops"), [(0.1, 0.5, 3), (0.3, 0.2, 10)])
def test_hops_per_update_are_one_plus_the_jumps_excess(
    p_jump: float, p_distance: float, max_hops: int
) -> None:
    steps, replicas = 50_000, 8
    network, problem = lw.ring(50), lw.heterogeneous(50, important=1)
    design = lw.mhlj(p_jump, p_distance, max_hops)
    trace = lw.run(network, problem, design, steps=steps, step_size=1e-3, replicas=replicas)
    law = p_distance * (1 - p_distance) ** np.arange(max_hops)
    law /= law.sum()
    expected = 1 + p_jump * (law @ np.arange(1, max_hops + 1) - 1)
    # Hoeffding: hops of one step lie in [1, max_hops]; false alarm 1e-9
    count = steps * replicas
    limit = (max_hops - 1) * np.sqrt(np.log(2 / 1e-9) / (2 * count))
    measured = trace.hops[:, -1].sum() / count
    assert abs(measured - expected) < limit
    assert expected <= 1 + p_jump * (1 / p_distance - 1)  # the paper's bound
    assert abs(measured - (expected + p_jump)) > limit  # the mutant: a jump that takes one hop more


def test_defaults_stay_below_the_papers_ten_per_cent() -> None:
    jump = lw.mhlj().jump
    assert jump is not None
    assert 1 + 0.1 * (jump.mean_distance() - 1) == pytest.approx(1.0571428571428572)


def test_weighted_walks_transfer_less_than_they_decide() -> None:
    network, problem = lw.ring(50), lw.heterogeneous(50, important=1)
    trace = lw.run(network, problem, lw.weight_rw(), steps=20_000, step_size=1e-3, replicas=4)
    assert (trace.hops[:, -1] == 20_000).all()
    assert (trace.transfers[:, -1] < 20_000).all()
    assert (trace.bytes == 8 * problem.dim * trace.transfers).all()
