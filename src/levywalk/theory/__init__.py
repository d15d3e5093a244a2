"""The chain that a design induces; the engine's independent judge."""
