"""The record of runs: what simulation and fleet both produce. `files` reads and writes it."""

from levywalk.trace.trace import Trace

__all__ = ["Trace"]
