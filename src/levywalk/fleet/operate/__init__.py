"""Run and watch a fleet: start and stop its nodes, its status, its logs,
its model and its trace.
"""
