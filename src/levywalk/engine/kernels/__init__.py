"""The compiled loops; this is the only package that uses numba."""

from levywalk.engine.kernels.backend import KernelBackend
from levywalk.engine.kernels.measure import distances2, logistic_loss, quadratic_excess

__all__ = ["KernelBackend", "distances2", "logistic_loss", "quadratic_excess"]
