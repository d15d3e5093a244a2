"""Run with ``python -m benchmarks``."""

from benchmarks.bench import main

main()
