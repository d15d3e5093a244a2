"""Problems whose model is several named arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import levywalk as lw

N = 8
SQUARES = lw.homogeneous(N, dim=4)


class Named:
    """Least squares with the model in two arrays."""

    n, smoothness = N, SQUARES.smoothness
    model_arrays = {"weight": (1, 3), "bias": (1,)}
    optimum = {"weight": SQUARES.optimum[None, :3], "bias": SQUARES.optimum[3:]}

    def local_loss(self, v: int, x: dict[str, Any]) -> float:
        return SQUARES.local_loss(v, np.append(x["weight"][0], x["bias"]))

    def local_gradient(self, v: int, x: dict[str, Any]) -> dict[str, Any]:
        found = SQUARES.local_gradient(v, np.append(x["weight"][0], x["bias"]))
        return {"weight": found[None, :3], "bias": found[3:]}


def test_named_arrays_walk_as_one_vector() -> None:
    given: dict[str, Any] = {"steps": 50, "step_size": 0.01, "replicas": 2}
    ours = lw.run(lw.ring(N), Named(), lw.mhlj(), **given)
    theirs = lw.run(lw.ring(N), SQUARES, lw.mhlj(), backend="reference", **given)
    assert np.array_equal(ours.model, theirs.model)
    named = ours.named_models()
    assert {name: array.shape for name, array in named.items()} == {
        "weight": (2, 1, 3),
        "bias": (2, 1),
    }
    assert np.array_equal(named["weight"][:, 0], theirs.model[:, :3])
    assert ours.distance2 == pytest.approx(theirs.distance2)


def test_named_first_models_and_comparisons() -> None:
    x0 = {"weight": np.ones((1, 3)), "bias": np.zeros(1)}
    trace = lw.run(lw.ring(N), Named(), lw.mhlj(), steps=1, step_size=1e-9, x0=x0)
    assert trace.model[0].round(6).tolist() == [1.0, 1.0, 1.0, 0.0]
    found = lw.compare(
        lw.ring(N), Named(), {"a": lw.unif_rw()}, steps=30, replicas=2, step_size=0.01
    )
    assert found.traces["a"].named_models()["bias"].shape == (2, 1)


@pytest.mark.parametrize("bad", [{"weight": np.ones(3)}, {"weight": np.ones((3, 1)), "bias": [0]}])
def test_wrong_arrays_are_named(bad: Any) -> None:
    with pytest.raises(lw.InvalidParameter, match=r"arrays weight, bias|'weight' must have shape"):
        lw.run(lw.ring(N), Named(), lw.mhlj(), steps=1, step_size=0.1, x0=bad)
