"""What a figure of the paper shows, as data: lines in panels. `figures.paper` draws it."""

from __future__ import annotations

from dataclasses import dataclass

from levywalk.arrays import Floats


@dataclass(frozen=True, eq=False)
class Line:
    """One line with its band; it is infinite where the error is infinite.

    Attributes
    ----------
    look
        Number of the colour, dashes and marks; a method has the same in every figure.
    fate
        What happens where the line ends, such as "diverges"; it is written into the figure.
    points
        Whether these are single points from elsewhere: drawn as large open marks.
    """

    name: str
    look: int
    x: Floats
    y: Floats
    low: Floats
    high: Floats
    fate: str = ""
    points: bool = False


@dataclass(frozen=True)
class Mark:
    """A value on the x axis that is marked, with its name."""

    at: float
    text: str


@dataclass(frozen=True, eq=False)
class Panel:
    """Lines over one pair of logarithmic axes.

    Attributes
    ----------
    top
        Upper end of the y axis, or None; higher values are drawn there if ``capped``, else they are
        cut off.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    top: float | None = None
    capped: bool = False
    falling_x: bool = False  # from large to small


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix as an annotated map; empty text means that the number is not known."""

    title: str
    values: Floats
    text: tuple[tuple[str, ...], ...]
    note: str


@dataclass(frozen=True)
class RegionCell:
    """One cell of the picture of a claim: its answer and its effect as text."""

    answer: str
    text: str


@dataclass(frozen=True)
class RegionData:
    """Where a claim holds: rows of comparisons, columns of (group, item), and a cell for each."""

    name: str
    title: str
    note: str
    rows: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    cells: tuple[tuple[RegionCell | None, ...], ...]


@dataclass(frozen=True, eq=False)
class FigureData:
    """A figure: rows of panels, one legend, and a note that explains it."""

    name: str
    title: str
    note: str
    rows: tuple[tuple[Panel | Table, ...], ...]
    shared: bool = True  # whether the panels of a row have one y axis
