"""How a model of several named arrays is written: one safetensors header for all of them.

The manifest says names, type and shapes. They determine the header completely, so a header is
compared and never parsed. In memory a token's model is one vector of float64, whose numbers its own
type can hold, because each step is rounded to it (`levywalk.step`): nothing is lost.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.errors import InvalidData
from levywalk.problem.named import ModelArrays

_NAMES = {"float64": "F64", "float32": "F32"}  # as safetensors calls them
DTYPES = tuple(_NAMES)
_LARGEST_HEADER = 1 << 19  # bytes; a header is sent in one piece


class TensorSchema:
    """The arrays of a model as safetensors bytes.

    Examples
    --------
    >>> schema = TensorSchema(ModelArrays({"w": (2, 1), "b": ()}), "float32")
    >>> schema.nbytes, schema.header[8:59]
    (12, b'{"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0')
    >>> schema.decoded(schema.encoded(np.array([1.0, 2.0, 0.5])))
    array([1. , 2. , 0.5])
    """

    def __init__(self, arrays: ModelArrays, dtype: str = "float64") -> None:
        self.arrays, self.dtype = arrays, np.dtype(dtype)
        self.dim, self.nbytes = arrays.dim, self.dtype.itemsize * arrays.dim
        about: dict[str, Any] = {}
        at = 0
        for name, shape in arrays.shapes.items():
            size = self.dtype.itemsize * math.prod(shape)
            about[name] = {
                "dtype": _NAMES[self.dtype.name],
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
        return isinstance(other, TensorSchema) and self.header == other.header

    def __hash__(self) -> int:
        return hash(self.header)

    def __repr__(self) -> str:
        return f"TensorSchema({self.arrays.shapes!r}, {self.dtype.name!r})"

    def encoded(self, model: Floats) -> AnyArray | None:
        """Return the bytes of a model after the header, or None if its type cannot hold it."""
        with np.errstate(over="ignore"):
            found = np.ascontiguousarray(model, dtype=self.dtype.newbyteorder("<"))
        if self.dtype != np.float64 and not np.array_equal(found, model):
            return None
        return found.view(np.uint8)

    def decoded(self, content: AnyArray) -> Floats:
        """Return a model from its bytes after the header."""
        return content.view(self.dtype.newbyteorder("<")).astype(np.float64)
