"""The graph the model walks on."""
