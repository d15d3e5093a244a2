"""How a node's process is started: the command, and the environment that it must have."""

from __future__ import annotations

import sys
from pathlib import Path

from levywalk.fleet.identity.node_identity import TLS_1_3_ONLY

ENVIRONMENT = TLS_1_3_ONLY | {
    "MALLOC_ARENA_MAX": "1",
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "GRPC_VERBOSITY": "NONE",  # the reason of a failed handshake is in the node's own log
    # GRPC_EXPERIMENTS stays as it is: without the event engine (-event_engine_client,
    # -event_engine_listener) a hop takes a tenth less CPU time, but with gRPC 1.85 a connection to
    # a node that had just started again hung twice in 207 tries, and the process took all memory.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}  # environment variables that a node's process must have from its start
RUNS_ALREADY = 75  # exit code of a process whose node another process runs: nothing is wrong


def command(path: str | Path) -> list[str]:
    """Return the command that starts a node's process.

    Its environment must contain `ENVIRONMENT`.
    """
    return [sys.executable, "-m", "levywalk.fleet.runtime.process", str(path)]
