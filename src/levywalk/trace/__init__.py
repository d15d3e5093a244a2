"""The record of runs: what simulation and fleet both produce. `files` reads and writes it."""

from levywalk.trace.comparison import Comparison, Trial
from levywalk.trace.costs import Costs, Stragglers, as_costs
from levywalk.trace.trace import Trace
from levywalk.trace.walk_record import Correlation, WalkRecord

__all__ = [
    "Comparison",
    "Correlation",
    "Costs",
    "Stragglers",
    "Trace",
    "Trial",
    "WalkRecord",
    "as_costs",
]
