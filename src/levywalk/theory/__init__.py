"""The chain that a design induces; the engine's independent judge."""

from levywalk.theory.spectrum import stationary
from levywalk.theory.transition import levy_matrix, metropolis_hastings_matrix, transition

__all__ = ["levy_matrix", "metropolis_hastings_matrix", "stationary", "transition"]
