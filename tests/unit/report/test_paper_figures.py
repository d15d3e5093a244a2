"""Plates become files that parse, small enough to be committed, with every word that a reader
needs.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import levywalk as lw
from levywalk.report.figures.figure_data import FigureData, Line, Mark, Panel, Table
from levywalk.report.figures.paper import draw, write_figure

X = np.geomspace(10, 1e5, 60)


def line(name, look, fate="", y=None):
    y = 1.0 / (1.0 + X / 1000) if y is None else y
    return Line(name, look, X, y, 0.5 * y, 2.0 * y, fate)


def figure_data(*panels, **more):
    return FigureData("some", "Some $figure$", "A note of two_words.", (panels,), **more)


@pytest.mark.more
def test_files_parse_and_hold_the_words(tmp_path):
    gone = np.where(X < 1000, 1.0, np.inf)
    panel = Panel(
        "ring", "steps", "error", (line("MHLJ", 2), line("UnifRW", 0, "diverges", gone)), top=10.0
    )
    svg, png, pdf = write_figure(figure_data(panel, panel), tmp_path, ["svg", "png", "pdf"])
    words = " ".join(
        "".join(text.itertext()) for text in ET.parse(svg).iter("{http://www.w3.org/2000/svg}text")
    )
    for word in ("UnifRW diverges", "MHLJ", "ring", "steps", "error", "two_words"):
        assert word in words
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert svg.stat().st_size < 60_000


@pytest.mark.more
def test_the_same_plate_is_the_same_bytes(tmp_path):
    panel = Panel("ring", "steps", "error", (line("MHLJ", 2), line("WeightRW", 1)))
    first, second = (write_figure(figure_data(panel), tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_line_leaves_the_picture_ends_or_is_capped():
    high = np.where(X < 1000, 1.0, np.inf)
    lines = line("a", 0, y=high), line("b", 1)
    (axes,) = draw(figure_data(Panel("", "x", "y", lines, top=5.0))).axes
    assert axes.get_ylim()[1] == 5.0
    assert axes.lines[0].get_ydata()[-1] > 5.0
    (axes,) = draw(figure_data(Panel("", "x", "y", lines, top=5.0, capped=True))).axes
    assert axes.lines[0].get_ydata().max() == 5.0
    (axes,) = draw(figure_data(Panel("", "x", "y", lines))).axes
    assert len(axes.lines[0].get_xdata()) == (X < 1000).sum()


def test_a_line_that_is_nowhere_finite_is_still_named():
    nowhere = np.full(len(X), np.inf)
    figure = draw(
        figure_data(
            Panel("", "x", "y", (line("lost", 0, "diverges", nowhere), line("b", 1)), top=5.0)
        )
    )
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["lost", "b"]
    assert "lost diverges" in [text.get_text() for text in figure.axes[0].texts]


def test_marks_and_falling_axes():
    panel = Panel("", "x", "y", (line("a", 0),), marks=(Mark(100.0, "1/L̄"),), falling_x=True)
    (axes,) = draw(figure_data(panel)).axes
    assert axes.get_xlim()[0] > axes.get_xlim()[1]
    assert [text.get_text().strip() for text in axes.texts] == ["1/L̄"]


def test_a_table_shows_its_text(tmp_path):
    table = Table("chain", np.array([[0.5, np.nan], [0.0, 1.0]]), (("1/2", ""), ("0", "1")), "note")
    (svg,) = write_figure(figure_data(table), tmp_path)
    words = [
        "".join(text.itertext()) for text in ET.parse(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "1/2" in words


def test_a_wrong_format_is_refused(tmp_path):
    with pytest.raises(lw.InvalidParameter, match="formats"):
        write_figure(figure_data(Panel("", "x", "y", (line("a", 0),))), tmp_path, ["bmp"])
