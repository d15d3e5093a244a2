"""Runs: the oracle, the kernels, and the one that chooses between them."""

from levywalk.engine.run import checkpoints_of, run, run_step_sizes

__all__ = ["checkpoints_of", "run", "run_step_sizes"]
