"""What a visited node does, whatever way the model walks."""

from levywalk.updates.sgd import Sgd, as_step_size

__all__ = ["Sgd", "as_step_size"]
