"""Results that a notebook shows as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.experiments.privacy_curve import privacy_curve
from levywalk.league.league import LeagueCell, run_league
from levywalk.league.league_result import LeagueResult
from levywalk.league.pairs import PAIRS
from levywalk.league.scenes import ACCURACIES, QUICK
from levywalk.sweeps.workers import Failure


def test_a_correlation_is_a_table() -> None:
    found = lw.walk(lw.ring(20), lw.simple_rw(), steps=4000, observable=range(20)).correlation()
    page = found._repr_html_()
    assert page.startswith("<table>")
    assert f"{found.time:.4g}" in page
    assert page.count("<tr>") == 5
    assert tuple(found) == (*found[:5], found.trusted)  # as before, a tuple


@pytest.mark.usefixtures("reference_only")
def test_a_privacy_curve_is_a_table_and_its_text_is_short() -> None:
    network, problem = lw.ring(10), lw.homogeneous(10, dim=2, seed=1)
    found = privacy_curve(
        network,
        problem,
        lw.unif_rw(),
        clip=5.0,
        steps=40,
        budgets=[1.0, 100.0],
        step_size=0.02,
        replicas=2,
        progress=False,
    )
    page = found._repr_html_()
    assert page.startswith("<table>")
    assert page.count("<tr>") == 4  # the header, two budgets, and without
    assert f"{found.rows[1]['value']:.4g}" in page
    assert f"{found.without['value']:.4g}" in page
    assert len(repr(found)) < 150
    assert "at ε = 100" in repr(found)


def test_a_league_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = next(pair for pair in PAIRS if not pair.gossip)
    counts: dict[str, Any] = {"transfers": np.array([[[7.0, 8.0, 9.0, np.inf]] * 3])}
    cell = LeagueCell("ring <10>", "snr10", pair, counts, {"chosen": [0] * len(ACCURACIES)})
    found = LeagueResult([cell], (Failure("key", "grid", {}, "too slow"),))
    page = found._repr_html_()
    assert "ring &lt;10&gt;" in page
    assert pair.name in page
    assert "<td" in page
    assert ">9<" in page
    assert ">infinite<" in page
    assert "failed: grid" in page
    cells, failures = found  # as before
    assert (len(cells), len(failures)) == (1, 1)
    monkeypatch.setattr("levywalk.league.league.compute_tasks", lambda *given, **options: ([], ()))
    assert isinstance(run_league({}, QUICK, tmp_path), LeagueResult)
