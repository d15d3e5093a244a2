"""The record of runs."""
