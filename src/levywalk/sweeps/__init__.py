"""Runs many experiments, each once: over a grid of values, on all cores or on a Dask cluster."""
