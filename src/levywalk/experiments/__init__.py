"""Comparisons and experiment files."""

from levywalk.experiments.compare import compare

__all__ = ["compare"]
