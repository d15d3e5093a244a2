"""What was run, as a trace records it; simulations and fleets use the same."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable
from typing import Any

import numpy as np

from levywalk.draws import VERSION
from levywalk.network import Network
from levywalk.problem import Problem, has_l1, model_type
from levywalk.schedule import Schedule
from levywalk.updates import Update
from levywalk.version import __version__
from levywalk.walks import Walk


def told(
    network: Network,
    problem: Problem,
    design: Walk,
    update: Update,
    step_sizes: Iterable[Schedule],
    largest: float,
    *,
    backend: str,
    seed: int,
    steps: int,
    replicas: int,
) -> dict[str, Any]:
    """Return versions, seed, network, problem, design and step sizes as plain data.

    Examples
    --------
    >>> import levywalk as lw
    >>> parts = lw.ring(5), lw.homogeneous(5), lw.mhlj(), lw.sgd(), [lw.Constant(0.1)]
    >>> told(*parts, 1.0, backend="reference", seed=0, steps=10, replicas=1)["network"]["name"]
    'ring(5)'
    """
    fingerprint = getattr(problem, "fingerprint", None)
    idle = network.n - problem.n
    dtype = model_type(problem).name
    arrays = getattr(problem, "arrays", None)  # of a model that is several named arrays
    return {
        "levywalk": __version__,
        "draws": VERSION,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "backend": backend,
        "seed": seed,
        "steps": steps,
        "replicas": replicas,
        "network": {
            "name": network.name,
            "n": network.n,
            "edges": network.n_edges,
            "self_loops": network.self_loops,
            "fingerprint": network.fingerprint(),
        },
        "problem": {
            "kind": type(getattr(problem, "named", problem)).__name__,
            "dim": problem.dim,
            **({"l1": problem.l1} if has_l1(problem) else {}),  # type: ignore[attr-defined]
            **({} if dtype == "float64" else {"model_dtype": dtype}),
            **({"idle": idle} if idle else {}),  # nodes without data
            "arrays": None
            if arrays is None
            else {key: list(shape) for key, shape in arrays.shapes.items()},
            "fingerprint": fingerprint() if fingerprint else None,
        },
        "design": design.describe(),
        "update": repr(update),
        "step_size": [repr(step_size) for step_size in step_sizes],
        "largest_weighted_smoothness": None if math.isnan(largest) else largest,
    }
