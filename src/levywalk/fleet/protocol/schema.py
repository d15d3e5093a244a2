"""How a model of several named arrays is written: one safetensors header for all of them.

The manifest says names, types and shapes. They determine the header completely, so a header is
compared and never parsed. In memory a model is one vector of float64, whose numbers its own types
can hold (`levywalk.problem.named`), so that writing and reading lose nothing.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.errors import InvalidData
from levywalk.problem.named import ModelArrays

_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16"}  # as safetensors calls them
_LARGEST_HEADER = 1 << 19  # bytes; a header is sent in one piece


class TensorSchema:
    """The arrays of a model as safetensors bytes.

    Examples
    --------
    >>> schema = TensorSchema(ModelArrays({"w": (2, 1), "b": ()}, "float32"))
    >>> schema.nbytes, schema.header[8:59]
    (12, b'{"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0')
    >>> schema.decoded(schema.encoded(np.array([1.0, 2.0, 0.5])))
    array([1. , 2. , 0.5])
    """

    def __init__(self, arrays: ModelArrays) -> None:
        self.arrays, self.dim, self.nbytes = arrays, arrays.dim, arrays.nbytes
        about: dict[str, Any] = {}
        at = 0
        for name, shape in arrays.shapes.items():
            kind = arrays.dtypes[name]
            size = kind.itemsize * int(np.prod(shape, dtype=np.int64))
            about[name] = {
                "dtype": _NAMES[kind.name],
                "shape": list(shape),
                "data_offsets": [at, at + size],
            }
            at += size
        text = json.dumps(about, separators=(",", ":")).encode()
        text = text.ljust(-(-len(text) // 8) * 8)
        if len(text) > _LARGEST_HEADER:
            raise InvalidData(
                f"a model's names and shapes must take at most {_LARGEST_HEADER} bytes, got "
                f"{len(text)}; use fewer arrays"
            )
        self.header = struct.pack("<Q", len(text)) + text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSchema) and self.arrays == other.arrays

    def __hash__(self) -> int:
        return hash(self.header)

    def __repr__(self) -> str:
        return f"TensorSchema({self.arrays!r})"

    def encoded(self, model: Floats) -> AnyArray | None:
        """Return the bytes of a model after the header, or None if its types cannot hold it."""
        if self.arrays.exact:
            return np.ascontiguousarray(model, dtype="<f8").view(np.uint8)
        if not np.array_equal(self.arrays.rounded(model), model):
            return None
        pieces = [
            np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
            for array in self.arrays.unpack(model).values()
        ]
        return np.frombuffer(b"".join(pieces), np.uint8)

    def decoded(self, content: AnyArray) -> Floats:
        """Return a model from its bytes after the header."""
        pieces, at = [], 0
        for name, shape in self.arrays.shapes.items():
            kind = self.arrays.dtypes[name]
            size = kind.itemsize * int(np.prod(shape, dtype=np.int64))
            piece = content[at : at + size].view(kind.newbyteorder("<"))
            pieces.append(piece.astype(np.float64))
            at += size
        return np.concatenate(pieces)
