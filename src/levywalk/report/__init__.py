"""Tables and figures."""

from levywalk.report.figures import plot

__all__ = ["plot"]
