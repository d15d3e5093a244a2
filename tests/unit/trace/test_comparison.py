"""One result: what `compare` returns is what is saved, loaded, reported and shown."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import DataWarning, InvalidTrace, MissingFile
from levywalk.report.page.build import html_page
from levywalk.report.page.verdict import verdict
from levywalk.trace.tables import comparison_text, title_text
from tests.limits import mostly_more, mostly_soak

MODULE = import_module("levywalk.experiments.compare")
NETWORK = lw.complete(12)
PROBLEM = lw.homogeneous(12, dim=3)
DESIGNS = {"walk": lw.unif_rw(), "iid / free": lw.iid_weighted()}
OPTIONS: dict[str, Any] = {"steps": 300, "replicas": 4, "record_walk": True}


class Bowls:
    """f_v(x) = ½‖x - v‖², without a word about the optimum."""

    n, dim = 12, 2
    smoothness = np.ones(12)

    def local_loss(self, v: int, x: Any) -> float:
        return 0.5 * float(((x - v) ** 2).sum())

    def local_gradient(self, v: int, x: Any) -> Any:
        return x - v


def compared(**changes: Any) -> lw.Comparison:
    arguments: dict[str, Any] = {"problem": PROBLEM, "designs": DESIGNS} | OPTIONS | changes
    return lw.compare(NETWORK, arguments.pop("problem"), arguments.pop("designs"), **arguments)


def by_loss(**changes: Any) -> lw.Comparison:
    return compared(problem=Bowls(), rank_by="loss", steps=60, **changes)


def final_norm(model: Any) -> float:
    return float(np.abs(model - 5.5).sum())


@pytest.fixture(scope="module")
def found() -> lw.Comparison:
    result = compared(accuracy=0.2)
    return replace(result, settings={"run": {"steps": 300}}, command="levywalk compare complete:12")


KINDS = {
    "distance": lambda: compared(accuracy=0.2),
    "excess": lambda: compared(rank_by="excess_loss", accuracy=0.2),
    "loss": by_loss,
    "level": lambda: by_loss(accuracy=16.0),
    "metric": lambda: compared(problem=Bowls(), rank_by=final_norm, steps=60),
    "given": lambda: compared(step_size=0.01),
    "one walk": lambda: by_loss(replicas=1),
}
QUICK = ("distance", "metric", "one walk")


# --- saved and loaded -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", mostly_more(KINDS, lambda kind: kind in QUICK))
def test_a_loaded_comparison_is_the_one_that_was_saved(kind: str, tmp_path: Path) -> None:
    mine = KINDS[kind]()
    files = mine.save(tmp_path / "new")
    again = lw.Comparison.load(tmp_path / "new")
    assert {file.name for file in files} == {"walk.nc", "iid-free.nc", "table.csv", "result.json"}
    assert again.table().equals(mine.table())
    assert again.document() == mine.document()
    for name in ("accuracy", "rank_by", "step_size", "sweep", "steps_to", "settings", "command"):
        assert getattr(again, name) == getattr(mine, name)
    assert again.ranked() == mine.ranked()
    assert verdict(again) == verdict(mine)
    assert repr(again) == repr(mine)
    assert again._repr_html_() == mine._repr_html_()


def test_settings_and_command_are_kept(found: lw.Comparison, tmp_path: Path) -> None:
    found.save(tmp_path)
    again = lw.Comparison.load(tmp_path)
    assert (again.settings, again.command) == (found.settings, found.command)
    assert json.loads((tmp_path / "result.json").read_text())["settings"] == found.settings


@pytest.mark.parametrize("kind", mostly_more(KINDS, lambda kind: kind in QUICK))
def test_the_page_from_memory_is_the_page_from_the_folder(kind: str, tmp_path: Path) -> None:
    mine = KINDS[kind]()
    mine.save(tmp_path)
    (one,) = lw.write_report(mine, tmp_path / "memory.html")
    (other,) = lw.write_report(tmp_path, tmp_path / "folder.html")
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.more  # test_figures and the other tests here draw and tell the parts
@pytest.mark.parametrize("kind", mostly_soak(KINDS, lambda kind: kind in ("excess", "loss")))
def test_everything_is_drawn_and_told(kind: str, tmp_path: Path) -> None:
    mine = KINDS[kind]()
    lw.plot(mine, path=tmp_path / "figure.png")
    assert len(lw.write_report(mine, tmp_path / "page.html", figures=True)) == 9
    headers, rows = comparison_text(mine)
    assert all(len(row) == len(headers) for row in rows)
    assert title_text(mine)
    assert html_page(mine, command="").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sweep": [{"relative": 1.0}]}, "sweep of 'walk'"),
        ({"sweep": 5}, "sweep of 'walk'"),
        ({"step_size": None}, "step_size"),
        ({"final_error": "small"}, "final_error"),
    ],
)
def test_a_damaged_file_is_refused(
    found: lw.Comparison, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    found.save(tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    document["designs"]["walk"] |= change
    (tmp_path / "result.json").write_text(json.dumps(document))
    with pytest.raises(InvalidTrace, match=words):
        lw.Comparison.load(tmp_path)


def test_without_traces_it_cannot_be_loaded(found: lw.Comparison, tmp_path: Path) -> None:
    assert [file.name for file in found.save(tmp_path, traces=False)] == [
        "table.csv",
        "result.json",
    ]
    with pytest.raises(MissingFile, match="no trace of design 'walk'"):
        lw.Comparison.load(tmp_path)


def test_names_in_a_notebook_are_escaped() -> None:
    mine = compared(designs={"<b>&": lw.unif_rw()}, step_size=0.01)
    assert "<b>" not in mine._repr_html_()
    assert "&lt;b&gt;&amp;" in mine._repr_html_()


# --- ranked by what is known ----------------------------------------------------------------------


def test_without_an_optimum_designs_are_ranked_by_the_loss() -> None:
    with pytest.warns(DataWarning, match="ranked by the loss"):
        mine = compared(problem=Bowls(), steps=60)
    assert (mine.rank_by, mine.accuracy, mine.steps_to) == ("loss", None, {})
    for name, trace in mine.traces.items():
        assert mine.final(name) == pytest.approx(trace.loss[:, -1].mean())
        assert mine.table().loc[name, "final_loss"] == mine.final(name)
        chosen = min(mine.sweep[name], key=lambda trial: trial.error_limit)
        assert mine.step_size[name] == chosen.step_size
    assert mine.ranked()[0] == min(mine.traces, key=mine.final)
    assert "least loss" in verdict(mine)[0]


@pytest.mark.more
def test_an_accuracy_of_the_loss_is_a_value_of_the_loss() -> None:
    mine = by_loss(accuracy=16.0)
    for name, trace in mine.traces.items():
        mean = trace.loss.mean(axis=0)
        below = [int(step) for i, step in enumerate(trace.step) if (mean[i:] <= 16.0).all()]
        assert mine.steps_to[name] == (below[0] if below else math.inf)
        assert mine.table().loc[name, "steps_to_16"] == mine.steps_to[name]
    assert "a loss of 16" in verdict(mine)[0]


def test_the_excess_loss_is_relative_to_its_first_value() -> None:
    mine = compared(rank_by="excess_loss", accuracy=0.2)
    for name, trace in mine.traces.items():
        relative = (trace.excess_loss / trace.excess_loss[:, :1]).mean(axis=0)
        assert mine.final(name) == pytest.approx(relative[-1])
        reached = mine.steps_to[name]
        assert math.isfinite(reached)
        assert (relative[trace.step >= reached] <= 0.2).all()


def test_a_metric_of_ones_own_is_evaluated_on_the_final_models() -> None:
    mine = compared(problem=Bowls(), rank_by=final_norm, steps=60)
    assert (mine.rank_by, mine.accuracy) == ("final_norm", None)
    for name, trace in mine.traces.items():
        assert mine.final_metric[name] == pytest.approx([final_norm(x) for x in trace.model])
        assert mine.step_size[name] == min(mine.sweep[name], key=lambda t: t.error_limit).step_size
    assert "final_final_norm" in mine.table()


def test_ranking_by_the_loss_changes_no_walk() -> None:
    given = {"walk": 0.02, "iid / free": 0.01}
    one, other = compared(step_size=given), compared(step_size=given, rank_by="loss")
    for name in DESIGNS:
        assert np.array_equal(one.traces[name].model, other.traces[name].model)


def broken(model: Any) -> float:
    raise ZeroDivisionError("of all things")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rank_by": "distance2", "problem": Bowls()}, "known optimum.*rank_by='loss'"),
        ({"rank_by": "excess_loss", "problem": Bowls()}, "known optimum"),
        ({"rank_by": "speed"}, "rank_by must be one of 'distance2', 'excess_loss', 'loss'"),
        ({"rank_by": 3}, "rank_by"),
        ({"rank_by": broken}, "ZeroDivisionError.*of all things"),
        ({"rank_by": lambda model: model}, "rank_by must be a function from a model"),
        ({"rank_by": final_norm, "accuracy": 0.5}, "accuracy must be left out"),
        ({"rank_by": "loss", "accuracy": math.inf}, "accuracy"),
        ({"rank_by": "excess_loss", "measure_loss": 5}, "exact loss"),
        ({"x0": PROBLEM.optimum}, "x0 is the optimum"),
        ({"rank_by": "excess_loss", "x0": PROBLEM.optimum}, "x0 is an optimum"),
        ({"x0": [1.0]}, "x0 must have 3 numbers"),
        ({"measure_loss": "roughly"}, "roughly"),
        ({"steps": 10**10, "record_every": 10**9}, "walk"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_walk(
    change: dict[str, Any], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, "run", lambda *a, **k: pytest.fail("ran"))
    monkeypatch.setattr(MODULE, "tune_step_size", lambda *a, **k: pytest.fail("tuned"))
    with pytest.raises(lw.LevywalkError, match=match):
        compared(**change)


def test_a_problem_without_a_minimiser_is_refused_before_any_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MODULE, "tune_step_size", lambda *a, **k: pytest.fail("tuned"))
    labels = (np.arange(12) > 5).astype(float)
    separable = lw.Logistic(np.linspace(-1, 1, 12)[:, None], labels)
    with pytest.raises(lw.NoMinimiser, match="ridge"):
        compared(problem=separable, x0=None)
