"""The corrected bound is never below the truth: exact mean errors over random networks, problems
and designs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import levywalk as lw
from tests.limits import examples

FAMILIES = (
    lambda n, loops: lw.ring(n, self_loops=loops),
    lambda n, loops: lw.path(n, self_loops=loops),
    lambda n, loops: lw.star(n, self_loops=loops),
    lambda n, loops: lw.complete(n, self_loops=loops),
    lambda n, loops: lw.watts_strogatz(n, 2, 0.3, seed=n, self_loops=loops).largest_component(),
    lambda n, loops: lw.barbell(3, max(n - 6, 0), self_loops=loops),
)


@st.composite
def instances(draw: st.DrawFn) -> tuple[lw.Network, lw.LeastSquares, lw.Design, float, np.ndarray]:
    network = draw(st.sampled_from(FAMILIES))(
        draw(st.integers(3, 9)), draw(st.sampled_from(("none", "counted")))
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, each = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    spread = draw(st.sampled_from((0.0, 0.5, 1.5)))
    scale = np.repeat(np.exp(spread * rng.standard_normal(network.n)), each)
    features = rng.standard_normal((network.n * each, dim)) * scale[:, None]
    noise = draw(st.sampled_from((0.0, 0.1, 1.0)))
    targets = features @ rng.standard_normal(dim) + noise * rng.standard_normal(len(features))
    ridge = draw(st.sampled_from((0.05, 0.5, 2.0)))
    problem = lw.LeastSquares(
        features, targets, node=np.repeat(np.arange(network.n), each), ridge=ridge
    )
    design = draw(
        st.sampled_from(
            (
                lw.weight_rw(),
                lw.unif_rw(),
                lw.mixed_rw(0.4),
                lw.simple_rw(),
                lw.iid_weighted(),
                lw.mhlj(p_jump=0.1),
                lw.mhlj(p_jump=0.9, p_distance=0.3, max_hops=4),
                lw.Design(
                    target="degree", jump=lw.JumpLaw(0.3, lw.FixedDistance(2)), reweight=False
                ),
            )
        )
    )
    gamma = draw(st.sampled_from((1.0, 0.3, 0.03))) / design.bind(network, problem).largest
    return (
        network,
        problem,
        design,
        gamma,
        rng.standard_normal(dim) * draw(st.sampled_from((0.0, 1.0, 10.0))),
    )


@pytest.mark.more
@given(instance=instances(), steps=st.sampled_from((1, 2, 7, 50, 1000, 20_000)))
@examples(400, derandomize=True)
def test_the_corrected_bound_is_never_below_the_exact_mean_error(
    instance: tuple[lw.Network, lw.LeastSquares, lw.Design, float, np.ndarray], steps: int
) -> None:
    network, problem, design, gamma, x0 = instance
    result = lw.bounds(
        network, problem, design, steps=steps, step_size=gamma, x0=x0, form="corrected"
    )
    assert result.trusted
    assert result.exact is not None
    rounding = 1e-12 * (result.constants.initial2 + float(problem.optimum @ problem.optimum) + 1.0)
    assert result.exact <= result.forms["corrected"].total + rounding
    if result.exact > rounding:
        event(
            f"bound / truth: about 1e{round(math.log10(result.ratio()))}"
        )  # pytest --hypothesis-show-statistics


def test_the_bound_is_loose_but_not_empty() -> None:
    """How loose: reported, and sharp within a factor of two somewhere (one step, no noise: exactly
    2).
    """
    network, ratios = lw.ring(6), []
    rng = np.random.default_rng(0)
    for noise in (0.0, 1.0):
        features = rng.standard_normal((18, 2))
        targets = features @ np.ones(2) + noise * rng.standard_normal(18)
        problem = lw.LeastSquares(
            features, targets, node=np.repeat(np.arange(6), 3), ridge=0.0 if noise == 0 else 0.5
        )
        found = [
            lw.bounds(network, problem, lw.mhlj(), steps=steps, step_size=1e-3).ratio()
            for steps in (1, 10_000)
        ]
        ratios.extend(found)
    assert ratios[0] == pytest.approx(2.0, rel=0.05)
    assert 1.0 < ratios[3] < 1e5
