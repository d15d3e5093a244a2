"""A folder with one data file per node, and what nodes hold out of their samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.fleet.setup.node_data import Shard, read_shard
from levywalk.network import Network
from levywalk.problem.formats import _SUFFIXES as _FORMATS

_SHOWN = 5


def read_shards(folder: str | Path, network: Network) -> list[Shard]:
    """Read one data file per node: ``node-3.npz``, ``3.csv``, or a name such as ``oslo.npz``.

    Files with other suffixes than those of data files are left alone.

    Examples
    --------
    >>> import tempfile
    >>> import levywalk as lw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for v in range(3):
    ...         np.savez(Path(folder) / f"node-{v}.npz", features=np.ones((v + 2, 4)),
    ...                  targets=np.zeros(v + 2))
    ...     shards = read_shards(folder, lw.ring(3))
    >>> [len(shard.targets) for shard in shards]
    [2, 3, 4]
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidParameter(f"--data must name a folder with one file per node, got {folder}")
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.suffix.lower() not in _FORMATS:
            continue
        v = _node_of(path, network)
        if v in files:
            raise InvalidData(f"{folder}: node {v} has two files, {files[v].name} and {path.name}")
        files[v] = path
    missing = [v for v in range(network.n) if v not in files]
    if missing:
        shown = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        raise InvalidData(
            f"{folder}: no file for node{'s' if len(missing) > 1 else ''} {shown}; put "
            f"node-{missing[0]}.npz or node-{missing[0]}.csv there"
        )
    shards = [read_shard(files[v]) for v in range(network.n)]
    for v, shard in enumerate(shards):
        if shard.features.shape[1:] != shards[0].features.shape[1:]:
            raise InvalidData(
                f"all shards must have the same features, but a row has the shape "
                f"{shards[0].features.shape[1:]} in {files[0].name} and "
                f"{shard.features.shape[1:]} in {files[v].name}"
            )
        if shard.targets.shape[1:] != shards[0].targets.shape[1:]:
            raise InvalidData(
                f"all shards must have the same targets, but one has the shape "
                f"{shards[0].targets.shape[1:]} in {files[0].name} and {shard.targets.shape[1:]} "
                f"in {files[v].name}"
            )
    return shards


def _node_of(path: Path, network: Network) -> int:
    """Return the node whose samples a file has."""
    stem = path.name.partition(".")[0]
    if network.given_names is not None:
        found = int(network.numbers_of([stem])[0])
        if found >= 0:
            return found
    number = stem.removeprefix("node-")
    if number.isascii() and number.isdigit() and len(number) < 10 and int(number) < network.n:
        return int(number)
    raise InvalidData(
        f"{path} belongs to no node of the network, which has the nodes 0 to {network.n - 1}; call "
        "it node-0.npz, node-1.npz and so on, or move it away"
    )


def shards_of(features: Any, targets: Any, node: Ints, n: int) -> list[Shard]:
    """Return the samples of each node."""
    rows = [np.flatnonzero(node == v) for v in range(n)]
    return [Shard(features[own], targets[own]) for own in rows]


def with_held_out(shards: Sequence[Shard], share: float, seed: int) -> list[Shard]:
    """Let each node hold out a share of its samples, drawn at random, at least one.

    Examples
    --------
    >>> shard = Shard(np.arange(10.0).reshape(10, 1), np.arange(10))
    >>> kept = with_held_out([shard], 0.2, seed=0)[0]
    >>> len(kept.targets), len(kept.held_targets), sorted({*kept.targets, *kept.held_targets})
    (8, 2, [np.int64(0), np.int64(1), ..., np.int64(9)])
    """
    share = checks.real("--held-out", share, "above 0 and below 1", low=0.0, high=1.0)
    if not 0.0 < share < 1.0:
        raise InvalidParameter(f"--held-out must be above 0 and below 1, got {share!r}")
    found = []
    for v, shard in enumerate(shards):
        if shard.held_features is not None:
            raise InvalidParameter(
                f"--held-out cannot be given for shards that have held_features already, as node "
                f"{v} has; leave it out"
            )
        count = len(shard.features)
        if count < 2:
            raise InvalidData(
                f"node {v} has {count} sample and cannot hold one out; give it more, or leave "
                "--held-out out"
            )
        held = min(count - 1, max(1, round(share * count)))
        order = generator(seed, Domain.PARTITION, v).permutation(count)
        own, out = np.sort(order[held:]), np.sort(order[:held])
        parts = (shard.features[own], shard.targets[own], shard.features[out], shard.targets[out])
        found.append(Shard(*parts))
    return found


def read_scores(path: str | Path, n: int) -> Floats:
    """Read one positive number per node from a text file, in the order of the nodes."""
    try:
        values = np.loadtxt(Path(path), dtype=np.float64, ndmin=1)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise InvalidParameter(
            f"--scores must name a file with one number per line, got {str(path)!r}: {error}"
        ) from None
    if values.shape != (n,) or not np.isfinite(values).all() or (values <= 0).any():
        raise InvalidParameter(
            f"--scores {path} must hold {n} positive numbers, one per node, got {values.size}"
        )
    return values
