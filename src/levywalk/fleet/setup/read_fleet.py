"""Read a fleet from its folder, for an operator who has all of it and wants to merge the logs of
its nodes into a trace.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from levywalk.errors import InvalidSpec
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.built import BuiltProblem, node_code
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_data import linear_samples, read_shard
from levywalk.fleet.setup.node_file import NodeFile, node_files
from levywalk.fleet.setup.sparse_shard import stack_features
from levywalk.network import Network
from levywalk.privacy import Rescored
from levywalk.problem import Problem, problem_of


def fleet_of(folder: str | Path) -> Fleet:
    """Read a fleet from its folder with all nodes' data, to merge its logs.

    Only the operator who created it can do that.

    Examples
    --------
    >>> import tempfile
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.create import create
    >>> with tempfile.TemporaryDirectory() as name:
    ...     at = create(
    ...         Path(name) / "five",
    ...         lw.ring(5),
    ...         lw.homogeneous(5),
    ...         lw.mhlj(),
    ...         steps=100,
    ...         step_size="theory",
    ...     )
    ...     fleet_of(at).network
    Network('ring(5)', n=5, n_edges=5, self_loops='none')
    """
    folder = Path(folder)
    manifest = Manifest.read(folder / "manifest.json")
    nodes = node_files(folder, manifest.nodes)
    for node in nodes:
        if Manifest.read(node.manifest).digest != manifest.digest:
            raise InvalidSpec(
                f"{node.manifest}: this is not the fleet's manifest: copy {folder}/manifest.json "
                "there"
            )
    network = _network(folder, manifest, nodes)
    problem = _problem(manifest, nodes)
    known = _known(manifest, nodes, problem)
    return Fleet(
        network,
        problem,
        manifest.design,
        manifest.published,
        manifest.terms,
        tuple(part.bind(network, known).scores for part in manifest.design.phases),
        manifest.start,
        manifest.first_model(folder),
        manifest.seed,
        manifest.shared,
        None if known is problem else known,
        real=True,
        starts=manifest.starts,
    )


def _network(folder: Path, manifest: Manifest, nodes: list[NodeFile]) -> Network:
    edges = {(node.id, peer.id) for node in nodes for peer in node.neighbours}
    for v, u in sorted(edges):
        if (u, v) not in edges:
            raise InvalidSpec(
                f"{folder}: node {v} has node {u} as a neighbour, but not the other way round: "
                "correct one of the node files"
            )
    network = Network.from_edges(
        [edge for edge in sorted(edges) if edge[0] < edge[1]],
        n=manifest.nodes,
        self_loops=manifest.self_loops,
        name=manifest.network,
    )
    names = [node.name for node in nodes]
    return network if None in names else replace(network, labels=np.array(names))


def _known(manifest: Manifest, nodes: list[NodeFile], problem: Problem) -> Problem:
    """Return the problem with the L_v that nodes know under privacy."""
    privacy = manifest.published.privacy
    if privacy is None or privacy.privacy.scores == "public":
        return problem
    given = [node.score or 1.0 for node in nodes if node.id not in manifest.idle]
    return Rescored(problem, np.array(given))


def _problem(manifest: Manifest, nodes: list[NodeFile]) -> Problem:
    if manifest.code is not None:
        code = node_code(manifest.code, nodes[manifest.start])
        shards = [read_shard(node.data) for node in nodes]
        given = [node.score for node in nodes if node.score is not None]
        scores = np.array(given) if len(given) == len(nodes) else None
        return BuiltProblem(code, shards, scores=scores, names=manifest.code.metrics)
    assert manifest.loss is not None
    holders = [v for v in range(len(nodes)) if v not in manifest.idle]
    loss, count = manifest.loss, manifest.n_features
    parts = [linear_samples(nodes[v].data, loss, count) for v in holders]
    counts = [len(targets) for _, targets in parts]
    features = stack_features([rows for rows, _ in parts])
    targets = np.concatenate([targets for _, targets in parts])
    alike = sum(counts) == len(nodes) == len(holders)  # one sample at every node
    whose = None if alike else np.repeat(holders, counts)
    idle = "pass" if manifest.idle else "error"
    made = problem_of(features, targets, manifest.loss, whose, manifest.ridge, idle)
    return made.astype(f"float{8 * manifest.published.method.itemsize}")
