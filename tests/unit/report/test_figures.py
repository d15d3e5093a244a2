from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import levywalk as lw
from levywalk.report.tables import comparison_text, with_interval
from levywalk.trace.statistics import mean_over_walks


@pytest.fixture(scope="module")
def comparison() -> lw.Comparison:
    network, problem = lw.ring(40), lw.heterogeneous(40, important=1)
    designs = {"WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj(), "i.i.d. weighted": lw.iid_weighted()}
    return lw.compare(
        network, problem, designs, steps=800, replicas=6, step_size="theory", record_walk=True
    )


def test_curves_show_the_mean_over_walks(comparison: lw.Comparison) -> None:
    axes = lw.plot(comparison, x="steps").axes[0]
    line = next(line for line in axes.lines if line.get_label() == "MHLJ")
    trace = comparison.traces["MHLJ"]
    np.testing.assert_array_equal(line.get_xdata(), trace.step)
    np.testing.assert_allclose(line.get_ydata(), mean_over_walks(trace.error))


def test_transfers_are_on_the_axis_when_asked(comparison: lw.Comparison) -> None:
    axes = lw.plot(comparison, x="transfers", y="excess_loss").axes[0]
    line = next(line for line in axes.lines if line.get_label() == "WeightRW")
    np.testing.assert_allclose(
        line.get_xdata(), comparison.traces["WeightRW"].transfers.mean(axis=0)
    )


def test_bands_contain_the_mean(comparison: lw.Comparison) -> None:
    axes = lw.plot(comparison.traces["MHLJ"], x="steps").axes[0]
    band = axes.collections[0].get_paths()[0].vertices
    mean = mean_over_walks(comparison.traces["MHLJ"].error)
    assert band[:, 1].min() <= mean.min()
    assert band[:, 1].max() >= mean[1:].max()


def test_whole_picture_has_a_panel_for_each_question(comparison: lw.Comparison) -> None:
    titles = [axes.get_title() for axes in lw.plot(comparison).axes]
    assert len(titles) == 4
    assert "visits against target" in titles[2]
    assert "where the model is" in titles[3]


def test_diverged_curves_are_drawn_only_where_they_are_finite() -> None:
    with pytest.warns(lw.DivergedWarning):
        trace = lw.run(
            lw.ring(20), lw.homogeneous(20), lw.unif_rw(), steps=4000, step_size=3.0, replicas=2
        )
    line = lw.plot(trace, x="steps").axes[0].lines[0]
    assert np.isfinite(line.get_ydata()).all()


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_figures_are_written(comparison: lw.Comparison, tmp_path: Path, suffix: str) -> None:
    lw.plot(comparison, path=tmp_path / f"figure.{suffix}")
    assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000


def test_wrong_arguments_are_named(comparison: lw.Comparison, tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidParameter, match="x must be one of 'steps'"):
        lw.plot(comparison, x="time")
    with pytest.raises(lw.InvalidParameter, match="'error'"):
        lw.plot(comparison, y="accuracy")
    with pytest.raises(lw.InvalidParameter, match="png"):
        lw.plot(comparison, path=tmp_path / "figure.gif")
    with pytest.raises(lw.InvalidParameter, match="folder that exists"):
        lw.plot(comparison, path=tmp_path / "none" / "figure.png")
    with pytest.raises(lw.InvalidParameter, match="Trace"):
        lw.plot([1, 2, 3])  # type: ignore[arg-type]


def test_table_text_has_a_row_per_design_and_never_drops_what_was_not_reached(
    comparison: lw.Comparison,
) -> None:
    headers, rows = comparison_text(comparison)
    assert [row[0] for row in rows] == list(comparison.traces)
    assert all(len(row) == len(headers) for row in rows)
    assert with_interval(float("inf"), 700.0, float("inf")) == "not reached [700, ∞]"
    assert with_interval(float("inf"), float("inf"), float("inf")) == "not reached"


@pytest.mark.parametrize("family", ["mhlj", "mixed"])
def test_tuning_is_drawn_with_its_whole_curve(family: str, tmp_path: Path) -> None:
    options = {
        "p_jumps": [0.0, 0.1, 0.4],
        "p_distances": [0.5],
        "max_hops": [3],
        "mixes": [0.0, 0.2, 1.0],
    }
    tuning = lw.tune(lw.ring(30), lw.heterogeneous(30, important=1), family=family, **options)
    figure = lw.plot(tuning, path=tmp_path / "tune.png")
    cost, gap, _ = figure.axes
    np.testing.assert_allclose(cost.lines[0].get_ydata(), [row["cost"] for row in tuning.curve])
    np.testing.assert_allclose(
        gap.lines[0].get_ydata(), [row["spectral_gap"] for row in tuning.curve]
    )
    assert (tmp_path / "tune.png").stat().st_size > 1000
