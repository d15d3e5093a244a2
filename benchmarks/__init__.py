"""Benchmarks: ratios measured in one run, never asserted. Run ``python -m benchmarks`` from the
repository's root.
"""
