"""The study of the forecasts (benchmarks/predictions.py): its results are whole and say what the
issue asked for and what docs/theory.md says.
"""

from __future__ import annotations

from pathlib import Path

import pytest

predictions = pytest.importorskip("benchmarks.predictions", reason="only in a clone")
THEORY = Path(__file__).parents[3] / "docs" / "theory.md"


def test_trusted_forecasts_are_good_on_the_instances_written_down_beforehand():
    found = predictions.judge("judged", predictions._read("judged"))
    assert found["instances"] == 216
    assert found["within a factor of 2, trusted"] >= 0.9
    assert found["Kendall's τ, trusted: median"] >= 0.85
    assert found["share of forecasts that are trusted"] >= 0.5
    text = THEORY.read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| within a factor of 2"))
    assert row.endswith(
        f"| {found['within a factor of 2, all']:.1%} | "
        f"{found['within a factor of 2, trusted']:.1%} |".replace("%", " %")
    )
    whole = f"In {found['share of instances with all methods trusted']:.1%} of the instances"
    assert whole.replace("%", " %") in text


def test_thresholds_were_fixed_on_other_instances():
    judged, design = (predictions.instances(which) for which in ("judged", "design"))
    assert not {one.name for one in judged} & {one.name for one in design}
    assert not {one.seed for one in judged} & {one.seed for one in design}
