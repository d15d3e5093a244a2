"""``levywalk fleet init --model``: a problem that a user's own file builds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levywalk.fleet.setup.built import BuiltProblem
    from levywalk.fleet.setup.node_data import Shard
    from levywalk.network import Network


def own_model(
    model: str,
    data: str,
    network: Network,
    options: Mapping[str, Any],
    scores: Path | None,
    seed: int,
) -> BuiltProblem:
    """Build the problem of all nodes, from one file per node or from one file for all."""
    from levywalk.errors import InvalidParameter
    from levywalk.fleet.setup.built import built_problem
    from levywalk.fleet.setup.model_code import split_name
    from levywalk.fleet.setup.shards import read_scores, with_held_out

    path, function = split_name(model)
    options = dict(options)
    held_out = options.pop("held_out", None)
    shards = _shards(data, network, options, seed)
    if held_out is not None:
        shards = with_held_out(shards, held_out, seed)
    given = None if scores is None else read_scores(scores, network.n)
    problem = built_problem(path, function, shards, scores=given)
    if held_out is not None and not problem.code.metrics:
        raise InvalidParameter(
            f"--held-out keeps samples for metrics, but {path} has no function "
            "metrics(features, targets); add one, or leave --held-out out"
        )
    return problem


def _shards(data: str, network: Network, options: Mapping[str, Any], seed: int) -> list[Shard]:
    from levywalk.errors import InvalidParameter
    from levywalk.experiments.shorthand import read_problem_text
    from levywalk.experiments.sources import DATA_OPTIONS
    from levywalk.fleet.setup.shards import read_shards, shards_of
    from levywalk.problem.sparse_features import is_sparse

    strange = [DATA_OPTIONS[key] for key in options if key in ("loss", "ridge", "idle", "snr")]
    if strange:
        raise InvalidParameter(
            f"{', '.join(strange)} cannot be used with --model, whose file defines the problem; "
            "leave them out"
        )
    if Path(data).is_dir():
        if options:
            given = ", ".join(DATA_OPTIONS[key] for key in options)
            raise InvalidParameter(
                f"{given} cannot be used with a folder of shards, which are read as they "
                "are; leave them out"
            )
        return read_shards(data, network)
    if data in ("heterogeneous", "homogeneous", "private"):
        raise InvalidParameter(
            f"--model needs --data with a folder of shards or a data file, got --data {data}"
        )
    if data.endswith("/"):
        return read_shards(data, network)
    # The table is read as for the losses of the package; the ridge lets a node have zeros alone.
    table: Any = read_problem_text(data, network, seed=seed, options={**options, "ridge": 1.0})
    if is_sparse(table.features):
        raise InvalidParameter(
            f"--model takes dense features, and {data} stays sparse; add --dense, or use a loss of "
            "the package, such as --loss logistic, which keeps them sparse"
        )
    return shards_of(table.features, table.targets, table.node, network.n)


def print_model(folder: Path) -> None:
    """Say what every node must have before it starts."""
    from levywalk.fleet.setup.manifest import Manifest
    from levywalk.fleet.setup.node_file import NodeFile

    manifest = Manifest.read(folder / "manifest.json")
    code, schema = manifest.code, manifest.schema
    assert code is not None
    named = f"{manifest.published.dim} numbers"
    if schema is not None:
        shapes = schema.arrays.shapes.items()
        named = ", ".join(f"{name} {schema.dtype}{list(shape)}" for name, shape in shapes)
    print(f"Each node builds its model with {code.function} of {code.file}: {named}.")
    path = NodeFile.read(folder / "node-0" / "node.toml").model
    if path is not None and path.exists():
        print(f"The nodes on this machine use {path}; do not change it while the fleet runs.")
    else:
        print(f"Install {code.file} beside each node.toml, on every machine; it is not copied.")
    print(f"A node starts only if its sha256 is {code.sha256}")
    if code.metrics and manifest.published.privacy is not None:
        print(f"Metrics are off, because of privacy: {', '.join(code.metrics)}")
    elif code.metrics:
        print(f"Metrics of each node on its own held-out data: {', '.join(code.metrics)}")
