"""Tables and figures."""

from levywalk.report.figures.plot import plot

__all__ = ["plot"]
