"""A node's own part of the problem: its samples, which no other node sees, and what it publishes
about them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levywalk.arrays import Ints
from levywalk.errors import InvalidData, InvalidParameter, LevywalkError
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_data import linear_samples
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.problem.files import load_dataset
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.samples import read_only


class OwnProblem(GeneralizedLinear):
    """One node's own samples and the run's loss: node 0 of a problem that has no other.

    Examples
    --------
    >>> import levywalk as lw
    >>> OwnProblem([[1.0], [2.0]], [1.0, 2.0], lw.losses.least_squares())
    OwnProblem(n=1, dim=1, samples=2, ridge=0.0)
    """

    def _assign(self, node: Ints | None) -> None:
        self.n = 1
        self.offsets = read_only(np.array([0, self.n_samples]))
        self.node = read_only(np.zeros(self.n_samples, dtype=np.int64))
        self.sorted_features, self.sorted_targets = self.features, self.targets


def own_problem(manifest: Manifest, nodefile: NodeFile) -> GeneralizedLinear | None:
    """Read a node's own data, as a problem with one node, which is node 0.

    A node that the manifest lists as one without data has none.

    The file is one that `levywalk.load_dataset` reads: npz with the arrays features and targets,
    CSV whose last column is the target, or LIBSVM.
    """
    path = nodefile.data
    if nodefile.id in manifest.idle:
        _require_empty(path, nodefile.id)
        return None
    try:
        features, targets = linear_samples(path, manifest.loss, manifest.n_features)
        return OwnProblem(features, targets, manifest.loss, ridge=manifest.ridge)
    except InvalidData as error:
        said = str(error).replace("node 0 ", f"node {nodefile.id} ")
        raise InvalidData(said if str(path) in said else f"{path}: {said}") from None
    except LevywalkError:
        raise
    except (OSError, MemoryError) as error:
        raise InvalidData(
            f"{path}: cannot be read ({error}); give it to the user that runs the node"
        ) from None


def _require_empty(path: Path, node: int) -> None:
    """Refuse samples that would never be used."""
    try:
        count = len(load_dataset(path)[1])
    except LevywalkError:
        return  # it is empty, missing, or no data file
    raise InvalidData(
        f"{path}: has {count} samples, but the manifest says that node {node} has no data; remove "
        "them, or create the fleet again with levywalk fleet init"
    )


def scores(manifest: Manifest, problem: GeneralizedLinear | None, degree: int) -> tuple[float, ...]:
    """Return the node's scores t_v by phase, which its neighbours must know: 1, L_v, λL̄ +
    (1-λ)L_v, or its degree. A node without data counts as one with L_v = L̄.
    """
    if problem is None:
        return manifest.scores(manifest.mean_smoothness, degree)
    if problem.n != 1:
        raise InvalidParameter(
            f"problem must have one node, got {problem.n} nodes; see own_problem"
        )
    return manifest.scores(float(problem.smoothness[0]), degree)
