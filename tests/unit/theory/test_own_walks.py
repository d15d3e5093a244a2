"""Theory asks a walk for its chain in one place, and says so when there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import levywalk as lw

NETWORK, PROBLEM = lw.ring(6, self_loops="counted"), lw.homogeneous(6, dim=2)


class OwnWalk:
    """A walk that is no Design: what theory sees of it is its name and its chain."""

    name = "turning walk"

    def __init__(self, chain: Any) -> None:
        self._chain = chain

    def chain(self, network: lw.Network, problem: lw.Problem) -> Any:
        return self._chain


def lazy_ring() -> np.ndarray:
    step = np.roll(np.eye(6), 1, axis=1)
    return 0.5 * np.eye(6) + 0.3 * step + 0.2 * step.T


@pytest.mark.parametrize(
    "judge",
    [
        lw.transition,
        lw.predict,
        lw.error_floor,
        lw.entrapment,
        lw.assumptions,
        lambda network, problem, walk: lw.bounds(network, problem, walk, steps=5),
    ],
)
def test_a_walk_without_a_chain_is_refused_with_the_remedy(judge: Any) -> None:
    words = (
        r"theory needs the walk's chain; turning walk has none \(Walk.chain returned None\): "
        "simulate it with lw.walk or lw.run"
    )
    with pytest.raises(lw.InvalidParameter, match=words):
        judge(NETWORK, PROBLEM, OwnWalk(None))


def test_a_chain_on_the_nodes_is_the_transition_matrix() -> None:
    walk: Any = OwnWalk(lazy_ring())
    P = lw.transition(NETWORK, PROBLEM, walk)
    assert isinstance(P, sparse.csr_array)
    assert P.toarray() == pytest.approx(lazy_ring())
    assert lw.stationary(P) == pytest.approx(np.full(6, 1 / 6))
    operator = lw.transition(NETWORK, PROBLEM, walk, form="operator")
    assert operator.matvec(np.arange(6.0)) == pytest.approx(lazy_ring() @ np.arange(6.0))
    assert lw.stationary(operator) == pytest.approx(np.full(6, 1 / 6))


def test_what_needs_a_target_and_weights_asks_for_a_design() -> None:
    walk: Any = OwnWalk(lazy_ring())
    with pytest.raises(lw.InvalidParameter, match=r"turning walk.*lw\.transition"):
        lw.predict(NETWORK, PROBLEM, walk)
    with pytest.raises(lw.InvalidParameter, match=r"turning walk.*lw\.transition"):
        lw.entrapment(NETWORK, PROBLEM, walk)
    assert lw.assumptions(NETWORK, PROBLEM, walk)["Assumption 4"].holds


def test_a_chain_on_other_states_is_refused_with_the_remedy() -> None:
    walk: Any = OwnWalk(np.full((12, 12), 1 / 12))
    with pytest.raises(lw.InvalidParameter, match=r"12 states.*6 nodes.*lw\.spectral_gap"):
        lw.transition(NETWORK, PROBLEM, walk)
    for walk in (lw.mhda(), lw.non_backtracking()):  # on a ring, two chains that never meet
        with pytest.raises(lw.InvalidParameter, match=r"12 states, not one per node \(6 nodes\)"):
            lw.transition(lw.ring(6), PROBLEM, walk)


def test_what_is_no_walk_and_what_has_two_chains_is_named() -> None:
    design = lw.switching(lw.mhlj(), lw.unif_rw())
    with pytest.raises(lw.InvalidParameter, match=r"first or \.then"):
        lw.transition(NETWORK, PROBLEM, design)  # type: ignore[call-overload]
    with pytest.raises(lw.InvalidParameter, match=r"design must be .*'mhlj'"):
        lw.transition(NETWORK, PROBLEM, "mhlj")  # type: ignore[call-overload]
