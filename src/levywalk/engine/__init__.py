"""Runs: the reference backend, the kernels, the choice between them; bare walks, and gossip."""

from levywalk.engine.gossip import gossip
from levywalk.engine.prepare import check_sizes, checkpoints_of
from levywalk.engine.run import check_run, run, run_step_sizes
from levywalk.engine.walk_alone import walk

__all__ = ["check_run", "check_sizes", "checkpoints_of", "gossip", "run", "run_step_sizes", "walk"]
