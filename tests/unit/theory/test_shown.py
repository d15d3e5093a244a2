"""How results show themselves: one short line in a terminal, a small table in a notebook."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.experiments.inspect import inspect
from levywalk.notebook import columns_html, table_html, value_text
from levywalk.theory.judge.moments import exact_moments

NETWORK = lw.ring(12, self_loops="counted")
# Written down, because the results are not computed before a test needs them.
NAMES = (
    "gap",
    "law",
    "mixing",
    "assumptions",
    "assumption",
    "bounds",
    "constants",
    "entrapment",
    "region",
    "floor",
    "prediction",
    "unreachable",
    "tuning",
    "candidate",
    "moments",
    "inspection",
    "judgement",
)


@cache
def results() -> dict[str, Any]:
    problem = lw.heterogeneous(12, dim=2, important=1)
    P = lw.transition(NETWORK, problem, lw.mhlj())
    tuning = lw.tune(NETWORK, problem, p_jumps=[0.0, 0.1], p_distances=[0.5], max_hops=[3])
    bounds = lw.bounds(NETWORK, problem, lw.mhlj(), steps=100)
    report = lw.entrapment(NETWORK, problem, lw.mhlj())
    inspection = inspect(NETWORK, problem)
    found = lw.assumptions(NETWORK, problem, lw.mhlj())
    results = {
        "gap": lw.spectral_gap(P),
        "law": lw.stationary_report(P),
        "mixing": lw.mixing_time(P),
        "assumptions": found,
        "assumption": found["Assumption 2"],
        "bounds": bounds,
        "constants": bounds.constants,
        "entrapment": report,
        "region": report.regions[0],
        "floor": lw.error_floor(NETWORK, problem, lw.mhlj()),
        "prediction": lw.predict(NETWORK, problem, lw.mhlj(), accuracy=0.5),
        "unreachable": lw.predict(NETWORK, problem, lw.mhlj(), accuracy=1e-12),
        "tuning": tuning,
        "candidate": tuning.candidates[0],
        "moments": exact_moments(NETWORK, problem, lw.mhlj(), steps=list(range(1, 30))),
        "inspection": inspection,
        "judgement": inspection.judgements["MHLJ"],
    }
    assert tuple(results) == NAMES
    return results


class Balanced(HTMLParser):
    """Counts cells and notices tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.cells += tag == "td"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_result_is_one_short_line(name: str) -> None:
    text = repr(results()[name])
    assert "\n" not in text
    assert len(text) < 240
    assert type(results()[name]).__name__ in text
    assert "array(" not in text


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"assumption", "candidate"}))
def test_a_result_is_a_small_table_in_a_notebook(name: str) -> None:
    parser = Balanced()
    parser.feed(results()[name]._repr_html_())
    assert not parser.open
    assert 3 <= parser.cells <= 100


def test_the_key_numbers_are_in_the_line() -> None:
    shown = results()
    assert f"{shown['gap'].value:.6g}" in repr(shown["gap"])
    assert f"score {shown['entrapment'].score:.3g}" in repr(shown["entrapment"])
    assert f"{shown['prediction'].steps:,.0f} steps" in repr(shown["prediction"])
    assert "never reaches" in repr(shown["unreachable"])
    assert "fail: Assumption 2" in repr(shown["assumptions"])
    assert f"{shown['floor'].relative_floor:.3g}" in repr(shown["floor"])


def test_text_is_escaped() -> None:
    page = table_html([("<b>", "a & b")], "<script>") + columns_html(["<i>"], [["<u>"]], "x < y")
    for forbidden in ("<b>", "<script>", "<i>", "<u>", "a & b"):
        assert forbidden not in page
    assert "&lt;script&gt;" in page


def test_numbers_of_numpy_are_numbers() -> None:
    assert value_text(np.int64(12_000)) == "12,000"
    assert value_text(np.float64(0.5)) == "0.5"
    assert value_text(np.bool_(True)) == "yes"
    assert value_text(float("nan")) == "unknown"
