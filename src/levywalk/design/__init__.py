"""How the model walks."""
