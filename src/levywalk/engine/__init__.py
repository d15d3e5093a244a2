"""Runs: the oracle, the kernels, and the one that chooses between them."""
