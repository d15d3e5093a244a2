"""Runs: the oracle, the kernels, and the one that chooses between them."""

from levywalk.engine.run import run, run_step_sizes

__all__ = ["run", "run_step_sizes"]
