"""A fuzzer of the files and options that strangers hand over.

Valid files are mutated and read in a child process with limits of memory and processor time. Each
outcome must be success or a `LevywalkError`. ``python -m tests.fuzz --seconds 60`` runs it.
"""
