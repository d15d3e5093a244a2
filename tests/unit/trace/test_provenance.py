"""What a trace says about its run: recipes from which each part can be made again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

import levywalk as lw
from levywalk.problem.losses import HuberLoss
from levywalk.registry import from_dict
from levywalk.report.page.build import html_page
from levywalk.trace.provenance import is_plain_sgd

GIVEN: dict[str, Any] = {"steps": 5, "step_size": 0.01, "replicas": 2, "backend": "reference"}


def test_each_part_comes_back_from_its_recipe() -> None:
    data = lw.homogeneous(6, dim=2)
    problem = lw.GeneralizedLinear(data.features, data.targets, HuberLoss(2.0), ridge=0.1)
    update, size = lw.averaged(lw.sgd(minibatch=1)), lw.Decaying(0.1, timescale=50)
    given = GIVEN | {"step_size": size, "update": update}
    trace = lw.run(lw.ring(6), problem, lw.mhlj(0.2), **given)
    told = json.loads(json.dumps(trace.provenance))
    assert repr(from_dict("update", told["update"]["recipe"])) == repr(update)
    assert [from_dict("schedule", each["recipe"]) for each in told["step_size"]] == [size]
    assert repr(from_dict("loss", told["problem"]["loss"]["recipe"])) == "HuberLoss(delta=2.0)"
    again = from_dict("network", told["network"]["recipe"])
    assert again.fingerprint() == told["network"]["fingerprint"]
    assert told["problem"]["recipe"] is None  # from arrays
    told = lw.run(lw.ring(6), data, lw.mhlj(), **GIVEN).provenance
    again = from_dict("data", told["problem"]["recipe"])
    assert again.fingerprint() == told["problem"]["fingerprint"]


def test_a_part_of_ones_own_is_told_as_text() -> None:
    class Half(lw.Update):
        def apply(self, model: Any, *given: Any) -> Any:
            return model / 2

    class Falling:
        def values(self, start: int, stop: int) -> Any:
            return np.full(stop - start, 0.01)

        def __repr__(self) -> str:
            return "Falling()"

    given = GIVEN | {"step_size": Falling(), "update": Half()}
    told = lw.run(lw.ring(6), lw.homogeneous(6, dim=2), lw.mhlj(), **given).provenance
    assert told["update"] == {"text": "Half()", "recipe": None}
    assert told["step_size"] == [{"text": "Falling()", "recipe": None}]


def test_gossip_tells_the_same_parts() -> None:
    told = lw.gossip(lw.ring(6), lw.homogeneous(6, dim=2), "extra", iterations=3).provenance
    assert told["update"]["text"] == "extra"
    assert from_dict("schedule", told["step_size"][0]["recipe"]).value > 0
    assert told["problem"]["loss"]["recipe"] == {"kind": "least_squares"}


def test_plain_sgd_is_known_by_its_recipe_and_in_earlier_traces_by_its_text() -> None:
    class Same(lw.Sgd):
        """Might do anything."""

        def __repr__(self) -> str:
            return "Sgd(minibatch=None)"

    for update, plain in ((lw.sgd(), True), (lw.sgd(minibatch=2), False), (Same(), False)):
        trace = lw.run(lw.ring(6), lw.homogeneous(6, dim=2), lw.mhlj(), update=update, **GIVEN)
        assert is_plain_sgd(trace.provenance["update"]) is plain
    assert is_plain_sgd("Sgd(minibatch=None)")
    assert not is_plain_sgd("HeavyBall(beta=0.5)")
    assert not is_plain_sgd(None)


def test_a_comparison_of_an_earlier_version_is_loaded_and_shown(tmp_path: Path) -> None:
    """Its update and step sizes are texts, and it says nothing about the loss."""
    options = {key: value for key, value in GIVEN.items() if key != "backend"}
    found = lw.compare(
        lw.ring(12), lw.homogeneous(12, dim=2), {"MHLJ": lw.mhlj()}, progress=False, **options
    )
    assert "Sgd(minibatch=None)" in html_page(found, command="")
    assert "recipe" not in html_page(found, command="").partition("the designs as they were run")[0]
    (trace,) = found.traces.values()
    told = trace.provenance | {"update": "Old()", "step_size": ["Constant(value=0.01)"]}
    for part in ("network", "problem"):
        told[part] = {
            key: value for key, value in told[part].items() if key not in ("recipe", "loss")
        }
    old = dataclasses.replace(found, traces={"MHLJ": dataclasses.replace(trace, provenance=told)})
    old.save(tmp_path / "out")
    again = lw.Comparison.load(tmp_path / "out")
    assert again.traces["MHLJ"].provenance["update"] == "Old()"
    page = html_page(again, command="")
    assert "Old()" in page
    assert "[Constant(value=0.01)]" in page
