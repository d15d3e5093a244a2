"""Comparisons and experiment files."""

from levywalk.experiments.compare import Comparison, Trial, compare

__all__ = ["Comparison", "Trial", "compare"]
