"""The batched backend: the walk is made first, a framework updates the models of all replicas at
once along it.
"""

from levywalk.engine.batched.backend import BatchedBackend, without_batches

__all__ = ["BatchedBackend", "without_batches"]
