"""What a figure of the paper shows, as data alone: lines in panels in a plate. `paper_figures` draws it."""

from __future__ import annotations

from dataclasses import dataclass

from levywalk.arrays import Floats


@dataclass(frozen=True, eq=False)
class Line:
    """One line with its band; infinite where the error is, and never left out for that.

    Attributes
    ----------
    look
        Which colour, dashes and marks: a method has the same in every figure.
    fate
        What is said in words where the line leaves the picture, such as "diverges".
    """

    name: str
    look: int
    x: Floats
    y: Floats
    low: Floats
    high: Floats
    fate: str = ""


@dataclass(frozen=True)
class Mark:
    """A place on the x axis that has a meaning."""

    at: float
    text: str


@dataclass(frozen=True, eq=False)
class Panel:
    """Lines over one pair of logarithmic axes.

    Attributes
    ----------
    top
        Where the picture ends above, or None; what is higher is drawn there if ``capped``, else it leaves.
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
    """A matrix as an annotated map; where the text is empty, nothing is known."""

    title: str
    values: Floats
    text: tuple[tuple[str, ...], ...]
    note: str


@dataclass(frozen=True, eq=False)
class Plate:
    """A figure: rows of panels, one legend, and what has to be known to read it."""

    name: str
    title: str
    note: str
    rows: tuple[tuple[Panel | Table, ...], ...]
    shared: bool = True  # whether the panels of a row have one y axis
