"""The data file of one node: its own samples, and those that it holds out for its metrics.

::

    features, targets             what the node learns from, one row per sample
    held_features, held_targets   what only its metrics use (npz, optional)

An npz file has these arrays. In a CSV file the targets are the last columns. What a loss of the
package uses must be a table of numbers, dense or sparse (`sparse_shard`); a model of a user's own
takes dense arrays of any shape.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from levywalk.archives import Archive
from levywalk.arrays import AnyArray, Floats
from levywalk.errors import InvalidData, LevywalkError, MissingFile
from levywalk.fleet.setup.sparse_shard import has_sparse, read_sparse
from levywalk.problem.files import load_dataset
from levywalk.problem.formats import format_of
from levywalk.problem.losses import Loss, SquaredErrors
from levywalk.problem.samples import clean_features, clean_targets
from levywalk.room import LARGEST_ARRAY

HELD = ("held_features", "held_targets")


def target_columns(loss: Loss) -> int:
    """Return the number of targets of a sample.

    Examples
    --------
    >>> import levywalk as lw
    >>> target_columns(lw.losses.softmax(3)), target_columns(SquaredErrors(3))
    (1, 3)
    """
    return loss.n_outputs if isinstance(loss, SquaredErrors) else 1


def linear_samples(path: Path, loss: Loss, n_features: int) -> tuple[Any, Floats]:
    """Return a node's features and targets for a problem made of samples and a loss.

    With several targets an npz file has a column for each in ``targets``, and a CSV file has them
    as its last columns. Sparse samples stay sparse, those of a LIBSVM file where it pays.
    """
    count = target_columns(loss)
    if format_of(path) == "npz" and path.is_file():
        sparse = _sparse_samples(path, n_features, several=count > 1)
        if sparse is not None:
            return sparse
    if count == 1:
        return load_dataset(path, dim=n_features)
    if format_of(path) == "npz":
        found = read_shard(path)
        try:
            features = clean_features(found.features)
            targets = clean_targets(found.targets, len(features), several=True)
        except InvalidData as error:
            raise InvalidData(f"{path}: {error}") from None
    else:
        table, last = load_dataset(path, dim=n_features + count - 1, dense=True)
        features = np.ascontiguousarray(table[:, : 1 - count])
        targets = np.column_stack([table[:, 1 - count :], last])
    if features.shape[1] != n_features:
        raise InvalidData(
            f"{path}: {n_features} features and {count} targets were expected, got "
            f"{features.shape[1]} features; the manifest says how many"
        )
    return features, targets


def _sparse_samples(path: Path, n_features: int, several: bool) -> tuple[Any, Floats] | None:
    """Return the samples of a file with sparse features; None if it has none."""
    with path.open("rb") as file:
        archive = Archive(file, str(path), InvalidData, LARGEST_ARRAY)
        if not has_sparse(archive):
            return None
        try:
            features, found = read_sparse(archive, n_features)
            return features, clean_targets(found, features.shape[0], several)
        except InvalidData as error:
            said = str(error)
            raise InvalidData(said if str(path) in said else f"{path}: {said}") from None


class Shard(NamedTuple):
    """The samples of one node, as its file has them; what is held out is None if there is none."""

    features: AnyArray
    targets: AnyArray
    held_features: AnyArray | None = None
    held_targets: AnyArray | None = None


def read_shard(path: Path) -> Shard:
    """Read the data file of one node: npz with any arrays of numbers, or CSV, or LIBSVM.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "node-0.npz"
    ...     np.savez(path, features=np.zeros((5, 8, 8), np.float32), targets=np.arange(5))
    ...     shard = read_shard(path)
    >>> shard.features.shape, shard.features.dtype, shard.held_features is None
    ((5, 8, 8), dtype('float32'), True)
    """
    if not path.is_file():
        raise MissingFile(f"{path} does not exist: put the node's data file there")
    try:
        if format_of(path) != "npz":
            return Shard(*load_dataset(path, dense=True))
        with path.open("rb") as file:
            archive = Archive(file, str(path), InvalidData, LARGEST_ARRAY)
            held = [archive.array(name) if name in archive.names else None for name in HELD]
            found = Shard(archive.array("features"), archive.array("targets"), *held)
    except InvalidData as error:
        said = str(error)
        raise InvalidData(said if str(path) in said else f"{path}: {said}") from None
    except (OSError, MemoryError) as error:
        raise InvalidData(
            f"{path}: cannot be read ({error}); give it to the user that runs the node"
        ) from None
    except LevywalkError:
        raise
    _check_rows(path, "", found.features, found.targets)
    if (found.held_features is None) != (found.held_targets is None):
        raise InvalidData(
            f"{path}: held_features and held_targets belong together; it has one of them"
        )
    if found.held_features is not None and found.held_targets is not None:
        _check_rows(path, "held_", found.held_features, found.held_targets)
        if found.held_features.shape[1:] != found.features.shape[1:]:
            raise InvalidData(
                f"{path}: held_features must have rows of shape {found.features.shape[1:]}, as "
                f"features has, got {found.held_features.shape[1:]}"
            )
    return found


def _check_rows(path: Path, prefix: str, features: AnyArray, targets: AnyArray) -> None:
    """Refuse arrays that do not have the same number of rows, and numbers that are not finite."""
    if features.ndim < 2 or targets.ndim < 1 or not len(features) or 0 in features.shape:
        raise InvalidData(
            f"{path}: {prefix}features must have one row per sample and at least one sample, got "
            f"the shapes {features.shape} and {targets.shape}; one feature is "
            "features.reshape(-1, 1)"
        )
    if len(features) != len(targets):
        raise InvalidData(
            f"{path}: {prefix}targets must have one entry per row of {prefix}features "
            f"({len(features)}), got {len(targets)}"
        )
    for name, array in (("features", features), ("targets", targets)):
        if not np.isfinite(array).all():
            raise InvalidData(
                f"{path}: {prefix}{name} must be finite, got NaN or infinity; drop such samples"
            )
