"""The compiled loops; the only home of numba."""
