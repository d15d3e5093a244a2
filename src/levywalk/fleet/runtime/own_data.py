"""A node's own part of the problem: its samples, which no other node sees, and what it publishes
about them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import Ints
from levywalk.errors import InvalidData, InvalidParameter, InvalidSpec, LevywalkError
from levywalk.fleet.setup.built import BuiltProblem, OwnMetrics, node_code, tensors_of
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.manifest_model import require_model_room
from levywalk.fleet.setup.model_code import ModelCode
from levywalk.fleet.setup.node_data import linear_samples, read_shard
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.problem import Problem
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.samples import read_only


class OwnProblem(GeneralizedLinear):
    """One node's own samples and the run's loss: node 0 of a problem that has no other.

    Examples
    --------
    >>> import levywalk as lw
    >>> OwnProblem([[1.0], [2.0]], [1.0, 2.0], lw.losses.least_squares())
    OwnProblem(n=1, dim=1, n_samples=2, ridge=0.0)
    """

    def _assign(self, node: Ints | None) -> None:
        self.n = 1
        self.offsets = read_only(np.array([0, self.n_samples]))
        self.node = read_only(np.zeros(self.n_samples, dtype=np.int64))
        self.sorted_features, self.sorted_targets = self.features, self.targets


def own_problem(manifest: Manifest, nodefile: NodeFile) -> Problem | None:
    """Return a node's own problem; see `own_part`."""
    return own_part(manifest, nodefile)[0]


def own_part(manifest: Manifest, nodefile: NodeFile) -> tuple[Problem | None, OwnMetrics | None]:
    """Read a node's own data, as a problem with one node, which is node 0, and its metrics.

    A node that the manifest lists as one without data has none.

    The file is one that `levywalk.load_dataset` reads: npz with the arrays features and targets,
    CSV whose last column is the target, or LIBSVM; or npz with sparse rows. For a model of a user's
    own the node's file of that model builds the problem, if it has the manifest's hash.
    """
    path = nodefile.data
    if nodefile.id in manifest.idle:
        _require_empty(path, nodefile.id, manifest)
        return None, None
    if manifest.code is not None:
        return _built(manifest, manifest.code, nodefile)
    assert manifest.loss is not None
    require_model_room(manifest.published.dim)
    try:
        features, targets = linear_samples(path, manifest.loss, manifest.n_features)
        return OwnProblem(features, targets, manifest.loss, ridge=manifest.ridge), None
    except InvalidData as error:
        said = str(error).replace("node 0 ", f"node {nodefile.id} ")
        raise InvalidData(said if str(path) in said else f"{path}: {said}") from None
    except LevywalkError:
        raise
    except (OSError, MemoryError) as error:
        raise InvalidData(
            f"{path}: cannot be read ({error}); give it to the user that runs the node"
        ) from None


def _built(
    manifest: Manifest, code: ModelCode, nodefile: NodeFile
) -> tuple[BuiltProblem, OwnMetrics | None]:
    """Build a node's own part of a user's own problem; it must have the manifest's arrays."""
    loaded = node_code(code, nodefile)
    shard = read_shard(nodefile.data)
    if shard.features.shape[1:] != code.sample:
        raise InvalidData(
            f"{nodefile.data}: a row of features must have the shape {code.sample}, as the "
            f"manifest says, got {shard.features.shape[1:]}"
        )
    scores = None if nodefile.score is None else np.array([nodefile.score])
    problem = BuiltProblem(loaded, [shard], scores=scores, names=code.metrics)
    found = tensors_of(problem.arrays, problem.dim, problem.dtype.itemsize)
    method = manifest.published.method
    expected = tensors_of(manifest.arrays, method.dim, method.itemsize)
    if found != expected:
        raise InvalidSpec(
            f"{code.function} of {loaded.path} makes a model with the arrays {_shown(found)} from "
            f"this node's data, but the manifest says {_shown(expected)}; the arrays must not "
            "depend on a node's own samples"
        )
    return problem, problem.own_metrics(0)


def _shown(tensors: list[dict[str, Any]]) -> str:
    """Return names, types and shapes of arrays in words."""
    return ", ".join(f"{one['name']} {one['dtype']}{one['shape']}" for one in tensors)


def _require_empty(path: Path, node: int, manifest: Manifest) -> None:
    """Refuse samples that would never be used."""
    assert manifest.loss is not None
    try:
        count = len(linear_samples(path, manifest.loss, manifest.n_features)[1])
    except LevywalkError:
        return  # it is empty, missing, or no data file
    raise InvalidData(
        f"{path}: has {count} samples, but the manifest says that node {node} has no data; remove "
        "them, or create the fleet again with levywalk fleet init"
    )


def scores(
    manifest: Manifest, problem: Problem | None, degree: int, released: float | None = None
) -> tuple[float, ...]:
    """Return the node's scores t_v by phase, which its neighbours must know: 1, L_v, λL̄ +
    (1-λ)L_v, or its degree. A node without data counts as one with L_v = L̄.

    Parameters
    ----------
    released
        L_v with noise, as the node file has it. Under privacy it takes the place of L_v, unless
        that is public.
    """
    if problem is None:
        return manifest.scores(manifest.mean_smoothness, degree)
    if problem.n != 1:
        raise InvalidParameter(
            f"problem must have one node, got {problem.n} nodes; see own_problem"
        )
    known = None if manifest.published.privacy is None else manifest.published.privacy.privacy
    if known is None or known.scores == "public":
        return manifest.scores(float(problem.smoothness[0]), degree)
    if known.scores == "private":
        return manifest.scores(1.0, degree)
    if released is None:
        raise InvalidSpec(
            "the node file must have the key score, L_v with the noise with which it was "
            "released; copy the file again from the fleet's folder"
        )
    return manifest.scores(released, degree)
