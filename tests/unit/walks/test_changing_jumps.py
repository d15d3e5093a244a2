"""Jumps that change at given steps: the kernel of each piece, the reference, and plain designs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.experiments.spec import check_experiment
from levywalk.registry import from_dict, to_dict
from levywalk.walks import ChangingJumps, is_plain_in_pieces

PIECES: dict[str, list[Any]] = {
    "begins": [0, 300, 301, 700],
    "p_jump": [0.0, 0.1, 0.9, 0.3],
    "p_distance": [0.5, 0.5, 0.2, 0.9],
    "max_hops": [3, 3, 7, 1],
}
NETWORK = lw.ring(60)
PROBLEM = lw.heterogeneous(60, dim=3, important=2, seed=1)


def run(design: lw.Walk, steps: int = 1000, **more: Any) -> lw.Trace:
    given = {"step_size": "theory", "record_walk": True, "replicas": 5, **more}
    return lw.run(NETWORK, PROBLEM, design, steps=steps, **given)


@pytest.mark.parametrize("record_every", [None, 1, 77])
def test_the_kernel_of_each_piece_is_the_reference(record_every: int | None) -> None:
    design = ChangingJumps("importance", **PIECES)
    kernel = run(design, backend="kernel", record_every=record_every)
    reference = run(design, backend="reference", record_every=record_every)
    assert kernel.walk is not None
    assert (kernel.walk == reference.walk).all()
    for name in ("hops", "transfers", "visits"):
        assert (getattr(kernel, name) == getattr(reference, name)).all()
    assert np.allclose(kernel.distance2, reference.distance2, rtol=1e-12, atol=1e-12)


def test_until_a_change_it_is_the_plain_design() -> None:
    changed, plain = run(ChangingJumps("importance", **PIECES)), run(lw.weight_rw(), steps=300)
    assert changed.walk is not None
    assert plain.walk is not None
    assert (changed.walk[:, :300] == plain.walk).all()
    assert (changed.walk[:, 301:] != run(lw.weight_rw()).walk[:, 301:]).any()  # type: ignore[index]
    always = run(ChangingJumps("importance", [0], [0.2], [0.5], [3]))
    assert (always.walk == run(lw.mhlj(0.2)).walk).all()


def test_the_walk_alone_is_the_same() -> None:
    design = ChangingJumps("importance", **PIECES)
    alone = lw.walk(NETWORK, design, problem=PROBLEM, steps=1000, record_walk=True)
    assert alone.walk is not None
    assert (alone.walk[0] == run(design).walk[0]).all()  # type: ignore[index]


def test_it_can_be_stopped_and_resumed(tmp_path: Any) -> None:
    design = ChangingJumps("importance", **PIECES)
    file = tmp_path / "run.npz"
    first = run(design, resume=file)
    assert (run(design, resume=file).model == first.model).all()
    other = ChangingJumps("importance", **{**PIECES, "p_jump": [0.0, 0.1, 0.9, 0.31]})
    with pytest.raises(lw.ResumeError, match="design"):
        run(other, resume=file)


def test_a_recipe_and_an_experiment_file_give_it_again() -> None:
    design = ChangingJumps("mixed", **PIECES, mix=0.3)
    recipe = to_dict("design", design)
    assert from_dict("design", recipe) == design
    plain = {key: value for key, value in recipe.items() if value is not None}
    spec = check_experiment(
        {
            "network": {"family": "ring", "n": 60},
            "problem": {"data": "homogeneous"},
            "designs": {"mine": plain},
            "run": {"steps": 5},
        }
    )
    assert spec.designs["mine"].build() == design


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"begins": [0, 300, 200, 700]}, "ascend"),
        ({"begins": [1, 300, 301, 700]}, "ascend from 0"),
        ({"p_jump": [0.1]}, "one number per piece"),
        ({"p_jump": [0.0, 0.1, 2.0, 0.3]}, "p_jump"),
        ({"p_distance": [0.5, 0.0, 0.5, 0.5]}, "p_distance"),
        ({"max_hops": [3, 0, 3, 3]}, "max_hops"),
        ({"target": "mixed"}, "mix"),
        ({"target": "nowhere"}, "target"),
    ],
)
def test_what_is_no_course_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(lw.InvalidParameter, match=said):
        ChangingJumps(**({"target": "importance"} | PIECES | wrong))


def test_a_subclass_with_decisions_of_its_own_has_no_kernel() -> None:
    class Stubborn(ChangingJumps):
        def decide(self, view: Any, memory: Any, words: Any) -> lw.Decision:
            return lw.Decision(view.node)

    design = Stubborn("importance", **PIECES)
    assert not is_plain_in_pieces(design)
    assert run(design, steps=5).provenance["backend"] == "reference"
