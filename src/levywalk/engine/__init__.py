"""Runs: the oracle, the kernels, and the one that chooses between them."""

from levywalk.engine.run import check_sizes, checkpoints_of, run, run_step_sizes

__all__ = ["check_sizes", "checkpoints_of", "run", "run_step_sizes"]
