"""Fleets of real nodes: the protocol as a pure state machine, and everything that runs and checks
it.
"""
