"""The first model of a user's own problem: a file beside the manifest, which has its hash.

It may be larger than a manifest, and only the node where the walk begins needs it.
"""

from __future__ import annotations

from pathlib import Path

from levywalk.arrays import Floats
from levywalk.errors import InvalidSpec, MissingFile
from levywalk.fleet.protocol.schema import TensorSchema
from levywalk.fleet.protocol.tensors import CHUNK, Incoming, Malformed, Tensor
from levywalk.fleet.protocol.update_check import model_hash
from levywalk.whole_files import write_whole

FIRST_MODEL = "x0.safetensors"
_NAME = "model"


def first_hash(x0: Floats) -> str:
    """Return the SHA-256 of a model's numbers as float64.

    Examples
    --------
    >>> import numpy as np
    >>> first_hash(np.zeros(1))
    'af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc'
    """
    return model_hash(x0)


def write_first_model(folder: Path, x0: Floats, schema: TensorSchema | None) -> None:
    """Write the first model into a folder, as safetensors in its own types."""
    write_whole(folder / FIRST_MODEL, b"".join(Tensor(_NAME, x0, schema).chunks()))


def read_first_model(folder: Path, sha256: str, dim: int, schema: TensorSchema | None) -> Floats:
    """Read the first model beside a manifest, and compare its hash with the manifest's."""
    path = folder / FIRST_MODEL
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            incoming = Incoming(_NAME, size, dim, hashed=False, schema=schema)
            while chunk := file.read(CHUNK):
                incoming.take(chunk)
        found: Floats = incoming.done()
    except FileNotFoundError:
        raise MissingFile(
            f"{path} does not exist: the walk begins here with the model in this file; copy it "
            "from the fleet's folder"
        ) from None
    except (OSError, Malformed) as error:
        raise InvalidSpec(f"{path}: {error}; copy it again from the fleet's folder") from None
    if first_hash(found) != sha256:
        raise InvalidSpec(
            f"{path}: not the first model of this fleet, whose hash the manifest has; copy it "
            "again from the fleet's folder"
        )
    return found
