"""The content of a manifest: what a fleet's nodes must know, as plain data."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import VERSION as DRAWS_VERSION
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.node_step import PublishedWalk, check_local
from levywalk.fleet.setup.built import BuiltProblem, tensors_of
from levywalk.fleet.setup.first_model import first_hash
from levywalk.fleet.setup.manifest_model import require_model_room
from levywalk.fleet.setup.privacy_terms import privacy_table
from levywalk.fleet.setup.update_check_terms import TABLE, check_table
from levywalk.memory import Sizes
from levywalk.problem import Problem, model_type
from levywalk.problem.losses import Loss
from levywalk.registry import to_dict
from levywalk.step import PublishedPhase
from levywalk.updates import Update
from levywalk.walks import Scores, Walk

if TYPE_CHECKING:
    from levywalk.fleet.setup.build import Fleet

FORMAT = 2


def content_of(fleet: Fleet, name: str, run: str, operator: bytes | None = None) -> dict[str, Any]:
    """Return what the nodes of a fleet must know, as plain data."""
    published, design, problem, terms = fleet.published, fleet.design, fleet.problem, fleet.terms
    check_real(design, published.update)
    private = published.method.privacy
    idle = [v for v in range(fleet.network.n) if fleet.index(v) < 0] if published.idle else []
    left_out = ("run", "start", *(() if published.remembers else ("memory_depth",)))
    return {
        "format": FORMAT,
        "run": run,
        "name": name,
        "operator": None if operator is None else operator.hex(),
        "network": {
            "name": fleet.network.name,
            "nodes": fleet.network.n,
            "self_loops": fleet.network.self_loops,
            **({"idle": idle} if idle else {}),
        },
        **_problem(problem, fleet.x0, fleet.mean_smoothness),
        "design": {"name": design.name, "recipe": to_dict("design", design)},
        "update": to_dict("update", published.update),
        "memory": memory_schema(published),
        "phases": [_phase(phase) for phase in published.phases],
        "walk": {
            "steps": published.steps,
            "stop": published.stop,
            "detector": None if published.detector is None else _fields_of(published.detector),
            "record_every": published.record_every,
            "start": fleet.start,
            **({"starts": list(fleet.starts)} if fleet.starts else {}),
        },
        "draws": {
            "version": DRAWS_VERSION,
            "seed": int(fleet.seed),
            "shared_key": fleet.shared_key,
        },
        "handoff": {key: value for key, value in _fields_of(terms).items() if key not in left_out},
        **({} if private is None else {"privacy": privacy_table(private)}),
        **({} if published.check is None else {TABLE: check_table(published.check)}),
    }


def _problem(problem: Problem, x0: Floats, mean: float) -> dict[str, Any]:
    """Return what nodes must know of the model and of the problem: a loss of the package, or a file
    that builds it.
    """
    dim = problem.dim
    if isinstance(problem, BuiltProblem):
        return {
            "model": {
                "arrays": tensors_of(problem.arrays, dim, problem.dtype.itemsize),
                "x0": first_hash(x0),
            },
            "problem": {"code": problem.code.to_dict(), "mean_smoothness": mean},
        }
    loss = getattr(problem, "sample_loss", None)
    if not isinstance(loss, Loss):
        raise InvalidParameter(
            f"problem must be made of samples and a loss, such as LeastSquares or Logistic, got "
            f"{type(problem).__name__}: a node computes its own loss; a problem of your own comes "
            "from a file that is installed at every node, see levywalk fleet init --model"
        )
    require_model_room(dim)
    ridge = float(problem.ridge)  # type: ignore[attr-defined]
    return {
        "model": {"dtype": model_type(problem).name, "shape": [dim], "x0": _first(x0, dim)},
        "problem": {"loss": to_dict("loss", loss), "ridge": ridge, "mean_smoothness": mean},
    }


def check_real(design: Walk, update: Update) -> None:
    """Refuse what real nodes cannot do yet, or never can, by its name."""
    check_local(design, update)
    for part in design.phases:
        if isinstance(part.target, Scores):
            raise InvalidParameter(
                f"target of design {part.name} must be uniform, importance, degree or mixed in a "
                "fleet, got "
                f"{part.target!r}: a node computes its own score"
            )


def memory_schema(published: PublishedWalk) -> list[dict[str, Any]]:
    """Return what travels with the model, as plain data: names, types and shapes, in the order of
    the bytes.
    """
    sizes = Sizes(published.dim, 0, 0)
    return [
        {"name": name, "dtype": np.dtype(kind.dtype).name, "shape": list(kind.shape(sizes))}
        for name, kind in published.token_memory.items()
    ]


def _first(x0: Floats, dim: int) -> list[float] | None:
    """Return the first model, or None for zeros."""
    if x0.shape != (dim,) or not np.isfinite(x0).all():
        raise InvalidParameter(f"x0 must be {dim} finite numbers, got {x0!r:.80}")
    return None if x0.tobytes() == np.zeros(len(x0)).tobytes() else [float(number) for number in x0]


def _phase(phase: PublishedPhase) -> dict[str, Any]:
    return {
        "mean_score": phase.mean_score,
        "step_size": to_dict("schedule", phase.step_size),
        "most": None if phase.most == math.inf else phase.most,
        "scaled": phase.scaled,
    }


def _fields_of(value: Any) -> dict[str, Any]:
    return {entry.name: getattr(value, entry.name) for entry in fields(value)}
