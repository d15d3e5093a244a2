from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from matplotlib import pyplot

import levywalk as lw
from levywalk.report.figures import canvas
from levywalk.trace.statistics import mean_over_walks
from levywalk.trace.tables import comparison_text, with_interval
from tests.limits import mostly_more


@pytest.fixture(scope="module")
def comparison() -> lw.Comparison:
    network, problem = lw.ring(40), lw.heterogeneous(40, important=1)
    designs = {"WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj(), "i.i.d. weighted": lw.iid_weighted()}
    return lw.compare(
        network, problem, designs, steps=800, replicas=6, step_size="theory", record_walk=True
    )


def test_curves_show_the_mean_over_walks(comparison: lw.Comparison) -> None:
    axes = lw.plot(comparison, x="steps")
    line = next(line for line in axes.lines if line.get_label() == "MHLJ")
    trace = comparison.traces["MHLJ"]
    np.testing.assert_array_equal(line.get_xdata(), trace.step)
    np.testing.assert_allclose(line.get_ydata(), mean_over_walks(trace.error))


def test_transfers_are_on_the_axis_when_asked(comparison: lw.Comparison) -> None:
    axes = lw.plot(comparison, x="transfers", y="excess_loss")
    line = next(line for line in axes.lines if line.get_label() == "WeightRW")
    np.testing.assert_allclose(
        line.get_xdata(), comparison.traces["WeightRW"].transfers.mean(axis=0)
    )


def test_bands_contain_the_mean(comparison: lw.Comparison) -> None:
    axes = lw.plot(comparison.traces["MHLJ"], x="steps")
    band = axes.collections[0].get_paths()[0].vertices
    mean = mean_over_walks(comparison.traces["MHLJ"].error)
    assert band[:, 1].min() <= mean.min()
    assert band[:, 1].max() >= mean[1:].max()


def test_whole_picture_has_a_panel_for_each_question(comparison: lw.Comparison) -> None:
    titles = [axes.get_title() for axes in lw.plot(comparison)]
    assert len(titles) == 4
    assert "visits against target" in titles[2]
    assert "where the model is" in titles[3]


def test_diverged_curves_are_drawn_only_where_they_are_finite() -> None:
    with pytest.warns(lw.DivergedWarning):
        trace = lw.run(
            lw.ring(20), lw.homogeneous(20), lw.unif_rw(), steps=4000, step_size=3.0, replicas=2
        )
    line = lw.plot(trace, x="steps").lines[0]
    assert np.isfinite(line.get_ydata()).all()


def test_panels_are_drawn_into_axes_of_ones_own(comparison: lw.Comparison) -> None:
    figure, (left, right) = pyplot.subplots(1, 2)
    assert lw.plot(comparison, ax=left) is left
    assert lw.plot(comparison, x="bytes", ax=right) is right
    assert (left.get_xlabel(), right.get_xlabel()) == ("steps (updates)", "bytes sent")
    assert pyplot.get_fignums() == [figure.number]  # no other figure


@pytest.mark.parametrize("x", ["steps", "hops", "transfers", "bytes"])
def test_every_curve_has_an_interval_over_each_axis(comparison: lw.Comparison, x: str) -> None:
    axes = lw.plot(comparison, x=x)
    assert len(axes.collections) == len(comparison.traces)
    trace = comparison.traces["MHLJ"]
    counted = trace.step if x == "steps" else getattr(trace, x).mean(axis=0)
    line = next(line for line in axes.lines if line.get_label() == "MHLJ")
    np.testing.assert_allclose(line.get_xdata(), counted)


@pytest.mark.more
def test_figures_are_shown_by_pyplot_unless_they_are_written(
    comparison: lw.Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lw.plot(comparison, x="steps", path=tmp_path / "figure.png")
    assert pyplot.get_fignums() == []
    axes = lw.plot(comparison, x="steps")
    assert [pyplot.figure(number) for number in pyplot.get_fignums()] == [axes.figure]
    monkeypatch.setattr(canvas, "in_notebook", lambda: True)  # which shows what is written, too
    lw.plot(comparison, x="steps", path=tmp_path / "figure.png")
    assert len(pyplot.get_fignums()) == 2


def test_marks_show_where_the_accuracy_is_reached() -> None:
    network, problem = lw.complete(20), lw.homogeneous(20)
    designs = {"UnifRW": lw.unif_rw(), "MHLJ": lw.mhlj()}
    result = lw.compare(network, problem, designs, steps=2000, replicas=8, accuracy=0.3)
    axes = lw.plot(result, x="hops")
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    for name, mark in zip(designs, marks, strict=True):
        trace, at = result.traces[name], result.steps_to[name]
        expected = trace.hops[:, int(np.searchsorted(trace.step, at))].mean()
        np.testing.assert_allclose(mark.get_xdata(), [expected])
        assert mark.get_ydata() == [0.3]
    assert max(mark.get_xdata()[0] for mark in marks) < axes.get_xlim()[1]


def test_names_of_nodes_stand_beside_a_short_axis() -> None:
    towns = nx.cycle_graph(["Oslo", "Moss", "Skien"])
    trace = lw.run(
        towns, lw.homogeneous(3, dim=2), lw.mhlj(), steps=9, step_size=0.01, record_walk=True
    )
    labels = [label.get_text() for label in lw.plot(trace)[-1].get_yticklabels()]
    assert labels == ["Oslo", "Moss", "Skien"]


@pytest.mark.parametrize(
    "suffix", mostly_more(["png", "pdf", "svg"], lambda suffix: suffix == "svg")
)
def test_figures_are_written(comparison: lw.Comparison, tmp_path: Path, suffix: str) -> None:
    lw.plot(comparison, path=tmp_path / f"figure.{suffix}")
    assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000


def test_wrong_arguments_are_named(comparison: lw.Comparison, tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidParameter, match="x must be one of 'steps'"):
        lw.plot(comparison, x="days")
    with pytest.raises(lw.InvalidParameter, match="'error'"):
        lw.plot(comparison, y="accuracy")
    with pytest.raises(lw.InvalidParameter, match="png"):
        lw.plot(comparison, path=tmp_path / "figure.gif")
    with pytest.raises(lw.InvalidParameter, match="folder that exists"):
        lw.plot(comparison, path=tmp_path / "none" / "figure.png")
    with pytest.raises(lw.InvalidParameter, match="Trace"):
        lw.plot([1, 2, 3])  # type: ignore[call-overload]
    with pytest.raises(lw.InvalidParameter, match=r"pyplot\.subplots"):
        lw.plot(comparison, ax="left")  # type: ignore[call-overload]


def test_table_text_has_a_row_per_design_and_never_drops_what_was_not_reached(
    comparison: lw.Comparison,
) -> None:
    headers, rows = comparison_text(comparison)
    assert [row[0] for row in rows] == list(comparison.traces)
    assert all(len(row) == len(headers) for row in rows)
    assert with_interval(float("inf"), 700.0, float("inf")) == "not reached [700, ∞]"
    assert with_interval(float("inf"), float("inf"), float("inf")) == "not reached"


@pytest.mark.more
@pytest.mark.parametrize("family", mostly_more(["mhlj", "mixed"], lambda name: name == "mhlj"))
def test_tuning_is_drawn_with_its_whole_curve(family: str, tmp_path: Path) -> None:
    options = {
        "p_jumps": [0.0, 0.1, 0.4],
        "p_distances": [0.5],
        "max_hops": [3],
        "mixes": [0.0, 0.2, 1.0],
    }
    tuning = lw.tune(lw.ring(30), lw.heterogeneous(30, important=1), family=family, **options)
    cost, gap, _ = lw.plot(tuning, path=tmp_path / "tune.png")
    mine = pyplot.figure().add_subplot()
    assert lw.plot(tuning, ax=mine) is mine
    np.testing.assert_allclose(mine.lines[0].get_ydata(), cost.lines[0].get_ydata())
    with pytest.raises(lw.InvalidParameter, match="left out for a tuning"):
        lw.plot(tuning, x="steps")
    np.testing.assert_allclose(cost.lines[0].get_ydata(), [row["cost"] for row in tuning.curve])
    np.testing.assert_allclose(
        gap.lines[0].get_ydata(), [row["spectral_gap"] for row in tuning.curve]
    )
    assert (tmp_path / "tune.png").stat().st_size > 1000
