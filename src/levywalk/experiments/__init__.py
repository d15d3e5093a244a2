"""Comparisons and experiment files."""
