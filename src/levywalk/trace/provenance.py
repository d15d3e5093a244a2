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
from levywalk.registry import to_dict
from levywalk.schedule import Schedule
from levywalk.updates import Update
from levywalk.version import __version__
from levywalk.walks import Walk


def provenance_of(
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
    """Return versions, seed, network, problem, design, update and step sizes as plain data.

    Each part has its recipe (`levywalk.registry.from_dict` makes the part again), or None if it is
    not registered.

    Examples
    --------
    >>> import levywalk as lw
    >>> parts = lw.ring(5), lw.homogeneous(5), lw.mhlj(), lw.sgd(), [lw.Constant(0.1)]
    >>> found = provenance_of(*parts, 1.0, backend="reference", seed=0, steps=10, replicas=1)
    >>> found["network"]["recipe"], found["update"]["recipe"]
    ({'kind': 'ring', 'n': 5, 'self_loops': 'none'}, {'kind': 'sgd', 'minibatch': None})
    """
    fingerprint = getattr(problem, "fingerprint", None)
    given = getattr(problem, "named", problem)
    loss = getattr(problem, "sample_loss", None)  # of a problem made of samples
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
            "recipe": to_dict("network", network, strict=False),
        },
        "problem": {
            "kind": type(given).__name__,
            "dim": problem.dim,
            **({"l1": problem.l1} if has_l1(problem) else {}),  # type: ignore[attr-defined]
            **({} if dtype == "float64" else {"model_dtype": dtype}),
            **({"idle": idle} if idle else {}),  # nodes without data
            "arrays": None
            if arrays is None
            else {key: list(shape) for key, shape in arrays.shapes.items()},
            "fingerprint": fingerprint() if fingerprint else None,
            "loss": None if loss is None else part_record("loss", loss),
            "recipe": to_dict("data", given, strict=False),
        },
        "design": design.describe(),
        "update": part_record("update", update),
        "step_size": [part_record("schedule", step_size) for step_size in step_sizes],
        "largest_weighted_smoothness": None if math.isnan(largest) else largest,
    }


def part_record(kind: str, part: Any) -> dict[str, Any]:
    """Return a part of a run as text, and its recipe, or None if it is not registered.

    Examples
    --------
    >>> import levywalk as lw
    >>> part_record("update", lw.sgd(minibatch=8))
    {'text': 'Sgd(minibatch=8)', 'recipe': {'kind': 'sgd', 'minibatch': 8}}
    """
    return {"text": repr(part), "recipe": to_dict(kind, part, strict=False)}


def text_of(part: Any) -> str | None:
    """Return the text of a part; traces of earlier versions hold nothing else.

    Examples
    --------
    >>> text_of({"text": "Sgd(minibatch=8)", "recipe": None}), text_of("Sgd(minibatch=8)")
    ('Sgd(minibatch=8)', 'Sgd(minibatch=8)')
    """
    found = part.get("text") if isinstance(part, dict) else part
    return None if found is None else str(found)


def is_plain_sgd(update: Any) -> bool:
    """Return whether the update of a trace's provenance is SGD on all samples of a node.

    Examples
    --------
    >>> import levywalk as lw
    >>> [is_plain_sgd(part_record("update", sgd)) for sgd in (lw.sgd(), lw.sgd(2))]
    [True, False]
    """
    if isinstance(update, dict):
        return bool(update.get("recipe") == {"kind": "sgd", "minibatch": None})
    return bool(update == "Sgd(minibatch=None)")  # a trace of an earlier version
