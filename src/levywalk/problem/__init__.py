"""The local losses that the nodes hold."""
