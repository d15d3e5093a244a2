"""The compiled loops; the only home of numba."""

from levywalk.engine.kernels.backend import KernelBackend
from levywalk.engine.kernels.measure import distances2, logistic_loss, quadratic_excess

__all__ = ["KernelBackend", "distances2", "logistic_loss", "quadratic_excess"]
