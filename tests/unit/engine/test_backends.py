"""A kernel is taken only for what it computes: a subclass that differs is not compiled away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import levywalk as lw

NETWORK, PROBLEM = lw.ring(8), lw.homogeneous(8, dim=3)
GIVEN: dict[str, Any] = {"steps": 40, "step_size": 0.01}


class ZeroGradient(lw.Sgd):
    def gradient(self, problem: Any, v: int, x: Any, word: Any) -> Any:
        return np.zeros_like(x)


class Still(lw.Design):
    def decide(self, view: Any, memory: Any, words: Any) -> lw.Decision:
        return lw.Decision(view.node)


class Doubled(lw.LeastSquares):
    def _slopes(self, z: Any, y: Any) -> Any:
        return 2.0 * super()._slopes(z, y)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_zero_gradient_of_a_subclass_does_not_move_the_model(backend: str) -> None:
    trace = lw.run(NETWORK, PROBLEM, lw.mhlj(), update=ZeroGradient(), backend=backend, **GIVEN)
    assert not trace.model.any()
    assert trace.provenance["backend"] == "reference"


def test_a_design_that_decides_otherwise_is_not_compiled_away() -> None:
    trace = lw.run(NETWORK, PROBLEM, Still(), record_walk=True, **GIVEN)
    assert len(set(trace.walk[0].tolist())) == 1
    with pytest.raises(lw.InvalidParameter, match="has none"):
        lw.transition(NETWORK, PROBLEM, Still())


def test_a_problem_with_its_own_slopes_is_not_compiled_away() -> None:
    problem = Doubled(PROBLEM.features, PROBLEM.targets)
    auto, reference = (
        lw.run(NETWORK, problem, lw.unif_rw(), backend=backend, **GIVEN)
        for backend in ("auto", "reference")
    )
    assert np.array_equal(auto.model, reference.model)
    plain = lw.run(NETWORK, PROBLEM, lw.unif_rw(), backend="reference", **GIVEN)
    assert not np.allclose(auto.model, plain.model)


def test_a_method_that_is_set_on_the_object_counts_too() -> None:
    problem: Any = lw.LeastSquares(PROBLEM.features, PROBLEM.targets)
    problem.local_gradient = lambda v, x: np.zeros(3)
    assert not lw.run(NETWORK, problem, lw.unif_rw(), **GIVEN).model.any()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"update": ZeroGradient()}, "the update sgd has no compiled form"),
        ({"design": Still()}, "the walk design has no compiled form"),
        ({"problem": Doubled(PROBLEM.features, PROBLEM.targets)}, "Doubled is none"),
    ],
)
def test_a_kernel_that_does_not_exist_is_refused_with_the_reason(
    change: dict[str, Any], why: str
) -> None:
    parts = {"network": NETWORK, "problem": PROBLEM, "design": lw.unif_rw()} | change
    with pytest.raises(lw.InvalidParameter, match=why):
        lw.run(**parts, backend="kernel", **GIVEN)
